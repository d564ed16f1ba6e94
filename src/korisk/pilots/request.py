"""What a pilot is asked to do: checked once, here, and turned into cells of a study."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
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
from korisk.studies.store.store import Store

MOST_FITS = 1_000_000


@dataclass(frozen=True)
class Identity:
    """Whose results these are: they may be taken up again by the same alone."""

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
            held = store.study.get("name")
            cells = store.results()
            specs = [c.task.spec for c in cells if c.task.spec.get(PART_OF) == self.model]
        if held != self.name:
            raise KoriskError(
                f"{path}: store= holds the study {held!r}, and this one is {self.name!r}; "
                f"give another store=, or name={held!r} if it is the same"
            )
        for spec in specs:
            if spec["fit"] != self.fit:
                self._refuse(path, "fit", spec["fit"], self.fit)
            self._compare(path, spec["settings"])

    def _compare(self, path: Path, known: Mapping[str, Any]) -> None:
        mine = self.settings
        for key in sorted({*known, *mine}):
            if key not in known or key not in mine or _text(known[key]) != _text(mine[key]):
                old, new = (each.get(key, _Nothing()) for each in (known, mine))
                self._refuse(path, f"settings[{key!r}]", old, new)

    def _refuse(self, path: Path, what: str, old: object, new: object) -> None:
        raise KoriskError(
            f"{path}: {what} of model {self.model!r} is {shown(old)} in the store and {shown(new)} "
            "now, and such results do not belong together; "
            "give another model= to keep both there, or another store="
        )


class _Nothing:
    def __repr__(self) -> str:
        return "not there"


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def own_name(fit: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """A function's own name, and the plain values that `functools.partial` has bound to it."""
    inner: Any = fit
    bound: dict[str, Any] = {}
    while isinstance(inner, partial):
        given = dict(enumerate(inner.args)) | inner.keywords
        plain = {f"partial {k}": _unwrapped(v) for k, v in given.items()}
        bound = {k: v for k, v in plain.items() if _is_plain(v)} | bound
        inner = inner.func
    known = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return str(known), bound


def _unwrapped(value: Any) -> Any:
    """Scalars of NumPy as Python's, also within lists and dicts."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: _unwrapped(entry) for key, entry in value.items()}
    return [_unwrapped(entry) for entry in value] if isinstance(value, list | tuple) else value


def short_name(name: str) -> str:
    """The last part of a qualified name; `lambda` for one without a name."""
    return re.sub(r"[<>]", "", name.rpartition(".")[2])[:80] or "fit"


def _is_plain(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def plain_settings(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy of what the user names, as plain JSON values."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise KoriskError(f"settings must be a dict, got {shown(settings)}; name each value")
    for key, value in settings.items():
        if not _is_plain({key: value}) or str(key) != key:
            raise KoriskError(
                f"settings must hold plain values by name, got {shown(key)}: {shown(value)}; "
                "give numbers, texts, lists and dicts of these"
            )
    copied: dict[str, Any] = json.loads(json.dumps(dict(settings)))  # what is given may change
    return copied


def check_options(
    *, store: object, metric: object, cost: object, workers: object, watch: object
) -> None:
    """Refuse options of the wrong kind before anything starts."""
    if store is not None and (not isinstance(store, str | PathLike) or not str(store)):
        raise KoriskError(f"store must be the name of a file, got {shown(store)}; pass 'pilot.db'")
    if metric is not None:
        _checks.name("metric", metric, remedy="name one that fit returns")
    for name, given in (("cost", cost), ("watch", watch)):
        if given is not None and not callable(given):
            raise KoriskError(f"{name} must be a function, got {shown(given)}; or leave it out")
    if workers is not None:
        _checks.count("workers", workers, at_least=0, remedy="0 runs fits in this process")


def checked_sizes(sizes: Iterable[int]) -> list[int]:
    """Training set sizes: whole numbers from 2, ascending."""
    if isinstance(sizes, str | bytes) or not isinstance(sizes, Iterable):
        raise KoriskError(f"sizes must be a list of whole numbers, got {shown(sizes)}; pass a list")
    remedy = "count the training samples"
    found = [_checks.count("sizes", n, at_least=2, at_most=LARGEST_N, remedy=remedy) for n in sizes]
    if not found:
        raise KoriskError("sizes must name at least one N, got none; three or more make a plan")
    if any(later <= earlier for earlier, later in pairwise(found)):
        raise KoriskError(f"sizes must ascend, each N once, got {shown(found)}; sort them")
    return found


def checked_seeds(seeds: int | Iterable[int]) -> list[int]:
    """Seeds: so many, from 0 on, or those in a list."""
    remedy = "give a count, or a list of whole numbers"
    if not isinstance(seeds, Iterable):
        return list(range(_checks.count("seeds", seeds, at_least=1, at_most=10_000, remedy=remedy)))
    if isinstance(seeds, str | bytes):
        raise KoriskError(f"seeds must be whole numbers, got {shown(seeds)}; {remedy}")
    most = 2**63 - 1
    found = [_checks.count("seeds", s, at_least=0, at_most=most, remedy=remedy) for s in seeds]
    if not found or len(set(found)) < len(found):
        raise KoriskError(f"seeds must be one or more, each once, got {shown(found)}; {remedy}")
    return found


@dataclass(frozen=True)
class Limits:
    """When a pilot ends."""

    target: float | None = None
    grow: bool = False
    largest: int | None = None
    narrow_enough: float = 2.0
    budget: float | None = None
    most_fits: int | None = None

    @classmethod
    def checked(
        cls,
        *,
        target: float | None,
        grow: bool,
        largest: int | None,
        narrow_enough: float,
        budget: float | None,
        most_fits: int | None,
        last: int,
    ) -> "Limits":
        """Limits that make sense together; `last` is the largest of the given sizes."""
        seconds, remedy = "give seconds of fitting", "give the largest N to measure"
        if target is not None:
            _checks.real("target", target, remedy="give the error that you want to reach")
        if largest is not None:
            _checks.count("largest", largest, at_least=last, at_most=LARGEST_N, remedy=remedy)
        _checks.real("narrow_enough", narrow_enough, above=1, remedy="2.0 is within a factor of 2")
        if budget is not None:
            _checks.real("budget", budget, above=0, remedy=seconds)
        if most_fits is not None:
            remedy = "say how many fits there may be in all"
            _checks.count("most_fits", most_fits, at_least=1, at_most=MOST_FITS, remedy=remedy)
        growing = grow or largest is not None
        if growing and target is None:
            raise KoriskError(
                "a pilot that grows must have a target, got None; pass target=, the error that "
                "you want to reach, or leave out grow= and largest="
            )
        if growing and largest is None and budget is None and most_fits is None:
            raise KoriskError(
                "a pilot that grows must have an end, got grow=True alone; "
                "pass largest=, budget= or most_fits= too"
            )
        return cls(target, growing, largest, narrow_enough, budget, most_fits)
