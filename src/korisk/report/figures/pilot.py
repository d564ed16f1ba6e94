"""A pilot on paper: what was measured, its extrapolation, and the answer to a target.

Figures are made without pyplot: they need no display and leave no global state. Values are drawn
in the user's unit, errors on a logarithmic axis, scores of which larger is better on a linear one.
"""

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from korisk.curves.curve import Curve
from korisk.curves.unit import words
from korisk.planning.compare import Comparison, Crossover
from korisk.planning.explain import chance
from korisk.planning.plan import Plan
from korisk.report.figures.frame import Frame, Track, has_floor, on_curve, values
from korisk.report.figures.style import (
    DARK,
    DPI,
    GREY,
    LARGE,
    LOOKS,
    MEDIUM,
    SMALL,
    Artist,
    Axes,
    ConstrainedLayoutEngine,
    Entry,
    Figure,
    HandlerTuple,
    Line2D,
    Look,
    Patch,
    ScaledTranslation,
    gridded,
    not_hidden,
    save,
    shortened,
    style,
    tick,
    wrapped,
)
from korisk.report.figures.ticks import Ticks, doubling_ticks, linear_ticks, log_ticks, number

__all__ = ["NOTE", "NO_ANSWER", "UNREACHABLE", "answer", "comparison_figure", "plan_figure", "save"]

WIDTH, HEIGHT = 6.3, 4.0  # inches
NOTE = "band: 90%; beyond the pilot it is an extrapolation"
UNREACHABLE = "not reachable according to this pilot"
NO_ANSWER = "no answer, see below"
_SURE = 0.95  # chance to reach a target from which on the number of samples needs no "if"
_ROW = 12.5  # points, of a legend
_LINE = 11.0  # and of a note

_FIRST, _SECOND = LOOKS[:2]
_ANSWER = Look("#D55E00", "D", "#D55E00", "-", "", "")


# --- The two figures, and their files ------------------------------------------------------------


def plan_figure(plan: Plan) -> Figure:
    """One pilot, its forecast, and the number of samples that a target asks for."""
    with style():
        frame = Frame((plan,))
        figure, axes = _canvas(frame)
        entries = _draw_curve(axes, plan.curve, frame.tracks[0], _FIRST)
        _mark_pilot_end(axes, (plan,), (DARK,))
        _draw_target(axes, frame)
        safe: list[Entry] = []
        if plan.samples is None:
            _write_at_target(axes, plan.target, answer(plan), 0.02, "left", frame.better)
        else:
            _mark_answer(axes, plan, frame, _ANSWER)
            _label_answer(axes, plan, frame)
            safe = _mark_safe(axes, plan, frame)
        how = f"{plan.fit} forecast from {_counted(plan.curve)}"
        if plan.trust is not None:
            how += f" and {len(plan.related)} related (trust {chance(plan.trust)})"
        _head(axes, _name(plan.curve), how)
        notes = list(dict.fromkeys(filter(None, (plan.forecast.doubt, plan.doubt))))
        _foot(figure, entries + safe, notes or [NOTE], columns=2 if safe else 3)
        return figure


def comparison_figure(comparison: Comparison) -> Figure:
    """Two pilots, their forecasts, both answers at the target, and where the curves cross."""
    plans, looks = (comparison.first, comparison.second), (_FIRST, _SECOND)
    with style():
        frame = Frame(plans, comparison.crossover)
        figure, axes = _canvas(frame)
        entries: list[Entry] = []
        shifts = (-4.0, 4.0) if _overlap(*plans) else (0.0, 0.0)
        for index, (plan, look) in enumerate(zip(plans, looks, strict=True)):
            tag = f"-{index + 1}"
            _draw_curve(axes, plan.curve, frame.tracks[index], look, tag)
            _mark_answer(axes, plan, frame, look, tag, shifts[index])
            handle = Line2D([], [], **look.mark() | {"linestyle": "-"})
            entries.append((handle, f"{shortened(comparison.names[index])}: {answer(plan)}"))
        _mark_pilot_end(axes, plans, [look.colour for look in looks])
        _draw_target(axes, frame)
        if comparison.crossover is not None:
            entries.append(_mark_crossover(axes, comparison.crossover, frame))
        counted = _counted(*(plan.curve for plan in plans))
        how = f"{comparison.first.fit} forecasts from {counted}; diamonds: N for the target"
        _head(axes, " against ".join(comparison.names), how)
        doubts = [
            f"{shortened(name)}: {said}"
            for name, plan in zip(comparison.names, plans, strict=True)
            for said in dict.fromkeys(filter(None, (plan.forecast.doubt, plan.doubt)))
        ]
        _foot(figure, entries, [NOTE, *doubts], columns=1)
        return figure


