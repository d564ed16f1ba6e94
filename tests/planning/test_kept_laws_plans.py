"""Plans, comparisons and fits: closed forms of what is read off them, both sides of thresholds."""

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import korisk as kr
from korisk.curves.curve import LARGEST_N
from korisk.curves.noise import RESAMPLES
from korisk.planning import plan as planning
from korisk.planning.fit import STRETCH, WIDENING, pooled_band
from korisk.planning.fit import LEAST_SIZES, _Average, _exp, estimate, first_below
from korisk.planning.fit import FAMILIES, least_squares
from korisk.planning.forecast import Forecast
from korisk.planning.posterior import HORIZON, MOST_SIZES, ROUGHEST
from pilots import power_pilot

Array = NDArray[np.float64]
N = np.array([16, 32, 64, 128, 256])
PAGE = Path(__file__).parents[2] / "docs/explanation/planner.md"


@dataclass(frozen=True)
class Odds(Forecast):
    """A forecast whose chance to meet any target grows by a tenth with each doubling.

    From `start` doublings beyond the pilot on, as far as `reach`.
    """

    start: float = 0.0
    reach: float = 1.0

    def probability(self, n: Array, goal: float) -> Array:
        grown = (np.log2(n / self.last) - self.start) / 10
        return np.clip(grown, 0.0, self.reach)


def planned(start: float = 0.0, reach: float = 1.0) -> kr.Plan:
    curve = kr.Curve(N, 1.0 / N)
    return planning.plan_from(Odds(curve, "posterior", (), start, reach), 1e-3)


def doubled(times: float) -> float:
    return float(256 * 2**times)


# --- Plans ---------------------------------------------------------------------------------------


def test_a_plan_is_read_off_the_chances() -> None:
    """From all futures, and from those that meet the target before long."""
    made = planned()
    assert (made.lower, made.upper) == (math.floor(doubled(0.5)), math.ceil(doubled(9.5)))
    assert made.reach == 1.0
    assert made.before_long == max(planning.NEAR * 256, planning.LATER * made.lower)
    before = math.log2(made.before_long / 256)
    assert made.samples == math.ceil(doubled(planning.MIDDLE * before))
    assert made.chance == pytest.approx(0.1 * planning.MIDDLE * before, abs=1e-3)
    levels = (0.8, 0.9, 0.95)
    assert [made.safe(p) for p in levels] == [math.ceil(doubled(10 * p)) for p in levels]
    assert [made.if_reached(p) for p in levels] == [math.ceil(doubled(before * p)) for p in levels]
    assert (made.safe(), made.if_reached()) == (made.safe(0.9), made.if_reached(0.9))
    assert made.probability(1024) == pytest.approx(0.2)


def test_safety_is_of_all_futures_and_the_condition_of_those_before_long() -> None:
    made = planned(reach=0.925)
    assert math.isinf(made.upper)
    assert made.safe(0.9) == planned().safe(0.9)
    assert made.safe(0.95) is None
    assert made.if_reached(0.95) == planned().if_reached(0.95)
    assert planned(reach=0.975).upper == planned().upper


def test_late_targets_count_futures_up_to_a_multiple_of_the_earliest() -> None:
    made = planned(start=4.0)
    assert made.lower == math.floor(doubled(4.5))
    assert made.before_long == planning.LATER * made.lower
    later = math.log2(made.before_long / doubled(4))
    assert made.samples == pytest.approx(doubled(4 + planning.MIDDLE * later), rel=1e-3)


def test_a_least_chance_is_asked_for() -> None:
    least = planning.LEAST_REACH
    expected = doubled(10 * planning.MIDDLE * least)
    assert planned(reach=least).samples == pytest.approx(expected, rel=0.01)
    made = planned(reach=least - 0.01)
    assert (made.samples, made.chance, made.upper) == (None, None, math.inf)
    assert (made.reach, made.safe(0.9), made.if_reached(0.9)) == (least - 0.01, None, None)
    assert made.lower == planned().lower  # the earliest is told all the same
    assert made.rounds == (512,)


def test_rounds_multiply_by_four() -> None:
    assert planned().rounds == (1_024, planned().samples)


def test_what_was_met_stays_met() -> None:
    @dataclass(frozen=True)
    class Passing(Odds):
        def probability(self, n: Array, goal: float) -> Array:
            return np.where(n < 4_000, 0.4, np.where(n < 8_000, 0.8, 0.6))

    made = planning.plan_from(Passing(kr.Curve(N, 1.0 / N), "posterior"), 1e-3)
    assert made.reach == 0.8
    assert [made.probability(n) for n in (1_000, 6_000, 20_000)] == [0.4, 0.8, 0.8]


