"""Cone beams: order of convergence, FDK of the Shepp-Logan head, and time, beside RTK.

    python -m benchmarks.operators.cone [--quick] [--device cuda]

RTK (`pip install itk-rtk`) has the only cone beam projector on a CPU that installs from a registry:
ASTRA's and TIGRE's are for CUDA alone, and LEAP has to be built. On CUDA, where RTK's package has
none, the peers are PyTorch's own `grid_sample` along the rays and, for a smaller volume, cuSPARSE.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.operators.shepp_logan import ELLIPSES
from korisk.errors import KoriskWarning
from korisk.operators import ConeBeam, PixelBackprojector, Projector, fbp

Array = NDArray[np.float64]
# The head in three dimensions: amplitude, semi-axes and centre along x, y and z, angle about z.
HEIGHTS = (
    *((0.81, 0.0), (0.78, 0.0), (0.22, 0.0), (0.28, 0.0), (0.41, -0.15), (0.05, 0.25)),
    *((0.05, 0.25), (0.05, 0.0), (0.02, 0.0), (0.02, 0.0)),
)
HEAD = np.array(
    [
        [amplitude, a, b, c, x, y, z, degrees]
        for (amplitude, a, b, x, y, degrees), (c, z) in zip(ELLIPSES, HEIGHTS, strict=True)
    ]
)
FINE = 2  # points a voxel along each axis, over which its value is averaged
SIDES = (16, 32, 64, 128)
RUNS = 3


def quadric(point: Array, row: Array) -> Array:
    """Points relative to an ellipsoid that is the unit ball then, (..., 3)."""
    turn = math.radians(row[7])
    x, y, z = np.moveaxis(point - row[4:7], -1, 0)
    c, s = math.cos(turn), math.sin(turn)
    return np.stack([c * x + s * y, c * y - s * x, z], axis=-1) / row[1:4]


def volume(scan: ConeBeam, table: Array, power: int = 0) -> Array:
    """Voxels of ellipsoids on a cube that covers [-1, 1]: amplitude times (1 - q)^power inside."""
    side = scan.image_shape[0]
    fine = FINE if power == 0 else 1  # a smooth one is sampled
    line = ((np.arange(side * fine) + 0.5) / fine - side / 2) / (side / 2)
    result = np.zeros((side, side, side))
    for number in range(side):
        part = line[number * fine : (number + 1) * fine]
        z, y, x = np.meshgrid(part, line, line, indexing="ij")
        points = np.stack([x, y, z], axis=-1)
        for row in table:
            depth = 1 - (quadric(points, row) ** 2).sum(-1)
            value = row[0] * np.where(depth > 0, np.clip(depth, 0, None) ** power, 0.0)
            result[number] += value.reshape(fine, side, fine, side, fine).mean((0, 2, 4))
    return result


def projections(scan: ConeBeam, table: Array, power: int = 0) -> Array:
    """Their line integrals in closed form."""
    half = scan.image_size[0] / 2
    factor = math.sqrt(math.pi) * math.gamma(power + 1) / math.gamma(power + 1.5)
    result = np.zeros(scan.sinogram_shape)
    for view in range(scan.views):
        source, direction = (part[0] for part in scan.rays(slice(view, view + 1)))
        for row in table:
            begin = quadric(source / half, row)
            way = quadric(direction / half, np.concatenate([row[:4], np.zeros(3), row[7:]]))
            square = (way**2).sum(-1)
            deep = 1 - (begin**2).sum(-1) + (begin * way).sum(-1) ** 2 / square
            inside = np.clip(deep, 0, None) ** (power + 0.5)
            result[view] += row[0] * factor * inside / np.sqrt(square)
    return result


def orders(quick: bool) -> None:
    """Print the errors of projections of one ellipsoid, on finer and finer grids."""
    row = np.array([[1.0, 0.85, 0.7, 0.75, 0.06, -0.09, 0.03, 20.0]])
    print("mean error of projections over all rays, relative, and its order; 6 views of 64 mm")
    for power, name in ((2, "(1 - q)^2, smooth"), (0, "constant")):
        before = None
        for side in SIDES[: 3 if quick else 4]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", KoriskWarning)
                scan = ConeBeam(side, views=6, bins=side, pixel_spacing=64 / side)
            truth = projections(scan, row, power)
            image = torch.from_numpy(volume(scan, row, power))
            found = Projector(scan, engine="on_the_fly", dtype=torch.float64)(image).numpy()
            error = float(np.abs(found - truth).mean() / truth.mean())
            order = "" if before is None else f"{math.log2(before / error):.2f}"
            print(f"  {name:20s} {side:4d}^3  {error:.2e}  {order}")
            before = error


class Rtk:
    """RTK in its own axes: its axis of rotation is y, and its x runs against ours."""

    def __init__(self, scan: ConeBeam, threads: int) -> None:
        itk: Any = import_module("itk")
        self.itk, self.rtk, self.scan = itk, itk.RTK, scan
        itk.MultiThreaderBase.SetGlobalMaximumNumberOfThreads(threads)
        itk.MultiThreaderBase.SetGlobalDefaultNumberOfThreads(threads)
        self.kind = itk.Image[itk.F, 3]
        self.geometry = self.rtk.ThreeDCircularProjectionGeometry.New()
        for angle in np.degrees(scan.angle_array):
            distances = scan.source_to_center, scan.source_to_detector
            self.geometry.AddProjection(*distances, float(angle))

    def image(self, array: Any, spacing: tuple[float, float, float]) -> Any:
        """An image centred on the origin; spacings along x, y and z."""
        image = self.itk.image_from_array(np.ascontiguousarray(array, dtype=np.float32))
        image.SetSpacing(spacing)
        sizes = array.shape[::-1]
        pairs = zip(sizes, spacing, strict=True)
        image.SetOrigin([-(size - 1) / 2 * step for size, step in pairs])
        return image

    def volume(self, array: Array) -> Any:
        """Ours, (slices, rows, columns), as (rows, slices, columns reversed)."""
        scan = self.scan
        spacing = scan.pixel_spacing, scan.slice_spacing, scan.pixel_spacing
        return self.image(array.transpose(1, 0, 2)[:, :, ::-1], spacing)

    def pictures(self, array: Array) -> Any:
        """Ours, (views, rows, columns), with columns reversed."""
        spacing = self.scan.bin_spacing, self.scan.row_spacing, 1.0
        image = self.image(array[:, :, ::-1], spacing)
        origin = list(image.GetOrigin())
        image.SetOrigin([*origin[:2], 0.0])
        return image

    def run(self, name: str, output: Any, given: Any) -> tuple[Array, float]:
        """What a filter gives, and its seconds."""
        cls = getattr(self.rtk, name)
        fdk = name.startswith("FDKCone")
        work = cls[self.kind].New() if fdk else cls[self.kind, self.kind].New()
        work.SetInput(0, output)
        work.SetInput(1, given)
        work.SetGeometry(self.geometry)
        start = time.perf_counter()
        work.Update()
        seconds = time.perf_counter() - start
        return self.itk.array_from_image(work.GetOutput()), seconds

    def project(self, array: Array) -> tuple[Array, float]:
        """Joseph's projections."""
        blank = self.pictures(np.zeros(self.scan.sinogram_shape))
        name = "JosephForwardProjectionImageFilter"
        found, seconds = self.run(name, blank, self.volume(array))
        return found[:, :, ::-1], seconds

    def backproject(self, array: Array) -> tuple[Array, float]:
        """Their adjoint."""
        blank = self.volume(np.zeros(self.scan.image_shape))
        found, seconds = self.run("JosephBackProjectionImageFilter", blank, self.pictures(array))
        return found[:, :, ::-1].transpose(1, 0, 2), seconds

    def fdk(self, array: Array) -> tuple[Array, float]:
        """FDK with the ramp."""
        blank = self.volume(np.zeros(self.scan.image_shape))
        found, seconds = self.run("FDKConeBeamReconstructionFilter", blank, self.pictures(array))
        return found[:, :, ::-1].transpose(1, 0, 2), seconds


