"""What is odd about a pilot, and whether it can be extrapolated."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import collapsed, collapsed_sizes, mean_variance, relative_variance
from korisk.errors import Argument, Message
from korisk.planning.futures.posterior import ROUGHEST, Posterior
from korisk.planning.words import value

_BEYOND_NOISE = 2.0  # standard errors by which a rise, a fall or a bend must exceed noise
_LEAST_NOISE = 0.01  # the same for judging a bend: no smooth curve fits better than that
_LEAST_CHANGE = 0.02  # of the log error from end to end, below which nothing was learned
_MOST_OUTSIDE = 0.5  # of the seeds outside their 90% range; a tenth is expected
_OUTLYING = 4.0  # robust standard deviations from the median of its N
_OUTLYING_AT_LEAST = math.log(1.5)  # seeds that agree closely have no outlier below this factor
_LISTED = 3  # findings of one kind that are listed in full
_COPIED = 3  # sizes at which seeds must agree in every digit to be taken for copies


def rises(curve: Curve) -> list[int]:
    """Indices of the sizes at which the mean rises by more than the noise of the seeds."""
    # In logs, because noise is relative: a mean's relative variance is that of its logarithm.
    variance, steps = mean_variance(curve), np.diff(np.log(curve.means))
    least = _BEYOND_NOISE * np.sqrt(variance[1:] + variance[:-1])
    indices: list[int] = (1 + np.flatnonzero(steps > np.maximum(least, 1e-9))).tolist()
    return indices


def outliers(curve: Curve) -> dict[int, float]:
    """Rows of outlying seeds, and their factor to the median of their N.

    The spread of all seeds sets the scale. An N with fewer than four seeds has no outliers.
    """
    residual, judged = np.zeros(len(curve)), []
    for n in curve.sizes:
        rows = np.flatnonzero(curve.n == n)
        logs = np.log(curve.error[rows])
        residual[rows] = logs - np.median(logs)
        judged += rows.tolist() if len(rows) >= 4 else []
    if not judged:
        return {}
    # 1.4826 times the median absolute deviation is the standard deviation of a normal law.
    least = max(_OUTLYING * 1.4826 * np.median(np.abs(residual[judged])), _OUTLYING_AT_LEAST)
    return {row: float(np.exp(residual[row])) for row in judged if abs(residual[row]) > least}


def findings(curve: Curve) -> tuple[str, ...]:
    """Sentences on what a reader of the plan should know about its pilot."""
    sizes = curve.sizes
    rising = [
        f"This curve is not monotone at N = {sizes[k]}: the mean there, {_mean(curve, k)}, is "
        f"worse than {_mean(curve, k - 1)} at N = {sizes[k - 1]}."
        for k in rises(curve)
    ]
    outlying = [
        f"Seed {curve.seed[row]} is an outlier at N = {curve.n[row]}: its error is {factor:.2g} "
        "times the median of the seeds."
        for row, factor in outliers(curve).items()
    ]
    sentences = []
    for kind, texts in (("rises", rising), ("outliers", outlying)):
        rest = [f"There are {len(texts) - _LISTED} more {kind}."] if len(texts) > _LISTED else []
        sentences += texts[:_LISTED] + rest
    if no_learning(curve):
        no_gain = Message(
            f"No learning from N = {sizes[0]:,} to {sizes[-1]:,} may mean that training is too "
            "short, that test data leak into it, or that larger values are better in this metric "
            "(then say so with ",
            Argument("unit", ...),
            f"), or that the network has learned all it can at N = {sizes[0]:,} already.",
        )
        sentences.insert(0, no_gain)  # first, because a wrong unit makes the rest meaningless
    if copies := _copies(curve):
        labels = ", ".join(copies[:_LISTED]) + ", ..." * (len(copies) > _LISTED)
        sentences.append(
            f"Seeds {labels} have the same error at every N: if they are copies of one run, or the "
            "seed is not used, they do not measure the noise; leave all but one of them out."
        )
    if relative_variance(curve) is None:
        sentences.append("With one seed at every N, the noise is guessed: repeat with other seeds.")
    elif int(curve.counts.min()) < 3:
        noise = "Some N have fewer than three seeds, so the noise is poorly estimated; add seeds."
        sentences.append(noise)
    if sizes[-1] < 4 * sizes[0]:
        sentences.append(
            f"The pilot spans a factor of {sizes[-1] / sizes[0]:.2g} in N only; "
            "its trend is a guess: measure smaller sizes too, they are cheap."
        )
    return tuple(sentences)


@lru_cache(maxsize=32)  # needed for every target
def _copies(curve: Curve) -> tuple[str, ...]:
    """The first seeds with equal errors at all their N, as after rows were pasted twice."""
    runs: dict[str, list[tuple[float, float]]] = {seed: [] for seed in curve.seeds}
    for seed, n, error in zip(curve.seed, curve.n.tolist(), curve.error.tolist(), strict=True):
        runs[seed].append((n, error))
    alike: dict[tuple[tuple[float, float], ...], list[str]] = {}
    for seed, run in runs.items():
        if len(run) >= _COPIED:
            alike.setdefault(tuple(run), []).append(seed)
    return next((tuple(seeds) for seeds in alike.values() if len(seeds) > 1), ())


@lru_cache(maxsize=32)  # needed for every target
def no_learning(curve: Curve) -> bool:
    """Whether the error falls within noise, both from end to end and by its trend.

    The trend is a straight line of the log error over log N, weighted by the noise, so that a
    scattered first size does not hide the fall of the others. A pilot that falls and then is flat
    has learned.
    """
    # Both must show no fall: a scattered first size hides one from the ends, and a pilot that is
    # flat after its first sizes hides it from the line.
    rise, least = _change(curve)
    slope, deviation = _coefficient(curve, 1, 0.0)
    span = math.log(curve.sizes[-1] / curve.sizes[0])
    trend = max(_BEYOND_NOISE * deviation * span, _LEAST_CHANGE)
    return -rise <= least and -slope * span <= trend


@lru_cache(maxsize=32)
def no_floor(curve: Curve) -> str:
    """Why a pilot does not show that its error levels off; empty where it does.

    It does where most sizes have two seeds and the log error is convex in log N: the quadratic
    coefficient of a parabola exceeds zero by more than two standard errors.
    """
    if no_learning(curve):
        ends = " to ".join(f"{_mean(curve, k)} at N = {curve.sizes[k]:,}" for k in (0, -1))
        return f"the pilot shows no learning beyond its noise, from {ends}"
    if np.mean(curve.counts > 1) <= 0.5:
        return "most sizes have a single seed, which cannot tell a floor from noise"
    if len(curve.sizes) > 2:
        bend, deviation = _coefficient(curve, 2, _LEAST_NOISE)
        if bend > _BEYOND_NOISE * deviation:
            return ""
    return "the pilot falls as fast at its end as at its start, up to noise, and shows no floor"


def _change(curve: Curve) -> tuple[float, float]:
    """The rise of the log error from the first mean to the last, and the part noise explains."""
    noise = mean_variance(curve)
    least = max(_BEYOND_NOISE * math.sqrt(noise[0] + noise[-1]), _LEAST_CHANGE)
    return math.log(curve.means[-1] / curve.means[0]), least


def _coefficient(curve: Curve, degree: int, least: float) -> tuple[float, float]:
    """The leading coefficient of a polynomial of log error in log N, and its standard error."""
    weights = 1 / np.sqrt(np.maximum(mean_variance(curve), max(least, 1e-6) ** 2))
    x, y = np.log(curve.sizes / curve.sizes[-1]), np.log(curve.means)
    fitted, covariance = np.polyfit(x, y, degree, w=weights, cov="unscaled")
    return float(fitted[0]), math.sqrt(covariance[0, 0])


def doubt(curve: Curve, posterior: Posterior) -> str:
    """Why a pilot cannot be extrapolated, as a sentence; empty where it can."""
    # From the gravest reason to the mildest; the first that applies is reported.
    sizes, last, noise = curve.sizes, f"N = {curve.sizes[-1]:,}", relative_variance(curve)
    all_collapsed, (rise, least) = collapsed_sizes(curve), _change(curve)
    collapsed_count = int((collapsed(curve) & (curve.n == sizes[-1])).sum())
    if collapsed_count:
        why = f"at {last}, {collapsed_count} of {curve.counts[-1]} seeds fell to rounding, where "
        why += "no learning curve continues"
    elif all_collapsed.any():
        first = sizes[all_collapsed][0]
        why = f"at N = {first:,} every seed fell to rounding, and at {last} none did"
    elif rise > least:
        why = f"with more data it gets worse, from {_mean(curve, 0)} at N = {sizes[0]:,} to "
        why += f"{_mean(curve, -1)} at {last}"
    elif noise is not None and _seeds_outside(curve, posterior, noise) > _MOST_OUTSIDE:
        why = "most single seeds lie outside what the fitted curves and the spread of the seeds "
        why += "explain, so that their means are not typical"
    elif posterior.roughness > ROUGHEST:
        # Name the step that departs most from the others.
        steps = np.diff(np.log(curve.means))
        k = int(np.argmax(np.abs(steps - np.median(steps))))
        why = f"from N = {sizes[k]:,} to {sizes[k + 1]:,} the mean goes from {_mean(curve, k)} "
        why += f"to {_mean(curve, k + 1)}, which neither a smooth curve nor the noise of the "
        why += "seeds explains; what follows such a step is not known"
    else:
        return ""
    return f"The curve cannot be extrapolated: {why}."


def _seeds_outside(curve: Curve, posterior: Posterior, noise: NDArray[np.float64]) -> float:
    """The share of single seeds outside the posterior's 90% range for one seed.

    A seed's error is log-normal around the curve, with the relative variance of its N.
    """
    mean, variance = posterior.moments(curve.sizes.astype(float))
    # The mean of a log-normal error exceeds its median: log medians are lower by half the variance.
    centre = posterior.weight @ mean
    seed = np.log1p(noise * curve.counts)
    spread = np.sqrt(posterior.weight @ (variance + (mean - centre) ** 2) + seed)
    size_index = np.searchsorted(curve.sizes, curve.n)
    residual = np.abs(np.log(curve.error) - (centre - 0.5 * seed)[size_index])
    return float(np.mean(residual > 1.645 * np.maximum(spread, 1e-5)[size_index]))


def _mean(curve: Curve, index: int) -> str:
    """The mean at the size of an index, in the user's unit."""
    return value(float(curve.unit.from_error(curve.means[index])))
