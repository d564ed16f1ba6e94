"""The page of a pilot: the planner for curves that a user measured, without any study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from korisk.curves.curve import Curve
from korisk.planning.forecast import forecast
from korisk.report.figures.pilot import comparison_figure, plan_figure
from korisk.report.page.data import groups_data
from korisk.report.page.groups import Group
from korisk.report.page.page import METHOD, Page, Section, bullets, figure_html
from korisk.report.tables.tables import Column, ReportTable
from korisk.report.tables.text import html as table_html

_STILLS = 4  # pictures of single forecasts


def pilot_page(curves: Sequence[Curve], *, title: str, target: float | None = None) -> str:
    """The page as one text."""
    group = Group(title, tuple(curves), target)
    if not group.extrapolated:
        forecast(group.curves[0])  # refuses a pilot of too few sizes, and says so
    data, notes = groups_data([group])
    page = Page(
        title=title,
        kind="korisk plan of a pilot",
        groups=[group],
        data={"groups": data, "pictures": []},
        answers=[(title, group.sentence)],
        notes=notes,
        still=_still(group),
        sections=[
            _measured(group),
            Section(name="how", title="How it is extrapolated", html=METHOD),
        ],
    )
    return page.html()


def _still(group: Group) -> str:
    """The answers on paper: of one model, of two, or of the first of many."""
    words = f"Forecast of {', '.join(each.curve.name for each in group.extrapolated[:8])}"
    if group.comparison is not None and len(group.extrapolated) == 2:
        return figure_html(comparison_figure(group.comparison), words)
    return "".join(figure_html(plan_figure(plan), words) for plan in group.plans[:_STILLS])


def _measured(group: Group) -> Section:
    first = group.curves[0]
    table = ReportTable(
        name="measured",
        title="What was measured",
        caption="Means over seeds",
        columns=(
            Column("model"),
            Column("N", "integer"),
            Column("seeds", "integer"),
            Column(first.metric or first.unit.noun, "number"),
        ),
        rows=tuple(row for curve in group.curves for row in _rows(curve)),
    )
    odd = [f"{plan.curve.name}: {said}" for plan in group.plans for said in plan.findings]
    notes = f"<h3>What is odd about it</h3>{bullets(odd)}" if odd else ""
    return Section(name="measured", title=table.title, html=table_html(table) + notes)


def _rows(curve: Curve) -> Iterator[tuple[str, int, int, float]]:
    means = curve.unit.from_error(curve.means).tolist()
    for n, count, mean in zip(curve.sizes.tolist(), curve.counts.tolist(), means, strict=True):
        yield curve.name, n, count, mean
