"""The paper's claims: verdicts follow from figures, figures from stored results."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

import claims as benchmark
from claims_measure import LARGE, MEASURES
from korisk.cli.app import app
from korisk.studies.claims import (
    VERDICTS,
    Claim,
    Figure,
    Judged,
    claims,
    judge,
    stored_figures,
)

ROOT = Path(__file__).parents[1]


def claim(**given: Any) -> Claim:
    return Claim(**{"key": "any", "place": "here", "says": "so"} | given)


def test_there_are_forty_claims_and_more_and_each_has_a_key_of_its_own() -> None:
    found = claims()
    assert len(found) >= 40
    assert len({each.key for each in found}) == len(found)
    for each in found:
        assert each.why or each.figure, each.key
        assert each.why or each.command, each.key


def test_every_label_of_the_paper_is_covered() -> None:
    notation = (ROOT / "docs/explanation/notation.md").read_text()
    of_paper = re.split("^#+ ", notation.partition("### Of the paper")[2], flags=re.MULTILINE)[0]
    labels = re.findall(r"^\| \(([\w:-]+)\)", of_paper, re.MULTILINE)
    covered = {label for each in claims() for label in each.labels}
    assert len(labels) > 20
    assert set(labels) <= covered


def test_figures_that_come_with_the_package_follow_from_stored_results() -> None:
    kept, made = (
        json.loads(each) for each in (benchmark.FIGURES.read_text(), benchmark.figures_text())
    )
    assert list(kept) == list(made)
    for key, figures in made.items():
        assert [each["name"] for each in kept[key]] == [each["name"] for each in figures], key
        for one, other in zip(kept[key], figures, strict=True):
            numbers = [[each[end] for end in list(each)[1:]] for each in (one, other)]
            assert numbers[0] == pytest.approx(numbers[1], rel=1e-3, abs=1e-9), key


def test_every_claim_that_can_be_tested_has_figures_and_nothing_else_has() -> None:
    stored = stored_figures()
    assert {each.key for each in claims() if not each.why} <= set(stored)
    assert set(stored) <= {each.key for each in claims()}


def test_the_page_is_what_the_command_writes() -> None:
    page = benchmark.PAGE.read_text()
    assert page == benchmark.page(judge())
    places = [page.index(f"## {title}") for title in benchmark.TITLES.values()]
    assert places == sorted(places)  # those that do not hold come first


@pytest.mark.parametrize("command", sorted({each.command for each in claims() if each.command}))
def test_every_command_exists(command: str) -> None:
    program, name, *rest = shlex.split(command)
    if program == "korisk":
        group: Any = typer.main.get_command(app)
        found = group.commands[name]
        found.make_context(name, rest).close()
        files = [each for each in rest if each.endswith(".yaml")]
        assert all((ROOT / each).is_file() for each in files)
        return
    assert program == "python"
    script = (ROOT / name).read_text()
    assert all(f'"{each}"' in script for each in rest if each.startswith("--"))
    if name == "benchmarks/claims.py":
        only, where = rest[1], rest[2:]
        assert only in MEASURES
        assert only in LARGE or not where


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        ([Figure("a", 5, 4, 6)], "holds"),
        ([Figure("a", 50, 40, 60)], "does not hold"),
        ([Figure("a", 9, 4, 60)], "cannot be tested here"),
        ([Figure("a", 5), Figure("b", 50)], "holds with a condition"),
        ([Figure("a", 50), Figure("b", 9, 4, 60)], "does not hold"),
        ([Figure("a", 5), Figure("b", 50), Figure("c", 60)], "does not hold"),
        ([Figure("a", 5), Figure("b", 9, 4, 60)], "holds with a condition"),
        ([], "cannot be tested here"),
    ],
)
def test_a_verdict_compares_figures_with_what_a_claim_allows(
    figures: list[Figure], verdict: str
) -> None:
    assert Judged(claim(least=1, most=10), tuple(figures)).verdict == verdict


def test_conditions_and_reasons_are_told() -> None:
    names = [f"H = {side}, {way}" for side in (8, 16) for way in ("released", "rigorous")]
    figures = tuple(Figure(name, 5 if "released" in name else 50) for name in names)
    judged = Judged(claim(most=10), figures)
    assert judged.because == "holds: released; not: rigorous"
    conditional = Judged(claim(most=10, condition="N up to 64"), figures[:1])
    assert (conditional.verdict, conditional.because) == ("holds with a condition", "N up to 64")
    untested = Judged(claim(why="no such machine"), figures[:1])
    assert (untested.verdict, untested.because) == (VERDICTS[-1], "no such machine")


def test_a_reproduction_of_ones_own_replaces_figures_of_the_same_name() -> None:
    (sweep,) = (
        each for each in benchmark.kept_sweeps() if (each.side, each.protocol) == (8, "released")
    )
    judged = {each.claim.key: each for each in judge([sweep])}
    assert not judged["dominates-256"].measured_here
    assert judged["dominates-cpu"].measured_here == {"H = 8, released"}
    assert len(judged["dominates-cpu"].figures) == 6
    (figure,) = (each for each in judged["dominates-cpu"].figures if each.name == "H = 8, released")
    ratio = sweep.dense.up_to(64).means / sweep.known.up_to(64).means
    assert figure.value == pytest.approx(ratio.min())
    assert figure.low is not None
    assert figure.high is not None
    assert figure.low < figure.value < figure.high
