"""Fits in processes of their own: what they may do, what ends with them, and what travels there."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pilot_fits
import pytest
from fleet import dask_here
from pilot_fits import power
from waiting import until

import korisk as kr
from korisk.errors import KoriskError
from korisk.pilots import Compute
from korisk.pilots.fit import FitWork, Reading, pickled
from korisk.store.cells import Task

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture(autouse=True)
def _no_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import the script that they are started from; spare them pytest's, for speed."""
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@linux
def test_each_kind_of_misbehaviour_is_recorded_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(pilot_fits.FOLDER, str(tmp_path))
    names = [fit.__name__ for fit in pilot_fits.BEHAVIOURS]
    pilot = kr.run_pilot(
        pilot_fits.by_seed,
        [8],
        len(names),
        compute=Compute(workers=2),
        quiet=True,
    )
    assert {names[failure.seed]: failure.reason for failure in pilot.failures} == {
        "kills_itself": "its worker died 2 times (exit code -9)",
        "leaves": "SystemExit: 3",
        "raises": "ValueError: no luck with 8",
    }
    good = {"power", "forks", "forks_and_raises", "leaves_things_running"}
    assert {names[fit.seed] for fit in pilot.fits} == good
    assert all(fit.metrics["error"] == power(8, fit.seed) for fit in pilot.fits)
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) == 1
    until(lambda: not any(map(alive, pids)))


@linux
def test_children_end_with_their_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pilot_fits.FOLDER, str(tmp_path))
    names = [fit.__name__ for fit in pilot_fits.MORE_BEHAVIOURS]
    pilot = kr.run_pilot(
        pilot_fits.more_by_seed,
        [8],
        len(names),
        compute=Compute(workers=1),
        quiet=True,
    )
    failed = {names[failure.seed]: failure.reason for failure in pilot.failures}
    assert failed.keys() == {"interrupts_itself", "speaks_badly"}
    assert failed["interrupts_itself"] == "KeyboardInterrupt: of its own"
    assert failed["speaks_badly"].startswith("SpeaksBadly: ")
    expected = {name: power(8, names.index(name)) for name in ("has_a_child", "leaves_a_sleeper")}
    assert {names[fit.seed]: fit.metrics["error"] for fit in pilot.fits} == expected
    [pid] = [int(path.name) for path in tmp_path.iterdir()]
    until(lambda: not alive(pid))


@linux
def test_children_end_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(pilot_fits.__file__).parent)!r})\n"
        "import korisk as kr, pilot_fits\n"
        "compute = kr.pilots.Compute(workers=1)\n"
        "kr.run_pilot(pilot_fits.hangs_with_a_child, [8], 1, compute=compute, quiet=True)\n"
    )
    told = os.environ | {pilot_fits.FOLDER: str(tmp_path)}
    owner = subprocess.Popen([sys.executable, "-c", code], env=told, start_new_session=True)
    try:
        until(lambda: len(list(tmp_path.iterdir())) == 2)
        pids = [int(path.name) for path in tmp_path.iterdir()]
        assert all(map(alive, pids))
    finally:
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
    until(lambda: not any(map(alive, pids)))


def test_fits_that_cannot_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pickled(lambda n, seed: 0.5)  # cloudpickle, which Dask brings, is installed
    held = threading.Lock()
    with pytest.raises(KoriskError, match=r"can import.*lock.*use workers=0"):
        kr.run_pilot(lambda n, seed: held, [8], 1, compute=Compute(workers=1))
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(KoriskError, match="pip install cloudpickle, or use workers=0"):
        kr.run_pilot(lambda n, seed: 0.5, [8], 1, compute=Compute(workers=1))


def test_a_closure_travels_with_cloudpickle() -> None:
    shift = 0.25
    work = FitWork(lambda n, seed: shift + seed, "m", Reading())
    there: FitWork = pickle.loads(pickle.dumps(work))
    task = Task(point="p", seed=1, spec={"n": 8})
    assert there(task, print).rows[0].metrics == {"error": 1.25}


def test_the_same_on_a_cluster() -> None:
    with dask_here(1) as cluster:
        pilot = kr.run_pilot(power, [16, 64], 1, compute=Compute(cluster=cluster))
    assert pilot.curve.error.tolist() == [power(16, 0), power(64, 0)]
