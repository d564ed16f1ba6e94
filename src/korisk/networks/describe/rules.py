"""What one operation does to distances: its Lipschitz bracket, or how its inputs join.

The first half has the constants that are known in closed form, each with its reason. A rule takes
a call and gives a bracket, or None where its options leave nothing known.
docs/reference/describe.md has the table with the derivations.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import EllipsisType
from typing import Any, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from korisk.errors import KoriskError
from korisk.networks.describe import linear
from korisk.networks.describe.linear import is_plain, matrix_norm, words
from korisk.networks.describe.recording import Ref, Step
from korisk.operators.consistency import DataConsistency
from korisk.operators.dynamics import Burgers
from korisk.operators.linear import LinearOperator
from korisk.theory.bracket import NormBracket

Rule = Callable[[Step, Tensor], NormBracket | None]
Axes = int | Sequence[int]  # one number for all axes, or one for each

ROUNDING = 1e-11  # relative: beyond the last digit of the constants that are written out
_NO_EPS = "normalisation without eps has no Lipschitz constant"

# The largest |f'|: GELU at sqrt 2 in closed form, the others by maximisation to all digits shown.
GELU = (1 + math.erf(1)) / 2 + 1 / (math.e * math.sqrt(math.pi))
GELU_TANH = 1.128993068659
SILU = 1.099839320129
MISH, MISH_LOWEST = 1.088498161252, -0.112526122390
SELU = 1.0507009873554805 * 1.6732632423543772
_TO_ONE = (  # whose slopes lie between 0 and 1
    "relu relu6 tanh hardtanh softsign tanhshrink softshrink logsigmoid clamp clip clamp_min "
    "clamp_max arctan atan asinh arcsinh"
)
_SLOPES = {
    1.0: f"{_TO_ONE} abs absolute sin cos "
    "logsumexp amax amin sort topk median max min maximum minimum fmax fmin",
    0.25: "sigmoid expit",
    1 / 6: "hardsigmoid",
    1.5: "hardswish",
    2 / math.sqrt(math.pi): "erf",
    SELU: "selu",
    SILU: "silu",
    MISH: "mish",
}
_POOLS = [
    f"{kind}max_pool{d}d{end}"
    for kind in ("", "adaptive_")
    for d in (1, 2, 3)
    for end in ("", "_with_indices")
]
_TRANSFORMS = [f"{i}{r}fft{k}" for i in ("", "i") for r in ("", "r") for k in ("", "2", "n")]
_BELOW: dict[str, tuple[str, float | None]] = {  # the slope below 0: its name, and torch's default
    "leaky_relu": ("negative_slope", 0.01),
    "prelu": ("weight", None),
    "elu": ("alpha", 1),
}
CONSTANTS: dict[str, Rule] = {}  # by the name of the function

# Rearrangements, selections and conversions: no layer of their own.
_FOLDED = words(
    "view reshape flatten unflatten ravel permute transpose t T mT swapaxes swapdims adjoint H mH "
    "movedim moveaxis squeeze unsqueeze contiguous clone detach view_as reshape_as to type float "
    "double half bfloat16 cpu cuda alias requires_grad data positive pixel_shuffle pixel_unshuffle "
    "channel_shuffle roll flip fliplr flipud rot90 narrow select chunk split tensor_split unbind "
    "split_with_sizes hsplit vsplit diagonal real imag conj resolve_conj view_as_real "
    "view_as_complex fftshift ifftshift type_as unsafe_chunk unsafe_split"
)
_DROPOUTS = words("dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout")
SIGNS = words("neg negative")

_AVERAGES = [f"{kind}avg_pool{d}d" for kind in ("", "adaptive_") for d in (1, 2, 3)]
_NONNEGATIVE = words("mean sum cumsum expand repeat tile").union(_AVERAGES)
# Linear in each argument separately, so linear if only one of them comes from the input.
_LINEAR = _NONNEGATIVE | words(
    "linear matmul __matmul__ __rmatmul__ mm bmm mv dot einsum tensordot inner outer kron addmm "
    "baddbmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d interpolate "
    "upsample pad unfold fold expand_as repeat_interleave broadcast_to diff index_select gather "
    "take take_along_dim tril triu trace "
    "stft istft solve linalg_solve solve_triangular linalg_solve_triangular cholesky_solve "
    "masked_fill where __getitem__ mul multiply __mul__ __rmul__ div divide true_divide "
    "__truediv__ diag diag_embed lerp index_add scatter scatter_add grid_sample copy __setitem__"
)
_ADDING = words("add __add__ __radd__ sub subtract __sub__ __rsub__ rsub")
_MAXIMA = words("maximum minimum max min fmax fmin")
# Whose constants hold for complex numbers too: tanh and the like have poles there.
_COMPLEX = words("abs absolute") | set(_TRANSFORMS)
_CONCATENATES = words("cat concat concatenate stack hstack vstack dstack complex")

_STATE = (
    "state a constant for your inputs with kr.mark_learned(module, lipschitz=...) or "
    "kr.mark_known(module, lipschitz=...); kr.amplification measures it on data"
)
_ATTENTION = (
    "dot-product attention has no Lipschitz constant on unbounded inputs, because its slope grows "
    f"with them; {_STATE}"
)
_REFUSED: dict[tuple[type[nn.Module], ...], str] = {
    (nn.MultiheadAttention, nn.Transformer): _ATTENTION,
    (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer): _ATTENTION,
    (nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell): (
        f"its gates multiply states with one another, which has no Lipschitz constant; {_STATE}"
    ),
    (nn.Embedding, nn.EmbeddingBag): (
        "an embedding takes whole numbers, which have no Lipschitz constant; describe the part "
        "behind it, with embedded values as the example"
    ),
    (torch.jit.ScriptModule,): (
        "the code that torch.jit compiled cannot be followed; describe the module before it is "
        "scripted or traced, or mark it with kr.mark_known or kr.mark_learned"
    ),
}
_RISING = words(  # from 0 to the largest slope; softmax as the gradient of a convex function
    f"{_TO_ONE} sigmoid expit hardsigmoid erf selu celu softplus threshold hardshrink softmax"
)
_MIRRORED = words("gelu silu hardswish")  # f(x) = x + f(-x), so slopes lie between 1 - c and c
_CONVOLUTION = re.compile(r"conv(_transpose)?([123])d")


def option(step: Step, place: int, key: str, default: object) -> Any:
    """An argument of a call, by its place or by its name."""
    return step.args[place] if len(step.args) > place else step.kwargs.get(key, default)


def exactly(value: float, how: str) -> NormBracket:
    """A constant that is attained, or approached as near as one likes."""
    return NormBracket(value * (1 - ROUNDING), value * (1 + ROUNDING), how=how)


def unit_bracket(how: str) -> NormBracket:
    """The constant 1, without any rounding."""
    return NormBracket(1.0, 1.0, how=how)


def _slope(value: float) -> Rule:
    def rule(step: Step, x: Tensor) -> NormBracket | None:
        if step.value.numel() > x.numel():  # spread against a larger constant
            return None
        how = f"largest slope of {step.name}"
        return unit_bracket(how) if value == 1 else exactly(value, how)

    return rule


def _rule(*names: str) -> Callable[[Rule], Rule]:
    """Add a rule to the constants, under the names of the functions that it is about."""

    def add(rule: Rule) -> Rule:
        CONSTANTS.update(dict.fromkeys(names, rule))
        return rule

    return add


for _value, _names in _SLOPES.items():
    _rule(*_names.split())(_slope(_value))


@_rule("gelu")
def gelu(step: Step, x: Tensor) -> NormBracket:
    """The largest slope, of the function or its approximation by tanh."""
    tanh = option(step, 1, "approximate", "none") == "tanh"
    return exactly(GELU_TANH if tanh else GELU, "largest slope of GELU")


@_rule("leaky_relu", "prelu", "elu")
def rectifier(step: Step, x: Tensor) -> NormBracket | None:
    """The larger of the slopes on both sides of 0."""
    # torch._C._nn.elu takes scale and input_scale behind alpha.
    unscaled = step.function is F.elu or not (len(step.args) > 2 or step.kwargs.keys() - {"alpha"})
    if step.name == "elu" and not unscaled:
        return None  # torch's inner one has more scales
    below = option(step, 1, *_BELOW[step.name])
    if below is None or isinstance(below, Ref):  # it comes from the input itself
        return None
    size = float(below.detach().abs().max()) if isinstance(below, Tensor) else abs(float(below))
    return exactly(max(1.0, size), f"largest slope, max(1, |{_BELOW[step.name][0]}|)")


@_rule("celu", "softplus")
def smooth_rectifier(step: Step, x: Tensor) -> NormBracket | None:
    """The largest slope is 1, for a positive alpha and a large threshold.

    Beyond its threshold torch takes the identity, which jumps unless the threshold is large.
    """
    # celu has no bound for a negative alpha; softplus jumps at a low threshold.
    positive = step.name != "celu" or float(option(step, 1, "alpha", 1.0)) > 0
    large = step.name != "softplus" or float(option(step, 2, "threshold", 20.0)) >= 15
    return _slope(1.0)(step, x) if positive and large else None


@_rule("norm", "vector_norm")
def norm(step: Step, x: Tensor) -> NormBracket | None:
    """The Euclidean norm alone."""
    kind = option(step, 1, "p", step.kwargs.get("ord"))  # torch.norm has p, torch.linalg ord
    return unit_bracket("Euclidean norm") if kind in (None, 2, "fro") else None


@_rule("threshold", "hardshrink")
def threshold(step: Step, x: Tensor) -> NormBracket:
    """Lipschitz constant 1 if continuous (value at the threshold = the threshold), else none."""
    if step.name == "hardshrink":
        edge, below = option(step, 1, "lambd", 0.5), 0
    else:
        edge, below = option(step, 1, "threshold", 0.0), option(step, 2, "value", 0.0)
    if edge == below:
        return unit_bracket(f"largest slope of a continuous {step.name}")
    return NormBracket(1.0, math.inf, how=f"a discontinuous {step.name} has no Lipschitz constant")


@_rule("softmax", "softmin", "log_softmax")
def softmax(step: Step, x: Tensor) -> NormBracket:
    """See docs/reference/describe.md for the derivations."""
    if (dim := option(step, 1, "dim", None)) is None:
        dim = 0 if x.ndim in (0, 1, 3) else 1  # as torch chooses, with a warning
    length = x.shape[dim] if x.ndim else 1
    if length == 1:
        return NormBracket(0.0, 0.0, how=f"{step.name} of one entry is constant")
    if step.name == "log_softmax":
        return exactly(math.sqrt(length), "log-softmax: |I - 1 p^T| < sqrt(entries)")
    return exactly(0.5, "softmax: |diag(p) - p p^T| <= 1/2")


@_rule("dropout", "dropout1d", "dropout2d", "dropout3d")
def dropout(step: Step, x: Tensor) -> NormBracket:
    """Only p = 0 and p = 1 get here: after training it is no layer, and a draw is not followed."""
    # Entries that stay are scaled up, so that the mean stays what it is.
    share = 1 - float(option(step, 1, "p", 0.5))
    upper = 1 / share if share > 0 else 0.0
    return NormBracket(0.0, upper, how="dropout that stays on: 1 / (1 - p) where kept")


@_rule("batch_norm", "instance_norm")
def batch_or_instance_norm(step: Step, x: Tensor) -> NormBracket | None:
    """A diagonal matrix by running statistics; by those of the input as the other norms."""
    instance = step.name == "instance_norm"
    if step.function is not (F.instance_norm if instance else F.batch_norm):
        return None  # torch.batch_norm has another order of arguments
    keys = ("running_mean", "running_var", "weight")
    mean, variance, gamma = (option(step, 1 + n, key, None) for n, key in enumerate(keys))
    eps = float(option(step, 7, "eps", 1e-5))
    if any(isinstance(argument, Ref) for argument in (mean, variance, gamma)):
        return None
    if _takes_statistics(step):
        entries = math.prod(x.shape[2:]) if instance else x.numel() // x.shape[1]
        return _normalised(gamma, entries, eps)
    # With fixed statistics, a scaling of each channel.
    factor = torch.rsqrt(variance.detach().double() + eps)
    if gamma is not None:
        factor = factor * gamma.detach().double()
    return exactly(float(factor.abs().max()), "max |gamma| / sqrt(var + eps)")


def _takes_statistics(step: Step) -> bool:
    """Whether a batch_norm or instance_norm takes mean and variance of its input."""
    instance = step.name == "instance_norm"
    flag = option(step, 5, "use_input_stats" if instance else "training", instance)
    return option(step, 2, "running_var", None) is None or bool(flag)


@_rule("layer_norm", "group_norm")
def layer_or_group_norm(step: Step, x: Tensor) -> NormBracket | None:
    """The last axes together, or groups of channels."""
    gamma, eps = option(step, 2, "weight", None), float(option(step, 4, "eps", 1e-5))
    if isinstance(gamma, Ref):
        return None
    if step.name == "layer_norm":
        return _normalised(gamma, math.prod(option(step, 1, "normalized_shape", ())), eps)
    return _normalised(gamma, x[0].numel() // int(option(step, 1, "num_groups", 1)), eps)


def _normalised(gamma: Tensor | None, entries: int, eps: float) -> NormBracket:
    """(x - mean) / sqrt(var + eps) gamma: steepest where all entries are alike."""
    if eps <= 0:
        return NormBracket(0.0, math.inf, how=_NO_EPS)
    if entries == 1:
        return NormBracket(0.0, 0.0, how="one entry normalised is constant")
    upper = (1.0 if gamma is None else float(gamma.detach().abs().max())) / math.sqrt(eps)
    # The slope at variance 0, along a vector without its mean.
    lower = upper * math.sqrt(1 - 1 / entries) * (1 - ROUNDING)
    how = "max |gamma| / sqrt(eps), without variance: true, but large"
    return NormBracket(lower, upper * (1 + ROUNDING), how=how)


@_rule("rms_norm")
def rms_norm(step: Step, x: Tensor) -> NormBracket | None:
    """x / sqrt(mean x^2 + eps) gamma: steepest at 0."""
    gamma, eps = option(step, 2, "weight", None), option(step, 3, "eps", None)
    if isinstance(gamma, Ref):
        return None
    scale = 1.0 if gamma is None else float(gamma.detach().abs().max())
    # Without eps torch takes that of the type; in 16 bits maybe that of single precision.
    ends = [torch.finfo(x.dtype).eps, min(torch.finfo(d).eps for d in (x.dtype, torch.float32))]
    if eps is not None:
        ends = [float(eps), float(eps)]
    if ends[0] <= 0:
        return NormBracket(0.0, math.inf, how=_NO_EPS)
    lower, upper = (scale / math.sqrt(end) for end in ends)
    how = "max |gamma| / sqrt(eps), at 0: true, but large"
    return NormBracket(lower * (1 - ROUNDING), upper * (1 + ROUNDING), how=how)


@_rule("normalize")
def normalize(step: Step, x: Tensor) -> NormBracket | None:
    """x / max(|x|, eps): x / eps near 0, and flatter further out."""
    eps = float(option(step, 3, "eps", 1e-12))
    if option(step, 1, "p", 2.0) != 2 or option(step, 4, "out", None) is not None:
        return None
    if eps <= 0:
        return NormBracket(0.0, math.inf, how=_NO_EPS)
    return exactly(1 / eps, "1 / eps, at 0: true, but large")


@_rule(*_POOLS)
def max_pool(step: Step, x: Tensor) -> NormBracket:
    """Maxima of windows: an entry that is the largest of all shows in each window it is in."""
    dims = int(step.name.split("pool")[1][0])
    by_axis = partial(_each_axis, dims=dims)
    kernel, stride = option(step, 1, "kernel_size", 1), option(step, 2, "stride", None)
    apart = by_axis(kernel if stride is None or stride in ([], ()) else stride)
    padding = by_axis(option(step, 3, "padding", 0))
    spaced = by_axis(option(step, 4, "dilation", 1))
    most = 1  # windows that an entry is in
    sides = zip(x.shape[-dims:], step.value.shape[-dims:], strict=True)
    for axis, (length, count) in enumerate(sides):
        if step.name.startswith("adaptive"):
            windows = [
                range(w * length // count, -(-(w + 1) * length // count)) for w in range(count)
            ]
        else:
            starts = (w * apart[axis] - padding[axis] for w in range(count))
            reach = by_axis(kernel)[axis] * spaced[axis]
            windows = [range(start, start + reach, spaced[axis]) for start in starts]
        counts = Counter(place for window in windows for place in window if 0 <= place < length)
        # Windows are products of intervals: their counts along the axes multiply.
        most *= max(counts.values(), default=1)
    if most == 1:
        return unit_bracket("maxima of windows that do not overlap")
    return exactly(most**0.5, "maxima: root of the most windows that an entry is in")


@_rule(*_TRANSFORMS)
def fourier(step: Step, x: Tensor) -> NormBracket | None:
    """Discrete Fourier transforms are unitary times a power of their length.

    Padding with zeros up to `n` or `s` keeps lengths of vectors, and cutting lowers them.
    """
    inverse, halved = step.name.startswith("i"), "rfft" in step.name
    sizes = option(step, 1, "s" if step.name[-1] in "2n" else "n", None)
    if (dims := option(step, 2, "dim", None)) is None:
        last = len(sizes) if isinstance(sizes, list | tuple) else x.ndim
        dims = {"2": (-2, -1), "n": tuple(range(-last, 0))}.get(step.name[-1], -1)
    axes = list(dims) if isinstance(dims, list | tuple) else [dims]
    lengths = [step.value.shape[axis] for axis in axes]  # but for half spectra, those transformed
    if halved and not inverse:
        length = sizes[-1] if isinstance(sizes, list | tuple) else sizes
        lengths[-1] = x.shape[axes[-1]] if length in (None, -1) else length
    norm = option(step, 3, "norm", None) or "backward"
    # By torch: "backward" scales the inverse by 1 / n, "forward" the transform.
    power = 0.0 if norm == "ortho" else 0.5 if inverse is (norm == "forward") else -0.5
    upper = math.prod(lengths) ** power
    if halved:  # half of the spectrum counts twice in the inverse, once in the transform
        upper *= math.sqrt(2) if inverse else 1.0
        return NormBracket(0.0, upper * (1 + ROUNDING), how="Fourier transform, half spectrum")
    if sizes is not None:
        return NormBracket(0.0, upper * (1 + ROUNDING), how="Fourier transform, padded or cut")
    return exactly(upper, "Fourier transform: unitary times its scale")


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
        basic = all(isinstance(entry, int | slice | EllipsisType | None) for entry in index)
        return basic and not any(isinstance(entry, bool) for entry in index)
    arguments = (*step.args, *step.kwargs.values())
    if step.name == "view" and any(isinstance(argument, torch.dtype) for argument in arguments):
        return False  # the same memory as numbers of another kind
    return step.name in _FOLDED


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
        if isinstance(module, DataConsistency):
            return _consistency(step, module)
        return Gain(module.on_box(-math.inf, math.inf)) if isinstance(module, Burgers) else None
    bracket: NormBracket | None = None
    if folded(step):
        bracket = unit_bracket("rearranges or selects entries")
    elif name == "complex" and (spread := _spread(step, x)) > 1:
        bracket = exactly(spread, "repeated beside constants")
    elif name in _CONCATENATES:
        bracket = unit_bracket("put beside constants")
    elif name in SIGNS:
        bracket = unit_bracket("changes signs")
    elif name in _ADDING:
        bracket = _added_constant(step, x)
    elif name in CONSTANTS:
        # If the value is the argument and of the number type that the rule is about.
        first = bool(step.args) and isinstance(step.args[0], Ref)
        either = name in _MAXIMA and len(step.args) == 2
        real = not (x.is_complex() or step.value.is_complex())
        if (first or either) and (real or name in _COMPLEX):
            bracket = CONSTANTS[name](step, x)
        scales = name == "batch_norm" and not _takes_statistics(step)
        return None if bracket is None else Gain(bracket, linear=scales)
    elif name in _LINEAR:
        bracket = _linear(step, x)
    else:
        _refuse_attention(step)
    return None if bracket is None else Gain(bracket, linear=True)


def join(step: Step, parents: Sequence[Tensor], constants: Sequence[float]) -> float | None:
    """A constant of a step with several inputs, from the constants of those; None: no rule."""
    _refuse_attention(step)
    if any(isinstance(argument, Ref) for argument in step.kwargs.values()):
        return None  # in an order that is not known
    pairs = zip(parents, constants, strict=True)
    spread = [constant * _spread(step, parent) for parent, constant in pairs]
    if step.name in _ADDING and is_number(alpha := option(step, 2, "alpha", 1)):
        # x - alpha y has the constants 1 and |alpha|; rsub swaps them.
        first = abs(alpha) if "rsub" in step.name else 1.0
        second = 1.0 if "rsub" in step.name else abs(alpha)
        return first * spread[0] + second * sum(spread[1:])
    if step.name in _MAXIMA or step.name == "complex" or _chooses(step):
        return math.hypot(*spread)
    if step.name in _CONCATENATES:
        return math.hypot(*constants)
    if _writes(step):
        # A value that is written to several places counts as often.
        written = torch.empty(step.value.shape)[step.args[1]].numel()
        times = math.sqrt(max(1.0, written / max(parents[1].numel(), 1)))
        return math.hypot(constants[0], constants[1] * times)
    return None


def _spread(step: Step, x: Tensor) -> float:
    """How much longer a value becomes where a step repeats it to the shape of its result."""
    return math.sqrt(max(1.0, step.value.numel() / max(x.numel(), 1)))


def _writes(step: Step) -> bool:
    """Whether a step writes a value into another, at places that no value decides."""
    if step.name != "__setitem__" or len(step.parents) != 2:
        return False
    return isinstance(step.args[0], Ref) and isinstance(step.args[2], Ref)


def _chooses(step: Step) -> bool:
    """Whether a step takes each entry from one of two values, by a mask that no value decides."""
    return step.name == "where" and [isinstance(arg, Ref) for arg in step.args] == [0, 1, 1]


def slopes(step: Step, upper: float) -> tuple[float, float] | None:
    """Between which slopes a function lies that is bent, entry by entry; None: not known."""
    if step.name in _RISING:
        return 0.0, upper
    if step.name in _MIRRORED:
        return 1 - upper, upper
    if step.name == "mish":
        return MISH_LOWEST, upper
    if step.name in ("leaky_relu", "prelu", "elu"):
        # Between the slope below 0, of the steepest channel, and 1 above.
        values = _as_constant(option(step, 1, *_BELOW[step.name])).double()
        lowest = 0.0 if step.name == "elu" else 1.0  # elu's slope falls to 0
        return min(lowest, float(values.min())), upper
    return None


def is_maximum(step: Step) -> bool:
    """Whether a step is the maximum or minimum of two values, entry by entry."""
    places = len(step.args) == 2 and all(isinstance(argument, Ref) for argument in step.args)
    return step.name in _MAXIMA and places and not (step.kwargs or step.value.is_complex())


def adds(step: Step) -> bool:
    """Whether a step with several inputs adds up what each of them gives."""
    return step.name in _ADDING or isinstance(step.module, DataConsistency)


def joins_linearly(step: Step) -> bool:
    """Whether a step with several inputs is linear in all of them together."""
    return attains(step) or _writes(step) or _chooses(step)


def attains(step: Step) -> bool:
    """Whether a step with several inputs passes every entry of each on, so none is lost."""
    return step.name in _ADDING or step.name in _CONCATENATES


def _added_constant(step: Step, x: Tensor) -> NormBracket | None:
    alpha = option(step, 2, "alpha", 1)
    if not (is_number(alpha) and len(step.args) == 2 and step.value.numel() == x.numel()):
        return _by_function(step, x)
    # alpha is the factor of the second argument, or of the first in rsub.
    on_second = isinstance(step.args[0], Ref) is ("rsub" in step.name)
    factor = abs(float(alpha)) if on_second else 1.0
    return unit_bracket("adds a constant") if factor == 1 else exactly(factor, "adds a constant")


def _linear(step: Step, x: Tensor) -> NormBracket | None:
    first, second = (*step.args, None, None)[:2]
    constant = second if isinstance(first, Ref) else first
    if step.name in ("linear", "matmul", "__matmul__", "mm", "mv"):
        dense = isinstance(constant, Tensor) and constant.layout == torch.strided
        if dense and constant.ndim == 2 and not isinstance(option(step, 2, "bias", None), Ref):
            return matrix_norm(constant)
    if step.name in ("mul", "multiply", "__mul__", "__rmul__", "div", "divide", "true_divide"):
        rounded = option(step, 2, "rounding_mode", None) is not None
        if "div" in step.name and (rounded or not isinstance(first, Ref)):
            return None  # or a constant divided by x
        if step.value.shape == x.shape and (is_number(constant) or isinstance(constant, Tensor)):
            values = _as_constant(constant)
            # The norm of a diagonal matrix.
            size = (values.abs() if values.is_complex() else values).double().abs()
            largest = float(1 / size.min() if "div" in step.name else size.max())
            if not math.isfinite(largest):
                return NormBracket(0.0, math.inf, how="divides by zero")
            return NormBracket(largest, largest, how="largest |factor|")
    return _by_function(step, x)


def _by_function(step: Step, x: Tensor) -> NormBracket | None:
    (parent,) = step.parents

    # A solve is linear in the right-hand side alone, not in the matrix.
    matrix = (1, "input2") if step.name == "cholesky_solve" else (0, "A")
    if "solve" in step.name and isinstance(option(step, *matrix, None), Ref):
        return None

    def function(value: Tensor) -> Tensor:  # complex numbers as pairs of real ones
        image = step.replay({parent: torch.view_as_complex(value) if pairs else value}, double=True)
        return torch.view_as_real(image) if image.is_complex() else image

    if pairs := x.is_complex():
        x = torch.view_as_real(x)
    resized = step.name == "interpolate" and option(step, 3, "mode", "nearest") != "bicubic"
    nonnegative = resized or step.name in _NONNEGATIVE
    most = _convolution_upper(step, x)
    return linear.function_norm(function, x, nonnegative=nonnegative, most=most)


def _convolution_upper(step: Step, x: Tensor) -> float:
    """The norm of a convolution's Fourier symbol; infinite for anything else."""
    matched = _CONVOLUTION.fullmatch(step.name)
    if matched is None or len(step.parents) != 1 or not isinstance(step.args[0], Ref):
        return math.inf
    weight, dims = option(step, 1, "weight", None), int(matched[2])
    if not isinstance(weight, Tensor) or weight.is_complex() or x.is_complex():
        return math.inf
    # A transposed convolution takes output_padding and groups before dilation.
    places = {"groups": 6, "dilation": 7} if matched[1] else {"dilation": 5, "groups": 6}
    stride = _each_axis(option(step, 3, "stride", 1), dims)
    dilation = _each_axis(option(step, places["dilation"], "dilation", 1), dims)
    groups = int(option(step, places["groups"], "groups", 1))
    # A transposed convolution is the adjoint of one that takes its output.
    lengths = (step.value if matched[1] else x).shape[-dims:]
    return linear.symbol_norm(weight, lengths, stride, dilation, groups)


def _each_axis(value: Axes, dims: int) -> tuple[int, ...]:
    """One number for each axis."""
    several = (value,) if isinstance(value, int) else tuple(value)
    return several * dims if len(several) == 1 else several


def _consistency(step: Step, module: DataConsistency) -> Gain:
    """The constant in the image, in the data, or in both together as one vector."""
    followed = [isinstance(option(step, *place, None), Ref) for place in ((0, "z"), (1, "y"))]
    norms = module.image_norm, module.data_norm
    brackets = [norm() for norm, moves in zip(norms, followed, strict=True) if moves]
    if len(brackets) == 1:
        return Gain(brackets[0])
    upper = math.hypot(*(bracket.upper for bracket in brackets)) * (1 + ROUNDING)
    return Gain(NormBracket(0.0, upper, how="data consistency: of the image and of the data"))


def _as_constant(value: Tensor | float) -> Tensor:
    """A tensor as it is, or a number with all its digits: torch would round it to its default."""
    return value.detach() if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)


def is_number(value: object) -> TypeGuard[float]:
    """Whether an argument is a number, and no flag."""
    return isinstance(value, int | float) and not isinstance(value, bool)
