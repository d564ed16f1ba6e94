"""Fits in workers that have children: they may, and these end with the worker and its owner."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pilot_fits
import pytest
from pilot_fits import power
from waiting import until

import korisk as kr

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_children_are_allowed_and_end_with_a_worker_that_has_no_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    monkeypatch.setenv(pilot_fits.FOLDER, str(tmp_path))
    names = [fit.__name__ for fit in pilot_fits.WITHOUT_TIMEOUT]
    pilot = kr.run_pilot(pilot_fits.without_timeout, [8], len(names), workers=1, quiet=True)
    assert {names[failure.seed]: failure.reason for failure in pilot.failures} == {
        "interrupts_itself": "KeyboardInterrupt: of its own",
        "speaks_badly": "SpeaksBadly: (it cannot be told: RuntimeError)",
    }
    assert {names[fit.seed]: fit.metrics["error"] for fit in pilot.fits} == {
        name: power(8, names.index(name)) for name in ("has_a_child", "leaves_a_sleeper")
    }
    [pid] = [int(path.name) for path in tmp_path.iterdir()]
    until(lambda: not alive(pid))


def test_children_end_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(pilot_fits.__file__).parent)!r})\n"
        "import korisk as kr, pilot_fits\n"
        "kr.run_pilot(pilot_fits.hangs_with_a_child, [8], 1, workers=1, quiet=True)\n"
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
