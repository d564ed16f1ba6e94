"""How good our filtered backprojections are, on sinograms in closed form.

python -m benchmarks.operators.fbp_quality [--sides 64,128,256] [--window ramp] [--quick]

Relative errors in the inscribed disc of objects whose line integrals are known (Gaussians,
ellipses, a disc), with Gaussian noise of 0, 2 and 10% of the sinogram's root mean square, over four
draws. Truths are the values at pixel centres for Gaussians and the means over pixels otherwise.
Each cell: the best of ours, and how many times that the others have; a cell in which the default
is more than 10% above the best is marked. The last object has the sinogram that `Projector` makes
of the ellipses' pixels, as studies do, instead of the one in closed form.
"""

import argparse
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.markdown import header, line
from korisk.operators import FanBeam, Geometry, ParallelBeam, Projector, fbp

Array = NDArray[np.float64]
NOISE, DRAWS, SUBPIXELS = (0.0, 0.02, 0.1), 4, 8
# Height, half axes (standard deviations of a Gaussian), centre, turn; the image spans [-1, 1].
Shape = tuple[float, float, float, float, float, float]
GAUSSIANS: list[Shape] = [
    (1.0, 0.14, 0.14, 0.1, -0.12, 0.0), (0.6, 0.08, 0.12, -0.3, 0.25, 0.5),
    (-0.4, 0.1, 0.07, 0.3, 0.3, 1.0),
]  # fmt: skip
ELLIPSES: list[Shape] = [
    (1.0, 0.69, 0.85, 0.0, 0.0, 0.0), (-0.7, 0.6, 0.75, 0.0, -0.02, 0.0),
    (0.4, 0.11, 0.31, 0.22, 0.0, -0.3), (0.3, 0.16, 0.41, -0.22, 0.0, 0.3),
    (0.5, 0.21, 0.2, 0.0, 0.35, 0.0), (0.3, 0.05, 0.05, 0.0, -0.3, 0.0),
]  # fmt: skip
DISC: list[Shape] = [(1.0, 0.5, 0.5, 0.1, -0.15, 0.0)]
OBJECTS = {"Gaussians": GAUSSIANS, "ellipses": ELLIPSES, "disc": DISC, "projected": ELLIPSES}


