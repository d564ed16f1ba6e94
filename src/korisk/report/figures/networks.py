"""Networks as boxes and arrows, and what each layer adds to the bound."""

import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch

from korisk import theory
from korisk.report.figures import panels, style
from korisk.report.figures.panels import Array, Entry
from korisk.report.figures.style import DARK, LOOKS, Options
from korisk.studies.networks import TitledNetwork
from korisk.theory import Layer, Learned, Network, NormBracket
from korisk.theory.layer import INPUT

BOUND: Options = {"markersize": 3.4, "markeredgewidth": 0.8, "linewidth": 1.0}
BOUND |= {"markerfacecolor": "white"}
FORMS: Mapping[theory.BoundForm, tuple[str, Options]] = {  # words, colours and marks
    "paper": ("paper", panels.paper_style(LOOKS[1].colour) | {"marker": "s"}),
    "minkowski": ("Minkowski", panels.paper_style(LOOKS[0].colour) | {"marker": "^"}),
    "composed": ("composed", panels.paper_style(DARK) | {"marker": "o"}),
}


# In inches: boxes, from one to the next, left of the first, tracks of wires, the title.
_WIDE, _HIGH, _BETWEEN, _MARGIN, _TRACK, _ABOVE = 0.92, 0.54, 0.18, 0.78, 0.075, 0.22
_ACROSS = 5  # boxes in a row

_MOST_BARS = 20  # layers whose parts of a bound are drawn
_NAMED = 8  # layers beyond which those that add nothing have no place in the figure
_SHIFT = {"paper": -0.26, "minkowski": 0.0, "composed": 0.26}  # beside a layer's place


# --- Boxes and arrows ----------------------------------------------------------------------------


def lipschitz(bracket: NormBracket) -> str:
    """A bracket in a few letters, its ends rounded outwards to three digits."""
    lower = float(Context(3, ROUND_FLOOR).create_decimal(str(float(bracket.lower))))
    upper = float(Context(3, ROUND_CEILING).create_decimal(str(float(bracket.upper))))
    if math.isinf(upper):
        return f"{style.ELL} ≥ {style.digits(lower, 4)}" if lower > 0 else f"{style.ELL} not known"
    if bracket.is_point:
        return f"{style.ELL} = {style.digits(bracket.upper, 4)}"
    if lower == 0:
        return f"{style.ELL} ≤ {style.digits(upper, 4)}"
    return f"{style.ELL} in [{style.digits(lower, 4)}, {style.digits(upper, 4)}]"


def architecture_figure(
    networks: Sequence[TitledNetwork], *, narrow: bool = False, ax: Axes | None = None
) -> Figure:
    """The boxes of each network under its title.

    Boxes stand in rows, of two if `narrow`. In axes of others they are as large as in print, or as
    large as fits.
    """
    across, up = (0.0, 0.0) if ax is None else panels.inches(ax)
    narrow = narrow or 0 < across < 0.8 * style.PAGE
    width = style.COLUMN if narrow else style.PAGE
    plans = [_Wiring(made.network, 2 if narrow else _ACROSS) for made in networks]
    heads = [style.wrapped(made.title, width - 0.16, style.SMALL, bold=True) for made in networks]
    heads = [[*head[:1], " ".join(head[1:])][: len(head)] for head in heads]
    above = 1.3 * style.SMALL / 72  # for a second line
    words = "grey: known operators; green: learned layers; p: trainable parameters; "
    words += f"{style.ELL}: Lipschitz constant of the true layer"
    notes = style.wrapped(words, width - 0.16)
    tall = 0.1 + 0.14 * len(notes) + above * sum(len(head) - 1 for head in heads)
    tall += sum(_ABOVE + plan.height for plan in plans)
    with style.settings(fine=True):
        # In inches.
        axes = ax or Figure(figsize=(width, tall), dpi=style.DPI).add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, max(width, across)), ylim=(min(0, tall - up), tall))
        axes.set_axis_off()
        top = tall - 0.04
        for made, plan, head in zip(networks, plans, heads, strict=True):
            bold: Options = {"fontsize": style.SMALL, "fontweight": "bold", "color": style.DARK}
            for line, text in enumerate(head):
                text = style.fitted(text, width - 0.16, style.SMALL, bold=True)
                axes.text(0.08, top - 0.02 - above * line, text, va="top", **bold)
            top -= above * (len(head) - 1) + _ABOVE
            _draw_graph(axes, top, made, plan)
            top -= plan.height
        for line, text in enumerate(reversed(notes)):
            axes.text(0.08, 0.06 + 0.14 * line, text, color=style.GREY, fontsize=style.FINE)
        return panels.figure_of(axes)


