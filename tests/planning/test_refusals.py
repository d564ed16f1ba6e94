"""The ends of comparisons and predictions: what they refuse, and what lies beyond a theory."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import korisk as kr
from korisk.planning import explain as words
from korisk.prediction.pair import PredictedPair
from korisk.prediction.prediction import Prediction, checked_sizes
from pilots import power_pilot

N = [16, 32, 64, 128, 256]
FLAT = kr.Curve(N, [0.1, 0.09, 0.08, 0.075, 0.072], model="KO")
STEEP = kr.Curve(N, [0.8, 0.4, 0.2, 0.1, 0.05], model="FC")


@dataclass(frozen=True)
class Theory:
    """An error of 10 / N, whose theory ends at N = 100."""

    parameters: int | None = 100
    floor: float = 0.0

    def errors(self, n: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(10.0 / np.asarray(n, float))

    def effective(self, n: float) -> float:
        return min(n, 100.0)


PLAIN = Prediction(Theory(), "FC", 64)


@pytest.mark.parametrize(("first", "second"), [(FLAT, STEEP), (STEEP, FLAT)])
def test_fitted_curves_cross_without_odds(first: kr.Curve, second: kr.Curve) -> None:
    """The means of KO and FC cross between 128 and 256, whichever is named first."""
    found = kr.compare(first, second, 0.08, fit="power")
    crossing = found.crossover
    assert crossing is not None
    assert 128 < crossing.n < 256
    assert crossing.better_after == "FC"
    said = words.explain_comparison(found)
    assert f"cross at about N = {crossing.n:,} (within the pilots); from there on FC" in said
    assert found.ratio_range is None


def test_a_pilot_is_a_curve() -> None:
    with pytest.raises(kr.KoriskError, match="pilot must be a korisk Curve, got 'pilot"):
        PLAIN.with_pilot("pilot.csv")  # type: ignore[arg-type]


def test_a_pilot_beyond_the_theory_says_nothing_of_it() -> None:
    limited = replace(PLAIN, valid_to=10.0)
    made = limited.with_pilot(power_pilot())
    assert made.trust == 1.0
    assert not made.tested
    assert made.computed(np.array([4.0])) == pytest.approx(PLAIN.computed(np.array([4.0])))


def test_two_predictions_are_of_the_same_images() -> None:
    with pytest.raises(kr.KoriskError, match="not from 64 and 65"):
        PredictedPair(PLAIN, replace(PLAIN, examples=65))


@pytest.mark.parametrize("n", ["many", [[1, 2]], 0.5, [4, np.nan], [np.inf]])
def test_sizes_are_finite_numbers_from_one_on(n: ArrayLike) -> None:
    with pytest.raises(kr.KoriskError):
        checked_sizes(n)
    assert checked_sizes(1).tolist() == [1.0]


def test_a_bound_is_a_number() -> None:
    net = kr.Network([kr.Learned("W", parameters=4, lipschitz=1), kr.Known("K", lipschitz=2)])
    assert float(kr.deep_risk(net, [0.5, 0.0])) == pytest.approx(2.0)
    made = kr.barron_bound(net, n=100)
    assert float(made) == made.total


def test_a_seed_of_too_many_digits_is_no_label() -> None:
    with pytest.raises(kr.KoriskError):
        kr.Curve([4, 8], [0.3, 0.2], [10**5000, 1])


def test_the_farther_a_theory_holds_the_surer_is_what_lies_beyond_it() -> None:
    pilot = power_pilot(floor=0.0, scale=10.0, rate=1.0, noise=0.02, sizes=(16, 32, 64, 128, 256))
    far = np.array([8192.0])
    widths, off = [], []
    for end in (256.0, 1024.0, 4096.0):
        made = replace(PLAIN, valid_to=end).with_pilot(pilot)
        off.append(abs(float(np.log(made.errors(far) / made.computed(far))[0])))
        low, high = made.band(far)
        widths.append(float(np.log(high / low)[0]))
    assert off[0] > off[1] > off[2]
    assert off[2] < 0.2
    assert widths[0] > 1.1 * widths[1] > 1.2 * widths[2]
