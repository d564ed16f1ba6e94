"""Sources of images: random ellipses, or the user's files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators.inputs import Place
from korisk.problems.phantoms import Ellipses, random_ellipses
from korisk.problems.problem import POOLS, Counts
from korisk.seeds import TEST_SEED

if TYPE_CHECKING:
    from korisk.images import ImageSet

Where = torch.device | None  # device of the images; None: PyTorch's default


class ImageSource(ABC):
    """Images for the pools of a seed; the first N training images are the same for any pool size.

    Abstract: `EllipseSource` draws phantoms, `FileSource` reads images of your own.

    Examples
    --------
    >>> from korisk.problems import EllipseSource
    >>> pools = EllipseSource().draw(8, seed=1, counts={"train": 3, "test": 2}, device=None)
    >>> pools["train"].shape, pools["test"].shape
    (torch.Size([3, 8, 8]), torch.Size([2, 8, 8]))
    """

    @abstractmethod
    def draw(self, side: int, *, seed: int, counts: Counts, device: Where) -> dict[str, Tensor]:
        """Images for each pool, by the pool's name.

        Parameters
        ----------
        side : int
            Pixels along an edge.
        seed : int
            Random seed.
        counts : mapping of str to int
            Samples of each pool.
        device : torch.device or None
            PyTorch's default where None.

        Returns
        -------
        dict of str to Tensor, shape (count, side, side), float64
        """


@dataclass(frozen=True, kw_only=True)
class EllipseSource(ImageSource):
    """Images of random ellipses, see `random_ellipses`.

    Parameters
    ----------
    fewest, most : int, default 1 and 4
        Ellipses of an image.

    Examples
    --------
    >>> from korisk.problems import EllipseSource
    >>> EllipseSource(most=2).draw(8, seed=0, counts={"train": 4}, device=None)["train"].shape
    torch.Size([4, 8, 8])
    """

    fewest: int = 1
    most: int = 4

    def phantoms(self, seed: int, counts: Counts) -> dict[str, Ellipses]:
        """Draw the phantoms of each pool; the test set is the same for all seeds.

        Parameters
        ----------
        seed : int
            Of the training and validation phantoms.
        counts : mapping of str to int
            Pool sizes by name: "train", "validation", "test".

        Returns
        -------
        dict of str to Ellipses
            By the pool's name.
        """
        # One test set for all seeds: their errors then differ only by training.
        seeds = {name: TEST_SEED if name == "test" else seed for name in counts}
        draw = partial(random_ellipses, fewest=self.fewest, most=self.most)
        return {name: draw(n, seed=seeds[name], stream=name) for name, n in counts.items()}

    def draw(self, side: int, *, seed: int, counts: Counts, device: Where) -> dict[str, Tensor]:
        """The images of `phantoms`."""
        place = Place(device=device, dtype=torch.float64)
        pools = self.phantoms(seed, counts)
        return {name: phantoms.images(side, **place) for name, phantoms in pools.items()}


@dataclass(frozen=True, kw_only=True)
class FileSource(ImageSource):
    """Images of your own, relative to water where they are attenuations.

    Images of one patient are in one pool alone; the test patients are the same for all seeds.

    Parameters
    ----------
    path : str
        A folder or a file.
    fingerprint : str, optional
        Of the images when the study was made; other images are refused.
    pattern : str, optional
        Of file names, such as "*.dcm".
    patients : str, default "auto"
        Rule for the patient of an image; see docs/reference/images.md.
    on_error : {"stop", "skip"}, default "stop"
        Refuse a file that cannot be read, or leave it out.
    crop : {"square", "pad"}, default "square"
        Keep the middle, or add zeros.
    resample : {"area", "spline"}, default "area"
        Method of resampling to one size.
    unit : {"HU", "1/mm", "1/cm", "1/m", "plain"}, optional
        Of files that do not state theirs.
    mu_water : float, optional
        Attenuation of water in 1/mm.
    scale : float, optional
        The plain value that becomes 1.
    blank : {"skip", "keep"}, optional
        Whether (nearly) constant images are left out or kept. Default: examples are drawn without
        them, pools with them.

    Raises
    ------
    KoriskError
        If a file cannot be read; with on_error="skip" it is left out.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from korisk.problems import FileSource
    >>> Path("images").mkdir()
    >>> np.save("images/scans.npy", np.random.default_rng(0).random((10, 16, 16)))
    >>> images, patients = FileSource(path="images").examples(8, seed=0, count=4)
    >>> images.shape, patients
    (torch.Size([4, 8, 8]), ('.', '.', '.', '.'))
    """

    path: str
    fingerprint: str | None = None
    pattern: str | None = None
    patients: str = "auto"
    on_error: Literal["stop", "skip"] = "stop"
    crop: Literal["square", "pad"] = "square"
    resample: Literal["area", "spline"] = "area"
    unit: Literal["HU", "1/mm", "1/cm", "1/m", "plain"] | None = None
    mu_water: float | None = None
    scale: float | None = None
    blank: Literal["skip", "keep"] | None = None

    def read(self, side: int) -> ImageSet:
        """Read the images at this size; the last two results are cached.

        Parameters
        ----------
        side : int
            Pixels.

        Returns
        -------
        ImageSet
            All images of the path.
        """
        return _read(self, side)

    def usable(self, side: int) -> ImageSet:
        """Images that examples are drawn from: all but blank ones, unless those are kept.

        Parameters
        ----------
        side : int
            Pixels.

        Returns
        -------
        ImageSet
            Images that were left out are in `skipped`.
        """
        images = self._checked(side)
        return images if self.blank == "keep" else images.without_blank()

    def draw(self, side: int, *, seed: int, counts: Counts, device: Where) -> dict[str, Tensor]:
        """Images of the patients that the seed assigns to each pool."""
        from korisk.images import image_pools, relative

        images = self._checked(side)
        sizes = {name: counts.get(name, 0) for name in POOLS}
        pools = image_pools(images, seed=seed, **sizes)
        values = torch.from_numpy(relative(images)).double()
        place = torch.get_default_device() if device is None else device
        return {name: values[getattr(pools, name)].to(place) for name in counts}

    def examples(self, side: int, *, seed: int, count: int) -> tuple[Tensor, tuple[str, ...]]:
        """Draw images from all pools, since examples are neither trained on nor tested with.

        Patients take turns, so that there are as many of them as possible. Blank images are left
        out unless `blank` is "keep".

        Parameters
        ----------
        side : int
            Pixels along an edge.
        seed : int
            Random seed.
        count : int
            Number of images; all of them if there are fewer.

        Returns
        -------
        tuple of Tensor and tuple of str
            Images (count, side, side) in float64 on the CPU, and the patient of each.
        """
        from korisk.images import relative

        images = self.usable(side)
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed)).numpy()
        counts: Counter[str] = Counter()
        turns = []  # how many images of the same patient come before
        for index in order:
            turns.append(counts[images.patients[index]])
            counts[images.patients[index]] += 1
        # Stable: first images of all patients in random order, then their second ones, and so on.
        selection = images[order[np.argsort(turns, kind="stable")][:count]]
        return torch.from_numpy(relative(selection)).double(), selection.patients

    def _checked(self, side: int) -> ImageSet:
        images = self.read(side)
        # Results of other images must not be added to the study.
        if self.fingerprint is not None and images.fingerprint != self.fingerprint:
            changed = "the images have changed since the study was made"
            raise KoriskError(f"{self.path}: {changed}; restore them, or make another study")
        return images


@lru_cache(maxsize=2)
def _read(source: FileSource, side: int) -> ImageSet:
    from korisk.images import read_images

    ours = "path", "fingerprint", "blank"  # of this class, not of `read_images`
    options = {k: value for k, value in vars(source).items() if value is not None and k not in ours}
    images = read_images(source.path, side=side, **options)
    return images.without_blank() if source.blank == "skip" else images
