"""The numbers of a plan: what is known about one target, before anything is said about it."""

from dataclasses import dataclass, field
from functools import cached_property

from korisk._checks import LARGEST_N
from korisk.curves.curve import Curve
from korisk.curves.noise import ROUNDING
from korisk.planning.chances import Chances, Enough, near_horizon
from korisk.planning.explain import EVEN, findings, no_floor, value
from korisk.planning.extrapolation import Extrapolation
from korisk.planning.fit import DEFAULT_FIT
from korisk.planning.limits import Limit, Longer, limit
from korisk.planning.protocol import level_of


@dataclass(frozen=True)
class Situation(Enough):
    """A pilot, a target, and the numbers that answer it; `Plan` adds the advice and the words."""

    forecast: Extrapolation = field(repr=False)
    target: float
    goal: float = field(repr=False)  # the target as an error
    middle: int | None
    lower: float
    upper: float
    reach: float
    chances: Chances = field(repr=False, compare=False)
    training: Curve | None = field(default=None, repr=False, compare=False)
    longer: Longer | None = field(default=None, repr=False, compare=False)

    @property
    def curve(self) -> Curve:
        """The pilot."""
        return self.forecast.curve

    @property
    def fit(self) -> str:
        """The extrapolation method, one of `FITS`."""
        return self.forecast.fit

    @property
    def last(self) -> int:
        """The largest N of the pilot."""
        return self.forecast.last

    @property
    def met_in_pilot(self) -> bool:
        """Whether the pilot's last mean meets the target, so that measured means answer it."""
        return bool(self.curve.means[-1] <= self.goal)

    @property
    def met_at_smallest(self) -> bool:
        """Whether the pilot's smallest N meets the target, so that fewer may be enough."""
        return self.middle is not None and self.middle <= int(self.curve.sizes[0])

    @property
    def _capped(self) -> bool:
        """Whether the largest supported N, and not the pilot, sets the horizon."""
        return self.forecast.horizon >= LARGEST_N

    @property
    def below_rounding(self) -> bool:
        """Whether the target lies below rounding, where errors have no meaning."""
        return bool(self.goal < ROUNDING * self.curve.means.max())

    @property
    def doubt(self) -> str:
        """Why there is no answer although the target may be reachable; empty where there is one."""
        if self.below_rounding:
            return "The target lies below rounding, where errors have no meaning."
        return "" if self.met_in_pilot else self.forecast.doubt

    @property
    def verdict(self) -> str:
        """Whether the target can be reached, in a word.

        "reachable"; "unlikely" where `reach` is below one half; without a number of samples,
        "not_reachable" where the pilot itself shows a floor: most of its sizes have two seeds, and
        its means bend by more than two standard errors; else "not_known".
        """
        # Measured means decide; else a number of samples; else whether the pilot shows a floor.
        if self.met_in_pilot and not self.below_rounding:
            return "reachable"
        if self.middle is None:
            return "not_known" if self.doubt or no_floor(self.curve) else "not_reachable"
        return "unlikely" if self.reach < EVEN else "reachable"

    @property
    def missed(self) -> str:
        """Table entry where there is no number of samples."""
        if self.doubt:
            return "no answer"
        known = self.fit != DEFAULT_FIT or self.verdict == "not_reachable"
        return "not reachable" if known else "not known"

    @property
    def chance(self) -> float | None:
        """The probability that `middle` is enough, over all futures; None without an answer."""
        return None if self.middle is None else self.probability(self.middle)

    def met_by(self, n: float) -> float:
        """The probability that the target is met by a single N."""
        count = self.forecast.sample_count(n)
        # Nothing was measured below the pilot, so that no probability is claimed there.
        return self.chances.at(count) if count >= self.chances.n[0] else 0.0

    @property
    def between(self) -> tuple[int, int] | None:
        """The measured N between which the means pass the target; None if they do not."""
        passed = self.forecast.measured.crossing(self.goal)
        return None if passed is None else passed[1:]

    def if_reached(self, p: float = 0.9) -> int | None:
        """The N that is enough with probability p *if* the target is met by N = `near_horizon`.

        A conditional number: show it together with the probability of its condition,
        `probability(near_horizon)`.
        """
        level = level_of(p, "p")
        if self.middle is None:
            return None
        # P(met by N) = p P(met before long) is P(met by N | met before long) = p.
        return self.chances.smallest(level * self.chances.at(self.near_horizon))

    @cached_property
    def near_horizon(self) -> int:
        """The N by which a future must meet the target to count in `middle`.

        16 times the pilot's largest N, or 16 times the earliest plausible N if that is larger: a
        pilot says too little about futures that meet the target later.
        """
        return near_horizon(self.forecast, self.lower)

    @property
    def floor(self) -> float:
        """The estimated floor of the curve, in the user's unit."""
        return float(self.curve.unit.from_error(self.forecast.floor))

    @cached_property
    def limit(self) -> Limit:
        """What limits the error, by the pilot, its training errors and a longer run."""
        return limit(self.curve, self.goal, training=self.training, longer=self.longer)

    @property
    def why_out_of_reach(self) -> str:
        """Why the target is not met by the horizon, in a sentence."""
        if self.floor_above:
            return f"The {self.curve.unit.noun} levels off at about {value(self.floor)}."
        return f"The {self.curve.unit.noun} improves too slowly."

    @property
    def floor_above(self) -> bool:
        """Whether the estimated floor is above the target."""
        return float(self.curve.unit.to_error(self.floor)) >= self.goal

    @property
    def related(self) -> tuple[Curve, ...]:
        """The related curves of the forecast."""
        return self.forecast.related

    @property
    def trust(self) -> float | None:
        """The weight of related curves in the answer; None without any, 0 if none is used."""
        if not self.related:
            return None
        relatives = self.forecast.relatives
        return 0.0 if relatives is None or self.doubt else relatives.trust

    @cached_property
    def findings(self) -> tuple[str, ...]:
        """Anomalies of the pilot, in sentences."""
        return findings(self.curve)
