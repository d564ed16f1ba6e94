"""A user's operator, images and noise, checked and turned into examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk.errors import KoriskError, shown
from korisk.operators import LinearOperator, Matrix
from korisk.operators.linear import shape_text
from korisk.problems.noise import Gaussian, Noise, Poisson, add_noise, noise_variance
from korisk.problems.problem import Examples

Array = NDArray[np.float64]
Shape = tuple[int, ...]
Operator = LinearOperator | Tensor | NDArray[Any] | Callable[[Tensor], Tensor]

LARGEST_VALUE = 1e60  # of images and inputs: fourth powers are summed up
_LARGEST_CALLED = 4096  # pixels up to which the matrix of a function is computed
_LINEAR = 1e-3  # relative, as float32 leaves it


def examples_of(
    operator: Operator, images: Any, noise: float | Noise | None = None, *, seed: int = 0
) -> Examples:
    """Examples of a user's operator, images and noise."""
    try:
        values = np.asarray(images.detach().cpu() if isinstance(images, Tensor) else images)
        values = np.zeros(0) if np.iscomplexobj(values) else np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        values = np.zeros(0)
    if values.ndim not in (2, 3):
        raise KoriskError(
            "images must be real numbers in an array (images, height, width), all of one size, got "
            f"{shown(getattr(images, 'shape', images))}; convert and stack them"
        )
    finite = np.isfinite(values.reshape(len(values), math.prod(values.shape[1:]))).all(axis=1)
    if not finite.all():
        raise KoriskError(
            f"image {int(np.argmin(finite))} contains NaN or infinities; leave it out or repair it"
        )
    largest = float(np.abs(values).max(initial=0.0))
    if not 1 / LARGEST_VALUE <= largest <= LARGEST_VALUE:
        raise KoriskError(
            f"images must have a largest value from {1 / LARGEST_VALUE:g} to {LARGEST_VALUE:g}, "
            f"got {largest:.3g}; scale them, or bring images that are not empty"
        )
    if isinstance(operator, LinearOperator):
        forward = operator
    elif isinstance(operator, Tensor | np.ndarray):
        forward = _matrix(operator, values.shape[1:])
    elif callable(operator):
        forward = _matrix_of(operator, values)
    else:
        raise KoriskError(
            f"operator must be a LinearOperator, a matrix or a function, got {shown(operator)}; "
            "see korisk.operators"
        )
    if values.shape[1:] != forward.domain:
        raise KoriskError(
            f"images must have the operator's shape {shape_text(forward.domain)}, got "
            f"{shape_text(values.shape[1:])}; resample them or make the operator for their size"
        )
    kind: Any = noise
    if not isinstance(kind, bool) and isinstance(kind, Real):
        kind = Gaussian(float(kind)) if kind else None
    if not (kind is None or isinstance(kind, Gaussian | Poisson)):
        raise KoriskError(
            f"noise must be a level such as 0.02, Gaussian(level) or Poisson(photons), got "
            f"{shown(noise)}; leave it out for none"
        )
    latents = torch.from_numpy(values).to(forward.device, forward.dtype)
    clean, width = forward(latents), float(values.shape[-1])
    inputs = clean
    if kind is not None:
        inputs = add_noise(clean, kind, width=width, seed=seed, stream="examples noise")
    variance = noise_variance(clean, kind, width=width)
    return Examples(latents, forward, None, inputs, latents, variance)


