"""The effective dimension of a layer in place of its parameters."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import korisk as kr

SLACK = 1 + 1e-9
fractions = st.floats(1e-6, 1)
# That defaults are warned of is asked in tests/theory/test_uncalibrated.py.
pytestmark = pytest.mark.filterwarnings("ignore:N = .* assumes the defaults")
bounds = st.sampled_from(kr.theory.BOUNDS)
sizes = st.integers(2, 10**9)
few = settings(
    max_examples=settings().max_examples // 2
)  # the laws are simple, and inversions are slow


@st.composite
def learned(draw: st.DrawFn, name: str) -> kr.Learned:
    """A layer that may state a dimension at or below its parameters."""
    p = draw(st.integers(1, 10**9))
    return kr.Learned(
        name,
        lipschitz=draw(st.floats(0.1, 10)),
        parameters=p,
        effective=draw(st.none() | fractions.map(lambda share: share * p)),
        C=draw(st.floats(0, 2)),
        kappa=draw(st.floats(1e-3, 1e3)),
    )


@st.composite
def networks(draw: st.DrawFn) -> kr.Network:
    layers: list[kr.theory.Layer] = [draw(learned("a"))]
    if draw(st.booleans()):
        layers += [kr.Known("b", lipschitz=0.7, mismatch=draw(st.floats(0, 1))), draw(learned("c"))]
    return kr.Network(layers)


def with_effective(net: kr.Network, **dimensions: float | None) -> kr.Network:
    """The network whose layers state these dimensions, and no others."""
    layers = [
        replace(layer, effective=dimensions.get(layer.name))
        if isinstance(layer, kr.Learned)
        else layer
        for layer in net
    ]
    return kr.Network(layers, compositions=net.compositions)


def reachable(net: kr.Network, bound: kr.theory.BoundForm) -> float:
    return kr.barron_bound(net, 1000, bound=bound, effective=True).floor * 1.5 + 1e-3


@few
@given(networks(), sizes, bounds)
def test_the_default_is_with_p_whatever_is_stated(
    net: kr.Network, n: int, bound: kr.theory.BoundForm
) -> None:
    plain = with_effective(net)
    found, expected = (kr.barron_bound(each, n, bound=bound) for each in (net, plain))
    assert found.contributions.tolist() == expected.contributions.tolist()
    assert not found.effective
    target = reachable(net, bound)
    needed = kr.sample_size(plain, target, bound=bound)
    assert kr.sample_size(net, target, bound=bound) == needed


@few
@given(networks(), sizes, bounds)
def test_an_effective_dimension_of_p_is_p(
    net: kr.Network, n: int, bound: kr.theory.BoundForm
) -> None:
    full = with_effective(net, **{each.name: each.parameters for each in net.learned})
    found = kr.barron_bound(full, n, bound=bound, effective=True)
    expected = kr.barron_bound(net, n, bound=bound)
    assert found.effective
    assert found.contributions.tolist() == expected.contributions.tolist()
    target = reachable(net, bound)
    needed = kr.sample_size(net, target, bound=bound)
    assert kr.sample_size(full, target, bound=bound, effective=True) == needed


@few
@given(networks(), sizes, bounds, fractions)
def test_a_smaller_dimension_never_needs_more(
    net: kr.Network, n: int, bound: kr.theory.BoundForm, share: float
) -> None:
    stated = {each.name: each.effective or float(each.parameters or 0) for each in net.learned}
    nets = [
        with_effective(net, **{name: share * value for name, value in stated.items()}),
        net,
        with_effective(net),
    ]
    totals = [kr.barron_bound(each, n, bound=bound, effective=True).total for each in nets]
    assert totals[0] <= totals[1] * SLACK
    assert totals[1] <= totals[2] * SLACK
    target = reachable(net, bound)
    needed = [kr.sample_size(each, target, bound=bound, effective=True) for each in nets]
    assert needed == sorted(needed)


@few
@given(networks(), sizes, bounds)
def test_layers_that_state_none_keep_their_p(
    net: kr.Network, n: int, bound: kr.theory.BoundForm
) -> None:
    rate = math.log(n) / n
    risks = {
        each.name: each.C**2 / each.width
        + each.kappa * rate * ((each.parameters or 0) if each.effective is None else each.effective)
        for each in net.learned
    }
    expected = kr.theory.deep_risk(net, risks, bound=bound)
    found = kr.barron_bound(net, n, bound=bound, effective=True)
    assert found.contributions == pytest.approx(expected.contributions)
    for each in net.learned:
        assert kr.theory.layer_risk(each, n, effective=True) == pytest.approx(risks[each.name])


@few
@given(networks(), sizes, bounds)
def test_both_bounds_come_with_either_question(
    net: kr.Network, n: int, bound: kr.theory.BoundForm
) -> None:
    with_p = kr.barron_bound(net, n, bound=bound)
    estimate = kr.barron_bound(net, n, bound=bound, effective=True)
    assert with_p.by_parameters is with_p.whole
    assert estimate.by_parameters is not None
    assert (estimate.by_parameters.total, estimate.floor) == (with_p.total, with_p.floor)
    if all(each.effective is None for each in net.learned):
        assert with_p.by_effective is estimate.by_effective is None
        assert not estimate.effective
        assert estimate.total == with_p.total
        return
    assert estimate.by_effective is estimate.whole
    assert estimate.effective
    assert with_p.by_effective is not None
    assert with_p.by_effective.total == estimate.total


@few
@given(learned("a"), fractions, bounds)
def test_the_slope_is_proportional_to_the_dimension(
    layer: kr.Learned, share: float, bound: kr.theory.BoundForm
) -> None:
    p = float(layer.parameters or 0)
    net = kr.Network([replace(layer, effective=share * p), kr.Known("b", lipschitz=3.0)])
    with_p = kr.theory.risk_line(net, bound=bound)
    line = kr.theory.risk_line(net, bound=bound, effective=True)
    assert line.floor == with_p.floor
    assert line.slope == pytest.approx(share * with_p.slope)
    # kappa times the dimension is all that counts: a kappa read back through d_eff gives p's line.
    again = replace(layer, effective=share * p, kappa=layer.kappa / share)
    same = kr.theory.risk_line(net.replace("a", again), bound=bound, effective=True)
    assert same.slope == pytest.approx(with_p.slope)


@few
@given(st.integers(0, 2**32 - 1), st.integers(3, 200), st.floats(1e-3, 1e3), st.floats(1e-2, 10))
def test_ridge_regression_stays_below_the_estimate(
    seed: int, n: int, penalty: float, noise: float
) -> None:
    """What noise costs a ridge fit at its own inputs, from the fit's matrices, in closed form."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 12))
    z = rng.normal(size=(n, p)) * np.logspace(0, -2, p)
    # Predictions are smoother @ y, so white noise moves them by noise^2 times the squared entries.
    smoother = z @ np.linalg.solve(z.T @ z + n * penalty * np.eye(p), z.T)
    cost = noise**2 * (smoother**2).sum() / n
    values = np.linalg.eigvalsh(z.T @ z / n).clip(0)
    kept = values / (values + penalty)
    assert cost == pytest.approx(noise**2 * (kept**2).sum() / n)
    layer = kr.Learned("z", parameters=p, effective=kept.sum(), kappa=noise**2)
    assert cost <= noise**2 * kept.sum() / n * SLACK
    assert cost <= kr.theory.layer_risk(layer, n, effective=True) * SLACK
    assert kr.theory.layer_risk(layer, n, effective=True) <= kr.theory.layer_risk(layer, n) * SLACK


