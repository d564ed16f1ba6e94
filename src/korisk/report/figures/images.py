"""What a study kept to look at: reconstructions over images of their errors, and learned weights.

The weights W are drawn over views and bins, against the analytic ones that training began with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from korisk.report.contents import Pictures, error_scale, grey_scale, relative_error
from korisk.report.figures import panels, style
from korisk.report.figures.panels import Array, Entry, Limits
from korisk.report.figures.style import (
    COLUMN,
    DARK,
    DPI,
    FINE,
    GREY,
    LARGE,
    LOOKS,
    MINUS,
    PAGE,
    SMALL,
    Options,
)

MOST_SIZES = 10  # columns of N, untrained among them
MOST_MODELS = 4
MOST_PROFILES = 5  # sizes whose profiles of weights are drawn
_MOST_PAIRS = 4  # of rows: an image and its error

_LABEL, _BARS, _TOP = 0.42, 0.72, 0.50  # inches around the images
_GAP, _UNDER = 0.04, 0.15  # between images, and for the numbers under them
_LARGEST = 0.9  # inches, the side of an image
_TALLEST = 8.0  # inches, of all rows
_LEAST = 0.001  # relative RMSE: stored pictures are rounded, a smaller one would tell the rounding
_CLIPPED = 99.0  # percent of the changes of weights lie within their colours
_DASHES = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (6, 1, 1, 1, 1, 1)))
_PROFILES = (LOOKS[5], LOOKS[4], LOOKS[3], LOOKS[0], LOOKS[1])


def _spread(sizes: Sequence[int], most: int) -> list[int]:
    """At most so many of the sizes, the first and the last among them."""
    places = np.linspace(0, len(sizes) - 1, min(len(sizes), most))
    return [sizes[int(place)] for place in np.unique(places.round())]


def _image(axes: Axes, values: Array, limits: Limits, **options: Any) -> AxesImage:
    colours = style.colour_map(options.pop("cmap"))
    shared: Options = {"aspect": "auto", "interpolation": "antialiased", "cmap": colours}
    low, high = limits
    return axes.imshow(np.ma.masked_invalid(values), vmin=low, vmax=high, **shared, **options)


# --- Reconstructions -----------------------------------------------------------------------------


def reconstruction_figure(pictures: Pictures, *, title: str = "") -> Figure | None:
    """Each test image, then each model at every N over its signed error, image - phantom.

    The number under an image is its own relative RMSE, the root of the squared error over that of
    the phantom. None where there is no image to draw.
    """
    images = {model: found for model, found in pictures.images.items() if found}
    if not images or not pictures.truth.size:
        return None
    models = list(images)[:MOST_MODELS]
    truths = pictures.truth[: max(1, _MOST_PAIRS // len(models))]
    known = sorted({n for model in models for n in images[model]})
    sizes = _spread(known, MOST_SIZES)
    shown = {(m, n): images[m][n][: len(truths)] for m in models for n in sizes if n in images[m]}
    with np.errstate(all="ignore"):
        errors = {key: images - truths for key, images in shown.items()}
    grey = grey_scale(truths)
    reach, most = error_scale(errors.values())
    low, high = (style.digits(end, 3) for end in grey)
    notes = [
        f"Under each image: its own relative RMSE, ‖image {MINUS} phantom‖ / ‖phantom‖. "
        f"Greys from {low} to {high} for all images; seed {pictures.seed}."
    ]
    if most > reach:
        notes[0] += f" Errors beyond ±{style.digits(reach, 2)} have the last colour."
    if not all(np.isfinite(part).all() for part in (truths, *shown.values())):
        notes.append("Yellow: pixels that are not finite.")
    left_out = {
        "test image": len(pictures.truth) - len(truths),
        "model": len(images) - len(models),
        "size": len(known) - len(sizes),
    }
    said = [f"{n} {noun}{'s' if n > 1 else ''}" for noun, n in left_out.items() if n > 0]
    if said:
        notes.append(f"Left out: {' and '.join(said)}.")

    columns, pairs = len(sizes) + 1, len(truths) * len(models)
    shape = min(4.0, max(0.25, truths.shape[1] / truths.shape[2]))
    side = min(
        _LARGEST,
        (PAGE - _LABEL - _BARS) / columns - _GAP,
        (_TALLEST / pairs - _UNDER - _GAP) / 2 / shape,
    )
    tall = side * shape
    pair = 2 * tall + _UNDER + 2 * _GAP
    width = max(COLUMN, _LABEL + _BARS + columns * (side + _GAP))
    lines = [line for note in notes for line in style.wrapped(note, width - 0.16)]
    foot = 0.08 + 0.13 * len(lines)
    height = _TOP + foot + pairs * pair
    left = [_LABEL + column * (side + _GAP) for column in range(columns + 1)]
    heads = ["phantom", *(f"N = {n:,}" if n else "untrained" for n in sizes)]
    if any(style.inches_of(head) > side + _GAP for head in heads):
        heads = ["phantom", *(style.digits(n, 2) if n else "none" for n in sizes)]
    with style.settings(fine=True):
        figure = Figure(figsize=(width, height), dpi=DPI)
        axes = panels.inch_axes(figure)
        text = style.fitted(title, width - 0.16, LARGE, bold=True)
        bold: Options = {"fontsize": LARGE, "fontweight": "bold", "color": DARK}
        axes.text(0.08, height - 0.06, text, va="top", parse_math=False, **bold)
        for x, words in zip(left, heads, strict=False):
            axes.text(x + side / 2, height - _TOP + 0.04, words, ha="center", va="bottom")
        for row in range(pairs):
            index, place = divmod(row, len(models))
            model, truth = models[place], truths[index]
            top = height - _TOP - row * pair
            middle = top - tall - _GAP
            if place == 0:
                box = (left[0], left[0] + side, top - tall, top)
                _image(axes, truth, grey, cmap="gray", extent=box, gid="truth")
            name = style.fitted(model or "model", tall, SMALL)
            for words, y, colour, size in ((name, top, DARK, SMALL), ("error", middle, GREY, FINE)):
                options: Options = {"ha": "right", "va": "center", "color": colour}
                options |= {"fontsize": size, "rotation": 90, "parse_math": False}
                axes.text(_LABEL - 0.08, y - tall / 2, words, **options)
            for x, n in zip(left[1:], sizes, strict=False):
                if (model, n) not in shown:
                    continue
                tag = f"{index}-{place}-{n}"
                tile, error = shown[model, n][index], errors[model, n][index]
                box = (x, x + side, top - tall, top)
                _image(axes, tile, grey, cmap="gray", extent=box, gid=f"image-{tag}")
                box = (x, x + side, middle - tall, middle)
                _image(axes, error, (-reach, reach), cmap="RdBu_r", extent=box, gid=f"error-{tag}")
                off = relative_error(tile, truth)
                words = style.digits(off, 3) if off >= _LEAST else f"< {_LEAST}"
                words = words if math.isfinite(off) else "n/a"
                axes.text(x + side / 2, middle - tall - 0.02, words, ha="center", va="top")
        bar = min(1.6, 0.46 * (height - _TOP - foot))
        extend = "both" if most > reach else "neither"
        for what, limits, cmap, more, y in (
            ("value", grey, "gray", "neither", height - _TOP - bar),
            ("error", (-reach, reach), "RdBu_r", extend, height - _TOP - 2 * bar - 0.25),
        ):
            mappable = ScalarMappable(Normalize(*limits), style.colour_map(cmap))
            box = (left[-1] + 0.04, y, 0.09, bar)
            panels.colours(axes, mappable, what, box=box, inches=True, extend=more)
        for place, line in enumerate(lines):
            y = foot - 0.05 - 0.13 * place
            axes.text(0.08, y, line, va="top", color=GREY, parse_math=False)
        axes.set(xlim=(0, width), ylim=(0, height), aspect="auto")
        return figure


# --- Weights -------------------------------------------------------------------------------------


def weights_figure(pictures: Pictures, *, title: str = "") -> Figure | None:
    """Analytic and learned weights, their difference, and means over views for several N.

    They are those of the first model that has any, at its largest N. Without the analytic weights
    there are the learned ones and the means. None where no model has weights.
    """
    kept = {
        name: {n: each for n, each in weights.items() if each.ndim == 2 and each.size}
        for name, weights in pictures.weights.items()
    }
    model = next((name for name, weights in kept.items() if any(weights)), None)
    if model is None:
        return None
    found = kept[model]
    last = max(found)
    learned = found[last]
    found = {n: each for n, each in sorted(found.items()) if each.shape == learned.shape}
    analytic = found.get(0)
    sizes = [n for n in (0, *_spread([n for n in found if n], MOST_PROFILES - 1)) if n in found]
    profiles = {}
    for n in sizes:  # the mean over the views whose weight is a number
        known = np.isfinite(found[n])
        total, count = np.where(known, found[n], 0.0).sum(axis=0), known.sum(axis=0)
        profiles[n] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    looks: dict[int, Options] = {
        n: {"color": DARK, "linewidth": 1.6, "linestyle": "-"}
        if n == 0
        else {"color": look.colour, "linewidth": 1.0, "linestyle": dashes}
        for n, look, dashes in zip(profiles, _PROFILES, _DASHES, strict=False)
    }
    entries: list[Entry] = [
        (panels.line(**look), "analytic" if n == 0 else f"N = {n:,}") for n, look in looks.items()
    ]
    said = f"Weights of {style.fitted(model or 'the model', 2.5)}, seed {pictures.seed}"
    known = learned[np.isfinite(learned)]
    if known.size:
        low, high = style.digits(known.min(), 3), style.digits(known.max(), 3)
        said += f"; learned ones from {low} to {high}"
    shown = [each for each in (analytic, learned) if each is not None]
    scale = grey_scale(np.stack(shown))
    with style.settings(fine=True):
        figure, frames = panels.sheet(
            len(shown) * 2,
            entries,
            [f"{said}."],
            margins=(0.50, 0.75, 0.40, 0.42),
            height=2.1,
            across=2,
        )
        if analytic is not None:
            change = learned - analytic
            moved = np.abs(change[np.isfinite(change)])
            most = float(moved.max(initial=0.0))
            reach = (float(np.percentile(moved, _CLIPPED)) if most > 0 else 0.0) or most or 1.0
            words = f"learned {MINUS} analytic, N = {last:,}"
            words = words if most > 0 else "learned = analytic: no weight changed"
            extend = "both" if most > reach else "neither"
            _draw_weights(frames[0], analytic, "analytic", scale, "analytic")
            _draw_weights(frames[2], change, words, (-reach, reach), "change", extend)
        words = f"learned from N = {last:,}"
        _draw_weights(frames[len(shown) - 1], learned, words, scale, "learned")
        text = style.fitted(title, PAGE - 0.16, LARGE, bold=True)
        panels.head(frames[0], text, size=LARGE, room=PAGE / 2, lift=12)
        axes = frames[-1]
        for n, profile in profiles.items():
            axes.plot(np.arange(len(profile)), profile, gid=f"profile-{n}", **looks[n])
        axes.set(xlabel="detector bin", ylabel="mean weight over views")
        axes.text(0, 1.04, "means over views", transform=axes.transAxes, fontsize=SMALL)
        axes.set_xlim(-0.5, max(learned.shape[1] - 0.5, 0.5))
        axes.set_ylim(*panels.limits(profiles.values(), log=False))
        axes.locator_params(axis="x", integer=True, nbins=6)
        panels.ticks(axes.yaxis)
        panels.gridded(axes)
        return figure


def _draw_weights(
    axes: Axes, values: Array, title: str, limits: Limits, gid: str, extend: str = "neither"
) -> None:
    """One image over bins and views, with its scale."""
    cmap = "RdBu_r" if gid == "change" else "viridis"
    views, bins = values.shape
    box = (-0.5, bins - 0.5, views - 0.5, -0.5)
    made = _image(axes, values, limits, cmap=cmap, extent=box, gid=gid)
    axes.set(xlabel="detector bin", ylabel="view")
    axes.locator_params(integer=True, nbins=6)
    axes.text(0, 1.04, title, transform=axes.transAxes, fontsize=SMALL)
    label = "change of weight" if gid == "change" else "weight"
    panels.colours(axes, made, label, box=(1.03, 0, 0.04, 1), extend=extend)
