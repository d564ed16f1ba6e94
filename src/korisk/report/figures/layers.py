"""How far each layer's error grows on its way out, and what each layer adds to the bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.errors import KoriskError, UnreachableError
from korisk.report.figures.style import (
    DARK,
    DPI,
    FINE,
    GREY,
    LEARNED,
    LOOKS,
    PAGE,
    SMALL,
    Axes,
    Entry,
    Figure,
    Line2D,
    Patch,
    axes_in,
    digits,
    fitted,
    foot_height,
    gridded,
    inches,
    inches_of,
    legend_below,
    pale,
    style,
    tick,
)
from korisk.report.figures.ticks import log_ticks
from korisk.theory import BOUNDS, Learned, BoundForm, Network, barron_bound, sample_size

Array = NDArray[np.float64]

MOST_NETWORKS = 6

_KNOWN = "#BBBBBB"
_HEIGHT = 1.75  # inches, of a network's row
_SHIFT = {"paper": -0.26, "minkowski": 0.0, "composed": 0.26}  # beside a layer's place
_MARKS: Mapping[str, dict[str, Any]] = {
    "paper": {"marker": "s", "color": LOOKS[1].colour, "markerfacecolor": "white"},
    "minkowski": {"marker": "^", "color": LOOKS[0].colour},
    "composed": {"marker": "o", "color": DARK},
}
_WORDS = {"paper": "paper", "minkowski": "Minkowski", "composed": "composed"}
_HATCH = {True: "////", False: "...."}  # by whether a layer is learned


@dataclass(frozen=True, kw_only=True)
class Layers:
    """One network by the three forms; what cannot be told is in `reason`, in words."""

    title: str
    network: Network
    amplification: dict[BoundForm, Array]  # (L,) A_l; infinite where a constant is not known
    n: float | None  # the N of the contributions
    contributions: dict[BoundForm, Array]  # (L,) adding up to the bound; empty if it has none
    reason: str


# --- What is drawn -------------------------------------------------------------------------------


def layers(
    title: str, network: Network, *, n: float | None = None, target: float | None = None
) -> Layers:
    """Amplification and contributions at N, or at the N at which the composed bound is `target`."""
    amplification = {form: network.amplification(form) for form in BOUNDS}
    contributions: dict[BoundForm, Array] = {}
    reason = ""
    try:
        if target is not None:
            n = sample_size(network, target)
        if n is not None:
            for form in BOUNDS:
                contributions[form] = barron_bound(network, n, bound=form).contributions
    except UnreachableError:
        reason = f"the target {digits(target or 0.0)}\nis at or below the bound's floor"
    except KoriskError:
        contributions = {}
        reason = "no bound: parameters or Lipschitz\nconstants are not known"
    return Layers(
        title=title,
        network=network,
        amplification=amplification,
        n=n,
        contributions=contributions,
        reason=reason,
    )


# --- The figure ----------------------------------------------------------------------------------


def layers_figure(
    networks: Sequence[tuple[str, Network]],
    *,
    n: float | None = 64,
    target: float | None = None,
    unit: str = "squared error",
) -> Figure | None:
    """A row for each network: A_l of every layer on the left, contributions on the right.

    Contributions are those at N, or at the N that `target` asks for. None without networks.
    """
    drawn = [layers(title, net, n=n, target=target) for title, net in networks[:MOST_NETWORKS]]
    if not drawn:
        return None
    notes = [f"Bounds and their parts are in {unit}."]
    if any(np.isinf(each.amplification["composed"]).any() for each in drawn):
        notes[0] += " ?: a Lipschitz constant further on is not known."
    if len(networks) > len(drawn):
        notes.append(f"{len(drawn)} of {len(networks)} networks are drawn; the rest are left out.")
    with style(fine=True):
        entries = _entries(drawn)
        foot = foot_height(entries, notes, PAGE)
        tall = _HEIGHT * len(drawn) + foot
        figure = Figure(figsize=(PAGE, tall), dpi=DPI)
        for row, each in enumerate(drawn):
            bottom = tall - _HEIGHT * (row + 1) + 0.42
            up = _HEIGHT - 0.42 - 0.40
            left = axes_in(figure, (0.62, bottom, 2.72, up))
            right = axes_in(figure, (4.12, bottom, 2.74, up))
            _draw_amplification(left, each)
            _draw_contributions(right, each)
        legend_below(figure, entries, notes)
        return figure


def _draw_amplification(axes: Axes, each: Layers) -> None:
    title = fitted(each.title, PAGE - 0.8, SMALL, bold=True)
    axes.set_title(title, loc="left", pad=15, fontsize=SMALL, fontweight="bold", parse_math=False)
    series = {form: np.where(found > 0, found, np.nan) for form, found in _finite(each).items()}
    _frame(axes, each, list(series.values()), "amplification")
    for form, found in series.items():
        places = np.arange(len(found)) + _SHIFT[form]
        axes.plot(places, found, gid=f"A-{form}", **_mark(form))
    for place in np.flatnonzero(np.isinf(each.amplification["composed"])).tolist():
        _above(axes, place, "?")
    for place in np.flatnonzero(each.amplification["composed"] == 0).tolist():
        _above(axes, place, "0")


def _finite(each: Layers) -> dict[BoundForm, Array]:
    return {
        form: np.where(np.isfinite(found), found, np.nan)
        for form, found in each.amplification.items()
    }


def _draw_contributions(axes: Axes, each: Layers) -> None:
    series = {
        form: np.where((found > 0) & np.isfinite(found), found, np.nan)
        for form, found in each.contributions.items()
    }
    _frame(axes, each, list(series.values()), "part of the bound")
    if each.n is not None and series:
        words = ", ".join(
            f"{_WORDS[form]} {digits(float(found.sum()), 2)}"
            for form, found in each.contributions.items()
        )
        axes.annotate(
            f"N = {each.n:,.0f}. Bound: {words}",
            (1, 1),
            (0, 5),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="right",
            color=GREY,
        )
    if each.reason:
        axes.text(
            0.5,
            0.5,
            each.reason,
            transform=axes.transAxes,
            ha="center",
            va="center",
            gid="reason",
            color=DARK,
        )
        return
    low = axes.get_ylim()[0]
    for form, found in series.items():
        for place, value in enumerate(found):
            if math.isfinite(value):
                _bar(axes, each, form, place, float(value), low)
        places = np.arange(len(found)) + _SHIFT[form]
        axes.plot(places, found, gid=f"contribution-{form}", **_mark(form))
    if series:
        nothing = np.all([np.isnan(found) for found in series.values()], axis=0)
        for place in np.flatnonzero(nothing).tolist():
            _above(axes, place, "0")


def _bar(axes: Axes, each: Layers, form: BoundForm, place: int, value: float, low: float) -> None:
    learned = isinstance(each.network.layers[place], Learned)
    axes.bar(
        [place + _SHIFT[form]],
        [value - low],
        bottom=low,
        width=0.24,
        zorder=2.2,
        **_box(learned=learned),
    )


def _box(*, learned: bool) -> dict[str, Any]:
    colour = LEARNED if learned else _KNOWN
    return {
        "facecolor": pale(colour, 0.55),
        "edgecolor": colour,
        "hatch": _HATCH[learned],
        "linewidth": 0.7,
    }


def _mark(form: BoundForm) -> dict[str, Any]:
    shared = {"markersize": 4.2, "linestyle": "none", "markeredgewidth": 0.9, "zorder": 3}
    return {**shared, **_MARKS[form]}


def _frame(axes: Axes, each: Layers, series: Sequence[Array], label: str) -> None:
    """A logarithmic axis over all values, and the layers' names in their colours."""
    axes.set_yscale("log")
    flat = np.concatenate([*series, np.zeros(0)])
    flat = flat[np.isfinite(flat)]
    low, high = (float(flat.min()), float(flat.max())) if flat.size else (0.5, 2.0)
    room = max(2.0, (high / low) ** 0.12)
    low, high = max(low / room, 1e-300), min(high * room, 1e300)
    axes.set_ylim(low, high)
    up = inches(axes)[1]
    marks = log_ticks(low, high)
    tick(axes.yaxis, dict(list(marks.items())[:: math.ceil(len(marks) / (up / 0.16))]))
    count = len(each.network)
    room = inches(axes)[0] / count
    names = [fitted(name, max(0.8, 0.9 * room)) for name in each.network.names]
    axes.set_xlim(-0.6, count - 0.4)
    axes.set_xticks(range(count))
    slanted = any(inches_of(name) > 0.95 * room for name in names)
    if slanted:
        names = [fitted(f"{index + 1} {name}", 0.4) for index, name in enumerate(names)]
    axes.set_xticklabels(names, rotation=35 if slanted else 0, parse_math=False)
    for text, layer in zip(axes.get_xticklabels(), each.network, strict=True):
        text.set_color("#006B4E" if isinstance(layer, Learned) else "#555555")
    axes.set_ylabel(label, parse_math=False)
    axes.set_xlabel("layer, input side first")
    gridded(axes)
    axes.grid(visible=False, axis="x")


def _above(axes: Axes, place: float, text: str) -> None:
    """A word at a layer's place, near the lower edge."""
    axes.text(
        place,
        0.04,
        text,
        transform=axes.get_xaxis_transform(),
        ha="center",
        va="bottom",
        color=GREY,
        fontsize=FINE,
    )


def _entries(drawn: Sequence[Layers]) -> list[Entry]:
    entries: list[Entry] = [(Line2D([], [], **_mark(form)), _WORDS[form]) for form in BOUNDS]
    if any(each.contributions for each in drawn):
        entries.append((Patch(**_box(learned=True)), "learned layer"))
        entries.append((Patch(**_box(learned=False)), "known layer (adds its mismatch alone)"))
    return entries
