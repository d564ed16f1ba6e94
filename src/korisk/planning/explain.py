"""Pilots, plans and comparisons in plain words; each sentence is written once, here.

Every probability in a sentence is one of the plan's own: `chance`, `reach`, `probability(n)`, or
the level of `safe` and `if_reached`. Plans and comparisons use this module for their `explain()`,
so it does not import them: they are typed `Any` here.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import collapsed, collapsed_sizes, relative_variance
from korisk.errors import Argument, KoriskError, Message
from korisk.planning.fit import DEFAULT_FIT, other_unit
from korisk.planning.posterior import ROUGHEST, Posterior

_LEVEL = 0.9  # of the safe number that an explanation names
FAR = 64  # times the pilot, beyond which a number is a rough one
SURE = 0.95  # reach from which on the condition "if the target is reachable" is left out
EVEN = 0.5  # reach below which a target is probably not reached
_DISAGREES = 0.01  # trust below which related curves count for nothing
_ERRORS_OF_A_RISE = 2.0  # standard errors by which a rise must exceed noise
_RISE_WITHOUT_SEEDS = 0.02
_RISING = math.log(1.25)  # from the first mean to the last: no such curve is extrapolated
_MOST_OUTSIDE = 0.5  # of the seeds outside their 90% range; a tenth would be right
_OUTLYING = 4.0  # robust deviations from the median of its N
_OUTLYING_AT_LEAST = math.log(1.5)
_LISTED = 3  # findings of one kind that are told in full


# Answers with a number of samples, in templates: a page fills in the same names.
ANSWERS = {
    "inside": "The measured means{whose} meet the target {target} between N = {before} and "
    "{after}, at about {samples} (chance {chance}).",
    "unlikely": "{start} probably does not reach {target}: the chance is at most {reach} "
    "{anywhere}. If it does, it needs about {samples} samples, {far}; the overall chance that they "
    "are enough is {chance}.",
    "if_reachable": "To reach {target}, {model} needs about {samples} samples (chance {chance}), "
    "{far}, if the target is reachable (chance at most {reach}).",
    "beyond": "To reach {target}, {model} needs about {samples} samples (chance {chance}), {far}.",
    "rough": "So far beyond the pilot, only the order of magnitude is meaningful.",
    "interval": "With 90% probability it takes {lower} to {upper} samples.",
    "at_least": "With 95% probability it takes at least {lower} samples.",
}


# --- Numbers -------------------------------------------------------------------------------------


def value(number: float) -> str:
    """An error, short."""
    return f"{number:.4g}"


def chance(p: float | None) -> str:
    """A probability, without claiming certainty."""
    if p is None or math.isnan(p):
        return "not known"
    if p < 0.01:
        return "below 1%"
    return "above 99%" if p > 0.99 else f"{p:.0%}"


def times(factor: float) -> str:
    """A factor, with two digits where that is few."""
    return f"{factor:,.0f}" if factor >= 10 else f"{factor:.2g}"


def count(n: float) -> str:
    """A number of samples, as it stands in a table."""
    return f"{n:,.0f}" if math.isfinite(n) else "∞"


def span(lower: float, upper: float) -> str:
    """An interval of numbers of samples, as it stands in a sentence."""
    if math.isinf(upper):
        return f"at least {count(lower)}"
    return f"{count(lower)} to {count(upper)}"


def paragraph(sentences: Iterable[str]) -> Message:
    """Sentences with a space between, which still know the arguments that they name."""
    return Message(*[part for said in sentences for part in (" ", said)][1:])


# --- A pilot -------------------------------------------------------------------------------------


def rises(curve: Curve) -> list[int]:
    """Indices of the sizes at which the mean rises, by more than the noise of the seeds."""
    variance = relative_variance(curve)
    steps = np.diff(np.log(curve.means))
    if variance is None:
        least = np.full(len(steps), _RISE_WITHOUT_SEEDS)
    else:
        least = _ERRORS_OF_A_RISE * np.sqrt(variance[1:] + variance[:-1])
    found: list[int] = (1 + np.flatnonzero(steps > np.maximum(least, 1e-9))).tolist()
    return found


def outliers(curve: Curve) -> dict[int, float]:
    """Rows of seeds far from the median of their N, and their factor of it; at least four a N.

    Far is measured by the spread of all seeds.
    """
    away, judged = np.zeros(len(curve)), []
    for n in curve.sizes:
        rows = np.flatnonzero(curve.n == n)
        logs = np.log(curve.error[rows])
        away[rows] = logs - np.median(logs)
        judged += rows.tolist() if len(rows) >= 4 else []
    if not judged:
        return {}
    least = max(_OUTLYING * 1.4826 * np.median(np.abs(away[judged])), _OUTLYING_AT_LEAST)
    return {row: float(np.exp(away[row])) for row in judged if abs(away[row]) > least}


def findings(curve: Curve) -> tuple[str, ...]:
    """Sentences on what a reader of the plan should know of its pilot."""
    sizes = curve.sizes
    rising = [
        f"This curve is not monotone at N = {sizes[at]}: the mean there, {_mean(curve, at)}, is "
        f"worse than {_mean(curve, at - 1)} at N = {sizes[at - 1]}."
        for at in rises(curve)
    ]
    outlying = [
        f"Seed {curve.seed[row]} is an outlier at N = {curve.n[row]}: its error is {factor:.2g} "
        "times the median of the seeds."
        for row, factor in outliers(curve).items()
    ]
    said = []
    for kind, found in (("rises", rising), ("outliers", outlying)):
        more = [f"There are {len(found) - _LISTED} more {kind}."] if len(found) > _LISTED else []
        said += found[:_LISTED] + more
    if curve.means[-1] >= curve.means[0]:
        said.append(
            Message(
                "The pilot shows no learning: its last mean is no better than its first. If larger "
                "values are better in this metric, say so with ",
                Argument("unit", ...),
                ".",
            )
        )
    if relative_variance(curve) is None:
        said.append("With one seed at every N, the noise is guessed: repeat with other seeds.")
    elif int(curve.counts.min()) < 3:
        said.append("Fewer than three seeds at some N say little of the noise: add seeds.")
    if sizes[-1] < 4 * sizes[0]:
        said.append(
            f"The pilot spans a factor of {sizes[-1] / sizes[0]:.2g} in N only; "
            "its trend is a guess: measure smaller sizes too, they are cheap."
        )
    return tuple(said)


def doubt(curve: Curve, made: Posterior) -> str:
    """Why a pilot cannot be extrapolated, as a sentence; empty where it can."""
    sizes, last, noise = curve.sizes, f"N = {curve.sizes[-1]:,}", relative_variance(curve)
    least, lost = _RISE_WITHOUT_SEEDS, collapsed_sizes(curve)
    if noise is not None:
        least = _ERRORS_OF_A_RISE * math.sqrt(noise[0] + noise[-1])
    gone = int((collapsed(curve) & (curve.n == sizes[-1])).sum())
    if gone:
        why = f"at {last}, {gone} of {curve.counts[-1]} seeds fell to rounding, where no learning "
        why += "curve continues"
    elif lost.any():
        why = f"at N = {sizes[lost][0]:,} every seed fell to rounding, and at {last} none did"
    elif math.log(curve.means[-1] / curve.means[0]) > max(least, _RISING):
        why = f"with more data it gets worse, from {_mean(curve, 0)} at N = {sizes[0]:,} to "
        why += f"{_mean(curve, -1)} at {last}"
    elif noise is not None and _seeds_outside(curve, made, noise) > _MOST_OUTSIDE:
        why = "most single seeds lie outside what the fitted curves and the spread of the seeds "
        why += "explain, so that their means are not typical"
    elif made.roughness > ROUGHEST:
        steps = np.diff(np.log(curve.means))
        at = int(np.argmax(np.abs(steps - np.median(steps))))
        why = f"from N = {sizes[at]:,} to {sizes[at + 1]:,} the mean goes from {_mean(curve, at)} "
        why += f"to {_mean(curve, at + 1)}, which neither a smooth curve nor the noise of the "
        why += "seeds explains; what follows such a step is not known"
    else:
        return ""
    return f"The curve cannot be extrapolated: {why}."


def _seeds_outside(curve: Curve, made: Posterior, noise: NDArray[np.float64]) -> float:
    """The share of single seeds outside the 90% range that the posterior has for one seed.

    A seed's error is log-normal around the curve, with the relative variance of its N.
    """
    mean, variance = made.moments(curve.sizes.astype(float))
    centre = made.weight @ mean
    seed = np.log1p(noise * curve.counts)
    spread = np.sqrt(made.weight @ (variance + (mean - centre) ** 2) + seed)
    at = np.searchsorted(curve.sizes, curve.n)
    away = np.abs(np.log(curve.error) - (centre - 0.5 * seed)[at])
    return float(np.mean(away > 1.645 * np.maximum(spread, 1e-5)[at]))


def _mean(curve: Curve, at: int) -> str:
    """The mean at the size of an index, in the user's unit."""
    return value(float(curve.unit.from_error(curve.means[at])))


