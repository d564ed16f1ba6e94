"""Predictions: closed forms of what is read off them, both sides of each threshold."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.plan import LEAST_REACH
from korisk.planning.posterior import MOST_SIZES, PRIOR, posterior
from korisk.prediction.misfit import LogErrors
from korisk.prediction.pair import PredictedPair, last_shown, track
from korisk.prediction.prediction import (
    AS_SEEDS,
    FARTHEST_N,
    Prediction,
    log_errors,
    size_words,
    trust_words,
)
from pilots import power_pilot

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Falling:
    """A theory of floor + level N^-rate."""

    level: float = 1.0
    rate: float = 1.0
    floor: float = 0.0
    parameters: int | None = 100

    def errors(self, n: ArrayLike) -> Array:
        return np.asarray(self.floor + self.level * np.asarray(n, float) ** -self.rate)

    def effective(self, n: float) -> float:
        return min(n, 100.0)


def made(theory: Falling = Falling(), model: str = "FC") -> Prediction:  # noqa: B008
    return Prediction(theory, model, 64)


def pilot(*factors: float, first: int = 8) -> Curve:
    """Two seeds around 1 / N, each mean times its factor."""
    n = [first * 2**k for k in range(len(factors)) for _ in "ab"]
    errors = [seed * factor for factor in factors for seed in (0.95, 1.05)]
    return Curve(n, np.divide(errors, n), ["a", "b"] * len(factors), "FC")


# --- Sample sizes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reach", "samples", "lower", "upper"),
    [
        (1.0, 0.5, 0.05, 0.95),
        (0.97, 0.5, 0.05, 0.95),
        (0.94, 0.5, 0.05, None),  # the last in twenty never get there
        (0.8, 0.5, 0.05, None),
        (0.5, 0.65 * 0.5, 0.05, None),  # 65% of the futures that do
        (LEAST_REACH, 0.65 * LEAST_REACH, 0.05, None),
        (LEAST_REACH - 0.01, None, 0.05, None),
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

    def chances(self: Prediction, n: ArrayLike, target: float) -> Array:
        return np.asarray(np.minimum(np.log(np.asarray(n, float)) / math.log(1e6), reach))

    monkeypatch.setattr(Prediction, "probability", chances)
    found = made().samples(0.3)
    assert (found.target, found.reach) == (0.3, reach)
    told = found.to_dict()
    for name, level in (("samples", samples), ("lower", lower), ("upper", upper)):
        here = None if level is None else pytest.approx(1e6**level, abs=1)
        assert told[name] == here
    if samples is not None:
        assert found.chance == pytest.approx(samples, abs=0.01)


def test_sizes_are_searched_at_four_n_of_every_doubling(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Array] = []

    def chances(self: Prediction, n: ArrayLike, target: float) -> Array:
        asked.append(np.asarray(n, float))
        return np.zeros(len(asked[-1]))

    monkeypatch.setattr(Prediction, "probability", chances)
    assert made().samples(1.0).reach == 0
    (grid,) = asked
    assert (grid[0], grid[-1], FARTHEST_N) == (2, 10**7, 10**7)
    large = grid[grid > 1e5]
    assert large[1:] / large[:-1] == pytest.approx(2**0.25, rel=1e-3)
    never = size_words(made(), 1e-3)
    assert "does not reach 0.001 by N = 10,000,000" in never
    assert "levels off" not in never  # there is no floor to speak of


# --- What is measured ----------------------------------------------------------------------------


def test_errors_are_no_surer_than_they_can_be() -> None:
    agreeing = power_pilot(noise=0.0)
    assert log_errors(agreeing, 0.01).variance == pytest.approx(1e-4)
    assert made().with_pilot(agreeing).misfit().real.variance == pytest.approx(1e-6)
    alone = Curve(agreeing.sizes, agreeing.means)
    found = log_errors(alone, 0.01)
    assert found.variance == pytest.approx(0.05**2)
    assert found.n.tolist() == alone.sizes.tolist()
    assert found.log_error == pytest.approx(np.log(alone.means))
    # Five quantiles of a normal law, spread out, have a mean that is as unsure as the law.
    spread = AS_SEEDS * ndtri([0.05, 0.25, 0.5, 0.75, 0.95])
    assert spread.std(ddof=1) / math.sqrt(5) == pytest.approx(1, abs=2e-3)


def test_many_sizes_are_thinned_and_few_are_not() -> None:
    n = np.arange(40, 40 + MOST_SIZES)
    assert log_errors(Curve(n, 1 / n), 0.01).n == pytest.approx(n)
    more = np.arange(8, 10 + MOST_SIZES)
    found = log_errors(Curve(more, 1 / more), 0.01)
    assert len(found) <= MOST_SIZES
    assert found.n[-1] == more[-1]
    assert np.exp(found.log_error) == pytest.approx(1 / found.n, rel=1e-9)


def test_a_pilot_is_held_against_the_theory_where_that_speaks() -> None:
    whole = made().with_pilot(pilot(*[1.0] * 5))  # at 8, 16, 32, 64 and 128
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
    found = replace(made(), rehearsal=checks, valid_from=8.0, valid_to=16.0).misfit().simulated
    assert found.n.tolist() == [8, 16]
    assert found.log_error == pytest.approx(math.log(2))


def test_trust_is_three_to_one_times_how_much_better_the_theory_explains_the_pilot() -> None:
    """Densities of K errors; the fitted curve's level is free in a width of four."""
    seeds = power_pilot(floor=0.03, noise=0.02)
    theory = Falling(0.5, 0.45, 0.02)
    one = made(theory).with_pilot(seeds)
    rival = posterior(seeds, replace(PRIOR, least_noise=0.01, noises=(0.05,)))
    log_odds = one.misfit(0.01).evidence - rival.evidence
    log_odds += 0.5 * (len(seeds.sizes) - 1) * math.log(2 * math.pi) + math.log(4) + math.log(3)
    assert 0.01 < one.trust < 0.999
    assert math.log(one.trust / (1 - one.trust)) == pytest.approx(log_odds)
    off = made(Falling(1e-30, 3.0)).with_pilot(power_pilot(noise=1e-4))
    assert off.trust == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("share", [0.005, 0.995])
