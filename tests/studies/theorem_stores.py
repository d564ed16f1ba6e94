"""Stores in which errors of layers were measured: small linear chains with wrong layers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.store.cells import Result, Row, Task
from korisk.store.store import Store
from korisk.store.usage import Usage
from korisk.theory import Composition, Known, Layer, Learned, Network

Matrix = NDArray[np.float64]

SIZES = (4, 16, 64, 256)
SIDE = 6
USAGE = Usage(started="2026-01-01T00:00:00+00:00", seconds=1.0)
LEARNED = {"KO": {"W": SIDE, "C": 9}, "FC": {"D": SIDE * SIDE}}


def chain(rng: np.random.Generator) -> dict[str, Matrix]:
    """A diagonal layer, a smoothing one and one near the identity, input side first."""
    across = np.arange(SIDE)
    return {
        "W": np.diag(rng.uniform(0.5, 1.5, SIDE)),
        "K": 0.4 * np.exp(-np.abs(across[:, None] - across) / 2.0),
        "C": np.eye(SIDE) + 0.1 * rng.standard_normal((SIDE, SIDE)),
    }


def network(true: Mapping[str, Matrix], parameters: Mapping[str, int], name: str = "") -> Network:
    layers: list[Layer] = [
        Learned(key, lipschitz=norm(matrix), parameters=parameters[key])
        if key in parameters
        else Known(key, lipschitz=norm(matrix))
        for key, matrix in true.items()
    ]
    names = list(true)
    tails = [
        Composition(names[at], names[-1], lipschitz=norm(product([*true.values()][at:])))
        for at in range(1, len(names) - 1)
    ]
    return Network(layers, compositions=tails, name=name)


def norm(matrix: Matrix) -> float:
    return float(np.linalg.norm(matrix, 2))


def product(layers: Sequence[Matrix]) -> Matrix:
    made = np.eye(SIDE)
    for layer in layers:
        made = layer @ made
    return made


def measured(
    true: Mapping[str, Matrix], learned: Mapping[str, Matrix], x: Matrix
) -> dict[str, Any]:
    """Mean squared errors of the network and of its layers at inputs x (samples, entries)."""
    y, z = x, x
    layers = {}
    for key, matrix in true.items():
        own = learned.get(key, matrix)
        y, given = y @ matrix.T, z
        z = given @ own.T
        if key in learned:
            layers[key] = float(np.square(given @ (matrix - own).T).sum(axis=1).mean())
    return {"error": float(np.square(y - z).sum(axis=1).mean()), "layers": layers}


def wrong(
    rng: np.random.Generator, true: Mapping[str, Matrix], names: Sequence[str], size: float
) -> dict[str, Matrix]:
    return {key: true[key] + size * rng.standard_normal((SIDE, SIDE)) for key in names}


def cell(
    seed: int,
    *,
    models: Sequence[str] = ("KO", "FC"),
    sizes: Sequence[int] = SIZES,
    mismatch: float = 0.0,
) -> Result:
    """KO with layers W, K, C of which W and C are learned (and K wrong by `mismatch`), and FC."""
    true = chain(np.random.default_rng(0))  # the same truth for every seed
    rng = np.random.default_rng([1, seed])
    x = rng.standard_normal((40, SIDE))
    truths = {"KO": true, "FC": {"D": product(list(true.values()))}}
    scales = {"KO": 0.2, "FC": 0.3}
    rows, nets = [], {}
    for model in models:
        kind = "FC" if model == "FC" else "KO"
        nets[model] = network(truths[kind], LEARNED[kind]).to_dict()
        for n in sizes:
            size = scales[kind] / max(n, 1) ** 0.5
            hats = wrong(rng, truths[kind], list(LEARNED[kind]), size)
            if mismatch and kind == "KO":
                hats["K"] = (1 + mismatch) * true["K"]
            told = measured(truths[kind], hats, x)
            metrics = {"mse": told["error"] / SIDE}
            rows.append(Row(model=model, n=n, metrics=metrics, detail={"theorem": told}))
    return Result(rows=tuple(rows), detail={"networks": nets, "pixels": SIDE})


def row(model: str, n: int, error: Any, layers: Any) -> Row:
    told = {"error": error, "layers": layers}
    return Row(model=model, n=n, metrics={"mse": 1.0}, detail={"theorem": told})


def written(
    folder: Path,
    cells: Mapping[str, Sequence[Result]],
    *,
    failed: Sequence[str] = (),
    name: str = "made up",
) -> Path:
    """A store of results by point, seeds from 1 on; `failed` names points with one failed cell."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = {"metric": "mse"}
    with Store.create_or_open(folder / "study.db", {"name": name}) as store:
        for point, results in cells.items():
            for seed, result in enumerate(results, start=1):
                store.record(Task(point=point, seed=seed, spec=spec), result, USAGE)
        for point in failed:
            store.record_failure(Task(point=point, seed=99, spec=spec), "no <luck>", USAGE)
    return folder