def test_two_factors_of_effective_lines() -> None:
    known = kr.Network(
        [kr.Learned("W", parameters=80, effective=20, kappa=1e-3), kr.Known("B", lipschitz=0.5)]
    )
    dense = kr.Network([kr.Learned("M", parameters=5120, effective=960, kappa=1e-3)])
    lines = [kr.theory.risk_line(net, effective=True) for net in (known, dense)]
    found = kr.theory.two_factors(lines[0], lines[1], 1e-3)
    assert found.structural == pytest.approx(960 / (20 * 0.25))
    needed = [kr.sample_size(net, 1e-3, effective=True) for net in (known, dense)]
    assert [found.samples_known, found.samples_dense] == needed


def tied() -> kr.Network:
    return kr.Network(
        [
            kr.Learned("a", parameters=20, effective=5, kappa=0.1, C=0.1),
            kr.Learned("a (2)", parameters=25, shared=20, effective=7.5, lipschitz=2.0),
            kr.Learned("c", parameters=6, lipschitz=1.0),
        ]
    )


def test_replacing_a_layer_keeps_what_the_others_state() -> None:
    after = tied().replace("a").learned
    assert [(each.shared, each.effective) for each in after] == [(0, 7.5), (0, None)]
    assert [(each.shared, each.effective) for each in tied().replace("c").learned] == [
        (0, 5.0),
        (20, 7.5),
    ]


