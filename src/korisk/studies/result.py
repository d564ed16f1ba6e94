"""What a study is made of: tasks to run, and what each of them gives."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOUND_AT = "found_at"  # the part of a spec that may change: files can be moved
LEFT_OUT = "left out"  # a last layer that holds what no layer before it can account for


@dataclass(frozen=True, kw_only=True)
class Task:
    """One cell of a study: a point and a seed, with all its training set sizes inside.

    `spec` holds everything that its numbers depend on, the seed apart, as plain JSON values; and
    under FOUND_AT where something lies whose contents it names elsewhere.

    >>> from korisk.studies import Task
    >>> task = Task(point="128 pixels", seed=1, spec={"side": 128, "views": 60})
    >>> other = Task(point="128 pixels", seed=2, spec={"views": 60, "side": 128})
    >>> task.key, task.spec_hash == other.spec_hash
    ('128 pixels, seed 1', True)
    """

    point: str
    seed: int
    spec: Mapping[str, Any]

    @property
    def key(self) -> str:
        """What the cell is called, in stores and in messages."""
        return f"{self.point}, seed {self.seed}"

    @cached_property
    def spec_hash(self) -> str:
        """A fingerprint of `spec`, the same whatever the order of its keys."""
        counted = {name: value for name, value in self.spec.items() if name != FOUND_AT}
        text = json.dumps(counted, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one model reached with n training samples; n = 0 is before any training.

    >>> from korisk.studies import Row
    >>> Row(model="KO", n=64, metrics={"mse": 0.1})
    Row(model='KO', n=64, metrics={'mse': 0.1}, detail={})
    """

    model: str
    n: int
    metrics: Mapping[str, float]
    detail: Mapping[str, Any] = field(default_factory=dict)  # plain JSON: lambda, seconds, ...


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a cell gives: rows of figures, and arrays to draw from later.

    >>> from korisk.studies import Result, Row
    >>> made = Result(rows=(Row(model="KO", n=64, metrics={"mse": 0.1}),))
    >>> len(made.rows), made.arrays
    (1, {})
    """

    rows: tuple[Row, ...]
    arrays: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)  # of the cell as a whole
