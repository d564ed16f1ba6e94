"""Numbers and pilots in plain words, and templates of the sentences that plans and pages share."""

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import collapsed, collapsed_sizes, relative_variance
from korisk.errors import Argument, Message
from korisk.planning.futures.posterior import ROUGHEST, Posterior

FAR = 64  # times the pilot, beyond which a number is a rough one
SURE = 0.95  # reach from which on the condition "if the target is reachable" is left out
EVEN = 0.5  # reach below which a target is probably not reached
_BEYOND_NOISE = 2.0  # standard errors by which a rise, a fall or a bend must exceed noise
_RISE_WITHOUT_SEEDS = 0.02
_GUESSED_NOISE = 0.02  # of a mean, relative, where every N has one seed
_LEAST_NOISE = 0.01  # of a mean, where a bend is judged: no smooth curve fits better than that
_LEAST_CHANGE = 0.02  # of the log error from end to end, below which nothing was learned
_MOST_OUTSIDE = 0.5  # of the seeds outside their 90% range; a tenth would be right
_OUTLYING = 4.0  # robust deviations from the median of its N
_OUTLYING_AT_LEAST = math.log(1.5)
_LISTED = 3  # findings of one kind that are told in full


# Answers, in templates: the page's table.js fills in the same names.
ANSWERS = {
    "inside": "The measured means{whose} meet the target {target} between N = {before} and "
    "{after}, at about {samples} (chance {chance}).",
    "unlikely": "{start} probably does not reach {target}: the chance is at most {reach} "
    "{anywhere}. If it does, it needs about {samples} samples, {far}; the overall chance that they "
    "are enough is {chance}.",
    "if_reachable": "To reach {target}, {model} needs about {samples} samples (chance {chance}), "
    "{far}, if the target is reachable (chance at most {reach}).",
    "beyond": "To reach {target}, {model} needs about {samples} samples (chance {chance}), {far}.",
    "rough": "So far beyond the pilot, only the order of magnitude is meaningful.",
    "interval": "With 90% probability it takes {lower} to {upper} samples.",
    "at_least": "With 95% probability it takes at least {lower} samples.",
    "unreachable": "{start} does not reach {target} according to this pilot: the chance to meet it "
    "by N = {horizon} is {reach}.",
    "not_known": "It is not known whether {model} reaches {target}: {why}. By the curves "
    "that fit the pilot, the chance to meet it by N = {horizon} is {reach}.",
    "smallest": "{start} meets {target} already at the pilot's smallest N = {samples} (chance "
    "{chance}).",
    "safe": "{safe} samples are enough with 90% probability.",
    "unsafe": "No amount of data gives 90% probability: {most}.",
    "unsafe_inside": "No N inside the pilot gives 90% probability: {most}.",
}


# --- Numbers -------------------------------------------------------------------------------------


def value(number: float) -> str:
    """An error, short."""
    return f"{number:.4g}"


def chance(p: float | None) -> str:
    """A probability, without claiming certainty."""
    if p is None or math.isnan(p):
        return "not known"
    if p < 0.01:
        return "below 1%"
    return "above 99%" if p > 0.99 else f"{p:.0%}"


def times(factor: float) -> str:
    """A factor, with two digits where that is few."""
    return f"{factor:,.0f}" if factor >= 10 else f"{factor:.2g}"


def count(n: float) -> str:
    """A number of samples, as it stands in a table."""
    return f"{n:,.0f}" if math.isfinite(n) else "∞"


def span(lower: float, upper: float) -> str:
    """An interval of numbers of samples, as it stands in a sentence."""
    if math.isinf(upper):
        return f"at least {count(lower)}"
    return f"{count(lower)} to {count(upper)}"


def paragraph(sentences: Iterable[str]) -> Message:
    """Sentences with a space between, which still know the arguments that they name."""
    return Message(*[part for said in sentences for part in (" ", said)][1:])


# --- A pilot -------------------------------------------------------------------------------------


