"""Measures how fast this machine is, for `korisk cost --measure`: about a minute, with PyTorch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from korisk._memory import free_memory
from korisk.costs.cost import cell_seconds
from korisk.costs.counts import KINDS, Kind
from korisk.costs.rates import Rates, Table
from korisk.costs.scans import Scan
from korisk.operators import LinearOperator
from korisk.operators.ct.engines import CpuMatrix, DeviceMatrix, Engine
from korisk.operators.ct.projector import PixelBackprojector
from korisk.operators.ct.stencils import Stencil
from korisk.problems import CtScanner, measure, random_ellipses
from korisk.studies.result import Task
from korisk.studies.run.cells import run_cell
from korisk.studies.run.usage import cores, machine, versions
from korisk.studies.spec.study import Study

_LONG = 0.02  # seconds, over which calls are repeated
_MOST_CALLS = 2000
_ROUNDS = 4  # of which the quickest counts: others were disturbed
_PASSES = 2  # over all kinds, since a disturbance lasts a while
_PATIENCE = 0.3  # seconds of a round from which there is one more alone
_IMAGES = 32
_SCANS = {8: 10, 32: 24, 64: 40, 128: 60, 256: 90}  # side: views; as many bins as the side

Watch = Callable[[str], None]


def measure_rates(
    name: str, *, device: str = "cpu", known: Rates | None = None, watch: Watch | None = None
) -> Rates:
    """The rates of this machine's CPU or GPU.

    `known` are earlier ones of it: of each figure the quicker is kept, since other work on a
    machine only ever slows it down.
    """
    place = torch.device(device)
    start = _start(place, known)
    baseline, free = _resident(), free_memory(place)
    tables: dict[Kind, Table] = {} if known is None else dict(known.seconds)
    for _ in range(_PASSES):
        for kind in KINDS:
            if watch is not None:
                watch(kind)
            tables[kind] = _quicker(tables.get(kind), tuple(_MEASURES[kind](place)))
    made = Rates(
        name=name,
        device=place.type,
        where=where(place),
        memory=free,
        baseline=baseline,
        overhead=0.0,
        start=start,
        seconds=tables,
        machine=dict(machine()),
        versions=dict(versions()),
    )
    if watch is not None:
        watch("overhead")
    return replace(made, overhead=_overhead(made, device, known))


def _quicker(known: Table | None, new: Table) -> Table:
    """The quicker of two passes at each work: the other one was disturbed."""
    if known is None or [work for work, _ in known] != [work for work, _ in new]:
        return new
    pairs = zip(known, new, strict=True)
    return tuple((work, min(one, other)) for (work, one), (_, other) in pairs)


def _start(place: torch.device, known: Rates | None) -> float:
    """Seconds that a small cell takes longer as the first of this process than as the second.

    Libraries are loaded in it, and kernels compiled. Afterwards the process is as large as one
    that is ready for its cells.
    """
    first, second = (_cell_seconds(_small_study(seeds=1).tasks[0], str(place)) for _ in range(2))
    taken = max(0.0, first - second)
    return taken if known is None else min(taken, known.start)


def _cell_seconds(task: Task, device: str) -> float:
    begun = time.perf_counter()
    run_cell(task, lambda _: None, device=device)
    return time.perf_counter() - begun


def _small_study(*, seeds: int) -> Study:
    return Study(
        {
            "name": "small",
            "points": [{"side": 8, "sizes": [4, 8, 16, 32]}],
            "seeds": list(range(1, seeds + 1)),
            "pools": {"validation": 16, "test": 16},
        }
    )


def _resident() -> int:
    """The memory of this process now, as far as the system says."""
    with suppress(OSError):
        pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0


def where(place: torch.device) -> str:
    """What a device is, in words."""
    if place.type == "cuda":
        return str(torch.cuda.get_device_name(place))
    return f"{machine()['processor']}, {cores()} cores, {torch.get_num_threads()} threads"


def _seconds(call: Callable[[], object], place: torch.device) -> float:
    """Seconds of one call among many, without what starting the device's queue takes."""
    _timed(call, 1, place)  # libraries set themselves up in the first
    once = _timed(call, 1, place)
    calls = 1
    while once * calls < _LONG and calls < _MOST_CALLS:
        calls = min(_MOST_CALLS, max(2 * calls, int(1.2 * _LONG / max(once, 1e-7))))
        once = _timed(call, calls, place) / calls
    rounds = _ROUNDS if once * calls < _PATIENCE else 1
    return min([once, *(_timed(call, calls, place) / calls for _ in range(rounds))])


def _timed(call: Callable[[], object], calls: int, place: torch.device) -> float:
    _wait(place)
    start = time.perf_counter()
    for _ in range(calls):
        call()
    _wait(place)
    return time.perf_counter() - start


def _wait(place: torch.device) -> None:
    if place.type == "cuda":
        torch.cuda.synchronize(place)


