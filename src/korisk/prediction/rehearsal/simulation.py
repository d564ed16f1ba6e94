"""Simulated pairs for a rehearsal: images behind an operator, with noise.

Images are the user's examples, split into training and test images, with altered copies for large
training sets; or phantoms, drawn without limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from korisk import _checks
from korisk._checks import require
from korisk.errors import Argument, KoriskError, Message, invalid, shown
from korisk.fitting.gradient.recipe import Recipe
from korisk.fitting.gradient.train import Fit
from korisk.operators.inputs import shape_text
from korisk.operators.linear import LinearOperator
from korisk.prediction.alterations import (
    Alteration,
    altered,
    channel_axis,
    channels_first,
    evidence,
)
from korisk.prediction.copies import copies
from korisk.problems.noise import Gaussian, Noise, Poisson, add_noise
from korisk.problems.problem import Counts, Pairs, Pools, Problem
from korisk.problems.sources import EllipseSource, FileSource, ImageSource
from korisk.seeds import TEST_SEED, stream_key

Noisy = Callable[[Tensor, torch.Generator], Tensor]
Variant = Literal["plain", "halved", "quartered"]  # of the training images of an `ExampleSource`
FEWER: dict[Variant, int] = {"plain": 1, "halved": 2, "quartered": 4}  # of which they are a part
LONGER = 2  # times the steps of the network that tells whether training limits the error

FOLDS = 3  # at least: a seed's networks are tested on a third of the examples
LEAST_EXAMPLES = 12
_LEAST_GROUPS = 3  # patients: to train, to validate and to test
_FEW = 16  # patients
_VALIDATION, _TEST = 64, 256  # pairs, where they can be drawn without limit
_IMAGES = Argument("images", ...)
OPERATORS = "be a LinearOperator or a Problem"  # what an operator must be
ADAPTED = "use korisk.operators; from_deepinv(physics, (1, 64, 64)), from_scipy ... adapt others"
_PIECE = 2**24  # entries that are projected at once


@dataclass(frozen=True, kw_only=True)
class Training(Recipe):
    """How networks are trained on simulated pairs.

    Parameters
    ----------
    steps : int, default 2000
        Mini-batches of each training.
    batch : int, default 16
        Pairs of a mini-batch.
    rate : float, default 0.001
        Learning rate at the start.
    optimiser : {"adam", "adagrad", "sgd"}, default "adam"
        The update rule.
    cosine : bool, default True
        Whether the rate falls to zero along half a cosine; for "adam" only.
    patience : int, optional
        Training ends early when so many of the 10 checks on validation images have passed without a
        smaller error. Default: never.
    fit : callable, optional
        `fit(network, inputs, targets, validation_inputs, validation_targets)` trains a network in
        place, your way; then `steps`, `batch` and `rate` are not used.
    exact : bool, default True
        Whether a `DenseNet` or a `KnownOperatorNet`, which are linear up to a last ReLU, is fitted
        by ridge regression instead, with the penalty that is best on the validation pairs.
    examples : int, default 256
        How many images to take from a problem that reads them from files.
    device : torch.device or str, optional
        Where a problem is simulated and networks are trained; an operator has its own device.

    Raises
    ------
    KoriskError
        If a value is outside its range.

    Examples
    --------
    >>> from korisk.prediction import Training
    >>> Training(steps=500, rate=0.01).batch
    16
    """

    cosine: bool = True
    fit: Fit | None = None
    exact: bool = True
    examples: int = 256
    device: torch.device | str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.function_or_none("fit", self.fit)


@dataclass(frozen=True, eq=False)
class ExampleSource(ImageSource):
    """Training, validation and test pools from the user's example images.

    Larger training sets are filled up with altered copies; `halved` and `quartered` use the images
    of a half and a quarter of the patients. All images of a patient are in one pool, and a training
    set takes the first image of each before the second of any. Test images change with the seed.
    """

    images: Tensor  # (count, rows, columns), float64 on the CPU
    patients: tuple[str, ...] | None = None
    alter: Alteration | None = None  # None: copies differ by their noise alone
    folds: int = FOLDS
    variant: Variant = "plain"

    @cached_property
    def _groups(self) -> list[NDArray[np.int64]]:
        """Indices of each patient's images; images and patients are in random order."""
        rng = np.random.Generator(np.random.Philox(key=stream_key(0, "rehearsal folds")))
        labels = np.arange(len(self.images))
        if self.patients is not None:
            labels = np.unique(self.patients, return_inverse=True)[1]
        order = rng.permutation(len(labels))
        return [order[labels[order] == label] for label in rng.permutation(int(labels.max()) + 1)]

    def parts(self, seed: int) -> tuple[NDArray[np.int64], ...]:
        """Indices of the images that train, validate and test for a seed."""
        tested = self._groups[seed % self.folds :: self.folds]
        others = [g for k, g in enumerate(self._groups) if k % self.folds != seed % self.folds]
        # A tenth of the images, at least, chooses the best step; one group remains to train with.
        count, validation = 0, 0
        while count < len(self.images) // 10 and validation < len(others) - 1:
            count += len(others[validation])
            validation += 1
        # As many test images for every seed as the smallest fold has.
        least = min(sum(map(len, self._groups[k :: self.folds])) for k in range(self.folds))
        rng = np.random.Generator(np.random.Philox(key=stream_key(seed, "rehearsal order")))
        # Patients take turns: the first image of each, then the second of each, and so on.
        turns = [rng.permutation(group) for group in others[validation:]]
        turns = [turns[index] for index in rng.permutation(len(turns))]
        turns = turns[: -(-len(turns) // FEWER[self.variant])]
        longest = range(max(map(len, turns)))
        train = [group[index] for index in longest for group in turns if index < len(group)]
        return (
            np.array(train),
            np.concatenate(others[:validation]),
            np.concatenate(tested)[:least],
        )

    @property
    def unaltered(self) -> int:
        """The largest training set of independent images that needs no copies, for every seed."""
        whose = np.arange(len(self.images)) if self.patients is None else np.array(self.patients)
        return min(len(np.unique(whose[self.parts(fold)[0]])) for fold in range(self.folds))

    def draw(
        self, side: int, *, seed: int, counts: Counts, device: torch.device | None
    ) -> dict[str, Tensor]:
        """Images for each pool; test images are never altered."""
        train, validation, test = self.parts(seed)
        pool_images = {"test": self.images[test]}
        # Examples first; if there are too few, altered copies of random ones fill the pool.
        for name, indices in (("train", train), ("validation", validation)):
            draws = torch.Generator().manual_seed(torch_seed(seed, f"rehearsal {name}"))
            images, more = self.images[indices[: counts[name]]], counts[name] - len(indices)
            if more > 0:
                chosen = torch.randint(len(indices), (more,), generator=draws)
                originals = self.images[indices][chosen]
                # By a function that may be the user's.
                copies: object = originals if self.alter is None else self.alter(originals, draws)
                images = torch.cat([images, _unchanged("augment", "images", copies, originals)])
            pool_images[name] = images
        return {name: pool_images[name].to(device) for name in counts}


def torch_seed(seed: int, stream: str) -> int:
    """A seed for PyTorch."""
    return int(stream_key(seed, stream)[0]) >> 1


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """Pairs of a seed, and what they are in words."""

    pools: Callable[[int, Variant], Pools]  # of a seed
    groups: Callable[[int], Sequence[str]]  # of a seed, to which each test image belongs
    unaltered: int  # the largest N without altered copies
    words: str
    population: str  # of images where none are examples of real ones
    alike: bool  # whether its images are like the real ones
    notes: Sequence[str] = ()  # on the examples


def simulation_of(
    operator: LinearOperator | Problem,
    images: ArrayLike | Tensor | None,
    noise: Noise | Noisy | float | None,
    *,
    patients: Sequence[str] | None,
    augment: Alteration | None,
    training: Training,
    seed: int,
    folds: int,
    largest: int,
) -> Simulation:
    """The simulation that a user's arguments describe."""
    counts = {"train": largest, "validation": _VALIDATION, "test": _TEST}
    problem: Any = operator  # as far as it is one
    if images is None and isinstance(getattr(operator, "source", None), FileSource):
        if patients is not None:
            reads = f"{type(operator).__name__} reads whose its images are with their files; leave "
            raise KoriskError(reads, Argument("patients", ...), " out")
        count, least = training.examples, LEAST_EXAMPLES
        _checks.count("examples", count, at_least=least, at_most=10**4, remedy="256 are good")
        images, patients = problem.source.examples(problem.side, seed=seed, count=count)
    source: ExampleSource | None = None
    if images is not None:
        source, left_out, how = _example_source(images, patients, augment, folds)
    else:
        for name, argument in (("patients", patients), ("augment", augment)):
            if argument is not None:
                raise KoriskError(Argument(name, ...), " is about examples; give ", _IMAGES, " too")
    if isinstance(operator, Problem):
        if noise is not None:
            raise KoriskError("a problem has its own noise; leave ", Argument("noise", ...), " out")
        if source is not None and not hasattr(operator, "source"):
            fixed = f"the images of {type(operator).__name__} are fixed; leave "
            raise KoriskError(fixed, _IMAGES, " out")
        words = f"pairs of {type(operator).__name__}"

        def pools(seed: int, variant: Variant) -> Pools:
            changed = problem
            if source is not None:
                changed = replace(problem, source=replace(source, variant=variant))
            pools_of_seed: Pools = changed.pools(seed=seed, device=training.device, **counts)
            return pools_of_seed
    elif isinstance(operator, LinearOperator):
        if source is not None and (shape := tuple(source.images.shape))[1:] != operator.domain:
            rule = f"have the operator's shape {shape_text(operator.domain, batched=True)}"
            raise invalid("images", rule, shape, "resize them", got=shape_text(shape))
        if source is None and square_side(operator.domain) is None:
            need = f"random ellipses need a square image, got {shape_text(operator.domain)}; give "
            raise KoriskError(need, _IMAGES)
        added: Any = noise
        level = f"{added:g}" if isinstance(added, Real) else shown(added)
        kind = "none" if added is None else getattr(added, "__name__", level)
        words = f"inputs of {operator.name} (noise: {kind})"

        def pools(seed: int, variant: Variant) -> Pools:
            images_from: ImageSource = EllipseSource()
            if source is not None:
                images_from = replace(source, variant=variant)
            side = operator.domain[-1]
            drawn = images_from.draw(side, seed=seed, counts=counts, device=operator.device)
            shaped = {name: drawn[name].reshape(-1, *operator.domain) for name in counts}
            return Pools(*(_pairs(operator, shaped[name], added, seed, name) for name in counts))
    else:
        raise invalid("operator", OPERATORS, operator, ADAPTED)
    if source is None:
        is_problem = isinstance(operator, Problem)
        kind = "images as the problem draws them" if is_problem else "random ellipses for images"
        population = "drawn at random" if is_problem else "random ellipses"
        return Simulation(
            pools=pools,
            groups=lambda seed: [str(index) for index in range(_TEST)],
            unaltered=largest if is_problem else 0,
            words=f"{words}, {kind}",
            population=population,
            alike=is_problem,
        )
    examples = source
    whose = examples.patients or [str(index) for index in range(len(examples.images))]
    # The simulation in words: how many images, and from which N on they are altered.
    number, until = f"{len(examples.images):,} example images", f"up to N = {examples.unaltered:,}"
    used = f"as they are {until} and with {how} beyond"
    notes = []
    if left_out:
        number += f" without {left_out:,} near-copies"
        notes.append(f"{number}: bring images that differ as those to come will.")
    if examples.patients is not None:
        patient_count = len(set(examples.patients))
        number += f" of {patient_count:,} patients"
        if patient_count < _FEW:
            notes.append(f"{number}: bands are wide for it; bring more patients.")
        used = f"one of each patient {until}, then more of their images, then {how}"
    return Simulation(
        pools=pools,
        groups=lambda seed: [whose[index] for index in examples.parts(seed)[2]],
        unaltered=examples.unaltered,
        words=f"{words} from {number}, {used}",
        population="",
        alike=True,
        notes=notes,
    )


def _example_source(
    images: ArrayLike | Tensor,
    patients: Sequence[str] | None,
    augment: Alteration | None,
    folds: int,
) -> tuple[ExampleSource, int, str]:
    """Check a user's example images; leave near-copies out, and choose alterations."""
    examples = _as_images(images)
    many = examples.ndim > 1 and len(examples) >= LEAST_EXAMPLES
    ellipses = Message("leave ", _IMAGES, " out to use random ellipses")
    if not many or not bool(torch.isfinite(examples).all()) or not bool(examples.any()):
        rule = f"be an array of {LEAST_EXAMPLES} or more, with finite values that are not all zero"
        few = examples.ndim > 1 and not many
        got = f"{len(examples)} of shape {shape_text(examples.shape[1:])}" if few else None
        remedy = Message("add more, or ", ellipses) if few else ellipses
        raise invalid("images", rule, images, remedy, got=got)
    if patients is not None:
        rule = f"be one for each image, {len(examples)}"
        require(len(patients) == len(examples), "patients", rule, len(patients), "name each")
        patients = tuple(map(str, patients))
        number = len(set(patients))
        if number == len(examples):
            patients = None
        elif number < _LEAST_GROUPS:
            why = f"{number}: networks are tested on other patients than they are trained with"
            rule = f"be of {_LEAST_GROUPS} patients or more"
            if_other = "add patients; if every image is of another one, say "
            remedy = Message(if_other, Argument("patients", "image"))
            raise invalid("images", rule, number, remedy, got=why)
    # In an order of their own, so that the same images in any order give the same curve.
    order = sorted(range(len(examples)), key=lambda index: examples[index].numpy().tobytes())
    examples = examples[order]
    patients = None if patients is None else tuple(patients[index] for index in order)
    total, groups = len(examples), None
    if patients is None and (groups := copies(_pictures(examples).numpy())) is not None:
        # One of each group; to train with the others as they are gives far larger errors than
        # altered copies do.
        firsts = np.unique(groups, return_index=True)[1]
        examples = torch.cat([examples[np.sort(firsts)], examples[len(groups) :]])
        if len(examples) < LEAST_EXAMPLES:
            rule = f"be {LEAST_EXAMPLES} or more that are no near-copies of each other"
            got = f"{len(examples)} among {total:,}"
            raise invalid("images", rule, examples, Message("add others, or ", ellipses), got=got)
    number = len(examples if patients is None else set(patients))
    alter, how = _alteration(examples, augment)
    source = ExampleSource(examples, patients, alter, min(folds, number))
    return source, total - len(examples), how


def _alteration(images: Tensor, augment: Alteration | None) -> tuple[Alteration | None, str]:
    """How copies of images are altered, as the user asks or the examples support; in words."""
    if augment is not None:
        remedy = "write def augment(images, generator), which returns altered copies"
        require(callable(augment), "augment", "be a function", augment, remedy)
        return augment, f"altered copies ({getattr(augment, '__name__', 'your own')})"
    kinds, _ = evidence(images)
    if not kinds:
        return None, "plain copies"
    names = f"altered copies ({', '.join(kinds)})"
    return lambda copies, generator: altered(copies, generator, kinds), names


def square_side(shape: Sequence[int]) -> int | None:
    """The side of a square image, maybe with an axis of one channel; None for other shapes."""
    rows = tuple(shape[1:]) if len(shape) == 3 and shape[0] == 1 else tuple(shape)
    return rows[0] if len(rows) == 2 and rows[0] == rows[1] else None


def _pictures(images: Tensor) -> Tensor:
    """Images (count, ...) without channels: their root sum of squares."""
    if channel_axis(images.shape[1:]) is None:
        return images
    images = channels_first(images)
    return images[:, 0] if images.shape[1] == 1 else images.square().sum(1).sqrt()


def _as_images(values: ArrayLike | Tensor) -> Tensor:
    """A user's array in float64 on the CPU; empty if it is not an array of numbers.

    Complex images get a last axis of real and imaginary parts, as operators have it.
    """
    try:
        tensor = torch.as_tensor(values).detach()
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        return tensor.to("cpu", torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return torch.zeros(0)


def _unchanged(argument: str, what: str, returned: object, given: Tensor) -> Tensor:
    """What a user's function returned; raise unless it has the shape that was given."""
    if not isinstance(returned, Tensor) or returned.shape != given.shape:
        rule = f"return {what} {shape_text(tuple(given.shape))}, as it gets"
        got = shape_text(tuple(returned.shape)) if isinstance(returned, Tensor) else None
        raise invalid(argument, rule, returned, "keep number and size", got=got)
    return returned.to(given)


def _pairs(operator: LinearOperator, images: Tensor, noise: Any, seed: int, name: str) -> Pairs:
    """Images behind the operator, with noise."""
    targets = images.to(operator.dtype)
    # In pieces, since a projector's working memory grows with the batch.
    step = max(1, _PIECE // max(math.prod(operator.range), math.prod(operator.domain)))
    with torch.no_grad():
        inputs = torch.cat([operator(batch) for batch in torch.split(targets, step)])
    key = TEST_SEED if name == "test" else seed  # as in a problem
    if callable(noise):
        # On the CPU, as its generator: the same noise on any device.
        draws = torch.Generator().manual_seed(torch_seed(key, f"{name} noise"))
        try:
            noisy = noise(inputs.cpu(), draws)
        except RuntimeError as error:
            says = f"failed: {error}; it gets inputs and a generator on the CPU"
            raise KoriskError(Argument("noise", ...), f" {says}") from error
        inputs = _unchanged("noise", "inputs", noisy, inputs)
    elif noise is not None:
        geometry = getattr(operator, "geometry", None)
        width = float(operator.domain[-1]) if geometry is None else geometry.image_size[-1]
        kind = noise if isinstance(noise, Gaussian | Poisson) else Gaussian(noise)
        inputs = add_noise(inputs, kind, width=width, seed=key, stream=f"{name} noise")
    return Pairs(inputs, targets)
