"""Rehearsal: train a network on simulated pairs, then say what it will do on real ones.

Where operator and noise are known, pairs can be simulated without limit. A few example images are
enough: some are test images, and training sets larger than the number of the others are filled up
with altered copies. The curve of real images may differ by a misfit, which grows beyond the largest
N that needs no copies, and in its level, which few test images leave uncertain. A pilot of real
pairs narrows both.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit
from torch import Tensor, nn

from korisk import _checks
from korisk._checks import require
from korisk._group import grouped
from korisk.curves.curve import Curve
from korisk.curves.noise import lasting_share, mean_variance
from korisk.errors import Argument, Message
from korisk.fitting.gradient.train import Member, pace, train_many
from korisk.operators.linear import LinearOperator
from korisk.planning.pilot import Longer
from korisk.planning.words import value
from korisk.prediction.alterations import Alteration
from korisk.prediction.misfit import BELIEF, UNLIKE
from korisk.prediction.rehearsal.callbacks import Callbacks, Progress
from korisk.prediction.rehearsal.linear import ExactFits
from korisk.prediction.rehearsal.rehearsal import Rehearsal
from korisk.prediction.rehearsal.simulation import (
    FEWER,
    FOLDS,
    LONGER,
    Noisy,
    Simulation,
    Training,
    simulation_of,
)
from korisk.prediction.rehearsal.trainings import Cell, Finished, Trainings, curve_of
from korisk.problems.noise import Noise
from korisk.problems.problem import Pairs, Problem
from korisk.seeds import checked_seeds
from korisk.texts import duration

SIZES = (8, 16, 32, 64, 128, 512, 2048)
LEAST_SIZES = 3  # of a curve that can be predicted with
_RISE = 3.0  # standard errors: the largest of several differences is 2 off by chance too often


def rehearse(
    build: Callable[[], nn.Module],
    operator: LinearOperator | Problem,
    images: ArrayLike | Tensor | None = None,
    noise: Noise | Noisy | float | None = None,
    sizes: Iterable[int] = SIZES,
    seeds: int | Iterable[int] = 3,
    *,
    augment: Alteration | None = None,
    patients: Sequence[str] | None = None,
    training: Training | None = None,
    model: str | None = None,
    folder: str | Path | None = None,
    callbacks: Callbacks | None = None,
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
    augment : callable, optional
        `augment(images, generator)` returns altered copies of images (count, *domain), which fill
        training sets that are larger than the number of examples. Default: they are mirrored,
        rotated and shifted as far as the examples support it.
    patients : sequence of str, optional
        The patient of each image: all images of a patient are for training, or all for testing.
    training : Training, optional
        How networks are trained, and where. Default: 2,000 steps of 16 pairs with Adam.
    model : str, optional
        Name of the network. Default: the name of `build`.
    folder : path, optional
        Where finished networks are kept: those that are there already are not trained again. Of
        `fit` its own source is compared, and not what it calls.
    callbacks : Callbacks, optional
        Whom to tell of progress, and of the time that it will take.

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
    >>> then = made.forecast().at(16)
    >>> bool(then.lower < made.curve.means[-1] < then.upper)
    True
    """
    remedy = "give ascending numbers of training pairs, three or more"
    require(isinstance(sizes, Iterable), "sizes", "be a list", sizes, remedy)
    planned = [_checks.count("sizes", n, at_least=2, at_most=10**6, remedy=remedy) for n in sizes]
    ascending = len(planned) >= LEAST_SIZES and planned == sorted(set(planned))
    require(ascending, "sizes", "be three or more, ascending", planned, remedy)
    numbers, recipe = checked_seeds(seeds), _checks.options_of("training", training, Training)
    name = model or getattr(build, "__name__", type(build).__name__).strip("<>")
    callbacks = _checks.options_of("callbacks", callbacks, Callbacks)
    finished = None if folder is None else Finished(folder)
    watch, start = callbacks.progress or (lambda what, share: None), time.monotonic()
    watch("simulating", 0.0)
    # Pairs for the largest N; smaller training sets are the first of them.
    simulation = simulation_of(
        operator,
        images,
        noise,
        patients=patients,
        augment=augment,
        training=recipe,
        seed=numbers[0],
        folds=max(FOLDS, len(numbers)),
        largest=planned[-1],
    )
    got = f"{len(numbers)}: only one patient would be tested on"
    raised, rule = Message("raise ", Argument("seeds", ...)), "be 2 or more for so few patients"
    require(_tested(simulation, numbers) >= 2, "seeds", rule, len(numbers), raised, got=got)
    trainings = Trainings(name, build, simulation, recipe, planned, numbers, finished)
    errors, notes = trainings.finished_errors(), list(simulation.notes)
    cells = [cell for cell in trainings.cells if cell not in errors]
    # A few steps are timed only if somebody asks how long it takes.
    timed = callbacks.progress is not None or callbacks.estimate is not None
    if recipe.fit is None and trainings.linear is None and timed and cells:
        watch("timing a few steps", 0.0)
        members = [trainings.member(cell) for cell in trainings.cells]
        speed = pace(members, trainings.inputs, trainings.targets, recipe)
        longer = sum(cell.variant == "longer" for cell in cells)
        seconds = speed.seconds(len(cells) - longer, recipe.steps)
        seconds += speed.seconds(longer, LONGER * recipe.steps)
        if callbacks.estimate is not None:
            callbacks.estimate(seconds, speed.memory)
        gibibytes = max(speed.memory / 2**30, 0.1)
        watch(f"about {duration(seconds)} on {speed.device}; {gibibytes:.1f} GiB", 0.0)

    _train(trainings, cells, numbers, errors, notes, watch)
    return _rehearsal(trainings, numbers, errors, notes, time.monotonic() - start)


