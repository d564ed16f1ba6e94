"""Measured errors below the three bounds over N, and what each layer adds to the bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.report.figures.style import (
    DARK,
    GREY,
    LOOKS,
    MOST_PANELS,
    PANEL_HEIGHT,
    REST,
    SMALL,
    Axes,
    Entry,
    Figure,
    Line2D,
    Look,
    Patch,
    fitted,
    foot_height,
    gridded,
    inches,
    legend_below,
    sheet,
    style,
    thinned,
    tick,
    wrapped,
)
from korisk.report.figures.ticks import Ticks, doubling_ticks, log_ticks
from korisk.studies.theorem.check import Check, Group
from korisk.studies.theorem.theorem import PointTheorem
from korisk.theory import BOUNDS, BoundForm

Array = NDArray[np.float64]


_MARGINS = (0.56, 0.14, 0.40, 0.34)
_GAP = "#ececec"  # between the error and the tightest bound
_VIOLATED = "#b00000"
_BOUNDS: Mapping[BoundForm, tuple[str, dict[str, Any]]] = {  # colours and marks as in `layers`
    "paper": ("bound: paper", {"color": LOOKS[1].colour, "marker": "s", "linestyle": "-."}),
    "minkowski": ("bound: Minkowski", {"color": LOOKS[0].colour, "marker": "^", "linestyle": ":"}),
    "composed": ("bound: composed", {"color": DARK, "marker": "o", "linestyle": "--"}),
}
_LAYERS = (LOOKS[2], LOOKS[4], LOOKS[5], LOOKS[7])  # colours that no bound has
_ERROR: dict[str, Any] = {"color": LOOKS[3].colour, "marker": "D", "linestyle": "-"}


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """One model at one point: errors and bounds over N >= 1, means of seeds; nan is not known."""

    point: str
    model: str
    n: Array
    error: Array
    bounds: Mapping[BoundForm, Array]
    single: tuple[tuple[int, float], ...]  # N and error of every seed
    violated: tuple[tuple[int, float], ...]  # those of them that lie above a bound
    note: str  # in how many it holds
    reason: str  # why there is no bound at all


@dataclass(frozen=True, kw_only=True)
class LayerParts:
    """The parts of one model's composed bound that come from each erring layer, over N."""

    point: str
    model: str
    n: Array
    parts: Mapping[str, Array]  # by layer, input side first; they add up to the bound
    total: Array
    learned: frozenset[str]


Panel = Bounds | LayerParts


# --- What is drawn -------------------------------------------------------------------------------


def theorem_panels(points: Iterable[PointTheorem]) -> list[Panel]:
    """For each point and model its bounds, then its layers where several err."""
    panels: list[Panel] = []
    for point in points:
        for model in dict.fromkeys(group.model for group in point.groups):
            groups = [group for group in point.groups if group.model == model and group.n >= 1]
            if groups:
                panels.append(_bounds(point.name, model, groups))
                parts = _parts(point.name, model, groups)
                panels += [parts] if len(parts.parts) > 1 else []
    return panels


def _bounds(point: str, model: str, groups: Sequence[Group]) -> Bounds:
    checks = [check for group in groups for check in group.checks]
    judged = [check for check in checks if check.judged]
    reasons = [check.reason for check in checks if check.reason]
    return Bounds(
        point=point,
        model=model,
        n=np.array([float(group.n) for group in groups]),
        error=_drawable(group.error for group in groups),
        bounds={form: _drawable(g.bound(form) for g in groups) for form in BOUNDS},
        single=tuple(_places(checks)),
        violated=tuple(_places(check for check in judged if not check.holds)),
        note=_note(judged),
        reason="" if judged or not reasons else reasons[0],
    )


def _note(judged: Sequence[Check]) -> str:
    if not judged:
        return "not known"
    held = sum(check.holds is True for check in judged)
    same = held == len(judged) and all(check.only_the_last for check in judged)
    return f"holds in {held} of {len(judged)}" + ("; bound = error" if same else "")


