"""What a pilot tells by itself: whether it can be extrapolated, what is odd, and what limits it.

What limits the error at the largest N is the data or the training. The part that more data can
remove is the gap between test and training error; the part that more training can remove is the
gain by longer training at one size, extrapolated to infinite training. The larger part is the
limit. Without training errors and a longer run, the learning curve alone cannot distinguish a
network that was trained too briefly from one that has learned all it can: then the limit is not
known, and `Limit.next_run` names the run that would tell.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from korisk._checks import LARGEST_N, count, real, require, set_fields
from korisk.curves.curve import Curve
from korisk.curves.formats import is_store
from korisk.curves.noise import collapsed, collapsed_sizes, mean_variance, relative_variance
from korisk.curves.stored import Chosen, MeasuredFit, error_of, stored_fits, training_name
from korisk.curves.unit import SMALLEST_ERROR, Unit
from korisk.planning.futures.posterior import ROUGHEST, Posterior
from korisk.planning.words import value

Array = NDArray[np.float64]

_BEYOND_NOISE = 2.0  # standard errors by which a rise, a fall, a bend or a gain must exceed noise
_LEAST_NOISE = 0.01  # relative deviation of a mean: no smooth curve fits better than that
_LEAST_CHANGE = 0.02  # of the log error from end to end, below which nothing was learned
_MOST_OUTSIDE = 0.5  # of the seeds outside their 90% range; a tenth is expected
_OUTLYING = 4.0  # robust standard deviations from the median of its N
_OUTLYING_AT_LEAST = math.log(1.5)  # seeds that agree closely have no outlier below this factor
_LISTED = 3  # findings of one kind that are listed in full
_COPIED = 3  # sizes at which seeds must agree in every digit to be taken for copies
_LONGER = 3  # times the usual training, of the run that shows whether training limits the error
_PERFECT = 1e-6  # of the test error: stands for a training error of 0, which a curve cannot hold
_LARGE = 0.5  # share of the error above which no other cause can be as large
_CLEAR = 1 / 3  # share of training from which on it is the limit without a training error
_LEAST_FALL = 0.1  # of the error, by longer training or over a decade of N: less counts as none
_FALL_BEYOND_NOISE = 3.0  # standard errors of a fall with N: a flat decade must hardly ever pass
_STAYS = 0.8  # of the training error, which data cannot lower, with a margin for its noise
_LEAST_OF_PAIRS = 0.25  # of the unpaired variance: a few pairs may agree by chance
_OTHER_SAMPLES = "test {n} on new samples that are drawn like the training samples"
_DECAY = 0.5  # training's share of the error falls at least with the steps to this power


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


@lru_cache(maxsize=32)  # all targets of a pilot share them
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
        no_gain = (
            f"No learning from N = {sizes[0]:,} to {sizes[-1]:,} may mean that training is too "
            "short, that test data leak into it, or that larger values are better in this metric "
            f"(then name its unit), or that the network has learned all it can at N = {sizes[0]:,} "
            "already."
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

    The trend is a line of the log error over log N, weighted by the noise, so that a scattered
    first size does not hide the fall of the others.
    """
    # Both must show no fall: a scattered first size hides one from the ends, and a pilot that is
    # flat after its first sizes hides it from the line.
    rise, least = _change(curve)
    slope, deviation = _coefficient(curve, 1, 0.0)
    span = math.log(curve.sizes[-1] / curve.sizes[0])
    trend = max(_BEYOND_NOISE * deviation * span, _LEAST_CHANGE)
    return -rise <= least and -slope * span <= trend


@lru_cache(maxsize=32)
def shows_floor(curve: Curve) -> bool:
    """Whether a pilot shows that its error levels off.

    Most of at least three sizes, the last among them, need two seeds; the quadratic coefficient of
    the log error over log N then exceeds zero by more than two standard errors.
    """
    several = curve.counts > 1
    if no_learning(curve) or np.mean(several) <= 0.5 or not several[-1] or len(several) < 3:
        return False
    bend, deviation = _coefficient(curve, 2, _LEAST_NOISE)
    return bend > _BEYOND_NOISE * deviation


