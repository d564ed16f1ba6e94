"""Rehearsals of a study, or of a user's own network, as values, JSON and a file.

`rehearse_study` returns a `PointPrediction` for each operating point: KO and FC are fitted exactly,
networks are trained. `korisk rehearse --out` writes them to `prediction.json`, which a report reads
back as a `PredictionRecord`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from korisk import _checks
from korisk._json import JsonDict, JsonMapping
from korisk.curves.curve import Curve
from korisk.errors import Argument, KoriskError, did_you_mean, invalid, shown
from korisk.files import read_yaml
from korisk.planning.forecast import check_goal, check_target, level_of
from korisk.planning.plan import Forecast, Plan, forecast
from korisk.prediction.rehearsal.callbacks import Callbacks
from korisk.prediction.rehearsal.rehearsal import FARTHEST_N, UNIT_OF, Rehearsal, metric_of
from korisk.store.usage import Meter, Usage
from korisk.studies.spec.registry import problem_of
from korisk.studies.spec.study import Study

if TYPE_CHECKING:
    from torch import nn

    from korisk.problems.sources import FileSource

Build = Callable[[], "nn.Module"]
Options = JsonMapping  # arguments of `rehearse`

_DRAWN = 2  # sizes per doubling of N at which a curve is drawn
_BEYOND = 4  # a curve is drawn up to this multiple of the largest known N
_RECIPE = ("steps", "batch", "rate")  # of a network in a study


def study_to_rehearse(path: str | PathLike[str], content: Any = None) -> Study:
    """The study of a file, or of its content; its problem and points are enough.

    There may be fewer images than its training sets need, since none of them is trained.
    """
    content = read_yaml(path) if content is None else content
    if not isinstance(content, dict):
        hint = "see docs/reference/study.md"
        raise KoriskError(f"{path} must contain keys such as name and points; {hint}")
    content.setdefault("name", Path(path).stem)
    return Study(content, source=path, ran=True, folder=Path(path).parent)


@dataclass(frozen=True, kw_only=True)
class Question:
    """The targets and sizes to report for every point, in a metric of `Rehearsal.in_metric`.

    Without targets, examples are shown; without sizes `at`, those that were rehearsed. `data_range`
    is for psnr: the largest minus the smallest value that an image can have.
    """

    targets: Sequence[float] = ()
    at: Sequence[float] = ()
    sure: float = 0.9
    metric: str = "mse"
    data_range: float | None = None

    def __post_init__(self) -> None:
        _checks.one_of("metric", self.metric, tuple(UNIT_OF))
        if self.data_range is not None and self.metric != "psnr":
            rest = f" is of psnr, and the metric is {self.metric}; leave it out"
            raise KoriskError(Argument("data_range"), rest)
        remedy = f"give the {self.metric} to reach"
        goals = [_checks.real("target", goal, above=0, remedy=remedy) for goal in self.targets]
        level_of(self.sure)
        _checks.set_fields(self, targets=list(dict.fromkeys(goals)), at=sorted(set(self.at)))


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a rehearsal starts from, of a study as of a single network.

    Parameters
    ----------
    question : Question, optional
        Targets and sizes to report.
    source : FileSource, optional
        Images that replace the study's.
    noise : float, optional
        Level of Gaussian noise relative to the input's root mean square, instead of the study's.
    pilots : sequence of Curve, default ()
        Measured errors, named after the models of the one point that is rehearsed.
    examples : int, default 256
        Number of example images, 12 at least.
    seed : int, default 0
        Random seed of the images and their noise.
    callbacks : Callbacks, optional
        Whom to tell of progress.
    """

    question: Question = field(default_factory=Question)
    source: FileSource | None = None
    noise: float | None = None
    pilots: Sequence[Curve] = ()
    examples: int = 256
    seed: int = 0
    callbacks: Callbacks = field(default_factory=Callbacks)


def study_networks(
    spec: JsonMapping, problem: Any, device: str
) -> dict[str, tuple[Build, JsonDict]]:
    """Builders of the models of a study's point, with steps, batch and rate of its networks."""
    import torch

    from korisk.networks import DenseNet, KnownOperatorNet

    networks: dict[str, tuple[Build, JsonDict]] = {}
    linear = any("kind" not in settings for settings in spec["models"].values())
    known = problem.reconstruction(device) if linear else None
    for name, settings in spec["models"].items():
        if "kind" in settings:
            shape = {key: value for key, value in settings.items() if key not in _RECIPE}
            build: Callable[[int], nn.Module] = problem.networks(device=device, **shape)

            # The seed comes from PyTorch's generator, which a rehearsal seeds for every network.
            def seeded(build: Callable[[int], nn.Module] = build) -> nn.Module:
                return build(int(torch.randint(2**31, ())))

            networks[name] = seeded, {key: settings[key] for key in _RECIPE}
            continue
        assert known is not None
        (weights, tail), relu = known, bool(settings.get("relu"))
        if name == "KO":
            start = weights if settings.get("toward", "analytic") == "analytic" else 0 * weights
            networks[name] = partial(KnownOperatorNet, start, tail, relu=relu), {}
            continue
        # In factors that are empty: a fit in dual form needs no matrix, which may be huge.
        output = tail[-1].range
        empty = weights.new_zeros(math.prod(output), 0), weights.new_zeros(0, weights.numel())
        networks[name] = partial(DenseNet.factored, *empty, weights.shape, output, relu), {}
    return networks


