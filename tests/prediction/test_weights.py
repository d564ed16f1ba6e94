"""Curves of structured layers: laws of the formula, and against fits of training sets."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk.fitting.ridge.diagonal import DiagonalRidge, tail_gram
from korisk.operators import Matrix
from korisk.prediction import weights as module
from korisk.prediction.weights import Measure, Structured, structured_from_pairs
from korisk.problems.problem import Reconstruction

Array = NDArray[np.float64]
SIZES = np.array([1, 2, 4, 8, 16, 64, 256, 1024, 2.0**20])
GAMMA = np.logspace(0, -3, 12)
OMEGA = GAMMA * np.random.default_rng(0).uniform(0.5, 2, 12)
WAY = np.random.default_rng(1).normal(size=12)
ONES = np.ones(20)
WEIGHTS, PIXELS, NOISE = 6, 10, 0.5
OPTIMISM = NOISE**2 * WEIGHTS / (16 * PIXELS)  # of a fit to 16 examples
RIGHT = torch.linspace(0.5, 1.5, WEIGHTS, dtype=torch.float64)
FAR = torch.full((WEIGHTS,), 30.0, dtype=torch.float64)  # so wrong that no ridge to them helps
MEASURED = [4, 16, 64, 256, 4096]


def structured(
    gamma: Array,
    omega: Array,
    way: Array,
    *,
    n: int = 10**9,
    leverages: Measure | None = None,
    share: float = 1.0,
) -> Structured:
    """The curve of known moments, per entry of one: gradients pull by G d and what chance adds."""
    start = 1.0 + share * float(gamma @ way**2)
    return Structured(
        spectrum=Measure(gamma, np.ones_like(gamma)),
        pull=Measure(gamma, (gamma * way) ** 2 + omega / n),
        noise=Measure(gamma, omega),
        leverages=leverages,
        share=share,
        floor=1.0,
        start=start,
        entries=1,
        parameters=len(gamma),
        examples=n,
        spread=0.0,
    )


def rows(*leverages: tuple[float, float]) -> Measure:
    """Leverages with their weights."""
    values, weights = np.array(leverages).T
    return Measure(values, weights)


def test_errors_fall_from_the_start_to_the_floor_as_slope_over_n() -> None:
    curve = structured(GAMMA, OMEGA, WAY)
    errors = curve.errors(SIZES)
    assert np.all(np.diff(errors) < 0)
    assert errors[0] <= curve.start
    assert curve.errors(1e12) == pytest.approx(curve.floor, rel=1e-9)
    assert curve.errors(math.inf) == curve.floor
    assert curve.slope == pytest.approx(float(np.sum(OMEGA / GAMMA)))
    assert (curve.errors(1e6) - 1.0) * 1e6 == pytest.approx(curve.slope, rel=0.01)
    assert np.all(errors <= 1.0 + curve.slope / SIZES + 1e-12)
    assert (curve.errors(4).shape, curve.errors([[4, 8], [16, 32]]).shape) == ((), (2, 2))
    assert curve.errors([]).shape == (0,)


def test_the_start_decides_how_much_a_ridge_helps() -> None:
    away = structured(GAMMA, OMEGA, 1e9 * WAY)
    np.testing.assert_allclose(away.errors(SIZES), 1.0 + away.slope / SIZES, rtol=1e-9)
    right = structured(GAMMA, OMEGA, np.zeros(12))
    assert right.errors(SIZES).tolist() == [right.floor] * len(SIZES)
    # Of few examples, most of the gradient at the start is chance, and is not taken for bias.
    few, many = (structured(GAMMA, OMEGA, WAY, n=n) for n in (20, 10**9))
    np.testing.assert_allclose(few.errors(SIZES), many.errors(SIZES), rtol=1e-6)


def test_one_weight_has_wiener_s_error() -> None:
    """One weight has the error of the best estimate, at lambda = omega / (gamma d^2)."""
    gamma, omega, way = 2.0, 3.0, 0.5
    curve = structured(np.array([gamma]), np.array([omega]), np.array([way]))
    for n in (1, 10, 1000):
        expected = 1.0 + 1 / (1 / (gamma * way**2) + n * gamma / omega)
        assert curve.errors(n) == pytest.approx(expected, rel=1e-3)


def test_few_rows_cost_as_in_ordinary_least_squares() -> None:
    """Rows of a Gaussian: the excess is p / (N - p - 1), and p / N only for many."""
    p = len(ONES)
    curve = structured(ONES, ONES, 1e3 * ONES, leverages=rows((p, 1)))  # leverage |x|^2 = p
    for n in (60, 100, 400):
        assert curve.errors(n) - 1 == pytest.approx(p / (n - p - 1), rel=0.03)
    assert (curve.holds_from, structured(ONES, ONES, ONES).holds_from) == (2 * p, 1)


def test_the_examples_own_matrix_is_not_taken_for_g() -> None:
    """Ridge at the examples' G acts more strongly at the population's: the bias says so."""
    few, many = (
        structured(ONES, ONES, ONES, n=n, leverages=rows((20, 1))).path for n in (40, 10**6)
    )
    at = np.argmin(abs(many.freedom - 10))
    assert few.freedom[at] == many.freedom[at]
    # lambda = kappa (1 - df / n) with df = 10: kappa is a third larger, and d lambda / d kappa is
    # 1 - df_2 / n with df_2 = (10 - 20 / 3) / (1 - 1 / 6).
    expected = many.bias[at] * (4 / 3) ** 2 * (1 - (10 - 20 / 3) / (5 / 6) / 40)
    assert few.bias[at] == pytest.approx(expected, rel=0.02)
    assert few.squared[at] < many.squared[at]


def test_unequal_rows_are_worth_fewer_and_none_more_than_its_example() -> None:
    """Kish's number: N (sum w)^2 / sum w^2, where a row holds v / (1 + v / N)."""
    equal = structured(ONES, ONES, ONES, leverages=rows((3, 5)))
    assert equal.rows(7) == pytest.approx(7 * 5)
    unequal = structured(ONES, ONES, ONES, leverages=rows((1, 1), (1e9, 1)))
    small, large = 1 / (1 + 1 / 4), 4.0  # a huge leverage counts as N
    expected = 4 * (small + large) ** 2 / (small**2 + large**2)
    assert unequal.rows(4) == pytest.approx(expected, rel=1e-6)
    assert structured(ONES, ONES, ONES).rows(4) == math.inf


