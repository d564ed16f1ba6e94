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

_LIKELY = 0.5  # least probability that each N is enough; below it, marks are hollow
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
    """Factors at every point that has both KO and FC, in the order of the study."""
    result = []
    for point in map(squared, contents.points):
        known, dense = point.curve("KO"), point.curve("FC")
        if known is not None and dense is not None:
            result.append(factors(known, dense, name=point.name))
    return result


# --- The figure ----------------------------------------------------------------------------------


def factors_figure(points: Sequence[Factors], *, narrow: bool = False) -> Figure | None:
    """Draw the factors of every point over the target; None without any point.

    `points` is what `factors_of` returns. There are three panels a row, or one if `narrow`.
    """
    drawn = points[:MOST_PANELS]
    if not drawn:
        return None
    first = drawn[0]  # all panels compare the same two models
    known = style.fitted(first.known.model or "known", 0.5)
    dense = style.fitted(first.dense.model or "dense", 0.5)
    entries: list[Entry] = []
    if any(point.factors for point in drawn):
        for label, line_style in _LINES.values():
            entries.append((panels.line(**line_style), label.format(known=known, dense=dense)))
    # The planner's ratios: one entry for values and one for lower bounds.
    answers = [answer for point in drawn for answer in point.planned]
    for is_bound in sorted({answer[3] for answer in answers}):
        likely = [answer[2] >= _LIKELY for answer in answers if answer[3] == is_bound]
        label = f"N {dense} / N {known} by the planner{', at least' * is_bound}"
        label += " (hollow: a chance below 50%)" * (not all(likely))
        entries.append((panels.line(**_planned(any(likely), is_bound)), label))
    entries.append((Patch(facecolor=_SHADE), "not defined: t at or below the higher floor"))
    notes = style.glossary([known, dense, *(point.name for point in drawn)])
    if len(points) > len(drawn):
        notes.append(f"{len(drawn)} of {len(points)} points are drawn; the rest are left out.")
    with style.settings(fine=True):
        figure, frames = panels.sheet(len(drawn), entries, notes, narrow=narrow)
        # The line of factor 1 is always inside the frame.
        values = [
            [np.ones(1), np.array([ratio for _, ratio, *_ in point.planned]), *point.lines.values()]
            for point in drawn
        ]
        heights = panels.shared([panels.limits(series, pad=0.08) for series in values])
        for axes, point, height in zip(frames, drawn, heights, strict=True):
            _draw(axes, point, height)
        return figure


def _draw(axes: Axes, point: Factors, height: tuple[float, float]) -> None:
    edge, right = max(point.floors), point.top * 1.1
    # On the logarithmic axis the shaded range then takes about a quarter of the width.
    lowest = edge * (edge / right) ** 0.35
    labels = f"target t ({style.fitted(point.known.metric or 'error', 0.8)})", "factor"
    panels.frame(axes, (lowest, right), height, labels=labels)
    # A factor of 1: both models need the same number of samples.
    axes.axhline(1.0, color=GREY, linewidth=0.6, gid="one", zorder=1.9)
    axes.axvspan(lowest, edge, facecolor=_SHADE, zorder=1, gid="undefined")
    higher = point.dense if point.floors[1] >= point.floors[0] else point.known
    model_name = style.fitted(higher.model or "model", 0.4)
    note = f"grey: t ≤ floor of {model_name}, {style.digits(edge, 2)}"
    panels.head(axes, point.name, note)
    if point.reason:
        panels.say(axes, point.reason)
    # Lines by the paper's formula, then the planner's ratios as marks.
    targets = [factor.target for factor in point.factors]
    for kind, values in point.lines.items():
        axes.plot(targets, values, gid=kind, zorder=2.5, **_LINES[kind][1])
    for is_likely, is_bound in product((True, False), repeat=2):
        mark = is_likely, is_bound
        marks = [(t, ratio) for t, ratio, p, low in point.planned if (p >= _LIKELY, low) == mark]
        if marks:
            gid = f"planned{'' if is_likely else '-unlikely'}{'-least' * is_bound}"
            axes.plot(*zip(*marks, strict=True), gid=gid, zorder=3, **_planned(*mark))


def _planned(is_likely: bool, is_bound: bool) -> Options:
    """Mark of the planner's ratio: a triangle if it is a lower bound, hollow if unlikely."""
    mark = LOOKS[0].mark("^" if is_bound else "D", 3.6)
    return mark if is_likely else mark | {"markerfacecolor": "white"}
