"""Figure of predicted curves: bands, checks against a pilot, floors, and the crossover."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from korisk.curves.curve import Curve
from korisk.planning.compare import Crossover
from korisk.prediction.prediction import PredictedPlan
from korisk.prediction.record import ModelRecord, PointRecord
from korisk.report.figures import panels, style
from korisk.report.figures.panels import Array, Entry
from korisk.report.figures.style import DARK, LARGE, Look, Options

WIDTH, HEIGHT = 6.3, 3.85  # inches, the height without the legend
NOTE = "band: 90%; thin: computed from operator, images and noise alone; no network was trained"
SIMULATED = "band: 90%, for real images; crosses: trained and tested on simulated pairs"
SMALLEST = 4  # ticks are doublings of this N
_MARGIN = 1.12  # factor beyond the first and the last N
_MOST_DECADES = 8  # of errors; smaller errors are cut off


def prediction_figure(
    point: PointRecord,
    measured: Sequence[Curve] = (),
    *,
    narrow: bool = False,
    ax: Axes | None = None,
    needed: Sequence[PredictedPlan] = (),
    sure: float = 0.9,
) -> Figure:
    """Draw the predicted curves of a point, and measured ones as mean squared errors.

    The figure is 6.3 inches wide, or 3.4 if `narrow`. `needed` are plans of the models for one
    target; their N at the probability `sure` are marked.
    """
    simulated = point.simulated
    looks = style.looks_of([*(model.model for model in point.models), *(c.model for c in measured)])
    crossover = None
    if point.crossover is not None:
        cross = point.crossover
        upper_n = math.inf if cross.upper is None else cross.upper
        better = style.plain(cross.better_after)
        crossover = Crossover(round(cross.n), cross.lower, upper_n, better, False)
    # Everything that is drawn must lie inside the frame: all N, and all errors.
    n = [float(size) for curve in measured for size in curve.sizes]
    n += [float(size) for plan in needed for size in (plan.even, plan.samples(sure)) if size]
    errors = [float(mean) for curve in measured for mean in curve.means]
    errors += [plan.target for plan in needed]
    entries: list[Entry] = []
    for model in point.models:
        n += [row.n for row in model.track]
        errors += [row.measured for row in (*model.rehearsal, *model.checks)]
        errors += [value for row in model.track for value in (row.lower, row.upper, row.computed)]
        look, name = looks[model.model], style.plain(model.model)
        entries.append((panels.forecast_handle(look), f"{name} expected"))
        if model.rehearsal:
            source = "on simulated pairs" if simulated else "rehearsed on the examples"
            entries.append((panels.line(**_cross(look)), f"{name} {source}"))
        if model.checks:
            entries.append((panels.line(**_diamond(look)), f"{name} in the pilot"))
    for model, plan in zip(point.models, needed, strict=False):
        label = style.plain(plan.recommend(sure).sentence.rstrip("."))
        entries.append((panels.line(**_answer(looks[model.model])), label))
    # Measured curves are listed last: they came after the prediction.
    for curve in measured:
        mark = panels.line(**panels.measured_style(looks[curve.model]))
        entries.append((mark, f"{style.plain(curve.model)} measured"))
    notes = [SIMULATED if simulated else NOTE, *style.glossary(looks)]
    mark_note = f"diamonds: {100 * sure:.4g}% sure; circles: even odds; bars: 90% of N"
    notes += [mark_note] if needed else []
    if crossover is not None:
        entries.append(panels.crossover_entry())
        notes.append(crossover.explain())
    with style.settings():
        margins = (0.74, 0.72, 0.45, 0.5) if narrow else (0.75, 0.9, 0.45, 0.5)
        size: Options = {"height": (0.75 if narrow else 1) * HEIGHT, "width": WIDTH}
        figure, (axes,) = panels.sheet(
            1, entries, notes, margins=margins, **size, narrow=narrow, ax=ax
        )
        # Fits without noise reach rounding errors, which would stretch the axis.
        height = panels.limits([np.maximum(errors, max(errors) * 10.0**-_MOST_DECADES)])
        across, labels = (
            (min(n) / _MARGIN, max(n) * _MARGIN),
            (panels.SAMPLES, "mean squared error"),
        )
        panels.frame(axes, across, height, labels=labels, sizes=np.array([SMALLEST]))
        panels.head(axes, point.point, size=LARGE, room=0.8, lift=16)
        for model in point.models:
            name, colour = model.model, looks[model.model].colour
            sizes, computed, expected, lower, upper = _columns(model)
            track = panels.Track(sizes, expected, lower, upper)
            panels.draw_forecast(axes, track, looks[model.model], f"-{name}")
            # Errors on simulated pairs are drawn as crosses, so they need no thin line.
            if not simulated:
                thin: Options = {"color": colour, "linewidth": 0.7, "linestyle": "--"}
                axes.plot(sizes, computed, gid=f"computed-{name}", zorder=2.1, **thin)
            if model.floor:
                hairline: Options = {"color": colour, "linewidth": 0.5, "zorder": 1.9}
                axes.axhline(model.floor, gid=f"floor-{name}", **hairline)
            points_by_kind = {
                "rehearsal": ([(row.n, row.measured) for row in model.rehearsal], _cross),
                "pilot": ([(check.n, check.measured) for check in model.checks], _diamond),
            }
            for kind, (marks, mark_style) in points_by_kind.items():
                if marks:
                    options = mark_style(looks[name]) | {"gid": f"{kind}-{name}", "zorder": 2.7}
                    axes.plot(*zip(*marks, strict=True), **options)
        for curve in measured:
            panels.draw_measured(axes, curve, looks[curve.model], f"-{curve.model}")
        # Labels at the right edge: floors inside the frame, then targets.
        low, high = axes.get_ylim()
        edge_labels = []
        for model in point.models:
            if model.floor and low < model.floor < high:
                text = f"{style.plain(model.model)} levels\noff at {style.digits(model.floor)}"
                edge_labels.append((model.floor, text, looks[model.model].text_colour))
        edge_labels += [panels.draw_target(axes, target) for target in {p.target for p in needed}]
        panels.beside(axes, edge_labels)
        for index, (model, plan) in enumerate(zip(point.models, needed, strict=False)):
            full = _answer(looks[model.model]) | {"zorder": 3.2}
            hollow = full | {"markerfacecolor": "white", "marker": "o", "markersize": 4.5}
            answers = ("even", plan.even, hollow), ("answer", plan.samples(sure), full)
            answer_marks = [(kind, n, options) for kind, n, options in answers if n is not None]
            shift, colour = panels.shift_of(index, len(needed)), looks[model.model].colour
            tag = f"-{model.model}"
            panels.draw_answer(axes, plan, answer_marks, colour, tag, shift)
        axes.axvline(point.examples, color=DARK, linewidth=0.6, zorder=1.9, gid="examples")
        slanted: Options = {"fontstyle": "italic"}
        if simulated:
            panels.above(axes, "rehearsed", point.examples, (-3, 2), ha="right", **slanted)
            panels.above(axes, "extrapolated", point.examples, (3, 2), **slanted)
        else:
            label = f"{point.examples:,} example images"
            panels.above(axes, label, point.examples, ha="center", **slanted)
        if crossover is not None:
            # At the geometric mean of the curves, interpolated in logarithms.
            logs = [
                np.interp(math.log(crossover.n), np.log(n), np.log(expected))
                for n, _, expected, *_ in map(_columns, point.models)
            ]
            panels.draw_crossover(axes, crossover, math.exp(sum(logs) / len(logs)))
        return figure


def _columns(model: ModelRecord) -> tuple[Array, ...]:
    rows = [(row.n, row.computed, row.expected, row.lower, row.upper) for row in model.track]
    return tuple(np.array(rows).T)


def _answer(look: Look) -> Options:
    return look.mark("D", 6.0) | {"markerfacecolor": look.colour}


def _cross(look: Look) -> Options:
    return look.mark("x", 4.0) | {"markeredgewidth": 1.0, "markeredgecolor": look.colour}


def _diamond(look: Look) -> Options:
    return look.mark("D", 4.5)
