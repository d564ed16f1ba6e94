"""What limits the error of a pilot: the data, the training, the network, or noise.

At the largest N the test error is split into shares of four causes, each by one piece of evidence:

- *data*: the gap between test and training error;
- *training*: the gain by longer training at one size, extrapolated to infinite training;
- *noise*: the floor due to noise in the references, where it is known;
- *network*: the rest.

The largest share is the limit. Without evidence, the learning curve alone cannot distinguish a
network that was trained too briefly from one that has learned all it can: then the limit is not
known, and `Limit.next_run` names the run that would decide it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from korisk import _checks
from korisk._checks import LARGEST_N, require
from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance
from korisk.curves.stored import Chosen, MeasuredFit, error_of, stored_fits, training_name
from korisk.curves.unit import SMALLEST_ERROR, Unit
from korisk.planning.explain import no_learning, value

_LONGER = 3  # times the usual training, of the run that shows whether training limits the error

_PERFECT = 1e-6  # of the test error: stands for a training error of 0, which a curve cannot hold
_LARGE = 0.5  # share of the error above which no other cause can be as large
_CLEAR = 1 / 3  # share of training from which on it is the limit without a training error
_NEAR_NOISE = 0.8  # share of noise from which on nothing else matters
_LEAST_GAIN = 0.1  # relative fall of the error by longer training that counts as a gain
_LEAST_FALL = 0.1  # relative fall over the last decade of N, below which the curve is flat
_BEYOND_NOISE = 2.0  # standard errors of a significant difference
_FALL_BEYOND_NOISE = 3.0  # the same for a fall with N: a flat decade must hardly ever pass
_GUESSED_NOISE = 0.05  # relative deviation of one seed, where no size has two
_LEAST_NOISE = 0.01  # relative deviation of a mean: no line fits better than that
_STAYS = 0.8  # of the training error, which data cannot lower, with a margin for its noise
_LEAST_OF_PAIRS = 0.25  # of the unpaired variance: a few pairs may agree by chance
_DECAY = 0.5  # training's share of the error falls at least with the steps to this power


@dataclass(frozen=True, kw_only=True)
class Longer:
    """One size that was trained longer than usual. Values are in the curve's unit.

    Parameters
    ----------
    n : int
        Training samples.
    factor : float
        Multiple of the usual training (steps or epochs), above 1.
    errors : sequence of float
        Test errors after the longer training, one for each seed.
    before : sequence of float
        Test errors at that n after the usual training. If there are as many as `errors`, they are
        pairs with the same seeds.

    Raises
    ------
    KoriskError
        If a value is outside its range.

    Examples
    --------
    >>> import korisk as kr
    >>> kr.planning.Longer(n=1024, factor=3, errors=[0.02], before=[0.05]).factor
    3.0
    """

    n: int
    factor: float
    errors: Sequence[float]
    before: Sequence[float]

    def __post_init__(self) -> None:
        remedy = "count the training samples"
        n = _checks.count("n", self.n, at_least=2, at_most=LARGEST_N, remedy=remedy)
        factor = _checks.real("factor", self.factor, above=1, remedy="3 trains three times as long")
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "factor", factor)
        for field in ("errors", "before"):
            values, remedy = getattr(self, field), "give one test error for each seed"
            listed = isinstance(values, Sequence) and not isinstance(values, str) and values
            require(bool(listed), field, "be a list of at least one number", values, remedy)
            numbers = tuple(_checks.real(field, number, remedy=remedy) for number in values)
            object.__setattr__(self, field, numbers)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Measurements of a pilot besides its test errors. Values are in the curve's unit.

    Parameters
    ----------
    training : Curve, optional
        Errors on the training samples, of the same networks and in the same metric.
    longer : Longer, optional
        One size that was trained longer.
    baseline : float, optional
        Error of the known operator alone, or of the untrained network.
    noise : float, optional
        Error of a perfect network due to noise in the references.

    Raises
    ------
    KoriskError
        If a value has another type.

    Examples
    --------
    >>> import korisk as kr
    >>> kr.planning.Evidence(noise=0.001).noise
    0.001
    """

    training: Curve | None = None
    longer: Longer | None = None
    baseline: float | None = None
    noise: float | None = None

    def __post_init__(self) -> None:
        for field, kind in (("training", Curve), ("longer", Longer)):
            content, rule = getattr(self, field), f"be a {kind.__name__}"
            remedy = f"pass {kind.__name__}(...), or leave it out"
            require(content is None or isinstance(content, kind), field, rule, content, remedy)
        for field in ("baseline", "noise"):
            if getattr(self, field) is not None:
                remedy = "give a number in the unit of the curve, or leave it out"
                number = _checks.real(field, getattr(self, field), remedy=remedy)
                object.__setattr__(self, field, number)

    @classmethod
    def read(cls, path: str | PathLike[str], curve: Curve) -> "Evidence":
        """Read the evidence for one of a pilot's curves from its store.

        Parameters
        ----------
        path : str or path
            A file that `run_pilot` wrote. Other files and folders have no evidence.
        curve : Curve
            A curve read from it.

        Returns
        -------
        Evidence
            Training errors, and the fits of the largest size that were trained longest.

        Examples
        --------
        >>> import korisk as kr
        >>> def fit(n, seed, longer=1.0):
        ...     return {"mse": 0.05 / longer, "train_mse": 0.04 / longer}
        >>> _ = kr.run_pilot(fit, [16, 64, 256], 2, store="probed.db", probe=3, quiet=True)
        >>> kr.planning.Evidence.read("probed.db", kr.Curve.read("probed.db")).longer.factor
        3.0
        """
        fits = stored_fits(path, curve.model, curve.metric)
        return evidence_of(fits, Chosen(curve.metric, curve.unit), curve.model)


