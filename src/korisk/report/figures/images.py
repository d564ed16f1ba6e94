"""Stored images of a study: reconstructions with their errors, and learned weights.

The weights W are drawn over views and bins, beside the analytic weights that training started with.
"""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from korisk.report.contents import Pictures, error_scale, grey_scale, relative_error
from korisk.report.figures import panels, style
from korisk.report.figures.panels import Entry
from korisk.report.figures.style import Options
from korisk.texts import counted

MOST_SIZES = 10  # columns of N, untrained among them
MOST_MODELS = 4
_DASHES = ("--", "-.", ":") * 3  # of the profiles of several N
MOST_PROFILES = 5  # sizes whose mean weights are drawn
_MOST_PAIRS = 4  # pairs of rows: an image and its error

_LARGEST = 0.9  # inches; side of an image
_TALLEST = 8.0  # inches; height of all rows, which must fit on a page
_LEAST = 0.001  # relative RMSE; stored images are rounded, so smaller values are not resolved


def _spread(sizes: Sequence[int], count: int) -> list[int]:
    """At most `count` of the sizes, evenly spread, with the first and the last."""
    positions = np.linspace(0, len(sizes) - 1, min(len(sizes), count))
    return [sizes[int(position)] for position in np.unique(positions.round())]


def reconstruction_figure(
    pictures: Pictures, *, title: str = "", narrow: bool = False
) -> Figure | None:
    """Draw each test image, and every model at every N above its signed error, image - phantom.

    The paper's (fig:gpu128-recons) and (fig:gpu256-recons), of any study. If `narrow`, it has fewer
    N. The number under an image is its relative RMSE, the norm of the error over that of the
    phantom. None if there is no image to draw.
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
    grey = grey_scale(truths)
    scale, largest = error_scale(errors.values())
    low, high = (style.digits(end, 3) for end in grey)
    notes = [
        f"Under each image: its own relative RMSE, ‖image {style.MINUS} phantom‖ / ‖phantom‖. "
        f"Greys from {low} to {high} for all images; seed {pictures.seed}."
    ]
    if largest > scale:
        notes[0] += f" Errors beyond ±{style.digits(scale, 2)} have the last colour."
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
        figure = Figure(figsize=(width, height), dpi=style.DPI, layout="constrained")
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
        scales = {"gray": ("value", grey), "RdBu_r": ("error", (-scale, scale))}
        for half, (cmap, (label, limits)) in enumerate(scales.items()):
            mappable = ScalarMappable(Normalize(*limits), style.colour_map(cmap))
            # The bar of images stands beside the upper half of the rows, that of errors below it.
            rows = list(frames[half * pairs : (half + 1) * pairs].flat)
            extend = "both" if label == "error" and largest > scale else "neither"
            panels.colours(figure, rows, mappable, label, extend=extend)
        for row in range(pairs):
            index, model_index = divmod(row, len(models))
            model, truth = models[model_index], truths[index]
            tiles = {(0, 0): (truth, "truth")} if model_index == 0 else {}
            for column, n in enumerate(sizes, start=1):
                if (model, n) in drawn:
                    tag, image = f"{index}-{model_index}-{n}", drawn[model, n][index]
                    tiles[0, column] = image, f"image-{tag}"
                    tiles[1, column] = errors[model, n][index], f"error-{tag}"
                    relative = relative_error(image, truth)
                    label = style.digits(relative, 3) if relative >= _LEAST else f"< {_LEAST}"
                    label = label if math.isfinite(relative) else "n/a"
                    frames[2 * row + 1, column].set_xlabel(label, labelpad=1)
            for (half, column), (values, gid) in tiles.items():
                cmap = ("gray", "RdBu_r")[half]
                limits, colours = scales[cmap][1], style.colour_map(cmap)
                options: Options = {"aspect": "auto", "interpolation": "antialiased", "gid": gid}
                options |= {"vmin": limits[0], "vmax": limits[1], "cmap": colours}
                frames[2 * row + half, column].imshow(np.ma.masked_invalid(values), **options)
            name = style.fitted(model or "model", side * aspect)
            frames[2 * row, 0].set_ylabel(name, color=style.DARK)
            frames[2 * row + 1, 0].set_ylabel("error", color=style.GREY)
        return figure


def weights_figure(pictures: Pictures, *, title: str = "", narrow: bool = False) -> Figure | None:
    """Draw analytic and learned weights over views and bins, their difference, and their means.

    There are two panels a row, or one if `narrow`. They show the first model that has weights, at
    its largest N; means over views are drawn for several N. Without analytic weights, only the
    learned ones and the means are drawn. None if no model has weights.
    """
    model = next((name for name, weights in pictures.weights.items() if any(weights)), None)
    if model is None:
        return None
    # Weights of a cone beam are (views, rows, columns): show the middle row.
    by_size = pictures.weights[model].items()
    matrices = {n: w[:, w.shape[1] // 2] if w.ndim == 3 else w for n, w in by_size}
    largest_n = max(matrices)
    learned = matrices[largest_n]
    weights = {n: w for n, w in matrices.items() if w.shape == learned.shape}
    maps = {"learned": (learned, f"learned from N = {largest_n:,}")}
    scale = largest = 0.0
    if 0 in weights:
        change = learned - weights[0]
        scale, largest = error_scale([change])
        text = f"learned {style.MINUS} analytic, N = {largest_n:,}"
        maps = {"analytic": (weights[0], "analytic"), **maps, "change": (change, text)}
    # One scale for analytic and learned weights, so that their colours can be compared.
    low, high = grey_scale(np.stack([weights.get(0, learned), learned]))
    trained = sorted(set(weights) - {0})
    sizes = [*([0] if 0 in weights else []), *_spread(trained, MOST_PROFILES - 1)]
    looks: dict[int, Options] = {
        n: {"color": look.colour, "linewidth": 1.0, "linestyle": dashes}
        for n, look, dashes in zip(sizes, style.LOOKS, _DASHES, strict=False)
    }
    if 0 in looks:
        looks[0] = {"color": style.DARK, "linewidth": 1.6}
    entries: list[Entry] = [
        (panels.line(**look), f"N = {n:,}" if n else "analytic") for n, look in looks.items()
    ]
    note = f"Weights of {style.fitted(model or 'the model', 2.5)}, seed {pictures.seed}."
    margins = (0.50, 0.10, 0.40, 0.42)
    with style.settings(fine=True):
        figure, frames = panels.sheet(
            len(maps) + 1, entries, [note], margins=margins, height=2.1, across=2, narrow=narrow
        )
        for axes, (gid, (values, text)) in zip(frames, maps.items(), strict=False):
            views, bins = values.shape
            is_change = gid == "change"
            options: Options = {
                "cmap": style.colour_map("RdBu_r" if is_change else "viridis"),
                "vmin": -scale if is_change else low,
                "vmax": scale if is_change else high,
                "extent": (-0.5, bins - 0.5, views - 0.5, -0.5),
            }
            image = axes.imshow(np.ma.masked_invalid(values), aspect="auto", gid=gid, **options)
            axes.set(xlabel="detector bin", ylabel="view")
            axes.locator_params(integer=True, nbins=6)
            axes.text(0, 1.04, text, transform=axes.transAxes, fontsize=style.SMALL)
            extend = "both" if is_change and largest > scale else "neither"
            label = "change of weight" if is_change else "weight"
            panels.colours(figure, [axes], image, label, extend=extend)
        size, room = (style.SMALL, 0.8) if narrow else (style.LARGE, style.PAGE / 2)
        panels.head(frames[0], title, size=size, room=room, lift=12)
        axes, profiles = frames[-1], []
        # NaN weights are left out of the mean.
        for n in sizes:
            profiles.append(np.ma.masked_invalid(weights[n]).mean(axis=0).filled(np.nan))
            axes.plot(np.arange(len(profiles[-1])), profiles[-1], gid=f"profile-{n}", **looks[n])
        axes.set(xlabel="detector bin", ylabel="mean weight over views")
        axes.text(0, 1.04, "means over views", transform=axes.transAxes, fontsize=style.SMALL)
        axes.set_xlim(-0.5, max(learned.shape[1] - 0.5, 0.5))
        axes.set_ylim(*panels.limits(profiles, log=False))
        axes.locator_params(axis="x", integer=True, nbins=6)
        panels.ticks(axes.yaxis)
        panels.gridded(axes)
        return figure
