"""Rehearsal: train a network on simulated pairs, then say what it will do on real ones.

Where operator and noise are known, pairs can be simulated without limit. A few example images are
enough: some of them judge, and training sets that are larger than the number of the others are
filled up with altered copies. The curve of the rehearsal takes the place of a theory in a
`Prediction`: real images may follow another curve by a misfit that grows beyond the largest N at
which the examples were used as they are, and the level is as uncertain as the examples that judge
are few. A pilot of real pairs narrows both.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from korisk import _checks
from korisk._checks import require
from korisk._memory import check_memory
from korisk.curves.curve import Curve
from korisk.errors import Argument, Message, invalid
from korisk.fitting.gradient.many import Member, train_many
from korisk.operators.linear import LinearOperator
from korisk.planning.explain import value
from korisk.prediction.independent import relative_error
from korisk.prediction.rehearsal import BELIEF, UNLIKE, Rehearsal
from korisk.prediction.simulation import (
    FOLDS,
    Augment,
    Noisy,
    Training,
    Variant,
    simulation_of,
    torch_seed,
)
from korisk.problems.noise import Noise
from korisk.problems.problem import Pairs, Problem
from korisk.seeds import checked_seeds

Progress = Callable[[str, float], None]

SIZES = (8, 16, 32, 64, 128, 512, 2048)
_LEAST_SIZES = 3  # of a curve that can be predicted with


def rehearse(
    build: Callable[[], nn.Module],
    operator: LinearOperator | Problem,
    images: ArrayLike | Tensor | None = None,
    noise: Noise | Noisy | float | None = None,
    sizes: Iterable[int] = SIZES,
    seeds: int | Iterable[int] = 3,
    *,
    augment: Augment | None = None,
    also: ArrayLike | Tensor | None = None,
    patients: Sequence[str] | None = None,
    training: Training | None = None,
    model: str | None = None,
    progress: Progress | None = None,
) -> Rehearsal:
    """Train a network on simulated pairs at several sizes, all at once where that is possible.

    Parameters
    ----------
    build : callable
        `build()` returns a new network: a `torch.nn.Module` from inputs (batch, *range) to images
        (batch, *domain). Its initial weights may be random; they follow the seed.
    operator : LinearOperator or Problem
        The operator from images to inputs. A problem has an operator, noise and images of its own.
    images : array or Tensor of shape (count, *domain), optional
        Example images, 12 at least. Default: random ellipses, or the problem's images.
    noise : float, Gaussian, Poisson or callable, optional
        Noise of the inputs. A number is the level of Gaussian noise, relative to each input's root
        mean square; `noise(inputs, generator)` returns noisy copies. Default: none, or the
        problem's.
    sizes : iterable of int, default 8, 16, 32, 64, 128, 512, 2048
        Numbers of training pairs, ascending, three at least.
    seeds : int or iterable of int, default 3
        How many networks for each size (0, 1, ...), or the seeds of their images, noise, batches
        and initial weights.
    augment : list of str or callable, optional
        How copies of the examples are altered where N is larger than their number: names of
        `korisk.prediction.alterations.KINDS`, or `augment(images, generator)`, which returns
        altered copies of images (count, *domain). Default: in the ways for which the examples
        speak.
    also : array or Tensor of shape (number, *domain), optional
        Images of another source, such as a simulator or a public set, that may stand in for copies;
        they are used if the examples speak for them.
    patients : sequence of str, optional
        Whose image each is: images of one patient are trained with, or judge.
    training : Training, optional
        How networks are trained, and where. Default: 2,000 steps of 16 pairs with Adam.
    model : str, optional
        Name of the network. Default: the name of `build`.
    progress : callable, optional
        Called with what is being done and the share that is done.

    Returns
    -------
    Rehearsal
        The simulated curve, and predictions for real images. After an interruption from the
        keyboard, that of the trainings that had finished, if these are enough.

    Raises
    ------
    KoriskError
        If the network does not fit the operator, there are too few images, or a loss is not finite.

    Examples
    --------
    >>> import torch
    >>> import korisk as kr
    >>> from korisk.operators import ParallelBeam, Projector
    >>> scan = Projector(ParallelBeam(8, views=6, bins=12))
    >>> class Net(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.dense = torch.nn.Linear(72, 64)
    ...     def forward(self, sinograms):
    ...         return self.dense(sinograms.flatten(1)).unflatten(1, (8, 8))
    >>> training = kr.prediction.Training(steps=50)
    >>> made = kr.rehearse(Net, scan, noise=0.1, sizes=[4, 8, 16], seeds=2, training=training)
    >>> made.curve
    Curve('Net', mse, N = 4 ... 16 (3 sizes), 2 seeds)
    >>> low, high = made.predict().band(16)
    >>> bool(low[0] < made.curve.means[-1] < high[0])
    True
    """
    remedy = "give ascending numbers of training pairs, three or more"
    require(isinstance(sizes, Iterable), "sizes", "be a list", sizes, remedy)
    asked = [_checks.count("sizes", n, at_least=2, at_most=10**6, remedy=remedy) for n in sizes]
    ascending = len(asked) >= _LEAST_SIZES and asked == sorted(set(asked))
    require(ascending, "sizes", "be three or more, ascending", asked, remedy)
    numbers, recipe = checked_seeds(seeds), _checks.options_of("training", training, Training)
    often = len(numbers)
    name = model or getattr(build, "__name__", type(build).__name__).strip("<>")
    _checks.function_or_none("progress", progress)
    watch, start = progress or (lambda what, share: None), time.monotonic()
    watch("simulating", 0.0)
    simulation = simulation_of(
        operator,
        images,
        noise,
        patients=patients,
        augment=augment,
        also=also,
        training=recipe,
        seed=numbers[0],
        folds=max(FOLDS, often),
        largest=asked[-1],
    )
    judges = {group for number in numbers for group in simulation.groups(number)}
    got, raised = f"{often}: one alone would judge", Message("raise ", Argument("seeds", ...))
    rule = "be 2 or more for so few patients"
    require(len(judges) >= 2, "seeds", rule, often, raised, got=got)
    wanted: list[tuple[Variant, int]] = [("plain", n) for n in asked]  # small N first
    if simulation.copied and simulation.unaltered < asked[-1]:
        wanted.append(("halved", asked[-1]))  # to see what few distinct images cost
    cells = [_Cell(n, number, variant) for variant, n in wanted for number in numbers]
    pool: list[Pairs] = []
    rows: dict[tuple[int, Variant], list[Tensor]] = {}  # train, validation and test of a pool
    place = 0
    kinds_of_pools = dict.fromkeys((cell.seed, cell.variant) for cell in cells)
    for number, variant in kinds_of_pools:
        parts = simulation.pools(number, variant)
        if not pool:  # what all seeds take, once more when they are put together
            taken = sum(each.numel() * each.element_size() for part in parts for each in part)
            what = f"a rehearsal of {often} seeds"
            smaller = Message("ask for smaller ", Argument("sizes", ...))
            check_memory(2 * len(kinds_of_pools) * taken, parts[0].inputs.device, what, smaller)
        for part in parts:
            last = place + len(part.inputs)
            numbered = torch.arange(place, last, device=part.inputs.device)
            rows.setdefault((number, variant), []).append(numbered)
            place = last
            pool.append(part)
    device = pool[0].inputs.device
    members: list[Member] = []
    for n, number, variant in cells:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_seed(number, "rehearsal weights"))
            network = built(build).to(device)
        train, validation, test = rows[number, variant]
        batches = torch_seed(number, f"rehearsal batches {n}")
        what = f"{name} at N = {n:,}, seed {number}"
        members.append(Member(what, network, batches, train[:n], validation, test))
    weights = [p for p in members[0].module.parameters() if p.requires_grad]
    inputs, targets = (
        torch.cat(each).to(weights[0] if weights else torch.float32)
        for each in zip(*pool, strict=True)
    )
    notes = list(simulation.notes)
    errors: dict[_Cell, Tensor] = {}  # of every image that judges
    trainings = train_many(
        members,
        inputs,
        targets,
        recipe,
        fit=recipe.fit,
        notes=notes,
        progress=lambda share: watch(f"training {len(members)} networks", share),
    )
    try:
        for index, judged in trainings:
            errors[cells[index]] = judged
    except KeyboardInterrupt:
        trainings.close()
        finished = {cell.n for cell in errors if cell.variant == "plain"}
        if len(finished) < _LEAST_SIZES:
            raise
        notes.append(
            f"Interrupted: {len(errors)} of {len(members)} trainings had finished, up to "
            f"N = {max(finished):,}."
        )
    curve = _curve(errors, name, "plain")
    assert curve is not None
    tested = torch.cat([rows[number, "plain"][2] for number in numbers])
    empty = float(targets[tested].square().mean())
    if curve.means[-1] >= empty:
        notes.append(
            f"{name} has learned nothing: an image of zeros has an error of {value(empty)}. Lower "
            "the rate, or train for more steps."
        )
    count = sum(p.numel() for p in weights)
    how = "by your own function"
    if recipe.fit is None:
        how = f"with {recipe.steps:,} steps of {recipe.batch} pairs"
    # The largest N; after an interruption, that of the most seeds.
    last = max(curve.sizes.tolist(), key=lambda n: (curve.n.tolist().count(n), n))
    judged_by = [cell for cell in errors if cell.n == last and cell.variant == "plain"]
    labels = [label for cell in judged_by for label in simulation.groups(cell.seed)]
    return Rehearsal(
        curve=curve,
        halved=_curve(errors, name, "halved"),
        simulated=f"{simulation.words}; {len(errors)} networks of {count:,} weights, trained {how}",
        unaltered=simulation.unaltered,
        level=relative_error(
            torch.cat([errors[cell] for cell in judged_by]).numpy(),
            np.unique(labels, return_inverse=True)[1].astype(np.int64),
        ),
        parameters=count,
        belief=BELIEF if simulation.alike else UNLIKE,
        notes=tuple(notes),
        seconds=time.monotonic() - start,
    )


class _Cell(NamedTuple):
    """One network of a rehearsal."""

    n: int  # training pairs
    seed: int
    variant: Variant  # of its training images


def _curve(errors: Mapping[_Cell, Tensor], model: str, variant: Variant) -> Curve | None:
    """The finished networks of one variant as a curve."""
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
