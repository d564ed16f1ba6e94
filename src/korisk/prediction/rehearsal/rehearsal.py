"""The curve of a network on simulated pairs, and what it says of real ones.

`Rehearsal` is what was trained; its `forecast` answers, with a pilot if there is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk._show import Shown
from korisk.curves.curve import Curve
from korisk.curves.noise import lasting_share, mean_variance
from korisk.errors import KoriskError, invalid
from korisk.planning.pilot import Longer
from korisk.planning.plan import Forecast
from korisk.planning.words import chance, times, value
from korisk.prediction.law import FIT_SIZES, RehearsedLaw
from korisk.prediction.misfit import BELIEF, Belief

Array = NDArray[np.float64]

FARTHEST_N = 10**7  # largest N that a rehearsal covers
_PER_DOUBLING = 4  # sizes of a plan's table per doubling of N
# Chosen with benchmarks/prediction/rehearse.py --part choose.
# Cost of few distinct images at N relative to the extra cost of half of them: about as much again,
# and less at smaller N, where fewer of the training images are copies.
_AGAIN, _POWER = 1.2, 0.4
# Thresholds of the sentences.
_FAR = 3.0  # ratio to the simulated curve that only another unit explains
_BAND = (0.5, 0.05)  # quantiles: beyond the lower half of the band, longer training corrects
_BEYOND_NOISE = 2.0  # deviations of a difference
_WORTH = 0.1  # share of the error that longer training removes, from which on it comes first
_ONE_SCALE = 1.5  # largest spread of the ratios of a pilot that is off by one factor


@dataclass(frozen=True, kw_only=True, eq=False)
class Rehearsal(Shown):
    """The curve of a network on simulated pairs, and what it says of real ones. By `rehearse`.

    Parameters
    ----------
    curve : Curve
        Mean squared errors on simulated pairs, of every size and seed.
    simulated : str
        What was simulated, in words.
    unaltered : int
        The largest N whose training images are all examples as they are; 0 without examples.
    level : float
        Relative standard error of the errors due to the few test images.
    parameters : int
        Weights that are trained.
    population : str, default ""
        The simulated images, where none are examples of real ones: without a pilot, answers are
        about them alone.
    belief : Belief, optional
        Prior of how far reality is from the simulation.
    halved : Curve, optional
        Errors of networks that had half the distinct images, and copies of these.
    undertrained : bool, default False
        Whether training limits the curve: it rises with N, or the network has learned nothing.
    longer : Longer, optional
        The errors of one network at the largest N, as trained and with twice the steps.
    notes : tuple of str
        Sentences on how the rehearsal went.
    seconds : float
        How long it took.

    Examples
    --------
    >>> import korisk as kr
    >>> curve = kr.Curve([8, 16, 32, 64], [0.4, 0.3, 0.24, 0.2], model="Net", metric="mse")
    >>> made = kr.Rehearsal(
    ...     curve=curve, simulated="90 examples", unaltered=60, level=0.05, parameters=4160
    ... )
    >>> then = made.forecast().at(32)
    >>> then.lower < 0.24 < then.upper
    True
    """

    curve: Curve
    simulated: str
    unaltered: int
    level: float
    parameters: int
    population: str = ""
    belief: Belief = BELIEF
    halved: Curve | None = None
    undertrained: bool = False
    longer: Longer | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @cached_property
    def adjusted(self) -> Curve:
        """The curve without the cost of few distinct images.

        Networks with half the distinct images show it at the largest N: they err more, by as much
        as twice the images would save.
        """
        curve, halved = self.curve, self.halved
        if halved is None:
            return curve
        # `more`: log ratio of errors with half the distinct images, over the same seeds.
        largest = float(halved.sizes[-1])
        more = math.log(halved.means[-1] / curve.error[curve.n == largest].mean())
        weight = 1 - np.minimum(self.unaltered / curve.n, 1.0) ** _POWER
        weight /= 1 - (self.unaltered / largest) ** _POWER
        errors = curve.error * np.exp(-_AGAIN * max(more, 0.0) * weight)
        return Curve(curve.n, errors, curve.seed, curve.model, "mse")

    @property
    def gain(self) -> float:
        """The fall of the log error by longer training beyond the noise of one seed; else 0."""
        if self.longer is None:
            return 0.0
        of_seed = float((mean_variance(self.curve) * self.curve.counts)[-1])
        of_seed *= 1 - lasting_share(self.curve)  # both were tested on the same images
        (before,), (after,) = self.longer.before, self.longer.errors
        gain = math.log(before / after)
        return gain if gain > _BEYOND_NOISE * math.sqrt(2 * of_seed) else 0.0

    def forecast(self, pilot: Curve | None = None) -> Forecast:
        """The expected errors of real images, corrected by those that were measured.

        Parameters
        ----------
        pilot : Curve, optional
            Mean squared errors of the same network on a few real pairs. It corrects the level and
            the shape of the rehearsed curve; where the two contradict each other, curves that are
            fitted to the pilot alone compete with the rehearsal.

        Returns
        -------
        Forecast
            About real images. No N is below the smallest that was rehearsed or measured.

        Raises
        ------
        KoriskError
            If the pilot is no `Curve`, or is in another unit than the mean squared error.
        """
        if not (pilot is None or isinstance(pilot, Curve)):
            raise invalid("pilot", "be a korisk Curve", pilot, "use kr.Curve.read(...)")
        if pilot is not None and pilot.unit.name != "error":
            unit = f"{pilot.unit.name}; give the pilot's mean squared errors"
            raise KoriskError(f"a rehearsal is of mean squared errors, and the pilot is in {unit}")
        return _forecast(self, pilot)

    @property
    def target(self) -> float:
        """A target for users who name none: what the largest N reaches with 95% probability."""
        return float(f"{self.forecast().at(int(self.curve.sizes[-1])).upper:.3g}")

    def to_dict(self) -> dict[str, Any]:
        """What was simulated as plain values, for JSON.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        curve = self.curve
        rows = zip(curve.n.tolist(), curve.error.tolist(), curve.seed, strict=True)
        return {
            "model": curve.model,
            "parameters": self.parameters,
            "simulated": self.simulated,
            "unaltered": self.unaltered,
            "curve": [dict(zip(("n", "error", "seed"), row, strict=True)) for row in rows],
            "undertrained": self.undertrained,
            "seconds": self.seconds,
        }