# --- A plan --------------------------------------------------------------------------------------


def explain(plan: Any) -> Message:
    """The answer first, then how sure it is, what to do next, and what is odd about the pilot."""
    said = [headline(plan), *_related(plan)]
    if plan.samples is not None:
        if plan.fit != DEFAULT_FIT and plan.samples > plan.last and math.isfinite(plan.lower):
            takes = span(plan.lower, plan.upper)
            said.append(f"By the 90% band of its fitted curve it takes {takes} samples.")
        elif plan.fit == DEFAULT_FIT:
            said += interval(plan)
        if plan.chance < _LEVEL:
            said.append(enough(plan))
        if plan.fit != DEFAULT_FIT:
            said.append("The chances are those of the default fit.")
    following = plan.next_round
    if plan.samples is None and following is None and (plan.doubt or not plan.inside):
        # Below rounding, or beyond the largest N, no measurement would say more.
        said.append("Ask for an easier target.")
    elif plan.inside or following is None:
        pass  # nothing has to be measured
    elif plan.samples is None:
        said.append(f"Measure at N = {following:,} and plan again before giving up.")
    elif len(plan.rounds) == 1:
        said.append(f"Collect up to N = {following:,}, then plan again.")
    else:
        said.append(
            f"Do not collect it all at once: go to N = {following:,} first, four times the pilot, "
            "and plan again; farther out the answer is often off by more than a factor of two."
        )
    return paragraph([*said, *plan.findings])


