"""Where operators work: each in compiled, exported, traced and parallel networks.

Every cell is tried in full, with numbers compared against eager mode: gradients where a network is
trained, new batches where a program is recorded. What a machine cannot try (no CUDA, no Lightning)
is "-" with the reason.

    python -m benchmarks.operators.anywhere [--backend aot_eager|inductor] [--device cpu|cuda]
        [--json FILE]
    python -m benchmarks.operators.anywhere --only "CUDA graph,compile" --rows "FBP,Tikhonov"
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from korisk import operators as ops
from korisk.networks import zoo

PARALLEL = ops.ParallelBeam(16, views=12, bins=24)
FAN = ops.FanBeam(16, views=12, bins=32, source_to_center=40, source_to_detector=60)
CONE = ops.ConeBeam((4, 8, 8), views=8)
TOLERANCE = 1e-5  # of the largest number, float32

# A row is what is tried, without arguments and with everything new: the first call is cold.
ROWS: dict[str, Callable[[], nn.Module]] = {
    "projector, parallel": lambda: ops.Projector(PARALLEL),
    "projector, fan": lambda: ops.Projector(FAN),
    "FBP": lambda: ops.fbp(PARALLEL),
    "FBP, fan": lambda: ops.fbp(FAN, trainable=True),
    "projector, cone": lambda: ops.Projector(CONE, engine="on_the_fly"),
    "FDK": lambda: ops.fbp(CONE, trainable=True),
    "Tikhonov": lambda: ops.Tikhonov(ops.Projector(PARALLEL), 0.1),
    "Fourier": lambda: ops.Fourier((16, 16), [0, 1] * 8, real=True),
    "SENSE": lambda: ops.Sense((16, 16), ops.birdcage_sensitivities((16, 16), 3), [0, 1] * 8),
    "NUFFT": lambda: ops.Nufft(
        (16, 16), ops.radial(16, spokes=12), sensitivities=ops.birdcage_sensitivities((16, 16), 3)
    ),
    "moving": lambda: ops.Moving(
        ops.Projector(PARALLEL), [[0.0, 0, 0], [0.1, 1, 2]], trainable=True
    ),
    "blur": lambda: ops.Convolution((16, 16), torch.rand(5, 5)),
    "learned primal-dual": lambda: PrimalDual(ops.Projector(PARALLEL)),
    "FBP + U-Net": lambda: zoo.build(
        "inverse-unet", ops.Projector(PARALLEL), ops.fbp(PARALLEL), width=8, levels=1
    ),
}


class Unable(Exception):
    """Why a cell cannot be tried here."""


class PrimalDual(nn.Module):
    """Learned primal-dual: A and A^T of one operator, with a small CNN behind each."""

    def __init__(self, operator: ops.LinearOperator, *, passes: int = 2, width: int = 8) -> None:
        super().__init__()
        self.operator, self.domain = operator, operator.range
        # A / ||A||, so that every pass keeps the size of what it is given.
        self.scale = 1 / operator.norm(width=0.1).upper
        self.primal, self.dual = (
            nn.ModuleList(
                nn.Sequential(
                    nn.Conv2d(channels, width, 3, padding=1),
                    nn.ReLU(),
                    nn.Conv2d(width, 1, 3, padding=1),
                )
                for _ in range(passes)
            )
            for channels in (2, 3)
        )

    def forward(self, y: Tensor) -> Tensor:
        """(batch, views, bins) -> (batch, rows, columns)."""
        batch = y.shape[:-2]
        x = y.new_zeros(*batch, *self.operator.domain)
        h, data = torch.zeros_like(y), y * self.scale
        for primal, dual in zip(self.primal, self.dual, strict=True):
            h = h + dual(torch.stack([h, self.operator(x) * self.scale, data], -3)).squeeze(-3)
            back = self.operator.T(h) * self.scale
            x = x + primal(torch.stack([x, back], -3)).squeeze(-3)
        return x


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
    shape: tuple[int, ...] = getattr(inner, "domain", PARALLEL.sinogram_shape)
    generator = torch.Generator().manual_seed(1)

    def draw(batch: int) -> Tensor:
        return torch.randn(batch, *shape, generator=generator).to(device)

    return Weighted(inner).to(device), draw


def agree(found: Tensor, wanted: Tensor, tolerance: float = TOLERANCE) -> None:
    """Raise if two results differ by more than rounding."""
    off = float((found.detach() - wanted.detach()).abs().max() / wanted.detach().abs().max())
    if not off <= tolerance:
        raise AssertionError(f"differs from eager mode by {off:.1e} of the largest number")


def gradients(network: Any, x: Tensor) -> list[Tensor]:
    """The output, and the gradients of its squares in the input and in every weight."""
    network.zero_grad()
    given = x.clone().requires_grad_()
    out = network(given)
    out.square().mean().backward()
    weights = [p.grad.clone() for p in network.parameters() if p.grad is not None]
    assert given.grad is not None
    return [out, given.grad, *weights]


# Columns: from rows to "yes", "-" with the reason, or what went wrong

Cells = dict[str, str]  # by row
Column = Callable[[Sequence[str], str, str], Cells]


def said(work: Callable[[], object]) -> str:
    """ "yes" if the work runs through, "-" with the reason if it cannot be tried, or its error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work()
    except Unable as reason:
        return f"- ({reason})"
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return "yes"


