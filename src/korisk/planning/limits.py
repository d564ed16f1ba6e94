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
from numpy.typing import NDArray

from korisk import _checks
from korisk._checks import LARGEST_N, require
from korisk._group import grouped
from korisk.curves.curve import Curve
from korisk.curves.formats import is_store
from korisk.curves.noise import relative_variance
from korisk.curves.stored import Chosen, MeasuredFit, error_of, stored_fits, training_name
from korisk.curves.unit import SMALLEST_ERROR, Unit
from korisk.planning.explain import no_learning, value

_LONGER = 3  # times the usual training, of the run that shows whether training limits the error

_PERFECT = 1e-6  # of the test error: stands for a training error of 0, which a curve cannot hold
_LARGE = 0.5  # share of the error above which no other cause can be as large
_CLEAR = 1 / 3  # share of training from which on it is the limit without a training error
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
        lists, remedy = {}, "give one test error for each seed"
        for field in ("errors", "before"):
            values = getattr(self, field)
            listed = isinstance(values, list | tuple) and len(values) > 0
            require(listed, field, "be a list of at least one number", values, remedy)
            lists[field] = tuple(_checks.real(field, number, remedy=remedy) for number in values)
        _checks.set_fields(self, n=n, factor=factor, **lists)


def read_training(path: str | PathLike[str], curve: Curve) -> tuple[Curve | None, Longer | None]:
    """The training errors and the longer run of a curve in a store of `run_pilot`, if any."""
    if not is_store(path):
        return None, None
    fits = stored_fits(path, curve.model, curve.metric)
    return training_of(fits, Chosen(curve.metric, curve.unit), curve.model)


def training_of(
    fits: Sequence[MeasuredFit], chosen: Chosen, model: str
) -> tuple[Curve | None, Longer | None]:
    """The usable training errors of a pilot, and its largest size that was trained longest."""
    # Values that no curve can hold have a nan error, and drop out of comparisons.
    metric, unit = chosen.metric, chosen.unit
    usable = [fit for fit in fits if error_of(unit, fit.value) >= 0]
    usual = {(fit.n, fit.seed): fit for fit in usable if fit.longer is None}
    rows = []
    for fit in usual.values():
        name = training_name(metric, fit.training)
        if name and (error := error_of(unit, fit.training[name])) >= 0:
            # A perfect fit of the training samples counts as well, but a curve cannot hold 0.
            error = max(error, _PERFECT * error_of(unit, fit.value), SMALLEST_ERROR)
            rows.append((fit.n, error, fit.seed))
    training = None
    if rows:
        sizes, errors, seeds = zip(*rows, strict=True)
        training = Curve.of_errors(sizes, errors, seeds, model, metric, unit)
    # Only seeds with both trainings count: differences between seeds must not pass for a gain.
    longer = (fit for fit in usable if fit.longer and (fit.n, fit.seed) in usual)
    runs = grouped(((fit.n, fit.longer or 1.0), fit) for fit in longer)
    if not runs:
        return training, None
    n, factor = max(runs)
    before = [usual[n, fit.seed].value for fit in runs[n, factor]]
    after = [fit.value for fit in runs[n, factor]]
    return training, Longer(n=n, factor=factor, errors=after, before=before)


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
    falls, trend = _trend(curve)
    gap, compared = (None, "") if training is None else _gap(curve, training)
    share, run = (None, "") if longer is None else _gain(curve, longer)
    repeat = ""
    if longer is not None and share is None:
        repeat = f"repeat N = {longer.n:,} with {longer.factor:g} times the steps and with "
        repeat += "more seeds"
    target = math.inf if target_error is None else target_error / float(curve.means[-1])
    kind, next_run = _cause(gap, share, falls, target, repeat)
    start, facts = "What limits the {} is not known", [trend, compared, run]
    if kind == "data":
        start, facts = "The amount of data limits the {}", [compared] if gap else [trend, run]
    elif kind == "training":
        start, facts = "Training limits the {}", [run]
    sentence = f"{start.format(curve.unit.noun)}: {'; '.join(filter(None, facts))}."
    return Limit(kind, sentence, next_run.format(n=f"N = {curve.sizes[-1]:,}"))


def _cause(
    gap: float | None, share: float | None, falls: bool, target: float, repeat: str
) -> tuple[str, str]:
    """The kind of a limit by its shares of the error, and the run that would tell if unknown."""
    # A missing share leads to "unknown" where it could be the largest.
    by_data = gap if gap is not None and falls else 0.0
    if gap is not None and _STAYS * (1 - gap) > target:
        by_data = 0.0  # the training error, which rises with N, is above the target already
    if by_data > max(_LARGE, share or 0.0) or (gap is None and falls and not share and not repeat):
        return "data", ""
    if share is None:
        return "unknown", repeat or f"train {{n}} once with {_LONGER} times the steps"
    if gap is None:
        clear = share > (_CLEAR if falls else 0.0)
        known = "measure the training error" if share else "train a larger network"
        return ("training", "") if clear else ("unknown", f"{known} at {{n}}")
    rest = 1 - gap - share
    if max(by_data, share) >= max(rest, SMALLEST_ERROR):
        return ("data" if by_data >= share else "training"), ""
    # A gap that neither data nor training closes points to a test set of another kind.
    if gap > rest and not falls and not share:
        return "unknown", "test {n} on new samples that are drawn like the training samples"
    return "unknown", "train a larger network at {n}"


