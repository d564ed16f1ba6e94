"""korisk: how much training data a network with known operators needs, and what each one saves."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from korisk import theory
from korisk._version import __version__
from korisk.curves.curve import Curve
from korisk.curves.unit import UNITS, Unit
from korisk.errors import KoriskError, MissingExtraError, OutOfReachError, UnreachableError
from korisk.planning.compare import Comparison, Crossover, compare
from korisk.planning.fit import FITS, Calibration, calibrate
from korisk.planning.forecast import Forecast, forecast
from korisk.planning.limits import Evidence, Limit, Longer, limit
from korisk.planning.next_size import NextSize, next_size
from korisk.planning.plan import Plan, plan
from korisk.planning.protocol import Expectation, Recommendation
from korisk.theory import *  # noqa: F403 (each of its names, see __all__)

if TYPE_CHECKING:
    from korisk import ablation as ablation
    from korisk import fitting as fitting
    from korisk import images as images
    from korisk import networks as networks
    from korisk import operators as operators
    from korisk import pilots as pilots
    from korisk import prediction as prediction
    from korisk import problems as problems
    from korisk import studies as studies
    from korisk.ablation.ablation import Ablation, ablate
    from korisk.networks.amplification import amplification
    from korisk.networks.describe.describe import describe
    from korisk.networks.describe.marks import known, learned
    from korisk.networks.describe.sets import Ball, Box
    from korisk.pilots import Pilot, Probe, pilot_sklearn, pilot_torch, run_pilot
    from korisk.prediction import Prediction, predict_dense, predict_structured, predict_study
    from korisk.prediction.rehearsal.rehearsal import Rehearsal
    from korisk.prediction.rehearsal.rehearse import rehearse

_PACKAGES: tuple[str, ...] = ("ablation", "fitting", "images", "networks", "operators")
_PACKAGES += ("pilots", "prediction", "problems", "studies")
_LAZY = {
    "ablation.ablation": ("Ablation", "ablate"),
    "networks.amplification": ("amplification",),
    "networks.describe.describe": ("describe",),
    "networks.describe.marks": ("known", "learned"),
    "networks.describe.sets": ("Ball", "Box"),
    "pilots.adapters": ("pilot_sklearn", "pilot_torch"),
    "pilots.options": ("Probe",),
    "pilots.result": ("Pilot",),
    "pilots.run": ("run_pilot",),
    "prediction.api": ("predict_dense", "predict_structured"),
    "prediction.prediction": ("Prediction",),
    "prediction.rehearsal.rehearsal": ("Rehearsal",),
    "prediction.rehearsal.rehearse": ("rehearse",),
    "prediction.study": ("predict_study",),
}
_NAMES = {name: module for module, names in _LAZY.items() for name in names}
# Names of `_NAMES` are loaded when they are first used; some of them need PyTorch.
__all__ = ["KoriskError", "OutOfReachError", "UnreachableError", "__version__"]
__all__ += theory.__all__
__all__ += ["UNITS", "Curve", "Unit"]
__all__ += ["Expectation", "Forecast", "NextSize", "Plan", "forecast", "next_size", "plan"]
__all__ += ["Evidence", "Limit", "Longer", "Recommendation", "limit"]
__all__ += ["Comparison", "Crossover", "compare"]
__all__ += ["FITS", "Calibration", "calibrate"]
__all__ += ["Pilot", "Probe", "pilot_sklearn", "pilot_torch", "run_pilot"]
__all__ += ["Prediction", "predict_dense", "predict_structured", "predict_study"]
__all__ += ["Rehearsal", "rehearse"]
__all__ += ["Ablation", "ablate"]
__all__ += ["Ball", "Box", "amplification", "describe", "known", "learned"]


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
