"""The paper's claims: verdicts follow from figures, figures from stored results."""

import itertools
import json
import math
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from commands import outputs, refused

from benchmarks.paper import claims as benchmark
from benchmarks.paper import sentences
from benchmarks.paper.claims_measure import LARGE, MEASURES
from korisk.cli.app import app
from korisk.paper.claims import (
    READINGS,
    VERDICTS,
    Claim,
    Figure,
    Judged,
    claims,
    judge,
    stored_figures,
)
from korisk.paper.reproduction import studies
from korisk.store.cells import Result, Row, Task
from korisk.store.store import Store
from korisk.store.usage import Usage

ROOT = Path(__file__).parents[2]


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
    for key, remade in made.items():
        assert [each["name"] for each in kept[key]] == [each["name"] for each in remade], key
        for one, other in zip(kept[key], remade, strict=True):
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
    module, *rest = rest
    assert (program, name) == ("python", "-m")
    script = (ROOT / f"{module.replace('.', '/')}.py").read_text()
    assert all(f'"{each}"' in script for each in rest if each.startswith("--"))
    if module == "benchmarks.paper.claims":
        only, where = rest[1], rest[2:]
        assert only in MEASURES
        assert only in LARGE or not where


HELD, FAILED, UNSURE = (5, 4, 6), (50, 40, 60), (9, 4, 60)  # of a claim that allows 1 to 10


def figures(*ends: tuple[float, float, float]) -> tuple[Figure, ...]:
    return tuple(Figure(f"H = {at}, released", *each) for at, each in enumerate(ends))


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
    allowed = {"least": 1, "most": 10}
    assert Judged(claim(**allowed), figures(*ends)).verdict == verdict
    assert Judged(claim(**allowed, every=True), figures(*ends)).verdict == of_every


def test_what_needs_no_training_says_nothing_of_learning() -> None:
    idle = tuple(replace(each, vacuous=True) for each in figures(HELD, HELD))
    assert Judged(claim(least=1, most=10), idle).verdict == "nothing to learn"
    mixed = Judged(claim(least=1, most=10), (*idle, *figures(FAILED)))
    assert mixed.verdict == "does not hold"
    assert "2 of 3 do not count" in mixed.because
    for judged in judge():
        rigorous = [each for each in judged.figures if "rigorous" in each.name.split(", ")]
        if judged.claim.learning and rigorous and not judged.claim.why:
            of_known = [each for each in rigorous if not each.name.endswith("FC")]
            assert all(each.vacuous for each in of_known), judged.claim.key


def test_verdicts_stand_on_one_page() -> None:
    others = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    quoted = [judged.claim.says for judged in judge()]
    for page in others:
        if page != benchmark.PAGE:
            text = " ".join(page.read_text().split())
            assert not [says for says in quoted if len(says) > 30 and says in text], page
            assert not re.search(r'support(s|ed)? "|does not follow from the table', text), page


def test_every_sentence_with_a_number_has_a_claim_or_a_reason() -> None:
    keys = {each.key for each in claims()}
    listed = sentences.listed()
    assert len(listed) > 100
    for sentence in listed:
        assert bool(sentence.claims) != bool(sentence.reason), sentence
        assert set(sentence.claims) <= keys, sentence
        assert not sentence.reason or sentence.reason in sentences.REASONS, sentence
    page = " ".join(benchmark.PAGE.read_text().split())
    assert sentences.count_text() in page


def test_sentences_with_numbers_are_told_from_others() -> None:
    text = r"""\begin{abstract} Nothing here. See Eq.~\eqref{eq:1} of \cite{Author2019}.
    \end{abstract} \section{Results} It takes $N = 1{,}024$ samples, five seeds.
    The norm is $\ell_2^2$.
    \begin{tabular}{l} 7 \\ \end{tabular} \begin{equation} y = 3 x \end{equation} We are done."""
    assert sentences.found_in(text) == [sentences.Sentence("Results", "1024 five")]


