"""The dense network of a study's point, trained by gradients on several ranks."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pydantic import Field

from korisk.errors import KoriskError
from korisk.files import Spec, read_text, write_text
from korisk.fitting.gradient.recipe import Recipe, draw_batches, released_generator
from korisk.fitting.gradient.sharded import (
    Ranks,
    ShardedDense,
    ShardedTraining,
    joined,
    train_sharded,
)
from korisk.operators.ct.engines import free_memory
from korisk.problems import CtScanner, Pairs, measure
from korisk.studies.result import Task
from korisk.studies.run.usage import versions
from korisk.studies.spec.problem_of import problem_of, scanner_of
from korisk.theory.footprint import format_bytes, sharded_blocks, sharded_bytes, share_bytes

Hear = Callable[[int, float], None]  # iterations done, mean loss since the last call

_RESULT = "train.json"
_CHECKPOINTS = "checkpoints"
_PIECE = 64  # test samples that are reconstructed at once
_MAX_RESULT = 10**9  # bytes


class _Result(Spec, extra="allow"):
    """What must be in the file of results for it to be printed; more may be."""

    metrics: dict[str, float | None]
    losses: list[float] = Field(min_length=1)
    seconds_per_step: float | None
    ranks: int
    peak_bytes: list[int]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is trained, how, and where."""

    study: Path
    point: str
    spec: dict[str, Any]
    seed: int
    samples: int
    recipe: Recipe
    every: int
    blocks: int | None
    offload: bool
    device: str
    out: Path
    ranks: int

    @property
    def scanner(self) -> CtScanner:
        """The point's scanner."""
        return scanner_of(self.spec)

    @property
    def relu(self) -> bool:
        """Whether the network ends in a ReLU."""
        return bool(self.spec["models"].get("FC", {}).get("relu", True))

    @property
    def block_count(self) -> int:
        """Blocks of rows, as asked or by size."""
        scanner = self.scanner
        rows, columns = scanner.side**2, scanner.views * scanner.bins
        size = scanner.dtype.itemsize
        if self.blocks is not None:
            return self.blocks
        return sharded_blocks(rows, columns, itemsize=size)

    @property
    def parameters(self) -> int:
        """Weights of the network."""
        return self.scanner.side**2 * self.scanner.views * self.scanner.bins

    @property
    def data(self) -> str:
        """What the samples are: a projector's values depend in the last bits on where it runs."""
        task = Task(point=self.point, seed=self.seed, spec=self.spec["problem"])
        return f"{task.spec_hash}, seed {self.seed}"

    @property
    def checkpoints(self) -> Path:
        """The folder of its checkpoints."""
        return self.out / _CHECKPOINTS

    @property
    def result(self) -> Path:
        """The file that it ends in."""
        return self.out / _RESULT

    def read_result(self) -> dict[str, Any] | None:
        """What that file holds; None where it is not there, or is something else."""
        try:
            content = json.loads(read_text(self.result, max_bytes=_MAX_RESULT))
            return dict(_Result.model_validate(content))
        except (ValueError, RecursionError):
            return None

    @property
    def _useful_ranks(self) -> int:
        """Rows of a block are dealt out whole: ranks beyond them get none of it."""
        return max(1, self.scanner.side**2 // self.block_count)

    def predicted(self, ranks: int) -> int:
        """Bytes on the device of each rank, data apart."""
        return sharded_bytes(
            self.parameters,
            ranks=min(ranks, self._useful_ranks),
            optimiser=self.recipe.optimiser,
            blocks=self.block_count,
            momentum=bool(self.recipe.momentum),
            offload=self.offload,
            itemsize=self.scanner.dtype.itemsize,
        )


# --- Whether it fits ------------------------------------------------------------------------------


def refuse_what_does_not_fit(job: Job) -> None:
    """Say what a rank takes before the machine finds out, and how many ranks it takes."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", job.ranks))  # ranks of this machine
    data = _data_bytes(job)
    host = free_memory(torch.device("cpu")) // here
    free = host if job.device == "cpu" else free_memory(torch.device(job.device))
    needed = job.predicted(job.ranks) + data
    if needed > free:
        fewest = _fewest_ranks(job, free * here if job.device == "cpu" else free, data)
        where = "each on a machine of its own" if job.device == "cpu" else "each on such a GPU"
        enough = f"{fewest:,} ranks, {where}, would do" if fewest else "no number of ranks would do"
        offload = "" if job.offload or job.device == "cpu" else "use --offload, "
        raise KoriskError(
            f"training {job.parameters:,} weights takes {format_bytes(needed)} on each of "
            f"{job.ranks} ranks, of {format_bytes(free)} free for it; {enough}; "
            f"{offload}or fit in dual form with korisk run"
        )
    if job.offload:
        share = _share(job)
        if share > host:
            raise KoriskError(
                f"--offload keeps {format_bytes(share)} of each rank in the host's memory, of "
                f"{format_bytes(host)} free for it; start more ranks on more machines, or fit in "
                "dual form with korisk run"
            )


def _share(job: Job) -> int:
    return share_bytes(
        job.parameters,
        ranks=job.ranks,
        optimiser=job.recipe.optimiser,
        momentum=bool(job.recipe.momentum),
        itemsize=job.scanner.dtype.itemsize,
    )


def _data_bytes(job: Job) -> int:
    scanner = job.scanner
    entries = scanner.side**2 + scanner.views * scanner.bins
    samples = job.samples + int(job.spec["pools"]["test"])
    return samples * entries * scanner.dtype.itemsize


def _fewest_ranks(job: Job, free: int, data: int) -> int | None:
    """The smallest number of ranks with so much memory each; None where there is none."""
    if job.predicted(job.parameters) + data > free:
        return None
    low, high = 1, job.parameters
    while low < high:
        middle = (low + high) // 2
        if job.predicted(middle) + data <= free:
            high = middle
        else:
            low = middle + 1
    return low


# --- Running -------------------------------------------------------------------------------------


def work(job: Job, hear: Hear, resumed: Callable[[int], None]) -> None:
    """What each rank does."""
    with joined(job.device) as ranks:
        pairs, test = _data(job, ranks)
        network = ShardedDense(
            tuple(pairs.inputs.shape[1:]),
            tuple(pairs.targets.shape[1:]),
            ranks=ranks,
            relu=job.relu,
            blocks=job.blocks,
            seed=job.seed,
            offload=job.offload,
            dtype=pairs.inputs.dtype,
        )
        recipe = job.recipe
        indices = draw_batches(
            job.samples, recipe.batch, recipe.iterations, released_generator(job.seed)
        )
        made = train_sharded(
            network,
            *pairs,
            recipe,
            indices=indices,
            folder=job.checkpoints,
            every=job.every,
            progress=hear,
            resumed=resumed,
            data=job.data,
        )
        metrics = _measured(network, test)
        if ranks.first:
            _write(job, network, made, metrics)


def _data(job: Job, ranks: Ranks) -> tuple[Pairs, Pairs]:
    """Training and test samples: drawn by rank 0, so that all have the same to the bit."""
    scanner, device = job.scanner, ranks.device
    tests = job.spec["pools"]["test"]
    if ranks.first:
        pools = problem_of(job.spec).pools(
            seed=job.seed, train=job.samples, validation=0, test=tests, device=device
        )
        drawn = pools.train, pools.test
    else:
        shapes = (scanner.views, scanner.bins), (scanner.side, scanner.side)
        drawn = tuple(  # type: ignore[assignment]
            Pairs(*(torch.empty(count, *s, device=device, dtype=scanner.dtype) for s in shapes))
            for count in (job.samples, tests)
        )
    for pairs in drawn:
        for values in pairs:
            dist.broadcast(values, 0)
    return drawn


def _measured(network: ShardedDense, test: Pairs) -> dict[str, float]:
    images = [network(piece) for piece in torch.split(test.inputs, _PIECE)]
    return measure(torch.cat(images), test.targets)


# --- Results -------------------------------------------------------------------------------------


def _write(
    job: Job, network: ShardedDense, made: ShardedTraining, metrics: dict[str, float]
) -> None:
    cost = {
        "ranks": made.ranks,
        "seconds_per_step": made.seconds_per_step,
        "peak_bytes": list(made.peak_bytes),
        "predicted_bytes": job.predicted(made.ranks),
    }
    content = {
        "point": job.point,
        "seed": job.seed,
        "samples": job.samples,
        "recipe": asdict(job.recipe),
        "weights": job.parameters,
        "blocks": len(network.blocks),
        "offload": job.offload,
        "device": job.device,
        "resumed_at": made.resumed_at,
        **cost,
        "metrics": {n: v if math.isfinite(v) else None for n, v in metrics.items()},
        "losses": made.losses.tolist(),
        "versions": dict(versions()),
    }
    if not made.steps:  # what they cost was measured when they were made
        before = job.read_result() or {}
        if before.get("losses") == content["losses"]:
            return  # what is there is the result of these very steps
        content |= {name: before[name] for name in (*cost, "resumed_at") if name in before}
    write_text(job.result, json.dumps(content, indent=1, allow_nan=False) + "\n")
