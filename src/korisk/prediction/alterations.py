"""Altered copies of example images, and which alterations the examples themselves support.

A rehearsal fills large training sets with copies of a few examples: mirrored, rotated or shifted.
Rotated photographs of leaves are still photographs of leaves; rotated letters are not letters. The
choice is made from the examples: a linear denoiser is fitted in closed form to altered copies of
some examples and tested on the others, and so is one fitted to the same examples unaltered.
Alterations that preserve the distribution of the images do not raise the error; those that raise it
by more than a few per cent are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Alteration = Callable[[Tensor, torch.Generator], Tensor]

_CHANNELS = 4  # most channels of an image; longer axes are spatial
_COMPARED = 128  # images: more would take seconds and change no choice
_SIDE = 64  # pixels of an edge of images that are compared
_SPLITS = 12  # into examples to fit and examples to test, half and half
_NOISE = 0.1  # of the images' root mean square
_PENALTIES = np.logspace(-4, 1, 11)  # over the kernel's mean eigenvalue
# Chosen on ellipses, blobs, digits, photographs, histology, heads and brains: alterations of those
# that have a direction cost .12 to .60, all others -.05 to .08.
_MOST_HARM = 0.1  # of the logarithm of the error


def channel_axis(shape: Sequence[int]) -> int | None:
    """The axis of channels among those of an image, 0 or -1; None if all of them are spatial.

    An image of three axes or more has channels in front (1 or 3), or real and imaginary parts
    behind, if that axis is shorter than all others.
    """
    if len(shape) > 2:
        for axis, others in ((0, shape[1:]), (-1, shape[:-1])):
            if shape[axis] <= _CHANNELS and shape[axis] < min(others):
                return axis
    return None


def channels_first(images: Tensor) -> Tensor:
    """Images (count, ...) with a last axis of channels in front of the others."""
    return images.movedim(-1, 1) if channel_axis(images.shape[1:]) == -1 else images


def _mirrored(images: Tensor, generator: torch.Generator) -> Tensor:
    chosen = torch.randint(2, (len(images),), generator=generator) == 1
    return _where(chosen, images.flip(-1), images)


def _turned(images: Tensor, generator: torch.Generator) -> Tensor:
    """Rotate by multiples of 90 degrees in the last two axes, of 180 if they differ in length."""
    step = 1 if images.shape[-1] == images.shape[-2] else 2
    turns = torch.randint(4 // step, (len(images),), generator=generator) * step
    turned = images
    for turn in range(step, 4, step):
        turned = _where(turns == turn, torch.rot90(images, turn, (-2, -1)), turned)
    return turned


def _where(chosen: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Images (count, ...) from `first` where `chosen` (count,) is true, else from `second`."""
    return torch.where(chosen.view(-1, *[1] * (first.ndim - 1)).to(first.device), first, second)


def _shifted(share: float) -> Alteration:
    """Shift along spatial axes by whole pixels, up to a share of the length; edges are reflected.

    Pixels are not interpolated, so that copies are as sharp as the images.
    """

    def shifted(images: Tensor, generator: torch.Generator) -> Tensor:
        for axis in range(1 if channel_axis(images.shape[1:]) is None else 2, images.ndim):
            length = images.shape[axis]
            reach = min(max(1, round(length * share)), length - 1)
            moves = torch.randint(-reach, reach + 1, (len(images), 1), generator=generator)
            # (count, length) source index of every pixel along this axis.
            places = (torch.arange(length) + moves).abs()
            places = (length - 1) - (length - 1 - places).abs()  # reflected at both ends
            index = places.view(len(images), *[1] * (axis - 1), -1, *[1] * (images.ndim - 1 - axis))
            images = images.gather(axis, index.to(images.device).expand(images.shape))
        return images

    return shifted


# In the order in which they act.
KINDS: dict[str, Alteration] = {
    "mirror": _mirrored,
    "turn": _turned,
    "shift": _shifted(1 / 8),
    "shift/2": _shifted(1 / 16),
    "shift/4": _shifted(1 / 32),
}


def altered(images: Tensor, generator: torch.Generator, kinds: Sequence[str]) -> Tensor:
    """Copies of images with all named alterations, each by a random amount."""
    copies = channels_first(images)
    for name, alter in KINDS.items():
        if name in kinds:
            copies = alter(copies, generator)
    return copies.movedim(1, -1) if channel_axis(images.shape[1:]) == -1 else copies


def evidence(images: Tensor) -> tuple[tuple[str, ...], dict[str, float]]:
    """The alterations that images (count, ...) support, and by how much each raises the log error.

    Of a linear fit, on examples that were held out.
    """
    some = _smaller(images[:_COMPARED].to("cpu", torch.float64))
    names = [name for name in KINDS if images.ndim > 2 or name != "turn"]  # of lines none is turned
    plain = _left_out_error(some, ())
    # Each alteration alone, against the examples as they are.
    harm = {name: math.log(_left_out_error(some, (name,)) / plain) for name in names}
    # Shifts of several lengths form a family: only the longest harmless one is used.
    kinds: list[str] = []
    for name in names:
        family = name.partition("/")[0]  # of which the largest that does no harm is used
        if harm[name] <= _MOST_HARM and family not in {kind.partition("/")[0] for kind in kinds}:
            kinds.append(name)
    return tuple(kinds), harm


def _smaller(images: Tensor) -> Tensor:
    """Images of at most `_SIDE` pixels along an edge, by means over areas; volumes as they are."""
    images = channels_first(images)
    flat = images.ndim == 3
    if max(images.shape[1:]) <= _SIDE or not (flat or channel_axis(images.shape[1:]) == 0):
        return images
    size = (min(images.shape[-2], _SIDE), min(images.shape[-1], _SIDE))
    smaller = F.adaptive_avg_pool2d(images[:, None] if flat else images, size)
    return smaller[:, 0] if flat else smaller


def _left_out_error(images: Tensor, kinds: Sequence[str]) -> float:
    """The error of a ridge regression from noisy to clean images, on held-out examples.

    It is fitted to altered copies of the other examples, one of each. All draws but those of the
    alterations are the same for any kinds; the penalty is the best one for all splits together.
    """
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    deviation = _NOISE * math.sqrt(float(images.square().mean()))
    total = np.zeros(len(_PENALTIES))
    for _ in range(_SPLITS):
        order = rng.permutation(len(images))
        fitted, left_out = np.array_split(order, 2)
        held_out = _rows(images[left_out])  # (tested, pixels)
        targets = _rows(altered(images[fitted], generator, kinds))
        # Same noise for every kind, so that only the alterations make the difference.
        noisy, inputs = (
            clean + deviation * rng.standard_normal(clean.shape) for clean in (held_out, targets)
        )
        values, vectors = np.linalg.eigh(inputs @ inputs.T)
        scale = max(float(values.mean()), 1e-140)
        weights = noisy @ inputs.T @ vectors  # (tested, fitted); the eigenvalues divide them below
        inner = vectors.T @ (targets @ targets.T) @ vectors
        across = held_out @ targets.T @ vectors
        for index, penalty in enumerate(_PENALTIES):  # |y - sum_k w_k t_k|^2 by inner products
            shrunk = weights / (np.maximum(values, 0.0) + scale * penalty)
            total[index] += ((shrunk @ inner - 2 * across) * shrunk).sum() / held_out.size
        total += np.square(held_out).mean()
    return max(float(total.min()), 1e-300) / _SPLITS


def _rows(images: Tensor) -> Array:
    return images.flatten(1).numpy()
