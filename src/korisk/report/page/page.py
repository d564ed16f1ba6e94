"""One page that answers "how much data do I need?": a single HTML file that needs nothing else.

Everything is inside: style, scripts, the drawing library, pictures. A content security policy
forbids the page to ask anyone for anything. Whatever comes from a user's file is escaped.
"""

from __future__ import annotations

import base64
import gzip
import importlib.resources
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any

from korisk._version import __version__
from korisk.errors import MissingExtraError
from korisk.report.page.data import script_json
from korisk.report.page.groups import Group, main_group
from korisk.report.page.planner import SENTENCES
from korisk.report.tables.tables import Column, ReportTable
from korisk.report.tables.text import html as table_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST = 6_000_000  # bytes of a page
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_DPI = 130  # of figures
_SCRIPTS = ("table.js", "view.js")

PROMISES = (
    "A number of samples here is an estimate from the errors that were measured, extrapolated by a "
    "model of how learning curves behave. It is no guarantee, and no statement about patients.",
    "The chance beside a number of samples is the probability that it is enough, over everything "
    "that the pilot leaves possible, also that the target is never met.",
    "The interval holds if the pilot is like what comes after it: same population, same scanner, "
    "same network, same way of training. Other data have another curve.",
    "90% means: of pilots such as those the method was tested on, about nine in ten. "
    "docs/explanation/planner.md has the figures, and where they are lower.",
    "Not reachable means not reachable according to this pilot. One more doubling of the data "
    "tells a floor from a slow decline.",
)
BOUND = (
    "The deep risk bound promises that the expected squared error is at most its value, if every "
    "layer's Lipschitz constant and every constant of its layers' errors is right. Those constants "
    "are seldom known, so here they are fitted to measured errors.",
    "The fitted line floor + sigma log N / N is no upper bound any more: it passes through the "
    "errors and not above them.",
    "The paper's floor is the lowest error that was seen. By that line no target below it can ever "
    "be reached, whatever the data say; the planner's forecast does not have that limit.",
    "The two factors explain a ratio of sample sizes through those lines. They change with the "
    "target, and say nothing at or below a floor.",
    "A known operator that is slightly wrong adds an error that no data remove. The curves show it "
    "as a floor; the bound counts it as mismatch.",
)

METHOD = (
    "<h3>How it is extrapolated</h3><p>From each curve's means and the scatter of its seeds a "
    "posterior over curves is made: power laws with a floor and a shift, and a random walk that "
    "lets real curves leave any family. From it <code>korisk plan</code> computes the probability "
    "that a target is met by N; sample sizes, intervals and chances are read off that. This page "
    "holds the answers for some hundred targets, at which the slider stops, and interpolates "
    "between them. docs/explanation/planner.md tells how well the method did on curves it had not "
    "seen.</p>"
)


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
    sections: Sequence[Section] = field(default_factory=tuple)

    @property
    def answer(self) -> str:
        """The first sentence."""
        chosen = main_group(self.groups)
        if chosen is None:
            return (
                "No curve has three sizes yet, so nothing can be extrapolated: measure each model "
                "at three training set sizes or more."
            )
        said = dict(self.answers)[chosen.name]
        return said if len(self.groups) == 1 else f"{chosen.name}: {said}"

    def html(self) -> str:
        """The whole file."""
        main = main_group(self.groups)
        start = list(self.groups).index(main) if main else 0
        data = self.data | {"start": start, "sentences": SENTENCES}
        return "\n".join(
            [
                "<!doctype html>",
                '<html lang="en">',
                _head(self.title),
                "<body>",
                '<a class="skip" href="#main">Skip to the content</a>',
                self._header(),
                '<main id="main">',
                *(_section(section) for section in self._sections()),
                "</main>",
                f"<footer><p>Made by korisk {escape(__version__)}. This file needs no network: "
                "everything in it stays here.</p></footer>",
                f'<script type="application/json" id="data">{script_json(data)}</script>',
                _library(),
                *(f"<script>{asset(name)}</script>" for name in _SCRIPTS),
                "</body>",
                "</html>",
                "",
            ]
        )

    def _header(self) -> str:
        links = " ".join(
            f'<a href="#{section.name}">{escape(section.title)}</a>' for section in self._sections()
        )
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return (
            f'<header><div class="bar"><p class="kind">{escape(self.kind)}</p>'
            '<button type="button" id="theme" hidden>Dark colours</button></div>'
            f"<h1>{escape(self.title)}</h1>"
            f'<p class="answer">{escape(self.answer)}</p>'
            '<p class="caption" id="moved" hidden>This is the answer to the first target; the '
            "planner below has another one now.</p>"
            + (f'<ul class="notes">{notes}</ul>' if notes else "")
            + f'<nav aria-label="On this page">{links}</nav></header>'
        )

    def _sections(self) -> list[Section]:
        first = [self._planner(), self._curves()] if main_group(self.groups) else []
        last = Section(
            name="promises", title="What this does and does not promise", html=_promises()
        )
        return [*first, *self.sections, last]

    def _planner(self) -> Section:
        return Section(
            name="planner",
            title="How much data do I need?",
            html='<noscript><p class="note">The planner needs JavaScript; the answers to one '
            "target stand below.</p></noscript>" + asset("planner.html") + self._answers(),
        )

    def _answers(self) -> str:
        if len(self.answers) < 2:
            return ""
        table = ReportTable(
            name="answers",
            title="Every point at a glance",
            caption="Every point at a glance",
            columns=(Column("point"), Column("answer")),
            rows=tuple(self.answers),
        )
        return table_html(table)

    def _curves(self) -> Section:
        still = f'<figure class="still">{self.still}</figure>' if self.still else ""
        return Section(name="curves", title="Curves", html=asset("curves.html") + still)


def figure_html(figure: Figure, words: str) -> str:
    """A figure as an image element, with words for those who do not see it."""
    from korisk.report.page.pictures import figure_uri

    return f'<img src="{figure_uri(figure, dpi=_DPI)}" alt="{escape(words)}">'


def bullets(sentences: Iterable[str]) -> str:
    """Sentences as a list."""
    return "<ul>" + "".join(f"<li>{escape(each)}</li>" for each in sentences) + "</ul>"


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and what they are."""
    inner = "".join(f"<div><dt>{escape(a)}</dt><dd>{escape(b)}</dd></div>" for a, b in pairs)
    return f'<dl class="facts">{inner}</dl>'


def _promises() -> str:
    return (
        f"<h3>The sample sizes</h3>{bullets(PROMISES)}<h3>The bound and its lines</h3>"
        f"{bullets(BOUND)}"
    )


def _head(title: str) -> str:
    return (
        '<head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{asset('page.css')}</style></head>"
    )


def _section(section: Section) -> str:
    return (
        f'<section id="{section.name}" aria-labelledby="{section.name}-title">'
        f'<h2 id="{section.name}-title">{escape(section.title)}</h2>{section.html}</section>'
    )


@lru_cache
def asset(name: str) -> str:
    """A piece of the page that is the same for all."""
    return (importlib.resources.files("korisk.report.page") / "assets" / name).read_text("utf-8")


@lru_cache
def _library() -> str:
    """The drawing library, packed: a third of its size, unpacked by the browser."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise MissingExtraError("a page needs plotly; pip install 'korisk[report]'") from error
    packed = base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()
    return f'<script type="text/plain" id="library">{packed}</script>'
