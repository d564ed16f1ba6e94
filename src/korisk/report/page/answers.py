"""The page of one answer: a plan, a comparison, a pilot, a prediction or a rehearsal."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from korisk._json import JsonDict
from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.files import page_file, write_text
from korisk.planning.compare import Comparison
from korisk.planning.fit import DEFAULT_FIT
from korisk.planning.limits import Longer, limit
from korisk.planning.plan import Plan
from korisk.report.page.page import pilot_page

if TYPE_CHECKING:
    from korisk.prediction.study import PointPrediction


def to_html(
    answer: Any, path: str | PathLike[str], target: float | None = None, title: str = ""
) -> Path:
    """Write one self-contained page of an answer; `plan.to_html(path)` does the same.

    Parameters
    ----------
    answer : Curve, Plan, Comparison, Pilot, Prediction, Rehearsal or Ablation
        What is shown.
    path : str or path
        The file to write, FILE.html.
    target : float, optional
        The value to reach, in the user's unit. Default: that of the answer, if it has one.
    title : str, default ""
        Title of the page. Default: the names of the models.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    KoriskError
        If the file cannot be written, or the page cannot compute the answer.

    Examples
    --------
    >>> import korisk as kr
    >>> curve = kr.Curve([16, 32, 64, 128], [0.2, 0.1, 0.05, 0.025], model="net")
    >>> kr.report.to_html(kr.plan(curve, target=0.02), "plan.html").name
    'plan.html'
    """
    file = page_file(path)
    # A pilot or a plan has a target of its own; a curve has none.
    goal = getattr(answer, "target", None) if target is None else target
    comparison = getattr(answer, "comparison", answer)  # of an ablation
    if isinstance(comparison, Comparison):
        page = comparison_page(comparison, title, target)
    elif isinstance(answer, Plan):
        _refuse_what_no_page_computes(answer, target)
        page = pilot_page([answer.curve], title=title or answer.curve.name, target=goal)
    elif isinstance(answer, Curve):
        page = pilot_page([answer], title=title or answer.name, target=goal)
    elif isinstance(getattr(answer, "curve", None), Curve) and hasattr(answer, "longer"):
        refuse_longer_training(answer.curve, goal, answer.training, answer.longer)  # of a pilot
        page = pilot_page([answer.curve], title=title or answer.curve.name, target=goal)
    else:
        page = _before_training(answer, target, title)
    write_text(file, page)
    return file


def comparison_page(comparison: Comparison, title: str = "", target: float | None = None) -> str:
    """The page of two models, which opens with the ratio of their samples."""
    plans = comparison.first, comparison.second
    for plan in plans:
        _refuse_what_no_page_computes(plan, target)
    # Both models may have the same name; those of the comparison tell them apart.
    curves = [p.curve.renamed(name) for p, name in zip(plans, comparison.names, strict=True)]
    return pilot_page(
        curves,
        title=title or " and ".join(comparison.names),
        target=comparison.target if target is None else target,
        kind="korisk compare of two models",
        opens="ratio",
    )


def _refuse_what_no_page_computes(plan: Plan, target: float | None) -> None:
    """Raise for a plan whose answer the script of the page would not give."""
    remedy = "plan without it for a page, or use plot()"
    if plan.fit != DEFAULT_FIT:
        raise KoriskError(f"a page needs fit {DEFAULT_FIT!r}, got {plan.fit!r}; {remedy}")
    if plan.related:
        raise KoriskError(f"a page plans from the pilot alone, not from related curves; {remedy}")
    goal = plan.target if target is None else target  # on which the page opens
    refuse_longer_training(plan.curve, goal, plan.training, plan.longer)


def refuse_longer_training(
    curve: Curve, target: float | None, training: Curve | None, longer: Longer | None
) -> None:
    """Raise where longer training comes before data: a page plans from test errors alone."""
    goal = None if target is None else float(curve.unit.to_error(target))
    cause = limit(curve, goal, training=training, longer=longer)
    if cause.kind == "training":
        raise KoriskError(
            f"a page of {curve.name} would plan from test errors alone and advise otherwise: "
            f"{cause.sentence.rstrip('.')}; ask for the advice without a page"
        )


def _before_training(answer: Any, target: float | None, title: str) -> str:
    """The page of a prediction, of a rehearsal, or of all models at a point of a study."""
    # Loaded here, because predictions load PyTorch and plans do without it.
    from korisk.prediction.answer import Question
    from korisk.report.page.prediction import rehearsal_page

    point = model_point(answer)
    question = Question(targets=() if target is None else (target,))
    return rehearsal_page([point], question, title=title or point.name)


def model_point(answer: Any) -> PointPrediction:
    """A point as it is; a prediction or a rehearsal as a point that has no other model."""
    from korisk.prediction.prediction import Prediction
    from korisk.prediction.rehearsal.rehearsal import Rehearsed
    from korisk.prediction.study import PointPrediction
    from korisk.store.usage import Usage

    if isinstance(answer, PointPrediction):
        return answer
    usage = Usage(started="", seconds=0.0)
    if isinstance(answer, Prediction):
        spec: JsonDict = {"problem": {}, "models": {answer.model: {}}}
        return PointPrediction(answer.model, spec, (answer,), "", 1, (), usage, ())
    spec, rehearsed = {"problem": {}, "models": {}}, (Rehearsed(answer),)
    return PointPrediction(answer.curve.model, spec, (), "", 1, (), usage, (), rehearsed)
