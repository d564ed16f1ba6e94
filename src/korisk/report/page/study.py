"""The page of a study: from what its store tells to one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from korisk.errors import KoriskError
from korisk.planning.fit import target_error
from korisk.report.contents import Contents, Point, refuse_an_empty_one
from korisk.report.figures.study import STILL, THEOREM, study_figures
from korisk.report.page.data import Watch, groups_data
from korisk.report.page.groups import Group
from korisk.report.page.page import (
    LARGEST,
    METHOD,
    Page,
    Section,
    asset,
    bullets,
    definitions,
    figure_html,
)
from korisk.report.page.pictures import framed
from korisk.report.page.prediction import prediction_section
from korisk.report.tables.tables import ReportTable, study_tables
from korisk.report.tables.text import html as table_html
from korisk.report.tables.theorem import NAMES as THEOREM_TABLES
from korisk.report.tables.theorem import theorem_sentences, theorems_of
from korisk.studies.results import LEAST_SIZES
from korisk.studies.theorem.check import PointTheorem

_SPARE = 200_000  # bytes that are kept free
_MOST_ROWS = 400  # of a table in a page
_WORDS = {  # for those who do not see a figure, by how its name begins
    "two": "The two factors of Proposition 2, their product and the ratio of N, against the target",
    "architecture": "The networks layer by layer, known layers grey and learned ones green",
    "layers": "Amplification of every layer by three bounds, and its part of the bound",
    "theorem": "Measured errors and the three bounds over N, and what each layer adds to a bound",
    "weights": "Learned weights against the analytic ones, over views and detector bins",
}


def study_page(
    contents: Contents, *, target: float | None = None, watch: Watch = lambda _: None
) -> str:
    """The page as one text; no network is fitted again."""
    refuse_an_empty_one(contents)
    groups, refused = _groups(contents, target)
    data, crowded = groups_data(groups, watch=watch)
    still, drawn, figures = _figures(contents, watch)
    watch("tables")
    theorem, tables = _tables(contents)
    theorems = theorems_of(contents)
    predicted, unseen = prediction_section(contents, watch)
    sections = [predicted, _theorem(theorems, drawn + theorem), figures, tables, _how(contents)]
    page = Page(
        title=contents.name,
        kind="korisk report of a study",
        groups=groups,
        data={"groups": data, "pictures": []},
        answers=[(group.name, _answer(group)) for group in groups],
        notes=[*_violated(theorems), *_lacking(contents), *refused, *crowded, *unseen],
        still=still,
        sections=[section for section in sections if section.html],
    )
    watch("pictures")
    return _with_pictures(page, contents).html()


def _groups(contents: Contents, target: float | None) -> tuple[list[Group], list[str]]:
    """Points with curves; a target that one of them cannot have is said, and not asked there."""
    groups, refused = [], []
    for point in contents.points:
        if not point.curves:
            continue
        crossed = contents.crossings.get(point.name)
        group = Group(point.name, point.curves, target, crossed, point.complete)
        if target is not None:
            try:
                for each in group.extrapolated:
                    target_error(each.curve, target)
            except KoriskError as error:
                refused.append(f"{point.name}: {error}.")
                group = replace(group, asked=None)
        groups.append(group)
    if refused and len(refused) == len(groups):
        raise KoriskError(refused[0].removesuffix("."))
    return groups, refused


def _answer(group: Group) -> str:
    if group.extrapolated:
        return group.sentence
    most = max(len(curve.sizes) for curve in group.curves)
    return f"{most} training set size{'s' if most > 1 else ''}; {LEAST_SIZES} are needed to plan."


def _lacking(contents: Contents) -> Iterator[str]:
    """What is missing, in sentences."""
    for point in contents.points:
        if point.missing:
            total = len(point.cells) + len(point.failures) + len(point.missing)
            seeds = ", ".join(map(str, point.missing[:8]))
            more = f" and {len(point.missing) - 8} more" if len(point.missing) > 8 else ""
            yield (
                f"{point.name}: {len(point.missing)} of {total} cells are not there yet (seed"
                f"{'s' if len(point.missing) > 1 else ''} {seeds}{more}); run the study again to "
                "have them."
            )
        if point.failures:
            count, why = len(point.failures), point.failures[0].reason
            yield f"{point.name}: {count} cell{'s' if count > 1 else ''} failed, the first: {why}"
        yield from (f"{point.name}: {sentence}." for sentence in point.left_out)


def _figures(contents: Contents, watch: Watch) -> tuple[str, str, Section]:
    """The curves as a still picture, the theorem's figure, and the others as a section."""
    still, theorem, shown = "", "", []
    for name, figure in study_figures(contents, page=True):
        watch(name)
        words = _WORDS.get(name.partition("_")[0], name)
        if name == STILL:
            still = figure_html(figure, "Errors over training samples at every point")
        else:
            drawn = figure_html(figure, words)
            caption = f"<figcaption>{escape(words)}.</figcaption>"
            html = f'<figure class="figure">{drawn}{caption}</figure>'
            if name == THEOREM:
                theorem = html
            else:
                shown.append(html)
    return still, theorem, Section(name="figures", title="Figures", html="".join(shown))


