"""One page for a proposal or an ethics board: question, advice, figure, assumptions, track record.

What it says is what `recommend` of a plan says, or of a rehearsal before anything was measured. How
often such answers of a plan held is in `held.json`, which `python -m benchmarks.planner.odds
--held` writes from the kept benchmark.
"""

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from numpy.typing import NDArray

from korisk._version import __version__
from korisk.planning.explain import chance, count, value
from korisk.planning.plan import Plan
from korisk.planning.protocol import Recommendation
from korisk.planning.recommend import check_words
from korisk.prediction.prediction import PredictedPlan, trust_words
from korisk.prediction.record import point_record
from korisk.prediction.rehearsal.rehearsed import Rehearsed
from korisk.prediction.study import PointPrediction
from korisk.report.figures import panels, style
from korisk.report.figures.pilot import plan_figure, quantity
from korisk.report.figures.prediction import SMALLEST, prediction_figure
from korisk.report.figures.style import DARK, DPI, FINE, GREY, LARGE, LOOKS, MEDIUM, SMALL, Options
from korisk.report.headline import held, record

WIDTH, HEIGHT = 8.27, 11.69  # inches: A4
Array = NDArray[np.generic]
Edges = tuple[float, float]  # of text, in inches from the left
_PAGE, _FIRST, _SECOND = (0.8, 7.47), (0.8, 3.95), (4.32, 7.47)  # all of it, columns at its foot
_BOX = (0.98, 7.29)  # inside the box
_PICTURE = "The picture: chances of all targets, said and come true."
_ASSUMED, _HELD = "What this assumes", "How often such answers held"
_CHECK, _PILOT = "Check it first", "What the pilot says"
_FOOT = "An estimate from {} errors: no guarantee, and no statement about single patients."


def sheet(
    plan: Plan, *, sure: float = 0.9, cost: float | None = None, title: str = "", date: str = ""
) -> Figure:
    """Draw a plan as one page of A4, to hand to those who decide.

    Parameters
    ----------
    plan : Plan
        For one model and target.
    sure : float, default 0.9
        The chance that the samples are to be enough with.
    cost : float, optional
        Price of one sample.
    title : str, optional
        What the pilot is called, such as its file.
    date : str, optional
        When it was made. Default: today.

    Returns
    -------
    matplotlib.figure.Figure
        The page; `savefig` writes it.

    Examples
    --------
    >>> import korisk as kr
    >>> from korisk.report.sheet import sheet
    >>> pilot = kr.Curve([16, 32, 64, 128], [0.2, 0.1, 0.05, 0.025], model="net")
    >>> sheet(kr.plan(pilot, target=0.02)).get_size_inches().round(1).tolist()
    [8.3, 11.7]
    """
    advice, curve = plan.recommend(sure, cost), plan.curve
    seeds = f"{len(curve.sizes)} sizes, {panels.seeds([curve])}"
    measured = f"Pilot {title}".strip() + f": N = {panels.span(curve.sizes.tolist())}, {seeds}."

    def draw(axes: Axes) -> None:
        plan_figure(plan, ax=axes, sure=sure, headed=False)

    return _sheet(
        plan,
        advice,
        named=(curve.model, quantity(curve)),
        kind="A plan from a pilot",
        told=measured,
        findings=plan.findings,
        draw=draw,
        sizes=curve.sizes,
        lists=[(_ASSUMED, _assumptions(plan, advice)), (_HELD, [record(), _PICTURE])],
        measured="measured",
        date=date,
    )


