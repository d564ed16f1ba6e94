"""Moments, known operators and beliefs: closed forms, and constants that were chosen."""

from dataclasses import FrozenInstanceError, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from korisk.prediction.dense.moments import image_moment
from korisk.prediction.misfit import BELIEF, KNOWN_BELIEF, NOTHING_MEASURED, Belief, Misfit
from korisk.prediction.weights.structured import Measure, Structured

DOCS = Path(__file__).parents[2] / "docs/explanation"


@pytest.mark.parametrize("shape", [(12, 6), (40, 6), (9, 3, 4)], ids=["few", "many", "flat"])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_the_shrinkage_is_variance_over_distance(shape: tuple[int, ...], scale: float) -> None:
    """From matrices: the variance of the sample moment over its squared distance to the target."""
    rng = np.random.default_rng(3)
    images = scale * rng.normal(size=shape) * np.linspace(1, 4, shape[-1])
    made = image_moment(images)
    flat = images.reshape(len(images), -1)
    each = np.einsum("ki,kj->kij", flat, flat)
    variance = each.var(axis=0, ddof=1).sum() / len(flat)
    target = image_moment(images, shrinkage=1.0).apply(np.eye(flat.shape[1]))
    distance = np.square(each.mean(axis=0) - target).sum()
    assert made.shrinkage == pytest.approx(min(variance / distance, 1.0))
    vectors = rng.normal(size=(3, flat.shape[1]))
    assert made.apply(vectors) == pytest.approx(vectors @ made.apply(np.eye(len(made.deviation))))


# --- Known operators -----------------------------------------------------------------------------


def test_lambdas_run_from_none_to_all() -> None:
    """Of equal eigenvalues c, K weights have K / (1 + lambda / c) degrees of freedom."""
    equal = Measure(np.full(4, 7.0), np.full(4, 3.0))  # twelve weights
    many: dict[str, Any] = {"leverages": None, "share": 1.0, "floor": 1.0, "start": 9.0}
    made = Structured(
        spectrum=equal, pull=equal, noise=equal, analytic=9.0, entries=1, parameters=2**25,
        examples=100, spread=0.0, **many,
    )  # fmt: skip
    freedom = made.path.freedom / 12
    assert freedom[0] == 1
    assert 1 - freedom[1] == pytest.approx(1e-10, rel=1e-3)
    assert freedom[-1] == pytest.approx(1 / (1 + 1e5))
    assert made.path.squared == pytest.approx(12 * freedom**2)
    assert made.path.variance == pytest.approx(12 / (1 / freedom) ** 2 / 7)
    ratios = (1 / freedom[2:-1] - 1) / (1 / freedom[1:-2] - 1)
    assert ratios[40:] == pytest.approx(10 ** (15 / 180), rel=1e-4)
    assert made.holds_from == 1  # examples count as many rows: nothing crowds
    assert made.least == 0


def test_beliefs_are_those_of_the_page_and_of_the_kept_figures() -> None:
    """They were chosen once; figures on docs/explanation/predict.md are of these."""
    plain = Misfit(NOTHING_MEASURED, NOTHING_MEASURED, 0.0)
    weights, _, deviations = plain.moments(np.array([64.0]))
    assert weights == pytest.approx(
        np.outer([0.2, 0.2, 0.2, 0.2, 0.1, 0.1], [0.7, 0.2, 0.1]).ravel()
    )
    shapes = np.repeat([0.1, 0.25, 0.6], 6)
    assert deviations[:, 0] == pytest.approx(np.hypot(shapes, np.tile([0.02, 0.15, 0.6], 6)))
    assert Belief() == plain.belief == BELIEF
    assert BELIEF.lengths == (1.5, 5.0)
    assert (
        Belief(
            shapes=(0.005, 0.02, 0.08, 0.3),
            shape_weights=(0.35, 0.35, 0.2, 0.1),
            lengths=(2.0, 8.0),
            offsets=(0.02, 0.06, 0.2),
            offset_weights=(0.4, 0.4, 0.2),
        )
        == KNOWN_BELIEF
    )
    page = " ".join((DOCS / "predict.md").read_text(encoding="utf-8").split())
    for belief in (BELIEF, KNOWN_BELIEF):
        deviates = [f"{100 * shape:g}" for shape in belief.shapes]
        short, long = belief.lengths
        assert f"over {short:g} or {long:g} doublings" in page
        assert f"{', '.join(deviates[:-1])} or {deviates[-1]}%" in page
    with pytest.raises(FrozenInstanceError):
        plain.level = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("belief", [BELIEF, KNOWN_BELIEF], ids=["plain", "known"])
def test_beliefs_are_laws(belief: Belief) -> None:
    content = {field.name: getattr(belief, field.name) for field in fields(belief)}
    for name, weights in content.items():
        if name.endswith("_weights"):
            assert sum(weights) == pytest.approx(1)
            assert min(weights) > 0
        else:
            assert all(0 < a < b for a, b in pairwise(weights))
    assert max(belief.shapes + belief.offsets) < 1
    assert max(KNOWN_BELIEF.shapes) < max(BELIEF.shapes)


def test_moments_of_small_images_are_matrices_and_as_uncertain_as_their_energies() -> None:
    images = np.random.default_rng(0).normal(1.0, 0.3, (8, 32, 32))
    made = image_moment(images)
    matrix = made.apply(np.eye(1024))
    assert matrix.shape == (1024, 1024)
    assert np.trace(matrix) == pytest.approx(made.energy)
    energies = np.square(images).sum(axis=(1, 2))
    error = np.std(energies, ddof=1) / np.sqrt(8)
    assert made.uncertainty == pytest.approx(error / energies.mean())
