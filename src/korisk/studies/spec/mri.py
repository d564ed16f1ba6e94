"""MRI studies: images from some of the lines of k-space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.studies.spec.entries import (
    ImagesEntry,
    Metric,
    ModelsEntry,
    NoiseEntry,
    PointEntry,
    StudyEntry,
    noise_of,
    point_spec,
    population,
    source_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from korisk.problems import MriProblem


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
    noise: NoiseEntry | None = None


class MriStudyEntry(StudyEntry):
    """The file of an MRI study."""

    problem: MriProblemEntry
    points: list[MriPointEntry]
    models: ModelsEntry | None = None
    metric: Metric | None = None


def mri_point(entry: MriStudyEntry, part: MriPointEntry) -> tuple[str, dict[str, Any]]:
    """The default name of a point, and its spec."""
    of_study = entry.problem
    problem = {
        "kind": "mri",
        **population(of_study.ellipses, of_study.images, part.noise or of_study.noise),
        **part.model_dump(include={"side", "lines", "centre"}),
    }
    if "poisson" in (problem["noise"] or ()):
        raise KoriskError("noise of kind mri must be gaussian; write noise: {gaussian: 0.1}")
    spec = point_spec(entry, part, problem, [4, 16, 64, 256, 1024])
    return f"{part.lines} of {part.side} lines", spec


def mri_problem(spec: Mapping[str, Any]) -> MriProblem:
    """The problem of an MRI point."""
    from korisk.problems import MriProblem, Poisson

    noise = noise_of(spec)
    assert not isinstance(noise, Poisson)
    size = {name: spec["problem"].get(name) for name in ("side", "lines", "centre")}
    return MriProblem(noise=noise, source=source_of(spec), **size)
