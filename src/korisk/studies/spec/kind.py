"""A kind of problem: the keys of its files, the spec of a point, its problem and its fits.

A kind is a subclass of `Kind` in a module of its own that registers itself; `ct.py`, `mri.py`,
`blur.py` and `pde.py` have one each. docs/how-to/add-a-kind.md adds one from outside.
"""

from __future__ import annotations

import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
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
    from korisk.studies.run.fits import Fit, Measure

KindClass = TypeVar("KindClass", bound="type[AnyKind]")
MeasureClass = TypeVar("MeasureClass", bound="type[Measure]")

FROM_OUTSIDE = "KORISK_KINDS"  # modules and files to import, as in PATH


class Kind(ABC, Generic[ProblemKeys, PointKeys]):
    """What a study needs to know of a kind of problem; `settings` is the problem of a spec.

    Importing the module of a kind imports no PyTorch, so that studies can be read without it.
    """

    name: ClassVar[str]  # `problem.kind` of a study
    study: ClassVar[type[StudyEntry[Any, Any]]]  # the keys of its files
    sizes: ClassVar[tuple[int, ...]] = (4, 16, 64, 256, 1024)  # unless a study has its own
    models: ClassVar[Spec] = ModelsEntry(KO=KnownEntry(), FC=DenseEntry())  # likewise
    relu: ClassVar[bool] = True  # whether outputs have one sign, so that a ReLU may follow
    networks: ClassVar[tuple[str, ...]] = ()  # kinds that its problem builds, for models.networks

    @abstractmethod
    def problem(self, spec: JsonMapping) -> Problem:
        """The problem that the cells of a point work on."""

    def settings(self, shared: ProblemKeys, point: PointKeys) -> JsonDict:
        """All that the samples of a point depend on: the study's keys, then the point's own."""
        own = point.model_dump(exclude={"name", "sizes"}, exclude_none=True)
        return {"kind": self.name} | shared.model_dump() | own

    def title(self, settings: JsonMapping) -> str:
        """The name of a point that has none."""
        numbers = {name: value for name, value in settings.items() if name != "kind"}
        return ", ".join(f"{name} {value}" for name, value in numbers.items()) or self.name

    def entries(self, settings: JsonMapping) -> tuple[int, int]:
        """Entries of an output and of an input."""
        weights, tail = self.problem({"problem": settings}).reconstruction()
        return math.prod(tail[-1].range), weights.numel()

    def check(self, settings: JsonMapping, problem: Problem) -> None:
        """Raise where no cell could be computed: by drawing a sample, where that is quick."""
        import numpy as np

        with np.errstate(all="ignore"):
            drawn = problem.pools(seed=0, train=0, validation=0, test=1).test
        if not all(bool(values.square().sum().isfinite()) for values in drawn):
            raise KoriskError("a sample of this problem is not finite; use smaller numbers")

    def fit(self, model: str, settings: JsonMapping) -> Fit:
        """How a model with these settings is fitted."""
        from korisk.studies.run.fits import fit_of

        return fit_of(model, settings)

    def point(
        self, entry: StudyEntry[ProblemKeys, PointKeys], point: PointKeys
    ) -> tuple[str, JsonDict]:
        """The default name of a point, and its spec."""
        settings = self.settings(entry.problem, point)
        return self.title(settings), self.spec(entry, settings, point.sizes or entry.sizes)

    def spec(
        self,
        entry: StudyEntry[ProblemKeys, PointKeys],
        settings: JsonDict,
        sizes: list[int] | None,
    ) -> JsonDict:
        """Everything that the numbers of a point depend on.

        Keys that came later and are not used are left out, so that earlier stores can be continued.
        """
        if entry.protocol != "rigorous":
            why = f"protocol {entry.protocol!r} exists for kind ct only, got kind {self.name}"
            raise KoriskError(f"{why}; leave protocol out")
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
        if not spec["models"] and (entry.theorem or not trained):
            measured = " where theorem is true" if entry.theorem else ", or networks"
            wrong = f"models must name KO, FC or both{measured}, got neither"
            raise KoriskError(f"{wrong}; leave models out for both")
        for model, fitted in spec["models"].items():
            keys = getattr(models, model)
            keys.check(f"models.{model}")
            # Outputs of both signs need a network without a ReLU, and without steps that fit one.
            fixed = {} if self.relu else {"relu": False, "refine": 0}
            for key, value in fixed.items():
                if key in keys.model_fields_set and fitted[key] != value:
                    why = f"models.{model}.{key} must be {str(value).lower()} for kind {self.name}"
                    raise KoriskError(f"{why}; leave it out")
            fitted.update((key, value) for key, value in fixed.items() if key in fitted)
            if fitted.get("select") == "validation" and not spec["pools"]["validation"]:
                why = f"models.{model}.select is 'validation', but pools.validation is 0"
                raise KoriskError(f"{why}; give it images")
        if trained:
            spec["models"] |= self._trained(trained, spec["pools"]["validation"])
        if (images := getattr(entry.problem, "images", None)) is not None:
            spec[FOUND_AT] = images.found_at
        return spec | ({"theorem": True} if entry.theorem else {})

    def _trained(self, networks: list[TrainedEntry], validation: int) -> JsonDict:
        """The networks by their names, each with the keys that its kind has."""
        for network in networks:
            if network.kind not in self.networks:
                others = ", ".join(
                    kind.name for kind in KINDS.values() if network.kind in kind.networks
                )
                wrong = f"models.networks: {network.kind} is for problems of kind {others}"
                remedy = f"; use {', '.join(self.networks)}" if self.networks else ""
                raise KoriskError(f"{wrong}, got {self.name}{remedy}")
        if not validation:
            best = "models.networks keep their best step on validation images"
            raise KoriskError(f"{best}, but pools.validation is 0; give it images")
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

