"""What to do next: one action with one number, and the reasons for it.

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

from korisk._checks import LARGEST_N, real
from korisk.planning.chances import LEAST_REACH, NEAR
from korisk.planning.explain import chance, count, no_learning, value
from korisk.planning.protocol import Action, Expectation, Recommendation
from korisk.planning.situation import Situation

LEAST_SEEDS = 3  # for a measurement that is to settle a question
_EASY = 10.0  # times the largest error: an easier target is probably in another unit
FIRST = 16  # the smallest N of a first measurement


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
        probe = f"Or {limit.next_run}: training may limit it." if limit.next_run else ""
        return _advice(plan, "stop", text, sure, (plan.why_out_of_reach, probe))
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
    reasons = (_why_not(plan, sure), _relied_on(plan, n, sure), paid)
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


def _relied_on(plan: Situation, n: int, sure: float) -> str:
    """The error that N samples reach with the requested probability."""
    error = plan.forecast.quantile([n], sure).item()
    reached = value(float(plan.curve.unit.from_error(error)))
    return f"What N = {n:,} does reach is {reached} ({level_text(sure)})."


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
