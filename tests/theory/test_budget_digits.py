"""Sample sizes to the last digit: by search in small networks, and with decimals in huge ones."""

import math
import sys
import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.typing import NDArray

import korisk as kr
from korisk.errors import KoriskWarning, UnreachableError
from korisk.theory import BOUNDS, RiskLine, Savings
from korisk.theory.budget import (
    line_samples,
    root_sum_samples,
    samples_needed,
    uncalibrated,
)

SCAN = np.arange(2.0, 3000.0)

# Four layers, so that no power of two in the paper's form is its own double; slopes below 1 and
# above, tails below 1 and above, and floors at a known layer as well.
NET = kr.Network(
    [
        kr.Learned("a", parameters=3, kappa=0.125, C=0.25, width=2),
        kr.Known("b", lipschitz=1.5, mismatch=0.03125),
        kr.Learned("c", parameters=2, lipschitz=0.75, kappa=0.375),
        kr.Learned("d", parameters=5, lipschitz=0.5, kappa=2.0, C=0.125),
    ]
)
POWERS = [8, 8, 4, 2]
TAILS = [1.5 * 0.75 * 0.5, 0.75 * 0.5, 0.5, 1.0]


def by_hand(n: NDArray[np.float64], bound: str) -> NDArray[np.float64]:
    """The bound of NET at each n, from its constants."""
    rate = np.log(n) / n
    risks = [0.03125 + 0.375 * rate, 0.03125 + 0 * rate, 0.75 * rate, 0.015625 + 10 * rate]
    if bound == "paper":
        terms = zip(POWERS, TAILS, risks, strict=True)
        return np.asarray(sum(power * tail**2 * risk for power, tail, risk in terms))
    roots = sum(tail * np.sqrt(risk) for tail, risk in zip(TAILS, risks, strict=True))
    return np.asarray(roots) ** 2


@pytest.mark.parametrize("form", BOUNDS)
def test_the_first_n_is_that_of_a_search(form: kr.theory.BoundForm) -> None:
    values = by_hand(SCAN, form)
    for n in (6, 17, 80, 433, 2111):
        bound = kr.barron_bound(NET, n, bound=form)
        assert bound.total == pytest.approx(values[n - 2], rel=1e-12)
        # Between the values at n - 1 and n, so that no digit decides.
        target = float((values[n - 3] + values[n - 2]) / 2)
        assert kr.sample_size(NET, target, bound=form) == n
    floor = by_hand(np.array([1e300]), form)[0]
    assert kr.barron_bound(NET, 100, bound=form).floor == pytest.approx(floor, rel=1e-12)


@pytest.mark.parametrize("form", BOUNDS)
def test_a_layer_without_error_may_have_no_tail(form: kr.theory.BoundForm) -> None:
    front = kr.Network([kr.Known("K"), kr.Known("U"), kr.Learned("W", parameters=5, kappa=2.0)])
    alone = kr.Network([kr.Learned("W", parameters=5, kappa=2.0)])
    # Alone a layer is the first, with 2^0; behind others the last, with 2^1.
    target = 0.5 if form == "paper" else 0.25
    assert kr.sample_size(front, target, bound=form) == kr.sample_size(alone, 0.25, bound=form)
    pair = [kr.Learned(name, lipschitz=1, parameters=5, C=0.5) for name in "VW"]
    if form != "paper":
        needed = kr.sample_size(kr.Network(pair), 3.0, bound=form)
        front = kr.Network([kr.Known("K"), kr.Known("U"), *pair])
        assert kr.sample_size(front, 3.0, bound=form) == needed > 2


@pytest.mark.parametrize("form", BOUNDS)
def test_an_error_behind_a_zero_map_does_not_count(form: kr.theory.BoundForm) -> None:
    layers = [kr.Learned("V", parameters=9, kappa=2), kr.Known("K", lipschitz=0)]
    assert kr.sample_size(kr.Network(layers), 1e-9, bound=form) == 2
    behind = kr.Learned("W", parameters=5, kappa=2.0, lipschitz=1)
    target = 0.5 if form == "paper" else 0.25
    alone = kr.Network([kr.Learned("W", parameters=5, kappa=2.0)])
    needed = kr.sample_size(kr.Network([*layers, behind]), target, bound=form)
    assert needed == kr.sample_size(alone, 0.25, bound=form)


