"""What a check of the theorem says, in sentences: for the command, the page and the tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from korisk.studies.theorem.check import Check, Group, spread
from korisk.studies.theorem.order import Order
from korisk.studies.theorem.theorem import PointTheorem
from korisk.theory import BOUNDS, BoundForm

_MOST = 3  # networks that are named one by one
_BEFORE = "before training"


def number(value: float) -> str:
    """Three digits, which is more than a looseness needs."""
    return f"{value:.3g}"


# --- Whether it holds ----------------------------------------------------------------------------


def answer(checks: Sequence[Check]) -> str:
    """Whether the theorem holds in these networks, in one or two sentences."""
    judged = [check for check in checks if check.judged]
    broken = [check for check in judged if not check.holds]
    if not judged:
        of = "the one network" if len(checks) == 1 else f"any of {len(checks):,} networks"
        return f"Not known: no bound can be told of {of}."
    if broken:
        return (
            f"VIOLATED: in {len(broken)} of {_networks(len(judged), checks)} the error lies above "
            f"a bound, or the bounds are out of order.{_unjudged(checks, judged)}"
        )
    every = all(len(check.bounds) == len(BOUNDS) for check in judged)
    bounds = "all three bounds" if every else "every bound that is known"
    return (
        f"In {_all(len(judged), checks)} the error stays within {bounds}"
        f"{_loose(judged)}.{_unjudged(checks, judged)}"
    )


def _all(judged: int, checks: Sequence[Check]) -> str:
    if judged == len(checks) == 1:
        return "the one network"
    if judged == len(checks):
        return f"all {_networks(judged, checks)}"
    return f"{judged:,} of {_networks(len(checks), ())}"


def _networks(count: int, checks: Sequence[Check]) -> str:
    untrained = sum(check.n == 0 for check in checks)
    also = f" ({untrained:,} of them {_BEFORE})" if untrained else ""
    return f"{count:,} network{'' if count == 1 else 's'}{also}"


def _unjudged(checks: Sequence[Check], judged: Sequence[Check]) -> str:
    count = len(checks) - len(judged)
    return f" Of {_networks(count, ())} no bound can be told." if count else ""


def _loose(judged: Sequence[Check]) -> str:
    tested = [check for check in judged if not check.only_the_last]
    found = spread(check.looseness("composed") for check in tested)
    if found is None:
        return ""
    least, worst = number(found.least), number(found.worst)
    by = least if least == worst else f"{least} to {worst}"
    return f"; the tightest is loose by {by} times"


def remarks(checks: Sequence[Check]) -> list[str]:
    """What a reader of the answer should know besides: violations, gaps, what is no test."""
    return [*_violations(checks), *_gaps(checks), *_no_tests(checks)]


def _violations(checks: Sequence[Check]) -> Iterator[str]:
    broken = [check for check in checks if check.holds is False]
    for check in broken[:_MOST]:
        above = [f"{form} {number(check.bounds[form].total)}" for form in check.exceeded]
        said = f"error {number(check.error)} above {', '.join(above)}" if above else "bounds are "
        yield f"{check.where}: {said}{'' if above else 'out of order'}."
    if len(broken) > _MOST:
        yield f"So it is in {len(broken) - _MOST:,} more."
    if broken:
        yield (
            "Then a constant is below the true one, a layer's error is missing or measured at "
            "other inputs, or the chain is not the true map; the theorem itself is proved."
        )


def _gaps(checks: Sequence[Check]) -> Iterator[str]:
    """Reasons why bounds are missing, each once, with the networks that have it counted."""
    found: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        if check.reason:
            lacking = [form for form in BOUNDS if form not in check.bounds]
            which = (
                "No bound" if len(lacking) == len(BOUNDS) else f"No {' or '.join(lacking)} bound"
            )
            found.setdefault((which, check.reason), []).append(check)
    for (which, reason), own in found.items():
        more = f" and {len(own) - 1:,} more" if len(own) > 1 else ""
        yield f"{which} of {own[0].where}{more}: {reason}."


def _no_tests(checks: Sequence[Check]) -> Iterator[str]:
    last = sum(check.only_the_last for check in checks if check.holds)
    if last:
        yield (
            f"In {_networks(last, ())} the last layer alone errs: there the composed bound is the "
            "error itself, which tests nothing."
        )
    exact = sum(check.error == 0 for check in checks if check.judged)
    if exact:
        yield f"The error of {_networks(exact, ())} is 0, so looseness has no meaning there."


# --- Layers --------------------------------------------------------------------------------------


def shares(point: PointTheorem) -> list[str]:
    """For each model with several erring layers, what each adds to the bound at its largest N."""
    last: dict[str, Group] = {group.model: group for group in point.groups if group.judged}
    said = []
    for model, group in last.items():
        parts = group.contributions("composed")
        total = math.fsum(parts.values())
        if len(parts) > 1 and total > 0:
            listed = ", ".join(f"{name} {100 * part / total:.3g}%" for name, part in parts.items())
            said.append(f"{model} at N = {group.n:,}: the composed bound is made of {listed}.")
    return said


# --- The order of sample sizes -------------------------------------------------------------------


def order_sentences(order: Order) -> list[str]:
    """What was predicted, what came out, and what the prediction leaves out."""
    said = [*_predictions(order), _measured(order), *_verdicts(order)]
    if order.erring:
        layers = ", ".join(f"{layer!r} of {model}" for model, layer in order.erring)
        said.append(
            f"The prediction has no floor: what known layers err by ({layers}) is not in it, and "
            "no data removes it."
        )
    return said


def _by_model(order: Order) -> dict[str | None, list[BoundForm]]:
    """The forms that predict the same, by the model that should need fewer samples."""
    found: dict[str | None, list[BoundForm]] = {}
    for form in BOUNDS:
        if form in order.strengths:
            found.setdefault(order.predicted(form), []).append(form)
    return found


def _predictions(order: Order) -> Iterator[str]:
    found = _by_model(order)
    for model, forms in found.items():
        if model is None:
            yield f"By {_listed(forms)} neither should need fewer samples: A p is the same."
            continue
        factors = groupby(forms, key=lambda form: _factor(order, model, form))
        said = [f"{factor} times ({', '.join(own)})" for factor, own in factors]
        by = "" if len(found) == 1 else f"By {_listed(forms)} "
        yield f"{by}{model} should need fewer samples: its A p is smaller by {_listed(said)}."
    for reason in dict.fromkeys(order.reasons.values()):
        forms = [form for form in BOUNDS if order.reasons.get(form) == reason]
        yield f"By {_listed(forms)} nothing is predicted: {reason}."


def _verdicts(order: Order) -> Iterator[str]:
    """At how many targets the predicted order came out; one sentence for each prediction."""
    for model, forms in _by_model(order).items():
        decided = len(order.rungs) - len(order.targets(None))
        if model is None or not decided:
            continue
        right = len(order.targets(model))
        said = f"came out at {right} of {decided} targets"
        if right == decided:
            said = f"came out at all {decided} targets" if decided > 1 else "came out"
        elif not right:
            said = f"was reversed at all {decided} targets" if decided > 1 else "was reversed"
        yield f"The order predicted by {_listed(forms)} {said}."


def _factor(order: Order, model: str, form: BoundForm) -> str:
    ratio = order.ratio(form) or 0.0
    factor = ratio if model == order.models[0] else (1 / ratio if ratio else math.inf)
    return number(factor)


def _measured(order: Order) -> str:
    if not order.rungs:
        return "Measured: neither errs at all."
    spans = [_span(order, model, targets) for model, targets in runs(order)]
    turns = "".join(
        f" The order turns near {number(each.target)}: {each.model} needs {about(each.n)} there."
        for each in order.crossovers
    )
    below = f" Below {number(order.lowest)} neither got." if order.lowest > 0 else ""
    return f"Measured: {'; '.join(spans)}.{turns}{below}"


def runs(order: Order) -> list[tuple[str | None, list[float]]]:
    """Neighbouring targets with the same outcome: the model, None where it is open."""
    return [
        (None if at is None else order.models[at], [rung.target for rung in rungs])
        for at, rungs in groupby(order.rungs, key=lambda rung: rung.smaller)
    ]


def _span(order: Order, model: str | None, targets: Sequence[float]) -> str:
    ends = list(dict.fromkeys(number(target) for target in (targets[0], targets[-1])))
    where = f"error {ends[0]}" if len(ends) == 1 else f"errors {ends[0]} to {ends[1]}"
    if model is None:
        return f"for {where} it is open"
    own, other = order.models.index(model), order.other(model)
    alone = [
        rung.target
        for rung in order.rungs
        if rung.target in targets and not rung.needed[1 - own].reached
    ]
    also = ""
    if len(alone) == len(targets):
        also = f", which {other} did not reach"
    elif alone:
        also = f", of which {other} did not reach {number(alone[0])} and below"
    return f"for {where} {model} needed fewer{also}"


def about(n: float) -> str:
    """A sample size from a curve."""
    return f"about N = {n:,.0f}" if n >= 10 else f"about N = {n:.2g}"


def _listed(words: Iterable[str]) -> str:
    listed = list(words)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
