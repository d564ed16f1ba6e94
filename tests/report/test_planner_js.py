"""The page's table answers as Python's planner does, and shows no number without its odds."""

import json
import math
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from browser import chromium, fresh_page

import korisk as kr
from korisk.curves.unit import UNITS
from korisk.planning import words
from korisk.planning.plan import Forecast, Plan, forecast
from korisk.planning.tables import sample_cells
from korisk.planning.targets import plans_over_targets
from korisk.report.page import planner as tables
from korisk.report.page.planner import LEVELS, TEMPLATES, planner_data

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCRIPT = Path(tables.__file__).with_name("assets") / "table.js"
ROOT = Path(__file__).parents[2]
COLLAPSE = ROOT / "benchmarks" / "data" / "collapse_h8.csv"
DOUBLING = [16, 32, 64, 128, 256]


def drawn(
    sizes: list[int],
    *,
    floor: float = 0.3,
    rate: float = 0.5,
    scale: float = 0.1,
    seeds: int = 4,
    noise: float = 0.03,
    unit: str = "error",
    model: str = "net",
) -> kr.Curve:
    rng = np.random.default_rng(7)
    n = np.array(sizes, float)
    means = scale * (floor + (1 - floor) * (n / n[0]) ** -rate)
    errors = means[:, None] * np.exp(noise * rng.standard_normal((len(n), seeds)))
    labels = [str(seed) for seed in range(seeds)] * len(n)
    return kr.Curve.of_errors(np.repeat(sizes, seeds), errors.ravel(), labels, model, unit=unit)


