"""Diagonal layers in front of known operators, by ridge regression in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.fitting.ridge.choice import Choice, Score, choose, choose_from
from korisk.fitting.ridge.factored import FactoredSystem
from korisk.fitting.ridge.krylov import Krylov
from korisk.fitting.scores import Scorer, flat
from korisk.operators import Composed, LinearOperator, Matrix
from korisk.operators.ct.engines import free_memory

_ENTRIES = 2**26  # of images and sinograms that are worked on at once
_FITS = 0.8  # of the free memory, for the normal matrix and what it is made of
# Relative residuals at which Lanczos stops, a few digits above rounding.
_TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}
_LARGEST_FACTORED = 4096  # weights up to which a Cholesky factor is quicker than many steps
# Lambdas that are not solved by then are judged as they stand: stopping early regularises too. At
# H = 128 and 256 more steps change no error in four digits: benchmarks/lanczos_steps.py.
_MOST_STEPS = 400
_SOLVED = 1e-3  # residual up to which the weights are called the minimiser's
_PROBES = 4


def tail_gram(tail: LinearOperator) -> Tensor:
    """B^T B of the operators behind the diagonal, (weights, weights), from unit vectors.

    >>> from korisk.fitting import tail_gram
    >>> from korisk.operators import Matrix
    >>> tail_gram(Matrix([[1.0, 2.0], [0.0, 3.0]])).tolist()
    [[1.0, 2.0], [2.0, 13.0]]
    """
    only = tail.layers[0] if isinstance(tail, Composed) and len(tail) == 1 else tail
    if isinstance(only, Matrix):
        return only.matrix.T @ only.matrix
    weights = math.prod(tail.domain)
    place = {"device": tail.device, "dtype": tail.dtype}
    gram: Tensor = torch.empty(weights, weights, **place)  # type: ignore[call-overload]
    rows = max(1, _ENTRIES // (weights + math.prod(tail.range)))
    for first in range(0, weights, rows):
        last = min(first + rows, weights)
        unit = torch.zeros(last - first, weights, **place)  # type: ignore[call-overload]
        unit[torch.arange(last - first), torch.arange(first, last)] = 1
        images = tail._map(unit.reshape(-1, *tail.domain))
        gram[first:last] = flat(tail._map_adjoint(images))
    return gram


def gram_fits(tail: LinearOperator) -> bool:
    """Whether B^T B and a normal matrix of its size have room on the tail's device."""
    needed = 2 * math.prod(tail.domain) ** 2 * tail.dtype.itemsize
    return needed <= _FITS * free_memory(tail.device)


class DiagonalRidge:
    """w = argmin sum_i |B (w x_i) - y_i|^2 + lambda |w - toward|^2 for nested training sets.

    B is `tail`, all known operators behind the weights; `toward` is what weights shrink to, the
    analytic ones, or zero where it is None, as in the released code. The ReLU behind B takes no
    part in the fit but in every prediction that lambda is chosen by.

    Notes
    -----
    With x_i in the rows of X the normal matrix is (B^T B) ∘ (X^T X), entry by entry, and the right
    side sum_i x_i ∘ B^T y_i, Eq. (eq:diagonal-ridge). `gram` is B^T B, which belongs to the tail
    alone and can be shared between pools (see `tail_gram`). Where it is None, products with the
    normal matrix go through the operators sample by sample, and nothing of its size is stored.

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
            raise KoriskError(
                f"samples must map {tail.domain} to {tail.range}, got inputs of shape "
                f"{tuple(inputs.shape[1:])} and targets of {tuple(targets.shape[1:])}"
            )
        self.tail, self.inputs, self.targets, self.relu = tail, inputs, targets, relu
        self.gram = gram
        start = torch.zeros(tail.domain) if toward is None else toward.detach()
        self.toward = start.to(device=tail.device, dtype=tail.dtype)
        self._forms: tuple[Scorer, Tensor, Tensor, float] | None = None
        # x_i ∘ B^T y_i, from which the right side of every training set is a sum.
        self._correlations = torch.empty_like(inputs)
        for part in parts(len(inputs), math.prod(tail.domain) + math.prod(tail.range)):
            self._correlations[part] = inputs[part] * tail._map_adjoint(targets[part])

    def __len__(self) -> int:
        return len(self.inputs)

    def training(self, n: int) -> DiagonalTraining:
        """The training set of the first n samples."""
        if not 1 <= n <= len(self):
            raise KoriskError(
                f"n must be from 1 to the {len(self):,} samples of the pool, got {n}; draw more"
            )
        return DiagonalTraining(self, n)

    def _quadratic(self, scorer: Scorer) -> Callable[[Tensor], float] | None:
        """The mean squared error as a quadratic form of the weights, where there is no ReLU."""
        if self.relu or self.gram is None or scorer.by != "mse" or not self._small:
            return None
        if self._forms is None or self._forms[0] is not scorer:
            inputs, targets = scorer.inputs, scorer.targets
            rows = flat(inputs)
            matrix = (rows.T @ rows).mul_(self.gram)
            back = self.tail._map_adjoint(targets.reshape(-1, *self.tail.range))
            linear = (rows * flat(back)).sum(0)
            self._forms = scorer, matrix, linear, float(targets.square().sum())
        _, matrix, linear, constant = self._forms
        entries = scorer.targets.numel()

        def error(w: Tensor) -> float:
            # A perfect fit leaves rounding of either sign, and an error is never negative.
            return max(0.0, float(w @ (matrix @ w) - 2 * (linear @ w) + constant)) / entries

        return error

    @property
    def _small(self) -> bool:
        return math.prod(self.tail.domain) <= _LARGEST_FACTORED

    def predict(self, weights: Tensor, inputs: Tensor) -> Tensor:
        """The network's images for (samples, ...) inputs."""
        images = inputs.new_empty(len(inputs), *self.tail.range)
        for part in parts(len(inputs), math.prod(self.tail.domain) + math.prod(self.tail.range)):
            images[part] = self.tail._map(inputs[part] * weights)
        return images.relu_() if self.relu else images


