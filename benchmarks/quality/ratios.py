"""What two checkouts of korisk take, side by side: is anything slower, and are the limits kept?

    git worktree add /tmp/before COMMIT
    python -m benchmarks.quality.ratios --before /tmp/before [--only code,answers] [--keep]

Parts: `code` (calls, as ratios), `answers` (whole commands), `operators` (building and norms of
large scans), `stores` (of 1e3 to 1e5 cells), `setup` (the environment of `make run`, in a fresh
clone). Each job has a process of its own, by turns before and after, and counts CPU seconds of one
thread; shown are medians over the rounds. Jobs use what both checkouts have; what one of them lacks
is "-". `--keep` writes the parts that were measured into results/ratios.json, and all that is kept
there as results/ratios.txt. `setup` and `stores` take minutes.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.markdown import header, line
from korisk.store.usage import machine

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "benchmarks" / "results" / "ratios.json"
Figures = dict[str, float]  # by what was measured; one of a single job has no name

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
CELL = """
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
# A table of so many models, sizes and seeds, in a file.
TABLE = """
import math, random
def table(models, sizes, seeds):
    random.seed(0)
    with open("table.csv", "w") as file:
        file.write("n,error,seed" + ",model" * (models > 1) + "\\n")
        for model in range(models):
            scale = random.uniform(0.3, 0.35)
            for n in (2**k for k in range(2, 2 + sizes)):
                for seed in range(1, 1 + seeds):
                    error = (scale / math.sqrt(n) + 0.01) * math.exp(random.gauss(0, 0.05))
                    file.write(f"{n},{error:.6g},{seed}" + f",m{model}" * (models > 1) + "\\n")
"""
COMMAND = """
import resource, subprocess, sys
def command(*arguments):
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, "-m", "korisk", *arguments], check=True, **silent)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(used.ru_utime + used.ru_stime)
"""
# What a scan of one image costs before it is quick, against a library that builds nothing.
BUILT = """
import math, resource, sys, time, torch
from importlib.util import find_spec
from korisk.operators import ParallelBeam, Projector
size, views = {size}, {views}
scan = ParallelBeam((size, size), views=views, bins=size)
x = torch.rand(1, size, size)
def taken(act, repeat=1):
    begun = time.process_time()
    for _ in range(repeat):
        act()
    return (time.process_time() - begun) / repeat
def gradient(operator, x):
    z = x.clone().requires_grad_()
    operator(z).square().sum().backward()
A = Projector(scan)
first = taken(lambda: A(x))
print("first projection, CPU s:", first)
print("its peak, GiB:", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
gradient(A, x)
ours = taken(lambda: gradient(A, x), 10)
print("a gradient, CPU s:", ours)
if find_spec("torchtomo"):
    from benchmarks.operators.peers import Scan, TorchTomo
    other = TorchTomo(Scan(size, views, size), "cpu").gradient(x)["backend=torch"]
    other()
    print("gradients until it is ahead of torchtomo:", math.ceil(first / (taken(other, 3) - ours)))
print("its norm, CPU s:", taken(A.norm))
print("the norm again, CPU s:", taken(Projector(scan).norm))
"""
STORED = """
import inspect
import time
from korisk.report.contents import read_contents
from korisk.studies import Result, Row, Store, Task, run_study
from korisk.studies.results import csv_text, results_table
def work(task, report):
    rows = [(model, n) for model in ("KO", "FC") for n in (8, 64)]
    return Result(rows=tuple(Row(model=m, n=n, metrics={{"mse": 1 / n}}) for m, n in rows))
spec = {{"metric": "mse", "problem": {{"side": 16}}}}
tasks = [Task(point=f"p{{k // 10}}", seed=k % 10, spec=spec) for k in range({cells})]
def clock(name, act):
    begun = time.process_time()
    act()
    print(f"{{name}}:", 1e3 * (time.process_time() - begun) / len(tasks))
in_030 = "workers" in inspect.signature(run_study).parameters
in_this_process = {{"workers": 0}} if in_030 else {{}}
def run():
    with Store.create_or_open("study.db", {{"name": "t"}}, tasks=tasks) as store:
        run_study(tasks, work, store, **in_this_process)
def table():
    with Store.read("study.db") as store:
        return csv_text(results_table(store))
clock("record, CPU ms a cell", run)
clock("resume, CPU ms a cell", run)
clock("read and report, CPU ms a cell", lambda: read_contents("study.db"))
clock("export, CPU ms a cell", table)
"""
# What `make run` needs first: the newer checkout has a stamp of its own for it.
SETUP = """
import os, resource, subprocess, sys
from pathlib import Path
clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
subprocess.run(["git", "clone", "-q", {source!r}, "clone"], check=True)
stamp = ".study" if "/.study" in Path("clone/Makefile").read_text() else ".ready"
before = resource.getrusage(resource.RUSAGE_CHILDREN)
call = ["make", "-C", "clone", f".venv/{stamp}", f"PYTHON={sys.executable}"]
subprocess.run(call, check=True, stdout=sys.stderr, env=clean)
after = resource.getrusage(resource.RUSAGE_CHILDREN)
print("CPU s:", after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
(site,) = Path("clone/.venv/lib").glob("python*/site-packages")
print("packages:", len(list(site.glob("*.dist-info"))))
files = [path for path in site.rglob("*") if path.is_file() and not path.is_symlink()]
print("MiB:", sum(path.stat().st_size for path in files) / 2**20)
"""


