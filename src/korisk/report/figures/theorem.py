"""Measured errors below the three bounds over N, and what each layer adds to the bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from korisk.report.figures import panels, style
from korisk.report.figures.panels import MOST_PANELS, Array, Entry, Limits
from korisk.report.figures.style import DARK, LOOKS, REST, Look, Options
from korisk.studies.theorem.check import NetworkCheck, PointTheorem
from korisk.theory import BOUNDS, BoundForm

_GAP = "#ececec"  # between the error and the tightest bound
_FORMS: Mapping[BoundForm, tuple[str, Options]] = {  # colours and marks as in `networks`
    "paper": ("bound: paper", {"color": LOOKS[1].colour, "marker": "s", "linestyle": "-."}),
    "minkowski": ("bound: Minkowski", {"color": LOOKS[0].colour, "marker": "^", "linestyle": ":"}),
    "composed": ("bound: composed", {"color": DARK, "marker": "o", "linestyle": "--"}),
}
_BOUND: Options = {
    "markersize": 3.4,
    "markeredgewidth": 0.8,
    "linewidth": 1.0,
    "markerfacecolor": "white",
}
_LAYERS = (LOOKS[2], LOOKS[4], LOOKS[5], LOOKS[7])  # colours that no bound has
_ERROR: Options = {
    **LOOKS[3].mark(size=3.4),
    **{"linestyle": "-", "linewidth": 1.6, "markerfacecolor": LOOKS[3].colour},
}
_SEEDS: Options = {"color": LOOKS[3].colour, "marker": "D", "markersize": 1.6, "linestyle": "none"}
_VIOLATED: Options = {
    **{"color": "#b00000", "marker": "x", "markersize": 6.5, "markeredgewidth": 1.6},
    "linestyle": "none",
}


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
    """The parts of one model's composed bound that come from each layer with an error, over N."""

    point: str
    model: str
    n: Array
    parts: Mapping[str, Array]  # by layer, input side first; they add up to the bound
    total: Array
    learned: frozenset[str]


Panel = Bounds | LayerParts


def theorem_panels(points: Iterable[PointTheorem]) -> list[Panel]:
    """For each point and model its bounds, then its layers where several have errors."""
    found: list[Panel] = []
    for point in points:
        for model in dict.fromkeys(group.model for group in point.groups):
            groups = [group for group in point.groups if group.model == model and group.n >= 1]
            if not groups:
                continue
            n = np.array([float(group.n) for group in groups])
            checks = [check for group in groups for check in group.checks]
            judged = [check for check in checks if check.judged]
            reasons = [check.reason for check in checks if check.reason]
            note = "not known"
            if judged:
                held = sum(check.holds is True for check in judged)
                same = held == len(judged) and all(check.only_the_last for check in judged)
                note = f"holds in {held} of {len(judged)}" + ("; bound = error" if same else "")
            bounds = Bounds(
                point=point.name,
                model=model,
                n=n,
                error=_drawable(group.error for group in groups),
                bounds={form: _drawable(group.bound(form) for group in groups) for form in BOUNDS},
                single=_places(checks),
                violated=_places(check for check in judged if not check.holds),
                note=note,
                reason="" if judged or not reasons else reasons[0],
            )
            found.append(bounds)
            parts = [group.contributions("composed") for group in groups]
            names = {name for each in parts for name in each}
            network = next((group.network for group in groups if group.network), None)
            layers = [layer for layer in network or () if layer.name in names]
            if len(layers) > 1:
                by_layer = LayerParts(
                    point=point.name,
                    model=model,
                    n=n,
                    parts={
                        each.name: _drawable(p.get(each.name) for p in parts) for each in layers
                    },
                    total=bounds.bounds["composed"],
                    learned=frozenset(each.name for each in layers if each.kind == "learned"),
                )
                found.append(by_layer)
    return found


def _places(checks: Iterable[NetworkCheck]) -> tuple[tuple[int, float], ...]:
    return tuple((check.n, check.error) for check in checks if 1e-300 < check.error < 1e300)


def _drawable(values: Iterable[float | None]) -> Array:
    """What a logarithmic axis can show; the rest is nan."""
    return np.array([v if v is not None and 1e-300 < v < 1e300 else np.nan for v in values])


# --- The figure ----------------------------------------------------------------------------------


