"""The commands that run studies, as a user types them."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from commands import content, korisk, outputs, refused, text

from korisk.curves.curve import Curve
from korisk.store.cells import Task
from korisk.store.store import Store

STUDY = """
name: tiny
problem: {beam: surrogate}
points: [{side: 8, sizes: [4, 8, 16]}]
seeds: [1, 2, 3]
pools: {validation: 8, test: 8}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY)
    return path


def errors(store: Path) -> dict[tuple[str, int, str, int], float]:
    with Store.read(store) as opened:
        return {
            (each.task.point, each.task.seed, each.row.model, each.row.n): each.row.metrics["mse"]
            for each in opened.rows()
        }


def test_a_study_is_run_continued_and_exported(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("run", study, "--out", out, "--device", "cpu", "--workers", "0")
    said = content(*command)
    assert (said["done"], said["skipped"], said["failed"]) == (3, 0, 0)
    assert len(said["points"]["rigorous-8"]["FC"]) == 9
    first = errors(out / "study.db")

    study.write_text(STUDY.replace("[1, 2, 3]", "[1, 2, 3, 4]"))
    short, full = (outputs(*command, *more)[0] for more in ((), ["--full"]))
    assert "rigorous-8: mse of KO" in short
    assert "rigorous-8: mean mse over seeds" not in short
    assert "rigorous-8: mean mse over seeds" in full
    assert len(full.splitlines()) > len(short.splitlines()) <= 10
    assert first.items() <= errors(out / "study.db").items()

    pilot = tmp_path / "pilot.csv"
    assert korisk("export", out, "--metric", "mse", "--output", pilot) == 0
    assert len(Curve.read(pilot, model="FC")) == 12

    study.write_text(STUDY.replace("16]", "32]"))
    assert "sizes" in refused(*command)
    assert first.items() <= errors(out / "study.db").items()


def test_an_interrupted_run_says_what_is_kept_and_how_to_go_on(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    command = ("run", study, "--out", out, "--device", "cpu", "--workers", "0")
    record, calls = Store.record, list[Task]()

    def interrupted(store: Store, task: Task, *rest: Any, **more: Any) -> Any:
        calls.append(task)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return record(store, task, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "record", interrupted)
        said = outputs(*command, code=130)[1]
    assert f"2 of 3 cells are kept in {out / 'study.db'}; the same command continues" in said
    assert content(*command)["skipped"] == 2


def test_what_is_added_to_a_study_is_run_and_what_is_changed_is_refused(
    study: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = ("run", study, "--out", out, "--device", "cpu", "--workers", "0")
    out.mkdir()  # a folder without a store is one that a run fills
    assert content(*command)["done"] == 3
    study.write_text(STUDY.replace("[1, 2, 3]", "[1, 2, 3, 4]"))
    said = content(*command)
    assert (said["skipped"], said["done"]) == (3, 1)
    for old, new in (("16]", "32]"), ("name: tiny", "name: other")):
        assert old in STUDY
        study.write_text(STUDY.replace(old, new))
        assert korisk(*command) == 2


def test_failed_cells_are_named_kept_apart_and_tried_again(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", study, "--out", tmp_path / "out", "--device", "cpu", "--workers", "0"]
    study.write_text(STUDY.replace("[1, 2, 3]", "[1]"))
    assert korisk(*command) == 0
    with monkeypatch.context() as patch:
        patch.setattr("korisk.studies.run.cells.free_memory", lambda device: 1000)
        study.write_text(STUDY)
        said = outputs(*command, code=1)[1].splitlines()
    assert [line.split(" failed: ")[0] for line in said[:-1]] == [
        "korisk: rigorous-8, seed 2",
        "korisk: rigorous-8, seed 3",
    ]
    assert "use fewer samples or smaller images" in said[0]
    assert said[-1].endswith("run again with --retry-failed")

    study.write_text(STUDY.replace("[1, 2, 3]", "[1, 2]"))
    assert "seed 3" not in outputs(*command, code=1)[1]  # not tried again without being asked
    study.write_text(STUDY)
    assert korisk(*command, "--retry-failed") == 0
    assert len(errors(tmp_path / "out" / "study.db")) == 21


# With its workers, as soon as a cell is stored: who watches from outside may come too late.
DIES = """
import os, signal, sys
from korisk.cli.app import main
from korisk.store.store import Store

record = Store.record

def record_and_die(*given):
    record(*given)
    os.killpg(0, signal.SIGKILL)

Store.record = record_and_die
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_results(study: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = ["run", str(study), "--device", "cpu", "--out"]
    process = subprocess.run(
        [sys.executable, "-c", DIES, *command, str(killed), "--workers", "1"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL
    store = killed / "study.db"
    there = errors(store)
    assert len(there) == 7  # of the only cell that was stored
    said = content(*command, killed, "--workers", "0")
    assert said["skipped"] == len(there) / 7  # rows of a cell
    assert said["done"] == 3 - said["skipped"] > 0
    assert korisk(*command, whole, "--workers", "0") == 0
    assert errors(store) == pytest.approx(errors(whole / "study.db"), rel=1e-9)
    assert there.items() <= errors(store).items()


def test_a_damaged_study_is_refused_until_a_run_has_repaired_it(
    study: Path, tmp_path: Path
) -> None:
    store = tmp_path / "out" / "study.db"
    command = ("run", study, "--out", store.parent, "--device", "cpu", "--workers", "0")
    assert korisk(*command) == 0
    before, data = errors(store), bytearray(store.read_bytes())
    data[data.index(b'"mse": 0.') + 10] ^= 1  # another digit
    store.write_bytes(data)
    for reads in (("export", store), ("report", store, "--out", tmp_path / "page")):
        said = refused(*reads)
        assert str(store) in said
        assert "seed" in said
    assert not (tmp_path / "page" / "report.html").exists()
    said = content(*command)
    assert (said["done"], said["skipped"]) == (1, 2)
    assert errors(store) == before


def reproduced(tmp_path: Path, *more: object) -> list[object]:
    return ["reproduce", "--points", "8", "--out", tmp_path / "r", "--device", "cpu", *more]


def test_reproduce_prints_four_origins_and_the_outcome(tmp_path: Path) -> None:
    short = outputs(*reproduced(tmp_path, "--workers", "0", "--protocol", "released"))[0]
    flat = " ".join(short.split())
    headline = "Mostly yes (1 of 5 sizes run): Table 3 holds at H = 8 (released)"
    assert flat.startswith(f"{headline}; printed Table 2 does NOT match (up to")
    assert "How sure: our run of their protocol meets the authors' released numbers to four" in flat
    assert "digits at image side H = 8; 5 seeds or more." in flat
    assert "run korisk reproduce --points 16,32,128,256." in flat
    assert "Done properly" not in short  # which was not run
    said = text(*reproduced(tmp_path, "--protocol", "released", "--full"))
    for figure in ("2.480e-3 / 8.510e-3", "4.500e-3 / 7.533e-2"):  # the paper's, the released
        assert figure in said
    assert said.count("2.340e-3 / 9.986e-3") == 2  # released, and ours under its protocol
    assert "KO dominates FC at every N, up to N = 64" in said
    short = outputs(*reproduced(tmp_path, "--workers", "0", "--seeds", "1,2"))[0]
    assert len(short.splitlines()) <= 11
    assert "meets" not in short  # two seeds are not the released five
    said = text(*reproduced(tmp_path, "--seeds", "1,2", "--full"))
    assert " ".join(short.splitlines()[0].split()) in said
    assert "2.340e-3 / 9.986e-3" in said  # the released figures; ours are of two seeds now
    assert "at N = 64" in said
    assert "2 seeds or more" in said
    assert "The curves cross at about N =" in said
    assert "FC probably has the lower error" in said

    found = content(*reproduced(tmp_path, "--seeds", "1,2"))  # from the store, without a fit
    assert (found["done"], found["skipped"]) == (0, 4)
    assert [each["holds"] for each in found["outcomes"]] == [True, True]
    (finding,) = found["findings"]
    assert finding["worst_training"] <= 1.01
    first, last = finding["crossing"]["means"]  # between which the measured means cross
    assert first <= finding["crossing"]["crossover"]["n"] <= last
    assert f"crossing at about N = {finding['crossing']['crossover']['n']}" in short
    means = {
        model: {n: fmean(each["error"] for each in group) for n, group in by_size(records)}
        for model, records in found["curves"][0].items()
        if model in ("KO", "FC")
    }
    goal = means["KO"][4]
    least = min(n for n, mean in means["FC"].items() if mean <= goal)
    most_short = max(n for n in means["FC"] if n < least)
    assert f"KO with 4 samples equals FC with {most_short + 1} to {least};" in short
    gain = 1 - min(means["KO"].values()) / finding["untrained"]
    lowers = f"compared with N = 0, no N lowers its error by more than {gain:.1%}"
    assert lowers in " ".join(short.split())


def by_size(records: list[dict[str, Any]]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    ordered = sorted(records, key=itemgetter("n"))
    return ((n, list(group)) for n, group in groupby(ordered, key=itemgetter("n")))


WRONG = [
    (["--points", "9"], "points must be among"),
    (["--points", "eight"], "--points must be whole numbers"),
    (["--protocol", "sloppy"], "--protocol must be"), (["--seeds", "1,1"], "seeds must differ"),
    (["--seeds", "-1"], "must be greater than or equal to 0, got -1"),
    (["--device", "tpu"], "--device must be"), (["--device", "cuda:99"], "was not found"),
    (["--device", "cpu:99"], "--device must be"), (["--workers", "-1"], "workers must be"),
    (["--workers", "100000"], "workers must be"), (["--wait", "nan"], "--wait must be"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "words"), WRONG, ids=[words for _, words in WRONG])
def test_what_is_wrong_is_said_in_one_line(options: list[str], words: str, tmp_path: Path) -> None:
    out, err = outputs(*reproduced(tmp_path, *options), code=2)
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
    assert not (tmp_path / "r").exists()


def test_names_and_paths_are_shown_as_they_are(study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY.replace("{side: 8,", "{side: 8, name: '[red]x[/bold]',"))
    out = tmp_path / "out[v2]"
    said = outputs("run", study, "--out", out, "--device", "cpu", "--workers", "0")[0]
    assert all(fact in said for fact in ("[red]x[/bold]: mse of KO", "out[v2]"))


@pytest.mark.parametrize("name", ["r/study.db", "r"])
def test_another_file_in_the_place_of_results_is_left_alone(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("my notes")
    refused(*reproduced(tmp_path))
    assert path.read_text() == "my notes"
