"""Families of learning curves, error(N) = floor + scale * basis(N), and their fits.

Only the basis has parameters that least squares cannot solve for. They go on a grid; at each grid
point floor and scale follow in closed form, both kept at or above zero; then the grid closes in on
the best point. So a fit needs no starting values, never fails to converge, gives the same answer
every time, and runs for thousands of resamples of the errors at once.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# basis(log N / N_last, log N_last, shape): the shape parameters have the axes in front
Basis = Callable[[Array, float, tuple[Array, ...]], Array]

_POINTS = {1: 7, 2: 5}  # of the closing grid, along each axis
_ROUNDS = {1: 16, 2: 10}
_STEPS = 24  # of the descent that follows where two shape parameters trade with each other
_NUDGE = 1e-6
_TINY = np.finfo(float).tiny
_CHUNK = 250  # pilots at a time: their grids then stay in the processor's cache


@dataclass(frozen=True)
class Family:
    """One family: its name and formula, the shape parameters' grids, and its basis.

    The basis is 1 at the last pilot N and falls with N; the scale is therefore that part of the
    last error which more data can remove.
    """

    name: str
    formula: str
    basis: Basis
    grids: tuple[Array, ...] = ()
    limits: tuple[tuple[float, float], ...] = ()
    has_floor: bool = True

    @property
    def parameters(self) -> int:
        """How many numbers a fit determines."""
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
    """Least squares of the family to B pilots: n (K,), errors (B, K), weights (K,) >= 0.

    Errors are divided by their size first, so that scaling them scales the fit and nothing else.
    """
    chunks = [
        _fit(family, n, errors[start : start + _CHUNK], _normed(weights))
        for start in range(0, len(errors), _CHUNK)
    ]
    if len(chunks) == 1:
        return chunks[0]
    floor, scale, loss = (
        np.concatenate([getattr(chunk, name) for chunk in chunks])
        for name in ("floor", "scale", "loss")
    )
    shape = tuple(map(np.concatenate, zip(*(chunk.shape for chunk in chunks), strict=True)))
    return Fits(family, chunks[0].last, floor, scale, shape, loss)


def _fit(family: Family, n: Array, errors: Array, weights: Array) -> Fits:
    last = float(n[-1])
    unit = np.exp(np.log(errors).mean(axis=1, keepdims=True))
    problem = _Problem(family, np.log(n / last), np.log(last), errors / unit, weights)
    shape = problem.coarse()
    if family.grids:
        shape = problem.closed_in(shape)
    if len(family.grids) > 1:
        shape = problem.descended(shape)
    solved = problem.solve(tuple(parameter[:, None] for parameter in shape))
    floor, scale, loss = (each.ravel() for each in solved)
    size = unit.ravel()
    return Fits(family, last, floor * size, scale * size, shape, loss)


def _normed(weights: Array) -> Array:
    return np.asarray(weights / weights.max())


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

    def coarse(self) -> tuple[Array, ...]:
        """The best point of the family's own grid for each pilot; grid points shared by all."""
        axes = np.meshgrid(*self.family.grids, indexing="ij") if self.family.grids else []
        points = tuple(axis.ravel() for axis in axes)
        if not points:
            return ()
        basis = _basis(self.family, self.x, self.log_last, tuple(p[:, None] for p in points))
        _, _, loss = nonnegative(basis, self.errors, self.weights, self.family.has_floor)
        best = np.argmin(loss, axis=1)
        return tuple(point[best] for point in points)

    def closed_in(self, shape: tuple[Array, ...]) -> tuple[Array, ...]:
        """The grid drawn in around the best point, unless that point is at its edge."""
        dimensions = len(shape)
        steps = [
            np.full(len(s), _step(grid)) for s, grid in zip(shape, self.family.grids, strict=True)
        ]
        offsets = np.linspace(-1.0, 1.0, _POINTS[dimensions])
        mesh = np.meshgrid(*([offsets] * dimensions), indexing="ij")
        flat = [axis.ravel() for axis in mesh]
        rows = np.arange(len(shape[0]))
        for _ in range(_ROUNDS[dimensions]):
            tried = tuple(
                np.clip(s[:, None] * np.exp(step[:, None] * axis), *limits)
                for s, step, axis, limits in zip(
                    shape, steps, flat, self.family.limits, strict=True
                )
            )
            best = np.argmin(self.solve(tried)[2], axis=1)
            shape = tuple(t[rows, best] for t in tried)
            inside = np.all([np.abs(axis[best]) < 1.0 for axis in flat], axis=0)
            steps = [np.where(inside, step * 0.4, step) for step in steps]
        return shape

    def descended(self, shape: tuple[Array, ...]) -> tuple[Array, ...]:
        """Levenberg-Marquardt in the logarithms, each pilot with its own damping.

        Along the valley of two parameters that trade with each other, a grid closes in too early.
        """
        at = np.log(np.stack(shape, axis=-1))  # (B, 2)
        low, high = np.log(np.array(self.family.limits)).T
        residual = self._residual(at)
        damping = np.full(len(at), 1e-3)
        for _ in range(_STEPS):
            slopes = np.stack(
                [
                    (self._residual(at + _NUDGE * axis) - residual) / _NUDGE
                    for axis in np.eye(at.shape[1])
                ],
                axis=-1,
            )  # (B, K, 2)
            square = np.swapaxes(slopes, 1, 2) @ slopes
            diagonal = np.einsum("bii->bi", square)
            square = square + np.eye(2) * (damping[:, None] * diagonal + _TINY)[:, :, None]
            step = np.linalg.solve(square, np.swapaxes(slopes, 1, 2) @ residual[:, :, None])
            tried = np.clip(at - step[:, :, 0], low, high)
            found = self._residual(tried)
            better = (found**2).sum(axis=1) < (residual**2).sum(axis=1)
            at = np.where(better[:, None], tried, at)
            residual = np.where(better[:, None], found, residual)
            damping = np.where(better, 0.2 * damping, 5.0 * damping)
        return tuple(np.exp(at).T)

    def _residual(self, at: Array) -> Array:
        """(B, K) weighted residuals at the logarithms (B, 2) of the shape parameters."""
        shape = tuple(np.exp(at).T)
        floor, scale, _ = self.solve(tuple(parameter[:, None] for parameter in shape))
        axes = tuple(parameter[:, None] for parameter in shape)
        basis = _basis(self.family, self.x, self.log_last, axes)
        return np.asarray(np.sqrt(self.weights) * (floor + scale * basis - self.errors))

    def solve(self, shape: tuple[Array, ...]) -> tuple[Array, Array, Array]:
        """Floor, scale and loss, (B, G) each, for shapes (B, G) of each pilot's own."""
        if not shape:
            basis = _basis(self.family, self.x, self.log_last, ())[None, :]
            return nonnegative(basis, self.errors, self.weights, self.family.has_floor)
        axes = tuple(parameter[:, :, None] for parameter in shape)
        basis = _basis(self.family, self.x, self.log_last, axes)
        return nonnegative(basis, self.errors, self.weights, self.family.has_floor)


