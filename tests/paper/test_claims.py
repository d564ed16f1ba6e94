"""The paper's claims: verdicts follow from figures, and the page from kept results."""

import csv
import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.paper import claims as benchmark
from benchmarks.paper.verdicts import READINGS, VERDICTS, Claim, Figure, Judged, claims

ROOT = Path(__file__).parents[2]
HELD, FAILED, UNSURE = (5, 4, 6), (50, 40, 60), (9, 4, 60)  # of a claim that allows 1 to 10
judge = cache(benchmark.judge)


def claim(**given: Any) -> Claim:
    return Claim(key="any", place="here", says="so", least=1, most=10, **given)


# What the paper labels, besides steps of proofs.
OF_PAPER = {
    *("ass:lip", "ass:barron", "lem:lip", "thm:deep-risk", "cor:known", "prop:ct-proxy"),
    *("eq:target", "eq:network", "eq:lip", "eq:layer-risk", "eq:recid", "eq:lip-prod"),
    *("eq:deep-risk", "eq:Al", "eq:deep-risk-barron", "eq:rec-sq", "eq:pointwise"),
    *("eq:calibrated-bound", "eq:fbp", "eq:prop2-twofactor", "eq:ct-twofactor"),
    *("eq:ct-structural", "tab:fullscale", "tab:calibration", "tab:scaling", "fig:precision"),
    *("fig:ct-arch", "fig:sweeps", "fig:gpu128-recons", "fig:gpu256-recons"),
}


def figures(*ends: tuple[float, float, float]) -> tuple[Figure, ...]:
    return tuple(Figure(f"H = {at}, released", *each) for at, each in enumerate(ends))


def test_the_page_is_what_the_kept_results_say() -> None:
    assert benchmark.PAGE.read_text() == benchmark.page(judge())


def test_every_claim_is_tested_or_says_why_not_and_every_label_has_one() -> None:
    by_key = {judged.claim.key: judged for judged in judge()}
    assert len(by_key) == len(claims()) >= 90
    for judged in by_key.values():
        assert bool(judged.figures) == bool(judged.claim.command) != bool(judged.claim.why)
    assert set(benchmark.all_figures()) <= set(by_key)
    assert {label for each in claims() for label in each.labels} >= OF_PAPER


def test_every_sentence_with_a_number_has_a_claim_or_a_reason() -> None:
    with (ROOT / "benchmarks/data/paper_sentences.csv").open(newline="", encoding="utf-8") as file:
        listed = list(csv.DictReader(file))
    assert len(listed) > 100
    keys = {each.key for each in claims()}
    for sentence in listed:
        assert bool(sentence["claims"]) != (sentence["reason"] in benchmark.REASONS), sentence
        assert set(sentence["claims"].split()) <= keys, sentence


@pytest.mark.parametrize(
    ("ends", "verdict", "of_every"),
    [
        ([HELD], "holds", "holds"),
        ([FAILED], "does not hold", "does not hold"),
        ([UNSURE], "undecided", "undecided"),
        ([HELD, FAILED], "undecided", "does not hold"),
        ([FAILED, UNSURE], "undecided", "does not hold"),
        ([HELD, UNSURE], "undecided", "undecided"),
        ([HELD, HELD, FAILED], "holds with a condition", "does not hold"),
        ([HELD, FAILED, FAILED], "does not hold", "does not hold"),
        ([HELD, HELD, UNSURE], "holds with a condition", "holds with a condition"),
        ([*[HELD] * 3, *[FAILED] * 3, *[UNSURE] * 4], "undecided", "does not hold"),
        ([], "cannot be tested here", "cannot be tested here"),
    ],
)
def test_a_verdict_compares_figures_with_what_a_claim_allows(
    ends: list[tuple[float, float, float]], verdict: str, of_every: str
) -> None:
    assert Judged(claim(), figures(*ends)).verdict == verdict
    assert Judged(claim(every=True), figures(*ends)).verdict == of_every


def test_one_more_figure_does_not_turn_a_verdict_into_its_opposite() -> None:
    kinds = (HELD, FAILED, UNSURE)
    for count in itertools.product(range(5), repeat=3):
        ends = [kind for kind, times in zip(kinds, count, strict=True) for _ in range(times)]
        before = Judged(claim(), figures(*ends)).verdict
        for more in kinds:
            after = Judged(claim(), figures(*ends, more)).verdict
            assert {before, after} != {"does not hold", "holds with a condition"}


def test_what_needs_no_training_says_nothing_of_learning() -> None:
    idle = tuple(replace(each, vacuous=True) for each in figures(HELD, HELD))
    assert Judged(claim(), idle).verdict == "nothing to learn"
    mixed = Judged(claim(), (*idle, *figures(FAILED)))
    assert mixed.verdict == "does not hold"
    assert "2 of 3 do not count" in mixed.because
    for judged in judge():
        if judged.claim.learning:
            of_known = [each for each in judged.figures if not each.name.endswith("FC")]
            rigorous = [each for each in of_known if "rigorous" in each.name.split(", ")]
            assert all(each.vacuous for each in rigorous), judged.claim.key


def test_conditions_and_reasons_are_told() -> None:
    names = [f"H = {side}, {way}" for side in (8, 16) for way in ("released", "rigorous")]
    measured = tuple(Figure(name, 5 if "released" in name else 50) for name in names)
    judged = Judged(claim(), measured)
    assert judged.because == "holds: released; not: rigorous"
    assert [judged.read(reading) for reading in READINGS] == ["holds", "does not hold"]
    assert judged.verdict == "does not hold"  # done properly
    assert Judged(claim(), measured[:1]).read("done properly") is None
    one = (Figure("", 5),)
    assert [Judged(claim(), one).read(reading) for reading in READINGS] == ["holds", "holds"]
    theirs = Judged(claim(authors=True), one)
    assert [theirs.read(reading) for reading in READINGS] == ["holds", None]
    conditional = Judged(claim(condition="N up to 64"), measured[:1])
    assert (conditional.verdict, conditional.because) == ("holds with a condition", "N up to 64")


def test_pages_agree_with_the_verdicts() -> None:
    """What other pages say of the paper in words of their own."""
    verdicts = {each.claim.key: each for each in judge()}
    recipe, differences, ours = (
        " ".join((ROOT / name).read_text().split())
        for name in (
            "docs/explanation/recipe.md",
            "docs/explanation/differences.md",
            "docs/paper/index.md",
        )
    )
    of_table_3 = ["dominates-cpu"] * 3 + ["matches-128", "dominates-256"]
    fine = ("holds", "holds with a condition")
    counts = [sum(verdicts[key].read(way) in fine for key in of_table_3) for way in READINGS]
    names = {3: "three", 4: "four", 5: "all five"}
    sentence = f"{names[counts[0]]} hold under the released protocol, and {names[counts[1]]} under"
    assert sentence.capitalize() in differences
    ratios = [figure.value for figure in verdicts["slope-ratio-ten"].figures]
    assert f"runs from {min(ratios):.3g} to {max(ratios):.3g}" in differences
    crossed = {each.name: each.value for each in verdicts["catches-up"].figures}
    times = {2: "twice", 3: "three times", 4: "four times"}
    assert f"about {times[round(crossed['H = 128, rigorous'] / 2048 - 0.5)]}" in differences
    gain = f"squared error by {benchmark.gain_text(judge())}"
    idle = any(each.verdict == VERDICTS[4] for each in verdicts.values())
    assert idle == ("known operator has nothing to learn" in recipe)
    assert idle == (f"training lowers KO's {gain}" in ours)
