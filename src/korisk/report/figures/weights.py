"""The learned weights W over views and bins, against the analytic ones that training began with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.report.contents import Pictures
from korisk.report.figures.style import (
    DARK,
    DPI,
    LARGE,
    LOOKS,
    MINUS,
    PAGE,
    Axes,
    Figure,
    Line2D,
    Normalize,
    ScalarMappable,
    axes_in,
    colour_map,
    colours,
    digits,
    fitted,
    gridded,
    legend_below,
    style,
)

Array = NDArray[np.float64]

MOST_PROFILES = 5  # sizes whose profiles are drawn

_LEFT, _ACROSS, _UP = 0.50, 2.25, 1.35  # inches, of an image of weights
_CLIPPED = 99.0  # percent of the changes lie within their colours
_DASHES = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (6, 1, 1, 1, 1, 1)))


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weights of one model at its largest N, and what became of them on the way."""

    model: str
    n: int  # the largest
    learned: Array  # (V, B)
    analytic: Array | None  # (V, B): n = 0; None where it was not kept
    profiles: dict[int, Array]  # by N: (B,), the mean over views; 0 is analytic

    @property
    def change(self) -> Array | None:
        """(V, B): learned - analytic."""
        return None if self.analytic is None else self.learned - self.analytic


# --- What is drawn -------------------------------------------------------------------------------


def weights(pictures: Pictures, model: str | None = None) -> Weights | None:
    """The weights of a model, by default the first that has any; None where there are none."""
    names = [model] if model is not None else list(pictures.weights)
    for name in names:
        found = {n: w for n, w in pictures.weights.get(name, {}).items() if w.ndim == 2 and w.size}
        trained = sorted(n for n in found if n > 0)
        if not trained:
            continue
        learned, analytic = found[trained[-1]], found.get(0)
        if analytic is not None and analytic.shape != learned.shape:
            analytic = None
        sizes = [n for n in _spread(trained) if found[n].shape == learned.shape]
        profiles = {n: _profile(found[n]) for n in ([] if analytic is None else [0]) + sizes}
        return Weights(
            model=name, n=trained[-1], learned=learned, analytic=analytic, profiles=profiles
        )
    return None


def _spread(sizes: Sequence[int]) -> list[int]:
    """Few of the sizes, the first and the last among them."""
    places = np.linspace(0, len(sizes) - 1, min(len(sizes), MOST_PROFILES - 1))
    return [sizes[int(place)] for place in np.unique(places.round())]


def _profile(values: Array) -> Array:
    """The mean over the views whose weight is a number; nan where none is."""
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    count = known.sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


# --- The figure ----------------------------------------------------------------------------------


def weights_figure(
    pictures: Pictures, *, title: str = "", model: str | None = None
) -> Figure | None:
    """Analytic and learned weights, their difference, and means over views for several N.

    Without the analytic weights there are the learned ones and the means. None where the study
    kept no weights of a trained model.
    """
    found = weights(pictures, model)
    if found is None:
        return None
    with style(fine=True):
        figure = Figure(figsize=(PAGE, 4.7 if found.analytic is not None else 2.7), dpi=DPI)
        height = figure.get_size_inches()[1]
        figure.text(
            0.08 / PAGE,
            1 - 0.08 / height,
            fitted(title, PAGE - 0.16, LARGE, bold=True),
            va="top",
            fontsize=LARGE,
            fontweight="bold",
            color=DARK,
            parse_math=False,
        )
        top = height - 0.55 - _UP
        _draw_images(figure, found, top)
        row = top if found.analytic is None else top - _UP - 0.65
        left = _LEFT + PAGE / 2
        _draw_profiles(axes_in(figure, (left, row, _ACROSS + 0.55, _UP)), found)
        _legend(figure, found, seed=pictures.seed)
        return figure


