"""Figure of the bound of a network over N: the estimation part, the floor, and the target."""

import math
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from korisk.errors import KoriskError
from korisk.report.figures import panels, style
from korisk.report.figures.panels import Array, Entry
from korisk.report.figures.style import LARGE, LOOKS, SMALL, Options
from korisk.texts import number, whole
from korisk.theory.bound import barron_bound
from korisk.theory.budget import samples_needed
from korisk.theory.overview import Overview

WIDTH, HEIGHT = 6.3, 3.85  # inches, the height without the legend
NOTE = "dotted: bounds, which hold if the constants do; nothing here was measured"
PRESENT = "Lipschitz constants of the present weights, not of the true layers"
_STEPS = 160
_FIRST_N = 2.0  # smallest N for which the bound is stated
_BEYOND = 30.0  # factor of N drawn beyond the last mark
_MARGIN = 1.12  # factor before the first N
_LEVEL = 1.1  # the bound is drawn down to this multiple of its floor
_LAST_N = 1e300  # larger N would overflow on the axis
_MOST_DECADES = 8  # drawn only to show that the bound approaches its floor


def overview_figure(overview: Overview) -> Figure:
    """Draw the bound over N with its floor, the target, and the N that meets it.

    If known, the bound with the other dimension (p or effective) and the bound of the network with
    a layer replaced are drawn as well.
    """
    variants = _variants(overview)
    sizes = _sizes(overview, variants)
    bounds = [_totals(variant, sizes) for _, variant in variants]
    entries: list[Entry] = []
    for (name, variant), look in zip(variants, LOOKS, strict=False):
        n = variant.chosen.n
        n_text = whole(int(n)) if float(n).is_integer() else number(n)
        label = f"{name}: {number(variant.chosen.total)} at N = {n_text}"
        entries.append((panels.line(**panels.paper_style(look.colour)), label))
    target, needed = overview.target, overview.needed
    subtitle = f"floor {number(overview.chosen.floor)}"
    if target is not None:
        needed_text = "unreachable" if needed is None else f"N ≥ {whole(needed)}"
        subtitle = f"target {number(target)}: {needed_text}, {subtitle}"
    floors = [variant.chosen.floor for _, variant in variants]
    heights = [total for totals in bounds for total in totals[np.isfinite(totals)]]
    # A floor far below everything else would press the curves into a corner.
    smallest = min([*heights, target or math.inf])
    heights += [floor for floor in floors if floor > 0.1 * smallest]
    with style.settings():
        notes = [NOTE, *([PRESENT] if overview.of_present_weights else [])]
        size: Options = {"height": HEIGHT, "width": WIDTH, "size": SMALL}
        figure, (axes,) = panels.sheet(1, entries, notes, margins=(0.85, 0.9, 0.45, 0.55), **size)
        panels.frame(
            axes,
            (float(sizes[0]) / _MARGIN, float(sizes[-1])),
            panels.limits([np.array([*heights, target or math.nan])]),
            labels=(panels.SAMPLES, "bound of the squared error"),
        )
        panels.head(axes, overview.net.name or "network", subtitle, size=LARGE)
        edge_labels: list[tuple[float, str, str]] = []
        for (name, variant), total, look in zip(variants, bounds, LOOKS, strict=False):
            dotted = panels.paper_style(look.colour)
            axes.plot(sizes, total, gid=f"bound-{name}", zorder=2.3, **dotted)
            # An N that was asked for has its own mark, the needed N has the diamond below.
            if overview.chosen.n != overview.needed:
                point = [variant.chosen.n], [variant.chosen.total]
                axes.plot(*point, gid=f"at-{name}", zorder=2.8, **look.mark("o", 4.5))
            floor = variant.chosen.floor
            # Variants may share a floor, which then has one line and one label.
            if axes.get_ylim()[0] < floor and floor not in [value for value, *_ in edge_labels]:
                hairline: Options = {"color": look.colour, "linewidth": 0.8, "zorder": 1.9}
                axes.axhline(floor, gid=f"floor-{name}", **hairline)
                edge_labels.append((floor, f"floor\n{style.digits(floor)}", look.text_colour))
            if variant.needed is not None and variant.needed <= sizes[-1]:
                # At the bound, not at the target: where N = 2 is enough, the bound lies below it.
                height = _totals(variant, np.array([float(variant.needed)]))
                diamond = look.mark("D", 6.0) | {"markerfacecolor": look.colour, "zorder": 3.2}
                axes.plot([float(variant.needed)], height, gid=f"answer-{name}", **diamond)
        if target is not None:
            edge_labels.append(panels.draw_target(axes, target))
        panels.beside(axes, edge_labels, SMALL)
        return figure


def _variants(overview: Overview) -> list[tuple[str, Overview]]:
    """Named bounds: as asked for, with the other dimension, and with a layer replaced."""
    form = f"{overview.form} bound"
    names = (f"{form} with p", f"{form}, effective dimensions")
    variants = [(names[overview.effective] if overview.both else form, overview)]
    if overview.other is not None:
        effective = not overview.effective
        chosen = barron_bound(
            overview.net, overview.chosen.n, bound=overview.form, effective=effective
        )
        variants.append((names[effective], replace(overview, effective=effective, chosen=chosen)))
    if overview.after is not None:
        variants.append((f"{form} with {overview.replaced} known", overview.after))
    return variants


def _sizes(overview: Overview, variants: list[tuple[str, Overview]]) -> Array:
    """(M,) sizes of the figure: around all marks, and to where the bound is near its floor."""
    needed = [variant.needed for _, variant in variants if variant.needed is not None]
    marked = [float(overview.chosen.n), *(float(min(n, _LAST_N)) for n in needed)]
    largest = _BEYOND * max(marked)
    if overview.chosen.floor > 0:
        target, form = _LEVEL * overview.chosen.floor, overview.form
        effective = overview.effective
        near_floor = samples_needed(overview.net, target, bound=form, effective=effective)
        largest = max(largest, float(min(near_floor, largest * 10.0**_MOST_DECADES)))
    smallest = max(_FIRST_N, min(marked) / _BEYOND)
    return np.geomspace(smallest, min(largest, _LAST_N), _STEPS)


def _totals(overview: Overview, sizes: Array) -> Array:
    """(M,) the bound at each N; NaN where it exceeds a double."""
    totals = np.full(len(sizes), math.nan)
    for index, n in enumerate(sizes.tolist()):
        try:
            bound = barron_bound(overview.net, n, bound=overview.form, effective=overview.effective)
        except KoriskError:  # the bound overflows at this N
            continue
        totals[index] = bound.total
    return totals