class _Normal:
    """The normal matrix of a training set, stored or not, on its active weights.

    Apart from the training, so that Krylov's basis and the training do not hold each other: a
    matrix of tens of gigabytes is to go when its training goes.
    """

    def __init__(self, ridge: DiagonalRidge, n: int) -> None:
        self.tail, self.inputs = ridge.tail, ridge.inputs[:n]
        rows = flat(self.inputs)
        self.active = _active(rows)
        self.matrix = None if ridge.gram is None else self._stored(rows, ridge.gram)

    def _stored(self, rows: Tensor, gram: Tensor) -> Tensor:
        if len(self.active) == len(gram):
            return (rows.T @ rows).mul_(gram)
        rows = rows[:, self.active]
        return (rows.T @ rows).mul_(gram[self.active][:, self.active])

    def product(self, vector: Tensor) -> Tensor:
        """The matrix times (active weights,)."""
        if self.matrix is not None:
            return self.matrix @ vector
        weights = self.spread(vector)
        total = vector.new_zeros(weights.numel())
        entries = math.prod(self.tail.domain) + math.prod(self.tail.range)
        for part in parts(len(self.inputs), entries):
            inputs = self.inputs[part]
            back = self.tail._map_adjoint(self.tail._map(inputs * weights))
            total += (inputs * back).sum(0).flatten()
        return total[self.active]

    def spread(self, active: Tensor) -> Tensor:
        """(..., active weights) as (..., views, bins), zero elsewhere."""
        whole = active.new_zeros(*active.shape[:-1], math.prod(self.tail.domain))
        whole[..., self.active] = active
        return whole.reshape(*active.shape[:-1], *self.tail.domain)

    def scale(self) -> float:
        """The mean of the diagonal, in which lambdas are counted."""
        if self.matrix is not None:
            return float(self.matrix.diagonal().mean())
        # Hutchinson's estimate: signs leave the diagonal and scatter the rest around zero.
        generator = torch.Generator().manual_seed(0)
        signs = torch.randint(0, 2, (_PROBES, len(self.active)), generator=generator) * 2 - 1
        rows = signs.to(self.inputs)
        return sum(float(row @ self.product(row)) for row in rows) / rows.numel()


