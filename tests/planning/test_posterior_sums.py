"""The grid posterior against plain sums over shifts, upper ends, kinds, drifts and noises."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import beta, chi2, norm

import korisk as kr
from korisk.curves.noise import relative_variance
from korisk.planning.futures.law import Law, normals
from korisk.planning.futures.posterior import heavy, log_shape, posterior
from korisk.planning.futures.prior import Kind, Prior
from pilots import power_pilot

Array = NDArray[np.float64]

FIRST = Kind(
    weight=0.7,
    rate_median=0.6,
    rate_spread=0.5,
    no_floor=0.3,
    floor_shape=(1.5, 2.0),
    drift_weights=(0.6, 0.4),
    shift_weights=(0.5, 0.2),
    cap_weights=(0.2, 0.3),
)
SECOND = replace(FIRST, weight=0.3, rate_median=1.2, no_floor=0.6, floor_shape=(3.0, 1.0))
FEW = Prior(
    kinds=(FIRST, replace(SECOND, drift_weights=(0.1, 0.9), cap_weights=(0.1, 0.1))),
    drifts=(0.02, 0.08),
    shifts=(0.0, 0.5),
    caps=(0.3, 0.7),
    stretches=(1.0, 3.0),
    stretch_weights=(0.8, 0.4),
    growth=1.2,
    noises=(0.03, 0.1),
)


def shape_of(rate: Array, floor: Array, shift: float, cap: float, x: Array) -> Array:
    """Eq. (eq:posterior) with g = ((x + s) / (1 + s))^-b."""
    g = ((x + shift) / (1 + shift)) ** -rate
    return np.log((floor * (1 - cap) + (1 - floor) * g) / (1 - cap + cap * (1 - floor) * g))


def summed(
    curve: kr.Curve, prior: Prior, noises: Sequence[Array], n: float, errors: Array
) -> tuple[float, Array]:
    """The log evidence, and P(error at n <= each of errors), over a fine even grid."""
    rate_edges = np.linspace(np.log(0.02), np.log(2.5), 91)
    floor_edges = np.linspace(0, 1, 121)
    rates = np.exp(0.5 * (rate_edges[1:] + rate_edges[:-1]))[:, None, None]
    floors = np.append(0.0, 0.5 * (floor_edges[1:] + floor_edges[:-1]))[None, :, None]
    last = float(curve.sizes[-1])
    x, back = curve.sizes / last, np.log2(last / curve.sizes)
    log_weights, under = [], []
    shapes = [*((s, 0.0) for s in prior.shifts), *((0.0, c) for c in prior.caps)]
    shares = np.array(prior.stretch_weights) / sum(prior.stretch_weights)
    for index, drift in enumerate(prior.drifts):
        for noise in noises:
            inverse = np.linalg.inv(np.diag(noise) + drift**2 * np.minimum.outer(back, back))
            precision = inverse.sum()
            constant = 0.5 * np.linalg.slogdet(inverse)[1] - 0.5 * math.log(precision)
            constant -= math.log(len(noises))
            for place, (shift, cap) in enumerate(shapes):
                mass = np.zeros((rates.size, floors.size))
                for kind in prior.kinds:
                    places = [*kind.shift_weights, *kind.cap_weights]
                    law = norm(math.log(kind.rate_median), kind.rate_spread)
                    floor = np.diff(beta.cdf(floor_edges, *kind.floor_shape))
                    floor = np.append(kind.no_floor, (1 - kind.no_floor) * floor)
                    share = kind.weight * kind.drift_weights[index] * places[place] / sum(places)
                    mass += share * np.outer(np.diff(law.cdf(rate_edges)), floor)
                gap = np.log(curve.means) - shape_of(rates, floors, shift, cap, x)
                level = (gap @ inverse).sum(axis=-1) / precision
                rest = gap - level[..., None]
                misfit = np.einsum("rfi,ij,rfj->rf", rest, inverse, rest)
                log_weights.append(np.log(mass) + constant - 0.5 * misfit)
                beyond = shape_of(rates, floors, shift, cap, np.array([n / last]))[..., 0]
                ahead = math.log2(n / last) ** prior.growth
                odds = np.zeros((*level.shape, len(errors)))
                for share, stretch in zip(shares, prior.stretches, strict=True):
                    spread = math.sqrt(1 / precision + (stretch * drift) ** 2 * ahead)
                    away = np.log(errors) - (level + beyond)[..., None]
                    odds += share * norm.cdf(away / spread)
                under.append(odds)
    evidence = float(logsumexp(log_weights))
    weights = np.exp(np.array(log_weights) - evidence)
    return evidence, np.einsum("wrf,wrfe->e", weights, np.array(under))


@pytest.mark.parametrize("seeds", [1, 4])
def test_every_part_of_the_prior_is_summed_over(seeds: int) -> None:
    """Pilots with noise of their own, and single seeds, for which two noises are equally likely."""
    curve = power_pilot(0.02, 0.5, 0.7, noise=0.1, seeds=seeds)
    variance = relative_variance(curve)
    ones = np.ones(len(curve.sizes))
    noises = [noise**2 * ones for noise in FEW.noises] if variance is None else [variance]
    result = posterior(curve, FEW)
    assert result.lasting == pytest.approx(0, abs=1e-3)
    levels = (0.05, 0.3, 0.7, 0.95)
    for n in (1024.0, 16384.0):
        errors = np.array([result.quantile(np.array([n]), p)[0] for p in levels])
        evidence, odds = summed(curve, FEW, noises, n, errors)
        np.testing.assert_allclose(odds, levels, atol=0.012)
        # Grids of cells differ by a few per cent in the evidence.
        assert result.evidence == pytest.approx(evidence, abs=0.08)


@pytest.mark.parametrize("kind", [FIRST, SECOND])
def test_a_pilot_that_says_nothing_leaves_the_prior(kind: Kind) -> None:
    """Single seeds that deviate by a factor of e^100: every curve explains them as well."""
    prior = replace(FEW, kinds=(replace(kind, weight=1.0),), noises=(100.0,))
    fitted = posterior(kr.Curve([16, 32, 64, 128], [0.4, 0.2, 0.1, 0.05]), prior)
    weight = fitted.weight  # 999 in 1000 of it are used, on cells of a twelfth
    assert weight[fitted.floor == 0].sum() == pytest.approx(kind.no_floor, abs=0.003)
    mean_floor = (1 - kind.no_floor) * beta.mean(*kind.floor_shape)
    assert weight @ fitted.floor == pytest.approx(mean_floor, rel=0.02)
    square = (1 - kind.no_floor) * beta.moment(2, *kind.floor_shape)
    assert weight @ fitted.floor**2 == pytest.approx(square, rel=0.02)
    law = norm(math.log(kind.rate_median), kind.rate_spread)
    inside = law.cdf(math.log(2.5)) - law.cdf(math.log(0.02))
    assert weight @ np.log(fitted.rate) == pytest.approx(
        law.expect(lambda x: x, lb=math.log(0.02), ub=math.log(2.5)) / inside, abs=0.02
    )
    shares = np.array([*kind.shift_weights, *kind.cap_weights])
    for place, (shift, cap) in enumerate(((0.0, 0.0), (0.5, 0.0), (0.0, 0.3), (0.0, 0.7))):
        share = weight[(fitted.shift == shift) & (fitted.cap == cap)].sum()
        assert share == pytest.approx(shares[place] / shares.sum(), abs=0.003)
    for drift, share in zip((0.02, 0.08), kind.drift_weights, strict=True):
        assert weight[fitted.drift == drift].sum() == pytest.approx(share, abs=0.003)


def test_curves_have_their_formula_and_are_one_at_the_last_size() -> None:
    rng = np.random.default_rng(1)
    rate, floor, shift, cap = rng.uniform(0.1, 0.9, (4, 5))
    x = np.array([0.1, 1.0, 30.0])
    expected = [shape_of(*row, x) for row in zip(rate, floor, shift, cap, strict=True)]
    np.testing.assert_allclose(log_shape(rate, floor, shift, cap, x), expected, rtol=1e-12)
    assert log_shape(rate, floor, shift, cap, np.ones(1)) == pytest.approx(0, abs=1e-15)


def test_the_moments_of_a_posterior_are_those_of_its_walks() -> None:
    result = posterior(power_pilot(noise=0.1, seeds=1), FEW)
    variances = np.array([walk.noise.mean() for walk in result.walks])[result.walk]
    assert len(result.walks) == 4
    assert [walk.drift for walk in result.walks] == [0.02, 0.02, 0.08, 0.08]
    assert result.noise == pytest.approx(math.sqrt(result.weight @ variances))
    drifts = np.array([walk.drift for walk in result.walks])[result.walk]
    assert result.roughness == pytest.approx(result.weight @ drifts)
    n = np.array([1024.0, 4096.0])
    mean, _ = result.moments(n)
    np.testing.assert_allclose(result.centre(n), result.weight @ mean)
    np.testing.assert_allclose(result.ahead(np.array([100.0, 512.0, 4096.0])), [0, 0, 3**1.2])


def test_the_law_beyond_the_pilot_is_a_mixture_of_usual_and_larger_steps() -> None:
    """Of all curves, with the seeds' lasting effect."""
    fitted = replace(posterior(power_pilot(noise=0.05, seeds=3), FEW), lasting=0.003)
    n = np.array([300.0, 700.0, 9000.0])
    mean, variance = fitted.moments(n)
    errors = fitted.centre(n) + np.array([-0.1, 0.05, 0.2])
    total = np.zeros(3)
    for share, stretch in ((0.8 / 1.2, 1.0), (0.4 / 1.2, 3.0)):
        ahead = np.maximum(np.log2(n / 512), 0) ** 1.2
        square = variance + 0.003 + (stretch * fitted.drift[:, None]) ** 2 * ahead
        total += share * fitted.weight @ norm.cdf((errors - mean) / np.sqrt(square))
    np.testing.assert_allclose(fitted.law(n).under(errors), total, rtol=1e-9)
    shown = repr(fitted)
    assert shown.startswith("Posterior(last=512.0, weight=array(")
    assert not any(f"{name}=" in shown for name in ("walks", "pilot", "prior"))


