"""Networks for which a bound was once below the truth."""

import numpy as np
import pytest

import korisk as kr
from benchmarks.networks.graphs import Matrix


def slope(matrix: list[list[float]]) -> float:
    return float(np.linalg.norm(np.array(matrix), 2))


def test_a_composition_is_dropped_where_a_new_layer_leads_around_it() -> None:
    # x -> B A x with ||B A|| = 1; then A x reaches the sum by another way, five times.
    net = kr.Network(
        [
            kr.Known("A", lipschitz=1),
            kr.Known("side", lipschitz=1, inputs=["input"]),
            kr.Known("B", lipschitz=1, inputs=["A"]),
            kr.Known("sum", inputs={"B": 1, "side": 1}),
        ],
        compositions=[kr.theory.Composition("B", "sum", lipschitz=1.0)],
    )
    rewired = net.replace("side", kr.Known("side", lipschitz=5, inputs=["A"]))
    assert rewired.compositions == ()
    # A = 1, B = 1, side = 5: x -> B A x + 5 A x.
    assert rewired.lipschitz() == 6
    assert net.replace("side", kr.Known("other", lipschitz=5)).compositions == net.compositions


def test_a_composition_is_kept_where_the_run_is_the_same_in_the_new_graph() -> None:
    net = kr.Network(
        [
            kr.Known("A", lipschitz=1),
            kr.Known("B", lipschitz=2),
            kr.Known("C", lipschitz=2),
            kr.Known("D", lipschitz=3),
        ],
        compositions=[kr.theory.Composition("B", "C", lipschitz=1.0)],
    )
    assert net.replace("A", kr.Known("E", lipschitz=1), kr.Known("F", lipschitz=1)).compositions
    assert net.replace("D", kr.Known("E", lipschitz=1)).compositions
    assert not net.replace("C", kr.Known("E", lipschitz=1)).compositions


def test_an_operator_as_the_constant_of_a_learned_layer_is_not_its_map() -> None:
    # Their product vanishes, and that of another map with the first one's norm does not.
    first, second = Matrix(np.diag([2.0, 0.0])), Matrix(np.diag([0.0, 1.0]))
    learned = kr.Learned("W", parameters=4, lipschitz=first)
    ahead = kr.Learned("front", parameters=1, lipschitz=1)
    net = kr.Network([ahead, learned, kr.Known("B", lipschitz=second)])
    assert slope([[0, 0], [0, 2]]) == 2  # B times W = [[0, 0], [0, 2]], of norm 2 as well
    assert net.tails().tolist() == pytest.approx([2, 1, 1])
    assert net.lipschitz() == pytest.approx(2)
    known = net.replace("W")
    assert isinstance(known["W"], kr.Known)
    assert known.lipschitz() == pytest.approx(2)  # the true map is still not that operator
    composed = net.replace("W", kr.Known("W", lipschitz=first))
    assert composed.lipschitz() == 0  # where it is said to be
