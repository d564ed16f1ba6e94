"""Is the advised action right? Situations whose truth is known, since they are simulated.

The true error at N, trained for `steps` times the usual steps, is

    data N^-rate + training steps^-1/2 + network + noise,

or a curve of its own; a pilot measures it at some N with some seeds. What is right follows from the
truth: the smallest N that meets the target, and whether data or something else is in the way.

    python -m benchmarks.planner.situations [--draws 20] > benchmarks/results/situations.txt

The table tells the advice of the first draw, and in how many draws it is right.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import korisk as kr

Array = NDArray[np.float64]

SIZES = (16, 32, 64, 128, 256)
DECADE = (8, 16, 32, 64, 128, 256, 512, 1024)
FARTHEST = 10**7  # up to which a truth is looked for
ENOUGH = 0.97  # of the true N: an advised number is not enough below
WASTE = 8.0  # times the true N: beyond, an advised number is no use


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A true learning curve, what is measured of it, a target, and which actions are right."""

    name: str
    target: float
    right: tuple[str, ...]
    data: float = 1.0
    rate: float = 0.5
    training: float = 0.0
    network: float = 0.0
    noise: float = 0.0
    shape: Callable[[Array], Array] | None = None  # instead of the power law and its parts
    sizes: tuple[int, ...] = SIZES
    seeds: int = 5
    spread: float = 0.05  # relative deviation of one seed
    probed: bool = False  # whether the largest size was trained longer, and training errors kept
    unit: str = "error"
    model: str = field(default="net")

    def error(self, n: Array | float, steps: float = 1.0) -> Array:
        """The true error."""
        sizes = np.asarray(n, float)
        if self.shape is not None:
            return self.shape(sizes)
        rest = self.training / math.sqrt(steps) + self.network + self.noise
        return np.asarray(self.data * sizes**-self.rate + rest)

    @property
    def needed(self) -> float:
        """The smallest N that truly meets the target; infinite where none does."""
        n = np.unique(np.geomspace(2, FARTHEST, 4000).round())
        above = np.flatnonzero(self.error(n) > self.target)
        if not above.size:
            return 2.0
        return float(n[above[-1] + 1]) if above[-1] + 1 < len(n) else math.inf

    def pilot(self, draw: int = 0) -> tuple[kr.Curve, dict[str, Any]]:
        """What is measured, and what else is known."""
        random = np.random.default_rng([draw, *self.name.encode()])
        rows = [(n, seed) for n in self.sizes for seed in range(self.seeds)]
        n = np.array([size for size, _ in rows], float)

        def noisy(errors: Array) -> Array:
            scatter = random.normal(0, self.spread, len(errors))
            return np.asarray(errors * np.exp(scatter - self.spread**2 / 2))

        values = noisy(self.error(n))
        seeds = [seed for _, seed in rows]
        kind, metric = kr.curves.UNITS[self.unit], "mse" if self.unit == "error" else self.unit
        named = (seeds, self.model, metric, self.unit)
        curve = kr.Curve.of_errors(n.astype(int), values, *named)
        if not self.probed:
            return curve, {}
        last = np.full(self.seeds, float(self.sizes[-1]))
        longer = kr.planning.Longer(
            n=self.sizes[-1],
            factor=3,
            errors=kind.from_error(noisy(self.error(last, 3.0))).tolist(),
            before=kind.from_error(values[-self.seeds :]).tolist(),
        )
        learned = noisy(np.maximum(self.error(n) - self.data * n**-self.rate, 1e-3 * values))
        training = kr.Curve.of_errors(n.astype(int), learned, *named)
        return curve, {"training": training, "longer": longer}

    def advice(self, draw: int = 0) -> kr.planning.Recommendation:
        """What korisk advises."""
        curve, known = self.pilot(draw)
        goal = float(curve.unit.from_error(self.target))
        return kr.plan(curve, goal, **known).recommend()

    def is_right(self, advice: kr.planning.Recommendation) -> bool:
        """Whether an action is one of the right ones, and its number holds."""
        if advice.action not in self.right:
            return False
        if advice.action == "collect":
            assert advice.n is not None
            least = max(self.needed, self.sizes[0])
            return ENOUGH * least <= advice.n <= WASTE * least
        return True


def step(n: Array) -> Array:
    """A plateau, then a fall to another."""
    return np.where(n < 100, 1.0, 0.01)


def late_fall(n: Array) -> Array:
    """A dense layer: nearly flat at first, steep once N passes its width."""
    return np.asarray(1.0 / (1.0 + (n / 100.0) ** 1.2))


def rising(n: Array) -> Array:
    """More data make it worse."""
    return np.asarray(0.1 * (n / 16.0) ** 0.1)


