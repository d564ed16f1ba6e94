"""Errors of the layers of trained networks, each against the layer of a true network.

Values may take any way through a network: every call of a learned part is a layer, and errs at
the input that the trained network gives it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial, singledispatch
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from korisk._json import JsonDict
from korisk.errors import KoriskError
from korisk.fitting.gradient.recipe import draw_batches
from korisk.fitting.ridge.dense import DenseFit
from korisk.fitting.ridge.diagonal import DiagonalRidge
from korisk.networks import KnownOperatorNet, RefinedNet
from korisk.networks.amplification import graph_network, learned_parts, title_of
from korisk.networks.describe.describe import describe
from korisk.networks.known_operator import free_name
from korisk.operators import Composed
from korisk.paper.theorem.problems import DeepProblem, GraphProblem, TrueNetworkProblem
from korisk.problems import Pairs, Reconstruction
from korisk.store.cells import LEFT_OUT
from korisk.studies.run.fits import Fitted, Gradient, Job, convergence, seconds_since
from korisk.theory import Known, Layer, Learned, Network, NormBracket

_SLIGHT = 1e-6  # lambda of the weights that fit the test set, over the mean of the diagonal


class Layers(NamedTuple):
    """The layers of a true network, by which those of trained ones are measured."""

    network: Network  # the true one as the theory takes it
    errors: Callable[[Any], dict[str, float]]  # E||e_l||^2 of a trained one's, by name


def sum_of_squares(errors: Tensor) -> float:
    """E||e||^2: the mean over samples of the sum over entries, in float64."""
    return float(errors.double().square().flatten(1).sum(1).mean())


@singledispatch
def layers_of(fitted: Any, job: Job) -> Layers | KnownLayers:
    """The true layers of the network that a fit returns: here any module that is no chain."""
    problem, inputs = job.bench.problem, job.pools.test.inputs
    assert isinstance(problem, GraphProblem)
    truth = problem.true_network(inputs.device)
    errors = partial(graph_errors, truth, inputs=inputs)
    return Layers(_described(problem, str(inputs.device)), errors)


class KnownLayers:
    """The layers of ReLU(B W x): the true ones, or the weights that fit the test set best."""

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
        # Without a true network, the weights that fit the test set best take its place.
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

    @property
    def network(self) -> Network:
        """With a last layer that adds what the others leave out."""
        front = KnownOperatorNet(self.weights, self.true_tail, relu=self._relu)
        last = Known(LEFT_OUT, lipschitz=NormBracket(1, 1, how="adds to its input"))
        return Network([*front.describe(), last], name="KO")

    def errors(self, fitted: Tensor) -> dict[str, float]:
        """Of a network with these weights."""
        errors = {"W": sum_of_squares((self.weights - fitted) * self._inputs)}
        # Each operator errs at the input that the trained network gives it.
        z = fitted * self._inputs
        for name, true, used in zip(self._names, self.true_tail, self._tail, strict=True):
            output = used(z)
            if true is not used and (missed := sum_of_squares(true(z) - output)):
                errors[name] = missed
            z = output
        return errors | {LEFT_OUT: self.left_out}


@layers_of.register
def _(fitted: Tensor, job: Job) -> KnownLayers:
    bench, test = job.bench, job.pools.test
    truth = bench.problem.truth(test.inputs.device)
    relu = job.settings["relu"]
    return KnownLayers(bench.tail, truth, test, toward=bench.weights, relu=relu, gram=bench.gram)


@layers_of.register
def _(fitted: DenseFit, job: Job) -> Layers:
    """Everything that the dense network errs by is the error of its one learned layer."""
    inputs, targets = job.pools.test
    layers: list[Layer] = [Learned("M", parameters=inputs[0].numel() * targets[0].numel())]
    if job.settings["relu"]:
        layers.append(Known("ReLU", lipschitz=NormBracket(1, 1, how="a ReLU's")))

    def errors(fitted: DenseFit) -> dict[str, float]:
        return {"M": sum_of_squares(targets - fitted.product(inputs))}  # before the ReLU

    return Layers(Network(layers, name="FC"), errors)


def refined_network(truth: RefinedNet) -> Network:
    """The true network of `DeepProblem` as the theory takes it."""
    # The upper end of the refinement's Lipschitz constant, by describing it on one image.
    rows, columns = truth.front.range
    example = torch.zeros(1, 1, rows, columns, dtype=truth.weights.dtype)
    convolutions = describe(copy.deepcopy(truth.refinement).to(example.device), example)
    upper = convolutions.lipschitz()
    count = sum(parameter.numel() for parameter in truth.refinement.parameters())
    bracket = NormBracket(0.0, upper, how="product of the norms of its convolutions")
    last = Learned("S", parameters=count, lipschitz=bracket)
    return Network([*truth.front.describe(), last], name="KO")


def refined_errors(truth: RefinedNet, fitted: RefinedNet, inputs: Tensor) -> dict[str, float]:
    """Errors of the two learned layers W and S of a network.

    Dividing W by c and replacing S by z -> S(c z) leaves the network unchanged, so training does
    not determine the scale c. The theorem holds for every c; the errors are those at the c that
    brings W / c closest to the true weights.
    """
    # The least-squares c of W* x = W x / c over the test inputs.
    true, weighed = truth.weights * inputs, fitted.weights * inputs
    scale = float((weighed * weighed).double().sum() / (true * weighed).double().sum())
    images = fitted.front(inputs)
    errors = true - weighed / scale, truth.refine(images / scale) - fitted.refine(images)
    return dict(zip(("W", "S"), map(sum_of_squares, errors), strict=True))


@layers_of.register
def _(fitted: RefinedNet, job: Job) -> Layers:
    problem, test = job.bench.problem, job.pools.test
    assert isinstance(problem, DeepProblem)
    truth = problem.true_network(test.inputs.device)
    return Layers(refined_network(truth), partial(refined_errors, truth, inputs=test.inputs))


@lru_cache(maxsize=2)
def _described(problem: GraphProblem, device: str) -> Network:
    """The true network of all seeds as the theory takes it."""
    example = torch.zeros(1, *problem.scanner.geometry.sinogram_shape, device=device)
    return graph_network(problem.true_network(device), example)


@torch.no_grad()
def graph_errors(truth: nn.Module, trained: nn.Module, inputs: Tensor) -> dict[str, float]:
    """E||e_l||^2 of every learned layer of a trained module."""
    true_parts = learned_parts(truth)
    errors: dict[str, float] = {}
    handles = []
    for path, module in learned_parts(trained).items():
        if path not in true_parts:
            why = f"the true network has no learned part {path!r}"
            raise KoriskError(f"{why}; both must have the same parts")

        # Called with what the trained network hands the part: its error is measured there.
        def measure(
            _: nn.Module, inputs: tuple[Any, ...], output: Tensor, path: str = path
        ) -> None:
            name = free_name(title_of(path, true_parts[path]), set(errors))
            errors[name] = sum_of_squares(true_parts[path](*inputs) - output)

        handles.append(module.register_forward_hook(measure))
    try:
        trained(inputs)
    finally:
        for handle in handles:
            handle.remove()
    return errors


class TowardsTruth(Gradient):
    """A network of the true one's shape, trained by gradients, N after N."""

    def rows(self, job: Job) -> Iterator[Fitted]:
        """Before training, then at every size."""
        problem, inputs = job.bench.problem, job.pools.test.inputs
        assert isinstance(problem, TrueNetworkProblem)
        recipe = job.recipe
        # N = 0 is the network before training; every N starts anew with the same seed.
        for index, n in enumerate([0, *job.sizes]):
            start = time.perf_counter()
            network, generator = problem.start(job.seed, inputs.device)
            detail: JsonDict = {}
            if n:
                batches = draw_batches(n, recipe.batch, recipe.iterations, generator)
                training = job.trained(network, n, batches, index - 1, len(job.sizes))
                seconds = seconds_since(start, training.end.loss)
                detail = convergence(training) | {"seconds": seconds}
            weights = getattr(network, "weights", None)  # of a diagonal layer, stored for figures
            yield job.row(n, network(inputs), detail, weights, network)
