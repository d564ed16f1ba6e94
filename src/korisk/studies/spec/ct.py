"""Computed tomography, and the protocol of the authors' released code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError, invalid
from korisk.studies.spec.entries import StudyEntry, checked_sizes, noise_of, source_of
from korisk.studies.spec.imaging import ImagingEntry, ImagingKind, ImagingPointEntry
from korisk.studies.spec.kind import register
from korisk.studies.spec.motion import MotionEntry, motion_of, motion_words

if TYPE_CHECKING:
    from korisk.problems import CtScanner, Problem

Beam = Literal["fan", "parallel", "cone", "surrogate", "released"]

# Views and bins by pixels along an edge: those of the paper's operating points.
SCANS = {8: (10, 8), 16: (20, 16), 32: (40, 32), 128: (60, 128), 256: (90, 256), 512: (180, 512)}
_SMALL = (8, 16, 32)  # sides that the authors ran on a CPU
_MOST_SURROGATE = 128  # training images that the released protocol has at these sides


class CtProblemEntry(ImagingEntry):
    """Keys of the problem: scanner, motion and images."""

    kind: Literal["ct"] = "ct"
    beam: Beam = "fan"
    arc: float | None = None  # degrees that are scanned; None: half a turn, of a cone a whole one
    motion: MotionEntry | None = None


class CtPointEntry(ImagingPointEntry):
    """One operating point: the scanner's size, and where it differs from the study."""

    side: Annotated[int, Field(ge=2, le=4096)]
    views: int | None = None
    bins: int | None = None
    beam: Beam | None = None
    arc: float | None = None
    ellipses: list[int] | None = None
    motion: MotionEntry | None = None

    def scan(self) -> dict[str, int]:
        """Side, views and bins, by default the paper's."""
        views, bins = SCANS.get(self.side, (None, None))
        views = views if self.views is None else self.views
        bins = bins if self.bins is None else self.bins
        if views is None or bins is None:
            problem = f"a point of side {self.side} needs views and bins"
            raise KoriskError(f"{problem}; only the paper's sides {sorted(SCANS)} have defaults")
        return {"side": self.side, "views": views, "bins": bins}


class CtStudyEntry(StudyEntry[CtProblemEntry, CtPointEntry]):
    """The file of a CT study."""

    problem: CtProblemEntry = Field(default_factory=CtProblemEntry)


@register
class Ct(ImagingKind[CtProblemEntry, CtPointEntry]):
    """Images from sinograms."""

    name = "ct"
    study = CtStudyEntry
    photons = True

    def settings(self, shared: CtProblemEntry, point: CtPointEntry) -> JsonDict:
        """Scanner, images and noise."""
        return super().settings(shared, point) | point.scan()

    def point(
        self, entry: StudyEntry[CtProblemEntry, CtPointEntry], point: CtPointEntry
    ) -> tuple[str, JsonDict]:
        """The spec of a point under its protocol."""
        scan, small = point.scan(), point.side in _SMALL
        of_side = [4, 8, 16, 32, 64] if small else [4, 16, 64, 256, 1024, 2048]
        sizes = point.sizes or entry.sizes or of_side
        if entry.protocol == "rigorous":
            settings = self.settings(entry.problem, point)
            name = f"rigorous-{point.side}{motion_words(settings)}"
            return name, self.spec(entry, settings, sizes)
        # The released protocol is the authors': a study with other settings must not bear its name.
        shared = entry.models, entry.pools, entry.metric
        specific = point.beam, point.ellipses, point.motion, point.noise, point.arc
        changed = entry.problem != CtProblemEntry()
        if changed or any(value is not None for value in (*shared, *specific)):
            problem = "protocol 'released' fixes problem, models, pools and metric"
            raise KoriskError(f"{problem}; leave those keys out, or use protocol: rigorous")
        if SCANS.get(point.side) != (scan["views"], scan["bins"]):
            rule = f"has the sides {sorted(SCANS)} with the paper's views and bins"
            got = f"{point.side}, {scan['views']} and {scan['bins']}; use protocol: rigorous"
            raise KoriskError(f"protocol 'released' {rule}, got {got}")
        return f"released-{point.side}", _released(scan, sizes)

    def entries(self, settings: JsonMapping) -> tuple[int, int]:
        """Pixels or voxels, and rays."""
        cone = settings["beam"] == "cone"
        return settings["side"] ** (2 + cone), settings["views"] * settings["bins"] ** (1 + cone)

    def problem(self, spec: JsonMapping) -> Problem:
        """The problem of a CT point."""
        from korisk.problems import CtProblem, EllipseSource

        settings = spec["problem"]
        images = settings["population"]
        released = images in ("released", "released-surrogate")
        scanner = scanner_of(settings)
        _ = scanner.geometry  # raises for an impossible scanner
        return CtProblem(
            scanner=scanner,
            source=EllipseSource() if released else source_of(spec),
            population=images if released else "ellipses",
            noise=noise_of(settings),
        )

    def check(self, settings: JsonMapping, problem: Problem) -> None:
        """Draw no sample: building a large projector takes a while."""


def scanner_of(settings: JsonMapping) -> CtScanner:
    """The scanner of a CT point."""
    from korisk.problems import CtScanner

    size = {name: settings[name] for name in ("side", "views", "bins", "beam")}
    return CtScanner(**size, arc=settings.get("arc"), motion=motion_of(settings))


def _released(scan: dict[str, int], sizes: list[int]) -> JsonDict:
    """The spec of the released protocol, with the settings of the authors' code."""
    # Small sides: closed forms on a surrogate; large ones: gradients on a fan beam.
    small = scan["side"] in _SMALL
    ko_settings: JsonDict
    if small:
        if checked_sizes(sizes)[-1] > _MOST_SURROGATE:
            rule = f"be at most {_MOST_SURROGATE} under the released protocol"
            raise invalid("sizes", rule, sizes[-1])
        grid = [1e-6, 1e-4, 1e-2, 1.0, 1e2]
        ko_settings = {"fit": "ridge", "toward": "zero", "refine": 0}
        ko_settings |= {"grid": grid, "select": "validation", "relu": False}
        dense = {"grid": grid, "select": "validation", "by": "mse", "relu": False}
    else:
        batch, iterations = {128: (4, 5000), 256: (1, 5000), 512: (8, 10000)}[scan["side"]]
        ko_settings = {"fit": "gradient", "optimiser": "adagrad", "rate": 2e-2, "relu": True}
        ko_settings |= {"iterations": iterations, "batch": batch}
        # As released: the authors chose lambda on the test set.
        dense = {"select": "test", "by": "rmse_over_max", "relu": True}
        dense["grid"] = [1e-4, 1e-2, 1.0, 1e2, 1e4]
    return {
        "protocol": "released",
        "problem": {
            "kind": "ct",
            "beam": "surrogate" if small else "released",
            "population": "released-surrogate" if small else "released",
            "ellipses": [1, 4] if small else [3, 6],
            "noise": None,
            **scan,
        },
        "pools": {"validation": 32, "test": 128} if small else {"validation": 0, "test": 50},
        "sizes": checked_sizes(sizes),
        "models": {"KO": ko_settings, "FC": dense},
        "metric": "mse" if small else "rmse_over_max",
    }
