"""What the planner answers for a dozen pilots, kept so that a change of the code shows.

A change that is meant to move answers keeps them anew: python -m benchmarks.planner.kept_numbers
"""

import json
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

import korisk as kr

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests/data/planner_numbers.json"
SIZES = (16, 32, 64, 128, 256, 512)


def pilot(
    draw: int, *, sizes: Any = SIZES, floor: float = 0.02, noise: float = 0.1, seeds: int = 4
) -> kr.Curve:
    """A noisy power law above a floor."""
    n = np.repeat(np.asarray(sizes), seeds)
    errors = floor + 0.5 * n**-0.5
    errors *= np.exp(noise * np.random.default_rng(draw).standard_normal(len(n)))
    return kr.Curve(n, errors, [*range(seeds)] * len(sizes), model=f"pilot {draw}")


def pilots() -> dict[str, tuple[kr.Curve, list[float], list[kr.Curve]]]:
    """Pilots by name, each with targets inside and beyond it, and with related curves."""
    h8 = {
        model: kr.Curve.read(ROOT / "examples/pilot_h8.csv", model=model) for model in ("KO", "FC")
    }
    h128 = kr.Curve.read(ROOT / "examples/pilot_h128.csv", model="FC")
    n = np.array(SIZES)
    step = kr.Curve(n, np.where(n > 100, 0.05, 0.4) * n**-0.1)
    score = kr.Curve.of_errors(n, 0.4 * n**-0.3, metric="accuracy", unit="accuracy")
    far = [pilot(draw, sizes=2 ** np.arange(4, 13), floor=0.03) for draw in (5, 6)]
    unlike = pilot(7, sizes=2 ** np.arange(4, 13), floor=0.2)
    return {
        "h8 KO": (h8["KO"], [0.003, 0.0026], []),
        "h8 FC": (h8["FC"], [0.006, 0.003, 0.002], []),
        "h128 FC": (h128, [0.06, 0.04], []),
        "four seeds": (pilot(1), [0.06, 0.035, 0.025], []),
        "one seed": (pilot(2, seeds=1, noise=0.02), [0.06, 0.035], []),
        "forty sizes": (pilot(3, sizes=range(20, 420, 10), seeds=2), [0.06, 0.04], []),
        "step": (step, [0.1, 0.03, 0.02], []),
        "score": (score, [0.9, 0.96], []),
        "related": (pilot(4, sizes=SIZES[:4], seeds=2), [0.04], far),
        "one related": (pilot(4, sizes=SIZES[:4], seeds=2), [0.04], far[:1]),
        "unlike": (pilot(4, sizes=SIZES[:4], seeds=2), [0.04], [unlike]),
        "all related": (pilot(8, sizes=SIZES[:5]), [0.035], [*far, unlike]),
    }


def numbers(names: Collection[str] | None = None) -> dict[str, Any]:
    """Plans, forecasts and comparisons, as plain values; of all pilots or few."""
    answers: dict[str, Any] = {}
    asked = {name: known for name, known in pilots().items() if names is None or name in names}
    for name, (curve, targets, related) in asked.items():
        forecast, last = kr.forecast(curve, related=related), int(curve.sizes[-1])
        sizes = [last // 3, last] if forecast.doubt else [last // 3, last, 2 * last, 8 * last]
        bands = [forecast.at(n) for n in sizes]
        answers[name] = {"forecast": [[band.value, band.lower, band.upper] for band in bands]}
        for target in targets:
            plan = kr.plan(curve, target, related=related)
            advice, content = plan.recommend(), plan.to_dict()
            answers[name][f"{target:g}"] = {
                "samples": {f"{p:g}": plan.samples(p) for p in (0.5, 0.8, 0.9, 0.95)},
                **{key: finite(getattr(plan, key)) for key in ("even", "lower", "upper", "reach")},
                "between": plan.between,
                **{key: content[key] for key in ("trust", "floor")},
                "recommendation": [advice.action, advice.n if advice.action == "collect" else None],
            }
    pairs = {"h8": ("h8 KO", "h8 FC", 0.003), "drawn": ("four seeds", "one seed", 0.04)}
    for name, (first, second, target) in pairs.items():
        if {first, second} <= asked.keys():
            pair = kr.compare(asked[first][0], asked[second][0], target)
            content = pair.to_dict()
            ends = None if pair.ratio_range is None else [*map(finite, pair.ratio_range)]
            crossover = content["crossover"]
            answers[f"compare {name}"] = {
                "ratio": pair.ratio, "ratio_range": ends, "crossover": crossover
            }  # fmt: skip
    plain: dict[str, Any] = json.loads(json.dumps(answers))
    return plain


def finite(number: float | None) -> float | None:
    """A number as JSON has it: None where it is infinite or not known."""
    return number if number is not None and math.isfinite(number) else None


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two contents differ by more than rounding: 1e-5 of a number, or one sample."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [line for key in one for line in differences(one[key], other[key], f"{where}/{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [line for at, pair in pairs for line in differences(*pair, f"{where}/{at}")]
    kinds = {type(one), type(other)}
    if kinds <= {int, float} and kinds != {bool}:
        slack = 1.0 if kinds == {int} else 1e-9
        if abs(one - other) <= max(slack, 1e-5 * abs(other)):
            return []
    return [] if one == other else [f"{where}: {one}, kept is {other}"]


if __name__ == "__main__":
    KEPT.write_text(json.dumps(numbers(), indent=1) + "\n")
