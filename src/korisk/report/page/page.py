"""One page that answers "how much data do I need?": a single self-contained HTML file.

Style, scripts and pictures are inside. A content security policy forbids the page to load anything.
All text from a user's files is escaped.
"""

from __future__ import annotations

import importlib.resources
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from string import Template
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from korisk._json import JsonDict
from korisk._version import __version__
from korisk.curves.curve import Curve
from korisk.planning import explain as words
from korisk.planning.fit import check_target
from korisk.planning.forecast import forecast
from korisk.planning.plan import LEVELS
from korisk.planning.targets import Group, main_group
from korisk.report.figures.pilot import comparison_figure, plan_figure
from korisk.report.figures.style import FINE, THEME_CSS, themed_svg
from korisk.report.headline import HEADLINES, headline, interval, question, record, short
from korisk.report.page.planner import LEGEND, groups_data
from korisk.report.tables.table import worded
from korisk.report.tables.text import html as table_html
from korisk.texts import counted, script_json

# Matplotlib itself is imported by `report.figures`, whose error says what to install.
if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST = 5_000_000  # bytes of a page
_SMALLEST_TYPE = 9  # CSS pixels; smaller type in a figure could not be read
_STILLS = 4  # figures of single forecasts in the page of a pilot
_COLUMNS = 4  # models in the table of all points


@dataclass(frozen=True)
class Section:
    """A section of a page: its heading, and its content as HTML."""

    name: str  # for links
    title: str
    html: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """Contents of a page."""

    title: str
    kind: str  # a word or two above the title
    groups: Sequence[Group]
    data: JsonDict  # for the scripts: groups and pictures
    notes: Sequence[str] = ()  # at the top, such as missing cells
    opens: str = ""  # "ratio": the first sentence compares two models
    still: str = ""  # the answer as a figure, for browsers without scripts
    question: str = ""  # the first sentences, if no group provides them
    answer: str = ""
    odds: str = ""
    promises: str = ""  # limits of the answer, if not those of a pilot
    sections: Sequence[Section] = ()

    def html(self) -> str:
        """The whole file as text."""
        main = main_group(self.groups)
        notes_html = ""
        if self.notes:
            opening = '<div class="missing" role="group" aria-label="Notes" tabindex="0">'
            notes_html = f"{opening}{bullets(self.notes, 'notes')}</div>"
        title = "What this does and does not promise"
        promises = self.promises or Template(asset("promises.html")).substitute(
            record=escape(record())
        )
        sections = [*self.sections, Section("promises", title, promises)]
        question_text, odds = self.question, self.odds
        if self.answer:
            answer = self.answer
        elif main is None:
            answer = (
                "No curve has three sizes yet, so nothing can be extrapolated: measure each "
                "model at three training set sizes or more."
            )
        else:
            # The page opens with the model about which most can be said.
            plan = main.plans[main.told.index(max(main.told))]
            advice = plan.recommend()
            answer = headline(advice, plan)
            goal = f"{plan.curve.metric or plan.curve.unit.noun} {words.value(plan.target)}"
            question_text = question(plan.curve.model, goal)
            goal += f" ({main.why})" if main.why else ""
            goal = f"{main.name}, {goal}" if len(self.groups) > 1 else goal
            odds = "; ".join(filter(None, (goal, interval(advice, plan)))) + "."
            if self.opens == "ratio" and main.comparison is not None:
                comparison = main.comparison
                answer, odds = comparison.saving(), comparison.crossing.explain()
            still_html = f"<noscript>{self.still}</noscript>" if self.still else ""
            planner_html = asset("planner.html") + still_html
            sections.insert(0, Section("planner", "How much data do I need?", planner_html))
            if len(self.groups) > 1:
                sections.insert(1, Section("points", "Every point", overview(self.groups)))
        start_index = list(self.groups).index(main) if main else 0
        return Template(asset("page.html")).substitute(
            title=escape(self.title),
            kind=escape(self.kind),
            question=escape(question_text),
            answer=escape(answer),
            odds=escape(odds),
            notes=notes_html,
            links=" ".join(f'<a href="#{s.name}">{escape(s.title)}</a>' for s in sections),
            sections="\n".join(
                f'<section id="{s.name}" aria-labelledby="{s.name}-title">'
                f'<h2 id="{s.name}-title">{escape(s.title)}</h2>{s.html}</section>'
                for s in sections
            ),
            version=__version__,
            style=asset("page.css") + THEME_CSS,
            data=script_json(
                self.data
                | {
                    "start": start_index,
                    "opens": self.opens,
                    "legend": LEGEND,
                    "levels": LEVELS,
                    "headlines": HEADLINES,
                    "sentences": words.ANSWERS,
                }
            ),
            table=asset("table.js"),
            view=asset("view.js"),
        )


