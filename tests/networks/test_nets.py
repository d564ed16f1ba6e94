"""KnownOperatorNet and DenseNet: what they compute and learn, and how they are described."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from described import draw
from torch import nn

import korisk as kr
from korisk import operators as ops
from korisk.errors import KoriskError
from korisk.networks import DenseNet, KnownOperatorNet

GEOMETRY = ops.ParallelBeam(8, views=6, bins=10)
FAN = ops.FanBeam(8, views=6, bins=10, bin_spacing=2, source_to_center=30, source_to_detector=50)


def net(**options: Any) -> KnownOperatorNet:
    return KnownOperatorNet.from_fbp(ops.fbp(GEOMETRY, dtype=torch.float64), **options)


@pytest.mark.parametrize("made", [ops.fbp(GEOMETRY, dtype=torch.float64), ops.fbp(FAN).double()])
def test_before_training_it_is_filtered_backprojection_and_a_relu(made: Any) -> None:
    x = draw(3, 6, 10)
    image = made(x)
    assert (image < 0).any()
    network = KnownOperatorNet.from_fbp(made)
    torch.testing.assert_close(network(x), image.clamp(min=0), rtol=0, atol=1e-14)
    plain = KnownOperatorNet.from_fbp(made, relu=False)
    torch.testing.assert_close(plain(x), image, rtol=0, atol=1e-14)


def test_it_is_a_matrix_product_in_any_batch_dimensions() -> None:
    tail, weights, x = draw(5, 12), draw(3, 4, seed=1), draw(2, 3, 4, seed=2)
    network = KnownOperatorNet(weights, ops.Matrix(tail, domain=(3, 4)), relu=False)
    by_hand = (tail @ torch.diag(weights.flatten()) @ x.reshape(2, 12).t()).t()
    torch.testing.assert_close(network(x), by_hand, rtol=1e-13, atol=1e-13)
    x = draw(2, 3, 6, 10)
    together = net()(x)
    assert together.shape == (2, 3, 8, 8)
    torch.testing.assert_close(net()(x[1, 2]), together[1, 2], rtol=1e-12, atol=1e-14)


def test_each_run_is_the_network_with_its_own_weights() -> None:
    weights, x = draw(3, 6, 10), draw(3, 2, 6, 10, seed=1)
    tail = ops.fbp(GEOMETRY, dtype=torch.float64).layers[1:]
    together = KnownOperatorNet(weights, tail)
    assert together.runs == 3
    for run in range(3):
        alone = KnownOperatorNet(weights[run], tail)
        assert alone.runs is None
        torch.testing.assert_close(together(x)[run], alone(x[run]), rtol=1e-12, atol=1e-14)
    # Without a batch, and with two batch dimensions.
    torch.testing.assert_close(together(x[:, 0]), together(x)[:, 0], rtol=1e-12, atol=1e-14)
    again = together(x.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(again, together(x), rtol=1e-12, atol=1e-14)


def test_the_weights_are_the_only_parameter_and_in_the_state_dict() -> None:
    network, other = net(runs=2), net(runs=2)
    assert [name for name, _ in network.named_parameters()] == ["weights"]
    assert network.weights.shape == (2, 6, 10)
    network.weights.data.mul_(3)
    other.load_state_dict(network.state_dict())
    assert torch.equal(other.weights, network.weights)
    made = ops.fbp(GEOMETRY, trainable=True)
    (own,) = made.parameters()
    assert torch.equal(KnownOperatorNet.from_fbp(made).weights, own)
    assert KnownOperatorNet.from_fbp(made).weights is not own


def test_weights_are_copied_and_lose_no_precision() -> None:
    tail = ops.fbp(GEOMETRY, dtype=torch.float64).layers[1:]
    array = np.full((6, 10), 1 / 3)
    network = KnownOperatorNet(array, tail)
    assert network.weights.dtype == torch.float64
    assert network.weights.detach().numpy().tolist() == array.tolist()
    given = torch.ones(6, 10, dtype=torch.float64)
    KnownOperatorNet(given, tail).weights.data.zero_()
    assert bool((given == 1).all())
    assert KnownOperatorNet(given, ops.fbp(GEOMETRY).layers[1:]).weights.dtype == torch.float32


def test_moving_the_network_moves_its_operators() -> None:
    network = net().float()
    assert network(torch.ones(6, 10)).dtype == torch.float32
    with pytest.raises(KoriskError, match=r"float32 or torch\.float64"):
        network.half()
    assert network.weights.dtype == torch.float32


def test_described_layer_by_layer() -> None:
    described = net(runs=4).describe()
    assert described.names == ("W", "K", "A^T", "ReLU")
    assert [layer.kind for layer in described] == ["learned", "known", "known", "known"]
    assert described.learned[0].parameters == 60
    assert net(relu=False).describe().names == ("W", "K", "A^T")
    twice = [ops.Matrix(torch.eye(4)), ops.Matrix(torch.eye(4)), ops.Diagonal(torch.ones(4))]
    names = KnownOperatorNet(torch.ones(4), twice).describe().names
    assert names == ("W", "M", "M (2)", "W (2)", "ReLU")
    ramp = KnownOperatorNet.from_fbp(ops.released_fbp(FAN)).describe()["K"].bracket
    assert ramp.upper == pytest.approx(math.pi / 6 / 2, rel=1e-6)  # |f| <= 1/2, times pi / V
    dense = DenseNet((3, 4), (2, 3)).describe()
    assert (dense.names, dense.learned[0].parameters) == (("M", "ReLU"), 72)
    assert DenseNet(3, 2, relu=False).describe().names == ("M",)


def test_the_composed_tail_amplifies_by_the_largest_singular_value_of_the_whole() -> None:
    network = net()
    described = network.describe()
    exact = torch.linalg.matrix_norm(network.linear_tail.as_matrix(), 2).item()
    matrices = (layer.as_matrix() for layer in network.linear_tail.layers)
    product = math.prod(torch.linalg.matrix_norm(matrix, 2).item() for matrix in matrices)
    assert exact < 0.9 * product
    assert exact <= described.tails("composed")[0] <= exact * 1.02
    assert product <= described.tails("paper")[0] <= product * 1.05
    assert kr.theory.deep_risk(described, {"W": 1.0}).total == pytest.approx(exact**2, rel=0.05)


def test_the_surrogate_of_the_paper() -> None:
    inverse = ops.Tikhonov(ops.Projector(GEOMETRY, dtype=torch.float64), 0.1)
    network = KnownOperatorNet(torch.ones(6, 10), inverse, relu=False)
    x = draw(6, 10)
    torch.testing.assert_close(network(x), inverse(x))
    assert (network.describe().names, network.linear_tail.layers) == (("W", "A^+"), (inverse,))


def test_a_dense_net_is_a_linear_layer_with_a_relu() -> None:
    matrix, x = draw(6, 12), draw(5, 2, 3, 4, seed=1)
    linear = nn.Linear(12, 6, bias=False, dtype=torch.float64)
    linear.weight.data.copy_(matrix)
    plain = linear(x.flatten(2)).reshape(5, 2, 2, 3)
    assert (plain < 0).any()
    torch.testing.assert_close(DenseNet((3, 4), (2, 3), matrix=matrix)(x), plain.clamp(min=0))
    network = DenseNet((3, 4), (2, 3), matrix=matrix, relu=False)
    torch.testing.assert_close(network(x), plain)
    torch.testing.assert_close(network(x[0, 0]), plain[0, 0])
    assert network(x[:0]).shape == (0, 2, 2, 3)


def test_a_dense_net_is_zero_before_training_and_copies_a_given_matrix() -> None:
    network = DenseNet((3, 4), 5).double()
    assert [name for name, _ in network.named_parameters()] == ["weight"]
    assert network.matrix() is network.weight
    assert network.matrix().shape == (5, 12)
    assert not network(draw(3, 4)).any()
    matrix = draw(2, 3)
    network = DenseNet(3, 2, matrix=matrix)
    network.matrix().data.zero_()
    assert matrix.any()
    assert network.matrix().dtype == torch.float64
    assert DenseNet(3, 2, matrix=np.ones((2, 3))).matrix().dtype == torch.float32


@pytest.mark.parametrize("relu", [True, False])
def test_factors_predict_as_their_product(relu: bool) -> None:
    left, right, x = draw(6, 4), draw(4, 12, seed=1), draw(5, 3, 4, seed=2)
    factored = DenseNet.factored(left, right, (3, 4), (2, 3), relu)
    formed = DenseNet((3, 4), (2, 3), matrix=left @ right, relu=relu)
    torch.testing.assert_close(factored(x), formed(x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(factored.matrix(), left @ right)
    assert (list(factored.parameters()), factored.describe()) == ([], formed.describe())
    other = DenseNet.factored(torch.zeros_like(left), torch.zeros_like(right), (3, 4), (2, 3), relu)
    other.load_state_dict(factored.state_dict())
    assert torch.equal(other(x), factored(x))


def test_targets_are_a_left_factor_and_not_copied() -> None:
    targets, right, x = draw(4, 2, 3), draw(4, 12, seed=1), draw(5, 3, 4, seed=2)
    network = DenseNet.factored(targets, right, (3, 4), (2, 3))
    same = DenseNet.factored(targets.reshape(4, 6).t(), right, (3, 4), (2, 3))
    assert torch.equal(network(x), same(x))
    assert network.left is not None
    assert network.left.data_ptr() == targets.data_ptr()


def test_a_matrix_larger_than_the_memory_is_refused_before_it_is_made() -> None:
    side = 2048  # 2048^4 entries: 64 TiB
    with pytest.raises(KoriskError, match=r"65,536\.0 GiB.*dual ridge"):
        DenseNet((side, side), (side, side))
    factor = torch.ones(1, side * side)
    network = DenseNet.factored(factor.t(), factor, (side, side), (side, side))
    with pytest.raises(KoriskError, match=r"65,536\.0 GiB"):
        network.matrix()
    assert network(torch.ones(side, side))[0, 0] == side * side
    assert network.describe().learned[0].parameters == side**4


W, TAIL = torch.ones(6, 10), ops.fbp(GEOMETRY).layers[1:]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: KnownOperatorNet(torch.ones(5, 10), TAIL), r"\(6, 10\)"),
        (lambda: KnownOperatorNet(torch.ones(1, 1, 6, 10), TAIL), "runs"),
        (lambda: KnownOperatorNet(W, ops.fbp(GEOMETRY, trainable=True)), "be trained"),
        (lambda: KnownOperatorNet(W, []), "at least one operator"),
        (lambda: KnownOperatorNet(W, [torch.relu]), "LinearOperator"),  # type: ignore[list-item]
        (lambda: KnownOperatorNet(W, 3), "LinearOperator"),  # type: ignore[arg-type]
        (lambda: KnownOperatorNet("w", ops.fbp(GEOMETRY)), "array of numbers"),
        (lambda: KnownOperatorNet(torch.full((6, 10), math.nan), ops.fbp(GEOMETRY)), "finite"),
        (lambda: KnownOperatorNet.from_fbp(ops.Projector(GEOMETRY)), "composition"),
        (lambda: KnownOperatorNet.from_fbp(ops.fbp(GEOMETRY).T), "Diagonal"),
        (lambda: net(runs=0), "runs"),
        (lambda: net(runs=2)(draw(3, 1, 6, 10)), "2 runs"),
        (lambda: net()(draw(6, 9)), r"\(\.\.\., 6, 10\)"),
        (lambda: net()(W), "float64"),
        (lambda: DenseNet(3, 2, matrix=draw(3, 2)), r"matrix must have shape \(2, 3\)"),
        (lambda: DenseNet(3, 2, matrix=draw(2, 3).half()), "float32"),
        (lambda: DenseNet(3, 2)(torch.ones(4)), r"\(\.\.\., 3\)"),
        (lambda: DenseNet(3, 2)(draw(3)), "float32"),
        (lambda: DenseNet(3, 2)([1, 2, 3]), "tensor"),
        (lambda: DenseNet.factored(draw(2, 4), draw(5, 3), 3, 2), r"left must have shape \(2, 5\)"),
        (lambda: DenseNet.factored(draw(2, 4), draw(4, 4), 3, 2), r"right must have shape"),
        (lambda: DenseNet.factored(draw(2, 4), draw(4, 3).float(), 3, 2), "bring them together"),
        (lambda: DenseNet.factored(draw(2, 4), [1.0], 3, 2), "floats"),  # type: ignore[arg-type]
    ],
)
def test_refused_in_one_line(make: Any, says: str) -> None:
    with pytest.raises(KoriskError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)
