"""Values in notebooks: the numbers that matter, the figure, and the words of `explain`.

Figures need Matplotlib; without it the numbers stand alone. Classes are told apart by their names,
so that showing a plan loads no PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from korisk.errors import KoriskError, MissingExtraError, shown
from korisk.planning.explain import SURE, chance, count, span, value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from korisk.ablation.ablation import Ablation
    from korisk.curves.curve import Curve
    from korisk.operators.ct.geometry import Geometry
    from korisk.pilots.result import Pilot
    from korisk.planning.compare import Comparison, Crossover
    from korisk.planning.plan import Plan
    from korisk.prediction.prediction import Prediction
    from korisk.prediction.rehearse import Rehearsal
    from korisk.prediction.study import PointPrediction
    from korisk.store.store import Store
    from korisk.studies.run.engine import Summary
    from korisk.theory import BarronBound, Bound, Network

Numbers = list[tuple[str, str]]  # what it is, and the number
Told = tuple[str, Numbers, str]  # title, numbers and words
Shown = tuple[Callable[[Any], Told], Callable[[Any, Any], Any]]  # what tells a value, what draws it

_CSS = (
    ".k-shown{max-width:60em}.k-shown p,.k-shown dl{max-width:44em}"
    ".k-drawn{overflow-x:auto}.k-drawn .k-figure{min-width:34em}"  # words of 9 pixels at least
    ".k-shown dl{display:flex;flex-wrap:wrap;gap:.3em 2em;margin:.2em 0 .6em}"
    ".k-shown dl div{margin:0}.k-shown dt{font-weight:normal;font-size:.85em;margin:0;padding:0}"
    ".k-shown dd{font-size:1.35em;font-weight:600;margin:0}"
    ".k-shown p{margin:.4em 0;line-height:1.4}"
)


def html(made: object) -> str:
    """What a notebook shows of a value. It raises nothing: at worst it is text, and why."""
    kind = _kind(made)
    try:
        title, numbers, words = kind[0](made)
    except Exception as error:  # a cell that shows a value must not fail
        return f"<pre>{escape(repr(made))}</pre>{_why('The numbers are missing', error)}"
    drawn, theme = "", ""
    try:
        from korisk.report.figures.style import THEME_CSS, raised, themed_svg

        title, words = raised(title), raised(words)
        numbers = [(raised(name), number) for name, number in numbers]
        figure = kind[1](made, None)
        if figure is not None:
            scrolls = (
                f'<div class="k-drawn" role="group" aria-label="{escape(title)}" tabindex="0">'
            )
            drawn = f"{scrolls}{themed_svg(figure, words=title)}</div>"
            theme = THEME_CSS
    except MissingExtraError:  # numbers alone
        pass
    except Exception as error:
        drawn = _why("The figure could not be drawn", error)
    listed = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(number)}</dd></div>" for name, number in numbers
    )
    said = f"<p>{escape(words)}</p>" if words else ""
    return (
        f'<div class="k-shown"><style>{theme}{_CSS}</style><p><strong>{escape(title)}</strong></p>'
        f"<dl>{listed}</dl>{drawn}{said}</div>"
    )


def _why(what: str, error: Exception) -> str:
    said = str(error) if isinstance(error, KoriskError) else f"{type(error).__name__}: {error}"
    return f"<p>{what}: {escape(said)}</p>"


def draw(made: object, ax: Axes | None) -> Axes:
    """Draw a value into axes, or into a figure of its own."""
    import_module("korisk.report.figures")  # raises without Matplotlib
    from matplotlib import axes

    if ax is not None and not isinstance(ax, axes.Axes):
        raise KoriskError(
            f"ax must be axes of Matplotlib, got {shown(ax)}; pass those of "
            "matplotlib.pyplot.subplots(), or leave it out"
        )
    figure = _kind(made)[1](made, ax)
    assert figure is not None
    return figure.axes[0] if ax is None else ax


# --- Curves and plans ----------------------------------------------------------------------------


def _curve(curve: Curve) -> Told:
    sizes, counts = curve.sizes.tolist(), curve.counts.tolist()
    means = curve.unit.from_error(curve.means)
    best = int(curve.means.argmin())
    numbers = [
        ("sizes", f"{len(sizes)}, N = {span(sizes[0], sizes[-1])}"),
        ("measurements", count(sum(counts))),
        (f"best mean, at N = {sizes[best]:,}", value(float(means[best]))),
    ]
    return " ".join(filter(None, (curve.name, curve.metric))), numbers, ""


def _curve_figure(curve: Curve, ax: Axes | None) -> Figure:
    from korisk.report.figures.pilot import curve_figure

    return curve_figure(curve, ax=ax)


def _samples(plan: Plan) -> str:
    if plan.samples is None:
        return "no answer" if plan.doubt else "not reachable"
    return f"{'at most ' if plan.at_once else ''}{count(plan.samples)}"


def _plan(plan: Plan) -> Told:
    unsure = plan.samples is not None and plan.samples > plan.last and plan.reach < SURE
    numbers = [(f"training samples{', if reachable' * unsure}", _samples(plan))]
    if plan.samples is None:
        if not plan.doubt:
            numbers.append(("chance to reach the target", chance(plan.reach)))
        if plan.next_round is not None:
            numbers.append(("measure next", f"N = {plan.next_round:,}"))
    else:
        numbers.append(("chance that they are enough", chance(plan.chance)))
        safe = plan.safe(0.9)
        if plan.samples > plan.last and math.isfinite(plan.lower):
            level = "90%" if math.isfinite(plan.upper) else "95%"
            numbers.append((f"interval, {level}", span(plan.lower, plan.upper)))
        else:
            numbers.append(("enough with 90%", "no N" if safe is None else count(safe)))
    return f"{plan.curve.name}: target {value(plan.target)}", numbers, plan.explain()


def _plan_figure(plan: Plan, ax: Axes | None) -> Figure:
    from korisk.report.figures.pilot import plan_figure

    return plan_figure(plan, ax=ax)


def _comparison(found: Comparison) -> Told:
    plans = zip(found.names, (found.first, found.second), strict=True)
    numbers = [(f"samples of {name}", _samples(plan)) for name, plan in plans]
    numbers.append(("ratio", found.ratio_words()))
    title = f"{' against '.join(found.names)}: target {value(found.target)}"
    return title, numbers, found.explain()


def _comparison_figure(found: Comparison, ax: Axes | None) -> Figure:
    from korisk.report.figures.pilot import comparison_figure

    return comparison_figure(found, ax=ax)


def _pilot(pilot: Pilot) -> Told:
    if pilot.fits and pilot.target is not None:
        title, numbers, _ = _plan(pilot.plan())
    else:
        title, numbers, _ = _curve(pilot.curve)
    return title, numbers, str(pilot)


def _pilot_figure(pilot: Pilot, ax: Axes | None) -> Figure:
    asked = pilot.target is not None
    return _plan_figure(pilot.plan(), ax) if asked else _curve_figure(pilot.curve, ax)


def _ablation(made: Ablation) -> Told:
    title, numbers, _ = _comparison(made.comparison)
    return title, numbers, made.explain()


def _ablation_figure(made: Ablation, ax: Axes | None) -> Figure:
    from korisk.report.figures.ablation import ablation_figure

    return ablation_figure(made, ax=ax)


# --- Predictions ---------------------------------------------------------------------------------


def _expected(made: Prediction, n: int) -> Numbers:
    (error,), ((lower,), (upper,)) = made.errors([n]), made.band([n])
    return [
        (f"expected error at N = {n:,}", value(float(error))),
        ("90% band", f"{value(float(lower))} to {value(float(upper))}"),
    ]


def _prediction(made: Prediction) -> Told:
    numbers = [*_expected(made, max(made.examples, 4)), ("levels off at", value(made.floor))]
    return f"{made.model}: predicted, mean squared error", numbers, made.explain()


def _prediction_figure(made: Prediction, ax: Axes | None) -> Figure:
    return _drawn_point([made], made.model, made.examples, None, ax)


def _rehearsal(made: Rehearsal) -> Told:
    last = int(made.curve.sizes[-1])
    numbers = [*_expected(made.predict(), last), ("weights", count(made.parameters))]
    return f"{made.curve.model}: rehearsed, mean squared error", numbers, made.explain()


def _point(point: PointPrediction) -> Told:
    n = max(point.examples, 4)
    numbers = []
    for made in point.predictions:
        (_, error), _ = _expected(made, n)
        numbers.append((f"{made.model}: expected error at N = {n:,}", error))
    words = [] if point.pair is None else [point.pair.explain()]
    if point.pair is not None and point.pair.crossover is not None:
        numbers.append(("curves cross near N", count(point.pair.crossover.n)))
    title = f"{point.name}: predicted, mean squared error"
    return title, numbers, " ".join([*words, *point.notes, *point.caveats])


def _point_figure(point: PointPrediction, ax: Axes | None) -> Figure:
    found = None if point.pair is None else point.pair.crossover
    return _drawn_point(point.predictions, point.name, point.examples, found, ax)


def _drawn_point(
    predictions: Sequence[Prediction],
    name: str,
    examples: int,
    crossed: Crossover | None,
    ax: Axes | None,
) -> Figure:
    import numpy as np

    from korisk.prediction.pair import error_rows
    from korisk.prediction.study import point_record
    from korisk.report.figures.prediction import prediction_figure

    models = []
    for made in predictions:
        rehearsed = zip(made.rehearsal.n, np.exp(made.rehearsal.log_error), strict=True)
        models.append(
            {
                "model": made.model,
                "relu": False,
                "floor": made.floor,
                "track": error_rows(made, doublings=False),
                "rehearsal": [{"n": float(n), "measured": float(e)} for n, e in rehearsed],
                "checks": [{"n": float(c.n), "measured": c.measured} for c in made.checks],
            }
        )
    cross = None
    if crossed is not None:
        upper = crossed.upper if math.isfinite(crossed.upper) else None
        ends = {"n": float(crossed.n), "lower": float(crossed.lower), "upper": upper}
        cross = ends | {"better_after": crossed.better_after}
    about = {"point": name, "problem": {}, "images": "", "examples": examples}
    record = point_record(about | {"models": models, "crossover": cross})
    simulated = getattr(predictions[0].theory, "simulated", False)
    return prediction_figure(record, ax=ax, simulated=simulated)


# --- Networks, bounds, scanners and studies ------------------------------------------------------


def _network(net: Network) -> Told:
    total, whole = net.parameters, net.lipschitz()
    numbers = [
        ("layers", f"{len(net)}, {len(net.learned)} learned"),
        ("trainable parameters", "not known" if total is None else count(total)),
        ("Lipschitz constant", f"at most {value(whole)}" if math.isfinite(whole) else "not known"),
    ]
    return net.name or "Network", numbers, ""


def _network_figure(net: Network, ax: Axes | None) -> Figure:
    from korisk.report.figures.networks import architecture_figure
    from korisk.studies.networks import TitledNetwork

    return architecture_figure([TitledNetwork(net.name, net)], ax=ax)


def _largest(bound: Bound) -> tuple[str, str]:
    at = int(bound.contributions.argmax())
    share = f"{bound.shares[at]:.0%}" if math.isfinite(bound.total) else "not known"
    return f"part of {bound.layers[at]}, the largest", share


def _bound(bound: Bound) -> Told:
    numbers = [("bound of the squared error", value(bound.total)), _largest(bound)]
    return f"Bound by layer, {bound.form} form", numbers, ""


def _barron(bound: BarronBound) -> Told:
    numbers = [
        (f"at N = {bound.n:,.0f}", value(bound.total)),
        ("floor that data cannot lower", value(bound.floor)),
        _largest(bound.whole),
    ]
    words = ""
    if bound.effective:
        words = "With effective dimensions: an estimate, not the theorem's bound."
    return f"Bound of the squared error, {bound.whole.form} form", numbers, words


def _bound_figure(bound: Bound, ax: Axes | None, floors: Bound | None = None) -> Figure:
    from korisk.report.figures.networks import bound_figure

    return bound_figure(bound, floors, ax=ax)


def _geometry(scan: Geometry) -> Told:
    rows, columns = scan.image_shape
    numbers = [
        ("views", f"{scan.views_count:,} over {math.degrees(scan.scanned_arc):.4g}°"),
        ("bins", f"{scan.bins:,} of {scan.bin_spacing:.4g} mm"),
        ("pixels", f"{rows} x {columns} of {scan.pixel_spacing:.4g} mm"),
    ]
    return type(scan).__name__, numbers, ""


def _summary(made: Summary) -> Told:
    cells = made.done + made.skipped
    failed = made.failed + made.failed_before
    numbers = [("cells in the store", count(cells)), ("failed", count(failed))]
    return "Run of a study", [*numbers, ("seconds", f"{made.seconds:,.1f}")], ""


def _store(store: Store) -> Told:
    from korisk.studies.results import curves

    found = curves(store.rows())
    models = {curve.model for of_point in found.values() for curve in of_point}
    numbers = [("points", count(len(found))), ("models", count(len(models)))]
    kept = sum(int(c.counts.sum()) for of_point in found.values() for c in of_point)
    return f"Study in {store.path.name}", [*numbers, ("measured errors", count(kept))], ""


def _store_figure(store: Store, _: None) -> Figure | None:
    """What was measured; forecasts are left to the report, as they take a while."""
    from korisk.report.figures.efficiency import Panel, Trace, efficiency_figure
    from korisk.studies.results import curves

    drawn = []
    for point, own in curves(store.rows()).items():
        traces = [Trace(curve=curve, track=None, line=None, untrained=None) for curve in own]
        metric = own[0].metric if own else ""
        drawn.append(Panel(name=point, note="", metric=metric, traces=tuple(traces)))
    return efficiency_figure(drawn)


# The second draws into given axes; None alone where a class has no `plot(ax)`.
_KINDS: dict[str, Shown] = {
    "Curve": (_curve, _curve_figure),
    "Plan": (_plan, _plan_figure),
    "Comparison": (_comparison, _comparison_figure),
    "Pilot": (_pilot, _pilot_figure),
    "Ablation": (_ablation, _ablation_figure),
    "Prediction": (_prediction, _prediction_figure),
    "PointPrediction": (_point, _point_figure),
    "Rehearsal": (_rehearsal, lambda made, ax: _prediction_figure(made.predict(), ax)),
    "Network": (_network, _network_figure),
    "Bound": (_bound, _bound_figure),
    "BarronBound": (_barron, lambda made, ax: _bound_figure(made.whole, ax, made.floors)),
    "Geometry": (_geometry, lambda scan, _: scan.plot().figure),
    "Summary": (_summary, lambda _, __: None),
    "Store": (_store, _store_figure),
}


def _kind(made: object) -> Shown:
    names = [each.__name__ for each in type(made).__mro__]
    return next(_KINDS[name] for name in names if name in _KINDS)
