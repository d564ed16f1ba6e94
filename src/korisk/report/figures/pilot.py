"""Figures of a pilot: measured errors, their extrapolation, and the answer at a target.

Values are in the user's unit: errors on a logarithmic axis, scores (larger is better) on a linear
one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from korisk.curves.curve import Curve
from korisk.curves.unit import words
from korisk.planning.compare import Comparison, Crossover
from korisk.planning.explain import chance
from korisk.planning.plan import Plan
from korisk.report.figures import panels, style
from korisk.report.figures.panels import Entry, values
from korisk.report.figures.style import DARK, LARGE, LOOKS, SMALL, Look, Options
from korisk.report.headline import headline, interval, short

WIDTH, HEIGHT = 6.3, 3.5  # inches, the height without the legend
NOTE = "points: means of seeds ± standard error; dashed: forecast with its 90% band"
CROWDED = "points: means of seeds ± standard error; dashed: forecasts (bands: up to three models)"
_BANDS = 3  # more models would hide each other's bands and brackets
_STEPS = 100  # sizes at which a curve is drawn
_SURE = 0.9  # default probability of the answer
_ANSWER = Look("#D55E00", "D", "")


def curve_figure(curve: Curve, *, ax: Axes | None = None) -> Figure:
    """Draw the measured errors of all seeds, and their means."""
    look, log = LOOKS[0], curve.unit.logarithmic
    entries: list[Entry] = [(panels.line(**panels.measured_style(look)), _measured(curve))]
    dots = panels.seeds_style(look)
    if curve.counts.max() > 1:
        entries.append((panels.line(**dots), "single seeds"))
    with style.settings():
        margins, notes = (0.75, 0.2, 0.45, 0.4), style.glossary([curve.model])
        figure, (axes,) = panels.sheet(
            1, entries, notes, margins=margins, height=0.8 * HEIGHT, width=WIDTH, size=SMALL, ax=ax
        )
        error, sizes = values(curve, curve.error), curve.sizes
        across = float(sizes[0]) / 1.15, float(sizes[-1]) * 1.15
        labels = panels.SAMPLES, quantity(curve)
        height = panels.limits([error], log=log)
        panels.frame(axes, across, height, labels=labels, log=log, sizes=sizes)
        panels.head(axes, curve.model or curve.metric or "learning curve", size=LARGE)
        axes.plot(curve.n, error, gid="points", **dots)
        panels.draw_measured(axes, curve, look)
        return figure


def plan_figure(
    plan: Plan,
    *,
    narrow: bool = False,
    ax: Axes | None = None,
    sure: float = _SURE,
) -> Figure:
    """Draw one pilot, its forecast, and the number of samples that a target needs.

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
    method = f"{plan.fit} forecast from {_counted(plan.curve)}"
    if plan.trust is not None:
        method += f" and {len(plan.related)} related (trust {chance(plan.trust)})"
    look, curve = LOOKS[0], plan.curve
    entries: list[Entry] = [(panels.line(**panels.measured_style(look)), _measured(curve))]
    if not plan.forecast.doubt:
        entries.append((panels.forecast_handle(look), "forecast, 90% band"))
    for n, label, filled in _numbers(plan, sure):
        mark = replace(_ANSWER, filled=filled).mark(size=6.0) | {"markeredgewidth": 1.2}
        entries.append((panels.line(**mark), f"{label}: N = {n:,}"))
    doubts = list(dict.fromkeys(filter(None, (plan.forecast.doubt, plan.doubt))))
    title = curve.model or curve.metric or "learning curve"
    advice = plan.recommend(sure)
    reason = [] if advice.action == "collect" else [advice.sentence]
    with style.settings():
        notes = [*reason, method, *style.glossary([curve.model]), *doubts]
        figure, axes = _canvas((plan,), entries, notes, narrow=narrow, ax=ax, sure=sure)
        bold: Options = {"color": _ANSWER.colour, "fontweight": "bold"}
        subtitle = answer(plan, sure)
        panels.head(axes, title, subtitle, size=LARGE, lift=11, most=1 + narrow, **bold)
        _mark_answer(axes, plan, _ANSWER, sure=sure)
        return figure


