"""Train a network as it is and with a known layer replaced, and compare the samples they need."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from korisk import _checks
from korisk._checks import require
from korisk._show import Reported
from korisk.ablation.replacing import By, Replacement, Start, replaced
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, KoriskWarning, shown
from korisk.networks.describe.describe import describe
from korisk.operators.linear import LinearOperator
from korisk.planning.compare import Comparison, mean_at
from korisk.planning.forecast import check_target
from korisk.planning.plan import Plan, sample_cells, sample_heads
from korisk.planning.words import FULL, times, value
from korisk.prediction.rehearsal.callbacks import Callbacks
from korisk.prediction.rehearsal.rehearsal import Rehearsal
from korisk.prediction.rehearsal.rehearse import SIZES, rehearse
from korisk.prediction.rehearsal.simulation import Noisy, Training
from korisk.prediction.rehearsal.trainings import built
from korisk.problems.noise import Noise
from korisk.problems.problem import Problem
from korisk.seeds import checked_seeds
from korisk.texts import Table, number, whole
from korisk.theory import barron_bound

_REMEDY = "use korisk.operators"
ABOVE = 1.05  # default target: this factor times the worse network's best error, so both reach it


def ablate(
    build: Callable[[], nn.Module],
    operator: LinearOperator | Problem,
    images: ArrayLike | Tensor | None = None,
    noise: Noise | Noisy | float | None = None,
    *,
    replace: str | Replacement = "A^T",
    target: float | None = None,
    sizes: Iterable[int] = SIZES,
    seeds: int | Iterable[int] = 3,
    metric: str = "mse",
    data_range: float | None = None,
    patients: Sequence[str] | None = None,
    training: Training | None = None,
    bound: bool = True,
    folder: str | Path | None = None,
    callbacks: Callbacks | None = None,
) -> Ablation:
    """Measure what a known operator in a network saves, in samples.

    The network is trained as it is and with the known layer replaced, over the same sizes and
    seeds, on the same images and noise, with the same batches; layers that both have start with the
    same weights.

    Parameters
    ----------
    build : callable
        `build()` returns a new network: a `torch.nn.Module` from inputs (batch, *range) to images
        (batch, *domain). Its initial weights may be random; they depend on the seed.
    operator : LinearOperator or Problem
        The operator from images to inputs, which simulates pairs. A problem has its own operator,
        noise and images.
    images : array or Tensor of shape (count, *domain), optional
        Example images, 12 at least; a third of them is for tests. Default: random ellipses, or the
        problem's images.
    noise : float, Gaussian, Poisson or callable, optional
        Noise of the inputs, as for `rehearse`. Default: none, or the problem's.
    replace : str or Replacement, default "A^T"
        The known layer and its substitute; a name alone means a learned matrix.
    target : float, optional
        Value of the metric at which numbers of samples are compared. Default: that of an error 5%
        above the best of the worse network, which both reach.
    sizes : iterable of int, default 16, 32, ..., 2048
        Numbers of training pairs, ascending, three at least.
    seeds : int or iterable of int, default 3
        Number of networks for each size (seeds 0, 1, ...), or their seeds.
    metric : {"mse", "rmse", "nmse", "psnr"}, default "mse"
        Of target and answers, see `Rehearsal.in_metric`.
    data_range : float, optional
        Largest minus smallest value that an image can have, for psnr. Default: the images' own.
    patients : sequence of str, optional
        The patient of each image.
    training : Training, optional
        Settings and device of the training, as for `rehearse`.
    bound : bool, default True
        Whether to describe both networks and compare their bounds.
    folder : path, optional
        Folder of finished networks, which are not trained again.
    callbacks : Callbacks, optional
        Functions that are called with the progress, and before with the time that it will take.

    Returns
    -------
    Ablation
        Both curves, the ratio of samples with its interval, and the bounds. After Ctrl-C during
        the training of the second network, the result of the finished trainings, if these are
        enough.

    Raises
    ------
    KoriskError
        If there is no such known layer, it is not used, the network does not fit the operator, or a
        loss is not finite.

    Examples
    --------
    >>> import torch
    >>> import korisk as kr
    >>> from korisk.operators import ParallelBeam, Projector, fbp
    >>> scan = ParallelBeam(8, views=6, bins=12)
    >>> A = Projector(scan)
    >>> ablation = kr.ablate(lambda: torch.nn.Sequential(fbp(scan, trainable=True)), A, noise=0.05,
    ...                      replace="A^T", sizes=[4, 8, 16], seeds=2,
    ...                      training=kr.prediction.Training(steps=10))
    >>> [curve.model for curve in ablation.curves]
    ['known A^T', 'dense A^T']
    >>> ablation.parameters[1] - ablation.parameters[0] == 6 * 12 * 8 * 8
    True
    """
    change = Replacement(layer=replace) if isinstance(replace, str) else replace
    remedy, rule = "pass 'A^T', for example", "name a known layer, or be a Replacement"
    require(isinstance(change, Replacement), "replace", rule, replace, remedy)
    numbers, recipe = checked_seeds(seeds), _checks.options_of("training", training, Training)
    callbacks = _checks.options_of("callbacks", callbacks, Callbacks)
    watch = callbacks.progress or (lambda what, share: None)
    watch("describing", 0.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(numbers[0])
        network = built(build)
        example = example_inputs(operator, network, numbers[0], recipe.device)
        build_replaced = replaced(build, change, example=example)
        torch.manual_seed(numbers[0])
        # Seeded again: layers that both networks have start with the same weights.
        pair = network.to(example.device), build_replaced().to(example.device)
    _check_used(pair, change.layer, example)
    ratio, unknown = None, "it was not asked for"
    if change.by == "wrong":
        unknown = "how far a wrong operator is from the true one is not known to it"
    elif bound:
        ratio, unknown = _bounds(pair, example)
    # The same seeds, images and noise for both networks, so that only the layer differs.
    # Both are trained: an exact fit of one would differ in more than the layer.
    recipe = replace_fields(recipe, exact=False)
    shared: dict[str, Any] = {"patients": patients, "training": recipe, "folder": folder}
    arms: list[Rehearsal] = []

    def progress(what: str, share: float) -> None:
        watch(f"{what} ({name})", (len(arms) + share) / 2)

    def estimate(seconds: float, memory: float) -> None:
        # Asked once, for both networks, before the first is trained.
        if not arms and callbacks.estimate is not None:
            callbacks.estimate(2 * seconds, memory)

    follow = replace_fields(callbacks, progress=progress, estimate=estimate)
    for function, name in ((build, f"known {change.layer}"), (build_replaced, _name_of(change))):
        data = function, operator, images, noise, sizes, numbers
        arm = rehearse(*data, model=name, callbacks=follow, **shared)
        if not arms and any(note.startswith("Interrupted") for note in arm.notes):
            # One network alone cannot be compared.
            raise KeyboardInterrupt
        arms.append(arm.in_metric(metric, data_range))
    first, second = arms
    goal, worse = target, None
    if goal is None:
        goal, worse = default_target(first.curve, second.curve)
    else:
        check_target([first.curve, second.curve], goal)
    return Ablation(
        layer=change.layer,
        by=change.by,
        start=change.start,
        first=first,
        second=second,
        target=goal,
        default=worse,
        bound_ratio=ratio,
        bound_words=unknown,
    )


def _name_of(change: Replacement) -> str:
    """The name of the network with the layer replaced."""
    name = f"{change.by}{' for' * (change.by == 'convolution')} {change.layer}"
    if change.by == "wrong" and not isinstance(change.wrong, nn.Module):
        name = f"{change.layer} {100 * (change.wrong or 0):.3g}% wrong"
    if change.start == "operator":
        name += " from the operator" if change.wrong is None else " from a wrong operator"
    return name


def default_target(first: Curve, second: Curve) -> tuple[float, str]:
    """A target that both curves reach, and the model whose best error defines it."""
    # Above the best error of the worse network both curves cross the target.
    worse = max(first, second, key=lambda curve: float(curve.means.min()))
    # Three digits, since the target is named in sentences.
    return float(f"{worse.unit.from_error(ABOVE * worse.means.min()):.3g}"), worse.model


def example_inputs(
    operator: LinearOperator | Problem,
    network: nn.Module,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """Two inputs of a network, in its precision."""
    if isinstance(operator, Problem):
        inputs = operator.pools(seed=seed, train=2, validation=1, test=1, device=device)[0].inputs
    else:
        rule = "be a LinearOperator or a Problem"
        require(isinstance(operator, LinearOperator), "operator", rule, operator, _REMEDY)
        images = torch.rand(2, *operator.domain, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            inputs = operator(images.to(operator.device, operator.dtype))
    dtypes = (weights.dtype for weights in network.parameters() if weights.requires_grad)
    return inputs.to(next(dtypes, torch.float32))


def _check_used(pair: tuple[nn.Module, nn.Module], name: str, example: Tensor) -> None:
    """Raise if the output of the second network does not depend on the new layer."""
    shared = dict(pair[0].named_parameters())
    added = [weights for key, weights in pair[1].named_parameters() if key not in shared]
    if added:
        total = pair[1](example).sum()
        # Without a gradient no weight, and so not the new layer, reaches the output.
        slopes = torch.autograd.grad(total, added, allow_unused=True) if total.requires_grad else ()
        used = any(slope is not None for slope in slopes)
    else:
        with torch.no_grad():
            # A wrong operator has no weights: it must change the output.
            used = not torch.equal(*(network.eval()(example) for network in pair))
    if not used:
        remedy = "or in another way than as a module; call the module itself in forward"
        raise KoriskError(f"the network does not use its layer {shown(name)}, {remedy}")


def _bounds(pair: tuple[nn.Module, nn.Module], example: Tensor) -> tuple[float | None, str]:
    """The ratio of N / log N by the bounds of both networks, or None and the reason."""
    # The rate log N / N cancels in the ratio, so that any N serves.
    totals = []
    for network in pair:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", KoriskWarning)
                totals.append(float(barron_bound(describe(network, example), 2)))
        except KoriskError as error:
            return None, str(error).partition(";")[0]
    if not all(map(math.isfinite, totals)) or not totals[0]:
        return None, "it is not finite"
    return totals[1] / totals[0], ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ablation(Reported):
    """Curves with a known layer and with its substitute, and their comparison. From `ablate`.

    Parameters
    ----------
    layer : str
        The known layer.
    by : {"dense", "low-rank", "convolution", "wrong"}
        The kind of its substitute.
    start : {"random", "operator"}
        Where the substitute started, if it was learned.
    first, second : Rehearsal
        The network as it is, and with the layer replaced.
    target : float
        Value of the metric at which samples are compared.
    default : str, optional
        The network whose best error gave the target, if none was passed.
    bound_ratio : float, optional
        N / log N of the second over that of the first by the bound, if every learned layer has the
        same kappa; None if the bound is not known.
    bound_words : str
        Why it is not known.

    Examples
    --------
    >>> import torch
    >>> import korisk as kr
    >>> from korisk.operators import ParallelBeam, Projector, fbp
    >>> scan = ParallelBeam(8, views=6, bins=12)
    >>> A = Projector(scan)
    >>> wrong = kr.ablation.Replacement(by="wrong", wrong=0.2)
    >>> ablation = kr.ablate(lambda: torch.nn.Sequential(fbp(scan, trainable=True)), A, noise=0.05,
    ...                      replace=wrong, sizes=[4, 8, 16], seeds=2,
    ...                      training=kr.prediction.Training(steps=10))
    >>> print(ablation.explain())
    On simulated images alone (random ellipses): ...
    """

    layer: str
    by: By
    start: Start
    first: Rehearsal
    second: Rehearsal
    target: float
    default: str | None = None
    bound_ratio: float | None = None
    bound_words: str = ""

    @property
    def curves(self) -> tuple[Curve, Curve]:
        """Errors of both networks, of every size and seed."""
        return self.first.curve, self.second.curve

    @property
    def parameters(self) -> tuple[int, int]:
        """Numbers of trained weights of both networks."""
        return self.first.parameters, self.second.parameters

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on how the trainings went."""
        return tuple(dict.fromkeys([*self.first.notes, *self.second.notes]))

    @property
    def seconds(self) -> float:
        """Time of both rehearsals."""
        return self.first.seconds + self.second.seconds

    @cached_property
    def comparison(self) -> Comparison:
        """What both need on images such as the examples, before anything real is measured."""
        # The target may be in the range of one of the two alone.
        return Comparison(*(Plan(arm.forecast(), self.target) for arm in (self.first, self.second)))

    @property
    def limited(self) -> list[str]:
        """The networks whose error training limits, and not the amount of data."""
        return [arm.curve.model for arm in (self.first, self.second) if arm.undertrained]

    @property
    def bound_sentence(self) -> str:
        """The bounds of both networks in one sentence."""
        weights = "{1:,} weights instead of {0:,} are learned".format(*self.parameters)
        if self.by == "wrong":
            weights = "as many weights are learned"
        if self.bound_ratio is None:
            return f"The bound says nothing here: {self.bound_words}; {weights}."
        ratio = f"The bound has a ratio of N / log N of {times(self.bound_ratio)}"
        return f"{ratio}, if every learned layer has the same kappa; {weights}."

    @property
    def target_sentence(self) -> str:
        """Where a target that was not given comes from; else empty."""
        if self.default is None:
            return ""
        n = int(min(curve.sizes[-1] for curve in self.curves))
        reached = ((c.model, c.unit.from_error(mean_at(c, n)).item()) for c in self.curves)
        ends = " and ".join(f"{model} {value(mean)}" for model, mean in reached)
        return (
            f"No target was given: at N = {n:,} {ends} were reached; "
            f"{value(self.target)} is an error 5% above the best of {self.default}."
        )

    def explain(self) -> str:
        """Explain the saving by the known operator, the crossover and the bounds.

        Returns
        -------
        str
            One line for each.
        """
        images, comparison = self.first.simulated.partition(";")[0], self.comparison
        origin = f"Simulated: {images}; nothing was measured."
        sentences = [comparison.saving(), comparison.steps()[0], f"{comparison.record} {origin}"]
        sentences += [self.target_sentence, comparison.crossing.explanation, self.bound_sentence]
        return "\n".join(filter(None, sentences))

    def to_dict(self) -> dict[str, Any]:
        """The ablation as plain values, for JSON.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        names = ("model", "n", "error", "seed")
        records = [record for curve in self.curves for record in curve.records()]
        rows = [{name: record[name] for name in names} for record in records]
        return {
            "layer": self.layer,
            "by": self.by,
            "start": self.start,
            "metric": self.first.curve.metric,
            "simulated": [self.first.simulated, self.second.simulated],
            "parameters": list(self.parameters),
            "target_from": self.default,
            **self.comparison.to_dict(),
            "bound": {"ratio": self.bound_ratio, "unknown": self.bound_words or None},
            "curves": rows,
            "notes": list(self.notes),
            "explanation": self.explain(),
            "seconds": self.seconds,
        }

    def tables(self) -> Iterator[Table]:
        """Both curves, and the samples for the target, as tables.

        Yields
        ------
        Table
            Errors at the sizes of both; samples for the target.
        """
        # Sizes that both curves have.
        means = (zip(c.sizes.tolist(), c.means.tolist(), strict=True) for c in self.curves)
        (first, second), unit = map(dict, means), self.first.curve.unit
        rows = []
        for n in sorted(first.keys() & second.keys()):
            errors = unit.from_error([first[n], second[n]]).tolist()
            rows.append([whole(n), *(number(x, 3) for x in (*errors, second[n] / first[n]))])
        heads = ["N", *(curve.model for curve in self.curves), "ratio of errors"]
        metric = self.first.curve.metric
        yield Table(f"Simulated {FULL.get(metric, metric)}", heads, rows, "r")
        comparison = self.comparison
        plans = comparison.first, comparison.second
        rows = [
            [name, whole(weights), *sample_cells(plan, (0.9,))]
            for name, plan, weights in zip(comparison.names, plans, self.parameters, strict=True)
        ]
        heads = ["network", "weights", *sample_heads((0.9,))]
        yield Table(f"Samples for {number(comparison.target)}", heads, rows)
