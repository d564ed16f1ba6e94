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
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from korisk._version import __version__
from korisk.curves.curve import Curve
from korisk.planning import words
from korisk.planning.compare import advice_line
from korisk.planning.forecast import LEAST_SIZES, check_goal
from korisk.planning.pilot import Trained
from korisk.planning.plan import Forecast, forecast, sample_cells, sample_heads
from korisk.planning.targets import Group, main_group
from korisk.report.figures.style import FINE, THEME_CSS, themed_svg
from korisk.report.page.planner import (
    Watch,
    groups_data,
    reasons,
    slider_levels,
    table_levels,
    unwatched,
)
from korisk.report.tables.tables import measured_table
from korisk.report.tables.text import html as table_html
from korisk.texts import script_json

# Matplotlib itself is imported by `report.figures`, whose error says what to install.
if TYPE_CHECKING:
    from matplotlib.figure import Figure

SURE = 0.9  # the level with which a page opens
_SMALLEST_TYPE = 9  # CSS pixels; smaller type in a figure could not be read
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
        noted = asset("notes.html").format(bullets(notes)) if notes else ""
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
                    "next": words.NEXT_EACH,
                    "chosen": words.IF_CHOSEN,
                }
            ),
            view=asset("view.js"),
        )

    def _planner(self, main: Group, notes: str) -> str:
        """The answer of a group at its first target, as the script shows it too."""
        compared = main.comparison if self.opens == "ratio" else None
        plan, pair = main.plans[0], main.plans[:2]
        view, advice = plan.forecast, plan.recommend(self.sure)
        goal = f"{words.quantity(view.metric, view.unit.noun)} {words.value(plan.target)}"
        where = f"{main.name}, {goal}" if len(self.groups) > 1 else goal
        where += f" ({main.why})" if main.why else ""
        where = f" For {where}." if where != goal else ""  # the question names the goal alone
        question = self.question or words.question("model" if view.model else "", model=view.model)
        (answer, step), record = words.parts(advice.sentence), advice.record
        others = [advice_line(p.forecast.evidence.name, p, self.sure, record) for p in pair[1:]]
        if compared:
            answer, record = compared.saving(), compared.record
            step, *others = [*compared.steps(self.sure), compared.crossing.explanation]
        elif main.comparison:
            saving, ratio_record = main.comparison.saving(), main.comparison.record
            others.append(saving if ratio_record in ("", record) else f"{saving} {ratio_record}")
        checks_of = {item.forecast.evidence.name: reasons(item, self.sure) for item in pair}
        # What holds for both models stands once, and without a name.
        every = checks_of.values()
        shared = [x for x in checks_of[view.evidence.name] if all(x in texts for texts in every)]
        checks = [
            f"{name}: {x}" for name, texts in checks_of.items() for x in texts if x not in shared
        ]
        checks += shared
        rows = (
            f'<tr class="asked"><th scope="row">{words.value(item.target)}</th>'
            f"<td>{escape(item.forecast.evidence.name)}</td>"
            + "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
            + "</tr>"
            for item in pair
            for cells in [sample_cells(item, table_levels(self.sure))]
        )
        heads = ["target", "model", *sample_heads(table_levels(self.sure))]
        return Template(asset("planner.html")).substitute(
            level="h2" if self.opening else "h1",
            question=escape(question.replace("{goal}", goal)),
            answer=escape(answer),
            next=escape(step),
            odds=escape("" if compared else f"{advice.odds}{where}".strip()),
            others=_items(others),
            record=escape(record),
            notes=notes,
            reasons=_items(checks),
            assumed=asset("rehearsal.html" if view.basis == "rehearsal" else "pilot.html"),
            legend=escape(f"{words.LEGEND[0].upper()}{words.LEGEND[1:]}"),
            heads="".join(f'<th scope="col">{escape(head)}</th>' for head in heads),
            rows="".join(rows),
            every=_overview(self.groups) if len(self.groups) > 1 else "",
        )


def _overview(groups: Sequence[Group]) -> str:
    """The answers of all groups at their first targets; a row opens its group."""
    rows = []
    for group in groups:
        link = escape(group.name)
        if group.forecasts:
            state = urlencode({"point": group.name, "target": group.target}, quote_via=quote)
            link = f'<a href="#{escape(state)}">{link}</a>'
        rows.append(f'<tr><th scope="row">{link}</th><td>{escape(group.sentence)}</td></tr>')
    return (
        '<h3>Every point</h3><div class="table" role="region" aria-label="Answers at every point" '
        'tabindex="0"><table id="every"><caption><span>A row opens its point.</span></caption>'
        '<thead><tr><th scope="col">point</th><th scope="col">answer</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
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
    **about: Any,
) -> str:
    """Write the page of one forecast or of several in one metric; `about` is for `groups_page`."""
    if target is not None:
        check_goal(forecasts, target)
    group = Group(title, tuple(forecasts), target, tuple(short), trained=tuple(trained))
    return groups_page([group], title=title, **about)


def groups_page(
    groups: Sequence[Group],
    *,
    title: str,
    kind: str = "korisk plan",
    facts: Sequence[str] = (),
    **about: Any,
) -> str:
    """Write the page of forecasts at one operating point or at several.

    `facts` are sentences on how it was done, and `about` has further fields of `Page`.
    """
    table = measured_table(
        (group.name if len(groups) > 1 else None, curve)
        for group in groups
        for curves in [*((v.curve, v.simulated) for v in group.forecasts), group.short]
        for curve in curves
        if curve is not None
    )
    simulated = any(view.simulated for group in groups for view in group.forecasts)
    heading = "What was simulated, corrected for image copies" if simulated else "What was measured"
    sections = [Section("measured", heading, table_html(table))]
    sections += [Section("took", "How it was done", bullets(filter(None, facts)))] if facts else []
    return Page(title=title, kind=kind, groups=groups, sections=sections, **about).html()


def curves_page(
    curves: Sequence[Curve],
    trained: Sequence[Trained],
    related: Sequence[Sequence[Curve]] = (),
    **about: Any,
) -> str:
    """Write the page of the curves of a table; those with too few sizes are drawn all the same."""
    relatives = related or [()] * len(curves)
    rows = list(zip(curves, trained, relatives, strict=True))
    long = [row for row in rows if len(row[0].sizes) >= LEAST_SIZES]
    if not long:
        forecast(curves[0])  # raises, with the number of sizes that are needed
    return plans_page(
        [forecast(curve, related=similar) for curve, _, similar in long],
        short=[curve for curve, *_ in rows if len(curve.sizes) < LEAST_SIZES],
        trained=[training for _, training, _ in long],
        **about,
    )
