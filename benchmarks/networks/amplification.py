"""Estimated risks beside measured errors and bounds, and whether the right layer is named.

    python -m benchmarks.networks.amplification [--workers 12] --json
        benchmarks/results/amplification.json
    python -m benchmarks.networks.amplification --tables benchmarks/results/amplification.json

Students of a true network of every kind are trained as for `benchmarks.paper.theorem`, and
some larger ones. Each risk is estimated on 64 pilot inputs and compared with the error on 128 test
inputs: from another training alone (the truth is not used), from the true layers, and to first
order from the layers' errors as if these had no direction. Then parts of the true network are
changed one at a time: the part that is estimated to make the largest error must be the one.
"""

import argparse
import copy
import json
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

import korisk as kr
from benchmarks.markdown import header, line
from benchmarks.paper.theorem import GRAPHS, Kind, graph_errors, graph_network
from korisk.networks.amplification import LayerGain, learned_parts
from korisk.problems import CtScanner
from korisk.store.usage import machine

SIZES, SEEDS, STEPS, BATCH, RATE = (16, 128), (1, 2), 300, 16, 3e-3  # as `theorem` has them
STARTS = {"random": None, "near": 0.3}
LARGER = ("inverse-cnn", "inverse-unet", "dense-skips", "unrolled", "weights-inverse-unet")
PILOT, TEST = 64, 128
CHANGED_SEEDS = range(1, 7)
NEAR = 3.0  # the factor within which an estimate counts as near
WAYS = {"seeds": "another training", "truth": "true layers", "random": "random directions"}


def kind_of(network: str, *, large: bool = False) -> Kind:
    """The kind of `theorem`, or one with four times the pixels and twice the channels."""
    side, bins = (16, 24) if large else (8, 12)
    scanner = CtScanner(side=side, views=bins, bins=bins, beam="parallel")
    return Kind(network, scanner, width=8 if large else 4)


def train(kind: Kind, truth: nn.Module, near: float | None, seed: int, n: int) -> nn.Module:
    """A student of the true network, by Adam on the mean squared error."""
    network, draws = kind.start(seed, near), torch.Generator().manual_seed(seed)
    network.requires_grad_(True)
    inputs, _ = kind.inputs(seed, n, 0)
    targets = truth(inputs).detach()
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    for _ in range(STEPS):
        chosen = torch.randint(n, (min(n, BATCH),), generator=draws)
        optimizer.zero_grad()
        (network(inputs[chosen]) - targets[chosen]).square().mean().backward()
        optimizer.step()
    return network


@torch.no_grad()
def squared_error(network: nn.Module, truth: nn.Module, inputs: Tensor) -> float:
    """E|f - f_hat|^2, summed over the entries of an output."""
    return float((network(inputs) - truth(inputs)).double().square().flatten(1).sum(1).mean())


def first_order(layers: tuple[LayerGain, ...], errors: dict[str, float]) -> float:
    """The error of the output for errors of layers that have no direction."""
    return math.fsum(layer.gain.value * errors.get(layer.name, 0.0) for layer in layers)


def trained(
    network: str, start: str, n: int, *, seeds: tuple[int, ...] = SEEDS, large: bool = False
) -> Iterator[dict[str, Any]]:
    """Estimates, bound and error of the trainings of one kind and size."""
    kind = kind_of(network, large=large)
    truth = kind.truth().requires_grad_(True)
    pilot, test = kind.inputs(77, PILOT, TEST)
    described = None if large else graph_network(truth, pilot[:1])  # takes minutes if large
    students = {seed: train(kind, truth, STARTS[start], seed, n) for seed in seeds}
    for place, (seed, student) in enumerate(students.items()):
        other = students[seeds[place - 1]]
        layers = kr.amplification(student, pilot)
        errors = graph_errors(truth, student, pilot)
        yield {
            "network": network,
            "start": "larger" if large else start,
            "n": n,
            "seed": seed,
            "error": squared_error(student, truth, test),
            "seeds": squared_error(student, other, pilot) / 2,
            "truth": squared_error(student, truth, pilot),
            "random": first_order(layers, errors),
            "bound": None if described is None else kr.theory.deep_risk(described, errors).total,
        }


