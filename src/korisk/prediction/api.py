"""Learning curves before training, from an operator, a handful of images and the noise.

`predict_dense` and `predict_structured` take what a user has. They make examples of it
(`user_inputs`), compute a theory from them (`dense`, `weights`), and return a `Prediction`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from korisk import _checks
from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.operators import LinearOperator
from korisk.prediction import user_inputs
from korisk.prediction.dense.from_examples import (
    Progress,
    dense_spectrum,
    resolution_note,
    to_array,
)
from korisk.prediction.dense.moments import image_moment
from korisk.prediction.misfit import KNOWN_BELIEF, MOST_REHEARSED, NOTHING_MEASURED, rehearse
from korisk.prediction.prediction import Prediction
from korisk.prediction.weights.from_examples import Toward, structured_from_pairs
from korisk.problems.noise import Noise
from korisk.problems.problem import Examples, Reconstruction

Array = NDArray[np.float64]

_LEAST_IMAGES = 8
_BEFORE_THRESHOLD = 0.75  # of the rank: up to there a curve without noise holds
_NO_NOISE = 1e-10  # of the inputs' mean square; less counts as no noise
_FEW = 64  # images, below which a note says so
_UNEVEN = 0.18  # deviation of fits to different examples, from which on a note says so
_OFF = 1.3  # factor between theory and rehearsal from which on a note says so


def predict_dense(
    operator: user_inputs.Operator,
    images: Any,
    noise: float | Noise | None = None,
    *,
    relu: bool = False,
    pilot: Curve | None = None,
    rehearsal: bool = True,
    seed: int = 0,
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

    Returns
    -------
    Prediction
        The curve, in mean squared errors of a pixel.

    Raises
    ------
    KoriskError
        If there are fewer than eight images, shapes do not fit, or the operator is not linear.

    Examples
    --------
    >>> import korisk as kr
    >>> import numpy as np
    >>> images = np.random.default_rng(0).standard_normal((64, 8))
    >>> made = kr.predict_dense(np.eye(8), images, noise=0.1)
    >>> made.parameters, made.examples, made.errors([32, 128]).shape
    (64, 64, (2,))
    """
    made = user_inputs.examples_of(operator, images, noise, seed=seed)
    return dense_prediction(made, relu=relu, pilot=pilot, rehearsal=rehearsal)


def predict_structured(
    operator: user_inputs.Operator,
    images: Any,
    noise: float | Noise | None = None,
    *,
    tail: LinearOperator | Array | Tensor | Sequence[LinearOperator | Array | Tensor],
    weights: Any = None,
    toward: Toward = "analytic",
    relu: bool = False,
    pilot: Curve | None = None,
    seed: int = 0,
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
    >>> made = kr.predict_structured(np.eye(8), images, noise=0.1, tail=np.eye(8))
    >>> made.parameters, bool(made.errors(16)[0] >= made.floor)
    (8, True)
    """
    _checks.one_of("toward", toward, ("analytic", "zero"))
    made = user_inputs.examples_of(operator, images, noise, seed=seed)
    layers = user_inputs.tail_of(tail, tuple(made.forward.range), tuple(made.latents.shape[1:]))
    start = user_inputs.weights_of(weights, layers[0].domain).to(layers[0].device, layers[0].dtype)
    found = Reconstruction(start, layers)
    return known_prediction(made, found, toward=toward, relu=relu, pilot=pilot)


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
    moment = image_moment(to_array(examples.latents))
    theory = dense_spectrum(examples, moment, relu=relu, progress=progress)
    checks = NOTHING_MEASURED
    if rehearsal:
        some = (to_array(part[:MOST_REHEARSED]) for part in (examples.inputs, examples.targets))
        checks = rehearse(*some, relu=relu)
    notes = _few_images(len(examples), moment.uncertainty)
    clean = float(examples.forward(examples.latents[:_FEW]).double().square().mean())
    valid_to = math.inf
    if float(examples.noise.max()) <= _NO_NOISE * clean:
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
            at = int(np.argmax(spread > _UNEVEN))  # the first
            notes.append(
                f"Fits to different {checks.n[at]:.0f} of the examples differ by some "
                f"{spread[at]:.0%}: few images have the features that matter there. From about "
                "that N on, until all of them have been seen, errors may lie well above the band."
            )
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
        level=moment.uncertainty,
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
    theory = structured_from_pairs(
        reconstruction, *pairs, toward=toward, relu=relu, progress=progress
    )
    return Prediction(
        theory,
        "KO",
        len(examples),
        level=theory.spread,
        pilot=pilot,
        notes=tuple(_few_images(len(examples), theory.spread)),
        valid_from=theory.holds_from,
        belief=KNOWN_BELIEF,
    )


def _check(examples: Examples) -> None:
    """Raise where examples are too few, empty, or too large to be squared."""
    if len(examples) < _LEAST_IMAGES:
        raise KoriskError(
            f"a prediction needs at least {_LEAST_IMAGES} example images, got {len(examples)}; "
            "64 give a first idea, 256 a good one"
        )
    for name, values in (("inputs", examples.inputs), ("targets", examples.targets)):
        largest = float(values.abs().max())
        squared = float(values.square().sum())
        if not (0 < largest <= user_inputs.LARGEST_VALUE and math.isfinite(squared)):
            raise KoriskError(
                f"{name} of this problem must be finite numbers that {values.dtype} can square, "
                f"not all zero, got values up to {largest:.3g}; bring images, operator and noise "
                "to a reasonable size"
            )


def _few_images(number: int, level: float) -> list[str]:
    """A note where images are too few or too much alike to know the size of the errors."""
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