def evidence_of(fits: Sequence[MeasuredFit], chosen: Chosen, model: str) -> Evidence:
    """The usable training errors of a pilot, and its largest size that was trained longest."""
    # Values that no curve can hold have a nan error, and drop out of comparisons.
    metric, unit = chosen.metric, chosen.unit
    usable = [fit for fit in fits if error_of(unit, fit.value) >= 0]
    usual = {(fit.n, fit.seed): fit for fit in usable if fit.longer is None}
    rows = []
    for fit in usual.values():
        name = training_name(metric, fit.training)
        if name and (error := error_of(unit, fit.training[name])) >= 0:
            # A perfect fit of the training samples is evidence as well, but a curve cannot hold 0.
            error = max(error, _PERFECT * error_of(unit, fit.value), SMALLEST_ERROR)
            rows.append((fit.n, error, fit.seed))
    training = None
    if rows:
        n, errors, seeds = zip(*rows, strict=True)
        training = Curve.of_errors(n, errors, seeds, model, metric, unit)
    # Only seeds with both trainings count: differences between seeds must not pass for a gain.
    probed = [fit for fit in usable if fit.longer and (fit.n, fit.seed) in usual]
    longest = max(((fit.n, fit.longer or 1.0) for fit in probed), default=None)
    longer = None
    if longest is not None:
        pairs = [fit for fit in probed if (fit.n, fit.longer) == longest]
        longer = Longer(
            n=longest[0],
            factor=longest[1],
            errors=[fit.value for fit in pairs],
            before=[usual[fit.n, fit.seed].value for fit in pairs],
        )
    return Evidence(training=training, longer=longer)


@dataclass(frozen=True)
class Limit:
    """What limits the error at the largest N of a pilot.

    Parameters
    ----------
    kind : str
        "data", "training", "network", "noise" or "unknown".
    sentence : str
        The limit and its evidence.
    next_run : str
        The run that would decide it, empty unless `kind` is "unknown".

    Examples
    --------
    >>> import korisk as kr
    >>> flat = kr.Curve([16, 64, 256, 1024], [0.05, 0.05, 0.05, 0.05])
    >>> kr.planning.limit(flat).next_run
    'train N = 1,024 once with 3 times the steps'
    """

    kind: str
    sentence: str
    next_run: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} To find out, {self.next_run}." if self.next_run else self.sentence

    def to_dict(self) -> dict[str, str]:
        """The fields by name, for JSON.

        Returns
        -------
        dict of str
            With the keys kind, sentence and next_run.
        """
        return {"kind": self.kind, "sentence": self.sentence, "next_run": self.next_run}


