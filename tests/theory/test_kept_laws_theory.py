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
from korisk.theory.budget import invert_rate

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


@pytest.mark.parametrize("exponent", [-250, -300, -700])
def test_rates_that_doubles_hardly_hold_are_inverted(exponent: int) -> None:
    rate = Decimal(10) ** exponent
    n = invert_rate(rate)
    with localcontext(prec=1500):
        assert rate_of(n) <= rate < rate_of(n - 1)
