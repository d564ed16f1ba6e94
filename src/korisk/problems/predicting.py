"""Learning curves before training: from an operator, a handful of images and the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk.curves.curve import Curve
from korisk.curves.misfit import KNOWN_BELIEF
from korisk.curves.moments import LEAST_IMAGES, checked_images
from korisk.curves.prediction import Prediction
from korisk.curves.rehearsal import MOST_REHEARSED, Checks, rehearse
from korisk.curves.spectral import Spectrum
from korisk.errors import KoriskError, shown
from korisk.operators import Composed, LinearOperator, Matrix
from korisk.operators.linear import shape_text
from korisk.problems.dense_moments import dense_spectrum, moment_of
from korisk.problems.examples import Examples
from korisk.problems.large_spectrum import resolution_note
from korisk.problems.noise import Gaussian, Noise, Poisson, add_noise, noise_variance
from korisk.problems.problem import Reconstruction
from korisk.problems.structured_moments import structured_from_pairs

Array = NDArray[np.float64]
Operator = LinearOperator | Tensor | NDArray[Any] | Callable[[Tensor], Tensor]
Progress = Callable[[float], None]

_LARGEST_CALLED = 4096  # pixels of operators that are only a function: their matrix is made
_LINEAR = 1e-3  # relative, as float32 leaves it
_BEFORE_THRESHOLD = 0.75  # of the rank: up to there a curve without noise has a meaning
_NO_NOISE = 1e-10  # of the inputs' mean square; less is none
_FEW = 64  # images, below which the words say so
_OFF = 1.3  # factor between theory and rehearsal from which on the words say so


def predict_dense(
    operator: Operator,
    images: Any,
    noise: float | Noise | None = None,
    *,
    relu: bool = False,
    pilot: Curve | None = None,
    rehearsal: bool = True,
    seed: int = 0,
) -> Prediction:
    """The learning curve of a dense layer from operator(image) + noise to the image.

    `operator` is a `LinearOperator`, a matrix (inputs, pixels), or a linear function of a batch of
    images; `images` (n, h, w) or (n, h) are examples, 256 or so; `noise` is a level relative to
    each input's root mean square, or a `Gaussian` or `Poisson`. With `relu` a ReLU follows. A
    `rehearsal` on the examples themselves tells how far the theory is off at small N.
    """
    made = examples_of(operator, images, noise, seed=seed)
    return dense_prediction(made, relu=relu, pilot=pilot, rehearsal=rehearsal)


def predict_structured(
    operator: Operator,
    images: Any,
    noise: float | Noise | None = None,
    *,
    tail: LinearOperator | Array | Tensor | Sequence[LinearOperator | Array | Tensor],
    weights: Any = None,
    toward: Literal["analytic", "zero"] = "analytic",
    relu: bool = False,
    pilot: Curve | None = None,
    seed: int = 0,
) -> Prediction:
    """The learning curve of weights w in tail(w x), x = operator(image) + noise.

    `tail` holds the known operators behind the weights, in order; `weights`, of an input's shape,
    are the analytic ones that training starts from, ones where they are None.
    """
    made = examples_of(operator, images, noise, seed=seed)
    layers = _tail(tail, tuple(made.forward.range), tuple(made.latents.shape[1:]))
    start = torch.ones(layers[0].domain) if weights is None else _weights(weights)
    analytic = start.detach().to(layers[0].device, layers[0].dtype)
    found = Reconstruction(analytic, layers)
    return known_prediction(made, found, toward=toward, relu=relu, pilot=pilot)


# --- From examples -------------------------------------------------------------------------------


def dense_prediction(
    examples: Examples,
    *,
    relu: bool,
    pilot: Curve | None = None,
    rehearsal: bool = True,
    progress: Progress | None = None,
) -> Prediction:
    """The curve of the dense layer."""
    _check_number(examples)
    moment = moment_of(examples)
    theory = dense_spectrum(examples, moment, relu=relu, progress=progress)
    checks = _rehearsed(examples, relu) if rehearsal else None
    clean = float(examples.forward(examples.latents[:_FEW]).double().square().mean())
    noiseless = float(examples.noise.max()) <= _NO_NOISE * clean
    valid = max(2.0, _BEFORE_THRESHOLD * theory.rank) if noiseless else math.inf
    made = Prediction(
        theory,
        "FC",
        len(examples),
        level=moment.uncertainty,
        rehearsal=checks,
        notes=tuple(_notes(examples, theory, moment.uncertainty, checks, valid)),
        valid_to=valid,
    )
    return made if pilot is None else made.with_pilot(pilot)


def known_prediction(
    examples: Examples,
    reconstruction: Reconstruction,
    *,
    toward: Literal["analytic", "zero"] = "analytic",
    relu: bool = False,
    gram: Tensor | None = None,
    pilot: Curve | None = None,
    progress: Progress | None = None,
) -> Prediction:
    """The curve of learned weights in front of known operators."""
    _check_number(examples)
    tail = Composed(reconstruction.tail)
    theory = structured_from_pairs(
        tail,
        reconstruction.weights,
        examples.inputs.to(tail.device, tail.dtype),
        examples.targets.to(tail.device, tail.dtype),
        toward=toward,
        relu=relu,
        gram=gram,
        progress=progress,
    )
    notes = _few_images(len(examples), theory.spread.floor)
    made = Prediction(
        theory,
        "KO",
        len(examples),
        level=theory.spread.floor,
        notes=tuple(notes),
        valid_from=theory.holds_from,
        belief=KNOWN_BELIEF,
    )
    return made if pilot is None else made.with_pilot(pilot)


def _rehearsed(examples: Examples, relu: bool) -> Checks:
    inputs, targets = (
        part[:MOST_REHEARSED].detach().to("cpu", torch.float64).numpy()
        for part in (examples.inputs, examples.targets)
    )
    return rehearse(inputs, targets, relu=relu)


def _check_number(examples: Examples) -> None:
    if len(examples) < LEAST_IMAGES:
        raise KoriskError(
            f"a prediction needs at least {LEAST_IMAGES} example images, got {len(examples)}; "
            "64 give a first idea, 256 a good one"
        )


# --- What users bring ----------------------------------------------------------------------------


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


def _tail(given: Any, shape: tuple[int, ...], image: tuple[int, ...]) -> tuple[LinearOperator, ...]:
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


def _weights(given: Any) -> Tensor:
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


# --- Words ---------------------------------------------------------------------------------------


def _notes(
    examples: Examples, theory: Spectrum, level: float, checks: Checks | None, valid: float
) -> list[str]:
    notes = _few_images(len(examples), level)
    inputs = math.prod(examples.forward.range)
    rank = round(theory.rank)
    if math.isfinite(valid):
        seen = f"rank {rank:,} of {inputs:,} inputs"
        notes.append(
            f"There is no noise: inputs have {seen}, and the dense layer interpolates from about "
            f"N = {rank:,} on. Beyond N = {valid:,.0f} the computed fall rests on images having "
            "no rare features; take it for the best case."
        )
        if theory.rest > 1e-9 * theory.energy:
            notes.append(
                "The operator does not see all of the image: without noise the error still levels "
                f"off at {theory.floor:.3g}."
            )
    unsure = resolution_note(theory, 2.0 ** np.arange(2, 15))
    if unsure is not None:
        notes.append(unsure)
    if checks is not None and len(checks):
        kept = checks.n <= valid
        ratios = theory.errors(checks.n) / np.exp(checks.log_error)
        clear = np.abs(np.log(ratios)) > 2 * np.sqrt(checks.variance) + math.log(_OFF)
        if (clear & kept).any():
            at = int(np.flatnonzero(clear & kept)[-1])
            notes.append(
                f"Fitted to {checks.n[at]:.0f} of the examples and judged on others, the layer "
                f"errs {1 / ratios[at]:.2g} times as much as computed: the theory does not fit "
                "these images well, and the band is wider for it."
            )
    return notes


def _few_images(number: int, level: float) -> list[str]:
    if level < 1e-6:
        return [
            f"All {number} images are equally bright: copies of each other tell too good a curve; "
            "bring images that differ as those to come will."
        ]
    if number >= _FEW or level < 0.005:
        return []
    return [
        f"{number} images leave the errors' size uncertain by some {level:.0%} alone; "
        f"{_FEW} or more are better."
    ]
