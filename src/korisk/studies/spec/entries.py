"""What study files of every kind share: their keys, and the checks of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.studies.result import FOUND_AT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from korisk.problems import Gaussian, ImageSource, Poisson

Protocol = Literal["rigorous", "released"]
PROTOCOLS: tuple[Protocol, ...] = ("rigorous", "released")
Metric = Literal["mse", "relative", "rmse_over_max"]

Sizes = Annotated[list[Annotated[int, Field(ge=2, le=10**7)]], Field(min_length=1)]  # N, ascending
Seeds = Annotated[
    list[Annotated[int, Field(ge=0, le=2**31)]], Field(min_length=1, max_length=10_000)
]
Lambdas = Annotated[list[Annotated[float, Field(ge=0, allow_inf_nan=False)]], Field(min_length=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Iterations = Annotated[int, Field(le=10**7)]
Batch = Annotated[int, Field(le=10**5)]
Samples = Annotated[int, Field(ge=0, le=10**6)]

OF_GRADIENT = ("optimiser", "rate", "iterations", "batch")
_OF_RIDGE = ("toward", "refine", "grid", "select")


class NoiseEntry(Spec):
    """Noise on the inputs, of one kind."""

    gaussian: Positive | None = None  # standard deviation over the input's root mean square
    poisson: Positive | None = None  # photons per ray without an object


class ImagesEntry(Spec):
    """The user's images: see docs/reference/images.md."""

    path: str
    pattern: str | None = None
    patients: str = "auto"  # "auto", "folder", "file", "image", or a table's path
    on_error: Literal["stop", "skip"] = "stop"
    crop: Literal["square", "pad"] = "square"
    resample: Literal["area", "spline"] = "area"
    unit: Literal["HU", "1/mm", "1/cm", "1/m", "plain"] | None = None
    mu_water: float | None = None
    scale: float | None = None

    @property
    def found_at(self) -> dict[str, str]:
        """Where the images and the table of patients are; a fingerprint says what they are."""
        table = {"patients": self.patients} if is_table(self.patients) else {}
        return {"path": self.path, **table}


class KnownEntry(Spec):
    """How the known-operator network is fitted."""

    fit: Literal["ridge", "gradient"] = "ridge"
    relu: bool = True
    # ridge
    toward: Literal["analytic", "zero"] = "analytic"
    refine: Annotated[int, Field(ge=0)] = (
        10  # steps with the ReLU in the loss, after the closed form
    )
    grid: Lambdas | None = None
    select: Literal["validation", "test"] = "validation"
    # gradient
    optimiser: Literal["sgd", "adagrad", "adam"] = "adagrad"
    rate: float = 2e-2
    iterations: Iterations = 5000
    batch: Batch = 4


class DenseEntry(Spec):
    """How the dense network is fitted: ridge in dual form."""

    relu: bool = True
    grid: Lambdas | None = None
    select: Literal["validation", "leave-one-out", "test"] = "validation"
    by: Literal["mse", "rmse_over_max"] = "mse"


class ModelsEntry(Spec):
    """The networks of the study; one that is left out is not fitted."""

    KO: KnownEntry | None = None
    FC: DenseEntry | None = None


BOTH_MODELS = ModelsEntry(KO=KnownEntry(), FC=DenseEntry())


class PoolsEntry(Spec):
    """Samples by which lambda is chosen, and samples on which errors are measured."""

    validation: Samples = 64
    test: Annotated[Samples, Field(ge=1)] = 256


class PointEntry(Spec):
    """Keys of an operating point of any kind."""

    name: str | None = None
    sizes: Sizes | None = None


class StudyEntry(Spec):
    """Keys of a study file of any kind."""

    name: str
    protocol: Protocol = "rigorous"
    sizes: Sizes | None = None
    seeds: Seeds = Field(default_factory=lambda: [1, 2, 3])
    pools: PoolsEntry | None = None
    models: ModelsEntry | None = None
    metric: Metric | None = None
    theorem: bool = False  # whether errors are measured layer by layer


def first_given(*values: Any) -> Any:
    """The first value that is not None: a point's own, the study's, the default."""
    return next((value for value in values if value is not None), None)


def is_table(patients: str) -> bool:
    """Whether patients are named by a file rather than by a rule."""
    return patients.lower().endswith(".csv")


# --- From keys to the spec of a cell -------------------------------------------------------------


