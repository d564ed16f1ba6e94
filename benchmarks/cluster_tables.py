"""The tables of docs/reference/clusters.md, from what the benchmarks kept in benchmarks/results/.

python benchmarks/cluster_tables.py
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from korisk.costs.cost import Estimator, costs, total
from korisk.costs.rates import rates_for
from korisk.studies.spec.study import Study
from korisk.theory.footprint import format_bytes

RESULTS = Path(__file__).parent / "results"
SWEEP = Path(__file__).parents[1] / "examples" / "sweep_1024.yaml"
_PARTS = ("first", "second", "memory")
_NOISE = 2**24  # bytes, below which a process grows for reasons of its own


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
    yield "| where | weights | what | ranks | s a step | peak a rank | foretold |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for run in kept("sharded_h200") + kept("sharded_arm"):
        weights = f"{run['rows'] * run['columns']:,}"
        where = run["device"] if run["device"] != "cpu" else "aarch64, one thread a rank"
        for row in run["results"]:
            what = row["what"]
            if what == "sharded":
                what = f"**sharded**, {row['blocks']} blocks" + ", offload" * row["offload"]
            peak = format_bytes(max(row["peak_bytes"]))
            told = format_bytes(row["predicted_bytes"]) if "predicted_bytes" in row else ""
            step = f"{row['seconds_per_step']:.4f}"
            yield f"| {where} | {weights} | {what} | {row['ranks']} | {step} | {peak} | {told} |"


def predictions() -> Iterator[str]:
    """How far `korisk cost` is off, case by case."""
    yield "| where | case | first cell s | next cell s | memory MiB |"
    yield "| --- | --- | --- | --- | --- |"
    for name, where in (("cost_arm", "aarch64, 2 cores"), ("cost_h200", "NVIDIA H200")):
        for row in kept(name):
            parts = [_ratio(row[part], 2**20 if part == "memory" else 1) for part in _PARTS]
            yield f"| {where} | {row['case']} | {' | '.join(parts)} |"


def worst(name: str, part: str) -> float:
    """The largest factor by which predictions of a part are off."""
    rows = [row[part] for row in kept(name)]
    told = [row for row in rows if part != "memory" or row["measured"] > _NOISE]
    ratios = [row["predicted"] / row["measured"] for row in told]
    return float(max(max(ratio, 1 / ratio) for ratio in ratios))


def _ratio(figures: dict[str, float], unit: float) -> str:
    guess, found = figures["predicted"], figures["measured"]
    return f"{guess / unit:.3g} / {found / unit:.3g} = {guess / found:.2f}"


def ways() -> Iterator[str]:
    """Bytes and time of every way of fitting at 512 pixels a side, on four ranks."""
    rates = rates_for("cuda", "h200")
    study = Study({"name": "512", "points": [{"side": 512}], "seeds": [1]})
    yield "| model | way of fitting | weights | of the fit | in all | time on an H200, predicted |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for each in costs(study.tasks[0].spec, rates, ranks=4):
        sizes = f"{format_bytes(int(each.state))} | {format_bytes(int(each.memory))}"
        name = f"**{each.way.name}**" if each.way.used else each.way.name
        seconds = f"{each.seconds:,.0f} s"
        yield f"| {each.way.model} | {name} | {each.way.weights:,} | {sizes} | {seconds} |"


def sweep(workers: int) -> str:
    """What the sweep up to 1024 pixels takes."""
    study = Study.read(SWEEP)
    whole = total(study.tasks, Estimator(rates_for("cuda", "h200")), workers=workers)
    return (
        f"{whole.cells} cells, {whole.work / 3600:.1f} h of work, {whole.seconds / 60:.1f} min on "
        f"{workers} workers, {format_bytes(int(whole.device_memory or 0))} on each device"
    )


def tables() -> Iterator[str]:
    """All of them, a line at a time."""
    for part in (engines, sharded, predictions, ways):
        yield from part()
        yield ""
    yield sweep(64)


if __name__ == "__main__":
    print("\n".join(tables()))
