"""Where operators work: each in compiled, exported, traced and parallel networks.

Every cell is tried in full, with numbers compared against eager mode: gradients where a network is
trained, new batches where a program is recorded. What a machine cannot try (no CUDA, no Lightning)
is "-" with the reason.

    python benchmarks/anywhere.py [--backend aot_eager|inductor] [--device cpu|cuda] [--json FILE]
    python benchmarks/anywhere.py --only "CUDA graph,compile" --rows "FBP,Tikhonov"
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from korisk import operators as ops
from korisk.operators import LinearOperator

PARALLEL = ops.ParallelBeam(16, views=12, bins=24)
FAN = ops.FanBeam(16, views=12, bins=32, source_to_center=40, source_to_detector=60)
TOLERANCE = 1e-5  # of the largest number, float32

# A row is what is tried, without arguments and with everything new: the first call is cold.
ROWS: dict[str, Callable[[], nn.Module]] = {
    "projector, parallel": lambda: ops.Projector(PARALLEL),
    "projector, fan": lambda: ops.Projector(FAN),
    "FBP": lambda: ops.fbp(PARALLEL),
    "FBP, fan": lambda: ops.fbp(FAN, trainable=True),
    "Tikhonov": lambda: ops.Tikhonov(ops.Projector(PARALLEL), 0.1),
    "Fourier": lambda: ops.Fourier((16, 16), [0, 1] * 8, real=True),
    "SENSE": lambda: ops.Sense((16, 16), ops.birdcage_sensitivities((16, 16), 3), [0, 1] * 8),
    "blur": lambda: ops.Convolution((16, 16), torch.rand(5, 5)),
    "learned primal-dual": lambda: PrimalDual(ops.Projector(PARALLEL)),
    "FBP + U-Net": lambda: nn.Sequential(ops.fbp(PARALLEL), Residual()),
}


class Unable(Exception):
    """Why a cell cannot be tried here."""


class PrimalDual(nn.Module):
    """Learned primal-dual: A and A^T of one operator, with a small CNN behind each."""

    def __init__(self, operator: LinearOperator, *, passes: int = 2, width: int = 8) -> None:
        super().__init__()
        self.operator, self.domain = operator, operator.range
        # A / ||A||, so that every pass keeps the size of what it is given.
        self.scale = 1 / operator.norm(width=0.1).upper
        self.primal = nn.ModuleList(_block(2, width) for _ in range(passes))
        self.dual = nn.ModuleList(_block(3, width) for _ in range(passes))

    def forward(self, y: Tensor) -> Tensor:
        """(batch, views, bins) -> (batch, rows, columns)."""
        batch = y.shape[:-2]
        x = y.new_zeros(*batch, *self.operator.domain)
        h, data = torch.zeros_like(y), y * self.scale
        for primal, dual in zip(self.primal, self.dual, strict=True):
            h = h + dual(torch.stack([h, self.operator(x) * self.scale, data], -3)).squeeze(-3)
            back = self.operator.adjoint(h) * self.scale
            x = x + primal(torch.stack([x, back], -3)).squeeze(-3)
        return x


class Residual(nn.Module):
    """A small U-Net on images without a channel axis, added to its input."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down, self.low, self.up = (
            _conv(1, width),
            _conv(width, width),
            _block(2 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, rows, columns) -> the same."""
        fine = self.down(x.unsqueeze(-3))
        coarse = self.low(nn.functional.avg_pool2d(fine, 2))
        back = nn.functional.interpolate(coarse, scale_factor=2.0)
        return x + self.up(torch.cat([fine, back], -3)).squeeze(-3)


def _conv(channels: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels, width, 3, padding=1), nn.ReLU())


def _block(channels: int, width: int) -> nn.Module:
    return nn.Sequential(_conv(channels, width), nn.Conv2d(width, 1, 3, padding=1))


class Weighted(nn.Module):
    """A row with one weight before it, so that there is something to train."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.weight = inner, nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        """The row of the weighted input."""
        out: Tensor = self.inner(x * self.weight)
        return out


def made(row: str, device: str) -> tuple[Weighted, Callable[[int], Tensor]]:
    """A new network of a row, and a function that draws a batch of inputs."""
    torch.manual_seed(0)
    inner = ROWS[row]()
    first = inner[0] if isinstance(inner, nn.Sequential) else inner
    shape = first.domain
    generator = torch.Generator().manual_seed(1)

    def draw(batch: int) -> Tensor:
        return torch.randn(batch, *shape, generator=generator).to(device)

    return Weighted(inner).to(device), draw


def agree(found: Tensor, wanted: Tensor, tolerance: float = TOLERANCE) -> None:
    """Raise if two results differ by more than rounding."""
    off = float((found.detach() - wanted.detach()).abs().max() / wanted.detach().abs().max())
    if not off <= tolerance:
        raise AssertionError(f"differs from eager mode by {off:.1e} of the largest number")


def gradients(network: nn.Module, x: Tensor) -> list[Tensor]:
    """The output, and the gradients of its squares in the input and in every weight."""
    network.zero_grad()
    given = x.clone().requires_grad_()
    out = network(given)
    out.square().mean().backward()
    weights = [p.grad.clone() for p in network.parameters() if p.grad is not None]
    assert given.grad is not None
    return [out, given.grad, *weights]


# Columns: each raises if the row does not work there


def compiled(row: str, device: str, backend: str, *, fullgraph: bool = False) -> None:
    """torch.compile before the first call, with gradients, and a batch of another size."""
    torch._dynamo.reset()
    network, draw = made(row, device)
    fast = torch.compile(network, backend=backend, fullgraph=fullgraph)
    for batch in (2, 3):
        x = draw(batch)
        found = gradients(fast, x)  # first: the network has not been called before
        for one, other in zip(found, gradients(network, x), strict=True):
            agree(one, other, 10 * TOLERANCE)


def fullgraph(row: str, device: str, backend: str) -> None:
    """The same without a break in the graph."""
    compiled(row, device, backend, fullgraph=True)


def exported(row: str, device: str, backend: str) -> None:
    """torch.export with a batch of any size, saved, and run by another process."""
    network, draw = made(row, device)
    x = draw(2)
    program = torch.export.export(network, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    with tempfile.TemporaryDirectory() as folder:
        file, data = Path(folder) / "network.pt2", Path(folder) / "data.pt"
        torch.export.save(program, file)
        agree(torch.export.load(file).module()(x), network(x))
        torch.save(draw(3), data)
        code = (
            "import sys, torch, korisk.operators\n"
            "program = torch.export.load(sys.argv[1]).module()\n"
            "x = torch.load(sys.argv[2])\n"
            "with torch.no_grad(): torch.save((x, program(x)), sys.argv[2])\n"
        )
        command = [sys.executable, "-W", "ignore", "-c", code, str(file), str(data)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise AssertionError(f"in another process: {done.stderr.strip().splitlines()[-1]}")
        x, there = torch.load(data)
        agree(there, network(x))


def traced(row: str, device: str, backend: str) -> None:
    """torch.jit.trace, saved and loaded, with a batch of another size."""
    network, draw = made(row, device)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("error")  # a warning of the tracer would be a constant that is none
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        program = torch.jit.trace(network, draw(2))
        file = Path(folder) / "network.pt"
        torch.jit.save(program, file)
        x = draw(3)
        agree(torch.jit.load(file)(x), network(x))


def autocast(row: str, device: str, backend: str) -> None:
    """bfloat16 behind a convolution, with gradients: exact inside, bfloat16 outside."""
    network, draw = made(row, device)
    x = draw(2)
    front = nn.Conv1d(1, 1, 1, bias=False).to(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        low = front(x.reshape(2, 1, -1)).reshape(x.shape)
        out = network(low)
    out.float().square().mean().backward()
    assert low.dtype == torch.bfloat16
    assert front.weight.grad is not None
    assert bool(torch.isfinite(front.weight.grad).all())
    agree(out.float(), network(low.detach().float()), 0.05)


def cuda_graph(row: str, device: str, backend: str) -> None:
    """A training step captured once and replayed on new numbers."""
    if device != "cuda":
        raise Unable("no CUDA")
    network, draw = made(row, device)
    static = draw(2).requires_grad_()
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):  # warm-up on a side stream, as PyTorch asks for
        for _ in range(3):
            network(static).square().mean().backward()
    torch.cuda.current_stream().wait_stream(stream)
    network.zero_grad(set_to_none=True)
    static.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = network(static)
        out.square().mean().backward()
    x = draw(2)
    with torch.no_grad():
        static.copy_(x)
    graph.replay()
    found = [out.clone(), static.grad.clone()]
    for one, other in zip(found, gradients(network, x)[:2], strict=True):
        agree(one, other, 10 * TOLERANCE)


def distributed(row: str, device: str, backend: str) -> None:
    """Two processes with half a batch each have the gradients of the whole batch in one."""
    count = 2 if device == "cpu" or torch.cuda.device_count() > 1 else 1
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        kept = [Path(folder) / f"{rank}.pt" for rank in range(count)]
        arguments = [(rank, count, row, device, str(Path(folder) / "meet"), str(kept[rank]))
                     for rank in range(count)]  # fmt: skip
        processes = [context.Process(target=_one_rank, args=each) for each in arguments]
        for each in processes:
            each.start()
        for each in processes:
            each.join(240)
            if each.exitcode != 0:
                raise AssertionError(f"a process ended with {each.exitcode}")
        network, draw = made(row, device)
        whole = gradients(network, draw(4))[2:]
        for file in kept:
            for one, other in zip(torch.load(file), whole, strict=True):
                agree(one.to(device), other, 100 * TOLERANCE)


def _one_rank(rank: int, count: int, row: str, device: str, meet: str, kept: str) -> None:
    import torch.distributed as dist

    dist.init_process_group(
        "gloo" if device == "cpu" else "nccl", init_method=f"file://{meet}", rank=rank,
        world_size=count,
    )  # fmt: skip
    network, draw = made(row, device)
    parallel = nn.parallel.DistributedDataParallel(network)
    share = draw(4).chunk(count)[rank]
    torch.save([each.cpu() for each in gradients(parallel, share)[2:]], kept)
    dist.destroy_process_group()


def checkpoint(row: str, device: str, backend: str) -> None:
    """A checkpoint with the geometry among the hyperparameters, as Lightning loads it."""
    network, draw = made(row, device)
    hyper = {"geometry": FAN if "fan" in row else PARALLEL}
    with tempfile.TemporaryDirectory() as folder:
        if find_spec("lightning") is None:
            file = Path(folder) / "last.ckpt"
            torch.save({"state_dict": network.state_dict(), "hyper_parameters": hyper}, file)
        else:
            file = _lightning_checkpoint(network, draw, hyper, folder)
        kept = torch.load(file, weights_only=True, map_location=device)
    assert kept["hyper_parameters"]["geometry"] == hyper["geometry"]
    other, _ = made(row, device)
    names = {name.removeprefix("network."): value for name, value in kept["state_dict"].items()}
    other.load_state_dict(names)
    x = draw(2)
    agree(other(x), network(x))


def _lightning_checkpoint(network: nn.Module, draw: Any, hyper: Any, folder: str) -> Path:
    """A step of Lightning's Trainer, and the checkpoint that it keeps."""
    import lightning

    class Module(lightning.LightningModule):  # type: ignore[misc, unused-ignore]
        def __init__(self, geometry: Any) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.network = network

        def training_step(self, batch: Tensor, at: int) -> Tensor:
            return self.network(batch).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), 1e-4)

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        max_steps=2, default_root_dir=folder, accelerator="auto", devices=1,
        enable_checkpointing=False, **quiet,
    )  # fmt: skip
    trainer.fit(Module(**hyper), torch.utils.data.DataLoader(draw(4), batch_size=2))
    file = Path(folder) / "last.ckpt"
    trainer.save_checkpoint(file)
    network.to(next(iter(network.parameters())).device)
    return file


