"""KnownOperatorNet: what it computes, what it learns, and what the theory is told."""

import io
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import korisk as kr
from korisk.errors import KoriskError
from korisk.networks import KnownOperatorNet
from korisk.operators import (
    Diagonal,
    FanBeam,
    Matrix,
    ParallelBeam,
    Projector,
    Tikhonov,
    fbp,
    released_fbp,
)

GEOMETRY = ParallelBeam(8, views=6, bins=10)
FAN = FanBeam(8, views=6, bins=10, bin_spacing=2, source_to_center=30, source_to_detector=50)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def net(**options: Any) -> KnownOperatorNet:
    return KnownOperatorNet.from_fbp(fbp(GEOMETRY, dtype=torch.float64), **options)


@pytest.mark.parametrize("made", [fbp(GEOMETRY, dtype=torch.float64), fbp(FAN).double()])
def test_before_training_it_is_filtered_backprojection_and_a_relu(made: Any) -> None:
    x = draw(3, 6, 10)
    image = made(x)
    assert (image < 0).any()
    network = KnownOperatorNet.from_fbp(made)
    torch.testing.assert_close(network(x), image.clamp(min=0), rtol=0, atol=1e-14)
    plain = KnownOperatorNet.from_fbp(made, relu=False)
    torch.testing.assert_close(plain(x), image, rtol=0, atol=1e-14)


def test_the_matrix_product_that_it_stands_for() -> None:
    tail, weights, x = draw(5, 12), draw(3, 4, seed=1), draw(2, 3, 4, seed=2)
    network = KnownOperatorNet(weights, Matrix(tail, domain=(3, 4)), relu=False)
    by_hand = (tail @ torch.diag(weights.flatten()) @ x.reshape(2, 12).t()).t()
    torch.testing.assert_close(network(x), by_hand, rtol=1e-13, atol=1e-13)


def test_any_batch_dimensions_and_none() -> None:
    network, x = net(), draw(2, 3, 6, 10)
    together = network(x)
    assert together.shape == (2, 3, 8, 8)
    torch.testing.assert_close(network(x[1, 2]), together[1, 2], rtol=1e-12, atol=1e-14)


def test_each_run_is_the_network_with_its_own_weights() -> None:
    weights, x = draw(3, 6, 10), draw(3, 2, 6, 10, seed=1)
    tail = fbp(GEOMETRY, dtype=torch.float64).layers[1:]
    together = KnownOperatorNet(weights, tail)
    assert together.runs == 3
    for run in range(3):
        alone = KnownOperatorNet(weights[run], tail)
        assert alone.runs is None
        torch.testing.assert_close(together(x)[run], alone(x[run]), rtol=1e-12, atol=1e-14)
    # Without a batch, and with two batch dimensions.
    torch.testing.assert_close(together(x[:, 0]), together(x)[:, 0], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(
        together(x.unsqueeze(1)), together(x).unsqueeze(1), rtol=1e-12, atol=1e-14
    )


def test_the_weights_are_the_only_parameter_and_in_the_state_dict() -> None:
    network = net(runs=2)
    assert [name for name, _ in network.named_parameters()] == ["weights"]
    assert network.weights.shape == (2, 6, 10)
    network.weights.data.mul_(3)
    file = io.BytesIO()
    torch.save(network.state_dict(), file)
    file.seek(0)
    other = net(runs=2)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other.weights, network.weights)


def test_weights_are_copied_and_lose_no_precision() -> None:
    tail = fbp(GEOMETRY, dtype=torch.float64).layers[1:]
    array = np.full((6, 10), 1 / 3)
    network = KnownOperatorNet(array, tail)
    assert network.weights.dtype == torch.float64
    assert network.weights.detach().numpy().tolist() == array.tolist()
    given = torch.ones(6, 10, dtype=torch.float64)
    KnownOperatorNet(given, tail).weights.data.zero_()
    assert bool((given == 1).all())
    assert KnownOperatorNet(given, fbp(GEOMETRY).layers[1:]).weights.dtype == torch.float32


def test_moving_the_network_moves_its_operators() -> None:
    network = net().float()
    assert network(torch.ones(6, 10)).dtype == torch.float32
    with pytest.raises(KoriskError, match=r"float32 or torch\.float64"):
        network.half()
    assert network.weights.dtype == torch.float32


# What the theory is told


