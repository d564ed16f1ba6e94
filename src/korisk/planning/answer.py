"""All answers of one pilot: samples for a target, expected errors at given N, and their tables."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from korisk._checks import LARGEST_N, count
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, Message, UnreachableError
from korisk.planning.compare import Comparison
from korisk.planning.explain import chance, paragraph
from korisk.planning.explain import count as samples_text
from korisk.planning.extrapolation import Extrapolation, extrapolate
from korisk.planning.fit import DEFAULT_FIT, check_target, level_of
from korisk.planning.limits import Longer
from korisk.planning.plan import LEVELS, Plan, plan_from
from korisk.planning.protocol import Expectation, Recommendation
from korisk.texts import Table, number, whole


@dataclass(frozen=True, eq=False)
class Answer:
    """All answers for one model. Made by `answer`."""

    forecast: Extrapolation
    plan: Plan | None
    at: tuple[tuple[int, Expectation | None, float | None], ...]
    sure: float = 0.9
    cost: float | None = None

    @cached_property
    def advice(self) -> Recommendation | None:
        """What to do about the target, if there is one."""
        return None if self.plan is None else self.plan.recommend(self.sure, self.cost)

    @property
    def curve(self) -> Curve:
        """The pilot."""
        return self.forecast.curve

    def require(self) -> None:
        """Raise `UnreachableError` if no data reaches the target, or an N has no expected error."""
        if self.advice is not None and self.advice.action not in ("collect", "measure", "train"):
            raise UnreachableError(self.advice.explain())
        # An expected error is missing only beyond a pilot that cannot be extrapolated.
        doubt, last = self.forecast.doubt, self.forecast.last
        for n, expected, _ in self.at:
            if expected is None:
                raise UnreachableError(
                    f"the {self.curve.unit.noun} at N = {n:,} is not known; {doubt[0].lower()}"
                    f"{doubt[1:].rstrip('.')}; ask for N up to {last:,}, or measure there"
                )

    def explain(self, *, full: bool = False, with_name: bool = False, again: bool = False) -> str:
        """The recommendation with its reasons, or everything that the tables do not show."""
        plan, related = self.plan, self.forecast.related
        # Without a target there is no advice; related curves still deserve a word.
        if plan is None or self.advice is None:
            if self.forecast.relatives is None:
                return ""
            names = ", ".join(curve.model for curve in related)
            return f"Related: {names} (trust {chance(self.forecast.relatives.trust)})."
        name = f"{self.curve.name}: " if with_name and not self.curve.model else ""
        if full:
            sentences: str = plan.brief() if again else plan.explain(self.sure, self.cost)
            return Message(name, sentences)
        reasons = list(self.advice.reasons)
        # One finding shows that there are some; `full` lists the others.
        if plan.findings and not again:
            note = f" ({len(plan.findings) - 1} more in full)" if len(plan.findings) > 1 else ""
            reasons.append(Message(plan.findings[0], note))
        return Message(name, self.advice.sentence, *(["\n", paragraph(reasons)] if reasons else []))

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values, for JSON."""
        plan = self.plan
        content: dict[str, Any] = {
            "model": self.curve.model,
            "metric": self.curve.metric,
            "read_as": self.curve.read_as,
            "unit": self.curve.unit.name,
            "fit": self.forecast.fit,
        }
        if plan is not None and self.advice is not None:
            content |= plan.to_dict() | {"recommendation": self.advice.to_dict()}
        content["related"] = [curve.model for curve in self.forecast.related]
        names = ("value", "lower", "upper")
        content["at"] = [
            {
                "n": n,
                **{name: getattr(expected, name, None) for name in names},
                "probability_of_target": probability,
            }
            for n, expected, probability in self.at
        ]
        return content


def answer(
    curve: Curve,
    target: float | None = None,
    at: Iterable[float] = (),
    sure: float = 0.9,
    cost: float | None = None,
    *,
    fit: str = DEFAULT_FIT,
    related: Iterable[Curve] = (),
    trained: tuple[Curve | None, Longer | None] = (None, None),
) -> Answer:
    """Answer questions about a target, about some N, or both, from one pilot.

    Parameters
    ----------
    curve : Curve
        The pilot.
    target : float, optional
        The value to reach, in the pilot's unit.
    at : iterable of int, optional
        Show the expected error at N.
    sure : float, default 0.9
        The probability that the samples are enough, 0.5 to 0.99.
    cost : float, optional
        Price of one sample, to see what the advice costs.
    fit : str, default "posterior"
        Extrapolation fit: posterior or paper.
    related : iterable of Curve, optional
        Curves of the same network on other data, such as simulated ones, in the pilot's metric and
        unit: the model of the pilot's name, or all in the file.
    trained : tuple of Curve and Longer, optional
        Errors on the training samples, and one size that was trained longer. Both show whether data
        or training limits the error.

    Returns
    -------
    Answer
        Its `require` raises where there is no answer.

    Raises
    ------
    KoriskError
        If the pilot is too small, its unit does not allow the target, or an N is out of range.

    Examples
    --------
    >>> import korisk as kr
    >>> from korisk.planning.answer import answer
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> result = answer(pilot, target=0.005, at=[1024])
    >>> result.advice.n < 1024, result.to_dict()["at"][0]["probability_of_target"] > 0.9
    (True, True)
    """
    if target is not None:
        check_target([curve], target)
    outlook = extrapolate(curve, fit=fit, related=related)
    plan = None if target is None else plan_from(outlook, target, *trained)
    expectations = tuple(_expected(outlook, plan, n) for n in at)
    result = Answer(outlook, plan, expectations, level_of(sure), cost)
    _ = result.advice  # computed now, because it checks the cost
    return result


