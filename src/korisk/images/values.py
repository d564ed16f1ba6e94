"""Values of images: attenuation where a unit is known, fractions of a full scale elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from korisk import _checks
from korisk.errors import KoriskError
from korisk.images.formats.page import Page

Array = NDArray[np.float64]
Unit = Literal["HU", "1/mm", "1/cm", "1/m", "plain"]
UNITS: tuple[Unit, ...] = ("HU", "1/mm", "1/cm", "1/m", "plain")
MU_WATER = 0.0192  # 1/mm, at 70 keV
_PER_MM = {"1/mm": 1.0, "1/cm": 0.1, "1/m": 0.001}


@dataclass(frozen=True)
class Values:
    """How numbers in files become values of images."""

    unit: Unit | None = None  # of files that do not say theirs
    mu_water: float = MU_WATER
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.unit is not None:
            _checks.one_of("unit", self.unit, UNITS)
        water = _checks.real("mu_water", self.mu_water, above=0, remedy="0.0192 is water in 1/mm")
        object.__setattr__(self, "mu_water", water)
        if self.scale is not None:
            remedy = "give the value that shall be 1"
            object.__setattr__(
                self, "scale", _checks.real("scale", self.scale, above=0, remedy=remedy)
            )
            if self.unit not in (None, "plain"):
                raise KoriskError(
                    f"scale= is for plain values, got {self.scale:g} with unit={self.unit!r}; "
                    "leave one of them out"
                )

    def words(self) -> str:
        """What a fingerprint keeps of it."""
        return f"unit={self.unit} mu_water={self.mu_water!r} scale={self.scale!r}"

    def of(self, page: Page) -> tuple[Array, str, str]:
        """The values in float64, what was done in words, and the unit: "1/mm" or "plain"."""
        values = np.asarray(page.values, dtype=np.float64)
        if not np.isfinite(values).all():
            bad = values.size - int(np.isfinite(values).sum())
            raise KoriskError(f"has {bad:,} values that are NaN or infinite; replace them")
        unit = self._unit(page)
        if unit == "plain":
            return *self._plain(values, page), "plain"
        if self.scale is not None:
            raise KoriskError(
                f"holds attenuation, and scale={self.scale:g} is for plain values; leave it out"
            )
        return *self._attenuation(values, unit), "1/mm"

    def _unit(self, page: Page) -> str:
        if page.unit is None or self.unit in (None, "plain", page.unit):
            return self.unit or page.unit or "plain"
        raise KoriskError(
            f"says that its values are in {page.unit}, and unit={self.unit!r} says otherwise; "
            "leave unit= out, or read the two kinds of files apart with pattern="
        )

    def _attenuation(self, values: Array, unit: str) -> tuple[Array, str]:
        if unit == "HU":
            attenuation = self.mu_water * (1 + values / 1000)
            words = f"from Hounsfield units with water at {self.mu_water:g} 1/mm"
        else:
            attenuation = values * _PER_MM[unit]
            words = f"as attenuation in {unit}"
        return np.maximum(attenuation, 0), words

    def _plain(self, values: Array, page: Page) -> tuple[Array, str]:
        lowest = float(values.min())
        if lowest < 0:
            raise KoriskError(
                f"has values below 0 (the lowest is {lowest:g}), which plain images must not have; "
                "say unit='HU' if they are Hounsfield units, or shift or clip them"
            )
        if self.scale is not None:
            return values / self.scale, f"divided by scale = {self.scale:g}"
        if page.full is None:
            raise KoriskError(
                "holds whole numbers beyond 16 bits or rescaled ones, whose full scale is not "
                "known; say scale=, the value that shall be 1"
            )
        if page.full == 1:
            return values, "as they are"
        return values / page.full, f"divided by {page.full:g}, the largest of their type"
