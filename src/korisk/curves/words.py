"""Plans and comparisons in plain words."""

import math
from typing import TYPE_CHECKING

from korisk.curves.forecast import DEFAULT_METHOD
from korisk.curves.target import other_unit
from korisk.errors import KoriskError

if TYPE_CHECKING:
    from korisk.curves.compare import Comparison
    from korisk.curves.curve import Curve
    from korisk.curves.plan import Plan


def explain(plan: "Plan") -> str:
    """The answer first, then how sure it is, what to do next, and what is odd about the pilot."""
    return " ".join([*_answer(plan), *_certainty(plan), *_rounds(plan), *plan.findings])


def headline(plan: "Plan") -> str:
    """The answer alone, in a sentence or two."""
    return " ".join(_answer(plan))


def comparison_headline(comparison: "Comparison") -> str:
    """Who needs how many samples, in a sentence or two."""
    return " ".join(_needs(comparison))


def value(number: float) -> str:
    """An error, short."""
    return f"{number:.4g}"


def chance(p: float) -> str:
    """A probability, without claiming certainty."""
    if p < 0.01:
        return "below 1%"
    return "above 99%" if p > 0.99 else f"{p:.0%}"


def times(factor: float) -> str:
    """A factor, with two digits where that is few."""
    return f"{factor:,.0f}" if factor >= 10 else f"{factor:.2g}"


def count(n: float) -> str:
    """A number of samples, or words where it has no end."""
    return f"{n:,.0f}" if math.isfinite(n) else "no end"


def quantity(curve: "Curve") -> str:
    """What the pilot measures, in the user's word: error, accuracy, PSNR ..."""
    return curve.unit.noun


def _name(plan: "Plan") -> str:
    return plan.curve.model or "the model"


def _start(plan: "Plan") -> str:
    return plan.curve.model or "The model"


def _side(plan: "Plan") -> str:
    return "below" if plan.curve.unit.larger_is_better else "above"


def _answer(plan: "Plan") -> list[str]:
    target, samples = value(plan.target), plan.samples
    if samples is None:
        return _out_of_reach(plan)
    if samples <= plan.curve.sizes[0]:
        return [
            f"{_start(plan)} meets the target {target} already at the pilot's smallest "
            f"N = {samples:,}; ask for a harder one, or measure smaller N."
        ]
    if samples <= plan.last:
        return [
            f"{_start(plan)} meets the target {target} within the pilot, at about N = {samples:,}."
        ]
    far = f"{times(samples / plan.last)} times the pilot's largest N of {plan.last:,}"
    if plan.reach < 0.5:
        said = [
            f"{_start(plan)} probably does not reach {target}: the chance is {chance(plan.reach)}. "
            f"If it does, it needs about {samples:,} samples, {far}."
        ]
    else:
        condition = "" if plan.reach > 0.95 else ", if it can reach it at all"
        said = [f"To reach {target}, {_name(plan)} needs about {samples:,} samples, {far}"]
        said[0] += f"{condition}."
    if samples > 64 * plan.last:
        said.append("That is so far beyond the pilot that only its order of magnitude means much.")
    return said


def _out_of_reach(plan: "Plan") -> list[str]:
    target, floor, far = value(plan.target), value(plan.floor), count(plan.forecast.horizon)
    odds = f"the chance to meet it by N = {far} is {chance(plan.reach)}"
    if plan.method == DEFAULT_METHOD:
        said = [
            f"The target {target} is not reachable according to this pilot: the "
            f"{quantity(plan.curve)} of {_name(plan)} levels off at about {floor}, and {odds}."
        ]
        hint = other_unit(plan.curve, plan.target)
        return [*said, f"{hint[0].upper()}{hint[1:]}."] if hint else said
    said = [f"By method {plan.method!r} the target {target} is not reachable: its curve "]
    said[0] += f"levels off at {floor}."
    if plan.method == "paper":
        said.append(
            "It always does so at the lowest error seen, whatever the pilot; no target below that "
            "can have an answer."
        )
    return [*said, f"By the default method {odds}."]


