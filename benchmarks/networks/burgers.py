"""A hybrid network around a known solver against a plain network, on Burgers.

    python -m benchmarks.networks.burgers --tune    # rates: burgers_tuned.json
    python -m benchmarks.networks.burgers           # trains what burgers.csv does not have
    python -m benchmarks.networks.burgers --tables  # results/burgers.txt

All three take --dimension 2, for fields in the plane (burgers_2d.csv and so on), and --device.

Sensors of unknown gain show u(0) at 32 points of a periodic line, or 32 x 32 of a square, with
noise; wanted is u(0.3) of Burgers' equation, computed on cells that are eight times finer, in the
plane four times. Both networks have weights of the sensors and the same convolutions: the hybrid
has the solver on 32 cells between them. Both are trained for the same steps on the same batches.
Rates were chosen at the middle viscosity by the errors of 256 validation fields of a seed that is
not reported, at N = 4 and 64 together; the best of ten steps is kept by 64 validation fields, which
all networks and sizes have. N = 0 is the untrained network.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import korisk as kr
from benchmarks.markdown import header, line
from benchmarks.rows import append, read
from benchmarks.rows import curve as curve_of
from korisk.fitting import Recipe
from korisk.fitting.gradient.train import Member, train_many
from korisk.fitting.ridge.choice import Scorer
from korisk.fitting.ridge.dense import DenseRidge
from korisk.planning.plan import sample_cells
from korisk.problems import Pairs, PdeProblem, Pools

RESULTS = Path(__file__).parents[1] / "results"
COLUMNS = ("viscosity", "network", "n", "seed", "mse", "seconds")

VISCOSITIES = (0.003, 0.01, 0.03)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SEEDS = (1, 2, 3)
FINE = {1: 8, 2: 4}  # cells for each sensor along an axis, by dimension
WIDTH, STEPS, BATCH, VALIDATION, TEST = 12, 600, 8, 64, 256
WRONG = 5.0  # times the true viscosity
NAMES = {
    "solver-cnn": "hybrid",
    "wrong": f"hybrid, {WRONG:g} nu",
    "cnn": "plain CNN",
    "dense": "one matrix",
}
SEEDS_AT = (4, 16, 64, 256)  # N at which the best and the worst seed are shown
TARGETS = (0.03, 0.01)  # mean squared errors over the mean square of u(0.3)
TUNING_SEED, TUNING_SIZES, TUNING_VISCOSITY = 90, (4, 64), 0.01
# In the plane fewer: on the line, rates at both ends had twice the best error and more.
RATES = {1: (1e-3, 3e-3, 1e-2, 3e-2, 1e-1), 2: (3e-3, 1e-2, 3e-2)}


@dataclass(frozen=True)
class Setting:
    """Fields on a line or in the plane, where they are computed, and the files of their results."""

    dimension: int
    device: str = "cpu"

    @property
    def results(self) -> Path:
        """Errors."""
        return RESULTS / ("burgers.csv" if self.dimension == 1 else "burgers_2d.csv")

    @property
    def tuned(self) -> Path:
        """Scores of rates."""
        return self.results.with_name(f"{self.results.stem}_tuned.json")

    def problem(self, viscosity: float, assumed: float | None = None) -> PdeProblem:
        """The problem of a viscosity."""
        return PdeProblem(
            equation="burgers",
            dimension=self.dimension,
            points=32,
            viscosity=viscosity,
            assumed=assumed,
            time=0.3,
            noise=0.02,
            amplitude=0.5,
            decay=1.5,
            fine=FINE[self.dimension],
        )

    def pools(self, viscosity: float, seeds: Sequence[int], *, test: int) -> dict[int, Pools]:
        """The fields of each seed."""
        of, counts = self.problem(viscosity), {"train": SIZES[-1], "validation": VALIDATION}
        return {
            seed: of.pools(seed=seed, **counts, test=test, device=self.device) for seed in seeds
        }


def errors(
    of: PdeProblem, network: str, pools: Mapping[int, Pools], sizes: Sequence[int], *, rate: float
) -> Iterator[tuple[int, int, float]]:
    """N, seed and mean squared test error, untrained and trained."""
    kind = "solver-cnn" if network == "wrong" else network
    device = next(iter(pools.values())).train.inputs.device
    build = of.networks(kind, width=WIDTH, device=device)
    members, parts = [], [pair for drawn_pools in pools.values() for pair in drawn_pools]
    inputs, targets = (torch.cat(values).float() for values in zip(*parts, strict=True))
    rows = torch.split(
        torch.arange(len(inputs), device=device), [len(pair.inputs) for pair in parts]
    )
    cells: list[tuple[int, int]] = []
    for number, seed in enumerate(pools):
        train, validation, test = rows[3 * number : 3 * number + 3]
        with torch.no_grad():
            untrained = (build(seed)(inputs[test]) - targets[test]).square().mean()
        yield 0, seed, float(untrained)
        for n in sizes:
            name = f"{network} at N = {n}"
            members.append(Member(name, build(seed), seed, train[:n], validation, test))
            cells.append((n, seed))
    recipe = Recipe(steps=STEPS, batch=BATCH, rate=rate, cosine=True)
    for index, judged in train_many(members, inputs, targets, recipe, together=True):
        yield (*cells[index], float(judged.mean()))


def dense(pools: Mapping[int, Pools]) -> Iterator[tuple[int, int, float]]:
    """The same of one matrix, fitted in closed form; untrained it is zero."""
    for seed, (train, validation, test) in pools.items():
        yield 0, seed, float(test.targets.square().mean())
        train, validation, test = (
            Pairs(*(field.flatten(1) for field in pair)) for pair in (train, validation, test)
        )
        ridge = DenseRidge(*train, relu=False)
        for n in SIZES:
            fit = ridge.training(n).fit(scorer=Scorer(*validation))
            off: Tensor = fit.predict(test.inputs) - test.targets
            yield n, seed, float(off.square().mean())


def tune(setting: Setting) -> None:
    """Choose the rate of each network by validation fields."""
    of = setting.problem(TUNING_VISCOSITY)
    pools = setting.pools(TUNING_VISCOSITY, [TUNING_SEED], test=0)
    # Fields that judge here are validation fields of other seeds: no test field is looked at.
    counts = {"train": 0, "validation": TEST, "test": 0}
    judges = of.pools(seed=TUNING_SEED + 1, **counts, device=setting.device).validation
    pools = {TUNING_SEED: pools[TUNING_SEED]._replace(test=judges)}
    path = setting.tuned
    known = json.loads(path.read_text()) if path.exists() else {}
    for network in ("cnn", "solver-cnn"):
        for rate in RATES[setting.dimension]:
            key = f"{network} {rate:g}"
            if key in known:
                continue
            results = errors(of, network, pools, TUNING_SIZES, rate=rate)
            trained = [value for n, _, value in results if n]
            logs = sum(math.log(value) for value in trained) / len(trained)
            known[key] = {"network": network, "rate": rate, "score": math.exp(logs)}
            path.write_text(json.dumps(known, indent=1) + "\n")
            print(key, known[key]["score"], flush=True)


def chosen(setting: Setting, network: str) -> float:
    """The rate with the best score; a wrong viscosity has that of the hybrid."""
    same = "solver-cnn" if network == "wrong" else network
    entries = list(json.loads(setting.tuned.read_text()).values())
    best = min((e for e in entries if e["network"] == same), key=lambda e: e["score"])
    return float(best["rate"])


def run(setting: Setting) -> None:
    """Train what is missing, and append it."""
    have = {(row["viscosity"], row["network"]) for row in read(setting.results)}
    for viscosity in VISCOSITIES:
        missing = [network for network in NAMES if (str(viscosity), network) not in have]
        pools = setting.pools(viscosity, SEEDS, test=TEST) if missing else {}
        for network in missing:
            start = time.perf_counter()
            of = setting.problem(viscosity, WRONG * viscosity if network == "wrong" else None)
            if network == "dense":
                results = list(dense(pools))
            else:
                results = list(errors(of, network, pools, SIZES, rate=chosen(setting, network)))
            seconds = (time.perf_counter() - start) / len(results)
            about, took = (viscosity, network), f"{seconds:.1f}"
            rows = [(*about, n, seed, f"{value:.6g}", took) for n, seed, value in sorted(results)]
            append(setting.results, COLUMNS, rows)
            print(network, viscosity, f"{seconds * len(results):.0f} s", flush=True)


def means(rows: Sequence[Mapping[str, str]], viscosity: float, network: str) -> dict[int, float]:
    """The mean error by N."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if row["viscosity"] == str(viscosity) and row["network"] == network:
            found.setdefault(int(row["n"]), []).append(float(row["mse"]))
    return {n: float(np.mean(values)) for n, values in sorted(found.items())}