def answer(plan: Plan) -> str:
    """The number of samples with its chance and its range, as a figure writes it."""
    if plan.doubt:
        return NO_ANSWER
    if plan.samples is None or plan.chance is None:
        return f"{UNREACHABLE}, chance {chance(plan.reach)}"
    condition = "" if on_curve(plan) or plan.reach >= _SURE else "if reached: "
    ends = _range_words(plan.lower, plan.upper, "90%: " if plan.samples > plan.last else "")
    return f"{condition}N = {plan.samples:,}, chance {chance(plan.chance)}{ends}"


# --- The frame -----------------------------------------------------------------------------------


def _canvas(frame: Frame) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
    axes = figure.add_subplot()
    axes.set(xscale="log", yscale="log" if frame.log else "linear")
    axes.set(xlim=(frame.left, frame.right), ylim=frame.height, xlabel="training samples N")
    quantity = _quantity(frame.plans[0].curve)
    axes.set_ylabel(textwrap.fill(quantity, 34), parse_math=False)
    tick(axes.xaxis, _sample_ticks(frame))
    tick(axes.yaxis, log_ticks(*frame.height) if frame.log else linear_ticks(*frame.height))
    gridded(axes)
    return figure, axes


def _sample_ticks(frame: Frame) -> Ticks:
    """Powers of two where all pilots have such sizes, else round decimal numbers."""
    sizes = np.concatenate([plan.curve.sizes for plan in frame.plans])
    if frame.right < 1e6 and not np.any(sizes & (sizes - 1)):
        return doubling_ticks(int(sizes.min()), frame.left, frame.right)
    return log_ticks(frame.left, frame.right)


def _head(axes: Axes, name: str, how: str) -> None:
    title = textwrap.fill(name, 52)
    axes.set_title(title, loc="left", pad=27, fontsize=LARGE, fontweight="bold", parse_math=False)
    axes.annotate(
        how, (0, 1), (0, 15), xycoords="axes fraction", textcoords="offset points", color=GREY
    )


