"""Measured errors below the three bounds over N, and what each layer adds to the bound."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from korisk.paper.theorem.check import Group, PointTheorem
from korisk.report.figures import panels, style
from korisk.report.figures.networks import BOUND, FORMS
from korisk.report.figures.panels import MOST_PANELS, Array, Entry
from korisk.report.figures.style import LOOKS, REST, Look, Options
from korisk.theory import BOUNDS, Layer

# Looks: bounds are dotted lines, errors are points, layers have colours that no bound has.
_GAP = "#ececec"  # between the error and the tightest bound
_LAYERS = (LOOKS[2], LOOKS[4], LOOKS[5], LOOKS[7])
_ERROR = Look(LOOKS[3].colour, "o", "")
_SIZE = 3.4  # points, of its marks
_VIOLATED: Options = {"color": "#b00000", "marker": "x", "markersize": 6.5, "linestyle": "none"}
_VIOLATED |= {"markeredgewidth": 1.6}


@dataclass(frozen=True)
class Panel:
    """One model at one point over N >= 1: its bounds, or its layers' parts of the composed one."""

    point: str
    model: str
    groups: Sequence[Group]
    layers: Sequence[Layer] = ()  # those with an error, input side first; none for the bounds

    @property
    def violated(self) -> list[tuple[int, float]]:
        """N and error of the networks whose error lies above a bound."""
        checks = [check for group in self.groups for check in group.judged]
        above = [(check.n, check.error) for check in checks if not check.holds]
        return [(n, error) for n, error in above if np.isfinite(error)]


def theorem_figure(points: Iterable[PointTheorem], *, narrow: bool = False) -> Figure | None:
    """For each point and model its bounds, then its layers where several have errors.

    Three panels stand in a row, or one if `narrow`; None where there is no panel.
    """
    all_panels: list[Panel] = []
    for point in points:
        for model in dict.fromkeys(group.model for group in point.groups):
            groups = [group for group in point.groups if group.model == model and group.n >= 1]
            names = {name for group in groups for name in group.contributions("composed")}
            network = next((group.network for group in groups if group.network), None)
            layers = [layer for layer in network or () if layer.name in names]
            all_panels += [Panel(point.name, model, groups)] if groups else []
            all_panels += [Panel(point.name, model, groups, layers)] if len(layers) > 1 else []
    drawn = all_panels[:MOST_PANELS]
    if not drawn:
        return None
    # The legend lists only what some panel shows.
    kinds = {layer.name: layer.kind for panel in drawn for layer in panel.layers}
    looks = dict.fromkeys(kinds, REST) | dict(zip(kinds, _LAYERS, strict=False))
    entries: list[Entry] = [
        (panels.line(**panels.measured_style(_ERROR, _SIZE)), "measured, mean ± standard error")
    ]
    for form, (words, look) in FORMS.items():
        if any(group.bound(form) is not None for panel in drawn for group in panel.groups):
            entries.append((panels.line(**BOUND | look), f"bound: {words}"))
    if len(entries) > 1:
        entries.append((Patch(facecolor=_GAP), "looseness of the tightest"))
    if any(panel.violated for panel in drawn):
        entries.append((panels.line(**_VIOLATED), "VIOLATED: a seed's error above a bound"))
    for name, layer_look in looks.items():
        if layer_look is not REST:
            kind = "learned" if kinds[name] == "learned" else "known, with an error"
            words = f"layer {style.fitted(name, 1.2)} ({kind})"
            entries.append((panels.line(**_layer_line(layer_look, kinds[name])), words))
    if REST in looks.values():
        entries.append((panels.line(**_layer_line(REST, "learned")), "other layers"))
    notes = ["Errors are sums over the entries of an output, as in the theorem."]
    notes += style.glossary(name for panel in drawn for name in (panel.model, panel.point))
    if len(all_panels) > MOST_PANELS:
        notes.append(f"{MOST_PANELS} of {len(all_panels)} panels are drawn; the rest are left out.")
    with style.settings(fine=True):
        figure, frames = panels.sheet(len(drawn), entries, notes, narrow=narrow)
        for axes, panel in zip(frames, drawn, strict=True):
            _draw(axes, panel, looks)
        panels.share_heights(frames)
        return figure


