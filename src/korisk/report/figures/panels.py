"""Panels, their axes and ticks, legends and notes, and the marks that several figures draw."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.planning.compare import Crossover
from korisk.planning.extrapolation import Extrapolation
from korisk.report.figures import style
from korisk.report.figures.style import COLUMN, DARK, DPI, FINE, GREY, PAGE, SMALL, Look, Options

Array = NDArray[np.float64]
Entry = tuple[Any, str]  # of a legend: an artist or several, and words
Margins = tuple[float, float, float, float]  # inches around axes: left, right, bottom, top
Limits = tuple[float, float]  # of an axis or a scale

MOST_PANELS = 12  # of one figure; a longer one fits no page
SAMPLES = "training samples N"

_MOST_TICKS = 8
_CORNERS = 30  # pilot sizes at which a band's corners are drawn exactly
_MANTISSAS = ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))  # of ticks, the densest that fits
_LEGEND: Options = {"frameon": False, "handler_map": {tuple: HandlerTuple(ndivide=1)}}
_LEGEND |= {"fontsize": FINE}
_SPACES: Options = {"handlelength": 2.4, "handletextpad": 0.6, "columnspacing": 1.4}
_SPACES |= {"labelspacing": 0.35, "borderaxespad": 0, "borderpad": 0}
_CROSSING: Options = {"color": DARK, "linestyle": "-", "linewidth": 1.3}
_CROSS: Options = {"marker": "X", "markersize": 7, "markeredgecolor": "white"}


# --- Pages of panels -----------------------------------------------------------------------------


def sheet(
    panels: int,
    entries: Sequence[Entry],
    notes: Sequence[str] = (),
    *,
    margins: Margins = (0.56, 0.14, 0.40, 0.34),
    height: float = 1.95,
    width: float = PAGE,
    across: int = 3,
    size: float = FINE,
    narrow: bool = False,
    ax: Axes | None = None,
) -> tuple[Figure, list[Axes]]:
    """Panels of one height in rows, over a legend and notes.

    One panel alone is a column wide; if `narrow`, all are, one below the other. Axes of others take
    the only panel as it is, with the legend inside it and no notes.
    """
    if ax is not None:
        ax.legend([h for h, _ in entries], [style.plain(word) for _, word in entries], **_LEGEND)
        return figure_of(ax), [ax]
    across = 1 if narrow else min(panels, across)
    width = COLUMN if narrow or (panels == 1 and width == PAGE) else width
    lines = [line for note in notes for line in style.wrapped(note, width - 0.16, size)]
    longest = max((style.inches_of(label, size) for _, label in entries), default=0.1)
    columns = max(1, min(int((width - 0.1) / (0.07 * size + longest)), len(entries)))
    labels = [style.wrapped(label, width - 0.1 * size, size) for _, label in entries]
    row, line_height = 1.43 * size / 72, 1.54 * size / 72
    below = 4 / 72 + line_height * len(lines)
    # Only a column alone has labels of several lines, which are closer than two labels.
    more = 1.2 * size / 72 * sum(len(label) - 1 for label in labels)
    foot = below + row * math.ceil(len(entries) / columns) + more + 4 / 72
    tall = height * math.ceil(panels / across) + foot
    figure = Figure(figsize=(width, tall), dpi=DPI)
    left, right, bottom, top = margins
    cell = width / across
    made = []
    for index in range(panels):
        x, y = (index % across) * cell + left, tall - (index // across + 1) * height + bottom
        wide, up = cell - left - right, height - bottom - top
        made.append(figure.add_axes((x / width, y / tall, wide / width, up / tall)))
    for place, line in enumerate(reversed(lines)):
        y = (4 / 72 + line_height * place) / tall
        figure.text(0.08 / width, y, line, color=GREY, fontsize=size)
    if entries:
        words = ["\n".join(label) for label in labels]
        figure.legend(
            [handle for handle, _ in entries],
            [f" {label}" if label.startswith("_") else label for label in words],  # _ hides
            loc="lower left",
            bbox_to_anchor=(0.08 / width, below / tall),
            ncols=columns,
            **_LEGEND | {"fontsize": size},
            **_SPACES,
        )
    return figure, made


def figure_of(axes: Axes) -> Figure:
    """The whole figure that axes are in."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def line(**options: Any) -> Line2D:
    """A line for a legend."""
    return Line2D([], [], **options)


