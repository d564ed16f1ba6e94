"""Diagonal layers in front of known operators, fitted by ridge regression in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk import _checks
from korisk._memory import free_memory
from korisk.errors import KoriskError, invalid
from korisk.fitting.ridge.choice import Choice, Scorer, choose, flat
from korisk.operators import Composed, LinearOperator, Matrix

Product = Callable[[Tensor], Tensor]  # x (n,) -> G x (n,), or another linear map of it

_PIECE = 32  # Lanczos steps between checks of the residuals, and growth of the basis
_ENTRIES = 2**26  # of images and sinograms that are processed at once
_FITS = 0.8  # share of the free memory for the normal matrix and B^T B
# Relative residuals at which Lanczos stops, a few digits above rounding.
_TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}
LARGEST_FACTORED = 4096  # weights up to which a Cholesky factor is faster than many Lanczos steps
# Lambdas not solved by then are scored as they are: stopping early regularises too. At H = 128 and
# 256 more steps change no error in four digits: benchmarks/operators/lanczos_steps.py.
MOST_STEPS = 400
_PROBES = 4  # vectors of random signs that estimate the mean of a diagonal


def solved(matrix: Tensor, rhs: Tensor, shift: float) -> Tensor:
    """Solve (G + lambda I) x = b by a Cholesky factor; nan where it is not positive definite."""
    shifted = matrix.clone()
    shifted.diagonal().add_(shift)
    lower, failed = torch.linalg.cholesky_ex(shifted)
    if int(failed):
        return torch.full_like(rhs, math.nan)
    return torch.cholesky_solve(rhs[:, None], lower)[:, 0]


class Krylov:
    """Lanczos basis of the Krylov space of G and b, shared by all lambdas.

    Every vector is orthogonalised against all previous ones, twice, because the short recurrence
    loses orthogonality to rounding.
    """

    def __init__(self, product: Product, rhs: Tensor) -> None:
        self.product = product
        self.size = float(torch.linalg.vector_norm(rhs))
        self.steps = 0
        self.exhausted = self.size == 0.0
        self._basis = rhs.new_empty(min(_PIECE, len(rhs)) + 1, len(rhs))
        if self.size:
            self._basis[0] = rhs / self.size
        self._diagonal: list[float] = []
        self._off_diagonal: list[float] = []

    def extend(self, steps: int) -> None:
        """Add vectors to the basis, fewer if the space is exhausted."""
        for _ in range(steps):
            index = self.steps
            self.exhausted = self.exhausted or index == self._basis.shape[1]
            if self.exhausted:
                return
            if index + 1 == len(self._basis):
                rows = self._basis.new_empty(_PIECE, self._basis.shape[1])
                self._basis = torch.cat([self._basis, rows])
            vector = self.product(self._basis[index])
            previous = self._basis[: index + 1]
            projections = previous @ vector
            vector = vector - projections @ previous
            vector -= (previous @ vector) @ previous
            # Stacked, so that a device is waited for once.
            entries = torch.stack([projections[index], torch.linalg.vector_norm(vector)])
            diagonal, norm = entries.tolist()
            self._diagonal.append(diagonal)
            self._off_diagonal.append(norm)
            self.steps = index + 1
            # The remainder is rounding: the space contains the solutions for every lambda.
            if norm <= 10 * torch.finfo(vector.dtype).eps * max(self._diagonal):
                self.exhausted = True
            else:
                self._basis[index + 1] = vector / norm

    def residuals(self, shifts: Sequence[float]) -> NDArray[np.float64]:
        """|b - (G + lambda I) x| / |b| of the current solution for each lambda."""
        if self.exhausted:
            return np.zeros(len(shifts))
        if not self.steps:
            return np.ones(len(shifts))
        return np.asarray(abs(self._coordinates(shifts)[:, -1]) * self._off_diagonal[-1])

    def solve(self, shifts: Sequence[float]) -> Tensor:
        """The current solutions, (shifts, n)."""
        if not self.steps:
            return self._basis.new_zeros(len(shifts), self._basis.shape[1])
        coordinates = torch.from_numpy(self._coordinates(shifts) * self.size)
        return coordinates.to(self._basis) @ self._basis[: self.steps]

    def converge(self, shifts: Sequence[float], *, tolerance: float, most: int) -> bool:
        """Extend the basis, to `most` steps, until all residuals are small; whether they are."""
        while True:
            if self.residuals(shifts).max(initial=0.0) <= tolerance:
                return True
            if self.steps >= most:
                return False
            self.extend(min(_PIECE, most - self.steps))

    def _coordinates(self, shifts: Sequence[float]) -> NDArray[np.float64]:
        """Coordinates (shifts, steps) of x / |b| in the basis; nan where a system fails."""
        unit = np.zeros(self.steps)
        unit[0] = 1.0
        bands = np.zeros((2, self.steps))
        bands[0, 1:] = self._off_diagonal[:-1]
        coordinates = np.full((len(shifts), self.steps), math.nan)
        for row, shift in enumerate(shifts):
            bands[1] = np.array(self._diagonal) + shift
            if self.steps == 1:
                coordinates[row] = unit / bands[1]
                continue
            with suppress(np.linalg.LinAlgError):  # not positive definite in rounding
                coordinates[row] = scipy.linalg.solveh_banded(bands, unit, check_finite=False)
        return coordinates


def tail_gram(tail: LinearOperator) -> Tensor:
    """B^T B of the operators behind the diagonal.

    Parameters
    ----------
    tail : LinearOperator
        B, all known operators behind the weights.

    Returns
    -------
    Tensor of shape (weights, weights)
        On the device and in the precision of `tail`.

    Examples
    --------
    >>> from korisk.fitting import tail_gram
    >>> from korisk.operators import Matrix
    >>> tail_gram(Matrix([[1.0, 2.0], [0.0, 3.0]])).tolist()
    [[1.0, 2.0], [2.0, 13.0]]
    """
    operator = tail.layers[0] if isinstance(tail, Composed) and len(tail) == 1 else tail
    if isinstance(operator, Matrix):
        return operator.matrix.T @ operator.matrix
    weights = math.prod(tail.domain)
    gram = torch.empty(weights, weights, device=tail.device, dtype=tail.dtype)
    for rows in parts(weights, weights + math.prod(tail.range)):
        unit = torch.zeros_like(gram[rows])
        # Rows of the identity; B^T B is symmetric, so its rows are its columns.
        unit[torch.arange(len(unit)), torch.arange(rows.start, rows.stop)] = 1
        gram[rows] = flat(tail._map_adjoint(tail._map(unit.reshape(-1, *tail.domain))))
    return gram


def gram_bytes(weights: int, itemsize: int) -> int:
    """Bytes of B^T B and of a normal matrix of its size."""
    return 2 * weights**2 * itemsize


def gram_fits(tail: LinearOperator) -> bool:
    """Whether B^T B and a normal matrix of its size fit into the memory of the tail's device."""
    needed = gram_bytes(math.prod(tail.domain), tail.dtype.itemsize)
    return needed <= _FITS * free_memory(tail.device)


