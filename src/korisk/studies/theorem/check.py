"""One network's measured error against the bounds that its layers' measured errors give."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from korisk import _checks
from korisk.errors import KoriskError, shown
from korisk.studies.result import Row
from korisk.studies.store.store import Cell
from korisk.theory import BOUNDS, Bound, Known, BoundForm, Network, deep_risk
from korisk.theory.network_file import from_dict

# Errors are measured in single precision, as differences of numbers that may be a thousand times
# as large: 1e-7 times 1e3. What lies within that cannot be told from rounding.
MEASURED = 1e-4
# The bounds are computed from the same numbers in double precision.
COMPUTED = 1e-9

DETAIL = "theorem"
_REMEDY = "a cell must store what it measured"


@dataclass(frozen=True)
class Spread:
    """The smallest, the mean and the largest of some numbers."""

    least: float
    mean: float
    worst: float


@dataclass(frozen=True, kw_only=True)
class Check:
    """One network: its error, and the bounds that follow from the errors of its layers.

    `error` is E||y - f̂(x)||^2, the sum over an output's entries, nan where it cannot be read.
    A bound that cannot be computed is not in `bounds`, and `reason` says why in words.
    """

    point: str
    model: str
    n: int
    seed: int
    error: float
    layers: Mapping[str, float]  # E||e_l||^2 of the layers that err
    network: Network | None
    bounds: Mapping[BoundForm, Bound]
    reason: str = ""

    @property
    def where(self) -> str:
        """Which network it is, in words."""
        return f"{self.point}, {self.model}, N = {self.n:,}, seed {self.seed}"

    @property
    def judged(self) -> bool:
        """Whether there is an error and a bound to hold it against."""
        return bool(self.bounds)

    @property
    def holds(self) -> bool | None:
        """error <= composed <= minkowski <= paper, as far as known; None without any bound."""
        return not (self.exceeded or self.disordered) if self.judged else None

    @property
    def exceeded(self) -> tuple[BoundForm, ...]:
        """The bounds above which the error lies."""
        return tuple(
            form
            for form, bound in self.bounds.items()
            if not _within(self.error, bound.total, MEASURED)
        )

    @property
    def disordered(self) -> bool:
        """Whether a bound that must be the tighter one is the looser one."""
        totals = [self.bounds[form].total for form in reversed(BOUNDS) if form in self.bounds]
        return not all(_within(a, b, COMPUTED) for a, b in pairwise(totals))

    @property
    def only_the_last(self) -> bool:
        """Whether the last layer alone errs: its error is the network's, and the bound is too."""
        erring = [name for name, error in self.layers.items() if error > 0]
        return self.network is not None and erring == [self.network.names[-1]]

    def looseness(self, form: BoundForm) -> float | None:
        """Bound / error: infinite where the error is 0; None where both are, or there is none."""
        if form not in self.bounds:
            return None
        bound = self.bounds[form].total
        if self.error > 0:
            return bound / self.error
        return math.inf if bound > 0 else None


def _within(value: float, limit: float, tolerance: float) -> bool:
    return value <= limit * (1 + tolerance)


@dataclass(frozen=True, kw_only=True)
class Group:
    """The networks of one model and N, over seeds. Means are over those that can be judged."""

    model: str
    n: int
    checks: tuple[Check, ...]

    @property
    def judged(self) -> tuple[Check, ...]:
        """Those with a bound."""
        return tuple(check for check in self.checks if check.judged)

    @property
    def held(self) -> int:
        """In how many the theorem holds."""
        return sum(check.holds is True for check in self.checks)

    @property
    def holds(self) -> bool | None:
        """Whether it holds in all that can be judged; None where none can."""
        return all_hold(self.checks)

    @property
    def error(self) -> float:
        """The mean error; nan where none is known."""
        counted = self.judged or self.checks
        return _mean(check.error for check in counted if not math.isnan(check.error))

    def bound(self, form: BoundForm) -> float | None:
        """The mean bound, None where it is known of none."""
        found = [check.bounds[form].total for check in self.judged if form in check.bounds]
        return _mean(found) if found else None

    def looseness(self, form: BoundForm) -> Spread | None:
        """How loose the bound is; networks without error are left out."""
        return spread(check.looseness(form) for check in self.checks)

    def contributions(self, form: BoundForm) -> dict[str, float]:
        """The mean part of the bound that comes from each layer that errs somewhere."""
        found: dict[str, list[float]] = {}
        for check in self.judged:
            if form in check.bounds:
                bound = check.bounds[form]
                for name, part in zip(bound.layers, bound.contributions.tolist(), strict=True):
                    found.setdefault(name, []).append(part)
        return {name: _mean(parts) for name, parts in found.items() if any(parts)}

    @property
    def layer_errors(self) -> dict[str, float]:
        """The mean E||e_l||^2 of each layer that errs, input side first."""
        found: dict[str, list[float]] = {}
        for check in self.judged:
            for name in check.network.names if check.network else ():
                if name in check.layers:
                    found.setdefault(name, []).append(check.layers[name])
        return {name: _mean(errors) for name, errors in found.items()}

    @property
    def network(self) -> Network | None:
        """The network of the first seed that tells one."""
        return next((check.network for check in self.checks if check.network is not None), None)


