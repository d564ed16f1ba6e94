"""The page of a study: from what its store tells to one HTML file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape

from korisk._group import grouped
from korisk._json import JsonMapping
from korisk.planning.targets import Group, asked
from korisk.report.contents import Contents, refuse_an_empty_one
from korisk.report.figures.study import page_figures
from korisk.report.page.page import LARGEST, Page, Section, asset, bullets, figure_html
from korisk.report.page.pictures import framed
from korisk.report.page.planner import Watch, groups_data, unwatched
from korisk.report.page.prediction import prediction_section
from korisk.report.tables.tables import study_tables
from korisk.report.tables.text import html as table_html

_SPARE = 200_000  # bytes that are kept free
_MOST_ROWS = 400  # of a table in a page
_WORDS = {  # for those who do not see a figure, by how its name begins
    "sample": "Errors over training samples at every point",
    "two": "The two factors of Proposition 1, their product and the ratio of N, against the target",
    "architecture": "The networks layer by layer, known layers grey and learned ones green",
    "layers": "Amplification of every layer by three bounds, and its part of the bound",
    "weights": "Learned weights against the analytic ones, over views and detector bins",
}


def study_page(
    contents: Contents,
    *,
    target: float | None = None,
    running: bool = False,
    watch: Watch = unwatched,
) -> str:
    """Write the page of a study as one text; no network is fitted again.

    Parameters
    ----------
    contents : Contents
        What `read_contents` returns.
    target : float, optional
        The first target, in the unit of the study's metric. By default nearly the lowest error of
        the first model.
    running : bool, default False
        Whether a run is on, so that missing cells are waited for.
    watch : callable, optional
        Is called with what is being made, in a few words.

    Returns
    -------
    str
        HTML that needs no other file.

    Raises
    ------
    KoriskError
        If no cell is finished, or no point can have the target.
    """
    refuse_an_empty_one(contents)
    crossings = contents.crossings
    curved = [point for point in contents.points if point.curves]
    every = [Group(p.name, p.curves, target, crossings.get(p.name), p.complete) for p in curved]
    groups, refused = asked(every)
    curves, crowded = groups_data(groups, watch=watch)
    supplements = {supplement.name: supplement for supplement in contents.supplements}
    figures = dict.fromkeys(("", *supplements), "")  # by the supplement in whose section they stand
    tables = dict(figures)
    words = _WORDS | {begin: each for s in supplements.values() for begin, each in s.words.items()}
    for name, wide, narrow in page_figures(contents):
        watch(name)
        begin = name.partition("_")[0]
        shows = words.get(begin, name)
        drawn = figure_html(wide, shows, f"{shows}.", narrow=narrow)
        figures[begin if begin in supplements else ""] += drawn
    watch("tables")
    for table in study_tables(contents):
        short = replace(table, rows=table.rows[:_MOST_ROWS])
        folded = "" if table.name == "cells" else " open"
        html = f"<details{folded}><summary>{escape(table.title)}</summary>{table_html(short)}"
        if len(table.rows) > _MOST_ROWS:
            most = f"The first {_MOST_ROWS:,} of {len(table.rows):,}"
            html += f"<p>{most}; korisk export has all.</p>"
        begin = table.name.partition("_")[0]
        tables[begin if begin in supplements else ""] += f"{html}</details>"
    predicted, unseen = prediction_section(contents, watch)
    sections = [predicted]
    for name, supplement in supplements.items():
        said = supplement.sentences()
        html = f"<p><strong>{escape(said[0])}</strong></p>{bullets(said[1:])}" if said else ""
        html += figures[name] + tables[name]
        sections.append(Section(name, supplement.title, html))
    sections.append(Section("figures", "Figures", figures[""]))
    sections.append(Section("tables", "Tables", tables[""]))
    sections.append(Section("how", "How it was measured", _how(contents)))
    first = [note for supplement in supplements.values() for note in supplement.notes()]
    page = Page(
        title=contents.name,
        kind="korisk report of a study",
        groups=groups,
        data={"groups": curves, "pictures": []},
        notes=[*first, *_missing(contents, running), *refused, *crowded, *unseen],
        running=running,
        sections=[section for section in sections if section.html],
    )
    named = [(p.name, p.pictures) for p in contents.points if p.pictures and p.pictures.images]
    if named:
        watch("pictures")
        space = max(LARGEST - _SPARE - len(page.html().encode()), 0)
        made, dropped = framed(named, most=space)
        no_space = f"There is no space for the pictures of {', '.join(dropped)}."
        page = replace(page, notes=[*page.notes, *([no_space] if dropped else [])])
        if made:
            shown = Section("pictures", "Reconstructions", asset("pictures.html"))
            data = page.data | {"pictures": made}
            page = replace(page, data=data, sections=[shown, *page.sections])
    return page.html()


def _missing(contents: Contents, running: bool) -> Iterator[str]:
    """What is missing, in sentences."""
    for point in contents.points:
        name, missing, failed = point.name, point.missing, len(point.failures)
        if missing:
            total = len(point.cells) + failed + len(missing)
            seeds = f"seed{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing[:8]))}"
            seeds += f" and {len(missing) - 8} more" if len(missing) > 8 else ""
            cells = f"{len(missing)} of {total} cells"
            if running:
                yield f"{name}: waiting for {cells} ({seeds})."
            else:
                yield f"{name}: {cells} are missing ({seeds}); run the study again to add them."
        if failed:
            why = point.failures[0].reason
            yield f"{name}: {failed} cell{'s' if failed > 1 else ''} failed, the first: {why}"
        yield from (f"{name}: {sentence}." for sentence in point.left_out)


def _how(contents: Contents) -> str:
    """Cells, time, machine and versions, and every setting of every point."""
    cells = [cell for point in contents.points for cell in point.cells]
    total = sum(cell.usage.seconds for cell in cells)
    time = f"{total / 60:,.1f} minutes of work" if total >= 90 else f"{total:.1f} s of work"
    facts = [
        ("Store", contents.store.name),
        ("Begun", f"{contents.created[:16].replace('T', ' ')} UTC"),
        ("Cells", f"{len(cells):,} finished, {time}"),
        ("Made with", f"korisk {contents.korisk}"),
    ]
    for part in ("versions", "machine"):
        every = [pair for cell in cells for pair in getattr(cell.usage, part).items()]
        found = grouped((str(name), str(value)) for name, value in every if name != "korisk")
        facts += [(name, ", ".join(sorted(set(values)))) for name, values in found.items()]
    html = _definitions(facts)
    for point in contents.points:
        seeds = ", ".join(str(cell.task.seed) for cell in point.cells)
        pairs = [("metric", point.metric), ("seeds", seeds), *_flat(point.spec)]
        summary = f"<summary>{escape(point.name)}: what was run</summary>"
        html += f"<details>{summary}{_definitions(pairs)}</details>"
    return f"{html}<h3>How it is extrapolated</h3>{asset('method.html')}"


def _definitions(pairs: Sequence[tuple[str, str]]) -> str:
    inner = "".join(f"<div><dt>{escape(a)}</dt><dd>{escape(b)}</dd></div>" for a, b in pairs)
    return f'<dl class="facts">{inner}</dl>'


def _flat(content: JsonMapping, before: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as names with dots between."""
    for name, value in content.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif value is not None:
            listed = value if isinstance(value, list) else [value]
            yield f"{before}{name}", ", ".join(map(str, listed))
