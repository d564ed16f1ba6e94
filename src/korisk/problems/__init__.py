"""Problems to learn: scanners, phantoms and their sinograms, and how results are measured."""

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
    TEST_SEED,
    Beam,
    CtScanner,
    Pairs,
    Pools,
    Population,
    Reconstruction,
    draw_pools,
)
from korisk.problems.metrics import METRICS, Metric, measure, measure_each
from korisk.problems.noise import Gaussian, Noise, Poisson, add_noise
from korisk.problems.phantoms import (
    Ellipses,
    random_ellipses,
    released_ellipses,
    released_surrogate_ellipses,
)

__all__ = [
    "BEAMS",
    "METRICS",
    "POPULATIONS",
    "TEST_SEED",
    "Beam",
    "CtScanner",
    "Ellipses",
    "Gaussian",
    "Metric",
    "Noise",
    "Pairs",
    "Poisson",
    "Pools",
    "Population",
    "Reconstruction",
    "add_noise",
    "draw_pools",
    "measure",
    "measure_each",
    "random_ellipses",
    "released_ellipses",
    "released_surrogate_ellipses",
]