def comparison_figure(
    comparison: Comparison,
    notes: Sequence[str] = (),
    *,
    narrow: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """Draw two pilots, their forecasts, both answers at the target, and where the curves cross.

    Parameters
    ----------
    comparison : Comparison
        What `kr.compare` returns.
    notes : sequence of str, optional
        Sentences below the legend.
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
    'KO against FC'
    """
    plans = comparison.first, comparison.second
    title = " against ".join(comparison.names)
    crossover = comparison.crossover
    return _several(plans, comparison.names, title, crossover, notes, narrow=narrow, ax=ax)


def plans_figure(plans: Sequence[Plan], *, sure: float = _SURE) -> Figure:
    """Draw the pilots of one model or of several, their forecasts, and answers at one target."""
    if len(plans) == 1:
        return plan_figure(plans[0], sure=sure)
    drawn, names = plans[: len(LOOKS)], [plan.curve.name for plan in plans[: len(LOOKS)]]
    title = " and ".join(names) if len(plans) == 2 else f"{len(plans)} models"
    note = f"the first {len(drawn)} of {len(plans)} models are drawn"
    return _several(drawn, names, title, extra_notes=[note] * (drawn != plans), sure=sure)


def _several(
    plans: Sequence[Plan],
    names: Sequence[str],
    title: str,
    crossover: Crossover | None = None,
    extra_notes: Sequence[str] = (),
    *,
    narrow: bool = False,
    ax: Axes | None = None,
    sure: float = _SURE,
) -> Figure:
    """Draw pilots into one axes, each with a legend entry, and notes on doubts."""
    entries: list[Entry] = [
        (panels.line(**panels.measured_style(look)), f"{name[:36]}: {answer(plan, sure)}")
        for plan, look, name in zip(plans, LOOKS, names, strict=False)
    ]
    # Only a few models have bands; the note says so.
    notes = [NOTE if len(plans) <= _BANDS else CROWDED, *style.glossary(names), *extra_notes]
    if crossover is not None:
        entries.append(panels.crossover_entry())
        notes.append(crossover.explain())
    for name, plan in zip(names, plans, strict=True):
        doubts = dict.fromkeys(filter(None, (plan.forecast.doubt, plan.doubt)))
        notes += [f"{name}: {doubt}" for doubt in doubts]
    basis = _counted(*(plan.curve for plan in plans))
    method = f"{plans[0].fit} forecasts from {basis}; diamonds: N, {100 * sure:.4g}% sure and at "
    method += "even odds"
    with style.settings():
        figure, axes = _canvas(plans, entries, notes, crossover, narrow=narrow, ax=ax, sure=sure)
        panels.head(axes, title, method, size=LARGE, lift=11, most=1 + narrow)
        for index, plan in enumerate(plans):
            shift = panels.shift_of(index, len(plans)) if len(plans) <= _BANDS else None
            _mark_answer(axes, plan, LOOKS[index], f"-{index + 1}", shift, sure=sure)
        if crossover is not None:
            n = np.array([float(crossover.n)])
            errors = np.concatenate([plan.forecast.middle(n) for plan in plans])
            # The geometric mean of both curves, since the axis is logarithmic.
            height = values(plans[0].curve, np.sqrt(errors.prod(keepdims=True)))
            panels.draw_crossover(axes, crossover, float(height[0]))
        return figure


def answer(plan: Plan, sure: float = _SURE) -> str:
    """The recommendation with its interval as short text for figures."""
    advice = plan.recommend(sure)
    if advice.action != "collect":
        return short(advice)
    text = headline(advice, plan).removeprefix(f"{plan.curve.model}: ")
    interval_text = interval(advice, plan)
    return f"{text} ({interval_text})" if interval_text else text


def _numbers(plan: Plan, sure: float) -> list[tuple[int, str, bool]]:
    """The N marked on the target, their labels, and whether the mark is filled."""
    if plan.doubt:
        return []
    marked = [
        (plan.even, "even odds", False),
        (plan.samples(sure), f"{100 * sure:.4g}% sure", True),
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
    first, curve, target = plans[0], plans[0].curve, plans[0].target
    log = curve.unit.logarithmic
    end = max(*(_farthest(plan, sure) for plan in plans), 2.0 * crossover.n if crossover else 0.0)
    sizes = [panels.drawn_sizes(plan.forecast, end, steps=_STEPS) for plan in plans]
    tracks = [panels.track(plan.forecast, n) for plan, n in zip(plans, sizes, strict=True)]
    floor = None
    if len(plans) == 1 and first.middle is None and first.missed == "not reachable":
        floor_error = float(curve.unit.to_error(first.floor))
        # Only a floor between the target and the errors explains why the target is not reached.
        if first.goal < floor_error < float(curve.means.max()):
            floor = first.floor
    required = [np.array([target] if floor is None else [target, floor])]
    optional = []
    for plan, track in zip(plans, tracks, strict=True):
        beyond = track.beyond(plan.last)
        required += [values(plan.curve, plan.curve.error), beyond.middle]
        required += [*panels.error_bars(plan.curve)]
        optional += [beyond.better, beyond.worse]
    smallest_n = min(float(plan.curve.sizes[0]) for plan in plans)
    # In proportion to the width of the logarithmic axis.
    margin = max(1.05, (end / smallest_n) ** 0.025)
    across = smallest_n / margin, end * margin
    height, labels = panels.limits(required, optional, log=log), (panels.SAMPLES, quantity(curve))
    measured_sizes = np.concatenate([plan.curve.sizes for plan in plans])
    panels.frame(axes, across, height, labels=labels, log=log, sizes=measured_sizes)
    for index, (plan, track) in enumerate(zip(plans, tracks, strict=True)):
        look, tag = LOOKS[index], f"-{index + 1}" if len(plans) > 1 else ""
        error = values(plan.curve, plan.curve.error)
        axes.plot(plan.curve.n, error, gid=f"points{tag}", **panels.seeds_style(look))
        panels.draw_measured(axes, plan.curve, look, tag)
        panels.draw_forecast(axes, track.beyond(plan.last), look, tag, band=len(plans) <= _BANDS)
    # A hairline at the last measured N separates measured from extrapolated.
    last_sizes = [plan.last for plan in plans]
    for last, look in zip(last_sizes, LOOKS, strict=False):
        colour = DARK if len(set(last_sizes)) == 1 else look.colour
        axes.axvline(last, color=colour, linewidth=0.6, zorder=1.9)
    panels.above(axes, "measured", min(last_sizes), (-3, 2), ha="right", fontstyle="italic")
    if not all(plan.forecast.doubt for plan in plans):
        panels.above(axes, "extrapolated", max(last_sizes), (3, 2), fontstyle="italic")
    edge_labels = [panels.draw_target(axes, target)]
    if floor is not None:
        axes.axhline(floor, color=DARK, linewidth=0.6, gid="floor")
        edge_labels.append((floor, f"levels\noff at\n{style.digits(floor, 3)}", DARK))
    panels.beside(axes, edge_labels, SMALL)
    doubts = dict.fromkeys(doubt for plan in plans for doubt in (plan.forecast.doubt, plan.doubt))
    # The user's axes have no notes: doubts are written into the panel.
    if ax is not None and any(doubts):
        panels.say(axes, " ".join(filter(None, doubts)))
    return figure, axes


def _farthest(plan: Plan, sure: float) -> float:
    """Largest N of the figure: beyond the answer, and some way beyond the pilot."""
    last, first = float(plan.last), float(plan.curve.sizes[0])
    if plan.forecast.doubt:
        return last  # a doubtful forecast is not extrapolated
    candidates = [4.0 * last, float(last * (last / first) ** 0.3)]
    answers = [n for n, *_ in _numbers(plan, sure)]
    if not answers:
        return max(*candidates, 16.0 * last)
    candidates += [1.3 * n for n in answers]
    # An interval that ends far away would press the curve into a corner; it gets an arrow.
    if plan.upper <= 20.0 * max(*answers, last):
        candidates.append(1.3 * plan.upper)
    return max(candidates)


# --- Answers -------------------------------------------------------------------------------------


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
    marks = []
    for n, _, filled in _numbers(plan, sure):
        diamond = replace(look, filled=filled).mark("D", 6.0)
        diamond |= {"markeredgewidth": 1.2, "zorder": 3.2 + 0.1 * filled}
        marks.append(("answer" if filled else "even", n, diamond))
    panels.draw_answer(axes, plan, marks, look.colour, tag, shift)


# --- Words ---------------------------------------------------------------------------------------


def quantity(curve: Curve) -> str:
    """Label of the values: the metric, and its unit unless the name of the metric states it."""
    unit = curve.unit
    symbol = {"psnr": "dB", "percent": "%"}.get(unit.law)
    if not curve.metric:
        noun = "PSNR" if unit.law == "psnr" else unit.noun
        return f"{noun} ({symbol})" if symbol else noun
    unit_text = symbol or (unit.name if unit.name != unit.law else "")
    is_stated = unit_text.casefold() in words(curve.metric) or unit_text in curve.metric
    return curve.metric if is_stated else f"{curve.metric} ({unit_text})"


def _measured(curve: Curve) -> str:
    if curve.counts.max() == 1:
        return "measured"
    return f"mean of {panels.span(curve.counts.tolist())} seeds ± standard error"


def _counted(*curves: Curve) -> str:
    sizes = panels.span(len(curve.sizes) for curve in curves)
    return f"{sizes} sizes, {panels.seeds(curves)}"
