"""Bounds: defaults, both sides of each threshold, and sample sizes to the last one."""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from typing import Any

import pytest

import korisk as kr
import korisk.theory
from korisk.theory.bound import estimation_slope
from korisk.theory.bracket import NOT_KNOWN
from korisk.theory.budget import invert_rate, line_samples, root_sum_samples

# That defaults are warned of is asked in tests/theory/test_uncalibrated.py.
pytestmark = pytest.mark.filterwarnings("ignore:N = .* assumes the defaults")


def _callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions of the package and methods of its classes."""
    for found in pkgutil.iter_modules(korisk.theory.__path__, "korisk.theory."):
        for value in vars(importlib.import_module(found.name)).values():
            if getattr(value, "__module__", None) != found.name:
                continue
            for each in vars(value).values() if isinstance(value, type) else (value,):
                if inspect.isfunction(each):
                    yield each.__qualname__, each


def test_the_composed_bound_is_the_default_everywhere() -> None:
    for name, made in _callables():
        for each in inspect.signature(made).parameters.values():
            if each.default is not inspect.Parameter.empty:
                assert each.name != "bound" or each.default == "composed", name


def two_layers() -> kr.Network:
    return kr.Network(
        [
            kr.Learned("W", parameters=100, C=2.0, width=8, kappa=3.0),
            kr.Learned("V", parameters=10, lipschitz=2.0),
            kr.Known("K", lipschitz=5.0),
        ],
        compositions=[kr.theory.Composition("V", "K", lipschitz=4.0)],
    )


def test_without_a_word_the_bound_is_composed_and_counts_parameters() -> None:
    net = two_layers()
    composed = kr.barron_bound(net, 64, bound="composed")
    assert kr.barron_bound(net, 64).total == composed.total
    assert kr.barron_bound(net, 64).total < kr.barron_bound(net, 64, bound="minkowski").total
    assert kr.sample_size(net, 60.0) == kr.sample_size(net, 60.0, bound="composed")
    layer = net.layers[0]
    assert isinstance(layer, kr.Learned)
    assert estimation_slope(layer) == 300.0
    assert kr.theory.layer_risk(layer, 64) == pytest.approx(0.5 + 300 * math.log(64) / 64)
    assert net.tails().tolist() == net.tails("composed").tolist() == [4.0, 5.0, 1.0]
    assert net.tails("minkowski").tolist() == [10.0, 5.0, 1.0]
    assert net.amplification().tolist() == [16.0, 25.0, 1.0]
    assert kr.theory.savings(net, "V").bound == "composed"


def test_a_constant_that_is_not_known_may_be_anything() -> None:
    for bracket in (NOT_KNOWN, kr.Known("K").bracket, kr.Learned("W").bracket):
        assert (bracket.lower, bracket.upper, bracket.how) == (0.0, math.inf, "not known")
        assert not bracket.is_point


@pytest.mark.parametrize(
    ("name", "kept"), [("A", True), ("B", False), ("C", False), ("D", False), ("E", True)]
)
def test_another_map_drops_the_compositions_that_run_over_it(name: str, kept: bool) -> None:
    net = kr.Network(
        [kr.Known(each, lipschitz=2.0) for each in "ABCDE"],
        compositions=[kr.theory.Composition("B", "D", lipschitz=3.0)],
    )
    assert (net.lipschitz(), net.lipschitz("minkowski")) == (2 * 3 * 2, 32)
    other = net.replace(name, kr.Known("other", lipschitz=2.0))
    assert bool(other.compositions) == kept
    assert other.lipschitz() == (12 if kept else 32)
    assert net.replace(name).compositions == net.compositions


def test_the_minkowski_bound_of_two_erring_layers_is_no_line() -> None:
    """Also where each layer's floor is its slope, or only one of the two is there."""
    equal = kr.Learned("W", parameters=1, C=1.0, width=1, lipschitz=1.0)
    floor = kr.Known("K", lipschitz=1.0, mismatch=0.5)
    slope = kr.Learned("V", parameters=3, lipschitz=1.0)
    for layers in ([equal, slope], [equal, floor], [floor, slope]):
        net = kr.Network(layers)
        with pytest.raises(kr.KoriskError, match="not a line"):
            kr.theory.risk_line(net)
        assert kr.theory.risk_line(net, bound="paper").samples(1e3) >= 2
    for layer, line in ((equal, (1, 1)), (floor, (0.5, 0)), (slope, (0, 3))):
        found = kr.theory.risk_line(kr.Network([layer]))
        assert (found.floor, found.slope) == pytest.approx(line)


