"""A curve, a plan, a comparison or a rehearsal in a notebook: what the terminal says, a figure."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from korisk.curves.curve import Curve
from korisk.errors import MissingExtraError, invalid
from korisk.planning.compare import Comparison, comparison_tables
from korisk.planning.plan import Forecast, Plan, plan_tables
from korisk.planning.words import span, value
from korisk.texts import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def html(item: Any) -> str:
    """HTML that a notebook shows for a value: its sentences and numbers; the figure if it can."""
    first, *rest = _lines(item)
    text = f"<p><strong>{escape(first)}</strong></p>"
    text += "".join(f"<p>{escape(line)}</p>" for line in rest)
    text += "".join(_table_html(table) for table in _tables(item))
    try:
        from korisk.report.figures.style import THEME_CSS, raised, themed_svg
    except MissingExtraError:
        return f"<div>{text}</div>"
    svg = themed_svg(_figure(item, None), words=raised(first))
    # Words in the figure are of 9 pixels at least: narrow places scroll.
    scrolled = '<div style="overflow-x:auto;max-width:60em" role="group" tabindex="0">'
    return (
        f"<div><style>{THEME_CSS}</style>{raised(text)}{scrolled}"
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


def _lines(item: Any) -> list[str]:
    """The sentences of a value, in lines."""
    if isinstance(item, Plan | Comparison):
        return item.explain().splitlines()
    if isinstance(item, Curve):
        sizes, best = item.sizes.tolist(), int(item.means.argmin())
        name = ", ".join(filter(None, (item.name, item.metric)))
        measured = f"{len(sizes)} sizes, N = {span(sizes[0], sizes[-1])}"
        error = value(float(item.unit.from_error(item.means)[best]))
        return [f"{name}: {measured}; the best mean is {error} at N = {sizes[best]:,}."]
    return [_view(item).summary()]


def _tables(item: Any) -> Iterator[Table]:
    """The numbers of a value, as the terminal prints them."""
    if isinstance(item, Plan):
        yield from plan_tables([item])
    if isinstance(item, Comparison):
        yield from comparison_tables(item)


def _table_html(table: Table) -> str:
    rows = [("th", table.heads), *(("td", row) for row in table.rows)]
    cells = ("".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) for tag, row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _view(item: Any) -> Forecast:
    """A forecast, or that of a pilot or a rehearsal."""
    view = item if isinstance(item, Forecast) else item.forecast()
    assert isinstance(view, Forecast)
    return view


def _figure(item: Any, ax: Axes | None) -> Figure:
    from korisk.report.figures import forecast

    if isinstance(item, Plan):
        return forecast.plan_figure(item, ax=ax)
    if isinstance(item, Comparison):
        return forecast.comparison_figure(item, ax=ax)
    if isinstance(item, Curve):
        return forecast.curve_figure(item, ax=ax)
    view = _view(item)
    return forecast.curve_figure(view.evidence, view, ax=ax)
