"""The deep risk estimator: networks as data, bounds, and sample sizes from them."""

from korisk.theory.amplification import BOUNDS, BoundForm
from korisk.theory.bound import BarronBound, Bound, barron_bound, deep_risk, layer_risk
from korisk.theory.bracket import HasNorm, NormBracket
from korisk.theory.budget import (
    RiskLine,
    TwoFactors,
    risk_line,
    sample_size,
    structural_factor,
    two_factors,
)
from korisk.theory.footprint import Footprint
from korisk.theory.layer import Known, Layer, Learned
from korisk.theory.network import Composition, Network
from korisk.theory.savings import Savings

__all__ = [
    "BOUNDS",
    "BarronBound",
    "Bound",
    "BoundForm",
    "Composition",
    "Footprint",
    "HasNorm",
    "Known",
    "Layer",
    "Learned",
    "Network",
    "NormBracket",
    "RiskLine",
    "Savings",
    "TwoFactors",
    "barron_bound",
    "deep_risk",
    "layer_risk",
    "risk_line",
    "sample_size",
    "structural_factor",
    "two_factors",
]