def _square(n: int, place: torch.device, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(n)
    return torch.rand(n, n, generator=generator, dtype=dtype).to(place)


def _definite(n: int, place: torch.device, dtype: torch.dtype) -> Tensor:
    made = _square(n, place, dtype)
    return made + made.T + 2 * n * torch.eye(n, device=place, dtype=dtype)


def _sides(place: torch.device, cpu: Sequence[int], cuda: Sequence[int]) -> Sequence[int]:
    return cpu if place.type == "cpu" else cuda


def _matmul(dtype: torch.dtype, place: torch.device) -> Iterator[tuple[float, float]]:
    for n in _sides(place, (8, 32, 128, 512, 1536), (8, 128, 512, 2048, 8192)):
        left, right = _square(n, place, dtype), _square(n, place, dtype)
        yield 2.0 * n**3, _seconds(partial(torch.matmul, left, right), place)


def _matvec(place: torch.device) -> Iterator[tuple[float, float]]:
    for n in _sides(place, (32, 256, 1024, 8192), (32, 1024, 8192, 32768)):
        matrix = torch.ones(n, n, device=place)
        vector = torch.ones(n, device=place)
        yield 4.0 * n**2, _seconds(partial(torch.mv, matrix, vector), place)


def _eigh(place: torch.device) -> Iterator[tuple[float, float]]:
    for n in _sides(place, (4, 16, 64, 256, 1024), (4, 64, 256, 1024, 2048)):
        matrix = _definite(n, place, torch.float64)
        yield float(n**3), _seconds(partial(torch.linalg.eigh, matrix), place)


def _cholesky(dtype: torch.dtype, place: torch.device) -> Iterator[tuple[float, float]]:
    for n in _sides(place, (16, 64, 256, 1024, 2048), (16, 256, 1024, 4096)):
        matrix = _definite(n, place, dtype)
        yield n**3 / 3, _seconds(partial(torch.linalg.cholesky_ex, matrix), place)


def _stream(place: torch.device) -> Iterator[tuple[float, float]]:
    for n in _sides(place, (2**6, 2**12, 2**17, 2**25), (2**6, 2**16, 2**22, 2**28)):
        left, right = torch.ones(n, device=place), torch.ones(n, device=place)
        yield 12.0 * n, _seconds(partial(left.add_, right), place)


def _scanner(side: int) -> CtScanner:
    return CtScanner(side=side, views=_SCANS[side], bins=side, beam="fan")


def _scan(side: int) -> Scan:
    return Scan(side, _SCANS[side], side, "fan")


def _both_ways(operator: LinearOperator, images: int, place: torch.device) -> float:
    """Seconds of one direction on average."""
    x = torch.ones(images, *operator.domain, device=place)
    y = torch.ones(images, *operator.range, device=place)
    there = _seconds(partial(operator._map, x), place)
    return (there + _seconds(partial(operator._map_adjoint, y), place)) / 2


def _rays(place: torch.device) -> Iterator[tuple[float, float]]:
    for side in _sides(place, (8, 32, 64, 128), (8, 32, 128, 256)):
        operator = _scanner(side).projector(place)
        entries = _scan(side).projector_entries
        yield entries * _IMAGES, _both_ways(operator, _IMAGES, place)


def _sparse(place: torch.device) -> Iterator[tuple[float, float]]:
    for side in _sides(place, (8, 32, 64, 128), (8, 32, 128, 256)):
        operator = PixelBackprojector(_scanner(side).geometry, engine="matrix", device=place)
        entries = _scan(side).tail_entries
        yield entries * _IMAGES, _both_ways(operator, _IMAGES, place)


def _on_the_fly(place: torch.device) -> Iterator[tuple[float, float]]:
    for side, images in ((8, 4), (64, 4), (128, 8)):
        # Not Joseph's rays, which have kernels of their own on CUDA.
        operator = PixelBackprojector(_scanner(side).geometry, engine="on_the_fly", device=place)
        yield _scan(side).tail_listed * images, _both_ways(operator, images, place)


def _listed(place: torch.device) -> Iterator[tuple[float, float]]:
    for side in _sides(place, (8, 64, 128), (8, 64, 256)):
        stencil = PixelBackprojector(_scanner(side).geometry).stencil
        yield _scan(side).tail_listed, _seconds(partial(_matrix, stencil, place), place)


def _matrix(stencil: Stencil, place: torch.device) -> Engine:
    if place.type == "cpu":
        return CpuMatrix(stencil, torch.float32)
    return DeviceMatrix(stencil, place, torch.float32)


def _paint(place: torch.device) -> Iterator[tuple[float, float]]:
    for side, count in ((8, 16), (32, 256), (128, 256)):
        phantoms = random_ellipses(count, seed=1, stream="rates")
        call = partial(phantoms.images, side, device=place)
        yield float(count * side**2), _seconds(call, place)


def _measure(place: torch.device) -> Iterator[tuple[float, float]]:
    for side, count in ((8, 16), (8, 256), (32, 256), (128, 64)):
        images = torch.linspace(0, 1, count * side**2).reshape(count, side, side).to(place)
        targets = images.flip(1)
        yield float(count * side**2), _seconds(partial(measure, images, targets), place)


_MEASURES: dict[Kind, Callable[[torch.device], Iterator[tuple[float, float]]]] = {
    "matmul32": lambda place: _matmul(torch.float32, place),
    "matmul64": lambda place: _matmul(torch.float64, place),
    "matvec32": _matvec,
    "eigh64": _eigh,
    "cholesky32": lambda place: _cholesky(torch.float32, place),
    "cholesky64": lambda place: _cholesky(torch.float64, place),
    "rays": _rays,
    "sparse": _sparse,
    "listed": _listed,
    "on_the_fly": _on_the_fly,
    "paint": _paint,
    "measure": _measure,
    "stream": _stream,
}


def _overhead(rates: Rates, device: str, known: Rates | None) -> float:
    """Seconds of a fit that no count explains: those of a small cell, over its fits."""
    study = _small_study(seeds=_ROUNDS)
    spec = study.tasks[0].spec
    taken = [] if known is None else [cell_seconds(spec, known)[1]]
    taken += [_cell_seconds(task, device) for task in study.tasks]
    _, counted = cell_seconds(spec, rates)
    return max(0.0, min(taken) - counted) / (len(spec["sizes"]) * len(spec["models"]))