def changed(network: str, seed: int) -> dict[str, Any]:
    """The true network with one learned part changed at a time: estimated and measured errors."""
    kind = kind_of(network)
    truth = kind.truth().requires_grad_(True)
    pilot, test = kind.inputs(77, PILOT, TEST)
    gains = kr.amplification(truth, pilot, probes=8)
    found: dict[str, dict[str, float]] = {"measured": {}, "random": {}, "along": {}}
    for path, part in learned_parts(kind.start(seed, STARTS["near"])).items():
        module = copy.deepcopy(truth)
        module.get_submodule(path).load_state_dict(part.state_dict())
        found["measured"][path] = squared_error(module, truth, test)
        found["random"][path] = first_order(gains, graph_errors(truth, module, pilot))
        found["along"][path] = squared_error(module, truth, pilot)
    return {"network": network, "seed": seed, **found}


def all_of(network: str, options: tuple[str, int, bool] | None) -> list[dict[str, Any]]:
    """The trainings of one network from one start and size, or all of its changes."""
    torch.set_num_threads(1)
    if options is None:
        return [changed(network, seed) for seed in CHANGED_SEEDS]
    start, n, large = options
    return [*trained(network, start, n, large=large)]


def near(estimate: float, error: float) -> bool:
    """Whether an estimate is within the factor of the error."""
    return error / NEAR <= estimate <= error * NEAR


def tables(kept: dict[str, Any]) -> Iterator[str]:
    """Estimate over error by kind, then how often the right layer is named."""
    heads = (f"{words}: near" for words in WAYS.values())
    ratios = (f"{words} / error" for words in ("another training", "random directions", "bound"))
    yield from header("network", "trained from", "networks", *heads, *ratios)
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for case in kept["trained"]:
        for key in ((case["network"], case["start"]), ("all", case["start"]), ("all", "any")):
            groups.setdefault(key, []).append(case)
    order = sorted(groups, key=lambda key: (key[0] == "all", key[1] == "any", key))
    for network, start in order:
        cases = groups[network, start]
        counts = [sum(near(case[way], case["error"]) for case in cases) for way in WAYS]
        middle = [
            median(values)
            if (values := [case[way] / case["error"] for case in cases if case[way] is not None])
            else None
            for way in ("seeds", "random", "bound")
        ]
        texts = ("-" if value is None else f"{value:.2g}" for value in middle)
        yield line(network, start, len(cases), *counts, *texts)
    yield ""
    ways = ("named rightly, random directions", "named rightly, along errors")
    yield from header("parts changed one at a time", "networks", *ways)
    for network in [*dict.fromkeys(case["network"] for case in kept["changed"]), "all"]:
        cases = [case for case in kept["changed"] if network in (case["network"], "all")]
        counts = []
        for way in ("random", "along"):
            worst = [max(case[way], key=case[way].get) for case in cases]
            true = [max(case["measured"], key=case["measured"].get) for case in cases]
            counts.append(sum(one == two for one, two in zip(worst, true, strict=True)))
        yield line(network, len(cases), *counts)


def main() -> None:
    """Measure and keep, or print what was kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to keep what came out")
    parser.add_argument("--tables", type=Path, help="print the tables of what was kept there")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=GRAPHS, choices=GRAPHS)
    options = parser.parse_args()
    if options.tables is not None:
        print("\n".join(tables(json.loads(options.tables.read_text()))))
        return
    kept: dict[str, Any] = {"machine": dict(machine()), "trained": [], "changed": []}
    jobs: list[tuple[str, tuple[str, int, bool] | None]] = []
    for network in options.only:
        if network != "unrolled":  # it has one learned part
            jobs.append((network, None))
        jobs += [(network, (start, n, False)) for start in STARTS for n in SIZES]
        if network in LARGER:
            jobs.append((network, ("near", 128, True)))
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for job, cases in zip(jobs, pool.map(all_of, *zip(*jobs, strict=True)), strict=True):
            print(json.dumps(cases[-1]), flush=True)
            kept["changed" if job[1] is None else "trained"] += cases
    if options.json is not None:
        options.json.write_text(json.dumps(kept, indent=1) + "\n")
        options.json.with_suffix(".txt").write_text("\n".join([*tables(kept), ""]))
    print("\n".join(tables(kept)))


if __name__ == "__main__":
    main()
