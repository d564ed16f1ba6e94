"""Learning curves before training, from an operator, a handful of images and the noise.

`predict_dense` and `predict_structured` take what a user has. They make examples of it,
compute a theory from them (`dense`, `weights`), and return a `Prediction`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from korisk import _checks
from korisk._checks import require
from korisk.curves.curve import Curve
from korisk.errors import Argument, KoriskError, invalid, shown
from korisk.operators import LinearOperator, Matrix
from korisk.operators.inputs import shape_text
from korisk.prediction.dense.from_examples import (
    NO_NOISE,
    Progress,
    dense_spectrum,
    matched_moment,
    resolution_note,
    to_array,
)
from korisk.prediction.dense.moments import image_moment
from korisk.prediction.independent import Independence, independence, relative_error
from korisk.prediction.misfit import KNOWN_BELIEF, MOST_REHEARSED, NOTHING_MEASURED, rehearse
from korisk.prediction.prediction import Prediction
from korisk.prediction.weights import Toward, structured_from_pairs
from korisk.problems.noise import Gaussian, Noise, Poisson, add_noise, noise_variance
from korisk.problems.problem import Examples, Reconstruction

Array = NDArray[np.float64]
Shape = tuple[int, ...]
Operator = LinearOperator | Tensor | NDArray[np.generic] | Callable[[Tensor], Tensor]

_OPERATORS = "be a LinearOperator, a matrix or a function"  # what an operator must be
# Limits of what a user gives.
LARGEST_VALUE = 1e60  # of images and inputs: fourth powers are summed
_LARGEST_CALLED = 4096  # pixels up to which the matrix of a function is computed
_LINEAR = 1e-3  # relative deviation from linearity that float32 explains
_LEAST_IMAGES = 8
# The theory.
_BEFORE_THRESHOLD = 0.75  # share of the rank up to which a curve without noise holds
# Relative deviation of curves between patients or groups of copies, times the root of their number.
_OF_GROUPS = {"FC": 0.4, "KO": 0.2}
# Thresholds of the notes.
_FEW = 64  # images
_UNEVEN = 0.18  # relative deviation of fits to different examples
_OFF = 1.3  # factor between theory and rehearsal


def examples_of(
    operator: Operator,
    images: ArrayLike | Tensor,
    noise: float | Noise | None = None,
    *,
    seed: int = 0,
    patients: Sequence[object] | None = None,
) -> Examples:
    """Examples of a user's operator, images and noise."""
    try:
        values = np.asarray(images.detach().cpu() if isinstance(images, Tensor) else images)
        values = np.zeros(0) if np.iscomplexobj(values) else np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        values = np.zeros(0)
    if values.ndim not in (2, 3):
        rule = "be real numbers in an array (images, height, width), all of one size"
        raise invalid("images", rule, getattr(images, "shape", images), "convert and stack them")
    # Checked image by image, so that the error can name one.
    finite = np.isfinite(values.reshape(len(values), math.prod(values.shape[1:]))).all(axis=1)
    if not finite.all():
        raise KoriskError(
            f"image {int(np.argmin(finite))} contains NaN or infinities; leave it out or repair it"
        )
    largest = float(np.abs(values).max(initial=0.0))
    least, rule = 1 / LARGEST_VALUE, f"from {1 / LARGEST_VALUE:g} to {LARGEST_VALUE:g}"
    if not least <= largest <= LARGEST_VALUE:
        remedy, got = "scale them, or bring images that are not empty", f"{largest:.3g}"
        raise invalid("images", f"have a largest value {rule}", largest, remedy, got=got)
    if isinstance(operator, LinearOperator):
        forward = operator
    elif isinstance(operator, Tensor | np.ndarray):
        forward = _matrix(operator, values.shape[1:])
    elif callable(operator):
        forward = _matrix_of(operator, values)
    else:
        raise invalid("operator", _OPERATORS, operator, "see korisk.operators")
    if values.shape[1:] != forward.domain:
        rule = f"have the operator's shape {shape_text(forward.domain)}"
        remedy = "resample them or build the operator for their size"
        raise invalid("images", rule, values, remedy, got=shape_text(values.shape[1:]))
    kind: object = noise
    if not isinstance(kind, bool) and isinstance(kind, Real):
        kind = Gaussian(float(kind)) if kind else None
    if not (kind is None or isinstance(kind, Gaussian | Poisson)):
        rule = "be a level such as 0.02, Gaussian(level) or Poisson(photons)"
        raise invalid("noise", rule, noise, "leave it out for none")
    # Inputs with noise, and the variance of that noise: the theory needs both apart.
    latents = torch.from_numpy(values).to(forward.device, forward.dtype)
    clean, width = forward(latents), float(values.shape[-1])
    inputs = clean
    if kind is not None:
        inputs = add_noise(clean, kind, width=width, seed=seed, stream="examples noise")
    variance = noise_variance(clean, kind, width=width)
    labels = None if patients is None else tuple(str(patient) for patient in patients)
    if labels is not None:
        rule = f"name the patient of each of {len(values):,} images"
        remedy = "leave it out if every image is of a patient of its own"
        require(len(labels) == len(values), "patients", rule, len(labels), remedy)
    return Examples(latents, forward, None, inputs, latents, variance, labels)


