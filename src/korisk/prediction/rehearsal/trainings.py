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
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from korisk import _checks
from korisk._checks import require
from korisk._memory import check_memory
from korisk._version import __version__
from korisk.curves.curve import Curve
from korisk.errors import Argument, KoriskError, Message, invalid
from korisk.files import Spec, make_folder, parse, read_json, write_text
from korisk.fitting.gradient.many import Member
from korisk.prediction.rehearsal.budget import Extent
from korisk.prediction.rehearsal.simulation import Simulation, Training, Variant, torch_seed
from korisk.problems.problem import Pairs

_LARGEST_BYTES = 50_000_000
_MOST = 1_000_000  # test images of a network
_TRIAL = 4  # inputs whose outputs identify a network's function

Error = Annotated[float, Field(ge=0, lt=1e300, allow_inf_nan=False)]


class Cell(NamedTuple):
    """One network of a rehearsal."""

    n: int  # training pairs
    seed: int
    variant: Variant  # of its training images


class FinishedRecord(Spec):
    """The file of a network."""

    korisk: str
    model: str
    n: int
    seed: int
    variant: str
    errors: list[Error] = Field(min_length=1, max_length=_MOST)  # of every test image


class Finished:
    """The finished networks in a folder, each with a file; the folder is created if needed."""

    def __init__(self, folder: str | Path) -> None:
        remedy = "name a folder for finished networks"
        self.folder = make_folder(_checks.path("folder", folder, remedy=remedy))

    def has(self, name: str) -> bool:
        """Whether a network has finished."""
        return (self.folder / name).exists()

    def read(self, name: str, count: int) -> Tensor:
        """The stored errors of a network on `count` test images."""
        file = self.folder / name
        errors = read_finished(file).errors
        if len(errors) != count:
            raise KoriskError(f"{file}: must have {count:,} errors, got {len(errors):,}; remove it")
        return torch.tensor(errors, dtype=torch.float64)

    def write(self, name: str, model: str, cell: Cell, errors: Tensor) -> None:
        """Store the errors of a network."""
        record = FinishedRecord(
            korisk=__version__, model=model, **cell._asdict(), errors=errors.double().tolist()
        )
        write_text(self.folder / name, record.model_dump_json() + "\n")


def read_finished(file: Path) -> FinishedRecord:
    """Read the file of a network."""
    content = read_json(file, max_bytes=_LARGEST_BYTES, remedy="remove it")
    return parse(FinishedRecord, content, source=file)


