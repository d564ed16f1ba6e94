"""The planner's answers as a page holds them: a table over targets.

Nothing is computed in the page. It looks up, or interpolates between neighbouring targets, what
`plan_from` answered for some hundred of them: when the target is met with which probability, and
the numbers that are read off that.
"""

import base64
import math
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.curves.noise import ROUNDING
from korisk.curves.unit import Unit
from korisk.errors import KoriskError
from korisk.planning.chances import LEAST_REACH, table_sizes
from korisk.planning.explain import EVEN, FAR, SURE, findings
from korisk.planning.fit import check_target
from korisk.planning.forecast import Forecast
from korisk.planning.plan import LEVELS, Plan, plan_from
from korisk.planning.posterior import Law

Array = NDArray[np.float64]

_EASIEST = 1.5  # times the largest mean: the first target
_HARDEST = 0.05  # of the last mean: the last target,
_REMOTE = 0.01  # unless the chance to meet an easier one at all is this small
_BEYOND = 0.7  # of the last mean: at least so hard is the last target
STOPS = 80  # targets at which the slider stops, about, besides
_ROUND = (1, 1.2, 1.5, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)  # times powers of ten, which people type:
_FEWER = (1, 2, 5)  # with a range of more than
_DECADES = 4.0
_WIDEST = math.log(16.0)  # fall of the means from which on more stops would tell nothing
_MEANS = 16  # measured means that are targets, at most
_JUST = 1e-9  # beyond a mean, where another answer begins
_AT_FIRST = (0.8, 0.95, 0.995)  # probabilities at the first N whose targets are answered
_INNER = tuple(round(0.025 * step, 3) for step in range(1, 40))
# Of the way from the probability at the pilot's first N to the largest: where N is in the table.
_SHARES = (0.001, 0.01, *_INNER, 0.985, 0.99, 0.995, 0.998, 0.999, 0.9997, 1.0)


def planner_data(made: Forecast, first: float | None = None) -> dict[str, Any]:
    """The answers for one pilot as plain values for JSON.

    Parameters
    ----------
    made : Forecast
        The pilot's forecast by the default fit.
    first : float, optional
        A target that is answered exactly, besides those that are chosen here.

    Returns
    -------
    dict
        What table.js reads.
    """
    curve = made.curve
    stops, others = _targets(made)
    asked = [first] if first is not None else []
    often = asked_often(made)
    plans: list[Plan] = []
    for target in {*stops, *others, *asked}:
        with suppress(KoriskError):  # a target that is far too easy, unless it was asked
            if target not in asked:
                check_target([curve], target)
            plans.append(plan_from(often, target))
    plans.sort(key=lambda plan: -plan.goal)  # from the easiest to the hardest
    doubts = list(dict.fromkeys(plan.doubt for plan in plans if plan.doubt))
    # (T, L) N by which each target is met with each share of the way from the probability at the
    # pilot's first N to the largest: sixteen bits each, in steps of log N.
    rows = []
    for plan in plans:
        start, most = float(plan.chances.p[0]), float(plan.chances.p[-1])
        levels = [min(start + share * (most - start), most) for share in _SHARES]
        rows.append([plan.chances.first(p) for p in levels])
    low, high = math.log(curve.sizes[0]), math.log(made.horizon)
    steps = np.rint((np.log(np.array(rows)) - low) / (high - low) * 65535).astype("<u2")
    return {
        "model": curve.model,
        "metric": curve.metric,
        "unit": {
            "law": curve.unit.law,
            "noun": curve.unit.noun,
            "logarithmic": curve.unit.logarithmic,
        },
        "sizes": curve.sizes.tolist(),
        "last": made.last,
        "horizon": made.horizon,
        "floor": _digits(plans[0].floor, 6),
        "doubt": made.doubt,
        "doubts": doubts,
        "findings": list(findings(curve)),
        "targets": [plan.target for plan in plans],
        "stops": [at for at, plan in enumerate(plans) if plan.target in {*stops, *asked}],
        "shares": list(_SHARES),
        "table": base64.b64encode(steps.tobytes()).decode("ascii"),
        "ends": [_digits(float(end), 4) for plan in plans for end in plan.chances.p[[0, -1]]],
        "least_reach": LEAST_REACH,
        "even": EVEN,
        "sure": SURE,
        "far": FAR,
        "anywhere": plans[0].anywhere,
        "answers": {  # one list over the targets for each quantity
            "samples": [plan.samples for plan in plans],
            "chance": [plan.chance and _digits(plan.chance, 6) for plan in plans],
            "lower": [_finite(plan.lower) for plan in plans],
            "upper": [_finite(plan.upper) for plan in plans],
            "reach": [None if math.isnan(plan.reach) else _digits(plan.reach, 6) for plan in plans],
            "next": [plan.next_round for plan in plans],
            "safe": {f"{p:g}": [plan.safe(p) for plan in plans] for p in LEVELS},
            "if_reached": {f"{p:g}": [plan.if_reached(p) for plan in plans] for p in LEVELS},
            "by": [plan.before_long for plan in plans],
            "by_chance": [_digits(plan.chances.at(plan.before_long), 6) for plan in plans],
            "doubt": [doubts.index(plan.doubt) + 1 if plan.doubt else 0 for plan in plans],
        },
    }