def tail_of(tail: Any, shape: Shape, image: Shape) -> tuple[LinearOperator, ...]:
    """The known operators in order, checked: from inputs of `shape` to an `image`.

    A matrix among them takes the output of the one before it.
    """
    # A single operator is also accepted; an array is a sequence too, but one matrix.
    alone = isinstance(tail, LinearOperator | Tensor | np.ndarray) or not isinstance(tail, Sequence)
    every = (tail,) if alone else tail
    first = shape
    layers: list[LinearOperator] = []
    for index, layer in enumerate(every):
        if isinstance(layer, LinearOperator):
            layers.append(layer)
        elif isinstance(layer, Tensor | np.ndarray):
            last = index == len(every) - 1 and len(layer) == math.prod(image)
            layers.append(_matrix(layer, shape, image if last else None))
        else:
            rule = "contain LinearOperators or matrices"
            raise invalid("tail", rule, layer, "known operators are linear")
        shape = tuple(layers[-1].range)
    domain = tuple(layers[0].domain) if layers else ()
    rule = f"map inputs {first} to images {image}"
    got = f"{len(layers)} operators from {domain} to {shape}"
    fits = (domain, shape) == (first, image)
    require(fits, "tail", rule, tail, "check them and their order", got=got)
    return tuple(layers)


def weights_of(weights: ArrayLike | Tensor | None, shape: Shape) -> Tensor:
    """Analytic weights as a tensor; ones where they are None."""
    try:
        tensor = torch.ones(shape) if weights is None else torch.as_tensor(weights).detach()
    except (TypeError, ValueError, RuntimeError):
        tensor = torch.full(shape, math.nan)
    if tuple(tensor.shape) != shape or not bool(torch.isfinite(tensor).all()):
        rule = f"be finite numbers of an input's shape {shape_text(shape)}"
        got = f"{shown(weights)} of shape {shape_text(tuple(tensor.shape))}"
        raise invalid("weights", rule, weights, "one for each entry", got=got)
    return tensor


def _matrix(
    values: Tensor | NDArray[np.generic], domain: Shape, range_: Shape | None = None
) -> Matrix:
    matrix = torch.as_tensor(values)
    real = matrix if matrix.is_complex() else matrix.double()  # `Matrix` refuses complex numbers
    return Matrix(real, domain, range_ or (len(matrix),))


