"""One set of definitions: table, words, JSON, figure and page say the same of the same plans."""

import json
from collections.abc import Iterator
from html import unescape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from artists import written
from browser import chromium, fresh_page, slide
from commands import korisk

import korisk as kr
from korisk.planning.explain import count, times
from korisk.planning.plan import LEVELS
from korisk.report.figures.pilot import comparison_figure
from korisk.report.headline import headline, held, interval, record
from korisk.report.page.page import pilot_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.usefixtures("bands_once", "bare_pages")

ROOT = Path(__file__).parents[2]
ASKED = (  # file, model, target: beyond the pilot, in doubt, inside it, out of reach, no 90%
    ("examples/pilot_h8.csv", "FC", 0.003),
    ("benchmarks/data/collapse_h8.csv", "FC", 0.003),
    ("examples/pilot_h8.csv", "KO", 0.003),
    ("examples/pilot_h8.csv", "KO", 0.0004),
    ("examples/pilot_h8.csv", "FC", 0.0015),
)


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(("file", "model", "target"), ASKED)
def test_every_place_says_the_same(
    file: str, model: str, target: float, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = kr.plan(kr.Curve.read(ROOT / file, model=model), target)
    advice, words = plan.recommend(), plan.explain()
    command = ("plan", ROOT / file, "--model", model, "--target", target)
    code = korisk(*command)
    printed = one_line(capsys.readouterr().out)
    assert korisk(*command, "--json") == code
    (told,) = json.loads(capsys.readouterr().out)["plans"]
    # JSON is the plan's own.
    assert (told["middle"], told["chance"]) == (plan.middle, plan.chance)
    assert told["samples"] == {f"{p:g}": plan.samples(p) for p in (0.5, *LEVELS)}
    assert told["recommendation"] == advice.to_dict()
    # The advice comes first, word for word; the page has it in one line.
    for place in (printed, words):
        assert place.startswith(advice.sentence)
    page = unescape(pilot_page([plan.curve], title="pilot", target=target))
    assert f">{headline(advice, plan)}</h1>" in page
    if advice.action == "collect":
        assert f"({advice.sure:.0%} sure)" in advice.sentence
        for place in (advice.sentence, headline(advice, plan), printed):
            assert count(advice.n or 0) in place
    if advice.even is not None:
        assert count(advice.even) in printed
    reached = plan.if_reached(0.9)
    if plan.samples(0.9) is None and reached is not None and reached != plan.middle:
        for place in (printed, words):  # never without its condition
            assert (
                f"{count(reached)} samples" not in place
                or "if it is reached" in place
                or (f"by N = {count(plan.near_horizon)}" in place)
            )


def test_the_track_record_is_that_of_the_stored_benchmark() -> None:
    assert held() == import_module("benchmarks.planner.odds").held()
    sets = held()["sets"].values()
    assert f"{sum(result['pilots'] for result in sets)} learning curves" in record()
    for result in sets:
        assert f"{result['enough']:.0%} of" in record()


UNITS = ("error", "rmse", "psnr", "accuracy", "percent")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with chromium() as started:
        yield started


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("seed", [1, 2])
def test_one_recommendation_in_every_unit(
    unit: str,
    seed: int,
    browser: "Browser",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A law over random pilots: Python, JSON, words, table and page give the same numbers."""
    monkeypatch.undo()  # of the bare pages: here all is asked
    monkeypatch.setattr("korisk.planning.targets.STOPS", 6)
    monkeypatch.setattr("korisk.planning.targets._FEWER", (1,))
    monkeypatch.setattr("korisk.planning.targets._ROUND", (1, 3))
    rng = np.random.default_rng(seed)
    n, scale = np.array([8, 16, 32, 64, 128]), {"percent": 40.0, "accuracy": 0.4}.get(unit, 0.05)
    means = scale * (rng.uniform(0, 0.2) + (n / 8.0) ** -rng.uniform(0.3, 0.9))
    errors = means[:, None] * np.exp(rng.uniform(0.01, 0.08) * rng.standard_normal((5, 3)))
    made = kr.Curve(np.repeat(n, 3), errors.ravel() / 1.3, ["1", "2", "3"] * 5, "net", unit=unit)
    file, html = tmp_path / "pilot.csv", tmp_path / "page.html"
    rows = [f"{each['n']},{each['error']!r},{each['seed']},net" for each in made.records()]
    file.write_text("\n".join(["n,error,seed,model", *rows]) + "\n")
    curve = kr.Curve.read(file, unit=unit)
    html.write_text(pilot_page([curve], title="pilot"), encoding="utf-8")
    actions = set()
    with fresh_page(browser) as page:
        page.goto(html.as_uri())
        for position in range(0, int(page.get_attribute("#slider", "max") or 0) + 1, 4):
            slide(page, position)
            target = page.input_value("#target")
            plan = kr.plan(curve, float(target))
            advice = plan.recommend()
            actions.add(advice.action)
            command = ("plan", file, "--unit", unit, f"--target={target}")
            korisk(*command, "--json")
            (told,) = json.loads(capsys.readouterr().out)["plans"]
            korisk(*command)
            printed = one_line(capsys.readouterr().out)
            assert told["recommendation"] == advice.to_dict()
            assert printed.startswith(advice.sentence)
            assert plan.explain().startswith(advice.sentence)
            assert page.inner_text("#headline") == headline(advice, plan)
            assert interval(advice, plan) in page.inner_text("#odds")
            shown = page.get_attribute("#headline", "data-value")
            assert shown == str(plan.samples(0.9) or "")
            for number in (plan.samples(0.9), plan.even):
                assert number is None or count(number) in printed
    assert "collect" in actions


@pytest.mark.parametrize("second", [[0.9, 0.5, 0.28, 0.16, 0.09], [0.5, 0.31, 0.3, 0.3, 0.3]])
def test_a_comparison_says_the_same_everywhere(
    second: list[float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first model met the target at once; the second comes to it, or never does."""
    rows = ["n,KO,FC"]
    rows += [f"{n},{0.002 - i * 1e-5},{second[i]}" for i, n in enumerate((16, 32, 64, 128, 256))]
    pilot, html = tmp_path / "pilot.csv", tmp_path / "page.html"
    pilot.write_text("\n".join(rows))
    first, other = kr.Curve.read_all(pilot)
    both = kr.compare(first, other, 0.05)
    code = korisk("compare", pilot, "--target", 0.05, "--html", html)
    printed = one_line(capsys.readouterr().out)
    assert korisk("compare", pilot, "--target", 0.05, "--json") == code
    told = json.loads(capsys.readouterr().out)
    assert both.ratio_range is not None
    low = both.ratio_range[0]
    assert (told["ratio"], told["ratio_range"]) == (both.ratio, [low, None])
    assert (told["first"]["at_once"], told["first"]["samples"]["0.9"]) == (True, 16)
    page = html.read_text()
    assert f">{both.saving()}</h1>" in page
    figure = one_line(written(comparison_figure(both)))
    assert "KO: already at N = 16 (90% sure)" in figure
    assert "≤ 16" in printed
    assert printed.startswith(f"Read: one column for each model ('KO', 'FC'). {both.saving()}")
    assert told["saving"] == both.saving()
    assert f"at least {times(low)}" in both.saving()
    assert "KO needs at most 16 samples" in both.explain()
    assert f"at least {times(low)} with 95% probability" in both.explain()
