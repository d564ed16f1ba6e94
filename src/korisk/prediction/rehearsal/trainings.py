"""The trainings of a rehearsal: the pairs and the network of each, and the file that keeps it.

Networks that have finished are kept in a folder, so that none is trained twice. The name of a file
has a digest of all that decides the errors in it: the training and test pairs, the network with its
initial weights, and how it is trained.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk._checks import require
from korisk._memory import check_memory
from korisk._version import __version__
from korisk.curves.curve import Curve
from korisk.errors import Argument, KoriskError, Message, invalid
from korisk.files import make_folder, read_json, write_text
from korisk.fitting.gradient.recipe import Recipe
from korisk.fitting.gradient.train import Member
from korisk.prediction.rehearsal.linear import as_linear, weights_of
from korisk.prediction.rehearsal.simulation import LONGER, Simulation, Training, Variant, torch_seed
from korisk.problems.problem import Pairs, Pools
from korisk.store.cells import digest

_LARGEST_BYTES = 50_000_000
_FEWEST = 5  # distinct images of which a half and a quarter differ
_TRIAL = 4  # inputs whose outputs identify a network's function


class Cell(NamedTuple):
    """One network of a rehearsal."""

    n: int  # training pairs
    seed: int
    variant: Variant | Literal["longer"]  # of its training images; longer: plain ones, more steps

    @property
    def images(self) -> Variant:
        """The variant of its training images."""
        return "plain" if self.variant == "longer" else self.variant


class Finished:
    """The finished networks in a folder, each with a file; the folder is created if needed."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = make_folder(_checks.path("folder", folder, remedy="name one for networks"))

    def has(self, name: str) -> bool:
        """Whether a network has finished."""
        return (self.folder / name).exists()

    def read(self, name: str, count: int) -> Tensor:
        """The stored errors of a network on `count` test images."""
        errors = read_finished(self.folder / name)
        if len(errors) != count:
            got = f"must have {count:,} errors, got {len(errors):,}; remove it"
            raise KoriskError(f"{self.folder / name}: {got}")
        return torch.tensor(errors, dtype=torch.float64)

    def write(self, name: str, model: str, cell: Cell, errors: Tensor) -> None:
        """Store the errors of a network."""
        content = {"korisk": __version__, "model": model, **cell._asdict()}
        content["errors"] = errors.double().tolist()
        signed = content | {"digest": digest(json.dumps(content, sort_keys=True))}
        write_text(self.folder / name, json.dumps(signed) + "\n")


def read_finished(file: Path) -> list[float]:
    """The errors in the file of a network; a flipped bit must not pass for another error."""
    content = read_json(file, max_bytes=_LARGEST_BYTES, remedy="remove it")
    signature = content.pop("digest", None) if isinstance(content, dict) else None
    if signature is None or signature != digest(json.dumps(content, sort_keys=True)):
        raise KoriskError(f"{file}: is not as it was written; remove it")
    return list(content["errors"])


