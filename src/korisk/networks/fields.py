"""Networks for fields on a periodic line or square, with a known solver or without one.

Both have learned weights of the sensors and the same convolutions: what differs is what they know.
"""

from functools import partial

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.networks.describe.marks import mark_known
from korisk.operators.basic import Diagonal

_DILATIONS = (1, 2, 4, 8)  # with kernels of 3 each entry sees 16 neighbours on each side
_SMALL = 0.1  # gain of the last layer: a network starts close to what is known


class FieldNet(nn.Module):
    """Map sensor readings x to a later field: v + f(v), where v = solver(weights * x)."""

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
        # Added to the first layer's bias, which thereby moves twice as far in a step.
        self.shift = nn.Parameter(torch.zeros(width, *(1 for _ in shape)))
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
        """The field at the end of the simulated time."""
        start = self.weights(x)
        v: Tensor = start if self.solver is None else self.solver(start)
        hidden = self.inner[0](v.unsqueeze(1)) + self.shift
        for layer in self.inner[1:]:
            hidden = layer(nn.functional.gelu(hidden))
        moved: Tensor = self.last(nn.functional.gelu(hidden)).squeeze(1)
        return v + moved
