"""The page of a study or a rehearsal while it runs, at an address of this machine alone.

`LocalPort` opens the address before a run writes anything; `live_page` and `live_rehearsal` are
`with` blocks around the run. Another process draws the page, with a low priority and from a file
alone, so that drawing neither slows nor breaks the run. What the browser shows is `live.html`: a
line on where the run stands, and the page in a frame, replaced when a newer one is drawn; point,
target and place on the page are kept.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from importlib.resources import files
from pathlib import Path

from korisk._json import JsonDict
from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.files import write_text
from korisk.prediction.answer import Question
from korisk.prediction.misfit import Belief
from korisk.prediction.rehearsal.callbacks import Callbacks
from korisk.prediction.rehearsal.rehearsal import Rehearsal
from korisk.prediction.rehearsal.rehearsed import Rehearsed
from korisk.prediction.study import PointPrediction
from korisk.report.contents import SUPPLEMENTS, read_contents, refuse_an_empty_one
from korisk.report.local import LocalPort, child_command, child_environment
from korisk.report.page.rehearsal import rehearsal_page
from korisk.report.page.study import study_page
from korisk.store.usage import Meter
from korisk.studies.run.events import Event, OwnThread, Watch
from korisk.studies.run.progress import Pace

_NICE = 10  # of the process that draws while the run goes on
_PAUSE = 2.0  # seconds between two drawings, at least; and as long as one takes
_WATCHED = 5.0  # seconds since the last request, up to which somebody watches
_FAREWELL = 5.0  # seconds for a browser to fetch the last page
_CURVES = ("curve", "halved")  # fields of a rehearsal
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
    """Serve the page of a store during a run, and write the last one.

    Parameters
    ----------
    port : LocalPort
        Where it is served.
    store : Path
        The file that the run writes.
    pace : Pace
        Where the run stands.
    page : Path, optional
        Where the last page is written, when the run has ended. Default: nowhere.
    target : float, optional
        The first target of the page.

    Yields
    ------
    callable
        To be called with every event of the run.
    """
    with tempfile.TemporaryDirectory(prefix="korisk-live-") as folder:
        drawn = Path(folder) / "page.html"

        def command(at_leisure: bool) -> list[str]:
            # Importing their modules registers the supplements.
            modules = {supplement.__module__ for supplement in SUPPLEMENTS} - {"__main__"}
            options = json.dumps(target), json.dumps(at_leisure)
            return child_command(_DRAW, str(store), str(drawn), *options, modules=modules)

        def state() -> JsonDict:
            return {"words": str(pace)} | asdict(pace.standing())

        live = _Live(command, state, drawn, page)
        if pace.standing().skipped:
            live.change()

        def watch(event: Event) -> None:
            if event.kind in {"done", "failed"}:  # a cell that has ended changes the page
                live.change()

        with _served(port, live):
            yield watch


@contextmanager
def live_rehearsal(
    port: LocalPort, asked: Question, *, title: str, page: Path | None = None
) -> Iterator[Callbacks]:
    """Serve the page of a rehearsal while its networks are trained.

    Parameters
    ----------
    port : LocalPort
        Where it is served.
    asked : Question
        Targets and the level.
    title : str
        Of the page.
    page : Path, optional
        Where the last page is written, when the rehearsal has ended. Default: nowhere.

    Yields
    ------
    Callbacks
        To be called by the rehearsal: its progress, and what has finished.
    """
    rehearsed: dict[str, Rehearsal] = {}
    standing: JsonDict = {"words": "starting", "share": 0.0, "done": 0, "failed": 0, "total": 100}
    standing |= {"waiting": "Waiting for networks of three sizes."}
    with tempfile.TemporaryDirectory(prefix="korisk-live-") as folder:
        content, drawn = Path(folder) / "rehearsed.json", Path(folder) / "page.html"

        def command(at_leisure: bool) -> list[str]:
            told: JsonDict = {"title": title, "asked": vars(asked)}
            told["rehearsals"] = [_plain(rehearsal) for rehearsal in rehearsed.values()]
            content.write_text(json.dumps(told), encoding="utf-8")
            options = str(content), str(drawn), json.dumps(at_leisure)
            return child_command(_DRAW_REHEARSAL, *options)

        live = _Live(command, lambda: standing, drawn, page)

        def progress(words: str, share: float) -> None:
            standing.update(words=words, share=share, done=round(100 * share))

        def finished(rehearsal: Rehearsal) -> None:
            rehearsed[rehearsal.curve.model] = rehearsal
            live.change()

        with _served(port, live):
            yield Callbacks(progress=progress, finished=finished)


@contextmanager
def _served(port: LocalPort, live: "_Live") -> Iterator[None]:
    """Serve and draw until the block ends; then draw the last page, if it did not fail."""
    port.site = live
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
        live.stop(threads[1])
        port.shutdown()


class _Live:
    """The newest page, and what the browser is told about it."""

    def __init__(
        self,
        command: Callable[[bool], list[str]],
        standing: Callable[[], JsonDict],
        drawn: Path,
        page: Path | None,
    ) -> None:
        self._command, self._standing = command, standing  # what draws `drawn`; where the run is
        self._drawn, self._page = drawn, page
        self._changed, self._ended, self._fetched = (threading.Event() for _ in range(3))
        self._child: subprocess.Popen[str] | None = None
        self._over = False
        self._asked = -_WATCHED  # when the last request came
        self.html = b""
        self._version = 0
        self._error = ""

    def change(self) -> None:
        """There is something new to draw."""
        self._changed.set()

    def draw_again(self) -> None:
        """Draw whenever something has changed, with pauses, until the run ends."""
        while not self._ended.is_set():
            self._changed.wait()
            self._changed.clear()
            begun = time.monotonic()
            if not self._ended.is_set():
                self._draw()
            self._ended.wait(max(_PAUSE, time.monotonic() - begun))

    def stop(self, thread: threading.Thread) -> None:
        """End the drawing, and what it has begun."""
        self._ended.set()
        self._changed.set()
        while thread.is_alive():  # a child may be started at this moment
            if self._child is not None:
                self._child.kill()
            thread.join(0.1)

    def finish(self) -> None:
        """Draw and write the last page; who watches has some seconds to fetch it."""
        self._draw(at_leisure=False)
        if self._page is not None and not self._error:
            try:
                write_text(self._page, self.html.decode())
            except KoriskError as error:  # the results are stored all the same
                self._error = str(error)
        if self._error:
            print(f"korisk: no page: {self._error}", file=sys.stderr, flush=True)
        self._over = True
        if time.monotonic() - self._asked < _WATCHED:
            self._fetched.wait(_FAREWELL)

    def _draw(self, *, at_leisure: bool = True) -> None:
        """Draw what there is; what goes wrong is said on the page."""
        try:
            with subprocess.Popen(
                self._command(at_leisure),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=child_environment(),
            ) as child:
                self._child = child
                _, said = child.communicate()
            if child.returncode == 0:
                self.html = self._drawn.read_bytes()
                self._version += 1
            lines = said.strip().splitlines() or [f"it ended with code {child.returncode}"]
            self._error = "" if child.returncode == 0 else lines[-1]
        except OSError as error:
            self._error = f"{error.strerror or error}"
        finally:
            self._child = None

    def state(self) -> JsonDict:
        """What the browser asks every second."""
        self._asked = time.monotonic()
        page = None if self._page is None else str(self._page)
        told = {"version": self._version, "error": self._error, "over": self._over, "page": page}
        return self._standing() | told

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """Type and content of one of the three addresses; None for others."""
        if path == "/":
            return "text/html", (files("korisk.report") / "live.html").read_bytes()
        if path == "/state":
            return "application/json", json.dumps(self.state()).encode()
        return ("text/html", self.html) if path == "/page" and self.html else None

    def sent(self, path: str) -> None:
        """The last page has reached a browser, or that there is none."""
        if self._over and path == ("/page" if self.html else "/state"):
            self._fetched.set()


def draw(store: str, page: str, target: str, at_leisure: str) -> None:
    """Write the page of a store, in a process of its own; the last two are JSON.

    At leisure, which is while the run goes on, it leaves nine tenths of a busy processor to the
    run. A target that the study cannot have, or not yet, is not asked.
    """
    running: bool = json.loads(at_leisure)
    if running and hasattr(os, "nice"):
        os.nice(_NICE)
    try:
        contents = read_contents(store)
        refuse_an_empty_one(contents)
        try:
            html = study_page(contents, target=json.loads(target), running=running)
        except KoriskError:
            html = study_page(contents, running=running)
    except KoriskError as error:
        sys.exit(str(error))
    write_text(page, html)


def draw_rehearsal(file: str, page: str, at_leisure: str) -> None:
    """Write the page of a rehearsal, in a process of its own."""
    if json.loads(at_leisure) and hasattr(os, "nice"):
        os.nice(_NICE)
    told = json.loads(Path(file).read_text(encoding="utf-8"))
    models = tuple(Rehearsed(_rehearsal(content)) for content in told["rehearsals"])
    spec: JsonDict = {"problem": {}, "models": {}}
    title = told["title"]
    try:
        if not models:
            raise KoriskError("no network has finished at three sizes yet")
        usage = Meter().read()
        point = PointPrediction(title, spec, (), "", 1, (), usage, rehearsed=models)
        html = rehearsal_page([point], Question(**told["asked"]), title=title, running=True)
        write_text(page, html)
    except KoriskError as error:
        sys.exit(str(error))


def _plain(rehearsal: Rehearsal) -> JsonDict:
    """A rehearsal as plain values, for the process that draws it."""
    content = {field.name: getattr(rehearsal, field.name) for field in fields(rehearsal)}
    for name in _CURVES:
        content[name] = None if content[name] is None else content[name].records()
    return content | {"belief": asdict(rehearsal.belief)}


def _rehearsal(content: JsonDict) -> Rehearsal:
    """What `_plain` made, as it was."""
    curves: JsonDict = {
        name: content[name] and Curve.from_records(content[name]) for name in _CURVES
    }
    belief: JsonDict = {
        name: tuple(map(tuple, value)) if isinstance(value, list) else value
        for name, value in content["belief"].items()
    }
    notes = tuple(content["notes"])
    return Rehearsal(**content | curves | {"belief": Belief(**belief), "notes": notes})
