"""Compare two pilots: the ratio of their sample sizes, and where their curves cross."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk._show import Shown
from korisk.curves.curve import Curve
from korisk.curves.noise import paired_correlation
from korisk.errors import KoriskError, Message, UnreachableError, invalid
from korisk.planning.explain import EVEN, SURE, chance, paragraph, span, times, value
from korisk.planning.fit import DEFAULT_FIT, calibrate, check_curve, check_target, sample_counts
from korisk.planning.forecast import Forecast, forecast
from korisk.planning.plan import Plan, plan_from
from korisk.theory import TwoFactors, two_factors

Array = NDArray[np.float64]

LEAST_SIZES = 3  # distinct N that a curve needs to be extrapolated
FARTHEST = 64  # times the larger pilot: largest N of the search for a crossover
_CLEAR = 0.75  # probability from which on one curve counts as the better one
_STEPS = 40  # grid points of the error at which two distributions are compared
_FEW = 40  # measured sizes up to which odds are computed at all of them
_NEVER = 1e12  # times the horizon: N of futures that do not meet the target
_LIKE_PERCENT = 20.0  # ratio of errors: percent is 100 times a fraction, models differ by 5 times
_SHARES = np.arange(0.005, 1.0, 0.01)  # levels of the quantiles that represent a distribution
# Correlation, in normal scores, of the errors of two forecasts of one problem. Measured by
# `python -m benchmarks.planner.odds --part tune --sets ratios`.
TOGETHER = 0.2


@dataclass(frozen=True)
class Crossover:
    """Where the curve that is better at small N becomes the worse one.

    Parameters
    ----------
    n : int
        The N at which the curves cross, approximately.
    lower, upper : float
        The N at which the probability that the other model is better passes 5% and 95%; `upper` is
        infinite where it never does. Both are nan for fits without probabilities.
    better_after : str
        The model that is better from there on.
    measured : bool
        Whether it lies within both pilots.

    Examples
    --------
    >>> import korisk as kr
    >>> n = [16, 32, 64, 128, 256]
    >>> ko = kr.Curve(n, [0.1, 0.09, 0.08, 0.075, 0.072], model="KO")
    >>> fc = kr.Curve(n, [0.8, 0.4, 0.2, 0.1, 0.05], model="FC")
    >>> cross = kr.compare(ko, fc, target=0.08).crossover
    >>> cross.better_after, cross.measured, 128 < cross.lower < cross.n < cross.upper < 256
    ('FC', True, True)
    """

    n: int
    lower: float
    upper: float
    better_after: str
    measured: bool

    def explain(self, where: str = "") -> str:
        """Where the curves cross, in a sentence.

        Parameters
        ----------
        where : str, default ""
            Where it lies relative to the pilots, for the parentheses.

        Returns
        -------
        str
            The N, its interval, and which model is better from there on.
        """
        notes = [where] if where else []
        if not math.isnan(self.lower):
            notes.append(f"90%: {span(self.lower, self.upper)}")
        return (
            f"The curves cross at about N = {self.n:,} ({'; '.join(notes)}); "
            f"from there on {self.better_after} is probably better."
        )


@dataclass(frozen=True)
class Crossing:
    """Where two models change their order: by the extrapolation, and by the measured means."""

    found: Crossover | None
    means: tuple[int, int] | None = None
    better: str = ""
    last: int = 0
    sizes: int = 0

    @property
    def agrees(self) -> bool:
        """Whether there is a crossover that the measured means do not contradict.

        Inside the pilots the means must change their order there; beyond them, the model that
        becomes better must not have the lower mean already.
        """
        if self.found is None or not self.better:
            return self.found is not None
        if self.found.measured:
            return self.means is not None and self.means[0] <= self.found.n <= self.means[1]
        return self.better != self.found.better_after

    def explain(self, *, sizes: bool = False) -> str:
        """Where the curves cross, in a sentence consistent with the measured means."""
        if sizes and self.sizes < LEAST_SIZES:
            return f"{self.explain()} At least {LEAST_SIZES} sizes are needed to extrapolate."
        if self.found is not None and self.agrees:
            beyond = "beyond the pilots, by extrapolation"
            return self.found.explain("within the pilots" if self.found.measured else beyond)
        if not self.better:
            return "The curves do not clearly cross as far as the pilots tell."
        if self.means is None:
            order = f"{self.better} is better at every measured N, up to {self.last:,}"
            return f"The curves do not clearly cross: {order}."
        before, after = self.means
        order = f"The means change their order between N = {before:,} and {after:,}, "
        order += f"and {self.better} is better at N = {self.last:,}"
        return f"{order}; where the curves cross is not clear."

    def to_dict(self) -> dict[str, Any]:
        """The crossing as plain values; a crossover that the means contradict is left out."""
        content = asdict(self) | {"explanation": self.explain(sizes=True)}
        return content if self.agrees else content | {"found": None}

    @classmethod
    def of_means(
        cls, cross: Crossover | None, n: Sequence[int], ahead: Sequence[bool], names: Sequence[str]
    ) -> Self:
        """The crossing of means, where `ahead` tells at which sizes `n` the second is better."""
        # Of several changes of order, report the one at the crossover, or else the last.
        turns = [(n[k - 1], n[k]) for k in range(1, len(n)) if ahead[k] != ahead[k - 1]]
        at_cross = [turn for turn in turns if cross is not None and turn[0] <= cross.n <= turn[1]]
        means = next(iter(at_cross + turns[::-1]), None)
        return cls(cross, means, names[int(ahead[-1])], n[-1], len(n))


@dataclass(frozen=True)
class Comparison(Shown):
    """Two pilots at one target, such as a known-operator and a dense network. Made by `compare`.

    Parameters
    ----------
    first, second : Plan
        The plans of the two curves.

    Examples
    --------
    >>> import korisk as kr
    >>> n, error = [16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125]
    >>> ko, fc = kr.Curve(n, error, model="KO"), kr.Curve(n, [4 * e for e in error], model="FC")
    >>> comparison = kr.compare(ko, fc, target=0.02)
    >>> comparison.names, round(comparison.ratio)
    (('KO', 'FC'), 4)
    >>> round(comparison.factors("line").structural, 3)
    4.0
    """

    first: Plan
    second: Plan

    @property
    def target(self) -> float:
        """The target, in the user's unit."""
        return self.first.target

    @property
    def names(self) -> tuple[str, str]:
        """The models of the two curves; "first" and "second" if these are empty or equal."""
        # Sentences name the models; two equal names would make them ambiguous.
        names = self.first.curve.model, self.second.curve.model
        return names if all(names) and names[0] != names[1] else ("first", "second")

    @property
    def ratio(self) -> float | None:
        """Samples of the second over samples of the first; None where it is not known.

        The ratio of the N with even odds, or, for other fits, of the N at which the fitted curves
        meet the target. It is not known where a model has no such N, or where both meet the target
        at their smallest N. Where only the first does, the ratio is a lower bound, because fewer
        samples may be enough; where only the second does, an upper bound.
        """
        first, second = self.numbers
        both = self.first.met_at_smallest and self.second.met_at_smallest
        return None if first is None or second is None or both else second / first

    @property
    def open_end(self) -> str:
        """What follows a ratio that is a bound: " or more", " or less", or nothing."""
        if self.first.met_at_smallest:
            return " or more"
        return " or less" if self.second.met_at_smallest else ""

    @property
    def numbers(self) -> tuple[int | None, int | None]:
        """The N of both models that `ratio` divides; None where there is none."""
        first, second = (
            plan.even if plan.fit == DEFAULT_FIT else plan.middle for plan in self._plans
        )
        return first, second

    @cached_property
    def ratio_range(self) -> tuple[float, float] | None:
        """An interval of the ratio; None where neither end is known, as for other fits.

        If both models have a number of samples, the 90% interval over all futures; an end is 0 or
        infinity where one model never meets the target in too many of them. If the first meets it
        at its smallest N, or the second has no number, a 95% lower bound and infinity. In the
        opposite case, 0 and a 95% upper bound.
        """
        plans = self._plans
        if any(plan.fit != DEFAULT_FIT for plan in plans):  # no distribution of N
            return None
        # A model that meets the target at its smallest N needs at most that many samples, and one
        # without an answer needs more than any: either leaves one end of the ratio.
        answered = [plan for plan in plans if plan.met_at_smallest]
        answered = answered or [plan for plan in plans if plan.even is not None]
        if self.ratio is None and len(answered) != 1:
            return None
        if len(answered) == 1:
            (smaller,) = answered
            larger = plans[1] if smaller is plans[0] else plans[0]
            if math.isinf(larger.lower) and larger.doubt:  # below rounding
                return None
            at_most = [smaller.chances.first(share) for share in _SHARES]
            # Cut at the horizon, so that the bound holds whatever happens beyond it.
            horizon = larger.forecast.horizon
            needed = [min(larger.chances.first(share), horizon) for share in _SHARES]
            least = float(np.exp(_quantiles(needed, at_most, self.together, (0.05,)).item()))
            if not least:
                return None
            return (least, math.inf) if smaller is plans[0] else (0.0, 1 / least)
        # Futures without an answer get an N so large that a quantile which falls on one is seen.
        first, second = (
            [min(plan.chances.first(share), _NEVER * plan.forecast.horizon) for share in _SHARES]
            for plan in plans
        )
        low, high = np.exp(_quantiles(second, first, self.together, (0.05, 0.95)))
        # A ratio beyond the root can only come from a future without an answer.
        never = math.sqrt(_NEVER)
        if low < 1 / never and high > never:
            return None
        return (0.0 if low < 1 / never else float(low)), (math.inf if high > never else float(high))

    @cached_property
    def together(self) -> float:
        """Correlation between the errors of both forecasts, in normal scores.

        Beyond the pilots, forecasts of two networks for one problem tend to err alike (`TOGETHER`);
        inside, the seeds that both pilots share give an estimate.
        """
        # A forecast inside its pilot and one beyond it are taken as independent.
        paired = paired_correlation(self.first.curve, self.second.curve)
        beyond = [plan.middle is None or plan.middle > plan.last for plan in self._plans]
        return TOGETHER if all(beyond) else paired * (1 - any(beyond))

    @property
    def _plans(self) -> tuple[Plan, Plan]:
        return self.first, self.second

    def factors(self, fit: str = "line") -> TwoFactors:
        """Both factors of Proposition (prop:ct-proxy) from lines fitted to both pilots.

        Parameters
        ----------
        fit : {"line", "paper"}, default "line"
            How floor + slope log N / N is fitted: by least squares, or as in the paper.

        Returns
        -------
        TwoFactors
            The factors at the target.

        Raises
        ------
        UnreachableError
            If a floor is at or above the target.
        """
        first, second = (calibrate(plan.curve, fit) for plan in (self.first, self.second))
        return two_factors(first, second, self.first.goal)

    @cached_property
    def crossover(self) -> Crossover | None:
        """The last N at which the better of the two changes, as far as the pilots show.

        Only a change from odds of three to one for one model to three to one for the other counts:
        curves that are hard to tell apart change their order all the time.
        """
        # Odds are computed at the measured N, and at three N per doubling.
        plans = self._plans
        start = max(int(plan.curve.sizes[0]) for plan in plans)
        horizon = min(plan.forecast.horizon for plan in plans)
        end = min(FARTHEST * max(plan.last for plan in plans), horizon)
        doublings = math.log2(max(end / start, 1.0))
        n = start * 2.0 ** np.linspace(0, doublings, 2 + int(3 * doublings))
        sizes = np.concatenate([plan.curve.sizes for plan in plans]).astype(float)
        if len(sizes) <= _FEW:
            n = np.append(n, sizes[(sizes >= start) & (sizes <= end)])
        n = np.unique(n)
        ahead = self.odds(n)  # (M,) probability that the second is better
        clear = np.flatnonzero(np.abs(ahead - 0.5) >= _CLEAR - 0.5)
        second_leads = ahead[clear] > 0.5
        behind = np.flatnonzero(second_leads != second_leads[-1:])
        if not behind.size:  # neither is clearly better, or one is everywhere
            return None
        falls = not second_leads[-1]
        odds = 1 - ahead if falls else ahead  # of the model that leads in the end
        turn = int(clear[behind[-1]])
        # Lower end: the last N with odds of 5% before they pass one half for good.
        unlikely = np.flatnonzero(odds[: turn + 1] <= 0.05)
        begin = int(unlikely[-1]) if unlikely.size else 0
        low = first_above(n[begin:], odds[begin:], 0.05)
        n, odds = n[turn:], odds[turn:]
        # The posterior's crossing is where odds are even; that of fitted curves, where they meet.
        if self.first.fit == DEFAULT_FIT:
            crossing_n = first_above(n, odds, 0.5)
            high = first_above(n, odds, 0.95)
        else:
            fitted = np.log(self.first.forecast.middle(n) / self.second.forecast.middle(n))
            crossing_n = first_above(n, -fitted if falls else fitted, 0.0)
            low = high = math.nan
        if math.isinf(crossing_n):
            return None
        measured = crossing_n <= min(self.first.last, self.second.last)
        leader = self.names[0 if falls else 1]
        return Crossover(round(crossing_n), low, high, leader, measured)

    def odds(self, n: ArrayLike) -> Array:
        """(M,) the probability that the second curve lies below the first at each N.

        Seeds with the same label are pairs, and forecasts are correlated; see `together`.

        Parameters
        ----------
        n : array of float, (M,)
            Sizes N from 2 on.

        Returns
        -------
        array, (M,)
            Probabilities.

        Examples
        --------
        >>> import korisk as kr
        >>> n = [16, 32, 64, 128, 256]
        >>> ko = kr.Curve(n, [0.1, 0.09, 0.08, 0.075, 0.072], model="KO")
        >>> fc = kr.Curve(n, [0.8, 0.4, 0.2, 0.1, 0.05], model="FC")
        >>> kr.compare(ko, fc, target=0.08).odds([64, 256]).round(1).tolist()
        [0.0, 1.0]
        """
        sizes = np.atleast_1d(sample_counts(n))
        return odds_between(self.first.forecast, self.second.forecast, tuple(sizes.tolist())).copy()

    @property
    def crossing(self) -> Crossing:
        """Where the better of the two changes, by the crossover and by the measured means.

        At a size that one pilot lacks, its mean is interpolated. Of equal curves, none is better.
        """
        start = max(int(plan.curve.sizes[0]) for plan in self._plans)
        end = min(plan.last for plan in self._plans)
        sizes = np.unique(np.concatenate([plan.curve.sizes for plan in self._plans]))
        sizes = sizes[(sizes >= start) & (sizes <= end)]
        if not sizes.size:
            return Crossing(self.crossover)
        first, second = (plan.forecast.measured.middle(sizes) for plan in self._plans)
        names = ("", "") if np.allclose(first, second) else self.names
        ahead: list[bool] = (second < first).tolist()
        return Crossing.of_means(self.crossover, sizes.tolist(), ahead, names)

    def headline(self) -> str:
        """How many samples each model needs, in a sentence or two.

        Returns
        -------
        str
            Both numbers with their chances, and the ratio.
        """
        (first, second), plans, numbers = self.names, self._plans, self.numbers
        if None not in numbers:
            sentence = f"To reach {value(self.target)}, {first} needs "
            sentence += f"{_about(plans[0], numbers[0], ' samples')} and {second} "
            sentence += _about(plans[1], numbers[1])
            if self.ratio is None:
                return f"{sentence}; what they need in relation to each other is not known."
            return f"{sentence}, a ratio of {self.ratio_words()}."
        sentence = " ".join(
            f"{name} needs {_about(plan, number, ' samples')}."
            if plan.met_at_smallest
            else f"{name}: {plan.headline()}"
            for name, plan, number in zip(self.names, plans, numbers, strict=True)
        )
        if self.ratio_range is not None:
            sentence += f" The ratio, {second} over {first}, is {self.ratio_words()}."
        return sentence

    @property
    def likely(self) -> bool:
        """Whether both reach the target with at least even odds, so that a ratio is meaningful.

        Below that, a ratio holds only in the few futures in which both do.
        """
        return all(plan.reach >= EVEN for plan in self._plans)

    def saving(self) -> str:
        """Which of the two needs fewer samples, and how many times fewer, in a sentence.

        Returns
        -------
        str
            A factor of at least 1 with its interval, and the condition where that is unlikely.
            Before it a question, where one model may be in percent and the other not.

        Examples
        --------
        >>> import korisk as kr
        >>> n, error = [16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125]
        >>> ko, fc = kr.Curve(n, error, model="KO"), kr.Curve(n, [4 * e for e in error], model="FC")
        >>> kr.compare(fc, ko, target=0.02).saving()
        'KO needs 4 times fewer samples than FC for 0.02 (90%: ... to ...).'
        """
        doubt, saving = self._unit_doubt(), self._saving()
        return f"{doubt} Taken as they are: {saving}" if doubt else saving

    def _saving(self) -> str:
        """The saving of the errors as they are, which may be in different units."""
        # An unknown interval is the widest one, so that its ends are left out below.
        (low, high), ratio = self.ratio_range or (0.0, math.inf), self.ratio
        better, worse = zip(self.names, self._plans, strict=True)
        estimate = ratio or (low if math.isinf(high) else high)
        if estimate < 1:  # the second needs fewer: swap, so that the factor is at least 1
            better, worse = worse, better
            low, high = (0.0 if math.isinf(high) else 1 / high), (1 / low if low else math.inf)
            ratio = ratio and 1 / ratio
        goal = f"for {value(self.target)}"
        goal += "" if self.first.fit == DEFAULT_FIT else f" by fit {self.first.fit!r}"
        names = f"{better[0]} and {worse[0]}"
        evens = [plan.even for _, plan in (better, worse)]
        if self.ratio_range is None and None not in evens and self.first.fit == DEFAULT_FIT:
            odds = " and ".join(f"{n:,}" for n in evens)
            return f"Which of {names} needs fewer samples {goal} is not clear: even odds at {odds}."
        if ratio is None:
            if low <= 1:
                return f"Which of {names} needs fewer samples {goal} is not known."
            about = f"{better[0]} needs at least {times(low)} times fewer samples than {worse[0]}"
            return f"{about} {goal} (95% sure)."
        ends = ""
        if low and math.isfinite(high):
            ends = f"90%: {times(low)} to {times(high)}"
        elif low or math.isfinite(high):
            ends = f"95% sure: at {f'least {times(low)}' if low else f'most {times(high)}'}"
        if not self.likely:  # possible for other fits, which give an N without odds
            reach = min(plan.reach for plan in self._plans)
            ends = "; ".join(filter(None, (ends, f"if both reach it, chance {chance(reach)}")))
        ends = f" ({ends})" if ends else ""
        # As printed: "1 times fewer" would name a winner without a difference.
        if times(ratio) == "1":
            return f"{names} need about as many samples {goal}{ends}."
        least = "at least " * better[1].met_at_smallest + "at most " * worse[1].met_at_smallest
        factor = f"{least}{times(ratio)} times fewer"
        return f"{better[0]} needs {factor} samples than {worse[0]} {goal}{ends}."

    def ratio_words(self) -> str:
        """The ratio of samples with its interval; without a ratio, its known bound.

        Returns
        -------
        str
            Part of a sentence.
        """
        low, high = self.ratio_range or (0.0, math.inf)
        bound = f"at least {times(low)}" if math.isinf(high) else f"at most {times(high)}"
        bound = f"{bound} with 95% probability" if low or math.isfinite(high) else ""
        if self.ratio is None:
            return bound or "not known"
        if low and math.isfinite(high):
            bound = f"90%: {times(low)} to {times(high)}"
        return f"{times(self.ratio)}{self.open_end}" + (f" ({bound})" if bound else "")

    def brief(self) -> Message:
        """Who needs fewer samples, what to do with each model, and where the curves cross.

        Returns
        -------
        str
            One line for each, and one for what is odd about a pilot.
        """
        lines: list[str] = [self.saving()]
        for name, plan in zip(self.names, self._plans, strict=True):
            # The line begins with the name already.
            advice = plan.recommend().sentence.removeprefix(f"{plan.curve.model}: ")
            lines.append(f"{name}: {advice[0].lower()}{advice[1:]}")
        lines.append(self.crossing.explain())
        for name, plan in zip(self.names, self._plans, strict=True):
            if plan.findings:
                rest = len(plan.findings) - 1
                note = f" ({rest} more in full)" if rest else ""
                lines.append(Message(f"{name}: ", plan.findings[0], note))
        filled = [line for line in lines if line]
        return Message(filled[0], *(text for line in filled[1:] for text in ("\n", line)))

    def _unit_doubt(self) -> str:
        """A question where one model may have percent and the other fractions; else empty."""
        (low_name, low), (high_name, high) = sorted(
            zip(self.names, (plan.curve for plan in self._plans), strict=True),
            key=lambda pair: float(pair[1].means[-1]),
        )
        _, of_low, of_high = np.intersect1d(low.sizes, high.sizes, return_indices=True)
        ratios = high.means[of_high] / low.means[of_low]
        fractions = low.unit.law == "error" and low.means.max() < 1 < high.means.min()
        if not (fractions and ratios.size and ratios.min() > _LIKE_PERCENT):
            return ""
        return (
            f"All errors of {high_name} are above 1 and all of {low_name} below: if {high_name} is "
            "in percent, divide it by 100 and compare again."
        )

    def require(self) -> None:
        """Raise `UnreachableError` if no amount of data lets one of the two reach the target."""
        for name, plan in zip(self.names, self._plans, strict=True):
            advice = plan.recommend()
            if advice.action not in ("collect", "measure", "train"):
                why = advice.explain()
                raise UnreachableError(why if plan.curve.model else f"{name}: {why}")

    def explain(self) -> Message:
        """The comparison as a paragraph.

        Returns
        -------
        Message
            How many samples each model needs, why, and where the curves cross.
        """
        why = "The two factors of Proposition 1 are not defined at this target: it lies at or "
        why += "below the floor of a fitted line, or a line is flat."
        with suppress(KoriskError):
            factors = self.factors()
            why = "By lines floor + sigma log N / N, the ratio of N / log N is "
            floors = f"{times(factors.approximation_budget)} (distances of the floors from the"
            why += f"{times(factors.structural)} (sigmas) times {floors} target)."
        sentences = [self.saving(), self.headline(), why, self.crossing.explain()]
        for name, plan in zip(self.names, self._plans, strict=True):
            sentences += [Message(f"{name}: ", finding) for finding in plan.findings]
        return paragraph(sentences)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values, for JSON.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        factors: dict[str, dict[str, float | str]] = {}
        for fit in ("line", "paper"):
            try:
                line = self.factors(fit)
                names = "structural", "approximation_budget", "product"
                factors[fit] = {name: getattr(line, name) for name in names}
            except KoriskError as error:
                # Factors are of errors; say so where the user's values are something else.
                unit = self.first.curve.unit
                scale = "" if unit.law == "error" else f"as errors, made of {unit.name}: "
                factors[fit] = {"unknown": f"{scale}{error}"}
        first, second = self.names
        return {
            "target": self.target,
            "first": {"name": first, **self.first.to_dict()},
            "second": {"name": second, **self.second.to_dict()},
            "saving": self.saving(),
            "ratio": self.ratio,
            "ratio_range": self.ratio_range,
            "two_factors": factors,
            "crossover": self.crossover and asdict(self.crossover),
            "explanation": self.explain(),
        }


