"""How korisk is tested, in figures: benchmarks/results/quality.txt, from what commands kept.

python -m benchmarks.quality.tables            # print them
python -m benchmarks.quality.tables --write    # write the file
"""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.markdown import header, line

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
TEXT = RESULTS / "quality.txt"


def reached(counts: dict[str, int], what: str) -> float:
    """Percent of lines or branches that the tests reach."""
    return 100 * counts[f"{what}_reached"] / max(counts[what], 1)


def coverage(kept: dict[str, Any]) -> Iterator[str]:
    """Lines and branches that the tests reach, package by package."""
    yield from header("package", "lines", "reached", "branches", "reached")
    for package in sorted(kept, key=lambda name: (name == "all", name == "(top)", name)):
        title = {"all": "**all**", "(top)": "outside of any"}.get(package, f"`{package}/`")
        cells = []
        for what in ("lines", "branches"):
            cells += [f"{kept[package][what]:,}", f"{reached(kept[package], what):.1f}%"]
        yield line(title, *cells)


def mutation(kept: dict[str, Any]) -> Iterator[str]:
    """How many small faults the tests noticed."""
    noticed, sample, excused = (
        kept["killed"] + kept["killed by time"],
        kept["sample"],
        kept["equivalent"],
    )
    yield f"Drawn were {sample:,} of {kept['mutants']:,} faults (seed {kept['seed']})."
    yield (
        f"{kept['killed']:,} made a test fail, {kept['killed by time']:,} ran too long, "
        f"{kept['survived']:,} were not noticed; run by no test: {kept['run by no test']:,}."
    )
    yield ""
    yield from header("", "noticed", "of", "share", "95% interval")
    for name, of, key in (
        ("all that were drawn", sample, ""),
        (f"without {excused} that change nothing", sample - excused, " without equivalent"),
    ):
        low, high = kept[f"interval{key}"]
        share = f"{kept[f'score{key}']:.1%}"
        yield line(name, f"{noticed:,}", f"{of:,}", share, f"{low:.1%} to {high:.1%}")


def fuzz(kept: dict[str, Any]) -> Iterator[str]:
    """What became of broken files, reader by reader, also of those that take longer."""
    rest = sorted(RESULTS.glob("fuzz_*.json"))
    yield from tried(kept, *(json.loads(each.read_text(encoding="utf-8")) for each in rest))


def tried(*runs: dict[str, Any]) -> Iterator[str]:
    """The readers of some runs of `quality.fuzz.run`."""
    for run in runs:
        cores = f"{run['machine']['cores']} cores of {run['machine']['processor']}"
        yield (
            f"In {run['minutes']:.1f} minutes on {cores} (seed {run['seed']}) {run['files']:,} "
            f"files were tried, readers: {len(run['readers'])}. Faults: {run['faults']:,}."
        )
    yield ""
    yield from header("reader", "files", "read", "refused", "faults", "slowest file")
    for row in (row for run in runs for row in run["readers"]):
        yield line(
            row["reader"],
            *(f"{row[key]:,}" for key in ("tried", "accepted", "refused")),
            len(row["faults"]),
            f"{1e3 * row['slowest']:.1f} ms",
        )


def release(kept: dict[str, Any]) -> Iterator[str]:
    """What the archives weigh once installed, and how long an import takes."""
    machine = kept["machine"]
    yield (
        f"Version {kept['version']}, {machine['cores']} cores of {machine['processor']}; times are "
        f"of the CPU, medians of {kept['rounds']} fresh processes."
    )
    yield ""
    heads = "`import korisk`", "`import numpy, scipy.special`"
    yield from header("installed", "packages", "MB on disk", "largest, MB", *heads)
    for row in kept["installs"]:
        yield line(
            row["what"],
            row["packages"],
            f"{row['megabytes']:,.0f}",
            ", ".join(f"{name} {size:,.0f}" for name, size in row["largest"].items()),
            f"{row['import_ms']:.0f} ms",
            f"{row['base_ms']:.0f} ms",
        )


def house(kept: dict[str, Any]) -> Iterator[str]:
    """Size and shape of the source beside other libraries."""
    names = list(kept)

    def share(key: str, total: str) -> list[str]:
        return [f"{100 * kept[name][key] / kept[name][total]:.1f}%" for name in names]

    yield from header("", *names)
    for title, key in (("lines of code", "code"), ("files", "files")):
        yield line(title, *(f"{kept[name][key]:,}" for name in names))
    yield line("lines a file", *(kept[name]["lines a file"] for name in names))
    largest = "files in the largest folder"
    yield line(largest, *(kept[name][largest] for name in names))
    yield line("local names that say nothing", *share("vague local names", "assigned names"))
    comments = (f"{100 * kept[name]['comment lines']:.1f}%" for name in names)
    yield line("comment lines", *comments)
    yield line("private helpers called once", *share("called once", "private helpers"))
    late = "constants after a definition"
    yield line(late, *(kept[name][late] for name in names))
    yield line("circles of imports", *(len(kept[name]["circles"]) for name in names))


SECTIONS: dict[str, tuple[str, Callable[[dict[str, Any]], Iterator[str]]]] = {
    "What the tests reach: `make coverage`": ("coverage.json", coverage),
    "Small faults: `make mutation`": ("mutation.json", mutation),
    "Broken files: `make fuzz`": ("fuzz.json", fuzz),
    "Installed from its archives: `make release-check`": ("release.json", release),
    "The source beside other libraries: `quality.house`": ("house.json", house),
}


def tables() -> Iterator[str]:
    """All of them, a line at a time."""
    for title, (file, lines_of) in SECTIONS.items():
        kept = json.loads((RESULTS / file).read_text(encoding="utf-8"))
        yield from (f"### {title}", "", *lines_of(kept), "")


def main() -> None:
    """Print the tables, or write them into their file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the file")
    text = "\n".join(tables())
    if parser.parse_args().write:
        TEXT.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
