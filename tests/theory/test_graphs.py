"""Networks with skips: bounds over all paths, chains as the special case, files and refusals."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import korisk as kr
from benchmarks.networks.graphs import MOST, Graph, Matrix, errors_and_bounds, random_graph

seeds = st.integers(0, 2**32 - 1)


def drawn(seed: int, *, operators: bool = False, chain: bool = False) -> Graph:
    return random_graph(np.random.default_rng(seed), operators=operators, chain=chain)


@given(seeds, st.booleans())
def test_true_error_below_composed_below_minkowski_below_paper(seed: int, operators: bool) -> None:
    found = errors_and_bounds(drawn(seed, operators=operators), np.random.default_rng(seed))
    order = [found[key] for key in ("error", "composed", "minkowski", "paper")]
    for low, high in itertools.pairwise(order):
        assert low <= high * (1 + 1e-9)


@given(seeds)
def test_minkowski_tails_are_sums_over_all_paths(seed: int) -> None:
    net = drawn(seed).net

    def paths(name: str) -> float:
        if name == net.names[-1]:
            return 1.0
        onward = [(v, bracket.upper) for (u, v), bracket in net.edges.items() if u == name]
        return sum(constant * paths(v) for v, constant in onward)

    assert net.tails("minkowski") == pytest.approx([paths(name) for name in net.names])
    assert net.lipschitz("minkowski") == pytest.approx(paths("input"))


@given(seeds, st.booleans())
def test_a_chain_written_as_a_graph_has_the_same_bounds_to_the_last_digit(
    seed: int, stated: bool
) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, MOST))
    constants = np.exp(rng.normal(size=count)).tolist()
    runs = [
        kr.theory.Composition(f"u{a}", f"u{b}", lipschitz=float(np.exp(rng.normal())))
        for a, b in itertools.combinations(range(count), 2)
        if stated and rng.random() < 0.3
    ]
    chain = kr.Network(
        [kr.Learned(f"u{k}", lipschitz=c) for k, c in enumerate(constants)], compositions=runs
    )
    graph = kr.Network(
        [
            kr.Learned(f"u{k}", inputs={f"u{k - 1}" if k else "input": c})
            for k, c in enumerate(constants)
        ],
        compositions=runs,
    )
    assert graph.is_chain
    # The best cut into runs, Eq. (eq:blocks) of a chain, written down once more.
    tails = [1.0] * (count + 1)
    for start in range(count - 1, -1, -1):
        ends = [(start + 1, constants[start])]
        ends += [
            (net_index(part.last) + 1, part.bracket.upper)
            for part in runs
            if net_index(part.first) == start
        ]
        tails[start] = min(constant * tails[end] for end, constant in ends)
    for net in (chain, graph):
        assert [net.lipschitz(), *net.tails()] == tails
    risks = rng.random(count)
    for form in kr.theory.BOUNDS:
        one, other = (kr.theory.deep_risk(net, risks, bound=form) for net in (chain, graph))
        assert one.contributions.tolist() == other.contributions.tolist()


def net_index(name: str) -> int:
    return int(name.removeprefix("u"))


def residual(a: Matrix, b: Matrix, *, sign: float = 1.0) -> kr.Network:
    eye = np.eye(len(b.weights))
    return kr.Network(
        [
            kr.Learned("W", parameters=4, lipschitz=1.0),
            kr.Known("A", lipschitz=a),
            kr.Known("B", lipschitz=b),
            kr.Known("add", inputs={"W": Matrix(eye), "B": Matrix(sign * eye)}),
            kr.Known("ReLU", lipschitz=1.0),
        ]
    )


def test_linear_parts_have_the_norm_of_the_whole() -> None:
    weights = np.random.default_rng(1).standard_normal((3, 5))
    weights /= np.linalg.norm(weights, 2)
    a, b = Matrix(weights), Matrix(weights.T)
    # A gradient step forgets what A sees; its paths alone would say 1 + 1.
    step = residual(a, b, sign=-1.0)
    assert step.tails("minkowski")[0] == pytest.approx(2.0)
    assert step.tails()[0] == pytest.approx(np.linalg.norm(np.eye(5) - weights.T @ weights, 2))
    assert residual(a, b).tails()[0] == pytest.approx(2.0)
    assert kr.Network.from_dict(step.to_dict()).tails().tolist() == step.tails().tolist()
    # The same stated as numbers, of a run inside the block and of the block.
    layers = [
        kr.Learned("W"),
        kr.Known("A", lipschitz=1),
        kr.Known("B", lipschitz=3),
        kr.Known("add", inputs={"W": 1, "B": 1}),
    ]
    branch, block = (kr.theory.Composition("A", last, lipschitz=1.5) for last in ("B", "add"))
    assert kr.Network(layers).tails()[0] == 4.0
    assert kr.Network(layers, compositions=[branch]).tails()[0] == 2.5
    assert kr.Network(layers, compositions=[branch, block]).tails()[0] == 1.5


def test_a_constant_of_several_inputs_as_one_vector_adds_squares_in_the_composed_form() -> None:
    net = kr.Network(
        [
            kr.Learned("a", lipschitz=3),
            kr.Learned("b", lipschitz=4, inputs=["input"]),
            kr.Known("cat", lipschitz=1, inputs=["a", "b"]),
        ]
    )
    assert net.lipschitz() == 5.0
    assert net.lipschitz("minkowski") == 7.0
    assert net.tails().tolist() == [1.0, 1.0, 1.0]


def test_replace_keeps_the_ways_of_a_graph() -> None:
    net = kr.Network(
        [
            kr.Learned("f", parameters=5, lipschitz=2),
            kr.Learned("g", parameters=7, shared=5, inputs={"f": 3, "input": 1}),
            kr.Known("add", inputs={"f": 1, "g": 1}),
        ],
        compositions=[kr.theory.Composition("f", "add", lipschitz=6)],
    )
    known = net.replace("g")
    assert known.compositions == net.compositions
    assert known.edges == net.edges
    assert known["g"].kind == "known"
    assert net.parameters == 7
    other = net.replace("f", kr.Known("K", lipschitz=3), kr.Known("B", lipschitz=5))
    assert other.compositions == ()
    assert [other.inputs_of(name) for name in other.names] == [
        *(("input",), ("K",), ("B", "input"), ("B", "g")),
    ]
    assert other.lipschitz() == 3 * 5 * (3 + 1) + 1
    # Only what can be moved by the layer is another map.
    beside = kr.Network(
        [
            kr.Learned("f", lipschitz=2),
            kr.Known("B", lipschitz=1),
            kr.Learned("g", lipschitz=1, inputs=["input"]),
            kr.Known("add", inputs={"B": 1, "g": 1}),
        ],
        compositions=[kr.theory.Composition("f", "B", lipschitz=1.5)],
    )
    assert beside.replace("g", kr.Known("K", lipschitz=3)).compositions == beside.compositions
    assert beside.replace("f", kr.Known("K", lipschitz=3)).compositions == ()


def test_savings_of_a_graph_count_every_pass() -> None:
    """The same learned map twice: parameters once, an error at every pass, Eq. (eq:graph)."""
    layers = [
        kr.Learned("f", parameters=10, lipschitz=0.5),
        kr.Known("add", inputs={"input": 1, "f": 1}),
        kr.Learned("f (2)", parameters=10, shared=10, lipschitz=0.5),
        kr.Known("add (2)", inputs={"add": 1, "f (2)": 1}),
    ]
    net = kr.Network(layers)
    assert net.parameters == 10
    assert net.tails().tolist() == [1.5, 1.5, 1.0, 1.0]
    risk = kr.theory.layer_risk(net.learned[0], 100)
    assert kr.barron_bound(net, 100).total == pytest.approx((1.5 + 1) ** 2 * risk)
    assert kr.theory.savings(net, "f").total(100) == pytest.approx((1.5 + 1) ** 2 * risk - risk)


@given(seeds)
def test_a_graph_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    net = drawn(seed).net
    path = tmp_path_factory.mktemp("graph") / "network.yaml"
    net.write(path)
    assert kr.Network.read(path) == net
    names = {"Network": kr.Network, "Learned": kr.Learned, "NormBracket": kr.theory.NormBracket}
    assert eval(repr(net), names) == net


def test_an_error_that_meets_no_constant_is_refused_by_the_layer_on_its_way() -> None:
    net = kr.Network(
        [
            kr.Learned("f", parameters=2),
            kr.Known("sampled", inputs=["input"]),
            kr.Known("B", inputs=["f"]),
            kr.Known("add", inputs={"sampled": 1, "B": 1}),
        ]
    )
    with pytest.raises(kr.KoriskError, match="layer 'B': lipschitz has no upper end"):
        kr.theory.deep_risk(net, [1.0, 0, 0, 0])


F = kr.Learned("f", lipschitz=1)
ADD = kr.Known("add", inputs={"input": 1, "f": 1})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kr.Known("a", inputs="f"), "inputs must be a list of names"),
        (lambda: kr.Known("a", inputs=[]), "must name one layer or several"),
        (lambda: kr.Known("a", inputs=["f", "f"]), "each once"),
        (lambda: kr.Known("a", inputs={"f": -1}), "the constant in 'f'"),
        (lambda: kr.Known("a", lipschitz=1, inputs={"f": 1}), "leave one of the two out"),
        (lambda: kr.Network([F, kr.Known("a", inputs=["g"])]), "listed before it or 'input'"),
        (lambda: kr.Network([kr.Known("a", inputs=["f"]), F]), "listed before it"),
        (lambda: kr.Network([F, kr.Known("a", inputs=["input"])]), "'f' must be taken by a later"),
        (
            lambda: kr.Network([kr.Learned("input"), kr.Known("a", inputs=["input"])]),
            "another name",
        ),
        (
            lambda: kr.Network(
                [F, ADD, kr.Known("B", lipschitz=1)],
                compositions=[kr.theory.Composition("add", "B", lipschitz=1)],
            ),
            "must begin with a layer of one input",
        ),
        (
            lambda: kr.Network(
                [F, kr.Learned("g", inputs=["input"]), kr.Known("a", inputs=["f", "g"])],
                compositions=[kr.theory.Composition("f", "g", lipschitz=1)],
            ),
            "from an earlier to a later layer",
        ),
    ],
)
def test_wrong_graphs_are_refused_in_words(make: object, message: str) -> None:
    with pytest.raises(kr.KoriskError, match=message):
        make()  # type: ignore[operator]


def test_a_file_with_inputs_is_read(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(
        "layers:\n- {learned: f, parameters: 9, lipschitz: 0.5}\n"
        "- {known: cat, lipschitz: 1, inputs: [input, f]}\n"
        "- {known: add, inputs: {cat: 1, f: {lower: 0, upper: 2}}}\n"
    )
    net = kr.Network.read(path)
    assert net.inputs_of("cat") == ("input", "f")
    assert net.tails("minkowski").tolist() == [3.0, 1.0, 1.0]
