"""Projectors against other libraries, closed forms and each other."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators import FanBeam, Geometry, ParallelBeam, PixelBackprojector, Projector
from korisk.operators.ct import engines
from korisk.operators.ct.engines import FoldedMatrix, folds
from korisk.operators.ct.stencils import Joseph

Array = NDArray[np.float64]
DATA = Path(__file__).parents[1] / "data"

PARALLEL = ParallelBeam((14, 11), views=9, bins=21, pixel_spacing=0.7, detector_offset=0.4)
FAN = FanBeam(
    (12, 15), views=10, bins=27, bin_spacing=1.6, source_to_center=20, source_to_detector=31
)
SQUARE = ParallelBeam(9, views=6, bins=9)

EVERY = [
    pytest.param(lambda **to: Projector(PARALLEL, **to), id="joseph, parallel"),
    pytest.param(lambda **to: Projector(FAN, **to), id="joseph, fan"),
    pytest.param(lambda **to: Projector(SQUARE, kind="rotate", **to), id="rotate"),
    pytest.param(lambda **to: Projector(FAN, kind="sampled", **to), id="sampled"),
    pytest.param(lambda **to: PixelBackprojector(PARALLEL, **to), id="pixel, parallel"),
    pytest.param(lambda **to: PixelBackprojector(FAN, **to), id="pixel, fan"),
]


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def relative(found: Array, truth: Array) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def test_projections_are_those_of_astra() -> None:
    # Written by `python -m benchmarks.operators.compare --check --save FILE` with ASTRA 2.5.0's
    # "linear".
    kept = np.load(DATA / "astra_sinograms.npz")
    found = Projector(ParallelBeam(128, views=60, bins=128))(torch.from_numpy(kept["phantom"]))
    assert relative(found.numpy(), kept["parallel"]) < 1e-4
    # ASTRA has no interpolating fan projector on the CPU. Its "line_fanflat" takes pixels as
    # constant squares: both are right to the discretisation, here 2% on an image with sharp edges.
    distances: dict[str, Any] = {"source_to_center": 500, "source_to_detector": 1000}
    geometry = FanBeam(128, views=60, bins=192, bin_spacing=2.0, **distances)
    fan = Projector(geometry)(torch.from_numpy(kept["phantom"])).numpy()
    assert relative(fan, kept["fan"]) < 0.03
    assert fan.sum() == pytest.approx(kept["fan"].sum(), rel=2e-3)


@pytest.mark.parametrize("side", [8, 16, 32])
def test_rotating_projections_are_those_of_ndimage(side: int) -> None:
    views = side + side // 4
    image = np.random.default_rng(side).uniform(size=(side, side))
    degrees = np.arange(views) * 180 / views
    truth = [
        scipy.ndimage.rotate(
            image, angle, reshape=False, order=1, mode="constant", cval=0, prefilter=False
        ).sum(axis=0)
        for angle in degrees
    ]
    geometry = ParallelBeam(side, views=views, bins=side)
    found = Projector(geometry, kind="rotate", dtype=torch.float64)(torch.from_numpy(image))
    np.testing.assert_allclose(found.numpy(), np.stack(truth), atol=4e-13)


def test_sampled_projections_are_those_of_grid_sample() -> None:
    samples = 40
    image = random(*FAN.image_shape)
    found = Projector(FAN, kind="sampled", samples=samples, dtype=torch.float64)(image)
    source, direction = FAN.rays()
    length = np.hypot(FAN.source_to_detector, FAN.offsets)
    way = np.linspace(0, 1, samples)[:, None]
    points = source[..., None, :] + way * (direction * length[None, :, None])[..., None, :]
    rows, columns = FAN.image_shape
    half = np.array([columns - 1, rows - 1]) / 2 * FAN.pixel_spacing
    grid = torch.from_numpy(points / half).reshape(1, -1, samples, 2)
    values = torch.nn.functional.grid_sample(
        image[None, None], grid, mode="bilinear", padding_mode="zeros", align_corners=True
    )
    truth = values.sum(-1).reshape(FAN.sinogram_shape) * torch.from_numpy(length) / samples
    torch.testing.assert_close(found, truth, rtol=1e-12, atol=1e-12)


def smooth_disc(geometry: Geometry, radius: float) -> Tensor:
    """A disc whose edge pixels hold the part of them that it covers."""
    fine = 8
    side, spacing = geometry.image_shape[0], geometry.pixel_spacing
    line = ((np.arange(side * fine) + 0.5) / fine - side / 2) * spacing
    inside = np.hypot(line[:, None], line[None, :]) <= radius
    return torch.from_numpy(inside.reshape(side, fine, side, fine).mean(axis=(1, 3)))


def disc_error(geometry: Geometry, radius: float) -> float:
    found = Projector(geometry, dtype=torch.float64)(smooth_disc(geometry, radius)).numpy()
    point, direction = geometry.rays()
    distance = np.abs(point[..., 0] * direction[..., 1] - point[..., 1] * direction[..., 0])
    chords = 2 * np.sqrt(np.clip(radius**2 - distance**2, 0, None))
    # The mean distance: chords end like a square root, which the root of squares would dwell on.
    return float(np.abs(found - chords).mean() / chords.mean())


@pytest.mark.parametrize("beam", ["parallel", "fan"])
def test_projections_of_a_disc_converge_to_its_chords(beam: str) -> None:
    errors = []
    for side in (32, 64, 128):
        spacing = 64 / side
        scan: dict[str, Any] = {"views": 12, "bins": side, "pixel_spacing": spacing}
        if beam == "parallel":
            geometry: Geometry = ParallelBeam(side, bin_spacing=spacing, **scan)
        else:
            scan |= {"source_to_center": 100, "source_to_detector": 200}
            geometry = FanBeam(side, bin_spacing=3 * spacing, **scan)
        errors.append(disc_error(geometry, radius=20.0))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert errors[-1] < 0.01
    assert orders.mean() > 1.0


def test_every_view_of_a_parallel_scan_holds_the_whole_mass() -> None:
    geometry = ParallelBeam(24, views=7, bins=60, pixel_spacing=0.5, bin_spacing=0.25)
    image = smooth_disc(geometry, radius=5.0)
    views = Projector(geometry, dtype=torch.float64)(image).sum(-1) * geometry.bin_spacing
    mass = image.sum() * geometry.pixel_spacing**2
    np.testing.assert_allclose(views.numpy(), float(mass), rtol=5e-3)


@pytest.mark.parametrize("make", EVERY)
def test_what_is_made_on_the_fly_in_parts_or_not_is_what_the_matrix_gives(
    make: type[Projector], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = make(engine="matrix", dtype=torch.float64)  # type: ignore[call-arg]
    dense = stored.sparse_matrix().toarray()
    np.testing.assert_allclose(dense, stored.as_matrix().numpy(), atol=1e-13)
    assert (dense >= 0).all()
    fly = make(engine="on_the_fly", dtype=torch.float64)  # type: ignore[call-arg]
    x, y = random(3, *stored.domain), random(3, *stored.range)
    for _ in range(2):
        torch.testing.assert_close(fly(x), stored(x), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(fly.adjoint(y), stored.adjoint(y), rtol=1e-12, atol=1e-12)
        most = fly.stencil.taps_per_view // 3  # as if a view was too large for memory
        monkeypatch.setattr(engines, "_CHUNK", most)
    chunks = engines.OnTheFly(fly.stencil, fly.device, fly.dtype).chunks()
    assert max(taps.weight.numel() for *_, taps in chunks) <= most


@pytest.mark.parametrize("batch", [1, 2, 4, 5, 31, 32, 33, 70])
def test_a_batch_of_any_size_is_its_images_one_by_one(batch: int) -> None:
    operator = Projector(FAN, dtype=torch.float64)
    x, y = random(batch, *operator.domain), random(batch, *operator.range)
    one_by_one = torch.stack([operator(image) for image in x])
    torch.testing.assert_close(operator(x), one_by_one, rtol=1e-13, atol=1e-13)
    one_by_one = torch.stack([operator.adjoint(sinogram) for sinogram in y])
    torch.testing.assert_close(operator.adjoint(y), one_by_one, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("views", [2, 4, 6, 8, 10, 60])
def test_a_scan_folded_in_four_is_the_whole_scan(views: int) -> None:
    stencil = Joseph(ParallelBeam(9, views=views, bins=13, bin_spacing=0.8))
    assert folds(stencil)
    whole = engines.CpuMatrix(stencil, torch.device("cpu"), torch.float64)
    folded = FoldedMatrix(stencil, torch.device("cpu"), torch.float64)
    x, y = random(5, 81), random(5, 13 * views)  # more than the whole scan would fold
    torch.testing.assert_close(folded.apply(x, True), whole.apply(x, True), rtol=1e-12, atol=1e-12)
    found, truth = folded.apply(y, False), whole.apply(y, False)
    torch.testing.assert_close(found, truth, rtol=1e-12, atol=1e-12)


def test_one_image_of_a_large_scan_builds_a_quarter_and_a_norm_is_found_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[tuple[int, ...]] = []
    build = engines.sparse_matrix

    def watched(*arguments: Any) -> Any:
        sizes.append((matrix := build(*arguments)).shape)
        return matrix

    monkeypatch.setattr(engines, "sparse_matrix", watched)
    monkeypatch.setattr(engines, "_SMALL", 0)
    scan = ParallelBeam(18, views=8, bins=18)
    operator, whole = Projector(scan), Projector(scan, engine="on_the_fly", dtype=torch.float64)
    x = torch.rand(6, 18, 18)
    first, bracket = operator(x[0]), operator.norm()
    assert set(sizes) == {(3 * 18, 18 * 18)}  # the views from 0 to 45 degrees, of eight
    torch.testing.assert_close(first, whole(x[0].double()).float(), rtol=1e-5, atol=1e-5)
    counted = len(sizes)
    assert operator.T.norm() == Projector(scan).norm() == bracket
    assert (2 * operator).norm().upper == pytest.approx(2 * bracket.upper)
    assert len(sizes) == counted
    singular = float(torch.linalg.matrix_norm(whole.as_matrix(), 2))
    assert bracket.lower <= singular <= bracket.upper
    torch.testing.assert_close(operator(x)[0], first, rtol=1e-5, atol=1e-5)
    assert sizes[counted:] == [(8 * 18, 18 * 18)]  # as a batch needs it


def test_only_even_scans_fold() -> None:
    uneven: list[dict[str, Any]] = [{"views": 7}, {"shape": (8, 9)}, {"detector_offset": 0.1}]
    uneven += [{"arc": 3.0}, {"start": 0.1}, {"angles": (0.0, 1.0), "views": None}]
    for other in uneven:
        scan: dict[str, Any] = {"shape": 9, "views": 8, "bins": 13, **other}
        assert not folds(Joseph(ParallelBeam(**scan)))


def test_operators_of_one_geometry_share_one_matrix_while_they_live() -> None:
    first, second = Projector(PARALLEL), Projector(PARALLEL)
    x = torch.rand(PARALLEL.image_shape)
    first(x), second(x)
    assert first._engine() is second._engine()
    assert first.to(torch.float64)._engine() is not second._engine()


def test_any_number_of_threads_gives_the_same() -> None:
    operator, x = Projector(FAN), torch.rand(40, *FAN.image_shape)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = operator(x)
        torch.set_num_threads(3)
        assert torch.equal(operator(x), alone)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_a_forked_process_projects_too() -> None:
    # A loader's workers are forked from a process whose threads have projected already.
    code = """
