"""The two factors of Proposition (prop:ct-proxy) over the target, for every point of a study."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.calibrate import calibrate
from korisk.planning.compare import Comparison
from korisk.planning.forecast import Forecast, forecast
from korisk.planning.plan import plan_from
from korisk.report.contents import Contents, squared
from korisk.report.figures.style import (
    DARK,
    GREY,
    LOOKS,
    MINUS,
    MOST_PANELS,
    PANEL_HEIGHT,
    SIGMA,
    SMALL,
    Axes,
    Entry,
    Figure,
    Line2D,
    Patch,
    digits,
    fitted,
    foot_height,
    gridded,
    inches,
    legend_below,
    sheet,
    style,
    thinned,
    tick,
)
from korisk.report.figures.ticks import log_ticks
from korisk.theory import RiskLine, TwoFactors, two_factors

Array = NDArray[np.float64]


_STEPS = 33  # targets at which the factors are drawn
_NEAREST = 0.01  # of the floor: as near to it as factors are drawn
_ANSWERS = 5  # targets at which the planner is asked
_MARGINS = (0.56, 0.14, 0.40, 0.34)
_SHADE = "#e8e8e8"
_TALLEST = 1e12  # a ratio that no axis needs to show

_LINES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "structural": (
        f"structural: {SIGMA} {{dense}} / {SIGMA} {{known}}",
        {"color": LOOKS[2].colour, "linestyle": (0, (1, 1)), "linewidth": 1.3},
    ),
    "budget": (
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
_PLANNED: Mapping[bool, dict[str, Any]] = {
    likely: {
        "color": LOOKS[0].colour,
        "marker": "D",
        "markersize": 3.6,
        "linestyle": "none",
        "markerfacecolor": LOOKS[0].colour if likely else "white",
    }
    for likely in (True, False)
}
_LIKELY = 0.5  # chance that both numbers are enough, each by itself; below, marks are hollow


@dataclass(frozen=True, kw_only=True)
class Factors:
    """Both factors over targets, and what became of them in samples.

    Without two lines that fall, `factors` is empty and `reason` says why. `planned` holds the
    planner's ratio of N at the few targets for which it has an answer for both models, each with
    the smaller of the two chances that they are enough.
    """

    name: str
    metric: str
    models: tuple[str, str]
    floors: tuple[float, float]  # known, dense; nan without a line
    factors: tuple[TwoFactors, ...]  # by rising target
    planned: tuple[tuple[float, float, float], ...]  # target, ratio, chance
    top: float  # the largest mean error of both
    reason: str

    @property
    def undefined(self) -> float:
        """Up to this target the factors are not defined: the higher floor."""
        return max(self.floors)


# --- What is drawn -------------------------------------------------------------------------------


def factors_of(contents: Contents) -> list[Factors]:
    """The factors at every point that has both KO and FC, in the study's order."""
    found = []
    for point in map(squared, contents.points):
        known, dense = point.curve("KO"), point.curve("FC")
        if known is not None and dense is not None:
            found.append(factors(known, dense, name=point.name))
    return found


def factors(known: Curve, dense: Curve, *, name: str = "") -> Factors:
    """The factors from the paper's lines of two curves, and the planner's ratios beside them."""
    top = float(max(known.means.max(), dense.means.max()))
    lines = [_line(known), _line(dense)]
    reason = _reason((known, dense), lines)
    floors = tuple(math.nan if line is None else line.floor for line in lines)
    made: tuple[TwoFactors, ...] = ()
    low = float(max(min(known.means), min(dense.means)))
    if lines[0] is not None and lines[1] is not None:
        low = max(floors)
        if not reason and top > low:
            made = tuple(two_factors(lines[0], lines[1], float(t)) for t in _targets(low, top))
    return Factors(
        name=name,
        metric=known.metric,
        models=(known.model, dense.model),
        floors=(floors[0], floors[1]),
        factors=made,
        planned=tuple(_planned(known, dense, low, top)),
        top=top,
        reason=reason,
    )


def _line(curve: Curve) -> RiskLine | None:
    try:
        fitted = calibrate(curve, "paper")
    except KoriskError:
        return None
    return RiskLine(fitted.floor, fitted.slope or 0.0)


def _reason(curves: Sequence[Curve], lines: Sequence[RiskLine | None]) -> str:
    for curve, line in zip(curves, lines, strict=True):
        name = fitted(curve.model or "a model", 0.5)
        if line is None:
            return f"{name} has a single size:\nno line, no factors"
        if line.slope == 0:
            return f"{SIGMA} of {name} is 0 (no error above\nits floor): no factors"
    return ""


def _targets(low: float, top: float) -> Array:
    """(M,) targets above the higher floor, dense near it, where the factors change most."""
    room = top / low - 1.0
    return low * (1.0 + np.geomspace(min(_NEAREST, 0.1 * room), room, _STEPS))


def _planned(
    known: Curve, dense: Curve, low: float, top: float
) -> list[tuple[float, float, float]]:
    if not top > 1.02 * low:
        return []
    try:
        made = forecast(known), forecast(dense)
    except KoriskError:
        return []  # too few sizes for the planner
    found = []
    for target in np.geomspace(1.02 * low, 0.95 * top, _ANSWERS).tolist():
        try:
            both = Comparison(*(plan_from(each, _in_unit(each, target)) for each in made))
        except KoriskError:
            continue  # far worse than all that was measured
        chances = [plan.chance for plan in (both.first, both.second) if plan.chance is not None]
        if both.ratio is not None:
            found.append((target, both.ratio, min(chances)))
    return found


