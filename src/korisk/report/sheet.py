"""One page for a proposal or an ethics board: question, advice, figure, assumptions, track record.

The advice is that of `recommend`, of a plan or of a rehearsal before anything was measured. How
often such answers held is stored in `held.json`, which `python -m benchmarks.planner.odds --held`
writes from the stored benchmark.
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
from korisk.prediction.rehearsal.rehearsal import Rehearsed
from korisk.prediction.study import PointPrediction
from korisk.report.figures import panels, style
from korisk.report.figures.pilot import plan_figure, quantity
from korisk.report.figures.prediction import SMALLEST, prediction_figure
from korisk.report.figures.style import DARK, DPI, FINE, GREY, LARGE, LOOKS, MEDIUM, SMALL, Options
from korisk.report.headline import held, record

WIDTH, HEIGHT = 8.27, 11.69  # inches: A4
Array = NDArray[np.generic]
Edges = tuple[float, float]  # left and right end of text, in inches from the left
# The whole width, and the two columns at the foot of the page.
_PAGE, _LEFT, _RIGHT = (0.8, 7.47), (0.8, 3.95), (4.32, 7.47)
_BOX = (0.98, 7.29)  # inside the box of the advice
_PICTURE = "The figure: stated chance of a target, and how often it was met."
_ASSUMED, _HELD = "What this assumes", "How often such answers held"
_CHECK, _PILOT = "Check it first", "What the pilot says"
_FOOTER = "An estimate from {} errors: no guarantee, and no statement about single patients."


def sheet(
    plan: Plan, *, sure: float = 0.9, cost: float | None = None, title: str = "", date: str = ""
) -> Figure:
    """Draw a plan as one page of A4, for those who decide about a study."""
    advice, curve = plan.recommend(sure, cost), plan.curve
    seeds = f"{len(curve.sizes)} sizes, {panels.seeds([curve])}"
    basis = f"Pilot {title}".strip() + f": N = {panels.span(curve.sizes.tolist())}, {seeds}."

    def draw(axes: Axes) -> None:
        plan_figure(plan, ax=axes, sure=sure, headed=False)

    return _sheet(
        plan,
        advice,
        subject=(curve.model, quantity(curve)),
        kind="A plan from a pilot",
        source=basis,
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
    """Draw the forecast of one model before any scan as one page of A4."""
    (model,), (plan,) = point.models, point.plans(target)
    advice, check = plan.recommend(sure, cost), plan.check
    if isinstance(model, Rehearsed):
        basis, _, *notes = model.basis()
        training = " Its training is the one that was rehearsed."
    else:
        basis, training = f"{point.name}: computed from {point.images}; nothing was trained.", ""
        notes = [*trust_words(model), *model.notes]
    content = point_record(point.to_dict([target], sure=sure))

    def draw(axes: Axes) -> None:
        prediction_figure(content, ax=axes, needed=[plan], sure=sure, headed=False)

    assumed = [
        f"Operator, noise and images are those that were simulated.{training}",
        "The data to come are like the example images: population, device and protocol.",
        "The target is meant for the mean over images, on test data.",
    ]
    # The check, or the findings on the pilot, have a list of their own: not twice on one page.
    heading, sentences = (_PILOT, notes) if check is None else (_CHECK, [check_words(check)])
    reasons = tuple(reason for reason in advice.reasons if reason not in sentences)
    return _sheet(
        plan,
        replace(advice, reasons=reasons),
        subject=(plan.model, "a mean squared error of"),
        kind="A rehearsal before a scan is made",
        source=basis,
        findings=() if check is None else tuple(notes),
        draw=draw,
        sizes=np.array([SMALLEST]),
        lists=[(_ASSUMED, assumed), (heading, sentences)],
        measured="simulated",
        date=date,
    )


def _sheet(
    plan: PredictedPlan | Plan,
    advice: Recommendation,
    *,
    subject: tuple[str, str],  # model and quantity
    kind: str,
    source: str,
    findings: tuple[str, ...],
    draw: Callable[[Axes], None],
    sizes: Array,
    lists: Sequence[tuple[str, Sequence[str]]],
    measured: str,
    date: str,
) -> Figure:
    """Draw a page: question, advice, curve and chances from top to bottom, then two lists.

    Heights are inches from the top; each part begins where the one above it ends.
    """
    model, quantity_text = subject
    verb = f"does {model} need to reach" if model else "are needed to reach"
    question = f"How many training samples {verb} {quantity_text} {value(plan.target)}?"
    with style.settings():
        page = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
        dated = f"{date or datetime.date.today().isoformat()}, korisk {__version__}"
        _line(page, _PAGE[0], 0.6, f"How much training data? {kind}", color=GREY)
        _line(page, _PAGE[1], 0.6, dated, color=GREY, ha="right")
        y = _text(page, 0.95, [question], 13, fontweight="bold")
        basis = [" ".join([source, *(f"{entry}." for entry in style.glossary([model]))])]
        y = _text(page, y, basis, SMALL, color=GREY) + 0.02
        y = _advice(page, y, advice, findings) + 0.28
        curve_axes = _axes(page, 1.4, y, 5.25, 2.85)
        draw(curve_axes)
        # Both panels have the same axis of N, which is labelled below the lower one.
        curve_axes.set_xlabel("")
        chance_axes = _axes(page, 1.4, y + 3.15, 5.25, 1.3)
        _odds(chance_axes, plan, advice, curve_axes.get_xlim(), sizes)
        # Always at the same height, unless a long advice pushes the lists down.
        foot = max(y + 5.15, 8.3)
        for edges, (heading, paragraphs) in zip((_LEFT, _RIGHT), lists, strict=True):
            _line(page, edges[0], foot, heading, fontsize=LARGE, fontweight="bold")
            y = _text(page, foot + 0.27, paragraphs, SMALL, edges)
        if lists[1][0] == _HELD:
            _reliability(_axes(page, _RIGHT[0] + 0.42, y, 1.1, 0.85))
        _line(page, _PAGE[0], HEIGHT - 0.4, _FOOTER.format(measured), color=GREY, fontsize=FINE)
        return page


def _assumptions(plan: Plan, advice: Recommendation) -> list[str]:
    sentences = ["The data to come are like the pilot's: population, device, network and training."]
    if not plan.doubt and (advice.n is None or advice.n > plan.last):
        sentences.append(
            f"Beyond N = {plan.last:,} nothing was measured. There the curve is extrapolated: "
            "power laws with a floor, and deviations from them such as real curves show."
        )
    subject = "one trained network" if plan.curve.counts.max() == 1 else "the mean over seeds"
    sentences.append(f"The target is meant for {subject}, on test data.")
    if plan.related:
        sentences.append(f"Related curves ({len(plan.related)}) have a part in the forecast.")
    if advice.limit is not None and advice.action in ("collect", "measure"):
        sentences.append(advice.limit.sentence)
    return sentences


def _advice(page: Figure, top: float, advice: Recommendation, findings: tuple[str, ...]) -> float:
    """Draw the advice and the findings in a box; return the height at which it ends."""
    blue = LOOKS[0].colour
    y = _text(page, top + 0.3, [advice.sentence], 13, _BOX, fontweight="bold", color=blue)
    paragraphs = [" ".join(advice.reasons), advice.odds, *findings[:2]]
    y = _text(page, y + 0.02, paragraphs, MEDIUM, _BOX) - 0.02
    corner, width = (_PAGE[0] / WIDTH, 1 - y / HEIGHT), (_PAGE[1] - _PAGE[0]) / WIDTH
    box = FancyBboxPatch(corner, width, (y - top) / HEIGHT, zorder=0)
    box.set_boxstyle("round", pad=0, rounding_size=0.006)
    box.set(facecolor=style.pale(blue, 0.92), edgecolor=blue, linewidth=0.8)
    page.add_artist(box)
    return y


def _odds(
    axes: Axes,
    plan: PredictedPlan | Plan,
    advice: Recommendation,
    x_limits: tuple[float, float],
    sizes: Array,
) -> None:
    """Draw the probability that the target is met by N, the level asked for, and its N."""
    labels, blue = (panels.SAMPLES, "chance, %"), LOOKS[0].colour
    panels.frame(axes, x_limits, (0, 104), labels=labels, log=False, sizes=sizes)
    # Within the table of chances and the frame.
    n = np.geomspace(max(x_limits[0], plan.chances.n[0]), min(x_limits[1], plan.chances.n[-1]), 300)
    # A forecast in doubt states no chances; neither does one whose table has gaps.
    chances = 100 * np.array([plan.chances.at(size) for size in n])
    if (isinstance(plan, Plan) and plan.doubt) or not np.isfinite(chances).all():
        panels.say(axes, "No chance is stated.")
        return
    axes.plot(n, chances, gid="chance", color=blue, linewidth=1.5)
    axes.fill_between(n, chances, facecolor=blue, alpha=0.12, linewidth=0)
    level, needed = 100 * advice.sure, plan.samples(advice.sure)
    axes.axhline(level, color=DARK, linewidth=0.9, gid="level")
    panels.beside(axes, [(level, f"{level:.4g}% sure", DARK)], SMALL)
    placing: Options = {"textcoords": "offset points", "fontsize": SMALL}
    # A dictionary, so that equal sizes get one mark.
    for size, face in {advice.even: "white", needed: LOOKS[1].colour}.items():
        if size is not None and x_limits[0] <= size <= x_limits[1]:
            height = 100 * plan.chances.at(size)
            mark = LOOKS[1].mark("D", 6.0) | {"markerfacecolor": face, "markeredgewidth": 1.2}
            axes.plot([size], [height], gid=f"n-{size}", zorder=3, **mark)
            axes.annotate(f"N = {size:,}", (size, height), (6, -4), va="top", **placing)
    if needed is None:
        label = f"chance {chance(plan.reach)} by N = {count(plan.chances.n[-1])}"
        axes.annotate(label, (n[-1], chances[-1]), (-4, 5), ha="right", **placing)


def _reliability(axes: Axes) -> None:
    """Draw stated against observed frequencies; larger dots stand for more statements."""
    predicted, observed, weight = np.array(held()["odds"]).T
    axes.plot([0, 100], [0, 100], color=GREY, linewidth=0.8)
    # Square roots, so that rarely stated chances stay visible.
    look: Options = {"s": 50 * np.sqrt(weight / weight.max()), "color": LOOKS[0].colour}
    axes.scatter(100 * predicted, 100 * observed, linewidth=0, gid="held", **look)
    panels.gridded(axes)
    axes.set(xlim=(-5, 105), ylim=(-5, 105), xticks=[0, 50, 100], yticks=[0, 50, 100])
    axes.tick_params(labelsize=FINE, length=2)
    axes.set_xlabel("stated, %", fontsize=FINE)
    axes.set_ylabel("came true, %", fontsize=FINE)


def _axes(page: Figure, x: float, top: float, width: float, height: float) -> Axes:
    """Add axes at a distance in inches from the upper left corner."""
    bottom = HEIGHT - top - height
    return page.add_axes((x / WIDTH, bottom / HEIGHT, width / WIDTH, height / HEIGHT))


def _line(page: Figure, x: float, top: float, text: str, **options: object) -> None:
    placing: Options = {"fontsize": SMALL, "va": "baseline"} | options
    page.text(x / WIDTH, 1 - top / HEIGHT, text, **placing)


def _text(
    page: Figure,
    top: float,
    paragraphs: Iterable[str],
    size: float,
    edges: Edges = _PAGE,
    **options: object,
) -> float:
    """Write paragraphs between two edges from a height downwards; return where the next begins."""
    start, end = edges
    for paragraph in filter(None, paragraphs):
        for line in style.wrapped(paragraph, end - start, size, bold="fontweight" in options):
            _line(page, start, top, line, **{"fontsize": size, "color": DARK} | options)
            top += 1.42 * size / 72
        top += 0.35 * size / 72
    return top