def test_the_commands_print_every_figure_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "3000")  # one line for each claim
    printed, published = (
        " ".join(outputs("reproduce", option)[0].split()) for option in ("--claims", "--published")
    )
    head, *sections = benchmark.PAGE.read_text().split("\n## ")
    lines = [line for part in sections for line in part.splitlines() if line.startswith("|")]
    rows = [line for line in lines if not line.startswith(("|the paper says", "|---"))]
    assert len(rows) == len(claims())
    for row in rows:
        *_, words, _ = re.split(r"(?<!\\)\|", row)
        plain = re.sub("`[^`]*`", "; ", words.replace("**", ""))  # commands and files are shortened
        for part in re.split("; |: ", plain):
            assert " ".join(part.split()) in printed, row
    (gain,) = re.findall(r"lowers its error by ([\d.]+% to [\d.]+%)", head)
    assert gain in printed
    for count, of in re.findall(r"^(\d+) (claims)", head, re.MULTILINE):
        assert f"{count} {of}" in printed
    of_tables = [each for each in judge() if each.claim.command == "korisk reproduce --published"]
    assert len(of_tables) > 5
    shown = [float(text) for text in re.findall(r"(?<![\d,])\d+(?:\.\d+)?(?:e\d+)?", published)]
    for each in of_tables:
        # What was measured comes from the sweeps; ones and shares are the table's "as printed".
        values = [x.value for x in each.figures if x.name != "measured" and x.value != 1]
        for value in values:
            if math.isinf(value):
                assert "never" in published
            else:  # the table has two to three digits
                assert any(number == pytest.approx(value, rel=5e-3) for number in shown), each.claim


def test_pages_agree_with_the_verdicts() -> None:
    """What other pages say of the paper in words of their own, against the verdicts."""
    verdicts = {each.claim.key: each for each in judge()}
    texts = {
        name: " ".join((ROOT / name).read_text().split())
        for name in ("README.md", "docs/explanation/differences.md", "docs/paper/index.md")
    }
    differences, ours = texts["docs/explanation/differences.md"], texts["docs/paper/index.md"]
    of_table_3 = ["dominates-cpu"] * 3 + ["matches-128", "dominates-256"]
    names = {0: "none", 3: "three", 4: "four", 5: "all five"}
    fine = ("holds", "holds with a condition")
    counts = [sum(verdicts[key].read(way) in fine for key in of_table_3) for way in READINGS]
    sentence = f"{names[counts[0]]} hold under the released protocol, and {names[counts[1]]} under"
    assert sentence.capitalize() in differences
    ratios = [figure.value for figure in verdicts["slope-ratio-ten"].figures]
    assert f"runs from {min(ratios):.3g} to {max(ratios):.3g}" in differences
    crossed = {each.name: each.value for each in verdicts["catches-up"].figures}
    times = {2: "twice", 3: "three times", 4: "four times"}
    assert f"about {times[round(crossed['H = 128, rigorous'] / 2048 - 0.5)]}" in differences
    assert "nothing to learn" in VERDICTS
    idle = [key for key, each in verdicts.items() if each.verdict == "nothing to learn"]
    assert bool(idle) == ("known operator has nothing to learn" in texts["README.md"])
    assert bool(idle) == ("known operator starts where training ends" in ours)
    held = {figure.value for figure in verdicts["theorem"].figures}
    assert (held == {1.0}) == ("held in every trained network in which it could fail" in ours)
    check = " ".join((ROOT / "docs/explanation/check.md").read_text().split())
    for figure in verdicts["theorem"].figures:
        assert figure.name.split(" networks")[0] in re.findall(r"\d+", check), figure.name


def test_one_more_figure_does_not_turn_a_verdict_into_its_opposite() -> None:
    kinds = (HELD, FAILED, UNSURE)
    for count in itertools.product(range(5), repeat=3):
        ends = [kind for kind, times in zip(kinds, count, strict=True) for _ in range(times)]
        before = Judged(claim(least=1, most=10), figures(*ends)).verdict
        for more in kinds:
            after = Judged(claim(least=1, most=10), figures(*ends, more)).verdict
            assert {before, after} != {"does not hold", "holds with a condition"}


