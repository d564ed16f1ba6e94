"""The Shepp-Logan head with the intensities of Toft, which show more contrast than the first."""

import numpy as np
from numpy.typing import NDArray

# Intensity, half axes along x and y, centre x and y, turn in degrees; the head spans [-1, 1].
ELLIPSES = (
    (1.0, 0.69, 0.92, 0.0, 0.0, 0.0),
    (-0.8, 0.6624, 0.874, 0.0, -0.0184, 0.0),
    (-0.2, 0.11, 0.31, 0.22, 0.0, -18.0),
    (-0.2, 0.16, 0.41, -0.22, 0.0, 18.0),
    (0.1, 0.21, 0.25, 0.0, 0.35, 0.0),
    (0.1, 0.046, 0.046, 0.0, 0.1, 0.0),
    (0.1, 0.046, 0.046, 0.0, -0.1, 0.0),
    (0.1, 0.046, 0.023, -0.08, -0.605, 0.0),
    (0.1, 0.023, 0.023, 0.0, -0.606, 0.0),
    (0.1, 0.023, 0.046, 0.06, -0.605, 0.0),
)


def shepp_logan(size: int) -> NDArray[np.float64]:
    """The head at the centres of size x size pixels, its top in row 0."""
    centres = (2 * np.arange(size) - (size - 1)) / size
    x, y = centres[None, :], -centres[:, None]
    image = np.zeros((size, size))
    for intensity, along_x, along_y, x0, y0, degrees in ELLIPSES:
        turn = np.deg2rad(degrees)
        u = (x - x0) * np.cos(turn) + (y - y0) * np.sin(turn)
        v = (y - y0) * np.cos(turn) - (x - x0) * np.sin(turn)
        image[(u / along_x) ** 2 + (v / along_y) ** 2 <= 1] += intensity
    return image
