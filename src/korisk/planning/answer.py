"""All that a pilot answers at once: a target, errors at some N, and how sure one can be."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from korisk._checks import LARGEST_N, count
from korisk.curves.curve import Curve
from korisk.errors import Argument, KoriskError, Message, OutOfReachError
from korisk.planning.compare import Comparison
from korisk.planning.explain import chance
from korisk.planning.explain import count as samples_text
from korisk.planning.fit import DEFAULT_FIT, check_target
from korisk.planning.forecast import Expectation, Forecast, forecast
from korisk.planning.plan import LEVELS, Plan, plan_from
from korisk.texts import Table, number, whole


@dataclass(frozen=True, eq=False)
class Answer:
    """Everything that is said about one model. Made by `answer`.

    Parameters
    ----------
    forecast : Forecast
        The pilot and its extrapolation.
    plan : Plan or None
        The plan, if there is a target.
    at : tuple of (int, Expectation or None, float or None)
        N, what is expected there, and the chance of the target; None where the pilot cannot be
        extrapolated to it, or there is no target.
    probability : float or None
        The probability with which samples are to be enough, if one was asked for.
    """

    forecast: Forecast
    plan: Plan | None
    at: tuple[tuple[int, Expectation | None, float | None], ...]
    probability: float | None

    @property
    def curve(self) -> Curve:
        """The pilot."""
        return self.forecast.curve

    def require(self) -> None:
        """Raise `OutOfReachError` where what was asked has no answer."""
        if self.plan is not None:
            self.plan.require()
        doubt, last = self.forecast.doubt, self.forecast.last
        for n, expected, _ in self.at:
            if expected is None:
                raise OutOfReachError(
                    f"the {self.curve.unit.noun} at N = {n:,} is not known; {doubt[0].lower()}"
                    f"{doubt[1:].rstrip('.')}; ask for N up to {last:,}, or measure there"
                )

    def explain(self, *, named: bool = False, again: bool = False) -> str:
        """What the tables do not say.

        Parameters
        ----------
        named : bool, default False
            Whether to begin with the model's name, where several are told of.
        again : bool, default False
            Whether the same pilot was told of already: then only what concerns the target.

        Returns
        -------
        str
            One line for the target, and one for the probability.
        """
        plan, related = self.plan, self.forecast.related
        if plan is None:
            if self.forecast.relatives is None:
                return ""
            names = ", ".join(curve.model for curve in related)
            return f"Related: {names} (trust {chance(self.forecast.relatives.trust)})."
        name = f"{self.curve.name}: " if named else ""
        target: str = plan.explain()
        if again:
            target = plan.headline() if plan.samples is None else plan.brief()
        parts = ["" if self.curve.model else name, target]
        if self.probability is not None:
            sentence = plan.enough(self.probability)
            parts += ["\n", name, sentence] if sentence not in target else []
        return Message(*parts)

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values, for JSON.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        plan, p = self.plan, self.probability
        content: dict[str, Any] = {
            "model": self.curve.model,
            "metric": self.curve.metric,
            "read_as": self.curve.read_as,
            "unit": self.curve.unit.name,
            "fit": self.forecast.fit,
        }
        if plan is not None:
            content |= plan.to_dict()
        content["related"] = [curve.model for curve in self.forecast.related]
        if plan is not None and p is not None:
            reached = None
            if plan.samples is not None:
                by = plan.before_long
                reached = {"by": by, "chance": plan.probability(by), "samples": plan.if_reached(p)}
            samples = None if plan.doubt else plan.safe(p)
            content["enough"] = {"probability": p, "samples": samples, "if_reached": reached}
        names = ("value", "lower", "upper")
        content["at"] = [
            {
                "n": n,
                **{name: getattr(expected, name, None) for name in names},
                "probability_of_target": met,
            }
            for n, expected, met in self.at
        ]
        return content


def answer(
    curve: Curve,
    target: float | None = None,
    at: Iterable[float] = (),
    probability: float | None = None,
    *,
    fit: str = DEFAULT_FIT,
    related: Iterable[Curve] = (),
) -> Answer:
    """Everything that a pilot says about a target, about some N, or both.

    Parameters
    ----------
    curve : Curve
        The pilot.
    target : float, optional
        The value to reach, in the pilot's unit.
    at : iterable of int, optional
        Show the expected error at N.
    probability : float, optional
        Show the N that is enough with probability P, 0.5 to 0.99.
    fit : str, default "posterior"
        Extrapolation fit: posterior, power, shifted-power, paper.
    related : iterable of Curve, optional
        Curves of the same network on other data, such as simulated ones, in the pilot's metric and
        unit: the model of the pilot's name, or all in the file.

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
    >>> found = answer(pilot, target=0.005, at=[1024])
    >>> found.plan.samples < 1024, found.to_dict()["at"][0]["probability_of_target"] > 0.9
    (True, True)
    """
    if target is not None:
        check_target([curve], target)
    made = forecast(curve, fit=fit, related=related)
    plan = None if target is None else plan_from(made, target)
    if probability is not None:
        if plan is None:
            raise KoriskError(
                Argument("probability"), " needs ", Argument("target"), "; give the value to reach"
            )
        plan.if_reached(probability)  # which checks it
    return Answer(made, plan, tuple(_expected(made, plan, n) for n in at), probability)


def _expected(
    made: Forecast, plan: Plan | None, n: float
) -> tuple[int, Expectation | None, float | None]:
    if made.doubt and n > made.last:  # not to be extrapolated
        remedy = f"ask for N up to {made.last:,}"
        return count("n", n, at_least=2, at_most=LARGEST_N, remedy=remedy), None, None
    met = plan.probability(n) if plan else None
    expected = made.at(n)
    return expected.n, expected, met


# --- Tables --------------------------------------------------------------------------------------


def answer_tables(answers: Sequence[Answer]) -> Iterator[Table]:
    """The sample sizes of several models, and what is expected of them, as texts.

    Parameters
    ----------
    answers : sequence of Answer
        One for each model and target, of one question.

    Yields
    ------
    Table
        Samples for each target, if there is one; errors at each N, if any was asked for.
    """
    plans = [answer.plan for answer in answers if answer.plan is not None]
    targets = list(dict.fromkeys(plan.target for plan in plans))
    for target in targets:
        heads = ["model", *sample_heads(LEVELS), "next\nround"]
        rows = [
            [plan.curve.model or "-", *sample_cells(plan, LEVELS), whole(plan.next_round)]
            for plan in plans
            if plan.target == target
        ]
        yield Table(f"Samples for {number(target)} (fit {plans[0].fit})", heads, rows)
    rows = []
    every = max(len(targets), 1)  # answers of one model, which differ in the chances alone
    for first in range(0, len(answers), every):
        for at in zip(*(answer.at for answer in answers[first : first + every]), strict=True):
            n, expected, _ = at[0]
            values = [number(getattr(expected, name, None)) for name in ("value", "lower", "upper")]
            odds = ["-" if met is None else chance(met) for _, _, met in at if targets]
            rows.append([answers[first].curve.model or "-", whole(n), *values, *odds])
    if rows:
        noun = answers[0].curve.unit.noun
        odds = [f"chance of\n{number(target)}" for target in targets]
        odds = ["chance of\nthe target"] if len(targets) == 1 else odds
        yield Table(f"Expected {noun}", ["model", "N", noun, "90% from", "to", *odds], rows)


def sample_heads(levels: Sequence[float]) -> list[str]:
    """Titles of `sample_cells`."""
    safe = [f"safe\nat {level:.0%}" for level in levels]
    return ["N", "chance", "from", "to", *safe, "chance\nat most"]


def sample_cells(plan: Plan, levels: Sequence[float]) -> list[str]:
    """A plan in a row: N, its chance, ends of its interval, safe N, and the largest chance."""
    samples = "-" if plan.samples is None else f"{'≤ ' * plan.at_once}{whole(plan.samples)}"
    odds = "-" if plan.chance is None else chance(plan.chance)
    reach = "-" if math.isnan(plan.reach) else chance(plan.reach)
    if plan.doubt:
        return [samples, odds, *["-"] * (2 + len(levels)), reach]
    lower, upper = (
        samples_text(n) if math.isinf(n) else whole(int(n)) for n in (plan.lower, plan.upper)
    )
    safe = ["none" if n is None else whole(n) for n in map(plan.safe, levels)]
    return [samples, odds, "-" if plan.at_once else lower, upper, *safe, reach]


def comparison_tables(comparison: Comparison) -> Iterator[Table]:
    """The sample sizes of two models with their ratio, and the factors of Proposition 1, as texts.

    Parameters
    ----------
    comparison : Comparison
        What `compare` returns.

    Yields
    ------
    Table
        Samples for the target; the two factors by both calibrations.
    """
    first, second = comparison.first, comparison.second
    low, high = comparison.ratio_range or (0.0, math.inf)
    ratio = "-"
    if comparison.ratio is not None:
        more = " or more" if first.at_once else " or less" if second.at_once else ""
        ratio = number(comparison.ratio, 3) + more
    elif low or math.isfinite(high):  # with 95% probability, as the sentence says
        ratio = f"at least {number(low, 3)}" if low else f"at most {number(high, 3)}"
    ratios = "-" if first.samples is None else "1", ratio
    yield Table(
        f"Samples for {number(comparison.target)} (fit {first.fit})",
        ["model", *sample_heads((0.9,)), "ratio"],
        [
            [name, *sample_cells(plan, (0.9,)), shown]
            for name, plan, shown in zip(comparison.names, (first, second), ratios, strict=True)
        ],
    )
    rows = []
    for fit in ("line", "paper"):
        parts: Sequence[float | None] = (None, None, None)
        with suppress(KoriskError):
            factors = comparison.factors(fit)
            parts = factors.structural, factors.approximation_budget, factors.product
        rows.append([fit, *(number(part, 3) for part in parts)])
    heads = ["calibration", "sigma\nfactor", "floor\nfactor", "ratio of\nN / log N"]
    yield Table("Proposition 1, from lines floor + sigma log N / N", heads, rows)
