"""Predictions: which of theory and pilot they follow, how surely, and two of them compared."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

import korisk as kr
from korisk.errors import KoriskError
from korisk.planning.posterior import posterior
from korisk.prediction.misfit import LogErrors
from korisk.prediction.pair import PredictedPair, PredictedTrack, track
from korisk.prediction.prediction import FARTHEST_N, Prediction, size_words, trust_words
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

    def effective(self, n: float) -> float:
        return min(n, 640.0)


class Cliff(Power):
    """A theory that falls to nothing beyond N = 100."""

    def errors(self, n: ArrayLike) -> Array:
        return np.where(np.asarray(n) > 100, 1e-15, Power(0.0, 0.5, 0.2).errors(n))


class Bump(Power):
    """A theory that rises again beyond N = 1000, as one behind a ReLU may."""

    def errors(self, n: ArrayLike) -> Array:
        return np.where(np.asarray(n) > 1000, 2.0, Power(0.0, 1.0).errors(n))


PLAIN = Prediction(Power(), "FC", 256)
FITTING = PLAIN.with_pilot(power_pilot(noise=0.02))
FLAT = PLAIN.with_pilot(power_pilot(0.3, 1e-9, noise=0.01))
CLIFF = Prediction(Cliff(), "FC", 256, valid_to=100.0)


def width(made: Prediction, n: ArrayLike) -> Array:
    low, high = made.band(n)
    return np.log(high / low)


def test_without_checks_it_is_the_computed_curve() -> None:
    assert PLAIN.errors(N) == pytest.approx(Power().errors(N), rel=1e-6)
    assert PLAIN.computed(N) == pytest.approx(Power().errors(N))
    assert (PLAIN.floor, PLAIN.parameters, PLAIN.effective(9)) == (FLOOR, 640, 9.0)
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
        assert made.probability(size, low[at])[0] == pytest.approx(0.05, abs=1e-4)
        assert made.probability(size, high[at])[0] == pytest.approx(0.95, abs=1e-4)


@pytest.mark.parametrize("made", [PLAIN, FITTING, FLAT, replace(PLAIN, valid_to=100.0)])
def test_larger_targets_are_the_likelier_ones(made: Prediction) -> None:
    found = np.array([made.probability(N, target) for target in np.logspace(-4, 1, 20)])
    assert (np.diff(found, axis=0) >= -1e-12).all()
    assert ((found >= 0) & (found <= 1 + 1e-12)).all()
    assert found[-1, 1:] == pytest.approx(1.0, abs=0.02)


def test_targets_are_above_zero_and_sizes_are_one_or_more() -> None:
    for target in (0.0, -1.0, math.nan, math.inf):
        for ask in (PLAIN.samples, lambda goal: PLAIN.probability(8, goal)):
            with pytest.raises(KoriskError, match="target must be"):
                ask(target)
    sizes: list[Any] = [0, 0.5, -3, math.nan, math.inf, [[1, 2]], "many", None]
    for n in sizes:
        for method in (PLAIN.errors, PLAIN.computed, PLAIN.effective):
            with pytest.raises(KoriskError, match="n must be numbers of training samples >= 1"):
                method(n)


# --- A rehearsal and a pilot ---------------------------------------------------------------------


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
    assert "speaks against the theory of FC" in said
    assert f"at N = {worst.n:,} the pilot measured {worst.measured:.4g}" in said


def test_trust_grows_with_every_size_that_fits() -> None:
    sizes = (16, 32, 64, 128, 256, 512)
    made = [PLAIN.with_pilot(power_pilot(noise=0.02, sizes=sizes[:k])) for k in (3, 4, 6)]
    assert all(each.trust > 0.75 for each in made)
    assert made[-1].trust > 0.9
    assert "agrees with the theory of FC at N = 16 to 512" in trust_words(made[-1])[0]


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


# --- Sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [PLAIN, FITTING, replace(PLAIN, level=0.3)])
def test_smaller_targets_need_more(made: Prediction) -> None:
    found = [made.samples(target) for target in (0.2, 0.1, 0.06, 0.04, 0.03)]
    for each in found:
        assert each.samples is not None
        assert each.lower <= each.samples <= each.upper
        assert 0.25 <= each.reach <= 1
    sizes = [each.samples or 0 for each in found]
    assert sizes == sorted(set(sizes))
    assert [each.lower for each in found] == sorted(each.lower for each in found)


def test_sizes_are_those_of_the_curve() -> None:
    """With a target well above the floor the median size is where the median curve meets it."""
    for made in (PLAIN, FITTING):
        size = made.samples(0.07)
        assert size.samples is not None
        assert size.reach > 0.97
        at, before = made.probability([size.samples, size.samples - 1], 0.07)
        assert before - 0.01 < 0.5 < at + 0.01
        assert made.errors(size.samples)[0] == pytest.approx(0.07, rel=0.02)
        assert made.probability([size.lower, size.upper], 0.07) == pytest.approx(
            [0.05, 0.95], abs=0.02
        )
        told = made.explain(0.07)
        assert f"about {size.samples:,} samples for 0.07" in told
        assert f"{size.lower:,.0f} to {size.upper:,.0f}" in told


def test_the_smallest_and_the_largest_size() -> None:
    found = PLAIN.samples(50.0)
    assert (found.samples, found.lower, found.upper) == (2, 2.0, 2.0)
    assert "from the first samples on" in size_words(PLAIN, 50.0)
    slow = Prediction(Power(0.0, 1.0, 0.1), "FC", 64).samples(0.05)
    assert slow.samples is None or slow.samples <= FARTHEST_N


def test_targets_below_the_floor_are_out_of_reach() -> None:
    found = FITTING.samples(0.25 * FLOOR)
    assert found.samples is None
    assert (found.lower, found.upper) == (math.inf, math.inf)
    assert found.reach < 0.25
    written = found.to_dict()
    assert written["samples"] is written["lower"] is written["upper"] is None
    said = size_words(FITTING, 0.25 * FLOOR)
    assert all(fact in said for fact in ("does not reach 0.005", "at 0.02", f"{FARTHEST_N:,}"))
    near = PLAIN.samples(FLOOR * 0.99)  # as likely as not
    assert near.samples is not None
    assert near.upper == math.inf
    assert near.reach < 0.6
    assert f"95%: at least {near.lower:,.0f}" in size_words(PLAIN, FLOOR * 0.99)
    made = replace(PLAIN, level=0.05)  # between unlikely and impossible there is an earliest size
    tried = [made.samples(float(target)) for target in np.geomspace(0.01, 0.03, 20)]
    between = [each for each in tried if each.samples is None and each.reach >= 0.05]
    assert between
    assert math.isfinite(between[0].lower)


# --- Without noise the theory ends somewhere -----------------------------------------------------


def test_bands_beyond_the_theory_s_range_are_of_the_law_of_its_probabilities() -> None:
    assert replace(CLIFF, valid_to=math.inf).probability(1000, 1e-3)[0] > 0.99
    assert CLIFF.probability([100, 1000], 1e-3) == pytest.approx([0.0, 0.5], abs=0.01)
    assert CLIFF.samples(1e-3).upper == math.inf
    made = Prediction(Power(floor=0.0), "FC", 256, valid_to=400.0)
    (low,), (high,) = made.band([4000])
    assert made.probability([4000], float(high)) == pytest.approx([0.95], abs=1e-3)
    assert made.probability([4000], float(low)) == pytest.approx([0.05], abs=1e-3)
    assert high > 0.9 * made.computed([400])[0]
    assert low < made.computed([4000])[0]
    size = made.samples(float(made.computed([2000])[0]))
    assert math.isinf(size.upper)
    assert size.reach == pytest.approx(0.5, abs=0.05)


def test_what_was_met_stays_met() -> None:
    made = Prediction(Bump(), "FC", 256)
    found = made.samples(0.05)
    assert found.samples is not None
    assert found.reach > 0.85
    held = replace(made, valid_to=1000.0)
    assert held.probability(5000, 0.05)[0] == pytest.approx(held.probability(1000, 0.05)[0])


def test_a_pilot_speaks_alone_beyond_the_theory_s_range() -> None:
    pilot = power_pilot(0.0, 0.5, 0.2, noise=0.02)
    made = CLIFF.with_pilot(pilot)
    far = np.array([2000.0])
    assert made.errors(far) == pytest.approx(posterior(pilot).quantile(far, 0.5), rel=1e-3)
    assert made.errors(64)[0] == pytest.approx(0.5 * 64**-0.2, rel=0.05)


# --- Two of them ---------------------------------------------------------------------------------


def made(floor: float, scale: float, rate: float, model: str, *, line: bool = False) -> Prediction:
    return Prediction(Power(floor, scale, rate, line=line), model, 64)


@pytest.fixture(scope="module")
def pair() -> PredictedPair:
    """Curves 0.01 and n^-1, which cross at 100."""
    return PredictedPair(made(0.0, 0.01, 0.0, "KO"), made(0.0, 1.0, 1.0, "FC"))


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
    levels = np.linspace(0.05, 0.95, 10)
    at = [int(np.argmin(np.abs(n - size))) for size in (64, 90, 128, 256)]
    first, second = (
        np.array([each.quantile(n[at], p) for p in levels]) for each in (pair.known, pair.dense)
    )
    drawn = (second[:, None] < first[None]).mean(axis=(0, 1))
    assert pair.odds[at] == pytest.approx(drawn, abs=0.06)
    other = PredictedPair(pair.dense, pair.known)  # exchanged
    assert other.odds == pytest.approx(1 - pair.odds)
    assert other.crossover is not None
    assert other.crossover.better_after == "FC"


def test_odds_come_from_the_halves_of_the_bands_that_face_each_other(
    monkeypatch: pytest.MonkeyPatch, pair: PredictedPair
) -> None:
    n, one = np.array([4.0, 8.0]), np.ones(2)
    known = PredictedTrack(n, one, one, 0.5 * one, 90 * one)
    dense = PredictedTrack(n, one, one * [0.5, 2.0], one / 7, one * [1.5, 2.1])
    by_model = {"KO": known, "FC": dense}
    monkeypatch.setattr("korisk.prediction.pair.track", lambda made: by_model[made.model])
    found = PredictedPair(pair.known, pair.dense).odds
    widths = np.hypot(np.log([2, 90]), np.log([3, 14])) / 1.6449
    assert found == pytest.approx(ndtr(np.log([2, 0.5]) / widths))


def test_curves_that_never_cross_do_not() -> None:
    apart = PredictedPair(made(0.0, 1e-4, 0.5, "KO"), made(0.0, 1.0, 0.5, "FC"))
    assert (apart.crossover, apart.ahead) == (None, "KO")
    assert "KO is better at N = 1,024" in apart.explain()
    same = PredictedPair(made(0.0, 1.0, 0.5, "KO"), made(0.0, 1.0, 0.5, "FC"))
    assert same.odds == pytest.approx(0.5)
    assert (same.crossover, same.ahead) == (None, None)
    assert "too close" in same.explain()


def test_a_theory_makes_no_clear_winner_beyond_its_end(pair: PredictedPair) -> None:
    cut = PredictedPair(pair.known, replace(pair.dense, valid_to=48.0))
    beyond = track(cut.known).n > 48
    assert (cut.odds[beyond] <= 0.5).all()
    assert cut.odds[~beyond] == pytest.approx(pair.odds[~beyond])
    assert PredictedPair(cut.dense, cut.known).odds == pytest.approx(1 - cut.odds)
    assert cut.crossover is None
    assert "Beyond N = 48" in cut.explain()
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
    known, dense = (made(0.001, 0.1, 0, "KO", line=True), made(0.0005, 2.0, 0, "FC", line=True))
    lines = PredictedPair(known, dense)
    found = lines.factors(0.01)
    assert found.structural == pytest.approx(20, rel=0.02)
    assert found.approximation_budget == pytest.approx(0.009 / 0.0095, rel=0.02)
    told = lines.factors_or_reason(0.01)
    assert told["product"] == pytest.approx(told["structural"] * told["approximation_budget"])
    assert "cannot be reached" in lines.factors_or_reason(1e-4)["unknown"]


def test_without_a_target_the_error_the_floor_and_the_notes_are_told() -> None:
    one = replace(made(0.25, 1.0, 1.0, "FC"), notes=("A note.",))
    told = one.explain()
    assert f"{float(one.errors([64])[0]):.4g} at N = 64" in told
    assert "levels off at 0.25" in told
    assert told.endswith("A note.")
    assert trust_words(one) == []
