"""Studies as YAML: a problem at several points, models, training set sizes and seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal

from pydantic import Field

from korisk import published
from korisk.errors import KoriskError
from korisk.files import Spec, parse, read_yaml
from korisk.studies.result import Task
from korisk.theory import _checks

Protocol = Literal["rigorous", "released"]
PROTOCOLS: tuple[Protocol, ...] = ("rigorous", "released")

_SURROGATE = (8, 16, 32)
_SCANS = {row.size.H: (row.size.V, row.size.B) for row in published.FOOTPRINT}
_SIZES_OF_PAPER = {"CPU": [4, 8, 16, 32, 64], "GPU": [4, 16, 64, 256, 1024, 2048]}
_RELEASED_GRIDS = {"CPU": [1e-6, 1e-4, 1e-2, 1.0, 1e2], "GPU": [1e-4, 1e-2, 1.0, 1e2, 1e4]}
_MOST_SEEDS = 10_000
_LARGEST_SIZE = 10**7
_MOST_ITERATIONS, _MOST_BATCH = 10**7, 10**5


class NoiseEntry(Spec):
    """Noise on the sinograms, of one kind."""

    gaussian: float | None = None  # standard deviation over the sinogram's root mean square
    poisson: float | None = None  # photons a ray without an object


class ProblemEntry(Spec):
    """What is measured, and of what."""

    kind: Literal["ct"] = "ct"
    beam: Literal["fan", "parallel", "surrogate", "released"] = "fan"
    ellipses: list[int] = Field(default_factory=lambda: [1, 4])  # fewest, most in an image
    noise: NoiseEntry | None = None


class PointEntry(Spec):
    """One operating point: the scanner's size, and what it has other than the study at large."""

    name: str | None = None
    side: int
    views: int | None = None
    bins: int | None = None
    beam: Literal["fan", "parallel", "surrogate", "released"] | None = None
    ellipses: list[int] | None = None
    noise: NoiseEntry | None = None
    sizes: list[int] | None = None


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


_OF_GRADIENT = ("optimiser", "rate", "iterations", "batch")
_OF_RIDGE = ("toward", "refine", "grid", "select")


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
    """How many images lambda is chosen by, and how many errors are measured on."""

    validation: int = 64
    test: int = 256


class StudyEntry(Spec):
    """The whole file."""

    name: str
    protocol: Protocol = "rigorous"
    problem: ProblemEntry = Field(default_factory=ProblemEntry)
    points: list[PointEntry]
    models: ModelsEntry | None = None
    sizes: list[int] | None = None
    seeds: list[int] = Field(default_factory=lambda: [1, 2, 3])
    pools: PoolsEntry | None = None
    metric: Literal["mse", "relative", "rmse_over_max"] | None = None


class Study:
    """A study that was checked: its name, what it says, and the cells it consists of."""

    def __init__(
        self, content: dict[str, Any], *, source: object = "the study", ran: bool = False
    ) -> None:
        """`ran` says that it ran before: what a scanner can be is not asked again, nor PyTorch."""
        entry = parse(StudyEntry, content, source=source)
        try:
            self.name = _checks.name("name", entry.name, remedy="give the study a short name")
            self.tasks = _tasks(entry)
            for point in {} if ran else {task.point: task for task in self.tasks}.values():
                _check_values(point.spec)
        except KoriskError as error:
            raise KoriskError(f"{source}: {error}") from None
        self.content = entry.model_dump(mode="json", exclude_none=True)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Study:
        """The study that a YAML file describes."""
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise KoriskError(f"{path} must hold keys such as name and points; see docs/study.md")
        return cls(content, source=path)


def _tasks(entry: StudyEntry) -> tuple[Task, ...]:
    seeds = _seeds(entry.seeds)
    if not entry.points:
        raise KoriskError("points must name at least one operating point, got none; add a side")
    points = [_point(entry, part) for part in entry.points]
    twice = [name for name, times in Counter(name for name, _ in points).items() if times > 1]
    if twice:
        raise KoriskError(f"points must differ in name, got {twice[0]!r} twice; give name: to one")
    return tuple(Task(point=name, seed=seed, spec=spec) for name, spec in points for seed in seeds)


