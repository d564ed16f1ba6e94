"""What the geometries of scans in a plane and of volumes share."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from korisk import _checks
from korisk.errors import Argument, KoriskWarning, Message, invalid

FloatArray = NDArray[np.float64]

_WARN_TRUNCATION = 0.005  # of what is inscribed in the image, averaged over views


@dataclass(frozen=True, repr=False)
class Scan(ABC):
    """What scans of images and of volumes share: frozen values whose first field is the shape."""

    if TYPE_CHECKING:  # fields of each scan, which has them in an order of its own
        shape: Any
        views: Any
        angles: Any
        start: Any
        arc: Any

    _full_arc: ClassVar[float]  # after which rays repeat

    @property
    @abstractmethod
    def image_shape(self) -> tuple[int, ...]:
        """Pixels along each axis."""

    @property
    @abstractmethod
    def sinogram_shape(self) -> tuple[int, ...]:
        """Views, and bins along each axis of the detector."""

    @property
    @abstractmethod
    def truncation(self) -> float:
        """Share of the region inscribed in the image that the detector misses."""

    def __post_init__(self) -> None:
        for field in fields(self):
            self._set(field.name, plain(getattr(self, field.name)))

    def __getstate__(self) -> dict[str, object]:  # without the arrays kept beside the fields
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_size(self, what: str, elements: str) -> None:
        """Raise if an image or its projections have more elements than 32 bits can number."""
        pixels, rays = math.prod(self.image_shape), math.prod(self.sinogram_shape)
        if max(pixels, rays) >= 2**31:
            size = f"{4 * (pixels + rays) / 2**30:.0f} GiB in float32"
            got = f"{pixels:,} {elements} and {rays:,} rays ({size})"
            raise invalid(what, "have fewer than 2^31 elements", pixels, "reduce them", got=got)

    def _refuse_source_inside(self, distance: float, reach: float, what: str) -> None:
        """Raise if the source, at this distance from the centre, is within the object's reach."""
        if distance <= reach:
            rule = f"keep the source outside the {what}, which reaches {reach:g} mm towards it"
            remedy = Message("move the source away or lower ", Argument("pixel_spacing", ...))
            raise invalid("source_to_center", rule, distance, remedy, got=f"{distance:g}")

    def _warn_truncated(self, how: str, extent: float, region: str, *wider: Any) -> None:
        """Warn if the detector, `extent` millimetres long or high, misses part of the region."""
        if self.truncation > _WARN_TRUNCATION:
            lost = f"{self.truncation:.1%} of the {region}, averaged over views"
            start = f"the detector is too {how}: its {extent:g} mm miss {lost}; raise "
            text = Message(start, *wider, ", or expect truncation artefacts")
            warnings.warn(text, KoriskWarning, stacklevel=4)

    @property
    def views_count(self) -> int:
        """The number of views, whichever way they were passed."""
        return int(self.views)

    @property
    def scanned_arc(self) -> float:
        """The arc of equally spaced views in radians."""
        return self._full_arc if self.arc is None else self.arc

    @cached_property
    def angle_array(self) -> FloatArray:
        """The angle of each view in radians, (views,)."""
        if self.angles:
            return frozen(np.array(self.angles))
        steps = self.scanned_arc * np.arange(self.views_count) / self.views_count
        return frozen(self.start + steps)

    def __repr__(self) -> str:
        sides: tuple[int, ...] = self.shape
        parts = [f"{sides[0]}" if len(set(sides)) == 1 else f"{sides}"]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            counted = field.name == "views" and self.angles  # by the angles themselves
            if not counted and value != field.default:
                parts.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


def frozen(array: NDArray[np.floating]) -> FloatArray:
    """A copy in float64 that cannot be written to."""
    fixed = array.astype(np.float64)
    fixed.flags.writeable = False
    return fixed


def centres(count: int, spacing: float, offset: float = 0.0) -> FloatArray:
    """Centres of equally spaced cells around the offset, (count,), in the unit of the spacing."""
    return frozen((np.arange(count) - (count - 1) / 2) * spacing + offset)


def disc_points(across: int) -> tuple[FloatArray, FloatArray]:
    """Points of a grid within the unit disc, `across` points wide: x and y, both (points,)."""
    # Cell centres, so that no point lies on the disc's edge.
    grid = (np.arange(across) + 0.5) / (across / 2) - 1
    x, y = np.meshgrid(grid, grid)
    inside = np.hypot(x, y) <= 1
    return x[inside], y[inside]


def sides(name: str, value: Any, count: int, most: int, remedy: str) -> tuple[int, ...]:
    """Check `count` whole numbers from 1 to `most`; one number stands for all."""
    numbers = (value,) * count if np.ndim(value) == 0 else tuple(value)
    rule = f"be {count} whole numbers, or one for all"
    _checks.require(len(numbers) == count, name, rule, value, remedy)
    checked = partial(_checks.count, name, at_least=1, at_most=most, remedy=remedy)
    return tuple(checked(plain(number)) for number in numbers)


def plain(value: object) -> object:
    """NumPy's and PyTorch's scalars as Python's."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