def _draw_ends(
    axes: Axes, first: tuple[float, float], last: tuple[float, float], shapes: tuple[str, str]
) -> None:
    """Input and output, left of the first box and right of the last one."""
    _arrow(axes, last, (last[0] + 0.24, last[1]))
    places = ((first[0] - 0.26, first[1], "x", "right"), (last[0] + 0.27, last[1], "y", "left"))
    for (x, y, symbol, side), shape in zip(places, shapes, strict=True):
        axes.text(x, y, symbol, ha=side, va="center", fontsize=style.SMALL, fontstyle="italic")
        room = min(0.5, axes.get_xlim()[1] - x - 0.04)
        lines = style.wrapped(shape, room) if side == "left" else [style.fitted(shape, 0.5)]
        axes.text(x, y - 0.12, "\n".join(lines[:3]), ha=side, va="top")


def _box(axes: Axes, layer: Layer, x: float, y: float, wide: float, tall: float) -> None:
    box: Options = {"facecolor": "#ececec", "edgecolor": "#777777", "linewidth": 0.8}
    if isinstance(layer, Learned):
        box = {"facecolor": style.pale(style.LEARNED, style.PALE_BOX), "edgecolor": style.LEARNED}
    box |= {"boxstyle": "round,pad=0,rounding_size=0.05", "gid": layer.kind}
    axes.add_patch(FancyBboxPatch((x, y - tall / 2), wide, tall, **box))


def _count(layer: Layer) -> str:
    p = layer.parameters or 0 if isinstance(layer, Learned) else None
    return "" if p is None else f"p = {style.digits(p, 6 if p < 1e6 else 3)}"


def _text_colour(layer: Layer) -> str:
    return style.LEARNED_TEXT if isinstance(layer, Learned) else style.GREY


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    shape: Options = {"arrowstyle": "-|>", "mutation_scale": 6, "shrinkA": 0, "shrinkB": 0}
    axes.add_patch(FancyArrowPatch(start, end, linewidth=0.9, color=style.DARK, **shape))