class Trainings:
    """Pairs and networks of every cell, all in one pool on one device."""

    def __init__(
        self,
        name: str,
        build: Callable[[], nn.Module],
        simulation: Simulation,
        training: Training,
        full: Extent,
        finished: Finished | None,
    ) -> None:
        self.name, self.simulation, self.training = name, simulation, training
        self.finished = finished
        self._fit_digest = "" if finished is None else digest_of_fit(training.fit)
        self._digests: dict[Cell, tuple[str, str]] = {}
        cells = self.cells(full)
        # Rows of the pool that train, validate and test, by seed and variant.
        self._rows: dict[tuple[int, Variant], list[Tensor]] = {}
        pairs = self._draw_pairs(cells)
        self._networks: dict[Cell, nn.Module] = {}
        # Weights follow the seed alone: networks of all sizes of a seed start equal.
        for cell in cells:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(torch_seed(cell.seed, "rehearsal weights"))
                self._networks[cell] = built(build).to(pairs[0].inputs.device)
        self.weights = [p for p in self._networks[cells[0]].parameters() if p.requires_grad]
        self.inputs, self.targets = (
            torch.cat(values).to(self.weights[0] if self.weights else torch.float32)
            for values in zip(*pairs, strict=True)
        )

    def _draw_pairs(self, cells: list[Cell]) -> list[Pairs]:
        """Simulate the pairs of every seed and variant, and number their rows in the pool."""
        kinds = dict.fromkeys((cell.seed, cell.variant) for cell in cells)
        pairs: list[Pairs] = []
        for seed, variant in kinds:
            parts = self.simulation.pools(seed, variant)
            if not pairs:  # All seeds take as much, and once more when they are concatenated.
                pool_bytes = sum(tensor.nbytes for pool in parts for tensor in pool)
                what = f"a rehearsal of {len({cell.seed for cell in cells})} seeds"
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

    def cells(self, extent: Extent) -> list[Cell]:
        """Every network of an extent, small N first."""
        sizes, seeds = zip(extent.sizes, extent.counts, strict=True), extent.seeds
        cells = [Cell(n, seed, "plain") for n, count in sizes for seed in seeds[:count]]
        if self.simulation.copied and self.simulation.unaltered < extent.sizes[-1]:
            # To see what few distinct images cost.
            cells += [Cell(extent.sizes[-1], seed, "halved") for seed in seeds[: extent.halved]]
        return cells

    def test_rows(self, cell: Cell) -> Tensor:
        """Rows of the pool that a network is tested on."""
        return self._rows[cell.seed, cell.variant][2]

    def member(self, cell: Cell, *, copied: bool = False) -> Member:
        """A network with its rows of the pool, ready to be trained; or a copy of it."""
        train, validation, test = self._rows[cell.seed, cell.variant]
        batches = torch_seed(cell.seed, f"rehearsal batches {cell.n}")
        name = f"{self.name} at N = {cell.n:,}, seed {cell.seed}"
        if cell.variant != "plain":
            name += f", {cell.variant} images"
        network = copy.deepcopy(self._networks[cell]) if copied else self._networks[cell]
        return Member(name, network, batches, train[: cell.n], validation, test)

    def write(self, cell: Cell, steps: int, errors: Tensor) -> None:
        """Store the errors of a network, if there is a folder for them."""
        if self.finished is not None:
            name = self._file(cell, steps, self.training.patience)
            self.finished.write(name, self.name, cell, errors)

    def unfinished(self, extent: Extent) -> list[Cell]:
        """The networks of an extent that have to be trained."""
        return [cell for cell in self.cells(extent) if self._kept(cell, extent.steps) is None]

    def finished_errors(self, extent: Extent) -> dict[Cell, Tensor]:
        """The errors of the networks of an extent that were trained before."""
        errors = {}
        for cell in self.cells(extent):
            name = self._kept(cell, extent.steps)
            if name is not None and self.finished is not None:
                errors[cell] = self.finished.read(name, len(self.test_rows(cell)))
        return errors

    def _kept(self, cell: Cell, steps: int) -> str | None:
        """The file of a network that has finished; one that was trained to its end is as good."""
        if self.finished is None:
            return None
        names = (self._file(cell, steps, patience) for patience in (None, self.training.patience))
        return next((name for name in names if self.finished.has(name)), None)

    def _file(self, cell: Cell, steps: int, patience: int | None) -> str:
        """The name of the file that keeps a network, from all that decides its errors."""
        if cell not in self._digests:  # before it is trained: its initial weights count
            member = self.member(cell)
            used = torch.cat([member.rows, member.validation, member.test])
            network = digest_of_network(member.module, self.inputs[member.rows])
            self._digests[cell] = network, digest_of_pairs(self.inputs[used], self.targets[used])
        network, pairs = self._digests[cell]
        decisive: dict[str, object] = {"korisk": __version__, "model": self.name}
        decisive |= {"network": network, "pairs": pairs, "fit": self._fit_digest}
        if self.training.fit is None:
            decisive |= {"steps": steps, "batch": self.training.batch, "rate": self.training.rate}
            decisive |= {} if patience is None else {"patience": patience}
        digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:24]
        return f"n{cell.n}-seed{cell.seed}-{cell.variant}-{digest}.json"


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


def curve_of(errors: Mapping[Cell, Tensor], model: str, variant: Variant) -> Curve | None:
    """The mean errors of the finished networks of one variant as a curve; None without any."""
    cells = sorted(cell for cell in errors if cell.variant == variant)
    if not cells:
        return None
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
