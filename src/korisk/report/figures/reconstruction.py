"""Test images as each model reconstructs them at every N, over images of their errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from korisk.report.contents import Pictures, grey_scale, relative_error
from korisk.report.figures.style import (
    DARK,
    DPI,
    FINE,
    GREY,
    LARGE,
    MINUS,
    PAGE,
    SMALL,
    Axes,
    Colormap,
    Figure,
    Normalize,
    ScalarMappable,
    colour_map,
    colours,
    digits,
    fitted,
    inch_axes,
    inches_of,
    style,
    words_of,
    wrapped,
)

Array = NDArray[np.float64]

MOST_SIZES = 10  # columns of N, untrained among them
MOST_MODELS = 4
_MOST_PAIRS = 4  # of rows: an image and its error

_LABEL, _BARS, _TOP = 0.42, 0.72, 0.50  # inches around the images
_GAP, _WORDS = 0.04, 0.15  # between images, and for the words under them
_LARGEST = 0.9  # inches, the side of an image
_TALLEST = 8.0  # inches, of all rows
_LEAST = 0.001  # relative RMSE
_CLIPPED = 98.0  # percent of the errors lie within their colours


@dataclass(frozen=True, kw_only=True)
class Tile:
    """One model's reconstruction of one test image at one N."""

    image: Array  # (H, W)
    error: Array  # (H, W): image - truth
    relative: float  # ||image - truth|| / ||truth||; nan where the truth is zero or not finite


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """What is drawn, and the two scales that all of it shares."""

    truth: Array  # (K, H, W)
    models: tuple[str, ...]
    sizes: tuple[int, ...]
    tiles: dict[tuple[int, str, int], Tile]  # by test image, model, N
    grey: tuple[float, float]  # the truth's smallest and largest value
    reach: float  # of errors: the colours run from -reach to reach
    clipped: bool  # whether some errors lie beyond
    broken: bool  # whether some pixels are not finite
    seed: int
    left_out: str  # in words, what is not drawn


# --- What is drawn -------------------------------------------------------------------------------


