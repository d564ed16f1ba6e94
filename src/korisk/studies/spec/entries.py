"""What study files of every kind share: their keys, and the checks of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from korisk import _checks
from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.studies.result import FOUND_AT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from korisk.problems import Gaussian, ImageSource, Poisson

Protocol = Literal["rigorous", "released"]
PROTOCOLS: tuple[Protocol, ...] = ("rigorous", "released")
Metric = Literal["mse", "relative", "rmse_over_max"]

LARGEST_SIZE = 10**7
OF_GRADIENT = ("optimiser", "rate", "iterations", "batch")
_OF_RIDGE = ("toward", "refine", "grid", "select")


class NoiseEntry(Spec):
    """Noise on the inputs, of one kind."""

    gaussian: float | None = None  # standard deviation over the input's root mean square
    poisson: float | None = None  # photons per ray without an object


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
    refine: int = 10  # steps with the ReLU in the loss, after the closed form
    grid: list[float] | None = None
    select: Literal["validation", "test"] = "validation"
    # gradient
    optimiser: Literal["sgd", "adagrad", "adam"] = "adagrad"
    rate: float = 2e-2
    iterations: int = 5000
    batch: int = 4


class DenseEntry(Spec):
    """How the dense network is fitted: ridge in dual form."""

    relu: bool = True
    grid: list[float] | None = None
    select: Literal["validation", "leave-one-out", "test"] = "validation"
    by: Literal["mse", "rmse_over_max"] = "mse"


class ModelsEntry(Spec):
    """The networks of the study; one that is left out is not fitted."""

    KO: KnownEntry | None = None
    FC: DenseEntry | None = None


BOTH_MODELS = ModelsEntry(KO=KnownEntry(), FC=DenseEntry())


class PoolsEntry(Spec):
    """Samples by which lambda is chosen, and samples on which errors are measured."""

    validation: int = 64
    test: int = 256


class PointEntry(Spec):
    """Keys of an operating point of any kind."""

    name: str | None = None
    sizes: list[int] | None = None


class StudyEntry(Spec):
    """Keys of a study file of any kind."""

    name: str
    protocol: Protocol = "rigorous"
    sizes: list[int] | None = None
    seeds: list[int] = Field(default_factory=lambda: [1, 2, 3])
    pools: PoolsEntry | None = None
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
    for size in sizes:
        remedy = "count training samples; a curve over N begins at 2"
        _checks.count("sizes", size, at_least=2, at_most=LARGEST_SIZE, remedy=remedy)
    if not sizes or sorted(set(sizes)) != sizes:
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
        for kind, level in kinds.items():
            _checks.real(f"noise.{kind}", level, above=0, remedy="leave it out")
        made["noise"] = kinds
    if images is not None:
        settings = images.model_dump(exclude_unset=True, exclude=set(images.found_at))
        made |= {"population": "images", "images": settings}
    return made


def _without_relu(models: Any, kind: str) -> Any:
    """Models of a problem whose outputs have both signs: no ReLU, and no steps that fit one."""
    changed = {}
    for name in ("KO", "FC"):
        model = getattr(models, name)
        if model is None:
            continue
        off = {"relu": False, "refine": 0}
        own = {key: value for key, value in off.items() if key in type(model).model_fields}
        for key, value in own.items():
            if key in model.model_fields_set and getattr(model, key) != value:
                raise KoriskError(
                    f"models.{name}.{key} must be {str(value).lower()} for kind {kind}; leave it "
                    "out"
                )
        changed[name] = model.model_copy(update=own)
    return models.model_copy(update=changed)


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
    if not relu:
        models = _without_relu(models, problem["kind"])
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
    for key, least in (("validation", 0), ("test", 1)):
        count = spec["pools"][key]
        _checks.count(f"pools.{key}", count, at_least=least, at_most=10**6, remedy="count images")
    for model, settings in spec["models"].items():
        if settings.get("grid") == []:
            raise KoriskError(f"models.{model}.grid must list lambdas, got none; or leave it out")
        for value in settings.get("grid") or []:
            _checks.real(f"models.{model}.grid", value, at_least=0, remedy="list lambdas")
        if settings.get("refine", 0) < 0:
            raise KoriskError(f"models.{model}.refine must be >= 0, got {settings['refine']}")
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
