"""Measured errors of networks against the bounds that follow from their layers' errors.

A study with `theorem: true` stores the error of every network it fits and of each of its layers.
From these alone the three bounds of (thm:deep-risk) are computed, network by network, and compared
with the measured error; docs/explanation/check.md explains what that shows. Nothing is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from korisk import _checks
from korisk._group import grouped
from korisk._json import JsonMapping
from korisk.errors import KoriskError, did_you_mean, shown
from korisk.store.cells import LEFT_OUT, Task
from korisk.store.store import Cell, Failure, Store, store_path
from korisk.studies.spec.study import asked_for
from korisk.theory import BOUNDS, Bound, BoundForm, Known, Learned, Network, deep_risk
from korisk.theory.bound import evaluate

# Errors are measured in single precision, as differences of numbers that may be a thousand times
# as large: 1e-7 times 1e3. Smaller differences may be rounding.
MEASURED = 1e-4
COMPUTED = 1e-9  # the bounds are computed from the same numbers in double precision
DETAIL = "theorem"  # of a row, with its error and those of its layers
RUNGS = 12  # targets from easy to hard
_REMEDY = "a cell must store what it measured"
_SAME = 1e-9  # relative difference of strengths that is rounding
_STEPS = 50  # bisections: far beyond the digits that are shown


@dataclass(frozen=True)
class Needed:
    """The N for a target: one number, at most the smallest N measured, or above the largest."""

    lower: float
    upper: float

    @property
    def reached(self) -> bool:
        """Whether the target was reached within the measured N."""
        return math.isfinite(self.upper)

    def before(self, rival: Needed) -> bool:
        """Whether this N is certainly smaller than the rival's."""
        # A target that the rival did not reach needs an N above its lower end.
        return self.upper < rival.lower or (self.upper == rival.lower and not rival.reached)


@dataclass(frozen=True)
class MeanCurve:
    """Mean errors of one model over ascending N >= 1."""

    sizes: tuple[int, ...]
    errors: tuple[float, ...]

    def needed(self, target: float) -> Needed:
        """The N from which on the error stays at or below the target."""
        above = [index for index, error in enumerate(self.errors) if error > target]
        if not above:
            return Needed(0.0, float(self.sizes[0]))
        last = above[-1]
        if last == len(self.errors) - 1:
            return Needed(float(self.sizes[-1]), math.inf)
        # Between two sizes the error is taken for a power law: linear in logarithms.
        (small, large), (high, low) = self.sizes[last : last + 2], self.errors[last : last + 2]
        if low <= 0 or target <= 0:
            return Needed(float(large), float(large))
        share = math.log(high / target) / math.log(high / low)
        n = float(small * (large / small) ** share)
        return Needed(n, n)


def mean_curves(errors: Iterable[tuple[str, int, float]]) -> dict[str, MeanCurve]:
    """Curves by model from (model, N, mean error), without infinite errors and untrained models."""
    points = ((model, (n, error)) for model, n, error in errors if n >= 1 and math.isfinite(error))
    return {
        model: MeanCurve(*(tuple(column) for column in zip(*sorted(pairs), strict=True)))
        for model, pairs in grouped(points).items()
    }


@dataclass(frozen=True)
class Rung:
    """One target: the N that both models need."""

    target: float
    needed: tuple[Needed, Needed]

    @property
    def smaller(self) -> int | None:
        """0 or 1, the model that needs fewer samples; None if that is open."""
        first, second = self.needed
        return 0 if first.before(second) else 1 if second.before(first) else None


@dataclass(frozen=True)
class OrderChange:
    """Where the order changes: for targets from here down, `model` needs fewer samples."""

    target: float
    n: float  # what `model` needs here
    model: str


