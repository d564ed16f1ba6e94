"""Choosing lambda: the grid grows until its end is not the answer."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from korisk.errors import KoriskError
from korisk.fitting.ridge.choice import SLACK, Score, choose, choose_from


def valley(at: float) -> Score:
    """Scores that are lowest at 10^at, and far above at the two ends."""

    def score(values: Sequence[float]) -> list[float]:
        return [
            1 + (math.log10(value) - at) ** 2 if 0 < value < math.inf else 1e6 for value in values
        ]

    return score


@given(at=st.floats(-10, 10), scale=st.floats(1e-3, 1e3))
def test_the_choice_is_inside_the_grid_wherever_the_valley_lies(at: float, scale: float) -> None:
    made = choose(valley(at + math.log10(scale)), scale=scale, lowest=1e-2)
    assert not made.at_edge
    finite = [value for value, _ in made.tried if 0 < value < math.inf]
    assert finite[0] < made.value < finite[-1]
    assert abs(math.log10(made.value / scale) - at) <= 0.25 + 1e-6  # half a step


def test_what_a_fit_shrinks_towards_is_chosen_where_nothing_is_better() -> None:
    made = choose(lambda values: [1.0 if math.isinf(v) else 2.0 for v in values], scale=1, lowest=1)
    assert math.isinf(made.value)
    assert not made.at_edge
    assert made.as_json()["lambda"] is None


def test_among_equals_the_largest_is_chosen() -> None:
    made = choose(lambda values: [1.0 for _ in values], scale=1, lowest=1e-2)
    assert math.isinf(made.value)
    almost = choose(
        lambda values: [1 + (SLACK / 2 if v < 1 else 3 * SLACK * (v > 1)) for v in values],
        scale=1,
        lowest=1e-2,
    )
    assert almost.value == pytest.approx(1)


def test_zero_is_an_end_and_not_an_edge() -> None:
    made = choose(
        lambda values: [0.0 if v == 0 else 1.0 for v in values], scale=1, lowest=1e-2, zero=True
    )
    assert made.value == 0
    assert not made.at_edge


def test_scores_that_only_fall_end_at_the_edge_and_say_so() -> None:
    made = choose(
        lambda values: [1 / (1 - math.log10(v)) if v < 1 else 2.0 for v in values],
        scale=1,
        lowest=1e-2,
    )
    assert made.at_edge
    assert made.value < 1e-13


def test_a_lambda_without_a_score_is_never_chosen() -> None:
    made = choose(
        lambda values: [math.nan if v < 1e-1 else float(v != 1) for v in values],
        scale=1,
        lowest=1e-2,
    )
    assert made.value == pytest.approx(1)
    with pytest.raises(KoriskError, match="no lambda gives a finite score"):
        choose(lambda values: [math.nan for _ in values], scale=1, lowest=1e-2)


def test_a_fixed_grid_takes_the_first_of_the_best_and_knows_its_edges() -> None:
    made = choose_from(lambda values: [3.0, 1.0, 1.0, 2.0], [1e-4, 1e-2, 1.0, 1e2])
    assert (made.value, made.at_edge) == (1e-2, False)
    edge = choose_from(lambda values: [-v for v in values], [1e-4, 1e-2, 1e4])
    assert (edge.value, edge.at_edge) == (1e4, True)


def test_a_fixed_grid_passes_over_what_has_no_score() -> None:
    made = choose_from(lambda values: [math.nan, 2.0, 1.0], [1.0, 2.0, 3.0])
    assert made.value == 3.0
    with pytest.raises(KoriskError, match="no lambda gives a finite score"):
        choose_from(lambda values: [math.nan for _ in values], [1.0, 2.0])


def test_the_smallest_lambda_that_has_a_score_is_an_edge() -> None:
    made = choose(
        lambda values: [math.nan if v < 1e-5 else v if v < math.inf else 9.0 for v in values],
        scale=1,
        lowest=1e-2,
    )
    assert made.value < 1e-4
    assert made.at_edge
    beside_zero = choose(
        lambda values: [v if v < math.inf else 9.0 for v in values], scale=1, lowest=1, zero=True
    )
    assert not beside_zero.at_edge


@pytest.mark.parametrize("scale", [0.0, math.nan, math.inf])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(KoriskError, match="are all inputs zero"):
        choose(valley(0), scale=scale, lowest=1e-2)
