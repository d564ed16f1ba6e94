"""The two factors of Proposition (prop:ct-proxy) over the target, for every point of a study."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from korisk.planning.factors import Factors, factors
from korisk.report.contents import Contents, squared
from korisk.report.figures import panels, style
from korisk.report.figures.panels import MOST_PANELS, Entry
from korisk.report.figures.style import DARK, GREY, LOOKS, MINUS, SIGMA, Options

_LIKELY = 0.5  # chance that both numbers are enough, each by itself; below, marks are hollow
_SHADE = "#e8e8e8"

_LINES: Mapping[str, tuple[str, Options]] = {
    "structural": (
        f"structural: {SIGMA} {{dense}} / {SIGMA} {{known}}",
        {"color": LOOKS[2].colour, "linestyle": (0, (1, 1)), "linewidth": 1.3},
    ),
    "approximation_budget": (
        f"approximation budget: (t {MINUS} floor {{known}}) / (t {MINUS} floor {{dense}})",
        {"color": LOOKS[4].colour, "linestyle": (0, (4, 1.5)), "linewidth": 1.1},
    ),
    "product": (
        "their product, the ratio of N / log N",
        {"color": DARK, "linestyle": "-", "linewidth": 1.3},
    ),
    "ratio": (
        "N {dense} / N {known} by the lines, whole N",
        {"color": LOOKS[3].colour, "linestyle": (0, (5, 1, 1, 1)), "linewidth": 1.1},
    ),
}


def factors_of(contents: Contents) -> list[Factors]:
    """The factors at every point that has both KO and FC, in the study's order."""
    found = []
    for point in map(squared, contents.points):
        known, dense = point.curve("KO"), point.curve("FC")
        if known is not None and dense is not None:
            found.append(factors(known, dense, name=point.name))
    return found


# --- The figure ----------------------------------------------------------------------------------


def factors_figure(found: Sequence[Factors], *, narrow: bool = False) -> Figure | None:
    """The factors of every panel over the target, three a row or one; None without any panel."""
    drawn = found[:MOST_PANELS]
    if not drawn:
        return None
    first = drawn[0]  # the same models in all panels
    known = style.fitted(first.known.model or "known", 0.5)
    dense = style.fitted(first.dense.model or "dense", 0.5)
    entries: list[Entry] = []
    if any(each.factors for each in drawn):
        for words, look in _LINES.values():
            entries.append((panels.line(**look), words.format(known=known, dense=dense)))
    answers = [answer for each in drawn for answer in each.planned]
    for least in sorted({answer[3] for answer in answers}):
        likely = [answer[2] >= _LIKELY for answer in answers if answer[3] == least]
        words = f"N {dense} / N {known} by the planner{', at least' * least}"
        words += " (hollow: a chance below 50%)" * (not all(likely))
        entries.append((panels.line(**_planned(likely=any(likely), least=least)), words))
    entries.append((Patch(facecolor=_SHADE), "not defined: t at or below the higher floor"))
    notes = style.glossary([known, dense, *(each.name for each in drawn)])
    if len(found) > len(drawn):
        notes.append(f"{len(drawn)} of {len(found)} points are drawn; the rest are left out.")
    with style.settings(fine=True):
        figure, frames = panels.sheet(len(drawn), entries, notes, narrow=narrow)
        values = [
            [np.ones(1), np.array([ratio for _, ratio, *_ in each.planned]), *each.lines.values()]
            for each in drawn
        ]
        heights = panels.shared([panels.limits(shown, pad=0.08) for shown in values])
        for axes, each, height in zip(frames, drawn, heights, strict=True):
            _draw(axes, each, height)
        return figure


def _draw(axes: Axes, each: Factors, height: tuple[float, float]) -> None:
    edge, right = max(each.floors), each.top * 1.1
    left = edge * (edge / right) ** 0.35  # the shaded range takes about a quarter of the width
    labels = f"target t ({style.fitted(each.known.metric or 'error', 0.8)})", "factor"
    panels.frame(axes, (left, right), height, labels=labels)
    axes.axhline(1.0, color=GREY, linewidth=0.6, gid="one", zorder=1.9)
    axes.axvspan(left, edge, facecolor=_SHADE, zorder=1, gid="undefined")
    higher = each.dense if each.floors[1] >= each.floors[0] else each.known
    words = style.fitted(higher.model or "model", 0.4)
    note = f"grey: t ≤ floor of {words}, {style.digits(edge, 2)}"
    panels.head(axes, each.name, note)
    if each.reason:
        panels.say(axes, each.reason)
    targets = [found.target for found in each.factors]
    for kind, values in each.lines.items():
        axes.plot(targets, values, gid=kind, zorder=2.5, **_LINES[kind][1])
    for likely, least in product((True, False), repeat=2):
        odds = likely, least
        shown = [(t, ratio) for t, ratio, p, low in each.planned if (p >= _LIKELY, low) == odds]
        if shown:
            gid = f"planned{'' if likely else '-unlikely'}{'-least' * least}"
            axes.plot(*zip(*shown, strict=True), gid=gid, zorder=3, **_planned(*odds))


def _planned(likely: bool, least: bool) -> Options:
    mark = LOOKS[0].mark("^" if least else "D", 3.6)
    return mark if likely else mark | {"markerfacecolor": "white"}
