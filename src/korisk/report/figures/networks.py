"""Figures of networks: boxes and arrows, and the contribution of each layer to the bound."""

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
# Names, colours and marks of the forms of the bound.
FORMS: Mapping[theory.BoundForm, tuple[str, Options]] = {
    "paper": ("paper", panels.paper_style(LOOKS[1].colour) | {"marker": "s"}),
    "minkowski": ("Minkowski", panels.paper_style(LOOKS[0].colour) | {"marker": "^"}),
    "composed": ("composed", panels.paper_style(DARK) | {"marker": "o"}),
}


# In inches: the boxes, the gap between two, the left margin, a track of wires, a title.
_BOX_WIDTH, _BOX_HEIGHT, _GAP, _MARGIN, _TRACK, _TITLE = 0.92, 0.54, 0.18, 0.78, 0.075, 0.22
_PER_ROW = 5  # boxes in a row

_MOST_BARS = 20  # layers whose contributions are drawn
_FEW_LAYERS = 8  # with more layers, those that add nothing are left out
_SHIFT = {"paper": -0.26, "minkowski": 0.0, "composed": 0.26}  # marks of a layer side by side


# --- Boxes and arrows ----------------------------------------------------------------------------


def lipschitz(bracket: NormBracket) -> str:
    """A bracket as short text, its ends rounded outwards to three digits.

    Rounding inwards would claim more than is known.
    """
    # Decimal rounding with a direction: floats round to nearest.
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
    """Draw the boxes of each network under its title.

    Boxes stand in rows, of two if `narrow`. In the user's axes they have the size of print, or a
    smaller one that fits.
    """
    wide, high = (0.0, 0.0) if ax is None else panels.inches(ax)
    narrow = narrow or 0 < wide < 0.8 * style.PAGE
    width = style.COLUMN if narrow else style.PAGE
    wirings = [_Wiring(entry.network, 2 if narrow else _PER_ROW) for entry in networks]
    # Titles have two lines at most: the second one is shortened when it is drawn.
    heads = [style.wrapped(entry.title, width - 0.16, style.SMALL, bold=True) for entry in networks]
    heads = [[*head[:1], " ".join(head[1:])][: len(head)] for head in heads]
    line_space = 1.3 * style.SMALL / 72  # for a second line
    legend = "grey: known operators; green: learned layers; p: trainable parameters; "
    legend += f"{style.ELL}: Lipschitz constant of the true layer"
    notes = style.wrapped(legend, width - 0.16)
    height = 0.1 + 0.14 * len(notes) + line_space * sum(len(head) - 1 for head in heads)
    height += sum(_TITLE + wiring.height for wiring in wirings)
    with style.settings(fine=True):
        # Coordinates are inches, so that boxes and type have the same size in every figure.
        axes = ax or Figure(figsize=(width, height), dpi=style.DPI).add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, max(width, wide)), ylim=(min(0, height - high), height))
        axes.set_axis_off()
        top = height - 0.04
        for entry, wiring, head in zip(networks, wirings, heads, strict=True):
            bold: Options = {"fontsize": style.SMALL, "fontweight": "bold", "color": style.DARK}
            for row, text in enumerate(head):
                text = style.fitted(text, width - 0.16, style.SMALL, bold=True)
                axes.text(0.08, top - 0.02 - line_space * row, text, va="top", **bold)
            top -= line_space * (len(head) - 1) + _TITLE
            _draw_graph(axes, top, entry, wiring)
            top -= wiring.height
        for row, text in enumerate(reversed(notes)):
            axes.text(0.08, 0.06 + 0.14 * row, text, color=style.GREY, fontsize=style.FINE)
        return panels.figure_of(axes)


def _draw_ends(
    axes: Axes, first: tuple[float, float], last: tuple[float, float], shapes: tuple[str, str]
) -> None:
    """Draw input and output, left of the first box and right of the last one."""
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


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    shape: Options = {"arrowstyle": "-|>", "mutation_scale": 6, "shrinkA": 0, "shrinkB": 0}
    axes.add_patch(FancyArrowPatch(start, end, linewidth=0.9, color=style.DARK, **shape))