def gallery(pictures: Pictures) -> Gallery | None:
    """Images, errors and scales; None where there is no image of any model."""
    shown = [model for model, found in pictures.images.items() if found]
    if not shown or not pictures.truth.size:
        return None
    models = shown[:MOST_MODELS]
    count = min(len(pictures.truth), max(1, _MOST_PAIRS // len(models)))
    known = sorted({n for model in models for n in pictures.images[model]})
    sizes = _chosen(known)
    truth = pictures.truth[:count]
    tiles = {
        (index, model, n): _tile(pictures.images[model][n][index], truth[index])
        for index in range(count)
        for model in models
        for n in sizes
        if n in pictures.images[model]
    }
    errors = np.concatenate([tile.error.ravel() for tile in tiles.values()])
    finite = np.abs(errors[np.isfinite(errors)])
    reach = float(np.percentile(finite, _CLIPPED)) if finite.size else 0.0
    parts = [truth, *(tile.image for tile in tiles.values())]
    left_out = {
        "test image": len(pictures.truth) - count,
        "model": len(shown) - len(models),
        "size": len(known) - len(sizes),
    }
    return Gallery(
        truth=truth,
        models=tuple(models),
        sizes=sizes,
        tiles=tiles,
        grey=grey_scale(truth),
        reach=reach if reach > 0 else 1.0,
        clipped=bool(finite.size and finite.max() > reach > 0),
        broken=any(not np.isfinite(part).all() for part in parts),
        seed=pictures.seed,
        left_out=words_of(left_out),
    )


def _tile(image: Array, truth: Array) -> Tile:
    with np.errstate(all="ignore"):
        error = image - truth
    return Tile(image=image, error=error, relative=relative_error(image, truth))


def _chosen(sizes: Sequence[int]) -> tuple[int, ...]:
    """Few sizes: the smallest, the largest, and evenly spread ones between them."""
    if len(sizes) <= MOST_SIZES:
        return tuple(sizes)
    places = np.unique(np.linspace(0, len(sizes) - 1, MOST_SIZES).round().astype(int))
    return tuple(sizes[place] for place in places)


# --- The figure ----------------------------------------------------------------------------------


def reconstruction_figure(
    pictures: Pictures, *, title: str = "", unit: str = "image units"
) -> Figure | None:
    """Each test image, then each model at every N over its signed error, image - phantom.

    The number under an image is its own relative RMSE, the root of the squared error over that of
    the phantom. None where there is no image to draw.
    """
    found = gallery(pictures)
    if found is None:
        return None
    with style(fine=True):
        page = _Page.of(found, unit)
        figure = Figure(figsize=(page.width, page.height), dpi=DPI)
        axes = inch_axes(figure)
        _head(axes, page, found, title)
        for index in range(len(found.truth)):
            for place, model in enumerate(found.models):
                _draw_pair(axes, page, found, index, place, model)
        _draw_bars(figure, page, found, unit)
        _foot(axes, page)
        axes.set(xlim=(0, page.width), ylim=(0, page.height), aspect="auto")
        return figure


@dataclass(frozen=True)
class _Page:
    """Where things lie, in inches from the lower left corner."""

    side: float
    width: float
    height: float
    models: int
    shape: float  # height over width of an image
    foot: float
    lines: tuple[str, ...]  # of words in the foot

    @staticmethod
    def of(found: Gallery, unit: str) -> _Page:
        columns, pairs = len(found.sizes) + 1, len(found.truth) * len(found.models)
        shape = min(4.0, max(0.25, found.truth.shape[1] / found.truth.shape[2]))
        across = (PAGE - _LABEL - _BARS) / columns - _GAP
        up = (_TALLEST / pairs - _WORDS - _GAP) / 2 / shape
        side = min(_LARGEST, across, up)
        width = max(3.4, _LABEL + _BARS + columns * (side + _GAP))
        lines = tuple(line for note in _notes(found, unit) for line in wrapped(note, width - 0.16))
        foot = 0.08 + 0.13 * len(lines)
        height = _TOP + foot + pairs * (2 * side * shape + _WORDS + 2 * _GAP)
        return _Page(side, width, height, len(found.models), shape, foot, lines)

    @property
    def tall(self) -> float:
        return self.side * self.shape

    def left(self, column: int) -> float:
        return _LABEL + column * (self.side + _GAP)

    def top(self, index: int, place: int) -> float:
        """The upper edge of a pair of rows."""
        pair = 2 * self.tall + _WORDS + 2 * _GAP
        return self.height - _TOP - (index * self.models + place) * pair


def _draw_pair(axes: Axes, page: _Page, found: Gallery, index: int, place: int, model: str) -> None:
    """A model's images of one phantom in a row, and their errors in the row below."""
    top = page.top(index, place)
    middle = top - page.tall - _GAP
    if place == 0:
        _show(axes, page, 0, top, found.truth[index], _greys(), found.grey, "truth")
    name = fitted(model or "model", page.tall, SMALL)
    for text, y, colour in ((name, top, DARK), ("error", middle, GREY)):
        axes.text(
            _LABEL - 0.08,
            y - page.tall / 2,
            text,
            rotation=90,
            ha="right",
            va="center",
            color=colour,
            fontsize=FINE if colour == GREY else SMALL,
            parse_math=False,
        )
    for column, n in enumerate(found.sizes, start=1):
        tile = found.tiles.get((index, model, n))
        if tile is None:
            continue
        tag = f"{index}-{place}-{n}"
        _show(axes, page, column, top, tile.image, _greys(), found.grey, f"image-{tag}")
        reach = (-found.reach, found.reach)
        _show(axes, page, column, middle, tile.error, _signed(), reach, f"error-{tag}")
        x = page.left(column) + page.side / 2
        axes.text(x, middle - page.tall - 0.02, _relative(tile), ha="center", va="top")


def _show(
    axes: Axes,
    page: _Page,
    column: int,
    top: float,
    image: Array,
    cmap: Colormap,
    limits: tuple[float, float],
    gid: str,
) -> None:
    left = page.left(column)
    made = axes.imshow(
        np.ma.masked_invalid(image),
        cmap=cmap,
        vmin=limits[0],
        vmax=limits[1],
        extent=(left, left + page.side, top - page.tall, top),
        interpolation="antialiased",
        aspect="auto",
    )
    made.set_gid(gid)


def _greys() -> Colormap:
    return colour_map("gray")


def _signed() -> Colormap:
    return colour_map("RdBu_r")


def _relative(tile: Tile) -> str:
    if not math.isfinite(tile.relative):
        return "n/a"
    # Stored pictures are rounded: below this the number would be one of the rounding.
    return digits(tile.relative, 3) if tile.relative >= _LEAST else f"< {_LEAST}"


# --- Words and bars ------------------------------------------------------------------------------


def _head(axes: Axes, page: _Page, found: Gallery, title: str) -> None:
    head = fitted(title, page.width - 0.16, LARGE, bold=True)
    y = page.height - 0.06
    axes.text(
        0.08, y, head, va="top", fontsize=LARGE, fontweight="bold", color=DARK, parse_math=False
    )
    y = page.height - _TOP + 0.04
    heads = ["phantom", *_columns(found.sizes, page.side)]
    for column, text in enumerate(heads):
        x = page.left(column) + page.side / 2
        axes.text(x, y, text, ha="center", va="bottom")


def _columns(sizes: Sequence[int], side: float) -> list[str]:
    """What stands above the columns: N, in as many letters as all of them have room for."""
    room = (side + _GAP) / 0.053
    for write in ("N = {:,}".format, "{:,}".format, lambda n: digits(n, 1)):
        heads = [write(n) if n else "untrained" for n in sizes]
        if all(len(head) <= room for head in heads):
            break
    return heads


def _draw_bars(figure: Figure, page: _Page, found: Gallery, unit: str) -> None:
    """Both scales at the right edge, with their unit."""
    top = page.top(0, 0)
    left = page.left(len(found.sizes) + 1) + 0.04
    room = page.height - _TOP - page.foot
    tall = min(1.6, 0.46 * room)
    greys = ScalarMappable(Normalize(*found.grey), _greys())
    errors = ScalarMappable(Normalize(-found.reach, found.reach), _signed())
    extend = "both" if found.clipped else "neither"
    colours(figure, (left, top - tall, 0.09, tall), greys, _bar_label("value", unit, tall))
    lower = top - tall - 0.06 * room - tall
    colours(
        figure, (left, lower, 0.09, tall), errors, _bar_label("error", unit, tall), extend=extend
    )


def _bar_label(what: str, unit: str, inches: float) -> str:
    """With the unit, where that has room beside the bar; the foot tells it in any case."""
    words = f"{what} ({fitted(unit, 1.5)})"
    return words if inches_of(words) <= inches + 0.05 else what


def _notes(found: Gallery, unit: str) -> list[str]:
    low, high = (digits(end, 3) for end in found.grey)
    notes = [
        f"Under each image: its own relative RMSE, ‖image {MINUS} phantom‖ / ‖phantom‖. "
        f"Greys from {low} to {high} ({fitted(unit, 1.5)}) for all images; seed {found.seed}."
    ]
    if found.clipped:
        notes[0] += f" Errors beyond ±{digits(found.reach, 2)} have the last colour."
    if found.broken:
        notes.append("Yellow: pixels that are not finite.")
    if found.left_out:
        notes.append(f"Left out: {found.left_out}.")
    return notes


def _foot(axes: Axes, page: _Page) -> None:
    for place, line in enumerate(page.lines):
        y = page.foot - 0.05 - 0.13 * place
        axes.text(0.08, y, line, va="top", color=GREY, parse_math=False)