class DiagonalTraining:
    """A training set of `DiagonalRidge` with its normal equations.

    Made by `DiagonalRidge.training`; methods take lambdas >= 0, infinity among them.

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
        self.normal = _Normal(ridge, n)
        active = self.normal.active
        self.right = ridge._correlations[:n].sum(0).flatten()[active]
        if bool(ridge.toward.any()):
            self.right = self.right - self.normal.product(ridge.toward.flatten()[active])
        self.scale = self.normal.scale()
        self._krylov = Krylov(self.normal.product, self.right)
        self._system = self._factored_system()

    def _factored_system(self) -> FactoredSystem | None:
        matrix = self.normal.matrix
        small = len(self.right) <= _LARGEST_FACTORED
        return FactoredSystem(matrix, self.right) if matrix is not None and small else None

    def weights(self, penalties: Sequence[float], *, rough: bool = False) -> Tensor:
        """The minimisers, (penalties, views, bins); at an infinite lambda, what they shrink to."""
        found = self.ridge.toward.expand(len(penalties), *self.ridge.toward.shape).clone()
        finite = [at for at, each in enumerate(penalties) if math.isfinite(each)]
        shifts = [penalties[at] for at in finite]
        if shifts:
            found[finite] += self.normal.spread(self._solved(shifts, rough))
        return found

    def _solved(self, shifts: Sequence[float], rough: bool) -> Tensor:
        if self._system is not None:
            return torch.stack([self._system.solve(shift, rough=rough) for shift in shifts])
        tolerance = _TOLERANCE[self.right.dtype]
        self._krylov.converge(shifts, tolerance=tolerance, most=_MOST_STEPS)
        return self._krylov.solve(shifts)

    def residual(self, weights: Tensor, penalty: float) -> float:
        """How far weights are from the normal equations, over their right side."""
        if math.isinf(penalty):
            return 0.0
        moved = (weights - self.ridge.toward).flatten()[self.normal.active]
        off = self.right - self.normal.product(moved) - penalty * moved
        size = float(torch.linalg.vector_norm(self.right))
        return float(torch.linalg.vector_norm(off)) / size if size else 0.0

    def scores(self, scorer: Scorer) -> Callable[[Sequence[float]], list[float]]:
        """Scores of lambdas on other samples, such as a validation set."""
        quick = self.ridge._quadratic(scorer)

        def score(penalties: Sequence[float]) -> list[float]:
            made = self.weights(penalties, rough=True)
            if quick is not None:
                return [quick(each.flatten()) for each in made]
            return [scorer(self.ridge.predict(each, scorer.inputs)) for each in made]

        return score

    def fit(
        self,
        *,
        penalty: float | None = None,
        scorer: Scorer | None = None,
        grid: Sequence[float] | None = None,
    ) -> DiagonalFit:
        """The fit at a given lambda, or at that with the best score (see `DenseTraining.fit`)."""
        chosen = None
        if penalty is None:
            if scorer is None:
                raise KoriskError("a diagonal fit needs penalty= or a scorer to choose it by")
            chosen = self._chosen(self.scores(scorer), grid)
            penalty = chosen.value
        return DiagonalFit(self, penalty, chosen, self.weights([penalty])[0])

    def _chosen(self, score: Score, grid: Sequence[float] | None) -> Choice:
        # Small lambdas need the most steps, so they are tried where larger ones do not suffice.
        return choose_from(score, grid) if grid else choose(score, scale=self.scale, lowest=1e-2)


@dataclass(frozen=True)
class DiagonalFit:
    """Weights that were fitted, with the lambda they belong to.

    Made by `DiagonalTraining.fit`. `weights` has the shape of one input; `choice` is None where
    lambda was given.

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
    weights: Tensor  # of the tail's domain

    def predict(self, inputs: Tensor) -> Tensor:
        """The network's images for (samples, ...) inputs."""
        return self.training.ridge.predict(self.weights, inputs)

    def detail(self) -> dict[str, Any]:
        """What a study keeps beside the errors."""
        kept = {"lambda": self.penalty} if self.choice is None else self.choice.as_json()
        residual = self.training.residual(self.weights, self.penalty)
        return kept | {
            "lambda_scale": self.training.scale,
            "steps": self.training._krylov.steps,
            "residual": residual,
            "solved": residual <= _SOLVED,
        }


def _active(inputs: Tensor) -> Tensor:
    """The rays that met something in the training set; all, where leaving some out saves little.

    The others' weights stay where they shrink to, whatever lambda is. It saves where the matrix is
    to be factored; where it is large, the copy would cost more.
    """
    if inputs.shape[1] > _LARGEST_FACTORED:
        return torch.arange(inputs.shape[1], device=inputs.device)
    return inputs.any(0).nonzero()[:, 0]


def parts(samples: int, entries: int) -> Iterator[slice]:
    """Samples in pieces, each of which has about as many entries as are worked on at once."""
    rows = max(1, _ENTRIES // entries)
    for first in range(0, samples, rows):
        yield slice(first, min(first + rows, samples))
