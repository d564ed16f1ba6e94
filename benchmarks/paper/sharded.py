"""Sharded training of the dense network, against a plain loop: time a step, and peak memory.

For each number of ranks and for the rivals, processes of their own train the network of the paper's
scan at that side on random data, after a few steps to warm up. The rivals are what a script does
without further thought: `nn.Linear`, a ReLU and `torch.optim` in one process; and the same with the
layer as one FSDP unit. On CUDA the peak is that of tensors, on the CPU that of the process above
what it held before the network was made.

    python -m benchmarks.paper.sharded --side 256 --optimiser adam --steps 20 --json sharded.json
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from korisk.fitting import Recipe
from korisk.fitting.gradient.sharded import (
    ShardedDense,
    process_group,
    sharded_bytes,
    train_sharded,
)
from korisk.paper import published
from korisk.theory.footprint import format_bytes

SAMPLES = 16
WARM_UP = 3
SCANS = {row.size.H: row.size for row in published.FOOTPRINT}
RATE = 1e-4


def parsed() -> argparse.Namespace:
    """The options, with the shape of the matrix."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--side", type=int, default=128, help="pixels a side")
    parser.add_argument("--views", type=int, help="the paper's, if it has that side")
    parser.add_argument("--bins", type=int, help="the same")
    parser.add_argument("--optimiser", default="adam", choices=["adam", "adagrad", "sgd"])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--ranks", default="1", help="numbers with commas between: 1,2")
    parser.add_argument("--blocks", type=int)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, help="add this run to the list in this file")
    parser.add_argument("--ours-alone", action="store_true", help="without the rivals")
    parser.add_argument("--part", choices=["plain", "whole", "ours"], help=argparse.SUPPRESS)
    parser.add_argument("--to", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    size = SCANS.get(options.side)
    views = options.views or (size.V if size else None)
    bins = options.bins or (size.B if size else None)
    if views is None or bins is None:
        sys.exit(f"side {options.side} needs --views and --bins; the paper has {sorted(SCANS)}")
    options.rows, options.columns = options.side**2, views * bins
    return options


def data(options: argparse.Namespace, device: torch.device) -> tuple[Tensor, Tensor]:
    """Random samples: time and memory do not depend on their values."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, options.columns, generator=generator)
    y = torch.rand(SAMPLES, options.rows, generator=generator)
    return x.to(device), y.to(device)


def ours(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Sharded training, on this rank."""
    x, y = data(options, device)
    made = time.perf_counter()
    settings: dict[str, Any] = {"blocks": options.blocks, "dtype": torch.float32}
    network = ShardedDense(options.columns, options.rows, device=device, **settings)
    made = time.perf_counter() - made
    for steps in (WARM_UP, options.steps):
        recipe = Recipe(
            optimiser=options.optimiser, rate=RATE, iterations=steps, batch=options.batch
        )
        generator = torch.Generator().manual_seed(1)
        done = train_sharded(network, x, y, recipe, generator=generator)
    blocks = len(network.blocks)
    kept, flight = sharded_bytes(options.rows * options.columns, recipe, blocks)
    return {
        "what": "sharded",
        "ranks": done.ranks,
        "blocks": blocks,
        "seconds_to_make": made,
        "seconds_per_step": done.seconds_per_step,
        "peak_bytes": list(done.peak_bytes),
        "predicted_bytes": math.ceil(kept / done.ranks) + flight,
        "last_loss": float(done.losses[-1]),
    }


def rival(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """The plain loop; as one FSDP unit over all ranks, if it is the rival "whole"."""
    x, y = data(options, device)
    before = peak(device)
    network = nn.Linear(options.columns, options.rows, bias=False, device=device)
    if options.part == "whole":
        fully_shard(network)
    kinds: dict[str, Any] = {
        "adam": torch.optim.Adam,
        "adagrad": torch.optim.Adagrad,
        "sgd": torch.optim.SGD,
    }
    optimiser = kinds[options.optimiser](network.parameters(), lr=RATE)
    generator = torch.Generator().manual_seed(1)
    begun = 0.0
    for step in range(WARM_UP + options.steps):
        if step == WARM_UP:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            begun = time.perf_counter()
        chosen = torch.randint(0, SAMPLES, (options.batch,), generator=generator).to(device)
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(torch.relu(network(x[chosen])), y[chosen])
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    last_loss = float(loss.detach())  # which waits for the device
    seconds = time.perf_counter() - begun
    peaks = [0] * dist.get_world_size()
    dist.all_gather_object(peaks, peak(device) - before)
    return {
        "what": "plain loop" if options.part == "plain" else "FSDP, whole layer",
        "ranks": len(peaks),
        "seconds_per_step": seconds / options.steps,
        "peak_bytes": peaks,
        "last_loss": last_loss,
    }


def peak(device: torch.device) -> int:
    """The most bytes so far: of tensors on CUDA, of the process elsewhere."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def started(part: str, ranks: int) -> dict[str, Any]:
    """One part of the benchmark in processes of its own."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        options = [*sys.argv[1:], "--part", part, "--to", str(found)]
        code = [sys.executable, *torchrun, __file__, *options]
        done = subprocess.run(code, capture_output=True, text=True)
        if not found.exists():  # out of memory, as a rule
            wrong = [line for line in done.stderr.splitlines() if "Error" in line]
            return {"what": part, "ranks": ranks, "error": (wrong or ["it was killed"])[0]}
        content: dict[str, Any] = json.loads(found.read_text())
        return content


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    name = f"{row['what']}, {row['ranks']} rank{'s' if row['ranks'] > 1 else ''}"
    if "error" in row:
        return f"{name:28s} failed: {row['error']}"
    most = format_bytes(max(row["peak_bytes"]))
    predicted = f", predicted {format_bytes(row['predicted_bytes'])}" if "blocks" in row else ""
    return f"{name:28s} {row['seconds_per_step']:8.4f} s a step, {most} a rank{predicted}"


def main() -> None:
    """Run everything and print it, or one part of it on this rank."""
    options = parsed()
    if options.part is not None:
        with process_group(options.device) as device:
            found = (ours if options.part == "ours" else rival)(options, device)
            if dist.get_rank() == 0:
                options.to.write_text(json.dumps(found))
        return
    about = {
        **{name: getattr(options, name) for name in ("rows", "columns", "optimiser", "batch")},
        "steps": options.steps,
        "device": torch.cuda.get_device_name() if options.device == "cuda" else options.device,
        "torch": torch.__version__,
    }
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    counts = [int(each) for each in options.ranks.split(",")]
    rivals = [("plain", 1), *(("whole", ranks) for ranks in counts)]
    results = []
    for part, ranks in [*([] if options.ours_alone else rivals), *(("ours", r) for r in counts)]:
        results.append(started(part, ranks))
        print(line(results[-1]), flush=True)
    if options.json is not None:
        before = json.loads(options.json.read_text()) if options.json.exists() else []
        runs = [*before, {**about, "results": results}]
        options.json.write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