@pytest.mark.parametrize(("sizes", "freedom"), [(3, 1), (4, 1), (5, 2), (6, 3)])
def test_the_misfit_is_the_p_value_of_a_chi_squared_distance(sizes: int, freedom: int) -> None:
    """Degrees of freedom: sizes less level, rate and floor, at least one."""
    n = 16 * 2 ** np.arange(sizes)
    factors = np.array([1.1, 0.85, 1.12, 0.9, 1.1, 0.93])[:sizes]
    fitted = posterior(kr.Curve(n, 3.0 * n**-0.5 * factors), FEW)
    distances = [
        np.square(fitted.walks[walk].inverse @ residual).sum()
        for walk, residual in zip(fitted.walk, fitted.residuals, strict=True)
    ]
    expected = fitted.weight @ chi2.sf(distances, freedom)
    assert 0.01 < fitted.misfit < 0.99
    assert fitted.misfit == pytest.approx(expected)


def test_the_fewest_curves_that_carry_999_in_1000_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = power_pilot(noise=0.05, seeds=3)
    few = posterior(curve, FEW)
    assert len(posterior(power_pilot(seeds=1)).weight) == 1500, "at most this many"
    monkeypatch.setattr("korisk.planning.futures.posterior._MASS", 1.0)
    monkeypatch.setattr("korisk.planning.futures.posterior._KEPT", 10**6)
    posterior.cache_clear()
    every = posterior(curve, FEW)
    posterior.cache_clear()
    number = len(few.weight)
    reached = np.cumsum(every.weight)
    assert reached[number - 2] < 0.999 <= reached[number - 1]
    np.testing.assert_allclose(few.weight, every.weight[:number] / reached[number - 1])
    assert heavy(np.array([0.0, 2.1e-3, 1.0, 1.9e-3])) == (0, 4)


