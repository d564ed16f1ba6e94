"""How well a pilot predicts the rest of its learning curve: korisk's estimators and rivals.

The protocol: a pilot is the first part of a curve, with several seeds at each N. Asked are the
error at hidden N, two to eight times the pilot's last, and the N that reaches a target at least 3%
below the pilot's last mean. The truth is the mean over all splits of LCDB, the pilot's own among
them, over other seeds than the pilot's for scikit-learn, over the same seeds for image networks.

Columns: median relative error at hidden N; targets refused; N within a factor of two, in all and by
how far beyond the pilot; N at least the true one; error at the largest N predicted below 0.9 of the
truth; N within the data promised for a target that the truth never meets; coverage of the 90%
interval for errors and for N; intervals without an upper end. All targets but those of "broken" are
met within eight times the pilot.

Chances and safe(p) are judged on targets of 0.95 to 0.5 times the pilot's last error, whether the
truth meets them or not: how often a chance came true, and how often an N that was called enough
with probability p was (where that N lies within the data).

Curves: LCDB 1.0 (its source package from the Python package index, downloaded once into
benchmarks/.cache), scikit-learn estimators trained here, and the image networks of
benchmarks/data/image_networks.csv. Constants of korisk were chosen on the tuning parts
(--part tune; benchmarks/planner/prior.py): every other dataset of LCDB, and simulated images and
handwritten digits. What is reported (--part report) uses the 39 datasets of LCDB that no choice
ever saw, the scikit-learn curves, and clothing and photographs.

    python -m benchmarks.planner.compare [--part report|tune] [--per-dataset 24] [--only
        "posterior;paper"]
        [--domains lcdb,sklearn,images]
"""

import argparse
import math
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.planner import curves as curves
from benchmarks.planner import rivals as rivals
from benchmarks.planner.curves import Case
from korisk.planning.fit import DEFAULT_FIT
from korisk.planning.forecast import forecast
from korisk.planning.plan import LEVELS, plan

Array = NDArray[np.float64]

FARTHEST = 1e4  # times the pilot; an answer beyond is a refusal
FACTORS = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5)  # of the pilot's last error: targets met or not


@dataclass(frozen=True)
class Asked:
    """What one estimator said of one case."""

    predicted: Array  # (hidden,)
    covered: tuple[bool, ...] = ()
    samples: tuple[float, ...] = ()  # one for each target; infinite for a refusal
    samples_covered: tuple[bool, ...] = ()
    endless: tuple[bool, ...] = ()  # whether the interval for N has no upper end
    safe: tuple[tuple[float, bool], ...] = ()  # a level, and whether what has it was enough
    chances: tuple[tuple[float, bool], ...] = ()  # said and true, of meeting a target
    broken: tuple[bool, ...] = ()  # for targets that the truth never meets: was an N promised?


def ask(name: str, case: Case) -> Asked:
    """Let one estimator answer one case."""
    if name == DEFAULT_FIT:
        return _ask_default(case)
    return _ask_rival(rivals.RIVALS[name], case)


def _ask_default(case: Case) -> Asked:
    made = forecast(case.curve)
    low, high = made.band(case.hidden_n)
    plans = [(plan(case.curve, target), n) for target, n in case.targets]
    asked = [plan(case.curve, factor * case.last_error) for factor in FACTORS]
    end = float(case.hidden_n[-1])
    return Asked(
        made.middle(case.hidden_n),
        _within(low, case.hidden_error, high),
        tuple(math.inf if p.middle is None else p.middle for p, _ in plans),
        tuple(p.lower <= n <= p.upper for p, n in plans),
        tuple(math.isinf(p.upper) for p, _ in plans),
        tuple(
            (level, _met(case, n, p.goal))
            for p in asked
            for level in LEVELS
            if (n := p.samples(level)) is not None and n <= end
        ),
        tuple((p.chances.at(end), _met(case, end, p.goal)) for p in asked),
        tuple((plan(case.curve, t).middle or math.inf) <= end for t in _missed(case)),
    )


