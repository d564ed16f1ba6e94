"""How well pilots predict published learning curves of large networks: korisk and scaling laws.

The curves are half of the benchmark of Alabdulmohsin, Neyshabur and Zhai (2022): 46 of them, one
training at each size, cut into pilot and held-out points by its authors; see data/README.md.

First table: the root mean square of log(predicted / measured) over a curve's held-out points, as
mean and geometric mean over curves, in all and for each domain (BB: tasks for language models, IC:
image classification, LM: language models, NMT: translation).

Second table: seconds for a curve; coverage of the 90% band; targets refused, which are those not
met within 10^4 times the pilot; N within a factor of two. A target is the lowest held-out error up
to 2, 4 or 8 times the pilot's largest N, where that is below the pilot's lowest; its N is the first
that reaches it. The authors hold out about one doubling. With `--cut 8` pilots end at an eighth of
the largest N instead, and 2, 4 and 8 times are there for all curves with four sizes or more left.

    python -m benchmarks.planner.neural [--part report|tune|all] [--cut 8] [--only "posterior;M4"]
"""

import argparse
import math
import multiprocessing
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.planner import compare as planner
from benchmarks.planner import curves as curves
from benchmarks.planner import rivals as rivals
from benchmarks.planner.compare import Asked
from benchmarks.planner.curves import Case, NeuralCurve
from korisk.planning.fit import DEFAULT_FIT
from korisk.planning.forecast import forecast
from korisk.planning.plan import plan_from

Array = NDArray[np.float64]

ESTIMATORS = (DEFAULT_FIT, "M1", "M2", "M3", "M4", "BNSL")
FACTORS = (2, 4, 8)  # times the pilot's largest N: where targets are taken
NEAREST = 1.2  # a size this far off still counts as one of them
LEAST_SIZES = 4  # of a pilot that was cut


def question(known: NeuralCurve) -> tuple[Case, tuple[int, ...]]:
    """A curve as a case of planner.py, and the factor that each of its targets was taken at."""
    lowest = np.minimum.accumulate(known.hidden_error)
    targets, factors = [], []
    for factor in FACTORS:
        off = np.abs(np.log(known.hidden_n / (factor * known.last)))
        target = float(lowest[np.argmin(off)])
        if off.min() <= math.log(NEAREST) and target < known.pilot_error.min():
            targets.append((target, float(known.hidden_n[np.argmax(lowest <= target)])))
            factors.append(factor)
    hidden = known.hidden_n, known.hidden_error
    return Case(known.name, known.domain, known.curve, *hidden, tuple(targets)), tuple(factors)


def ask(name: str, case: Case) -> Asked:
    """Let one estimator answer one case."""
    if name == DEFAULT_FIT:
        made = forecast(case.curve)
        low, high = made.band(case.hidden_n)
        inside = (low <= case.hidden_error) & (case.hidden_error <= high)
        plans = [plan_from(made, target) for target, _ in case.targets]
        samples = tuple(math.inf if p.middle is None else float(p.middle) for p in plans)
        return Asked(made.middle(case.hidden_n), tuple(inside.tolist()), samples)
    predict = rivals.RIVALS[name](case.curve.sizes.astype(float), case.curve.means)
    return Asked(predict(case.hidden_n), samples=planner._inverted(case, predict))


# --- The tables ----------------------------------------------------------------------------------


@dataclass
class Score:
    """What one estimator said of all curves."""

    domains: list[str] = field(default_factory=list)
    misses: list[float] = field(default_factory=list)  # root mean square log error of each curve
    covered: list[bool] = field(default_factory=list)
    ratios: list[tuple[int, float]] = field(default_factory=list)  # factor, N answered / true N
    seconds: float = 0.0

    def add(self, case: Case, factors: Sequence[int], answer: Asked, seconds: float) -> None:
        """Count one answer."""
        self.domains.append(case.learner)
        off = np.log(answer.predicted / case.hidden_error)
        self.misses.append(float(np.sqrt(np.mean(off**2))))
        self.covered += answer.covered
        pairs = zip(factors, answer.samples, case.targets, strict=True)
        self.ratios += [(factor, said / true) for factor, said, (_, true) in pairs]
        self.seconds += seconds

    def errors(self) -> dict[str, float]:
        """The columns of the first table."""
        row: dict[str, float] = {}
        for domain in ("all", *sorted(set(self.domains))):
            pairs = zip(self.misses, self.domains, strict=True)
            misses = [miss for miss, of in pairs if domain in ("all", of)]
            row[domain] = float(np.mean(misses))
            row[f"{domain} geo"] = float(np.exp(np.mean(np.log(misses))))
        return row

    def answers(self) -> dict[str, float]:
        """The columns of the second."""
        row = {
            "seconds": self.seconds / len(self.misses),
            "cover": planner._mean(self.covered),
            "refuse": planner._mean([math.isinf(ratio) for _, ratio in self.ratios]),
        }
        for chosen in FACTORS:
            right = [0.5 <= ratio <= 2 for factor, ratio in self.ratios if factor == chosen]
            row[f"2x at {chosen}"] = planner._mean(right)
        return row


def run(known: Sequence[NeuralCurve], names: Sequence[str], processes: int) -> dict[str, Score]:
    """Ask every estimator about every curve."""
    scores = {name: Score() for name in names}
    with multiprocessing.Pool(processes) as pool:
        jobs = ((name, *question(curve)) for curve in known for name in names)
        for name, case, factors, answer, seconds in pool.imap(_job, jobs):
            scores[name].add(case, factors, answer, seconds)
    return scores


Job = tuple[str, Case, tuple[int, ...]]


def _job(work: Job) -> tuple[str, Case, tuple[int, ...], Asked, float]:
    name, case, factors = work
    start = time.perf_counter()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        answer = ask(name, case)
    return name, case, factors, answer, time.perf_counter() - start


def show(rows: dict[str, dict[str, float]]) -> None:
    """Print one table."""
    columns = list(next(iter(rows.values())))
    print(f"\n{'estimator':16s}" + "".join(f"{column:>9s}" for column in columns))
    for name, row in rows.items():
        cells = ["-" if math.isnan(row[column]) else f"{row[column]:.4f}" for column in columns]
        print(f"{name:16s}" + "".join(f"{cell:>9s}" for cell in cells))


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--part", choices=("report", "tune", "all"), default="report")
    parser.add_argument("--cut", type=float, help="end pilots at the largest N over this")
    parser.add_argument("--only", help="estimators, with semicolons between")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    options = parser.parse_args(None if arguments is None else list(arguments))
    names = options.only.split(";") if options.only else ESTIMATORS
    known = curves.neural(options.part)
    if options.cut:
        known = [curve.cut(options.cut) for curve in known]
        known = [curve for curve in known if len(curve.pilot_n) >= LEAST_SIZES]
    points = sum(len(curve.hidden_n) for curve in known)
    targets = sum(len(question(curve)[1]) for curve in known)
    cut = f", pilots to 1/{options.cut:g} of N" if options.cut else ""
    print(
        f"part {options.part}{cut}: {len(known)} curves, {points:,} held-out errors, "
        f"{targets} targets"
    )
    scores = run(known, [name.strip() for name in names], options.processes)
    show({name: score.errors() for name, score in scores.items()})
    show({name: score.answers() for name, score in scores.items()})


if __name__ == "__main__":
    main()
