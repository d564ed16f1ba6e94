"""Pilots of scikit-learn estimators and of PyTorch datasets, on nested training subsets.

Each seed defines an order of the samples; a training set of size n is its first n samples.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk._checks import require
from korisk.errors import Argument, KoriskError, Message, did_you_mean, invalid, needed_by, shown
from korisk.pilots.options import PilotModel, checked_longer, checked_sizes, own_name, short_name
from korisk.pilots.result import Pilot
from korisk.pilots.run import run_pilot

Indices = NDArray[np.intp]
Labels = NDArray[np.generic]
Scoring = str | Sequence[str] | None
TrainFunction = Callable[..., object]  # of a training set, a test set and a seed

_SPLIT_SEED = 20_261  # of the test set, which all seeds share
_DEFAULT_TEST = 0.25  # share of the samples
_MOST_SEED = 2**32  # seeds of scikit-learn are below


# --- scikit-learn --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SklearnFit:
    """`fit(n, seed)` of an estimator: train on n samples, score on the test set."""

    estimator: Any
    train: tuple[Any, Any]  # X and y
    test: tuple[Any, Any]
    scoring: Mapping[str, str]  # names in scikit-learn, by metric
    stratified: bool
    groups: Labels | None

    def __call__(self, n: int, seed: int, longer: float = 1.0) -> dict[str, float]:
        """Train a clone and score it; errors are positive, scores as in scikit-learn.

        `longer` multiplies the iterations (`max_iter`).
        """
        from sklearn.base import clone
        from sklearn.metrics import get_scorer

        y = np.asarray(self.train[1])
        order = subset_order(
            np.arange(len(y)), self.groups, seed, labels=y if self.stratified else None
        )
        model = clone(self.estimator)
        # Nested names, such as those of the steps of a pipeline, count as well.
        states = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
        model.set_params(**dict.fromkeys(states, seed % _MOST_SEED))
        if longer != 1.0:
            model.set_params(**{k: round(v * longer) for k, v in _iterations(model).items()})
        training_set = [_rows(values, order[:n]) for values in self.train]
        model.fit(*training_set)
        numbers = {}
        for metric, name in self.scoring.items():
            scorer, sign = get_scorer(name), -1 if _is_negated(name) else 1
            numbers[metric] = sign * float(scorer(model, *self.test))
            # Training errors show whether more data or more training is needed.
            with suppress(ValueError):  # a score may need more classes than n samples have
                score = sign * float(scorer(model, *training_set))
                numbers |= {f"train_{metric}": score} if math.isfinite(score) else {}
        steps = getattr(model, "n_iter_", None)
        return numbers if steps is None else numbers | {"steps": float(np.max(steps))}


def pilot_sklearn(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    sizes: Iterable[int],
    seeds: int | Iterable[int] = 5,
    test: float | tuple[Any, Any] | None = None,
    scoring: Scoring = None,
    groups: ArrayLike | None = None,
    **options: Any,
) -> Pilot:
    """Run the pilot of a scikit-learn estimator.

    A clone is trained on nested subsets (the first n samples of an order that depends on the seed,
    stratified for classifiers) and scored on one test set.

    Parameters
    ----------
    estimator : estimator
        An instance, such as `LogisticRegression()`.
    X, y : array or data frame, (samples, ...)
        The samples, and their labels or values.
    sizes : iterable of int
        Numbers of training samples, ascending, from 2 on.
    seeds : int or iterable of int, default 5
        Number of seeds (0, 1, ...), or the seeds.
    test : float or (X, y), optional
        The share of the samples that is kept for the test, or a test set. Default: 0.25.
    scoring : str or list of str, optional
        Names of scorers of scikit-learn. Default: accuracy, or r2 for regression.
    groups : array, (samples,), optional
        Labels of groups, such as patients: a group is either in training or in the test, and groups
        are taken one after the other.
    **options
        Passed to `run_pilot`.

    Returns
    -------
    Pilot
        The curves, failures and plans.

    Raises
    ------
    KoriskError
        If an argument is wrong, or there are too few samples.
    MissingExtraError
        If scikit-learn is not installed.

    Examples
    --------
    >>> import korisk as kr
    >>> from sklearn.datasets import make_regression
    >>> from sklearn.linear_model import Ridge
    >>> X, y = make_regression(200, 5, noise=10, random_state=0)
    >>> kr.pilot_sklearn(Ridge(), X, y, sizes=[10, 20, 40], seeds=2, quiet=True).curve
    Curve('Ridge', r2, N = 10 ... 40 (3 sizes), 2 seeds)
    """
    with needed_by("pilot_sklearn", "scikit-learn (sklearn)", "scikit-learn"):
        from sklearn.base import is_classifier
    from joblib import hash as data_hash  # type: ignore[import-untyped]

    methods = ("fit", "get_params", "set_params")
    if isinstance(estimator, type) or not all(hasattr(estimator, name) for name in methods):
        remedy = "pass an instance, such as LogisticRegression()"
        raise invalid("estimator", "be a scikit-learn estimator", estimator, remedy)
    if options.get("longer") is not None:
        remedy = Message("take one that trains in steps, or leave out ", Argument("longer", ...))
        rule, got = "have max_iter to be trained longer", type(estimator).__name__
        require(bool(_iterations(estimator)), "estimator", rule, estimator, remedy, got=got)
    rows, target, labels = _samples(X, y)
    classes = bool(is_classifier(estimator))
    # Only single labels can be stratified, not several for each sample.
    strata = labels if classes and labels.ndim == 1 else None
    names = _checked_groups(groups, len(labels))
    sizes = checked_sizes(sizes)
    if isinstance(test, tuple) and len(test) == 2:
        train = np.arange(len(labels))
        test_set = _samples(*test)[:2]
    else:
        share = _DEFAULT_TEST if test is None else test
        train, test_rows = held_out(len(labels), share, labels=strata, groups=names)
        test_set = _rows(rows, test_rows), _rows(target, test_rows)
    scorers, training_set = _scorers(scoring, classes), (_rows(rows, train), _rows(target, train))
    train_groups = None if names is None else names[train]
    fit = SklearnFit(estimator, training_set, test_set, scorers, strata is not None, train_groups)
    parameters = estimator.get_params()
    # By this a store rejects results of another estimator or of other data.
    identity = {
        "estimator": type(estimator).__qualname__,
        "parameters": {
            name: re.sub(r" at 0x[0-9a-f]+", "", repr(parameters[name]))[:200]
            for name in sorted(parameters)
        },
        "scoring": sorted(scorers.values()),
        "data": data_hash((*training_set, *test_set, train_groups)),
    }
    # Scores of scikit-learn are best at 1, except for negated errors.
    units = {
        metric: name if name in {"accuracy", "r2"} else "complement"
        for metric, name in scorers.items()
    } | {metric: "error" for metric, name in scorers.items() if _is_negated(name)}
    run_options = _run_options(options, type(estimator).__name__, identity, sizes, len(train))
    return run_pilot(fit, sizes, seeds, **{"unit": units} | run_options)


def _samples(x: object, y: object) -> tuple[object, object, Labels]:
    """X and y as indexable objects, and y as an array."""
    from sklearn.utils import indexable

    try:
        rows, target = indexable(x, y)
        labels = np.asarray(target)
        if not labels.ndim:  # None, or a sparse matrix
            raise TypeError("y is not an array")
        np.unique(labels)  # raises for labels of several kinds
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise KoriskError(
            "X and y must be arrays of one length, with one label or value for each sample, got "
            f"y = {shown(y)} ({reason}); check both"
        ) from None
    return rows, target, labels


def _rows(values: object, rows: Indices) -> object:
    from sklearn.utils import _safe_indexing

    return _safe_indexing(values, rows)


def _scorers(scoring: Scoring, classes: bool) -> dict[str, str]:
    """Names of scorers by metric: errors lose their prefix neg_."""
    if scoring is None:
        scoring = "accuracy" if classes else "r2"
    names = [scoring] if isinstance(scoring, str) else scoring
    if not isinstance(names, list | tuple) or not names:
        rule = "be the name of a scorer of scikit-learn, or a list of them"
        raise invalid("scoring", rule, scoring, "for a score of your own use run_pilot")
    from sklearn.metrics import get_scorer_names

    known = get_scorer_names()
    for name in names:
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise KoriskError(f"scoring: no scorer {shown(name)} in scikit-learn{hint}")
    return {name.removeprefix("neg_"): name for name in names}


def _is_negated(name: str) -> bool:
    return name.startswith("neg_") or name == "max_error"


def _iterations(estimator: Any) -> dict[str, int]:
    """Values of `max_iter` of an estimator and its components, by name."""
    parameters = estimator.get_params(deep=True).items()
    return {
        name: value
        for name, value in parameters
        if name.rpartition("__")[2] == "max_iter" and isinstance(value, int) and value > 0
    }


# --- PyTorch -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TorchFit:
    """`fit(n, seed)` of a dataset: call the user's function on a subset of n samples."""

    fit: TrainFunction
    dataset: Any
    train: Indices  # into the dataset
    test: object
    groups: Labels | None  # of `train`

    def __call__(self, n: int, seed: int, **longer: float) -> object:
        """The result of the user's function for the subset; `longer` is passed on."""
        from torch.utils.data import Subset

        order = subset_order(self.train, self.groups, seed)
        return self.fit(Subset(self.dataset, order[:n].tolist()), self.test, seed, **longer)


