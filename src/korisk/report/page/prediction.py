"""Rehearsals in pages: beside errors that were measured later, in a study's page; and their own."""

from collections.abc import Mapping, Sequence

from korisk.errors import KoriskError
from korisk.planning.targets import Group
from korisk.prediction.answer import point_sentences
from korisk.prediction.record import (
    NAME,
    Outcome,
    measured_curves,
    outcome_sentences,
    outcomes,
    read_prediction,
)
from korisk.prediction.study import PointPrediction, Question
from korisk.report.contents import Contents
from korisk.report.page.page import bullets, groups_page
from korisk.report.tables.table import worded
from korisk.report.tables.text import html as table_html

_OF_IMAGES = ("population", "images", "ellipses")  # a prediction may use other images


def prediction_section(contents: Contents) -> tuple[str, list[str]]:
    """HTML, empty if nothing was predicted, and notes on predictions left out."""
    file = contents.store.parent / NAME
    if not file.is_file():
        return "", []
    try:
        record = read_prediction(file)
    except KoriskError as error:
        raise KoriskError(f"{error}, or remove it to report without a prediction") from None
    points = {point.name: point for point in contents.points}
    results: list[Outcome] = []
    notes, origins = [], []
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
        origins.append(f"{entry.point}: predicted from {entry.images}.")
        results += outcomes(entry, measured_curves(point.cells))
    if not results:
        return "", notes
    rows = [
        (e.point, e.model, e.n, e.predicted, e.lower, e.upper, e.measured, e.ratio) for e in results
    ]
    html = bullets([*origins, *outcome_sentences(results)])
    return html + table_html(worded("predicted", rows)), notes


# --- The page of a rehearsal ---------------------------------------------------------------------


def rehearsal_page(points: Sequence[PointPrediction], question: Question, *, title: str) -> str:
    """Write one self-contained page of every point of a rehearsal."""
    goal = next(iter(question.targets), None)
    groups = [
        Group(point.name, point.forecasts, point.targets[0] if goal is None else goal)
        for point in points
    ]
    facts = [sentence for point in points for sentence in point_sentences(point)]
    return groups_page(groups, title=title, kind="korisk rehearse", sure=question.sure, facts=facts)
