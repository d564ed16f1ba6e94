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
from korisk.prediction.weights import from_examples as module
from korisk.prediction.weights.from_examples import structured_from_pairs
from korisk.prediction.weights.structured import Measure, Structured

Array = NDArray[np.float64]
Moments = tuple[Array, Array, Array]
SIZES = np.array([1, 2, 4, 8, 16, 64, 256, 1024, 2.0**20])
WEIGHTS, PIXELS = 6, 10
NOISE = 0.5
RIGHT = torch.linspace(0.5, 1.5, WEIGHTS, dtype=torch.float64)
MEASURED = [4, 16, 64, 256, 4096]

# --- The formula ---------------------------------------------------------------------------------


def structured(
    gamma: Array,
    omega: Array,
    way: Array,
    *,
    floor: float = 1.0,
    n: int = 10**9,
    leverages: Measure | None = None,
    share: float = 1.0,
) -> Structured:
    """The curve of known moments, per entry of one: gradients pull by G d and what chance adds."""
    excess = share * float(gamma @ way**2)
    return Structured(
        spectrum=Measure(gamma, np.ones_like(gamma)),
        pull=Measure(gamma, (gamma * way) ** 2 + omega / n),
        noise=Measure(gamma, omega),
        leverages=leverages,
        share=share,
        floor=floor,
        start=floor + excess,
        analytic=floor + excess,
        entries=1,
        parameters=len(gamma),
        examples=n,
        spread=0.0,
    )


@pytest.fixture
def moments() -> Moments:
    rng = np.random.default_rng(0)
    gamma = np.logspace(0, -3, 12)
    return gamma, gamma * rng.uniform(0.5, 2, 12), rng.normal(size=12)


def test_errors_fall_from_the_start_to_the_floor(moments: Moments) -> None:
    curve = structured(*moments)
    errors = curve.errors(SIZES)
    assert np.all(np.diff(errors) < 0)
    assert errors[0] <= curve.start
    assert curve.errors(1e12) == pytest.approx(curve.floor, rel=1e-9)
    assert curve.errors(math.inf) == curve.floor


def test_many_examples_leave_slope_over_n(moments: Moments) -> None:
    gamma, omega, way = moments
    curve = structured(gamma, omega, way)
    assert curve.slope == pytest.approx(float(np.sum(omega / gamma)))
    assert (curve.errors(1e6) - 1.0) * 1e6 == pytest.approx(curve.slope, rel=0.01)
    assert np.all(curve.errors(SIZES) <= 1.0 + curve.slope / SIZES + 1e-12)


def test_a_start_that_is_far_off_is_no_help(moments: Moments) -> None:
    gamma, omega, way = moments
    curve = structured(gamma, omega, 1e9 * way)
    np.testing.assert_allclose(curve.errors(SIZES), 1.0 + curve.slope / SIZES, rtol=1e-9)
    assert curve.effective(1) == 12.0


def test_one_weight_has_wiener_s_error() -> None:
    """One weight has the error of the best estimate, at lambda = omega / (gamma d^2)."""
    gamma, omega, way = 2.0, 3.0, 0.5
    curve = structured(np.array([gamma]), np.array([omega]), np.array([way]))
    for n in (1, 10, 1000):
        expected = 1.0 + 1 / (1 / (gamma * way**2) + n * gamma / omega)
        assert curve.errors(n) == pytest.approx(expected, rel=1e-3)
        penalty = omega / (gamma * way**2)
        assert curve.effective(n) == pytest.approx(n * gamma / (n * gamma + penalty), rel=0.1)


def test_right_weights_have_nothing_to_learn(moments: Moments) -> None:
    gamma, omega, _ = moments
    curve = structured(gamma, omega, np.zeros(12))
    assert curve.errors(SIZES).tolist() == [curve.floor] * len(SIZES)
    assert curve.effective(100) == 0.0


