"""Fit one curve to a pilot's errors: the paper's calibration, and better ones.

All curves are floor + scale * basis(N). Only the basis has parameters that linear least squares
cannot solve for: they go on a grid. At each grid point, floor and scale follow in closed form, both
nonnegative; then the grid closes in on the best point. So a fit needs no starting values, always
converges, is deterministic, and runs for thousands of resamples at once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import overload

import numpy as np
from numpy.typing import NDArray

from korisk._checks import LARGEST_N, one_of, real, require
from korisk.curves.curve import Curve
from korisk.curves.noise import RESAMPLES, resampled_means, weights
from korisk.curves.unit import LARGEST_ERROR, SMALLEST_ERROR
from korisk.errors import KoriskError, invalid, levels_off
from korisk.planning.futures.posterior import posterior
from korisk.theory import RiskLine

Array = NDArray[np.float64]

# basis(log(N / N_last), log(N_last), shape); the axes of the shape parameters come first
Basis = Callable[[Array, float, tuple[Array, ...]], Array]

DEFAULT_FIT = "posterior"
FORMULAS: dict[str, str] = {
    "posterior": "median over curves with a rate, a floor, a shift or an upper end, and drift",
    "power": "c + a N^-b, b <= 1",
    "shifted-power": "c + a (N + s)^-b",
    "paper": "c + a log N / N, c = lowest mean error",
}
FITS = tuple(FORMULAS)

WIDENING = 0.02  # of the log error's half-width, for every doubling beyond the pilot
STRETCH = 2.1  # so that bands hold nine in ten on the tuning part of benchmarks/planner/compare.py
_POOLED = ("line", "power", "no-floor", "log-power")  # families of the band
_POINTS = {1: 7, 2: 5}  # of the closing grid, along each axis, by the number of axes
_ROUNDS = {1: 16, 2: 10}  # in which the grid closes in
_STEPS = 24  # of the descent that follows where two shape parameters compensate each other
_NUDGE = 1e-6  # step of finite differences, in the logarithm of a parameter
_TINY = np.finfo(float).tiny
_CHUNK = 250  # pilots at a time, whose grids fit into the processor's cache
_EASY = 3.0  # times the largest pilot error: easier targets are probably in another unit
_HARD = 0.1  # times the smallest pilot error: so may be harder ones


RATES = np.geomspace(0.02, 2.0, 24)  # grid of b for families with two shape parameters,
KNEES = np.geomspace(0.01, 100.0, 24)  # and of the shift s over N_last
RATE_LIMITS, KNEE_LIMITS = (1e-3, 3.0), (1e-4, 1e4)
_WIDE = (np.geomspace(0.01, 2.0, 70),)  # grid of b for families with one
# What a target far from every measurement may mean: the first two in every unit, the others where
# the metric is an error. Where it is a score, an error may be meant.
_MEANINGS: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("in percent", lambda t: t / 100),
    ("as a fraction of one", lambda t: t * 100),
    ("as a score of which larger is better", lambda t: 1 - t),
    ("as a score in percent", lambda t: 1 - t / 100),
    ("in decibels", lambda t: 10.0 ** (-t / 10)),
    ("as a root of the metric", np.square),
    ("as a square of the metric", np.sqrt),
)


def least_sizes(fit: str) -> int:
    """Number of distinct N that a fit needs."""
    return 2 if fit in ("paper", "line") else 3


# --- Families of curves and their least squares --------------------------------------------------


@dataclass(frozen=True)
class Family:
    """A family of curves: its basis, and the grids and limits of the shape parameters.

    The basis is 1 at the pilot's last N and falls with N, so that the scale is the part of the last
    error that more data can remove.
    """

    name: str
    basis: Basis
    grids: tuple[Array, ...] = ()
    limits: tuple[tuple[float, float], ...] = ()
    has_floor: bool = True

    @property
    def parameters(self) -> int:
        """Number of free parameters of a fit."""
        return 1 + self.has_floor + len(self.grids)


@dataclass(frozen=True)
class Fits:
    """One fit for each of B pilots that share their N."""

    family: Family
    last: float  # the largest pilot N
    floor: Array  # (B,)
    scale: Array  # (B,)
    shape: tuple[Array, ...]  # of (B,) each
    loss: Array  # (B,) weighted sum of squares

    def predict(self, n: Array) -> Array:
        """(B, M) the error at each of M values of N."""
        shape = tuple(parameter[:, None] for parameter in self.shape)
        basis = _basis(self.family, np.log(n / self.last)[None, :], np.log(self.last), shape)
        return np.asarray(self.floor[:, None] + self.scale[:, None] * basis)


def least_squares(family: Family, n: Array, errors: Array, weights: Array) -> Fits:
    """Fit the family to B pilots by least squares: n (K,), errors (B, K), weights (K,) >= 0.

    Errors are divided by their geometric mean first, so that the fit is equivariant to their scale.
    """
    last, weights = float(n[-1]), weights / weights.max()
    chunks = []
    for start in range(0, len(errors), _CHUNK):
        chunk = errors[start : start + _CHUNK]
        unit = np.exp(np.log(chunk).mean(axis=1, keepdims=True))
        problem = _Problem(family, np.log(n / last), np.log(last), chunk / unit, weights)
        shape = problem.shape() if family.grids else ()
        floor, scale, loss = problem.solve(tuple(parameter[:, None] for parameter in shape))
        scales = unit.ravel()
        chunks.append((floor.ravel() * scales, scale.ravel() * scales, loss.ravel(), *shape))
    floor, scale, loss, *shapes = map(np.concatenate, zip(*chunks, strict=True))
    return Fits(family, last, floor, scale, tuple(shapes), loss)


def _basis(family: Family, x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    with np.errstate(under="ignore", over="ignore"):
        return family.basis(x, log_last, shape)


@dataclass(frozen=True)
class _Problem:
    family: Family
    x: Array  # (K,) log N / N_last
    log_last: float
    errors: Array  # (B, K)
    weights: Array  # (K,)

    def shape(self) -> tuple[Array, ...]:
        """The best shape parameters, (B,) each."""
        # One grid for all pilots first, so that its basis is computed once.
        points = tuple(axis.ravel() for axis in np.meshgrid(*self.family.grids, indexing="ij"))
        basis = _basis(self.family, self.x, self.log_last, tuple(p[:, None] for p in points))
        _, _, loss = nonnegative(basis, self.errors, self.weights, self.family.has_floor)
        best = np.argmin(loss, axis=1)
        shape = tuple(point[best] for point in points)
        # Shrink the grid around its best point, unless that point is at the edge.
        dimensions, rows = len(shape), np.arange(len(best))
        steps = [np.full(len(best), np.log(g[1] / g[0])) for g in self.family.grids]
        offsets = np.linspace(-1.0, 1.0, _POINTS[dimensions])
        flat = [a.ravel() for a in np.meshgrid(*([offsets] * dimensions), indexing="ij")]
        for _ in range(_ROUNDS[dimensions]):
            axes = zip(shape, steps, flat, self.family.limits, strict=True)
            tried = tuple(
                np.clip(s[:, None] * np.exp(step[:, None] * axis), *limits)
                for s, step, axis, limits in axes
            )
            best = np.argmin(self.solve(tried)[2], axis=1)
            shape = tuple(t[rows, best] for t in tried)
            inside = np.all([np.abs(axis[best]) < 1.0 for axis in flat], axis=0)
            steps = [np.where(inside, step * 0.4, step) for step in steps]
        return self._descended(shape) if dimensions > 1 else shape

    def _descended(self, shape: tuple[Array, ...]) -> tuple[Array, ...]:
        """Levenberg-Marquardt in the logarithms, with a damping for each pilot.

        Along the valley of two parameters that compensate each other, a grid closes in too early.
        """
        logs = np.log(np.stack(shape, axis=-1))  # (B, 2)
        low, high = np.log(np.array(self.family.limits)).T
        residual = self._residual(logs)
        damping = np.full(len(logs), 1e-3)
        for _ in range(_STEPS):
            nudged = [self._residual(logs + _NUDGE * axis) for axis in np.eye(logs.shape[1])]
            slopes = (np.stack(nudged, axis=-1) - residual[:, :, None]) / _NUDGE  # (B, K, 2)
            # Marquardt's damping scales the diagonal, so that the step does not depend on units.
            square = np.swapaxes(slopes, 1, 2) @ slopes
            diagonal = np.einsum("bii->bi", square)
            square = square + np.eye(2) * (damping[:, None] * diagonal + _TINY)[:, :, None]
            step = np.linalg.solve(square, np.swapaxes(slopes, 1, 2) @ residual[:, :, None])
            tried = np.clip(logs - step[:, :, 0], low, high)
            tried_residual = self._residual(tried)
            better = (tried_residual**2).sum(axis=1) < (residual**2).sum(axis=1)
            logs = np.where(better[:, None], tried, logs)
            residual = np.where(better[:, None], tried_residual, residual)
            damping = np.where(better, 0.2 * damping, 5.0 * damping)
        return tuple(np.exp(logs).T)

    def _residual(self, logs: Array) -> Array:
        """(B, K) weighted residuals at the logarithms (B, 2) of the shape parameters."""
        axes = tuple(parameter[:, None] for parameter in np.exp(logs).T)
        floor, scale, _ = self.solve(axes)
        basis = _basis(self.family, self.x, self.log_last, axes)
        return np.asarray(np.sqrt(self.weights) * (floor + scale * basis - self.errors))

    def solve(self, shape: tuple[Array, ...]) -> tuple[Array, Array, Array]:
        """Floor, scale and loss, (B, G) each, for shape parameters (B, G)."""
        axes = tuple(parameter[:, :, None] for parameter in shape)
        basis = _basis(self.family, self.x, self.log_last, axes)
        basis = basis if shape else basis[None, :]
        return nonnegative(basis, self.errors, self.weights, self.family.has_floor)


def nonnegative(
    basis: Array,  # (G, K) shared by all pilots, or (B, G, K)
    errors: Array,  # (B, K)
    weights: Array,  # (K,)
    has_floor: bool,
) -> tuple[Array, Array, Array]:
    """Nonnegative least squares in floor and scale, in closed form: floor, scale, loss (B, G)."""

    def along(basis: Array, errors: Array) -> Array:  # (B, G) sums over K
        if basis.ndim == 2:
            return np.asarray(errors @ basis.T)
        return np.asarray((basis @ errors[:, :, None])[..., 0])

    # The solution without a floor, which also holds where the floor would be negative.
    across = basis**2 @ weights
    alone = np.maximum(along(basis, errors * weights), 0.0) / np.maximum(across, _TINY)
    floor, scale = np.zeros_like(alone), alone  # the scale without a floor
    if has_floor:
        total = weights.sum()
        centre = basis @ weights / total
        spread = basis - centre[..., None]  # centred: a nearly flat basis would lose digits
        slope = spread**2 @ weights
        mean = errors @ weights / total
        rise = along(spread, (errors - mean[:, None]) * weights)
        scale = np.where(slope > 1e-24 * across, np.maximum(rise, 0.0), 0.0)
        scale = scale / np.maximum(slope, _TINY)
        floor = mean[:, None] - scale * centre
        below = floor < 0  # then the constraint is active: the solution without a floor
        scale, floor = np.where(below, alone, scale), np.where(below, 0.0, floor)
    residual = errors[:, None, :] - floor[..., None] - scale[..., None] * basis
    return floor, scale, residual**2 @ weights


def power_basis(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    """N^-b."""
    return np.asarray(np.exp(-shape[0] * x))


def line_basis(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    """log N / N."""
    return np.asarray((x + log_last) / log_last * np.exp(-x))


def log_power_basis(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    """(log N / N)^b."""
    return np.asarray(np.exp(shape[0] * (np.log((x + log_last) / log_last) - x)))


def shifted_power_basis(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    """(N + s)^-b."""
    rate, shift = shape  # shift in units of the last N
    return np.asarray(np.exp(-rate * (np.log(np.exp(x) + shift) - np.log1p(shift))))


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("power", power_basis, (np.geomspace(0.01, 1.0, 60),), ((1e-3, 1.0),)),
        Family("line", line_basis),
        Family("log-power", log_power_basis, _WIDE, (RATE_LIMITS,)),
        Family("no-floor", power_basis, _WIDE, (RATE_LIMITS,), has_floor=False),
        Family("shifted-power", shifted_power_basis, (RATES, KNEES), (RATE_LIMITS, KNEE_LIMITS)),
    )
}


# --- Calibration ---------------------------------------------------------------------------------


def estimate(fit: str, n: Array, errors: Array, weight: Array) -> Fits:
    """Fit B pilots at once: n (K,), errors (B, K), weight (K,) of the means.

    "paper" is the paper's calibration (tab:calibration) of Eq. (eq:calibrated-bound): the floor is
    the lowest mean, and the slope is that of a least-squares regression of error - floor on
    log N / N, without intercept or weights.
    """
    if fit != "paper":
        return least_squares(FAMILIES[fit], n, errors, weight)
    # Without weights, as in the paper, so that its published slopes are reproduced.
    rate = np.log(n) / n
    floor = errors.min(axis=1)
    return line_fits(n, errors, floor, (errors - floor[:, None]) @ rate / (rate @ rate))


def line_fits(n: Array, errors: Array, floor: Array, slope: Array) -> Fits:
    """The lines floor + slope log N / N, with (B,) floors and slopes, as fits of B pilots."""
    last = float(n[-1])
    residual = errors - floor[:, None] - slope[:, None] * np.log(n) / n
    loss = (residual**2).sum(axis=1)
    return Fits(FAMILIES["line"], last, floor, slope * (math.log(last) / last), (), loss)


def fitted_line(curve: Curve, fit: str = "line") -> RiskLine:
    """floor + slope log N / N through a pilot, by least squares ("line") or as in the "paper"."""
    curve.require(2, "a line")
    fits = estimate(fit, curve.sizes.astype(float), curve.means[None, :], weights(curve))
    return RiskLine(fits.floor.item(), fits.scale.item() * fits.last / math.log(fits.last))


@dataclass(frozen=True)
class Calibration:
    """A curve through a pilot, in the unit of errors. Made by `calibrate`.

    Parameters
    ----------
    fit : str
        One of `FITS`.
    formula : str
        The curve as a formula.
    curve : Curve
        The pilot.
    floor : float
        The error that more data cannot lower.
    parameters : dict[str, float]
        The letters of `formula` and their values, N counted in samples.
    _predict : callable
        The curve itself, from an array of N to one of errors.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125])
    >>> fitted = kr.planning.calibrate(pilot, "power")
    >>> fitted.formula, fitted.predict([512, 1024]).shape
    ('c + a N^-b, b <= 1', (2,))
    >>> fitted.predict(fitted.samples(0.005)) <= 0.005
    True
    """

    fit: str
    formula: str
    curve: Curve = field(repr=False)
    floor: float
    parameters: dict[str, float]
    _predict: Callable[[Array], Array] = field(repr=False)

    @property
    def slope(self) -> float | None:
        """The factor a of the formula; None for the posterior, which has no single one."""
        return self.parameters.get("a")

    @overload
    def predict(self, n: float) -> float: ...
    @overload
    def predict(self, n: list[float] | list[int] | Array | NDArray[np.int64]) -> Array: ...
    def predict(self, n: object) -> float | Array:
        """The error at N; an array for an array of N.

        Parameters
        ----------
        n : float or array of float, (M,)
            Training samples, from 2 to 10^15, not necessarily whole.

        Returns
        -------
        float or array, (M,)
            The error of the curve there.

        Raises
        ------
        KoriskError
            If an N is out of range.
        """
        values = sample_counts(n)
        errors = self._predict(np.atleast_1d(values))
        return errors.item() if values.ndim == 0 else errors

    def samples(self, target: float) -> int:
        """The smallest N from which on the curve stays at or below a target error.

        Parameters
        ----------
        target : float
            The error to reach, above 0.

        Returns
        -------
        int
            At least 3, because log N / N rises from 2 to 3; only the paper's line may give 2.

        Raises
        ------
        UnreachableError
            If the curve never reaches the target.
        """
        error = real("target", target, above=0, remedy="give the error that you want to reach")
        # The paper's line has a closed-form inverse, which the published sample sizes come from.
        if self.fit == "paper" and error > self.floor:
            return RiskLine(self.floor, self.parameters["a"]).samples(error)

        def reached(n: int) -> bool:
            return bool(self._predict(np.array([float(n)])).item() <= error)

        if reached(3) and self.fit != "paper":
            return 3
        if self.fit == "paper" or not reached(LARGEST_N):
            raise levels_off(error, self.floor, "the fitted curve", "take another fit")
        low, high = 3, LARGEST_N  # not reached at low, reached at high
        while high - low > 1:
            # The geometric mean, because answers are far below the largest N.
            middle = max(low + 1, math.isqrt(low * high))
            low, high = (low, middle) if reached(middle) else (middle, high)
        return high


def calibrate(curve: Curve, fit: str = "power") -> Calibration:
    """Fit a learning curve to a pilot.

    Parameters
    ----------
    curve : Curve
        The pilot; the means over its seeds are fitted.
    fit : str, default "power"
        One of `FITS`.

    Returns
    -------
    Calibration
        The fitted curve.

    Raises
    ------
    KoriskError
        If the pilot has fewer than two sizes for "paper", or three for the others.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128], [0.21, 0.11, 0.06, 0.035])
    >>> {name: round(value, 2) for name, value in kr.planning.calibrate(pilot).parameters.items()}
    {'c': 0.01, 'a': 3.2, 'b': 1.0}
    >>> kr.planning.calibrate(pilot, "paper").floor
    0.035
    """
    one_of("fit", fit, FITS)
    check_curve(curve)
    curve.require(least_sizes(fit), f"fit {fit!r}")
    if fit == "posterior":
        grid = posterior(curve)
        parameters = {"c": grid.floor_quantile(0.5), "b": float(grid.weight @ grid.rate)}
        middle = partial(grid.quantile, p=0.5)
        return Calibration(fit, FORMULAS[fit], curve, parameters["c"], parameters, middle)
    fits = estimate(fit, curve.sizes.astype(float), curve.means[None, :], weights(curve))
    floor, scale, last = fits.floor.item(), fits.scale.item(), fits.last
    if fit == "paper":
        parameters = {"c": floor, "a": scale * last / math.log(last)}
    else:
        rate, *shift = (parameter.item() for parameter in fits.shape)
        shifts = {"s": shift[0] * last} if shift else {}
        # From the basis that is 1 at the last N to the formula's, in which N counts samples.
        factor = scale * (last + sum(shifts.values())) ** rate
        parameters = {"c": floor, "a": factor, "b": rate, **shifts}
    return Calibration(fit, FORMULAS[fit], curve, floor, parameters, lambda n: fits.predict(n)[0])


def check_curve(curve: object) -> None:
    """Raise if the argument is not a Curve, such as a path to one."""
    remedy = "read one with korisk.Curve.read(path)"
    require(isinstance(curve, Curve), "curve", "be a Curve", curve, remedy)


def sample_counts(n: object) -> Array:
    """Check sizes N that a user gave, and return them as an array, () or (M,)."""
    try:
        values = np.asarray(n, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array([np.nan])
    fits = values.ndim <= 1 and values.size and (values >= 2).all() and (values <= LARGEST_N).all()
    rule = "be a number from 2 to 10^15, or a list of such"
    require(bool(fits), "n", rule, n, "count the training samples")
    return values


# --- The pooled band -----------------------------------------------------------------------------


def pooled_band(
    calibration: Calibration, n: Array, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Array, Array]:
    """(M,) the ends of a band around a fitted curve at each N; `seed` fixes the resampling.

    The 90% range of four families fitted to resampled seeds, widened by `STRETCH`. A bootstrap of
    one family is too narrow, because it takes the family for true.
    """
    curve = calibration.curve
    predicted = np.concatenate([fits.predict(n) for fits in _pooled(curve, resamples, seed)])
    low, high = np.quantile(np.log(predicted), [0.05, 0.95], axis=0)
    # Families that fit a pilot equally well diverge beyond it by more than they differ inside.
    beyond = np.maximum(np.log2(n / float(curve.sizes[-1])), 0.0)
    width = STRETCH * (0.5 * (high - low) + WIDENING * beyond)
    middle = calibration.predict(n)
    return middle * np.exp(-width), middle * np.exp(width)


@lru_cache(maxsize=32)  # some 250 kB each; all fits and targets of a pilot share one
def _pooled(curve: Curve, resamples: int, seed: int) -> tuple[Fits, ...]:
    n, weight, means = curve.sizes.astype(float), weights(curve), curve.means[None, :]
    if (curve.counts > 1).any():
        means = resampled_means(curve, resamples, np.random.default_rng(seed))
    # A family with as many parameters as sizes is exact; one with more is not determined.
    families = [FAMILIES[name] for name in _POOLED if FAMILIES[name].parameters <= len(n)]
    return tuple(least_squares(family, n, means, weight) for family in families)


# --- Targets -------------------------------------------------------------------------------------


def target_error(curve: Curve, target: object) -> float:
    """Check a target in the curve's unit, and return it as an error."""
    check_target([curve], target)
    return float(curve.unit.to_error(target))  # type: ignore[arg-type]


