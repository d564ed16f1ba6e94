"""Plain 2D convolutions whose gradients are fast on ARM processors.

PyTorch hands convolutions to oneDNN, which has no fast code for their gradients on ARM: there a
backward pass takes eight times as long as a forward one. The gradient of the input is itself a
convolution, with flipped weights, and that of the weights is one matrix product.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_NAMES = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")  # of conv2d
SLOW = platform.machine().lower() in ("aarch64", "arm64")  # where PyTorch's own gradients are slow


class FastGradients(TorchFunctionMode):
    """Context in which `torch.conv2d`, and layers that call it, have fast gradients.

    For float32 on a CPU, one group, stride and dilation 1, and zero padding. All other calls go to
    PyTorch unchanged.
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
                # Converted outside of `apply`: autograd must see the tensors that it saves.
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
    """Zeros at each edge, rows and columns; None where gradients are left to PyTorch."""
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
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the inputs, the weights and the bias, from that of the outputs."""
        inputs, weight = ctx.saved_tensors
        outputs, channels, *kernel = weight.shape
        gradient = _channels_last(gradient)  # (B, O, H', W')
        flat = gradient.permute(0, 2, 3, 1).reshape(-1, outputs)
        # Padding of the transposed convolution, written as a plain one with flipped weights.
        around = kernel[0] - 1 - ctx.padding[0], kernel[1] - 1 - ctx.padding[1]
        flipped = weight.flip(2, 3).transpose(0, 1)  # (C, O, K, L)
        of_inputs = of_weight = of_bias = None
        if outputs <= channels and ctx.needs_input_grad[0]:
            # Patches of the gradient serve both products, and are no larger than those of inputs.
            patches = _patches(gradient, kernel, around)
            product = patches @ flipped.permute(2, 3, 1, 0).reshape(-1, channels)
            of_inputs = product.view(*inputs.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2)
            product = inputs.permute(0, 2, 3, 1).reshape(-1, channels).T @ patches
            of_weight = product.view(channels, *kernel, outputs).permute(3, 0, 1, 2).flip(2, 3)
        else:
            if ctx.needs_input_grad[0]:
                of_inputs = torch.conv2d(gradient, flipped, padding=around)
            product = flat.T @ _patches(inputs, kernel, ctx.padding)
            of_weight = product.view(outputs, *kernel, channels).permute(0, 3, 1, 2)
        if ctx.needs_input_grad[2]:
            of_bias = (flat.new_ones(1, len(flat)) @ flat)[0]
        return of_inputs, of_weight, of_bias, None


def _patches(inputs: Tensor, kernel: Sequence[int], padding: Sequence[int]) -> Tensor:
    """(B * H' * W', K * L * C): the patch of inputs below the kernel at every output pixel."""
    top, side = padding
    padded = torch.nn.functional.pad(inputs.permute(0, 2, 3, 1), (0, 0, side, side, top, top))
    (images, _, _, channels), (rows, columns) = padded.shape, kernel
    image, row, column, _ = padded.stride()
    size = images, padded.shape[1] - rows + 1, padded.shape[2] - columns + 1
    # A row of a patch is contiguous, which is copied faster than single pixels are.
    shape = (*size, rows, columns * channels)
    windows = padded.as_strided(shape, (image, row, column, row, 1))
    return windows.reshape(-1, rows * columns * channels)
