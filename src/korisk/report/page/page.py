"""One page for every answer: a single self-contained HTML file.

In this order: question; answer with its number, range and record; figure with sliders; what it
assumes and what to check first; numbers by target and level; method and limits, folded. On paper it
is one sheet. A content security policy forbids the page to load anything, and all text from a
user's files is escaped.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from string import Template
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from korisk._version import __version__
from korisk.curves.curve import Curve
from korisk.planning import words
from korisk.planning.forecast import LEAST_SIZES, check_goal
from korisk.planning.plan import Forecast, Plan, forecast
from korisk.planning.tables import sample_cells
from korisk.planning.targets import Group, Trained, main_group
from korisk.report.figures.style import FINE, THEME_CSS, themed_svg
from korisk.report.page.planner import (
    Watch,
    groups_data,
    heads,
    reasons,
    slider_levels,
    table_levels,
    unwatched,
)
from korisk.report.tables.table import worded
from korisk.report.tables.text import html as table_html
from korisk.texts import counted, script_json

# Matplotlib itself is imported by `report.figures`, whose error says what to install.
if TYPE_CHECKING:
    from matplotlib.figure import Figure

SURE = 0.9  # the level with which a page opens
_SMALLEST_TYPE = 9  # CSS pixels; smaller type in a figure could not be read
_COLUMNS = 4  # models in the table of all points
_NOTHING = (
    "No curve has three sizes yet, so nothing can be extrapolated: measure each model at three "
    "training set sizes or more."
)


@dataclass(frozen=True)
class Section:
    """A folded section of a page: its heading, and its content as HTML."""

    name: str  # for links
    title: str
    html: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """Contents of a page."""

    title: str
    kind: str  # a word or two beside the title
    groups: Sequence[Group]
    sections: Sequence[Section] = ()
    notes: Sequence[str] = ()  # such as missing cells
    opening: str = ""  # HTML above the answer, with the heading of the page
    question: str = ""  # with {goal}; default: that of the model
    opens: str = ""  # "ratio": the first sentence compares two models
    sure: float = SURE

    def html(self, watch: Watch = unwatched) -> str:
        """The whole file as text."""
        curves, crowded = groups_data(self.groups, self.sure, watch=watch)
        main = main_group(self.groups)
        notes = [*self.notes, *crowded]
        noted = f'<div class="note">{bullets(notes)}</div>' if notes else ""
        planner = noted if self.opening else f'<h1 class="answer">{_NOTHING}</h1>{noted}'
        if main is not None:
            planner = self._planner(main, noted)
        folded = [*self.sections, Section("method", "Method and limits", asset("method.html"))]
        levels = slider_levels(self.sure)
        return Template(asset("page.html")).substitute(
            title=escape(self.title),
            kind=escape(self.kind),
            body=self.opening + planner + "\n".join(map(_folded, folded)),
            version=__version__,
            style=asset("page.css") + THEME_CSS,
            data=script_json(
                {
                    "groups": curves,
                    "start": list(self.groups).index(main) if main else 0,
                    "question": self.question,
                    "opens": self.opens,
                    "levels": levels,
                    "level": levels.index(self.sure),
                }
            ),
            view=asset("view.js"),
        )

    def _planner(self, main: Group, notes: str) -> str:
        """The answer of a group at its first target, as the script shows it too."""
        # The page opens with the model about which most can be said.
        compared = main.comparison if self.opens == "ratio" else None
        first = 0 if compared else main.told.index(max(main.told))
        plan = main.plans[first]
        view, advice = plan.forecast, plan.recommend(self.sure)
        goal = f"{view.metric or view.unit.noun} {words.value(plan.target)}"
        where = f"{main.name}, {goal}" if len(self.groups) > 1 else goal
        where += f" ({main.why})" if main.why else ""
        pair = [plan, *(other for other in main.plans if other is not plan)][:2]
        question = self.question or words.question(view.model, "{goal}")
        answer, odds, record = advice.sentence, f"{advice.odds} For {where}.", advice.record
        others = [_line(other, self.sure) for other in pair[1:]]
        if compared:
            answer, odds, record = compared.saving(), compared.crossing.explain(), compared.record
            others = [_line(other, self.sure) for other in pair]
        elif main.comparison:
            others.append(main.comparison.saving())
        checks = [
            f"{item.forecast.evidence.name}: {text}" if len(pair) > 1 else text
            for item in pair
            for text in reasons(item, self.sure)
        ]
        rows = (
            f'<tr class="asked"><th scope="row">{words.value(item.target)}</th>'
            f"<td>{escape(item.forecast.evidence.name)}</td>"
            + "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
            + "</tr>"
            for item in pair
            for cells in [sample_cells(item, table_levels(self.sure))]
        )
        return Template(asset("planner.html")).substitute(
            level="h2" if self.opening else "h1",
            question=escape(question.replace("{goal}", goal)),
            answer=escape(answer),
            odds=escape(odds.strip()),
            others=_items(others),
            record=escape(record),
            notes=notes,
            reasons=_items(checks),
            assumed=asset("rehearsal.html" if view.basis == "rehearsal" else "pilot.html"),
            legend=escape(f"{words.LEGEND[0].upper()}{words.LEGEND[1:]}"),
            heads="".join(f'<th scope="col">{escape(head)}</th>' for head in heads(self.sure)),
            rows="".join(rows),
            every=_overview(self.groups) if len(self.groups) > 1 else "",
        )


def _line(plan: Plan, sure: float) -> str:
    """The advice on one of several models."""
    advice, name = plan.recommend(sure), f"{plan.forecast.evidence.name}: "
    sentence = advice.sentence.removeprefix(name)
    return " ".join(filter(None, (f"{name}{sentence}", advice.odds)))


def _overview(groups: Sequence[Group]) -> str:
    """A table of the answers of all groups at their first targets; a row opens its group."""
    # Two columns for each model, so that only a few models fit.
    views = (view for group in groups for view in group.forecasts)
    names = list(dict.fromkeys(view.evidence.name for view in views))
    left_out, names = len(names[_COLUMNS:]), names[:_COLUMNS]
    columns = ["point", "target"]
    for name in names:
        columns += [f"{name}, 90% sure", f"{name}, even odds"]
    columns += ["who needs fewer"] * (len(names) > 1)
    rows = []
    for group in groups:
        cells = ["\N{EN DASH}"] * (len(columns) - 1)
        link = escape(group.name)
        if group.forecasts:
            state = {"point": group.name, "target": group.target}
            address = escape(urlencode(state, quote_via=quote))
            link = f'<a href="#{address}">{link}</a>'
            cells[0] = words.value(group.target)
            for plan in group.plans:
                name = plan.forecast.evidence.name
                if name in names:
                    cell, advice = 1 + 2 * names.index(name), plan.recommend()
                    cells[cell] = words.short(advice.action, advice.n)
                    if advice.even is not None:
                        cells[cell + 1] = words.count(advice.even)
        if group.comparison is not None:
            cells[-1] = group.comparison.saving()
        body = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{link}</th>{body}</tr>')
    header = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    caption = "A row opens its point."
    if left_out:
        caption += f" The sliders show {counted(left_out, 'more model')}."
    return (
        '<h3>Every point</h3><div class="table" role="region" aria-label="Answers at every point" '
        f'tabindex="0"><table id="every"><caption><span>{caption}</span></caption>'
        f"<thead><tr>{header}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _folded(section: Section) -> str:
    return (
        f'<details class="section" id="{section.name}"><summary><h2>{escape(section.title)}</h2>'
        f"</summary>{section.html}</details>"
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


def bullets(sentences: Iterable[str]) -> str:
    """HTML list of sentences."""
    return f"<ul>{_items(sentences)}</ul>"


def _items(sentences: Iterable[str]) -> str:
    return "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)


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
    sure: float = SURE,
    kind: str = "korisk plan",
    opens: str = "",
    question: str = "",
    facts: Sequence[str] = (),
) -> str:
    """Write the page of one forecast or of several in one metric.

    If `opens` is "ratio", the first sentence compares the first two models; `facts` are sentences
    on how it was done.
    """
    if target is not None:
        check_goal(forecasts, target)
    group = Group(title, tuple(forecasts), target, tuple(short), trained=tuple(trained))
    options = {"kind": kind, "sure": sure, "opens": opens, "question": question}
    return groups_page([group], title=title, facts=facts, **options)


def groups_page(
    groups: Sequence[Group], *, title: str, facts: Sequence[str] = (), **options: object
) -> str:
    """Write the page of forecasts at one operating point or at several."""
    sections = [_evidence(group, str(k or "")) for k, group in enumerate(groups)]
    if facts:
        sections.append(Section("took", "How it was done", bullets(facts)))
    return Page(title=title, groups=groups, sections=sections, **options).html()


def curves_page(
    curves: Sequence[Curve],
    trained: Sequence[Trained],
    related: Sequence[Sequence[Curve]] = (),
    *,
    title: str,
    target: float | None,
    sure: float = SURE,
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
        sure=sure,
    )


def _evidence(group: Group, number: str) -> Section:
    """What was measured or simulated: the means over seeds."""
    curves = [curve for view in group.forecasts for curve in (view.curve, view.simulated) if curve]
    rows = []
    for curve in (*curves, *group.short):
        means = curve.unit.from_error(curve.means).tolist()
        for n, seeds, mean in zip(curve.sizes.tolist(), curve.counts.tolist(), means, strict=True):
            rows.append((curve.name, n, seeds, mean))
    table = worded("measured", rows, more=[curves[0].metric or curves[0].unit.noun])
    measured = all(view.simulated is None for view in group.forecasts)
    heading = "What was measured" if measured else "What was simulated"
    title = f"{group.name}: {heading}" if number else heading
    return Section(f"measured{number}", title, table_html(table))
