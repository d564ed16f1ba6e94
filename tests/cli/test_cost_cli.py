"""`korisk cost` as a user types it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import korisk

from korisk.costs import measuring
from korisk.costs.counts import KINDS
from korisk.costs.rates import Rates, packaged, read_rates

GIB = 2**30
STUDY = """
name: tiny
problem: {beam: surrogate}
points:
  - {side: 8, sizes: [4, 8]}
seeds: [1, 2, 3]
pools: {validation: 8, test: 8}
"""
LARGE = """
name: large
points:
  - {side: 512}
seeds: [1, 2]
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def card(tmp_path: Path) -> Path:
    made = Rates(
        name="card",
        device="cuda",
        where="a card on paper",
        memory=139 * GIB,
        baseline=GIB,
        overhead=0.01,
        start=0.5,
        seconds=dict.fromkeys(KINDS, ((1000.0, 1e-06), (1000000000.0, 0.001))),
        machine={},
        versions={},
    )
    path = tmp_path / "card.json"
    made.write(path)
    return path


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_h512_shows_360_gib_for_adam_and_a_few_for_the_dual_form(
    tmp_path: Path, card: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "large.yaml"
    path.write_text(LARGE)
    assert korisk("cost", path, "--rates", card, "--ranks", 8) == 0
    lines = capsys.readouterr().out.splitlines()
    adam = next(line for line in lines if " Adam " in line)
    assert "360 GiB" in adam
    assert "none" in adam
    dual = next(line for line in lines if "ridge, dual" in line)
    assert dual.lstrip().startswith("*")
    assert "360 GiB" not in dual
    assert any("Adam, a rank of 8" in line for line in lines)
    whole = " ".join(" ".join(lines).split())
    assert "predicted from rates measured on a card on paper" in whole
    assert "beyond what was measured" in whole


def test_json_has_every_way_and_the_whole(
    study: Path, card: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert korisk("cost", study, "--rates", card, "--workers", 2, "--json") == 0
    content = said(capsys)
    (point,) = content["points"]
    used = {way["model"]: way["way"] for way in point["ways"] if way["used"]}
    assert used == {"KO": "ridge, B^T B stored", "FC": "ridge, dual"}
    assert point["cell"]["origin"] == "predicted"
    assert point["cell"]["device_memory"] > 0
    assert content["total"]["cells"] == 3
    assert content["rates"]["device"] == "cuda"
    assert content["total"]["seconds"] >= content["total"]["work"] / 2


def test_more_workers_never_take_longer(
    study: Path, card: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = []
    for workers in (1, 2, 3, 64):
        assert korisk("cost", study, "--rates", card, "--workers", workers, "--json") == 0
        seconds.append(said(capsys)["total"]["seconds"])
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] > seconds[-1]


def test_packaged_rates_are_the_default_and_are_named(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert korisk("cost", study) == 0
    whole = " ".join(capsys.readouterr().out.split())
    assert any(f"the rates {name}, measured on" in whole for name in packaged())


def test_finished_cells_are_learned_from(
    study: Path, tmp_path: Path, card: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    run = ("run", study, "--out", out, "--device", "cpu", "--workers", 0, "--json")
    assert korisk(*run) == 0
    capsys.readouterr()
    assert korisk("cost", study, "--out", out) == 0
    assert "measured, from 3 finished cells" in " ".join(capsys.readouterr().out.split())
    assert korisk("cost", study, "--out", out, "--rates", card, "--json") == 0
    assert said(capsys)["total"]["measured"] == 0  # they ran on a CPU


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rates", "h2o"], "--rates must be a packaged name or a file, got 'h2o'"),
        (["--rates", "none.json"], "no such file"),
        (["--workers", "0"], "--workers must be a whole number from 1"),
        (["--ranks", "0"], "--ranks must be a whole number from 1"),
        (["--memory", "-1"], "--memory must be a finite number > 0"),
        (["--device", "tpu"], "--device must be cpu or cuda"),
        (["--out", "nowhere"], "no such file"),
    ],
)
def test_wrong_input_is_one_line(
    study: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert korisk("cost", study, *options) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_files_that_are_wrong_are_one_line(
    study: Path, tmp_path: Path, card: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text("[]")
    (tmp_path / "bad.yaml").write_text("name: x\npoints: []\n")
    for arguments, words in (
        ((study, "--rates", tmp_path / "bad.json"), "holds no rates"),
        ((tmp_path / "bad.yaml",), "points must name at least one"),
        ((study, "--rates", card, "--device", "cpu"), "are of a cuda device"),
        ((), "needs a STUDY.yaml, or --measure FILE"),
        ((study, "--measure", tmp_path / "no" / "x.json"), "no such folder"),
    ):
        assert korisk("cost", *arguments) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1


def test_a_machine_is_measured_into_a_file(
    study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = ((1e3, 1e-6), (1e9, 1e-3))
    monkeypatch.setattr(measuring, "_MEASURES", dict.fromkeys(KINDS, lambda place: table))
    path = tmp_path / "mine.json"
    assert korisk("cost", study, "--measure", path, "--json") == 0
    assert said(capsys)["rates"]["name"] == "mine"
    found = read_rates(path)
    assert found.device == "cpu"
    assert found.seconds == dict.fromkeys(KINDS, table)


def test_rates_of_another_machine_are_not_mixed_with_ours(
    card: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert korisk("cost", "--measure", card) == 2
    assert "a card on paper, another machine" in capsys.readouterr().err


def test_measuring_without_pytorch_names_the_extra(tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules["torch"] = None
from korisk.cli import app
sys.exit(app.run(["cost", "--measure", {str(tmp_path / "x.json")!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "korisk[torch]" in done.stderr