def _sizes(errors: Iterable[Cell], seeds: Sequence[int]) -> list[int]:
    """The N at which the networks of every seed have finished, ascending."""
    counts = Counter(cell.n for cell in errors if cell.variant == "plain")
    return sorted(n for n, count in counts.items() if count == len(seeds))


def _rehearsal(
    trainings: Trainings,
    seeds: Sequence[int],
    errors: Mapping[Cell, Tensor],
    notes: Sequence[str],
    seconds: float,
) -> Rehearsal:
    """The rehearsal of the sizes at which every seed has finished."""
    name, simulation, recipe = trainings.name, trainings.simulation, trainings.training
    sizes = _sizes(errors, seeds)
    # What a seed has at every N alike, such as its test images, would bend a curve of few seeds.
    plain = {cell: errors[cell] for cell in errors if cell.variant == "plain" and cell.n in sizes}
    curve = curve_of(plain, name)
    # The error of an image of zeros is what a network must beat to have learned anything.
    test_rows = torch.cat([trainings.test_rows(Cell(0, seed, "plain")) for seed in seeds])
    zero_error = float(trainings.targets[test_rows].square().mean())
    finding = rise_note(curve)
    if curve.means[-1] >= zero_error:
        finding = f"{name} has learned nothing: an image of zeros has a mean squared error of "
        finding += f"{value(zero_error)}. Lower the rate, or train for more steps."
    how = "trained by your own function"
    if trainings.linear is not None:
        how = "fitted exactly"
    elif recipe.fit is None:
        how = f"trained with {recipe.steps:,} steps of {recipe.batch} pairs"
    last = Cell(sizes[-1], seeds[0], "plain")
    more, longer = errors.get(last._replace(variant="longer")), None
    if more is not None:
        before, after = (float(values.mean()) for values in (errors[last], more))
        longer = Longer(n=last.n, factor=LONGER, errors=[after], before=[before])
    number = sum(cell.variant != "longer" and cell.n in sizes for cell in errors)
    networks = f"{number} networks of {trainings.weights:,} weights, {how}"
    return Rehearsal(
        curve=curve,
        distinct=_distinct(errors, sizes[-1], simulation.unaltered),
        simulated=f"{simulation.words}; {networks}",
        unaltered=simulation.unaltered,
        level=_level(plain, sizes[-1], simulation),
        parameters=trainings.weights,
        power=zero_error,
        data_range=float(trainings.targets.max() - trainings.targets.min()),
        population=simulation.population,
        belief=BELIEF if simulation.alike else UNLIKE,
        undertrained=finding is not None,
        longer=longer,
        notes=(*notes, *([] if finding is None else [finding])),
        seconds=seconds,
    )


