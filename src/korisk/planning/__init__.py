"""From a curve to a sample size and a recommendation.

Start with `plan`, the answer for one pilot and target (its numbers are a `situation`), `recommend`,
the advice, and `compare`, for two pilots. `protocol` lists the questions that every forecast
answers. `extrapolation` continues a pilot by the posterior of `futures` (or by one curve of `fit`);
a `forecast` uses it for every target; `chances` holds the table of probabilities. `limits` finds
what limits the error, `next_size` where to measure next, `targets` which targets to show; `factors`
compares the paper's two factors with plans. `explain` formats numbers and describes pilots,
`answer` makes tables.
"""

from korisk.planning.compare import Crossover
from korisk.planning.fit import FITS, Calibration, calibrate
from korisk.planning.forecast import Forecast
from korisk.planning.limits import Evidence, Limit, Longer, limit
from korisk.planning.next_size import NextSize
from korisk.planning.protocol import Expectation, Recommendation

__all__ = ["FITS", "Calibration", "calibrate"]
__all__ += ["Expectation", "Forecast", "NextSize", "Recommendation"]
__all__ += ["Evidence", "Limit", "Longer", "limit"]
__all__ += ["Crossover"]
