"""The spectrum of a dense layer from examples: by matrices where they are small, else by products.

Up to 3,000 inputs, all eigenvectors of C = A S A^T + diag(noise) are computed. Above, up to 120,000
inputs, C is only applied to vectors. Its leading eigenvectors are found by block iterations; along
them everything is exact. The rest of the spectrum enters a learning curve through smooth sums,
which Lanczos estimates from random starts: from random signs z, the eigenvalues of its small matrix
with their weights stand for all eigenvalues of C; from P^T g, with P = W S A^T and random signs g
of targets, for the energy of the targets that each explains. All starts are the same on every call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk._memory import check_memory
from korisk.prediction.dense.moments import Moment, shifted
from korisk.prediction.dense.spectral import CLIPPED_AT, Spectrum, clipped_share, clipping, spectrum
from korisk.prediction.lanczos import Product, along, lanczos, without
from korisk.prediction.misfit import MOST_REHEARSED, LogErrors, rehearse
from korisk.problems.problem import Examples

Array = NDArray[np.float64]
Progress = Callable[[float], None]  # of the share that is done

# Sizes up to which matrices are stored.
LARGEST_INPUTS = 3000  # all eigenvectors of C take seconds up to here
_LARGEST_MATRIX = 2**26  # entries of A
_PIECE = 2**25  # entries of padded images that are transformed at once
_MOST_ROWS = 64  # vectors that an operator gets at once
_FITS = 0.75  # share of the free memory that may be used
# The effect of a ReLU is averaged over examples, and over entries of the target.
_CLIPPED = 128  # examples, with stored matrices
_LARGE_CLIPPED = 32  # examples, without
_SAMPLED = 2**14  # entries of a target, without
# Lanczos and block iterations.
_STEPS = 48  # resolve a threshold inside a spectrum of three decades
_RESOLVED = (4.6 / (4 * _STEPS)) ** 2  # resolved relative depth: exp(-4 steps sqrt(.)) is 1%
_BLOCK, _BLOCKS = 32, 32  # rows of a block, and blocks that span the leading directions
_CONVERGED = 0.02  # largest residual of an eigenvector over its eigenvalue
_NOTHING = 1e-7  # relative eigenvalue that float32 cannot tell from zero; left to Lanczos
_ROUNDING = 1e-13  # relative eigenvalue that is rounding, as in `spectrum`
_COUNTING = 8  # random starts that count eigenvalues
_EXPLAINING = 24  # random starts, at least, that measure which energy of the targets they explain
_PROBED = 2**15  # entries of these starts in all: with few inputs, more starts are averaged
NO_NOISE = 1e-10  # variance over the inputs' mean square; less counts as no noise
# The shrinkage of the moment is matched to a rehearsal of a random part of inputs and targets.
_SHARES = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0])  # shrinkages that are tried
_MATCHED, _MATCHED_TARGETS = 512, 2048  # most inputs and targets
_AT_LAST = 3  # largest N of the rehearsal that are compared
_LEAST_CHECKS = 4  # sizes that a rehearsal must have: 16 images or patients


def dense_spectrum(
    examples: Examples, moment: Moment, *, relu: bool, progress: Progress | None = None
) -> Spectrum:
    """The spectrum that determines the learning curve of a dense layer from inputs to targets."""
    inputs = math.prod(examples.forward.range)
    if inputs > LARGEST_INPUTS or inputs * len(moment.deviation) > _LARGEST_MATRIX:
        return large_spectrum(examples, moment, relu=relu, progress=progress)
    forward = to_array(examples.forward.as_matrix())  # (inputs, pixels) A
    # (pixels, inputs) S A^T; with the noise A S A^T is the inputs' second moment C, and W S A^T
    # their cross moment P with the targets W x (targets are the images where there is no W).
    moment_rows = moment.apply(forward).T
    cross, energies = moment_rows, moment.energies
    if examples.wanted is not None:
        target_map = to_array(examples.wanted.as_matrix())
        energies = (target_map * moment.apply(target_map)).sum(axis=1)
        cross = target_map @ moment_rows
    noisy = forward @ moment_rows
    noisy[np.diag_indices(inputs)] += to_array(examples.noise).ravel()
    energy, weights = float(energies.sum()), inputs * len(cross)
    scales = brightness(examples)
    theory, vectors = spectrum(noisy, cross, energy, scales=scales, parameters=weights)
    if relu:
        some = (
            to_array(tensor[:_CLIPPED].flatten(1)) for tensor in (examples.inputs, examples.targets)
        )
        theory = replace(theory, gain=clipping(theory, vectors, cross, energies, *some))
    return theory


def matched_moment(
    examples: Examples,
    moment: Moment,
    groups: NDArray[np.int64] | None = None,
    checks: LogErrors | None = None,
) -> Moment:
    """The examples' moment, shrunk so that the theory agrees with fits to the examples.

    A sample covariance promises too small errors, its target too large ones; in between, the theory
    meets what a rehearsal measures at its largest N, and one standard error of that. Of many inputs
    and targets a random part serves, for theory and rehearsal; otherwise that is `checks`, if it is
    given. Examples of equal `groups` belong together.
    """
    generator = torch.Generator().manual_seed(8)
    target_map, count = examples.wanted, math.prod(examples.forward.range)
    input_ids = torch.randperm(count, generator=generator)[:_MATCHED].sort()[0]
    every = examples.targets[:MOST_REHEARSED].flatten(1)
    target_ids = torch.randperm(every.shape[1], generator=generator)[:_MATCHED_TARGETS].sort()[0]
    targets = to_array(every[:, target_ids.to(every.device)])
    if checks is None or count > len(input_ids) or every.shape[1] > len(target_ids):
        measured = to_array(examples.inputs[:MOST_REHEARSED].flatten(1)[:, input_ids])
        checks = rehearse(measured, targets, relu=False, groups=groups)
    if len(checks) < _LEAST_CHECKS:
        return moment
    moment = shifted(moment)
    units = torch.zeros(len(input_ids), count, dtype=examples.forward.dtype)
    units[torch.arange(len(input_ids)), input_ids] = 1.0
    units = units.to(examples.forward.device).reshape(-1, *examples.forward.range)
    parts = [examples.forward.adjoint(batch).flatten(1) for batch in torch.split(units, _MOST_ROWS)]
    rows = to_array(torch.cat(parts))  # (chosen inputs, pixels) of A
    clean = to_array(examples.forward(examples.latents).flatten(1))[:, input_ids]
    scales = np.square(clean).mean(1)  # (n,) brightness of each example
    noise = to_array(examples.noise).ravel()[input_ids]
    energy = float(np.square(targets).sum()) / len(targets)

    def pieces(shrinkage: float) -> tuple[Array, Array]:
        """A S A^T and W S A^T of the selected inputs and targets."""
        moment_rows = replace(moment, shrinkage=shrinkage).apply(rows)
        cross = moment_rows
        if target_map is not None:
            images = torch.from_numpy(moment_rows).to(target_map.device, target_map.dtype)
            cross = to_array(target_map(images.reshape(-1, *target_map.domain)).flatten(1))
        return rows @ moment_rows.T, cross[:, target_ids].T

    # Both moments are linear in the shrinkage: two evaluations give all of them.
    (low, low_cross), (high, high_cross) = pieces(0.0), pieces(1.0)
    misfits = []
    for share in _SHARES:
        second = (1 - share) * low + share * high
        second[np.diag_indices(len(noise))] += noise
        cross = (1 - share) * low_cross + share * high_cross
        theory = spectrum(second, cross, energy, scales=scales)[0]
        # Above zero, the theory promises larger errors than the rehearsal measured.
        ratios = np.log(theory.errors(checks.n[-_AT_LAST:])) - checks.log_error[-_AT_LAST:]
        misfits.append(float(ratios.mean()) - checks.level)
    # The first crossing of zero; where there is none, the end that is nearer.
    above = np.flatnonzero(np.array(misfits) >= 0)
    if not len(above):
        share = _SHARES[int(np.argmax(misfits))]
    elif above[0] == 0:
        share = _SHARES[0]
    else:
        last = above[0] + 1
        logs = np.log(_SHARES[last - 2 : last])
        share = float(np.exp(np.interp(0.0, misfits[last - 2 : last], logs)))
    return replace(moment, shrinkage=float(share))


def brightness(examples: Examples) -> Array:
    """(n,) the mean square of every example's noise-free input."""
    clean = to_array(examples.forward(examples.latents).flatten(1))
    return np.asarray(np.square(clean).mean(axis=1))


