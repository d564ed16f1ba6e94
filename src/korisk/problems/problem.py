"""What every problem has: samples to learn from, and a known way from inputs to targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import Argument, KoriskError
from korisk.networks import zoo
from korisk.operators.basic import Diagonal
from korisk.operators.linear import LinearOperator
from korisk.operators.types import Device as Device

POOLS = ("train", "validation", "test")

Counts = Mapping[str, int]  # samples of each of POOLS


class Reconstruction(NamedTuple):
    """Layers of a reconstruction: inputs are multiplied by `weights`, then pass through `tail`.

    Parameters
    ----------
    weights : Tensor
        Of the shape of one input, such as (views, bins): W before training.
    tail : tuple of LinearOperator
        In the order in which they act; the last one gives the output.

    Examples
    --------
    >>> from korisk.problems import CtScanner
    >>> found = CtScanner(side=8, views=6, bins=12, beam="parallel").reconstruction()
    >>> found.weights.shape, [operator.name for operator in found.tail]
    (torch.Size([6, 12]), ['K', 'A^T'])
    """

    weights: Tensor
    tail: tuple[LinearOperator, ...]

    @classmethod
    def unweighted(cls, inverse: LinearOperator) -> Reconstruction:
        """Weights of one before a known inverse.

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
    """Inputs, such as sinograms, and the targets that belong to them.

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
    """Samples to learn from, to choose by, and to judge with.

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


@dataclass(frozen=True, eq=False)
class Examples:
    """Images behind a linear operator with noise: inputs = forward(latents) + noise.

    Targets are `wanted(latents)`, or the latents themselves where `wanted` is None.
    """

    latents: Tensor  # (n, ...) images, or fields on a line
    forward: LinearOperator
    wanted: LinearOperator | None
    inputs: Tensor  # (n, ...) with noise
    targets: Tensor  # (n, ...)
    noise: Tensor  # (...) of an input's shape: the mean variance of the noise at each entry
    patients: tuple[str, ...] | None = None  # whose image each is; None: each of its own

    def __len__(self) -> int:
        return len(self.latents)


class Problem(ABC):
    """Something to learn. A frozen value: equal problems give equal samples.

    Abstract: `CtProblem`, `MriProblem`, `BlurProblem` and `PdeProblem` are some, and so is a
    subclass of your own, which defines `reconstruction` and `_draw`.

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
        """Samples; sample i of a pool is the same for any pool size, the test set for any seed.

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
        remedy = "give a whole number"
        start = _checks.count("seed", seed, at_least=0, at_most=2**63 - 2, remedy=remedy)
        counts = {}
        for name, number in zip(POOLS, (train, validation, test), strict=True):
            remedy = "count the samples of the pool"
            counts[name] = _checks.count(name, number, at_least=0, at_most=2**31, remedy=remedy)
        return self._draw(start, counts, device)

    @abstractmethod
    def _draw(self, seed: int, counts: Counts, device: Device) -> Pools:
        """The pools; `counts` has the number of samples by the pool's name."""

    def examples(self, *, seed: int, count: int, device: Device = None) -> Examples:
        """A few samples with the operator they come from, where that is linear.

        Parameters
        ----------
        seed : int
            Random seed.
        count : int
            How many samples; fewer where the source has no more.
        device : torch.device or str, optional
            PyTorch's default where None.

        Returns
        -------
        Examples

        Raises
        ------
        KoriskError
            If the problem is not linear in its images.
        """
        raise KoriskError(
            f"{type(self).__name__} is not linear in its images, so its curves cannot be predicted "
            "before training; run a pilot, or rehearse one network with ",
            Argument("model", ...),
        )

    def known_operators(
        self, device: Device = None
    ) -> tuple[LinearOperator, tuple[LinearOperator, ...]]:
        """What networks of the zoo know, in float32: `zoo.build(kind, *problem.known_operators())`.

        Parameters
        ----------
        device : torch.device or str, optional
            PyTorch's default where None.

        Returns
        -------
        tuple of LinearOperator and tuple of LinearOperator
            A, from images to inputs, as far as it is known, and its known inverse in the order in
            which its operators act: those of `reconstruction`, behind the weights W unless these
            are one.

        Raises
        ------
        KoriskError
            If the problem has no images behind a linear operator.
        """
        weights, tail = self.reconstruction(device)
        known = self._known_operator(device).to(torch.float32)
        front = () if bool((weights == 1).all()) else (Diagonal(weights),)
        return known, tuple(each.to(torch.float32) for each in (*front, *tail))

    def networks(
        self, kind: str, *, device: Device = None, **shape: Any
    ) -> Callable[[int], nn.Module]:
        """What builds networks of a kind that `models.networks` names, each from a random seed.

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
        """A as networks know it."""
        raise KoriskError(
            f"networks of the zoo take images behind a linear operator, got {type(self).__name__}; "
            "use CtProblem, MriProblem or BlurProblem"
        )

    def truth(self, device: Device = None) -> Reconstruction | None:
        """The true weights and operators.

        Parameters
        ----------
        device : torch.device or str, optional
            PyTorch's default where None.

        Returns
        -------
        Reconstruction or None
            None where they are not known, as behind a scanner.
        """
        return None

    @property
    def dtype(self) -> torch.dtype:
        """The precision of its samples."""
        return torch.float64

    def prepared(self, device: Device = None) -> object:
        """What all pools share; a caller keeps it so that it is not built again.

        Parameters
        ----------
        device : str or torch.device, optional
            Where it is built.

        Returns
        -------
        object
            Opaque; None where nothing is shared.
        """
        return None
