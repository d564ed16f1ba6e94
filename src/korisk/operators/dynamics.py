"""Burgers: a nonlinear equation as a known layer, with a Lipschitz constant on a box of inputs.

`Diffusion` in `basic.py` is the linear equation, advection and diffusion.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, invalid
from korisk.operators.inputs import Shape, checked_shape, shape_text, traced
from korisk.operators.opaque import inside_transform
from korisk.operators.types import Lengths
from korisk.theory.bracket import NormBracket

COURANT = 0.8  # default: a cell passes on at most this share of its content in a step
_MOST_STEPS = 10**6
_ROUNDING = 1e-9  # relative; far above what float64 loses in these sums
_PASSES = 8  # of power iteration; the end is certain after any number of them
_SMALLEST = 1e-6  # of the vector's largest entry: quotients by less would be rounding


class Burgers(nn.Module):
    """u(0) -> u(t) by Burgers' equation with viscosity, on a periodic line or in a box.

    Values are means over cells. Derivatives are autograd's.

    Parameters
    ----------
    points : int or sequence of int
        Cells on the line, or along each axis of a rectangle or a box.
    viscosity : float
        nu > 0, in length^2 per time.
    time : float
        t > 0.
    largest : float
        Largest |u(0)| of an input, > 0; the steps would be too long for inputs beyond it.
    length : float, default 1
        Period along each axis, > 0.
    steps : int, optional
        Time steps. Default: as few as keep the Courant number at 0.8; it must be at most 1.
    clip : bool, default False
        Whether to clip inputs beyond `largest`, as inside a network, rather than refuse them.

    Raises
    ------
    KoriskError
        If a number is out of range, `steps` are too few, or an input has another shape or is beyond
        `largest`.

    Notes
    -----
    u_t + sum_a (u^2 / 2)_a = nu sum_a u_aa over the axes a; on a line u_t + u u_x = nu u_xx. A step
    of length tau on cells of width h, Eq. (eq:burgers-step), adds the fluxes of Engquist and Osher,
    F(a, b) = max(a, 0)^2 / 2 + min(b, 0)^2 / 2, and solves the diffusion implicitly:
    (1 - tau nu Laplace_h) u' = u - (tau / h) sum_a (F(u, u_+) - F(u_-, u)). It is of first order in
    h and tau. The Courant number is the number of axes times tau largest / h; up to 1 each step is
    monotone and keeps the sum, so no sum of absolute differences ever grows. In the Euclidean norm
    differences may grow, in shocks; `on_box` bounds by how much (docs/explanation/theory.md).

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import Burgers
    >>> flow = Burgers(8, viscosity=0.05, time=0.1, largest=2.0)
    >>> u = torch.tensor([0.0, 1.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    >>> round(float(flow(u).sum()), 4), flow.steps
    (4.0, 2)
    """

    smoothing: Tensor  # by frequency: the inverse of 1 - tau nu Laplace_h

    def __init__(
        self,
        points: Lengths,
        *,
        viscosity: float,
        time: float,
        largest: float,
        length: float = 1.0,
        steps: int | None = None,
        clip: bool = False,
    ) -> None:
        super().__init__()
        self.points: Shape = checked_shape("points", points, axes=1)
        remedy = "without viscosity there are shocks, and no constant"
        self.viscosity = _checks.real("viscosity", viscosity, above=0, remedy=remedy)
        self.time = _checks.real("time", time, above=0, remedy="the flow cannot be run backwards")
        self.largest = _checks.real("largest", largest, above=0, remedy="give the largest |u|")
        self.length = _checks.real("length", length, above=0, remedy="give the period")
        cells = [n / self.length for n in self.points]  # 1 / h along each axis
        courant = self.time * self.largest * sum(cells)  # of one step
        fewest = max(math.ceil(courant * (1 - _ROUNDING)), 1)
        chosen = max(math.ceil(courant / COURANT), 1) if steps is None else steps
        remedy = f"give at least {fewest:,} for a Courant number of at most 1, or leave it out"
        most = _MOST_STEPS
        self.steps = _checks.count("steps", chosen, at_least=fewest, at_most=most, remedy=remedy)
        self.clip = bool(clip)
        tau = self.time / self.steps
        self.ratios = [tau * per_cell for per_cell in cells]  # tau / h
        self.diffusion = [self.viscosity * tau * per_cell**2 for per_cell in cells]
        # (1 - sum_a mu_a Delta_a)^-1 in Fourier space: the second difference along an axis has the
        # eigenvalues -4 sin^2(pi j / n). The last axis is that of a real transform.
        inverse = torch.ones((), dtype=torch.float64)
        for axis, (n, share) in enumerate(zip(self.points, self.diffusion, strict=True)):
            waves = n // 2 + 1 if axis == len(self.points) - 1 else n
            angles = math.pi / n * torch.arange(waves, dtype=torch.float64)
            inverse = inverse[..., None] + 4 * share * angles.sin().square()
        self.register_buffer("smoothing", 1 / inverse, persistent=False)

    def forward(self, u: Tensor) -> Tensor:
        """u(t) for u(0).

        Parameters
        ----------
        u : Tensor, shape (..., *points)
            Means over cells, at most `largest` in size unless they are clipped.

        Returns
        -------
        Tensor, shape (..., *points)
        """
        if tuple(u.shape[-len(self.points) :]) != self.points:
            rule = f"have the shape {shape_text(self.points, batched=True)}"
            raise invalid("u", rule, u, "give means over cells", got=shape_text(tuple(u.shape)))
        if self.clip:
            u = u.clamp(-self.largest, self.largest)
        elif not traced(u) and not inside_transform():  # there no value decides
            beyond = float(u.detach().abs().max()) if u.numel() else 0.0
            if not beyond <= self.largest * (1 + 1e-6):
                rule = f"Burgers takes values of at most {self.largest:g} in size, got {beyond:.4g}"
                raise KoriskError(f"{rule}; make it with a larger largest=, or with clip=True")
        for _ in range(self.steps):
            u = self._step(u)
        return u

    def on_box(self, low: Tensor | float, high: Tensor | float) -> NormBracket:
        """A Lipschitz constant for inputs between two ends.

        Eq. (eq:burgers-energy) and Eq. (eq:burgers-collatz), whichever is smaller.
        `korisk.describe` takes that of all inputs, and
        `korisk.mark_known(flow, lipschitz=flow.on_box(low, high))` states that of yours.

        Parameters
        ----------
        low, high : Tensor, shape (..., *points), or float
            The ends, low <= high; they may be infinite. Inputs beyond `largest` are left out, or
            clipped.

        Returns
        -------
        NormBracket
            Its upper end is the constant, in the Euclidean norm.
        """
        zero = torch.zeros(self.points, dtype=torch.float64, device=self.smoothing.device)
        ends = [(zero + end).clamp(-self.largest, self.largest) for end in (low, high)]
        # Steps are monotone, so the ends of a box are mapped to ends of the next.
        boxes, energy = [], 0.0  # of states before each step; log of a constant
        for _ in range(self.steps):
            boxes.append(_Slopes(*ends))
            energy += boxes[-1].log_growth(self.ratios, self.diffusion) / 2
            ends = [self._step(end) for end in ends]  # a monotone step keeps the order
        collatz = self._collatz(boxes)
        largest = math.exp(min(energy, collatz) * (1 + _ROUNDING) + _ROUNDING)
        how = "Burgers on a box: energy" if energy < collatz else "Burgers on a box: Collatz"
        return NormBracket(0.0, largest, how=how)

    def _step(self, u: Tensor) -> Tensor:
        # The flux of Engquist and Osher, Eq. eq:burgers-step: upwind from the left where u > 0,
        # from the right where u < 0.
        rising, falling = u.clamp_min(0).square() / 2, u.clamp_max(0).square() / 2
        for axis, ratio in self._axes():
            right = rising + falling.roll(-1, axis)  # the flux F(u, u_+) through the right face
            u = u - ratio * (right - right.roll(1, axis))
        return self._smoothed(u)

    def _smoothed(self, u: Tensor) -> Tensor:
        axes = tuple(range(-len(self.points), 0))
        spectrum = torch.fft.rfftn(u, dim=axes) * self.smoothing.to(u.dtype)
        smoothed: Tensor = torch.fft.irfftn(spectrum, s=self.points, dim=axes)
        return smoothed

    def _axes(self) -> list[tuple[int, float]]:
        return [(axis - len(self.points), ratio) for axis, ratio in enumerate(self.ratios)]

    def _collatz(self, boxes: Sequence["_Slopes"]) -> float:
        """Half the log of max z / v, for v > 0 and z >= P^T P v with any slopes of the boxes."""
        v, best = torch.ones_like(boxes[0].rise[0]), math.inf
        for _ in range(_PASSES):
            z, log = v, 0.0
            for slopes in boxes:
                # Forward through the Jacobians of all steps, with the largest entry that each may
                # have.
                rise, fall = slopes.rise[1] * z, slopes.fall[1] * z
                moved = z * (1 - sum(self.ratios) * (slopes.rise[0] + slopes.fall[0]))
                for axis, ratio in self._axes():
                    moved = moved + ratio * (rise.roll(1, axis) + fall.roll(-1, axis))
                z, log = _scaled(self._smoothed(moved), log)
            for slopes in reversed(boxes):
                # Then back through their transposes: smoothing is symmetric, fluxes turn round.
                z = self._smoothed(z)
                to_right = sum(ratio * (z.roll(-1, axis) - z) for axis, ratio in self._axes())
                to_left = sum(ratio * (z.roll(1, axis) - z) for axis, ratio in self._axes())
                z = z + slopes.most(slopes.rise, to_right) + slopes.most(slopes.fall, to_left)
                z, log = _scaled(z, log)
            # Eq. eq:burgers-collatz; the best v is that of the largest eigenvalue, so z is the
            # next.
            best = min(best, (math.log(float((z / v).max())) + log) / 2)
            v = z.clamp_min(_SMALLEST)
        return best


class _Slopes:
    """Ends of max(u, 0) and max(-u, 0), the speeds to the right and to the left, on a box."""

    def __init__(self, low: Tensor, high: Tensor) -> None:
        self.rise = low.clamp_min(0), high.clamp_min(0)
        self.fall = (-high).clamp_min(0), (-low).clamp_min(0)
        self.largest = float(torch.maximum(high, -low).max())

    @staticmethod
    def most(ends: tuple[Tensor, Tensor], factor: Tensor | int) -> Tensor:
        """The largest product of a speed between the ends and a factor."""
        return torch.maximum(ends[0] * factor, ends[1] * factor)

    def log_growth(self, ratios: Sequence[float], diffusion: Sequence[float]) -> float:
        """Log of the square of a step's constant, Eq. (eq:burgers-energy)."""
        # What upwinding itself smooths, beside the viscosity.
        upwind, growth = max(1 - sum(ratios) * self.largest, 0.0), 0.0
        for axis, (ratio, share) in enumerate(zip(ratios, diffusion, strict=True)):
            face = axis - len(ratios)
            # Speeds u^+_j - u^-_{j+1} through the right face, Eq. eq:burgers-faces.
            least = float((self.rise[0] - self.fall[1].roll(-1, face)).min())
            most = float((self.rise[1] - self.fall[0].roll(-1, face)).max())
            speed, spread = ratio * max(-least, most), ratio * (most - least) / 2
            growth += min(speed**2 / (2 * share + upwind * speed), spread**2 / (2 * share))
        return math.log1p(growth)


def _scaled(z: Tensor, log: float) -> tuple[Tensor, float]:
    """z over its largest entry, raised above rounding; `log` accumulates these divisors."""
    largest = float(z.max())
    return z / largest + _ROUNDING * _SMALLEST, log + math.log(largest)
