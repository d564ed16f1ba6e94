"""Resampling against block means, an independent spline, and the laws of averages."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.ndimage import zoom

from korisk.images.pixels import resampled

Array = NDArray[np.float64]
sides = st.integers(1, 12)
seeds = st.integers(0, 2**32 - 1)


def image(seed: int, rows: int, columns: int) -> Array:
    return np.random.default_rng(seed).uniform(0, 2, (rows, columns))


@given(seeds, sides, sides, sides, sides)
def test_shrinking_keeps_the_mean(seed: int, rows: int, columns: int, high: int, wide: int) -> None:
    given = image(seed, rows, columns)
    small = resampled(given, min(high, rows), min(wide, columns))
    assert small.shape == (min(high, rows), min(wide, columns))
    assert small.mean() == pytest.approx(given.mean(), rel=1e-12)
    assert given.min() - 1e-12 <= small.min() <= small.max() <= given.max() + 1e-12


@given(seeds, sides, sides, sides, sides, st.sampled_from(["area", "spline"]))
def test_constants_stay_and_the_same_size_is_the_same_image(
    seed: int, rows: int, columns: int, high: int, wide: int, method: str
) -> None:
    level = image(seed, 1, 1)[0, 0]
    flat = resampled(np.full((rows, columns), level), high, wide, method=method)  # type: ignore[arg-type]
    np.testing.assert_allclose(flat, np.full((high, wide), level), rtol=1e-12)
    given = image(seed, rows, columns)
    same = resampled(given, rows, columns, method=method)  # type: ignore[arg-type]
    np.testing.assert_array_equal(same, given)


def test_other_ratios_are_overlaps_in_exact_arithmetic() -> None:
    have, want = 7, 3
    width = Fraction(have, want)
    column = [Fraction(value) for value in (3, 1, 4, 1, 5, 9, 2)]
    expected = []
    for i in range(want):
        low, high = i * width, (i + 1) * width
        ends = [(max(low, Fraction(j)), min(high, Fraction(j + 1))) for j in range(have)]
        parts = [
            max(end - start, Fraction(0)) * value
            for (start, end), value in zip(ends, column, strict=True)
        ]
        expected.append(float(sum(parts, Fraction(0)) / width))
    given = np.array(column, dtype=np.float64)[:, None]
    np.testing.assert_allclose(resampled(given, want, 1)[:, 0], expected, rtol=1e-15)


def test_enlarging_is_linear_between_centres_or_a_spline() -> None:
    ramp = np.array([[0.0, 1.0, 2.0, 3.0]])
    np.testing.assert_allclose(
        resampled(ramp, 1, 8)[0], [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3], atol=1e-15
    )
    smooth = np.sin(np.arange(20) / 3)[None] ** 2
    linear = zoom(smooth[0], 3, order=1, mode="nearest", grid_mode=True)
    np.testing.assert_allclose(resampled(smooth, 1, 60)[0], linear, atol=1e-12)
    fine = np.sin(np.clip((np.arange(60) + 0.5) / 3 - 0.5, 0, 19) / 3) ** 2
    curved = np.abs(resampled(smooth, 1, 60, method="spline")[0] - fine).max()
    assert curved < np.abs(linear - fine).max() / 10
