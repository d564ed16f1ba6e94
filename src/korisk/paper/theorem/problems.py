"""Images that a true network makes of sinograms: to check bounds.

The target is a network of the kind that is trained, so that the error of every layer can be
measured, whatever way values take through it.
"""

import copy
import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk._checks import require
from korisk.networks import RefinedNet, zoo
from korisk.networks.describe.marks import mark_learned
from korisk.operators.basic import Diagonal
from korisk.operators.inputs import checked_device
from korisk.operators.linear import LinearOperator
from korisk.problems.ct import CtProblem, CtScanner
from korisk.problems.pde import random_gains
from korisk.problems.problem import Counts, Device, Pairs, Pools, Problem, Reconstruction
from korisk.problems.sources import EllipseSource

GRAPHS = (*zoo.KINDS, "dense-skips", "unrolled")
_PASSES, _LEVELS = 3, 2  # of unrolled schemes and of U-Nets
_TRUE_SIZE = 0.8  # root of the factor by which a true convolution changes a random image's energy
_TRUE_SPREAD = 0.2  # relative deviation of other true weights from those that training starts with


class DenseSkips(nn.Module):
    """A known inverse, then convolutions of which each takes all images before it."""

    def __init__(self, inverse: nn.Module, width: int, draws: torch.Generator) -> None:
        super().__init__()
        self.inverse = inverse
        self.convolutions = nn.ModuleList(
            nn.Conv2d(1 + index * width, width if index < 3 else 1, 3, padding=1)
            for index in range(4)
        )
        with torch.no_grad():
            for weights in self.convolutions.parameters():  # biases too
                drawn = torch.randn(weights.shape, generator=draws)
                weights.copy_(drawn / math.sqrt(max(weights[0].numel(), 100)))

    def forward(self, y: Tensor) -> Tensor:
        """Images of what was measured."""
        images = self.inverse(y).unsqueeze(1)
        for index, convolution in enumerate(self.convolutions):
            output = convolution(images)
            images = torch.cat([images, torch.relu(output)], 1) if index < 3 else output
        return cast(Tensor, images.squeeze(1))


class Unrolled(nn.Module):
    """Gradient descent on ||A x - y||^2 / 2 with one residual CNN behind every step."""

    def __init__(
        self, operator: LinearOperator, scale: float, width: int, draws: torch.Generator
    ) -> None:
        super().__init__()
        self.operator, self.adjoint, self.scale = operator, operator.T, scale
        self.net = zoo.Cnn(1, 3, width=width, generator=draws)
        mark_learned(self.net.stack)

    def forward(self, y: Tensor) -> Tensor:
        """Images of what was measured."""
        data = y * self.scale
        x = self.adjoint(data)
        for _ in range(_PASSES):
            # A step of length 1, which descends since the norm of A is at most 1.
            x = x - self.adjoint(self.operator(x) - data)
            x = self.net(x.unsqueeze(1)).squeeze(1)
        return cast(Tensor, x)


@dataclass(frozen=True, kw_only=True)
class TrueNetworkProblem(Problem):
    """Learn what a true network makes of sinograms of ellipses, the same for every seed."""

    scanner: CtScanner
    source: EllipseSource = field(default_factory=EllipseSource)

    @property
    def dtype(self) -> torch.dtype:
        """The scanner's."""
        return self.scanner.dtype

    def prepared(self, device: Device = None) -> LinearOperator:
        """The projector."""
        return CtProblem(scanner=self.scanner).prepared(device)

    def reconstruction(self, device: Device = None) -> Reconstruction:
        """The scanner's, without what is learned."""
        return self.scanner.reconstruction(device)

    @abstractmethod
    def true_network(self, device: Device = None) -> nn.Module:
        """The network that is to be learned."""

    @abstractmethod
    def start(self, seed: int, device: Device = None) -> tuple[nn.Module, torch.Generator]:
        """A network of the same shape, from which training starts, and what draws its batches."""

    def _draw(self, seed: int, counts: Counts, device: Device) -> Pools:
        """Sinograms of ellipses, and what the true network makes of them."""
        # Targets are noise-free outputs of the true network, in its precision.
        truth = self.true_network(device)
        problem = CtProblem(scanner=self.scanner, source=self.source)
        drawn = problem.pools(seed=seed, **counts, device=device)
        dtype = next(truth.parameters()).dtype
        with torch.no_grad():
            inputs = [pool.inputs.to(dtype) for pool in drawn]
            return Pools(*(Pairs(sinograms, truth(sinograms)) for sinograms in inputs))


