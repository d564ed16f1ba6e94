"""From the spec of a cell to the problem it works on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from korisk.errors import KoriskError
from korisk.images.api import image_pools
from korisk.problems import CtScanner, Gaussian, Poisson
from korisk.problems.ct import CtProblem
from korisk.problems.deep import DeepProblem
from korisk.problems.heat import HeatProblem
from korisk.problems.mri import MriProblem
from korisk.problems.problem import Problem
from korisk.problems.sources import EllipseSource, FileSource, ImageSource
from korisk.studies.result import FOUND_AT


def problem_of(spec: Mapping[str, Any]) -> Problem:
    """The problem of a point."""
    problem = spec["problem"]
    match problem["kind"]:
        case "mri":
            noise = noise_of(problem["noise"])
            assert not isinstance(noise, Poisson)
            size = {name: problem.get(name) for name in ("side", "lines", "centre")}
            return MriProblem(noise=noise, source=_source(spec), **size)
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
        source=EllipseSource() if released else _source(spec),
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


def try_out(problem: Problem) -> None:
    """Draw a sample, where that costs nothing: numbers may be too large to compute with."""
    if isinstance(problem, CtProblem | DeepProblem):
        return
    if isinstance(problem, MriProblem) and isinstance(problem.source, FileSource):
        return
    with np.errstate(all="ignore"):
        drawn = problem.pools(seed=0, train=0, validation=0, test=1).test
    if not all(bool(values.square().sum().isfinite()) for values in drawn):
        raise KoriskError(
            "a sample of this problem is not finite; bring its numbers to a reasonable size"
        )


def fingerprinted(spec: dict[str, Any], seeds: Iterable[int]) -> None:
    """Write into a spec which images of one's own it is about, and whether they suffice."""
    problem = spec["problem"]
    if "images" not in problem:
        return
    source = _source(spec)
    assert isinstance(source, FileSource)
    images = source.read(problem["side"])
    for seed in seeds:
        image_pools(images, seed=seed, train=spec["sizes"][-1], **spec["pools"])
    problem["images"]["fingerprint"] = images.fingerprint


def _source(spec: Mapping[str, Any]) -> ImageSource:
    problem = spec["problem"]
    if "images" in problem:
        return FileSource(**problem["images"] | spec[FOUND_AT])
    fewest, most = problem["ellipses"]
    return EllipseSource(fewest=fewest, most=most)
