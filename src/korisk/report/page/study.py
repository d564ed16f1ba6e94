"""Page of a study: from the contents of its store to one HTML file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape

from korisk._group import grouped
from korisk._json import JsonMapping
from korisk.planning.targets import Group, with_valid_targets
from korisk.report.contents import SUPPLEMENTS, Contents, refuse_an_empty_one
from korisk.report.figures.study import page_figures
from korisk.report.page.page import Page, Section, bullets, figure_html
from korisk.report.page.planner import Watch, unwatched
from korisk.report.page.prediction import prediction_section
from korisk.report.tables.table import ReportTable
from korisk.report.tables.tables import study_tables
from korisk.report.tables.text import html as table_html
from korisk.texts import counted

_MOST_ROWS = 400  # of a table in a page
# Alternative texts of figures, by the first word of their names.
_WORDS = {
    "sample": "Errors over training samples at every point",
    "layers": "Amplification of every layer by three bounds, and its part of the bound",
    "reconstructions": "Test images, and their reconstructions and errors by every model",
    "weights": "Learned weights against the analytic ones, over views and detector bins",
}


def study_page(
    contents: Contents,
    *,
    target: float | None = None,
    watch: Watch = unwatched,
) -> str:
    """Write the page of a study as one text; no network is fitted again.

    Parameters
    ----------
    contents : Contents
        What `read_contents` returns.
    target : float, optional
        The first target, in the unit of the study's metric. Default: close to the lowest error of
        the first model.
    watch : callable, optional
        Called with the name of each step.

    Returns
    -------
    str
        HTML that needs no other file.

    Raises
    ------
    KoriskError
        If no cell is finished, or no point covers the target.
    """
    refuse_an_empty_one(contents)
    crossings = contents.crossings
    points = [point for point in contents.points if point.curves]
    every = [
        Group.of_curves(
            p.name,
            p.curves,
            requested=target,
            crossing=crossings.get(p.name),
            complete=p.complete,
        )
        for p in points
    ]
    groups, refused = with_valid_targets(every)
    watch("tables")
    tables = {table.name: table for table in study_tables(contents)}
    opening = ""
    for supplement in SUPPLEMENTS:
        question, sentences, names = supplement.opening(contents)
        if sentences:
            shown = "".join(_table(tables.pop(name)) for name in names if name in tables)
            opening = (
                f'<section id="opening"><p class="question">{escape(question)}</p>'
                f'<h1 class="answer">{escape(sentences[0])}</h1>{bullets(sentences[1:])}{shown}'
                "</section>"
            )
    predicted, unseen = prediction_section(contents)
    figures = ""
    for name, wide, narrow in page_figures(contents):
        watch(name)
        alt_text = _WORDS.get(name.partition("_")[0], name)
        figures += figure_html(wide, alt_text, f"{alt_text}.", narrow=narrow)
    sections = [
        Section("predicted", "Predicted before training", predicted),
        Section("figures", "Figures", figures),
        Section("tables", "Tables", "".join(map(_table, tables.values()))),
        Section("how", "How it was measured", _how(contents)),
    ]
    return Page(
        title=contents.name,
        kind="korisk report of a study",
        groups=groups,
        notes=[*_missing(contents), *refused, *unseen],
        opening=opening,
        sections=[section for section in sections if section.html],
    ).html(watch)


def _table(table: ReportTable) -> str:
    """HTML of a table with its title; a long one ends with the place of the rest."""
    html = f"<h3>{escape(table.title)}</h3>"
    html += table_html(replace(table, rows=table.rows[:_MOST_ROWS]))
    if len(table.rows) > _MOST_ROWS:
        limit = f"The first {_MOST_ROWS:,} of {len(table.rows):,}"
        html += f"<p>{limit}; korisk export has all.</p>"
    return html


def _missing(contents: Contents) -> Iterator[str]:
    """Sentences on missing and failed cells, and on values that were left out."""
    for point in contents.points:
        name, missing, failed = point.name, point.missing, len(point.failures)
        if missing:
            total = len(point.cells) + failed + len(missing)
            seeds = f"seed{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing[:8]))}"
            seeds += f" and {len(missing) - 8} more" if len(missing) > 8 else ""
            cells = f"{len(missing)} of {total} cells"
            yield f"{name}: {cells} are missing ({seeds}); run the study again to add them."
        if failed:
            reason = point.failures[0].reason
            yield f"{name}: {counted(failed, 'cell')} failed, the first: {reason}"
        yield from (f"{name}: {sentence}." for sentence in point.left_out)


def _how(contents: Contents) -> str:
    """HTML of cells, time, machine and versions, and of every setting of every point."""
    cells = [cell for point in contents.points for cell in point.cells]
    total = sum(cell.usage.seconds for cell in cells)
    work_time = f"{total / 60:,.1f} minutes of work" if total >= 90 else f"{total:.1f} s of work"
    facts = [
        ("Store", contents.store.name),
        ("Begun", f"{contents.created[:16].replace('T', ' ')} UTC"),
        ("Cells", f"{len(cells):,} finished, {work_time}"),
        ("Made with", f"korisk {contents.korisk}"),
    ]
    for field in ("versions", "machine"):
        pairs = [pair for cell in cells for pair in getattr(cell.usage, field).items()]
        by_name = grouped((str(name), str(value)) for name, value in pairs if name != "korisk")
        facts += [(name, ", ".join(sorted(set(values)))) for name, values in by_name.items()]
    html = _definitions(facts)
    for point in contents.points:
        seeds = ", ".join(str(cell.task.seed) for cell in point.cells)
        pairs = [("metric", point.metric), ("seeds", seeds), *_flat(point.spec)]
        summary = f"<summary>{escape(point.name)}: what was run</summary>"
        html += f"<details>{summary}{_definitions(pairs)}</details>"
    return html


def _definitions(pairs: Sequence[tuple[str, str]]) -> str:
    inner = "".join(f"<div><dt>{escape(a)}</dt><dd>{escape(b)}</dd></div>" for a, b in pairs)
    return f'<dl class="facts">{inner}</dl>'


def _flat(content: JsonMapping, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Flatten nested settings to names such as problem.side."""
    for name, value in content.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None:
            values = value if isinstance(value, list) else [value]
            yield f"{prefix}{name}", ", ".join(map(str, values))
