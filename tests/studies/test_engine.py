"""The engine's promises: what is finished is kept, whatever dies; and what each cell cost."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import dummy_work
import pytest
from dummy_work import PAUSE, STUDY, cell, tasks
from waiting import counts, group_lives, until

from korisk.errors import KoriskError
from korisk.store.store import Cell, Store
from korisk.studies.run.engine import Compute, Event, run_study
from korisk.studies.run.events import Queue
from korisk.studies.run.progress import progress

PROGRAM = Path(dummy_work.__file__)


@pytest.fixture(autouse=True)
def _no_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import the script that they are started from; spare them pytest's, for speed."""
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)


def figures(cells: list[Cell]) -> dict[str, Any]:
    return {found.task.key: (found.rows, found.detail) for found in cells}


@pytest.mark.parametrize("workers", [0, 2])
def test_every_cell_is_stored_with_its_cost(store: Store, workers: int) -> None:
    asked = tasks(2, 3)
    assert counts(run_study(asked, cell, store, compute=Compute(workers=workers))) == (6, 0, 0)
    found = list(store.results())
    assert figures(found) == {task.key: (cell(task, print).rows, {"draws": 9}) for task in asked}
    for usage in (one.usage for one in found):
        assert usage.attempts == 1
        assert usage.started > "2026"
        assert usage.started.endswith("+00:00")
        assert usage.seconds >= 0
        assert usage.cpu_seconds is not None
        assert (usage.peak_memory or 0) > 10_000_000
        assert workers == 0 or usage.device_memory is None  # CUDA may be in use here already
        assert set(usage.machine) == {"platform", "processor", "cores"}
        assert {"python", "korisk", "numpy", "scipy"} <= set(usage.versions)
    assert counts(run_study(asked, cell, store, compute=Compute(workers=workers))) == (0, 0, 6)
    assert list(store.results()) == found


def test_each_finished_cell_is_stored_at_once(store: Store) -> None:
    seen = []

    def watch(event: Event) -> None:
        if event.kind == "done":
            with Store.read(store.path) as reader:
                seen.append((event.done, len(list(reader.results()))))

    run_study(tasks(1, 3), cell, store, compute=Compute(workers=1), watch=watch)
    assert seen == [(1, 1), (2, 2), (3, 3)]


def test_tasks_are_grouped_by_point_in_their_order(store: Store) -> None:
    mixed = sorted(tasks(2, 4), key=lambda task: task.seed)
    began: list[str] = []

    def watch(event: Event) -> None:
        if event.kind == "started":
            began.append(event.task.key)

    run_study(mixed, cell, store, watch=watch)
    assert began == [task.key for task in tasks(2, 4)]


def test_a_worker_stays_with_its_point_then_goes_where_nobody_is_then_helps() -> None:
    queue = Queue(tasks(3, 2))
    asked = [
        (None, ["point-1"]),  # somebody is at the first
        ("point-4", []),  # nobody is, and still it stays
        ("point-4", ["point-1"]),  # its point is done: where nobody is
        ("point-16", ["point-1"]),
        ("point-16", ["point-1"]),  # only the first is left: it helps
    ]
    taken = [queue.take(point, busy) for point, busy in asked]
    expected = [("point-4", 0), ("point-4", 1), ("point-16", 0), ("point-16", 1), ("point-1", 0)]
    assert [(task.point, task.seed) for task in taken] == expected
    queue.put_back(taken[-1])
    assert [queue.take().seed, queue.take().seed] == [0, 1]
    assert not queue


def test_workers_know_their_threads_and_this_process_keeps_its_own(store: Store) -> None:
    first, second = tasks(1, 2)
    before = dict(os.environ)
    run_study([first], dummy_work.tells_process, store)
    run_study([second], dummy_work.tells_threads, store, compute=Compute(workers=1, threads=3))
    assert [found.row.metrics for found in store.rows()] == [{"pid": os.getpid()}, {"threads": 3.0}]
    assert dict(os.environ) == before


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak is the process's")
def test_peak_memory_is_the_cells_own(store: Store) -> None:
    asked = tasks(1, 2, bytes=[200_000_000, 1_000])
    run_study(asked, dummy_work.fills_memory, store, compute=Compute(workers=1))
    large, small = (found.usage.peak_memory or 0 for found in store.results())
    assert large > small + 150_000_000


class FakeTorch:
    def __init__(self) -> None:
        self.cuda = self
        self.peaks = [5_000, 5_000]
        self.threads = 0

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return len(self.peaks)

    def reset_peak_memory_stats(self, device: int) -> None:
        self.peaks[device] = 100 + device

    def max_memory_allocated(self, device: int) -> int:
        return self.peaks[device]

    def set_num_threads(self, threads: int) -> None:
        self.threads = threads


