"""Error against training samples at every operating point of a study, as in the paper's Figure 3.

A panel is a point: what was measured, the planner's forecast from it, the paper's calibrated line
and the floor where each model's line ends. Values are errors, in the unit of the curves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.calibrate import Calibration, calibrate
from korisk.planning.forecast import Forecast, forecast
from korisk.report.contents import Contents, Point, squared
from korisk.report.figures.frame import Track, drawn_sizes, track, values
from korisk.report.figures.style import (
    DARK,
    FINE,
    GREY,
    LOOKS,
    MOST_PANELS,
    PANEL_HEIGHT,
    REST,
    SIGMA,
    SMALL,
    Axes,
    Entry,
    Figure,
    Line2D,
    Look,
    Patch,
    digits,
    fitted,
    foot_height,
    gridded,
    inches,
    legend_below,
    looks_of,
    sheet,
    style,
    thinned,
    tick,
)
from korisk.report.figures.ticks import Ticks, doubling_ticks, linear_ticks, log_ticks

Array = NDArray[np.float64]

FAR = 4.0  # times the last N: so far forecasts and lines are drawn

_STEPS = 22  # N at which a forecast is drawn
_FEW_SEEDS = 12  # up to which each measurement is drawn
_MARGINS = (0.56, 0.47, 0.40, 0.34)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One model at one point. What its pilot is too short for is None."""

    curve: Curve
    track: Track | None  # the forecast, to `FAR` times the last N
    doubt: str = ""  # why the forecast ends at the last N
    line: Calibration | None  # the paper's, floor + sigma log N / N
    untrained: float | None  # the error before training

    @property
    def model(self) -> str:
        """The model's name."""
        return self.curve.model

    @property
    def line_n(self) -> Array:
        """(M,) the N at which the line is drawn."""
        return np.geomspace(float(self.curve.sizes[0]), FAR * float(self.curve.sizes[-1]), 49)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One operating point."""

    name: str
    note: str  # a line of what it is, under the name
    metric: str
    traces: tuple[Trace, ...]


# --- What is drawn -------------------------------------------------------------------------------


def panels_of(contents: Contents) -> list[Panel]:
    """The points of a study that have curves, in the study's order."""
    return [
        panel(point.name, point.curves, point.untrained, note=note_of(point))
        for point in map(squared, contents.points)
        if point.curves
    ]


def panel(
    name: str, curves: Sequence[Curve], untrained: Mapping[str, float], *, note: str = ""
) -> Panel:
    """One point from its curves. Models beyond those with a colour have no forecast."""
    told = set(list(looks_of(curve.model for curve in curves))[: len(LOOKS)])
    traces = []
    for curve in curves:
        made = _forecast(curve) if curve.model in told else None
        traces.append(
            Trace(
                curve=curve,
                track=None
                if made is None
                else track(made, drawn_sizes(made, FAR * made.last, steps=_STEPS)),
                doubt="" if made is None else made.doubt,
                line=_line(curve) if curve.model in told else None,
                untrained=untrained.get(curve.model),
            )
        )
    metric = curves[0].metric if curves else ""
    return Panel(name=name, note=note, metric=metric, traces=tuple(traces))


def note_of(point: Point) -> str:
    """What a point is, in a few words."""
    problem = point.spec.get("problem")
    parts = []
    if isinstance(problem, Mapping) and {"side", "views", "bins"} <= problem.keys():
        parts.append(f"H = {problem['side']}, {problem['views']} views, {problem['bins']} bins")
    seeds = sorted({int(count) for curve in point.curves for count in curve.counts})
    if seeds:
        span = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        parts.append(f"{span} seed{'' if span == '1' else 's'}")
    return "; ".join(parts)


def _forecast(curve: Curve) -> Forecast | None:
    try:
        return forecast(curve)
    except KoriskError:
        return None  # a pilot of fewer than three sizes


def _line(curve: Curve) -> Calibration | None:
    try:
        return calibrate(curve, "paper")
    except KoriskError:
        return None  # a single size


# --- The figure ----------------------------------------------------------------------------------


