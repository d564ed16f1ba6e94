"""A page that is served while its study runs: what it tells, and to whom; the run is spared."""

import json
import pickle
import re
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from browser import chromium
from waiting import until

import korisk as kr
from korisk.cli import app
from korisk.pilots import Tracking
from korisk.pilots.fit import FitWork, Reading
from korisk.prediction.answer import Question
from korisk.report.live import live_page, live_rehearsal
from korisk.report.local import LocalPort
from korisk.store.cells import Task
from korisk.store.store import Store
from korisk.studies.run.events import Event
from korisk.studies.run.progress import Pace

SIZES = [8, 16, 32, 64]


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


def get(port: int, path: str, host: str = "127.0.0.1", method: str = "GET") -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, headers={"Host": f"{host}:{port}"})
    found = connection.getresponse()
    return found.status, found.read()


def state(port: int) -> Any:
    return json.loads(get(port, "/state")[1])


def power(n: int, seed: int) -> float:
    return float(2 / n + 0.01 * seed / n)


# Draws a page into $5, quickly.
DRAWS = """#!/bin/sh
echo '<!DOCTYPE html><title>page</title><p style="height: 3000px">tall</p>' > "$5"
"""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Pages are drawn by a program that does not look at the store; returns the other one."""
    program, usual = tmp_path / "draws", sys.executable
    program.write_text(DRAWS)
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return usual


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(
        "name: tiny\nproblem: {beam: surrogate}\npoints: [{side: 8, sizes: [4, 8, 16]}]\n"
        "seeds: [1, 2]\npools: {validation: 8, test: 8}\n"
    )
    return path


def task_with(n: int, seed: int = 0) -> Task:
    return Task(point=f"power, n = {n}", seed=seed, spec={"n": n})


def test_the_page_grows_with_its_pilot_and_is_for_this_machine_alone(
    quick: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    port = free_port()
    seen: list[Any] = []

    def fit(n: int, seed: int) -> float:
        if n == SIZES[0]:
            assert get(port, "/page")[0] == 404  # nothing yet, and that is said
            assert b"Waiting for the first" in get(port, "/")[1]
            assert get(port, "/state", host="localhost")[0] == 200
            assert get(port, "/state", host="example.org") == (403, b"")
            for path in ("/pilot.db", "/../pilot.db", "/etc/passwd"):
                assert get(port, path)[0] == 404
            assert get(port, "/", method="HEAD") == (200, b"")
            assert get(port, "/state", host="example.org", method="HEAD")[0] == 403
            for method in ("POST", "PUT"):
                assert get(port, "/state", method=method)[0] == 501
        elif n == SIZES[-1]:  # drawn of fewer sizes, while the last one is being measured
            until(lambda: state(port)["version"] > 0)
            assert get(port, "/page")[0] == 200
            monkeypatch.setattr(sys, "executable", quick)  # the last page is a real one
        seen.append(state(port))
        return power(n, seed)

    store = tmp_path / "pilot.db"
    options: Any = {"seeds": 1, "target": 0.01, "model": "power"}
    pilot = kr.run_pilot(fit, SIZES, store=store, tracking=Tracking(live=port), **options)
    assert not pilot.failures
    assert [(each["done"], each["total"]) for each in seen] == [(n, 4) for n in range(4)]
    assert [each["error"] for each in seen] == [""] * 4
    assert pilot.curve.error.tolist() == kr.run_pilot(power, SIZES, **options).curve.error.tolist()
    assert "power" in (tmp_path / "pilot.html").read_text()
    with pytest.raises(ConnectionRefusedError):
        get(port, "/state")


def test_the_page_of_a_rehearsal_grows(tmp_path: Path) -> None:
    curve = kr.Curve([8, 16, 32, 64], [0.4, 0.3, 0.24, 0.2], model="Net", metric="mse")
    rehearsal = kr.Rehearsal(
        curve=curve, simulated="90 examples", unaltered=60, level=0.05, parameters=4160
    )
    again = pickle.loads(pickle.dumps(rehearsal))  # as it is handed to the process that draws
    assert (again.at(128), again.notes) == (rehearsal.at(128), rehearsal.notes)
    page = tmp_path / "last.html"
    with (
        LocalPort(True) as port,
        live_rehearsal(port, Question(targets=[0.25]), title="scans", page=page) as told,
    ):
        assert told.progress is not None
        assert told.finished is not None
        told.progress("training 12 networks, 9 of 12 finished 75%", 0.75)
        now = state(port.server_port)
        assert (now["words"], now["done"], now["total"]) == (
            "training 12 networks, 9 of 12 finished 75%",
            75,
            100,
        )
        assert get(port.server_port, "/page")[0] == 404
        told.finished(rehearsal)
        until(lambda: state(port.server_port)["version"] > 0)
        shown = get(port.server_port, "/page")[1].decode()
        assert "so far" in shown
        assert "Net" in shown
    assert "0.25" in page.read_text()


def test_a_page_that_cannot_be_drawn_leaves_the_run_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    port = free_port()
    monkeypatch.setattr(sys, "executable", shutil.which("false"))

    def fit(n: int, seed: int) -> float:
        if n > SIZES[0]:
            until(lambda: state(port)["error"])
        return power(n, seed)

    pilot = kr.run_pilot(
        fit, SIZES[:2], 1, store=tmp_path / "pilot.db", tracking=Tracking(live=port)
    )
    assert pilot.sizes == SIZES[:2]
    assert "korisk: no page: " in capsys.readouterr().err
    assert not (tmp_path / "pilot.html").exists()


def test_what_serves_the_page_is_not_held_against_a_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawing, program = tmp_path / "drawing", tmp_path / "draws"
    program.write_text(f"#!/bin/sh\ntouch {drawing}\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    end = threading.Event()
    own: list[subprocess.Popen[bytes]] = []
    seen: list[float] = []
    with (
        LocalPort(True) as port,
        live_page(port, tmp_path / "study.db", Pace()) as watch,
        ExitStack() as browsers,
    ):

        def fit(n: int, seed: int) -> float:
            watch(Event(kind="done", task=task_with(n), done=1, failed=0, total=2, skipped=0))
            browsers.enter_context(socket.create_connection(("127.0.0.1", port.server_port)))
            assert get(port.server_port, "/")[0] == 200  # so the one before has its thread
            until(drawing.exists)
            if seed == 1:
                threading.Thread(target=end.wait, name="idler").start()
                own.append(subprocess.Popen(["sleep", "60"]))
            return power(n, seed)

        try:
            work = FitWork(fit, "power", Reading(), alone=False)
            found = [work(task_with(n=8, seed=seed), seen.append).rows[0].detail for seed in (0, 1)]
        finally:
            end.set()
            for each in own:
                each.kill()
                each.wait()
        monkeypatch.setattr(sys, "executable", shutil.which("false"))
    left = [each.get("left_running") for each in found]
    assert left == [None, "threads: idler; child processes: 1"]


def test_a_run_that_is_refused_leaves_nothing(
    study: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    new = tmp_path / "new"
    command = ["run", str(study), "--out", str(new), "--device", "cpu", "--live"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        used = taken.getsockname()[1]
        with pytest.raises(kr.KoriskError, match=rf"live must be a port .* got {used} "):
            kr.run_pilot(power, SIZES, tracking=Tracking(live=used), store=new / "pilot.db")
        assert app.run([*command, "--port", str(used)]) == 2
    assert re.match(rf"korisk: --port must be a port .* got {used} ", capsys.readouterr().err)
    with pytest.raises(kr.KoriskError, match="live must be"):
        kr.run_pilot(power, SIZES, tracking=Tracking(live=0), store=new / "pilot.db")
    assert not new.exists()
    with Store.create_or_open(new.with_suffix(".db"), {"name": "other"}) as busy:
        before = sorted(tmp_path.iterdir())
        with pytest.raises(kr.KoriskError, match="another"):
            kr.run_pilot(power, SIZES, tracking=Tracking(live=True), store=busy.path)
        assert sorted(tmp_path.iterdir()) == before
    assert "live at" not in capsys.readouterr().err


@pytest.mark.usefixtures("quick")
def test_a_study_gives_the_same_numbers_with_a_live_page(
    study: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = {}
    for name, more in (("plain", []), ("live", ["--live"])):
        command = ["run", str(study), "--out", str(tmp_path / name), "--workers", "0", *more]
        assert app.run([*command, "--device", "cpu"]) == 0
        with Store.read(tmp_path / name / "study.db") as store:
            found[name] = [(each.task.key, each.row.n, each.row.metrics) for each in store.rows()]
    assert found["live"] == found["plain"]
    out, err = capsys.readouterr()
    assert re.search(r"live at http://127\.0\.0\.1:\d+/", err)
    assert str(tmp_path / "live" / "report.html") in out
    assert (tmp_path / "live" / "report.html").exists()
    assert not (tmp_path / "plain" / "report.html").exists()


@pytest.mark.usefixtures("quick")
def test_a_newer_page_keeps_what_its_reader_chose(tmp_path: Path) -> None:
    port = free_port()
    counts: Any = {"failed": 0, "total": 2, "skipped": 0}
    with chromium() as browser:
        page = browser.new_page()
        with LocalPort(port) as at, live_page(at, tmp_path / "study.db", Pace()) as watch:
            page.goto(f"http://127.0.0.1:{port}/#from=a-link")
            until(lambda: "the run to start" in page.inner_text("#nothing"))
            shown = "document.querySelector('iframe:not(.next)')"
            for version, chosen in ((1, "#from=a-link"), (2, "#chosen=there")):
                watch(Event(kind="done", task=task_with(n=8), done=version, **counts))
                source = f"page?{version}{chosen}"
                until(lambda: source in (page.evaluate(f"{shown}?.src") or ""))  # noqa: B023
                until(lambda: page.evaluate(f"{shown}?.contentDocument?.readyState") == "complete")
                assert page.evaluate(f"{shown}.contentWindow.scrollY") == 300 * (version - 1)
                page.evaluate(
                    f"""() => {{ const inner = {shown}.contentWindow;
                    inner.location.hash = 'chosen=there'; inner.scrollTo(0, 300); }}"""
                )

            def followed() -> bool:  # a change before the frame is listened to is not heard
                for choice in ("", "chosen=there"):
                    page.evaluate(f"{shown}.contentWindow.location.hash = '{choice}'")
                return page.url.endswith("#chosen=there")

            until(followed)
        until(lambda: "The run has ended" in page.inner_text("#words"))
