"""The plan: how many samples a target asks for, how sure that is, and what to collect next.

Everything is read off one table, the probability that the target is met by N, over all futures:
what is printed, drawn, and written as JSON, and what the page interpolates.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np

from korisk._checks import LARGEST_N
from korisk._show import Drawn
from korisk.curves.curve import Curve
from korisk.curves.noise import ROUNDING
from korisk.errors import Message, OutOfReachError
from korisk.planning.chances import Chances, Enough, answer, before_long, chances
from korisk.planning.explain import (
    ANSWERS,
    EVEN,
    FAR,
    SURE,
    chance,
    count,
    findings,
    no_floor,
    no_learning,
    paragraph,
    span,
    times,
    value,
)
from korisk.planning.extrapolation import Extrapolation, extrapolate
from korisk.planning.fit import DEFAULT_FIT, check_target, other_unit
from korisk.planning.limits import Evidence, Limit, limit
from korisk.planning.protocol import Expectation, Numbers, Recommendation, each_of, level_of
from korisk.planning.recommend import otherwise, recommend

LEVELS = (0.8, 0.9, 0.95)  # of safety that reports show
_LEVEL = 0.9  # of the safe number that an explanation names
_DISAGREES = 0.01  # trust below which related curves count for nothing


@dataclass(frozen=True)
class Plan(Drawn, Enough):
    """The answer for one pilot and target. Made by `plan`.

    Errors and targets are in the user's unit.

    Parameters
    ----------
    forecast : Extrapolation
        The pilot and its extrapolation.
    target : float
        The error to reach.
    goal : float
        The same in the unit of errors.
    middle : int or None
        N with even odds *if* the target is reachable; None where the pilot speaks against it, shows
        no learning, or cannot be extrapolated. `chance` is the probability that it is enough, over
        all futures; `even` has even odds over all futures.
    lower, upper : float
        The ends of the 90% interval of N over all futures: at N = `lower` the target is met with at
        most 5%, at N = `upper` with at least 95%; `upper` is infinite where no N has that.
    reach : float
        The probability that the target is met at all, within the horizon; nan where the target
        lies beyond a pilot that cannot be extrapolated.
    chances : Chances
        The probability that the target is met by N, as a table.
    evidence : Evidence
        What else is known of the error: training errors, longer training, noise.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> made = kr.plan(pilot, target=0.005)
    >>> made.lower <= made.even <= made.samples(sure=0.9) <= made.upper
    True
    >>> print(made.recommend())
    KO: collect 6... samples for 0.005 (90% sure).
    """

    forecast: Extrapolation = field(repr=False)
    target: float
    goal: float = field(repr=False)  # the target as an error
    middle: int | None
    lower: float
    upper: float
    reach: float
    chances: Chances = field(repr=False, compare=False)
    evidence: Evidence = field(default=Evidence(), repr=False, compare=False)

    @property
    def curve(self) -> Curve:
        """The pilot."""
        return self.forecast.curve

    @property
    def fit(self) -> str:
        """How the curve was extrapolated."""
        return self.forecast.fit

    @property
    def last(self) -> int:
        """The largest N of the pilot."""
        return self.forecast.last

    @property
    def inside(self) -> bool:
        """Whether the target was met within the pilot, so that measured means answer it."""
        return bool(self.curve.means[-1] <= self.goal)

    @property
    def at_once(self) -> bool:
        """Whether the pilot's smallest N meets the target, so that fewer may be enough."""
        return self.middle is not None and self.middle <= int(self.curve.sizes[0])

    @property
    def capped(self) -> bool:
        """Whether N ends at the largest that is planned for, nearer than the pilot could tell."""
        return self.forecast.horizon >= LARGEST_N

    @property
    def below_rounding(self) -> bool:
        """Whether the target lies below rounding, where errors have no meaning."""
        return bool(self.goal < ROUNDING * self.curve.means.max())

    @property
    def doubt(self) -> str:
        """Why there is no answer although the target may be reachable; empty where there is one."""
        if self.below_rounding:
            return "The target lies below rounding, where errors have no meaning."
        return "" if self.inside else self.forecast.doubt

    @property
    def verdict(self) -> str:
        """Whether the target can be reached, in a word.

        "reachable"; "unlikely" where `reach` is below one half; without `samples`,
        "not_reachable" where the pilot itself shows a floor: most of its sizes have two seeds, and
        its means bend by more than two standard errors; else "not_known".
        """
        if self.inside and not self.below_rounding:
            return "reachable"
        if self.middle is None:
            return "not_known" if self.doubt or no_floor(self.curve) else "not_reachable"
        return "unlikely" if self.reach < EVEN else "reachable"

    @property
    def missed(self) -> str:
        """What stands in a table where there are no `samples`."""
        if self.doubt:
            return "no answer"
        known = self.fit != DEFAULT_FIT or self.verdict == "not_reachable"
        return "not reachable" if known else "not known"

    @property
    def chance(self) -> float | None:
        """The probability that `samples` are enough, over all futures; None without an answer."""
        return None if self.middle is None else self.probability(self.middle)

    @overload
    def at(self, n: float) -> Expectation: ...

    @overload
    def at(self, n: Numbers) -> list[Expectation]: ...

    def at(self, n: float | Numbers) -> Expectation | list[Expectation]:
        """What is expected at N, with its 90% band.

        Parameters
        ----------
        n : int or sequence of int
            Training samples, up to ten thousand times the pilot's largest.

        Returns
        -------
        Expectation or list of Expectation
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
        return each_of(n, self.forecast.expected)

    def met_by(self, n: float) -> float:
        """The probability that the target is met by one N."""
        count = self.forecast.sample_count(n)
        # Below the pilot nothing was measured, and nothing is claimed.
        return self.chances.at(count) if count >= self.chances.n[0] else 0.0

    @property
    def between(self) -> tuple[int, int] | None:
        """The measured N on either side of where the means pass the target; None beyond them."""
        passed = self.forecast.measured.crossing(self.goal)
        return None if passed is None else passed[1:]

    def if_reached(self, p: float = 0.9) -> int | None:
        """The N that is enough with probability p *if* the target is met by N = `before_long`.

        A number under a condition, whose own probability is `probability(before_long)`; never show
        one without the other.

        Parameters
        ----------
        p : float, default 0.9
            From 0.5 to 0.99.

        Returns
        -------
        int or None
            None without an answer.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.12, 0.08, 0.062, 0.054], model="KO")
        >>> made = kr.plan(pilot, target=0.047)
        >>> made.samples(0.9), made.if_reached(0.9) < made.before_long
        (None, True)
        """
        level = level_of(p, "p")
        if self.middle is None:
            return None
        return self.chances.smallest(level * self.chances.at(self.before_long))

    @cached_property
    def before_long(self) -> int:
        """The N by which futures must meet the target to have a part in `samples`.

        16 times the pilot, or 16 times the earliest plausible N where that is more: of futures that
        meet the target later, a pilot says too little.
        """
        return before_long(self.forecast, self.lower)

    @property
    def floor(self) -> float:
        """Where the curve levels off as far as the pilot tells, in the user's unit."""
        made, error = self.forecast, self.forecast.calibration.floor
        if self.related and not made.doubt:
            error = float(made.quantile(made.horizon, 0.5)[0])
        return float(self.curve.unit.from_error(error))

    @cached_property
    def limit(self) -> Limit:
        """What limits the error as far as the pilot and its evidence tell."""
        return limit(self.curve, self.evidence, self.goal)

    def recommend(self, sure: float = 0.9, cost: float | None = None) -> Recommendation:
        """What to do: one action with one number.

        Parameters
        ----------
        sure : float, default 0.9
            The chance with which samples are to be enough, from 0.5 to 0.99.
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
        """What `recommend` says where no N has the chance asked for.

        Returns
        -------
        Recommendation
            Any action but "collect".
        """
        return otherwise(self)

    @property
    def why_out_of_reach(self) -> str:
        """Why the target is not met by the horizon, in a sentence."""
        if self.floor_above:
            return f"The {self.curve.unit.noun} levels off at about {value(self.floor)}."
        return f"The {self.curve.unit.noun} improves too slowly."

    @property
    def floor_above(self) -> bool:
        """Whether the curve levels off above the target, as far as the pilot tells."""
        return float(self.curve.unit.to_error(self.floor)) >= self.goal

    @cached_property
    def alone(self) -> "Plan":
        """The plan without related curves."""
        return (
            plan_from(extrapolate(self.curve, fit=self.fit), self.target) if self.related else self
        )

    @property
    def related(self) -> tuple[Curve, ...]:
        """The related curves that had a part in it."""
        return self.forecast.related

    @property
    def trust(self) -> float | None:
        """The weight of related curves in the answer; None without any, 0 where none is used."""
        if not self.related:
            return None
        found = self.forecast.relatives
        return 0.0 if found is None or self.doubt else found.trust

    @cached_property
    def findings(self) -> tuple[str, ...]:
        """What is odd about the pilot, in sentences."""
        return findings(self.curve)

    def require(self, sure: float = 0.9) -> int:
        """`samples(sure)`, or an error where there is no such number.

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
        OutOfReachError
            If the pilot speaks against the target, or cannot be extrapolated.
        """
        samples = self.samples(sure)
        if samples is None:
            raise OutOfReachError(self.recommend(sure).explain())
        return samples

    # --- In words: every probability in a sentence is one of the plan's own ----------------------

    @property
    def anywhere(self) -> str:
        """How far the table of chances goes: as far as a pilot tells, or to the largest N."""
        if self.capped:
            return f"up to N = {self.forecast.horizon:,}, the largest that is planned for"
        return "at any N"

    @cached_property
    def _told(self) -> dict[str, str]:
        """What the templates of sentences fill in."""
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
        told, samples = self._told, self.middle
        if samples is None:
            return self._no_answer()
        if self.at_once:
            return (
                f"{told['start']} meets the target {told['target']} already at the pilot's "
                f"smallest N = {samples:,} (chance {told['chance']}); ask for a harder target, or "
                "measure smaller N."
            )
        passed = self.forecast.measured.crossing(self.goal) if samples <= self.last else None
        if samples <= self.last and (self.fit != DEFAULT_FIT or passed is None):
            return (
                f"By fit {self.fit!r}, {told['model']} meets the target {told['target']} inside "
                f"the pilot, at about N = {samples:,} (chance {told['chance']})."
            )
        kind = "beyond" if self.reach >= SURE else "if_reachable"
        kind = "unlikely" if self.verdict == "unlikely" else kind
        _, before, after = passed or (0.0, 0, 0)
        between = {"before": count(before), "after": count(after)}
        said = ANSWERS["inside" if passed else kind].format(**told, **between)
        return f"{said} {ANSWERS['rough']}" if samples > FAR * self.last else said

    def brief(self) -> str:
        """The answer and how sure it is, in fewer sentences than `explain`.

        Returns
        -------
        str
            What the page of a pilot says.
        """
        told, safe = self._told, self.samples(0.9)
        if self.doubt or self.middle is None:
            kind = "not_known" if self.missed == "not known" else "unreachable"
            return self.doubt or ANSWERS[kind].format(**told)
        said = [self.headline(), *self._interval()]
        if self.at_once:
            said = [ANSWERS["smallest"].format(**told)]
        if safe is None:
            kind = "unsafe_inside" if self.forecast.doubt else "unsafe"
            said.append(ANSWERS[kind].format(**told))
        elif safe != self.middle:
            said.append(ANSWERS["safe"].format(**told))
        return " ".join(said)

    def explain(self, sure: float = 0.9, cost: float | None = None) -> Message:
        """The plan as a paragraph of plain words, the recommendation first.

        Parameters
        ----------
        sure : float, default 0.9
            The chance with which samples are to be enough.
        cost : float, optional
            Price of one sample.

        Returns
        -------
        Message
            A text: the answer, how sure it is, what to do next, and what is odd about the pilot.
        """
        advice = self.recommend(sure, cost)
        said = [advice.sentence, *advice.reasons, self.headline(), *self._about_related()]
        if self.middle is not None:
            if self.fit == DEFAULT_FIT:
                said += self._interval()
            elif self.middle > self.last and math.isfinite(self.lower):
                takes = span(self.lower, self.upper)
                said.append(f"By the 90% band of its fitted curve it takes {takes} samples.")
            if advice.action != "collect":
                said.append(self.enough(sure))
            if self.fit != DEFAULT_FIT:
                said.append("The chances are those of the default fit.")
        return paragraph([*said, *self.findings])

    def enough(self, p: float = _LEVEL) -> str:
        """The number of samples that is enough with probability p, or why no number is.

        Parameters
        ----------
        p : float, default 0.9
            From 0.5 to 0.99.

        Returns
        -------
        str
            Sentences. Where no number is enough, the number under the condition that the target is
            reachable follows, with the probability of that condition.
        """
        level, noun = f"{100 * p:.4g}%", self.curve.unit.noun
        if self.doubt:
            return f"No number of samples can be given for {level} probability."
        safe = self.chances.smallest(level_of(p, "p"))
        if safe is not None:
            return f"{safe:,} samples are enough with {level} probability."
        most = chance(self.reach)
        most = f"just below {level}" if most == level else f"at most {most}"
        if self.forecast.doubt:
            return f"No N inside the pilot gives {level}; {most}. {self.forecast.doubt}"
        if self.capped:  # it need not level off to miss the target there
            said = f"No number of samples gives {level} {self.anywhere}; {most}."
        else:
            side = "below" if self.curve.unit.larger_is_better else "above"
            said = f"No amount of data gives {level}: the pilot cannot rule out that the {noun} "
            said += f"levels off {side} the target; {most}."
        reached, by = self.if_reached(p), self.before_long
        if reached is not None and self.fit == DEFAULT_FIT:
            odds = chance(self.probability(by))
            said += f" If the target is reachable by N = {by:,} (chance {odds}), {reached:,} "
            said += f"samples are enough with {level} probability."
        return said

    def _interval(self) -> list[str]:
        """The interval of the number of samples beyond the pilot, if there is one."""
        if self.middle is None or self.at_once or not math.isfinite(self.lower):
            return []
        kind = "interval" if math.isfinite(self.upper) else "at_least"
        return [ANSWERS[kind].format(**self._told)]

    def _no_answer(self) -> str:
        """Why there is no number of samples, and how likely the target is all the same."""
        target, far = value(self.target), f"N = {self.forecast.horizon:,}"
        odds = f"the chance of meeting it by {far} is {chance(self.reach)}"
        above = self.floor_above
        if self.doubt:
            said = f"No sample size for the target {target} can be given. {self.doubt}"
        elif self.missed == "not known":
            said = ANSWERS["not_known"].format(**self._told)
        elif self.fit == DEFAULT_FIT and self.capped and not above:
            said = f"The target {target} is probably not met {self.anywhere} "
            said += f"(chance {chance(self.reach)})."
        elif self.fit == DEFAULT_FIT:
            why = f"levels off at about {value(self.floor)}" if above else "improves too slowly"
            said = f"The target {target} is not reachable according to this pilot: the "
            said += f"{self.curve.unit.noun} of {self._told['model']} {why}, and {odds}."
        else:
            why = f"levels off at {value(self.floor)}" if above else f"does not get there by {far}"
            said = f"By fit {self.fit!r} the target {target} is not reachable: its curve {why}."
            if self.inside:
                return f"{said} The measured means meet it inside the pilot: use the default fit."
            return f"{said} By the default fit {odds}."
        hint = other_unit(self.curve, self.target)
        return f"{said} {hint[0].upper()}{hint[1:]}." if hint else said

    def _about_related(self) -> list[str]:
        """What related curves changed, and how far they are trusted."""
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
        by, reached = self.before_long, {f"{p:g}": self.if_reached(p) for p in LEVELS}
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
            "inside": self.inside,
            "at_once": self.at_once,
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
    evidence: Evidence | None = None,
) -> Plan:
    """How many samples a target asks for, according to a pilot of at least three sizes.

    Parameters
    ----------
    curve : Curve
        The pilot.
    target : float
        The error to reach, in the curve's unit. Where the pilot speaks against it, the plan says so
        and has no `samples`.
    fit : str, default "posterior"
        One of `FITS`.
    related : iterable of Curve, default ()
        Curves of the same network on other data: simulated with the known operator, from another
        scanner, of a public data set. They give the shape, the pilot gives level and stretch; how
        far they are trusted follows from how well they explain the pilot (`trust`).
    evidence : Evidence, optional
        Training errors, one size trained longer, the noise's own floor: what tells whether data,
        training, the network or noise limits the error.

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
    >>> made = kr.plan(pilot, target=0.005)
    >>> round(made.even, -1), made.samples(sure=0.9) < 700
    (640, True)
    """
    check_target([curve], target)
    return plan_from(extrapolate(curve, fit=fit, related=related), target, evidence)


def plan_from(made: Extrapolation, target: float, evidence: Evidence | None = None) -> Plan:
    """The plan for a checked target by a forecast: what takes long was done there."""
    goal = float(made.curve.unit.to_error(target))
    odds = chances(made, goal)
    reach = float(odds.p[-1])
    samples, lower, upper = answer(made, goal, odds)
    if made.doubt and made.curve.means[-1] > goal:
        samples, lower, upper, reach = None, made.last, math.inf, math.nan
    elif goal < ROUNDING * made.curve.means.max():
        samples, lower, upper, reach = None, math.inf, math.inf, math.nan
        odds = Chances(odds.n, np.zeros_like(odds.p))
    elif samples is not None and samples > made.last and no_learning(made.curve):
        samples = None  # of what is learned later, only the chances are known
    known = evidence or Evidence()
    return Plan(made, float(target), goal, samples, lower, upper, reach, odds, known)
