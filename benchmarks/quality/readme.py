"""The tables of docs/explanation/compared.md and docs/reference/install.md, from stored results.

python -m benchmarks.quality.readme > benchmarks/results/readme.txt
"""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any

import korisk as kr
from benchmarks.markdown import header, line

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
ADDS = {
    "core": "bounds, plans, comparisons: NumPy, SciPy, typer, rich, pydantic, PyYAML, filelock",
    "report": "figures and pages: matplotlib",
    "torch": "operators, studies, rehearsals: PyTorch, here its CPU build",
    "dask": "clusters and batch systems: Dask",
    "io": "workbooks; with `torch`, images as DICOM, TIFF, PNG, HDF5",
    "mri": "`torch`, and MRI along any trajectory: torchkbnufft",
    "all": "all of these",
}


def kept(name: str) -> Any:
    """What a benchmark wrote."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def tables() -> Iterator[str]:
    """Both of them, a line at a time."""
    yield from ("### against", "", *against(), "", "### installs", "", *installs())


def installs() -> Iterator[str]:
    """What each extra adds and weighs."""
    yield from header("`pip install`", "gives", "packages", "MB on disk", "`import korisk`, CPU")
    for row in kept("release.json")["installs"]:
        if row["what"] not in ADDS:
            continue
        name = "korisk" if row["what"] == "core" else f"korisk[{row['what']}]"
        yield line(
            f"`{name}`",
            ADDS[row["what"]],
            row["packages"],
            f"{row['megabytes']:,.0f}",
            f"{row['import_ms']:.0f} ms",
        )


def against() -> Iterator[str]:
    """How fast and how good, against what, and by which command."""
    yield from header("", "korisk", "others", "command")
    yield from (line(*row) for row in (*_operators(), _study(), *_planner(), _bound()))


def _operators() -> Iterator[tuple[str, ...]]:
    arm, card = _cells("operators_arm.json"), _cells("operators_h200.json")
    asked = (
        (arm, (128, 32, "forward"), "project 128 x 128 pixels, two ARM cores"),
        (arm, (128, 32, "fbp"), "filtered backprojection of these"),
        (card, (512, 2048, "forward"), "project 512 x 512 pixels, one H200"),
    )
    for cells, key, what in asked:
        times = {who: ms for (*place, who), ms in cells.items() if tuple(place) == key and ms}
        ours = times.pop("korisk")
        best = min(times, key=lambda who: times[who])
        taken = f"{ours:.2f} ms" if ours > 0.1 else f"{1e3 * ours:.0f} µs"
        yield (
            f"{what}, batch of {key[1]:,}",
            f"{taken} an image",
            f"{best}, the fastest of {len(times)} others: {times[best] / ours:.1f} times as long",
            "`make bench-operators`",
        )


def _cells(name: str) -> dict[tuple[int, int, str, str], float | None]:
    return {
        (cell["size"], cell["batch"], cell["entry"], cell["who"]): cell["ms"]
        for cell in kept(name)["cells"]
    }


def _study() -> tuple[str, ...]:
    rounds = kept("study_arm.json")["speed"]["rounds"]
    theirs, ours = (
        median(sum(each[who]["cpu"].values()) for each in rounds) for who in ("reference", "korisk")
    )
    return (
        "the paper's study up to H = 32, same results",
        f"{ours:.1f} CPU s",
        f"straightforward code: {theirs / ours:.1f} times as long",
        "`make bench-study`",
    )


def _planner() -> Iterator[tuple[str, ...]]:
    """Over all databases, each with the same weight."""
    stored = kept("planner.json")
    rows, refusals = stored["now"]["databases"].values(), "; the paper's calibration has no answer"
    for figure, what, best_of, more in (
        (
            "error",
            f"mean error of the log error, {len(rows)} databases of learning curves",
            min,
            "",
        ),
        ("2x", "N within a factor of two of the truth", max, f"{refusals} below the pilot's error"),
    ):
        means = {
            name: mean(row[figure] for row in rival["databases"].values())
            for name, rival in stored["rivals"].items()
        }
        ours = means.pop("posterior")
        best = best_of(means, key=lambda name: means[name])
        others = f"{best}, the best of {len(means)} others: {means[best]:.3f}{more}"
        yield what, f"{ours:.3f}", others, "`make bench`"
    covered = [share for row in rows for share in row["coverage"].values()]
    hidden = "90% intervals that hold the hidden error"
    yield hidden, f"{mean(covered):.1%}", "no other gives an interval", "`make bench`"


def _bound() -> tuple[str, ...]:
    net = kr.Network.read(ROOT / "examples" / "ct_h128_ko.yaml")
    paper, minkowski, composed = (
        f"{net.amplification(method)[0]:.4g}" for method in ("paper", "minkowski", "composed")
    )
    return (
        "factor on W's squared error in the bound, H = 128, [before calibration](recipe.md)",
        f"{composed} (composed)",
        f"paper: {paper}; Minkowski: {minkowski}",
        "[first bound](../tutorials/first-bound.md#the-same-in-python)",
    )


if __name__ == "__main__":
    print("\n".join(tables()))