def spread(values: Iterable[float | None]) -> Spread | None:
    """Of the finite ones among the values; None where there are none."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return Spread(min(finite), _mean(finite), max(finite)) if finite else None


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else math.nan


def all_hold(checks: Iterable[Check]) -> bool | None:
    """Whether the theorem holds in all that can be judged; None where none can."""
    judged = [check.holds for check in checks if check.judged]
    return all(judged) if judged else None


# --- From a store --------------------------------------------------------------------------------


def checks_of(cell: Cell) -> Iterator[Check]:
    """A check for each row of a cell that tells errors of layers."""
    networks: dict[str, Network | str] = {}
    for row in cell.rows:
        if DETAIL not in row.detail:
            continue
        if row.model not in networks:
            networks[row.model] = _network(cell, row.model)
        yield _check(cell, row, networks[row.model])


def _check(cell: Cell, row: Row, network: Network | str) -> Check:
    told = row.detail[DETAIL]
    net = network if isinstance(network, Network) else None
    error, layers, bounds, reason = math.nan, dict[str, float](), dict[BoundForm, Bound](), ""
    try:
        error = _error(told)
        if isinstance(network, str):
            raise KoriskError(network)
        layers = _layer_errors(told, network)
        bounds, reason = _bounds(network, layers)
    except KoriskError as problem:
        reason = str(problem)
    return Check(
        point=cell.task.point,
        model=row.model,
        n=row.n,
        seed=cell.task.seed,
        error=error,
        layers=layers,
        network=net,
        bounds=bounds,
        reason=reason,
    )


def _error(told: object) -> float:
    if not isinstance(told, Mapping):
        raise KoriskError(f"{DETAIL} must be a mapping, got {shown(told)}; {_REMEDY}")
    # An infinite error is one: whatever finite bound there is, it lies above it.
    return _checks.real("error", told.get("error"), at_least=0, finite=False, remedy=_REMEDY)


def _layer_errors(told: Mapping[str, Any], net: Network) -> dict[str, float]:
    given = told.get("layers")
    if not isinstance(given, Mapping):
        raise KoriskError(f"layers must be a mapping, got {shown(given)}; {_REMEDY}")
    for layer in net:
        if isinstance(layer, Known) and layer.mismatch and layer.name not in given:
            # The stated one may be of other inputs; with it the bound would prove nothing.
            raise KoriskError(
                f"layers has no entry for {layer.name!r}, a known layer with a mismatch; {_REMEDY}"
            )
    return {
        net.names[net.index(name)]: _checks.real(
            f"error of layer {name!r}", value, at_least=0, remedy=_REMEDY
        )
        for name, value in given.items()
    }


def _bounds(net: Network, layers: Mapping[str, float]) -> tuple[dict[BoundForm, Bound], str]:
    """The bounds that can be told, and why others cannot."""
    measured = net
    for layer in net:
        if isinstance(layer, Known) and layer.name in layers:
            known = Known(layer.name, lipschitz=layer.lipschitz, mismatch=layers[layer.name])
            measured = measured.replace(layer.name, known)
    found: dict[BoundForm, Bound] = {}
    reason = ""
    for form in BOUNDS:
        try:
            found[form] = deep_risk(measured, layers, bound=form)
        except KoriskError as problem:
            reason = str(problem)
    return found, reason


def _network(cell: Cell, model: str) -> Network | str:
    """The true network of a model, or why there is none."""
    told = cell.detail.get("networks")
    if not isinstance(told, Mapping) or model not in told:
        return f"the cell tells no network of {model!r}; {_REMEDY}"
    try:
        return from_dict(told[model], source=f"network of {model!r}")
    except KoriskError as problem:
        return str(problem)
