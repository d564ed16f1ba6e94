"""Compare two plans: the ratio of their sample sizes, and where their curves cross."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk._show import Shown
from korisk.curves.curve import Curve
from korisk.curves.noise import paired_correlation
from korisk.errors import Message, invalid
from korisk.planning import words
from korisk.planning.forecast import LEAST_SIZES, Source, check_curve, check_target
from korisk.planning.plan import Plan, forecast, has_numbers, sample_cells, sample_heads
from korisk.planning.recommend import LEVELS, Chances
from korisk.texts import Table, number

Array = NDArray[np.float64]

FARTHEST = 64  # times the larger pilot: largest N of the search for a crossover
_CLEAR = 0.75  # probability from which on one curve counts as the better one
_STEPS = 40  # grid points of the error at which two distributions are compared
_FEW = 40  # measured sizes up to which odds are computed at all of them
_NEVER = 1e12  # times the horizon: N of futures that do not meet the target
_LIKE_PERCENT = 20.0  # ratio of errors: percent is 100 times a fraction, models differ by 5 times
_SHARES = np.arange(0.005, 1.0, 0.01)  # levels of the quantiles that represent a distribution
_MOST_ALIKE = 0.95  # correlation of two forecasts from the same images, at most
# By which the logarithm of a ratio's interval beyond a pilot is widened, since it held .81 of true
# ratios; now .87 (`python -m benchmarks.planner.odds`, ratios).
WIDER = 1.25


@dataclass(frozen=True)
class Crossover:
    """Where the curve that is better at small N becomes the worse one.

    Parameters
    ----------
    n : int
        The N at which the curves cross, approximately.
    lower, upper : float
        The N at which the probability that the other model is better passes 5% and 95%; `upper` is
        infinite where it never does.
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

    def explain(self) -> str:
        """Where the curves cross, in a sentence.

        Returns
        -------
        str
            The N, its range, and which model is better from there on.
        """
        where = "within the pilots" if self.measured else "by extrapolation"
        ends = words.span(self.lower, self.upper)
        return words.reason("crosses", where=where, ends=ends, **vars(self))


@dataclass(frozen=True)
class Crossing:
    """Where two models change their order: by the extrapolation, and by the measured means."""

    crossover: Crossover | None  # None where the means contradict it
    means: tuple[int, int] | None  # the N between which they change their order
    better: str  # the model with the lower mean at `last`; empty for equal curves
    last: int  # the largest N of both
    sizes: int  # that both have, or that lie between those of one
    explanation: str


