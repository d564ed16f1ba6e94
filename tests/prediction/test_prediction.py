"""Predictions: which of theory and pilot they follow, how surely, and two of them compared."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import korisk as kr
from korisk.errors import KoriskError
from korisk.planning.futures.posterior import MOST_SIZES, posterior
from korisk.planning.futures.prior import PRIORS
from korisk.prediction.misfit import BELIEF, LogErrors
from korisk.prediction.pair import PredictedPair, track
from korisk.prediction.prediction import FARTHEST_N, Prediction, log_errors, misfit_of, trust_words
from pilots import power_pilot, scaled

Array = NDArray[np.float64]

FLOOR, SCALE, RATE = 0.02, 0.5, 0.5
N = np.array([1.0, 2, 5, 30, 200, 3000, 1e5, 1e7])


@dataclass(frozen=True)
class Power:
    """A theory of floor + scale N^-rate, or of floor + scale log N / N."""

    floor: float = FLOOR
    scale: float = SCALE
    rate: float = RATE
    parameters: int | None = 640
    line: bool = False

    def errors(self, n: ArrayLike) -> Array:
        sizes = np.atleast_1d(np.asarray(n, dtype=float))
        falling = np.log(sizes) / sizes if self.line else sizes**-self.rate
        return np.asarray(self.floor + self.scale * falling)


class Cliff(Power):
    """A theory that falls to nothing beyond N = 100."""

    def errors(self, n: ArrayLike) -> Array:
        return np.where(np.asarray(n) > 100, 1e-15, Power(0.0, 0.5, 0.2).errors(n))


class Bump(Power):
    """A theory that rises again beyond N = 1000, as one behind a ReLU may."""

    def errors(self, n: ArrayLike) -> Array:
        return np.where(np.asarray(n) > 1000, 2.0, Power(0.0, 1.0).errors(n))


STILL = replace(BELIEF, unseen=0.0)  # as of very many examples
PLAIN = Prediction(Power(), "FC", 256, belief=STILL)
FITTING = PLAIN.with_pilot(power_pilot(noise=0.02))
FLAT = PLAIN.with_pilot(power_pilot(0.3, 1e-9, noise=0.01))
CLIFF = Prediction(Cliff(), "FC", 256, valid_to=100.0, belief=STILL)


def made(theory: Power = Power(0.0, 1.0, 1.0), model: str = "FC") -> Prediction:  # noqa: B008
    """By default an error of 1 / N."""
    return Prediction(theory, model, 64, belief=STILL)


def measured(*factors: float, first: int = 8) -> kr.Curve:
    """Two seeds around 1 / N, each mean times its factor."""
    n = [first * 2**k for k in range(len(factors)) for _ in "ab"]
    errors = [seed * factor for factor in factors for seed in (0.95, 1.05)]
    return kr.Curve(n, np.divide(errors, n), ["a", "b"] * len(factors), "FC")


def width(made: Prediction, n: ArrayLike) -> Array:
    low, high = made.band(n)
    return np.log(high / low)


def met(made: Prediction, n: ArrayLike, target: float) -> Array:
    return made.met(np.atleast_1d(np.asarray(n, float)), target)


def test_without_checks_it_is_the_computed_curve() -> None:
    assert PLAIN.errors(N) == pytest.approx(Power().errors(N), rel=1e-6)
    assert PLAIN.computed(N) == pytest.approx(Power().errors(N))
    assert (PLAIN.floor, PLAIN.parameters) == (FLOOR, 640)
    assert (PLAIN.trust, PLAIN.doubted, PLAIN.checks) == (1.0, False, ())
    assert (width(replace(PLAIN, level=0.5), N) > 1.2 * width(PLAIN, N)).all()


@pytest.mark.parametrize("made", [PLAIN, FITTING, FLAT, replace(FITTING, valid_to=100.0)])
def test_bands_hold_their_middle_and_quantiles_are_those_of_the_probability(
    made: Prediction,
) -> None:
    n = np.array([5.0, 80.0, 3e4])
    low, high = made.band(n)
    assert (low < made.errors(n)).all()
    assert (made.errors(n) < high).all()
    for at, size in enumerate(n[n <= made.valid_to]):
        assert met(made, size, low[at])[0] == pytest.approx(0.05, abs=1e-4)
        assert met(made, size, high[at])[0] == pytest.approx(0.95, abs=1e-4)


def test_targets_are_above_zero_and_sizes_are_one_or_more() -> None:
    for target in (0.0, -1.0, math.nan, math.inf):
        for ask in (PLAIN.plan, lambda goal: PLAIN.probability(8, goal)):
            with pytest.raises(KoriskError, match="target must be"):
                ask(target)
    sizes: list[Any] = [0, 0.5, -3, math.nan, math.inf, [[1, 2]], "many", None]
    for n in sizes:
        for method in (PLAIN.errors, PLAIN.computed):
            with pytest.raises(KoriskError, match="n must be numbers of training samples >= 1"):
                method(n)


def test_a_pilot_above_the_curve_lifts_it_and_tells_how_far() -> None:
    """Also far beyond the pilot, where a fitted curve could not know."""
    lifted = PLAIN.with_pilot(scaled(power_pilot(noise=0.02), 1.2))
    for n in (64, 512, 4096):
        assert lifted.errors(n)[0] == pytest.approx(1.2 * Power().errors(n)[0], rel=0.06)
    assert (width(lifted, [16, 64, 512, 4096]) < 0.6 * width(PLAIN, [16, 64, 512, 4096])).all()
    assert lifted.trust > 0.75
    assert not lifted.doubted
    ratios = [check.ratio for check in lifted.checks]
    assert ratios == pytest.approx([1 / 1.2] * 6, rel=0.05)
    assert [check.n for check in lifted.checks] == [16, 32, 64, 128, 256, 512]


@pytest.mark.parametrize(
    "pilot",
    [power_pilot(0.3, 1e-9, noise=0.01), power_pilot(0.001, 40.0, 1.2, noise=0.02)],
    ids=["flat", "steep"],
)
def test_a_pilot_of_another_curve_is_followed_instead(pilot: kr.Curve) -> None:
    made = PLAIN.with_pilot(pilot)
    assert made.trust < 0.1
    assert made.doubted
    fitted = posterior(pilot)
    for n in (512.0, 2048.0, 8192.0):
        expected = fitted.quantile(np.array([n]), 0.5)[0]
        assert made.errors(n)[0] == pytest.approx(expected, rel=0.15)
    (said,) = trust_words(made)
    worst = max(made.checks, key=lambda check: abs(math.log(check.ratio)))
    assert "contradicts the theory of FC" in said
    assert f"at N = {worst.n:,} it measured {worst.measured:.4g}" in said


def test_trust_grows_with_every_size_that_fits() -> None:
    sizes = (16, 32, 64, 128, 256, 512)
    made = [PLAIN.with_pilot(power_pilot(noise=0.02, sizes=sizes[:k])) for k in (3, 4, 6)]
    assert all(each.trust > 0.75 for each in made)
    assert made[-1].trust > 0.9
    assert "is within a factor of 1 of the theory of FC" in trust_words(made[-1])[0]


def test_a_rehearsal_bends_the_curve_at_its_sizes() -> None:
    n = np.array([4.0, 8, 16, 32, 64])
    bent = LogErrors(n, np.log(1.5 * Power().errors(n)), np.full(5, 0.03**2))
    made = replace(PLAIN, rehearsal=bent)
    assert made.errors(16)[0] == pytest.approx(1.5 * Power().errors(16)[0], rel=0.03)
    assert Power().errors(1e6)[0] < made.errors(1e6)[0] < 1.4 * Power().errors(1e6)[0]
    assert made.trust == 1.0


def test_pilots_in_other_units_are_refused() -> None:
    for unit, values in (("dB", [20.0, 25.0, 30.0]), ("accuracy", [0.5, 0.7, 0.8])):
        pilot = kr.Curve([4, 8, 16], values, unit=unit)
        with pytest.raises(KoriskError, match=r"the pilot is in .*; give the pilot's mean squared"):
            PLAIN.with_pilot(pilot)
    with pytest.raises(KoriskError, match="pilot must be a korisk Curve"):
        PLAIN.with_pilot([0.1, 0.2])  # type: ignore[arg-type]


def test_two_sizes_move_the_curve_without_a_fit_or_speak_against_it() -> None:
    short = PLAIN.with_pilot(scaled(power_pilot(noise=0.01, sizes=(64, 128)), 1.3))
    assert short.trust == 1.0
    assert short.errors(128)[0] == pytest.approx(1.3 * Power().errors(128)[0], rel=0.03)
    assert "fewer than 3 sizes" in trust_words(short)[0]
    made = PLAIN.with_pilot(kr.Curve([16, 64], 10 * Power().errors([16, 64])))
    assert not made.tested
    assert made.doubted
    assert "about 10 times the computed ones" in made.explain()
    near = PLAIN.with_pilot(kr.Curve([16, 64], 1.05 * Power().errors([16, 64])))
    assert not near.doubted
    assert "cannot tell whether its shape is right" in near.explain()


@pytest.mark.parametrize("far", [False, True])
def test_many_sizes_are_weighed_as_few_are(far: bool) -> None:
    """A pilot of 120 sizes is thinned by one side; the other must not win by that alone."""
    sizes = tuple(range(10, 610, 5))
    pilot = power_pilot(0.3, 1e-9, noise=0.02, sizes=sizes) if far else power_pilot(sizes=sizes)
    assert PLAIN.with_pilot(pilot).doubted == far


@pytest.mark.parametrize("made", [PLAIN, FITTING, replace(PLAIN, level=0.3)])
def test_smaller_targets_need_more(made: Prediction) -> None:
    found = [made.plan(target) for target in (0.2, 0.1, 0.06, 0.04, 0.03)]
    for each in found:
        assert each.even is not None
        assert each.lower <= each.even <= each.upper
        assert 0.25 <= each.reach <= 1
    sizes = [each.even or 0 for each in found]
    assert sizes == sorted(set(sizes))
    assert [each.lower for each in found] == sorted(each.lower for each in found)


def test_sizes_are_those_of_the_curve() -> None:
    """With a target well above the floor the median size is where the median curve meets it."""
    for made in (PLAIN, FITTING):
        size = made.plan(0.07)
        assert size.reach > 0.97
        assert size.even is not None
        at, before = met(made, [size.even, size.even - 1], 0.07)
        assert before - 0.01 < 0.5 < at + 0.01
        assert made.errors(size.even)[0] == pytest.approx(0.07, rel=0.02)
        assert met(made, [size.lower, size.upper], 0.07) == pytest.approx([0.05, 0.95], abs=0.03)
        told = made.explain(0.07)
        assert f"collect {size.samples():,} samples for 0.07 (90% sure)" in told
        assert f"even odds at {size.even:,}" in told.lower()
        assert f"{size.lower:,.0f} to {size.upper:,.0f}" in told


def test_the_smallest_and_the_largest_size() -> None:
    found = PLAIN.plan(50.0)
    assert (found.even, found.lower, found.upper) == (2, 2.0, 2.0)
    assert "collect 2 samples" in PLAIN.explain(50.0)
    slow = Prediction(Power(0.0, 1.0, 0.1), "FC", 64).plan(0.05)
    assert slow.even is None or slow.even <= FARTHEST_N


def test_targets_below_the_floor_are_out_of_reach() -> None:
    found = FITTING.plan(0.25 * FLOOR)
    assert (found.even, found.lower, found.upper) == (None, math.inf, math.inf)
    assert found.reach < 0.25
    written = found.to_dict()
    assert set(written["samples"].values()) == {None}
    assert written["lower"] is written["upper"] is None
    assert written["recommendation"]["action"] == "stop"
    said = FITTING.explain(0.25 * FLOOR)
    assert all(fact in said for fact in ("will not reach 0.005", "at 0.02", f"{FARTHEST_N:,}"))
    near = PLAIN.plan(FLOOR * 0.99)  # as likely as not
    assert near.upper == math.inf
    assert 0.25 <= near.reach < 0.6
    least = f"it takes at least {near.lower:,.0f} samples (95% sure)"
    assert least in PLAIN.explain(FLOOR * 0.99).replace("It takes", "it takes")
    made = replace(PLAIN, level=0.05)  # between unlikely and impossible there is an earliest size
    tried = [made.plan(float(target)) for target in np.geomspace(0.01, 0.03, 20)]
    between = [each for each in tried if 0.05 <= each.reach < 0.25]
    assert between
    assert math.isfinite(between[0].lower)


def test_bands_beyond_the_theory_s_range_are_of_the_law_of_its_probabilities() -> None:
    assert met(replace(CLIFF, valid_to=math.inf), 1000, 1e-3)[0] > 0.99
    assert met(CLIFF, [100, 1000], 1e-3) == pytest.approx([0.0, 0.5], abs=0.01)
    assert CLIFF.plan(1e-3).upper == math.inf
    made = Prediction(Power(floor=0.0), "FC", 256, valid_to=400.0)
    (low,), (high,) = made.band([4000])
    assert met(made, [4000], float(high)) == pytest.approx([0.95], abs=1e-3)
    assert met(made, [4000], float(low)) == pytest.approx([0.05], abs=1e-3)
    assert high > 0.9 * made.computed([400])[0]
    assert low < made.computed([4000])[0]
    size = made.plan(float(made.computed([2000])[0]))
    assert math.isinf(size.upper)
    assert size.reach == pytest.approx(0.5, abs=0.05)


def test_what_was_met_stays_met() -> None:
    made = Prediction(Bump(), "FC", 256)
    found = made.plan(0.05)
    assert found.even is not None
    assert found.reach > 0.85
    held = replace(made, valid_to=1000.0)
    assert met(held, 5000, 0.05)[0] == pytest.approx(met(held, 1000, 0.05)[0])


def test_a_pilot_speaks_alone_beyond_the_theory_s_range() -> None:
    pilot = power_pilot(0.0, 0.5, 0.2, noise=0.02)
    made = CLIFF.with_pilot(pilot)
    far = np.array([2000.0])
    assert made.errors(far) == pytest.approx(posterior(pilot).quantile(far, 0.5), rel=1e-3)
    assert made.errors(64)[0] == pytest.approx(0.5 * 64**-0.2, rel=0.05)


@pytest.mark.parametrize("sizes", [[128], [32, 64, 128, 256, 512]])
def test_no_error_before_a_theory_s_end_is_below_what_was_measured_beyond_it(
    sizes: list[int],
) -> None:
    """A theory of 1 / N against a pilot that stays at 1 / 20, whose later sizes it does not see."""
    pilot = kr.Curve(np.repeat(sizes, 2), [0.0495, 0.0505] * len(sizes), ["a", "b"] * len(sizes))
    alone = replace(made(), valid_to=100.0)
    told = alone.with_pilot(pilot)
    assert met(alone, [30, 90], 0.04).min() > 0.85
    assert met(told, [1, 30, 90, 100, 128], 0.04).max() < 0.01
    found = told.plan(0.04)
    assert found.lower > 128


@pytest.fixture(scope="module")
def pair() -> PredictedPair:
    """Curves 0.01 and n^-1, which cross at 100."""
    return PredictedPair(made(Power(0.0, 0.01, 0.0), "KO"), made(Power(0.0, 1.0, 1.0), "FC"))


def test_curves_cross_where_their_laws_do(pair: PredictedPair) -> None:
    found = pair.crossover
    assert found is not None
    assert found.n == pytest.approx(100, rel=0.05)
    assert found.lower < found.n < found.upper
    assert found.better_after == pair.ahead == "FC"
    n = track(pair.known).n
    at = np.interp(np.log([found.lower, found.n, found.upper]), np.log(n), pair.odds)
    assert at == pytest.approx([0.05, 0.5, 0.95], abs=0.02)


def test_odds_are_those_of_drawn_errors(pair: PredictedPair) -> None:
    """Against errors drawn from both laws by their quantiles."""
    n = track(pair.known).n
    levels = (np.arange(100) + 0.5) / 100
    at = [int(np.argmin(np.abs(n - size))) for size in (64, 90, 128, 256)]
    first, second = (
        np.array([each.quantile(n[at], p) for p in levels]) for each in (pair.known, pair.dense)
    )
    drawn = (second[:, None] < first[None]).mean(axis=(0, 1))
    # Taken for normal, laws with wider tails have odds nearer to one half.
    assert pair.odds[at] == pytest.approx(drawn, abs=0.1)
    other = PredictedPair(pair.dense, pair.known)  # exchanged
    assert other.odds == pytest.approx(1 - pair.odds)
    assert other.crossover is not None
    assert other.crossover.better_after == "FC"


def test_curves_that_never_cross_do_not() -> None:
    apart = PredictedPair(made(Power(0.0, 1e-4, 0.5), "KO"), made(Power(0.0, 1.0, 0.5), "FC"))
    assert (apart.crossover, apart.ahead) == (None, "KO")
    assert "KO is better at N = 1,024" in apart.explain()
    same = PredictedPair(made(Power(0.0, 1.0, 0.5), "KO"), made(Power(0.0, 1.0, 0.5), "FC"))
    assert same.odds == pytest.approx(0.5)
    assert (same.crossover, same.ahead) == (None, None)
    assert "too close" in same.explain()


def test_a_theory_makes_no_clear_winner_beyond_its_end(pair: PredictedPair) -> None:
    cut = PredictedPair(pair.known, replace(pair.dense, valid_to=48.0))
    beyond = track(cut.known).n > 48
    assert (cut.odds[beyond] <= 0.5).all()
    assert cut.odds[~beyond] == pytest.approx(pair.odds[~beyond], abs=1e-8)
    assert PredictedPair(cut.dense, cut.known).odds == pytest.approx(1 - cut.odds)
    assert cut.crossover is None
    assert "beyond N = 48" in cut.explain()
    late = PredictedPair(pair.known, replace(pair.dense, valid_to=1000.0))
    assert late.crossover is not None
    assert pair.crossover is not None
    assert late.crossover.n == pair.crossover.n  # it was clear before
    for count, limit in ((2, 48.0), (3, math.inf)):  # sizes that curves can be fitted to, or not
        n = [8, 16, 32][:count]
        pilot = kr.Curve(n, [1 / k for k in n], model="FC")
        assert PredictedPair(cut.known, replace(cut.dense, pilot=pilot)).limit == limit


def test_factors_of_lines_are_the_lines_own() -> None:
    """Curves that are lines have factors by Eq. (eq:prop2-twofactor) itself."""
    known, dense = (
        made(Power(0.001, 0.1, 0, line=True), "KO"),
        made(Power(0.0005, 2.0, 0, line=True), "FC"),
    )
    lines = PredictedPair(known, dense)
    found = lines.factors(0.01)
    assert found.structural == pytest.approx(20, rel=0.02)
    assert found.approximation_budget == pytest.approx(0.009 / 0.0095, rel=0.02)
    told = lines.factors_or_reason(0.01)
    assert told["product"] == pytest.approx(told["structural"] * told["approximation_budget"])
    assert "cannot be reached" in lines.factors_or_reason(1e-4)["unknown"]


@pytest.mark.parametrize(
    ("reach", "samples", "lower", "upper"),
    [
        (1.0, 0.5, 0.05, 0.95),
        (0.97, 0.5, 0.05, 0.95),
        (0.94, 0.5, 0.05, None),  # the last in twenty never get there
        (0.8, 0.5, 0.05, None),
        (0.49, None, 0.05, None),
        (0.04, None, None, None),
    ],
)
def test_sizes_are_read_off_the_chances(
    monkeypatch: pytest.MonkeyPatch,
    reach: float,
    samples: float | None,
    lower: float | None,
    upper: float | None,
) -> None:
    """Each has its level, where chances grow with log N to one at a million, or to `reach`."""

    def chances(self: Prediction, n: Array, goal: float) -> Array:
        return np.asarray(np.minimum(np.log(n) / math.log(1e6), reach))

    monkeypatch.setattr(Prediction, "met", chances)
    found = made().plan(0.3)
    assert (found.target, found.reach) == (0.3, reach)
    told = found.to_dict() | {"even": found.even}
    for name, level in (("even", samples), ("lower", lower), ("upper", upper)):
        here = None if level is None else pytest.approx(1e6**level, abs=1)
        assert told[name] == here


def test_many_sizes_are_thinned_and_few_are_not() -> None:
    n = np.arange(40, 40 + MOST_SIZES)
    assert log_errors(kr.Curve(n, 1 / n), 0.01).n == pytest.approx(n)
    more = np.arange(8, 10 + MOST_SIZES)
    found = log_errors(kr.Curve(more, 1 / more), 0.01)
    assert len(found) <= MOST_SIZES
    assert found.n[-1] == more[-1]
    assert np.exp(found.log_error) == pytest.approx(1 / found.n, rel=1e-9)


def test_a_pilot_is_held_against_the_theory_where_that_speaks() -> None:
    whole = made().with_pilot(measured(*[1.0] * 5))  # at 8, 16, 32, 64 and 128
    for first, last, kept in (
        (1.0, math.inf, [8, 16, 32, 64, 128]),
        (16.0, 64.0, [16, 32, 64]),
        (32.0, 64.0, [8, 16, 32, 64]),  # two sizes are too few: a rough guide is better
        (1.0, 8.0, [8]),
    ):
        within = replace(whole, valid_from=first, valid_to=last).tested_on
        assert within is not None
        assert within.sizes.tolist() == kept
        tested = replace(whole, valid_from=first, valid_to=last).tested
        assert tested == (len(kept) >= 3)
    assert replace(whole, valid_to=7.0).tested_on is None
    # So is a rehearsal.
    n = np.array([4.0, 8, 16, 32])
    checks = LogErrors(n, np.log(2 / n), np.full(4, 0.01))
    found = misfit_of(replace(made(), rehearsal=checks, valid_from=8.0, valid_to=16.0)).simulated
    assert found.n.tolist() == [8, 16]
    assert found.log_error == pytest.approx(math.log(2))


def test_trust_is_three_to_one_times_how_much_better_the_theory_explains_the_pilot() -> None:
    """Densities of K errors; the fitted curve's level is free in a width of four."""
    seeds = power_pilot(floor=0.03, noise=0.02)
    theory = Power(0.02, 0.5, 0.45)
    one = made(theory).with_pilot(seeds)
    rival = posterior(seeds, replace(PRIORS["squares"], least_noise=0.01, noises=(0.05,)))
    log_odds = misfit_of(one, 0.01).evidence - rival.evidence
    log_odds += 0.5 * (len(seeds.sizes) - 1) * math.log(2 * math.pi) + math.log(4) + math.log(3)
    assert 0.01 < one.trust < 0.9999
    assert math.log(one.trust / (1 - one.trust)) == pytest.approx(log_odds)
    off = made(Power(0.0, 1e-30, 3.0)).with_pilot(power_pilot(noise=1e-4))
    assert off.trust == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("share", [0.005, 0.995])
