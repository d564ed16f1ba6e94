"""Inside the pilot: closed forms of what stands between two measured sizes."""

import math

import numpy as np
import pytest

import korisk as kr


def test_a_target_between_two_sizes_is_met_on_the_line_between_them() -> None:
    curve = kr.Curve([4, 16, 256, 512], [1.0, 0.5, 0.1, 0.05])
    found = kr.forecast(curve).measured.crossing(0.2)
    assert found is not None
    share = math.log(0.5 / 0.2) / math.log(0.5 / 0.1)
    assert found[0] == pytest.approx(16 * (256 / 16) ** share)
    assert found[1:] == (16, 256)


def test_half_way_between_two_sizes_the_variance_is_a_quarter_of_both() -> None:
    n = np.repeat([4, 8, 16, 32], 6)
    wide = np.where(n <= 8, 0.1, 0.02)
    errors = n**-0.5 * np.exp(wide * np.tile([-1.5, -1, -0.5, 0.5, 1, 1.5], 4))
    made = kr.forecast(kr.Curve(n, errors, seed=list(range(6)) * 4))

    def spread(at: float) -> float:
        low, high = (made.quantile(at, p).item() for p in (0.16, 0.84))
        return (math.log(high) - math.log(low)) / 2

    middle = spread(math.sqrt(8 * 16))
    assert middle == pytest.approx(math.sqrt(spread(8) ** 2 + spread(16) ** 2) / 2, rel=0.1)


def test_json_has_the_largest_chance_where_there_is_one() -> None:
    sizes = [4, 8, 16, 32, 64]
    made = kr.plan(kr.Curve(sizes, [0.5 * n**-0.5 + 0.05 for n in sizes]), 0.07)
    assert made.to_dict()["reach"] == made.reach
    assert 0 < made.reach < 1


def test_a_pilot_is_not_its_own_relative() -> None:
    curve = kr.Curve([4, 8, 16, 32], [0.4, 0.3, 0.2, 0.15])
    with pytest.raises(kr.KoriskError, match="another measurement than the pilot"):
        kr.plan(curve, 0.1, related=[curve])


def test_two_that_meet_a_target_at_once_have_no_ratio() -> None:
    first = kr.Curve([4, 8, 16, 32], [0.4, 0.3, 0.2, 0.15], model="KO")
    second = kr.Curve([4, 8, 16, 32], [0.45, 0.35, 0.25, 0.2], model="FC")
    made = kr.compare(first, second, 0.6)
    assert (made.ratio, made.ratio_range) == (None, None)
    assert "in relation to each other is not known" in made.explain()
