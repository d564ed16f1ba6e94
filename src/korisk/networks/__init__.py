"""Networks: known operators with learned weights in front, and the dense map without any."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as missing:
    from korisk.errors import MissingExtraError

    raise MissingExtraError(
        "korisk.networks needs PyTorch, which is not installed; pip install 'korisk[torch]'"
    ) from missing

from korisk.networks.dense import DenseNet
from korisk.networks.known_operator import KnownOperatorNet

__all__ = ["DenseNet", "KnownOperatorNet"]
