"""Users' images: read from several formats, converted to one size and unit, split by patient.

Start with `read.read_images`. It finds the files, reads their pages (`formats`), converts them to
one unit and size (`pixels`), and returns a `patients.ImageSet`. `patients` identifies the patient
of each image and splits a set into pools that share no patient.
"""

from korisk.errors import needed_by

with needed_by("korisk.images", "PyTorch", "'korisk[torch]'"):
    import torch  # noqa: F401

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

__all__ = ["MU_WATER", "ImagePools", "ImageSet", "Skipped"]
__all__ += ["image_pools", "read_images", "relative", "split_patients"]
