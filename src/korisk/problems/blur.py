"""Deblurring: a camera with known blur and pixels of unknown gain."""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from korisk import _checks
from korisk.operators.basic import Diagonal
from korisk.operators.convolution import Convolution, gaussian_kernel
from korisk.operators.inputs import Place
from korisk.operators.linear import LinearOperator
from korisk.problems.imaging import LARGEST_DOUBLE, ImageProblem
from korisk.problems.noise import Gaussian
from korisk.problems.pde import random_gains
from korisk.problems.problem import Device, Reconstruction
from korisk.problems.sources import EllipseSource, ImageSource


@dataclass(frozen=True, kw_only=True)
class BlurProblem(ImageProblem):
    """Learn images from blurred ones, recorded by pixels of unknown gain.

    Inputs and targets are (samples, side, side).

    Parameters
    ----------
    side : int
        Pixels along an edge.
    deviation : float, default 1
        Standard deviation of the Gaussian blur in pixels, > 0.
    assumed : float, default: `deviation`
        Deviation of the known inverse. If it is wrong, an error remains that more data cannot
        remove.
    gain : float, default 0.2
        Gains are exp(uniform(-gain, gain)), one for each pixel, from 0 to 5.
    mu : float, default 0.01
        Weight of |x|^2 in the known inverse, >= 1e-12, beyond 64 pixels a side >= 1e-6.
    noise : Gaussian, optional
        White noise, relative to the root mean square of the blurred image.
    source : ImageSource, default EllipseSource()
        Source of the images.

    Notes
    -----
    y = g (h * x) + noise, with a Gaussian h and zeros beyond the edges. The gains are learned; the
    inverse behind them, `Tikhonov(Convolution(...), mu)`, is known. Detail lost to the blur and to
    `mu` is a floor of the error.

    Examples
    --------
    >>> from korisk.problems import BlurProblem
    >>> problem = BlurProblem(side=8, deviation=0.8, assumed=1.0)
    >>> problem.gains.shape, problem.reconstruction().tail[0].of.kernel.shape
    ((8, 8), torch.Size([9, 9]))
    """

    side: int
    deviation: float = 1.0
    assumed: float | None = None
    gain: float = 0.2
    mu: float = 0.01
    noise: Gaussian | None = None
    source: ImageSource = field(default_factory=EllipseSource)

    def __post_init__(self) -> None:
        _checks.count("side", self.side, "count pixels along an edge", at_least=2, at_most=4096)
        remedy = "give pixels; 1 is a mild blur"
        for name, value in (("deviation", self.deviation), ("assumed", self._assumed)):
            _checks.real(name, value, above=0, at_most=100, remedy=remedy)
        _checks.real("gain", self.gain, "0.2 gives gains from 0.82 to 1.22", at_least=0, at_most=5)
        # Smaller weights drown in the rounding of the solver.
        least = 1e-12 if self.side <= LARGEST_DOUBLE else 1e-6
        _checks.real("mu", self.mu, at_least=least, remedy="0.01 suits one per cent of noise")

    @property
    def _assumed(self) -> float:
        return self.deviation if self.assumed is None else self.assumed

    @property
    def gains(self) -> NDArray[np.float64]:
        """The gains g, (side, side)."""
        return random_gains(self.gain, self.side**2).reshape(self.side, self.side)

    def blur(self, deviation: float, device: Device = None) -> Convolution:
        """The convolution with h, without the gains.

        Parameters
        ----------
        deviation : float
            Standard deviation in pixels, > 0.
        device : torch.device or str, optional
            PyTorch's default where None.

        Returns
        -------
        Convolution
        """
        place = Place(device=device, dtype=self.dtype)
        return Convolution((self.side, self.side), gaussian_kernel(deviation), **place)

    def operator(self, device: Device = None) -> LinearOperator:
        """Images to measurements, g (h * x)."""
        blur = self.blur(self.deviation, device)
        gains = torch.from_numpy(self.gains).to(blur.device, blur.dtype)
        # Gains act behind the blur, since pixels record the blurred image.
        composed: LinearOperator = Diagonal(gains, name="pixels") @ blur
        return composed

    def reconstruction(self, device: Device = None) -> Reconstruction:
        """Unit weights, and the regularised inverse of the assumed blur."""
        return Reconstruction.unweighted(self._inverse(self.blur(self._assumed, device)))

    def _known_operator(self, device: Device) -> LinearOperator:
        return self.blur(self._assumed, device)
