"""`korisk rehearse`: learning curves before any scan, from an operator, images and noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from korisk._json import JsonDict
from korisk.cli.common import options, output
from korisk.cli.common.messages import tell
from korisk.cli.common.training import Recipe, Simulated, Subject, training
from korisk.curves.curve import Curve
from korisk.errors import Argument, KoriskError
from korisk.files import make_folder
from korisk.studies.run.compute import chosen_device

if TYPE_CHECKING:
    from korisk.prediction.study import PointPrediction, Question


@dataclass(frozen=True)
class Asked(options.Asked):
    """What is asked of a rehearsal, in one of its metrics."""

    target: Annotated[list[float] | None, "E", "A value of the metric to reach."] = None
    metric: options.Metric = "mse"
    data_range: options.Range = None


def rehearse(
    subject: Subject,
    simulated: Simulated,
    pilot: Annotated[Path | None, "FILE", "Measured errors: n, error, model, seed."] = None,
    column: options.Column = None,
    *,
    recipe: Recipe,
    asked: Asked,
    answer: options.Answer,
    out: Annotated[Path | None, "DIR", "Write prediction.json there, for a report."] = None,
) -> None:
    """How many samples will a target need? The learning curve before a scan is made.

    From an operator, its noise and some example images, which simulate pairs: linear models of a
    study are fitted to them exactly, networks are trained. A small real pilot narrows it.
    """
    # Imported here: SciPy takes longer to load than the command line itself.
    from korisk.prediction import answer as words
    from korisk.prediction.rehearsal.rehearsal import far_from
    from korisk.prediction.study import Question, rehearse_own, rehearse_study, study_to_rehearse

    options_of_question = {**vars(asked), "at": asked.at or ()}
    question = Question(targets=options_of_question.pop("target") or (), **options_of_question)
    if out is not None and (subject.path is None or asked.metric != "mse"):
        raise KoriskError("--out is for the report of a study, in the mse; leave it out")
    # Before any training: a file that cannot be written should fail at once.
    answer.check(question.targets)
    device = chosen_device(recipe.device)
    study = None if subject.path is None else study_to_rehearse(subject.path)
    count = len({task.point for task in study.tasks}) if study else 1
    if answer.plot is not None and subject.point is None and count > 1:
        many = f"--plot is for one point, and the study has {count}"
        raise KoriskError(f"{many}; add one with --point")
    request, arguments = simulated.request(study, recipe), partial(recipe.arguments, device=device)
    if out is not None:
        make_folder(out)
    with training(subject, recipe, quiet=answer.json) as callbacks:
        pilots = _measured(pilot, column, asked.metric)
        request = replace(request, question=question, pilots=pilots, callbacks=callbacks)
        network, data = subject.own()
        if study is None:
            assert network is not None
            points = [rehearse_own(*network, data, request, arguments({}))]
        else:
            chosen: JsonDict = {"model": subject.model, "point": subject.point, "device": device}
            chosen |= {"options": arguments, "user_network": network}
            points = rehearse_study(study, request, **chosen)
    far = (far_from(point.forecasts, goal) for point in points for goal in question.targets)
    if far_off := next(filter(None, far), ""):  # shown as without a target, and asked at the end
        question = replace(question, targets=())
    _show(points, question, answer, points[0].name if study is None else study.name, out)
    # Last: these set the exit code, and the answers are shown all the same.
    if far_off:
        raise KoriskError(far_off)
    output.exit_if(not words.reaches(points, question))


def _measured(path: Path | None, column: list[str] | None, metric: str) -> Sequence[Curve]:
    """The curves of a pilot; of several metrics, those of the one that is asked for."""
    if path is None:
        if column:
            raise KoriskError("--column is of a pilot; give --pilot FILE, or leave it out")
        return ()
    read = partial(Curve.read_all, path, columns=options.columns(column))
    try:
        return read()
    except KoriskError:
        # Naming the metric helps where there are several; any other error is raised again.
        try:
            return read(metric=metric)
        except KoriskError as error:
            # The library says `unit`, which is the unit of images in this command.
            arguments = [x.name for x in error.message.parts if isinstance(x, Argument)]
            if "unit" not in arguments:
                raise
            remedy = "name the column of errors mse, rmse, nmse or psnr, with --column error="
            raise KoriskError(f"{path}: the metric is not clear; {remedy}") from None


def _show(
    points: Sequence[PointPrediction],
    question: Question,
    answer: options.Answer,
    name: str,
    out: Path | None,
) -> None:
    """Print the answers, draw them, and write the files that were asked for."""
    from korisk.prediction import answer as words
    from korisk.prediction.record import prediction_content, write_prediction

    # Not for tables alone: a record evaluates every forecast once more.
    content: JsonDict = {}
    if answer.json or out is not None:
        content = prediction_content(name, [point.to_dict(question) for point in points])
    if answer.json:
        output.print_json(content)
    else:
        for point in points:
            output.show(*words.point_lines(point, question))
            output.show(*words.point_tables(point, question))
        output.show_numbers(t for point in points for t in words.point_numbers(point, question))
        output.show(*(text for point in points for text in words.point_sentences(point)))
    if answer.plot is not None:
        from korisk.report.figures.forecast import plans_figure

        goal = next(iter(question.targets), points[0].targets[0])
        output.save_plot(plans_figure(points[0].plans(goal), sure=question.sure), answer.plot)
    if answer.html is not None:
        from korisk.report.page.prediction import rehearsal_page

        output.write_page(answer.html, lambda: rehearsal_page(points, question, title=name))
    if out is not None:
        tell(f"wrote {write_prediction(out, content)}")