def compare(first: Curve, second: Curve, target: float, *, fit: str = DEFAULT_FIT) -> Comparison:
    """Compare two pilots, such as those of a known-operator and a dense network, at a target.

    Parameters
    ----------
    first, second : Curve
        The pilots, in the same metric and unit.
    target : float
        The error to reach, in that unit; it may be in the range of only one of the two.
    fit : str, default "posterior"
        One of `FITS`.

    Returns
    -------
    Comparison
        Both plans, the ratio of sample sizes, and where the curves cross.

    Raises
    ------
    KoriskError
        If metric or unit differ, or a pilot is too small.

    Examples
    --------
    >>> import korisk as kr
    >>> n, error = [16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125]
    >>> ko, fc = kr.Curve(n, error, model="KO"), kr.Curve(n, [4 * e for e in error], model="FC")
    >>> round(kr.compare(ko, fc, target=0.02).ratio)
    4
    """
    for pilot in (first, second):
        check_curve(pilot)
    if first.unit.law != second.unit.law or first.metric != second.metric:
        measures = [f"{pilot.metric!r} in unit {pilot.unit.name!r}" for pilot in (first, second)]
        rule = "have the same metric and the same unit"
        got = " and ".join(measures)
        raise invalid("compared curves", rule, measures, "read both alike", got=got)
    check_target([first, second], target)
    return Comparison(*(plan_from(forecast(pilot, fit=fit), target) for pilot in (first, second)))


