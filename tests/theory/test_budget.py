"""Sample sizes against search, and the two factors of Proposition 1."""

import math
from decimal import Decimal, Inexact, localcontext

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import korisk as kr

# That defaults are warned of is asked in tests/theory/test_uncalibrated.py.
pytestmark = pytest.mark.filterwarnings("ignore:N = .* assumes the defaults")

SCAN = np.arange(2, 40_000, dtype=np.float64)
RATES = np.log(SCAN) / SCAN


def scan(gap_over_slope: float) -> int:
    """By looking at every N: the first from which on log N / N stays within the gap."""
    above = np.flatnonzero(gap_over_slope < RATES)
    return 2 if above.size == 0 else int(SCAN[above[-1]]) + 1


def holds(slope: float, gap: float, n: int) -> bool:
    """Slope log n / n <= gap, with 80 digits."""
    with localcontext() as context:
        context.prec = 80
        return Decimal(slope) * Decimal(n).ln() <= Decimal(gap) * n


@settings(max_examples=8 * settings().max_examples)
@given(st.floats(0.0003, 0.9), st.floats(1e-8, 1e8))
def test_equals_a_search_over_every_n(gap_over_slope: float, slope: float) -> None:
    gap = gap_over_slope * slope
    assume(np.min(np.abs(RATES / (gap / slope) - 1)) > 1e-12)  # doubles can tell which side it is
    assert kr.theory.RiskLine(0, slope).samples(gap) == scan(gap / slope)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (0.001, 2),
        (math.e - 1e-9, 2),  # below e the line is never above the target
        (math.e + 1e-9, 2),  # between e and 3 / log 3 it is, but at no whole N
        (3 / math.log(3) - 1e-12, 2),
        (3 / math.log(3) + 1e-12, 4),  # at N = 3 it is above, at 2 and from 4 on below
        (4 / math.log(4) - 1e-12, 4),
        (4 / math.log(4) + 1e-12, 5),
        (5 / math.log(5) + 1e-12, 6),
    ],
)
def test_corners_around_e_and_three(ratio: float, expected: int) -> None:
    assert (kr.theory.RiskLine(0, ratio).samples(1.0), scan(1 / ratio)) == (expected, expected)


@given(st.integers(4, 10**15))
def test_exact_at_every_size_up_to_1e15(n: int) -> None:
    # The ratio at which n itself is the crossing, rounded to a double, and its neighbours.
    for slope in (n / math.log(n), math.nextafter(n / math.log(n), math.inf)):
        found = kr.theory.RiskLine(0, slope).samples(1.0)
        assert holds(slope, 1.0, found)
        assert not holds(slope, 1.0, found - 1)


@given(st.floats(1e-300, 1e300), st.floats(1e-300, 1e300))
def test_never_overflows(slope: float, gap: float) -> None:
    found = kr.theory.RiskLine(0, slope).samples(gap)
    assert found == 2 or found >= 4
    if found > 10**16:
        log_n = math.log(found)
        ratio = math.log(slope) - math.log(gap)
        assert log_n == pytest.approx(ratio + math.log(log_n), rel=1e-12)


def test_the_callers_decimal_context_plays_no_part() -> None:
    line = kr.theory.RiskLine(1e-3, 1e30)
    expected = line.samples(0.1)
    with localcontext() as context:
        context.prec = 80
        crossing = Decimal(expected).ln() / expected
        before = Decimal(expected - 1).ln() / (expected - 1)
        rate = (Decimal(0.1) - Decimal(1e-3)) / Decimal(1e30)  # noqa: RUF032 (the doubles)
        assert crossing <= rate < before
    with localcontext() as context:
        context.prec = 4
        context.traps[Inexact] = True
        assert line.samples(0.1) == expected


def test_target_just_above_the_floor() -> None:
    floor = 1e-3
    slope = 1e-2
    target = math.nextafter(floor, 1)
    n = kr.theory.RiskLine(floor, slope).samples(target)
    assert n > 10**15
    gap = target - floor  # exact, since the two are neighbours
    assert holds(slope, gap, n)
    assert not holds(slope, gap, n - 1)


