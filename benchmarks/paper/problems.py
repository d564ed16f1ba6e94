"""The example studies beyond the paper's: mean errors, and where FC passes KO.

    python -m benchmarks.paper.problems --json benchmarks/results/problems.json [--device cuda]
    python -m benchmarks.paper.problems --tables benchmarks/results/problems_h200.json

The first runs every study (or goes on with them, under build/problems), the second prints the
tables of docs/explanation/problems.md from what the first kept.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.markdown import header, line
from korisk.store.usage import machine

EXAMPLES = Path(__file__).parents[2] / "examples"
STUDIES = "mri_h32", "mri_h32_relu", "advection_diffusion", "limited_angle", "motion"


def main() -> None:
    """Run and keep, or print what was kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to keep what came out")
    parser.add_argument("--tables", type=Path, help="print tables of what was kept there")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("build/problems"))
    parser.add_argument("--only", nargs="*", default=STUDIES, choices=STUDIES)
    options = parser.parse_args()
    if options.tables is not None:
        print("\n".join(tables(json.loads(options.tables.read_text()))))
        return
    kept: dict[str, Any] = {"machine": dict(machine()), "device": options.device, "studies": {}}
    if options.json is not None and options.json.exists():  # studies that are not run again stay
        kept["studies"] = json.loads(options.json.read_text())["studies"]
    kept["studies"] |= {
        name: run(name, options.out / options.device / name, options.device)
        for name in options.only
    }
    text = json.dumps(kept, indent=1)
    if options.json is None:
        print(text)
    else:
        options.json.write_text(text + "\n")


def run(name: str, folder: Path, device: str) -> dict[str, Any]:
    """One study: its mean errors, and where they cross."""
    path = EXAMPLES / f"{name}.yaml"
    folder.parent.mkdir(parents=True, exist_ok=True)
    ran = korisk("run", str(path), "--out", str(folder), "--device", device)
    return {
        "seconds": ran["seconds"],
        "points": {
            point: {
                "means": {model: means(content[model]) for model in ("KO", "FC")},
                "crossing": content["crossing"],
            }
            for point, content in ran["points"].items()
        },
    }


def korisk(*arguments: str) -> Any:
    """What a command prints with --json."""
    command = [sys.executable, "-m", "korisk", *arguments, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def means(records: list[dict[str, Any]]) -> dict[str, float]:
    """The mean over seeds at each N."""
    errors: dict[str, list[float]] = {}
    for record in records:
        errors.setdefault(str(record["n"]), []).append(record["error"])
    return {n: sum(found) / len(found) for n, found in errors.items()}


# --- Tables --------------------------------------------------------------------------------------


def tables(kept: dict[str, Any]) -> Iterator[str]:
    """Mean errors of every study."""
    for name, study in kept["studies"].items():
        yield f"### {name}"
        yield ""
        yield from errors(study)


def errors(study: dict[str, Any]) -> Iterator[str]:
    """Mean errors of both models at every N, and where the better one changes."""
    sizes = list(next(iter(study["points"].values()))["means"]["KO"])
    yield from header("point", "model", *(f"N = {n}" for n in sizes), "FC passes KO at N (90%)")
    for name, point in study["points"].items():
        for model, found in point["means"].items():
            where = crossing(point["crossing"]) if model == "FC" else ""
            yield line(name, model, *(f"{found[n]:.3g}" for n in sizes), where)


def crossing(found: dict[str, Any]) -> str:
    """The planner's crossover."""
    told = found["found"]
    if told is None:
        return "not up to there"
    upper = "∞" if told["upper"] is None else f"{told['upper']:,.0f}"
    return f"{told['n']:,.0f} ({told['lower']:,.0f} to {upper})"


if __name__ == "__main__":
    main()