def inches(axes: Axes) -> tuple[float, float]:
    """The width and height of axes."""
    box, dpi = axes.get_window_extent(), axes.figure.dpi
    return box.width / dpi, box.height / dpi


def head(
    axes: Axes,
    title: str,
    note: str = "",
    *,
    size: float = SMALL,
    room: float = 0.14,
    lift: int = 0,
    most: int = 1,
    **options: Any,
) -> None:
    """A title in bold over a note, in grey unless `options` say else, above a panel.

    Both are `lift` points higher, and may be `room` inches wider than the panel. The note has
    `most` lines, one or two.
    """
    width, fine = inches(axes)[0] + room, FINE if size == SMALL else SMALL
    bold = "fontweight" in options
    lines = style.wrapped(note, width, fine, bold=bold)
    rest = note if most == 1 else " ".join(lines[1:])
    lines = [*lines[: most - 1], style.fitted(rest, width, fine, bold=bold)][: len(lines)]
    pad = 4 + lift + 1.4 * fine * len(lines)
    text = style.fitted(title, width, size, bold=True)
    axes.set_title(text, loc="left", pad=pad, fontsize=size, fontweight="bold")
    above(axes, "\n".join(lines), 0, (0, 4 + lift), xycoords="axes fraction", **options)


def above(
    axes: Axes, text: str, x: float, shift: tuple[float, float] = (0, 2), **options: Any
) -> None:
    """Grey words above the frame, at a value of x unless `xycoords` says else."""
    place: Options = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points"}
    axes.annotate(text, (x, 1), shift, **place | {"color": GREY} | options)


def say(axes: Axes, text: str, *, y: float = 0.5) -> None:
    """Why a panel does not show what others do, in lines within it, centred."""
    size = float(matplotlib.rcParams["font.size"])
    lines = style.wrapped(text, 0.9 * inches(axes)[0], size)[:5]
    white = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.5}
    place: Options = {"transform": axes.transAxes, "ha": "center", "va": "center", "zorder": 4}
    axes.text(0.5, y, "\n".join(lines), color=DARK, gid="reason", bbox=white, **place)


# --- Axes ----------------------------------------------------------------------------------------


def limits(
    needed: Iterable[Array], wished: Iterable[Array] = (), *, log: bool = True, pad: float = 0.06
) -> Limits:
    """Limits around all needed values, and wished ones as far as a quarter beyond those."""
    ends = []
    inner = list(needed)
    for parts in (inner, [*inner, *wished]):
        flat = np.concatenate([*(np.asarray(part, float).ravel() for part in parts), np.zeros(0)])
        flat = flat[np.isfinite(flat) & ((flat > 0) | (not log))]
        flat = np.log10(flat) if log else flat
        ends.append((float(flat.min()), float(flat.max())) if flat.size else (0.0, 0.0))
    (low, high), outer = ends
    slack = 0.25 * (high - low)
    low, high = max(outer[0], low - slack), min(outer[1], high + slack)
    least = 0.1 if log else 0.01 * max(abs(low), abs(high)) or 1.0
    room = max(pad * (high - low), 0.4 * least if high > low else least)
    low, high = low - room, high + room
    return (10.0**low, 10.0**high) if log else (low, high)


def shared(own: Sequence[Limits], *, log: bool = True, least: float = 0.25) -> list[Limits]:
    """The same limits for panels that are to be compared, where each fills so much of them.

    Else each has its own.
    """
    ends = np.log(own) if log else np.array(own)
    low, high = ends[:, 0].min(), ends[:, 1].max()
    if np.ptp(ends, axis=1).min() < least * (high - low):
        return list(own)
    return [(min(low for low, _ in own), max(high for _, high in own))] * len(own)