def forked(row: str, device: str, backend: str) -> None:
    """Two forked workers of a DataLoader apply the row, which was called before they forked."""
    if not hasattr(os, "fork"):
        raise Unable("no fork")
    # In a process of its own: forking one with many threads of others proves nothing.
    code = f"import anywhere; anywhere.load_forked({row!r})"
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parent, check=False
    )
    if done.returncode:
        raise AssertionError(done.stderr.strip().splitlines()[-1])


def load_forked(row: str) -> None:
    """What `forked` runs: items through two workers, and a plain fork with its threads."""
    network, draw = made(row, "cpu")
    network.requires_grad_(False)
    items = draw(8)
    torch.set_num_threads(2)
    before = network(items)  # starts threads, which no fork has

    class Items(torch.utils.data.Dataset[Tensor]):
        def __len__(self) -> int:
            return len(items)

        def __getitem__(self, at: int) -> Tensor:
            out: Tensor = network(items[at : at + 1])[0]
            return out

    loader = torch.utils.data.DataLoader(
        Items(), batch_size=4, num_workers=2, multiprocessing_context="fork", timeout=60
    )
    agree(torch.cat(list(loader)), before)


Column = Callable[[str, str, str], None]
COLUMNS: dict[str, Column] = {
    "compile": compiled,
    "fullgraph": fullgraph,
    "export": exported,
    "trace": traced,
    "autocast": autocast,
    "CUDA graph": cuda_graph,
    "DDP": distributed,
    "Lightning": checkpoint,
    "forked": forked,
}


