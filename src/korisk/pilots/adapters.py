"""Pilots of scikit-learn estimators and of PyTorch datasets."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from korisk.errors import KoriskError, MissingExtraError, did_you_mean, shown
from korisk.pilots.request import checked_sizes, own_name, plain_settings, short_name
from korisk.pilots.result import Pilot
from korisk.pilots.run import run_pilot
from korisk.pilots.subsets import (
    check_room,
    checked_fraction,
    checked_groups,
    grouped_order,
    held_out,
    random_order,
    stratified_order,
)

Scoring = str | Sequence[str] | None

_DEFAULT_TEST = 0.25
_MOST_SEED = 2**32  # scikit-learn takes seeds below


# --- scikit-learn --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SklearnFit:
    """`fit(n, seed)` of an estimator: the first n of an order by the seed, scored on one test."""

    estimator: Any
    x: Any
    y: Any
    x_test: Any
    y_test: Any
    scoring: Mapping[str, str]  # scikit-learn's names by the metrics'
    stratified: bool
    groups: NDArray[Any] | None

    def __call__(self, n: int, seed: int) -> dict[str, float]:
        """Train a clone and score it; errors are positive, scores as scikit-learn gives them."""
        sklearn: Any = import_module("sklearn.base")
        utils: Any = import_module("sklearn.utils")
        metrics: Any = import_module("sklearn.metrics")
        rows = self.order(seed)[:n]
        model = sklearn.clone(self.estimator)
        model.set_params(**dict.fromkeys(_random_states(model), seed % _MOST_SEED))
        model.fit(*(utils._safe_indexing(part, rows) for part in (self.x, self.y)))
        found = {}
        for metric, name in self.scoring.items():
            score = float(metrics.get_scorer(name)(model, self.x_test, self.y_test))
            found[metric] = -score if _is_negated(name) else score
        return found

    def order(self, seed: int) -> NDArray[np.intp]:
        """The training samples in the order in which this seed takes them."""
        every = np.arange(len(self.y))
        if self.groups is not None:
            return grouped_order(every, self.groups, seed)
        if self.stratified:
            return stratified_order(every, np.asarray(self.y), seed)
        return random_order(every, seed)


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
    """The pilot of a scikit-learn estimator.

    A clone is trained on nested subsets (for each seed an order of its own, of which n are the
    first n; classes in their shares for a classifier) and scored on one test set for all: `test`
    is a part of the samples (default 0.25) or a pair (X, y). A group in `groups` stands on one
    side, and groups are taken one after the other. `scoring` names scorers of scikit-learn
    (default: accuracy, or r2 for regression). The rest goes to `run_pilot`.

    `X` (samples, ...) and `y` (samples, ...) are arrays or data frames. More samples than there are
    to train on, or an estimator that is none, raise `KoriskError`; without scikit-learn it is
    `MissingExtraError`.

    >>> import korisk as kr
    >>> from sklearn.datasets import make_regression
    >>> from sklearn.linear_model import Ridge
    >>> X, y = make_regression(200, 5, noise=10, random_state=0)
    >>> kr.pilot_sklearn(Ridge(), X, y, sizes=[10, 20, 40], seeds=2, quiet=True).curve
    Curve('Ridge', r2, N = 10 ... 40 (3 sizes), 2 seeds)
    """
    base = _scikit_learn()
    needed = ("fit", "get_params", "set_params")
    if isinstance(estimator, type) or not all(hasattr(estimator, name) for name in needed):
        raise KoriskError(
            f"estimator must be a scikit-learn estimator, got {shown(estimator)}; "
            "pass an instance, such as LogisticRegression()"
        )
    x, target, labels = _samples(X, y)
    classes = bool(base.is_classifier(estimator))
    strata = labels if classes and labels.ndim == 1 else None
    names = checked_groups(groups, len(labels))
    asked = checked_sizes(sizes)
    if isinstance(test, tuple):
        train, (x_test, y_test) = np.arange(len(labels)), _own_test(test)
    else:
        part = checked_fraction(_DEFAULT_TEST if test is None else test)
        train, rest = held_out(len(labels), part, labels=strata, groups=names)
        x_test, y_test = _rows(x, rest), _rows(target, rest)
    check_room(asked, options.get("largest"), len(train))
    metrics = _metrics(scoring, classes)
    fit = SklearnFit(
        estimator=estimator,
        x=_rows(x, train),
        y=_rows(target, train),
        x_test=x_test,
        y_test=y_test,
        scoring=metrics,
        stratified=strata is not None,
        groups=None if names is None else names[train],
    )
    return run_pilot(fit, asked, seeds, **_with_defaults(fit, options, len(train)))


def _samples(x: Any, y: Any) -> tuple[Any, Any, NDArray[Any]]:
    """X and y as scikit-learn takes rows of them, and y as an array."""
    if y is None or hasattr(y, "toarray"):
        kind = "None" if y is None else "a sparse matrix"
        raise KoriskError(
            f"y must have one label or value for each sample, got {kind}; give an array"
        )
    try:
        rows, target = import_module("sklearn.utils").indexable(x, y)
        labels = np.asarray(target)
    except (TypeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise KoriskError(f"X and y must be arrays of one length ({why}); check both") from None
    if not labels.ndim:
        raise KoriskError(f"y must be an array, got {shown(y)}; give one entry for each sample")
    try:
        np.unique(labels)
    except TypeError:
        found = ", ".join(sorted({type(label).__name__ for label in labels.flat})[:4])
        raise KoriskError(
            f"y must hold labels of one kind, got {found}; drop or name what is missing"
        ) from None
    return rows, target, labels


def _own_test(test: tuple[Any, ...]) -> tuple[Any, Any]:
    if len(test) != 2:
        raise KoriskError(
            f"test must be a fraction or a pair (X_test, y_test), got a tuple of {len(test)}; "
            "give both"
        )
    x, y, _ = _samples(*test)
    return x, y


def _with_defaults(fit: SklearnFit, options: dict[str, Any], room: int) -> dict[str, Any]:
    """What the user gave, and what follows from the estimator and the data."""
    known: dict[str, Any] = {
        "model": type(fit.estimator).__name__,
        "unit": {metric: _unit(name) for metric, name in fit.scoring.items()},
    }
    if options.get("grow"):
        known["largest"] = room
    return known | options | {"settings": _settings(fit) | plain_settings(options.get("settings"))}


def _settings(fit: SklearnFit) -> dict[str, Any]:
    """What results depend on, so that a store refuses those of another estimator or data."""
    joblib: Any = import_module("joblib")
    parameters = fit.estimator.get_params()
    return {
        "estimator": type(fit.estimator).__qualname__,
        "parameters": {name: _written(parameters[name]) for name in sorted(parameters)},
        "scoring": sorted(fit.scoring.values()),
        "data": joblib.hash((fit.x, fit.y, fit.x_test, fit.y_test, fit.groups)),
    }


def _written(parameter: object) -> str:
    """A parameter as a text that is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(parameter))[:200]


