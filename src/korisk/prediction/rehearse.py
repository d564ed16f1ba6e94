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
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from korisk import _checks
from korisk._checks import require
from korisk._memory import check_memory
from korisk.curves.curve import Curve
from korisk.curves.noise import lasting_share, relative_variance
from korisk.errors import Argument, KoriskError, Message, invalid
from korisk.fitting.gradient.many import Member, pace, train_many
from korisk.operators.linear import LinearOperator
from korisk.planning.explain import value
from korisk.prediction.budget import LEAST_SIZES, Extent, reduction_note, within
from korisk.prediction.finished import (
    Finished,
    digest_of_fit,
    digest_of_network,
    digest_of_pairs,
    file_name,
)
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
from korisk.texts import duration

Progress = Callable[[str, float], None]

SIZES = (8, 16, 32, 64, 128, 512, 2048)
_RISE = 3.0  # standard errors: the largest of several differences is 2 off by chance too often
_ONE_SEED = 0.1  # relative deviation of a mean of one seed, whose spread is not known


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
    minutes: float | None = None,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    estimate: Callable[[float, float], None] | None = None,
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
    minutes : float, optional
        Limit of the time that networks are trained for: sizes, then seeds, then steps are left out
        to meet it, and a note says which. Default: no limit.
    folder : path, optional
        Where finished networks are kept: those that are there already are not trained again. Of
        `fit` its own source is compared, and not what it calls.
    progress : callable, optional
        Called with what is being done and the share that is done.
    estimate : callable, optional
        Called before training with how many seconds and how many bytes of memory it will take.

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
    ascending = len(asked) >= LEAST_SIZES and asked == sorted(set(asked))
    require(ascending, "sizes", "be three or more, ascending", asked, remedy)
    numbers, recipe = checked_seeds(seeds), _checks.options_of("training", training, Training)
    often = len(numbers)
    name = model or getattr(build, "__name__", type(build).__name__).strip("<>")
    for argument, function in (("progress", progress), ("estimate", estimate)):
        _checks.function_or_none(argument, function)
    if minutes is not None:
        _checks.real("minutes", minutes, above=0, remedy="try 10")
        if recipe.fit is not None:
            unknown = " cannot be kept to with a fit of your own; choose "
            chosen = Argument("sizes", ...), " and ", Argument("seeds", ...)
            raise KoriskError(Argument("minutes", minutes), unknown, *chosen)
    finished = None if folder is None else Finished(folder)
    fit_digest = "" if finished is None else digest_of_fit(recipe.fit)
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

    def cells_of(extent: Extent) -> list[_Cell]:
        wanted: list[tuple[Variant, int]] = [("plain", n) for n in extent.sizes]  # small N first
        if simulation.copied and simulation.unaltered < extent.sizes[-1]:
            wanted.append(("halved", extent.sizes[-1]))  # to see what few distinct images cost
        return [_Cell(n, number, variant) for variant, n in wanted for number in extent.seeds]

    full = Extent(tuple(asked), tuple(numbers), recipe.steps)
    cells = cells_of(full)
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
    networks: dict[_Cell, nn.Module] = {}
    for cell in cells:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_seed(cell.seed, "rehearsal weights"))
            networks[cell] = built(build).to(device)
    weights = [p for p in networks[cells[0]].parameters() if p.requires_grad]
    inputs, targets = (
        torch.cat(each).to(weights[0] if weights else torch.float32)
        for each in zip(*pool, strict=True)
    )

    def member_of(cell: _Cell) -> Member:
        train, validation, test = rows[cell.seed, cell.variant]
        batches = torch_seed(cell.seed, f"rehearsal batches {cell.n}")
        what = f"{name} at N = {cell.n:,}, seed {cell.seed}"
        if cell.variant != "plain":
            what += f", {cell.variant} images"
        return Member(what, networks[cell], batches, train[: cell.n], validation, test)

    @cache
    def digests(cell: _Cell) -> tuple[str, str]:
        member = member_of(cell)
        judged_by = torch.cat([member.rows, member.validation, member.test])
        pairs = digest_of_pairs(inputs[judged_by], targets[judged_by])
        return digest_of_network(member.module, inputs[member.rows]), pairs

    def file_of(cell: _Cell, steps: int) -> str:
        network, pairs = digests(cell)
        decisive = {"model": name, "network": network, "pairs": pairs, "fit": fit_digest}
        schedule = {"steps": steps, "batch": recipe.batch, "rate": recipe.rate}
        return file_name(cell, decisive if recipe.fit else decisive | schedule)

    def left(extent: Extent) -> list[_Cell]:
        """What has not finished of a rehearsal."""
        every = cells_of(extent)
        if finished is None:
            return every
        return [cell for cell in every if not finished.has(file_of(cell, extent.steps))]

    notes, extent = list(simulation.notes), full
    told = progress is not None or estimate is not None or minutes is not None
    if recipe.fit is None and told and left(full):
        watch("timing a few steps", 0.0)
        speed = pace([member_of(cell) for cell in cells], inputs, targets, recipe)

        def seconds(extent: Extent) -> float:
            return speed.seconds(len(left(extent)), extent.steps)

        if minutes is not None:
            limit = 60 * minutes
            extent = within(limit, full, simulation.unaltered, seconds)
            if len({group for seed in extent.seeds for group in simulation.groups(seed)}) < 2:
                extent = replace(extent, seeds=full.seeds)  # one patient alone would judge
            reduction = reduction_note(full, extent, limit, seconds(extent))
            notes += [] if reduction is None else [reduction]
        if estimate is not None:
            estimate(seconds(extent), speed.memory)
        gibibytes = max(speed.memory / 2**30, 0.1)
        about = f"about {duration(seconds(extent))} on {speed.device}"
        watch(f"{about}; {gibibytes:.1f} GiB", 0.0)
    recipe = replace(recipe, steps=extent.steps)
    cells, to_train = cells_of(extent), left(extent)
    errors: dict[_Cell, Tensor] = {}  # of every image that judges
    if finished is not None:
        for cell in cells:
            if cell not in to_train:
                errors[cell] = finished.read(
                    file_of(cell, extent.steps), len(rows[cell.seed, cell.variant][2])
                )
    members = [member_of(cell) for cell in to_train]
    before = len(errors)

    def training_progress(share: float) -> None:
        done = len(errors)
        what = f"training {len(members)} networks"
        if recipe.fit is not None:  # one after another
            what = f"training {members[min(done - before, len(members) - 1)].name}"
        watch(f"{what}, {done} of {len(cells)} finished", share)

    trainings = train_many(
        members,
        inputs,
        targets,
        recipe,
        fit=recipe.fit,
        notes=notes,
        progress=training_progress,
    )
    try:
        for index, judged in trainings:
            cell = to_train[index]
            errors[cell] = judged
            if finished is not None:
                finished.write(file_of(cell, extent.steps), name, cell, judged)
    except KeyboardInterrupt:
        trainings.close()
        sizes_done = {cell.n for cell in errors if cell.variant == "plain"}
        note = f"Interrupted: {len(errors)} of {len(cells)} trainings had finished"
        if finished is not None:
            note += f", which {finished.folder} keeps: the same rehearsal goes on from there"
        if len(sizes_done) < LEAST_SIZES:
            raise KeyboardInterrupt(f"{note}.") from None
        notes.append(f"{note}. The curve is that up to N = {max(sizes_done):,}.")
    curve = _curve(errors, name, "plain")
    assert curve is not None
    tested = torch.cat([rows[number, "plain"][2] for number in extent.seeds])
    empty = float(targets[tested].square().mean())
    if curve.means[-1] >= empty:
        notes.append(
            f"{name} has learned nothing: an image of zeros has an error of {value(empty)}. Lower "
            "the rate, or train for more steps."
        )
    elif (rise := rise_note(curve)) is not None:
        notes.append(rise)
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


def rise_note(curve: Curve) -> str | None:
    """Where errors rise with N by more than their noise, in a sentence; None if nowhere.

    Parameters
    ----------
    curve : Curve
        Errors of a rehearsal.

    Returns
    -------
    str or None
        Between which sizes, what it means, and what may help.
    """
    variance = relative_variance(curve)
    if variance is None:
        variance = np.full(len(curve.sizes), _ONE_SEED**2)
    # What a seed has at every N alike, such as the images that judge it, is in no difference.
    variance = variance * (1 - lasting_share(curve))
    logs = np.log(curve.means)
    rises = []
    for last in range(1, len(logs)):
        first = int(np.argmin(logs[:last]))
        noise = np.sqrt(variance[first] + variance[last])
        if logs[last] - logs[first] > _RISE * noise:
            rises.append((logs[last] - logs[first], first, last))
    if not rises:
        return None
    _, first, last = max(rises)
    low, high = (
        f"{value(curve.means[index])} at N = {curve.sizes[index]:,}" for index in (first, last)
    )
    return (
        f"The rehearsed error rises from {low} to {high}, by more than its noise: more data will "
        "not help this network as it is trained. Train for more steps, lower the rate, or "
        "regularise it."
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