def limit(
    curve: Curve, evidence: Evidence | None = None, target_error: float | None = None
) -> Limit:
    """Find what limits the error of a pilot at its largest N.

    Parameters
    ----------
    curve : Curve
        The pilot.
    evidence : Evidence, optional
        Measurements besides its test errors. Default: none.
    target_error : float, optional
        The error to reach (not in the curve's unit). A cause that keeps the error above it with any
        amount of data takes precedence over the data.

    Returns
    -------
    Limit
        The limit, its evidence, and, where it is not known, the run that would decide it.

    Raises
    ------
    KoriskError
        If the evidence does not go with the curve: another unit, or no size in common.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 64, 256, 1024], [0.052, 0.05, 0.05, 0.05], model="U-Net")
    >>> longer = kr.planning.Longer(n=1024, factor=3, errors=[0.02], before=[0.05])
    >>> print(kr.planning.limit(pilot, kr.planning.Evidence(longer=longer)))
    Training limits the error: at N = 1,024, 3 times the training takes it from 0.05 to 0.02.
    """
    case = _Case.of(curve, evidence or Evidence(), target_error)
    kind, next_run = case.named()
    starts = {
        "data": f"The amount of data limits the {curve.unit.noun}",
        "training": f"Training limits the {curve.unit.noun}",
        "network": f"The network limits the {curve.unit.noun}",
        "noise": f"Noise limits the {curve.unit.noun}",
        "unknown": f"What limits the {curve.unit.noun} is not known",
    }
    return Limit(kind, f"{starts[kind]}: {case.reason(kind)}.{case.beside_baseline()}", next_run)