def tail_of(tail: Any, shape: Shape, image: Shape) -> tuple[LinearOperator, ...]:
    """Known operators in their order, from inputs of `shape` to an `image`.

    A matrix among them takes the output of the one before it.
    """
    alone = isinstance(tail, LinearOperator | Tensor | np.ndarray) or not isinstance(tail, Sequence)
    every = (tail,) if alone else tail
    first = shape
    layers: list[LinearOperator] = []
    for at, each in enumerate(every):
        if isinstance(each, LinearOperator):
            layers.append(each)
        elif isinstance(each, Tensor | np.ndarray):
            last = at == len(every) - 1 and len(each) == math.prod(image)
            layers.append(_matrix(each, shape, image if last else None))
        else:
            raise KoriskError(
                f"tail must contain LinearOperators or matrices, got {shown(each)}; known "
                "operators are linear"
            )
        shape = tuple(layers[-1].range)
    domain = tuple(layers[0].domain) if layers else ()
    if (domain, shape) != (first, image):
        raise KoriskError(
            f"tail must map inputs {first} to images {image}, got {len(layers)} operators from "
            f"{domain} to {shape}; check them and their order"
        )
    return tuple(layers)


def weights_of(weights: Any, shape: Shape) -> Tensor:
    """Analytic weights as a tensor; ones where they are None."""
    try:
        found = torch.ones(shape) if weights is None else torch.as_tensor(weights).detach()
    except (TypeError, ValueError, RuntimeError):
        found = torch.full(shape, math.nan)
    if tuple(found.shape) != shape or not bool(torch.isfinite(found).all()):
        raise KoriskError(
            f"weights must be finite numbers of an input's shape {shape_text(shape)}, got "
            f"{shown(weights)} of shape {shape_text(tuple(found.shape))}; one for each entry"
        )
    return found


def _matrix(values: Any, domain: Shape, range_: Shape | None = None) -> Matrix:
    matrix = torch.as_tensor(values)
    real = matrix if matrix.is_complex() else matrix.double()  # `Matrix` refuses complex numbers
    return Matrix(real, domain, range_ or (len(matrix),))


def _matrix_of(function: Callable[[Tensor], Any], images: Array) -> Matrix:
    """A function of a batch of images as its matrix, if it is linear."""
    shape, pixels = images.shape[1:], math.prod(images.shape[1:])
    if pixels > _LARGEST_CALLED:
        raise KoriskError(
            f"operator is a function of {pixels:,} pixels, which would be called for each of them; "
            "give a LinearOperator, which has an adjoint"
        )
    weights = function.parameters() if isinstance(function, torch.nn.Module) else iter(())
    place = next(weights, torch.zeros(0, dtype=torch.float64))

    def call(batch: Tensor) -> Tensor:
        found = function(batch)
        tensor = isinstance(found, Tensor) and not found.is_complex()
        if not tensor or found.ndim < 2 or len(found) != len(batch):
            raise KoriskError(
                "operator must give a real tensor with one output for each image of a batch, got "
                f"{shown(getattr(found, 'shape', found))} for {len(batch)}; write it for batches "
                "(images, height, width), and stack real and imaginary parts"
            )
        return torch.as_tensor(found)

    # Probes of the images' size, but random: a blank image would hide a nonlinearity.
    size = float(np.sqrt(np.square(images).mean()))
    generator = torch.Generator().manual_seed(0)
    probes = size * torch.randn(2, *shape, generator=generator, dtype=torch.float64)
    probes = probes.to(place.device, place.dtype)
    with torch.no_grad():
        first, second = (call(each[None])[0] for each in probes)
        mixed = call((2 * probes[0] - 3 * probes[1])[None])[0]
        off = float((mixed - (2 * first - 3 * second)).abs().max())
        size = float((2 * first).abs().max() + (3 * second).abs().max())
        if not off <= _LINEAR * size or bool(call(torch.zeros_like(probes[:1])).any()):
            raise KoriskError(
                "operator is not linear: f(2 x - 3 y) differs from 2 f(x) - 3 f(y) by "
                f"{off / max(size, 1e-300):.1%} of its size, or f(0) is not 0; predictions need a "
                "linear operator: run a pilot instead"
            )
        unit = torch.eye(pixels, dtype=place.dtype, device=place.device).reshape(pixels, *shape)
        columns = torch.cat([call(part) for part in torch.split(unit, 256)])
    matrix = columns.reshape(pixels, -1).T.cpu().double()
    return Matrix(matrix, shape, tuple(first.shape))