def checked_sizes(sizes: list[int]) -> list[int]:
    """Training set sizes in ascending order."""
    if sorted(set(sizes)) != sizes:
        raise KoriskError(f"sizes must be ascending, each once, got {sizes}; sort them")
    return sizes


def population(
    ellipses: list[int], images: ImagesEntry | None, noise: NoiseEntry | None
) -> dict[str, Any]:
    """What is imaged, and the noise, as they stand in the problem of a spec."""
    if len(ellipses) != 2 or not 1 <= ellipses[0] <= ellipses[1] <= 100:
        raise KoriskError(
            "ellipses must be the least and the largest number in an image, from 1 to 100, got "
            f"{ellipses}; write [1, 4]"
        )
    made: dict[str, Any] = {"population": "ellipses", "ellipses": ellipses, "noise": None}
    if noise is not None:
        kinds = noise.model_dump(exclude_none=True)
        if len(kinds) != 1:
            raise KoriskError(
                f"noise must have exactly one of the keys 'gaussian' and 'poisson', got "
                f"{len(kinds)}; write noise: {{gaussian: 0.02}}"
            )
        made["noise"] = kinds
    if images is not None:
        settings = images.model_dump(exclude_unset=True, exclude=set(images.found_at))
        made |= {"population": "images", "images": settings}
    return made


def point_spec(
    entry: Any,
    part: PointEntry,
    problem: dict[str, Any],
    sizes: list[int],
    *,
    models: Any = BOTH_MODELS,
    relu: bool = True,
) -> dict[str, Any]:
    """Everything that the numbers of a point depend on; `sizes` and `models` are defaults.

    Keys that came later and are not used are left out, so that earlier stores can be continued.
    """
    if entry.protocol != "rigorous":
        raise KoriskError(
            f"protocol {entry.protocol!r} exists for kind ct only, got kind {problem['kind']}; "
            "leave protocol out"
        )
    models = entry.models or models
    if isinstance(models.KO, KnownEntry):
        for name in OF_GRADIENT if models.KO.fit == "ridge" else _OF_RIDGE:
            if name in models.KO.model_fields_set:
                raise KoriskError(
                    f"models.KO.{name} does not belong to fit: {models.KO.fit}; leave it out"
                )
    spec: dict[str, Any] = {
        "protocol": "rigorous",
        "problem": problem,
        "pools": (entry.pools or PoolsEntry()).model_dump(),
        "sizes": checked_sizes(first_given(part.sizes, entry.sizes, sizes)),
        "models": models.model_dump(mode="json", exclude_none=True),
        "metric": entry.metric or "mse",
    }
    if not spec["models"]:
        raise KoriskError("models must name KO, FC or both, got none; leave models out for both")
    for model, settings in spec["models"].items():
        # Outputs of both signs need a network without a ReLU, and without steps that fit one.
        for key, value in () if relu else (("relu", False), ("refine", 0)):
            if key in getattr(models, model).model_fields_set and settings[key] != value:
                raise KoriskError(
                    f"models.{model}.{key} must be {str(value).lower()} for kind "
                    f"{problem['kind']}; leave it out"
                )
            if key in settings:
                settings[key] = value
        if settings.get("select") == "validation" and not spec["pools"]["validation"]:
            raise KoriskError(
                f"models.{model}.select is 'validation', but pools.validation is 0; give it images"
            )
    images = getattr(entry.problem, "images", None)
    if images is not None:
        spec[FOUND_AT] = images.found_at
    return spec | ({"theorem": True} if entry.theorem else {})


# --- From the spec of a cell to its problem ------------------------------------------------------


def source_of(spec: Mapping[str, Any]) -> ImageSource:
    """Where the images of a point come from."""
    from korisk.problems import EllipseSource, FileSource

    problem = spec["problem"]
    if "images" in problem:
        return FileSource(**problem["images"] | spec[FOUND_AT])
    fewest, most = problem["ellipses"]
    return EllipseSource(fewest=fewest, most=most)


def noise_of(spec: Mapping[str, Any]) -> Gaussian | Poisson | None:
    """The noise of a point."""
    from korisk.problems import Gaussian, Poisson

    noise = spec["problem"]["noise"]
    if noise is None:
        return None
    return Gaussian(noise["gaussian"]) if "gaussian" in noise else Poisson(noise["poisson"])