def _scikit_learn() -> Any:
    try:
        return import_module("sklearn.base")
    except ModuleNotFoundError:
        raise MissingExtraError(
            "pilot_sklearn needs scikit-learn, which is not installed; pip install scikit-learn"
        ) from None


def _rows(values: Any, rows: NDArray[np.intp]) -> Any:
    return import_module("sklearn.utils")._safe_indexing(values, rows)


def _random_states(model: Any) -> list[str]:
    parameters = model.get_params(deep=True)
    return [name for name in parameters if name.rpartition("__")[2] == "random_state"]


def _metrics(scoring: Scoring, classes: bool) -> dict[str, str]:
    """Scikit-learn's names by ours: errors lose their neg_."""
    if scoring is None:
        scoring = "accuracy" if classes else "r2"
    names = [scoring] if isinstance(scoring, str) else scoring
    if not isinstance(names, list | tuple) or not names:
        raise KoriskError(
            f"scoring must be the name of a scorer of scikit-learn, or a list of them, got "
            f"{shown(scoring)}; for a score of your own use run_pilot"
        )
    known = import_module("sklearn.metrics").get_scorer_names()
    for name in names:
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise KoriskError(f"scoring: no scorer {shown(name)} in scikit-learn{hint}")
    return {name.removeprefix("neg_"): name for name in names}


def _is_negated(name: str) -> bool:
    return name.startswith("neg_") or name == "max_error"