@dataclass(frozen=True, kw_only=True)
class DeepProblem(TrueNetworkProblem):
    """Learn x -> S(A^T K W x) for a true W and a true S, both the same for every seed.

    As the target is a network of the kind that is trained, every layer's own error can be measured.
    """

    channels: int = 4
    gain: float = 0.3

    def __post_init__(self) -> None:
        _ = self.scanner.geometry
        remedy = "count the images between the two convolutions"
        _checks.count("channels", self.channels, at_least=1, at_most=1024, remedy=remedy)
        _checks.real("gain", self.gain, at_least=0, remedy="0.3 gives gains from 0.74 to 1.35")

    def true_network(self, device: Device = None) -> RefinedNet:
        """W behind detectors of unknown gain, then S."""
        return _true_refined(self, str(checked_device(device) or "cpu"))

    def start(self, seed: int, device: Device = None) -> tuple[nn.Module, torch.Generator]:
        """Twice the channels, so that training can find the true network."""
        generator = torch.Generator().manual_seed(seed)
        weights, tail = self.reconstruction(device)
        network = RefinedNet(weights, tail, channels=2 * self.channels, generator=generator)
        return network, generator


@lru_cache(maxsize=2)
def _true_refined(problem: DeepProblem, device: str) -> RefinedNet:
    # The analytic weights behind detector bins of unknown gain.
    gains = torch.from_numpy(random_gains(problem.gain, problem.scanner.bins))
    weights, tail = problem.scanner.reconstruction(device)
    weights = weights * gains.to(weights)
    generator = torch.Generator().manual_seed(0)
    size, spread = problem.channels, _TRUE_SPREAD
    network = RefinedNet(weights, tail, channels=size, generator=generator, spread=spread)
    return network.requires_grad_(False)


@dataclass(frozen=True, kw_only=True)
class GraphProblem(TrueNetworkProblem):
    """Learn what a true network of a kind makes of sinograms, the same for every seed."""

    network: str
    width: int = 4
    near: float | None = None

    def __post_init__(self) -> None:
        _ = self.scanner.geometry
        _checks.one_of("network", self.network, GRAPHS)
        _checks.count("width", self.width, at_least=1, at_most=1024, remedy="try 4")
        # A U-Net halves images once per level.
        halved = "unet" not in self.network or self.scanner.side % 2**_LEVELS == 0
        halving = f"{self.network!r}, which halves images {_LEVELS} times"
        rule = f"be divisible by {2**_LEVELS} for {halving}"
        require(halved, "side", rule, self.scanner.side)
        if self.near is not None:
            _checks.real("near", self.near, at_least=0, remedy="try 0.1, or leave it out")

    def true_network(self, device: Device = None) -> nn.Module:
        """A network whose every part has a say."""
        return _true_graph(self, str(checked_device(device) or "cpu"))

    def start(self, seed: int, device: Device = None) -> tuple[nn.Module, torch.Generator]:
        """At random, or near the true weights."""
        batches = torch.Generator().manual_seed(seed)
        if self.near is None:
            return self._built(1 + seed, device), batches
        network = copy.deepcopy(self.true_network(device))
        draws = torch.Generator().manual_seed(1 + seed)
        with torch.no_grad():
            for weights in network.parameters():
                changes = torch.randn(weights.shape, generator=draws).to(weights)
                weights.mul_(1 + self.near * changes)
        return network, batches

    def _built(self, seed: int, device: Device) -> nn.Module:
        """A network with random weights."""
        first, tail = self.scanner.reconstruction(device, torch.float32)
        inverse = [Diagonal(first, name="W"), *tail]
        operator = self.scanner.projector(device, torch.float32)
        if self.network in zoo.KINDS:
            size = {"width": self.width, "levels": _LEVELS, "passes": _PASSES}
            built = zoo.build(self.network, operator, inverse, **size, seed=seed)
            if isinstance(built, zoo.PrimalDual):
                for block in (*built.duals, *built.primals):
                    mark_learned(block)
            return built
        draws = torch.Generator().manual_seed(seed)
        network: nn.Module = DenseSkips(nn.Sequential(*inverse), self.width, draws)
        if self.network == "unrolled":
            # With a norm of 1 at most, gradient steps of length 1 converge.
            scale = 1 / operator.norm().upper
            network = Unrolled(operator * scale, scale, self.width, draws)
        return network.to(operator.device)


@lru_cache(maxsize=2)
def _true_graph(problem: GraphProblem, device: str) -> nn.Module:
    """A network whose every part has a say: zoo networks start close to what is known."""
    network = problem._built(0, device)
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for module in network.modules():
            for weights in module.parameters(recurse=False):
                drawn = torch.randn(weights.shape, generator=draws).to(weights)
                if isinstance(module, nn.Conv2d):
                    weights.copy_(_TRUE_SIZE * drawn / math.sqrt(max(weights[0].numel(), 36)))
                else:
                    weights.mul_(1 + _TRUE_SPREAD * drawn)
    return network
