"""The ends of every rule: what is just allowed, and what is just not."""

import math
from typing import Any

import pytest

from korisk import _checks
from korisk.errors import KoriskError, UnreachableError
from korisk.theory import Composition, Network
from korisk.theory.bracket import NormBracket
from korisk.theory.budget import root_sum_samples, structural_factor
from korisk.theory.layer import Known, Learned


def test_a_number_may_stand_at_the_end_of_its_rule() -> None:
    assert _checks.real("x", 2, at_least=2, remedy="") == 2
    assert _checks.real("x", 5e-324, above=0, remedy="") > 0
    assert _checks.real("x", math.inf, finite=False, remedy="") == math.inf
    assert math.copysign(1, _checks.real("x", -0.0, remedy="")) == 1  # without its sign
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"value": math.nextafter(2, 0), "at_least": 2}, "a finite number >= 2, got 1"),
        ({"value": 0, "above": 0}, "a finite number > 0, got 0"),
        ({"value": math.inf}, "finite"),
        ({"value": math.nan, "finite": False}, "must be a number, got nan"),
    ]
    for options, said in wrong:
        with pytest.raises(KoriskError, match=said):
            _checks.real("x", **options, remedy="")


def test_counts_and_names_have_limits() -> None:
    for value in (1, 3):
        assert _checks.count("k", value, at_least=1, at_most=3, remedy="") == value
    assert _checks.count("k", 10**30, at_least=1, remedy="") == 10**30
    wrong: list[object] = [0, 4, 2.5, True, "2", None]
    for each in wrong:
        with pytest.raises(KoriskError, match="k must be a whole number from 1 to 3"):
            _checks.count("k", each, at_least=1, at_most=3, remedy="")
    assert _checks.name("name", "x" * 80, remedy="") == "x" * 80
    for name, said in (("x" * 81, "at most 80 characters, got 81"), ("", "printable")):
        with pytest.raises(KoriskError, match=said):
            _checks.name("name", name, remedy="")
    for other in ("  ", "a\nb", 3):
        with pytest.raises(KoriskError, match="printable"):
            _checks.name("name", other, remedy="")


def test_a_bracket_may_be_a_point_at_zero_and_nothing_below() -> None:
    assert NormBracket(0, 0).is_point
    for ends in ((-0.5, 1.0), (-1.0, -0.5), (0.0, -0.5)):
        with pytest.raises(KoriskError):
            NormBracket(*ends)


def test_the_structural_factor_takes_any_positive_norm() -> None:
    """H^2 / (4 |K|^2 |A^T|^2), Eq. (eq:ct-structural), also where norms are below one."""
    found = structural_factor(H=1, filter_norm=0.25, backprojection_norm=0.5)
    assert found == pytest.approx(1 / (4 * 0.25**2 * 0.5**2), rel=1e-12)
    for norms in ((0, 1), (1, 0)):
        with pytest.raises(KoriskError, match="_norm must be a finite number > 0"):
            structural_factor(H=8, filter_norm=norms[0], backprojection_norm=norms[1])
    with pytest.raises(KoriskError, match="H must be"):
        structural_factor(H=0, filter_norm=1, backprojection_norm=1)


def test_a_wrong_bracket_in_a_file_names_its_layer() -> None:
    content = {"layers": [{"known": "A", "lipschitz": {"lower": 2, "upper": 1}}]}
    with pytest.raises(KoriskError, match=r"net\.yaml: layer 'A': lipschitz: lower must be"):
        Network.from_dict(content, source="net.yaml")


def test_shared_parameters_are_counted_at_the_next_use_of_what_is_replaced() -> None:
    net = Network(
        [
            Learned("W", lipschitz=1, parameters=10),
            Learned("V", lipschitz=1, parameters=7),
            Learned("W (2)", lipschitz=1, parameters=10, shared=10),
        ]
    )
    assert (net.parameters, net.replace("W").parameters) == (17, 17)
    assert net.replace("V").parameters == 10
    assert net.replace("W", Learned("W", lipschitz=1, parameters=10)).parameters == 17
    known = Network([Known("K", lipschitz=1), *net.layers])
    assert known.replace("K").parameters == 17


def test_parameters_that_no_layer_counts_leave_shared_ones_alone() -> None:
    net = Network(
        [
            Learned("U", lipschitz=1),
            Learned("W", lipschitz=1, parameters=10),
            Learned("T", lipschitz=1, parameters=9, shared=9),
        ]
    )
    later = net.replace("W")["T"]
    assert isinstance(later, Learned)
    assert later.shared == 9  # U may hold them all


def test_a_floor_of_several_layers_is_the_square_of_the_sum_of_roots() -> None:
    with pytest.raises(UnreachableError) as refused:
        root_sum_samples([(1.0, 0.04, 1.0), (1.0, 0.09, 1.0)], 0.2)
    assert refused.value.floor == pytest.approx(0.25)


def test_a_composition_is_of_two_layers_at_least_and_from_the_input_on() -> None:
    layers = [Known("A", lipschitz=1), Known("B", lipschitz=1)]
    assert Network(layers, compositions=[Composition("A", "B", lipschitz=0.5)]).lipschitz() == 0.5
    for ends in (("A", "A"), ("B", "A")):
        with pytest.raises(KoriskError):
            Network(layers, compositions=[Composition(*ends, lipschitz=1)])