def _unit(name: str) -> str:
    """All scores of scikit-learn but those that are negated errors have 1 as their best."""
    known = {"accuracy", "r2"}
    if _is_negated(name):
        return "error"
    return name if name in known else "complement"


# --- PyTorch -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TorchFit:
    """`fit(n, seed)` of a dataset: the user's function on the first n of an order by the seed."""

    fit: Callable[[Any, Any, int], Any]
    dataset: Any
    train: NDArray[np.intp]  # indices into the dataset
    test: Any
    groups: NDArray[Any] | None  # of `train`

    def __call__(self, n: int, seed: int) -> Any:
        """What the user's function makes of the subset."""
        data: Any = import_module("torch.utils.data")
        return self.fit(data.Subset(self.dataset, self.order(seed)[:n].tolist()), self.test, seed)

    def order(self, seed: int) -> NDArray[np.intp]:
        """Indices into the dataset, in the order in which this seed takes them."""
        if self.groups is not None:
            return grouped_order(self.train, self.groups, seed)
        return random_order(self.train, seed)


def pilot_torch(
    fit: Callable[[Any, Any, int], Any],
    dataset: Any,
    *,
    test: Any,
    sizes: Iterable[int],
    seeds: int | Iterable[int] = 5,
    groups: ArrayLike | None = None,
    **options: Any,
) -> Pilot:
    """The pilot of a function that trains on a PyTorch dataset.

    `fit(train, test, seed)` gets nested `Subset`s of the dataset (for each seed an order of its
    own, of which n are the first n) and returns an error or a dict of metrics. `test` is handed
    on as it is, or a part of the samples, such as 0.25, kept out of all training. A group in
    `groups` stands on one side, and groups are taken one after the other. Seeding PyTorch is
    the function's part. The rest goes to `run_pilot`.

    A dataset without a length, or with too few samples, raises `KoriskError`; without PyTorch it is
    `MissingExtraError`.

    >>> import korisk as kr
    >>> def fit(train, test, seed):
    ...     mean = sum(train) / len(train)
    ...     return sum((x - mean) ** 2 for x in test) / len(test)
    >>> numbers = [float(i % 7) for i in range(100)]
    >>> kr.pilot_torch(fit, numbers, test=0.25, sizes=[10, 20, 40], seeds=2, quiet=True).curve
    Curve('fit', error, N = 10 ... 40 (3 sizes), 2 seeds)
    """
    _torch()
    if not callable(fit):
        raise KoriskError(f"fit must be a function of (train, test, seed), got {shown(fit)}")
    samples = _length(dataset)
    names = checked_groups(groups, samples)
    asked = checked_sizes(sizes)
    train, part = np.arange(samples), 0.0
    if isinstance(test, int | float):
        part = checked_fraction(test)
        train, rest = held_out(samples, part, groups=names)
        test = import_module("torch.utils.data").Subset(dataset, rest.tolist())
    check_room(asked, options.get("largest"), len(train))
    name, bound = own_name(fit)
    known: dict[str, Any] = {"model": short_name(name)}
    if options.get("grow"):
        known["largest"] = len(train)
    about = {
        "function": name,
        "dataset": type(dataset).__qualname__,
        "samples": samples,
        "test": part or _described(test),
        "groups": None if names is None else _digest(names),
    }
    settings = about | bound | plain_settings(options.get("settings"))
    wrapped = TorchFit(fit, dataset, train, test, None if names is None else names[train])
    return run_pilot(wrapped, asked, seeds, **(known | options | {"settings": settings}))


def _described(test: Any) -> str:
    """A test set of the user's own, as far as it can be told."""
    kind = type(test).__qualname__
    return f"{kind} of {len(test)}" if hasattr(test, "__len__") else kind


def _digest(groups: NDArray[Any]) -> str:
    return hashlib.sha256(groups.dtype.str.encode() + groups.tobytes()).hexdigest()[:16]


def _length(dataset: Any) -> int:
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise KoriskError(
            f"dataset must have a length and give samples by index, got {shown(dataset)}; "
            "a stream has no subsets: put its samples in a list or a TensorDataset"
        )
    return len(dataset)


def _torch() -> None:
    try:
        import_module("torch")
    except ModuleNotFoundError:
        raise MissingExtraError(
            "pilot_torch needs PyTorch, which is not installed; pip install 'korisk[torch]'"
        ) from None