def _tables(contents: Contents) -> tuple[str, Section]:
    """The theorem's tables, and the others as a section."""
    made = study_tables(contents)
    own = "".join(_table(table) for table in made if table.name in THEOREM_TABLES)
    others = "".join(_table(table) for table in made if table.name not in THEOREM_TABLES)
    return own, Section(name="tables", title="Tables", html=others)


def _theorem(theorems: Sequence[PointTheorem], shown: str) -> Section:
    """Whether measured errors stay within the bounds; empty where the study does not tell."""
    said = theorem_sentences(theorems)
    words = f"<p><strong>{escape(said[0])}</strong></p>" if said else ""
    words += bullets(said[1:]) if said[1:] else ""
    return Section(name="theorem", title="Does the theorem hold?", html=words + shown)


def _violated(theorems: Sequence[PointTheorem]) -> Iterator[str]:
    """A line for the top of the page where errors lie above their bounds."""
    broken = [point.name for point in theorems if point.holds is False]
    if broken:
        yield f"Errors lie above a bound of the theorem, which is VIOLATED: {', '.join(broken)}."


def _table(table: ReportTable) -> str:
    if len(table.rows) <= _MOST_ROWS:
        short = table
        more = ""
    else:
        short = replace(table, rows=table.rows[:_MOST_ROWS])
        more = f"<p>The first {_MOST_ROWS:,} of {len(table.rows):,}; korisk export has all.</p>"
    folded = "" if table.name == "cells" else " open"
    return (
        f"<details{folded}><summary>{escape(table.title)}</summary>{table_html(short)}{more}"
        "</details>"
    )


def _how(contents: Contents) -> Section:
    cells = [cell for point in contents.points for cell in point.cells]
    facts = [
        ("Store", contents.store.name),
        ("Begun", f"{contents.created[:16].replace('T', ' ')} UTC"),
        ("Cells", f"{len(cells):,} finished, {_seconds(sum(c.usage.seconds for c in cells))}"),
        ("Made with", f"korisk {contents.korisk}"),
        *(
            (name, ", ".join(sorted(found)))
            for name, found in _versions(cells, "versions").items()
            if name != "korisk"
        ),
        *((name, ", ".join(sorted(found))) for name, found in _versions(cells, "machine").items()),
    ]
    points = "".join(_described(point) for point in contents.points)
    return Section(
        name="how", title="How it was measured", html=definitions(facts) + points + METHOD
    )


def _seconds(total: float) -> str:
    return f"{total / 60:,.1f} minutes of work" if total >= 90 else f"{total:.1f} s of work"


def _versions(cells: Sequence[Any], part: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for cell in cells:
        for name, value in getattr(cell.usage, part).items():
            found.setdefault(str(name), set()).add(str(value))
    return found


def _described(point: Point) -> str:
    seeds = ", ".join(map(str, point.seeds))
    pairs = [("metric", point.metric), ("seeds", seeds), *_flat(point.spec)]
    return (
        f"<details><summary>{escape(point.name)}: what was run</summary>{definitions(pairs)}"
        "</details>"
    )


def _flat(content: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as names with dots between."""
    for name, value in content.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif value is not None:
            listed = value if isinstance(value, list) else [value]
            yield f"{before}{name}", ", ".join(map(str, listed))


def _with_pictures(page: Page, contents: Contents) -> Page:
    """The page with as many pictures as there is room for."""
    named = [
        (point.name, point.pictures)
        for point in contents.points
        if point.pictures is not None and point.pictures.images
    ]
    if not named:
        return page
    room = LARGEST - _SPARE - len(page.html().encode())
    made, dropped = framed(named, most=max(room, 0))
    notes = [*page.notes]
    if dropped:
        notes.append(f"There is no room for the pictures of {', '.join(dropped)}.")
    if not made:
        return replace(page, notes=notes)
    section = Section(name="pictures", title="Reconstructions", html=asset("pictures.html"))
    data = page.data | {"pictures": [each.content for each in made]}
    return replace(page, data=data, notes=notes, sections=[section, *page.sections])