def efficiency_figure(panels: Sequence[Panel]) -> Figure | None:
    """All panels, three a row, with one legend; None where no panel has a curve."""
    full = [each for each in panels if each.traces]
    drawn = full[:MOST_PANELS]
    if not drawn:
        return None
    looks = looks_of(trace.model for each in full for trace in each.traces)
    with style(fine=True):
        width = 3.4 if len(drawn) == 1 else 7.0
        entries, notes = _entries(drawn, looks), _notes(full, looks)
        foot = foot_height(entries, notes, width)
        figure, frames = sheet(len(drawn), _MARGINS, height=PANEL_HEIGHT, foot=foot)
        for axes, each in zip(frames, drawn, strict=True):
            _draw(axes, each, looks)
        legend_below(figure, entries, notes)
        return figure


def _draw(axes: Axes, each: Panel, looks: Mapping[str, Look]) -> None:
    _frame(axes, each)
    floors = []
    order = {model: index + 1 for index, model in enumerate(looks)}
    for trace in reversed(each.traces):  # the first model lies on top
        look, tag = looks[trace.model], f"-{order[trace.model]}"
        _draw_track(axes, trace, look, tag)
        _draw_line(axes, trace, look, tag)
        _draw_measured(axes, trace, look, tag)
        if trace.line is not None:
            floors.append((float(values(trace.curve, np.array(trace.line.floor))), look))
        if trace.untrained is not None:
            start = float(values(trace.curve, np.array(trace.untrained)))
            axes.plot(
                [0],
                [start],
                gid=f"untrained{tag}",
                transform=axes.get_yaxis_transform(),
                clip_on=False,
                zorder=3,
                **look.mark("<", 5.0),
            )
    _label_floors(axes, floors)


