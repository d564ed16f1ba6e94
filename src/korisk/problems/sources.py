"""Where images come from: ellipses drawn at random, or files of one's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.problems.phantoms import random_ellipses
from korisk.problems.problem import POOLS, TEST_SEED

if TYPE_CHECKING:
    from korisk.images import ImageSet


class ImageSource(ABC):
    """Images for the pools of a seed; training images of N are the first N for any larger pool.

    Abstract: `EllipseSource` draws phantoms, `FileSource` reads images of one's own.

    >>> from korisk.problems import EllipseSource
    >>> pools = EllipseSource().draw(8, seed=1, counts={"train": 3, "test": 2}, device=None)
    >>> pools["train"].shape, pools["test"].shape
    (torch.Size([3, 8, 8]), torch.Size([2, 8, 8]))
    """

    @abstractmethod
    def draw(
        self, side: int, *, seed: int, counts: Mapping[str, int], device: torch.device | None
    ) -> dict[str, Tensor]:
        """(count, side, side) in float64 for each pool, by the pool's name."""

    @abstractmethod
    def examples(self, side: int, *, seed: int, count: int, device: torch.device | None) -> Tensor:
        """`count` images, (count, side, side) in float64; all there are where those are fewer."""


@dataclass(frozen=True, kw_only=True)
class EllipseSource(ImageSource):
    """`fewest` to `most` ellipses in an image: see `random_ellipses`.

    >>> from korisk.problems import EllipseSource
    >>> EllipseSource(most=2).examples(8, seed=0, count=4, device=None).shape
    torch.Size([4, 8, 8])
    """

    fewest: int = 1
    most: int = 4

    def draw(
        self, side: int, *, seed: int, counts: Mapping[str, int], device: torch.device | None
    ) -> dict[str, Tensor]:
        """Phantoms; the test set is one for all seeds."""
        return {
            name: random_ellipses(
                number,
                seed=TEST_SEED if name == "test" else seed,
                stream=name,
                fewest=self.fewest,
                most=self.most,
            ).images(side, device=device, dtype=torch.float64)
            for name, number in counts.items()
        }

    def examples(self, side: int, *, seed: int, count: int, device: torch.device | None) -> Tensor:
        """Phantoms that are in none of the pools."""
        drawn = random_ellipses(
            count, seed=seed, stream="examples", fewest=self.fewest, most=self.most
        )
        return drawn.images(side, device=device, dtype=torch.float64)


@dataclass(frozen=True, kw_only=True)
class FileSource(ImageSource):
    """Images of one's own, in units of water where they are attenuations.

    `fingerprint` is that of the images when the study was made: others are refused. Slices of one
    patient are in one pool alone; the test patients are the same for all seeds.

    `path` is a folder or a file; what the other arguments do is said in docs/reference/images.md.
    Files that cannot be read raise `KoriskError`, or are left out with `on_error="skip"`.

    >>> from pathlib import Path
    >>> import numpy as np
    >>> from korisk.problems import FileSource
    >>> Path("images").mkdir()
    >>> np.save("images/scans.npy", np.random.default_rng(0).random((10, 16, 16)))
    >>> FileSource(path="images").examples(8, seed=0, count=4, device=None).shape
    torch.Size([4, 8, 8])
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

    def read(self, side: int) -> ImageSet:
        """The images at this size, read once a process."""
        return _read(self, side)

    def draw(
        self, side: int, *, seed: int, counts: Mapping[str, int], device: torch.device | None
    ) -> dict[str, Tensor]:
        """Images of the patients that the seed puts into each pool."""
        from korisk.images import image_pools, relative

        images = self._checked(side)
        train, validation, test = (counts[name] for name in POOLS)
        chosen = image_pools(images, seed=seed, train=train, validation=validation, test=test)
        values = torch.from_numpy(relative(images)).double()
        return {name: values[getattr(chosen, name)].to(device) for name in counts}

    def examples(self, side: int, *, seed: int, count: int, device: torch.device | None) -> Tensor:
        """Images drawn without regard to pools: nothing is trained on them, or judged by them."""
        from korisk.images import relative

        values = torch.from_numpy(relative(self._checked(side))).double()
        chosen = torch.randperm(len(values), generator=torch.Generator().manual_seed(seed))
        return values[chosen[:count]].to(device)

    def _checked(self, side: int) -> ImageSet:
        images = self.read(side)
        if self.fingerprint is not None and images.fingerprint != self.fingerprint:
            raise KoriskError(
                f"{self.path}: the images are not those that the study was begun with; bring them "
                "back, or begin another study"
            )
        return images


@lru_cache(maxsize=2)
def _read(source: FileSource, side: int) -> ImageSet:
    from korisk.images import read_images
    from korisk.images import MU_WATER

    return read_images(
        source.path,
        side=side,
        pattern=source.pattern,
        patients=source.patients,
        on_error=source.on_error,
        crop=source.crop,
        resample=source.resample,
        unit=source.unit,
        mu_water=MU_WATER if source.mu_water is None else source.mu_water,
        scale=source.scale,
    )
