"""A server for this machine alone, which `serve` uses.

It listens at 127.0.0.1 and serves the contents of its `Site`, no files of the disk. It answers only
requests whose Host header names this machine: a foreign site whose name resolves to 127.0.0.1 (DNS
rebinding) sends its own name. Pages are drawn in processes of their own.
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, Protocol

from korisk._checks import count
from korisk.errors import invalid

ADDRESS = "127.0.0.1"
_NAMES = (ADDRESS, "localhost")  # accepted Host headers
# Pages may load nothing from elsewhere, and no other site may embed them.
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
    """The contents that a port serves."""

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """Media type and content at a path; None if there is nothing."""

    def sent(self, path: str) -> None:
        """Called when the content at a path has been sent."""


class LocalPort(ThreadingHTTPServer):
    """A port of this machine alone; a `with` block closes it.

    Parameters
    ----------
    port : int or True
        The port, 1 to 65535; True takes a free one.
    field : str, default "port"
        Name of the argument in messages.
    remedy : str, optional
        Advice in messages.

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
    # An open connection must not keep the process alive.
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
        """Class that answers requests."""
        return LocalHandler

    @property
    def address(self) -> str:
        """URL of the page."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore closed connections; report other errors."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class LocalHandler(BaseHTTPRequestHandler):
    """GET and HEAD of a site's addresses."""

    server: LocalPort
    timeout = 10.0  # seconds, after which a silent connection gives its thread back
    server_version, sys_version = "korisk", ""

    def do_GET(self) -> None:
        """Answer GET and HEAD."""
        path = self.path.partition("?")[0]
        if not self.names_this_machine():
            self.send(403)
        elif (content := self.server.site.answer(path)) is None:
            self.send(404)
        else:
            self.send(200, *content)
            if self.command != "HEAD":
                self.server.site.sent(path)

    do_HEAD = do_GET

    def names_this_machine(self) -> bool:
        """Whether the Host header names this machine, not a name that resolves to it."""
        return self.headers.get("Host", "").partition(":")[0] in _NAMES

    def send(self, code: int, kind: str = "text/plain", content: bytes = b"") -> None:
        """Send a response with the security headers."""
        self.send_response(code)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def child_command(code: str, *arguments: str, modules: set[str] | None = None) -> list[str]:
    """Command of a Python process that imports modules and runs a line of code.

    The option -P keeps files of the working folder from being imported.
    """
    names = ", ".join(sorted({"sys"} | (modules or set())))
    return [sys.executable, "-P", "-c", f"import {names}; {code}", *arguments]


def child_environment() -> dict[str, str]:
    """Environment of such a process: the same module search path, one thread."""
    # Absolute, because the process may have another working folder.
    path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path if entry)
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
