"""`korisk serve`: a local page on which one drops a table and gets its plan."""

import signal
import webbrowser
from contextlib import suppress
from typing import Annotated

from typer import Option

from korisk.cli.common.messages import tell


def serve(
    port: Annotated[int | None, "PORT", "Port at 127.0.0.1. [default: a free one]"] = None,
    open_browser: Annotated[bool, Option("--open"), "Open the page in the browser."] = False,
) -> None:
    """Show a page on which one drops a table and gets its plan, until Ctrl-C.

    For those who do not type commands. The page is for this machine alone: it is at 127.0.0.1,
    answers no other site, and what is dropped there leaves neither this machine nor a file on it.
    """
    from korisk.report.serve import TableServer

    with TableServer(port) as server, suppress(KeyboardInterrupt):
        # A closed terminal stops the server like Ctrl-C, so that no process stays behind.
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.default_int_handler)
        tell(f"open {server.address} in a browser; Ctrl-C ends it")
        if open_browser:
            webbrowser.open(server.address)
        server.serve_forever(0.1)
    tell("stopped")
