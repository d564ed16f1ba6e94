"""Train the dense network of a study's point by gradients on several processes.

    torchrun --nproc-per-node 4 -m korisk.studies.run.sharded study.yaml --point large

Without torchrun it is one process. It can be stopped at any time: the next run continues from the
last checkpoint, on any number of processes.
"""

import argparse
import json
import math
import os
import sys
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from korisk import _checks
from korisk._json import JsonDict
from korisk._memory import check_memory
from korisk.errors import KoriskError
from korisk.files import make_folder, write_text
from korisk.fitting.gradient import sharded
from korisk.fitting.gradient.recipe import OPTIMISERS, Recipe, released_generator
from korisk.problems import measure
from korisk.store.cells import Task
from korisk.store.file import WriteLock
from korisk.store.usage import versions
from korisk.studies.spec.ct import scanner_of
from korisk.studies.spec.study import Study, problem_of

_PIECE = 64  # test samples that are reconstructed at once
# Messages of gloo and NCCL when another rank has died.
_LOST = ("closed by peer", "reset by peer", "broken pipe", "remote process exited")
_OPTIONS: dict[str, tuple[Any, Any, str]] = {  # type, default and help
    "point": (str, "", "name of the point, if there are several"),
    "seed": (int, 1, "random seed for samples, batches and weights"),
    "samples": (int, None, "training samples [default: the point's largest size]"),
    "out": (Path, None, "folder for results [default: STUDY-train]"),
    "optimiser": (str, "adam", f"update rule: {', '.join(OPTIMISERS)}"),
    "rate": (float, 1e-4, "learning rate"),
    "iterations": (int, 1000, "number of mini-batches"),
    "batch": (int, 4, "samples of a mini-batch, over all ranks"),
    "momentum": (float, 0.0, "momentum of sgd"),
    "every": (int, 100, "iterations between checkpoints"),
    "device": (str, "cuda" if torch.cuda.is_available() else "cpu", "cpu or cuda"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command on this rank; errors a user can cause become one line and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="torchrun --nproc-per-node R -m korisk.studies.run.sharded",
        description="Train the dense network of a point by gradients, its weights shared by ranks.",
    )
    parser.add_argument("study", type=Path, help="the study with the point, a YAML file")
    for name, (kind, default, text) in _OPTIONS.items():
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)
    try:
        train_point(parser.parse_args(arguments))
    except KoriskError as error:
        print(f"korisk: {error}", file=sys.stderr)
        return error.exit_code
    except RuntimeError as error:
        if not any(words in str(error).lower() for words in _LOST):
            raise
        ended = "another rank has ended; run again, which continues from the last checkpoint"
        print(f"korisk: {ended}", file=sys.stderr)
        return 1
    return 0


def train_point(options: argparse.Namespace) -> None:
    """Train, measure the errors on the test samples, and write `train.json`; on all ranks."""
    points = {task.point: dict(task.spec) for task in Study.read(options.study).tasks}
    point = next(iter(points)) if len(points) == 1 and not options.point else options.point
    _checks.one_of("point", point, tuple(points))
    spec = points[point]
    _checks.one_of("kind of sharded training", spec["problem"]["kind"], ("ct",))
    seed = _checks.count("seed", options.seed, at_least=0, at_most=2**31, remedy="try 1")
    samples = spec["sizes"][-1] if options.samples is None else options.samples
    most = 128 if spec["problem"]["population"] == "released-surrogate" else 10**7
    _checks.count("samples", samples, at_least=1, at_most=most, remedy="count phantoms")
    recipe = Recipe(**{field.name: getattr(options, field.name) for field in fields(Recipe)})
    out = options.out or Path(f"{options.study.stem}-train")
    result, checkpoints = out / "train.json", out / "checkpoints"
    # Rows are pixels, columns are rays of the dense matrix.
    scanner, tests = scanner_of(spec["problem"]), int(spec["pools"]["test"])
    shapes = scanner.geometry.sinogram_shape, scanner.geometry.image_shape
    columns, rows = (math.prod(shape) for shape in shapes)
    size = scanner.dtype.itemsize
    blocks = len(sharded.sharded_blocks(rows, columns, itemsize=size))
    _checks.one_of("device", options.device, ("cpu", "cuda"))
    with sharded.process_group(options.device) as device, ExitStack() as stack:
        ranks, is_main = dist.get_world_size(), dist.get_rank() == 0
        data = (samples + tests) * (rows + columns) * size
        weights = rows * columns
        shared_bytes, in_flight = sharded.sharded_bytes(weights, recipe, blocks, itemsize=size)
        predicted = math.ceil(shared_bytes / ranks) + in_flight
        # Ranks of one machine share its memory, and each has its own GPU.
        local = int(os.environ.get("LOCAL_WORLD_SIZE", 1)) if device.type == "cpu" else 1
        remedy = "use more GPUs or machines, or fit in dual form with korisk run"
        check_memory(local * (predicted + data), device, "sharded training", remedy)
        if is_main:
            make_folder(out)
            stack.callback(WriteLock(result).release)
            done = max(sharded.complete_checkpoints(checkpoints), default=0)
            print(f"korisk: {done:,} of {recipe.iterations:,} iterations already done")
        # Drawn by rank 0, so that all ranks have the same to the bit.
        location: JsonDict = {"device": device, "dtype": scanner.dtype}
        pool = [torch.empty(n, *shape, **location) for n in (samples, tests) for shape in shapes]
        if is_main:
            sizes = {"train": samples, "validation": 0, "test": tests}
            pools = problem_of(spec).pools(seed=seed, device=device, **sizes)
            pool = [*pools.train, *pools.test]
        for values in pool:
            dist.broadcast(values, 0)
        inputs, targets, test_inputs, test_targets = pool
        relu = bool(spec["models"].get("FC", {}).get("relu", True))
        network = sharded.ShardedDense(*shapes, relu=relu, seed=seed, **location)

        def progress(done: int, loss: float) -> None:
            result.unlink(missing_ok=True)  # results of an earlier training
            print(f"korisk: {done:,} iterations, loss {loss:.4g}")

        # The last bits of projections depend on the machine, so data are identified by a name.
        task = Task(point=point, seed=seed, spec=spec["problem"])
        training = sharded.train_sharded(
            network,
            inputs,
            targets,
            recipe,
            generator=released_generator(seed),
            folder=checkpoints,
            every=options.every,
            progress=progress,
            data=f"{task.spec_hash}, seed {seed}",
        )
        # On all ranks, since the forward pass gathers weights from all of them.
        images = torch.cat([network(piece) for piece in torch.split(test_inputs, _PIECE)])
        metrics = measure(images, test_targets)
        if not is_main:
            return
        # A finished training that is started again must not overwrite its timings.
        if training.resumed_at < recipe.iterations or not result.exists():
            content = {
                "point": point,
                "seed": seed,
                "samples": samples,
                "weights": weights,
                "blocks": blocks,
                "device": device.type,
                "predicted_bytes": predicted,
                **asdict(training),
                "losses": training.losses.tolist(),
                "metrics": {n: v if math.isfinite(v) else None for n, v in metrics.items()},
                "versions": dict(versions()),
            }
            write_text(result, json.dumps(content, indent=1, allow_nan=False) + "\n")
        errors = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        print(f"{point}, seed {seed}, {samples:,} samples: {errors} on the test set")
        print(f"Results are in {result}.")


if __name__ == "__main__":
    sys.exit(main())
