"""Fitted curves against their written formulas, and averages against Akaike's weights."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import softmax

import korisk as kr
from korisk.curves.noise import weights
from korisk.planning.fit import AVERAGED, estimate
from korisk.planning.fit import FAMILIES, Family, Fits, least_squares
from pilots import power_pilot

LARGEST_N = 10**15
N = [3.0, 16.0, 100.0, 512.0, 5000.0]

# Written anew from `FORMULAS`, N in samples.
WRITTEN: dict[str, Callable[..., float]] = {
    "power": lambda n, c, a, b: c + a * n**-b,
    "line": lambda n, c, a: c + a * math.log(n) / n,
    "paper": lambda n, c, a: c + a * math.log(n) / n,
    "envelope": lambda n, c, a: c + a * math.log(n) / n,
    "log-power": lambda n, c, a, b: c + a * (math.log(n) / n) ** b,
    "no-floor": lambda n, c, a, b: c + a * n**-b,
    "inverse-log": lambda n, c, a: c + a / math.log(n),
    "shifted-power": lambda n, c, a, b, s: c + a * (n + s) ** -b,
    "weibull": lambda n, c, a, b, k: c + a * math.exp(-k * n**b),
    "mmf": lambda n, c, a, b, k: c + a / (1 + k * n**b),
}


@pytest.mark.parametrize("fit", WRITTEN)
def test_the_letters_of_the_formula_give_the_curve(fit: str) -> None:
    found = kr.calibrate(power_pilot(draw=3), fit)
    expected = [WRITTEN[fit](n, **found.parameters) for n in N]
    assert found.predict(N) == pytest.approx(expected, rel=1e-9)
    assert found.parameters["a"] == found.slope
    assert found.parameters["c"] == found.floor


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_a_basis_is_one_at_the_last_size(family: Family) -> None:
    shape = tuple(np.array([grid[len(grid) // 3]]) for grid in family.grids)
    assert family.basis(np.zeros(1), math.log(512.0), shape) == pytest.approx(1.0)


def test_only_one_family_has_no_floor() -> None:
    assert [name for name, family in FAMILIES.items() if not family.has_floor] == ["no-floor"]
    assert {name: family.parameters for name, family in FAMILIES.items()} == {
        "power": 3,
        "line": 2,
        "log-power": 3,
        "no-floor": 2,
        "inverse-log": 2,
        "shifted-power": 4,
        "weibull": 4,
        "mmf": 4,
    }


@pytest.mark.parametrize(("fit", "names"), [("aic", AVERAGED), ("aic-all", tuple(FAMILIES))])
def test_families_are_averaged_by_akaikes_weights(fit: str, names: tuple[str, ...]) -> None:
    """exp(-AIC / 2), AIC = K log(loss) + 2 p, scaled to one; losses of errors in their own unit."""
    curve = power_pilot(draw=5)
    n, means, weight = curve.sizes.astype(float), curve.means[None, :], weights(curve)
    parts = [least_squares(FAMILIES[name], n, means, weight) for name in names]
    aic = [len(n) * math.log(part.loss[0]) + 2 * part.family.parameters for part in parts]
    shares = softmax(-0.5 * np.array(aic))
    assert np.sort(shares)[-2] > 0.01  # more than one has a say
    found = estimate(fit, n, means, weight)
    expected = sum(share * part.predict(np.array(N)) for share, part in zip(shares, parts))  # noqa: B905
    assert found.predict(np.array(N)) == pytest.approx(expected, rel=1e-9)
    floor = sum(share * part.floor for share, part in zip(shares, parts))  # noqa: B905
    assert found.floor == pytest.approx(floor, rel=1e-9)


@pytest.mark.parametrize("fit", kr.FITS)
def test_a_method_takes_as_few_sizes_as_it_says_and_no_fewer(fit: str) -> None:
    least = 2 if fit in {"paper", "line", "inverse-log", "no-floor", "envelope"} else 3
    sizes = [4, 16, 64][:least]
    errors = [0.5, 0.3, 0.2][:least]
    assert kr.calibrate(kr.Curve(sizes, errors), fit).predict(16) > 0
    with pytest.raises(kr.KoriskError, match=r"at least (two|three) distinct N"):
        kr.calibrate(kr.Curve(sizes[1:], errors[1:]), fit)


def test_the_envelope_of_a_steep_pilot_has_no_floor_and_of_a_rising_one_no_slope() -> None:
    n = np.array([4.0, 8.0, 16.0, 32.0])
    rate = np.log(n) / n
    steep = kr.calibrate(kr.Curve(n, rate**2), "envelope")
    assert [steep.floor, steep.slope] == pytest.approx([0, rate.max()])
    rising = kr.calibrate(kr.Curve(n, 1 - rate), "envelope")
    assert [rising.floor, rising.slope] == pytest.approx([(1 - rate).max(), 0])


@pytest.mark.parametrize("target", [0, -0.5, math.nan])
def test_samples_refuses_what_is_no_error(target: float) -> None:
    with pytest.raises(kr.KoriskError, match="target must be a finite number > 0"):
        kr.calibrate(power_pilot()).samples(target)


def test_predict_takes_every_n_from_two_to_the_largest() -> None:
    found = kr.calibrate(power_pilot(), "line")
    assert found.predict([2, LARGEST_N]).shape == (2,)
    assert isinstance(found.predict(2), float)
    for n in (1.9, LARGEST_N * 1.01):
        with pytest.raises(kr.KoriskError, match="n must be a number from 2"):
            found.predict(n)


@pytest.mark.parametrize("fit", ["paper", "envelope"])
def test_the_loss_of_a_line_is_its_sum_of_squares(fit: str) -> None:
    curve = power_pilot(draw=7)
    n, means = curve.sizes.astype(float), curve.means[None, :]
    found = estimate(fit, n, means, weights(curve))
    assert isinstance(found, Fits)
    assert found.loss == pytest.approx(np.square(found.predict(n) - means).sum(axis=1))


@pytest.mark.parametrize(("fit", "most"), [("power", 1.0), ("no-floor", 3.0)])
def test_rates_end_where_the_family_says(fit: str, most: float) -> None:
    n = np.array([16.0, 32.0, 64.0, 128.0])
    for rate in (0.5 * most, 0.99 * most):
        found = kr.calibrate(kr.Curve(n, n**-rate), fit)
        assert found.parameters["b"] == pytest.approx(rate, rel=1e-3)
    steep = kr.calibrate(kr.Curve(n, n ** -(1.5 * most)), fit)
    assert steep.parameters["b"] == pytest.approx(most)
