"""`korisk report`: figures, tables and one page of a study, from what its store holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from korisk.cli.output import print_json
from korisk.errors import KoriskError, did_you_mean
from korisk.files import FIGURE_KINDS, make_folder, write_text

PARTS = ("page", "figures", "tables")
PAGE = "report.html"


def report(
    path: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a study, or its store.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where report.html, figures/ and tables/ go. [default: DIR]"
        ),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            metavar="E",
            help="First target of the page. [default: nearly the best of the first model]",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="PART,...", help="page, figures, tables. [default: all three]"),
    ] = None,
    formats: Annotated[
        str, typer.Option(metavar="FORMAT,...", help="Formats of the figures: png, svg, pdf.")
    ] = ",".join(FIGURE_KINDS),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Draw a study: one page that answers how much data it takes, figures, tables.

    Nothing is run again. A study that is half finished, or running, is reported as far as it is,
    and the page says what is missing.
    """
    parts = _chosen("--only", ",".join(PARTS) if only is None else only, PARTS)
    kinds = _chosen("--formats", formats, FIGURE_KINDS)
    if target is not None and "page" not in parts:
        raise KoriskError("--target is asked on the page; add page to --only, or leave it out")
    from korisk.report.contents import read_contents, refuse_an_empty_one

    contents = read_contents(path)
    refuse_an_empty_one(contents)
    folder = make_folder(out if out is not None else contents.store.parent)  # before the work
    written: list[Path] = []
    with _said(quiet=as_json) as watch:
        if "page" in parts:
            from korisk.report.page.study import study_page

            text = study_page(contents, target=target, watch=watch)
            written.append(folder / PAGE)
            write_text(written[-1], text)
        if "figures" in parts:
            from korisk.report.figures.study import save_figures, study_figures

            watch("figures")
            drawn = study_figures(contents)
            written += save_figures(drawn, folder / "figures", kinds, watch=watch)
        if "tables" in parts:
            from korisk.report.tables.text import save_tables

            watch("tables")
            written += save_tables(contents, folder / "tables")
    if as_json:
        lacking = {
            point.name: {"failed": len(point.failures), "missing": list(point.missing)}
            for point in contents.points
            if not point.complete
        }
        print_json({"written": list(map(str, written)), "incomplete": lacking})
        return
    for each in written if len(written) <= 3 else _summary(written):
        typer.echo(f"korisk: wrote {each}", err=True)


def _summary(written: list[Path]) -> list[str]:
    """Files one by one where they are few in a folder, else counted."""
    by_folder: dict[Path, list[Path]] = {}
    for file in written:
        by_folder.setdefault(file.parent, []).append(file)
    return [
        str(files[0]) if len(files) == 1 else f"{len(files)} files in {folder}"
        for folder, files in by_folder.items()
    ]


def _chosen(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names or [""]:
        if name not in known:
            raise KoriskError(
                f"{option} must be among {', '.join(known)}, got {name!r}"
                f"{did_you_mean(name, known)}"
            )
    return tuple(name for name in known if name in names)


@contextmanager
def _said(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """What is being made, on stderr, where somebody watches."""
    screen = Console(stderr=True)
    if quiet or not screen.is_terminal:
        yield lambda _: None
        return
    with screen.status(Text("reading")) as status:
        yield lambda what: status.update(Text(what))
