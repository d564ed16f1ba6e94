"""Fields of a PDE, measured by sensors of unknown gain."""

from korisk._json import JsonMapping
from korisk.problems import PdeProblem
from korisk.problems.pde import NETWORKS
from korisk.studies.spec.kind import Kind, register


@register
class Pde(Kind):
    """A field on a line or a square at a later time than its measurement."""

    name = "pde"
    made_of = PdeProblem
    of_points = ("assumed",)
    truth = "viscosity"
    relu = False
    networks = NETWORKS

    def title(self, settings: JsonMapping) -> str:
        """Such as "viscosity 0.012 for 0.01"."""
        return f"viscosity {settings['assumed']:g} for {settings['viscosity']:g}"
