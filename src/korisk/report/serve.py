"""A local page on which one drops a table and gets its plan.

`TableServer` listens at 127.0.0.1 and serves a form and the newest plans, no files of the disk. It
answers only requests whose Host header names this machine: a foreign site whose name resolves to
127.0.0.1 (DNS rebinding) sends its own name. The browser posts a table; another process reads it in
a temporary folder and draws the page, with limits on time and memory, one table at a time. It ends
when the browser goes away.
"""

import json
import os
import re
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qsl

from korisk._json import JsonDict
from korisk.curves.curve import Curve
from korisk.curves.unit import UNITS
from korisk.errors import Absent, Argument, KoriskError, invalid
from korisk.planning.pilot import read_training
from korisk.texts import plain

ADDRESS = "127.0.0.1"
LARGEST = 32_000_000  # bytes of a table, or of the store of a pilot
SECONDS = 180.0  # limit for planning a table
_PAGES = 8  # the newest pages, kept in memory
_MEMORY = 4 << 30  # bytes, limit of the process that plans; a pilot is a small table
_HOST = re.compile(rf"({re.escape(ADDRESS)}|localhost)(:[0-9]{{1,5}})?")  # nothing beside it
_LINGER = 2.0  # seconds for a browser to read why its upload was refused
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
# Pages may load nothing from elsewhere, and no other site may embed them.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
# The page of a table has an origin of its own: it cannot ask this server for anything.
_OF_A_TABLE = f"{_POLICY}; sandbox allow-scripts allow-downloads allow-modals"
# Imports nothing from the working folder, because of -P.
_WORK = "import sys; from korisk.report.serve import work; work(*sys.argv[1:])"


# --- In the process that plans a table -----------------------------------------------------------


def work(name: str, fields: str) -> None:
    """Plan the table in the working folder; the fields are JSON, as is the answer on stdout."""
    # Limits of the process, which Windows lacks: no memory without end, no core file.
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # The server kills a slow process; the alarm ends it if the server has died.
        signal.alarm(2 * int(SECONDS))
    try:
        answer: JsonDict = {"html": table_page(name, json.loads(fields))}
    except KoriskError as error:
        answer = {"error": [_part(piece) for piece in error.message.parts]}
    except MemoryError:
        answer = {"error": [f"{name}: takes too much memory; thin it first"]}
    # A value that the reader has to fill in is an Ellipsis.
    sys.stdout.write(json.dumps(answer, default=lambda _: "..."))


def _part(piece: str | Argument) -> str | JsonDict:
    """A part of a message for the form, which has labels for arguments, and offers their values."""
    if isinstance(piece, str):
        return piece
    value = None if piece.value is Absent else piece.value
    return {"text": str(piece), "name": piece.name, "value": value}


def table_page(name: str, fields: Mapping[str, str]) -> str:
    """Build the page of a table from the fields of the form; empty fields choose nothing."""
    texts = {field: text.strip() for field, text in fields.items() if text.strip()}
    choices = ("metric", "unit", "point", "worksheet", "wide")
    options: dict[str, Any] = {field: texts[field] for field in choices if field in texts}
    options["columns"] = {f[7:]: text for f, text in texts.items() if f.startswith("column_")}
    options["ignore"] = [column.strip() for column in texts.get("ignore", "").split(";") if column]
    options["filter"] = _pairs("filter", texts)
    target = _number("target", texts["target"]) if "target" in texts else None
    curves: Sequence[Curve]
    if "model" in texts:
        curves = [Curve.read(name, model=texts["model"], **options)]
    else:
        curves = Curve.read_all(name, **options)
    # Imported here: loading Matplotlib takes longer than refusing a table.
    from korisk.report.page.page import curves_page

    trained = [read_training(name, curve) for curve in curves]
    return curves_page(curves, trained, title=name, target=target)


