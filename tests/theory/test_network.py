import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import korisk as kr

SCOPE = {name: getattr(kr.theory, name) for name in kr.theory.__all__}


def ct(filter_norm: float = 0.026, back_norm: float = 85.7) -> kr.Network:
    return kr.Network(
        [
            kr.Learned("W", parameters=7680, lipschitz=1.0),
            kr.Known("K", lipschitz=filter_norm),
            kr.Known("A^T", lipschitz=back_norm),
            kr.Known("ReLU", lipschitz=1.0),
        ],
        compositions=[kr.theory.Composition("K", "A^T", lipschitz=0.317)],
    )


positive = st.floats(1e-6, 1e6) | st.floats(5e-324, 1.7e308)
brackets = st.builds(
    lambda a, b, how: kr.theory.NormBracket(min(a, b), max(a, b), how=how),
    positive,
    positive | st.just(math.inf),
    st.sampled_from(["exact", "sampled, a lower estimate", "Lanczos: 99%"]),
)
constants = st.none() | positive | brackets
printable = st.characters(codec="utf-8", exclude_categories=("C", "Z"), include_characters=" ")
names = st.text(printable, min_size=1, max_size=90).filter(
    lambda text: text.strip() and len(text) < 81
)


@st.composite
def networks(draw: st.DrawFn) -> kr.Network:
    layers: list[kr.theory.Layer] = []
    for name in draw(st.lists(names, min_size=1, max_size=6, unique=True)):
        lipschitz = draw(constants)
        if draw(st.booleans()):
            layers.append(kr.Known(name, lipschitz=lipschitz, mismatch=draw(st.floats(0, 10))))
        else:
            parameters = draw(st.none() | st.integers(1, 10**15))
            layers.append(
                kr.Learned(
                    name,
                    lipschitz=lipschitz,
                    parameters=parameters,
                    C=draw(st.floats(0, 10)),
                    width=draw(st.floats(1, 1e6)),
                    kappa=draw(positive),
                )
            )
    compositions = []
    if len(layers) > 1:
        first = draw(st.integers(0, len(layers) - 2))
        last = draw(st.integers(first + 1, len(layers) - 1))
        constant = draw(positive | brackets)
        ends = layers[first].name, layers[last].name
        compositions = [kr.theory.Composition(*ends, lipschitz=constant)]
    return kr.Network(layers, compositions=compositions, name=draw(st.just("") | names))


@given(networks())
def test_repr_evaluates_back(net: kr.Network) -> None:
    assert eval(repr(net), dict(SCOPE)) == net


@example(kr.Network([kr.Known(name) for name in ("0E0", "017", "08", "~", "no", "1:30", "<<")]))
@given(networks())
def test_yaml_keeps_everything(tmp_path_factory: pytest.TempPathFactory, net: kr.Network) -> None:
    path = tmp_path_factory.mktemp("net") / "net.yaml"
    net.write(path)
    assert kr.Network.read(path) == net


