"""Filters, weights, and filtered backprojection as a network of visible layers."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import korisk as kr
from benchmarks.operators.shepp_logan import shepp_logan
from korisk import operators as ops
from korisk.operators.ct import filter as filters
from korisk.operators.ct.fbp import parker


def wide_fan(*, arc: float | None = None, start: float = 0.0, offset: float = 0.0) -> ops.FanBeam:
    distances = {"source_to_center": 120.0, "source_to_detector": 200.0}
    scan: dict[str, Any] = {"arc": arc, "start": start, "detector_offset": offset, **distances}
    return ops.FanBeam(64, views=180, bins=120, bin_spacing=2.0, **scan)


def ramp_kernel(length: int) -> Any:
    """h(n) = 2 int_0^(1/2) f cos(2 pi f n) df by a fine sum, at distances 0, 1, ..."""
    f = (np.arange(200_000) + 0.5) / 400_000
    return np.array([np.mean(f * np.cos(2 * math.pi * f * n)) for n in range(length)])


def test_filters_are_the_convolution_with_the_ramp_and_as_released() -> None:
    bins, scale = 13, 0.7
    x = np.random.default_rng(0).standard_normal((3, bins))
    kernel = ramp_kernel(bins)
    around = np.concatenate([kernel[:0:-1], kernel])
    truth = [scale * np.convolve(row, around)[bins - 1 : 2 * bins - 1] for row in x]
    found = ops.RampFilter((3, bins), scale=scale, dtype=torch.float64)(torch.from_numpy(x))
    np.testing.assert_allclose(found.numpy(), truth, atol=1e-9)
    x = np.random.default_rng(1).standard_normal((2, 11))
    bare = np.fft.ifft(np.fft.fft(x) * np.abs(np.fft.fftfreq(11))).real
    operator = ops.RampFilter((2, 11), window="released", dtype=torch.float64)
    np.testing.assert_allclose(operator(torch.from_numpy(x)).numpy(), bare, atol=1e-14)


@pytest.mark.parametrize("window", ops.WINDOWS)
@pytest.mark.parametrize("bins", [1, 2, 9, 32])
def test_by_matrix_and_by_fft_is_the_same_and_the_norm_is_exact(
    window: ops.Window, bins: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(2, bins, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    by_matrix, by_fft = (
        ops.RampFilter((2, bins), window=window, scale=-3.0, dtype=torch.float64) for _ in range(2)
    )
    dense, norm = by_matrix(x), by_matrix.norm()
    truth = float(torch.linalg.matrix_norm(by_matrix.as_matrix(), 2))
    assert norm.lower * (1 - 1e-12) <= truth <= norm.upper * (1 + 1e-12)
    assert norm.upper <= norm.lower * (1 + 1e-9)
    monkeypatch.setattr(filters, "_LARGEST_DENSE", 0)
    torch.testing.assert_close(by_fft(x), dense, atol=1e-13, rtol=1e-12)
    bracket = by_fft.norm()
    assert bracket.lower * (1 - 1e-9) <= truth <= bracket.upper * (1 + 1e-9)


def test_windows_leave_the_middle_and_lower_the_end() -> None:
    ramp = filters.filter_response(64, "ramp")
    assert ramp.min() > 0  # a little of the mean is kept, as it must; |f| itself would not
    assert ramp[0] == pytest.approx(1 / (math.pi**2 * 64), rel=0.02)
    known = {"shepp-logan": 2 / math.pi, "cosine": 0.0, "hamming": 0.08, "hann": 0.0, "ramp": 1.0}
    for window in set(ops.WINDOWS) - {"released"}:
        factor = filters.filter_response(64, window) / ramp
        np.testing.assert_allclose(factor[[0, -1]], [1.0, known[window]], atol=1e-15)


@given(margin=st.floats(-0.3, 0.8), fan=st.floats(-0.6, 0.6), part=st.floats(0, 1))
@settings(max_examples=4 * settings().max_examples)
def test_weights_of_a_line_measured_twice_add_up_to_one(
    margin: float, fan: float, part: float
) -> None:
    arc = math.pi + 2 * margin
    view = part * arc
    once = float(parker(np.array(view), np.array(fan), margin=margin))
    assert 0 <= once <= 1
    again = [view + 2 * fan + turn for turn in (-math.pi, math.pi)]
    inside = [other for other in again if 0 <= other <= arc]
    total = once + sum(
        float(parker(np.array(other), np.array(-fan), margin=margin)) for other in inside
    )
    if any(math.isclose(other, edge, abs_tol=1e-9) for other in again for edge in (0, arc)):
        return  # whether the edge of the arc was measured is a matter of rounding
    assert total == pytest.approx(1.0, abs=1e-9)


def test_weights_of_simple_scans() -> None:
    geometry = wide_fan()
    np.testing.assert_array_equal(ops.parker_weights(geometry), 0.5)  # every ray is measured twice
    np.testing.assert_allclose(
        ops.cosine_weights(geometry), np.cos(geometry.fan_angles), rtol=1e-14
    )
    np.testing.assert_array_equal(ops.fbp_weights(ops.ParallelBeam(8, views=7, bins=8)), 1.0)
    geometry = wide_fan(arc=4.4)  # where all weights count
    uneven = geometry.view_weights[:, None] / geometry.view_weights.mean()
    whole = uneven * ops.parker_weights(geometry) * ops.cosine_weights(geometry)
    np.testing.assert_allclose(ops.fbp_weights(geometry), whole, rtol=1e-14)
    assert ops.parker_weights(geometry).min() < 0.1
    assert ops.parker_weights(geometry).max() == 1.0


def chords(geometry: ops.Geometry, centre: tuple[float, float], radius: float) -> Tensor:
    """The sinogram of a disc of height one, in closed form."""
    point, direction = geometry.rays()
    away = point - np.array(centre)
    distance = np.abs(away[..., 0] * direction[..., 1] - away[..., 1] * direction[..., 0])
    return torch.from_numpy(2 * np.sqrt(np.clip(radius**2 - distance**2, 0, None)))


def disc_mean_and_spread(geometry: ops.Geometry, **options: Any) -> tuple[float, float, float]:
    """Of a reconstructed disc away from the centre: mean and spread inside, mean outside."""
    half = min(geometry.image_size) / 2
    centre, radius = (0.3 * half, -0.2 * half), 0.4 * half
    options = {"window": "hann", "dtype": torch.float64, **options}
    found = ops.fbp(geometry, **options)(chords(geometry, centre, radius)).numpy()
    x, y = geometry.pixel_centres
    away = np.hypot(x[None, :] - centre[0], y[:, None] - centre[1])
    inside = found[away < 0.6 * radius]
    seen = np.hypot(x[None, :], y[:, None]) < 0.9 * half
    outside = found[seen & (away > 1.4 * radius)]
    return float(inside.mean()), float(inside.std()), float(np.abs(outside).mean())


UNEVEN = tuple(np.random.default_rng(0).uniform(0, math.pi, 300).tolist())
BUNCHED = (*np.linspace(0, 1, 200).tolist(), *np.linspace(1.02, 3.14, 80).tolist())


SCANS: dict[str, ops.Geometry] = {
    "parallel": ops.ParallelBeam(64, views=90, bins=64),
    "fine bins": ops.ParallelBeam(64, views=90, bins=200, pixel_spacing=0.3, bin_spacing=0.1),
    "coarse bins": ops.ParallelBeam(64, views=90, bins=32, bin_spacing=2.0),
    "two half turns": ops.ParallelBeam(64, views=181, bins=64, arc=2 * math.pi),
    "random angles": ops.ParallelBeam(64, angles=UNEVEN, bins=64),
    "bunched angles": ops.ParallelBeam(64, angles=BUNCHED, bins=64),
    "offset": ops.ParallelBeam(64, views=90, bins=80, detector_offset=3.3),
    "not square": ops.ParallelBeam((48, 64), views=90, bins=80), "fan": wide_fan(),
    "fan, offset": wide_fan(offset=4.0), "short scan": wide_fan(arc=wide_fan().short_scan),
    "more than a short scan": wide_fan(arc=5.5, start=1.0),
}  # fmt: skip


@pytest.mark.parametrize("geometry", SCANS.values(), ids=SCANS.keys())
def test_a_disc_comes_back_flat_and_at_its_height(geometry: ops.Geometry) -> None:
    for backprojection in ("auto", "pixel"):
        mean, spread, outside = disc_mean_and_spread(geometry, backprojection=backprojection)
        assert mean == pytest.approx(1, abs=0.01)
        assert spread < 0.03
        assert outside < 0.03


def gaussian_error(side: int, noise: float, **options: Any) -> float:
    """Of a Gaussian's reconstruction from its closed-form sinogram, relative, in the disc."""
    spread, half = 0.09 * side, side / 2
    geometry = ops.ParallelBeam(side, views=2 * side, bins=side)
    point, direction = geometry.rays()
    away = point - np.array([0.1 * side, -0.05 * side])
    distance = away[..., 0] * direction[..., 1] - away[..., 1] * direction[..., 0]
    sinogram = math.sqrt(2 * math.pi) * spread * np.exp(-((distance / spread) ** 2) / 2)
    scale = noise * math.sqrt((sinogram**2).mean())
    sinogram = sinogram + scale * np.random.default_rng(0).standard_normal(sinogram.shape)
    found = ops.fbp(geometry, dtype=torch.float64, **options)(torch.from_numpy(sinogram)).numpy()
    x, y = geometry.pixel_centres
    square = (x[None, :] - 0.1 * side) ** 2 + (y[:, None] + 0.05 * side) ** 2
    truth = np.exp(-square / (2 * spread**2))
    inside = np.hypot(x[None, :], y[:, None]) < half
    return float(np.linalg.norm((found - truth)[inside]) / np.linalg.norm(truth[inside]))


