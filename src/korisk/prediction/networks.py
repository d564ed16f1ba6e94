"""Predict a study: linear models in closed form, its networks or a user's by training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from korisk import _checks
from korisk.curves.curve import Curve
from korisk.errors import Argument, KoriskError, did_you_mean, invalid, shown
from korisk.planning.fit import check_target
from korisk.planning.forecast import forecast
from korisk.prediction.prediction import FARTHEST_N
from korisk.prediction.rehearsal.callbacks import Callbacks
from korisk.prediction.rehearsal.rehearsal import Rehearsed
from korisk.prediction.study import (
    PointPrediction,
    image_notes,
    pilots_by_model,
    point_problem,
    point_specs,
    predict_study,
)
from korisk.store.usage import Meter

if TYPE_CHECKING:
    from torch import nn

    from korisk.prediction.answer import Question
    from korisk.problems.sources import FileSource
    from korisk.studies.spec.study import Study

Build = Callable[[], "nn.Module"]
Options = Mapping[str, Any]  # arguments of `rehearse`

_RECIPE = ("steps", "batch", "rate")  # of a network in a study


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a rehearsal starts from, of a study as of a single network."""

    question: Question
    source: FileSource | None = None
    noise: float | None = None
    pilots: Sequence[Curve] = ()
    examples: int = 256
    seed: int = 0
    callbacks: Callbacks = field(default_factory=Callbacks)


def study_networks(
    spec: Mapping[str, Any], problem: Any, device: str
) -> dict[str, tuple[Build, Options]]:
    """Builders of the networks of a study's point, with their steps, batch and rate."""
    import torch

    networks: dict[str, tuple[Build, Options]] = {}
    for name, settings in spec["models"].items():
        if "kind" in settings:
            shape = {key: value for key, value in settings.items() if key not in _RECIPE}
            build: Callable[[int], nn.Module] = problem.networks(device=device, **shape)
            recipe = {key: settings[key] for key in _RECIPE}

            # The seed comes from PyTorch's generator, which a rehearsal seeds for every network.
            def seeded(build: Callable[[int], nn.Module] = build) -> nn.Module:
                return build(int(torch.randint(2**31, ())))

            networks[name] = seeded, recipe
    return networks


def rehearse_study(
    study: Study,
    request: Request,
    *,
    options: Callable[[Options], Options],
    user_network: tuple[str, Build] | None = None,
    model: str | None = None,
    point: str | None = None,
    device: str = "cpu",
) -> list[PointPrediction]:
    """The points of a study, or one: linear models in closed form, networks by training."""
    from korisk.prediction.rehearsal.rehearse import rehearse

    specs = point_specs(study, point)
    curves, in_study = list(request.pilots), {"sizes", "seeds"} & set(study.content)
    if user_network is None:
        measured = pilots_by_model(curves, specs)
    else:
        if len(specs) > 1:
            many = f" is for one point, and the study has {len(specs)}: {', '.join(specs)}; name "
            raise KoriskError(Argument("build", ...), many, "it with ", Argument("point", ...))
        measured = _own_pilot(curves, user_network[0])
    images: dict[str, Any] = {"source": request.source, "noise": request.noise}
    points = []
    for name, spec in specs.items():
        meter, chosen = Meter(), set(spec["models"]) if model is None else {model}
        if not chosen <= set(spec["models"]):
            hint = did_you_mean(str(model), spec["models"])
            raise KoriskError(f"{name} has no model {shown(model)}{hint}")
        problem, described = point_problem(spec, **images)
        if user_network is None:
            builds = study_networks(spec, problem, device)
        else:
            builds = {user_network[0]: (user_network[1], {})}
        networks = {
            label: (build, options({key: study.content[key] for key in in_study} | dict(recipe)))
            for label, (build, recipe) in builds.items()
            if user_network is not None or label in chosen
        }
        # All checks come before the first training.
        for label, (_, arguments) in networks.items():
            refuse_early(request.question, arguments, measured.get(label))
        if user_network is None and chosen - set(networks):
            shared: dict[str, Any] = {"examples": request.examples, "seed": request.seed}
            shared |= {"pilots": curves, "device": device, "progress": request.callbacks.progress}
            (predicted,) = predict_study(study, point=name, **images, **shared)
            linear = (entry for entry in predicted.predictions if entry.model in chosen)
            predicted = replace(predicted, predictions=tuple(linear))
        else:  # networks alone: nothing is computed in closed form
            notes = tuple(image_notes(problem, spec, request.examples))
            settings = {**spec, "problem": described}
            predicted = PointPrediction(name, settings, (), "", 1, notes, meter.read())
        rehearsed = tuple(
            Rehearsed(
                rehearse(build, problem, model=label, callbacks=request.callbacks, **arguments),
                measured.get(label),
            )
            for label, (build, arguments) in networks.items()
        )
        if rehearsed:
            predicted = replace(predicted, rehearsed=rehearsed, caveats=(), usage=meter.read())
        points.append(predicted)
    return points


