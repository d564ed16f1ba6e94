"""Which of two models should need fewer samples by the theory, and which did.

*Predicted.* With matched constants (C = 0, kappa = 1, exact known layers) a layer errs by
p log N / N, and every bound is s log N / N. With one learned layer s is A p; with several it is the
bound of layers that err by p_l. The model with the smaller s should need fewer samples.

*Measured.* For a ladder of targets, the N from which on a model's mean error stays at or below the
target up to the largest N measured, between measured N on a straight line of logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np

from korisk.errors import KoriskError
from korisk.studies.result import LEFT_OUT
from korisk.theory import BOUNDS, Learned, BoundForm, Network
from korisk.theory.bound import evaluate

RUNGS = 12  # targets of a ladder
_SAME = 1e-9  # relative: strengths that differ by less are the same but for rounding
_STEPS = 50  # of bisection, far beyond the digits that are shown


@dataclass(frozen=True)
class Needed:
    """An N for a target: one number, at most the smallest N measured, or beyond the largest."""

    lower: float
    upper: float

    @property
    def reached(self) -> bool:
        """Whether the target was reached within the measured N."""
        return math.isfinite(self.upper)

    @property
    def number(self) -> float | None:
        """N itself, None where only one side of it is known."""
        return self.lower if self.lower == self.upper else None

    def before(self, other: Needed) -> bool:
        """Whether this N is certainly the smaller one."""
        if not other.reached:  # then the other N lies beyond its lower end
            return self.upper <= other.lower
        return self.upper < other.lower


@dataclass(frozen=True)
class MeanCurve:
    """Mean errors of one model over rising N >= 1."""

    sizes: tuple[int, ...]
    errors: tuple[float, ...]

    def needed(self, target: float) -> Needed:
        """The N from which on the error stays at or below the target."""
        above = [at for at, error in enumerate(self.errors) if error > target]
        if not above:
            return Needed(0.0, float(self.sizes[0]))
        at = above[-1]
        if at == len(self.errors) - 1:
            return Needed(float(self.sizes[-1]), math.inf)
        n = _between(self.sizes[at : at + 2], self.errors[at : at + 2], target)
        return Needed(n, n)


def _between(sizes: Sequence[int], errors: Sequence[float], target: float) -> float:
    """Where the line of logarithms through two points comes down to the target."""
    if errors[1] <= 0 or target <= 0:
        return float(sizes[1])
    share = math.log(errors[0] / target) / math.log(errors[0] / errors[1])
    return float(sizes[0] * (sizes[1] / sizes[0]) ** share)


def mean_curves(errors: Iterable[tuple[str, int, float]]) -> dict[str, MeanCurve]:
    """Curves by model from (model, N, mean error); what is not finite or untrained is left out."""
    found: dict[str, list[tuple[int, float]]] = {}
    for model, n, error in errors:
        if n >= 1 and math.isfinite(error):
            found.setdefault(model, []).append((n, error))
    return {
        model: MeanCurve(*(tuple(part) for part in zip(*sorted(pairs), strict=True)))
        for model, pairs in found.items()
    }


@dataclass(frozen=True)
class Rung:
    """One target: what both models need, and which needs less, None where that is open."""

    target: float
    needed: tuple[Needed, Needed]

    @property
    def smaller(self) -> int | None:
        """0 or 1, the model that needs fewer samples; None where neither is certain."""
        first, second = self.needed
        return 0 if first.before(second) else 1 if second.before(first) else None


@dataclass(frozen=True)
class Crossover:
    """Where the order changes as targets fall: from there on `model` needs fewer samples."""

    target: float
    n: float  # what `model` needs there
    model: str


@dataclass(frozen=True, kw_only=True)
class Order:
    """Two models: strengths s by form, and a ladder of targets from easy to hard.

    `reasons` says of a form why a strength is not known. Below `lowest` neither model got.
    """

    models: tuple[str, str]
    strengths: Mapping[BoundForm, tuple[float, float]]
    reasons: Mapping[BoundForm, str]
    erring: tuple[tuple[str, str], ...]  # model and known layer that errs, which s leaves out
    rungs: tuple[Rung, ...]
    crossovers: tuple[Crossover, ...]
    lowest: float

    def ratio(self, form: BoundForm) -> float | None:
        """s of the second model over s of the first: the structural factor of (prop:ct-proxy)."""
        if form not in self.strengths:
            return None
        first, second = self.strengths[form]
        if first == 0:
            return math.inf if second > 0 else 1.0
        return second / first

    def predicted(self, form: BoundForm) -> str | None:
        """The model that should need fewer samples; None where no order is predicted."""
        ratio = self.ratio(form)
        if ratio is None or abs(ratio - 1) <= _SAME:
            return None
        return self.models[0 if ratio > 1 else 1]

    def targets(self, model: str | None) -> tuple[float, ...]:
        """The targets at which a model needed fewer samples; None: where that is open."""
        at = None if model is None else self.models.index(model)
        return tuple(rung.target for rung in self.rungs if rung.smaller == at)

    def came_out(self, form: BoundForm) -> bool | None:
        """Whether the predicted order is that of every decided target; None if none is decided."""
        model = self.predicted(form)
        if model is None or len(self.targets(None)) == len(self.rungs):
            return None
        return not self.targets(self.other(model))

    def other(self, model: str) -> str:
        """The other one of the two models."""
        return self.models[1 - self.models.index(model)]


def orders(
    networks: Mapping[str, Network],
    curves: Mapping[str, MeanCurve],
    erring: Iterable[tuple[str, str]] = (),
) -> tuple[Order, ...]:
    """Every pair of models that have both a network and errors.

    `erring` are pairs of a model and a known layer of it that errs.
    """
    models = [model for model in curves if model in networks]
    made = [
        _order((a, b), (networks[a], networks[b]), (curves[a], curves[b]))
        for a, b in combinations(models, 2)
    ]
    known = list(erring)
    return tuple(
        replace(each, erring=tuple(pair for pair in known if pair[0] in each.models))
        for each in made
    )


def strength(net: Network, form: BoundForm) -> float:
    """s of a network: its bound is s log N / N with matched constants.

    A last layer that only holds what the others leave out takes no part: the paper's factors grow
    with the number of layers, and it is there for the measurement alone.
    """
    if net.names[-1] == LEFT_OUT and len(net) > 1:
        kept = [part for part in net.compositions if part.last != LEFT_OUT]
        net = Network(net.layers[:-1], compositions=kept, name=net.name)
    missing = [layer.name for layer in net.learned if layer.parameters is None]
    if missing:
        raise KoriskError(f"layer {missing[0]!r}: parameters is missing; count its weights")
    counts = [float(layer.parameters or 0) if isinstance(layer, Learned) else 0.0 for layer in net]
    return evaluate(net, np.array(counts), form).total


def _order(
    models: tuple[str, str],
    networks: tuple[Network, Network],
    curves: tuple[MeanCurve, MeanCurve],
) -> Order:
    strengths: dict[BoundForm, tuple[float, float]] = {}
    reasons: dict[BoundForm, str] = {}
    for form in BOUNDS:
        try:
            first, second = (strength(net, form) for net in networks)
            strengths[form] = first, second
        except KoriskError as problem:
            reasons[form] = str(problem)
    lowest = min(curve.errors[-1] for curve in curves)
    rungs = tuple(_rung(curves, target) for target in _ladder(curves, lowest))
    return Order(
        models=models,
        strengths=strengths,
        reasons=reasons,
        erring=(),
        rungs=rungs,
        crossovers=tuple(_crossovers(models, curves, rungs)),
        lowest=lowest,
    )


def _rung(curves: tuple[MeanCurve, MeanCurve], target: float) -> Rung:
    return Rung(target, (curves[0].needed(target), curves[1].needed(target)))


def _ladder(curves: Iterable[MeanCurve], lowest: float) -> list[float]:
    """Falling targets from below the largest error to the lowest that a model stays below."""
    positive = [error for curve in curves for error in curve.errors if error > 0]
    if not positive:
        return []
    top, bottom = max(positive), lowest if lowest > 0 else min(positive)
    if top <= bottom:
        return [bottom]
    return [float(target) for target in np.geomspace(top, bottom, RUNGS + 1)[1:]]


def _crossovers(
    models: tuple[str, str], curves: tuple[MeanCurve, MeanCurve], rungs: Sequence[Rung]
) -> Iterable[Crossover]:
    decided = [rung for rung in rungs if rung.smaller is not None]
    for easy, hard in pairwise(decided):
        if easy.smaller == hard.smaller or hard.smaller is None:
            continue
        found = _bisected(lambda target: _rung(curves, target), easy, hard)
        need = found.needed[hard.smaller]
        yield Crossover(found.target, need.upper, models[hard.smaller])


def _bisected(rung_at: Callable[[float], Rung], easy: Rung, hard: Rung) -> Rung:
    """The easiest rung on which the winner of the hard one wins."""
    for _ in range(_STEPS):
        middle = rung_at(math.sqrt(easy.target) * math.sqrt(hard.target))
        easy, hard = (easy, middle) if middle.smaller == hard.smaller else (middle, hard)
    return hard
