"""Tails of small graphs by hand, runs of operators, replacements, and files of networks."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk.theory import Composition, NormBracket
from korisk.theory.amplification import Node, graph_tails

Runs = dict[tuple[int, int], float]


def tails(*nodes: tuple[tuple[int, ...], tuple[float, ...]], **runs: float) -> list[float]:
    """Tails of a graph; `from_0_to_2=1.5` states a run from value 0 to value 2."""
    stated: Runs = {}
    for name, constant in runs.items():
        _, source, _, last = name.split("_")
        stated[int(source), int(last)] = constant
    return graph_tails([Node(*node, math.inf) for node in nodes], stated, 1.0)


SKIP = [((0,), (2.0,)), ((1,), (3.0,)), ((0, 2), (1.0, 1.0))]  # x + 3 * 2 x
DIAMOND = [((0,), (2.0,)), ((0,), (3.0,)), ((1, 2), (5.0, 7.0))]
# A diamond from value 1 to value 4, in one branch of a skip from the input.
NESTED = [
    ((0,), (1.0,)),
    ((1,), (2.0,)),
    ((1,), (3.0,)),
    ((2, 3), (1.0, 1.0)),
    ((0, 4), (1.0, 1.0)),
]


def test_errors_add_up_over_paths() -> None:
    assert tails(((0,), (2.0,))) == [2, 1]
    assert tails(*SKIP) == [7, 3, 1, 1]
    assert tails(*DIAMOND) == [31, 5, 7, 1]
    assert tails(*NESTED) == [6, 5, 1, 1, 1, 1]


def test_a_run_counts_from_a_value_on_all_paths() -> None:
    assert tails(*SKIP, from_0_to_2=4.0) == [5, 3, 1, 1]
    assert tails(*SKIP, from_1_to_2=2.5) == [6, 2.5, 1, 1]
    assert tails(*SKIP, from_0_to_3=1.5) == [1.5, 3, 1, 1]
    assert tails(*SKIP, from_0_to_2=9.0) == tails(*SKIP)  # the product is less
    # Value 1 dominates value 4 on the way from the input, and value 2 does not.
    assert tails(*NESTED, from_1_to_4=0.5) == [1.5, 0.5, 1, 1, 1, 1]
    assert tails(*NESTED, from_2_to_4=0.25) == [6, 5, 0.25, 1, 1, 1]
    assert tails(*NESTED, from_0_to_4=0.5, from_1_to_4=3.0)[:2] == [1.5, 3]
    # Around value 1 leads another path.
    assert tails(*DIAMOND, from_1_to_3=0.5) == [31, 0.5, 7, 1]


def test_a_run_may_span_several_blocks() -> None:
    second = [((3,), (2.0,)), ((3,), (3.0,)), ((4, 5), (5.0, 7.0))]
    both = [*DIAMOND, *second]
    assert tails(*both)[:4] == [31 * 31, 5 * 31, 7 * 31, 31]
    assert tails(*both, from_0_to_6=1.5)[0] == 1.5
    assert tails(*both, from_0_to_6=1e4)[0] == 31 * 31
    third = [((6,), (4.0,))]
    assert tails(*both, *third, from_0_to_6=1.5)[0] == 6
    assert tails(*both, *third, from_0_to_7=1.5, from_3_to_7=0.5)[::3] == [1.5, 0.5, 4]
    assert tails(*both, *third, from_3_to_7=0.5)[0] == 31 * 0.5


@pytest.mark.parametrize("number", [float, Decimal])
def test_a_joint_constant_takes_changes_as_one_vector(number: Any) -> None:
    ends = [((0,), (number(k),)) for k in (2, 3, 6)]
    nodes = [Node(inputs, constants, number(math.inf)) for inputs, constants in ends]
    cat = Node((1, 2, 3), (number(1),) * 3, number(1))
    assert graph_tails([*nodes, cat], {}, number(1)) == [7, 1, 1, 1, 1]
    # Where the sum over paths is less, the joint constant does not count.
    small = Node((1, 2, 3), (number(0), number(0), number(0.5)), number(1))
    assert graph_tails([*nodes, small], {}, number(1)) == [3, 0, 0, 0.5, 1]


def test_a_zero_map_removes_an_unbounded_change() -> None:
    assert tails(((0,), (math.inf,)), ((1,), (0.0,))) == [0, 0, 1]
    assert tails(((0,), (0.0,)), ((1,), (math.inf,))) == [0, math.inf, 1]
    assert tails(((0,), (math.inf,)), ((1,), (2.0,))) == [math.inf, 2, 1]


def test_the_meeting_of_three_users_is_behind_all() -> None:
    # The input goes to 1, 2 and 3; 1 and 2 meet at 4, and 3 joins at 5.
    nodes = [
        *(((0,), (1.0,)), ((0,), (2.0,)), ((0,), (4.0,))),
        *(((1, 2), (1.0, 1.0)), ((3, 4), (1.0, 1.0)), ((5,), (3.0,))),
    ]
    assert tails(*nodes) == [21, 3, 3, 3, 3, 3, 1]
    assert tails(*nodes, from_0_to_5=2.0)[0] == 6
    assert tails(*nodes, from_0_to_4=0.5)[0] == 13.5


# --- Operators -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scaling:
    """A diagonal operator; the norm of a product is often below the product of the norms."""

    entries: tuple[float, ...]

    def norm(self) -> NormBracket:
        return NormBracket(max(map(abs, self.entries)), max(map(abs, self.entries)), how="exact")

    def __matmul__(self, inner: "Scaling") -> "Scaling":
        return Scaling(tuple(a * b for a, b in zip(self.entries, inner.entries, strict=True)))

    def __add__(self, other: "Scaling") -> "Scaling":
        return Scaling(tuple(a + b for a, b in zip(self.entries, other.entries, strict=True)))


A, B, C, ONE = Scaling((2, 0.5)), Scaling((0.25, 3)), Scaling((1, 4)), Scaling((1, 1))


def learned(name: str = "W") -> kr.Learned:
    return kr.Learned(name, parameters=1, lipschitz=1)


def known(name: str, operator: Scaling, **options: Any) -> kr.Known:
    return kr.Known(name, lipschitz=operator, **options)


def test_runs_of_operators_have_the_norm_of_the_product() -> None:
    net = kr.Network([learned(), known("A", A), known("B", B), known("C", C)])
    # C B A = (0.5, 6), C B = (0.25, 12), C = (1, 4).
    assert net.tails().tolist() == [6, 12, 4, 1]
    assert net.tails("minkowski").tolist() == [2 * 3 * 4, 3 * 4, 4, 1]
    assert net.lipschitz() == 6
    stated = [(run["first"], run["last"]) for run in net.to_dict()["compositions"]]
    assert sorted(stated) == [("A", "C"), ("B", "C")]
    again = kr.Network.from_dict(net.to_dict())
    assert again.tails().tolist() == net.tails().tolist()


def test_a_nonlinear_layer_ends_a_run() -> None:
    relu = kr.Known("ReLU", lipschitz=1)
    net = kr.Network([learned(), known("A", A), known("B", B), relu, known("C", C)])
    assert net.tails().tolist() == [1.5 * 4, 3 * 4, 4, 4, 1]
    middle = kr.Network([learned(), known("A", A), learned("V"), known("B", B)])
    assert middle.tails().tolist() == [6, 3, 3, 1]


def test_a_value_that_is_used_twice_ends_a_run_as_well() -> None:
    # A is used by B and by the sum: the run to B and the run to the sum are both known.
    add = kr.Known("add", inputs={"A": ONE, "B": ONE})
    net = kr.Network([learned(), known("A", A), known("B", B), add, kr.Known("R", lipschitz=3)])
    # (1 + B) A = (2.5, 2), and 1 + B = (1.25, 4); B alone is (0.25, 3).
    assert net.tails().tolist() == [7.5, 12, 3, 3, 1]
    branch = kr.Network(
        [learned(), known("A", A), known("B", B), kr.Known("add", inputs={"W": 1, "B": 1})]
    )
    # The sum's constants are numbers: only the branch B A = (0.5, 1.5) is one operator.
    assert branch.tails().tolist() == [2.5, 3, 1, 1]


def test_a_path_that_is_not_linear_spoils_the_run() -> None:
    net = kr.Network(
        [
            learned(),
            known("A", A),
            kr.Known("f", lipschitz=1, inputs=["W"]),
            known("B", B, inputs=["A"]),
            kr.Known("add", inputs={"f": ONE, "B": ONE}),
        ]
    )
    # From W one path leads through f: the norms add up, 1 + |B A|; from A on all is linear.
    assert net.tails().tolist() == [1 + 1.5, 3, 1, 1, 1]


def test_a_stated_run_and_a_computed_one_count_by_the_smaller() -> None:
    layers = [learned(), known("A", A), known("B", B)]
    for constant, expected in ((1.0, 1.0), (2.0, 1.5)):
        run = Composition("A", "B", lipschitz=constant)
        assert kr.Network(layers, compositions=[run]).tails()[0] == expected


def test_one_of_two_inputs_without_an_operator_leaves_numbers() -> None:
    mixed = kr.Known("add", inputs={"W": ONE, "A": 1})
    net = kr.Network([learned(), known("A", A), mixed])
    assert net.tails().tolist() == [3, 1, 1]
    assert net.tails("composed").tolist() == net.tails("minkowski").tolist()
    joint = kr.Known("cat", lipschitz=ONE, inputs=["W", "A"])
    assert kr.Network([learned(), known("A", A), joint]).tails()[0] == pytest.approx(math.sqrt(5))


# --- Structure -----------------------------------------------------------------------------------

GRAPH = kr.Network(
    [
        kr.Learned("f", parameters=5, lipschitz=2),
        kr.Known("g", lipschitz=3),
        kr.Known("h", lipschitz=5, inputs=["f"]),
        kr.Known("add", inputs={"g": 7, "h": 11}),
    ],
    largest_slope=4.0,
    name="branches",
)


def test_layers_know_what_they_take_and_what_depends_on_them() -> None:
    assert [GRAPH.inputs_of(name) for name in GRAPH.names] == [
        *(("input",), ("f",), ("f",), ("g", "h")),
    ]
    assert [GRAPH.behind(name) for name in GRAPH.names] == [
        *(("g", "h", "add"), ("add",), ("add",), ()),
    ]
    assert not GRAPH.is_chain
    assert GRAPH.edges[("h", "add")].upper == 11
    assert len(GRAPH.edges) == 5
    assert (len(GRAPH), GRAPH.index("h"), GRAPH["h"].name) == (4, 2, "h")
    assert [layer.name for layer in GRAPH.learned] == ["f"]
    assert GRAPH.tails().tolist() == [3 * 7 + 5 * 11, 7, 11, 1]
    assert GRAPH.lipschitz() == 2 * 76
    chain = kr.Network([kr.Known("a", lipschitz=1), kr.Known("b", lipschitz=1, inputs=["a"])])
    assert chain.is_chain


def test_wrong_inputs_are_refused() -> None:
    first = kr.Known("a", lipschitz=1)
    for inputs in (["b"], ["c"]):
        with pytest.raises(kr.KoriskError, match="layer 'b': inputs must be layers listed before"):
            kr.Network([first, kr.Known("b", lipschitz=1, inputs=inputs)])
    with pytest.raises(kr.KoriskError, match="layer 'a' must be taken by a later one"):
        kr.Network([first, kr.Known("b", lipschitz=1, inputs=["input"])])
    named = kr.Known("input", lipschitz=1)
    with pytest.raises(kr.KoriskError, match="layer 'input' must have another name"):
        kr.Network([named, kr.Known("b", lipschitz=1, inputs=["input"])])
    # A chain may use the name: nothing refers to it.
    assert kr.Network([kr.Known("input", lipschitz=2)]).lipschitz() == 2
    wrong: list[Any] = ["a", 3, [], ["a", "a"], [3], ["  "], ["a\n"]]
    for value in wrong:
        with pytest.raises(kr.KoriskError, match="layer 'b': inputs must"):
            kr.Known("b", inputs=value)
    with pytest.raises(kr.KoriskError, match="leave one of the two out"):
        kr.Known("b", lipschitz=1, inputs={"a": 1})
    with pytest.raises(kr.KoriskError, match="the constant in 'a' must be"):
        kr.Known("b", inputs={"a": -1})


def test_a_composition_begins_at_a_layer_of_one_input() -> None:
    with pytest.raises(kr.KoriskError, match="must begin with a layer of one input, and 'add'"):
        kr.Network(
            [*GRAPH.layers, kr.Known("end", lipschitz=1)],
            compositions=[Composition("add", "end", lipschitz=1)],
        )
    for ends in (("g", "h"), ("g", "g"), ("add", "g")):
        with pytest.raises(kr.KoriskError, match="run from an earlier to a later layer"):
            kr.Network(GRAPH.layers, compositions=[Composition(*ends, lipschitz=1)])


def test_a_known_layer_keeps_the_slope_and_another_map_does_not() -> None:
    same = GRAPH.replace("f")
    assert (same.largest_slope, same.name) == (4.0, "branches")
    assert same["f"] == kr.Known("f", lipschitz=2)
    other = GRAPH.replace("f", kr.Known("f", lipschitz=3))
    assert (other.largest_slope, other.name) == (None, "branches")


def test_a_replacement_takes_the_inputs_of_the_old_layer() -> None:
    net = GRAPH.replace("add", kr.Known("sum", inputs={"g": 1, "h": 1}))
    assert net.tails().tolist() == [8, 1, 1, 1]
    # A constant for all inputs replaces those of each; without one, they stay.
    joint = GRAPH.replace("add", kr.Known("sum", lipschitz=2))
    assert joint.inputs_of("sum") == ("g", "h")
    assert joint["sum"].bracket_of("g").upper == 2
    assert joint.tails()[0] == pytest.approx(2 * math.hypot(3, 5))
    kept = GRAPH.replace("add", kr.Known("sum"))
    assert kept["sum"].bracket_of("h").upper == 11
    assert kept.tails().tolist() == GRAPH.tails().tolist()
    # Layers of names alone keep them.
    again = GRAPH.replace("h", kr.Known("k", lipschitz=1), kr.Known("l", lipschitz=2))
    assert again.names == ("f", "g", "k", "l", "add")
    assert [again.inputs_of(name) for name in ("k", "l", "add")] == [("f",), ("k",), ("g", "l")]
    assert again.tails().tolist() == [3 * 7 + 2 * 11, 7, 22, 11, 1]
    # The first new layer takes the old one's inputs, whatever the others state.
    stated = kr.Known("l", lipschitz=2, inputs=["k"])
    again = GRAPH.replace("h", kr.Known("k", lipschitz=1), stated)
    assert [again.inputs_of(name) for name in ("k", "l")] == [("f",), ("k",)]
    around = GRAPH.replace("h", kr.Known("k", lipschitz=1, inputs=["g"]), stated)
    assert around.inputs_of("k") == ("g",)
    moved = GRAPH.replace("f", kr.Known("e", lipschitz=1))
    assert [moved.inputs_of(name) for name in ("g", "h")] == [("e",), ("e",)]


def test_a_joint_layer_follows_a_renamed_input() -> None:
    cat = kr.Known("cat", lipschitz=1, inputs=["g", "f"])
    net = kr.Network([*GRAPH.layers[:2], cat])
    assert net.replace("f", kr.Known("e", lipschitz=1)).inputs_of("cat") == ("g", "e")
    assert net.replace("g", kr.Known("e", lipschitz=1)).inputs_of("cat") == ("e", "f")


def test_parameters_of_an_unknown_number_are_not_counted() -> None:
    layers = [kr.Learned("a", parameters=5), kr.Learned("b", parameters=7, shared=5)]
    assert kr.Network(layers).parameters == 7
    assert kr.Network([*layers, kr.Known("K")]).parameters == 7
    assert kr.Network([*layers, kr.Learned("c")]).parameters is None
    assert kr.Network([kr.Known("K")]).parameters == 0


@pytest.mark.parametrize(
    ("replaced", "shared"), [("conv", [0, 6]), ("conv (2)", [6]), ("other", [6, 6])]
)
def test_uses_of_one_module_pass_their_parameters_on(replaced: str, shared: list[int]) -> None:
    net = kr.Network(
        [
            kr.Learned("conv", parameters=6, lipschitz=1),
            kr.Learned("other", parameters=9, lipschitz=1),
            kr.Learned("conv (2)", parameters=6, shared=6, lipschitz=1),
            kr.Learned("conv (3)", parameters=6, shared=6, lipschitz=1),
        ]
    )
    after = net.replace(replaced)
    assert [layer.shared for layer in after.learned if "(" in layer.name] == shared
    assert after.parameters == (6 if replaced == "other" else 15)


# --- Files ---------------------------------------------------------------------------------------


def test_a_network_as_plain_values_says_all_and_no_more() -> None:
    net = kr.Network(
        [
            kr.Learned("W", parameters=3, C=2, width=4, kappa=0.5),
            kr.Learned("V", lipschitz=NormBracket(1, 2, how="Lanczos", whose="present weights")),
            kr.Known("K", lipschitz=NormBracket(1, 2), mismatch=0.25),
            kr.Known("add", inputs={"K": 1, "W": None, "V": NormBracket(2, 2, how="SVD")}),
            kr.Known("cat", lipschitz=1, inputs=["add", "K"]),
            kr.Known("A", lipschitz=1),
            kr.Known("B", lipschitz=1),
        ],
        compositions=[Composition("A", "B", lipschitz=0.5)],
        name="all",
        largest_slope=0.0,
    )
    content = net.to_dict()
    assert content == {
        "name": "all",
        "layers": [
            {"learned": "W", "parameters": 3, "C": 2, "width": 4, "kappa": 0.5},
            {
                "learned": "V",
                "lipschitz": {
                    "lower": 1,
                    "upper": 2,
                    "how": "Lanczos",
                    "whose": "present weights",
                },
                "C": 0,
                "width": 1,
                "kappa": 1,
            },
            {
                "known": "K",
                "lipschitz": {"lower": 1, "upper": 2, "how": "given"},
                "mismatch": 0.25,
            },
            {
                "known": "add",
                "inputs": {"K": 1, "W": None, "V": {"lower": 2, "upper": 2, "how": "SVD"}},
            },
            {"known": "cat", "lipschitz": 1, "inputs": ["add", "K"]},
            {"known": "A", "lipschitz": 1},
            {"known": "B", "lipschitz": 1},
        ],
        "compositions": [{"first": "A", "last": "B", "lipschitz": 0.5}],
        "largest_slope": 0.0,
    }
    again = kr.Network.from_dict(content)
    assert again == net
    assert again.largest_slope == 0
    assert again["V"].bracket.whose == "present weights"
    bare = kr.Network([kr.Known("K")]).to_dict()
    assert bare == {"layers": [{"known": "K"}]}


@pytest.mark.parametrize(
    ("layer", "problem"),
    [
        ({}, r"layers\[2\] must have exactly one of the keys 'known' and 'learned'"),
        ({"known": "K", "learned": "W"}, r"layers\[2\] must have exactly one"),
        ({"known": "K", "C": 1}, r"layers\[2\]: a known layer takes no C; remove it"),
        ({"known": "K", "parameters": 1, "kappa": 2}, r"takes no kappa or parameters"),
        ({"learned": "W", "mismatch": 1}, r"layers\[2\]: a learned layer takes no mismatch"),
        ({"known": "K", "inputs": {"a": {"lower": 2, "upper": 1}}}, "layer 'K': inputs: lipschitz"),
    ],
)
def test_a_wrong_entry_is_named_by_its_number(layer: dict[str, Any], problem: str) -> None:
    with pytest.raises(kr.KoriskError, match=problem):
        kr.Network.from_dict({"layers": [{"known": "a", "lipschitz": 1}, layer]})


def test_a_risk_that_belongs_to_nobody_is_refused() -> None:
    net = kr.Network([learned(), kr.Known("K", lipschitz=2, mismatch=0.25), kr.Known("B")])
    known_tails = kr.Network(net.layers[:2])
    statements: list[Any] = [{"W": 1.0}, {"W": 1.0, "K": 0.25}, [1.0, 0.0], [1.0, 0.25]]
    for risks in statements:
        assert kr.theory.deep_risk(known_tails, risks).total == (2 + 0.5) ** 2
    for wrong in ([1.0, 0.5, 0.0], [1.0, 0.0, 0.1]):
        with pytest.raises(kr.KoriskError, match="be 0, because the layer is known"):
            kr.theory.deep_risk(net, wrong)
    with pytest.raises(kr.KoriskError, match="have an entry for the learned layer 'W'"):
        kr.theory.deep_risk(net, {"K": 0.25})
    with pytest.raises(kr.KoriskError, match="one entry for each of the 3 layers"):
        kr.theory.deep_risk(net, [1.0, 0.0])
    with pytest.raises(kr.KoriskError, match="there is no layer 'X'"):
        kr.theory.deep_risk(net, {"W": 1.0, "X": 0})


def test_a_missing_constant_is_named_where_the_error_passes() -> None:
    layers = [learned(), kr.Known("U"), learned("V"), kr.Known("T"), kr.Known("S", lipschitz=1)]
    net = kr.Network(layers)
    # The last erring layer with an unknown tail: between it and the output there is only T.
    message = r"layer 'T': lipschitz has no upper end \(not known\), and the error of layer 'V'"
    with pytest.raises(kr.KoriskError, match=message):
        kr.theory.deep_risk(net, {"W": 1, "V": 1})
    with pytest.raises(kr.KoriskError, match=r"layer 'U'.* the error of layer 'W'"):
        kr.theory.deep_risk(net, {"W": 1, "V": 0})
    huge = kr.Network([learned(), *(kr.Known(f"u{k}", lipschitz=1e200) for k in range(2))])
    with pytest.raises(kr.KoriskError, match="after layer 'W' multiply to more than a double"):
        kr.theory.deep_risk(huge, {"W": 1})
    large = kr.Network([learned(), learned("V"), kr.Known("K", lipschitz=1e200)])
    with pytest.raises(kr.KoriskError, match=r"larger than a double.*errs most being 'V'"):
        kr.theory.deep_risk(large, {"W": 1, "V": 2})


def test_shares_of_nothing_are_zero() -> None:
    net = kr.Network([learned(), learned("V")])
    bound = kr.theory.deep_risk(net, {"W": 0, "V": 0})
    assert (bound.total, bound.shares.tolist(), float(bound)) == (0, [0, 0], 0)
    bound = kr.theory.deep_risk(net, {"W": 1, "V": 9})
    assert bound.contributions.tolist() == [1 * 4, 3 * 4]
    assert bound.shares.tolist() == [0.25, 0.75]
    assert float(bound) == 16
    assert np.isclose(bound.shares.sum(), 1)
