"""The networks of a CT study as `korisk.theory.Network`, built from the specs of its points.

Norms are computed from the operators if PyTorch is installed and that takes seconds at most;
otherwise they are unknown.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from korisk._json import JsonMapping
from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.fit import calibrate
from korisk.theory import Composition, Known, Layer, Learned, Network, NormBracket, calibrated

Spec = JsonMapping  # of a point

# Largest sides and sinograms whose norms are computed, which takes seconds.
_LARGEST = {"surrogate": 32, "parallel": 128, "fan": 128, "released": 128}
_MOST_VALUES = 20_000


@dataclass(frozen=True)
class TitledNetwork:
    """A network with its title in figures."""

    title: str
    network: Network
    calibrated: bool = False  # whether C and kappa were calibrated on the study's curves
    last: int | None = None  # the largest N of its curve


def ct_networks(points: Iterable[tuple[str, Spec, Iterable[Curve]]]) -> list[TitledNetwork]:
    """Both networks of the largest point of each kind of CT; others differ only in numbers.

    `points` are names, specs and curves.
    """
    largest: dict[tuple[object, ...], tuple[str, Spec, Iterable[Curve]]] = {}
    for point in points:
        spec = point[1]
        problem = spec.get("problem")
        if not isinstance(problem, Mapping) or problem.get("kind", "ct") != "ct":
            continue
        sizes = [problem.get(name) for name in ("side", "views", "bins")]
        if not all(isinstance(size, int) and size >= 1 for size in sizes):
            continue
        # The counts below hold for images, and norms of a moving scan take longer.
        if problem.get("beam") == "cone" or problem.get("motion") is not None:
            continue
        relu = _relu(spec, "KO"), _relu(spec, "FC")
        kind = (str(problem.get("beam")), problem.get("arc"), *relu)
        if kind not in largest or largest[kind][1]["problem"]["side"] < problem["side"]:
            largest[kind] = point
    # KO is W and the known operators, FC one dense matrix.
    networks = []
    for point_name, spec, curves in largest.values():
        problem, by_model = spec["problem"], {curve.model: curve for curve in curves}
        side, views, bins = (problem[name] for name in ("side", "views", "bins"))
        beam, arc = str(problem.get("beam", "")), problem.get("arc")
        tail, compositions = known_layers(side, views, bins, beam, arc)
        arc_text = "" if arc is None else f" over {arc:g} degrees"
        scan = f"H = {side}, {views} views, {bins} bins, {beam} beam{arc_text}"
        for model, name, count, known_tail in (
            ("KO", "W", views * bins, tail),
            ("FC", "M", views * bins * side * side, []),
        ):
            if model not in spec.get("models", {model: None}):
                continue
            curve = by_model.get(model)
            layers: list[Layer] = [Learned(name, parameters=count), *known_tail]
            if _relu(spec, model):
                layers.append(Known("ReLU", lipschitz=1.0))
            network = Network(layers, compositions=compositions if known_tail else ())
            # Only a mean squared error follows the bound; other metrics have no such line.
            if curve is not None and curve.metric == "mse":
                with suppress(KoriskError):  # a single size, a flat line, or no norm
                    network = calibrated(network, calibrate(curve))
            title = f"{model}, {point_name}: {scan}"
            last = None if curve is None else int(curve.sizes[-1])
            networks.append(TitledNetwork(title, network, network.calibrated is not None, last))
    return networks


def _relu(spec: Spec, model: str) -> bool:
    models = spec.get("models")
    settings = models.get(model) if isinstance(models, Mapping) else None
    return bool(settings.get("relu", True)) if isinstance(settings, Mapping) else True


def known_layers(
    side: int, views: int, bins: int, beam: str, arc: float | None
) -> tuple[list[Layer], list[Composition]]:
    """The known layers after W, with norms if these take seconds at most, and their composition."""
    names = ["A^+"] if beam == "surrogate" else ["K", "A^T"]
    try:
        norms = operator_norms(side, views, bins, beam, arc)
    except (KoriskError, ImportError):
        norms = {}  # no PyTorch, or an invalid scanner
    layers: list[Layer] = [Known(name, lipschitz=norms.get(name)) for name in names]
    if "whole" not in norms or len(layers) == 1:
        return layers, []
    return layers, [Composition(names[0], names[-1], lipschitz=norms["whole"])]


@cache
def operator_norms(
    side: int, views: int, bins: int, beam: str, arc: float | None
) -> dict[str, NormBracket]:
    """Norms of the known layers by name, and of their composition; empty if they take long."""
    if side > _LARGEST.get(beam, 0) or views * bins > _MOST_VALUES:
        return {}
    from korisk.problems.ct import CtScanner

    # The norm of the composition is at most the product of the norms.
    scanner = CtScanner(side=side, views=views, bins=bins, beam=beam, arc=arc)  # type: ignore[arg-type]
    tail = scanner.reconstruction().tail
    if len(tail) == 1:
        return {"A^+": tail[0].norm()}
    first, last = tail
    return {"K": first.norm(), "A^T": last.norm(), "whole": (last @ first).norm()}