@dataclass(frozen=True, kw_only=True)
class Order:
    """Two models: their strengths s by bound, and targets from easy to hard.

    `reasons` says why a strength is not known. Neither model got below `lowest`.
    """

    models: tuple[str, str]
    strengths: Mapping[BoundForm, tuple[float, float]]
    reasons: Mapping[BoundForm, str]
    erring: tuple[tuple[str, str], ...]  # model and known layer that errs, which s leaves out
    rungs: tuple[Rung, ...]
    changes: tuple[OrderChange, ...]
    lowest: float

    def ratio(self, form: BoundForm) -> float | None:
        """s of the second model over s of the first: the structural factor of (prop:ct-proxy)."""
        if form not in self.strengths:
            return None
        first, second = self.strengths[form]
        return second / first if first else math.inf if second else 1.0

    def predicted(self, form: BoundForm) -> str | None:
        """The model that should need fewer samples; None if no order is predicted."""
        ratio = self.ratio(form)
        if ratio is None or abs(ratio - 1) <= _SAME:
            return None
        return self.models[0 if ratio > 1 else 1]

    def targets(self, model: str | None) -> tuple[float, ...]:
        """The targets at which a model needed fewer samples; None: where that is open."""
        index = None if model is None else self.models.index(model)
        return tuple(rung.target for rung in self.rungs if rung.smaller == index)

    def confirmed(self, form: BoundForm) -> bool | None:
        """Whether the predicted order is that of every decided target; None if none is decided."""
        model, decided = self.predicted(form), len(self.rungs) - len(self.targets(None))
        return None if model is None or not decided else len(self.targets(model)) == decided

    def other(self, model: str) -> str:
        """The other one of the two models."""
        return self.models[1 - self.models.index(model)]


def strength(net: Network, form: BoundForm) -> float:
    """s of a network: its bound is s log N / N with matched constants.

    A last layer that only holds what the others leave out does not count: the paper's factors grow
    with the number of layers, and that layer exists for the measurement alone.
    """
    if net.names[-1] == LEFT_OUT and len(net) > 1:
        inner = [composition for composition in net.compositions if composition.last != LEFT_OUT]
        net = Network(net.layers[:-1], compositions=inner, name=net.name)
    missing = [layer.name for layer in net.learned if layer.parameters is None]
    if missing:
        raise KoriskError(f"layer {missing[0]!r}: parameters is missing; count its weights")
    # The bound with the number of parameters p_l in the place of each layer's risk.
    counts = [float(layer.parameters or 0) if isinstance(layer, Learned) else 0.0 for layer in net]
    return evaluate(net, np.array(counts), form).total


def order_of(
    models: tuple[str, str],
    networks: Mapping[str, Network],
    curves: Mapping[str, MeanCurve],
    erring: Iterable[tuple[str, str]] = (),
) -> Order:
    """The order of two models that have both a network and errors.

    `erring` are pairs of a model and a known layer of it that errs.
    """
    # A form whose constants are missing has no strength, and says why.
    first, second = (curves[model] for model in models)
    strengths: dict[BoundForm, tuple[float, float]] = {}
    reasons: dict[BoundForm, str] = {}
    for form in BOUNDS:
        try:
            first_strength, second_strength = (strength(networks[model], form) for model in models)
            strengths[form] = first_strength, second_strength
        except KoriskError as problem:
            reasons[form] = str(problem)

    def rung_at(target: float) -> Rung:
        return Rung(target, (first.needed(target), second.needed(target)))

    # Targets from below the largest error down to the lowest that a model stays below.
    lowest = min(first.errors[-1], second.errors[-1])
    positive = [error for error in first.errors + second.errors if error > 0]
    top, bottom = max(positive, default=0.0), lowest or min(positive, default=0.0)
    targets = [bottom] if positive else []
    if top > bottom:
        targets = np.geomspace(top, bottom, RUNGS + 1)[1:].tolist()
    rungs = tuple(rung_at(target) for target in targets)

    # Where the winner changes between two decided targets, bisection finds the target.
    changes = []
    for easy, hard in pairwise(rung for rung in rungs if rung.smaller is not None):
        winner = hard.smaller
        if winner is None or winner == easy.smaller:
            continue
        for _ in range(_STEPS):  # to the easiest target at which the winner of the hard one wins
            middle = rung_at(math.sqrt(easy.target) * math.sqrt(hard.target))
            easy, hard = (easy, middle) if middle.smaller == winner else (middle, hard)
        changes.append(OrderChange(hard.target, hard.needed[winner].upper, models[winner]))
    return Order(
        models=models,
        strengths=strengths,
        reasons=reasons,
        erring=tuple(pair for pair in erring if pair[0] in models),
        rungs=rungs,
        changes=tuple(changes),
        lowest=lowest,
    )