def test_short_pilots_doubt_what_happens_once_in_a_hundred(share: float) -> None:
    alone = made()
    end = float(alone.quantile([16], share)[0])
    for factor in (0.99, 1.01):
        outside = factor < 1 if share < 0.5 else factor > 1
        assert alone.with_pilot(kr.Curve([16], [factor * end])).doubted == outside


def test_beyond_a_theory_its_fall_comes_or_does_not() -> None:
    free = made()
    cut = replace(free, valid_to=100.0)
    for target in (0.001, 0.005, 0.01, 0.02):
        there, end = met(free, [1000, 100], target)
        assert met(cut, 1000, target)[0] == pytest.approx(max((there + end) / 2, end))
        assert met(cut, 100, target)[0] == pytest.approx(end)


def test_beyond_a_theory_and_a_pilot_its_fall_is_one_of_three_futures() -> None:
    """The planner's curves are the other two; so the expected error is not that of the fall."""
    cut = CLIFF.with_pilot(power_pilot(0.0, 0.5, 0.2, sizes=(8, 16, 32, 64), noise=0.02))
    far = np.array([1000.0])
    others = cut.extended
    for target in (1e-6, 1e-3, 0.1):
        expected = 1 / 3 + 2 / 3 * others.probability(far, target)
        assert met(cut, far, target) == pytest.approx(expected, abs=1e-3)
    assert cut.errors(far)[0] > others.quantile(far, 0.05)[0]


