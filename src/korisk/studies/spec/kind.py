"""Kinds of problems: the keys of their files, the specs of points, problems and fits.

A kind is a subclass of `Kind` that registers itself; `ct.py`, `mri.py`, `blur.py` and `pde.py` have
one each. docs/how-to/add-a-kind.md shows how to add one from outside.
"""

from __future__ import annotations

import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError, did_you_mean, shown
from korisk.files import Spec
from korisk.store.cells import FOUND_AT
from korisk.studies.spec.entries import (
    DenseEntry,
    KnownEntry,
    ModelsEntry,
    PointKeys,
    PoolsEntry,
    ProblemKeys,
    StudyEntry,
    TrainedEntry,
    checked_sizes,
)

if TYPE_CHECKING:
    from korisk.problems import Problem
    from korisk.studies.run.fits import Fit

KindClass = TypeVar("KindClass", bound="type[AnyKind]")

FROM_OUTSIDE = "KORISK_KINDS"  # modules and files to import, as in PATH


class Kind(ABC, Generic[ProblemKeys, PointKeys]):
    """Base class of kinds of problems; `settings` is the problem of a spec.

    Modules of kinds import PyTorch only inside functions, so that studies can be read without it.
    """

    name: ClassVar[str]  # `problem.kind` of a study
    study: ClassVar[type[StudyEntry[Any, Any]]]  # the keys of its files
    sizes: ClassVar[tuple[int, ...]] = (4, 16, 64, 256, 1024)  # default of studies
    models: ClassVar[Spec] = ModelsEntry(KO=KnownEntry(), FC=DenseEntry())  # default of studies
    relu: ClassVar[bool] = True  # whether outputs are non-negative, so that a ReLU may follow
    networks: ClassVar[tuple[str, ...]] = ()  # kinds that its problem builds, for models.networks

    @abstractmethod
    def problem(self, spec: JsonMapping) -> Problem:
        """The problem of a point."""

    def settings(self, shared: ProblemKeys, point: PointKeys) -> JsonDict:
        """Settings of a point's samples: the study's keys, overridden by the point's."""
        changes = point.model_dump(exclude={"name", "sizes"}, exclude_none=True)
        return {"kind": self.name} | shared.model_dump() | changes

    def title(self, settings: JsonMapping) -> str:
        """Default name of a point."""
        numbers = {name: value for name, value in settings.items() if name != "kind"}
        return ", ".join(f"{name} {value}" for name, value in numbers.items()) or self.name

    def entries(self, settings: JsonMapping) -> tuple[int, int]:
        """Number of entries of an output and of an input."""
        weights, tail = self.problem({"problem": settings}).reconstruction()
        return math.prod(tail[-1].range), weights.numel()

    def check(self, settings: JsonMapping, problem: Problem) -> None:
        """Raise if no cell could be computed; draws a sample, unless a subclass finds that slow."""
        import numpy as np

        # Overflow is reported as one error below, not as warnings of NumPy.
        with np.errstate(all="ignore"):
            sample = problem.pools(seed=0, train=0, validation=0, test=1).test
        if not all(bool(values.square().sum().isfinite()) for values in sample):
            raise KoriskError("a sample of this problem is not finite; use smaller numbers")

    def fit(self, model: str, settings: JsonMapping) -> Fit:
        """The fit of a model with these settings."""
        from korisk.studies.run.fits import fit_of

        return fit_of(model, settings)

    def point(
        self, entry: StudyEntry[ProblemKeys, PointKeys], point: PointKeys
    ) -> tuple[str, JsonDict]:
        """The default name of a point, and its spec."""
        settings = self.settings(entry.problem, point)
        return self.title(settings), self.spec(entry, settings, point.sizes or entry.sizes)

    def spec(
        self, entry: StudyEntry[ProblemKeys, PointKeys], settings: JsonDict, sizes: list[int] | None
    ) -> JsonDict:
        """Everything that the results of a point depend on.

        Keys of later versions are left out unless they are used, so that older stores can be
        continued.
        """
        if entry.protocol != "rigorous":
            rule = f"protocol {entry.protocol!r} exists for kind ct only, got kind {self.name}"
            raise KoriskError(f"{rule}; leave protocol out")
        models: Any = entry.models or self.models
        trained: list[TrainedEntry] = getattr(models, "networks", None) or []
        spec: JsonDict = {
            "protocol": "rigorous",
            "problem": settings,
            "pools": (entry.pools or PoolsEntry()).model_dump(),
            "sizes": checked_sizes(list(sizes or self.sizes)),
            "models": models.model_dump(mode="json", exclude_none=True, exclude={"networks"}),
            "metric": entry.metric or "mse",
        }
        if not spec["models"] and not trained:
            problem = "models must name KO, FC or both, or networks, got neither"
            raise KoriskError(f"{problem}; leave models out for both")
        for model, fitted in spec["models"].items():
            keys = getattr(models, model)
            keys.check(f"models.{model}")
            # Outputs of both signs need a network without a ReLU, and without its refinement.
            fixed = {} if self.relu else {"relu": False, "refine": 0}
            for key, value in fixed.items():
                if key in keys.model_fields_set and fitted[key] != value:
                    rule = f"models.{model}.{key} must be {str(value).lower()} for kind {self.name}"
                    raise KoriskError(f"{rule}; leave it out")
            fitted.update((key, value) for key, value in fixed.items() if key in fitted)
            if fitted.get("select") == "validation" and not spec["pools"]["validation"]:
                rule = f"models.{model}.select is 'validation', but pools.validation is 0"
                raise KoriskError(f"{rule}; give it images")
        if trained:
            spec["models"] |= self._trained(trained, spec["pools"]["validation"])
        if (images := getattr(entry.problem, "images", None)) is not None:
            spec[FOUND_AT] = images.found_at
        return spec

    def _trained(self, networks: list[TrainedEntry], validation: int) -> JsonDict:
        """Networks by name, with the keys of their kind."""
        for network in networks:
            if network.kind not in self.networks:
                kinds = (kind.name for kind in KINDS.values() if network.kind in kind.networks)
                rule = f"{network.kind} is for problems of kind {', '.join(kinds)}"
                remedy = f"; use {', '.join(self.networks)}" if self.networks else ""
                raise KoriskError(f"models.networks: {rule}, got {self.name}{remedy}")
        if not validation:
            rule = "models.networks keep their best step on validation images"
            raise KoriskError(f"{rule}, but pools.validation is 0; give it images")
        settings: JsonDict = {}
        for network in networks:
            name = network.name or network.kind
            if name in ("KO", "FC", *settings):
                why = f"models.networks must differ in name, from KO and FC too, got {name!r} twice"
                raise KoriskError(f"{why}; give name: to one")
            network.check("models.networks")
            _, misplaced = network.misplaced()
            settings[name] = network.model_dump(mode="json", exclude={"name", *misplaced})
        return settings