class _Wiring:
    """Where the boxes of a graph stand, and the wires between boxes that are not neighbours.

    Boxes stand in rows in the order of the layers. A wire leaves a box at its top for another box
    of its row, else at its bottom; it runs in the gutters between rows and, past whole rows, in
    lanes on the left, and ends at the top of a box: it crosses wires, never boxes. Wires of one
    source are one wire with branches. Lengths are inches, y downwards from the top.
    """

    def __init__(self, net: Network, across: int) -> None:
        self.across = across
        numbers = {INPUT: -1} | {name: at for at, name in enumerate(net.names)}
        self.rows = -(-len(net) // across)
        pairs = [(numbers[u], v) for v, name in enumerate(net.names) for u in net.inputs_of(name)]
        self.beside = [v for u, v in pairs if u == v - 1 and v % across]
        self.wired = [(u, v) for u, v in pairs if not (u == v - 1 and (v % across or v == 0))]
        # Wires meet the top of a box in its left half, from left to right as they come.
        tops: dict[int, list[tuple[float, int]]] = {}
        for u, v in self.wired:
            far = self.row(v) > self.row(u) + 1  # comes from a lane, on the left
            tops.setdefault(v, []).append((0.0 if far else self._out(u, v), u))
        self._tops = {
            v: {
                u: self.left(v) + 0.6 * _WIDE * (at + 1) / (len(ends) + 1)
                for at, (_, u) in enumerate(sorted(ends))
            }
            for v, ends in tops.items()
        }
        gutters: dict[int, dict[int, list[float]]] = {}  # by gutter and source: the x of its wire
        lanes: dict[int, list[float]] = {}  # by source: its gutters
        for u, v in self.wired:
            above, below = self.row(v), self.row(u) + (not self._same_row(u, v))
            ends = gutters.setdefault(above, {}).setdefault(u, [])
            ends += [self._tops[v][u], self._out(u, v) if above == below else 0.0]
            if above != below:
                gutters.setdefault(below, {}).setdefault(u, []).extend([self._out(u, v), 0.0])
                lanes.setdefault(u, []).extend([above, below])
        self._tracks = {gutter: _tracks(wires) for gutter, wires in gutters.items()}
        self._lanes = _tracks(lanes)
        self._gap = min(0.11, (_MARGIN - 0.06) / (1 + max(self._lanes.values(), default=0)))
        self._ceilings, y = [], 0.0
        for gutter in range(self.rows):
            self._ceilings.append(y)
            used = 1 + max(self._tracks.get(gutter, {}).values(), default=-1)
            y += 0.14 + _TRACK * used + _HIGH
        self.height = y + 0.16

    def row(self, layer: int) -> int:
        """The row of a layer's box; the input stands before the first one."""
        return max(layer, 0) // self.across

    def left(self, layer: int) -> float:
        """The left end of a layer's box."""
        return _MARGIN + (layer % self.across) * (_WIDE + _BETWEEN)

    def middle(self, row: int) -> float:
        """How far the middle of a row's boxes lies below the top."""
        used = 1 + max(self._tracks.get(row, {}).values(), default=-1)
        return self._ceilings[row] + 0.14 + _TRACK * used + _HIGH / 2

    def path(self, u: int, v: int) -> list[tuple[float, float]]:
        """The corners of a wire from layer u, -1 for the input, to layer v."""
        above, below = self.row(v), self.row(u) + (not self._same_row(u, v))
        start, end = self._out(u, v), self._tops[v][u]
        half = 0.0 if u < 0 else _HIGH / 2 if below > self.row(u) else -_HIGH / 2
        corners = [(start, self.middle(self.row(u)) + half), (start, self._track(below, u))]
        if above != below:
            lane = _MARGIN - 0.12 - self._gap * self._lanes[u]
            corners += [(lane, self._track(below, u)), (lane, self._track(above, u))]
        return [*corners, (end, self._track(above, u)), (end, self.middle(above) - _HIGH / 2)]

    def _track(self, gutter: int, source: int) -> float:
        return self._ceilings[gutter] + 0.08 + _TRACK * self._tracks[gutter][source]

    def _same_row(self, u: int, v: int) -> bool:
        return self.row(u) == self.row(v)

    def _out(self, u: int, v: int) -> float:
        """Where a wire to v leaves its source: in the right half, where no wire ends."""
        if u < 0:
            return _MARGIN - 0.12
        return self.left(u) + (0.7 if self._same_row(u, v) else 0.85) * _WIDE


def _tracks(wires: Mapping[int, Sequence[float]]) -> dict[int, int]:
    """A track for each source, from 0, such that no two on one track overlap: the longest first."""
    found: dict[int, int] = {}
    for source in sorted(wires, key=lambda each: min(wires[each]) - max(wires[each])):
        low, high = min(wires[source]), max(wires[source])
        taken = {
            track
            for other, track in found.items()
            if min(wires[other]) <= high + 0.04 and max(wires[other]) >= low - 0.04
        }
        found[source] = next(track for track in range(len(wires)) if track not in taken)
    return found


def _draw_graph(axes: Axes, top: float, made: TitledNetwork, plan: _Wiring) -> None:
    """The boxes of a network in rows, arrows between neighbours and wires between the others."""
    net = made.network
    places = [(plan.left(at), top - plan.middle(plan.row(at))) for at in range(len(net))]
    sources: dict[int, list[tuple[tuple[float, float], tuple[float, float]]]] = {}
    for u, v in plan.wired:
        path = [(x, top - y) for x, y in plan.path(u, v)]
        sources.setdefault(u, []).extend(pairwise(path))
        _arrow(axes, *path[-2:])
    line: Options = {"color": style.DARK, "linewidth": 0.7, "solid_capstyle": "round"}
    for u, pieces in sources.items():
        for start, end in pieces:
            axes.plot(*zip(start, end, strict=True), gid=f"wire {u}", **line)
        for x, y in {start for start, _ in pieces}:
            ways = {
                (np.sign(round(far_x - x, 6)), np.sign(round(far_y - y, 6)))
                for (x0, y0), (x1, y1) in pieces
                if min(x0, x1) <= x <= max(x0, x1) and min(y0, y1) <= y <= max(y0, y1)
                for far_x, far_y in ((x0, y0), (x1, y1))
            }
            if len(ways - {(0, 0)}) > 2:  # branches part here
                axes.plot([x], [y], ".", color=style.DARK, markersize=3.5)
    for at in plan.beside:
        (x, y), end = places[at - 1], places[at]
        _arrow(axes, (x + _WIDE, y), end)
    x, y = places[0]
    _arrow(axes, (x - 0.24, y), (x, y))
    for layer, (x, y) in zip(net, places, strict=True):
        _box(axes, layer, x, y, _WIDE, _HIGH)
        fits = style.inches_of(style.plain(layer.name), style.SMALL) <= _WIDE - 0.08
        size = style.SMALL if fits else style.FINE
        lines = (
            (0.16, style.fitted(layer.name, _WIDE - 0.08, size), size, style.DARK),
            (0.0, _count(layer) or "known", style.FINE, _text_colour(layer)),
            (-0.15, lipschitz(layer.bracket), style.FINE, style.GREY),
        )
        for lift, words, size, colour in lines:
            centred: Options = {"ha": "center", "va": "center", "fontsize": size, "color": colour}
            axes.text(x + _WIDE / 2, y + lift, words, **centred)
    x, y = places[-1]
    _draw_ends(axes, places[0], (x + _WIDE, y), made.shapes)


# --- Layers and their parts of the bound ---------------------------------------------------------


def layers_figure(networks: Sequence[TitledNetwork], *, narrow: bool = False) -> Figure | None:
    """A row for each network: A_l of every layer on the left, contributions at N on the right.

    If `narrow`, the one stands above the other. N is the smallest of the networks' largest.
    Networks with a constant that is not known are left out; None where no other is there, or none
    of them was trained.
    """
    known = [made for made in networks if not np.isinf(made.network.amplification()).any()]
    n = min((made.last for made in known if made.last is not None), default=None)
    if n is None:
        return None
    unit = "squared error with C = 0 and kappa = 1 where a calibration gives no constants"
    if all(made.calibrated for made in known):
        unit = "mse: C and kappa are such that the composed bound is the calibrated line"
    note = f"Bounds and their parts are in {unit}. Names: learned layers in green, known in grey."
    entries: list[Entry] = [(panels.line(**_mark(form)), FORMS[form][0]) for form in theory.BOUNDS]
    margins = (0.62, 0.14, 0.42, 0.46 if narrow else 0.40)
    with style.settings(fine=True):
        figure, frames = panels.sheet(
            2 * len(known), entries, [note], margins=margins, height=1.75, across=2, narrow=narrow
        )
        for row, made in enumerate(known):
            left, right = frames[2 * row : 2 * row + 2]
            net = made.network
            parts = {form: theory.barron_bound(net, n, bound=form).contributions for form in FORMS}
            totals = {FORMS[form][0]: style.digits(float(v.sum()), 2) for form, v in parts.items()}
            if narrow:
                name, _, scan = made.title.partition(": ")
                panels.head(left, name, scan)
            else:
                panels.head(left, made.title, room=style.PAGE / 2 - 0.1, lift=10)
            adding = np.flatnonzero(parts["composed"])
            shown = adding if len(net) > _NAMED and adding.size else np.arange(len(net))
            grown = {form: net.amplification(form) for form in theory.BOUNDS}
            for axes, series, gid in ((left, grown, "A"), (right, parts, "contribution")):
                kept = {form: values[shown] for form, values in series.items()}
                _draw_layers(axes, [net.layers[at] for at in shown], kept, gid)
                if len(shown) < len(net):
                    axes.set_xlabel("layer that adds to the bound, input side first")
            words = f"N = {n:,}. Bound: {', '.join(map(' '.join, totals.items()))}"
            panels.above(right, words, 1, (0, 4), xycoords="axes fraction", ha="right")
        for column in (frames[::2], frames[1::2]):
            panels.share_heights(column, least=0)
        return figure


def bound_figure(
    bound: theory.Bound, floors: theory.Bound | None = None, *, ax: Axes | None = None
) -> Figure:
    """What each layer adds to a bound, as bars from zero, and what of it no data removes."""
    parts, names = bound.contributions, bound.layers
    shown = np.flatnonzero(parts)[:_MOST_BARS] if len(names) > _NAMED else np.arange(len(names))
    entries: list[Entry] = []
    if floors is not None:
        entries = [(Patch(facecolor=style.LEARNED), "added by the layer, at N")]
        entries.append((Patch(facecolor=style.DARK), "of it a floor that data cannot lower"))
    with style.settings():
        figure, (axes,) = panels.sheet(
            1,
            entries,
            margins=(1.2, 0.7, 0.45, 0.1),
            height=0.55 + 0.26 * max(len(shown), 2),
            width=5.2,
            size=style.SMALL,
            ax=ax,
        )
        places = np.arange(len(shown))
        finite = np.where(np.isfinite(parts[shown]), parts[shown], 0.0)
        axes.barh(places, finite, height=0.6, color=style.LEARNED, gid="parts")
        if floors is not None:
            part = np.where(np.isfinite(parts[shown]), floors.contributions[shown], 0.0)
            axes.barh(places, part, height=0.25, color=style.DARK, gid="floors")
        axes.set_yticks(places, [style.fitted(names[at], 1.0, style.SMALL) for at in shown])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.02 * float(finite.max(initial=0.0)) or 1.0)
        axes.set_xlabel("part of the bound of the squared error")
        for place, at in enumerate(shown):
            words = f" {bound.shares[at]:.0%}" if np.isfinite(parts[at]) else " not known"
            beside: Options = {"textcoords": "offset points", "annotation_clip": False}
            axes.annotate(words, (finite[place], place), (1, 0), va="center", **beside)
        axes.locator_params(axis="x", nbins=5)
        panels.gridded(axes)
        axes.grid(visible=False, axis="y")
        return figure


