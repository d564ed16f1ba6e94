"""The tables of docs/explanation/planner.md, from what the planner's benchmarks printed.

    python -m benchmarks.planner.tables > benchmarks/results/planner_tables.txt

The kept outputs, all in benchmarks/results/:

    planner.txt           planner.py --only posterior
    planner_rivals.txt    planner.py --only "paper;last value;..." (its first lines say)
    planner_neural.txt    planner_neural.py --part report, and --part all
    planner_related.txt   planner_related.py
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
COLUMNS = (
    *("error", "refuse", "2x", "2x at 2", "2x at 4", "2x at 8", "safe"),
    *("false", "broken", "cover E", "cover N", "endless"),
)
SHOWN = ("error", "refuse", "2x", "false", "broken", "cover E", "cover N")
TOGETHER = "LCDB and scikit-learn"
PARTS = ("LCDB, report part", "scikit-learn", TOGETHER, "image networks, report part")


def kept(name: str) -> str:
    """What a benchmark printed."""
    return (RESULTS / name).read_text(encoding="utf-8")


def part(text: str, title: str) -> str:
    """One part of an output, from its title on."""
    return text[text.index(f"\n{title}:") + 1 :].split("\n\n")[0]


def rows(text: str, title: str) -> dict[str, dict[str, str]]:
    """Its rows: estimator -> column -> figure."""
    lines = part(text, title).splitlines()[2:]
    found = {}
    for line in lines:
        cells = line[32:].split()
        if len(cells) != len(COLUMNS):
            break
        found[line[:32].strip()] = dict(zip(COLUMNS, cells, strict=True))
    return found


def line(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def head(*cells: str) -> list[str]:
    """The first two lines of a table."""
    return [line(*cells), line(*("---" for _ in cells))]


def estimators() -> Iterator[str]:
    """The default and its rivals, over LCDB and scikit-learn."""
    counts = re.search(r": (.*) pilots, (.*) hidden errors, (.*) targets", part_of_default())
    assert counts is not None
    pilots, errors, targets = counts.groups()
    yield f"{pilots} pilots, {errors} hidden errors, {targets} targets:"
    yield ""
    yield from head("estimator", *SHOWN)
    found = rows(kept("planner.txt"), TOGETHER) | rows(kept("planner_rivals.txt"), TOGETHER)
    for name, cells in found.items():
        label = "**posterior** (default)" if name == "posterior" else name
        yield line(label, *(cells[column] for column in SHOWN))


def part_of_default() -> str:
    """What is kept of the default over LCDB and scikit-learn."""
    return part(kept("planner.txt"), TOGETHER)


def domains() -> Iterator[str]:
    """The default in each domain."""
    yield from head("curves", "error", "refuse", "within 2x (at 2, 4, 8)", "false", "coverage E, N")
    for title in PARTS:
        cells = rows(kept("planner.txt"), title)["posterior"]
        near = ", ".join(cells[f"2x at {times}"] for times in (2, 4, 8))
        both = f"{cells['cover E']}, {cells['cover N']}"
        within = f"{cells['2x']} ({near})"
        yield line(title, cells["error"], cells["refuse"], within, cells["false"], both)


def odds() -> Iterator[str]:
    """Chances and whether they came true, in each domain."""
    said = ("0 to 20%", "20 to 40%", "40 to 60%", "60 to 80%", "80 to 100%")
    yield from head("curves", *said, "safe(.8)", "safe(.9)", "safe(.95)")
    for title in PARTS:
        text = part(kept("planner.txt"), title)
        bins = re.findall(r"on average ([\d.]+), true ([\d.]+)", text)
        safe = re.findall(r"\d+%: ([\d.]+) \(", text[text.index("safe(p)") :])
        yield line(title, *(f"{mean} → {true}" for mean, true in bins), *safe)


def neural() -> Iterator[str]:
    """The curves of neural networks: the reporting half, and all."""
    yield from head(
        "estimator", "report: mean", "geometric", "all 46: mean", "geometric", "coverage (report)"
    )
    halves = []
    for title in ("part report", "part all"):
        text = kept("planner_neural.txt")
        lines = text[text.index(title) :].splitlines()
        first = next(i for i, each in enumerate(lines) if each.startswith("estimator"))
        second = next(
            i for i, each in enumerate(lines) if each.startswith("estimator") and i > first
        )
        errors = {row[:17].strip(): row[17:].split() for row in lines[first + 1 : second - 1]}
        cover = {
            row[:17].strip(): row[17:].split()[1] for row in lines[second + 1 :][: len(errors)]
        }
        halves.append((errors, cover))
    (report, cover), (whole, _) = halves
    for name, cells in report.items():
        label = "**posterior** (default)" if name == "posterior" else name
        yield line(label, *cells[:2], *whole[name][:2], cover[name])


def related() -> Iterator[str]:
    """What relatives are worth."""
    yield from head(
        *("pilot to", "at", "alone: error (90% quantile), coverage, within 2x", "with relatives"),
    )
    text = kept("planner_related.txt").splitlines()
    pattern = r"(\S+) \((\S+)\) (\S+) (\S+)"
    for row in text[2:]:
        found = re.match(r"\s*(\S+)\s+(\S+)\s+(\d+)\s+(.*)", row)
        if found is None or row.startswith("misleading"):
            continue
        sides = re.findall(pattern, found[4])
        cells = [f"{middle} ({far}), {cover}, {within}" for middle, far, cover, within in sides]
        at = found[2] if found[2] == "all" else f"{found[2]}x"
        yield line(found[1], at, *cells)
    yield ""
    yield f"{text[-1][0].upper()}{text[-1][1:]}."


TABLES = {
    "estimators": estimators,
    "domains": domains,
    "odds": odds,
    "neural": neural,
    "related": related,
}


def tables() -> Iterator[str]:
    """Every table below its name, by which the page includes it."""
    for name, make in TABLES.items():
        yield f"### {name}"
        yield ""
        yield from make()


if __name__ == "__main__":
    print("\n".join(tables()))
