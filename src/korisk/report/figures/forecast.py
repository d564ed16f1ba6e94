"""The figure of a forecast with its plan: known errors, the forecast, the answer at a target.

Values are in the user's unit: errors on a logarithmic axis, scores (larger is better) on a linear
one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from korisk.curves.curve import Curve
from korisk.curves.unit import words as words_of
from korisk.planning import words
from korisk.planning.compare import Comparison, Crossover
from korisk.planning.forecast import Outlook
from korisk.planning.plan import Plan
from korisk.planning.recommend import Recommendation
from korisk.report.figures import panels, style
from korisk.report.figures.panels import Entry, values
from korisk.report.figures.style import DARK, LARGE, LOOKS, SMALL, Look, Options

WIDTH, HEIGHT = 6.3, 3.5  # inches, the height without the legend
NOTE = "means of seeds ± standard error; dashed: forecast, band: 90%"
_BANDS = 3  # more models would hide each other's bands and brackets
_STEPS = 100  # sizes at which a curve is drawn
_SURE = 0.9  # default probability of the answer


def curve_figure(curve: Curve, view: Outlook | None = None, *, ax: Axes | None = None) -> Figure:
    """Draw the errors of all seeds and their means, with a forecast if there is one."""
    look, log = LOOKS[0], curve.unit.logarithmic
    entries: list[Entry] = [(panels.line(**panels.measured_style(look)), _means(curve))]
    dots = panels.seeds_style(look)
    if curve.counts.max() > 1:
        entries.append((panels.line(**dots), "single seeds"))
    sizes, drawn = [float(curve.sizes[0]), float(curve.sizes[-1])], [values(curve, curve.error)]
    track = None
    if view is not None:
        sizes[1] = float(min(4 * view.last, view.horizon))
        track = panels.track(view, panels.drawn_sizes(view, sizes[1], steps=_STEPS))
        track = track if view.simulated is not None else track.beyond(view.last)
        drawn += [track.better, track.worse]
        entries.append((panels.forecast_handle(look), "forecast, 90% band"))
    with style.settings():
        margins, notes = (0.75, 0.2, 0.45, 0.4), style.glossary([curve.model])
        figure, (axes,) = panels.sheet(
            1, entries, notes, margins=margins, height=0.8 * HEIGHT, width=WIDTH, size=SMALL, ax=ax
        )
        labels = panels.SAMPLES, quantity(curve)
        across, height = (sizes[0] / 1.15, sizes[1] * 1.15), panels.limits(drawn, log=log)
        panels.frame(axes, across, height, labels=labels, log=log, sizes=curve.sizes)
        panels.head(axes, curve.model or curve.metric or "learning curve", size=LARGE)
        axes.plot(curve.n, drawn[0], gid="points", **dots)
        panels.draw_measured(axes, curve, look)
        if track is not None:
            panels.draw_forecast(axes, track, look)
        return figure


def plan_figure(
    plan: Plan, *, narrow: bool = False, ax: Axes | None = None, sure: float = _SURE
) -> Figure:
    """Draw one forecast, and the number of samples that a target needs.

    Parameters
    ----------
    plan : Plan
        What `kr.plan` returns.
    narrow : bool, default False
        For a column of print or a telephone.
    ax : matplotlib.axes.Axes, optional
        Draw into these, without the notes.
    sure : float, default 0.9
        The level of the number of samples that is marked.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, 6.3 inches wide, or 3.4 if `narrow`; `savefig` writes it.

    Examples
    --------
    >>> import korisk as kr
    >>> from korisk.report import plan_figure
    >>> curve = kr.Curve([16, 32, 64, 128], [0.2, 0.1, 0.05, 0.025], model="net")
    >>> plan_figure(kr.plan(curve, target=0.02)).axes[0].get_title(loc="left")
    'net'
    """
    return plans_figure([plan], narrow=narrow, ax=ax, sure=sure)


def comparison_figure(
    comparison: Comparison, *, narrow: bool = False, ax: Axes | None = None
) -> Figure:
    """Draw two forecasts, both answers at the target, and where the curves cross.

    Parameters
    ----------
    comparison : Comparison
        What `kr.compare` returns.
    narrow : bool, default False
        For a column of print or a telephone.
    ax : matplotlib.axes.Axes, optional
        Draw into these, without the notes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, 6.3 inches wide, or 3.4 if `narrow`.

    Examples
    --------
    >>> import korisk as kr
    >>> from korisk.report import comparison_figure
    >>> n, error = [16, 32, 64, 128], [0.2, 0.1, 0.05, 0.025]
    >>> ko, fc = kr.Curve(n, error, model="KO"), kr.Curve(n, [4 * e for e in error], model="FC")
    >>> comparison_figure(kr.compare(ko, fc, target=0.02)).axes[0].get_title(loc="left")
    'KO and FC'
    """
    return plans_figure([comparison.first, comparison.second], comparison, narrow=narrow, ax=ax)


def plans_figure(
    plans: Sequence[Plan],
    comparison: Comparison | None = None,
    *,
    narrow: bool = False,
    ax: Axes | None = None,
    sure: float = _SURE,
) -> Figure:
    """Draw the forecasts of one model or of several, and their answers at one target."""
    drawn = plans[: len(LOOKS)]
    crossover = comparison.crossover if comparison else None
    names = list(comparison.names if comparison else (p.forecast.evidence.name for p in drawn))
    curves, alone = [plan.forecast.evidence for plan in drawn], len(drawn) == 1
    advice = [plan.recommend(sure) for plan in drawn]
    entries: list[Entry] = []
    for plan, look, name, item in zip(drawn, LOOKS, names, advice, strict=False):
        handle = panels.line(**panels.measured_style(look))
        about = _about(item) if not alone else _means(plan.forecast.evidence)
        entries.append((handle, about if alone else f"{name[:36]}: {about}"))
        if plan.forecast.basis == "both" and plan.forecast.simulated is not None:
            entries.append((panels.line(**_cross(look)), f"{name[:36]}, simulated"))
    if alone and not drawn[0].forecast.doubt:
        entries.append((panels.forecast_handle(LOOKS[0]), "forecast, 90% band"))
    for n, label, filled in _numbers(drawn[0], sure) if alone else ():
        entries.append((panels.line(**_diamond(LOOKS[0], filled)), f"{label}: N = {n:,}"))
    known = "simulated" if drawn[0].forecast.basis == "rehearsal" else "measured"
    # The answer comes first, then its record, as everywhere.
    notes = [comparison.saving(), comparison.record] if comparison else []
    notes += [advice[0].sentence, advice[0].odds] if alone else []
    notes += [item.record for item in advice]
    notes += [f"{known} {NOTE}", *style.glossary(names)]
    notes += [f"the first {len(drawn)} of {len(plans)} models are drawn"] * (
        len(plans) > len(drawn)
    )
    if crossover is not None:
        entries.append(panels.crossover_entry())
        notes.append(crossover.explain())
    for name, plan in zip(names, drawn, strict=True):
        if alone and plan.doubt:  # it stands in the advice
            continue
        doubt = plan.doubt or plan.forecast.doubt
        notes += [doubt if alone else f"{name}: {doubt}"] * bool(doubt)
    notes = list(dict.fromkeys(filter(None, notes)))
    method = f"{_counted(*curves)}; diamonds: N, {words.level(sure)} sure (filled), 50% sure"
    title = " and ".join(names) if len(names) < 3 else f"{len(plans)} models"
    with style.settings():
        figure, axes = _canvas(drawn, entries, notes, crossover, narrow=narrow, ax=ax, sure=sure)
        title = title or curves[0].metric or "learning curve"
        panels.head(axes, title, method, size=LARGE, lift=11)
        for index, plan in enumerate(drawn):
            # Brackets of several models are moved apart.
            shift = 5.0 * (index - 0.5 * (len(drawn) - 1)) if len(drawn) <= _BANDS else None
            tag = "" if alone else f"-{index + 1}"
            _mark_answer(axes, plan, LOOKS[index], tag, shift, sure=sure)
        if crossover is not None:
            errors = np.concatenate([p.forecast.quantile(crossover.n, 0.5) for p in drawn])
            # The geometric mean of both curves, since the axis is logarithmic.
            height = values(curves[0], np.sqrt(errors.prod(keepdims=True)))
            panels.draw_crossover(axes, crossover, float(height[0]))
        return figure


def _about(advice: Recommendation) -> str:
    """The advice in a few words."""
    text = words.short(advice.action, advice.n)
    return f"{text} samples ({words.level(advice.sure)} sure)" if advice.chance else text


def _numbers(plan: Plan, sure: float) -> list[tuple[int, str, bool]]:
    """The N marked on the target, their labels, and whether the mark is filled."""
    marked = [
        (plan.even, "50% sure", False),
        (plan.samples(sure), f"{words.level(sure)} sure", True),
    ]
    return [(n, label, filled) for n, label, filled in marked if n is not None]


# --- The frame and the curves --------------------------------------------------------------------


def _canvas(
    plans: Sequence[Plan],
    entries: Sequence[Entry],
    notes: Sequence[str],
    crossover: Crossover | None = None,
    *,
    narrow: bool = False,
    ax: Axes | None = None,
    sure: float = _SURE,
) -> tuple[Figure, Axes]:
    """Create axes around points, target, answers and most of the bands, and draw the curves."""
    margins = (0.74, 0.58, 0.45, 0.78) if narrow else (0.75, 0.75, 0.45, 0.62)
    size: Options = {"height": (0.85 if narrow else 1) * HEIGHT, "width": WIDTH, "size": SMALL}
    figure, (axes,) = panels.sheet(1, entries, notes, margins=margins, **size, narrow=narrow, ax=ax)
    views = [plan.forecast for plan in plans]
    curves, first, target = [view.evidence for view in views], plans[0], plans[0].target
    log = curves[0].unit.logarithmic
    end = max(*(_farthest(plan, sure) for plan in plans), 2.0 * crossover.n if crossover else 0.0)
    tracks = [panels.track(view, panels.drawn_sizes(view, end, steps=_STEPS)) for view in views]
    floor = None
    if len(plans) == 1 and first.recommend(sure).action in ("unlikely", "stop"):
        floor_error = float(curves[0].unit.to_error(first.forecast.floor))
        # Only a floor between the target and the errors explains why the target is not reached.
        if first.goal < floor_error < float(curves[0].means.max()):
            floor = first.forecast.floor
    required = [np.array([target] if floor is None else [target, floor])]
    optional = []
    for view, curve, track in zip(views, curves, tracks, strict=True):
        beyond = track if view.simulated is not None else track.beyond(view.last)
        required += [values(curve, curve.error), beyond.middle, *panels.error_bars(curve)]
        optional += [beyond.better, beyond.worse]
    smallest_n = min(float(curve.sizes[0]) for curve in curves)
    # In proportion to the width of the logarithmic axis.
    margin = max(1.05, (end / smallest_n) ** 0.025)
    across = smallest_n / margin, end * margin
    height, labels = (
        panels.limits(required, optional, log=log),
        (panels.SAMPLES, quantity(curves[0])),
    )
    all_sizes = np.concatenate([curve.sizes for curve in curves])
    panels.frame(axes, across, height, labels=labels, log=log, sizes=all_sizes)
    for index, (view, curve, track) in enumerate(zip(views, curves, tracks, strict=True)):
        look, tag = LOOKS[index], f"-{index + 1}" if len(plans) > 1 else ""
        error = values(curve, curve.error)
        axes.plot(curve.n, error, gid=f"points{tag}", **panels.seeds_style(look))
        panels.draw_measured(axes, curve, look, tag)
        if view.basis == "both" and view.simulated is not None:
            means = values(curve, view.simulated.means)
            axes.plot(view.simulated.sizes, means, gid=f"simulated{tag}", **_cross(look))
        beyond = track if view.simulated is not None else track.beyond(view.last)
        panels.draw_forecast(axes, beyond, look, tag, band=len(plans) <= _BANDS)
    # A hairline at the last known N separates it from what is extrapolated.
    last_sizes = [view.last for view in views]
    for last, look in zip(last_sizes, LOOKS, strict=False):
        colour = DARK if len(set(last_sizes)) == 1 else look.colour
        axes.axvline(last, color=colour, linewidth=0.6, zorder=1.9)
    word = "measured" if views[0].simulated is None else "simulated"
    panels.above(axes, word, min(last_sizes), (-3, 2), ha="right", fontstyle="italic")
    if not all(view.doubt for view in views):
        panels.above(axes, "extrapolated", max(last_sizes), (3, 2), fontstyle="italic")
    edge_labels = [panels.draw_target(axes, target)]
    if floor is not None:
        axes.axhline(floor, color=DARK, linewidth=0.6, gid="floor")
        edge_labels.append((floor, f"levels\noff at\n{style.digits(floor, 3)}", DARK))
    panels.beside(axes, edge_labels, SMALL)
    return figure, axes


def _farthest(plan: Plan, sure: float) -> float:
    """Largest N of the figure: beyond the answer, and some way beyond what is known."""
    view = plan.forecast
    last, first = float(view.last), float(view.evidence.sizes[0])
    if view.doubt:
        return last  # a doubtful forecast is not extrapolated
    candidates = [4.0 * last, float(last * (last / first) ** 0.3)]
    answers = [n for n, *_ in _numbers(plan, sure)]
    if not answers:
        return min(max(*candidates, 16.0 * last), view.horizon)
    candidates += [1.3 * n for n in answers]
    # A range that ends far away would press the curve into a corner; it gets an arrow.
    if plan.upper <= 20.0 * max(*answers, last):
        candidates.append(1.3 * plan.upper)
    return min(max(candidates), view.horizon)


# --- Marks and words -----------------------------------------------------------------------------


def _mark_answer(
    axes: Axes,
    plan: Plan,
    look: Look,
    tag: str = "",
    shift: float | None = 0.0,
    sure: float = _SURE,
) -> None:
    """Mark N on the target's line, filled at the level asked for, hollow at even odds."""
    if plan.doubt:
        return
    marks = [
        ("answer" if filled else "even", n, _diamond(look, filled) | {"zorder": 3.2 + 0.1 * filled})
        for n, _, filled in _numbers(plan, sure)
    ]
    panels.draw_answer(axes, plan, marks, look.colour, tag, shift)


