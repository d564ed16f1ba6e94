"""Networks for fields on a periodic line or square, with a known solver, or with a penalty.

All have learned weights of the sensors and the same convolutions: what differs is what they know.
"""

from functools import partial

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.networks.describe.marks import mark_known
from korisk.operators.basic import Diagonal

_DILATIONS = (1, 2, 4, 8)  # with kernels of 3 each entry sees 16 neighbours on each side
_SMALL = 0.1  # gain of the last layer: a network starts close to what is known
_TIMES = 4  # at which a penalty compares a network with the equation


class FieldNet(nn.Module):
    """Map sensor readings x to a later field: v + f(v), where v = solver(weights * x).

    Parameters
    ----------
    shape : tuple of int
        Shape of a field: one axis or two, of at least 8 entries.
    solver : torch.nn.Module, optional
        The known layer S after the weights. Default: none, v = weights * x.
    width : int, default 16
        Channels of the convolutions f.
    seed : int, default 0
        Random seed of their initial weights.

    Raises
    ------
    KoriskError
        If a number is outside its range.

    Examples
    --------
    >>> import torch
    >>> import korisk as kr
    >>> from korisk.networks.fields import FieldNet
    >>> from korisk.operators import Burgers
    >>> net = FieldNet((16,), Burgers(16, viscosity=0.1, time=0.1, largest=2.0, clip=True))
    >>> kr.describe(net, torch.zeros(1, 16), inputs=kr.Box(-0.1, 0.1)).names[:2]
    ('W', 'S')
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        solver: nn.Module | None = None,
        *,
        width: int = 16,
        seed: int = 0,
    ) -> None:
        super().__init__()
        _checks.count("width", width, at_least=1, at_most=4096, remedy="try 16")
        rule = "be one axis or two of 8 entries at least"
        _checks.require(len(shape) in (1, 2) and min(shape) >= 8, "shape", rule, shape)
        self.weights = Diagonal(torch.ones(shape, dtype=torch.float32), trainable=True)
        self.solver = None if solver is None else mark_known(solver.float(), name="S")
        kind = nn.Conv1d if len(shape) == 1 else nn.Conv2d
        self.clock = nn.Parameter(torch.zeros(width, *(1 for _ in shape)))  # by the share of time
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            # Fields are periodic: kernels of 3 entries wrap around.
            circular = partial(kind, kernel_size=3, padding_mode="circular")
            channels = [1, *[width] * (len(_DILATIONS) - 1)]
            pairs = zip(channels, _DILATIONS, strict=True)
            self.inner = nn.ModuleList(circular(n, width, padding=d, dilation=d) for n, d in pairs)
            self.last = circular(width, 1, padding=1)
        with torch.no_grad():
            self.last.weight.mul_(_SMALL)
            assert self.last.bias is not None  # convolutions have one unless told otherwise
            self.last.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """The field at the end of the simulated time.

        Parameters
        ----------
        x : Tensor, shape (batch, *shape)
            Sensor readings of the field at time 0.

        Returns
        -------
        Tensor, shape (batch, *shape)
        """
        return self.later(self.weights(x), 1.0)

    def later(self, start: Tensor, share: Tensor | float) -> Tensor:
        """The field after a fraction of the simulated time.

        Parameters
        ----------
        start : Tensor, shape (batch, *shape)
            Sensor readings times the learned weights. Without a solver, the field at time 0.
        share : float or Tensor, shape (batch, 1, ...)
            Fraction of the simulated time, 0 to 1. A network with a solver takes only 1.

        Returns
        -------
        Tensor, shape (batch, *shape)
        """
        v: Tensor = start if self.solver is None else self.solver(start)
        hidden = self.inner[0](v.unsqueeze(1))
        clock = self.clock if isinstance(share, float) else share.unsqueeze(1) * self.clock
        hidden = hidden + clock
        for layer in self.inner[1:]:
            hidden = layer(nn.functional.gelu(hidden))
        moved: Tensor = self.last(nn.functional.gelu(hidden)).squeeze(1)
        return v + moved if isinstance(share, float) else v + share * moved


class SoftPinn(FieldNet):
    """A `FieldNet` without a solver that learns the equation by a penalty.

    Parameters
    ----------
    shape, width, seed
        As for `FieldNet`.
    step : torch.nn.Module
        The field a short time later, by the equation.
    share : float
        That time over the whole.
    penalty : float, default 0.1
        Weight of the mean square of (u(s + share) - step(u(s))) / share, at four s from 0 to 1.

    Notes
    -----
    The network at other times than the last, `later`, is trained by the penalty alone.

    Examples
    --------
    >>> import torch
    >>> from korisk.networks.fields import SoftPinn
    >>> from korisk.operators import Diffusion
    >>> net = SoftPinn((16,), Diffusion(16, viscosity=0.01, time=0.01), 0.1)
    >>> bool(net.penalty(torch.ones(2, 16)) >= 0)
    True
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        step: nn.Module,
        share: float,
        *,
        width: int = 16,
        seed: int = 0,
        penalty: float = 0.1,
    ) -> None:
        super().__init__(shape, width=width, seed=seed)
        self.equation, self.share = mark_known(step.float(), name="equation"), share
        self.weight = _checks.real("penalty", penalty, above=0, remedy="try 0.1")

    def penalty(self, x: Tensor) -> Tensor:
        """What a batch adds to the loss.

        Parameters
        ----------
        x : Tensor, shape (batch, *shape)
            What sensors show.

        Returns
        -------
        Tensor
            A number.
        """
        start = self.weights(x).repeat(_TIMES, *(1 for _ in x.shape[1:]))
        shares = torch.linspace(0, 1 - self.share, _TIMES, device=x.device)
        shares = shares.repeat_interleave(len(x)).reshape(-1, *(1 for _ in x.shape[1:]))
        now, later = self.later(start, shares), self.later(start, shares + self.share)
        residual: Tensor = (later - self.equation(now)) / self.share
        return self.weight * residual.square().mean()
