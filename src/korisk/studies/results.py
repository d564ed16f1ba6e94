"""From stored rows to curves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from korisk.curves.compare import Crossover, compare
from korisk.curves.curve import Curve
from korisk.curves.unit import UNITS, suggested_unit
from korisk.studies.result import Task
from korisk.studies.store import FlatRow

LEAST_SIZES = 3  # from which on curves can be carried on
PART_OF = "part_of"  # in a spec: what the point is a part of, as one N is of a pilot


def curve_of(rows: Iterable[FlatRow], model: str, metric: str, unit: str = "error") -> Curve | None:
    """The curve of one model in the rows of one point, None where it has none."""
    own = [each for each in rows if each.row.model == model and each.row.n > 0]
    if not own:
        return None
    return Curve(
        [each.row.n for each in own],
        UNITS[unit].to_error([each.row.metrics[metric] for each in own]),
        [each.task.seed for each in own],
        model=model,
        metric=metric,
        unit=unit,
    )


def group_of(task: Task) -> str:
    """What a task's rows are shown under: its point, or what that is a part of."""
    return str(task.spec.get(PART_OF, task.point))


def by_point(rows: Iterable[FlatRow]) -> dict[str, list[FlatRow]]:
    """Rows of each point, or of all that are part of one, in the order in which they appear."""
    groups: dict[str, list[FlatRow]] = {}
    for row in rows:
        groups.setdefault(group_of(row.task), []).append(row)
    return groups


def curves(rows: Iterable[FlatRow]) -> dict[str, list[Curve]]:
    """The curves of each point in the metric that its study names, one for each model.

    A pilot names none: its first is taken, in the unit that the metric's name suggests.
    """
    found = {}
    for point, own in by_point(rows).items():
        metric = own[0].task.spec.get("metric")
        unit = "error"
        if metric is None:
            metric = next(iter(own[0].row.metrics))
            unit = suggested_unit(metric) or unit
        models = dict.fromkeys(each.row.model for each in own)
        made = [curve_of(own, model, metric, unit) for model in models]
        found[point] = [curve for curve in made if curve is not None]
    return found


@dataclass(frozen=True)
class Crossing:
    """Where the better of two models changes, as far as results tell."""

    found: Crossover | None  # by the planner's odds; None where it tells of none
    means: tuple[int, int] | None  # N between which the mean errors first change their order
    better: str  # the model with the lower mean error at the largest N of both
    last: int  # that N
    sizes: int  # how many N both were measured at


def crossing(first: Curve, second: Curve) -> Crossing | None:
    """How two curves stand to each other; None where they have no N in common."""
    shared = sorted(set(first.sizes.tolist()) & set(second.sizes.tolist()))
    if not shared:
        return None
    ahead = [mean_at(second, n) < mean_at(first, n) for n in shared]
    turns = [at for at in range(1, len(ahead)) if ahead[at] != ahead[at - 1]]
    return Crossing(
        found=_by_odds(first, second),
        means=(shared[turns[0] - 1], shared[turns[0]]) if turns else None,
        better=(second if ahead[-1] else first).model,
        last=shared[-1],
        sizes=len(shared),
    )


def mean_at(curve: Curve, n: int) -> float:
    """The mean error at one of the curve's N."""
    return float(curve.means[curve.sizes.tolist().index(n)])


def _by_odds(first: Curve, second: Curve) -> Crossover | None:
    if min(len(first.sizes), len(second.sizes)) < LEAST_SIZES:
        return None
    # The crossover does not depend on the target; one that is too easy would be refused.
    lowest = first.unit.from_error(min(first.means.min(), second.means.min()))
    return compare(first, second, float(lowest)).crossover
