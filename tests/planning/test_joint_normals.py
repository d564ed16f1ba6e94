"""The planner's laws against joint normal laws that are written out and conditioned in one step.

The references know nothing of the planner's grids and factorisations: a curve's errors at all sizes
are one normal vector whose level has a vague prior, and SciPy gives its density.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import beta, chi2, multivariate_normal, norm

import korisk as kr
from korisk.planning.extrapolation import Measured
from korisk.planning.futures.posterior import posterior
from korisk.planning.futures.prior import Kind, Prior
from korisk.planning.futures.related import KINSHIP, Relatives, relatives
from pilots import power_pilot

Array = NDArray[np.float64]

VAGUE = 1e5  # variance of a level about which nothing is known, beside noise of 1e-4
PRIOR = Prior(
    kinds=(
        Kind(
            weight=0.7,
            rate_median=0.5,
            rate_spread=0.6,
            no_floor=0.3,
            floor_shape=(1.5, 1.2),
            drift_weights=(0.8, 0.2),
            shift_weights=(0.5, 0.2),
            cap_weights=(0.3,),
        ),
        Kind(
            weight=0.3,
            rate_median=1.1,
            rate_spread=0.3,
            no_floor=0.1,
            floor_shape=(3.0, 1.0),
            drift_weights=(0.3, 0.7),
            shift_weights=(2.0, 1.0),  # weights of shifts and caps are relative
            cap_weights=(1.0,),
        ),
    ),
    drifts=(0.02, 0.1),
    shifts=(0.0, 0.5),
    caps=(0.4,),
    noises=(0.01, 0.04),
    recalibration=(-0.1, 1.1),
)


@dataclass(frozen=True)
class Reference:
    """Weighted curves; for each, the mean and deviation of the log error at some sizes."""

    weight: Array  # (G,)
    mean: Array  # (G, M)
    deviation: Array  # (G, M)

    def under(self, log_error: Array) -> Array:
        return np.asarray(self.weight @ ndtr((log_error - self.mean) / self.deviation))


def walk_covariance(u: Array, v: Array, step: float, growth: float = 1.0) -> Array:
    """Covariance of a random walk from u = 0 over doublings, with independent sides."""
    distance = np.minimum(np.abs(u)[:, None], np.abs(v)[None, :])
    ahead = (u[:, None] > 0) & (v[None, :] > 0)
    behind = (u[:, None] < 0) & (v[None, :] < 0)
    return step**2 * np.where(ahead, distance**growth, np.where(behind, distance, 0.0))


def conditioned(joint: Array, noise: Array, gap: Array) -> tuple[Array, Array]:
    """Shift (G, M) and variance (M,) of the last entries of a normal vector, given the first K.

    `gap` (G, K) is what was measured minus its mean; `noise` (K,) belongs to the measurements.
    """
    count = len(noise)
    gain = np.linalg.solve(joint[:count, :count] + np.diag(noise), joint[:count, count:])
    left = joint[count:, count:] - joint[:count, count:].T @ gain
    return gap @ gain, np.diag(left)


def brute_force(curve: kr.Curve, prior: Prior, n: Array) -> tuple[Reference, dict[str, float]]:
    """All curves of a fine grid of rates and floors, for every drift, noise, shift and cap."""
    log_rate = np.linspace(np.log(0.02), np.log(2.5), 121)
    edges = np.linspace(0, 1, 251)
    floors = np.append(0.0, 0.5 * (edges[1:] + edges[:-1]))
    rates, phis = (axis.ravel() for axis in np.meshgrid(np.exp(log_rate), floors, indexing="ij"))
    last, y = float(curve.sizes[-1]), np.log(curve.means)
    u = np.log2(curve.sizes / last)
    sizes = np.concatenate([curve.sizes, n])
    weights, means, deviations, tail, drifts, noises = [], [], [], [], [], []
    bends = [(s, 0.0) for s in prior.shifts] + [(0.0, c) for c in prior.caps]
    for (d, drift), noise, (b, (shift, cap)) in product(
        enumerate(prior.drifts), prior.noises, enumerate(bends)
    ):
        mass = np.zeros((len(log_rate), len(floors)))
        for kind in prior.kinds:
            bend = np.array(kind.shift_weights + kind.cap_weights)
            floor = (1 - kind.no_floor) * np.diff(beta.cdf(edges, *kind.floor_shape))
            mass += (
                kind.weight * kind.drift_weights[d] * bend[b] / bend.sum()
                * norm.pdf(log_rate, np.log(kind.rate_median), kind.rate_spread)[:, None]
                * np.append(kind.no_floor, floor)
            )  # fmt: skip
        x = sizes / last
        g = ((x + shift) / (1 + shift)) ** -rates[:, None]
        phi = phis[:, None]
        shape = np.log((phi * (1 - cap) + (1 - phi) * g) / (1 - cap + cap * (1 - phi) * g))
        gap = y - shape[:, : len(y)]
        variance = np.full(len(y), noise**2)
        covariance = walk_covariance(u, u, drift) + np.diag(variance) + VAGUE
        density = multivariate_normal(np.zeros(len(y)), covariance).logpdf(gap)
        places = np.log2(sizes / last)
        inside = walk_covariance(places, places, drift) + VAGUE
        beyond = drift**2 * np.maximum(np.log2(n / last), 0) ** prior.growth
        inside[len(y) :, len(y) :] -= np.diag(drift**2 * np.maximum(np.log2(n / last), 0))
        pull, spread = conditioned(inside, variance, gap)
        rest = np.linalg.inv(covariance)
        misfit = np.einsum("gi,ij,gj->g", gap, rest, gap)
        for stretch, share in zip(prior.stretches, prior.stretch_weights, strict=True):
            weights.append(
                np.log(np.maximum(mass.ravel(), 1e-300))
                + density
                + np.log(share / len(prior.noises))
            )
            means.append(shape[:, len(y) :] + pull)
            deviations.append(np.broadcast_to(np.sqrt(spread + stretch**2 * beyond), pull.shape))
            tail.append(chi2.sf(misfit, len(y) - 3))
            drifts.append(np.full(len(rates), drift))
            noises.append(np.full(len(rates), noise**2))
    log_weight = np.concatenate(weights)
    total = float(logsumexp(log_weight))
    weight = np.exp(log_weight - total)
    heavy = weight > 1e-12
    facts = {
        "evidence": total + float(np.log(log_rate[1] - log_rate[0])),
        "misfit": float(weight @ np.concatenate(tail)),
        "roughness": float(weight @ np.concatenate(drifts)),
        "noise": float(np.sqrt(weight @ np.concatenate(noises))),
    }
    mean, deviation = np.concatenate(means)[heavy], np.concatenate(deviations)[heavy]
    return Reference(weight[heavy], mean, deviation), facts


@pytest.mark.parametrize(
    "errors",
    [
        [0.21, 0.145, 0.107, 0.077, 0.0605, 0.047],  # falls on
        [0.31, 0.205, 0.151, 0.13, 0.1205, 0.117],  # levels off
    ],
)
def test_the_posterior_is_the_sum_over_all_curves(errors: list[float]) -> None:
    curve = kr.Curve([16, 32, 64, 128, 256, 512], errors)
    grid = posterior(curve, PRIOR)
    n = np.array([24.0, 200.0, 512.0, 1024.0, 16384.0])
    reference, facts = brute_force(curve, PRIOR, n)
    # A constant that all pilots share: of K - 1 normal densities, and of the vague level.
    constant = 0.5 * (len(errors) * np.log(2 * np.pi) + np.log(VAGUE))
    # The planner's grid has twelve rates and floors per walk: about a percent of probability.
    assert grid.evidence == pytest.approx(facts["evidence"] + constant, abs=0.03)
    for name, tolerance in (("misfit", 0.03), ("roughness", 0.001), ("noise", 0.0005)):
        assert getattr(grid, name) == pytest.approx(facts[name], abs=tolerance), name
    law = grid.law(n)
    for p in (0.05, 0.3, 0.5, 0.8, 0.95):
        raw = reference.under(law.quantile(p))
        assert ndtr(-0.1 + 1.1 * ndtri(raw)) == pytest.approx(p, abs=0.01)
    centre = reference.weight @ reference.mean
    np.testing.assert_allclose(grid.centre(n), centre, atol=0.01)


# --- Relatives -----------------------------------------------------------------------------------


def by_relatives(pilot: kr.Curve, made: Relatives, n: Array) -> tuple[Reference, float]:
    """The law and the evidence of Eq. (eq:related), one hypothesis after the other."""
    last, y, kin = float(pilot.sizes[-1]), np.log(pilot.means), made.kinship
    sizes = np.concatenate([pilot.sizes, n, [last]])
    u = np.log2(sizes / last)
    centres, spreads = [], []
    for shape in made.shapes:
        mean, variance = shape.moments(sizes)
        centre = shape.weight @ mean
        drift = np.array([walk.drift for walk in shape.walks])[shape.walk][:, None] ** 2
        ahead = np.maximum(np.log2(sizes / shape.last), 0) ** shape.prior.growth
        spreads.append(shape.weight @ (variance + drift * ahead + (mean - centre) ** 2))
        centres.append(centre - centre[-1])
    groups = [[j] for j in range(len(centres))]
    groups += [list(range(len(centres)))] if len(centres) > 1 else []
    noise = np.maximum(made.variance, kin.least_noise**2)
    weights, means, deviations = [], [], []
    steps = list(zip(kin.walks, kin.walk_weights, strict=True))
    floors = list(zip(kin.floors, kin.floor_weights, strict=True))
    for group, (step, p), (floor, q) in product(groups, steps, floors):
        fall = np.exp(np.array(centres)[group])
        parts = np.log(floor + (1 - floor) * fall)
        visible = (1 - floor) * fall / (floor + (1 - floor) * fall)
        own = (visible**2 * np.array(spreads)[group]).mean(axis=0) / len(group)
        joint = walk_covariance(u, u, step) + VAGUE
        joint += kin.stretch**2 * np.outer(parts.mean(axis=0), parts.mean(axis=0))
        away = parts - parts.mean(axis=0)
        joint += kin.contrast**2 * away.T @ away + np.diag(own)
        gap = y - parts.mean(axis=0)[: len(y)]
        covariance = joint[: len(y), : len(y)] + np.diag(noise)
        density = multivariate_normal(np.zeros(len(y)), covariance).logpdf(gap)
        weights.append(np.log(p * q / len(groups)) + float(density))
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
    made = relatives(pilot, tuple(shapes), replace(KINSHIP, contrast=0.4, walks=(0.01, 0.05)))
    n = np.array([24.0, 128.0, 300.0, 1024.0, 9000.0])
    reference, evidence = by_relatives(pilot, made, n)
    assert made.evidence == pytest.approx(evidence, abs=1e-4)
    law = made.law(n)
    for p in (0.05, 0.5, 0.95):
        assert reference.under(law.quantile(p)) == pytest.approx(p, abs=1e-3)
    np.testing.assert_allclose(made.centre(n), reference.weight @ reference.mean, atol=1e-4)
    odds = np.exp(made.evidence - made.alone.evidence)
    assert made.trust == pytest.approx(odds / (1 + odds) if odds > 1 else 0.0, abs=1e-6)


def test_the_prior_of_relatives_is_a_law() -> None:
    assert sum(KINSHIP.walk_weights) == pytest.approx(1)
    assert sum(KINSHIP.floor_weights) == pytest.approx(1)
    assert KINSHIP.floors[0] == 0
    assert list(KINSHIP.floors) == sorted(KINSHIP.floors)
    assert KINSHIP.floors[-1] < 1
    # A step of the misfit and a mean's noise are small beside the stretch of the shape.
    assert 0 < KINSHIP.walks[0] < KINSHIP.walks[-1] < KINSHIP.stretch < 1
    assert 0 < KINSHIP.least_noise < KINSHIP.contrast < KINSHIP.stretch
    assert (KINSHIP.believed, KINSHIP.least_odds) == (0.5, 0)  # evidence alone decides


def test_single_seeds_of_a_pilot_are_as_good_as_a_deviation_of_four_percent() -> None:
    n = [16, 32, 64, 128]
    single = kr.Curve(n, [0.145, 0.108, 0.0825, 0.064])
    relative = power_pilot(0.1, 2.5, 0.5, noise=0.02, sizes=(16, 64, 256, 1024), draw=1)
    assert relatives(single, (relative,)).variance == pytest.approx(0.04**2)


# --- Between measured sizes ----------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_between_sizes_the_fall_follows_a_beta_law(share: float) -> None:
    """Eq. (eq:between), by simulation of the beta law with SciPy's quantiles."""
    n, logs = np.array([16, 64, 256, 1024]), np.log([0.8, 0.5, 0.2, 0.15])
    measured = Measured(kr.Curve(n, np.exp(logs)), noise=0.02)
    slope = np.diff(logs) / np.log(4)
    rough = max(abs(slope[1] - slope[0]), abs(slope[2] - slope[1])) / abs(slope[1])
    concentration = (1 / rough) ** 2 - 1  # half way, the deviation of F is half the roughness
    if concentration < 0.02:
        concentration = 0.02
    step = 1 / (1 + concentration)
    place = (1 - step) * share + step * 2 / np.pi * np.arcsin(np.sqrt(share))
    levels = (np.arange(4_000) + 0.5) / 4_000
    fallen = beta.ppf(levels, concentration * place, concentration * (1 - place))
    mean = (1 - fallen) * logs[1] + fallen * logs[2]
    deviation = 0.02 * np.sqrt((1 - fallen) ** 2 + fallen**2)
    law = measured.law(np.array([64 * 4**share]))
    for error in np.linspace(logs[2] - 0.02, logs[1] + 0.02, 9):
        truth = float(np.mean(ndtr((error - mean) / deviation)))
        # Sixteen quantiles represent the law: each has a weight of 1/16.
        assert law.under(np.array([error]))[0] == pytest.approx(truth, abs=1 / 32)