def make_tail(seed: int = 0, dtype: torch.dtype = torch.float64) -> Matrix:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(PIXELS, WEIGHTS, generator=generator, dtype=torch.float64)
    return Matrix(matrix.to(dtype), (WEIGHTS,), (PIXELS,))


TAIL = make_tail()


def draw(count: int, seed: int = 3, *, wrong: float = 1.0) -> tuple[Tensor, Tensor]:
    """Inputs of uneven brightness, and targets that no weights reach."""
    generator = torch.Generator().manual_seed(seed)
    kind: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
    brightness = torch.exp(0.3 * torch.randn(count, 1, **kind))
    inputs = brightness * (1 + torch.randn(count, WEIGHTS, **kind))
    reached = (RIGHT * inputs) @ TAIL.matrix.T
    bent = (inputs @ make_tail(1).matrix.T).sin()
    targets = reached + wrong * bent + NOISE * torch.randn(count, PIXELS, **kind)
    return inputs, targets


@cache
def population() -> tuple[Tensor, Tensor]:
    """So many that they stand for all."""
    return draw(10_000, 99)


def curve_of(
    pairs: tuple[Tensor, Tensor], weights: Tensor = FAR, *, tail: Matrix = TAIL, **settings: Any
) -> Structured:
    found = Reconstruction(weights, (tail,))
    return structured_from_pairs(found, *pairs, **{"relu": False, **settings})


def close(
    found: Structured, expected: Structured, rtol: float, sizes: list[int] = MEASURED
) -> None:
    np.testing.assert_allclose(found.errors(sizes), expected.errors(sizes), rtol=rtol)


def least_squares(n: int, trials: int) -> float:
    """The mean error of least squares of n examples each."""
    gram, (x, y) = tail_gram(TAIL), population()
    inputs, targets = draw(n * trials, 5)
    every = inputs.reshape(trials, n, WEIGHTS)
    right = (inputs * (targets @ TAIL.matrix)).reshape(trials, n, WEIGHTS).sum(1)
    fitted = torch.linalg.solve((every.mT @ every) * gram, right)
    normal, linear = (x.T @ x) * gram / len(x), (x * (y @ TAIL.matrix)).mean(0)
    quadratic = ((fitted @ normal) * fitted).sum(1) - 2 * fitted @ linear
    return float(quadratic.mean() + y.square().sum(1).mean()) / PIXELS


