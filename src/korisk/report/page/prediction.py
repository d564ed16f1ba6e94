"""What was predicted before training beside what was measured, as a section of a study's page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.prediction.study import NAME, PointRecord, read_prediction
from korisk.report.contents import Contents, Point
from korisk.report.figures.prediction import prediction_figure
from korisk.report.page.page import Section, bullets, figure_html
from korisk.report.page.planner import Watch
from korisk.report.tables.table import ReportTable
from korisk.report.tables.text import html as table_html

TITLE = "Predicted before training"
_METRIC = "mse"
_OF_IMAGES = ("population", "images", "ellipses")  # a prediction may be from other images
_WORDS = "Predicted curves with their 90% bands, and measured errors, over training samples"


@dataclass(frozen=True)
class Outcome:
    """A predicted error beside the measured one."""

    point: str
    model: str
    n: int
    predicted: float
    lower: float
    upper: float
    measured: float

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured

    @property
    def inside(self) -> bool:
        """Whether the measured error lies in the band."""
        return self.lower <= self.measured <= self.upper


def prediction_section(
    contents: Contents, watch: Watch = lambda _: None
) -> tuple[Section, list[str]]:
    """The section, empty where nothing was predicted, and notes on what could not be shown."""
    file = contents.store.parent / NAME
    if not file.is_file():
        return Section(name="predicted", title=TITLE, html=""), []
    try:
        record = read_prediction(file)
    except KoriskError as error:
        raise KoriskError(f"{error}, or remove it to report without a prediction") from None
    points = {point.name: point for point in contents.points}
    shown, notes = "", []
    found: list[Outcome] = []
    for each in record.points:
        point = points.get(each.point)
        problem = point.spec.get("problem") if point else None
        run = problem if isinstance(problem, Mapping) else {}
        names = {*run, *each.problem} - {*_OF_IMAGES}
        same = run and all(run.get(name) == each.problem.get(name) for name in names)
        models = point.spec.get("models", {}) if point else {}
        relus = [(models[m.model].get("relu"), m.relu) for m in each.models if m.model in models]
        if point is None or not same or any(bool(was) != relu for was, relu in relus):
            said = "is no point of this study with the same problem and the same ReLU"
            notes.append(f"{NAME}: {each.point} {said}.")
            continue
        watch(f"prediction of {each.point}")
        curves = measured_curves(point)
        caption = f"{each.point}: {_WORDS.lower()}; from {each.images}."
        narrow = prediction_figure(each, curves, narrow=True)
        shown += figure_html(prediction_figure(each, curves), _WORDS, caption, narrow=narrow)
        found += outcomes(each, curves)
    if found:
        shown += bullets(sentences(found)) + table_html(outcomes_table(found))
    return Section(name="predicted", title=TITLE, html=shown), notes


def measured_curves(point: Point) -> list[Curve]:
    """The mean squared errors of a point's models, whatever metric the study looks at."""
    found: dict[str, list[tuple[int, float, int]]] = {}
    for cell in point.cells:
        for row in cell.rows:
            error = row.metrics.get(_METRIC, math.nan)
            if row.n >= 2 and 0 < error < math.inf:
                found.setdefault(row.model, []).append((row.n, error, cell.task.seed))
    made = []
    for model, rows in found.items():
        n, errors, seeds = zip(*rows, strict=True)
        made.append(Curve(n, errors, seeds, model=model, metric=_METRIC))
    return made


def outcomes(each: PointRecord, curves: Sequence[Curve]) -> Iterator[Outcome]:
    """What was predicted at the N that were measured, interpolated; not at those of a pilot."""
    measured = {curve.model: curve for curve in curves}
    for made in each.models:
        curve = measured.get(made.model)
        if curve is None:
            continue
        told = {check.n for check in made.checks}
        logs = np.log([(row.n, row.expected, row.lower, row.upper) for row in made.track])
        for n, mean in zip(curve.sizes.tolist(), curve.means.tolist(), strict=True):
            if made.track[0].n <= n <= made.track[-1].n and n not in told:
                expected, lower, upper = (
                    math.exp(np.interp(math.log(n), logs[:, 0], logs[:, k])) for k in (1, 2, 3)
                )
                yield Outcome(each.point, made.model, n, expected, lower, upper, mean)


def sentences(found: Sequence[Outcome]) -> Iterator[str]:
    """How well each model was predicted."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for each in found:
        groups.setdefault((each.point, each.model), []).append(each)
    for (point, model), mine in groups.items():
        logs = [math.log(each.ratio) for each in mine]
        farthest = max(mine, key=lambda each: abs(math.log(each.ratio)))
        inside = sum(each.inside for each in mine)
        yield (
            f"{point}, {model}: predicted over measured is {math.exp(sum(logs) / len(logs)):.2f} "
            f"in the geometric mean over {len(mine)} N, and {farthest.ratio:.2f} at worst, at "
            f"N = {farthest.n:,}; {inside} of {len(mine)} measured errors lie in the 90% band."
        )


def outcomes_table(found: Sequence[Outcome]) -> ReportTable:
    """Every predicted error beside the measured one."""
    return ReportTable(
        name="predicted",
        title="Predicted and measured",
        caption="Mean squared errors: predicted before training, and measured over seeds",
        columns=["point", "model", "N", "predicted", "90% from", "to", "measured", "ratio"],
        rows=[
            (e.point, e.model, e.n, e.predicted, e.lower, e.upper, e.measured, e.ratio)
            for e in found
        ],
    )
