"""The outcome of a check of the theorem in sentences: for the command, the page and the tables."""

import math
from collections.abc import Sequence
from itertools import groupby

from korisk._group import grouped
from korisk.paper.theorem.check import Group, NetworkCheck, Order, PointTheorem, spread
from korisk.texts import counted
from korisk.theory import BOUNDS, BoundForm

_MOST = 3  # networks that are named one by one


def number(value: float) -> str:
    """Three digits, which is more than a looseness needs."""
    return f"{value:.3g}"


def answer(checks: Sequence[NetworkCheck]) -> str:
    """Whether the theorem holds in these networks, in one or two sentences."""
    # Three outcomes: no bound at all, a violation, or a check that could fail and did not.
    judged = [check for check in checks if check.judged]
    if not judged:
        return f"Not known: there is no bound for any of {counted(len(checks), 'network')}."
    untrained = sum(check.n == 0 for check in checks)
    before = f" ({untrained:,} of them before training)" if untrained else ""
    open_ones = len(checks) - len(judged)
    rest = f" There is no bound for {counted(open_ones, 'network')}." if open_ones else ""
    if broken := sum(not check.holds for check in judged):
        where = f"VIOLATED: in {broken:,} of {counted(len(judged), 'network')}{before}"
        return f"{where} the error is above a bound, or the bounds are out of order.{rest}"
    which = f"{len(judged):,} of" if open_ones else "all" if len(judged) > 1 else "the"
    every = all(len(check.bounds) == len(BOUNDS) for check in judged)
    bounds = "all three bounds" if every else "every bound that is known"
    # Where the last layer alone errs, the composed bound is the error: the check cannot fail.
    able = [check for check in judged if not check.only_the_last]
    if not able and len(judged) == len(checks):
        networks = counted(len(checks), "network")
        return f"No test: in {which} {networks}{before} the last layer alone errs."
    loose = ""
    if (looseness := spread(check.looseness("composed") for check in able)) is not None:
        ends = dict.fromkeys((number(looseness.least), number(looseness.worst)))
        loose = f"; the tightest is loose by {' to '.join(ends)} times"
    where = f"In {which} {counted(len(checks), 'network')}{before}"
    if able and len(able) < len(judged) == len(checks):
        untrained = sum(check.n == 0 for check in able)
        before = f" ({untrained:,} of them before training)" if untrained else ""
        which = "all" if len(able) > 1 else "the"
        where = f"In {which} {counted(len(able), 'network')} in which it could fail{before}"
    return f"{where} the error stays within {bounds}{loose}.{rest}"


def remarks(checks: Sequence[NetworkCheck]) -> list[str]:
    """What else a reader of the answer should know: violations, unknown bounds, empty tests."""
    sentences = []
    broken = [check for check in checks if check.holds is False]
    for check in broken[:_MOST]:
        above = ", ".join(f"{form} {number(check.bounds[form].total)}" for form in check.exceeded)
        why = f"error {number(check.error)} above {above}" if above else "bounds are out of order"
        sentences.append(f"{check.where}: {why}.")
    if len(broken) > _MOST:
        sentences.append(f"It is violated in {len(broken) - _MOST:,} more.")
    if broken:
        sentences.append(
            "Possible causes: a constant below the true one, a layer's error that is missing or "
            "measured at other inputs, or a network that is not the true map; the theorem itself "
            "is proved."
        )
    # One sentence for all networks that lack the same forms for the same reason.
    unknown = grouped(
        ((" or ".join(form for form in BOUNDS if form not in check.bounds), check.reason), check)
        for check in checks
        if check.reason
    )
    for (forms, reason), unbounded in unknown.items():
        more = f" and {len(unbounded) - 1:,} more" if len(unbounded) > 1 else ""
        sentences.append(f"No {forms} bound for {unbounded[0].where}{more}: {reason}.")
    if last := sum(check.only_the_last for check in checks if check.holds):
        empty = "the composed bound is then the error itself, which tests nothing"
        sentences.append(f"In {counted(last, 'network')} the last layer alone errs: {empty}.")
    if any(len(check.layers) > 1 for check in checks if check.judged):
        sentences.append(
            "Errors of layers are measured at the inputs that each trained network gives them, not "
            "over one fixed evaluation distribution, as the paper's assumption has it."
        )
    if exact := sum(check.error == 0 for check in checks if check.judged):
        sentences.append(
            f"The error of {counted(exact, 'network')} is 0, so looseness is not defined there."
        )
    return sentences


