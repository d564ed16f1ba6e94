"""The plan: how many samples a target needs, with which probability, and what to do next.

Everything that is printed, drawn or written as JSON comes from one table, the probability that the
target is met by N over all futures; the page interpolates the same table.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from korisk._show import Shown
from korisk.curves.curve import Curve
from korisk.curves.noise import ROUNDING
from korisk.errors import Message, UnreachableError
from korisk.planning.chances import Chances, answer, chances
from korisk.planning.explain import (
    ANSWERS,
    FAR,
    SURE,
    chance,
    count,
    no_floor,
    no_learning,
    paragraph,
    times,
    value,
)
from korisk.planning.extrapolation import Extrapolation, extrapolate
from korisk.planning.fit import DEFAULT_FIT, check_target, level_of, other_unit
from korisk.planning.limits import Longer
from korisk.planning.protocol import Expectation, Recommendation
from korisk.planning.recommend import Situation, otherwise, recommend

LEVELS = (0.8, 0.9, 0.95)  # probabilities that reports show
_LEVEL = 0.9  # probability of the safe number in an explanation
_DISAGREES = 0.01  # trust below which related curves have no effect


@dataclass(frozen=True)
class Plan(Shown, Situation):
    """The answer for one pilot and target. Made by `plan`.

    Errors and targets are in the user's unit.

    Parameters
    ----------
    forecast : Extrapolation
        The pilot and its extrapolation.
    target : float
        The error to reach.
    goal : float
        The target as an error.
    middle : int or None
        N with even odds *if* the target is reachable; None where the pilot suggests that it is not,
        shows no learning, or cannot be extrapolated. `chance` is the probability that it is enough,
        over all futures; `even` has even odds over all futures.
    lower, upper : float
        The ends of the 90% interval of N over all futures: at N = `lower` the target is met with at
        most 5%, at N = `upper` with at least 95%; `upper` is infinite where no N has that.
    reach : float
        The probability that the target is met at all, within the horizon; nan where the target
        lies beyond a pilot that cannot be extrapolated.
    chances : Chances
        The probability that the target is met by N, as a table.
    training : Curve or None
        Errors on the training samples.
    longer : Longer or None
        One size that was trained longer.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> plan = kr.plan(pilot, target=0.005)
    >>> plan.lower <= plan.even <= plan.samples(sure=0.9) <= plan.upper
    True
    >>> print(plan.recommend())
    KO: collect 6... samples for 0.005 (90% sure).
    """

    def at(self, n: float) -> Expectation:
        """The expected error at N, with its 90% band.

        Parameters
        ----------
        n : int
            Training samples, up to ten thousand times the pilot's largest.

        Returns
        -------
        Expectation
            In the user's unit.

        Raises
        ------
        KoriskError
            If N is out of range.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
        >>> kr.plan(pilot, target=0.005).at(1024).n
        1024
        """
        return self.forecast.expected(n)

    def recommend(self, sure: float = 0.9, cost: float | None = None) -> Recommendation:
        """What to do: one action with one number.

        Parameters
        ----------
        sure : float, default 0.9
            The probability that the samples are enough, from 0.5 to 0.99.
        cost : float, optional
            Price of one sample.

        Returns
        -------
        Recommendation
            Collect N, measure N next, train longer, stop, or not known; with its reasons.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
        >>> kr.plan(pilot, target=0.005).recommend().action
        'collect'
        """
        return recommend(self, sure, cost)

    def otherwise(self) -> Recommendation:
        """The recommendation where no N has the requested probability.

        Returns
        -------
        Recommendation
            Any action but "collect".
        """
        return otherwise(self)

    @cached_property
    def alone(self) -> "Plan":
        """The plan without related curves."""
        if not self.related:
            return self
        return plan_from(extrapolate(self.curve, fit=self.fit), self.target)

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
            If the pilot suggests that the target is not reachable, or cannot be extrapolated.
        """
        samples = self.samples(sure)
        if samples is None:
            raise UnreachableError(self.recommend(sure).explain())
        return samples

    # --- In words: every probability in a sentence comes from the plan ---------------------------

    @property
    def anywhere(self) -> str:
        """The range of N of the table of probabilities, in words."""
        if self._capped:
            return f"up to N = {self.forecast.horizon:,}, the largest that is planned for"
        return "at any N"

    @cached_property
    def _fields(self) -> dict[str, str]:
        """The fields of the sentence templates."""
        name, reach, ratio = self.curve.model, chance(self.reach), (self.middle or 0) / self.last
        far = f"{times(ratio)} times" if ratio >= 1.1 else "little more than"
        return {
            "start": name or "The model",
            "model": name or "the model",
            "whose": f" of {name}" if name else "",
            "target": value(self.target),
            "samples": count(self.middle or 0),
            "chance": chance(self.chance or 0.0),
            "lower": count(self.lower),
            "upper": count(self.upper),
            "safe": count(self.samples(0.9) or 0),
            "reach": reach,
            "why": no_floor(self.curve),
            "most": "just below 90%" if reach == "90%" else f"at most {reach}",
            "anywhere": self.anywhere,
            "far": f"{far} the pilot's largest N of {self.last:,}",
            "horizon": count(self.forecast.horizon),
        }

    def headline(self) -> str:
        """The answer alone, in a sentence or two.

        Returns
        -------
        str
            The number of samples with its chance, or why there is none.
        """
        fields, samples = self._fields, self.middle
        if samples is None:
            return self._no_answer()
        if self.met_at_smallest:
            return (
                f"{fields['start']} meets the target {fields['target']} already at the pilot's "
                f"smallest N = {samples:,} (chance {fields['chance']}); ask for a harder target, "
                "or measure smaller N."
            )
        if samples <= self.last:
            # Another fit may meet the target inside the pilot although the measured means do not.
            if self.fit != DEFAULT_FIT or self.between is None:
                return (
                    f"By fit {self.fit!r}, {fields['model']} meets the target {fields['target']} "
                    f"inside the pilot, at about N = {samples:,} (chance {fields['chance']})."
                )
            before, after = map(count, self.between)
            return ANSWERS["inside"].format(**fields, before=before, after=after)
        kind = "beyond" if self.reach >= SURE else "if_reachable"
        kind = "unlikely" if self.verdict == "unlikely" else kind
        text = ANSWERS[kind].format(**fields)
        return f"{text} {ANSWERS['rough']}" if samples > FAR * self.last else text

    def brief(self) -> str:
        """The answer with its probabilities, in fewer sentences than `explain`.

        Returns
        -------
        str
            The text on the page of a pilot.
        """
        fields, safe = self._fields, self.samples(0.9)
        if self.doubt or self.middle is None:
            kind = "not_known" if self.missed == "not known" else "unreachable"
            return self.doubt or ANSWERS[kind].format(**fields)
        sentences = [self.headline(), *self._interval()]
        if self.met_at_smallest:
            sentences = [ANSWERS["smallest"].format(**fields)]
        if safe is None:
            kind = "unsafe_inside" if self.forecast.doubt else "unsafe"
            sentences.append(ANSWERS[kind].format(**fields))
        elif safe != self.middle:
            sentences.append(ANSWERS["safe"].format(**fields))
        return " ".join(sentences)

    def explain(self, sure: float = 0.9, cost: float | None = None) -> Message:
        """The plan as a paragraph, the recommendation first.

        Parameters
        ----------
        sure : float, default 0.9
            The probability that the samples are enough.
        cost : float, optional
            Price of one sample.

        Returns
        -------
        Message
            The answer, its probabilities, what to do next, and anomalies of the pilot.
        """
        advice = self.recommend(sure, cost)
        sentences = [advice.sentence, *advice.reasons, self.headline(), *self._about_related()]
        if self.middle is not None:
            sentences += self._interval()
            if advice.action != "collect":
                sentences.append(self.enough(sure))
            if self.fit != DEFAULT_FIT:
                sentences.append("The chances and the interval are those of the default fit.")
        return paragraph([*sentences, *self.findings])

    def enough(self, p: float = _LEVEL) -> str:
        """The number of samples that is enough with probability p, or why no number is.

        Parameters
        ----------
        p : float, default 0.9
            From 0.5 to 0.99.

        Returns
        -------
        str
            Sentences. Where no number is enough, they give the number conditional on the target
            being reachable, with the probability of that condition.
        """
        level, noun = f"{100 * p:.4g}%", self.curve.unit.noun
        if self.doubt:
            return f"No number of samples can be given for {level} probability."
        safe = self.chances.smallest(level_of(p, "p"))
        if safe is not None:
            return f"{safe:,} samples are enough with {level} probability."
        # Rounded, the reach may equal the level that it misses.
        most = chance(self.reach)
        most = f"just below {level}" if most == level else f"at most {most}"
        if self.forecast.doubt:
            return f"No N inside the pilot gives {level}; {most}. {self.forecast.doubt}"
        if self._capped:  # the curve may miss the target there without a floor
            text = f"No number of samples gives {level} {self.anywhere}; {most}."
        else:
            side = "below" if self.curve.unit.larger_is_better else "above"
            text = f"No amount of data gives {level}: the pilot cannot rule out that the {noun} "
            text += f"levels off {side} the target; {most}."
        reached, by = self.if_reached(p), self.near_horizon
        if reached is not None and self.fit == DEFAULT_FIT:
            odds = chance(self.probability(by))
            text += f" If the target is reachable by N = {by:,} (chance {odds}), {reached:,} "
            text += f"samples are enough with {level} probability."
        return text

    def _interval(self) -> list[str]:
        """The sentence on the interval of the number of samples, if there is one."""
        if self.middle is None or self.met_at_smallest or not math.isfinite(self.lower):
            return []
        kind = "interval" if math.isfinite(self.upper) else "at_least"
        return [ANSWERS[kind].format(**self._fields)]

    def _no_answer(self) -> str:
        """Why there is no number of samples, and how likely the target is nevertheless."""
        target, far = value(self.target), f"N = {self.forecast.horizon:,}"
        odds = f"the chance of meeting it by {far} is {chance(self.reach)}"
        above = self.floor_above
        if self.doubt:
            text = f"No sample size for the target {target} can be given. {self.doubt}"
        elif self.missed == "not known":
            text = ANSWERS["not_known"].format(**self._fields)
        elif self.fit == DEFAULT_FIT and self._capped and not above:
            text = f"The target {target} is probably not met {self.anywhere} "
            text += f"(chance {chance(self.reach)})."
        elif self.fit == DEFAULT_FIT:
            why = f"levels off at about {value(self.floor)}" if above else "improves too slowly"
            text = f"The target {target} is not reachable according to this pilot: the "
            text += f"{self.curve.unit.noun} of {self._fields['model']} {why}, and {odds}."
        else:
            why = f"levels off at {value(self.floor)}" if above else f"does not get there by {far}"
            text = f"By fit {self.fit!r} the target {target} is not reachable: its curve {why}."
            if self.met_in_pilot:
                return f"{text} The measured means meet it inside the pilot: use the default fit."
            return f"{text} By the default fit {odds}."
        hint = other_unit(self.curve, self.target)
        return f"{text} {hint[0].upper()}{hint[1:]}." if hint else text

    def _about_related(self) -> list[str]:
        """How related curves change the answer, and how far they are trusted."""
        if not self.related or self.trust is None:
            return []
        names = ", ".join(f'"{curve.model}"' for curve in self.related if curve.model)
        who = f"Related curves ({names})" if names else "Related curves"
        if self.doubt:
            return [f"{who} are not used."]
        if self.forecast.relatives is None:
            return [f"{who} cannot be extrapolated and are not used."]
        verb = "disagree with" if self.trust < _DISAGREES else "explain"
        how = f"{who} {verb} the pilot (trust {chance(self.trust)})"
        # Compared as printed: a reader does not see a change below rounding.
        alone = self.alone
        if alone.middle == self.middle and chance(alone.chance) == chance(self.chance):
            return [f"{how} and do not change the answer."]
        if alone.middle is None:
            without = f"there would be no number (chance to reach it {chance(alone.reach)})"
        else:
            without = f"the answer would be about {alone.middle:,} (chance {chance(alone.chance)})"
        return [f"{how}: without them {without}."]

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, for JSON.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        by, reached = self.near_horizon, {f"{p:g}": self.if_reached(p) for p in LEVELS}
        condition = {"by": by, "chance": self.chances.at(by), **reached}
        return {
            "model": self.curve.model,
            "metric": self.curve.metric,
            "unit": self.curve.unit.name,
            "fit": self.fit,
            "target": self.target,
            "recommendation": self.recommend().to_dict(),
            "verdict": self.verdict,
            "samples": {f"{p:g}": self.samples(p) for p in (0.5, *LEVELS)},
            "middle": self.middle,
            "chance": self.chance,
            "lower": self.lower,
            "upper": self.upper,
            "reach": None if math.isnan(self.reach) else self.reach,
            "between": self.between,
            "if_reached": None if self.middle is None else condition,
            "inside": self.met_in_pilot,
            "at_once": self.met_at_smallest,
            "doubt": self.doubt,
            "trust": self.trust,
            "floor": self.floor,
            "findings": list(self.findings),
            "explanation": self.explain(),
        }


