"""Dense layers by ridge regression in dual form: the matrix M is never made."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.fitting.ridge.choice import Choice, choose, choose_from
from korisk.fitting.scores import Scorer, flat
from korisk.networks import DenseNet
from korisk.operators.ct.engines import free_memory

_CHUNK = 2**26  # bytes of an operand that is converted to float64 at a time
_TOGETHER = 2**27  # entries of predictions made at once
_KERNELS = 4  # of samples by samples: the kernel, its vectors, and what decomposing needs
_EXACT = 1e-13  # relative size of eigenvalues that are rounding


class DenseRidge:
    """M = argmin |M X - Y|^2 + lambda |M|^2 for nested training sets of one pool.

    `inputs` (samples, ...) and `targets` (samples, ...); a training set of size n is the first n.
    With K = X X^T (samples by samples), a prediction is k(x)^T (K + lambda I)^-1 Y,
    Eq. (eq:dense-ridge), so what is fitted has the size of the training set, however large M is.
    One eigendecomposition of K serves every lambda, and one K serves every n. K and its
    decomposition are in float64; products with the targets are in the targets' own precision.

    >>> import torch
    >>> from korisk.fitting import DenseRidge
    >>> x = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> y = x @ torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    >>> fit = DenseRidge(x, y, relu=False).training(20).fit(penalty=1e-9)
    >>> torch.allclose(fit.predict(x[20:]), y[20:])
    True
    """

    def __init__(self, inputs: Tensor, targets: Tensor, *, relu: bool = True) -> None:
        _check_pairs(inputs, targets)
        _refuse_large(len(inputs), inputs.device)
        self.inputs, self.targets, self.relu = flat(inputs), flat(targets), relu
        self._shapes = tuple(inputs.shape[1:]), tuple(targets.shape[1:])
        self._kernel = kernel(self.inputs, self.inputs)

    def __len__(self) -> int:
        return len(self.inputs)

    def training(self, n: int) -> DenseTraining:
        """The training set of the first n samples, decomposed."""
        if not 1 <= n <= len(self):
            raise KoriskError(
                f"n must be from 1 to the {len(self):,} samples of the pool, got {n}; draw more"
            )
        return DenseTraining(self, n)


class DenseTraining:
    """A training set of `DenseRidge` whose kernel is decomposed: any lambda is a scaling now.

    Made by `DenseRidge.training`; methods take lambdas as numbers >= 0, in the unit of K.

    >>> import torch
    >>> from korisk.fitting import DenseRidge
    >>> x = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> y = x @ torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    >>> training = DenseRidge(x, y, relu=False).training(20)
    >>> small, large = training.leave_one_out([0.1, 10.0])
    >>> small < large, training.fit(penalty=0.1).penalty
    (True, 0.1)
    """

    def __init__(self, ridge: DenseRidge, n: int) -> None:
        self.ridge, self.n = ridge, n
        values, self.vectors = torch.linalg.eigh(ridge._kernel[:n, :n])
        self.values = values.clamp_min(0.0)

    @property
    def scale(self) -> float:
        """The mean eigenvalue of K, in which lambdas are counted."""
        return float(self.values.mean())

    def _filter(self, penalty: float) -> Tensor:
        """1 / (eigenvalue + lambda), and 0 where that is rounding over rounding."""
        if math.isinf(penalty):
            return torch.zeros_like(self.values)
        shifted = self.values + penalty
        kept = shifted > _EXACT * self.values[-1]
        return torch.where(kept, 1 / shifted, torch.zeros_like(shifted))

    def _coefficients(self, rotated: Tensor, penalty: float) -> Tensor:
        """k(x)^T (K + lambda I)^-1 in the targets' precision, from k(x)^T U."""
        found: Tensor = rotated * self._filter(penalty) @ self.vectors.T
        return found.to(self.ridge.targets.dtype)

    def rotated(self, inputs: Tensor) -> Tensor:
        """k(x)^T U, (inputs, n): what every lambda starts from."""
        found: Tensor = kernel(flat(inputs), self.ridge.inputs[: self.n]) @ self.vectors
        return found

    def predictions(self, rotated: Tensor, penalties: Sequence[float]) -> Tensor:
        """(penalties, inputs, outputs), with the ReLU where the network has one."""
        outputs = self.products(rotated, penalties)
        return outputs.relu_() if self.ridge.relu else outputs

    def products(self, rotated: Tensor, penalties: Sequence[float]) -> Tensor:
        """The same without the ReLU."""
        coefficients = torch.cat([self._coefficients(rotated, each) for each in penalties])
        outputs = coefficients @ self.ridge.targets[: self.n]
        return outputs.reshape(len(penalties), len(rotated), -1)

    def scores(self, scorer: Scorer) -> Callable[[Sequence[float]], list[float]]:
        """Scores of lambdas on other samples, such as a validation set."""
        rotated = self.rotated(scorer.inputs)
        entries = rotated.shape[0] * self.ridge.targets.shape[1]
        together = max(1, _TOGETHER // max(1, entries))

        def score(penalties: Sequence[float]) -> list[float]:
            found = []
            for first in range(0, len(penalties), together):
                made = self.predictions(rotated, penalties[first : first + together])
                found += [scorer(each) for each in made]
            return found

        return score

    def leave_one_out(self, penalties: Sequence[float]) -> list[float]:
        """The mean squared error of each sample predicted from all others, without refitting.

        With R = (K + lambda I)^-1, the prediction for sample i without it is y_i - (R Y)_i / R_ii,
        Eq. (eq:leave-one-out): the residual of the fit on all, divided by what i itself adds.
        """
        return [self._left_out(penalty) for penalty in penalties]

    def _left_out(self, penalty: float) -> float:
        targets = self.ridge.targets[: self.n]
        if math.isinf(penalty) or self.n == 1:
            return float(targets.double().square().mean())
        shifted = self.values + penalty
        if float(shifted[0]) <= _EXACT * float(shifted[-1]):
            return math.nan  # interpolation: each sample's own weight in its prediction is all
        inverse = self.vectors / shifted @ self.vectors.T
        weights = (inverse / inverse.diagonal()[:, None]).to(targets.dtype)
        total = 0.0
        rows = max(1, _TOGETHER // targets.shape[1])
        for first in range(0, self.n, rows):
            part = slice(first, first + rows)
            predicted = targets[part] - weights[part] @ targets
            if self.ridge.relu:
                predicted.relu_()
            total += float((predicted - targets[part]).double().square().sum())
        return total / targets.numel()

    def fit(
        self,
        *,
        penalty: float | None = None,
        scorer: Scorer | None = None,
        grid: Sequence[float] | None = None,
    ) -> DenseFit:
        """The fit at a given lambda, or at that with the best score, or left-one-out error.

        Without `grid`, values grow until the choice is inside them (see `choose`); with it, the
        first of the best is taken as it stands.
        """
        if penalty is not None:
            return DenseFit(self, penalty, None)
        score = self.scores(scorer) if scorer is not None else self.leave_one_out
        if grid:
            made = choose_from(score, grid)
        else:
            made = choose(score, scale=self.scale, lowest=1e-6, zero=True)
        return DenseFit(self, made.value, made)


@dataclass(frozen=True)
class DenseFit:
    """A dense layer that was fitted, as its training set and lambda.

    Made by `DenseTraining.fit`. `penalty` is lambda; `choice` is None where it was given.

    >>> import torch
    >>> from korisk.fitting import DenseRidge
    >>> x = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> y = x @ torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    >>> fit = DenseRidge(x, y, relu=False).training(20).fit(penalty=0.1)
    >>> fit.predict(x[20:]).shape, fit.network().matrix().shape
    (torch.Size([20, 2]), torch.Size([2, 3]))
    """

    training: DenseTraining
    penalty: float
    choice: Choice | None

    def predict(self, inputs: Tensor) -> Tensor:
        """(inputs, ...) of the targets' shape."""
        product = self.product(inputs)
        return product.relu_() if self.training.ridge.relu else product

    def product(self, inputs: Tensor) -> Tensor:
        """M x: the same without the ReLU."""
        made = self.training.products(self.training.rotated(inputs), [self.penalty])[0]
        return made.reshape(len(inputs), *self.training.ridge._shapes[1])

    def network(self) -> DenseNet:
        """The layer as a module that holds M as a product of two factors."""
        training, ridge = self.training, self.training.ridge
        inverse = training.vectors * training._filter(self.penalty) @ training.vectors.T
        right = inverse.to(ridge.inputs.dtype) @ ridge.inputs[: training.n]
        left = ridge.targets[: training.n].T
        return DenseNet.factored(left, right, *ridge._shapes, relu=ridge.relu)

    def detail(self) -> dict[str, Any]:
        """What a study keeps beside the errors."""
        kept = {"lambda": self.penalty} if self.choice is None else self.choice.as_json()
        return kept | {"lambda_scale": self.training.scale}


def kernel(left: Tensor, right: Tensor) -> Tensor:
    """left right^T in float64, (a, b), from operands that are converted piece by piece."""
    if left.dtype == torch.float64:
        return left @ right.T
    total = torch.zeros(len(left), len(right), dtype=torch.float64, device=left.device)
    width = max(1, _CHUNK // (8 * max(len(left), len(right))))
    for first in range(0, left.shape[1], width):
        part = slice(first, first + width)
        total.addmm_(left[:, part].double(), right[:, part].double().T)
    return total


def _refuse_large(samples: int, device: torch.device) -> None:
    """Say what the kernel and its decomposition would take before the machine finds out."""
    needed, free = _KERNELS * 8 * samples**2, free_memory(device)
    if needed > free:
        raise KoriskError(
            f"a dense fit to {samples:,} samples takes {needed / 2**30:,.1f} GiB for its kernel, "
            f"of {free / 2**30:,.1f} GiB free on {device}; use fewer samples"
        )


def _check_pairs(inputs: Tensor, targets: Tensor) -> None:
    if len(inputs) != len(targets) or not len(inputs):
        raise KoriskError(
            f"inputs and targets must have the same number of samples, got {len(inputs)} and "
            f"{len(targets)}; pair them"
        )
    for name, tensor in (("inputs", inputs), ("targets", targets)):
        if not bool(torch.isfinite(tensor).all()):
            raise KoriskError(f"{name} must be finite, got NaN or infinities; clean them first")