def _targets(made: Forecast) -> tuple[list[float], list[float]]:
    """Targets from easy to hard that people would give, and others for better interpolation.

    At a mean the answer changes its kind: the mean and a target just beyond it are among them. So
    are targets at which the probability at the pilot's first N rises from a half to one.
    """
    curve, unit = made.curve, made.curve.unit
    levels = np.unique(np.maximum.accumulate(curve.means[::-1]))[::-1]  # that stay met from some N
    levels = levels[np.unique(np.linspace(0, len(levels) - 1, _MEANS).round().astype(int))]
    last = float(curve.means[-1])
    low = max(float(made.quantile([made.horizon], _REMOTE)[0]), _HARDEST * last)
    low = max(min(low, _BEYOND * last), 0.5 * ROUNDING * float(curve.means.max()))
    edges = np.array([_EASIEST * curve.means.max(), *levels[levels > low], low])
    falls = np.minimum(-np.diff(np.log(edges)), _WIDEST)
    counts = np.ceil(STOPS * falls / falls.sum()).astype(int)
    grid = [
        np.geomspace(start, end, count, endpoint=False)
        for start, end, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    stops = []
    for error in [*np.concatenate(grid), low]:  # with as few digits as people would give
        if unit.law == "psnr":
            stops.append(round(float(unit.from_error(error)), 2))
        elif unit.law in ("complement", "percent"):  # the digits of what is left to be right
            stops.append(_digits(float(unit.from_error(_digits(error, 3))), 12))
        else:
            stops.append(_digits(float(unit.from_error(error)), 4))
    stops += _round_targets(unit, low, float(edges[0]))
    beside = [each for level in levels for each in (level, level * (1 - _JUST))]
    smallest = made.measured.lasting(curve.sizes[:1].astype(float))
    beside += [math.exp(smallest.quantile(p)[0]) for p in _AT_FIRST]
    return stops, unit.from_error(beside).tolist()


def _round_targets(unit: Unit, low: float, high: float) -> list[float]:
    """Targets that people type, with errors between two: round values, whole steps of scores."""
    mantissas = _ROUND if math.log10(high / low) <= _DECADES else _FEWER
    root = 0.5 if unit.law == "squared" else 1.0
    powers = range(math.floor(root * math.log10(low)), math.ceil(root * math.log10(high)) + 1)
    made = [float(f"{mantissa}e{power}") for power in powers for mantissa in mantissas]
    if unit.law == "psnr":
        ends = sorted(float(unit.from_error(error)) for error in (low, high))
        made = np.arange(math.ceil(ends[0]), ends[1]).tolist()
    elif unit.law in ("complement", "percent"):
        most = float(unit.from_error(0.0))
        fine = [_digits(most - error, 12) for error in made if error < 0.1 * most]
        made = [*fine, *(_digits(most * step / 100, 12) for step in range(1, 100))]
    elif unit.law == "negated":
        made = [-each for each in made]
    return [each for each in made if low <= float(unit.to_error(each)) <= high]


def asked_often(made: Forecast) -> Forecast:
    """The same forecast, quick to ask about many targets."""
    if isinstance(made, _AskedOften):
        return made
    return _AskedOften(made.curve, made.fit, made.related)


class _AskedOften(Forecast):
    """A forecast that makes the law at the sizes of its table once, for all targets."""

    @cached_property
    def kept(self) -> tuple[Array, Law]:
        """The sizes of the table, and the law there."""
        sizes = table_sizes(self)
        return sizes, self._joined(sizes, self.measured.lasting)

    def probability(self, n: Array, goal: float) -> Array:
        """(M,) the probability at each N."""
        sizes, law = self.kept
        if np.array_equal(n, sizes):
            return law.under(np.full(len(n), math.log(goal)))
        return super().probability(n, goal)


def _finite(n: float) -> int | None:
    return round(n) if math.isfinite(n) else None


def _digits(number: float, most: int) -> float:
    return float(f"{number:.{most}g}")
