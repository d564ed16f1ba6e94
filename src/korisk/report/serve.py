"""A local page on which one drops a table and gets its plan.

`serve_tables` serves `serve.html` at a `TablePort`. The browser posts the file; another process,
whose code is in `dropped`, reads it from a temporary folder and draws the page, with limits on time
and memory, one table at a time. The folder is then removed; pages are kept in memory only.
"""

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.parse import parse_qs

from korisk._json import JsonDict
from korisk._text import plain
from korisk.curves.unit import UNITS
from korisk.report.dropped import FIELDS
from korisk.report.local import LocalHandler, LocalPort, child_command, child_environment
from korisk.report.page.page import asset

LARGEST = 32_000_000  # bytes of a table, or of the store of a pilot
SECONDS = 180.0  # limit for planning a table
UPLOAD = 60.0  # seconds; limit for receiving a table
_UPLOADS = 4  # at the same time
_PAGES = 8  # the newest pages, kept in memory
_CHUNK = 1 << 16  # bytes
_LINGER = 2.0  # seconds for a browser to read why its upload was refused
_ADDRESS = "/plan"
_WORK = f"from korisk.report.dropped import work; work({SECONDS:.0f})"
_NAME = re.compile(r"[^\w .()+-]")  # characters replaced in names of temporary files


def serve_tables(port: "TablePort") -> None:
    """Serve the page until Ctrl-C; the process that plans is stopped as well."""
    try:
        port.serve_forever(0.1)
    except KeyboardInterrupt:
        pass
    finally:
        port.site.close()


class TablePort(LocalPort):
    """A port of this machine alone that accepts tables; see `LocalPort`."""

    site: "_Tables"

    @staticmethod
    def handler() -> type[LocalHandler]:
        """Class that answers requests."""
        return _Handler

    def server_activate(self) -> None:
        """Start with no pages."""
        self.site = _Tables()
        super().server_activate()


class _Tables:
    """The newest pages, and the process that plans."""

    def __init__(self) -> None:
        self.uploads = threading.BoundedSemaphore(_UPLOADS)
        self._planning = threading.Lock()
        self._pages: OrderedDict[str, bytes] = OrderedDict()
        self._child: subprocess.Popen[bytes] | None = None
        # Values of the fields' menus come from the library, so that they stay the same.
        options = "".join(f'<option value="{name}">{name}</option>' for name in UNITS)
        template = Template((files("korisk.report") / "serve.html").read_text("utf-8"))
        names = {field.replace("_", ""): escape(name) for field, name in FIELDS.items()}
        # Filled in once: the form is the same for everyone.
        self._form = template.substitute(
            names,
            largest=LARGEST,
            megabytes=f"{LARGEST / 1e6:.0f}",
            units=options,
            style=asset("page.css"),
        ).encode()

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """The form, or the page of a table."""
        if path == "/":
            return "text/html", self._form
        html = self._pages.get(path)
        return None if html is None else ("text/html", html)

    def sent(self, path: str) -> None:
        """Keep pages, for a browser that reloads them."""

    def plan(self, content: bytes, request: JsonDict) -> tuple[int, JsonDict]:
        """HTTP status, and the path of a table's page or the reason why there is none."""
        # One table at a time, so that several uploads cannot exhaust the memory.
        if not self._planning.acquire(blocking=False):
            busy = "korisk is busy with another table; wait until it is done, then try again"
            return 503, {"error": busy}
        try:
            code, answer = self._planned(content, request)
        finally:
            self._planning.release()
        html = answer.pop("html", None)
        if html is not None:
            # Unguessable: other pages in the browser cannot ask for the plan of a table.
            path = f"/page/{secrets.token_urlsafe(12)}"
            self._pages[path] = html.encode()
            while len(self._pages) > _PAGES:
                self._pages.popitem(last=False)
            answer["page"] = path
        return code, answer

    def _planned(self, content: bytes, request: JsonDict) -> tuple[int, JsonDict]:
        name = _file_name(request.get("name", ""))
        with tempfile.TemporaryDirectory(prefix="korisk-serve-") as folder:
            (Path(folder) / name).write_bytes(content)
            # In its own session, so that processes it starts are killed with it.
            with subprocess.Popen(
                child_command(_WORK),
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=child_environment(),
                start_new_session=True,
            ) as child:
                self._child = child
                payload = json.dumps(request | {"name": name}).encode()
                try:
                    stdout, stderr = child.communicate(payload, SECONDS)
                except subprocess.TimeoutExpired:
                    self._stop()
                    hint = "a pilot is some tens of rows: average or thin it first"
                    return 504, {"error": f"{name}: takes longer than {SECONDS:.0f} s; {hint}"}
        # A process that crashed or was killed prints no JSON.
        with suppress(ValueError):
            answer: JsonDict = json.loads(stdout)
            return 422 if "error" in answer else 200, answer
        *_, reason = stderr.decode(errors="replace").splitlines() or ["it was stopped"]
        print(f"korisk: {plain(name)}: {plain(reason)}", file=sys.stderr, flush=True)
        problem = "could not be planned, for a reason that korisk does not know"
        remedy = "save it as CSV with the columns n and error, and try again"
        return 500, {"error": f"{name}: {problem}; {remedy}"}

    def _stop(self) -> None:
        """Kill the process that plans, if it runs, and all processes it has started."""
        child = self._child
        if child is not None and child.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL) if hasattr(os, "killpg") else child.kill()

    def close(self) -> None:
        """Stop the process that plans, and wait until its folder is removed."""
        while not self._planning.acquire(timeout=0.1):
            self._stop()


