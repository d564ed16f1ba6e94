"""How fast korisk does the paper's study, and in how much memory.

By default: the released CPU protocol at H = 8, 16, 32 against study_reference.py, a straightforward
implementation in NumPy and SciPy, which says what it does. Both do the whole protocol, phantoms
and operators included, with one thread, each in a process of its own; what counts is CPU time
(user and system), to which other work on the machine adds far less than to wall time. Starting and
importing is stated apart. korisk also measures four more metrics and keeps pictures and weights.
The fits of both are compared: test errors and chosen lambdas.

--sweeps runs the paper's sweeps at other H through the engine, one process each.

    python -m benchmarks.paper.study [--rounds 1] [--json FILE]
    python -m benchmarks.paper.study --sweeps 128 256 [--protocol rigorous|released]
        [--device cpu|cuda] [--seeds 1 2 3] [--json FILE]

With --json, figures go into FILE in place of earlier ones of the same kind, which
reproduction_tables.py prints again.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.paper import reproduction_tables

SIDES = [8, 16, 32]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Figures = dict[str, Any]


def measure_speed(rounds: int) -> Figures:
    """Both sides in turn, `rounds` times, and how far their results agree."""
    load = os.getloadavg()[0]
    measured = [
        {who: _part(who, ONE_THREAD, sides=SIDES) for who in ("reference", "korisk")}
        for _ in range(rounds)
    ]
    about = {name: measured[0]["korisk"][name] for name in ("machine", "versions")}
    agreement = agreement_of(*(measured[0][who]["found"] for who in ("reference", "korisk")))
    kept = [
        {who: {name: part[name] for name in ("import", "cpu")} for who, part in each.items()}
        for each in measured
    ]
    return {**about, "load_before": load, "rounds": kept, **agreement}


def agreement_of(reference: list[list[Any]], ours: list[list[Any]]) -> Figures:
    """How far [H, model, N, seed, test MSE, lambda] of both sides agree."""
    expected = {tuple(row[:4]): row[4:] for row in reference}
    found = {tuple(row[:4]): row[4:] for row in ours}
    if expected.keys() != found.keys():
        raise SystemExit("the two sides did not fit the same networks; nothing can be compared")
    return {
        "compared": len(found),
        "largest_difference": max(
            abs(found[key][0] - error) / error for key, (error, _) in expected.items()
        ),
        "lambdas_agree": all(found[key][1] == penalty for key, (_, penalty) in expected.items()),
    }


def measure_sweep(side: int, protocol: str, device: str, seeds: list[int] | None) -> Figures:
    """One sweep in a fresh process, with the wall time of all of it."""
    load, start = os.getloadavg()[0], time.perf_counter()
    figures = _part("sweep", {}, side=side, protocol=protocol, device=device, seeds=seeds)
    return {**figures, "process_seconds": time.perf_counter() - start, "load_before": load}


def _part(name: str, environment: dict[str, str], **arguments: object) -> Figures:
    """What a part of study_parts.py gives in a fresh interpreter."""
    command = [sys.executable, "-m", "benchmarks.paper.study_parts", name]
    done = subprocess.run(
        [*command, json.dumps(arguments)],
        env=os.environ | environment,
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{name} {arguments} ended with {done.returncode}; it says why above")
    figures: Figures = json.loads(done.stdout)
    return figures


# The program


def main() -> None:
    """Measure what was asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=1, help="of the comparison; medians count")
    parser.add_argument(
        "--sweeps", type=int, nargs="+", metavar="H", help="run the paper's sweeps at these instead"
    )
    parser.add_argument("--protocol", choices=("rigorous", "released"), default="rigorous")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="for --sweeps")
    parser.add_argument(
        "--seeds", type=int, nargs="+", metavar="S", help="for --sweeps; default: the paper's"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="put all figures here")
    options = parser.parse_args()
    kept: Figures = {}
    if options.sweeps:
        for side in options.sweeps:
            kept.setdefault("sweeps", []).append(
                measure_sweep(side, options.protocol, options.device, options.seeds)
            )
            _keep(options.json, kept)
    if not kept:
        kept["speed"] = measure_speed(options.rounds)
    _keep(options.json, kept)
    print("\n".join(reproduction_tables.tables(kept)))


def _keep(path: Path | None, kept: Figures) -> None:
    """Put figures into the file, beside those of other kinds."""
    if path is None:
        return
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    both = {_which(each): each for each in before.get("sweeps", []) + kept.get("sweeps", [])}
    merged = before | kept | ({"sweeps": list(both.values())} if both else {})
    path.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")


def _which(sweep: Figures) -> tuple[Any, ...]:
    return sweep["side"], sweep["protocol"], sweep["where"]


if __name__ == "__main__":
    main()
