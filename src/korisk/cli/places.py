"""Where a study's cells run: the options for that, and the cluster that they mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from korisk import _checks
from korisk.errors import KoriskError, MissingExtraError
from korisk.studies.run.job_profile import JobProfile

if TYPE_CHECKING:
    from korisk.studies.run.clusters import Cluster

EngineName = Literal["local", "dask"]
ENGINES: tuple[EngineName, ...] = ("local", "dask")
_MOST_WORKERS = 512

Engine = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="local runs cells in processes of this machine, dask on a Dask cluster. "
        "[default: local, or dask with --scheduler or --slurm]",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Join the Dask cluster of this scheduler, such as tcp://host:8786."
    ),
]
Slurm = Annotated[
    Path | None,
    typer.Option(
        metavar="PROFILE.yaml",
        help="Have Slurm, PBS or LSF start the workers; see docs/reference/clusters.md.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="W",
        help="Processes; 0 runs cells in this one. With --slurm, jobs. "
        "[default: one a core for small images, or 1]",
    ),
]
Device = Annotated[
    str,
    typer.Option(metavar="NAME", help="cpu, cuda, cuda:1 or auto, which takes a GPU if there is."),
]


@dataclass(frozen=True, kw_only=True)
class Place:
    """What was asked for: this machine's processes, or one of three kinds of cluster."""

    engine: EngineName = "local"
    scheduler: str | None = None
    profile: JobProfile | None = None
    workers: int | None = None  # as given
    device: str = "auto"  # as given

    @property
    def elsewhere(self) -> bool:
        """Whether cells may run on other machines than this one."""
        return self.scheduler is not None or self.profile is not None


def chosen_place(
    engine: str | None = None,
    scheduler: str | None = None,
    slurm: Path | None = None,
    *,
    workers: int | None = None,
    device: str = "auto",
) -> Place:
    """The place that options mean, or what is wrong with them."""
    if scheduler is not None and slurm is not None:
        raise KoriskError("--scheduler joins a cluster and --slurm starts one; give one of them")
    on_cluster = scheduler is not None or slurm is not None
    name = engine or ("dask" if on_cluster else "local")
    _checks.one_of("--engine", name, ENGINES)
    if name == "local" and on_cluster:
        option = "--scheduler" if slurm is None else "--slurm"
        raise KoriskError(f"{option} belongs to --engine dask, got --engine local; leave one out")
    _check_workers(workers, dask=name == "dask", joined=scheduler is not None)
    profile = None if slurm is None else JobProfile.read(slurm)
    if profile is not None and workers is not None:
        profile = profile.model_copy(update={"jobs": workers})
    if _checked_device(device).startswith("cuda") and profile is not None and not profile.gpus:
        raise KoriskError(f"--device {device} needs jobs with a GPU; write gpus: 1 in {slurm}")
    return Place(
        engine="dask" if name == "dask" else "local",
        scheduler=scheduler,
        profile=profile,
        workers=workers,
        device=device,
    )


def _check_workers(workers: int | None, *, dask: bool, joined: bool) -> None:
    if workers is None:
        return
    if joined:
        raise KoriskError(
            "--workers belongs to clusters that are started, and --scheduler joins one; leave it "
            "out, or start workers there"
        )
    least, remedy = 0, "count processes; 0 runs cells in this one"
    if dask:
        least, remedy = 1, "count processes or jobs"
    _checks.count("--workers", workers, at_least=least, at_most=_MOST_WORKERS, remedy=remedy)


def settled(place: Place) -> Place:
    """The place with its device named, before anything is made or started."""
    _torch()
    return place if place.elsewhere else replace(place, device=chosen_device(place.device))


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as missing:
        raise MissingExtraError(
            "running a study needs PyTorch, which is not installed; pip install 'korisk[torch]'"
        ) from missing
    return torch


def chosen_device(name: str) -> str:
    """The device that an option means, if it is on this machine."""
    torch = _torch()
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if _checked_device(name).startswith("cuda"):
        count = torch.cuda.device_count()
        if int(name.partition(":")[2] or 0) >= count:
            raise KoriskError(f"--device {name} is not there: {count} GPUs found; use --device cpu")
    return name


def _checked_device(name: str) -> str:
    kind, colon, number = name.partition(":")
    named = kind in ("auto", "cpu", "cuda") and (not colon or (kind == "cuda" and number.isdigit()))
    if not named:
        raise KoriskError(f"--device must be cpu, cuda, cuda:1 or auto, got {name!r}")
    return name


@contextmanager
def opened(place: Place, *, processes: int) -> Iterator[tuple[Cluster | None, str]]:
    """The cluster of a settled place, None for this machine's processes, and its cells' device.

    `processes` is how many a cluster on this machine has unless somebody said.
    """
    if place.engine == "local":
        yield None, place.device
        return
    from korisk.studies.run import clusters

    if place.profile is not None:
        gpu = place.profile.gpus > 0 and place.device != "cpu"
        with clusters.job_cluster(place.profile) as cluster:
            yield replace(cluster, gpu=gpu), _device(place.device, gpu)
    elif place.scheduler is not None:
        asked = place.device.startswith("cuda")
        with clusters.joined_cluster(place.scheduler, gpu=asked) as cluster:
            gpu = clusters.offers_gpu(cluster) if place.device == "auto" else asked
            yield replace(cluster, gpu=gpu), _device(place.device, gpu)
    else:
        gpu = place.device != "cpu"
        with clusters.local_cluster(place.workers or processes, gpu=gpu) as cluster:
            yield cluster, place.device


def device_kind(place: Place) -> str:
    """cpu or cuda, as far as that is known without starting anything."""
    if place.device != "auto":
        return place.device.partition(":")[0]
    if place.profile is not None:
        return "cuda" if place.profile.gpus else "cpu"
    try:
        return "cpu" if place.scheduler is not None else chosen_device("auto")
    except MissingExtraError:  # nothing runs here without PyTorch, but costs can be told
        return "cpu"


def _device(given: str, gpu: bool) -> str:
    """What cells on other machines are told."""
    if given != "auto":
        return given
    return "cuda" if gpu else "cpu"
