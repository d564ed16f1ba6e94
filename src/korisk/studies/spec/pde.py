"""Fields of a PDE, measured by sensors of unknown gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from korisk._json import JsonDict, JsonMapping
from korisk.files import Spec
from korisk.studies.spec.entries import FieldNetworkKind, FieldStudyEntry, PointEntry
from korisk.studies.spec.kind import Kind, register

if TYPE_CHECKING:
    from korisk.problems import Problem

Equation = Literal["advection-diffusion", "burgers"]


class PdeProblemEntry(Spec):
    """The equation, its sensors and its fields: see `korisk.problems.PdeProblem`."""

    kind: Literal["pde"]
    equation: Equation = "advection-diffusion"
    dimension: int = 1
    points: int = 64
    viscosity: float = 0.01
    speed: float | None = None
    time: float = 0.1
    gain: float = 0.5
    noise: float = 0.014
    amplitude: float = 0.9
    decay: float = 0.5
    fine: int = 4


class PdePointEntry(PointEntry):
    """One operating point: the viscosity that the network assumes, and other differences."""

    assumed: float | None = None
    points: int | None = None
    viscosity: float | None = None
    speed: float | None = None
    time: float | None = None
    gain: float | None = None
    noise: float | None = None
    amplitude: float | None = None
    decay: float | None = None
    fine: int | None = None
    equation: Equation | None = None
    dimension: int | None = None


@register
class Pde(Kind[PdeProblemEntry, PdePointEntry]):
    """A field on a line or a square at a later time than its measurement."""

    name = "pde"
    study = FieldStudyEntry[PdeProblemEntry, PdePointEntry]
    relu = False
    networks = get_args(FieldNetworkKind)

    def settings(self, shared: PdeProblemEntry, point: PdePointEntry) -> JsonDict:
        """The study's numbers, overridden by the point's, and the assumed viscosity."""
        settings = super().settings(shared, point)
        # Stored explicitly, so that a spec shows which viscosity the network assumes.
        settings.setdefault("assumed", settings["viscosity"])
        return settings

    def title(self, settings: JsonMapping) -> str:
        """Such as "viscosity 0.012 for 0.01"."""
        return f"viscosity {settings['assumed']:g} for {settings['viscosity']:g}"

    def entries(self, settings: JsonMapping) -> tuple[int, int]:
        """Points of the field, the same for outputs and inputs."""
        count = settings["points"] ** settings["dimension"]
        return count, count

    def problem(self, spec: JsonMapping) -> Problem:
        """The problem of a point."""
        from korisk.problems import PdeProblem

        numbers = {name: value for name, value in spec["problem"].items() if name != "kind"}
        return PdeProblem(**numbers)
