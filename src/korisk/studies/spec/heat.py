"""Advection and diffusion behind sensors of unknown gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from korisk._json import JsonDict, JsonMapping
from korisk.files import Spec
from korisk.studies.spec.entries import FieldStudyEntry, PointEntry
from korisk.studies.spec.kind import Kind, register

if TYPE_CHECKING:
    from korisk.problems import Problem


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


@register
class Heat(Kind[HeatProblemEntry, HeatPointEntry]):
    """A field on a line, some time after sensors saw it."""

    name = "heat"
    study = FieldStudyEntry[HeatProblemEntry, HeatPointEntry]
    relu = False

    def settings(self, shared: HeatProblemEntry, point: HeatPointEntry) -> JsonDict:
        """The study's numbers with the point's own, and the viscosity that the network assumes."""
        settings = super().settings(shared, point)
        settings.setdefault("assumed", settings["viscosity"])
        return settings

    def title(self, settings: JsonMapping) -> str:
        """Such as "viscosity 0.012 for 0.01"."""
        return f"viscosity {settings['assumed']:g} for {settings['viscosity']:g}"

    def entries(self, settings: JsonMapping) -> tuple[int, int]:
        """Points of the line, before and after."""
        return settings["points"], settings["points"]

    def problem(self, spec: JsonMapping) -> Problem:
        """The problem of a point."""
        from korisk.problems import HeatProblem

        numbers = {name: value for name, value in spec["problem"].items() if name != "kind"}
        return HeatProblem(**numbers)
