"""Times of two checkouts of korisk against each other, as ratios: is anything slower than before?

    git worktree add /tmp/before COMMIT
    python -m benchmarks.quality.ratios --before /tmp/before --json benchmarks/results/ratios.json

Each job is run in a process of its own, by turns before and after, and reports CPU seconds; a row
is the median over the rounds of after / before. Jobs use what both checkouts have.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMED = """
import time
def timed(act, repeat):
    act()
    begun = time.process_time()
    for _ in range(repeat):
        act()
    print((time.process_time() - begun) / repeat)
"""
CURVE = """
import numpy as np, korisk as kr
rng = np.random.default_rng(0)
n = np.repeat(2 ** np.arange(2, 10), 3)
error = (0.5 * n**-0.5 + 0.01) * np.exp(0.05 * rng.standard_normal(len(n)))
curve = kr.Curve(n, error, seed=[1, 2, 3] * 8, model="KO")
"""
SCAN = """
import torch
from korisk.operators import ParallelBeam, Projector, fbp
scan = ParallelBeam((128, 128), views=60, bins=128)
A, inverse = Projector(scan), fbp(scan)
x = torch.rand(8, 128, 128); y = A(x)
"""
STUDY = """
from pathlib import Path
import sys
study = {"name": "t", "points": [{"side": 16}], "sizes": [4, 16, 64], "seeds": [1]}
try:
    from korisk.studies.spec.study import Study
    from korisk.studies.run.cells import run_cell
except ModuleNotFoundError:
    from korisk.studies.study import Study
    from korisk.studies.cells import run_cell
task = Study(study).tasks[0]
"""
MODULE = """
import torch, korisk as kr
from torch import nn
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
"""
DEEPER = """
import torch, korisk as kr
from torch import nn
channels = (1, 16), (16, 16), (16, 16), (16, 16), (16, 1)
convolutions = [nn.Conv2d(*pair, 3, padding=1) for pair in channels]
net = nn.Sequential(*(module for layer in convolutions for module in (layer, nn.ReLU())))
"""
JOBS = {
    "import korisk": "import time\nbegun = time.process_time()\nimport korisk\n"
    "print(time.process_time() - begun)",
    "a plan from 8 sizes": TIMED + CURVE + "timed(lambda: kr.plan(curve, 0.015), 5)",
    "a comparison": TIMED + CURVE + "timed(lambda: kr.compare(curve, curve, 0.015), 3)",
    "project 128 x 128, batch of 8": TIMED + SCAN + "timed(lambda: A(x), 100)",
    "its adjoint": TIMED + SCAN + "timed(lambda: A.T(y), 100)",
    "filtered backprojection": TIMED + SCAN + "timed(lambda: inverse(y), 100)",
    "the norm of A": TIMED + SCAN + "timed(lambda: Projector(scan).norm(), 3)",
    "a cell at H = 16": TIMED + STUDY + "timed(lambda: run_cell(task, lambda fraction: None), 3)",
    "describe a small CNN": TIMED
    + MODULE
    + "timed(lambda: kr.describe(net, torch.rand(1, 1, 16, 16)), 3)",
    "describe a CNN of five layers": TIMED
    + DEEPER
    + "timed(lambda: kr.describe(net, torch.rand(1, 1, 32, 32)), 2)",
}


def seconds(source: Path, code: str) -> float:
    """CPU seconds of one job with the package of one checkout."""
    environment = os.environ | {"PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{source}: {done.stderr}")
    return float(done.stdout.split()[-1])


def main() -> None:
    """Print a ratio for each job."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="keep the figures there")
    options = parser.parse_args()
    found = {}
    for name, code in JOBS.items():
        pairs = [
            (seconds(options.before, code), seconds(ROOT, code)) for _ in range(options.rounds)
        ]
        ratio = statistics.median(after / before for before, after in pairs)
        before, after = (statistics.median(side) for side in zip(*pairs, strict=True))
        found[name] = {"before": before, "after": after, "ratio": ratio}
        print(f"{name:32}{before:10.4f} s{after:10.4f} s{ratio:8.2f}", flush=True)
    if options.json:
        content = {"machine": platform.machine(), "rounds": options.rounds, "jobs": found}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