@dataclass(frozen=True)
class Spread:
    """The smallest, the mean and the largest of some numbers."""

    least: float
    mean: float
    worst: float


@dataclass(frozen=True, kw_only=True)
class NetworkCheck:
    """One network: its error, and the bounds that follow from the errors of its layers.

    `error` is E||y - f̂(x)||^2, the sum over an output's entries, nan if it cannot be read. A bound
    that cannot be computed is not in `bounds`, and `reason` says why.
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
        """Whether there is an error and a bound to compare it with."""
        return bool(self.bounds)

    @property
    def holds(self) -> bool | None:
        """error <= composed <= minkowski <= paper, as far as known; None without any bound."""
        return not (self.exceeded or self.disordered) if self.judged else None

    @property
    def exceeded(self) -> tuple[BoundForm, ...]:
        """The bounds that the error exceeds."""
        bounds = self.bounds.items()
        return tuple(form for form, bound in bounds if self.error > bound.total * (1 + MEASURED))

    @property
    def disordered(self) -> bool:
        """Whether a bound that must be the tighter one is the looser one."""
        # From the tightest form to the loosest.
        totals = [self.bounds[form].total for form in reversed(BOUNDS) if form in self.bounds]
        return any(tight > loose * (1 + COMPUTED) for tight, loose in pairwise(totals))

    @property
    def only_the_last(self) -> bool:
        """Whether the last layer alone errs: then the composed bound is the error itself."""
        erring = [name for name, error in self.layers.items() if error > 0]
        return self.network is not None and erring == [self.network.names[-1]]

    def looseness(self, form: BoundForm) -> float | None:
        """Bound / error: infinite if the error is 0; None if both are 0 or there is no bound."""
        if form not in self.bounds:
            return None
        bound = self.bounds[form].total
        return bound / self.error if self.error > 0 else math.inf if bound > 0 else None


class Checked:
    """Several networks."""

    checks: Sequence[NetworkCheck]

    @property
    def holds(self) -> bool | None:
        """Whether the theorem holds in all networks with a bound; None without any."""
        judged = [check.holds for check in self.checks if check.judged]
        return all(judged) if judged else None


@dataclass(frozen=True, kw_only=True)
class Group(Checked):
    """The networks of one model and N, over seeds. Means are over those with a bound."""

    model: str
    n: int
    checks: tuple[NetworkCheck, ...]

    @property
    def judged(self) -> tuple[NetworkCheck, ...]:
        """Those with a bound."""
        return tuple(check for check in self.checks if check.judged)

    @property
    def held(self) -> int:
        """In how many the theorem holds."""
        return sum(check.holds is True for check in self.checks)

    @property
    def error(self) -> float:
        """The mean error; nan if none is known."""
        counted = self.judged or self.checks
        return _mean(check.error for check in counted if not math.isnan(check.error))

    def bound(self, form: BoundForm) -> float | None:
        """The mean bound; None without any."""
        totals = [check.bounds[form].total for check in self.judged if form in check.bounds]
        return _mean(totals) if totals else None

    def looseness(self, form: BoundForm) -> Spread | None:
        """How loose the bound is; networks without error are left out."""
        return spread(check.looseness(form) for check in self.checks)

    def contributions(self, form: BoundForm) -> dict[str, float]:
        """The mean part of the bound that comes from each layer that errs in some network."""
        bounds = [check.bounds[form] for check in self.judged if form in check.bounds]
        parts = _means(
            dict(zip(bound.layers, bound.contributions.tolist(), strict=True)) for bound in bounds
        )
        return {name: contribution for name, contribution in parts.items() if contribution}

    @property
    def layer_errors(self) -> dict[str, float]:
        """The mean E||e_l||^2 of each layer that errs, input side first."""
        return _means(
            {name: check.layers[name] for name in check.network.names if name in check.layers}
            for check in self.judged
            if check.network
        )

    @property
    def network(self) -> Network | None:
        """The network of the first seed that stored one."""
        return next((check.network for check in self.checks if check.network is not None), None)


@dataclass(frozen=True, kw_only=True)
class PointTheorem(Checked):
    """All networks of one point, and notes on what is missing there."""

    name: str
    checks: tuple[NetworkCheck, ...]
    pixels: int | None  # entries of one output, over which errors are summed
    notes: tuple[str, ...]

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """By model, in the order of the store, then by N."""
        return tuple(
            Group(model=model, n=n, checks=tuple(same))
            for model, checks in grouped((check.model, check) for check in self.checks).items()
            for n, same in sorted(grouped((check.n, check) for check in checks).items())
        )

    @cached_property
    def orders(self) -> tuple[Order, ...]:
        """For each pair of models, which should need fewer samples and which did."""
        # The first network of each model stands for all its seeds; notes say where they differ.
        networks: dict[str, Network] = {}
        erring: dict[tuple[str, str], None] = {}
        for check in self.checks:
            if check.network is not None:
                networks.setdefault(check.model, check.network)
                for name, error in check.layers.items():
                    if error > 0 and isinstance(check.network[name], Known):
                        erring[check.model, name] = None
        curves = mean_curves((group.model, group.n, group.error) for group in self.groups)
        pairs = combinations([model for model in curves if model in networks], 2)
        return tuple(order_of(pair, networks, curves, erring) for pair in pairs)


@dataclass(frozen=True, kw_only=True)
class Theorem(Checked):
    """The check of a whole study."""

    name: str
    store: Path
    points: tuple[PointTheorem, ...]
    unmeasured: tuple[str, ...]  # points without errors of layers
    checks: tuple[NetworkCheck, ...]  # of all points


def spread(values: Iterable[float | None]) -> Spread | None:
    """Of the finite values; None without any."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return Spread(min(finite), _mean(finite), max(finite)) if finite else None


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else math.nan


