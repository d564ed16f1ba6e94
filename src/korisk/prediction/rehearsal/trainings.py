"""The trainings of a rehearsal: the pairs and the network of each, and the file that keeps it."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from korisk._checks import require
from korisk._memory import check_memory
from korisk.curves.curve import Curve
from korisk.errors import Argument, Message, invalid
from korisk.fitting.gradient.many import Member
from korisk.prediction.rehearsal.budget import Extent
from korisk.prediction.rehearsal.finished import (
    Finished,
    digest_of_fit,
    digest_of_network,
    digest_of_pairs,
    file_name,
)
from korisk.prediction.rehearsal.simulation import Simulation, Training, Variant, torch_seed
from korisk.problems.problem import Pairs


class Cell(NamedTuple):
    """One network of a rehearsal."""

    n: int  # training pairs
    seed: int
    variant: Variant  # of its training images


class Trainings:
    """Pairs and networks of every cell, all in one pool on one device.

    Parameters
    ----------
    name : str
        Of the network, for messages.
    build : callable
        Returns a new network.
    simulation : Simulation
        Draws the pairs.
    training : Training
        How networks are trained.
    full : Extent
        All that may be trained.
    finished : Finished, optional
        Where finished networks are kept.

    Raises
    ------
    KoriskError
        If the pairs do not fit into memory, or `build` returns no network.
    """

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
                taken = sum(tensor.nbytes for pool in parts for tensor in pool)
                what = f"a rehearsal of {len({cell.seed for cell in cells})} seeds"
                smaller = Message("ask for smaller ", Argument("sizes", ...))
                check_memory(2 * len(kinds) * taken, parts[0].inputs.device, what, smaller)
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
        """The rows of the pool that judge a network."""
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
        """Keep the errors of a network, if there is a folder for them."""
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
        decisive: dict[str, object] = {
            "model": self.name,
            "network": network,
            "pairs": pairs,
            "fit": self._fit_digest,
        }
        if self.training.fit is None:
            decisive |= {"steps": steps, "batch": self.training.batch, "rate": self.training.rate}
            decisive |= {} if patience is None else {"patience": patience}
        return file_name(cell, decisive)


def curve_of(errors: Mapping[Cell, Tensor], model: str, variant: Variant) -> Curve | None:
    """The mean errors of the finished networks of one variant as a curve; None without any."""
    cells = sorted(cell for cell in errors if cell.variant == variant)
    if not cells:
        return None
    return Curve(
        [cell.n for cell in cells],
        [float(errors[cell].mean()) for cell in cells],
        [str(cell.seed) for cell in cells],
        model,
        "mse",
    )


def built(build: Callable[[], nn.Module]) -> nn.Module:
    """A new network, if that is what the user's function returns."""
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