def test_device_memory_is_the_cells_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    run_study(tasks(1, 1), cell, store, compute=Compute(workers=0, threads=3))
    assert [found.usage.device_memory for found in store.results()] == [201]
    assert torch.threads == 3


@pytest.mark.parametrize("workers", [0, 1])
def test_an_exception_is_recorded_and_does_not_stop_the_rest(store: Store, workers: int) -> None:
    asked = tasks(1, 4)
    work = dummy_work.raises_on_odd_seeds
    assert counts(run_study(asked, work, store, compute=Compute(workers=workers))) == (2, 2, 0)
    first, second = store.failures()
    assert (first.task.seed, second.task.seed) == (1, 3)
    said, *calls = first.error.splitlines()
    assert said == "KoriskError: odd seeds are not taken"
    assert "dummy_work.py" in calls[-1]
    assert "raises_on_odd_seeds" in calls[-1]
    again = run_study(asked, work, store, compute=Compute(workers=workers))
    assert (again.done, again.failed, again.skipped, again.failed_before) == (0, 0, 2, 2)
    assert counts(
        run_study(asked, cell, store, compute=Compute(workers=workers, retry_failed=True))
    ) == (2, 0, 2)
    assert store.failures() == []


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (dummy_work.out_of_memory, "MemoryError"),
        (dummy_work.names_a_strange_file, "FileNotFoundError: no file ? here\n"),
        (dummy_work.leaves, "SystemExit: 7"),
        (dummy_work.returns_nonsense, "ResultError: array 'objects' must hold numbers"),
    ],
)
def test_what_failed_is_named(store: Store, work: Any, said: str) -> None:
    run_study(tasks(1, 1), work, store)
    [failure] = store.failures()
    assert failure.error.startswith(said)


def test_a_worker_that_dies_once_is_replaced(store: Store, tmp_path: Path) -> None:
    events: list[Event] = []
    asked = tasks(1, 3, folder=str(tmp_path))
    summary = run_study(
        asked, dummy_work.kills_itself_once, store, compute=Compute(workers=1), watch=events.append
    )
    assert counts(summary) == (3, 0, 0)
    assert [found.usage.attempts for found in store.results()] == [1, 2, 1]
    [retried] = [event for event in events if event.kind == "retried"]
    assert (retried.task.seed, retried.words) == (1, "its worker died (exit code -9)")


def test_a_worker_that_always_dies_fails_its_cell_alone(store: Store) -> None:
    events: list[Event] = []
    asked = tasks(1, 3)
    work, watch = dummy_work.kills_itself_always, events.append
    summary = run_study(asked, work, store, compute=Compute(workers=1), watch=watch)
    assert counts(summary) == (2, 1, 0)
    [failure] = store.failures()
    assert failure.error == "its worker died 3 times (exit code -9)"
    assert (failure.usage.attempts, [event.kind for event in events].count("retried")) == (3, 2)


def test_work_that_no_worker_can_import(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KoriskError, match="work must be a function that other processes can"):
        run_study(
            tasks(1, 1), lambda task, report: cell(task, report), store, compute=Compute(workers=1)
        )
    ghost = ModuleType("ghost")  # a module of this process alone, as a notebook is
    exec("def cell(task, report): ...", vars(ghost))
    monkeypatch.setitem(sys.modules, "ghost", ghost)
    with pytest.raises(KoriskError, match=r"processes: ModuleNotFoundError: .*; define it"):
        run_study(tasks(1, 1), vars(ghost)["cell"], store, compute=Compute(workers=1))
    assert store.failures() == []


def test_wrong_numbers_are_refused(store: Store) -> None:
    with pytest.raises(KoriskError, match="attempts must be a whole number >= 1"):
        run_study(tasks(1, 1), cell, store, attempts=0)
    for wrong in ({"workers": -1}, {"threads": 0}):
        with pytest.raises(KoriskError, match=f"{next(iter(wrong))} must be a"):
            Compute(**wrong)  # type: ignore[arg-type]


def test_workers_that_cannot_start_are_told(tmp_path: Path) -> None:
    script = tmp_path / "script.py"  # which workers run too, as a script without a guard is
    script.write_text(
        "if __name__ != '__main__': raise SystemExit(1)\n"
        f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r})\n"
        "import dummy_work\n"
        "from korisk.studies.run.engine import Compute, run_study\n"
        "from korisk.store.store import Store\n"
        f"with Store.create_or_open({str(tmp_path / 'study.db')!r}, dummy_work.STUDY) as store:\n"
        "    asked, compute = dummy_work.tasks(1, 1), Compute(workers=1)\n"
        "    run_study(asked, dummy_work.cell, store, compute=compute)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "workers do not start (exit code 1); call run_study from a file, under if" in done.stderr


