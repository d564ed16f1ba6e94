"""What users bring to a prediction: operators, images and noise, checked and made into examples."""

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
from korisk.prediction.dense.moments import checked_images
from korisk.problems.examples import Examples
from korisk.problems.noise import Gaussian, Noise, Poisson, add_noise, noise_variance

Array = NDArray[np.float64]
Operator = LinearOperator | Tensor | NDArray[Any] | Callable[[Tensor], Tensor]

_LARGEST_CALLED = 4096  # pixels of operators that are only a function: their matrix is made
_LINEAR = 1e-3  # relative, as float32 leaves it


def examples_of(
    operator: Operator, images: Any, noise: float | Noise | None = None, *, seed: int = 0
) -> Examples:
    """Examples of a user's operator, images and noise; wrong ones are refused in words."""
    plain = images.detach().cpu().numpy() if isinstance(images, Tensor) else images
    values = checked_images(plain)
    forward = _as_operator(operator, values)
    if values.shape[1:] != forward.domain:
        raise KoriskError(
            f"images must have the operator's shape {shape_text(forward.domain)}, got "
            f"{shape_text(values.shape[1:])}; resample them or make the operator for their size"
        )
    latents = torch.from_numpy(values).to(forward.device, forward.dtype)
    clean = forward(latents)
    kind = _noise(noise)
    width = float(values.shape[-1])
    variance = noise_variance(clean, kind, width=width)
    inputs = clean
    if kind is not None:
        inputs = add_noise(clean, kind, width=width, seed=seed, stream="examples noise")
    return Examples(latents, forward, None, inputs, latents, variance)


def _noise(given: Any) -> Noise | None:
    if given is None or isinstance(given, Gaussian | Poisson):
        return given
    if isinstance(given, bool) or not isinstance(given, Real):
        raise KoriskError(
            f"noise must be a level such as 0.02, Gaussian(level) or Poisson(photons), got "
            f"{shown(given)}; leave it out for none"
        )
    return Gaussian(float(given)) if given else None


def _as_operator(operator: Operator, images: Array) -> LinearOperator:
    if isinstance(operator, LinearOperator):
        return operator
    shape, pixels = images.shape[1:], math.prod(images.shape[1:])
    if isinstance(operator, Tensor | np.ndarray):
        matrix = torch.as_tensor(operator)
        if matrix.ndim != 2 or matrix.shape[1] != pixels:
            raise KoriskError(
                f"a matrix for images of {shape_text(shape)} must have {pixels:,} columns, got "
                f"shape {tuple(matrix.shape)}; flatten images row by row"
            )
        return Matrix(_real(matrix).double(), shape, (len(matrix),), name="A")
    if not callable(operator):
        raise KoriskError(
            f"operator must be a LinearOperator, a matrix or a function, got {shown(operator)}"
        )
    return _matrix_of(operator, images)


def tail_of(
    given: Any, shape: tuple[int, ...], image: tuple[int, ...]
) -> tuple[LinearOperator, ...]:
    """Known operators in their order; a matrix among them takes what the one before it gives.

    The last one gives an image.
    """
    alone = isinstance(given, LinearOperator | Tensor | np.ndarray) or not isinstance(
        given, Sequence
    )
    layers: list[LinearOperator] = []
    given = (given,) if alone else given
    for at, each in enumerate(given):
        if isinstance(each, LinearOperator):
            layers.append(each)
        elif isinstance(each, Tensor | np.ndarray):
            matrix, entries = torch.as_tensor(each), math.prod(shape)
            if matrix.ndim != 2 or matrix.shape[1] != entries:
                raise KoriskError(
                    f"a matrix of the tail behind {shape_text(shape)} must have {entries:,} "
                    f"columns, got shape {tuple(matrix.shape)}; check the order of the tail"
                )
            last = at == len(given) - 1 and len(matrix) == math.prod(image)
            rows = image if last else (len(matrix),)
            layers.append(Matrix(_real(matrix).double(), shape, rows, name=f"B{len(layers) + 1}"))
        else:
            raise KoriskError(
                f"tail must hold LinearOperators or matrices, got {shown(each)}; known operators "
                "are linear"
            )
        shape = tuple(layers[-1].range)
    if not layers:
        raise KoriskError("tail must hold at least one known operator, got none; add it")
    return tuple(layers)


def weights_of(given: Any) -> Tensor:
    """Analytic weights as a tensor."""
    try:
        return torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise KoriskError(
            f"weights must be numbers of an input's shape, got {shown(given)}; convert them first"
        ) from error


def _matrix_of(function: Callable[[Tensor], Tensor], images: Array) -> Matrix:
    """A function of a batch of images as its matrix, if it is linear."""
    shape, pixels = images.shape[1:], math.prod(images.shape[1:])
    if pixels > _LARGEST_CALLED:
        raise KoriskError(
            f"a function of images of {pixels:,} pixels would have to be called for each; give a "
            "LinearOperator, which has an adjoint"
        )
    call, dtype, device = _checked_calls(function)
    # Of the images' size, but not images: blank ones would hide anything.
    size = float(np.sqrt(np.square(images).mean()))
    generator = torch.Generator().manual_seed(0)
    probes = size * torch.randn(2, *shape, generator=generator, dtype=torch.float64)
    probes = probes.to(device, dtype)
    with torch.no_grad():
        first, second = (call(each[None])[0] for each in probes)
        mixed = call((2 * probes[0] - 3 * probes[1])[None])[0]
        off = float((mixed - (2 * first - 3 * second)).abs().max())
        size = float((2 * first).abs().max() + (3 * second).abs().max())
        if not off <= _LINEAR * size or bool(call(torch.zeros_like(probes[:1])).any()):
            raise KoriskError(
                "the operator is not linear: f(2 x - 3 y) differs from 2 f(x) - 3 f(y) by "
                f"{off / max(size, 1e-300):.1%} of its size, or f(0) is not 0; curves before "
                "training are of linear operators: run a pilot instead"
            )
        unit = torch.eye(pixels, dtype=dtype, device=device).reshape(pixels, *shape)
        columns = torch.cat([call(part) for part in torch.split(unit, 256)])
    matrix = columns.reshape(pixels, -1).T.cpu().double()
    return Matrix(matrix, shape, tuple(first.shape), name="A")


def _checked_calls(
    function: Callable[[Tensor], Any],
) -> tuple[Callable[[Tensor], Tensor], torch.dtype, torch.device]:
    """The function with its outputs checked, and in which precision and where it works."""
    weights = function.parameters() if isinstance(function, torch.nn.Module) else iter(())
    place = next(weights, torch.zeros(0, dtype=torch.float64))

    def call(batch: Tensor) -> Tensor:
        try:
            found = function(batch)
        except KoriskError:
            raise
        except Exception as error:  # anything may go wrong in a function of the user's own
            raise KoriskError(
                f"the operator fails on a batch of shape {tuple(batch.shape)}: "
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}; "
                "write it for batches (images, height, width)"
            ) from error
        if not isinstance(found, Tensor) or found.ndim < 2 or len(found) != len(batch):
            got = tuple(found.shape) if isinstance(found, Tensor) else shown(found)
            raise KoriskError(
                f"the operator must give a tensor with one output for each image of a batch, got "
                f"{got} for {len(batch)}; write it for batches (images, height, width)"
            )
        return _real(found)

    return call, place.dtype, place.device


def _real(values: Tensor) -> Tensor:
    if values.is_complex():
        raise KoriskError(
            "the operator gives complex numbers, and layers take real ones; stack real and "
            "imaginary parts"
        )
    return values
