"""What `paper.study` has done in a fresh process: one part, its figures as JSON on stdout.

Imports are inside the parts, so that none pays for another's, and threads are those of the
environment that the process was started in.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.paper import study_reference


def reference(sides: list[int]) -> dict[str, Any]:
    """The released CPU protocol by study_reference.py, and its CPU seconds at each H."""
    imports = time.process_time()
    cpu, found = {}, []
    for side in sides:
        start = time.process_time()
        rows = list(study_reference.scale(side))
        cpu[str(side)] = time.process_time() - start
        say(f"reference, H {side}: {cpu[str(side)]:.2f} CPU s")
        found += [[*key, *chosen] for key, chosen in rows]
    return {"import": imports, "cpu": cpu, "found": found}


def korisk(sides: list[int]) -> dict[str, Any]:
    """The released CPU protocol by korisk, every cell in this process, and the same figures."""
    import torch

    from korisk.store.usage import machine, versions
    from korisk.studies.run.cells import run_cell
    from korisk.studies.spec.study import Study

    torch.set_num_threads(1)
    imports = time.process_time()
    cpu, found = {}, []
    for side in sides:
        start = time.process_time()
        study = Study(
            {
                "name": "benchmark",
                "protocol": "released",
                "points": [{"side": side}],
                "seeds": list(study_reference.SEEDS),
            }
        )
        results = [(task.seed, run_cell(task, lambda fraction: None)) for task in study.tasks]
        cpu[str(side)] = time.process_time() - start
        say(f"korisk, H {side}: {cpu[str(side)]:.2f} CPU s")
        found += [
            [side, row.model, row.n, seed, row.metrics["mse"], row.detail["lambda"]]
            for seed, result in results
            for row in result.rows
            if row.n
        ]
    about = {"machine": machine(), "versions": versions()}
    return {"import": imports, "cpu": cpu, "found": found, **about}


def sweep(side: int, protocol: Any, device: str, seeds: list[int] | None) -> dict[str, Any]:
    """The paper's sweep at one H, all sizes and seeds."""
    from korisk.paper.reproduction import studies

    (study,) = studies(points=[side], protocols=[protocol], seeds=seeds, full=True)
    figures = _run(study, device)
    return {"side": side, "protocol": protocol, "device": device, **figures}


def _run(study: Any, device: str) -> dict[str, Any]:
    """A study through the engine, in this process, with a store that is thrown away."""
    import torch

    from korisk.store.store import Store
    from korisk.studies.run.cells import run_cell
    from korisk.studies.run.engine import run_study

    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("--device cuda needs a CUDA device, and PyTorch sees no such device here")
    before = _largest()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        with Store.create_or_open(path, {"name": study.name}, tasks=study.tasks) as store:
            run_study(study.tasks, partial(run_cell, device=device), store, watch=_watch)
            cells = list(store.results())
            failures = store.failures()
    if failures:
        raise SystemExit(f"{failures[0].task.key} failed: {failures[0].error}")
    last = max(row.n for row in cells[0].rows)
    usages = [cell.usage for cell in cells]
    return {
        "seconds": [usage.seconds for usage in usages],
        # The engine has Linux count the peak anew for each cell, and so ru_maxrss as well.
        "peak_memory": max(_largest(), *(usage.peak_memory or 0 for usage in usages)),
        "memory_before": before,
        "device_memory": max(usage.device_memory or 0 for usage in usages),
        "largest_n": last,
        "rmse_over_max": {
            model: fmean(
                row.metrics["rmse_over_max"]
                for cell in cells
                for row in cell.rows
                if (row.model, row.n) == (model, last)
            )
            for model in study.tasks[0].spec["models"]
        },
        "threads": torch.get_num_threads(),
        "where": cells[0].detail["device"],
        "machine": usages[0].machine,
        "versions": usages[0].versions,
    }


def _watch(event: Any) -> None:
    if event.kind in ("started", "done", "failed"):
        say(f"{event.task.key}: {event.kind}{event.words and f' ({event.words})'}")


def _largest() -> int:
    """Bytes of memory that the process has had at most."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def say(what: str) -> None:
    """A line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "reference": reference,
    "korisk": korisk,
    "sweep": sweep,
}


def main() -> None:
    """Do the part that the command line names, with the arguments that it gives as JSON."""
    name, arguments = sys.argv[1], json.loads(sys.argv[2])
    print(json.dumps(PARTS[name](**arguments)))


if __name__ == "__main__":
    main()
