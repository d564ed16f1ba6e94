"""The learning curves of both networks behind a large scanner, predicted without their matrices.

    python -m benchmarks.prediction.large --side 128 [--device cuda] [--images 256] [--noise 0.02]
                                       [--relu] [--json FILE] [--measured RUN.json]

`korisk run benchmarks/prediction/large.yaml --device cuda --json` gives a RUN.json for 128 pixels;
its mean errors are kept beside those that are predicted. Examples are drawn, and every product goes
through the operators. Printed are seconds and memory of each step, the predicted errors, and how
many directions or weights N samples determine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from korisk.prediction.api import dense_prediction, known_prediction
from korisk.prediction.prediction import Prediction
from korisk.problems.ct import CtProblem, CtScanner
from korisk.problems.noise import Gaussian
from korisk.store.usage import Meter, Usage, machine, versions

Made = TypeVar("Made")

_SIZES = [2**k for k in range(2, 15)]
_SEED = 5


class Steps:
    """Steps of a computation, each with its cost."""

    def __init__(self) -> None:
        self.costs: dict[str, Usage] = {}

    def take(self, name: str, work: Callable[[], Made]) -> Made:
        """What `work` gives; its cost is kept and printed."""
        meter = Meter()
        made = work()
        self.costs[name] = cost = meter.read()
        memory = [("RSS", cost.peak_memory), ("device", cost.device_memory)]
        peaks = ", ".join(f"{place} {size / 2**30:.2f} GiB" for place, size in memory if size)
        print(f"{name:<10}{cost.seconds:8.1f} s {cost.cpu_seconds or 0.0:8.1f} s of CPU  {peaks}")
        return made


def predicted(given: argparse.Namespace, steps: Steps) -> dict[str, Prediction]:
    """Both curves, step by step."""
    noise = Gaussian(given.noise) if given.noise else None
    problem = CtProblem(scanner=CtScanner.of_paper(given.side), noise=noise)
    examples = steps.take(
        "examples",
        lambda: problem.examples(seed=_SEED, count=given.images, device=given.device),
    )
    dense = steps.take("FC", lambda: dense_prediction(examples, relu=given.relu))
    found = problem.reconstruction(given.device)
    known = steps.take("KO", lambda: known_prediction(examples, found, relu=given.relu))
    return {"FC": dense, "KO": known}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--side", type=int, default=128, choices=(128, 256, 512))
    parser.add_argument("--device", default=None)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--noise", type=float, default=0.02)
    parser.add_argument("--relu", action="store_true")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--measured", type=Path, default=None)
    given = parser.parse_args()
    steps = Steps()
    made = predicted(given, steps)
    errors = {model: each.computed(_SIZES).tolist() for model, each in made.items()}
    print(f"{'N':>6}" + "".join(f"{model:>12}" for model in made))
    for at, n in enumerate(_SIZES):
        columns = (f"{errors[model][at]:>12.4g}" for model in made)
        print(f"{n:>6}" + "".join(columns))
    found = {} if given.measured is None else measured(json.loads(given.measured.read_text()))
    for model, sizes in found.items():
        ratios = {n: made[model].computed([n])[0] / error for n, error in sizes.items()}
        print(model, "over measured:", ", ".join(f"{r:.2f} at {n}" for n, r in ratios.items()))
    for each in made.values():
        print("\n".join(each.notes))
    if given.json:
        asked = {name: getattr(given, name) for name in ("side", "images", "noise", "relu")}
        content = {
            "asked": asked | {"device": given.device or "cpu"},
            "n": _SIZES,
            "errors": errors,
            "measured": found,
            "parameters": {model: each.parameters for model, each in made.items()},
            "floor": {model: each.floor for model, each in made.items()},
            "notes": {model: each.notes for model, each in made.items()},
            "steps": {name: cost_of(cost) for name, cost in steps.costs.items()},
            "machine": dict(machine()),
            "versions": dict(versions()),
        }
        given.json.write_text(json.dumps(content, indent=1) + "\n")


def measured(ran: dict[str, Any]) -> dict[str, dict[int, float]]:
    """Mean errors of the only point of a study that ran."""
    (point,) = ran["points"].values()
    found: dict[str, dict[int, float]] = {}
    for model in ("FC", "KO"):
        sizes = sorted({row["n"] for row in point[model]} - {0})
        found[model] = {
            n: fmean(row["error"] for row in point[model] if row["n"] == n) for n in sizes
        }
    return found


def cost_of(cost: Usage) -> dict[str, float | None]:
    """What a step took."""
    return {
        "seconds": cost.seconds,
        "cpu_seconds": cost.cpu_seconds,
        "peak_memory": cost.peak_memory,
        "device_memory": cost.device_memory,
    }


if __name__ == "__main__":
    main()
