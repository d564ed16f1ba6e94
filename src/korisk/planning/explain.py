"""Plans and comparisons in plain words.

Every probability in a sentence is one of the plan's own: `chance`, `reach`, `probability(n)`, or
the level of `safe` and `if_reached`.
"""

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np

from korisk.errors import KoriskError
from korisk.planning.forecast import DEFAULT_FIT
from korisk.planning.target import other_unit

if TYPE_CHECKING:
    from korisk.curves.curve import Curve
    from korisk.planning.compare import Comparison, Crossover
    from korisk.planning.plan import Plan

_LEVEL = 0.9  # of the safe number that an explanation names
_FAR = 64  # times the pilot, beyond which a number is a rough one
_SURE = 0.95  # reach from which on the condition "if the target is reachable" is left out
_DISAGREES = 0.01  # trust below which related curves count for nothing


def explain(plan: "Plan") -> str:
    """The answer first, then how sure it is, what to do next, and what is odd about the pilot."""
    parts = _answer(plan), _related(plan), _certainty(plan), _rounds(plan), plan.findings
    return " ".join(sentence for part in parts for sentence in part)


def headline(plan: "Plan") -> str:
    """The answer alone, in a sentence or two."""
    return " ".join(_answer(plan))


def comparison_headline(comparison: "Comparison") -> str:
    """Who needs how many samples, in a sentence or two."""
    return " ".join(_needs(comparison))


# --- Numbers -------------------------------------------------------------------------------------


def value(number: float) -> str:
    """An error, short."""
    return f"{number:.4g}"


def chance(p: float) -> str:
    """A probability, without claiming certainty."""
    if math.isnan(p):
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
    return (
        f"{count(lower)} to {count(upper)}" if math.isfinite(upper) else f"at least {count(lower)}"
    )


def quantity(curve: "Curve") -> str:
    """What the pilot measures, in the user's word: error, accuracy, PSNR ..."""
    return curve.unit.noun


# --- A plan --------------------------------------------------------------------------------------


def enough(plan: "Plan", p: float = _LEVEL) -> str:
    """The number of samples that is enough with probability p, or why no number is.

    Where none is, the number under the condition that the target is reachable follows, with the
    probability of that condition.
    """
    if plan.doubt:
        return f"No number of samples can be given for {_percent(p)} probability."
    found = plan.safe(p)
    if found is not None:
        return f"{found:,} samples are enough with {_percent(p)} probability."
    most = f"at most {chance(plan.reach)}"
    if chance(plan.reach) == _percent(p):
        most = f"just below {_percent(p)}"
    if plan.forecast.doubt:
        return f"No N inside the pilot gives {_percent(p)}; {most}. {plan.forecast.doubt}"
    side = "below" if plan.curve.unit.larger_is_better else "above"
    said = (
        f"No amount of data gives {_percent(p)}: the pilot cannot rule out that the "
        f"{quantity(plan.curve)} levels off {side} the target; {most}."
    )
    reached = plan.if_reached(p)
    if reached is None or plan.fit != DEFAULT_FIT:
        return said
    by = plan.before_long
    return (
        f"{said} If the target is reachable by N = {by:,} (chance {chance(plan.probability(by))}), "
        f"{reached:,} samples are enough with {_percent(p)} probability."
    )


def _percent(p: float) -> str:
    return f"{100 * p:.4g}%"


def _name(plan: "Plan") -> str:
    return plan.curve.model or "the model"


def _start(plan: "Plan") -> str:
    return plan.curve.model or "The model"


def _odds(plan: "Plan") -> str:
    return "not known" if plan.chance is None else chance(plan.chance)


