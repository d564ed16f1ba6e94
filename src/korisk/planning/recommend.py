"""The numbers of a plan, and what to do next: one action with one number, and its reasons.

Collect N samples; measure one more size; train longer; stop; or: it is not known, because. The
first that applies is the advice:

1. No number for a pilot that cannot be extrapolated, or for a target below rounding.
2. Measured means that meet the target answer it, whatever else limits the error: with the number of
   samples, or with more seeds at the size from which on they meet it.
3. Where longer training lowers the error at the same N, training comes before data.
4. A number of samples with the requested probability is collected, within the range of N in which
   odds were checked.
5. Without such a number: a pilot without learning shows nothing, a target that is out of reach ends
   the search, a run that shows what limits the error comes before new samples, and otherwise twice
   the largest N decides.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

from korisk._checks import LARGEST_N, real
from korisk.curves.curve import Curve
from korisk.curves.noise import ROUNDING
from korisk.planning.chances import LEAST_REACH, NEAR, Chances, Enough, near_horizon
from korisk.planning.explain import EVEN, chance, count, findings, no_floor, no_learning, value
from korisk.planning.extrapolation import Extrapolation
from korisk.planning.fit import DEFAULT_FIT, level_of
from korisk.planning.limits import Limit, Longer, limit
from korisk.planning.protocol import Action, Expectation, Recommendation

LEAST_SEEDS = 3  # for a measurement that is to settle a question
_EASY = 10.0  # times the largest error: an easier target is probably in another unit
FIRST = 16  # the smallest N of a first measurement


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

    def probability(self, n: float) -> float:
        """The probability that the target is met by N, over all futures."""
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


# --- Advice --------------------------------------------------------------------------------------


def recommend(plan: Situation, sure: float = 0.9, cost: float | None = None) -> Recommendation:
    """The recommendation for a plan."""
    samples = plan.samples(sure)
    if cost is not None:
        real("cost", cost, above=0, remedy="give the price of one sample")
    if samples is not None and collectable(plan, samples):
        return _collect(plan, samples, sure, cost)
    return otherwise(plan, sure, cost)


def collectable(plan: Situation, samples: int) -> bool:
    """Whether a number of samples can be recommended, rather than what `otherwise` returns."""
    # Odds were checked up to NEAR times a pilot's largest N, and not beyond.
    if plan.doubt or samples > NEAR * plan.last:
        return False
    if plan.met_in_pilot:
        return True
    return not no_learning(plan.curve) and plan.limit.kind != "training"


def _collect(plan: Situation, samples: int, sure: float, cost: float | None) -> Recommendation:
    level, target = level_text(sure), value(plan.target)
    if plan.met_at_smallest and samples <= plan.curve.sizes[0]:
        text = f"{target} is met already at N = {samples:,}, the smallest measured ({level})"
    elif samples <= plan.last:
        text = f"{count(samples)} samples are enough for {target} ({level}); the pilot has them"
    else:
        text = f"collect {count(samples)} samples for {target} ({level})"
    far = f"That is {samples / plan.last:.2g} times the pilot's largest N of {plan.last:,}."
    price, paid = price_of(samples, plan.last, cost)
    reasons = (_too_easy(plan), far if samples > plan.last else "", paid)
    odds = plan.probability(samples)
    return _advice(plan, "collect", text, sure, reasons, n=samples, chance=odds, cost=price)


def otherwise(plan: Situation, sure: float = 0.9, cost: float | None = None) -> Recommendation:
    """The recommendation where no number of samples can be given."""
    target, limit = value(plan.target), plan.limit
    if plan.doubt:
        why = plan.doubt.removeprefix("The curve cannot be extrapolated: ").rstrip(".")
        text = f"not known how many samples {target} needs: {why[0].lower()}{why[1:]}"
        return _advice(plan, "unknown", text, sure, (limit.sentence, _remedy(plan)))
    if plan.met_in_pilot:
        return _repeat(plan, sure, cost)
    if limit.kind == "training":
        return _advice(plan, "train", _trained(plan), sure, (limit.sentence,))
    if no_learning(plan.curve):
        text = f"not known how to reach {target}: the {plan.curve.unit.noun} does not improve with "
        text += "N in this pilot"
        return _advice(plan, "unknown", text, sure, (limit.sentence, _remedy(plan)))
    # A single seed at the last N may be an unlucky one: no reason to stop.
    seeded = plan.curve.counts[-1] > 1
    if plan.reach < LEAST_REACH and seeded:
        far = f"chance {chance(plan.reach)} by N = {count(plan.forecast.horizon)}"
        text = f"stop: more data of this kind will not reach {target} ({far})"
        instead = f"Or {limit.next_run}: training may limit it." if limit.next_run else ""
        return _advice(plan, "stop", text, sure, (plan.why_out_of_reach, instead))
    if plan.last >= LARGEST_N:
        text = f"not known how to reach {target}: no larger N is planned for"
        return _advice(plan, "unknown", text, sure, (_why_not(plan, sure), _remedy(plan)))
    if limit.next_run and plan.reach >= LEAST_REACH:  # a run that needs no new samples comes first
        text = f"not known whether more data reaches {target}: something else may limit the "
        text += plan.curve.unit.noun
        return _advice(plan, "unknown", text, sure, (limit.sentence, _remedy(plan)))
    n = min(2 * plan.last, LARGEST_N)
    text = f"measure N = {n:,} next, twice the pilot's largest, with {LEAST_SEEDS} seeds"
    if plan.reach < LEAST_REACH:
        text += f": single seeds cannot tell whether {target} is out of reach"
    price, paid = price_of(n, plan.last, cost)
    reached = value(float(plan.curve.unit.from_error(plan.forecast.quantile([n], sure).item())))
    relied = f"What N = {n:,} does reach is {reached} ({level_text(sure)})."
    reasons = (_why_not(plan, sure), relied, paid)
    return _advice(plan, "measure", text, sure, reasons, n=n, seeds=LEAST_SEEDS, cost=price)


def _repeat(plan: Situation, sure: float, cost: float | None) -> Recommendation:
    """Recommend more seeds where measured means meet the target, but too uncertainly."""
    # The first size from which on every mean meets the target.
    met = plan.curve.means <= plan.goal
    n = int(plan.curve.sizes[met.size - met[::-1].argmin() if not met.all() else 0])
    seeds = max(2 * int(plan.curve.counts[plan.curve.sizes == n].item()), LEAST_SEEDS)
    text = f"measure N = {n:,} again, with {seeds} seeds: its mean meets {value(plan.target)}, but "
    text += f"the seeds measured so far give it a chance of {chance(plan.probability(n))}"
    price, paid = price_of(n, plan.last, cost)
    reasons = (_why_not(plan, sure), paid)
    return _advice(plan, "measure", text, sure, reasons, n=n, seeds=seeds, cost=price)


def check_words(check: Expectation) -> str:
    """The first measurement to make, its expected result, and what a deviation means."""
    band = f"{value(check.lower)} to {value(check.upper)}"
    return (
        f"This assumes your noise level and images. Check it at N = {check.n:,}: expect "
        f"{value(check.value)} (90%: {band}); if not, suspect noise or images."
    )


def _advice(
    plan: Situation,
    action: Action,
    text: str,
    sure: float,
    reasons: tuple[str, ...],
    *,
    n: int | None = None,
    seeds: int | None = None,
    chance: float | None = None,
    cost: float | None = None,
) -> Recommendation:
    name = plan.curve.model
    sentence = f"{name}: {text}." if name else f"{text[0].upper()}{text[1:]}."
    # Odds of a pilot that cannot be extrapolated are no advice.
    known, (lower, upper) = not plan.doubt, plan.chances.interval()
    return Recommendation(
        action=action,
        n=n,
        seeds=seeds,
        sentence=sentence,
        sure=sure,
        chance=chance,
        even=plan.even if known else None,
        lower=int(lower) if known and math.isfinite(lower) else None,
        upper=int(upper) if known and math.isfinite(upper) else None,
        cost=cost,
        # Where no amount of data meets the target, data cannot be what limits the error.
        limit=None if action == "stop" and plan.limit.kind == "data" else plan.limit,
        reasons=tuple(reason for reason in reasons if reason),
    )


def _remedy(plan: Situation) -> str:
    """What to try if neither a number of samples nor one more size can be recommended."""
    twice = 2 * plan.last
    if plan.below_rounding or twice > LARGEST_N:
        return "Ask for an easier target."
    return f"To find out, {plan.limit.next_run or f'measure N = {twice:,} and plan again'}."


def _trained(plan: Situation) -> str:
    """The result of longer training, and whether it meets the target."""
    longer = plan.longer
    assert longer is not None  # without it, training is never the limit
    errors = plan.curve.unit.to_error(longer.errors)
    after = value(float(plan.curve.unit.from_error(errors.mean())))
    text = f"train {longer.factor:g} times as long: at N = {longer.n:,} that gave {after}"
    if errors.mean() <= plan.goal:
        return f"{text}, which meets {value(plan.target)} without new samples"
    return f"{text}; plan again with the longer training before more is collected"


def _too_easy(plan: Situation) -> str:
    """A hint that the target may be in another unit, if every measurement is far better."""
    largest = float(plan.curve.means.max())
    if plan.goal <= _EASY * largest:
        return ""
    measured = value(float(plan.curve.unit.from_error(largest)))
    return (
        f"Every measured {plan.curve.unit.noun} is far better, from {measured} on: is the target "
        f"in another unit than {plan.curve.unit.name!r}?"
    )


def _why_not(plan: Situation, sure: float) -> str:
    """Why no number of samples is recommended although the target may be reachable."""
    samples = plan.samples(sure)
    if samples is not None:
        enough = f"{count(samples)} samples would be enough with {100 * sure:.4g}%"
        enough += f", but lie more than {NEAR} times beyond the pilot"
        return f"{enough}, where odds were not checked."
    return no_number(sure, plan.reach)


def no_number(sure: float, reach: float) -> str:
    """That no number of samples has the requested probability, in a sentence."""
    level = f"{100 * sure:.4g}%"
    most = "a little less" if chance(reach) == level else chance(reach)
    return f"No number of samples has a chance of {level}; the most is {most}."


def price_of(samples: int | None, last: int, cost: float | None) -> tuple[float | None, str]:
    """The cost of the missing samples, as a number and as a sentence."""
    if cost is None or samples is None:
        return None, ""
    # The pilot's samples are there already.
    missing = max(samples - last, 0)
    compared_to = f" than the pilot's {last:,}" if last else ""
    sentence = f"{missing:,} more samples{compared_to} cost {cost * missing:,.6g}."
    return cost * missing, sentence if missing else "Nothing more has to be collected."


def level_text(sure: float) -> str:
    """The requested probability, for parentheses."""
    return f"{100 * sure:.4g}% sure"
