"""What the paper adds to the report of a study: its tables beside ours, and the theorem's check."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import ClassVar

from korisk.paper import tables as paper_tables
from korisk.paper.theorem.check import PointTheorem, point_theorem
from korisk.paper.theorem.explain import answer, point_sentences, remarks
from korisk.report.contents import SUPPLEMENTS, Draw, Point, Supplement
from korisk.report.tables.table import ReportTable
from korisk.theory import Network


class PaperSupplement(Supplement):
    """Tables of the paper's own study, and the theorem at points that hold errors of layers."""

    name = "theorem"
    title = "Does the theorem hold?"
    words: ClassVar[Mapping[str, str]] = {
        name: "Measured errors and the three bounds over N, and what each layer adds to a bound"
    }

    @cached_property
    def theorems(self) -> list[PointTheorem]:
        """The theorem at the points that hold errors of layers."""
        points = self.contents.points
        checked = (point_theorem(point.name, point.cells, point.failures) for point in points)
        return [theorem for theorem in checked if theorem is not None]

    def notes(self) -> list[str]:
        """Where it is violated."""
        names = ", ".join(point.name for point in self.theorems if point.holds is False)
        above = f"Errors lie above a bound of the theorem, which is VIOLATED: {names}."
        return [above] if names else []

    def sentences(self) -> list[str]:
        """Whether the theorem holds."""
        return theorem_sentences(self.theorems)

    def networks(self) -> Iterator[tuple[Point, str, Network]]:
        """Stored ones that are no chain, a model's last."""
        points = {point.name: point for point in self.contents.points}
        for theorem in self.theorems:
            for model, net in {group.model: group.network for group in theorem.groups}.items():
                if net is not None and not net.is_chain:
                    yield points[theorem.name], model, net

    def figures(self) -> Iterator[tuple[str, Draw]]:
        """Measured errors below the bounds."""
        from korisk.paper.figure import theorem_figure  # loads Matplotlib

        yield self.name, partial(theorem_figure, self.theorems)

    def tables(self, tables: list[ReportTable]) -> list[ReportTable]:
        """The paper's calibration beside ours, its outcomes, and the theorem's before the last."""
        sweeps = paper_tables.paper_sweeps(self.contents)
        others = any(point.name not in sweeps for point in self.contents.points)
        *first, last = [
            paper_tables.calibration_table(table, sweeps, others=others)
            if table.name == "calibration"
            else table
            for table in tables
        ]
        after = 1 + [table.name for table in first].index("calibration")
        first.insert(after, paper_tables.outcomes_table(sweeps.values()))
        theorem = [
            paper_tables.theorem_table(self.theorems),
            paper_tables.layers_table(self.theorems),
            paper_tables.order_table(self.theorems),
        ]
        return [*first, *theorem, last]


def theorem_sentences(points: Sequence[PointTheorem]) -> list[str]:
    """The answer first, then remarks, then each point for itself; empty without any check."""
    checks = [check for point in points for check in point.checks]
    if not checks:
        return []
    sentences = [answer(checks), *remarks(checks)]
    for point in points:
        answers = [answer(point.checks)] if len(points) > 1 else []
        sentences += [
            f"{point.name}: {sentence}" for sentence in [*answers, *point_sentences(point)]
        ]
    return sentences


SUPPLEMENTS.append(PaperSupplement)
