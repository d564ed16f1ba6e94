"""Known operators: differentiable linear maps with exact adjoints and bracketed norms.

Start with `linear.py`: `LinearOperator`, and sums and compositions of operators. `norms.py` has the
iterations behind `norm()`, `opaque.py` makes operators differentiable and visible to compilers
without PyTorch's autograd, and `testing.py` checks the laws that every operator obeys. Layers that
are not linear: `consistency.py` (data consistency) and `dynamics.py` (Burgers' equation).
"""

from korisk.errors import needed_by

with needed_by("korisk.operators", "PyTorch", "'korisk[torch]'"):
    import torch

from korisk.operators.adapters import from_callables, from_deepinv, from_scipy
from korisk.operators.basic import Diagonal, Diffusion, Fourier, Identity, Mask, Matrix
from korisk.operators.consistency import DataConsistency
from korisk.operators.convolution import BOUNDARIES, Boundary, Convolution, gaussian_kernel
from korisk.operators.ct.cone import ConeBeam
from korisk.operators.ct.fbp import (
    cosine_weights,
    fbp,
    fbp_weights,
    parker_weights,
    released_fbp,
    released_geometry,
    released_weights,
)
from korisk.operators.ct.filter import WINDOWS, RampFilter, Window
from korisk.operators.ct.geometry import FanBeam, Geometry, ParallelBeam
from korisk.operators.ct.projector import PixelBackprojector, Projector
from korisk.operators.dynamics import Burgers
from korisk.operators.linear import Adjoint, Composed, LinearOperator, Scaled, Stacked, Sum, stack
from korisk.operators.motion import Moving, Warp
from korisk.operators.mri.noncartesian import Nufft, radial, spiral
from korisk.operators.mri.sense import Sense, birdcage_sensitivities
from korisk.operators.tikhonov import Tikhonov

# So that checkpoints with a geometry among their hyperparameters load with weights_only=True.
torch.serialization.add_safe_globals([ParallelBeam, FanBeam, ConeBeam])

__all__ = ["Adjoint", "Composed", "LinearOperator", "Scaled", "Stacked", "Sum", "stack"]
__all__ += ["from_callables", "from_deepinv", "from_scipy"]
__all__ += ["Diagonal", "Diffusion", "Fourier", "Identity", "Mask", "Matrix"]
__all__ += ["BOUNDARIES", "Boundary", "Convolution", "gaussian_kernel"]
__all__ += ["Moving", "Warp"]
__all__ += ["Nufft", "radial", "spiral"]
__all__ += ["Sense", "birdcage_sensitivities"]
__all__ += ["Burgers", "DataConsistency", "Tikhonov"]
__all__ += ["ConeBeam", "FanBeam", "Geometry", "ParallelBeam"]
__all__ += ["WINDOWS", "PixelBackprojector", "Projector", "RampFilter", "Window"]
__all__ += ["cosine_weights", "fbp", "fbp_weights", "parker_weights"]
__all__ += ["released_fbp", "released_geometry", "released_weights"]
