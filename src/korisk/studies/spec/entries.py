"""Keys that the files of all kinds share, and the images and noise that they describe.

PyTorch is imported when a value is built, so that a study can be read without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Generic, Literal, TypeVar

from pydantic import Field

from korisk._checks import require
from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.store.cells import FOUND_AT

if TYPE_CHECKING:
    from korisk.problems import ImageSource, Noise

Protocol = Literal["rigorous", "released"]
PROTOCOLS: tuple[Protocol, ...] = ("rigorous", "released")
Metric = Literal["mse", "relative", "rmse_over_max"]

Sizes = Annotated[list[Annotated[int, Field(ge=2, le=10**7)]], Field(min_length=1)]  # N, ascending
Seeds = Annotated[
    list[Annotated[int, Field(ge=0, le=2**31)]], Field(min_length=1, max_length=10_000)
]
Lambdas = Annotated[list[Annotated[float, Field(ge=0, allow_inf_nan=False)]], Field(min_length=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Iterations = Annotated[int, Field(ge=1, le=10**7)]
Batch = Annotated[int, Field(le=10**5)]
Samples = Annotated[int, Field(ge=0, le=10**6)]
NetworkKind = Literal[
    "inverse-unet", "weights-inverse-unet", "inverse-cnn", "primal-dual", "dense-unet"
]
FieldNetworkKind = Literal["solver-cnn", "cnn", "soft-pinn"]

# Keys that belong to one way of fitting, or to networks whose kind has this ending.
OF_GRADIENT = ("optimiser", "rate", "iterations", "batch")
_OF_RIDGE = ("toward", "refine", "grid", "select")
_OF_NETWORK = {"levels": "unet", "passes": "primal-dual", "penalty": "pinn"}

ProblemKeys = TypeVar("ProblemKeys", bound=Spec)
PointKeys = TypeVar("PointKeys", bound="PointEntry")


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
    blank: Literal["skip", "keep"] | None = None  # None: `predict` skips, `run` keeps

    @property
    def found_at(self) -> dict[str, str]:
        """Paths of images and of the table of patients; a fingerprint identifies the content."""
        table = {"patients": self.patients} if is_table(self.patients) else {}
        return {"path": self.path, **table}


class ModelEntry(Spec):
    """Keys of a model."""

    def misplaced(self) -> tuple[str, Sequence[str]]:
        """The choice that decides which keys the model has, and the keys that it excludes."""
        return "", ()

    def check(self, where: str) -> None:
        """Raise if an excluded key was given."""
        choice, keys = self.misplaced()
        for key in keys:
            if key in self.model_fields_set:
                raise KoriskError(f"{where}.{key} does not belong to {choice}; leave it out")


class KnownEntry(ModelEntry):
    """Settings of the known-operator network in a study file."""

    fit: Literal["ridge", "gradient"] = "ridge"
    relu: bool = True
    # ridge
    toward: Literal["analytic", "zero"] = "analytic"
    refine: Annotated[int, Field(ge=0)] = 10  # steps with the ReLU in the loss, after a closed form
    grid: Lambdas | None = None
    select: Literal["validation", "test"] = "validation"
    # gradient
    optimiser: Literal["sgd", "adagrad", "adam"] = "adagrad"
    rate: float = 2e-2
    iterations: Iterations = 5000
    batch: Batch = 4

    def misplaced(self) -> tuple[str, Sequence[str]]:
        """Keys of the other fit."""
        return f"fit: {self.fit}", OF_GRADIENT if self.fit == "ridge" else _OF_RIDGE


class DenseEntry(ModelEntry):
    """Settings of the dense network in a study file: ridge regression, solved in dual form."""

    relu: bool = True
    grid: Lambdas | None = None
    select: Literal["validation", "leave-one-out", "test"] = "validation"
    by: Literal["mse", "rmse_over_max"] = "mse"


class TrainedEntry(ModelEntry):
    """A network that the problem builds and trains by Adam; its best validation step is used."""

    kind: NetworkKind | FieldNetworkKind
    name: Annotated[str, Field(min_length=1, max_length=60)] | None = None  # None: the kind
    width: Annotated[int, Field(ge=1, le=1024)] = 16
    levels: Annotated[int, Field(ge=1, le=8)] = 2
    passes: Annotated[int, Field(ge=1, le=100)] = 4
    penalty: Positive = 0.1
    steps: Annotated[int, Field(ge=10, le=10**7)] = 2000
    batch: Annotated[int, Field(ge=1, le=10**5)] = 16
    rate: Positive = 1e-3

    def misplaced(self) -> tuple[str, Sequence[str]]:
        """Keys of other kinds of networks."""
        keys = [key for key, ending in _OF_NETWORK.items() if not self.kind.endswith(ending)]
        return f"kind {self.kind}", keys


class ModelsEntry(Spec):
    """The networks of the study; one that is left out is not fitted."""

    KO: KnownEntry | None = None
    FC: DenseEntry | None = None
    networks: Annotated[list[TrainedEntry], Field(min_length=1, max_length=20)] | None = None


class PoolsEntry(Spec):
    """Numbers of validation samples, to choose lambda, and of test samples."""

    validation: Samples = 64
    test: Annotated[Samples, Field(ge=1)] = 256


class PointEntry(Spec):
    """Keys of an operating point of any kind."""

    name: str | None = None
    sizes: Sizes | None = None


class StudyEntry(Spec, Generic[ProblemKeys, PointKeys]):
    """Keys of a study file, by those of its problem and of its points."""

    name: str
    protocol: Protocol = "rigorous"
    sizes: Sizes | None = None
    seeds: Seeds = Field(default_factory=lambda: [1, 2, 3])
    pools: PoolsEntry | None = None
    models: ModelsEntry | None = None
    metric: Metric | None = None
    problem: ProblemKeys
    points: Annotated[list[PointKeys], Field(min_length=1)]


class FieldStudyEntry(StudyEntry[ProblemKeys, PointKeys]):
    """Keys of a study of fields, which may have both signs: metrics must not need a maximum."""

    metric: Literal["mse", "relative"] | None = None


def is_table(patients: str) -> bool:
    """Whether patients are named by a file rather than by a rule."""
    return patients.lower().endswith(".csv")


def checked_sizes(sizes: list[int]) -> list[int]:
    """Training set sizes in ascending order."""
    require(sorted(set(sizes)) == sizes, "sizes", "be ascending, each once", sizes, "sort them")
    return sizes


def population(
    ellipses: list[int], images: ImagesEntry | None, noise: NoiseEntry | None
) -> JsonDict:
    """Images and noise as settings of a problem."""
    rule = "be the least and the largest number in an image, from 1 to 100"
    valid = len(ellipses) == 2 and 1 <= ellipses[0] <= ellipses[1] <= 100
    require(valid, "ellipses", rule, ellipses, "write [1, 4]")
    settings: JsonDict = {"population": "ellipses", "ellipses": ellipses, "noise": None}
    if noise is not None:
        settings["noise"] = kinds = noise.model_dump(exclude_none=True)
        rule = "have exactly one of the keys 'gaussian' and 'poisson'"
        require(len(kinds) == 1, "noise", rule, len(kinds), "write noise: {gaussian: 0.02}")
    if images is not None:
        # Paths are left out of the settings: images may move without becoming another study.
        description = images.model_dump(exclude_unset=True, exclude=set(images.found_at))
        settings |= {"population": "images", "images": description}
    return settings


def source_of(spec: JsonMapping) -> ImageSource:
    """The source of a point's images."""
    from korisk.problems import EllipseSource, FileSource

    problem = spec["problem"]
    if "images" in problem:
        return FileSource(**problem["images"] | spec[FOUND_AT])
    fewest, most = problem["ellipses"]
    return EllipseSource(fewest=fewest, most=most)


def noise_of(problem: JsonMapping) -> Noise | None:
    """The noise of a point."""
    from korisk.problems import Gaussian, Poisson

    if (noise := problem["noise"]) is None:
        return None
    return Gaussian(noise["gaussian"]) if "gaussian" in noise else Poisson(noise["poisson"])