def curve(rows: Sequence[dict[str, str]], viscosity: float, network: str) -> kr.Curve:
    """The learning curve of a network from N = 2 on, as the planner takes it."""
    key = str(viscosity), network
    mine = [row for row in rows if (row["viscosity"], row["network"]) == key and int(row["n"]) >= 2]
    return curve_of(mine, NAMES[network])


def met_at_once(of: kr.Curve, target: float) -> bool:
    """Whether the mean error at every measured N is below the target, which is then refused."""
    return bool(target > of.means.max())


def needed(of: kr.Curve, target: float) -> tuple[str, str]:
    """N with even odds and its 90% interval, and N that is enough with 90% probability."""
    if met_at_once(of, target):
        return (f"≤ {of.sizes[0]}",) * 2
    plan = kr.plan(of, target=target)
    if math.isinf(plan.lower):
        return "not reached", "none"
    enough, even, low, high, _ = sample_cells(plan, [0.9])
    return f"{even} ({low} to {high})", enough


def ratio(first: kr.Curve, second: kr.Curve, target: float) -> str:
    """Samples of the second network over those of the first, with the 90% range."""
    if met_at_once(second, target) or math.isinf(kr.plan(second, target=target).lower):
        return ""
    if met_at_once(first, target):
        return f"at least {kr.plan(second, target=target).lower / first.sizes[0]:.2g}"
    comparison = kr.compare(first, second, target=target)
    ends = comparison.ratio_range
    if ends is None:
        return "not known"
    low, high = ends
    if math.isinf(high):
        return f"at least {low:.2g}"
    if low == 0 or comparison.ratio is None:
        return f"at most {high:.2g}"
    return f"{comparison.ratio:.2g} ({low:.2g} to {high:.2g})"


