"""The outcome of a check of the theorem in sentences: for the command, the page and the tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from korisk.studies.theorem.check import Group, NetworkCheck, PointTheorem, spread
from korisk.studies.theorem.order import Order
from korisk.theory import BOUNDS, BoundForm

_MOST = 3  # networks that are named one by one


def number(value: float) -> str:
    """Three digits, which is more than a looseness needs."""
    return f"{value:.3g}"


def answer(checks: Sequence[NetworkCheck]) -> str:
    """Whether the theorem holds in these networks, in one or two sentences."""
    judged = [check for check in checks if check.judged]
    broken = [check for check in judged if not check.holds]
    if not judged:
        of = "the one network" if len(checks) == 1 else f"any of {len(checks):,} networks"
        return f"Not known: there is no bound for {of}."
    untrained = sum(check.n == 0 for check in checks)
    before = f" ({untrained:,} of them before training)" if untrained else ""
    open_ones = len(checks) - len(judged)
    rest = f" There is no bound for {_networks(open_ones)}." if open_ones else ""
    if broken:
        return (
            f"VIOLATED: in {len(broken)} of {_networks(len(judged))}{before} the error is above a "
            f"bound, or the bounds are out of order.{rest}"
        )
    which = f"{len(judged):,} of {_networks(len(checks))}"
    if not open_ones:
        which = "the one network" if len(judged) == 1 else f"all {_networks(len(judged))}{before}"
    every = all(len(check.bounds) == len(BOUNDS) for check in judged)
    bounds = "all three bounds" if every else "every bound that is known"
    tested = [check for check in judged if not check.only_the_last]
    loose = ""
    if (found := spread(check.looseness("composed") for check in tested)) is not None:
        ends = dict.fromkeys((number(found.least), number(found.worst)))
        loose = f"; the tightest is loose by {' to '.join(ends)} times"
    return f"In {which} the error stays within {bounds}{loose}.{rest}"


def _networks(count: int) -> str:
    return f"{count:,} network{'' if count == 1 else 's'}"


def remarks(checks: Sequence[NetworkCheck]) -> list[str]:
    """What else a reader of the answer should know: violations, unknown bounds, empty tests."""
    return [*_violations(checks), *_unknown_bounds(checks), *_empty_tests(checks)]


def _violations(checks: Sequence[NetworkCheck]) -> Iterator[str]:
    broken = [check for check in checks if check.holds is False]
    for check in broken[:_MOST]:
        above = ", ".join(f"{form} {number(check.bounds[form].total)}" for form in check.exceeded)
        said = f"error {number(check.error)} above {above}" if above else "bounds are out of order"
        yield f"{check.where}: {said}."
    if len(broken) > _MOST:
        yield f"It is violated in {len(broken) - _MOST:,} more."
    if broken:
        yield (
            "Possible causes: a constant below the true one, a layer's error that is missing or "
            "measured at other inputs, or a chain that is not the true map; the theorem itself is "
            "proved."
        )


def _unknown_bounds(checks: Sequence[NetworkCheck]) -> Iterator[str]:
    """Why bounds are not known: each reason once, with the number of networks."""
    found: dict[tuple[str, str], list[NetworkCheck]] = {}
    for check in checks:
        if check.reason:
            unknown = [form for form in BOUNDS if form not in check.bounds]
            forms = "" if len(unknown) == len(BOUNDS) else f"{' or '.join(unknown)} "
            found.setdefault((forms, check.reason), []).append(check)
    for (forms, reason), own in found.items():
        more = f" and {len(own) - 1:,} more" if len(own) > 1 else ""
        yield f"No {forms}bound for {own[0].where}{more}: {reason}."


def _empty_tests(checks: Sequence[NetworkCheck]) -> Iterator[str]:
    if last := sum(check.only_the_last for check in checks if check.holds):
        yield (
            f"In {_networks(last)} the last layer alone errs: the composed bound is then the error "
            "itself, which tests nothing."
        )
    if exact := sum(check.error == 0 for check in checks if check.judged):
        yield f"The error of {_networks(exact)} is 0, so looseness is not defined there."


def point_sentences(point: PointTheorem) -> list[str]:
    """Notes on a point, what each layer adds to the bound, and the order of sample sizes."""
    said = [f"{note}." for note in point.notes] + shares(point)
    for order in point.orders:
        said.append(f"{' against '.join(order.models)}: {' '.join(order_sentences(order))}")
    return said


def shares(point: PointTheorem) -> list[str]:
    """For each model with several erring layers, what each adds to the bound at its largest N."""
    last: dict[str, Group] = {group.model: group for group in point.groups if group.judged}
    said = []
    for model, group in last.items():
        parts = group.contributions("composed")
        total = math.fsum(parts.values())
        if len(parts) > 1 and total > 0:
            listed = ", ".join(f"{name} {100 * part / total:.3g}%" for name, part in parts.items())
            said.append(f"{model} at N = {group.n:,}: parts of the composed bound: {listed}.")
    return said


# --- The order of sample sizes -------------------------------------------------------------------


def order_sentences(order: Order) -> list[str]:
    """What was predicted, what was measured, and what the prediction leaves out."""
    by_model: dict[str | None, list[BoundForm]] = {}  # the forms that predict the same model
    for form in BOUNDS:
        if form in order.strengths:
            by_model.setdefault(order.predicted(form), []).append(form)
    said = []
    for model, forms in by_model.items():
        if model is None:
            said.append(f"By {_listed(forms)} neither should need fewer samples: same A p.")
            continue
        by = "" if len(by_model) == 1 else f"By {_listed(forms)} "
        factors = _listed(
            f"{factor} times ({', '.join(own)})"
            for factor, own in groupby(forms, key=lambda form: _factor(order, model, form))
        )
        said.append(f"{by}{model} should need fewer samples: its A p is smaller by {factors}.")
    for reason in dict.fromkeys(order.reasons.values()):
        forms = [form for form in BOUNDS if order.reasons.get(form) == reason]
        said.append(f"By {_listed(forms)} nothing is predicted: {reason}.")
    said.append(_measured(order))
    decided = len(order.rungs) - len(order.targets(None))
    for model, forms in by_model.items():
        if model is None or not decided:
            continue
        right = len(order.targets(model))
        outcome = f"confirmed at {right} of {decided}"
        if right in (0, decided):
            outcome = f"{'confirmed' if right else 'reversed'} at all {decided}"
        said.append(f"The order predicted by {_listed(forms)} was {outcome} targets.")
    if order.erring:
        layers = ", ".join(f"{layer!r} of {model}" for model, layer in order.erring)
        said.append(
            f"The prediction has no floor: it does not contain the errors of known layers "
            f"({layers}), which more data does not remove."
        )
    return said


def _factor(order: Order, model: str | None, form: BoundForm) -> str:
    ratio = order.ratio(form) or 0.0
    return number(ratio if model == order.models[0] else (1 / ratio if ratio else math.inf))


def _measured(order: Order) -> str:
    if not order.rungs:
        return "Measured: neither errs at all."
    spans = []
    for at, group in groupby(order.rungs, key=lambda rung: rung.smaller):
        rungs = list(group)
        ends = list(dict.fromkeys(number(rung.target) for rung in (rungs[0], rungs[-1])))
        where = f"error {ends[0]}" if len(ends) == 1 else f"errors {ends[0]} to {ends[1]}"
        if at is None:
            spans.append(f"for {where} it is open")
            continue
        model, other = order.models[at], order.models[1 - at]
        alone = [rung for rung in rungs if not rung.needed[1 - at].reached]
        also = ""
        if alone:
            also = f", of which {other} did not reach {number(alone[0].target)} and below"
        if len(alone) == len(rungs):
            also = f", which {other} did not reach"
        spans.append(f"for {where} {model} needed fewer samples{also}")
    changes = "".join(
        f" The order changes near {number(each.target)}: {each.model} needs about N = "
        f"{f'{each.n:,.0f}' if each.n >= 10 else f'{each.n:.2g}'} there."
        for each in order.changes
    )
    below = f" Neither got below {number(order.lowest)}." if order.lowest > 0 else ""
    return f"Measured: {'; '.join(spans)}.{changes}{below}"


def _listed(words: Iterable[str]) -> str:
    listed = list(words)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
