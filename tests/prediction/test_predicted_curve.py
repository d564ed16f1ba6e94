"""Predictions with and without a pilot: which of theory and pilot they follow, and how surely."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import korisk as kr
from korisk.errors import KoriskError
from korisk.planning.posterior import posterior
from korisk.prediction.prediction import FARTHEST_N, Prediction
from korisk.prediction.rehearsal import Checks
from pilots import power_pilot, scaled

Array = NDArray[np.float64]

FLOOR, SCALE, RATE = 0.02, 0.5, 0.5
N = np.array([1.0, 2, 5, 30, 200, 3000, 1e5, 1e7])


@dataclass(frozen=True)
class Power:
    """A theory of floor + scale N^-rate."""

    floor: float = FLOOR
    scale: float = SCALE
    rate: float = RATE
    parameters: int | None = 640

    def errors(self, n: ArrayLike) -> Array:
        sizes = np.atleast_1d(np.asarray(n, dtype=float))
        return np.asarray(self.floor + self.scale * sizes**-self.rate)

    def effective(self, n: float) -> float:
        return min(n, 640.0)


PLAIN = Prediction(Power(), "FC", 256)
FITTING = PLAIN.with_pilot(power_pilot(noise=0.02))
FLAT = PLAIN.with_pilot(power_pilot(0.3, 1e-9, noise=0.01))


def width(made: Prediction, n: ArrayLike) -> Array:
    low, high = made.band(n)
    return np.log(high / low)


def test_without_checks_it_is_the_computed_curve() -> None:
    assert PLAIN.errors(N) == pytest.approx(Power().errors(N), rel=1e-6)
    assert PLAIN.computed(N) == pytest.approx(Power().errors(N))
    assert (PLAIN.floor, PLAIN.parameters, PLAIN.effective(9)) == (FLOOR, 640, 9.0)
    assert (PLAIN.trust, PLAIN.doubted, PLAIN.checks) == (1.0, False, ())


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


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, math.inf])
def test_targets_are_above_zero(target: float) -> None:
    for ask in (PLAIN.samples, lambda goal: PLAIN.probability(8, goal)):
        with pytest.raises(KoriskError, match="target must be"):
            ask(target)


def test_the_examples_own_spread_widens_the_band() -> None:
    assert (width(replace(PLAIN, level=0.5), N) > 1.2 * width(PLAIN, N)).all()


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
    [
        power_pilot(0.3, 1e-9, noise=0.01),
        power_pilot(0.001, 40.0, 1.2, noise=0.02),
    ],
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


def test_trust_grows_with_every_size_that_fits() -> None:
    sizes = (16, 32, 64, 128, 256, 512)
    found = [PLAIN.with_pilot(power_pilot(noise=0.02, sizes=sizes[:k])).trust for k in (3, 4, 6)]
    assert all(each > 0.75 for each in found)
    assert found[-1] > 0.9


def test_two_sizes_move_the_curve_without_a_fit() -> None:
    short = PLAIN.with_pilot(scaled(power_pilot(noise=0.01, sizes=(64, 128)), 1.3))
    assert short.trust == 1.0
    assert short.errors(128)[0] == pytest.approx(1.3 * Power().errors(128)[0], rel=0.03)


def test_one_seed_counts_for_less_than_five() -> None:
    pilot = scaled(power_pilot(noise=0.0, seeds=5), 1.3)
    alone = kr.Curve(pilot.sizes, pilot.means)
    for made in (PLAIN.with_pilot(alone), PLAIN.with_pilot(pilot)):
        assert made.errors(512)[0] == pytest.approx(1.3 * Power().errors(512)[0], rel=0.05)
    assert width(PLAIN.with_pilot(alone), 512) > width(PLAIN.with_pilot(pilot), 512)


def test_a_rehearsal_bends_the_curve_where_it_speaks() -> None:
    n = np.array([4.0, 8, 16, 32, 64])
    bent = Checks(n, np.log(1.5 * Power().errors(n)), np.full(5, 0.03**2))
    made = replace(PLAIN, rehearsal=bent)
    assert made.errors(16)[0] == pytest.approx(1.5 * Power().errors(16)[0], rel=0.03)
    assert Power().errors(1e6)[0] < made.errors(1e6)[0] < 1.4 * Power().errors(1e6)[0]
    assert made.trust == 1.0


@pytest.mark.parametrize("unit", ["dB", "accuracy"])
def test_pilots_in_other_units_are_refused(unit: str) -> None:
    values = [20.0, 25.0, 30.0] if unit == "dB" else [0.5, 0.7, 0.8]
    pilot = kr.Curve([4, 8, 16], values, unit=unit)
    with pytest.raises(KoriskError, match=r"the pilot is in .*; give the pilot's mean squared"):
        PLAIN.with_pilot(pilot)


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


def test_an_easy_target_is_met_by_the_smallest_size() -> None:
    found = PLAIN.samples(50.0)
    assert (found.samples, found.lower, found.upper) == (2, 2.0, 2.0)


def test_what_lies_below_the_floor_is_out_of_reach() -> None:
    found = FITTING.samples(0.25 * FLOOR)
    assert found.samples is None
    assert (found.lower, found.upper) == (math.inf, math.inf)
    assert found.reach < 0.25
    written = found.to_dict()
    assert written["samples"] is written["lower"] is written["upper"] is None
    near = PLAIN.samples(FLOOR * 0.99)  # as likely as not
    assert near.samples is not None
    assert near.upper == math.inf
    assert near.reach < 0.6


def test_nothing_is_said_beyond_ten_million() -> None:
    slow = Prediction(Power(0.0, 1.0, 0.1), "FC", 64)
    found = slow.samples(0.05)
    assert found.samples is None or found.samples <= FARTHEST_N


# --- Without noise the theory ends somewhere -----------------------------------------------------


class Cliff(Power):
    """A theory that falls to nothing beyond N = 100."""

    def errors(self, n: ArrayLike) -> Array:
        sizes = np.atleast_1d(np.asarray(n, dtype=float))
        return np.where(sizes > 100, 1e-15, 0.5 * sizes**-0.2)


def test_a_fall_beyond_the_theory_s_range_is_half_believed() -> None:
    made = Prediction(Cliff(), "FC", 256, valid_to=100.0)
    assert made.probability(1000, 1e-3)[0] == pytest.approx(0.5)
    assert made.probability(100, 1e-3)[0] < 0.01
    assert replace(made, valid_to=math.inf).probability(1000, 1e-3)[0] > 0.99
    assert made.samples(1e-3).upper == math.inf
    easy = made.probability(100, 0.5)[0]
    assert easy > 0.9
    assert made.probability(1000, 0.5)[0] >= easy  # what was met stays met


class Bump(Power):
    """A theory that rises again beyond N = 1000, as one behind a ReLU may."""

    def errors(self, n: ArrayLike) -> Array:
        sizes = np.atleast_1d(np.asarray(n, dtype=float))
        return np.where(sizes > 1000, 2.0, sizes**-0.5)


def test_what_was_met_stays_met() -> None:
    made = Prediction(Bump(), "FC", 256)
    found = made.samples(0.05)
    assert found.samples is not None
    assert found.reach > 0.85
    held = replace(made, valid_to=1000.0)
    assert held.probability(5000, 0.05)[0] == pytest.approx(held.probability(1000, 0.05)[0])


def test_beyond_its_end_a_fall_is_believed_by_half() -> None:
    """Bands and probabilities are of one law, also where the theory has no meaning."""
    made = Prediction(Power(floor=0.0), "FC", 256, valid_to=400.0)
    low, high = made.band([4000])
    assert made.probability([4000], float(high[0])) == pytest.approx([0.95], abs=1e-3)
    assert made.probability([4000], float(low[0])) == pytest.approx([0.05], abs=1e-3)
    assert high[0] > 0.9 * made.computed([400])[0]
    assert low[0] < made.computed([4000])[0]
    size = made.samples(float(made.computed([2000])[0]))
    assert math.isinf(size.upper)
    assert size.reach == pytest.approx(0.5, abs=0.05)


def test_a_target_out_of_reach_still_has_an_earliest_size() -> None:
    made = replace(PLAIN, level=0.05)
    for target in np.geomspace(0.01, 0.03, 20):
        found = made.samples(float(target))
        if found.samples is None and found.reach >= 0.05:
            assert math.isfinite(found.lower)
            break
    else:
        pytest.fail("no target between unlikely and impossible")


def test_two_sizes_far_off_speak_against_the_theory() -> None:
    pilot = kr.Curve([16, 64], 10 * Power().errors([16, 64]))
    made = PLAIN.with_pilot(pilot)
    assert not made.tested
    assert made.doubted
    assert "about 10 times the computed ones" in made.explain()
    near = PLAIN.with_pilot(kr.Curve([16, 64], 1.05 * Power().errors([16, 64])))
    assert not near.doubted
    assert "cannot tell whether its shape is right" in near.explain()


def test_a_pilot_speaks_alone_beyond_the_theory_s_range() -> None:
    made = Prediction(Cliff(), "FC", 256, valid_to=100.0).with_pilot(
        power_pilot(0.0, 0.5, 0.2, noise=0.02)
    )
    fitted = posterior(power_pilot(0.0, 0.5, 0.2, noise=0.02))
    far = np.array([2000.0])
    assert made.errors(far) == pytest.approx(fitted.quantile(far, 0.5), rel=1e-3)
    assert made.errors(64)[0] == pytest.approx(0.5 * 64**-0.2, rel=0.05)


def test_only_what_both_explain_decides_on_the_trust() -> None:
    """Sizes beyond the theory's range do not speak for or against it."""
    good = power_pilot(0.0, 0.5, 0.2, noise=0.02, sizes=(8, 16, 32, 64, 100))
    more = power_pilot(0.0, 0.5, 0.2, noise=0.02, sizes=(8, 16, 32, 64, 100, 400, 800, 1600))
    theory = Prediction(Cliff(), "FC", 256, valid_to=100.0)
    assert theory.with_pilot(good).trust > 0.75
    assert theory.with_pilot(more).trust == pytest.approx(theory.with_pilot(good).trust, abs=0.1)


@pytest.mark.parametrize("far", [False, True])
def test_many_sizes_are_weighed_as_few_are(far: bool) -> None:
    """A pilot of 120 sizes is thinned by one side; the other must not win by that alone."""
    sizes = tuple(range(10, 610, 5))
    pilot = power_pilot(0.3, 1e-9, noise=0.02, sizes=sizes) if far else power_pilot(sizes=sizes)
    made = PLAIN.with_pilot(pilot)
    assert made.doubted == far
