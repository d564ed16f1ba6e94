"""Curves that were computed before training, on paper: bands, checks, floors, and the crossing."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.prediction.file import CrossoverRecord, ModelRecord, PointRecord
from korisk.report.figures.style import (
    DARK,
    DPI,
    GREY,
    LARGE,
    Axes,
    Entry,
    Figure,
    Line2D,
    Look,
    Patch,
    axes_in,
    digits,
    fitted,
    foot_height,
    gridded,
    legend_below,
    looks_of,
    plain,
    style,
    tick,
)
from korisk.report.figures.ticks import doubling_ticks, log_ticks

Array = NDArray[np.float64]

WIDTH, AXES_HEIGHT = 6.3, 2.9  # inches
NOTE = "band: 90%; dashed: computed from operator, images and noise alone; no network was trained"
_LEFT, _RIGHT, _BELOW, _ABOVE = 0.75, 0.9, 0.45, 0.5  # inches around the axes
_MARGIN = 1.12  # factor beyond the first and the last N
_MOST_DECADES = 8  # of errors; what lies lower is cut off


def prediction_figure(point: PointRecord, measured: Sequence[Curve] = ()) -> Figure:
    """Predicted curves of a point, with measured ones in mean squared errors where there are."""
    with style():
        looks = looks_of([*(made.model for made in point.models), *(c.model for c in measured)])
        entries = _entries(point, measured, looks)
        foot = foot_height(entries, [NOTE], WIDTH)
        figure = Figure(figsize=(WIDTH, AXES_HEIGHT + _BELOW + _ABOVE + foot), dpi=DPI)
        axes = _axes(figure, foot, point, measured)
        for made in point.models:
            _draw(axes, made, looks[made.model])
        for curve in measured:
            _draw_measured(axes, curve, looks[curve.model])
        _label_floors(axes, point)
        _mark_examples(axes, point.examples)
        if point.crossover is not None:
            _mark_crossover(axes, point, point.crossover)
        head = fitted(point.point, WIDTH - 1.2, LARGE, bold=True)
        axes.set_title(head, loc="left", pad=20, fontsize=LARGE, fontweight="bold")
        axes.title.set_parse_math(False)
        legend_below(figure, entries, [NOTE])
        return figure


# --- The frame -----------------------------------------------------------------------------------


def _axes(figure: Figure, foot: float, point: PointRecord, measured: Sequence[Curve]) -> Axes:
    box = (_LEFT, foot + _BELOW, WIDTH - _LEFT - _RIGHT, AXES_HEIGHT)
    axes = axes_in(figure, box)
    left, right = _across(point, measured)
    low, high = _upwards(point, measured)
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(low, high))
    axes.set(xlabel="training samples N", ylabel="mean squared error")
    tick(axes.xaxis, doubling_ticks(4, left, right))
    tick(axes.yaxis, log_ticks(low, high))
    gridded(axes)
    return axes


def _across(point: PointRecord, measured: Iterable[Curve]) -> tuple[float, float]:
    n = [row.n for made in point.models for row in made.track]
    n += [float(size) for curve in measured for size in curve.sizes]
    return min(n) / _MARGIN, max(n) * _MARGIN


def _upwards(point: PointRecord, measured: Iterable[Curve]) -> tuple[float, float]:
    errors = [row.error for made in point.models for row in made.rehearsal]
    for made in point.models:
        errors += [check.measured for check in made.checks]
        errors += [value for row in made.track for value in (row.lower, row.upper, row.computed)]
    errors += [float(mean) for curve in measured for mean in curve.means]
    high = max(errors)
    low = max(min(errors), high * 10.0**-_MOST_DECADES)
    pad = max((high / low) ** 0.04, 1.05)
    return low / pad, high * pad


# --- Curves --------------------------------------------------------------------------------------


def _draw(axes: Axes, made: ModelRecord, look: Look) -> None:
    n, computed, middle, lower, upper = _columns(made)
    axes.fill_between(n, lower, upper, facecolor=look.colour, alpha=0.18, linewidth=0)
    axes.plot(n, middle, gid=f"expected-{made.model}", zorder=2.3, **_solid(look))
    axes.plot(n, computed, gid=f"computed-{made.model}", zorder=2.2, **_dashed(look))
    if made.floor > 0:
        line: dict[str, Any] = {"color": look.colour, "linestyle": ":", "linewidth": 0.9}
        axes.axhline(made.floor, gid=f"floor-{made.model}", zorder=1.9, **line)
    if made.rehearsal:
        x, y = zip(*((row.n, row.error) for row in made.rehearsal), strict=True)
        axes.plot(x, y, gid=f"rehearsal-{made.model}", zorder=2.6, **_cross(look))
    if made.checks:
        x, y = zip(*((check.n, check.measured) for check in made.checks), strict=True)
        axes.plot(x, y, gid=f"pilot-{made.model}", zorder=2.7, **look.mark("D", 4.5))


def _draw_measured(axes: Axes, curve: Curve, look: Look) -> None:
    """Means, and bars of one standard error where there are seeds to tell it."""
    repeated = curve.counts > 1
    mean = curve.means[repeated]
    error = curve.deviations[repeated] / np.sqrt(curve.counts[repeated])
    low = np.maximum(mean - error, 1e-3 * mean)
    bars: dict[str, Any] = {"color": look.colour, "linewidth": 1.1, "zorder": 2.6}
    axes.vlines(curve.sizes[repeated], low, mean + error, **bars)
    axes.plot(curve.sizes, curve.means, gid=f"measured-{curve.model}", zorder=2.7, **look.mark())


def _columns(made: ModelRecord) -> tuple[Array, ...]:
    rows = [(row.n, row.computed, row.expected, row.lower, row.upper) for row in made.track]
    return tuple(np.array(rows).T)


def _solid(look: Look) -> dict[str, Any]:
    return {"color": look.colour, "linewidth": 1.5}


def _dashed(look: Look) -> dict[str, Any]:
    return {"color": look.colour, "linewidth": 1.0, "linestyle": (0, (4, 2))}


def _cross(look: Look) -> dict[str, Any]:
    return look.mark("x", 4.0) | {"markeredgewidth": 1.0, "markeredgecolor": look.colour}


# --- Marks ---------------------------------------------------------------------------------------


def _label_floors(axes: Axes, point: PointRecord) -> None:
    """Each floor's value in the margin, moved apart where they are close."""
    low, high = np.log(axes.get_ylim())
    places = sorted(
        ((math.log(made.floor) - low) / (high - low), made) for made in point.models if made.floor
    )
    above = -1.0
    for height, made in places:
        if not -0.02 <= height <= 1.02:
            continue
        above = max(height, above + 0.13)
        axes.text(
            1.015,
            above,
            f"{plain(made.model)} levels\noff at {digits(made.floor)}",
            transform=axes.transAxes,
            va="center",
            fontsize=6.5,
            color=looks_of([made.model])[made.model].colour,
            parse_math=False,
        )