def test_short_pilots_doubt_what_happens_once_in_a_hundred(share: float) -> None:
    alone = made()
    end = float(alone.quantile([16], share)[0])
    for factor in (0.99, 1.01):
        outside = factor < 1 if share < 0.5 else factor > 1
        assert alone.with_pilot(Curve([16], [factor * end])).doubted == outside


def test_beyond_a_theory_its_fall_comes_or_does_not() -> None:
    free = made()
    cut = replace(free, valid_to=100.0)
    for target in (0.001, 0.005, 0.01, 0.02):
        there, end = free.probability([1000, 100], target)
        assert cut.probability(1000, target)[0] == pytest.approx(max((there + end) / 2, end))
        assert cut.probability(100, target)[0] == pytest.approx(end)


def test_beyond_a_theory_the_pilot_is_extended_by_doublings_up_to_its_end() -> None:
    for end, sizes in ((1023.0, []), (1024.0, [1024]), (5000.0, [1024, 2048, 4096])):
        one = replace(made().with_pilot(power_pilot(noise=0.02)), valid_to=end)
        known = one.extended.pilot
        expected = [16, 32, 64, 128, 256, 512, *sizes]
        assert known.x * known.last == pytest.approx(expected)


# --- Two of them ---------------------------------------------------------------------------------


def pair_with(odds: list[float]) -> tuple[PredictedPair, Array]:
    """A pair whose odds run through some values, evenly over the doublings of N."""
    pair = PredictedPair(made(Falling(0.01, 0.0), "KO"), made())
    n = track(pair.known).n
    at = np.linspace(0, 1, len(n))
    pair.__dict__["odds"] = np.interp(at, np.linspace(0, 1, len(odds)), odds)
    return pair, n


def test_tracks_run_from_four_to_256_times_the_examples() -> None:
    n = track(made()).n
    assert (n[0], last_shown(made())) == (4, 1024)
    assert n[-1] == pytest.approx(16 * 1024)
    assert n[1:] / n[:-1] == pytest.approx(2**0.5)
    many = replace(made(), examples=10**6)
    assert track(many).n[-1] <= FARTHEST_N < 2 * track(many).n[-1]


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


def test_a_crossover_lies_where_the_odds_pass_their_levels() -> None:
    pair, n = pair_with([0.0, 1.0])
    found = pair.crossover
    assert found is not None
    ends = [n[0] * (n[-1] / n[0]) ** share for share in (0.05, 0.5, 0.95)]
    assert [found.lower, found.n, found.upper] == pytest.approx(ends, rel=0.01)
    later = pair_with([0.6, 0.0, 1.0])[0].crossover
    assert later is not None
    assert later.n > math.sqrt(n[0] * n[-1])  # not at the first N, where odds are even
    assert math.isinf(pair_with([0.0, 0.9])[0].crossover.upper)  # type: ignore[union-attr]


