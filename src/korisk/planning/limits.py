"""What limits the error of a pilot at its largest N: the data, or the training.

The part that more data can remove is the gap between test and training error; the part that more
training can remove is the gain by longer training at one size, extrapolated to infinite training.
The larger part is the limit. Without training errors and a longer run, the learning curve alone
cannot distinguish a network that was trained too briefly from one that has learned all it can: then
the limit is not known, and `Limit.next_run` names the run that would tell.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike

import numpy as np

from korisk._checks import LARGEST_N, count, real, require, set_fields
from korisk.curves.curve import Curve
from korisk.curves.formats import is_store
from korisk.curves.noise import Array, mean_variance
from korisk.curves.stored import Chosen, MeasuredFit, error_of, stored_fits, training_name
from korisk.curves.unit import SMALLEST_ERROR, Unit
from korisk.planning.pilot import no_learning
from korisk.planning.words import value

_LONGER = 3  # times the usual training, of the run that shows whether training limits the error

_PERFECT = 1e-6  # of the test error: stands for a training error of 0, which a curve cannot hold
_LARGE = 0.5  # share of the error above which no other cause can be as large
_CLEAR = 1 / 3  # share of training from which on it is the limit without a training error
_LEAST_FALL = 0.1  # of the error, by longer training or over a decade of N: less counts as none
_BEYOND_NOISE = 2.0  # standard errors of a significant difference
_FALL_BEYOND_NOISE = 3.0  # the same for a fall with N: a flat decade must hardly ever pass
_LEAST_NOISE = 0.01  # relative deviation of a mean: no line fits better than that
_STAYS = 0.8  # of the training error, which data cannot lower, with a margin for its noise
_LEAST_OF_PAIRS = 0.25  # of the unpaired variance: a few pairs may agree by chance
_OTHER_SAMPLES = "test {n} on new samples that are drawn like the training samples"
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
        n = count("n", self.n, "count the training samples", at_least=2, at_most=LARGEST_N)
        factor = real("factor", self.factor, "3 trains three times as long", above=1)
        set_fields(self, n=n, factor=factor)
        for field, values in (("errors", self.errors), ("before", self.before)):
            remedy, listed = "give one test error for each seed", isinstance(values, list | tuple)
            require(listed and len(values) > 0, field, "be a list of numbers", values, remedy)
            set_fields(self, **{field: tuple(real(field, number, remedy) for number in values)})


Trained = tuple[Curve | None, Longer | None]  # the training errors of a pilot, and a longer run


def read_training(path: str | PathLike[str], curve: Curve) -> Trained:
    """The training errors and the longer run of a curve in a store of `run_pilot`, if any."""
    fits = stored_fits(path, curve.model, curve.metric) if is_store(path) else []
    return training_of(fits, Chosen(curve.metric, curve.unit), curve.model)


def training_of(fits: Sequence[MeasuredFit], chosen: Chosen, model: str) -> Trained:
    """The usable training errors of a pilot, and its largest size that was trained longest."""
    metric, unit, rows = chosen.metric, chosen.unit, []
    # Values that no curve can hold have a nan error, and drop out of comparisons.
    usable = [fit for fit in fits if error_of(unit, fit.value) >= 0]
    usual = {(fit.n, fit.seed): fit for fit in usable if fit.longer is None}
    for (n, seed), fit in usual.items():
        training_error = fit.training.get(training_name(metric, fit.training), math.nan)
        if (error := error_of(unit, training_error)) >= 0:
            # A perfect fit of the training samples counts as well, but a curve cannot hold 0.
            rows.append((n, max(error, _PERFECT * error_of(unit, fit.value), SMALLEST_ERROR), seed))
    sizes, errors, seeds = zip(*rows, strict=True) if rows else ((), (), ())
    training = Curve.of_errors(sizes, errors, seeds, model, metric, unit) if rows else None
    # Only seeds with both trainings count: differences between seeds must not pass for a gain.
    longer = [fit for fit in usable if fit.longer and (fit.n, fit.seed) in usual]
    if not longer:
        return training, None
    n, factor = max((fit.n, fit.longer or 1.0) for fit in longer)
    runs = [fit for fit in longer if (fit.n, fit.longer) == (n, factor)]
    before = [usual[n, fit.seed].value for fit in runs]
    return training, Longer(n=n, factor=factor, errors=[fit.value for fit in runs], before=before)


@dataclass(frozen=True)
class Limit:
    """What limits the error at the largest N of a pilot.

    Parameters
    ----------
    kind : str
        "data", "training" or "unknown".
    sentence : str
        The limit and what shows it.
    next_run : str
        The run that would tell, empty unless `kind` is "unknown".

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
        return asdict(self)


