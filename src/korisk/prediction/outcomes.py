"""What was predicted before training beside what was measured, and how well it was predicted."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from korisk.curves.curve import Curve
from korisk.prediction.record import PointRecord
from korisk.store.store import Cell

_METRIC = "mse"


@dataclass(frozen=True)
class Outcome:
    """A predicted error beside the measured one."""

    point: str
    model: str
    n: int
    predicted: float
    lower: float
    upper: float
    measured: float

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured

    @property
    def inside(self) -> bool:
        """Whether the measured error lies in the band."""
        return self.lower <= self.measured <= self.upper


def measured_curves(cells: Iterable[Cell]) -> list[Curve]:
    """The mean squared errors of a point's models, whatever metric the study looks at."""
    rows_by_model: dict[str, list[tuple[int, float, int]]] = {}
    for cell in cells:
        for row in cell.rows:
            error = row.metrics.get(_METRIC, math.nan)
            if row.n >= 2 and 0 < error < math.inf:
                rows_by_model.setdefault(row.model, []).append((row.n, error, cell.task.seed))
    curves = []
    for model, rows in rows_by_model.items():
        n, errors, seeds = zip(*rows, strict=True)
        curves.append(Curve(n, errors, seeds, model=model, metric=_METRIC))
    return curves


def outcomes(each: PointRecord, curves: Sequence[Curve]) -> Iterator[Outcome]:
    """What was predicted at the N that were measured, interpolated; not at those of a pilot."""
    measured = {curve.model: curve for curve in curves}
    for record in each.models:
        curve = measured.get(record.model)
        if curve is None:
            continue
        told = {check.n for check in record.checks}
        logs = np.log([(row.n, row.expected, row.lower, row.upper) for row in record.track])
        for n, mean in zip(curve.sizes.tolist(), curve.means.tolist(), strict=True):
            if record.track[0].n <= n <= record.track[-1].n and n not in told:
                expected, lower, upper = (
                    math.exp(np.interp(math.log(n), logs[:, 0], logs[:, k])) for k in (1, 2, 3)
                )
                yield Outcome(each.point, record.model, n, expected, lower, upper, mean)


def sentences(found: Sequence[Outcome]) -> Iterator[str]:
    """How well each model was predicted."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in found:
        groups.setdefault((outcome.point, outcome.model), []).append(outcome)
    for (point, model), mine in groups.items():
        logs = [math.log(outcome.ratio) for outcome in mine]
        farthest = max(mine, key=lambda outcome: abs(math.log(outcome.ratio)))
        inside = sum(outcome.inside for outcome in mine)
        yield (
            f"{point}, {model}: predicted over measured is {math.exp(sum(logs) / len(logs)):.2f} "
            f"in the geometric mean over {len(mine)} N, and {farthest.ratio:.2f} at worst, at "
            f"N = {farthest.n:,}; {inside} of {len(mine)} measured errors lie in the 90% band."
        )
