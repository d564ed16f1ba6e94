"""The learning curve of weights in front of known operators, computed before anything is fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# Lambdas that are tried, over N times the mean eigenvalue: none, and half decades and finer.
_LAMBDAS = np.concatenate([[0.0], np.logspace(-10, 5, 181)])
# Of the rows that N examples bring: with more parameters than that, no lambda below is tried.
_MOST_USED = 0.98
_TRUSTED = 0.5  # of the rows: beyond that the parameters are too many for the examples
_LARGEST_N = 2**24  # up to which `holds_from` searches


class Measure(NamedTuple):
    """Weights on values: a sum of f over a spectrum is `weights @ f(values)`."""

    values: Array
    weights: Array

    def kernel(self, shifts: Array, power: int) -> Array:
        """The sum of weights / (value + shift)^power, for each shift."""
        # Row by row, since thousands of values times all shifts would take much memory.
        return np.array([self.weights @ (self.values + shift) ** -power for shift in shifts])


class Path(NamedTuple):
    """The parts of the error, for each lambda."""

    bias: Array
    variance: Array  # of one example
    freedom: Array  # the trace of G (G + kappa)^-1
    squared: Array  # the trace of its square


@dataclass(frozen=True, kw_only=True, eq=False)
class Structured:
    """The expected error of w in B (w ∘ x), fitted to N examples by ridge regression.

    All measures live on the spectrum of G = E[D B^T B D] with D = diag(x), the mean normal matrix.
    `spectrum` counts its eigenvalues, `pull` has the squared gradient at the weights that the fit
    shrinks towards, and `noise` the mean squared gradient of one example at the best weights.
    `leverages` are those of an example at the limit of many: the eigenvalues of B D G^-1 D B^T.

    Notes
    -----
    With w* the best weights, g_k the gradient of example k there, Omega = E[g g^T], d the way from
    w* to where the fit shrinks and M = (N G + lambda)^-1, the fit is off by about
    M (lambda d - sum_k g_k), so that the error exceeds the floor by

        lambda^2 d^T M G M d + N tr(M G M Omega),

    Eq. (eq:structured), and without lambda by tr(G^-1 Omega) / N, Eq. (eq:sandwich). The errors are
    at the best lambda, 0 and infinity among them. Examples that are few make a normal matrix that
    is not N G. An example counts as r equal rows, r = (sum of e)^2 / sum of e^2 over its leverages
    e, each held back to e / (1 + e / N) by the others; N r rows and a ridge act as a larger ridge
    N kappa with lambda = N kappa (1 - df / (N r)), df = tr G (G + kappa)^-1, and the excess is
    divided by 1 - tr (G (G + kappa)^-1)^2 / (N r). The G of the n examples is one of those
    matrices, too: the same relations at N = n lead from its resolvent to that of G.
    """

    spectrum: Measure = field(repr=False)
    pull: Measure = field(repr=False)
    noise: Measure = field(repr=False)
    leverages: Measure | None = field(repr=False)  # without them examples count as many rows
    share: float  # of a change's square that the ReLU passes; 1 without it
    floor: float  # mean squared errors per entry of a target, as all below
    start: float  # of the weights that the fit shrinks towards
    entries: int  # of a target
    parameters: int
    examples: int  # that everything was estimated from
    spread: float  # relative standard error of the floor, from how much the examples differ
    least: float = 0.0  # errors below that are rounding

    @property
    def slope(self) -> float:
        """tr(G^-1 Omega) per entry, Eq. (eq:sandwich): N times the excess at large N, no lambda."""
        return self.share * float(np.sum(self.noise.weights / self.noise.values)) / self.entries

    def errors(self, n: ArrayLike) -> Array:
        """The expected error at each N, for the best lambda; the floor where N is infinite."""
        sizes = np.asarray(n, dtype=float)
        found = [self._best(size)[0] for size in sizes.ravel()]
        return np.array(found, dtype=float).reshape(sizes.shape)

    def effective(self, n: float) -> float:
        """The effective number of parameters at N: tr N G (N G + lambda)^-1 at the best lambda."""
        at = self._best(n)[1]
        return 0.0 if at is None else float(self.path.freedom[at])

    @cached_property
    def holds_from(self) -> int:
        """The smallest N from which on the parameters in use are half of what the examples carry.

        Below it the errors are an extrapolation of a theory for many examples.
        """
        last, size = 0, 1
        while size <= _LARGEST_N:
            if self._crowding(size) > _TRUSTED:
                last = size
            elif last or size >= self.parameters:
                break
            size *= 2
        if not last:
            return 1
        low, high = last, 2 * last
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._crowding(middle) > _TRUSTED else (low, middle)
        return high

    def _crowding(self, n: float) -> float:
        """The share of the rows that the parameters in use take."""
        at = self._best(n)[1]
        return 0.0 if at is None else float(self.path.squared[at]) / self.rows(n)

    def _best(self, n: float) -> tuple[float, int | None]:
        """The error at the best lambda, and which one that is; None where it is infinite."""
        if not self.spectrum.weights.size:  # no weight changes anything
            return max(self.start, self.least), None
        path, rows = self.path, self.rows(n)
        used = path.freedom < _MOST_USED * rows
        left = np.where(used, 1 - path.squared / rows, 1.0)
        excess = np.where(used, (path.bias + path.variance / n) / left, math.inf)
        at = int(np.argmin(excess))
        error = self.floor + self.share * float(excess[at]) / self.entries
        found, at_best = (error, at) if error < self.start else (self.start, None)
        return max(found, self.least), at_best

    def rows(self, n: float) -> float:
        """N r: how many equal and independent rows N examples are worth."""
        if self.leverages is None:
            return math.inf
        held = self.leverages.values / (1 + self.leverages.values / n)
        first, second = (float(self.leverages.weights @ held**power) for power in (1, 2))
        return n * first**2 / second

    @cached_property
    def path(self) -> Path:
        """Bias and variance at every lambda, of G, from the G of the examples."""
        n, rows = self.examples, self.rows(self.examples)
        total = float(self.spectrum.weights.sum())
        shifts = _LAMBDAS * float(self.spectrum.weights @ self.spectrum.values) / total
        freedom = total - shifts * self.spectrum.kernel(shifts, 1)
        # tr(L - L^2) of the examples, which is also what df loses for a relative change of lambda.
        lost = shifts * (self.spectrum.kernel(shifts, 1) - shifts * self.spectrum.kernel(shifts, 2))
        known = np.maximum(1 - freedom / rows, 1 - _MOST_USED)
        kappas = shifts / known
        lost = lost / known
        squared = np.clip((freedom - lost) / np.maximum(1 - lost / rows, 0.02), 0, freedom)
        slower = np.maximum(1 - squared / rows, 1 - _MOST_USED)  # d lambda / d kappa
        pull, noise = self.pull, self.noise
        way = Measure(pull.values, pull.weights / pull.values).kernel(shifts, 2)
        # The gradient of n examples does not vanish, even where the start is already best.
        by_chance = Measure(noise.values, noise.weights / noise.values).kernel(shifts, 2) / n
        bias = slower * kappas**2 * np.maximum(way - by_chance, 0.0)
        variance = Measure(noise.values, noise.weights * noise.values).kernel(shifts, 2)
        return Path(bias, variance, freedom, squared)
