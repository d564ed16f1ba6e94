"""The two factors of Proposition (prop:ct-proxy) over targets, and the planner's ratios of N."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.compare import Comparison
from korisk.planning.fit import calibrate
from korisk.planning.forecast import forecast
from korisk.planning.plan import plan_from
from korisk.theory import TwoFactors, two_factors

Array = NDArray[np.float64]

_STEPS = 33  # targets at which the factors are computed
_NEAREST = 0.01  # relative distance from the floor of the hardest target
_ANSWERS = 5  # targets at which the planner is asked
_KINDS = ("structural", "approximation_budget", "product", "ratio")
_TALLEST = 1e12  # cap of a factor, which diverges at the floor


@dataclass(frozen=True, kw_only=True)
class Factors:
    """Both factors over targets, and the ratios of N that the planner gives.

    Without two falling lines, `factors` is empty and `reason` says why. `planned` holds the
    planner's ratio of N at the targets that it answers for both models, with the smaller of the two
    probabilities that the samples are enough, and whether the ratio is a lower bound: the known
    operator meets the target at its smallest measured N.
    """

    name: str
    known: Curve
    dense: Curve
    factors: Sequence[TwoFactors]  # by rising target
    planned: Sequence[tuple[float, float, float, bool]]  # target, ratio, chance, at least
    reason: str

    @property
    def floors(self) -> tuple[float, float]:
        """The lowest mean errors of both; the factors are defined above the higher one."""
        return float(self.known.means.min()), float(self.dense.means.min())

    @property
    def lines(self) -> dict[str, Array]:
        """Both factors, their product and the ratio, over the targets."""
        return {
            kind: np.array([min(getattr(point, kind), _TALLEST) for point in self.factors])
            for kind in _KINDS
        }

    @property
    def top(self) -> float:
        """The largest mean error of both."""
        return float(max(self.known.means.max(), self.dense.means.max()))


def factors(known: Curve, dense: Curve, *, name: str = "") -> Factors:
    """The factors by the paper's lines through two curves, and the planner's ratios."""
    result = Factors(name=name, known=known, dense=dense, factors=(), planned=(), reason="")
    low, top = max(result.floors), result.top
    planned = []
    try:
        lines = [calibrate(curve, "paper") for curve in (known, dense)]
        widest = max(top / low - 1.0, _NEAREST)
        # Geometric steps, because the factors change most near the floor.
        above = np.geomspace(min(_NEAREST, 0.1 * widest), widest, _STEPS)
        targets = (low * (1 + above)).tolist()
        result = replace(result, factors=[two_factors(lines[0], lines[1], t) for t in targets])
    except KoriskError as error:  # a single size, or a line that does not fall
        result = replace(result, reason=f"no factors: {str(error).partition(';')[0]}")
    with suppress(KoriskError):  # too few sizes for the planner
        forecasts = [forecast(known), forecast(dense)] if top > 1.02 * low else []
        for goal in np.geomspace(1.02 * low, 0.95 * top, _ANSWERS).tolist() if forecasts else []:
            plans = [plan_from(f, f.curve.unit.from_error(goal).item()) for f in forecasts]
            ratio = Comparison(*plans).ratio
            if ratio is not None and not plans[1].met_at_smallest:
                chance = min(plan.chance or 0.0 for plan in plans)
                planned.append((goal, ratio, chance, plans[0].met_at_smallest))
    return replace(result, planned=planned)
