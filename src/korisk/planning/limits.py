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
from korisk.curves.curve import Curve
from korisk.curves.formats import is_store
from korisk.curves.noise import relative_variance
from korisk.curves.stored import Chosen, MeasuredFit, error_of, stored_fits, training_name
from korisk.curves.unit import SMALLEST_ERROR, Unit
from korisk.errors import invalid
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
        n, errors, seeds = zip(*rows, strict=True)
        training = Curve.of_errors(n, errors, seeds, model, metric, unit)
    # Only seeds with both trainings count: differences between seeds must not pass for a gain.
    pairs = [fit for fit in usable if fit.longer and (fit.n, fit.seed) in usual]
    longest = max(((fit.n, fit.longer or 1.0) for fit in pairs), default=None)
    if longest is None:
        return training, None
    pairs = [fit for fit in pairs if (fit.n, fit.longer) == longest]
    before = [usual[fit.n, fit.seed].value for fit in pairs]
    after = [fit.value for fit in pairs]
    return training, Longer(n=longest[0], factor=longest[1], errors=after, before=before)


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
    unit, falls = curve.unit, _falls(curve)
    gap = share = None  # shares of the error: test less training error; removed by longer training
    compared = run = ""
    if training is not None:
        n, on_training = _training_error(curve, training)
        test = curve.means[curve.sizes == n].item()
        gap = max(1 - on_training / test, 0.0)
        compared = f"at N = {n:,} the {curve.metric or unit.noun} is {_shown(unit, on_training)} "
        compared += f"on training samples and {_shown(unit, test)} on test samples"
    repeat = ""
    if longer is not None:
        share = _training_share(curve, longer)
        before, after = (
            _shown(unit, _errors(unit, values).mean()) for values in (longer.before, longer.errors)
        )
        run = f"at N = {longer.n:,}, {longer.factor:g} times the training "
        run += f"{'takes' if share else 'changes'} it from {before} to {after}"
        if share is None:
            run += ", with too much noise to tell"
            repeat = f"repeat N = {longer.n:,} with {longer.factor:g} times the steps and with "
            repeat += "more seeds"
        elif share == 0:
            run += ", which is no gain beyond noise"
    target = math.inf if target_error is None else target_error / float(curve.means[-1])
    kind, next_run = _cause(gap, share, falls, target, repeat)
    start, facts = (
        f"What limits the {unit.noun} is not known",
        [_trend(curve, falls), compared, run],
    )
    if kind == "data":
        start = f"The amount of data limits the {unit.noun}"
        facts = [compared] if gap else [facts[0], run]
    elif kind == "training":
        start, facts = f"Training limits the {unit.noun}", [run]
    sentence = f"{start}: {'; '.join(filter(None, facts))}."
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


def _training_error(curve: Curve, training: Curve) -> tuple[int, float]:
    """The largest N that both curves have, and the mean error on training samples there."""
    if training.unit.law != curve.unit.law:
        names = f"{training.unit.name} and {curve.unit.name}"
        remedy = "measure both in one metric"
        raise invalid("training", "have the unit of the curve", training, remedy, got=names)
    shared = np.intersect1d(curve.sizes, training.sizes)
    remedy = "give the training errors of the same networks"
    require(len(shared) > 0, "training", "have a size of the curve", training, remedy)
    return int(shared[-1]), training.means[training.sizes == shared[-1]].item()


def _training_share(curve: Curve, longer: Longer) -> float | None:
    """The share that training could remove; 0 without a gain beyond noise, None if noise hides it.

    Training f times as long removes at least a share 1 - f^-_DECAY of what training can remove.
    """
    before, after = _errors(curve.unit, longer.before), _errors(curve.unit, longer.errors)
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
    if gain > max(deviation, -math.log1p(-_LEAST_GAIN)):
        return min(-math.expm1(-gain) / removed_share, 1.0)
    return None if -math.expm1(-gain - deviation) / removed_share > _LARGE else 0.0


def _falls(curve: Curve) -> bool:
    """Whether a line of the log error over log N falls over the last decade of N."""
    indices = _decade(curve)
    if len(indices) < 2 or no_learning(curve):
        return False
    deviations = np.sqrt(_mean_variance(curve)[indices])
    x, y = np.log(curve.sizes[indices] / curve.sizes[-1]), np.log(curve.means[indices])
    weights = 1 / np.maximum(deviations, _LEAST_NOISE)
    fitted, covariance = np.polyfit(x, y, 1, w=weights, cov="unscaled")
    fall, deviation = fitted[0] * x[0], math.sqrt(covariance[0, 0]) * -x[0]
    return bool(fall > max(_FALL_BEYOND_NOISE * deviation, -math.log1p(-_LEAST_FALL)))


def _trend(curve: Curve, falls: bool) -> str:
    """Whether the error falls over the last decade of N, in words."""
    unit, ends = curve.unit, _decade(curve)[[0, -1]]
    fall = "rise" if unit.larger_is_better else "fall"
    verb = f"still {fall}s with N" if falls else f"does not {fall} with N beyond noise"
    first, last = (f"{_shown(unit, curve.means[k].item())} at N = {curve.sizes[k]:,}" for k in ends)
    return f"the {unit.noun} {verb}, from {first} to {last}"


def _decade(curve: Curve) -> NDArray[np.intp]:
    """Indices of the sizes in the last decade, at least the last three."""
    inside = np.flatnonzero(10 * curve.sizes >= curve.sizes[-1])
    return np.arange(max(min(int(inside[0]), len(curve.sizes) - 3), 0), len(curve.sizes))


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