def rehearsal_sheet(
    point: PointPrediction,
    target: float,
    *,
    sure: float = 0.9,
    cost: float | None = None,
    date: str = "",
) -> Figure:
    """Draw what is known of one model before a scan is made as one page of A4.

    Parameters
    ----------
    point : PointPrediction
        With one model.
    target : float
        The mean squared error to reach.
    sure : float, default 0.9
        The chance that the samples are to be enough with.
    cost : float, optional
        Price of one sample.
    date : str, optional
        When it was made. Default: today.

    Returns
    -------
    matplotlib.figure.Figure
        The page; `savefig` writes it.
    """
    (model,), (plan,) = point.models, point.plans(target)
    advice, check = plan.recommend(sure, cost), plan.check
    if isinstance(model, Rehearsed):
        told, _, *notes = model.basis()
        by_hand = " Its training is the one that was rehearsed."
    else:
        told, by_hand = f"{point.name}: computed from {point.images}; nothing was trained.", ""
        notes = [*trust_words(model), *model.notes]
    content = point_record(point.to_dict([target], sure=sure))

    def draw(axes: Axes) -> None:
        prediction_figure(content, ax=axes, needed=[plan], sure=sure, headed=False)

    assumed = [
        f"Operator, noise and images are those that were simulated.{by_hand}",
        "The data to come are like the example images: population, device and protocol.",
        "The target is meant for the mean over images, on test data.",
    ]
    # The first check, or what is said of the pilot, has a place of its own.
    heading, words = (_PILOT, notes) if check is None else (_CHECK, [check_words(check)])
    reasons = tuple(reason for reason in advice.reasons if reason not in words)
    return _sheet(
        plan,
        replace(advice, reasons=reasons),
        named=(plan.model, "a mean squared error of"),
        kind="A rehearsal before a scan is made",
        told=told,
        findings=() if check is None else tuple(notes),
        draw=draw,
        sizes=np.array([SMALLEST]),
        lists=[(_ASSUMED, assumed), (heading, words)],
        measured="simulated",
        date=date,
    )


def _sheet(
    plan: PredictedPlan | Plan,
    advice: Recommendation,
    *,
    named: tuple[str, str],
    kind: str,
    told: str,
    findings: tuple[str, ...],
    draw: Callable[[Axes], None],
    sizes: Array,
    lists: Sequence[tuple[str, Sequence[str]]],
    measured: str,
    date: str,
) -> Figure:
    """A page: question, advice, curve and chances above each other, and two lists at its foot."""
    model, what = named
    need = f"does {model} need to reach" if model else "are needed to reach"
    question = f"How many training samples {need} {what} {value(plan.target)}?"
    with style.settings():
        page = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
        when = f"{date or datetime.date.today().isoformat()}, korisk {__version__}"
        _line(page, _PAGE[0], 0.6, f"How much training data? {kind}", color=GREY)
        _line(page, _PAGE[1], 0.6, when, color=GREY, ha="right")
        down = _text(page, 0.95, [question], 13, fontweight="bold")
        known = [" ".join([told, *(f"{each}." for each in style.glossary([model]))])]
        down = _text(page, down, known, SMALL, color=GREY) + 0.02
        down = _advice(page, down, advice, findings) + 0.28
        drawn = _axes(page, 1.4, down, 5.25, 2.85)
        draw(drawn)
        drawn.set_xlabel("")
        below = _axes(page, 1.4, down + 3.15, 5.25, 1.3)
        _odds(below, plan, advice, drawn.get_xlim(), sizes)
        top = max(down + 5.15, 8.3)
        for x, (heading, said) in zip((_FIRST, _SECOND), lists, strict=True):
            _line(page, x[0], top, heading, fontsize=LARGE, fontweight="bold")
            down = _text(page, top + 0.27, said, SMALL, x)
        if lists[1][0] == _HELD:
            _reliability(_axes(page, _SECOND[0] + 0.42, down, 1.1, 0.85))
        _line(page, _PAGE[0], HEIGHT - 0.4, _FOOT.format(measured), color=GREY, fontsize=FINE)
        return page


def _assumptions(plan: Plan, advice: Recommendation) -> list[str]:
    said = ["The data to come are like the pilot's: population, device, network and training."]
    if not plan.doubt and (advice.n is None or advice.n > plan.last):
        said.append(
            f"Beyond N = {plan.last:,} nothing was measured. There the curve is extrapolated: "
            "power laws with a floor, and deviations from them such as real curves show."
        )
    of = "one trained network" if plan.curve.counts.max() == 1 else "the mean over seeds"
    said.append(f"The target is meant for {of}, on test data.")
    if plan.related:
        said.append(f"Related curves ({len(plan.related)}) have a part in the forecast.")
    if advice.limit is not None and advice.action in ("collect", "measure"):
        said.append(advice.limit.sentence)
    return said