def _expected(
    outlook: Extrapolation, plan: Plan | None, n: float
) -> tuple[int, Expectation | None, float | None]:
    if outlook.doubt and n > outlook.last:  # N is checked, but there is no forecast for it
        remedy = f"ask for N up to {outlook.last:,}"
        return count("n", n, at_least=2, at_most=LARGEST_N, remedy=remedy), None, None
    probability = plan.probability(n) if plan else None
    expected = outlook.expected(n)
    return expected.n, expected, probability


# --- Tables --------------------------------------------------------------------------------------


def answer_tables(answers: Sequence[Answer], *, full: bool = False) -> Iterator[Table]:
    """Tables of sample sizes and of expected errors for several models."""
    plans = [answer.plan for answer in answers if answer.plan is not None]
    targets = list(dict.fromkeys(plan.target for plan in plans))
    if plans:
        # All answers are to one question, so that the first knows its level and fit.
        levels = tuple(sorted({answers[0].sure, *(LEVELS if full else ())}, reverse=not full))
        rows = [
            [number(plan.target), plan.curve.model or "-", *sample_cells(plan, levels)]
            for plan in plans
        ]
        fit = _of_fit(plans[0].fit)
        heads = ["target", "model", *sample_heads(levels, plans[0].fit)]
        yield Table(f"Samples{fit}" if full or fit else "", heads, rows, "rlr")
    rows = []
    # Answers for one model differ only in the chance of their targets: one row for each N.
    per_model = max(len(targets), 1)
    for first in range(0, len(answers), per_model):
        of_model = answers[first : first + per_model]
        for at_size in zip(*(answer.at for answer in of_model), strict=True):
            n, expected, _ = at_size[0]
            values = [number(getattr(expected, name, None)) for name in ("value", "lower", "upper")]
            odds = ["-" if p is None else chance(p) for _, _, p in at_size if targets]
            rows.append([of_model[0].curve.model or "-", whole(n), *values, *odds])
    if rows:
        noun = answers[0].curve.unit.noun
        odds = [f"chance of\n{number(target)}" for target in targets]
        odds = ["chance of\nthe target"] if len(targets) == 1 else odds
        yield Table(f"Expected {noun}", ["model", "N", noun, "90% from", "to", *odds], rows)


def _of_fit(fit: str) -> str:
    return "" if fit == DEFAULT_FIT else f" (by fit: {fit}; chances: {DEFAULT_FIT})"


def sample_heads(levels: Sequence[float], fit: str = DEFAULT_FIT) -> list[str]:
    """Column titles of `sample_cells`."""
    by_fit = [] if fit == DEFAULT_FIT else ["by fit"]
    sure = [f"{100 * level:.4g}% sure" for level in levels]
    return [*sure, "even odds", *by_fit, "90% from", "to", "at most"]


def sample_cells(plan: Plan, levels: Sequence[float]) -> list[str]:
    """A plan as a table row: N at each level, N with even odds, the 90% interval, the reach.

    For fits other than the default, the N of the fitted curve precedes the interval.
    """
    by_fit = plan.fit != DEFAULT_FIT
    reach = "-" if math.isnan(plan.reach) else chance(plan.reach)
    if plan.doubt:
        return [*["-"] * (3 + len(levels) + by_fit), reach]
    # At the smallest measured N, fewer samples may be enough: the number is an upper bound.
    first = int(plan.curve.sizes[0])
    texts = [
        "none" if n is None else f"{'≤ ' * (n <= first)}{whole(n)}"
        for n in (*map(plan.samples, levels), plan.even, *[plan.middle] * by_fit)
    ]
    ends = [samples_text(n) if math.isinf(n) else whole(int(n)) for n in (plan.lower, plan.upper)]
    return [*texts, *ends, reach]


def comparison_tables(comparison: Comparison, *, full: bool = False) -> Iterator[Table]:
    """Tables of two models' sample sizes with their ratio, and of the factors of Proposition 1."""
    first, second = comparison.first, comparison.second
    low, high = comparison.ratio_range or (0.0, math.inf)
    ratio = "-"
    if comparison.ratio is not None:
        ratio = number(comparison.ratio, 3) + comparison.open_end
    elif low or math.isfinite(high):  # with 95% probability, as the sentence says
        ratio = f"at least {number(low, 3)}" if low else f"at most {number(high, 3)}"
    # Ratios are relative to the first model, whose own is 1.
    ratios = "-" if comparison.numbers[0] is None else "1", ratio
    fit = _of_fit(first.fit)
    yield Table(
        f"Samples for {number(comparison.target)}{fit}" if full or fit else "",
        ["model", *sample_heads((0.9,), first.fit), "ratio"],
        [
            [name, *sample_cells(plan, (0.9,)), text]
            for name, plan, text in zip(comparison.names, (first, second), ratios, strict=True)
        ],
    )
    if not full:
        return
    rows = []
    for fit in ("line", "paper"):
        values: Sequence[float | None] = (None, None, None)
        with suppress(KoriskError):  # the target lies below a floor, or a line is flat
            factors = comparison.factors(fit)
            values = factors.structural, factors.approximation_budget, factors.product
        rows.append([fit, *(number(factor, 3) for factor in values)])
    heads = ["calibration", "sigma\nfactor", "floor\nfactor", "ratio of\nN / log N"]
    yield Table("Proposition 1, from lines floor + sigma log N / N", heads, rows)