def _draw_layers(
    axes: Axes, layers: Sequence[Layer], series: Mapping[theory.BoundForm, Array], gid: str
) -> None:
    """Marks over the layers' names in their colours; 0 where a layer adds nothing."""
    count = len(layers)
    shown = {form: np.where(v > 0, v, np.nan) for form, v in series.items()}
    label = "amplification" if gid == "A" else "part of the bound"
    height = panels.limits([f * v for v in shown.values() for f in (0.6, 1.6)])
    panels.frame(axes, (1, 2), height, labels=("layer, input side first", label))
    axes.set(xscale="linear", xlim=(-0.6, count - 0.4))
    axes.grid(visible=False, axis="x")
    room = panels.inches(axes)[0] / (count + 0.2)
    # Where names need it, every other one stands on a second line.
    lines = 1 if all(style.inches_of(style.plain(each.name)) <= room for each in layers) else 2
    names = [
        "\n" * (lines - 1) * (at % 2)
        + style.fitted(each.name, room if lines == 1 else min(2 * room - 0.04, 1.2 * room + 0.24))
        for at, each in enumerate(layers)
    ]
    axes.set_xticks(range(count), names)
    for place, (text, layer) in enumerate(zip(axes.get_xticklabels(), layers, strict=True)):
        text.set_color(style.LEARNED_TEXT if isinstance(layer, Learned) else "#555555")
        if series["composed"][place] == 0:
            options: Options = {"ha": "center", "color": style.GREY, "fontsize": style.FINE}
            axes.text(place, 0.04, "0", transform=axes.get_xaxis_transform(), **options)
    for form, values in shown.items():
        places = np.arange(count) + _SHIFT[form]
        axes.plot(places, values, gid=f"{gid}-{form}", zorder=3, **_mark(form))


def _mark(form: theory.BoundForm) -> Options:
    return BOUND | FORMS[form][1] | {"linestyle": "none", "markersize": 4.2}