def test_who_is_ahead_is_told_from_three_to_one_on_at_the_last_n_that_is_shown() -> None:
    """Curves that cross at 4,000 are shown up to 1,024."""
    for odds, ahead in ((0.75, "FC"), (0.74, None), (0.26, None), (0.25, "KO")):
        assert pair_with([odds, odds])[0].ahead == ahead
    pair = PredictedPair(made(Falling(1 / 4000, 0.0), "KO"), made())
    assert pair.ahead == "KO"
    assert pair.odds[-1] > 0.75
    assert pair.crossover is not None
    assert pair.crossover.n == pytest.approx(4000, rel=0.05)
    assert "from there on FC" in pair.explain()


def test_curves_that_rise_or_are_level_have_no_slope() -> None:
    rising = PredictedPair(made(Falling(0.01, -0.2), "KO"), made(Falling(0.01, 0.0)))
    assert [line.slope for line in rising.lines] == [0, 0]
    assert rising.lines[1].floor == pytest.approx(0.01, rel=1e-4)


# --- Words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ((1.0, 1.0, 1.14, 1.0), "The pilot agrees with the theory of FC at N = 8 to 64"),
        ((1.0, 1.0, 1.16, 1.0), "The pilot is off the theory of FC by up to 1.2 times"),
        ((1 / 1.14, 1.0, 1.0, 1.0), "The pilot agrees with the theory"),
        ((1 / 1.16, 1.0, 1.0, 1.0), "The pilot is off the theory of FC by up to 1.2 times"),
        ((3.1, 3.1, 3.1, 3.1), "are about 3.1 times the computed ones"),
        ((1 / 3.1, 1 / 3.1, 1 / 3.1), "are about 0.3226 times the computed ones"),
        ((3.1, 4.6, 3.1, 3.1), "All errors of FC's pilot"),  # one scale, up to 1.5
    ],
)
def test_words_follow_how_far_a_pilot_is_off(factors: tuple[float, ...], words: str) -> None:
    (said,) = trust_words(made().with_pilot(pilot(*factors)))
    assert words in said


def test_smaller_or_uneven_factors_are_no_other_unit() -> None:
    for factors in ((2.9,) * 4, (1 / 2.9,) * 4, (3.1, 4.7, 3.1, 3.1)):
        assert "another unit" not in trust_words(made().with_pilot(pilot(*factors)))[0]


def test_the_outlook_is_at_the_examples_and_at_two_at_least() -> None:
    for examples, n in ((64, 64), (1, 2)):
        one = replace(made(), examples=examples)
        low, high = (f"{float(end):.4g}" for (end,) in one.band([n]))
        told = one.explain()
        assert f"at N = {n} (90%: {low} to {high})" in told


# --- The ends of predictions ----------------------------------------------------------------------


def test_a_pilot_beyond_the_theory_says_nothing_of_it() -> None:
    free = made(Falling(10.0))
    one = replace(free, valid_to=10.0).with_pilot(power_pilot())
    assert one.trust == 1.0
    assert not one.tested
    assert one.computed(np.array([4.0])) == pytest.approx(free.computed(np.array([4.0])))


def test_two_predictions_are_of_the_same_images() -> None:
    with pytest.raises(KoriskError, match="not from 64 and 65"):
        PredictedPair(made(Falling(10.0)), replace(made(Falling(10.0)), examples=65))


def test_the_farther_a_theory_holds_the_surer_is_what_lies_beyond_it() -> None:
    pilot = power_pilot(floor=0.0, scale=10.0, rate=1.0, noise=0.02, sizes=(16, 32, 64, 128, 256))
    far = np.array([8192.0])
    widths, off = [], []
    for end in (256.0, 1024.0, 4096.0):
        one = replace(made(Falling(10.0)), valid_to=end).with_pilot(pilot)
        off.append(abs(float(np.log(one.errors(far) / one.computed(far))[0])))
        low, high = one.band(far)
        widths.append(float(np.log(high / low)[0]))
    assert off[0] > off[1] > off[2]
    assert off[2] < 0.2
    assert widths[0] > 1.1 * widths[1] > 1.2 * widths[2]
