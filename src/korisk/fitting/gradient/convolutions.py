"""Plain convolutions in the plane with slopes that an ARM processor computes fast.

PyTorch hands convolutions to oneDNN, which has no fast code for their slopes on ARM: there a
backward pass takes eight times as long as a forward one. The slope of the input is itself a
convolution, with turned weights, and that of the weights is one product of matrices.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_NAMES = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")  # of conv2d
SLOW = platform.machine().lower() in ("aarch64", "arm64")  # whether PyTorch's own slopes are


class FastSlopes(TorchFunctionMode):
    """Within it, `torch.conv2d` and layers that call it have fast slopes, where that is possible.

    That is for float32 on a CPU, one group, stride and dilation 1, and zeros around the image. All
    other functions are as they were.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a function of PyTorch."""
        options = dict(kwargs or {})
        if func is torch.conv2d and torch.is_grad_enabled():
            arguments = dict(zip(_NAMES, args, strict=False)) | options
            padding = _padding(**arguments)
            if padding is not None:
                # Not inside the function: what that keeps must be what it got, or slopes have none.
                inputs, weight = (_channels_last(arguments[name]) for name in ("input", "weight"))
                return _Convolution.apply(inputs, weight, arguments.get("bias"), padding)  # type: ignore[no-untyped-call]
        return func(*args, **options)


def _padding(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> tuple[int, int] | None:
    """Zeros at each edge, rows and columns; None where slopes are left to PyTorch."""
    plain = _pair(stride) == _pair(dilation) == (1, 1) and groups == 1 and input.ndim == 4
    if not plain or weight.dtype != torch.float32 or input.dtype != torch.float32:
        return None
    if input.is_cuda or not weight.requires_grad:
        return None
    rows, columns = weight.shape[2:]
    if padding == "same":
        return (rows // 2, columns // 2) if rows % 2 and columns % 2 else None
    zeros = (0, 0) if padding == "valid" else _pair(padding)
    return zeros if zeros[0] < rows and zeros[1] < columns else None


def _pair(value: Any) -> tuple[int, int]:
    first, *others = value if isinstance(value, Sequence) else (value,)
    return int(first), int(others[0] if others else first)


def _channels_last(values: Tensor) -> Tensor:
    return values.contiguous(memory_format=torch.channels_last)


class _Convolution(torch.autograd.Function):
    """A convolution with stride 1, of inputs and weights whose channels are last in memory."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, padding: tuple[int, int]
    ) -> Tensor:
        """(B, C, H, W) and (O, C, K, L) to (B, O, H', W')."""
        ctx.save_for_backward(inputs, weight)
        ctx.padding = padding
        return torch.conv2d(inputs, weight, bias, padding=padding)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        """Slopes of the inputs, the weights and the bias."""
        inputs, weight = ctx.saved_tensors
        outputs, channels, *kernel = weight.shape
        slope = _channels_last(slope)
        flat = slope.permute(0, 2, 3, 1).reshape(-1, outputs)
        around = kernel[0] - 1 - ctx.padding[0], kernel[1] - 1 - ctx.padding[1]
        turned = weight.flip(2, 3).transpose(0, 1)  # (C, O, K, L)
        of_inputs = of_weight = of_bias = None
        if outputs <= channels and ctx.needs_input_grad[0]:
            # Neighbourhoods of the slope serve both products, and are no more than the inputs'.
            patches = _patches(slope, kernel, around)
            product = patches @ turned.permute(2, 3, 1, 0).reshape(-1, channels)
            of_inputs = product.view(*inputs.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2)
            product = inputs.permute(0, 2, 3, 1).reshape(-1, channels).T @ patches
            of_weight = product.view(channels, *kernel, outputs).permute(3, 0, 1, 2).flip(2, 3)
        else:
            if ctx.needs_input_grad[0]:
                of_inputs = torch.conv2d(slope, turned, padding=around)
            product = flat.T @ _patches(inputs, kernel, ctx.padding)
            of_weight = product.view(outputs, *kernel, channels).permute(0, 3, 1, 2)
        if ctx.needs_input_grad[2]:
            of_bias = (flat.new_ones(1, len(flat)) @ flat)[0]
        return of_inputs, of_weight, of_bias, None


def _patches(inputs: Tensor, kernel: Sequence[int], padding: Sequence[int]) -> Tensor:
    """(B H' W', K L C) the neighbourhood of every output pixel."""
    high, wide = padding
    padded = torch.nn.functional.pad(inputs.permute(0, 2, 3, 1), (0, 0, wide, wide, high, high))
    (images, _, _, channels), (rows, columns) = padded.shape, kernel
    image, row, column, _ = padded.stride()
    size = images, padded.shape[1] - rows + 1, padded.shape[2] - columns + 1
    # A row of a neighbourhood lies in one piece, which is copied faster than single pixels are.
    shape = (*size, rows, columns * channels)
    windows = padded.as_strided(shape, (image, row, column, row, 1))
    return windows.reshape(-1, rows * columns * channels)
