"""The learning curve of weights in front of known operators, from a handful of examples.

From top to bottom: `Structured`, the curve; `structured_from_pairs`, which computes it from one fit
to the examples; then the steps of that: `Pairs` of inputs and targets with their normal matrix,
its inverse (`Whole`, `Iterated`), and the correction of the fit's `Optimism`.

Squared errors and gradients are sums over the entries of a target, except in fields of `Structured`
that say otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from korisk.fitting.ridge.diagonal import gram_fits, parts, tail_gram
from korisk.operators import Composed, LinearOperator
from korisk.prediction.dense.from_examples import Progress
from korisk.prediction.dense.spectral import ROUNDING
from korisk.prediction.independent import relative_error
from korisk.prediction.lanczos import Spaces, lanczos
from korisk.problems.problem import Reconstruction

Array = NDArray[np.float64]
Toward = Literal["analytic", "zero"]

# Lambdas that are tried, relative to N times the mean eigenvalue: zero, and 12 per decade.
_LAMBDAS = np.concatenate([[0.0], np.logspace(-10, 5, 181)])
# Shares of the rows, the independent equations of a fit, that its effective parameters use.
_MOST_USED = 0.98  # at most; smaller lambdas, which would use more, are skipped
_TRUSTED = 0.5  # beyond it the theory, which is for many examples, is rough
_LARGEST_N = 2**24  # end of the search of `holds_from`
# Numbers of weights up to which matrices pay off.
LARGEST_WHOLE = 3072  # all eigenvectors are quicker than Lanczos
LARGEST_STORED = 8192  # storing B^T B is worth its time
# Relative eigenvalues below these are rounding, where nothing can be learned.
_ROUNDING = {torch.float64: 1e-11, torch.float32: 2e-6}
# Lanczos and its random vectors.
_STEPS = 128  # of a solution: resolve the lambdas that a fit of as many iterations resolves
_SPECTRUM_STEPS = 48  # for counts of eigenvalues, which are smoother in lambda
_PROBES = 8  # random vectors that represent all examples; half as many without a stored matrix
_LEVERAGE_STEPS = 6  # for the leverages of an example
_SHIFTS = 6  # attempts at a Cholesky factor, each with a larger shift
_WORK = 2**17  # examples times weights whose leverages are computed; 32 examples at least
_MOST_LEVERAGE = 0.98  # largest leverage of one example, as a share of n
_MOST_CORRECTION = 4.0  # largest correction of a slope by halves; beyond it they are chance


class Measure(NamedTuple):
    """Weights on eigenvalues: a sum of f over a spectrum is `weights @ f(values)`."""

    values: Array
    weights: Array

    def kernel(self, shifts: Array, power: int) -> Array:
        """The sum of weights / (value + shift)^power, for each shift."""
        # Row by row, since thousands of values times all shifts would take much memory.
        return np.array([self.weights @ (self.values + shift) ** -power for shift in shifts])


class Path(NamedTuple):
    """Bias, variance and effective parameters along the regularisation path, (lambdas,) each."""

    bias: Array
    variance: Array  # of a fit to one example; N examples have 1 / N of it
    freedom: Array  # effective parameters: the trace of G (G + kappa)^-1
    squared: Array  # the trace of its square


@dataclass(frozen=True, kw_only=True, eq=False)
class Structured:
    """The expected error of w in B (w ∘ x), fitted to N examples by ridge regression.

    All measures are on the spectrum of G = E[D B^T B D] with D = diag(x), the mean normal matrix.
    `spectrum` counts its eigenvalues. `pull` has the squared gradient at the start, the weights
    that the fit shrinks towards. `noise` has the mean squared gradient of one example at the best
    weights. `leverages` has the leverages of one example among many, times their number: the
    eigenvalues of B D G^-1 D B^T.
    """

    spectrum: Measure = field(repr=False)
    pull: Measure = field(repr=False)
    noise: Measure = field(repr=False)
    leverages: Measure | None = field(repr=False)  # None: an example counts as infinitely many rows
    share: float  # of a change's squared norm that the ReLU passes; 1 without a ReLU
    floor: float  # mean squared error at N = infinity, per entry of a target
    start: float  # mean squared error of the weights that the fit shrinks towards, per entry
    entries: int  # number of entries of a target
    parameters: int  # number of weights
    examples: int  # n, the number of examples that all this was estimated from
    spread: float  # relative standard error of the floor, from how much examples or groups differ
    least: float = 0.0  # errors below are rounding, per entry

    @property
    def slope(self) -> float:
        """tr(G^-1 Omega) per entry, Eq. (eq:sandwich): N times the excess at large N, no lambda."""
        return self.share * float(np.sum(self.noise.weights / self.noise.values)) / self.entries

    def errors(self, n: ArrayLike) -> Array:
        """The expected error at each N, for the best lambda; the floor where N is infinite."""
        sizes = np.asarray(n, dtype=float)
        errors = [self._best(size)[0] for size in sizes.ravel()]
        return np.array(errors, dtype=float).reshape(sizes.shape)

    @cached_property
    def holds_from(self) -> int:
        """The smallest N from which on effective parameters use at most half of the rows.

        Below it the errors are an extrapolation of a theory for many examples.
        """
        # Doublings to the last N that uses more, then bisection to the smallest N that does not.
        last_over, size = 0, 1
        while size <= _LARGEST_N:
            if self._used_share(size) > _TRUSTED:
                last_over = size
            elif last_over or size >= self.parameters:
                break
            size *= 2
        if not last_over:
            return 1
        low, high = last_over, 2 * last_over
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._used_share(middle) > _TRUSTED else (low, middle)
        return high

    def _used_share(self, n: float) -> float:
        """The share of the rows that the effective parameters use."""
        best = self._best(n)[1]
        return 0.0 if best is None else float(self.path.squared[best]) / self.rows(n)

    def _best(self, n: float) -> tuple[float, int | None]:
        """The error per entry at the best lambda, and its index; None where it is infinite."""
        if not self.spectrum.weights.size:  # no weight changes any output
            return max(self.start, self.least), None
        path, rows = self.path, self.rows(n)
        allowed = path.freedom < _MOST_USED * rows
        # Few rows inflate the excess by one over the share of them that is free.
        free_share = np.where(allowed, 1 - path.squared / rows, 1.0)
        excess = np.where(allowed, (path.bias + path.variance / n) / free_share, math.inf)
        best = int(np.argmin(excess))
        error = self.floor + self.share * float(excess[best]) / self.entries
        # With an infinite lambda the weights stay at the start.
        lowest, index = (error, best) if error < self.start else (self.start, None)
        return max(lowest, self.least), index

    def rows(self, n: float) -> float:
        """N r: how many equal, independent rows N examples count as."""
        if self.leverages is None:
            return math.inf
        # The other examples reduce a leverage e to e / (1 + e / N).
        reduced = self.leverages.values / (1 + self.leverages.values / n)
        first, second = (float(self.leverages.weights @ reduced**power) for power in (1, 2))
        return n * first**2 / second

    @cached_property
    def path(self) -> Path:
        """Bias and variance at every lambda for the true G, from the G of the examples."""
        n, rows = self.examples, self.rows(self.examples)
        total = float(self.spectrum.weights.sum())
        shifts = _LAMBDAS * float(self.spectrum.weights @ self.spectrum.values) / total
        freedom = total - shifts * self.spectrum.kernel(shifts, 1)
        # -d df / d log lambda of the examples, which is tr(L - L^2) with L = G (G + lambda)^-1.
        decline = shifts * (
            self.spectrum.kernel(shifts, 1) - shifts * self.spectrum.kernel(shifts, 2)
        )
        # lambda = kappa (1 - df / (N r)): the effective ridge kappa is larger than lambda.
        free_share = np.maximum(1 - freedom / rows, 1 - _MOST_USED)
        kappas = shifts / free_share
        decline = decline / free_share
        squared = np.clip((freedom - decline) / np.maximum(1 - decline / rows, 0.02), 0, freedom)
        lambda_per_kappa = np.maximum(1 - squared / rows, 1 - _MOST_USED)  # d lambda / d kappa
        # Eq. (eq:structured) by lambda: bias kappa^2 d^T (G + kappa)^-1 G (G + kappa)^-1 d, and
        # variance tr (G + kappa)^-1 G (G + kappa)^-1 Omega; d = G^-1 times the gradient `pull`.
        pull, noise = self.pull, self.noise
        distance = Measure(pull.values, pull.weights / pull.values).kernel(shifts, 2)
        # The mean gradient of n examples does not vanish, even where the start is already best.
        by_chance = Measure(noise.values, noise.weights / noise.values).kernel(shifts, 2) / n
        bias = lambda_per_kappa * kappas**2 * np.maximum(distance - by_chance, 0.0)
        variance = Measure(noise.values, noise.weights * noise.values).kernel(shifts, 2)
        return Path(bias, variance, freedom, squared)


def structured_from_pairs(
    reconstruction: Reconstruction,
    inputs: Tensor,
    targets: Tensor,
    *,
    toward: Toward = "analytic",
    relu: bool,
    groups: NDArray[np.int64] | None = None,
    progress: Progress | None = None,
) -> Structured:
    """The learning curve of w in `tail(w * x)` from n examples: see `Structured`.

    `reconstruction` has the tail and the analytic weights, of the tail's domain; `inputs` are
    (n, *domain) with their noise, `targets` (n, *range). Examples of equal `groups` (n,), such as
    one patient's, are not independent. Up to 8,192 weights the normal matrix is stored; beyond
    that, products with it go through the operators.
    """
    report, tail = progress or (lambda share: None), Composed(reconstruction.tail)
    with torch.no_grad():
        tensors = reconstruction.weights, inputs, targets
        analytic, x, y = (tensor.to(tail.device, tail.dtype) for tensor in tensors)
        start = analytic if toward == "analytic" else torch.zeros_like(analytic)
        count = math.prod(tail.domain)  # weights
        stored = count <= LARGEST_STORED and gram_fits(tail)
        examples = Pairs(tail, x, y, relu, tail_gram(tail) if stored else None)
        report(0.2)
        small = stored and len(examples.active) <= LARGEST_WHOLE
        resolvent = Whole(examples) if small else Iterated(examples)
        report(0.5)
        # One Newton step from the start is the least-squares fit, since the loss is quadratic.
        newton_step, pull = resolvent.both(examples.pull(start))
        fitted = start - examples.spread(newton_step)[0]
        residuals = examples.residuals(fitted)
        gradients = examples.gathered(examples.gradients(residuals))
        noise = resolvent.measure(gradients)
        share = _passed(examples, fitted, resolvent, gradients) if relu else 1.0
        report(0.7)
        slope = float(np.sum(noise.weights / noise.values))
        if not slope:
            optimism = Optimism(1.0, 0.0, None)
        elif resolvent.can_solve_many:
            optimism = _by_leverages(examples, residuals, resolvent)
        else:
            optimism = _by_halves(examples, residuals, start, slope)
        # The floor is the in-sample loss plus its optimism; no fit is worse than its start.
        losses = examples.losses(fitted)
        at_start = float(examples.losses(start).mean())
        floor = min(float(losses.mean()) + share * optimism.loss, at_start)
        report(0.9)
        # Rounding is relative to the targets, as for the dense layer; they may all be zero.
        energy = float(y.flatten(1).double().square().sum(1).mean())
        least = max(ROUNDING * energy, 1e-200)
        floor = floor if floor > least else 0.0
        entries = math.prod(tail.range)
        structured = Structured(
            spectrum=resolvent.spectrum(),
            pull=pull,
            noise=Measure(noise.values, noise.weights * optimism.gradients),
            leverages=optimism.leverages,
            share=share,
            floor=floor / entries,
            start=at_start / entries,
            entries=entries,
            parameters=count,
            examples=len(x),
            spread=relative_error(losses.cpu().numpy(), groups),
            least=least / entries,
        )
    report(1.0)
    return structured


class Pairs:
    """Inputs and targets of a tail, and their mean normal matrix G, processed in batches.

    Weights whose inputs are all zero cannot be learned; G is on the others, the active ones. It is
    stored where `gram`, B^T B, is known.
    """

    def __init__(
        self, tail: LinearOperator, inputs: Tensor, targets: Tensor, relu: bool, gram: Tensor | None
    ) -> None:
        self.tail, self.inputs, self.targets, self.relu = tail, inputs, targets, relu
        entries = math.prod(tail.domain) + math.prod(tail.range)
        self._parts = list(parts(len(inputs), entries))
        rows = inputs.flatten(1)
        self.active = rows.any(0).nonzero()[:, 0]
        self.matrix: Tensor | None = None
        if gram is not None:
            if len(self.active) < len(gram):
                rows, gram = rows[:, self.active], gram[self.active][:, self.active]
            # E[D B^T B D] with D = diag(x): the moment of the inputs times B^T B, entry by entry.
            self.matrix = (rows.T @ rows).div_(len(rows)).mul_(gram.to(rows))

    def some(self, which: slice) -> Pairs:
        """A subset of the pairs, without a stored matrix."""
        return Pairs(self.tail, self.inputs[which], self.targets[which], self.relu, None)

    def images(self, weights: Tensor) -> Tensor:
        """B (w ∘ x_k), (n, *range), before the ReLU."""
        images = torch.empty_like(self.targets)
        for batch in self._parts:
            images[batch] = self.tail._map(self.inputs[batch] * weights)
        return images

    def residuals(self, weights: Tensor) -> Tensor:
        """B (w ∘ x_k) - y_k, (n, *range), as the fit sees them, without the ReLU."""
        return self.images(weights).sub_(self.targets)

    def losses(self, weights: Tensor) -> Tensor:
        """The squared errors of the predictions, (n,)."""
        images = self.images(weights)
        if self.relu:
            images.relu_()
        return images.sub_(self.targets).flatten(1).double().square().sum(1)

    def gradients(self, residuals: Tensor) -> Tensor:
        """x_k ∘ B^T r_k, (n, *domain)."""
        gradients = torch.empty_like(self.inputs)
        for batch in self._parts:
            gradients[batch] = self.inputs[batch] * self.tail._map_adjoint(residuals[batch])
        return gradients

    def pull(self, weights: Tensor) -> Tensor:
        """The mean gradient at some weights, (1, active weights)."""
        return self.gathered(self.gradients(self.residuals(weights)).mean(0, keepdim=True))

    def product(self, vectors: Tensor) -> Tensor:
        """G times each row of (batch, active weights)."""
        if self.matrix is not None:
            return vectors @ self.matrix
        products = []
        for weights in self.spread(vectors):
            total = torch.zeros_like(weights)
            for batch in self._parts:
                inputs = self.inputs[batch]
                total += (inputs * self.tail._map_adjoint(self.tail._map(inputs * weights))).sum(0)
            products.append(total.flatten()[self.active] / len(self.inputs))
        return torch.stack(products)

    def spread(self, active: Tensor) -> Tensor:
        """(batch, active weights) as (batch, *domain), zero elsewhere."""
        flat = active.new_zeros(len(active), math.prod(self.tail.domain))
        flat[:, self.active] = active
        return flat.reshape(-1, *self.tail.domain)

    def gathered(self, weights: Tensor) -> Tensor:
        """(batch, *domain) as (batch, active weights)."""
        return weights.flatten(1)[:, self.active]


# --- The inverse of the normal matrix ------------------------------------------------------------


class Whole:
    """Spectral measures of the normal matrix G, and G^-1 of vectors, from all eigenvectors."""

    can_solve_many = True  # whether solutions are cheap enough for every example
    probes = _PROBES

    def __init__(self, pairs: Pairs) -> None:
        assert pairs.matrix is not None
        # Directions whose eigenvalue is rounding carry no information and are dropped.
        values, vectors = torch.linalg.eigh(pairs.matrix.double())
        resolved = values > _ROUNDING[pairs.matrix.dtype] * values[-1]
        self.values, self.vectors = values[resolved], vectors[:, resolved]

    def spectrum(self) -> Measure:
        """The number of eigenvalues of each size."""
        values = self.values.cpu().numpy()
        return Measure(values, np.ones_like(values))

    def measure(self, vectors: Tensor) -> Measure:
        """The spectral measure of (batch, active weights), its mean over the batch."""
        squared = (vectors.double() @ self.vectors).square_().mean(0)
        return Measure(self.values.cpu().numpy(), squared.cpu().numpy())

    def solve(self, vectors: Tensor) -> Tensor:
        """G^-1 of each row of (batch, active weights)."""
        solved: Tensor = ((vectors.double() @ self.vectors) / self.values) @ self.vectors.T
        return solved.to(vectors.dtype)

    def both(self, vector: Tensor) -> tuple[Tensor, Measure]:
        """G^-1 of (1, active weights), and its spectral measure."""
        return self.solve(vector), self.measure(vector)


class Iterated:
    """As `Whole`, by Lanczos' quadrature of a few random vectors.

    Solutions come from a Cholesky factor where the matrix is stored.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.probes = _PROBES if pairs.matrix is not None else _PROBES // 2
        self._cut = _ROUNDING[pairs.inputs.dtype]
        self._lower: Tensor | None = None
        if pairs.matrix is not None:
            # G may be singular up to rounding: its diagonal is raised until a factor exists.
            matrix = pairs.matrix.clone()
            shift = 0.1 * self._cut * float(matrix.diagonal().mean())
            for _ in range(_SHIFTS):
                matrix.diagonal().add_(shift)
                lower, failed = torch.linalg.cholesky_ex(matrix)
                if not int(failed):
                    self._lower = lower
                    break
                shift *= 10
        self.can_solve_many = self._lower is not None

    def spectrum(self) -> Measure:
        """The number of eigenvalues of each size, by Hutchinson's estimator."""
        signs = _signs((self.probes, len(self.pairs.active)), self.pairs.inputs, seed=1)
        return self._resolved(lanczos(self.pairs.product, signs, steps=_SPECTRUM_STEPS))

    def measure(self, vectors: Tensor) -> Measure:
        """The spectral measure of (batch, active weights), its mean over the batch."""
        if len(vectors) > self.probes:
            # Sums with random signs have the same mean square in every direction.
            signs = _signs((self.probes, len(vectors)), vectors, seed=2)
            vectors = signs @ vectors / math.sqrt(len(vectors))
        return self._resolved(lanczos(self.pairs.product, vectors, steps=_STEPS))

    def solve(self, vectors: Tensor) -> Tensor:
        """G^-1 of each row of (batch, active weights)."""
        if self._lower is not None:
            return torch.cholesky_solve(vectors.T, self._lower).T
        return lanczos(self.pairs.product, vectors, steps=_STEPS).solved_above(self._cut)

    def both(self, vector: Tensor) -> tuple[Tensor, Measure]:
        """G^-1 of (1, active weights), and its spectral measure, from one space."""
        space = lanczos(self.pairs.product, vector, steps=_STEPS)
        solved = space.solved_above(self._cut) if self._lower is None else self.solve(vector)
        return solved, self._resolved(space)

    def _resolved(self, space: Spaces) -> Measure:
        values, weights = space.nodes.cpu().numpy(), space.weights.cpu().numpy()
        above = values > self._cut * values.max()
        return Measure(values[above], weights[above] / len(values))


