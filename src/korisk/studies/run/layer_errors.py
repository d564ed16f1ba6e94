"""Errors of single layers, measured on the test set, for "does the theorem hold?".

The theorem speaks of a target u_L o ... o u_1 and errs by e_l(z) = u_l(z) - û_l(z), where z is what
the network has made of the input by then. For ReLU(B W x), or without the ReLU, with B known:

- W: (W* - W) x, with W* the true weights where the problem knows them, or else the least-squares
  weights of the test set. The theorem holds for any W*; these are near the best there are, and a
  fit with the ReLU inside, which can follow the test images closer, would stand further from
  every trained network.
- Each operator of B that is not the true one, applied to what comes to it: its mismatch.
- "left out": a last layer whose true map adds y - f*(x) to its input, f* the network with true
  layers, and whose estimate adds nothing: noise, and what such a network cannot do. Its constant
  is 1.
"""

from __future__ import annotations

import math
from copy import deepcopy

import torch
from torch import Tensor

from korisk.fitting.ridge.diagonal import DiagonalRidge
from korisk.networks import KnownOperatorNet, RefinedNet
from korisk.operators import Composed
from korisk.problems.problem import Pairs, Reconstruction
from korisk.studies.result import LEFT_OUT
from korisk.theory import Composition, Known, Layer, Learned, Network, NormBracket

_SLIGHT = 1e-6  # lambda of the weights that fit the test set, over the mean of the diagonal


def sum_of_squares(errors: Tensor) -> float:
    """E||e||^2: the mean over samples of the sum over entries, in float64."""
    return float(errors.double().square().flatten(1).sum(1).mean())


class KnownLayers:
    """The layers of ReLU(B W x), to measure networks of this kind by.

    With the true layers, or with the weights that fit the test set best.
    """

    def __init__(
        self,
        tail: Composed,
        truth: Reconstruction | None,
        test: Pairs,
        *,
        toward: Tensor,
        relu: bool,
        gram: Tensor | None,
    ) -> None:
        if truth is None:
            ridge = DiagonalRidge(tail, *test, toward=toward, relu=relu, gram=gram)
            training = ridge.training(len(test.inputs))
            weights = training.fit(penalty=_SLIGHT * training.scale).weights
            truth = Reconstruction(weights, tail.layers)
        self.weights, self.true_tail = truth  # W*, and the true operators
        described = KnownOperatorNet(self.weights, self.true_tail, relu=False).describe()
        self._names = described.names[1:]
        output = Composed(self.true_tail)(self.weights * test.inputs)
        self.left_out = sum_of_squares(test.targets - (output.relu() if relu else output))
        self._tail, self._relu, self._inputs = tail.layers, relu, test.inputs

    def network(self) -> Network:
        """The true network as the theory takes it, every norm a bracket."""
        front = KnownOperatorNet(self.weights, self.true_tail, relu=self._relu)
        last = Known(LEFT_OUT, lipschitz=NormBracket(1, 1, how="adds to its input"))
        return _network(front, last)

    def measure(self, weights: Tensor) -> dict[str, float]:
        """The errors of a network with these weights, by layer."""
        errors = {"W": sum_of_squares((self.weights - weights) * self._inputs)}
        z = weights * self._inputs
        for name, true, used in zip(self._names, self.true_tail, self._tail, strict=True):
            made = used(z)
            if true is not used and (missed := sum_of_squares(true(z) - made)):
                errors[name] = missed
            z = made
        return errors | {LEFT_OUT: self.left_out}


def dense_network(inputs: Tensor, targets: Tensor, *, relu: bool) -> Network:
    """The dense network: everything that it errs by is the error of its one learned layer."""
    count = math.prod(inputs.shape[1:]) * math.prod(targets.shape[1:])
    layers: list[Layer] = [Learned("M", parameters=count)]
    if relu:
        layers.append(Known("ReLU", lipschitz=NormBracket(1, 1, how="a ReLU's")))
    return Network(layers, name="FC")


def refined_network(truth: RefinedNet) -> Network:
    """The true network of `DeepProblem` as the theory takes it."""
    from korisk.networks.describe.describe import describe

    rows, columns = truth.front.range
    example = torch.zeros(1, 1, rows, columns, dtype=truth.weights.dtype)
    convolutions = describe(deepcopy(truth.refinement).to(example.device), example)
    upper = convolutions.lipschitz()
    count = sum(parameter.numel() for parameter in truth.refinement.parameters())
    bracket = NormBracket(0.0, upper, how="product of the norms of its convolutions")
    return _network(truth.front, Learned("S", parameters=count, lipschitz=bracket))


def refined_errors(truth: RefinedNet, network: RefinedNet, test: Pairs) -> dict[str, float]:
    """Errors of both learned parts.

    W / c and z -> S(c z) are the same network as W and S. Training fixes no c, and the theorem
    holds for any: the layers are taken with the c that brings W nearest to the true weights.
    """
    true, made = truth.weights * test.inputs, network.weights * test.inputs
    scale = float((made * made).double().sum() / (true * made).double().sum())
    images = network.front(test.inputs)
    return {
        "W": sum_of_squares(true - made / scale),
        "S": sum_of_squares(truth.refine(images / scale) - network.refine(images)),
    }


def _network(front: KnownOperatorNet, last: Layer) -> Network:
    """The network's layers and one more, with brackets for all, and for runs of operators."""
    made = front.describe()
    operators = front.linear_tail.layers
    names = made.names[1 : 1 + len(operators)]
    compositions = [
        Composition(name, names[-1], lipschitz=Composed(operators[at:]).norm())
        for at, name in enumerate(names[:-1])
    ]
    settled = [  # brackets instead of operators
        Known(each.name, lipschitz=each.bracket) if isinstance(each, Known) else each
        for each in made
    ]
    return Network([*settled, last], compositions=compositions, name="KO")
