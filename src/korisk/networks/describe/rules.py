"""What one operation does to distances: its Lipschitz bracket, or how its inputs join."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from korisk.errors import KoriskError
from korisk.networks.describe.constants import CONSTANTS, exactly, one, option
from korisk.networks.describe.linear import function_norm, is_plain, matrix_norm
from korisk.networks.describe.steps import Ref, Step
from korisk.operators.linear import LinearOperator
from korisk.theory.bracket import NormBracket


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Rearrangements, selections and conversions: no layer of their own.
_FOLDED = _words(
    "view reshape flatten unflatten ravel permute transpose t T mT swapaxes swapdims adjoint H mH "
    "movedim moveaxis squeeze unsqueeze contiguous clone detach view_as reshape_as to type float "
    "double half bfloat16 cpu cuda alias requires_grad data positive pixel_shuffle pixel_unshuffle "
    "channel_shuffle roll flip fliplr flipud rot90 narrow select chunk split tensor_split unbind "
    "split_with_sizes hsplit vsplit diagonal real imag conj resolve_conj view_as_real "
    "view_as_complex fftshift ifftshift type_as unsafe_chunk unsafe_split"
)
_CASTS = _words("to type float double half bfloat16 type_as")
_DROPOUTS = _words("dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout")
_SIGN = _words("neg negative")

# Linear in each argument separately, so linear if only one of them comes from the input.
_LINEAR = _words(
    "linear matmul __matmul__ __rmatmul__ mm bmm mv dot einsum tensordot inner outer kron addmm "
    "baddbmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d mean sum "
    "cumsum avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d interpolate upsample pad unfold fold expand expand_as repeat tile "
    "repeat_interleave broadcast_to diff index_select gather take take_along_dim tril triu trace "
    "masked_fill where __getitem__ mul multiply __mul__ __rmul__ div divide true_divide "
    "__truediv__ diag diag_embed lerp index_add scatter scatter_add grid_sample copy"
)
_NONNEGATIVE = _words(
    "mean sum cumsum avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d expand repeat tile"
)
_ADDING = _words("add __add__ __radd__ sub subtract __sub__ __rsub__ rsub")
_MAXIMA = _words("maximum minimum max min fmax fmin")
# Whose constants hold for complex numbers too: tanh and the like have poles there.
_COMPLEX = _words("abs absolute") | {name for name in CONSTANTS if "fft" in name}
_ROOTS = _words("cat concat concatenate stack hstack vstack dstack complex")

_STATE = (
    "bound its inputs and state the constant that follows, with "
    "kr.known(module, lipschitz=...) or kr.learned(module, lipschitz=...)"
)
_ATTENTION = (
    "dot-product attention has no Lipschitz constant on unbounded inputs, because its slope grows "
    f"with them; {_STATE}"
)
_REFUSED = {
    (
        *(nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer),
        nn.Transformer,
    ): _ATTENTION,
    (nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell): (
        "its gates multiply states with one another, so unrolling gives no constant without bounds "
        f"on them; {_STATE}"
    ),
    (nn.Embedding, nn.EmbeddingBag): (
        "an embedding takes whole numbers, which have no Lipschitz constant; describe the part "
        "behind it, with embedded values as the example"
    ),
}


@dataclass(frozen=True)
class Gain:
    """What an operation with one input does to distances."""

    bracket: NormBracket
    linear: bool = False  # a matrix, up to a constant


def refuse(module: nn.Module, path: str) -> None:
    """Refuse modules that have no Lipschitz constant."""
    for kinds, why in _REFUSED.items():
        if isinstance(module, kinds):
            raise KoriskError(f"{path or 'the module'} ({type(module).__name__}): {why}")


def _refuse_attention(step: Step) -> None:
    if step.name in ("scaled_dot_product_attention", "multi_head_attention_forward"):
        raise KoriskError(f"{step.name}: {_ATTENTION}")


def folded(step: Step) -> bool:
    """Whether a step only rearranges, selects or copies entries, and stretches no distance."""
    if len(step.inputs) != 1 or not (step.value.is_floating_point() or step.value.is_complex()):
        return False
    if step.name in _DROPOUTS:
        return not option(step, 2, "training", True)
    if step.name == "__getitem__":  # no entry twice: slices, numbers and new axes
        index = step.args[1] if isinstance(step.args[1], tuple) else (step.args[1],)
        basic = (
            part is None or part is Ellipsis or isinstance(part, int | slice) for part in index
        )
        return all(basic) and not any(isinstance(part, bool) for part in index)
    given = (*step.args, *step.kwargs.values())
    if step.name == "view" and any(isinstance(each, torch.dtype) for each in given):
        return False  # the same memory as numbers of another kind
    return step.name in _FOLDED


def cast(step: Step) -> bool:
    """Whether a step converts its input to another precision."""
    return step.name in _CASTS


def gain(step: Step, x: Tensor) -> Gain | None:
    """The bracket of a step with one input x; None where there is no rule."""
    name, module = step.name, step.module
    if not (step.value.is_floating_point() or step.value.is_complex()):
        return Gain(NormBracket(0.0, math.inf, how="gives whole numbers, so it jumps"))
    if module is not None:  # taken whole, and trusted if it runs the code of its class alone
        if not is_plain(module):
            return None
        if isinstance(module, LinearOperator):
            return Gain(module.norm(), linear=True)
        return _rnn(step, module, x) if isinstance(module, nn.RNN) else None
    bracket: NormBracket | None = None
    if folded(step):
        bracket = one("rearranges or selects entries")
    elif name in _ROOTS:
        bracket = one("put beside constants")
    elif name in _SIGN:
        bracket = one("changes signs")
    elif name in _ADDING:
        bracket = _added_constant(step, x)
    elif name in CONSTANTS:
        # If the value is the argument and of the number type that the rule is about.
        first = bool(step.args) and isinstance(step.args[0], Ref)
        either = name in _MAXIMA and len(step.args) == 2
        real = not (x.is_complex() or step.value.is_complex())
        if (first or either) and (real or name in _COMPLEX):
            bracket = CONSTANTS[name](step, x)
        return None if bracket is None else Gain(bracket, linear=name == "batch_norm")
    elif name in _LINEAR:
        bracket = _linear(step, x)
    else:
        _refuse_attention(step)
    return None if bracket is None else Gain(bracket, linear=True)


def join(step: Step, parents: Sequence[Tensor], constants: Sequence[float]) -> float | None:
    """A constant of a step with several inputs, from the constants of those; None: no rule."""
    _refuse_attention(step)
    if any(isinstance(given, Ref) for given in step.kwargs.values()):
        return None  # in an order that is not known
    # An entry that is spread over many counts as often.
    spread = [
        constant * math.sqrt(max(1.0, step.value.numel() / max(parent.numel(), 1)))
        for parent, constant in zip(parents, constants, strict=True)
    ]
    if step.name in _ADDING and _is_number(alpha := option(step, 2, "alpha", 1)):
        first = abs(alpha) if "rsub" in step.name else 1.0
        second = 1.0 if "rsub" in step.name else abs(alpha)
        return first * spread[0] + second * sum(spread[1:])
    if step.name in _MAXIMA:
        return math.hypot(*spread)
    if step.name in _ROOTS:
        return math.hypot(*constants)
    return None


def joins_linearly(step: Step) -> bool:
    """Whether a step with several inputs is linear in all of them together."""
    return step.name in _ADDING or step.name in _ROOTS


def _added_constant(step: Step, x: Tensor) -> NormBracket | None:
    alpha = option(step, 2, "alpha", 1)
    if not (_is_number(alpha) and len(step.args) == 2 and step.value.numel() == x.numel()):
        return _by_function(step, x)
    on_second = isinstance(step.args[0], Ref) is ("rsub" in step.name)
    factor = abs(float(alpha)) if on_second else 1.0
    return one("adds a constant") if factor == 1 else exactly(factor, "adds a constant")


def _linear(step: Step, x: Tensor) -> NormBracket | None:
    first, second = (*step.args, None, None)[:2]
    constant = second if isinstance(first, Ref) else first
    if step.name in ("linear", "matmul", "__matmul__", "mm", "mv"):
        dense = isinstance(constant, Tensor) and constant.layout == torch.strided
        if dense and constant.ndim == 2 and not isinstance(option(step, 2, "bias", None), Ref):
            return matrix_norm(constant)
    if step.name in ("mul", "multiply", "__mul__", "__rmul__", "div", "divide", "true_divide"):
        if "div" in step.name and not isinstance(first, Ref):
            return None  # a constant divided by x
        if step.value.shape == x.shape and (_is_number(constant) or isinstance(constant, Tensor)):
            if option(step, 2, "rounding_mode", None) is not None:
                return None
            values = torch.as_tensor(constant).detach()
            size = (values.abs() if values.is_complex() else values).double().abs()
            largest = float(1 / size.min() if "div" in step.name else size.max())
            if not math.isfinite(largest):
                return NormBracket(0.0, math.inf, how="divides by zero")
            return NormBracket(largest, largest, how="largest |factor|")
    return _by_function(step, x)


def _by_function(step: Step, x: Tensor) -> NormBracket | None:
    (parent,) = step.parents
    if not (x.is_floating_point() and step.value.is_floating_point()):
        return None

    def function(value: Tensor) -> Tensor:
        return step.replay({parent: value}, double=True)

    positive = step.name in _NONNEGATIVE or (
        step.name == "interpolate" and option(step, 3, "mode", "nearest") != "bicubic"
    )
    try:
        return function_norm(function, x, nonnegative=positive)
    except RuntimeError:  # a function that does not take doubles, or has no derivative
        return None


def _rnn(step: Step, module: nn.RNN, x: Tensor) -> Gain | None:
    """|W_x| sum_{k<T} |W_h|^k for each layer and direction, by unrolling T steps.

    |dh_t| <= sum_k |W_h|^k |W_x| |dx_{t-k}|, a convolution in t, and Young's inequality. The last
    states of all layers, the second part of the result, are no further apart than those layers.
    """
    if isinstance(option(step, 1, "hx", None), Ref):
        return None
    length = x.shape[1 if module.batch_first and x.ndim == 3 else 0]
    ends = ("", "_reverse") if module.bidirectional else ("",)
    total, states = 1.0, 0.0
    for layer in range(module.num_layers):
        squares = 0.0
        for end in ends:
            inner = matrix_norm(getattr(module, f"weight_ih_l{layer}{end}")).upper
            again = matrix_norm(getattr(module, f"weight_hh_l{layer}{end}")).upper
            squares += (inner * math.fsum(again**k for k in range(length))) ** 2
        total *= math.sqrt(squares)
        states = math.hypot(states, total)
    how = f"unrolled, {length} steps: |W_x| sum_k |W_h|^k"
    return Gain(NormBracket(0.0, total if step.part == 0 else states, how=how))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