def test_beyond_a_theory_the_pilot_is_extended_by_doublings_up_to_its_end() -> None:
    for end, sizes in ((1023.0, []), (1024.0, [1024]), (5000.0, [1024, 2048, 4096])):
        one = replace(made().with_pilot(power_pilot(noise=0.02)), valid_to=end)
        known = one.extended.pilot
        expected = [16, 32, 64, 128, 256, 512, *sizes]
        assert known.x * known.last == pytest.approx(expected)


def pair_with(odds: list[float]) -> tuple[PredictedPair, Array]:
    """A pair whose odds run through some values, evenly over the doublings of N."""
    pair = PredictedPair(made(Power(0.0, 0.01, 0.0), "KO"), made())
    n = track(pair.known).n
    at = np.linspace(0, 1, len(n))
    pair.__dict__["odds"] = np.interp(at, np.linspace(0, 1, len(odds)), odds)
    return pair, n


@pytest.mark.parametrize(
    ("odds", "after"),
    [
        ([0.25, 0.75], "FC"),
        ([0.75, 0.25], "KO"),
        ([0.26, 1.0], None),  # FC was never clearly behind
        ([0.25, 0.74], None),
        ([0.75, 0.26], None),
        ([0.4, 0.6], None),
        ([0.6, 0.1, 0.9], "FC"),  # unclear odds do not say who is ahead at first
        ([0.4, 0.9, 0.1], "KO"),
    ],
)
def test_a_crossover_is_clear_before_and_after(odds: list[float], after: str | None) -> None:
    found = pair_with(odds)[0].crossover
    assert (found.better_after if found else None) == after


