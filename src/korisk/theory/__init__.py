"""The deep risk estimator: networks as data, bounds, and sample sizes from them.

Start with `network`, a chain of layers (`layer`) with norm brackets (`bracket`); `bound` evaluates
the theorem, `budget` turns a bound into sample sizes and savings, and `network_file` is the YAML
form.
"""

from korisk.theory.bound import BarronBound, Bound, barron_bound, deep_risk, layer_risk
from korisk.theory.bracket import HasNorm, NormBracket
from korisk.theory.budget import (
    RiskLine,
    Savings,
    TwoFactors,
    calibrated,
    risk_line,
    sample_size,
    savings,
    structural_factor,
    two_factors,
)
from korisk.theory.layer import Composition, Known, Layer, Learned
from korisk.theory.network import BOUNDS, BoundForm, Network

__all__ = ["Composition", "Known", "Layer", "Learned", "Network"]
__all__ += ["HasNorm", "NormBracket"]
__all__ += ["BOUNDS", "BarronBound", "Bound", "BoundForm"]
__all__ += ["barron_bound", "deep_risk", "layer_risk"]
__all__ += ["RiskLine", "calibrated", "risk_line", "sample_size"]
__all__ += ["Savings", "TwoFactors", "savings", "structural_factor", "two_factors"]
