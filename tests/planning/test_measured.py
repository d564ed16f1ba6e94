"""Inside the pilot measurements speak, and every odds of a plan is a whole one."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import korisk as kr
from korisk.curves.noise import ROUNDING, collapsed, relative_variance

COLLAPSE = Path(__file__).parents[2] / "benchmarks" / "data" / "collapse_h8.csv"
SIZES = 2 ** np.arange(2, 11)


def neighbours(curve: kr.Curve, error: float) -> tuple[int, int]:
    """The measured N between which the means come to stay at or below an error."""
    above = np.flatnonzero(curve.means > error)
    return int(curve.sizes[above[-1]]), int(curve.sizes[above[-1] + 1])


def within_band(forecast: kr.Forecast) -> float:
    """The share of measured means that lie in the 90% band of their own N."""
    curve = forecast.evidence
    low, high = (forecast.quantile(curve.sizes, p) for p in (0.05, 0.95))
    return float(((low <= curve.means) & (curve.means <= high)).mean())


@pytest.fixture(scope="module")
def dense() -> kr.Curve:
    return kr.Curve.read(COLLAPSE, model="FC")


@pytest.mark.parametrize("target", [0.02, 0.01, 0.005, 0.003, 0.002, 0.001, 0.0008, 0.0005])
def test_a_collapsing_curve_is_answered_by_its_means(dense: kr.Curve, target: float) -> None:
    plan = kr.plan(dense, target)
    before, after = neighbours(dense, target)
    assert plan.even is not None
    assert plan.between == (before, after)
    assert before < plan.even <= after
    assert plan.lower <= plan.even <= plan.upper
    for probability, n in ((0.05, plan.lower), (0.95, plan.upper)):  # ends of the law of N
        assert plan.probability(n - 1) <= probability <= plan.probability(n + 1)


def test_the_band_of_a_collapsing_curve_holds_its_means(dense: kr.Curve) -> None:
    assert within_band(kr.forecast(dense)) >= 8 / 9


def test_beyond_a_collapse_nothing_is_claimed(dense: kr.Curve) -> None:
    known = kr.plan(kr.Curve.read(COLLAPSE, model="KO"), 0.0015)
    assert known.doubt == ""
    part = kr.plan(dense.up_to(512), 0.0003)  # one seed of four has collapsed at 512
    assert (part.even, part.samples(0.9)) == (None, None)
    assert math.isnan(part.reach)
    assert "1 of 4 seeds fell to rounding" in part.explain()
    assert part.recommend().action == "unknown"
    with pytest.raises(kr.errors.UnreachableError, match="1 of 4 seeds fell to rounding"):
        part.require()
    with pytest.raises(kr.KoriskError, match="cannot be extrapolated"):
        part.forecast.at(1024)
    below = kr.plan(dense, 1e-20)
    assert (below.even, below.samples(0.9)) == (None, None)
    assert "rounding" in below.doubt


def test_between_measured_sizes_nothing_is_met_that_the_next_one_misses() -> None:
    means, noise = np.array([1, 0.5, 0.51, 0.52, 0.53]), np.array([[0.95], [1.0], [1.05]])
    sizes = [16, 64, 256, 1024, 4096]
    plateau = kr.Curve(sizes * 3, (means * noise).ravel(), [1] * 5 + [2] * 5 + [3] * 5)
    plan = kr.plan(plateau, 0.56)
    met = [plan.probability(n) for n in (256, 512, 1024, 2048, 4096)]
    assert met == pytest.approx([met[-1]] * 5)
    assert plan.samples(0.95) is None


def test_a_step_is_somewhere_between_its_neighbours() -> None:
    means = np.where(SIZES > 32, 0.01, 1.0)
    plan = kr.plan(kr.Curve(SIZES, means), 0.5)
    assert (plan.lower, plan.upper) == (32, 64)
    assert plan.even is not None
    assert 32 < plan.even <= 64
    beyond = kr.plan(kr.Curve(SIZES, means), 0.005)
    assert beyond.even is None
    assert "from N = 32 to 64" in beyond.doubt


def test_means_that_are_typical_of_no_seed_are_not_extrapolated() -> None:
    """Every mean is made by one seed in ten, a thousand times the others: by seed nothing fits."""
    n, count = [16, 32, 64, 128, 256], 10
    means = np.array([0.3, 0.2, 0.13, 0.09, 0.06])
    calm = np.tile(1 + 0.02 * np.linspace(-1, 1, count), (5, 1))
    split = np.where(np.arange(count) == 0, 1000.0, 1.0) * np.ones((5, 1))
    for seeds, doubted in ((calm, False), (split, True)):
        errors = (means[:, None] * seeds).ravel()
        made = kr.plan(kr.Curve(np.repeat(n, count), errors, list(range(count)) * 5), 1e-4)
        assert ("single seeds" in made.doubt) == doubted


def test_a_straight_line_between_means_is_nearly_certain() -> None:
    """Slopes that agree leave little room: the power law's own N, within a few per cent."""
    n = np.array([16, 64, 256, 1024])
    plan = kr.plan(kr.Curve(n, 2.0 * n**-0.5), 2.0 * 150**-0.5)
    assert plan.even == pytest.approx(150, rel=0.03)
    assert 130 < plan.lower <= plan.upper < 175


