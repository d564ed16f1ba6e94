"""How fast korisk projects, backprojects, reconstructs and differentiates, against its peers.

All in one process and run, with the same threads: milliseconds per image for the forward
projection A x, the adjoint A^T y, the filtered backprojection and the gradient of |A x|^2 by
autograd, the best of several calls, all taking turns. Where a peer has several settings, all are
measured and the fastest counts; why it cannot do something is said below the table. Building an
operator is no part of any time. Each peer has its own discretization: --check says how far they
agree. Other work on the machine makes the figures too large: the load before the run is shown.

On CUDA, times are those of CUDA events, and "of copying speed" is the time in which the images
could be read once and the sinograms written once at the speed of a large copy on the same card, as
a part of the time taken.

    python -m benchmarks.operators.compare [--sizes 64 128 256 512] [--batches 1 32] [--threads 2]
        [--device cpu|cuda] [--peers astra torchtomo deepinv skimage] [--json FILE]
    python -m benchmarks.operators.compare --check [--save FILE.npz]
        # whether peers see the same rays
    python -m benchmarks.operators.compare --quality                   # error of reconstructions
"""

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.operators.peers import (
    ENTRIES,
    PEERS,
    CuSparse,
    Korisk,
    Peer,
    Scan,
    SkImage,
    Unable,
    Work,
    Works,
    astra_sinogram,
    fan_vectors,
    parallel_vectors,
)
from benchmarks.operators.shepp_logan import shepp_logan
from benchmarks.operators.tables import table

Array = NDArray[np.float64]
Measured = float | str  # milliseconds per image, or why there are none

_ALL = Scan(64, 30, 64), Scan(128, 60, 128), Scan(256, 90, 256), Scan(512, 180, 512)
SCANS = {scan.size: scan for scan in _ALL}
CPU_BATCHES = 1, 32
CUDA_BATCHES = *CPU_BATCHES, 1024, 2048
FORWARD_ALONE = 2048  # from this batch on only the forward projection is measured
SECONDS = 6.0  # for a cell, shared by its settings and rounds
ROUNDS = 2
ONE_CALL = 3.0  # a call so long is not repeated
MOST_CALLS = 100
COPIED = 2**32  # bytes of the copy that measures the card


@dataclass(frozen=True)
class Cell:
    """What one library did for one entry: milliseconds per image, or why there are none."""

    size: int
    batch: int
    entry: str
    who: str
    ms: float | None = None
    setting: str = ""
    settings: dict[str, Measured] = field(default_factory=dict)  # all that were measured
    reason: str = ""


# Timing


def seconds(work: Work, budget: float, device: str) -> float:
    """The best of several calls, within a budget."""
    clock = _card_seconds if device == "cuda" else _host_seconds
    if device == "cuda":
        work()  # kernels are compiled at their first call, which may take longer than all others
    start = time.perf_counter()
    best = clock(work, 1)
    if best > ONE_CALL:
        return best
    # Very short work on the card is measured in a row, or the launch would be what is timed.
    in_a_row = min(100, max(1, round(5e-3 / max(best, 1e-6)))) if device == "cuda" else 1
    for _ in range(MOST_CALLS):
        if time.perf_counter() - start > budget:
            break
        best = min(best, clock(work, in_a_row))
    return best


