"""Magnetic resonance imaging from some lines of k-space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.studies.spec.entries import (
    ImagesEntry,
    NoiseEntry,
    PointEntry,
    StudyEntry,
    check_gaussian,
    gaussian_of,
    population,
    source_of,
)
from korisk.studies.spec.kind import Kind, register

if TYPE_CHECKING:
    from korisk.problems import Problem


class MriProblemEntry(Spec):
    """What is measured, and of what."""

    kind: Literal["mri"]
    ellipses: list[int] = Field(default_factory=lambda: [1, 4])
    images: ImagesEntry | None = None
    noise: NoiseEntry | None = None


class MriPointEntry(PointEntry):
    """One operating point: the image's size and the measured lines of k-space."""

    side: int
    lines: int
    centre: int | None = None
    coils: int | None = None  # None: one that sees everything alike
    mu: float | None = None  # of the inverse behind several coils
    noise: NoiseEntry | None = None


@register
class Mri(Kind[MriProblemEntry, MriPointEntry]):
    """Images from some lines of k-space."""

    name = "mri"
    study = StudyEntry[MriProblemEntry, MriPointEntry]
    images = True

    def settings(self, shared: MriProblemEntry, point: MriPointEntry) -> JsonDict:
        """What is imaged, the lines, and the coils where there are several."""
        if point.mu is not None and point.coils is None:
            raise KoriskError(
                "mu of kind mri belongs to several coils; add coils: 4, or leave mu out"
            )
        settings = {
            "kind": "mri",
            **population(shared.ellipses, shared.images, point.noise or shared.noise),
            **point.model_dump(include={"side", "lines", "centre"}),
            **point.model_dump(include={"coils", "mu"}, exclude_none=True),
        }
        check_gaussian(settings)
        return settings

    def title(self, settings: JsonMapping) -> str:
        """Such as "8 of 32 lines, 4 coils"."""
        coils = settings.get("coils")
        several = "" if coils is None else f", {coils} coil{'s' * (coils > 1)}"
        return f"{settings['lines']} of {settings['side']} lines{several}"

    def entries(self, settings: JsonMapping) -> tuple[int, int]:
        """Pixels, and real and imaginary parts of what every coil measures."""
        pixels = settings["side"] ** 2
        return pixels, 2 * pixels * (settings.get("coils") or 1)

    def problem(self, spec: JsonMapping) -> Problem:
        """The problem of an MRI point."""
        from korisk.problems import MriProblem

        settings = spec["problem"]
        names = ("side", "lines", "centre", "coils", "mu")
        size = {name: settings[name] for name in names if name in settings}
        return MriProblem(noise=gaussian_of(settings), source=source_of(spec), **size)
