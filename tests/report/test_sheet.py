"""The page for a proposal: what it says is what the plan recommends, and it fits one page of A4."""

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from artists import check_page, data, line, lines, written
from commands import outputs, refused
from matplotlib.figure import Figure

import korisk as kr
from korisk.report.headline import held
from korisk.report.sheet import sheet

EXAMPLE = Path(__file__).parents[2] / "examples" / "pilot_h8.csv"
SIZES = [8, 16, 32, 64, 128]


def pilot(*errors: float, model: str = "net", **options: Any) -> kr.Curve:
    seeds = [[value * factor for value in errors] for factor in (1.02, 1.0, 0.98)]
    sizes, numbers = SIZES[: len(errors)] * 3, np.repeat([1, 2, 3], len(errors))
    return kr.Curve(sizes, np.concatenate(seeds), numbers, model=model, **options)


PLANS = {
    "collect": kr.plan(pilot(0.4, 0.2, 0.1, 0.05, 0.025), 0.015),
    "met": kr.plan(pilot(0.4, 0.2, 0.1, 0.05, 0.025), 0.3),
    "stop": kr.plan(pilot(0.4, 0.31, 0.302, 0.3, 0.3), 0.01),
    "rising": kr.plan(pilot(0.1, 0.2, 0.3, 0.4), 0.05),
    "psnr": kr.plan(pilot(20.0, 23.0, 26.0, 29.0, model="$x_1$ & <b>", unit="psnr"), 33.0),
    "long": kr.plan(pilot(0.4, 0.3, 0.25, 0.21, model="a long name " * 6), 0.2),
    "one seed": kr.plan(kr.Curve([4, 8, 16], [0.4, 0.3, 0.24]), 0.2),
}


def said(page: Figure) -> str:
    return " ".join(" ".join(text.get_text() for text in page.texts).split())


@pytest.mark.parametrize("name", PLANS)
def test_the_advice_stands_on_one_page_to_the_digit(name: str) -> None:
    plan = PLANS[name]
    page, advice = (
        sheet(plan, cost=3.0, title="pilot.csv", date="2026-01-31"),
        plan.recommend(cost=3.0),
    )
    text = said(page)
    for words in (advice.sentence, *advice.reasons, advice.odds, "pilot.csv", "2026-01-31"):
        assert " ".join(words.split()) in text
    assert f"korisk {kr.__version__}" in text
    assert page.get_size_inches().tolist() == [8.27, 11.69]
    check_page(page)


def test_the_chance_over_n_is_the_plans() -> None:
    plan = PLANS["collect"]
    page = sheet(plan, sure=0.8)
    n, chances = data(line(page, "chance"))
    for size, percent in zip(n[::50], chances[::50], strict=True):
        assert percent == pytest.approx(100 * plan.chances.at(size))
    assert set(data(line(page, "level"))[1]) == {80.0}
    for needed in (plan.samples(0.8), plan.even):
        assert data(line(page, f"n-{needed}"))[0] == [needed]
    assert page.axes[0].get_xlim() == page.axes[1].get_xlim()
    assert lines(page, "target")
    assert not lines(sheet(PLANS["rising"]), "chance")


def test_what_is_not_extrapolated_is_not_said_to_be() -> None:
    extrapolated = "nothing was measured"
    for name, expected in (("collect", True), ("met", False), ("rising", False)):
        assert (extrapolated in said(sheet(PLANS[name]))) == expected


def test_the_track_record_is_that_of_the_kept_benchmark() -> None:
    assert held() == import_module("benchmarks.planner.odds").held()
    text = said(sheet(PLANS["collect"]))
    pilots = sum(each["pilots"] for each in held()["sets"].values())
    assert f"{pilots} learning curves" in text
    for each in held()["sets"].values():
        assert f"{each['enough']:.0%} of" in text


@pytest.mark.parametrize("suffix", ["pdf", "png", "svg"])
def test_the_command_writes_the_sheet(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"sheet.{suffix}"
    command = ("plan", EXAMPLE, "--model", "FC", "--target", 0.003, "--sheet", path)
    out, err = outputs(*command, "--json")
    assert f"wrote {path}" in err
    assert path.stat().st_size > 10_000
    if suffix == "pdf":
        assert len(re.findall(rb"/Type /Page\b(?!s)", path.read_bytes())) == 1
    assert json.loads(out)["plans"][0]["recommendation"]["action"] == "collect"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", 0.003), "for one model, and the pilot has 2 (KO, FC); name one with --model"),
        (("--model", "FC", "--at", 9), "--sheet needs --target"),
        (("--model", "FC", "--target", 0.1, "--target", 0.2), "--sheet draws one --target, got 2"),
    ],
)
def test_a_sheet_is_for_one_model_and_one_target(options: tuple[object, ...], words: str) -> None:
    assert words in refused("plan", EXAMPLE, *options, "--sheet", "x.pdf")


def test_a_sheet_of_another_kind_of_file_is_refused() -> None:
    options = ("--model", "FC", "--target", 0.003)
    assert "suffix" in refused("plan", EXAMPLE, *options, "--sheet", "x.doc")


def test_a_sheet_names_what_short_names_mean() -> None:
    plan = kr.plan(kr.Curve.read(EXAMPLE, model="FC"), 0.003)
    assert "FC: fully connected" in written(sheet(plan))