def pilot_torch(
    fit: TrainFunction,
    dataset: Any,
    *,
    test: object,
    sizes: Iterable[int],
    seeds: int | Iterable[int] = 5,
    groups: ArrayLike | None = None,
    **options: Any,
) -> Pilot:
    """Run the pilot of a function that trains on a PyTorch dataset.

    Parameters
    ----------
    fit : callable
        `fit(train, test, seed)` gets a nested `Subset` of the dataset (the first n samples of an
        order that depends on the seed) and returns an error or a dict of metrics. It must seed
        PyTorch. For `longer` it also takes that keyword.
    dataset : dataset
        Any object with a length and an index.
    test : float or object
        The share of the samples that is kept for the test, such as 0.25, or a test set, which is
        passed to `fit` unchanged.
    sizes : iterable of int
        Numbers of training samples, ascending, from 2 on.
    seeds : int or iterable of int, default 5
        Number of seeds (0, 1, ...), or the seeds.
    groups : array, (samples,), optional
        Labels of groups, such as patients: a group is either in training or in the test, and groups
        are taken one after the other.
    **options
        Passed to `run_pilot`.

    Returns
    -------
    Pilot
        The curves, failures and plans.

    Raises
    ------
    KoriskError
        If an argument is wrong, or there are too few samples.
    MissingExtraError
        If PyTorch is not installed.

    Examples
    --------
    >>> import korisk as kr
    >>> def fit(train, test, seed):
    ...     mean = sum(train) / len(train)
    ...     return sum((x - mean) ** 2 for x in test) / len(test)
    >>> numbers = [float(i % 7) for i in range(100)]
    >>> kr.pilot_torch(fit, numbers, test=0.25, sizes=[10, 20, 40], seeds=2, quiet=True).curve
    Curve('fit', error, N = 10 ... 40 (3 sizes), 2 seeds)
    """
    with needed_by("pilot_torch", "PyTorch", "'korisk[torch]'"):
        from torch.utils.data import Subset
    require(callable(fit), "fit", "be a function of (train, test, seed)", fit)
    checked_longer(options.get("longer"), fit, "train, test, seed")
    # An iterable dataset has no order of which to take the first n.
    indexed = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    remedy = "a stream has no subsets: put its samples in a list or a TensorDataset"
    require(indexed, "dataset", "have a length and give samples by index", dataset, remedy)
    samples = len(dataset)
    names = _checked_groups(groups, samples)
    sizes = checked_sizes(sizes)
    train = np.arange(samples)
    if isinstance(test, int | float):
        described: object = test
        train, test_rows = held_out(samples, test, groups=names)
        test = Subset(dataset, test_rows.tolist())
    else:
        # The content of a test set cannot be compared in general: its kind and length must do.
        kind = type(test).__qualname__
        described = f"{kind} of {len(test)}" if hasattr(test, "__len__") else kind
    name, bound = own_name(fit)
    digest = None
    if names is not None:
        # Other groups mean other subsets: a store must not mix them.
        digest = hashlib.sha256(names.dtype.str.encode() + names.tobytes()).hexdigest()[:16]
    identity = {
        "function": name,
        "dataset": type(dataset).__qualname__,
        "samples": samples,
        "test": described,
        "groups": digest,
        **bound,
    }
    wrapped = TorchFit(fit, dataset, train, test, None if names is None else names[train])
    run_options = _run_options(options, short_name(name), identity, sizes, len(train))
    return run_pilot(wrapped, sizes, seeds, **run_options)


