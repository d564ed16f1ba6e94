"""Magnetic resonance imaging from some lines of k-space, or along a trajectory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError
from korisk.studies.spec.entries import StudyEntry
from korisk.studies.spec.imaging import ImagingEntry, ImagingKind, ImagingPointEntry
from korisk.studies.spec.kind import register
from korisk.studies.spec.motion import MotionEntry, motion_of, motion_words
from korisk.texts import counted

if TYPE_CHECKING:
    from korisk.problems import Problem


class MriProblemEntry(ImagingEntry):
    """Keys of the problem: trajectory, motion and images."""

    kind: Literal["mri"]
    trajectory: Literal["radial", "spiral"] | None = None  # None: lines of a Cartesian grid
    motion: MotionEntry | None = None


class MriPointEntry(ImagingPointEntry):
    """One operating point: the image's size and the measured lines of k-space."""

    lines: int
    centre: int | None = None
    coils: int | None = None  # None: one of uniform sensitivity
    mu: float | None = None  # of the regularised inverse for several coils
    trajectory: Literal["radial", "spiral"] | None = None
    motion: MotionEntry | None = None


@register
class Mri(ImagingKind[MriProblemEntry, MriPointEntry]):
    """Images from some lines of k-space."""

    name = "mri"
    study = StudyEntry[MriProblemEntry, MriPointEntry]

    def settings(self, shared: MriProblemEntry, point: MriPointEntry) -> JsonDict:
        """Images, lines and coils."""
        if point.mu is not None and point.coils is None:
            problem = "mu of kind mri belongs to several coils"
            raise KoriskError(f"{problem}; add coils: 4, or leave mu out")
        return {"centre": None} | super().settings(shared, point)

    def title(self, settings: JsonMapping) -> str:
        """Such as "8 of 32 lines, 4 coils"."""
        coils = settings.get("coils")
        coil_text = "" if coils is None else f", {counted(coils, 'coil')}"
        lines = f"{settings['lines']} of {settings['side']} lines"
        if (trajectory := settings.get("trajectory")) is not None:
            shots = "spokes" if trajectory == "radial" else "spiral shots"
            lines = f"{settings['lines']} {shots}, {settings['side']} pixels"
        return f"{lines}{coil_text}{motion_words(settings)}"

    def entries(self, settings: JsonMapping) -> tuple[int, int]:
        """Pixels, and real and imaginary parts of all coils."""
        pixels = settings["side"] ** 2
        if settings.get("trajectory") is not None:
            return super().entries(settings)
        return pixels, 2 * pixels * (settings.get("coils") or 1)

    def problem(self, spec: JsonMapping) -> Problem:
        """The problem of an MRI point."""
        from korisk.problems import MriProblem

        return MriProblem(**self.arguments(spec) | {"motion": motion_of(spec["problem"])})
