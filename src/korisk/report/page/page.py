"""One page that answers "how much data do I need?": a single HTML file that needs nothing else.

Everything is inside: style, scripts, pictures. A content security policy forbids the page to ask
anyone for anything. Whatever comes from a user's file is escaped.
"""

from __future__ import annotations

import importlib.resources
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import escape
from itertools import combinations
from string import Template
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import numpy as np

from korisk._version import __version__
from korisk.curves.curve import Curve
from korisk.curves.noise import ROUNDING
from korisk.errors import KoriskError
from korisk.planning import explain as words
from korisk.planning.chances import table_sizes
from korisk.planning.compare import LEAST_SIZES, Comparison, Crossing, crossing
from korisk.planning.fit import check_target, fitted_line
from korisk.planning.forecast import Forecast, forecast
from korisk.planning.plan import Plan, plan_from
from korisk.report.figures.panels import Array, track
from korisk.report.figures.pilot import comparison_figure, plan_figure
from korisk.report.figures.style import FINE, THEME_CSS, themed_svg
from korisk.report.page.planner import asked_often, planner_data
from korisk.report.tables.table import ReportTable
from korisk.report.tables.text import html as table_html

if TYPE_CHECKING:  # `report.figures` says what to install where it is missing
    from matplotlib.figure import Figure

Watch = Callable[[str], None]

ROOM = 3_300_000  # bytes that curves may take in a page
_DIGITS = 6  # of what is drawn alone
_LINES = ("line", "paper")  # calibrations of the form floor + slope log N / N
_FEW_VALUES = 200  # of a curve: with more, single seeds are not drawn
_INSIDE = 60  # N inside the pilot at which a forecast is kept, at most
_EVERY = 3  # and so many times fewer than the planner's beyond it
_ALL_PAIRS = 4  # models up to which every two are compared; beyond, the first with
_MOST_PAIRS = 12  # so many others, since each takes half a second
# Times the lowest error of the first model: where the first target may lie, the best place first,
_NEARLY = (1.05, 1.02, 1.1, 1.2, 1.5, 2.0)  # with other models beside it
_STRETCH = (0.8, 0.9, 0.95, 1.05, 1.2)  # and alone
_COLUMNS = 4  # models that the table of all points has


