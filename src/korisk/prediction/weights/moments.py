"""What the learning curve of a structured layer is made of, from a handful of examples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import KoriskError
from korisk.fitting.ridge.diagonal import gram_fits, tail_gram
from korisk.fitting.scores import flat
from korisk.operators import LinearOperator
from korisk.prediction.dense.spectral import ROUNDING
from korisk.prediction.weights.optimism import held_back
from korisk.prediction.weights.pairs import Pairs
from korisk.prediction.weights.resolvent import Factored, Iterated, Normal, Resolvent, Whole
from korisk.prediction.weights.structured import Measure, Spread, Structured

Toward = Literal["analytic", "zero"]
TOWARD: tuple[Toward, ...] = ("analytic", "zero")
Progress = Callable[[float], None]  # of the share that is done

FEWEST = 8  # examples
_LARGEST_WHOLE = 3072  # weights up to which all eigenvectors are quicker than Lanczos
_LARGEST_STORED = 8192  # weights up to which B^T B is worth its time, where nobody has it


def structured_from_pairs(
    tail: LinearOperator,
    weights: Tensor,
    inputs: Tensor,
    targets: Tensor,
    *,
    toward: Toward = "analytic",
    relu: bool,
    gram: Tensor | None = None,
    progress: Progress | None = None,
) -> Structured:
    """The learning curve of w in `tail(w * x)` from n examples: see `Structured`.

    `weights` are the analytic ones, of the tail's domain, `inputs` (n, *domain) with their noise
    and `targets` (n, *range). `gram` is B^T B where someone has it (see `tail_gram`). Up to 8,192
    weights the normal matrix is stored, beyond that products with it go through the operators.

    Notes
    -----
    The examples are fitted once, without a lambda. Residuals of that fit are too small: those of
    example k are r_k = (1 - L_k) s_k with L_k = B D_k (n G)^-1 D_k B^T and s_k what a fit to the
    others would leave. The floor and the gradients are made of <r_k, s_k>, which has the
    expectation of noise of equal size everywhere (known as HC2). A ReLU stands behind a fit that
    does not know it, so it passes a share of each change: that of its active set. Where no normal
    matrix is stored, both corrections come from fits to halves of the examples instead.
    """
    _check(tail, weights, inputs, targets, toward)
    report = progress or (lambda share: None)
    with torch.no_grad():
        placed = [each.to(tail.device, tail.dtype) for each in (weights, inputs, targets)]
        analytic, examples = placed[0], Pairs(tail, placed[1], placed[2], relu)
        _check_sizes(analytic, examples)
        start = analytic if toward == "analytic" else torch.zeros_like(analytic)
        normal = Normal(tail, examples.inputs, _gram(tail, gram))
        report(0.2)
        resolvent = _resolvent(normal)
        report(0.5)
        found = _structured(examples, analytic, start, normal, resolvent, report)
    report(1.0)
    return found


def _structured(
    examples: Pairs,
    analytic: Tensor,
    start: Tensor,
    normal: Normal,
    resolvent: Resolvent,
    report: Progress,
) -> Structured:
    pull = normal.gathered(examples.gradients(examples.residuals(start)).mean(0, keepdim=True))
    way, pulled = resolvent.both(pull)
    fitted = start - normal.spread(way)[0]
    residuals = examples.residuals(fitted)
    gradients = normal.gathered(examples.gradients(residuals))
    noise = resolvent.measure(gradients)
    share = examples.passed(fitted, normal, resolvent, gradients)
    report(0.7)
    slope = float(np.sum(noise.weights / noise.values))
    held = held_back(examples, residuals, start, normal, resolvent, slope)
    noise = Measure(noise.values, noise.weights * held.gradients)
    losses = examples.losses(fitted)
    at_start = float(examples.losses(start).mean())
    floor = min(float(losses.mean()) + share * held.loss, at_start)
    report(0.9)
    # As of the dense layer; targets of zeros alone have no size.
    energy = float(flat(examples.targets).double().square().sum(1).mean())
    least = max(ROUNDING * energy, 1e-200)
    floor = floor if floor > least else 0.0
    entries = math.prod(examples.tail.range)
    return Structured(
        spectrum=resolvent.spectrum(),
        pull=pulled,
        noise=noise,
        leverages=held.leverages,
        share=share,
        floor=floor / entries,
        start=at_start / entries,
        analytic=float(examples.losses(analytic).mean()) / entries,
        entries=entries,
        parameters=math.prod(examples.tail.domain),
        examples=len(examples),
        spread=Spread(_log_spread(losses), _log_spread(gradients.double().square().sum(1))),
        least=least / entries,
    )


def _log_spread(values: Tensor) -> float:
    """The standard deviation of the logarithm of a mean of these, by the jackknife's first term."""
    mean = float(values.mean())
    return float(values.std()) / math.sqrt(len(values)) / mean if mean else 0.0