def _parts(point: str, model: str, groups: Sequence[Group]) -> LayerParts:
    found = [group.contributions("composed") for group in groups]
    names = {name for parts in found for name in parts}
    network = next((group.network for group in groups if group.network), None)
    layers = [layer for layer in network or () if layer.name in names]
    return LayerParts(
        point=point,
        model=model,
        n=np.array([float(group.n) for group in groups]),
        parts={layer.name: _drawable(p.get(layer.name) for p in found) for layer in layers},
        total=_drawable(group.bound("composed") for group in groups),
        learned=frozenset(layer.name for layer in layers if layer.kind == "learned"),
    )


def _places(checks: Iterable[Check]) -> list[tuple[int, float]]:
    return [(check.n, check.error) for check in checks if _positive(check.error)]


def _drawable(values: Iterable[float | None]) -> Array:
    """What a logarithmic axis can show; the rest is nan."""
    return np.array(
        [value if value is not None and _positive(value) else np.nan for value in values]
    )


def _positive(value: float) -> bool:
    return 1e-300 < value < 1e300


# --- The figure ----------------------------------------------------------------------------------


def theorem_figure(points: Sequence[PointTheorem]) -> Figure | None:
    """All panels, three a row; None where there is none."""
    panels = theorem_panels(points)
    drawn = panels[:MOST_PANELS]
    if not drawn:
        return None
    looks = _looks(drawn)
    with style(fine=True):
        entries, notes = _entries(drawn, looks), _notes(panels)
        foot = foot_height(entries, notes, 3.4 if len(drawn) == 1 else 7.0)
        figure, frames = sheet(len(drawn), _MARGINS, height=PANEL_HEIGHT, foot=foot)
        for axes, each in zip(frames, drawn, strict=True):
            if isinstance(each, Bounds):
                _draw_bounds(axes, each)
            else:
                _draw_parts(axes, each, looks)
        legend_below(figure, entries, notes)
        return figure


def _looks(drawn: Sequence[Panel]) -> dict[str, Look]:
    """A look for each layer, the same in all panels; those beyond the colours are grey."""
    names = dict.fromkeys(n for each in drawn if isinstance(each, LayerParts) for n in each.parts)
    free = iter(_LAYERS)
    return {name: next(free, REST) for name in names}


def _draw_bounds(axes: Axes, each: Bounds) -> None:
    single = np.array([error for _, error in each.single])
    _frame(axes, each, [each.error, single, *each.bounds.values()], each.note)
    axes.set_ylabel("expected squared error")
    axes.fill_between(
        each.n,
        each.error,
        each.bounds["composed"],
        where=(each.error <= each.bounds["composed"]).tolist(),
        facecolor=_GAP,
        linewidth=0,
        zorder=1.5,
    )
    for form, values in each.bounds.items():
        axes.plot(each.n, values, gid=f"bound-{form}", zorder=2.5, **_line(_BOUNDS[form][1]))
    if len(each.single) > np.count_nonzero(np.isfinite(each.error)):
        dots: dict[str, Any] = {
            "marker": "D",
            "markersize": 1.6,
            "linestyle": "none",
            "markeredgewidth": 0,
        }
        x, y = zip(*each.single, strict=True)
        axes.plot(x, y, gid="seeds", alpha=0.5, color=_ERROR["color"], zorder=2.6, **dots)
    axes.plot(each.n, each.error, gid="error", zorder=2.8, **_line(_ERROR, filled=True))
    if each.violated:
        x, y = zip(*each.violated, strict=True)
        axes.plot(x, y, gid="violated", zorder=3.2, **_cross())
    if each.reason:
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (high / low) ** 1.1)  # room for words above the errors
        _tick_height(axes)
        _say(axes, f"no bound: {each.reason.partition(';')[0]}")


def _draw_parts(axes: Axes, each: LayerParts, looks: Mapping[str, Look]) -> None:
    _frame(axes, each, [each.total, *each.parts.values()], "composed bound by layer")
    axes.set_ylabel("part of the bound")
    axes.plot(each.n, each.total, gid="total", zorder=2.4, **_line(_BOUNDS["composed"][1]))
    for number, (name, values) in enumerate(each.parts.items(), start=1):
        look = _layer_line(looks[name], learned=name in each.learned)
        axes.plot(each.n, values, gid=f"layer-{number}", zorder=2.5, **look)


def _line(look: Mapping[str, Any], *, filled: bool = False) -> dict[str, Any]:
    face = look["color"] if filled else "white"
    shared = {"markersize": 3.4, "markeredgewidth": 0.8, "linewidth": 1.6 if filled else 1.0}
    return {**shared, "markerfacecolor": face, **look}


