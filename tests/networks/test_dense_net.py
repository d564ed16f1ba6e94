"""DenseNet: a matrix or its factors, and what does not fit."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from korisk.errors import KoriskError
from korisk.networks import DenseNet


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_it_is_a_linear_layer_with_a_relu() -> None:
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


def test_zero_before_training_and_one_parameter() -> None:
    network = DenseNet((3, 4), 5, dtype=torch.float64)
    assert [name for name, _ in network.named_parameters()] == ["weight"]
    assert network.matrix() is network.weight
    assert network.matrix().shape == (5, 12)
    assert not network(draw(3, 4)).any()


def test_the_given_matrix_is_copied_in_its_own_precision() -> None:
    matrix = draw(2, 3)
    network = DenseNet(3, 2, matrix=matrix)
    network.matrix().data.zero_()
    assert matrix.any()
    assert network.matrix().dtype == torch.float64
    assert DenseNet(3, 2, matrix=matrix, dtype=torch.float32).matrix().dtype == torch.float32
    assert DenseNet(3, 2, matrix=np.ones((2, 3))).matrix().dtype == torch.float32


@pytest.mark.parametrize("relu", [True, False])
def test_factors_predict_as_their_product(relu: bool) -> None:
    left, right, x = draw(6, 4), draw(4, 12, seed=1), draw(5, 3, 4, seed=2)
    factored = DenseNet.factored(left, right, (3, 4), (2, 3), relu)
    formed = DenseNet((3, 4), (2, 3), matrix=left @ right, relu=relu)
    torch.testing.assert_close(factored(x), formed(x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(factored.matrix(), left @ right)
    assert list(factored.parameters()) == []
    assert factored.describe() == formed.describe()
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


def test_described_with_all_of_its_entries() -> None:
    described = DenseNet((3, 4), (2, 3)).describe()
    assert described.names == ("M", "ReLU")
    assert described.learned[0].parameters == 72
    assert DenseNet(3, 2, relu=False).describe().names == ("M",)


# What does not fit


def test_a_matrix_larger_than_the_memory_is_refused_before_it_is_made() -> None:
    side = 2048  # 2048^4 entries: 64 TiB
    with pytest.raises(KoriskError, match=r"65,536\.0 GiB.*dual ridge"):
        DenseNet((side, side), (side, side), dtype=torch.float32)
    factor = torch.ones(1, side * side)
    network = DenseNet.factored(factor.t(), factor, (side, side), (side, side))
    with pytest.raises(KoriskError, match=r"65,536\.0 GiB"):
        network.matrix()
    assert network(torch.ones(side, side))[0, 0] == side * side
    assert network.describe().learned[0].parameters == side**4


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: DenseNet(3, 2, matrix=draw(3, 2)), r"matrix must have shape \(2, 3\)"),
        (lambda: DenseNet(0, 2), "domain"),
        (lambda: DenseNet(3, 2, matrix=torch.full((2, 3), math.inf)), "finite"),
        (lambda: DenseNet(3, 2, dtype=torch.float16), "float32"),
        (lambda: DenseNet(3, 2, device="nowhere"), "device"),
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
