"""What a study kept to look at: reconstructions over images of their errors, and learned weights.

The weights W are drawn over views and bins, against the analytic ones that training began with.
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

MOST_SIZES = 10  # columns of N, untrained among them
MOST_MODELS = 4
_DASHES = ("--", "-.", ":") * 3  # of the profiles of several N
MOST_PROFILES = 5  # sizes whose profiles of weights are drawn
_MOST_PAIRS = 4  # of rows: an image and its error

_LARGEST = 0.9  # inches, the side of an image
_TALLEST = 8.0  # inches, of all rows
_LEAST = 0.001  # relative RMSE: stored pictures are rounded, a smaller one would tell the rounding


def _spread(sizes: Sequence[int], most: int) -> list[int]:
    """At most so many of the sizes, the first and the last among them."""
    places = np.linspace(0, len(sizes) - 1, min(len(sizes), most))
    return [sizes[int(place)] for place in np.unique(places.round())]


def reconstruction_figure(
    pictures: Pictures, *, title: str = "", narrow: bool = False
) -> Figure | None:
    """Each test image, then each model at every N over its signed error, image - phantom.

    If `narrow`, it has fewer N.

    The number under an image is its own relative RMSE, the root of the squared error over that of
    the phantom. None where there is no image to draw.
    """
    images = {model: found for model, found in pictures.images.items() if found}
    if not images or not pictures.truth.size:
        return None
    models = list(images)[:MOST_MODELS]
    truths = pictures.truth[: max(1, _MOST_PAIRS // len(models))]
    known = sorted({n for model in models for n in images[model]})
    sizes = _spread(known, 3 if narrow else MOST_SIZES)
    shown = {(m, n): images[m][n][: len(truths)] for m in models for n in sizes if n in images[m]}
    with np.errstate(all="ignore"):
        errors = {key: images - truths for key, images in shown.items()}
    grey = grey_scale(truths)
    reach, most = error_scale(errors.values())
    low, high = (style.digits(end, 3) for end in grey)
    notes = [
        f"Under each image: its own relative RMSE, ‖image {style.MINUS} phantom‖ / ‖phantom‖. "
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
        ((style.COLUMN if narrow else style.PAGE) - 1.1) / columns,
        (_TALLEST / pairs - 0.3) / 2 / shape,
    )
    width = max(style.COLUMN, columns * side + 1.1)
    lines = [line for note in notes for line in style.wrapped(note, width - 0.16)]
    heads = ["phantom", *(f"N = {n:,}" if n else "untrained" for n in sizes)]
    if any(style.inches_of(head) > side for head in heads):
        heads = ["phantom", *(style.digits(n, 2) if n else "none" for n in sizes)]
    height = pairs * (2 * side * shape + 0.22) + 0.45 + 0.13 * len(lines)
    with style.settings(fine=True):
        figure = Figure(figsize=(width, height), dpi=style.DPI, layout="constrained")
        layout: Options = {"w_pad": 0.02, "h_pad": 0.02, "wspace": 0, "hspace": 0}
        figure.get_layout_engine().set(**layout)  # type: ignore[union-attr]
        text = style.fitted(title, width - 0.16, style.LARGE, bold=True)
        start: Options = {"x": 0.08 / width, "ha": "left"}
        figure.suptitle(text, fontsize=style.LARGE, fontweight="bold", color=style.DARK, **start)
        figure.supxlabel("\n".join(lines), fontsize=style.FINE, color=style.GREY, **start)
        frames = figure.subplots(2 * pairs, columns, squeeze=False)
        for axes in frames.flat:
            axes.set(xticks=[], yticks=[], frame_on=False)
        for axes, words in zip(frames[0], heads, strict=True):
            axes.set_title(words, fontsize=style.FINE, pad=2)
        scales = {"gray": ("value", grey), "RdBu_r": ("error", (-reach, reach))}
        for half, (cmap, (label, limits)) in enumerate(scales.items()):
            mappable = ScalarMappable(Normalize(*limits), style.colour_map(cmap))
            rows = list(frames[half * pairs : (half + 1) * pairs].flat)
            extend = "both" if label == "error" and most > reach else "neither"
            panels.colours(figure, rows, mappable, label, extend=extend)
        for row in range(pairs):
            index, place = divmod(row, len(models))
            model, truth = models[place], truths[index]
            tiles = {(0, 0): (truth, "truth")} if place == 0 else {}
            for column, n in enumerate(sizes, start=1):
                if (model, n) in shown:
                    tag, image = f"{index}-{place}-{n}", shown[model, n][index]
                    tiles[0, column] = image, f"image-{tag}"
                    tiles[1, column] = errors[model, n][index], f"error-{tag}"
                    off = relative_error(image, truth)
                    words = style.digits(off, 3) if off >= _LEAST else f"< {_LEAST}"
                    words = words if math.isfinite(off) else "n/a"
                    frames[2 * row + 1, column].set_xlabel(words, labelpad=1)
            for (below, column), (values, gid) in tiles.items():
                cmap = ("gray", "RdBu_r")[below]
                limits, colours = scales[cmap][1], style.colour_map(cmap)
                options: Options = {"aspect": "auto", "interpolation": "antialiased", "gid": gid}
                options |= {"vmin": limits[0], "vmax": limits[1], "cmap": colours}
                frames[2 * row + below, column].imshow(np.ma.masked_invalid(values), **options)
            name = style.fitted(model or "model", side * shape)
            frames[2 * row, 0].set_ylabel(name, color=style.DARK)
            frames[2 * row + 1, 0].set_ylabel("error", color=style.GREY)
        return figure


def weights_figure(pictures: Pictures, *, title: str = "", narrow: bool = False) -> Figure | None:
    """Analytic and learned weights over views and bins, their difference, and means over views.

    Two panels stand in a row, or one if `narrow`.
    They are those of the first model that has any, at its largest N, with the means for several N.
    Without the analytic weights there are the learned ones and the means. None where no model has
    weights.
    """
    model = next((name for name, weights in pictures.weights.items() if any(weights)), None)
    if model is None:
        return None
    # Of a cone's detector, (views, rows, columns), the middle row.
    stored = pictures.weights[model].items()
    flat = {n: w[:, w.shape[1] // 2] if w.ndim == 3 else w for n, w in stored}
    last = max(flat)
    learned = flat[last]
    same = {n: w for n, w in flat.items() if w.shape == learned.shape}
    drawn = {"learned": (learned, f"learned from N = {last:,}")}
    reach = most = 0.0
    if 0 in same:
        change = learned - same[0]
        reach, most = error_scale([change])
        words = f"learned {style.MINUS} analytic, N = {last:,}"
        drawn = {"analytic": (same[0], "analytic"), **drawn, "change": (change, words)}
    low, high = grey_scale(np.stack([same.get(0, learned), learned]))
    sizes = [n for n in (0, *_spread(sorted(set(same) - {0}), MOST_PROFILES - 1)) if n in same]
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
            len(drawn) + 1, entries, [note], margins=margins, height=2.1, across=2, narrow=narrow
        )
        for axes, (gid, (values, words)) in zip(frames, drawn.items(), strict=False):
            views, bins = values.shape
            changed = gid == "change"
            options: Options = {
                "cmap": style.colour_map("RdBu_r" if changed else "viridis"),
                "vmin": -reach if changed else low,
                "vmax": reach if changed else high,
                "extent": (-0.5, bins - 0.5, views - 0.5, -0.5),
            }
            image = axes.imshow(np.ma.masked_invalid(values), aspect="auto", gid=gid, **options)
            axes.set(xlabel="detector bin", ylabel="view")
            axes.locator_params(integer=True, nbins=6)
            axes.text(0, 1.04, words, transform=axes.transAxes, fontsize=style.SMALL)
            extend = "both" if changed and most > reach else "neither"
            label = "change of weight" if changed else "weight"
            panels.colours(figure, [axes], image, label, extend=extend)
        panels.head(
            frames[0],
            title,
            size=style.SMALL if narrow else style.LARGE,
            room=0.8 if narrow else style.PAGE / 2,
            lift=12,
        )
        axes, profiles = frames[-1], []
        for n in sizes:  # the mean over the views whose weight is a number
            profiles.append(np.ma.masked_invalid(same[n]).mean(axis=0).filled(np.nan))
            axes.plot(np.arange(len(profiles[-1])), profiles[-1], gid=f"profile-{n}", **looks[n])
        axes.set(xlabel="detector bin", ylabel="mean weight over views")
        axes.text(0, 1.04, "means over views", transform=axes.transAxes, fontsize=style.SMALL)
        axes.set_xlim(-0.5, max(learned.shape[1] - 0.5, 0.5))
        axes.set_ylim(*panels.limits(profiles, log=False))
        axes.locator_params(axis="x", integer=True, nbins=6)
        panels.ticks(axes.yaxis)
        panels.gridded(axes)
        return figure
