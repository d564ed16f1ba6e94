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

LARGEST_INPUTS = 3000  # up to which all eigenvectors take seconds
_LARGEST_MATRIX = 2**26  # entries of A up to which it is stored
_CLIPPED = 128  # examples at which a ReLU's effect is computed, where matrices are stored,
_LARGE_CLIPPED = 32  # and where they are not
_SHOWN = 2**14  # entries of a target at which that effect is computed then

_PIECE = 2**25  # entries of padded images that are transformed at once
_MOST_ROWS = 64  # vectors that an operator gets at once
_STEPS = 48  # of Lanczos: what a threshold inside a spectrum of three decades needs
_RESOLVED = (4.6 / (4 * _STEPS)) ** 2  # exp(-4 steps sqrt(.)) is 1%: how deep Lanczos sees
_BLOCK = 32  # rows of a block, of which the space of the leading directions has _BLOCKS
_BLOCKS = 32
_CONVERGED = 0.02  # residual of an eigenvector that counts as one, over its eigenvalue
_NOTHING = 1e-7  # of the largest eigenvalue: float32's rounding, and left to Lanczos
_COUNTING = 8  # random starts that count eigenvalues,
_EXPLAINING = 24  # and those, at least, that see which energy of the targets they explain
_SEEN = 2**15  # entries of these starts: with few inputs, more starts are averaged
_ROUNDING = 1e-13  # of the largest eigenvalue, as in `spectrum`
_FITS = 0.75  # of the free memory
NO_NOISE = 1e-10  # of the inputs' mean square; less counts as no noise
_SHARES = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0])  # of the target, that are tried
_MATCHED, _MATCHED_TARGETS = 512, 2048  # inputs and targets at most, with which they are,
_AT_LAST = 3  # at so many of the largest N of a rehearsal,
_LEAST_CHECKS = 4  # if it has so many: 16 images or patients


def dense_spectrum(
    examples: Examples, moment: Moment, *, relu: bool, progress: Progress | None = None
) -> Spectrum:
    """What the learning curve of a dense layer from inputs to targets depends on."""
    inputs = math.prod(examples.forward.range)
    if inputs > LARGEST_INPUTS or inputs * len(moment.deviation) > _LARGEST_MATRIX:
        return large_spectrum(examples, moment, relu=relu, progress=progress)
    forward = to_array(examples.forward.as_matrix())
    seen = moment.apply(forward).T  # S A^T
    cross, energies = seen, moment.energies
    if examples.wanted is not None:
        wanted = to_array(examples.wanted.as_matrix())
        cross, energies = wanted @ seen, (wanted * moment.apply(wanted)).sum(axis=1)
    noisy = forward @ seen
    noisy[np.diag_indices(inputs)] += to_array(examples.noise).ravel()
    theory, vectors = spectrum(
        noisy,
        cross,
        float(energies.sum()),
        scales=brightness(examples),
        parameters=inputs * len(cross),
    )
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
    wanted, count = examples.wanted, math.prod(examples.forward.range)
    chosen = torch.randperm(count, generator=generator)[:_MATCHED].sort()[0]
    every = examples.targets[:MOST_REHEARSED].flatten(1)
    shown = torch.randperm(every.shape[1], generator=generator)[:_MATCHED_TARGETS].sort()[0]
    targets = to_array(every[:, shown.to(every.device)])
    if checks is None or count > len(chosen) or every.shape[1] > len(shown):
        measured = to_array(examples.inputs[:MOST_REHEARSED].flatten(1)[:, chosen])
        checks = rehearse(measured, targets, relu=False, groups=groups)
    if len(checks) < _LEAST_CHECKS:
        return moment
    moment = shifted(moment)
    units = torch.zeros(len(chosen), count, dtype=examples.forward.dtype)
    units[torch.arange(len(chosen)), chosen] = 1.0
    units = units.to(examples.forward.device).reshape(-1, *examples.forward.range)
    parts = [examples.forward.adjoint(batch).flatten(1) for batch in torch.split(units, _MOST_ROWS)]
    rows = to_array(torch.cat(parts))  # of A
    scales = np.square(to_array(examples.forward(examples.latents).flatten(1))[:, chosen]).mean(1)
    noise = to_array(examples.noise).ravel()[chosen]
    energy = float(np.square(targets).sum()) / len(targets)

    def pieces(shrinkage: float) -> tuple[Array, Array]:
        """A S A^T and W S A^T of the inputs and targets that take part."""
        seen = replace(moment, shrinkage=shrinkage).apply(rows)
        cross = seen
        if wanted is not None:
            images = torch.from_numpy(seen).to(wanted.device, wanted.dtype)
            cross = to_array(wanted(images.reshape(-1, *wanted.domain)).flatten(1))
        return rows @ seen.T, cross[:, shown].T

    (low, low_cross), (high, high_cross) = pieces(0.0), pieces(1.0)
    away = []
    for share in _SHARES:
        second = (1 - share) * low + share * high
        second[np.diag_indices(len(noise))] += noise
        cross = (1 - share) * low_cross + share * high_cross
        theory = spectrum(second, cross, energy, scales=scales)[0]
        ratios = np.log(theory.errors(checks.n[-_AT_LAST:])) - checks.log_error[-_AT_LAST:]
        away.append(float(ratios.mean()) - checks.level)
    # The first crossing of zero; where there is none, the end that is nearer.
    above = np.flatnonzero(np.array(away) >= 0)
    if not len(above):
        share = _SHARES[int(np.argmax(away))]
    elif above[0] == 0:
        share = _SHARES[0]
    else:
        last = above[0] + 1
        logs = np.log(_SHARES[last - 2 : last])
        share = float(np.exp(np.interp(0.0, away[last - 2 : last], logs)))
    return replace(moment, shrinkage=float(share))