def row_by_row(one: Callable[[str, str, str], None]) -> Column:
    """A column from what is tried for one row."""

    def column(rows: Sequence[str], device: str, backend: str) -> Cells:
        return {row: said(partial(one, row, device, backend)) for row in rows}

    return column


def elsewhere(code: str) -> Cells:
    """The cells that a function of this file prints in a new process."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        f"from benchmarks.operators import anywhere\nanywhere.{code}",
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=400,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{code}: {done.stderr.strip()[-500:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


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


def exported(rows: Sequence[str], device: str, backend: str) -> Cells:
    """torch.export with a batch of any size, saved, and run by another process."""
    with tempfile.TemporaryDirectory() as folder:

        def save(row: str) -> None:
            network, draw = made(row, device)
            shapes = ({0: torch.export.Dim.DYNAMIC},)
            program = torch.export.export(network, (draw(2),), dynamic_shapes=shapes)
            torch.export.save(program, Path(folder) / f"{row}.pt2")
            x = draw(3)
            torch.save((x, network(x).detach()), Path(folder) / f"{row}.pt")

        cells = {row: said(partial(save, row)) for row in rows}
        saved = [row for row, cell in cells.items() if cell == "yes"]
        return {**cells, **elsewhere(f"load_exported({folder!r}, {saved!r})")}


def load_exported(folder: str, rows: Sequence[str]) -> None:
    """What the other process runs: it has made none of the operators."""

    def load(row: str) -> None:
        x, wanted = torch.load(Path(folder) / f"{row}.pt")
        agree(torch.export.load(Path(folder) / f"{row}.pt2").module()(x), wanted)

    print(json.dumps({row: said(partial(load, row)) for row in rows}))


def traced(row: str, device: str, backend: str) -> None:
    """torch.jit.trace, saved and loaded, with a batch of another size."""
    network, draw = made(row, device)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("error")  # the tracer warns where it takes what varies for a constant
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        program: Any = torch.jit.trace(network, draw(2))  # type: ignore[no-untyped-call]
        file = Path(folder) / "network.pt"
        torch.jit.save(program, file)
        x = draw(3)
        loaded: Any = torch.jit.load(file)  # type: ignore[no-untyped-call]
        agree(loaded(x), network(x))


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
    leaves: list[Any] = [static]
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
    found = [out.clone(), *(each.grad.clone() for each in leaves)]
    for one, other in zip(found, gradients(network, x)[:2], strict=True):
        agree(one, other, 10 * TOLERANCE)


def distributed(rows: Sequence[str], device: str, backend: str) -> Cells:
    """Two processes with half a batch each have the gradients of the whole batch in one.

    With one GPU there is one process.
    """
    count = 2 if device == "cpu" else torch.cuda.device_count()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        arguments = [(rank, count, list(rows), device, folder) for rank in range(count)]
        processes = [context.Process(target=_one_rank, args=each) for each in arguments]
        for each in processes:
            each.start()
        for each in processes:
            each.join(120)
            each.kill()  # where the other one has failed, it would wait for it

        def compare(row: str) -> None:
            network, draw = made(row, device)
            whole = gradients(network, draw(4))[2:]
            for rank in range(count):
                ranks = torch.load(Path(folder) / f"{row}.{rank}.pt")
                for one, other in zip(ranks, whole, strict=True):
                    agree(one.to(device), other, 100 * TOLERANCE)

        return {row: said(partial(compare, row)) for row in rows}


def _one_rank(rank: int, count: int, rows: Sequence[str], device: str, folder: str) -> None:
    import torch.distributed as dist

    kind = "gloo" if device == "cpu" else "nccl"
    place = f"file://{folder}/meet"
    dist.init_process_group(kind, init_method=place, rank=rank, world_size=count)

    def keep(row: str) -> None:  # a network of its own, gone before its process group
        network, draw = made(row, device)
        parallel = nn.parallel.DistributedDataParallel(network)
        share = draw(4).chunk(count)[rank]
        kept = [each.cpu() for each in gradients(parallel, share)[2:]]
        torch.save(kept, Path(folder) / f"{row}.{rank}.pt")

    for row in rows:
        keep(row)
    gc.collect()
    dist.barrier()
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
            network.to(device)  # the trainer has brought it back
        kept = torch.load(file, weights_only=True, map_location=device)
    assert kept["hyper_parameters"]["geometry"] == hyper["geometry"]
    other, _ = made(row, device)
    names = {name.removeprefix("network."): value for name, value in kept["state_dict"].items()}
    other.load_state_dict(names)
    x = draw(2)
    agree(other(x), network(x))


def _lightning_checkpoint(network: nn.Module, draw: Any, hyper: Any, folder: str) -> Path:
    """A step of Lightning's Trainer, and the checkpoint that it keeps."""
    lightning: Any = import_module("lightning")

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self, geometry: Any) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.network = network

        def training_step(self, batch: Tensor, at: int) -> Tensor:
            loss: Tensor = self.network(batch).square().mean()
            return loss

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
    return file