def _draw_images(figure: Figure, found: Weights, top: float) -> None:
    scale = _scale([found.learned] + ([found.analytic] if found.analytic is not None else []))
    last = f"learned from N = {found.n:,}"
    if found.analytic is None or found.change is None:
        _image(figure, (_LEFT, top), found.learned, last, scale, "viridis", "learned")
        return
    sizes = np.abs(_finite(found.change))
    most = float(sizes.max(initial=0.0))
    reach = float(np.percentile(sizes, _CLIPPED)) if most > 0 else 0.0
    reach = reach or most or 1.0
    right, lower = _LEFT + PAGE / 2, top - _UP - 0.65
    _image(figure, (_LEFT, top), found.analytic, "analytic", scale, "viridis", "analytic")
    _image(figure, (right, top), found.learned, last, scale, "viridis", "learned")
    words = f"learned {MINUS} analytic, N = {found.n:,}"
    words = words if most > 0 else "learned = analytic: no weight changed"
    extend = "both" if most > reach else "neither"
    _image(figure, (_LEFT, lower), found.change, words, (-reach, reach), "RdBu_r", "change", extend)


def _image(
    figure: Figure,
    corner: tuple[float, float],
    values: Array,
    title: str,
    limits: tuple[float, float],
    cmap: str,
    gid: str,
    extend: str = "neither",
) -> None:
    """One image over bins and views, with its scale."""
    left, bottom = corner
    axes = axes_in(figure, (left, bottom, _ACROSS, _UP))
    views, bins = values.shape
    made = axes.imshow(
        np.ma.masked_invalid(values),
        cmap=colour_map(cmap),
        vmin=limits[0],
        vmax=limits[1],
        aspect="auto",
        interpolation="antialiased",
        extent=(-0.5, bins - 0.5, views - 0.5, -0.5),
    )
    made.set_gid(gid)
    axes.set(xlabel="detector bin", ylabel="view")
    axes.locator_params(integer=True, nbins=6)
    axes.set_title(title, loc="left", pad=4)
    mappable = ScalarMappable(Normalize(*limits), colour_map(cmap))
    label = "change of weight" if cmap == "RdBu_r" else "weight"
    colours(figure, (left + _ACROSS + 0.06, bottom, 0.09, _UP), mappable, label, extend=extend)


def _scale(parts: Sequence[Array]) -> tuple[float, float]:
    """From the smallest to the largest weight, with some room where all are the same."""
    values = np.concatenate([_finite(part) for part in parts])
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if high - low > 1e-6 * max(abs(low), abs(high)):
        return low, high
    room = 0.05 * abs(high) or 1.0
    return low - room, high + room


def _finite(values: Array) -> Array:
    return values[np.isfinite(values)]


def _draw_profiles(axes: Axes, found: Weights) -> None:
    for place, (n, profile) in enumerate(found.profiles.items()):
        bins = np.arange(len(profile))
        axes.plot(bins, profile, gid=f"profile-{n}", **_line(place, n))
    axes.set(xlabel="detector bin", ylabel="mean weight over views")
    axes.set_title("means over views", loc="left", pad=4)
    axes.set_xlim(-0.5, max(len(found.learned[0]) - 0.5, 0.5))
    low, high = _scale(list(found.profiles.values()))
    room = 0.06 * (high - low)
    axes.set_ylim(low - room, high + room)
    axes.locator_params(axis="x", integer=True, nbins=6)
    axes.locator_params(axis="y", nbins=5)
    axes.ticklabel_format(axis="y", useOffset=False)
    gridded(axes)


def _line(place: int, n: int) -> dict[str, Any]:
    if n == 0:
        return {"color": DARK, "linewidth": 1.6, "linestyle": "-"}
    chosen = (LOOKS[5], LOOKS[4], LOOKS[3], LOOKS[0], LOOKS[1])[place % 5]
    return {"color": chosen.colour, "linewidth": 1.0, "linestyle": _DASHES[place % 5]}


def _legend(figure: Figure, found: Weights, *, seed: int) -> None:
    entries = [
        (Line2D([], [], **_line(place, n)), "analytic" if n == 0 else f"N = {n:,}")
        for place, n in enumerate(found.profiles)
    ]
    spread = _finite(found.learned)
    words = f"Weights of {fitted(found.model or 'the model', 2.5)}, seed {seed}"
    if spread.size:
        words += f"; learned ones from {digits(spread.min(), 3)} to {digits(spread.max(), 3)}"
    legend_below(figure, entries, [f"{words}."])