def _mark_examples(axes: Axes, examples: int) -> None:
    """A hairline at as many samples as images were looked at."""
    axes.axvline(examples, color=DARK, linewidth=0.6, zorder=1.9, gid="examples")
    axes.annotate(
        f"{examples:,} example images",
        (examples, 1),
        (0, 3),
        xycoords=axes.get_xaxis_transform(),
        textcoords="offset points",
        ha="center",
        color=GREY,
        fontstyle="italic",
    )


def _mark_crossover(axes: Axes, point: PointRecord, found: CrossoverRecord) -> None:
    """A cross where the curves do, and the range of N in which they might."""
    heights = [
        float(np.exp(np.interp(math.log(found.n), np.log(columns[0]), np.log(columns[2]))))
        for columns in map(_columns, point.models)
    ]
    height = math.exp(sum(map(math.log, heights)) / len(heights))
    left, right = axes.get_xlim()
    if found.n > right:
        return
    ends = max(found.lower, left), min(right, right if found.upper is None else found.upper)
    bars: dict[str, Any] = {"marker": "|", "markersize": 9, "markeredgewidth": 1.4}
    known = slice(1 if found.upper is None or found.upper > right else 2)  # bars at true ends
    axes.plot(ends, [height] * 2, gid="crossover-range", zorder=3.4, **_CROSSING)
    axes.plot(ends[known], [height, height][known], zorder=3.4, color=DARK, linestyle="", **bars)
    mark: dict[str, Any] = {"marker": "X", "markersize": 7, "markeredgecolor": "white"}
    axes.plot([found.n], [height], gid="crossover", zorder=3.5, **_CROSSING | mark)


_CROSSING: dict[str, Any] = {"color": DARK, "linestyle": ":", "linewidth": 1.3}


# --- The legend ----------------------------------------------------------------------------------


def _entries(point: PointRecord, measured: Sequence[Curve], looks: dict[str, Look]) -> list[Entry]:
    entries: list[Entry] = []
    for made in point.models:
        look, name = looks[made.model], plain(made.model)
        band = Patch(facecolor=look.colour, alpha=0.18, linewidth=0)
        entries.append(((band, Line2D([], [], **_solid(look))), f"{name} expected"))
        if made.rehearsal:
            entries.append((Line2D([], [], **_cross(look)), f"{name} rehearsed on the examples"))
        if made.checks:
            entries.append((Line2D([], [], **look.mark("D", 4.5)), f"{name} in the pilot"))
    for curve in measured:
        mark = Line2D([], [], **looks[curve.model].mark())
        entries.append((mark, f"{plain(curve.model)} measured"))
    if point.crossover is not None:
        entries.append(_crossing_entry(point.crossover))
    return entries


def _crossing_entry(found: CrossoverRecord) -> Entry:
    upper = "∞" if found.upper is None else f"{found.upper:,.0f}"
    words = f"cross at N ≈ {found.n:,.0f} (90%: {found.lower:,.0f} to {upper})"
    mark: dict[str, Any] = {"marker": "X", "markersize": 6, "markeredgecolor": "white"}
    return Line2D([], [], **_CROSSING | mark), f"{words}; then {plain(found.better_after)} is ahead"
