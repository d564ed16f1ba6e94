"""Curves of structured layers: laws of the formula, and fits that it was not told about."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from korisk.errors import KoriskError
from korisk.prediction.weights.structured import Measure, Spread, Structured

Array = NDArray[np.float64]
SIZES = np.array([1, 2, 4, 8, 16, 64, 256, 1024, 2.0**20])


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
        spread=Spread(0.0, 0.0),
    )


@pytest.fixture
def moments() -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    gamma = np.logspace(0, -3, 12)
    return gamma, gamma * rng.uniform(0.5, 2, 12), rng.normal(size=12)


def test_errors_fall_from_the_start_to_the_floor(moments: tuple[Array, Array, Array]) -> None:
    curve = structured(*moments)
    errors = curve.errors(SIZES)
    assert np.all(np.diff(errors) < 0)
    assert errors[0] <= curve.start
    assert curve.errors(1e12) == pytest.approx(curve.floor, rel=1e-9)
    assert curve.errors(math.inf) == curve.floor


def test_many_examples_leave_slope_over_n(moments: tuple[Array, Array, Array]) -> None:
    gamma, omega, way = moments
    curve = structured(gamma, omega, way)
    assert curve.slope == pytest.approx(float(np.sum(omega / gamma)))
    assert (curve.errors(1e6) - 1.0) * 1e6 == pytest.approx(curve.slope, rel=0.01)
    assert np.all(curve.errors(SIZES) <= 1.0 + curve.slope / SIZES + 1e-12)


def test_a_start_that_is_far_off_is_no_help(moments: tuple[Array, Array, Array]) -> None:
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


def test_right_weights_have_nothing_to_learn(moments: tuple[Array, Array, Array]) -> None:
    gamma, omega, _ = moments
    curve = structured(gamma, omega, np.zeros(12))
    assert curve.errors(SIZES).tolist() == [curve.floor] * len(SIZES)
    assert curve.effective(100) == 0.0


def test_a_pull_by_chance_is_no_way_to_go(moments: tuple[Array, Array, Array]) -> None:
    """Of few examples, most of the gradient at the start is chance, and is not taken for bias."""
    gamma, omega, way = moments
    few, many = (structured(gamma, omega, way, n=n) for n in (20, 10**9))
    np.testing.assert_allclose(few.errors(SIZES), many.errors(SIZES), rtol=1e-6)


def test_a_relu_passes_a_share_of_the_excess(moments: tuple[Array, Array, Array]) -> None:
    whole, half = structured(*moments), structured(*moments, share=0.5)
    np.testing.assert_allclose(half.errors(SIZES) - 1, (whole.errors(SIZES) - 1) / 2)
    assert half.slope == pytest.approx(whole.slope / 2)


def test_units_do_not_matter(moments: tuple[Array, Array, Array]) -> None:
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
    few = structured(gamma, omega, way, n=40, leverages=rows)._path
    many = structured(gamma, omega, way, n=10**6, leverages=rows)._path
    at = np.argmin(abs(many.freedom - 10))
    assert few.freedom[at] == many.freedom[at]
    # lambda = kappa (1 - df / n) with df = 10: kappa is a third larger, and d lambda / d kappa is
    # 1 - df_2 / n with df_2 = (10 - 20 / 3) / (1 - 1 / 6).
    expected = many.bias[at] * (4 / 3) ** 2 * (1 - (10 - 20 / 3) / (5 / 6) / 40)
    assert few.bias[at] == pytest.approx(expected, rel=0.02)
    assert few.squared[at] < many.squared[at]


@pytest.mark.parametrize("n", [0, -3, math.nan, [4, 0], "many", None])
def test_sizes_that_are_none_are_refused(moments: tuple[Array, Array, Array], n: object) -> None:
    with pytest.raises(KoriskError, match=r"n must be numbers >= 1, got .*; count"):
        structured(*moments).errors(n)  # type: ignore[arg-type]


def test_shapes_follow_the_sizes(moments: tuple[Array, Array, Array]) -> None:
    curve = structured(*moments)
    assert curve.errors(4).shape == ()
    assert curve.errors([[4, 8], [16, 32]]).shape == (2, 2)
    assert curve.errors([]).shape == (0,)
    with pytest.raises(KoriskError, match="n must be one number"):
        curve.effective([4, 8])  # type: ignore[arg-type]
    assert "slope=" in repr(curve)


def test_unequal_rows_are_worth_fewer_and_none_more_than_its_example() -> None:
    """Kish's number: N (sum w)^2 / sum w^2, where a row holds v / (1 + v / N)."""
    gamma = np.ones(2)
    equal = structured(gamma, gamma, gamma, leverages=Measure(np.array([3.0]), np.array([5.0])))
    assert equal._rows(7) == pytest.approx(7 * 5)
    unequal = Measure(np.array([1.0, 1e9]), np.array([1.0, 1.0]))
    found = structured(gamma, gamma, gamma, leverages=unequal)._rows(4)
    small, large = 1 / (1 + 1 / 4), 4.0  # a huge leverage counts as N
    assert found == pytest.approx(4 * (small + large) ** 2 / (small**2 + large**2), rel=1e-6)
    assert structured(gamma, gamma, gamma)._rows(4) == math.inf
