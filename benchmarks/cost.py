"""How far `korisk cost` is right: predicted against measured time and memory of real cells.

Every case runs in a process of its own, two seeds one after the other: the first pays for what a
process, and what all seeds of a point, do once. Predictions come from rates that were measured
before, never from these cells. Of several rounds the quickest counts, as it does for rates: other
work on a machine only slows it down. Memory is the peak above what the process had before its first
cell, on the device where that is CUDA.

    python benchmarks/cost.py [--cases small|large] [--only CASE] [--rounds 1]
        [--device cpu|cuda] [--rates NAME|FILE] [--json FILE]

With --json, figures go into FILE in place of earlier ones of the same case and device.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from korisk.costs.cost import Estimate, predicted
from korisk.costs.rates import Rates, rates_for
from korisk.studies.spec.study import Study

Figures = dict[str, Any]

_FC: Figures = {"models": {"FC": {}}}
_LEFT_OUT: Figures = {"models": {"FC": {"select": "leave-one-out"}}}
_GRADIENT: Figures = {"models": {"KO": {"fit": "gradient", "iterations": 500}}}
_SURROGATE: Figures = {"problem": {"beam": "surrogate"}}
_OF_64 = {"side": 64, "views": 40, "bins": 64}
CASES: dict[str, dict[str, Figures]] = {
    "small": {
        "8, surrogate": {"points": [{"side": 8}], "sizes": [4, 16, 64, 256], **_SURROGATE},
        "8, fan": {"points": [{"side": 8}], "sizes": [4, 16, 64, 256]},
        "16, surrogate": {"points": [{"side": 16}], "sizes": [4, 16, 64, 256], **_SURROGATE},
        "32, surrogate": {"points": [{"side": 32}], "sizes": [4, 16, 64, 256], **_SURROGATE},
        "32, fan": {"points": [{"side": 32}], "sizes": [4, 16, 64, 256]},
        "32, fan, N 1024": {"points": [{"side": 32}], "sizes": [64, 1024]},
        "64, fan": {"points": [_OF_64], "sizes": [4, 64, 256]},
        "64, FC, leave-one-out": {"points": [_OF_64], "sizes": [64, 512], **_LEFT_OUT},
        "64, KO by gradients": {"points": [_OF_64], "sizes": [4, 64, 256], **_GRADIENT},
        "128, FC": {"points": [{"side": 128}], "sizes": [4, 64, 512], **_FC},
        "128, KO by gradients": {"points": [{"side": 128}], "sizes": [4, 256], **_GRADIENT},
        "128, fan": {"points": [{"side": 128}], "sizes": [64, 512]},
    },
    "large": {
        "128, fan": {"points": [{"side": 128}]},
        "128, released": {"points": [{"side": 128}], "protocol": "released"},
        "256, FC": {"points": [{"side": 256}], "sizes": [256, 2048], **_FC},
        "256, fan": {"points": [{"side": 256}]},
        "256, released": {"points": [{"side": 256}], "protocol": "released"},
        "512, FC": {"points": [{"side": 512}], "sizes": [2048], **_FC},
        "512, fan": {"points": [{"side": 512}]},
    },
}
_SEEDS = [1, 2]
_NOISE = 2**24  # bytes by which a process grows for reasons of its own


def measured(case: str, content: Figures, device: str) -> Figures:
    """A case in a fresh process: seconds of each seed, and the peak of memory."""
    command = [sys.executable, __file__, "--one", json.dumps(content), "--device", device]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{case} ended with {done.returncode}; it says why above")
    figures: Figures = json.loads(done.stdout)
    return figures


def run_one(content: Figures, device: str) -> Figures:
    """Run the cells of a case here."""
    from korisk.studies.run.cells import run_cell
    from korisk.studies.run.usage import Meter, machine, versions

    accounts = []
    for task in _study(content).tasks:
        meter = Meter()
        run_cell(task, lambda _: None, device=device)
        accounts.append(meter.read())
    return {
        "seconds": [account.seconds for account in accounts],
        "memory": max(account.peak_memory or 0 for account in accounts),
        "device_memory": max(account.device_memory or 0 for account in accounts),
        "machine": machine(),
        "versions": versions(),
    }


def _study(content: Figures) -> Study:
    return Study({"name": "cost", "seeds": _SEEDS, **content})


def compared(case: str, content: Figures, rates: Rates, rounds: int) -> Figures:
    """What was predicted for a case, and what came of it."""
    about = predicted(_study(content).tasks[0].spec, rates)
    load = os.getloadavg()[0]
    runs = [measured(case, content, rates.device) for _ in range(rounds)]
    found = runs[0]
    first, second = (min(run["seconds"][at] for run in runs) for at in (0, 1))
    guess, peak = _memory(about, found, rates)
    return {
        "case": case,
        "device": rates.device,
        "rates": rates.name,
        "first": {"predicted": rates.start + about.setup + about.seconds, "measured": first},
        "second": {"predicted": about.seconds, "measured": second},
        "memory": {"predicted": guess, "measured": peak},
        "rounds": rounds,
        "load_before": load,
        "machine": found["machine"],
        "versions": found["versions"],
    }


def _memory(about: Estimate, found: Figures, rates: Rates) -> tuple[float, float]:
    """Bytes that cells take beside the process, predicted and measured."""
    if about.device_memory is not None:
        return about.device_memory, found["device_memory"]
    return about.memory - rates.baseline, found["memory"] - rates.baseline


def ratio(figures: Figures) -> float:
    """Predicted over measured."""
    return float(figures["predicted"] / figures["measured"])


def table(rows: Iterable[Figures]) -> list[str]:
    """All cases as Markdown, and how far they are off at most."""
    rows = list(rows)
    head = "case", "first seed s", "second seed s", "memory MiB"
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for row in rows:
        shown = [_shown(row[part], 1) for part in ("first", "second")]
        lines.append(f"| {row['case']} | {' | '.join(shown)} | {_shown(row['memory'], 2**20)} |")
    for part in ("first", "second", "memory"):
        told = [row[part] for row in rows if part != "memory" or row[part]["measured"] > _NOISE]
        off = sorted(max(ratio(each), 1 / ratio(each)) for each in told)
        if not off:
            continue
        middle = off[len(off) // 2]
        lines.append(
            f"{part}: off by a factor of {off[-1]:.2f} at most, {middle:.2f} in the middle"
        )
    return lines


def _shown(figures: Figures, unit: float) -> str:
    return (
        f"{figures['predicted'] / unit:.3g} / {figures['measured'] / unit:.3g} = "
        f"{ratio(figures):.2f}"
    )


def main(arguments: Iterable[str] | None = None) -> None:
    """Compare the cases that were asked for, and print them."""
    options = _options(arguments)
    if options.one:
        print(json.dumps(run_one(json.loads(options.one), options.device)))
        return
    rates = rates_for(options.device, options.rates)
    rows = []
    for case, content in CASES[options.cases].items():
        if options.only not in (None, case):
            continue
        rows.append(compared(case, content, rates, options.rounds))
        print(table(rows[-1:])[2], file=sys.stderr)
        _keep(options.json, rows)
    print("Predicted / measured.\n")
    print("\n".join(table(rows)))


def _keep(path: Path | None, rows: list[Figures]) -> None:
    if path is None:
        return
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    merged = {(row["case"], row["device"]): row for row in [*before, *rows]}
    path.write_text(json.dumps(list(merged.values()), indent=1) + "\n", encoding="utf-8")


def _options(arguments: Iterable[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--cases", choices=tuple(CASES), default="small")
    parser.add_argument("--only", metavar="CASE", help="one case alone")
    parser.add_argument("--rounds", type=int, default=1, help="of each case; the quickest counts")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rates", metavar="NAME|FILE", help="how fast the machine is")
    parser.add_argument("--json", type=Path, metavar="FILE", help="put all figures here")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.only is not None and options.only not in CASES[options.cases]:
        parser.error(f"--only must be one of {', '.join(CASES[options.cases])}")
    if options.rounds < 1:
        parser.error(f"--rounds must be >= 1, got {options.rounds}")
    return options


if __name__ == "__main__":
    main()
