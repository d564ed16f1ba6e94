"""Prediction of fields from sensors of unknown gain: hybrid networks around a known PDE solver."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from korisk import _checks
from korisk.networks.fields import FieldNet
from korisk.operators.basic import Diffusion
from korisk.operators.dynamics import Burgers
from korisk.operators.inputs import Place
from korisk.problems.problem import Counts, Device, Pairs, Pools, Problem, Reconstruction
from korisk.seeds import TEST_SEED, stream_key

FloatArray = NDArray[np.float64]
Equation = Literal["advection-diffusion", "burgers"]
NETWORKS = ("solver-cnn", "cnn")

_LARGEST_GAIN = 5  # exponent: gains from 1/148 to 148
_GAIN_SEED = 0  # sensors are the same for every training set
_CLIP = 4.0  # amplitudes: Burgers' u(0) is clipped there, up to which its time step is stable
_PIECE = 64  # fields that are solved at once
_DIRECTIONS = {1: ((1,),), 2: ((1, 0), (0, 1), (1, 1), (1, -1))}  # of waves, by dimension


def random_gains(gain: float, count: int) -> FloatArray:
    """Gains exp(uniform(-gain, gain)) of so many sensors, the same in every call."""
    rng = np.random.Generator(np.random.Philox(key=stream_key(_GAIN_SEED, "gains")))
    return np.exp(rng.uniform(-gain, gain, count))


@dataclass(frozen=True, kw_only=True)
class PdeProblem(Problem):
    """Learn u(t) from sensors of unknown gain that measure u(0), for a PDE of u.

    Inputs and targets are (samples, points), in the plane (samples, points, points), in float64.
    Lengths are in units of the periodic line; times and `speed` in units that agree.

    Parameters
    ----------
    equation : {"advection-diffusion", "burgers"}, default "advection-diffusion"
        u_t = nu u_xx - c u_x, or u_t + u u_x = nu u_xx; in the plane along both axes.
    dimension : int, default 1
        1, a line, or 2, a square.
    points : int, default 64
        Sensors along each axis.
    viscosity : float, default 0.01
        nu >= 0, in length^2 per time; > 0 for Burgers.
    assumed : float, default: `viscosity`
        Viscosity of the known flow. If it is wrong, an error remains that more data cannot remove.
    speed : float, default 1
        c along each axis, in length per time; not for Burgers.
    time : float, default 0.1
        t >= 0; > 0 for Burgers.
    gain : float, default 0.5
        Gains are exp(uniform(-gain, gain)), one for each sensor, from 0 to 5.
    noise : float, default 0.014
        Standard deviation of the noise at a sensor, in the unit of u, >= 0.
    amplitude : float, default 0.9
        Standard deviation of u(0) about its mean, in the unit of u, > 0.
    decay : float, default 0.5
        Wave j of u(0) has a standard deviation proportional to j^-decay, from 0 to 10.
    fine : int, default 4
        Cells per sensor, along each axis, of the grid on which the true field of Burgers is
        computed; the solver in the networks has one cell per sensor. 1 to 64.

    Notes
    -----
    Sensors show x = g (u(0) + noise). u(0) is a random series of all waves that the points resolve,
    whose variances add up to the square of `amplitude`, plus a random constant with a quarter of
    the amplitude as its standard deviation. In the plane the series is half the sum of four, along
    both axes and both diagonals. With Burgers it is clipped at 4 amplitudes, and fields are means
    over cells. The gains are learned; the flow behind them, `Diffusion` or `Burgers`, is known.

    Examples
    --------
    >>> from korisk.problems import PdeProblem
    >>> problem = PdeProblem(points=8, viscosity=0.01, assumed=0.012)
    >>> problem.gains.shape, problem.reconstruction().tail
    ((8,), (Diffusion((8) -> (8)),))
    >>> PdeProblem(equation="burgers", points=16, dimension=2).solver(0.01).steps
    15
    """

    equation: Equation = "advection-diffusion"
    dimension: int = 1
    points: int = 64
    viscosity: float = 0.01
    assumed: float | None = None
    speed: float | None = None
    time: float = 0.1
    gain: float = 0.5
    noise: float = 0.014
    amplitude: float = 0.9
    decay: float = 0.5
    fine: int = 4

    def __post_init__(self) -> None:
        _checks.one_of("equation", self.equation, get_args(Equation))
        _checks.count("dimension", self.dimension, "1 is a line, 2 a square", at_least=1, at_most=2)
        _checks.count("points", self.points, "count them on an axis", at_least=2, at_most=65536)
        _checks.real("gain", self.gain, "try 0.5", at_least=0, at_most=_LARGEST_GAIN)
        _checks.real("noise", self.noise, at_least=0, remedy="give a standard deviation")
        _checks.real("amplitude", self.amplitude, above=0, remedy="give a standard deviation")
        _checks.real("decay", self.decay, at_least=0, at_most=10, remedy="2 gives smooth fields")
        _checks.count("fine", self.fine, "try 4", at_least=1, at_most=64)
        rule, remedy = "be left out for burgers", "there the field itself is the speed"
        linear = self.equation != "burgers"
        _checks.require(linear or self.speed is None, "speed", rule, self.speed, remedy)
        # Building a solver checks its arguments.
        for viscosity in (self.viscosity, self._assumed):
            self.solver(viscosity, fine=1 if linear else self.fine)

    @property
    def _assumed(self) -> float:
        return self.viscosity if self.assumed is None else self.assumed

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a field."""
        return (self.points,) * self.dimension

    @property
    def largest(self) -> float:
        """Largest absolute value of u(0): 4 amplitudes for Burgers, else infinity."""
        return _CLIP * self.amplitude if self.equation == "burgers" else math.inf

    @property
    def gains(self) -> FloatArray:
        """Gains g of the sensors, of the shape of a field."""
        return random_gains(self.gain, self.points**self.dimension).reshape(self.shape)

    def flow(self, viscosity: float, device: Device = None) -> Diffusion:
        """The operator u(0) -> u(t) in float64; for Burgers its linear part.

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
        speed = 1.0 if self.speed is None else self.speed
        # Burgers' linear part is diffusion alone.
        speed = 0.0 if self.equation == "burgers" else speed
        return Diffusion(self.shape, viscosity=viscosity, speed=speed, time=self.time, **place)

    def solver(
        self, viscosity: float, device: Device = None, *, fine: int = 1
    ) -> Diffusion | Burgers:
        """The solver u(0) -> u(t).

        Parameters
        ----------
        viscosity : float
            nu.
        device : torch.device or str, optional
            PyTorch's default where None.
        fine : int, default 1
            Cells of Burgers per sensor, along each axis.

        Returns
        -------
        Diffusion or Burgers
        """
        if self.equation != "burgers":
            return self.flow(viscosity, device)
        cells = tuple(fine * n for n in self.shape)
        solver = Burgers(
            cells, viscosity=viscosity, time=self.time, largest=self.largest, clip=True
        )
        return solver.to(torch.get_default_device() if device is None else device)

    def networks(
        self, kind: str, *, device: Device = None, **shape: int
    ) -> Callable[[int], nn.Module]:
        """A function that builds networks with the solver or without it.

        Parameters
        ----------
        kind : {"solver-cnn", "cnn"}
            Both have learned weights of the sensors, then convolutions. "solver-cnn" has the known
            solver between them.
        device : torch.device or str, optional
            PyTorch's default where None.
        **shape
            `width` (16): channels.

        Returns
        -------
        callable
            From a seed to a network in float32.
        """
        _checks.one_of("kind", kind, NETWORKS)
        location = torch.get_default_device() if device is None else device

        def build(seed: int) -> nn.Module:
            known = self.solver(self._assumed) if kind == "solver-cnn" else None
            return FieldNet(self.shape, known, seed=seed, **shape).to(location)

        return build

    def reconstruction(self, device: Device = None) -> Reconstruction:
        """Unit weights, and the flow with the assumed viscosity; for Burgers its linear part."""
        return Reconstruction.unweighted(self.flow(self._assumed, device))

    def truth(self, device: Device = None) -> Reconstruction:
        """Inverse gains, and the flow with the true viscosity; for Burgers its linear part.

        Parameters
        ----------
        device : torch.device or str, optional
            PyTorch's default where None.

        Returns
        -------
        Reconstruction
        """
        flow = self.flow(self.viscosity, device)
        return Reconstruction(torch.from_numpy(1 / self.gains).to(flow.device), (flow,))

    def _draw(self, seed: int, counts: Counts, device: Device) -> Pools:
        """Draw measurements at time zero and fields at time t."""
        fine = self._fine
        # The truth is solved on a finer grid; otherwise the solver of the networks would be exact.
        flow = self.solver(self.viscosity, device, fine=fine)
        location = self.flow(self.viscosity, device).device
        gains = torch.from_numpy(self.gains).to(location)
        pairs = []
        for name, count in counts.items():
            key = stream_key(TEST_SEED if name == "test" else seed, f"{name} fields")
            initial, noise = self._fields(key, count, location)
            pieces = torch.split(initial, _PIECE) if count else ()  # cuFFT refuses none
            with torch.no_grad():
                final = torch.cat([flow(piece) for piece in pieces]) if count else initial
            # A sensor shows the mean over its finer cells.
            for axis in range(1, self.dimension + 1) if fine > 1 else ():
                cells = (*initial.shape[:axis], self.points, fine, *initial.shape[axis + 1 :])
                initial, final = (field.reshape(cells).mean(axis + 1) for field in (initial, final))
            pairs.append(Pairs(gains * (initial + noise), final))
        return Pools(*pairs)

    @property
    def _fine(self) -> int:
        return self.fine if self.equation == "burgers" else 1

    def _fields(
        self, key: NDArray[np.uint64], count: int, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """Fields on the finer cells and sensor noise; those of sample i depend only on i."""
        waves, cells = np.arange(1, self.points // 2 + 1), self.points * self._fine
        # Standard deviations of the waves, whose squares add up to amplitude^2.
        deviations = waves**-self.decay
        deviations *= self.amplitude / math.sqrt(float((deviations**2).sum()))
        directions = _DIRECTIONS[self.dimension]
        grid = np.indices((cells,) * self.dimension)  # (dimension, cells) or (2, cells, cells)
        fields, noise = np.empty((count, *grid.shape[1:])), np.empty((count, *self.shape))
        for sample in range(count):
            # The counter starts at the sample's number: it does not depend on how many are drawn.
            rng = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, sample]))
            field = np.full(grid.shape[1:], self.amplitude / 4 * rng.standard_normal())
            for direction in directions:
                cosine, sine = rng.standard_normal((2, len(waves))) * deviations
                # A plane wave is a function of one coordinate, the projection on its direction.
                along = np.tensordot(direction, grid, 1) % cells
                field += wave_series(cosine, sine, cells)[along] / math.sqrt(len(directions))
            fields[sample] = field.clip(-self.largest, self.largest)
            noise[sample] = self.noise * rng.standard_normal(self.shape)
        return torch.from_numpy(fields).to(device), torch.from_numpy(noise).to(device)


def wave_series(cosine: FloatArray, sine: FloatArray, points: int) -> FloatArray:
    """sum_j c_j cos(2 pi j x) + s_j sin(2 pi j x) at x = 0, 1/points, ..., by an FFT."""
    spectrum = np.concatenate([[0], (cosine - 1j * sine) * points / 2])
    if points == 2 * len(cosine):
        # At the Nyquist frequency the sine vanishes and the cosine has no mirror image.
        spectrum[-1] = cosine[-1] * points
    return np.fft.irfft(spectrum, n=points)