def test_the_default_converges_with_order_two_and_is_the_best_of_ours() -> None:
    coarse, fine = (gaussian_error(side, 0.0) for side in (24, 48))
    assert math.log2(coarse / fine) > 1.8
    assert fine < 0.5 * gaussian_error(48, 0.0, backprojection="adjoint")
    assert gaussian_error(48, 0.1) < gaussian_error(48, 0.1, backprojection="adjoint")


@pytest.mark.parametrize(("spacing", "matched"), [(0.8, True), (0.9, False), (1.0, False)])
def test_only_narrow_bins_are_backprojected_by_the_adjoint(spacing: float, matched: bool) -> None:
    geometry = ops.ParallelBeam(16, views=12, bins=24, bin_spacing=spacing)
    back = ops.fbp(geometry)["A^T"]
    assert isinstance(back.T, ops.Projector) is matched
    assert isinstance(back, ops.PixelBackprojector) is not matched


@pytest.mark.slow
def test_shepp_logan_is_as_good_as_scikit_images() -> None:
    # 0.159 is iradon's relative error here: `python -m benchmarks.operators.compare --quality`.
    phantom = shepp_logan(256)
    geometry = ops.ParallelBeam(256, views=180, bins=256)
    project = ops.Projector(geometry, engine="on_the_fly")  # a matrix does not pay for one image
    reconstruct = ops.fbp(geometry, engine="on_the_fly")
    found = reconstruct(project(torch.from_numpy(phantom).float())).numpy()
    x, y = geometry.pixel_centres
    seen = np.hypot(x[None, :], y[:, None]) < 128
    error = np.linalg.norm((found - phantom)[seen]) / np.linalg.norm(phantom[seen])
    assert error <= 1.05 * 0.159


