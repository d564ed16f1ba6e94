"""The public door: a forecast that makes plans, and a plan with its advice.

Everything that is printed, drawn or written as JSON comes from one table, the probability that the
target is met by N over all futures; the page interpolates the same table.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from korisk._show import Shown
from korisk.curves.curve import Curve
from korisk.errors import Argument, Message, UnreachableError
from korisk.planning import words
from korisk.planning.forecast import (
    LEAST_SIZES,
    Outlook,
    PilotLaw,
    check_curve,
    check_goal,
    check_target,
    checked_relatives,
)
from korisk.planning.pilot import Longer, check_training
from korisk.planning.recommend import LEVELS, Numbers, Recommendation, recommend
from korisk.texts import Table, number, whole


@dataclass(frozen=True, eq=False)
class Plan(Shown, Numbers):
    """The answer for one target. Made by `plan`, and by the `plan` of a forecast.

    Errors and targets are in the user's unit.

    Parameters
    ----------
    forecast : Forecast
        The law of the error at every N.
    target : float
        The error to reach.
    training : Curve, optional
        Errors on the training samples of a pilot.
    longer : Longer, optional
        One size of a pilot that was trained longer.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> plan = kr.plan(pilot, target=0.005)
    >>> plan.lower <= plan.even <= plan.samples(sure=0.9) <= plan.upper
    True
    >>> print(plan.recommend())
    KO: 6... samples are enough for 0.005 (90% sure). Do next: collect 3... more than the pilot has.
    """

    forecast: "Forecast" = field(repr=False)

    def recommend(self, sure: float = 0.9) -> Recommendation:
        """What to do: one action with one number.

        Parameters
        ----------
        sure : float, default 0.9
            The probability that the samples are enough, from 0.5 to 0.99.

        Returns
        -------
        Recommendation
            The action, its number, and the reasons.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
        >>> kr.plan(pilot, target=0.005).recommend().action
        'collect'
        """
        return recommend(self, sure)

    def require(self, sure: float = 0.9) -> int:
        """`samples(sure)`, or an error if there is no such number.

        Parameters
        ----------
        sure : float, default 0.9
            From 0.5 to 0.99.

        Returns
        -------
        int
            The number of samples.

        Raises
        ------
        UnreachableError
            If the target is not known to be reachable.
        """
        samples = self.samples(sure)
        if samples is None:
            raise UnreachableError(self.recommend(sure).explain())
        return samples

    def oddities(self, *, full: bool) -> tuple[str, ...]:
        """What is odd about the pilot.

        Parameters
        ----------
        full : bool
            Whether all of it, or the first, and how many more there are.

        Returns
        -------
        tuple of str
            A sentence for each.
        """
        texts = self.findings
        if full or len(texts) < 2:
            return texts
        more = f" ({len(texts) - 1} more with ", Argument("full", True), ")"
        return (Message(texts[0], *more),)

    @cached_property
    def about_related(self) -> str:
        """How related curves change the answer, in a sentence; empty without any."""
        forecast = self.forecast
        if forecast.alone is None:
            return ""
        names = ", ".join(f'"{curve.model}"' for curve in forecast.related if curve.model)
        alone = Plan(forecast.alone, self.target).even
        return words.related(names, forecast.trust, self.even, alone)

    def lines(self, sure: float = 0.9, *, full: bool = False) -> list[str]:
        """The answer: advice in two lines, its record, its odds and reasons; none is empty.

        Parameters
        ----------
        sure : float, default 0.9
            The probability that the samples are enough.
        full : bool, default False
            List all that is odd about the pilot, and not the first alone.

        Returns
        -------
        list of str
            At most three.
        """
        advice = self.recommend(sure)
        rest = [advice.odds, *advice.reasons, self.about_related, *self.forecast.notes]
        rest += self.oddities(full=full)
        first = "\n".join(words.parts(advice.sentence))
        return [x for x in (first, advice.record, words.paragraph(filter(None, rest))) if x]

    def explain(self, sure: float = 0.9) -> Message:
        """The answer, its record and its reasons, with all that is odd about the pilot.

        Parameters
        ----------
        sure : float, default 0.9
            The probability that the samples are enough.

        Returns
        -------
        Message
            The `lines`, joined.
        """
        return words.paragraph(self.lines(sure, full=True), "\n")

    def to_dict(self, sure: float = 0.9) -> dict[str, Any]:
        """The plan as plain values, for JSON.

        Parameters
        ----------
        sure : float, default 0.9
            The probability of the recommendation.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        forecast, advice = self.forecast, self.recommend(sure).to_dict()
        return {
            "model": forecast.model,
            "metric": forecast.metric,
            "unit": forecast.unit.name,
            "basis": forecast.basis,
            "target": self.target,
            "recommendation": advice,
            "samples": {f"{p:g}": self.samples(p) for p in sorted({0.5, *LEVELS, sure})},
            **{name: advice[name] for name in ("even", "lower", "upper", "reach")},
            "doubt": self.doubt,
            "trust": forecast.trust,
            "floor": forecast.floor if math.isfinite(forecast.floor) else None,
            "findings": list(self.findings),
            "notes": list(forecast.notes),
            "explanation": self.explain(sure),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecast(Shown, Outlook):
    """The error at every N, as a distribution. Made by `kr.forecast` and by rehearsals.

    Parameters
    ----------
    source : Source
        What gives the laws: `law(n)` and `lasting(n)`.
    model, metric : str
        Names.
    unit : Unit
        Of all values and targets.
    sizes : array of float, (M,)
        N at which chances are tabulated, ascending; the last one is the `horizon`.
    curve : Curve, optional
        The pilot. One of it and of `simulated` is there.
    simulated : Curve, optional
        The simulated errors of a rehearsal.
    related : tuple of Curve, default ()
        Curves of the same network on other data, which were asked to help.
    doubt : str, default ""
        Why the error cannot be extrapolated.
    undertrained : bool, default False
        Whether training, and not the amount of data, limits the simulated error.
    notes : tuple of str, default ()
        What it rests on, in sentences.
    shared : tuple of str and float, optional
        Which images the level of the error rests on, and its relative standard error due to them:
        forecasts from the same images err alike.
    population : str, default ""
        The simulated images that it is about, where nothing is known about real ones.
    longer : Longer, optional
        What longer training gave in a rehearsal, where that is so much that it comes before data.
    lowered : bool, default False
        Whether a rehearsal's errors are those of the longer training.

    Attributes
    ----------
    measured : int
        The largest N with a real error; 0 before a scan.
    horizon : int
        The largest N that the forecast covers.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> forecast = kr.forecast(pilot)
    >>> forecast.measured, forecast.horizon
    (256, 2560000)
    >>> round(forecast.at(512).value, 4), forecast.at(1024).upper < 0.005
    (0.0063, True)
    >>> forecast.plan(0.005).samples() == kr.plan(pilot, 0.005).samples()
    True
    """

    def plan(self, target: float) -> Plan:
        """The plan for a target, in the user's unit.

        Parameters
        ----------
        target : float
            The value to reach.

        Returns
        -------
        Plan
            As `korisk.plan` returns it.

        Raises
        ------
        KoriskError
            If the target is impossible in the unit, or looks like one in another unit.
        """
        check_goal([self], target)
        return Plan(self, float(target))

    @cached_property
    def alone(self) -> "Forecast | None":
        """The forecast of the same pilot without its related curves, if it has any."""
        return forecast(self.curve) if self.related and self.curve is not None else None

    def summary(self) -> str:
        """The expected error at twice the largest known N, in a sentence.

        Returns
        -------
        str
            With its 90% band.
        """
        then = self.at(min(2 * self.last, self.horizon))
        return words.reason("expected", model=self.subject or "The model", **vars(then))

    def renamed(self, model: str) -> "Forecast":
        """The same with another name of the model.

        Parameters
        ----------
        model : str
            The name.

        Returns
        -------
        Forecast
            A copy.
        """
        curve, simulated = (
            None if known is None else known.renamed(model)
            for known in (self.curve, self.simulated)
        )
        return replace(self, model=model, curve=curve, simulated=simulated)


def forecast(curve: Curve, *, related: Iterable[Curve] = ()) -> Forecast:
    """Extrapolate a pilot beyond its largest N.

    N may run up to `horizon`, ten thousand times the pilot's largest.

    Parameters
    ----------
    curve : Curve
        The pilot, of at least three sizes.
    related : iterable of Curve, default ()
        Curves of the same network on other data: simulated with the known operator, from another
        scanner, of a public data set. They give the shape, the pilot gives level and stretch; their
        weight (`trust`) follows from how well they explain the pilot.

    Returns
    -------
    Forecast
        The law of the error at every N.

    Raises
    ------
    KoriskError
        If the pilot is too small, or a related curve does not belong to it.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> forecast = kr.forecast(pilot)
    >>> round(forecast.at(512).value, 4)
    0.0063
    """
    check_curve(curve)
    curve.require(LEAST_SIZES, "a forecast")
    source = PilotLaw(curve, checked_relatives(curve, related))
    return Forecast(
        source=source,
        model=curve.model,
        metric=curve.metric,
        unit=curve.unit,
        sizes=source.sizes(),
        curve=curve,
        related=source.related,
        doubt=source.doubt,
    )


def plan(
    curve: Curve,
    target: float,
    *,
    related: Iterable[Curve] = (),
    training: Curve | None = None,
    longer: Longer | None = None,
) -> Plan:
    """Estimate how many samples a target needs, from a pilot of at least three sizes.

    Parameters
    ----------
    curve : Curve
        The pilot.
    target : float
        The error to reach, in the curve's unit. If no N has the probability that is asked for, the
        plan says so, and `samples` is None.
    related : iterable of Curve, default ()
        Curves of the same network on other data, as for `forecast`.
    training : Curve, optional
        Errors on the training samples, of the same networks and in the same metric.
    longer : Longer, optional
        One size that was trained longer. Both show whether data or training limits the error.

    Returns
    -------
    Plan
        The answer.

    Raises
    ------
    KoriskError
        If the pilot is too small, or its unit does not allow the target.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> plan = kr.plan(pilot, target=0.005)
    >>> round(plan.even, -1), plan.samples(sure=0.9) < 700
    (640, True)
    """
    check_target([curve], target)
    check_training(training, longer)
    return Plan(forecast(curve, related=related), float(target), training, longer)


# --- Tables ---------------------------------------------------------------------------------------


def sample_heads(levels: Sequence[float]) -> list[str]:
    """Column titles of `sample_cells`."""
    sure = [f"{words.level(p)} sure" for p in levels]
    return [*sure, "50% sure", "90% range\nfrom", "to", "reachable"]


def sample_cells(plan: Plan, levels: Sequence[float]) -> list[str]:
    """A plan as a table row: N at each level, N with even odds, the 90% range, the reach."""
    reach = "-" if math.isnan(plan.reach) else words.chance(plan.reach)
    if plan.doubt:
        return [*["-"] * (3 + len(levels)), reach]
    # At the smallest known N, fewer samples may be enough: the number is an upper bound.
    first, ends = int(plan.chances.n[0]), (plan.lower, plan.upper)
    texts = [
        "none" if n is None else "∞" if math.isinf(n) else f"{'≤ ' * (n <= first)}{whole(int(n))}"
        for n in (*map(plan.samples, levels), plan.even, *ends)
    ]
    return [*texts[:-2], *(["-", "-"] if math.isinf(plan.lower) else texts[-2:]), reach]


def has_numbers(plan: Plan) -> bool:
    """Whether a plan has a 90% range of N."""
    return not plan.doubt and math.isfinite(plan.lower)


def plan_tables(plans: Iterable[Plan], sure: float = 0.9, *, full: bool = False) -> Iterator[Table]:
    """The sample sizes of several plans, one row each; one without any has its sentence alone."""
    levels = sorted({sure, *LEVELS}) if full else [sure]
    rows = [
        [number(plan.target), plan.forecast.model or "-", *sample_cells(plan, levels)]
        for plan in plans
        if has_numbers(plan)
    ]
    if rows:
        heads = ["target", "model", *sample_heads(levels)]
        yield Table("Samples" if full else "", heads, rows, "rlr")
