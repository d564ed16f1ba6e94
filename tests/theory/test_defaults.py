"""What values of theory/ are by default, and what counts when they are compared."""

import dataclasses
import importlib
import inspect
import math
import pkgutil
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import korisk as kr
import korisk.theory
from korisk.theory import Composition, NormBracket
from korisk.theory.amplification import paper_amplification, paper_exponents
from korisk.theory.bracket import Whose, joint_origin


def test_values_are_frozen() -> None:
    names = [module.name for module in pkgutil.iter_modules(korisk.theory.__path__)]
    modules = [importlib.import_module(f"korisk.theory.{name}") for name in names]
    values = [
        value
        for module in modules
        for _, value in inspect.getmembers(module, inspect.isclass)
        if dataclasses.is_dataclass(value) and value.__module__ == module.__name__
    ]
    assert len(values) > 10
    for value in values:
        with pytest.raises(dataclasses.FrozenInstanceError):
            object.__new__(value).anything = 1  # type: ignore[attr-defined]


def test_bounds_hold_arrays_and_are_keys_by_identity() -> None:
    net = kr.Network([kr.Learned("W", parameters=3)])
    first, second = (kr.barron_bound(net, 10) for _ in range(2))
    assert len({first, second, first.whole, second.whole, first.whole}) == 4
    assert first != second
    assert first.whole != second.whole


def test_an_origin_is_told_and_not_compared() -> None:
    bracket = NormBracket(1, 2, whose="operator")
    assert bracket == NormBracket(1, 2)
    assert repr(bracket) == "NormBracket(1.0, 2.0)"
    assert repr(NormBracket(1, math.inf, how="sampled")) == (
        "NormBracket(1.0, float('inf'), how='sampled')"
    )


def test_a_bracket_is_a_point_where_its_ends_are_one_number() -> None:
    assert NormBracket(2, 2).is_point
    assert not NormBracket(2, math.nextafter(2, 3)).is_point


@pytest.mark.parametrize("place", range(4))
def test_a_constant_of_several_is_as_strong_as_the_weakest(place: int) -> None:
    order: list[Whose] = ["not known", "present weights", "stated", "operator"]
    brackets = [NormBracket(0, 1, whose=whose) for whose in order[place:]]
    assert joint_origin(reversed(brackets)) == joint_origin(brackets) == order[place]
    assert joint_origin([]) == "stated"


def test_layers_with_inputs_can_be_keys() -> None:
    add = kr.Known("add", inputs={"input": 1, "f": 1})
    assert len({add, kr.Known("add", inputs={"input": 1, "f": 1})}) == 1
    assert add != kr.Known("add", inputs={"input": 1, "f": 2})
    assert len({kr.Learned("W"), kr.Known("W"), kr.Learned("W")}) == 2


def test_a_network_is_known_by_its_layers_and_not_by_a_slope() -> None:
    layers = [kr.Learned("W", parameters=3, lipschitz=2)]
    net = kr.Network(layers, largest_slope=1.5)
    assert net == kr.Network(layers)
    assert net != kr.Network(layers, name="other")
    assert net != kr.Network([kr.Learned("W", parameters=4, lipschitz=2)])
    assert repr(net) == "Network([Learned('W', lipschitz=2.0, parameters=3)])"
    assert kr.Network(layers, largest_slope=0).largest_slope == 0
    for wrong in (-1, math.nan, math.inf):
        with pytest.raises(kr.KoriskError, match="largest_slope must be"):
            kr.Network(layers, largest_slope=wrong)


