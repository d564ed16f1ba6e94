"""One page that answers "how much data do I need?": a single HTML file that needs nothing else.

Everything is inside: style, scripts, pictures. A content security policy forbids the page to ask
anyone for anything. Whatever comes from a user's file is escaped.
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
from korisk._text import script_json
from korisk._version import __version__
from korisk.curves.curve import Curve
from korisk.planning import explain as words
from korisk.planning.fit import check_target
from korisk.planning.forecast import forecast
from korisk.planning.plan import LEVELS
from korisk.planning.targets import Group, main_group
from korisk.report.figures.pilot import comparison_figure, plan_figure
from korisk.report.figures.style import FINE, THEME_CSS, themed_svg
from korisk.report.headline import HEADLINES, headline, interval, record, short
from korisk.report.page.planner import LEGEND, groups_data
from korisk.report.tables.table import worded
from korisk.report.tables.text import html as table_html

if TYPE_CHECKING:  # `report.figures` says what to install where it is missing
    from matplotlib.figure import Figure

LARGEST = 5_000_000  # bytes of a page
_LEAST = 9  # CSS pixels of type in a figure
_STILLS = 4  # pictures of single forecasts in the page of a pilot
_COLUMNS = 4  # models that the table of all points has


@dataclass(frozen=True)
class Section:
    """A part of a page: its heading, and what stands below it, as HTML."""

    name: str  # for links
    title: str
    html: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a page says."""

    title: str
    kind: str  # a word or two above the title
    groups: Sequence[Group]
    data: JsonDict  # for the scripts: groups and pictures
    notes: Sequence[str] = ()  # what is missing, at the top
    running: bool = False  # whether more is being measured
    opens: str = ""  # "ratio": the first sentence compares two models
    still: str = ""  # the answer as a figure, where no script runs
    answer: str = ""  # the first sentence and the one below it, where no group has one
    odds: str = ""
    promises: str = ""  # what it does not promise, where that is not about a pilot
    sections: Sequence[Section] = ()

    def html(self) -> str:
        """The whole file."""
        main = main_group(self.groups)
        missing = ""
        if self.notes:
            box = '<div class="missing" role="group" aria-label="Notes" tabindex="0">'
            missing = f"{box}{bullets(self.notes, 'notes')}</div>"
        title = "What this does and does not promise"
        promises = self.promises or Template(asset("promises.html")).substitute(
            record=escape(record())
        )
        shown = [*self.sections, Section("promises", title, promises)]
        odds = self.odds
        if self.answer:
            answer = self.answer
        elif main is None:
            answer = (
                "Waiting for three training set sizes: with fewer, nothing can be extrapolated."
                if self.running
                else "No curve has three sizes yet, so nothing can be extrapolated: measure each "
                "model at three training set sizes or more."
            )
        else:
            plan = main.plans[main.told.index(max(main.told))]
            advice = plan.recommend()
            answer = headline(advice, plan)
            asked = f"{plan.curve.metric or plan.curve.unit.noun} {words.value(plan.target)}"
            asked += f" ({main.why})" if main.why else ""
            asked = f"{main.name}, {asked}" if len(self.groups) > 1 else asked
            odds = "; ".join(filter(None, (asked, interval(advice, plan)))) + "."
            if self.opens == "ratio" and main.comparison is not None:
                both = main.comparison
                answer, odds = both.saving(), both.crossing.explain()
            still = f"<noscript>{self.still}</noscript>" if self.still else ""
            planner = asset("planner.html") + still
            shown.insert(0, Section("planner", "How much data do I need?", planner))
            if len(self.groups) > 1:
                shown.insert(1, Section("points", "Every point", overview(self.groups)))
        start = list(self.groups).index(main) if main else 0
        return Template(asset("page.html")).substitute(
            title=escape(self.title),
            kind=escape(self.kind),
            answer=escape(answer),
            odds=escape(odds),
            notes=missing,
            links=" ".join(f'<a href="#{each.name}">{escape(each.title)}</a>' for each in shown),
            sections="\n".join(
                f'<section id="{each.name}" aria-labelledby="{each.name}-title">'
                f'<h2 id="{each.name}-title">{escape(each.title)}</h2>{each.html}</section>'
                for each in shown
            ),
            version=__version__,
            style=asset("page.css") + THEME_CSS,
            data=script_json(
                self.data
                | {
                    "start": start,
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
    """The answers of all groups to their first targets, one row each, and the same in sentences."""
    names = list(dict.fromkeys(each.curve.name for group in groups for each in group.forecasts))
    left_out, names = len(names[_COLUMNS:]), names[:_COLUMNS]
    heads = ["point", "target"]
    for name in names:
        heads += [f"{name}, 90% sure", f"{name}, even odds"]
    heads += ["who needs fewer"] * (len(names) > 1)
    rows = []
    for group in groups:
        cells: list[tuple[str, float]] = [("\N{EN DASH}", math.inf)] * (len(heads) - 1)
        link = ""
        if group.forecasts:
            link = f"#{urlencode({'point': group.name, 'target': group.target}, quote_via=quote)}"
            cells[0] = words.value(group.target), group.target
            for plan in group.plans:
                if plan.curve.name in names:
                    at = 1 + 2 * names.index(plan.curve.name)
                    advice = plan.recommend()
                    number = math.inf if advice.n is None else float(advice.n)
                    cells[at] = short(advice), number if advice.action == "collect" else math.inf
                    if advice.even is not None:
                        cells[at + 1] = words.count(advice.even), advice.even
        both, grey = group.comparison, ""
        if both is not None:
            low, high = both.ratio_range or (0.0, math.inf)
            ends = (low, high) if both.ratio is None else (both.ratio, both.ratio)
            cells[-1] = both.saving(), next((end for end in ends if 0 < end < math.inf), math.inf)
            grey = "" if both.likely else " unlikely"
        name = escape(group.name)
        first = f'<a href="{escape(link)}">{name}</a>' if link else name
        kinds = ["number"] * len(cells)
        if both is not None:
            kinds[-1] = f"saving{grey}"
        body = "".join(
            f'<td class="{kind}" data-value="{key:.6g}">{escape(text)}</td>'
            for kind, (text, key) in zip(kinds, cells, strict=True)
        )
        rows.append(f'<tr><th scope="row">{first}</th>{body}</tr>')
    top = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{escape(head)}</button></th>'
        for head in heads
    )
    caption = "A row opens its point; a heading sorts."
    if left_out:
        caption += f" {left_out} more model{'s' if left_out > 1 else ''} stand in the planner."
    said = bullets(f"{group.name}: {group.sentence}" for group in groups)
    return (
        '<div class="table" role="region" aria-label="Answers at every point" tabindex="0">'
        '<table id="every">'
        f"<caption><span>{caption}</span></caption><thead><tr>{top}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f"<details><summary>The same in sentences</summary>{said}</details>"
    )


def figure_html(
    figure: Figure, words: str, caption: str = "", *, narrow: Figure | None = None
) -> str:
    """A figure that follows the theme, with words for those who do not see it, and a caption.

    It is never so small that its type could not be read: narrow pages show the narrow one, or
    scroll.
    """
    shown = ""
    for made, kind in [(figure, "wide-only" if narrow else ""), (narrow, "narrow")]:
        if made is not None:
            least = _LEAST / FINE * 72 * made.get_size_inches()[0]
            shown += (
                f'<div class="scroll {kind}" role="group" aria-label="{escape(words)}" '
                f'tabindex="0"><div style="min-width:{least:.0f}px">'
                f"{themed_svg(made, words=words)}</div></div>"
            )
    told = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="figure">{shown}{told}</figure>'


def bullets(sentences: Iterable[str], kind: str = "plain") -> str:
    """Sentences as a list of a class."""
    items = "".join(f"<li>{escape(each)}</li>" for each in sentences)
    return f'<ul class="{kind}">{items}</ul>'


@lru_cache
def asset(name: str) -> str:
    """A piece of the page that is the same for all."""
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
    """The planner for curves that a user measured, without any study, as one text.

    If it `opens` on the "ratio", its first sentence compares the first two models.
    """
    group = Group(title, tuple(curves), target)
    if not group.forecasts:
        forecast(group.curves[0])  # refuses a pilot of too few sizes, and says so
    if target is not None:
        check_target([each.curve for each in group.forecasts], target)
    data, notes = groups_data([group])
    # The answers where no script runs: of one model, of two, or of the first of many.
    words = f"Forecast of {', '.join(each.curve.name for each in group.forecasts[:8])}"
    if group.comparison is not None and len(group.forecasts) == 2:
        still = figure_html(comparison_figure(group.comparison), words)
    else:
        still = "".join(figure_html(plan_figure(plan), words) for plan in group.plans[:_STILLS])
    rows = []
    for curve in group.curves:
        means = curve.unit.from_error(curve.means).tolist()
        for n, seeds, mean in zip(curve.sizes.tolist(), curve.counts.tolist(), means, strict=True):
            rows.append((curve.name, n, seeds, mean))
    table = worded("measured", rows, more=[curves[0].metric or curves[0].unit.noun])
    odd = [f"{plan.curve.name}: {said}" for plan in group.plans for said in plan.findings]
    measured = table_html(table)
    measured += f"<h3>What is odd about it</h3>{bullets(odd)}" if odd else ""
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
