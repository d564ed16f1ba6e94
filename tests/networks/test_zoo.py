"""The zoo: networks of every kind behind every problem with images, and what they know."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from korisk.errors import KoriskError
from korisk.networks import zoo
from korisk.operators import (
    Diagonal,
    LinearOperator,
    ParallelBeam,
    Projector,
    Sense,
    Tikhonov,
    birdcage_sensitivities,
    fbp,
)
from korisk.problems import BlurProblem, CtProblem, CtScanner, MriProblem, PdeProblem, Problem

SCAN = ParallelBeam(8, views=6, bins=12)
PROBLEMS: dict[str, Problem] = {
    "parallel": CtProblem(scanner=CtScanner(side=8, views=6, bins=12, beam="parallel")),
    "fan": CtProblem(scanner=CtScanner(side=8, views=6, bins=12, beam="fan")),
    "one coil": MriProblem(side=8, lines=4),
    "coils": MriProblem(side=8, lines=4, coils=3),
    "blur": BlurProblem(side=8, deviation=0.8, assumed=1.0),
}


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("kind", zoo.KINDS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_kind_turns_data_of_every_problem_into_images(name: str, kind: str) -> None:
    problem = PROBLEMS[name]
    operator, inverse = problem.known_operators()
    inputs, targets = problem.pools(seed=1, train=3, validation=0, test=0).train
    build = {
        seed: zoo.build(kind, operator, inverse, width=3, passes=2, seed=seed) for seed in (1, 2)
    }
    first, second = (each(inputs.float()) for each in build.values())
    assert first.shape == targets.shape
    assert first.dtype == torch.float32
    assert not torch.equal(first, second)  # another seed, other weights


@pytest.mark.parametrize("kind", zoo.KINDS)
@pytest.mark.parametrize("name", ["fan", "coils"])
def test_stacked_networks_give_what_each_gives_alone(name: str, kind: str) -> None:
    operator, inverse = PROBLEMS[name].known_operators()
    both = [zoo.build(kind, operator, inverse, width=3, passes=2, seed=seed) for seed in (1, 2)]
    y = drawn(2, 4, *operator.range)
    weights = {
        key: torch.stack([dict(each.named_parameters())[key].detach() for each in both])
        for key in dict(both[0].named_parameters())
    }
    stacked = vmap(lambda own, x: functional_call(both[0], own, (x,)))(weights, y)
    for network, one, found in zip(both, y, stacked, strict=True):
        torch.testing.assert_close(found, network(one), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["fan", "coils", "blur"])
@pytest.mark.parametrize("kind", ["inverse-unet", "weights-inverse-unet", "inverse-cnn"])
def test_without_its_last_layer_a_network_is_the_known_inverse(name: str, kind: str) -> None:
    operator, inverse = PROBLEMS[name].known_operators()
    network = zoo.build(kind, operator, inverse, width=3)
    assert isinstance(network, zoo.PostProcessing)
    last = [each for each in network.net.modules() if isinstance(each, nn.Conv2d)][-1]
    nn.init.zeros_(last.weight)
    y = expected = drawn(2, *operator.range)
    for each in inverse:
        expected = each(expected)
    torch.testing.assert_close(network(y), expected)


@pytest.mark.parametrize("kind", ["primal-dual", "dense-unet"])
def test_the_unit_of_the_data_does_not_matter(kind: str) -> None:
    operator = Projector(SCAN)
    y = drawn(2, *operator.range)
    one, thousand = (
        zoo.build(kind, factor * operator, operator.T, width=3)(factor * y)
        for factor in (1.0, 1000.0)
    )
    torch.testing.assert_close(one, thousand, rtol=1e-3, atol=1e-6)


def test_known_operators_are_submodules_and_none_of_them_is_trained() -> None:
    operator = Projector(SCAN)
    kinds = {kind: zoo.build(kind, operator, fbp(SCAN), width=3) for kind in zoo.KINDS}
    names = {
        kind: [each.name for each in network.modules() if isinstance(each, LinearOperator)]
        for kind, network in kinds.items()
    }
    assert {"W", "K", "A^T"} <= set(names["inverse-cnn"])
    assert {"A", "A^T"} <= set(names["primal-dual"])
    assert names["dense-unet"] == []
    trained = {
        kind: any(
            weights.requires_grad
            for each in network.modules()
            if isinstance(each, LinearOperator)
            for weights in each.parameters()
        )
        for kind, network in kinds.items()
    }
    assert [kind for kind in trained if trained[kind]] == ["weights-inverse-unet"]


def test_learned_weights_start_where_the_inverse_has_its_own() -> None:
    start = drawn(6, 12).abs()
    own = zoo.WeightedPostProcessing([Diagonal(start), Projector(SCAN).T], zoo.Cnn())
    ones = zoo.WeightedPostProcessing(Projector(SCAN).T, zoo.Cnn())
    assert torch.equal(own.inverse.get_parameter("W.weights"), start)
    assert torch.equal(ones.inverse.get_parameter("W.weights"), torch.ones(6, 12))


def test_complex_images_have_two_channels() -> None:
    operator = Sense((8, 4), birdcage_sensitivities((8, 4), coils=3))
    y = operator(drawn(2, 8, 4, 2))
    inverse = Tikhonov(operator, 1e-3)
    for kind in zoo.KINDS:
        assert zoo.build(kind, operator, inverse, width=3)(y).shape == (2, 8, 4, 2)


def test_what_is_known_in_front_is_split_off() -> None:
    operator, y = Projector(SCAN), drawn(2, 6, 12)
    for kind in zoo.KINDS:
        network = zoo.build(kind, operator, fbp(SCAN), width=3)
        front, rest = zoo.split_known(network)
        assert torch.equal(rest(front(y)), network(y))
        fixed = sum(1 for _ in front.modules()) > 1
        assert fixed == (kind in ("inverse-unet", "inverse-cnn"))
        assert [id(p) for p in rest.parameters()] == [id(p) for p in network.parameters()]


def test_a_network_in_float64_leaves_its_operators_alone() -> None:
    operator = Projector(SCAN, dtype=torch.float64)
    network = zoo.build("primal-dual", operator, operator.T, width=3)
    assert network(drawn(2, 6, 12)).dtype == torch.float32
    assert operator.dtype == torch.float64


def test_what_no_network_can_be_made_of_is_refused() -> None:
    operator, inverse = Projector(SCAN), fbp(SCAN)
    with pytest.raises(KoriskError, match="divisible by 16, got \\(8, 8\\)"):
        zoo.build("inverse-unet", operator, inverse, levels=4)
    with pytest.raises(KoriskError, match="kind must be"):
        zoo.build("inverse", operator, inverse)
    with pytest.raises(KoriskError, match="LinearOperator"):
        zoo.build("primal-dual", lambda x: x, inverse)  # type: ignore[arg-type]
    with pytest.raises(KoriskError, match="cannot follow"):
        zoo.PostProcessing([operator, inverse, inverse], zoo.Cnn())
    with pytest.raises(KoriskError, match="at most 268,435,456 weights"):
        zoo.DenseUNet((512, 512), (512, 512))
    with pytest.raises(KoriskError, match="rows and columns"):
        zoo.build("primal-dual", Diagonal([1.0, 2.0]), Diagonal([1.0, 2.0]))
    with pytest.raises(KoriskError, match="PdeProblem"):
        PdeProblem(points=8).known_operators()
