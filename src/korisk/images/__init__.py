"""The user's own images: files of several formats, one size and value scale, split by patient.

Start with `read.read_images`. It finds the files, lets `formats` read their pages, brings each to
one unit and size (`pixels`), and returns a `patients.ImageSet`. `patients` finds the patient of
each image and splits a set into pools that share no patient.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as missing:
    from korisk.errors import MissingExtraError

    raise MissingExtraError(
        "korisk.images needs PyTorch, which is not installed; pip install 'korisk[torch]'"
    ) from missing

from korisk.images.patients import (
    ImagePools,
    ImageSet,
    Skipped,
    image_pools,
    relative,
    split_patients,
)
from korisk.images.pixels import MU_WATER
from korisk.images.read import read_images

__all__ = [
    "MU_WATER",
    "ImagePools",
    "ImageSet",
    "Skipped",
    "image_pools",
    "read_images",
    "relative",
    "split_patients",
]
