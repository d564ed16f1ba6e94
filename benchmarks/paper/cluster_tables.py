"""The tables of docs/reference/clusters.md, from results in benchmarks/results/.

python -m benchmarks.paper.cluster_tables > benchmarks/results/clusters.txt
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from korisk.theory.footprint import format_bytes

RESULTS = Path(__file__).parents[1] / "results"


def kept(name: str) -> Any:
    """What a benchmark wrote."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def engines() -> Iterator[str]:
    """What a cell that does nothing costs on each engine."""
    found = kept("engines_arm")
    yield f"| {found['cells']} cells, {found['workers']} workers | ms a cell | start s |"
    yield "| --- | --- | --- |"
    for name, row in found["engines"].items():
        yield f"| {name} | {row['ms_a_cell']:.1f} | {row['start_seconds']:.1f} |"


def sharded() -> Iterator[str]:
    """Time and memory of sharded training and its rivals."""
    yield "| where | weights | what | ranks | s a step | peak a rank | predicted |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for run in kept("sharded_h200") + kept("sharded_arm"):
        weights = f"{run['rows'] * run['columns']:,}"
        where = run["device"] if run["device"] != "cpu" else "aarch64, one thread a rank"
        for row in run["results"]:
            what = row["what"]
            if what == "sharded":
                what = f"**sharded**, {row['blocks']} blocks"
            peak = format_bytes(max(row["peak_bytes"]))
            told = format_bytes(row["predicted_bytes"]) if "predicted_bytes" in row else ""
            step = f"{row['seconds_per_step']:.4f}"
            yield f"| {where} | {weights} | {what} | {row['ranks']} | {step} | {peak} | {told} |"


def tables() -> Iterator[str]:
    """All of them, a line at a time."""
    for part in (engines, sharded):
        yield from (f"### {part.__name__}", "", *part(), "")


if __name__ == "__main__":
    print("\n".join(tables()))