@dataclass(frozen=True)
class Group:
    """Curves of one metric, with a name, in the order of their models."""

    name: str
    curves: tuple[Curve, ...]
    asked: float | None = None  # the target that a user gave
    crossing: Crossing | None = None  # of two curves, where it is known already
    whole: bool = True  # whether nothing of it is missing

    @cached_property
    def forecasts(self) -> tuple[Forecast, ...]:
        """The forecasts of the curves that have enough sizes."""
        return tuple(
            asked_often(forecast(each)) for each in self.curves if len(each.sizes) >= LEAST_SIZES
        )

    @property
    def short(self) -> tuple[Curve, ...]:
        """The curves that have too few sizes for that."""
        return tuple(curve for curve in self.curves if len(curve.sizes) < LEAST_SIZES)

    @cached_property
    def _first(self) -> tuple[float, str]:
        """The first target, in the user's unit, and why it is asked.

        The user's own; else one near the lowest error of the first model at which the first two
        models have most to say. It has three digits of an error.
        """
        if self.asked is not None:
            return self.asked, ""
        first = self.forecasts[0].curve
        lowest = float(first.means[first.means > ROUNDING * first.means.max()].min())
        best, found = -1, (math.nan, "")
        for factor in _NEARLY if len(self.forecasts) > 1 else _STRETCH:
            step = 10.0 ** (math.floor(math.log10(factor * lowest)) - 2)
            error = math.ceil(round(factor * lowest / step, 6)) * step
            digits = 4 if first.unit.law == "psnr" else 8
            target = float(f"{float(first.unit.from_error(error)):.{digits}g}")
            score = sum(telling(plan_from(each, target)) for each in self.forecasts[:2])
            if score > best:
                more = f"{abs(100 * (factor - 1)):.0f}% {'more' if factor > 1 else 'less'}"
                best, found = score, (target, f"{more} error than the lowest of {first.name}")
        return found

    @property
    def target(self) -> float:
        """What is asked at first, in the user's unit."""
        return self._first[0]

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The answers to the first target."""
        return tuple(plan_from(each, self.target) for each in self.forecasts)

    @property
    def comparison(self) -> Comparison | None:
        """The first two models at the first target."""
        return Comparison(self.plans[0], self.plans[1]) if len(self.plans) > 1 else None

    @property
    def sentence(self) -> str:
        """The answer to the first target, or that there are too few sizes for one."""
        if not self.forecasts:
            most = max(len(curve.sizes) for curve in self.curves)
            sizes = f"training set size{'s' if most > 1 else ''}"
            return f"{most} {sizes}; {LEAST_SIZES} are needed to plan."
        both, curve = self.comparison, self.forecasts[0].curve
        said = self.plans[0].brief() if both is None else both.headline()
        metric = curve.metric or curve.unit.noun
        told = [f"{metric} {words.value(self.target)}", *([self.why] if self.why else [])]
        return f"{said} ({', '.join(told)})"

    @property
    def why(self) -> str:
        """Why the first target is that one; empty where a user asked for it."""
        return self._first[1] if self.forecasts else ""

    @property
    def told(self) -> list[int]:
        """How much each of the first two models has to say of the first target."""
        return [telling(plan) for plan in self.plans[:2]]

    def pairs(self) -> list[dict[str, Any]]:
        """Some pairs of models at the first target, with a sentence on where their curves cross."""
        count = len(self.forecasts)
        places = list(combinations(range(count), 2))
        if count > _ALL_PAIRS:
            places = [(0, other) for other in range(1, min(count, _MOST_PAIRS + 1))]
        known = self.crossing if count == len(self.curves) == 2 else None
        made = []
        for first, second in places:
            both = Comparison(self.plans[first], self.plans[second])
            found = known or crossing(both.first.curve, both.second.curve)
            said = (found or Crossing(both.crossover)).explain()  # or without any N in common
            ends = tuple(None if end in (0, math.inf) else end for end in both.ratio_range or ())
            about = {"ratio_range": ends or None, "crossover": said}
            made.append({"first": first, "second": second, **about})
        return made


def telling(plan: Plan) -> int:
    """How much an answer says: most with a number that has an interval, least with none."""
    if plan.samples is None:
        return 0
    if plan.at_once or plan.lower == plan.upper:
        return 1
    return 2 + math.isfinite(plan.upper) + (not plan.forecast.doubt)


def main_group(groups: Sequence[Group]) -> Group | None:
    """The one with which the page opens: the last of those that say most of their first target.

    Groups that compare, and of which nothing is missing, go before others.
    """
    chosen = [group for group in groups if group.forecasts]
    chosen = [group for group in chosen if len(group.forecasts) > 1] or chosen
    chosen = [group for group in chosen if group.whole] or chosen
    return max(reversed(chosen), key=lambda group: sum(group.told), default=None)


# --- For the scripts -----------------------------------------------------------------------------


def groups_data(
    groups: Sequence[Group], *, watch: Watch = lambda _: None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Every group's data, and notes; where all would be too large, the last curves give way.

    The group with which the page opens has the space first.
    """
    main = main_group(groups)
    made: dict[str, dict[str, Any]] = {}
    room, dropped = ROOM, 0
    for group in sorted(groups, key=lambda each: each is not main):
        watch(group.name)
        models = [_model(each, group.target) for each in group.forecasts]
        data: dict[str, Any] = {
            "name": group.name,
            "target": group.target if group.forecasts else None,
            "why": group.why,
            "model": group.told.index(max(group.told)) if group.forecasts else 0,
            "models": models,
            "pairs": group.pairs(),
            "short": [{"name": curve.name, **_measured(curve)} for curve in group.short],
        }
        size = len(script_json(data))
        while models and size > room:
            size -= len(script_json(models.pop()))
            dropped += 1
        data["pairs"] = [pair for pair in data["pairs"] if pair["second"] < len(models)]
        room -= size
        made[group.name] = data
    notes = []
    if dropped:
        more = f"{dropped} more curve{'s' if dropped > 1 else ''}"
        notes.append(f"The planner of this page has no space for {more}; korisk plan has.")
    for group in groups:
        for curve in group.short:
            where = f"{group.name}: {curve.name}" if len(groups) > 1 else curve.name
            sizes = f"{len(curve.sizes)} size{'s' if len(curve.sizes) > 1 else ''}"
            notes.append(f"{where} has {sizes}; the planner needs {LEAST_SIZES}.")
    return [made[group.name] for group in groups], notes


def _model(made: Forecast, target: float) -> dict[str, Any]:
    n = table_sizes(made)
    inside, beyond = n[n <= made.last], n[n > made.last]
    inside = inside[:: math.ceil(len(inside) / _INSIDE)]
    drawn = track(made, np.unique([*inside, made.last, *beyond[::_EVERY], n[-1]]))
    lines: dict[str, dict[str, float] | None] = dict.fromkeys(_LINES)
    for name in _LINES:
        with suppress(KoriskError):  # a line that cannot be fitted
            fitted = fitted_line(made.curve, name)
            lines[name] = {"floor": fitted.floor, "slope": fitted.slope}
    return {
        "name": made.curve.name,
        "planner": planner_data(made, target),
        "track": {each: _rounded(getattr(drawn, each)) for each in drawn.__dataclass_fields__},
        "measured": _measured(made.curve),
        "lines": lines,
    }


def _measured(curve: Curve) -> dict[str, Any]:
    """The means over seeds, and single values where they are few; in the user's unit."""
    few = len(curve.error) <= _FEW_VALUES and curve.counts.max() > 1
    return {
        "n": curve.sizes.tolist(),
        "mean": _rounded(curve.unit.from_error(curve.means)),
        "all_n": curve.n.tolist() if few else [],
        "all": _rounded(curve.unit.from_error(curve.error)) if few else [],
    }


