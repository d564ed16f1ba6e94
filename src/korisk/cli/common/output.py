"""How the commands print: tables and sentences for people, JSON for machines, lines on stderr."""

import json
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

import typer
from rich import box
from rich.console import Console
from rich.table import Table as DrawnTable
from rich.text import Text

from korisk._text import plain
from korisk.cli.common.command import Command
from korisk.errors import Absent, Argument, KoriskError, KoriskWarning, Message
from korisk.files import figure_kind, write_text
from korisk.texts import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NARROWEST = 110
# Arguments which a user can add as advised.
_ADDED = {"columns", "unit", "metric", "model", "point", "worksheet"}
_ADDED |= {"filter", "ignore", "last", "best", "scale", "wide"}
_REPEATED = {"columns", "filter", "ignore", "scale"}

# The command that runs, which `app.run` sets: messages are told with its options.
running: ContextVar[Command | None] = ContextVar("running", default=None)


# --- Messages ------------------------------------------------------------------------------------


def in_options(message: str) -> str:
    """A message of the library in the words of the command that runs: its options."""
    command = running.get()
    return message if command is None else command.rendered(message)


def with_command(message: Message, arguments: list[str]) -> str:
    """A message in the words of the command line, with the command that follows its advice.

    That is possible where the message names an argument to add, such as columns={'n': 'size'}; of
    several it takes the first.
    """
    said = in_options(message)
    for part in message.parts:
        if isinstance(part, Argument) and part.name in _ADDED and part.value not in (Absent, ...):
            option = in_options(Message(part))
            if "..." in str(part) or option == str(part):
                return said
            given = list(arguments)
            with suppress(ValueError):  # an option that was given already is given anew
                place = given.index(option.partition(" ")[0])
                del given[place : place + (2 if part.name not in _REPEATED else 0)]
            return f"{said}: {' '.join(map(quote, ('korisk', *given)))} {option}"
    return said


def tell(message: str) -> None:
    """Print a line on stderr, so that stdout stays readable by machines."""
    typer.echo(f"korisk: {plain(' '.join(in_options(message).split()))}", err=True)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """What the library warns of, as lines on stderr; other warnings are left as they are."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", KoriskWarning)
        yield
    for warning in caught:
        if isinstance(warning.message, KoriskWarning):
            tell(Message("warning: ", *warning.message.args))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def refuse_extra(context: typer.Context, *allowed: str, why: str) -> None:
    """Refuse options that would be ignored beside one that asks for something smaller."""
    for parameter in context.command.params:
        given = getattr(context.get_parameter_source(parameter.name or ""), "name", "")
        if given == "COMMANDLINE" and parameter.name not in allowed:
            raise KoriskError(f"{why}; leave {parameter.opts[0]} out")


# --- Results -------------------------------------------------------------------------------------


class _Console(Console):
    """A console that leaves a closed pipe to the command, which ends quietly then."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def print(self, *objects: Any, **options: Any) -> None:
        """Texts come from files too, which must not steer the terminal."""
        shown = (plain(each) if isinstance(each, str) else each for each in objects)
        super().print(*shown, **options)


def console() -> Console:
    """A console for stdout; wide enough for the tables where there is no terminal to ask."""
    plain = _Console(markup=False, emoji=False)  # names and paths are shown as they are
    if plain.is_terminal:
        return plain
    return _Console(markup=False, emoji=False, width=max(plain.width, NARROWEST))


def show(*parts: Table | str, whole_lines: bool = False) -> None:
    """Print tables and sentences; `whole_lines` are not broken, such as those with paths."""
    out = console()
    for part in parts:
        if isinstance(part, Table):
            out.print(drawn(part))
        else:
            out.print(in_options(part), highlight=False, soft_wrap=whole_lines)


def drawn(table: Table) -> DrawnTable:
    """A table for a terminal, whose texts are shown as they are, whatever brackets they contain."""
    shown = DrawnTable(
        title=Text(plain(table.title)) if table.title else None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD if table.title else None,  # few lines where it has no title
        padding=0 if table.title else (0, 1),  # narrow: the widest fits a terminal of 80 columns
        pad_edge=False,
    )
    for place, head in enumerate(table.heads):
        side: Literal["left", "right"] = "left" if table.left(place) else "right"
        shown.add_column(Text(plain(head)), justify=side, overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(plain(cell)) for cell in row))
    return shown


def print_json(content: object) -> None:
    """Print a result for machines."""
    print(json_text(content))


def json_text(content: object) -> str:
    """A result for machines; what is infinite or undefined becomes null."""
    return json.dumps(_finite(content), indent=2, allow_nan=False)


def _finite(content: object) -> object:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content


# --- Files ---------------------------------------------------------------------------------------


def check_plot(path: Path | None) -> None:
    """Refuse a plot that could not be written before anything is computed."""
    if path is not None:
        import korisk.report.figures.pilot  # noqa: F401 (says so where matplotlib is missing)

        figure_kind(path)


def save_plot(figure: "Figure", path: Path) -> None:
    """Write a figure and say so."""
    from korisk.report.figures.style import save

    save(figure, path)
    tell(f"wrote {path}")


def write_page(path: Path, text: str) -> None:
    """Write a page and say so."""
    write_text(path, text)
    tell(f"wrote {path}")
