"""Cone beams: rays, weights, closed forms and FDK, against NumPy and each other."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk.errors import KoriskError, KoriskWarning
from korisk.operators import ConeBeam, FanBeam, PixelBackprojector, Projector, Tikhonov, fbp
from korisk.operators.ct import cone_engine, engines
from korisk.operators.ct.cone_stencils import ConeJoseph, ConePixelDriven

Array = NDArray[np.float64]

CIRCLE = ConeBeam((5, 6, 6), views=8, bins=(8, 9), row_offset=0.4)
UNEVEN = ConeBeam((5, 6, 7), views=5, bins=(8, 9), detector_offset=-0.3, slice_spacing=1.3)
CURVED = ConeBeam((4, 6, 6), views=8, curved=True, detector_offset=0.7, start=0.3)
HELIX = ConeBeam((8, 6, 6), pitch=5.0, bins=(6, 9))
SCANS = {"circle": CIRCLE, "uneven": UNEVEN, "curved": CURVED, "helix": HELIX}


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def relative(found: Tensor, truth: Tensor) -> float:
    return float((found - truth).norm() / truth.norm())


def test_a_scan_follows_from_the_size_alone_and_sees_the_whole_cylinder() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", KoriskWarning)
        for side in (2, 7, 64):
            scan = ConeBeam(side)
            assert scan.image_shape == (side, side, side)
            assert scan.views % 4 == 0
            assert scan.fan.magnification == pytest.approx(1.5)
            assert max(scan.truncation, scan.fan.truncation) == 0
    again: Any = eval(repr(ConeBeam((8, 6, 6), pitch=5.0)))
    assert again == ConeBeam((8, 6, 6), pitch=5.0)
    assert hash(again) == hash(ConeBeam((8, 6, 6), pitch=5.0))
    # Four times the spacing is the same scan of a larger object.
    large = ConeBeam(8, pixel_spacing=4.0)
    np.testing.assert_allclose(large.rays()[1], ConeBeam(8).rays()[1])


def test_axes_are_where_the_documentation_has_them() -> None:
    # A voxel at a high x, y or z is seen by a view that looks along another axis.
    scan = ConeBeam(9, angles=(0.0, math.pi / 2), bins=15)
    project = Projector(scan, dtype=torch.float64)
    for axis, (view, row, column) in {0: (0, 1, 0), 2: (0, 0, 1), 1: (1, 0, 1)}.items():
        volume = torch.zeros(9, 9, 9, dtype=torch.float64)
        place = [4, 4, 4]
        place[axis] = 7  # slice, row or column
        volume[tuple(place)] = 1
        picture = project(volume)[view]
        brightest = divmod(int(picture.argmax()), 15)
        assert [int(np.sign(at - 7)) for at in brightest] == [row, column]
    point, direction = scan.rays()
    assert point[0, 0, 0].tolist() == [0.0, 27.0, 0.0]  # source on +y, looking along -y
    assert direction[0, 7, 7].round(12).tolist() == [0.0, -1.0, 0.0]
    assert direction[0, 14, 7, 2] > 0  # rows go up with z
    assert direction[0, 7, 14, 0] > 0  # columns with x


def test_a_helix_climbs_by_its_pitch_and_is_otherwise_a_circle() -> None:
    turn = ConeBeam(6, views=12, arc=2 * math.pi)
    climbing = ConeBeam(6, views=24, arc=4 * math.pi, pitch=3.0, bins=turn.bins)
    heights = climbing.source_heights
    np.testing.assert_allclose(heights[12:] - heights[:12], 3.0)
    assert heights.mean() == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(climbing.rays()[1][:12], turn.rays()[1], atol=1e-12)


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("kind", [Projector, PixelBackprojector])
def test_factors_give_what_the_matrix_gives(name: str, kind: Any) -> None:
    scan = SCANS[name]
    stored = kind(scan, engine="matrix", dtype=torch.float64)
    operator = kind(scan, engine="on_the_fly", dtype=torch.float64)
    x, y = random(3, *operator.domain), random(3, *operator.range)
    assert isinstance(operator._engine(), cone_engine.Factored)
    assert isinstance(stored._engine(), engines.CpuMatrix)
    assert relative(operator(x), stored(x)) < 1e-14
    assert relative(operator.T(y), stored.T(y)) < 1e-14
    dense = stored.sparse_matrix().toarray()
    assert (dense >= 0).all()
    truth = float(np.linalg.norm(dense, 2))
    bracket = operator.norm()
    assert bracket.lower <= truth <= bracket.upper <= 1.01 * bracket.lower
    single = kind(scan, engine="on_the_fly", dtype=torch.float32)
    assert relative(single(x.float()).double(), stored(x)) < 1e-6


def test_pieces_threads_and_copies_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = random(5, *CIRCLE.image_shape), random(5, *CIRCLE.sinogram_shape)
    engine = cone_engine.Factored(ConeJoseph(CIRCLE), torch.device("cpu"), torch.float64)
    flat = x.flatten(1), y.flatten(1)
    before = engine.apply(flat[0], True), engine.apply(flat[1], False)
    monkeypatch.setattr(cone_engine, "_CHUNK", 7)
    monkeypatch.setattr(cone_engine, "_POINTS", 100)
    monkeypatch.setattr(cone_engine, "_COPIES", 1)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert relative(engine.apply(flat[0], True), before[0]) < 1e-14
        assert relative(engine.apply(flat[1], False), before[1]) < 1e-14
    finally:
        torch.set_num_threads(threads)


def test_only_whole_turns_of_equal_quarters_are_folded() -> None:
    assert ConeJoseph(CIRCLE).quarters == ConePixelDriven(CURVED).quarters == 4
    others: list[dict[str, Any]] = [{"views": 10}, {"shape": (5, 6, 7)}, {"arc": 4.0}, {"pitch": 1}]
    for other in others:
        assert ConeJoseph(ConeBeam(**{"shape": 6, "views": 8, **other})).quarters == 1


def test_the_central_row_is_the_fan_beam() -> None:
    for curved in (False, True):
        distances: dict[str, Any] = {"source_to_center": 30.0, "source_to_detector": 45.0}
        scan: dict[str, Any] = {"views": 6, "bin_spacing": 1.6, "curved": curved, **distances}
        cone, fan = ConeBeam((3, 8, 9), bins=(3, 14), **scan), FanBeam((8, 9), bins=14, **scan)
        image = random(8, 9)
        middle = Projector(cone, dtype=torch.float64)(image.expand(3, 8, 9))[:, 1]
        expected = Projector(fan, dtype=torch.float64)(image)
        torch.testing.assert_close(middle, expected, rtol=1e-12, atol=1e-12)


def ellipsoid(scan: ConeBeam, centre: Array, axes: Array) -> tuple[Tensor, Array]:
    """A smooth ellipsoid (1 - q)^2 with q < 1 inside, and its line integrals in closed form."""
    sizes = scan.slice_spacing, scan.pixel_spacing, scan.pixel_spacing
    sides = zip(scan.image_shape, sizes, strict=True)
    lines = [(np.arange(count) - (count - 1) / 2) * step for count, step in sides]
    z, y, x = np.meshgrid(*lines, indexing="ij")
    parts = zip((x, y, z), centre, axes, strict=True)
    q = sum(((part - middle) / axis) ** 2 for part, middle, axis in parts)
    point, direction = scan.rays()
    # On a ray q = a (t - t0)^2 + low, so that the integral of (1 - q)^2 is 16/15 s^(5/2) / sqrt(a)
    # with s = 1 - low where that is positive.
    p, d = (point - centre) / axes, direction / axes
    a = (d**2).sum(-1)
    low = (p**2).sum(-1) - (p * d).sum(-1) ** 2 / a
    integrals = 16 / 15 * np.clip(1 - low, 0, None) ** 2.5 / np.sqrt(a)
    return torch.from_numpy(np.clip(1 - np.asarray(q), 0, None) ** 2), integrals


@pytest.mark.parametrize("other", [{}, {"curved": True}, {"pitch": 30.0, "arc": 12.0}], ids=str)
def test_projections_of_an_ellipsoid_converge_with_order_two(other: dict[str, Any]) -> None:
    errors = []
    for side in (32, 64):
        step = 32 / side
        near: dict[str, Any] = {"views": 6, "bins": (side, side), "source_to_center": 90.0}
        near |= {"pixel_spacing": step, **other}
        with warnings.catch_warnings():  # the detector need not see all of it
            warnings.simplefilter("ignore", KoriskWarning)
            scan = ConeBeam(side, **near)
        place = np.array([1.0, -1.5, 0.5]), np.array([14.0, 11.0, 12.0])
        volume, truth = ellipsoid(scan, *place)
        found = Projector(scan, dtype=torch.float64, engine="on_the_fly")(volume).numpy()
        errors.append(float(np.abs(found - truth).mean() / np.abs(truth).mean()))  # over all rays
    assert errors[-1] < 0.01
    assert math.log2(errors[0] / errors[1]) > 1.8


@pytest.mark.parametrize("curved", [False, True], ids=["flat", "curved"])
@pytest.mark.parametrize("arc", [2 * math.pi, 3.9], ids=["full", "short"])
def test_fdk_recovers_a_ball_near_the_source_plane(curved: bool, arc: float) -> None:
    scan = ConeBeam((8, 24, 24), views=64, arc=arc, curved=curved)
    volume, projections = ellipsoid(scan, np.array([2.0, -1.0, 0.0]), np.full(3, 8.0))
    network = fbp(scan, dtype=torch.float64)
    assert [layer.name for layer in network.operators] == ["W", "K", "A^T"]
    found = network(torch.from_numpy(projections))
    assert relative(found[3:5], volume[3:5]) < 0.06
    assert float(found[3:5].sum()) == pytest.approx(float(volume[3:5].sum()), rel=0.02)


def test_a_shifted_detector_and_a_helix_reconstruct_by_iteration() -> None:
    volume = random(*HELIX.image_shape)
    for scan in (HELIX, ConeBeam((8, 6, 6), row_offset=0.7, detector_offset=0.4, bins=(14, 12))):
        A = Projector(scan, dtype=torch.float64)
        found = Tikhonov(A, mu=1e-3)(A(volume))
        assert relative(A(found), A(volume)) < 1e-3


def test_large_scans_need_no_matrix() -> None:
    # 256^3 voxels and 360 views would have some 3e10 entries; the tables of a view stay small.
    scan = ConeBeam(256, views=360)
    stencil = ConeJoseph(scan)
    assert isinstance(Projector(ConeBeam(8))._engine(), engines.CpuMatrix)
    table = cone_engine.factor_table(stencil, 7, np.dtype(np.float32))
    assert sum(part.nbytes for part in table) * scan.views / stencil.quarters < 2**29
    with pytest.raises(KoriskError, match=r"GiB with its transpose.*engine='on_the_fly'"):
        Projector(scan, engine="matrix")


def test_what_cannot_be_is_refused_in_one_line() -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("shape must be 3 whole numbers", {"shape": (4, 4)}),
        ("bins must be 2 whole numbers", {"bins": (4, 4, 4)}),
        ("source_to_center must keep the source outside", {"source_to_center": 1.0}),
        ("rays must rise by at most 45 degrees", {"bins": (400, 8)}),
        ("pitch must be a finite number", {"pitch": math.nan}),
        ("arc must be", {"arc": 7.0}),
        ("pass either angles", {"angles": (0.0, 1.0), "views": 3}),
    ]
    for words, other in wrong:
        with pytest.raises(KoriskError, match=words) as caught:
            ConeBeam(**{"shape": 8, **other})
        assert "\n" not in str(caught.value)
    with pytest.warns(KoriskWarning, match="too low"):
        ConeBeam(8, bins=(4, 12))
    with pytest.raises(KoriskError, match=r"FDK is for a circle.*Tikhonov"):
        fbp(HELIX)
    with pytest.raises(KoriskError, match="kind must be 'joseph'"):
        Projector(HELIX, kind="rotate")