def test_weights_train_and_stand_in_a_module() -> None:
    geometry = ops.ParallelBeam(16, views=12, bins=16)
    network = ops.fbp(geometry, trainable=True)
    model = nn.Sequential(network, nn.ReLU())
    (weights,) = model.parameters()
    assert weights.shape == (12, 16)
    image = torch.rand(4, 16, 16, generator=torch.Generator().manual_seed(0))
    sinogram = ops.Projector(geometry)(image)
    optimiser = torch.optim.SGD(model.parameters(), lr=2.0)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = (model(sinogram) - image).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    other = nn.Sequential(ops.fbp(geometry, trainable=True), nn.ReLU())
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(sinogram), model(sinogram))


def test_released_geometry_is_that_of_the_sweeps() -> None:
    geometry = ops.released_geometry(128)
    assert geometry.sinogram_shape == (60, 128)
    assert geometry.angle_array[-1] == pytest.approx(math.pi)
    x, _ = geometry.pixel_centres
    np.testing.assert_allclose(x, np.linspace(-128 / 3, 128 / 3, 128), rtol=1e-12)
    source, _ = geometry.rays()
    b = geometry.angle_array
    np.testing.assert_allclose(
        source[:, 5], 1000 * np.stack([-np.sin(b), np.cos(b)], axis=1), atol=1e-9
    )
    assert eval(repr(geometry), dict(vars(ops))) == geometry


