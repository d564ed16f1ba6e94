"""One page that answers "how much data do I need?": a single HTML file that needs nothing else.

Everything is inside: style, scripts, the drawing library, pictures. A content security policy
forbids the page to ask anyone for anything. Whatever comes from a user's file is escaped.
"""

from __future__ import annotations

import base64
import gzip
import importlib.resources
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from string import Template
from typing import Any

from matplotlib.figure import Figure

from korisk._version import __version__
from korisk.curves.curve import Curve
from korisk.errors import MissingExtraError
from korisk.planning.forecast import forecast
from korisk.report.figures.pilot import comparison_figure, plan_figure
from korisk.report.page.groups import Group, groups_data, main_group, script_json
from korisk.report.page.pictures import figure_uri
from korisk.report.page.planner import SENTENCES
from korisk.report.tables.tables import ReportTable
from korisk.report.tables.text import html as table_html

LARGEST = 6_000_000  # bytes of a page
_DPI = 130  # of figures
_STILLS = 4  # pictures of single forecasts in the page of a pilot


@dataclass(frozen=True, kw_only=True)
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
    data: dict[str, Any]  # for the scripts: groups and pictures
    answers: Sequence[tuple[str, str]]  # one for each group: its name, and a sentence
    notes: Sequence[str] = ()  # what is missing, at the top
    still: str = ""  # the curves as a picture, for paper and where no script runs
    sections: Sequence[Section] = ()

    def html(self) -> str:
        """The whole file."""
        main = main_group(self.groups)
        start = list(self.groups).index(main) if main else 0
        answer = (
            "No curve has three sizes yet, so nothing can be extrapolated: measure each model at "
            "three training set sizes or more."
        )
        title = "What this does and does not promise"
        last = Section(name="promises", title=title, html=asset("promises.html"))
        shown = [*self.sections, last]
        if main is not None:
            said = dict(self.answers)[main.name]
            answer = said if len(self.groups) == 1 else f"{main.name}: {said}"
            planner = asset("planner.html")
            if len(self.answers) > 1:
                name, heads = "Every point at a glance", ["point", "answer"]
                table = ReportTable(
                    name="answers", title=name, caption=name, columns=heads, rows=self.answers
                )
                planner += table_html(table)
            still = f'<figure class="still">{self.still}</figure>' if self.still else ""
            shown = [
                Section(name="planner", title="How much data do I need?", html=planner),
                Section(name="curves", title="Curves", html=asset("curves.html") + still),
                *shown,
            ]
        return Template(asset("page.html")).substitute(
            title=escape(self.title),
            kind=escape(self.kind),
            answer=escape(answer),
            notes=bullets(self.notes, "notes") if self.notes else "",
            links=" ".join(f'<a href="#{each.name}">{escape(each.title)}</a>' for each in shown),
            sections="\n".join(
                f'<section id="{each.name}" aria-labelledby="{each.name}-title">'
                f'<h2 id="{each.name}-title">{escape(each.title)}</h2>{each.html}</section>'
                for each in shown
            ),
            version=__version__,
            style=asset("page.css"),
            data=script_json(self.data | {"start": start, "sentences": SENTENCES}),
            library=drawing_library(),
            table=asset("table.js"),
            view=asset("view.js"),
        )


def figure_html(figure: Figure, words: str, caption: str = "") -> str:
    """A figure as an image, with words for those who do not see it, and a caption if given."""
    image = f'<img src="{figure_uri(figure, dpi=_DPI)}" alt="{escape(words)}">'
    if not caption:
        return image
    return f'<figure class="figure">{image}<figcaption>{escape(caption)}</figcaption></figure>'


def bullets(sentences: Iterable[str], kind: str = "plain") -> str:
    """Sentences as a list of a class."""
    items = "".join(f"<li>{escape(each)}</li>" for each in sentences)
    return f'<ul class="{kind}">{items}</ul>'


@lru_cache
def asset(name: str) -> str:
    """A piece of the page that is the same for all."""
    return (importlib.resources.files("korisk.report.page") / "assets" / name).read_text("utf-8")


@lru_cache
def drawing_library() -> str:
    """The drawing library, packed: a third of its size, unpacked by the browser."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise MissingExtraError("a page needs plotly; pip install 'korisk[report]'") from error
    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()


# --- The page of a pilot -------------------------------------------------------------------------


def pilot_page(curves: Sequence[Curve], *, title: str, target: float | None = None) -> str:
    """The planner for curves that a user measured, without any study, as one text."""
    group = Group(title, tuple(curves), target)
    if not group.forecasts:
        forecast(group.curves[0])  # refuses a pilot of too few sizes, and says so
    data, notes = groups_data([group])
    # The answers on paper: of one model, of two, or of the first of many.
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
    table = ReportTable(
        name="measured",
        title="What was measured",
        caption="Means over seeds",
        columns=["model", "N", "seeds", curves[0].metric or curves[0].unit.noun],
        rows=rows,
    )
    odd = [f"{plan.curve.name}: {said}" for plan in group.plans for said in plan.findings]
    notes_html = f"<h3>What is odd about it</h3>{bullets(odd)}" if odd else ""
    page = Page(
        title=title,
        kind="korisk plan of a pilot",
        groups=[group],
        data={"groups": data, "pictures": []},
        answers=[(title, group.sentence)],
        notes=notes,
        still=still,
        sections=[
            Section(name="measured", title=table.title, html=table_html(table) + notes_html),
            Section(name="how", title="How it is extrapolated", html=asset("method.html")),
        ],
    )
    return page.html()
