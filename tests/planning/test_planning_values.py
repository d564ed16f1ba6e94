"""Every result is a frozen value: how it is made, compared, and shown, with which defaults."""

import dataclasses
import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk.planning.answer import Answer
from korisk.planning.chances import Chances
from korisk.planning.extrapolation import Measured
from korisk.planning.forecast import Forecast
from korisk.planning.futures.law import Law
from korisk.planning.futures.posterior import posterior
from korisk.planning.futures.prior import PRIOR, Kind, Prior
from korisk.planning.futures.related import KINSHIP, Kinship, Relatives, trust
from korisk.planning.limits import Longer
from korisk.planning.plan import Plan
from korisk.planning.protocol import Answers, Planned, Recommendation

SIZES, MEANS = [16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125]
PILOT = kr.Curve(SIZES, MEANS, model="KO")


@cache
def plan() -> kr.Plan:
    return kr.plan(PILOT, 0.005)


def odds() -> Chances:
    return Chances(np.array([2.0, 4.0]), np.array([0.1, 0.9]))


def law() -> Law:
    return Law(lambda e: np.clip(e, 0, 1), np.zeros(1), np.ones(1))


@pytest.mark.parametrize(
    "value",
    [odds(), law(), Measured(PILOT, 0.1), Answer(kr.forecast(PILOT), None, ())],
    ids=lambda value: type(value).__name__,
)
def test_values_of_arrays_and_functions_are_compared_by_identity(value: Any) -> None:
    assert value != dataclasses.replace(value)
    assert isinstance(hash(value), int)
    assert odds().at(4) == 0.9


@pytest.mark.parametrize("kind", [Kind, Prior, Kinship, Longer])
def test_long_lists_of_numbers_need_their_names(kind: Any) -> None:
    assert trust(0.0, 0.5) == 0.5
    assert posterior(PILOT).prior is PRIOR
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


# Modules are imported inside the test, so that what runs on import belongs to it.


@pytest.mark.parametrize("package", ["korisk.theory", "korisk.curves", "korisk.planning"])
def test_every_dataclass_is_frozen(package: str) -> None:
    root = importlib.import_module(package)
    count = 0
    for info in pkgutil.walk_packages(root.__path__, f"{package}."):
        module = importlib.import_module(info.name)
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == info.name and "__dataclass_params__" in vars(kind):
                count += 1
                assert vars(kind)["__dataclass_params__"].frozen, f"{info.name}.{name}"
    assert count > 3


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
    for level in (0.5, 0.99):
        assert plan().samples(level) == plan().chances.smallest(level)
    for level in (math.nextafter(0.5, 0), math.nextafter(0.99, 1)):
        with pytest.raises(kr.KoriskError, match="sure must be"):
            plan().samples(level)
