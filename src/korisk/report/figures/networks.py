"""The networks of a CT study: as chains of boxes, and what each layer adds to the bound.

`ct_networks` makes them from what the study says of its problem. Norms come from the operators,
where PyTorch is installed and they take seconds at most; else they are left unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from functools import cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from korisk.errors import KoriskError
from korisk.planning.fit import calibrate
from korisk.report.contents import Contents, Point
from korisk.report.figures import panels, style
from korisk.report.figures.panels import Array, Entry
from korisk.report.figures.style import Options
from korisk.report.figures.theorem import BOUND, FORMS
from korisk.theory import (
    BOUNDS,
    BoundForm,
    Composition,
    Known,
    Layer,
    Learned,
    Network,
    NormBracket,
    barron_bound,
)

MOST_NETWORKS = 6  # of a study

_LARGEST = {"surrogate": 32, "parallel": 128, "fan": 128, "released": 128}  # sides, for the norms
_MOST_VALUES = 20_000  # of a sinogram

_BOX, _TALL, _STEP = 0.88, 0.46, 1.12  # inches: width and height of a box, from one to the next
_FIRST = 0.84  # inches, where the first box begins
_ROW, _HEAD = 1.16, 0.66  # inches, of a network, and from its top to the middle of its boxes

_SHIFT = {"paper": -0.26, "minkowski": 0.0, "composed": 0.26}  # beside a layer's place


# --- The networks of a study ---------------------------------------------------------------------


@dataclass(frozen=True)
class CtNetwork:
    """A network, what it is called in a figure, and the shapes of its input and output."""

    title: str
    network: Network
    shapes: tuple[str, str]
    calibrated: bool  # whether C and kappa are those of the study's own calibration
    last: int | None  # the largest N of its curve


def ct_networks(contents: Contents) -> list[CtNetwork]:
    """Both networks of the largest point of each kind: other points differ in numbers alone."""
    largest: dict[tuple[object, ...], tuple[int, Point]] = {}
    for point in contents.points:
        problem = point.spec.get("problem")
        if not isinstance(problem, Mapping) or problem.get("kind", "ct") != "ct":
            continue
        sizes = [problem.get(name) for name in ("side", "views", "bins")]
        if not all(isinstance(size, int) and size >= 1 for size in sizes):
            continue
        relu = _relu(point, "KO"), _relu(point, "FC")
        kind = (str(problem.get("beam")), problem.get("arc"), *relu)
        if kind not in largest or largest[kind][0] < problem["side"]:
            largest[kind] = problem["side"], point
    made = []
    for _, point in largest.values():
        problem = point.spec["problem"]
        side, views, bins = (problem[name] for name in ("side", "views", "bins"))
        beam, arc = str(problem.get("beam", "")), problem.get("arc")
        tail, compositions = known_layers(side, views, bins, beam, arc)
        whole = Network([*tail, Known("end", lipschitz=1.0)], compositions=compositions)
        over = "" if arc is None else f" over {arc:g} degrees"
        for model, name, count, front, growth in (
            ("KO", "W", views * bins, tail, whole.lipschitz()),
            ("FC", "M", views * bins * side * side, [], 1.0),
        ):
            curve = point.curve(model)
            constants: dict[str, float] = {}
            if curve is not None and curve.metric == "mse" and 0 < growth < math.inf:
                with suppress(KoriskError):  # a single size
                    line = calibrate(curve, "paper")
                    if line.slope:  # the composed bound is to be this line
                        kappa = line.slope / growth**2 / count
                        constants = {"C": line.floor**0.5 / growth, "kappa": kappa}
            layers: list[Layer] = [Learned(name, parameters=count, **constants), *front]  # type: ignore[arg-type]
            if _relu(point, model):
                layers.append(Known("ReLU", lipschitz=1.0))
            scan = f"H = {side}, {views} views, {bins} bins, {beam} beam{over}"
            made.append(
                CtNetwork(
                    f"{model}, {point.name}: {scan}",
                    Network(layers, compositions=compositions if front else ()),
                    (f"{views} x {bins}", f"{side} x {side}"),
                    bool(constants),
                    None if curve is None else int(curve.sizes[-1]),
                )
            )
    return made[:MOST_NETWORKS]


def _relu(point: Point, model: str) -> bool:
    models = point.spec.get("models")
    own = models.get(model) if isinstance(models, Mapping) else None
    return bool(own.get("relu", True)) if isinstance(own, Mapping) else True


def known_layers(
    side: int, views: int, bins: int, beam: str, arc: float | None
) -> tuple[list[Layer], list[Composition]]:
    """The known layers after W, with norms where these take seconds at most, and composed."""
    names = ["A^+"] if beam == "surrogate" else ["K", "A^T"]
    try:
        norms = operator_norms(side, views, bins, beam, arc)
    except (KoriskError, ImportError):
        norms = {}  # without PyTorch, or a scanner that cannot be made
    layers: list[Layer] = [Known(name, lipschitz=norms.get(name)) for name in names]
    if "whole" not in norms or len(layers) == 1:
        return layers, []
    return layers, [Composition(names[0], names[-1], lipschitz=norms["whole"])]


@cache
def operator_norms(
    side: int, views: int, bins: int, beam: str, arc: float | None
) -> dict[str, NormBracket]:
    """Norms of the known layers by name, and of them composed; none where they take long."""
    if side > _LARGEST.get(beam, 0) or views * bins > _MOST_VALUES:
        return {}
    from korisk.problems.ct import CtScanner

    scanner = CtScanner(side=side, views=views, bins=bins, beam=beam, arc=arc)  # type: ignore[arg-type]
    tail = scanner.reconstruction().tail
    if len(tail) == 1:
        return {"A^+": tail[0].norm()}
    first, last = tail
    return {"K": first.norm(), "A^T": last.norm(), "whole": (last @ first).norm()}


# --- Chains of boxes -----------------------------------------------------------------------------


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


def architecture_figure(networks: Sequence[CtNetwork]) -> Figure | None:
    """A chain of boxes for each network under its title; None without networks."""
    if not networks:
        return None
    tall = len(networks) * _ROW + 0.24
    with style.settings(fine=True):
        figure = Figure(figsize=(style.PAGE, tall), dpi=style.DPI)
        axes = figure.add_axes((0, 0, 1, 1))  # in inches
        axes.set(xlim=(0, style.PAGE), ylim=(0, tall))
        axes.set_axis_off()
        for place, made in enumerate(networks):
            top = tall - 0.04 - place * _ROW
            text = style.fitted(made.title, style.PAGE - 0.16, style.SMALL, bold=True)
            bold: Options = {"fontsize": style.SMALL, "fontweight": "bold", "color": style.DARK}
            axes.text(0.08, top - 0.02, text, va="top", **bold)
            _draw_chain(axes, top - _HEAD, made)
        words = "grey: known operators; green: learned layers; p: trainable parameters; "
        words += f"{style.ELL}: Lipschitz constant of the true layer"
        axes.text(0.08, 0.06, words, color=style.GREY, fontsize=style.FINE)
        return figure


def _draw_chain(axes: Axes, y: float, made: CtNetwork) -> None:
    """The boxes of a network and the arrows between them, at a height."""
    x = _FIRST
    centred: Options = {"ha": "center", "va": "center"}
    for index, layer in enumerate(made.network):
        x = _FIRST + index * _STEP
        _arrow(axes, x - 0.24, x, y)
        kind, count, colour = "known", "", style.GREY
        box: Options = {"facecolor": "#ececec", "edgecolor": "#777777", "linewidth": 0.8}
        if isinstance(layer, Learned):
            kind, colour, p = "learned", style.LEARNED_TEXT, layer.parameters or 0
            count = f"p = {style.digits(p, 6 if p < 1e6 else 3)}"
            box = {"facecolor": style.pale(style.LEARNED, 0.72), "edgecolor": style.LEARNED}
        box |= {"boxstyle": "round,pad=0,rounding_size=0.05", "gid": kind}
        axes.add_patch(FancyBboxPatch((x, y - _TALL / 2), _BOX, _TALL, **box))
        name = style.fitted(layer.name, _BOX - 0.08, style.SMALL)
        axes.text(x + _BOX / 2, y + 0.09, name, fontsize=style.SMALL, **centred)
        axes.text(x + _BOX / 2, y - 0.10, kind, color=colour, **centred)
        axes.text(x + _BOX / 2, y + _TALL / 2 + 0.09, count, **centred)
        words = lipschitz(layer.bracket)
        axes.text(x + _BOX / 2, y - _TALL / 2 - 0.10, words, color=style.GREY, **centred)
    _arrow(axes, x + _BOX, x + _BOX + 0.24, y)
    places = ((_FIRST - 0.26, "x", "right"), (x + _BOX + 0.27, "y", "left"))
    for (at, symbol, side), shape in zip(places, made.shapes, strict=True):
        axes.text(at, y, symbol, ha=side, va="center", fontsize=style.SMALL, fontstyle="italic")
        axes.text(at, y - 0.17, style.fitted(shape, 0.5), ha=side, va="center")


def _arrow(axes: Axes, start: float, end: float, y: float) -> None:
    shape: Options = {"arrowstyle": "-|>", "mutation_scale": 6, "shrinkA": 0, "shrinkB": 0}
    axes.add_patch(FancyArrowPatch((start, y), (end, y), linewidth=0.9, color=style.DARK, **shape))


# --- Layers and their parts of the bound ---------------------------------------------------------


def layers_figure(networks: Sequence[CtNetwork]) -> Figure | None:
    """A row for each network: A_l of every layer on the left, contributions at N on the right.

    N is the smallest of the networks' largest. Networks with a constant that is not known are left
    out; None where no other is there, or none of them was trained.
    """
    known = [made for made in networks if not np.isinf(made.network.amplification()).any()]
    n = min((made.last for made in known if made.last is not None), default=None)
    if n is None:
        return None
    unit = "squared error with C = 0 and kappa = 1 where a calibration gives no constants"
    if all(made.calibrated for made in known):
        unit = "MSE: C and kappa are such that the composed bound is the calibrated line"
    note = f"Bounds and their parts are in {unit}. Names: learned layers in green, known in grey."
    entries: list[Entry] = [(panels.line(**_mark(form)), FORMS[form][0]) for form in BOUNDS]
    margins = (0.62, 0.14, 0.42, 0.40)
    with style.settings(fine=True):
        figure, frames = panels.sheet(
            2 * len(known), entries, [note], margins=margins, height=1.75, across=2
        )
        for row, made in enumerate(known):
            left, right = frames[2 * row : 2 * row + 2]
            net = made.network
            parts = {form: barron_bound(net, n, bound=form).contributions for form in BOUNDS}
            sums = [
                f"{FORMS[form][0]} {style.digits(float(v.sum()), 2)}" for form, v in parts.items()
            ]
            panels.head(left, made.title, room=style.PAGE / 2 - 0.1, lift=10)
            _draw_layers(left, net, {form: net.amplification(form) for form in BOUNDS}, "A")
            _draw_layers(right, net, parts, "contribution")
            words = f"N = {n:,}. Bound: {', '.join(sums)}"
            panels.above(right, words, 1, (0, 4), xycoords="axes fraction", ha="right")
        return figure


def _draw_layers(axes: Axes, net: Network, series: Mapping[BoundForm, Array], gid: str) -> None:
    """Marks over the layers' names in their colours; 0 where a layer adds nothing."""
    count = len(net)
    shown = {form: np.where(v > 0, v, np.nan) for form, v in series.items()}
    label = "amplification" if gid == "A" else "part of the bound"
    height = panels.limits([f * v for v in shown.values() for f in (0.6, 1.6)])
    panels.frame(axes, (1, 2), height, labels=("layer, input side first", label))
    axes.set(xscale="linear", xlim=(-0.6, count - 0.4))
    axes.grid(visible=False, axis="x")
    room = panels.inches(axes)[0] / count
    axes.set_xticks(range(count), [style.fitted(name, room) for name in net.names])
    for place, (text, layer) in enumerate(zip(axes.get_xticklabels(), net, strict=True)):
        text.set_color(style.LEARNED_TEXT if isinstance(layer, Learned) else "#555555")
        if series["composed"][place] == 0:
            options: Options = {"ha": "center", "color": style.GREY, "fontsize": style.FINE}
            axes.text(place, 0.04, "0", transform=axes.get_xaxis_transform(), **options)
    for form, values in shown.items():
        places = np.arange(count) + _SHIFT[form]
        axes.plot(places, values, gid=f"{gid}-{form}", zorder=3, **_mark(form))


def _mark(form: BoundForm) -> Options:
    return BOUND | FORMS[form][1] | {"linestyle": "none", "markersize": 4.2}
