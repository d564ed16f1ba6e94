"""The kinds of problems: the keys of their files, the spec of a point, the problem of a spec.

Each kind has a section: CT, the deeper network behind a CT scanner, MRI, deblurring, and advection
and diffusion. PyTorch is imported when a problem is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from korisk.errors import KoriskError
from korisk.files import Spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from korisk.paper.theorem.deep import DeepProblem
    from korisk.paper.theorem.networks import GraphProblem
    from korisk.problems import BlurProblem, CtProblem, CtScanner, HeatProblem, MriProblem

from typing import TYPE_CHECKING

from korisk.store.cells import FOUND_AT

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
    blank: Literal["skip", "keep"] | None = None  # None: `predict` skips, `run` keeps

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


NetworkKind = Literal[
    "inverse-unet", "weights-inverse-unet", "inverse-cnn", "primal-dual", "dense-unet"
]
_OF_KIND = {"levels": "unet", "passes": "primal-dual"}  # by what the name of the kind ends with


class TrainedEntry(Spec):
    """A network of `korisk.networks.zoo`, and how it is trained: Adam, the best step kept."""

    kind: NetworkKind
    name: Annotated[str, Field(min_length=1, max_length=60)] | None = None  # None: the kind
    width: Annotated[int, Field(ge=1, le=1024)] = 16
    levels: Annotated[int, Field(ge=1, le=8)] = 2
    passes: Annotated[int, Field(ge=1, le=100)] = 4
    steps: Annotated[int, Field(ge=10, le=10**7)] = 2000
    batch: Annotated[int, Field(ge=1, le=10**5)] = 16
    rate: Positive = 1e-3


class ModelsEntry(Spec):
    """The networks of the study; one that is left out is not fitted."""

    KO: KnownEntry | None = None
    FC: DenseEntry | None = None
    networks: Annotated[list[TrainedEntry], Field(min_length=1, max_length=20)] | None = None


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
        "models": models.model_dump(mode="json", exclude_none=True, exclude={"networks"}),
        "metric": entry.metric or "mse",
    }
    trained = getattr(models, "networks", None) or []
    if not spec["models"] and (entry.theorem or not trained):
        measured = " where theorem is true" if entry.theorem else ", or networks"
        raise KoriskError(
            f"models must name KO, FC or both{measured}, got neither; leave models out for both"
        )
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
    spec["models"] |= _trained(trained, spec)
    images = getattr(entry.problem, "images", None)
    if images is not None:
        spec[FOUND_AT] = images.found_at
    return spec | ({"theorem": True} if entry.theorem else {})


def _trained(networks: list[TrainedEntry], spec: Mapping[str, Any]) -> dict[str, Any]:
    """The networks of the zoo by their names, each with the keys that its kind has."""
    kind = spec["problem"]["kind"]
    if networks and kind not in ("ct", "mri", "blur"):
        raise KoriskError(f"models.networks take images: kinds ct, mri and blur, got {kind}")
    if networks and not spec["pools"]["validation"]:
        raise KoriskError(
            "models.networks keep their best step on validation images, but pools.validation is 0; "
            "give it images"
        )
    made: dict[str, Any] = {}
    for each in networks:
        name = each.name or each.kind
        if name in ("KO", "FC", *made):
            raise KoriskError(
                f"models.networks must differ in name, from KO and FC too, got {name!r} twice; "
                "give name: to one"
            )
        foreign = [key for key, ends in _OF_KIND.items() if not each.kind.endswith(ends)]
        for key in foreign:
            if key in each.model_fields_set:
                raise KoriskError(
                    f"models.networks.{key} does not belong to kind {each.kind}; leave it out"
                )
        made[name] = each.model_dump(mode="json", exclude={"name", *foreign})
    return made


def entries(problem: Mapping[str, Any]) -> tuple[int, int]:
    """Entries of an output and of an input of a point's problem."""
    pixels = int(problem["points"] if problem["kind"] == "heat" else problem["side"] ** 2)
    if problem["kind"] == "mri":
        return pixels, 2 * pixels * (problem.get("coils") or 1)
    return pixels, int(problem["views"] * problem["bins"]) if "views" in problem else pixels


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


Beam = Literal["fan", "parallel", "surrogate", "released"]

_SMALL = (8, 16, 32)  # sides that the authors ran on a CPU
_SCANS = {  # views and bins by side, as in the paper
    8: (10, 8),
    16: (20, 16),
    32: (40, 32),
    128: (60, 128),
    256: (90, 256),
    512: (180, 512),
}


# --- CT ------------------------------------------------------------------------------------------


