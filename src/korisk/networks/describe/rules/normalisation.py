"""Constants of normalisation: by running statistics, and by those of the input."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from korisk.networks.describe.rules.brackets import ROUNDING, exactly, option
from korisk.networks.describe.trace.steps import Ref, Step
from korisk.theory.bracket import NormBracket

_NO_EPS = "normalisation without eps has no Lipschitz constant"


def batch_norm(step: Step, x: Tensor) -> NormBracket | None:
    """After training a diagonal matrix; without running statistics as the others."""
    if step.function is not F.batch_norm:  # torch.batch_norm has another order
        return None
    mean, variance = option(step, 1, "running_mean", None), option(step, 2, "running_var", None)
    gamma = option(step, 3, "weight", None)
    eps = float(option(step, 7, "eps", 1e-5))
    if any(isinstance(given, Ref) for given in (mean, variance, gamma)):
        return None
    if variance is None or bool(option(step, 5, "training", False)):
        return _normalised(gamma, x.numel() // x.shape[1], eps)
    factor = torch.rsqrt(variance.detach().double() + eps)
    if gamma is not None:
        factor = factor * gamma.detach().double()
    return exactly(float(factor.abs().max()), "max |gamma| / sqrt(var + eps)")


def instance_norm(step: Step, x: Tensor) -> NormBracket | None:
    """Each channel of each sample for itself."""
    if step.function is not F.instance_norm:  # torch.instance_norm has another order
        return None
    variance, gamma = option(step, 2, "running_var", None), option(step, 3, "weight", None)
    eps = float(option(step, 7, "eps", 1e-5))
    if isinstance(gamma, Ref):
        return None
    if variance is not None and not bool(option(step, 5, "use_input_stats", True)):
        factor = torch.rsqrt(variance.detach().double() + eps)
        scale = 1.0 if gamma is None else gamma.detach().double()
        return exactly(float((factor * scale).abs().max()), "max |gamma| / sqrt(var + eps)")
    return _normalised(gamma, math.prod(x.shape[2:]), eps)


def layer_norm(step: Step, x: Tensor) -> NormBracket | None:
    """The last axes together."""
    shape = option(step, 1, "normalized_shape", ())
    gamma, eps = option(step, 2, "weight", None), float(option(step, 4, "eps", 1e-5))
    return None if isinstance(gamma, Ref) else _normalised(gamma, math.prod(shape), eps)


def group_norm(step: Step, x: Tensor) -> NormBracket | None:
    """Groups of channels together."""
    groups = int(option(step, 1, "num_groups", 1))
    gamma, eps = option(step, 2, "weight", None), float(option(step, 4, "eps", 1e-5))
    return None if isinstance(gamma, Ref) else _normalised(gamma, x[0].numel() // groups, eps)


def rms_norm(step: Step, x: Tensor) -> NormBracket | None:
    """x / sqrt(mean x^2 + eps) gamma: steepest at 0."""
    gamma, eps = option(step, 2, "weight", None), option(step, 3, "eps", None)
    if isinstance(gamma, Ref):
        return None
    scale = 1.0 if gamma is None else float(gamma.detach().abs().max())
    how = "max |gamma| / sqrt(eps), at 0: true, but large"
    if eps is None:  # in 16 bits torch may take the eps of its own, single precision
        own = torch.finfo(x.dtype).eps
        inner = min(own, torch.finfo(torch.float32).eps)
        ends = scale / math.sqrt(own), scale / math.sqrt(inner)
        return NormBracket(ends[0] * (1 - ROUNDING), ends[1] * (1 + ROUNDING), how=how)
    if float(eps) <= 0:
        return NormBracket(0.0, math.inf, how=_NO_EPS)
    return exactly(scale / math.sqrt(float(eps)), how)


def _normalised(gamma: Tensor | None, entries: int, eps: float) -> NormBracket:
    """(x - mean) / sqrt(var + eps) gamma: steepest where all entries are alike."""
    if eps <= 0:
        return NormBracket(0.0, math.inf, how=_NO_EPS)
    if entries == 1:
        return NormBracket(0.0, 0.0, how="one entry normalised is constant")
    upper = (1.0 if gamma is None else float(gamma.detach().abs().max())) / math.sqrt(eps)
    lower = upper * math.sqrt(1 - 1 / entries) * (1 - ROUNDING)
    how = "max |gamma| / sqrt(eps), without variance: true, but large"
    return NormBracket(lower, upper * (1 + ROUNDING), how=how)