def limit(
    curve: Curve,
    target_error: float | None = None,
    *,
    training: Curve | None = None,
    longer: Longer | None = None,
) -> Limit:
    """Find what limits the error of a pilot at its largest N.

    Parameters
    ----------
    curve : Curve
        The pilot.
    target_error : float, optional
        The error to reach (not in the curve's unit). Where the training error keeps the error above
        it with any amount of data, data are not the limit.
    training : Curve, optional
        Errors on the training samples, of the same networks and in the same metric.
    longer : Longer, optional
        One size that was trained longer.

    Returns
    -------
    Limit
        The limit, what shows it, and, where it is not known, the run that would tell.

    Raises
    ------
    KoriskError
        If the training errors do not go with the curve: another unit, or no size in common.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 64, 256, 1024], [0.052, 0.05, 0.05, 0.05], model="U-Net")
    >>> longer = kr.planning.Longer(n=1024, factor=3, errors=[0.02], before=[0.05])
    >>> print(kr.planning.limit(pilot, longer=longer))
    Training limits the error: at N = 1,024, 3 times the training takes it from 0.05 to 0.02.
    """
    variance = mean_variance(curve)
    falls, trend = _trend(curve, variance)
    gap, compared = (None, "") if training is None else _gap(curve, training)
    share, run = (math.nan, "") if longer is None else _gain(curve, variance, longer)
    gain = float(np.nan_to_num(share))
    rest = 1 - (gap or 0.0) - gain
    # The training error, which rises with N, may be above the target already.
    highest = math.inf if target_error is None else target_error / float(curve.means[-1])
    by_data = gap if gap and falls and _STAYS * (1 - gap) <= highest else 0.0
    again = longer and f"repeat N = {longer.n:,} with {longer.factor:g} times the steps and with "
    # The first that holds. A missing share leads to "unknown" where it could be the largest; a gap
    # that neither data nor training closes points to a test set of another kind.
    rules = (
        (by_data > max(_LARGE, gain), "data", ""),
        (longer and math.isnan(share), "unknown", f"{again}more seeds"),
        (gap is None and falls and not gain, "data", ""),
        (math.isnan(share), "unknown", f"train {{n}} once with {_LONGER} times the steps"),
        (by_data and by_data >= max(gain, rest), "data", ""),
        (gap is not None and 0 < gain >= rest, "training", ""),
        (gap is None and gain > (_CLEAR if falls else 0.0), "training", ""),
        (gap is None and gain, "unknown", "measure the training error at {n}"),
        (gap and gap > rest and not falls and not gain, "unknown", _OTHER_SAMPLES),
        (True, "unknown", "train a larger network at {n}"),
    )
    kind, next_run = next((kind, run) for holds, kind, run in rules if holds)
    start, facts = {
        "data": ("The amount of data limits the {}", [compared] if gap else [trend, run]),
        "training": ("Training limits the {}", [run]),
        "unknown": ("What limits the {} is not known", [trend, compared, run]),
    }[kind]
    sentence = f"{start.format(curve.unit.noun)}: {'; '.join(filter(None, facts))}."
    return Limit(kind, sentence, next_run.format(n=f"N = {curve.sizes[-1]:,}"))