SITUATIONS = (
    Situation(name="steep, near", rate=0.9, target=0.0045, right=("collect",)),
    Situation(name="steep, 4 times the pilot", rate=0.9, target=0.0020, right=("collect",)),
    Situation(name="root, near", target=0.05, right=("collect",)),
    Situation(name="root, 4 times the pilot", target=0.0315, right=("collect", "measure")),
    Situation(name="slow, near", rate=0.25, target=0.22, right=("collect", "measure")),
    Situation(name="slow, far", rate=0.25, target=0.1, right=("measure",)),
    Situation(name="slow, hopeless", rate=0.08, target=0.1, right=("unlikely", "measure")),
    Situation(name="met already", target=0.5, right=("collect",)),
    Situation(name="met inside", target=0.1, right=("collect",)),
    Situation(name="met inside, one seed", target=0.1, seeds=1, right=("collect", "measure")),
    Situation(name="one seed, near", target=0.05, seeds=1, right=("collect", "measure")),
    Situation(
        name="one seed, floor", rate=0.9, network=0.05, target=0.03, seeds=1,
        right=("measure", "unknown", "unlikely"),
    ),
    Situation(
        name="clear floor of the network", rate=0.9, network=0.05, target=0.03, spread=0.02,
        right=("stop", "unlikely"),
    ),
    Situation(
        name="floor just above the target", rate=0.7, network=0.03, target=0.028,
        right=("stop", "unlikely", "measure"),
    ),
    Situation(
        name="floor just below the target", rate=0.9, network=0.02, target=0.024,
        right=("collect", "measure"),
    ),
    Situation(
        name="flat by training, probed", data=0.01, training=0.09, target=0.06, sizes=DECADE,
        probed=True, right=("train",),
    ),
    Situation(
        name="flat by training, not probed", data=0.01, training=0.09, target=0.06, sizes=DECADE,
        right=("unknown", "unlikely", "stop", "train"),
    ),
    Situation(
        name="mostly training, probed", data=0.1, training=0.09, target=0.06, sizes=DECADE,
        probed=True, right=("train",),
    ),
    Situation(
        name="flat by noise, probed", data=0.01, noise=0.09, target=0.06, sizes=DECADE,
        probed=True, right=("stop", "unlikely", "unknown"),
    ),
    Situation(
        name="flat by the network, probed", data=0.01, network=0.09, target=0.06, sizes=DECADE,
        probed=True, right=("stop", "unlikely", "unknown"),
    ),
    Situation(
        name="data limit, probed", target=0.05, training=0.001, probed=True, right=("collect",),
    ),
    Situation(
        name="data limit, probed, far", target=0.02, probed=True, right=("collect", "measure"),
    ),
    Situation(
        name="crossing: the known operator", data=0.2, rate=0.9, network=0.02, target=0.01,
        model="KO", spread=0.02, right=("stop", "unlikely"),
    ),
    Situation(
        name="crossing: the dense network", data=8.0, rate=1.0, target=0.01, model="FC",
        right=("collect",),
    ),
    Situation(name="rising", shape=rising, target=0.05, right=("unknown",)),
    Situation(
        name="a step, target beyond", shape=step, target=0.001, right=("unknown", "measure"),
    ),
    Situation(name="a step, target inside", shape=step, target=0.1, right=("collect",)),
    Situation(
        name="dense layer before its fall", shape=late_fall, target=0.05,
        sizes=(8, 16, 32, 64, 128), right=("collect", "measure"),
    ),
    Situation(name="noisy seeds", spread=0.3, target=0.04, right=("collect", "measure")),
    Situation(
        name="decibels, near", rate=0.9, target=0.0045, unit="psnr", right=("collect",),
    ),
    Situation(
        name="accuracy, floor", data=0.5, rate=0.7, network=0.1, target=0.05, unit="accuracy",
        spread=0.02, right=("stop", "unlikely"),
    ),
    Situation(
        name="rmse, far", rate=1.0, target=0.001, unit="rmse", right=("collect", "measure"),
    ),
)  # fmt: skip


def table(draws: int) -> Iterator[str]:
    """The situations with their advice, as a table of Markdown."""
    yield "| situation | true N | advice | right |"
    yield "| --- | --- | --- | --- |"
    first = total = 0
    for situation in SITUATIONS:
        advised = [situation.advice(draw) for draw in range(draws)]
        right = [situation.is_right(advice) for advice in advised]
        first, total = first + right[0], total + sum(right)
        needed = f"{situation.needed:,.0f}" if math.isfinite(situation.needed) else "none"
        said = advised[0].sentence.removeprefix(f"{situation.model}: ")
        yield f"| {situation.name} | {needed} | {said} | {sum(right)} of {draws} |"
    yield ""
    yield f"Right in the first draw: {first} of {len(SITUATIONS)}; on average {total / draws:.1f}."


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=20)
    for line in table(parser.parse_args().draws):
        print(line, flush=True)


if __name__ == "__main__":
    main()