def _frame(axes: Axes, each: Panel) -> None:
    """Axes, ticks and titles."""
    across, up = inches(axes)
    title = fitted(each.name, across + _MARGINS[1] - 0.05, SMALL, bold=True)
    axes.set_title(title, loc="left", pad=13, fontweight="bold", parse_math=False)
    axes.annotate(
        fitted(each.note, across + _MARGINS[1] - 0.05),
        (0, 1),
        (0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        color=GREY,
        parse_math=False,
    )
    log = _is_log(each)
    height = _limits(each, log=log)
    sizes = np.concatenate([trace.curve.sizes for trace in each.traces])
    left, right = float(sizes.min()) / 1.25, FAR * float(sizes.max()) * 1.1
    axes.set(xscale="log", yscale="log" if log else "linear", xlim=(left, right), ylim=height)
    axes.set_xlabel("training samples N")
    axes.set_ylabel(fitted(each.metric or "error", up), parse_math=False)
    tick(axes.xaxis, thinned(_sample_ticks(sizes, left, right), across))
    marks = log_ticks(*height) if log else linear_ticks(*height)
    tick(axes.yaxis, dict(list(marks.items())[:: math.ceil(len(marks) / (up / 0.16))]))
    gridded(axes)


def _sample_ticks(sizes: NDArray[np.int64], left: float, right: float) -> Ticks:
    if right < 1e6 and not np.any(sizes & (sizes - 1)):
        return doubling_ticks(int(sizes.min()), left, right)
    return log_ticks(left, right)


def _limits(each: Panel, *, log: bool) -> tuple[float, float]:
    """The lower and upper end: all that was measured, and a part of the forecasts."""
    needed, wished = [], []
    for trace in each.traces:
        curve = trace.curve
        needed.append(values(curve, curve.means))
        if trace.untrained is not None:
            needed.append(values(curve, np.array([trace.untrained])))
        if trace.line is not None:
            needed.append(values(curve, trace.line.predict(trace.line_n)))
        if trace.track is not None:
            wished += [trace.track.better, trace.track.worse]
        if _few(curve):
            wished.append(values(curve, curve.error))
    inner, outer = _ends(needed, log=log), _ends(needed + wished, log=log)
    slack = 0.3 * (inner[1] - inner[0])  # bands and single seeds may lie beyond the frame
    low, high = max(outer[0], inner[0] - slack), min(outer[1], inner[1] + slack)
    pad = 0.06 * (high - low)
    if high - low <= 1e-9 * abs(high):
        pad = 0.1 if log else 0.1 * abs(high) or 1.0
    low, high = low - pad, high + pad
    return (10.0**low, 10.0**high) if log else (low, high)


def _ends(parts: Iterable[Array], *, log: bool) -> tuple[float, float]:
    flat = np.concatenate(list(parts))
    flat = np.log10(flat) if log else flat
    return float(flat.min()), float(flat.max())


def _beyond(each: Panel) -> bool:
    """Whether single seeds lie outside the frame."""
    low, high = _limits(each, log=_is_log(each))
    drawn = [values(t.curve, t.curve.error) for t in each.traces if _few(t.curve)]
    return any(bool(np.any((error < low) | (error > high))) for error in drawn)


def _is_log(each: Panel) -> bool:
    return all(trace.curve.unit.logarithmic for trace in each.traces)


def _few(curve: Curve) -> bool:
    return int(curve.counts.max()) <= _FEW_SEEDS


def _draw_measured(axes: Axes, trace: Trace, look: Look, tag: str) -> None:
    """Means, bars of one standard error, and faint dots of single seeds where they are few."""
    curve = trace.curve
    if 1 < curve.counts.max() <= _FEW_SEEDS:
        dots = look.mark(size=1.8) | {"markerfacecolor": look.colour, "markeredgewidth": 0}
        error = values(curve, curve.error)
        axes.plot(curve.n, error, gid=f"seeds{tag}", alpha=0.35, **dots)
        _mark_beyond(axes, curve, error, look, tag)
    many = curve.counts > 1
    mean = curve.means[many]
    error = curve.deviations[many] / np.sqrt(curve.counts[many])
    low, high = values(curve, np.maximum(mean - error, 1e-3 * mean)), values(curve, mean + error)
    bars = axes.vlines(curve.sizes[many], low, high, color=look.colour, linewidth=0.9, zorder=2.6)
    bars.set_gid(f"bars{tag}")
    plainly: dict[str, Any] = {"linestyle": "-", "linewidth": 0.6} if look is REST else {}
    means = values(curve, curve.means)
    mark = look.mark(size=3.6) | {"markeredgewidth": 0.8} | plainly
    axes.plot(curve.sizes, means, gid=f"means{tag}", zorder=2.7, **mark)


def _mark_beyond(axes: Axes, curve: Curve, error: Array, look: Look, tag: str) -> None:
    """Small triangles at the frame for the seeds that lie beyond it."""
    low, high = axes.get_ylim()
    for edge, beyond, marker in ((0.025, error < low, "v"), (0.975, error > high, "^")):
        if beyond.any():
            n = np.unique(curve.n[beyond])
            mark = look.mark(marker, 3.0) | {"markerfacecolor": look.colour, "markeredgewidth": 0}
            axes.plot(
                n,
                np.full(len(n), edge),
                gid=f"beyond{tag}",
                transform=axes.get_xaxis_transform(),
                **mark,
            )


def _draw_track(axes: Axes, trace: Trace, look: Look, tag: str) -> None:
    made = trace.track
    if made is None:
        return
    axes.fill_between(
        made.n, made.better, made.worse, facecolor=look.colour, alpha=0.18, linewidth=0
    )
    axes.plot(
        made.n, made.middle, gid=f"forecast{tag}", color=look.colour, linewidth=1.2, zorder=2.2
    )


def _draw_line(axes: Axes, trace: Trace, look: Look, tag: str) -> None:
    """The paper's calibrated line, dashed, and its floor as a hairline."""
    if trace.line is None:
        return
    n = trace.line_n
    error = values(trace.curve, trace.line.predict(n))
    dashes: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 0.9}
    axes.plot(n, error, gid=f"line{tag}", color=look.colour, zorder=2.3, **dashes)
    floor = float(values(trace.curve, np.array(trace.line.floor)))
    axes.axhline(floor, gid=f"floor{tag}", color=look.colour, linewidth=0.5, zorder=1.9)