def _foot(figure: Figure, entries: Iterable[Entry], notes: Iterable[str], *, columns: int) -> None:
    """The legend and the notes, in a strip of their own under the axes."""
    handles, labels = zip(*entries, strict=True)
    lines = [line for note in notes for line in wrapped(note, 0.97 * WIDTH, SMALL)]
    point = 1 / (72 * HEIGHT)
    bottom = (4 + _LINE * len(lines)) * point
    strip = bottom + math.ceil(len(handles) / columns) * _ROW * point
    # Laid out once and then left alone: laid out again with each file, no two would be the same.
    ConstrainedLayoutEngine(rect=(0, strip, 1, 1 - strip)).execute(figure)
    legend = figure.legend(
        handles,
        [not_hidden(label) for label in labels],
        loc="lower left",
        bbox_to_anchor=(0.01, bottom),
        ncols=columns,
        handler_map={tuple: HandlerTuple(ndivide=1)},
        handlelength=2.6,
        columnspacing=2.5,
        labelspacing=0.35,
        borderaxespad=0,
        borderpad=0,
        frameon=False,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    for place, line in enumerate(reversed(lines)):
        figure.text(0.01, (4 + _LINE * place) * point, line, color=GREY, parse_math=False)


# --- Curves --------------------------------------------------------------------------------------


def _draw_curve(axes: Axes, curve: Curve, track: Track, look: Look, tag: str = "") -> list[Entry]:
    dots = look.mark(size=2.6) | {"markerfacecolor": look.colour, "markeredgewidth": 0}
    axes.plot(curve.n, values(curve, curve.error), gid=f"points{tag}", alpha=0.4, **dots)
    _draw_means(axes, curve, look, tag)
    fitted = _draw_part(axes, track, look, f"fitted{tag}", extrapolated=False)
    entries: list[Entry] = [
        (Line2D([], [], **look.mark()), _means_words(curve)),
        (fitted, "between the measured means"),
    ]
    if track.n[-1] > track.last:
        beyond = _draw_part(axes, track, look, f"extrapolated{tag}", extrapolated=True)
        entries.append((beyond, "extrapolated"))
    return entries


def _draw_means(axes: Axes, curve: Curve, look: Look, tag: str) -> None:
    """The means, and bars of one standard error where there are seeds to tell it."""
    repeated = curve.counts > 1
    mean = curve.means[repeated]
    error = curve.deviations[repeated] / np.sqrt(curve.counts[repeated])
    low, high = values(curve, mean - error), values(curve, mean + error)
    axes.vlines(curve.sizes[repeated], low, high, color=look.colour, linewidth=1.1, zorder=2.6)
    axes.plot(curve.sizes, values(curve, curve.means), gid=f"means{tag}", zorder=2.7, **look.mark())


def _draw_part(
    axes: Axes, track: Track, look: Look, gid: str, *, extrapolated: bool
) -> tuple[Artist, ...]:
    """The middle and the band; dashed, lighter and hatched where they are an extrapolation."""
    part = track.extrapolated if extrapolated else track.measured
    band = track.n[part], track.better[part], track.worse[part]
    layers: list[dict[str, Any]] = [{"facecolor": look.colour, "alpha": 0.28, "linewidth": 0}]
    if extrapolated:
        layers[0]["alpha"] = 0.1
        # A layer of its own, pale rather than transparent: SVG and PDF lose other hatches.
        pale = {"facecolor": "none", "edgecolor": look.pale, "hatch": look.hatch, "linewidth": 0}
        layers.append(pale)
    for layer in layers:
        axes.fill_between(*band, **layer)
    dashes = look.dashes if extrapolated else "-"
    style: dict[str, Any] = {"color": look.colour, "linestyle": dashes, "linewidth": 1.5}
    axes.plot(track.n[part], track.middle[part], gid=gid, zorder=2.2, **style)
    return *(Patch(**layer) for layer in layers), Line2D([], [], **style)


def _mark_pilot_end(axes: Axes, plans: Sequence[Plan], colours: Sequence[str]) -> None:
    """A hairline where measuring ended, and above the frame what lies on its either side."""
    lasts = [plan.last for plan in plans]
    for last, colour in zip(lasts, colours, strict=True):
        shared = len(set(lasts)) == 1
        axes.axvline(last, color=DARK if shared else colour, linewidth=0.6, zorder=1.9)
    words = [(min(lasts), "measured", "right", -3), (max(lasts), "extrapolated", "left", 3)]
    if all(plan.forecast.doubt for plan in plans):
        del words[1]
    for n, word, side, shift in words:
        axes.annotate(
            word,
            (n, 1),
            (shift, 2),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            ha=side,
            color=GREY,
            fontstyle="italic",
        )


# --- The target and the answers ------------------------------------------------------------------


def _draw_target(axes: Axes, frame: Frame) -> None:
    """The target's line and, where a single plan cannot reach it, the floor that is in the way."""
    plan = frame.plans[0]
    axes.axhline(plan.target, color=DARK, linewidth=0.9, gid="target", zorder=2.1)
    target, apart = frame.up(plan.target), 0.0
    if len(frame.plans) == 1 and has_floor(plan):
        axes.axhline(plan.floor, color=DARK, linewidth=1.1, linestyle=":", gid="floor")
        floor = frame.up(plan.floor)
        lack = max(0.0, 0.2 - abs(floor - target)) / 2  # so far the words are moved apart
        apart = math.copysign(lack, target - floor)
        _label_margin(axes, floor - apart, f"levels\noff at\n{_short(plan.floor, 3)}")
    _label_margin(axes, target + apart, f"target\n{_short(plan.target)}")


def _label_margin(axes: Axes, height: float, text: str) -> None:
    axes.text(1.018, height, text, transform=axes.transAxes, va="center", color=DARK)


def _mark_answer(
    axes: Axes, plan: Plan, frame: Frame, look: Look, tag: str = "", shift: float = 0.0
) -> None:
    """The answer on the target's line, and its range as a bracket, `shift` points above it.

    Hollow where the drawn curve passes the target elsewhere.
    """
    if plan.samples is None:
        return
    moved = ScaledTranslation(0, shift / 72, axes.figure.dpi_scale_trans)
    place: dict[str, Any] = {"transform": axes.transData + moved, "color": look.colour, "zorder": 3}
    _bracket(axes, frame, (plan.lower, plan.upper), plan.target, f"range{tag}", place)
    face = look.colour if on_curve(plan) else "white"
    diamond = look.mark("D", 6.0) | {"markerfacecolor": face, "markeredgewidth": 1.2, "zorder": 3.2}
    axes.plot([plan.samples], [plan.target], gid=f"answer{tag}", **place | diamond)


def _bracket(
    axes: Axes,
    frame: Frame,
    ends: tuple[float, float],
    height: float,
    gid: str,
    style: dict[str, Any],
) -> None:
    """A range of N with a bar at each end, or an arrow where it leaves the frame."""
    if not ends[0] <= frame.right:
        return
    right = min(ends[1], frame.right)
    axes.plot([ends[0], right], [height] * 2, **{"gid": gid, "linewidth": 1.5, **style})
    tip = {"marker": ">", "markersize": 5} if ends[1] > frame.right else {"marker": "|"}
    for n, marker in ((ends[0], {"marker": "|"}), (right, tip)):
        bar = {"markersize": 7, "markeredgewidth": 1.5, "clip_on": False, **style, **marker}
        axes.plot([n], [height], **bar)


def _label_answer(axes: Axes, plan: Plan, frame: Frame) -> None:
    """The answer in words, where the band leaves the target's line alone.

    That is short of the range's lower end on the better side of the target, or past its upper end
    on the other side.
    """
    text = answer(plan).replace(" (90%", "\n(90%") if not on_curve(plan) else answer(plan)
    width = 5.4 * max(map(len, text.splitlines())) / 365  # of the frame, about
    samples = plan.samples or plan.last
    before = frame.across(min(plan.lower, samples))
    after = frame.across(max(samples, min(plan.upper, frame.right)))
    if before >= min(width, 1 - after):
        x, side, away = max(before, width), "right", frame.better
    else:
        x, side, away = min(after, 1 - width), "left", -frame.better
    _write_at_target(axes, plan.target, text, x, side, away)


def _write_at_target(axes: Axes, target: float, text: str, x: float, side: str, away: int) -> None:
    axes.annotate(
        text,
        (x, target),
        (0, 6 * away),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        ha=side,
        va="bottom" if away > 0 else "top",
        fontsize=MEDIUM,
        fontweight="bold",
        color=_ANSWER.colour,
        bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.8},
        gid="label",
        zorder=4,
    )


