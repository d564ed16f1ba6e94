"""The deep risk estimator: bounds on E||f_L(X) - f̂_L(X)||^2, one function per equation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from korisk import _checks
from korisk.errors import KoriskError, shown
from korisk.theory.amplification import (
    BoundForm,
    FloatArray,
    paper_exponents,
    times_power_of_two,
)
from korisk.theory.layer import Known, Layer, Learned
from korisk.theory.network import Network

Risks = Sequence[float] | FloatArray | Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Bound:
    """An upper bound of the expected squared error, layer by layer.

    `contributions` (L,) add up to `total`. In the paper's form a layer's contribution is A_l r_l.
    In the Minkowski forms the bound is (sum_l t_l)^2 with t_l = P_l sqrt(r_l), and a layer's
    contribution is t_l sum_k t_k, Eq. (eq:shares): its own square and half of every cross term.

    >>> import korisk as kr
    >>> layers = [kr.Learned("W"), kr.Known("K", lipschitz=3), kr.Learned("B", lipschitz=2)]
    >>> net = kr.Network(layers)
    >>> bound = kr.deep_risk(net, {"W": 0.01, "B": 0.04}, bound="paper")
    >>> bound.contributions.round(2).tolist(), round(bound.total, 2)
    ([1.44, 0.0, 0.08], 1.52)
    """

    form: BoundForm
    layers: tuple[str, ...]
    contributions: FloatArray

    @property
    def total(self) -> float:
        """The bound itself."""
        return float(self.contributions.sum())

    @property
    def shares(self) -> FloatArray:
        """Each layer's part of the total, (L,); zero where the total is."""
        total = self.total
        return self.contributions / total if total > 0 else np.zeros_like(self.contributions)

    def __float__(self) -> float:
        return self.total


@dataclass(frozen=True, eq=False)
class BarronBound:
    """The bound at N training samples, its part that data removes and its part that stays.

    `whole` is the one that was asked for. It is `by_parameters`, the theorem's with p, or
    `by_effective`, the estimate with the layers' effective dimensions. The first is None where a
    layer lacks its p, the second where no layer states an effective dimension. Both have the same
    `floors`.

    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W", parameters=100, C=1, width=50), kr.Known("K", lipschitz=2)])
    >>> bound = kr.barron_bound(net, 1000)
    >>> round(bound.floor, 4), round(bound.estimation, 4), round(bound.total, 4)
    (0.08, 2.7631, 2.8431)
    """

    n: float
    whole: Bound
    floors: Bound
    by_parameters: Bound | None = None
    by_effective: Bound | None = None

    @property
    def effective(self) -> bool:
        """Whether `whole` is the estimate with effective dimensions."""
        return self.whole is self.by_effective

    @property
    def total(self) -> float:
        """The bound at N."""
        return self.whole.total

    @property
    def floor(self) -> float:
        """What remains for N to infinity: approximation and mismatch."""
        return self.floors.total

    @property
    def estimation(self) -> float:
        """What more data removes."""
        return float(self.estimations.sum())

    @property
    def contributions(self) -> FloatArray:
        """Per layer (L,), adding up to the total."""
        return self.whole.contributions

    @property
    def approximations(self) -> FloatArray:
        """Per layer (L,), adding up to the floor; for a known layer, its mismatch."""
        return self.floors.contributions

    @property
    def estimations(self) -> FloatArray:
        """Per layer (L,), adding up to the estimation part; cross terms that vanish are in here."""
        return self.whole.contributions - self.floors.contributions

    def __float__(self) -> float:
        return self.total


def layer_risk(layer: Learned, n: float, *, effective: bool = False) -> float:
    """Eq. (eq:layer-risk): C^2/n_l + kappa p log N / N, or its estimate with `effective` for p.

    `n` is N, the training samples, at least 2; the result is an expected squared error. A layer
    without `parameters` (or `effective`, where that is asked for) raises `KoriskError`.

    >>> import korisk as kr
    >>> round(kr.layer_risk(kr.Learned("W", parameters=100), 1000), 4)
    0.6908
    """
    return approximation_risk(layer) + estimation_slope(layer, effective=effective) * rate(n)


