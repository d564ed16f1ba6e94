"""What the ranks of the tests of sharded training do, and what the tests compare it with."""

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import state_dict_saver

from korisk.fitting import Recipe, draw_batches
from korisk.fitting.gradient import sharded_store as _sharded_store
from korisk.fitting.gradient.sharded import (
    Ranks,
    ShardedDense,
    ShardedTraining,
    joined,
    train_sharded,
)

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
    for batch in (3, 1)  # neither can be dealt out evenly to two ranks
}
KEPT = RECIPES["adam 3"]

# Blocks of 4 MiB in single precision.
LARGE_COLUMNS, LARGE_ROWS, LARGE_BLOCKS = 8192, 4096, 32


def data() -> tuple[Tensor, Tensor]:
    def draw(*shape: int, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return draw(SAMPLES, *DOMAIN, seed=1), draw(SAMPLES, *RANGE, seed=2).abs()


def batches(recipe: Recipe) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return draw_batches(SAMPLES, recipe.batch, recipe.iterations, generator)


def network(ranks: Ranks) -> ShardedDense:
    return ShardedDense(DOMAIN, RANGE, ranks=ranks, blocks=BLOCKS, seed=SEED, dtype=torch.float64)


def trained(
    ranks: Ranks, recipe: Recipe, folder: Path | None = None
) -> tuple[ShardedDense, ShardedTraining]:
    net = network(ranks)
    done = train_sharded(net, *data(), recipe, indices=batches(recipe), folder=folder, every=EVERY)
    return net, done


def curves(ranks: Ranks) -> dict[str, Any]:
    found = {}
    for name, recipe in RECIPES.items():
        net, done = trained(ranks, recipe)
        found[name] = {
            "losses": done.losses.tolist(),
            "matrix": net.matrix().tolist(),
            "images": net(data()[0]).tolist(),
        }
    return found


def memory(ranks: Ranks) -> dict[str, Any]:
    """Peaks of making and of training a large network, once everything has warmed up."""
    for blocks in (2, LARGE_BLOCKS):
        rows = LARGE_ROWS // LARGE_BLOCKS * blocks
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(4, LARGE_COLUMNS, generator=generator)
        y = torch.rand(4, rows, generator=generator)
        net = ShardedDense(LARGE_COLUMNS, rows, ranks=ranks, blocks=blocks, dtype=torch.float32)
        begun = net.peak.read()[0]
        recipe = Recipe(optimiser="adam", rate=1e-4, iterations=2, batch=2)
        done = train_sharded(net, x, y, recipe, generator=generator)
    return {"begun": begun, "peaks": done.peak_bytes}


def killed(ranks: Ranks, folder: Path) -> None:
    """Train, and be killed when a checkpoint is written but for its last touches."""
    save = state_dict_saver.save

    def save_and_die(state: Mapping[str, Tensor], **options: Any) -> Any:
        saved = save(dict(state), **options)
        if f"{KILLED_AT:08d}" in str(options["storage_writer"].path):
            os.kill(os.getpid(), signal.SIGKILL)
        return saved

    setattr(_sharded_store, "save", save_and_die)  # noqa: B010 (it is not theirs to give away)
    trained(ranks, KEPT, folder)


def main(folder: Path, *tasks: str) -> None:
    with joined() as ranks:
        said: dict[str, Any] = {}
        for task in tasks:
            if task == "curves":
                said[task] = curves(ranks)
            elif task == "memory":
                said[task] = memory(ranks)
            elif task == "resumed":
                done = trained(ranks, KEPT, folder / "checkpoints")[1]
                said[task] = {"losses": done.losses.tolist(), "at": done.resumed_at}
            if ranks.first:
                (folder / f"said-{ranks.size}.json").write_text(json.dumps(said))
            if task == "killed":
                killed(ranks, folder / "checkpoints")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
