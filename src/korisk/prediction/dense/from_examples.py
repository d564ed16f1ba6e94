"""The spectrum of a dense layer from examples: by its matrix where that is small."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk.prediction.dense.clipping import clipping
from korisk.prediction.dense.moments import Moment, image_moment
from korisk.prediction.dense.spectral import Spectrum, spectrum
from korisk.problems.examples import Examples

Array = NDArray[np.float64]
Progress = Callable[[float], None]

_LARGEST_INPUTS = 3000  # up to which all eigenvectors take seconds
_LARGEST_MATRIX = 2**26  # entries of A up to which it is made
_CLIPPED = 128  # examples that tell what a ReLU takes off


def moment_of(examples: Examples) -> Moment:
    """The second moment of the images."""
    return image_moment(_array(examples.latents, flat=False))


def dense_spectrum(
    examples: Examples, moment: Moment, *, relu: bool, progress: Progress | None = None
) -> Spectrum:
    """What the learning curve of a dense layer from inputs to targets depends on."""
    inputs = math.prod(examples.forward.range)
    pixels = math.prod(examples.forward.domain)
    if inputs > _LARGEST_INPUTS or inputs * pixels > _LARGEST_MATRIX:
        from korisk.prediction.dense.large_spectrum import large_spectrum

        return large_spectrum(examples, moment, relu=relu, progress=progress)
    forward = _array(examples.forward.as_matrix(), flat=False)
    seen = moment.apply(forward).T  # S A^T
    cross, energies = seen, moment.energies
    if examples.wanted is not None:
        wanted = _array(examples.wanted.as_matrix(), flat=False)
        cross, energies = wanted @ seen, (wanted * moment.apply(wanted)).sum(axis=1)
    noisy = forward @ seen
    noisy[np.diag_indices(inputs)] += _array(examples.noise).ravel()
    made, vectors = spectrum(
        noisy,
        cross,
        float(energies.sum()),
        scales=brightness(examples),
        parameters=inputs * len(cross),
    )
    if relu:
        chosen = slice(_CLIPPED)
        samples, targets = _array(examples.inputs)[chosen], _array(examples.targets)[chosen]
        made = replace(made, gain=clipping(made, vectors, cross, energies, samples, targets))
    return made


def brightness(examples: Examples) -> Array:
    """(n,) the mean square of every example's input, without the noise that all have."""
    squares = _array(examples.forward(examples.latents))
    return np.asarray(np.square(squares).mean(axis=1))


def _array(tensor: Tensor, *, flat: bool = True) -> Array:
    """In NumPy's float64; (n, ...) as (n, entries) where asked for."""
    values = tensor.detach().to("cpu", torch.float64).numpy()
    return np.asarray(values.reshape(len(values), -1) if flat else values)
