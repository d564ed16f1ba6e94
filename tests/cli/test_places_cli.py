"""Where `korisk run` has its cells run: options, clusters, and what a dry run says of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import korisk

from korisk.studies.store import Store

STUDY = """
name: tiny
problem: {beam: surrogate}
points:
  - {side: 8, sizes: [4, 8, 16]}
seeds: [1, 2]
pools: {validation: 8, test: 8}
"""
PROFILE = """
jobs: 3
cores: 4
memory: 8 GB
walltime: "01:00:00"
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "profile.yaml"
    path.write_text(PROFILE)
    return path


def results(folder: Path) -> list[Any]:
    with Store.read(folder / "study.db") as store:
        return [
            (each.task.key, each.row.model, each.row.n, each.row.metrics) for each in store.rows()
        ]


def test_a_dask_cluster_gives_the_results_of_the_local_pool(study: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    options = ("--device", "cpu", "--workers", "1")  # as many threads here as there
    assert korisk("run", study, "--out", here, *options) == 0
    assert korisk("run", study, "--out", there, *options, "--engine", "dask") == 0
    assert results(there) == results(here)
    assert len(results(here)) == 2 * (3 + 4)


def test_where_nothing_is_left_to_do_no_cluster_is_started(
    study: Path, profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert korisk("run", study, "--out", out, "--device", "cpu", "--workers", "0") == 0
    monkeypatch.setenv("PATH", str(tmp_path))  # nobody takes jobs here
    assert korisk("run", study, "--out", out, "--slurm", profile) == 0
    assert korisk("run", study, "--out", tmp_path / "new", "--slurm", profile) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--engine", "spark"], "--engine must be one of"),
        (["--engine", "local", "--scheduler", "tcp://h:1"], "belongs to --engine dask"),
        (["--engine", "local", "--slurm", "PROFILE"], "belongs to --engine dask"),
        (["--scheduler", "tcp://h:1", "--slurm", "PROFILE"], "give one of them"),
        (["--scheduler", "tcp://h:1", "--workers", "2"], "--scheduler joins one"),
        (["--scheduler", "nonsense"], "must be like tcp://host:8786"),
        (["--engine", "dask", "--workers", "0"], "--workers must be"),
        (["--slurm", "PROFILE", "--workers", "0"], "--workers must be"),
        (["--slurm", "PROFILE", "--device", "cuda"], "gpus: 1"),
        (["--slurm", "PROFILE", "--device", "tpu"], "--device must be"),
        (["--slurm", "no-such-profile.yaml"], "no such file"),
    ],
)
def test_options_that_contradict_each_other_are_one_line(
    study: Path,
    profile: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    words: str,
) -> None:
    given = [str(profile) if each == "PROFILE" else each for each in options]
    assert korisk("run", study, "--out", tmp_path / "out", *given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_a_profile_with_an_unknown_key_is_one_line(
    study: Path, profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile.write_text(PROFILE + "waltime: 2\n")
    assert korisk("run", study, "--slurm", profile) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "waltime" in line
    assert "walltime" in line


def test_a_dry_run_shows_time_memory_and_the_job_script(
    study: Path, profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert korisk("run", study, "--out", out, "--dry-run", "--slurm", profile, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert [cell["state"] for cell in said["cells"]] == ["to do", "to do"]
    for cell in said["cells"]:
        assert cell["origin"] == "predicted"
        assert 0 < cell["seconds"] < 60
        assert 2**26 < cell["memory"] < 2**32
    assert said["to_do"]["workers"] == 3
    script = said["job_script"].splitlines()
    assert script[0].startswith("#!")
    assert "#SBATCH -t 01:00:00" in script
    assert not out.exists()

    assert korisk("run", study, "--out", out, "--dry-run", "--slurm", profile) == 0
    shown = capsys.readouterr().out
    assert said["job_script"].strip() in shown
    assert "2 cells to do" in shown


def test_a_dry_run_takes_what_was_measured_before_what_is_predicted(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert korisk("run", study, "--out", out, "--device", "cpu", "--workers", "0") == 0
    study.write_text(STUDY.replace("[1, 2]", "[1, 2, 3]"))
    capsys.readouterr()
    assert korisk("run", study, "--out", out, "--device", "cpu", "--dry-run", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert [cell["state"] for cell in said["cells"]] == ["done", "done", "to do"]
    assert {cell["origin"] for cell in said["cells"]} == {"measured"}
    assert said["to_do"]["cells"] == 1
    with Store.read(out / "study.db") as store:
        seconds = sorted(cell.account.seconds for cell in store.results())
    assert seconds[0] <= said["cells"][2]["seconds"] <= seconds[1]