def _draw(axes: Axes, panel: Panel, looks: Mapping[str, Look]) -> None:
    n = np.array([float(group.n) for group in panel.groups])  # (M,)
    checks = [check for group in panel.groups for check in group.checks]
    judged = [check for check in checks if check.judged]
    holding = sum(check.holds is True for check in judged)
    bounds = {form: _drawable(group.bound(form) for group in panel.groups) for form in BOUNDS}
    composed = bounds["composed"]
    if panel.layers:
        parts = [group.contributions("composed") for group in panel.groups]
        series = {
            a.name: _drawable(by_layer.get(a.name) for by_layer in parts) for a in panel.layers
        }
        low, high = panels.limits([composed, *series.values()])
        label, note = "part of the bound", "composed bound by layer"
    else:
        error = _drawable(group.error for group in panel.groups)
        single = _drawable(check.error for check in checks)
        low, high = panels.limits([error, single, *bounds.values()])
        label = "expected squared error"
        note = f"holds in {holding} of {len(judged)}" if judged else "not known"
        if judged and holding == len(judged) and all(check.only_the_last for check in judged):
            note += "; bound = error"
    reason = next((check.reason for check in checks if check.reason and not judged), "")
    if reason:
        high *= (high / low) ** 1.1  # space for words above the errors
    across = float(n.min()) / 1.25, float(n.max()) * 1.25
    panels.frame(axes, across, (low, high), labels=(panels.SAMPLES, label), sizes=n)
    model = style.fitted(panel.model or "model", 0.45 * panels.inches(axes)[0])
    panels.head(axes, panel.point, f"{model}: {note}")
    if panel.layers:
        axes.plot(n, composed, gid="total", zorder=2.4, **BOUND | FORMS["composed"][1])
        for number, layer in enumerate(panel.layers, start=1):
            look = _layer_line(looks[layer.name], layer.kind)
            axes.plot(n, series[layer.name], gid=f"layer-{number}", zorder=2.5, **look)
        return
    # The gap is drawn only where the bound lies above the error.
    gap: Options = {"facecolor": _GAP, "linewidth": 0, "zorder": 1.5}
    axes.fill_between(n, error, composed, where=(error <= composed).tolist(), **gap)
    for form, values in bounds.items():
        look = BOUND | FORMS[form][1]
        axes.plot(n, values, gid=f"bound-{form}", zorder=2.5, **look)
    if len(checks) > len(panel.groups):
        sizes = [check.n for check in checks]
        axes.plot(sizes, single, gid="seeds", zorder=2.6, **panels.seeds_style(_ERROR, _SIZE))
        # Bars of one standard error over seeds, cut off above 0 for the logarithmic axis.
        by_size = [_drawable(check.error for check in group.checks) for group in panel.groups]
        ends = [np.std(e, ddof=1) / np.sqrt(len(e)) if len(e) > 1 else 0.0 for e in by_size]
        lower = np.maximum(error - ends, 1e-3 * error)
        panels.draw_bars(axes, n, lower, error + ends, _ERROR)
    axes.plot(n, error, gid="error", zorder=2.8, **panels.measured_style(_ERROR, _SIZE))
    if panel.violated:
        axes.plot(*zip(*panel.violated, strict=True), gid="violated", zorder=3.2, **_VIOLATED)
    if reason:
        panels.say(axes, f"no bound: {reason.partition(';')[0]}", y=0.8)


def _drawable(values: Iterable[float | None]) -> Array:
    """What a logarithmic axis can show; the rest is nan."""
    return np.array([v if v is not None and 1e-300 < v < 1e300 else np.nan for v in values])


def _layer_line(look: Look, kind: str) -> Options:
    """A part of the bound is dotted as the bound is; a learned layer's marks are full."""
    mark = replace(look, filled=kind == "learned").mark(size=3.6)
    return mark | panels.paper_style(look.colour) | {"markeredgewidth": 0.8}