def rate_of(n: int) -> Decimal:
    return Decimal(n).ln() / n


@pytest.mark.parametrize("n", [4, 5, 6, 7, 10, 99, 100, 12_345, 10**9, 10**30, 10**50])
def test_sample_sizes_are_right_to_the_last_sample(n: int) -> None:
    """A rate that N just meets, and one that it just misses."""
    with localcontext(prec=150):
        nearly = rate_of(n) * Decimal("1e-100")
        just, below = rate_of(n) + nearly, rate_of(n) - nearly
    assert (invert_rate(just), invert_rate(below)) == (n, n + 1)


def test_log_n_over_n_is_largest_at_three() -> None:
    with localcontext(prec=60):
        tiny = Decimal("1e-40")
        assert (invert_rate(rate_of(3) + tiny), invert_rate(rate_of(3) - tiny)) == (2, 4)
        assert invert_rate(rate_of(4) + tiny) == 4  # which has the rate of N = 2
        assert (invert_rate(rate_of(4) - tiny), invert_rate(Decimal(10))) == (5, 2)


@pytest.mark.parametrize("exponent", [-250, -300, -700])
def test_rates_that_doubles_hardly_hold_are_inverted(exponent: int) -> None:
    rate = Decimal(10) ** exponent
    n = invert_rate(rate)
    with localcontext(prec=1500):
        assert rate_of(n) <= rate < rate_of(n - 1)


@pytest.mark.parametrize(
    ("terms", "target"),
    [
        ([(1.0, 1.0, 1e150), (1e-3, 0.5, 1e140)], 1.0015),
        ([(1.0, 1e-200, 1e100), (1e-150, 0.0, 1.0)], 1.1e-200),
        ([(1.0, 2.0, 1e-20), (1.0, 8.0, 1e-30)], math.nextafter(18.0, 19.0)),
    ],
)
def test_the_smallest_n_is_the_smallest_however_large(terms: Any, target: float) -> None:
    with localcontext(prec=800):

        def bound(n: int) -> Decimal:
            parts = [tuple(map(Decimal, term)) for term in terms]
            return sum((p * (f + s * rate_of(n)).sqrt() for p, f, s in parts), Decimal(0)) ** 2

        n = root_sum_samples(terms, target)
        assert bound(n) <= Decimal(target) < bound(n - 1) or n == 2
        floor, slope = terms[0][1:]
        if target > floor:
            n = line_samples(floor, slope, target)
            line = [Decimal(floor) + Decimal(slope) * rate_of(each) for each in (n, max(n - 1, 1))]
            assert line[0] <= Decimal(target) < line[1] or n == 2


def test_a_floor_of_irrational_roots_is_told_from_a_target_that_equals_it() -> None:
    # sqrt 2 + sqrt 2 = sqrt 8, of which no number of digits shows it.
    for slope in (1.0, 1e-300):
        with pytest.raises(kr.errors.UnreachableError):
            root_sum_samples([(1.0, 2.0, slope), (1.0, 2.0, slope)], 8.0)
        assert root_sum_samples([(1.0, 2.0, slope), (1.0, 2.0, 0.0)], math.nextafter(8, 9)) >= 2


def test_sums_of_roots_are_met_at_the_answer_and_not_before() -> None:
    terms = [(1.0, 0.01, 3.0), (0.5, 0.04, 0.0), (2.0, 0.0, 5.0), (0.0, 9.0, 9.0)]

    def bound(n: int) -> float:
        q = math.log(n) / n
        return sum(tail * math.sqrt(floor + slope * q) for tail, floor, slope in terms) ** 2

    for target in (0.05, 0.3, 2.0):
        n = root_sum_samples(terms, target)
        assert bound(n) <= target < bound(n - 1)
    assert root_sum_samples(terms, 1e6) == 2
    with pytest.raises(kr.errors.UnreachableError) as refused:
        root_sum_samples(terms, 0.04)  # (0.1 + 0.5 * 0.2)^2 is the floor
    assert refused.value.floor == pytest.approx(0.04)
    level = [(1.0, 0.25, 0.0), (1.0, 0.25, 0.0)]
    assert root_sum_samples(level, 1.0) == 2  # a floor that nothing rises above is met
    assert line_samples(0.25, 0.0, 0.25) == 2
    for floor, slope in ((0.25, 1e-9), (0.26, 0.0)):
        with pytest.raises(kr.errors.UnreachableError):
            line_samples(floor, slope, 0.25)
