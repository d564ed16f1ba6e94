"""Where `korisk run` has its cells run: options, clusters, and what a dry run says of them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from commands import korisk

from korisk.cli.places import chosen_place, opened
from korisk.cli.progress import Board, progress
from korisk.cli.studying import groups
from korisk.studies.result import Task
from korisk.studies.run import clusters
from korisk.studies.run.clusters import Cluster
from korisk.studies.run.engine import Event
from korisk.studies.run.usage import Account, cores
from korisk.studies.spec.study import Study
from korisk.studies.store.store import Store

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


def test_a_dask_cluster_gives_the_results_of_this_process(study: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for out, workers, engine in ((here, 0, "local"), (there, 1, "dask")):
        where = ("--device", "cpu", "--workers", workers, "--engine", engine)
        assert korisk("run", study, "--out", out, *where) == 0
    found, expected = results(there), results(here)
    assert [each[:3] for each in found] == [each[:3] for each in expected]
    assert len(found) == 2 * (3 + 4)
    for (*_, ours), (*_, theirs) in zip(found, expected, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9)  # this process may have more threads


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


def chosen(
    monkeypatch: pytest.MonkeyPatch, offered: bool, *options: Any, **more: Any
) -> tuple[bool, str]:
    """Whether cells ask for a GPU, and the device that they are told, on a made up cluster."""

    @contextmanager
    def made(*given: object, gpu: bool = False, **_: object) -> Iterator[Cluster]:
        yield Cluster(client=None, name="made up", gpu=gpu)

    for kind in ("local_cluster", "joined_cluster", "job_cluster"):
        monkeypatch.setattr(clusters, kind, made)
    monkeypatch.setattr(clusters, "offers_gpu", lambda cluster: offered)
    with opened(chosen_place(*options, **more), processes=1) as (cluster, device):
        assert cluster is not None
        return cluster.gpu, device


def test_a_joined_cluster_uses_gpus_where_there_are_some_or_where_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    join = (None, "tcp://h:1")
    assert chosen(monkeypatch, True, *join) == (True, "cuda")
    assert chosen(monkeypatch, False, *join) == (False, "cpu")
    assert chosen(monkeypatch, True, *join, device="cpu") == (False, "cpu")
    assert chosen(monkeypatch, False, *join, device="cuda") == (True, "cuda")


def test_jobs_use_the_gpus_of_their_profile_unless_told_not_to(
    profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen(monkeypatch, False, None, None, profile) == (False, "cpu")
    profile.write_text(PROFILE + "gpus: 1\n")
    assert chosen(monkeypatch, False, None, None, profile) == (True, "cuda")
    assert chosen(monkeypatch, False, None, None, profile, device="cpu") == (False, "cpu")


def test_what_a_cluster_lacks_is_said_where_nobody_watches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (task,) = tasks_of(1)
    about: dict[str, Any] = {"task": task, "done": 0, "failed": 0, "total": 1, "skipped": 0}
    with progress() as watch:
        assert watch is not None
        watch(Event(kind="started", **about))
        watch(Event(kind="waiting", words="no worker is there yet", **about))
        watch(Event(kind="retried", words="its worker was lost", **about))
    first, second = capsys.readouterr().err.splitlines()
    assert first == "korisk: no worker is there yet"
    assert second == f"korisk: {task.key}: retried: its worker was lost"
    with progress(quiet=True) as watch:
        assert watch is None


def test_waiting_leaves_the_cells_that_run_on_the_display() -> None:
    (task,) = tasks_of(1)
    about: dict[str, Any] = {"task": task, "done": 0, "failed": 0, "total": 1, "skipped": 0}
    board = Board()
    board.take(Event(kind="started", **about))
    board.take(Event(kind="waiting", words="for others", **about))
    assert task.key in board._running


def tasks_of(count: int) -> list[Task]:
    return [Task(point="p", seed=seed, spec={}) for seed in range(count)]


def test_processes_of_this_machine_are_as_many_on_dask_as_in_the_local_pool() -> None:
    problem = {"side": 8, "views": 4, "bins": 8}
    small = Task(point="small", seed=1, spec={"problem": problem})
    large = Task(point="large", seed=1, spec={"problem": problem | {"side": 256}})
    for engine in ("local", "dask"):
        place = chosen_place(engine, device="cpu")
        assert groups([small, large], place) == [([small], cores()), ([large], 1)]
        assert groups([small], chosen_place(engine, device="cuda")) == [([small], 0)]
    joined = chosen_place(None, "tcp://h:1")
    assert groups([small, large], joined) == [([small, large], 1)]


def test_a_dry_run_tells_failed_cells_from_those_to_do_and_one_study_from_another(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    first, _ = Study.read(study).tasks
    with Store.create_or_open(out / "study.db", {"name": "tiny"}) as store:
        store.record_failure(first, "no luck", Account(started="now", seconds=1.0))
    for options, count in (([], 1), (["--retry-failed"], 2)):
        assert korisk("run", study, "--out", out, "--dry-run", "--json", *options) == 0
        said = json.loads(capsys.readouterr().out)
        assert [cell["state"] for cell in said["cells"]] == ["failed", "to do"]
        assert said["to_do"]["cells"] == count
    study.write_text(STUDY.replace("name: tiny", "name: other"))
    assert korisk("run", study, "--out", out, "--dry-run") == 2
    assert "holds the study 'tiny'" in capsys.readouterr().err


def test_a_dry_run_needs_no_pytorch(study: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from korisk.cli import app;"
        f"sys.exit(app.run(['run', {str(study)!r}, '--dry-run', '--out', {str(tmp_path / 'o')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 cells to do" in done.stdout


def test_loading_the_batch_systems_leaves_ctrl_c_alone() -> None:
    code = (
        "import signal; from korisk.studies.run.clusters import _extra; _extra('dask_jobqueue');"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


HEAT = """
name: heat
problem: {kind: heat, points: 8}
points: [{name: exact}, {name: wrong, assumed: 0.02}]
sizes: [2, 4]
seeds: [1, 2]
pools: {validation: 4, test: 4}
"""


def test_of_other_kinds_than_ct_a_dry_run_tells_the_time_once_a_cell_has_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, out = tmp_path / "heat.yaml", tmp_path / "out"
    study.write_text(HEAT)
    asked = ("run", study, "--out", out, "--dry-run")
    assert korisk(*asked) == 0
    assert "4 to do of a kind whose time is not known" in capsys.readouterr().out
    assert korisk(*asked, "--json") == 0
    before = json.loads(capsys.readouterr().out)
    assert before["to_do"] == {
        **{"cells": 4, "of_unknown_time": 4, "seconds": None},
        "workers": before["to_do"]["workers"],
    }
    study.write_text(HEAT.replace("seeds: [1, 2]", "seeds: [1]"))
    assert korisk("run", study, "--out", out, "--workers", "0", "--device", "cpu") == 0
    study.write_text(HEAT)
    capsys.readouterr()
    assert korisk(*asked, "--device", "cpu", "--json") == 0
    after = json.loads(capsys.readouterr().out)
    assert after["to_do"]["cells"] == 2
    assert after["to_do"]["of_unknown_time"] == 0
    assert after["to_do"]["seconds"] > 0


def test_commands_that_know_ct_alone_say_so_of_other_kinds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "heat.yaml"
    study.write_text(HEAT)
    assert korisk("cost", study) == 2
    assert "knows CT with ellipses alone" in capsys.readouterr().err
    assert korisk("train", study, "--point", "exact") == 2
    assert "is for kind ct, got kind heat" in capsys.readouterr().err


def test_a_study_without_an_error_is_stored_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gains of one, no noise, the exact flow: KO has nothing to learn and errs by nothing."""
    study, out = tmp_path / "heat.yaml", tmp_path / "out"
    text = HEAT.replace("points: 8", "points: 8, noise: 0, gain: 0, time: 0")
    text = text.replace(", {name: wrong, assumed: 0.02}", "")
    study.write_text(text + "models: {KO: {}}\n")
    assert korisk("run", study, "--out", out, "--workers", "0", "--device", "cpu") == 0
    assert "exact" in capsys.readouterr().out
    assert korisk("run", study, "--out", out, "--workers", "0", "--device", "cpu", "--json") == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == 2