def keeps(terms: list[tuple[float, float, float]], target: float, n: int) -> bool:
    """Whether (sum P sqrt(f + s log n / n))^2 <= target, with a thousand digits."""
    with localcontext() as context:
        context.prec = 1000
        rate = Decimal(n).ln() / n
        roots = [Decimal(p) * (Decimal(f) + Decimal(s) * rate).sqrt() for p, f, s in terms]
        return sum(roots, Decimal(0)) ** 2 <= Decimal(target)


@pytest.mark.parametrize(
    "terms",
    [
        [(1.0, 0.0, 1e150)],
        [(3.0, 0.1, 1e150)],
        [(1.0, 0.0, 1e150), (0.5, 0.1, 2.0)],
        [(1.0, 0.1, 0.3), (1e80, 0.0, 1e10)],
        [(1.0, 0.0, 1e240), (1.0, 0.0, 1e260)],  # the rate is below 1e-260
    ],
)
def test_a_huge_n_is_right_to_its_last_digit(terms: list[tuple[float, float, float]]) -> None:
    n = root_sum_samples(terms, 2.0)
    assert n > 10**100
    assert keeps(terms, 2.0, n)
    assert not keeps(terms, 2.0, n - 1)


@pytest.mark.parametrize("slope", [1e30, 1e130, 1e299])
def test_a_gap_may_cancel_half_of_the_digits(slope: float) -> None:
    target = math.nextafter(0.1, 1)
    n = line_samples(0.1, slope, target)
    assert keeps([(1.0, 0.1, slope)], target, n)
    assert not keeps([(1.0, 0.1, slope)], target, n - 1)


def test_a_target_that_equals_the_floor_of_roots_is_known_to_be_equal() -> None:
    # sqrt(2) + sqrt(2) is the root of 8, which no number of digits shows.
    with pytest.raises(UnreachableError) as refused:
        root_sum_samples([(1.0, 2.0, 1.0), (1.0, 2.0, 1.0)], 8.0)
    assert refused.value.floor == 8.0
    assert root_sum_samples([(1.0, 2.0, 0.0), (1.0, 2.0, 0.0)], 8.0) == 2
    assert root_sum_samples([(1.0, 2.0, 1.0), (1.0, 2.0, 1.0)], math.nextafter(8, 9)) > 10**16
    # A floor above the target by less than the first digits show.
    with pytest.raises(UnreachableError):
        root_sum_samples([(1.0, 1.0, 0.0), (1e-300, 1.0, 0.0)], 1.0)


def test_a_gap_of_thirty_digits_is_still_one() -> None:
    # The roots of the floors add up to 1 - 2^-106, and the target is 1.
    terms = [(1 - 2.0**-53, 1.0, 0.5), (2.0**-53 * (1 - 2.0**-53), 1.0, 2.0)]
    n = root_sum_samples(terms, 1.0)
    assert n > 10**30
    assert keeps(terms, 1.0, n)
    assert not keeps(terms, 1.0, n - 1)


def test_a_line_goes_on_from_two_samples() -> None:
    line = RiskLine(0.5, 2.0)
    assert line.predict(2) == pytest.approx(0.5 + math.log(2))
    assert RiskLine(0, 0).samples(1e-300) == 2
    assert RiskLine(0.5, 0).samples(0.5) == 2
    with pytest.raises(UnreachableError):
        RiskLine(0.5, 0).samples(0.49)


# --- Savings, defaults and warnings --------------------------------------------------------------


def test_savings_are_differences_of_both_bounds() -> None:
    layer = kr.Learned("W", parameters=8, kappa=0.5)
    net = kr.Network([layer, kr.Learned("V", parameters=4, lipschitz=3, kappa=0.5, C=1)])
    rate = math.log(100) / 100
    saved = kr.theory.savings(net, "V", bound="paper")
    assert Savings(net, net.replace("V"), "paper") == saved
    # A known V leaves 2 * 9 * 4 rate of W; V itself has 2 (1 + 2 rate).
    assert saved.approximation == pytest.approx(2)
    assert saved.estimation(100) == pytest.approx(4 * rate)
    assert saved.total(100) == pytest.approx(2 + 4 * rate)
    line = kr.theory.risk_line(net.replace("V"))
    assert line.floor == 0
    assert line.slope == pytest.approx(9 * 4)
    assert kr.theory.layer_risk(layer, 100) == pytest.approx(4 * rate)
    before, after = saved.samples(20.0)
    assert before == kr.sample_size(net, 20.0, bound="paper")
    assert after == kr.sample_size(net.replace("V"), 20.0, bound="paper")


