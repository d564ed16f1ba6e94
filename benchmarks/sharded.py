"""Sharded training of the dense network, against a plain loop: time a step, and peak memory.

For each number of ranks and for the rival, processes of their own train the network of the paper's
scan at that side on random data, after a few steps to warm up. The rivals are what a script
does without thinking: `nn.Linear`, a ReLU, `torch.optim`, in one process; and the same with the
layer as one FSDP unit. On CUDA the peak is that of
tensors, on the CPU that of the process above what it held before the network was made.

    python benchmarks/sharded.py --side 256 --optimiser adam --steps 20 --json sharded.json
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from korisk import published
from korisk.fitting.gradient.recipe import Recipe
from korisk.fitting.gradient.sharded import Ranks, ShardedDense, joined, launch, train_sharded
from korisk.theory.footprint import format_bytes, sharded_bytes

SAMPLES = 16
WARM_UP = 3
SCANS = {row.size.H: row.size for row in published.FOOTPRINT}
RATE = 1e-4


def options() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--side", type=int, default=128, help="pixels a side")
    parser.add_argument("--views", type=int, help="the paper's, if there are some for that side")
    parser.add_argument("--bins", type=int, help="the same")
    parser.add_argument("--optimiser", default="adam", choices=["adam", "adagrad", "sgd"])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--ranks", default="1", help="how many, with commas between: 1,2")
    parser.add_argument("--blocks", type=int)
    parser.add_argument("--offload", action="store_true")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, help="add this run to the list in this file")
    parser.add_argument("--ours-alone", action="store_true", help="without the rivals")
    parser.add_argument(
        "--as", dest="part", choices=["rival", "whole", "ours"], help=argparse.SUPPRESS
    )
    parser.add_argument("--to", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def shape(given: argparse.Namespace) -> tuple[int, int]:
    """Rows and columns of the matrix."""
    size = SCANS.get(given.side)
    views = given.views or (size.V if size else None)
    bins = given.bins or (size.B if size else None)
    if views is None or bins is None:
        sys.exit(f"side {given.side} needs --views and --bins; the paper has {sorted(SCANS)}")
    return given.side**2, views * bins


def data(rows: int, columns: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Random samples: time and memory do not depend on their values."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, columns, generator=generator)
    y = torch.rand(SAMPLES, rows, generator=generator)
    return x.to(device), y.to(device)


def ours(given: argparse.Namespace) -> dict[str, Any] | None:
    """Sharded training, on this rank."""
    rows, columns = shape(given)
    with joined(given.device) as ranks:
        x, y = data(rows, columns, ranks.device)
        made = time.perf_counter()
        network = ShardedDense(
            columns,
            rows,
            ranks=ranks,
            blocks=given.blocks,
            offload=given.offload,
            dtype=torch.float32,
        )
        made = time.perf_counter() - made
        for steps in (WARM_UP, given.steps):
            recipe = Recipe(
                optimiser=given.optimiser, rate=RATE, iterations=steps, batch=given.batch
            )
            generator = torch.Generator().manual_seed(1)
            done = train_sharded(network, x, y, recipe, generator=generator)
        predicted = sharded_bytes(
            rows * columns,
            ranks=ranks.size,
            optimiser=given.optimiser,
            blocks=len(network.blocks),
            offload=given.offload,
        )
        return {
            "what": "sharded",
            "ranks": ranks.size,
            "blocks": len(network.blocks),
            "offload": given.offload,
            "seconds_to_make": made,
            "seconds_per_step": done.seconds_per_step,
            "peak_bytes": list(done.peak_bytes),
            "peak_process_bytes": list(done.peak_process_bytes),
            "predicted_bytes": predicted,
            "last_loss": float(done.losses[-1]),
        } | ({} if ranks.first else {"what": "another rank"})


def whole_layer(given: argparse.Namespace) -> dict[str, Any]:
    """The plain loop with the layer as one FSDP unit, on this rank."""
    with joined(given.device) as ranks:
        found = rival(given, ranks)
        return found | ({} if ranks.first else {"what": "another rank"})


def rival(given: argparse.Namespace, ranks: Ranks | None = None) -> dict[str, Any]:
    """The plain loop; with ranks, the layer is spread over them as a whole."""
    rows, columns = shape(given)
    device = torch.device(given.device) if ranks is None else ranks.device
    x, y = data(rows, columns, device)
    before = _held(device, "VmRSS")
    network = nn.Linear(columns, rows, bias=False, device=device)
    if ranks is not None:
        fully_shard(network)
    kinds: dict[str, Any] = {
        "adam": torch.optim.Adam,
        "adagrad": torch.optim.Adagrad,
        "sgd": torch.optim.SGD,
    }
    optimiser = kinds[given.optimiser](network.parameters(), lr=RATE)
    generator = torch.Generator().manual_seed(1)
    begun = 0.0
    for step in range(WARM_UP + given.steps):
        if step == WARM_UP:
            _finish(device)
            begun = time.perf_counter()
        chosen = torch.randint(0, SAMPLES, (given.batch,), generator=generator).to(device)
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(torch.relu(network(x[chosen])), y[chosen])
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    _finish(device)
    held = _held(device, "VmHWM") - before
    return {
        "what": "plain loop" if ranks is None else "FSDP, whole layer",
        "ranks": 1 if ranks is None else ranks.size,
        "seconds_per_step": (time.perf_counter() - begun) / given.steps,
        "peak_bytes": [held] if ranks is None else list(ranks.gather(held)),
        "last_loss": float(loss.detach()),
    }


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _held(device: torch.device, field: str) -> int:
    """Bytes of tensors on CUDA; of the process elsewhere, now (VmRSS) or at most (VmHWM)."""
    if device.type == "cuda":
        now, most = torch.cuda.memory_allocated, torch.cuda.max_memory_allocated
        return int((most if field == "VmHWM" else now)(device))
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0


def started(part: str, ranks: int) -> dict[str, Any]:
    """The same benchmark in processes of its own."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [sys.executable, __file__, *sys.argv[1:], "--as", part, "--to", str(found)]
        try:
            launch(command, ranks)
        except (ValueError, RuntimeError) as error:  # out of memory, as a rule
            return {"what": part, "ranks": ranks, "error": str(error).strip().splitlines()[-1]}
        content: dict[str, Any] = json.loads(found.read_text())
        return content


