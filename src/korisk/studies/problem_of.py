"""From the spec of a cell to the problem it works on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from korisk.problems import CtScanner, Gaussian, Poisson
from korisk.problems.ct import CtProblem
from korisk.problems.deep import DeepProblem
from korisk.problems.heat import HeatProblem
from korisk.problems.images import image_pools
from korisk.problems.mri import MriProblem
from korisk.problems.problem import Problem
from korisk.problems.sources import EllipseSource, FileSource, ImageSource


def problem_of(spec: Mapping[str, Any]) -> Problem:
    """The problem of a point."""
    problem = spec["problem"]
    match problem["kind"]:
        case "mri":
            noise = noise_of(problem["noise"])
            assert not isinstance(noise, Poisson)
            size = {name: problem.get(name) for name in ("side", "lines", "centre")}
            return MriProblem(noise=noise, source=_source(problem), **size)
        case "heat":
            return HeatProblem(**{name: problem[name] for name in problem if name != "kind"})
        case "deep":
            fewest, most = problem["ellipses"]
            return DeepProblem(
                scanner=scanner_of(spec),
                source=EllipseSource(fewest=fewest, most=most),
                channels=problem["channels"],
                gain=problem["gain"],
            )
    population = problem["population"]
    released = population in ("released", "released-surrogate")
    scanner = scanner_of(spec)
    _ = scanner.geometry  # which finds out whether such a scanner can be
    return CtProblem(
        scanner=scanner,
        source=EllipseSource() if released else _source(problem),
        population=population if released else "ellipses",
        noise=noise_of(problem["noise"]),
    )


def scanner_of(spec: Mapping[str, Any]) -> CtScanner:
    """The scanner of a point of CT."""
    problem = spec["problem"]
    size = {name: problem[name] for name in ("side", "views", "bins", "beam")}
    return CtScanner(**size, arc=problem.get("arc"))


def noise_of(entry: Mapping[str, float] | None) -> Gaussian | Poisson | None:
    """The noise of a point."""
    if entry is None:
        return None
    return Gaussian(entry["gaussian"]) if "gaussian" in entry else Poisson(entry["poisson"])


def fingerprinted(spec: dict[str, Any]) -> None:
    """Write into a spec which images of one's own it is about, and whether they suffice."""
    problem = spec["problem"]
    if "images" not in problem:
        return
    source = _source(problem)
    assert isinstance(source, FileSource)
    images = source.read(problem["side"])
    image_pools(images, seed=1, train=spec["sizes"][-1], **spec["pools"])
    problem["images"]["fingerprint"] = images.fingerprint


def _source(problem: Mapping[str, Any]) -> ImageSource:
    if "images" in problem:
        return FileSource(**problem["images"])
    fewest, most = problem["ellipses"]
    return EllipseSource(fewest=fewest, most=most)
