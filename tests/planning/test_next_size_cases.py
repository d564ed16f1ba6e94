"""Where to measure next: ties, prices, candidates, and what settles a question."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk._checks import LARGEST_N
from korisk.planning.chances import chances
from korisk.planning.extrapolation import extrapolate
from korisk.planning.next_size import NextSize, Outlook, next_size, open_sizes, settling_size

PILOT = kr.Curve([16, 32, 64, 128], [0.4, 0.21, 0.1, 0.052], model="KO")


@pytest.fixture
def widths(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """The expected widths of candidates, in place of the preposterior analysis."""
    known: dict[int, float] = {}
    monkeypatch.setattr(Outlook, "expected_width", lambda self, n, noise: known.get(n, 1.0))
    monkeypatch.setattr(Outlook, "width_now", 2.0)
    return known


def test_of_equal_candidates_the_smaller_one_is_measured(widths: dict[int, float]) -> None:
    best = next_size(PILOT, 0.02, candidates=[512, 256, 400, 256])
    assert [size.n for size in best.candidates] == [256, 400, 512]
    assert (best.n, best.seeds) == (256, 1)
    assert (best.now, best.expected) == (math.exp(2.0), math.exp(1.0))
    assert best.narrowing == pytest.approx(1 / math.log(2))
    widths[400] = 0.9
    assert next_size(PILOT, 0.02, candidates=[512, 256, 400]).n == 400
    # Per cost, twice the narrowing at twice the price is as good, and smaller is better.
    widths[512] = 0.0
    priced = next_size(PILOT, 0.02, candidates=[256, 512], cost=lambda n: n / 256, seeds=3)
    assert priced.n == 256
    assert [size.cost for size in priced.candidates] == [3, 6]
    widths[512] = -0.01
    assert next_size(PILOT, 0.02, candidates=[256, 512], cost=lambda n: n / 256).n == 512


def test_seeds_are_the_median_of_the_pilots(widths: dict[int, float]) -> None:
    n = [16, 16, 16, 32, 32, 64, 64, 128]
    means = [0.4, 0.41, 0.42, 0.2, 0.21, 0.1, 0.11, 0.05]
    curve = kr.Curve(n, means, ["1", "2", "3", "1", "2", "1", "2", "1"])
    assert next_size(curve, 0.02, candidates=[256]).seeds == 2
    assert next_size(curve, 0.02, candidates=[256], seeds=7).seeds == 7


def test_candidates_end_at_the_largest(widths: dict[int, float]) -> None:
    sizes = next_size(PILOT, 0.02, candidates=[2, 200, 300], largest=200).candidates
    assert [size.n for size in sizes] == [2, 200]
    for options in (
        {"candidates": [1]},
        {"candidates": [LARGEST_N + 1]},
        {"candidates": [300], "largest": 200},
        {"largest": 1},
        {"seeds": 0},
        {"noise": -0.1},
        {"cost": lambda n: 0.0},
    ):
        with pytest.raises(kr.KoriskError, match="must"):
            next_size(PILOT, 0.02, **options)


@pytest.mark.parametrize(
    ("sizes", "largest", "expected"),
    [
        ([16, 64], None, [23, 32, 45, 91, 128, 181, 256]),
        ([16, 64], 100, [23, 32, 45, 91, 100]),
        ([16, 64], 64, [23, 32, 45]),
        ([16, 64], 16, []),
        ([16, 64], 10, [10]),
        ([16, 64], 17, [17]),
        ([10, 11], None, [14, 20, 28, 40, 44]),
    ],
)
def test_open_sizes_are_two_per_doubling_up_to_four_times_the_last(
    sizes: list[int], largest: int | None, expected: list[int]
) -> None:
    curve = kr.Curve(sizes, [0.2] * len(sizes))
    assert open_sizes(curve, largest) == expected


def test_no_size_is_open_beyond_the_largest_n() -> None:
    huge = kr.Curve([LARGEST_N // 4, LARGEST_N // 2], [0.2, 0.1])
    assert open_sizes(huge)[-1] == LARGEST_N


@pytest.mark.parametrize(
    ("near", "far", "expected"),
    [(0.4, 0.5, (256, 0.4)), (0.39, 0.5, (512, 0.5)), (0.9, 0.5, (256, 0.9))],
)
def test_twice_the_pilot_settles_it_unless_four_times_does_so_clearly_more_often(
    monkeypatch: pytest.MonkeyPatch, near: float, far: float, expected: tuple[int, float]
) -> None:
    forecast = extrapolate(PILOT)
    odds = chances(forecast, 0.02)
    variance = Outlook.of(forecast, 0.02, odds).seed_variance()

    def settles(self: Outlook, n: int, noise: Any) -> float:
        np.testing.assert_allclose(noise, variance / 3)
        return {256: near, 512: far}[n]

    monkeypatch.setattr(Outlook, "settles", settles)
    assert settling_size(forecast, 0.02, odds, 3) == expected


def test_a_sentence_says_what_a_measurement_narrows() -> None:
    size = NextSize(512, 1, 4.0, 2.0, 1.0, ())
    words = "Measure N = 512 next, with 1 seed: the 90% interval of the answer spans a factor of 4 "
    assert str(size) == f"{words}now and is expected to span 2 then."
    ended = NextSize(512, 3, 4.0, 2.0, 1.0, (), 4096)
    assert "with 3 seeds" in str(ended)
    assert "now (up to N = 4,096; it has no upper end) and" in str(ended)
    for narrowing, none in ((0.0, True), (-0.1, True), (0.01, False)):
        said = str(NextSize(512, 2, 4.0, 4.0, narrowing, ()))
        assert said.endswith("; it is not expected to narrow the answer.") == none


def test_single_seeds_have_the_noise_of_their_walk_and_others_their_own() -> None:
    single = Outlook(extrapolate(PILOT), 0.02, 2048)
    posterior = single.forecast.posterior.heaviest(500)
    noises = np.array([walk.noise.mean() for walk in posterior.walks])[posterior.walk]
    np.testing.assert_allclose(single.seed_variance(), noises)
    np.testing.assert_allclose(single.seed_variance(0.3), 0.09)
    assert len(single.seed_variance(0.0)) == len(posterior.weight) <= 500


def test_a_doubtful_pilot_is_looked_at_up_to_sixteen_times_its_last() -> None:
    rising = extrapolate(kr.Curve([16, 32, 64], [0.1, 0.2, 0.4]))
    odds = SimpleNamespace(
        interval=lambda: (20.0, math.inf), p=np.array([0.1]), smallest=lambda p: 1
    )
    outlook = Outlook.of(rising, 0.05, odds)  # type: ignore[arg-type]
    assert outlook.end == 16 * 64


def test_an_interval_begins_and_ends_with_the_grid() -> None:
    """At its first size the target is met with even odds; its upper end has 95%."""
    forecast = extrapolate(PILOT)
    start = Outlook(forecast, 0.4, 2048).width_now
    posterior = forecast.posterior.heaviest(500)
    upper = np.array([16 * math.exp(start)])
    assert 16.1 < upper[0] < 32
    assert posterior.probability(upper, 0.4)[0] == pytest.approx(0.95, abs=0.01)
    assert posterior.probability(np.array([16.0]), 0.4)[0] == pytest.approx(0.5, abs=0.1)
    # Where no size of the grid has 5%, both ends are its last; where all have 95%, its first.
    assert Outlook(forecast, 1e-6, 2048).width_now == 0
    assert Outlook(forecast, 4.0, 2048).width_now == 0
    # With an upper end beyond the grid, the interval ends with it.
    ended = Outlook(forecast, 0.025, 270).width_now
    lower = np.array([270 * math.exp(-ended)])
    assert posterior.probability(lower, 0.025)[0] == pytest.approx(0.05, abs=0.005)
