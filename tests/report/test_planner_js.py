"""The planner in the page answers as Python's does: to the integer, and to the letter."""

import base64
import dataclasses
import json
import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from browser import chromium, fresh_page
from scipy.special import erfcx, ndtr

import korisk as kr
from korisk.curves import compare as compare_module
from korisk.curves import plan as plan_module
from korisk.curves import posterior as posterior_module
from korisk.curves import target as target_module
from korisk.curves import unit as unit_module
from korisk.curves import words
from korisk.curves.compare import Comparison
from korisk.curves.forecast import Forecast, forecast
from korisk.curves.plan import Plan, plan_from
from korisk.curves.target import other_unit
from korisk.errors import KoriskError
from korisk.report import planner_data as packing
from korisk.report.planner_data import planner_data
from korisk.theory import RiskLine, two_factors

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from playwright.sync_api import Page

SCRIPT = Path(packing.__file__).with_name("page") / "planner.js"
EXAMPLES = Path(__file__).parents[2] / "examples"


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
    return kr.Curve(np.repeat(sizes, seeds), errors.ravel(), labels, model, unit=unit)


RISING = kr.Curve([4, 8, 16, 32] * 2, [1, 0.3, 0.5, 0.44, 1.1, 0.31, 0.52, 0.45], [1] * 4 + [2] * 4)
DOUBLING = [16, 32, 64, 128, 256]
CURVES = {
    "paper": kr.Curve.read(EXAMPLES / "pilot_h8.csv", model="KO"),
    "paper's dense": kr.Curve.read(EXAMPLES / "pilot_h8.csv", model="FC"),
    "one seed": kr.Curve([4, 16, 64, 256], [0.186, 0.138, 0.095, 0.070], model="FC"),
    "many sizes": drawn(list(range(10, 400, 9)), seeds=2),
    "three sizes": drawn([7, 30, 111], noise=0.002),
    "rises": RISING,
    "accuracy": drawn(DOUBLING, unit="accuracy", scale=0.4, model=""),
    "percent": drawn(DOUBLING, unit="percent", scale=30, floor=0, noise=0.1),
    "psnr": drawn(DOUBLING, unit="psnr", scale=0.01),
    "squared": drawn(DOUBLING, unit="squared", rate=0.2),
    "r2": drawn(DOUBLING, unit="r2", scale=1.6),
    "negated": drawn(DOUBLING, unit="negated", scale=40, floor=0.8),
    "flat": drawn(DOUBLING, rate=0.0),
    "steep": drawn([1000, 3000, 9000], rate=2.0, floor=0.0),
    "tiny": drawn(DOUBLING, scale=1e-60),
    "huge": drawn(DOUBLING, scale=1e60, floor=0.0, rate=0.1),
}


