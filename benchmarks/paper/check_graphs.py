"""The theorem on trained networks that are no chain: whether it held, and how loose the bounds are.

    python -m benchmarks.paper.check_graphs --json benchmarks/results/check_graphs.json
    python -m benchmarks.paper.check_graphs --tables benchmarks/results/check_graphs.json

The first trains students of a true network of every kind (or goes on, under build/check_graphs) and
keeps what `korisk check` says, and changes one learned part of the true network at a time, a harder
test; the second prints the table of docs/explanation/check.md.
"""

import argparse
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.markdown import line
from benchmarks.paper.problems import korisk
from korisk.networks.amplification import graph_network, learned_parts
from korisk.paper.theorem.check import MEASURED
from korisk.paper.theorem.layers import graph_errors
from korisk.paper.theorem.problems import GRAPHS, GraphProblem
from korisk.problems import CtScanner
from korisk.store.usage import machine
from korisk.theory import BOUNDS, deep_risk

ONE, NEAR = "one part changed", "untrained, near"

STARTS = {"random": None, "near": 0.3}  # where training starts, by the share of weights changed
STUDY = """\
name: {network}, {start}
problem: {{kind: deep, network: {network}, channels: 4, near: {near}}}
points: [{{side: 8, views: 12, bins: 12}}]
sizes: [16, 128]
seeds: [1, 2]
pools: {{validation: 1, test: 128}}
models: {{KO: {{rate: 3.0e-3, iterations: 300, batch: 16}}}}
theorem: true
"""


def main() -> None:
    """Run and keep, or print what was kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to keep what came out")
    parser.add_argument("--tables", type=Path, help="print the table of what was kept there")
    parser.add_argument("--out", type=Path, default=Path("build/check_graphs"))
    parser.add_argument("--only", nargs="*", default=GRAPHS, choices=GRAPHS)
    options = parser.parse_args()
    if options.tables is not None:
        print("\n".join(tables(json.loads(options.tables.read_text()))))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Any] = {"machine": dict(machine()), "networks": []}
    for network in options.only:
        for start, near in STARTS.items():
            path = options.out / f"{network}-{start}.yaml"
            told = "null" if near is None else near
            path.write_text(STUDY.format(network=network, start=start, near=told))
            kept["networks"] += trained(network, start, path)
            print(network, start, kept["networks"][-1], flush=True)
        kept["networks"] += one_part(network)
    text = json.dumps(kept, indent=1) + "\n"
    if options.json is None:
        print(text)
    else:
        options.json.write_text(text)


def trained(network: str, start: str, study: Path) -> Iterator[dict[str, Any]]:
    """What `korisk check` says of every network of a study, and of those it started near to."""
    folder = study.with_suffix("")
    korisk("run", str(study), "--out", str(folder))
    (point,) = korisk("check", str(folder))["points"]
    for check in point["checks"]:
        if check["n"] or start == "near":
            yield {
                "network": network,
                "start": start if check["n"] else NEAR,
                "n": check["n"],
                "seed": check["seed"],
                "holds": check["holds"],
                "error": check["error"],
                "layers": len(check["layers"]),
                "bounds": {form: check["bounds"][form] for form in BOUNDS},
            }


@torch.no_grad()
def one_part(network: str) -> Iterator[dict[str, Any]]:
    """The true network with one learned part changed, each of them in turn."""
    scanner = CtScanner(side=8, views=12, bins=12, beam="parallel")
    problem = GraphProblem(scanner=scanner, network=network, near=STARTS["near"])
    truth = problem.true_network()
    test = problem.pools(seed=1, train=0, validation=0, test=128).test
    described = graph_network(truth, test.inputs[:1])
    for seed in (1, 2):
        for path, part in learned_parts(problem.start(seed)[0]).items():
            changed = copy.deepcopy(truth)
            changed.get_submodule(path).load_state_dict(part.state_dict())
            missed = (test.targets - changed(test.inputs)).double()
            error = float(missed.square().flatten(1).sum(1).mean())
            errors = graph_errors(truth, changed, test.inputs)
            bounds = {form: deep_risk(described, errors, bound=form).total for form in BOUNDS}
            kinds = {"network": network, "start": ONE, "n": 0, "seed": seed, "part": path}
            holds = error <= (1 + MEASURED) * min(bounds.values())
            yield kinds | {"holds": holds, "error": error, "layers": 1, "bounds": bounds}


def tables(kept: dict[str, Any]) -> Iterator[str]:
    """For each kind and start, in how many networks it held and bound / error."""
    heads = (f"{form} / error" for form in ("composed", "Minkowski", "paper"))
    yield line("network", "trained from", "parts that err", "held", *heads)
    yield line(*["---"] * 7)
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in kept["networks"]:
        groups.setdefault((each["network"], each["start"]), []).append(each)
    for (network, start), own in sorted(groups.items()):
        held = sum(each["holds"] is True for each in own)
        spreads = []
        for form in reversed(BOUNDS):
            loose = sorted(each["bounds"][form] / each["error"] for each in own)
            spreads.append(f"{median(loose):.2g} ({loose[0]:.2g} to {loose[-1]:.2g})")
        layers = own[0]["layers"]
        yield line(f"`{network}`", start, layers, f"{held} of {len(own)}", *spreads)


if __name__ == "__main__":
    main()