class Trainings:
    """Pairs and networks of every cell, all in one pool on one device."""

    def __init__(
        self,
        name: str,
        build: Callable[[], nn.Module],
        simulation: Simulation,
        training: Training,
        sizes: Sequence[int],
        seeds: Sequence[int],
        finished: Finished | None,
    ) -> None:
        self.name, self.simulation, self.training = name, simulation, training
        self.finished = finished
        self._fit_digest = "" if finished is None else digest_of_fit(training.fit)
        self._files: dict[Cell, str] = {}
        # Every network, small N first.
        self.cells = [Cell(n, seed, "plain") for n in sizes for seed in seeds]
        if not simulation.population and _FEWEST <= simulation.unaltered < sizes[-1]:
            # To see what few distinct images cost.
            fewer: list[Variant] = ["halved", "quartered"]
            self.cells += [Cell(sizes[-1], seed, variant) for variant in fewer for seed in seeds]
        # Rows of the pool that train, validate and test, by seed and variant.
        self._rows: dict[tuple[int, Variant], list[Tensor]] = {}
        pairs = self._draw_pairs()
        device = pairs[0].inputs.device
        # Weights follow the seed alone: networks of all sizes of a seed start equal.
        first = self._build(build, self.cells[0], device)
        # A linear network is the same for every cell: only its fit differs.
        self.linear = as_linear(first) if training.exact and training.fit is None else None
        if training.fit is None and self.linear is None:
            self.cells.append(Cell(sizes[-1], seeds[0], "longer"))
        self._networks = dict.fromkeys(self.cells, first)
        used = set(map(id, first.parameters()))
        for cell in self.cells[1:] if self.linear is None else ():
            network = self._networks[cell] = self._build(build, cell, device)
            parameters = set(map(id, network.parameters()))
            remedy = "create its layers inside the function, so that each call has new weights"
            got = "one that shares weights with a network before it"
            require(not parameters & used, "build", "make a new network", build, remedy, got=got)
            used |= parameters
        self.weights = weights_of(first)
        # In the precision of the weights; a dense layer in factors has buffers instead.
        weights: list[Tensor] = [p for p in first.parameters() if p.requires_grad]
        if self.linear is not None:
            weights += first.buffers()
        like = weights[0] if weights else torch.zeros(0)
        self.inputs, self.targets = (
            torch.cat(tensors).to(like) for tensors in zip(*pairs, strict=True)
        )

    @staticmethod
    def _build(build: Callable[[], nn.Module], cell: Cell, device: torch.device) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_seed(cell.seed, "rehearsal weights"))
            return built(build).to(device)

    def _draw_pairs(self) -> list[Pairs]:
        """Simulate the pairs of every seed and variant, and number their rows in the pool."""
        kinds = dict.fromkeys((cell.seed, cell.images) for cell in self.cells)
        pairs: list[Pairs] = []
        for seed, variant in kinds:
            parts = self.simulation.pools(seed, variant)
            if not pairs:  # All seeds take as much, and once more when they are concatenated.
                pool_bytes = sum(tensor.nbytes for pool in parts for tensor in pool)
                what = f"a rehearsal of {len({cell.seed for cell in self.cells})} seeds"
                smaller = Message("ask for smaller ", Argument("sizes", ...))
                check_memory(2 * len(kinds) * pool_bytes, parts[0].inputs.device, what, smaller)
            # Train, validation and test rows of this seed follow those of the seeds before.
            first = sum(len(pool.inputs) for pool in pairs)
            ends = torch.tensor([0, *(len(pool.inputs) for pool in parts)]).cumsum(0) + first
            device = parts[0].inputs.device
            self._rows[seed, variant] = [
                torch.arange(start, end, device=device) for start, end in pairwise(ends.tolist())
            ]
            pairs += parts
        return pairs

    def test_rows(self, cell: Cell) -> Tensor:
        """Rows of the pool that a network is tested on."""
        return self._rows[cell.seed, cell.images][2]

    def member(self, cell: Cell) -> Member:
        """A network with its rows of the pool, ready to be trained."""
        train, validation, test = self._rows[cell.seed, cell.images]
        batches = torch_seed(cell.seed, f"rehearsal batches {cell.n}")
        name = f"{self.name} at N = {cell.n:,}, seed {cell.seed}"
        if cell.variant != "plain":
            longer = f", {LONGER} times as long"
            name += longer if cell.variant == "longer" else f", {cell.variant} images"
        return Member(name, self._networks[cell], batches, train[: cell.n], validation, test)

    def schedule(self, cell: Cell) -> Training:
        """How a network is trained."""
        longer = LONGER if cell.variant == "longer" else 1
        return replace(self.training, steps=longer * self.training.steps)

    def pools(self, cell: Cell) -> Pools:
        """The pairs of a cell's seed and variant, for the largest N."""
        kinds = self._rows[cell.seed, cell.images]
        return Pools(*(Pairs(self.inputs[rows], self.targets[rows]) for rows in kinds))

    def write(self, cell: Cell, errors: Tensor) -> None:
        """Store the errors of a network, if there is a folder for them."""
        if self.finished is not None:
            self.finished.write(self._file(cell), self.name, cell, errors)

    def finished_errors(self) -> dict[Cell, Tensor]:
        """The errors of the networks that were trained before."""
        if self.finished is None:
            return {}
        return {
            cell: self.finished.read(self._file(cell), len(self.test_rows(cell)))
            for cell in self.cells
            if self.finished.has(self._file(cell))
        }

    def _file(self, cell: Cell) -> str:
        """The name of the file that keeps a network, from all that decides its errors."""
        if cell not in self._files:  # before it is trained: its initial weights count
            member = self.member(cell)
            used = torch.cat([member.rows, member.validation, member.test])
            decisive: dict[str, object] = {
                "korisk": __version__,
                "model": self.name,
                "network": digest_of_network(member.module, self.inputs[member.rows]),
                "pairs": digest_of_pairs(self.inputs[used], self.targets[used]),
                "fit": self._fit_digest,
            }
            if self.linear is not None:
                decisive["fit"] = "exact"
            elif self.training.fit is None:
                recipe = self.schedule(cell)
                decisive |= {field.name: getattr(recipe, field.name) for field in fields(Recipe)}
            digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:24]
            self._files[cell] = f"n{cell.n}-seed{cell.seed}-{cell.variant}-{digest}.json"
        return self._files[cell]