def _step(grid: Array) -> float:
    return float(np.log(grid[1] / grid[0]))


def nonnegative(
    basis: Array,  # (G, K) shared by all pilots, or (B, G, K)
    errors: Array,  # (B, K)
    weights: Array,  # (K,)
    has_floor: bool,
) -> tuple[Array, Array, Array]:
    """Nonnegative least squares in floor and scale, in closed form: floor, scale, loss (B, G)."""
    y = errors[:, None, :]
    across = basis**2 @ weights
    along = _along(basis, errors * weights)
    alone = np.maximum(along, 0.0) / np.maximum(across, _TINY)  # the scale without a floor
    if not has_floor:
        floor, scale = np.zeros_like(alone), alone
    else:
        total = weights.sum()
        centre = basis @ weights / total
        spread = basis - centre[..., None]  # centred, no digits are lost where it is nearly flat
        slope = spread**2 @ weights
        mean = errors @ weights / total
        rise = _along(spread, (errors - mean[:, None]) * weights)
        scale = np.where(slope > 1e-24 * across, np.maximum(rise, 0.0), 0.0)
        scale = scale / np.maximum(slope, _TINY)
        floor = mean[:, None] - scale * centre
        below = floor < 0
        scale, floor = np.where(below, alone, scale), np.where(below, 0.0, floor)
    residual = y - floor[..., None] - scale[..., None] * basis
    return floor, scale, residual**2 @ weights


def _along(basis: Array, errors: Array) -> Array:
    """(B, G) sums over K of a basis (G, K) or (B, G, K) with errors (B, K)."""
    if basis.ndim == 2:
        return np.asarray(errors @ basis.T)
    return np.asarray((basis @ errors[:, :, None])[..., 0])


# --- The families --------------------------------------------------------------------------------


def _power(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    return np.asarray(np.exp(-shape[0] * x))


def _line(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    return np.asarray((x + log_last) / log_last * np.exp(-x))


def _log_power(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    return np.asarray(np.exp(shape[0] * (np.log((x + log_last) / log_last) - x)))


def _inverse_log(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    return np.asarray(log_last / (x + log_last))


def _shifted_power(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    rate, shift = shape  # shift in units of the last N
    return np.asarray(np.exp(-rate * (np.log(np.exp(x) + shift) - np.log1p(shift))))


def _weibull(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    rate, knee = shape  # exp(-knee (N / N_last)^rate)
    return np.asarray(np.exp(-knee * np.expm1(rate * x)))


def _mmf(x: Array, log_last: float, shape: tuple[Array, ...]) -> Array:
    rate, knee = shape  # 1 / (1 + knee (N / N_last)^rate)
    return np.asarray((1.0 + knee) / (1.0 + knee * np.exp(rate * x)))


_RATES = np.geomspace(0.01, 1.0, 60)
_WIDE_RATES = np.geomspace(0.01, 2.0, 70)
_FEW_RATES = np.geomspace(0.02, 2.0, 24)
_FEW_KNEES = np.geomspace(0.01, 100.0, 24)
_RATE = (1e-3, 1.0)
_WIDE_RATE = (1e-3, 3.0)
_KNEE = (1e-4, 1e4)

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("power", "c + a N^-b, b <= 1", _power, (_RATES,), (_RATE,)),
        Family("line", "c + a log N / N", _line),
        Family("log-power", "c + a (log N / N)^b", _log_power, (_WIDE_RATES,), (_WIDE_RATE,)),
        Family("no-floor", "a N^-b", _power, (_WIDE_RATES,), (_WIDE_RATE,), has_floor=False),
        Family("inverse-log", "c + a / log N", _inverse_log),
        Family(
            "shifted-power",
            "c + a (N + s)^-b",
            _shifted_power,
            (_FEW_RATES, _FEW_KNEES),
            (_WIDE_RATE, _KNEE),
        ),
        Family(
            "weibull",
            "c + a exp(-k N^b)",
            _weibull,
            (_FEW_RATES, _FEW_KNEES),
            ((0.02, 3.0), (1e-4, 100.0)),
        ),
        Family(
            "mmf",
            "c + a / (1 + k N^b)",
            _mmf,
            (_FEW_RATES, _FEW_KNEES),
            (_WIDE_RATE, _KNEE),
        ),
    )
}
