"""What is said of a point before a scan is made: advice first, then tables, then the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from korisk.planning.plan import plan_tables
from korisk.planning.words import FULL
from korisk.prediction.study import PointPrediction, Question
from korisk.texts import Table, duration, number, whole


def point_lines(point: PointPrediction, question: Question) -> list[str]:
    """The advice on each model, or the error that is expected; a line that stands is left out."""
    lines: dict[str, None] = {}
    for plan in (plan for target in question.targets for plan in point.plans(target)):
        lines |= dict.fromkeys(plan.lines(question.sure, full=True))
    for view in () if question.targets else point.forecasts:
        lines |= dict.fromkeys([view.summary(), " ".join(view.notes)])
    return list(lines)


def point_tables(point: PointPrediction, question: Question) -> Iterator[Table]:
    """The rehearsals of a point as tables of text."""
    for item, view in zip(point.rehearsals, point.forecasts, strict=True):
        curve, rows = item.curve, []
        means = curve.unit.from_error(curve.means).tolist()
        simulated = dict(zip(curve.sizes.tolist(), means, strict=True))
        for n in question.at or curve.sizes.tolist():
            error = view.at(n)
            values = simulated.get(error.n), error.value, error.lower, error.upper
            rows.append([whole(error.n), *(number(value, 3) for value in values)])
        title = f"expected {FULL.get(view.metric, view.metric)} of {view.model}"
        if view.lowered and view.longer is not None:
            title += f", trained {view.longer.factor:g} times as long"
        title = title if view.model == point.name else f"{point.name}: {title}"
        yield Table(title, ["N", "simulated", "expected", "90% from", "to"], rows, "r")


def point_numbers(point: PointPrediction, question: Question) -> Iterator[Table]:
    """The numbers of samples of a point as a table of text."""
    plans = [plan for goal in question.targets or point.targets for plan in point.plans(goal)]
    title = "" if question.targets else "Samples for targets, as examples"
    yield from (table._replace(title=title) for table in plan_tables(plans, question.sure))


def point_sentences(point: PointPrediction) -> Iterator[str]:
    """What advice and tables leave out: notes, time and memory."""
    yield from point.notes
    usage = point.usage
    cost = f"{point.name}: {duration(usage.seconds)}"
    for size, where in ((usage.peak_memory, "of memory"), (usage.device_memory, "on the GPU")):
        cost += f", at most {size / 2**30:.2f} GiB {where}" if size else ""
    yield f"{cost}."


def reaches(points: Sequence[PointPrediction], question: Question) -> bool:
    """Whether every target is in the reach of some model of every point."""
    return all(
        any(plan.recommend().helps for plan in point.plans(goal))
        for point in points
        for goal in question.targets
    )
