"""What is odd about a pilot: rises and outliers by their own rules, and the sentences on them."""

import numpy as np
import pytest

import korisk as kr
from korisk.planning.explain import findings, outliers, rises


def _repeated(errors: dict[int, list[float]]) -> kr.Curve:
    rows = [(n, error, str(s)) for n, each in errors.items() for s, error in enumerate(each)]
    return kr.Curve([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])


@pytest.mark.parametrize(("second", "rising"), [(0.31, True), (0.303, False), (0.29, False)])
def test_without_seeds_two_percent_are_a_rise(second: float, rising: bool) -> None:
    found = rises(kr.Curve([4, 8, 16], [0.3, second, 0.1]))
    assert bool(found) == rising
    if rising:
        assert (found[0].before, found[0].n) == (4, 8)
        assert found[0].factor == pytest.approx(second / 0.3)


@pytest.mark.parametrize(("factor", "rising"), [(1.28, False), (1.34, True)])
def test_with_seeds_a_rise_exceeds_two_standard_errors(factor: float, rising: bool) -> None:
    """Means with a standard error of 0.3 / sqrt 10 each; twice both is 0.27 in the logarithm."""
    seeds = np.array([0.7, 1.0, 1.0, 1.0, 1.3])
    curve = _repeated({4: list(seeds), 8: list(factor * seeds)})
    assert bool(rises(curve)) == rising


@pytest.mark.parametrize(
    ("errors", "odd"),
    [([1, 1, 1, 2], True), ([1, 1, 1, 0.5], True), ([1, 1, 1, 1.4], False), ([1, 1, 2], False)],
)
def test_a_seed_half_as_large_again_as_four_that_agree_is_an_outlier(
    errors: list[float], odd: bool
) -> None:
    found = outliers(_repeated({4: errors, 8: [1.0, 1.0, 3.0]}))  # three are not judged
    assert [(each.n, each.seed) for each in found] == ([(4, "3")] if odd else [])
    assert [each.factor for each in found] == pytest.approx(errors[-1:] if odd else [])


def test_among_seeds_that_scatter_an_outlier_is_farther_out() -> None:
    """The median distance from the median is 0.2 in the logarithm; 4 x 1.4826 x 0.2 = 1.19."""
    logs = np.array([-0.2, -0.2, 0.0, 0.2, 0.2])
    for away, odd in ((1.1, False), (1.3, True)):
        errors = np.exp(np.append(logs, [-0.2, 0.2, away]))
        curve = _repeated({4: list(errors), 8: list(np.exp([-0.2, -0.2, 0.2, 0.2]))})
        assert bool(outliers(curve)) == odd


def test_no_learning_is_judged_by_the_ends() -> None:
    said = "shows no learning"
    assert any(said in each for each in findings(kr.Curve([4, 8, 32], [0.3, 0.2, 0.31])))
    assert any(said in each for each in findings(kr.Curve([4, 8, 32], [0.3, 0.2, 0.3])))
    assert not any(said in each for each in findings(kr.Curve([4, 8, 32], [0.3, 0.35, 0.29])))


@pytest.mark.parametrize(("sizes", "said"), [([4, 5, 10], "a factor of 2.5 in"), ([4, 5, 16], "")])
def test_a_narrow_pilot_is_told_its_span(sizes: list[int], said: str) -> None:
    found = [each for each in findings(kr.Curve(sizes, [3, 2, 1])) if "spans" in each]
    assert bool(found) == bool(said)
    assert all(said in each for each in found)


@pytest.mark.parametrize(
    ("seeds", "said"), [(1, "one seed at every N"), (2, "Fewer than three seeds"), (3, "")]
)
def test_few_seeds_are_told(seeds: int, said: str) -> None:
    scatter = 1 + 0.01 * np.arange(seeds)
    curve = _repeated({n: list(scatter / n) for n in (4, 8, 16)})
    found = [each for each in findings(curve) if "seed" in each]
    assert bool(found) == bool(said)
    assert all(said in each for each in found)


def test_three_are_told_in_full_and_the_rest_counted() -> None:
    zigzag = [1.0, 0.5] * 6
    rising = findings(kr.Curve([4 * 2**k for k in range(12)], zigzag))
    assert sum("not monotone" in each for each in rising) == 3
    assert "It rises at 2 more N." in rising
    assert any("N = 16: the mean there, 1, is worse than 0.5 at N = 8" in each for each in rising)
    odd = {4 * 2**k: [1.0, 1.0, 1.0, 1.0, 5.0] for k in range(5)}
    told = findings(_repeated(odd))
    assert sum("is an outlier" in each for each in told) == 3
    assert "2 more measurements are outliers." in told
    exact = findings(_repeated({n: odd[n] for n in (4, 8, 16)}))
    assert not any("more" in each and "outliers" in each for each in exact)
