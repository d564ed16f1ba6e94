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
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from korisk import _checks
from korisk._checks import require
from korisk._memory import check_memory
from korisk._show import Drawn
from korisk.curves.curve import Curve
from korisk.curves.noise import relative_variance
from korisk.errors import Argument, Message, invalid
from korisk.fitting.gradient.many import Member, train_many
from korisk.operators.linear import LinearOperator
from korisk.planning.chances import Chances
from korisk.planning.explain import chance, value
from korisk.planning.fit import check_target
from korisk.planning.forecast import Forecast, forecast
from korisk.planning.futures.posterior import posterior
from korisk.planning.futures.related import Kinship, Relatives, relatives
from korisk.planning.plan import Plan, plan_from
from korisk.planning.protocol import Answers, Expectation
from korisk.prediction.independent import relative_error
from korisk.prediction.misfit import Belief, LogErrors
from korisk.prediction.prediction import FARTHEST_N, PredictedPlan, Prediction, size_words
from korisk.prediction.simulation import FOLDS, Noisy, Training, simulation_of, torch_seed
from korisk.problems.noise import Noise
from korisk.problems.problem import Pairs, Problem
from korisk.seeds import checked_seeds

Array = NDArray[np.float64]
Progress = Callable[[str, float], None]

SIZES = tuple(2**k for k in range(4, 12))
_LEAST_SIZES = 3  # of a curve that can be predicted with
_ONE_SEED = 0.05  # relative deviation of a mean of one seed
# Chosen with benchmarks/prediction/rehearse.py, on ellipses, blobs and digits.
COPIES = 0.06  # of an error, by which a training set of altered copies alone makes it larger
BELIEF = Belief(
    shapes=((0.05, 0.3), (0.15, 0.45), (0.4, 0.25)),
    lengths=((3.0, 0.5), (12.0, 0.5)),
    offsets=((0.02, 0.6), (0.1, 0.3), (0.4, 0.1)),
    unseen=0.0,
)
# Of a pilot: the same network with the same recipe on copies of the same images is close kin.
KINSHIP = Kinship(
    believed=0.8,
    least_odds=-math.inf,
    stretch=0.1,
    walks=(0.01, 0.03, 0.08),
    walk_weights=(0.3, 0.4, 0.3),
    floor_weights=(0.94, 0.05, 0.01),
)
# Ellipses give the shape; their level may be another.
UNLIKE = Belief(
    shapes=((0.1, 0.5), (0.3, 0.5)),
    lengths=((3.0, 0.5), (12.0, 0.5)),
    offsets=((0.4, 0.4), (1.2, 0.6)),
    unseen=0.0,
)