KINDS: dict[str, AnyKind] = {}  # by their names, in the order in which they were registered
MEASURES: dict[str, type[Measure]] = {}  # by the key of a study that asks for them


def register(kind: KindClass) -> KindClass:
    """Make a kind known by its name; for use as a decorator of its class."""
    KINDS[kind.name] = kind()
    return kind


def measures(key: str) -> Callable[[MeasureClass], MeasureClass]:
    """Make known what a study with this key measures; for use as a decorator of a `Measure`."""

    def remember(measure: MeasureClass) -> MeasureClass:
        MEASURES[key] = measure
        return measure

    return remember


def classes_for(specs: Iterable[JsonMapping]) -> tuple[type, ...]:
    """What cells of these specs find in the registers, to be sent to workers.

    Classes are pickled by the names of their modules: a worker that gets them imports those, and
    they register themselves there.
    """
    needed: dict[type, None] = {}
    for spec in specs:
        needed[type(kind_named(spec["problem"]["kind"]))] = None
        if (measure := measure_of(spec)) is not None:
            needed[type(measure)] = None
    return tuple(needed)


def kind_named(name: object) -> AnyKind:
    """The kind of this name; modules that `KORISK_KINDS` lists are asked last."""
    if isinstance(name, str) and name not in KINDS:
        _import_listed(filter(None, os.environ.get(FROM_OUTSIDE, "").split(os.pathsep)))
    if not isinstance(name, str) or name not in KINDS:
        hint = did_you_mean(str(name), KINDS)
        raise KoriskError(f"there is no problem of kind {shown(name)}{hint}")
    return KINDS[name]


def entries(settings: JsonMapping) -> tuple[int, int]:
    """Entries of an output and of an input of a point's problem."""
    return kind_named(settings["kind"]).entries(settings)


def measure_of(spec: JsonMapping) -> Measure | None:
    """What measures more of each network than its error, where a study asks for that."""
    if not spec.get("theorem"):
        return None
    if "theorem" not in MEASURES:
        raise KoriskError("theorem: nothing measures layers yet; import korisk.paper.theorem")
    return MEASURES["theorem"]()


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
        if is_file and Path(module.__file__ or "").resolve() != path.resolve():
            why = f"{FROM_OUTSIDE}: another module is called {path.stem}"
            raise KoriskError(f"{why}; rename {place}")
