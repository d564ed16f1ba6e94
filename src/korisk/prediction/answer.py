"""What is said of a point before a scan is made: advice first, then tables, then the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from korisk.errors import UnreachableError
from korisk.planning.explain import chance, count
from korisk.prediction.pair import error_rows
from korisk.prediction.prediction import Advising, PredictedPlan, trust_words
from korisk.prediction.rehearsal.rehearsal import Rehearsed
from korisk.texts import Table, duration, number, whole

if TYPE_CHECKING:
    from korisk.prediction.study import PointPrediction


_NO_DATA = ("train", "stop", "unknown")  # actions that ask for no data


@dataclass(frozen=True, kw_only=True)
class Question:
    """The targets and sizes to report for every point.

    Parameters
    ----------
    targets : sequence of float, default ()
        Mean squared errors to reach; without any, examples are shown.
    at : sequence of float, default ()
        N at which errors are shown; without any, doublings, or the rehearsed N.
    sure : float, default 0.9
        The chance with which samples are to be enough, 0.5 to 0.99.
    cost : float, optional
        Price of one sample, to see what the advice costs.
    """

    targets: Sequence[float] = ()
    at: Sequence[float] = ()
    sure: float = 0.9
    cost: float | None = None


def model_advice(model: Advising, question: Question) -> list[str]:
    """What to do about each target, or the expected error, and what that assumes."""
    sentences, reasons = model.advised(question.targets, question.sure, question.cost)
    return [*sentences, *reasons]


def point_tables(point: PointPrediction, question: Question) -> Iterator[Table]:
    """The predictions of a point as tables of text."""
    models, targets = point.predictions, question.targets or point.targets
    if models:
        columns = ("computed", "expected", "90% from", "to")
        heads = ["N", *(f"{model.model}\n{column}" for model in models for column in columns)]
        rows = []
        # The same N of all models side by side; the first value of a row is its N.
        for at_n in zip(*(error_rows(model, question.at) for model in models), strict=True):
            values = [number(value, 3) for row in at_n for value in list(row.values())[1:]]
            rows.append([whole(int(at_n[0]["n"])), *values])
        title = f"{point.name}: expected mse, from {point.images} and nothing trained"
        yield Table(title, heads, rows, "r")
    for network in point.rehearsed:
        yield _rehearsed_table(point.name, network, question.at)
    heads = ["model", *size_heads(question.sure)]
    rows = [
        [prediction.model, *size_cells(size, question.sure)]
        for target in targets
        for prediction, size in zip(point.models, point.plans(target), strict=True)
    ]
    of = "a target" if question.targets else "targets, as examples"
    yield Table(f"Samples for {of}", heads, rows)
    for prediction in models:
        if prediction.checks:
            trust = chance(prediction.trust) if prediction.tested else "not tested"
            rows = [
                [whole(c.n), number(c.computed), number(c.measured), number(c.ratio, 3)]
                for c in prediction.checks
            ]
            title = f"{prediction.model} inside the pilot (trust in the theory: {trust})"
            yield Table(title, ["N", "computed", "measured", "ratio"], rows, "r")
    if point.pair is not None:
        known = [f for f in map(point.pair.factors_or_reason, targets) if "unknown" not in f]
        if known:
            rows = [
                [number(target), *(number(ratio, 3) for ratio in ratios)]
                for target, *ratios in (factors.values() for factors in known)
            ]
            heads = ["target", "sigma\nfactor", "floor\nfactor", "ratio of\nN / log N"]
            yield Table("Proposition 1, from lines through both", heads, rows, "r")


def _rehearsed_table(name: str, network: Rehearsed, at: Sequence[float]) -> Table:
    """The expected errors of a network beside those of its simulated pairs."""
    curve, rows = network.rehearsal.curve, []
    simulated = dict(zip(curve.sizes.tolist(), curve.means.tolist(), strict=True))
    for n in at or curve.sizes.tolist():
        error = network.expected(n)
        values = simulated.get(error.n), error.value, error.lower, error.upper
        rows.append([whole(error.n), *(number(value, 3) for value in values)])
    title = f"{name}: expected mse of {network.model}"
    return Table(title, ["N", "simulated", "expected", "90% from", "to"], rows, "r")


def point_sentences(point: PointPrediction, question: Question) -> Iterator[str]:
    """What advice and tables leave out: trust, the better model, caveats, time and memory."""
    notes: dict[str, None] = {}  # models share notes on the images, which are stated once
    for prediction in point.predictions:
        fresh = [note for note in prediction.notes if note not in notes]
        notes |= dict.fromkeys(fresh)
        if sentences := " ".join([*trust_words(prediction), *fresh]):
            yield sentences
    for network in point.rehearsed:
        yield " ".join(network.basis())
    if point.pair is not None:
        yield point.pair.explain()
        factors = map(point.pair.factors_or_reason, question.targets or point.targets)
        lacking = [number(row["target"]) for row in factors if "unknown" in row]
        if lacking:
            yield (
                f"Proposition 1 has no factors at {', '.join(lacking)}: the line through one of "
                "the curves is level, or does not reach the target."
            )
    yield from point.notes
    yield from point.caveats
    usage = point.usage
    cost = f"{point.name}: {duration(usage.seconds)}"
    for size, where in ((usage.peak_memory, "of memory"), (usage.device_memory, "on the GPU")):
        cost += f", at most {size / 2**30:.2f} GiB {where}" if size else ""
    yield f"{cost}.\n"


def require_targets(points: Sequence[PointPrediction], question: Question) -> None:
    """Raise `UnreachableError` if some target is out of reach of every model of a point."""
    lost = [
        f"{goal:.6g} at {point.name}"
        for point in points
        for goal in dict.fromkeys(question.targets)
        if all(plan.recommend().action in _NO_DATA for plan in point.plans(goal))
    ]
    if lost:
        remedy = "follow the advice, allow a larger error, or reduce the noise"
        raise UnreachableError(
            f"no model is expected to reach {', '.join(lost)} as it is; {remedy}"
        )


def size_heads(sure: float = 0.9) -> list[str]:
    """Titles of `size_cells`."""
    return ["target", f"{100 * sure:.4g}% sure", "even odds", "90% from", "to", "at most"]


def size_cells(size: PredictedPlan, sure: float = 0.9) -> list[str]:
    """Cells of a row: target, N at two levels, ends of the interval, and the largest chance."""
    levels = ["none" if n is None else whole(n) for n in (size.samples(sure), size.even)]
    ends = count(size.lower), count(size.upper)
    return [number(size.target), *levels, *ends, chance(size.reach)]
