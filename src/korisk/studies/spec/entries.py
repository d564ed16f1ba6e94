"""What study files of every kind share: their keys, and what is checked of them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from korisk import _checks
from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.studies.result import FOUND_AT

Protocol = Literal["rigorous", "released"]
PROTOCOLS: tuple[Protocol, ...] = ("rigorous", "released")

MOST_SEEDS = 10_000
LARGEST_SIZE = 10**7

OF_GRADIENT = ("optimiser", "rate", "iterations", "batch")
_OF_RIDGE = ("toward", "refine", "grid", "select")


class NoiseEntry(Spec):
    """Noise on the inputs, of one kind."""

    gaussian: float | None = None  # standard deviation over the input's root mean square
    poisson: float | None = None  # photons a ray without an object


class ImagesEntry(Spec):
    """Images of one's own: see docs/reference/images.md."""

    path: str
    pattern: str | None = None
    patients: str = "auto"  # "auto", "folder", "file", "image", or a table's path
    on_error: Literal["stop", "skip"] = "stop"
    crop: Literal["square", "pad"] = "square"
    resample: Literal["area", "spline"] = "area"
    unit: Literal["HU", "1/mm", "1/cm", "1/m", "plain"] | None = None
    mu_water: float | None = None
    scale: float | None = None


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
    """The networks of the study; leave one out and it is not fitted."""

    KO: KnownEntry | None = None
    FC: DenseEntry | None = None


class PoolsEntry(Spec):
    """How many samples lambda is chosen by, and how many errors are measured on."""

    validation: int = 64
    test: int = 256


class PointEntry(Spec):
    """What an operating point of any kind can have."""

    name: str | None = None
    sizes: list[int] | None = None


class StudyEntry(Spec):
    """What a study file of any kind can have."""

    name: str
    protocol: Protocol = "rigorous"
    sizes: list[int] | None = None
    seeds: list[int] = Field(default_factory=lambda: [1, 2, 3])
    pools: PoolsEntry | None = None
    theorem: bool = False  # whether errors are measured layer by layer


def given(own: Any, other: Any) -> Any:
    """A point's own setting, or else the study's."""
    return other if own is None else own


def checked_sizes(sizes: list[int]) -> list[int]:
    """Training set sizes that rise."""
    for size in sizes:
        remedy = "count training samples; a curve over N begins at 2"
        _checks.count("sizes", size, at_least=2, at_most=LARGEST_SIZE, remedy=remedy)
    if not sizes or sorted(set(sizes)) != sizes:
        raise KoriskError(f"sizes must rise, each once, got {sizes}; sort them")
    return sizes


def checked_ellipses(given: list[int]) -> list[int]:
    """The fewest and the most ellipses in an image."""
    if len(given) != 2 or not 1 <= given[0] <= given[1] <= 100:
        raise KoriskError(
            f"ellipses must be the fewest and the most in an image, 1 to 100, got {given}; write "
            "[1, 4]"
        )
    return given


def checked_noise(entry: NoiseEntry | None) -> dict[str, float] | None:
    """Noise of exactly one kind, or none."""
    if entry is None:
        return None
    kinds = entry.model_dump(exclude_none=True)
    if len(kinds) != 1:
        raise KoriskError(
            "noise must have exactly one of the keys 'gaussian' and 'poisson', got "
            f"{len(kinds)}; write noise: {{gaussian: 0.02}}"
        )
    (kind, level), *_ = kinds.items()
    return {kind: _checks.real(f"noise.{kind}", level, above=0, remedy="leave it out")}


def check_fits(models: ModelsEntry) -> None:
    """Refuse settings of the kind of fit that was not asked for."""
    if models.KO is None:
        return
    other = OF_GRADIENT if models.KO.fit == "ridge" else _OF_RIDGE
    for name in other:
        if name in models.KO.model_fields_set:
            raise KoriskError(
                f"models.KO.{name} does not belong to fit: {models.KO.fit}; leave it out"
            )


def check_selection(spec: dict[str, Any]) -> None:
    """Refuse models that cannot be fitted with the pools there are."""
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


def point_spec(
    entry: StudyEntry,
    problem: dict[str, Any],
    sizes: list[int],
    models: Spec,
    metric: str,
) -> dict[str, Any]:
    """What the numbers of a point depend on. What is new and was not asked for stays unnamed, so
    that stores of earlier studies can be carried on."""
    spec = {
        "protocol": "rigorous",
        "problem": problem,
        "pools": (entry.pools or PoolsEntry()).model_dump(),
        "sizes": checked_sizes(sizes),
        "models": models.model_dump(mode="json", exclude_none=True),
        "metric": metric,
    }
    check_selection(spec)
    found_at = _found_at(getattr(entry.problem, "images", None))  # type: ignore[attr-defined]
    return spec | found_at | ({"theorem": True} if entry.theorem else {})


def refuse_released(entry: StudyEntry, kind: str) -> None:
    """The released protocol is of CT alone."""
    if entry.protocol != "rigorous":
        raise KoriskError(
            f"protocol {entry.protocol!r} is of kind ct, got kind {kind}; leave protocol out"
        )


def images_spec(images: ImagesEntry | None) -> dict[str, Any]:
    """What images of one's own add to the problem of a spec."""
    if images is None:
        return {}
    settings = images.model_dump(exclude_unset=True, exclude=set(_found_at(images)[FOUND_AT]))
    return {"population": "images", "images": settings}


def _found_at(images: ImagesEntry | None) -> dict[str, dict[str, str]]:
    """Where images are, and the table of their patients: what they are is in the fingerprint."""
    if images is None:
        return {}
    table = {"patients": images.patients} if is_table(images.patients) else {}
    return {FOUND_AT: {"path": images.path, **table}}


def is_table(patients: str) -> bool:
    """Whether patients are named by a file rather than by a rule."""
    return patients.lower().endswith(".csv")