def test_who_is_ahead_is_told_from_three_to_one_on_at_the_last_n_that_is_shown() -> None:
    """Curves that cross at 4,000 are shown up to 1,024."""
    for odds, ahead in ((0.75, "FC"), (0.74, None), (0.26, None), (0.25, "KO")):
        assert pair_with([odds, odds])[0].ahead == ahead
    pair = PredictedPair(made(Power(0.0, 1 / 4000, 0.0), "KO"), made())
    assert pair.ahead == "KO"
    assert pair.odds[-1] > 0.75
    assert pair.crossover is not None
    assert pair.crossover.n == pytest.approx(4000, rel=0.05)
    assert "from there on FC" in pair.explain()


def test_curves_that_rise_or_are_level_have_no_slope() -> None:
    rising = PredictedPair(made(Power(0.0, 0.01, -0.2), "KO"), made(Power(0.0, 0.01, 0.0)))
    assert [line.slope for line in rising.lines] == [0, 0]
    assert rising.lines[1].floor == pytest.approx(0.01, rel=1e-4)


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ((1.0, 1.0, 1.16, 1.0), "is within a factor of 1.2 of the theory of FC: at N = 32 it"),
        ((1 / 1.16, 1.0, 1.0, 1.0), "is within a factor of 1.2 of the theory of FC: at N = 8 it"),
        ((3.1, 3.1, 3.1, 3.1), "are about 3.1 times the computed ones"),
        ((1 / 3.1, 1 / 3.1, 1 / 3.1), "are about 0.3226 times the computed ones"),
        ((3.1, 4.6, 3.1, 3.1), "another unit"),  # one scale, up to 1.5
        ((2.9,) * 4, None),  # smaller or uneven factors are no other unit
        ((3.1, 4.7, 3.1, 3.1), None),
    ],
)
def test_words_follow_how_far_a_pilot_is_off(factors: tuple[float, ...], words: str | None) -> None:
    (said,) = trust_words(made().with_pilot(measured(*factors)))
    assert "another unit" not in said if words is None else words in said


