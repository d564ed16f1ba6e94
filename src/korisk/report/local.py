"""A server for this machine alone, which `live` and `serve` share.

It listens at 127.0.0.1, answers only requests that name this machine (a site whose name resolves to
127.0.0.1 names itself), and serves what its `Site` gives, nothing of the disk. Pages are drawn in
processes of their own.
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, Protocol

from korisk._checks import count
from korisk.errors import invalid
from korisk.studies.run.events import OwnThread

ADDRESS = "127.0.0.1"
_NAMES = (ADDRESS, "localhost")  # in a request; others would be sites that claim to be this one
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src "
    "'unsafe-inline'; img-src data:; connect-src 'self'; frame-src 'self'; frame-ancestors 'self'; "
    "base-uri 'none'; form-action 'none'",
}


class Site(Protocol):
    """What a port serves."""

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """Type and content of an address; None for one that there is not."""

    def sent(self, path: str) -> None:
        """What to do when a content has reached a browser."""


class LocalPort(ThreadingHTTPServer):
    """A port of this machine alone; a `with` block closes it.

    Parameters
    ----------
    port : int or True
        The port, 1 to 65535; True takes a free one.
    field : str, default "port"
        What messages call it.
    remedy : str, optional
        What messages advise.

    Raises
    ------
    KoriskError
        If the port cannot be used.

    Examples
    --------
    >>> from korisk.report.local import LocalPort
    >>> with LocalPort(True) as port:
    ...     port.address.startswith("http://127.0.0.1:")
    True
    """

    site: Site
    daemon_threads = True

    def __init__(
        self,
        port: int | Literal[True],
        *,
        field: str = "port",
        remedy: str = "choose another, or leave it out for a free one",
    ) -> None:
        if port is not True:
            port = count(field, port, at_least=1, at_most=65535, remedy=remedy)
        try:
            super().__init__((ADDRESS, 0 if port is True else port), self.handler())
        except OSError as error:
            got = f"{port} ({(error.strerror or str(error)).lower()})"
            rule = f"be a port of {ADDRESS} that can be used"
            raise invalid(field, rule, port, remedy, got=got) from None

    @staticmethod
    def handler() -> "type[LocalHandler]":
        """What answers requests."""
        return LocalHandler

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread that is known as korisk's."""
        asked = request, client_address
        OwnThread(target=self.process_request_thread, args=asked, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone is no error; others are shown."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class LocalHandler(BaseHTTPRequestHandler):
    """GET and HEAD of a site's addresses."""

    server: LocalPort
    timeout = 10.0
    server_version, sys_version = "korisk", ""

    def do_GET(self) -> None:
        """Answer GET and HEAD."""
        path = self.path.partition("?")[0]
        if not self.names_this_machine():
            self.send(403)
        elif (found := self.server.site.answer(path)) is None:
            self.send(404)
        else:
            self.send(200, *found)
            if self.command != "HEAD":
                self.server.site.sent(path)

    do_HEAD = do_GET

    def names_this_machine(self) -> bool:
        """Whether the browser asked for this machine, and not for a name that leads here."""
        return self.headers.get("Host", "").partition(":")[0] in _NAMES

    def send(self, code: int, kind: str = "text/plain", content: bytes = b"") -> None:
        """Answer."""
        self.send_response(code)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def child_command(code: str, *arguments: str, modules: set[str] | None = None) -> list[str]:
    """The command of a Python process that imports modules, then runs a line of code.

    -P keeps files of the working folder from being imported.
    """
    imported = ", ".join(sorted({"sys"} | (modules or set())))
    return [sys.executable, "-P", "-c", f"import {imported}; {code}", *arguments]


def child_environment() -> dict[str, str]:
    """The environment of such a process: the same modules from the same places, one thread."""
    path = os.pathsep.join(str(Path(place).absolute()) for place in sys.path if place)
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