def _certainty(plan: "Plan") -> list[str]:
    if plan.samples is None or plan.samples <= plan.last:
        return []
    if math.isfinite(plan.upper):
        return [
            f"With 90% certainty it is between {count(plan.lower)} and {count(plan.upper)}; "
            f"{count(plan.safe(0.9) or plan.upper)} suffice with 90% certainty: budget for those."
        ]
    said = [
        f"It may be as few as {count(plan.lower)}, and there is no upper end: the pilot cannot "
        f"rule out that the {quantity(plan.curve)} levels off {_side(plan)} the target. The chance "
        f"to have met it is {chance(plan.probability(plan.samples))} by N = {plan.samples:,} and "
        f"{chance(plan.reach)} by N = {count(plan.forecast.horizon)}."
    ]
    safe = plan.safe(0.9)
    if safe is not None and plan.method == DEFAULT_METHOD:
        said.append(
            f"Of the futures that meet it by N = {plan.before_long:,}, nine in ten do with "
            f"{safe:,} samples"
            + (": budget for those, knowing the odds." if plan.reach >= 0.5 else ".")
        )
    return said


def _rounds(plan: "Plan") -> list[str]:
    if plan.next_round is None:
        return []
    if plan.samples is None:
        return [
            f"Before giving up, measure once at N = {plan.next_round:,}: "
            "one more doubling tells a floor from a slow decline."
        ]
    if len(plan.rounds) == 1:
        return [f"Collect up to N = {plan.next_round:,}, then plan again."]
    return [
        f"Do not collect it all at once: go to N = {plan.next_round:,} first, four times the "
        "pilot, and plan again; farther out the answer is often off by more than a factor of two."
    ]


def explain_comparison(comparison: "Comparison") -> str:
    """Who needs more, by how much, why, and where the curves cross."""
    parts = (_needs(comparison), _why(comparison), _crossing(comparison), _oddities(comparison))
    return " ".join(sentence for part in parts for sentence in part)


def _needs(comparison: "Comparison") -> list[str]:
    first, second = comparison.names
    target = value(comparison.target)
    known, dense = comparison.known.samples, comparison.dense.samples
    if known is not None and dense is not None:
        needs = _about(comparison.known, " samples"), _about(comparison.dense)
        said = f"To reach {target}, {first} needs {needs[0]} and {second} {needs[1]}"
        ratio, ends = dense / known, comparison.ratio_range
        between = (
            "" if ends is None else f" (90%: {times(ends[0])} to {times(ends[1])}, if both do)"
        )
        more = " or more" if _at_once(comparison.known) else ""
        return [f"{said}, a ratio of {times(ratio)}{more}{between}."]
    pairs = ((first, comparison.known), (second, comparison.dense))
    return [
        f"{name} reaches {target} with about {plan.samples:,} samples."
        if plan.samples is not None
        else f"{name} does not reach {target} according to its pilot (chance {chance(plan.reach)})."
        for name, plan in pairs
    ]


def _at_once(plan: "Plan") -> bool:
    return plan.samples is not None and plan.samples <= int(plan.curve.sizes[0])


def _about(plan: "Plan", noun: str = "") -> str:
    """A number of samples, with how far it can be trusted where that is not far."""
    number = f"{'at most' if _at_once(plan) else 'about'} {plan.samples:,}{noun}"
    return number if plan.reach > 0.95 else f"{number} (chance {chance(plan.reach)})"


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


def _crossing(comparison: "Comparison") -> list[str]:
    found = comparison.crossover
    if found is None:
        return ["The curves do not clearly cross as far as the pilots tell."]
    where = "within the pilots" if found.measured else "beyond the pilots, by extrapolation"
    if not math.isnan(found.lower):
        where += f"; 90%: {count(found.lower)} to {count(found.upper)}"
    return [
        f"The curves cross at about N = {found.n:,} ({where}); "
        f"from there on {found.better_after} is probably better."
    ]


def _oddities(comparison: "Comparison") -> list[str]:
    pairs = zip(comparison.names, (comparison.known, comparison.dense), strict=True)
    return [f"{name}: {sentence}" for name, plan in pairs for sentence in plan.findings]
