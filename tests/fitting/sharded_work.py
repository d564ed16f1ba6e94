"""What the ranks of the tests of sharded training do, and what the tests compare it with."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint import state_dict_saver

from korisk.fitting import Recipe
from korisk.fitting.gradient import sharded
from korisk.fitting.gradient.sharded import ShardedDense, ShardedTraining, process_group

DOMAIN, RANGE = (6, 10), (5, 5)
SAMPLES, SEED = 7, 3
EVERY, KILLED_AT = 5, 15
BLOCKS = 4  # of 6 or 7 rows: uneven on two ranks

RECIPES = {
    f"{name} {batch}": Recipe(
        optimiser=name,  # type: ignore[arg-type]
        rate=rate,
        iterations=20,
        batch=batch,
        momentum=momentum,
    )
    for name, rate, momentum in (("adam", 1e-2, 0.0), ("adagrad", 5e-2, 0.0), ("sgd", 5e-2, 0.9))
    for batch in (3, 1)  # neither can be divided evenly between two ranks
}
KEPT = RECIPES["adam 3"]

# Blocks of 4 MiB in single precision.
LARGE_COLUMNS, LARGE_ROWS, LARGE_BLOCKS = 8192, 4096, 32


def data() -> tuple[Tensor, Tensor]:
    def draw(*shape: int, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return draw(SAMPLES, *DOMAIN, seed=1), draw(SAMPLES, *RANGE, seed=2).abs()


def batches() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def network(device: torch.device, **options: Any) -> ShardedDense:
    settings: dict[str, Any] = {"blocks": BLOCKS, "seed": SEED, "dtype": torch.float64}
    return ShardedDense(DOMAIN, RANGE, device=device, **settings | options)


def trained(
    device: torch.device, recipe: Recipe, folder: Path | None = None, **options: Any
) -> tuple[ShardedDense, ShardedTraining]:
    net = network(device)
    settings: dict[str, Any] = {"generator": batches(), "folder": folder, "every": EVERY}
    return net, sharded.train_sharded(net, *data(), recipe, **settings | options)


def curves(device: torch.device) -> dict[str, Any]:
    found = {}
    for name, recipe in RECIPES.items():
        net, done = trained(device, recipe)
        found[name] = {
            "losses": done.losses.tolist(),
            "matrix": net.matrix().tolist(),
            "images": net(data()[0]).tolist(),
        }
    return found


def memory(device: torch.device) -> dict[str, Any]:
    """Peaks of making and of training a large network, once everything has warmed up."""
    for blocks in (2, LARGE_BLOCKS):
        rows = LARGE_ROWS // LARGE_BLOCKS * blocks
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(4, LARGE_COLUMNS, generator=generator)
        y = torch.rand(4, rows, generator=generator)
        settings: dict[str, Any] = {"blocks": blocks, "dtype": torch.float32}
        net = ShardedDense(LARGE_COLUMNS, rows, device=device, **settings)
        recipe = Recipe(optimiser="adam", rate=1e-4, iterations=2, batch=2)
        done = sharded.train_sharded(net, x, y, recipe, generator=generator)
    return {"peaks": done.peak_bytes}


def killed(device: torch.device, folder: Path) -> None:
    """Train, and have rank 1 killed when a checkpoint is complete but for its last file."""
    save = state_dict_saver.save

    def save_and_die(state: dict[str, Tensor], **options: Any) -> Any:
        saved = save(state, **options)
        if f"{KILLED_AT:08d}" in str(options["storage_writer"].path) and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return saved

    setattr(state_dict_saver, "save", save_and_die)  # noqa: B010 (mypy forbids the assignment)
    trained(device, KEPT, folder)


def main(folder: Path, *tasks: str) -> None:
    with process_group() as device:
        found: dict[str, Any] = {}
        for task in tasks:
            if task == "curves":
                found[task] = curves(device)
            elif task == "memory":
                found[task] = memory(device)
            elif task == "resumed":
                done = trained(device, KEPT, folder / "checkpoints")[1]
                found[task] = {"losses": done.losses.tolist(), "at": done.resumed_at}
            if dist.get_rank() == 0:
                (folder / f"found-{dist.get_world_size()}.json").write_text(json.dumps(found))
            if task == "killed":
                killed(device, folder / "checkpoints")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
