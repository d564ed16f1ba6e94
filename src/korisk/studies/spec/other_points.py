"""Points of studies beyond CT: MRI, advection and diffusion, a network with two learned parts."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.studies.spec.entries import (
    DenseEntry,
    ImagesEntry,
    KnownEntry,
    ModelsEntry,
    NoiseEntry,
    PointEntry,
    StudyEntry,
    check_fits,
    checked_ellipses,
    checked_noise,
    given,
    images_spec,
    point_spec,
    refuse_released,
)

_SIZES = [4, 16, 64, 256, 1024]


# --- MRI -----------------------------------------------------------------------------------------


class MriProblemEntry(Spec):
    """What is measured, and of what."""

    kind: Literal["mri"]
    ellipses: list[int] = Field(default_factory=lambda: [1, 4])
    images: ImagesEntry | None = None
    noise: NoiseEntry | None = None


class MriPointEntry(PointEntry):
    """One operating point: the image's size and the lines of k-space that are taken."""

    side: int
    lines: int
    centre: int | None = None
    noise: NoiseEntry | None = None


class MriStudyEntry(StudyEntry):
    """The whole file of an MRI study."""

    problem: MriProblemEntry
    points: list[MriPointEntry]
    models: ModelsEntry | None = None
    metric: Literal["mse", "relative", "rmse_over_max"] | None = None


def mri_point(entry: MriStudyEntry, part: MriPointEntry) -> tuple[str, dict[str, Any]]:
    """A point's name, if it has none of its own, and what its numbers depend on."""
    refuse_released(entry, "mri")
    models = entry.models or ModelsEntry(KO=KnownEntry(), FC=DenseEntry())
    check_fits(models)
    noise = checked_noise(given(part.noise, entry.problem.noise))
    if noise is not None and "gaussian" not in noise:
        raise KoriskError("noise of kind mri is gaussian; write noise: {gaussian: 0.1}")
    problem = {
        "kind": "mri",
        "population": "ellipses",
        "ellipses": checked_ellipses(entry.problem.ellipses),
        "noise": noise,
        **part.model_dump(include={"side", "lines", "centre"}),
        **images_spec(entry.problem.images),
    }
    sizes = given(part.sizes, given(entry.sizes, _SIZES))
    name = f"{part.lines} of {part.side} lines"
    return name, point_spec(entry, problem, sizes, models, entry.metric or "mse")


# --- Advection and diffusion ---------------------------------------------------------------------


class HeatProblemEntry(Spec):
    """The line, its sensors and its flow: see `korisk.problems.HeatProblem`."""

    kind: Literal["heat"]
    points: int = 64
    viscosity: float = 0.01
    speed: float = 1.0
    time: float = 0.1
    gain: float = 0.5
    noise: float = 0.014
    amplitude: float = 0.9


class HeatPointEntry(PointEntry):
    """One operating point: the viscosity that the network assumes, and what else differs."""

    assumed: float | None = None
    points: int | None = None
    viscosity: float | None = None
    speed: float | None = None
    time: float | None = None
    gain: float | None = None
    noise: float | None = None
    amplitude: float | None = None


class HeatStudyEntry(StudyEntry):
    """The whole file of a study of advection and diffusion."""

    problem: HeatProblemEntry
    points: list[HeatPointEntry]
    models: ModelsEntry | None = None
    metric: Literal["mse", "relative"] | None = None


def heat_point(entry: HeatStudyEntry, part: HeatPointEntry) -> tuple[str, dict[str, Any]]:
    """A point's name, if it has none of its own, and what its numbers depend on."""
    refuse_released(entry, "heat")
    models = _without_relu(entry.models or ModelsEntry(KO=KnownEntry(), FC=DenseEntry()))
    own = part.model_dump(exclude={"name", "sizes"}, exclude_none=True)
    problem = entry.problem.model_dump() | own
    assumed = problem.setdefault("assumed", problem["viscosity"])
    sizes = given(part.sizes, given(entry.sizes, _SIZES))
    name = f"viscosity {assumed:g} for {problem['viscosity']:g}"
    return name, point_spec(entry, problem, sizes, models, entry.metric or "mse")


def _without_relu(models: ModelsEntry) -> ModelsEntry:
    """Fields have both signs: there is no ReLU behind them, nor steps that fit one."""
    check_fits(models)
    for name, model in (("KO", models.KO), ("FC", models.FC)):
        if model is not None and model.relu and "relu" in model.model_fields_set:
            raise KoriskError(f"models.{name}.relu must be false for kind heat; leave it out")
    if models.KO is not None and models.KO.refine and "refine" in models.KO.model_fields_set:
        raise KoriskError("models.KO.refine must be 0 for kind heat, without a ReLU; leave it out")
    known = models.KO and models.KO.model_copy(update={"relu": False, "refine": 0})
    dense = models.FC and models.FC.model_copy(update={"relu": False})
    return ModelsEntry(KO=known, FC=dense)


# --- Two learned parts around a known operator ---------------------------------------------------


class DeepEntry(Spec):
    """How the network with two learned parts is trained."""

    optimiser: Literal["sgd", "adagrad", "adam"] = "adam"
    rate: float = 1e-2
    iterations: int = 2000
    batch: int = 16


class DeepModelsEntry(Spec):
    """The networks of the study; leave one out and it is not fitted."""

    KO: DeepEntry | None = None
    FC: DenseEntry | None = None


class DeepProblemEntry(Spec):
    """What is measured, and of what."""

    kind: Literal["deep"]
    beam: Literal["fan", "parallel"] = "parallel"
    ellipses: list[int] = Field(default_factory=lambda: [1, 4])
    channels: int = 4  # of the true convolutions
    gain: float = 0.3


class DeepPointEntry(PointEntry):
    """One operating point: the scanner's size."""

    side: int
    views: int
    bins: int


class DeepStudyEntry(StudyEntry):
    """The whole file of a study of the deeper network."""

    problem: DeepProblemEntry
    points: list[DeepPointEntry]
    models: DeepModelsEntry | None = None
    metric: Literal["mse", "relative"] | None = None


def deep_point(entry: DeepStudyEntry, part: DeepPointEntry) -> tuple[str, dict[str, Any]]:
    """A point's name, if it has none of its own, and what its numbers depend on."""
    refuse_released(entry, "deep")
    models = entry.models or DeepModelsEntry(KO=DeepEntry(), FC=DenseEntry())
    if models.FC is not None:
        if models.FC.relu and "relu" in models.FC.model_fields_set:
            raise KoriskError("models.FC.relu must be false for kind deep; leave it out")
        models = models.model_copy(update={"FC": models.FC.model_copy(update={"relu": False})})
    problem = entry.problem.model_dump()
    problem["ellipses"] = checked_ellipses(entry.problem.ellipses)
    problem |= part.model_dump(include={"side", "views", "bins"})
    sizes = given(part.sizes, given(entry.sizes, [4, 16, 64, 256]))
    return f"deep-{part.side}", point_spec(entry, problem, sizes, models, entry.metric or "mse")