def test_fields_come_by_name_only() -> None:
    for make in (kr.Known, kr.Learned):
        with pytest.raises(TypeError):
            make("K", 1.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Composition("A", "B", 1.0)  # type: ignore[call-arg]
    assert repr(Composition("A", "B", lipschitz=1)) == "Composition('A', 'B', lipschitz=1.0)"
    assert repr(kr.Known("K", mismatch=0.5)) == "Known('K', mismatch=0.5)"


def test_a_learned_layer_begins_with_the_reference_constants() -> None:
    layer = kr.Learned("W")
    assert (layer.C, layer.width, layer.kappa, layer.shared) == (0, 1, 1, 0)
    optional = (layer.parameters, layer.lipschitz, layer.inputs)
    assert optional == (None, None, None)
    assert kr.Known("K").mismatch == 0
    assert (kr.Known("K").bracket.lower, kr.Known("K").bracket.upper) == (0, math.inf)


@pytest.mark.parametrize(
    ("field", "least", "below"),
    [
        ("parameters", 1, 0),
        ("shared", 0, -1),
        ("C", 0, -1e-300),
        ("width", 1, math.nextafter(1, 0)),
        ("kappa", 5e-324, 0),
    ],
)
def test_constants_go_down_to_their_rule(field: str, least: Any, below: Any) -> None:
    assert getattr(kr.Learned("W", **{field: least}), field) == least
    with pytest.raises(kr.KoriskError, match=f"layer 'W': {field} must be"):
        kr.Learned("W", **{field: below})


def test_shared_parameters_are_at_most_all_of_them() -> None:
    assert kr.Learned("W", parameters=3, shared=3).shared == 3
    assert kr.Learned("W", shared=10**9).shared == 10**9
    with pytest.raises(kr.KoriskError, match="shared must be"):
        kr.Learned("W", parameters=3, shared=4)
    with pytest.raises(kr.KoriskError, match="mismatch must be"):
        kr.Known("K", mismatch=-1e-300)


# --- Joint constants -----------------------------------------------------------------------------


def test_constants_of_several_inputs_are_one_by_cauchy_and_schwarz() -> None:
    layer = kr.Known(
        "add", inputs={"a": NormBracket(1, 3), "b": NormBracket(2, 4, whose="present weights")}
    )
    assert (layer.bracket.lower, layer.bracket.upper) == (2, 5)
    assert layer.bracket.whose == "present weights"
    assert layer.bracket.how == "of all inputs together"
    assert layer.bracket_of("a") == NormBracket(1, 3)
    single = kr.Known("one", inputs={"a": NormBracket(1, 3)})
    assert single.bracket == single.bracket_of("a") == NormBracket(1, 3)


def test_one_constant_of_several_inputs_bounds_each_from_above_alone() -> None:
    joint = NormBracket(2, 3, whose="operator")
    layer = kr.Known("cat", lipschitz=joint, inputs=["a", "b"])
    part = layer.bracket_of("a")
    assert (part.lower, part.upper, part.whose) == (0, 3, "operator")
    assert kr.Known("one", lipschitz=joint, inputs=["a"]).bracket_of("a") == joint
    assert kr.Known("one", lipschitz=joint).bracket_of("a") == joint


# --- The paper's factors -------------------------------------------------------------------------


@pytest.mark.parametrize("layers", range(1, 7))
def test_powers_of_two_fall_from_layer_to_layer(layers: int) -> None:
    """Eq. (eq:Al): L - 1 for the first layer and L - l + 1 for the others."""
    exponents = paper_exponents(layers).tolist()
    assert exponents == [layers - 1, *(layers - layer + 1 for layer in range(2, layers + 1))]
    assert all(0 <= first - second <= 1 for first, second in pairwise(exponents))
    roots = np.arange(1.0, layers + 1)
    factors = paper_amplification(roots)
    assert factors.tolist() == [2**e * root**2 for e, root in zip(exponents, roots, strict=True)]


def test_factors_of_a_deep_network_do_not_overflow_in_between() -> None:
    # 2^{1599} is not a double, and neither is the square of a small root; their product is one.
    exponents = paper_exponents(1600)
    factors = paper_amplification(np.exp2(-exponents / 2))
    assert factors == pytest.approx(np.ones(1600), rel=1e-9)
    net = kr.Network([kr.Known(f"u{k}", lipschitz=0.25) for k in range(6)])
    assert net.amplification("paper")[-3] == 2.0 ** (3 - 8)
    assert net.amplification("composed")[-3] == 2.0**-8