def to_array(tensor: Tensor) -> Array:
    """A tensor in float64, on the CPU."""
    return np.asarray(tensor.detach().to("cpu", torch.float64).numpy())


# --- Without the matrix --------------------------------------------------------------------------


class Leading(NamedTuple):
    """Leading eigenvectors of the inputs' second moment, each resolved."""

    vectors: Tensor  # (R, inputs) orthonormal rows u
    values: Tensor  # (R,) their eigenvalues lambda
    signal: Tensor  # (R,) |P u|^2 / lambda
    parts: Tensor  # (R, S) (P u)^2 / lambda at S sampled entries of the target
    sampled: Tensor  # (S,) indices of these entries


def large_spectrum(
    examples: Examples, moment: Moment, *, relu: bool, progress: Progress | None = None
) -> Spectrum:
    """The spectrum of a dense layer with many inputs, without storing a matrix of them.

    `progress` is called with the share of the work that is done. `resolution_note` says from which
    N on the curve is not known.
    """
    products = Products(examples, moment)
    inputs = products.inputs
    # Vectors of inputs decide the memory: two copies of the leading space, and a Krylov space for
    # every random start or clipped example.
    width = max(1, min(_BLOCK, inputs // (2 * _BLOCKS)))
    blocks = min(_BLOCKS, inputs // width)  # of at most half of all directions together
    probes = max(_EXPLAINING, min(_PROBED // inputs, 4 * _EXPLAINING))
    clipped = min(len(examples), _LARGE_CLIPPED) if relu else 0
    rows = 2 * width * blocks + max(_COUNTING + probes, clipped) * (_STEPS + 4)
    needed = 8 * rows * inputs + products.working_bytes
    what = f"the spectrum of a layer of {inputs:,} inputs"
    remedy = "use a smaller scan, or a machine with more memory"
    check_memory(needed, products.device, what, remedy, share=_FITS)
    starts = _COUNTING + probes + clipped
    planned = 2 * width * blocks + starts * _STEPS + probes + len(CLIPPED_AT) * clipped
    if progress is not None:
        products.report = lambda done: progress(min(done / planned, 1.0))
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        start = torch.randn(width, inputs, generator=generator, dtype=torch.float64)
        start = start.to(products.device)
        vectors = leading_vectors(products.apply, start, blocks=blocks, tolerance=_CONVERGED)
        leading = _along(products, vectors, products.targets if relu else 0)
        energy = moment.energy if products.target_map is None else None
        theory = _with_rest(products, leading, probes, generator, energy, brightness(examples))
        if relu:
            theory = replace(
                theory, gain=_large_clipping(theory, products, leading, examples, moment)
            )
    if progress is not None:
        progress(1.0)
    return theory


def resolution_note(theory: Spectrum, n: NDArray[np.floating]) -> list[str]:
    """A note with the first of the sizes n at which a large layer's error is not resolved.

    With little or no noise a threshold may fall below the eigenvalues that Lanczos resolves.
    """
    if theory.counts is None:
        return []
    # Nodes of Lanczos stand for more or less than one eigenvalue each.
    rest = theory.values[theory.counts != 1.0]
    depth = _RESOLVED * float(rest.max(initial=0.0))
    least = float(rest.min(initial=np.inf))
    unsure = [size for size in n if theory.filter(float(size))[0] + least < depth]
    return [
        f"From N = {size:,.0f} on the computed error is too large: it depends on eigenvalues of "
        f"the inputs below {depth / theory.values.max():.1g} of the largest, which are not "
        "resolved; give the noise of the measurement, which covers them."
        for size in unsure[:1]
    ]


def _along(products: Products, vectors: Tensor, entries: int) -> Leading:
    """Eigenvalues and explained energy of the leading directions, and at some target entries."""
    generator = torch.Generator().manual_seed(10)
    sampled = torch.randperm(entries, generator=generator)[:_SAMPLED].sort().values
    values, signal, parts = [], [], []
    for rows in products.split(vectors):
        image, targets = products.both(rows)
        value = (rows * image).sum(1)
        values.append(value)
        signal.append(targets.double().square().sum(1) / value)
        parts.append(targets[:, sampled.to(targets.device)].square() / value[:, None].to(targets))
    return Leading(vectors, torch.cat(values), torch.cat(signal), torch.cat(parts), sampled)


def _with_rest(
    products: Products,
    leading: Leading,
    probes: int,
    generator: torch.Generator,
    energy: float | None,  # of the targets, where it is known exactly
    scales: Array,
) -> Spectrum:
    """The leading directions one by one, and Lanczos' nodes for all others."""

    def signs(number: int, entries: int) -> Tensor:
        drawn = torch.randint(0, 2, (number, entries), generator=generator)
        return (2 * drawn - 1).double().to(products.device)

    counting, target_signs = signs(_COUNTING, products.inputs), signs(probes, products.targets)
    towards, energies = products.cross_back(target_signs)
    explained = (towards @ leading.vectors.t()).square() @ (1 / leading.values)
    # Energy of the targets beyond the leading directions, by Hutchinson's estimator.
    unexplained = max(float((energies - explained).mean()), 0.0)
    starts = torch.cat([counting, towards])
    spaces = lanczos(products.apply, starts, steps=_STEPS, off=leading.vectors)
    nodes = spaces.nodes.clamp_min(float(products.noise.min()))  # no eigenvalue of C is smaller
    counted, signal = spaces.weights[:_COUNTING], spaces.weights[_COUNTING:] / probes
    # The weights of the counting starts are scaled to the number of remaining eigenvalues.
    others = products.inputs - len(leading.values)
    counted = counted * (others / counted.sum().clamp_min(1e-300))
    # |P u|^2 / lambda, as for the leading directions; nothing where lambda is rounding.
    there = nodes[_COUNTING:] > _ROUNDING * leading.values.max()
    signal = torch.where(there, signal / nodes[_COUNTING:], 0.0)
    counts = torch.cat([counted, torch.zeros_like(signal)]).flatten()
    signal = torch.cat([torch.zeros_like(counted), signal]).flatten()
    if energy is not None and unexplained > 0:
        # The probes saw a little too much or too little of an energy that is known exactly.
        exact = max(energy - float(leading.signal.sum()), 0.0)
        signal, unexplained = signal * (exact / unexplained), exact
    if (total := float(signal.sum())) > unexplained:  # by rounding where there is no noise
        signal, total = signal * (unexplained / total), unexplained
    return Spectrum(
        to_array(torch.cat([leading.values, nodes.flatten()])),
        to_array(torch.cat([leading.signal, signal])),
        unexplained - total,
        scales,
        products.targets,
        counts=to_array(torch.cat([torch.ones_like(leading.values), counts])),
        parameters=products.inputs * products.targets,
    )


def _large_clipping(
    theory: Spectrum, products: Products, leading: Leading, examples: Examples, moment: Moment
) -> Array:
    """The effect of a ReLU at `CLIPPED_AT`, as `clipping` has it.

    One Krylov space for each example solves for every threshold. The error at an entry of the
    target is exact along the leading directions; the rest of its energy shrinks with N as that of
    all entries does.
    """
    sampled, values = leading.sampled, leading.values
    # Examples (k, inputs) in the leading directions, and their Krylov spaces beyond these.
    inputs = examples.inputs[:_LARGE_CLIPPED].to(products.device, torch.float64).flatten(1)
    coordinates = inputs @ leading.vectors.t()
    beyond = lanczos(products.apply, inputs, steps=_STEPS, off=leading.vectors)
    every = examples.targets.flatten(1)[:, sampled.to(examples.targets.device)]
    if examples.wanted is None:
        energies = moment.energies[sampled.numpy()]
    else:
        energies = to_array(every.double().square().mean(0))
    parts, targets = to_array(leading.parts), to_array(every[:_LARGE_CLIPPED])
    unexplained = np.maximum(energies - parts.sum(axis=0), 0.0)
    rest_values, rest_signal = theory.values[len(values) :], theory.signal[len(values) :]
    total = float(rest_signal.sum()) + theory.rest
    factors = []
    for n in CLIPPED_AT:
        threshold, effective, remaining = theory.filter(float(n))
        solved = (coordinates / (values + threshold)) @ leading.vectors
        mean = products.cross(solved + beyond.solved(threshold))[:, sampled.to(products.device)]
        filters = to_array(values / (values + threshold))
        bias = float(rest_signal @ (threshold / (rest_values + threshold)) ** 2) + theory.rest
        error = (1 - filters) ** 2 @ parts + (bias / total if total > 0 else 0.0) * unexplained
        # x^T C (C + kappa)^-2 x of each example: along the leading directions, then beyond them.
        scatter = coordinates.square() @ (values / (values + threshold) ** 2)
        scatter += (beyond.weights * beyond.nodes / (beyond.nodes + threshold) ** 2).sum(1)
        variance = np.outer(to_array(scatter) / effective, error / max(remaining, 1e-9))
        factors.append(clipped_share(to_array(mean), variance, targets))
    return np.array(factors)


def leading_vectors(product: Product, start: Tensor, *, blocks: int, tolerance: float) -> Tensor:
    """(R, m) orthonormal rows: Ritz vectors of start, C start, C^2 start, ... that have converged.

    Converged are those with |C u - theta u| <= tolerance theta. What they miss changes sums over
    the spectrum by the square of that alone. All vectors are kept orthogonal, twice.
    """

    def orthonormal(rows: Tensor) -> Tensor:
        columns: Tensor = torch.linalg.qr(rows.t())[0]
        return columns.t().contiguous()

    width, entries = start.shape
    basis = start.new_empty(blocks * width, entries)
    projected = start.new_zeros(blocks * width, blocks * width)
    block = orthonormal(start)
    coupling = start.new_zeros(width, width)
    for index in range(blocks):
        here, before = slice(index * width, (index + 1) * width), basis[: (index + 1) * width]
        basis[here] = block
        image = product(block)
        projection = along(image, before)
        projected[here, : len(before)] = projection
        projected[: len(before), here] = projection.t()
        image -= projection @ before
        image -= along(image, before) @ before
        block = orthonormal(image)
        # Where the space is exhausted, as without noise, rounding is all that was normalised.
        block = orthonormal(without(block, before))
        coupling = image @ block.t()
    # Rayleigh-Ritz: eigenpairs of C in the space, with their residuals from the last coupling.
    values, turned = torch.linalg.eigh(projected)
    residuals = torch.linalg.vector_norm(coupling.t() @ turned[-width:], dim=0)
    converged = (residuals <= tolerance * values) & (values > _NOTHING * values[-1])
    converged[-1] = True
    vectors: Tensor = turned[:, converged].t() @ basis
    return vectors


class Products:
    """C = A S A^T + diag(noise), and P = W S A^T, for rows of vectors.

    Operators and Fourier transforms work in the operator's precision. Vectors of inputs are
    float64, so that eigenvectors of small eigenvalues stay orthogonal to the others.
    """

    def __init__(self, examples: Examples, moment: Moment) -> None:
        self.forward, self.target_map = examples.forward, examples.wanted
        self.device = self.forward.device
        self.shape = self.forward.domain
        self.inputs = math.prod(self.forward.range)
        self.targets = math.prod(self.shape if self.target_map is None else self.target_map.range)
        self.noise = examples.noise.detach().to(self.device, torch.float64).flatten()
        padded = math.prod(2 * length for length in self.shape)
        self._rows = min(_MOST_ROWS, max(1, _PIECE // padded))
        self._spread = None
        # S as a low-rank part (mean and examples) and D rho D, each scaled by its share.
        share = moment.shrinkage
        sample = [moment.mean[None]]
        if share < 1:
            sample.append(math.sqrt((1 - share) / len(moment.images)) * moment.images)
        self._sample = self._placed(torch.from_numpy(np.concatenate(sample)))
        if share > 0:
            self._spread = self._placed(torch.from_numpy(math.sqrt(share) * moment.deviation))
            half = torch.from_numpy(moment.density)[..., : self.shape[-1] + 1]
            self._density = self._placed(half.contiguous())
        # About what images in work take: padded, transformed and back, and the examples.
        stored = 4 * self._rows * padded + self._sample.numel()
        self.working_bytes = self.forward.dtype.itemsize * stored
        self._done = 0
        self.report: Callable[[int], None] = lambda done: None  # of the rows that are done

    def split(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Rows in pieces that are multiplied at once."""
        return torch.split(rows, self._rows)

    def both(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """C x, (k, inputs), and P x, (k, targets), of one piece."""
        adjoint_rows = self.forward.adjoint(self._placed(rows).reshape(-1, *self.forward.range))
        images = targets = self._moment(adjoint_rows.flatten(1))
        if self.target_map is not None:
            targets = self.target_map(images.reshape(-1, *self.shape)).flatten(1)
        return self._measured(images) + self.noise * rows, targets

    def apply(self, rows: Tensor) -> Tensor:
        """C x, (k, inputs)."""
        return torch.cat([self.both(batch)[0] for batch in self.split(rows)])

    def cross(self, rows: Tensor) -> Tensor:
        """P x, (k, targets), in the operator's precision."""
        return torch.cat([self.both(batch)[1] for batch in self.split(rows)])

    def cross_back(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """P^T g, (k, inputs), and g^T W S W^T g, (k,), for rows g of targets."""
        measured, energies = [], []
        for batch in self.split(rows):
            back = self._placed(batch)
            if self.target_map is not None:
                back = self.target_map.adjoint(back.reshape(-1, *self.target_map.range)).flatten(1)
            images = self._moment(back)
            energies.append((back.double() * images.double()).sum(1))
            measured.append(self._measured(images))
        return torch.cat(measured), torch.cat(energies)

    def _placed(self, values: Tensor) -> Tensor:
        return values.to(self.forward.device, self.forward.dtype)

    def _moment(self, images: Tensor) -> Tensor:
        """(k, pixels) times S."""
        product = images @ self._sample.t() @ self._sample
        if self._spread is not None:
            # D rho D: rho is a convolution, applied by Fourier transforms on twice the grid.
            axes = tuple(range(1, 1 + len(self.shape)))
            padded = [2 * length for length in self.shape]
            spread = (images * self._spread).reshape(-1, *self.shape)
            waves = torch.fft.rfftn(spread, s=padded, dim=axes) * self._density
            back = torch.fft.irfftn(waves, s=padded, dim=axes)
            inside = back[(slice(None), *(slice(length) for length in self.shape))]
            product += inside.reshape(len(images), -1) * self._spread
        self._done += len(images)
        self.report(self._done)
        return product

    def _measured(self, images: Tensor) -> Tensor:
        measured: Tensor = self.forward(images.reshape(-1, *self.shape))
        return measured.flatten(1).to(torch.float64)
