"""What the tests reach, package by package.

    make coverage    # the whole suite, child processes included, then this

reads coverage's JSON report and holds it against what the project asks for: 96% of all lines, and
98% of the branches in theory/, curves/ and planning/. `--json FILE` keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

LINES = 96.0  # percent of all lines
BRANCHES = 98.0  # percent, in these packages:
THEORY = ("theory", "curves", "planning")


@dataclass
class Count:
    """How much there is, and how much of it was reached."""

    lines: int = 0
    lines_reached: int = 0
    branches: int = 0
    branches_reached: int = 0

    def add(self, summary: dict[str, Any]) -> None:
        """Count one file's summary."""
        self.lines += summary["num_statements"]
        self.lines_reached += summary["covered_lines"]
        self.branches += summary["num_branches"]
        self.branches_reached += summary["covered_branches"]

    @property
    def line_share(self) -> float:
        """Percent of lines."""
        return 100 * self.lines_reached / self.lines if self.lines else 100.0

    @property
    def branch_share(self) -> float:
        """Percent of branches."""
        return 100 * self.branches_reached / self.branches if self.branches else 100.0


def packages(report: dict[str, Any]) -> dict[str, Count]:
    """Counts by package of src/korisk, files outside of any under "(top)", and "all"."""
    found: defaultdict[str, Count] = defaultdict(Count)
    for name, told in report["files"].items():
        path = name.replace("\\", "/")
        if not path.startswith("src/korisk/"):  # a copy that a test made elsewhere
            continue
        inside = path.removeprefix("src/korisk/").split("/")
        for package in (inside[0] if len(inside) > 1 else "(top)", "all"):
            found[package].add(told["summary"])
    return dict(found)


def faults(counts: dict[str, Count]) -> list[str]:
    """What falls short, in words."""
    short = []
    if counts["all"].line_share < LINES:
        short.append(f"lines: {counts['all'].line_share:.1f}%, asked for are {LINES:g}%")
    for package in THEORY:
        if counts[package].branch_share < BRANCHES:
            share = counts[package].branch_share
            short.append(f"branches of {package}/: {share:.1f}%, asked for are {BRANCHES:g}%")
    return short


def main() -> int:
    """Print the table; 1 where it falls short."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("report", type=Path, help="what `coverage json` wrote")
    parser.add_argument("--json", type=Path, help="keep the figures here")
    asked = parser.parse_args()
    counts = packages(json.loads(asked.report.read_text()))
    print(f"{'package':<12}{'lines':>8}{'reached':>9}{'branches':>10}{'reached':>9}")
    for package in sorted(counts, key=lambda name: (name == "all", name)):
        each = counts[package]
        shares = f"{each.line_share:>8.1f}%{each.branches:>10,}{each.branch_share:>8.1f}%"
        print(f"{package:<12}{each.lines:>8,}{shares}")
    if asked.json:
        kept = {package: asdict(count) for package, count in sorted(counts.items())}
        asked.json.write_text(json.dumps(kept, indent=1) + "\n")
    short = faults(counts)
    for line in short:
        print(line, file=sys.stderr)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
