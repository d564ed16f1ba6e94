"""Magnetic resonance imaging: pools of undersampled k-space and images."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from korisk import _checks
from korisk.errors import Argument, KoriskError, Message
from korisk.operators.basic import Fourier
from korisk.operators.inputs import Place
from korisk.operators.linear import LinearOperator
from korisk.operators.mri.noncartesian import Nufft, radial, spiral
from korisk.operators.mri.sense import Sense, birdcage_sensitivities
from korisk.problems.imaging import ImageProblem, Index
from korisk.problems.motion import Motion
from korisk.problems.noise import Gaussian
from korisk.problems.problem import Device, Reconstruction
from korisk.problems.sources import EllipseSource, ImageSource

Trajectory = Literal["radial", "spiral"]
TRAJECTORIES: tuple[Trajectory, ...] = ("radial", "spiral")


@dataclass(frozen=True, kw_only=True)
class MriProblem(ImageProblem):
    """Learn real images from some lines of their k-space.

    Inputs are (samples, side, side, 2), real and imaginary parts, with several coils
    (samples, coils, side, side, 2); along a trajectory (samples, lines, readout, 2), or with coils
    (samples, coils, lines, readout, 2). Targets are (samples, side, side).

    Parameters
    ----------
    side : int
        Pixels along an edge, even.
    lines : int
        Lines of k-space that are measured, of `side`; spokes of a radial trajectory, shots of a
        spiral one.
    centre : int, default: half of the lines
        Lines about the origin that are all measured; the rest are spread evenly.
    coils : int, optional
        Coils around the image, with sensitivities by `birdcage_sensitivities`; one coil of uniform
        sensitivity where None.
    mu : float, default 0.001
        Weight of |x|^2 in the known inverse behind several coils, > 0.
    trajectory : {"radial", "spiral"}, optional
        As in `korisk.operators.radial` or `spiral`; columns of a Cartesian grid where None.
    motion : Motion, optional
        Motion of the object from line to line, and what the reconstruction knows of it.
    noise : Gaussian, optional
        White noise, relative to the root mean square of the measured samples.
    source : ImageSource, default EllipseSource()
        Source of the images.

    Notes
    -----
    y = m F x with the mask m of the lines. Lines are measured together with their mirror images: a
    real image has F(-k) = conj(F(k)), so a line determines its mirror image, and measuring only one
    of the two would merely require a factor of two in the inverse. An odd number of lines leaves
    out the outermost one, which is its own mirror image.

    Several coils with known sensitivities s_c measure y_c = m F s_c x. The coils supply information
    on lines that are not measured, so the known inverse is no longer F^T but
    `Tikhonov(Sense(...), mu)`.

    Along a trajectory the known inverse is gridding: W starts as the density compensation of
    `Nufft`, and A^T follows.

    Examples
    --------
    >>> from korisk.problems import MriProblem
    >>> problem = MriProblem(side=8, lines=4)
    >>> int(problem.mask.sum()), problem.operator().acceleration
    (4, 2.0)
    >>> problem.pools(seed=1, train=2, validation=1, test=1).train.inputs.shape
    torch.Size([2, 8, 8, 2])
    """

    side: int
    lines: int
    centre: int | None = None
    coils: int | None = None
    mu: float = 1e-3
    trajectory: Trajectory | None = None
    motion: Motion | None = None
    noise: Gaussian | None = None
    source: ImageSource = field(default_factory=EllipseSource)

    def __post_init__(self) -> None:
        side = _checks.count("side", self.side, "count its pixels", at_least=4, at_most=4096)
        _checks.require(side % 2 == 0, "side", "be even", side, f"use {side + 1}")
        remedy = Message("count the lines of k-space that are measured, of ", Argument("side", ...))
        most = side if self.trajectory is None else 65536
        lines = _checks.count("lines", self.lines, at_least=1, at_most=most, remedy=remedy)
        if self.trajectory is not None:
            _checks.one_of("trajectory", self.trajectory, TRAJECTORIES)
            met, rule = self.centre is None, "be None along a trajectory"
            _checks.require(met, "centre", rule, self.centre, "leave it out")
        centre = max(1, lines // 2) if self.centre is None else self.centre
        _checks.count("centre", centre, "count lines about the origin", at_least=1, at_most=lines)
        if self.trajectory is None:
            # Rounded down to an odd number: the origin, and pairs of mirror images.
            object.__setattr__(self, "centre", centre - (centre + 1) % 2)
        if self.coils is not None:
            _checks.count("coils", self.coils, "leave it out for one", at_least=1, at_most=64)
        elif self.mu != MriProblem.mu:
            rule = f" belongs to several coils, got {self.mu} without them; give "
            raise KoriskError(Argument("mu"), rule, Argument("coils", 4), ", or leave mu out")
        _checks.real("mu", self.mu, above=0, remedy="0.001 suits coils whose squares add up to 1")

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Mask of the measured lines, (side,), with the origin at side // 2."""
        middle, centre = self.side // 2, self.centre
        assert centre is not None
        # In pairs of mirror images: `inner` ones around the origin, `outer` ones spread beyond.
        inner = (centre - 1) // 2
        outer = (self.lines - 1) // 2 - inner
        pairs = middle - 1 - inner  # beyond the centre
        steps = np.floor((np.arange(outer) + 0.5) * pairs / max(outer, 1)).astype(int)
        measured = np.zeros(self.side, dtype=bool)
        measured[middle] = True
        for distance in (*range(1, inner + 1), *(inner + 1 + steps).tolist()):
            measured[[middle - distance, middle + distance]] = True
        # Line 0 is its own mirror image and makes the number of lines even.
        measured[0] |= self.lines % 2 == 0
        return measured

    def operator(self, device: Device = None) -> LinearOperator:
        """Images to samples: F, S of several coils, or N along a trajectory, with motion."""
        rest = self._at_rest(device)
        return rest if self.motion is None else self.motion.moving(rest)

    def _known_operator(self, device: Device) -> LinearOperator:
        rest = self._at_rest(device)
        return rest if self.motion is None else self.motion.assumed(rest)

    def _at_rest(self, device: Device) -> Fourier | Sense | Nufft:
        shape, place = (self.side, self.side), Place(device=device, dtype=self.dtype)
        maps = None if self.coils is None else birdcage_sensitivities(shape, self.coils)
        if self.trajectory is not None:
            trajectory = radial(shape, spokes=self.lines)
            if self.trajectory == "spiral":
                trajectory = spiral(shape, shots=self.lines)
            return Nufft(shape, trajectory, sensitivities=maps, real=True, **place)
        if maps is None:
            return Fourier(shape, self.mask, real=True, **place)
        return Sense(shape, maps, self.mask, real=True, **place)

    def reconstruction(self, device: Device = None) -> Reconstruction:
        """Unit weights and the inverse transform, which is regularised for several coils.

        With one coil, lines that were not measured are zero; along a trajectory, the weights are
        its density compensation.
        """
        rest, known = self._at_rest(device), self._known_operator(device)
        if self.coils is not None:
            return Reconstruction.unweighted(self._inverse(known))
        if isinstance(rest, Nufft):
            # Gridding: density compensation, then the adjoint.
            return Reconstruction(rest.density(), (known.T,))
        return Reconstruction.unweighted(known.T)

    def _noisy(self) -> Index:
        """The measured lines."""
        if self.trajectory is not None:
            return ...
        return ..., torch.from_numpy(self.mask), slice(None)