def parts(samples: int, entries: int) -> Iterator[slice]:
    """Split samples into slices small enough to be processed at once."""
    rows = max(1, _ENTRIES // entries)
    for first in range(0, samples, rows):
        yield slice(first, min(first + rows, samples))


class DiagonalRidge:
    """w = argmin sum_i |B (w x_i) - y_i|^2 + lambda |w - toward|^2 for nested training sets.

    A training set of size n is the first n samples of the pool.

    Parameters
    ----------
    tail : LinearOperator
        B, all known operators behind the weights.
    inputs : Tensor of shape (samples, *tail.domain)
        Inputs of the diagonal layer.
    targets : Tensor of shape (samples, *tail.range)
        Desired outputs of B.
    toward : Tensor of shape tail.domain, optional
        Value that the weights shrink towards, such as the analytic weights. By default zero, as in
        the released code.
    relu : bool, default True
        Whether a ReLU follows B. The fit ignores it; predictions apply it, also those by which
        lambda is chosen.
    gram : Tensor of shape (weights, weights), optional
        B^T B, see `tail_gram`; it belongs to the tail alone and can be shared between pools.
        Without it, products with the normal matrix go through the operators sample by sample, and
        nothing of its size is stored.

    Raises
    ------
    KoriskError
        If the samples do not have the shapes of the tail.

    Notes
    -----
    With x_i in the rows of X the normal matrix is (B^T B) ∘ (X^T X), entry by entry, and the right
    side sum_i x_i ∘ B^T y_i, Eq. (eq:diagonal-ridge).

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import DiagonalRidge
    >>> from korisk.operators import Diagonal
    >>> B = Diagonal([1.0, 2.0]).double()
    >>> x = torch.tensor([[1.0, 1.0], [1.0, 2.0], [3.0, 1.0]], dtype=torch.float64)
    >>> y = B(torch.tensor([0.5, 2.0], dtype=torch.float64) * x)
    >>> fit = DiagonalRidge(B, x, y, relu=False).training(3).fit(penalty=1e-9)
    >>> fit.weights.round(decimals=6).tolist()
    [0.5, 2.0]
    """

    def __init__(
        self,
        tail: LinearOperator,
        inputs: Tensor,
        targets: Tensor,
        *,
        toward: Tensor | None = None,
        relu: bool = True,
        gram: Tensor | None = None,
    ) -> None:
        if tuple(inputs.shape[1:]) != tail.domain or tuple(targets.shape[1:]) != tail.range:
            shapes = tuple(inputs.shape[1:]), tuple(targets.shape[1:])
            got = f"inputs of shape {shapes[0]} and targets of {shapes[1]}"
            raise invalid("samples", f"map {tail.domain} to {tail.range}", inputs, got=got)
        self.tail, self.inputs, self.targets, self.relu = tail, inputs, targets, relu
        self.gram = gram
        center = torch.zeros(tail.domain) if toward is None else toward.detach()
        self.toward = center.to(device=tail.device, dtype=tail.dtype)
        # x_i ∘ B^T y_i, from which the right side of every training set is a sum.
        self._correlations = torch.empty_like(inputs)
        for piece in self.parts(len(inputs)):
            self._correlations[piece] = inputs[piece] * tail._map_adjoint(targets[piece])

    def parts(self, samples: int) -> Iterator[slice]:
        """Split samples into slices that the tail maps at once.

        Parameters
        ----------
        samples : int
            Number of samples.

        Returns
        -------
        iterator of slice
            Of consecutive samples.
        """
        return parts(samples, math.prod(self.tail.domain) + math.prod(self.tail.range))

    def training(self, n: int) -> DiagonalTraining:
        """The training set of the first n samples.

        Parameters
        ----------
        n : int
            Number of samples, from 1 to the size of the pool.

        Returns
        -------
        DiagonalTraining
            Its normal equations, to be fitted.

        Raises
        ------
        KoriskError
            If the pool has fewer samples.
        """
        n = _checks.count("n", n, at_least=1, at_most=len(self.inputs), remedy="draw more")
        return DiagonalTraining(self, n)

    def predict(self, weights: Tensor, inputs: Tensor) -> Tensor:
        """The network's images with any weights.

        Parameters
        ----------
        weights : Tensor of shape tail.domain
            The diagonal layer.
        inputs : Tensor of shape (inputs, *tail.domain)
            New inputs.

        Returns
        -------
        Tensor of shape (inputs, *tail.range)
            With the ReLU if the network has one.
        """
        images = inputs.new_empty(len(inputs), *self.tail.range)
        for piece in self.parts(len(inputs)):
            images[piece] = self.tail._map(inputs[piece] * weights)
        return images.relu_() if self.relu else images


class NormalMatrix:
    """The normal matrix of a training set, stored or not, on its active weights.

    A class apart from the training, so that the Krylov basis and the training do not refer to each
    other: a matrix of tens of gigabytes is freed together with its training.
    """

    def __init__(self, ridge: DiagonalRidge, n: int) -> None:
        self.tail, self.inputs, self.pieces = ridge.tail, ridge.inputs[:n], list(ridge.parts(n))
        rows, gram = flat(self.inputs), ridge.gram
        # Weights of rays that are zero in every training input stay at `toward` for every lambda.
        # Leaving them out makes the factor smaller; for a large matrix the copy would cost more.
        if rows.shape[1] > LARGEST_FACTORED:
            self.active = torch.arange(rows.shape[1], device=rows.device)
        else:
            self.active = rows.any(0).nonzero()[:, 0]
        if gram is not None and len(self.active) < len(gram):
            rows, gram = rows[:, self.active], gram[self.active][:, self.active]
        self.matrix = None if gram is None else (rows.T @ rows).mul_(gram)

    def product(self, vector: Tensor) -> Tensor:
        """The matrix times (active weights,)."""
        if self.matrix is not None:
            return self.matrix @ vector
        weights = self.spread(vector)
        total = vector.new_zeros(weights.numel())
        for piece in self.pieces:
            inputs = self.inputs[piece]
            backprojections = self.tail._map_adjoint(self.tail._map(inputs * weights))
            total += (inputs * backprojections).sum(0).flatten()
        return total[self.active]

    def spread(self, active: Tensor) -> Tensor:
        """(..., active weights) as (..., views, bins), zero elsewhere."""
        weights = active.new_zeros(*active.shape[:-1], math.prod(self.tail.domain))
        weights[..., self.active] = active
        return weights.reshape(*active.shape[:-1], *self.tail.domain)

    def scale(self) -> float:
        """The mean of the diagonal, the unit of lambda."""
        if self.matrix is not None:
            return float(self.matrix.diagonal().mean())
        # Hutchinson's estimate: with random signs the off-diagonal terms average to zero.
        generator = torch.Generator().manual_seed(0)
        signs = torch.randint(0, 2, (_PROBES, len(self.active)), generator=generator) * 2 - 1
        rows = signs.to(self.inputs)
        return sum(float(row @ self.product(row)) for row in rows) / rows.numel()


class DiagonalTraining:
    """A training set of `DiagonalRidge` with its normal equations.

    Returned by `DiagonalRidge.training`. Lambdas are numbers >= 0, or infinity.

    Parameters
    ----------
    ridge : DiagonalRidge
        The pool.
    n : int
        Number of samples.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import DiagonalRidge
    >>> from korisk.operators import Diagonal
    >>> B = Diagonal([1.0, 2.0]).double()
    >>> x = torch.tensor([[1.0, 1.0], [1.0, 2.0], [3.0, 1.0]], dtype=torch.float64)
    >>> y = B(torch.tensor([0.5, 2.0], dtype=torch.float64) * x)
    >>> training = DiagonalRidge(B, x, y, relu=False).training(3)
    >>> training.weights([1e-9, float("inf")]).round(decimals=6).tolist()
    [[0.5, 2.0], [0.0, 0.0]]
    """

    def __init__(self, ridge: DiagonalRidge, n: int) -> None:
        self.ridge, self.n = ridge, n
        self.normal = NormalMatrix(ridge, n)
        active = self.normal.active
        self.rhs = ridge._correlations[:n].sum(0).flatten()[active]
        if bool(ridge.toward.any()):
            # Solve for the displacement w - toward, which shrinks to zero.
            self.rhs = self.rhs - self.normal.product(ridge.toward.flatten()[active])
        self.scale = self.normal.scale()
        self._krylov = Krylov(self.normal.product, self.rhs)

    def weights(self, penalties: Sequence[float]) -> Tensor:
        """The minimisers for several lambdas.

        Parameters
        ----------
        penalties : sequence of float
            Lambdas; at an infinite one the weights are `toward`.

        Returns
        -------
        Tensor of shape (penalties, *tail.domain)
            The weights for each lambda.
        """
        weights = self.ridge.toward.expand(len(penalties), *self.ridge.toward.shape).clone()
        indices = [index for index, penalty in enumerate(penalties) if math.isfinite(penalty)]
        shifts = [penalties[index] for index in indices]
        if not shifts:
            return weights
        matrix = self.normal.matrix
        if matrix is not None and len(self.rhs) <= LARGEST_FACTORED:
            moves = torch.stack([solved(matrix, self.rhs, shift) for shift in shifts])
        else:
            tolerance = _TOLERANCE[self.rhs.dtype]
            self._krylov.converge(shifts, tolerance=tolerance, most=MOST_STEPS)
            moves = self._krylov.solve(shifts)
        weights[indices] += self.normal.spread(moves)
        return weights

    def residual(self, weights: Tensor, penalty: float) -> float:
        """Relative residual of the normal equations.

        Parameters
        ----------
        weights : Tensor of shape tail.domain
            The weights.
        penalty : float
            Lambda.

        Returns
        -------
        float
            The norm of the residual over that of the right side.
        """
        if math.isinf(penalty):
            return 0.0
        displacement = (weights - self.ridge.toward).flatten()[self.normal.active]
        residual = self.rhs - self.normal.product(displacement) - penalty * displacement
        rhs_norm = float(torch.linalg.vector_norm(self.rhs))
        return float(torch.linalg.vector_norm(residual)) / rhs_norm if rhs_norm else 0.0

    def scores(self, scorer: Scorer) -> Callable[[Sequence[float]], list[float]]:
        """A function from lambdas to their scores on other samples, such as a validation set.

        Parameters
        ----------
        scorer : Scorer
            The samples and the error.

        Returns
        -------
        callable
            Takes a sequence of lambdas and returns a list of scores.
        """

        def score(penalties: Sequence[float]) -> list[float]:
            candidates = self.weights(penalties)
            return [scorer(self.ridge.predict(weights, scorer.inputs)) for weights in candidates]

        return score

    def fit(
        self,
        *,
        penalty: float | None = None,
        scorer: Scorer | None = None,
        grid: Sequence[float] | None = None,
    ) -> DiagonalFit:
        """Fit at one lambda, or at the lambda with the best score.

        Parameters
        ----------
        penalty : float, optional
            Lambda. Without it, lambda is chosen.
        scorer : Scorer, optional
            Criterion for lambda; needed if `penalty` is not passed.
        grid : sequence of float, optional
            The lambdas to choose from, the first of the best. By default a grid that grows until
            the choice is inside it.

        Returns
        -------
        DiagonalFit
            Weights, lambda and how it was chosen.

        Raises
        ------
        KoriskError
            If neither `penalty` nor `scorer` is passed.
        """
        choice = None
        if penalty is None:
            if scorer is None:
                raise KoriskError("a diagonal fit needs penalty= or a scorer to choose it by")
            # Small lambdas need the most steps: the grid reaches them only if the choice is there.
            choice = choose(self.scores(scorer), grid=grid, scale=self.scale, lowest=1e-2)
            penalty = choice.value
        return DiagonalFit(self, penalty, choice, self.weights([penalty])[0])


@dataclass(frozen=True)
class DiagonalFit:
    """Fitted weights and their lambda. Returned by `DiagonalTraining.fit`.

    Parameters
    ----------
    training : DiagonalTraining
        The training set.
    penalty : float
        Lambda.
    choice : Choice or None
        How lambda was chosen; None if it was passed.
    weights : Tensor of shape tail.domain
        The diagonal layer.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import DiagonalRidge
    >>> from korisk.operators import Diagonal
    >>> B = Diagonal([1.0, 2.0]).double()
    >>> x = torch.tensor([[1.0, 1.0], [1.0, 2.0], [3.0, 1.0]], dtype=torch.float64)
    >>> y = B(torch.tensor([0.5, 2.0], dtype=torch.float64) * x)
    >>> fit = DiagonalRidge(B, x, y, relu=False).training(2).fit(penalty=1e-9)
    >>> torch.allclose(fit.predict(x[2:]), y[2:])
    True
    """

    training: DiagonalTraining
    penalty: float
    choice: Choice | None
    weights: Tensor

    def predict(self, inputs: Tensor) -> Tensor:
        """The network's images, with the ReLU if it has one.

        Parameters
        ----------
        inputs : Tensor of shape (inputs, *tail.domain)
            New inputs.

        Returns
        -------
        Tensor of shape (inputs, *tail.range)
            The images.
        """
        return self.training.ridge.predict(self.weights, inputs)
