"""Known operators: differentiable linear maps with exact adjoints and bracketed norms.

Start with `linear.py`: `LinearOperator` and how operators are combined; `inputs.py` has what they
take, `kept.py` what they make once and keep, `opaque.py` how compilers see those that PyTorch
cannot look into, `exports.py` how other libraries use them. `basic.py` has the small ones,
`adapters.py` those of functions and other libraries, `sense.py` multi-coil MRI, `convolution.py`
blurs, `tikhonov.py` the regularised inverse and `consistency.py` the layer made of it, `norms.py`
the iterations behind `norm()`, `testing.py` the laws that every operator keeps; `ct/` has
tomography.
"""

try:
    import torch
except ModuleNotFoundError as missing:
    from korisk.errors import MissingExtraError

    raise MissingExtraError(
        "korisk.operators needs PyTorch, which is not installed; pip install 'korisk[torch]'"
    ) from missing

from korisk.operators.adapters import from_callables, from_deepinv, from_scipy
from korisk.operators.basic import Diagonal, Diffusion, Fourier, Identity, Mask, Matrix
from korisk.operators.consistency import DataConsistency
from korisk.operators.convolution import BOUNDARIES, Boundary, Convolution, gaussian_kernel
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
from korisk.operators.linear import Adjoint, Composed, LinearOperator, Scaled, Stacked, Sum, stack
from korisk.operators.sense import Sense, birdcage_sensitivities
from korisk.operators.tikhonov import Tikhonov

# So that checkpoints with a geometry among their hyperparameters load with weights_only=True.
torch.serialization.add_safe_globals([ParallelBeam, FanBeam])

__all__ = [
    "BOUNDARIES",
    "WINDOWS",
    "Adjoint",
    "Boundary",
    "Composed",
    "Convolution",
    "DataConsistency",
    "Diagonal",
    "Diffusion",
    "FanBeam",
    "Fourier",
    "Geometry",
    "Identity",
    "LinearOperator",
    "Mask",
    "Matrix",
    "ParallelBeam",
    "PixelBackprojector",
    "Projector",
    "RampFilter",
    "Scaled",
    "Sense",
    "Stacked",
    "Sum",
    "Tikhonov",
    "Window",
    "birdcage_sensitivities",
    "cosine_weights",
    "fbp",
    "fbp_weights",
    "from_callables",
    "from_deepinv",
    "from_scipy",
    "gaussian_kernel",
    "parker_weights",
    "released_fbp",
    "released_geometry",
    "released_weights",
    "stack",
]