@cache
def made(name: str) -> Forecast:
    """A curve's forecast; by some of its grid points, for Python needs a second with all."""
    found = forecast(CURVES[name])
    whole = found.posterior
    if len(whole.weight) > 100:
        some = slice(None, None, len(whole.weight) // 50)
        fields = ("weight", "level", "rate", "floor", "shift", "walk")
        parts = {field: getattr(whole, field)[some] for field in fields}
        parts["weight"] = parts["weight"] / parts["weight"].sum()
        vars(found)["posterior"] = dataclasses.replace(whole, **parts)
    return found


def targets(curve: kr.Curve) -> list[float]:
    """From far too easy to far too hard, and what people type who think in another unit."""
    low, high = float(curve.means.min()), float(curve.means.max())
    errors = [2 * high, 1.05 * high, float(curve.means[1]), math.sqrt(low * high)]
    errors += [low * part for part in (1.001, 0.98, 0.9, 0.75, 0.5, 0.02)]
    asked = [float(value) for value in curve.unit.from_error(errors)]
    return [*asked, 0.0, -3.0, 250.0, 100 * asked[3], asked[3] / 100, 1 - asked[3], 1e120]


def planned(name: str, target: float) -> Plan:
    return plan_from(made(name), target)


@pytest.fixture(scope="module")
def page() -> "Iterator[Page]":
    with chromium() as browser, fresh_page(browser) as opened:
        opened.add_script_tag(content=SCRIPT.read_text("utf-8"))
        data = {name: planner_data(made(name)) for name in CURVES}
        opened.evaluate(
            """data => {
                window.forecasts = {};
                for (const name in data) forecasts[name] = koriskPlanner.open(data[name]);
            }""",
            data,
        )
        yield opened


@cache
def python_answer(name: str, target: float) -> dict[str, Any]:
    try:
        plan = planned(name, target)
    except KoriskError as error:
        return {"refusal": str(error)}
    told = plan.to_dict()
    return {
        "target": plan.target,
        "samples": plan.samples,
        "lower": plan.lower,
        "upper": plan.upper,
        "ifMet": told["if_met"] and list(told["if_met"]),
        "safe": told["safe"],
        "beforeLong": plan.before_long,
        "rounds": told["rounds"],
        "nextRound": plan.next_round,
        "explanation": told["explanation"],
        "goal": pytest.approx(plan.goal, rel=1e-14),
        "reach": pytest.approx(plan.reach, rel=1e-9, abs=1e-12),
        "floor": pytest.approx(plan.floor, rel=1e-9),
    }


@pytest.mark.parametrize("name", CURVES)
def test_plans_are_those_of_python(page: "Page", name: str) -> None:
    asked = targets(CURVES[name])
    answers = page.evaluate(
        """([name, targets]) => targets.map((target) => {
            const refusal = forecasts[name].refusal(target);
            return refusal ? { refusal } : forecasts[name].plan(target);
        })""",
        [name, asked],
    )
    for target, answer in zip(asked, answers, strict=True):
        assert answer == python_answer(name, target), target


def test_the_curves_have_plans_of_every_kind() -> None:
    # Or the test above would say less than it seems to.
    found = [python_answer(name, target) for name in CURVES for target in targets(CURVES[name])]
    texts = " ".join(answer.get("explanation", "") for answer in found)
    for said in (
        "already at the pilot's smallest",
        "within the pilot",
        "With 90% certainty it is between",
        "there is no upper end",
        "knowing the odds",
        "probably does not reach",
        "if it can reach it at all",
        "only its order of magnitude",
        "is not reachable",
        "The pilot runs from",
        "Collect up to",
        "Do not collect it all at once",
        "not monotone",
        "the noise is guessed",
    ):
        assert said in texts, said
    refusals = " ".join(answer.get("refusal", "") for answer in found)
    assert "worse than all that was measured" in refusals
    assert "give the one that you want to reach" in refusals
    assert any(plan_module.again_missed(made("rises"), goal) for goal in (0.4, 0.45))


def test_constants_come_from_python(page: "Page", monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "NEAR": 20,
        "LATER": 3,
        "LEAST_REACH": 0.1,
        "TAIL": 0.08,
        "MIDDLE": 0.45,
        "LEVELS": (0.6, 0.9),
        "ROUND": 3,
    }.items():
        assert value != getattr(plan_module, name)
        monkeypatch.setattr(plan_module, name, value)
    monkeypatch.setattr(target_module, "_EASY", 1.5)
    monkeypatch.setattr(target_module, "_HARD", 0.6)
    monkeypatch.setattr(unit_module, "SMALLEST_ERROR", 1e-3)
    monkeypatch.setattr(target_module, "SMALLEST_ERROR", 1e-3)
    asked = [*targets(CURVES["many sizes"]), 1e-4]
    answers = page.evaluate(
        """([data, targets]) => {
            const forecast = koriskPlanner.open(data);
            return targets.map((target) => {
                const refusal = forecast.refusal(target);
                return refusal ? { refusal } : forecast.plan(target);
            });
        }""",
        [planner_data(made("many sizes")), asked],
    )
    changed = python_answer.__wrapped__
    assert answers == [changed("many sizes", target) for target in asked]
    assert answers != [python_answer("many sizes", target) for target in asked]


@pytest.mark.parametrize("name", ["paper", "one seed", "many sizes", "accuracy", "psnr", "tiny"])
def test_errors_and_chances_at_n_are_those_of_python(page: "Page", name: str) -> None:
    forecasted, curve = made(name), CURVES[name]
    last = forecasted.last
    where = [2, int(curve.sizes[0]), int(0.7 * last), last, 3 * last, forecasted.horizon]
    target = float(curve.unit.from_error(0.9 * curve.means.min()))
    found = page.evaluate(
        """([name, where, target]) => where.map((n) =>
            ({ ...forecasts[name].at(n), p: forecasts[name].probability(n, target) }))""",
        [name, where, target],
    )
    plan = planned(name, target)
    for n, at in zip(where, found, strict=True):
        expected = dataclasses.asdict(plan.at(n)) | {"p": plan.probability(n)}
        # A quantile is found to `_CLOSE` of its logarithm, on either side.
        assert at == pytest.approx(expected, rel=3 * posterior_module._CLOSE), n


def test_n_of_which_nothing_is_known_is_refused_as_by_python(page: "Page") -> None:
    for n in (1, 7.5, made("paper").horizon + 1):
        with pytest.raises(KoriskError) as refused:
            made("paper").at(n)
        said = page.evaluate(
            "n => { try { forecasts.paper.at(n) } catch (error) { return error.message } }", n
        )
        assert said == str(refused.value)


def test_no_number_is_refused_in_a_sentence(page: "Page") -> None:
    said = page.evaluate("['', ' ', 'x', NaN, null].map((t) => forecasts.accuracy.refusal(t))")
    for sentence in said:
        assert sentence.startswith("target must be a finite number, got n")
        assert sentence.endswith("give the accuracy that you want to reach")
    for endless in (math.inf, -math.inf):
        with pytest.raises(KoriskError) as refused:
            kr.plan(CURVES["accuracy"], endless)
        found = page.evaluate("target => forecasts.accuracy.refusal(target)", endless)
        assert found == str(refused.value)
    assert page.evaluate("forecasts.accuracy.refusal(' 0.75 ')") == ""
    assert page.evaluate("forecasts.accuracy.plan('0.75').target") == 0.75


def test_a_refused_target_has_no_plan(page: "Page") -> None:
    said = page.evaluate(
        "(() => { try { forecasts.paper.plan(-1) } catch (e) { return e.message } })()"
    )
    with pytest.raises(KoriskError) as refused:
        planned("paper", -1.0)
    assert said == str(refused.value)


def test_hints_are_those_of_python(page: "Page") -> None:
    asked = [(name, target) for name in CURVES for target in targets(CURVES[name])]
    found = page.evaluate("asked => asked.map(([name, t]) => forecasts[name].hint(t))", asked)
    expected = [other_unit(CURVES[name], target) for name, target in asked]
    assert found == expected
    meant = {meaning.words for meaning in target_module._MEANINGS}
    seen = {words for words in meant if any(f"target {words}?" in hint for hint in expected)}
    assert len(seen) >= 4


# A unit and a target for each of the meanings, in their order.
MEANT = (
    ("error", 7.0),
    ("error", 0.003),
    ("error", 0.93),
    ("error", 93.0),
    ("error", 30.0),
    ("error", 0.3),
    ("error", 0.09),
    ("negated", 9.0),
    ("complement", 0.2),
    ("percent", 3.0),
    ("psnr", 0.02),
)


def test_each_meaning_has_its_conversion(page: "Page") -> None:
    data = planner_data(made("rises"))
    data["constants"] |= {"easy": 0.0, "hard": math.inf}  # everything is questioned
    meanings = target_module._MEANINGS
    for index, (meaning, (law, target)) in enumerate(zip(meanings, MEANT, strict=True)):
        assert law in meaning.laws
        meant = meaning.convert(target)
        error = float(unit_module.UNITS[law].to_error(meant))
        data["unit"]["law"], data["means"] = law, [1.01 * error, error, 0.99 * error]
        for other, listed in enumerate(data["constants"]["meanings"]):
            listed["laws"] = [law] if other == index else []  # this one alone
        hint = page.evaluate("([data, t]) => koriskPlanner.open(data).hint(t)", [data, target])
        assert hint.endswith(f"{meaning.words}? then ask for {meant:.4g}")


def test_two_models_compare_as_in_python(page: "Page") -> None:
    known, dense = "paper", "paper's dense"
    low = float(max(CURVES[known].means.min(), CURVES[dense].means.min()))
    for target in (low, 0.9 * low, 0.05 * low):
        both = Comparison(planned(known, target), planned(dense, target))
        ratio, ends = page.evaluate(
            """([known, dense, target]) => {
                const pair = [known, dense].map((name) => forecasts[name]);
                const plans = pair.map((forecast) => forecast.plan(target));
                return [koriskPlanner.ratio(...plans),
                    koriskPlanner.ratioRange(pair[0], plans[0], pair[1], plans[1])];
            }""",
            [known, dense, target],
        )
        assert ratio == both.ratio
        if both.ratio_range is None:
            assert ends is None
        else:
            assert ends == pytest.approx(both.ratio_range, rel=1e-9)
    assert ratio is None


@pytest.mark.parametrize("goal", [0.5, 0.2, 0.15, 0.1, 0.01, 0.0, -1.5, math.inf])
@pytest.mark.parametrize("slope", [3.0, 0.0])
def test_two_factors_are_those_of_python(page: "Page", goal: float, slope: float) -> None:
    known, dense = {"floor": 0.1, "slope": 0.7}, {"floor": 0.15, "slope": slope}
    found = page.evaluate("lines => koriskPlanner.factors(...lines)", [known, dense, goal])
    assert found == python_factors(known, dense, goal)


def python_factors(
    known: dict[str, float], dense: dict[str, float], goal: float
) -> dict[str, object]:
    try:
        found = two_factors(RiskLine(**known), RiskLine(**dense), goal)
    except KoriskError as error:
        return {"unknown": str(error)}
    budget = found.approximation_budget
    return {"structural": found.structural, "budget": budget, "product": found.product}


def normal(page: "Page", x: "NDArray[np.float64]") -> "NDArray[np.float64]":
    # As a text: Playwright takes its time over long lists.
    script = "x => JSON.stringify(JSON.parse(x).map(koriskPlanner.ndtr))"
    return np.array(json.loads(page.evaluate(script, json.dumps(x.tolist()))))


def test_normal_distribution(page: "Page") -> None:
    x = np.random.default_rng(0).uniform(-37, 8.6, 1500)
    found = normal(page, x)
    near = x > -9
    np.testing.assert_allclose(found[near], ndtr(x[near]), rtol=3e-14)
    # Farther out SciPy's own rounding is 1e-13, but not where the square of x is exact.
    np.testing.assert_allclose(found, ndtr(x), rtol=1e-12)
    exact = np.arange(-37 * 16, -1 * 16) / 16
    found = normal(page, exact)
    reference = 0.5 * erfcx(-exact / math.sqrt(2)) * np.exp(-(exact**2) / 2)
    np.testing.assert_allclose(found, reference, rtol=3e-15)
    ends = page.evaluate("[-Infinity, -1e9, 0, 9, 1e9, Infinity].map(koriskPlanner.ndtr)")
    assert ends == [0, 0, 0.5, 1, 1, 1]
    assert math.isnan(page.evaluate("koriskPlanner.ndtr(NaN)"))


def test_numbers_are_written_as_python_writes_them(page: "Page") -> None:
    rng = np.random.default_rng(1)
    numbers = [*(10 ** rng.uniform(-8, 8, 500)), *(rng.integers(1, 99999, 500) / 8.0)]
    numbers += [*(np.arange(401) / 400), 0.0, 9.9995, 99995.0, 999950.0, 0.000099995, 0.5, 1.5]
    numbers += [9.95, 9.5, 10.5, 99.5, 1e15, 123456789012345.0, 5e-324, 1e100, 10.125, 10.375]
    numbers = [float(number) for number in numbers]
    found = page.evaluate(
        """numbers => JSON.stringify(JSON.parse(numbers).map((x) => [
            koriskPlanner.value(x), koriskPlanner.value(-x), koriskPlanner.chance(x),
            koriskPlanner.times(x), koriskPlanner.count(x)]))""",
        json.dumps(numbers),
    )
    for x, told in zip(numbers, json.loads(found), strict=True):
        expected = [
            words.value(x),
            words.value(-x),
            words.chance(x),
            words.times(x),
            words.count(x),
        ]
        assert told == expected
    ends = page.evaluate("[koriskPlanner.value(Infinity), koriskPlanner.count(Infinity)]")
    assert ends == [words.value(math.inf), words.count(math.inf)]


def test_units_are_those_of_python(page: "Page") -> None:
    values = [-7.5, 0.0, 0.25, 0.9, 33.0]
    for law in unit_module._LAWS:
        found = page.evaluate(
            """([law, values]) => {
                const { toError, fromError } = koriskPlanner.unit(law);
                return [values.map(toError), values.slice(2).map(fromError)];
            }""",
            [law, values],
        )
        known = unit_module.UNITS[law]
        np.testing.assert_allclose(found[0], known.to_error(values), rtol=1e-15)
        np.testing.assert_allclose(found[1], known.from_error(values[2:]), rtol=1e-15)
    decibels = [float(x) for x in np.round(np.random.default_rng(2).uniform(-60, 60, 200), 2)]
    found = page.evaluate("x => x.map(koriskPlanner.unit('psnr').toError)", decibels)
    with localcontext(prec=60):  # to the last bit: a measured value is a target often enough
        assert found == [float(Decimal(10) ** Decimal(-x / 10)) for x in decibels]
    assert "unknown law" in page.evaluate(
        "(() => { try { koriskPlanner.unit('toString') } catch (e) { return e.message } })()"
    )


def test_the_largest_posterior_is_small_and_planned_with(page: "Page") -> None:
    whole = forecast(CURVES["one seed"])
    assert len(whole.posterior.weight) == posterior_module._KEPT
    data = planner_data(whole)
    packed = data["posterior"]
    points = ("weight", "floor", "rate", "shift", "walk")
    assert sum(len(packed[field]) for field in points) <= 67_000
    assert sum(len(walk["inverse"]) for walk in packed["walks"]) <= 6_000
    found = page.evaluate(
        """data => {
            const forecast = koriskPlanner.open(data);
            const level = JSON.stringify(Array.from(forecast.posterior.level));
            return [level, forecast.plan(0.06).samples];
        }""",
        data,
    )
    np.testing.assert_allclose(json.loads(found[0]), whole.posterior.level, rtol=2e-15)
    assert found[1] == plan_from(whole, 0.06).samples


def test_numbers_are_packed_without_loss() -> None:
    found = made("many sizes").posterior
    packed = planner_data(made("many sizes"))["posterior"]
    bytes_of = {field: base64.b64decode(packed[field]) for field in ("weight", "floor", "rate")}
    assert np.array_equal(np.frombuffer(bytes_of["weight"], "<f8"), found.weight)
    assert np.array_equal(np.frombuffer(bytes_of["floor"], "<f8"), found.floor)
    index = np.frombuffer(bytes_of["rate"], "<u2")
    assert np.array_equal(np.array(packed["rates"])[index], found.rate)


def test_only_the_default_method_is_packed() -> None:
    with pytest.raises(KoriskError, match="method must be 'posterior' for a page, got 'line'"):
        planner_data(forecast(CURVES["paper"], method="line"))


def test_the_script_stands_alone() -> None:
    text = SCRIPT.read_text("utf-8")
    for foreign in ("import ", "require(", "eval(", "Function(", "fetch(", "http", "</script"):
        assert foreign not in text
    assert len(compare_module._SHARES) == 100
    assert np.allclose(compare_module._SHARES, (np.arange(100) + 0.5) / 100, rtol=1e-13)