# --- Shared --------------------------------------------------------------------------------------


def _run_options(
    options: dict[str, Any], name: str, about: dict[str, Any], sizes: Sequence[int], samples: int
) -> dict[str, Any]:
    """Options of `run_pilot`: the user's, and the model's name and settings."""
    rule = f"be at most the {samples:,} training samples there are"
    remedy = "ask for less, or leave a smaller part for the test"
    require(sizes[-1] <= samples, "sizes", rule, sizes, remedy, got=f"{sizes[-1]:,}")
    model = PilotModel.of(options.get("model"))
    settings = about | dict(model.settings)
    return options | {"model": replace(model, name=model.name or name, settings=settings)}


def _checked_groups(groups: ArrayLike | None, samples: int) -> Labels | None:
    """Group labels as an array; raise unless there is one for each sample."""
    if groups is None:
        return None
    # Integers stay integers, so that their order is numeric; all others become text.
    labels = np.asarray(groups)
    rule, got = f"have one label for each of the {samples} samples", f"shape {labels.shape}"
    require(labels.shape == (samples,), "groups", rule, groups, "give a list of them", got=got)
    return labels if labels.dtype.kind in "iub" else labels.astype(str)


def subset_order(
    samples: Indices, groups: Labels | None, seed: int, *, labels: Labels | None = None
) -> Indices:
    """The samples in a random order by the seed: one by one or stratified, or group by group."""
    if groups is None and labels is not None:  # groups are not divided, so not stratified
        return stratified_order(samples, labels, seed)
    if groups is None:
        # The second number names the stream: 1 for samples, 2 for strata, 3 for groups.
        return np.asarray(np.random.default_rng([seed, 1]).permutation(samples))
    names = np.unique(groups)
    rank = np.random.default_rng([seed, 3]).permutation(len(names))
    return np.asarray(samples[np.argsort(rank[np.searchsorted(names, groups)], kind="stable")])


