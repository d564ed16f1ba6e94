"""Inverse problems to learn: measurements, targets and metrics.

Start with `problem.py`, the base class. `ct.py`, `mri.py`, `blur.py` and `pde.py` have one problem
each; the first three share `imaging.py`. `sources.py` and `phantoms.py` provide images, `noise.py`
adds noise, and `metrics.py` compares results with targets.
"""

from korisk.errors import needed_by

with needed_by("korisk.problems", "PyTorch", "'korisk[torch]'"):
    import torch  # noqa: F401

from korisk.problems.blur import BlurProblem
from korisk.problems.ct import BEAMS, POPULATIONS, Beam, CtProblem, CtScanner, Population
from korisk.problems.metrics import METRICS, Metric, measure, measure_each
from korisk.problems.motion import HANDLED, Handled, Motion
from korisk.problems.mri import TRAJECTORIES, MriProblem, Trajectory
from korisk.problems.noise import Gaussian, Noise, Poisson, add_noise
from korisk.problems.pde import PdeProblem
from korisk.problems.phantoms import (
    Ellipses,
    random_ellipses,
    random_volumes,
    released_ellipses,
    released_surrogate_ellipses,
)
from korisk.problems.problem import Pairs, Pools, Problem, Reconstruction
from korisk.problems.sources import EllipseSource, FileSource, ImageSource
from korisk.seeds import TEST_SEED

__all__ = ["Pairs", "Pools", "Problem", "Reconstruction"]
__all__ += ["BlurProblem", "CtProblem", "MriProblem", "PdeProblem"]
__all__ += ["BEAMS", "POPULATIONS", "Beam", "CtScanner", "Population"]
__all__ += ["HANDLED", "TRAJECTORIES", "Handled", "Motion", "Trajectory"]
__all__ += ["Gaussian", "Noise", "Poisson", "add_noise"]
__all__ += ["METRICS", "Metric", "measure", "measure_each"]
__all__ += ["TEST_SEED", "EllipseSource", "FileSource", "ImageSource"]
__all__ += ["Ellipses", "random_ellipses", "random_volumes"]
__all__ += ["released_ellipses", "released_surrogate_ellipses"]
