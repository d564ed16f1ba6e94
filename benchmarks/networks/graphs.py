"""True errors of random networks with skips against the bounds of graphs.

python -m benchmarks.networks.graphs [--graphs 3000] [--out benchmarks/results/graphs.json]

Each network has up to 12 layers, that take one, two or three earlier values, some of them with
the weights of an earlier one. Every layer errs, in the directions in which the errors of all
layers add up best at the output. Beside the bounds stands what the theory of chains can say: a
layer maps all values that are still needed, as one vector, to the next ones.
"""

import argparse
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import korisk as kr
from benchmarks.markdown import header, line
from korisk.theory.bound import evaluate

Array = NDArray[np.float64]
MOST = 12  # layers
ROUNDING = 1e-9  # relative, of errors that are differences of numbers a thousand times as large
KINDS = ("linear", "linear", "relu", "tanh", "again", "add", "add", "joined", "cat")
RELUS: dict[str, Callable[[Array], Array]] = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}


@dataclass(frozen=True)
class Matrix:
    """A linear map that knows its norm, and can be composed and added."""

    weights: Array  # (out, in)

    def norm(self) -> kr.theory.NormBracket:
        """The largest singular value."""
        value = float(np.linalg.norm(self.weights, 2))
        return kr.theory.NormBracket(value, value, how="SVD")

    def __matmul__(self, inner: "Matrix") -> "Matrix":
        return Matrix(self.weights @ inner.weights)

    def __add__(self, other: "Matrix") -> "Matrix":
        return Matrix(self.weights + other.weights)


@dataclass(frozen=True)
class Graph:
    """A network that can be run with an error added to the value of each layer."""

    net: kr.Network
    takes: list[tuple[int, ...]]  # values, 0 being the input
    maps: list[Callable[[list[Array]], Array]]
    widths: list[int]  # of the values of layers
    entering: int  # the width of the input

    def output(self, x: Array, errors: list[Array]) -> Array:
        """The value of the last layer."""
        values = [x]
        for takes, apply, error in zip(self.takes, self.maps, errors, strict=True):
            values.append(apply([values[place] for place in takes]) + error)
        return values[-1]

    def worst(self, x: Array, sizes: Array, rng: np.random.Generator) -> list[Array]:
        """Errors of the given sizes that add up well at the output, by their derivatives there."""
        errors = [rng.standard_normal(width) for width in self.widths]
        errors = [e * s / np.linalg.norm(e) for e, s in zip(errors, sizes, strict=True)]
        best, most = errors, -1.0
        for _ in range(4):
            here = self.output(x, errors)
            slopes = []
            for at, width in enumerate(self.widths):
                step = 1e-6 * max(1.0, sizes[at])
                moved = []
                for unit in np.eye(width):
                    changed = [*errors[:at], errors[at] + step * unit, *errors[at + 1 :]]
                    moved.append((self.output(x, changed) - here) / step)
                slopes.append(np.array(moved))  # (width, outputs)
            towards = here - self.output(x, [np.zeros(width) for width in self.widths])
            for _ in range(4):  # all errors in the direction in which the output moves already
                towards = towards / (np.linalg.norm(towards) or 1.0)
                errors = [s @ towards for s in slopes]
                errors = [
                    e * size / (np.linalg.norm(e) or 1.0)
                    for e, size in zip(errors, sizes, strict=True)
                ]
                towards = sum((e @ s for e, s in zip(errors, slopes, strict=True)), 0 * towards)
            if (moved_by := self.error(x, errors)) > most:
                best, most = errors, moved_by
        return best

    def error(self, x: Array, errors: list[Array]) -> float:
        """||f - f^||^2 at one input."""
        exact = [np.zeros(width) for width in self.widths]
        return float(np.sum((self.output(x, errors) - self.output(x, exact)) ** 2))

    def as_chain(self) -> Array:
        """P_l where every layer maps all values that are still needed to the next ones: (L,)."""
        count = len(self.takes)
        tails = np.ones(count)
        for place in range(count - 2, -1, -1):
            behind = place + 1  # the layer that comes next, with the values that are kept beside it
            kept = any(value <= behind for takes in self.takes[behind + 1 :] for value in takes)
            upper = self.net.layers[behind].bracket.upper
            tails[place] = tails[behind] * (math.hypot(1, upper) if kept else upper)
        return tails