def rises(curve: Curve) -> list[int]:
    """Indices of the sizes at which the mean rises, by more than the noise of the seeds."""
    variance = relative_variance(curve)
    steps = np.diff(np.log(curve.means))
    if variance is None:
        least = np.full(len(steps), _RISE_WITHOUT_SEEDS)
    else:
        least = _BEYOND_NOISE * np.sqrt(variance[1:] + variance[:-1])
    found: list[int] = (1 + np.flatnonzero(steps > np.maximum(least, 1e-9))).tolist()
    return found


def outliers(curve: Curve) -> dict[int, float]:
    """Rows of seeds far from the median of their N, and their factor of it; at least four a N.

    Far is measured by the spread of all seeds.
    """
    away, judged = np.zeros(len(curve)), []
    for n in curve.sizes:
        rows = np.flatnonzero(curve.n == n)
        logs = np.log(curve.error[rows])
        away[rows] = logs - np.median(logs)
        judged += rows.tolist() if len(rows) >= 4 else []
    if not judged:
        return {}
    least = max(_OUTLYING * 1.4826 * np.median(np.abs(away[judged])), _OUTLYING_AT_LEAST)
    return {row: float(np.exp(away[row])) for row in judged if abs(away[row]) > least}


def findings(curve: Curve) -> tuple[str, ...]:
    """Sentences on what a reader of the plan should know of its pilot."""
    sizes = curve.sizes
    rising = [
        f"This curve is not monotone at N = {sizes[at]}: the mean there, {_mean(curve, at)}, is "
        f"worse than {_mean(curve, at - 1)} at N = {sizes[at - 1]}."
        for at in rises(curve)
    ]
    outlying = [
        f"Seed {curve.seed[row]} is an outlier at N = {curve.n[row]}: its error is {factor:.2g} "
        "times the median of the seeds."
        for row, factor in outliers(curve).items()
    ]
    said = []
    for kind, found in (("rises", rising), ("outliers", outlying)):
        more = [f"There are {len(found) - _LISTED} more {kind}."] if len(found) > _LISTED else []
        said += found[:_LISTED] + more
    if no_learning(curve):
        said.insert(  # first, since it may mean that the unit is another one
            0,
            Message(
                f"No learning from N = {sizes[0]:,} to {sizes[-1]:,} may mean that training is too "
                "short, that test data leak into it, or that larger values are better in this "
                "metric (then say so with ",
                Argument("unit", ...),
                f"); or that all that can be learned is learned at N = {sizes[0]:,}.",
            ),
        )
    if relative_variance(curve) is None:
        said.append("With one seed at every N, the noise is guessed: repeat with other seeds.")
    elif int(curve.counts.min()) < 3:
        said.append("Fewer than three seeds at some N say little of the noise: add seeds.")
    if sizes[-1] < 4 * sizes[0]:
        said.append(
            f"The pilot spans a factor of {sizes[-1] / sizes[0]:.2g} in N only; "
            "its trend is a guess: measure smaller sizes too, they are cheap."
        )
    return tuple(said)


@lru_cache(maxsize=32)  # asked for every target
def no_learning(curve: Curve) -> bool:
    """Whether the error falls no more than noise explains, neither from end to end nor by trend.

    The trend is a straight line of the log error over log N, weighted by the noise: a first size
    that scatters hides no fall of the others. A pilot that fell before it became flat has learned.
    """
    rise, least = _change(curve)
    slope, deviation = _coefficient(curve, 1, 0.0)
    span = math.log(curve.sizes[-1] / curve.sizes[0])
    trend = max(_BEYOND_NOISE * deviation * span, _LEAST_CHANGE)
    return -rise <= least and -slope * span <= trend


@lru_cache(maxsize=32)
def no_floor(curve: Curve) -> str:
    """Why a pilot does not show that its error levels off; empty where it does.

    It does where most sizes have two seeds, and the log error over log N bends upward, by a
    parabola, by more than two standard errors.
    """
    if no_learning(curve):
        ends = " to ".join(f"{_mean(curve, k)} at N = {curve.sizes[k]:,}" for k in (0, -1))
        return f"the pilot shows no learning beyond its noise, from {ends}"
    if np.mean(curve.counts > 1) <= 0.5:
        return "most sizes have a single seed, which cannot tell a floor from noise"
    bend, deviation = _coefficient(curve, 2, _LEAST_NOISE) if len(curve.sizes) > 2 else (0.0, 0.0)
    if bend > _BEYOND_NOISE * deviation:
        return ""
    return "the pilot falls as fast at its end as at its start, up to noise, and shows no floor"