def _layer_line(look: Look, *, learned: bool) -> dict[str, Any]:
    mark = look.mark(size=3.6) | {"markeredgewidth": 0.8, "linewidth": 1.1}
    return mark | {"linestyle": "-" if learned else (0, (4, 1.5))}


def _cross() -> dict[str, Any]:
    return {
        "marker": "x",
        "markersize": 6.5,
        "markeredgewidth": 1.6,
        "color": _VIOLATED,
        "linestyle": "none",
    }


def _frame(axes: Axes, each: Panel, series: Sequence[Array], note: str) -> None:
    """Logarithmic axes around all values, with the point, the model and a note above."""
    across, _ = inches(axes)
    title = fitted(each.point, across + _MARGINS[1], SMALL, bold=True)
    axes.set_title(title, loc="left", pad=13, fontweight="bold", parse_math=False)
    model = fitted(each.model or "model", 0.45 * across)
    axes.annotate(
        fitted(f"{model}: {note}", across + _MARGINS[1]),
        (0, 1),
        (0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        color=GREY,
        parse_math=False,
    )
    flat = np.concatenate(list(series))
    flat = flat[np.isfinite(flat)]
    low, high = (float(flat.min()), float(flat.max())) if flat.size else (0.5, 2.0)
    room = max(1.5, (high / low) ** 0.07)
    left, right = float(each.n.min()) / 1.25, float(each.n.max()) * 1.25
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(low / room, high * room))
    axes.set_xlabel("training samples N")
    tick(axes.xaxis, thinned(_sample_ticks(each.n, left, right), across))
    _tick_height(axes)
    gridded(axes)


def _tick_height(axes: Axes) -> None:
    marks = log_ticks(*axes.get_ylim())
    most = inches(axes)[1] / 0.16
    tick(axes.yaxis, dict(list(marks.items())[:: math.ceil(len(marks) / most)]))


def _sample_ticks(sizes: Array, left: float, right: float) -> Ticks:
    whole = sizes.astype(np.int64)
    if right < 1e6 and not np.any(whole & (whole - 1)):
        return doubling_ticks(int(whole.min()), left, right)
    return log_ticks(left, right)


def _say(axes: Axes, text: str) -> None:
    lines = wrapped(text, 0.9 * inches(axes)[0])[:5]
    axes.text(
        0.5,
        0.95,
        "\n".join(lines),
        transform=axes.transAxes,
        ha="center",
        va="top",
        color=DARK,
        gid="reason",
        parse_math=False,
        bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.5},
        zorder=4,
    )


# --- Words ---------------------------------------------------------------------------------------


def _entries(drawn: Sequence[Panel], looks: Mapping[str, Look]) -> list[Entry]:
    bounds = [each for each in drawn if isinstance(each, Bounds)]
    entries: list[Entry] = [
        (Line2D([], [], **_line(look)), words)
        for form, (words, look) in _BOUNDS.items()
        if any(np.isfinite(each.bounds[form]).any() for each in bounds)
    ]
    entries.append((Line2D([], [], **_line(_ERROR, filled=True)), "measured error, mean of seeds"))
    if entries[:-1]:
        entries.append((Patch(facecolor=_GAP), "looseness of the tightest"))
    if any(each.violated for each in bounds):
        entries.append((Line2D([], [], **_cross()), "VIOLATED: a seed's error above a bound"))
    learned = {n for each in drawn if isinstance(each, LayerParts) for n in each.learned}
    for name, look in looks.items():
        if look is not REST:
            kind = "learned" if name in learned else "known, errs"
            line = Line2D([], [], **_layer_line(look, learned=name in learned))
            entries.append((line, f"layer {fitted(name, 1.2)} ({kind})"))
    if any(look is REST for look in looks.values()):
        entries.append((Line2D([], [], **_layer_line(REST, learned=True)), "other layers"))
    return entries


def _notes(panels: Sequence[Panel]) -> list[str]:
    notes = ["Errors are sums over the entries of an output, as in the theorem."]
    if len(panels) > MOST_PANELS:
        notes.append(f"{MOST_PANELS} of {len(panels)} panels are drawn; the rest are left out.")
    return notes
