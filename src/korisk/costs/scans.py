"""A scanner as far as its costs go: rays, pixels, and entries of its projectors; NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

_LARGEST_DENSE = 2**24  # entries of an inverse that a cell keeps as a matrix
_SOURCE_TO_DETECTOR, _BIN_AT_CENTRE = 1500.0, 2 / 3  # millimetres, of the fan
_SHADOWS = 500  # ellipses in a sample
_GRID = 96  # positions along each axis, and angles, over which shares are averaged


@dataclass(frozen=True)
class Scan:
    """Side, views, bins and beam of a point, and what follows from them."""

    side: int
    views: int
    bins: int
    beam: str

    @classmethod
    def of(cls, problem: Mapping[str, Any]) -> Scan:
        """The scan of a point's `problem`."""
        return cls(*(problem[name] for name in ("side", "views", "bins", "beam")))

    @property
    def rays(self) -> int:
        """Entries of a sinogram, and weights of the known-operator network."""
        return self.views * self.bins

    @property
    def pixels(self) -> int:
        """Entries of an image."""
        return self.side**2

    @property
    def itemsize(self) -> int:
        """Bytes of a number: the surrogate is computed in float64, all else in float32."""
        return 8 if self.beam == "surrogate" else 4

    @property
    def joseph(self) -> bool:
        """Whether rays are Joseph's."""
        return self.beam in ("fan", "parallel")

    @property
    def adjoint(self) -> bool:
        """Whether the known network ends in the adjoint of its projector."""
        return self.beam == "parallel"

    @property
    def dense_tail(self) -> bool:
        """Whether the known operators are kept as one matrix."""
        return self.beam == "surrogate" and self.rays * self.pixels <= _LARGEST_DENSE

    @property
    def tikhonov(self) -> bool:
        """Whether they are a regularised inverse that is too large for that."""
        return self.beam == "surrogate" and not self.dense_tail

    @property
    def _cover(self) -> float:
        """The detector's width over the image's, in the plane of the centre."""
        return self.bins / self.side if self.beam == "parallel" else 1.0

    @property
    def projector_listed(self) -> float:
        """Entries that are listed for the projector, those outside the image among them."""
        if self.beam == "surrogate":
            return float(self.views * 4 * self.pixels)
        points = 4 * 2 * self.side if self.beam == "released" else 2 * self.side
        return float(self.rays * points)

    @property
    def projector_entries(self) -> float:
        """Entries of the projector, about."""
        if self.beam == "surrogate":
            return self.projector_listed * _rotated_share()
        if self.beam == "released":
            # Points are spread from source to detector, and few lie inside the image.
            inside = _BIN_AT_CENTRE * self.bins / _SOURCE_TO_DETECTOR
            return self.projector_listed * inside * _chord()
        return self.projector_listed * _ray_share(self._cover)

    @property
    def tail_listed(self) -> float:
        """Entries that are listed for the backprojection behind the filter."""
        if self.adjoint or self.beam == "surrogate":
            return self.projector_listed
        return float(self.views * 2 * self.pixels)

    @property
    def tail_entries(self) -> float:
        """Entries of the backprojection behind the filter, about."""
        if self.adjoint or self.beam == "surrogate":
            return self.projector_entries
        return self.tail_listed * _pixel_share()

    def active(self, n: int, ellipses: Sequence[int]) -> float:
        """Rays that n images of so few to so many ellipses meet, about."""
        return self.rays * _met(n, self._cover, *ellipses)


def _middles(low: float, high: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The middles of equal parts of an interval."""
    return low + (high - low) * (np.arange(_GRID) + 0.5) / _GRID


@lru_cache(maxsize=64)
def _ray_share(cover: float) -> float:
    """The part of Joseph's samples that lie inside the unit square, over rays and angles."""
    angle = _middles(0, np.pi / 4)[:, None, None]
    offset = _middles(-cover / 2, cover / 2)[None, :, None]
    along = _middles(-0.5, 0.5)[None, None, :]
    return float(np.mean(np.abs(offset / np.cos(angle) + along * np.tan(angle)) <= 0.5))


@lru_cache(maxsize=1)
def _pixel_share() -> float:
    """The part of pixels whose ray arrives on a detector as wide as the image, over angles."""
    angle = _middles(0, np.pi / 2)[:, None, None]
    x, y = _middles(-0.5, 0.5)[None, :, None], _middles(-0.5, 0.5)[None, None, :]
    return float(np.mean(np.abs(x * np.cos(angle) + y * np.sin(angle)) <= 0.5))


@lru_cache(maxsize=1)
def _rotated_share() -> float:
    """The part of a square's points that are inside it still when it is rotated."""
    angle = _middles(0, np.pi / 2)[:, None, None]
    x, y = _middles(-0.5, 0.5)[None, :, None], _middles(-0.5, 0.5)[None, None, :]
    u, v = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    return float(np.mean((np.abs(u) <= 0.5) & (np.abs(v) <= 0.5)))


@lru_cache(maxsize=1)
def _chord() -> float:
    """The mean length inside a unit square of rays over its width, over angles."""
    angle = _middles(0, np.pi / 4)[:, None, None]
    offset, along = _middles(-0.5, 0.5)[None, :, None], _middles(-1, 1)[None, None, :]
    x = along * np.cos(angle) - offset * np.sin(angle)
    y = along * np.sin(angle) + offset * np.cos(angle)
    return float(2 * np.mean((np.abs(x) <= 0.5) & (np.abs(y) <= 0.5)))


@lru_cache(maxsize=256)
def _met(n: int, cover: float, fewest: int, most: int) -> float:
    """The part of rays that at least one of n phantoms meets, as if all rays were parallel.

    From a sample of ellipses, as `phantoms` draws them, and their shadows: a ray at offset s is met
    where |s - centre| <= half width.
    """
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-0.5, 0.5, (2, _SHADOWS, 1))
    a, b = rng.uniform(0.08, 0.4, (2, _SHADOWS, 1))
    turned = rng.uniform(0, np.pi, (_SHADOWS, 1)) - (angle := _middles(0, np.pi)[None, ::6])
    centre = x * np.cos(angle) + y * np.sin(angle)
    half = np.hypot(a * np.cos(turned), b * np.sin(turned))
    offset = cover * _middles(-1, 1)
    hit = np.mean(np.abs(offset[:, None, None] - centre) <= half, axis=1)  # (offsets, angles)
    missed = np.mean([(1 - hit) ** count for count in range(fewest, most + 1)], axis=0)
    return float(1 - np.mean(missed**n))