def scans(side: int, quick: bool) -> Iterator[tuple[str, Geometry]]:
    """The geometries of one image side, by what is said of them."""
    yield "parallel", ParallelBeam(side, views=8 * side // 5, bins=side)
    if quick:
        return
    yield "parallel, sparse", ParallelBeam(side, views=side // 2, bins=side)
    for spacing in (0.25, 0.5, 0.8, 0.9, 1.5, 2.0):
        bins = round(side / spacing)
        scan = ParallelBeam(side, views=8 * side // 5, bins=bins, bin_spacing=spacing)
        yield f"parallel, bins {spacing:g}", scan
    size = {"views": 2 * side, "bins": 7 * side // 6}
    distances = {"source_to_center": 2.0 * side, "source_to_detector": 3.0 * side}
    options: dict[str, Any] = {**size, **distances, "bin_spacing": 1.5}
    yield "fan", FanBeam(side, **options)


def placed(shape: Shape, half: float, points: Array) -> Array:
    """Points (..., 2) less the centre, turned and in units of the half axes; directions without."""
    _, a, b, _, _, turn = shape
    back = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    return np.asarray(points @ back.T / (half * np.array([a, b])))


def sinogram(geometry: Geometry, shapes: list[Shape], smooth: bool) -> Array:
    """The line integrals in closed form."""
    half = min(geometry.image_size) / 2
    point, direction = geometry.rays()
    total = np.zeros(geometry.sinogram_shape)
    for shape in shapes:
        away = placed(shape, half, point - half * np.array(shape[3:5]))
        along = placed(shape, half, direction)
        length = np.hypot(along[..., 0], along[..., 1])
        square = ((away[..., 0] * along[..., 1] - away[..., 1] * along[..., 0]) / length) ** 2
        chord = 2 * np.sqrt(np.clip(1 - square, 0, None))
        profile = math.sqrt(2 * math.pi) * np.exp(-square / 2) if smooth else chord
        total += shape[0] * profile / length
    return total


def image(geometry: Geometry, shapes: list[Shape], smooth: bool) -> Array:
    """Values at pixel centres, or means over pixels where the object is sharp."""
    half, across = min(geometry.image_size) / 2, 1 if smooth else SUBPIXELS
    shifts = geometry.pixel_spacing * ((np.arange(across) + 0.5) / across - 0.5)
    x, y = ((centres[:, None] + shifts).ravel() for centres in geometry.pixel_centres)
    points = np.stack(np.meshgrid(x, y), axis=-1)
    total = np.zeros(points.shape[:2])
    for shape in shapes:
        square = (placed(shape, half, points - half * np.array(shape[3:5])) ** 2).sum(-1)
        total += shape[0] * (np.exp(-square / 2) if smooth else square <= 1)
    rows, columns = geometry.image_shape
    return np.asarray(total.reshape(rows, across, columns, across).mean((1, 3)))


def errors(geometry: Geometry, name: str, window: str) -> Iterator[tuple[float, dict[str, float]]]:
    """For each noise, the error of each backprojection and of the default."""
    smooth, shapes = name == "Gaussians", OBJECTS[name]
    truth = image(geometry, shapes, smooth)
    y = torch.from_numpy(sinogram(geometry, shapes, smooth))
    if name == "projected":
        y = Projector(geometry, dtype=torch.float64)(torch.from_numpy(truth))
    x_centres, y_centres = geometry.pixel_centres
    inside = np.hypot(x_centres[None, :], y_centres[:, None]) < min(geometry.image_size) / 2
    kinds = ["pixel"] if isinstance(geometry, FanBeam) else ["adjoint", "pixel"]
    ours = {
        kind: fbp(geometry, window=window, backprojection=kind, dtype=torch.float64)  # type: ignore[arg-type]
        for kind in [*kinds, "auto"]
    }
    for noise in NOISE:
        draws = DRAWS if noise else 1
        generator = torch.Generator().manual_seed(0)
        added = torch.randn((draws, *y.shape), generator=generator, dtype=torch.float64)
        measured = y + noise * y.square().mean().sqrt() * added
        scale = math.sqrt(draws) * np.linalg.norm(truth[inside])
        yield (
            noise,
            {
                kind: float(np.linalg.norm((one(measured).numpy() - truth)[:, inside]) / scale)
                for kind, one in ours.items()
            },
        )


def main() -> None:
    """A line for each side, scan and object."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--sides", default="64,128,256", help="pixels along an edge")
    options.add_argument("--window", default="ramp", help="of the filter")
    options.add_argument("--quick", action="store_true", help="even parallel scans alone")
    given = options.parse_args()
    failed = cells = 0
    kinds = ("adjoint", "pixel", "auto")
    noises = [f"{noise:.0%}: best, {', '.join(kinds)}" for noise in NOISE]
    print(*header("H", "scan", "object", *noises), sep="\n")
    for side in map(int, given.sides.split(",")):
        for scan, geometry in scans(side, given.quick):
            for name in OBJECTS:
                shown = []
                for _, found in errors(geometry, name, given.window):
                    best = min(found.values())
                    times = [f"{found[k] / best:.2f}" if k in found else "-" for k in kinds]
                    above = found["auto"] > 1.1 * best
                    shown.append(f"{best:.5f}, {', '.join(times)}{' **' * above}")
                    cells, failed = cells + 1, failed + above
                print(line(str(side), scan, name, *shown), flush=True)
    print(f"{failed} of {cells} cells where the default is more than 10% above the best of ours")


if __name__ == "__main__":
    main()
