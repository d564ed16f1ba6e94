"""The paper's line through a pilot."""

import numpy as np

from korisk.curves.curve import Curve
from korisk.planning.forecast import check_curve
from korisk.theory import RiskLine


def calibrate(curve: Curve) -> RiskLine:
    """The line of `korisk.calibrate` through a pilot's mean errors, whatever its unit.

    The floor is the lowest mean, and the slope that of a regression of error - floor on log N / N
    without intercept or weights (tab:calibration).
    """
    check_curve(curve)
    curve.require(2, "a line")
    n, means = curve.sizes.astype(float), curve.means
    rate, floor = np.log(n) / n, means.min()
    return RiskLine(floor.item(), ((means - floor) @ rate / (rate @ rate)).item())