def percent(share: float) -> str:
    """With two digits."""
    return f"{float(f'{100 * share:.2g}'):g}%"


def tables(setting: Setting) -> None:
    """Write Markdown: errors, samples for targets, and what was tuned; of what was trained."""
    rows = read(setting.results)
    trained = {(float(row["viscosity"]), row["network"]) for row in rows}
    scale = {viscosity: means(rows, viscosity, "dense")[0] for viscosity in VISCOSITIES}
    text = ["### Errors", ""]
    shown = (0, 1, 2, 4, 8, 16, 64, 256)
    text += header("nu", "network", *(f"N = {n}" for n in shown))
    for viscosity in VISCOSITIES:
        for network, name in NAMES.items():
            if (viscosity, network) not in trained:
                continue
            by_size = means(rows, viscosity, network)
            cells = (percent(by_size[n] / scale[viscosity]) for n in shown)
            text.append(line(viscosity, name, *cells))
    text += ["", "### Samples", ""]
    heads = ("viscosity", "target", "network", "N (90% interval)", "enough with 90% probability")
    text += header(*heads, "times the hybrid's")
    for viscosity in VISCOSITIES:
        for target in TARGETS:
            absolute = target * scale[viscosity]
            hybrid = curve(rows, viscosity, "solver-cnn")
            for network, name in NAMES.items():
                if (viscosity, network) not in trained:
                    continue
                learning = curve(rows, viscosity, network)
                times = ""
                if network != "solver-cnn":
                    times = ratio(hybrid, learning, absolute)
                samples = needed(learning, absolute)
                text.append(line(viscosity, f"{target:.0%}", name, *samples, times))
    text += ["", "### Tuned", ""]
    rates = RATES[setting.dimension]
    text += header("network", *(f"rate {rate:g}" for rate in rates))
    tuned = json.loads(setting.tuned.read_text())
    for network in ("solver-cnn", "cnn"):
        scores = [tuned.get(f"{network} {rate:g}", {}).get("score") for rate in rates]
        values = ("" if score is None else f"{score:.2g}" for score in scores)
        text.append(line(NAMES[network], *values))
    text += ["", "### Seeds", ""]
    text += header("viscosity", "network", *(f"N = {n}" for n in SEEDS_AT))
    for viscosity, network in sorted(trained, key=lambda cell: (cell[0], [*NAMES].index(cell[1]))):
        ranges = []
        for n in SEEDS_AT:
            cell = str(viscosity), network, str(n)
            chosen_rows = [r for r in rows if (r["viscosity"], r["network"], r["n"]) == cell]
            shares = sorted(float(row["mse"]) / scale[viscosity] for row in chosen_rows)
            ranges.append(f"{percent(shares[0])} to {percent(shares[-1])}")
        text.append(line(viscosity, NAMES[network], *ranges))
    setting.results.with_suffix(".txt").write_text("\n".join(text) + "\n")


def main() -> None:
    """Tune, run, or write tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--dimension", type=int, choices=tuple(FINE), default=1)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    setting = Setting(options.dimension, options.device)
    if options.tune:
        tune(setting)
    elif options.tables:
        tables(setting)
    else:
        run(setting)


if __name__ == "__main__":
    main()
