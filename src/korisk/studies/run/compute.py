"""Choice of the device, the processes or cluster, and the groups in which cells are run."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import fmean

from korisk import _checks
from korisk._group import grouped
from korisk._json import JsonMapping
from korisk.errors import Argument, KoriskError, MissingExtraError, invalid, needed_by
from korisk.store.cells import Task
from korisk.store.store import Store
from korisk.store.usage import cores
from korisk.studies.run import clusters
from korisk.studies.run.worker import threads_asked

_MOST_WORKERS = 512
_LARGE, _MANY = 64, 4096  # pixels a side and rays from which a single cell uses all cores


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Where cells run: in processes of this machine, or on a Dask cluster.

    Parameters
    ----------
    cluster : str, optional
        Run cells on Dask: local starts processes on this machine, tcp://host:8786 joins a
        scheduler, and slurm, pbs, lsf, sge, oar, moab or htcondor submit jobs. Default: processes
        without Dask.
    options : mapping, optional
        Options of the jobs, with dask-jobqueue's keys; see docs/reference/clusters.md.
    workers : int, optional
        Number of processes, or of jobs; 0 runs cells in this process. Default: one per core for
        small images, else 1.
    device : str, default "auto"
        cpu, cuda, cuda:1, or auto: a GPU if there is one.

    Raises
    ------
    KoriskError
        If they contradict each other.
    """

    cluster: str | None = None
    options: JsonMapping = field(default_factory=dict)
    workers: int | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.batch is not None:
            known = ("local", *clusters.SYSTEMS, "tcp://host:port")
            _checks.one_of("cluster", self.cluster, known)
        elif self.options:
            jobs = " is for jobs of a batch system; add ", Argument("cluster", "slurm")
            raise KoriskError(Argument("options"), *jobs, ", or leave it out")
        if self.workers is not None:
            if self.joins:
                reason = " is for clusters that are started, and ", Argument("cluster")
                remedy_text = " ADDRESS joins one; leave it out, or start workers there"
                raise KoriskError(Argument("workers"), *reason, remedy_text)
            least = 0 if self.cluster is None else 1
            remedy = "count workers" if least else "count processes; 0 runs cells in this one"
            most = _MOST_WORKERS
            _checks.count("workers", self.workers, at_least=least, at_most=most, remedy=remedy)
        _check_device(self.device)
        on_gpu = self.batch is None or clusters.uses_gpu(self.batch, self.options)
        if self.device.startswith("cuda") and not on_gpu:
            add = 'worker_extra_args: ["--resources", "GPU=1"] to the cluster options'
            raise KoriskError(Argument("device", self.device), f" needs jobs with a GPU; add {add}")

    @property
    def joins(self) -> bool:
        """Whether `cluster` is the address of a running one."""
        return self.cluster is not None and ":" in self.cluster

    @property
    def batch(self) -> str | None:
        """The batch system, or None."""
        return None if self.joins or self.cluster == "local" else self.cluster

    @property
    def elsewhere(self) -> bool:
        """Whether cells may run on other machines."""
        return self.joins or self.batch is not None

    def device_kind(self) -> str:
        """cpu or cuda, as far as known without starting a cluster."""
        if self.device != "auto":
            return self.device.partition(":")[0]
        if self.batch is not None:
            return "cuda" if clusters.uses_gpu(self.batch, self.options) else "cpu"
        try:
            return "cpu" if self.joins else chosen_device("auto")
        except MissingExtraError:  # nothing runs here without PyTorch, but cells can be listed
            return "cpu"


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
def opened(
    compute: Compute, *, processes: int, threads: int | None = None
) -> Iterator[tuple[clusters.Cluster | None, str]]:
    """Open the cluster, None for processes without Dask; yield it and the device of its cells.

    `processes` is the default size of a local cluster, `threads` the threads of each process.
    """
    if compute.cluster is None:
        yield None, compute.device
        return
    device = compute.device
    wants_gpu = None if device == "auto" else device.startswith("cuda")
    if compute.batch is not None:
        opening = clusters.job_cluster(compute.batch, compute.workers or 1, compute.options)
    elif compute.joins:
        opening = clusters.joined_cluster(compute.cluster, gpu=wants_gpu)
    else:
        count = compute.workers or processes
        opening = clusters.local_cluster(count, threads=threads, gpu=device != "cpu")
    with opening as cluster:
        gpu = cluster.gpu if wants_gpu is None else wants_gpu
        kind = "cuda" if gpu else "cpu"
        yield replace(cluster, gpu=gpu), (kind if wants_gpu is None else device)


def groups(tasks: Sequence[Task], compute: Compute) -> list[tuple[list[Task], int, int | None]]:
    """Groups of tasks to run one after another, with their local processes and threads.

    Cells of small images run in parallel; one of a large image uses all cores. Threads depend on
    the cell and on OMP_NUM_THREADS, never on --workers, so that results have the same bits.
    """
    if compute.elsewhere:
        return [(list(tasks), 1, None)]
    if compute.device != "cpu":
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