def headline(plan: Any) -> str:
    """The answer alone, in a sentence or two."""
    name, target, samples = plan.curve.model, value(plan.target), plan.samples
    model, odds = name or "the model", f"(chance {chance(plan.chance)})"
    if samples is None:
        return no_answer(plan)
    if plan.at_once:
        return (
            f"{name or 'The model'} meets the target {target} already at the pilot's smallest "
            f"N = {samples:,} {odds}; ask for a harder target, or measure smaller N."
        )
    passed = plan.forecast.measured.crossing(plan.goal) if samples <= plan.last else None
    if samples <= plan.last and (plan.fit != DEFAULT_FIT or passed is None):
        return (
            f"By fit {plan.fit!r}, {model} meets the target {target} inside the pilot, "
            f"at about N = {samples:,} {odds}."
        )
    _, before, after = passed or (0.0, 0, 0)
    ratio = samples / plan.last
    far = f"{times(ratio)} times" if ratio >= 1.1 else "little more than"
    told = {
        "start": name or "The model",
        "model": model,
        "whose": f" of {name}" if name else "",
        "target": target,
        "samples": count(samples),
        "chance": chance(plan.chance),
        "reach": chance(plan.reach),
        "anywhere": anywhere(plan),
        "before": count(before),
        "after": count(after),
        "far": f"{far} the pilot's largest N of {plan.last:,}",
    }
    kind = "unlikely" if plan.reach < EVEN else "if_reachable" if plan.reach < SURE else "beyond"
    said = ANSWERS["inside" if passed else kind].format(**told)
    return f"{said} {ANSWERS['rough']}" if samples > FAR * plan.last else said


def interval(plan: Any) -> list[str]:
    """The interval of the number of samples beyond the pilot, as a sentence, if there is one."""
    if plan.samples <= plan.last or not math.isfinite(plan.lower):
        return []
    kind = "interval" if math.isfinite(plan.upper) else "at_least"
    return [ANSWERS[kind].format(lower=count(plan.lower), upper=count(plan.upper))]


def no_answer(plan: Any) -> str:
    """Why there is no number of samples, and how likely the target is all the same."""
    target, far = value(plan.target), f"N = {plan.forecast.horizon:,}"
    odds = f"the chance of meeting it by {far} is {chance(plan.reach)}"
    above = float(plan.curve.unit.to_error(plan.floor)) >= plan.goal
    if plan.doubt:
        said = f"No sample size for the target {target} can be given. {plan.doubt}"
    elif plan.fit == DEFAULT_FIT and plan.capped and not above:
        said = f"The target {target} is probably not met {anywhere(plan)} "
        said += f"(chance {chance(plan.reach)})."
    elif plan.fit == DEFAULT_FIT:
        why = f"levels off at about {value(plan.floor)}" if above else "improves too slowly"
        said = (
            f"The target {target} is not reachable according to this pilot: the "
            f"{plan.curve.unit.noun} of {plan.curve.model or 'the model'} {why}, and {odds}."
        )
    else:
        why = f"levels off at {value(plan.floor)}" if above else f"does not get there by {far}"
        said = f"By fit {plan.fit!r} the target {target} is not reachable: its curve {why}."
        if plan.inside:
            return f"{said} The measured means meet it inside the pilot: use the default fit."
        return f"{said} By the default fit {odds}."
    hint = other_unit(plan.curve, plan.target)
    return f"{said} {hint[0].upper()}{hint[1:]}." if hint else said