def overview(groups: Sequence[Group]) -> str:
    """A table of the answers of all groups at their first targets, and the same as sentences."""
    # Two columns for each model, so that only a few models fit.
    curves = (fitted.curve for group in groups for fitted in group.forecasts)
    names = list(dict.fromkeys(curve.name for curve in curves))
    left_out, names = len(names[_COLUMNS:]), names[:_COLUMNS]
    heads = ["point", "target"]
    for name in names:
        heads += [f"{name}, 90% sure", f"{name}, even odds"]
    heads += ["who needs fewer"] * (len(names) > 1)
    rows = []
    for group in groups:
        # Text of each cell, and the number by which its column is sorted.
        cells: list[tuple[str, float]] = [("\N{EN DASH}", math.inf)] * (len(heads) - 1)
        link = ""
        if group.forecasts:
            link = f"#{urlencode({'point': group.name, 'target': group.target}, quote_via=quote)}"
            cells[0] = words.value(group.target), group.target
            for plan in group.plans:
                if plan.curve.name in names:
                    cell = 1 + 2 * names.index(plan.curve.name)
                    advice = plan.recommend()
                    number = math.inf if advice.n is None else float(advice.n)
                    # Other advice than a number of samples sorts last.
                    cells[cell] = short(advice), number if advice.action == "collect" else math.inf
                    if advice.even is not None:
                        cells[cell + 1] = words.count(advice.even), advice.even
        pair, kinds = group.comparison, ["number"] * len(cells)
        if pair is not None:
            low, high = pair.ratio_range or (0.0, math.inf)
            ends = (low, high) if pair.ratio is None else (pair.ratio, pair.ratio)
            cells[-1] = pair.saving(), next((end for end in ends if 0 < end < math.inf), math.inf)
            kinds[-1] = "saving" if pair.likely else "saving unlikely"
        name = escape(group.name)
        point_cell = f'<a href="{escape(link)}">{name}</a>' if link else name
        cells_html = "".join(
            f'<td class="{kind}" data-value="{key:.6g}">{escape(text)}</td>'
            for kind, (text, key) in zip(kinds, cells, strict=True)
        )
        rows.append(f'<tr><th scope="row">{point_cell}</th>{cells_html}</tr>')
    header = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{escape(head)}</button></th>'
        for head in heads
    )
    caption = "A row opens its point; a heading sorts."
    if left_out:
        caption += f" The planner shows {counted(left_out, 'more model')}."
    sentences = bullets(f"{group.name}: {group.sentence}" for group in groups)
    return (
        '<div class="table" role="region" aria-label="Answers at every point" tabindex="0">'
        '<table id="every">'
        f"<caption><span>{caption}</span></caption><thead><tr>{header}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f"<details><summary>The same in sentences</summary>{sentences}</details>"
    )


def figure_html(
    figure: Figure, words: str, caption: str = "", *, narrow: Figure | None = None
) -> str:
    """HTML of a figure that follows the theme, with alternative text and a caption.

    Its type stays readable: narrow screens show the narrow figure, or scroll.
    """
    content = ""
    for variant, kind in [(figure, "wide-only" if narrow else ""), (narrow, "narrow")]:
        if variant is not None:
            # FINE is the smallest type in a figure, in points at its natural size.
            min_width = _SMALLEST_TYPE / FINE * 72 * variant.get_size_inches()[0]
            content += (
                f'<div class="scroll {kind}" role="group" aria-label="{escape(words)}" '
                f'tabindex="0"><div style="min-width:{min_width:.0f}px">'
                f"{themed_svg(variant, words=words)}</div></div>"
            )
    caption_html = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="figure">{content}{caption_html}</figure>'


def bullets(sentences: Iterable[str], kind: str = "plain") -> str:
    """HTML list of sentences, of a CSS class."""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f'<ul class="{kind}">{items}</ul>'


@lru_cache
def asset(name: str) -> str:
    """A file of `assets`, which is the same in all pages."""
    return (importlib.resources.files("korisk.report.page") / "assets" / name).read_text("utf-8")


# --- The page of a pilot -------------------------------------------------------------------------


def pilot_page(
    curves: Sequence[Curve],
    *,
    title: str,
    target: float | None = None,
    kind: str = "korisk plan of a pilot",
    opens: str = "",
) -> str:
    """Write the page of curves that a user measured, without a study.

    If `opens` is "ratio", the first sentence compares the first two models.
    """
    group = Group(title, tuple(curves), target)
    if not group.forecasts:
        # Raises, with the number of sizes that are needed.
        forecast(group.curves[0])
    if target is not None:
        check_target([fitted.curve for fitted in group.forecasts], target)
    data, notes = groups_data([group])
    # Figures for browsers without scripts: of one model, of two, or of the first of many.
    alt_text = f"Forecast of {', '.join(fitted.curve.name for fitted in group.forecasts[:8])}"
    if group.comparison is not None and len(group.forecasts) == 2:
        still = figure_html(comparison_figure(group.comparison), alt_text)
    else:
        still = "".join(figure_html(plan_figure(plan), alt_text) for plan in group.plans[:_STILLS])
    rows = []
    for curve in group.curves:
        means = curve.unit.from_error(curve.means).tolist()
        for n, seeds, mean in zip(curve.sizes.tolist(), curve.counts.tolist(), means, strict=True):
            rows.append((curve.name, n, seeds, mean))
    table = worded("measured", rows, more=[curves[0].metric or curves[0].unit.noun])
    findings = [f"{plan.curve.name}: {text}" for plan in group.plans for text in plan.findings]
    measured = table_html(table)
    measured += f"<h3>What is odd about it</h3>{bullets(findings)}" if findings else ""
    page = Page(
        title=title,
        kind=kind,
        groups=[group],
        data={"groups": data, "pictures": []},
        notes=notes,
        opens=opens,
        still=still,
        sections=[
            Section("measured", "What was measured", measured),
            Section("how", "How it is extrapolated", asset("method.html")),
        ],
    )
    return page.html()
