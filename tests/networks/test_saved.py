"""Samples with and without a known operator."""

import math

import numpy as np
import pytest

from benchmarks.networks.saved import needed, saved
from benchmarks.paper import learning

SIZES = np.array([2.0**power for power in range(1, 11)])


def test_a_network_that_needs_ten_times_as_many_is_found_to() -> None:
    rng = np.random.default_rng(1)
    known, other = (factor / SIZES[:, None] * rng.lognormal(0, 0.02, (10, 4)) for factor in (1, 10))
    found = saved((SIZES, known), (SIZES, other), 8, SIZES[-1])
    assert found.low <= found.n <= found.high
    assert found.n == pytest.approx(80, rel=0.1)
    # Half of the sizes tell the same; a quarter of what is needed does not tell.
    assert saved((SIZES, known), (SIZES, other), 8, 512).n == pytest.approx(found.n)
    assert math.isinf(saved((SIZES, known), (SIZES, other), 8, 32).n)


def test_the_kept_tables_of_the_learning_study_follow_from_its_errors() -> None:
    kept = learning.KEPT.with_suffix(".txt").read_text()
    assert kept == "\n".join(learning.tables()) + "\n"


def test_between_sizes_a_power_law_is_met_exactly() -> None:
    assert needed(SIZES, 1 / SIZES, 1 / 48) == pytest.approx(48)
    assert math.isinf(needed(SIZES, 1 / SIZES, 1e-6))
