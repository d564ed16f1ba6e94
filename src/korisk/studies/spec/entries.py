"""Keys that the files of all kinds share, and those that the fields of a dataclass give."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import Field, create_model

from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError
from korisk.files import Spec

Protocol = Literal["rigorous", "released"]
PROTOCOLS: tuple[Protocol, ...] = ("rigorous", "released")
FieldMetric = Literal["mse", "relative"]  # of fields with both signs: they need no maximum
Metric = Literal[FieldMetric, "rmse_over_max"]

Sizes = Annotated[list[Annotated[int, Field(ge=2, le=10**7)]], Field(min_length=1)]  # N, ascending
Seeds = Annotated[
    list[Annotated[int, Field(ge=0, le=2**31)]], Field(min_length=1, max_length=10_000)
]
Lambdas = Annotated[list[Annotated[float, Field(ge=0, allow_inf_nan=False)]], Field(min_length=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Iterations = Annotated[int, Field(ge=1, le=10**7)]
Batch = Annotated[int, Field(le=10**5)]
Samples = Annotated[int, Field(ge=0, le=10**6)]

# Keys that belong to one way of fitting, or to networks whose kind has this ending.
OF_GRADIENT = ("optimiser", "rate", "iterations", "batch")
_OF_RIDGE = ("toward", "refine", "grid", "select")
_OF_NETWORK = {"levels": "unet", "passes": "primal-dual"}


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

    kind: str  # of `Kind.networks`
    name: Annotated[str, Field(min_length=1, max_length=60)] | None = None  # None: the kind
    width: Annotated[int, Field(ge=1, le=1024)] = 16
    levels: Annotated[int, Field(ge=1, le=8)] = 2
    passes: Annotated[int, Field(ge=1, le=100)] = 4
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


class StudyEntry(Spec):
    """Keys of a study file; a kind gives those of `problem` and of each point, and the metrics."""

    name: str
    protocol: Protocol = "rigorous"
    sizes: Sizes | None = None
    seeds: Seeds = Field(default_factory=lambda: [1, 2, 3])
    pools: PoolsEntry | None = None
    models: ModelsEntry | None = None
    metric: Any
    problem: Any
    points: list[Any]


def keys_of(
    owner: type, *, without: Container[str] = (), defaults: JsonMapping | None = None
) -> JsonDict:
    """Keys for the fields of a dataclass, as `create_model` takes them: types and defaults."""
    hints, keys = get_type_hints(owner), JsonDict()
    for field in fields(owner):
        default = ... if field.default is MISSING else field.default
        if field.default_factory is not MISSING:
            default = Field(default_factory=field.default_factory)
        default = (defaults or {}).get(field.name, default)
        if field.name not in without:
            kind = _in_file(hints[field.name])
            keys[field.name] = (kind | None if default is None else kind, default)
    return keys


def _in_file(kind: Any) -> Any:
    """The type of a key: a dataclass becomes a mapping, and a list will do for a tuple."""
    if isinstance(kind, type) and is_dataclass(kind):
        return create_model(kind.__name__, __base__=Spec, **keys_of(kind))
    if get_origin(kind) is tuple:
        return Annotated[kind, Field(strict=False)]
    if get_origin(kind) in (Union, UnionType):
        return Union[tuple(map(_in_file, get_args(kind)))]  # noqa: UP007
    return kind
