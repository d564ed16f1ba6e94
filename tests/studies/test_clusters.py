"""Clusters as users have them: joined, lost, at odds with the driver, or a batch system's jobs."""

import logging
import math
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import distributed
import dummy_work
import pytest
from dummy_work import PAUSE, STUDY, cell, tasks
from fleet import fleet
from waiting import counts, group_lives, until

from korisk.errors import KoriskError, MissingExtraError
from korisk.files import read_yaml
from korisk.store.store import Store
from korisk.studies.run import clusters
from korisk.studies.run.clusters import job_cluster, job_script, joined_cluster, local_cluster
from korisk.studies.run.engine import Event, run_study

Captured = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
HERE = Path(dummy_work.__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "slurm_options.yaml"


@pytest.mark.parametrize(
    "address", ["tcp://", "nonsense", "host", "tcp://host", "host:0", "tcp://host:99999", "x://h:1"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(KoriskError, match=r"must be like tcp://host:8786") as caught:
        joined_cluster(address, timeout=1.0).__enter__()
    assert address in str(caught.value)


def test_a_refused_port_is_told_from_a_silent_one_in_one_line(capfd: Captured) -> None:
    with socket.socket() as mute:  # takes connections and says nothing
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            silent, refused = mute.getsockname()[1], closed.getsockname()[1]
            before = threading.active_count()
            for port, said in ((silent, "no answer within 1 s"), (refused, "was refused")):
                with pytest.raises(KoriskError, match=said) as caught:
                    joined_cluster(f"127.0.0.1:{port}", timeout=1.0).__enter__()
                assert str(caught.value).startswith(f"tcp://127.0.0.1:{port}: ")
                assert "\n" not in str(caught.value)
    assert (threading.active_count(), capfd.readouterr()) == (before, ("", ""))


def test_a_killed_scheduler_ends_one_run(store: Store, tmp_path: Path, capfd: Captured) -> None:
    asked = tasks(2, 10, folder=str(tmp_path), pause=0.02)
    work = dummy_work.leaves_a_trace
    with fleet(tmp_path / "first") as first:
        first.worker()
        first.worker()

        def watch(event: Event) -> None:
            if event.kind == "done" and event.done == 5:
                first.scheduler.kill()

        with joined_cluster(first.address) as cluster:
            with pytest.raises(KoriskError, match=r"the scheduler is gone; .* run again") as caught:
                run_study(asked, work, store, cluster=cluster, watch=watch)
            assert first.address in str(caught.value)
    kept = {found.task.key: found.usage.started for found in store.results()}
    assert 5 <= len(kept) < 20
    summary = run_study(asked, work, store)
    assert counts(summary) == (20 - len(kept), 0, len(kept))
    assert {one.task.key: one.usage.started for one in store.results()}.items() >= kept.items()
    assert capfd.readouterr() == ("", "")


def test_gpu_cells_go_to_gpu_workers_only(store: Store, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(clusters, "_QUIET_WAIT", 0.0)
    with fleet(tmp_path) as one:
        lack = f"no worker for 1 s; start one.*dask worker {one.address}"
        with (
            joined_cluster(one.address, patience=1.0) as none,
            pytest.raises(KoriskError, match=lack),
        ):
            run_study(tasks(1, 1), cell, store, cluster=none)
        one.worker()
        with joined_cluster(one.address, gpu=True, patience=0.6) as cluster:
            cluster.client.wait_for_workers(1, timeout=120)
            events: list[Event] = []
            with pytest.raises(KoriskError, match="no worker with a GPU for ") as caught:
                run_study(tasks(1, 1), cell, store, cluster=cluster, watch=events.append)
            assert "--resources GPU=1" in str(caught.value)
            assert [event.kind for event in events] == ["waiting"]
        with joined_cluster(one.address, gpu=None) as found:
            assert not found.gpu
            fit = one.worker("--resources", "GPU=1")
            found.client.wait_for_workers(2, timeout=120)
        with joined_cluster(one.address, gpu=None) as cluster:
            assert cluster.gpu
            run_study(tasks(1, 8), dummy_work.tells_process, store, cluster=cluster)
    assert {found.row.metrics["pid"] for found in store.rows()} == {fit.pid}


OTHER_NUMPY = """
from korisk.studies.run import clusters
found = clusters.versions()
clusters.versions = lambda: {**found, "numpy": "1.0.0", "torch": "0.0.0"}
"""
OTHER_BUILD = """
from korisk.studies.run import clusters
found = clusters.versions()
patched = {"python": found["python"] + "1", "torch": found["torch"].partition("+")[0] + "+other"}
clusters.versions = lambda: {**found, **patched}
"""
NO_KORISK = """
import sys
sys.modules["korisk"] = None
"""


def preload(folder: Path, code: str) -> tuple[str, str]:
    (folder / "preload.py").write_text(code)
    return "--preload", str(folder / "preload.py")


def test_workers_that_do_not_match_are_refused_by_name(store: Store, tmp_path: Path) -> None:
    with fleet(tmp_path) as one, joined_cluster(one.address) as cluster:
        for code, words in (
            (OTHER_NUMPY, r"worker tcp://.*: numpy is .* here and 1\.0\.0"),
            (NO_KORISK, r"cannot use korisk as it is here: .*korisk"),
        ):
            other = one.worker(*preload(tmp_path, code))
            with pytest.raises(KoriskError, match=words):
                run_study(tasks(1, 1), cell, store, cluster=cluster)
            other.kill()
            other.wait()
            until(lambda: not cluster.client.nthreads())
        one.worker(*preload(tmp_path, OTHER_BUILD))
        assert counts(run_study(tasks(1, 1), cell, store, cluster=cluster)) == (1, 0, 0)


def test_a_scheduler_needs_no_korisk(store: Store, tmp_path: Path) -> None:
    options = preload(tmp_path, NO_KORISK)
    log = logging.getLogger("distributed.client")
    before = log.level
    with fleet(tmp_path, *options) as one, joined_cluster(one.address) as cluster:
        one.worker()
        assert not log.isEnabledFor(logging.ERROR)
        assert counts(run_study(tasks(1, 2), cell, store, cluster=cluster)) == (2, 0, 0)
    assert log.level == before


@pytest.mark.slow
def test_a_worker_that_returns_is_another(store: Store, tmp_path: Path, monkeypatch: Patch) -> None:
    """Between two looks at who is there, a scheduler would run the lost cell again by itself."""
    folder = tmp_path / "traces"
    folder.mkdir()
    asked = tasks(1, 3, folder=str(folder), pause=0.5)
    events: list[Event] = []
    with fleet(tmp_path) as one, joined_cluster(one.address) as cluster:
        before = one.worker()
        cluster.client.wait_for_workers(1, timeout=120)
        [address] = cluster.client.nthreads()
        monkeypatch.setattr(clusters, "_SURVEY", 30.0)

        def watch(event: Event) -> None:
            events.append(event)
            if event.kind == "started" and event.task.seed == 1 and before.poll() is None:
                until(lambda: list(folder.glob("*seed 1*")))
                before.kill()
                before.wait()
                one.worker("--worker-port", address.rpartition(":")[2])
                monkeypatch.setattr(clusters, "_SURVEY", 0.5)
                # The driver's loop stands still meanwhile.
                until(lambda: address not in cluster.client.nthreads())
                until(lambda: address in cluster.client.nthreads())

        summary = run_study(asked, dummy_work.leaves_a_trace, store, cluster=cluster, watch=watch)
    assert counts(summary) == (3, 0, 0)
    assert [event.task.seed for event in events if event.kind == "retried"] == [1]
    assert [found.usage.attempts for found in store.results()] == [1, 2, 1]
    assert len(list(folder.glob("*seed 1*"))) == 2


def test_local_workers_know_their_threads(store: Store, monkeypatch: Patch) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    before = dict(os.environ)
    with local_cluster(1, threads=3) as cluster:
        run_study(tasks(1, 1), dummy_work.tells_threads, store, cluster=cluster)
    assert [found.row.metrics["threads"] for found in store.rows()] == [3.0]
    assert dict(os.environ) == before
    with pytest.raises(KoriskError, match="workers must be a whole number >= 1, got 0"):
        local_cluster(0).__enter__()


def test_without_the_extra_it_is_named(monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    for made in (joined_cluster("tcp://127.0.0.1:8786"), local_cluster(1)):
        with pytest.raises(MissingExtraError, match=r"pip install 'korisk\[dask\]'"):
            made.__enter__()


def test_dask_is_imported_for_clusters_alone() -> None:
    code = "import korisk.studies.run.clusters, sys; print('dask' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


SBATCH = """#!/bin/sh
number=$$
cp "$1" {folder}/jobs/$number.sh
setsid sh {folder}/jobs/$number.sh > {folder}/$number.log 2>&1 &
echo $! > {folder}/$number.pid
echo "Submitted batch job $number"
"""
SCANCEL = """#!/bin/sh
echo $1 >> {folder}/cancelled
kill -9 -- -$(cat {folder}/$1.pid)
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: Patch) -> Iterator[Path]:
    """A batch system of this machine: jobs start at once, each a process group of its own."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "jobs").mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (programs / name).write_text(text.format(folder=tmp_path))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    yield tmp_path
    for group in job_groups(tmp_path):
        os.killpg(group, signal.SIGKILL)


def job_groups(folder: Path) -> list[int]:
    return [group for file in folder.glob("*.pid") if group_lives(group := int(file.read_text()))]


def options(**changes: Any) -> dict[str, Any]:
    found = {"cores": 1, "memory": "1 GB", "walltime": "00:10:00", "interface": "lo"}
    return found | changes


def test_cells_run_in_jobs_lost_ones_return_and_all_are_cancelled_at_the_end(
    slurm: Path, store: Store, monkeypatch: Patch, capfd: Captured
) -> None:
    monkeypatch.setattr(clusters, "_RENEWAL", 0.5)
    soon = distributed.dask.config.set({"distributed.deploy.lost-worker-timeout": "0.2 s"})
    chosen = options(
        worker_extra_args=["--resources", "GPU=1"],
        job_extra_directives=["--gres=gpu:1"],
        job_script_prologue=[
            f"export PYTHONPATH={HERE}:{os.environ.get('PYTHONPATH', '')}",
            f"export {PAUSE}=0.1",
        ],
        local_directory=str(slurm),
    )

    def watch(event: Event) -> None:
        if event.kind == "done" and event.done == 2:
            [group] = job_groups(slurm)
            os.killpg(group, signal.SIGKILL)  # as at the end of its walltime

    with soon, job_cluster("slurm", 1, chosen) as cluster:
        assert cluster.gpu
        assert math.isinf(cluster.patience)  # which a test has not
        impatient = replace(cluster, patience=60.0)
        summary = run_study(tasks(2, 3), cell, store, cluster=impatient, watch=watch)
        assert (counts(summary), len(job_groups(slurm))) == ((6, 0, 0), 1)
    until(lambda: not job_groups(slurm))
    jobs = list((slurm / "jobs").iterdir())
    assert len(jobs) == 2
    assert {job.stem for job in jobs} == set((slurm / "cancelled").read_text().split())
    assert all("#SBATCH --gres=gpu:1\n" in job.read_text() for job in jobs)
    with Store.create_or_open(slurm / "local.db", STUDY) as local:
        run_study(tasks(2, 3), cell, local, workers=0)
        assert [one.rows for one in local.results()] == [one.rows for one in store.results()]
    assert capfd.readouterr() == ("", "")


def test_refused_jobs_are_told_in_a_line(slurm: Path, monkeypatch: Patch, capfd: Captured) -> None:
    before = threading.active_count()
    refusal = "#!/bin/sh\necho 'error: invalid partition' >&2\nexit 1\n"
    (slurm / "bin" / "sbatch").write_text(refusal)
    with pytest.raises(KoriskError, match=r"2 slurm jobs: .*error: invalid partition") as caught:
        job_cluster("slurm", 2, options()).__enter__()
    assert "\n" not in str(caught.value)
    assert threading.active_count() == before  # and nothing goes on in the background
    monkeypatch.setenv("PATH", str(slurm))
    with pytest.raises(KoriskError, match=r"sbatch.*where the commands of slurm are"):
        job_cluster("slurm", 2, options()).__enter__()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("system", "asked", "lines"),
    [
        ("slurm", {"queue": "fast", "account": "us"}, ["#SBATCH -p fast", "#SBATCH -t 00:10:00"]),
        (
            *("pbs", {"queue": "fast", "resource-spec": "select=1"}),
            ["#PBS -q fast", "#PBS -l select=1"],
        ),
        ("lsf", {"project": "us"}, ['#BSUB -P "us"', "#BSUB -W 00:10:00"]),
        ("sge", {"job_extra_directives": ["-V"]}, ["#$ -V"]),
        ("moab", {}, ["#PBS -l walltime=00:10:00"]),
    ],
)
def test_options_are_dask_jobqueues(system: str, asked: dict[str, Any], lines: list[str]) -> None:
    script = job_script(system, options(cores=4, **asked))
    assert set(lines) <= set(script.splitlines())
    assert "OMP_NUM_THREADS=4" in script
    assert "tcp://ADDRESS-OF-THE-SCHEDULER" in script
    assert "--nthreads 4" in script
    assert "GPU" not in script


def test_what_is_missing_comes_from_dasks_own_configuration() -> None:
    mine = {"jobqueue.slurm.cores": 6, "jobqueue.slurm.job-script-prologue": ["module load x"]}
    with distributed.dask.config.set(mine):
        script = job_script("slurm", {"memory": "1 GB"})
    assert "#SBATCH --cpus-per-task=6" in script
    assert script.index("export OMP_NUM_THREADS=6") < script.index("module load x")


@pytest.mark.parametrize(
    ("system", "asked", "said"),
    [
        ("spark", {}, "system must be one of slurm, pbs,"),
        *(("slurm", {"waltime": "2"}, "'waltime'"), ("slurm", {"memory": "much"}, "much")),
        ("slurm", {"cores": "four"}, "four"),
        ("slurm", {"cores": None}, "the options of slurm"),
        ("slurm", {"job_script_prologue": "module load"}, "job_script_prologue must be a list"),
    ],
)
def test_wrong_options_are_told_in_one_line(system: str, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(KoriskError) as caught:
        job_script(system, options(**asked))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_example_gives_a_script_with_all_its_lines() -> None:
    asked = read_yaml(EXAMPLE)
    script = job_script("slurm", asked)
    lines = [f"#SBATCH {line}" for line in asked["job_extra_directives"]]
    assert {*lines, *asked["job_script_prologue"]} <= set(script.splitlines())
    assert f"--interface {asked['interface']}" in script


def test_loading_the_batch_systems_leaves_ctrl_c_alone() -> None:
    code = (
        "import signal; from korisk.studies.run.clusters import job_script;"
        "job_script('slurm', {'cores': 1, 'memory': '1 GB'});"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
