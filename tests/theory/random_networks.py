"""Random networks that can be run, so that bounds can be held against true errors."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import korisk as kr

Array = NDArray[np.float64]
Map = Callable[[Array], Array]  # (points, in) -> (points, out)


@dataclass(frozen=True)
class Matrix:
    """A linear map that knows its exact norm and can be composed."""

    weights: Array  # (out, in)

    def norm(self) -> kr.theory.NormBracket:
        value = float(np.linalg.norm(self.weights, 2))
        return kr.theory.NormBracket(value, value, how="SVD")

    def __matmul__(self, inner: "Matrix") -> "Matrix":
        return Matrix(self.weights @ inner.weights)

    def __call__(self, x: Array) -> Array:
        return x @ self.weights.T


@dataclass(frozen=True)
class Runnable:
    """A described network, the error it really makes, and the error that each layer makes."""

    net: kr.Network
    error: float
    layer_risks: list[float]
    rounding: float  # that the root of `error` may have: saturated layers give tiny differences


def run(kinds: list[str], roles: list[str], *, stated: bool, seed: int) -> Runnable:
    """Build u and û layer by layer, follow a random population through both, and describe them.

    `kinds` are linear, relu or tanh; `roles` are learned, known or mismatched. Compositions of
    linear runs are stated as numbers if `stated`, else left to the operators.
    """
    rng = np.random.default_rng(seed)
    true = x = rng.standard_normal((12, rng.integers(1, 6))) * np.exp(rng.normal())
    layers: list[kr.theory.Layer] = []
    matrices: list[Matrix | None] = []
    risks: list[float] = []
    rounding = 0.0
    for number, (kind, role) in enumerate(zip(kinds, roles, strict=True)):
        exact, approximate = _pair(kind, x.shape[1], rng)
        learned = exact if role == "known" else approximate
        risk = float(np.mean(np.sum((exact(x) - learned(x)) ** 2, axis=1)))
        constant: kr.theory.HasNorm | float = 1.0
        matrices.append(exact if isinstance(exact, Matrix) else None)
        if isinstance(exact, Matrix):
            constant = exact.norm().upper if stated else exact
        name = f"u{number}"
        if role == "learned":
            layers.append(kr.Learned(name, lipschitz=constant, parameters=1))
        else:
            layers.append(kr.Known(name, lipschitz=constant, mismatch=risk))
        risks.append(risk)
        true, x = exact(true), learned(x)
        steepest = exact.norm().upper if isinstance(exact, Matrix) else 1.0
        rounding = steepest * rounding + 16 * np.finfo(float).eps * float(np.linalg.norm(x))
    net = kr.Network(layers, compositions=_linear_runs(matrices) if stated else ())
    return Runnable(net, float(np.mean(np.sum((true - x) ** 2, axis=1))), risks, rounding)


def _pair(kind: str, width: int, rng: np.random.Generator) -> tuple[Map, Map]:
    change = np.exp(rng.uniform(-7, 1))
    if kind == "linear":
        weights = rng.standard_normal((rng.integers(1, 6), width)) * np.exp(rng.normal(0, 0.7))
        return Matrix(weights), Matrix(weights + change * rng.standard_normal(weights.shape))
    if kind == "relu":
        return _relu, lambda x: np.where(x > 0, x, change * x)
    return np.tanh, lambda x: np.tanh((1 + change) * x)


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _linear_runs(matrices: list[Matrix | None]) -> list[kr.theory.Composition]:
    found = []
    for first in range(len(matrices)):
        product = matrices[first]
        for last in range(first + 1, len(matrices)):
            outer = matrices[last]
            if product is None or outer is None:
                break
            product = outer @ product
            constant = product.norm().upper
            found.append(kr.theory.Composition(f"u{first}", f"u{last}", lipschitz=constant))
    return found