def _answer(plan: "Plan") -> list[str]:
    target, samples = value(plan.target), plan.samples
    if samples is None:
        return _no_answer(plan)
    if samples <= plan.curve.sizes[0]:
        return [
            f"{_start(plan)} meets the target {target} already at the pilot's smallest "
            f"N = {samples:,} (chance {_odds(plan)}); ask for a harder target, or measure "
            "smaller N."
        ]
    if samples <= plan.last:
        return [_inside(plan, samples)]
    ratio = samples / plan.last
    far = f"{times(ratio)} times" if ratio >= 1.1 else "little more than"
    far += f" the pilot's largest N of {plan.last:,}"
    if plan.reach < 0.5:
        said = [
            f"{_start(plan)} probably does not reach {target}: the chance is at most "
            f"{chance(plan.reach)} at any N.",
            f"If it does, it needs about {samples:,} samples, {far}; the overall chance that they "
            f"are enough is {_odds(plan)}.",
        ]
    else:
        condition = ""
        if plan.reach < _SURE:
            condition = f", if the target is reachable (chance at most {chance(plan.reach)})"
        said = [
            f"To reach {target}, {_name(plan)} needs about {samples:,} samples "
            f"(chance {_odds(plan)}), {far}{condition}."
        ]
    if samples > _FAR * plan.last:
        said.append("So far beyond the pilot, only the order of magnitude is meaningful.")
    return said


def _inside(plan: "Plan", samples: int) -> str:
    target = value(plan.target)
    passed = plan.forecast.measured.crossing(plan.goal)
    if plan.fit != DEFAULT_FIT or passed is None:
        return (
            f"By fit {plan.fit!r}, {_name(plan)} meets the target {target} inside the pilot, "
            f"at about N = {samples:,} (chance {_odds(plan)})."
        )
    whose = f" of {plan.curve.model}" if plan.curve.model else ""
    return (
        f"The measured means{whose} meet the target {target} between N = {passed[1]:,} and "
        f"{passed[2]:,}, at about {samples:,} (chance {_odds(plan)})."
    )


def _no_answer(plan: "Plan") -> list[str]:
    target, far = value(plan.target), f"N = {plan.forecast.horizon:,}"
    odds = f"the chance of meeting it by {far} is {chance(plan.reach)}"
    above = float(plan.curve.unit.to_error(plan.floor)) >= plan.goal
    if plan.doubt:
        said = [f"No sample size for the target {target} can be given.", plan.doubt]
    elif plan.fit == DEFAULT_FIT:
        why = f"levels off at about {value(plan.floor)}" if above else "improves too slowly"
        said = [
            f"The target {target} is not reachable according to this pilot: the "
            f"{quantity(plan.curve)} of {_name(plan)} {why}, and {odds}."
        ]
    else:
        why = f"levels off at {value(plan.floor)}" if above else f"does not get there by {far}"
        said = [f"By fit {plan.fit!r} the target {target} is not reachable: its curve {why}."]
        if plan.fit == "paper":
            said.append(
                "This fit always levels off at the lowest error seen, so that it has no answer "
                "for any target below that."
            )
        if plan.inside:
            return [*said, "The measured means meet it inside the pilot: use the default fit."]
        return [*said, f"By the default fit {odds}."]
    hint = other_unit(plan.curve, plan.target)
    return [*said, f"{hint[0].upper()}{hint[1:]}."] if hint else said


def _related(plan: "Plan") -> list[str]:
    """What related curves changed, and how far they are trusted."""
    if not plan.related or plan.trust is None:
        return []
    several = len(plan.related) > 1
    names = ", ".join(f'"{each.model}"' for each in plan.related if each.model)
    who = f"The related curve{'s' if several else ''} {names}".rstrip()
    are, do, them = ("are", "do", "them") if several else ("is", "does", "it")
    if plan.doubt:
        return [f"{who} {are} not used."]
    if plan.forecast.relatives is None:
        return [f"{who} cannot be extrapolated and {are} not used."]
    if plan.trust < _DISAGREES:
        verb = "disagree" if several else "disagrees"
        return [
            f"{who} {verb} with the pilot (trust {chance(plan.trust)}) and {do} not change the "
            "answer."
        ]
    verb = "explain" if several else "explains"
    how = f"{who} {verb} the pilot{'' if plan.trust >= 0.5 else ' poorly'}"
    how += f" (trust {chance(plan.trust)})"
    alone = plan.alone
    if alone.samples == plan.samples and _odds(alone) == _odds(plan):
        return [f"{how} and {do} not change the answer."]
    if alone.samples is None:
        return [
            f"{how}: without {them} the target would be called not reachable "
            f"(chance {chance(alone.reach)})."
        ]
    return [
        f"{how}: without {them} the answer would be about {alone.samples:,} "
        f"(chance {_odds(alone)})."
    ]


