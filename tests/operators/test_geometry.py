"""Laws of the scanner geometries, and what is refused."""

import math
import pickle
import warnings
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from korisk.errors import KoriskWarning
from korisk.operators.ct.geometry import FanBeam, Geometry, ParallelBeam

FAN: dict[str, Any] = {"bins": 64, "source_to_center": 100.0, "source_to_detector": 150.0}
SQUARE = (32, 32)


def parallel(**options: Any) -> ParallelBeam:
    return ParallelBeam(SQUARE, **{"bins": 64, **options})


def fan(**options: Any) -> FanBeam:
    return FanBeam(SQUARE, **{**FAN, **options})


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    options: dict[str, Any] = {
        "bins": draw(st.integers(1, 40)), "pixel_spacing": draw(st.floats(0.1, 2)),
        "bin_spacing": draw(st.floats(0.1, 2)), "detector_offset": draw(st.floats(-5, 5)),
    }  # fmt: skip
    if draw(st.booleans()):
        angles = st.lists(st.floats(-7, 7), min_size=1, max_size=5)
        options["angles"] = tuple(draw(angles))
    else:
        options["views"] = draw(st.integers(1, 9))
        options["start"] = draw(st.floats(-7, 7))
        options["arc"] = draw(st.none() | st.floats(0.01, 6.28))
    shape = draw(st.tuples(st.integers(1, 20), st.integers(1, 20)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KoriskWarning)
        if draw(st.booleans()):
            return ParallelBeam(shape, **options)
        options["source_to_center"] = draw(st.floats(60, 1e4))
        options["source_to_detector"] = draw(st.floats(60, 2e4))
        return FanBeam(shape, **options)


@given(geometries())
@pytest.mark.filterwarnings("ignore::korisk.errors.KoriskWarning")
def test_a_geometry_is_a_value_that_its_repr_and_pickle_give_back(geometry: Geometry) -> None:
    for copy in (eval(repr(geometry)), pickle.loads(pickle.dumps(geometry))):
        assert type(copy) is type(geometry)
        assert (copy, hash(copy)) == (geometry, hash(geometry))
        np.testing.assert_array_equal(copy.angle_array, geometry.angle_array)


def test_geometries_are_equal_if_their_scans_are() -> None:
    geometry = fan(views=7)
    assert geometry.truncation == pickle.loads(pickle.dumps(geometry)).truncation
    assert geometry == fan(views=7)  # what was computed does not count
    assert parallel(views=7) != parallel(views=7, detector_offset=0.5)
    assert fan(views=7) != cast(object, parallel(views=7))
    assert len({parallel(views=7), parallel(views=7), parallel(views=8)}) == 2
    angles = (0.0, 0.5, 2.0)
    for passed in (list(angles), np.array(angles)):
        assert parallel(angles=passed) == parallel(angles=angles)
    assert parallel(angles=angles).sinogram_shape == (3, 64)
    assert ParallelBeam(32, views=3, bins=64) == parallel(views=3, arc=math.pi)
    assert repr(parallel(views=3)) == "ParallelBeam(32, bins=64, views=3)"
    assert "(8, 32)" in repr(ParallelBeam((8, 32), bins=64, views=3))


def test_views_pixels_and_bins_are_where_they_are_documented() -> None:
    np.testing.assert_allclose(np.degrees(parallel(views=4).angle_array), [0, 45, 90, 135])
    np.testing.assert_allclose(np.degrees(fan(views=4).angle_array), [0, 90, 180, 270])
    limited = parallel(views=3, start=math.radians(10), arc=math.radians(90))
    np.testing.assert_allclose(np.degrees(limited.angle_array), [10, 40, 70])
    geometry = ParallelBeam((2, 3), bins=7, views=1, pixel_spacing=2.0, detector_offset=0.25)
    x, y = geometry.pixel_centres
    np.testing.assert_allclose(x, [-2, 0, 2])
    np.testing.assert_allclose(y, [-1, 1])
    np.testing.assert_allclose(geometry.offsets, np.arange(-3, 4) + 0.25)
    assert geometry.image_size == (4.0, 6.0)
    for array in (geometry.angle_array, geometry.offsets, geometry.view_weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7.0


@pytest.mark.parametrize(
    ("geometry", "arc"),
    [
        (parallel(views=61, arc=2 * math.pi), math.pi),
        (parallel(views=60, arc=math.pi / 2, start=3.0), math.pi / 2),
        (fan(views=60), 2 * math.pi),
        (parallel(angles=(0.0, 0.0, math.pi, math.pi / 2)), math.pi),
        (parallel(angles=(0.1, 0.4, 1.0, 1.5, 2.2, 2.9)), math.pi),
        (fan(angles=(0.1, 1.0, 2.5, 4.0, 5.0)), 2 * math.pi),
    ],
    ids=repr,
)
def test_view_weights_add_up_to_the_arc(geometry: Geometry, arc: float) -> None:
    weights = geometry.view_weights
    assert weights.shape == (geometry.views_count,)
    assert np.all(weights > 0)
    assert weights.sum() == pytest.approx(arc, rel=1e-8)


def test_uneven_views_take_half_the_gap_and_views_of_the_same_rays_share() -> None:
    angles = np.radians([0, 30, 90, 130])  # and back to 180
    expected = np.radians([(50 + 30) / 2, (30 + 60) / 2, (60 + 40) / 2, (40 + 50) / 2])
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        weights = parallel(angles=angles[order]).view_weights
        np.testing.assert_allclose(weights, expected[order], rtol=1e-7)
    third = math.pi / 3
    weights = parallel(angles=(0.0, math.pi, third, 2 * third)).view_weights
    np.testing.assert_allclose(weights, [third / 2, third / 2, third, third], rtol=1e-7)
    opposite = fan(angles=(0.0, math.pi)).view_weights  # a fan's are other rays
    np.testing.assert_allclose(opposite, [math.pi, math.pi], rtol=1e-7)


def test_a_missing_wedge_belongs_to_no_view_also_across_zero() -> None:
    angles = np.radians(np.arange(0, 120, 2))
    for turned in (angles, np.mod(angles - math.radians(30), math.pi)):
        weights = parallel(angles=turned).view_weights
        np.testing.assert_allclose(weights, np.full(60, math.radians(2)), rtol=1e-6)
    angles = np.radians(np.arange(0, 220, 4))
    turned = np.mod(angles - math.radians(100), 2 * math.pi)
    assert fan(angles=turned).coverage[1] == pytest.approx(fan(angles=angles).coverage[1])


@pytest.mark.parametrize("degrees", [57, 150, 170, 180])
@pytest.mark.parametrize("views", [1, 2, 3, 60])
def test_equal_views_share_the_arc_equally_and_cover_it(views: int, degrees: float) -> None:
    arc = math.radians(degrees)
    for geometry in (parallel(views=views, arc=arc), fan(views=views, arc=arc)):
        np.testing.assert_allclose(geometry.view_weights, arc / views, rtol=1e-6)
        assert geometry.coverage[1] == pytest.approx(arc)


@pytest.mark.parametrize(
    "geometry",
    [
        parallel(views=7, start=0.3, detector_offset=1.5), parallel(angles=(-3.0, 0.2, 9.0)),
        fan(views=7, start=0.3, detector_offset=1.5), fan(angles=(-3.0, 0.2, 9.0), bin_spacing=1.2),
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("distance", [0.0, 30.0, 90.0, 130.0])
def test_points_of_a_ray_meet_the_detector_at_its_bin(geometry: Geometry, distance: float) -> None:
    point, direction = geometry.rays()
    assert point.shape == direction.shape == (*geometry.sinogram_shape, 2)
    np.testing.assert_allclose(np.linalg.norm(direction, axis=-1), 1)
    if isinstance(geometry, FanBeam) and distance == 0:
        distance = 1.0  # every ray passes through the source itself
    at = point + distance * direction
    for view in range(geometry.views_count):
        found = geometry.detector_position(at[view, :, 0], at[view, :, 1], slice(view, view + 1))
        np.testing.assert_allclose(found[0], geometry.offsets, atol=1e-9)


def test_source_and_depth_are_where_the_docstring_says() -> None:
    source, direction = fan(views=4).rays()
    np.testing.assert_allclose(source[0, 0], [0, 100], atol=1e-12)
    np.testing.assert_allclose(source[1, 0], [-100, 0], atol=1e-12)
    assert direction[0, 0, 1] < 0  # towards the detector, through the image
    assert direction[0, 0, 0] < 0 < direction[0, -1, 0]  # bins run along (cos b, sin b)
    geometry = fan(views=4)
    x, y = np.array([0.0, 3.0]), np.array([0.0, 7.0])
    np.testing.assert_allclose(geometry.depth(x, y)[0], [100, 93])
    np.testing.assert_allclose(geometry.depth(x, y)[1], [100, 103])
    assert geometry.magnification == 1.5
    geometry = fan(views=10)
    half_fan = math.atan2(geometry.bins * geometry.bin_spacing / 2, 150.0)
    assert geometry.short_scan == pytest.approx(math.pi + 2 * half_fan, rel=1e-3)
    assert geometry.short_scan >= math.pi + 2 * half_fan


def test_a_fan_from_far_away_is_a_parallel_beam() -> None:
    far = 1e8
    options = {"views": 9, "arc": math.pi, "bins": 64, "start": 0.4}
    wide = FanBeam(SQUARE, source_to_center=far, source_to_detector=far, **options)  # type: ignore[arg-type]
    flat = ParallelBeam(SQUARE, **options)  # type: ignore[arg-type]
    x, y = np.meshgrid(*flat.pixel_centres)
    np.testing.assert_allclose(
        wide.detector_position(x, y), flat.detector_position(x, y), atol=1e-4
    )
    cosine = np.sum(wide.rays()[1] * flat.rays()[1], axis=-1)
    np.testing.assert_allclose(np.abs(cosine), 1, atol=1e-9)


def test_a_short_detector_is_warned_of_with_what_it_misses_at_the_callers_line() -> None:
    with pytest.warns(KoriskWarning) as caught:
        geometry = ParallelBeam(SQUARE, views=12, bins=16)
    (warning,) = caught
    assert f"its 16 mm miss {geometry.truncation:.1%} of the disc" in str(warning.message)
    assert "raise bins= or bin_spacing=" in str(warning.message)
    assert warning.filename == __file__
    t = 0.5  # half the strip over the radius: what is missed lies outside it
    inside = 2 / math.pi * (math.asin(t) + t * math.sqrt(1 - t * t))
    assert geometry.truncation == pytest.approx(1 - inside, abs=0.01)
    with pytest.warns(KoriskWarning, match="too short"):
        assert parallel(views=12, bins=32, detector_offset=8.0).truncation > 0.1
    assert parallel(views=12, bins=32).truncation == fan(views=12, bins=64).truncation == 0


def test_scalars_of_numpy_and_torch_are_numbers_and_degrees_are_asked_about() -> None:
    plain = ParallelBeam(8, views=6, bins=9, pixel_spacing=0.5)
    given = ParallelBeam(
        np.array([8, 8]),  # type: ignore[arg-type]
        views=np.int64(6),  # type: ignore[arg-type]
        bins=torch.tensor(9),  # type: ignore[arg-type]
        pixel_spacing=torch.tensor(0.5),  # type: ignore[arg-type]
    )
    assert (given, repr(given)) == (plain, repr(plain))
    with pytest.warns(KoriskWarning, match=r"angles go up to 179.*numpy.deg2rad"):
        ParallelBeam(8, angles=np.arange(180), bins=9)  # type: ignore[arg-type]
    corner = 16 * math.sqrt(2)  # closer is refused
    assert fan(angles=(math.pi / 4,), source_to_center=corner + 1.0, bins=4000).views_count == 1
