"""What a figure of pilots has to show: the forecasts at the N it draws, and the limits of its axes.

Nothing is drawn here; values are in the user's unit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.planning.compare import Crossover
from korisk.planning.forecast import Forecast
from korisk.planning.plan import Plan

Array = NDArray[np.float64]

_STEPS = 100  # N at which a curve is drawn
_CORNERS = 30  # pilot sizes at which a band's corners are drawn exactly
_NEAR = 1.05  # factor in N and in the error within which a curve passes through a mark


@dataclass(frozen=True)
class Track:
    """A forecast at the N of a figure, in the user's unit."""

    n: Array  # (M,)
    middle: Array  # (M,)
    better: Array  # (M,) the end of the band with the smaller error
    worse: Array  # (M,)
    last: int  # the pilot's largest N

    @cached_property
    def measured(self) -> NDArray[np.bool_]:
        """(M,) which N lie within the pilot."""
        return self.n <= self.last

    @cached_property
    def extrapolated(self) -> NDArray[np.bool_]:
        """(M,) which N lie beyond it; the last one is in both, so that lines meet."""
        return self.n >= self.last


@dataclass(frozen=True)
class Frame:
    """The limits of the axes: all points, the target, the answers, and most of the bands."""

    plans: tuple[Plan, ...]
    crossover: Crossover | None = None

    @property
    def log(self) -> bool:
        """Whether values are drawn on a logarithmic axis."""
        return self.plans[0].curve.unit.logarithmic

    @property
    def better(self) -> int:
        """The direction in which values get better: -1 is down."""
        return 1 if self.plans[0].curve.unit.larger_is_better else -1

    @cached_property
    def left(self) -> float:
        """The smallest N on the axis."""
        return self._first / self._margin

    @cached_property
    def right(self) -> float:
        """The largest N on the axis."""
        return self.end * self._margin

    @property
    def _first(self) -> float:
        return min(float(plan.curve.sizes[0]) for plan in self.plans)

    @property
    def _margin(self) -> float:
        return float(max(1.05, (self.end / self._first) ** 0.025))

    @cached_property
    def end(self) -> float:
        """The largest N that is drawn."""
        ends = [_farthest(plan) for plan in self.plans]
        return max(*ends, 2.0 * self.crossover.n if self.crossover else 0.0)

    @cached_property
    def tracks(self) -> tuple[Track, ...]:
        """The forecasts, one for each plan."""
        forecasts = [plan.forecast for plan in self.plans]
        return tuple(track(made, drawn_sizes(made, self.end)) for made in forecasts)

    @cached_property
    def height(self) -> tuple[float, float]:
        """The lower and upper limit of the values."""
        needed, wished = [], []
        for plan, track in zip(self.plans, self.tracks, strict=True):
            needed += [values(plan.curve, plan.curve.error), track.middle, np.array([plan.target])]
            needed += [end[track.measured] for end in (track.better, track.worse)]
            wished += [track.better, track.worse]
            if has_floor(plan):
                needed.append(np.array([plan.floor]))
        inner, outer = self._ends(needed), self._ends(needed + wished)
        slack = 0.25 * (inner[1] - inner[0])  # a band may end beyond the frame
        low, high = max(outer[0], inner[0] - slack), min(outer[1], inner[1] + slack)
        pad = 0.05 * (high - low) or 0.05 * abs(low) or 1.0
        low, high = self._with_room(low - pad, high + pad, self._flat(self.plans[0].target))
        return (10.0**low, 10.0**high) if self.log else (low, high)

    def _with_room(self, low: float, high: float, target: float) -> tuple[float, float]:
        """Limits that leave room for words on both sides of the target."""
        room = 0.15 * (high - low)
        return min(low, target - room), max(high, target + room)

    def _ends(self, parts: Sequence[Array]) -> tuple[float, float]:
        flat = np.concatenate(parts)
        flat = np.log10(flat) if self.log else flat
        return float(flat.min()), float(flat.max())

    def _flat(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def across(self, n: float) -> float:
        """Where N lies between the left and the right end, from 0 to 1."""
        return math.log(n / self.left) / math.log(self.right / self.left)

    def up(self, value: float) -> float:
        """Where a value lies between the lower and the upper end, from 0 to 1."""
        low, high = (self._flat(end) for end in self.height)
        return (self._flat(value) - low) / (high - low)


def _farthest(plan: Plan) -> float:
    """The N up to which a plan is drawn: beyond the answer, and some way beyond the pilot."""
    last, first = float(plan.last), float(plan.curve.sizes[0])
    if plan.forecast.doubt:
        return last  # of larger N nothing is said
    ends = [4.0 * last, float(last * (last / first) ** 0.3)]
    if plan.samples is None:
        return max(*ends, 16.0 * last)
    ends += [2.0 * plan.samples, 1.3 * (plan.safe(0.9) or 0)]
    if plan.upper <= 20.0 * max(plan.samples, last):
        ends.append(1.3 * plan.upper)
    return max(ends)


def track(made: Forecast, n: Array) -> Track:
    """A forecast at the sizes `n` (M,)."""
    low, high = made.band(n)
    middle, better, worse = (values(made.curve, each) for each in (made.middle(n), low, high))
    return Track(n, middle, better, worse, made.last)


def drawn_sizes(made: Forecast, end: float, *, steps: int = _STEPS) -> Array:
    """(M,) sizes from the pilot's first to `end`, or to the horizon where that is nearer."""
    sizes = made.curve.sizes
    grid = np.geomspace(float(sizes[0]), min(end, float(made.horizon)), steps)
    corners = sizes if len(sizes) <= _CORNERS else [made.last]
    return np.unique(np.concatenate([grid, corners]))


def values(curve: Curve, error: Array) -> Array:
    """Errors in the user's unit."""
    return curve.unit.from_error(error)


def on_curve(plan: Plan) -> bool:
    """Whether the curve that is drawn passes the target at the plan's N, within a few per cent.

    Inside the pilot, where measured means answer, it does.
    """
    if plan.samples is None or plan.samples <= plan.last:
        return plan.samples is not None
    before, after = plan.forecast.middle([plan.samples / _NEAR, plan.samples * _NEAR]).tolist()
    return bool(before * _NEAR >= plan.goal >= after / _NEAR)


def has_floor(plan: Plan) -> bool:
    """Whether there is a floor to show: only one that stands between the pilot and the target."""
    if plan.samples is not None or plan.doubt:
        return False
    floor = float(plan.curve.unit.to_error(plan.floor))
    return plan.goal < floor < float(plan.curve.means.max())
