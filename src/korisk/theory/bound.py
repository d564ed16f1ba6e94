"""The deep risk estimator: bounds on E||f_L(X) - f̂_L(X)||^2, one function per equation."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from korisk import _checks
from korisk.errors import Argument, KoriskError, invalid
from korisk.theory.amplification import FloatArray, paper_amplification
from korisk.theory.layer import Known, Layer, Learned
from korisk.theory.network import BoundForm, Network

Risks = Sequence[float] | FloatArray | Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Bound:
    """An upper bound of the expected squared error, layer by layer. Made by `deep_risk`.

    In the paper's form a layer contributes A_l r_l. In the Minkowski forms the bound is
    (sum_l t_l)^2 with t_l = P_l sqrt(r_l), and a layer contributes t_l sum_k t_k, Eq. (eq:shares):
    its own square and half of every cross term.

    Parameters
    ----------
    form : {"composed", "minkowski", "paper"}
        The form of the bound.
    layers : tuple of str, (L,)
        The names of the layers.
    contributions : array, (L,)
        The contribution of each layer; they add up to `total`.

    Examples
    --------
    >>> import korisk as kr
    >>> layers = [kr.Learned("W"), kr.Known("K", lipschitz=3), kr.Learned("B", lipschitz=2)]
    >>> net = kr.Network(layers)
    >>> bound = kr.theory.deep_risk(net, {"W": 0.01, "B": 0.04}, bound="paper")
    >>> bound.contributions.round(2).tolist(), round(bound.total, 2)
    ([1.44, 0.0, 0.08], 1.52)
    """

    form: BoundForm
    layers: tuple[str, ...]
    contributions: FloatArray

    @property
    def total(self) -> float:
        """The value of the bound."""
        return float(self.contributions.sum())

    @property
    def shares(self) -> FloatArray:
        """(L,) each layer's share of the total; zero if the total is."""
        total = self.total
        return self.contributions / total if total > 0 else np.zeros_like(self.contributions)

    def __float__(self) -> float:
        return self.total


@dataclass(frozen=True, eq=False)
class BarronBound:
    """The bound at N training samples: an estimation part, which data removes, and a floor.

    Made by `barron_bound`.

    Parameters
    ----------
    n : float
        N, the training samples.
    whole : Bound
        The bound at N.
    floors : Bound
        The bound with unlimited data: approximation and mismatch.

    Examples
    --------
    >>> import korisk as kr
    >>> learned = kr.Learned("W", parameters=100, C=1, width=50)
    >>> net = kr.Network([learned, kr.Known("K", lipschitz=2)])
    >>> bound = kr.barron_bound(net, 1000)
    >>> round(bound.floor, 4), round(bound.estimation, 4), round(bound.total, 4)
    (0.08, 2.7631, 2.8431)
    """

    n: float
    whole: Bound
    floors: Bound

    @property
    def total(self) -> float:
        """The bound at N."""
        return self.whole.total

    @property
    def floor(self) -> float:
        """The limit for N to infinity: approximation and mismatch."""
        return self.floors.total

    @property
    def estimation(self) -> float:
        """The part that more data removes."""
        return float(self.estimations.sum())

    @property
    def contributions(self) -> FloatArray:
        """(L,) the contribution of each layer to the total."""
        return self.whole.contributions

    @property
    def approximations(self) -> FloatArray:
        """(L,) the contribution of each layer to the floor; for a known layer, its mismatch."""
        return self.floors.contributions

    @property
    def estimations(self) -> FloatArray:
        """(L,) the contribution of each layer to the estimation part, with its cross terms."""
        return self.whole.contributions - self.floors.contributions

    def __float__(self) -> float:
        return self.total


def layer_risk(layer: Learned, n: float) -> float:
    """Eq. (eq:layer-risk): C^2/n_l + kappa p log N / N.

    Parameters
    ----------
    layer : Learned
        The layer, with its constants.
    n : float
        N, the training samples, at least 2.

    Returns
    -------
    float
        An expected squared error.

    Examples
    --------
    >>> import korisk as kr
    >>> round(kr.theory.layer_risk(kr.Learned("W", parameters=100), 1000), 4)
    0.6908
    """
    return approximation_risk(layer) + estimation_slope(layer) * rate(n)