class CtProblemEntry(Spec):
    """What is measured, and of what."""

    kind: Literal["ct"] = "ct"
    beam: Beam = "fan"
    arc: float | None = None  # degrees that are scanned; None: half a turn
    ellipses: list[int] = Field(default_factory=lambda: [1, 4])  # least and largest number
    images: ImagesEntry | None = None  # instead of ellipses
    noise: NoiseEntry | None = None


class CtPointEntry(PointEntry):
    """One operating point: the scanner's size, and where it differs from the study."""

    side: Annotated[int, Field(ge=2, le=4096)]
    views: int | None = None
    bins: int | None = None
    beam: Beam | None = None
    arc: float | None = None
    ellipses: list[int] | None = None
    noise: NoiseEntry | None = None


class CtStudyEntry(StudyEntry):
    """The file of a CT study."""

    problem: CtProblemEntry = Field(default_factory=CtProblemEntry)
    points: Annotated[list[CtPointEntry], Field(min_length=1)]


def ct_point(entry: CtStudyEntry, part: CtPointEntry) -> tuple[str, dict[str, Any]]:
    """The default name of a point, and its spec."""
    side = part.side
    of_paper = _SCANS.get(side, (None, None))
    views, bins = first_given(part.views, of_paper[0]), first_given(part.bins, of_paper[1])
    if views is None or bins is None:
        raise KoriskError(
            f"a point of side {side} needs views and bins; only the paper's sides "
            f"{sorted(_SCANS)} have defaults"
        )
    size = {"side": side, "views": views, "bins": bins}
    sizes = [4, 8, 16, 32, 64] if side in _SMALL else [4, 16, 64, 256, 1024, 2048]
    if entry.protocol == "released":
        return f"released-{side}", _released(entry, part, size, sizes)
    of_study = entry.problem
    arc = first_given(part.arc, of_study.arc)
    problem = {
        "kind": "ct",
        "beam": part.beam or of_study.beam,
        **population(
            first_given(part.ellipses, of_study.ellipses),
            of_study.images,
            part.noise or of_study.noise,
        ),
        **size,
        **({} if arc is None else {"arc": arc}),
    }
    return f"rigorous-{side}", point_spec(entry, part, problem, sizes)


def _released(
    entry: CtStudyEntry, part: CtPointEntry, size: dict[str, int], sizes: list[int]
) -> dict[str, Any]:
    """The spec of the released protocol, whose settings are the authors'."""
    own = entry.models, entry.pools, entry.metric, part.beam, part.ellipses, part.noise, part.arc
    other = entry.problem != CtProblemEntry() or entry.theorem
    if other or any(each is not None for each in own):
        raise KoriskError(
            "protocol 'released' fixes problem, models, pools and metric; leave those keys out, or "
            "use protocol: rigorous"
        )
    side = part.side
    if _SCANS.get(side) != (size["views"], size["bins"]):
        raise KoriskError(
            f"protocol 'released' has the sides {sorted(_SCANS)} with the paper's views and bins, "
            f"got {side}, {size['views']} and {size['bins']}; use protocol: rigorous"
        )
    small = side in _SMALL
    known: dict[str, Any]
    if small:
        grid = [1e-6, 1e-4, 1e-2, 1.0, 1e2]
        known = {"fit": "ridge", "toward": "zero", "refine": 0}
        known |= {"grid": grid, "select": "validation", "relu": False}
        dense = {"grid": grid, "select": "validation", "by": "mse", "relu": False}
    else:
        batch, iterations = {128: (4, 5000), 256: (1, 5000), 512: (8, 10000)}[side]
        known = {"fit": "gradient", "optimiser": "adagrad", "rate": 2e-2, "relu": True}
        known |= {"iterations": iterations, "batch": batch}
        dense = {"select": "test", "by": "rmse_over_max", "relu": True}
        dense["grid"] = [1e-4, 1e-2, 1.0, 1e2, 1e4]
    problem = {
        "kind": "ct",
        "beam": "surrogate" if small else "released",
        "population": "released-surrogate" if small else "released",
        "ellipses": [1, 4] if small else [3, 6],
        "noise": None,
        **size,
    }
    return {
        "protocol": "released",
        "problem": problem,
        "pools": {"validation": 32, "test": 128} if small else {"validation": 0, "test": 50},
        "sizes": checked_sizes(first_given(part.sizes, entry.sizes, sizes)),
        "models": {"KO": known, "FC": dense},
        "metric": "mse" if small else "rmse_over_max",
    }


def ct_problem(spec: Mapping[str, Any]) -> CtProblem:
    """The problem of a CT point."""
    from korisk.problems import CtProblem, EllipseSource

    images = spec["problem"]["population"]
    released = images in ("released", "released-surrogate")
    scanner = scanner_of(spec)
    _ = scanner.geometry  # raises if there is no such scanner
    return CtProblem(
        scanner=scanner,
        source=EllipseSource() if released else source_of(spec),
        population=images if released else "ellipses",
        noise=noise_of(spec),
    )


