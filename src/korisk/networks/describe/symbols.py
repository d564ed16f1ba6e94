"""A certain upper end of a convolution's norm, from its Fourier symbol.

A convolution with zeros around its input is a restriction of one on a torus so long that nothing
wraps around: its norm is at most the torus's. There the transform splits it into one matrix for
each frequency, C_out x C_in. A stride of s keeps every s-th entry, which adds up the frequencies
that then look alike: the matrices of those stand beside one another, divided by sqrt(s) for each
axis. A transposed convolution is the adjoint of a convolution with the same weights.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_MOST_NUMBERS = 2**24  # complex numbers in all matrices: 256 MiB
_ROUNDING = 1e-9  # relative; the largest eigenvalue of a Gram matrix loses less


def symbol_norm(
    weight: Tensor,
    lengths: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> float:
    """The largest norm of a frequency's matrix, infinite where there are too many of them.

    `weight` is (C_out, C_in / groups, *kernel) and `lengths` are those of the convolution's input,
    without what is padded, whose zeros change nothing.
    """
    kernel = weight.shape[2:]
    torus = [
        step * math.ceil((length + (taps - 1) * apart) / step)
        for length, taps, step, apart in zip(lengths, kernel, stride, dilation, strict=True)
    ]
    half = (
        1 if any(step > 1 for step in stride) else 2
    )  # of a real symbol's frequencies, the last axis
    if weight.numel() // math.prod(kernel) * math.prod(torus) // half > _MOST_NUMBERS:
        return math.inf
    spaced = torch.zeros(
        *weight.shape[:2],
        *((taps - 1) * apart + 1 for taps, apart in zip(kernel, dilation, strict=True)),
        dtype=torch.float64,
        device=weight.device,
    )
    every = [slice(None, None, apart) for apart in dilation]
    spaced[(slice(None), slice(None), *every)] = weight.detach().double()
    axes = tuple(range(2, 2 + len(kernel)))
    if all(step == 1 for step in stride):  # of a real kernel half of the frequencies say it all
        symbol = torch.fft.rfftn(spaced, s=torus, dim=axes)
    else:
        symbol = torch.fft.fftn(spaced, s=torus, dim=axes)
        for axis, step in reversed(list(zip(axes, stride, strict=True))):
            # Frequencies k, k + L/s, ... look alike: (s, L/s), and s becomes columns.
            symbol = symbol.unflatten(axis, (step, symbol.shape[axis] // step)).movedim(axis, 2)
            symbol = symbol.flatten(1, 2) / math.sqrt(step)
    matrices = symbol.flatten(2).movedim(2, 0)  # (frequencies, C_out, C_in / groups)
    matrices = matrices.unflatten(1, (groups, -1))
    if matrices.shape[-2] > matrices.shape[-1]:
        matrices = matrices.mT
    gram = matrices @ matrices.mH
    largest = (
        float(torch.linalg.eigvalsh(gram).max()) if gram.shape[-1] > 1 else float(gram.abs().max())
    )
    return math.sqrt(max(largest, 0.0)) * (1 + _ROUNDING)
