"""Networks in PyTorch, and the description of any module as the theory takes it.

`known_operator` has learned weights in front of known operators, and learned convolutions behind
them too; `dense` one matrix without any operator; `zoo` U-Nets, CNNs and learned primal-dual around
them; `fields` networks for fields of an equation. `describe` turns any module into a
`korisk.Network`. Start reading with `known_operator`.
"""

from korisk.errors import needed_by

with needed_by("korisk.networks", "PyTorch", "'korisk[torch]'"):
    import torch  # noqa: F401

from korisk.networks.dense import DenseNet
from korisk.networks.known_operator import KnownOperatorNet

__all__ = ["DenseNet", "KnownOperatorNet"]
