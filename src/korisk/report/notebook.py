"""A curve, a plan, a comparison or a rehearsal in a notebook: a sentence and a figure."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from korisk.curves.curve import Curve
from korisk.errors import MissingExtraError, invalid
from korisk.planning.compare import Comparison
from korisk.planning.explain import span, value
from korisk.planning.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def html(item: Any) -> str:
    """HTML that a notebook shows for a value; without Matplotlib, the sentence alone."""
    try:
        from korisk.report.figures.style import THEME_CSS, raised, themed_svg
    except MissingExtraError:
        return f"<p>{escape(_sentence(item))}</p>"
    words = raised(_sentence(item))
    svg = themed_svg(_figure(item, None), words=words)
    # Words in the figure are of 9 pixels at least: narrow places scroll.
    scrolled = '<div style="overflow-x:auto;max-width:60em" role="group" tabindex="0">'
    return (
        f"<div><style>{THEME_CSS}</style><p><strong>{escape(words)}</strong></p>{scrolled}"
        f'<div style="min-width:34em">{svg}</div></div></div>'
    )


def draw(item: Any, ax: Axes | None) -> Axes:
    """Draw a value into given axes, or into a new figure."""
    # Raises without Matplotlib, with the command that installs it.
    import_module("korisk.report.figures")
    from matplotlib import axes

    remedy = "pass those of matplotlib.pyplot.subplots(), or leave it out"
    if ax is not None and not isinstance(ax, axes.Axes):
        raise invalid("ax", "be axes of Matplotlib", ax, remedy)
    figure = _figure(item, ax)
    return figure.axes[0] if ax is None else ax


def _sentence(item: Any) -> str:
    if isinstance(item, Plan):
        return item.recommend().sentence
    if isinstance(item, Comparison):
        return item.saving()
    if isinstance(item, Curve):
        sizes, best = item.sizes.tolist(), int(item.means.argmin())
        name = ", ".join(filter(None, (item.name, item.metric)))
        measured = f"{len(sizes)} sizes, N = {span(sizes[0], sizes[-1])}"
        error = value(float(item.unit.from_error(item.means)[best]))
        return f"{name}: {measured}; the best mean is {error} at N = {sizes[best]:,}."
    from korisk.prediction.rehearsal.rehearsal import Rehearsed

    return Rehearsed(item).outlook()


def _figure(item: Any, ax: Axes | None) -> Figure:
    from korisk.report.figures import pilot

    if isinstance(item, Plan):
        return pilot.plan_figure(item, ax=ax)
    if isinstance(item, Comparison):
        return pilot.comparison_figure(item, ax=ax)
    if isinstance(item, Curve):
        return pilot.curve_figure(item, ax=ax)
    from korisk.prediction.record import point_record
    from korisk.report.figures.prediction import prediction_figure
    from korisk.report.page.answers import model_point

    return prediction_figure(point_record(model_point(item).to_dict(())), ax=ax)