def _gram(tail: LinearOperator, gram: Tensor | None) -> Tensor | None:
    weights = math.prod(tail.domain)
    if gram is not None:
        if tuple(gram.shape) != (weights, weights):
            raise KoriskError(
                f"gram must have shape {(weights, weights)}, got {tuple(gram.shape)}; "
                "use tail_gram(tail)"
            )
        return gram.to(tail.device)
    return tail_gram(tail) if weights <= _LARGEST_STORED and gram_fits(tail) else None


def _resolvent(normal: Normal) -> Resolvent:
    if normal.matrix is None:
        return Iterated(normal)
    return Whole(normal) if len(normal.active) <= _LARGEST_WHOLE else Factored(normal)


def _check_sizes(weights: Tensor, examples: Pairs) -> None:
    """Refuse numbers whose squares are none in the tail's precision."""
    named = {"weights": weights, "inputs": examples.inputs, "targets": examples.targets}
    for name, value in named.items():
        if not bool(value.square().sum().isfinite()):
            raise KoriskError(
                f"{name} must have squares that {value.dtype} holds, got numbers up to "
                f"{float(value.abs().max()):.3g}; bring them to a reasonable size"
            )


def _check(
    tail: LinearOperator, weights: Tensor, inputs: Tensor, targets: Tensor, toward: str
) -> None:
    _checks.one_of("toward", toward, TOWARD)
    named = {"weights": weights, "inputs": inputs, "targets": targets}
    for name, value in named.items():
        if not isinstance(value, Tensor):
            raise KoriskError(
                f"{name} must be a torch tensor, got {type(value).__name__}; "
                "convert arrays with torch.as_tensor"
            )
    shapes = (tuple(inputs.shape[1:]), tuple(targets.shape[1:]))
    if shapes != (tail.domain, tail.range):
        raise KoriskError(
            f"examples must map {tail.domain} to {tail.range}, got inputs of shape {shapes[0]} and "
            f"targets of {shapes[1]}; the first dimension counts the examples"
        )
    if tuple(weights.shape) != tail.domain:
        raise KoriskError(
            f"weights must have an input's shape {tail.domain}, got {tuple(weights.shape)}; "
            "one for each entry of an input"
        )
    if len(inputs) != len(targets):
        raise KoriskError(
            f"inputs and targets must be as many, got {len(inputs)} and {len(targets)}; "
            "each input has its target"
        )
    if len(inputs) < FEWEST:
        raise KoriskError(
            f"examples must be {FEWEST} or more, got {len(inputs)}; fewer say too little about "
            "how images differ"
        )
    for name, value in named.items():
        if not bool(torch.isfinite(value).all()):
            raise KoriskError(
                f"{name} must be finite numbers, got NaN or infinities; leave such samples out"
            )
    if not bool(inputs.any()):
        raise KoriskError("inputs must not be zero in every entry, got zeros alone; measure again")