@dataclass(frozen=True)
class Comparison(Shown):
    """Two plans for one target, such as a known-operator and a dense network. Made by `compare`.

    Parameters
    ----------
    first, second : Plan
        The plans of the two curves.

    Examples
    --------
    >>> import korisk as kr
    >>> n, error = [16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125]
    >>> ko, fc = kr.Curve(n, error, model="KO"), kr.Curve(n, [4 * e for e in error], model="FC")
    >>> comparison = kr.compare(ko, fc, target=0.06)
    >>> comparison.names, round(comparison.ratio)
    (('KO', 'FC'), 4)
    """

    first: Plan
    second: Plan

    @property
    def target(self) -> float:
        """The target, in the user's unit."""
        return self.first.target

    @property
    def names(self) -> tuple[str, str]:
        """The models of the two plans; "first" and "second" if these are empty or equal."""
        # Sentences name the models; two equal names would make them ambiguous.
        names = self.first.forecast.model, self.second.forecast.model
        return names if all(names) and names[0] != names[1] else ("first", "second")

    @property
    def ratio(self) -> float | None:
        """Samples of the second over samples of the first at even odds; None if not known.

        Where a model meets the target at its smallest N, fewer samples may be enough, and the ratio
        is a bound; where both do, it is not known.
        """
        first, second = self.first.even, self.second.even
        both = self.first.met_at_smallest and self.second.met_at_smallest
        return None if first is None or second is None or both else second / first

    @cached_property
    def ratio_range(self) -> tuple[float, float] | None:
        """The 90% range of the ratio; None where neither end is known.

        If both models have a number of samples, the 90% interval over all futures; an end is 0 or
        infinity where one model never meets the target in too many of them. If the first meets it
        at its smallest N, or the second has no number, a 95% lower bound and infinity. In the
        opposite case, 0 and a 95% upper bound.
        """
        plans = self._plans
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
            # Cut at the horizon, so that the bound holds whatever happens beyond it.
            at_most = smaller.chances.each_first(_SHARES)
            needed = np.minimum(larger.chances.each_first(_SHARES), larger.forecast.horizon)
            least = float(np.exp(_quantiles(needed, at_most, self.together, (0.05,)).item()))
            if not least:
                return None
            return (least, math.inf) if smaller is plans[0] else (0.0, 1 / least)
        # Futures without an answer get an N so large that a quantile which falls on one is seen.
        first, second = (
            np.minimum(plan.chances.each_first(_SHARES), _NEVER * plan.forecast.horizon)
            for plan in plans
        )
        low, high = np.exp(_quantiles(second, first, self.together, (0.05, 0.95)))
        # A ratio beyond the root can only come from a future without an answer.
        never = math.sqrt(_NEVER)
        if low < 1 / never and high > never:
            return None
        middle, wider = self.ratio or 1.0, WIDER if any(self._beyond) else 1.0
        lower, upper = (middle * (float(end) / middle) ** wider for end in (low, high))
        return (0.0 if low < 1 / never else lower), (math.inf if high > never else upper)

    @cached_property
    def together(self) -> float:
        """Correlation between the errors of both forecasts, in normal scores.

        Inside the pilots, the seeds that both share give an estimate; beyond, none is taken.
        """
        (images, level), (other_images, other_level) = (p.forecast.shared for p in self._plans)
        if images and images == other_images:
            # The share of both variances that is due to the images.
            spreads = [_spread(plan) for plan in self._plans]
            return float(min(level * other_level / math.prod(spreads), _MOST_ALIKE))
        if any(self._beyond):
            return 0.0
        return paired_correlation(self.first.forecast.evidence, self.second.forecast.evidence)

    @property
    def _beyond(self) -> list[bool]:
        """Whether each model needs more samples than are known of it."""
        return [plan.even is None or plan.even > plan.forecast.last for plan in self._plans]

    @property
    def _plans(self) -> tuple[Plan, Plan]:
        return self.first, self.second

    @cached_property
    def crossover(self) -> Crossover | None:
        """The last N at which the better of the two changes, as far as the pilots show.

        Only a change from odds of three to one for one model to three to one for the other counts:
        curves that are hard to tell apart change their order all the time.
        """
        # Odds are computed at the measured N, and at three N per doubling.
        plans = self._plans
        start = max(int(plan.forecast.evidence.sizes[0]) for plan in plans)
        horizon = min(plan.forecast.horizon for plan in plans)
        end = min(FARTHEST * max(plan.forecast.last for plan in plans), horizon)
        doublings = math.log2(max(end / start, 1.0))
        n = start * 2.0 ** np.linspace(0, doublings, 2 + int(3 * doublings))
        sizes = np.concatenate([plan.forecast.evidence.sizes for plan in plans]).astype(float)
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
        low = Chances(n[begin:], odds[begin:]).first(0.05)
        later = Chances(n[turn:], odds[turn:])
        crossing_n, high = later.first(0.5), later.first(0.95)
        if math.isinf(crossing_n):
            return None
        measured = crossing_n <= min(plan.forecast.measured for plan in plans)
        return Crossover(round(crossing_n), low, high, self.names[1 - falls], measured)

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
        sizes = tuple(np.atleast_1d(np.asarray(n, dtype=float)).tolist())
        views = ((plan.forecast.source, plan.forecast.evidence) for plan in self._plans)
        return odds_between(*views, sizes).copy()

    @property
    def crossing(self) -> Crossing:
        """Where the better of the two changes, by the crossover and by the measured means."""
        curves = [plan.forecast.evidence for plan in self._plans]
        return crossing_of(self.crossover, curves, self.names)

    @property
    def likely(self) -> bool:
        """Whether both reach the target with at least even odds, so that a ratio is meaningful."""
        return all(plan.reach >= 0.5 for plan in self._plans)

    def saving(self) -> str:
        """Which of the two needs fewer samples, and how many times fewer, in a sentence.

        Returns
        -------
        str
            Their ratio (at least 1), and how sure it is. Before it a question, where one model may
            be in percent and the other not.

        Examples
        --------
        >>> import korisk as kr
        >>> n, error = [16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125]
        >>> ko, fc = kr.Curve(n, error, model="KO"), kr.Curve(n, [4 * e for e in error], model="FC")
        >>> kr.compare(fc, ko, target=0.02).saving()
        'KO needs 4 times fewer samples than FC for 0.02 (90% range: 3... to 4... times).'
        """
        pairs = list(zip(self.names, self._plans, strict=True))
        if limited := [name for name, plan in pairs if plan.forecast.undertrained]:
            saving = words.reason("limited", names=" and ".join(limited))
        else:
            index, ratio, ends = self._fewer
            names = self.names[index], self.names[1 - index]
            saving = words.times_fewer(names, self.target, ratio, ends)
        views = [plan.forecast for plan in self._plans]
        rehearsed = "Simulated" * all(view.basis == "rehearsal" for view in views)
        start = words.subject("", max(view.population for view in views)) or rehearsed
        return " ".join(filter(None, (self._unit_doubt(), start and f"{start}:", saving)))

    @cached_property
    def _fewer(self) -> tuple[int, float | None, tuple[float, float]]:
        """Which of the two needs fewer samples, how many times fewer, and the range of that."""
        # An unknown range is the widest one, so that its ends are left out of sentences.
        (low, high), ratio = self.ratio_range or (0.0, math.inf), self.ratio
        if any(plan.met_at_smallest for plan in self._plans):  # a bound
            ratio = None
        if (ratio or (low if math.isinf(high) else high)) >= 1:
            return 0, ratio, (low, high)
        ends = (0.0 if math.isinf(high) else 1 / high), (1 / low if low else math.inf)
        return 1, ratio and 1 / ratio, ends

    @property
    def better(self) -> int | None:
        """The index of the model to act on first: to be trained longer, or that needs fewer."""
        for index, plan in enumerate(self._plans):
            if plan.forecast.longer and plan.recommend().action == "train":
                return index
        index, ratio, (low, high) = self._fewer
        known = low > 1 if ratio is None else bool(low) or math.isfinite(high)
        limited = any(plan.forecast.undertrained for plan in self._plans)
        return index if known and not limited and words.times(ratio or 2.0) != "1" else None

    @property
    def record(self) -> str:
        """How often such ranges held, or what is not known; or empty."""
        views = [plan.forecast for plan in self._plans]
        if any(view.population for view in views):
            return words.SIMULATED_ALONE
        record = words.SIMULATED * all(view.basis == "rehearsal" for view in views)
        if self.ratio and all(view.basis == "pilot" for view in views):
            record = words.record("ratio", words.HELD["ratio"])
        return record

    def _unit_doubt(self) -> str:
        """A question where one model may have percent and the other fractions; else empty."""
        models = zip(self.names, (plan.forecast.evidence for plan in self._plans), strict=True)
        (low_name, low), (high_name, high) = sorted(models, key=lambda pair: pair[1].means[-1])
        _, of_low, of_high = np.intersect1d(low.sizes, high.sizes, return_indices=True)
        ratios = high.means[of_high] / low.means[of_low]
        fractions = low.unit.law == "error" and low.means.max() < 1 < high.means.min()
        if not (fractions and ratios.size and ratios.min() > _LIKE_PERCENT):
            return ""
        return words.reason("percent", low=low_name, high=high_name)

    def explain(self, *, full: bool = False) -> Message:
        """The comparison in lines: the ratio, what to do next, its record, where they cross.

        Parameters
        ----------
        full : bool, default False
            List all that is odd about the pilots, and not the first alone.

        Returns
        -------
        Message
            One line for each.
        """
        step, *of_models = self.steps()
        lines = [self.saving(), step, self.record, *of_models, self.crossing.explanation]
        for name, plan in zip(self.names, self._plans, strict=True):
            lines += [Message(f"{name}: ", text) for text in plan.oddities(full=full)]
        return words.paragraph([line for line in lines if line], "\n")

    def steps(self, sure: float = 0.9) -> list[str]:
        """What to do next, and the answers of both models, in sentences.

        Parameters
        ----------
        sure : float, default 0.9
            The requested probability.

        Returns
        -------
        list of str
            First the step with a model that is to be trained longer, or that needs fewer samples,
            or that neither clearly does; then a line for each model, beginning with that one.
        """
        pairs = zip(self.names, self._plans, strict=True)
        lines, first = [advice_line(*pair, sure, self.record) for pair in pairs], self.better
        if first is None:
            return [words.NEXT_EACH, *lines]
        step = words.parts(self._plans[first].recommend(sure).sentence)[1]
        lines.insert(0, lines.pop(first).replace(f" {step}", ""))  # it stands in the first line
        lines = [line.replace(words.NEXT, words.IF_CHOSEN) for line in lines]
        return [step.replace(":", f", with {self.names[first]}:", 1), *lines]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values, for JSON.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        return {
            "target": self.target,
            "first": {"name": self.names[0], **self.first.to_dict()},
            "second": {"name": self.names[1], **self.second.to_dict()},
            "saving": self.saving(),
            "record": self.record,
            "ratio": self.ratio,
            "ratio_range": self.ratio_range,
            "crossover": self.crossover and asdict(self.crossover),
            "explanation": self.explain(full=True),
        }