import multiprocessing, torch
from korisk.operators import ParallelBeam, Projector
from korisk.operators.ct import engines
engines._SMALL = 0
torch.set_num_threads(2)
operator, x = Projector(ParallelBeam(16, views=8, bins=16)), torch.rand(8, 16, 16)
before = torch.stack([operator(image) for image in x[:, None]])[:, 0]  # folded, not yet whole
def child(queue):
    torch.set_num_threads(2)
    queue.put(bool(torch.allclose(operator(x), before, atol=1e-5)))
context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=child, args=(queue,))
process.start()
print(queue.get(timeout=120))
process.join(60)
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize("make", EVERY)
def test_inputs_alike_skip_the_checks_and_others_do_not(make: Any) -> None:
    # Kinds of inputs that were checked once are not checked again: modes, precisions and shapes
    # that come later must still be noticed.
    operator = make(dtype=torch.float64)
    x, y = random(2, *operator.domain), random(2, *operator.range)
    images, spread = operator(x), operator.adjoint(y)
    assert torch.equal(operator(x), images)
    assert torch.equal(operator.T(y), spread)
    given = x.clone().requires_grad_()
    (operator(given) * y).sum().backward()
    assert given.grad is not None
    torch.testing.assert_close(given.grad, spread)
    torch.testing.assert_close(torch.func.vmap(operator)(x[None])[0], images)
    low = x.bfloat16()
    with torch.autocast("cpu"):
        assert operator(low).dtype == torch.bfloat16
        assert operator(x).dtype == torch.float64
    assert operator(x[:0]).shape == (0, *operator.range)
    torch.testing.assert_close(operator(x.mT.contiguous().mT), images)
    for wrong in (x.float(), x[..., 1:], x.to_sparse(), x.to("meta")):
        for _ in range(2):
            with pytest.raises(KoriskError, match="must"):
                operator(wrong)
    operator.float()
    assert operator(x.float()).dtype == torch.float32
    with pytest.raises(KoriskError, match="float32"):
        operator(x)


def test_a_matrix_that_does_not_fit_is_refused_with_its_size_and_the_alternative() -> None:
    large = ParallelBeam(4096, views=2000, bins=4096)
    with pytest.raises(KoriskError, match=r"GiB with its transpose.*engine='on_the_fly'"):
        Projector(large, engine="matrix")
    with pytest.raises(KoriskError, match="engine='on_the_fly'"):
        Projector(large).sparse_matrix()
    cpu = torch.device("cpu")
    assert not engines.worth_storing(Joseph(large), cpu, torch.float32)
    assert engines.worth_storing(Joseph(PARALLEL), cpu, torch.float32)
    stencil = Joseph(ParallelBeam(64, views=30, bins=64))
    truth = engines.sparse_matrix(stencil, torch.float32).nnz
    assert engines.entry_count(stencil) == pytest.approx(truth, rel=0.1)