def rehearse(
    build: Callable[[], nn.Module],
    operator: LinearOperator | Problem,
    images: ArrayLike | Tensor | None = None,
    noise: Noise | Noisy | float | None = None,
    sizes: Iterable[int] = SIZES,
    seeds: int | Iterable[int] = 3,
    *,
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
    sizes : iterable of int, default 16, 32, ..., 2048
        Numbers of training pairs, ascending, three at least.
    seeds : int or iterable of int, default 3
        How many networks for each size (0, 1, ...), or the seeds of their images, noise, batches
        and initial weights.
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
        training=recipe,
        seed=numbers[0],
        folds=max(FOLDS, often),
        largest=asked[-1],
    )
    judges = {group for number in numbers for group in simulation.groups(number)}
    got, raised = f"{often}: one alone would judge", Message("raise ", Argument("seeds", ...))
    rule = "be 2 or more for so few patients"
    require(len(judges) >= 2, "seeds", rule, often, raised, got=got)
    pool: list[Pairs] = []
    members: list[Member] = []
    place = 0
    for number in numbers:
        parts = simulation.pools(number)
        if not pool:  # what all seeds take, once more when they are put together
            taken = sum(each.numel() * each.element_size() for part in parts for each in part)
            what = f"a rehearsal of {often} seeds"
            smaller = Message("ask for smaller ", Argument("sizes", ...))
            check_memory(2 * often * taken, parts[0].inputs.device, what, smaller)
        rows = []
        for part in parts:
            rows.append(torch.arange(place, place + len(part.inputs), device=part.inputs.device))
            place += len(part.inputs)
            pool.append(part)
        for n in asked:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(torch_seed(number, "rehearsal weights"))
                network = built(build).to(rows[0].device)
            batches = torch_seed(number, f"rehearsal batches {n}")
            what = f"{name} at N = {n:,}, seed {number}"
            members.append(Member(what, network, batches, rows[0][:n], rows[1], rows[2]))
    weights = [p for p in members[0].module.parameters() if p.requires_grad]
    inputs, targets = (
        torch.cat(each).to(weights[0] if weights else torch.float32)
        for each in zip(*pool, strict=True)
    )
    order = sorted(range(len(members)), key=lambda at: (at % len(asked), at))  # small N first
    notes = list(simulation.notes)
    found: dict[int, Tensor] = {}
    trainings = train_many(
        [members[at] for at in order],
        inputs,
        targets,
        recipe,
        fit=recipe.fit,
        notes=notes,
        progress=lambda share: watch(f"training {len(members)} networks", share),
    )
    try:
        for index, errors in trainings:
            found[order[index]] = errors
    except KeyboardInterrupt:
        trainings.close()
        finished = {asked[at % len(asked)] for at in found}
        if len(finished) < _LEAST_SIZES:
            raise
        notes.append(
            f"Interrupted: {len(found)} of {len(members)} trainings had finished, up to "
            f"N = {max(finished):,}."
        )
    cells = [
        (asked[at % len(asked)], numbers[at // len(asked)], found[at])
        for at in sorted(found, key=lambda at: (at % len(asked), at))
    ]
    curve = Curve(
        [n for n, _, _ in cells],
        [float(errors.mean()) for _, _, errors in cells],
        [str(seed) for _, seed, _ in cells],
        name,
        "mse",
    )
    tested = torch.cat([member.test for member in members[:: len(asked)]])
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
    judged = [(errors, simulation.groups(seed)) for n, seed, errors in cells if n == last]
    labels = [label for _, groups in judged for label in groups]
    return Rehearsal(
        curve=curve,
        simulated=f"{simulation.words}; {len(cells)} networks of {count:,} weights, trained {how}",
        unaltered=simulation.unaltered,
        level=relative_error(
            torch.cat([errors for errors, _ in judged]).numpy(),
            np.unique(labels, return_inverse=True)[1].astype(np.int64),
        ),
        parameters=count,
        belief=BELIEF if simulation.alike else UNLIKE,
        notes=tuple(notes),
        seconds=time.monotonic() - start,
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


@dataclass(frozen=True, eq=False)
class _Simulated:
    """The simulated curve in the place of a theory."""

    simulated: ClassVar[bool] = True  # as no theory is
    curve: Curve
    parameters: int | None

    @property
    def floor(self) -> float:
        """Where curves that were fitted to it level off."""
        return posterior(self.curve).floor_quantile(0.5)

    def errors(self, n: ArrayLike) -> Array:
        """(M,) the simulated error at each N: straight between sizes, extrapolated beyond them."""
        sizes, made = np.asarray(n, float), posterior(self.curve)
        ends = np.clip(sizes, self.curve.sizes[0], self.curve.sizes[-1])
        inside = np.interp(np.log(ends), np.log(self.curve.sizes), np.log(self.curve.means))
        return np.asarray(np.exp(inside + made.centre(sizes) - made.centre(ends)))

    def effective(self, n: float) -> float:
        """Not known: a rehearsal measures errors alone."""
        return math.nan


@dataclass(frozen=True, eq=False)
class RehearsedForecast(Forecast):
    """A pilot's extrapolation by the curve of a rehearsal, which is closer than other relatives."""

    @cached_property
    def relatives(self) -> Relatives:
        """What the rehearsal says beyond the pilot."""
        return relatives(self.curve, self.related, KINSHIP)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rehearsal(Drawn, Answers):
    """The curve of a network on simulated pairs, and what it says of real ones. By `rehearse`.

    Parameters
    ----------
    curve : Curve
        Mean squared errors on simulated pairs, of every size and seed.
    simulated : str
        What was simulated, in words.
    unaltered : int
        The largest N whose training images are all examples as they are; 0 without examples.
    level : float
        Relative standard error of the errors for the few images that judge.
    parameters : int
        Weights that are trained.
    belief : Belief
        Prior of how far reality is from the simulation.
    notes : tuple of str
        Sentences on how the rehearsal went.
    seconds : float
        How long it took.

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
    >>> print(made.explain())
    Simulated: inputs of ... Measured: nothing. Net has an expected error of ...
    """

    curve: Curve
    simulated: str
    unaltered: int
    level: float
    parameters: int
    belief: Belief
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @cached_property
    def adjusted(self) -> Curve:
        """The curve less what the share of altered copies in each training set costs."""
        share = np.maximum(1 - self.unaltered / self.curve.n, 0.0) if self.unaltered else 0.0
        errors = self.curve.error * np.exp(-COPIES * share)
        return Curve(self.curve.n, errors, self.curve.seed, self.curve.model, "mse")

    def predict(self) -> Prediction:
        """The expected errors of real images, of which nothing was measured.

        Returns
        -------
        Prediction
            Its `errors`, `band` and `samples` are about real images.
        """
        sizes, kept = self.adjusted.sizes, self.adjusted.sizes <= self.unaltered
        variance = relative_variance(self.adjusted)
        noise = np.full(len(sizes), _ONE_SEED**2) if variance is None else variance
        logs = np.log(self.adjusted.means)
        return Prediction(
            _Simulated(self.adjusted, self.parameters),
            model=self.curve.model,
            examples=int(sizes[-1]),
            level=self.level,
            rehearsal=LogErrors(sizes[kept].astype(float), logs[kept], noise[kept]),
            notes=self.notes,
            valid_from=float(sizes[0]),
            valid_to=float(sizes[-1]),
            belief=self.belief,
        )

    def forecast(self, pilot: Curve) -> Forecast:
        """Extrapolate a small real pilot, with the rehearsal as its related curve.

        Parameters
        ----------
        pilot : Curve
            Mean squared errors of the same network that were measured on real pairs, at three sizes
            or more.

        Returns
        -------
        Forecast
            As `kr.forecast` returns it; its `relatives.trust` is the weight of the rehearsal.

        Raises
        ------
        KoriskError
            If the pilot has fewer sizes, or another unit.
        """
        made = forecast(pilot, related=[self.adjusted])
        if not self.unaltered:  # ellipses are kin like any other
            return made
        return RehearsedForecast(made.curve, made.fit, made.related)

    @overload
    def plan(self, target: float, pilot: None = None) -> PredictedPlan: ...

    @overload
    def plan(self, target: float, pilot: Curve) -> Plan: ...

    def plan(self, target: float, pilot: Curve | None = None) -> PredictedPlan | Plan:
        """The answer for a target: by the rehearsal alone, or with a small real pilot.

        Parameters
        ----------
        target : float
            Mean squared error to reach.
        pilot : Curve, optional
            As for `forecast`.

        Returns
        -------
        PredictedPlan or Plan
            The latter with a pilot, as `kr.plan` returns it. No N is below the smallest that was
            rehearsed.

        Raises
        ------
        KoriskError
            If the pilot has too few sizes, or the target is no error.
        """
        if pilot is not None:
            check_target([pilot], target)
            return plan_from(self.forecast(pilot), target)
        made = self.predict().plan(target)
        beyond = made.chances.n >= self.curve.sizes[0]
        return replace(made, chances=Chances(made.chances.n[beyond], made.chances.p[beyond]))

    def expected_with(self, n: float, pilot: Curve | None = None) -> Expectation:
        """What is expected of real images at one N, with a small real pilot or without.

        Parameters
        ----------
        n : int
            Training samples.
        pilot : Curve, optional
            Errors that were measured on real images.

        Returns
        -------
        Expectation
            The error with its 90% band.
        """
        if pilot is not None:
            return self.forecast(pilot).expected(n)
        remedy = "rehearse smaller sizes, or give a pilot"
        least = int(self.curve.sizes[0])
        size = _checks.count("n", n, at_least=least, at_most=FARTHEST_N, remedy=remedy)
        return self.predict().expected(size)

    def expected(self, n: float) -> Expectation:
        """What is expected of real images at one N, by the rehearsal alone."""
        return self.expected_with(n)

    def explain(self, target: float | None = None, pilot: Curve | None = None) -> str:
        """What was simulated, what was measured, and the answer.

        Parameters
        ----------
        target : float, optional
            Mean squared error to reach; without it, the error at the largest simulated N is stated.
        pilot : Curve, optional
            As for `forecast`.

        Returns
        -------
        str
            Sentences on one line.
        """
        last = int(self.curve.sizes[-1])
        said = [f"Simulated: {self.simulated}."]
        if pilot is None:
            said.append("Measured: nothing.")
        else:
            made = self.forecast(pilot)
            assert made.relatives is not None
            said.append(
                f"Measured: a pilot at N = {pilot.sizes[0]:,} to {pilot.sizes[-1]:,}; the "
                f"rehearsal explains it with a trust of {chance(made.relatives.trust)}."
            )
        if target is None:
            then = self.expected_with(last, pilot)
            said.append(
                f"{self.curve.model} has an expected error of {value(then.value)} at N = {last:,} "
                f"(90%: {value(then.lower)} to {value(then.upper)})."
            )
        elif pilot is None:
            found = self.plan(target)
            said.append(size_words(self.predict(), target, found))
            if found.samples() == self.curve.sizes[0]:
                said.append("Smaller N were not rehearsed.")
        else:
            said.append(self.plan(target, pilot).explain())
        said.append(
            f"This holds if operator, noise and images are those that were simulated; beyond "
            f"N = {last:,} nothing was simulated."
        )
        return " ".join([*said, *self.notes])