def approximation_risk(layer: Layer) -> float:
    """The risk of a layer with unlimited data: C^2/n_l of (eq:layer-risk), or its mismatch."""
    if isinstance(layer, Learned):
        return layer.C * layer.C / layer.width
    return layer.mismatch if isinstance(layer, Known) else 0.0


def estimation_slope(layer: Layer) -> float:
    """kappa p, the factor of log N / N in (eq:layer-risk); zero for a known layer."""
    # More data removes the error of a learned layer only; a mismatch stays.
    if not isinstance(layer, Learned):
        return 0.0
    if layer.parameters is None:
        raise KoriskError(
            f"layer {layer.name!r}: parameters is missing, and the estimation term "
            "kappa p log N / N needs it; count the layer's trainable weights"
        )
    return layer.kappa * layer.parameters


def rate(n: float) -> float:
    """log N / N."""
    samples = _checks.sample_count(n)
    return float(np.log(samples) / samples)


def approximation_risks(net: Network) -> FloatArray:
    """(L,) the risk of each layer with unlimited data, including mismatches, (eq:mismatch)."""
    return np.array([approximation_risk(layer) for layer in net])


def estimation_slopes(net: Network) -> FloatArray:
    """(L,) the factor of log N / N in each layer's risk; zero for known layers."""
    return np.array([estimation_slope(layer) for layer in net])


def deep_risk(net: Network, layer_risks: Risks, *, bound: BoundForm = "composed") -> Bound:
    """Theorem (thm:deep-risk) from the expected squared error of each layer.

    Parameters
    ----------
    net : Network
        The network.
    layer_risks : sequence of float, (L,), or mapping from names to float
        E||e_l||^2 for every layer in order, or by name. An exact known layer has none, and one
        with a mismatch keeps the mismatch that it states.
    bound : {"composed", "minkowski", "paper"}, default "composed"
        The form of the bound, one of `BOUNDS`.

    Returns
    -------
    Bound
        The bound, layer by layer.

    Raises
    ------
    KoriskError
        If a risk is missing or belongs to an exact known layer, or if an error passes through a
        layer without a Lipschitz constant.

    Examples
    --------
    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W"), kr.Known("K", lipschitz=3)])
    >>> round(kr.theory.deep_risk(net, [0.01, 0]).total, 4)
    0.09
    >>> round(kr.theory.deep_risk(net, {"W": 0.01}, bound="paper").total, 4)
    0.18
    """
    # By name: every learned layer must be there, and no name may be misspelt, since a risk that is
    # silently 0 would give a bound that does not hold.
    if isinstance(layer_risks, Mapping):
        for name in layer_risks:
            net.index(name)
        for name in (layer.name for layer in net.learned):
            rule, remedy = f"have an entry for the learned layer {name!r}", "give one for each"
            _checks.require(name in layer_risks, "layer_risks", rule, layer_risks, remedy)
        values = [layer_risks.get(name, 0.0) for name in net.names]
    else:
        values = list(layer_risks)
    rule = f"have one entry for each of the {len(net)} layers"
    remedy = "known layers take 0, or pass a mapping from layer names"
    _checks.require(len(values) == len(net), "layer_risks", rule, len(values), remedy)
    risks = []
    for layer, value in zip(net, values, strict=True):
        field, remedy = f"layer_risks of {layer.name!r}", "give the layer's expected squared error"
        risk = _checks.real(field, value, at_least=0, remedy=remedy)
        # A known layer errs by its stated mismatch; 0 stands for "as stated".
        mismatch = layer.mismatch if isinstance(layer, Known) else risk
        if risk not in (0.0, mismatch):
            remedy = "state the error of an approximately known operator as Known(..., mismatch=)"
            raise invalid(field, "be 0, because the layer is known", value, remedy)
        risks.append(mismatch)
    return evaluate(net, np.array(risks), bound)


