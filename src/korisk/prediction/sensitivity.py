"""How far a rehearsal's answer rests on what was assumed: the noise, the brightness, the operator.

The network is rehearsed again at a few small N, with the same images and seeds, for pairs that were
simulated in another way. Small N are enough: what is wanted is by how much the errors change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, kron
from torch import Tensor, nn

from korisk.errors import invalid
from korisk.operators.adapters import from_scipy
from korisk.operators.linear import LinearOperator
from korisk.prediction.rehearsal.callbacks import Callbacks, Progress
from korisk.prediction.rehearsal.rehearsal import Change
from korisk.prediction.rehearsal.rehearse import rehearse
from korisk.prediction.rehearsal.simulation import LEAST_EXAMPLES, Noisy, Training
from korisk.problems.noise import Gaussian, Noise, Poisson
from korisk.problems.problem import Problem

Array = NDArray[np.float64]

SIZES = (8, 16, 32)
_BRIGHTER = 1.25
_WRONG = 0.01  # by which the true image is larger than the operator takes it for


def sensitivity(
    build: Callable[[], nn.Module],
    operator: LinearOperator | Problem,
    images: ArrayLike | Tensor | None = None,
    noise: Noise | Noisy | float | None = None,
    seeds: int | Sequence[int] = 3,
    *,
    patients: Sequence[str] | None = None,
    training: Training | None = None,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> tuple[Change, ...]:
    """Change of the errors with half and twice the noise, brighter images, a wrong operator."""
    scan: Any = operator
    if isinstance(operator, Problem):
        recipe = training or Training()
        drawn = operator.examples(seed=0, count=recipe.examples, device=recipe.device)
        scan, noise = drawn.forward, getattr(operator, "noise", noise)
        if images is None:
            images, patients = drawn.latents, drawn.patients
    if images is None:
        raise invalid("images", "be given", images, f"give {LEAST_EXAMPLES} examples or more")
    pictures = torch.as_tensor(images)
    cases: list[tuple[str, LinearOperator, Tensor, Any]] = [("", scan, pictures, noise)]
    if noise is not None:
        cases += [(f"noise x {f:g}", scan, pictures, _scaled(noise, f)) for f in (0.5, 2.0)]
    cases.append((f"brightness x {_BRIGHTER:g}", scan, _BRIGHTER * pictures, noise))
    if len(scan.domain) == 2:
        larger = from_scipy(
            _magnified(scan.domain, 1 + _WRONG), scan.domain, scan.domain, name="magnified"
        )
        wrong = scan @ larger.to(scan.device, scan.dtype)
        cases.append((f"operator {_WRONG:.0%} wrong", wrong, pictures, noise))
    shared: dict[str, Any] = {"patients": patients, "training": training, "folder": folder}
    errors: list[Array] = []  # (seeds,) at the largest N, of each case; the first is as assumed
    for index, (name, forward, targets, level) in enumerate(cases):
        shared["callbacks"] = Callbacks(progress=_part_of(progress, index, len(cases), name))
        rehearsal = rehearse(build, forward, targets, level, SIZES, seeds, **shared)
        errors.append(rehearsal.curve.error[rehearsal.curve.n == rehearsal.curve.sizes[-1]])
    changes = []
    for (name, *_), case_errors in zip(cases[1:], errors[1:], strict=True):
        # Squared errors of brighter images are larger by the square of the brightness.
        scale = _BRIGHTER**2 if name.startswith("brightness") else 1.0
        ratios = case_errors / errors[0] / scale
        changes.append(Change(name, *map(float, (ratios.min(), ratios.mean(), ratios.max()))))
    return tuple(changes)


def _scaled(noise: Noise | Noisy | float, factor: float) -> Any:
    """Noise whose deviation is `factor` times as large."""
    if isinstance(noise, Gaussian):
        return Gaussian(noise.level * factor)
    if isinstance(noise, Poisson):  # whose relative deviation falls with the root of the photons
        return Poisson(noise.photons / factor**2)
    if not callable(noise):
        return noise * factor

    def scaled(inputs: Tensor, draws: torch.Generator) -> Tensor:
        return inputs + factor * (noise(inputs, draws) - inputs)

    return scaled


def _magnified(shape: tuple[int, ...], factor: float) -> csr_array:
    """The matrix that magnifies images (rows, columns) about their centre, by linear weights."""
    lines = []
    for length in shape:
        middle = (length - 1) / 2
        # Each output pixel mixes the two input pixels around its place.
        places = np.clip(middle + (np.arange(length) - middle) / factor, 0, length - 1)
        before = np.minimum(places.astype(int), length - 2)
        after = places - before
        rows = np.tile(np.arange(length), 2)
        entries = (np.r_[1 - after, after], (rows, np.r_[before, before + 1]))
        lines.append(csr_array(entries, shape=(length, length)))
    return csr_array(kron(lines[0], lines[1]))


def _part_of(progress: Progress | None, index: int, count: int, name: str) -> Progress | None:
    if progress is None:
        return None
    case = f" ({name})" if name else ""
    return lambda what, share: progress(f"{what}{case}", (index + share) / count)