def test_one_erring_layer_makes_a_line_and_two_do_not() -> None:
    known = kr.Network([kr.Known("K", mismatch=0.25), kr.Known("B", lipschitz=2)])
    line = kr.theory.risk_line(known)
    assert (line.floor, line.slope) == (1.0, 0.0)
    with pytest.raises(kr.KoriskError, match="the composed bound of several erring layers"):
        kr.theory.risk_line(NET)
    line = kr.theory.risk_line(NET, bound="paper")
    assert line.predict(50) == pytest.approx(by_hand(np.array([50.0]), "paper")[0])


def test_a_layer_whose_floor_equals_its_slope_errs_as_well() -> None:
    # C^2 / n = kappa p = 4, so that their difference vanishes.
    layer = kr.Learned("V", C=2, parameters=4)
    with pytest.raises(kr.KoriskError, match="of several erring layers is not a line"):
        kr.theory.risk_line(kr.Network([layer, kr.Learned("W", C=2, parameters=4, lipschitz=1)]))
    with pytest.raises(kr.KoriskError, match="layer 'U': lipschitz has no upper end"):
        kr.sample_size(kr.Network([layer, kr.Known("U")]), 100.0)


def test_lines_and_savings_of_floors() -> None:
    for wrong in ((-0.5, 1.0), (0.5, -0.5)):
        with pytest.raises(kr.KoriskError, match="must be a finite number >= 0"):
            RiskLine(*wrong)
    net = kr.Network([kr.Learned("W", C=2, parameters=4), kr.Known("K", lipschitz=1, mismatch=1)])
    # (sqrt(4) + 1)^2 before, and the mismatch alone after.
    assert kr.theory.savings(net, "W").approximation == pytest.approx(9 - 1)
    layer = kr.Learned("W", parameters=8, kappa=0.5)
    plain = kr.Learned("W", parameters=8, kappa=0.5)
    sizes = [samples_needed(kr.Network([learned]), 0.1) for learned in (layer, plain)]
    assert sizes[0] == sizes[1]


def test_a_warning_names_the_call_that_caused_it() -> None:
    net = kr.Network([kr.Learned("W", parameters=100), kr.Known("K", lipschitz=2)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        n = kr.sample_size(net, 0.5)
    (warning,) = caught
    assert warning.category is KoriskWarning
    assert warning.filename == __file__
    assert str(warning.message).startswith(f"N = {n:,} assumes the defaults")


def test_reservations_are_told_together_and_few_names_each() -> None:
    present = kr.theory.NormBracket(1, 1, whose="present weights")
    names = [f"u{k}" for k in range(8)]
    layers = [kr.Learned(name, parameters=1, lipschitz=present) for name in names]
    text = uncalibrated(kr.Network(layers))
    listed = ", ".join(names[:6])
    assert f"the present weights of {listed}, where the theorem speaks of the true layers" in text
    assert f", and assumes the defaults C = 0 and kappa = 1 of {listed}: it compares" in text
    assert uncalibrated(NET) == ""


def test_the_ratio_of_two_sample_sizes_may_exceed_a_double() -> None:
    factors = kr.theory.two_factors(RiskLine(0, 1e-300), RiskLine(0, 1e300), 1e-20)
    assert factors.ratio == math.inf
    assert factors.samples_dense > sys.float_info.max
    plain = kr.theory.two_factors(RiskLine(0.25, 2), RiskLine(0.5, 6), 1.0)
    assert (plain.target, plain.structural, plain.approximation_budget) == (1.0, 3.0, 1.5)
    assert plain.product == 4.5
    assert plain.samples_known == RiskLine(0.25, 2).samples(1.0)
    assert plain.samples_dense == RiskLine(0.5, 6).samples(1.0)
    assert plain.ratio == plain.samples_dense / plain.samples_known