class _Wiring:
    """Layout of a graph: positions of boxes, and wires between boxes that are not neighbours.

    Boxes stand in rows in the order of the layers. A wire to a box of the same row leaves its
    source at the top, other wires at the bottom. Wires run in the gutters between rows, past whole
    rows in lanes on the left, and end at the top of a box: they cross wires, never boxes. Wires of
    one source are drawn as one wire with branches. Lengths are inches, y points downwards.
    """

    def __init__(self, net: Network, across: int) -> None:
        self.across = across
        numbers = {INPUT: -1} | {name: index for index, name in enumerate(net.names)}
        self.rows = -(-len(net) // across)
        edges = [(numbers[u], v) for v, name in enumerate(net.names) for u in net.inputs_of(name)]
        self.beside = [v for u, v in edges if u == v - 1 and v % across]
        self.wired = [(u, v) for u, v in edges if not (u == v - 1 and (v % across or v == 0))]
        # Wires end in the left part of a box's top, ordered by where they come from, so that they
        # do not cross there.
        tops: dict[int, list[tuple[float, int]]] = {}
        for u, v in self.wired:
            from_lane = self.row(v) > self.row(u) + 1  # comes from a lane, on the left
            tops.setdefault(v, []).append((0.0 if from_lane else self._out(u, v), u))
        self._tops = {
            v: {
                u: self.left(v) + 0.6 * _BOX_WIDTH * (index + 1) / (len(ends) + 1)
                for index, (_, u) in enumerate(sorted(ends))
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
            track_count = 1 + max(self._tracks.get(gutter, {}).values(), default=-1)
            y += 0.14 + _TRACK * track_count + _BOX_HEIGHT
        self.height = y + 0.16

    def row(self, layer: int) -> int:
        """Row of a layer's box; the input stands in the first row."""
        return max(layer, 0) // self.across

    def left(self, layer: int) -> float:
        """Left edge of a layer's box."""
        return _MARGIN + (layer % self.across) * (_BOX_WIDTH + _GAP)

    def middle(self, row: int) -> float:
        """Distance of the middle of a row's boxes from the top."""
        used = 1 + max(self._tracks.get(row, {}).values(), default=-1)
        return self._ceilings[row] + 0.14 + _TRACK * used + _BOX_HEIGHT / 2

    def path(self, u: int, v: int) -> list[tuple[float, float]]:
        """Corners of a wire from layer u, -1 for the input, to layer v."""
        above, below = self.row(v), self.row(u) + (not self._same_row(u, v))
        start, end = self._out(u, v), self._tops[v][u]
        # A wire starts at the lower or upper edge of its box; the input has no box.
        half = 0.0 if u < 0 else _BOX_HEIGHT / 2 if below > self.row(u) else -_BOX_HEIGHT / 2
        corners = [(start, self.middle(self.row(u)) + half), (start, self._track(below, u))]
        if above != below:
            lane = _MARGIN - 0.12 - self._gap * self._lanes[u]
            corners += [(lane, self._track(below, u)), (lane, self._track(above, u))]
        return [*corners, (end, self._track(above, u)), (end, self.middle(above) - _BOX_HEIGHT / 2)]

    def _track(self, gutter: int, source: int) -> float:
        return self._ceilings[gutter] + 0.08 + _TRACK * self._tracks[gutter][source]

    def _same_row(self, u: int, v: int) -> bool:
        return self.row(u) == self.row(v)

    def _out(self, u: int, v: int) -> float:
        """Position at which a wire to v leaves u: in the right part, where no wire ends."""
        if u < 0:
            return _MARGIN - 0.12
        return self.left(u) + (0.7 if self._same_row(u, v) else 0.85) * _BOX_WIDTH


def _tracks(wires: Mapping[int, Sequence[float]]) -> dict[int, int]:
    """Assign a track to each source, from 0, so that no two wires on a track overlap.

    Greedy, the longest wire first: few tracks, and long wires stay close to the boxes.
    """
    track_of: dict[int, int] = {}
    for source in sorted(wires, key=lambda key: min(wires[key]) - max(wires[key])):
        low, high = min(wires[source]), max(wires[source])
        occupied = {
            track
            for neighbour, track in track_of.items()
            if min(wires[neighbour]) <= high + 0.04 and max(wires[neighbour]) >= low - 0.04
        }
        track_of[source] = next(track for track in range(len(wires)) if track not in occupied)
    return track_of


def _draw_graph(axes: Axes, top: float, entry: TitledNetwork, wiring: _Wiring) -> None:
    """Draw the boxes of a network, arrows between neighbours and wires between other boxes."""
    net = entry.network
    places = [(wiring.left(k), top - wiring.middle(wiring.row(k))) for k in range(len(net))]
    sources: dict[int, list[tuple[tuple[float, float], tuple[float, float]]]] = {}
    for u, v in wiring.wired:
        path = [(x, top - y) for x, y in wiring.path(u, v)]
        sources.setdefault(u, []).extend(pairwise(path))
        _arrow(axes, *path[-2:])
    line: Options = {"color": style.DARK, "linewidth": 0.7, "solid_capstyle": "round"}
    for u, segments in sources.items():
        for start, end in segments:
            axes.plot(*zip(start, end, strict=True), gid=f"wire {u}", **line)
        # Count the directions in which wires of this source leave each corner.
        for x, y in {start for start, _ in segments}:
            directions = {
                (np.sign(round(far_x - x, 6)), np.sign(round(far_y - y, 6)))
                for (x0, y0), (x1, y1) in segments
                if min(x0, x1) <= x <= max(x0, x1) and min(y0, y1) <= y <= max(y0, y1)
                for far_x, far_y in ((x0, y0), (x1, y1))
            }
            # A dot where a wire branches; crossing wires of other sources have none.
            if len(directions - {(0, 0)}) > 2:
                axes.plot([x], [y], ".", color=style.DARK, markersize=3.5)
    for index in wiring.beside:
        (x, y), end = places[index - 1], places[index]
        _arrow(axes, (x + _BOX_WIDTH, y), end)
    x, y = places[0]
    _arrow(axes, (x - 0.24, y), (x, y))
    for layer, (x, y) in zip(net, places, strict=True):
        _box(axes, layer, x, y, _BOX_WIDTH, _BOX_HEIGHT)
        fits = style.inches_of(style.plain(layer.name), style.SMALL) <= _BOX_WIDTH - 0.08
        size = style.SMALL if fits else style.FINE
        kind, colour = "known", style.GREY
        if isinstance(layer, Learned):
            p = layer.parameters or 0
            kind, colour = f"p = {style.digits(p, 6 if p < 1e6 else 3)}", style.LEARNED_TEXT
        lines = (
            (0.16, style.fitted(layer.name, _BOX_WIDTH - 0.08, size), size, style.DARK),
            (0.0, kind, style.FINE, colour),
            (-0.15, lipschitz(layer.bracket), style.FINE, style.GREY),
        )
        for lift, words, size, colour in lines:
            centred: Options = {"ha": "center", "va": "center", "fontsize": size, "color": colour}
            axes.text(x + _BOX_WIDTH / 2, y + lift, words, **centred)
    x, y = places[-1]
    _draw_ends(axes, places[0], (x + _BOX_WIDTH, y), entry.shapes)


# --- Layers and their parts of the bound ---------------------------------------------------------


def layers_figure(networks: Sequence[TitledNetwork], *, narrow: bool = False) -> Figure | None:
    """Draw a row for each network: A_l of every layer, and its contribution to the bound at N.

    If `narrow`, the panels stand above each other. N is the smallest of the networks' largest
    sizes. Networks with unknown constants are left out; None if no other was trained.
    """
    bounded = [entry for entry in networks if not np.isinf(entry.network.amplification()).any()]
    # The largest N up to which all of them were trained.
    n = min((entry.last for entry in bounded if entry.last is not None), default=None)
    if n is None:
        return None
    unit = "squared error with C = 0 and kappa = 1 where a calibration gives no constants"
    if all(entry.calibrated for entry in bounded):
        unit = "mse: C and kappa are such that the composed bound is the calibrated line"
    note = f"Bounds and their parts are in {unit}. Names: learned layers in green, known in grey."
    entries: list[Entry] = [(panels.line(**_mark(form)), FORMS[form][0]) for form in theory.BOUNDS]
    margins = (0.62, 0.14, 0.42, 0.46 if narrow else 0.40)
    with style.settings(fine=True):
        figure, frames = panels.sheet(
            2 * len(bounded), entries, [note], margins=margins, height=1.75, across=2, narrow=narrow
        )
        for row, entry in enumerate(bounded):
            first, second = frames[2 * row : 2 * row + 2]
            net = entry.network
            parts = {form: theory.barron_bound(net, n, bound=form).contributions for form in FORMS}
            totals = {FORMS[form][0]: style.digits(float(v.sum()), 2) for form, v in parts.items()}
            if narrow:
                name, _, scan = entry.title.partition(": ")
                panels.head(first, name, scan)
            else:
                panels.head(first, entry.title, room=style.PAGE / 2 - 0.1, lift=10)
            # Known layers add nothing to the bound; in deep networks they are left out.
            nonzero = np.flatnonzero(parts["composed"])
            layers = nonzero if len(net) > _FEW_LAYERS and nonzero.size else np.arange(len(net))
            factors = {form: net.amplification(form) for form in theory.BOUNDS}
            for axes, series, gid in ((first, factors, "A"), (second, parts, "contribution")):
                drawn = {form: values[layers] for form, values in series.items()}
                _draw_layers(axes, [net.layers[index] for index in layers], drawn, gid)
                if len(layers) < len(net):
                    axes.set_xlabel("layer that adds to the bound, input side first")
            caption = f"N = {n:,}. Bound: {', '.join(map(' '.join, totals.items()))}"
            panels.above(second, caption, 1, (0, 4), xycoords="axes fraction", ha="right")
        for column in (frames[::2], frames[1::2]):
            panels.share_heights(column, least=0)
        return figure


def bound_figure(
    bound: theory.Bound, floors: theory.Bound | None = None, *, ax: Axes | None = None
) -> Figure:
    """Draw the contribution of each layer to a bound as bars, and the floor in each of them."""
    parts, names = bound.contributions, bound.layers
    layers = np.arange(len(names))
    if len(names) > _FEW_LAYERS:
        layers = np.flatnonzero(parts)[:_MOST_BARS]
    entries: list[Entry] = []
    if floors is not None:
        entries = [(Patch(facecolor=style.LEARNED), "added by the layer, at N")]
        entries.append((Patch(facecolor=style.DARK), "of it a floor that data cannot lower"))
    with style.settings():
        margins, height = (1.2, 0.7, 0.45, 0.1), 0.55 + 0.26 * max(len(layers), 2)
        figure, (axes,) = panels.sheet(
            1, entries, margins=margins, height=height, width=5.2, size=style.SMALL, ax=ax
        )
        # Bars that are not finite are drawn as 0 and labelled.
        rows = np.arange(len(layers))
        finite = np.where(np.isfinite(parts[layers]), parts[layers], 0.0)
        axes.barh(rows, finite, height=0.6, color=style.LEARNED, gid="parts")
        if floors is not None:
            floor = np.where(np.isfinite(parts[layers]), floors.contributions[layers], 0.0)
            axes.barh(rows, floor, height=0.25, color=style.DARK, gid="floors")
        axes.set_yticks(rows, [style.fitted(names[layer], 1.0, style.SMALL) for layer in layers])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.02 * float(finite.max(initial=0.0)) or 1.0)
        axes.set_xlabel("part of the bound of the squared error")
        for row, layer in enumerate(layers):
            label = f" {bound.shares[layer]:.0%}" if np.isfinite(parts[layer]) else " not known"
            placing: Options = {"textcoords": "offset points", "annotation_clip": False}
            axes.annotate(label, (finite[row], row), (1, 0), va="center", **placing)
        axes.locator_params(axis="x", nbins=5)
        panels.gridded(axes)
        axes.grid(visible=False, axis="y")
        return figure


def _draw_layers(
    axes: Axes, layers: Sequence[Layer], series: Mapping[theory.BoundForm, Array], gid: str
) -> None:
    """Draw marks above the names of layers; a layer that adds nothing has the text 0."""
    count = len(layers)
    positive = {form: np.where(v > 0, v, np.nan) for form, v in series.items()}
    label = "amplification" if gid == "A" else "part of the bound"
    # Factors that leave space above and below the marks, also if all values are equal.
    height = panels.limits([f * v for v in positive.values() for f in (0.6, 1.6)])
    panels.frame(axes, (1, 2), height, labels=("layer, input side first", label))
    axes.set(xscale="linear", xlim=(-0.6, count - 0.4))
    axes.grid(visible=False, axis="x")
    pitch = panels.inches(axes)[0] / (count + 0.2)
    # Long names alternate between two lines.
    lines = 1 if all(style.inches_of(style.plain(layer.name)) <= pitch for layer in layers) else 2
    width = pitch if lines == 1 else min(2 * pitch - 0.04, 1.2 * pitch + 0.24)
    names = [
        "\n" * (lines - 1) * (index % 2) + style.fitted(layer.name, width)
        for index, layer in enumerate(layers)
    ]
    axes.set_xticks(range(count), names)
    for index, (text, layer) in enumerate(zip(axes.get_xticklabels(), layers, strict=True)):
        text.set_color(style.LEARNED_TEXT if isinstance(layer, Learned) else "#555555")
        if series["composed"][index] == 0:
            options: Options = {"ha": "center", "color": style.GREY, "fontsize": style.FINE}
            axes.text(index, 0.04, "0", transform=axes.get_xaxis_transform(), **options)
    for form, values in positive.items():
        positions = np.arange(count) + _SHIFT[form]
        axes.plot(positions, values, gid=f"{gid}-{form}", zorder=3, **_mark(form))


def _mark(form: theory.BoundForm) -> Options:
    return BOUND | FORMS[form][1] | {"linestyle": "none", "markersize": 4.2}
