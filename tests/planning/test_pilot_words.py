"""What is said of a pilot: exact thresholds, counts and places of its findings and doubts."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk.errors import Argument, Message
from korisk.planning.explain import (
    chance,
    count,
    doubt,
    findings,
    no_floor,
    no_learning,
    outliers,
    paragraph,
    rises,
    span,
    times,
)
from korisk.planning.futures.posterior import ROUGHEST, posterior

SIZES = [16, 32, 64, 128]


def smooth(curve: kr.Curve, roughness: float = 0.01) -> Any:
    """A posterior that fits the means exactly."""
    log_means, sizes = np.log(curve.means), curve.sizes.astype(float)

    def moments(n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = np.interp(np.log(n), np.log(sizes), log_means)[None, :]
        return mean, np.zeros_like(mean)

    return SimpleNamespace(roughness=roughness, weight=np.ones(1), moments=moments)


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0, "below 1%"), (0.0099, "below 1%"), (0.01, "1%"), (0.99, "99%"), (0.991, "above 99%"),
     (1.0, "above 99%"), (None, "not known"), (math.nan, "not known"), (0.456, "46%")],
)  # fmt: skip
def test_chances_are_never_certain(p: float | None, text: str) -> None:
    assert chance(p) == text


def test_numbers_have_few_digits() -> None:
    assert [times(factor) for factor in (1.04, 9.94, 10.4, 1234.4)] == ["1", "9.9", "10", "1,234"]
    assert [count(n) for n in (1234.4, math.inf)] == ["1,234", "∞"]
    assert span(5.0, math.inf) == "at least 5"
    assert span(5.0, 1500.0) == "5 to 1,500"
    joined = paragraph([Message("Pass ", Argument("unit", ...), "."), "Or not."])
    assert str(joined) == "Pass unit=. Or not."
    assert str(paragraph([])) == ""


def test_a_collapse_is_told_with_its_first_size_and_its_seeds() -> None:
    """At the last size it counts its seeds; before it, the first size at which all collapsed."""
    n, seeds = np.repeat(SIZES, 3), ["1", "2", "3"] * 4
    errors = np.array([1.0, 1.1, 0.9, 0.5, 0.5, 0.5, 0.2, 0.2, 0.2, 1e-17, 0.1, 1e-17])
    last = kr.Curve(n, errors, seeds)
    assert "at N = 128, 2 of 3 seeds fell to rounding" in doubt(last, smooth(last))
    errors[3:9], errors[9:] = 1e-17, 0.1
    middle = kr.Curve(n, errors, seeds)
    why = doubt(middle, smooth(middle))
    assert "at N = 32 every seed fell to rounding, and at N = 128 none did" in why
    assert why.startswith("The curve cannot be extrapolated: ")
    assert why.endswith(".")


def test_a_step_is_told_where_it_departs_most_from_the_others() -> None:
    curve = kr.Curve([16, 32, 64, 128, 256], [0.9, 0.7, 0.1, 0.08, 0.06])
    assert doubt(curve, smooth(curve, ROUGHEST)) == ""
    why = doubt(curve, smooth(curve, ROUGHEST + 1e-9))
    assert "from N = 32 to 64 the mean goes from 0.7 to 0.1, which" in why
    flat = kr.Curve([16, 32, 64, 128, 256], [0.9, 0.45, 0.43, 0.2, 0.1])
    assert "from N = 32 to 64" in doubt(flat, smooth(flat, 1.0)), "the flat one among steep ones"


@pytest.mark.parametrize(("deviations", "outside"), [(1.63, False), (1.66, True)])
def test_seeds_beyond_their_90_percent_range_are_a_doubt(deviations: float, outside: bool) -> None:
    """A posterior that lies above all seeds of two sizes in three, by just over their range."""
    n, seeds = np.repeat([16, 32, 64], 4), ["1", "2", "3", "4"] * 3
    curve = kr.Curve(n, np.repeat([0.4, 0.2, 0.1], 4), seeds)
    noise = 1e-4  # of a mean of four: one seed's is four times that
    spread = math.log1p(4 * noise)
    expected = smooth(curve)
    shift = np.array([0.0, 1.0, 1.0]) * deviations * math.sqrt(spread) + 0.5 * spread

    def moments(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = expected.moments(sizes)
        return mean + shift, variance

    above: Any = SimpleNamespace(roughness=0.0, weight=np.ones(1), moments=moments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("korisk.planning.explain.relative_variance", lambda c: np.full(3, noise))
        why = doubt(curve, above)
    assert ("most single seeds lie outside" in why) == outside


def test_exact_curves_of_equal_seeds_are_not_doubted() -> None:
    n = np.repeat(SIZES, 2)
    curve = kr.Curve(n, 3.0 * n**-0.5, ["1", "2"] * 4)
    assert doubt(curve, posterior(curve)) == ""


def test_findings_come_in_order_and_are_counted_beyond_three() -> None:
    n = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
    zigzag = kr.Curve(n, [1.0, 1.1, 0.8, 0.9, 0.6, 0.7, 0.4, 0.5, 0.2])
    assert rises(zigzag) == [1, 3, 5, 7]
    said = findings(zigzag)
    assert [text for text in said if "not monotone at N = " in text] == list(said[:3])
    assert "at N = 32: the mean there, 1.1, is worse than 1 at N = 16." in said[0]
    assert said[3] == "There are 1 more rises."
    three = kr.Curve(n[:7], [1.0, 1.1, 0.8, 0.9, 0.6, 0.7, 0.4])
    assert not any("more rises" in text for text in findings(three))
    flat = kr.Curve(SIZES, [0.5, 0.5, 0.51, 0.5])
    assert no_learning(flat)
    assert str(findings(flat)[0]).startswith("No learning from N = 16 to 128")


@pytest.mark.parametrize(("last", "narrow"), [(63, True), (64, False)])
def test_a_pilot_over_less_than_a_factor_of_four_is_narrow(last: int, narrow: bool) -> None:
    said = findings(kr.Curve([16, 32, last], [0.4, 0.2, 0.1]))
    assert any("spans a factor of 3.9 in N" in text for text in said) == narrow


@pytest.mark.parametrize(("seeds", "few"), [(1, None), (2, True), (3, False)])
def test_few_seeds_are_told(seeds: int, few: bool | None) -> None:
    n = np.repeat(SIZES, seeds)
    noise = np.tile(np.linspace(0.99, 1.01, seeds), 4) if seeds > 1 else 1.0
    names = [str(seed) for seed in range(seeds)] * 4
    said = " ".join(map(str, findings(kr.Curve(n, 3.0 / n * noise, names))))
    assert ("fewer than three seeds" in said) == bool(few)
    assert ("With one seed at every N" in said) == (few is None)


def test_outliers_are_judged_where_four_seeds_are() -> None:
    """Three seeds at one size are not judged, and do not set the scale."""
    n = [16] * 4 + [32] * 3
    errors = [1.0, 1.0, 1.0, 1.6, 1.0, 1.0, 9.0]
    curve = kr.Curve(n, errors, ["1", "2", "3", "4", "1", "2", "3"])
    assert outliers(curve) == {3: pytest.approx(1.6)}
    assert outliers(kr.Curve(n[1:], errors[1:], ["1", "2", "3", "1", "2", "3"])) == {}
    (said,) = [text for text in findings(curve) if "outlier" in text]
    assert "Seed 4 is an outlier at N = 16: its error is 1.6 times the median" in said


@pytest.mark.parametrize(("single", "told"), [(1, False), (2, True)])
def test_a_floor_shows_where_more_than_half_of_the_sizes_have_two_seeds(
    single: int, told: bool
) -> None:
    sizes, means = [16, 32, 64, 128], [0.8, 0.4, 0.3, 0.29]
    n = [size for k, size in enumerate(sizes) for _ in range(1 if k < single else 2)]
    errors = [mean for k, mean in enumerate(means) for _ in range(1 if k < single else 2)]
    names = [name for k in range(4) for name in (["1"] if k < single else ["1", "2"])]
    factors = [{"1": 0.999, "2": 1.001}[name] for name in names]
    curve = kr.Curve(n, np.array(errors) * factors, names)
    assert ("most sizes have a single seed" in no_floor(curve)) == told
    assert told or no_floor(curve) == ""
    two = kr.Curve([16, 16, 32, 32], [0.8, 0.81, 0.4, 0.41], ["1", "2"] * 2)
    assert "shows no floor" in no_floor(two), "two sizes have no bend"
    three = kr.Curve([16, 16, 32, 32, 64, 64], [0.8, 0.81, 0.4, 0.41, 0.38, 0.39], ["1", "2"] * 3)
    assert no_floor(three) == "", "three have one"
