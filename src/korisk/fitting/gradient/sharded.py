"""Sharded training of the dense network: its matrix is spread over several processes.

Processes are started by torchrun. The rows of M are cut into blocks, and the rows of each block are
spread over the ranks, as a DTensor of PyTorch. A step goes through the blocks one by one: gather
the block's weights, compute its share of the loss and of the gradient, scatter the gradient, update
the rows on this rank. The mean squared error is a sum over rows, so this is the step of the whole
network; weights and gradients of at most one block are gathered at a time. (As one unit of FSDP the
whole layer would be gathered on every rank, gradient included.)

Checkpoints are folders `iteration-00000300` of torch.distributed.checkpoint, written under another
name, renamed when complete, and readable on any number of ranks. The index that PyTorch writes is a
pickle, and reading a pickle from elsewhere may run its code. So a copy is written with `torch.save`
and read with `weights_only=True`.
"""

import hashlib
import json
import math
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import HashStore  # type: ignore[attr-defined]
from torch.distributed.checkpoint import filesystem, metadata, state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Shard
from torch.serialization import safe_globals

from korisk import _checks
from korisk.errors import KoriskError, invalid
from korisk.files import read_text
from korisk.fitting.gradient import train as unsharded
from korisk.fitting.gradient.recipe import Recipe, draw_batches
from korisk.operators.inputs import Shape, checked_dtype, checked_shape, shape_text

_FORMAT = "korisk sharded training 2"
_ABOUT, _INDEX = "training.json", "index.pt"
_KEPT = 2  # checkpoints
_MEMORIES = {"adam": 2, "adagrad": 1, "sgd": 0}  # numbers of optimiser state for each weight
_LARGEST_BLOCK, _SMALLEST_BLOCK = 2**30, 2**20  # bytes; smaller ones cost time, save no memory
_BLOCKS = 16  # few, since each costs the host a millisecond or more


@contextmanager
def process_group(device: str = "cpu") -> Iterator[torch.device]:
    """Join the processes that torchrun started; a process without torchrun is the only rank.

    On "cuda" each takes the GPU of its local rank. Ranks communicate through gloo on the CPU, and
    through NCCL on CUDA.
    """
    location = torch.device(device)
    if location.type == "cuda":
        gpus = torch.cuda.device_count()
        location = torch.device("cuda", int(os.environ.get("LOCAL_RANK", location.index or 0)))
        if location.index >= gpus:
            raise KoriskError(f"each rank needs a GPU, found {gpus}; start fewer or use the CPU")
        torch.cuda.set_device(location)
    local = os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE")
    # All ranks are on this machine: no traffic needs to leave it.
    if local and sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    single: dict[str, Any] = {"store": HashStore(), "rank": 0, "world_size": 1}
    single = {} if "RANK" in os.environ else single
    dist.init_process_group("gloo" if location.type == "cpu" else "cpu:gloo,cuda:nccl", **single)
    try:
        yield location
        dist.barrier()  # no rank leaves while others still communicate with it
    finally:
        dist.destroy_process_group()


