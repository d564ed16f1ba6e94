"""Points of CT studies: scanners, under the rigorous protocol and the released one."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from korisk import _checks, published
from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.studies.spec.entries import (
    DenseEntry,
    ImagesEntry,
    KnownEntry,
    ModelsEntry,
    NoiseEntry,
    PointEntry,
    StudyEntry,
    check_fits,
    checked_ellipses,
    checked_noise,
    checked_sizes,
    given,
    images_spec,
    point_spec,
)

Beam = Literal["fan", "parallel", "surrogate", "released"]

_SURROGATE = (8, 16, 32)
_SCANS = {row.size.H: (row.size.V, row.size.B) for row in published.FOOTPRINT}
_SIZES_OF_PAPER = {"CPU": [4, 8, 16, 32, 64], "GPU": [4, 16, 64, 256, 1024, 2048]}
_RELEASED_GRIDS = {"CPU": [1e-6, 1e-4, 1e-2, 1.0, 1e2], "GPU": [1e-4, 1e-2, 1.0, 1e2, 1e4]}


class CtProblemEntry(Spec):
    """What is measured, and of what."""

    kind: Literal["ct"] = "ct"
    beam: Beam = "fan"
    arc: float | None = None  # degrees that are scanned; half a turn
    ellipses: list[int] = Field(default_factory=lambda: [1, 4])  # fewest, most in an image
    images: ImagesEntry | None = None  # instead of ellipses
    noise: NoiseEntry | None = None


class CtPointEntry(PointEntry):
    """One operating point: the scanner's size, and what it has other than the study at large."""

    side: int
    views: int | None = None
    bins: int | None = None
    beam: Beam | None = None
    arc: float | None = None
    ellipses: list[int] | None = None
    noise: NoiseEntry | None = None


class CtStudyEntry(StudyEntry):
    """The whole file of a CT study."""

    problem: CtProblemEntry = Field(default_factory=CtProblemEntry)
    points: list[CtPointEntry]
    models: ModelsEntry | None = None
    metric: Literal["mse", "relative", "rmse_over_max"] | None = None


def ct_point(entry: CtStudyEntry, part: CtPointEntry) -> tuple[str, dict[str, Any]]:
    """A point's name, if it has none of its own, and what its numbers depend on."""
    side = _checks.count("side", part.side, at_least=2, at_most=4096, remedy="count pixels")
    spec = _released(entry, part) if entry.protocol == "released" else _rigorous(entry, part)
    return f"{entry.protocol}-{side}", spec


def _chosen_sizes(entry: CtStudyEntry, part: CtPointEntry) -> list[int]:
    return checked_sizes(given(part.sizes, given(entry.sizes, _SIZES_OF_PAPER[_scale(part.side)])))


def _scan(part: CtPointEntry) -> tuple[int, int]:
    if part.views is not None and part.bins is not None:
        return part.views, part.bins
    if part.side not in _SCANS:
        raise KoriskError(
            f"a point of side {part.side} needs views and bins; only the paper's sides "
            f"{sorted(_SCANS)} have some of their own"
        )
    views, bins = _SCANS[part.side]
    return given(part.views, views), given(part.bins, bins)


def _scale(side: int) -> str:
    return "CPU" if side in _SURROGATE else "GPU"


def _rigorous(entry: CtStudyEntry, part: CtPointEntry) -> dict[str, Any]:
    views, bins = _scan(part)
    models = entry.models or ModelsEntry(KO=KnownEntry(), FC=DenseEntry())
    check_fits(models)
    arc = given(part.arc, entry.problem.arc)
    problem = {
        "kind": entry.problem.kind,
        "beam": given(part.beam, entry.problem.beam),
        "population": "ellipses",
        "ellipses": checked_ellipses(given(part.ellipses, entry.problem.ellipses)),
        "noise": checked_noise(given(part.noise, entry.problem.noise)),
        "side": part.side,
        "views": views,
        "bins": bins,
        **({} if arc is None else {"arc": arc}),
        **images_spec(entry.problem.images),
    }
    return point_spec(entry, problem, _chosen_sizes(entry, part), models, entry.metric or "mse")


def _released(entry: CtStudyEntry, part: CtPointEntry) -> dict[str, Any]:
    """The released protocol, whose settings are the authors' and not the user's."""
    own = entry.models, entry.pools, entry.metric, part.beam, part.ellipses, part.noise, part.arc
    other = entry.problem != CtProblemEntry() or entry.theorem
    if other or any(each is not None for each in own):
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
