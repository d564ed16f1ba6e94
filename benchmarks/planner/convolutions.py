"""3 x 3 convolutions of many small networks at once, on a GPU: one kernel for all members.

Every member has weights of its own. A library's grouped convolution takes several times as long for
so few channels, and a product with unfolded neighbourhoods moves nine times the memory. Here each
program loads a tile of pixels with its neighbours (from the cache but for the first time) and
multiplies it by its member's weights. Products are of TF32, sums of float32.
"""

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

PIXELS = 128  # of a tile
SPLITS = 4  # of the pixels, over which the gradient of the weights is added up


@triton.jit
def _shifted(x, pixel, row, column, tap, height, width, inside):  # type: ignore[no-untyped-def]
    """Where a tap's neighbours of pixels lie, and which of them are in the image."""
    down, right = tap // 3 - 1, tap % 3 - 1
    there = inside & (row + down >= 0) & (row + down < height)
    there = there & (column + right >= 0) & (column + right < width)
    return x + pixel + down * width + right, there


@triton.jit  # type: ignore[untyped-decorator]
def _convolve(  # type: ignore[no-untyped-def]
    x, weight, out, inputs, outputs, total, height, width,
    BI: tl.constexpr, BO: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * BP + tl.arange(0, BP)
    column, row = pixel % width, (pixel // width) % height
    o, sums = tl.arange(0, BO), tl.zeros((BO, BP), tl.float32)
    for first in range(0, inputs, BI):
        i = first + tl.arange(0, BI)
        for tap in range(9):
            at, there = _shifted(
                x + member * inputs * total, pixel, row, column, tap, height, width, pixel < total
            )
            seen = tl.load(
                at[None, :] + i[:, None] * total,
                mask=(i < inputs)[:, None] & there[None, :],
                other=0.0,
            )
            w = tl.load(
                weight + ((member * outputs + o[:, None]) * inputs + i[None, :]) * 9 + tap,
                mask=(o < outputs)[:, None] & (i < inputs)[None, :],
                other=0.0,
            )
            sums = tl.dot(w, seen, sums, input_precision="tf32")
    at = out + (member * outputs + o[:, None]) * total + pixel[None, :]
    tl.store(at, sums, mask=(o < outputs)[:, None] & (pixel < total)[None, :])


@triton.jit  # type: ignore[untyped-decorator]
def _weigh(  # type: ignore[no-untyped-def]
    x, gradient, out, inputs, outputs, total, height, width, members,
    BI: tl.constexpr, BO: tl.constexpr, BP: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    member, tap = tl.program_id(0).to(tl.int64), tl.program_id(1)
    part = tl.program_id(2)
    i, o = tl.arange(0, BI), tl.arange(0, BO)
    sums = tl.zeros((BO, BI), tl.float32)
    for first in range(part * BP, total, PARTS * BP):
        pixel = first + tl.arange(0, BP)
        column, row = pixel % width, (pixel // width) % height
        at, there = _shifted(
            x + member * inputs * total, pixel, row, column, tap, height, width, pixel < total
        )
        seen = tl.load(
            at[:, None] + i[None, :] * total, mask=(i < inputs)[None, :] & there[:, None], other=0.0
        )
        g = tl.load(
            gradient + (member * outputs + o[:, None]) * total + pixel[None, :],
            mask=(o < outputs)[:, None] & (pixel < total)[None, :],
            other=0.0,
        )
        sums = tl.dot(g, seen, sums, input_precision="tf32")
    place = ((part * members + member) * outputs + o[:, None]) * inputs + i[None, :]
    tl.store(out + place * 9 + tap, sums, mask=(o < outputs)[:, None] & (i < inputs)[None, :])


def _block(channels: int) -> int:
    """A power of two that holds the channels, no less than a product of tiles needs."""
    return max(16, cast(int, triton.next_power_of_2(channels)))


def _convolved(x: Tensor, weight: Tensor) -> Tensor:
    members, inputs, images, height, width = x.shape
    outputs, total = weight.shape[1], images * height * width
    out = x.new_empty(members, outputs, images, height, width)
    _convolve[(triton.cdiv(total, PIXELS), members)](
        x, weight, out, inputs, outputs, total, height, width,
        BI=16, BO=_block(outputs), BP=PIXELS,
    )  # fmt: skip
    return out


class MemberConvolution(torch.autograd.Function):
    """(E, C, B, H, W) and weights (E, O, C, 3, 3) to (E, O, B, H, W), with zeros around images."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """The convolutions of all members."""
        x, weight = x.contiguous(), weight.contiguous()
        ctx.save_for_backward(x, weight)
        return _convolved(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor]:
        """The gradients of the input, where it is wanted, and of the weights."""
        x, weight = ctx.saved_tensors
        gradient = gradient.contiguous()
        members, inputs, images, height, width = x.shape
        outputs, total = weight.shape[1], images * height * width
        parts = weight.new_empty(SPLITS, *weight.shape)
        _weigh[(members, 9, SPLITS)](
            x, gradient, parts, inputs, outputs, total, height, width, members,
            BI=_block(inputs), BO=_block(outputs), BP=64, PARTS=SPLITS,
        )  # fmt: skip
        of_weight = parts.sum(0)
        if not ctx.needs_input_grad[0]:
            return None, of_weight
        turned = weight.flip(3, 4).transpose(1, 2).contiguous()
        return _convolved(gradient, turned), of_weight
