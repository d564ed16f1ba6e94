"""Related curves: the right ones sharpen the answer, the wrong ones have no part in it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr
from scipy.stats import multivariate_normal

import korisk as kr
from korisk.planning.futures.related import KINSHIP, Relatives, relatives
from pilots import power_pilot, scaled

Array = NDArray[np.float64]

SHORT: Array = np.asarray(16 * 2.0 ** np.arange(4))  # sizes of a pilot,
LONG: Array = np.asarray(16 * 2.0 ** np.arange(10))  # and of a relative, which is cheap
FAR = 16 * int(SHORT[-1])


def noisy(n: Array, errors: Array, *, noise: float, seeds: int, draw: int) -> kr.Curve:
    scatter = np.random.default_rng(draw).standard_normal((len(n), seeds))
    every = errors[:, None] * np.exp(noise * scatter)
    return kr.Curve(np.repeat(n, seeds), every.ravel(), list(range(seeds)) * len(n))


def levelling(n: Array) -> Array:
    return np.asarray(0.02 + 0.5 * n**-0.5)


@pytest.mark.parametrize("stretch", [1.0, 1.2])
def test_relatives_of_the_same_shape_sharpen_what_lies_beyond(stretch: float) -> None:
    """Over six draws: the band at 16 times the pilot, the error expected there, the trust."""
    truth = float(levelling(np.array([float(FAR)]))[0])
    widths, off, trust = [], [], []
    for draw in range(6):
        pilot = noisy(SHORT, levelling(SHORT), noise=0.03, seeds=3, draw=draw)
        shape = 7.0 * levelling(LONG) ** stretch
        relative = noisy(LONG, shape, noise=0.03, seeds=3, draw=100 + draw)
        plans = [kr.plan(pilot, 0.04, related=related) for related in ([], [relative])]
        bands = [plan.forecast.at(FAR) for plan in plans]
        widths.append([math.log(band.upper / band.lower) for band in bands])
        off.append([abs(math.log(band.value / truth)) for band in bands])
        trust.append(plans[1].forecast.trust or 0.0)
    alone, together = np.mean(widths, axis=0)
    assert together < 0.9 * alone
    alone, together = np.mean(off, axis=0)
    assert together < 0.7 * alone
    assert np.mean(trust) > 0.5


def falling(n: Array) -> Array:
    return np.asarray(0.001 + 2.0 * n**-0.8)


PILOT = noisy(LONG[:6], falling(LONG[:6]), noise=0.02, seeds=5, draw=0)
TARGET = 0.6 * float(PILOT.means[-1])
GOOD = noisy(LONG, 5 * falling(LONG), noise=0.02, seeds=5, draw=1)
FLAT = noisy(LONG, 0.1 + 0.05 * np.exp(-LONG / 3000), noise=0.02, seeds=5, draw=2)
BENT = noisy(LONG, 0.05 + falling(LONG), noise=0.02, seeds=5, draw=3)


def answered(related: Sequence[kr.Curve]) -> tuple[kr.Plan, float]:
    """A plan with related curves, and their trust."""
    plan = kr.plan(PILOT, TARGET, related=related)
    assert plan.even is not None
    assert plan.forecast.trust is not None
    return plan, plan.forecast.trust


@pytest.mark.parametrize("wrong", [FLAT, BENT], ids=["flat", "bent"])
def test_a_relative_that_contradicts_the_pilot_has_no_part(wrong: kr.Curve) -> None:
    plan, trust = answered([wrong])
    assert trust < 0.05
    assert plan.even == pytest.approx(kr.plan(PILOT, TARGET).even, rel=0.1)


def test_a_wrong_relative_beside_a_good_one_changes_little() -> None:
    (good, good_trust), (both, trust) = answered([GOOD]), answered([FLAT, GOOD, BENT])
    assert both.even == pytest.approx(good.even, rel=0.1)
    assert min(good_trust, trust) > 0.5


@pytest.mark.parametrize(
    ("first", "second"),
    [([GOOD], [scaled(GOOD, factor)]) for factor in (1e-20, 0.37, 1e20)]
    + [([GOOD, BENT, FLAT], [FLAT, GOOD, BENT])],
)
def test_level_and_order_of_relatives_play_no_part(
    first: list[kr.Curve], second: list[kr.Curve]
) -> None:
    (plan, trust), (other, other_trust) = answered(first), answered(second)
    assert other_trust == pytest.approx(trust, abs=1e-6)
    for name in ("even", "lower", "upper"):
        assert getattr(other, name) == pytest.approx(getattr(plan, name), rel=1e-6, abs=1)
    assert other.forecast.at(4096).value == pytest.approx(plan.forecast.at(4096).value, rel=1e-6)


# --- Against joint normal laws -------------------------------------------------------------------
# The references know nothing of the planner's grids and factorisations: a curve's errors at all
# sizes are one normal vector whose level has a vague prior, and SciPy gives its density.

VAGUE = 1e5  # variance of a level about which nothing is known, beside noise of 1e-4


@dataclass(frozen=True)
class Reference:
    """Weighted curves; for each, the mean and deviation of the log error at some sizes."""

    weight: Array  # (G,)
    mean: Array  # (G, M)
    deviation: Array  # (G, M)

    def under(self, log_error: Array) -> Array:
        return np.asarray(self.weight @ ndtr((log_error - self.mean) / self.deviation))


def walk_covariance(u: Array, v: Array, step: float) -> Array:
    """Covariance of a random walk from u = 0 over doublings, with independent sides."""
    distance = np.minimum(np.abs(u)[:, None], np.abs(v)[None, :])
    return step**2 * np.where(np.multiply.outer(u, v) > 0, distance, 0.0)


def conditioned(joint: Array, noise: Array, gap: Array) -> tuple[Array, Array]:
    """Shift (G, M) and variance (M,) of the last entries of a normal vector, given the first K.

    `gap` (G, K) is what was measured minus its mean; `noise` (K,) belongs to the measurements.
    """
    count = len(noise)
    gain = np.linalg.solve(joint[:count, :count] + np.diag(noise), joint[:count, count:])
    left = joint[count:, count:] - joint[:count, count:].T @ gain
    return gap @ gain, np.diag(left)


def by_relatives(pilot: kr.Curve, family: Relatives, n: Array) -> tuple[Reference, float]:
    """The law and the evidence of Eq. (eq:related), one hypothesis after the other."""
    last, y, kin = float(pilot.sizes[-1]), np.log(pilot.means), family.kinship
    sizes = np.concatenate([pilot.sizes, n, [last]])
    u = np.log2(sizes / last)
    centres, spreads = [], []
    for shape in family.shapes:
        mean, variance = shape.moments(sizes)
        centre = shape.weight @ mean
        drift = np.array([walk.drift for walk in shape.walks])[shape.walk][:, None] ** 2
        ahead = np.maximum(np.log2(sizes / shape.last), 0) ** shape.prior.growth
        spreads.append(shape.weight @ (variance + drift * ahead + (mean - centre) ** 2))
        centres.append(centre - centre[-1])
    groups = [[j] for j in range(len(centres))]
    groups += [list(range(len(centres)))] if len(centres) > 1 else []
    noise = np.maximum(family.variance, kin.least_noise**2)
    weights, means, deviations = [], [], []
    floors = list(zip(kin.floors, kin.floor_weights, strict=True))
    for group, (floor, share) in product(groups, floors):
        fall = np.exp(np.array(centres)[group])
        parts = np.log(floor + (1 - floor) * fall)
        visible = (1 - floor) * fall / (floor + (1 - floor) * fall)
        own = (visible**2 * np.array(spreads)[group]).mean(axis=0) / len(group)
        joint = walk_covariance(u, u, kin.step) + VAGUE
        joint += kin.stretch**2 * np.outer(parts.mean(axis=0), parts.mean(axis=0))
        joint += np.diag(own)
        gap = y - parts.mean(axis=0)[: len(y)]
        covariance = joint[: len(y), : len(y)] + np.diag(noise)
        density = multivariate_normal(np.zeros(len(y)), covariance).logpdf(gap)
        weights.append(np.log(share / len(groups)) + float(density))
        shift, variance = conditioned(joint, noise, gap[None, :])
        means.append((parts.mean(axis=0)[len(y) :] + shift[0])[:-1])
        deviations.append(np.sqrt(variance)[:-1])
    total = float(logsumexp(weights))
    constant = 0.5 * (len(y) * np.log(2 * np.pi) + np.log(VAGUE))
    reference = Reference(np.exp(np.array(weights) - total), np.array(means), np.array(deviations))
    return reference, total + constant


@pytest.mark.parametrize("several", [False, True])
def test_relatives_are_joint_normal_laws(several: bool) -> None:
    pilot = power_pilot(0.02, 0.5, 0.5, noise=0.02, sizes=(16, 32, 64, 128))
    shapes = [power_pilot(0.1, 2.5, 0.5, noise=0.02, sizes=(16, 64, 256, 1024), draw=1)]
    shapes += [power_pilot(0.3, 1.0, 0.8, noise=0.02, sizes=(8, 32, 128, 512), draw=2)] * several
    family = relatives(pilot, tuple(shapes), replace(KINSHIP, step=0.05))
    n = np.array([24.0, 128.0, 300.0, 1024.0, 9000.0])
    reference, evidence = by_relatives(pilot, family, n)
    assert family.evidence == pytest.approx(evidence, abs=1e-4)
    law = family.law(n)
    for p in (0.05, 0.5, 0.95):
        assert reference.under(law.quantile(p)) == pytest.approx(p, abs=1e-3)
    np.testing.assert_allclose(family.centre(n), reference.weight @ reference.mean, atol=1e-4)
    odds = np.exp(family.evidence - family.alone.evidence)
    assert family.trust == pytest.approx(odds / (1 + odds) if odds > 1 else 0.0, abs=1e-6)


def test_the_prior_of_relatives_is_a_law() -> None:
    assert sum(KINSHIP.floor_weights) == pytest.approx(1)
    assert KINSHIP.floors[0] == 0
    assert list(KINSHIP.floors) == sorted(KINSHIP.floors)
    assert KINSHIP.floors[-1] < 1
    # A step of the misfit and a mean's noise are small beside the stretch of the shape.
    assert 0 < KINSHIP.least_noise < KINSHIP.step < KINSHIP.stretch < 1
    assert KINSHIP.believed == 0.5  # evidence alone decides


def test_single_seeds_of_a_pilot_are_as_good_as_a_deviation_of_four_percent() -> None:
    n = [16, 32, 64, 128]
    single = kr.Curve(n, [0.145, 0.108, 0.0825, 0.064])
    relative = power_pilot(0.1, 2.5, 0.5, noise=0.02, sizes=(16, 64, 256, 1024), draw=1)
    assert relatives(single, (relative,)).variance == pytest.approx(0.04**2)