def crossing(first: Curve, second: Curve) -> Crossing | None:
    """Where the better of two curves changes; None if they have no N in common."""
    shared = sorted(set(first.sizes.tolist()) & set(second.sizes.tolist()))
    if not shared:
        return None
    crossover = None
    if min(len(first.sizes), len(second.sizes)) >= LEAST_SIZES:
        # The crossover does not depend on the target; the lowest error is never refused as easy.
        lowest = first.unit.from_error(min(first.means.min(), second.means.min()))
        crossover = compare(first, second, float(lowest)).crossover
    ahead = [mean_at(second, n) < mean_at(first, n) for n in shared]
    return Crossing.of_means(crossover, shared, ahead, (first.model, second.model))


def mean_at(curve: Curve, n: int) -> float:
    """The mean error at one of the curve's N."""
    return float(curve.means[curve.sizes.tolist().index(n)])


def _about(plan: Plan, number: int | None, noun: str = "") -> str:
    """A number of samples with its probability, and the reach where that is below `SURE`."""
    most = "" if plan.reach >= SURE else f", at most {chance(plan.reach)} {plan.anywhere}"
    number = number or int(plan.curve.sizes[0])
    odds = f"chance {chance(plan.probability(number))}{most}"
    return f"{'at most' if plan.met_at_smallest else 'about'} {number:,}{noun} ({odds})"


