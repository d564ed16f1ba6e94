"""Overloads and protocols promise the defaults that the methods have, and fields have theirs."""

import dataclasses
import inspect
import math
from collections.abc import Callable

import pytest

import korisk as kr
from korisk.planning.forecast import Forecast
from korisk.planning.plan import Plan
from korisk.planning.protocol import Answers, Planned, Recommendation


def defaults(function: Callable[..., object]) -> dict[str, object]:
    """The default of every parameter that has one."""
    parameters = inspect.signature(function).parameters.values()
    return {item.name: item.default for item in parameters if item.default is not item.empty}


def test_plans_keep_the_defaults_that_the_protocol_promises() -> None:
    for name in ("samples", "probability"):
        assert defaults(getattr(Planned, name)) == defaults(getattr(Plan, name))
    assert defaults(Planned.recommend) == defaults(Plan.recommend)
    assert defaults(Answers.recommend) == defaults(Forecast.recommend) == defaults(Plan.recommend)
    assert defaults(Plan.samples) == {"sure": 0.9}
    assert defaults(Answers.samples) == {"sure": 0.9}
    assert defaults(Plan.recommend) == {"sure": 0.9, "cost": None}
    for method in (Plan.require, Plan.explain):
        assert defaults(method)["sure"] == 0.9
    assert defaults(Plan.enough) == defaults(Plan.if_reached) == {"p": 0.9}


def advice(
    even: int | None = None, lower: int | None = None, upper: int | None = None
) -> Recommendation:
    return Recommendation("stop", None, "Stop.", 0.9, even=even, lower=lower, upper=upper)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, ""),
        ({"even": 1200}, "Even odds at 1,200."),
        (
            {"even": 1200, "lower": 600},
            "Even odds at 1,200; it takes at least 600 samples (95% sure).",
        ),
        ({"lower": 600}, "It takes at least 600 samples (95% sure)."),
        ({"lower": 600, "upper": 2400}, "90% interval 600 to 2,400."),
        (
            {"even": 1200, "lower": 600, "upper": 2400},
            "Even odds at 1,200; 90% interval 600 to 2,400.",
        ),
    ],
)
def test_the_odds_of_an_advice_are_a_sentence(values: dict[str, int], sentence: str) -> None:
    assert advice(**values).odds == sentence


def test_an_advice_is_its_sentence_and_explains_itself_by_its_reasons() -> None:
    stop = dataclasses.replace(advice(), reasons=("It is flat.", "More data do not help."))
    assert str(stop) == "Stop."
    assert stop.explain() == "Stop. It is flat. More data do not help."
    content = stop.to_dict()
    assert content["reasons"] == ["It is flat.", "More data do not help."]
    assert content["limit"] is None
    assert advice().to_dict()["chance"] is None


def test_levels_run_from_even_odds_to_99_percent() -> None:
    plan = kr.plan(kr.Curve([16, 32, 64], [0.2, 0.1, 0.05]), 0.02)
    for level in (0.5, 0.99):
        assert plan.samples(level) == plan.chances.smallest(level)
    for level in (math.nextafter(0.5, 0), math.nextafter(0.99, 1)):
        with pytest.raises(kr.KoriskError, match="sure must be"):
            plan.samples(level)