def _number(field: str, text: str) -> float:
    try:
        return float(text.replace(",", "."))  # many users type a decimal comma
    except ValueError:
        raise invalid(field, "be a number", text, "write it as 0.01") from None


def _pairs(field: str, texts: Mapping[str, str]) -> dict[str, str]:
    """The names and values of a field such as "set=test; device=A"."""
    pairs = [entry.partition("=") for entry in texts.get(field, "").split(";") if entry.strip()]
    if not all(separator for _, separator, _ in pairs):
        rule, remedy = "be written as NAME=VALUE", "write set=test, for example"
        raise invalid(field, rule, texts[field], remedy)
    return {name.strip(): value.strip() for name, _, value in pairs}


# --- The server ----------------------------------------------------------------------------------


class TableServer(ThreadingHTTPServer):
    """The page for tables, at a port of this machine alone; a `with` block closes it.

    The port is a free one unless it is given.

    Examples
    --------
    >>> from korisk.report.serve import TableServer
    >>> with TableServer() as server:
    ...     server.address.startswith("http://127.0.0.1:")
    True
    """

    daemon_threads = True  # an open connection must not keep the process alive

    def __init__(self, port: int | None = None) -> None:
        from korisk.report.page.page import asset

        self.pages: dict[str, bytes] = {}
        self._planning, self._closed = threading.Lock(), threading.Event()
        units = "".join(f'<option value="{name}">' for name in UNITS)
        values = {"largest": LARGEST, "megabytes": LARGEST // 10**6, "units": units}
        self.form = Template(asset("serve.html")).substitute(values, style=asset("page.css"))
        try:
            super().__init__((ADDRESS, port or 0), _Handler)
        except (OSError, OverflowError) as error:
            got = f"{port} ({getattr(error, 'strerror', error)})"
            rule, remedy = f"be a port of {ADDRESS} that can be used", "leave it out for a free one"
            raise invalid("port", rule, port, remedy, got=got) from None

    @property
    def address(self) -> str:
        """URL of the page."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def server_close(self) -> None:
        """Close the port, end the process that plans, and wait until its folder is removed."""
        self._closed.set()
        with self._planning:
            super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore closed connections; report other errors."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def plan(
        self, content: bytes, fields: Mapping[str, str], gone: Callable[[], bool]
    ) -> tuple[int, JsonDict]:
        """HTTP status, and the path of a table's page or the reason why there is none."""
        # One table at a time, so that several uploads cannot exhaust the memory.
        if not self._planning.acquire(blocking=False):
            busy = "korisk is busy with another table; wait until it is done, then try again"
            return 503, {"error": [busy]}
        try:
            code, answer = self._planned(content, fields, lambda: gone() or self._closed.is_set())
        finally:
            self._planning.release()
        html = answer.pop("html", None)
        if html is not None:
            # Unguessable: other pages in the browser cannot ask for the plan of a table.
            path = answer["page"] = f"/page/{secrets.token_urlsafe(12)}"
            self.pages[path] = html.encode()
            for old in list(self.pages)[:-_PAGES]:
                del self.pages[old]
        return code, answer

    @staticmethod
    def _planned(
        content: bytes, fields: Mapping[str, str], abandoned: Callable[[], bool]
    ) -> tuple[int, JsonDict]:
        """Plan a table in another process, which ends when it takes too long or is abandoned."""
        # A safe name, like that of the user's file, without any folder.
        base_name = re.split(r"[/\\]", fields.get("name", ""))[-1]
        name = re.sub(r"[^\w .()+-]", "_", plain(base_name)).strip(" .")[-80:] or "table"
        path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path if entry)
        with tempfile.TemporaryDirectory(prefix="korisk-serve-") as folder:
            Path(folder, name).write_bytes(content)
            # In its own session, so that processes it starts are killed with it.
            with (
                tempfile.TemporaryFile() as stdout,
                subprocess.Popen(
                    [sys.executable, "-P", "-c", _WORK, name, json.dumps(fields)],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=subprocess.DEVNULL,
                    env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                    start_new_session=True,
                ) as child,
            ):
                deadline = time.monotonic() + SECONDS
                while child.poll() is None and time.monotonic() < deadline and not abandoned():
                    with suppress(subprocess.TimeoutExpired):
                        child.wait(0.1)
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL) if os.name == "posix" else child.kill()
                    hint = "a pilot is some tens of rows: average or thin it first"
                    return 504, {"error": [f"{name}: takes longer than {SECONDS:.0f} s; {hint}"]}
                stdout.seek(0)
                # A process that crashed or was killed leaves no answer.
                with suppress(ValueError):
                    answer: JsonDict = json.loads(stdout.read())
                    return 422 if "error" in answer else 200, answer
        problem = "could not be planned, for a reason that korisk does not know"
        remedy = "save it as CSV with the columns n and error, and try again"
        return 500, {"error": [f"{name}: {problem}; {remedy}"]}


