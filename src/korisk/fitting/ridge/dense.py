"""Dense layers by ridge regression in dual form: the matrix M is never formed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from korisk import _checks
from korisk._memory import check_memory
from korisk.fitting.ridge.choice import Choice, Scorer, choose, flat, require_pairs
from korisk.networks import DenseNet

_CHUNK = 2**26  # bytes of an operand that is converted to float64 at a time
_TOGETHER = 2**27  # entries of predictions computed at once
_KERNELS = 4  # matrices of samples by samples: kernel, eigenvectors, workspace of eigh
_EXACT = 1e-13  # relative size of eigenvalues that are rounding


class DenseRidge:
    """M = argmin |M X - Y|^2 + lambda |M|^2 for nested training sets of one pool.

    A training set of size n is the first n samples of the pool.

    Parameters
    ----------
    inputs : Tensor of shape (samples, ...)
        Inputs of the layer.
    targets : Tensor of shape (samples, ...)
        Desired outputs of the layer.
    relu : bool, default True
        Whether a ReLU follows the layer. The fit ignores it; every prediction applies it.

    Raises
    ------
    KoriskError
        If there are not as many inputs as targets, if a value is not finite, or if the kernel of
        all samples would not fit into memory.

    Notes
    -----
    With K = X X^T (samples by samples), a prediction is k(x)^T (K + lambda I)^-1 Y,
    Eq. (eq:dense-ridge), so what is fitted has the size of the training set, however large M is.
    One eigendecomposition of K serves every lambda, and one K serves every n. K and its
    decomposition are in float64; products with the targets are in the targets' own precision.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import DenseRidge
    >>> x = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> y = x @ torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    >>> fit = DenseRidge(x, y, relu=False).training(20).fit(penalty=1e-9)
    >>> torch.allclose(fit.predict(x[20:]), y[20:])
    True
    """

    def __init__(self, inputs: Tensor, targets: Tensor, *, relu: bool = True) -> None:
        require_pairs(inputs, targets)
        purpose = f"the kernel of a dense fit to {len(inputs):,} samples"
        check_memory(kernel_bytes(len(inputs)), inputs.device, purpose, "use fewer samples")
        self.inputs, self.targets, self.relu = flat(inputs), flat(targets), relu
        self._shapes = tuple(inputs.shape[1:]), tuple(targets.shape[1:])
        self._kernel = kernel(self.inputs, self.inputs)

    def training(self, n: int) -> DenseTraining:
        """The training set of the first n samples, with its kernel decomposed.

        Parameters
        ----------
        n : int
            Number of samples, from 1 to the size of the pool.

        Returns
        -------
        DenseTraining
            Its decomposed kernel, to be fitted.

        Raises
        ------
        KoriskError
            If the pool has fewer samples.
        """
        n = _checks.count("n", n, at_least=1, at_most=len(self.inputs), remedy="draw more")
        return DenseTraining(self, n)


class DenseTraining:
    """A training set of `DenseRidge` with its kernel decomposed, so that every lambda is cheap.

    Returned by `DenseRidge.training`. Lambdas are numbers >= 0 in the unit of K, or infinity.

    Parameters
    ----------
    ridge : DenseRidge
        The pool.
    n : int
        Number of samples.

    Examples
    --------
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
        values, self._vectors = torch.linalg.eigh(ridge._kernel[:n, :n])
        # K is positive semidefinite; negative eigenvalues are rounding.
        self._values = values.clamp_min(0.0)

    @property
    def scale(self) -> float:
        """The mean eigenvalue of K, the unit of lambda."""
        return float(self._values.mean())

    def _filter(self, penalty: float) -> Tensor:
        """1 / (eigenvalue + lambda), and 0 where the sum is below rounding."""
        shifted = self._values + penalty
        resolved = shifted > _EXACT * self._values[-1]
        return torch.where(resolved, 1 / shifted, torch.zeros_like(shifted))

    def _rotated(self, inputs: Tensor) -> Tensor:
        """k(x)^T U, (inputs, n), the factor that does not depend on lambda."""
        rotated: Tensor = kernel(flat(inputs), self.ridge.inputs[: self.n]) @ self._vectors
        return rotated

    def _products(self, rotated: Tensor, penalties: Sequence[float]) -> Tensor:
        """M x for each lambda, (penalties, inputs, outputs)."""
        targets = self.ridge.targets[: self.n]
        coefficients = [rotated * self._filter(penalty) @ self._vectors.T for penalty in penalties]
        # One product for all lambdas: it reads the targets, the largest operand, once.
        outputs = torch.cat(coefficients).to(targets.dtype) @ targets
        return outputs.reshape(len(penalties), len(rotated), -1)

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
        rotated = self._rotated(scorer.inputs)
        entries = rotated.shape[0] * self.ridge.targets.shape[1]
        count = max(1, _TOGETHER // max(1, entries))

        def score(penalties: Sequence[float]) -> list[float]:
            scores = []
            for first in range(0, len(penalties), count):
                products = self._products(rotated, penalties[first : first + count])
                outputs = products.relu_() if self.ridge.relu else products
                scores += [scorer(output) for output in outputs]
            return scores

        return score

    def leave_one_out(self, penalties: Sequence[float]) -> list[float]:
        """The mean squared error of each sample predicted from all others, without refitting.

        Parameters
        ----------
        penalties : sequence of float
            Lambdas.

        Returns
        -------
        list of float
            An error for each lambda; nan where the fit interpolates the samples.

        Notes
        -----
        With R = (K + lambda I)^-1, the prediction for sample i without it is y_i - (R Y)_i / R_ii,
        Eq. (eq:leave-one-out): the residual of the fit to all samples over what i itself adds.
        """
        targets = self.ridge.targets[: self.n]
        rows_at_once = max(1, _TOGETHER // targets.shape[1])
        errors = []
        for penalty in penalties:
            if math.isinf(penalty) or self.n == 1:
                # Nothing is learned from the others: the prediction is zero.
                errors.append(float(targets.double().square().mean()))
                continue
            shifted = self._values + penalty
            if float(shifted[0]) <= _EXACT * float(shifted[-1]):
                errors.append(math.nan)  # interpolation: R_ii is rounding
                continue
            # Eq. (eq:leave-one-out): row i of R over R_ii, times Y, is the residual of sample i.
            inverse = self._vectors / shifted @ self._vectors.T
            weights = (inverse / inverse.diagonal()[:, None]).to(targets.dtype)
            squared_error = 0.0
            for first in range(0, self.n, rows_at_once):
                piece = slice(first, first + rows_at_once)
                predicted = targets[piece] - weights[piece] @ targets
                if self.ridge.relu:
                    predicted.relu_()
                squared_error += float((predicted - targets[piece]).double().square().sum())
            errors.append(squared_error / targets.numel())
        return errors

    def fit(
        self,
        *,
        penalty: float | None = None,
        scorer: Scorer | None = None,
        grid: Sequence[float] | None = None,
    ) -> DenseFit:
        """Fit at one lambda, or at the lambda with the best score.

        Parameters
        ----------
        penalty : float, optional
            Lambda. Without it, lambda is chosen.
        scorer : Scorer, optional
            Criterion for lambda; by default the leave-one-out error.
        grid : sequence of float, optional
            The lambdas to choose from, the first of the best. By default a grid that grows until
            the choice is inside it.

        Returns
        -------
        DenseFit
            Training set, lambda and how it was chosen.
        """
        if penalty is not None:
            return DenseFit(self, penalty, None)
        score = self.leave_one_out if scorer is None else self.scores(scorer)
        choice = choose(score, grid=grid, scale=self.scale, lowest=1e-6, zero=True)
        return DenseFit(self, choice.value, choice)


@dataclass(frozen=True)
class DenseFit:
    """A fitted dense layer, held as training set and lambda. Returned by `DenseTraining.fit`.

    Parameters
    ----------
    training : DenseTraining
        The training set.
    penalty : float
        Lambda.
    choice : Choice or None
        How lambda was chosen; None if it was passed.

    Examples
    --------
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
        """The network's outputs, with the ReLU if it has one.

        Parameters
        ----------
        inputs : Tensor of shape (inputs, ...)
            New inputs.

        Returns
        -------
        Tensor of shape (inputs, ...)
            Of the targets' shape.
        """
        product = self.product(inputs)
        return product.relu_() if self.training.ridge.relu else product

    def product(self, inputs: Tensor) -> Tensor:
        """M x: as `predict`, without the ReLU.

        Parameters
        ----------
        inputs : Tensor of shape (inputs, ...)
            New inputs.

        Returns
        -------
        Tensor of shape (inputs, ...)
            Of the targets' shape.
        """
        product = self.training._products(self.training._rotated(inputs), [self.penalty])[0]
        return product.reshape(len(inputs), *self.training.ridge._shapes[1])

    def network(self) -> DenseNet:
        """The layer as a module that holds M as a product of two factors.

        Returns
        -------
        DenseNet
            On the device of the training inputs.
        """
        training, ridge = self.training, self.training.ridge
        inverse = training._vectors * training._filter(self.penalty) @ training._vectors.T
        right_factor = inverse.to(ridge.inputs.dtype) @ ridge.inputs[: training.n]
        # M = Y^T (K + lambda I)^-1 X: as factors it takes n (inputs + outputs) numbers.
        left_factor = ridge.targets[: training.n].T
        return DenseNet.factored(left_factor, right_factor, *ridge._shapes, relu=ridge.relu)


def kernel_bytes(samples: int) -> int:
    """Peak bytes of a dense fit: kernel in float64, eigenvectors and workspace of `eigh`."""
    return _KERNELS * 8 * samples**2


def kernel(left: Tensor, right: Tensor) -> Tensor:
    """left right^T in float64, (a, b), converting the operands piece by piece to save memory."""
    if left.dtype == torch.float64:
        return left @ right.T
    total = torch.zeros(len(left), len(right), dtype=torch.float64, device=left.device)
    width = max(1, _CHUNK // (8 * max(len(left), len(right))))
    for first in range(0, left.shape[1], width):
        columns = slice(first, first + width)
        total.addmm_(left[:, columns].double(), right[:, columns].double().T)
    return total