def scanner_of(spec: Mapping[str, Any]) -> CtScanner:
    """The scanner of a CT point."""
    from korisk.problems import CtScanner

    problem = spec["problem"]
    size = {name: problem[name] for name in ("side", "views", "bins", "beam")}
    return CtScanner(**size, arc=problem.get("arc"))


# --- Two learned parts around a known operator ---------------------------------------------------


class DeepEntry(Spec):
    """How the network with two learned parts is trained."""

    optimiser: Literal["sgd", "adagrad", "adam"] = "adam"
    rate: float = 1e-2
    iterations: Iterations = 2000
    batch: Batch = 16


class DeepModelsEntry(Spec):
    """The networks of the study; one that is left out is not fitted."""

    KO: DeepEntry | None = None
    FC: DenseEntry | None = None


class DeepProblemEntry(Spec):
    """What is measured, and of what."""

    kind: Literal["deep"]
    beam: Literal["fan", "parallel"] = "parallel"
    ellipses: list[int] = Field(default_factory=lambda: [1, 4])
    channels: int = 4  # of the true convolutions
    gain: float = 0.3
    network: str | None = None  # a `GraphProblem` of this kind instead
    near: float | None = None  # where its training starts


class DeepPointEntry(PointEntry):
    """One operating point: the scanner's size."""

    side: int
    views: int
    bins: int


class DeepStudyEntry(StudyEntry):
    """The file of a study of the deeper network."""

    problem: DeepProblemEntry
    points: Annotated[list[DeepPointEntry], Field(min_length=1)]
    models: DeepModelsEntry | None = None  # type: ignore[assignment]
    metric: Literal["mse", "relative"] | None = None


def deep_point(entry: DeepStudyEntry, part: DeepPointEntry) -> tuple[str, dict[str, Any]]:
    """The default name of a point, and its spec."""
    population(entry.problem.ellipses, None, None)  # checks the numbers of ellipses
    if entry.problem.network is None and entry.problem.near is not None:
        raise KoriskError(
            f"problem.near says where training of problem.network starts, got {entry.problem.near} "
            "without a network; name one, or leave near out"
        )
    graph = {"network", "near"}  # absent where unused: stored cells have specs without them
    own = entry.problem.model_dump(exclude=graph if entry.problem.network is None else set())
    problem = own | part.model_dump(include={"side", "views", "bins"})
    both = DeepModelsEntry(KO=DeepEntry(), FC=DenseEntry())
    spec = point_spec(entry, part, problem, [4, 16, 64, 256], models=both, relu=False)
    return f"deep-{part.side}", spec


def deep_problem(spec: Mapping[str, Any]) -> DeepProblem | GraphProblem:
    """The problem of a point of the deeper network."""
    from korisk.paper.theorem.deep import DeepProblem
    from korisk.paper.theorem.networks import GraphProblem
    from korisk.problems import EllipseSource

    source = source_of(spec)
    assert isinstance(source, EllipseSource)
    problem = spec["problem"]
    if problem.get("network") is not None:
        return GraphProblem(
            scanner=scanner_of(spec),
            source=source,
            network=problem["network"],
            width=problem["channels"],
            near=problem["near"],
        )
    own = {name: problem[name] for name in ("channels", "gain")}
    return DeepProblem(scanner=scanner_of(spec), source=source, **own)


# --- MRI -----------------------------------------------------------------------------------------


class MriProblemEntry(Spec):
    """What is measured, and of what."""

    kind: Literal["mri"]
    ellipses: list[int] = Field(default_factory=lambda: [1, 4])
    images: ImagesEntry | None = None
    noise: NoiseEntry | None = None


class MriPointEntry(PointEntry):
    """One operating point: the image's size and the measured lines of k-space."""

    side: int
    lines: int
    centre: int | None = None
    coils: int | None = None  # None: one that sees everything alike
    mu: float | None = None  # of the inverse behind several coils
    noise: NoiseEntry | None = None


class MriStudyEntry(StudyEntry):
    """The file of an MRI study."""

    problem: MriProblemEntry
    points: Annotated[list[MriPointEntry], Field(min_length=1)]


