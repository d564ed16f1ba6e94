"""The grid posterior: against a plain numerical integration, and the laws it must keep."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, norm

import korisk as kr
from korisk.curves.noise import relative_variance
from korisk.planning.futures.posterior import MOST_SIZES, Posterior, heavy, posterior, thinned
from korisk.planning.futures.prior import Kind, Prior, prior_at
from korisk.planning.recommend import Chances
from pilots import FC_128, N_128, power_pilot, scaled

Array = NDArray[np.float64]

# One step of the walk, no shift, no upper end: few enough parameters to integrate by plain sums.
PLAIN = Prior(
    kinds=(
        Kind(
            weight=1.0,
            rate_median=0.55,
            rate_spread=0.9,
            no_floor=0.05,
            floor_shape=(1.2, 0.5),
            drift_weights=(1.0,),
            shift_weights=(1.0,),
            cap_weights=(),
        ),
    ),
    drifts=(0.05,),
    shifts=(0.0,),
    caps=(),
    stretches=(1.0,),
    stretch_weights=(1.0,),
    growth=1.0,
)


def integrated(curve: kr.Curve, n: float, errors: Array, prior: Prior) -> Array:
    """P(error at n <= each of errors), by sums over a fine grid of rate, floor and level."""
    rates = np.exp(np.linspace(np.log(0.02), np.log(2.5), 241))
    floors = np.append(0.0, np.linspace(0, 1, 402)[1:-1])
    (kind,) = prior.kinds
    rate_mass = norm.pdf(np.log(rates), np.log(kind.rate_median), kind.rate_spread)
    floor_mass = beta.pdf(floors[1:], *kind.floor_shape)
    floor_mass *= (1 - kind.no_floor) / floor_mass.sum()
    floor_mass = np.append(kind.no_floor, floor_mass)
    sizes, last = curve.sizes.astype(float), float(curve.sizes[-1])
    back = np.log2(last / sizes)
    variance = relative_variance(curve)
    assert variance is not None
    covariance = np.diag(variance) + prior.drifts[0] ** 2 * np.minimum.outer(back, back)
    precision = np.linalg.inv(covariance)
    ones = np.ones(len(sizes))
    total, under = 0.0, np.zeros(len(errors))
    for b, mass in zip(rates, rate_mass, strict=True):
        shape = np.log(floors[:, None] + (1 - floors[:, None]) * (sizes / last) ** -b)
        gap = np.log(curve.means) - shape
        level = gap @ precision @ ones / (ones @ precision @ ones)
        rest = gap - level[:, None]
        weight = mass * floor_mass * np.exp(-0.5 * np.einsum("gi,ij,gj->g", rest, precision, rest))
        centre = level + np.log(floors + (1 - floors) * (n / last) ** -b)
        spread = np.sqrt(1 / (ones @ precision @ ones) + prior.drifts[0] ** 2 * np.log2(n / last))
        total += weight.sum()
        under += weight @ norm.cdf((np.log(errors)[None, :] - centre[:, None]) / spread)
    return np.asarray(under / total)


@pytest.mark.parametrize("noise", [0.08, 0.01])
@pytest.mark.parametrize("drift", [0.05, 0.01])
@pytest.mark.parametrize("n", [1024.0, 8192.0])
def test_the_closing_grid_integrates_as_a_fine_one_does(
    noise: float, drift: float, n: float
) -> None:
    curve = power_pilot(noise=noise)
    prior = replace(PLAIN, drifts=(drift,))
    made = posterior(curve, prior)
    levels = [0.05, 0.5, 0.95]
    quantiles = np.array([made.quantile(np.array([n]), p)[0] for p in levels])
    assert integrated(curve, n, quantiles, prior) == pytest.approx(levels, abs=0.012)


def test_several_steps_of_the_walk_are_mixed_by_their_evidence() -> None:
    """A finer grid for every walk changes nothing, however much their steps differ."""
    n = np.array([1024.0, 2048, 4096, 32768])
    for noise in (0.003, 0.01, 0.05):
        curve = power_pilot(0.1, 1.0, 0.5, noise=noise)
        coarse = posterior(curve).law(n).under(np.full(4, np.log(0.1 + 3000**-0.5)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("korisk.planning.futures.posterior._CELLS", 40)
            patch.setattr("korisk.planning.futures.posterior._KEPT", 10**6)
            fine = posterior(curve).law(n).under(np.full(4, np.log(0.1 + 3000**-0.5)))
        assert coarse == pytest.approx(fine, abs=0.006)


def test_answers_move_smoothly_with_the_pilot() -> None:
    n = np.array([10, 20, 40, 80, 160])
    found = [
        posterior(kr.Curve(n, 0.1 + n**-b)).law(np.array([640.0])).under(np.log([0.1 + 1000**-b]))
        for b in np.linspace(0.48, 0.5, 9)
    ]
    assert np.ptp(np.diff(found, axis=0)) < 0.01


@pytest.mark.parametrize(
    ("floor", "scale", "rate"), [(0.02, 0.5, 0.5), (0.01, 3.0, 1.0), (0.0, 0.4, 0.25)]
)
def test_a_clean_curve_is_extrapolated(floor: float, scale: float, rate: float) -> None:
    """Exactly, where no drift is allowed for; else within what the band allows."""
    n, far = np.array([16, 32, 64, 128, 256, 512]), np.array([1024.0, 4096.0])
    curve, truth = kr.Curve(n, floor + scale * n**-rate), floor + scale * far**-rate
    exact = posterior(curve, replace(PLAIN, drifts=(1e-5,), noises=(1e-5,)))
    assert exact.quantile(far, 0.5) == pytest.approx(truth, rel=1e-3)
    made = posterior(curve)
    assert made.quantile(far, 0.5)[0] == pytest.approx(truth[0], rel=0.05)
    assert ((made.quantile(far, 0.05) < truth) & (truth < made.quantile(far, 0.95))).all()


@pytest.mark.parametrize("factor", [1e-80, 0.3, 1e80])
def test_scaling_errors_scales_quantiles(factor: float) -> None:
    curve, n = power_pilot(), np.array([300.0, 900.0, 9000.0])
    plain, larger = posterior(curve), posterior(scaled(curve, factor))
    assert larger.quantile(n, 0.3) == pytest.approx(factor * plain.quantile(n, 0.3), rel=1e-5)


def test_bands_widen_with_every_doubling_beyond_the_pilot() -> None:
    made = posterior(power_pilot())
    n = 512 * np.array([1.0, 2, 4, 8, 16, 32, 64])
    width = np.log(made.quantile(n, 0.95) / made.quantile(n, 0.05))
    assert (np.diff(width) > 0).all()


def test_within_the_pilot_the_band_holds_the_means() -> None:
    curve = power_pilot(seeds=20)
    made = posterior(curve)
    n = curve.sizes.astype(float)
    assert (made.quantile(n, 0.01) < curve.means).all()
    assert (curve.means < made.quantile(n, 0.99)).all()


def test_more_seeds_narrow_the_band() -> None:
    n = np.array([2048.0])

    def width(seeds: int, draw: int) -> float:
        made = posterior(power_pilot(seeds=seeds, noise=0.2, draw=draw))
        return float(np.log(made.quantile(n, 0.95) / made.quantile(n, 0.05))[0])

    few, many = (np.mean([width(seeds, draw) for draw in range(8)]) for seeds in (3, 48))
    assert many < 0.9 * few


def test_what_seeds_have_at_every_size_is_not_averaged_away_by_more_sizes() -> None:
    """Three seeds that are 10% apart at all N."""
    lasting = []
    for count in (12, 120):
        n = np.unique(np.geomspace(64, 1024, count).round().astype(int))
        noise = np.random.default_rng(1).normal(0, 0.01, (3, len(n)))
        errors = (n**-0.5) * np.exp(np.array([[-0.1], [0.0], [0.1]]) + noise)
        seeds = np.repeat([1, 2, 3], len(n)).tolist()
        lasting.append(posterior(kr.Curve(np.tile(n, 3), errors.ravel(), seeds)).lasting)
    assert lasting[0] > 0.01 / 3  # the variance of a mean of three
    assert lasting[1] == pytest.approx(lasting[0], rel=0.1)


def test_one_seed_is_enough_for_an_answer() -> None:
    made = posterior(kr.Curve(N_128[:4], FC_128[:4]))
    low, middle, high = (made.quantile(np.array([2048.0]), p)[0] for p in (0.05, 0.5, 0.95))
    assert low < FC_128[-1] < high
    assert middle == pytest.approx(FC_128[-1], rel=0.2)


def test_bands_cover_curves_of_a_known_law() -> None:
    """Forty noisy power laws: nine in ten hidden errors lie in the band, give or take."""
    n = np.array([1024.0, 2048.0, 4096.0])
    covered = []
    rng = np.random.default_rng(5)
    for draw in range(40):
        floor, rate = rng.uniform(0, 0.03), rng.uniform(0.3, 0.9)
        made = posterior(power_pilot(floor, 0.5, rate, noise=0.1, draw=draw))
        truth = floor + 0.5 * n**-rate
        covered.append((made.quantile(n, 0.05) <= truth) & (truth <= made.quantile(n, 0.95)))
    assert np.mean(covered) >= 0.85


@pytest.fixture(scope="module")
def made() -> Posterior:
    return posterior(power_pilot())


@pytest.mark.parametrize("prior", [prior_at(512.0), prior_at(2.0**16), prior_at(1e9)])
def test_the_prior_is_a_law(prior: Prior) -> None:
    assert sum(kind.weight for kind in prior.kinds) == pytest.approx(1, abs=0.01)
    assert sum(prior.stretch_weights) == pytest.approx(1, abs=0.01)
    assert len(prior.stretches) == len(prior.stretch_weights)
    for kind in prior.kinds:
        assert sum(kind.drift_weights) == pytest.approx(1)
        for values, weights in (
            (prior.shifts + prior.caps, kind.shift_weights + kind.cap_weights),
            (prior.drifts, kind.drift_weights),
        ):
            assert len(values) == len(weights)
            assert min(weights) > 0
        assert 0 < kind.no_floor < 1
    scales = (prior.shifts[1:], prior.caps, prior.drifts, prior.stretches, prior.noises)
    for scale in scales:  # from small to large
        assert all(0 < small < large for small, large in pairwise(scale))
    assert prior.shifts[0] == 0
    assert prior.caps[-1] < 1
    assert prior.drifts[-1] < 0.5
    assert prior.noises[0] >= prior.least_noise
    assert prior.noises[-1] < 0.5
    assert prior.stretches[0] <= 1 < prior.stretches[-1]


def test_weights_are_a_law(made: Posterior) -> None:
    assert made.weight.sum() == pytest.approx(1)
    assert (np.diff(made.weight) <= 0).all()
    assert ((made.floor >= 0) & (made.floor <= 1)).all()


@pytest.mark.parametrize("p", [1e-4, 0.05, 0.5, 0.95, 0.9999])
def test_a_quantile_is_undercut_with_its_probability(made: Posterior, p: float) -> None:
    n = np.array([40.0, 512.0, 4000.0, 1e6])
    errors = made.quantile(n, p)
    law = made.law(n)
    assert law.under(np.log(errors)) == pytest.approx(p, rel=1e-4)
    assert law.under(law.low) == pytest.approx(0, abs=1e-12)
    assert law.under(law.high) == pytest.approx(1, abs=1e-12)


def test_quantiles_of_the_floor_run_over_all_of_it(made: Posterior) -> None:
    floors = made.floor * np.exp(made.level)
    order = np.argsort(floors, kind="stable")
    floors, weight = floors[order], made.weight[order]
    assert (made.floor_quantile(0.0), made.floor_quantile(1.0)) == (floors[0], floors[-1])
    middle = made.floor_quantile(0.5)
    assert weight[floors < middle].sum() < 0.5 <= weight[floors <= middle].sum()


def test_neighbours_are_averaged_by_their_precision_and_the_last_is_left_alone() -> None:
    """Three sizes in one group: means weigh one over the variance, and precisions add up."""
    doublings = np.array([MOST_SIZES - 1.0, 0.99, 0.5, 0.3, 0.0])
    logs = np.array([4.0, 3.0, 2.0, 1.0, 0.0])
    variance = np.array([1.0, 1.0, 0.5, 0.25, 2.0])
    found = thinned(doublings, logs, variance)
    assert found[0] == pytest.approx([MOST_SIZES - 1.0, (0.99 + 2 * 0.5 + 4 * 0.3) / 7, 0.0])
    assert found[1] == pytest.approx([4.0, (3 + 2 * 2 + 4 * 1) / 7, 0.0])
    assert found[2] == pytest.approx([1.0, 1 / 7, 2.0])


@pytest.mark.parametrize(
    ("mass", "ends"),
    [
        ([0, 0, 1, 1, 0, 0], (1, 5)),  # one cell to spare on either side
        ([1, 0, 0, 0, 0, 0], (0, 2)),
        ([0, 0, 0, 0, 0, 1], (4, 6)),
        ([0, 0, 1, 0.0019, 0, 0], (1, 4)),  # too light to count
        ([0, 0, 1, 0.0021, 0, 0], (1, 5)),
    ],
)
def test_the_grid_closes_in_on_what_is_heavy(mass: list[float], ends: tuple[int, int]) -> None:
    first, last = heavy(np.array(mass, float))
    assert (int(first), int(last)) == ends


@pytest.mark.parametrize(
    ("rising", "level", "where"),
    [
        ([0.0, 0.5, 1.0], 0.5, 16.0),
        ([0.0, 0.5, 1.0], 0.75, 32.0),  # half way between 16 and 64 in the logarithm
        ([0.6, 0.5, 1.0], 0.5, 4.0),
        ([0.0, 0.1, 0.2], 0.5, np.inf),
        ([0.0, 0.9, 0.0], 0.45, 8.0),
    ],
)
def test_where_odds_pass_a_level(rising: list[float], level: float, where: float) -> None:
    n = np.array([4.0, 16.0, 64.0])
    assert Chances(n, np.array(rising)).first(level) == pytest.approx(where)