def _seeds(given: list[int]) -> list[int]:
    if not given or len(given) > _MOST_SEEDS:
        raise KoriskError(f"seeds must be from 1 to {_MOST_SEEDS:,} numbers, got {len(given)}")
    for seed in given:
        _checks.count("seeds", seed, at_least=0, at_most=2**31, remedy="give whole numbers")
    if len(set(given)) < len(given):
        raise KoriskError(f"seeds must differ, got {given}; name each once")
    return given


def _sizes(given: list[int]) -> list[int]:
    for size in given:
        remedy = "count training samples; a curve over N begins at 2"
        _checks.count("sizes", size, at_least=2, at_most=_LARGEST_SIZE, remedy=remedy)
    if not given or sorted(set(given)) != given:
        raise KoriskError(f"sizes must rise, each once, got {given}; sort them")
    return given


def _chosen_sizes(entry: StudyEntry, part: PointEntry) -> list[int]:
    return _sizes(_given(part.sizes, _given(entry.sizes, _SIZES_OF_PAPER[_scale(part.side)])))


def _point(entry: StudyEntry, part: PointEntry) -> tuple[str, dict[str, Any]]:
    side = _checks.count("side", part.side, at_least=2, at_most=4096, remedy="count pixels")
    spec = _released(entry, part) if entry.protocol == "released" else _rigorous(entry, part)
    name = part.name if part.name is not None else f"{entry.protocol}-{side}"
    return _checks.name("point", name, remedy="give the point a short name"), spec


def _scan(part: PointEntry) -> tuple[int, int]:
    if part.views is not None and part.bins is not None:
        return part.views, part.bins
    if part.side not in _SCANS:
        raise KoriskError(
            f"a point of side {part.side} needs views and bins; only the paper's sides "
            f"{sorted(_SCANS)} have some of their own"
        )
    views, bins = _SCANS[part.side]
    return _given(part.views, views), _given(part.bins, bins)


def _given(own: Any, other: Any) -> Any:
    """A point's own setting, or else the study's."""
    return other if own is None else own


def _scale(side: int) -> str:
    return "CPU" if side in _SURROGATE else "GPU"


def _rigorous(entry: StudyEntry, part: PointEntry) -> dict[str, Any]:
    views, bins = _scan(part)
    models = entry.models or ModelsEntry(KO=KnownEntry(), FC=DenseEntry())
    _check_kinds(models)
    problem = {
        "kind": entry.problem.kind,
        "beam": _given(part.beam, entry.problem.beam),
        "population": "ellipses",
        "ellipses": _ellipses(_given(part.ellipses, entry.problem.ellipses)),
        "noise": _noise(_given(part.noise, entry.problem.noise)),
        "side": part.side,
        "views": views,
        "bins": bins,
    }
    pools = entry.pools or PoolsEntry()
    spec = {
        "protocol": "rigorous",
        "problem": problem,
        "pools": pools.model_dump(),
        "sizes": _chosen_sizes(entry, part),
        "models": models.model_dump(mode="json", exclude_none=True),
        "metric": entry.metric or "mse",
    }
    _check_selection(spec)
    return spec


def _ellipses(given: list[int]) -> list[int]:
    if len(given) != 2 or not 1 <= given[0] <= given[1] <= 100:
        raise KoriskError(
            f"ellipses must be the fewest and the most in an image, 1 to 100, got {given}; write "
            "[1, 4]"
        )
    return given


def _noise(entry: NoiseEntry | None) -> dict[str, float] | None:
    if entry is None:
        return None
    given = entry.model_dump(exclude_none=True)
    if len(given) != 1:
        raise KoriskError(
            "noise must have exactly one of the keys 'gaussian' and 'poisson', got "
            f"{len(given)}; write noise: {{gaussian: 0.02}}"
        )
    (kind, level), *_ = given.items()
    return {kind: _checks.real(f"noise.{kind}", level, above=0, remedy="leave it out")}


