"""What the tests reach, package by package.

    make coverage    # the whole suite, child processes included, then this

reads coverage's JSON report and holds it against what the project asks for: 96% of all lines, and
98% of the branches in theory/, curves/ and planning/. `--json FILE` keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from benchmarks.quality.tables import coverage, reached

LINES = 96.0  # percent of all lines
BRANCHES = 98.0  # percent, in these packages:
THEORY = ("theory", "curves", "planning")
COUNTED = {
    "lines": "num_statements",
    "lines_reached": "covered_lines",
    "branches": "num_branches",
    "branches_reached": "covered_branches",
}


def packages(report: dict[str, Any]) -> dict[str, Counter[str]]:
    """Counts by package of src/korisk, files outside of any under "(top)", and "all"."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, told in report["files"].items():
        path = name.replace("\\", "/")
        if path.startswith("src/korisk/"):  # no copy that a test made elsewhere
            package, _, file = path.removeprefix("src/korisk/").partition("/")
            counts = {key: told["summary"][column] for key, column in COUNTED.items()}
            for part in (package if file else "(top)", "all"):
                found[part].update(counts)
    return dict(sorted(found.items()))


def main() -> int:
    """Print the table; 1 where it falls short."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("report", type=Path, help="what `coverage json` wrote")
    parser.add_argument("--json", type=Path, help="keep the figures here")
    asked = parser.parse_args()
    counts = packages(json.loads(asked.report.read_text()))
    print("\n".join(coverage(counts)))
    if asked.json:
        asked.json.write_text(json.dumps(counts, indent=1) + "\n")
    wanted = [("all", "lines", LINES), *((package, "branches", BRANCHES) for package in THEORY)]
    short = [each for each in wanted if reached(counts[each[0]], each[1]) < each[2]]
    for package, what, least in short:
        print(f"{what} of {package}: asked for are {least:g}%", file=sys.stderr)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
