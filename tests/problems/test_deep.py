"""The network with two learned parts, and the problem whose truth is one."""

import torch

from korisk.networks.refined import RefinedNet
from korisk.operators import Identity
from korisk.problems import CtScanner, DeepProblem

SCANNER = CtScanner(side=8, views=6, bins=12, beam="parallel")


def test_a_refinement_without_spread_is_the_identity_on_images() -> None:
    network = RefinedNet(torch.ones(5, 4), Identity((5, 4)), channels=3, spread=0.0)
    images = torch.rand(2, 5, 4)
    torch.testing.assert_close(network(images), images)
    torch.testing.assert_close(network.refine(-images), torch.zeros_like(images))


def test_leading_axes_are_batches() -> None:
    network = RefinedNet(torch.ones(5, 4), Identity((5, 4)), channels=3)
    images = torch.rand(2, 3, 5, 4)
    one_by_one = torch.stack([torch.stack([network(each) for each in row]) for row in images])
    torch.testing.assert_close(network(images), one_by_one)


def test_targets_are_what_the_true_network_makes_of_the_sinograms() -> None:
    problem = DeepProblem(scanner=SCANNER, gain=0.5)
    truth = problem.true_network()
    pools = problem.pools(seed=1, train=3, validation=2, test=2)
    for inputs, targets in pools:
        torch.testing.assert_close(truth(inputs), targets)
    analytic, _ = problem.reconstruction()
    gains = truth.weights / analytic
    assert float((gains - gains[0]).abs().max()) < 1e-5  # of a bin, whatever the view
    assert 0.6 < float(gains.min()) < 0.9 < 1.1 < float(gains.max()) < 1.7
    assert not any(weight.requires_grad for weight in truth.parameters())


def test_the_truth_is_the_same_for_every_seed_and_the_test_set_too() -> None:
    first = DeepProblem(scanner=SCANNER).pools(seed=1, train=2, validation=1, test=2)
    second = DeepProblem(scanner=SCANNER).pools(seed=2, train=2, validation=1, test=2)
    assert torch.equal(first.test.targets, second.test.targets)
    assert not torch.equal(first.train.targets, second.train.targets)
