"""Lipschitz constants that are known in closed form, each with its reason.

A rule takes a call and gives a bracket, or None where its options leave nothing known.
docs/reference/describe.md has the table with the derivations.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

from korisk.networks.describe.rules import normalisation
from korisk.networks.describe.rules.brackets import Rule, exactly, one, option
from korisk.networks.describe.rules.windows import adaptive_max_pool, fourier, max_pool
from korisk.networks.describe.trace.steps import Step
from korisk.theory.bracket import NormBracket

# The largest |f'|: GELU at sqrt 2 in closed form, the others by maximisation to all digits shown.
GELU = (1 + math.erf(1)) / 2 + 1 / (math.e * math.sqrt(math.pi))
GELU_TANH = 1.128993068659
SILU = 1.099839320129
MISH = 1.088498161252
SELU = 1.0507009873554805 * 1.6732632423543772


def _slope(value: float) -> Rule:
    def rule(step: Step, x: Tensor) -> NormBracket | None:
        if step.value.numel() > x.numel():  # spread against a larger constant
            return None
        how = f"largest slope of {step.name}"
        return one(how) if value == 1 else exactly(value, how)

    return rule


def _gelu(step: Step, x: Tensor) -> NormBracket:
    tanh = option(step, 1, "approximate", "none") == "tanh"
    return exactly(GELU_TANH if tanh else GELU, "largest slope of GELU")


def _leaky(default: float) -> Rule:
    def rule(step: Step, x: Tensor) -> NormBracket:
        below = abs(float(option(step, 1, "negative_slope", default)))
        return exactly(max(1.0, below), "largest slope, max(1, |negative slope|)")

    return rule


def _rrelu(step: Step, x: Tensor) -> NormBracket:
    ends = option(step, 1, "lower", 1 / 8), option(step, 2, "upper", 1 / 3)
    random = bool(option(step, 3, "training", False))
    below = max(map(abs, ends)) if random else abs(sum(ends) / 2)
    return NormBracket(1.0, max(1.0, below), how="largest slope, max(1, |negative slope|)")


def _prelu(step: Step, x: Tensor) -> NormBracket | None:
    weight = option(step, 1, "weight", None)
    if not isinstance(weight, Tensor):  # it comes from the input itself
        return None
    below = float(weight.detach().abs().max())
    return exactly(max(1.0, below), "largest slope, max(1, |negative slope|)")


def _elu(step: Step, x: Tensor) -> NormBracket | None:
    if step.function is not F.elu and (len(step.args) > 2 or step.kwargs.keys() - {"alpha"}):
        return None  # torch's inner one has more scales
    alpha = abs(float(option(step, 1, "alpha", 1.0)))
    return exactly(max(1.0, alpha), "largest slope of ELU, max(1, |alpha|)")


def _celu(step: Step, x: Tensor) -> NormBracket | None:
    return _slope(1.0)(step, x) if float(option(step, 1, "alpha", 1.0)) > 0 else None


def _softplus(step: Step, x: Tensor) -> NormBracket | None:
    # Beyond its threshold torch takes the identity, which jumps unless the threshold is large.
    return _slope(1.0)(step, x) if float(option(step, 2, "threshold", 20.0)) >= 15 else None


def _norm(step: Step, x: Tensor) -> NormBracket | None:
    kind = option(step, 1, "p", step.kwargs.get("ord"))  # torch.norm says p, torch.linalg ord
    return one("Euclidean norm") if kind in (None, 2, "fro") else None


def _threshold(step: Step, x: Tensor) -> NormBracket:
    at, below = option(step, 1, "threshold", 0.0), option(step, 2, "value", 0.0)
    if at == below:
        return one("largest slope of a threshold that does not jump")
    return NormBracket(1.0, math.inf, how="a threshold that jumps has no Lipschitz constant")


def _hardshrink(step: Step, x: Tensor) -> NormBracket:
    if option(step, 1, "lambd", 0.5) == 0:
        return one("the identity's")
    return NormBracket(1.0, math.inf, how="hardshrink jumps: it has no Lipschitz constant")


def _dim_length(step: Step, x: Tensor) -> int:
    dim = option(step, 1, "dim", None)
    if dim is None:
        dim = 0 if x.ndim in (0, 1, 3) else 1  # as torch chooses, with a warning
    return x.shape[dim] if x.ndim else 1


def _softmax(step: Step, x: Tensor) -> NormBracket:
    if _dim_length(step, x) == 1:
        return NormBracket(0.0, 0.0, how="softmax of one entry is constant")
    return exactly(0.5, "softmax: |diag(p) - p p^T| <= 1/2")


def _log_softmax(step: Step, x: Tensor) -> NormBracket:
    length = _dim_length(step, x)
    if length == 1:
        return NormBracket(0.0, 0.0, how="log-softmax of one entry is constant")
    return exactly(math.sqrt(length), "log-softmax: |I - 1 p^T| < sqrt(entries)")


def _dropout(step: Step, x: Tensor) -> NormBracket:
    if not option(step, 2, "training", True):
        return one("dropout is the identity after training")
    if "alpha" in step.name:
        return NormBracket(0.0, math.inf, how="alpha dropout that stays on: no rule")
    kept = 1 - float(option(step, 1, "p", 0.5))
    upper = 1 / kept if kept > 0 else 0.0
    return NormBracket(0.0, upper, how="dropout that stays on: 1 / (1 - p) where kept")


def _erf(step: Step, x: Tensor) -> NormBracket:
    return exactly(2 / math.sqrt(math.pi), "largest slope of erf, at 0")


_SLOPE_ONE = (
    "relu relu6 tanh hardtanh softsign tanhshrink softshrink logsigmoid clamp clip "
    "clamp_min clamp_max abs absolute sin cos arctan atan asinh arcsinh "
    "logsumexp amax amin sort topk median max min maximum minimum fmax fmin"
)
_DIMS = ("", "1d", "2d", "3d")

CONSTANTS: dict[str, Rule] = {
    **dict.fromkeys(_SLOPE_ONE.split(), _slope(1.0)),
    "celu": _celu,
    "softplus": _softplus,
    "norm": _norm,
    "vector_norm": _norm,
    "leaky_relu": _leaky(0.01),
    "rrelu": _rrelu,
    "prelu": _prelu,
    "elu": _elu,
    "selu": _slope(SELU),
    "gelu": _gelu,
    "silu": _slope(SILU),
    "mish": _slope(MISH),
    "sigmoid": _slope(0.25),
    "expit": _slope(0.25),
    "hardsigmoid": _slope(1 / 6),
    "hardswish": _slope(1.5),
    "erf": _erf,
    "threshold": _threshold,
    "hardshrink": _hardshrink,
    "softmax": _softmax,
    "softmin": _softmax,
    "log_softmax": _log_softmax,
    **dict.fromkeys(
        (f"{kind}dropout{d}" for kind in ("", "alpha_", "feature_alpha_") for d in _DIMS), _dropout
    ),
    "batch_norm": normalisation.batch_norm,
    "instance_norm": normalisation.instance_norm,
    "layer_norm": normalisation.layer_norm,
    "group_norm": normalisation.group_norm,
    "rms_norm": normalisation.rms_norm,
    **{f"max_pool{d}d": max_pool(d) for d in (1, 2, 3)},
    **{f"max_pool{d}d_with_indices": max_pool(d) for d in (1, 2, 3)},
    **{f"adaptive_max_pool{d}d": adaptive_max_pool(d) for d in (1, 2, 3)},
    **{f"adaptive_max_pool{d}d_with_indices": adaptive_max_pool(d) for d in (1, 2, 3)},
    **{f"fft{k}": fourier(False, False) for k in ("", "2", "n")},
    **{f"ifft{k}": fourier(True, False) for k in ("", "2", "n")},
    **{f"rfft{k}": fourier(False, True) for k in ("", "2", "n")},
    **{f"irfft{k}": fourier(True, True) for k in ("", "2", "n")},
}