class _Handler(BaseHTTPRequestHandler):
    """Serve the form and the pages, and accept tables that our own page posts."""

    server: TableServer
    timeout = 10.0  # seconds, after which a silent connection gives its thread back
    server_version, sys_version = "korisk", ""

    def do_GET(self) -> None:
        """Answer with the form, or with the page of a table."""
        if not self._names_this_machine():
            self._send(403)
        elif self.path == "/":
            self._send(200, "text/html", self.server.form.encode())
        elif html := self.server.pages.get(self.path):
            self._send(200, "text/html", html, policy=_OF_A_TABLE)
        else:
            self._send(404)

    def do_POST(self) -> None:
        """Answer with the path of a page, or the reason why there is none, as JSON."""
        # Pages of other sites can post here too, but browsers state where a request comes from.
        origin = f"http://{self.headers.get('Host')}"
        from_our_page = self._names_this_machine() and self.headers.get("Origin") == origin
        path, _, query = self.path.partition("?")
        length = self.headers.get("Content-Length", "")
        if not from_our_page:
            self._refuse(403, "only the page of this machine may send tables")
        elif path != "/plan":
            self._refuse(404, "there is nothing here")
        elif not re.fullmatch("[0-9]{1,12}", length):
            self._refuse(411, "the length of the table is not stated")
        elif int(length) > LARGEST:
            self._refuse(413, f"a table may have at most {LARGEST // 10**6} MB; thin it first")
        else:
            content = b""
            with suppress(TimeoutError):  # the browser stopped sending
                content = self.rfile.read(int(length))
            if len(content) == int(length):
                self._say(*self.server.plan(content, dict(parse_qsl(query)), self._gone))
            else:
                self._refuse(408, "the table did not arrive in time; try again")

    def _names_this_machine(self) -> bool:
        """Whether the Host header names this machine, not a name that resolves to it."""
        hosts = self.headers.get_all("Host", [])
        return len(hosts) == 1 and bool(_HOST.fullmatch(hosts[0]))

    def _gone(self) -> bool:
        """Whether the browser has closed the connection, without waiting for the answer."""
        try:
            readable = select.select([self.connection], [], [], 0)[0]
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _refuse(self, code: int, why: str) -> None:
        """Answer before the upload is read, and give the browser time to read the answer.

        Closing a socket with unread data resets the connection, and the answer would be lost.
        """
        self._say(code, {"error": [why]})
        with suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(_LINGER)
            deadline = time.monotonic() + _LINGER
            while time.monotonic() < deadline and self.rfile.read1():
                pass

    def _say(self, code: int, answer: JsonDict) -> None:
        self._send(code, "application/json", json.dumps(answer).encode())

    def _send(
        self, code: int, kind: str = "text/plain", content: bytes = b"", *, policy: str = _POLICY
    ) -> None:
        """Send a response with the security headers."""
        self.send_response(code)
        headers = _HEADERS | {"Content-Security-Policy": policy}
        headers |= {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": f"{len(content)}"}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