def _matrix_of(function: Callable[[Tensor], Any], images: Array) -> Matrix:
    """The matrix of a function of batches of images; raise if it is not linear."""
    shape, pixels = images.shape[1:], math.prod(images.shape[1:])
    if pixels > _LARGEST_CALLED:
        raise KoriskError(
            f"operator is a function of {pixels:,} pixels, which would be called for each of them; "
            "give a LinearOperator, which has an adjoint"
        )
    weights = function.parameters() if isinstance(function, torch.nn.Module) else iter(())
    place = next(weights, torch.zeros(0, dtype=torch.float64))

    def call(batch: Tensor) -> Tensor:
        outputs = function(batch)
        tensor = isinstance(outputs, Tensor) and not outputs.is_complex()
        if not tensor or outputs.ndim < 2 or len(outputs) != len(batch):
            rule = "give a real tensor with one output for each image of a batch"
            got = f"{shown(getattr(outputs, 'shape', outputs))} for {len(batch)}"
            remedy = "write it for batches (images, height, width), and stack real and imaginary"
            raise invalid("operator", rule, outputs, f"{remedy} parts", got=got)
        return torch.as_tensor(outputs)

    # Probes of the images' size, but random: a blank image would hide a nonlinearity.
    size = float(np.sqrt(np.square(images).mean()))
    generator = torch.Generator().manual_seed(0)
    probes = size * torch.randn(2, *shape, generator=generator, dtype=torch.float64)
    probes = probes.to(place.device, place.dtype)
    with torch.no_grad():
        first, second = (call(probe[None])[0] for probe in probes)
        mixed = call((2 * probes[0] - 3 * probes[1])[None])[0]
        off = float((mixed - (2 * first - 3 * second)).abs().max())
        size = float((2 * first).abs().max() + (3 * second).abs().max())
        if not off <= _LINEAR * size or bool(call(torch.zeros_like(probes[:1])).any()):
            raise KoriskError(
                "operator is not linear: f(2 x - 3 y) differs from 2 f(x) - 3 f(y) by "
                f"{off / max(size, 1e-300):.1%} of its size, or f(0) is not 0; predictions need a "
                "linear operator: run a pilot instead"
            )
        # Column by column: the images of unit vectors.
        unit = torch.eye(pixels, dtype=place.dtype, device=place.device).reshape(pixels, *shape)
        columns = torch.cat([call(batch) for batch in torch.split(unit, 256)])
    matrix = columns.reshape(pixels, -1).T.cpu().double()
    return Matrix(matrix, shape, tuple(first.shape))


def predict_dense(
    operator: Operator,
    images: ArrayLike | Tensor,
    noise: float | Noise | None = None,
    *,
    relu: bool = False,
    pilot: Curve | None = None,
    rehearsal: bool = True,
    seed: int = 0,
    patients: Sequence[object] | None = None,
) -> Prediction:
    """Predict the learning curve of a dense layer from operator(image) + noise to the image.

    Parameters
    ----------
    operator : LinearOperator, array of shape (inputs, pixels), or callable
        The measurement: an operator, a matrix, or a linear function of a batch of images.
    images : array_like of shape (n, h, w) or (n, h)
        Example images, at least 8; 64 give a first idea, 256 a good one.
    noise : float, Gaussian or Poisson, optional
        A level relative to each input's root mean square, or a kind of noise. Default: none.
    relu : bool, default False
        Whether a ReLU follows the layer.
    pilot : Curve, optional
        Measured mean squared errors, which correct the theory or replace it.
    rehearsal : bool, default True
        Fit the layer to some of the examples to see how far the theory is off at small N.
    seed : int, default 0
        Random seed of the noise.
    patients : sequence of length n, optional
        Whose image each is, from two patients on. Default: every image is independent of all
        others; near-copies are looked for, from 16 x 16 pixels on.

    Returns
    -------
    Prediction
        The curve, in mean squared errors of a pixel.

    Raises
    ------
    KoriskError
        If there are fewer than eight images or a single patient, shapes do not fit, or the operator
        is not linear.

    Examples
    --------
    >>> import korisk as kr
    >>> import numpy as np
    >>> images = np.random.default_rng(0).standard_normal((64, 8))
    >>> made = kr.prediction.predict_dense(np.eye(8), images, noise=0.1)
    >>> made.parameters, made.examples, made.errors([32, 128]).shape
    (64, 64, (2,))
    """
    examples = examples_of(operator, images, noise, seed=seed, patients=patients)
    return dense_prediction(examples, relu=relu, pilot=pilot, rehearsal=rehearsal)