def _host_seconds(work: Work, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls


def _card_seconds(work: Work, calls: int) -> float:
    begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / calls


def copy_bandwidth() -> float:
    """Bytes read and written in a second by a large copy on the card."""
    source = torch.zeros(COPIED // 4, device="cuda")
    target = torch.empty_like(source)
    return 2 * COPIED / seconds(lambda: target.copy_(source), 1.0, "cuda")


# Measuring


def measure(scan: Scan, peers: Sequence[Peer], batch: int, device: str, limit: float) -> list[Cell]:
    """Every peer on every entry, each within `limit` seconds or one call."""
    images, sinograms = _inputs(scan, batch, device)
    entries = ENTRIES if batch < FORWARD_ALONE else ENTRIES[:1]
    cells: list[Cell] = []
    for entry in entries:
        reasons: dict[str, str] = {}
        works: dict[str, Works] = {}
        for peer in peers:
            _say(f"H {scan.size}, batch {batch}: {entry}, preparing {peer.name}")
            try:
                works[peer.name] = peer.works(entry, images, sinograms)
            except Exception as trouble:
                reasons[peer.name] = _why(trouble, peer.name)
        measured = _in_rounds(works, batch, device, limit)
        for peer in peers:
            blank = Cell(scan.size, batch, entry, peer.name, reason=reasons.get(peer.name, ""))
            cells.append(_filled(blank, measured.get(peer.name, {})))
    _say("")
    return cells


def _in_rounds(
    works: dict[str, Works], batch: int, device: str, limit: float
) -> dict[str, dict[str, Measured]]:
    """Milliseconds per image by peer and setting; all take turns, as what else runs here varies."""
    measured: dict[str, dict[str, Measured]] = {who: {} for who in works}
    for turn in range(ROUNDS):
        for who, settings in works.items():
            for name, work in settings.items():
                before = measured[who].get(name, np.inf)
                if isinstance(before, str) or (turn and before * batch > ONE_CALL * 1e3):
                    continue
                _say(f"batch {batch}: {who}, {name}")
                try:
                    taken = seconds(work, limit / ROUNDS / len(settings), device)
                    measured[who][name] = min(before, taken / batch * 1e3)
                except Exception as trouble:
                    measured[who][name] = _why(trouble, who)
    return measured


def _why(trouble: Exception, who: str) -> str:
    """What to show where a peer failed; korisk's own failures are not for the table."""
    if isinstance(trouble, Unable):
        return str(trouble)
    if isinstance(trouble, torch.cuda.OutOfMemoryError):
        torch.cuda.empty_cache()
        return "out of memory"
    if who == "korisk":
        raise trouble
    return f"{type(trouble).__name__}: {(str(trouble).splitlines() or [''])[0]}"


def _filled(blank: Cell, settings: dict[str, Measured]) -> Cell:
    times = {name: ms for name, ms in settings.items() if not isinstance(ms, str)}
    if times:
        best = min(times, key=lambda name: times[name])
        return replace(blank, ms=times[best], setting=best, settings=settings)
    why = blank.reason or "; ".join(f"{name}: {reason}" for name, reason in settings.items())
    return replace(blank, settings=settings, reason=why)


def _inputs(scan: Scan, batch: int, device: str) -> tuple[Tensor, Tensor]:
    """Random images within the inscribed circle, outside of which some peers see nothing."""
    rng = torch.Generator(device).manual_seed(0)
    images = torch.rand(batch, scan.size, scan.size, generator=rng, device=device)
    sinograms = torch.rand(batch, scan.views, scan.bins, generator=rng, device=device)
    inside = torch.as_tensor(_disc(scan.size), dtype=torch.float32, device=device)
    return images.mul_(inside), sinograms


def _disc(size: int, margin: float = 2.0) -> NDArray[np.bool_]:
    centres = np.arange(size) - (size - 1) / 2
    return np.asarray(np.hypot(centres[:, None], centres[None, :]) <= size / 2 - margin)


def _say(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{what:78s}\r", end="", file=sys.stderr, flush=True)


# Whether all see the same rays


def check(found: dict[str, type[Peer]], save: Path | None) -> None:
    """Print how far the peers' sinograms of one head are from korisk's; keep those of ASTRA.

    Some releases of ASTRA multiply what 'line_fanflat' gives by the width of a bin: the factor
    then reads 0.5. It is a line kernel, so it agrees less closely than 'linear', which is Joseph's.
    """
    from korisk.operators import FanBeam, ParallelBeam, Projector

    scan = SCANS[128]
    head = shepp_logan(scan.size)
    image = torch.as_tensor(head)
    parallel = ParallelBeam((scan.size, scan.size), views=scan.views, bins=scan.bins)
    fan = FanBeam(
        (scan.size, scan.size),
        views=60,
        bins=192,
        source_to_center=500,
        source_to_detector=1000,
        bin_spacing=2.0,
    )
    ours = {
        "parallel": Projector(parallel, dtype=torch.float64)(image).numpy(),
        "fan": Projector(fan, dtype=torch.float64)(image).numpy(),
    }
    print("relative difference to korisk, and after the best common factor (which should be 1):")
    for name, peer in found.items():
        if name not in {"astra", CuSparse.name}:
            theirs = peer(scan, "cpu").project(image.float()).numpy()
            note = " (axis half a pixel off)" if peer is SkImage else ""
            _show_difference(f"{name}, parallel{note}", theirs, ours["parallel"])
    if "astra" not in found:
        return
    vectors = {
        "parallel": parallel_vectors(parallel.angle_array),
        "fan": fan_vectors(fan.angle_array, 500.0, 1000.0, 2.0),
    }
    astra = {
        "parallel": _astra_parallel(head, found["astra"], vectors["parallel"]),
        "fan": astra_sinogram(head, "line_fanflat", "fanflat_vec", fan.bins, vectors["fan"]),
    }
    _show_difference("ASTRA 'linear', parallel_vec", astra["parallel"], ours["parallel"])
    by_angle = found["astra"](scan, "cpu").project(image.float()).numpy()
    _show_difference("ASTRA 'linear', parallel at -b", by_angle, ours["parallel"])
    _show_difference("ASTRA 'line_fanflat', fanflat_vec", astra["fan"], ours["fan"])
    if save:
        arrays = {"phantom": head, "parallel": astra["parallel"], "fan": astra["fan"]}
        arrays |= {f"{name}_vectors": rows for name, rows in vectors.items()}
        small: dict[str, Any] = {name: each.astype(np.float32) for name, each in arrays.items()}
        np.savez_compressed(save, **small)
        print(f"wrote {save}")


def _astra_parallel(head: Array, peer: type[Peer], vectors: Array) -> Array:
    scan = SCANS[128]
    try:
        return astra_sinogram(head, "linear", "parallel_vec", scan.bins, vectors)
    except Exception as trouble:  # ASTRA's own class in new releases, a bare Exception in old ones
        print(f"ASTRA refuses parallel_vec for 'linear' ({trouble}); the angles -b instead")
        image = torch.as_tensor(head, dtype=torch.float32)
        return np.asarray(peer(scan, "cpu").project(image).numpy())


def _show_difference(title: str, theirs: NDArray[Any], ours: Array) -> None:
    factor = float((theirs * ours).sum() / (theirs * theirs).sum())
    scale = np.linalg.norm(ours)
    raw = np.linalg.norm(theirs - ours) / scale
    fitted = np.linalg.norm(factor * theirs - ours) / scale
    print(f"{title:46s} {raw:.2e}, {fitted:.2e} after {factor:.5f}")


# How good reconstructions are


def quality(found: dict[str, type[Peer]]) -> None:
    """Print the relative error of filtered backprojections of the head in the inscribed circle."""
    from korisk.operators import ParallelBeam, Projector, fbp
    from korisk.operators.ct.filter import WINDOWS

    size, views = 256, 180
    truth = shepp_logan(size)
    # One more row and column of air put the axis of rotation on pixel 128, where scikit-image has
    # it for 256 pixels; korisk's own reconstruction keeps its axis in the middle.
    geometry = ParallelBeam((size, size), views=views, bins=size)
    beside = ParallelBeam((size + 1, size + 1), views=views, bins=size + 1)
    sinogram = Projector(geometry)(torch.as_tensor(truth, dtype=torch.float32))
    errors = {
        f"korisk fbp, {window}": _error(fbp(geometry, window=window)(sinogram).numpy(), truth)
        for window in WINDOWS
    }
    if SkImage.name in found:
        transform: Any = import_module("skimage.transform")
        radon, iradon = transform.radon, transform.iradon
        degrees = np.rad2deg(geometry.angle_array)
        own = iradon(radon(truth, degrees, circle=True), degrees, circle=True)
        errors["skimage iradon of its radon, ramp"] = _error(own, truth)
        air = torch.as_tensor(np.pad(truth, (0, 1)), dtype=torch.float32)
        rows = Projector(beside)(air).numpy()
        of_ours = iradon(np.ascontiguousarray(rows.T), -degrees, circle=True)[:size, :size]
        errors["skimage iradon of korisk's sinogram, ramp"] = _error(of_ours, truth)
    ours = errors["korisk fbp, ramp"]
    print(f"|rec - truth| / |truth| in the inscribed circle, H {size}, {views} views:")
    for name, error in errors.items():
        print(f"{name:46s} {error:.4f}, {error / ours:.2f} times korisk's ramp")


def _error(reconstruction: NDArray[Any], truth: Array) -> float:
    inside = _disc(len(truth), margin=0.0)
    difference = np.linalg.norm((reconstruction - truth)[inside])
    return float(difference / np.linalg.norm(truth[inside]))


# The program


def find(names: Sequence[str], device: str) -> tuple[dict[str, type[Peer]], dict[str, str]]:
    """The peers that can be used here with their versions said, and why the others cannot."""
    found: dict[str, type[Peer]] = {}
    missing: dict[str, str] = {}
    for name in names:
        peer = PEERS[name]
        if device == "cuda" and not peer.on_cuda:
            missing[name] = "does not run on CUDA"
            continue
        try:
            print(f"{name} {peer.load()}")
        except Exception as trouble:  # whatever a broken installation raises is the reason
            missing[name] = _why(trouble, name)
            continue
        found[name] = peer
    for name, reason in missing.items():
        print(f"{name} is missing: {reason}")
    return found, missing


def build(
    scan: Scan, found: dict[str, type[Peer]], device: str
) -> tuple[list[Peer], dict[str, str]]:
    """korisk and the peers on one scan; a peer that fails to start is told, never dropped."""
    peers: list[Peer] = [Korisk(scan, device)]
    failed = {}
    for name, peer in found.items():
        try:
            peers.append(peer(scan, device))
        except Exception as trouble:
            failed[name] = _why(trouble, name)
            print(f"{name} fails at H {scan.size}: {failed[name]}")
    return peers, failed


def main() -> None:
    """Run what was asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--sizes", type=int, nargs="+", default=[*SCANS], choices=SCANS)
    parser.add_argument(
        "--batches", type=int, nargs="+", help=f"{CPU_BATCHES}, on CUDA {CUDA_BATCHES}"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each cell, about")
    parser.add_argument("--peers", nargs="+", default=[*PEERS][:4], choices=PEERS)
    parser.add_argument("--engine", choices=("auto", "matrix", "on_the_fly"), default="auto")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--check", action="store_true", help="compare sinograms instead")
    parser.add_argument("--save", type=Path, help="with --check: keep ASTRA's sinograms (.npz)")
    parser.add_argument("--quality", action="store_true", help="compare reconstructions instead")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("--device cuda needs a CUDA device, and PyTorch sees no such device here")
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")  # peers warn of their own defaults and of beta features
    names = [*options.peers, *([CuSparse.name] if options.device == "cuda" else [])]
    where = torch.cuda.get_device_name() if options.device == "cuda" else platform.machine()
    load = os.getloadavg()[0]
    print(
        f"{where}, {options.threads} threads, PyTorch {torch.__version__}; load {load:.1f} before"
    )
    found, missing = find(names, options.device)
    if options.check:
        check(found, options.save)
        return
    if options.quality:
        quality(found)
        return
    Korisk.engine = options.engine
    bandwidth = copy_bandwidth() if options.device == "cuda" else None
    if bandwidth:
        print(f"a copy of {COPIED / 2**30:.0f} GiB moves {bandwidth / 1e9:,.0f} GB/s")
    batches = options.batches or (CUDA_BATCHES if options.device == "cuda" else CPU_BATCHES)
    cells: list[Cell] = []
    for size in options.sizes:
        peers, failed = build(SCANS[size], found, options.device)
        missing |= {f"{name} at H {size}": reason for name, reason in failed.items()}
        for batch in batches:
            cells += measure(SCANS[size], peers, batch, options.device, options.seconds)
            record = {
                "where": where,
                "load_before": load,
                "missing": missing,
                "threads": options.threads,
                "seconds": options.seconds,
                "torch": torch.__version__,
                "copy_bytes_per_second": bandwidth,
                "cells": [asdict(cell) for cell in cells],
            }
            if options.json:  # at once, so that a run which is cut short is not lost
                options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(record)))
    for cell in cells:
        if cell.reason:
            print(f"H {cell.size}, batch {cell.batch}, {cell.entry}: {cell.who} - {cell.reason}")


if __name__ == "__main__":
    main()