def test_a_pull_by_chance_is_no_way_to_go(moments: Moments) -> None:
    """Of few examples, most of the gradient at the start is chance, and is not taken for bias."""
    gamma, omega, way = moments
    few, many = (structured(gamma, omega, way, n=n) for n in (20, 10**9))
    np.testing.assert_allclose(few.errors(SIZES), many.errors(SIZES), rtol=1e-6)


def test_a_relu_passes_a_share_of_the_excess(moments: Moments) -> None:
    whole, half = structured(*moments), structured(*moments, share=0.5)
    np.testing.assert_allclose(half.errors(SIZES) - 1, (whole.errors(SIZES) - 1) / 2)
    assert half.slope == pytest.approx(whole.slope / 2)


def test_units_do_not_matter(moments: Moments) -> None:
    gamma, omega, way = moments
    plain = structured(gamma, omega, way, n=100)
    # Inputs in units of a third: gradients grow by 3, weights shrink.
    scaled = structured(9 * gamma, 9 * omega, way / 3, n=100)
    np.testing.assert_allclose(scaled.errors(SIZES), plain.errors(SIZES), rtol=1e-6)
    assert scaled.effective(64) == pytest.approx(plain.effective(64))


def test_few_rows_cost_as_in_ordinary_least_squares() -> None:
    """Rows of a Gaussian: the excess is p / (N - p - 1), and p / N only for many."""
    p, noise = 20, 1.0
    gamma = np.ones(p)
    rows = Measure(np.array([float(p)]), np.array([1.0]))  # one row, of leverage |x|^2 = p
    curve = structured(gamma, noise * gamma, 1e3 * np.ones(p), floor=noise, leverages=rows)
    for n in (60, 100, 400):
        held = p / (1 + p / n)
        assert held < p
        assert curve.errors(n) - noise == pytest.approx(p / (n - p - 1), rel=0.03)
    assert curve.holds_from == 2 * p
    assert structured(gamma, noise * gamma, np.ones(p)).holds_from == 1


def test_examples_of_many_rows_count_more() -> None:
    gamma, omega, way = np.ones(20), np.ones(20), 10 * np.ones(20)
    one = structured(gamma, omega, way, leverages=Measure(np.array([20.0]), np.array([1.0])))
    ten = structured(gamma, omega, way, leverages=Measure(np.array([2.0]), np.array([10.0])))
    many = structured(gamma, omega, way)
    errors = [each.errors(64) for each in (one, ten, many)]
    assert errors == sorted(errors, reverse=True)
    assert errors[1] - 1 == pytest.approx((20 / 64) / (1 - 20 / 640), rel=1e-3)


def test_the_examples_own_matrix_is_not_taken_for_g() -> None:
    """Ridge at the examples' G acts more strongly at the population's: the bias says so."""
    gamma, omega, way = np.ones(20), np.ones(20), np.ones(20)
    rows = Measure(np.array([20.0]), np.array([1.0]))
    few = structured(gamma, omega, way, n=40, leverages=rows).path
    many = structured(gamma, omega, way, n=10**6, leverages=rows).path
    at = np.argmin(abs(many.freedom - 10))
    assert few.freedom[at] == many.freedom[at]
    # lambda = kappa (1 - df / n) with df = 10: kappa is a third larger, and d lambda / d kappa is
    # 1 - df_2 / n with df_2 = (10 - 20 / 3) / (1 - 1 / 6).
    expected = many.bias[at] * (4 / 3) ** 2 * (1 - (10 - 20 / 3) / (5 / 6) / 40)
    assert few.bias[at] == pytest.approx(expected, rel=0.02)
    assert few.squared[at] < many.squared[at]


def test_shapes_follow_the_sizes(moments: Moments) -> None:
    curve = structured(*moments)
    assert curve.errors(4).shape == ()
    assert curve.errors([[4, 8], [16, 32]]).shape == (2, 2)
    assert curve.errors([]).shape == (0,)


