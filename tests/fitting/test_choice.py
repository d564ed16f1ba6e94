"""Choosing lambda: the grid grows until its end is not the answer."""

import math
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from korisk.errors import KoriskError
from korisk.fitting.ridge import choice
from korisk.fitting.ridge.choice import SLACK, Choice, Score

choose = partial(choice.choose, grid=None, scale=1, lowest=1e-2)


def each(score: Callable[[float], float]) -> Score:
    return lambda values: [score(value) for value in values]


@given(at=st.floats(-10, 10), scale=st.floats(1e-3, 1e3))
def test_the_choice_is_inside_the_grid_wherever_the_valley_lies(at: float, scale: float) -> None:
    lowest = at + math.log10(scale)
    valley = each(lambda v: 1 + (math.log10(v) - lowest) ** 2 if 0 < v < math.inf else 1e6)
    made = choose(valley, scale=scale)
    assert not made.at_edge
    finite = [value for value, _ in made.tried if 0 < value < math.inf]
    assert finite[0] < made.value < finite[-1]
    assert abs(math.log10(made.value / scale) - at) <= 0.25 + 2e-3  # half a step, and SLACK


@pytest.mark.parametrize(
    ("score", "value", "at_edge"),
    [
        (lambda v: 1.0 if math.isinf(v) else 2.0, math.inf, False),  # what a fit shrinks towards
        (lambda v: 1.0, math.inf, False),  # the largest of equals
        (lambda v: 1 + (SLACK / 2 if v < 1 else 3 * SLACK * (v > 1)), 1.0, False),
        (lambda v: math.nan if v < 1e-1 else float(v != 1), 1.0, False),  # nan is never chosen
        (lambda v: 1 / (1 - math.log10(v)) if v < 1 else 2.0, 1e-14, True),  # it only falls
        (lambda v: math.nan if v < 1e-5 else v if v < math.inf else 9.0, 1e-5, True),
    ],
)
def test_what_is_chosen(score: Callable[[float], float], value: float, at_edge: bool) -> None:
    made = choose(each(score))
    assert made.value == value or 0.99 <= made.value / value < 4  # a step of the grid
    assert made.at_edge is at_edge


@pytest.mark.parametrize("score", [lambda v: float(v > 0), lambda v: v if v < math.inf else 9.0])
def test_zero_is_an_end_and_not_an_edge(score: Callable[[float], float]) -> None:
    made = choose(each(score), zero=True)
    assert (made.value, made.at_edge) == (0, False)


def test_a_fixed_grid_takes_the_first_of_the_best_that_has_a_score_and_knows_its_edges() -> None:
    def fixed(*scores: float) -> Choice:
        return choose(lambda values: scores, grid=[1e-4, 1e-2, 1.0, 1e2])

    for scores, value, at_edge in (
        ((3.0, 1.0, 1.0, 2.0), 1e-2, False),
        ((4.0, 3.0, 2.0, 1.0), 1e2, True),
        ((math.nan, 2.0, 1.0, math.nan), 1.0, False),
    ):
        made = fixed(*scores)
        assert (made.value, made.at_edge) == (value, at_edge)


def test_what_cannot_be_chosen_from_is_refused() -> None:
    for grid in (None, [1.0, 2.0]):
        with pytest.raises(KoriskError, match="no lambda gives a finite score"):
            choose(each(lambda v: math.nan), grid=grid)
    for scale in (0.0, math.nan, math.inf):
        with pytest.raises(KoriskError, match="are all inputs zero"):
            choose(each(lambda v: v), scale=scale)
