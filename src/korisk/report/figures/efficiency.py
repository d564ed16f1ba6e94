"""Error against training samples at every operating point of a study, as in the paper's Figure 3.

A panel is a point: what was measured, the planner's forecast from it, the paper's calibrated line
and the floor where each model's line ends. Values are errors, in the unit of the curves.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.fit import Calibration, calibrate
from korisk.planning.forecast import forecast
from korisk.report.contents import Contents, squared
from korisk.report.figures import panels, style
from korisk.report.figures.panels import MOST_PANELS, Array, Entry, Track, values
from korisk.report.figures.style import DARK, FINE, GREY, LOOKS, REST, Look, Options

FAR = 4.0  # times the last N: so far forecasts and lines are drawn

_STEPS = 22  # N at which a forecast is drawn
_FEW_SEEDS = 12  # up to which each measurement is drawn
_SIZE = 3.6  # points, of the marks
_ANY = Look(GREY, "o", LOOKS[0].hatch)  # in the legend, for all models
_BEFORE: Options = {"linewidth": 0.7, "linestyle": (0, (6, 3))}  # the line of N = 0
_DEEPEST = 1e-6  # of the largest mean: the frame ends there, since seeds may fall to rounding


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One model at one point. What its pilot is too short for is None."""

    curve: Curve
    track: Track | None  # the forecast, from the last N to `FAR` times that
    doubt: str = ""  # why the forecast ends at the last N
    line: Calibration | None  # the paper's, floor + sigma log N / N
    untrained: float | None  # the error before training

    @property
    def line_n(self) -> Array:
        """(M,) the N at which the line is drawn."""
        return np.geomspace(float(self.curve.sizes[0]), FAR * float(self.curve.sizes[-1]), 49)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One operating point."""

    name: str
    note: str  # a line of what it is, under the name
    metric: str
    traces: tuple[Trace, ...]

    @property
    def log(self) -> bool:
        """Whether values are drawn on a logarithmic axis."""
        return all(trace.curve.unit.logarithmic for trace in self.traces)

    @property
    def across(self) -> tuple[float, float]:
        """The limits of N."""
        sizes = np.concatenate([trace.curve.sizes for trace in self.traces])
        return float(sizes.min()) / 1.25, FAR * float(sizes.max()) * 1.1

    @property
    def height(self) -> tuple[float, float]:
        """The lower and upper limit: all means and lines, and a part of bands and seeds.

        What lies below `_DEEPEST` of the largest mean is left out.
        """
        needed, wished = [], []
        for trace in self.traces:
            curve = trace.curve
            needed.append(values(curve, curve.means))
            if trace.untrained is not None:
                needed.append(values(curve, np.array([trace.untrained])))
            if trace.line is not None:
                needed.append(values(curve, trace.line.predict(trace.line_n)))
            if trace.track is not None:
                wished += [trace.track.better, trace.track.worse]
            if curve.counts.max() <= _FEW_SEEDS:
                wished.append(values(curve, curve.error))
        if self.log:
            least = _DEEPEST * max(float(trace.curve.means.max()) for trace in self.traces)
            needed, wished = ([part[part >= least] for part in each] for each in (needed, wished))
        return panels.limits(needed, wished, log=self.log)


def panels_of(contents: Contents) -> list[Panel]:
    """The points of a study that have curves, in the study's order."""
    made = []
    for point in map(squared, contents.points):
        if not point.curves:
            continue
        problem, note = point.spec.get("problem"), ""
        if isinstance(problem, Mapping) and {"side", "views", "bins"} <= problem.keys():
            note = f"H = {problem['side']}, {problem['views']} views, {problem['bins']} bins; "
        note += panels.seeds(point.curves)
        made.append(panel(point.name, point.curves, point.untrained, note=note))
    return made


def panel(
    name: str, curves: Sequence[Curve], untrained: Mapping[str, float], *, note: str = ""
) -> Panel:
    """One point from its curves. Models beyond those with a colour have no forecast."""
    coloured = set(list(style.looks_of(curve.model for curve in curves))[: len(LOOKS)])
    traces = []
    for curve in curves:
        found, doubt, line = None, "", None
        if curve.model in coloured:
            with suppress(KoriskError):  # a single size
                line = calibrate(curve, "paper")
            with suppress(KoriskError):  # a pilot of fewer than three sizes
                made = forecast(curve)
                n = panels.drawn_sizes(made, FAR * made.last, steps=_STEPS)
                found, doubt = panels.track(made, n).beyond(made.last), made.doubt
        before = untrained.get(curve.model)
        traces.append(Trace(curve=curve, track=found, doubt=doubt, line=line, untrained=before))
    metric = curves[0].metric if curves else ""
    return Panel(name=name, note=note, metric=metric, traces=tuple(traces))


# --- The figure ----------------------------------------------------------------------------------