def _change(curve: Curve) -> tuple[float, float]:
    """How far the log error rises from the first mean to the last, and what noise explains."""
    noise = _noise(curve)
    least = max(_BEYOND_NOISE * math.sqrt(noise[0] + noise[-1]), _LEAST_CHANGE)
    return math.log(curve.means[-1] / curve.means[0]), least


def _coefficient(curve: Curve, degree: int, least: float) -> tuple[float, float]:
    """The leading coefficient of a polynomial of log error over log N, and its standard error."""
    deviations = np.sqrt(np.maximum(_noise(curve), max(least, 1e-6) ** 2))
    at = np.log(curve.sizes / curve.sizes[-1])
    fitted, covariance = np.polyfit(
        at, np.log(curve.means), degree, w=1 / deviations, cov="unscaled"
    )
    return float(fitted[0]), math.sqrt(covariance[0, 0])


def _noise(curve: Curve) -> NDArray[np.float64]:
    """(K,) the relative variance of each mean, guessed where every N has one seed."""
    noise = relative_variance(curve)
    return np.full(len(curve.sizes), _GUESSED_NOISE**2) if noise is None else noise


def doubt(curve: Curve, made: Posterior) -> str:
    """Why a pilot cannot be extrapolated, as a sentence; empty where it can."""
    sizes, last, noise = curve.sizes, f"N = {curve.sizes[-1]:,}", relative_variance(curve)
    lost, (rise, least) = collapsed_sizes(curve), _change(curve)
    gone = int((collapsed(curve) & (curve.n == sizes[-1])).sum())
    if gone:
        why = f"at {last}, {gone} of {curve.counts[-1]} seeds fell to rounding, where no learning "
        why += "curve continues"
    elif lost.any():
        why = f"at N = {sizes[lost][0]:,} every seed fell to rounding, and at {last} none did"
    elif rise > least:
        why = f"with more data it gets worse, from {_mean(curve, 0)} at N = {sizes[0]:,} to "
        why += f"{_mean(curve, -1)} at {last}"
    elif noise is not None and _seeds_outside(curve, made, noise) > _MOST_OUTSIDE:
        why = "most single seeds lie outside what the fitted curves and the spread of the seeds "
        why += "explain, so that their means are not typical"
    elif made.roughness > ROUGHEST:
        steps = np.diff(np.log(curve.means))
        at = int(np.argmax(np.abs(steps - np.median(steps))))
        why = f"from N = {sizes[at]:,} to {sizes[at + 1]:,} the mean goes from {_mean(curve, at)} "
        why += f"to {_mean(curve, at + 1)}, which neither a smooth curve nor the noise of the "
        why += "seeds explains; what follows such a step is not known"
    else:
        return ""
    return f"The curve cannot be extrapolated: {why}."


def _seeds_outside(curve: Curve, made: Posterior, noise: NDArray[np.float64]) -> float:
    """The share of single seeds outside the 90% range that the posterior has for one seed.

    A seed's error is log-normal around the curve, with the relative variance of its N.
    """
    mean, variance = made.moments(curve.sizes.astype(float))
    centre = made.weight @ mean
    seed = np.log1p(noise * curve.counts)
    spread = np.sqrt(made.weight @ (variance + (mean - centre) ** 2) + seed)
    at = np.searchsorted(curve.sizes, curve.n)
    away = np.abs(np.log(curve.error) - (centre - 0.5 * seed)[at])
    return float(np.mean(away > 1.645 * np.maximum(spread, 1e-5)[at]))


def _mean(curve: Curve, at: int) -> str:
    """The mean at the size of an index, in the user's unit."""
    return value(float(curve.unit.from_error(curve.means[at])))