STEP = [1, 1, 1, 1, 0.01, 0.009, 0.008, 0.007, 0.006]
CURVES = {
    "clean": kr.Curve(DOUBLING, [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO"),
    "noisy": drawn([8, 32, 128, 512], floor=0.0, noise=0.15),
    "floor": drawn(DOUBLING, floor=0.4),
    "flat": drawn(DOUBLING, rate=0.0),
    "step": kr.Curve([2**k for k in range(2, 11)], STEP, model="net"),
    "psnr": drawn(DOUBLING, unit="psnr", scale=0.01),
    "accuracy": drawn(DOUBLING, unit="accuracy", scale=0.4, model=""),
    "percent": drawn(DOUBLING, unit="percent", scale=30, floor=0, noise=0.1),
    "rmse": drawn(DOUBLING, unit="rmse", rate=0.2),
    "many sizes": drawn(list(range(10, 400, 9)), seeds=2),
}
if COLLAPSE.is_file():
    CURVES |= {f"collapse {name}": kr.Curve.read(COLLAPSE, model=name) for name in ("KO", "FC")}

LEVELS_SHOWN = (0.8, 0.9, 0.95)
ROUND = ("clean", "noisy", "floor", "psnr", "accuracy", "percent", "rmse")
# Each is like one of the others.
LATER = {"accuracy", "percent", "rmse", "many sizes", "collapse KO", "collapse FC"}


def some(names: Iterable[str]) -> list[ParameterSet]:
    return [pytest.param(name, marks=[pytest.mark.slow] if name in LATER else []) for name in names]


@cache
def made(name: str) -> Forecast:
    return forecast(CURVES[name])


@cache
def packed(name: str) -> dict[str, Any]:
    return planner_data(made(name), *plans_over_targets(made(name)))


@cache
def planned(name: str, target: float) -> Plan:
    return Plan(made(name), target)


def some_stops(name: str) -> list[float]:
    data = packed(name)
    return [data["targets"][at] for at in data["stops"][::8]]


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def page(browser: "Browser") -> "Iterator[Page]":
    with fresh_page(browser) as opened:
        opened.add_script_tag(content=SCRIPT.read_text("utf-8"))
        yield opened


def with_table(page: "Page", name: str) -> "Page":
    """The page with the answers for one pilot, which take a second to compute."""
    script = """([at, data, templates]) => {
        (window.tables ??= {})[at] ??= new koriskTable.Table(data, templates);
    }"""
    page.evaluate(script, [name, packed(name), TEMPLATES])
    return page


def asked(page: "Page", name: str, targets: list[float], sure: float = 0.9) -> list[dict[str, Any]]:
    script = """([name, targets, sure, levels]) => targets.map((target) => {
        const table = tables[name];
        const plan = table.plan(target, sure);
        const shown = [...new Set([...levels, sure])].sort();
        const cells = table.cells(plan, shown);
        return { ...plan, odds: table.odds(plan), record: table.held(plan), cells };
    })"""
    given = [name, targets, sure, list(LEVELS_SHOWN)]
    found: list[dict[str, Any]] = with_table(page, name).evaluate(script, given)
    return found


@pytest.mark.parametrize("sure", [0.5, 0.75, 0.9, 0.99])
@pytest.mark.parametrize("name", some(CURVES))
def test_where_the_slider_stops_the_page_answers_as_python(
    page: "Page", name: str, sure: float
) -> None:
    targets = some_stops(name)
    for found, target in zip(asked(page, name, targets, sure), targets, strict=True):
        plan = planned(name, target)
        advice = plan.recommend(sure)
        assert found["doubt"] == plan.doubt, target
        assert found["samples"] == {f"{p:g}": plan.samples(p) for p in LEVELS}
        assert (found["n"], found["even"]) == (plan.samples(sure), advice.even)
        assert (found["lower"], found["upper"]) == (advice.lower, advice.upper)
        assert found["reach"] == pytest.approx(advice.reach, abs=5e-4)
        assert (found["odds"], found["record"]) == (advice.odds, advice.record)
        assert found["cells"] == sample_cells(plan, sorted({sure, *LEVELS_SHOWN}))
        for key in ("action", "n", "sentence"):
            assert found["advice"][key] == getattr(advice, key)
        assert found["advice"]["reasons"] == list(advice.reasons)


@pytest.mark.parametrize("name", some(CURVES))
def test_the_chance_at_any_n_is_that_of_python(page: "Page", name: str) -> None:
    last, horizon = made(name).last, made(name).horizon
    first = int(CURVES[name].sizes[0])
    where = [first, first + 1, int(0.6 * last), last - 1, last, 3 * last, 40 * last, horizon]
    where = [n for n in where if n <= horizon]
    with_table(page, name)
    for target in some_stops(name):
        plan = planned(name, target)
        if plan.doubt:
            continue
        script = "([name, where, target]) => where.map((n) => tables[name].probability(n, target))"
        found = page.evaluate(script, [name, where, target])
        assert found == pytest.approx([plan.probability(n) for n in where], abs=0.02), target


@pytest.mark.parametrize("name", some(ROUND))
def test_between_the_stops_answers_are_interpolated(page: "Page", name: str) -> None:
    curve, stops = CURVES[name], [packed(name)["targets"][at] for at in packed(name)["stops"]]
    errors = curve.unit.to_error(stops)
    between = curve.unit.from_error(np.sqrt(errors[:-1] * errors[1:])[::4]).tolist()
    found = asked(page, name, between)
    assert len([n for n in found if n["even"] and n["even"] > made(name).last + 1]) >= 3
    for answer in found:
        plan = planned(name, answer["target"])
        assert (answer["even"] is None) == (plan.even is None)
        assert abs((answer["even"] or 0) - (plan.even or 0)) <= max(1, 0.08 * (plan.even or 0))
        assert answer["interpolated"] is not None


@pytest.mark.parametrize("name", some(CURVES))
def test_a_mean_that_is_typed_as_the_target_is_inside_the_pilot(page: "Page", name: str) -> None:
    curve = CURVES[name]
    last = float(curve.unit.from_error(curve.means[-1]))
    (found,) = asked(page, name, [last])
    plan = planned(name, last)
    assert (found["even"], found["doubt"]) == (plan.even, plan.doubt)


def test_a_target_off_the_table_is_refused_in_words(page: "Page") -> None:
    for name in ("clean", "accuracy"):
        targets = packed(name)["targets"]
        unit = CURVES[name].unit
        with_table(page, name)
        off = [unit.from_error(unit.to_error(targets[0]) * 2), unit.from_error(1e-9)]
        for target in (*map(float, off), math.nan, 1e999):
            said = page.evaluate("([name, t]) => tables[name].refusal(t)", [name, target])
            assert words.value(targets[0]) in said
            assert "korisk plan" in said
        inside = "([name, t]) => tables[name].refusal(t)"
        assert page.evaluate(inside, [name, targets[5]]) == ""


@pytest.mark.parametrize("name", some(CURVES))
def test_the_answers_take_little_room(name: str) -> None:
    assert len(json.dumps(packed(name), separators=(",", ":"))) <= 80_000
    assert 60 <= len(packed(name)["stops"]) <= 160


@pytest.mark.parametrize("name", some(ROUND))
def test_round_targets_that_people_type_are_exact(name: str) -> None:
    """Of errors, their roots and scores: all that lie within the range of the table."""
    digits = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    targets, unit = packed(name)["targets"], CURVES[name].unit
    typed = [float(f"{digit}e{power}") for power in range(-6, 1) for digit in digits]
    if name in ("psnr", "percent"):
        typed = [float(whole) for whole in range(1, 100)]
    elif name == "accuracy":
        typed = [float(f"{whole / 100:.2f}") for whole in range(1, 100)]
    ends = sorted(unit.to_error([targets[0], targets[-1]]))
    inside = [each for each in typed if ends[0] <= unit.to_error(each) <= ends[1]]
    assert len(inside) >= 5
    assert set(inside) <= set(targets)


def test_the_first_target_is_answered_exactly_however_hard(
    page: "Page", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("korisk.planning.targets.STOPS", 20)
    data = planner_data(made("clean"), *plans_over_targets(made("clean"), [1.2345678e-5]))
    script = "([data, t, templates]) => new koriskTable.Table(data, templates).plan(t)"
    found = page.evaluate(script, [data, 1.2345678e-5, TEMPLATES])
    assert found["even"] == planned("clean", 1.2345678e-5).even


def test_numbers_are_written_as_python_writes_them(page: "Page") -> None:
    rng = np.random.default_rng(1)
    numbers = [
        *(10 ** rng.uniform(-8, 8, 300)).tolist(),
        3.25,
        3.75,
        0.125,
        3.45,
        1.0,
        12.0,
        99999.0,
        0.0001,
    ]
    script = """(numbers) => numbers.map((x) => [koriskTable.value(x), koriskTable.value(-x),
        koriskTable.chance(x), koriskTable.times(x), koriskTable.count(x)])"""
    for x, told in zip(numbers, page.evaluate(script, numbers), strict=True):
        expected = [words.value(x), words.value(-x), words.chance(min(x, 1.0)), words.times(x)]
        assert told == [*expected, words.count(x)], x
    assert page.evaluate("koriskTable.count(null)") == words.count(math.inf)


def test_units_are_those_of_python(page: "Page") -> None:
    values = [0.25, 0.9, 33.0]
    for law in {unit.law for unit in UNITS.values()}:
        script = """([law, values]) => {
            const { toError, fromError } = koriskTable.LAWS[law];
            return [values.map(toError), values.map(fromError)];
        }"""
        to_error, from_error = page.evaluate(script, [law, values])
        np.testing.assert_allclose(to_error, UNITS[law].to_error(values), rtol=1e-14)
        np.testing.assert_allclose(from_error, UNITS[law].from_error(values), rtol=1e-14)


def test_the_script_stands_alone() -> None:
    text = SCRIPT.read_text("utf-8")
    for foreign in ("import ", "require(", "eval(", "Function(", "fetch(", "http", "</script"):
        assert foreign not in text