AnyKind = Kind[Any, Any]

KINDS: dict[str, AnyKind] = {}  # by name, in the order of registration


def register(kind: KindClass) -> KindClass:
    """Class decorator that registers a kind by its name."""
    KINDS[kind.name] = kind()
    return kind


def classes_for(specs: Iterable[JsonMapping]) -> tuple[type, ...]:
    """The registered classes that cells of these specs use, to be sent to workers.

    Classes are pickled by the names of their modules: a worker that unpickles them imports these
    modules, which register themselves there.
    """
    return tuple({type(kind_named(spec["problem"]["kind"])): None for spec in specs})


def kind_named(name: object) -> AnyKind:
    """The kind of this name; modules in `KORISK_KINDS` are imported if it is unknown."""
    if isinstance(name, str) and name not in KINDS:
        # Imported only for an unknown kind: users' files may be slow to import, or broken.
        _import_listed(filter(None, os.environ.get(FROM_OUTSIDE, "").split(os.pathsep)))
    if not isinstance(name, str) or name not in KINDS:
        hint = did_you_mean(str(name), KINDS)
        raise KoriskError(f"there is no problem of kind {shown(name)}{hint}")
    return KINDS[name]


def entries(settings: JsonMapping) -> tuple[int, int]:
    """Number of entries of an output and of an input of a point's problem."""
    return kind_named(settings["kind"]).entries(settings)


def _import_listed(places: Iterable[str]) -> None:
    """Import modules by their names, or files by their paths."""
    for place in places:
        path = Path(place)
        is_file = path.suffix == ".py"
        if is_file and not path.is_file():
            raise KoriskError(f"{FROM_OUTSIDE}: {place}: no such file; check the path")
        if is_file and (folder := str(path.resolve().parent)) not in sys.path:
            sys.path.insert(0, folder)  # workers inherit it
        try:
            module = import_module(path.stem if is_file else place)
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            remedy = "correct it"
            if isinstance(error, ModuleNotFoundError) and error.name == place.partition(".")[0]:
                remedy = "name a module that Python finds, or a file that ends in .py"
            problem = f"{FROM_OUTSIDE}: {place} cannot be imported: {reason}; {remedy}"
            raise KoriskError(problem) from error
        # Python caches modules by name: a file may be hidden by another module.
        if is_file and Path(module.__file__ or "").resolve() != path.resolve():
            clash = f"{FROM_OUTSIDE}: another module is called {path.stem}"
            raise KoriskError(f"{clash}; rename {place}")
