"""The networks of a CT study: as chains of boxes, and what each layer adds to the bound.

`ct_networks` makes them from what the study says of its problem. Norms come from the operators,
where PyTorch is installed and they take seconds at most; else they are left unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch

from korisk.errors import KoriskError
from korisk.planning.fit import calibrate
from korisk.report.contents import Contents, Point
from korisk.report.figures import panels, style
from korisk.report.figures.panels import Array, Entry
from korisk.report.figures.style import (
    DARK,
    DPI,
    ELL,
    FINE,
    GREY,
    LEARNED,
    LEARNED_TEXT,
    LOOKS,
    PAGE,
    SMALL,
    Options,
)
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
A_ROW = 5  # boxes, then the chain goes on below

_LARGEST = {"surrogate": 32, "parallel": 128, "fan": 128, "released": 128}  # sides, for the norms
_MOST_VALUES = 20_000  # of a sinogram

_BOX, _TALL, _STEP = 0.88, 0.46, 1.12  # inches: width and height of a box, from one to the next
_FIRST = 0.84  # inches, where the first box begins
_ROW, _HEAD = 0.90, 0.26  # inches, of a row of boxes and of a network's name

_SHIFT = {"paper": -0.26, "minkowski": 0.0, "composed": 0.26}  # beside a layer's place
_MARK = {"markersize": 4.2, "linestyle": "none", "markeredgewidth": 0.9}
_MARKS: Mapping[str, Options] = {
    "paper": {"marker": "s", "color": LOOKS[1].colour, "markerfacecolor": "white", **_MARK},
    "minkowski": {"marker": "^", "color": LOOKS[0].colour, **_MARK},
    "composed": {"marker": "o", "color": DARK, **_MARK},
}
_WORDS = {"paper": "paper", "minkowski": "Minkowski", "composed": "composed"}


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
    ends = []
    for value, rounded in ((bracket.lower, math.floor), (bracket.upper, math.ceil)):
        if 1e-300 < value < 1e300:
            scale = 10.0 ** (2 - math.floor(math.log10(value)))
            inwards = 1e-9 if rounded is math.floor else -1e-9  # of what is round already
            value = rounded(value * scale + inwards) / scale
        ends.append(value)
    lower, upper = ends
    if math.isinf(upper):
        return f"{ELL} ≥ {style.digits(lower, 4)}" if lower > 0 else f"{ELL} not known"
    if bracket.is_point:
        return f"{ELL} = {style.digits(bracket.upper, 4)}"
    if lower == 0:
        return f"{ELL} ≤ {style.digits(upper, 4)}"
    return f"{ELL} in [{style.digits(lower, 4)}, {style.digits(upper, 4)}]"


def architecture_figure(
    networks: Sequence[tuple[str, Network]], *, shapes: Mapping[str, tuple[str, str]] | None = None
) -> Figure | None:
    """A chain of boxes for each network under its title; None without networks.

    `shapes` holds the words for a network's input and output by its title, such as `10 x 8`.
    """
    if not networks:
        return None
    heights = [_HEAD + _ROW * math.ceil(len(net) / A_ROW) for _, net in networks]
    tall = sum(heights) + 0.24
    with style.settings(fine=True):
        figure = Figure(figsize=(PAGE, tall), dpi=DPI)
        axes = panels.inch_axes(figure)
        top = tall - 0.04
        for (title, net), height in zip(networks, heights, strict=True):
            text = style.fitted(title, PAGE - 0.16, SMALL, bold=True)
            bold: Options = {"fontsize": SMALL, "fontweight": "bold", "color": DARK}
            axes.text(0.08, top - 0.02, text, va="top", parse_math=False, **bold)
            _draw_chain(axes, top - _HEAD - 0.40, net, (shapes or {}).get(title, ("", "")))
            top -= height
        words = "grey: known operators; green: learned layers; p: trainable parameters; "
        words += f"{ELL}: Lipschitz constant of the true layer"
        axes.text(0.08, 0.06, words, color=GREY, fontsize=FINE)
        return figure


def _draw_chain(axes: Axes, first: float, net: Network, ends: tuple[str, str]) -> None:
    """The boxes of a network and the arrows between them, from the height `first` downwards."""
    x, y = _FIRST, first
    for index, layer in enumerate(net):
        before = x + _BOX, y
        x, y = _FIRST + (index % A_ROW) * _STEP, first - (index // A_ROW) * _ROW
        if index and index % A_ROW == 0:  # from the end of a row to the beginning of the next
            right, lower, left = before[0] + 0.1, before[1] - _TALL / 2 - 0.20, x - 0.24
            path = [before, (right, before[1]), (right, lower), (left, lower), (left, y)]
            axes.plot(*zip(*path, strict=True), color=DARK, linewidth=0.9)
        _arrow(axes, x - (0.24 if index % A_ROW == 0 else _STEP - _BOX), x, y)
        learned, count = isinstance(layer, Learned), ""
        if isinstance(layer, Learned):
            p = layer.parameters
            count = "p not known" if p is None else f"p = {style.digits(p, 6 if p < 1e6 else 3)}"
        kind = "learned" if learned else "known"
        box: Options = {
            "facecolor": style.pale(LEARNED, 0.72) if learned else "#ececec",
            "edgecolor": LEARNED if learned else "#777777",
            "linewidth": 1.4 if learned else 0.8,
            "boxstyle": "round,pad=0,rounding_size=0.05",
        }
        axes.add_patch(FancyBboxPatch((x, y - _TALL / 2), _BOX, _TALL, gid=kind, **box))
        for at, text, size, colour in (
            (y + 0.09, style.fitted(layer.name, _BOX - 0.08), SMALL, DARK),
            (y - 0.10, kind, FINE, LEARNED_TEXT if learned else GREY),
            (y + _TALL / 2 + 0.09, count, FINE, DARK),
            (y - _TALL / 2 - 0.10, lipschitz(layer.bracket), FINE, GREY),
        ):
            fits = style.inches_of(text, size) <= _BOX - 0.04
            options: Options = {"fontsize": size if fits else FINE, "color": colour}
            options |= {"ha": "center", "va": "center", "parse_math": False}
            axes.text(x + _BOX / 2, at, text, **options)
    _arrow(axes, x + _BOX, x + _BOX + 0.24, y)
    places = ((_FIRST - 0.26, first, "x", "right"), (x + _BOX + 0.27, y, "y", "left"))
    for (at, height, symbol, side), shape in zip(places, ends, strict=True):
        axes.text(at, height, symbol, ha=side, va="center", fontsize=SMALL, fontstyle="italic")
        words = style.fitted(shape, 0.5)
        axes.text(at, height - 0.17, words, ha=side, va="center", parse_math=False)


def _arrow(axes: Axes, start: float, end: float, y: float) -> None:
    shape: Options = {"arrowstyle": "-|>", "mutation_scale": 6, "shrinkA": 0, "shrinkB": 0}
    axes.add_patch(FancyArrowPatch((start, y), (end, y), linewidth=0.9, color=DARK, **shape))


# --- Layers and their parts of the bound ---------------------------------------------------------


def layers_figure(
    networks: Sequence[tuple[str, Network]], *, n: float = 64, unit: str = "squared error"
) -> Figure | None:
    """A row for each network: A_l of every layer on the left, contributions at N on the right.

    None without networks.
    """
    if not networks:
        return None
    amplified = [{form: net.amplification(form) for form in BOUNDS} for _, net in networks]
    parts: list[dict[BoundForm, Array]] = []
    for _, net in networks:
        parts.append({})
        with suppress(KoriskError):  # parameters or constants that are not known
            parts[-1] = {form: barron_bound(net, n, bound=form).contributions for form in BOUNDS}
    notes = [f"Bounds and their parts are in {unit}."]
    if any(np.isinf(each["composed"]).any() for each in amplified):
        notes[0] += " ?: a Lipschitz constant further on is not known."
    entries: list[Entry] = [(panels.line(**_MARKS[form]), _WORDS[form]) for form in BOUNDS]
    if any(parts):
        entries.append((Patch(**_bar(learned=True)), "learned layer"))
        entries.append((Patch(**_bar(learned=False)), "known layer (adds its mismatch alone)"))
    margins = (0.62, 0.14, 0.42, 0.40)
    with style.settings(fine=True):
        figure, frames = panels.sheet(
            2 * len(networks), entries, notes, margins=margins, height=1.75, across=2
        )
        for row, (title, net) in enumerate(networks):
            left, right = frames[2 * row : 2 * row + 2]
            panels.head(left, title, room=PAGE / 2 - 0.1, lift=10)
            _draw_layers(left, net, amplified[row], "amplification", "A")
            _draw_layers(right, net, parts[row], "part of the bound", "contribution")
            if parts[row]:
                sums = {form: style.digits(float(v.sum()), 2) for form, v in parts[row].items()}
                bounds = ", ".join(f"{_WORDS[form]} {total}" for form, total in sums.items())
                panels.above(right, f"N = {n:,.0f}. Bound: {bounds}", right=True)
            else:
                reason = "no bound: parameters or Lipschitz constants are not known"
                panels.say(right, reason)
        return figure


def _draw_layers(
    axes: Axes, net: Network, series: Mapping[BoundForm, Array], label: str, gid: str
) -> None:
    """Marks over the layers' names in their colours; contributions are bars as well."""
    count = len(net)
    shown = {form: np.where((v > 0) & np.isfinite(v), v, np.nan) for form, v in series.items()}
    low, high = panels.limits([f * v for v in shown.values() for f in (0.6, 1.6)])
    panels.frame(axes, (1, 2), (low, high), labels=("layer, input side first", label))
    axes.set(xscale="linear", xlim=(-0.6, count - 0.4))
    axes.grid(visible=False, axis="x")
    room = panels.inches(axes)[0] / count
    slanted = any(style.inches_of(name) > 0.95 * room for name in net.names)
    names = [
        style.fitted(f"{index + 1} {name}", 0.4) if slanted else style.fitted(name, room)
        for index, name in enumerate(net.names)
    ]
    axes.set_xticks(range(count), names, rotation=35 if slanted else 0, parse_math=False)
    for place, (text, layer) in enumerate(zip(axes.get_xticklabels(), net, strict=True)):
        learned = isinstance(layer, Learned)
        text.set_color(LEARNED_TEXT if learned else "#555555")
        for form, values in shown.items():
            if gid == "contribution" and math.isfinite(values[place]):
                bar: Options = {"bottom": low, "width": 0.24, "zorder": 2.2}
                bar |= _bar(learned=learned)
                axes.bar([place + _SHIFT[form]], [values[place] - low], **bar)
        value = float(series["composed"][place]) if series else math.nan
        if value == 0 or math.isinf(value):
            options: Options = {"ha": "center", "va": "bottom", "color": GREY, "fontsize": FINE}
            options["transform"] = axes.get_xaxis_transform()
            axes.text(place, 0.04, "0" if value == 0 else "?", **options)
    for form, values in shown.items():
        places = np.arange(count) + _SHIFT[form]
        axes.plot(places, values, gid=f"{gid}-{form}", zorder=3, **_MARKS[form])


def _bar(*, learned: bool) -> Options:
    colour = LEARNED if learned else "#BBBBBB"
    face, hatch = style.pale(colour, 0.55), "////" if learned else "...."
    return {"facecolor": face, "edgecolor": colour, "hatch": hatch, "linewidth": 0.7}
