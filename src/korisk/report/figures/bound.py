"""The bound of a network over N: what data removes, the floor that stays, and the target."""

import math
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from korisk.errors import KoriskError
from korisk.report.figures import panels, style
from korisk.report.figures.panels import Array, Entry
from korisk.report.figures.style import DARK, LARGE, LOOKS, SMALL, Options
from korisk.texts import number, whole
from korisk.theory.bound import barron_bound
from korisk.theory.budget import samples_needed
from korisk.theory.overview import Overview

WIDTH, HEIGHT = 6.3, 3.85  # inches, the height without the legend
NOTE = "dotted: bounds, which hold if the constants do; nothing here was measured"
PRESENT = "Lipschitz constants of the present weights, not of the true layers"
_STEPS = 160
_FIRST_N = 2.0  # the smallest for which the bound is stated
_BEYOND = 30.0  # factor of N drawn beyond the last mark
_MARGIN = 1.12  # factor before the first N
_LEVEL = 1.1  # of the floor, to which the bound is drawn where it has one
_LAST_N = 1e300
_MOST_DECADES = 8  # drawn for the sake of the floor alone


def overview_figure(overview: Overview) -> Figure:
    """Draw the bound over N with its floor, the target, and the N from which on it holds.

    Where they are known, the bound with the other dimension, p or effective, and that of the
    network with a layer replaced stand beside it.

    Parameters
    ----------
    overview : Overview
        What `korisk.theory.overview.overview` returns.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, 6.3 inches wide.

    Examples
    --------
    >>> import korisk as kr
    >>> from korisk.report.figures.bound import overview_figure
    >>> from korisk.theory.overview import overview
    >>> net = kr.Network([kr.Learned("W", parameters=100), kr.Known("K", lipschitz=2)])
    >>> overview_figure(overview(net, target=0.5)).axes[0].get_xlabel()
    'training samples N'
    """
    drawn = _variants(overview)
    sizes = _sizes(overview, drawn)
    bounds = [_totals(each, sizes) for _, each in drawn]
    entries: list[Entry] = []
    for (name, each), look in zip(drawn, LOOKS, strict=False):
        words = f"{name}: {number(each.chosen.total)} at N = {_whole(each.chosen.n)}"
        entries.append((panels.line(**panels.paper_style(look.colour)), words))
    target, needed = overview.target, overview.needed
    said = f"floor {number(overview.chosen.floor)}"
    if target is not None:
        reached = "unreachable" if needed is None else f"N ≥ {whole(needed)}"
        said = f"target {number(target)}: {reached}, {said}"
    floors = [each.chosen.floor for _, each in drawn]
    marks = [total for each in bounds for total in each[np.isfinite(each)]]
    # A floor far below everything else would press the curves into a corner.
    least = min([*marks, target or math.inf])
    marks += [floor for floor in floors if floor > 0.1 * least]
    with style.settings():
        figure, (axes,) = panels.sheet(
            1,
            entries,
            [NOTE, *([PRESENT] if overview.of_present_weights else [])],
            margins=(0.85, 0.9, 0.45, 0.55),
            height=HEIGHT,
            width=WIDTH,
            size=SMALL,
        )
        panels.frame(
            axes,
            (float(sizes[0]) / _MARGIN, float(sizes[-1])),
            panels.limits([np.array([*marks, target or math.nan])]),
            labels=(panels.SAMPLES, "bound of the squared error"),
        )
        panels.head(axes, overview.net.name or "network", said, size=LARGE)
        beside: list[tuple[float, str, str]] = []
        for (name, each), total, look in zip(drawn, bounds, LOOKS, strict=False):
            dotted = panels.paper_style(look.colour)
            axes.plot(sizes, total, gid=f"bound-{name}", zorder=2.3, **dotted)
            if overview.chosen.n != overview.needed:  # an N of its own was asked for
                at = [each.chosen.n], [each.chosen.total]
                axes.plot(*at, gid=f"at-{name}", zorder=2.8, **look.mark("o", 4.5))
            floor = each.chosen.floor
            if axes.get_ylim()[0] < floor and floor not in [value for value, *_ in beside]:
                thin: Options = {"color": look.colour, "linewidth": 0.8, "zorder": 1.9}
                axes.axhline(floor, gid=f"floor-{name}", **thin)
                beside.append((floor, f"floor\n{style.digits(floor)}", look.text_colour))
            if each.needed is not None and each.needed <= sizes[-1]:
                # Where N = 2 is enough already, the bound lies below the target.
                height = _totals(each, np.array([float(each.needed)]))
                diamond = look.mark("D", 6.0) | {"markerfacecolor": look.colour, "zorder": 3.2}
                axes.plot([float(each.needed)], height, gid=f"answer-{name}", **diamond)
        if target is not None:
            axes.axhline(target, color=DARK, linewidth=0.9, gid="target", zorder=2.1)
            beside.append((target, f"target\n{style.digits(target, 4)}", DARK))
        panels.beside(axes, beside, SMALL)
        return figure


def _variants(overview: Overview) -> list[tuple[str, Overview]]:
    """The asked bound first; then with the other dimension, and with a layer replaced."""
    form = f"{overview.form} bound"
    names = (f"{form} with p", f"{form}, effective dimensions")
    drawn = [(names[overview.effective] if overview.both else form, overview)]
    if overview.other is not None:
        effective = not overview.effective
        chosen = barron_bound(
            overview.net, overview.chosen.n, bound=overview.form, effective=effective
        )
        drawn.append((names[effective], replace(overview, effective=effective, chosen=chosen)))
    if overview.after is not None:
        drawn.append((f"{form} with {overview.replaced} known", overview.after))
    return drawn


def _sizes(overview: Overview, drawn: list[tuple[str, Overview]]) -> Array:
    """(M,) the N of the figure: around all marks, and up to where the bound is near its floor."""
    marks = [float(overview.chosen.n)]
    marks += [float(min(each.needed, _LAST_N)) for _, each in drawn if each.needed is not None]
    last = _BEYOND * max(marks)
    if overview.chosen.floor > 0:
        level = samples_needed(
            overview.net,
            _LEVEL * overview.chosen.floor,
            bound=overview.form,
            effective=overview.effective,
        )
        last = max(last, float(min(level, last * 10.0**_MOST_DECADES)))
    first = max(_FIRST_N, min(marks) / _BEYOND)
    return np.geomspace(first, min(last, _LAST_N), _STEPS)


def _totals(overview: Overview, sizes: Array) -> Array:
    """(M,) the bound at each N; not a number where it exceeds a double."""
    totals = np.full(len(sizes), math.nan)
    for place, n in enumerate(sizes.tolist()):
        try:
            found = barron_bound(overview.net, n, bound=overview.form, effective=overview.effective)
        except KoriskError:
            continue
        totals[place] = found.total
    return totals


def _whole(n: float) -> str:
    return whole(int(n)) if float(n).is_integer() else number(n)
