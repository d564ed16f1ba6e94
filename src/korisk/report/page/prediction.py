"""Section of a study's page: predictions before training beside measured errors."""

from collections.abc import Mapping, Sequence

from korisk.errors import KoriskError
from korisk.prediction.outcomes import Outcome, measured_curves, outcomes, sentences
from korisk.prediction.record import NAME, read_prediction
from korisk.report.contents import Contents
from korisk.report.figures.prediction import prediction_figure
from korisk.report.page.page import Section, bullets, figure_html
from korisk.report.page.planner import Watch, unwatched
from korisk.report.tables.table import ReportTable, worded
from korisk.report.tables.text import html as table_html

TITLE = "Predicted before training"
_OF_IMAGES = ("population", "images", "ellipses")  # a prediction may use other images
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
        html += bullets(sentences(results)) + table_html(outcomes_table(results))
    return Section("predicted", TITLE, html), notes


def outcomes_table(results: Sequence[Outcome]) -> ReportTable:
    """Table of every predicted error beside the measured one."""
    rows = [
        (e.point, e.model, e.n, e.predicted, e.lower, e.upper, e.measured, e.ratio) for e in results
    ]
    return worded("predicted", rows)
