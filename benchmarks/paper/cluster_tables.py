"""The tables of docs/reference/clusters.md, from results in benchmarks/results/.

python -m benchmarks.paper.cluster_tables > benchmarks/results/clusters.txt
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def tables() -> Iterator[str]:
    """All of them, a line at a time."""
    yield from ("### engines", "", *engines(), "")


if __name__ == "__main__":
    print("\n".join(tables()))