def plan(
    curve: Curve,
    target: float,
    *,
    fit: str = DEFAULT_FIT,
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
        The error to reach, in the curve's unit. If the pilot suggests that it is not reachable, the
        plan says so, and `samples` is None.
    fit : str, default "posterior"
        One of `FITS`.
    related : iterable of Curve, default ()
        Curves of the same network on other data: simulated with the known operator, from another
        scanner, of a public data set. They give the shape, the pilot gives level and stretch; their
        weight (`trust`) follows from how well they explain the pilot.
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
    return plan_from(extrapolate(curve, fit=fit, related=related), target, training, longer)


def plan_from(
    forecast: Extrapolation,
    target: float,
    training: Curve | None = None,
    longer: Longer | None = None,
) -> Plan:
    """The plan for a checked target; the forecast, which is slow to compute, is reused."""
    goal = float(forecast.curve.unit.to_error(target))
    # The table is kept even where there is no answer: reports show the probabilities all the same.
    odds = chances(forecast, goal)
    reach = float(odds.p[-1])
    samples, lower, upper = answer(forecast, goal, odds)
    if forecast.doubt and forecast.curve.means[-1] > goal:
        samples, lower, upper, reach = None, forecast.last, math.inf, math.nan
    elif goal < ROUNDING * forecast.curve.means.max():
        samples, lower, upper, reach = None, math.inf, math.inf, math.nan
        odds = Chances(odds.n, np.zeros_like(odds.p))
    elif samples is not None and samples > forecast.last and no_learning(forecast.curve):
        samples = None  # a pilot without learning gives probabilities, but no point estimate
    numbers = samples, lower, upper, reach, odds
    return Plan(forecast, float(target), goal, *numbers, training=training, longer=longer)
