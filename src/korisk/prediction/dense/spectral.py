"""The learning curve of a dense linear layer, computed from second moments without training it.

Inputs x have the second moment C with eigenpairs (lambda_i, u_i); the best linear map M* of x to
the target y explains v_i of the target's energy along u_i, and leaves r whatever the data. Ridge
regression on N samples acts like a filter L_i = lambda_i / (lambda_i + kappa) on these directions,
with a threshold kappa, Eq. (eq:threshold), that the penalty sets and N keeps from falling. Its
expected error is

    E(N) = (sum_i (1 - L_i)^2 v_i + r) / (1 - sum_i L_i^2 / N_eff),

at the kappa that is best. For images of one brightness N_eff is N. For x = s z with a brightness s
of its own for every image, samples count by w = s^2 / (1 + s^2 t), where t is such that the mean of
s^2 t / (1 + s^2 t) is sum_i L_i / N, and N_eff = (sum w)^2 / sum w^2.
docs/explanation/predict.md derives it.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]

CLIPPED_AT: Array = 2.0 ** np.arange(0.0, 16.0)  # N at which the effect of a ReLU is computed
ROUNDING = 1e-14  # of the target's energy; errors below that are rounding
# The grid of thresholds kappa.
_PER_DECADE = 32  # between two neighbours an error changes by less than 0.1%
_ABOVE = 3  # decades above the eigenvalues' sum, where nothing is learned
_BELOW = 13  # decades below the largest eigenvalue, where everything is learned
_TOGETHER = 2**22  # entries of (thresholds, eigenvalues) that are computed at once
_LEAST_REMAINING = 1e-9  # least 1 - sum L^2 / N_eff for which the formula holds
_BRIGHTNESS = np.logspace(-9, 9, 361)  # grid of t in Eq. (eq:brightness)
_LEAST_DEVIATION = 1e-12  # least deviation of a prediction over the targets' root mean square


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The quantities that determine the learning curve of a dense layer, Eq. (eq:spectral)."""

    values: Array = field(repr=False)  # (K,) eigenvalues of the inputs' second moment
    signal: Array = field(repr=False)  # (K,) the target's energy that each explains
    rest: float  # the target's energy that no linear map explains
    scales: Array = field(repr=False)  # (images,) squared brightness of inputs over their mean
    entries: int  # of a target: errors are means over them
    counts: Array | None = field(default=None, repr=False)  # eigenvalues that each stands for
    parameters: int | None = None  # weights of the layer
    gain: Array | None = field(default=None, repr=False)  # factor of a ReLU at `CLIPPED_AT`

    def __post_init__(self) -> None:
        for name in ("values", "signal", "scales"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))
        object.__setattr__(self, "scales", self.scales / self.scales.mean())

    @property
    def energy(self) -> float:
        """The total energy of the target: the error of predicting zero, times the entries."""
        return float(self.signal.sum()) + self.rest

    @property
    def floor(self) -> float:
        """The error of the best linear map, which unlimited data gives."""
        error = self.rest / self.entries
        return error if self.gain is None else error * float(self.gain[-1])

    @property
    def rank(self) -> float:
        """The numerical rank of the inputs' second moment."""
        there = self.values > 1e-12 * self.values.max()
        return float(self._counts[there].sum())

    @cached_property
    def _counts(self) -> Array:
        return np.ones(len(self.values)) if self.counts is None else np.asarray(self.counts)

    @cached_property
    def _filters(self) -> tuple[Array, Array, Array, Array]:
        """Thresholds from the largest down, and sum L, sum L^2 and the bias at each."""
        most = np.log10(float(self.values @ self._counts)) + _ABOVE
        least = np.log10(self.values.max()) - _BELOW
        number = int(np.ceil((most - least) * _PER_DECADE)) + 1
        thresholds = np.logspace(most, least, number)
        sums = np.empty((3, number))
        step = max(1, _TOGETHER // len(self.values))
        for first in range(0, number, step):
            block = slice(first, first + step)
            filters = self.values / (self.values + thresholds[block, None])  # (thresholds, K) L_i
            sums[0, block] = filters @ self._counts
            sums[1, block] = filters**2 @ self._counts
            sums[2, block] = (1 - filters) ** 2 @ self.signal + self.rest
        return thresholds, *sums

    @cached_property
    def _brightness(self) -> tuple[Array, Array]:
        """Mean of s^2 t / (1 + s^2 t), Eq. (eq:brightness), and N_eff / N, over `_BRIGHTNESS`."""
        with np.errstate(over="ignore"):
            weights = self.scales / (1 + self.scales * _BRIGHTNESS[:, None])
        used = (weights * _BRIGHTNESS[:, None]).mean(axis=1)
        return used, weights.mean(axis=1) ** 2 / (weights**2).mean(axis=1)

    def _best(self, n: float) -> tuple[float, float, float, float]:
        """At the best threshold: the error, kappa, N_eff and 1 - sum L^2 / N_eff."""
        thresholds, *sums = self._filters
        grid = np.arange(len(thresholds))
        # Smaller thresholds would need a penalty below zero; a penalty of zero is the last one.
        last = float(np.interp(n * self._brightness[0][-1], sums[0], grid))
        places = np.append(np.arange(np.floor(last) + 1), last)
        dimension, squared, bias = (np.interp(places, grid, total) for total in sums)
        effective = n * np.interp(dimension / n, *self._brightness)
        # Eq. (eq:spectral): the bias over the share of the samples that is not used up.
        remaining = 1 - squared / effective
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.where(remaining > _LEAST_REMAINING, bias / remaining, np.inf)
        best = int(np.argmin(errors))
        error = max(float(errors[best]), ROUNDING * self.energy)
        threshold = float(np.exp(np.interp(places[best], grid, np.log(thresholds))))
        return error, threshold, float(effective[best]), float(remaining[best])

    def errors(self, n: ArrayLike) -> Array:
        """(M,) the mean squared error of an entry after N samples, at the best penalty."""
        sizes = np.atleast_1d(np.asarray(n, dtype=float))
        errors = np.array([self._best(float(size))[0] for size in sizes]) / self.entries
        if self.gain is not None:
            errors *= np.interp(np.log(sizes), np.log(CLIPPED_AT), self.gain)
        return errors

    def filter(self, n: float) -> tuple[float, float, float]:
        """The threshold at N, Eq. (eq:threshold), N_eff, and 1 - sum L^2 / N_eff."""
        return self._best(n)[1:]


def spectrum(
    second: Array, cross: Array, energy: float, *, scales: Array, parameters: int | None = None
) -> tuple[Spectrum, Array]:
    """The spectrum of a dense layer, and the inputs' eigenvectors in columns.

    `second` is E[x x^T] of the inputs with their noise, (inputs, inputs), `cross` E[y x^T],
    (outputs, inputs), `energy` E|y|^2. Directions below rounding explain nothing.
    """
    values, vectors = np.linalg.eigh(second)
    values = np.maximum(values, 0.0)
    there = values > 1e-13 * values[-1]
    explained = np.square(cross @ vectors).sum(axis=0)
    signal = np.where(there, explained / np.where(there, values, 1.0), 0.0)
    rest = max(energy - float(signal.sum()), 0.0)
    theory = Spectrum(values, signal, rest, scales, len(cross), parameters=parameters)
    return theory, vectors


# --- A ReLU behind the layer ---------------------------------------------------------------------


def clipping(
    theory: Spectrum,
    vectors: Array,  # (inputs, K) eigenvectors of the inputs' second moment
    cross: Array,  # (outputs, inputs) E[y x^T]
    energies: Array,  # (outputs,) E[y^2] of every output
    inputs: Array,  # (images, inputs) examples with noise
    targets: Array,  # (images, outputs)
) -> Array:
    """The factor at `CLIPPED_AT`, from the scatter of predictions over training sets of N.

    At an example x the prediction's mean is M* L x, and its variance at output p is E_p / N_eff
    times sum_i L_i^2 (u_i x)^2 / lambda_i, where E_p is the error at p.
    """
    there = theory.values > 1e-13 * theory.values.max()
    values = theory.values[there]
    best = cross @ vectors[:, there] / values  # M* in the eigenbasis
    along = inputs @ vectors[:, there]
    rest = np.maximum(energies - np.square(best) @ values, 0.0)
    factors = []
    for n in CLIPPED_AT:
        threshold, effective, remaining = theory.filter(float(n))
        # E_p of every output, then mean and variance of the prediction at every example.
        filters = values / (values + threshold)
        error = (np.square(best) @ ((1 - filters) ** 2 * values) + rest) / remaining
        scatter = np.square(along) @ (filters**2 / values) / effective
        mean = (along * filters) @ best.T
        factors.append(clipped_share(mean, np.outer(scatter, error), targets))
    return np.array(factors)


def clipped_share(mean: Array, variance: Array, targets: Array) -> float:
    """The squared error of ReLU(f) over that of f, for normal f around `mean`, all (images, p)."""
    least = _LEAST_DEVIATION * float(np.sqrt(np.square(targets).mean()))
    deviation = np.maximum(np.sqrt(variance), max(least, 1e-150))
    # E[(ReLU(f) - y)^2] of a normal f in closed form: f itself above zero, else y^2.
    away = mean / deviation
    above = ndtr(away)
    bell = np.exp(-0.5 * np.minimum(away**2, 1400.0)) / np.sqrt(2 * np.pi)
    # In differences from the targets, so that small errors are not lost to rounding.
    off = mean - targets
    positive = (off**2 + deviation**2) * above + (2 * off - mean) * deviation * bell
    clipped = float((positive + targets**2 * ndtr(-away)).sum())
    linear = float(((mean - targets) ** 2 + deviation**2).sum())
    return max(clipped, 0.0) / linear if linear > 0 else 1.0