def _met(case: Case, n: float, error: float) -> bool:
    """Whether the truth meets an error by N; between hidden N in a straight line of logarithms."""
    sizes = np.append(case.last, case.hidden_n)
    errors = np.minimum.accumulate(np.append(case.last_error, case.hidden_error))
    return bool(np.interp(math.log(n), np.log(sizes), np.log(errors)) <= math.log(error))


def _ask_rival(rival: rivals.Rival, case: Case) -> Asked:
    predict = rival(case.curve.sizes.astype(float), case.curve.means)
    return Asked(
        predict(case.hidden_n), samples=_inverted(case, predict), broken=_promised(case, predict)
    )


Predict = Callable[[Array], Array]


def _missed(case: Case) -> list[float]:
    """Targets that the truth does not meet at any hidden N."""
    targets = [factor * case.last_error for factor in FACTORS]
    return [target for target in targets if target < case.hidden_error.min()]


def _promised(case: Case, predict: Predict) -> tuple[bool, ...]:
    grid = _grid(case)
    errors = predict(grid)
    return tuple(_first(grid, errors, t) <= case.hidden_n[-1] for t in _missed(case))


def _within(low: Array, truth: Array, high: Array) -> tuple[bool, ...]:
    return tuple(bool(inside) for inside in (low <= truth) & (truth <= high))


def _grid(case: Case) -> Array:
    return np.asarray(case.last * np.geomspace(1, FARTHEST, 400))


def _inverted(case: Case, predict: Predict) -> tuple[float, ...]:
    grid = _grid(case)
    errors = predict(grid)
    return tuple(_first(grid, errors, target) for target, _ in case.targets)


def _first(grid: Array, errors: Array, target: float) -> float:
    reached = errors <= target
    return float(grid[np.argmax(reached)]) if reached.any() else math.inf


# --- The table -----------------------------------------------------------------------------------


@dataclass
class Score:
    """All answers of one estimator."""

    cases: list[Case] = field(default_factory=list)
    answers: list[Asked] = field(default_factory=list)

    def row(self) -> dict[str, float]:
        """The figures of the table."""
        pairs = list(zip(self.cases, self.answers, strict=True))
        relative = [np.abs(a.predicted / c.hidden_error - 1) for c, a in pairs]
        false = [a.predicted[-1] < 0.9 * c.hidden_error[-1] for c, a in pairs]
        asked = [(n, s, n / c.last) for c, a in pairs for (_, n), s in _targets(c, a)]
        ratio = np.array([s / n for n, s, _ in asked])
        far = np.array([factor for _, _, factor in asked])
        right = (ratio >= 0.5) & (ratio <= 2)
        finite = np.isfinite(ratio)
        return {
            "error": float(np.median(np.concatenate(relative))),
            "refuse": float(np.mean(~finite)),
            "2x": float(right.mean()),
            "2x at 2": _mean(right[far < 2.9]),
            "2x at 4": _mean(right[(far >= 2.9) & (far < 5.7)]),
            "2x at 8": _mean(right[far >= 5.7]),
            "safe": _mean(ratio[finite] >= 1),
            "false": float(np.mean(false)),
            "broken": _mean([x for _, a in pairs for x in a.broken]),
            "cover E": _mean([x for _, a in pairs for x in a.covered]),
            "cover N": _mean([x for _, a in pairs for x in a.samples_covered]),
            "endless": _mean([x for _, a in pairs for x in a.endless]),
        }


def _targets(case: Case, answer: Asked) -> Iterator[tuple[tuple[float, float], float]]:
    return zip(case.targets, answer.samples, strict=True)


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def run(cases: Sequence[Case], names: Sequence[str], processes: int) -> dict[str, Score]:
    """Ask every estimator about every case."""
    scores = {name: Score() for name in names}
    with multiprocessing.Pool(processes) as pool:
        jobs = ((name, case) for case in cases for name in names)
        for done, (name, case, answer) in enumerate(pool.imap(_job, jobs, chunksize=4), start=1):
            scores[name].cases.append(case)
            scores[name].answers.append(answer)
            if done % 500 == 0:
                print(f"\r{done:,} of {len(cases) * len(names):,} answers", end="", file=sys.stderr)
    print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    return scores


