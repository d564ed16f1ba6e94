"""Error against training samples at every operating point of a study, as in the paper's Figure 3.

A panel shows one point: measured errors, the planner's forecast, and the paper's calibrated line
for each model. Values are in the unit of the curves.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning import words
from korisk.planning.calibration import paper_line
from korisk.planning.plan import forecast
from korisk.report.contents import Contents, squared
from korisk.report.figures import panels, style
from korisk.report.figures.panels import MOST_PANELS, Array, Entry, Limits, Track, values
from korisk.report.figures.style import GREY, LOOKS, REST, Look, Options

FAR = 4.0  # forecasts and lines are drawn up to this multiple of the last N

_STEPS = 22  # N at which a forecast is drawn
_LINE_STEPS = 49
_SIZE = 3.6  # size of the marks in points
_ANY = Look(GREY, "o", LOOKS[0].hatch)  # in the legend, for all models
_BEFORE: Options = {"linewidth": 0.7, "linestyle": ":"}  # the line of N = 0
_DASHED: Options = {"linestyle": (0, (8, 2))}  # the paper's line, as in its figure
# Lower end of the frame relative to the largest mean: smaller errors may be rounding.
_DEEPEST = 1e-6


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One model at one point; None stands for what needs more sizes than it has."""

    curve: Curve
    track: Track | None  # the forecast, from the last N to `FAR` times that
    doubt: str = ""  # why the forecast ends at the last N
    line: tuple[Array, Array] | None  # the paper's, floor + sigma log N / N: sizes and values
    untrained: Array  # (0 or 1,) the error before training


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One operating point."""

    name: str
    note: str  # a line under the name
    metric: str
    traces: tuple[Trace, ...]

    @property
    def log(self) -> bool:
        """Whether values are drawn on a logarithmic axis."""
        return all(trace.curve.unit.logarithmic for trace in self.traces)

    @property
    def across(self) -> Limits:
        """The limits of N."""
        sizes = np.concatenate([trace.curve.sizes for trace in self.traces])
        return float(sizes.min()) / 1.25, FAR * float(sizes.max()) * 1.1

    @property
    def height(self) -> Limits:
        """Limits of the errors: around all means and lines, and partly around bands."""
        required, optional = [], []
        for trace in self.traces:
            required += [values(trace.curve, trace.curve.means), trace.untrained]
            required += [trace.line[1]] if trace.line else []
            optional += [trace.track.better, trace.track.worse] if trace.track else []
        if self.log:
            smallest = _DEEPEST * max(float(trace.curve.means.max()) for trace in self.traces)
            required = [errors[errors >= smallest] for errors in required]
            optional = [errors[errors >= smallest] for errors in optional]
        return panels.limits(required, optional, log=self.log)


def panels_of(contents: Contents) -> list[Panel]:
    """Panels of the points that have curves, in the order of the study."""
    result, points = [], [point for point in map(squared, contents.points) if point.curves]
    looks = style.looks_of(curve.model for point in points for curve in point.curves)
    for point in points:
        problem, note = point.spec.get("problem"), ""
        if isinstance(problem, Mapping) and {"side", "views", "bins"} <= problem.keys():
            note = f"H = {problem['side']}, {problem['views']} views, {problem['bins']} bins; "
        note += panels.seeds(point.curves)
        result.append(panel(point.name, point.curves, point.untrained, note=note, looks=looks))
    return result


def panel(
    name: str,
    curves: Sequence[Curve],
    untrained: Mapping[str, float],
    *,
    note: str = "",
    looks: Mapping[str, Look] | None = None,
) -> Panel:
    """Build the panel of one point; models beyond those with a colour have no forecast."""
    traces, looks = [], looks or style.looks_of(curve.model for curve in curves)
    for curve in curves:
        track, doubt, line = None, "", None
        if looks[curve.model] is not REST:
            with suppress(KoriskError):  # a single size
                fit = paper_line(curve)
                first, last = float(curve.sizes[0]), float(curve.sizes[-1])
                n = np.geomspace(first, FAR * last, _LINE_STEPS)
                line = n, values(curve, np.array([fit.predict(size) for size in n.tolist()]))
            with suppress(KoriskError):  # a pilot of fewer than three sizes
                fitted = forecast(curve)
                n = panels.drawn_sizes(fitted, FAR * fitted.last, steps=_STEPS)
                track, doubt = panels.track(fitted, n).beyond(fitted.last), fitted.doubt
        start = values(curve, np.array([untrained[m] for m in [curve.model] if m in untrained]))
        traces.append(Trace(curve=curve, track=track, doubt=doubt, line=line, untrained=start))
    metric = curves[0].metric if curves else ""
    return Panel(name=name, note=note, metric=metric, traces=tuple(traces))


# --- The figure ----------------------------------------------------------------------------------


def efficiency_figure(points: Sequence[Panel], *, narrow: bool = False) -> Figure | None:
    """Draw all panels (fig:sweeps), three a row or one if `narrow`; None without curves."""
    full = [point for point in points if point.traces]
    drawn = full[:MOST_PANELS]
    if not drawn:
        return None
    # A model has the same look in every panel, drawn or not.
    looks = style.looks_of(trace.curve.model for point in full for trace in point.traces)
    traces = [trace for point in drawn for trace in point.traces]
    shown_models = {trace.curve.model for trace in traces}
    entries: list[Entry] = [
        (panels.line(**panels.measured_style(look, _SIZE)), style.fitted(name, 2.2))
        for name, look in looks.items()
        if name in shown_models and look is not REST
    ]
    if any(trace.track for trace in traces):
        entries.append((panels.forecast_handle(_ANY), "forecast, 90% band"))
    if any(trace.line for trace in traces):
        dashed = panels.line(**panels.paper_style(GREY) | _DASHED)
        entries.append((dashed, f"the paper's line: floor + {style.SIGMA} log N / N"))
    if any(trace.untrained.size for trace in traces):
        before = panels.line(marker="<", markersize=5, color=GREY, markerfacecolor=GREY, **_BEFORE)
        entries.append((before, "before training, N = 0"))
    rest_count = sum(looks[model] is REST for model in shown_models)
    if rest_count:
        dot = panels.line(**panels.measured_style(REST))
        entries.append((dot, f"{rest_count} further models, without forecasts"))
    notes = ["points: means of seeds ± standard error"]
    notes += style.glossary([*looks, *(point.name for point in drawn)])
    for point in drawn:
        doubts = [(trace.curve.model, trace.doubt) for trace in point.traces if trace.doubt]
        notes += [f"{point.name}, {model}: {doubt}" for model, doubt in doubts]
    if len(full) > MOST_PANELS:
        notes.append(f"{MOST_PANELS} of {len(full)} points are drawn; the rest are left out.")
    with style.settings(fine=True):
        figure, frames = panels.sheet(len(drawn), entries, notes, narrow=narrow)
        heights = [point.height for point in drawn]
        across = panels.shared([point.across for point in drawn])
        # Panels in one metric share a scale, so that their heights can be compared.
        if len({(point.metric, point.log) for point in drawn}) == 1:
            heights = panels.shared(heights, log=drawn[0].log)
        for axes, point, *limits in zip(frames, drawn, across, heights, strict=True):
            panels.head(axes, point.name, point.note)
            labels = panels.SAMPLES, words.quantity(point.metric, "error")
            sizes = np.concatenate([trace.curve.sizes for trace in point.traces])
            panels.frame(axes, *limits, labels=labels, log=point.log, sizes=sizes)
            _draw(axes, point, looks)
        return figure


def _draw(axes: Axes, panel: Panel, looks: Mapping[str, Look]) -> None:
    # Ids of artists follow the legend, so that a model has the same one in every panel.
    order = {model: index + 1 for index, model in enumerate(looks)}
    # Reversed, so that the first model lies on top.
    for trace in reversed(panel.traces):
        curve, look = trace.curve, looks[trace.curve.model]
        tag, colour = f"-{order[curve.model]}", look.colour
        if trace.track is not None:
            panels.draw_forecast(axes, trace.track, look, tag, width=1.2)
        if trace.line is not None:
            options = panels.paper_style(colour) | _DASHED
            axes.plot(*trace.line, gid=f"line{tag}", zorder=2.3, **options)
        panels.draw_measured(axes, curve, look, tag, size=_SIZE)
        for start in trace.untrained.tolist():
            edge: Options = {"transform": axes.get_yaxis_transform(), "clip_on": False, "zorder": 3}
            axes.plot([0], [start], gid=f"untrained{tag}", **edge, **look.mark("<"))
            axes.axhline(start, gid=f"before{tag}", color=colour, zorder=1.9, **_BEFORE)