def _in_unit(made: Forecast, error: float) -> float:
    return made.curve.unit.from_error(error).item()


# --- The figure ----------------------------------------------------------------------------------


def factors_figure(panels: Sequence[Factors]) -> Figure | None:
    """The factors of every panel over the target, three a row; None where there is no panel."""
    drawn = panels[:MOST_PANELS]
    if not drawn:
        return None
    with style(fine=True):
        entries, notes = _entries(drawn), []
        if len(panels) > len(drawn):
            notes.append(f"{len(drawn)} of {len(panels)} points are drawn; the rest are left out.")
        foot = foot_height(entries, notes, 3.4 if len(drawn) == 1 else 7.0)
        figure, frames = sheet(len(drawn), _MARGINS, height=PANEL_HEIGHT, foot=foot)
        for axes, each in zip(frames, drawn, strict=True):
            _draw(axes, each)
        legend_below(figure, entries, notes)
        return figure


def _draw(axes: Axes, each: Factors) -> None:
    across, _ = inches(axes)
    title = fitted(each.name, across, SMALL, bold=True)
    axes.set_title(title, loc="left", pad=13, fontweight="bold", parse_math=False)
    axes.set_xlabel(f"target t ({fitted(each.metric or 'error', 0.8)})", parse_math=False)
    axes.set_ylabel("factor")
    curves = _values(each)
    _frame(axes, each, curves)
    _say(axes, each)
    targets = [found.target for found in each.factors]
    for kind, values in curves.items():
        axes.plot(targets, values, gid=kind, zorder=2.5, **_LINES[kind][1])
    for likely, look in _PLANNED.items():
        ratios = [(t, ratio) for t, ratio, chance in each.planned if (chance >= _LIKELY) == likely]
        if ratios:
            x, y = zip(*ratios, strict=True)
            axes.plot(x, y, gid="planned" if likely else "planned-unlikely", zorder=3, **look)


def _values(each: Factors) -> dict[str, list[float]]:
    if not each.factors:
        return {}
    return {
        "structural": [found.structural for found in each.factors],
        "budget": [found.approximation_budget for found in each.factors],
        "product": [found.product for found in each.factors],
        "ratio": [min(found.ratio, _TALLEST) for found in each.factors],
    }


def _frame(axes: Axes, each: Factors, curves: Mapping[str, list[float]]) -> None:
    """Limits and ticks, one factor of one marked, and the range without factors shaded."""
    right = each.top * 1.1
    left = 0.5 * each.top
    if math.isfinite(each.undefined):
        # The shaded range takes about a quarter of the width.
        left = each.undefined * (each.undefined / right) ** 0.35
    values = [1.0, *(ratio for _, ratio, _ in each.planned)]
    values += [value for series in curves.values() for value in series]
    low, high = min(values), max(values)
    room = max(1.3, (high / low) ** 0.08)
    axes.set(xscale="log", yscale="log")
    axes.set(xlim=(min(left, 0.9 * right), right), ylim=(low / room, high * room))
    across, up = inches(axes)
    tick(axes.xaxis, thinned(log_ticks(*axes.get_xlim()), across))
    marks = log_ticks(*axes.get_ylim())
    tick(axes.yaxis, dict(list(marks.items())[:: math.ceil(len(marks) / (up / 0.16))]))
    gridded(axes)
    axes.axhline(1.0, color=GREY, linewidth=0.6, gid="one", zorder=1.9)
    if math.isfinite(each.undefined):
        edge = axes.get_xlim()[0]
        axes.axvspan(edge, each.undefined, facecolor=_SHADE, zorder=1, gid="undefined")


def _say(axes: Axes, each: Factors) -> None:
    """What the shaded range is, and why a panel has no factors."""
    if math.isfinite(each.undefined):
        dense = each.floors[1] >= each.floors[0]
        name = fitted(each.models[1 if dense else 0] or "model", 0.4)
        axes.annotate(
            f"grey: t ≤ floor of {name}, {digits(each.undefined, 2)}",
            (0, 1),
            (0, 4),
            xycoords="axes fraction",
            textcoords="offset points",
            color=GREY,
            parse_math=False,
        )
    if each.reason:
        axes.text(
            0.95,
            0.5,
            each.reason,
            transform=axes.transAxes,
            ha="right",
            va="center",
            color=DARK,
            gid="reason",
            parse_math=False,
            bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.5},
            zorder=4,
        )


def _entries(drawn: Sequence[Factors]) -> list[Entry]:
    known, dense = _names(drawn)
    entries: list[Entry] = []
    if any(each.factors for each in drawn):
        entries += [
            (Line2D([], [], **look), words.format(known=known, dense=dense))
            for words, look in _LINES.values()
        ]
    chances = [chance for each in drawn for _, _, chance in each.planned]
    if chances:
        hollow = " (hollow: a chance below 50%)" if min(chances) < _LIKELY else ""
        words = f"N {dense} / N {known} by the planner{hollow}"
        entries.append((Line2D([], [], **_PLANNED[True]), words))
    if any(math.isfinite(each.undefined) for each in drawn):
        words = "not defined: t at or below the higher floor"
        entries.append((Patch(facecolor=_SHADE), words))
    return entries


def _names(drawn: Sequence[Factors]) -> tuple[str, str]:
    """What the two are called in all panels."""
    pairs = {each.models for each in drawn}
    known, dense = pairs.pop() if len(pairs) == 1 else ("known", "dense")
    return fitted(known or "known", 0.5), fitted(dense or "dense", 0.5)
