"""Computed tomography, and the protocol of the authors' released code."""

from __future__ import annotations

from typing import Any, ClassVar

from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError, invalid
from korisk.problems import CtProblem, CtScanner, Problem
from korisk.studies.spec.entries import StudyEntry
from korisk.studies.spec.imaging import ImagingKind
from korisk.studies.spec.kind import checked_sizes, register

# Views and bins by pixels along an edge: those of the paper's operating points.
_PAPER = map(CtScanner.of_paper, (8, 16, 32, 128, 256, 512))
SCANS = {scanner.side: (scanner.views, scanner.bins) for scanner in _PAPER}
_SMALL = (8, 16, 32)  # sides that the authors ran on a CPU
_MOST_SURROGATE = 128  # training images that the released protocol has at these sides


@register
class Ct(ImagingKind):
    """Images from sinograms."""

    name = "ct"
    made_of = CtScanner
    of_points = ("side", "views", "bins")
    defaults: ClassVar = {"views": None, "bins": None, "beam": "fan"}  # views and bins: the paper's
    photons = True

    def settings(self, shared: Any, point: Any) -> JsonDict:
        """Scanner, images and noise."""
        views, bins = SCANS.get(point.side, (None, None))
        views = views if point.views is None else point.views
        bins = bins if point.bins is None else point.bins
        if views is None or bins is None:
            problem = f"a point of side {point.side} needs views and bins"
            raise KoriskError(f"{problem}; only the paper's sides {sorted(SCANS)} have defaults")
        return super().settings(shared, point) | {"views": views, "bins": bins}

    def title(self, settings: JsonMapping) -> str:
        """Such as "rigorous-32"."""
        return f"rigorous-{settings['side']}{self.moving(settings)}"

    def sizes(self, settings: JsonMapping) -> list[int]:
        """Those of the paper."""
        small = settings["side"] in _SMALL
        return [4, 8, 16, 32, 64] if small else [4, 16, 64, 256, 1024, 2048]

    def point(self, entry: StudyEntry, point: Any) -> tuple[str, JsonDict]:
        """The name and the spec of a point under its protocol."""
        if entry.protocol == "rigorous":
            return super().point(entry, point)
        # The released protocol is the authors': a study with other settings must not bear its name.
        changed = {"models", "pools", "metric"} & entry.model_dump(exclude_none=True).keys()
        changed |= point.model_dump(exclude_none=True).keys() - {"name", "sizes", *self.of_points}
        if changed or entry.problem != type(entry.problem)():
            problem = "protocol 'released' fixes problem, models, pools and metric"
            raise KoriskError(f"{problem}; leave those keys out, or use protocol: rigorous")
        settings = self.settings(entry.problem, point)
        scan = {name: settings[name] for name in self.of_points}
        if SCANS.get(point.side) != (scan["views"], scan["bins"]):
            rule = f"has the sides {sorted(SCANS)} with the paper's views and bins"
            got = f"{point.side}, {scan['views']} and {scan['bins']}; use protocol: rigorous"
            raise KoriskError(f"protocol 'released' {rule}, got {got}")
        sizes = checked_sizes(point.sizes or entry.sizes or self.sizes(settings))
        return f"released-{point.side}", _released(scan, sizes)

    def problem(self, spec: JsonMapping) -> Problem:
        """The problem of a CT point."""
        arguments, population = self.arguments(spec), spec["problem"]["population"]
        noise, source = arguments.pop("noise"), arguments.pop("source")
        scanner = CtScanner(**arguments)
        _ = scanner.geometry  # raises for an impossible scanner
        if population in ("released", "released-surrogate"):
            return CtProblem(scanner=scanner, population=population, noise=noise)
        return CtProblem(scanner=scanner, source=source, noise=noise)

    def check(self, settings: JsonMapping, problem: Problem) -> None:
        """Draw no sample: building a large projector takes a while."""


def _released(scan: dict[str, int], sizes: list[int]) -> JsonDict:
    """The spec of the released protocol, with the settings of the authors' code."""
    # Small sides: closed forms on a surrogate; large ones: gradients on a fan beam.
    if scan["side"] in _SMALL:
        if sizes[-1] > _MOST_SURROGATE:
            rule = f"be at most {_MOST_SURROGATE} under the released protocol"
            raise invalid("sizes", rule, sizes[-1])
        beam, population, ellipses = "surrogate", "released-surrogate", [1, 4]
        pools, metric = {"validation": 32, "test": 128}, "mse"
        ridge = {"grid": [1e-6, 1e-4, 1e-2, 1.0, 1e2], "select": "validation", "relu": False}
        known = {"fit": "ridge", "toward": "zero", "refine": 0, **ridge}
        dense = {**ridge, "by": "mse"}
    else:
        beam, population, ellipses = "released", "released", [3, 6]
        pools, metric = {"validation": 0, "test": 50}, "rmse_over_max"
        batch, iterations = {128: (4, 5000), 256: (1, 5000), 512: (8, 10000)}[scan["side"]]
        known = {"fit": "gradient", "optimiser": "adagrad", "rate": 2e-2, "relu": True}
        known |= {"iterations": iterations, "batch": batch}
        # As released: the authors chose lambda on the test set.
        dense = {"select": "test", "by": "rmse_over_max", "relu": True}
        dense["grid"] = [1e-4, 1e-2, 1.0, 1e2, 1e4]
    problem = {"kind": "ct", "beam": beam, "population": population, "ellipses": ellipses}
    return {
        "protocol": "released",
        "problem": {**problem, "noise": None, **scan},
        "pools": pools,
        "sizes": sizes,
        "models": {"KO": known, "FC": dense},
        "metric": metric,
    }