def _rounded(values: Array) -> list[float | None]:
    return [float(f"{v:.{_DIGITS}g}") if math.isfinite(v) else None for v in values.tolist()]


def script_json(content: Mapping[str, Any] | Sequence[Any]) -> str:
    """JSON that can stand in a page: nothing in it ends the script or begins a tag."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


LARGEST = 5_000_000  # bytes of a page
_LEAST = 9  # CSS pixels of type in a figure
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
    notes: Sequence[str] = ()  # what is missing, at the top
    still: str = ""  # the answer as a figure, where no script runs
    sections: Sequence[Section] = ()

    def html(self) -> str:
        """The whole file."""
        main = main_group(self.groups)
        missing = ""
        if self.notes:
            box = '<div class="missing" role="group" aria-label="Notes" tabindex="0">'
            missing = f"{box}{bullets(self.notes, 'notes')}</div>"
        title = "What this does and does not promise"
        last = Section(name="promises", title=title, html=asset("promises.html"))
        shown = [*self.sections, last]
        if main is None:
            answer = (
                "No curve has three sizes yet, so nothing can be extrapolated: measure each model "
                "at three training set sizes or more."
            )
        else:
            name = f"{main.name}: " if len(self.groups) > 1 else ""
            answer = name + main.sentence
            still = f"<noscript>{self.still}</noscript>" if self.still else ""
            planner = asset("planner.html") + still
            shown.insert(0, Section(name="planner", title="How much data do I need?", html=planner))
            if len(self.groups) > 1:
                every = Section(name="points", title="Every point", html=overview(self.groups))
                shown.insert(1, every)
        start = list(self.groups).index(main) if main else 0
        return Template(asset("page.html")).substitute(
            title=escape(self.title),
            kind=escape(self.kind),
            answer=escape(answer),
            notes=missing,
            links=" ".join(f'<a href="#{each.name}">{escape(each.title)}</a>' for each in shown),
            sections="\n".join(
                f'<section id="{each.name}" aria-labelledby="{each.name}-title">'
                f'<h2 id="{each.name}-title">{escape(each.title)}</h2>{each.html}</section>'
                for each in shown
            ),
            version=__version__,
            style=asset("page.css") + THEME_CSS,
            data=script_json(self.data | {"start": start, "sentences": words.ANSWERS}),
            table=asset("table.js"),
            view=asset("view.js"),
        )


def overview(groups: Sequence[Group]) -> str:
    """The answers of all groups to their first targets, one row each, and the same in sentences."""
    names = list(dict.fromkeys(each.curve.name for group in groups for each in group.forecasts))
    left_out, names = len(names[_COLUMNS:]), names[:_COLUMNS]
    heads = ["point", "target"]
    for name in names:
        heads += [f"N of {name}", f"chance of {name}"]
    heads += ["ratio of N"] * (len(names) > 1)
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
                    cells[at] = _number(plan), plan.samples or math.inf
                    odds = plan.reach if plan.samples is None else plan.chance
                    cells[at + 1] = words.chance(odds), math.inf if odds is None else odds
        both = group.comparison
        if both is not None:
            low, high = both.ratio_range or (0.0, math.inf)
            ends = (low, high) if both.ratio is None else (both.ratio, both.ratio)
            said = both.ratio_words()
            cells[-1] = said, next((end for end in ends if 0 < end < math.inf), math.inf)
        name = escape(group.name)
        first = f'<a href="{escape(link)}">{name}</a>' if link else name
        body = "".join(
            f'<td class="number" data-value="{key:.6g}">{escape(text)}</td>' for text, key in cells
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


def _number(plan: Plan) -> str:
    if plan.samples is None:
        return "no answer" if plan.doubt else "not reachable"
    said = f"{'≤ ' if plan.at_once else ''}{words.count(plan.samples)}"
    if plan.samples <= plan.last or plan.reach >= words.SURE:
        return said
    likely = "" if plan.reach >= words.EVEN else "probably not reached; "
    return f"{likely}{said} if reached (at most {words.chance(plan.reach)})"


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
) -> str:
    """The planner for curves that a user measured, without any study, as one text."""
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
    table = ReportTable(
        name="measured",
        title="Measured values",
        caption="Means over seeds",
        columns=["model", "N", "seeds", curves[0].metric or curves[0].unit.noun],
        rows=rows,
    )
    odd = [f"{plan.curve.name}: {said}" for plan in group.plans for said in plan.findings]
    notes_html = f"<h3>What is odd about it</h3>{bullets(odd)}" if odd else ""
    page = Page(
        title=title,
        kind=kind,
        groups=[group],
        data={"groups": data, "pictures": []},
        notes=notes,
        still=still,
        sections=[
            Section(
                name="measured", title="What was measured", html=table_html(table) + notes_html
            ),
            Section(name="how", title="How it is extrapolated", html=asset("method.html")),
        ],
    )
    return page.html()
