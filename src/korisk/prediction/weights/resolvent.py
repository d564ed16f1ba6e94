"""Spectra and solutions of the mean normal matrix of a structured layer, stored or not."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

from korisk.fitting.ridge.diagonal import parts
from korisk.fitting.scores import flat
from korisk.operators import LinearOperator
from korisk.prediction.lanczos import Spaces, lanczos
from korisk.prediction.weights.structured import Measure

# Relative eigenvalues that are rounding, where nothing can be learned.
_ROUNDING = {torch.float64: 1e-11, torch.float32: 2e-6}
_STEPS = 128  # of Lanczos; they reach lambdas that a fit of as many steps reaches
_SPECTRUM_STEPS = 48  # for counts of eigenvalues, which are smoother in lambda
_PROBES = 8  # random vectors that stand for all examples, and half of them where none is stored
_SHIFTS = 6  # times that a Cholesky factor is tried, each with a larger shift


class Normal:
    """The mean normal matrix of examples on the weights that meet something."""

    def __init__(self, tail: LinearOperator, inputs: Tensor, gram: Tensor | None) -> None:
        self.tail, self.inputs = tail, inputs
        rows = flat(inputs)
        self.active = rows.any(0).nonzero()[:, 0]
        self.matrix = None if gram is None else self._stored(rows, gram)

    def _stored(self, rows: Tensor, gram: Tensor) -> Tensor:
        if len(self.active) < len(gram):
            rows, gram = rows[:, self.active], gram[self.active][:, self.active]
        return (rows.T @ rows).div_(len(rows)).mul_(gram.to(rows))

    def product(self, vectors: Tensor) -> Tensor:
        """The matrix times each row of (batch, active weights)."""
        if self.matrix is not None:
            return vectors @ self.matrix
        return torch.stack([self._applied(weights) for weights in self.spread(vectors)])

    def _applied(self, weights: Tensor) -> Tensor:
        total = torch.zeros_like(weights)
        for part in parts(len(self.inputs), _entries(self.tail)):
            inputs = self.inputs[part]
            total += (inputs * self.tail._map_adjoint(self.tail._map(inputs * weights))).sum(0)
        return total.flatten()[self.active] / len(self.inputs)

    def spread(self, active: Tensor) -> Tensor:
        """(batch, active weights) as (batch, *domain), zero elsewhere."""
        whole = active.new_zeros(len(active), math.prod(self.tail.domain))
        whole[:, self.active] = active
        return whole.reshape(-1, *self.tail.domain)

    def gathered(self, weights: Tensor) -> Tensor:
        """(batch, *domain) as (batch, active weights)."""
        return flat(weights)[:, self.active]


def _entries(tail: LinearOperator) -> int:
    return math.prod(tail.domain) + math.prod(tail.range)


class Resolvent(ABC):
    """What is asked of the normal matrix G: spectral measures, and G^-1 of vectors."""

    can_solve_many = True  # whether solutions are cheap enough for every example
    probes = _PROBES

    @abstractmethod
    def spectrum(self) -> Measure:
        """How many eigenvalues there are of each size."""

    @abstractmethod
    def measure(self, vectors: Tensor) -> Measure:
        """The spectral measure of (batch, active weights), its mean over the batch."""

    @abstractmethod
    def solve(self, vectors: Tensor) -> Tensor:
        """G^-1 of each row of (batch, active weights)."""

    def both(self, vector: Tensor) -> tuple[Tensor, Measure]:
        """G^-1 of (1, active weights), and its spectral measure."""
        return self.solve(vector), self.measure(vector)


class Whole(Resolvent):
    """From all eigenvectors, in float64."""

    def __init__(self, normal: Normal) -> None:
        assert normal.matrix is not None
        values, vectors = torch.linalg.eigh(normal.matrix.double())
        kept = values > _ROUNDING[normal.matrix.dtype] * values[-1]
        self.values, self.vectors = values[kept], vectors[:, kept]

    def spectrum(self) -> Measure:
        """How many eigenvalues there are of each size."""
        values = self.values.cpu().numpy()
        return Measure(values, np.ones_like(values))

    def measure(self, vectors: Tensor) -> Measure:
        """The spectral measure of (batch, active weights), its mean over the batch."""
        squared = (vectors.double() @ self.vectors).square_().mean(0)
        return Measure(self.values.cpu().numpy(), squared.cpu().numpy())

    def solve(self, vectors: Tensor) -> Tensor:
        """G^-1 of each row of (batch, active weights)."""
        found: Tensor = ((vectors.double() @ self.vectors) / self.values) @ self.vectors.T
        return found.to(vectors.dtype)


class Iterated(Resolvent):
    """From products with the matrix alone: Lanczos' quadrature, of a few random vectors."""

    can_solve_many = False

    def __init__(self, normal: Normal) -> None:
        self.normal = normal
        self.probes = _PROBES if normal.matrix is not None else _PROBES // 2
        self._cut = _ROUNDING[normal.inputs.dtype]

    def spectrum(self) -> Measure:
        """How many eigenvalues there are of each size, by Hutchinson's signs."""
        signs = _signs((self.probes, len(self.normal.active)), self.normal.inputs, seed=1)
        return self._kept(lanczos(self.normal.product, signs, steps=_SPECTRUM_STEPS))

    def measure(self, vectors: Tensor) -> Measure:
        """The spectral measure of (batch, active weights), its mean over the batch."""
        if len(vectors) > self.probes:
            # Sums with random signs have the same mean square in every direction.
            signs = _signs((self.probes, len(vectors)), vectors, seed=2)
            vectors = signs @ vectors / math.sqrt(len(vectors))
        return self._kept(lanczos(self.normal.product, vectors, steps=_STEPS))

    def solve(self, vectors: Tensor) -> Tensor:
        """G^-1 of each row of (batch, active weights)."""
        return lanczos(self.normal.product, vectors, steps=_STEPS).solved_above(self._cut)

    def both(self, vector: Tensor) -> tuple[Tensor, Measure]:
        """G^-1 of (1, active weights), and its spectral measure, from one space."""
        space = lanczos(self.normal.product, vector, steps=_STEPS)
        return space.solved_above(self._cut), self._kept(space)

    def _kept(self, space: Spaces) -> Measure:
        values, weights = space.nodes.cpu().numpy(), space.weights.cpu().numpy()
        kept = values > self._cut * values.max()
        return Measure(values[kept], weights[kept] / len(values))


class Factored(Iterated):
    """As `Iterated`, with a Cholesky factor of the stored matrix to solve with."""

    can_solve_many = True

    def __init__(self, normal: Normal) -> None:
        super().__init__(normal)
        assert normal.matrix is not None
        matrix = normal.matrix.clone()
        shift = 0.1 * self._cut * float(matrix.diagonal().mean())
        self._lower: Tensor | None = None
        for _ in range(_SHIFTS):
            matrix.diagonal().add_(shift)
            lower, failed = torch.linalg.cholesky_ex(matrix)
            if not int(failed):
                self._lower = lower
                break
            shift *= 10
        self.can_solve_many = self._lower is not None

    def solve(self, vectors: Tensor) -> Tensor:
        """G^-1 of each row of (batch, active weights)."""
        if self._lower is None:
            return super().solve(vectors)
        return torch.cholesky_solve(vectors.T, self._lower).T

    def both(self, vector: Tensor) -> tuple[Tensor, Measure]:
        """G^-1 of (1, active weights), by the factor, and its spectral measure."""
        found, measure = super().both(vector)
        return found if self._lower is None else self.solve(vector), measure


def _signs(shape: tuple[int, int], like: Tensor, *, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(0, 2, shape, generator=generator) * 2 - 1).to(like)
