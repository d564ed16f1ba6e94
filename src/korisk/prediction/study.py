"""What a study's curves will be, computed before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from korisk import _checks
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, MissingExtraError, did_you_mean, shown
from korisk.files import read_yaml
from korisk.prediction.point import PointPrediction
from korisk.studies.run.usage import Meter
from korisk.studies.spec.study import Study

LEAST_EXAMPLES, MOST_EXAMPLES = 8, 10**4  # all pairs of examples are looked at
_LARGEST_VALUE = 1e60  # of an input: its fourth power is a number, too

Progress = Callable[[str, float], None]  # what is being computed, and the share that is done
Source = Any  # a korisk.problems.sources.FileSource; naming it would need PyTorch


def study_to_predict(path: str | PathLike[str]) -> Study:
    """The study of a file, of which a geometry is enough.

    Images need not suffice for the training sets it asks for, since nothing is trained.
    """
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise KoriskError(
            f"{path} must hold keys such as name and points; see docs/reference/study.md"
        )
    named = {"name": Path(path).stem, **content}
    return Study(named, source=path, ran=True, folder=Path(path).parent)


def predict_study(
    study: Study | str | PathLike[str],
    *,
    images: int = 256,
    seed: int = 0,
    point: str | None = None,
    source: Source | None = None,
    noise: float | None = None,
    pilots: Iterable[Curve] = (),
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[PointPrediction]:
    """The curves of every point of a study, or of one, from so many example images.

    `study` may be the path of its file. `source` is a `FileSource` that stands in for the study's
    images and `noise` a relative level for its noise. `pilots` are measured curves, named after the
    models of the one point that is predicted.

    `images` is from 8 to 10,000; `point` names one of the study's points; `progress` is called with
    what is being computed and the share that is done. The result is a `PointPrediction` for each
    point, whose `predictions` are of the models. What the study cannot be predicted for, such as a
    problem that is not linear, raises `KoriskError`.

    >>> import korisk as kr
    >>> points = [{"name": "eight sensors"}]
    >>> study = {"name": "heat", "problem": {"kind": "heat", "points": 8}, "points": points}
    >>> (found,) = kr.predict_study(kr.studies.Study(study), images=64)
    >>> found.name, [made.model for made in found.predictions]
    ('eight sensors', ['KO', 'FC'])
    """
    count = _checks.count(
        "images",
        images,
        at_least=LEAST_EXAMPLES,
        at_most=MOST_EXAMPLES,
        remedy="64 give a first idea, 256 a good one",
    )
    found = study if isinstance(study, Study) else study_to_predict(study)
    specs = {task.point: task.spec for task in found.tasks}
    chosen = _chosen(specs, point)
    measured = pilots_by_model(pilots, chosen)
    made = []
    for name, spec in chosen.items():
        ask = _Question(name, spec, count, seed, source, noise, measured, device)
        made.append(ask.answer(progress or (lambda what, share: None)))
    return made


def _chosen(specs: dict[str, Mapping[str, Any]], name: str | None) -> dict[str, Mapping[str, Any]]:
    if name is None:
        return specs
    if name not in specs:
        raise KoriskError(f"the study has no point {shown(name)}{did_you_mean(name, specs)}")
    return {name: specs[name]}


def pilots_by_model(
    pilots: Iterable[Curve], specs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Curve]:
    """Measured curves by the model they are of; what cannot be told is asked for in words."""
    found = list(pilots)
    if not found:
        return {}
    if len(specs) > 1:
        raise KoriskError(
            f"a pilot is of one point, and the study has {len(specs)}: {', '.join(specs)}; choose "
            "one"
        )
    models = list(next(iter(specs.values()))["models"])
    named: dict[str, Curve] = {}
    for curve in found:
        named[_model_of(curve, models, alone=len(found) == 1)] = _checked_metric(curve)
    return named


def _model_of(curve: Curve, models: list[str], *, alone: bool) -> str:
    if curve.model in models:
        return curve.model
    if not curve.model and alone and len(models) == 1:
        return models[0]
    if not curve.model:
        raise KoriskError(
            f"the pilot does not say which model it is of, and the study has {' and '.join(models)}"
            "; add a column model"
        )
    raise KoriskError(
        f"the pilot is of the model {shown(curve.model)}, which the study does not have"
        f"{did_you_mean(curve.model, models)}"
    )


def _checked_metric(curve: Curve) -> Curve:
    if curve.metric and curve.metric.casefold().replace(" ", "_") not in (
        "mse",
        "mean_squared_error",
        "error",
    ):
        raise KoriskError(
            f"a prediction is of mean squared errors, and the pilot is of {shown(curve.metric)}; "
            "give the pilot's mse"
        )
    return curve


@dataclass(frozen=True)
class _Question:
    """One point, and all that its prediction depends on."""

    name: str
    spec: Mapping[str, Any]
    count: int
    seed: int
    source: Source | None
    noise: float | None
    pilots: Mapping[str, Curve]
    device: str

    def answer(self, progress: Progress) -> PointPrediction:
        try:
            import torch
        except ModuleNotFoundError as missing:
            raise MissingExtraError(
                "a prediction needs PyTorch, which is not installed; pip install 'korisk[torch]'"
            ) from missing
        meter = Meter()
        with torch.no_grad():
            return self._answer(partial(self._report, progress), meter)

    def _report(self, progress: Progress, model: str, share: float) -> None:
        progress(f"{self.name}: {model}" if model else self.name, share)

    def _answer(self, report: Progress, meter: Meter) -> PointPrediction:
        from korisk.prediction.api import dense_prediction, known_prediction
        from korisk.studies.spec.problem_of import problem_of

        problem = _replaced(problem_of(self.spec), self.source, self.noise)
        report("", 0.0)
        _refuse_large(self.count, self.spec["problem"], self.device)
        examples = _drawn(problem, self.seed, self.count, self.device)
        reconstruction = problem.reconstruction(self.device)
        made = []
        for model, settings in self.spec["models"].items():
            shared: dict[str, Any] = {
                "relu": bool(settings.get("relu")),
                "pilot": self.pilots.get(model),
                "progress": partial(report, model),
            }
            if model == "FC":
                made.append(dense_prediction(examples, **shared))
            else:
                toward = settings.get("toward", "analytic")
                made.append(known_prediction(examples, reconstruction, toward=toward, **shared))
        spec = self._told(self.spec)
        return PointPrediction(
            name=self.name,
            spec=spec,
            predictions=tuple(made),
            images=_images_words(len(examples), spec),
            entries=math.prod(reconstruction.tail[-1].range),
            notes=(*_mixture(problem, spec), *_notes(self.spec, len(examples), self.count)),
            account=meter.read(),
        )

    def _told(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The spec with the noise and the images that stood in for its own."""
        problem = dict(spec["problem"])
        if self.noise is not None:
            heat = problem["kind"] == "heat"
            problem["noise"] = self.noise if heat or not self.noise else {"gaussian": self.noise}
            problem["noise"] = problem["noise"] or (0.0 if heat else None)
        if self.source is not None:
            problem |= {"population": "images", "images": {"path": self.source.path}}
        return {**spec, "problem": problem}


