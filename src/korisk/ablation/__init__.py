"""Measure the saving by a known operator: train a network as it is and with the layer replaced.

`replacing` finds the layer in a user's module and builds its substitute: a learned layer of the
same shapes, or an operator with a wrong geometry. `ablation` trains both networks at several sizes
and compares their curves.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from korisk.ablation.ablation import Ablation, ablate
    from korisk.ablation.replacing import Replacement, replaced, wrong_operator

__all__ = ["Ablation", "Replacement", "ablate", "replaced", "wrong_operator"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, since all of them need PyTorch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Without PyTorch, this import says what to install.
    import_module("korisk.operators")
    module = "ablation" if name in ("Ablation", "ablate") else "replacing"
    return getattr(import_module(f"{__name__}.{module}"), name)