def stratified_order(samples: Indices, labels: Labels, seed: int) -> Indices:
    """A random order in which every prefix has the classes in nearly their shares.

    The second sample is of another class than the first: few classifiers accept a single one.
    """
    rng = np.random.default_rng([seed, 2])
    positions = np.empty(len(samples))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        shares = (np.arange(len(members)) + rng.random()) / len(members)
        # Permuted after the draw of u: another order would change the samples of stored pilots.
        positions[rng.permutation(members)] = shares
    order = np.argsort(positions, kind="stable")
    different = np.flatnonzero(labels[order] != labels[order[0]])
    if len(different):
        sample = order[different[0]]
        order = np.insert(np.delete(order, different[0]), 1, sample)
    return np.asarray(samples[order])


def held_out(
    samples: int, fraction: object, *, labels: Labels | None = None, groups: Labels | None = None
) -> tuple[Indices, Indices]:
    """Indices (train, test), with about this fraction for the test; groups are not divided."""
    if not isinstance(fraction, float) or not 0 < fraction < 1:
        rule = "be a fraction between 0 and 1 or a test set, for scikit-learn a pair (X, y)"
        raise invalid("test", rule, fraction, "pass 0.25, for example")
    indices = np.arange(samples)
    # At least one sample for the test, however small the fraction.
    cut = max(1, round(fraction * samples))
    order = subset_order(indices, groups, _SPLIT_SEED, labels=labels)
    if groups is not None:
        # Cut between two groups, where the share of the test is closest to the fraction.
        ends = np.append(np.flatnonzero(groups[order][1:] != groups[order][:-1]) + 1, samples)
        cut = int(ends[int(np.argmin(np.abs(ends - fraction * samples)))])
        if cut >= samples:
            advice = "a test set of groups of its own needs at least two of them, or pass "
            remedy = Message(advice, Argument("test", ...), " yourself")
            got = f"{len(ends)} in {samples} samples"
            raise invalid("groups", "be several", groups, remedy, got=got)
    return np.sort(order[cut:]), np.sort(order[:cut])
