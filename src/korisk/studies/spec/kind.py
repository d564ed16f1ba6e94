"""Kinds of problems: the keys of their files, the specs of points, and their problems.

A kind is a subclass of `Kind` that registers itself: `imaging.py`, `ct.py` and `pde.py` have those
of korisk. docs/how-to/add-a-kind.md shows how to add one from outside.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field, create_model

from korisk._checks import require
from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.store.cells import FOUND_AT
from korisk.studies.spec import entries as keys
from korisk.studies.spec.entries import ModelsEntry, PointEntry, PoolsEntry, StudyEntry

if TYPE_CHECKING:
    from korisk.problems import Problem

KindClass = TypeVar("KindClass", bound="type[Kind]")

KINDS: dict[str, Kind] = {}  # by name, in the order of registration


def register(kind: KindClass) -> KindClass:
    """Class decorator that registers a kind by its name."""
    KINDS[kind.name] = kind()
    return kind


class Kind:
    """Base class of kinds of problems; `settings` is the problem of a spec.

    The fields of a dataclass are keys of `problem`, with their types and defaults, and keys of a
    point, where they override those of the problem.
    """

    name: ClassVar[str]  # `problem.kind` of a study
    made_of: ClassVar[type[Any]]  # the dataclass, such as the problem itself
    of_points: ClassVar[tuple[str, ...]] = ()  # fields that are keys of points alone
    no_keys: ClassVar[tuple[str, ...]] = ()  # fields that are no keys
    defaults: ClassVar[JsonMapping] = {}  # in place of the dataclass's
    shared_keys: ClassVar[type[Spec]] = Spec  # further keys of `problem`
    point_keys: ClassVar[type[PointEntry]] = PointEntry  # further keys of a point
    truth: ClassVar[str | None] = None  # the field that is the default of `assumed`
    relu: ClassVar[bool] = True  # whether outputs are non-negative, so that a ReLU may follow
    networks: ClassVar[tuple[str, ...]] = ()  # kinds that its problem builds, for models.networks

    @cached_property
    def study(self) -> type[StudyEntry]:
        """The keys of its files."""
        fields: Any = keys.keys_of(self.made_of, without=self.no_keys, defaults=self.defaults)
        shared: Any = {"kind": (Literal[self.name], self.name)}
        shared |= {name: key for name, key in fields.items() if name not in self.of_points}
        overrides: Any = {
            name: (kind, ...) if default is ... else (kind | None, None)
            for name, (kind, default) in fields.items()
        }
        problem: Any = create_model("Problem", __base__=self.shared_keys, **shared)
        point: Any = create_model("Point", __base__=self.point_keys, **overrides)
        metric: Any = keys.Metric if self.relu else keys.FieldMetric
        return create_model(
            "Study",
            __base__=StudyEntry,
            metric=(metric | None, None),
            problem=(problem, Field(default_factory=problem)),
            points=(Annotated[list[point], Field(min_length=1)], ...),
        )

    def problem(self, spec: JsonMapping) -> Problem:
        """The problem of a point."""
        problem: Problem = self.made_of(**self.arguments(spec))
        return problem

    def arguments(self, spec: JsonMapping) -> JsonDict:
        """The fields of a point's problem."""
        return {name: value for name, value in spec["problem"].items() if name != "kind"}

    def settings(self, shared: Any, point: Any) -> JsonDict:
        """Settings of a point's samples: the study's keys, overridden by the point's."""
        changes = point.model_dump(exclude={"name", "sizes"}, exclude_none=True)
        settings: JsonDict = shared.model_dump() | changes
        if self.truth is not None:
            # Stored explicitly, so that a spec shows what the network assumes.
            settings.setdefault("assumed", settings[self.truth])
        return settings

    def title(self, settings: JsonMapping) -> str:
        """Default name of a point."""
        numbers = {name: value for name, value in settings.items() if name != "kind"}
        return ", ".join(f"{name} {value}" for name, value in numbers.items()) or self.name

    def sizes(self, settings: JsonMapping) -> list[int]:
        """Default training set sizes of a point."""
        return [4, 16, 64, 256, 1024]

    def check_keys(self, shared: Any, point: Any) -> None:
        """Raise for keys that do not go together in a new study; stored ones are not asked."""

    def check(self, settings: JsonMapping, problem: Problem) -> None:
        """Raise if no cell could be computed; draws a sample, unless a subclass finds that slow."""
        import numpy as np

        # Overflow is reported as one error below, not as warnings of NumPy.
        with np.errstate(all="ignore"):
            sample = problem.pools(seed=0, train=0, validation=0, test=1).test
        if not all(bool(values.square().sum().isfinite()) for values in sample):
            raise KoriskError("a sample of this problem is not finite; use smaller numbers")

    def point(self, entry: StudyEntry, point: Any) -> tuple[str, JsonDict]:
        """The default name of a point, and its spec: everything that its results depend on.

        Keys of later versions are left out unless they are used, so that older stores can be
        continued.
        """
        if entry.protocol != "rigorous":
            rule = f"protocol {entry.protocol!r} exists for kind ct only, got kind {self.name}"
            raise KoriskError(f"{rule}; leave protocol out")
        settings, pools = self.settings(entry.problem, point), entry.pools or PoolsEntry()
        models = entry.models or ModelsEntry(KO=keys.KnownEntry(), FC=keys.DenseEntry())
        spec: JsonDict = {
            "protocol": "rigorous",
            "problem": settings,
            "pools": pools.model_dump(),
            "sizes": checked_sizes(point.sizes or entry.sizes or self.sizes(settings)),
            "models": self._models(models, pools.validation),
            "metric": entry.metric or "mse",
        }
        if (images := getattr(entry.problem, "images", None)) is not None:
            spec[FOUND_AT] = found_at(images)
        return self.title(settings), spec

    def _models(self, models: ModelsEntry, validation: int) -> JsonDict:
        """Settings of KO and FC, then of networks by name with the keys of their kind."""
        settings = models.model_dump(mode="json", exclude_none=True, exclude={"networks"})
        if not settings and not models.networks:
            problem = "models must name KO, FC or both, or networks, got neither"
            raise KoriskError(f"{problem}; leave models out for both")
        for model, fitted in settings.items():
            entry = getattr(models, model)
            entry.check(f"models.{model}")
            # Outputs of both signs need a network without a ReLU, and without its refinement.
            fixed = {} if self.relu else {"relu": False, "refine": 0}
            for key, value in fixed.items():
                if key in entry.model_fields_set and fitted[key] != value:
                    rule = f"models.{model}.{key} must be {str(value).lower()} for kind {self.name}"
                    raise KoriskError(f"{rule}; leave it out")
            fitted.update((key, value) for key, value in fixed.items() if key in fitted)
            if fitted.get("select") == "validation" and not validation:
                rule = f"models.{model}.select is 'validation', but pools.validation is 0"
                raise KoriskError(f"{rule}; give it images")
        rule = f"be one of {', '.join(self.networks) or 'none'} for problems of kind {self.name}"
        for network in models.networks or ():
            name, met = network.name or network.kind, network.kind in self.networks
            require(met, "models.networks: kind", rule, network.kind, "name one of them")
            if not validation:
                why = "models.networks keep their best step on validation images"
                raise KoriskError(f"{why}, but pools.validation is 0; give it images")
            if name in ("KO", "FC", *settings):
                why = f"models.networks must differ in name, from KO and FC too, got {name!r} twice"
                raise KoriskError(f"{why}; give name: to one")
            network.check("models.networks")
            exclude = {"name", *network.misplaced()[1]}
            settings[name] = network.model_dump(mode="json", exclude=exclude)
        return settings


def checked_sizes(sizes: list[int]) -> list[int]:
    """Training set sizes in ascending order."""
    require(sorted(set(sizes)) == sizes, "sizes", "be ascending, each once", sizes, "sort them")
    return sizes


def found_at(images: Any) -> dict[str, str]:
    """Paths of images and of the table of patients; a fingerprint identifies the content."""
    table = {"patients": images.patients} if images.patients.lower().endswith(".csv") else {}
    return {"path": images.path, **table}
