"""Advection and diffusion behind sensors of unknown gain: a hybrid PINN in its simplest form."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk import _checks
from korisk.operators.basic import Diagonal, Diffusion
from korisk.operators.inputs import Place
from korisk.problems.problem import Counts, Device, Examples, Pairs, Pools, Problem, Reconstruction
from korisk.seeds import TEST_SEED, stream_key

FloatArray = NDArray[np.float64]

_LARGEST_GAIN = 5
_GAIN_SEED = 0  # sensors are the same for every training set


def random_gains(gain: float, count: int) -> FloatArray:
    """Gains exp(uniform(-gain, gain)) of so many sensors, the same at every call."""
    rng = np.random.Generator(np.random.Philox(key=stream_key(_GAIN_SEED, "gains")))
    return np.exp(rng.uniform(-gain, gain, count))


@dataclass(frozen=True, kw_only=True)
class HeatProblem(Problem):
    """Learn u(t) from sensors of unknown gain that show u(0), for u_t = nu u_xx - c u_x.

    Inputs and targets are (samples, points), in float64. Lengths are in units of the periodic
    line; times and `speed` in units that agree.

    Parameters
    ----------
    points : int, default 64
        Sensors on the line.
    viscosity : float, default 0.01
        nu, >= 0.
    assumed : float, default: `viscosity`
        The viscosity that the known flow assumes. If it is wrong, the network keeps an error that
        no data removes.
    speed : float, default 1
        c.
    time : float, default 0.1
        t, >= 0.
    gain : float, default 0.5
        Gains are exp(uniform(-gain, gain)), one for each sensor, from 0 to 5.
    noise : float, default 0.014
        Standard deviation at a sensor, >= 0.
    amplitude : float, default 0.9
        Size of u(0), > 0.

    Notes
    -----
    Sensors show x = g (u(0) + noise). u(0) is a random series of all waves that the points resolve,
    wave j with a standard deviation proportional to j^(-1/2), scaled so that the squares of all of
    them add up to the square of `amplitude`, and a mean of a quarter of the amplitude. The gains
    are learned; the flow behind them, `Diffusion`, is known.

    Examples
    --------
    >>> from korisk.problems import HeatProblem
    >>> problem = HeatProblem(points=8, viscosity=0.01, assumed=0.012)
    >>> problem.gains.shape, problem.reconstruction().tail
    ((8,), (Diffusion((8) -> (8)),))
    """

    points: int = 64
    viscosity: float = 0.01
    assumed: float | None = None
    speed: float = 1.0
    time: float = 0.1
    gain: float = 0.5
    noise: float = 0.014
    amplitude: float = 0.9

    def __post_init__(self) -> None:
        remedy = "count the sensors"
        _checks.count("points", self.points, at_least=2, at_most=65536, remedy=remedy)
        # Diffusion checks what is its own.
        Diffusion(2, viscosity=self.viscosity, speed=self.speed, time=self.time)
        Diffusion(2, viscosity=self._assumed, time=self.time)
        remedy = "0.5 gives gains from 0.61 to 1.65"
        _checks.real("gain", self.gain, at_least=0, at_most=_LARGEST_GAIN, remedy=remedy)
        _checks.real("noise", self.noise, at_least=0, remedy="give a standard deviation")
        _checks.real("amplitude", self.amplitude, above=0, remedy="give a standard deviation")

    @property
    def _assumed(self) -> float:
        return self.viscosity if self.assumed is None else self.assumed

    @property
    def gains(self) -> FloatArray:
        """g, (points,)."""
        return random_gains(self.gain, self.points)

    def flow(self, viscosity: float, device: Device = None) -> Diffusion:
        """u(0) to u(t), in float64.

        Parameters
        ----------
        viscosity : float
            nu, >= 0.
        device : torch.device or str, optional
            PyTorch's default where None.

        Returns
        -------
        Diffusion
        """
        place = Place(device=device, dtype=torch.float64)
        speed, time = self.speed, self.time
        return Diffusion(self.points, viscosity=viscosity, speed=speed, time=time, **place)

    def reconstruction(self, device: Device = None) -> Reconstruction:
        """Weights of one, and the flow with the assumed viscosity."""
        return Reconstruction.unweighted(self.flow(self._assumed, device))

    def truth(self, device: Device = None) -> Reconstruction:
        """One over the gains, and the flow with the true viscosity."""
        flow = self.flow(self.viscosity, device)
        return Reconstruction(torch.from_numpy(1 / self.gains).to(flow.device), (flow,))

    def examples(self, *, seed: int, count: int, device: Device = None) -> Examples:
        """Fields at time zero, what sensors show of them, and the fields at time t."""
        flow = self.flow(self.viscosity, device)
        gains = torch.from_numpy(self.gains).to(flow.device)
        start, noise = self._fields(stream_key(seed, "example fields"), count, flow.device)
        variance = (self.noise * gains) ** 2
        sensors = Diagonal(gains, name="sensors")
        return Examples(start, sensors, flow, gains * (start + noise), flow(start), variance)

    def _draw(self, seed: int, counts: Counts, device: Device) -> Pools:
        """What sensors show, and the field at time t."""
        flow = self.flow(self.viscosity, device)
        gains = torch.from_numpy(self.gains).to(flow.device)
        pairs = []
        for name, count in counts.items():
            key = stream_key(TEST_SEED if name == "test" else seed, f"{name} fields")
            start, noise = self._fields(key, count, flow.device)
            pairs.append(Pairs(gains * (start + noise), flow(start)))
        return Pools(*pairs)

    def _fields(
        self, key: NDArray[np.uint64], count: int, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """Fields and sensor noise, (count, points) each; those of sample i depend on i alone."""
        waves = np.arange(1, self.points // 2 + 1)
        sizes = self.amplitude * waves**-0.5 / math.sqrt(float((1 / waves).sum()))
        start, noise = np.empty((count, self.points)), np.empty((count, self.points))
        for at in range(count):
            rng = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, at]))
            mean = self.amplitude / 4 * rng.standard_normal()
            cosine, sine = rng.standard_normal((2, len(waves))) * sizes
            start[at] = mean + wave_series(cosine, sine, self.points)
            noise[at] = self.noise * rng.standard_normal(self.points)
        return torch.from_numpy(start).to(device), torch.from_numpy(noise).to(device)


def wave_series(cosine: FloatArray, sine: FloatArray, points: int) -> FloatArray:
    """sum_j c_j cos(2 pi j x) + s_j sin(2 pi j x) at x = 0, 1/points, ..., by a transform."""
    spectrum = np.concatenate([[0], (cosine - 1j * sine) * points / 2])
    if points % 2 == 0:  # of the last wave the points see the cosine alone, and see it whole
        spectrum[-1] = cosine[-1] * points
    return np.fft.irfft(spectrum, n=points)
