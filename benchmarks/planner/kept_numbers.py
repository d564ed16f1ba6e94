"""What the planner answers for a dozen pilots, kept so that a change of the code shows.

A change that is meant to move answers keeps them anew: python -m benchmarks.planner.kept_numbers
"""

import json
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
    """Plans, forecasts, fits and comparisons, as plain values; of all pilots or few."""
    found: dict[str, Any] = {}
    asked = {name: each for name, each in pilots().items() if names is None or name in names}
    for name, (curve, targets, related) in asked.items():
        last, own = int(curve.sizes[-1]), dict[str, Any]()
        for target in targets:
            plan = kr.plan(curve, target, related=related)
            told = plan.to_dict()
            own[f"{target:g}"] = {
                key: told[key]
                for key in ("samples", "middle", "chance", "lower", "upper", "reach", "between")
            } | {key: told[key] for key in ("if_reached", "trust", "floor")}
            advice = told["recommendation"]
            collected = advice["n"] if advice["action"] == "collect" else None
            own[f"{target:g}"]["recommendation"] = [advice["action"], collected]
        made = kr.forecast(curve, related=related)
        at = [last // 3, last] if made.doubt else [last // 3, last, 2 * last, 8 * last]
        own["forecast"] = [[e.value, e.lower, e.upper] for e in map(made.at, at)]
        if not related:
            own["fits"] = {}
            for fit in ("posterior", "paper"):
                values = kr.forecast(curve, fit=fit)
                own["fits"][fit] = [values.at(n).value for n in at]
        found[name] = own
    pairs = {"h8": ("h8 KO", "h8 FC"), "drawn": ("four seeds", "one seed")}
    for name, (one, other) in pairs.items():
        if not {one, other} <= asked.keys():
            continue
        first, second = asked[one][0], asked[other][0]
        told = kr.compare(first, second, 0.003 if name == "h8" else 0.04).to_dict()
        found[f"compare {name}"] = {key: told[key] for key in ("ratio", "crossover")}
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two contents differ by more than rounding: 1e-5 of a number, or one sample."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [each for key in one for each in differences(one[key], other[key], f"{where}/{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [each for at, pair in pairs for each in differences(*pair, f"{where}/{at}")]
    kinds = {type(one), type(other)}
    if kinds <= {int, float} and kinds != {bool}:
        slack = 1.0 if kinds == {int} else 1e-9
        if abs(one - other) <= max(slack, 1e-5 * abs(other)):
            return []
    return [] if one == other else [f"{where}: {one}, kept is {other}"]


if __name__ == "__main__":
    KEPT.write_text(json.dumps(numbers(), indent=1) + "\n")
