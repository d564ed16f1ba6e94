"""How many small faults in `theory/`, `curves/` and `planning/` the tests notice.

    pip install -r benchmarks/quality/mutation/requirements.txt
    python -m benchmarks.quality.mutation.run --sample 400 --seed 1 --workers 2

All faults of benchmarks/quality/mutation/mutants.py are found, and a sample is drawn, from every
file in proportion. Each is put into a copy of the tree, where the tests that run the faulty
statement are run, fastest first, until one fails. A fault that makes them take three times as long
is noticed too, and told apart. Only the packages' own tests are asked unless `--tests` names
others, and not for longer than `--each`, so that the true score is no lower. Faults that are not
reached within `--seconds` are left out. Those that change nothing that anyone could notice are
listed with a reason each in equivalent_mutants.yaml; the score is told with and without them. The
kept output is benchmarks/results/mutation.json.
"""

import argparse
import json
import math
import os
import platform
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from scipy.stats import binomtest

from benchmarks.quality import tables
from benchmarks.quality.mutation.mutants import Mutant, mutants, operators
from benchmarks.quality.mutation.runs import (
    KILLED,
    SURVIVED,
    TIMEOUT,
    UNTESTED,
    copies,
    covered,
    outcome,
)

ROOT = Path(__file__).resolve().parents[3]
EQUIVALENT = ROOT / "benchmarks/quality/mutation/equivalent_mutants.yaml"
TESTS = ["tests/theory", "tests/curves", "tests/planning"]
ANY = ""  # in the list of equivalent faults: every fault of that line
LATE = "late"  # not run, because the time was over


def all_mutants(packages: list[str], workers: int) -> list[Mutant]:
    """Every fault of the packages' files."""
    files = [
        path
        for package in packages
        for path in sorted((ROOT / "src/korisk" / package).rglob("*.py"))
    ]
    with ProcessPoolExecutor(workers) as pool:
        return [each for part in pool.map(partial(mutants, ROOT), files) for each in part]


def drawn(found: list[Mutant], size: int, rng: random.Random) -> list[Mutant]:
    """A sample in proportion to the files, by largest remainders, in random order."""
    by_file = defaultdict(list)
    for each in found:
        by_file[each.path].append(each)
    wanted = {path: size * len(part) / len(found) for path, part in by_file.items()}
    counts = {path: int(number) for path, number in wanted.items()}
    rest = sorted(wanted, key=lambda path: counts[path] - wanted[path])
    for path in rest[: min(size, len(found)) - sum(counts.values())]:
        counts[path] += 1
    sample = [each for path, part in by_file.items() for each in rng.sample(part, counts[path])]
    rng.shuffle(sample)
    return sample


def wilson(hits: int, tries: int) -> tuple[float, float]:
    """The 95% interval of a share."""
    if not tries:
        return 0.0, 1.0
    ends = binomtest(hits, tries).proportion_ci(0.95, "wilson")
    return float(ends.low), float(ends.high)


def equivalent() -> dict[tuple[str, str, str], str]:
    """Listed faults that nobody could notice, and why."""
    return {
        (entry["function"], entry["was"], now): entry["reason"]
        for entry in yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8"))
        for now in entry.get("now", [ANY])
    }


def excuse(mutant: Mutant, listed: dict[tuple[str, str, str], str]) -> str | None:
    """Why nobody could notice a fault, or None."""
    return listed.get(mutant.key, listed.get((*mutant.key[:2], ANY)))


def shown(mutant: Mutant) -> str:
    """One fault, for a reader."""
    return f"{mutant.path}:{mutant.line}\n    - {mutant.was}\n    + {mutant.now}"


