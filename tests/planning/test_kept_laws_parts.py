"""Moments, known operators and the grid posterior: closed forms, and constants that were chosen."""

import json
from dataclasses import FrozenInstanceError, asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from korisk.planning.compare import _where_it_rises
from korisk.planning.posterior import PRIOR, posterior
from korisk.prediction.dense.moments import image_moment
from korisk.prediction.misfit import BELIEF, KNOWN_BELIEF, NOTHING_MEASURED, Belief, Misfit
from korisk.prediction.weights.structured import Measure, Structured
from pilots import power_pilot

DOCS = Path(__file__).parents[2] / "docs/explanation"
RESULTS = Path(__file__).parents[2] / "benchmarks/results"


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


# --- Posteriors ----------------------------------------------------------------------------------


def test_errors_are_compared_where_their_chances_rise() -> None:
    logs = np.linspace(0, 1, 400)[:, None] * [1.0, 3.0]
    rising = np.stack([logs[:, 0] ** 2, 2 * (logs[:, 1] / 3) ** 3], axis=1)
    found = _where_it_rises(logs, rising)
    even = np.linspace(0, 1, 400)
    assert found[:, 0] == pytest.approx(even ** (1 / 2), abs=0.01)
    assert found[:, 1] == pytest.approx(3 * even ** (1 / 3), abs=0.1)
    assert found[[0, -1]].tolist() == [[0, 0], [1, 3]]


# --- Constants -----------------------------------------------------------------------------------


def test_the_prior_is_the_one_that_the_kept_figures_are_of() -> None:
    """What benchmarks/planner_prior.py learned, and wrote down there, is what is used."""
    learned = json.loads((RESULTS / "planner_prior.json").read_text(encoding="utf-8"))
    made = posterior(power_pilot(seeds=2))
    assert made.prior is PRIOR
    assert json.loads(json.dumps(asdict(PRIOR))) == learned


def test_a_posterior_is_a_value_that_shows_no_workings() -> None:
    made = posterior(power_pilot(seeds=2))
    shown = repr(made)
    assert shown.startswith("Posterior(last=512.0, weight=array(")
    for hidden in ("pilot=", "walks=", "prior="):
        assert hidden not in shown
    for value, name in ((made, "last"), (made.pilot, "last"), (made.walks[0], "drift")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, 1.0)


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
