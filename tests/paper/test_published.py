"""The paper's printed tables against what korisk computes."""

import numpy as np
import pytest

import korisk as kr
from korisk.paper import published


@pytest.mark.parametrize("row", published.FOOTPRINT, ids=lambda row: f"H{row.size.H}")
def test_table_1_to_its_printed_digits(row: published.FootprintRow) -> None:
    assert published.computed_footprint(row.size) == row
    assert row.size.dense_parameters == row.size.ratio * row.size.known_parameters


def test_table_1_covers_the_papers_scales() -> None:
    assert [row.size.H for row in published.FOOTPRINT] == [8, 16, 32, 128, 256, 512]
    assert published.FOOTPRINT[-1].size.dense_parameters == 24_159_191_040


def test_tables_2_and_3_speak_of_the_same_points() -> None:
    points = [(row.H, row.device) for row in published.CALIBRATION]
    assert points == [(row.size.H, row.device) for row in published.OUTCOMES]
    for row in published.OUTCOMES:
        assert row.ratio == row.size.ratio
        assert row.size in [other.size for other in published.FOOTPRINT]


@pytest.mark.parametrize("row", published.CALIBRATION, ids=lambda row: f"H{row.H}")
@pytest.mark.parametrize("factor", [1.5, 2.0])
def test_sample_sizes_that_table_2_implies(row: published.CalibrationRow, factor: float) -> None:
    target = factor * max(row.known.floor, row.dense.floor)
    found = kr.theory.two_factors(row.known, row.dense, target)
    n = np.arange(2, 5_000)
    for line, samples in ((row.known, found.samples_known), (row.dense, found.samples_dense)):
        above = n[line.floor + line.slope * np.log(n) / n > target]
        assert samples == (above[-1] + 1 if above.size else 2)
    gap_ratio = (target - row.known.floor) / (target - row.dense.floor)
    assert found.approximation_budget == pytest.approx(gap_ratio)
    assert found.structural == pytest.approx(row.dense.slope / row.known.slope)


def test_what_the_text_says_of_table_2() -> None:
    factors = [row.dense.slope / row.known.slope for row in published.CALIBRATION]
    assert (round(min(factors)), round(max(factors))) == (2, 16)
    higher = {row.H: row.dense.floor > row.known.floor for row in published.CALIBRATION}
    assert higher == {8: True, 16: True, 32: True, 128: False, 256: True}
