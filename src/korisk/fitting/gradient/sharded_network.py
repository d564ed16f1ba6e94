"""The dense network in blocks of rows, spread over the ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor

from korisk import _checks
from korisk.errors import KoriskError
from korisk.fitting.gradient.sharded_ranks import Ranks
from korisk.operators.linear import Shape, checked_dtype, checked_shape, shape_text
from korisk.theory.footprint import sharded_blocks

Start = Literal["uniform", "zero"]
STARTS: tuple[Start, ...] = ("uniform", "zero")

_ROWS_AT_ONCE = 32  # drawn on the CPU before they go where they belong


class ShardedDense(nn.Module):
    """ReLU(M x) as `DenseNet` has it, with the rows of M in blocks that lie spread over the ranks.

    To be made, called and trained by all ranks together, inside `joined()`. `start` is "uniform",
    entries within 1 / sqrt(columns) as in `nn.Linear`, drawn from `seed` for each row apart, so
    that they are the same on any number of ranks; or "zero", from which a network with a ReLU
    would never move. `offload` keeps the weights in the host's memory between their turns.
    """

    def __init__(
        self,
        domain: int | Sequence[int],
        range: int | Sequence[int],
        *,
        ranks: Ranks,
        relu: bool = True,
        blocks: int | None = None,
        start: Start = "uniform",
        seed: int = 0,
        offload: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.domain: Shape = checked_shape("domain", domain)
        self.range: Shape = checked_shape("range", range)
        self.relu, self.ranks, self.offload = bool(relu), ranks, bool(offload)
        self.start, self.seed = _checked_start(start, self.relu), _checked_seed(seed)
        self.dtype = checked_dtype(dtype)
        self.peak = Peak(ranks.device)
        if self.offload and ranks.device.type == "cpu":
            raise KoriskError(
                "offload moves weights from a GPU to the host's memory, and here they lie there "
                "already; leave it out"
            )
        self.mesh = init_device_mesh(ranks.device.type, (ranks.size,))
        rows, columns = self.matrix_shape
        self.blocks = nn.ModuleList(
            Block(first, last, columns, self.dtype)
            for first, last in _cuts(rows, self._block_count(blocks))
        )
        self._spread_out()

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Rows and columns of M."""
        return math.prod(self.range), math.prod(self.domain)

    @property
    def parts(self) -> list[Block]:
        """The blocks."""
        return [block for block in self.blocks if isinstance(block, Block)]

    def _block_count(self, asked: int | None) -> int:
        rows, columns = self.matrix_shape
        if asked is None:
            return sharded_blocks(rows, columns, itemsize=self.dtype.itemsize)
        remedy = "count blocks of rows, or leave it out"
        return _checks.count("blocks", asked, at_least=1, at_most=rows, remedy=remedy)

    def _spread_out(self) -> None:
        """Make each block's rows on the rank that they belong to; before, there are none."""
        policy = CPUOffloadPolicy() if self.offload else OffloadPolicy()
        for block in self.parts:
            fully_shard(block, mesh=self.mesh, reshard_after_forward=False, offload_policy=policy)
            block.to_empty(device="cpu" if self.offload else self.ranks.device)
            block.fill(self.ranks, self.start, self.seed)
        with suppress(ImportError):  # newer than the oldest PyTorch that will do
            from torch.distributed.fsdp import share_comm_ctx

            share_comm_ctx(list(self.parts))  # type: ignore[arg-type]

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """ReLU(M x) without gradients, (batch, *domain) to (batch, *range), alike on all ranks."""
        if x.shape[1:] != self.domain:
            raise KoriskError(
                f"the input must have shape {shape_text(self.domain, batched=True)}, got "
                f"{shape_text(tuple(x.shape))}"
            )
        flat, images = x.flatten(1), []
        for block in self.parts:
            images.append(block(flat))
            block.hide()
        image = torch.cat(images, 1).reshape(len(x), *self.range)
        return torch.relu_(image) if self.relu else image

    @torch.no_grad()
    def matrix(self) -> Tensor:
        """M, whole and on every rank: for what is small enough."""
        return torch.cat([block.sharded.full_tensor() for block in self.parts])

    def extra_repr(self) -> str:
        """The shapes, the ReLU and the parts, as nn.Module prints them."""
        shapes = f"{shape_text(self.domain)} -> {shape_text(self.range)}, relu={self.relu}"
        return f"{shapes}, {len(self.blocks)} blocks on {self.ranks.size} ranks"


class Block(nn.Module):
    """Rows first to last of M; made without memory, which `fill` finds in place."""

    def __init__(self, first: int, last: int, columns: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.first, self.last = first, last
        shape = last - first, columns
        self.weight = nn.Parameter(torch.empty(shape, device="meta", dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """These rows' part of M x."""
        return nn.functional.linear(x, self.weight)

    @property
    def sharded(self) -> DTensor:
        """The weights as they lie on all ranks."""
        assert isinstance(self.weight, DTensor), "the block is in flight"
        return self.weight

    @property
    def own(self) -> Tensor:
        """The rows on this rank."""
        return self.sharded.to_local().detach()

    def hide(self) -> None:
        """Forget the rows of the other ranks."""
        self.reshard()  # type: ignore[operator]  # fully_shard gave it that

    @torch.no_grad()
    def fill(self, ranks: Ranks, start: Start, seed: int) -> None:
        """Draw the rows of this rank."""
        own = self.own
        if start == "zero":
            own.zero_()
            return
        # FSDP deals rows out as torch.chunk does.
        before = ranks.rank * math.ceil((self.last - self.first) / ranks.size)
        for at in range(0, len(own), _ROWS_AT_ONCE):
            piece = own[at : at + _ROWS_AT_ONCE]
            first = self.first + before + at
            piece.copy_(uniform_rows(first, first + len(piece), own.shape[1], seed=seed))


def uniform_rows(first: int, last: int, columns: int, *, seed: int) -> Tensor:
    """Rows of M before training, (last - first, columns) in float64 on the CPU.

    Each is drawn apart, from a counter that starts at the seed and the row's number.
    """
    bound = 1 / math.sqrt(columns)
    rows = np.empty((last - first, columns))
    for at, row in enumerate(range(first, last)):
        generator = np.random.Generator(np.random.Philox(key=[seed, row]))
        generator.random(out=rows[at])
    return torch.from_numpy(rows).mul_(2 * bound).sub_(bound)


def _cuts(rows: int, blocks: int) -> list[tuple[int, int]]:
    """Blocks of rows, as equal as can be."""
    edges = [block * rows // blocks for block in range(blocks + 1)]
    return list(pairwise(edges))


class Peak:
    """The most memory held from now on: what this process took on its device, and all it has."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # count the process's peak anew
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self.before = torch.cuda.memory_allocated(device)
        else:
            self.before = _resident("VmRSS")

    def read(self) -> tuple[int, int]:
        """Bytes on the device since then, and of the process on the host."""
        process = _resident("VmHWM")
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device) - self.before, process
        return max(0, process - self.before), process


def _resident(field: str) -> int:
    """What Linux says of this process; 0 elsewhere."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    return 0


def _checked_start(start: str, relu: bool) -> Start:
    _checks.one_of("start", start, STARTS)
    if start == "zero" and relu:
        raise KoriskError(
            "start='zero' has no gradient behind a ReLU, the network would never move; use "
            "start='uniform' or relu=False"
        )
    return "zero" if start == "zero" else "uniform"


def _checked_seed(seed: int) -> int:
    return _checks.count("seed", seed, at_least=0, at_most=2**63, remedy="give a whole number")