@pytest.mark.parametrize(("target", "by"), [(1e-3, "the target itself"), (5e-4, r"0\.0005 above")])
def test_target_at_or_below_the_floor_is_unreachable(target: float, by: str) -> None:
    with pytest.raises(kr.errors.UnreachableError, match=rf"levels off at 0\.001 .*{by}") as caught:
        kr.theory.RiskLine(1e-3, 1e-2).samples(target)
    assert (caught.value.exit_code, caught.value.target, caught.value.floor) == (3, target, 1e-3)


@pytest.mark.parametrize("target", [0, -1, math.nan, math.inf, "x", None])
def test_wrong_targets_are_refused(target: object) -> None:
    with pytest.raises(kr.KoriskError, match="target must be a finite number > 0"):
        kr.theory.RiskLine(0, 1).samples(target)  # type: ignore[arg-type]
    with pytest.raises(kr.KoriskError, match="slope must be a finite number >= 0"):
        kr.theory.RiskLine(0, -1)


def two_learned(scale: float, mismatch: float) -> kr.Network:
    return kr.Network(
        [
            kr.Learned("a", parameters=50, C=0.02, kappa=scale),
            kr.Known("b", lipschitz=1.5, mismatch=mismatch),
            kr.Learned("c", parameters=9, lipschitz=0.7, C=0.01, kappa=2 * scale),
        ],
        compositions=[kr.theory.Composition("b", "c", lipschitz=0.9)],
    )


def exact_bound(net: kr.Network, n: int | None, bound: kr.theory.BoundForm) -> Decimal:
    """The bound of `two_learned` at n, or its floor, from its constants, with 80 digits."""
    with localcontext() as context:
        context.prec = 80
        rate = Decimal(0) if n is None else Decimal(n).ln() / n
        risks = []
        for layer in net:
            if isinstance(layer, kr.Learned):
                assert layer.parameters is not None
                slope = Decimal(layer.kappa) * layer.parameters
                risks.append(Decimal(layer.C) ** 2 / Decimal(layer.width) + slope * rate)
            else:
                assert isinstance(layer, kr.Known)
                risks.append(Decimal(layer.mismatch))
        b, c = (Decimal(net[name].bracket.upper) for name in ("b", "c"))
        run = Decimal(net.compositions[0].bracket.upper)
        tails = [min(b * c, run) if bound == "composed" else b * c, c, Decimal(1)]
        pairs = list(zip(tails, risks, strict=True))
        if bound == "paper":
            last = len(net)
            powers = [last - 1, *range(last - 1, 0, -1)]
            return sum(
                (2**power * p**2 * r for power, (p, r) in zip(powers, pairs, strict=True)),
                Decimal(0),
            )
        return sum((p * r.sqrt() for p, r in pairs), Decimal(0)) ** 2


@settings(max_examples=6 * settings().max_examples)
@given(
    st.floats(1e-6, 10),
    st.floats(0, 1e-2),
    st.floats(-16.5, 0.5).map(lambda x: 10**x),
    st.sampled_from(kr.theory.BOUNDS),
)
def test_network_sample_size_is_the_first_n_that_keeps_the_target(
    scale: float, mismatch: float, excess: float, bound: kr.theory.BoundForm
) -> None:
    net = two_learned(scale, mismatch)
    floor = exact_bound(net, None, bound)
    target = float(floor * (1 + Decimal(excess)))
    if Decimal(target) <= floor:
        target = math.nextafter(target, math.inf)
    assume(Decimal(target) > floor)
    n = kr.sample_size(net, target, bound=bound)
    assert exact_bound(net, n, bound) <= Decimal(target)
    if n > 2:  # an answer of 4 or more: the one before it must fail
        assert exact_bound(net, n - 1, bound) > Decimal(target)