def rehearse_study(
    study: Study,
    request: Request | None = None,
    *,
    options: Callable[[Options], Options] = dict,
    user_network: tuple[str, Build] | None = None,
    model: str | None = None,
    point: str | None = None,
    device: str = "cpu",
) -> list[PointPrediction]:
    """Rehearse the points of a study, or one: its models, or a user's network in their place.

    Parameters
    ----------
    study : Study
        Problem and points; see `study_to_rehearse`.
    request : Request, optional
        Question, images, noise and pilots.
    options : callable, optional
        From the sizes, seeds and recipe of a study to arguments of `rehearse`. Default: as they
        are.
    user_network : (str, callable), optional
        Name and builder of a network that is rehearsed instead of the study's.
    model : str, optional
        Name of one model. Default: every model.
    point : str, optional
        Name of one point. Default: every point.
    device : str, default "cpu"
        Where PyTorch computes.

    Returns
    -------
    list of PointPrediction
        One for each point.

    Raises
    ------
    KoriskError
        If an argument does not fit the study.

    Examples
    --------
    >>> import korisk as kr
    >>> study = {"name": "heat", "problem": {"kind": "pde", "points": 8}, "points": [{}]}
    >>> few = {"sizes": [4, 8, 16], "seeds": [1, 2]}
    >>> (point,) = kr.prediction.rehearse_study(kr.studies.Study(study | few))
    >>> [view.model for view in point.forecasts], point.forecasts[0].at(16).n
    (['KO', 'FC'], 16)
    """
    request = request or Request()
    specs, in_study = point_specs(study, point), {"sizes", "seeds"} & set(study.content)
    for argument, alone in (("build", user_network is not None), ("pilot", bool(request.pilots))):
        if alone and len(specs) > 1:
            many = f" is for one point, and the study has {len(specs)}: {', '.join(specs)}; name "
            raise KoriskError(Argument(argument, ...), many, "it with ", Argument("point", ...))
    points = []
    for name, spec in specs.items():
        chosen = set(spec["models"]) if model is None else {model}
        if not chosen <= set(spec["models"]):
            hint = did_you_mean(str(model), spec["models"])
            raise KoriskError(f"{name} has no model {shown(model)}{hint}")
        problem, described = point_problem(spec, request)
        if user_network is None:
            builds = study_networks(spec, problem, device)
            builds = {label: builds[label] for label in builds if label in chosen}
        else:
            builds = {user_network[0]: (user_network[1], {})}
        networks = {}
        for label, (build, recipe) in builds.items():
            arguments = options({key: study.content[key] for key in in_study} | recipe)
            networks[label] = build, {**arguments, "operator": problem}
        source, side = getattr(problem, "source", None), spec["problem"].get("side")
        notes = *_image_notes(source, side), *_notes(spec, networks)
        pilots = pilots_of(request.pilots, list(spec["models"] if user_network is None else builds))
        settings = {**spec, "problem": described}
        points.append(_rehearsed(name, settings, networks, request, pilots, notes))
    return points


def _rehearsed(
    name: str,
    spec: JsonMapping,
    networks: Mapping[str, tuple[Build, Options]],
    request: Request,
    pilots: Mapping[str, Curve],
    notes: tuple[str, ...] = (),
) -> PointPrediction:
    """Rehearse the networks of a point, with the arguments of each; all checks come first."""
    from korisk.prediction.rehearsal.rehearse import rehearse

    meter, question, rehearsals = Meter(), request.question, []
    for label, (_, arguments) in networks.items():
        refuse_early(question, arguments, pilots.get(label))
    for label, (build, arguments) in networks.items():
        rehearsal = rehearse(build, model=label, callbacks=request.callbacks, **arguments)
        rehearsals.append(rehearsal.in_metric(question.metric, question.data_range))
    views = tuple(item.forecast(pilots.get(item.curve.model)) for item in rehearsals)
    return PointPrediction(name, spec, tuple(rehearsals), views, notes, meter.read())


