"""The command's root: subcommands, and how every error becomes one line and an exit code."""

import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from korisk import __version__
from korisk._text import plain
from korisk.cli.ablate import ablate
from korisk.cli.bound import bound
from korisk.cli.common.command import Command
from korisk.cli.common.output import running, with_command
from korisk.cli.compare import compare
from korisk.cli.export import export
from korisk.cli.operators import operators
from korisk.cli.plan import plan
from korisk.cli.read import read
from korisk.cli.rehearse import rehearse
from korisk.cli.report import report
from korisk.cli.run import run as run_study
from korisk.cli.serve import serve
from korisk.errors import KoriskError, shown

try:
    from korisk.paper import commands as paper
except ModuleNotFoundError as missing:
    if missing.name != "korisk.paper":
        raise
    paper = None  # type: ignore[assignment]  # the folder may be left out

app = typer.Typer(
    name="korisk",
    help="How much training data a network with known operators needs, and what each one saves.",
    epilog="Exit codes: 0 done, 1 cells of a study failed or a bound is violated, 2 the input was "
    "wrong, 3 the target cannot be reached or the answer is not known, 130 interrupted.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_COMMANDS: list[Callable[..., None]] = [
    rehearse,
    read,
    plan,
    compare,
    ablate,
    bound,
    operators,
    run_study,
    report,
    export,
    serve,
]
if paper is not None:
    _COMMANDS[7:] = [paper.reproduce, run_study, report, paper.check, export, serve]
for _function in _COMMANDS:
    app.command(cls=Command)(_function)

# Typer's errors for wrong usage share this base, which it exports under no public name.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


# Errors of writing to stdout; those of files have a file name.
_OF_OUTPUT = {
    errno.EPIPE,
    errno.ENOSPC,
    errno.EBADF,
    errno.EIO,
    errno.EFBIG,
    errno.EDQUOT,
    errno.EAGAIN,
}
_NO_MEMORY = ("allocate memory", "not enough memory", "out of memory")


def _show_version(asked: bool) -> None:
    if asked:
        print(f"korisk {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Run the command and leave with its exit code."""
    if sys.stdout is None:  # closed by the caller
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (it serves until the exit)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a name never fails for want of a character
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run the command; what a user can cause becomes one line on stderr, never a traceback."""
    try:  # before anything is imported: libraries of PyTorch end the process where there is none
        Path.cwd()
    except OSError:
        return _fail("the working folder no longer exists; change to another one", 2)
    group: Any = typer.main.get_command(app)
    command = group.commands.get(arguments[0] if arguments else "")
    running.set(command)
    try:
        code = group(arguments, prog_name="korisk", standalone_mode=False)
        sys.stdout.flush()
    except KoriskError as error:
        return _fail(with_command(error.message, arguments), error.exit_code)
    except _UsageError as error:
        message = error.format_message()  # type: ignore[attr-defined]
        named = f"{command.name} " if command else ""
        return _fail(f"{message.rstrip('.')}; see korisk {named}--help", 2)
    except (MemoryError, RuntimeError) as error:
        # PyTorch says with a plain RuntimeError that it could not allocate.
        said = str(error)
        if not isinstance(error, MemoryError) and not any(words in said for words in _NO_MEMORY):
            raise
        what = (str(error).splitlines() or ["it ran out"])[0]
        return _fail(f"there is not enough memory: {what}; ask for less", 2)
    except BrokenPipeError:  # the reader has gone: `korisk ... | head`
        _drop_output()
        return 0
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.filename is not None:
            return _fail(f"{shown(error.filename)}: {reason}; check the path", 2)
        if error.errno not in _OF_OUTPUT:
            return _fail(f"the system refuses: {reason}; run again", 2)
        _drop_output()
        return _fail(f"the output cannot be written: {reason}; check where stdout leads", 2)
    if code == 130:  # Typer turns Ctrl-C into this code and says nothing
        return _fail("interrupted", 130)
    return code if isinstance(code, int) else 0


def _drop_output() -> None:
    """Send what is still buffered nowhere, so that Python does not complain again at its exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    print(f"korisk: {plain(line)}", file=sys.stderr)
    return code