def efficiency_figure(found: Sequence[Panel], *, narrow: bool = False) -> Figure | None:
    """All panels, three a row or one if `narrow`, with one legend; None where there is no curve."""
    full = [each for each in found if each.traces]
    drawn = full[:MOST_PANELS]
    if not drawn:
        return None
    looks = style.looks_of(trace.curve.model for each in full for trace in each.traces)
    traces = [trace for each in drawn for trace in each.traces]
    shown = {trace.curve.model for trace in traces}
    entries: list[Entry] = [
        (panels.line(**panels.measured_style(look, _SIZE)), style.fitted(name, 2.2))
        for name, look in looks.items()
        if name in shown and look is not REST
    ]
    grey = {"color": GREY, "markerfacecolor": GREY, "linestyle": "none"}
    if any(trace.curve.counts.max() > 1 for trace in traces):
        bar = panels.line(marker="|", markersize=7, **grey)
        dot = panels.line(marker="o", markersize=_SIZE, **grey)
        entries.append(((bar, dot), "mean of seeds ± standard error"))
    if any(1 < trace.curve.counts.max() <= _FEW_SEEDS for trace in traces):
        dot = panels.line(marker="o", markersize=1.8, alpha=0.4, **grey)
        entries.append((dot, "single seeds (at the edge if beyond the frame)"))
    if any(trace.track for trace in traces):
        entries.append((panels.forecast_handle(_ANY), "forecast, 90% band"))
    if any(trace.line for trace in traces):
        dotted = panels.line(**panels.paper_style(GREY))
        entries.append((dotted, f"the paper's line: floor + {style.SIGMA} log N / N"))
        thin = panels.line(color=GREY, linewidth=0.5)
        entries.append((thin, "its floor (value: right edge)"))
    if any(trace.untrained is not None for trace in traces):
        before = panels.line(marker="<", markersize=5, color=GREY, markerfacecolor=GREY, **_BEFORE)
        entries.append((before, "before training, N = 0"))
    rest = sum(look is REST for look in looks.values())
    if rest:
        plainly = panels.measured_style(REST)
        entries.append((panels.line(**plainly), f"{rest} further models, without forecasts"))
    notes = style.glossary([*looks, *(each.name for each in drawn)])
    for each in drawn:
        doubts = [(trace.curve.model, trace.doubt) for trace in each.traces if trace.doubt]
        notes += [f"{each.name}, {model}: {doubt}" for model, doubt in doubts]
    if len(full) > MOST_PANELS:
        notes.append(f"{MOST_PANELS} of {len(full)} points are drawn; the rest are left out.")
    floors = [style.digits(float(_floor(trace)), 2) for trace in traces if trace.line]
    right = max((style.inches_of(floor, FINE) for floor in floors), default=0.0) + 0.08
    margins = (0.56, max(0.47, right), 0.40, 0.34)
    with style.settings(fine=True):
        figure, frames = panels.sheet(len(drawn), entries, notes, margins=margins, narrow=narrow)
        across, heights = [each.across for each in drawn], [each.height for each in drawn]
        across = panels.shared(across)
        if len({(each.metric, each.log) for each in drawn}) == 1:
            heights = panels.shared(heights, log=drawn[0].log)
        for axes, each, *limits in zip(frames, drawn, across, heights, strict=True):
            panels.head(axes, each.name, each.note, room=0.42)
            labels = panels.SAMPLES, each.metric or "error"
            sizes = np.concatenate([trace.curve.sizes for trace in each.traces])
            panels.frame(axes, *limits, labels=labels, log=each.log, sizes=sizes)
            _draw(axes, each, looks)
        return figure


def _draw(axes: Axes, each: Panel, looks: Mapping[str, Look]) -> None:
    order = {model: index + 1 for index, model in enumerate(looks)}
    floors = []
    for trace in reversed(each.traces):  # the first model lies on top
        curve, look = trace.curve, looks[trace.curve.model]
        tag, colour = f"-{order[curve.model]}", look.colour
        if trace.track is not None:
            panels.draw_forecast(axes, trace.track, look, tag, width=1.2)
        if trace.line is not None:
            n = trace.line_n
            error = values(curve, trace.line.predict(n))
            axes.plot(n, error, gid=f"line{tag}", zorder=2.3, **panels.paper_style(colour))
            floor = _floor(trace)
            axes.axhline(floor, gid=f"floor{tag}", color=colour, linewidth=0.5, zorder=1.9)
            floors.append((floor, style.digits(floor, 2), look.text_colour))
        if 1 < curve.counts.max() <= _FEW_SEEDS:
            error = np.clip(values(curve, curve.error), *axes.get_ylim())
            dots = panels.seeds_style(look, _SIZE)
            axes.plot(curve.n, error, gid=f"seeds{tag}", clip_on=False, **dots)
        panels.draw_measured(axes, curve, look, tag, size=_SIZE)
        if trace.untrained is not None:
            start = values(curve, np.array([trace.untrained]))
            edge: Options = {"transform": axes.get_yaxis_transform(), "clip_on": False, "zorder": 3}
            axes.plot([0], start, gid=f"untrained{tag}", **edge, **look.mark("<"))
            axes.axhline(start[0], gid=f"before{tag}", color=colour, zorder=1.9, **_BEFORE)
    low = axes.get_ylim()[0]
    panels.beside(axes, [(max(at, low) if each.log else at, said, ink) for at, said, ink in floors])
    below = [float(trace.curve.error.min()) for trace in each.traces if each.log]
    if min(below, default=low) < low:
        said = f"↓ below the frame: errors down to {style.digits(min(below), 2)}"
        place: Options = {"transform": axes.transAxes, "ha": "left", "va": "bottom"}
        axes.text(0.02, 0.03, said, fontsize=FINE, color=DARK, gid="below", **place)


def _floor(trace: Trace) -> float:
    """Where the calibrated line of a trace ends, as it is drawn."""
    assert trace.line is not None
    return float(values(trace.curve, np.array(trace.line.floor)))
