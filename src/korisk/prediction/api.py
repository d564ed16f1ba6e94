"""Learning curves before training: from an operator, a handful of images and the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.operators import Composed, LinearOperator
from korisk.prediction.dense.from_examples import dense_spectrum, moment_of
from korisk.prediction.dense.large_spectrum import resolution_note
from korisk.prediction.dense.moments import LEAST_IMAGES
from korisk.prediction.dense.spectral import Spectrum
from korisk.prediction.misfit import KNOWN_BELIEF
from korisk.prediction.prediction import Prediction
from korisk.prediction.rehearsal import MOST_REHEARSED, Checks, rehearse
from korisk.prediction.user_inputs import Operator, examples_of, tail_of, weights_of
from korisk.prediction.weights.moments import structured_from_pairs
from korisk.problems.examples import Examples
from korisk.problems.noise import Noise
from korisk.problems.problem import Reconstruction

Array = NDArray[np.float64]
Progress = Callable[[float], None]

_BEFORE_THRESHOLD = 0.75  # of the rank: up to there a curve without noise has a meaning
_NO_NOISE = 1e-10  # of the inputs' mean square; less is none
_FEW = 64  # images, below which the words say so
_UNEVEN = 0.18  # deviation of fits to different examples, from which on the words say so
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

    `pilot` is a `Curve` of measured mean squared errors, which correct the theory or replace it.
    `seed` draws the noise. Fewer than eight images, or shapes that do not fit, raise `KoriskError`.

    >>> import korisk as kr
    >>> import numpy as np
    >>> images = np.random.default_rng(0).standard_normal((64, 8))
    >>> made = kr.predict_dense(np.eye(8), images, noise=0.1)
    >>> made.parameters, made.examples, made.errors([32, 128]).shape
    (64, 64, (2,))
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

    `toward` is what a fit shrinks the weights to: "analytic", or "zero". The other arguments, and
    what is raised, are as in `predict_dense`.

    >>> import korisk as kr
    >>> import numpy as np
    >>> images = np.random.default_rng(0).standard_normal((64, 8))
    >>> made = kr.predict_structured(np.eye(8), images, noise=0.1, tail=np.eye(8))
    >>> made.parameters, bool(made.errors(16)[0] >= made.floor)
    (8, True)
    """
    made = examples_of(operator, images, noise, seed=seed)
    layers = tail_of(tail, tuple(made.forward.range), tuple(made.latents.shape[1:]))
    start = torch.ones(layers[0].domain) if weights is None else weights_of(weights)
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
    if checks is not None:
        notes += _rare_features(checks)
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


def _rare_features(checks: Checks) -> list[str]:
    """Where fits to different examples differ a lot, few of them have what matters."""
    spread = np.sqrt(checks.variance)
    if not (spread > _UNEVEN).any():
        return []
    at = int(np.argmax(spread > _UNEVEN))  # the first
    return [
        f"Fits to different {checks.n[at]:.0f} of the examples differ by some {spread[at]:.0%}: "
        "few images have what matters there. From about that N on, until all has been seen, errors "
        "may lie well above the band."
    ]


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
