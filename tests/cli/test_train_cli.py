"""`korisk train`, as a user types it."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import korisk

from korisk.studies.run import sharded_job

STUDY = """
name: tiny
problem: {beam: surrogate}
points:
  - {name: small, side: 8, sizes: [4, 16]}
  - {name: large, side: 16, sizes: [4]}
seeds: [1]
pools: {validation: 0, test: 8}
models: {FC: {select: leave-one-out}}
"""
OPTIONS = ["--point", "small", "--device", "cpu", "--rate", "1e-2"]
OPTIONS += ["--iterations", "400", "--every", "50"]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY)
    return path


def result(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "train.json").read_text())
    return content


def test_a_training_is_killed_with_its_ranks_and_resumed_on_one(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert korisk("train", study, "--out", whole, *OPTIONS, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said == result(whole)
    assert said["metrics"]["mse"] > 0
    assert len(said["losses"]) == 400
    assert said["losses"][-1] < 0.5 * said["losses"][0]

    command = [sys.executable, "-m", "korisk", "train", study, "--out", broken, *OPTIONS]
    started = subprocess.Popen([*map(str, command), "--ranks", "2"])
    wait_for(lambda: (broken / "checkpoints" / "iteration-00000050").exists())
    started.kill()
    started.wait()
    wait_for(lambda: not processes_of(broken))
    assert not (broken / "train.json").exists()

    assert korisk("train", study, "--out", broken, *OPTIONS) == 0
    spoken = capsys.readouterr()
    assert "resuming at iteration" in spoken.err
    assert "small, seed 1: dense network, 16 training samples" in spoken.out
    resumed = result(broken)
    assert 50 <= resumed["resumed_at"] < 400
    expected = torch.tensor(said["losses"])
    torch.testing.assert_close(torch.tensor(resumed["losses"]), expected, rtol=1e-6, atol=0)
    assert resumed["metrics"] == pytest.approx(said["metrics"], rel=1e-6)

    assert korisk("train", study, "--out", broken, *OPTIONS) == 0
    assert "all 400 iterations were done before" in capsys.readouterr().err
    assert result(broken) == resumed


def wait_for(condition: Any) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)


def processes_of(folder: Path) -> list[str]:
    """Processes that were started for a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if str(folder) in words:
            found.append(path.parent.name)
    return found


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--ranks 0", "--ranks must be a whole number from 1 to 4,096, got 0"),
        ("--samples 0", "--samples must be a whole number from 1 to"),
        ("--samples 20000000", "--samples must be a whole number from 1 to"),
        ("--point smal", "did you mean 'small'?"),
        ("--optimiser lion", "optimiser must be one of"),
        ("--momentum 0.9", "momentum belongs to optimiser='sgd'"),
        ("--iterations 0", "iterations must be a whole number"),
        ("--every 0", "--every must be"),
        ("--blocks 65", "--blocks must be a whole number from 1 to 64, got 65"),
        ("--seed -1", "--seed must be"),
        ("--offload", "leave it out"),
        ("--device gpu", "--device must be"),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    options: str, words: str, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--point", "small", "--device", "cpu", "--iterations", 2, *options.split()]
    assert korisk("train", study, "--out", tmp_path / "out", *given) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_one_of_several_points_must_be_named(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert korisk("train", study, "--device", "cpu") == 2
    said = capsys.readouterr().err
    assert "small" in said
    assert "large" in said


@pytest.mark.skipif(not torch.distributed.is_available(), reason="no torch.distributed")
def test_more_ranks_than_gpus_are_refused(
    study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    given = ["--point", "small", "--device", "cuda", "--ranks", "2", "--out", tmp_path / "out"]
    assert korisk("train", study, *given) == 2
    assert "--ranks must be at most the number of GPUs, 1, got 2" in capsys.readouterr().err


def test_too_little_memory_is_said_with_what_would_do(
    study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # 64 x 80 weights of 8 bytes with Adam: 120 KiB, three times one of 16 blocks, 7.5 KiB, and 24
    # samples of 144 numbers, 27 KiB.
    given = ["--point", "small", "--device", "cpu", "--blocks", 16, "--out", tmp_path / "out"]
    monkeypatch.setattr(sharded_job, "free_memory", lambda device: 80 * 1024)
    assert korisk("train", study, *given) == 2
    said = capsys.readouterr().err
    assert "training 5,120 weights takes" in said
    assert "3 ranks, each on a machine of its own, would do" in said
    assert said.count("\n") == 1
    assert korisk("train", study, *given, "--blocks", 64) == 2  # of one row, which has one owner
    assert "no number of ranks would do" in capsys.readouterr().err
    monkeypatch.setattr(sharded_job, "free_memory", lambda device: 20 * 1024)
    assert korisk("train", study, *given) == 2
    assert "no number of ranks would do" in capsys.readouterr().err
