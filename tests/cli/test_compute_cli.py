"""Where `korisk run` has its cells run: options and clusters."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dummy_work
import pytest
from commands import content, korisk, outputs
from fleet import fleet

from korisk.cli.common.options import Running
from korisk.cli.run import run_tasks
from korisk.errors import KoriskError
from korisk.store.cells import Task
from korisk.store.store import Store
from korisk.store.usage import cores
from korisk.studies.run import clusters
from korisk.studies.run.clusters import Cluster
from korisk.studies.run.compute import groups, opened

STUDY = """
name: tiny
problem: {beam: surrogate}
points: [{side: 8, sizes: [4, 8, 16]}]
seeds: [1, 2]
pools: {validation: 8, test: 8}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY)
    return path


def results(folder: Path) -> list[Any]:
    with Store.read(folder / "study.db") as store:
        return [
            (each.task.key, each.row.model, each.row.n, each.row.metrics) for each in store.rows()
        ]


@pytest.mark.slow
def test_a_dask_cluster_gives_the_results_of_this_process(study: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    with fleet(tmp_path / "dask") as dask:
        dask.worker()
        for out, where in ((here, ("--workers", 0)), (there, ("--scheduler", dask.address))):
            assert korisk("run", study, "--out", out, "--device", "cpu", *where) == 0
    found, expected = results(there), results(here)
    assert [each[:3] for each in found] == [each[:3] for each in expected]
    assert len(found) == 2 * (3 + 4)
    for (*_, ours), (*_, theirs) in zip(found, expected, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9)  # this process may have more threads


def test_where_nothing_is_left_to_do_no_scheduler_is_asked(study: Path, tmp_path: Path) -> None:
    out, nobody = tmp_path / "out", ("--scheduler", "nonsense:")
    assert korisk("run", study, "--out", out, "--device", "cpu", "--workers", "0") == 0
    assert korisk("run", study, "--out", out, *nobody) == 0
    assert korisk("run", study, "--out", tmp_path / "new", *nobody) == 2
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--scheduler", "tcp://h:1", "--workers", "2"], "--workers counts processes of this"),
        (["--scheduler", "nonsense:"], "must be like tcp://host:8786"),
        (["--workers", "-1"], "--workers must be"),
        (["--scheduler", "tcp://h:1", "--device", "tpu"], "--device must be"),
    ],
)
def test_wrong_options_are_one_line(
    study: Path, tmp_path: Path, given: list[str], words: str
) -> None:
    (line,) = outputs("run", study, "--out", tmp_path / "out", *given, code=2)[1].splitlines()
    assert words in line


def test_a_study_without_pytorch_is_refused_with_the_extra(study: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from korisk.cli import app;"
        f"sys.exit(app.run(['run', {str(study)!r}, '--out', {str(tmp_path / 'o')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert re.search(r"needs PyTorch.*pip install 'korisk\[torch\]'", done.stderr)


@pytest.mark.parametrize(
    ("device", "offered", "used"),
    [("auto", True, "cuda"), ("auto", False, "cpu"), ("cpu", True, "cpu"), ("cuda", False, "cuda")],
)
def test_cells_use_gpus_where_workers_offer_them_or_where_told(
    monkeypatch: pytest.MonkeyPatch, device: str, offered: bool, used: str
) -> None:
    @contextmanager
    def joined(address: str, gpu: bool | None = None) -> Iterator[Cluster]:
        yield Cluster(client=None, name=address, gpu=offered if gpu is None else gpu)

    monkeypatch.setattr(clusters, "joined_cluster", joined)
    with opened("tcp://h:1", device) as (cluster, where):
        assert cluster is not None
        assert (cluster.gpu, where) == (used == "cuda", used)


def test_processes_and_threads_depend_on_the_cell_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = {"side": 8, "views": 4, "bins": 8}
    small = Task(point="small", seed=1, spec={"problem": problem})
    large = Task(point="large", seed=1, spec={"problem": problem | {"side": 256}})
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    found = groups([small, large], "cpu")
    assert found == [([small], cores(), 1), ([large], 1, cores())]
    assert groups([small], "cuda") == [([small], 0, None)]
    assert groups([small, large], "auto", "tcp://h:1") == [([small, large], 1, None)]
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert [threads for _, _, threads in groups([small, large], "cpu")] == [3, 3]


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_bits(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    for workers in (1, 2):
        outputs("run", study, "--out", tmp_path / f"{workers}", "--workers", workers)
    assert results(tmp_path / "1") == results(tmp_path / "2")


def refused(out: Path, words: str) -> None:
    """A run of cells in `out` that ends before the first of them."""
    asked = dummy_work.tasks(1, 1, problem={})
    with pytest.raises(KoriskError, match=words):
        run_tasks(asked, dummy_work.STUDY, out, Running(), quiet=True)


def test_a_refused_run_leaves_no_folder_and_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise KoriskError("no scheduler answers")

    monkeypatch.setattr("korisk.studies.run.compute.opened", refuse)
    refused(tmp_path / "out", "no scheduler answers")
    assert list(tmp_path.iterdir()) == []


def test_the_store_of_another_writer_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study.db"
    with Store.create_or_open(path, dummy_work.STUDY, tasks=dummy_work.tasks(1, 1)):
        # It came between our look and our lock.
        monkeypatch.setattr(Path, "exists", lambda self, **how: False)
        refused(tmp_path, "is being written by")
        monkeypatch.undo()
        assert path.exists()
    with Store.read(path) as store:
        assert list(store.results()) == []


HEAT = """
name: heat
problem: {kind: pde, points: 8, noise: 0, gain: 0, time: 0}
points: [{name: exact}]
sizes: [2, 4]
seeds: [1, 2]
pools: {validation: 4, test: 4}
models: {KO: {}}
"""


def test_a_study_without_an_error_is_stored_and_says_so(tmp_path: Path) -> None:
    """Gains of one, no noise, the exact flow: KO has nothing to learn and errs by nothing."""
    study, out = tmp_path / "heat.yaml", tmp_path / "out"
    study.write_text(HEAT)
    command = ("run", study, "--out", out, "--workers", "0", "--device", "cpu")
    assert "exact" in outputs(*command)[0]
    assert content(*command)["skipped"] == 2
