"""From a curve to a sample size and a recommendation.

Start with `plan`, the answer for one target, and `compare`, for two models. A `forecast` is the law
of the error at every N, from a pilot (measured means inside it, `futures` beyond) or a rehearsal;
`recommend` tabulates the probability that a target is met by N, reads all numbers off it and
decides what to do; `words` has every sentence about it. `pilot` says what is odd about a pilot and
what limits its error, `targets` which targets to show, and `calibration` is the paper's recipe.
"""

from korisk.planning.calibration import Calibration, calibrate
from korisk.planning.compare import Crossover
from korisk.planning.forecast import Expectation
from korisk.planning.pilot import Limit, Longer, limit
from korisk.planning.plan import Forecast
from korisk.planning.recommend import Recommendation

__all__ = ["Calibration", "calibrate"]
__all__ += ["Expectation", "Forecast", "Recommendation"]
__all__ += ["Limit", "Longer", "limit"]
__all__ += ["Crossover"]
