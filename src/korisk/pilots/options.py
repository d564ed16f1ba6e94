"""The identity of a pilot's model, and checks of its options."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from korisk import _checks
from korisk._checks import LARGEST_N, require
from korisk.curves.stored import LONGER, PART_OF
from korisk.errors import Argument, KoriskError, Message, invalid
from korisk.pilots.fit import Fit
from korisk.store.cells import Task
from korisk.store.store import Store, difference

_SHORT_NAME = "give it a short name"


@dataclass(frozen=True, kw_only=True)
class PilotModel:
    """Identity of a model: only the same model with the same settings continues its results.

    Parameters
    ----------
    name : str, optional
        Name of the model. Default: the name of the fit.
    settings : mapping, optional
        Plain values that the results depend on; a store rejects other values for the same model.
    study : str, default "pilot"
        Name of the study; a store holds models of one study.

    Raises
    ------
    KoriskError
        If a name is not printable, or a setting is not a plain value.

    Examples
    --------
    >>> import korisk as kr
    >>> kr.pilots.PilotModel(name="U-Net", settings={"depth": 4}).settings
    {'depth': 4}
    """

    name: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    study: str = "pilot"

    def __post_init__(self) -> None:
        for field_name, text in (("name", self.name), ("study", self.study)):
            if text is not None:
                _checks.name(field_name, text, remedy=_SHORT_NAME)
        settings: object = self.settings
        if isinstance(settings, Mapping) and all(isinstance(key, str) for key in settings):
            with suppress(TypeError, ValueError, RecursionError):
                # As JSON returns them, to be compared with settings that were stored.
                plain = {key: _plain(value) for key, value in settings.items()}
                object.__setattr__(self, "settings", plain)
                return
        remedy = "give numbers, texts, lists and dicts of these"
        raise invalid("settings", "be a dict of plain values by name", self.settings, remedy)

    @classmethod
    def of(cls, model: "str | PilotModel | None") -> "PilotModel":
        """A `PilotModel` from a name, or unchanged.

        Parameters
        ----------
        model : str, PilotModel or None
            None: the name of the fit.

        Returns
        -------
        PilotModel
        """
        if isinstance(model, PilotModel):
            return model
        return cls(name=None if model is None else _checks.name("model", model, remedy=_SHORT_NAME))


def checked_longer(
    longer: object, fit: Callable[..., object], signature: str = "n, seed"
) -> float | None:
    """The factor of a longer run; raise unless it is above 1 and the fit takes the keyword."""
    if longer is None:
        return None
    factor = _checks.real("longer", longer, above=1, remedy="3 trains three times as long")
    try:
        inspect.signature(fit).bind(*signature.split(", "), **{LONGER: factor})
    except (TypeError, ValueError):  # some functions written in C have no signature
        advice = f"write def fit({signature}, longer=1.0) and train longer times as many steps, or "
        remedy = Message(advice, "leave out ", Argument("longer", ...))
        raise invalid("fit", "take the keyword longer", fit, remedy) from None
    return factor


@dataclass(frozen=True)
class Identity:
    """Names and settings by which a store compares fits."""

    study: str
    model: str
    fit: str  # qualified name of the function
    settings: Mapping[str, object]

    @classmethod
    def of(cls, fit: Fit, model: PilotModel) -> "Identity":
        """The identity of a fit and its model."""
        require(callable(fit), "fit", "be a function of n and seed", fit, "pass one")
        fit_name, bound = own_name(fit)
        name = short_name(fit_name) if model.name is None else model.name
        return cls(model.study, name, fit_name, dict(model.settings) | bound)

    def task(self, n: int, seed: int, longer: float | None = None) -> Task:
        """The cell of one fit, possibly trained longer."""
        spec: dict[str, object] = {PART_OF: self.model, "n": n, "fit": self.fit}
        spec["settings"] = dict(self.settings)
        point = f"{self.model}, n = {n}"
        if longer is not None:
            spec[LONGER] = longer
            point += f", {longer:g} times the training"
        return Task(point=point, seed=seed, spec=spec)

    def check(self, store: Store) -> None:
        """Raise if a store has results of this model with other settings."""
        for spec in [cell.task.spec for cell in store.results()]:
            # The same n and factor, so that only name and settings can differ.
            expected = self.task(spec.get("n", 0), 0, spec.get(LONGER))
            if (
                spec.get(PART_OF) == self.model
                and expected.spec_hash != Task(point="", seed=0, spec=spec).spec_hash
            ):
                name, old, new = difference(spec, expected.spec)
                raise KoriskError(
                    f"{store.path}: {name} of model {self.model!r} is {old} in the store and {new} "
                    "now, so the results do not belong together; give another ",
                    Argument("model", ...),
                    " to keep both there, or another ",
                    Argument("store", ...),
                )


def own_name(fit: Callable[..., object]) -> tuple[str, dict[str, object]]:
    """Qualified name of a function, and the plain values bound to it by `functools.partial`."""
    inner: object = fit
    bound: dict[str, object] = {}
    # Bound values are settings, too: another value is another model.
    while isinstance(inner, partial):
        for key, value in (dict(enumerate(inner.args)) | inner.keywords).items():
            with suppress(TypeError, ValueError, RecursionError):
                bound.setdefault(f"partial {key}", _plain(value))
        inner = inner.func
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return str(name), bound


def short_name(name: str) -> str:
    """Last component of a qualified name; `lambda` for an anonymous function."""
    return re.sub(r"[<>]", "", name.rpartition(".")[2])[:80] or "fit"


def checked_sizes(sizes: Iterable[int]) -> list[int]:
    """Training set sizes; raise unless they are whole numbers from 2, ascending."""
    remedy = "give a list of ascending N; three or more make a plan"
    try:
        listed = list(sizes)
    except TypeError:
        raise invalid("sizes", "be a list", sizes, remedy) from None
    valid = [
        _checks.count("sizes", n, at_least=2, at_most=LARGEST_N, remedy=remedy) for n in listed
    ]
    ascending = bool(valid) and valid == sorted(set(valid))
    require(ascending, "sizes", "be in ascending order", valid, remedy)
    return valid


def _plain(value: object) -> Any:
    """A value as JSON would return it, including NumPy scalars; raise if it is not plain."""
    return json.loads(json.dumps(value, allow_nan=False, default=np.generic.item))
