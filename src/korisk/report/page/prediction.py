"""What was predicted before training beside what was measured, as a section of a study's page."""

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
_OF_IMAGES = ("population", "images", "ellipses")  # a prediction may be from other images
_WORDS = "Predicted curves with their 90% bands, and measured errors, over training samples"


def prediction_section(contents: Contents, watch: Watch = unwatched) -> tuple[Section, list[str]]:
    """The section, empty where nothing was predicted, and notes on what could not be shown."""
    file = contents.store.parent / NAME
    if not file.is_file():
        return Section("predicted", TITLE, ""), []
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
        curves = measured_curves(point.cells)
        caption = f"{each.point}: {_WORDS.lower()}; from {each.images}."
        narrow = prediction_figure(each, curves, narrow=True)
        shown += figure_html(prediction_figure(each, curves), _WORDS, caption, narrow=narrow)
        found += outcomes(each, curves)
    if found:
        shown += bullets(sentences(found)) + table_html(outcomes_table(found))
    return Section("predicted", TITLE, shown), notes


def outcomes_table(found: Sequence[Outcome]) -> ReportTable:
    """Every predicted error beside the measured one."""
    rows = [
        (e.point, e.model, e.n, e.predicted, e.lower, e.upper, e.measured, e.ratio) for e in found
    ]
    return worded("predicted", rows)
