"""Two predicted curves against each other, and what is said of them: laws of made-up theories."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from korisk.curves.curve import Curve
from korisk.prediction.explain import crossover_words, explain, size_words, trust_words
from korisk.prediction.pair import (
    PredictedPair,
    PredictedTrack,
    last_shown,
    sizes,
    track,
)
from korisk.prediction.prediction import FARTHEST_N, Prediction


@dataclass(frozen=True)
class Law:
    """floor + level n^-rate, or floor + level log n / n."""

    level: float
    rate: float
    floor: float = 0.0
    parameters: int | None = 100
    line: bool = False

    def errors(self, n: ArrayLike) -> NDArray[np.float64]:
        sizes = np.asarray(n, float)
        falling = np.log(sizes) / sizes if self.line else sizes**-self.rate
        return np.asarray(self.floor + self.level * falling)

    def effective(self, n: float) -> float:
        return min(n, 100.0)


def made(law: Law, model: str, **settings: float) -> Prediction:
    return Prediction(law, model, 64, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def pair() -> PredictedPair:
    """Curves 0.01 and n^-1, which cross at 100."""
    return PredictedPair(made(Law(0.01, 0.0), "KO"), made(Law(1.0, 1.0), "FC"))


def test_sizes_double_from_first_to_last() -> None:
    assert sizes(4, 64).tolist() == [4, 8, 16, 32, 64]
    assert sizes(4, 63).tolist() == [4, 8, 16, 32]
    assert sizes(4, 16, 2) == pytest.approx([4, 32**0.5, 8, 128**0.5, 16])


def test_curves_cross_where_their_laws_do(pair: PredictedPair) -> None:
    found = pair.crossover
    assert found is not None
    assert found.n == pytest.approx(100, rel=0.05)
    assert found.lower < found.n < found.upper
    assert found.better_after == "FC"
    assert pair.ahead == "FC"
    assert found.to_dict()["upper"] == found.upper
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


def test_odds_are_told_by_the_halves_of_the_bands_that_face(
    monkeypatch: pytest.MonkeyPatch, pair: PredictedPair
) -> None:
    n, one = np.array([4.0, 8.0]), np.ones(2)
    known = PredictedTrack(n, one, 0.5 * one, one, 90 * one)
    dense = PredictedTrack(n, one, one / 7, one * [0.5, 2.0], one * [1.5, 2.1])
    by_model = {"KO": known, "FC": dense}
    monkeypatch.setattr("korisk.prediction.pair.track", lambda made: by_model[made.model])
    found = PredictedPair(pair.known, pair.dense).odds
    widths = np.hypot(np.log([2, 90]), np.log([3, 14])) / 1.6449
    assert found == pytest.approx(ndtr(np.log([2, 0.5]) / widths))


def test_exchanged_models_have_the_other_odds(pair: PredictedPair) -> None:
    other = PredictedPair(pair.dense, pair.known)
    assert other.odds == pytest.approx(1 - pair.odds)
    assert other.crossover is not None
    assert other.crossover.better_after == "FC"


def test_curves_that_never_cross_do_not() -> None:
    apart = PredictedPair(made(Law(1e-4, 0.5), "KO"), made(Law(1.0, 0.5), "FC"))
    assert apart.crossover is None
    assert apart.ahead == "KO"
    assert "KO is the better one at N = 1,024" in crossover_words(apart)


def test_curves_that_are_the_same_cannot_be_told_apart() -> None:
    same = PredictedPair(made(Law(1.0, 0.5), "KO"), made(Law(1.0, 0.5), "FC"))
    assert same.odds == pytest.approx(0.5)
    assert (same.crossover, same.ahead) == (None, None)
    assert "too close" in crossover_words(same)


def test_a_theory_without_meaning_makes_no_clear_winner(pair: PredictedPair) -> None:
    cut = PredictedPair(pair.known, replace(pair.dense, valid_to=48.0))
    beyond = track(cut.known).n > 48
    assert (cut.odds[beyond] <= 0.5).all()
    assert cut.odds[~beyond] == pytest.approx(pair.odds[~beyond])
    other = PredictedPair(cut.dense, cut.known)
    assert other.odds == pytest.approx(1 - cut.odds)
    assert cut.crossover is None
    assert "Beyond N = 48" in crossover_words(cut)
    late = PredictedPair(pair.known, replace(pair.dense, valid_to=1000.0))
    assert late.crossover is not None
    assert pair.crossover is not None
    assert late.crossover.n == pair.crossover.n  # it was clear before


def test_a_pilot_speaks_where_the_theory_does_not(pair: PredictedPair) -> None:
    for count, limit in ((2, 48.0), (3, math.inf)):  # sizes that curves can be fitted to, or not
        n = [8, 16, 32][:count]
        pilot = Curve(n, [1 / k for k in n], model="FC")
        cut = PredictedPair(pair.known, replace(pair.dense, valid_to=48.0, pilot=pilot))
        assert cut.limit == limit


def test_factors_of_lines_are_the_lines_own() -> None:
    """Curves that are lines have factors by Eq. (eq:prop2-twofactor) itself."""
    known, dense = (
        Law(0.1, 0, 0.001, line=True),
        Law(2.0, 0, 0.0005, line=True),
    )
    lines = PredictedPair(made(known, "KO"), made(dense, "FC"))
    found = lines.factors(0.01)
    assert found.structural == pytest.approx(20, rel=0.02)
    assert found.approximation_budget == pytest.approx(0.009 / 0.0095, rel=0.02)
    told = lines.factors_or_reason(0.01)
    assert told["product"] == pytest.approx(told["structural"] * told["approximation_budget"])
    assert "cannot be reached" in lines.factors_or_reason(1e-4)["unknown"]


# --- Words ---------------------------------------------------------------------------------------


def test_without_a_target_the_error_and_the_floor_are_told() -> None:
    one = made(Law(1.0, 1.0, floor=0.25), "FC")
    told = explain(one)
    assert f"{float(one.errors([64])[0]):.4g} at N = 64" in told
    assert "levels off at 0.25" in told


def test_a_target_is_answered_with_its_range() -> None:
    one = made(Law(1.0, 1.0), "FC")
    found = one.samples(0.01)
    told = explain(one, 0.01)
    assert f"about {found.samples:,} samples for 0.01" in told
    assert f"{found.lower:,.0f} to {found.upper:,.0f}" in told


def test_targets_at_either_end_have_words_of_their_own() -> None:
    assert "from the first samples on" in size_words(made(Law(1.0, 1.0), "FC"), 100.0)
    never = size_words(made(Law(1.0, 1.0, floor=0.5), "FC"), 1e-3)
    assert "does not reach 0.001" in never
    assert "levels off at 0.5" in never
    assert f"{FARTHEST_N:,}" in never
    perhaps = size_words(made(Law(1.0, 1.0, floor=0.5), "FC"), 0.5)
    assert "if it gets there" in perhaps
    assert "no upper end" in perhaps


def test_notes_are_passed_on() -> None:
    assert explain(replace(made(Law(1.0, 1.0), "FC"), notes=("Mind the gap.",))).endswith("gap.")


def test_no_pilot_no_trust_words() -> None:
    assert trust_words(made(Law(1.0, 1.0), "FC")) == []


def test_a_pilot_that_agrees_is_said_to() -> None:
    n = [8, 16, 32, 64]
    one = made(Law(1.0, 1.0), "FC").with_pilot(Curve(n, [1 / k for k in n], model="FC"))
    (said,) = trust_words(one)
    assert "agrees with the theory of FC at N = 8 to 64" in said


def test_a_pilot_that_speaks_against_the_theory_is_said_to() -> None:
    n = [8, 16, 32, 64, 128]
    rising = Curve(n, [0.01 * k**0.3 for k in n], model="FC")
    one = made(Law(1.0, 2.0), "FC").with_pilot(rising)
    assert one.doubted
    (said,) = trust_words(one)
    assert "speaks against the theory of FC" in said
    worst = max(one.checks, key=lambda check: abs(math.log(check.ratio)))
    assert f"at N = {worst.n:,} the pilot measured {worst.measured:.4g}" in said


def test_a_short_pilot_moves_the_level_alone() -> None:
    one = made(Law(1.0, 1.0), "FC").with_pilot(Curve([8], [0.125], model="FC"))
    assert "fewer than 3 sizes" in trust_words(one)[0]


def test_tracks_go_beyond_what_is_shown() -> None:
    one = made(Law(1.0, 1.0), "FC")
    assert last_shown(one) == 16 * 64
    found = track(one)
    assert found.n[-1] > last_shown(one)
    assert (found.lower < found.middle).all()
    assert (found.middle < found.upper).all()
    assert found.computed == pytest.approx(1 / found.n)
