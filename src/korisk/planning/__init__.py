"""From a curve to a sample size and a recommendation.

Start with `plan`, the answer for one pilot and target (its numbers are a `situation`), `recommend`,
the advice, and `compare`, for two pilots. `protocol` lists the questions that every forecast
answers. `extrapolation` continues a pilot by the posterior of `futures` (or by the line of `fit`);
a `forecast` uses it for every target; `chances` holds the table of probabilities. `limits` finds
what limits the error, `targets` which targets to show; `factors` compares the paper's two factors
with plans. `explain` formats numbers and describes pilots,
`answer` makes tables.
"""

from korisk.planning.compare import Crossover
from korisk.planning.fit import FITS, calibrate
from korisk.planning.forecast import Forecast
from korisk.planning.limits import Limit, Longer, limit
from korisk.planning.protocol import Expectation, Recommendation

__all__ = ["FITS", "calibrate"]
__all__ += ["Expectation", "Forecast", "Recommendation"]
__all__ += ["Limit", "Longer", "limit"]
__all__ += ["Crossover"]