def approximation_risk(layer: Learned) -> float:
    """C^2 / n_l, the part of (eq:layer-risk) that data does not remove."""
    return layer.C * layer.C / layer.width


def estimation_slope(layer: Learned, *, effective: bool = False) -> float:
    """kappa p, the factor of log N / N in (eq:layer-risk).

    With `effective`, the layer's effective dimension, (eq:effective), stands for p where it states
    one.
    """
    if effective and layer.effective is not None:
        return layer.kappa * layer.effective
    if layer.parameters is None:
        estimate = "" if layer.effective is None else ", or ask for effective=True (--effective)"
        raise KoriskError(
            f"layer {layer.name!r}: parameters is missing, and the estimation term "
            f"kappa p log N / N needs it; count the layer's trainable weights{estimate}"
        )
    return layer.kappa * layer.parameters


def rate(n: float) -> float:
    """log N / N."""
    samples = _checks.sample_count(n)
    return float(np.log(samples) / samples)


def paper_risk(tails: FloatArray, risks: FloatArray) -> FloatArray:
    """The terms A_l E||e_l||^2 of Eq. (eq:deep-risk), shape (L,)."""
    return times_power_of_two(_roots(tails, risks), paper_exponents(len(tails)))


def minkowski_risk(tails: FloatArray, risks: FloatArray) -> FloatArray:
    """The terms of (sum_l P_l sqrt(r_l))^2, shape (L,), Eq. (eq:minkowski) or (eq:composed).

    Which of the two depends on the tails; docs/explanation/theory.md has the proofs.
    """
    roots = _roots(tails, risks)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return roots * float(roots.sum())


def _roots(tails: FloatArray, risks: FloatArray) -> FloatArray:
    """P_l sqrt(r_l), which is what layer l adds to the root of the bound."""
    # A layer without error contributes nothing, even where its tail is not known (infinite).
    roots = np.zeros_like(risks)
    with np.errstate(over="ignore", under="ignore"):
        np.multiply(tails, np.sqrt(risks), out=roots, where=risks > 0)
    return roots


def deep_risk(net: Network, layer_risks: Risks, *, bound: BoundForm = "composed") -> Bound:
    """Theorem (thm:deep-risk) from the expected squared error of each layer.

    `layer_risks` holds E||e_l||^2 for every layer in order, or by name; an exact known layer has
    none, and one with a mismatch keeps the mismatch that it states.

    `bound` is one of `BOUNDS`; the result is a `Bound`. A missing risk, one of an exact known
    layer, or an error that passes through a layer without a Lipschitz constant raises
    `KoriskError`.

    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W"), kr.Known("K", lipschitz=3)])
    >>> round(kr.deep_risk(net, [0.01, 0]).total, 4)
    0.09
    >>> round(kr.deep_risk(net, {"W": 0.01}, bound="paper").total, 4)
    0.18
    """
    return evaluate(net, _risks(net, layer_risks), bound)


def evaluate(net: Network, risks: FloatArray, bound: BoundForm) -> Bound:
    """The bound of a network whose layers err by `risks` (L,), which are taken as they are."""
    tails = net.tails(bound)
    unbounded = np.flatnonzero(np.isinf(tails) & (risks > 0))
    if unbounded.size:
        raise KoriskError(_missing_constant(net, int(unbounded[-1])))
    contributions = (paper_risk if bound == "paper" else minkowski_risk)(tails, risks)
    with np.errstate(over="ignore"):
        finite = np.isfinite(contributions.sum())
    if not finite:
        raise KoriskError(
            f"the {bound} bound is larger than a double can hold; check the units of the "
            f"constants, the layer that errs most being {net.names[int(np.argmax(risks))]!r}"
        )
    return Bound(form=bound, layers=net.names, contributions=contributions)


