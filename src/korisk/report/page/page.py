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
from korisk.planning import words
from korisk.planning.chances import LEVELS
from korisk.planning.forecast import LEAST_SIZES, check_goal
from korisk.planning.plan import Forecast, forecast
from korisk.planning.targets import Group, Trained, main_group
from korisk.report.figures.forecast import comparison_figure, plan_figure
from korisk.report.figures.style import FINE, THEME_CSS, themed_svg
from korisk.report.page.planner import TEMPLATES, groups_data
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
    sections: Sequence[Section] = ()

    def html(self) -> str:
        """The whole file as text."""
        main = main_group(self.groups)
        notes_html = ""
        if self.notes:
            opening = '<div class="missing" role="group" aria-label="Notes" tabindex="0">'
            notes_html = f"{opening}{bullets(self.notes, 'notes')}</div>"
        # The page opens with the model about which most can be said.
        plan = main.plans[main.told.index(max(main.told))] if main else None
        promises = "rehearsed.html" if plan and plan.forecast.simulated else "promises.html"
        title = "What this does and does not promise"
        sections = [*self.sections, Section("promises", title, asset(promises))]
        question, odds, record = "", "", ""
        if main is None or plan is None:
            answer = (
                "No curve has three sizes yet, so nothing can be extrapolated: measure each "
                "model at three training set sizes or more."
            )
        else:
            advice, view = plan.recommend(), plan.forecast
            answer, odds, record = advice.sentence, advice.odds, advice.record
            goal = f"{view.metric or view.unit.noun} {words.value(plan.target)}"
            question = words.question(view.model, goal)
            goal += f" ({main.why})" if main.why else ""
            goal = f"{main.name}, {goal}" if len(self.groups) > 1 else goal
            odds = " ".join(filter(None, (odds, f"For {goal}.")))
            if self.opens == "ratio" and main.comparison is not None:
                comparison = main.comparison
                answer, odds = comparison.saving(), comparison.crossing.explain()
                record = comparison.record
            still_html = f"<noscript>{self.still}</noscript>" if self.still else ""
            planner_html = asset("planner.html") + still_html
            sections.insert(0, Section("planner", "How much data do I need?", planner_html))
            if len(self.groups) > 1:
                sections.insert(1, Section("points", "Every point", overview(self.groups)))
        start_index = list(self.groups).index(main) if main else 0
        return Template(asset("page.html")).substitute(
            title=escape(self.title),
            kind=escape(self.kind),
            question=escape(question),
            answer=escape(answer),
            odds=escape(odds),
            record=escape(record),
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
                    "levels": LEVELS,
                    "templates": TEMPLATES,
                    "explained": words.LEGEND,
                }
            ),
            table=asset("table.js"),
            view=asset("view.js"),
        )


def overview(groups: Sequence[Group]) -> str:
    """A table of the answers of all groups at their first targets, and the same as sentences."""
    # Two columns for each model, so that only a few models fit.
    views = (view for group in groups for view in group.forecasts)
    names = list(dict.fromkeys(view.evidence.name for view in views))
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
                name = plan.forecast.evidence.name
                if name in names:
                    cell = 1 + 2 * names.index(name)
                    advice = plan.recommend()
                    # Other advice than a number of samples sorts last.
                    number = float(advice.n or 0) if advice.action == "collect" else math.inf
                    cells[cell] = words.short(advice.action, advice.n), number
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


# --- The page of forecasts -----------------------------------------------------------------------


def plans_page(
    forecasts: Sequence[Forecast],
    *,
    title: str,
    short: Sequence[Curve] = (),
    trained: Sequence[Trained] = (),
    target: float | None = None,
    kind: str = "korisk plan",
    opens: str = "",
) -> str:
    """Write the page of one forecast or of several in one metric.

    If `opens` is "ratio", the first sentence compares the first two models.
    """
    if target is not None:
        check_goal(forecasts, target)
    group = Group(title, tuple(forecasts), target, tuple(short), trained=tuple(trained))
    return groups_page([group], title=title, kind=kind, opens=opens)


def groups_page(
    groups: Sequence[Group],
    *,
    title: str,
    kind: str,
    opens: str = "",
    sections: Sequence[Section] = (),
) -> str:
    """Write the page of forecasts at one operating point or at several."""
    data, notes = groups_data(groups)
    # Figures for browsers without scripts: of one model, of two, or of the first of many.
    group = groups[0]
    alt_text = f"Forecast of {', '.join(view.evidence.name for view in group.forecasts[:8])}"
    if group.comparison is not None and len(group.forecasts) == 2:
        still = figure_html(comparison_figure(group.comparison), alt_text)
    else:
        still = "".join(figure_html(plan_figure(plan), alt_text) for plan in group.plans[:_STILLS])
    page = Page(
        title=title,
        kind=kind,
        groups=groups,
        data={"groups": data, "pictures": []},
        notes=notes,
        opens=opens,
        still=still,
        sections=[
            *(_evidence(group, str(k or "")) for k, group in enumerate(groups)),
            *sections,
            Section("how", "How it is extrapolated", asset("method.html")),
        ],
    )
    return page.html()


def curves_page(
    curves: Sequence[Curve],
    trained: Sequence[Trained],
    related: Sequence[Sequence[Curve]] = (),
    *,
    title: str,
    target: float | None,
) -> str:
    """Write the page of the curves of a table; those with too few sizes are drawn all the same."""
    relatives = related or [()] * len(curves)
    rows = list(zip(curves, trained, relatives, strict=True))
    long = [row for row in rows if len(row[0].sizes) >= LEAST_SIZES]
    if not long:
        forecast(curves[0])  # raises, with the number of sizes that are needed
    return plans_page(
        [forecast(curve, related=similar) for curve, _, similar in long],
        title=title,
        short=[curve for curve, *_ in rows if len(curve.sizes) < LEAST_SIZES],
        trained=[about for _, about, _ in long],
        target=target,
    )


def _evidence(group: Group, number: str) -> Section:
    """What was measured or simulated: the means, and what they rest on."""
    curves = [curve for view in group.forecasts for curve in (view.curve, view.simulated) if curve]
    rows = []
    for curve in (*curves, *group.short):
        means = curve.unit.from_error(curve.means).tolist()
        for n, seeds, mean in zip(curve.sizes.tolist(), curve.counts.tolist(), means, strict=True):
            rows.append((curve.name, n, seeds, mean))
    table = worded("measured", rows, more=[curves[0].metric or curves[0].unit.noun])
    notes = dict.fromkeys(note for view in group.forecasts for note in view.notes)
    html = table_html(table) + (f"<h3>What it rests on</h3>{bullets(notes)}" if notes else "")
    measured = all(view.simulated is None for view in group.forecasts)
    heading = "What was measured" if measured else "What was simulated"
    return Section(f"measured{number}", f"{group.name}: {heading}" if number else heading, html)
