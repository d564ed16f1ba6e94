"""Page of a rehearsal: the forecasts of every model before any scan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from korisk.planning.plan import LEVELS
from korisk.planning.recommend import FIRST
from korisk.prediction.answer import Question, model_advice, point_sentences
from korisk.prediction.pair import error_rows
from korisk.prediction.record import point_record
from korisk.prediction.rehearsal.rehearsed import Rehearsed
from korisk.prediction.study import PointPrediction
from korisk.report.figures.prediction import prediction_figure
from korisk.report.page.page import Page, Section, asset, bullets, figure_html
from korisk.report.tables.table import ReportTable, Row, worded
from korisk.report.tables.text import html as table_html

_WORDS = "Expected errors with their 90% band over training samples"
_TARGETS = 7  # in the table of samples, from the error at the smallest N to that at the largest


def rehearsal_page(
    points: Sequence[PointPrediction], asked: Question, *, title: str, running: bool = False
) -> str:
    """Write one self-contained page: advice, figures, tables, and what to measure first.

    Parameters
    ----------
    points : sequence of PointPrediction
        The results of a rehearsal.
    asked : Question
        Targets and the level; the first target is drawn.
    title : str
        Title of the page.
    running : bool, default False
        Whether networks are still being trained.

    Returns
    -------
    str
        The file as text.
    """
    sections = []
    for number, point in enumerate(points, start=1):
        advice = [model_advice(model, asked) for model in point.models]
        # The advice on the first model stands at the top of the page already.
        paragraphs = [" ".join(words) for words in (advice[1:] if number == 1 else advice)]
        record = point_record(point.to_dict(asked.targets or point.targets, sure=asked.sure))
        needed = point.plans(asked.targets[0]) if asked.targets else ()
        draw = partial(prediction_figure, record, needed=needed, sure=asked.sure)
        html = bullets(paragraphs) if paragraphs else ""
        caption = f"{point.name}: {_WORDS.lower()}."
        html += figure_html(draw(), _WORDS, caption, narrow=draw(narrow=True))
        html += table_html(errors_table(point, asked)) + table_html(samples_table(point, asked))
        sections.append(Section(f"point-{number}", point.name, html))
        basis = bullets(sentence.strip() for sentence in point_sentences(point, asked))
        sections.append(Section(f"basis-{number}", f"What {point.name} rests on", basis))
    answer, *rest = model_advice(points[0].models[0], asked)
    page = Page(
        title=title,
        kind=f"korisk rehearse, before a scan is made{', so far' * running}",
        groups=[],
        data={"groups": [], "pictures": []},
        answer=answer,
        odds=" ".join(rest),
        sections=sections,
        promises=asset("rehearsed.html"),
    )
    return page.html()


def errors_table(point: PointPrediction, asked: Question) -> ReportTable:
    """Table of the expected error of every model at each N."""
    rows: list[Row] = []
    for model in point.models:
        if isinstance(model, Rehearsed):
            records = model.rows(asked.at or model.rehearsal.curve.sizes.tolist())
        else:
            records = error_rows(model, asked.at)
        rows += [(model.model, int(row["n"]), *list(row.values())[1:]) for row in records]
    return worded("rehearsed", rows)


def samples_table(point: PointPrediction, asked: Question) -> ReportTable:
    """Table of N at several levels, for the targets asked for and from easy to hard ones."""
    rows: list[Row] = []
    for model in point.models:
        smallest = model.first if isinstance(model, Rehearsed) else FIRST
        easy, hard = (model.expected(n).value for n in (smallest, max(point.examples, smallest)))
        spread = {float(f"{target:.3g}") for target in np.geomspace(easy, hard, _TARGETS)}
        targets = sorted({*spread, *asked.targets}, reverse=True)
        for plan in map(model.plan, targets):
            ends = [int(n) if math.isfinite(n) else None for n in (plan.lower, plan.upper)]
            levels = [plan.samples(level) for level in LEVELS]
            rows.append((model.model, plan.target, plan.even, *levels, *ends, plan.reach))
    return worded("rehearsed_samples", rows)