def predict_structured(
    operator: Operator,
    images: ArrayLike | Tensor,
    noise: float | Noise | None = None,
    *,
    tail: LinearOperator | Array | Tensor | Sequence[LinearOperator | Array | Tensor],
    weights: ArrayLike | Tensor | None = None,
    toward: Toward = "analytic",
    relu: bool = False,
    pilot: Curve | None = None,
    seed: int = 0,
    patients: Sequence[object] | None = None,
) -> Prediction:
    """Predict the learning curve of weights w in tail(w x), x = operator(image) + noise.

    Parameters
    ----------
    operator : LinearOperator, array of shape (inputs, pixels), or callable
        The measurement: an operator, a matrix, or a linear function of a batch of images.
    images : array_like of shape (n, h, w) or (n, h)
        Example images, at least 8; 64 give a first idea, 256 a good one.
    noise : float, Gaussian or Poisson, optional
        A level relative to each input's root mean square, or a kind of noise. Default: none.
    tail : LinearOperator, matrix, or sequence of them
        The known operators behind the weights, in the order in which they are applied.
    weights : array_like of an input's shape, optional
        Analytic weights that training starts from. Default: ones.
    toward : {"analytic", "zero"}, default "analytic"
        What a fit shrinks the weights to.
    relu : bool, default False
        Whether a ReLU follows the tail.
    pilot : Curve, optional
        Measured mean squared errors, which correct the theory or replace it.
    seed : int, default 0
        Random seed of the noise.
    patients : sequence of length n, optional
        Whose image each is, from two patients on. Default: every image is independent of all
        others; near-copies are looked for, from 16 x 16 pixels on.

    Returns
    -------
    Prediction
        The curve, in mean squared errors of a pixel.

    Raises
    ------
    KoriskError
        As in `predict_dense`, and if tail or weights do not fit the inputs.

    Examples
    --------
    >>> import korisk as kr
    >>> import numpy as np
    >>> images = np.random.default_rng(0).standard_normal((64, 8))
    >>> made = kr.prediction.predict_structured(np.eye(8), images, noise=0.1, tail=np.eye(8))
    >>> made.parameters, bool(made.errors(16)[0] >= made.floor)
    (8, True)
    """
    _checks.one_of("toward", toward, ("analytic", "zero"))
    examples = examples_of(operator, images, noise, seed=seed, patients=patients)
    layers = tail_of(tail, tuple(examples.forward.range), tuple(examples.latents.shape[1:]))
    start = weights_of(weights, layers[0].domain).to(layers[0].device, layers[0].dtype)
    reconstruction = Reconstruction(start, layers)
    return known_prediction(examples, reconstruction, toward=toward, relu=relu, pilot=pilot)


def dense_prediction(
    examples: Examples,
    *,
    relu: bool,
    pilot: Curve | None = None,
    rehearsal: bool = True,
    progress: Progress | None = None,
) -> Prediction:
    """The curve of the dense layer, from examples."""
    _check(examples)
    # How many independent images the examples are worth, and which of them belong together.
    alone = independence(to_array(examples.latents), examples.patients)
    groups = None if alone.groups is None else alone.groups[:MOST_REHEARSED]
    moment = image_moment(to_array(examples.latents), independent=alone.number)
    # Fits to some of the examples, judged on the others, correct the moment and later the curve.
    checks = NOTHING_MEASURED
    if rehearsal:
        some = (to_array(tensor[:MOST_REHEARSED]) for tensor in (examples.inputs, examples.targets))
        checks = rehearse(*some, relu=relu, groups=groups)
        moment = matched_moment(examples, moment, groups, None if relu else checks)
    theory = dense_spectrum(examples, moment, relu=relu, progress=progress)
    energies = to_array(examples.latents.double().flatten(1).square().sum(1))
    level = relative_error(energies, alone.groups)
    notes = [*_few_images(len(examples), level), *alone.notes]
    level = _with_groups(max(level, checks.level), alone, "FC")
    clean = float(examples.forward(examples.latents[:_FEW]).double().square().mean())
    # Without noise a dense layer interpolates once N reaches the rank of its inputs.
    valid_to = math.inf
    if float(examples.noise.max()) <= NO_NOISE * clean:
        valid_to = max(2.0, _BEFORE_THRESHOLD * theory.rank)
        rank, inputs_ = round(theory.rank), math.prod(examples.forward.range)
        notes.append(
            f"There is no noise: inputs have rank {rank:,} of {inputs_:,} inputs, and the dense "
            f"layer interpolates from about N = {rank:,} on. Beyond N = {valid_to:,.0f} the "
            "computed fall assumes images without rare features; it is the best case, and levels "
            f"off at {theory.floor:.3g}, what the operator does not see of the images."
        )
    notes += resolution_note(theory, 2.0 ** np.arange(2, 15))
    if len(checks):
        spread = np.sqrt(checks.variance)
        if (spread > _UNEVEN).any():
            uneven = int(np.argmax(spread > _UNEVEN))  # the first
            notes.append(
                f"Fits to different {checks.n[uneven]:.0f} of the examples differ by some "
                f"{spread[uneven]:.0%}: few images have the features that matter there. From about "
                "that N on, until all of them have been seen, errors may lie well above the band."
            )
        # Where theory and rehearsal differ by more than the noise of the rehearsal explains.
        ratios = theory.errors(checks.n) / np.exp(checks.log_error)
        clear = np.abs(np.log(ratios)) > 2 * spread + math.log(_OFF)
        where = np.flatnonzero(clear & (checks.n <= valid_to))
        if len(where):
            notes.append(
                f"Fitted to {checks.n[where[-1]]:.0f} of the examples and tested on others, the "
                f"layer's error is {1 / ratios[where[-1]]:.2g} times the computed one: the theory "
                "does not fit these images well, and the band is wider for it."
            )
    return Prediction(
        theory,
        "FC",
        len(examples),
        level=level,
        independent=alone.number,
        rehearsal=checks,
        pilot=pilot,
        notes=tuple(notes),
        valid_to=valid_to,
    )