def _coupling(first: Array, second: Array, correlation: Array | float) -> Array:
    """Density of a Gaussian copula at two normal scores."""
    rest = 1 - np.square(correlation)
    exponent = np.square(correlation) * (first**2 + second**2) - 2 * correlation * first * second
    return np.asarray(np.exp(-0.5 * exponent / rest) / np.sqrt(rest))


def _quantiles(
    over: Sequence[float], under: Sequence[float], correlation: float, levels: Sequence[float]
) -> Array:
    """Quantiles of log(over / under), where both are given by their quantiles at `_SHARES`."""
    from scipy.special import ndtri

    scores = ndtri(_SHARES)
    # Every pair of quantiles, weighted by the copula of the two forecasts.
    weight = _coupling(scores[:, None], scores[None, :], correlation).ravel()
    logs = np.subtract.outer(np.log(over), np.log(under)).ravel()
    order = np.argsort(logs, kind="stable")
    reached = np.cumsum(weight[order]) / weight.sum()
    places = np.minimum(np.searchsorted(reached, levels), len(logs) - 1)
    return np.asarray(logs[order][places])


@lru_cache(maxsize=32)  # half a second each; all targets and fits of two pilots share one
def odds_between(first: Forecast, second: Forecast, sizes: tuple[float, ...]) -> Array:
    """(M,) the probability that the second error is the lower one at each N."""
    from scipy.special import ndtri

    n = np.array(sizes)
    laws = first.law(n), second.law(n)
    ends = np.array([[law.quantile(p) for law in laws] for p in (1e-3, 1 - 1e-3)])
    low, high = ends[0].min(axis=0), ends[1].max(axis=0)
    logs = low + (high - low) * np.linspace(0, 1, _STEPS)[:, None]  # (steps, M) log errors
    below = [np.array([law.under(row) for row in logs]) for law in laws]
    # The bulk of a law may lie between two steps: place them where both laws grow equally.
    for column, values in enumerate((below[0] + below[1]).T):
        levels = np.linspace(values[0], values[-1], len(values))
        logs[:, column] = np.interp(levels, values, logs[:, column].copy())
    below = [np.array([law.under(row) for row in logs]) for law in laws]
    paired = paired_correlation(first.curve, second.curve)
    inside = n <= min(first.last, second.last)
    correlation = np.where(inside, paired, np.where(n > max(first.last, second.last), TOGETHER, 0))
    # The copula couples the cells of both laws: its density at the scores of their midpoints.
    masses, scores = [], []
    for reached in below:
        reached = np.concatenate([np.zeros((1, len(n))), reached, np.ones((1, len(n)))])
        masses.append(np.diff(reached, axis=0))
        scores.append(ndtri(np.clip(0.5 * (reached[1:] + reached[:-1]), 1e-6, 1 - 1e-6)))
    weight = _coupling(scores[0][:, None], scores[1][None, :], correlation)
    weight *= masses[0][:, None] * masses[1][None, :]  # (steps, steps, M)
    # Two errors in the same cell count half, as if either were as likely the lower one.
    cells = np.arange(len(weight))
    lower = np.sign(cells[:, None] - cells[None, :])[..., None]  # 1 where the second is lower
    return np.asarray((weight * 0.5 * (1 + lower)).sum(axis=(0, 1)) / weight.sum(axis=(0, 1)))


def first_above(n: Array, rising: Array, level: float) -> float:
    """The first N at which a quantity reaches a level, interpolated in log N."""
    above = np.flatnonzero(rising >= level)
    if not above.size:
        return math.inf
    index = int(above[0])
    if index == 0:
        return float(n[0])
    before, after = rising[index - 1], rising[index]
    fraction = (level - before) / (after - before)
    return float(np.exp(np.log(n[index - 1]) * (1 - fraction) + np.log(n[index]) * fraction))
