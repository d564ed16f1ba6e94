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
from korisk.planning.calibration import paper_line
from korisk.theory import Composition, Known, Layer, Learned, Network, calibrated

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
        known = all(isinstance(size, int) and size >= 1 for size in sizes)
        # The counts below hold for images, and norms of a moving scan take longer.
        if not known or problem.get("beam") == "cone" or problem.get("motion") is not None:
            continue
        kind = problem.get("beam"), problem.get("arc"), _relu(spec, "KO"), _relu(spec, "FC")
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
            layers += [Known("ReLU", lipschitz=1.0)] if _relu(spec, model) else []
            network = Network(layers, compositions=compositions if known_tail else ())
            # Only a mean squared error follows the bound; other metrics have no such line.
            if curve is not None and curve.metric == "mse":
                with suppress(KoriskError):  # a single size, a flat line, or no norm
                    network = calibrated(network, paper_line(curve))
            title = f"{model}, {point_name}: {scan}"
            last = None if curve is None else int(curve.sizes[-1])
            networks.append(TitledNetwork(title, network, network.calibrated is not None, last))
    return networks


def _relu(spec: Spec, model: str) -> bool:
    models = spec.get("models")
    settings = models.get(model) if isinstance(models, Mapping) else None
    return bool(settings.get("relu", True)) if isinstance(settings, Mapping) else True


@cache
def known_layers(
    side: int, views: int, bins: int, beam: str, arc: float | None
) -> tuple[list[Layer], list[Composition]]:
    """The known layers after W and their composition, with norms if these take seconds at most."""
    names = ["A^+"] if beam == "surrogate" else ["K", "A^T"]
    # Without PyTorch, or with an invalid scanner, norms are unknown, too.
    with suppress(KoriskError, ImportError):
        if side <= _LARGEST.get(beam, 0) and views * bins <= _MOST_VALUES:
            from korisk.problems.ct import CtScanner

            scanner = CtScanner(side=side, views=views, bins=bins, beam=beam, arc=arc)  # type: ignore[arg-type]
            tail = scanner.reconstruction().tail
            pairs = zip(names, tail, strict=True)
            layers = [Known(name, lipschitz=operator.norm()) for name, operator in pairs]
            if len(tail) == 1:
                return list(layers), []
            # The norm of the composition is at most the product of the norms.
            composed = (tail[1] @ tail[0]).norm()
            return list(layers), [Composition(*names, lipschitz=composed)]
    return [Known(name) for name in names], []
