"""Predictions in pages: the section of a study's page, and the page of a rehearsal.

The section shows predictions beside errors that were measured later; the page shows the forecasts
of every model before any scan.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from korisk.errors import KoriskError
from korisk.planning.explain import value
from korisk.planning.plan import LEVELS
from korisk.planning.recommend import FIRST
from korisk.prediction.answer import Question, model_advice, point_sentences
from korisk.prediction.pair import error_rows
from korisk.prediction.record import (
    NAME,
    Outcome,
    measured_curves,
    outcome_sentences,
    outcomes,
    point_record,
    read_prediction,
)
from korisk.prediction.rehearsal.rehearsal import Rehearsed
from korisk.prediction.study import PointPrediction
from korisk.report.contents import Contents
from korisk.report.figures.prediction import prediction_figure
from korisk.report.headline import question as asked_for
from korisk.report.page.page import Page, Section, asset, bullets, figure_html
from korisk.report.page.planner import Watch, unwatched
from korisk.report.tables.table import ReportTable, Row, worded
from korisk.report.tables.text import html as table_html

TITLE = "Predicted before training"
_OF_IMAGES = ("population", "images", "ellipses")  # a prediction may use other images
_EXPECTED = "Expected errors with their 90% band over training samples"
_TARGETS = 7  # in the table of samples, from the error at the smallest N to that at the largest
_WORDS = "Predicted curves with their 90% bands, and measured errors, over training samples"


def prediction_section(contents: Contents, watch: Watch = unwatched) -> tuple[Section, list[str]]:
    """The section, empty if nothing was predicted, and notes on predictions left out."""
    file = contents.store.parent / NAME
    if not file.is_file():
        return Section("predicted", TITLE, ""), []
    try:
        record = read_prediction(file)
    except KoriskError as error:
        raise KoriskError(f"{error}, or remove it to report without a prediction") from None
    points = {point.name: point for point in contents.points}
    html, notes = "", []
    results: list[Outcome] = []
    for entry in record.points:
        point = points.get(entry.point)
        problem = point.spec.get("problem") if point else None
        run = problem if isinstance(problem, Mapping) else {}
        # A prediction holds for a run with the same problem, whatever its images.
        keys = {*run, *entry.problem} - {*_OF_IMAGES}
        same = run and all(run.get(name) == entry.problem.get(name) for name in keys)
        models = point.spec.get("models", {}) if point else {}
        fitted = [model for model in entry.models if model.model in models]
        relus = [bool(models[model.model].get("relu")) == model.relu for model in fitted]
        if point is None or not same or not all(relus):
            reason = "is no point of this study with the same problem and the same ReLU"
            notes.append(f"{NAME}: {entry.point} {reason}.")
            continue
        watch(f"prediction of {entry.point}")
        curves = measured_curves(point.cells)
        caption = f"{entry.point}: {_WORDS.lower()}; from {entry.images}."
        narrow = prediction_figure(entry, curves, narrow=True)
        html += figure_html(prediction_figure(entry, curves), _WORDS, caption, narrow=narrow)
        results += outcomes(entry, curves)
    if results:
        html += bullets(outcome_sentences(results)) + table_html(outcomes_table(results))
    return Section("predicted", TITLE, html), notes


def outcomes_table(results: Sequence[Outcome]) -> ReportTable:
    """Table of every predicted error beside the measured one."""
    rows = [
        (e.point, e.model, e.n, e.predicted, e.lower, e.upper, e.measured, e.ratio) for e in results
    ]
    return worded("predicted", rows)


# --- The page of a rehearsal ---------------------------------------------------------------------


def rehearsal_page(points: Sequence[PointPrediction], question: Question, *, title: str) -> str:
    """Write one self-contained page: advice, figures, tables, and what to measure first."""
    sections = []
    for number, point in enumerate(points, start=1):
        advice = [model_advice(model, question) for model in point.models]
        # The advice on the first model stands at the top of the page already.
        paragraphs = [" ".join(words) for words in (advice[1:] if number == 1 else advice)]
        record = point_record(point.to_dict(question.targets or point.targets, sure=question.sure))
        needed = point.plans(question.targets[0]) if question.targets else ()
        draw = partial(prediction_figure, record, needed=needed, sure=question.sure)
        html = bullets(paragraphs) if paragraphs else ""
        caption = f"{point.name}: {_EXPECTED.lower()}."
        html += figure_html(draw(), _EXPECTED, caption, narrow=draw(narrow=True))
        for table in (errors_table(point, question), samples_table(point, question)):
            html += table_html(table)
        sections.append(Section(f"point-{number}", point.name, html))
        basis = bullets(sentence.strip() for sentence in point_sentences(point, question))
        sections.append(Section(f"basis-{number}", f"What {point.name} rests on", basis))
    goal = f"a mean squared error of {value(question.targets[0])}" if question.targets else ""
    answer, *rest = model_advice(points[0].models[0], question)
    page = Page(
        title=title,
        kind="korisk rehearse, before a scan is made",
        groups=[],
        data={"groups": [], "pictures": []},
        question=asked_for(points[0].models[0].model, goal) if question.targets else "",
        answer=answer,
        odds=" ".join(rest),
        sections=sections,
        promises=asset("rehearsed.html"),
    )
    return page.html()


def errors_table(point: PointPrediction, question: Question) -> ReportTable:
    """Table of the expected error of every model at each N."""
    rows: list[Row] = []
    for model in point.models:
        if isinstance(model, Rehearsed):
            records = model.rows(question.at or model.rehearsal.curve.sizes.tolist())
        else:
            records = error_rows(model, question.at)
        rows += [(model.model, int(row["n"]), *list(row.values())[1:]) for row in records]
    return worded("rehearsed", rows)


def samples_table(point: PointPrediction, question: Question) -> ReportTable:
    """Table of N at several levels, for the targets asked for and from easy to hard ones."""
    rows: list[Row] = []
    for model in point.models:
        # Targets from the error at the smallest N to that at the largest, evenly in logarithms.
        smallest = model.first if isinstance(model, Rehearsed) else FIRST
        easy, hard = (model.expected(n).value for n in (smallest, max(point.examples, smallest)))
        spread = {float(f"{target:.3g}") for target in np.geomspace(easy, hard, _TARGETS)}
        targets = sorted({*spread, *question.targets}, reverse=True)
        for plan in map(model.plan, targets):
            ends = [int(n) if math.isfinite(n) else None for n in (plan.lower, plan.upper)]
            levels = [plan.samples(level) for level in LEVELS]
            rows.append((model.model, plan.target, plan.even, *levels, *ends, plan.reach))
    return worded("rehearsed_samples", rows)