class _Handler(LocalHandler):
    """Accept tables that a browser posts from our own page."""

    server: TablePort

    def do_POST(self) -> None:
        """Answer with the path of a page, or the reason why there is none, as JSON."""
        # Pages of other sites can post here too, but browsers state where a request comes from.
        origin = f"http://{self.headers.get('Host')}"
        from_our_page = self.names_this_machine() and self.headers.get("Origin") == origin
        path, _, query = self.path.partition("?")
        length = self.headers.get("Content-Length", "")
        if not from_our_page:
            self._refuse(403, "only the page of this machine may send tables")
        elif path != _ADDRESS:
            self._refuse(404, "there is nothing here")
        elif not re.fullmatch("[0-9]{1,12}", length):
            self._refuse(411, "the length of the table is not stated")
        elif int(length) > LARGEST:
            size = f"{int(length) / 1e6:.0f} MB"
            rule = f"a table may have at most {LARGEST / 1e6:.0f} MB"
            self._refuse(413, f"{rule}, this has {size}; a pilot is a small table")
        elif not self.server.site.uploads.acquire(blocking=False):
            self._refuse(503, "korisk is busy with other tables; wait a minute, then try again")
        else:
            try:
                content = self._body(int(length))
            finally:
                self.server.site.uploads.release()
            if content is None:
                self._refuse(408, "the table did not arrive in time; try again")
                return
            # parse_qs raises for too many fields, which our page never sends.
            with suppress(ValueError):
                fields = parse_qs(query, max_num_fields=2 * len(FIELDS))
                request = {name: values[0] for name, values in fields.items()}
                self._say(*self.server.site.plan(content, request))
                return
            self._refuse(400, "the page asks for too much; load it again")

    def _body(self, length: int) -> bytes | None:
        """The posted bytes; None if they arrive too slowly or incompletely."""
        deadline = time.monotonic() + UPLOAD
        content = bytearray()
        with suppress(TimeoutError):
            while len(content) < length and (seconds_left := deadline - time.monotonic()) > 0:
                self.connection.settimeout(min(seconds_left, self.timeout))
                chunk = self.rfile.read1(min(_CHUNK, length - len(content)))
                if not chunk:
                    break
                content += chunk
        return bytes(content) if len(content) == length else None

    def _refuse(self, code: int, why: str) -> None:
        """Answer before the upload is read, and give the browser time to read the answer.

        Closing a socket with unread data resets the connection, and the answer would be lost.
        """
        self._say(code, {"error": why})
        with suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(_LINGER)
            deadline = time.monotonic() + _LINGER
            while time.monotonic() < deadline and self.rfile.read1(_CHUNK):
                pass

    def _say(self, code: int, answer: JsonDict) -> None:
        self.send(code, "application/json", json.dumps(answer).encode())


def _file_name(name: str) -> str:
    """Safe name of the temporary file, like that of the user's file, without any folder."""
    base_name = re.split(r"[/\\]", name)[-1]
    return _NAME.sub("_", plain(base_name)).strip(" .")[-80:] or "table"