@contextmanager
def program(path: Path, *arguments: str, pause: float = 0.1) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, PROGRAM, path, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, PAUSE: str(pause), "TMPDIR": str(path.parent)},
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def wait_for(kind: str, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert kind in (line.strip() for line in process.stdout)


def started(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    with Store.read(path) as store:
        return {found.task.key: found.usage.started for found in store.results()}


def has_more(path: Path, results: int) -> bool:
    return len(started(path)) > results


def test_kills_at_any_moment_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    rng = random.Random(20261115)
    asked = tasks(4, 15)
    known: dict[str, str] = {}
    for kill in range(6):  # each costs the start of a program, and of its workers
        late = kill % 2 == 1  # else while the store is made or opened
        lock = path.with_name("study.db.lock")
        lock.unlink(missing_ok=True)  # the last kill's, which nobody holds
        with program(path, "2" if late else "0") as process:
            if not late:
                until(lock.exists)
            elif kill == 1:
                wait_for("started", process)
            else:  # some cells are through, however slow the machine
                until(partial(has_more, path, len(known)))
            time.sleep(rng.uniform(0.0, 0.4 if late else 0.03))
            os.killpg(process.pid, signal.SIGKILL)
        now = started(path)
        assert now.items() >= known.items()  # none lost, none computed again
        known = now
    assert len(known) >= 2
    assert len(known) < len(asked)
    with program(path, "0", pause=0.0) as process:
        assert process.wait(timeout=120) == 0
    assert started(path).items() >= known.items()
    with Store.create_or_open(tmp_path / "calm.db", STUDY) as calm:
        run_study(asked, cell, calm)
        with Store.read(path) as reader:
            assert figures(list(reader.results())) == figures(list(calm.results()))
            for task in asked:
                assert (reader.arrays(task.key)["curve"] == calm.arrays(task.key)["curve"]).all()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize(
    ("workers", "number"),
    [
        *(("0", signal.SIGINT), ("0", signal.SIGTERM), ("2", signal.SIGINT), ("1", signal.SIGTERM)),
        ("0", signal.SIGHUP),  # of a terminal that is closed
        ("dask", signal.SIGINT),
        pytest.param("dask", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_keeps_results(tmp_path: Path, workers: str, number: signal.Signals) -> None:
    path = tmp_path / "study.db"
    with program(path, workers) as process:
        wait_for("done", process)
        if number == signal.SIGINT and workers != "dask":
            os.killpg(process.pid, number)  # as a terminal does
        else:  # the workers of a cluster are Dask's, which says how they end
            process.send_signal(number)
        assert process.wait(timeout=120) == 130
        assert process.stderr is not None
        assert process.stderr.read() == ""
        until(lambda: not group_lives(process.pid))
    assert 1 <= len(started(path)) < 60
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["study.db"]


def test_workers_do_not_outlive_a_killed_owner(tmp_path: Path) -> None:
    arguments = ["2", "signs_and_sleeps", str(tmp_path)]
    with program(tmp_path / "study.db", *arguments) as process:
        until(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
        process.kill()
        process.wait()  # else the whole group would be killed below
    until(lambda: not group_lives(process.pid))


def test_two_programs_on_one_store_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    with program(path, "0", pause=0.005) as one, program(path, "0", pause=0.005) as other:
        assert (one.wait(timeout=120), other.wait(timeout=120)) == (0, 0)
    assert set(started(path)) == {task.key for task in tasks(4, 15)}


def test_events_tell_counts_and_fractions(store: Store) -> None:
    run_study(tasks(1, 1), cell, store)
    os.environ[PAUSE] = "0.3"
    events: list[Event] = []
    try:
        run_study(tasks(1, 2), cell, store, compute=Compute(workers=1), watch=events.append)
    finally:
        del os.environ[PAUSE]
    assert [event.kind for event in events] == ["started", "progress", "progress", "done"]
    assert [event.fraction for event in events] == [0.0, 0.0, 0.5, 1.0]
    assert [event.done for event in events] == [0, 0, 0, 1]
    assert {(event.total, event.skipped) for event in events} == {(1, 1)}


def test_one_line_in_a_terminal_and_failures_above_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [task, other] = tasks(1, 2)
    count: Any = {"done": 1, "total": 3, "skipped": 0}
    failed = Event(kind="failed", task=other, failed=1, words="ValueError: [no]\n  x", **count)
    with progress(0, lines=print) as watch:  # no terminal
        assert watch is print
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with progress(0, quiet=True) as watch:
        assert watch is None
    assert capsys.readouterr() == ("", "")
    with progress(2, skipped=7) as watch:
        assert watch is not None
        watch(failed)
        watch(Event(kind="progress", task=task, failed=1, fraction=0.5, **count))
        print("what a cell prints")
    out, err = capsys.readouterr()
    assert "point-1, seed 1: failed: ValueError: [no]" in err
    # A run may have more cells than were announced.
    assert "1 of 2 cells, 1 failed, 7 already done" in err
    assert " left" in err
    assert out == "what a cell prints\n"