def _certainty(plan: "Plan") -> list[str]:
    if plan.samples is None or plan.chance is None:
        return []
    said = []
    if plan.samples > plan.last and math.isfinite(plan.lower):
        interval = f"{span(plan.lower, plan.upper)} samples"
        if plan.fit != DEFAULT_FIT:
            said.append(f"By the 90% band of its fitted curve it takes {interval}.")
        else:
            level = "90%" if math.isfinite(plan.upper) else "95%"
            said.append(f"With {level} probability it takes {interval}.")
    if plan.chance < _LEVEL:
        said.append(enough(plan))
    if plan.fit != DEFAULT_FIT:
        said.append("The chances are those of the default fit.")
    return said


def _rounds(plan: "Plan") -> list[str]:
    if plan.doubt and plan.doubt != plan.forecast.doubt:
        return ["Ask for an easier target."]  # below rounding no measurement would say more
    if plan.next_round is None or (plan.inside and not plan.doubt):
        return []
    if plan.doubt:
        return [f"Measure at N = {plan.next_round:,} and plan again."]
    if plan.samples is None:
        return [
            f"Before giving up, measure at N = {plan.next_round:,}: "
            "one more doubling tells a floor from a slow decline."
        ]
    if len(plan.rounds) == 1:
        return [f"Collect up to N = {plan.next_round:,}, then plan again."]
    return [
        f"Do not collect it all at once: go to N = {plan.next_round:,} first, four times the "
        "pilot, and plan again; farther out the answer is often off by more than a factor of two."
    ]


# --- A comparison --------------------------------------------------------------------------------


def explain_comparison(comparison: "Comparison") -> str:
    """Who needs more, by how much, why, and where the curves cross."""
    crossed = crossing(comparison.crossover, *_order(comparison))
    parts = (_needs(comparison), _why(comparison), [crossed], _oddities(comparison))
    return " ".join(sentence for part in parts for sentence in part)


def _needs(comparison: "Comparison") -> list[str]:
    first, second = comparison.names
    target = value(comparison.target)
    known, dense = comparison.first, comparison.second
    if known.samples is not None and dense.samples is not None:
        said = f"To reach {target}, {first} needs {_about(known, ' samples')} and {second} "
        said += _about(dense)
        if comparison.ratio is None:
            return [f"{said}; what they need in relation to each other is not known."]
        ratio, ends = comparison.ratio, comparison.ratio_range
        between = ""
        if ends is not None:
            between = f" (90%: {times(ends[0])} to {times(ends[1])}, if both reach it)"
        more = " or more" if _at_once(known) else " or less" if _at_once(dense) else ""
        return [f"{said}, a ratio of {times(ratio)}{more}{between}."]
    said_of_each = []
    for name, plan in ((first, known), (second, dense)):
        if plan.samples is not None and plan.reach < 0.5:
            said_of_each.append(
                f"{name} probably does not reach {target}; if it does, it needs "
                f"{_about(plan, ' samples')}."
            )
        elif plan.samples is not None:
            said_of_each.append(f"{name} reaches {target} with {_about(plan, ' samples')}.")
        elif plan.doubt:
            said_of_each.append(
                f"No sample size of {name} for the target {target} can be given. {plan.doubt}"
            )
        elif plan.fit != DEFAULT_FIT:
            said_of_each.append(
                f"By fit {plan.fit!r} {name} does not reach {target} (chance by the default "
                f"fit: {chance(plan.reach)})."
            )
        else:
            said_of_each.append(
                f"{name} does not reach {target} according to its pilot "
                f"(chance {chance(plan.reach)})."
            )
    return said_of_each


def _at_once(plan: "Plan") -> bool:
    return plan.samples is not None and plan.samples <= int(plan.curve.sizes[0])