def _signs(shape: tuple[int, ...], like: Tensor, *, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(0, 2, shape, generator=generator) * 2 - 1).to(like)


# --- The optimism of the fit ---------------------------------------------------------------------


class Optimism(NamedTuple):
    """Corrections of in-sample residuals, which are too small because they were fitted; no ReLU."""

    gradients: float  # factor of the squared gradients
    loss: float  # to be added to the mean in-sample loss
    leverages: Measure | None  # see `Structured`


def _passed(
    examples: Pairs, weights: Tensor, resolvent: Whole | Iterated, gradients: Tensor
) -> float:
    """The share of a random change's energy that the ReLU passes."""
    # Random sums of gradients, solved: changes of the weights as sampling noise causes them.
    signs = _signs((resolvent.probes, len(gradients)), gradients, seed=3)
    active = examples.images(weights) > 0
    passed = total = 0.0
    for change in examples.spread(resolvent.solve(signs @ gradients)):
        squares = examples.images(change).double().square()
        passed += float((squares * active).sum())
        total += float(squares.sum())
    return passed / total if total else 1.0


def _by_leverages(examples: Pairs, residuals: Tensor, resolvent: Whole | Iterated) -> Optimism:
    """The optimism by quadrature over the leverages L_k of some examples, from r_k and signs."""
    # A subset of the examples: leverages are averaged, so that some tens are enough.
    n = len(examples.inputs)
    count = min(n, max(32, _WORK // len(examples.active)))
    subset = examples.some(slice(count))

    def times_leverage(rows: Tensor) -> Tensor:
        """B D_k G^-1 D_k B^T, which is n L_k, times row k."""
        images = rows.reshape(subset.targets.shape).to(subset.targets)
        change = examples.spread(resolvent.solve(examples.gathered(subset.gradients(images))))
        return subset.tail._map(subset.inputs * change).flatten(1).double()

    def spectral_measure(start: Tensor) -> Measure:
        """The mean, over the subset, of the spectral measures of row k of `start` under n L_k."""
        spaces = lanczos(times_leverage, start.flatten(1).double(), steps=_LEVERAGE_STEPS)
        values, weights = (x.flatten().cpu().numpy() for x in (spaces.nodes, spaces.weights))
        return Measure(np.minimum(values, _MOST_LEVERAGE * n), weights / count)

    measure = spectral_measure(residuals[:count])
    # HC2: r_k = (1 - L_k) s_k, so sums over the spectrum of L_k lead from <r, r> to <r, s>.
    remaining = 1 - measure.values / n
    in_sample = float(measure.weights @ measure.values)
    corrected = float(measure.weights @ (measure.values / remaining))
    factor = corrected / in_sample if in_sample else 1.0
    loss = float(measure.weights @ (1 / remaining - 1))
    # Leverages among many examples: an example of leverage e / n has e / (1 - e / n) under a fit to
    # the others. These are scaled to the same sum, the number of parameters, because the inverse of
    # the G of few examples is too large. Random signs give the trace (Hutchinson).
    leverages = spectral_measure(_signs(subset.targets.shape, subset.targets, seed=4))
    values = leverages.values / (1 - leverages.values / n)
    total = float(leverages.weights @ values)
    if not total:
        return Optimism(factor, loss, None)
    scaled = values * float(leverages.weights @ leverages.values) / total
    return Optimism(factor, loss, Measure(scaled, leverages.weights))


def _by_halves(examples: Pairs, residuals: Tensor, start: Tensor, slope: float) -> Optimism:
    """The optimism from fits to halves of the examples; `slope` is the in-sample tr(G^-1 Omega).

    The in-sample loss is floor - slope / n for all examples and floor - 2 slope / n for halves, so
    their difference gives the true slope. Out of sample, halves have an excess of
    (2 slope / n) / (1 - 2 c / n) with c = p / r, which gives r, the rows an example counts as.
    """

    def loss_of(half: Pairs, fit: Tensor) -> float:
        return float(half.residuals(fit).double().square().sum())

    # Each half is fitted, then tested on itself and on the other half.
    n = len(examples.inputs)
    halves = [examples.some(slice(parity, None, 2)) for parity in (0, 1)]
    newton_steps = [Iterated(half).both(half.pull(start))[0] for half in halves]
    fits = [start - half.spread(step)[0] for half, step in zip(halves, newton_steps, strict=True)]
    inside = sum(loss_of(half, fit) for half, fit in zip(halves, fits, strict=True)) / n
    outside = sum(loss_of(half, fit) for half, fit in zip(halves, fits[::-1], strict=True)) / n
    of_all = float(residuals.double().square().sum()) / n
    factor = min(max(n * (of_all - inside) / slope, 1.0), _MOST_CORRECTION)
    loss = factor * slope / n
    excess = outside - of_all - loss
    leverage = n / 2 * (1 - 2 * loss / excess) if excess > 2 * loss else 0.0  # c = p / r
    if not leverage:
        return Optimism(factor, loss, None)
    # r equal leverages of p / r each.
    leverages = Measure(np.array([leverage]), np.array([len(examples.active) / leverage]))
    return Optimism(factor, loss, leverages)
