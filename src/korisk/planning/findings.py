"""What is odd about a pilot, in words: rises, outlying seeds, too little to go by."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.curves.noise import collapsed, collapsed_sizes, relative_variance
from korisk.planning.posterior import ROUGHEST, Posterior

Array = NDArray[np.float64]

_SURE = 2.0  # standard errors by which a rise must exceed noise
_RISE_WITHOUT_SEEDS = 0.02
_RISING = math.log(1.25)  # from the first mean to the last: no such curve is extrapolated
_MOST_OUTSIDE = 0.5  # of the seeds outside their 90% range; a tenth would be right
_OUTLYING = 4.0  # robust deviations from the median of its N
_OUTLYING_AT_LEAST = math.log(1.5)


@dataclass(frozen=True)
class Rise:
    """The mean error rises from one N to the next."""

    before: int
    n: int
    factor: float


@dataclass(frozen=True)
class Outlier:
    """One seed lies far from the others of its N."""

    seed: str
    n: int
    factor: float


def rises(curve: Curve) -> tuple[Rise, ...]:
    """Where the mean rises with N, by more than the noise of the seeds."""
    variance = relative_variance(curve)
    steps = np.diff(np.log(curve.means))
    if variance is None:
        least = np.full(len(steps), _RISE_WITHOUT_SEEDS)
    else:
        least = _SURE * np.sqrt(variance[1:] + variance[:-1])
    return tuple(
        Rise(int(curve.sizes[i]), int(curve.sizes[i + 1]), float(np.exp(steps[i])))
        for i in np.flatnonzero(steps > np.maximum(least, 1e-9))
    )


def outliers(curve: Curve) -> tuple[Outlier, ...]:
    """Seeds far from the median of their N, measured by the spread of all; at least four a N."""
    groups = [np.flatnonzero(curve.n == n) for n in curve.sizes]
    away = np.zeros(len(curve))
    for rows in groups:
        logs = np.log(curve.error[rows])
        away[rows] = logs - np.median(logs)
    judged = np.concatenate([rows for rows in groups if len(rows) >= 4] or [np.array([], int)])
    if not judged.size:
        return ()
    spread = 1.4826 * np.median(np.abs(away[judged]))
    least = max(_OUTLYING * spread, _OUTLYING_AT_LEAST)
    return tuple(
        Outlier(curve.seed[row], int(curve.n[row]), float(np.exp(away[row])))
        for row in judged
        if abs(away[row]) > least
    )


def doubt(curve: Curve, made: Posterior) -> str:
    """Why a pilot cannot be extrapolated, as a sentence; empty where it can."""
    gone = collapsed(curve) & (curve.n == curve.sizes[-1])
    if gone.any():
        count, of = int(gone.sum()), int(curve.counts[-1])
        seeds = "every seed has" if count == of else f"{count} of {of} seeds "
        seeds += "" if count == of else ("has" if count == 1 else "have")
        return (
            f"The curve cannot be extrapolated: at N = {curve.sizes[-1]:,}, {seeds} fallen to "
            "rounding, where no learning curve continues."
        )
    lost = collapsed_sizes(curve)
    if lost.any():
        return (
            f"The curve cannot be extrapolated: at N = {curve.sizes[lost][0]:,} every seed has "
            f"fallen to rounding, and at N = {curve.sizes[-1]:,} none has."
        )
    noise = relative_variance(curve)
    least = _RISE_WITHOUT_SEEDS if noise is None else _SURE * math.sqrt(noise[0] + noise[-1])
    if math.log(curve.means[-1] / curve.means[0]) > max(least, _RISING):
        return (
            "The curve cannot be extrapolated: with more data it gets worse, from "
            f"{_told(curve, curve.sizes[0])} at N = {curve.sizes[0]:,} to "
            f"{_told(curve, curve.sizes[-1])} at N = {curve.sizes[-1]:,}."
        )
    if noise is not None and _seeds_outside(curve, made, noise) > _MOST_OUTSIDE:
        return (
            "The curve cannot be extrapolated: most single seeds lie outside what the fitted "
            "curves and the spread of the seeds explain, so that their means are not typical."
        )
    if made.roughness <= ROUGHEST:
        return ""
    steps = np.diff(np.log(curve.means))
    at = int(np.argmax(np.abs(steps - np.median(steps))))
    return (
        f"The curve cannot be extrapolated: from N = {curve.sizes[at]:,} to "
        f"{curve.sizes[at + 1]:,} the mean goes from {_told(curve, curve.sizes[at])} to "
        f"{_told(curve, curve.sizes[at + 1])}, which neither a smooth curve nor the noise of the "
        "seeds explains; what follows such a step is not known."
    )


def _seeds_outside(curve: Curve, made: Posterior, noise: Array) -> float:
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


def _told(curve: Curve, n: int) -> str:
    """The mean at N in the user's unit."""
    mean = curve.means[np.searchsorted(curve.sizes, n)]
    return f"{float(curve.unit.from_error(mean)):.4g}"


def findings(curve: Curve) -> tuple[str, ...]:
    """Sentences on what a reader of the plan should know of its pilot."""
    listed = rises(curve)
    said = [
        f"This curve is not monotone at N = {rise.n}: the mean there, {_told(curve, rise.n)}, is "
        f"worse than {_told(curve, rise.before)} at N = {rise.before}."
        for rise in listed[:3]
    ]
    if len(listed) > 3:
        said.append(f"It rises at {len(listed) - 3} more N.")
    odd = outliers(curve)
    said += [
        f"Seed {outlier.seed} is an outlier at N = {outlier.n}: its error is {outlier.factor:.2g} "
        "times the median of the seeds."
        for outlier in odd[:3]
    ]
    if len(odd) > 3:
        said.append(f"{len(odd) - 3} more measurements are outliers.")
    if curve.means[-1] >= curve.means[0]:
        said.append(
            "The pilot shows no learning: its last mean is no better than its first. If larger "
            "values are better in this metric, say so with unit= (--unit)."
        )
    if relative_variance(curve) is None:
        said.append("With one seed at every N, the noise is guessed: repeat with other seeds.")
    elif int(curve.counts.min()) < 3:
        said.append("Fewer than three seeds at some N say little of the noise: add seeds.")
    if curve.sizes[-1] < 4 * curve.sizes[0]:
        said.append(
            f"The pilot spans a factor of {curve.sizes[-1] / curve.sizes[0]:.2g} in N only; "
            "its trend is a guess: measure smaller sizes too, they are cheap."
        )
    return tuple(said)