def test_described_layer_by_layer() -> None:
    described = net(runs=4).describe()
    assert described.names == ("W", "K", "A^T", "ReLU")
    assert [layer.kind for layer in described] == ["learned", "known", "known", "known"]
    assert described.learned[0].parameters == 60
    assert net(relu=False).describe().names == ("W", "K", "A^T")


def test_the_composed_tail_amplifies_by_the_largest_singular_value_of_the_whole() -> None:
    network = net()
    described = network.describe()
    exact = torch.linalg.matrix_norm(network.linear_tail.as_matrix(), 2).item()
    factors = [
        torch.linalg.matrix_norm(layer.as_matrix(), 2).item()
        for layer in network.linear_tail.layers
    ]
    assert exact < 0.9 * math.prod(factors)
    assert exact <= described.tails("composed")[0] <= exact * 1.02
    assert math.prod(factors) <= described.tails("paper")[0] <= math.prod(factors) * 1.05
    assert kr.deep_risk(described, {"W": 1.0}).total == pytest.approx(exact**2, rel=0.05)


def test_operators_of_one_name_stay_apart() -> None:
    twice = [Matrix(torch.eye(4)), Matrix(torch.eye(4)), Diagonal(torch.ones(4))]
    assert KnownOperatorNet(torch.ones(4), twice).describe().names == (
        "W",
        "M",
        "M (2)",
        "W (2)",
        "ReLU",
    )


def test_the_surrogate_of_the_paper() -> None:
    inverse = Tikhonov(Projector(GEOMETRY, dtype=torch.float64), 0.1)
    network = KnownOperatorNet(torch.ones(6, 10), inverse, relu=False)
    x = draw(6, 10)
    torch.testing.assert_close(network(x), inverse(x))
    assert network.describe().names == ("W", "A^+")
    assert network.linear_tail.layers == (inverse,)


# What is refused


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: KnownOperatorNet(torch.ones(5, 10), fbp(GEOMETRY).layers[1:]), r"\(6, 10\)"),
        (lambda: KnownOperatorNet(torch.ones(1, 1, 6, 10), fbp(GEOMETRY).layers[1:]), "runs"),
        (lambda: KnownOperatorNet(torch.ones(6, 10), fbp(GEOMETRY, trainable=True)), "be trained"),
        (lambda: KnownOperatorNet(torch.ones(6, 10), []), "at least one operator"),
        (lambda: KnownOperatorNet(torch.ones(6, 10), [torch.relu]), "LinearOperators"),  # type: ignore[list-item]
        (lambda: KnownOperatorNet(torch.ones(6, 10), 3), "LinearOperator"),  # type: ignore[arg-type]
        (lambda: KnownOperatorNet("w", fbp(GEOMETRY)), "array of numbers"),
        (lambda: KnownOperatorNet(torch.full((6, 10), math.nan), fbp(GEOMETRY)), "finite"),
        (lambda: KnownOperatorNet.from_fbp(Projector(GEOMETRY)), "composition"),
        (lambda: KnownOperatorNet.from_fbp(fbp(GEOMETRY).T), "Diagonal"),
        (lambda: net(runs=0), "runs"),
        (lambda: net(runs=2)(draw(3, 1, 6, 10)), "2 runs"),
        (lambda: net(runs=2)(draw(6, 10)), "2 runs"),
        (lambda: net()(draw(6, 9)), r"\(\.\.\., 6, 10\)"),
        (lambda: net()(torch.ones(6, 10)), "float64"),
    ],
)
def test_refused_in_one_line(make: Any, says: str) -> None:
    with pytest.raises(KoriskError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_trainable_fbp_gives_the_same_network() -> None:
    made = fbp(GEOMETRY, trainable=True)
    network = KnownOperatorNet.from_fbp(made)
    assert torch.equal(network.weights, made.parameters().__next__())
    assert network.weights is not made.parameters().__next__()


def test_the_released_network_is_described_with_its_own_numbers() -> None:
    described = KnownOperatorNet.from_fbp(released_fbp(FAN)).describe()
    ramp = described["K"].bracket
    assert ramp.upper == pytest.approx(math.pi / 6 / 2, rel=1e-6)  # |f| <= 1/2, times pi / V


def test_without_pytorch_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["torch"] = None
try:
    import korisk.networks
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "korisk.networks needs PyTorch, which is not installed; pip install 'korisk[torch]'"
    )
