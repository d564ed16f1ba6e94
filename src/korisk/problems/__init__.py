"""Problems to learn: what is measured, what is wanted, and how results are judged.

Start with `problem.py`: what every problem has. `ct.py`, `mri.py`, `blur.py` and `heat.py` have
one each, of which two share `imaging.py`; `sources.py` and `phantoms.py` make their images,
`noise.py` their noise, and `metrics.py` compares results with targets.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as missing:
    from korisk.errors import MissingExtraError

    raise MissingExtraError(
        "korisk.problems needs PyTorch, which is not installed; pip install 'korisk[torch]'"
    ) from missing

from korisk.problems.blur import BlurProblem
from korisk.problems.ct import BEAMS, POPULATIONS, Beam, CtProblem, CtScanner, Population
from korisk.problems.heat import HeatProblem
from korisk.problems.metrics import METRICS, Metric, measure, measure_each
from korisk.problems.mri import MriProblem
from korisk.problems.noise import Gaussian, Noise, Poisson, add_noise
from korisk.problems.phantoms import (
    Ellipses,
    random_ellipses,
    released_ellipses,
    released_surrogate_ellipses,
)
from korisk.problems.problem import Pairs, Pools, Problem, Reconstruction
from korisk.problems.sources import DrawnExamples, EllipseSource, FileSource, ImageSource
from korisk.seeds import TEST_SEED

__all__ = [
    "BEAMS",
    "METRICS",
    "POPULATIONS",
    "TEST_SEED",
    "Beam",
    "BlurProblem",
    "CtProblem",
    "CtScanner",
    "DrawnExamples",
    "EllipseSource",
    "Ellipses",
    "FileSource",
    "Gaussian",
    "HeatProblem",
    "ImageSource",
    "Metric",
    "MriProblem",
    "Noise",
    "Pairs",
    "Poisson",
    "Pools",
    "Population",
    "Problem",
    "Reconstruction",
    "add_noise",
    "measure",
    "measure_each",
    "random_ellipses",
    "released_ellipses",
    "released_surrogate_ellipses",
]