@pytest.mark.parametrize("draw", range(8))
def test_the_smallest_n_is_the_smallest(draw: int) -> None:
    rng = np.random.default_rng(draw)
    n = np.sort(rng.choice(np.arange(16, 330), 12, replace=False)).astype(float)
    table = planning.Chances(n, np.sort(rng.choice([0.0, 0.3, *rng.random(10)], 12)))
    every = np.arange(int(n[0]), int(n[-1]) + 1)
    at = np.array([table.at(each) for each in every.tolist()])
    for p in (0.0, 0.3, 0.5, *table.p, *rng.random(20)):
        there = every[at >= p]
        assert table.smallest(p) == (there[0] if len(there) else None)
        first = table.first(p)
        assert math.isinf(first) if not len(there) else -1e-9 <= there[0] - first < 1


@pytest.mark.parametrize("sizes", [(16, 32, 64, 256), (4, 5, 9, 20), (3, 1_000, 10**6)])
def test_the_table_has_the_measured_sizes_and_eight_to_a_doubling_beyond(
    sizes: tuple[int, ...],
) -> None:
    made = kr.forecast(kr.Curve(sizes, 1.0 / np.array(sizes)))
    n = planning.table_sizes(made)
    assert (n[0], n[-1]) == (sizes[0], made.horizon)
    assert set(sizes) <= set(n.tolist())
    assert (np.diff(n) > 0).all()
    beyond = n[n >= made.last]
    assert (beyond[1:] / beyond[:-1]).max() <= 2 ** (1 / 8) * (1 + 1e-9)
    for low, high in pairwise(sizes):
        between = ((n > low) & (n < high)).sum()
        assert between == high - low - 1 if high - low <= 16 else between >= 8


def test_probabilities_jump_nowhere_between_sizes_of_the_table() -> None:
    """Except where neighbours are one apart: a curve that is known well has steep chances."""
    curve = power_pilot(noise=0.002)
    table = kr.plan(curve, 0.035).chances
    apart = np.diff(table.n) > 1
    assert np.diff(table.p)[apart].max() < 0.1
    assert (np.diff(table.p) >= 0).all()
    assert (table.p[0], table.p[-1]) == pytest.approx((0, 1), abs=0.05)


def test_constants_of_the_planner_are_those_of_its_page() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    for words in (
        f"within {HORIZON:,.0f} times the pilot",
        f"read at {100 * planning.MIDDLE:g}% of the futures that meet the target before long",
        f"(by {planning.NEAR} times the pilot, or {planning.LATER} times `lower`",
        f"Below a `reach` of {100 * planning.LEAST_REACH:g}% there is no `samples`",
        f"takes τ above {ROUGHEST:g}",
        f"the {100 * (1 - 2 * planning.TAIL):g}% interval of N",
        f"More than {MOST_SIZES} sizes are averaged",
        f"{RESAMPLES:,} resamples",
    ):
        assert words in page
    assert planning.LEVELS == (0.8, 0.9, 0.95)


# --- Comparisons ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("odds", "after", "share"),
    [
        ([0.0, 1.0], "second", 0.5),
        ([1.0, 0.0], "first", 0.5),
        ([0.25, 0.75], "second", 0.5),
        ([0.26, 1.0], None, 0),
        ([0.25, 0.74], None, 0),
        ([0.75, 0.26], None, 0),
        ([0.6, 0.0, 1.0], "second", 0.75),  # even odds at first are no crossover
        ([0.4, 1.0, 0.0], "first", 0.75),
    ],
)
def test_a_crossover_is_clear_before_and_after(
    monkeypatch: pytest.MonkeyPatch, odds: list[float], after: str | None, share: float
) -> None:
    """Odds that run through some values, evenly over the doublings from 16 to 64 times 256."""

    def made_up(self: kr.Comparison, n: Array) -> Array:
        assert (n[0], n[-1]) == (16, pytest.approx(64 * 256))
        return np.interp(np.log2(n / 16), np.linspace(0, 10, len(odds)), odds)

    monkeypatch.setattr(kr.Comparison, "odds", made_up)
    found = kr.Comparison(planned(), planned()).crossover
    assert (found.better_after if found else None) == after
    if found is not None:
        assert found.n == pytest.approx(16 * 2 ** (10 * share), rel=0.15)
        assert found.lower <= found.n <= found.upper
        assert found.measured == (found.n <= 256)


def test_curves_that_rise_have_no_slope_and_no_factors() -> None:
    rising, falling = kr.Curve(N, 0.01 * N**0.2), kr.Curve(N, 0.01 + 1.0 / N)
    for first, second in ((rising, falling), (falling, rising)):
        with pytest.raises(kr.KoriskError, match="must be > 0, got 0"):
            kr.compare(first, second, 0.03).factors()