def compare(first: Curve, second: Curve, target: float) -> Comparison:
    """Compare two pilots, such as those of a known-operator and a dense network, at a target.

    Parameters
    ----------
    first, second : Curve
        The pilots, in the same metric and unit.
    target : float
        The error to reach, in that unit; it may be in the range of only one of the two.

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
    return Comparison(*(Plan(forecast(pilot), float(target)) for pilot in (first, second)))


def advice_line(name: str, plan: Plan, sure: float = 0.9, shared: str = "") -> str:
    """The advice on one of several models, with its odds, and its record unless that is shared."""
    advice = plan.recommend(sure)
    # The line begins with the name already.
    text = advice.answer.removeprefix(f"{plan.forecast.subject}: ")
    record = f" {advice.record}" if advice.record not in ("", shared) else ""
    return f"{name}: {text[0].lower()}{text[1:]}{record}"


def comparison_tables(comparison: Comparison, *, full: bool = False) -> Iterator[Table]:
    """The sample sizes of two models, as `plan_tables` has those of plans."""
    plans = zip(comparison.names, (comparison.first, comparison.second), strict=True)
    levels = LEVELS if full else (0.9,)
    rows = [[name, *sample_cells(plan, levels)] for name, plan in plans if has_numbers(plan)]
    if rows:
        title = f"Samples for {number(comparison.target)}" if full else ""
        yield Table(title, ["model", *sample_heads(levels)], rows)


def crossing(first: Curve, second: Curve) -> Crossing | None:
    """Where the better of two curves changes; None if their N do not overlap."""
    crossover, remark = None, f" At least {LEAST_SIZES} sizes are needed to extrapolate."
    if min(len(first.sizes), len(second.sizes)) >= LEAST_SIZES:
        # The crossover does not depend on the target; the lowest error is never refused as easy.
        lowest = first.unit.from_error(min(first.means.min(), second.means.min()))
        crossover, remark = compare(first, second, float(lowest)).crossover, ""
    found = crossing_of(crossover, (first, second), (first.model, second.model))
    return replace(found, explanation=found.explanation + remark) if found.sizes else None


def crossing_of(cross: Crossover | None, curves: Sequence[Curve], names: Sequence[str]) -> Crossing:
    """The crossing of two curves; at a size that one lacks, its mean is interpolated."""
    start, end = (pick(c.sizes[k] for c in curves) for pick, k in ((max, 0), (min, -1)))
    sizes = np.unique(np.concatenate([curve.sizes for curve in curves]))
    sizes = sizes[(sizes >= start) & (sizes <= end)]
    first, second = (
        np.interp(np.log(sizes), np.log(curve.sizes), np.log(curve.means)) for curve in curves
    )
    n, ahead = sizes.tolist(), (second < first).tolist()
    # Of several changes of order, report the one at the crossover, or else the last.
    turns = [(n[k - 1], n[k]) for k in range(1, len(n)) if ahead[k] != ahead[k - 1]]
    at_cross = [turn for turn in turns if cross is not None and turn[0] <= cross.n <= turn[1]]
    means, last = next(iter(at_cross + turns[::-1]), None), max(n, default=0)
    better = "" if np.allclose(first, second) else names[ahead[-1]]
    # Inside the pilots, the means must change their order at the crossover; beyond them, the model
    # that becomes better must not have the lower mean already.
    if cross is not None and better:
        denied = not at_cross if cross.measured else better == cross.better_after
        cross = None if denied else cross
    sentence = words.not_crossing(better, last, means) if cross is None else cross.explain()
    return Crossing(cross, means, better, last, len(n), sentence)


def mean_at(curve: Curve, n: int) -> float:
    """The mean error at one of the curve's N."""
    return float(curve.means[curve.sizes.tolist().index(n)])