def point_sentences(point: PointTheorem) -> list[str]:
    """Notes on a point, what each layer adds to the bound, and the order of sample sizes."""
    sentences = [f"{note}." for note in point.notes] + shares(point)
    for order in point.orders:
        sentences.append(f"{' against '.join(order.models)}: {' '.join(order_sentences(order))}")
    return sentences


def shares(point: PointTheorem) -> list[str]:
    """For each model with several erring layers, what each adds to the bound at its largest N."""
    # Groups ascend in N, so that the last one of a model stays.
    last: dict[str, Group] = {group.model: group for group in point.groups if group.judged}
    sentences = []
    for model, group in last.items():
        parts = group.contributions("composed")
        total = math.fsum(parts.values())
        if len(parts) > 1 and total > 0:
            listed = ", ".join(
                f"{name} {100 * contribution / total:.3g}%" for name, contribution in parts.items()
            )
            sentences.append(f"{model} at N = {group.n:,}: parts of the composed bound: {listed}.")
    return sentences


def order_sentences(order: Order) -> list[str]:
    """What was predicted, what was measured, and what the prediction leaves out."""
    # Forms of the bound that predict the same share a sentence.
    predicted = grouped((_prediction(order, form), form) for form in BOUNDS)
    sentences = [f"By {', '.join(forms)}: {what}." for what, forms in predicted.items()]
    # Neighbouring targets with the same winner are one span.
    spans = []
    for winner, group in groupby(order.rungs, key=lambda rung: rung.smaller):
        rungs = list(group)
        ends = dict.fromkeys(number(rung.target) for rung in (rungs[0], rungs[-1]))
        where = f"for errors {' to '.join(ends)}"
        if winner is None:
            spans.append(f"{where} it is open")
            continue
        alone = [number(rung.target) for rung in rungs if not rung.needed[1 - winner].reached]
        shortfall = f" ({order.models[1 - winner]} did not reach {alone[0]})" if alone else ""
        spans.append(f"{where} {order.models[winner]} needed fewer samples{shortfall}")
    sentences.append(f"Measured: {'; '.join(spans) or 'neither errs at all'}.")
    for change in order.changes:
        near = f"The order changes near {number(change.target)}"
        sentences.append(f"{near}: {change.model} needs about N = {change.n:,.0f} there.")
    if order.lowest > 0:
        sentences.append(f"Neither got below {number(order.lowest)}.")
    if order.erring:
        layers = ", ".join(f"{layer!r} of {model}" for model, layer in order.erring)
        lacks = f"it does not contain the errors of known layers ({layers})"
        sentences.append(f"The prediction has no floor: {lacks}, which more data does not remove.")
    return sentences


def _prediction(order: Order, form: BoundForm) -> str:
    """What one form of the bound predicts, and at how many targets that was confirmed."""
    ratio, model = order.ratio(form), order.predicted(form)
    if ratio is None:
        return f"nothing is predicted: {order.reasons[form]}"
    if model is None:
        return "neither should need fewer samples: same A p"
    factor = ratio if ratio > 1 else 1 / ratio if ratio else math.inf
    prediction = f"{model} should need fewer samples: its A p is smaller by {number(factor)} times"
    decided = len(order.rungs) - len(order.targets(None))
    if not decided:
        return prediction
    return f"{prediction}, confirmed at {len(order.targets(model))} of {decided} targets"