def _mark_safe(axes: Axes, plan: Plan, frame: Frame) -> list[Entry]:
    """A small mark at the N that is enough with 90%, unless it is the answer or there is none."""
    safe = plan.safe(0.9)
    if safe is None or safe == plan.samples:
        return []
    mark = _SECOND.mark("^" if frame.better < 0 else "v", 5.5)
    axes.plot([safe], [plan.target], gid="safe", zorder=3.1, **mark)
    return [(Line2D([], [], **mark), f"enough with 90%: N = {safe:,}")]


def _mark_crossover(axes: Axes, crossover: Crossover, frame: Frame) -> Entry:
    """A cross where the curves do, and the range of N in which they might."""
    at = np.array([float(crossover.n)])
    errors = np.concatenate([plan.forecast.middle(at) for plan in frame.plans])
    height = float(values(frame.plans[0].curve, np.sqrt(errors.prod(keepdims=True)))[0])
    line: dict[str, Any] = {"color": DARK, "linestyle": ":", "linewidth": 1.3}
    ends = crossover.lower, crossover.upper
    if not math.isnan(crossover.lower):
        _bracket(axes, frame, ends, height, "crossover-range", line | {"zorder": 3.4})
    mark: dict[str, Any] = {"marker": "X", "markersize": 7, "markeredgecolor": "white"}
    axes.plot(at, [height], gid="crossover", zorder=3.5, **line | mark)
    after = f"then {shortened(crossover.better_after)} is ahead"
    where = f"N ≈ {crossover.n:,}{_range_words(*ends)}"
    return Line2D([], [], **line | mark), f"the curves cross at {where}; {after}"


def _overlap(first: Plan, second: Plan) -> bool:
    if first.samples is None or second.samples is None:
        return False
    return first.lower <= 1.2 * second.upper and second.lower <= 1.2 * first.upper


# --- Words ---------------------------------------------------------------------------------------


def _name(curve: Curve) -> str:
    return curve.model or curve.metric or "learning curve"


def _quantity(curve: Curve) -> str:
    """What the values are: the metric, and its unit where the metric's name does not tell it."""
    unit = curve.unit
    symbol = {"psnr": "dB", "percent": "%"}.get(unit.law)
    if not curve.metric:
        noun = "PSNR" if unit.law == "psnr" else unit.noun
        return f"{noun} ({symbol})" if symbol else noun
    word = symbol or (unit.name if unit.name != unit.law else "")
    told = word.casefold() in words(curve.metric) or word in curve.metric
    return curve.metric if told else f"{curve.metric} ({word})"


def _means_words(curve: Curve) -> str:
    if curve.counts.max() == 1:
        return "measured"
    return f"mean of {_span(curve.counts.tolist())} seeds ± standard error"


def _counted(*curves: Curve) -> str:
    sizes = _span(len(curve.sizes) for curve in curves)
    seeds = _span(count for curve in curves for count in curve.counts.tolist())
    return f"{sizes} sizes, {seeds} seed{'' if seeds == '1' else 's'}"


def _span(counts: Iterable[int]) -> str:
    known = sorted(set(counts))
    return f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"


def _range_words(lower: float, upper: float, what: str = "") -> str:
    if not math.isfinite(lower):
        return ""
    return f" ({what}{lower:,.0f} to {f'{upper:,.0f}' if math.isfinite(upper) else '∞'})"


def _short(value: float, digits: int = 4) -> str:
    return number(float(f"{value:.{digits}g}"))
