"""Problems to learn: scanners, sensors and what they show, and how results are measured."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as missing:
    from korisk.errors import MissingExtraError

    raise MissingExtraError(
        "korisk.problems needs PyTorch, which is not installed; pip install 'korisk[torch]'"
    ) from missing

from korisk.problems.ct import (
    BEAMS,
    POPULATIONS,
    Beam,
    CtProblem,
    CtScanner,
    Population,
    draw_pools,
)
from korisk.problems.deep import DeepProblem
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
from korisk.problems.problem import TEST_SEED, Pairs, Pools, Problem, Reconstruction, Truth
from korisk.problems.sources import EllipseSource, FileSource, ImageSource

__all__ = [
    "BEAMS",
    "METRICS",
    "POPULATIONS",
    "TEST_SEED",
    "Beam",
    "CtProblem",
    "CtScanner",
    "DeepProblem",
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
    "Truth",
    "add_noise",
    "draw_pools",
    "measure",
    "measure_each",
    "random_ellipses",
    "released_ellipses",
    "released_surrogate_ellipses",
]