@dataclass(frozen=True)
class Job:
    """A piece of code that prints its figures, and how much of each is allowed."""

    code: str
    limits: Figures | float | None = None
    rounds: int = 5
    before: bool = True  # whether the other checkout does it as well

    def limit(self, figure: str) -> float | None:
        """The most that a figure may be."""
        return self.limits.get(figure) if isinstance(self.limits, dict) else self.limits


def of_command(*arguments: str, models: int = 1, most: float, rounds: int = 3) -> Job:
    """A whole command, on a table of so many models where it reads one."""
    code = f"{COMMAND}{TABLE}table({models}, 8, 3)\ncommand(*{arguments!r})"
    return Job(code, most, rounds)


PLAN = "plan", "table.csv", "--target", "0.03"
PAGE = *PLAN, "--html", "page.html"
LARGE = {"first projection, CPU s": 10, "its peak, GiB": 2, "its norm, CPU s": 15}
PARTS: dict[str, dict[str, Job]] = {
    "code": {
        "import korisk": Job(
            "import time\nbegun = time.process_time()\nimport korisk\n"
            "print(time.process_time() - begun)"
        ),
        "a plan from 8 sizes": Job(TIMED + CURVE + "timed(lambda: kr.plan(curve, 0.015), 5)"),
        "a comparison": Job(TIMED + CURVE + "timed(lambda: kr.compare(curve, curve, 0.015), 3)"),
        "project 128 x 128, batch of 8": Job(TIMED + SCAN + "timed(lambda: A(x), 100)"),
        "its adjoint": Job(TIMED + SCAN + "timed(lambda: A.T(y), 100)"),
        "filtered backprojection": Job(TIMED + SCAN + "timed(lambda: inverse(y), 100)"),
        "the norm of A": Job(TIMED + SCAN + "timed(lambda: Projector(scan).norm(), 3)"),
        "a cell at H = 16": Job(TIMED + CELL + "timed(lambda: run_cell(task, lambda _: None), 3)"),
        "describe a small CNN": Job(
            TIMED + MODULE + "timed(lambda: kr.describe(net, torch.rand(1, 1, 16, 16)), 3)"
        ),
        "describe a CNN of five layers": Job(
            TIMED + DEEPER + "timed(lambda: kr.describe(net, torch.rand(1, 1, 32, 32)), 2)"
        ),
    },
    "answers": {
        "korisk --help": of_command("--help", most=0.5),
        "korisk --version": of_command("--version", most=0.5),
        "korisk plan": of_command(*PLAN, most=1.0),
        "its page, Matplotlib's figure included": of_command(*PAGE, most=3.0),
        "the page of ten models": of_command(*PAGE, models=10, most=12.0, rounds=1),
        "a table of 100 models": of_command(*PLAN, models=100, most=6.0, rounds=1),
        "read a table of 10,000 rows": Job(
            f"{TIMED}{TABLE}table(1, 8, 1250)\nimport korisk as kr\n"
            "timed(lambda: kr.Curve.read_all('table.csv'), 3)",
            0.15,
        ),
    },
    "operators": {
        "256 x 256, 90 views": Job(
            BUILT.format(size=256, views=90), {"gradients until it is ahead of torchtomo": 20}, 3
        ),
        "512 x 512, 180 views": Job(
            BUILT.format(size=512, views=180), LARGE | {"the norm again, CPU s": 0.1}, 1
        ),
    },
    "stores": {
        "1,000 cells": Job(STORED.format(cells=1_000), rounds=1),
        "10,000 cells": Job(STORED.format(cells=10_000), rounds=1),
        "100,000 cells": Job(STORED.format(cells=100_000), rounds=1, before=False),
    },
    "setup": {"before `make run`": Job(SETUP, rounds=1)},
}