def known_prediction(
    examples: Examples,
    reconstruction: Reconstruction,
    *,
    toward: Toward = "analytic",
    relu: bool = False,
    pilot: Curve | None = None,
    progress: Progress | None = None,
) -> Prediction:
    """The curve of learned weights in front of known operators, from examples."""
    _check(examples)
    pairs = examples.inputs, examples.targets
    alone = independence(to_array(examples.latents), examples.patients)
    # No rehearsal: the theory corrects the optimism of its fit by leverages or by halves.
    theory = structured_from_pairs(
        reconstruction, *pairs, toward=toward, relu=relu, groups=alone.groups, progress=progress
    )
    return Prediction(
        theory,
        "KO",
        len(examples),
        level=_with_groups(theory.spread, alone, "KO"),
        independent=alone.number,
        pilot=pilot,
        notes=(*_few_images(len(examples), theory.spread), *alone.notes),
        valid_from=theory.holds_from,
        belief=KNOWN_BELIEF,
    )


def _with_groups(level: float, examples: Independence, model: str) -> float:
    """A relative error of the level, with the deviation between groups of examples added to it."""
    if examples.groups is None:
        return level
    return math.hypot(level, _OF_GROUPS[model] / math.sqrt(examples.groups.max() + 1))


def _check(examples: Examples) -> None:
    """Raise if examples are too few, empty, or too large to be squared."""
    if len(examples) < _LEAST_IMAGES:
        raise KoriskError(
            f"a prediction needs at least {_LEAST_IMAGES} example images, got {len(examples)}; "
            "64 give a first idea, 256 a good one"
        )
    if examples.patients is not None and len(set(examples.patients)) == 1:
        raise KoriskError(
            f"a prediction needs images of two patients or more, got {len(examples):,} images of "
            f"one, {shown(examples.patients[0])}: nothing says how others differ; add patients, or "
            "read images with ",
            Argument("patients", "file"),
            " or ",
            Argument("patients", "image"),
            " if every file or image is a patient of its own",
        )
    # Energies are sums of squares, which must not overflow in the operator's precision.
    for name, values in (("inputs", examples.inputs), ("targets", examples.targets)):
        largest = float(values.abs().max())
        squared = float(values.square().sum())
        if not (0 < largest <= LARGEST_VALUE and math.isfinite(squared)):
            raise KoriskError(
                f"{name} of this problem must be finite numbers that {values.dtype} can square, "
                f"not all zero, got values up to {largest:.3g}; bring images, operator and noise "
                "to a reasonable size"
            )


def _few_images(number: int, level: float) -> list[str]:
    """A note if there are too few images, or too similar ones, to know the size of errors."""
    if level < 1e-6:
        return [
            f"All {number} images are equally bright: copies of each other give too good a curve; "
            "bring images that differ as those to come will."
        ]
    if number >= _FEW or level < 0.005:
        return []
    return [
        f"{number} images leave the errors' size uncertain by some {level:.0%} alone; "
        f"{_FEW} or more are better."
    ]