# --- Fits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in FAMILIES if FAMILIES[name].grids])
def test_grids_cover_what_shapes_may_be(name: str) -> None:
    family = FAMILIES[name]
    for grid, (low, high) in zip(family.grids, family.limits, strict=True):
        assert low <= grid[0] < grid[-1] <= high
        assert grid[-1] >= 100 * grid[0] * (1 - 1e-9)  # two decades at least
        steps = grid[1:] / grid[:-1]
        assert steps == pytest.approx(steps[0])
        assert steps[0] < 1.5
    if len(family.grids) == 1:
        for rate in (0.02, 0.3, 0.9):
            basis = np.log(N) / N if name == "log-power" else 1.0 / N
            fitted = least_squares(
                family, N.astype(float), 2.0 * basis[None, :] ** rate, np.ones(len(N))
            )
            assert fitted.shape[0] == pytest.approx(rate, rel=1e-3)


def test_averages_weigh_by_aic() -> None:
    """K log(loss) + 2 parameters, of families with fewer parameters than there are sizes."""
    n, errors = N.astype(float), np.array([[0.3, 0.22, 0.15, 0.13, 0.1]])
    made = estimate("aic", n, errors, np.ones(5))
    assert isinstance(made, _Average)
    kinds = [part.family for part in made.parts]
    assert [kind.name for kind in kinds] == ["line", "power", "no-floor", "log-power"]
    criterion = [
        5 * math.log(part.loss.item()) + 2 * kind.parameters
        for part, kind in zip(made.parts, kinds, strict=True)
    ]
    shares = np.exp(-0.5 * np.array(criterion))
    assert made.shares[:, 0] == pytest.approx(shares / shares.sum())
    assert made.floor.item() == pytest.approx(
        sum(made.shares[at, 0] * part.floor.item() for at, part in enumerate(made.parts))
    )
    few = estimate("aic", n[:3], errors[:, :3], np.ones(3))
    assert isinstance(few, _Average)
    assert [part.family.name for part in few.parts] == ["line", "no-floor"]


@pytest.mark.parametrize("fit", kr.FITS)
def test_methods_ask_for_two_or_three_sizes(fit: str) -> None:
    least = 2 if fit in ("paper", "line", "inverse-log", "no-floor", "envelope") else 3
    assert LEAST_SIZES.get(fit, 3) == least
    with pytest.raises(kr.KoriskError, match=r"size|N"):
        kr.calibrate(kr.Curve(N[: least - 1], 1.0 / N[: least - 1]), fit)
    if fit != "posterior":
        assert kr.calibrate(kr.Curve(N[:least], 1.0 / N[:least]), fit).fit == fit


@pytest.mark.parametrize("first", [*range(3, 40), 1_000_003, LARGEST_N - 1, LARGEST_N])
def test_the_first_n_below_a_target_is_the_smallest(first: int) -> None:
    assert first_below(lambda n: -n, -float(first), 0.0) == first


def test_n_runs_from_two_to_ten_to_the_fifteen() -> None:
    made = kr.calibrate(kr.Curve(N, 1.0 / N), "no-floor")
    assert LARGEST_N == 10**15
    assert made.predict(2) == pytest.approx(0.5)
    assert made.predict([10.0**15]) == pytest.approx([1e-15])
    for n in (1.99, 1.001e15, [], [[2.0]], [8, 1], "many"):
        with pytest.raises(kr.KoriskError, match="from 2 to 10"):
            made.predict(n)  # type: ignore[arg-type]
    with pytest.raises(kr.UnreachableError):
        made.samples(1e-16)
    assert (_exp(0.0), _exp(699.0), _exp(700.0)) == (1.0, math.exp(699), math.inf)


def test_bands_widen_beyond_the_pilot_and_not_within() -> None:
    """By 0.02 for a doubling, and by 2.1 over all."""
    band = pooled_band(kr.calibrate(power_pilot(), "power"), resamples=20)
    n = np.array([32.0, 512.0, 1024.0, 8192.0])
    predicted = np.log(np.concatenate([part.predict(n) for part in band._pooled]))
    low, high = np.quantile(predicted, [0.05, 0.95], axis=0)
    lower, upper = band.at(n)
    expected = STRETCH * ((high - low) / 2 + WIDENING * np.array([0, 0, 1, 4]))
    assert np.log(upper / lower) / 2 == pytest.approx(expected)
    assert np.sqrt(upper * lower) == pytest.approx(band.calibration.predict(n))
    assert (STRETCH, WIDENING, len(band._pooled)) == (2.1, 0.02, 4)