def trial(row: str, column: str, device: str = "cpu", backend: str = "aot_eager") -> str:
    """ "yes", "-" with the reason where it cannot be tried here, or what went wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            COLUMNS[column](row, device, backend)
    except Unable as reason:
        return f"- ({reason})"
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return "yes"


def main(arguments: Sequence[str] | None = None) -> int:
    """Try every cell and print the table; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--only", help="columns, separated by commas")
    parser.add_argument("--rows", help="rows, separated by semicolons")
    parser.add_argument("--json", type=Path, help="keep the table here")
    given = parser.parse_args(arguments)
    columns = given.only.split(",") if given.only else list(COLUMNS)
    rows = given.rows.split(";") if given.rows else list(ROWS)
    found: dict[str, dict[str, str]] = {}
    console = Console()
    for row in rows:
        found[row] = {}
        for column in columns:
            found[row][column] = trial(row, column, given.device, given.backend)
            if found[row][column] not in {"yes", "- (no CUDA)"}:
                console.print(f"{row}, {column}: {found[row][column]}", markup=False)
    table = Table(title=f"torch {torch.__version__}, {given.device}, {given.backend}")
    for head in ("", *columns):
        table.add_column(head)
    for row, cells in found.items():
        marks = [
            cell if cell == "yes" else cell[:1] if cell[0] == "-" else "no"
            for cell in cells.values()
        ]
        table.add_row(row, *marks)
    console.print(table)
    if given.json:
        kept = {"torch": torch.__version__, "device": given.device, "backend": given.backend}
        given.json.write_text(json.dumps({**kept, "cells": found}, indent=1) + "\n")
    return int(
        any(cell != "yes" and cell[0] != "-" for each in found.values() for cell in each.values())
    )


if __name__ == "__main__":
    raise SystemExit(main())
