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
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from korisk._checks import require
from korisk.errors import did_you_mean
from korisk.operators.inputs import shape_text

Array = NDArray[np.float64]
Alteration = Callable[[Tensor, torch.Generator], Tensor]

TRIED = ("mirror", "turn", "shift", "shift/2", "shift/4")  # by default; others must be named
OTHERS = "also"  # an image of another source in the place of each copy, which is altered too
_CHANNELS = 4  # most channels of an image; longer axes are spatial
_BRIGHTNESS = 0.2  # copies are brighter or darker by up to this part
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


def _brightened(images: Tensor, generator: torch.Generator) -> Tensor:
    scale = 1 + _BRIGHTNESS * (2 * torch.rand(len(images), generator=generator) - 1)
    return images * scale.view(-1, *[1] * (images.ndim - 1)).to(images)


# In the order in which they act.
KINDS: dict[str, Alteration] = {
    "mirror": _mirrored,
    "turn": _turned,
    "shift": _shifted(1 / 8),
    "shift/2": _shifted(1 / 16),
    "shift/4": _shifted(1 / 32),
    "brightness": _brightened,
}


def altered(
    images: Tensor, generator: torch.Generator, kinds: Sequence[str], others: Tensor | None = None
) -> Tensor:
    """Copies of images with all named alterations, each by a random amount."""
    if OTHERS in kinds and others is not None:
        times = -(-len(images) // len(others))  # no image comes again before all others came
        drawn = [torch.randperm(len(others), generator=generator) for _ in range(times)]
        images = others[torch.cat(drawn)[: len(images)]].to(images)
    copies = channels_first(images)
    for name, alter in KINDS.items():
        if name in kinds:
            copies = alter(copies, generator)
    return copies.movedim(1, -1) if channel_axis(images.shape[1:]) == -1 else copies


def checked_kinds(kinds: Sequence[str], shape: Sequence[int]) -> tuple[str, ...]:
    """Names of alterations, checked: they exist, and images (count, *shape) admit them."""
    for name in kinds:
        remedy = f"choose among {', '.join(KINDS)}"
        rule = f"name alterations{did_you_mean(str(name), KINDS)}"
        require(name in KINDS, "augment", rule, name, remedy)
        rule = f"be alterations of images {shape_text(tuple(shape))}"
        require(name in admitted(shape), "augment", rule, name, "leave it out, or give a function")
    return tuple(name for name in KINDS if name in kinds)


def admitted(shape: Sequence[int]) -> tuple[str, ...]:
    """The alterations that images (count, *shape) admit: lines are not turned."""
    return tuple(name for name in KINDS if len(shape) > 1 or name != "turn")


@dataclass(frozen=True)
class Evidence:
    """The alterations that the examples support."""

    kinds: tuple[str, ...]  # that are used, in the order in which they act; none if all do harm
    harm: dict[str, float]  # by how much each raises the log error on examples left out

    @property
    def words(self) -> str:
        """How copies are altered."""
        return f"altered copies ({', '.join(self.kinds)})" if self.kinds else "plain copies"

    @property
    def notes(self) -> list[str]:
        """Sentences on choices of the user that the examples contradict."""
        sentences = []
        if OTHERS in self.harm and OTHERS not in self.kinds:
            sentences.append(
                "The images of the second source were left out: a linear fit to them has an error "
                f"that is {math.expm1(self.harm[OTHERS]):.0%} larger on the examples."
            )
        against = [name for name in self.kinds if self.harm.get(name, 0.0) > _MOST_HARM]
        if against:
            sentences.append(
                f"The examples contradict {', '.join(against)}: a linear fit to such copies has "
                f"an error that is {math.expm1(self.harm[against[0]]):.0%} larger on them."
            )
        return sentences


def evidence(
    images: Tensor, required: Sequence[str] | None = None, others: Tensor | None = None
) -> Evidence:
    """Choose alterations of images (count, ...) by the error on held-out examples."""
    some = _smaller(images[:_COMPARED].to("cpu", torch.float64))
    more = None if others is None else _smaller(others.to("cpu", torch.float64))
    tried = [name for name in admitted(images.shape[1:]) if name in TRIED]
    names = [*(tried if required is None else required), *([] if more is None else [OTHERS])]
    plain = _left_out_error(some, (), None)
    # Each alteration alone, against the examples as they are.
    harm = {name: math.log(_left_out_error(some, (name,), more) / plain) for name in names}
    # Shifts of several lengths form a family: only the longest harmless one is used.
    kinds = list(required or ())
    for name in names:
        family = name.partition("/")[0]  # of which the largest that does no harm is used
        if harm[name] <= _MOST_HARM and family not in {kind.partition("/")[0] for kind in kinds}:
            kinds.append(name)
    return Evidence(tuple(name for name in (OTHERS, *KINDS) if name in kinds), harm)


def _smaller(images: Tensor) -> Tensor:
    """Images of at most `_SIDE` pixels along an edge, by means over areas; volumes as they are."""
    images = channels_first(images)
    flat = images.ndim == 3
    if max(images.shape[1:]) <= _SIDE or not (flat or channel_axis(images.shape[1:]) == 0):
        return images
    size = (min(images.shape[-2], _SIDE), min(images.shape[-1], _SIDE))
    smaller = F.adaptive_avg_pool2d(images[:, None] if flat else images, size)
    return smaller[:, 0] if flat else smaller


def _left_out_error(images: Tensor, kinds: Sequence[str], others: Tensor | None) -> float:
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
        targets = _rows(altered(images[fitted], generator, kinds, others))
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