def _check_kinds(models: ModelsEntry) -> None:
    """Refuse settings of the kind of fit that was not asked for."""
    if models.KO is None:
        return
    other = _OF_GRADIENT if models.KO.fit == "ridge" else _OF_RIDGE
    for name in other:
        if name in models.KO.model_fields_set:
            raise KoriskError(
                f"models.KO.{name} does not belong to fit: {models.KO.fit}; leave it out"
            )


def _check_values(spec: Mapping[str, Any]) -> None:
    """Make what cells will make, so that wrong values are said before anything runs."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        return  # nothing can run without it anyway
    from korisk.fitting import Recipe
    from korisk.studies.cells import noise_of, scanner_of

    scanner = scanner_of(spec)
    _ = scanner.geometry
    noise_of(spec["problem"]["noise"])
    known = spec["models"].get("KO")
    if known is not None and known["fit"] == "gradient":
        recipe = Recipe(**{name: known[name] for name in _OF_GRADIENT})
        for name, most in (("iterations", _MOST_ITERATIONS), ("batch", _MOST_BATCH)):
            if getattr(recipe, name) > most:
                raise KoriskError(f"models.KO.{name} must be at most {most:,}, got {known[name]}")
    most = {"released-surrogate": 128}.get(spec["problem"]["population"], _LARGEST_SIZE)
    if spec["sizes"][-1] > most:
        raise KoriskError(
            f"sizes must be at most {most} under the released protocol, got {spec['sizes'][-1]}"
        )


def _check_selection(spec: dict[str, Any]) -> None:
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


def _released(entry: StudyEntry, part: PointEntry) -> dict[str, Any]:
    """The released protocol, whose settings are the authors' and not the user's."""
    own = entry.models, entry.pools, entry.metric, part.beam, part.ellipses, part.noise
    if entry.problem != ProblemEntry() or any(each is not None for each in own):
        raise KoriskError(
            "protocol 'released' fixes problem, models, pools and metric; leave those keys out, or "
            "use protocol: rigorous"
        )
    views, bins = _scan(part)
    if part.side not in _SCANS or (views, bins) != _SCANS[part.side]:
        raise KoriskError(
            f"protocol 'released' has the sides {sorted(_SCANS)} with the paper's views and bins, "
            f"got {part.side}, {views} and {bins}; use protocol: rigorous"
        )
    scale = _scale(part.side)
    small = scale == "CPU"
    grid = _RELEASED_GRIDS[scale]
    known: dict[str, Any]
    if small:
        known = {"fit": "ridge", "toward": "zero", "refine": 0}
        known |= {"grid": grid, "select": "validation", "relu": False}
        dense = {"grid": grid, "select": "validation", "by": "mse", "relu": False}
    else:
        batch, iterations = {128: (4, 5000), 256: (1, 5000), 512: (8, 10000)}[part.side]
        known = {"fit": "gradient", "optimiser": "adagrad", "rate": 2e-2, "relu": True}
        known |= {"iterations": iterations, "batch": batch}
        dense = {"grid": grid, "select": "test", "by": "rmse_over_max", "relu": True}
    problem = {
        "kind": "ct",
        "beam": "surrogate" if small else "released",
        "population": "released-surrogate" if small else "released",
        "ellipses": [1, 4] if small else [3, 6],
        "noise": None,
        "side": part.side,
        "views": views,
        "bins": bins,
    }
    return {
        "protocol": "released",
        "problem": problem,
        "pools": {"validation": 32, "test": 128} if small else {"validation": 0, "test": 50},
        "sizes": _chosen_sizes(entry, part),
        "models": {"KO": known, "FC": dense},
        "metric": "mse" if small else "rmse_over_max",
    }