def _spread(plan: Plan) -> float:
    """The deviation of the log error where the target is as likely met as not."""
    law = plan.forecast.law(np.array([float(plan.even or plan.forecast.last)]))
    return float((law.quantile(0.95) - law.quantile(0.05)).item() / (2 * 1.645))


def _coupling(first: Array, second: Array, correlation: Array | float) -> Array:
    """Density of a Gaussian copula at two normal scores."""
    rest = 1 - np.square(correlation)
    exponent = np.square(correlation) * (first**2 + second**2) - 2 * correlation * first * second
    return np.asarray(np.exp(-0.5 * exponent / rest) / np.sqrt(rest))


def _quantiles(over: Array, under: Array, correlation: float, levels: Sequence[float]) -> Array:
    """Quantiles of log(over / under), where both are given by their quantiles at `_SHARES`."""
    from scipy.special import ndtri

    scores = ndtri(_SHARES)
    # Every pair of quantiles, weighted by the copula of the two forecasts.
    weight = _coupling(scores[:, None], scores[None, :], correlation).ravel()
    logs = np.subtract.outer(np.log(over), np.log(under)).ravel()
    order = np.argsort(logs, kind="stable")
    # Each pair stands at the middle of its share, so that swapped curves have mirrored quantiles.
    reached = (np.cumsum(weight[order]) - 0.5 * weight[order]) / weight.sum()
    return np.interp(levels, reached, logs[order])


@lru_cache(maxsize=32)  # half a second each; all targets of two pilots share one
def odds_between(
    first: tuple[Source, Curve], second: tuple[Source, Curve], sizes: tuple[float, ...]
) -> Array:
    """(M,) the probability that the second error is the lower one at each N."""
    from scipy.special import ndtri

    n = np.array(sizes)
    laws, curves = [source.law(n) for source, _ in (first, second)], (first[1], second[1])
    ends = np.array([[law.quantile(p) for law in laws] for p in (1e-3, 1 - 1e-3)])
    low, high = ends[0].min(axis=0), ends[1].max(axis=0)
    logs = low + (high - low) * np.linspace(0, 1, _STEPS)[:, None]  # (steps, M) log errors
    below = [np.array([law.under(row) for row in logs]) for law in laws]
    # The bulk of a law may lie between two steps: place them where both laws grow equally.
    for column, values in enumerate((below[0] + below[1]).T):
        levels = np.linspace(values[0], values[-1], len(values))
        logs[:, column] = np.interp(levels, values, logs[:, column].copy())
    below = [np.array([law.under(row) for row in logs]) for law in laws]
    last = min(curve.sizes[-1] for curve in curves)
    correlation = np.where(n <= last, paired_correlation(*curves), 0.0)
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
