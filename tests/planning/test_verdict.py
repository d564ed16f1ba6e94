"""What is said of targets beyond reach: only a pilot that bends shows a floor."""

from dataclasses import replace

import numpy as np
import pytest

import korisk as kr
from korisk.planning import explain as words
from pilots import power_pilot, released_h8

N = [16, 32, 64, 128, 256]
FLOOR = 0.05


def flat(*, seeds: int, noise: float, draw: int, change: float = 0.0) -> kr.Curve:
    """Five sizes whose expected error changes by a factor of exp(change) from end to end."""
    rng = np.random.default_rng(draw)
    means = 0.1 * np.exp(np.linspace(0.0, change, len(N)))
    errors = means[:, None] * np.exp(noise * rng.standard_normal((len(N), seeds)))
    return kr.Curve(np.repeat(N, seeds), errors.ravel(), list(range(seeds)) * len(N), "net")


def test_a_pilot_that_bends_shows_a_floor() -> None:
    curve = power_pilot(floor=FLOOR, rate=1.0, scale=2.0, noise=0.02)
    made = kr.plan(curve, 0.5 * FLOOR)
    assert (made.middle, made.verdict) == (None, "not_reachable")
    assert made.to_dict()["verdict"] == "not_reachable"
    assert "not reachable according to this pilot" in made.explain()


def test_with_one_seed_a_floor_is_not_known() -> None:
    curve = power_pilot(floor=FLOOR, rate=1.0, scale=2.0, noise=0.0, seeds=1)
    made = kr.plan(curve, 0.5 * FLOOR)
    assert (made.middle, made.verdict) == (None, "not_known")
    said = made.explain()
    assert "not reachable" not in said
    for fact in (
        "not known whether the model",
        "single seed",
        words.chance(made.reach),
        "N = 1,024",
    ):
        assert fact in said
    with pytest.raises(kr.errors.UnreachableError, match=r"Measure N = 1,024 next.*below 1%"):
        made.require()


def test_a_straight_pilot_shows_no_floor() -> None:
    curve = power_pilot(floor=0.0, rate=0.1, noise=0.02)
    made = kr.plan(curve, 0.03 * float(curve.means[-1]))
    assert (made.middle, made.verdict) == (None, "not_known")
    said = made.brief()
    assert "shows no floor" in said
    assert words.chance(made.reach) in said


@pytest.mark.parametrize("seeds", [2, 5])
def test_noise_is_rarely_taken_for_a_floor(seeds: int) -> None:
    """Power laws of several rates without a floor; bends of real ones are found."""
    shown = {"straight": 0, "bent": 0}
    for draw in range(40):
        rate = 0.2 + 0.02 * draw
        straight = power_pilot(floor=0.0, rate=rate, seeds=seeds, draw=draw)
        shown["straight"] += not words.no_floor(straight)
        last = float(straight.means[-1])
        shown["bent"] += not words.no_floor(
            power_pilot(floor=last, rate=max(rate, 0.5), seeds=seeds, draw=draw)
        )
    assert shown["straight"] <= 4
    assert shown["bent"] >= 30


@pytest.mark.parametrize(("reach", "verdict"), [(0.5, "reachable"), (0.499, "unlikely")])
def test_a_number_is_called_reachable_or_unlikely(reach: float, verdict: str) -> None:
    made = kr.plan(released_h8("KO"), 0.0022)
    assert made.middle is not None
    made = replace(made, reach=reach)
    assert made.verdict == made.to_dict()["verdict"] == verdict
    assert ("probably does not reach" in made.headline()) == (verdict == "unlikely")


@pytest.mark.parametrize("seeds", [1, 3])
def test_flat_pilots_end_in_no_number(seeds: int) -> None:
    """Within two standard errors: 95% of them; the others rise or fall."""
    called = 0
    for draw in range(20):
        made = kr.plan(flat(seeds=seeds, noise=0.02, draw=draw), 0.08)
        said = made.explain()
        if "shows no learning" in said:
            called += 1
            assert (made.middle, made.verdict) == (None, "not_known")
            assert all(fact in said for fact in ("training", "leak", "unit="))
            assert words.chance(made.reach) in said
    assert called >= 17


def test_a_flat_pilot_still_answers_what_it_measured() -> None:
    made = kr.plan(flat(seeds=3, noise=0.01, draw=0), 0.15)
    assert (made.middle, made.verdict) == (16, "reachable")


@pytest.mark.parametrize("change", [0.07, 0.215])  # 0.215: 24%
def test_rising_pilots_are_not_extrapolated(change: float) -> None:
    for seeds, noise in ((1, 0.0), (3, 0.01)):
        made = kr.plan(flat(seeds=seeds, noise=noise, draw=0, change=change), 0.09)
        assert (made.middle, made.verdict) == (None, "not_known")
        assert "gets worse" in made.doubt
        assert all(fact in made.explain() for fact in ("training", "unit="))


@pytest.mark.parametrize(
    "errors",
    [
        [0.5, 0.3, 0.29, 0.3, 0.29],  # it fell, and is flat at its end
        [0.3, 0.3, 0.3, 0.3, 0.2],  # it falls late
        [0.5, 0.3, 0.2, 0.4, 0.45],  # double descent
    ],
)
def test_pilots_that_learn_somewhere_are_not_flat(errors: list[float]) -> None:
    assert not words.no_learning(kr.Curve(N, errors))


def test_a_fall_at_small_noise_is_learning_whatever_the_first_size_scatters() -> None:
    scatter = np.array([0.4, 0.05, 0.02, 0.01, 0.01])[:, None] * np.array([-1.0, 0.0, 1.0])
    means = np.array([0.3, 0.29, 0.25, 0.22, 0.2])[:, None]
    curve = kr.Curve(np.repeat(N, 3), (means * (1 + scatter)).ravel(), [1, 2, 3] * 5)
    assert not words.no_learning(curve)


def test_several_targets_at_once_are_refused_with_a_remedy() -> None:
    curve = power_pilot()
    for targets in ([0.04, 0.03], (0.04, 0.03), np.array([0.04, 0.03])):
        with pytest.raises(kr.KoriskError, match="one target at a time"):
            kr.plan(curve, targets)  # type: ignore[arg-type]
