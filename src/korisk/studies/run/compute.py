"""Choice of the device and the processes or scheduler, and the groups in which cells are run."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from korisk.errors import Argument, KoriskError, invalid, needed_by
from korisk.store.cells import Task
from korisk.store.usage import cores
from korisk.studies.run import clusters
from korisk.studies.run.worker import threads_asked

_LARGE, _MANY = 64, 4096  # pixels a side and rays from which a single cell uses all cores


def chosen_device(name: str, scheduler: str | None = None) -> str:
    """Resolve the name of a device, `auto` to a GPU if there is one; raise if it is missing.

    With a scheduler the name stays: the workers choose their device.
    """
    if re.fullmatch(r"auto|cpu|cuda(:\d+)?", name, re.ASCII) is None:
        raise invalid("device", "be cpu, cuda, cuda:1 or auto", name)
    if scheduler is not None:
        return name
    with needed_by("running or predicting a study", "PyTorch", "'korisk[torch]'"):
        import torch
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    count = torch.cuda.device_count()
    if name != "cpu" and int(name.partition(":")[2] or 0) >= count:
        problem = f" was not found: there are {count} GPUs; use "
        raise KoriskError(Argument("device", name), problem, Argument("device", "cpu"))
    return name


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