def test_unequal_rows_are_worth_fewer_and_none_more_than_its_example() -> None:
    """Kish's number: N (sum w)^2 / sum w^2, where a row holds v / (1 + v / N)."""
    gamma = np.ones(2)
    equal = structured(gamma, gamma, gamma, leverages=Measure(np.array([3.0]), np.array([5.0])))
    assert equal.rows(7) == pytest.approx(7 * 5)
    unequal = Measure(np.array([1.0, 1e9]), np.array([1.0, 1.0]))
    found = structured(gamma, gamma, gamma, leverages=unequal).rows(4)
    small, large = 1 / (1 + 1 / 4), 4.0  # a huge leverage counts as N
    assert found == pytest.approx(4 * (small + large) ** 2 / (small**2 + large**2), rel=1e-6)
    assert structured(gamma, gamma, gamma).rows(4) == math.inf


# --- From examples --------------------------------------------------------------------------------


def make_tail(seed: int = 0, dtype: torch.dtype = torch.float64) -> Matrix:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(PIXELS, WEIGHTS, generator=generator, dtype=torch.float64)
    return Matrix(matrix.to(dtype), (WEIGHTS,), (PIXELS,))


def draw(count: int, seed: int, *, wrong: float = 1.0, bright: float = 0.3) -> tuple[Tensor, ...]:
    """Inputs of uneven brightness, and targets that no weights reach."""
    generator = torch.Generator().manual_seed(seed)
    kind: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
    brightness = torch.exp(bright * torch.randn(count, 1, **kind))
    inputs = brightness * (1 + torch.randn(count, WEIGHTS, **kind))
    reached = (RIGHT * inputs) @ make_tail().matrix.T
    bent = (inputs @ make_tail(1).matrix.T).sin()
    targets = reached + wrong * bent + NOISE * torch.randn(count, PIXELS, **kind)
    return inputs, targets


@cache
def population() -> tuple[Tensor, ...]:
    """So many that they stand for all."""
    return draw(10_000, 99)


def far() -> Tensor:
    """Weights so wrong that no ridge towards them helps."""
    return torch.full((WEIGHTS,), 30.0, dtype=torch.float64)


def measured(n: int, trials: int, *, seed: int = 5) -> float:
    """The mean error of least squares of n examples each."""
    tail, gram = make_tail(), tail_gram(make_tail())
    test = population()
    inputs, targets = draw(n * trials, seed)
    rows = inputs.reshape(trials, n, WEIGHTS)
    right = (inputs * (targets @ tail.matrix)).reshape(trials, n, WEIGHTS).sum(1)
    fitted = torch.linalg.solve((rows.mT @ rows) * gram, right)
    normal = (test[0].T @ test[0]) * gram / len(test[0])
    linear = (test[0] * (test[1] @ tail.matrix)).mean(0)
    quadratic = ((fitted @ normal) * fitted).sum(1) - 2 * fitted @ linear
    return float(quadratic.mean() + test[1].square().sum(1).mean()) / PIXELS


