"""Related curves: the right ones sharpen the answer, the wrong ones have no part in it."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

import korisk as kr
from pilots import scaled

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
    """Over twelve draws: the band at 16 times the pilot, the error expected there, the trust."""
    truth = float(levelling(np.array([float(FAR)]))[0])
    widths, off, trust = [], [], []
    for draw in range(12):
        pilot = noisy(SHORT, levelling(SHORT), noise=0.03, seeds=3, draw=draw)
        shape = 7.0 * levelling(LONG) ** stretch
        relative = noisy(LONG, shape, noise=0.03, seeds=3, draw=100 + draw)
        plans = [kr.plan(pilot, 0.04, related=related) for related in ([], [relative])]
        found = [plan.at(FAR) for plan in plans]
        widths.append([math.log(each.upper / each.lower) for each in found])
        off.append([abs(math.log(each.value / truth)) for each in found])
        trust.append(plans[1].trust or 0.0)
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


def answered(related: Sequence[kr.Curve]) -> kr.Plan:
    made = kr.plan(PILOT, TARGET, related=related)
    assert made.middle is not None
    return made


@pytest.mark.parametrize("wrong", [FLAT, BENT], ids=["flat", "bent"])
def test_a_relative_that_contradicts_the_pilot_has_no_part(wrong: kr.Curve) -> None:
    made = answered([wrong])
    assert made.trust is not None
    assert made.trust < 0.05
    assert made.middle == pytest.approx(made.alone.middle, rel=0.1)
    assert (made.related, made.alone.related, made.alone.trust) == ((wrong,), (), None)


def test_a_wrong_relative_beside_a_good_one_changes_little() -> None:
    good, both = answered([GOOD]), answered([FLAT, GOOD, BENT])
    assert both.middle == pytest.approx(good.middle, rel=0.1)
    assert good.trust is not None
    assert both.trust is not None
    assert min(good.trust, both.trust) > 0.5


def alike(first: kr.Plan, second: kr.Plan) -> None:
    assert second.trust == pytest.approx(first.trust, abs=1e-6)
    for name in ("middle", "even", "lower", "upper"):
        assert getattr(second, name) == pytest.approx(getattr(first, name), rel=1e-6, abs=1)
    assert second.at(4096).value == pytest.approx(first.at(4096).value, rel=1e-6)


@pytest.mark.parametrize("factor", [1e-20, 0.37, 1e20])
def test_the_level_of_a_relative_plays_no_part(factor: float) -> None:
    alike(answered([GOOD]), answered([scaled(GOOD, factor)]))


def test_the_order_of_relatives_plays_no_part() -> None:
    alike(answered([GOOD, BENT, FLAT]), answered([FLAT, GOOD, BENT]))


@pytest.mark.parametrize(
    ("related", "fit", "said"),
    [
        (kr.Curve(LONG, falling(LONG), unit="rmse"), "posterior", "in the pilot's unit, 'error'"),
        (GOOD.up_to(32), "posterior", "a related curve needs at least 3 distinct N"),
        (GOOD, "paper", "related curves need fit 'posterior', got 'paper'"),
        ("simulated.csv", "posterior", "must be a Curve"),
    ],
    ids=["unit", "sizes", "fit", "name"],
)
def test_what_cannot_be_related_is_refused(related: kr.Curve, fit: str, said: str) -> None:
    for ask in (
        lambda: kr.plan(PILOT, TARGET, fit=fit, related=[related]),
        lambda: kr.forecast(PILOT, fit=fit, related=[related]),
    ):
        with pytest.raises(kr.KoriskError, match=said):
            ask()