def barron_bound(
    net: Network, n: float, *, bound: BoundForm = "composed", effective: bool = False
) -> BarronBound:
    """Eq. (eq:deep-risk-barron): every learned layer's risk from its constants at N samples.

    The theorem is with p. `effective=True` asks for the estimate with the layers' effective
    dimensions, a layer that states none keeping its p; the result holds both in any case.

    `n` is N, the training samples, at least 2. A layer without what the bound needs raises
    `KoriskError`, which names it.

    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W", parameters=100), kr.Known("K", lipschitz=2)])
    >>> round(kr.barron_bound(net, 1000).total, 4)
    2.7631
    >>> round(kr.barron_bound(net, 1000, bound="paper").total, 4)
    5.5262
    """
    asked = effective and states_effective(net)
    whole = _at_samples(net, n, bound, effective=asked)
    other = _other(net, n, bound, effective=not asked) if states_effective(net) else None
    return BarronBound(
        n=n,
        whole=whole,
        floors=evaluate(net, approximation_risks(net), bound),
        by_parameters=other if asked else whole,
        by_effective=whole if asked else other,
    )


def states_effective(net: Network) -> bool:
    """Whether a learned layer states its effective dimension."""
    return any(layer.effective is not None for layer in net.learned)


def _at_samples(net: Network, n: float, bound: BoundForm, *, effective: bool) -> Bound:
    slopes = estimation_slopes(net, effective=effective)
    return evaluate(net, approximation_risks(net) + rate(n) * slopes, bound)


def _other(net: Network, n: float, bound: BoundForm, *, effective: bool) -> Bound | None:
    """The bound that was not asked for; nothing where it cannot be had, as without a p."""
    try:
        return _at_samples(net, n, bound, effective=effective)
    except KoriskError:
        return None


def approximation_risks(net: Network) -> FloatArray:
    """What each layer errs with unlimited data, (L,): C^2/n_l, or the mismatch of (eq:mismatch)."""
    return np.array(
        [
            approximation_risk(layer) if isinstance(layer, Learned) else _mismatch(layer)
            for layer in net
        ]
    )


def estimation_slopes(net: Network, *, effective: bool = False) -> FloatArray:
    """The factor of log N / N in each layer's risk, (L,); zero for known layers."""
    return np.array(
        [
            estimation_slope(layer, effective=effective) if isinstance(layer, Learned) else 0.0
            for layer in net
        ]
    )


def _mismatch(layer: Layer) -> float:
    return layer.mismatch if isinstance(layer, Known) else 0.0


def _risks(net: Network, given: Risks) -> FloatArray:
    if isinstance(given, Mapping):
        for name in given:
            net.index(name)
        values = [_named_risk(layer, given) for layer in net]
    else:
        values = list(given)
        if len(values) != len(net):
            raise KoriskError(
                f"layer_risks must have one entry for each of the {len(net)} layers, "
                f"got {len(values)}; known layers take 0, or pass a mapping from layer names"
            )
    checked = []
    for layer, value in zip(net, values, strict=True):
        field = f"layer_risks of {layer.name!r}"
        remedy = "give the layer's expected squared error"
        risk = _checks.real(field, value, at_least=0, remedy=remedy)
        if isinstance(layer, Known) and risk not in (0.0, layer.mismatch):
            raise KoriskError(
                f"{field} must be 0, because the layer is known, got {shown(value)}; "
                "state the error of an approximately known operator as Known(..., mismatch=)"
            )
        checked.append(max(risk, _mismatch(layer)))
    return np.array(checked)


def _named_risk(layer: Layer, given: Mapping[str, float]) -> float:
    if isinstance(layer, Learned) and layer.name not in given:
        raise KoriskError(
            f"layer_risks has no entry for the learned layer {layer.name!r}; "
            "give the expected squared error of every learned layer"
        )
    return given.get(layer.name, 0.0)


def _missing_constant(net: Network, at: int) -> str:
    """Why an error of the layer at index `at` cannot be followed to the output."""
    name = net.names[at]
    for layer in net.layers[at + 1 :]:
        if np.isinf(layer.bracket.upper):
            return (
                f"layer {layer.name!r}: lipschitz has no upper end ({layer.bracket.how}), and the "
                f"error of layer {name!r} passes through it; give lipschitz="
            )
    return (
        f"the Lipschitz constants after layer {name!r} multiply to more than a double can hold; "
        "check their units"
    )
