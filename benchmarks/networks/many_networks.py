"""27 small networks trained at once, against one after another.

FBP + U-Net of `korisk.networks.zoo` on simulated CT, 32 x 32 pixels: nine training set sizes, three
seeds, 3,000 steps each, batches of 16. Three ways, with the same initial weights, samples and kept
step (the best of ten on validation images):

    plain     one after another, a loop of PyTorch as anyone writes it (fused Adam, cosine decay)
    replayed  one after another, each step a captured CUDA graph: `train_many` on one network
    at once   all of them stacked: `train_many`

FBP has nothing to learn and is applied once to all data, in all three ways. With `--plain K` the
plain loop trains every size of the first seeds alone until it has trained K networks, and its time
is scaled to all. Says what each way took, and the test error at every size with the spread of the
seeds.

    python -m benchmarks.networks.many_networks [--device cuda] [--plain 27] [--steps 3000]
        [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from korisk.fitting import Recipe
from korisk.fitting.gradient.recipe import CHECKS
from korisk.fitting.gradient.train import Member, train_many
from korisk.networks import zoo
from korisk.problems import CtProblem, CtScanner, Gaussian

SCAN = CtScanner(side=32, views=20, bins=46, beam="parallel")
VALIDATION, TEST = 64, 256
BATCH, RATE = 16, 1e-3
Way = Callable[[Sequence[Member]], list[float]]


def made(
    sizes: Sequence[int], seeds: Sequence[int], width: int, device: str
) -> tuple[list[Member], Tensor, Tensor]:
    """Fresh networks behind FBP, seed after seed, and the pool of all of them."""
    problem = CtProblem(scanner=SCAN, noise=Gaussian(0.02))
    known = problem.known_operators(device)
    inputs, targets, members = [], [], []
    start = 0
    for seed in seeds:
        counts = {"train": sizes[-1], "validation": VALIDATION, "test": TEST}
        pools = problem.pools(seed=seed, device=device, **counts)
        inputs += [pool.inputs for pool in pools]
        targets += [pool.targets for pool in pools]
        rows = torch.arange(start, start + sum(counts.values()), device=device)
        train, *judged = torch.split(rows, list(counts.values()))
        start += len(rows)
        for n in sizes:
            network = zoo.build("inverse-unet", *known, width=width, seed=seed)
            front, rest = zoo.split_known(network)
            members.append(Member(f"N = {n}, seed {seed}", rest, seed, train[:n], *judged))
    with torch.no_grad():
        images = torch.cat([front(part) for part in torch.split(torch.cat(inputs), 1024)])
    return members, images, torch.cat(targets)


def plain(member: Member, images: Tensor, targets: Tensor, steps: int) -> float:
    """The test error of one network after a plain training loop."""
    network, best, kept = member.module, float("inf"), float("nan")
    adam = torch.optim.Adam(network.parameters(), RATE, fused=images.is_cuda)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    own = min(BATCH, len(member.rows))
    draws = torch.Generator().manual_seed(member.seed)
    chosen = torch.randint(len(member.rows), (steps, own), generator=draws).to(images.device)
    for step in range(steps):
        rows = member.rows[chosen[step]]
        adam.zero_grad(set_to_none=True)
        loss = (network(images[rows]) - targets[rows]).square().mean()
        loss.backward()
        adam.step()
        decay.step()
        if (step + 1) * CHECKS // steps > step * CHECKS // steps:
            with torch.no_grad():
                judged = torch.cat([member.validation, member.test])
                errors = (network(images[judged]) - targets[judged]).square().flatten(1).mean(1)
            validation, test = (part.mean().item() for part in errors.split([VALIDATION, TEST]))
            if validation < best:
                best, kept = validation, test
    return kept


def timed(
    way: str, options: argparse.Namespace, steps: int, seeds: Sequence[int], most: int
) -> tuple[float, dict[str, float]]:
    """Seconds of training, and the test errors of the first members by name."""
    members, images, targets = made(options.sizes, seeds, options.width, options.device)
    members = members[:most]
    recipe = Recipe(steps=steps, batch=BATCH, rate=RATE, cosine=True)
    if options.device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    if way == "at once":
        done = train_many(members, images, targets, recipe)
        found = {members[index].name: errors.mean().item() for index, errors in done}
    elif way == "replayed":
        found = {
            member.name: errors.mean().item()
            for member in members
            for _, errors in train_many([member], images, targets, recipe)
        }
    else:
        found = {member.name: plain(member, images, targets, steps) for member in members}
    if options.device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, found


def main() -> None:
    """Measure, print, and keep where asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    add = parser.add_argument
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--steps", type=int, default=3000)
    add("--sizes", type=int, nargs="+", default=[2**k for k in range(3, 12)])
    add("--seeds", type=int, nargs="+", default=[1, 2, 3])
    add("--width", type=int, default=16, help="channels of the U-Net at full size")
    add("--plain", type=int, help="networks that the plain loop trains; default: all")
    add("--replayed", type=int, help="networks that are replayed; default: all")
    add("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    count = len(options.sizes) * len(options.seeds)
    if options.device == "cuda":  # libraries set themselves up
        for way in ("plain", "replayed", "at once"):
            timed(way, options, 20, options.seeds[:1], 2)
    where = torch.cuda.get_device_name() if options.device == "cuda" else platform.machine()
    print(f"{where}, PyTorch {torch.__version__}: {count} networks, {options.steps} steps")
    record: dict[str, Any] = {
        "where": where,
        "torch": torch.__version__,
        "networks": count,
        "steps": options.steps,
        "ways": {},
    }
    seconds: dict[str, float] = {}
    errors: dict[str, dict[str, float]] = {}
    most = {"plain": options.plain, "replayed": options.replayed}
    for way in ("at once", "replayed", "plain"):
        trained = min(count, most.get(way) or count)
        spent, errors[way] = timed(way, options, options.steps, options.seeds, trained)
        seconds[way] = spent * count / trained
        scaled = "" if trained == count else f", scaled from {trained} networks in {spent:.1f} s"
        print(f"{way}: {seconds[way]:.1f} s{scaled}", flush=True)
        about = {"trained": trained, "seconds": spent, "seconds_of_all": seconds[way]}
        record["ways"][way] = about | {"errors": errors[way]}
        if options.json:  # each way at once: a slow one may be stopped
            options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for way in ("plain", "replayed"):
        share = seconds["at once"] / seconds[way]
        print(f"At once takes {share:.3f} of {way}, one after another (1 / {1 / share:.1f}).")
    for way in ("plain", "replayed"):
        apart = max(abs(errors[way][name] / errors["at once"][name] - 1) for name in errors[way])
        print(f"Test errors differ from those of {way} by at most {apart:.1%}.")


if __name__ == "__main__":
    main()