def rehearse_own(
    name: str, build: Build, defined: Mapping[str, Any], request: Request, options: Options
) -> PointPrediction:
    """A user's network behind the operator that is defined beside it."""
    from korisk.prediction.rehearsal.rehearse import rehearse
    from korisk.problems.problem import Problem

    meter, arguments = Meter(), {**defined, **options}
    if "operator" not in defined:
        remedy = "define operator = ... beside it, or give a study"
        raise KoriskError(f"{name} needs an operator, a LinearOperator or a Problem; {remedy}")
    pilot = _own_pilot(list(request.pilots), name).get(name)
    refuse_early(request.question, options, pilot)
    operator: Any = arguments.pop("operator")
    source, examples, notes = request.source, request.examples, list[str]()
    if request.noise is not None:
        arguments["noise"] = request.noise
    # Images of the source replace those of a problem, or become examples of an operator.
    if source is not None and isinstance(operator, Problem):
        changed: Any = operator
        operator = replace(changed, source=source)
    elif source is not None:
        shape = tuple(getattr(operator, "domain", ()))
        if len(shape) != 2 or len(set(shape)) > 1:
            got, remedy = f"an operator on {shape}", "or define images = ... beside the operator"
            raise invalid("images", "be read for a square image", shape, remedy, got=got)
        drawn = source.examples(shape[0], seed=request.seed, count=examples, device=None)
        arguments |= {"images": drawn.images, "patients": drawn.patients}
        if len(drawn.images) < examples:
            notes.append(f"There are {len(drawn.images):,} images, of {examples:,} asked for.")
    rehearsal = rehearse(build, operator, model=name, callbacks=request.callbacks, **arguments)
    spec: dict[str, Any] = {"problem": {}, "models": {}}
    return PointPrediction(
        name, spec, (), "", 1, tuple(notes), meter.read(), (), (Rehearsed(rehearsal, pilot),)
    )


def refuse_early(question: Question, options: Options, pilot: Curve | None) -> None:
    """Raise before hours of training for what the answer would refuse."""
    from korisk.prediction.rehearsal.rehearse import SIZES

    # N at which errors can be stated: the rehearsed range, or that of the pilot's forecast.
    least, most = min(options.get("sizes", SIZES)), FARTHEST_N
    remedy = "smaller N are not rehearsed; give a pilot"
    if pilot is not None:
        least, most, remedy = 2, int(forecast(pilot).horizon), "measure a larger pilot"
        for target in question.targets:
            check_target([pilot], target)
    for n in question.at:
        _checks.count("at", n, at_least=least, at_most=most, remedy=remedy)


def _own_pilot(pilots: Sequence[Curve], name: str) -> dict[str, Curve]:
    """The pilot of a user's own network: the only one, or that of its name."""
    curves = [curve for curve in pilots if curve.model == name] or list(pilots)
    if len(curves) > 1:
        got = ", ".join(curve.model for curve in pilots)
        raise invalid("pilot", f"have one curve, or one of {name!r}", got, "remove the others")
    return {name: curves[0]} if curves else {}