def _related(plan: Any) -> list[str]:
    """What related curves changed, and how far they are trusted."""
    if not plan.related or plan.trust is None:
        return []
    names = ", ".join(f'"{each.model}"' for each in plan.related if each.model)
    who = f"Related curves ({names})" if names else "Related curves"
    if plan.doubt:
        return [f"{who} are not used."]
    if plan.forecast.relatives is None:
        return [f"{who} cannot be extrapolated and are not used."]
    verb = "disagree with" if plan.trust < _DISAGREES else "explain"
    how = f"{who} {verb} the pilot (trust {chance(plan.trust)})"
    alone = plan.alone
    if alone.samples == plan.samples and chance(alone.chance) == chance(plan.chance):
        return [f"{how} and do not change the answer."]
    if alone.samples is None:
        other = f"the target would be called not reachable (chance {chance(alone.reach)})"
    else:
        other = f"the answer would be about {alone.samples:,} (chance {chance(alone.chance)})"
    return [f"{how}: without them {other}."]


def enough(plan: Any, p: float = _LEVEL) -> str:
    """The number of samples that is enough with probability p, or why no number is.

    Where none is, the number under the condition that the target is reachable follows, with the
    probability of that condition.
    """
    level = f"{100 * p:.4g}%"
    if plan.doubt:
        return f"No number of samples can be given for {level} probability."
    found = plan.safe(p)
    if found is not None:
        said = f"{found:,} samples are enough with {level} probability."
        if plan.inside and found > plan.upper:
            said += f" That is beyond {plan.upper:,}: means of so few seeds are uncertain."
        return said
    most = chance(plan.reach)
    most = f"just below {level}" if most == level else f"at most {most}"
    if plan.forecast.doubt:
        return f"No N inside the pilot gives {level}; {most}. {plan.forecast.doubt}"
    side = "below" if plan.curve.unit.larger_is_better else "above"
    said = (
        f"No amount of data gives {level}: the pilot cannot rule out that the "
        f"{plan.curve.unit.noun} levels off {side} the target; {most}."
    )
    if plan.capped:  # it need not level off to miss the target there
        said = f"No number of samples gives {level} {anywhere(plan)}; {most}."
    reached, by = plan.if_reached(p), plan.before_long
    if reached is not None and plan.fit == DEFAULT_FIT:
        said += (
            f" If the target is reachable by N = {by:,} (chance {chance(plan.probability(by))}), "
            f"{reached:,} samples are enough with {level} probability."
        )
    return said


def anywhere(plan: Any) -> str:
    """How far the table of chances goes: as far as a pilot tells, or to the largest N."""
    if plan.capped:
        return f"up to N = {plan.forecast.horizon:,}, the largest that is planned for"
    return "at any N"


# --- A comparison --------------------------------------------------------------------------------


def explain_comparison(comparison: Any) -> Message:
    """Who needs more, by how much, why, and where the curves cross."""
    said = [comparison_headline(comparison)]
    try:
        found = comparison.factors()
        said.append(
            "By lines floor + sigma log N / N, the ratio of N / log N is "
            f"{times(found.structural)} (sigmas) times {times(found.approximation_budget)} "
            "(distances of the floors from the target)."
        )
    except KoriskError:
        said.append(
            "The two factors of Proposition 1 are not defined at this target: it lies at or below "
            "the floor of a fitted line, or a line is flat."
        )
    said.append(comparison_crossing(comparison))
    pairs = zip(comparison.names, (comparison.first, comparison.second), strict=True)
    said += [Message(f"{name}: ", sentence) for name, plan in pairs for sentence in plan.findings]
    return paragraph(said)


def comparison_headline(comparison: Any) -> str:
    """Who needs how many samples, in a sentence or two."""
    names, target = comparison.names, value(comparison.target)
    plans = comparison.first, comparison.second
    if all(plan.samples is not None for plan in plans):
        said = f"To reach {target}, {names[0]} needs {_about(plans[0], ' samples')} and "
        said += f"{names[1]} {_about(plans[1])}"
        if comparison.ratio is None:
            return f"{said}; what they need in relation to each other is not known."
        return f"{said}, a ratio of {ratio_words(comparison)}."
    said = " ".join(
        f"{name} needs {_about(plan, ' samples')}." if plan.at_once else f"{name}: {headline(plan)}"
        for name, plan in zip(names, plans, strict=True)
    )
    if comparison.ratio_range is not None:
        said += f" The ratio, {names[1]} over {names[0]}, is {ratio_words(comparison)}."
    return said