def _distinct(errors: Mapping[Cell, Tensor], n: int, unaltered: int) -> Curve | None:
    """Errors at one N over the number of distinct images; None if a network is missing."""
    parts = {v: [cell for cell in errors if cell.n == n and cell.variant == v] for v in FEWER}
    if len({len(cells) for cells in parts.values()}) > 1:
        return None
    cells = [cell for variant in reversed(FEWER) for cell in parts[variant]]
    sizes = [-(-unaltered // FEWER[cell.images]) for cell in cells]
    means = [float(errors[cell].mean()) for cell in cells]
    return Curve(sizes, means, [str(cell.seed) for cell in cells])


def _tested(simulation: Simulation, seeds: Iterable[int]) -> int:
    """Number of patients, or of images without patients, in the test sets of some seeds."""
    return len({group for seed in seeds for group in simulation.groups(seed)})


def _train(
    trainings: Trainings,
    cells: Sequence[Cell],
    seeds: Sequence[int],
    errors: dict[Cell, Tensor],
    notes: list[str],
    watch: Progress,
) -> None:
    """Train networks; add the errors of each on every test image, when it has finished.

    An interruption ends it, if the networks in `errors` suffice for a curve.
    """
    members, before = [trainings.member(cell) for cell in cells], len(errors)
    schedule, finished, total = trainings.training, trainings.finished, len(trainings.cells)

    def report(share: float) -> None:
        what = f"training {len(members)} networks"
        # A user's function trains one network after another; otherwise all train together.
        if trainings.linear is not None:
            what = f"fitting {len(members)} networks"
        if schedule.fit is not None:
            what = f"training {members[min(len(errors) - before, len(members) - 1)].name}"
        watch(f"{what}, {len(errors)} of {total} finished", share)

    pairs = trainings.inputs, trainings.targets
    if trainings.linear is not None:
        fits = ExactFits(trainings.name, trainings.linear, Pairs(*pairs))
        results = _fit_exactly(fits, trainings, cells, report)
    else:
        options: dict[str, Any] = {"fit": schedule.fit, "progress": report}
        results = _train_each(trainings, cells, members, options)
    try:
        for index, test_errors in results:
            trainings.write(cells[index], test_errors)
            errors[cells[index]] = test_errors
    except KeyboardInterrupt:
        results.close()
        note = f"Interrupted: {len(errors)} of {total} trainings had finished"
        if finished is not None:
            note += f", which {finished.folder} keeps: the same rehearsal continues from there"
        sizes = _sizes(errors, seeds)
        if len(sizes) < LEAST_SIZES:
            raise KeyboardInterrupt(f"{note}.") from None
        notes.append(f"{note}. The curve is that up to N = {sizes[-1]:,}.")


def _train_each(
    trainings: Trainings, cells: Sequence[Cell], members: Sequence[Member], options: dict[str, Any]
) -> Generator[tuple[int, Tensor]]:
    """Train every cell, those with the same schedule together; yield as `train_many` does."""
    groups = grouped((cell.variant == "longer", index) for index, cell in enumerate(cells))
    for indices in groups.values():
        schedule = trainings.schedule(cells[indices[0]])
        some = [members[index] for index in indices]
        pairs = trainings.inputs, trainings.targets
        for place, errors in train_many(some, *pairs, schedule, **options):
            yield indices[place], errors


def _fit_exactly(
    fits: ExactFits, trainings: Trainings, cells: Sequence[Cell], report: Callable[[float], None]
) -> Generator[tuple[int, Tensor]]:
    """Fit a linear network to every cell; yield the index of each with its test errors."""
    done = 0
    groups = grouped(((cell.seed, cell.variant), index) for index, cell in enumerate(cells))
    for indices in groups.values():
        sizes = [cells[index].n for index in indices]
        errors = fits.errors(trainings.pools(cells[indices[0]]), sizes)
        for index, test_errors in zip(indices, errors, strict=True):
            done += 1
            report(done / len(cells))
            yield index, test_errors


def _level(errors: Mapping[Cell, Tensor], n: int, simulation: Simulation) -> float:
    """Relative standard error of a mean error over few test images or patients, at one N."""
    # Seeds share images: the scatter is that between images or patients, not between errors.
    cells = [cell for cell in errors if cell.n == n]
    groups = [group for cell in cells for group in simulation.groups(cell.seed)]
    labels = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    return relative_error(torch.cat([errors[cell] for cell in cells]).numpy(), labels)


def relative_error(values: NDArray[np.float64], groups: NDArray[np.int64]) -> float:
    """Standard error of the mean of `values` (n,), over the mean; zero where the mean is zero.

    From the scatter between groups (n,), such as patients. With few groups it is multiplied by the
    ratio of Student's to normal quantiles.
    """
    mean, sums = float(values.mean()), np.bincount(groups, values - values.mean())
    if not mean:
        return 0.0
    error = math.sqrt(float(sums @ sums) * len(sums) / (len(sums) - 1)) / len(values) / mean
    return error * float(stdtrit(len(sums) - 1, 0.95) / ndtri(0.95))


def rise_note(curve: Curve) -> str | None:
    """Where errors rise with N by more than their noise, in a sentence; None if nowhere."""
    # What a seed has at every N alike, such as its test images, cancels in differences.
    variance = mean_variance(curve) * (1 - lasting_share(curve))
    logs = np.log(curve.means)
    # Each size against the smallest error before it; the largest clear rise is reported.
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
    advice = "Train for more steps, lower the rate, or regularise it."
    why = "by more than its noise: more data will not help this network as it is trained"
    return f"The rehearsed error rises from {low} to {high}, {why}. {advice}"