def _replaced(problem: Any, source: Source | None, noise: float | None) -> Any:
    """The problem with other images, other noise, or both."""
    from korisk.problems import CtProblem, Gaussian, HeatProblem, MriProblem

    if source is not None:
        if not isinstance(problem, CtProblem | MriProblem):
            raise KoriskError(
                f"{type(problem).__name__} has no images that others could stand in for; leave "
                "them out"
            )
        if isinstance(problem, CtProblem) and problem.population != "ellipses":
            raise KoriskError(
                "protocol 'released' fixes its images; leave yours out, or use protocol: rigorous"
            )
        problem = replace(problem, source=source)
    if noise is None:
        return problem
    level = _checks.real("noise", noise, at_least=0, remedy="give it over the input's RMS")
    if isinstance(problem, HeatProblem):
        return replace(problem, noise=level)
    if not isinstance(problem, CtProblem | MriProblem):
        raise KoriskError(f"{type(problem).__name__} has no noise to set; leave it out")
    return replace(problem, noise=Gaussian(level) if level else None)


def _refuse_large(count: int, problem: Mapping[str, Any], device: str) -> None:
    """Say what the examples would take before the machine finds out."""
    import torch

    from korisk.operators.ct.engines import free_memory

    pixels = problem["points"] if problem["kind"] == "heat" else problem["side"] ** 2
    inputs = problem["views"] * problem["bins"] if "views" in problem else 2 * pixels
    # Their second moment and the rehearsal are taken on the CPU, in copies.
    needed = count * (5 * pixels + 3 * inputs) * 8 + 8 * count**2
    for place in {device, "cpu"}:
        free = free_memory(torch.device(place))
        if needed > free:
            raise KoriskError(
                f"{count:,} examples take about {needed / 2**30:,.1f} GiB, of "
                f"{free / 2**30:,.1f} GiB free on {place}; use fewer or smaller images"
            )


def _drawn(problem: Any, seed: int, count: int, device: str) -> Any:
    """Examples whose numbers can be computed with."""
    try:
        examples = problem.examples(seed=seed, count=count, device=device)
        sizes = [float(part.abs().max()) for part in (examples.inputs, examples.noise) if len(part)]
    except OverflowError:
        sizes = [math.inf]
    if not all(size <= _LARGEST_VALUE for size in sizes):
        raise KoriskError(
            f"the inputs of this problem must be at most {_LARGEST_VALUE:g} with their noise; "
            "bring its numbers to a reasonable size"
        )
    return examples


# --- Words ---------------------------------------------------------------------------------------


def _images_words(count: int, spec: Mapping[str, Any]) -> str:
    problem = spec["problem"]
    if problem["kind"] == "heat":
        return f"{count:,} random fields"
    return f"{count:,} {'images' if problem['population'] == 'images' else 'phantoms'}"


def _mixture(problem: Any, spec: Mapping[str, Any]) -> Iterable[str]:
    """That images of several sizes were brought to one."""
    from korisk.problems.sources import FileSource

    source = getattr(problem, "source", None)
    if not isinstance(source, FileSource):
        return []
    said = source.read(spec["problem"]["side"]).mixture()
    return [] if said is None else [said]


def _notes(spec: Mapping[str, Any], found: int, asked: int) -> Iterable[str]:
    if found < asked:
        yield f"There are {found:,} images, of {asked:,} that were asked for."
    known = spec["models"].get("KO", {})
    if known.get("fit") == "gradient":
        yield (
            "The study trains KO by gradients; it is predicted as the closed form, which training "
            "approaches if it goes on long enough."
        )
    elif known.get("relu") and known.get("refine"):
        yield (
            "The study refines KO with the ReLU in its loss; it is predicted without that, and may "
            "come out a little better."
        )
    if spec["metric"] != "mse":
        yield f"The study measures {spec['metric']}; what is predicted is the mse."