def _label_floors(axes: Axes, floors: Sequence[tuple[float, Look]]) -> None:
    """The floors' values at the right edge, moved apart where they would touch."""
    to_axes = axes.transData + axes.transAxes.inverted()
    left = axes.get_xlim()[0]
    placed = sorted(
        (float(to_axes.transform((left, floor))[1]), floor, k)
        for floor, k in ((floor, index) for index, (floor, _) in enumerate(floors))
    )
    for height, (_, floor, index) in zip(
        _apart([height for height, _, _ in placed]), placed, strict=True
    ):
        axes.text(
            1.02,
            height,
            digits(floor, 2),
            transform=axes.transAxes,
            va="center_baseline",
            color=_readable(floors[index][1].colour),
            fontsize=FINE,
            parse_math=False,
        )


def _apart(heights: Sequence[float], least: float = 0.085) -> list[float]:
    """Rising heights within the frame, no two closer than `least` if there is room."""
    moved: list[float] = []
    for height in heights:
        moved.append(max(height, moved[-1] + least) if moved else height)
    excess = moved[-1] - 1.0 if moved else 0.0
    if excess > 0:
        moved = [min(height, 1.0 - least * (len(moved) - 1 - k)) for k, height in enumerate(moved)]
    return moved


def _readable(colour: str) -> str:
    return DARK if colour == LOOKS[-1].colour else colour  # yellow letters cannot be read


# --- Words ---------------------------------------------------------------------------------------


def _entries(drawn: Sequence[Panel], looks: Mapping[str, Look]) -> list[Entry]:
    shown = {trace.model for each in drawn for trace in each.traces}
    models = [model for model in looks if model in shown and looks[model] is not REST]
    entries: list[Entry] = [
        (
            Line2D([], [], **looks[model].mark(size=3.6) | {"linestyle": "-"}),
            fitted(model or "model", 2.2),
        )
        for model in models
    ]
    traces = [trace for each in drawn for trace in each.traces]
    first = looks[models[0]] if models else REST
    if any(trace.curve.counts.max() > 1 for trace in traces):
        bar = Line2D([], [], color=GREY, marker="|", markersize=7, linestyle="none")
        dot = Line2D([], [], **REST.mark("o", 3.6) | {"color": GREY, "markerfacecolor": GREY})
        entries.append(((bar, dot), "mean of seeds ± standard error"))
    if any(trace.track for trace in traces):
        band = Patch(facecolor=GREY, alpha=0.25, linewidth=0)
        entries.append(((band, Line2D([], [], color=GREY, linewidth=1.2)), "forecast, 90% band"))
    if any(trace.line for trace in traces):
        dashed = Line2D([], [], color=GREY, linewidth=0.9, linestyle=(0, (4, 2)))
        entries.append((dashed, f"calibrated: floor + {SIGMA} log N / N"))
        thin = Line2D([], [], color=GREY, linewidth=0.5)
        entries.append((thin, "floor (its value: right edge)"))
    if any(trace.untrained is not None for trace in traces):
        mark = first.mark("<", 5.0) | {"color": GREY, "markerfacecolor": GREY}
        entries.append((Line2D([], [], **mark), "before training"))
    if any(look is REST for look in looks.values()):
        entries.append(
            (Line2D([], [], **REST.mark() | {"linestyle": "-", "linewidth": 0.6}), "other models")
        )
    return entries


def _notes(full: Sequence[Panel], looks: Mapping[str, Look]) -> list[str]:
    notes = []
    rest = sum(look is REST for look in looks.values())
    if rest:
        notes.append(f"{rest} further models are drawn in grey, without forecasts and lines.")
    if any(_beyond(each) for each in full[:MOST_PANELS]):
        notes.append("Small triangles at a frame's edge: N of single seeds that lie beyond it.")
    notes += [
        f"{each.name}, {trace.model}: {trace.doubt}"
        for each in full[:MOST_PANELS]
        for trace in each.traces
        if trace.doubt
    ]
    if len(full) > MOST_PANELS:
        notes.append(f"{MOST_PANELS} of {len(full)} points are drawn; the rest are left out.")
    return notes