def digest_of_pairs(*pairs: Tensor) -> str:
    """A digest of inputs and targets."""
    hasher = hashlib.sha256()
    for values in pairs:
        hasher.update(f"{tuple(values.shape)} {values.dtype}".encode())
        hasher.update(values.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return hasher.hexdigest()


def digest_of_network(module: nn.Module, inputs: Tensor) -> str:
    """A digest of a network: its layers, their code, its weights, and what it does with inputs."""
    hasher = hashlib.sha256(repr(module).encode())
    # The code of every class of layer, then the weights, then an output.
    for kind in sorted({type(layer) for layer in module.modules()}, key=lambda kind: kind.__name__):
        hasher.update(_source(kind).encode())
    for name, values in module.state_dict().items():
        if isinstance(values, Tensor):
            hasher.update(f"{name} {digest_of_pairs(values.reshape(-1))}".encode())
    # Numbers that are no weights show in the output alone; rounded, since cores round differently.
    tried = copy.deepcopy(module).eval()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        output = tried(inputs[:_TRIAL])
    if isinstance(output, Tensor):  # else training refuses it
        hasher.update(f"{float(output.abs().double().norm()):.3e}".encode())
    return hasher.hexdigest()


def digest_of_fit(fit: Callable[..., object] | None) -> str:
    """A digest of the user's own training, by its source."""
    if fit is None:
        return ""
    source = _source(fit)
    if not source:
        unread = "results cannot be stored for a fit whose source cannot be read; write it as a "
        raise KoriskError(unread, "function in a file, or leave ", Argument("folder", ...), " out")
    return hashlib.sha256(source.encode()).hexdigest()


def _source(defined: Callable[..., object]) -> str:
    """The source of a function or class; empty where it cannot be read."""
    try:
        # From Python 3.13 on, all that is compiled from a string has the source of `python -c`.
        from_string = inspect.getsourcefile(defined) == "<string>"
        return "" if from_string else inspect.getsource(defined)
    except (OSError, TypeError):
        return ""


def curve_of(errors: Mapping[Cell, Tensor], model: str) -> Curve:
    """The mean errors of finished networks as a curve."""
    cells = sorted(errors)
    sizes, seeds = [cell.n for cell in cells], [str(cell.seed) for cell in cells]
    return Curve(sizes, [float(errors[cell].mean()) for cell in cells], seeds, model, "mse")


def built(build: Callable[[], nn.Module]) -> nn.Module:
    """Call the user's function; raise unless it returns a network."""
    if isinstance(build, nn.Module) or not callable(build):
        raise invalid("build", "be a function that makes a network", build, "try lambda: Net()")
    try:
        takes = inspect.signature(build)
    except ValueError:  # from functions without a signature
        takes = inspect.Signature()
    try:
        takes.bind()
    except TypeError:
        remedy = "give them in a function of its own, such as lambda: Net(32)"
        got = f"one that takes {takes}"
        raise invalid("build", "take no arguments", build, remedy, got=got) from None
    network = build()
    remedy = "return the network itself"
    require(isinstance(network, nn.Module), "build", "return a torch.nn.Module", network, remedy)
    return network