def test_without_a_target_the_error_its_band_the_floor_and_the_notes_are_told() -> None:
    for examples, n in ((64, 64), (1, 2)):
        one = replace(made(Power(0.25, 1.0, 1.0)), notes=("A note.",), examples=examples)
        low, high = (f"{float(end):.4g}" for (end,) in one.band([n]))
        told = one.explain()
        assert f"{float(one.errors([n])[0]):.4g} at N = {n} (90%: {low} to {high})" in told
        assert "levels off at 0.25" in told
        then = one.first_check()
        assert told.endswith(
            f"expect {then.value:.4g} (90%: {then.lower:.4g} to {then.upper:.4g}); "
            "if not, suspect noise or images."
        )
        assert then.n == 16
        assert "A note. This assumes" in told
        assert trust_words(one) == []


def test_the_farther_a_theory_holds_the_surer_is_what_lies_beyond_it() -> None:
    pilot = power_pilot(floor=0.0, scale=10.0, rate=1.0, noise=0.02, sizes=(16, 32, 64, 128, 256))
    far = np.array([8192.0])
    widths, off = [], []
    for end in (256.0, 1024.0, 4096.0):
        one = replace(made(Power(0.0, 10.0, 1.0)), valid_to=end).with_pilot(pilot)
        off.append(abs(float(np.log(one.errors(far) / one.computed(far))[0])))
        low, high = one.band(far)
        widths.append(float(np.log(high / low)[0]))
    assert off[0] > off[1] > off[2]
    assert off[2] < 0.2
    assert widths[0] > 1.1 * widths[1] > 1.2 * widths[2]


def test_a_theory_that_the_pilot_rejects_has_no_floor_and_no_first_check() -> None:
    one = made(Power(0.25, 1.0, 1.0))
    pilot = kr.Curve(
        [16, 32, 64, 128] * 2, [1.2, 0.6, 0.3, 0.12, 1.3, 0.62, 0.29, 0.13], [0] * 4 + [1] * 4
    )
    rejected = one.with_pilot(pilot)
    assert rejected.doubted
    for said in (rejected.explain(), rejected.explain(0.3)):
        assert "levels off" not in said
        assert "contradicts" in said
        assert "suspect noise" not in said
    assert (one.check is None, rejected.check) == (False, None)


def test_the_headline_is_the_number_at_the_level_asked_for() -> None:
    found = PLAIN.plan(0.07)
    for sure in (0.5, 0.8, 0.95):
        assert f"collect {found.samples(sure):,} samples" in found.recommend(sure).sentence
        assert f"({100 * sure:g}% sure)" in PLAIN.explain(0.07, sure)
    rare = PLAIN.plan(FLOOR * 0.99).recommend(0.9)  # no N has this chance
    assert (rare.action, rare.chance) == ("measure", None)
