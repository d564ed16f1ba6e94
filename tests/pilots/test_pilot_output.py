"""What fits print in this process, and exceptions that cannot speak."""

import contextlib
import io
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pilot_fits import KeepsSilent, RefusesNotes, SpeaksBadly, power
from waiting import until

import korisk as kr
from korisk.pilots.fit import LENGTH, Printed


@contextlib.contextmanager
def screen(folder: Path) -> Iterator[Path]:
    """A file for stdout and stderr, which has a number, as a terminal does."""
    path = folder / "screen"
    with path.open("w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        yield path


def test_a_fit_has_a_real_file_and_can_neither_close_nor_lose_it(tmp_path: Path) -> None:
    with screen(tmp_path) as shown:
        before = sys.stdout

        def fit(n: int, seed: int) -> float:
            assert sys.stdout.fileno() == before.fileno()
            assert sys.stdout.encoding.lower() == "utf-8"
            assert not sys.stdout.isatty()
            sys.stdout.writelines(["kept\n"])
            sys.stdout.close()
            sys.stdout = None
            return power(n, seed)

        pilot = kr.run_pilot(fit, [8, 16], 2)
        assert pilot.failures == ()
        assert set(pilot.printed.values()) == {"kept\n"}
        assert sys.stdout is before
        print("after", flush=True)
        assert shown.read_text() == "after\n"


def test_a_handler_of_logging_works_on(tmp_path: Path) -> None:
    with screen(tmp_path) as shown:
        log = logging.Logger("made by the fit")

        def fit(n: int, seed: int) -> float:
            if not log.handlers:
                log.addHandler(logging.StreamHandler())
            log.warning("n = %d", n)
            return power(n, seed)

        pilot = kr.run_pilot(fit, [8, 16], 1)
        assert pilot.printed == {(8, 0): "n = 8\n", (16, 0): "n = 16\n"}
        log.warning("after")
        assert shown.read_text() == "after\n"


def test_each_thread_has_its_own_output(tmp_path: Path) -> None:
    with screen(tmp_path) as shown:
        before, both, go_on = sys.stdout, threading.Barrier(3), threading.Event()
        found: dict[str, kr.Pilot] = {}

        def pilot_of(name: str, waits: bool) -> None:
            def fit(n: int, seed: int) -> float:
                print("of", name)
                both.wait()
                if waits:
                    assert go_on.wait(20)
                print("end of", name)
                return power(n, seed)

            found[name] = kr.run_pilot(fit, [8], 1, quiet=True)

        threads = [
            threading.Thread(target=pilot_of, args=each) for each in (("a", False), ("b", True))
        ]
        for thread in threads:
            thread.start()
        both.wait()
        print("of neither", flush=True)
        threads[0].join()
        go_on.set()  # the second ends after the first has put things back
        threads[1].join()
        assert {name: pilot.printed[8, 0] for name, pilot in found.items()} == {
            name: f"of {name}\nend of {name}\n" for name in "ab"
        }
        assert sys.stdout is before
        assert shown.read_text() == "of neither\n"


def test_threads_that_a_fit_starts_are_its_own_until_it_ends(tmp_path: Path) -> None:
    with screen(tmp_path) as shown:
        ended = threading.Event()
        late: list[threading.Thread] = []

        def talk() -> None:
            print("from within")
            ended.wait(20)
            print("too late", flush=True)

        def fit(n: int, seed: int) -> float:
            if n == 16:
                ended.set()
                late[0].join()
            else:
                late.append(threading.Thread(target=talk))
                late[0].start()
                until(pilot_saw)
            return power(n, seed)

        def pilot_saw() -> bool:
            return "from within" in text()

        with caught(whole_process=False) as text:
            pilot_of_one = fit(8, 0)
        assert pilot_of_one > 0
        pilot = kr.run_pilot(fit, [16], 1)
        assert pilot.printed == {}
        assert shown.read_text() == "too late\n"


def test_a_stream_inside_a_stream() -> None:
    own = io.StringIO()

    def fit(n: int, seed: int) -> float:
        print("outer")
        inner = kr.run_pilot(inside, [4], 1)
        assert inner.printed == {(4, 0): "inner\n"}
        print("outer again", file=own)
        return power(n, seed)

    def inside(n: int, seed: int) -> float:
        print("inner")
        return 0.5

    pilot = kr.run_pilot(fit, [8], 1)
    assert pilot.printed == {(8, 0): "outer\n"}
    assert own.getvalue() == "outer again\n"


def test_failed_fits_keep_both_ends_of_their_output() -> None:
    def fit(n: int, seed: int) -> float:
        print("begin" + "x" * 30_000 + "end")
        raise ValueError("E" * (10 if seed else 9_000))

    pilot = kr.run_pilot(fit, [8], 2)
    for failure in pilot.failures:
        assert failure.printed.startswith("begin")
        assert failure.printed.endswith("end\n")
        assert len(failure.printed) < LENGTH + 100
        assert len(failure.reason) <= 4_000


@pytest.mark.parametrize("error", [SpeaksBadly(), KeepsSilent("said"), RefusesNotes("said")])
def test_exceptions_that_cannot_speak_are_failures_of_their_fit_alone(error: Exception) -> None:
    def fit(n: int, seed: int) -> float:
        print("printed")
        if seed == 1:
            raise error
        return power(n, seed)

    pilot = kr.run_pilot(fit, [8, 16], 2)
    assert len(pilot.fits) == 2
    assert all(failure.reason.startswith(type(error).__name__) for failure in pilot.failures)
