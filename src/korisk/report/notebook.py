"""HTML of values in notebooks: the main numbers, the figure, and the text of `explain`.

Figures need Matplotlib; without it only the numbers are shown. `_VIEWS` lists what describes and
what draws a value, by the name of its class, so that showing a plan does not load PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from korisk._json import JsonDict
from korisk.errors import KoriskError, MissingExtraError, invalid
from korisk.planning.explain import chance, count, span, value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from korisk.ablation.ablation import Ablation
    from korisk.curves.curve import Curve
    from korisk.pilots.result import Pilot
    from korisk.planning.compare import Comparison
    from korisk.planning.plan import Plan
    from korisk.prediction.prediction import Prediction
    from korisk.prediction.rehearsal.rehearsal import Rehearsal
    from korisk.prediction.study import PointPrediction
    from korisk.store.store import Store
    from korisk.studies.run.engine import Summary

Numbers = list[tuple[str, str]]  # label and number
Description = tuple[str, Numbers, str]  # title, numbers and text
Draw = Callable[[Any, "Axes | None"], "Figure | None"]


def html(item: object) -> str:
    """HTML that a notebook shows for a value; errors become text in it."""
    try:
        title, numbers, words = _VIEWS[kind_of(item)][0](item)
    except Exception as error:  # an exception here would hide the value itself
        return f"<pre>{escape(repr(item))}</pre>{_problem('The numbers are missing', error)}"
    figure_html, theme = "", ""
    try:
        from korisk.report.figures.style import THEME_CSS, raised, themed_svg

        title, words = raised(title), raised(words)
        numbers = [(raised(name), number) for name, number in numbers]
        figure = _figure(item, None)
        if figure is not None:
            attributes = f'role="group" aria-label="{escape(title)}" tabindex="0"'
            svg = themed_svg(figure, words=title)
            figure_html = f'<div class="k-drawn" {attributes}>{svg}</div>'
            theme = THEME_CSS
    except MissingExtraError:  # without Matplotlib: the numbers only
        pass
    except Exception as error:
        figure_html = _problem("The figure could not be drawn", error)
    numbers_html = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(number)}</dd></div>" for name, number in numbers
    )
    words_html = f"<p>{escape(words)}</p>" if words else ""
    # Inline, because a notebook has no other place for a style sheet.
    css = files("korisk.report").joinpath("notebook.css").read_text(encoding="utf-8")
    return (
        f'<div class="k-shown"><style>{theme}{css}</style><p><strong>{escape(title)}</strong></p>'
        f"<dl>{numbers_html}</dl>{figure_html}{words_html}</div>"
    )


def _problem(problem: str, error: Exception) -> str:
    cause = str(error) if isinstance(error, KoriskError) else f"{type(error).__name__}: {error}"
    return f"<p>{problem}: {escape(cause)}</p>"


def draw(item: object, ax: Axes | None) -> Axes:
    """Draw a value into given axes, or into a new figure."""
    # Raises without Matplotlib, with the command that installs it.
    import_module("korisk.report.figures")
    from matplotlib import axes

    remedy = "pass those of matplotlib.pyplot.subplots(), or leave it out"
    if ax is not None and not isinstance(ax, axes.Axes):
        raise invalid("ax", "be axes of Matplotlib", ax, remedy)
    figure = _figure(item, ax)
    assert figure is not None
    return figure.axes[0] if ax is None else ax


# --- Curves and plans ----------------------------------------------------------------------------


def _curve(curve: Curve) -> Description:
    sizes, counts = curve.sizes.tolist(), curve.counts.tolist()
    means = curve.unit.from_error(curve.means)
    best = int(curve.means.argmin())
    numbers = [
        ("sizes", f"{len(sizes)}, N = {span(sizes[0], sizes[-1])}"),
        ("measurements", count(sum(counts))),
        (f"best mean, at N = {sizes[best]:,}", value(float(means[best]))),
    ]
    return " ".join(filter(None, (curve.name, curve.metric))), numbers, ""


def _samples(plan: Plan) -> str:
    """Number of samples with even odds, or why there is none."""
    if plan.even is None:
        return plan.missed if plan.middle is None else "no even odds"
    return f"{'at most ' if plan.met_at_smallest else ''}{count(plan.even)}"


def _plan(plan: Plan) -> Description:
    advice = plan.recommend()
    numbers = [("what to do", advice.sentence)]
    # If no N has even odds, the probability to reach the target at all says more.
    if plan.even is not None or plan.doubt:
        numbers.append(("samples with even odds", _samples(plan)))
    else:
        numbers.append(("chance to reach the target", chance(plan.reach)))
    if advice.lower is not None:
        upper = math.inf if advice.upper is None else advice.upper
        numbers.append(("90% interval", span(advice.lower, upper)))
    return f"{plan.curve.name}: target {value(plan.target)}", numbers, plan.explain()


def _comparison(comparison: Comparison) -> Description:
    plans = zip(comparison.names, (comparison.first, comparison.second), strict=True)
    numbers = [(f"samples of {name}", _samples(plan)) for name, plan in plans]
    numbers.append(("ratio", comparison.ratio_words()))
    title = f"{' against '.join(comparison.names)}: target {value(comparison.target)}"
    return title, numbers, comparison.explain()


def _pilot(pilot: Pilot) -> Description:
    if pilot.fits and pilot.target is not None:
        title, numbers, _ = _plan(pilot.plan())
    else:
        title, numbers, _ = _curve(pilot.curve)
    return title, numbers, str(pilot)


def _ablation(ablation: Ablation) -> Description:
    title, numbers, _ = _comparison(ablation.comparison)
    return title, numbers, ablation.explain()


# --- Predictions ---------------------------------------------------------------------------------


def _expected(prediction: Prediction, n: int) -> Numbers:
    """Expected error at N and its band."""
    (error,), ((lower,), (upper,)) = prediction.errors([n]), prediction.band([n])
    return [
        (f"expected error at N = {n:,}", value(float(error))),
        ("90% band", f"{value(float(lower))} to {value(float(upper))}"),
    ]


def _prediction(prediction: Prediction) -> Description:
    numbers = _expected(prediction, max(prediction.examples, 4))
    if not prediction.doubted:
        numbers.append(("levels off at", value(prediction.floor)))
    return f"{prediction.model}: predicted, mean squared error", numbers, prediction.explain()


def _rehearsal(rehearsal: Rehearsal) -> Description:
    largest_n = int(rehearsal.curve.sizes[-1])
    numbers = [*_expected(rehearsal.predict(), largest_n), ("weights", count(rehearsal.parameters))]
    return f"{rehearsal.curve.model}: rehearsed, mean squared error", numbers, rehearsal.explain()


def _point(point: PointPrediction) -> Description:
    n = max(point.examples, 4)
    numbers = []
    for prediction in point.predictions:
        (_, error), _ = _expected(prediction, n)
        numbers.append((f"{prediction.model}: expected error at N = {n:,}", error))
    words = [] if point.pair is None else [point.pair.explain()]
    if point.pair is not None and point.pair.crossover is not None:
        numbers.append(("curves cross near N", count(point.pair.crossover.n)))
    title = f"{point.name}: predicted, mean squared error"
    return title, numbers, " ".join([*words, *point.notes, *point.caveats])


# --- Studies -------------------------------------------------------------------------------------


def _summary(summary: Summary) -> Description:
    cells = summary.done + summary.skipped
    failed = summary.failed + summary.failed_before
    numbers = [("cells in the store", count(cells)), ("failed", count(failed))]
    return "Run of a study", [*numbers, ("seconds", f"{summary.seconds:,.1f}")], ""


def _store(store: Store) -> Description:
    from korisk.studies.results import curves

    by_point = curves(store.rows())
    listed = [curve for point_curves in by_point.values() for curve in point_curves]
    models = {curve.model for curve in listed}
    numbers = [("points", count(len(by_point))), ("models", count(len(models)))]
    measured = sum(int(curve.counts.sum()) for curve in listed)
    return f"Study in {store.path.name}", [*numbers, ("measured errors", count(measured))], ""


# --- Figures -------------------------------------------------------------------------------------


def _figure(item: Any, ax: Axes | None) -> Figure | None:
    """Draw a value, into given axes if its class has `plot(ax)`; None if it has no figure."""
    return _VIEWS[kind_of(item)][1](item, ax)


def _drawn_by(module: str, name: str) -> Draw:
    """A function of `report.figures`, imported when it draws."""
    folder = "korisk.report.figures"
    return lambda item, ax: getattr(import_module(f"{folder}.{module}"), name)(item, ax=ax)


def _point_figure(answer: Prediction | Rehearsal | PointPrediction, ax: Axes | None) -> Figure:
    from korisk.prediction.record import point_record
    from korisk.report.figures.prediction import prediction_figure

    return prediction_figure(point_record(model_point(answer).to_dict(())), ax=ax)


def model_point(answer: Prediction | Rehearsal | PointPrediction) -> PointPrediction:
    """A point as it is; a prediction or a rehearsal as a point that has no other model."""
    from korisk.prediction.prediction import Prediction
    from korisk.prediction.rehearsal.rehearsal import Rehearsed
    from korisk.prediction.study import PointPrediction
    from korisk.store.usage import Usage

    if isinstance(answer, PointPrediction):
        return answer
    usage = Usage(started="", seconds=0.0)
    if isinstance(answer, Prediction):
        spec: JsonDict = {"problem": {}, "models": {answer.model: {}}}
        return PointPrediction(answer.model, spec, (answer,), "", 1, (), usage, ())
    spec, rehearsed = {"problem": {}, "models": {}}, (Rehearsed(answer),)
    return PointPrediction(answer.curve.model, spec, (), "", 1, (), usage, (), rehearsed)


def _store_figure(store: Store) -> Figure | None:
    """Measured errors only: forecasts take seconds, and are left to the report."""
    from korisk.report.figures.efficiency import Panel, Trace, efficiency_figure
    from korisk.studies.results import curves, untrained

    rows = list(store.rows())
    panels, initial = [], untrained(rows)
    for point, point_curves in curves(rows).items():
        traces = tuple(
            Trace(curve=curve, track=None, line=None, untrained=initial[point].get(curve.model))
            for curve in point_curves
        )
        metric = point_curves[0].metric if point_curves else ""
        panels.append(Panel(name=point, note="", metric=metric, traces=traces))
    return efficiency_figure(panels)


def kind_of(item: object) -> str:
    """Name of the first class in the value's bases that `_VIEWS` knows."""
    return next(name for base in type(item).__mro__ if (name := base.__name__) in _VIEWS)


# What describes and what draws a value, by the name of its class.
_VIEWS: dict[str, tuple[Callable[[Any], Description], Draw]] = {
    "Curve": (_curve, _drawn_by("pilot", "curve_figure")),
    "Plan": (_plan, _drawn_by("pilot", "plan_figure")),
    "Comparison": (_comparison, _drawn_by("pilot", "comparison_figure")),
    "Pilot": (_pilot, lambda p, ax: _figure(p.curve if p.target is None else p.plan(), ax)),
    "Ablation": (_ablation, _drawn_by("ablation", "ablation_figure")),
    "Prediction": (_prediction, _point_figure),
    "PointPrediction": (_point, _point_figure),
    "Rehearsal": (_rehearsal, _point_figure),
    "Summary": (_summary, lambda summary, ax: None),
    "Store": (_store, lambda store, ax: _store_figure(store)),
}
