"""The two factors of Proposition (prop:ct-proxy) over targets, beside the planner's ratios of N."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.compare import Comparison
from korisk.planning.fit import fitted_line
from korisk.planning.forecast import forecast
from korisk.planning.plan import plan_from
from korisk.theory import TwoFactors, two_factors

Array = NDArray[np.float64]

_STEPS = 33  # targets at which the factors are computed
_NEAREST = 0.01  # of the floor: as near to it as factors are told
_ANSWERS = 5  # targets at which the planner is asked
_KINDS = ("structural", "approximation_budget", "product", "ratio")
_TALLEST = 1e12  # a ratio beyond which the number tells nothing


@dataclass(frozen=True, kw_only=True)
class Factors:
    """Both factors over targets, and the ratios of N that the planner gives.

    Without two lines that fall, `factors` is empty and `reason` says why. `planned` holds the
    planner's ratio of N at the few targets for which it has an answer for both models, each with
    the smaller of the two chances that they are enough, and whether it is at least that: where the
    known operator meets the target with the fewest samples that were measured.
    """

    name: str
    known: Curve
    dense: Curve
    factors: Sequence[TwoFactors]  # by rising target
    planned: Sequence[tuple[float, float, float, bool]]  # target, ratio, chance, at least
    reason: str

    @property
    def floors(self) -> tuple[float, float]:
        """The lowest mean errors of both: up to the higher one the factors are not defined."""
        return float(self.known.means.min()), float(self.dense.means.min())

    @property
    def lines(self) -> dict[str, Array]:
        """Each factor, their product and the ratio, over the targets."""
        return {
            kind: np.array([min(getattr(found, kind), _TALLEST) for found in self.factors])
            for kind in _KINDS
        }

    @property
    def top(self) -> float:
        """The largest mean error of both."""
        return float(max(self.known.means.max(), self.dense.means.max()))


def factors(known: Curve, dense: Curve, *, name: str = "") -> Factors:
    """The factors from the paper's lines of two curves, and the planner's ratios beside them."""
    found = Factors(name=name, known=known, dense=dense, factors=(), planned=(), reason="")
    low, top = max(found.floors), found.top
    planned = []
    try:
        lines = [fitted_line(curve, "paper") for curve in (known, dense)]
        wide = max(top / low - 1.0, _NEAREST)
        above = np.geomspace(min(_NEAREST, 0.1 * wide), wide, _STEPS)  # most change near the floor
        targets = (low * (1 + above)).tolist()
        found = replace(found, factors=[two_factors(lines[0], lines[1], t) for t in targets])
    except KoriskError as error:  # a single size, or a line that does not fall
        found = replace(found, reason=f"no factors: {str(error).partition(';')[0]}")
    with suppress(KoriskError):  # too few sizes for the planner
        both = [forecast(known), forecast(dense)] if top > 1.02 * low else []
        for target in np.geomspace(1.02 * low, 0.95 * top, _ANSWERS).tolist() if both else []:
            asked = [each.curve.unit.from_error(target).item() for each in both]
            plans = [plan_from(each, t) for each, t in zip(both, asked, strict=True)]
            ratio = Comparison(*plans).ratio
            if ratio is not None and not plans[1].at_once:
                chance = min(each.chance or 0.0 for each in plans)
                planned.append((target, ratio, chance, plans[0].at_once))
    return replace(found, planned=planned)