def _about(plan: "Plan", noun: str = "") -> str:
    """A number of samples with its odds, and the most that any number has where that is little."""
    most = "" if plan.reach >= _SURE else f", at most {chance(plan.reach)} at any N"
    number = f"{'at most' if _at_once(plan) else 'about'} {plan.samples:,}{noun}"
    return f"{number} (chance {_odds(plan)}{most})"


def _why(comparison: "Comparison") -> list[str]:
    try:
        found = comparison.factors()
    except KoriskError:
        return [
            "The two factors of Proposition 2 are not defined at this target: it lies at or below "
            "the floor of a fitted line, or a line is flat."
        ]
    return [
        f"By lines floor + sigma log N / N, the ratio of N / log N is {times(found.structural)} "
        f"(sigmas) times {times(found.approximation_budget)} (room above the floors)."
    ]


def _oddities(comparison: "Comparison") -> list[str]:
    pairs = zip(comparison.names, (comparison.first, comparison.second), strict=True)
    return [f"{name}: {sentence}" for name, plan in pairs for sentence in plan.findings]


# --- Crossovers ----------------------------------------------------------------------------------


class Crosses(Protocol):
    """Where two curves cross."""

    @property
    def n(self) -> int:
        """About where."""

    @property
    def lower(self) -> float:
        """The lower end of the 90% interval; nan where there is none."""

    @property
    def upper(self) -> float:
        """The upper end, infinite where there is none."""

    @property
    def better_after(self) -> str:
        """Which one is better from there on."""


def crossover(found: Crosses, where: str = "") -> str:
    """Where two curves cross, in a sentence; `where` says how that is known."""
    notes = [where] if where else []
    if not math.isnan(found.lower):
        notes.append(f"90%: {span(found.lower, found.upper)}")
    return (
        f"The curves cross at about N = {found.n:,} ({'; '.join(notes)}); "
        f"from there on {found.better_after} is probably better."
    )


def crossing(
    found: "Crossover | None",
    means: tuple[int, int] | None = None,
    better: str = "",
    last: int = 0,
) -> str:
    """Where two measured curves cross, in a sentence that the measured means do not contradict.

    `means` are the N between which the means first change their order, `better` the model with the
    lower mean at `last`, the largest N of both; "" where no N is common to both.
    """
    if found is not None and agrees(found, means, better):
        return crossover(
            found,
            "within the pilots" if found.measured else "beyond the pilots, by extrapolation",
        )
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


def agrees(found: "Crossover", means: tuple[int, int] | None, better: str) -> bool:
    """Whether a crossover agrees with the measured means.

    Inside the pilots the means must change their order there; beyond, the model that is to become
    the better one must not have the lower mean already.
    """
    if not better:
        return True
    if found.measured:
        return means is not None and means[0] <= found.n <= means[1]
    return better != found.better_after


def _order(comparison: "Comparison") -> tuple[tuple[int, int] | None, str, int]:
    """`means`, `better` and `last` of `crossing` for two pilots.

    At a size that one of them lacks, its mean is interpolated. Of several changes of order, `means`
    is the one at the crossover, or else the last. Curves that agree have no better one.
    """
    made = comparison.first.forecast, comparison.second.forecast
    start, end = max(int(each.curve.sizes[0]) for each in made), min(each.last for each in made)
    sizes = np.unique(np.concatenate([each.curve.sizes for each in made]))
    sizes = sizes[(sizes >= start) & (sizes <= end)]
    if not len(sizes):
        return None, "", 0
    first, second = (each.measured.middle(sizes) for each in made)
    ahead, at = (second < first).tolist(), sizes.tolist()
    turns = [(at[i - 1], at[i]) for i in range(1, len(at)) if ahead[i] != ahead[i - 1]]
    found = comparison.crossover
    there = [turn for turn in turns if found is not None and turn[0] <= found.n <= turn[1]]
    alike = bool(np.allclose(first, second))
    better = "" if alike else comparison.names[int(ahead[-1])]
    return next(iter(there + turns[::-1]), None), better, at[-1]
