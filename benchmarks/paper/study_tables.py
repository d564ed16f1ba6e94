"""The tables of benchmarks/paper/study.py, from what it measured or wrote with --json.

python -m benchmarks.paper.study_tables FILE.json
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.markdown import header, line

GIB = 2**30


def tables(kept: dict[str, Any]) -> Iterator[str]:
    """Whatever was measured, as Markdown, a line at a time."""
    if "speed" in kept:
        yield from speed(kept["speed"])
        yield ""
    if kept.get("sweeps"):
        yield from sweeps(kept["sweeps"])
        yield ""


def speed(kept: dict[str, Any]) -> Iterator[str]:
    """CPU seconds of both sides at each H, medians over the rounds."""
    rounds = kept["rounds"]
    sides = list(rounds[0]["korisk"]["cpu"])
    taken = {
        who: {side: median(each[who]["cpu"][side] for each in rounds) for side in sides}
        for who in ("reference", "korisk")
    }
    times = f"median of {len(rounds)}" if len(rounds) > 1 else "one run"
    yield (
        f"*{_where(kept)}*, one thread, load {kept['load_before']:.1f} before: the released CPU "
        f"protocol, {times}"
    )
    yield ""
    yield from header("H", "reference CPU s", "korisk CPU s", "ratio")
    for side in sides:
        yield line(side, *_compared(taken["reference"][side], taken["korisk"][side]))
    total = {who: sum(by_side.values()) for who, by_side in taken.items()}
    yield line("all", *_compared(total["reference"], total["korisk"]))
    yield ""
    imports = {who: median(each[who]["import"] for each in rounds) for who in taken}
    yield (
        f"Apart from that, starting and importing took {imports['reference']:.2f} and "
        f"{imports['korisk']:.2f} CPU s."
    )
    agree = "all lambdas agree" if kept["lambdas_agree"] else "LAMBDAS DIFFER"
    yield (
        f"Test errors of {kept['compared']} fits differ by at most a part of "
        f"{kept['largest_difference']:.1e}; {agree}."
    )


def _compared(reference: float, ours: float) -> tuple[str, str, str]:
    return f"{reference:.2f}", f"{ours:.2f}", f"{reference / ours:.1f}"


def sweeps(kept: list[dict[str, Any]]) -> Iterator[str]:
    """Time, memory and errors of whole sweeps, a line each."""
    yield "Sweeps, each in a process of its own:"
    yield ""
    yield from header(
        *("H", "protocol", "where", "cells", "s in cells", "s in all", "memory GiB"),
        *("device GiB", "N", "KO RMSE / max", "FC RMSE / max"),
    )
    for each in kept:
        errors = each["rmse_over_max"]
        yield line(
            each["side"],
            each["protocol"],
            _where(each),
            len(each["seconds"]),
            f"{sum(each['seconds']):.1f}",
            f"{each['process_seconds']:.1f}",
            f"{each['peak_memory'] / GIB:.2f}",
            f"{each['device_memory'] / GIB:.2f}" if each["device_memory"] else "-",
            each["largest_n"],
            f"{errors['KO']:.3g}",
            f"{errors['FC']:.3g}",
        )


def _where(kept: dict[str, Any]) -> str:
    where = kept.get("where", "cpu")
    if where != "cpu":
        return str(where)
    machine = f"{kept['machine']['processor']}, {kept['machine']['cores']} cores"
    return machine if "threads" not in kept else f"{machine}, {kept['threads']} threads"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print("\n".join(tables(json.loads(Path(name).read_text(encoding="utf-8")))))
