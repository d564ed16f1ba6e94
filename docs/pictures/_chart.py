"""What the pictures of the pages share: sizes that read on a phone, and boxes with arrows."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from korisk.report.figures.panels import gridded
from korisk.report.figures.style import DARK, GREY, LEARNED, LEARNED_TEXT, LOOKS, digits, pale

WIDTH, TYPE = 5.2, 10.0  # inches, points
BLUE, RED, GREEN, PURPLE = (look.colour for look in LOOKS[:4])


def chart(
    *, height: float = 3.2, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Axes with a pale grid and type of one size; `options` are those of `Axes.set`."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    found = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in found:
        gridded(axes)
        axes.set(**options)
        axes.tick_params(labelsize=TYPE)
        axes.xaxis.label.set_fontsize(TYPE)
        axes.yaxis.label.set_fontsize(TYPE)
    return figure, found


def sizes(axes: Axes, found: Sequence[int]) -> None:
    """Ticks at training set sizes."""
    axes.set_xticks(found, [f"{n:,}" for n in found])
    axes.minorticks_off()


def canvas(width: float = WIDTH, height: float = 3.2) -> tuple[Figure, Axes]:
    """An empty place to draw in, in inches from the lower left corner."""
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return figure, axes


def box(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    words: str,
    *,
    learned: bool = False,
) -> None:
    """Words in a box around a place: green if it is learned."""
    colour = LEARNED if learned else "#777777"
    shape = FancyBboxPatch(
        (x - width / 2, y - height / 2),
        *(width, height),
        boxstyle="round,pad=0,rounding_size=0.06",
        facecolor=pale(LEARNED) if learned else "#ececec",
        edgecolor=colour,
        zorder=3,
    )
    axes.add_patch(shape)
    text(axes, x, y, words, color=LEARNED_TEXT if learned else DARK)


def text(axes: Axes, x: float, y: float, words: str, **options: Any) -> None:
    """Words around a place."""
    place = {
        "ha": "center",
        "va": "center",
        "fontsize": TYPE,
        "color": DARK,
        "linespacing": 1.3,
        "zorder": 4,
    }
    axes.text(x, y, words, **place | options)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """An arrow between two places."""
    axes.annotate(
        "", end, start, arrowprops={"arrowstyle": "-|>", "color": GREY, "shrinkA": 0, "shrinkB": 0}
    )


def powers(axes: Axes, exponents: Sequence[int]) -> None:
    """Ticks at powers of ten on the axis across."""
    axes.set_xticks(
        [10.0**each for each in exponents], [digits(10.0**e, powers=True) for e in exponents]
    )
    axes.minorticks_off()
