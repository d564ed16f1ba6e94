"""The page of one answer: a plan, a comparison, a pilot, a prediction or a rehearsal."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from korisk._show import Reported
from korisk.curves.curve import Curve
from korisk.errors import invalid
from korisk.files import page_file, write_text
from korisk.planning import words
from korisk.planning.compare import Comparison
from korisk.planning.pilot import Trained
from korisk.planning.plan import Forecast, Plan, forecast
from korisk.report.page.page import plans_page


def to_html(
    answer: Any, path: str | PathLike[str], target: float | None = None, title: str = ""
) -> Path:
    """Write one self-contained page of an answer; `plan.to_html(path)` does the same.

    Parameters
    ----------
    answer : Curve, Forecast, Plan, Comparison, Pilot, Rehearsal or Ablation
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
        If the file cannot be written, or the answer has no page.

    Examples
    --------
    >>> import korisk as kr
    >>> curve = kr.Curve([16, 32, 64, 128], [0.2, 0.1, 0.05, 0.025], model="net")
    >>> kr.report.to_html(kr.plan(curve, target=0.02), "plan.html").name
    'plan.html'
    """
    file = page_file(path)
    goal = getattr(answer, "target", None) if target is None else target
    comparison = getattr(answer, "comparison", answer)  # of an ablation
    if isinstance(comparison, Comparison):
        layer = getattr(answer, "layer", "")
        facts = [answer.target_sentence, answer.bound_sentence, *answer.notes] if layer else []
        write_text(file, comparison_page(comparison, title, target, layer=layer, facts=facts))
        return file
    view, trained = _forecast_of(answer)
    name = title or view.evidence.name
    write_text(file, plans_page([view], title=name, trained=[trained], target=goal))
    return file


def _forecast_of(answer: Any) -> tuple[Forecast, Trained]:
    """The forecast of an answer, and what its pilot says of the training."""
    if isinstance(answer, Plan):
        return answer.forecast, (answer.training, answer.longer)
    if isinstance(answer, Curve):
        return forecast(answer), (None, None)
    if isinstance(answer, Forecast):
        return answer, (None, None)
    if not isinstance(answer, Reported) or not hasattr(answer, "forecast"):
        raise invalid("answer", "be a plan, or what a plan is made of", answer, "make one first")
    view: Forecast = answer.forecast()  # of a pilot or a rehearsal
    return view, (getattr(answer, "training", None), getattr(answer, "longer", None))


def comparison_page(
    comparison: Comparison,
    title: str = "",
    target: float | None = None,
    *,
    layer: str = "",
    facts: Sequence[str] = (),
) -> str:
    """The page of two models, which opens with the ratio of their samples.

    `layer` is the known operator that the second lacks, if that is what they differ in.
    """
    plans, names = (comparison.first, comparison.second), comparison.names
    # Both models may have the same name; those of the comparison tell them apart.
    views = [plan.forecast.renamed(name) for plan, name in zip(plans, names, strict=True)]
    kind = "ablation" if layer else "ratio"
    return plans_page(
        views,
        title=title or " and ".join(names),
        trained=[(plan.training, plan.longer) for plan in plans],
        target=comparison.target if target is None else target,
        kind="korisk ablate" if layer else "korisk compare",
        opens="ratio",
        question=words.question(kind, layer=layer, first=names[0], second=names[1]),
        facts=facts,
    )