def _means(mappings: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each key over the mappings that have it."""
    by_key = grouped(pair for mapping in mappings for pair in mapping.items())
    return {name: _mean(values) for name, values in by_key.items()}


# --- From a store --------------------------------------------------------------------------------


def read_theorem(path: str | PathLike[str], *, point: str | None = None) -> Theorem:
    """Check every point of a study that stores errors of layers, or the one that is named.

    Raises `KoriskError` if there is no such point, nothing is finished, or no row stores errors of
    layers.
    """
    with Store.read(store_path(path)) as store:
        cells, failures, study = list(store.results()), store.failures(), store.study
        file = store.path
    planned = asked_for(study) or []
    # Points in the order of the store, failed ones included.
    tasks = [*(cell.task for cell in cells), *(failure.task for failure in failures)]
    names = list(dict.fromkeys(task.point for task in tasks))
    if point is not None:
        if point not in names:
            raise KoriskError(f"{file}: no point {point!r}{did_you_mean(point, names)}")
        names = [point]
    if not any(cell.task.point in names for cell in cells):
        raise KoriskError(f"{file}: no cell is finished yet; run the study first")
    # None for a point whose rows have no errors of layers.
    theorems = {
        name: point_theorem(
            name,
            [cell for cell in cells if cell.task.point == name],
            [failure for failure in failures if failure.task.point == name],
            [task for task in planned if task.point == name],
        )
        for name in names
    }
    points = tuple(theorem for theorem in theorems.values() if theorem is not None)
    if not points:
        of = f"no row of {point!r}" if point is not None else "no row"
        remedy = "write `theorem: true` in the study and run it into another folder"
        where = f"{remedy}, see docs/explanation/check.md"
        raise KoriskError(f"{file}: {of} has errors of layers; {where}")
    return Theorem(
        name=str(study.get("name") or ""),
        store=file,
        points=points,
        unmeasured=tuple(name for name, theorem in theorems.items() if theorem is None),
        checks=tuple(check for theorem in points for check in theorem.checks),
    )


def point_theorem(
    name: str, cells: Sequence[Cell], failures: Sequence[Failure] = (), planned: Sequence[Task] = ()
) -> PointTheorem | None:
    """One point from its finished cells; None if no row stores errors of layers."""
    checks = tuple(check for cell in cells for check in checks_of(cell))
    if not checks:
        return None
    first, *others = (cell.detail.get("pixels") for cell in cells)
    same = type(first) is int and first > 0 and all(count == first for count in others)
    notes = tuple(_notes(cells, failures, planned))
    return PointTheorem(name=name, checks=checks, pixels=first if same else None, notes=notes)


def checks_of(cell: Cell) -> Iterator[NetworkCheck]:
    """A check for each row of a cell that stores errors of layers."""
    networks = cell.detail.get("networks")
    for row in cell.rows:
        if DETAIL not in row.detail:
            continue
        error, reason, net = math.nan, "", None
        layers: dict[str, float] = {}
        bounds: dict[BoundForm, Bound] = {}
        try:
            stored = _mapping(DETAIL, row.detail[DETAIL])
            # An infinite error counts: it exceeds every finite bound.
            value = stored.get("error")
            error = _checks.real("error", value, at_least=0, finite=False, remedy=_REMEDY)
            if not isinstance(networks, Mapping) or row.model not in networks:
                raise KoriskError(f"the cell stores no network of {row.model!r}; {_REMEDY}")
            net = Network.from_dict(networks[row.model], source=f"network of {row.model!r}")
            layers = {
                net.names[net.index(name)]: _checks.real(
                    f"error of layer {name!r}", value, at_least=0, remedy=_REMEDY
                )
                for name, value in _mapping("layers", stored.get("layers")).items()
            }
            # The error of a known layer is its mismatch: the bound takes the measured one.
            measured = net
            for layer in net:
                if isinstance(layer, Known) and layer.name in layers:
                    known = replace(layer, mismatch=layers[layer.name])
                    measured = measured.replace(layer.name, known)
                elif isinstance(layer, Known) and layer.mismatch:
                    # The stated mismatch may be of other inputs; the bound would prove nothing.
                    why = f"layers has no entry for {layer.name!r}, a known layer with a mismatch"
                    raise KoriskError(f"{why}; {_REMEDY}")
            for form in BOUNDS:
                try:
                    bounds[form] = deep_risk(measured, layers, bound=form)
                except KoriskError as problem:
                    reason = str(problem)
        except KoriskError as problem:
            reason = str(problem)
        yield NetworkCheck(
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


def _mapping(name: str, stored: Any) -> JsonMapping:
    if not isinstance(stored, Mapping):
        raise KoriskError(f"{name} must be a mapping, got {shown(stored)}; {_REMEDY}")
    return stored


def _notes(
    cells: Sequence[Cell], failures: Sequence[Failure], planned: Sequence[Task]
) -> Iterator[str]:
    """What is missing at a point, and the notes that its cells stored."""
    # Cells that were planned but not tried, then failures, then rows that are missing.
    tried = {cell.task.key for cell in cells} | {failure.task.key for failure in failures}
    if waiting := [task.seed for task in planned if task.key not in tried]:
        of = "seed" if len(waiting) == 1 else "seeds"
        yield f"not yet run: {of} {', '.join(map(str, waiting))}"
    if failures:
        count = "1 cell" if len(failures) == 1 else f"{len(failures)} cells"
        yield f"{count} failed, not counted here; the first: {failures[0].reason}"
    rows = grouped((row.model, row) for cell in cells for row in cell.rows)
    sizes = {n for cell in cells for n in cell.task.spec.get("sizes", ())}
    for model, fits in rows.items():
        measured = sum(DETAIL in row.detail for row in fits)
        expected = len(cells) * len(sizes | {row.n for row in fits})
        if measured < len(fits):
            yield f"{model}: {len(fits) - measured} of {len(fits)} rows have no errors of layers"
        if len(fits) < expected:
            yield f"{model}: {expected - len(fits)} of {expected} rows are missing"
        stored = [cell.detail.get("networks") for cell in cells]
        by_model = [nets for nets in stored if isinstance(nets, Mapping)]
        nets = [entry[model] for entry in by_model if model in entry]
        if measured and any(net != nets[0] for net in nets):
            differ = "the true network's constants differ between seeds"
            yield f"{model}: {differ}; samples are predicted from those of the first"
    listed = [cell.detail.get("notes") for cell in cells]
    texts = [note for notes in listed if isinstance(notes, list) for note in notes]
    yield from dict.fromkeys(note for note in texts if isinstance(note, str))
