"""The misfit of measured errors: against conditioning by hand, and what checks must do to it."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, norm

from korisk.prediction.misfit import BELIEF, Belief, Misfit, no_checks
from korisk.prediction.rehearsal import Checks

Array = NDArray[np.float64]

FAR = np.array([3.0, 100.0, 6e4])


def belief(shape: float, length: float, offset: float) -> Belief:
    return Belief(
        shapes=(shape,),
        shape_weights=(1.0,),
        lengths=(length,),
        length_weights=(1.0,),
        offsets=(offset,),
        offset_weights=(1.0,),
    )


def checks(n: list[float], log_error: list[float], deviation: float = 0.05) -> Checks:
    return Checks(np.array(n), np.array(log_error), np.full(len(n), deviation**2))


SIMULATED = checks([4, 8, 16, 32], [0.1, 0.15, 0.05, -0.02])
REAL = checks([8, 64, 512], [0.3, 0.25, 0.4], 0.02)


def prior_covariance(n: Array, real: Array, kind: Belief, level: float) -> Array:
    u = np.log2(n)
    walk = kind.shapes[0] ** 2 * np.exp(-np.abs(u[:, None] - u) / kind.lengths[0])
    return np.asarray(walk + (kind.offsets[0] ** 2 + level**2) * np.outer(real, real))


@pytest.mark.parametrize("kind", [belief(0.3, 2.0, 0.1), belief(0.05, 6.0, 0.5)])
@pytest.mark.parametrize("level", [0.0, 0.2])
def test_it_is_the_normal_law_given_all_checks(kind: Belief, level: float) -> None:
    n = np.concatenate([SIMULATED.n, REAL.n, FAR])
    real = np.repeat([0.0, 1.0], [4, 6])
    noise = np.concatenate([SIMULATED.variance, REAL.variance, np.zeros(3)])
    joint = prior_covariance(n, real, kind, level) + np.diag(noise)
    data = np.concatenate([SIMULATED.log_error, REAL.log_error])
    gain = joint[7:, :7] @ np.linalg.inv(joint[:7, :7])
    made = Misfit(SIMULATED, REAL, level, kind)
    weights, means, deviations = made.moments(FAR)
    assert weights == pytest.approx([1.0])
    assert means[0] == pytest.approx(gain @ data)
    variance = np.diag(joint[7:, 7:] - gain @ joint[:7, 7:])
    assert deviations[0] == pytest.approx(np.sqrt(variance))
    assert made.law(FAR).under(np.full(3, 0.2)) == pytest.approx(
        norm.cdf(0.2, gain @ data, np.sqrt(variance))
    )
    both = multivariate_normal(np.zeros(7), joint[:7, :7]).logpdf(data)
    first = multivariate_normal(np.zeros(4), joint[:4, :4]).logpdf(data[:4])
    assert made.evidence == pytest.approx(both - first)


def test_cases_are_weighed_by_what_they_explain() -> None:
    """Weights are prior times likelihood, and the law is the cases' mixture."""
    mixed = Misfit(SIMULATED, REAL, 0.1)
    logs, under = [], []
    for a, p in zip(BELIEF.shapes, BELIEF.shape_weights, strict=True):
        for length, q in zip(BELIEF.lengths, BELIEF.length_weights, strict=True):
            for offset, r in zip(BELIEF.offsets, BELIEF.offset_weights, strict=True):
                kind = belief(a, length, offset)
                n = np.concatenate([SIMULATED.n, REAL.n])
                joint = prior_covariance(n, np.repeat([0.0, 1.0], [4, 3]), kind, 0.1)
                joint += np.diag(np.concatenate([SIMULATED.variance, REAL.variance]))
                data = np.concatenate([SIMULATED.log_error, REAL.log_error])
                logs.append(
                    np.log(p * q * r) + multivariate_normal(np.zeros(7), joint).logpdf(data)
                )
                under.append(Misfit(SIMULATED, REAL, 0.1, kind).law(FAR).under(np.full(3, 0.3)))
    weights = np.exp(logs) / np.exp(logs).sum()
    assert mixed.moments(FAR)[0] == pytest.approx(weights)
    assert mixed.law(FAR).under(np.full(3, 0.3)) == pytest.approx(weights @ np.array(under))


def test_nothing_measured_leaves_the_computed_curve_in_the_middle() -> None:
    made = Misfit(no_checks(), no_checks(), 0.0)
    assert made.law(FAR).under(np.zeros(3)) == pytest.approx(0.5)
    assert made.evidence == pytest.approx(0.0)
    wide = Misfit(no_checks(), no_checks(), 0.5)
    assert (wide.law(FAR).under(np.full(3, -0.5)) > made.law(FAR).under(np.full(3, -0.5))).all()


def test_simulations_do_not_tell_the_offset_of_reality() -> None:
    """However many say the same, a real error keeps the offset's and the level's spread."""
    sure = checks([2.0**k for k in range(2, 14)], [0.2] * 12, 0.001)
    found = Misfit(sure, no_checks(), 0.3, belief(0.1, 5.0, 0.4)).moments(np.array([64.0]))
    assert found[1][0] == pytest.approx([0.2], abs=0.01)
    assert found[2][0] == pytest.approx([0.5], rel=0.01)
    real = Misfit(sure, checks([64], [0.7], 0.001), 0.3, belief(0.1, 5.0, 0.4))
    assert real.moments(np.array([8.0]))[1][0] == pytest.approx([0.7], abs=0.01)  # all shifted


def test_what_is_far_away_is_told_least() -> None:
    made = Misfit(no_checks(), REAL, 0.0, belief(0.3, 2.0, 0.02))
    deviations = made.moments(np.array([512, 1024, 4096, 2.0**30]))[2][0]
    assert (np.diff(deviations) > 0).all()
    assert deviations[-1] == pytest.approx(0.3, rel=0.01)


def test_a_theory_that_fits_is_the_likelier_one() -> None:
    fits = checks([8, 64, 512], [0.01, -0.01, 0.02])
    worse = checks([8, 64, 512], [0.9, -0.8, 0.9])
    assert Misfit(no_checks(), fits, 0.0).evidence > 5 + Misfit(no_checks(), worse, 0.0).evidence