def test_seeds_that_have_collapsed_are_a_mixture() -> None:
    """The mean of three seeds and one at zero hangs on how many collapse: no small deviation."""
    n, seeds = np.repeat([8, 16, 32, 64], 4), [1, 2, 3, 4] * 4
    errors = np.repeat([0.4, 0.3, 0.2, 0.15], 4) * np.tile([1.0, 1.001, 0.999, 1.0], 4)
    calm = relative_variance(kr.Curve(n, errors, seeds))
    errors[-1] = 1e-25
    curve = kr.Curve(n, errors, seeds)
    mixed = relative_variance(curve)
    assert calm is not None
    assert mixed is not None
    assert collapsed(curve).sum() == 1
    assert np.sqrt(calm).max() < 0.01
    assert np.sqrt(mixed[-1]) > 0.25
    assert (collapsed(kr.Curve(n, np.maximum(errors, 2 * ROUNDING), seeds))).sum() == 0


def strange(kind: str, draw: int) -> kr.Curve:
    """A pilot that collapses, steps, rests and drops, peaks, has outliers or two states."""
    rng = np.random.default_rng(draw)
    seeds = int(rng.integers(1, 6))
    means = 0.5 * SIZES ** -rng.uniform(0.1, 0.9)
    at = int(rng.integers(2, len(SIZES) - 1))
    errors = means[:, None] * np.exp(rng.uniform(0.005, 0.2) * rng.standard_normal((9, seeds)))
    match kind:
        case "collapse":
            errors[at:] = 10.0 ** rng.uniform(-28, -24, (9 - at, seeds))
        case "step":
            errors[at:] *= 10.0 ** -rng.uniform(0.5, 3)
        case "plateau":
            errors[:at] = errors[0] * np.exp(0.01 * rng.standard_normal((at, seeds)))
            errors[at:] *= 0.3
        case "peak":
            errors[at] *= rng.uniform(3, 30)
        case "outlier":
            errors[at, 0] *= 10.0 ** rng.uniform(1, 2)
        case "mixture":
            gone = rng.random((9, seeds)) < np.linspace(0, 0.8, 9)[:, None]
            errors = np.where(gone, 1e-26, errors)
    return kr.Curve(np.repeat(SIZES, seeds), errors.ravel(), list(range(seeds)) * 9)


KINDS = ("collapse", "step", "plateau", "peak", "outlier", "mixture")


@pytest.mark.parametrize(
    "draws", [range(4), pytest.param(range(4, 34), marks=pytest.mark.slow)], ids=["few", "many"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_strange_pilots_are_never_contradicted(kind: str, draws: range) -> None:
    for draw in draws:
        curve = strange(kind, draw)
        forecast, least = kr.forecast(curve), ROUNDING * curve.means.max()
        assert within_band(forecast) >= 8 / 9
        reachable = np.unique(np.maximum.accumulate(curve.means[::-1]))
        for first, second in pairwise(reachable):
            error = float(np.sqrt(max(first, least) * second))
            if second < max(least, 1.001 * first) or error < 1.01 * least:
                continue
            plan = forecast.plan(error)
            before, after = neighbours(curve, error)
            assert plan.between == (before, after)
            assert plan.doubt == ""
            assert plan.even is not None
            assert before < plan.even <= after
            assert plan.lower <= plan.even <= plan.upper
