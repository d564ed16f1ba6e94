"""Root of the command line: subcommands, and one line and an exit code for every error."""

import contextlib
import errno
import io
import os
import re
import sys
from collections import UserDict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import korisk
from korisk import __version__, _interrupt
from korisk.cli.common.messages import Command, running, tell, with_command, with_options
from korisk.errors import KoriskError, shown

# In the order of the help, with their modules, which are imported when a command is asked for.
_FIRST = ("rehearse", "plan", "compare", "calibrate", "ablate", "bound")
COMMANDS = {name: f"cli.{name}" for name in _FIRST}
# A distribution may leave korisk/paper out; its command is then missing.
HAS_PAPER = find_spec("korisk.paper") is not None
COMMANDS |= {"reproduce": "paper.commands.reproduce"} if HAS_PAPER else {}
COMMANDS |= {name: f"cli.{name}" for name in ("run", "report", "export", "serve")}


class _Commands(UserDict[str, Any]):
    """The commands by name, each made when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            if HAS_PAPER and name in ("run", "report"):
                import_module("korisk.paper")  # adds the paper's tables to a study's report
            single = typer.Typer(rich_markup_mode=None, add_completion=False)
            function = getattr(import_module(f"korisk.{COMMANDS[name]}"), name)
            single.command(cls=Command)(with_options(function))
            self.data[name] = typer.main.get_command(single)
        return self.data[name]


class _Group(TyperGroup):
    """The root: its help is read from the commands' files, without importing them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _Commands(dict.fromkeys(COMMANDS))

    def format_commands(self, _: Any, formatter: Any) -> None:
        """List the commands with the first sentence of each."""
        rows = []
        for name, module in COMMANDS.items():
            file = Path(korisk.__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
            text = file.read_text(encoding="utf-8").partition(f"\ndef {name}(")[2]
            (docstring,) = re.findall(r'"""(.*?)(?:\n\n|""")', text, re.DOTALL)[:1]
            rows.append((name, re.split(r"(?<=[.?]) ", " ".join(docstring.split()))[0]))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


app = typer.Typer(
    name="korisk",
    cls=_Group,
    help="How much training data a network with known operators needs, and what each one saves.",
    epilog="Exit codes: 0 done, 1 cells of a study failed, 2 the input was "
    "wrong, 3 the target cannot be reached or the answer is not known, 130 interrupted.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

# Base class of Typer's usage errors, which has no public name.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

# Errors of writing to stdout; errors of files carry a file name.
_OUTPUT_ERRORS = {errno.EPIPE, errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG}
_OUTPUT_ERRORS |= {errno.EDQUOT, errno.EAGAIN}
# PyTorch raises a plain RuntimeError with one of these when it cannot allocate memory.
_NO_MEMORY = ("allocate memory", "not enough memory", "out of memory")


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        print(f"korisk {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit with its code."""
    if sys.stdout is None:  # closed by the caller
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (it serves until the exit)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal whose encoding lacks a character of a name shows "?" instead of failing.
        sys.stdout.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run the command; errors that a user can cause become one line on stderr."""
    # Checked first: without a working folder, loading PyTorch ends the process.
    try:
        Path.cwd()
    except OSError:
        return _fail("the working folder no longer exists; change to another one", 2)
    group: Any = typer.main.get_command(app)
    try:
        command = group.commands.get(arguments[0] if arguments else "")
        running.set(command)
        _interrupt.handle()  # everything is imported
        code = group(arguments, prog_name="korisk", standalone_mode=False)
        sys.stdout.flush()
    except KoriskError as error:
        return _fail(with_command(error.message, arguments), error.exit_code)
    except _UsageError as error:
        message = error.format_message()  # type: ignore[attr-defined]
        subcommand = f"{command.name} " if command else ""
        return _fail(f"{message.rstrip('.')}; see korisk {subcommand}--help", 2)
    except (MemoryError, RuntimeError) as error:
        text = str(error)
        if not isinstance(error, MemoryError) and not any(phrase in text for phrase in _NO_MEMORY):
            raise
        first_line = (text.splitlines() or ["it ran out"])[0]
        return _fail(f"there is not enough memory: {first_line}; ask for less", 2)
    except BrokenPipeError:  # the reader has gone: `korisk ... | head`
        _drop_output()
        return 0
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.filename is not None:
            return _fail(f"{shown(error.filename)}: {reason}; check the path", 2)
        if error.errno not in _OUTPUT_ERRORS:
            return _fail(f"the system refuses: {reason}; run again", 2)
        _drop_output()
        return _fail(f"the output cannot be written: {reason}; check where stdout leads", 2)
    if code == 130:  # Typer turns Ctrl-C into this code and says nothing
        return _fail("interrupted", 130)
    return code if isinstance(code, int) else 0


def _drop_output() -> None:
    """Discard buffered output, so that Python does not report the same error again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> int:
    tell(message)
    return code
