"""Every result is a frozen value: how it is made, compared, and shown."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk.planning.answer import Answer
from korisk.planning.chances import Chances
from korisk.planning.extrapolation import Measured
from korisk.planning.factors import Factors
from korisk.planning.futures.law import Law
from korisk.planning.futures.posterior import posterior
from korisk.planning.futures.prior import PRIOR, Kind, Prior
from korisk.planning.futures.related import KINSHIP, Kinship, Relatives, trust
from korisk.planning.limits import Longer

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


@pytest.mark.parametrize("kind", [Kind, Prior, Kinship, Longer, Factors])
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