def _diamond(look: Look, filled: bool) -> Options:
    return replace(look, filled=filled).mark("D", 6.0) | {"markeredgewidth": 1.2}


def _cross(look: Look) -> Options:
    return look.mark("x", 4.0) | {"markeredgewidth": 1.0, "markeredgecolor": look.colour}


def quantity(curve: Curve) -> str:
    """Label of the values: the metric, and its unit unless the name of the metric states it."""
    unit = curve.unit
    symbol = {"psnr": "dB", "percent": "%"}.get(unit.law)
    if not curve.metric:
        noun = "PSNR" if unit.law == "psnr" else unit.noun
        return f"{noun} ({symbol})" if symbol else noun
    unit_text = symbol or (unit.name if unit.name != unit.law else "")
    is_stated = unit_text.casefold() in words_of(curve.metric) or unit_text in curve.metric
    metric = words.quantity(curve.metric, "")
    return metric if is_stated else f"{metric} ({unit_text})"


def _means(curve: Curve) -> str:
    if curve.counts.max() == 1:
        return "measured"
    return f"mean of {panels.span(curve.counts.tolist())} seeds ± standard error"


def _counted(*curves: Curve) -> str:
    sizes = panels.span(len(curve.sizes) for curve in curves)
    return f"{sizes} sizes, {panels.seeds(curves)}"
