"""Which of two models should need fewer samples by the theory, and which did.

*Predicted.* With matched constants (C = 0, kappa = 1, exact known layers) a layer errs by
p log N / N, and every bound is s log N / N. With one learned layer s is A p; with several it is the
bound of layers that err by p_l. The model with the smaller s should need fewer samples.

*Measured.* For a series of targets, the N from which on a model's mean error stays at or below the
target up to the largest N measured; between measured N the logarithms are interpolated linearly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from korisk.errors import KoriskError
from korisk.studies.result import LEFT_OUT
from korisk.theory import BOUNDS, BoundForm, Learned, Network
from korisk.theory.bound import evaluate

RUNGS = 12  # targets from easy to hard
_SAME = 1e-9  # relative: strengths that differ by less differ by rounding
_STEPS = 50  # of bisection, far beyond the digits that are shown


@dataclass(frozen=True)
class Needed:
    """The N for a target: one number, at most the smallest N measured, or above the largest."""

    lower: float
    upper: float

    @property
    def reached(self) -> bool:
        """Whether the target was reached within the measured N."""
        return math.isfinite(self.upper)

    @property
    def number(self) -> float | None:
        """N itself; None if only one side of it is known."""
        return self.lower if self.lower == self.upper else None

    def before(self, other: Needed) -> bool:
        """Whether this N is certainly the smaller one."""
        # A target that the other did not reach needs an N above its lower end.
        return self.upper < other.lower or (self.upper == other.lower and not other.reached)


@dataclass(frozen=True)
class MeanCurve:
    """Mean errors of one model over ascending N >= 1."""

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
        (small, large), (high, low) = self.sizes[at : at + 2], self.errors[at : at + 2]
        if low <= 0 or target <= 0:
            return Needed(float(large), float(large))
        share = math.log(high / target) / math.log(high / low)
        n = float(small * (large / small) ** share)
        return Needed(n, n)


def mean_curves(errors: Iterable[tuple[str, int, float]]) -> dict[str, MeanCurve]:
    """Curves by model from (model, N, mean error), without infinite errors and untrained models."""
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
        at = None if model is None else self.models.index(model)
        return tuple(rung.target for rung in self.rungs if rung.smaller == at)

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
        kept = [part for part in net.compositions if part.last != LEFT_OUT]
        net = Network(net.layers[:-1], compositions=kept, name=net.name)
    missing = [layer.name for layer in net.learned if layer.parameters is None]
    if missing:
        raise KoriskError(f"layer {missing[0]!r}: parameters is missing; count its weights")
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
    first, second = (curves[model] for model in models)
    strengths: dict[BoundForm, tuple[float, float]] = {}
    reasons: dict[BoundForm, str] = {}
    for form in BOUNDS:
        try:
            own, other = (strength(networks[model], form) for model in models)
            strengths[form] = own, other
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
