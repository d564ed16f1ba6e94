"""Figure of the bound of a network over N: the estimation part, the floor, and the target."""

import math

import numpy as np
from matplotlib.figure import Figure

from korisk.errors import KoriskError
from korisk.report.figures import panels, style
from korisk.report.figures.panels import Array, Entry
from korisk.report.figures.style import LARGE, LOOKS, SMALL, Options
from korisk.texts import number, whole
from korisk.theory.bound import BarronBound, barron_bound
from korisk.theory.budget import samples_needed
from korisk.theory.network import Network

NOTE = "dotted: a bound, which holds if the constants do; nothing here was measured"
_STEPS = 160
_BEYOND = 30.0  # factor of N drawn beyond the marks
_LEVEL = 1.1  # the bound is drawn down to this multiple of its floor
_LAST_N = 1e300  # larger N would overflow on the axis
_MOST_DECADES = 8  # drawn only to show that the bound approaches its floor


def bound_figure(
    net: Network, bound: BarronBound, target: float | None, needed: int | None
) -> Figure:
    """Draw the bound over N with its floor, the target, and the N that meets it."""
    form, look, floor = bound.whole.form, LOOKS[0], bound.floor
    sizes = _sizes(net, bound, needed)
    totals = np.array([_total(net, n, bound) for n in sizes])
    n_text = whole(int(bound.n)) if float(bound.n).is_integer() else number(bound.n)
    label = f"{form} bound: {number(bound.total)} at N = {n_text}"
    entries: list[Entry] = [(panels.line(**panels.paper_style(look.colour)), label)]
    subtitle = f"floor {number(floor)}"
    if target is not None:
        needed_text = "unreachable" if needed is None else f"N ≥ {whole(needed)}"
        subtitle = f"target {number(target)}: {needed_text}, {subtitle}"
    heights = np.array([*totals[np.isfinite(totals)], target or math.nan])
    # A floor far below everything else would press the curve into a corner.
    if floor > 0.1 * np.nanmin(heights):
        heights = np.append(heights, floor)
    with style.settings():
        size: Options = {"height": 3.85, "width": 6.3, "size": SMALL}
        figure, (axes,) = panels.sheet(1, entries, [NOTE], margins=(0.85, 0.9, 0.45, 0.55), **size)
        labels = (panels.SAMPLES, "bound of the squared error")
        across = float(sizes[0]) / 1.12, float(sizes[-1])
        panels.frame(axes, across, panels.limits([heights]), labels=labels)
        panels.head(axes, net.name or "network", subtitle, size=LARGE)
        axes.plot(sizes, totals, gid="bound", zorder=2.3, **panels.paper_style(look.colour))
        edge_labels: list[tuple[float, str, str]] = []
        if axes.get_ylim()[0] < floor:
            axes.axhline(floor, gid="floor", color=look.colour, linewidth=0.8, zorder=1.9)
            edge_labels.append((floor, f"floor\n{style.digits(floor)}", look.text_colour))
        if needed != bound.n:  # an N that was asked for has its own mark
            mark = look.mark("o", 4.5)
            axes.plot([bound.n], [bound.total], gid="at", zorder=2.8, **mark)
        if needed is not None and needed <= sizes[-1]:
            # At the bound, not at the target: where N = 2 is enough, the bound lies below it.
            diamond = look.mark("D", 6.0) | {"markerfacecolor": look.colour, "zorder": 3.2}
            axes.plot([float(needed)], [_total(net, needed, bound)], gid="answer", **diamond)
        if target is not None:
            edge_labels.append(panels.draw_target(axes, target))
        panels.beside(axes, edge_labels, SMALL)
        return figure


def _sizes(net: Network, bound: BarronBound, needed: int | None) -> Array:
    """(M,) sizes of the figure: around all marks, and to where the bound is near its floor."""
    marked = [float(bound.n), float(min(needed or bound.n, _LAST_N))]
    largest = _BEYOND * max(marked)
    if bound.floor > 0:
        near_floor = samples_needed(net, _LEVEL * bound.floor, bound=bound.whole.form)
        largest = max(largest, float(min(near_floor, largest * 10.0**_MOST_DECADES)))
    return np.geomspace(max(2.0, min(marked) / _BEYOND), min(largest, _LAST_N), _STEPS)


def _total(net: Network, n: float, bound: BarronBound) -> float:
    """The bound at N; NaN where it exceeds a double."""
    try:
        return barron_bound(net, n, bound=bound.whole.form).total
    except KoriskError:
        return math.nan
