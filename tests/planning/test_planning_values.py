"""Every result is a frozen value: how it is made, compared, and shown."""

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk.planning.answer import Answer
from korisk.planning.chances import Chances
from korisk.planning.compare import Crossing, Crossover
from korisk.planning.extrapolation import Measured, extrapolate
from korisk.planning.factors import Factors
from korisk.planning.fit import level_of
from korisk.planning.futures.law import Law
from korisk.planning.futures.posterior import Walk
from korisk.planning.futures.prior import PLAIN, PRIOR, Kind, Prior, prior_of
from korisk.planning.futures.related import KINSHIP, Kinship, Relatives, trust
from korisk.planning.limits import Limit, Longer
from korisk.planning.protocol import Expectation, Recommendation
from korisk.planning.targets import Group

SIZES, MEANS = [16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125]
PILOT = kr.Curve(SIZES, MEANS, model="KO")


@cache
def plan() -> kr.Plan:
    return kr.plan(PILOT, 0.005)


def odds() -> Chances:
    return Chances(np.array([2.0, 4.0]), np.array([0.1, 0.9]))


def law() -> Law:
    return Law(lambda e: np.clip(e, 0, 1), np.zeros(1), np.ones(1))


# Made, with a property that is computed in the same module: these tests run lines of each.
VALUES: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (odds, lambda value: value.at(2)),
    (lambda: Crossover(9, 8.0, 12.0, "KO", True), lambda value: value.explain()),
    (lambda: Crossing(None), lambda value: value.explain()),
    (lambda: kr.Comparison(plan(), plan()), lambda value: value.names),
    (lambda: Measured(PILOT, 0.1), lambda value: value.crossing(0.1)),
    (lambda: extrapolate(PILOT), lambda value: value.last),
    (plan, lambda value: value.met_in_pilot),
    (
        lambda: Factors(name="", known=PILOT, dense=PILOT, factors=(), planned=(), reason=""),
        lambda value: value.top,
    ),
    (law, lambda value: value.quantile(0.5)),
    (lambda: Walk(0.1, 0, np.ones(1), np.eye(1), np.ones(1)), lambda value: value.precision),
    (lambda: plan().forecast.posterior, lambda value: value.roughness),
    (lambda: PLAIN, lambda value: prior_of(PILOT)),
    (lambda: PRIOR, lambda value: prior_of(PILOT)),
    (lambda: KINSHIP, lambda value: trust(0.0, 0.5)),
    (lambda: Limit("data", "It is data."), str),
    (lambda: Longer(n=9, factor=3, errors=[0.1], before=[0.2]), lambda value: value.factor),
    (lambda: Expectation(9, 0.2, 0.1, 0.3), lambda value: level_of(0.9)),
    (
        lambda: Recommendation("stop", None, "Stop.", 0.9, None, None, None),
        lambda value: value.odds,
    ),
    (lambda: Group("pilot", (PILOT,)), lambda value: value.short),
    (lambda: Answer(kr.forecast(PILOT), None, ()), lambda value: value.curve),
]


@pytest.mark.parametrize(("made", "used"), VALUES)
def test_a_result_cannot_be_changed(made: Callable[[], Any], used: Callable[[Any], Any]) -> None:
    value = made()
    used(value)
    name = dataclasses.fields(value)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, name, getattr(value, name))


@pytest.mark.parametrize(
    "value",
    [odds(), law(), Measured(PILOT, 0.1), Answer(kr.forecast(PILOT), None, ())],
    ids=lambda value: type(value).__name__,
)
def test_values_of_arrays_and_functions_are_compared_by_identity(value: Any) -> None:
    assert value != dataclasses.replace(value)
    assert isinstance(hash(value), int)
    assert odds().at(4) == 0.9


@pytest.mark.parametrize("kind", [Kind, Prior, Kinship, Longer, Factors])
def test_long_lists_of_numbers_need_their_names(kind: Any) -> None:
    assert trust(0.0, 0.5) == 0.5
    assert prior_of(PILOT) is PRIOR
    fields = [field.name for field in dataclasses.fields(kind)]
    values = [0.5] * len(fields)
    with pytest.raises(TypeError, match="positional argument"):
        kind(*values)


def test_relatives_are_compared_by_identity() -> None:
    posterior = plan().forecast.posterior
    n, y = np.array(SIZES, float), np.log(MEANS)
    relatives = Relatives(n, y, np.full(5, 1e-4), (posterior,), posterior, KINSHIP)
    assert relatives.last == 256
    assert relatives != dataclasses.replace(relatives)
    assert isinstance(hash(relatives), int)
    with pytest.raises(dataclasses.FrozenInstanceError):
        relatives.n = n  # type: ignore[misc]


def test_a_plan_shows_its_numbers_and_is_compared_by_them() -> None:
    shown = repr(plan())
    names = ["target", "middle", "lower", "upper", "reach"]
    numbers = ", ".join(f"{name}={getattr(plan(), name)!r}" for name in names)
    assert shown == f"Plan({numbers})"
    assert plan().met_in_pilot is False
    assert dataclasses.replace(plan(), chances=odds(), training=PILOT) == plan()
    assert dataclasses.replace(plan(), middle=1) != plan()