def head(rtk: bool, quick: bool, threads: int) -> None:
    """Print the error of FDK from the head's exact projections."""
    side = 64 if quick else 128
    scan = ConeBeam(side, views=180)
    truth, measured = volume(scan, HEAD), projections(scan, HEAD)
    line = np.arange(side) - (side - 1) / 2
    inside = np.hypot(line[:, None], line[None, :]) <= side / 2
    middle = slice(3 * side // 8, 5 * side // 8)
    print(f"FDK of the Shepp-Logan head, {side}^3, 180 views: relative error")

    def say(name: str, found: Array) -> None:
        parts = []
        for where, words in ((middle, "middle quarter of the slices"), (slice(None), "all")):
            off, whole = (found - truth)[where][:, inside], truth[where][:, inside]
            parts.append(f"{np.linalg.norm(off) / np.linalg.norm(whole):.4f} ({words})")
        print(f"  {name:8s} {', '.join(parts)}")

    say("korisk", fbp(scan)(torch.from_numpy(measured).float()).double().numpy())
    if rtk:
        say("RTK", Rtk(scan, threads).fdk(measured)[0])


def best(work: Callable[[], object], device: str) -> float:
    """Least seconds of some runs."""
    seconds = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def speed(rtk: bool, quick: bool, device: str, threads: int) -> None:
    """Print seconds of one product, beside the peers'."""
    side, views = (64, 60) if quick else (128, 180)
    scan = ConeBeam(side, views=views)
    place = torch.device(device)
    A, B = (
        kind(scan, device=place, engine="on_the_fly") for kind in (Projector, PixelBackprojector)
    )
    network = fbp(scan, device=place)
    x, y = torch.rand(A.domain, device=place), torch.rand(A.range, device=place)
    works: dict[str, Callable[[], Tensor]] = {
        "forward": lambda: A(x),
        "adjoint": lambda: A.adjoint(y),
        "voxel-driven": lambda: B(y),
        "FDK": lambda: network(y),
    }
    ours = {name: best(work, device) for name, work in works.items()}
    shape = " x ".join(map(str, scan.sinogram_shape))
    print(f"{side}^3 voxels, {shape} bins, float32: seconds, least of {RUNS}")
    theirs: dict[str, float] = {}
    if device == "cuda":
        theirs["forward"] = best(lambda: _grid_sampled(scan, x), device)
        peer = "grid_sample"
    elif rtk:
        peer, other = "RTK", Rtk(scan, threads)
        image, pictures = x.double().numpy(), y.double().numpy()
        pairs = ("forward", other.project, image), ("adjoint", other.backproject, pictures)
        for name, work, given in (*pairs, ("FDK", other.fdk, pictures)):
            theirs[name] = min(work(given)[1] for _ in range(RUNS))
        smooth = volume(scan, HEAD, power=2)
        again = other.project(smooth)[0]
        off = np.linalg.norm(again - A(torch.from_numpy(smooth).float()).numpy())
        print(
            f"  projections of a smooth head differ from RTK's by {off / np.linalg.norm(again):.1e}"
        )
    for name, seconds in ours.items():
        ratio = (
            f"  {peer} {theirs[name]:.4f}: {theirs[name] / seconds:.2f} times as long"
            if name in theirs
            else ""
        )
        print(f"  {name:14s}{seconds:.4f}{ratio}")
    moved = 4 * (x.numel() + y.numel())
    print(f"  image and pictures are {moved / 2**20:.0f} MiB")


def large() -> None:
    """Print what 256^3 voxels and 360 views take on a card, and a smaller scan beside cuSPARSE."""
    torch.cuda.reset_peak_memory_stats()
    scan = ConeBeam(256, views=360)
    A = Projector(scan, device="cuda")
    x, y = (torch.rand(shape, device="cuda") for shape in (A.domain, A.range))
    there, back = best(lambda: A(x), "cuda"), best(lambda: A.adjoint(y), "cuda")
    used, moved = torch.cuda.max_memory_allocated() / 2**30, 4 * (x.numel() + y.numel())
    copied = torch.empty(2**28, device="cuda")
    bandwidth = 2 * 2**30 / best(lambda: copied.clone(), "cuda")
    print("256^3 voxels, 360 views:")
    print(f"  forward {there:.4f} s, adjoint {back:.4f} s, {used:.1f} GiB at most")
    least = moved / bandwidth
    print(
        f"  to move volume and pictures once takes {1e6 * least:.0f} us: {least / there:.2%} of it"
    )
    small = ConeBeam(64, views=48)
    A, M = (Projector(small, device="cuda", engine=name) for name in ("auto", "matrix"))
    x, y = (torch.rand(shape, device="cuda") for shape in (A.domain, A.range))
    ours = best(lambda: A(x), "cuda"), best(lambda: A.adjoint(y), "cuda")
    theirs = best(lambda: M(x), "cuda"), best(lambda: M.adjoint(y), "cuda")
    pairs = zip(("forward", "adjoint"), ours, theirs, strict=True)
    words = [
        f"{name} {1e3 * a:.3f} ms, cuSPARSE {1e3 * b:.3f}: {b / a:.2f}" for name, a, b in pairs
    ]
    print(f"64^3 voxels, 48 views: {'; '.join(words)} times as long")


def _grid_sampled(scan: ConeBeam, x: Tensor) -> Tensor:
    """Points a voxel apart along each ray, by PyTorch alone, view by view."""
    side, result = scan.image_shape[0], []
    reach = math.ceil(side * 0.9)
    steps = torch.arange(-reach, reach + 1, device=x.device) * scan.pixel_spacing
    for view in range(scan.views):
        point, direction = (
            torch.from_numpy(part[0]).to(x.device, x.dtype)
            for part in scan.rays(slice(view, view + 1))
        )
        way = (scan.source_to_center + steps)[:, None]
        places = (point[..., None, :] + direction[..., None, :] * way) / (side / 2)
        seen = torch.nn.functional.grid_sample(x[None, None], places[None], align_corners=False)
        result.append(seen.sum(-1))
    return torch.cat(result)


def main() -> None:
    """Run all parts and print them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="smaller volumes")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cuda = options.device == "cuda"
    where = (
        torch.cuda.get_device_name() if cuda else f"{platform.machine()}, {options.threads} threads"
    )
    print(f"{where}, PyTorch {torch.__version__}; load {os.getloadavg()[0]:.1f} before")
    try:
        import_module("itk").RTK  # noqa: B018
        rtk = True
    except Exception as trouble:
        rtk = False
        if not cuda:
            print(f"RTK is missing: {trouble}")
    if not cuda:
        orders(options.quick)
        head(rtk, options.quick, options.threads)
    speed(rtk, options.quick, options.device, options.threads)
    if cuda:
        large()


if __name__ == "__main__":
    main()
