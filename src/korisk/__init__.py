"""korisk: how much training data a network with known operators needs, and what each one saves."""

from korisk import _interrupt as _interrupt  # before the imports that take a while

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any

from korisk import curves as curves
from korisk import planning as planning
from korisk import theory as theory
from korisk._version import __version__
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, KoriskWarning, MissingExtraError
from korisk.planning.calibration import calibrate
from korisk.planning.compare import Comparison, compare
from korisk.planning.plan import Forecast, Plan, forecast, plan
from korisk.planning.recommend import Recommendation
from korisk.theory.bound import barron_bound
from korisk.theory.budget import sample_size
from korisk.theory.layer import Known, Learned
from korisk.theory.network import Network

if TYPE_CHECKING:
    from korisk import ablation as ablation
    from korisk import images as images
    from korisk import networks as networks
    from korisk import operators as operators
    from korisk import pilots as pilots
    from korisk import prediction as prediction
    from korisk import problems as problems
    from korisk import report as report
    from korisk import studies as studies
    from korisk.ablation.ablation import ablate
    from korisk.networks.amplification import amplification
    from korisk.networks.describe.describe import describe
    from korisk.networks.describe.marks import mark_known, mark_learned
    from korisk.pilots import Pilot, pilot_sklearn, pilot_torch, run_pilot
    from korisk.prediction.rehearsal.rehearsal import Rehearsal
    from korisk.prediction.rehearsal.rehearse import rehearse

# Packages for those who need more than the names below; most of them need PyTorch.
_PACKAGES: tuple[str, ...] = ("ablation", "curves", "fitting", "images", "networks", "operators")
_PACKAGES += ("pilots", "planning", "prediction", "problems", "report", "studies", "theory")
_LAZY = {
    "ablation.ablation": ("ablate",),
    "networks.amplification": ("amplification",),
    "networks.describe.describe": ("describe",),
    "networks.describe.marks": ("mark_known", "mark_learned"),
    "pilots.adapters": ("pilot_sklearn", "pilot_torch"),
    "pilots.result": ("Pilot",),
    "pilots.run": ("run_pilot",),
    "prediction.rehearsal.rehearsal": ("Rehearsal",),
    "prediction.rehearsal.rehearse": ("rehearse",),
}
_NAMES = {name: module for module, names in _LAZY.items() for name in names}
# Names of `_NAMES` are loaded when they are first used; some of them need PyTorch.
__all__ = ["KoriskError", "KoriskWarning", "__version__"]
__all__ += ["Comparison", "Curve", "Forecast", "Plan", "Recommendation"]
__all__ += ["calibrate", "compare", "forecast", "plan"]
__all__ += ["Known", "Learned", "Network", "barron_bound", "sample_size"]
__all__ += ["Pilot", "pilot_sklearn", "pilot_torch", "run_pilot"]
__all__ += ["Rehearsal", "ablate", "rehearse"]
__all__ += ["amplification", "describe", "mark_known", "mark_learned"]


def __getattr__(name: str) -> Any:
    """What needs more than the core is loaded at its first use."""
    if name in _PACKAGES:
        return import_module(f"korisk.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module 'korisk' has no attribute {name!r}")
    try:
        return getattr(import_module(f"korisk.{_NAMES[name]}"), name)
    except MissingExtraError as missing:
        message = str(missing)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        remedy = "pip install 'korisk[torch]'"
        message = f"korisk.{name} needs PyTorch, which is not installed; {remedy}"

    def refuse(*_: object, **__: object) -> None:
        raise MissingExtraError(message)

    return refuse  # so that `from korisk import *` works with the core alone


def __dir__() -> list[str]:
    """Public names and packages, and nothing else."""
    return sorted({*__all__, *_PACKAGES})