def share_heights(frames: Sequence[Axes], *, least: float = 0.25) -> None:
    """Give logarithmic panels that are drawn the same heights, as `shared` does."""
    heights = shared([each.get_ylim() for each in frames], least=least)
    for axes, height in zip(frames, heights, strict=True):
        axes.set_ylim(*height)
        ticks(axes.yaxis)


def frame(
    axes: Axes,
    x: Limits,
    y: Limits,
    *,
    labels: tuple[str, str],
    log: bool = True,
    sizes: NDArray[Any] | None = None,
) -> None:
    """Limits, labels, a pale grid, and few round ticks; x is logarithmic, y unless not `log`.

    Ticks lie at powers of two where all `sizes` are such.
    """
    axes.set(xscale="log", yscale="log" if log else "linear", xlim=x, ylim=y)
    across, up = inches(axes)
    size = float(axes.xaxis.label.get_fontsize())
    axes.set_xlabel(style.fitted(labels[0], across, size))
    axes.set_ylabel(style.fitted(labels[1], up, size))
    ticks(axes.xaxis, sizes)
    ticks(axes.yaxis)
    gridded(axes)


def gridded(axes: Axes) -> None:
    """A pale grid behind, and no frame above and on the right."""
    axes.grid(color="#e3e3e3", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def ticks(axis: Axis, sizes: NDArray[Any] | None = None) -> None:
    """At most eight round ticks on an axis, as many as their labels leave space for."""
    low, high = sorted(axis.get_view_interval())
    across = axis is axis.axes.xaxis
    length = inches(axis.axes)[0 if across else 1]
    axis.set_minor_locator(ticker.NullLocator())
    if axis.get_scale() == "linear":
        most = min(_MOST_TICKS - 1, int(length / 0.2))
        axis.set_major_locator(ticker.MaxNLocator(most, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(ticker.ScalarFormatter(useOffset=False))
        return
    found = np.zeros(0)
    whole = np.asarray([3] if sizes is None else sizes, np.int64)
    if high < 1e6 and not np.any(whole & (whole - 1)):
        powers = np.arange(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
        step = math.ceil(len(powers) / _MOST_TICKS)
        found = 2.0 ** powers[(powers - int(math.log2(whole.min()))) % step == 0]
    else:
        for mantissas in _MANTISSAS:
            locator = ticker.LogLocator(subs=mantissas, numticks=99)
            found = np.asarray(locator.tick_values(low, high))
            found = found[(found >= low) & (found <= high)]
            if len(found) < _MOST_TICKS:
                break
        if len(found) < 3:
            nearby = ticker.MaxNLocator(_MOST_TICKS - 2, steps=[1, 2, 5, 10])
            found = np.asarray(nearby.tick_values(low, high))
            found = found[(found >= low) & (found <= high)]
    long = bool(np.any((found < 0.99e-4) | (found > 0.99e6)))  # all labels alike
    labels = [style.digits(value, 6, powers=long) for value in found]
    size = float(matplotlib.rcParams["font.size"])
    widest = max((style.inches_of(label, size) for label in labels), default=0.1)
    room = max(2, int(length / (widest + 0.9 * size / 72 if across else 1.75 * size / 72)))
    step = math.ceil(len(found) / min(room, _MOST_TICKS))
    kept: list[int] = []
    for at in range(0, len(found), step):  # those that touch the one before give way
        if not kept or not across:
            kept.append(at)
            continue
        apart = length * math.log(found[at] / found[kept[-1]]) / math.log(high / low)
        wide = style.inches_of(labels[at], size) + style.inches_of(labels[kept[-1]], size)
        if apart > 0.5 * wide + 0.4 * size / 72:
            kept.append(at)
    axis.set_major_locator(ticker.FixedLocator(found[kept].tolist()))
    axis.set_major_formatter(ticker.FixedFormatter([labels[at] for at in kept]))


def colours(
    figure: Figure, axes: Sequence[Axes], mappable: ScalarMappable, label: str, *, extend: str
) -> None:
    """A colour bar with few ticks on the right of some axes, which give way to it."""
    bar = figure.colorbar(mappable, ax=axes, extend=extend, pad=0.02, aspect=22)
    bar.outline.set_linewidth(0.5)
    if bar.solids is not None:
        bar.solids.set_rasterized(True)  # else a rectangle for each of its colours
    bar.set_label(label, fontsize=FINE)
    bar.ax.tick_params(labelsize=FINE, length=2, width=0.5)
    bar.ax.locator_params(nbins=5)


# --- Marks ---------------------------------------------------------------------------------------


def values(curve: Curve, error: Array) -> Array:
    """Errors in the user's unit."""
    return curve.unit.from_error(error)


def span(counts: Iterable[int]) -> str:
    """A number, or the smallest and the largest of several."""
    known = sorted(set(counts))
    return f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"


def seeds(curves: Iterable[Curve]) -> str:
    """How many seeds the curves have at a size."""
    told = span(count for curve in curves for count in curve.counts.tolist())
    return f"{told} seed{'' if told == '1' else 's'}"


@dataclass(frozen=True)
class Track:
    """A forecast at the N of a figure, in the user's unit."""

    n: Array  # (M,)
    middle: Array  # (M,)
    better: Array  # (M,) the end of the band with the smaller error
    worse: Array  # (M,)

    def beyond(self, last: float) -> "Track":
        """The part from the pilot's last N on, which is extrapolated."""
        part = self.n >= last
        return Track(self.n[part], self.middle[part], self.better[part], self.worse[part])


def track(made: Extrapolation, n: Array) -> Track:
    """A forecast at the sizes `n` (M,)."""
    return Track(n, *(values(made.curve, error) for error in (made.middle(n), *made.band(n))))


def drawn_sizes(made: Extrapolation, end: float, *, steps: int) -> Array:
    """(M,) sizes from the pilot's first to `end`, or to the horizon where that is nearer."""
    sizes = made.curve.sizes
    grid = np.geomspace(float(sizes[0]), min(end, float(made.horizon)), steps)
    return np.unique([*grid, *(sizes if len(sizes) <= _CORNERS else [made.last])])


# --- Learning curves: one style in every figure, and in the page's view.js -----------------------


def error_bars(curve: Curve) -> tuple[Array, Array]:
    """(K,) the ends of one standard error of each mean over seeds, in the user's unit.

    Both ends are the mean where there is a single seed.
    """
    error = curve.deviations / np.sqrt(curve.counts)
    # An error is above 0, whatever the seeds scatter: the bar ends where an axis still shows it.
    lower = np.maximum(curve.means - error, 1e-3 * curve.means)
    return values(curve, lower), values(curve, curve.means + error)


def measured_style(look: Look, size: float = 5.0) -> Options:
    """Options of what was measured: points, joined by straight segments."""
    width = 0.6 if look is style.REST else 0.24 * size
    line: Options = {"linestyle": "-", "linewidth": width, "markeredgewidth": 0.2 * size}
    return look.mark(size=size) | line


def draw_measured(
    axes: Axes, curve: Curve, look: Look, tag: str = "", *, size: float = 5.0
) -> None:
    """Means over seeds joined by straight segments, with bars of one standard error."""
    several = curve.counts > 1
    low, high = (ends[several] for ends in error_bars(curve))
    draw_bars(axes, curve.sizes[several], low, high, look, tag)
    means, options = values(curve, curve.means), measured_style(look, size)
    axes.plot(curve.sizes, means, gid=f"means{tag}", zorder=2.7, **options)


def draw_bars(
    axes: Axes, n: NDArray[Any], low: Array, high: Array, look: Look, tag: str = ""
) -> None:
    """Error bars of measured means (M,) between two ends."""
    bars = axes.vlines(n, low, high, color=look.colour, linewidth=1, zorder=2.6)
    bars.set_gid(f"bars{tag}")


def seeds_style(look: Look, size: float = 5.0) -> Options:
    """Options of single seeds: small pale points."""
    small = look.mark(size=0.52 * size) | {"markerfacecolor": look.colour, "markeredgewidth": 0}
    return small | {"alpha": 0.4}


def forecast_style(look: Look, width: float = 1.5) -> tuple[list[Options], Options]:
    """Options of a forecast: the layers of its hatched band, and its dashed line."""
    layers: list[Options] = [{"facecolor": look.colour, "alpha": 0.1, "linewidth": 0}]
    # A layer of its own, pale rather than transparent: SVG and PDF lose other hatches.
    hatch = {"edgecolor": style.pale(look.colour), "hatch": look.hatch}
    layers.append({"facecolor": "none", "linewidth": 0, **hatch})
    return layers, {"color": look.colour, "linestyle": "--", "linewidth": width}


def draw_forecast(
    axes: Axes, track: Track, look: Look, tag: str = "", *, width: float = 1.5, band: bool = True
) -> None:
    """A dashed line, and its hatched 90% band."""
    if len(track.n) < 2:
        return
    layers, line = forecast_style(look, width)
    for layer in layers if band else ():
        axes.fill_between(track.n, track.better, track.worse, **layer)
    axes.plot(track.n, track.middle, gid=f"forecast{tag}", zorder=2.2, **line)


def forecast_handle(look: Look) -> tuple[Patch | Line2D, ...]:
    """The band and the line of a forecast, for a legend."""
    layers, options = forecast_style(look)
    return *(Patch(**layer) for layer in layers), line(**options)


def paper_style(colour: str) -> Options:
    """Options of a line of the paper's formula: dotted."""
    return {"color": colour, "linestyle": ":", "linewidth": 1.3}


# --- Marks of answers ----------------------------------------------------------------------------


def bracket(axes: Axes, lower: float, upper: float, height: float, **options: Any) -> None:
    """A range of N with a bar at each end, or an arrow where it leaves the frame."""
    right = axes.get_xlim()[1]
    if not lower <= right:
        return
    axes.plot([lower, min(upper, right)], [height] * 2, **{"linewidth": 1.5} | options)
    tip = "|" if upper <= right else ">"
    for n, marker, size in ((lower, "|", 7), (min(upper, right), tip, 7 if tip == "|" else 5)):
        bar = {"marker": marker, "markersize": size, "markeredgewidth": 1.5, "clip_on": False}
        axes.plot([n], [height], **options | {"gid": None} | bar)


def draw_crossover(axes: Axes, found: Crossover, height: float) -> None:
    """A cross where two curves do, and the range of N in which they might."""
    if found.n > axes.get_xlim()[1]:
        return
    if not math.isnan(found.lower):
        options = {"gid": "crossover-range", "zorder": 3.4, **_CROSSING}
        bracket(axes, found.lower, found.upper, height, **options)
    axes.plot([found.n], [height], gid="crossover", zorder=3.5, **_CROSSING, **_CROSS)


def crossover_entry() -> Entry:
    """The legend's entry of a crossover."""
    return line(**_CROSSING, **_CROSS), "crossover, 90% interval"


def beside(axes: Axes, labels: Iterable[tuple[float, str, str]], size: float = FINE) -> None:
    """Words at the right edge, at the height of a value each, moved apart where they would touch.

    `labels` are values, words and colours.
    """
    to_axes = axes.transData + axes.transAxes.inverted()
    left, line = axes.get_xlim()[0], 1.25 * size / 72 / inches(axes)[1]
    placed = sorted((float(to_axes.transform((left, at))[1]), w, c) for at, w, c in labels)
    halves = [line * (text.count("\n") + 1) / 2 for _, text, _ in placed]
    heights = [height for height, *_ in placed]
    for k in range(1, len(placed)):
        heights[k] = max(heights[k], heights[k - 1] + halves[k - 1] + halves[k])
    top = 1 + line
    for k in reversed(range(len(placed))):
        heights[k] = min(heights[k], top - halves[k])
        top = heights[k] - halves[k]
    place: Options = {"transform": axes.transAxes, "va": "center", "fontsize": size}
    for height, (_, text, colour) in zip(heights, placed, strict=True):
        axes.text(1.018, height, text, color=colour, **place)
