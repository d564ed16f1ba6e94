"""What was predicted before training beside what came out, as a section of a study's page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.prediction.file import NAME, ModelRecord, PointRecord, read_prediction
from korisk.report.contents import Contents, Point
from korisk.report.page.data import Watch
from korisk.report.page.page import Section, bullets, figure_html
from korisk.report.tables.tables import Column, ReportTable
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
        return _section(""), []
    try:
        record = read_prediction(file)
    except KoriskError as error:
        return _section(""), [f"What was predicted cannot be shown: {error}."]
    points = {point.name: point for point in contents.points}
    shown, notes, found = [], [], []
    for each in record.points:
        point = points.get(each.point)
        refusal = _refusal(each, point)
        if point is None or refusal:
            notes.append(f"{NAME}: {refusal}.")
            continue
        watch(f"prediction of {each.point}")
        shown.append(_figure(each, point))
        found += list(outcomes(each, measured_curves(point)))
    if not shown:
        return _section(""), notes
    words = "" if not found else bullets(sentences(found)) + table_html(outcomes_table(found))
    return _section("".join(shown) + words), notes


def _section(html: str) -> Section:
    return Section(name="predicted", title=TITLE, html=html)


def _refusal(each: PointRecord, point: Point | None) -> str:
    """Why a prediction is not of a point of the study; empty where it is."""
    if point is None:
        return f"{each.point} is no point of this study"
    problem = point.spec.get("problem")
    if not isinstance(problem, Mapping) or _bare(problem) != _bare(each.problem):
        return f"what was predicted for {each.point} is another problem than what was run"
    models = point.spec.get("models", {})
    for made in each.models:
        if made.model in models and bool(models[made.model].get("relu")) != made.relu:
            return f"{made.model} of {each.point} was predicted with another ReLU than was run"
    return ""


def _bare(problem: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in problem.items() if name not in _OF_IMAGES}


def _figure(each: PointRecord, point: Point) -> str:
    from korisk.report.figures.prediction import prediction_figure

    drawn = figure_html(prediction_figure(each, measured_curves(point)), _WORDS)
    caption = f"{each.point}: {_WORDS.lower()}; from {each.images}."
    return f'<figure class="figure">{drawn}<figcaption>{escape(caption)}</figcaption></figure>'


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
    """What was predicted at the N that were measured; not at those that a pilot had told."""
    measured = {curve.model: curve for curve in curves}
    for made in each.models:
        curve = measured.get(made.model)
        if curve is None:
            continue
        told = {check.n for check in made.checks}
        first, last = made.track[0].n, made.track[-1].n
        for n, mean in zip(curve.sizes.tolist(), curve.means.tolist(), strict=True):
            if first <= n <= last and n not in told:
                yield Outcome(each.point, made.model, n, *_at(made, n), mean)


def _at(made: ModelRecord, n: float) -> tuple[float, float, float]:
    """The expected error and the ends of its band, between the N that were kept."""
    rows = np.log([(row.n, row.expected, row.lower, row.upper) for row in made.track])
    found = [float(np.exp(np.interp(math.log(n), rows[:, 0], rows[:, k]))) for k in (1, 2, 3)]
    return found[0], found[1], found[2]


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
        columns=(
            Column("point"),
            Column("model"),
            Column("N", "integer"),
            Column("predicted", "number"),
            Column("90% from", "number"),
            Column("to", "number"),
            Column("measured", "number"),
            Column("ratio", "number"),
        ),
        rows=tuple(
            (e.point, e.model, e.n, e.predicted, e.lower, e.upper, e.measured, e.ratio)
            for e in found
        ),
    )
