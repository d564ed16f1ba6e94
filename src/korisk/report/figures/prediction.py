"""Figure of rehearsed curves: bands, errors on simulated pairs, and a pilot's."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from korisk.curves.curve import Curve
from korisk.prediction.record import PointRecord
from korisk.report.figures import panels, style
from korisk.report.figures.panels import Entry
from korisk.report.figures.style import DARK, LARGE, Look, Options

WIDTH, HEIGHT = 6.3, 3.85  # inches, the height without the legend
NOTE = "band: 90%; crosses: fitted to and tested on simulated pairs"
SMALLEST = 4  # ticks are doublings of this N
_MARGIN = 1.12  # factor beyond the first and the last N
_MOST_DECADES = 8  # of errors; smaller errors are cut off


def prediction_figure(
    point: PointRecord,
    measured: Sequence[Curve] = (),
    *,
    narrow: bool = False,
) -> Figure:
    """Draw the rehearsed curves of a point, and measured ones as mean squared errors.

    The figure is 6.3 inches wide, or 3.4 if `narrow`.
    """
    looks = style.looks_of([*(model.model for model in point.models), *(c.model for c in measured)])
    # Everything that is drawn must lie inside the frame: all N, and all errors.
    n = [float(size) for curve in measured for size in curve.sizes]
    errors = [float(mean) for curve in measured for mean in curve.means]
    entries: list[Entry] = []
    for model in point.models:
        n += [row.n for row in model.track]
        errors += [row.measured for row in (*model.rehearsal, *model.checks)]
        errors += [value for row in model.track for value in (row.lower, row.upper)]
        look, name = looks[model.model], style.plain(model.model)
        entries.append((panels.forecast_handle(look), f"{name} expected"))
        if model.rehearsal:
            entries.append((panels.line(**_cross(look)), f"{name} on simulated pairs"))
        if model.checks:
            entries.append((panels.line(**_diamond(look)), f"{name} in the pilot"))
    # Measured curves are listed last: they came after the prediction.
    for curve in measured:
        mark = panels.line(**panels.measured_style(looks[curve.model]))
        entries.append((mark, f"{style.plain(curve.model)} measured"))
    notes = [NOTE, *style.glossary(looks)]
    with style.settings():
        margins = (0.74, 0.72, 0.45, 0.5) if narrow else (0.75, 0.9, 0.45, 0.5)
        size: Options = {"height": (0.75 if narrow else 1) * HEIGHT, "width": WIDTH}
        figure, (axes,) = panels.sheet(1, entries, notes, margins=margins, **size, narrow=narrow)
        # Fits without noise reach rounding errors, which would stretch the axis.
        height = panels.limits([np.maximum(errors, max(errors) * 10.0**-_MOST_DECADES)])
        across, labels = (
            (min(n) / _MARGIN, max(n) * _MARGIN),
            (panels.SAMPLES, "mean squared error"),
        )
        panels.frame(axes, across, height, labels=labels, sizes=np.array([SMALLEST]))
        panels.head(axes, point.point, size=LARGE, room=0.8, lift=16)
        for model in point.models:
            name = model.model
            rows = [(row.n, row.value, row.lower, row.upper) for row in model.track]
            track = panels.Track(*np.array(rows).T)
            panels.draw_forecast(axes, track, looks[name], f"-{name}")
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
        axes.axvline(point.examples, color=DARK, linewidth=0.6, zorder=1.9, gid="examples")
        slanted: Options = {"fontstyle": "italic"}
        panels.above(axes, "rehearsed", point.examples, (-3, 2), ha="right", **slanted)
        panels.above(axes, "extrapolated", point.examples, (3, 2), **slanted)
        return figure


def _cross(look: Look) -> Options:
    return look.mark("x", 4.0) | {"markeredgewidth": 1.0, "markeredgecolor": look.colour}


def _diamond(look: Look) -> Options:
    return look.mark("D", 4.5)
