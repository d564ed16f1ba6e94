"""Panels with axes, ticks, legends and notes, and the marks that several figures share."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.planning.compare import Crossover
from korisk.planning.forecast import Outlook
from korisk.planning.recommend import Numbers
from korisk.report.figures import style
from korisk.report.figures.style import COLUMN, DARK, DPI, FINE, GREY, PAGE, SMALL, Look, Options

Array = NDArray[np.float64]
Entry = tuple[Any, str]  # of a legend: an artist or several, and a label
Margins = tuple[float, float, float, float]  # inches around axes: left, right, bottom, top
Limits = tuple[float, float]  # of an axis or a scale

MOST_PANELS = 12  # of one figure, which must fit on a page
SAMPLES = "training samples N"

_MOST_TICKS = 8
_CORNERS = 30  # up to so many pilot sizes, bands have a corner at each of them
_MANTISSAS = ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))  # of ticks; the densest that fits
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
    """Lay out panels of equal height in rows, above a legend and notes.

    A single panel is one column wide; if `narrow`, all are, one below the other. With `ax`, the
    only panel is drawn into the user's axes, with the legend inside and without notes.
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
    entry_height, line_height = 1.43 * size / 72, 1.54 * size / 72
    below = 4 / 72 + line_height * len(lines)
    # Labels wrap only in a legend of one column; their lines are closer than two entries.
    extra_lines = 1.2 * size / 72 * sum(len(label) - 1 for label in labels)
    footer = below + entry_height * math.ceil(len(entries) / columns) + extra_lines + 4 / 72
    total = height * math.ceil(panels / across) + footer
    figure = Figure(figsize=(width, total), dpi=DPI)
    before, after, bottom, top = margins
    pitch = width / across
    frames = []
    for index in range(panels):
        x, y = (index % across) * pitch + before, total - (index // across + 1) * height + bottom
        wide, high = pitch - before - after, height - bottom - top
        frames.append(figure.add_axes((x / width, y / total, wide / width, high / total)))
    for index, line in enumerate(reversed(lines)):
        y = (4 / 72 + line_height * index) / total
        figure.text(0.08 / width, y, line, color=GREY, fontsize=size)
    if entries:
        texts = ["\n".join(label) for label in labels]
        figure.legend(
            [handle for handle, _ in entries],
            # Matplotlib leaves out labels that begin with an underscore.
            [f" {label}" if label.startswith("_") else label for label in texts],
            loc="lower left",
            bbox_to_anchor=(0.08 / width, below / total),
            ncols=columns,
            **_LEGEND | {"fontsize": size},
            **_SPACES,
        )
    return figure, frames


def figure_of(axes: Axes) -> Figure:
    """The figure that contains axes."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def line(**options: Any) -> Line2D:
    """An empty line, as the handle of a legend entry."""
    return Line2D([], [], **options)


def inches(axes: Axes) -> tuple[float, float]:
    """Width and height of axes in inches."""
    box, dpi = axes.get_window_extent(), axes.figure.dpi
    return box.width / dpi, box.height / dpi


def head(axes: Axes, title: str, note: str = "", *, size: float = SMALL, lift: int = 0) -> None:
    """Write a bold title and a grey note above a panel, raised by `lift` points."""
    width, fine = inches(axes)[0] + 0.14, FINE if size == SMALL else SMALL
    text = style.fitted(title, width, size, bold=True)
    pad = 4 + lift + 1.4 * fine * bool(note)
    axes.set_title(text, loc="left", pad=pad, fontsize=size, fontweight="bold")
    above(axes, style.fitted(note, width, fine), 0, (0, 4 + lift), xycoords="axes fraction")


def above(
    axes: Axes, text: str, x: float, shift: tuple[float, float] = (0, 2), **options: Any
) -> None:
    """Write grey text above the frame, at a value of x unless `xycoords` differs."""
    placing: Options = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points"}
    axes.annotate(text, (x, 1), shift, **placing | {"color": GREY} | options)


# --- Axes ----------------------------------------------------------------------------------------


def limits(
    needed: Iterable[Array], wished: Iterable[Array] = (), *, log: bool = True, pad: float = 0.06
) -> Limits:
    """Limits around all needed values, extended by at most a quarter for the wished ones."""
    ends = []
    required = list(needed)
    for arrays in (required, [*required, *wished]):
        flat = np.concatenate([*(np.asarray(a, float).ravel() for a in arrays), np.zeros(0)])
        flat = flat[np.isfinite(flat) & ((flat > 0) | (not log))]
        flat = np.log10(flat) if log else flat
        ends.append((float(flat.min()), float(flat.max())) if flat.size else (0.0, 0.0))
    (low, high), outer = ends
    # Wide bands would otherwise flatten the curves.
    slack = 0.25 * (high - low)
    low, high = max(outer[0], low - slack), min(outer[1], high + slack)
    smallest_span = 0.1 if log else 0.01 * max(abs(low), abs(high)) or 1.0
    padding = max(pad * (high - low), 0.4 * smallest_span if high > low else smallest_span)
    low, high = low - padding, high + padding
    return (10.0**low, 10.0**high) if log else (low, high)


def shared(ranges: Sequence[Limits], *, log: bool = True) -> list[Limits]:
    """Common limits for panels, if every panel fills a quarter of them.

    Otherwise each keeps its own, because a curve would be too flat to read.
    """
    spans = np.log(ranges) if log else np.array(ranges)
    low, high = spans[:, 0].min(), spans[:, 1].max()
    if np.ptp(spans, axis=1).min() < 0.25 * (high - low):
        return list(ranges)
    return [(min(low for low, _ in ranges), max(high for _, high in ranges))] * len(ranges)


def frame(
    axes: Axes,
    x: Limits,
    y: Limits,
    *,
    labels: tuple[str, str],
    log: bool = True,
    sizes: NDArray[Any] | None = None,
) -> None:
    """Set limits, labels, a pale grid and a few round ticks; x is logarithmic, y if `log`.

    Ticks lie at powers of two if all `sizes` are powers of two.
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
    """Draw a pale grid in the background, and no frame above and on the right."""
    axes.grid(color="#e3e3e3", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def ticks(axis: Axis, sizes: NDArray[Any] | None = None) -> None:
    """Set at most eight round ticks on an axis, as many as their labels leave space for."""
    low, high = sorted(axis.get_view_interval())
    horizontal = axis is axis.axes.xaxis
    length = inches(axis.axes)[0 if horizontal else 1]
    axis.set_minor_locator(ticker.NullLocator())
    if axis.get_scale() == "linear":
        count = min(_MOST_TICKS - 1, int(length / 0.2))
        axis.set_major_locator(ticker.MaxNLocator(count, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(ticker.ScalarFormatter(useOffset=False))
        return
    places = np.zeros(0)
    # n & (n - 1) is 0 for powers of two; 3 stands for sizes that are none.
    counts = np.asarray([3] if sizes is None else sizes, np.int64)
    if high < 1e6 and not np.any(counts & (counts - 1)):
        powers = np.arange(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
        step = math.ceil(len(powers) / _MOST_TICKS)
        places = 2.0 ** powers[(powers - int(math.log2(counts.min()))) % step == 0]
    else:
        for mantissas in _MANTISSAS:
            locator = ticker.LogLocator(subs=mantissas, numticks=99)
            places = np.asarray(locator.tick_values(low, high))
            places = places[(places >= low) & (places <= high)]
            if len(places) < _MOST_TICKS:
                break
        # A range of less than a decade may contain no such tick: use those of a linear axis.
        if len(places) < 3:
            linear = ticker.MaxNLocator(_MOST_TICKS - 2, steps=[1, 2, 5, 10])
            places = np.asarray(linear.tick_values(low, high))
            places = places[(places >= low) & (places <= high)]
    # One tick beyond these limits, and all labels are written as powers of ten.
    as_powers = bool(np.any((places < 0.99e-4) | (places > 0.99e6)))
    labels = [style.digits(value, 6, powers=as_powers) for value in places]
    size = float(matplotlib.rcParams["font.size"])
    widest = max((style.inches_of(label, size) for label in labels), default=0.1)
    fitting = max(2, int(length / (widest + 0.9 * size / 72 if horizontal else 1.75 * size / 72)))
    step = math.ceil(len(places) / min(fitting, _MOST_TICKS))
    chosen: list[int] = []
    # Drop labels that would touch the label before them.
    for index in range(0, len(places), step):
        if not chosen or not horizontal:
            chosen.append(index)
            continue
        distance = length * math.log(places[index] / places[chosen[-1]]) / math.log(high / low)
        widths = style.inches_of(labels[index], size) + style.inches_of(labels[chosen[-1]], size)
        if distance > 0.5 * widths + 0.4 * size / 72:
            chosen.append(index)
    axis.set_major_locator(ticker.FixedLocator(places[chosen].tolist()))
    axis.set_major_formatter(ticker.FixedFormatter([labels[index] for index in chosen]))


# --- Marks ---------------------------------------------------------------------------------------


def values(curve: Curve, error: Array) -> Array:
    """Errors in the user's unit."""
    return curve.unit.from_error(error)


def span(counts: Iterable[int]) -> str:
    """A number as text, or the smallest and the largest of several."""
    distinct = sorted(set(counts))
    return f"{distinct[0]}" if len(distinct) == 1 else f"{distinct[0]} to {distinct[-1]}"


def seeds(curves: Iterable[Curve]) -> str:
    """The number of seeds of the curves at a size, as text."""
    text = span(count for curve in curves for count in curve.counts.tolist())
    return f"{text} seed{'' if text == '1' else 's'}"


@dataclass(frozen=True)
class Track:
    """A forecast at the N of a figure, in the user's unit."""

    n: Array  # (M,)
    middle: Array  # (M,)
    better: Array  # (M,) the end of the band with the smaller error
    worse: Array  # (M,)

    def beyond(self, last: float) -> "Track":
        """The extrapolated part, from the pilot's last N on."""
        beyond = self.n >= last
        return Track(self.n[beyond], self.middle[beyond], self.better[beyond], self.worse[beyond])


def track(forecast: Outlook, n: Array) -> Track:
    """Evaluate a forecast at the sizes `n` (M,)."""
    law = forecast.law(n)
    return Track(n, *(forecast.unit.from_error(np.exp(law.quantile(p))) for p in (0.5, 0.05, 0.95)))


def drawn_sizes(forecast: Outlook, end: float, *, steps: int) -> Array:
    """(M,) sizes from the pilot's first to `end`, or to the horizon if that is nearer."""
    sizes = forecast.evidence.sizes
    grid = np.geomspace(float(sizes[0]), min(end, float(forecast.horizon)), steps)
    return np.unique([*grid, *(sizes if len(sizes) <= _CORNERS else [forecast.last])])


# --- Learning curves: one style in every figure, and in the page's view.js -----------------------


def error_bars(curve: Curve) -> tuple[Array, Array]:
    """(K,) ends of the standard-error bars of the means over seeds, in the user's unit.

    Both ends equal the mean if there is a single seed.
    """
    error = curve.deviations / np.sqrt(curve.counts)
    # Errors are positive: a bar that would reach 0 cannot be drawn on a logarithmic axis.
    lower = np.maximum(curve.means - error, 1e-3 * curve.means)
    return values(curve, lower), values(curve, curve.means + error)


def measured_style(look: Look, size: float = 5.0) -> Options:
    """Options of measured means: points joined by straight segments."""
    # Further models are drawn thin, since there may be many.
    width = 0.6 if look is style.REST else 0.24 * size
    line: Options = {"linestyle": "-", "linewidth": width, "markeredgewidth": 0.2 * size}
    return look.mark(size=size) | line


def draw_measured(
    axes: Axes, curve: Curve, look: Look, tag: str = "", *, size: float = 5.0
) -> None:
    """Draw means over seeds, joined by straight segments, with bars of one standard error."""
    several = curve.counts > 1
    low, high = (ends[several] for ends in error_bars(curve))
    bars = axes.vlines(curve.sizes[several], low, high, color=look.colour, linewidth=1, zorder=2.6)
    bars.set_gid(f"bars{tag}")
    means, options = values(curve, curve.means), measured_style(look, size)
    axes.plot(curve.sizes, means, gid=f"means{tag}", zorder=2.7, **options)


def seeds_style(look: Look, size: float = 5.0) -> Options:
    """Options of single seeds: small pale points."""
    small = look.mark(size=0.52 * size) | {"markerfacecolor": look.colour, "markeredgewidth": 0}
    return small | {"alpha": 0.4}


def forecast_style(look: Look, width: float = 1.5) -> tuple[list[Options], Options]:
    """Options of a forecast: the layers of its hatched band, and its dashed line."""
    layers: list[Options] = [{"facecolor": look.colour, "alpha": 0.1, "linewidth": 0}]
    # The hatch is a layer of its own, pale rather than transparent: SVG and PDF ignore the
    # transparency of hatches.
    hatch = {"edgecolor": style.pale(look.colour), "hatch": look.hatch}
    layers.append({"facecolor": "none", "linewidth": 0, **hatch})
    return layers, {"color": look.colour, "linestyle": "--", "linewidth": width}


def draw_forecast(
    axes: Axes, track: Track, look: Look, tag: str = "", *, width: float = 1.5, band: bool = True
) -> None:
    """Draw a forecast: a dashed line, and its hatched 90% band."""
    if len(track.n) < 2:
        return
    layers, line = forecast_style(look, width)
    for layer in layers if band else ():
        axes.fill_between(track.n, track.better, track.worse, **layer)
    axes.plot(track.n, track.middle, gid=f"forecast{tag}", zorder=2.2, **line)


def forecast_handle(look: Look) -> tuple[Patch | Line2D, ...]:
    """Legend handle of a forecast: its band and its line."""
    layers, options = forecast_style(look)
    return *(Patch(**layer) for layer in layers), line(**options)


def paper_style(colour: str) -> Options:
    """Options of a line by the paper's formula: dotted."""
    return {"color": colour, "linestyle": ":", "linewidth": 1.3}


# --- Marks of answers ----------------------------------------------------------------------------


def bracket(axes: Axes, lower: float, upper: float, height: float, **options: Any) -> None:
    """Draw a range of N with a bar at each end, or an arrow where it leaves the frame."""
    # An interval beyond the frame is not drawn, nor is one that is not known (NaN).
    right = axes.get_xlim()[1]
    if not lower <= right:
        return
    axes.plot([lower, min(upper, right)], [height] * 2, **{"linewidth": 1.5} | options)
    tip = "|" if upper <= right else ">"
    for n, marker, size in ((lower, "|", 7), (min(upper, right), tip, 7 if tip == "|" else 5)):
        bar = {"marker": marker, "markersize": size, "markeredgewidth": 1.5, "clip_on": False}
        axes.plot([n], [height], **options | {"gid": None} | bar)


def draw_target(axes: Axes, target: float) -> tuple[float, str, str]:
    """Draw the line of a target; return its label for `beside`."""
    axes.axhline(target, color=DARK, linewidth=0.9, gid="target", zorder=2.1)
    return target, f"target\n{style.digits(target, 4)}", DARK


def draw_answer(
    axes: Axes,
    plan: Numbers,
    marks: Iterable[tuple[str, int, Options]],
    colour: str,
    tag: str,
    shift: float | None = 0.0,
) -> None:
    """Mark numbers of samples on the target's line, and their interval as a bracket.

    `marks` are names of ids, N, and options of the marks. The bracket is drawn `shift` points above
    the line, so that those of several models do not overlap; none if `shift` is None.
    """
    shifted = axes.transData + ScaledTranslation(0, (shift or 0) / 72, axes.figure.dpi_scale_trans)
    placing: Options = {"transform": shifted, "color": colour, "zorder": 3}
    if shift is not None and math.isfinite(plan.lower):
        bracket(axes, plan.lower, plan.upper, plan.target, gid=f"range{tag}", **placing)
    for name, n, options in marks:
        axes.plot([n], [plan.target], gid=f"{name}{tag}", **placing | options)


def draw_crossover(axes: Axes, crossover: Crossover, height: float) -> None:
    """Draw a cross where two curves cross, and the interval of that N."""
    if crossover.n > axes.get_xlim()[1]:
        return
    if not math.isnan(crossover.lower):
        options = {"gid": "crossover-range", "zorder": 3.4, **_CROSSING}
        bracket(axes, crossover.lower, crossover.upper, height, **options)
    axes.plot([crossover.n], [height], gid="crossover", zorder=3.5, **_CROSSING, **_CROSS)


def crossover_entry() -> Entry:
    """Legend entry of a crossover."""
    return line(**_CROSSING, **_CROSS), "crossover, 90% interval"


def beside(axes: Axes, labels: Iterable[tuple[float, str, str]], size: float = FINE) -> None:
    """Write labels at the right edge, at the heights of their values, moved apart if they touch.

    `labels` are values, texts and colours.
    """
    to_axes = axes.transData + axes.transAxes.inverted()
    edge, line = axes.get_xlim()[0], 1.25 * size / 72 / inches(axes)[1]
    ordered = sorted((float(to_axes.transform((edge, y))[1]), w, c) for y, w, c in labels)
    halves = [line * (text.count("\n") + 1) / 2 for _, text, _ in ordered]
    heights = [height for height, *_ in ordered]
    # Push labels up from the lowest one, then down from the top of the frame.
    for k in range(1, len(ordered)):
        heights[k] = max(heights[k], heights[k - 1] + halves[k - 1] + halves[k])
    top = 1 + line
    for k in reversed(range(len(ordered))):
        heights[k] = min(heights[k], top - halves[k])
        top = heights[k] - halves[k]
    placing: Options = {"transform": axes.transAxes, "va": "center", "fontsize": size}
    for height, (_, text, colour) in zip(heights, ordered, strict=True):
        axes.text(1.018, height, text, color=colour, **placing)