def theorem_figure(points: Sequence[PointTheorem]) -> Figure | None:
    """All panels, three a row; None where there is none."""
    found = theorem_panels(points)
    drawn = found[:MOST_PANELS]
    if not drawn:
        return None
    names = dict.fromkeys(n for each in drawn if isinstance(each, LayerParts) for n in each.parts)
    looks = dict.fromkeys(names, REST) | dict(zip(names, _LAYERS, strict=False))
    bounds = [each for each in drawn if isinstance(each, Bounds)]
    entries: list[Entry] = [
        (panels.line(**_BOUND | look), words)
        for form, (words, look) in _FORMS.items()
        if any(np.isfinite(each.bounds[form]).any() for each in bounds)
    ]
    gap: list[Entry] = [(Patch(facecolor=_GAP), "looseness of the tightest")] if entries else []
    entries += [(panels.line(**_ERROR), "measured error, mean of seeds"), *gap]
    if any(each.violated for each in bounds):
        entries.append((panels.line(**_VIOLATED), "VIOLATED: a seed's error above a bound"))
    learned = {n for each in drawn if isinstance(each, LayerParts) for n in each.learned}
    for name, look in looks.items():
        if look is not REST:
            kind = "learned" if name in learned else "known, with an error"
            line = panels.line(**_layer_line(look, learned=name in learned))
            entries.append((line, f"layer {style.fitted(name, 1.2)} ({kind})"))
    if any(look is REST for look in looks.values()):
        entries.append((panels.line(**_layer_line(REST, learned=True)), "other layers"))
    notes = ["Errors are sums over the entries of an output, as in the theorem."]
    if len(found) > MOST_PANELS:
        notes.append(f"{MOST_PANELS} of {len(found)} panels are drawn; the rest are left out.")
    with style.settings(fine=True):
        figure, frames = panels.sheet(len(drawn), entries, notes)
        for axes, each in zip(frames, drawn, strict=True):
            if isinstance(each, Bounds):
                _draw_bounds(axes, each)
            else:
                _draw_parts(axes, each, looks)
        return figure


def _draw_bounds(axes: Axes, each: Bounds) -> None:
    single = np.array([error for _, error in each.single])
    low, high = panels.limits([each.error, single, *each.bounds.values()])
    if each.reason:
        high *= (high / low) ** 1.1  # space for words above the errors
    _frame(axes, each, (low, high), "expected squared error", each.note)
    composed = each.bounds["composed"]
    below = (each.error <= composed).tolist()
    gap: Options = {"facecolor": _GAP, "linewidth": 0, "zorder": 1.5, "where": below}
    axes.fill_between(each.n, each.error, composed, **gap)
    for form, values in each.bounds.items():
        look = _BOUND | _FORMS[form][1]
        axes.plot(each.n, values, gid=f"bound-{form}", zorder=2.5, **look)
    if len(each.single) > np.count_nonzero(np.isfinite(each.error)):
        seeds = zip(*each.single, strict=True)
        axes.plot(*seeds, gid="seeds", alpha=0.5, markeredgewidth=0, zorder=2.6, **_SEEDS)
    axes.plot(each.n, each.error, gid="error", zorder=2.8, **_ERROR)
    if each.violated:
        axes.plot(*zip(*each.violated, strict=True), gid="violated", zorder=3.2, **_VIOLATED)
    if each.reason:
        panels.say(axes, f"no bound: {each.reason.partition(';')[0]}", y=0.8)


def _draw_parts(axes: Axes, each: LayerParts, looks: Mapping[str, Look]) -> None:
    height = panels.limits([each.total, *each.parts.values()])
    _frame(axes, each, height, "part of the bound", "composed bound by layer")
    axes.plot(each.n, each.total, gid="total", zorder=2.4, **_BOUND | _FORMS["composed"][1])
    for number, (name, values) in enumerate(each.parts.items(), start=1):
        look = _layer_line(looks[name], learned=name in each.learned)
        axes.plot(each.n, values, gid=f"layer-{number}", zorder=2.5, **look)


def _layer_line(look: Look, *, learned: bool) -> Options:
    mark = look.mark(size=3.6) | {"markeredgewidth": 0.8, "linewidth": 1.1}
    return mark | {"linestyle": "-" if learned else (0, (4, 1.5))}


def _frame(axes: Axes, each: Panel, height: Limits, label: str, note: str) -> None:
    across = float(each.n.min()) / 1.25, float(each.n.max()) * 1.25
    panels.frame(axes, across, height, labels=(panels.SAMPLES, label), sizes=each.n)
    model = style.fitted(each.model or "model", 0.45 * panels.inches(axes)[0])
    panels.head(axes, each.point, f"{model}: {note}")
