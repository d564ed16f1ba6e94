"""Fits: their own curves again, the paper's numbers, and what any fitted curve must satisfy.

The families that only the benchmarks use (benchmarks/planner/fits.py) keep the same laws.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls
from scipy.special import softmax

import korisk as kr
from benchmarks.planner import fits as planner_fits
from korisk._checks import LARGEST_N
from korisk.curves.noise import relative_variance, resampled_means, weights
from korisk.paper import published
from korisk.planning.fit import (
    STRETCH,
    WIDENING,
    Family,
    Fits,
    fitted_line,
    least_squares,
    nonnegative,
    other_unit,
    pooled_band,
    target_error,
)
from pilots import FC_128, KO_128, N_128, power_pilot, released_h8, scaled

N = np.array([8.0, 16, 32, 64, 128, 256, 512])
FAR = np.array([1024.0, 4096, 16384])
FAMILIES = planner_fits.FAMILIES
SHAPES: dict[str, tuple[float, ...]] = {
    "power": (0.4,), "line": (), "log-power": (0.6,), "no-floor": (0.5,), "inverse-log": (),
    "shifted-power": (0.5, 0.3), "weibull": (0.4, 1.5), "mmf": (0.8, 2.0),
}  # fmt: skip
every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda each: each.name)
every_fit = pytest.mark.parametrize("fit", kr.planning.FITS)


def exact(family: Family, floor: float, scale: float, shape: tuple[float, ...]) -> Fits:
    floors = np.array([floor if family.has_floor else 0.0])
    values = tuple(np.array([value]) for value in shape)
    return Fits(family, N[-1], floors, np.array([scale]), values, np.zeros(1))


def noisy(draw: int, pilots: int = 1) -> NDArray[np.float64]:
    rng = np.random.default_rng(draw)
    return np.asarray((0.05 + 0.8 * N**-0.6) * np.exp(0.1 * rng.standard_normal((pilots, len(N)))))


@every_family
def test_a_curve_of_the_family_is_found_again(family: Family) -> None:
    for floor in (0.0, 0.02, 3.0):
        truth = exact(family, floor, 0.1, SHAPES[family.name])
        errors = truth.predict(N)
        found = least_squares(family, N, errors, 1 / errors[0] ** 2)
        # Two shape parameters can trade with each other a little.
        tolerance = 1e-6 if len(family.grids) < 2 else 2e-3
        assert found.predict(FAR) == pytest.approx(truth.predict(FAR), rel=tolerance)


@given(st.floats(0.05, 1.0), st.floats(0.0, 1.0), st.floats(0.01, 10.0))
def test_power_laws_are_found_again(rate: float, floor: float, scale: float) -> None:
    truth = exact(FAMILIES["power"], floor, scale, (rate,))
    found = least_squares(FAMILIES["power"], N, truth.predict(N), np.ones(len(N)))
    assert found.predict(FAR) == pytest.approx(truth.predict(FAR), rel=1e-4)


@given(st.integers(0, 10**6))
def test_the_closed_form_is_nonnegative_least_squares(draw: int) -> None:
    rng = np.random.default_rng(draw)
    basis, errors, weights = rng.uniform(0, 2, 6), rng.uniform(-1, 2, 6), rng.uniform(0.1, 3, 6)
    floor, scale, loss = nonnegative(basis[None, :], errors[None, :], weights, True)
    root = np.sqrt(weights)
    reference, residual = nnls(np.stack([root, root * basis], axis=1), root * errors)
    assert loss[0, 0] == pytest.approx(residual**2, rel=1e-9, abs=1e-12)
    assert [floor[0, 0], scale[0, 0]] == pytest.approx(reference, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", ["power", "log-power", "no-floor", "shifted-power", "mmf"])
@pytest.mark.parametrize("draw", range(3))
def test_noisy_fits_are_no_worse_than_a_general_optimiser(name: str, draw: int) -> None:
    """Nelder and Mead from many starts."""
    family, errors = FAMILIES[name], noisy(draw)[0]
    weights = 1 / errors**2
    weights = weights / weights.max()
    size = np.exp(np.log(errors).mean())  # losses are told for errors of unit size

    def loss(shape: NDArray[np.float64]) -> float:
        inside = all(a <= s <= b for s, (a, b) in zip(np.exp(shape), family.limits, strict=True))
        if not inside:
            return 1e9
        values = tuple(np.array([[[s]]]) for s in np.exp(shape))
        basis = family.basis(np.log(N / N[-1]), float(np.log(N[-1])), values)[0]
        return float(nonnegative(basis, errors[None, :] / size, weights, family.has_floor)[2].min())

    starts = np.random.default_rng(0).uniform(np.log(0.05), np.log(1.5), (8, len(family.grids)))
    best = min(float(minimize(loss, s, method="Nelder-Mead", tol=1e-12).fun) for s in starts)
    found = least_squares(family, N, errors[None, :], weights)
    assert found.loss[0] <= best * (1 + 1e-3) + 1e-12


@every_family
def test_pilots_of_any_number_and_scale_are_fitted_alike(family: Family) -> None:
    errors, weights = noisy(1, 300), np.linspace(1, 2, len(N))
    together = least_squares(family, N, errors, weights)
    for row in (0, 17, 299):  # in the first chunk and in the last
        for factor in (1.0, 1e-60, 3.7, 1e60):
            alone = least_squares(family, N, factor * errors[row : row + 1], weights)
            # Products of other shapes round otherwise, which a flat minimum magnifies.
            expected = factor * together.predict(FAR)[row]
            assert alone.predict(FAR)[0] == pytest.approx(expected, rel=1e-6)
            floor = factor * together.floor[row]
            assert alone.floor[0] == pytest.approx(floor, rel=1e-4, abs=1e-9 * factor)


@every_family
def test_curves_fall_and_stay_above_their_floor(family: Family) -> None:
    errors = np.random.default_rng(3).uniform(0.1, 1.0, (50, len(N)))
    found = least_squares(family, N, errors, np.ones(len(N)))
    predicted = found.predict(np.geomspace(8, 1e9, 60))
    assert (np.diff(predicted, axis=1) <= 1e-12).all()
    assert (predicted >= found.floor[:, None] - 1e-12).all()
    assert (found.floor >= 0).all()
    shape = tuple(np.array([grid[len(grid) // 3]]) for grid in family.grids)
    assert family.basis(np.zeros(1), math.log(512.0), shape) == pytest.approx(1.0)


@pytest.mark.parametrize("name", [name for name in FAMILIES if FAMILIES[name].grids])
def test_grids_cover_what_shapes_may_be(name: str) -> None:
    family = FAMILIES[name]
    for grid, (low, high) in zip(family.grids, family.limits, strict=True):
        assert low <= grid[0] < grid[-1] <= high
        assert grid[-1] >= 100 * grid[0] * (1 - 1e-9)  # two decades at least
        steps = grid[1:] / grid[:-1]
        assert steps == pytest.approx(steps[0])
        assert steps[0] < 1.5
    if len(family.grids) == 1:
        for rate in (0.02, 0.3, 0.9):
            basis = np.log(N) / N if name == "log-power" else 1.0 / N
            fitted = least_squares(family, N, 2.0 * basis[None, :] ** rate, np.ones(len(N)))
            assert fitted.shape[0] == pytest.approx(rate, rel=1e-3)


def test_only_one_family_has_no_floor() -> None:
    assert [name for name, family in FAMILIES.items() if not family.has_floor] == ["no-floor"]
    counts = [family.parameters for family in FAMILIES.values()]
    assert counts == [3, 2, 3, 2, 2, 4, 4, 4]


@pytest.mark.parametrize(
    ("fit", "names"), [("aic", planner_fits.AVERAGED), ("aic-all", tuple(FAMILIES))]
)
def test_families_are_averaged_by_akaikes_weights(fit: str, names: tuple[str, ...]) -> None:
    """exp(-AIC / 2), AIC = K log(loss) + 2 p, scaled to one; losses of errors in their own unit."""
    curve = power_pilot(draw=5)
    n, means, weight = curve.sizes.astype(float), curve.means[None, :], weights(curve)
    parts = [least_squares(FAMILIES[name], n, means, weight) for name in names]
    aic = [len(n) * math.log(part.loss[0]) + 2 * part.family.parameters for part in parts]
    shares = softmax(-0.5 * np.array(aic))
    assert np.sort(shares)[-2] > 0.01  # more than one has a say
    found = planner_fits.estimate(fit, n, means, weight)
    expected = sum(share * part.predict(FAR) for share, part in zip(shares, parts, strict=True))
    assert found.predict(FAR) == pytest.approx(expected, rel=1e-9)
    few = planner_fits.estimate("aic", n[:3], means[:, :3], weight[:3])
    assert isinstance(few, planner_fits.Average)
    assert [part.family.name for part in few.parts] == ["line", "no-floor"]


@given(st.integers(0, 10**6))
def test_the_envelope_touches_the_means_and_has_the_least_to_spare(draw: int) -> None:
    n = np.array([4.0, 8, 16, 32, 64])
    means, rate = np.random.default_rng(draw).uniform(0.1, 1.0, 5), np.log(n) / n
    spare = planner_fits.envelope(n, means[None, :]).predict(n)[0] - means
    assert spare.min() == pytest.approx(0, abs=1e-9)
    for slope in np.linspace(0, 5, 40):
        floor = max(0.0, float((means - slope * rate).max()))
        assert spare.sum() <= (floor + slope * rate - means).sum() + 1e-9


@pytest.mark.parametrize("fit", planner_fits.FITS[1:])
def test_rivals_are_planned_as_korisks_own_fits_are(fit: str) -> None:
    curve = released_h8("FC")
    n, means = curve.sizes.astype(float), curve.means[None, :]
    found = planner_fits.samples(curve, 0.0048, fit)
    assert found is not None
    made = planner_fits.estimate(fit, n, means, weights(curve))
    before, there = made.predict(np.array([found - 1.0, found]))[0]
    assert there <= 0.0048 < before


# The summary that the authors released with their CPU runs at H = 8.
RELEASED_H8 = {"KO": (2.340e-3, 9.986e-3), "FC": (4.500e-3, 7.533e-2)}

# Written anew from the formulas, N in samples.
WRITTEN: dict[str, Callable[..., float]] = {
    "power": lambda n, c, a, b: c + a * n**-b,
    "paper": lambda n, c, a: c + a * math.log(n) / n,
    "shifted-power": lambda n, c, a, b, s: c + a * (n + s) ** -b,
}


@pytest.mark.parametrize("model", ["KO", "FC"])
def test_the_papers_calibration_of_released_errors_and_of_the_squared_gpu_means(model: str) -> None:
    found = kr.planning.calibrate(released_h8(model), "paper")
    assert (found.floor, found.slope) == pytest.approx(RELEASED_H8[model], rel=5e-4)
    row = next(row for row in published.CALIBRATION if row.H == 128)
    printed, means = (row.known, KO_128) if model == "KO" else (row.dense, FC_128)
    found = kr.planning.calibrate(kr.Curve(N_128, np.square(means)), "paper")
    assert f"{found.floor:.2e}, {found.slope:.2e}" == f"{printed.floor:.2e}, {printed.slope:.2e}"


def test_what_the_dense_pilot_predicts_and_the_papers_line_does_not() -> None:
    pilot = kr.Curve(N_128[:4], np.square(FC_128[:4]))
    truth = FC_128[-1] ** 2
    line = kr.planning.calibrate(pilot, "paper").predict(2048)
    assert line / truth - 1 == pytest.approx(1.31, abs=0.01)
    assert kr.planning.calibrate(pilot).predict(2048) == pytest.approx(truth, rel=0.2)
    expected = kr.planning.calibrate(pilot, "posterior").predict(2048)
    assert abs(math.log(expected / truth)) < 0.7 * math.log(line / truth)


def test_the_papers_floor_is_the_lowest_mean_and_its_line_no_upper_bound() -> None:
    curve = kr.Curve(N_128, np.square(KO_128))
    found = kr.planning.calibrate(curve, "paper")
    assert found.floor == curve.means.min()
    assert (found.predict(curve.sizes) < curve.means).any()
    with pytest.raises(kr.errors.UnreachableError):
        found.samples(0.99 * found.floor)
    made = fitted_line(curve, "paper")
    assert (made.floor, made.slope) == (found.floor, found.slope)
    n = curve.sizes.astype(float)
    fits = planner_fits.estimate("paper", n, curve.means[None, :], weights(curve))
    assert isinstance(fits, Fits)
    assert fits.loss == pytest.approx(np.square(fits.predict(n) - curve.means).sum())


@every_fit
def test_every_fit_keeps_the_laws_of_curves(fit: str) -> None:
    """samples() inverts predict(); scale, names and order of seeds change nothing else."""
    curve = power_pilot()
    found = kr.planning.calibrate(curve, fit)
    target = 0.6 * found.predict(512) + 0.4 * found.floor
    n = found.samples(target)
    assert found.predict(n) <= target < found.predict(n - 1)
    assert all(map(math.isfinite, found.parameters.values()))
    for factor in (1e-30, 7.0):
        larger = kr.planning.calibrate(scaled(curve, factor), fit)
        assert larger.floor == pytest.approx(factor * found.floor, rel=1e-4)
        if found.slope is not None:
            assert larger.slope == pytest.approx(factor * found.slope, rel=1e-3)
        assert larger.samples(factor * target) == pytest.approx(n, rel=1e-3)
    renamed = {"0": "z", "1": "3", "2": "b", "3": "0", "4": "11"}
    order = np.random.default_rng(0).permutation(len(curve))
    seeds = [renamed[curve.seed[row]] for row in order]
    other = kr.planning.calibrate(kr.Curve(curve.n[order], curve.error[order], seeds), fit)
    assert np.array_equal(found.predict([600, 5000]), other.predict([600, 5000]))


@pytest.mark.parametrize("fit", WRITTEN)
def test_the_letters_of_the_formula_give_the_curve(fit: str) -> None:
    found = kr.planning.calibrate(power_pilot(draw=3), fit)
    sizes = [3.0, 16.0, 100.0, 512.0, 5000.0]
    expected = [WRITTEN[fit](n, **found.parameters) for n in sizes]
    assert found.predict(sizes) == pytest.approx(expected, rel=1e-9)
    assert (found.parameters["a"], found.parameters["c"]) == (found.slope, found.floor)


def test_parameters_are_those_of_the_formula() -> None:
    n = np.array([16, 32, 64, 128, 256])
    found = kr.planning.calibrate(kr.Curve(n, 0.02 + 0.5 * n**-0.5)).parameters
    assert found == pytest.approx({"c": 0.02, "a": 0.5, "b": 0.5}, rel=1e-6)
    shifted = kr.planning.calibrate(kr.Curve(n, 0.02 + 0.5 * (n + 40.0) ** -0.5), "shifted-power")
    assert shifted.parameters == pytest.approx({"c": 0.02, "a": 0.5, "b": 0.5, "s": 40}, rel=0.05)
    for rate, fitted in ((0.5, 0.5), (0.99, 0.99), (1.5, 1.0)):  # rates end at one
        steep = kr.planning.calibrate(kr.Curve(n, n**-rate)).parameters
        assert steep["b"] == pytest.approx(fitted, rel=1e-3)


@every_fit
def test_a_fit_takes_as_few_sizes_as_it_says_and_no_fewer(fit: str) -> None:
    least = 2 if fit == "paper" else 3
    sizes, errors = [4, 16, 64][:least], [0.5, 0.3, 0.2][:least]
    assert kr.planning.calibrate(kr.Curve(sizes, errors), fit).predict(16) > 0
    with pytest.raises(kr.KoriskError, match=f"at least {least} distinct N, got {least - 1}"):
        kr.planning.calibrate(kr.Curve(sizes[1:], errors[1:]), fit)


@pytest.mark.parametrize("first", [*range(3, 40), 1_000_003, LARGEST_N - 1, LARGEST_N])
def test_the_first_n_below_a_target_is_the_smallest(first: int) -> None:
    made = replace(kr.planning.calibrate(power_pilot()), _predict=lambda n: 2.0 * LARGEST_N - n)
    assert made.samples(2.0 * LARGEST_N - first) == first


def test_n_and_targets_have_limits() -> None:
    made = kr.planning.calibrate(power_pilot(), "paper")
    assert (LARGEST_N, made.predict([2, LARGEST_N]).shape) == (10**15, (2,))
    assert isinstance(made.predict(2), float)
    for n in (1.99, 1, 0, -4, math.nan, 1.001e15, [], [[2.0]], [8, 1], "many"):
        with pytest.raises(kr.KoriskError, match="n must be a number from 2 to 10"):
            made.predict(n)  # type: ignore[arg-type]
    for target in (0, -0.5, math.nan):
        with pytest.raises(kr.KoriskError, match="target must be a finite number > 0"):
            made.samples(target)
    with pytest.raises(kr.errors.UnreachableError):
        kr.planning.calibrate(kr.Curve([8, 16, 32], [0.5, 0.3, 0.25])).samples(1e-9)
    with pytest.raises(kr.KoriskError, match="did you mean 'power'"):
        kr.planning.calibrate(power_pilot(), "powr")


def test_resampled_means_scatter_as_theory_says() -> None:
    curve = power_pilot(seeds=8, noise=0.2)
    drawn = resampled_means(curve, 20_000, np.random.default_rng(0))
    assert drawn.mean(axis=0) == pytest.approx(curve.means, rel=0.01)
    expected = curve.deviations * np.sqrt(7 / 8) / np.sqrt(8)
    assert drawn.std(axis=0) == pytest.approx(expected, rel=0.03)


def test_a_noisier_size_weighs_less() -> None:
    rng = np.random.default_rng(0)
    errors = np.concatenate([1 + 0.01 * rng.standard_normal(20), 1 + 0.3 * rng.standard_normal(20)])
    curve = kr.Curve(np.repeat([4, 8], 20), np.abs(errors), list(range(20)) * 2)
    heavy, light = weights(curve)
    assert heavy > 8 * light  # less than the 900 of their variances: spreads are pooled
    assert relative_variance(kr.Curve([4, 8], [1.0, 0.5])) is None


@pytest.mark.parametrize("fit", ["power", "paper", "shifted-power"])
def test_the_band_is_pooled_around_the_curve_and_widens_beyond_the_pilot(fit: str) -> None:
    """Four families of resampled means; wider by 0.02 for a doubling, and by 2.1 over all."""
    curve = power_pilot()
    found = kr.planning.calibrate(curve, fit)
    n = np.array([32.0, 512.0, 1024.0, 8192.0])
    low, high = pooled_band(found, n, resamples=20)
    means = resampled_means(curve, 20, np.random.default_rng(0))
    names = ("line", "power", "no-floor", "log-power")
    sizes, weight = curve.sizes.astype(float), weights(curve)
    pooled = [least_squares(FAMILIES[name], sizes, means, weight).predict(n) for name in names]
    ends = np.quantile(np.log(np.concatenate(pooled)), [0.05, 0.95], axis=0)
    expected = STRETCH * ((ends[1] - ends[0]) / 2 + WIDENING * np.array([0, 0, 1, 4]))
    assert np.log(high / low) / 2 == pytest.approx(expected)
    assert np.sqrt(high * low) == pytest.approx(found.predict(n))
    assert (STRETCH, WIDENING) == (2.1, 0.02)
    far = pooled_band(found, FAR)
    assert (np.diff(far[1] / far[0]) > 0).all()


def test_one_seed_leaves_the_disagreement_of_families() -> None:
    made = kr.planning.calibrate(kr.Curve(N_128[:4], FC_128[:4]))
    low, high = pooled_band(made, np.array([2048.0]))
    assert low[0] < FC_128[-1] < high[0]


def _pilot(values: tuple[float, float, float], unit: str) -> kr.Curve:
    return kr.Curve([16, 32, 64], values, unit=unit)


@pytest.mark.parametrize(
    ("unit", "values", "target", "meant", "instead"),
    [
        ("error", (0.2, 0.15, 0.1), 12, "in percent", 0.12),
        ("error", (20, 15, 10), 0.12, "as a fraction of one", 12),
        ("error", (0.2, 0.15, 0.1), 0.88, "as a score of which larger is better", 0.12),
        ("error", (0.3, 0.2, 0.1), 0.95, "as a score of which larger is better", 0.05),
        ("error", (0.2, 0.15, 0.1), 88, "as a score in percent", 0.12),
        ("error", (2e-4, 1.5e-4, 1e-4), 40, "in decibels", 1e-4),
        ("error", (2e-6, 1.5e-6, 1e-6), 0.0012, "as a root of the metric", 1.44e-6),
        ("error", (0.05, 0.04, 0.03), 0.0016, "as a square of the metric", 0.04),
        ("negated", (-0.2, -0.15, -0.1), 0.15, "as an error", -0.15),
        ("accuracy", (0.8, 0.85, 0.9), 0.12, "as an error", 0.88),
        ("accuracy", (0.5, 0.6, 0.7), 0.006, "as a fraction of one", 0.6),
        ("percent", (80, 85, 90), 12, "as an error", 88),
        ("percent", (80, 85, 90), 0.85, "as a fraction of one", 85),
        ("psnr", (30, 32, 33), 1e-3, "as an error", 30),
    ],
)
def test_what_a_target_far_from_the_pilot_was_meant_as(
    unit: str, values: tuple[float, float, float], target: float, meant: str, instead: float
) -> None:
    said = other_unit(_pilot(values, unit), target)
    assert said.endswith(f"was the target given {meant}? then ask for {instead:.4g}")
    low, high = sorted((values[0], values[-1]))
    assert f"the pilot runs from {low:.4g} to {high:.4g}" in said


def test_a_target_near_the_pilot_is_taken_at_its_word_and_one_too_easy_is_not() -> None:
    curve = _pilot((0.2, 0.15, 0.1), "error")
    for target in (0.2, 0.1, 0.011, 0.21, 0.44):
        assert (other_unit(curve, target), target_error(curve, target)) == ("", target)
    below = _pilot((-1.0, -0.5, -0.2), "complement")  # a score below zero, a little worse
    assert (other_unit(below, -1.5), target_error(below, -1.5)) == ("", 2.5)
    assert target_error(_pilot((20, 15, 10), "error"), 0.12) == 0.12  # hard is a sound question
    for pilot, target, said in (
        (curve, 12, "target 12 is worse than all that was measured"),
        (_pilot((0.8, 0.85, 0.9), "complement"), 88, "must be below 1, got 88"),
        (_pilot((0.8, 0.85, 0.9), "accuracy"), 88, "must be below 1"),
    ):
        with pytest.raises(kr.KoriskError, match=said):
            target_error(pilot, target)