@lru_cache(maxsize=64)  # a second each: pages and tables ask for the same ones
def _forecast(rehearsal: Rehearsal, pilot: Curve | None) -> Forecast:
    curve, adjusted = rehearsal.curve, rehearsal.adjusted
    images = rehearsal.unaltered, rehearsal.level, rehearsal.belief
    population = rehearsal.population if pilot is None else ""
    if population:  # drawn without limit, and not compared with a reality
        images = int(curve.sizes[-1]), rehearsal.level, BELIEF
    law = RehearsedLaw.of(adjusted, *images, pilot)
    end = adjusted.sizes[-1:].astype(float)
    middle, lower = (RehearsedLaw.of(adjusted, *images, None).quantile(end, p) for p in _BAND)
    if rehearsal.gain > math.log(middle.item() / lower.item()):
        adjusted = _trained_longer(rehearsal)
        images = images[0], math.hypot(images[1], rehearsal.gain), images[2]
        law = RehearsedLaw.of(adjusted, *images, pilot)
    first = int(min(known.sizes[0] for known in (curve, pilot) if known is not None))
    steps = 1 + int(_PER_DOUBLING * math.log2(FARTHEST_N / first))
    return Forecast(
        source=law,
        model=curve.model,
        metric="mse",
        unit=curve.unit,
        sizes=np.unique(np.round(np.geomspace(first, FARTHEST_N, steps))),
        curve=pilot,
        simulated=adjusted,
        undertrained=rehearsal.undertrained,
        longer=rehearsal.longer if -math.expm1(-rehearsal.gain) > _WORTH else None,
        notes=_basis(rehearsal, law),
        # The words before the semicolon describe the images: equal words, equal images.
        population=population,
        shared=(rehearsal.simulated.partition(";")[0], rehearsal.level),
    )


def _trained_longer(rehearsal: Rehearsal) -> Curve:
    """The adjusted curve as longer training would lower it: more so, the larger N is."""
    curve = rehearsal.adjusted
    first, last = np.log(curve.sizes[[0, -1]])
    errors = curve.error * np.exp(-rehearsal.gain * (np.log(curve.n) - first) / (last - first))
    return Curve(curve.n, errors, curve.seed, curve.model, "mse")


def _basis(rehearsal: Rehearsal, law: RehearsedLaw) -> tuple[str, ...]:
    """What was simulated and what was measured, with notes on both."""
    first, last = rehearsal.curve.sizes[[0, -1]]
    limits = f"nothing below N = {first:,} or beyond {last:,}"
    facts = [f"Simulated: {rehearsal.simulated}; {limits}.", "Measured: nothing."]
    if law.pilot is not None:
        first, last = law.pilot.sizes[[0, -1]]
        facts[1] = f"Measured: a pilot at N = {first:,} to {last:,}."
        facts.append(_trust_words(rehearsal.curve.model, law, law.pilot))
    return (*facts, *rehearsal.notes)


def _trust_words(model: str, law: RehearsedLaw, pilot: Curve) -> str:
    """Whether the pilot agrees with the rehearsal."""
    simulated = law.simulated(pilot.sizes.astype(float))
    logs = np.log(simulated / pilot.means)
    middle, worst = math.exp(logs.mean()), int(np.abs(logs).argmax())
    # One factor between all errors suggests another unit rather than a wrong rehearsal.
    if np.ptp(logs) <= math.log(_ONE_SCALE) and not 1 / _FAR < middle < _FAR:
        return (
            f"All errors of {model}'s pilot are about {value(1 / middle)} times the "
            "simulated ones: are its images in another unit, or is it a sum instead of a mean? "
            "As it is, it cannot be compared with another model."
        )
    doubted, tested = law.doubted, law.tested
    factor = times(math.exp(abs(logs[worst])))
    stands = "contradicts" if doubted else f"is within a factor of {factor} of"
    if tested:
        weight = chance(law.trust)
        then = f"The forecast rests on the rehearsal by {weight}, and else on the pilot alone"
    elif doubted:
        then = f"Measure more than {len(logs)} sizes before you rely on this"
    else:
        then = (
            f"With fewer than {FIT_SIZES} sizes a pilot moves the level of the curve, and "
            "cannot tell whether its shape is right"
        )
    return (
        f"The pilot {stands} the rehearsal of {model}: at N = {pilot.sizes[worst]:,} it "
        f"measured {value(pilot.means[worst])} where {value(simulated[worst])} was simulated. "
        f"{then}."
    )
