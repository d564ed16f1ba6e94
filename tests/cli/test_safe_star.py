"""A safe number of which not all futures are counted says so in the tables."""

import json
import re
from pathlib import Path

import pytest
from commands import korisk

import korisk as kr

PILOT = Path(__file__).parents[2] / "examples" / "pilot_h8.csv"


def said(capsys: pytest.CaptureFixture[str], *command: object) -> str:
    assert korisk(*command) == 0
    return " ".join(capsys.readouterr().out.split())


def test_a_star_marks_what_does_not_suffice_with_the_probability_it_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    curve = kr.Curve.read(PILOT, model="FC")
    for target in (0.003, 0.001):
        plan = kr.plan(curve, target)
        safe = plan.safe(0.9)
        assert safe is not None
        text = said(capsys, "plan", PILOT, "--model", "FC", "--target", target)
        assert (f" {safe:,}* " in text) == (plan.probability(safe) < 0.9)
        assert ("* if the target is met" in text) == (plan.probability(safe) < 0.9)


def test_the_star_is_explained_with_its_horizon_and_odds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plans = {model: kr.plan(kr.Curve.read(PILOT, model=model), 0.0015) for model in ("KO", "FC")}
    text = said(capsys, "compare", PILOT, "--target", "0.0015")
    told = re.search(r"\* if the target is met before long: (.*?)\. ", text)
    assert told is not None
    for name, plan in plans.items():
        odds = plan.probability(plan.before_long)
        assert f"{name} by N = {plan.before_long:,} (chance {odds:.0%})" in told[1]


def test_other_methods_name_the_multiple(capsys: pytest.CaptureFixture[str]) -> None:
    curve = kr.Curve.read(PILOT, model="KO")
    plan = kr.plan(curve, 0.0022, method="power")
    assert plan.upper == float("inf")  # else this tests nothing
    text = said(capsys, "plan", PILOT, "--model", "KO", "--target", 0.0022, "--method", "power")
    assert f" {plan.safe(0.9):,}* " in text
    assert "* a multiple of N, because its band has no upper end." in text


def test_json_has_plain_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "plan", PILOT, "--model", "FC", "--target", 0.001, "--json")
    assert all(isinstance(n, int) for n in json.loads(text)["plans"][0]["safe"].values())
