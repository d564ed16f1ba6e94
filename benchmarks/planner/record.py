"""The record that answers state: how often an N called 90% sure was enough, or a ratio held.

    python -m benchmarks.planner.record            # prints it, as answers say it, and writes
                                                   # src/korisk/planning/record.json

From kept results on curves that chose nothing: of pilots and ratios from results/planner.json
(`planner.odds --save now`), of rehearsals from data/rehearsal.csv (`prediction.rehearse`).
"""

import json
import math

from benchmarks.planner import odds
from benchmarks.prediction import rehearse
from korisk.planning import words


def record() -> dict[str, list[words.Held]]:
    """By the kind of evidence: rows by how far beyond the pilot N lies."""
    found: dict[str, list[words.Held]] = odds.record() | rehearse.record("report")
    return {kind: found[kind] for kind in words.RECORD}


def main() -> None:
    """Print and write it."""
    found = record()
    for kind, rows in found.items():
        before = 1.0
        for row in rows:
            distance = f"{before:g} to {row['times']:g} times the pilot" if len(rows) > 1 else ""
            title = ", ".join(filter(None, (kind, distance)))
            print(f"{title}: {words.record(kind, [row], math.nextafter(before, math.inf))}")
            before = row["times"]
    odds.RECORD.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