@pytest.mark.parametrize("bound", kr.theory.BOUNDS)
def test_savings_with_effective_dimensions(bound: kr.theory.BoundForm) -> None:
    net, n = tied(), 50
    saved = kr.theory.savings(net, "a", bound=bound, effective=True)
    totals = [
        kr.barron_bound(each, n, bound=bound, effective=True).total
        for each in (net, net.replace("a"))
    ]
    assert (
        saved.total(n) == totals[0] - totals[1] < kr.theory.savings(net, "a", bound=bound).total(n)
    )
    assert saved.approximation + saved.estimation(n) == pytest.approx(saved.total(n))
    assert saved.samples(2.0) == tuple(
        kr.sample_size(each, 2.0, bound=bound, effective=True) for each in (net, net.replace("a"))
    )
    one = kr.Network([kr.Learned("a", parameters=20, effective=5)])
    alone = kr.theory.savings(one, "a", effective=True)
    assert alone.total(n) == pytest.approx(5 * math.log(n) / n)  # nothing is stated behind it


def test_without_parameters_only_the_estimate_is_there() -> None:
    net = kr.Network([kr.Learned("W", effective=12.5)])
    found = kr.barron_bound(net, 100, effective=True)
    assert found.by_parameters is None
    assert found.total == found.estimation == pytest.approx(12.5 * math.log(100) / 100)
    assert kr.sample_size(net, 0.1, effective=True) == kr.theory.RiskLine(0, 12.5).samples(0.1)
    for question in (kr.barron_bound, kr.sample_size):
        with pytest.raises(kr.KoriskError, match=r"parameters is missing.*effective=True"):
            question(net, 100)
    for asked in (True, False):  # nothing to offer where nothing is stated
        with pytest.raises(kr.KoriskError, match=r"trainable weights$"):
            kr.barron_bound(kr.Network([kr.Learned("W")]), 100, effective=asked)


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, True, "7", [7], 1e-400])
def test_what_is_no_dimension_is_refused(wrong: object) -> None:
    with pytest.raises(kr.KoriskError, match="'W': effective must be a finite number > 0, got"):
        kr.Learned("W", effective=wrong)  # type: ignore[arg-type]


def test_more_than_the_parameters_is_refused() -> None:
    with pytest.raises(kr.KoriskError, match=r"layer 'W': effective .* 7,680, got 7680\.5; data"):
        kr.Learned("W", parameters=7680, effective=7680.5)
    assert kr.Learned("W", effective=7680.5).effective == 7680.5
    # This p rounds upwards as a double, and is still not above itself.
    assert kr.Learned("W", parameters=2**53 + 3, effective=2**53 + 3).effective == 2.0**53 + 4


def test_repr_says_it() -> None:
    layer = kr.Learned("W", parameters=3, effective=np.float32(0.5))  # type: ignore[arg-type]
    assert repr(layer) == "Learned('W', parameters=3, effective=0.5)"