def test_yaml_reads_numbers_as_people_write_them(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(
        "layers:\n- {learned: W, parameters: 7.68e3, C: 1e-3, kappa: 1E-5}\n"
        "- {known: K, lipschitz: 2}\n"
    )
    layer = kr.Network.read(path)["W"]
    assert isinstance(layer, kr.Learned)
    assert (layer.parameters, layer.C, layer.kappa) == (7680, 1e-3, 1e-5)


def test_write_leaves_the_old_file_where_it_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(kr.KoriskError, match="cannot be written"):
        ct().write(tmp_path / "missing" / "net.yaml")
    target = tmp_path / "net.yaml"
    ct().write(target)
    ct(filter_norm=1.0).write(target)
    assert kr.Network.read(target) == ct(filter_norm=1.0)
    assert [path.name for path in tmp_path.iterdir()] == ["net.yaml"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kr.Known("K", lipschitz=-1), "layer 'K': lipschitz must be a finite number >= 0"),
        (lambda: kr.Known("K", lipschitz=math.nan), "lipschitz must be a finite number"),
        (lambda: kr.Known("K", lipschitz=True), "lipschitz must be"),
        (lambda: kr.Known("K", lipschitz="2"), "a number >= 0, a NormBracket or an operator"),  # type: ignore[arg-type]
        (lambda: kr.Known("", lipschitz=1), "layer name must be a printable text"),
        (lambda: kr.Known("a\nb", lipschitz=1), "layer name must be a printable text"),
        (lambda: kr.Known("K" * 81, lipschitz=1), "at most 80 characters"),
        (lambda: kr.Known("K", lipschitz=1, mismatch=-0.1), "mismatch must be"),
        (lambda: kr.Learned("W", parameters=0), "parameters must be a whole number >= 1"),
        (lambda: kr.Learned("W", parameters=1.5), "parameters must be a whole number"),  # type: ignore[arg-type]
        (lambda: kr.Learned("W", C=-1), "C must be a finite number >= 0"),
        (lambda: kr.Learned("W", width=0), "width must be a finite number >= 1"),
        (lambda: kr.Learned("W", kappa=0), "kappa must be a finite number > 0"),
        (lambda: kr.Known("K", lipschitz=np.eye(3)), "a number >= 0, a NormBracket or an operator"),  # type: ignore[arg-type]
        (lambda: kr.Learned("W", parameters=10**400), "parameters must be a whole number"),
        (lambda: kr.theory.NormBracket(1, 2, how=""), "say in a few words how the ends are known"),
        (lambda: kr.theory.NormBracket(2, 1), "lower must be <= upper"),
        (lambda: kr.theory.NormBracket(math.inf, math.inf), "lower must be a finite number"),
        (lambda: kr.Network([]), "at least one layer"),
        (lambda: kr.Network([1]), "must be Known or Learned"),  # type: ignore[list-item]
        (lambda: kr.Network([kr.Known("K"), kr.Known("K")]), "'K' twice"),
        (lambda: ct()["Kk"], "there is no layer 'Kk' in this network; did you mean 'K'?"),
        (lambda: ct().amplification("papr"), "did you mean 'paper'?"),  # type: ignore[arg-type]
        (
            lambda: kr.theory.Composition("K", "A^T", lipschitz=None),
            "give the norm of the composed",
        ),
        (
            lambda: kr.Network(
                ct().layers, compositions=[kr.theory.Composition("K", "W", lipschitz=1)]
            ),
            "from an earlier to a later layer",
        ),
    ],
)
def test_wrong_input_is_refused_in_words(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(kr.KoriskError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_layers_take_their_fields_by_name_only() -> None:
    with pytest.raises(TypeError):
        kr.Known("K", 1.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        kr.Learned("W", 1.0)  # type: ignore[call-arg]


def test_numpy_numbers_become_plain_ones() -> None:
    layer = kr.Learned("W", parameters=np.int64(3), lipschitz=np.float32(0.5))  # type: ignore[arg-type]
    assert repr(layer) == "Learned('W', lipschitz=0.5, parameters=3)"


class CountingOperator:
    """A matrix that counts how often its norm was asked for."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix
        self.asked = 0

    def norm(self) -> kr.theory.NormBracket:
        self.asked += 1
        value = float(np.linalg.norm(self.matrix, 2))
        return kr.theory.NormBracket(value * (1 - 1e-12), value, how="SVD")

    def __matmul__(self, inner: "CountingOperator") -> "CountingOperator":
        return CountingOperator(self.matrix @ inner.matrix)


def test_operators_give_their_norms_later_and_once() -> None:
    rng = np.random.default_rng(0)
    first, second = (CountingOperator(rng.standard_normal((5, 5))) for _ in range(2))
    known = [kr.Known("A", lipschitz=first), kr.Known("B", lipschitz=second)]
    net = kr.Network([kr.Learned("W", parameters=5), *known])
    assert first.asked == second.asked == 0
    product = np.linalg.norm(first.matrix, 2) * np.linalg.norm(second.matrix, 2)
    composed = np.linalg.norm(second.matrix @ first.matrix, 2)
    for _ in range(2):
        assert net.tails("minkowski")[0] == pytest.approx(product)
        assert net.tails("composed")[0] == pytest.approx(composed)
    assert first.asked == second.asked == 1
    assert composed < product
    whole = kr.Network(known)
    assert whole.lipschitz("composed") == pytest.approx(composed)
    assert whole.lipschitz("minkowski") == pytest.approx(product)


def test_the_smaller_of_stated_and_computed_constants_is_used() -> None:
    rng = np.random.default_rng(1)
    known = [kr.Known(name, lipschitz=CountingOperator(rng.random((4, 4)))) for name in "AB"]
    layers = [kr.Learned("W"), *known]
    computed = kr.Network(layers).tails()[0]
    for stated, expected in ((computed / 2, computed / 2), (computed * 2, computed)):
        net = kr.Network(layers, compositions=[kr.theory.Composition("A", "B", lipschitz=stated)])
        assert net.tails()[0] == pytest.approx(expected)
    layers = [kr.Learned("W"), kr.Known("A", lipschitz=3), kr.Known("B", lipschitz=3)]
    for constants in ((2.0, 5.0), (5.0, 2.0)):
        both = [kr.theory.Composition("A", "B", lipschitz=constant) for constant in constants]
        assert kr.Network(layers, compositions=both).tails()[0] == 2


def test_an_operator_whose_norm_is_no_bracket_is_refused() -> None:
    @dataclass
    class Odd:
        def norm(self) -> float:
            return 3.0

    net = kr.Network([kr.Learned("W", parameters=1), kr.Known("A", lipschitz=Odd())])  # type: ignore[arg-type]
    with pytest.raises(kr.KoriskError, match="must return a NormBracket, got"):
        net.amplification()


def test_bounds_use_the_upper_end_of_a_bracket() -> None:
    net = kr.Network([kr.Learned("W"), kr.Known("A", lipschitz=kr.theory.NormBracket(1, 3))])
    assert net.amplification("minkowski")[0] == 9


def test_replace_keeps_compositions_for_the_same_map_and_drops_them_for_another() -> None:
    net = ct()
    assert net.replace("K").compositions == net.compositions
    assert net.replace("K", kr.Known("K", lipschitz=0.026)).compositions == net.compositions
    assert net.replace("W", kr.Known("W", lipschitz=2.0)).compositions == net.compositions
    # Another map may have the same constant: only its name says that it is the same.
    assert net.replace("K", kr.Known("identity", lipschitz=0.026)).compositions == ()
    assert net.replace("K", kr.Known("K", lipschitz=1.0)).compositions == ()


def test_replace_compares_operators_by_identity() -> None:
    class Odd:
        def norm(self) -> kr.theory.NormBracket:
            return kr.theory.NormBracket(1, 1)

        def __eq__(self, other: object) -> bool:
            raise AssertionError("operators with arrays cannot be compared")

        __hash__ = None  # type: ignore[assignment]

    same = Odd()
    net = kr.Network(
        [kr.Learned("P", lipschitz=same), kr.Known("Q", lipschitz=1)],
        compositions=[kr.theory.Composition("P", "Q", lipschitz=0.5)],
    )
    assert net.replace("P").compositions
    assert net.replace("P", kr.Known("P", lipschitz=same)).compositions
    assert not net.replace("P", kr.Known("P", lipschitz=Odd())).compositions


def test_replace_turns_the_dense_network_into_the_known_operator_one() -> None:
    dense = kr.Network([kr.Learned("M", parameters=64 * 80), kr.Known("ReLU", lipschitz=1)])
    known = dense.replace(
        "M",
        kr.Learned("W", parameters=80),
        kr.Known("K", lipschitz=2),
        kr.Known("A^T", lipschitz=3),
    )
    assert known.names == ("W", "K", "A^T", "ReLU")
    assert known.amplification("paper").tolist() == [8 * 4 * 9, 8 * 9, 4, 2]


def test_lipschitz_constant_of_the_whole_network() -> None:
    net = ct()
    assert net.lipschitz("minkowski") == pytest.approx(0.026 * 85.7)
    assert net.lipschitz("composed") == pytest.approx(0.317)
    assert math.isinf(kr.Network([kr.Learned("W")]).lipschitz())


def test_parameters_that_layers_share_count_once_in_the_network_and_in_every_layer_s_risk(
    tmp_path: Path,
) -> None:
    tied = [
        kr.Learned("a", parameters=20),
        kr.Learned("b", parameters=25, shared=20, lipschitz=1.0),
    ]
    net = kr.Network(tied)
    assert net.parameters == 25
    assert kr.theory.layer_risk(tied[1], 100) == kr.theory.layer_risk(
        kr.Learned("b", parameters=25), 100
    )
    net.write(tmp_path / "net.yaml")
    assert (kr.Network.read(tmp_path / "net.yaml"), eval(repr(net), SCOPE)) == (net, net)
    assert kr.Network([kr.Learned("a", parameters=3), kr.Learned("b")]).parameters is None
    with pytest.raises(kr.KoriskError, match="shared must be"):
        kr.Learned("b", parameters=3, shared=4)
    with pytest.raises(kr.KoriskError, match="shared must be"):
        kr.Learned("b", parameters=3, shared=-1)