def test_it_predicts_least_squares() -> None:
    curve = curve_of(population())
    for n, tolerance in ((16, 0.12), (40, 0.06), (160, 0.06)):
        excess = least_squares(n, 160_000 // n) - curve.floor
        assert curve.errors(n) - curve.floor == pytest.approx(excess, rel=tolerance)
    assert curve.slope / 160 == pytest.approx(least_squares(160, 1000) - curve.floor, rel=0.08)


def small_draws(*, relu: bool, count: int) -> tuple[list[Structured], list[float]]:
    """Curves of 16 examples each, and their own errors of the true weights."""
    curves, errors = [], []
    for seed in range(count):
        inputs, targets = draw(16, 100 + seed, wrong=0.0)
        images = (RIGHT * inputs) @ TAIL.matrix.T
        errors.append(float(((images.relu() if relu else images) - targets).square().mean()))
        curves.append(curve_of((inputs, targets), relu=relu))
    return curves, errors


def test_few_examples_are_not_too_hopeful() -> None:
    """Noise of one size behind a true model: the floor is its square, p times that the slope."""
    curves, errors = small_draws(relu=False, count=40)
    floors = [curve.floor for curve in curves]
    assert np.mean(np.subtract(floors, errors)) == pytest.approx(0.0, abs=0.3 * OPTIMISM)
    slope = np.mean([curve.slope for curve in curves])
    assert slope == pytest.approx(NOISE**2 * WEIGHTS / PIXELS, rel=0.08)
    spread = np.mean([curve.spread for curve in curves])
    assert spread == pytest.approx(np.std(np.log(floors)), rel=0.5)
    behind, errors = small_draws(relu=True, count=30)
    over = np.subtract([curve.floor for curve in behind], errors)
    assert np.mean(over) == pytest.approx(0.0, abs=0.3 * OPTIMISM)


def test_few_examples_know_how_much_one_of_many_weighs() -> None:
    """An example among 16 takes part in its own normal matrix, which many would outweigh."""

    def crowd(curve: Structured) -> float:
        assert curve.leverages is not None
        values, weights = curve.leverages
        return float(weights @ values**2)

    few = np.mean([crowd(curve) for curve in small_draws(relu=False, count=30)[0]])
    assert few == pytest.approx(crowd(curve_of(population())), rel=0.15)


def test_it_predicts_ridge_regression_from_weights_that_are_nearly_right() -> None:
    near = RIGHT + 0.15
    curve = curve_of(population(), near)
    x, y = (each[:1000] for each in population())
    for n in (4, 32):
        best = []
        for seed in range(16):
            pairs = draw(n, 1000 + seed)
            ridge = DiagonalRidge(TAIL, *pairs, toward=near, relu=False, gram=None)
            grid = [n * 10.0**power for power in np.arange(-1, 3.1, 0.5)]
            fitted = ridge.training(n).weights([*grid, math.inf])
            images = torch.einsum("lw,kw,pw->lkp", fitted, x, TAIL.matrix)
            best.append((images - y).square().mean((1, 2)))
        expected = float(torch.stack(best).mean(0).min())
        assert curve.errors(n) == pytest.approx(expected, rel=0.03)
    assert curve.errors(4) < curve.floor + curve.slope / 4


def test_examples_of_right_weights_have_nothing_to_learn() -> None:
    curve = curve_of(draw(300, wrong=0.0), RIGHT)
    np.testing.assert_allclose(curve.errors(MEASURED), curve.start, rtol=0.01)
    for seed in range(6):  # of which some find better weights than these, by chance
        few = curve_of(draw(8, seed, wrong=0.0), RIGHT)
        assert few.floor <= few.start
        assert np.all(few.errors(MEASURED) <= few.start)


@pytest.mark.parametrize("relu", [False, True])
def test_all_routes_agree(monkeypatch: pytest.MonkeyPatch, relu: bool) -> None:
    whole = curve_of(draw(64), FAR / 20, relu=relu)
    monkeypatch.setattr(module, "LARGEST_WHOLE", 0)
    factored = curve_of(draw(64), FAR / 20, relu=relu)
    close(factored, whole, 0.05)  # sums with random signs stand for the examples here
    assert factored.floor == pytest.approx(whole.floor, rel=1e-3)
    assert factored.slope == pytest.approx(whole.slope, rel=0.3)
    monkeypatch.setattr(module, "LARGEST_STORED", 0)
    free = curve_of(draw(64), FAR / 20, relu=relu)
    assert free.slope == pytest.approx(whole.slope, rel=0.3)
    close(free, whole, 0.03, MEASURED[1:])
    assert free.floor == pytest.approx(whole.floor, rel=0.01)
    assert free.pull.weights.sum() == pytest.approx(whole.pull.weights.sum())
    assert free.spectrum.weights.sum() == pytest.approx(WEIGHTS)


def test_a_relu_changes_negative_images_alone() -> None:
    inputs, targets = draw(64)
    pairs = inputs.abs() + 1, targets.abs() + 20
    tail = Matrix(TAIL.matrix.abs() + 0.1, (WEIGHTS,), (PIXELS,))
    plain, behind = (curve_of(pairs, tail=tail, relu=relu) for relu in (False, True))
    assert behind.share == 1.0
    close(behind, plain, 1e-12)
    inputs, targets = draw(2000)
    targets = targets.clamp_min(0)
    plain, behind = (curve_of((inputs, targets), RIGHT, relu=relu) for relu in (False, True))
    images = (inputs * RIGHT) @ TAIL.matrix.T
    assert behind.start == pytest.approx(float((images.relu() - targets).square().mean()))
    assert plain.start == pytest.approx(float((images - targets).square().mean()))
    assert 0.3 < behind.share < 0.9  # about half of the images is positive, its larger half
    assert behind.floor < plain.floor
    assert behind.slope == pytest.approx(behind.share * plain.slope)


def test_units_of_examples_do_not_matter() -> None:
    (inputs, targets), plain, of_inputs, of_targets = draw(64), curve_of(draw(64)), 1e-3, 50.0
    pairs = inputs * of_inputs, targets * of_targets
    scaled = curve_of(pairs, FAR * of_targets / of_inputs)
    expected = of_targets**2 * plain.errors(MEASURED)
    np.testing.assert_allclose(scaled.errors(MEASURED), expected, rtol=1e-6)
    assert scaled.slope == pytest.approx(of_targets**2 * plain.slope)


def test_towards_zero_it_starts_from_no_image() -> None:
    curve, other = curve_of(draw(64), toward="zero"), curve_of(draw(64))
    assert curve.start == pytest.approx(float(draw(64)[1].square().mean()))
    assert (curve.floor, curve.slope) == pytest.approx((other.floor, other.slope))


def test_inputs_that_are_zero_do_not_matter() -> None:
    (inputs, targets), plain = draw(64), curve_of(draw(64))
    ones = torch.ones(PIXELS, 2, dtype=torch.float64)
    wider = Matrix(torch.cat([TAIL.matrix, ones], 1), (WEIGHTS + 2,), (PIXELS,))
    padded = torch.cat([inputs, torch.zeros(64, 2, dtype=torch.float64)], 1)
    found = curve_of((padded, targets), torch.cat([FAR, ones[0]]), tail=wider)
    close(found, plain, 1e-9)
    assert found.parameters == plain.parameters + 2


@pytest.mark.parametrize("weights", [6, 12])
def test_more_weights_than_examples_determine(weights: int) -> None:
    """A tail of one pixel: 8 rows for 6 weights, or 8 for 12, of which 8 can be determined."""
    generator = torch.Generator().manual_seed(0)
    kind: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
    tail = Matrix(torch.randn(1, weights, **kind), (weights,), (1,))
    pairs = torch.randn(8, weights, **kind), torch.randn(8, 1, **kind)
    curve = curve_of(pairs, torch.ones(weights), tail=tail)
    errors = curve.errors(MEASURED)
    assert curve.spectrum.weights.sum() == min(weights, 8)
    assert np.all(np.isfinite(errors))
    assert np.all((errors >= 0) & (errors <= curve.start))


def test_exact_examples_have_no_error_left() -> None:
    inputs, targets = draw(32)
    curve = curve_of((inputs, (2 * inputs) @ TAIL.matrix.T))
    assert curve.floor < 1e-20
    assert curve.errors(64) < 1e-12
    black = curve_of((inputs, torch.zeros_like(targets)), torch.zeros(WEIGHTS), relu=True)
    assert (black.errors(MEASURED) < 1e-150).all()  # rounding, which has a logarithm
    assert (black.errors(MEASURED) > 0).all()


def test_a_tail_that_loses_everything_learns_nothing() -> None:
    tail = Matrix(torch.zeros(PIXELS, WEIGHTS, dtype=torch.float64), (WEIGHTS,), (PIXELS,))
    curve = curve_of(draw(16), tail=tail, relu=True)
    assert curve.errors(MEASURED).tolist() == [curve.start] * len(MEASURED)
    assert curve.start == pytest.approx(float(draw(16)[1].square().mean()))
    assert (curve.slope, curve.holds_from) == (0.0, 1)


def test_single_precision_gives_the_same_and_progress_grows_to_one() -> None:
    inputs, targets = draw(64)
    weak = torch.logspace(0, -2, WEIGHTS, dtype=torch.float64)  # inputs that bring little
    shares: list[float] = []
    single, double = (
        curve_of((inputs * weak, targets), FAR / weak, tail=tail, progress=shares.append)
        for tail in (make_tail(dtype=torch.float32), TAIL)
    )
    close(single, double, 1e-3)
    half = len(shares) // 2
    assert shares[:half] == shares[half:] == sorted(shares[:half])
    assert shares[-1] == 1.0
