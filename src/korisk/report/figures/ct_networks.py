"""The networks of a CT study as bounds see them, from what the study says of its problem.

Norms come from the operators, where PyTorch is installed and they take seconds at most; else
they are left unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.fit import calibrate
from korisk.report.contents import Contents, Point
from korisk.theory import Composition, Known, Layer, Learned, Network, NormBracket

MOST_NETWORKS = 6

_LARGEST = {"surrogate": 32, "parallel": 128, "fan": 128, "released": 128}  # sides, for the norms
_MOST_VALUES = 20_000  # of a sinogram


@dataclass(frozen=True)
class CtNetwork:
    """A network, what it is called in a figure, and the shapes of its input and output."""

    title: str
    network: Network
    shapes: tuple[str, str]
    calibrated: bool  # whether C and kappa are those of the study's own calibration
    last: int | None  # the largest N of its curve


def ct_networks(contents: Contents) -> list[CtNetwork]:
    """Both networks of the largest point of each kind: other points differ in numbers alone."""
    largest: dict[tuple[object, ...], Point] = {}
    for point in contents.points:
        problem = _problem(point)
        if problem is None:
            continue
        scan = str(problem.get("beam")), problem.get("arc")
        kind = (*scan, _relu(point, "KO"), _relu(point, "FC"))
        before = largest.get(kind)
        if before is None or (_problem(before) or {})["side"] < problem["side"]:
            largest[kind] = point
    found = [made for point in largest.values() for made in _networks(point)]
    return found[:MOST_NETWORKS]


def _problem(point: Point) -> Mapping[str, Any] | None:
    """The problem of a point, if it is one of CT whose numbers are whole."""
    problem = point.spec.get("problem")
    if not isinstance(problem, Mapping):
        return None
    whole = all(
        isinstance(problem.get(name), int) and problem[name] >= 1
        for name in ("side", "views", "bins")
    )
    return problem if whole and problem.get("kind", "ct") == "ct" else None


def _relu(point: Point, model: str) -> bool:
    models = point.spec.get("models")
    own = models.get(model) if isinstance(models, Mapping) else None
    return bool(own.get("relu", True)) if isinstance(own, Mapping) else True


def _networks(point: Point) -> list[CtNetwork]:
    problem = _problem(point) or {}
    side, views, bins = (problem[name] for name in ("side", "views", "bins"))
    beam, arc = str(problem.get("beam", "")), problem.get("arc")
    tail, compositions = _tail(side, views, bins, beam, arc)
    over = "" if arc is None else f" over {arc:g} degrees"
    shapes = f"{views} x {bins}", f"{side} x {side}"
    whole = Network([*tail, Known("end", lipschitz=1.0)], compositions=compositions)
    made = []
    for model, name, count, front, growth in (
        ("KO", "W", views * bins, tail, whole.lipschitz()),
        ("FC", "M", views * bins * side * side, [], 1.0),
    ):
        curve = point.curve(model)
        constants = _constants(curve, count, growth)
        layers: list[Layer] = [Learned(name, parameters=count, **constants), *front]  # type: ignore[arg-type]
        if _relu(point, model):
            layers.append(Known("ReLU", lipschitz=1.0))
        made.append(
            CtNetwork(
                f"{model}, {point.name}: H = {side}, {views} views, {bins} bins, {beam} beam{over}",
                Network(layers, compositions=compositions if front else ()),
                shapes,
                bool(constants),
                None if curve is None else int(curve.sizes[-1]),
            )
        )
    return made


def _constants(curve: Curve | None, parameters: int, growth: float) -> dict[str, float]:
    """C and kappa with which the composed bound is the study's calibrated line."""
    try:
        if curve is None or curve.metric != "mse" or not 0 < growth < float("inf"):
            return {}
        line = calibrate(curve, "paper")
    except KoriskError:
        return {}  # a single size
    if not line.slope:
        return {}
    C, kappa = line.floor**0.5 / growth, line.slope / growth**2 / parameters
    return {"C": C, "kappa": kappa} if kappa > 0 else {}


def _tail(
    side: int, views: int, bins: int, beam: str, arc: float | None
) -> tuple[list[Layer], list[Composition]]:
    """What follows W, with norms where they are cheap."""
    names = ["A^+"] if beam == "surrogate" else ["K", "A^T"]
    try:
        norms = _norms(side, views, bins, beam, arc)
    except (KoriskError, ImportError):
        norms = {}  # without PyTorch, or a scanner that cannot be made
    layers: list[Layer] = [Known(name, lipschitz=norms.get(name)) for name in names]
    whole = norms.get("whole")
    if whole is None or len(layers) == 1:
        return layers, []
    return layers, [Composition(names[0], names[-1], lipschitz=whole)]


@cache
def _norms(
    side: int, views: int, bins: int, beam: str, arc: float | None
) -> dict[str, NormBracket]:
    """Norms of the known layers by name, and of them composed; none where they take long."""
    if side > _LARGEST.get(beam, 0) or views * bins > _MOST_VALUES:
        return {}
    from korisk.problems.ct import CtScanner

    scanner = CtScanner(side=side, views=views, bins=bins, beam=beam, arc=arc)  # type: ignore[arg-type]
    tail = scanner.reconstruction().tail
    if len(tail) == 1:
        return {"A^+": tail[0].norm()}
    first, last = tail
    return {"K": first.norm(), "A^T": last.norm(), "whole": (last @ first).norm()}
