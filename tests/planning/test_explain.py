"""What is said of a plan: its numbers with their odds, its conditions, its remedies."""

import re

import numpy as np
import pytest

import korisk as kr
from korisk.planning import explain as words
from pilots import released_h8

STEP_N = [4, 8, 16, 32, 64, 128, 256, 512, 1024]
STEP = kr.Curve(STEP_N, [1.0] * 4 + [0.01] * 5, model="step")


def percentages(text: str) -> set[str]:
    return set(re.findall(r"(?:above |below )?\d+%", text))


def test_a_target_met_at_once_asks_for_a_harder_one() -> None:
    made = kr.plan(released_h8("KO"), 0.02)
    said = made.explain()
    for fact in ("already at the pilot's smallest N = 4 (chance above 99%)", "harder", "smaller N"):
        assert fact in said
    assert "are enough" not in said  # 4 are, as was said


@pytest.mark.parametrize("target", [0.02, 0.006, 0.003, 0.0022, 0.0015, 0.001, 0.0001])
@pytest.mark.parametrize("model", ["KO", "FC"])
def test_every_percentage_is_one_of_the_plans(model: str, target: float) -> None:
    made = kr.plan(released_h8(model), target)
    odds = [made.reach, made.probability(made.near_horizon), 0.9, 0.95]
    odds += [p for p in (made.chance, made.recommend().chance) if p is not None]
    assert percentages(made.explain()) <= {words.chance(p) for p in odds}


def test_a_step_has_no_number_beyond_and_one_inside() -> None:
    beyond = kr.plan(STEP, 0.005)
    said = beyond.explain()
    assert beyond.doubt in said
    assert beyond.recommend().action == "unknown"
    assert f"To find out, {beyond.limit.next_run}." in said
    assert "N = 1,024" in beyond.limit.next_run  # its last decade is flat: training may limit it
    assert "chance" not in said
    assert "are enough" not in said
    inside = kr.plan(STEP, 0.5)
    assert inside.middle is not None
    assert 32 < inside.middle <= 64
    said = inside.explain()
    assert f"between N = 32 and 64, at about {inside.middle}" in said
    assert "cannot be extrapolated" not in said


def test_below_rounding_an_easier_target_is_the_remedy() -> None:
    curve = kr.Curve([4, 8, 16, 32, 64], [1.0, 0.5, 0.3, 1e-19, 1e-20])
    for target in (1e-18, 1e-21):
        said = kr.plan(curve, target).explain()
        assert all(fact in said for fact in ("below rounding", "easier target"))
        assert "measure" not in said
        assert "are enough" not in kr.plan(curve, target).enough()


N = np.array([4, 8, 16, 32, 64, 128, 256, 512, 1024])
ALIKE = kr.Curve(N, 0.05 * N**-0.5 + 0.001, model="simulated")
OTHER = kr.Curve(N, [1.0, 0.99, 0.97, 0.9, 0.5, 0.1, 0.05, 0.04, 0.039], model="misleading")
PILOT = kr.Curve(N[1:5], 1.4 * ALIKE.means[1:5] * [1.01, 0.99, 1.0, 1.01], model="KO")


def test_related_curves_may_take_a_hope_away() -> None:
    """By itself the pilot is a power law; its relative levels off."""
    made = kr.plan(PILOT, 0.0012, related=[ALIKE])
    assert made.middle is None
    assert made.alone.middle is not None
    odds = words.chance(made.alone.chance)
    without = f"without them the answer would be about {made.alone.middle:,} (chance {odds})"
    assert without in made.explain()


def test_curves_that_step_or_disagree_are_said_to() -> None:
    said = kr.plan(PILOT, 0.006, related=[OTHER]).explain()
    assert '("misleading") cannot be extrapolated and are not used' in said
    sizes, errors = np.repeat(N[:6], 5), np.repeat(0.2 * N[:6] ** -0.9, 5)
    sure = kr.Curve(sizes, errors * np.tile([0.99, 1.0, 1.01, 1.0, 1.0], 6), [1, 2, 3, 4, 5] * 6)
    flat = kr.Curve(N, 1.0 - 0.02 * np.log(N), model="flat")
    made = kr.plan(sure, 0.5 * float(sure.means[-1]), related=[flat])
    assert '("flat") disagree with the pilot (trust below 1%)' in made.explain()
    assert made.middle == made.alone.middle


def test_related_curves_change_nothing_inside_the_pilot_and_remove_no_doubt() -> None:
    said = kr.plan(PILOT, 0.013, related=(ALIKE, OTHER)).explain()
    assert all(fact in said for fact in ("not change the answer", '("simulated", "misleading")'))
    said = kr.plan(STEP, 0.005, related=[ALIKE]).explain()
    assert "cannot be extrapolated" in said
    assert 'Related curves ("simulated") are not used.' in said