def sharded_blocks(
    rows: int, columns: int, *, itemsize: int = 4, requested: int | None = None
) -> list[tuple[int, int]]:
    """Blocks of rows as pairs (first row, row after the last), the same for any number of ranks.

    By default up to 16 of at least 1 MiB, more if one would exceed 1 GiB.
    """
    size = rows * columns * itemsize
    # The number of blocks must not depend on the ranks: checkpoints are read on any number of them.
    fewest = math.ceil(size / _LARGEST_BLOCK)
    count = min(rows, max(fewest, min(_BLOCKS, math.ceil(size / _SMALLEST_BLOCK))))
    if requested is not None:
        count = _checks.count("blocks", requested, at_least=1, at_most=rows, remedy="leave it out")
    return list(pairwise(block * rows // count for block in range(count + 1)))


def sharded_bytes(
    weights: int, recipe: Recipe, blocks: int, *, itemsize: int = 4
) -> tuple[int, int]:
    """Bytes without data and libraries: of all ranks together, and of a gathered block per rank.

    The ranks share the weights and the optimiser's state: two numbers a weight for Adam, one for
    Adagrad and for SGD with momentum, none for SGD. Each rank has one gathered block at a time: its
    weights, their gradient, and the copy that is sent.
    """
    numbers = 1 + _MEMORIES[recipe.optimiser] + bool(recipe.momentum)
    return numbers * weights * itemsize, 3 * math.ceil(weights / blocks) * itemsize


def draw_rows(rows: Tensor, first: int, *, seed: int) -> Tensor:
    """Fill rows of M, the first of which is M's row `first`, with uniform numbers; return them.

    Every row has a generator, keyed by its number, so that M does not depend on the ranks.
    """
    bound = 1 / math.sqrt(rows.shape[1])
    for number, row in enumerate(rows, first):
        generator = np.random.Generator(np.random.Philox(key=[seed, number]))
        row.copy_(torch.from_numpy(generator.random(len(row))).mul_(2 * bound).sub_(bound))
    return rows


class ShardedDense(nn.Module):
    """ReLU(M x) as in `DenseNet`, with the rows of M in blocks that are spread over the ranks.

    All ranks construct, call and train it together, inside `process_group()`.
    """

    def __init__(
        self,
        domain: int | Sequence[int],
        range: int | Sequence[int],
        *,
        device: torch.device,
        relu: bool = True,
        blocks: int | None = None,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.domain: Shape = checked_shape("domain", domain)
        self.range: Shape = checked_shape("range", range)
        self.relu, self.device, self.dtype = bool(relu), device, checked_dtype(dtype)
        self.seed = _checks.count("seed", seed, at_least=0, at_most=2**63, remedy="try 1")
        self.columns, itemsize = math.prod(self.domain), self.dtype.itemsize
        row_count = math.prod(self.range)
        self.blocks = sharded_blocks(row_count, self.columns, itemsize=itemsize, requested=blocks)
        ranks = dist.get_world_size()
        self.mesh = init_device_mesh(device.type, (ranks,))
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        self.peak_before = _peak(device)
        self.shards = nn.ParameterList()  # of each block, the rows on this rank
        for first, last in self.blocks:
            # DTensor spreads rows like this; a last rank may have fewer, or none.
            share = math.ceil((last - first) / ranks)
            start = min(last, first + dist.get_rank() * share)
            shape = min(share, last - start), self.columns
            rows = torch.empty(shape, dtype=self.dtype, device=device)
            self.shards.append(nn.Parameter(draw_rows(rows, start, seed=self.seed)))

    def sharded(self, block: int, rows: Tensor) -> DTensor:
        """Rows on this rank, or a tensor of their shape, as the shard of a whole block."""
        first, last = self.blocks[block]
        shape, stride = torch.Size((last - first, self.columns)), (self.columns, 1)
        spread = partial(DTensor.from_local, run_check=False, shape=shape, stride=stride)
        return spread(rows, self.mesh, [Shard(0)])

    def gathered(self, block: int) -> Tensor:
        """All weights of a block; gradients are summed over ranks."""
        rows = self.shards[block] if torch.is_grad_enabled() else self.shards[block].detach()
        return self.sharded(block, rows).full_tensor(grad_placements=[Partial()])

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """ReLU(M x) without gradients, (batch, *domain) to (batch, *range), equal on all ranks."""
        if x.shape[1:] != self.domain:
            rule = f"have shape {shape_text(self.domain, batched=True)}"
            raise invalid("the input", rule, x, got=shape_text(tuple(x.shape)))
        flat, blocks = x.flatten(1), range(len(self.shards))
        images = [nn.functional.linear(flat, self.gathered(block)) for block in blocks]
        image = torch.cat(images, 1).reshape(len(x), *self.range)
        return torch.relu_(image) if self.relu else image

    @torch.no_grad()
    def matrix(self) -> Tensor:
        """The whole matrix M, on every rank: for small networks."""
        return torch.cat([self.gathered(block) for block in range(len(self.shards))])


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardedTraining:
    """The outcome of `train_sharded`: every loss, and the time and memory of this run."""

    recipe: Recipe
    losses: Tensor
    ranks: int
    resumed_at: int
    seconds_per_step: float | None
    peak_bytes: tuple[int, ...]


def train_sharded(
    network: ShardedDense,
    inputs: Tensor,
    targets: Tensor,
    recipe: Recipe,
    *,
    generator: torch.Generator,
    folder: Path | None = None,
    every: int = 500,
    progress: Callable[[int, float], None] | None = None,
    data: str | None = None,
) -> ShardedTraining:
    """Fit a sharded network in place, as `korisk.fitting.train` fits a whole one.

    All ranks call it with the same arguments. The samples of each batch are divided among them, and
    a step is that of the whole batch whatever the number of ranks.
    """
    inputs, targets = unsharded.checked_pool(network, inputs, targets)
    batches = draw_batches(len(inputs), recipe.batch, recipe.iterations, generator)
    every = _checks.count("every", every, at_least=1, remedy="try 500")
    if data is None:
        samples = unsharded.spread(torch.unique(batches)).to(inputs.device)
        data = unsharded.fingerprint([inputs[samples], targets[samples]])
    identity = {
        "format": _FORMAT,
        **asdict(recipe),
        "shape": f"{shape_text(network.domain)} -> {shape_text(network.range)}",
        "relu": network.relu,
        "blocks": len(network.shards),
        "seed": network.seed,
        "precision": str(network.dtype),
        "order of samples": unsharded.fingerprint([batches]),
        "data": data,
    }
    rank, ranks, batches = dist.get_rank(), dist.get_world_size(), batches.to(inputs.device)
    flat_inputs, flat_targets = inputs.flatten(1), targets.flatten(1)
    # A fused kernel makes no temporary tensors; CUDA has no such kernel for Adagrad.
    fused = recipe.optimiser != "adagrad" or network.shards[0].is_cpu
    settings = {"lr": recipe.rate, "fused": fused}
    settings |= {"momentum": recipe.momentum} if recipe.momentum else {}
    # One optimiser for each block, so that a step can follow as soon as its gradient is there.
    name = {"adam": "Adam", "adagrad": "Adagrad", "sgd": "SGD"}[recipe.optimiser]
    optimisers = [getattr(torch.optim, name)([rows], **settings) for rows in network.shards]
    losses = torch.zeros(recipe.iterations, dtype=torch.float64, device=network.device)
    newest = [0 if folder is None else max(complete_checkpoints(folder), default=0)]
    dist.broadcast_object_list(newest)  # as rank 0 sees the folder
    first_iteration = done = newest[0]
    if folder is not None and done:
        for rows, optimiser in zip(network.shards, optimisers, strict=True):
            # The first step creates the optimiser's state, into which the checkpoint is read.
            rows.grad = torch.zeros_like(rows)
            optimiser.step()
            optimiser.zero_grad()
        state = _state(network, optimisers, losses)
        read_checkpoint(complete_checkpoints(folder)[done], identity, state)
    seconds = 0.0
    while done < recipe.iterations:
        before, done = done, min(recipe.iterations, (done // every + 1) * every)
        start = time.perf_counter()
        for iteration in range(before, done):
            # May be empty, if there are more ranks than samples in a batch.
            rank_samples = batches[iteration][rank::ranks]
            x = flat_inputs.index_select(0, rank_samples)
            y = flat_targets.index_select(0, rank_samples)
            for block, (first, last) in enumerate(network.blocks):
                image = nn.functional.linear(x, network.gathered(block))
                image = torch.relu(image) if network.relu else image
                error = (image - y[:, first:last]).square().sum()
                # Divided by the size of the whole batch: the sum over ranks is then its mean.
                loss = error / (batches.shape[1] * flat_targets.shape[1])
                loss.backward()  # type: ignore[no-untyped-call]
                optimisers[block].step()
                optimisers[block].zero_grad()
                losses[iteration] += loss.detach()
        recent = losses[before:done]
        # Weights may overflow while the loss is still finite.
        if not all(bool(torch.isfinite(rows).all()) for rows in network.shards):
            recent[-1] = math.nan  # which all ranks are to see
        dist.all_reduce(recent)  # each rank has the share of its samples
        # Waits for the device, so that the time below includes the steps.
        diverged_iterations = (~torch.isfinite(recent)).nonzero()
        seconds += time.perf_counter() - start
        if len(diverged_iterations):
            raise unsharded.diverged(before + int(diverged_iterations[0]) + 1, recipe)
        if folder is not None:
            write_checkpoint(folder, done, identity, _state(network, optimisers, losses))
        if progress is not None and rank == 0:
            progress(done, float(recent.mean()))
    peaks = [0] * ranks
    dist.all_gather_object(peaks, _peak(network.device) - network.peak_before)
    return ShardedTraining(
        recipe=recipe,
        losses=losses.cpu(),
        ranks=ranks,
        resumed_at=first_iteration,
        seconds_per_step=seconds / (done - first_iteration) if done > first_iteration else None,
        peak_bytes=tuple(peaks),
    )


def _state(
    network: ShardedDense, optimisers: Sequence[torch.optim.Optimizer], losses: Tensor
) -> dict[str, Tensor]:
    """Tensors of a checkpoint, by name; reading one writes into them."""
    state = {"losses": losses}
    for block, (rows, optimiser) in enumerate(zip(network.shards, optimisers, strict=True)):
        state[f"{block}.weight"] = network.sharded(block, rows.detach())
        for name, value in optimiser.state[rows].items():
            state[f"{block}.{name}"] = network.sharded(block, value) if value.ndim else value
    return state


def _peak(device: torch.device) -> int:
    """Peak bytes so far: of tensors on a GPU, of the process on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# --- Checkpoints ---------------------------------------------------------------------------------


def complete_checkpoints(folder: Path) -> dict[int, Path]:
    """The complete checkpoints of a folder by their iteration, ascending."""
    paths = ((path.name.removeprefix("iteration-"), path) for path in folder.glob("iteration-*"))
    return dict(sorted((int(number), path) for number, path in paths if number.isdecimal()))


def write_checkpoint(
    folder: Path, iteration: int, identity: dict[str, object], state: dict[str, Tensor]
) -> None:
    """Write a checkpoint whole or not at all, and delete all but the last two; on all ranks."""
    target = folder / f"iteration-{iteration:08d}"
    temporary = target.with_name(f"{target.name}.partial")
    try:
        if dist.get_rank() == 0:
            # A training that was killed may have left it behind.
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
        dist.barrier()
        state_dict_saver.save(state, storage_writer=filesystem.FileSystemWriter(temporary))
        # Unpickling is safe here: this process has just written the file.
        if dist.get_rank() == 0:
            written = filesystem.FileSystemReader(temporary).read_metadata()
            torch.save(replace(written, storage_meta=None), temporary / _INDEX)
        dist.barrier()
        files = _digests(temporary, sorted(path.name for path in temporary.iterdir()))
        if dist.get_rank() == 0:
            # Written last: a folder without it is incomplete.
            manifest = {"identity": {**identity, "iteration": iteration}, "sha256": files}
            (temporary / _ABOUT).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
            # Renaming is atomic: a folder with this name is complete.
            temporary.rename(target)
            outdated = list(complete_checkpoints(folder).values())[:-_KEPT]
            for path in (*outdated, *folder.glob("iteration-*.partial")):
                shutil.rmtree(path, ignore_errors=True)
        dist.barrier()
    except (OSError, RuntimeError, CheckpointException) as error:
        why, remedy = unsharded.reason(error), "look at the disk's free space and permissions"
        raise KoriskError(f"{target}: the checkpoint cannot be written: {why}; {remedy}") from None


def read_checkpoint(path: Path, identity: dict[str, object], state: dict[str, Tensor]) -> None:
    """Fill tensors from a checkpoint of this training; on all ranks, each with its rows."""
    identity = {**identity, "iteration": int(path.name.partition("-")[2])}
    try:
        try:
            text = read_text(path / _ABOUT, max_bytes=10**6)
            manifest = json.loads(text, object_pairs_hook=_checks.unique_keys)
        except KoriskError as error:  # its advice is for other files
            raise ValueError(str(error).partition(";")[0]) from None
        unsharded.require_same(path, manifest["identity"], identity)
        names = sorted(Path(name).name for name in manifest["sha256"])
        if _INDEX not in names or _digests(path, names) != manifest["sha256"]:
            raise ValueError("its files are not as they were written")
        reader = _Reader(path)
        # Read here first: PyTorch would print a traceback if this failed in `load`.
        reader.read_metadata()
        state_dict_loader.load(state, storage_reader=reader)
    except KoriskError:
        raise
    except (Exception, CheckpointException) as error:  # whatever damage causes in the reader
        why = f"{unsharded.reason(error)}; {unsharded.REMEDY}"
        raise KoriskError(f"{path}: the checkpoint is damaged: {why}") from None


class _Reader(filesystem.FileSystemReader):
    """Reader of checkpoints that may come from elsewhere: tensors, no pickled objects."""

    def read_metadata(self, *args: object, **kwargs: object) -> metadata.Metadata:
        classes: list[Any] = [metadata.Metadata, metadata.MetadataIndex, filesystem._StorageInfo]
        classes += [metadata.TensorStorageMetadata, metadata.ChunkStorageMetadata]
        classes += [metadata.TensorProperties, metadata._MEM_FORMAT_ENCODING]
        with safe_globals(classes):
            index = torch.load(Path(self.path) / _INDEX, weights_only=True)
        if not isinstance(index, metadata.Metadata):
            raise TypeError("its index is something else")
        return index


def _digests(folder: Path, names: list[str]) -> dict[str, str | None]:
    """SHA-256 of files, None for one that is missing; the ranks share the work."""
    digests: dict[str, str | None] = dict.fromkeys(names[dist.get_rank() :: dist.get_world_size()])
    for name in digests:
        with suppress(OSError), (folder / name).open("rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    all_digests: list[dict[str, str | None]] = [{}] * dist.get_world_size()
    dist.all_gather_object(all_digests, digests)
    return {name: digest for rank_digests in all_digests for name, digest in rank_digests.items()}
