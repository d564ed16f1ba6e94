"""What studies know of the check: the kind `deep`, and what `theorem: true` measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.studies.spec import entries as keys
from korisk.studies.spec.ct import scanner_of
from korisk.studies.spec.kind import Kind, measures, register

if TYPE_CHECKING:
    from torch import Tensor

    from korisk.paper.theorem.layers import KnownLayers, Layers
    from korisk.problems import Problem
    from korisk.studies.run.fits import Fit, Job


class DeepEntry(keys.ModelEntry):
    """How the network with two learned parts is trained."""

    optimiser: Literal["sgd", "adagrad", "adam"] = "adam"
    rate: float = 1e-2
    iterations: keys.Iterations = 2000
    batch: keys.Batch = 16


class DeepModelsEntry(Spec):
    """The networks of the study; one that is left out is not fitted."""

    KO: DeepEntry | None = None
    FC: keys.DenseEntry | None = None


class DeepProblemEntry(Spec):
    """What is measured, and of what."""

    kind: Literal["deep"]
    beam: Literal["fan", "parallel"] = "parallel"
    ellipses: list[int] = Field(default_factory=lambda: [1, 4])
    channels: int = 4  # of the true convolutions
    gain: float = 0.3
    network: str | None = None  # a `GraphProblem` of this kind instead
    near: float | None = None  # where its training starts


class DeepPointEntry(keys.PointEntry):
    """One operating point: the scanner's size."""

    side: int
    views: int
    bins: int


class DeepStudyEntry(keys.FieldStudyEntry[DeepProblemEntry, DeepPointEntry]):
    """The file of a study of the deeper network."""

    models: DeepModelsEntry | None = None  # type: ignore[assignment]


@register
class Deep(Kind[DeepProblemEntry, DeepPointEntry]):
    """What a true network makes of sinograms, to be learned by a network of its shape."""

    name = "deep"
    study = DeepStudyEntry
    sizes = (4, 16, 64, 256)
    models = DeepModelsEntry(KO=DeepEntry(), FC=keys.DenseEntry())
    relu = False

    def settings(self, shared: DeepProblemEntry, point: DeepPointEntry) -> JsonDict:
        """The scanner, and the true network."""
        keys.population(shared.ellipses, None, None)  # checks the numbers of ellipses
        if shared.network is None and shared.near is not None:
            why = f"problem.near = {shared.near} sets where training of problem.network starts"
            raise KoriskError(f"{why}, but there is no network; name one, or leave near out")
        # Absent where unused: stored cells have specs without them.
        unused = {"network", "near"} if shared.network is None else set[str]()
        size = point.model_dump(include={"side", "views", "bins"})
        return shared.model_dump(exclude=unused) | size

    def title(self, settings: JsonMapping) -> str:
        """Such as "deep-16"."""
        return f"deep-{settings['side']}"

    def entries(self, settings: JsonMapping) -> tuple[int, int]:
        """Pixels, and rays."""
        return settings["side"] ** 2, settings["views"] * settings["bins"]

    def problem(self, spec: JsonMapping) -> Problem:
        """The problem of a point."""
        from korisk.paper.theorem.problems import DeepProblem, GraphProblem
        from korisk.problems import EllipseSource

        settings = spec["problem"]
        # Without a named network: W and S of `DeepProblem`; else a graph of that kind.
        fewest, most = settings["ellipses"]
        scanner, source = scanner_of(settings), EllipseSource(fewest=fewest, most=most)
        channels = settings["channels"]
        if settings.get("network") is None:
            gain = settings["gain"]
            return DeepProblem(scanner=scanner, source=source, channels=channels, gain=gain)
        network, near = settings["network"], settings["near"]
        about = {"scanner": scanner, "source": source, "width": channels}
        return GraphProblem(**about, network=network, near=near)

    def check(self, settings: JsonMapping, problem: Problem) -> None:
        """Nothing is drawn: that takes a while."""

    def fit(self, model: str, settings: JsonMapping) -> Fit:
        """KO has the shape of the true network."""
        from korisk.paper.theorem.layers import TowardsTruth

        return TowardsTruth() if model == "KO" else super().fit(model, settings)


@measures("theorem")
class LayerErrors:
    """What a study with `theorem: true` stores: the error of every layer of every network."""

    def __init__(self) -> None:
        self._layers: dict[str, Layers | KnownLayers] = {}  # by model
        self._pixels = 0

    def of_row(self, job: Job, predictions: Tensor, fitted: Any) -> JsonDict:
        """The error of a network and those of its layers."""
        from korisk.paper.theorem.layers import layers_of, sum_of_squares

        # The true layers are the same for every N: described once, measured at each row.
        if job.model not in self._layers:
            self._layers[job.model] = layers_of(fitted, job)
        targets = job.pools.test.targets
        self._pixels = targets[0].numel()
        error = sum_of_squares(targets - predictions)
        return {"theorem": {"error": error, "layers": self._layers[job.model].errors(fitted)}}

    def of_cell(self) -> JsonDict:
        """The true networks, and the entries of an output."""
        if not self._layers:
            return {}
        networks = {model: layers.network.to_dict() for model, layers in self._layers.items()}
        return {"networks": networks, "pixels": self._pixels}
