"""The kinds of problems: the keys of their files, the spec of a point, the problem of a spec.

Each kind has a section: CT, the deeper network behind a CT scanner, MRI, and advection and
diffusion. PyTorch is imported when a problem is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from korisk import published
from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.studies.spec.entries import (
    Batch,
    DenseEntry,
    ImagesEntry,
    Iterations,
    NoiseEntry,
    PointEntry,
    StudyEntry,
    checked_sizes,
    first_given,
    noise_of,
    point_spec,
    population,
    source_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from korisk.problems import CtProblem, CtScanner, DeepProblem, HeatProblem, MriProblem

Beam = Literal["fan", "parallel", "surrogate", "released"]

_SMALL = (8, 16, 32)  # sides that the authors ran on a CPU
_SCANS = {row.size.H: (row.size.V, row.size.B) for row in published.FOOTPRINT}


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
    problem = entry.problem.model_dump() | part.model_dump(include={"side", "views", "bins"})
    both = DeepModelsEntry(KO=DeepEntry(), FC=DenseEntry())
    spec = point_spec(entry, part, problem, [4, 16, 64, 256], models=both, relu=False)
    return f"deep-{part.side}", spec


def deep_problem(spec: Mapping[str, Any]) -> DeepProblem:
    """The problem of a point of the deeper network."""
    from korisk.problems import DeepProblem, EllipseSource

    source = source_of(spec)
    assert isinstance(source, EllipseSource)
    own = {name: spec["problem"][name] for name in ("channels", "gain")}
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
    }
    if "poisson" in (problem["noise"] or ()):
        raise KoriskError("noise of kind mri must be gaussian; write noise: {gaussian: 0.1}")
    spec = point_spec(entry, part, problem, [4, 16, 64, 256, 1024])
    return f"{part.lines} of {part.side} lines", spec


def mri_problem(spec: Mapping[str, Any]) -> MriProblem:
    """The problem of an MRI point."""
    from korisk.problems import MriProblem, Poisson

    noise = noise_of(spec)
    assert not isinstance(noise, Poisson)
    size = {name: spec["problem"].get(name) for name in ("side", "lines", "centre")}
    return MriProblem(noise=noise, source=source_of(spec), **size)


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
