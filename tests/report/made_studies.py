"""Stores of studies that nobody ran: made-up results in the shape that cells give them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from korisk.store.cells import Result, Row, Task
from korisk.store.store import Store
from korisk.store.usage import Usage
from korisk.studies.spec.study import Study

SIZES = (4, 8, 16, 32, 64, 128)
USAGE = Usage(
    started="2026-01-01T00:00:00+00:00",
    seconds=1.5,
    peak_memory=2**28,
    machine={"processor": "made up", "cores": 2},
    versions={"python": "3.11.0", "numpy": "2.0.0"},
)
# floor, level and rate of a curve floor + level n^-rate
LAWS = {"KO": (0.002, 0.01, 1.0), "FC": (0.0005, 0.08, 0.5)}


def content(
    points: Sequence[Mapping[str, Any]] = ({"side": 8},),
    *,
    seeds: Sequence[int] = (1, 2, 3),
    sizes: Sequence[int] = SIZES,
    models: Sequence[str] = ("KO", "FC"),
    name: str = "made up",
) -> dict[str, Any]:
    return {
        **{"name": name, "seeds": list(seeds), "sizes": list(sizes)},
        "points": [{"beam": "surrogate", **point} for point in points],
        "models": {model: {} for model in models},
    }


def result(
    task: Task, laws: Mapping[str, tuple[float, float, float]] = LAWS, noise: float = 0.03
) -> Result:
    """Errors along each model's law with a little noise, pictures that get better with n."""
    rng = np.random.default_rng(task.seed)
    side = int(task.spec["problem"]["side"])
    views, bins = int(task.spec["problem"]["views"]), int(task.spec["problem"]["bins"])
    across = np.linspace(-1, 1, side)
    discs = [np.hypot(across[:, None], across) < radius for radius in (0.7, 0.4)]
    truth = np.stack(discs).astype(np.float32)
    rows, arrays = [], {"truth": truth}
    for model, (floor, level, rate) in laws.items():
        sizes = [0, *task.spec["sizes"]] if model == "KO" else task.spec["sizes"]
        for n in sizes:
            error = (floor + level * max(n, 3) ** -rate) * np.exp(noise * rng.standard_normal())
            metrics = {"mse": error, "rmse_over_max": error**0.5, "psnr": -10 * np.log10(error)}
            detail = {"lambda": 0.1, "seconds": 0.2} if n else {}
            rows.append(Row(model=model, n=n, metrics=metrics, detail=detail))
            image = truth + error**0.5 * rng.standard_normal(truth.shape)
            arrays[f"{model}/{n}/images"] = image.astype(np.float32)
            if model == "KO":
                weights = 1 + 0.1 * rng.standard_normal((views, bins))
                arrays[f"{model}/{n}/weights"] = weights.astype(np.float32)
    return Result(rows=tuple(rows), arrays=arrays, detail={"device": "cpu"})


def made_study(
    folder: Path,
    said: Mapping[str, Any] | None = None,
    *,
    laws: Mapping[str, tuple[float, float, float]] = LAWS,
    missing: int = 0,
    failed: int = 0,
    noise: float = 0.03,
) -> Path:
    """The folder of a study of which the last cells failed or were never run."""
    written = dict(said or content())
    tasks = Study(written).tasks
    done = len(tasks) - missing - failed
    models = [model for model in laws if model in written["models"] or model not in LAWS]
    folder.mkdir(parents=True, exist_ok=True)
    with Store.create_or_open(folder / "study.db", written, tasks=tasks) as store:
        for task in tasks[:done]:
            made = result(task, {model: laws[model] for model in models}, noise)
            store.record(task, made, USAGE)
        for task in tasks[done : done + failed]:
            store.record_failure(task, "a pixel <b>fell</b> out\nTraceback", USAGE)
    return folder