def test_two_usable_sizes_are_enough_and_one_is_not() -> None:
    """Sizes at rounding are left out, unless fewer than two would be left."""
    two = posterior(kr.Curve([16, 32, 64, 128], [1.0, 0.5, 1e-17, 1e-17]), FEW)
    assert (two.last, len(two.pilot.x)) == (32.0, 2)
    alone = posterior(kr.Curve([16, 32, 64], [1.0, 1e-17, 1e-17]), FEW)
    assert (alone.last, len(alone.pilot.x)) == (64.0, 3)


# --- Laws ----------------------------------------------------------------------------------------


def counted(law: Law) -> tuple[Law, list[Array]]:
    """The law, and a list of the errors at which it was asked for."""
    calls: list[Array] = []

    def under(log_error: Array) -> Array:
        calls.append(log_error)
        return law.under(log_error)

    return Law(under, law.low, law.high), calls


@pytest.mark.parametrize("p", [0.001, 0.05, 0.5, 0.9, 0.999])
def test_a_quantile_takes_about_ten_steps(p: float) -> None:
    """A normal law, whose score is linear, and mixtures, to 1e-7 of the log error."""
    rng = np.random.default_rng(0)
    normal = normals(np.ones(1), np.array([[0.3, -2.0]]), np.array([[0.1, 0.5]]))
    law, calls = counted(normal)
    assert law.quantile(p) == pytest.approx(norm.ppf(p, [0.3, -2.0], [0.1, 0.5]), abs=2e-7)
    assert 3 <= len(calls) <= 10
    np.testing.assert_allclose(calls[0], [0.3, -2.0], atol=1e-12)  # the middle of the support
    weight, mean = rng.dirichlet(np.ones(6)), rng.normal(0, 1, (6, 3))
    law, calls = counted(normals(weight, mean, rng.uniform(0.05, 1.5, (6, 3))))
    quantile = law.quantile(p)
    assert len(calls) <= 16
    assert law.under(quantile - 3e-7).max() < p < law.under(quantile + 3e-7).min() + 1e-12