def tried(sample: list[Mutant], arguments: argparse.Namespace) -> list[tuple[Mutant, str]]:
    """What became of each fault."""
    end = time.monotonic() + arguments.seconds
    with copies(ROOT, arguments.workers) as made:
        coverage = covered(ROOT, arguments.tests, made, arguments.workers)
        print(f"{len(coverage.seconds)} tests", file=sys.stderr, flush=True)
        whole = sample[0]
        if (
            outcome(whole, (ROOT / whole.path).read_text(), coverage, made, arguments.each)
            == KILLED
        ):
            sys.exit(f"the tests of {whole.path} fail without a fault; mend them")

        def run(mutant: Mutant) -> tuple[Mutant, str]:
            if time.monotonic() > end:
                return mutant, LATE
            found = outcome(mutant, mutant.text, coverage, made, arguments.each)
            if found in (SURVIVED, UNTESTED):
                print(f"{found}: {shown(mutant)}", file=sys.stderr, flush=True)
            return mutant, found

        with ThreadPoolExecutor(arguments.workers) as pool:
            return list(pool.map(run, sample))


def result(found: Iterable[tuple[Mutant, str]], total: int, seed: int) -> dict[str, Any]:
    """Everything that is told, as plain values."""
    listed = equivalent()
    done = [(mutant, what) for mutant, what in found if what != LATE]
    counts = Counter(what for _, what in done)
    noticed = counts[KILLED] + counts[TIMEOUT]
    lost = [(mutant, what) for mutant, what in done if what in (SURVIVED, UNTESTED)]
    excused = [mutant for mutant, _ in lost if excuse(mutant, listed)]
    return {
        "mutants": total,
        "sample": len(done),
        "seed": seed,
        "killed": counts[KILLED],
        "killed by time": counts[TIMEOUT],
        "survived": counts[SURVIVED],
        "run by no test": counts[UNTESTED],
        "score": noticed / max(len(done), 1),
        "interval": wilson(noticed, len(done)),
        "equivalent": len(excused),
        "score without equivalent": noticed / max(len(done) - len(excused), 1),
        "interval without equivalent": wilson(noticed, len(done) - len(excused)),
        "survivors": [_plain(mutant) for mutant, _ in lost if not excuse(mutant, listed)],
        "survivors that are equivalent": [
            _plain(mutant) | {"reason": excuse(mutant, listed)} for mutant in excused
        ],
        "wrongly listed as equivalent": [
            _plain(mutant)
            for mutant, what in done
            if excuse(mutant, listed) and what in (KILLED, TIMEOUT)
        ],
        "operators": sorted(each.__name__ for each in operators()),
        "machine": f"Python {platform.python_version()}, {platform.machine()}",
    }


def _plain(mutant: Mutant) -> dict[str, Any]:
    return {
        "file": mutant.path,
        "line": mutant.line,
        "function": mutant.function,
        "was": mutant.was,
        "now": mutant.now,
    }


def main() -> None:
    """Sample, run and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int, default=400, help="how many faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--modules", default="theory,curves,planning", help="packages of src/korisk"
    )
    parser.add_argument("--tests", nargs="+", default=TESTS)
    parser.add_argument("--each", type=float, default=60.0, help="seconds of tests for a fault")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no fault after")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there too")
    arguments = parser.parse_args()
    found = all_mutants(arguments.modules.split(","), arguments.workers)
    print(f"{len(found)} faults", file=sys.stderr, flush=True)
    keys = {each.key for each in found} | {(*each.key[:2], ANY) for each in found}
    for gone in equivalent().keys() - keys:
        if gone[0].split(".")[1] in arguments.modules.split(","):
            print(f"listed as equivalent, but not there: {gone}", file=sys.stderr)
    sample = drawn(found, arguments.sample, random.Random(arguments.seed))
    made = result(tried(sample, arguments), len(found), arguments.seed)
    if arguments.json:
        arguments.json.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    print(*tables.mutation(made), sep="\n")
    for what in ("survivors", "wrongly listed as equivalent"):
        for each in made[what]:
            print(f"  {what}: {each}")


if __name__ == "__main__":
    main()