def mri_point(entry: MriStudyEntry, part: MriPointEntry) -> tuple[str, dict[str, Any]]:
    """The default name of a point, and its spec."""
    of_study = entry.problem
    problem = {
        "kind": "mri",
        **population(of_study.ellipses, of_study.images, part.noise or of_study.noise),
        **part.model_dump(include={"side", "lines", "centre"}),
        **part.model_dump(include={"coils", "mu"}, exclude_none=True),
    }
    if part.mu is not None and part.coils is None:
        raise KoriskError("mu of kind mri belongs to several coils; add coils: 4, or leave mu out")
    _only_gaussian(problem)
    spec = point_spec(entry, part, problem, [4, 16, 64, 256, 1024])
    several = "" if part.coils is None else f", {part.coils} coil{'s' * (part.coils > 1)}"
    return f"{part.lines} of {part.side} lines{several}", spec


def _only_gaussian(problem: dict[str, Any]) -> None:
    if "poisson" in (problem["noise"] or ()):
        kind = problem["kind"]
        raise KoriskError(f"noise of kind {kind} must be gaussian; write noise: {{gaussian: 0.1}}")


def mri_problem(spec: Mapping[str, Any]) -> MriProblem:
    """The problem of an MRI point."""
    from korisk.problems import MriProblem, Poisson

    noise = noise_of(spec)
    assert not isinstance(noise, Poisson)
    names = ("side", "lines", "centre", "coils", "mu")
    size = {name: spec["problem"][name] for name in names if name in spec["problem"]}
    return MriProblem(noise=noise, source=source_of(spec), **size)


# --- Deblurring ----------------------------------------------------------------------------------


class BlurProblemEntry(Spec):
    """The camera, and what is in front of it: see `korisk.problems.BlurProblem`."""

    kind: Literal["blur"]
    deviation: float = 1.0
    gain: float = 0.2
    mu: float = 0.01
    ellipses: list[int] = Field(default_factory=lambda: [1, 4])
    images: ImagesEntry | None = None
    noise: NoiseEntry | None = None


class BlurPointEntry(PointEntry):
    """One operating point: the image's size, the blur that the network assumes, and more."""

    side: int
    assumed: float | None = None
    deviation: float | None = None
    gain: float | None = None
    mu: float | None = None
    noise: NoiseEntry | None = None


class BlurStudyEntry(StudyEntry):
    """The file of a study of deblurring."""

    problem: BlurProblemEntry
    points: Annotated[list[BlurPointEntry], Field(min_length=1)]


def blur_point(entry: BlurStudyEntry, part: BlurPointEntry) -> tuple[str, dict[str, Any]]:
    """The default name of a point, and its spec."""
    of_study = entry.problem
    numbers = {"deviation", "gain", "mu"}
    problem: dict[str, Any] = {
        "kind": "blur",
        **population(of_study.ellipses, of_study.images, part.noise or of_study.noise),
        **of_study.model_dump(include=numbers),
        **part.model_dump(include={"side", "assumed", *numbers}, exclude_none=True),
    }
    _only_gaussian(problem)
    assumed = problem.setdefault("assumed", problem["deviation"])
    spec = point_spec(entry, part, problem, [4, 16, 64, 256, 1024])
    return f"side {part.side}, blur {assumed:g} for {problem['deviation']:g}", spec


def blur_problem(spec: Mapping[str, Any]) -> BlurProblem:
    """The problem of a point."""
    from korisk.problems import BlurProblem, Poisson

    noise = noise_of(spec)
    assert not isinstance(noise, Poisson)
    names = ("side", "deviation", "assumed", "gain", "mu")
    own = {name: spec["problem"][name] for name in names}
    return BlurProblem(noise=noise, source=source_of(spec), **own)


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
    """One operating point: the viscosity that the network assumes, and other differences."""

    assumed: float | None = None
    points: int | None = None
    viscosity: float | None = None
    speed: float | None = None
    time: float | None = None
    gain: float | None = None
    noise: float | None = None
    amplitude: float | None = None


class HeatStudyEntry(StudyEntry):
    """The file of a study of advection and diffusion."""

    problem: HeatProblemEntry
    points: Annotated[list[HeatPointEntry], Field(min_length=1)]
    metric: Literal["mse", "relative"] | None = None


def heat_point(entry: HeatStudyEntry, part: HeatPointEntry) -> tuple[str, dict[str, Any]]:
    """The default name of a point, and its spec."""
    own = part.model_dump(exclude={"name", "sizes"}, exclude_none=True)
    problem = entry.problem.model_dump() | own
    assumed = problem.setdefault("assumed", problem["viscosity"])
    spec = point_spec(entry, part, problem, [4, 16, 64, 256, 1024], relu=False)
    return f"viscosity {assumed:g} for {problem['viscosity']:g}", spec


def heat_problem(spec: Mapping[str, Any]) -> HeatProblem:
    """The problem of a point."""
    from korisk.problems import HeatProblem

    return HeatProblem(**{name: value for name, value in spec["problem"].items() if name != "kind"})