def forked(rows: Sequence[str], device: str, backend: str) -> Cells:
    """Two forked workers of a DataLoader apply the row, which was called before they forked."""
    if not hasattr(os, "fork"):
        return dict.fromkeys(rows, "- (no fork)")
    # In a process of its own: what others have started in this one proves nothing.
    return elsewhere(f"load_forked({list(rows)!r})")


def load_forked(rows: Sequence[str]) -> None:
    """What that process runs."""
    torch.set_num_threads(2)

    def load(row: str) -> None:
        network, draw = made(row, "cpu")
        network.requires_grad_(False)
        items = draw(8)
        before = network(items)  # starts threads, which no fork has
        loader: Any = torch.utils.data.DataLoader(
            _Applied(network, items),
            batch_size=4,
            num_workers=2,
            multiprocessing_context="fork",
            timeout=60,
        )
        agree(torch.cat(list(loader)), before)

    print(json.dumps({row: said(partial(load, row)) for row in rows}))


class _Applied(torch.utils.data.Dataset[Tensor]):
    """What a network makes of items, when they are asked for."""

    def __init__(self, network: nn.Module, items: Tensor) -> None:
        self.network, self.items = network, items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, at: int) -> Tensor:
        out: Tensor = self.network(self.items[at : at + 1])[0]
        return out


COLUMNS: dict[str, Column] = {
    "compile": row_by_row(compiled),
    "fullgraph": row_by_row(fullgraph),
    "export": exported,
    "trace": row_by_row(traced),
    "autocast": row_by_row(autocast),
    "CUDA graph": row_by_row(cuda_graph),
    "DDP": distributed,
    "Lightning": row_by_row(checkpoint),
    "forked": forked,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Try every cell and print the table; 1 if one fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--only", help="columns, separated by commas")
    parser.add_argument("--rows", help="rows, separated by semicolons")
    parser.add_argument("--json", type=Path, help="keep the table here")
    given = parser.parse_args(arguments)
    columns = given.only.split(",") if given.only else list(COLUMNS)
    rows = given.rows.split(";") if given.rows else list(ROWS)
    console = Console(width=None if sys.stdout.isatty() else 118)
    found: dict[str, Cells] = {}
    for column in columns:
        found[column] = COLUMNS[column](rows, given.device, given.backend)
        for row, cell in found[column].items():
            if cell not in {"yes", "- (no CUDA)"}:
                console.print(f"{row}, {column}: {cell}", markup=False)
    table = Table(title=f"torch {torch.__version__}, {given.device}, {given.backend}")
    for head in ("", *columns):
        table.add_column(head)
    for row in rows:
        cells = [found[column][row] for column in columns]
        table.add_row(row, *(c if c == "yes" else "-" if c[0] == "-" else "no" for c in cells))
    console.print(table)
    if given.json:
        kept = {"torch": torch.__version__, "device": given.device, "backend": given.backend}
        given.json.write_text(json.dumps({**kept, "cells": found}, indent=1) + "\n")
    everything = [cell for cells in found.values() for cell in cells.values()]
    return int(any(cell != "yes" and cell[0] != "-" for cell in everything))


if __name__ == "__main__":
    raise SystemExit(main())
