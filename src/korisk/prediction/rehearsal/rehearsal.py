"""The curve of a network on simulated pairs, and what it says of real ones.

`Rehearsal` is what was trained; its `forecast` answers, with a pilot if there is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk._checks import one_of, real
from korisk._show import Shown
from korisk.curves.curve import Curve
from korisk.curves.noise import lasting_share, mean_variance
from korisk.curves.unit import UNITS
from korisk.errors import KoriskError, invalid, shown
from korisk.planning.futures.posterior import posterior
from korisk.planning.pilot import Longer
from korisk.planning.plan import Forecast
from korisk.planning.recommend import EASY
from korisk.planning.words import chance, times, value
from korisk.prediction.law import FIT_SIZES, RehearsedLaw
from korisk.prediction.misfit import ASSUMED, BELIEF, Belief

Array = NDArray[np.float64]

FARTHEST_N = 10**7  # largest N that a rehearsal covers
UNIT_OF = {"mse": "error", "rmse": "rmse", "nmse": "error", "psnr": "psnr"}  # by metric
_NAMES = {  # of a pilot's metric
    "mse": ("", "error", "mse", "mean_squared_error"),
    "rmse": ("", "error", "rmse", "root_mean_squared_error"),
}
_PER_DOUBLING = 4  # sizes of a plan's table per doubling of N
_NODES = (np.arange(9) + 0.5) / 9  # quantiles that stand for the law of what copies cost,
_FINE = 45  # found among so many of one extrapolation
_STEP, _LEAST = 0.02, 1e-6  # of log errors, for densities; least probability within a step
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
    power, data_range : float, default 1
        Mean square of the test images, over which an nmse is; largest minus smallest value of all
        images, which is the peak of a PSNR.
    population : str, default ""
        The simulated images, where none are examples of real ones: without a pilot, answers are
        about them alone.
    belief : Belief, optional
        Prior of how far a pilot is from the simulation.
    distinct : Curve, optional
        Errors at the largest N over the number of distinct images: all of them, half, a quarter.
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
    power: float = 1.0
    data_range: float = 1.0
    population: str = ""
    belief: Belief = BELIEF
    distinct: Curve | None = None
    undertrained: bool = False
    longer: Longer | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @cached_property
    def copies(self) -> tuple[Array, Array]:
        """N, and (K, M) log errors with N distinct images over those with as many as there are.

        The error over the number of distinct images is a learning curve, whose extrapolation says
        what N of them would give. So does that of the sizes that need no copies: the law is the
        product of both. The rows are its evenly spaced quantiles, ascending.
        """
        if self.distinct is None:
            return np.ones(1), np.zeros((1, 1))
        curve, last = self.distinct, float(self.curve.sizes[-1])
        # What a seed has in common, such as its test images, says nothing of the shape.
        logs, seeds = np.log(curve.error), np.unique(curve.seed, return_inverse=True)[1]
        logs += logs.mean() - np.bincount(seeds, logs)[seeds] / np.bincount(seeds)[seeds]
        fitted = posterior(Curve(curve.n, np.exp(logs), curve.seed))
        first = float(curve.sizes[-1])
        n = np.geomspace(first, last, 2 + int(math.log2(last / first)))
        law, levels = fitted.law(n), (np.arange(_FINE) + 0.5) / _FINE
        quantiles = np.stack([law.quantile(p) for p in levels])
        quantiles = np.minimum(quantiles - quantiles[:, :1], 0.0)  # more images do no harm
        weights = np.ones(_FINE)
        if len((plain := self.curve.up_to(self.unaltered)).sizes) >= FIT_SIZES:
            ends = np.log(self.curve.means[-1]) + quantiles[:, -1]
            unaltered = posterior(plain).law(np.full(_FINE, last))
            weights = unaltered.under(ends + _STEP) - unaltered.under(ends - _STEP) + _LEAST
        rows = np.interp(_NODES * weights.sum(), weights.cumsum() - weights / 2, np.arange(_FINE))
        at_rows = [np.interp(rows, np.arange(_FINE), column) for column in quantiles.T]
        return n, np.stack(at_rows, axis=1)

    @cached_property
    def adjusted(self) -> Curve:
        """The curve as it would be with distinct images alone, by the middle of their law."""
        curve, (n, logs) = self.curve, self.copies
        middle = np.interp(np.log(curve.n), np.log(n), logs[len(logs) // 2])
        return scaled(curve, np.exp(middle))

    def in_metric(self, metric: str, data_range: float | None = None) -> Rehearsal:
        """The same in another metric: targets and answers are in its unit.

        Parameters
        ----------
        metric : {"mse", "rmse", "nmse", "psnr"}
            Of mean squared errors over all test images: their root; over the mean square of the
            images; and in decibels below the square of the data range.
        data_range : float, optional
            Largest minus smallest value that an image can have, for psnr. Default: those of the
            images that were simulated from.

        Returns
        -------
        Rehearsal
            A copy.

        Raises
        ------
        KoriskError
            If there is no such metric.

        Examples
        --------
        >>> import korisk as kr
        >>> curve = kr.Curve([8, 16, 32], [0.04, 0.02, 0.01], model="Net", metric="mse")
        >>> made = kr.Rehearsal(curve=curve, simulated="", unaltered=32, level=0.1, parameters=80)
        >>> round(made.in_metric("psnr").forecast().at(32).value, 3)
        20.0
        """
        one_of("metric", metric, tuple(UNIT_OF))
        if data_range is not None:
            remedy = "give the largest minus the smallest value that an image can have"
            data_range = real("data_range", data_range, above=0, remedy=remedy)
        changed = replace(self, data_range=data_range or self.data_range)
        factor = self._square(self.curve.metric) / changed._square(metric)
        unit, longer = UNITS[UNIT_OF[metric]], self.longer
        if longer is not None:
            both = factor * self.curve.unit.to_error([longer.errors, longer.before])
            errors, usual = unit.from_error(both).tolist()
            longer = replace(longer, errors=errors, before=usual)
        curve = scaled(self.curve, factor)
        labels = curve.seed, curve.model, metric, unit
        return replace(changed, curve=Curve.of_errors(curve.n, curve.error, *labels), longer=longer)

    def _square(self, metric: str) -> float:
        """The mean squared error that counts as one."""
        return {"nmse": self.power, "psnr": self.data_range**2}.get(metric, 1.0)

    @property
    def gain(self) -> float:
        """The fall of the log error by longer training beyond the noise of one seed; else 0."""
        if self.longer is None:
            return 0.0
        of_seed = float((mean_variance(self.curve) * self.curve.counts)[-1])
        of_seed *= 1 - lasting_share(self.curve)  # both were tested on the same images
        before, after = np.log(self.curve.unit.to_error([*self.longer.before, *self.longer.errors]))
        gain = float(before - after)
        return gain if gain > _BEYOND_NOISE * math.sqrt(2 * of_seed) else 0.0

    def forecast(self, pilot: Curve | None = None) -> Forecast:
        """The expected errors of real images, corrected by those that were measured.

        Parameters
        ----------
        pilot : Curve, optional
            Errors of the same network on a few real pairs, as mse, rmse, nmse or psnr. It corrects
            the level and the shape of the rehearsed curve; where the two contradict each other,
            curves that are fitted to the pilot alone compete with the rehearsal.

        Returns
        -------
        Forecast
            About real images. No N is below the smallest that was rehearsed or measured.

        Raises
        ------
        KoriskError
            If the pilot is no `Curve`, or in another metric than these.
        """
        if not (pilot is None or isinstance(pilot, Curve)):
            raise invalid("pilot", "be a korisk Curve", pilot, "use kr.Curve.read(...)")
        if pilot is not None:
            factor = self._square(metric_of(pilot)) / self._square(self.curve.metric)
            name = pilot.model or self.curve.model
            labels = pilot.seed, name, self.curve.metric, self.curve.unit
            pilot = Curve.of_errors(pilot.n, factor * pilot.error, *labels)
        return _forecast(self, pilot)

    @property
    def target(self) -> float:
        """A target for users who name none: what the largest N reaches with 95% probability."""
        then = self.forecast().at(int(self.curve.sizes[-1]))
        return float(f"{then.lower if self.curve.unit.larger_is_better else then.upper:.3g}")

    def to_dict(self) -> dict[str, Any]:
        """What was simulated as plain values, for JSON.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        rows = [{key: row[key] for key in ("n", "error", "seed")} for row in self.curve.records()]
        return {
            "model": self.curve.model,
            "parameters": self.parameters,
            "simulated": self.simulated,
            "unaltered": self.unaltered,
            "curve": rows,
            "undertrained": self.undertrained,
            "seconds": self.seconds,
        }


