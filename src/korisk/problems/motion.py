"""Motion of the object during a scan, and what networks know of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from korisk import _checks
from korisk.errors import KoriskError
from korisk.operators.linear import LinearOperator
from korisk.operators.motion import Moving

Handled = Literal["known", "ignored"]
HANDLED: tuple[Handled, ...] = ("known", "ignored")


@dataclass(frozen=True, kw_only=True)
class Motion:
    """An object that drifts during a scan, in equal steps from rest to a last pose.

    Parameters
    ----------
    states : int, default 4
        Poses during the scan, 2 or more.
    turn : float, default 0
        Angle of the last pose in degrees, from columns towards rows.
    shift : (float, float), default (0, 0)
        Shift of the last pose along rows and columns, in pixels.
    stretch : float, default 0
        Growth of the object at the last pose, such as 0.05 for 5%.
    handled : {"known", "ignored"}, default "known"
        Poses in the known operators of networks: the true ones, or those of an object at rest.

    Raises
    ------
    KoriskError
        If a number is outside its range, or nothing moves.

    Examples
    --------
    >>> from korisk.problems import Motion
    >>> Motion(states=3, turn=6, shift=(2, 0)).poses(2).shape
    torch.Size([3, 3])
    """

    states: int = 4
    turn: float = 0.0
    shift: tuple[float, float] = (0.0, 0.0)
    stretch: float = 0.0
    handled: Handled = "known"

    def __post_init__(self) -> None:
        states = _checks.count("states", self.states, "count the poses", at_least=2, at_most=4096)
        turn = _checks.real("turn", self.turn, "give degrees", at_least=-180, at_most=180)
        rule, remedy = "be two numbers, along rows and columns", "give pixels, such as [2, 0]"
        shift: object = self.shift
        met = isinstance(shift, Sequence | np.ndarray) and len(shift) == 2
        _checks.require(met, "shift", rule, shift, remedy)
        pixels = partial(_checks.real, "shift", remedy=remedy, at_least=-4096, at_most=4096)
        shift, remedy = tuple(map(pixels, self.shift)), "give a share such as 0.05"
        stretch = _checks.real("stretch", self.stretch, remedy, at_least=-0.9, at_most=9)
        _checks.set_fields(self, states=states, turn=turn, shift=shift, stretch=stretch)
        _checks.one_of("handled", self.handled, HANDLED)
        # A motion at rest would train the same network under another name.
        if not any((self.turn, *shift, self.stretch)):
            raise KoriskError("motion must move something, got rest; give turn, shift or stretch")

    def poses(self, axes: int) -> Tensor:
        """Poses of an image with so many axes, as `Warp` takes them; volumes move in-plane.

        Parameters
        ----------
        axes : int
            2 for an image, 3 for a volume.

        Returns
        -------
        Tensor, float64
            Rigid, or affine if the object stretches.
        """
        drift = torch.linspace(0, 1, self.states, dtype=torch.float64)
        angle = drift * math.radians(self.turn)
        shift = drift[:, None] * drift.new_tensor(self.shift)
        if not self.stretch:
            rigid = torch.zeros(self.states, axes * (axes + 1) // 2, dtype=torch.float64)
            # The last angle turns within the slice.
            rigid[:, -axes - 1], rigid[:, -2:] = angle, shift
            return rigid
        affine = torch.eye(axes, axes + 1, dtype=torch.float64).repeat(self.states, 1, 1)
        cos, sin = torch.cos(angle), torch.sin(angle)
        # `Warp` maps positions of the output to the input: rotation, growth and shift are inverted.
        inverse = torch.stack([cos, -sin, sin, cos], -1).reshape(-1, 2, 2)
        inverse = inverse / (1 + self.stretch * drift)[:, None, None]
        affine[:, -2:, -3:-1] = inverse
        affine[:, -2:, -1] = -(inverse @ shift[..., None])[..., 0]
        return affine

    def moving(self, rest: LinearOperator) -> Moving:
        """The scan of the moving object.

        Parameters
        ----------
        rest : LinearOperator
            The scan at rest, from real images.

        Returns
        -------
        Moving
        """
        return Moving(rest, self.poses(len(rest.domain)))

    def assumed(self, rest: LinearOperator) -> LinearOperator:
        """The scan as networks know it.

        Parameters
        ----------
        rest : LinearOperator
            The scan at rest, from real images.

        Returns
        -------
        LinearOperator
        """
        return rest if self.handled == "ignored" else self.moving(rest)

    def inverse(self, known: LinearOperator) -> LinearOperator:
        """The backprojection of the scan with the motion that networks assume.

        Parameters
        ----------
        known : LinearOperator
            From measurements to real images.

        Returns
        -------
        LinearOperator
        """
        inverse = self.assumed(known.T).T
        inverse.name = known.name
        return inverse