def point_specs(study: Study, point: str | None) -> dict[str, JsonMapping]:
    """The settings of every point of a study by name, or of the one that is named."""
    specs = {task.point: task.spec for task in study.tasks}
    if point is None:
        return specs
    if point not in specs:
        raise KoriskError(f"the study has no point {shown(point)}{did_you_mean(point, specs)}")
    return {point: specs[point]}


def point_problem(spec: JsonMapping, request: Request) -> tuple[Any, dict[str, Any]]:
    """The problem of a point with the noise and images of a request, and its settings."""
    described = dict(spec["problem"])
    if request.noise is not None:
        level = _checks.real(
            "noise", request.noise, at_least=0, remedy="give it over the input's RMS"
        )
        if "noise" not in described:
            without = f"a {described['kind']} problem has no noise; leave "
            raise KoriskError(without, Argument("noise", ...), " out")
        # Some kinds take a plain deviation, others a noise with a named kind.
        gaussian = {"gaussian": level} if level else None
        plain = isinstance(described["noise"], float)  # a standard deviation, of no named kind
        described["noise"] = level if plain else gaussian
    problem: Any = problem_of({**spec, "problem": described})
    if request.source is not None:
        problem, _ = with_images(problem, request.source, request.examples, request.seed)
        described |= {"population": "images", "images": {"path": request.source.path}}
    return problem, described


def pilots_of(pilots: Sequence[Curve], models: Sequence[str]) -> dict[str, Curve]:
    """Measured curves by the name of their model; a single one is that of a single model."""
    by_model = {curve.model: curve for curve in pilots if curve.model in models}
    if len(pilots) == len(models) == 1:
        by_model = {models[0]: pilots[0]}
    others = [curve.model for curve in pilots if curve.model not in models]
    # A table may have further models beside the only one that is asked about.
    if others and (len(models) > 1 or not by_model):
        got = f"a pilot must be of {', '.join(models)}, got {shown(others[0])}"
        raise KoriskError(f"{got}; name it in a column model{did_you_mean(others[0], models)}")
    return by_model


def rehearse_own(
    name: str, build: Build, defined: Mapping[str, Any], request: Request, options: Options
) -> PointPrediction:
    """A user's network behind the operator that is defined beside it."""
    arguments = {**own_arguments(name, defined, request), **options}
    spec: dict[str, Any] = {"problem": {}, "models": {}}
    pilots, operator = pilots_of(request.pilots, [name]), arguments["operator"]
    side = getattr(operator, "side", None)  # of a problem, which has images of its own
    if side is None and request.source is not None:
        side = operator.domain[-1]
    notes = tuple(_image_notes(request.source or getattr(operator, "source", None), side))
    return _rehearsed(name, spec, {name: (build, arguments)}, request, pilots, notes)


def own_arguments(name: str, defined: Mapping[str, Any], request: Request) -> JsonDict:
    """Operator, images and noise of a user's network, with those of a request in their place."""
    arguments = dict(defined)
    if "operator" not in defined:
        remedy = "define operator = ... beside it, or give a study"
        raise KoriskError(f"{name} needs an operator, a LinearOperator or a Problem; {remedy}")
    if request.noise is not None:
        arguments["noise"] = request.noise
    if request.source is not None:
        operator, examples = arguments["operator"], (request.source, request.examples, request.seed)
        arguments["operator"], drawn = with_images(operator, *examples)
        arguments |= drawn
    return arguments


def with_images(
    operator: Any, source: FileSource, count: int, seed: int
) -> tuple[Any, dict[str, Any]]:
    """A problem with other images; or an operator, with examples and their patients."""
    from korisk.problems.problem import Problem

    if isinstance(operator, Problem):
        if getattr(operator, "population", "ellipses") != "ellipses" or not hasattr(
            operator, "source"
        ):
            fixed = f"the images of {type(operator).__name__} are fixed; leave "
            raise KoriskError(fixed, Argument("images", ...), " out")
        changed: Any = operator
        return replace(changed, source=source), {}
    from korisk.operators.linear import LinearOperator
    from korisk.prediction.rehearsal.simulation import ADAPTED, OPERATORS, square_side

    if not isinstance(operator, LinearOperator):
        raise invalid("operator", OPERATORS, operator, ADAPTED)
    shape = operator.domain
    if (side := square_side(shape)) is None:
        got, remedy = f"an operator on {shape}", "or define images = ... beside the operator"
        raise invalid("images", "be read for a square image", shape, remedy, got=got)
    images, patients = source.examples(side, seed=seed, count=count)
    return operator, {"images": images.reshape(-1, *shape), "patients": patients}


