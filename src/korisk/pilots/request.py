"""What a pilot is asked to do: checked once, here, and turned into cells of a study."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from korisk import _checks
from korisk.curves.curve import LARGEST_N
from korisk.errors import KoriskError, shown
from korisk.pilots.fit import Fit
from korisk.studies.result import Task
from korisk.studies.results import PART_OF
from korisk.studies.store.store import Store, difference


@dataclass(frozen=True)
class Identity:
    """Whose results these are: only the same model may continue them."""

    name: str  # of the study, one to a store
    model: str
    fit: str  # the function's own name
    settings: Mapping[str, Any]

    @classmethod
    def of(
        cls, fit: Fit, name: str, model: str | None, settings: Mapping[str, Any] | None
    ) -> "Identity":
        """The identity of a fit, as its user names it."""
        if not callable(fit):
            raise KoriskError(f"fit must be a function of n and seed, got {shown(fit)}; pass one")
        own, bound = own_name(fit)
        remedy = "give it a short name"
        return cls(
            name=_checks.name("name", name, remedy=remedy),
            model=_checks.name("model", short_name(own) if model is None else model, remedy=remedy),
            fit=own,
            settings=plain_settings(settings) | bound,
        )

    def task(self, n: int, seed: int) -> Task:
        """The cell of one fit."""
        spec = {PART_OF: self.model, "n": n, "fit": self.fit, "settings": dict(self.settings)}
        return Task(point=f"{self.model}, n = {n}", seed=seed, spec=spec)

    def check(self, path: Path) -> None:
        """Refuse a store with results of another study, or of this model under other settings."""
        if not path.exists():
            return
        with Store.read(path) as store:
            store.check_name(self.name)
            specs = [cell.task.spec for cell in store.results()]
        for spec in specs:
            mine = self.task(spec.get("n", 0), 0)
            if (
                spec.get(PART_OF) == self.model
                and mine.spec_hash != Task(point="", seed=0, spec=spec).spec_hash
            ):
                name, old, new = difference(spec, mine.spec)
                raise KoriskError(
                    f"{path}: {name} of model {self.model!r} is {old} in the store and {new} now, "
                    "so the results do not belong together; give another model= to keep both "
                    "there, or another store="
                )


def own_name(fit: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """A function's own name, and the plain values that `functools.partial` has bound to it."""
    inner: Any = fit
    bound: dict[str, Any] = {}
    while isinstance(inner, partial):
        for key, value in (dict(enumerate(inner.args)) | inner.keywords).items():
            with suppress(TypeError, ValueError, RecursionError):
                bound.setdefault(f"partial {key}", _plain(value))
        inner = inner.func
    known = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return str(known), bound


def _plain(value: Any) -> Any:
    """A value as JSON has it, scalars of NumPy included; raises where JSON has none."""
    return json.loads(json.dumps(value, allow_nan=False, default=np.generic.item))


def short_name(name: str) -> str:
    """The last part of a qualified name; `lambda` for one without a name."""
    return re.sub(r"[<>]", "", name.rpartition(".")[2])[:80] or "fit"


def plain_settings(settings: Any) -> dict[str, Any]:
    """A copy of the user's settings as plain JSON values."""
    if settings is None:
        return {}
    if isinstance(settings, Mapping) and all(isinstance(key, str) for key in settings):
        with suppress(TypeError, ValueError, RecursionError):
            return {key: _plain(value) for key, value in settings.items()}
    raise KoriskError(
        f"settings must be a dict of plain values by name, got {shown(settings)}; give numbers, "
        "texts, lists and dicts of these"
    )


def check_options(
    *, store: object, metric: object, cost: object, workers: object, watch: object
) -> None:
    """Refuse options of the wrong type before anything starts."""
    if store is not None and (not isinstance(store, str | PathLike) or not str(store)):
        raise KoriskError(f"store must be the name of a file, got {shown(store)}; pass 'pilot.db'")
    if metric is not None:
        _checks.name("metric", metric, remedy="name one that fit returns")
    for name, value in (("cost", cost), ("watch", watch)):
        if value is not None and not callable(value):
            raise KoriskError(f"{name} must be a function, got {shown(value)}; or leave it out")
    if workers is not None:
        _checks.count("workers", workers, at_least=0, remedy="0 runs fits in this process")


def checked_sizes(sizes: Iterable[int]) -> list[int]:
    """Training set sizes: whole numbers from 2, ascending."""
    remedy = "give a list of ascending N; three or more make a plan"
    if not isinstance(sizes, Iterable):
        raise KoriskError(f"sizes must be a list, got {shown(sizes)}; {remedy}")
    found = [_checks.count("sizes", n, at_least=2, at_most=LARGEST_N, remedy=remedy) for n in sizes]
    if not found or found != sorted(set(found)):
        raise KoriskError(f"sizes must be in ascending order, got {shown(found)}; {remedy}")
    return found


def checked_seeds(seeds: int | Iterable[int]) -> list[int]:
    """Seeds: a count, from 0 on, or a list."""
    remedy = "give a count, or a list of whole numbers"
    if not isinstance(seeds, Iterable):
        return list(range(_checks.count("seeds", seeds, at_least=1, at_most=10_000, remedy=remedy)))
    most = 2**63 - 1
    found = [_checks.count("seeds", s, at_least=0, at_most=most, remedy=remedy) for s in seeds]
    if not found or len(set(found)) < len(found):
        raise KoriskError(f"seeds must be one or more, each once, got {shown(found)}; {remedy}")
    return found


@dataclass(frozen=True)
class Limits:
    """When a pilot ends; `last` is the largest of the given sizes."""

    target: float | None
    grow: bool
    largest: int | None
    narrow_enough: float
    budget: float | None
    most_fits: int | None
    last: int

    def __post_init__(self) -> None:
        remedy = "or leave it out"
        if self.target is not None:
            _checks.real("target", self.target, remedy=remedy)
        if self.largest is not None:
            least, most = self.last, LARGEST_N
            _checks.count("largest", self.largest, at_least=least, at_most=most, remedy=remedy)
        _checks.real("narrow_enough", self.narrow_enough, above=1, remedy="2.0 is a factor of 2")
        if self.budget is not None:
            _checks.real("budget", self.budget, above=0, remedy=remedy)
        if self.most_fits is not None:
            _checks.count("most_fits", self.most_fits, at_least=1, at_most=10**6, remedy=remedy)
        endless = self.largest is self.budget is self.most_fits is None
        if self.growing and (self.target is None or endless):
            raise KoriskError(
                "a pilot that grows must have a target and an end, got none; pass target= (the "
                "error that you want to reach), and largest=, budget= or most_fits="
            )

    @property
    def growing(self) -> bool:
        """Whether sizes are added to the given ones."""
        return self.grow or self.largest is not None