def test_network_targets_below_the_floor_are_unreachable() -> None:
    net = two_learned(1.0, 0.1)
    for bound in kr.theory.BOUNDS:
        floor = kr.barron_bound(net, 2, bound=bound).floor
        with pytest.raises(kr.errors.UnreachableError):
            kr.sample_size(net, floor * 0.99, bound=bound)


def test_what_learns_nothing_needs_no_data() -> None:
    assert kr.theory.RiskLine(1e-3, 0).samples(1e-3) == 2
    assert kr.sample_size(kr.Network([kr.Known("K", lipschitz=1)]), 0.1) == 2
    net = kr.Network([kr.Known("K", mismatch=0.1), kr.Known("L", lipschitz=1, mismatch=0.1)])
    assert kr.sample_size(net, 0.5) == 2


def test_risk_line_of_the_paper_and_of_single_layers() -> None:
    net = two_learned(0.1, 0.0)
    line = kr.theory.risk_line(net, bound="paper")
    for n in (2, 64, 10**6):
        assert line.predict(n) == pytest.approx(kr.barron_bound(net, n, bound="paper").total)
    with pytest.raises(kr.KoriskError, match="is not a line in log N / N"):
        kr.theory.risk_line(net, bound="minkowski")
    single = net.replace("c")
    line = kr.theory.risk_line(single)
    assert line.predict(64) == pytest.approx(kr.barron_bound(single, 64).total)


def test_two_factors_multiply_to_the_ratio_of_n_over_log_n() -> None:
    ko, fc = kr.theory.RiskLine(1e-3, 1e-1), kr.theory.RiskLine(2e-3, 3.0)
    found = kr.theory.two_factors(ko, fc, 2.0001e-3)
    assert found.structural == pytest.approx(30)
    assert found.approximation_budget == pytest.approx(1.0001e-3 / 1e-7)
    ratio = (found.samples_dense / math.log(found.samples_dense)) / (
        found.samples_known / math.log(found.samples_known)
    )
    # Whole numbers stand for the crossings, so the identity holds to one sample in the smaller N.
    assert ratio == pytest.approx(found.product, rel=2 / found.samples_known)
    assert found.ratio == found.samples_dense / found.samples_known


def test_two_factors_refuse_what_has_no_ratio() -> None:
    ko, fc = kr.theory.RiskLine(1e-3, 1e-1), kr.theory.RiskLine(2e-3, 3.0)
    for target, line in ((1.5e-3, "dense"), (1e-4, "known-operator")):
        with pytest.raises(kr.errors.UnreachableError, match=f"the {line} line levels off"):
            kr.theory.two_factors(ko, fc, target)
    with pytest.raises(kr.KoriskError, match="slope of the known-operator line must be > 0"):
        kr.theory.two_factors(kr.theory.RiskLine(0, 0), fc, 1)
    with pytest.raises(kr.KoriskError, match="target must be"):
        kr.theory.two_factors(ko, fc, math.nan)


def test_a_ratio_beyond_doubles_is_infinite() -> None:
    found = kr.theory.two_factors(
        kr.theory.RiskLine(0, 1e-300), kr.theory.RiskLine(0, 1e300), 1e-20
    )
    assert found.samples_known == 2
    assert math.isinf(found.ratio)


@pytest.mark.parametrize("H", [8, 128, 512])
def test_structural_factor_of_matched_constants(H: int) -> None:
    relu = kr.Known("ReLU", lipschitz=1)
    known = kr.Network(
        [
            kr.Learned("W", parameters=60 * H),
            kr.Known("K", lipschitz=0.026),
            kr.Known("A^T", lipschitz=85.7),
            relu,
        ]
    )
    dense = kr.Network([kr.Learned("M", parameters=60 * H**3), relu])
    slopes = [kr.theory.risk_line(net, bound="paper").slope for net in (dense, known)]
    closed = kr.theory.structural_factor(H=H, filter_norm=0.026, backprojection_norm=85.7)
    assert slopes[0] / slopes[1] == pytest.approx(closed)
