"""Figure of stored images: reconstructions by every model at every N, and their errors."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.figure import Figure

from korisk.report.contents import Pictures
from korisk.report.figures import style
from korisk.report.figures.panels import Array
from korisk.report.figures.style import Options
from korisk.texts import counted

MOST_SIZES = 10  # columns of N, untrained among them
MOST_MODELS = 4
_MOST_PAIRS = 4  # pairs of rows: an image and its error

_LARGEST = 0.9  # inches; side of an image
_TALLEST = 8.0  # inches; height of all rows, which must fit on a page
_LEAST = 0.001  # relative RMSE; stored images are rounded, so smaller values are not resolved


def _relative_error(image: Array, truth: Array) -> float:
    """||image - truth|| / ||truth||; NaN if the truth is zero or not finite."""
    with np.errstate(all="ignore"):
        size = float(np.linalg.norm(truth))
        return float(np.linalg.norm(image - truth)) / size if size > 0 else math.nan


def _grey_scale(truth: Array) -> tuple[float, float]:
    """The values shown as black and as white."""
    finite = truth[np.isfinite(truth)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return (low, high) if high > low else (low, low + 1.0)


def _error_scale(errors: Iterable[Array]) -> float:
    """The error of the last colour, the 98th percentile."""
    # A few outliers would otherwise take the whole scale and leave the rest white.
    magnitudes = np.abs(np.concatenate([np.zeros(0), *(error.ravel() for error in errors)]))
    magnitudes = magnitudes[np.isfinite(magnitudes)]
    reach = float(np.percentile(magnitudes, 98.0)) if magnitudes.size else 0.0
    return reach or float(magnitudes.max(initial=0.0)) or 1.0


def _spread(sizes: Sequence[int], count: int) -> list[int]:
    """At most `count` of the sizes, evenly spread, with the first and the last."""
    positions = np.linspace(0, len(sizes) - 1, min(len(sizes), count))
    return [sizes[int(position)] for position in np.unique(positions.round())]


def reconstruction_figure(
    pictures: Pictures, *, title: str = "", narrow: bool = False
) -> Figure | None:
    """Draw each test image, and every model at every N above its signed error; None without any.

    As the paper's (fig:gpu128-recons), of any study; `narrow` has fewer N. Numbers are relative
    RMSEs.
    """
    images = {model: by_size for model, by_size in pictures.images.items() if by_size}
    if not images or not pictures.truth.size:
        return None
    models = list(images)[:MOST_MODELS]
    truths = pictures.truth[: max(1, _MOST_PAIRS // len(models))]
    all_sizes = sorted({n for model in models for n in images[model]})
    sizes = _spread(all_sizes, 3 if narrow else MOST_SIZES)
    drawn = {(m, n): images[m][n][: len(truths)] for m in models for n in sizes if n in images[m]}
    # Reconstructions that diverged may overflow here; they are drawn in yellow.
    with np.errstate(all="ignore"):
        errors = {key: images - truths for key, images in drawn.items()}
    grey = _grey_scale(truths)
    scale = _error_scale(errors.values())
    black, white = (style.digits(end, 3) for end in grey)
    notes = [
        f"Under each image: its own relative RMSE, ‖image {style.MINUS} phantom‖ / ‖phantom‖. "
        f"Greys from {black} to {white} for all images; errors: red too large, blue too small, "
        f"full colour at {style.digits(scale, 2)} and beyond; seed {pictures.seed}."
    ]
    if not all(np.isfinite(array).all() for array in (truths, *drawn.values())):
        notes.append("Yellow: pixels that are not finite.")
    left_out = {
        "test image": len(pictures.truth) - len(truths),
        "model": len(images) - len(models),
        "size": len(all_sizes) - len(sizes),
    }
    counts = [counted(n, noun) for noun, n in left_out.items() if n > 0]
    if counts:
        notes.append(f"Left out: {' and '.join(counts)}.")

    columns, pairs = len(sizes) + 1, len(truths) * len(models)
    # Extreme shapes are drawn squeezed rather than as slivers.
    aspect = min(4.0, max(0.25, truths.shape[1] / truths.shape[2]))
    shape = aspect * truths.shape[2] / truths.shape[1]  # of a pixel: 1 but for those
    widest = ((style.COLUMN if narrow else style.PAGE) - 1.1) / columns
    side = min(_LARGEST, widest, (_TALLEST / pairs - 0.3) / 2 / aspect)
    width = max(style.COLUMN, columns * side + 1.1)
    lines = [line for note in notes for line in style.wrapped(note, width - 0.16)]
    heads = ["phantom", *(f"N = {n:,}" if n else "untrained" for n in sizes)]
    # Narrow columns have the size alone, without "N =".
    if any(style.inches_of(head) > side for head in heads):
        heads = ["phantom", *(style.digits(n, 2) if n else "none" for n in sizes)]
    height = pairs * (2 * side * aspect + 0.22) + 0.45 + 0.13 * len(lines)
    with style.settings(fine=True):
        figure = Figure(figsize=(width, height), dpi=style.DPI, layout="compressed")
        layout: Options = {"w_pad": 0.02, "h_pad": 0.02, "wspace": 0, "hspace": 0}
        figure.get_layout_engine().set(**layout)  # type: ignore[union-attr]
        text = style.fitted(title, width - 0.16, style.LARGE, bold=True)
        margin: Options = {"x": 0.08 / width, "ha": "left"}
        figure.suptitle(text, fontsize=style.LARGE, fontweight="bold", color=style.DARK, **margin)
        figure.supxlabel("\n".join(lines), fontsize=style.FINE, color=style.GREY, **margin)
        frames = figure.subplots(2 * pairs, columns, squeeze=False)
        for axes in frames.flat:
            axes.set(xticks=[], yticks=[], frame_on=False)
        for axes, label in zip(frames[0], heads, strict=True):
            axes.set_title(label, fontsize=style.FINE, pad=2)
        for row in range(pairs):
            index, model_index = divmod(row, len(models))
            model, truth = models[model_index], truths[index]
            tiles = {(0, 0): (truth, "truth")} if model_index == 0 else {}
            for column, n in enumerate(sizes, start=1):
                if (model, n) in drawn:
                    tag, image = f"{index}-{model_index}-{n}", drawn[model, n][index]
                    tiles[0, column] = image, f"image-{tag}"
                    tiles[1, column] = errors[model, n][index], f"error-{tag}"
                    relative = _relative_error(image, truth)
                    label = style.digits(relative, 3) if relative >= _LEAST else f"< {_LEAST}"
                    label = label if math.isfinite(relative) else "n/a"
                    frames[2 * row + 1, column].set_xlabel(label, labelpad=1)
            for (half, column), (values, gid) in tiles.items():
                cmap = ("gray", "RdBu_r")[half]
                low, high = (-scale, scale) if half else grey
                options: Options = {"aspect": shape, "interpolation": "antialiased", "gid": gid}
                options |= {"vmin": low, "vmax": high, "cmap": style.colour_map(cmap)}
                frames[2 * row + half, column].imshow(np.ma.masked_invalid(values), **options)
            name = style.fitted(model or "model", side * aspect)
            frames[2 * row, 0].set_ylabel(name, color=style.DARK)
            frames[2 * row + 1, 0].set_ylabel("error", color=style.GREY)
        return figure
