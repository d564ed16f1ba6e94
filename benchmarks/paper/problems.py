"""The example studies beyond the paper's: what came out, and whether the theorem held.

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

from benchmarks.markdown import line
from korisk.store.usage import machine

EXAMPLES = Path(__file__).parents[2] / "examples"
ROUNDING = 1e-9  # of the error of a network; smaller layer errors are rounding
STUDIES = (
    *("mri_h32", "mri_h32_relu", "advection_diffusion", "limited_angle"),
    *("two_learned_layers", "motion"),
)


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
    """One study: its mean errors, where they cross, and what `korisk check` says."""
    path = EXAMPLES / f"{name}.yaml"
    folder.parent.mkdir(parents=True, exist_ok=True)
    ran = korisk("run", str(path), "--out", str(folder), "--device", device)
    checked = korisk("check", str(folder))
    found = {part["point"]: part for part in checked["points"]}
    return {
        "seconds": ran["seconds"],
        "points": {
            point: {
                "means": {model: means(content[model]) for model in ("KO", "FC")},
                "crossing": content["crossing"],
                "theorem": theorem(found[point]),
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


def theorem(point: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a check: KO at its largest N, the range of looseness, and the order."""
    known = [group for group in point["groups"] if group["model"] == "KO" and group["n"]]
    return {
        "held": point["held"],
        "networks": point["networks"],
        "known": len([check for check in point["checks"] if check["model"] == "KO"]),
        "last": {key: known[-1][key] for key in ("n", "error", "layers", "bounds")},
        "looseness": {
            method: [
                min(group["looseness"][method]["least"] for group in known),
                max(group["looseness"][method]["worst"] for group in known),
            ]
            for method in ("paper", "minkowski", "composed")
        },
        "order": [
            {key: order[key] for key in ("predicted", "strengths")}
            | {
                "targets": len(order["targets"]),
                "came_out": {
                    method: sum(rung["fewer"] == winner for rung in order["targets"])
                    for method, winner in order["predicted"].items()
                },
            }
            for order in point["orders"]
        ],
    }


# --- Tables --------------------------------------------------------------------------------------


def tables(kept: dict[str, Any]) -> Iterator[str]:
    """Mean errors of every study, then the theorem."""
    for name, study in kept["studies"].items():
        yield f"### {name}"
        yield ""
        yield from errors(study)
    yield "### theorem"
    yield ""
    yield from bounds(kept["studies"])


def errors(study: dict[str, Any]) -> Iterator[str]:
    """Mean errors of both models at every N, and where the better one changes."""
    sizes = list(next(iter(study["points"].values()))["means"]["KO"])
    yield line("point", "model", *(f"N = {n}" for n in sizes), "FC passes KO at N (90%)")
    yield line(*["---"] * (len(sizes) + 3))
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


def bounds(studies: dict[str, Any]) -> Iterator[str]:
    """KO's error at its largest N against the three bounds, and the order of sample sizes."""
    yield line(
        *("point", "holds", "N", "error", "layers", "composed", "Minkowski", "paper"),
        *("loose by", "order"),
    )
    yield line(*["---"] * 10)
    for study in studies.values():
        for name, point in study["points"].items():
            told = point["theorem"]
            last = told["last"]
            layers = ", ".join(
                f"{n} {value:.3g}"
                for n, value in last["layers"].items()
                if value > ROUNDING * last["error"]
            )
            least, worst = told["looseness"]["composed"]
            yield line(
                *(name, f"{told['held']} of {told['networks']}", last["n"], f"{last['error']:.3g}"),
                layers,
                *(f"{last['bounds'][m]:.3g}" for m in ("composed", "minkowski", "paper")),
                f"{least:.3g} to {worst:.3g}",
                order(told["order"]),
            )


def order(found: list[dict[str, Any]]) -> str:
    """At how many targets the model with the smaller A p needed fewer samples."""
    [told] = found
    counts = told["came_out"]
    if len(set(counts.values())) == 1:
        return f"{counts['composed']} of {told['targets']}"
    return ", ".join(f"{method} {n}" for method, n in counts.items()) + f" of {told['targets']}"


if __name__ == "__main__":
    main()