def refuse_early(question: Question, options: Options, pilot: Curve | None) -> None:
    """Raise before hours of training for what the answer would refuse."""
    from korisk.prediction.rehearsal.rehearse import SIZES

    # N at which errors can be stated: the rehearsed range, or that of the pilot's forecast.
    least, most = min(options.get("sizes", SIZES)), FARTHEST_N
    remedy = "smaller N are not rehearsed; give a pilot"
    if pilot is not None:
        least, most, remedy = 2, int(forecast(pilot).horizon), "measure a larger pilot"
        if metric_of(pilot) == question.metric:
            for target in question.targets:
                check_target([pilot], target)
    for n in question.at:
        _checks.count("at", n, at_least=least, at_most=most, remedy=remedy)


def _image_notes(source: object, side: int | None) -> Iterator[str]:
    """Whether images from files are a mixture, or blank."""
    from korisk.problems.sources import FileSource
    from korisk.texts import counted

    if isinstance(source, FileSource) and side is not None:
        images = source.usable(side)
        if (mixture := images.mixture()) is not None:
            yield mixture
        if blank := sum(page.blank for page in images.skipped):
            yield (
                f"Left out: {counted(blank, 'blank image')} of {len(images) + blank:,}, which show "
                "the same everywhere, or nearly; --blank keep, or blank: keep in a study, keeps "
                "what is not the same everywhere."
            )


def _notes(spec: JsonMapping, names: Mapping[str, object]) -> Iterator[str]:
    """How the rehearsal differs from the study."""
    known = spec["models"].get("KO", {}) if "KO" in names else {}
    if known.get("fit") == "gradient":
        yield (
            "The study trains KO by gradients; it is rehearsed with the exact fit, which long "
            "training approaches."
        )
    elif known.get("relu") and known.get("refine"):
        yield (
            "The study refines KO with the ReLU in its loss; it is rehearsed without that, and may "
            "come out a little better."
        )
    if spec["metric"] != "mse":
        yield f"The study measures {spec['metric']}; the rehearsal is of the mse."


@dataclass(frozen=True, eq=False)
class PointPrediction:
    """The rehearsed models of one operating point, before a scan is made."""

    name: str
    spec: JsonMapping
    rehearsals: tuple[Rehearsal, ...]
    forecasts: tuple[Forecast, ...]
    notes: tuple[str, ...]
    usage: Usage

    @property
    def images(self) -> str:
        """What was simulated, in words."""
        return self.rehearsals[0].simulated.partition(";")[0]

    @cached_property
    def targets(self) -> tuple[float, ...]:
        """Targets for users who name none: what each model reaches at its largest N."""
        return tuple(dict.fromkeys(item.target for item in self.rehearsals))

    def plans(self, target: float) -> tuple[Plan, ...]:
        """How many samples each model needs; the target may be in the range of one alone."""
        check_goal(self.forecasts, target)
        return tuple(Plan(view, float(target)) for view in self.forecasts)

    def to_dict(self, question: Question) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        settings, usage = self.spec["models"], self.usage
        by_target, models = [self.plans(goal) for goal in question.targets or self.targets], []
        for index, (item, view) in enumerate(zip(self.rehearsals, self.forecasts, strict=True)):
            plans = [of_target[index] for of_target in by_target]
            sizes = question.at or item.curve.sizes.tolist()
            pilot, means = view.curve, zip(*_means(item.curve), strict=True)
            checks = () if pilot is None else zip(*_means(pilot), strict=True)
            models.append(
                {"relu": bool(settings.get(view.model, {}).get("relu")), "how": "rehearsed"}
                | item.to_dict()
                | {
                    "errors": [vars(view.at(n)) for n in sizes],
                    "samples": [plan.to_dict(question.sure) for plan in plans],
                    "track": [vars(view.at(n)) for n in drawn_sizes(view)],
                    "rehearsal": [{"n": n, "measured": mean} for n, mean in means],
                    "checks": [{"n": n, "measured": mean} for n, mean in checks],
                    "notes": list(view.notes),
                }
            )
        return {
            "point": self.name,
            "problem": dict(self.spec["problem"]),
            "images": self.images,
            "examples": max(int(item.curve.sizes[-1]) for item in self.rehearsals),
            "metric": self.rehearsals[0].curve.metric,
            "models": models,
            "notes": list(self.notes),
            "seconds": usage.seconds,
            "peak_memory": usage.peak_memory,
            "device_memory": usage.device_memory,
        }


def _means(curve: Curve) -> tuple[list[int], list[float]]:
    return curve.sizes.tolist(), curve.unit.from_error(curve.means).tolist()


def drawn_sizes(view: Forecast) -> list[int]:
    """N at which a curve is drawn, two for each doubling, some way beyond the rehearsal."""
    first, end = float(view.sizes[0]), float(min(_BEYOND * view.last, FARTHEST_N))
    steps = max(2, math.ceil(_DRAWN * math.log2(end / first)))
    return sorted({round(n) for n in np.geomspace(first, end, 1 + steps).tolist()})
