"""Values in notebooks: the numbers that matter, the figure, and the words of `explain`.

Figures need Matplotlib; without it the numbers stand alone. Classes are told apart by their names,
so that showing a plan loads no PyTorch.
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
    from korisk.operators.ct.cone import ConeBeam
    from korisk.operators.ct.geometry import Geometry
    from korisk.pilots.result import Pilot
    from korisk.planning.compare import Comparison
    from korisk.planning.plan import Plan
    from korisk.prediction.prediction import Prediction
    from korisk.prediction.rehearsal.rehearsal import Rehearsal
    from korisk.prediction.study import PointPrediction
    from korisk.store.store import Store
    from korisk.studies.run.engine import Summary
    from korisk.theory import BarronBound, Bound, Network

Numbers = list[tuple[str, str]]  # what it is, and the number
Told = tuple[str, Numbers, str]  # title, numbers and words


def html(made: object) -> str:
    """What a notebook shows of a value. It raises nothing: at worst it is text, and why."""
    try:
        title, numbers, words = _TOLD[_kind(made)](made)
    except Exception as error:  # a cell that shows a value must not fail
        return f"<pre>{escape(repr(made))}</pre>{_why('The numbers are missing', error)}"
    drawn, theme = "", ""
    try:
        from korisk.report.figures.style import THEME_CSS, raised, themed_svg

        title, words = raised(title), raised(words)
        numbers = [(raised(name), number) for name, number in numbers]
        figure = _figure(made, None)
        if figure is not None:
            about = f'role="group" aria-label="{escape(title)}" tabindex="0"'
            drawn = f'<div class="k-drawn" {about}>{themed_svg(figure, words=title)}</div>'
            theme = THEME_CSS
    except MissingExtraError:  # numbers alone
        pass
    except Exception as error:
        drawn = _why("The figure could not be drawn", error)
    listed = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(number)}</dd></div>" for name, number in numbers
    )
    said = f"<p>{escape(words)}</p>" if words else ""
    css = files("korisk.report").joinpath("notebook.css").read_text(encoding="utf-8")
    return (
        f'<div class="k-shown"><style>{theme}{css}</style><p><strong>{escape(title)}</strong></p>'
        f"<dl>{listed}</dl>{drawn}{said}</div>"
    )


def _why(what: str, error: Exception) -> str:
    said = str(error) if isinstance(error, KoriskError) else f"{type(error).__name__}: {error}"
    return f"<p>{what}: {escape(said)}</p>"


def draw(made: object, ax: Axes | None) -> Axes:
    """Draw a value into axes, or into a figure of its own."""
    import_module("korisk.report.figures")  # raises without Matplotlib
    from matplotlib import axes

    remedy = "pass those of matplotlib.pyplot.subplots(), or leave it out"
    if ax is not None and not isinstance(ax, axes.Axes):
        raise invalid("ax", "be axes of Matplotlib", ax, remedy)
    figure = _figure(made, ax)
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


def _samples(plan: Plan) -> str:
    if plan.even is None:
        return plan.missed if plan.middle is None else "no even odds"
    return f"{'at most ' if plan.at_once else ''}{count(plan.even)}"


def _plan(plan: Plan) -> Told:
    advice = plan.recommend()
    numbers = [("what to do", advice.sentence)]
    if plan.even is not None or plan.doubt:
        numbers.append(("samples with even odds", _samples(plan)))
    else:
        numbers.append(("chance to reach the target", chance(plan.reach)))
    if advice.lower is not None:
        upper = math.inf if advice.upper is None else advice.upper
        numbers.append(("90% interval", span(advice.lower, upper)))
    return f"{plan.curve.name}: target {value(plan.target)}", numbers, plan.explain()


def _comparison(found: Comparison) -> Told:
    plans = zip(found.names, (found.first, found.second), strict=True)
    numbers = [(f"samples of {name}", _samples(plan)) for name, plan in plans]
    numbers.append(("ratio", found.ratio_words()))
    title = f"{' against '.join(found.names)}: target {value(found.target)}"
    return title, numbers, found.explain()


def _pilot(pilot: Pilot) -> Told:
    if pilot.fits and pilot.target is not None:
        title, numbers, _ = _plan(pilot.plan())
    else:
        title, numbers, _ = _curve(pilot.curve)
    return title, numbers, str(pilot)


def _ablation(made: Ablation) -> Told:
    title, numbers, _ = _comparison(made.comparison)
    return title, numbers, made.explain()


# --- Predictions ---------------------------------------------------------------------------------


def _expected(made: Prediction, n: int) -> Numbers:
    (error,), ((lower,), (upper,)) = made.errors([n]), made.band([n])
    return [
        (f"expected error at N = {n:,}", value(float(error))),
        ("90% band", f"{value(float(lower))} to {value(float(upper))}"),
    ]


def _prediction(made: Prediction) -> Told:
    numbers = _expected(made, max(made.examples, 4))
    if not made.doubted:
        numbers.append(("levels off at", value(made.floor)))
    return f"{made.model}: predicted, mean squared error", numbers, made.explain()


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


# --- Networks, bounds, scanners and studies ------------------------------------------------------


def _network(net: Network) -> Told:
    total, whole = net.parameters, net.lipschitz()
    numbers = [
        ("layers", f"{len(net)}, {len(net.learned)} learned"),
        ("trainable parameters", "not known" if total is None else count(total)),
        ("Lipschitz constant", f"at most {value(whole)}" if math.isfinite(whole) else "not known"),
    ]
    return net.name or "Network", numbers, ""


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


def _geometry(scan: Geometry) -> Told:
    rows, columns = scan.image_shape
    numbers = [
        ("views", f"{scan.views_count:,} over {math.degrees(scan.scanned_arc):.4g}°"),
        ("bins", f"{scan.bins:,} of {scan.bin_spacing:.4g} mm"),
        ("pixels", f"{rows} x {columns} of {scan.pixel_spacing:.4g} mm"),
    ]
    return type(scan).__name__, numbers, ""


def _cone(scan: ConeBeam) -> Told:
    high, wide = scan.detector_shape
    spacings = f"{scan.slice_spacing:.4g} x {scan.pixel_spacing:.4g} mm"
    numbers = [
        ("views", f"{scan.views:,} over {math.degrees(scan.scanned_arc):.4g}°"),
        ("detector", f"{high} rows x {wide} columns"),
        ("voxels", f"{' x '.join(map(str, scan.image_shape))} of {spacings}"),
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


# --- Figures -------------------------------------------------------------------------------------


def _figure(made: Any, ax: Axes | None) -> Figure | None:
    """Draw a value, into given axes where its class has `plot(ax)`; None if it has no figure."""
    from korisk.report.figures import networks, pilot
    from korisk.report.figures.ablation import ablation_figure
    from korisk.studies.networks import TitledNetwork

    draw: dict[str, Callable[[], Figure | None]] = {
        "Curve": lambda: pilot.curve_figure(made, ax=ax),
        "Plan": lambda: pilot.plan_figure(made, ax=ax),
        "Comparison": lambda: pilot.comparison_figure(made, ax=ax),
        "Pilot": lambda: _figure(made.curve if made.target is None else made.plan(), ax),
        "Ablation": lambda: ablation_figure(made, ax=ax),
        "Prediction": lambda: _prediction_figure(made, ax),
        "PointPrediction": lambda: _point_figure(made, ax),
        "Rehearsal": lambda: _rehearsal_figure(made, ax),
        "Network": lambda: networks.architecture_figure([TitledNetwork(made.name, made)], ax=ax),
        "Bound": lambda: networks.bound_figure(made, ax=ax),
        "BarronBound": lambda: networks.bound_figure(made.whole, made.floors, ax=ax),
        "Geometry": lambda: made.plot().figure,
        "ConeBeam": lambda: made.plot().figure,
        "Summary": lambda: None,
        "Store": lambda: _store_figure(made),
    }
    return draw[_kind(made)]()


def _prediction_figure(made: Prediction, ax: Axes | None) -> Figure:
    from korisk.prediction.study import PointPrediction
    from korisk.store.usage import Usage

    spec: JsonDict = {"problem": {}, "models": {made.model: {}}}
    usage = Usage(started="", seconds=0.0)
    return _point_figure(PointPrediction(made.model, spec, (made,), "", 1, (), usage), ax)


def _point_figure(point: PointPrediction, ax: Axes | None) -> Figure:
    from korisk.prediction.record import point_record
    from korisk.report.figures.prediction import prediction_figure

    return prediction_figure(point_record(point.to_dict(())), ax=ax)


def _rehearsal_figure(made: Rehearsal, ax: Axes | None) -> Figure:
    from korisk.prediction.rehearsal.rehearsed import Rehearsed
    from korisk.prediction.study import PointPrediction
    from korisk.store.usage import Usage

    spec: JsonDict = {"problem": {}, "models": {}}
    usage, name = Usage(started="", seconds=0.0), made.curve.model
    point = PointPrediction(name, spec, (), "", 1, (), usage, (), (Rehearsed(made),))
    return _point_figure(point, ax)


def _store_figure(store: Store) -> Figure | None:
    """What was measured; forecasts are left to the report, as they take a while."""
    from korisk.report.figures.efficiency import Panel, Trace, efficiency_figure
    from korisk.studies.results import curves

    drawn = []
    for point, own in curves(store.rows()).items():
        traces = tuple(Trace(curve=curve, track=None, line=None, untrained=None) for curve in own)
        metric = own[0].metric if own else ""
        drawn.append(Panel(name=point, note="", metric=metric, traces=traces))
    return efficiency_figure(drawn)


def _kind(made: object) -> str:
    """The class of `_TOLD` that a value is of."""
    return next(name for each in type(made).__mro__ if (name := each.__name__) in _TOLD)


_TOLD: dict[str, Callable[[Any], Told]] = {
    "Curve": _curve,
    "Plan": _plan,
    "Comparison": _comparison,
    "Pilot": _pilot,
    "Ablation": _ablation,
    "Prediction": _prediction,
    "PointPrediction": _point,
    "Rehearsal": _rehearsal,
    "Network": _network,
    "Bound": _bound,
    "BarronBound": _barron,
    "Geometry": _geometry,
    "ConeBeam": _cone,
    "Summary": _summary,
    "Store": _store,
}
