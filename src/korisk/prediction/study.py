"""The learning curves of a study before a scan is made; as values, JSON and a file.

`predict_study` returns a `PointPrediction` for each operating point, to which networks that were
rehearsed by training may be added. `korisk rehearse --out` writes them to `prediction.json`, which
a report reads back as a `PredictionRecord`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from korisk import _checks
from korisk._json import JsonMapping
from korisk._show import Reported
from korisk.curves.curve import Curve
from korisk.errors import Argument, KoriskError, MissingExtraError, did_you_mean, shown
from korisk.files import read_yaml
from korisk.prediction.pair import PredictedPair, error_rows
from korisk.prediction.prediction import PredictedPlan, Prediction, finite_or_none, trust_words
from korisk.store.usage import Meter, Usage
from korisk.studies.spec.kind import entries
from korisk.studies.spec.study import Study, problem_of

if TYPE_CHECKING:
    from korisk.prediction.rehearsal.rehearsal import Rehearsed
    from korisk.problems.sources import FileSource

_MOST_EXAMPLES = 10**4  # all pairs of examples are compared
# Default targets lie these shares of the way above the floor, up to the error at N = examples.
_TARGETS = (0.5, 0.1)
_LEAST_DISTANCE = 0.05  # least length of that way relative to the error, at a floor already reached
_LINEAR = (
    "KO and FC are linear here, up to a last ReLU; a CNN behind the known operator may need far "
    "fewer samples: rehearse it too, with --network FILE.py:BUILD, kr.rehearse in Python."
)
_METRICS = ("", "mse", "mean_squared_error", "error")

Progress = Callable[[str, float], None]  # what is being computed, and the share that is done


def study_to_predict(path: str | PathLike[str]) -> Study:
    """The study of a file; its problem and points are enough.

    There may be fewer images than its training sets need, since nothing is trained.
    """
    content = read_yaml(path)
    if not isinstance(content, dict):
        hint = "see docs/reference/study.md"
        raise KoriskError(f"{path} must contain keys such as name and points; {hint}")
    content.setdefault("name", Path(path).stem)
    return Study(content, source=path, ran=True, folder=Path(path).parent)


def predict_study(
    study: Study | str | PathLike[str],
    *,
    examples: int = 256,
    seed: int = 0,
    point: str | None = None,
    source: FileSource | None = None,
    noise: float | None = None,
    pilots: Iterable[Curve] = (),
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[PointPrediction]:
    """Predict the curves of every point of a study, or of one.

    Parameters
    ----------
    study : Study or path
        The study, or its YAML file.
    examples : int, default 256
        Number of example images, from 8 to 10,000.
    seed : int, default 0
        Random seed of the images and their noise.
    point : str, optional
        Name of one point. Default: every point.
    source : FileSource, optional
        Images that replace the study's.
    noise : float, optional
        Level of Gaussian noise relative to the input's root mean square, instead of the study's.
    pilots : iterable of Curve, optional
        Measured mean squared errors, named after the models of the one point that is predicted.
    device : str, default "cpu"
        Where PyTorch computes.
    progress : callable, optional
        Called with what is being computed and the share that is done.

    Returns
    -------
    list of PointPrediction
        One for each point; their `predictions` are of the models.

    Raises
    ------
    KoriskError
        If an argument does not fit the study, or its problem is not linear.

    Examples
    --------
    >>> import korisk as kr
    >>> points = [{"name": "eight sensors"}]
    >>> study = {"name": "heat", "problem": {"kind": "pde", "points": 8}, "points": points}
    >>> (found,) = kr.prediction.predict_study(kr.studies.Study(study), examples=64)
    >>> found.name, [made.model for made in found.predictions]
    ('eight sensors', ['KO', 'FC'])
    """
    remedy = "64 give a first idea, 256 a good one"
    count = _checks.count("examples", examples, at_least=8, at_most=_MOST_EXAMPLES, remedy=remedy)
    _checks.count("seed", seed, at_least=0, at_most=2**31, remedy="give one such as 1")
    _checks.function_or_none("progress", progress)
    specs = point_specs(study if isinstance(study, Study) else study_to_predict(study), point)
    measured = pilots_by_model(list(pilots), specs)
    for name, spec in specs.items():
        if all("kind" in settings for settings in spec["models"].values()):
            got = f"{', '.join(spec['models'])} alone at {name}"
            remedy = "rehearse such networks with korisk rehearse, kr.rehearse in Python"
            raise KoriskError(f"a prediction is of KO and FC, got {got}; {remedy}")
    try:
        import torch
    except ModuleNotFoundError as missing:
        raise MissingExtraError(
            "a prediction needs PyTorch, which is not installed; pip install 'korisk[torch]'"
        ) from missing
    from korisk._memory import check_memory
    from korisk.prediction.api import dense_prediction, known_prediction

    watch = progress or (lambda what, share: None)
    points = []
    for name, spec in specs.items():
        meter = Meter()
        watch(name, 0.0)
        problem, described = point_problem(spec, source=source, noise=noise)
        # Examples are drawn on the device, and their moments are taken on the CPU.
        needed = _example_bytes(count, *entries(described))
        for place in {device, "cpu"}:
            what = f"a prediction from {count:,} examples"
            check_memory(needed, torch.device(place), what, "use fewer or smaller images")
        predictions = []
        with torch.no_grad():
            try:
                drawn = problem.examples(seed=seed, count=count, device=device)
            except OverflowError:
                raise KoriskError("noise is too large; bring it to a reasonable size") from None
            reconstruction = problem.reconstruction(device)
            for model, settings in spec["models"].items():
                if "kind" in settings:  # not linear: to be rehearsed by training
                    continue
                shared: dict[str, Any] = {
                    "relu": bool(settings.get("relu")),
                    "pilot": measured.get(model),
                    "progress": partial(watch, f"{name}: {model}"),
                }
                if model == "KO":
                    shared["toward"] = settings.get("toward", "analytic")
                    predictions.append(known_prediction(drawn, reconstruction, **shared))
                else:
                    predictions.append(dense_prediction(drawn, **shared))
        # What the images are, in words.
        kinds = {"ellipses": "phantoms", "released-surrogate": "phantoms", "images": "images"}
        kind = kinds.get(described.get("population", ""), "random fields")
        whose = len(set(drawn.patients or range(len(drawn))))
        of_patients = f" of {whose:,} patients" if whose < len(drawn) else ""
        settings, images = {**spec, "problem": described}, f"{len(drawn):,} {kind}{of_patients}"
        pixels = math.prod(reconstruction.tail[-1].range)
        notes = (*image_notes(problem, spec, count, len(drawn)), *_notes(spec))
        linear = tuple(predictions)
        points.append(PointPrediction(name, settings, linear, images, pixels, notes, meter.read()))
    return points


def point_specs(study: Study, point: str | None) -> dict[str, JsonMapping]:
    """The settings of every point of a study by name, or of the one that is named."""
    specs = {task.point: task.spec for task in study.tasks}
    if point is None:
        return specs
    if point not in specs:
        raise KoriskError(f"the study has no point {shown(point)}{did_you_mean(point, specs)}")
    return {point: specs[point]}


def point_problem(
    spec: JsonMapping, *, source: FileSource | None, noise: float | None
) -> tuple[Any, dict[str, Any]]:
    """The problem of a point with other images or noise, and its settings."""
    described = dict(spec["problem"])
    if noise is not None:
        level = _checks.real("noise", noise, at_least=0, remedy="give it over the input's RMS")
        if "noise" not in described:
            without = f"a {described['kind']} problem has no noise; leave "
            raise KoriskError(without, Argument("noise", ...), " out")
        # Some kinds take a plain deviation, others a noise with a named kind.
        gaussian = {"gaussian": level} if level else None
        plain = isinstance(described["noise"], float)  # a standard deviation, of no named kind
        described["noise"] = level if plain else gaussian
    problem: Any = problem_of({**spec, "problem": described})
    if source is not None:
        if described.get("population") not in ("ellipses", "images"):
            fixed = f"the images of this {described['kind']} problem are fixed; leave "
            raise KoriskError(fixed, Argument("source", ...), " out")
        problem = replace(problem, source=source)
        described |= {"population": "images", "images": {"path": source.path}}
    return problem, described


def _example_bytes(count: int, pixels: int, inputs: int) -> int:
    """Bytes of examples and of the copies that moments and rehearsals take on the CPU."""
    return count * (5 * pixels + 3 * inputs) * 8 + 8 * count**2


def expected_cost(
    study: Study, *, examples: int = 256, point: str | None = None, device: str = "cpu"
) -> tuple[float, int]:
    """Seconds and bytes that a prediction will take, roughly, before it starts.

    The seconds are those of two CPU cores that others use too: KO and FC took 40 and 23 s at 128
    pixels (7,680 inputs, 256 examples; 23 and 17 s of quiet cores), 1.5 and 3 s at 32 (1,280), and
    rehearsals of 1,024 examples, which are the most, 20 s. Without a stored normal matrix, 200 s of
    KO at 96 pixels (13,824 inputs) are a guess from a busy machine. Between, KO grows as a matrix
    is decomposed, FC as vectors of its inputs and images are; a GPU took a 13th. The bytes are of
    examples, of vectors of inputs and of the normal matrix, above what Python takes.
    """
    seconds, most = 0.0, 0
    for name, spec in {task.point: task.spec for task in study.tasks}.items():
        if point in (None, name):
            pixels, inputs = entries(spec["problem"])
            working = 0
            for model, settings in spec["models"].items():
                if model == "KO":  # cubic where the normal matrix is stored, else by products
                    stored = inputs <= 8192
                    seconds += (
                        1 + 40 * (inputs / 7680) ** 3 if stored else 5.7e-5 * inputs * examples
                    )
                    working = max(working, 16 * inputs**2 if stored else 64 * inputs * examples)
                elif model == "FC":
                    large = inputs > 3000
                    spent = (inputs + pixels) / 1046 if large else 3 * (inputs / 1280) ** 2
                    spent += 20 * (min(examples, 1024) / 1024) ** 2
                    seconds += spent * (1.5 if settings.get("relu") else 1.0)
                    working = max(working, 8 * inputs * (3800 if large else 4 * inputs))
            most = max(most, 4 * 10**8 + _example_bytes(examples, pixels, inputs) + working)
    return seconds / (1 if device == "cpu" else 13), most


def pilots_by_model(pilots: Sequence[Curve], specs: Mapping[str, JsonMapping]) -> dict[str, Curve]:
    """Measured curves by the name of their model."""
    if pilots and len(specs) > 1:
        raise KoriskError(
            f"pilots are of one point, and the study has {len(specs)}: {', '.join(specs)}; name "
            "it with ",
            Argument("point", ...),
        )
    # A single pilot without a name belongs to a single model.
    models = list(next(iter(specs.values()))["models"])
    by_model: dict[str, Curve] = {}
    for curve in pilots:
        model = curve.model or (models[0] if len(models) == len(pilots) == 1 else "")
        if model not in models:
            raise KoriskError(
                f"a pilot must be of one of the study's models, got {shown(curve.model)}; add a "
                f"column model{did_you_mean(model, models)}"
            )
        if curve.metric.casefold().replace(" ", "_") not in _METRICS:
            metric = f"and the pilot is of {shown(curve.metric)}; give the pilot's mse"
            raise KoriskError(f"a prediction is of mean squared errors, {metric}")
        by_model[model] = curve
    return by_model


def image_notes(
    problem: Any, spec: JsonMapping, requested: int, available: float = math.inf
) -> Iterator[str]:
    """How the images differ from the requested ones; files tell how many there are."""
    from korisk.problems.sources import FileSource
    from korisk.texts import counted

    # Only images from files can be mixed, blank or too few.
    source = getattr(problem, "source", None)
    if isinstance(source, FileSource):
        images = source.usable(spec["problem"]["side"])
        if (mixture := images.mixture()) is not None:
            yield mixture
        if blank := sum(page.blank for page in images.skipped):
            yield (
                f"Left out: {counted(blank, 'blank image')} of {len(images) + blank:,}, which show "
                "the same everywhere, or nearly; --blank keep, or blank: keep in a study, keeps "
                "what is not the same everywhere."
            )
        available = len(images)
    if available < requested:
        yield f"There are {available:,} images, of {requested:,} that were asked for."


def _notes(spec: JsonMapping) -> Iterator[str]:
    """How the prediction differs from the study."""
    known = spec["models"].get("KO", {})
    if known.get("fit") == "gradient":
        yield (
            "The study trains KO by gradients; the prediction is that of the closed form, which "
            "long training approaches."
        )
    elif known.get("relu") and known.get("refine"):
        yield (
            "The study refines KO with the ReLU in its loss; it is predicted without that, and may "
            "come out a little better."
        )
    if spec["metric"] != "mse":
        yield f"The study measures {spec['metric']}; the prediction is of the mse."


@dataclass(frozen=True, eq=False)
class PointPrediction(Reported):
    """The predictions of all models at one operating point, before a scan is made."""

    name: str
    spec: JsonMapping
    predictions: tuple[Prediction, ...]
    images: str
    entries: int
    notes: tuple[str, ...]
    usage: Usage
    caveats: tuple[str, ...] = (_LINEAR,)
    rehearsed: tuple[Rehearsed, ...] = ()

    @property
    def examples(self) -> int:
        """Number of example images; where nothing was computed, the largest rehearsed N."""
        if not self.predictions:
            return max(network.last for network in self.rehearsed)
        return self.predictions[0].examples

    @property
    def models(self) -> tuple[Prediction | Rehearsed, ...]:
        """Predictions in closed form, then rehearsed networks."""
        return (*self.predictions, *self.rehearsed)

    @cached_property
    def pair(self) -> PredictedPair | None:
        """KO beside FC, where both were predicted."""
        by_model = {prediction.model: prediction for prediction in self.predictions}
        return PredictedPair(by_model["KO"], by_model["FC"]) if len(by_model) == 2 else None

    @cached_property
    def targets(self) -> tuple[float, ...]:
        """Targets for users who name none: steps of FC, or of KO alone, towards a floor.

        That is the higher floor of the two, which both can come near, if FC has not passed it. Of
        networks alone, what each is expected to reach at its largest N.
        """
        if not self.predictions:
            return tuple(dict.fromkeys(network.target for network in self.rehearsed))
        # FC, the last one, or KO alone.
        reference = self.predictions[-1]
        error = float(reference.errors([self.examples])[0])
        # The higher floor, unless the reference is below it already.
        floors = [prediction.floor for prediction in self.predictions]
        floor = max(floors) if max(floors) < error else reference.floor
        distance = max(error - floor, _LEAST_DISTANCE * error)
        return tuple(float(f"{floor + share * distance:.3g}") for share in _TARGETS)

    def plans(self, target: float) -> tuple[PredictedPlan, ...]:
        """How many samples each model needs."""
        return tuple(prediction.plan(target) for prediction in self.models)

    def to_dict(
        self,
        targets: Sequence[float],
        at: Sequence[float] = (),
        sure: float = 0.9,
        cost: float | None = None,
    ) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        # JSON has no infinity: open ends are null.
        pair, usage = self.pair, self.usage
        crossover = None
        if pair is not None and pair.crossover is not None:
            crossover = vars(pair.crossover) | {"upper": finite_or_none(pair.crossover.upper)}
            del crossover["measured"]
        plans = [[prediction.plan(target) for target in targets] for prediction in self.predictions]
        # Curves are drawn as far as the largest N that a target needs, and somewhat beyond.
        needed = (plan.samples(sure) or plan.even or 0 for row in plans for plan in row)
        last = 2.0 * max(needed, default=0)
        models = []
        for prediction, model_plans in zip(self.predictions, plans, strict=True):
            n, log_errors = prediction.rehearsal.n, prediction.rehearsal.log_error
            rehearsed = zip(n.tolist(), np.exp(log_errors).tolist(), strict=True)
            models.append(
                {
                    "model": prediction.model,
                    "how": "closed form",
                    "relu": bool(self.spec["models"][prediction.model].get("relu")),
                    "floor": None if prediction.doubted else prediction.floor,
                    "valid_to": finite_or_none(prediction.valid_to),
                    "parameters": prediction.parameters,
                    "errors": error_rows(prediction, at),
                    "samples": [plan.to_dict(sure, cost) for plan in model_plans],
                    "track": error_rows(prediction, doublings=False, to=last),
                    "rehearsal": [{"n": n, "measured": error} for n, error in rehearsed],
                    "checks": [vars(check) | {"ratio": check.ratio} for check in prediction.checks],
                    "trust": prediction.trust if prediction.tested else None,
                    "doubted": prediction.doubted,
                    "first_check": prediction.check and vars(prediction.check),
                    "notes": [*trust_words(prediction), *prediction.notes],
                    "explanation": prediction.explain(targets[0] if targets else None, sure, cost),
                }
            )
        models += [network.to_dict(targets, at, sure, cost) for network in self.rehearsed]
        return {
            "point": self.name,
            "problem": dict(self.spec["problem"]),
            "images": self.images,
            "examples": self.examples,
            "simulated": not self.predictions,
            "metric": "mse",
            "models": models,
            "crossover": crossover,
            "better_at_last": None if pair is None else pair.ahead,
            "two_factors": [] if pair is None else [pair.factors_or_reason(t) for t in targets],
            "independent": self.predictions[0].independent if self.predictions else None,
            "notes": list(self.notes),
            "caveats": list(self.caveats),
            "seconds": usage.seconds,
            "peak_memory": usage.peak_memory,
            "device_memory": usage.device_memory,
        }