def random_graph(rng: np.random.Generator, *, operators: bool, chain: bool = False) -> Graph:
    """A network of 2 to 12 layers; `operators` lets the theory compose linear layers."""
    count = int(rng.integers(2, MOST + 1))
    widths = [int(rng.integers(1, 5))]  # of values, the input first
    layers: list[kr.theory.Layer] = []
    takes: list[tuple[int, ...]] = []
    maps: list[Callable[[list[Array]], Array]] = []
    drawn: list[Array] = []
    unused: set[int] = set()
    for number in range(1, count + 1):
        near = [*unused, number - 1] if rng.random() < 0.6 else list(range(number))
        source = number - 1 if chain or number == count else int(rng.choice(near))
        kind, used = str(rng.choice(KINDS[:5] if chain else KINDS)), [source]
        if number == count and unused - {source}:  # all that is left over makes the output
            kind, used = "joined", sorted(unused)
        elif kind in ("add", "joined", "cat"):
            others = [v for v in range(number) if kind != "add" or widths[v] == widths[source]]
            picked = rng.permutation(others)[: rng.integers(1, 3)].tolist()
            used = [*dict.fromkeys([source, *picked])]
        fitting = [weights for weights in drawn if weights.shape[1] == widths[source]]
        names = [f"u{value}" if value else "input" for value in used]
        given: dict[str, object] = {} if used == [number - 1] else {"inputs": names}
        size, out = np.exp(rng.normal(0, 0.5)), int(rng.integers(1, 5))
        if kind in RELUS:
            maps.append(lambda xs, apply=RELUS[kind]: apply(xs[0]))  # type: ignore[misc]
            given["lipschitz"], out = 1.0, widths[source]
        elif kind == "add" and len(used) > 1:
            parts = [np.eye(widths[source]) * rng.choice([-1, 1]) * size for _ in used]
            constants = [Matrix(part) for part in parts]
            numbers = [constant.norm() for constant in constants]
            given["inputs"] = dict(zip(names, constants if operators else numbers, strict=True))
            maps.append(
                lambda xs, parts=parts: sum(p @ x for p, x in zip(parts, xs, strict=True))  # type: ignore[misc]
            )
            out = widths[source]
        elif kind == "cat" and len(used) > 1:
            maps.append(np.concatenate)
            given["lipschitz"], out = 1.0, sum(widths[value] for value in used)
        else:  # a matrix, of all values that are taken as one vector
            width = sum(widths[value] for value in used)
            weights = size * rng.standard_normal((out, width)) / math.sqrt(width)
            if kind == "again" and fitting and len(used) == 1:
                weights = fitting[int(rng.integers(len(fitting)))]
            drawn.append(weights)
            whole = Matrix(weights)
            given["lipschitz"] = whole if operators and len(used) == 1 else whole.norm()
            maps.append(lambda xs, w=weights: w @ np.concatenate(xs))  # type: ignore[misc]
            out = len(weights)
        # Only a known layer is the operator that is given as its constant.
        is_operator = (
            operators and kind not in (*RELUS, "cat") and (kind == "add" or len(used) == 1)
        )
        make = kr.Known if is_operator else kr.Learned
        layers.append(make(f"u{number}", **given))  # type: ignore[arg-type]
        takes.append(tuple(used))
        widths.append(out)
        unused = (unused | {number}) - set(used)
    return Graph(kr.Network(layers), takes, maps, widths[1:], widths[0])


def errors_and_bounds(graph: Graph, rng: np.random.Generator) -> dict[str, float]:
    """The true error over three inputs, and every bound of it from the errors of layers."""
    points = rng.standard_normal((3, graph.entering)) * np.exp(rng.normal())
    count = len(graph.net)
    sizes = np.exp(rng.normal(-1, 1.5, count)) * (rng.random(count) < 0.8)
    errors = [graph.worst(x, sizes * np.exp(rng.normal(0, 0.3)), rng) for x in points]
    risks = [float(np.mean([np.sum(each[at] ** 2) for each in errors])) for at in range(count)]
    found = {
        "error": float(np.mean([graph.error(x, e) for x, e in zip(points, errors, strict=True)])),
        "chain": float(np.sum(graph.as_chain() * np.sqrt(risks)) ** 2),
    }
    # Known layers err here too, as if their operators were known approximately.
    bounds = {form: evaluate(graph.net, np.array(risks), form).total for form in kr.theory.BOUNDS}
    return found | bounds


def main() -> None:
    """Lines for chains and graphs, with operators and with numbers as constants."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--graphs", type=int, default=3000, help="a tenth more of chains")
    options.add_argument("--out", type=Path, help="a JSON file")
    given = options.parse_args()
    rng = np.random.default_rng(25)
    kinds = {
        "graphs, operators": (given.graphs // 2, {"operators": True}),
        "graphs, numbers": (given.graphs - given.graphs // 2, {"operators": False}),
        "chains, operators": (given.graphs // 10, {"operators": True, "chain": True}),
    }
    results = []
    for kind, (count, how) in kinds.items():
        rows = [errors_and_bounds(random_graph(rng, **how), rng) for _ in range(count)]
        order = ("error", "composed", "minkowski", "paper")
        wrong = [
            row
            for row in rows
            for low, high in itertools.pairwise(order)
            if row[low] > row[high] * (1 + ROUNDING)
        ]
        erring = [row for row in rows if row["error"] > 0]
        looser = {
            form: float(np.median([row[form] / row["error"] for row in erring]))
            for form in ("composed", "minkowski", "paper", "chain")
        }
        results.append({"kind": kind, "networks": count, "out of order": len(wrong), **looser})
    print(*tables(results), sep="\n")
    if given.out:
        given.out.write_text(json.dumps(results, indent=1) + "\n")


def tables(results: list[dict[str, Any]]) -> list[str]:
    """The table of docs/explanation/theory.md."""
    columns = ("networks", "out of order", "composed", "minkowski", "paper", "chain")
    heads = (*columns[:2], "composed", "Minkowski on paths", "paper's", "as a chain")
    rows = [
        line(
            row["kind"],
            *(f"{row[key]:.3g}" if key in columns[2:] else f"{row[key]:,}" for key in columns),
        )
        for row in results
    ]
    return [*header("median of bound / error", *heads), *rows]


if __name__ == "__main__":
    main()
