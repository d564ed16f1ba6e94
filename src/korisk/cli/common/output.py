"""Output of the commands: tables and sentences, JSON for programs, files."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer
from rich.console import Console
from rich.table import Table as DrawnTable
from rich.text import Text

from korisk._json import json_text
from korisk.cli.common.messages import in_options, tell
from korisk.errors import UnreachableError
from korisk.files import figure_kind, write_text
from korisk.planning import words
from korisk.texts import Table, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NARROWEST = 110  # columns where no terminal states its width, enough for the widest table


class _Console(Console):
    """A console that raises on a closed pipe, so that `app.run` can end quietly."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def show(*items: Table | str, whole_lines: bool = False) -> None:
    """Print tables and sentences; `whole_lines` prevents line breaks, as in commands to copy."""
    terminal = _Console(markup=False, emoji=False)  # names may contain [brackets]
    if not terminal.is_terminal:
        terminal.width = max(terminal.width, NARROWEST)
    for item in items:
        # Text from files must not control the terminal.
        text = drawn(item) if isinstance(item, Table) else plain(in_options(item))
        terminal.print(text, highlight=False, soft_wrap=whole_lines)


def show_numbers(tables: Iterable[Table]) -> None:
    """Print tables of sample sizes, and what their columns mean."""
    drawn_tables = list(tables)
    show(*drawn_tables, *([f"({words.LEGEND})"] if drawn_tables else []))


def exit_if(lost: bool) -> None:
    """End with the exit code of a target out of reach, which stands in the answer already."""
    if lost:
        raise typer.Exit(UnreachableError.exit_code)


def drawn(table: Table) -> DrawnTable:
    """Convert a table for a terminal; its texts are printed literally, without markup."""
    rich_table = DrawnTable(
        title=Text(plain(table.title)) if table.title else None,
        title_justify="left",
        title_style="bold",
        box=None,
        # One space between columns: the widest tables must fit into 80 columns.
        padding=(0, 1),
        collapse_padding=True,
        pad_edge=False,
    )
    for column, head in enumerate(table.heads):
        side: Literal["left", "right"] = "left" if table.left(column) else "right"
        rich_table.add_column(Text(plain(head)), justify=side, overflow="fold")
    for row in table.rows:
        rich_table.add_row(*(Text(plain(cell)) for cell in row))
    return rich_table


def print_json(content: object) -> None:
    """Print a result as JSON."""
    print(json_text(content))


# --- Files ---------------------------------------------------------------------------------------


def check_plot(path: Path | None) -> None:
    """Raise if a plot could not be written, before anything is computed."""
    if path is not None:
        # Raises if matplotlib is missing.
        import korisk.report.figures.forecast  # noqa: F401

        figure_kind(path)


def save_plot(figure: "Figure", path: Path) -> None:
    """Write a figure and say so."""
    from korisk.report.figures.style import save

    save(figure, path)
    tell(f"wrote {path}")


def write_page(path: Path, draw: Callable[[], str]) -> None:
    """Draw a page, which takes some seconds, write it and say so."""
    with working("drawing the page"):
        text = draw()
    write_text(path, text)
    tell(f"wrote {path}")


@contextmanager
def working(step: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show on a terminal what takes time; yields a function that changes the text."""
    with Console(stderr=True, quiet=quiet).status(step) as status:
        yield lambda text: status.update(Text(text))
