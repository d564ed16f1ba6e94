"""Curves that were computed before training, on paper: bands, checks, floors, and the crossing."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

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
SMALLEST = 4  # N from whose doublings the ticks are taken
_MARGIN = 1.12  # factor beyond the first and the last N
_MOST_DECADES = 8  # of errors; what lies lower is cut off


def prediction_figure(
    point: PointRecord,
    measured: Sequence[Curve] = (),
    *,
    narrow: bool = False,
    ax: Axes | None = None,
    needed: Sequence[PredictedPlan] = (),
    sure: float = 0.9,
    headed: bool = True,
) -> Figure:
    """Predicted curves of a point, with measured ones in mean squared errors where there are.

    It is 6.3 inches wide, or 3.4 if `narrow`. `needed` are the N that each model needs for one
    target with the chance `sure`, which are drawn with it. It is `headed` by the point's name.
    """
    simulated = point.simulated
    looks = style.looks_of([*(made.model for made in point.models), *(c.model for c in measured)])
    found = None
    if point.crossover is not None:
        at = point.crossover
        end = math.inf if at.upper is None else at.upper
        found = Crossover(round(at.n), at.lower, end, style.plain(at.better_after), False)
    n = [float(size) for curve in measured for size in curve.sizes]
    n += [float(size) for plan in needed for size in (plan.even, plan.samples(sure)) if size]
    errors = [float(mean) for curve in measured for mean in curve.means]
    errors += [plan.target for plan in needed]
    entries: list[Entry] = []
    for made in point.models:
        n += [row.n for row in made.track]
        errors += [row.measured for row in (*made.rehearsal, *made.checks)]
        errors += [value for row in made.track for value in (row.lower, row.upper, row.computed)]
        look, name = looks[made.model], style.plain(made.model)
        entries.append((panels.forecast_handle(look), f"{name} expected"))
        if made.rehearsal:
            where = "on simulated pairs" if simulated else "rehearsed on the examples"
            entries.append((panels.line(**_cross(look)), f"{name} {where}"))
        if made.checks:
            entries.append((panels.line(**_diamond(look)), f"{name} in the pilot"))
    for made, plan in zip(point.models, needed, strict=False):
        words = style.plain(plan.recommend(sure).sentence.rstrip("."))
        entries.append((panels.line(**_answer(looks[made.model])), words))
    for curve in measured:
        mark = panels.line(**panels.measured_style(looks[curve.model]))
        entries.append((mark, f"{style.plain(curve.model)} measured"))
    notes = [SIMULATED if simulated else NOTE, *style.glossary(looks)]
    marks = f"diamonds: {100 * sure:.4g}% sure; circles: even odds; bars: 90% of N"
    notes += [marks] if needed else []
    if found is not None:
        entries.append(panels.crossover_entry())
        notes.append(found.explain())
    with style.settings():
        figure, (axes,) = panels.sheet(
            1,
            entries,
            notes,
            margins=(0.74, 0.72, 0.45, 0.5) if narrow else (0.75, 0.9, 0.45, 0.5),
            height=0.75 * HEIGHT if narrow else HEIGHT,
            width=WIDTH,
            narrow=narrow,
            ax=ax,
        )
        panels.frame(
            axes,
            (min(n) / _MARGIN, max(n) * _MARGIN),
            panels.limits([np.maximum(errors, max(errors) * 10.0**-_MOST_DECADES)]),
            labels=(panels.SAMPLES, "mean squared error"),
            sizes=np.array([SMALLEST]),
        )
        if headed:
            panels.head(axes, point.point, size=LARGE, room=0.8, lift=16)
        for made in point.models:
            name, colour = made.model, looks[made.model].colour
            sizes, computed, expected, lower, upper = _columns(made)
            track = panels.Track(sizes, expected, lower, upper)
            panels.draw_forecast(axes, track, looks[made.model], f"-{name}")
            if not simulated:  # whose errors are the crosses
                thin: Options = {"color": colour, "linewidth": 0.7, "linestyle": "--"}
                axes.plot(sizes, computed, gid=f"computed-{name}", zorder=2.1, **thin)
            if made.floor:
                hairline: Options = {"color": colour, "linewidth": 0.5, "zorder": 1.9}
                axes.axhline(made.floor, gid=f"floor-{name}", **hairline)
            places_of = {
                "rehearsal": ([(row.n, row.measured) for row in made.rehearsal], _cross),
                "pilot": ([(check.n, check.measured) for check in made.checks], _diamond),
            }
            for kind, (places, form) in places_of.items():
                if places:
                    options = form(looks[name]) | {"gid": f"{kind}-{name}", "zorder": 2.7}
                    axes.plot(*zip(*places, strict=True), **options)
        for curve in measured:
            panels.draw_measured(axes, curve, looks[curve.model], f"-{curve.model}")
        low, high = axes.get_ylim()
        floors = []
        for made in point.models:
            if made.floor and low < made.floor < high:
                text = f"{style.plain(made.model)} levels\noff at {style.digits(made.floor)}"
                floors.append((made.floor, text, looks[made.model].text_colour))
        for target in {plan.target for plan in needed}:
            axes.axhline(target, color=DARK, linewidth=0.9, gid="target", zorder=2.1)
            floors.append((target, f"target\n{style.digits(target, 4)}", DARK))
        panels.beside(axes, floors)
        for place, (made, plan) in enumerate(zip(point.models, needed, strict=False)):
            # The ranges of two models lie side by side, about the target's line.
            shift = 5.0 * (place - 0.5 * (len(needed) - 1)) / 72
            moved = axes.transData + ScaledTranslation(0, shift, axes.figure.dpi_scale_trans)
            options = _answer(looks[made.model]) | {"transform": moved, "zorder": 3.2}
            bar: Options = {"color": options["color"], "transform": moved, "zorder": 3}
            if math.isfinite(plan.lower):
                ends = plan.lower, plan.upper, plan.target
                panels.bracket(axes, *ends, gid=f"range-{made.model}", **bar)
            hollow = options | {"markerfacecolor": "white", "marker": "o", "markersize": 4.5}
            for kind, size, dot in (
                ("even", plan.even, hollow),
                ("answer", plan.samples(sure), options),
            ):
                if size is not None:
                    axes.plot([size], [plan.target], gid=f"{kind}-{made.model}", **dot)
        axes.axvline(point.examples, color=DARK, linewidth=0.6, zorder=1.9, gid="examples")
        slanted: Options = {"fontstyle": "italic"}
        if simulated:
            panels.above(axes, "rehearsed", point.examples, (-3, 2), ha="right", **slanted)
            panels.above(axes, "extrapolated", point.examples, (3, 2), **slanted)
        else:
            words = f"{point.examples:,} example images"
            panels.above(axes, words, point.examples, ha="center", **slanted)
        if found is not None:
            logs = [
                np.interp(math.log(found.n), np.log(n), np.log(expected))
                for n, _, expected, *_ in map(_columns, point.models)
            ]
            panels.draw_crossover(axes, found, math.exp(sum(logs) / len(logs)))
        return figure


def _columns(made: ModelRecord) -> tuple[Array, ...]:
    rows = [(row.n, row.computed, row.expected, row.lower, row.upper) for row in made.track]
    return tuple(np.array(rows).T)


def _answer(look: Look) -> Options:
    return look.mark("D", 6.0) | {"markerfacecolor": look.colour}


def _cross(look: Look) -> Options:
    return look.mark("x", 4.0) | {"markeredgewidth": 1.0, "markeredgecolor": look.colour}


def _diamond(look: Look) -> Options:
    return look.mark("D", 4.5)