@dataclass(frozen=True)
class _Case:
    """A pilot and its evidence, as shares of the test error at the largest N."""

    curve: Curve
    evidence: Evidence
    falls: bool  # whether the error falls over the last decade of N
    gap: float | None  # test error less training error
    training: float | None  # share that longer training could remove; None: not known
    noise: float | None
    target: float | None

    @classmethod
    def of(cls, curve: Curve, evidence: Evidence, target_error: float | None) -> "_Case":
        error = float(curve.means[-1])
        gap = training = noise = None
        if evidence.noise is not None:
            noise = min(_error("noise", evidence.noise, curve.unit) / error, 1.0)
        if evidence.training is not None:
            n, on_training = _training_error(curve, evidence.training)
            gap = max(1 - on_training / curve.means[curve.sizes == n].item(), 0.0)
            if noise is not None:  # a network that fits the noise has a training error below it
                gap = min(gap, 1 - noise)
        if evidence.longer is not None:
            training = _training_share(curve, evidence.longer)
        target = None if target_error is None else target_error / error
        return cls(curve, evidence, _falls(curve), gap, training, noise, target)

    def named(self) -> tuple[str, str]:
        """The limit, and, where it is not known, the run that would decide it."""
        n, longer = f"N = {self.curve.sizes[-1]:,}", self.evidence.longer
        # In this order: what no remedy can change, then what the evidence proves, then what the
        # largest share suggests. A missing share leads to "unknown" where it could be the largest.
        noise, target = self.noise or 0.0, math.inf if self.target is None else self.target
        if noise >= _NEAR_NOISE or target < noise:
            return "noise", ""
        by_data = self.gap if self.gap is not None and self.falls else 0.0
        if self.gap is not None and _STAYS * (1 - self.gap) > target:
            by_data = 0.0  # the training error, which rises with N, is above the target already
        if by_data > _LARGE:
            return "data", ""
        if self.training is None:
            if noise > _LARGE:
                return "noise", ""
            if longer is not None:
                return "unknown", (
                    f"repeat N = {longer.n:,} with {longer.factor:g} times the steps and "
                    "with more seeds"
                )
            if self.gap is None and self.falls:
                return "data", ""
            return "unknown", f"train {n} once with {_LONGER} times the steps"
        if self.gap is None:
            least = _CLEAR if self.falls else 0.0
            if self.training > max(least, noise):
                return "training", ""
            if noise > _LARGE:
                return "noise", ""
            if self.training > 0:
                return "unknown", f"measure the training error at {n}"
            return "data" if self.falls else "network", ""
        shares = {"data": by_data, "training": self.training, "noise": noise}
        shares["network"] = 1 - self.gap - self.training - noise
        largest = max(shares, key=lambda kind: shares[kind])
        # A gap that neither data nor training closes points to a test set of another kind.
        if self.gap > shares[largest] and not self.falls and not self.training:
            return (
                "unknown",
                f"test {n} once on new samples that are drawn like the training samples",
            )
        return largest, ""

    def reason(self, kind: str) -> str:
        """The evidence for a limit, in words."""
        curve, unit, evidence = self.curve, self.curve.unit, self.evidence
        facts = {}
        if evidence.training is not None:
            n, on_training = _training_error(curve, evidence.training)
            name, test = curve.metric or unit.noun, curve.means[curve.sizes == n].item()
            facts["gap"] = f"at N = {n:,} the {name} is {_shown(unit, on_training)} on training "
            facts["gap"] += f"samples and {_shown(unit, test)} on test samples"
        if (longer := evidence.longer) is not None:
            before, after = (
                _shown(unit, float(_errors(unit, field, getattr(longer, field)).mean()))
                for field in ("before", "errors")
            )
            verb = "takes" if self.training else "changes"
            facts["longer"] = f"at N = {longer.n:,}, {longer.factor:g} times the training {verb} it"
            facts["longer"] += f" from {before} to {after}"
            if self.training is None:
                facts["longer"] += ", with too much noise to tell"
            elif self.training == 0:
                facts["longer"] += ", which is no gain beyond noise"
        first, last = _decade(curve)[[0, -1]]
        ends = [
            f"{_shown(unit, float(curve.means[k]))} at N = {curve.sizes[k]:,}"
            for k in (first, last)
        ]
        fall = "rise" if unit.larger_is_better else "fall"
        verb = f"still {fall}s with N" if self.falls else f"does not {fall} with N beyond noise"
        facts["trend"] = f"the {unit.noun} {verb}, from {' to '.join(ends)}"
        if evidence.noise is not None:
            facts["noise"] = f"noise alone leaves {value(evidence.noise)}, and the {unit.noun} at "
            facts["noise"] += f"N = {curve.sizes[-1]:,} is {_shown(unit, float(curve.means[-1]))}"
        relevant = {
            "data": ["gap"] if self.gap else ["trend", "longer"],
            "training": ["longer"],
            "network": ["gap", "longer"] if "gap" in facts else ["trend", "longer"],
            "noise": ["noise"],
            "unknown": ["trend", "gap", "longer", "noise"],
        }[kind]
        if kind == "network" and evidence.noise is None:
            facts[relevant[-1]] += " (unless it is noise in the references, whose floor is unknown)"
        return "; ".join(facts[fact] for fact in relevant if fact in facts)

    def beside_baseline(self) -> str:
        """A sentence if training does not improve on the baseline; else empty."""
        if self.evidence.baseline is None:
            return ""
        curve, unit = self.curve, self.curve.unit
        baseline = _error("baseline", self.evidence.baseline, unit)
        noise = math.sqrt(_seed_variance(curve, -1) / curve.counts[-1])
        if curve.means[-1] < baseline * math.exp(-_BEYOND_NOISE * noise):
            return ""
        return (
            f" At N = {curve.sizes[-1]:,} it is {_shown(unit, float(curve.means[-1]))}, no better "
            f"than {value(self.evidence.baseline)} without training: training has added nothing."
        )


# --- Shares --------------------------------------------------------------------------------------