def test_released_weights_are_parkers_without_overscan() -> None:
    geometry = ops.released_geometry(128)
    found = ops.released_weights(geometry)
    offsets = np.arange(128) - 63.5
    for at_view, at_bin in ((0, 3), (1, 5), (2, 127), (30, 60), (58, 120), (59, 127), (57, 0)):
        b = math.pi * at_view / 59
        g = math.atan(offsets[at_bin] / 1500)
        if 0 <= b < -2 * g:
            expected = math.sin(math.pi * b / (4 * -g)) ** 2
        elif b <= math.pi - 2 * g:
            expected = 1.0
        else:
            expected = math.sin(math.pi * (math.pi - b) / (4 * g)) ** 2
        expected *= 1500 / math.hypot(1500, offsets[at_bin])
        assert found[at_view, at_bin] == pytest.approx(expected, abs=1e-12)


def test_released_backprojection_is_its_formula() -> None:
    geometry = ops.released_geometry(128)
    network = ops.released_fbp(geometry, dtype=torch.float64)
    y = torch.rand(60, 128, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = network(y)
    filtered = np.fft.ifft(
        np.fft.fft(ops.released_weights(geometry) * y.numpy()) * np.abs(np.fft.fftfreq(128))
    ).real
    x = np.linspace(-128 / 3, 128 / 3, 128)
    for row, column in ((30, 40), (64, 64), (90, 50)):
        total = 0.0
        for view, b in enumerate(np.linspace(0, math.pi, 60)):
            depth = 1000 + x[column] * math.sin(b) - x[row] * math.cos(b)
            offset = 1500 * (x[column] * math.cos(b) + x[row] * math.sin(b)) / depth
            value = np.interp(offset, np.arange(128) - 63.5, filtered[view], left=0, right=0)
            total += (1000 / depth) ** 2 * value
        assert float(found[row, column]) == pytest.approx(math.pi / 60 * total, rel=1e-9)


def test_a_networks_layers_take_operators_and_compose_them() -> None:
    geometry = ops.ParallelBeam(24, views=20, bins=24)
    f = ops.fbp(geometry)
    network = kr.Network(
        [
            kr.Learned("W", parameters=20 * 24, lipschitz=f["W"]), kr.Known("K", lipschitz=f["K"]),
            kr.Known("A^T", lipschitz=f["A^T"]), kr.Known("ReLU", lipschitz=1.0),
        ]
    )  # fmt: skip
    composed = (f["A^T"] @ f["K"]).norm()
    product = f["A^T"].norm().upper * f["K"].norm().upper
    assert network.tails("composed")[0] == pytest.approx(composed.upper, rel=1e-12)
    assert network.tails("minkowski")[0] == pytest.approx(product, rel=1e-12)
    assert composed.upper < 0.5 * product
