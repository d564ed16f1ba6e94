"""Deblurring with pixels of unknown gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from korisk._json import JsonDict, JsonMapping
from korisk.studies.spec.entries import StudyEntry
from korisk.studies.spec.imaging import ImagingEntry, ImagingKind, ImagingPointEntry
from korisk.studies.spec.kind import register

if TYPE_CHECKING:
    from korisk.problems import Problem


class BlurProblemEntry(ImagingEntry):
    """Keys of the problem: camera and images, see `korisk.problems.BlurProblem`."""

    kind: Literal["blur"]
    deviation: float = 1.0
    gain: float = 0.2
    mu: float = 0.01


class BlurPointEntry(ImagingPointEntry):
    """One operating point: the image's size, the assumed blur, and other differences."""

    assumed: float | None = None
    deviation: float | None = None
    gain: float | None = None
    mu: float | None = None


@register
class Blur(ImagingKind[BlurProblemEntry, BlurPointEntry]):
    """Sharp images from blurred ones."""

    name = "blur"
    study = StudyEntry[BlurProblemEntry, BlurPointEntry]

    def settings(self, shared: BlurProblemEntry, point: BlurPointEntry) -> JsonDict:
        """Images, camera and assumed blur."""
        settings = super().settings(shared, point)
        settings.setdefault("assumed", settings["deviation"])
        return settings

    def title(self, settings: JsonMapping) -> str:
        """Such as "side 32, blur 1.2 for 1"."""
        assumed, true = settings["assumed"], settings["deviation"]
        return f"side {settings['side']}, blur {assumed:g} for {true:g}"

    def entries(self, settings: JsonMapping) -> tuple[int, int]:
        """Pixels, the same for outputs and inputs."""
        return settings["side"] ** 2, settings["side"] ** 2

    def problem(self, spec: JsonMapping) -> Problem:
        """The problem of a point."""
        from korisk.problems import BlurProblem

        return BlurProblem(**self.arguments(spec))