def test_a_step_is_found_to_the_last_tolerance() -> None:
    """Odds that jump have no slope to follow: bisection finds them, within sixty steps."""
    law, calls = counted(
        Law(lambda e: np.where(e < 0.123456, 0.0, 1.0), np.full(2, -40.0), np.full(2, 50.0))
    )
    assert law.quantile(0.3) == pytest.approx(0.123456, abs=2e-7)
    assert len(calls) <= 60


def test_laws_end_nine_deviations_out_and_zero_deviations_are_steps() -> None:
    mean, deviation = np.array([[0.0, 1.0], [2.0, -1.0]]), np.array([[0.1, 0.2], [0.3, 0.0]])
    law = normals(np.array([0.25, 0.75]), mean, deviation)
    np.testing.assert_allclose(law.low, [-0.9, -1.0])
    np.testing.assert_allclose(law.high, [4.7, 2.8])
    assert law.under(np.array([0.6, -1 + 1e-9])) == pytest.approx([0.25, 0.75], abs=1e-5)
    sure = normals(np.array([0.7, 0.7]), mean, deviation)
    assert sure.under(np.array([9.0, 9.0])).tolist() == [1, 1], "no probability exceeds one"


def test_inside_the_pilot_curves_are_kriged_with_an_unknown_level() -> None:
    """Mean and variance of a random walk given noisy values, by the textbook's formulas."""
    result = posterior(power_pilot(noise=0.05, seeds=3), FEW)
    n = np.array([40.0, 64.0, 300.0, 512.0, 2048.0])
    mean, variance = result.moments(n)
    pilot = result.pilot
    away = np.maximum(-np.log2(n / result.last), 0)
    for index in (0, 5, len(result.weight) - 1):
        walk = result.walks[result.walk[index]]
        distances = pilot.doublings
        covariance = np.diag(walk.noise) + walk.drift**2 * np.minimum.outer(distances, distances)
        near = walk.drift**2 * np.minimum.outer(distances, away)
        one = np.ones(len(distances))
        pull = np.linalg.solve(covariance, near)
        precision = one @ np.linalg.solve(covariance, one)
        row = (result.rate, result.floor, result.shift, result.cap)
        rate, floor, shift, cap = (values[index] for values in row)
        at_pilot = shape_of(rate, floor, shift, cap, pilot.x)
        level = one @ np.linalg.solve(covariance, pilot.y - at_pilot) / precision
        assert result.level[index] == pytest.approx(level)
        rest = pilot.y - at_pilot - level
        expected = level + shape_of(rate, floor, shift, cap, n / result.last) + rest @ pull
        np.testing.assert_allclose(mean[index], expected, rtol=1e-9)
        spread = walk.drift**2 * away - np.einsum("km,km->m", near, pull)
        spread += (1 - one @ pull) ** 2 / precision
        np.testing.assert_allclose(variance[index], spread, rtol=1e-6)
        # The walk's factors are those of its covariance.
        np.testing.assert_allclose(walk.inverse @ covariance @ walk.inverse.T, np.eye(6), atol=1e-9)
        assert walk.precision == pytest.approx(precision)
        determinant = -0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * math.log(precision)
        assert walk.log_determinant == pytest.approx(determinant)
