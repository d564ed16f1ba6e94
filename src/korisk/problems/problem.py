"""The base class of problems: samples, and known operators from inputs to targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError
from korisk.networks import zoo
from korisk.operators.basic import Diagonal
from korisk.operators.linear import LinearOperator
from korisk.operators.types import Device as Device

POOLS = ("train", "validation", "test")

Counts = Mapping[str, int]  # samples of each of POOLS


class Reconstruction(NamedTuple):
    """Layers of a reconstruction: inputs are multiplied by `weights`, then mapped by `tail`.

    Parameters
    ----------
    weights : Tensor
        Of the shape of one input, such as (views, bins): W before training.
    tail : tuple of LinearOperator
        In the order in which they act; the last one gives the output.

    Examples
    --------
    >>> from korisk.problems import CtScanner
    >>> layers = CtScanner(side=8, views=6, bins=12, beam="parallel").reconstruction()
    >>> layers.weights.shape, [operator.name for operator in layers.tail]
    (torch.Size([6, 12]), ['K', 'A^T'])
    """

    weights: Tensor
    tail: tuple[LinearOperator, ...]

    @classmethod
    def unweighted(cls, inverse: LinearOperator) -> Reconstruction:
        """Unit weights before a known inverse.

        Parameters
        ----------
        inverse : LinearOperator
            From inputs to targets.

        Returns
        -------
        Reconstruction
        """
        ones = torch.ones(inverse.domain, device=inverse.device, dtype=inverse.dtype)
        return cls(ones, (inverse,))


class Pairs(NamedTuple):
    """Inputs, such as sinograms, and their targets.

    Parameters
    ----------
    inputs : Tensor, shape (samples, *input)
    targets : Tensor, shape (samples, *target)

    Examples
    --------
    >>> from korisk.problems import PdeProblem
    >>> inputs, targets = PdeProblem(points=8).pools(seed=1, train=4, validation=2, test=3).train
    >>> inputs.shape, targets.shape
    (torch.Size([4, 8]), torch.Size([4, 8]))
    """

    inputs: Tensor
    targets: Tensor


class Pools(NamedTuple):
    """Training, validation and test samples.

    Parameters
    ----------
    train, validation, test : Pairs

    Examples
    --------
    >>> from korisk.problems import PdeProblem
    >>> pools = PdeProblem(points=8).pools(seed=1, train=4, validation=2, test=3)
    >>> [len(pool.inputs) for pool in pools]
    [4, 2, 3]
    """

    train: Pairs
    validation: Pairs
    test: Pairs


class Problem(ABC):
    """Base class of problems to learn. A frozen value: equal problems give equal samples.

    Abstract: `CtProblem`, `MriProblem`, `BlurProblem` and `PdeProblem` derive from it, and so may
    your own class, which defines `reconstruction` and `_draw`.

    Examples
    --------
    >>> from korisk.problems import PdeProblem
    >>> pools = PdeProblem(points=8).pools(seed=1, train=4, validation=2, test=3)
    >>> pools.train.inputs.shape, pools.test.targets.shape
    (torch.Size([4, 8]), torch.Size([3, 8]))
    """

    @abstractmethod
    def reconstruction(self, device: Device = None) -> Reconstruction:
        """W before training, and the known operators behind it.

        Parameters
        ----------
        device : torch.device or str, optional
            PyTorch's default where None.

        Returns
        -------
        Reconstruction
        """

    def pools(
        self, *, seed: int, train: int, validation: int, test: int, device: Device = None
    ) -> Pools:
        """Draw samples. Sample i is the same for any pool size, the test set for any seed.

        Parameters
        ----------
        seed : int
            Random seed, from 0 to 2**63 - 2.
        train, validation, test : int
            Samples of each pool, >= 0.
        device : torch.device or str, optional
            PyTorch's default where None.

        Returns
        -------
        Pools
        """
        seed = _checks.count("seed", seed, "give a number", at_least=0, at_most=2**63 - 2)
        # Checked once here, for all kinds of problems.
        counts = {
            name: _checks.count(name, count, "count its samples", at_least=0, at_most=2**31)
            for name, count in zip(POOLS, (train, validation, test), strict=True)
        }
        return self._draw(seed, counts, device)

    @abstractmethod
    def _draw(self, seed: int, counts: Counts, device: Device) -> Pools:
        """Draw the pools; `counts` has the number of samples by the pool's name."""

    def known_operators(
        self, device: Device = None
    ) -> tuple[LinearOperator, tuple[LinearOperator, ...]]:
        """Known operators for networks of the zoo: `zoo.build(kind, *problem.known_operators())`.

        Parameters
        ----------
        device : torch.device or str, optional
            PyTorch's default where None.

        Returns
        -------
        tuple of LinearOperator and tuple of LinearOperator
            In float32: A, from images to inputs, as far as it is known, and its known inverse in
            the order in which its operators act: those of `reconstruction`, behind the weights W
            unless these are one.

        Raises
        ------
        KoriskError
            If the problem has no images behind a linear operator.
        """
        weights, tail = self.reconstruction(device)
        known = self._known_operator(device).to(torch.float32)
        # Unit weights are no layer: they would only add a multiplication.
        weighting = () if bool((weights == 1).all()) else (Diagonal(weights),)
        return known, tuple(operator.to(torch.float32) for operator in (*weighting, *tail))

    def networks(
        self, kind: str, *, device: Device = None, **shape: Any
    ) -> Callable[[int], nn.Module]:
        """A function that builds networks of a kind, named in `models.networks`, from a seed.

        Parameters
        ----------
        kind : str
            One of the kinds of `korisk.networks.zoo`, unless a problem has its own.
        device : torch.device or str, optional
            PyTorch's default where None.
        **shape
            Numbers such as `width`, as `korisk.networks.zoo.build` takes them.

        Returns
        -------
        callable
            From a seed to a network in float32; known operators are shared by all of them.

        Raises
        ------
        KoriskError
            If there is no such kind, or a number is outside its range.
        """
        known = self.known_operators(device)
        return lambda seed: zoo.build(kind, *known, seed=seed, **shape)

    def _known_operator(self, device: Device) -> LinearOperator:
        """The forward operator A as networks know it."""
        need = "networks of the zoo take images behind a linear operator"
        remedy = "use CtProblem, MriProblem or BlurProblem"
        raise KoriskError(f"{need}, got {type(self).__name__}; {remedy}")

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the samples."""
        return torch.float64

    def prepared(self, device: Device = None) -> object:
        """Build what all pools share; as long as a caller holds it, it is not built again.

        Parameters
        ----------
        device : str or torch.device, optional
            Device to build it on.

        Returns
        -------
        object
            Opaque; None where nothing is shared.
        """
        return None
