"""Whatever is passed to a public door of planning, it is refused in one line."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk.planning import Longer, limit

N = [16, 32, 64, 128]
PILOT = kr.Curve(N, [0.4, 0.2, 0.1, 0.05], model="KO")
OTHER = kr.Curve(N, [0.8, 0.5, 0.3, 0.2], model="FC")
PLAN = kr.plan(PILOT, 0.03)
RUN: dict[str, Any] = {"n": 16, "factor": 3, "errors": [0.1], "before": [0.2]}

# Of all kinds, and each of them wrong at every door below.
WRONG: tuple[Any, ...] = ([], {}, "x", [0.9], {"a": 1}, object(), np.array([0.9, 0.8]),
    np.array(0.9), float("nan"), {"related": PILOT}, np.array([]), 1 + 2j, set(), kr, PLAN,
)  # fmt: skip
DOORS: dict[str, Callable[[Any], object]] = {
    "plan, curve": lambda x: kr.plan(x, 0.03),
    "plan, target": lambda x: kr.plan(PILOT, x),
    "plan, training": lambda x: kr.plan(PILOT, 0.03, training=x),
    "plan, longer": lambda x: kr.plan(PILOT, 0.03, longer=x),
    "forecast, curve": kr.forecast,
    "forecast, at": lambda x: PLAN.forecast.at(x),
    "forecast, plan": lambda x: PLAN.forecast.plan(x),
    "recommend, sure": lambda x: PLAN.recommend(x),
    "samples, sure": lambda x: PLAN.samples(x),
    "require, sure": lambda x: PLAN.require(x),
    "probability, n": lambda x: PLAN.probability(x),
    "explain, sure": lambda x: PLAN.explain(x),
    "compare, first": lambda x: kr.compare(x, OTHER, 0.2),
    "compare, second": lambda x: kr.compare(PILOT, x, 0.2),
    "compare, target": lambda x: kr.compare(PILOT, OTHER, x),
    "calibrate, curve": kr.calibrate,
    "calibrate, bound": lambda x: kr.calibrate(PILOT, bound=x),
    "limit, curve": limit,
    "limit, target": lambda x: limit(PILOT, x),
    "limit, training": lambda x: limit(PILOT, training=x),
    "limit, longer": lambda x: limit(PILOT, longer=x),
    "Longer, n": lambda x: Longer(**RUN | {"n": x}),
    "Longer, factor": lambda x: Longer(**RUN | {"factor": x}),
    "run_pilot, fit": lambda x: kr.run_pilot(x, [4, 8, 16], 1, quiet=True),
    "run_pilot, sizes": lambda x: kr.run_pilot(lambda n, seed: 1 / n, x, 1, quiet=True),
    "run_pilot, seeds": lambda x: kr.run_pilot(lambda n, seed: 1 / n, [4], x, quiet=True),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_wrong_argument_is_refused_in_one_line(door: str) -> None:
    for value in WRONG:
        with pytest.raises(kr.KoriskError) as refusal:
            DOORS[door](value)
        assert "\n" not in str(refusal.value)
        assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("related", [None, PILOT, 3, [None], ["x"], {"a": 1}, [PLAN], [[PILOT]]])
def test_what_is_no_list_of_curves_is_not_related(related: Any) -> None:
    for door in (lambda: kr.plan(PILOT, 0.03, related=related),
                 lambda: kr.forecast(PILOT, related=related)):  # fmt: skip
        with pytest.raises(kr.KoriskError, match="curve"):
            door()
