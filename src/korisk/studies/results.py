"""From stored rows to curves."""

from __future__ import annotations

import math
from collections.abc import Iterable

from korisk.curves.compare import Crossover, compare
from korisk.curves.curve import Curve
from korisk.studies.store import FlatRow


def curve_of(rows: Iterable[FlatRow], model: str, metric: str) -> Curve | None:
    """The curve of one model in the rows of one point, None where it has none."""
    own = [each for each in rows if each.row.model == model and each.row.n > 0]
    if not own:
        return None
    return Curve(
        [each.row.n for each in own],
        [each.row.metrics[metric] for each in own],
        [each.task.seed for each in own],
        model=model,
        metric=metric,
    )


def by_point(rows: Iterable[FlatRow]) -> dict[str, list[FlatRow]]:
    """Rows of each point, in the order in which points first appear."""
    groups: dict[str, list[FlatRow]] = {}
    for row in rows:
        groups.setdefault(row.task.point, []).append(row)
    return groups


def curves(rows: Iterable[FlatRow]) -> dict[str, list[Curve]]:
    """The curves of each point in the metric that its study names, one for each model."""
    found = {}
    for point, own in by_point(rows).items():
        metric = own[0].task.spec["metric"]
        models = dict.fromkeys(each.row.model for each in own)
        made = [curve_of(own, model, metric) for model in models]
        found[point] = [curve for curve in made if curve is not None]
    return found


def crossover(first: Curve, second: Curve) -> Crossover | None:
    """Where the better of two models changes, measured or foretold, by the planner's odds."""
    if len(first.sizes) < 3 or len(second.sizes) < 3:
        return None
    # Any target will do: the crossover does not depend on it.
    target = math.sqrt(float(min(first.means)) * float(min(second.means)))
    return compare(first, second, target).crossover