def test_it_predicts_least_squares() -> None:
    curve = structured_from_pairs(make_tail(), far(), *population(), relu=False)
    for n, tolerance in ((16, 0.12), (40, 0.06), (160, 0.06)):
        excess = measured(n, 160_000 // n) - curve.floor
        assert curve.errors(n) - curve.floor == pytest.approx(excess, rel=tolerance)
    assert curve.slope / 160 == pytest.approx(measured(160, 1000) - curve.floor, rel=0.08)


def small_draws(*, relu: bool, count: int) -> list[tuple[Structured, float]]:
    """Curves of 16 examples each, with their own error of the true weights."""
    found = []
    for seed in range(count):
        inputs, targets = draw(16, 100 + seed, wrong=0.0)
        images = (RIGHT * inputs) @ make_tail().matrix.T
        error = float(((images.relu() if relu else images) - targets).square().mean())
        curve = structured_from_pairs(make_tail(), far(), inputs, targets, relu=relu)
        found.append((curve, error))
    return found


def test_few_examples_are_not_too_hopeful() -> None:
    """Noise of one size behind a true model: the floor is its square, p times that the slope."""
    draws = small_draws(relu=False, count=40)
    optimism = WEIGHTS / (16 * PIXELS)  # of the fit's own error, relative
    over = np.mean([curve.floor - error for curve, error in draws]) / NOISE**2
    assert over == pytest.approx(0.0, abs=0.3 * optimism)
    slopes = [curve.slope for curve, _ in draws]
    assert np.mean(slopes) == pytest.approx(NOISE**2 * WEIGHTS / PIXELS, rel=0.08)
    spread = np.std([math.log(curve.floor) for curve, _ in draws])
    assert np.mean([curve.spread for curve, _ in draws]) == pytest.approx(spread, rel=0.5)


def test_few_examples_know_how_much_one_of_many_weighs() -> None:
    """An example among 16 takes part in its own normal matrix, which many would outweigh."""

    def crowd(curve: Structured) -> float:
        assert curve.leverages is not None
        values, weights = curve.leverages
        return float(weights @ values**2)

    many = crowd(structured_from_pairs(make_tail(), far(), *population(), relu=False))
    few = np.mean([crowd(curve) for curve, _ in small_draws(relu=False, count=30)])
    assert few == pytest.approx(many, rel=0.15)


def test_behind_a_relu_they_are_not_too_hopeful_either() -> None:
    draws = small_draws(relu=True, count=30)
    optimism = NOISE**2 * WEIGHTS / (16 * PIXELS)
    over = np.mean([curve.floor - error for curve, error in draws])
    assert over == pytest.approx(0.0, abs=0.3 * optimism)


def test_it_predicts_ridge_regression_from_weights_that_are_nearly_right() -> None:
    near = RIGHT + 0.15
    curve = structured_from_pairs(make_tail(), near, *population(), relu=False)
    test = tuple(each[:1000] for each in population())
    for n in (4, 32):
        best = []
        for seed in range(16):
            training = DiagonalRidge(
                make_tail(), *draw(n, 1000 + seed), toward=near, relu=False, gram=None
            ).training(n)
            grid = [n * 10.0**power for power in np.arange(-1, 3.1, 0.5)]
            fitted = training.weights([*grid, math.inf])
            images = torch.einsum("lw,kw,pw->lkp", fitted, test[0], make_tail().matrix)
            best.append((images - test[1]).square().mean((1, 2)))
        expected = float(torch.stack(best).mean(0).min())
        assert curve.errors(n) == pytest.approx(expected, rel=0.03)
    assert curve.errors(4) < curve.floor + curve.slope / 4
    assert curve.effective(4) < curve.effective(32) < WEIGHTS


def test_examples_of_right_weights_have_nothing_to_learn() -> None:
    curve = structured_from_pairs(make_tail(), RIGHT, *draw(300, 3, wrong=0.0), relu=False)
    assert curve.start == curve.analytic
    np.testing.assert_allclose(curve.errors(MEASURED), curve.start, rtol=0.01)
    for seed in range(6):  # of which some find better weights than these, by chance
        few = structured_from_pairs(make_tail(), RIGHT, *draw(8, seed, wrong=0.0), relu=False)
        assert few.floor <= few.start
        assert np.all(few.errors(MEASURED) <= few.start)


@pytest.mark.parametrize("relu", [False, True])
def test_all_routes_agree(monkeypatch: pytest.MonkeyPatch, relu: bool) -> None:
    inputs, targets = draw(64, 3)

    def curve() -> Structured:
        return structured_from_pairs(make_tail(), far() / 20, inputs, targets, relu=relu)

    whole = curve()
    monkeypatch.setattr(module, "LARGEST_WHOLE", 0)
    factored = curve()
    # Sums with random signs stand for the examples here.
    np.testing.assert_allclose(factored.errors(MEASURED), whole.errors(MEASURED), rtol=0.05)
    assert factored.floor == pytest.approx(whole.floor, rel=1e-3)
    assert factored.slope == pytest.approx(whole.slope, rel=0.3)
    monkeypatch.setattr(module, "LARGEST_STORED", 0)
    free = curve()
    assert free.slope == pytest.approx(whole.slope, rel=0.3)
    np.testing.assert_allclose(free.errors(MEASURED[1:]), whole.errors(MEASURED[1:]), rtol=0.03)
    assert free.floor == pytest.approx(whole.floor, rel=0.01)
    assert free.pull.weights.sum() == pytest.approx(whole.pull.weights.sum())
    assert free.spectrum.weights.sum() == pytest.approx(WEIGHTS)


def test_halves_tell_what_leverages_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a stored matrix, over several draws: the same floor, slope and number of rows."""
    stored = small_draws(relu=False, count=12)
    monkeypatch.setattr(module, "LARGEST_STORED", 0)
    halved = small_draws(relu=False, count=12)
    optimism = NOISE**2 * WEIGHTS / (16 * PIXELS)
    pairs = zip(halved, stored, strict=True)
    over = np.mean([each.floor - other.floor for (each, _), (other, _) in pairs])
    assert over == pytest.approx(0.0, abs=0.4 * optimism)
    slopes = [np.mean([each.slope for each, _ in draws]) for draws in (halved, stored)]
    assert slopes[0] == pytest.approx(slopes[1], rel=0.15)
    early = [np.mean([each.errors(8) for each, _ in draws]) for draws in (halved, stored)]
    assert early[0] == pytest.approx(early[1], rel=0.1)


def test_a_relu_behind_positive_images_changes_nothing() -> None:
    inputs, targets = draw(64, 3)
    tail = Matrix(make_tail().matrix.abs() + 0.1, (WEIGHTS,), (PIXELS,))
    inputs, targets = inputs.abs() + 1, targets.abs() + 20
    plain, behind = (
        structured_from_pairs(tail, far(), inputs, targets, relu=relu) for relu in (False, True)
    )
    assert behind.share == 1.0
    np.testing.assert_allclose(behind.errors(MEASURED), plain.errors(MEASURED), rtol=1e-12)


def test_a_relu_is_in_the_errors() -> None:
    inputs, targets = draw(2000, 3)
    targets = targets.clamp_min(0)
    plain, behind = (
        structured_from_pairs(make_tail(), RIGHT, inputs, targets, relu=relu)
        for relu in (False, True)
    )
    images = (inputs * RIGHT) @ make_tail().matrix.T
    assert behind.analytic == pytest.approx(float((images.relu() - targets).square().mean()))
    assert plain.analytic == pytest.approx(float((images - targets).square().mean()))
    assert 0.3 < behind.share < 0.9  # about half of the images is positive, its larger half
    assert behind.floor < plain.floor
    assert behind.slope == pytest.approx(behind.share * plain.slope)


@pytest.mark.parametrize(("of_inputs", "of_targets"), [(1e-3, 1.0), (1.0, 50.0), (1e4, 1e4)])
def test_units_of_examples_do_not_matter(of_inputs: float, of_targets: float) -> None:
    inputs, targets = draw(64, 3)
    plain = structured_from_pairs(make_tail(), far(), inputs, targets, relu=False)
    scaled = structured_from_pairs(
        make_tail(),
        far() * of_targets / of_inputs,
        inputs * of_inputs,
        targets * of_targets,
        relu=False,
    )
    np.testing.assert_allclose(
        scaled.errors(MEASURED), of_targets**2 * plain.errors(MEASURED), rtol=1e-6
    )
    assert scaled.slope == pytest.approx(of_targets**2 * plain.slope)


def test_towards_zero_it_starts_from_no_image() -> None:
    inputs, targets = draw(64, 3)
    curve = structured_from_pairs(make_tail(), far(), inputs, targets, toward="zero", relu=False)
    other = structured_from_pairs(make_tail(), far(), inputs, targets, relu=False)
    assert curve.start == pytest.approx(float(targets.square().mean()))
    assert curve.analytic == other.analytic == other.start
    assert (curve.floor, curve.slope) == pytest.approx((other.floor, other.slope))


def test_rays_that_meet_nothing_do_not_matter() -> None:
    inputs, targets = draw(64, 3)
    wider = Matrix(
        torch.cat([make_tail().matrix, torch.ones(PIXELS, 2, dtype=torch.float64)], 1),
        (WEIGHTS + 2,),
        (PIXELS,),
    )
    padded = torch.cat([inputs, torch.zeros(64, 2, dtype=torch.float64)], 1)
    weights = torch.cat([far(), torch.ones(2, dtype=torch.float64)])
    plain = structured_from_pairs(make_tail(), far(), inputs, targets, relu=False)
    found = structured_from_pairs(wider, weights, padded, targets, relu=False)
    np.testing.assert_allclose(found.errors(MEASURED), plain.errors(MEASURED), rtol=1e-9)
    assert found.parameters == plain.parameters + 2


def test_more_weights_than_examples_see() -> None:
    """A tail of one pixel: 8 rows for 6 weights, then 8 for 12, of which 8 can be told."""
    for weights in (6, 12):
        generator = torch.Generator().manual_seed(0)
        kind: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
        tail = Matrix(torch.randn(1, weights, **kind), (weights,), (1,))
        inputs, targets = torch.randn(8, weights, **kind), torch.randn(8, 1, **kind)
        ones = torch.ones(weights, dtype=torch.float64)
        curve = structured_from_pairs(tail, ones, inputs, targets, relu=False)
        errors = curve.errors(MEASURED)
        assert curve.spectrum.weights.sum() == min(weights, 8)
        assert np.all(np.isfinite(errors))
        assert np.all((errors >= 0) & (errors <= curve.start))


def test_exact_examples_have_no_error_left() -> None:
    inputs, _ = draw(32, 3)
    targets = (2 * inputs) @ make_tail().matrix.T
    curve = structured_from_pairs(make_tail(), far(), inputs, targets, relu=False)
    assert curve.floor < 1e-20
    assert curve.errors(64) < 1e-12
    black = structured_from_pairs(
        make_tail(), torch.zeros(WEIGHTS), inputs, torch.zeros_like(targets), relu=True
    )
    assert (black.errors(MEASURED) < 1e-150).all()  # rounding, which has a logarithm
    assert (black.errors(MEASURED) > 0).all()


def test_a_tail_that_loses_everything_learns_nothing() -> None:
    tail = Matrix(torch.zeros(PIXELS, WEIGHTS, dtype=torch.float64), (WEIGHTS,), (PIXELS,))
    inputs, targets = draw(16, 3)
    curve = structured_from_pairs(tail, far(), inputs, targets, relu=True)
    assert curve.errors(MEASURED).tolist() == [curve.start] * len(MEASURED)
    assert curve.start == pytest.approx(float(targets.square().mean()))
    assert (curve.slope, curve.effective(9), curve.holds_from) == (0.0, 0.0, 1)


def test_single_precision_gives_the_same() -> None:
    inputs, targets = draw(64, 3)
    weak = torch.logspace(0, -2, WEIGHTS, dtype=torch.float64)  # rays that bring little
    single, double = (
        structured_from_pairs(
            make_tail(dtype=dtype), far() / weak, inputs * weak, targets, relu=False
        )
        for dtype in (torch.float32, torch.float64)
    )
    np.testing.assert_allclose(single.errors(MEASURED), double.errors(MEASURED), rtol=1e-3)


def test_progress_grows_to_one() -> None:
    shares: list[float] = []
    structured_from_pairs(make_tail(), far(), *draw(16, 3), relu=False, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
