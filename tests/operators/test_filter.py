"""Filters along the detector against convolutions written out."""

import math

import numpy as np
import pytest
import torch

from korisk.errors import KoriskError
from korisk.operators import WINDOWS, RampFilter, Window
from korisk.operators.ct import filter as filters
from korisk.operators.ct.filter import filter_response, ramp_kernel, window_response


def test_the_ramp_is_the_transform_of_the_band_limited_frequency() -> None:
    # h(n) = 2 int_0^(1/2) f cos(2 pi f n) df, by a fine sum.
    f = (np.arange(200_000) + 0.5) / 400_000
    truth = [2 * np.mean(f * np.cos(2 * math.pi * f * n)) / 2 for n in range(6)]
    np.testing.assert_allclose(ramp_kernel(6), truth, atol=1e-9)


def test_filtering_is_the_convolution_with_the_ramp() -> None:
    bins, scale = 13, 0.7
    x = np.random.default_rng(0).standard_normal((3, bins))
    kernel = ramp_kernel(bins)
    around = np.concatenate([kernel[:0:-1], kernel])
    truth = [scale * np.convolve(row, around)[bins - 1 : 2 * bins - 1] for row in x]
    found = RampFilter((3, bins), scale=scale, dtype=torch.float64)(torch.from_numpy(x))
    np.testing.assert_allclose(found.numpy(), truth, atol=1e-14)


def test_the_released_filter_multiplies_the_bare_transform() -> None:
    x = np.random.default_rng(1).standard_normal((2, 11))
    truth = np.fft.ifft(np.fft.fft(x) * np.abs(np.fft.fftfreq(11))).real
    operator = RampFilter((2, 11), window="released", dtype=torch.float64)
    np.testing.assert_allclose(operator(torch.from_numpy(x)).numpy(), truth, atol=1e-14)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("bins", [1, 2, 9, 32])
def test_by_matrix_and_by_fft_is_the_same(
    window: Window, bins: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(2, bins, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    by_matrix = RampFilter((2, bins), window=window, dtype=torch.float64)
    dense = by_matrix(x)
    norm = by_matrix.norm()
    monkeypatch.setattr(filters, "_LARGEST_DENSE", 0)
    by_fft = RampFilter((2, bins), window=window, dtype=torch.float64)
    torch.testing.assert_close(by_fft(x), dense, atol=1e-14, rtol=1e-12)
    bracket = by_fft.norm()
    assert bracket.lower <= norm.upper
    assert norm.lower <= bracket.upper


@pytest.mark.parametrize("window", WINDOWS)
def test_the_norm_is_exact(window: Window) -> None:
    operator = RampFilter((2, 24), window=window, scale=-3.0)
    truth = float(torch.linalg.matrix_norm(operator.in_double().as_matrix(), 2))
    bracket = operator.norm()
    assert bracket.lower <= truth * (1 + 1e-12)
    assert truth <= bracket.upper * (1 + 1e-12)
    assert bracket.upper <= bracket.lower * (1 + 1e-9)


def test_windows_leave_the_middle_and_lower_the_end() -> None:
    ends = np.array([0.0, 0.5])
    known = {"shepp-logan": 2 / math.pi, "cosine": 0.0, "hamming": 0.08, "hann": 0.0, "ramp": 1.0}
    for window in WINDOWS:
        if window != "released":
            expected = [1.0, known[window]]
            np.testing.assert_allclose(window_response(window, ends), expected, atol=1e-15)


def test_no_frequency_is_amplified_below_zero() -> None:
    # The sampled ramp keeps a little of the mean, as it must; |f| sampled directly would not.
    response = filter_response(64, "ramp")
    assert response.min() > 0
    assert response[0] == pytest.approx(1 / (math.pi**2 * 64), rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": "hanning"}, "did you mean 'hann'"),
        ({"scale": math.inf}, "scale must be a finite number"),
    ],
)
def test_wrong_filters_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(KoriskError, match=message):
        RampFilter((2, 8), **options)  # type: ignore[arg-type]
