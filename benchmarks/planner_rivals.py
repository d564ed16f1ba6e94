"""What others do with a pilot: fits as in tutorials, LCDB's families, PyPI learning-curves."""

import sys
import tarfile
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import curve_fit

import planner_curves

Array = NDArray[np.float64]
Predict = Callable[[Array], Array]
Rival = Callable[[Array, Array], Predict]  # n (K,), means (K,) to a curve


def last_value(n: Array, means: Array) -> Predict:
    """No more learning: the last error stays."""
    return lambda at: np.full(len(at), means[-1])


def tutorial_power(n: Array, means: Array) -> Predict:
    """c + a N^-b by nonlinear least squares from one start, unbounded, as in many tutorials."""

    def law(x: Array, a: float, b: float, c: float) -> Array:
        return np.asarray(a * np.power(x, -b) + c)

    try:
        fitted, _ = curve_fit(law, n, means, p0=(1.0, 0.5, 0.0), maxfev=5_000)
    except RuntimeError:
        return last_value(n, means)
    return lambda at: law(at, *fitted)


def lcdb_mmf(n: Array, means: Array) -> Predict:
    """The four-parameter MMF law by Levenberg-Marquardt from random starts, as LCDB fits it."""

    def law(x: Array, a: float, b: float, c: float, d: float) -> Array:
        power = np.power(x, d)
        return np.asarray((a * b + c * power) / (b + power))

    rng = np.random.default_rng(0)
    best: tuple[float, Any] = (np.inf, None)
    for _ in range(6):
        try:
            fitted, _ = curve_fit(law, n, means, p0=rng.uniform(0, 1, 4), maxfev=1_000)
        except RuntimeError:
            continue
        loss = float(((law(n, *fitted) - means) ** 2).sum())
        if loss < best[0]:
            best = (loss, fitted)
    if best[1] is None:
        return last_value(n, means)
    return lambda at: law(at, *best[1])


def learning_curves_package(n: Array, means: Array) -> Predict:
    """PyPI learning-curves 0.2.2: the best of its own families.

    It is made for scores that grow toward one, so errors are told as parts of the first one.
    """
    module = _package()
    tool = module.LearningCurve()
    predictors = [p for p in tool.predictors if not p.diverging]
    best, fitted = None, -np.inf
    for predictor in predictors:
        try:
            tool.fit(predictor, n, 1 - means / (1.25 * means[0]))
        except (RuntimeError, TypeError, ValueError):
            continue
        if predictor.score is not None and predictor.score > fitted:
            best, fitted = predictor, predictor.score
    if best is None:
        return last_value(n, means)
    whole = 1.25 * means[0]
    return lambda at: np.nan_to_num(whole * (1 - np.asarray(best(at))), nan=float(means[-1]))


@lru_cache
def _package() -> Any:
    archive = planner_curves.download("learning-curves==0.2.2", "learning-curves-0.2.2.tar.gz")
    folder = planner_curves.CACHE / "learning-curves-0.2.2"
    if not folder.exists():
        with tarfile.open(archive) as tar:
            tar.extractall(planner_curves.CACHE, filter="data")
    sys.path.insert(0, str(folder))
    from learning_curves import learning_curves

    return learning_curves


RIVALS: dict[str, Rival] = {
    "last value": last_value,
    "tutorial curve_fit c + a N^-b": tutorial_power,
    "LCDB-style MMF": lcdb_mmf,
    "PyPI learning-curves": learning_curves_package,
}
