"""Ctrl-C while modules are imported ends the `korisk` command at once, without a traceback.

Imported first of all; an import that is interrupted has nothing to keep.
"""

import signal
import sys
import threading
from pathlib import Path


def _is_command(arguments: list[str]) -> bool:
    """Whether this process was started as `korisk` or `python -m korisk`."""
    module = arguments[arguments.index("-m") + 1 :][:1] if "-m" in arguments else []
    script = Path(arguments[1]).stem if len(arguments) > 1 else ""
    return module == ["korisk"] or script == "korisk"


_HELD = (
    signal.getsignal(signal.SIGINT) is signal.default_int_handler
    and threading.current_thread() is threading.main_thread()
    and _is_command(sys.orig_argv)
)
if _HELD:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def handle() -> None:
    """Handle Ctrl-C in Python again, when everything is imported."""
    if _HELD:
        signal.signal(signal.SIGINT, signal.default_int_handler)