def _gap(curve: Curve, training: Curve) -> tuple[float, str]:
    """The share of the error missing in that on training samples, at the largest N of both."""
    unit, names = curve.unit, f"{training.unit.name} and {curve.unit.name}"
    rule, remedy = "have the unit of the curve", "give those of the same networks and metric"
    require(training.unit.law == unit.law, "training", rule, training, remedy, got=names)
    n, noun = np.intersect1d(curve.sizes, training.sizes), curve.metric or unit.noun
    require(len(n) > 0, "training", "have a size of the curve", training, remedy)
    test, fitted = (known.means[known.sizes == n[-1]].item() for known in (curve, training))
    words = f"{_shown(unit, fitted)} on training samples and {_shown(unit, test)} on test samples"
    return max(1 - fitted / test, 0.0), f"at N = {n[-1]:,} the {noun} is {words}"


def _gain(curve: Curve, variance: Array, longer: Longer) -> tuple[float, str]:
    """The share that training could remove; 0 without a gain beyond noise, nan if noise hides it.

    Training f times as long removes at least a share 1 - f^-_DECAY of what training can remove.
    """
    unit, rule = curve.unit, f"have values in the unit of the curve ({curve.unit.name})"
    errors = unit.to_error([*longer.before, *longer.errors])
    require(bool(((errors >= 0) & np.isfinite(errors)).all()), "longer", rule, longer)
    before, after = np.split(np.maximum(errors, SMALLEST_ERROR), [len(longer.before)])
    index = min(int(np.searchsorted(curve.sizes, longer.n)), len(curve.sizes) - 1)
    square = float((variance * curve.counts)[index]) * (1 / len(before) + 1 / len(after))
    if 1 < len(before) == len(after):  # pairs: the effect of a seed cancels in the difference
        paired = float(np.log(before / after).var(ddof=1)) / len(before)
        square = max(paired, _LEAST_OF_PAIRS * square)
    gain, deviation = math.log(before.mean() / after.mean()), _BEYOND_NOISE * math.sqrt(square)
    removed_share = 1 - longer.factor**-_DECAY
    share, verb, remark = 0.0, "changes", ", which is no gain beyond noise"
    if gain > max(deviation, -math.log1p(-_LEAST_FALL)):
        share, verb, remark = min(-math.expm1(-gain) / removed_share, 1.0), "takes", ""
    elif -math.expm1(-gain - deviation) / removed_share > _LARGE:  # it may still be a large one
        share, remark = math.nan, ", with too much noise to tell"
    change = f"{verb} it from {_shown(unit, before.mean())} to {_shown(unit, after.mean())}{remark}"
    return share, f"at N = {longer.n:,}, {longer.factor:g} times the training {change}"


def _trend(curve: Curve, variance: Array) -> tuple[bool, str]:
    """Whether a line of the log error over log N falls over the last decade of N, also in words."""
    unit, falls = curve.unit, False
    # At least the last three sizes.
    decade = (10 * curve.sizes >= curve.sizes[-1]) | np.isin(curve.sizes, curve.sizes[-3:])
    sizes, means = curve.sizes[decade], curve.means[decade]
    if len(sizes) > 1 and not no_learning(curve):
        x = np.log(sizes / sizes[-1])
        weights = 1 / np.maximum(np.sqrt(variance[decade]), _LEAST_NOISE)
        fitted, covariance = np.polyfit(x, np.log(means), 1, w=weights, cov="unscaled")
        fall, deviation = fitted[0] * x[0], math.sqrt(covariance[0, 0]) * -x[0]
        falls = bool(fall > max(_FALL_BEYOND_NOISE * deviation, -math.log1p(-_LEAST_FALL)))
    verb = "rise" if unit.larger_is_better else "fall"
    trend = f"still {verb}s with N" if falls else f"does not {verb} with N beyond noise"
    start, end = (f"{_shown(unit, means[k])} at N = {sizes[k]:,}" for k in (0, -1))
    return falls, f"the {unit.noun} {trend}, from {start} to {end}"


def _shown(unit: Unit, error: float) -> str:
    """Format an error in the user's unit."""
    return value(float(unit.from_error(error)))
