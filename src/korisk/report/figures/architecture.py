"""Networks as chains of boxes, known layers grey and learned ones green, as in the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from korisk.report.figures.style import (
    DARK,
    DPI,
    ELL,
    FINE,
    GREY,
    LEARNED,
    PAGE,
    SMALL,
    Axes,
    FancyArrowPatch,
    FancyBboxPatch,
    Figure,
    digits,
    fitted,
    inch_axes,
    inches_of,
    pale,
    style,
)
from korisk.theory import Layer, Learned, Network, NormBracket

MOST_NETWORKS = 12
A_ROW = 5  # boxes, then the chain goes on below

_BOX, _TALL, _STEP = 0.88, 0.46, 1.12  # inches: width and height of a box, from one to the next
_FIRST = 0.84  # inches, where the first box begins
_ROW, _HEAD = 0.90, 0.26  # inches, of a row of boxes and of a network's name
_EDGE = "#777777"


@dataclass(frozen=True)
class Box:
    """What is written in, above and below the box of a layer."""

    name: str
    learned: bool
    above: str  # the number of parameters
    below: str  # the Lipschitz bracket


# --- What is drawn -------------------------------------------------------------------------------


def boxes(network: Network) -> list[Box]:
    """The layers' boxes, input side first."""
    return [_box(layer) for layer in network]


def _box(layer: Layer) -> Box:
    above = ""
    if isinstance(layer, Learned):
        count = layer.parameters
        above = "p not known" if count is None else f"p = {digits(count, 6 if count < 1e6 else 3)}"
    name = fitted(layer.name, _BOX - 0.08)
    return Box(name, isinstance(layer, Learned), above, lipschitz(layer.bracket))


def lipschitz(bracket: NormBracket) -> str:
    """A bracket in a few letters, its ends rounded outwards."""
    lower, upper = _outwards(bracket.lower, -1), _outwards(bracket.upper, 1)
    if math.isinf(upper):
        return f"{ELL} ≥ {digits(lower, 4)}" if lower > 0 else f"{ELL} not known"
    if bracket.is_point:
        return f"{ELL} = {digits(bracket.upper, 4)}"
    if lower == 0:
        return f"{ELL} ≤ {digits(upper, 4)}"
    return f"{ELL} in [{digits(lower, 4)}, {digits(upper, 4)}]"


def _outwards(value: float, direction: int) -> float:
    """Three digits, rounded down or up."""
    if value == 0 or not math.isfinite(value):
        return value
    scale = 10.0 ** (2 - math.floor(math.log10(value)))
    if not math.isfinite(scale) or scale == 0:
        return value
    rounded = math.ceil(value * scale - 1e-9) if direction > 0 else math.floor(value * scale + 1e-9)
    return float(f"{rounded / scale:.4g}")


# --- The figure ----------------------------------------------------------------------------------


def architecture_figure(
    networks: Sequence[tuple[str, Network]],
    *,
    shapes: Mapping[str, tuple[str, str]] | None = None,
) -> Figure | None:
    """A chain of boxes for each network under its title; None without networks.

    `shapes` holds the words for a network's input and output by its title, such as `10 x 8`.
    """
    drawn = networks[:MOST_NETWORKS]
    if not drawn:
        return None
    heights = [_HEAD + _ROW * math.ceil(len(net) / A_ROW) for _, net in drawn]
    left_out = len(networks) - len(drawn)
    tall = sum(heights) + 0.24
    with style(fine=True):
        figure = Figure(figsize=(PAGE, tall), dpi=DPI)
        axes = inch_axes(figure)
        top = tall - 0.04
        for (title, net), height in zip(drawn, heights, strict=True):
            _draw(axes, top, title, net, (shapes or {}).get(title, ("", "")))
            top -= height
        words = "grey: known operators; green: learned layers; p: trainable parameters; "
        words += f"{ELL}: Lipschitz constant of the true layer"
        if left_out:
            words += f"; {len(drawn)} of {len(networks)} networks are drawn"
        axes.text(0.08, 0.06, words, color=GREY, fontsize=FINE)
        return figure


def _draw(axes: Axes, top: float, title: str, net: Network, ends: tuple[str, str]) -> None:
    axes.text(
        0.08,
        top - 0.02,
        fitted(title, PAGE - 0.16, SMALL, bold=True),
        va="top",
        fontsize=SMALL,
        fontweight="bold",
        color=DARK,
        parse_math=False,
    )
    found = boxes(net)
    first = top - _HEAD - 0.40
    _end(axes, _FIRST - 0.26, first, "x", ends[0], side="right")
    for index, box in enumerate(found):
        x, y = _place(index, first)
        if index and index % A_ROW == 0:
            _wrap(axes, _place(index - 1, first), (x, y))
        else:
            _arrow(axes, (x - (_STEP - _BOX if index else 0.24), y), (x, y))
        _draw_box(axes, x, y, box)
    x, y = _place(len(found) - 1, first)
    _arrow(axes, (x + _BOX, y), (x + _BOX + 0.24, y))
    _end(axes, x + _BOX + 0.27, y, "y", ends[1], side="left")


def _place(index: int, first: float) -> tuple[float, float]:
    """The middle of a box's left edge."""
    return _FIRST + (index % A_ROW) * _STEP, first - (index // A_ROW) * _ROW


def _draw_box(axes: Axes, x: float, y: float, box: Box) -> None:
    face = pale(LEARNED, 0.72) if box.learned else "#ececec"
    axes.add_patch(
        FancyBboxPatch(
            (x, y - _TALL / 2),
            _BOX,
            _TALL,
            boxstyle="round,pad=0,rounding_size=0.05",
            facecolor=face,
            edgecolor=LEARNED if box.learned else _EDGE,
            linewidth=1.4 if box.learned else 0.8,
            gid="learned" if box.learned else "known",
        )
    )
    middle = x + _BOX / 2
    kind = "learned" if box.learned else "known"
    for height, text, size, colour in (
        (y + 0.09, box.name, SMALL, DARK),
        (y - 0.10, kind, FINE, GREY if not box.learned else "#006B4E"),
        (y + _TALL / 2 + 0.09, box.above, FINE, DARK),
        (y - _TALL / 2 - 0.10, box.below, FINE, GREY),
    ):
        axes.text(
            middle,
            height,
            text,
            ha="center",
            va="center",
            fontsize=size if inches_of(text, size) <= _BOX - 0.04 else FINE,
            color=colour,
            parse_math=False,
        )


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=6,
            linewidth=0.9,
            color=DARK,
            shrinkA=0,
            shrinkB=0,
        )
    )


def _wrap(axes: Axes, before: tuple[float, float], after: tuple[float, float]) -> None:
    """A line from the end of one row of boxes to the beginning of the next."""
    right, lower = before[0] + _BOX + 0.1, before[1] - _TALL / 2 - 0.20
    left = after[0] - 0.24
    path = [(before[0] + _BOX, before[1]), (right, before[1]), (right, lower)]
    path += [(left, lower), (left, after[1])]
    axes.plot(*zip(*path, strict=True), color=DARK, linewidth=0.9)
    _arrow(axes, (left, after[1]), after)


def _end(axes: Axes, x: float, y: float, symbol: str, shape: str, *, side: str) -> None:
    """The input or the output of a network, and its shape below."""
    axes.text(x, y, symbol, ha=side, va="center", fontsize=SMALL, fontstyle="italic")
    if shape:
        axes.text(x, y - 0.17, fitted(shape, 0.5), ha=side, va="center", parse_math=False)