def test_conditions_and_reasons_are_told() -> None:
    names = [f"H = {side}, {way}" for side in (8, 16) for way in ("released", "rigorous")]
    found = tuple(Figure(name, 5 if "released" in name else 50) for name in names)
    judged = Judged(claim(most=10), found)
    assert judged.because == "holds: released; not: rigorous"
    assert [judged.read(reading) for reading in READINGS] == ["holds", "does not hold"]
    assert judged.verdict == "does not hold"  # done properly
    assert Judged(claim(most=10), found[:1]).read("done properly") is None
    both = Judged(claim(most=10), (Figure("", 5),))
    assert [both.read(reading) for reading in READINGS] == ["holds", "holds"]
    theirs = Judged(claim(most=10, authors=True), (Figure("", 5),))
    assert [theirs.read(reading) for reading in READINGS] == ["holds", None]
    conditional = Judged(claim(most=10, condition="N up to 64"), found[:1])
    assert (conditional.verdict, conditional.because) == ("holds with a condition", "N up to 64")
    untested = Judged(claim(why="no such machine"), found[:1])
    assert (untested.verdict, untested.because) == (VERDICTS[-1], "no such machine")


def test_a_reproduction_decides_only_where_it_has_all_points() -> None:
    kept = benchmark.kept_sweeps()
    (sweep,) = (each for each in kept if (each.side, each.protocol) == (8, "released"))
    stored = {each.claim.key: each for each in judge()}
    part = {each.claim.key: each for each in judge([sweep])}
    assert {key: each.verdict for key, each in part.items()} == {
        key: each.verdict for key, each in stored.items()
    }
    assert part["dominates-cpu"].figures == stored["dominates-cpu"].figures
    assert not part["dominates-256"].reproduced
    (figure,) = part["dominates-cpu"].reproduced
    ratio = sweep.dense.up_to(64).means / sweep.known.up_to(64).means
    assert figure.name == "H = 8, released"
    assert figure.value == pytest.approx(ratio.min())
    assert figure.low is not None
    assert figure.high is not None
    assert figure.low < figure.value < figure.high
    small = (each for each in kept if each.side <= 32)
    turned = [replace(each, known=each.dense, dense=each.known) for each in small]
    whole = {each.claim.key: each for each in judge(turned)}["dominates-cpu"]
    assert whole.figures == whole.reproduced
    assert (stored["dominates-cpu"].verdict, whole.verdict) == (
        "holds with a condition",
        "does not hold",
    )


def test_shares_stay_within_what_a_share_can_be() -> None:
    for each in stored_figures()["line-safe"]:
        assert each.low is not None
        assert each.high is not None
        assert 0 <= each.low <= each.value <= each.high <= 1


def test_stores_of_other_studies_are_refused(tmp_path: Path) -> None:
    (own,) = studies(points=[16], protocols=["rigorous"], seeds=[1])
    spec = dict(own.tasks[0].spec)
    others: list[dict[str, Any]] = [
        {"part_of": "a pilot", "n": 4},
        spec | {"problem": spec["problem"] | {"kind": "blur"}},
        spec | {"problem": spec["problem"] | {"side": 24}},
        spec | {"sizes": [4, 8]},
    ]
    row = Row(model="KO", n=4, metrics={"mse": 0.1})
    for at, content in enumerate([spec, *others]):
        path = tmp_path / f"{at}.db"
        with Store.create_or_open(path, {"name": "any"}) as store:
            task = Task(point="any", seed=1, spec=content)
            store.record(task, Result(rows=(row,)), Usage(started="2026-01-01", seconds=1.0))
        command = ("reproduce", "--claims", "--out", path)
        if content is spec:
            outputs(*command)
        else:
            assert "must hold a reproduction" in refused(*command)