def _change(curve: Curve) -> tuple[float, float]:
    """The rise of the log error from the first mean to the last, and the part noise explains."""
    noise = mean_variance(curve)
    least = max(_BEYOND_NOISE * math.sqrt(noise[0] + noise[-1]), _LEAST_CHANGE)
    return math.log(curve.means[-1] / curve.means[0]), least


def _coefficient(
    curve: Curve, degree: int, least: float, rows: NDArray[np.bool_] | slice = slice(None)
) -> tuple[float, float]:
    """The leading coefficient of a polynomial of log error in log N, and its standard error."""
    weights = 1 / np.sqrt(np.maximum(mean_variance(curve), max(least, 1e-6) ** 2))
    x, y = np.log(curve.sizes / curve.sizes[-1]), np.log(curve.means)
    fitted, covariance = np.polyfit(x[rows], y[rows], degree, w=weights[rows], cov="unscaled")
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
        why = f"with more data the {curve.unit.noun} gets worse, from {_mean(curve, 0)} at "
        why += f"N = {sizes[0]:,} to {_mean(curve, -1)} at {last}"
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
    return _shown(curve.unit, curve.means[index])


def _shown(unit: Unit, error: float) -> str:
    """Format an error in the user's unit."""
    return value(float(unit.from_error(error)))


# --- What limits it ------------------------------------------------------------------------------


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
    require(isinstance(curve, Curve), "curve", "be a Curve", curve, "give the pilot")
    if target_error is not None:
        target_error = real("target_error", target_error, "give the error to reach", above=0)
    check_training(training, longer)
    falls, trend = _trend(curve)
    gap, compared = (None, "") if training is None else _gap(curve, training)
    share, run = (math.nan, "") if longer is None else _gain(curve, longer)
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


def check_training(training: object, longer: object) -> None:
    """Raise unless what is known of the training is of the right kinds."""
    for name, known, kind in (("training", training, Curve), ("longer", longer, Longer)):
        rule, remedy = f"be a {kind.__name__}", f"give a {kind.__name__}, or leave it out"
        require(known is None or isinstance(known, kind), name, rule, known, remedy)


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


def _gain(curve: Curve, longer: Longer) -> tuple[float, str]:
    """The share that training could remove; 0 without a gain beyond noise, nan if noise hides it.

    Training f times as long removes at least a share 1 - f^-_DECAY of what training can remove.
    """
    unit, rule = curve.unit, f"have values in the unit of the curve ({curve.unit.name})"
    errors = unit.to_error([*longer.before, *longer.errors])
    require(bool(((errors >= 0) & np.isfinite(errors)).all()), "longer", rule, longer)
    before, after = np.split(np.maximum(errors, SMALLEST_ERROR), [len(longer.before)])
    index = min(int(np.searchsorted(curve.sizes, longer.n)), len(curve.sizes) - 1)
    shares = 1 / len(before) + 1 / len(after)
    square = float((mean_variance(curve) * curve.counts)[index]) * shares
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


def _trend(curve: Curve) -> tuple[bool, str]:
    """Whether a line of the log error over log N falls over the last decade of N, also in words."""
    unit, falls = curve.unit, False
    # At least the last three sizes.
    decade = (10 * curve.sizes >= curve.sizes[-1]) | np.isin(curve.sizes, curve.sizes[-3:])
    first = int(np.argmax(decade))
    if decade.sum() > 1 and not no_learning(curve):
        slope, deviation = _coefficient(curve, 1, _LEAST_NOISE, decade)
        span = math.log(curve.sizes[-1] / curve.sizes[first])
        least = max(_FALL_BEYOND_NOISE * deviation * span, -math.log1p(-_LEAST_FALL))
        falls = -slope * span > least
    verb = "rise" if unit.larger_is_better else "fall"
    trend = f"still {verb}s with N" if falls else f"does not {verb} with N beyond noise"
    start, end = (f"{_mean(curve, k)} at N = {curve.sizes[k]:,}" for k in (first, -1))
    return falls, f"the {unit.noun} {trend}, from {start} to {end}"