def evaluate(net: Network, risks: FloatArray, bound: BoundForm) -> Bound:
    """The bound of a network with layer risks `risks` (L,), which are not checked.

    The contributions are A_l E||e_l||^2 of Eq. (eq:deep-risk), or the terms of
    (sum_l P_l sqrt(r_l))^2, Eq. (eq:minkowski) or (eq:composed), depending on the tails;
    docs/explanation/theory.md has the proofs.
    """
    # An infinite tail matters only behind a layer that errs: name the constant that is missing.
    tails = net.tails(bound)
    unbounded = np.flatnonzero(np.isinf(tails) & (risks > 0))
    if unbounded.size:
        # The last erring layer with an infinite tail has the fewest layers behind it to blame.
        index = int(unbounded[-1])
        for layer in map(net.__getitem__, net.behind(net.names[index])):
            if np.isinf(layer.bracket.upper):
                raise KoriskError(
                    f"layer {layer.name!r}: lipschitz has no upper end ({layer.bracket.how}), and "
                    f"the error of layer {net.names[index]!r} passes through it; give ",
                    Argument("lipschitz", ...),
                )
        constants = f"the Lipschitz constants after layer {net.names[index]!r}"
        raise KoriskError(f"{constants} multiply to more than a double can hold; check their units")
    # A layer without error contributes nothing, even where its tail is not known (infinite).
    roots = np.zeros_like(risks)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        np.multiply(tails, np.sqrt(risks), out=roots, where=risks > 0)
        # Eq. (eq:Al) squares each root; (eq:shares) splits the square of their sum.
        terms = paper_amplification(roots) if bound == "paper" else roots * float(roots.sum())
        finite = np.isfinite(terms.sum())
    if not finite:
        most = f"the layer that errs most being {net.names[int(np.argmax(risks))]!r}"
        why = f"the {bound} bound is larger than a double can hold"
        raise KoriskError(f"{why}; check the units of the constants, {most}")
    return Bound(form=bound, layers=net.names, contributions=terms)


def growth(net: Network, name: str, bound: BoundForm) -> float:
    """The factor from the risk of one layer to the bound where no other layer errs: its A_l."""
    risks = np.zeros(len(net))
    risks[net.index(name)] = 1.0
    return evaluate(net, risks, bound).total


def in_form(net: Network, bound: BoundForm) -> Network:
    """A network whose constants were calibrated, with those of this form; others as they are.

    The bound stays the line that was measured, Eq. (eq:calibrated-bound).
    """
    if net.calibrated in (None, bound) or not net.learned:
        return net
    (layer,) = net.learned
    ratio = growth(net, layer.name, net.calibrated) / growth(net, layer.name, bound)
    rescaled = replace(layer, C=layer.C * math.sqrt(ratio), kappa=layer.kappa * ratio)
    layers = tuple(rescaled if member is layer else member for member in net)
    return replace(net, layers=layers, calibrated=bound)


def barron_bound(net: Network, n: float, *, bound: BoundForm = "composed") -> BarronBound:
    """Eq. (eq:deep-risk-barron): every learned layer's risk from its constants at N samples.

    Parameters
    ----------
    net : Network
        The network, with the constants of its learned layers.
    n : float
        N, the training samples, at least 2.
    bound : {"composed", "minkowski", "paper"}, default "composed"
        The form of the bound, one of `BOUNDS`.

    Returns
    -------
    BarronBound
        The bound, with its floor and its estimation part.

    Raises
    ------
    KoriskError
        If a layer lacks a constant that the bound needs; the message names it.

    Examples
    --------
    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W", parameters=100), kr.Known("K", lipschitz=2)])
    >>> round(kr.barron_bound(net, 1000).total, 4)
    2.7631
    >>> round(kr.barron_bound(net, 1000, bound="paper").total, 4)
    5.5262
    """
    # In the Minkowski forms floor and estimation do not add up: cross terms mix both. So the whole
    # bound is evaluated, and the estimation part is what remains above the floor.
    net = in_form(net, bound)
    floors = approximation_risks(net)
    whole = evaluate(net, floors + rate(n) * estimation_slopes(net), bound)
    return BarronBound(n, whole, evaluate(net, floors, bound))
