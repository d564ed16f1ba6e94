"""`korisk report`: figures, tables and one page of a study, drawn from its store."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

from korisk._checks import one_of
from korisk.cli.common.messages import tell
from korisk.cli.common.options import Folder, Json
from korisk.cli.common.output import print_json, working
from korisk.errors import KoriskError
from korisk.files import FIGURE_KINDS, make_folder, write_text
from korisk.texts import counted

PARTS = ("page", "figures", "tables")


def report(
    path: Folder,
    out: Annotated[Path | None, "FOLDER", "Where to write. [default: DIR]"] = None,
    target: Annotated[float | None, "E", "Of the page. [default: near the least error]"] = None,
    only: Annotated[str, "PART,...", "What to draw."] = ",".join(PARTS),
    formats: Annotated[str, "FORMAT,...", "Of the figures."] = ",".join(FIGURE_KINDS),
    json: Json = False,
) -> None:
    """Draw a study: one page that answers how much data it takes, figures, tables.

    Nothing is run again. An unfinished or running study is reported as far as it is stored, and the
    page lists what is missing.
    """
    parts = _names("--only", only, PARTS)
    kinds = _names("--formats", formats, FIGURE_KINDS)
    if target is not None and "page" not in parts:
        raise KoriskError("--target is for the page; add page to --only, or leave it out")
    from korisk.report.contents import read_contents, refuse_an_empty_one

    contents = read_contents(path)
    refuse_an_empty_one(contents)
    curves = [curve for point in contents.points for curve in point.curves]
    metrics = ", ".join(dict.fromkeys(repr(curve.metric) for curve in curves))
    models = ", ".join(dict.fromkeys(curve.model for curve in curves))
    points = counted(len(contents.points), "point")
    read_as = f"{metrics} of {models} at {points} of {contents.store}" if curves else points
    # Made before the work, so that a folder that cannot be written fails at once.
    folder = make_folder(out if out is not None else contents.store.parent)
    written: list[Path] = []
    with working("reading", quiet=json) as watch:
        if "page" in parts:
            from korisk.report.page.study import study_page

            written.append(folder / "report.html")
            write_text(written[-1], study_page(contents, target=target, watch=watch))
        if "figures" in parts:
            from korisk.report.figures.study import save_figures, study_figures

            figures = study_figures(contents)
            written += save_figures(figures, folder / "figures", kinds, watch=watch)
        if "tables" in parts:
            from korisk.report.tables.text import save_tables

            written += save_tables(contents, folder / "tables")
    if json:
        incomplete = {
            point.name: {"failed": len(point.failures), "missing": list(point.missing)}
            for point in contents.points
            if not point.complete
        }
        written_to = list(map(str, written))
        print_json({"read_as": read_as, "written": written_to, "incomplete": incomplete})
        return
    # After the work: a refused report prints its error and nothing else.
    tell(f"Read: {read_as}")
    for parent, count in Counter(file.parent for file in written).items():
        files = [str(file) for file in written if file.parent == parent]
        # A few files by name; dozens of figures only by number and folder.
        for name in files if count <= 3 else [f"{count} files in {parent}"]:
            tell(f"wrote {name}")


def _names(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The names in a comma-separated option, checked, in the order of `known`."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names or [""]:
        one_of(option, name, known)
    return tuple(name for name in known if name in names)
