"""CT behind detectors of unknown gain, seen through unknown convolutions: two things to learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from korisk import _checks
from korisk.networks import RefinedNet
from korisk.operators.inputs import checked_device
from korisk.operators.linear import LinearOperator
from korisk.problems.ct import CtProblem, CtScanner
from korisk.problems.problem import Counts, Device, Pairs, Pools, Problem, Reconstruction
from korisk.problems.sources import EllipseSource
from korisk.seeds import stream_key

_TRUE_SPREAD = 0.2  # of the true kernels about the identity


@dataclass(frozen=True, kw_only=True)
class DeepProblem(Problem):
    """Learn x -> S(A^T K W x) for a true W and a true S, both the same for every seed.

    As the target is a network of the kind that is trained, every layer's own error can be measured.

    Parameters
    ----------
    scanner : CtScanner
        The scanner.
    source : EllipseSource, default EllipseSource()
        Where images come from.
    channels : int, default 4
        Images between the two convolutions of S.
    gain : float, default 0.3
        W is the analytic weights times exp(uniform(-gain, gain)) for each detector bin, >= 0.

    Notes
    -----
    S is two convolutions with a ReLU between them, see `RefinedNet`.

    Examples
    --------
    >>> from korisk.paper.theorem.deep import DeepProblem
    >>> from korisk.problems import CtScanner
    >>> scanner = CtScanner(side=8, views=6, bins=12, beam="parallel")
    >>> problem = DeepProblem(scanner=scanner, channels=2)
    >>> problem.pools(seed=1, train=2, validation=1, test=1).train.targets.shape
    torch.Size([2, 8, 8])
    """

    scanner: CtScanner
    source: EllipseSource = field(default_factory=EllipseSource)
    channels: int = 4
    gain: float = 0.3

    def __post_init__(self) -> None:
        _ = self.scanner.geometry
        remedy = "count the images between the two convolutions"
        _checks.count("channels", self.channels, at_least=1, at_most=1024, remedy=remedy)
        _checks.real("gain", self.gain, at_least=0, remedy="0.3 gives gains from 0.74 to 1.35")

    def prepared(self, device: Device = None) -> LinearOperator:
        """The projector."""
        return CtProblem(scanner=self.scanner).prepared(device)

    def reconstruction(self, device: Device = None) -> Reconstruction:
        """The scanner's, without the convolutions."""
        return self.scanner.reconstruction(device)

    def true_network(self, device: Device = None) -> RefinedNet:
        """The network that is to be learned.

        Parameters
        ----------
        device : torch.device or str, optional
            PyTorch's default where None.

        Returns
        -------
        RefinedNet
        """
        return _true_network(self, str(checked_device(device) or "cpu"))

    def _draw(self, seed: int, counts: Counts, device: Device) -> Pools:
        """Sinograms of ellipses, and what the true network makes of them."""
        truth = self.true_network(device)
        problem = CtProblem(scanner=self.scanner, source=self.source)
        drawn = problem.pools(seed=seed, **counts, device=device)
        with torch.no_grad():
            return Pools(*(Pairs(pool.inputs, truth(pool.inputs)) for pool in drawn))


@lru_cache(maxsize=2)
def _true_network(problem: DeepProblem, device: str) -> RefinedNet:
    rng = np.random.Generator(np.random.Philox(key=stream_key(0, "gains")))
    gains = np.exp(rng.uniform(-problem.gain, problem.gain, problem.scanner.bins))
    weights, tail = problem.scanner.reconstruction(device)
    drawn: dict[str, Any] = {"generator": torch.Generator().manual_seed(0), "spread": _TRUE_SPREAD}
    weights = weights * torch.from_numpy(gains).to(weights)
    return RefinedNet(weights, tail, channels=problem.channels, **drawn).requires_grad_(False)