def ratio_words(comparison: Any) -> str:
    """The ratio of samples with its interval; without a ratio, the end that is known."""
    low, high = comparison.ratio_range or (0.0, math.inf)
    bound = f"at least {times(low)}" if math.isinf(high) else f"at most {times(high)}"
    bound = f"{bound} with 95% probability" if low or math.isfinite(high) else ""
    if comparison.ratio is None:
        return bound or "not known"
    more = " or more" if comparison.first.at_once else ""
    more = " or less" if comparison.second.at_once else more
    if low and math.isfinite(high):
        bound = f"90%: {times(low)} to {times(high)}, if both reach it"
    return f"{times(comparison.ratio)}{more}" + (f" ({bound})" if bound else "")


def comparison_crossing(comparison: Any) -> str:
    """Where the curves of a comparison cross, in a sentence."""
    # At a size that one pilot lacks, its mean is interpolated. Of several changes of order, the one
    # at the crossover is told, or else the last. Curves that agree have no better one.
    made = comparison.first.forecast, comparison.second.forecast
    cross, means, better, last = comparison.crossover, None, "", 0
    start, end = max(int(each.curve.sizes[0]) for each in made), min(each.last for each in made)
    sizes = np.unique(np.concatenate([each.curve.sizes for each in made]))
    at = sizes[(sizes >= start) & (sizes <= end)].tolist()
    if at:
        first, second = (each.measured.middle(np.array(at)) for each in made)
        ahead, last = (second < first).tolist(), at[-1]
        turns = [(at[i - 1], at[i]) for i in range(1, len(at)) if ahead[i] != ahead[i - 1]]
        there = [turn for turn in turns if cross is not None and turn[0] <= cross.n <= turn[1]]
        means = next(iter(there + turns[::-1]), None)
        better = "" if np.allclose(first, second) else comparison.names[int(ahead[-1])]
    return crossing(cross, means, better, last)


def _about(plan: Any, noun: str = "") -> str:
    """A number of samples with its odds, and the most that any number has where that is little."""
    most = "" if plan.reach >= SURE else f", at most {chance(plan.reach)} {anywhere(plan)}"
    number = f"{'at most' if plan.at_once else 'about'} {plan.samples:,}{noun}"
    return f"{number} (chance {chance(plan.chance)}{most})"


# --- Crossovers ----------------------------------------------------------------------------------


def crossover(found: Any, where: str = "") -> str:
    """Where two curves cross, in a sentence; `where` says how that is known.

    `found` has n, lower (nan where there is no interval), upper and better_after.
    """
    notes = [where] if where else []
    if not math.isnan(found.lower):
        notes.append(f"90%: {span(found.lower, found.upper)}")
    return (
        f"The curves cross at about N = {found.n:,} ({'; '.join(notes)}); "
        f"from there on {found.better_after} is probably better."
    )


def crossing(
    found: Any, means: tuple[int, int] | None = None, better: str = "", last: int = 0
) -> str:
    """Where two measured curves cross, in a sentence that the measured means do not contradict.

    `found` is a `Crossover` or None, `means` the N between which the means first change their
    order, `better` the model with the lower mean at `last`, the largest N of both; "" where no N is
    common to both.
    """
    if found is not None and agrees(found, means, better):
        where = "within the pilots" if found.measured else "beyond the pilots, by extrapolation"
        return crossover(found, where)
    if not better:
        return "The curves do not clearly cross as far as the pilots tell."
    if means is None:
        return (
            f"The curves do not clearly cross: {better} is better at every measured N, up to "
            f"{last:,}."
        )
    return (
        f"The means change their order between N = {means[0]:,} and {means[1]:,}, and {better} is "
        f"better at N = {last:,}; where the curves cross is not clear."
    )


def agrees(found: Any, means: tuple[int, int] | None, better: str) -> bool:
    """Whether a crossover agrees with the measured means.

    Inside the pilots the means must change their order there; beyond, the model that is to become
    the better one must not have the lower mean already.
    """
    if not better:
        return True
    if found.measured:
        return means is not None and means[0] <= found.n <= means[1]
    return bool(better != found.better_after)
