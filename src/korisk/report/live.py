"""The page of a study or a rehearsal while it runs, at an address of this machine alone.

`LocalPort` opens the address before a run writes anything; `live_page` and `live_rehearsal` are
`with` blocks around the run. Another process draws the page, with a low priority and from a file
alone, so that drawing neither slows nor breaks the run. The browser shows `live.html`: a line on
the progress of the run, and the page in a frame, which is replaced when a newer one is drawn;
point, target and scroll position are kept.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

from korisk._json import JsonDict
from korisk.errors import KoriskError
from korisk.files import write_text
from korisk.prediction.answer import Question
from korisk.prediction.rehearsal.callbacks import Callbacks
from korisk.prediction.rehearsal.rehearsal import Rehearsal, Rehearsed
from korisk.prediction.study import PointPrediction
from korisk.report.contents import SUPPLEMENTS, read_contents, refuse_an_empty_one
from korisk.report.local import LocalPort, child_command, child_environment
from korisk.report.page.prediction import rehearsal_page
from korisk.report.page.study import study_page
from korisk.store.usage import Meter
from korisk.studies.run.events import Event, OwnThread, Watch
from korisk.studies.run.progress import Pace

_NICE = 10  # nice value of the process that draws during the run; 19 is the lowest priority
_PAUSE = 2.0  # least seconds between two drawings; the pause is also as long as the last drawing
_WATCHING = 5.0  # seconds since its last request after which a browser is taken to be closed
_LAST_FETCH = 5.0  # seconds for a browser to fetch the last page
# Code of the process that draws; `child_command` imports sys and passes the arguments.
_DRAW = "from korisk.report.live import draw; draw(*sys.argv[1:])"
_DRAW_REHEARSAL = "from korisk.report.live import draw_rehearsal; draw_rehearsal(*sys.argv[1:])"


@contextmanager
def live_page(
    port: LocalPort,
    store: Path,
    pace: Pace,
    *,
    page: Path | None = None,
    target: float | None = None,
) -> Iterator[Watch]:
    """Serve the page of a store during a run, and write the final page."""
    with tempfile.TemporaryDirectory(prefix="korisk-live-") as folder:
        html_file = Path(folder) / "page.html"

        def command(running: bool) -> list[str]:
            # The other process must import the same modules: that registers the supplements.
            modules = {supplement.__module__ for supplement in SUPPLEMENTS} - {"__main__"}
            options = json.dumps(target), json.dumps(running)
            return child_command(_DRAW, str(store), str(html_file), *options, modules=modules)

        def state() -> JsonDict:
            return {"words": str(pace)} | asdict(pace.standing())

        live = _Live(command, state, html_file, page)
        # Stored cells of an earlier run are drawn at once.
        if pace.standing().skipped:
            live.change()

        def watch(event: Event) -> None:
            if event.kind in {"done", "failed"}:  # other events change no result
                live.change()

        with _served(port, live):
            yield watch


@contextmanager
def live_rehearsal(
    port: LocalPort, question: Question, *, title: str, page: Path | None = None
) -> Iterator[Callbacks]:
    """Serve the page of a rehearsal while its networks are trained."""
    finished_models: dict[str, Rehearsal] = {}
    # The browser shows cells of a study; here percent of the work take their place.
    status: JsonDict = {"words": "starting", "share": 0.0, "done": 0, "failed": 0, "total": 100}
    status |= {"waiting": "Waiting for networks of three sizes."}
    with tempfile.TemporaryDirectory(prefix="korisk-live-") as folder:
        request_file, html_file = Path(folder) / "rehearsed.pickle", Path(folder) / "page.html"

        def command(running: bool) -> list[str]:
            # Pickled: the file goes from this process to its child, in a folder of their own.
            models = tuple(map(Rehearsed, finished_models.values()))
            request_file.write_bytes(pickle.dumps((title, question, models)))
            options = str(request_file), str(html_file), json.dumps(running)
            return child_command(_DRAW_REHEARSAL, *options)

        live = _Live(command, lambda: status, html_file, page)

        def progress(words: str, share: float) -> None:
            status.update(words=words, share=share, done=round(100 * share))

        def finished(rehearsal: Rehearsal) -> None:
            finished_models[rehearsal.curve.model] = rehearsal
            live.change()

        with _served(port, live):
            yield Callbacks(progress=progress, finished=finished)


@contextmanager
def _served(port: LocalPort, live: "_Live") -> Iterator[None]:
    """Serve and draw until the block ends; if it did not fail, draw the final page."""
    port.site = live
    # One thread answers the browser, another redraws the page.
    threads = [OwnThread(target=port.serve_forever, args=(0.1,), daemon=True)]
    threads.append(OwnThread(target=live.draw_again, daemon=True))
    for thread in threads:
        thread.start()
    print(f"korisk: live at {port.address} until the run ends", file=sys.stderr, flush=True)
    try:
        yield
        live.stop(threads[1])
        live.finish()
    finally:
        # Also after a failure; stopping twice does no harm.
        live.stop(threads[1])
        port.shutdown()


class _Live:
    """The newest page, and the state that the browser polls.

    `command` takes whether the run goes on, and returns the command line that draws the page into
    `html_file`. `standing` returns the progress of the run. The final page is copied to `page`.
    """

    def __init__(
        self,
        command: Callable[[bool], list[str]],
        standing: Callable[[], JsonDict],
        html_file: Path,
        page: Path | None,
    ) -> None:
        self._command, self._standing = command, standing
        self._html_file, self._page = html_file, page
        # A new drawing is requested; the run has ended; a browser has the final page.
        self._changed, self._stopped, self._fetched = (threading.Event() for _ in range(3))
        self._child: subprocess.Popen[str] | None = None  # the process that is drawing
        self._done = False  # the final page is drawn
        self._last_request = -_WATCHING  # seconds of the monotonic clock; nobody has asked yet
        self.html = b""  # the newest page; empty before the first
        self._version = 0  # number of drawings, by which the browser knows a new page
        self._error = ""  # of the last drawing; empty if it succeeded

    def change(self) -> None:
        """Request a new drawing."""
        self._changed.set()

    def draw_again(self) -> None:
        """Draw after every change, with pauses, until the run ends."""
        while not self._stopped.is_set():
            self._changed.wait()
            self._changed.clear()
            start = time.monotonic()
            if not self._stopped.is_set():
                self._draw()
            # Pause as long as the drawing took: it then uses at most half of one processor.
            self._stopped.wait(max(_PAUSE, time.monotonic() - start))

    def stop(self, thread: threading.Thread) -> None:
        """Stop drawing, and kill a process that is drawing."""
        self._stopped.set()
        self._changed.set()
        # In a loop, because the thread may be about to start another process.
        while thread.is_alive():
            if self._child is not None:
                self._child.kill()
            thread.join(0.1)

    def finish(self) -> None:
        """Draw and write the final page; an open browser has some seconds to fetch it."""
        self._draw(running=False)
        if self._page is not None and not self._error:
            try:
                write_text(self._page, self.html.decode())
            except KoriskError as error:  # reported, not raised: the results are stored
                self._error = str(error)
        if self._error:
            print(f"korisk: no page: {self._error}", file=sys.stderr, flush=True)
        self._done = True
        if time.monotonic() - self._last_request < _WATCHING:
            self._fetched.wait(_LAST_FETCH)

    def _draw(self, *, running: bool = True) -> None:
        """Draw the page in another process; errors are shown in the browser."""
        try:
            with subprocess.Popen(
                self._command(running),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=child_environment(),
            ) as child:
                self._child = child
                _, stderr = child.communicate()
            if child.returncode == 0:
                self.html = self._html_file.read_bytes()
                self._version += 1
            lines = stderr.strip().splitlines() or [f"it ended with code {child.returncode}"]
            self._error = "" if child.returncode == 0 else lines[-1]
        except OSError as error:
            self._error = f"{error.strerror or error}"
        finally:
            self._child = None

    def state(self) -> JsonDict:
        """State that the browser polls every second."""
        self._last_request = time.monotonic()
        page = None if self._page is None else str(self._page)
        drawing = {"version": self._version, "error": self._error, "over": self._done}
        return self._standing() | drawing | {"page": page}

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """Media type and content of one of the three paths; None for others."""
        if path == "/":
            return "text/html", (files("korisk.report") / "live.html").read_bytes()
        if path == "/state":
            return "application/json", json.dumps(self.state()).encode()
        return ("text/html", self.html) if path == "/page" and self.html else None

    def sent(self, path: str) -> None:
        """Note that a browser has the final page, or knows that there is none."""
        if self._done and path == ("/page" if self.html else "/state"):
            self._fetched.set()


def draw(store: str, page: str, target: str, running: str) -> None:
    """Write the page of a store, in a process of its own; the last two arguments are JSON.

    While the run goes on (`running`), a low priority leaves nine tenths of a busy processor to it.
    A target that no stored curve covers yet is left out.
    """
    still_running: bool = json.loads(running)
    if still_running and hasattr(os, "nice"):
        os.nice(_NICE)
    try:
        contents = read_contents(store)
        refuse_an_empty_one(contents)
        # Better a page without the target than none.
        try:
            html = study_page(contents, target=json.loads(target), running=still_running)
        except KoriskError:
            html = study_page(contents, running=still_running)
    except KoriskError as error:
        sys.exit(str(error))
    write_text(page, html)


def draw_rehearsal(file: str, page: str, running: str) -> None:
    """Write the page of a rehearsal, in a process of its own; as `draw`."""
    if json.loads(running) and hasattr(os, "nice"):
        os.nice(_NICE)
    title, question, models = pickle.loads(Path(file).read_bytes())
    spec: JsonDict = {"problem": {}, "models": {}}
    try:
        if not models:
            raise KoriskError("no network has finished at three sizes yet")
        usage = Meter().read()
        # A page needs a study's point: one without a problem, closed forms or models of its own.
        point = PointPrediction(title, spec, (), "", 1, (), usage, rehearsed=models)
        html = rehearsal_page([point], question, title=title, running=True)
        write_text(page, html)
    except KoriskError as error:
        sys.exit(str(error))
