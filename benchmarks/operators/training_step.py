"""One training step of a learned primal-dual network with korisk, deepinv and torchtomo in it.

The same network for all: a few unrolled iterations, each a small CNN on sinograms and one on
images, with the projector and its adjoint between them (after Adler and Oektem, 2018). A step is
forward, backward and Adam, on 128 x 128 pixels, 60 views, a batch of 4. Where a peer has several
settings, all are measured and the fastest counts. All take turns, and the best of several steps is
shown: milliseconds, how many times as long as with korisk, and the part of the step that its
projections and backprojections take with their gradients, measured without the CNNs. With
--compile also korisk's network under torch.compile, against the same network without; a peer that
cannot be trained says why.

    python -m benchmarks.operators.training_step [--device cpu|cuda] [--threads 2] [--compile]
        [--json FILE]
"""

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.operators.peers import DeepInv, Korisk, Scan, TorchTomo

SCAN, BATCH = Scan(128, 60, 128), 4
ITERATIONS, MEMORY, WIDTH = 4, 4, 16
ROUNDS = 3

Map = Callable[[Tensor], Tensor]
Pair = tuple[Map, Map]  # a projector and its adjoint, both scaled to the norm 1


class PrimalDual(nn.Module):
    """Sinograms (batch, 1, views, bins) to images; a peer may swap the axes of its sinograms."""

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self.pair = pair
        self.duals, self.primals = (
            nn.ModuleList([_cnn(inputs) for _ in range(ITERATIONS)])
            for inputs in (MEMORY + 2, MEMORY + 1)
        )

    def forward(self, y: Tensor) -> Tensor:
        """The first of the images kept from iteration to iteration."""
        project, backproject = self.pair
        dual = y.new_zeros(len(y), MEMORY, *y.shape[2:])
        image = y.new_zeros(len(y), MEMORY, SCAN.size, SCAN.size)
        for on_data, on_image in zip(self.duals, self.primals, strict=True):
            dual = dual + on_data(torch.cat([dual, project(image[:, 1:2]), y], 1))
            image = image + on_image(torch.cat([image, backproject(dual[:, :1])], 1))
        return image[:, :1]


def _cnn(inputs: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(inputs, WIDTH, 3, padding=1), nn.PReLU(WIDTH)),
        *(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.PReLU(WIDTH)),
        nn.Conv2d(WIDTH, MEMORY, 3, padding=1),
    )


def pairs(device: str) -> tuple[dict[str, Pair], dict[str, str]]:
    """By library and setting; and why others are missing."""
    found: dict[str, Pair] = {}
    missing: dict[str, str] = {}
    projector = Korisk(SCAN, device).projector
    found["korisk"] = _scaled(projector, projector.adjoint, device)
    for peer in (TorchTomo, DeepInv):
        try:
            peer.load()
            for name, project, backproject in _settings(peer(SCAN, device), device):
                found[f"{peer.name}, {name}"] = _scaled(project, backproject, device)
        except Exception as trouble:  # whatever a peer raises is why it is missing
            missing[peer.name] = f"{type(trouble).__name__}: {trouble}".splitlines()[0]
    return found, missing


def _settings(peer: Any, device: str) -> list[tuple[str, Map, Map]]:
    if isinstance(peer, TorchTomo):
        options: list[dict[str, Any]] = [{"backend": "torch"}, {"sparse_adjoint": True}]
        options += [{"backend": "cuda"}] if device == "cuda" else []
        tomographs = {
            ", ".join(f"{key}={value}" for key, value in each.items()): peer._variant(**each)
            for each in options
        }
        return [(name, each.forward, each.adjoint) for name, each in tomographs.items()]
    names = "parallel, exact", "one by one, exact"
    return [(name, peer._variant(name).A, peer._variant(name).A_adjoint) for name in names]


def _scaled(project: Map, backproject: Map, device: str) -> Pair:
    """Both over the norm, by power iteration."""
    x = torch.rand(1, 1, SCAN.size, SCAN.size, device=device)
    with torch.no_grad():
        for _ in range(10):
            x = backproject(project(x / x.norm()))
        size = float(x.norm().sqrt())
    return lambda image: project(image) / size, lambda sinogram: backproject(sinogram) / size


def step_of(pair: Pair, device: str, mode: str | None = None) -> tuple[Callable[[], Any], Any]:
    """A training step and, for comparison, the network's first output."""
    torch.manual_seed(0)
    network: Any = PrimalDual(pair).to(device)
    if mode is not None:
        network = torch.compile(network, mode=mode, fullgraph=True)
    adam = torch.optim.Adam(network.parameters(), 1e-4, fused=device == "cuda")
    images = torch.rand(BATCH, 1, SCAN.size, SCAN.size, device=device)
    with torch.no_grad():
        sinograms = pair[0](images)
    first = network(sinograms).detach().clone()

    def step() -> None:
        adam.zero_grad(set_to_none=True)
        loss = (network(sinograms) - images).square().mean()
        loss.backward()
        adam.step()

    return step, first


def products_of(pair: Pair, device: str) -> Callable[[], Any]:
    """As many products and gradients of them as a step has, without CNNs."""
    start = torch.rand(BATCH, 1, SCAN.size, SCAN.size, device=device, requires_grad=True)

    def products() -> None:
        image = start
        for _ in range(ITERATIONS):
            image = pair[1](pair[0](image))
        torch.autograd.backward(image, torch.ones_like(image))

    return products


def milliseconds(work: Callable[[], Any], seconds: float, device: str) -> float:
    """The best of several calls."""
    best, until = np.inf, time.perf_counter() + seconds
    calls = 5 if device == "cuda" else 1
    while time.perf_counter() < until or not np.isfinite(best):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            work()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / calls)
    return float(best) * 1e3


def main() -> None:
    """Measure, print, and keep where asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6.0, help="for each line, about")
    parser.add_argument("--compile", action="store_true", help="also under torch.compile")
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    device = options.device
    where = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    print(f"{where}, {options.threads} threads, PyTorch {torch.__version__}")
    found, missing = pairs(device)
    works: dict[str, Callable[[], Any]] = {}
    ready = {}
    for name, pair in found.items():
        try:
            step, first = step_of(pair, device)
            parts = {name: step, f"{name}: operators": products_of(pair, device)}
            for work in parts.values():
                work()
        except Exception as trouble:
            missing[name] = f"{type(trouble).__name__}: {trouble}".splitlines()[0]
            continue
        ready[name] = first
        works |= parts
    for mode in ("default", "reduce-overhead") if options.compile else ():
        step, first = step_of(found["korisk"], device, mode)
        torch.testing.assert_close(first, ready["korisk"], rtol=1e-3, atol=1e-4)
        works[f"korisk, compiled, {mode}"] = step
        for _ in range(4):  # compiled at the first call, recorded at the next ones
            step()
    taken = dict.fromkeys(works, np.inf)
    for _ in range(ROUNDS):
        for name, work in works.items():
            spent = milliseconds(work, options.seconds / ROUNDS, device)
            taken[name] = min(taken[name], spent)
    ours = taken["korisk"]
    for name, spent in taken.items():
        if not name.endswith(": operators"):
            part = taken.get(f"{name}: operators")
            share = "" if part is None else f", operators {part / spent:.0%} of it"
            print(f"{name}: {spent:.3g} ms, {spent / ours:.2f} times korisk's{share}")
    for name, reason in missing.items():
        print(f"{name} is missing: {reason}")
    if options.json:
        about = {"where": where, "threads": options.threads, "torch": torch.__version__}
        record = {**about, "missing": missing, "milliseconds": taken}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
