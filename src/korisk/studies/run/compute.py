"""Choice of the device and the processes or scheduler, and the groups in which cells are run."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean

from korisk._group import grouped
from korisk._json import JsonMapping
from korisk.errors import Argument, KoriskError, invalid, needed_by
from korisk.store.cells import Task
from korisk.store.store import Store
from korisk.store.usage import cores
from korisk.studies.run import clusters
from korisk.studies.run.worker import threads_asked

_LARGE, _MANY = 64, 4096  # pixels a side and rays from which a single cell uses all cores


def device_kind(device: str, scheduler: str | None) -> str:
    """cpu or cuda, as far as known without asking a scheduler."""
    _check_device(device)
    if device != "auto":
        return device.partition(":")[0]
    return "cpu" if scheduler is not None else chosen_device("auto")


def chosen_device(name: str) -> str:
    """Resolve the name of a device, `auto` to a GPU if there is one; raise if it is missing."""
    with needed_by("running or predicting a study", "PyTorch", "'korisk[torch]'"):
        import torch
    _check_device(name)
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    count = torch.cuda.device_count()
    if name != "cpu" and int(name.partition(":")[2] or 0) >= count:
        problem = f" was not found: there are {count} GPUs; use "
        raise KoriskError(Argument("device", name), problem, Argument("device", "cpu"))
    return name


def _check_device(name: str) -> None:
    if re.fullmatch(r"auto|cpu|cuda(:\d+)?", name, re.ASCII) is None:
        raise invalid("device", "be cpu, cuda, cuda:1 or auto", name)


@contextmanager
def opened(scheduler: str | None, device: str) -> Iterator[tuple[clusters.Cluster | None, str]]:
    """Join the scheduler, if there is one; yield its cluster and the device of the cells."""
    if scheduler is None:
        yield None, device
        return
    wants_gpu = None if device == "auto" else device.startswith("cuda")
    with clusters.joined_cluster(scheduler, gpu=wants_gpu) as cluster:
        offered = "cuda" if cluster.gpu else "cpu"
        yield cluster, (offered if wants_gpu is None else device)


def groups(
    tasks: Sequence[Task], device: str, scheduler: str | None = None
) -> list[tuple[list[Task], int, int | None]]:
    """Groups of tasks to run one after another, with their local processes and threads.

    Cells of small images run in parallel; one of a large image uses all cores. Threads depend on
    the cell and on OMP_NUM_THREADS, never on --workers, so that results have the same bits.
    """
    if scheduler is not None:
        return [(list(tasks), 1, None)]
    if device != "cpu":
        # A GPU is used by one process at a time.
        return [(list(tasks), 0, None)]
    small: list[Task] = []
    large: list[Task] = []
    for task in tasks:
        problem = task.spec["problem"]
        rays = problem.get("views", 0) * problem.get("bins", 0)
        is_large = problem.get("side", 0) >= _LARGE or rays > _MANY
        (large if is_large else small).append(task)
    threads = threads_asked()
    candidates = (small, cores(), threads or 1), (large, 1, threads or cores())
    return [group for group in candidates if group[0]]


def expected_seconds(store: Store, tasks: Sequence[Task], device: str) -> dict[str, float]:
    """Expected seconds of a cell by point, from cells in the store on this kind of device.

    The mean over cells of the same point, or else over those of another point with the same kind
    and size of problem and the same fits.
    """
    # Each cell counts for its point and for its scale.
    measured = grouped(
        (name, cell.usage.seconds)
        for cell in store.results()
        if (cell.detail.get("device", "cpu") != "cpu") == (device == "cuda")
        for name in (cell.task.point, _scale(cell.task.spec))
    )
    # A point without cells takes the mean of its scale.
    specs = {task.point: task.spec for task in tasks}
    times = {point: measured.get(point) or measured.get(_scale(specs[point])) for point in specs}
    return {point: fmean(seconds) for point, seconds in times.items() if seconds}


def _scale(spec: JsonMapping) -> str:
    """Key of points whose cells take about the same time."""
    problem = spec["problem"]
    size = [problem.get(name) for name in ("kind", "side", "views", "bins", "beam", "points")]
    return repr((size, *(spec.get(name) for name in ("sizes", "models", "pools"))))