def brightness(examples: Examples) -> Array:
    """(n,) the mean square of every example's input, without the noise that all have."""
    clean = to_array(examples.forward(examples.latents).flatten(1))
    return np.asarray(np.square(clean).mean(axis=1))


def to_array(tensor: Tensor) -> Array:
    """A tensor in float64, on the CPU."""
    return np.asarray(tensor.detach().to("cpu", torch.float64).numpy())


# --- Without the matrix --------------------------------------------------------------------------


class Leading(NamedTuple):
    """Directions of inputs that are known one by one."""

    vectors: Tensor  # (R, inputs) orthonormal rows u
    values: Tensor  # (R,) their eigenvalues lambda
    signal: Tensor  # (R,) |P u|^2 / lambda
    parts: Tensor  # (R, shown) (P u)^2 / lambda at some entries of the target
    shown: Tensor  # (shown,) which


def large_spectrum(
    examples: Examples, moment: Moment, *, relu: bool, progress: Progress | None = None
) -> Spectrum:
    """What the learning curve of a dense layer depends on, without a matrix of its inputs.

    `progress` is called with the share of the work that is done. `resolution_note` says from which
    N on the curve is not known.
    """
    products = Products(examples, moment)
    inputs = products.inputs
    width = max(1, min(_BLOCK, inputs // (2 * _BLOCKS)))
    blocks = min(_BLOCKS, inputs // width)  # of at most half of all directions together
    probes = max(_EXPLAINING, min(_SEEN // inputs, 4 * _EXPLAINING))
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
        energy = moment.energy if products.wanted is None else None
        theory = _with_rest(products, leading, probes, generator, energy, brightness(examples))
        if relu:
            theory = replace(
                theory, gain=_large_clipping(theory, products, leading, examples, moment)
            )
    if progress is not None:
        progress(1.0)
    return theory


def resolution_note(made: Spectrum, n: NDArray[np.floating]) -> list[str]:
    """From which of the sizes n on a large layer's error is unsure; nothing if all are sure.

    With little or no noise a threshold may fall below the eigenvalues that Lanczos resolves.
    """
    if made.counts is None:
        return []
    rest = made.values[made.counts != 1.0]
    depth = _RESOLVED * float(rest.max(initial=0.0))
    least = float(rest.min(initial=np.inf))
    unsure = [size for size in n if made.filter(float(size))[0] + least < depth]
    return [
        f"From N = {size:,.0f} on the computed error is too large: it depends on eigenvalues of "
        f"the inputs below {depth / made.values.max():.1g} of the largest, which are not resolved; "
        "give the noise of the measurement, which covers them."
        for size in unsure[:1]
    ]


def _along(products: Products, vectors: Tensor, entries: int) -> Leading:
    """Eigenvalues and explained energy of the leading directions, and at some target entries."""
    generator = torch.Generator().manual_seed(10)
    shown = torch.randperm(entries, generator=generator)[:_SHOWN].sort().values
    values, signal, parts = [], [], []
    for rows in products.split(vectors):
        image, targets = products.both(rows)
        value = (rows * image).sum(1)
        values.append(value)
        signal.append(targets.double().square().sum(1) / value)
        parts.append(targets[:, shown.to(targets.device)].square() / value[:, None].to(targets))
    return Leading(vectors, torch.cat(values), torch.cat(signal), torch.cat(parts), shown)


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

    counting, asked = signs(_COUNTING, products.inputs), signs(probes, products.targets)
    towards, energies = products.cross_back(asked)
    held = (towards @ leading.vectors.t()).square() @ (1 / leading.values)
    left = max(float((energies - held).mean()), 0.0)  # energy beyond the leading directions
    starts = torch.cat([counting, towards])
    seen = lanczos(products.apply, starts, steps=_STEPS, off=leading.vectors)
    nodes = seen.nodes.clamp_min(float(products.noise.min()))  # no eigenvalue of C is smaller
    counted, signal = seen.weights[:_COUNTING], seen.weights[_COUNTING:] / probes
    others = products.inputs - len(leading.values)
    counted = counted * (others / counted.sum().clamp_min(1e-300))
    there = nodes[_COUNTING:] > _ROUNDING * leading.values.max()
    signal = torch.where(there, signal / nodes[_COUNTING:], 0.0)
    counts = torch.cat([counted, torch.zeros_like(signal)]).flatten()
    signal = torch.cat([torch.zeros_like(counted), signal]).flatten()
    if energy is not None and left > 0:
        # The probes saw a little too much or too little of an energy that is known exactly.
        exact = max(energy - float(leading.signal.sum()), 0.0)
        signal, left = signal * (exact / left), exact
    if (total := float(signal.sum())) > left:  # by rounding where there is no noise
        signal, total = signal * (left / total), left
    return Spectrum(
        to_array(torch.cat([leading.values, nodes.flatten()])),
        to_array(torch.cat([leading.signal, signal])),
        left - total,
        scales,
        products.targets,
        counts=to_array(torch.cat([torch.ones_like(leading.values), counts])),
        parameters=products.inputs * products.targets,
    )


def _large_clipping(
    made: Spectrum, products: Products, leading: Leading, examples: Examples, moment: Moment
) -> Array:
    """The effect of a ReLU at `CLIPPED_AT`, as `clipping` has it.

    One Krylov space for each example solves for every threshold. The error at an entry of the
    target is exact along the leading directions; the rest of its energy shrinks with N as that of
    all entries does.
    """
    shown, values = leading.shown, leading.values
    inputs = examples.inputs[:_LARGE_CLIPPED].to(products.device, torch.float64).flatten(1)
    coordinates = inputs @ leading.vectors.t()
    beyond = lanczos(products.apply, inputs, steps=_STEPS, off=leading.vectors)
    every = examples.targets.flatten(1)[:, shown.to(examples.targets.device)]
    if examples.wanted is None:
        energies = moment.energies[shown.numpy()]
    else:
        energies = to_array(every.double().square().mean(0))
    parts, targets = to_array(leading.parts), to_array(every[:_LARGE_CLIPPED])
    left = np.maximum(energies - parts.sum(axis=0), 0.0)
    rest_values, rest_signal = made.values[len(values) :], made.signal[len(values) :]
    whole = float(rest_signal.sum()) + made.rest
    factors = []
    for n in CLIPPED_AT:
        threshold, effective, remaining = made.filter(float(n))
        solved = (coordinates / (values + threshold)) @ leading.vectors
        mean = products.cross(solved + beyond.solved(threshold))[:, shown.to(products.device)]
        filters = to_array(values / (values + threshold))
        bias = float(rest_signal @ (threshold / (rest_values + threshold)) ** 2) + made.rest
        error = (1 - filters) ** 2 @ parts + (bias / whole if whole > 0 else 0.0) * left
        scatter = coordinates.square() @ (
            values / (values + threshold) ** 2
        )  # x^T C (C + kappa)^-2 x
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
    values, turned = torch.linalg.eigh(projected)
    residuals = torch.linalg.vector_norm(coupling.t() @ turned[-width:], dim=0)
    converged = (residuals <= tolerance * values) & (values > _NOTHING * values[-1])
    converged[-1] = True
    vectors: Tensor = turned[:, converged].t() @ basis
    return vectors


class Products:
    """C = A S A^T + diag(noise), and P = W S A^T, for rows of vectors.

    Operators and Fourier transforms work in the operator's precision. Vectors of inputs are
    float64: what they are orthogonal to must stay so, however small the eigenvalues become.
    """

    def __init__(self, examples: Examples, moment: Moment) -> None:
        self.forward, self.wanted = examples.forward, examples.wanted
        self.device = self.forward.device
        self.shape = self.forward.domain
        self.inputs = math.prod(self.forward.range)
        self.targets = math.prod(self.shape if self.wanted is None else self.wanted.range)
        self.noise = examples.noise.detach().to(self.device, torch.float64).flatten()
        padded = math.prod(2 * length for length in self.shape)
        self._rows = min(_MOST_ROWS, max(1, _PIECE // padded))
        self._spread = None
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
        seen = self.forward.adjoint(self._placed(rows).reshape(-1, *self.forward.range))
        images = targets = self._moment(seen.flatten(1))
        if self.wanted is not None:
            targets = self.wanted(images.reshape(-1, *self.shape)).flatten(1)
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
            if self.wanted is not None:
                back = self.wanted.adjoint(back.reshape(-1, *self.wanted.range)).flatten(1)
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