def check_target(curves: Sequence[Curve], target: object) -> None:
    """Raise if a target is impossible in the unit of the curves, or looks like another unit.

    A target that is worse than every measurement raises if it is plausible in another unit. One
    that is far too hard is a legitimate question; `other_unit` gives a hint for it.
    """
    for curve in curves:
        check_curve(curve)
        remedy = f"give the {curve.unit.noun} that you want to reach"
        # A list would fail as "not a number"; say instead that targets are asked one by one.
        several = np.ndim(target) if isinstance(target, list | tuple | np.ndarray) else 0
        value = real("target", target, remedy="ask for one target at a time" if several else remedy)
        error = float(curve.unit.to_error(value))
        hint, rule = other_unit(curve, value), f"be {curve.unit.rule}"
        if not SMALLEST_ERROR <= error <= LARGEST_ERROR:
            raise invalid("target", rule, value, hint or remedy, got=f"{value:.6g}")
        if hint and all(error > measured.means.max() for measured in curves):
            raise KoriskError(f"target {value:.6g} is worse than all that was measured; {hint}")


def other_unit(curve: Curve, value: float) -> str:
    """A hint that a target far from the pilot may be in another unit; empty where it may not."""
    unit, low, high = curve.unit, float(curve.means.min()), float(curve.means.max())
    error, worst = float(unit.to_error(value)), float(unit.from_error(high))
    # A score is bounded, and so is its error: compare the scores themselves.
    tiny_score = unit.larger_is_better and value < worst / 10 and worst > 0
    if _HARD * low <= error <= high or (high < error <= _EASY * high and not tiny_score):
        return ""
    meanings = _MEANINGS
    if unit.larger_is_better:
        meanings = (*_MEANINGS[:2], ("as an error", unit.from_error))
    for words, convert in meanings:
        with np.errstate(all="ignore"):
            converted = float(convert(np.array(value)))
        if 0.3 * low <= float(unit.to_error(converted)) <= high:
            ends = sorted(unit.from_error([low, high]).tolist())
            return (
                f"the pilot runs from {ends[0]:.4g} to {ends[1]:.4g}: was the target given "
                f"{words}? then ask for {converted:.4g}"
            )
    return ""