@lru_cache(maxsize=64)  # a second each: pages and tables ask for the same ones
def _forecast(rehearsal: Rehearsal, pilot: Curve | None) -> Forecast:
    curve, adjusted = rehearsal.curve, rehearsal.adjusted
    n, logs = rehearsal.copies
    population = rehearsal.population if pilot is None else ""
    # A population is drawn without limit, and not compared with a reality.
    unaltered = int(curve.sizes[-1]) if population else rehearsal.unaltered
    law = RehearsedLaw(
        curve=adjusted,
        unaltered=unaltered,
        level=rehearsal.level,
        belief=ASSUMED if pilot is None else rehearsal.belief,
        pilot=pilot,
        apart=(n, logs - logs[len(logs) // 2]),
    )
    end, alone = adjusted.sizes[-1:].astype(float), replace(law, pilot=None)
    middle, lower = (alone.quantile(end, p) for p in _BAND)
    lowered = rehearsal.gain > math.log(middle.item() / lower.item())
    if lowered:
        level = math.hypot(rehearsal.level, rehearsal.gain)
        law = replace(law, curve=_trained_longer(rehearsal), level=level)
    first = int(min(known.sizes[0] for known in (curve, pilot) if known is not None))
    steps = 1 + int(_PER_DOUBLING * math.log2(FARTHEST_N / first))
    return Forecast(
        source=law,
        model=curve.model,
        metric=curve.metric,
        unit=curve.unit,
        sizes=np.unique(np.round(np.geomspace(first, FARTHEST_N, steps))),
        curve=pilot,
        # Beside a pilot of the same name, a row of a table must say which it is.
        simulated=adjusted if pilot is None else adjusted.renamed(f"{curve.name}, simulated"),
        undertrained=rehearsal.undertrained,
        longer=rehearsal.longer if -math.expm1(-rehearsal.gain) > _WORTH else None,
        lowered=lowered,
        notes=_basis(rehearsal, law),
        # The words before the semicolon describe the images: equal words, equal images.
        population=population,
        shared=(rehearsal.simulated.partition(";")[0], rehearsal.level),
    )


def _trained_longer(rehearsal: Rehearsal) -> Curve:
    """The adjusted curve as longer training would lower it: more so, the larger N is."""
    curve = rehearsal.adjusted
    first, last = np.log(curve.sizes[[0, -1]])
    return scaled(curve, np.exp(-rehearsal.gain * (np.log(curve.n) - first) / (last - first)))


def scaled(curve: Curve, factor: Array | float) -> Curve:
    """The curve with its errors times a factor, or one for each."""
    labels = curve.seed, curve.model, curve.metric, curve.unit
    return Curve.of_errors(curve.n, factor * curve.error, *labels)


def metric_of(pilot: Curve) -> str:
    """Which metric of a rehearsal a pilot is in, by its unit and name; raise if in none."""
    name = pilot.metric.casefold().replace(" ", "_")
    by_unit = {"psnr": "psnr", "db": "psnr", "rmse": "rmse", "squared": "rmse"}
    by_unit["error"] = "nmse" if name == "nmse" else "mse"
    metric = by_unit.get(pilot.unit.name)
    if metric is None or name not in _NAMES.get(metric, (name,)):
        name, unit = shown(pilot.metric or pilot.unit.name), pilot.unit.name
        got = f"and the pilot is of {name} in the unit {unit!r}"
        raise KoriskError(f"a rehearsal is of {', '.join(UNIT_OF)}, {got}; give one of these")
    return metric


def far_from(forecasts: Sequence[Forecast], target: float) -> str:
    """A question, if a target is far easier or harder than all that is expected; else empty."""
    unit = forecasts[0].unit
    goal = float(unit.to_error(target))
    first = max(view.quantile(view.sizes[:1], 0.95).item() for view in forecasts)
    last = min(view.quantile(view.sizes[-1:], 0.05).item() for view in forecasts)
    trained = not any(view.undertrained for view in forecasts)
    if goal <= EASY * first and not (trained and goal < last / EASY):
        return ""
    means = [mean for view in forecasts if view.simulated for mean in view.simulated.means]
    ends = sorted(unit.from_error([min(means), max(means)]))
    how = "easier" if goal > first else "harder"
    return (
        f"target {target:.6g} is far {how} than all that was rehearsed, {ends[0]:.4g} to "
        f"{ends[1]:.4g}: is it in another unit? --metric takes {', '.join(UNIT_OF)}"
    )


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
    measured, expected = pilot.unit.from_error([pilot.means[worst], simulated[worst]]).tolist()
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
        f"measured {value(measured)} where {value(expected)} was expected. "
        f"{then}."
    )