def _training_error(curve: Curve, training: Curve) -> tuple[int, float]:
    """The largest N that both curves have, and the mean error on training samples there."""
    same = training.unit.law == curve.unit.law
    names = f"{training.unit.name} and {curve.unit.name}"
    remedy = "measure both in one metric"
    require(same, "training", "have the unit of the curve", training, remedy, got=names)
    shared = np.intersect1d(curve.sizes, training.sizes)
    remedy = "give the training errors of the same networks"
    require(len(shared) > 0, "training", "have a size of the curve", training, remedy)
    n = int(shared[-1])
    return n, training.means[training.sizes == n].item()


def _training_share(curve: Curve, longer: Longer) -> float | None:
    """The share that training could remove; 0 without a gain beyond noise, None if noise hides it.

    Training f times as long removes at least a share 1 - f^-_DECAY of what training can remove.
    """
    before = _errors(curve.unit, "before", longer.before)
    after = _errors(curve.unit, "errors", longer.errors)
    index = min(int(np.searchsorted(curve.sizes, longer.n)), len(curve.sizes) - 1)
    variance = _seed_variance(curve, index)
    gain = math.log(float(before.mean() / after.mean()))
    if 1 < len(before) == len(after):  # pairs: the effect of a seed cancels in the difference
        gains = np.log(before / after)
        square = max(float(gains.var(ddof=1)), _LEAST_OF_PAIRS * 2 * variance) / len(gains)
    else:
        square = variance * (1 / len(before) + 1 / len(after))
    # A gain within noise may still be a large one: then nothing is known.
    deviation = _BEYOND_NOISE * math.sqrt(square)
    removed_share = 1 - math.pow(longer.factor, -_DECAY)
    if gain > max(deviation, -math.log1p(-_LEAST_GAIN)):
        return min(-math.expm1(-gain) / removed_share, 1.0)
    return None if -math.expm1(-gain - deviation) / removed_share > _LARGE else 0.0


def _falls(curve: Curve) -> bool:
    """Whether a line of the log error over log N falls over the last decade of N."""
    indices = _decade(curve)
    if len(indices) < 2 or no_learning(curve):
        return False
    deviations = np.sqrt([_seed_variance(curve, k) / curve.counts[k] for k in indices])
    x, y = np.log(curve.sizes[indices] / curve.sizes[-1]), np.log(curve.means[indices])
    weights = 1 / np.maximum(deviations, _LEAST_NOISE)
    fitted, covariance = np.polyfit(x, y, 1, w=weights, cov="unscaled")
    fall, deviation = fitted[0] * x[0], math.sqrt(covariance[0, 0]) * -x[0]
    return bool(fall > max(_FALL_BEYOND_NOISE * deviation, -math.log1p(-_LEAST_FALL)))


def _decade(curve: Curve) -> NDArray[np.intp]:
    """Indices of the sizes in the last decade, at least the last three."""
    inside = np.flatnonzero(10 * curve.sizes >= curve.sizes[-1])
    return np.arange(max(min(int(inside[0]), len(curve.sizes) - 3), 0), len(curve.sizes))


def _seed_variance(curve: Curve, index: int) -> float:
    """The relative variance of one seed at the size of an index."""
    variance = relative_variance(curve)
    return _GUESSED_NOISE**2 if variance is None else float(variance[index] * curve.counts[index])


# --- Units ---------------------------------------------------------------------------------------


def _error(field: str, number: float, unit: Unit) -> float:
    """The error of a value in the user's unit; 0 is allowed for noise and baselines."""
    error, rule = float(unit.to_error(number)), f"be a value in the unit of the curve ({unit.name})"
    require(0 <= error < math.inf, field, rule, number)
    return error


def _errors(unit: Unit, field: str, values: Sequence[float]) -> NDArray[np.float64]:
    """The errors of values in the user's unit."""
    return np.maximum([_error(field, number, unit) for number in values], SMALLEST_ERROR)


def _shown(unit: Unit, error: float) -> str:
    """Format an error in the user's unit."""
    return value(float(unit.from_error(error)))