def _advice(page: Figure, top: float, advice: Recommendation, findings: tuple[str, ...]) -> float:
    """The advice in a box, with what is odd about the pilot, and where that ends."""
    blue = LOOKS[0].colour
    down = _text(page, top + 0.3, [advice.sentence], 13, _BOX, fontweight="bold", color=blue)
    said = [" ".join(advice.reasons), advice.odds, *findings[:2]]
    down = _text(page, down + 0.02, said, MEDIUM, _BOX) - 0.02
    corner, width = (_PAGE[0] / WIDTH, 1 - down / HEIGHT), (_PAGE[1] - _PAGE[0]) / WIDTH
    box = FancyBboxPatch(corner, width, (down - top) / HEIGHT, zorder=0)
    box.set_boxstyle("round", pad=0, rounding_size=0.006)
    box.set(facecolor=style.pale(blue, 0.92), edgecolor=blue, linewidth=0.8)
    page.add_artist(box)
    return down


def _odds(
    axes: Axes,
    plan: PredictedPlan | Plan,
    advice: Recommendation,
    across: tuple[float, float],
    sizes: Array,
) -> None:
    """The chance that the target is met by N, the level asked for, and its N."""
    labels, blue = (panels.SAMPLES, "chance, %"), LOOKS[0].colour
    panels.frame(axes, across, (0, 104), labels=labels, log=False, sizes=sizes)
    n = np.geomspace(max(across[0], plan.chances.n[0]), min(across[1], plan.chances.n[-1]), 300)
    chances = 100 * np.array([plan.chances.at(size) for size in n])
    if (isinstance(plan, Plan) and plan.doubt) or not np.isfinite(chances).all():
        panels.say(axes, "No chance is stated.")
        return
    axes.plot(n, chances, gid="chance", color=blue, linewidth=1.5)
    axes.fill_between(n, chances, facecolor=blue, alpha=0.12, linewidth=0)
    level, needed = 100 * advice.sure, plan.samples(advice.sure)
    axes.axhline(level, color=DARK, linewidth=0.9, gid="level")
    panels.beside(axes, [(level, f"{level:.4g}% sure", DARK)], SMALL)
    place: Options = {"textcoords": "offset points", "fontsize": SMALL}
    for size, face in {advice.even: "white", needed: LOOKS[1].colour}.items():  # one if equal
        if size is not None and across[0] <= size <= across[1]:
            height = 100 * plan.chances.at(size)
            mark = LOOKS[1].mark("D", 6.0) | {"markerfacecolor": face, "markeredgewidth": 1.2}
            axes.plot([size], [height], gid=f"n-{size}", zorder=3, **mark)
            axes.annotate(f"N = {size:,}", (size, height), (6, -4), va="top", **place)
    if needed is None:
        words = f"chance {chance(plan.reach)} by N = {count(plan.chances.n[-1])}"
        axes.annotate(words, (n[-1], chances[-1]), (-4, 5), ha="right", **place)


def _reliability(axes: Axes) -> None:
    """What was said against what came true; larger dots stand for more statements."""
    said, true, weight = np.array(held()["odds"]).T
    axes.plot([0, 100], [0, 100], color=GREY, linewidth=0.8)
    look: Options = {"s": 50 * np.sqrt(weight / weight.max()), "color": LOOKS[0].colour}
    axes.scatter(100 * said, 100 * true, linewidth=0, gid="held", **look)
    panels.gridded(axes)
    axes.set(xlim=(-5, 105), ylim=(-5, 105), xticks=[0, 50, 100], yticks=[0, 50, 100])
    axes.tick_params(labelsize=FINE, length=2)
    axes.set_xlabel("said, %", fontsize=FINE)
    axes.set_ylabel("came true, %", fontsize=FINE)


def _axes(page: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at inches from the upper left corner."""
    bottom = HEIGHT - top - height
    return page.add_axes((left / WIDTH, bottom / HEIGHT, width / WIDTH, height / HEIGHT))


def _line(page: Figure, left: float, top: float, text: str, **options: object) -> None:
    place: Options = {"fontsize": SMALL, "va": "baseline"} | options
    page.text(left / WIDTH, 1 - top / HEIGHT, text, **place)


def _text(
    page: Figure, top: float, said: Iterable[str], size: float, x: Edges = _PAGE, **options: object
) -> float:
    """Paragraphs from a place downwards, between two edges; returns where the next would begin."""
    for paragraph in filter(None, said):
        for words in style.wrapped(paragraph, x[1] - x[0], size, bold="fontweight" in options):
            _line(page, x[0], top, words, **{"fontsize": size, "color": DARK} | options)
            top += 1.42 * size / 72
        top += 0.35 * size / 72
    return top
