"""korisk: how much training data a network with known operators needs, and what each one saves."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from korisk._version import __version__
from korisk.curves.calibrate import CURVE_METHODS, Calibration, calibrate
from korisk.curves.compare import Comparison, Crossover, compare
from korisk.curves.curve import Curve
from korisk.curves.forecast import Expectation, Forecast, forecast
from korisk.curves.plan import Plan, plan
from korisk.curves.unit import UNITS, Unit
from korisk.errors import KoriskError, OutOfReachError, UnreachableError
from korisk.theory import (
    METHODS,
    BarronBound,
    Bound,
    Composition,
    Footprint,
    HasNorm,
    Known,
    Layer,
    Learned,
    Method,
    Network,
    NormBracket,
    RiskLine,
    Savings,
    TwoFactors,
    barron_bound,
    deep_risk,
    layer_risk,
    risk_line,
    sample_size,
    structural_factor,
    two_factors,
)

if TYPE_CHECKING:
    from korisk import fitting as fitting
    from korisk import networks as networks
    from korisk import operators as operators
    from korisk import problems as problems
    from korisk import studies as studies

_ROOMS = ("fitting", "networks", "operators", "problems", "studies")


def __getattr__(name: str) -> ModuleType:
    """`korisk.operators` and others without an import of their own, loaded when first asked for."""
    if name in _ROOMS:
        return import_module(f"korisk.{name}")
    raise AttributeError(f"module 'korisk' has no attribute {name!r}")


__all__ = [
    "CURVE_METHODS",
    "METHODS",
    "UNITS",
    "BarronBound",
    "Bound",
    "Calibration",
    "Comparison",
    "Composition",
    "Crossover",
    "Curve",
    "Expectation",
    "Footprint",
    "Forecast",
    "HasNorm",
    "Known",
    "KoriskError",
    "Layer",
    "Learned",
    "Method",
    "Network",
    "NormBracket",
    "OutOfReachError",
    "Plan",
    "RiskLine",
    "Savings",
    "TwoFactors",
    "Unit",
    "UnreachableError",
    "__version__",
    "barron_bound",
    "calibrate",
    "compare",
    "deep_risk",
    "forecast",
    "layer_risk",
    "plan",
    "risk_line",
    "sample_size",
    "structural_factor",
    "two_factors",
]