def _gap(curve: Curve, training: Curve) -> tuple[float, str]:
    """The share of the error missing in that on training samples, at the largest N of both."""
    unit, names = curve.unit, f"{training.unit.name} and {curve.unit.name}"
    rule, remedy = "have the unit of the curve", "measure both in one metric"
    require(training.unit.law == unit.law, "training", rule, training, remedy, got=names)
    shared = np.intersect1d(curve.sizes, training.sizes)
    remedy = "give the training errors of the same networks"
    require(len(shared) > 0, "training", "have a size of the curve", training, remedy)
    test, on_training = (
        known.means[known.sizes == shared[-1]].item() for known in (curve, training)
    )
    words = f"at N = {shared[-1]:,} the {curve.metric or unit.noun} is {_shown(unit, on_training)} "
    words += f"on training samples and {_shown(unit, test)} on test samples"
    return max(1 - on_training / test, 0.0), words


def _gain(curve: Curve, longer: Longer) -> tuple[float | None, str]:
    """The share that training could remove; 0 without a gain beyond noise, None if noise hides it.

    Training f times as long removes at least a share 1 - f^-_DECAY of what training can remove.
    """
    unit = curve.unit
    before, after = _errors(unit, longer.before), _errors(unit, longer.errors)
    index = min(int(np.searchsorted(curve.sizes, longer.n)), len(curve.sizes) - 1)
    variance = float((_mean_variance(curve) * curve.counts)[index])  # of one seed
    gain = math.log(float(before.mean() / after.mean()))
    if 1 < len(before) == len(after):  # pairs: the effect of a seed cancels in the difference
        gains = np.log(before / after)
        square = max(float(gains.var(ddof=1)), _LEAST_OF_PAIRS * 2 * variance) / len(gains)
    else:
        square = variance * (1 / len(before) + 1 / len(after))
    # A gain within noise may still be a large one: then nothing is known.
    deviation = _BEYOND_NOISE * math.sqrt(square)
    removed_share = 1 - math.pow(longer.factor, -_DECAY)
    share: float | None = 0.0
    verb, remark = "changes", ", which is no gain beyond noise"
    if gain > max(deviation, -math.log1p(-_LEAST_GAIN)):
        share, verb, remark = min(-math.expm1(-gain) / removed_share, 1.0), "takes", ""
    elif -math.expm1(-gain - deviation) / removed_share > _LARGE:
        share, remark = None, ", with too much noise to tell"
    ends = f"from {_shown(unit, before.mean())} to {_shown(unit, after.mean())}"
    start = f"at N = {longer.n:,}, {longer.factor:g} times the training"
    return share, f"{start} {verb} it {ends}{remark}"


def _trend(curve: Curve) -> tuple[bool, str]:
    """Whether a line of the log error over log N falls over the last decade of N, also in words."""
    unit, falls = curve.unit, False
    # At least the last three sizes.
    first = int(np.searchsorted(10 * curve.sizes, curve.sizes[-1]))
    decade = slice(max(min(first, len(curve.sizes) - 3), 0), None)
    sizes, means = curve.sizes[decade], curve.means[decade]
    if len(sizes) > 1 and not no_learning(curve):
        x, y = np.log(sizes / sizes[-1]), np.log(means)
        weights = 1 / np.maximum(np.sqrt(_mean_variance(curve)[decade]), _LEAST_NOISE)
        fitted, covariance = np.polyfit(x, y, 1, w=weights, cov="unscaled")
        fall, deviation = fitted[0] * x[0], math.sqrt(covariance[0, 0]) * -x[0]
        falls = bool(fall > max(_FALL_BEYOND_NOISE * deviation, -math.log1p(-_LEAST_FALL)))
    verb = "rise" if unit.larger_is_better else "fall"
    trend = f"still {verb}s with N" if falls else f"does not {verb} with N beyond noise"
    start, end = (f"{_shown(unit, means[k])} at N = {sizes[k]:,}" for k in (0, -1))
    return falls, f"the {unit.noun} {trend}, from {start} to {end}"


def _mean_variance(curve: Curve) -> NDArray[np.float64]:
    """(K,) the relative variance of each mean."""
    variance = relative_variance(curve)
    return _GUESSED_NOISE**2 / curve.counts if variance is None else variance


def _errors(unit: Unit, values: Sequence[float]) -> NDArray[np.float64]:
    """The errors of values in the user's unit."""
    errors = np.asarray(unit.to_error(values), dtype=np.float64)
    rule = f"have values in the unit of the curve ({unit.name})"
    require(bool(((errors >= 0) & np.isfinite(errors)).all()), "longer", rule, values)
    return np.maximum(errors, SMALLEST_ERROR)


def _shown(unit: Unit, error: float) -> str:
    """Format an error in the user's unit."""
    return value(float(unit.from_error(error)))
