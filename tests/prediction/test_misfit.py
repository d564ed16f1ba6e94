"""How far a rehearsed curve is off: the misfit against conditioning by hand."""

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, norm

from korisk.prediction.misfit import BELIEF, NOTHING_MEASURED, UNLIKE, Belief, LogErrors, Misfit

Array = NDArray[np.float64]

FAR = np.array([3.0, 100.0, 6e4])


def belief(shape: float, length: float, offset: float) -> Belief:
    return Belief(shapes=((shape, 1.0),), lengths=((length, 1.0),), offsets=((offset, 1.0),))


def prior_covariance(n: Array, real: Array, kind: Belief, level: float) -> Array:
    """Of a belief in one case."""
    ((shape, _),), ((length, _),), ((offset, _),) = kind.shapes, kind.lengths, kind.offsets
    u = np.log2(n)
    walk = shape**2 * np.exp(-np.abs(u[:, None] - u) / length)
    return np.asarray(walk + (offset**2 + level**2) * np.outer(real, real))


def checks(n: list[float], log_error: list[float], deviation: float = 0.05) -> LogErrors:
    return LogErrors(np.array(n), np.array(log_error), np.full(len(n), deviation**2))


SIMULATED = checks([4, 8, 16, 32], [0.1, 0.15, 0.05, -0.02])
REAL = checks([8, 64, 512], [0.3, 0.25, 0.4], 0.02)


@pytest.mark.parametrize("kind", [belief(0.3, 2.0, 0.1), belief(0.05, 6.0, 0.5)])
@pytest.mark.parametrize("level", [0.0, 0.2])
def test_it_is_the_normal_law_conditional_on_all_checks(kind: Belief, level: float) -> None:
    n = np.concatenate([SIMULATED.n, REAL.n, FAR])
    real = np.repeat([0.0, 1.0], [4, 6])
    noise = np.concatenate([SIMULATED.variance, REAL.variance, np.zeros(3)])
    joint = prior_covariance(n, real, kind, level) + np.diag(noise)
    data = np.concatenate([SIMULATED.log_error, REAL.log_error])
    gain = joint[7:, :7] @ np.linalg.inv(joint[:7, :7])
    made = Misfit(SIMULATED, REAL, level, kind)
    variance = np.diag(joint[7:, 7:] - gain @ joint[:7, 7:])
    assert made.law(FAR).under(np.full(3, 0.2)) == pytest.approx(
        norm.cdf(0.2, gain @ data, np.sqrt(variance))
    )
    both = multivariate_normal(np.zeros(7), joint[:7, :7]).logpdf(data)
    first = multivariate_normal(np.zeros(4), joint[:4, :4]).logpdf(data[:4])
    assert made.evidence == pytest.approx(both - first)


def test_cases_are_weighed_by_what_they_explain() -> None:
    """Weights are prior times likelihood, and the law is the cases' mixture."""
    mixed = Misfit(SIMULATED, REAL, 0.1)
    n = np.concatenate([SIMULATED.n, REAL.n])
    noise = np.diag(np.concatenate([SIMULATED.variance, REAL.variance]))
    data = np.concatenate([SIMULATED.log_error, REAL.log_error])
    logs, under = [], []
    for (a, p), (length, q), (offset, r) in product(BELIEF.shapes, BELIEF.lengths, BELIEF.offsets):
        kind = belief(a, length, offset)
        joint = prior_covariance(n, np.repeat([0.0, 1.0], [4, 3]), kind, 0.1) + noise
        logs.append(np.log(p * q * r) + multivariate_normal(np.zeros(7), joint).logpdf(data))
        under.append(Misfit(SIMULATED, REAL, 0.1, kind).law(FAR).under(np.full(3, 0.3)))
    weights = np.exp(logs) / np.exp(logs).sum()
    assert mixed.law(FAR).under(np.full(3, 0.3)) == pytest.approx(weights @ np.array(under))


@pytest.mark.parametrize("kind", [BELIEF, UNLIKE], ids=["alike", "unlike"])
def test_beliefs_are_laws(kind: Belief) -> None:
    for grid in (kind.shapes, kind.lengths, kind.offsets):
        values, weights = zip(*grid, strict=True)
        assert sum(weights) == pytest.approx(1)
        assert min(weights) > 0
        assert all(0 <= a < b for a, b in pairwise(values))


def test_nothing_measured_leaves_the_simulated_curve_in_the_middle() -> None:
    made = Misfit(NOTHING_MEASURED, NOTHING_MEASURED, 0.0)
    assert made.law(FAR).under(np.zeros(3)) == pytest.approx(0.5)
    assert made.evidence == pytest.approx(0.0)
    wide = Misfit(NOTHING_MEASURED, NOTHING_MEASURED, 0.5)
    assert (wide.law(FAR).under(np.full(3, -0.5)) > made.law(FAR).under(np.full(3, -0.5))).all()


def test_simulations_do_not_tell_the_offset_of_reality() -> None:
    """However many say the same, a real error keeps the offset's and the level's spread."""
    sure = checks([2.0**k for k in range(2, 14)], [0.2] * 12, 0.001)
    found = Misfit(sure, NOTHING_MEASURED, 0.3, belief(0.1, 5.0, 0.4)).law(np.array([64.0]))
    assert found.quantile(0.5) == pytest.approx([0.2], abs=0.01)
    assert found.quantile(norm.cdf(1.0)) == pytest.approx([0.7], abs=0.01)
    real = Misfit(sure, checks([64], [0.7], 0.001), 0.3, belief(0.1, 5.0, 0.4))
    assert real.law(np.array([8.0])).quantile(0.5) == pytest.approx([0.7], abs=0.01)  # all shifted


def test_far_sizes_are_known_least_and_a_curve_that_fits_is_the_likelier_one() -> None:
    made = Misfit(NOTHING_MEASURED, REAL, 0.0, belief(0.3, 2.0, 0.02))
    law = made.law(np.array([512, 1024, 4096, 2.0**30]))
    deviations = law.quantile(norm.cdf(1.0)) - law.quantile(0.5)
    assert (np.diff(deviations) > 0).all()
    assert deviations[-1] == pytest.approx(0.3, rel=0.01)
    logs = ([0.01, -0.01, 0.02], [0.9, -0.8, 0.9])
    fits, worse = (Misfit(NOTHING_MEASURED, checks([8, 64, 512], log), 0.0) for log in logs)
    assert fits.evidence > 5 + worse.evidence
