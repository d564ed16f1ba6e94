"""Studies of advection and diffusion on a line with sensors of unknown gains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from korisk.files import Spec
from korisk.studies.spec.entries import (
    ModelsEntry,
    PointEntry,
    StudyEntry,
    point_spec,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from korisk.problems import HeatProblem


class HeatProblemEntry(Spec):
    """The line, its sensors and its flow: see `korisk.problems.HeatProblem`."""

    kind: Literal["heat"]
    points: int = 64
    viscosity: float = 0.01
    speed: float = 1.0
    time: float = 0.1
    gain: float = 0.5
    noise: float = 0.014
    amplitude: float = 0.9


class HeatPointEntry(PointEntry):
    """One operating point: the viscosity that the network assumes, and other differences."""

    assumed: float | None = None
    points: int | None = None
    viscosity: float | None = None
    speed: float | None = None
    time: float | None = None
    gain: float | None = None
    noise: float | None = None
    amplitude: float | None = None


class HeatStudyEntry(StudyEntry):
    """The file of a study of advection and diffusion."""

    problem: HeatProblemEntry
    points: list[HeatPointEntry]
    models: ModelsEntry | None = None
    metric: Literal["mse", "relative"] | None = None


def heat_point(entry: HeatStudyEntry, part: HeatPointEntry) -> tuple[str, dict[str, Any]]:
    """The default name of a point, and its spec."""
    own = part.model_dump(exclude={"name", "sizes"}, exclude_none=True)
    problem = entry.problem.model_dump() | own
    assumed = problem.setdefault("assumed", problem["viscosity"])
    spec = point_spec(entry, part, problem, [4, 16, 64, 256, 1024], relu=False)
    return f"viscosity {assumed:g} for {problem['viscosity']:g}", spec


def heat_problem(spec: Mapping[str, Any]) -> HeatProblem:
    """The problem of a point."""
    from korisk.problems import HeatProblem

    return HeatProblem(**{name: value for name, value in spec["problem"].items() if name != "kind"})
