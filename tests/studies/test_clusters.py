"""Clusters as users have them: joined, lost, at odds with the driver, or a batch system's jobs."""

import logging
import socket
import subprocess
import sys
import threading
from pathlib import Path

import dummy_work
import pytest
from dummy_work import cell, tasks
from fleet import fleet
from waiting import counts, until

from korisk.errors import KoriskError, MissingExtraError
from korisk.store.store import Store
from korisk.studies.run import clusters
from korisk.studies.run.clusters import joined_cluster
from korisk.studies.run.engine import Compute, Event, run_study

Captured = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
HERE = Path(dummy_work.__file__).parent


@pytest.mark.parametrize(
    "address", ["tcp://", "nonsense", "host", "tcp://host", "host:0", "tcp://host:99999", "x://h:1"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(KoriskError, match=r"must be like tcp://host:8786") as caught:
        joined_cluster(address, timeout=1.0).__enter__()
    assert address in str(caught.value)


def test_a_refused_port_and_a_silent_one_are_told_in_one_line(capfd: Captured) -> None:
    with socket.socket() as mute:  # takes connections and says nothing
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            silent, refused = mute.getsockname()[1], closed.getsockname()[1]
            before = threading.active_count()
            for port in (silent, refused):
                with pytest.raises(KoriskError, match="no answer within 1 s") as caught:
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
                run_study(asked, work, store, compute=Compute(cluster=cluster), watch=watch)
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
            run_study(tasks(1, 1), cell, store, compute=Compute(cluster=none))
        one.worker()
        with joined_cluster(one.address, gpu=True, patience=0.6) as cluster:
            cluster.client.wait_for_workers(1, timeout=120)
            events: list[Event] = []
            with pytest.raises(KoriskError, match="no worker with a GPU for ") as caught:
                run_study(
                    tasks(1, 1), cell, store, compute=Compute(cluster=cluster), watch=events.append
                )
            assert "--resources GPU=1" in str(caught.value)
            assert [event.kind for event in events] == ["waiting"]
        with joined_cluster(one.address, gpu=None) as found:
            assert not found.gpu
            fit = one.worker("--resources", "GPU=1")
            found.client.wait_for_workers(2, timeout=120)
        with joined_cluster(one.address, gpu=None) as cluster:
            assert cluster.gpu
            run_study(
                tasks(1, 8), dummy_work.tells_process, store, compute=Compute(cluster=cluster)
            )
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
                run_study(tasks(1, 1), cell, store, compute=Compute(cluster=cluster))
            other.kill()
            other.wait()
            until(lambda: not cluster.client.nthreads())
        one.worker(*preload(tmp_path, OTHER_BUILD))
        assert counts(run_study(tasks(1, 1), cell, store, compute=Compute(cluster=cluster))) == (
            1,
            0,
            0,
        )


def test_a_scheduler_needs_no_korisk(store: Store, tmp_path: Path) -> None:
    options = preload(tmp_path, NO_KORISK)
    log = logging.getLogger("distributed.client")
    before = log.level
    with fleet(tmp_path, *options) as one, joined_cluster(one.address) as cluster:
        one.worker()
        assert not log.isEnabledFor(logging.ERROR)
        assert counts(run_study(tasks(1, 2), cell, store, compute=Compute(cluster=cluster))) == (
            2,
            0,
            0,
        )
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

        summary = run_study(
            asked, dummy_work.leaves_a_trace, store, compute=Compute(cluster=cluster), watch=watch
        )
    assert counts(summary) == (3, 0, 0)
    assert [event.task.seed for event in events if event.kind == "retried"] == [1]
    assert [found.usage.attempts for found in store.results()] == [1, 2, 1]
    assert len(list(folder.glob("*seed 1*"))) == 2


def test_without_the_extra_it_is_named(monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'korisk\[dask\]'"):
        joined_cluster("tcp://127.0.0.1:8786").__enter__()


def test_dask_is_imported_for_clusters_alone() -> None:
    code = "import korisk.studies.run.clusters, sys; print('dask' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