def _job(work: tuple[str, Case]) -> tuple[str, Case, Asked]:
    name, case = work
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rivals divide by zero as they like
        with np.errstate(all="ignore"):
            return name, case, ask(name, case)


def show(title: str, scores: dict[str, Score]) -> None:
    """Print one table."""
    first = next(iter(scores.values()))
    points = sum(len(case.hidden_n) for case in first.cases)
    targets = sum(len(case.targets) for case in first.cases)
    print(f"\n{title}: {len(first.cases)} pilots, {points:,} hidden errors, {targets:,} targets")
    rows = {name: score.row() for name, score in scores.items()}
    columns = list(next(iter(rows.values())))
    print(f"{'estimator':32s}" + "".join(f"{column:>8s}" for column in columns))
    for name, row in rows.items():
        print(f"{name:32s}" + "".join(_cell(row[column]) for column in columns))


def _cell(value: float) -> str:
    return f"{'-':>8s}" if math.isnan(value) else f"{value:8.3f}"


def show_certainty(score: Score) -> None:
    """Print how often what was called safe sufficed, and whether chances came true."""
    safe = np.array([pair for answer in score.answers for pair in answer.safe])
    said = [
        f"{level:.0%}: {_mean(safe[safe[:, 0] == level, 1]):.3f} "
        f"({int((safe[:, 0] == level).sum())} times)"
        for level in LEVELS
    ]
    print(f"safe(p) within the data was enough at {', '.join(said)}")
    chances = np.array([pair for answer in score.answers for pair in answer.chances])
    print(f"chance to meet a target by the largest N, Brier score {_brier(chances):.3f}:")
    for low in np.arange(0.0, 1.0, 0.2):
        chosen = (chances[:, 0] >= low) & (chances[:, 0] <= low + 0.2)
        print(
            f"  said {low:.0%} to {low + 0.2:.0%}: {chosen.sum():5d} times, "
            f"on average {_mean(chances[chosen, 0]):.3f}, true {_mean(chances[chosen, 1]):.3f}"
        )


def _brier(chances: Array) -> float:
    return float(np.mean((chances[:, 0] - chances[:, 1]) ** 2))


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--part", choices=("report", "tune"), default="report")
    parser.add_argument("--per-dataset", type=int, default=24, help="LCDB pilots taken of each")
    parser.add_argument("--single", action="store_true", help="train once for each seed")
    parser.add_argument("--only", help="estimators, with semicolons between")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--domains", default="lcdb,sklearn,images", help="which curves")
    options = parser.parse_args(None if arguments is None else list(arguments))
    known = [DEFAULT_FIT, *rivals.RIVALS]
    names = [name.strip() for name in options.only.split(";")] if options.only else known
    title = f"LCDB, {options.part} part" + (", one training a seed" if options.single else "")
    domains = options.domains.split(",")
    parts = {}
    if "lcdb" in domains:
        parts[title] = curves.lcdb(options.part, options.per_dataset, single=options.single)
    if "sklearn" in domains and options.part != "tune":
        parts["scikit-learn"] = curves.scikit_learn()
    if "images" in domains:
        parts[f"image networks, {options.part} part"] = curves.image_networks(options.part)
    everything = {name: Score() for name in names}
    for title, cases in parts.items():
        scores = run(cases, names, options.processes)
        report(title, scores)
        for name, score in scores.items() if "image" not in title else ():
            everything[name].cases += score.cases
            everything[name].answers += score.answers
    if "lcdb" in domains and "sklearn" in domains:
        report("LCDB and scikit-learn", everything)


def report(title: str, scores: dict[str, Score]) -> None:
    """Print all that is known of one part."""
    show(title, scores)
    if DEFAULT_FIT in scores:
        show_certainty(scores[DEFAULT_FIT])


if __name__ == "__main__":
    main()