def shown(row: dict[str, Any]) -> str:
    """One line of the table."""
    name = f"{row['what']}, {row['ranks']} rank{'s' if row['ranks'] > 1 else ''}"
    if "error" in row:
        return f"{name:28s} failed: {row['error']}"
    peak = format_bytes(max(row["peak_bytes"]))
    foretold = f", foretold {format_bytes(row['predicted_bytes'])}" if "blocks" in row else ""
    return f"{name:28s} {row['seconds_per_step']:8.4f} s a step, {peak} a rank{foretold}"


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any] | None]] = {
    "rival": lambda given: rival(given),
    "whole": whole_layer,
    "ours": ours,
}


def main() -> None:
    """Run everything and print it, or one part of it."""
    given = options()
    if given.part is not None:
        found = PARTS[given.part](given)
        if found is not None and found["what"] != "another rank":
            given.to.write_text(json.dumps(found))
        return
    rows, columns = shape(given)
    print(
        f"{rows:,} x {columns:,} = {rows * columns:,} weights, {given.optimiser}, batch "
        f"{given.batch}, {given.steps} steps, {given.device}, PyTorch {torch.__version__}"
    )
    results = []
    counts = [int(each) for each in given.ranks.split(",")]
    rivals = [] if given.ours_alone else [("rival", 1), *(("whole", ranks) for ranks in counts)]
    plan = [*rivals, *(("ours", ranks) for ranks in counts)]
    for part, ranks in plan:
        results.append(started(part, ranks))
        print(shown(results[-1]), flush=True)
    if given.json is not None:
        about = {
            "rows": rows,
            "columns": columns,
            "optimiser": given.optimiser,
            "batch": given.batch,
            "steps": given.steps,
            "device": torch.cuda.get_device_name() if given.device == "cuda" else given.device,
            "torch": torch.__version__,
        }
        before = json.loads(given.json.read_text()) if given.json.exists() else []
        runs = [*before, {**about, "results": results}]
        given.json.write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