def figures(source: Path, code: str) -> Figures:
    """What one job prints with the package of one checkout: `name: figure`, or a figure alone."""
    places = os.pathsep.join(map(str, (source / "src", ROOT, os.environ.get("PYTHONPATH", ""))))
    environment = os.environ | {"PYTHONPATH": places, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, "-c", code.replace("{source!r}", repr(str(source)))]
        done = subprocess.run(
            call, env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
    if done.returncode:
        sys.exit(f"{source}: {shlex.join(call[:2])} failed: {done.stderr[-2000:]}")
    rows = [row.rpartition(":") for row in done.stdout.splitlines()]
    return {name: float(number) for name, _, number in rows}


def measured(job: Job, before: Path) -> Iterator[dict[str, Any]]:
    """The figures of one job in both checkouts, as medians."""
    pairs = [
        (figures(before, job.code) if job.before else {}, figures(ROOT, job.code))
        for _ in range(job.rounds)
    ]
    for name in pairs[0][1]:
        after = [now[name] for _, now in pairs]
        row: dict[str, Any] = {"figure": name, "after": statistics.median(after)}
        if all(name in old for old, _ in pairs):
            row["before"] = statistics.median(old[name] for old, _ in pairs)
            ratios = [now[name] / max(old[name], 1e-9) for old, now in pairs]
            row["ratio"] = statistics.median(ratios)
        yield row | {"most": job.limit(name), "rounds": job.rounds}


def table(kept: dict[str, Any]) -> Iterator[str]:
    """All that is kept, part by part."""
    for part, content in kept["parts"].items():
        where = content["machine"]
        yield f"### {part}"
        yield ""
        yield f"{where['cores']} cores of {where['processor']}, load {content['load']:.1f} before."
        yield ""
        yield from header("", kept["before"], "now", "ratio", "at most")
        for row in content["rows"]:
            name = f"{row['job']}: {row['figure']}" if row["figure"] else f"{row['job']}, CPU s"
            cells = [row.get(key) for key in ("before", "after", "ratio", "most")]
            yield line(name, *("-" if cell is None else f"{cell:.3g}" for cell in cells))
        yield ""


def main() -> None:
    """Measure some parts or all, print a line for each figure, and keep them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--keep", action="store_true", help="write the results")
    options = parser.parse_args()
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    version = options.before.joinpath("src", "korisk", "_version.py").read_text(encoding="utf-8")
    kept = {"before": version.split('"')[-2], "parts": kept.get("parts", {})}
    for part in options.only.split(","):
        load, rows = os.getloadavg()[0], []
        for name, job in PARTS[part].items():
            for row in measured(job, options.before.resolve()):
                rows.append({"job": name} | row)
                print(line(name, *(f"{key} {row[key]}" for key in row)), flush=True)
        kept["parts"][part] = {"machine": machine(), "load": load, "rows": rows}
    if options.keep:
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        KEPT.with_suffix(".txt").write_text("\n".join(table(kept)), encoding="utf-8")


if __name__ == "__main__":
    main()
