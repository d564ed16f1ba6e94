"""Training by gradients: `train` for one network, `train_many` for several of one kind.

`train_many` takes each to its best step on validation pairs. On a GPU the weights of all members
are stacked, one call computes the loss of every member, and a step is captured once and replayed.
On a CPU each thread trains one member, or a stack of small ones, which is faster than all threads
on one member. Networks that cannot be stacked on a GPU, or that draw random numbers on a CPU, are
trained one after another.
"""

import copy
import math
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk._memory import free_memory
from korisk.errors import Argument, KoriskError, invalid
from korisk.fitting.gradient.convolutions import SLOW
from korisk.fitting.gradient.recipe import CHECKS, Recipe, draw_batches
from korisk.fitting.gradient.stack import (
    Pool,
    Stack,
    alone,
    evaluating,
    pair_errors,
    runs_of,
    stacked,
    state_of,
    trainable,
)
from korisk.fitting.ridge.choice import require_pairs
from korisk.networks import DenseNet, KnownOperatorNet
from korisk.operators.inputs import shape_text

_ADAM_BETAS = 0.9, 0.999
_ADAM_EPSILON = 1e-8
_ADAGRAD_EPSILON = 1e-10
_EAGER = 3  # steps before a CUDA graph is captured, in which libraries initialise themselves
_EVERY = 500  # steps of `train` between reports and checks of its losses
_REPORTED = 10  # steps of `train_many` between reports
_SHARE = 0.6  # of the free memory that members may use together
_TIMED = 4  # timed steps, after the warm-up that capturing needs
# Memory of a member in training over that of its weights: these, gradients, Adam's two moments and
# the best step.
_SPACE = 5
# Bytes of weights and activations up to which networks are stacked on a CPU, too: calls take most
# of their time, and one serves all. Beyond twice of it, oneDNN is faster on one network at a time.
_SMALL = 2**17
_ALIKE = 1e-3  # of the largest output: tolerated difference of stacked and single outputs

Report = Callable[[float], None]  # called with the share of the training that is done
# A network, then its training inputs and targets, then its validation inputs and targets.
Fit = Callable[[nn.Module, Tensor, Tensor, Tensor, Tensor], object]


class Optimiser:
    """PyTorch's Adam, Adagrad and SGD on lists of tensors, with all their memory in `state`."""

    def __init__(self, parameters: Sequence[Tensor], recipe: Recipe) -> None:
        self.parameters, self.recipe = list(parameters), recipe
        memories = {"adam": 2, "adagrad": 1, "sgd": 0}[recipe.optimiser]
        self.state = [[torch.zeros_like(p) for p in parameters] for _ in range(memories)]
        steps = torch.arange(1, recipe.steps + 1, dtype=torch.float64)
        first, second = _ADAM_BETAS
        # Adam's bias correction at each step, for running means that start at zero.
        self.rates = (recipe.rate / (1 - first**steps)).to(self.parameters[0])
        self.roots = (1 - second**steps).sqrt().to(self.parameters[0])
        if recipe.cosine:
            # Scaled once, so that a step needs no decision of the host, as a CUDA graph requires.
            phase = torch.arange(recipe.steps) * (torch.pi / recipe.steps)
            self.rates *= (0.5 * (1 + torch.cos(phase))).to(self.rates)

    def step(self, gradients: tuple[Tensor, ...], step: Tensor) -> None:
        """Move the parameters in place by the gradients; `step`, (1,), counts from 0."""
        if self.recipe.optimiser == "adam":
            # Lists in one call: small weights would wait for the calls.
            mean, square = self.state
            first, second = _ADAM_BETAS
            torch._foreach_lerp_(mean, gradients, 1 - first)
            torch._foreach_mul_(square, second)
            torch._foreach_addcmul_(square, gradients, gradients, value=1 - second)
            scale = torch._foreach_sqrt(square)
            torch._foreach_div_(scale, self.roots[step][0])
            torch._foreach_add_(scale, _ADAM_EPSILON)
            moves = torch._foreach_div(mean, scale)
            torch._foreach_mul_(moves, self.rates[step][0])
            torch._foreach_sub_(self.parameters, moves)
            return
        for weight, gradient, *memory in zip(self.parameters, gradients, *self.state, strict=True):
            if self.recipe.optimiser == "adagrad":
                (total,) = memory
                total.addcmul_(gradient, gradient)
                root = total.sqrt().add_(_ADAGRAD_EPSILON)
                weight.addcdiv_(gradient, root, value=-self.recipe.rate)
            else:
                weight.add_(gradient, alpha=-self.recipe.rate)


class Training:
    """A stack in training on batches of a pool; `losses` and `iteration` are on the device.

    `batches` are rows of the pool, (steps, members, batch).
    """

    def __init__(
        self, stack: Stack, pool: Pool, batches: Tensor, recipe: Recipe, *, captures: bool = True
    ) -> None:
        self.stack, self.pool, self.batches = stack, pool, batches.to(pool[0].device)
        self.optimiser = Optimiser([weights.detach() for weights in stack.weights], recipe)
        self.losses = pool[0].new_zeros(batches.shape[:2])
        self.iteration = torch.zeros(1, dtype=torch.int64, device=pool[0].device)
        self.until_capture = _EAGER if pool[0].is_cuda and captures else -1
        self.graph: torch.cuda.CUDAGraph | None = None

    def step(self) -> None:
        """Take one step."""
        rows = self.batches.index_select(0, self.iteration)[0]
        losses, gradients = self.stack.gradients(self.pool[0][rows], self.pool[1][rows])
        self.losses.index_copy_(0, self.iteration, losses[None])
        with torch.no_grad():
            self.optimiser.step(gradients, self.iteration)
        self.iteration.add_(1)

    def advance(self, steps: int) -> None:
        """Take so many steps; on CUDA, all but the first few replay a captured one."""
        with torch.cuda.device_of(self.batches):  # type: ignore[no-untyped-call]
            for _ in range(steps):
                if self.until_capture == 0:
                    self.graph = captured(self.step)
                if self.until_capture > 0:
                    with side_stream():
                        self.step()
                elif self.graph is None:
                    self.step()
                else:
                    self.graph.replay()
                self.until_capture -= 1

    def pauses(self, at: Iterable[int], every: int) -> Iterator[int]:
        """Train to the end; pause after every so many steps, and after those of `at`."""
        done, steps = 0, len(self.batches)
        for pause in sorted({*range(every, steps, every), *at, steps} - {0}):
            self.advance(pause - done)
            done = pause
            yield done


def captured(step: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
    """A step as a CUDA graph; None if it cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    with suppress(RuntimeError):
        with torch.cuda.graph(graph):
            step()
        return graph
    return None


@contextmanager
def side_stream() -> Iterator[None]:
    """A stream beside the current one, which PyTorch asks for in the steps before a capture."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


def train(
    network: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    recipe: Recipe,
    *,
    indices: Tensor | None = None,
    generator: torch.Generator | None = None,
    progress: Report | None = None,
) -> Tensor:
    """Fit a network in place to the mean squared error over mini-batches.

    Parameters
    ----------
    network : nn.Module
        The network. If it is a `KnownOperatorNet` with runs, they are an axis of its weights,
        and its loss is the sum of the losses of the runs: each run evolves as it would alone.
    inputs : Tensor of shape (samples, *domain)
        Training inputs, in the precision and on the device of the weights.
    targets : Tensor of shape (samples, *range)
        Training targets.
    recipe : Recipe
        Optimiser, rate, steps and batch size.
    indices : Tensor of shape (steps[, runs], batch), optional
        The samples of each batch; a network with runs takes one column for each of them.
    generator : torch.Generator, optional
        Draws the batches, if there are no `indices`.
    progress : callable, optional
        Called with the share of the training that is done.

    Returns
    -------
    Tensor of shape (steps,) or (steps, runs)
        The loss of every mini-batch.

    Raises
    ------
    KoriskError
        If shapes do not fit together, or the loss is not finite.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import Recipe, train
    >>> from korisk.networks import DenseNet
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> net, draws = DenseNet(3, 3, relu=False), torch.Generator().manual_seed(1)
    >>> recipe = Recipe(optimiser="sgd", rate=0.2, steps=300, batch=8)
    >>> _ = train(net, x, 2 * x, recipe, generator=draws)
    >>> net.matrix().detach().diagonal().round(decimals=2).tolist()
    [2.0, 2.0, 2.0]
    """
    if (indices is None) == (generator is None):
        raise KoriskError("pass either indices= or generator=, which batches are drawn from")
    _check_pool(network, inputs, targets)
    if generator is not None:
        indices = draw_batches(len(inputs), recipe.batch, recipe.steps, generator)
    runs = runs_of(network)
    leading = (recipe.steps,) if runs is None else (recipe.steps, runs)
    if (
        not isinstance(indices, Tensor)
        or indices.dtype != torch.int64
        or indices.shape[:-1] != leading
        or not 1 <= indices.shape[-1] <= recipe.batch
        or not 0 <= int(indices.min()) <= int(indices.max()) < len(inputs)
    ):
        shape, last = shape_text((*leading, recipe.batch)), len(inputs) - 1
        rule = f"be torch.int64 of shape {shape}, or fewer in the last axis, from 0 to {last}"
        raise invalid("indices", rule, indices, "use draw_batches")
    batches = indices.reshape(recipe.steps, -1, indices.shape[-1])
    # Other networks may branch on the host, and a replayed graph would not.
    fixed = type(network) in (KnownOperatorNet, DenseNet)
    pool = inputs.detach(), targets.detach()
    training = Training(alone(network), pool, batches, recipe, captures=fixed)
    for done in training.pauses((), _EVERY):
        _require_finite(training, done, recipe)
        if progress is not None:
            progress(done / recipe.steps)
    losses = training.losses.cpu()
    return losses[:, 0] if runs is None else losses


def _require_finite(training: Training, done: int, recipe: Recipe) -> None:
    """Raise if a loss since the last pause, or a weight, is not finite."""
    first = max(0, done - _EVERY)
    diverged = (~torch.isfinite(training.losses[first:done])).any(1).nonzero()
    if not len(diverged) and all(bool(torch.isfinite(w).all()) for w in training.stack.weights):
        return
    step = first + int(diverged[0]) + 1 if len(diverged) else done
    where = f"step {step:,} of {recipe.steps:,}"
    remedy = f"lower the rate, now {recipe.rate:g}"
    raise KoriskError(f"training diverged: loss or weights are not finite at {where}; {remedy}")


def _check_pool(network: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    """Raise unless inputs and targets fit the network."""
    weight = next(iter(trainable(network).values()), None)
    if weight is None:
        kind = type(network).__name__
        raise KoriskError(f"{kind} has no weights to train; unfreeze some with requires_grad_()")
    for field, values in (("inputs", inputs), ("targets", targets)):
        if (values.dtype, values.device) != (weight.dtype, weight.device):
            rule = f"be {weight.dtype} on {weight.device} as the network is"
            got = f"{values.dtype} on {values.device}"
            raise invalid(field, rule, values, "bring them together with .to(...)", got=got)
    require_pairs(inputs, targets)
    # Without this check, broadcasting would accept targets of another shape than the outputs.
    leading = (runs_of(network) or 1, 1)
    with evaluating(network), torch.no_grad():
        image = alone(network).forward(inputs[:1].expand(*leading, *inputs.shape[1:]))
    shape = shape_text(tuple(image.shape[2:]), batched=True)
    rule = f"have the shape of the network's outputs, {shape}"
    fits = image.shape == (*leading, *targets.shape[1:])
    _checks.require(fits, "targets", rule, targets, got=shape_text(tuple(targets.shape)))


# --- Several networks ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Member:
    """A network to train, with the rows of the pool for its training, validation and test.

    All members of a call have equally many validation and equally many test rows.
    """

    name: str  # for messages
    module: nn.Module
    seed: int  # of its batches, and of random numbers that the network draws
    rows: Tensor  # (n,) training pairs
    validation: Tensor  # (V,)
    test: Tensor  # (T,)


def train_many(
    members: Sequence[Member],
    inputs: Tensor,
    targets: Tensor,
    recipe: Recipe,
    *,
    fit: Fit | None = None,
    together: bool | None = None,
    progress: Report | None = None,
) -> Generator[tuple[int, Tensor]]:
    """Train every member; yield the index of each with its test errors when it is done.

    Its module then has the weights of the step that was best on its validation pairs, or those that
    `fit` leaves.
    """
    if not members:
        return
    pool, shares = (inputs, targets), [0.0] * len(members)
    # Members report from several threads.
    lock, stop = threading.Lock(), threading.Event()

    def report(indices: Sequence[int], share: float) -> None:
        with lock:
            for index in indices:
                shares[index] = share
            if progress is not None:
                progress(sum(shares) / len(shares))

    # The user's function trains one network after another.
    strategy = _strategy(members, pool, recipe, together if fit is None else False)
    stacking = strategy.trial if strategy.at_once > 1 else None
    at_once, workers = (strategy.at_once, strategy.workers) if fit is None else (1, 1)

    def trained(indices: Sequence[int]) -> list[Tensor]:
        group = [members[index] for index in indices]
        if fit is not None:
            return [_fitted(group[0], pool, fit)]
        training = _MemberTraining(group, pool, recipe, stacking)
        return training.run(partial(report, indices), stop)

    if fit is None and stacking is None and not inputs.is_cuda:
        with _seeded(members[0], pool):
            _reorder(members, strategy.trial)
    indices = range(len(members))
    groups = [indices[start : start + at_once] for start in indices[::at_once]]
    if workers > 1 and len(groups) > 1:
        with _threads(workers, stop) as threads:
            running = {threads.submit(trained, group): group for group in groups}
            for future in as_completed(running):
                yield from zip(running[future], future.result(), strict=True)
        return
    for group in groups:
        report(group, 0.0)
        with _seeded(members[group[0]], pool):
            errors = trained(group)
        yield from zip(group, errors, strict=True)
        report(group, 1.0)


class Pace(NamedTuple):
    """Speed and memory of the training, measured over a few steps."""

    step: float  # seconds, of all members that are trained at once
    check: float  # seconds to evaluate these on their validation and test pairs
    at_once: int  # members that are trained at once
    memory: float  # bytes, with the pool
    device: str  # in words

    def seconds(self, members: int, steps: int) -> float:
        """Training time of so many members."""
        rounds = math.ceil(members / self.at_once)
        return rounds * (steps * self.step + CHECKS * self.check)


def pace(members: Sequence[Member], inputs: Tensor, targets: Tensor, recipe: Recipe) -> Pace:
    """Time a few steps of copies of the first members, as `train_many` would train them."""
    pool, device = (inputs, targets), inputs.device
    strategy = _strategy(members, pool, recipe, None)
    trial, stacking = strategy.trial, strategy.trial if strategy.at_once > 1 else None
    short = replace(recipe, steps=_EAGER + 1 + _TIMED)
    copies = _copies(members[: strategy.at_once * strategy.workers])
    at_once = len(copies)
    pool_bytes = float(sum(tensor.nbytes for tensor in pool))
    with _seeded(copies[0], pool):
        if inputs.is_cuda:
            before = torch.cuda.memory_allocated(device)
            torch.cuda.reset_peak_memory_stats(device)
            step, check = _MemberTraining(copies, pool, short, stacking).timed()
            memory = pool_bytes + float(torch.cuda.max_memory_allocated(device) - before)
            return Pace(step, check, at_once, memory, "a GPU")
        if stacking is None:
            _reorder(copies, trial)
        weights, activations = _bytes(copies[0], trial, recipe)
        groups = [copies[k : k + strategy.at_once] for k in range(0, at_once, strategy.at_once)]
        trainings = [_MemberTraining(group, pool, short, stacking) for group in groups]
        if len(trainings) == 1:
            times = [trainings[0].timed()]
        else:  # all at once, since they share caches and memory
            with _threads(strategy.workers) as threads:
                times = list(threads.map(_MemberTraining.timed, trainings))
    step, check = (sum(seconds) / len(times) for seconds in zip(*times, strict=True))
    memory = pool_bytes + len(members) * weights + at_once * (_SPACE * weights + 2 * activations)
    cores = torch.get_num_threads()
    return Pace(step, check, at_once, memory, f"{cores} core{'s' * (cores > 1)}")


def _bytes(member: Member, trial: Tensor, recipe: Recipe) -> tuple[int, float]:
    """Bytes of weights, and of what a forward pass stores for the backward pass of a batch."""
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    # A copy: in training mode a network may change its state, such as means of batches. Those that
    # take gradients inside, as adjoints by autograd, allow no hooks: of them weights alone count.
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with suppress(RuntimeError), hooks:
        copy.deepcopy(member.module)(trial)
    weights = sum(tensor.nbytes for tensor in state_of(member.module).values())
    return weights, sum(storages.values()) * recipe.batch / len(trial)


@contextmanager
def _threads(workers: int, stop: threading.Event | None = None) -> Iterator[ThreadPoolExecutor]:
    """Threads of one core each; an error or an interruption ends what they do within a step."""
    # For these threads, and for threads that they start.
    threads = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield threads
    finally:
        if stop is not None:
            stop.set()
        threads.shutdown(cancel_futures=True)
        torch.set_num_threads(workers)


# --- How members are trained ---------------------------------------------------------------------


class _Strategy(NamedTuple):
    """The way in which members are trained."""

    trial: Tensor  # a first batch of inputs, on which networks are tried before training
    at_once: int  # how many, their weights stacked; 1 where each is by itself
    workers: int  # threads, each with a member


def _strategy(
    members: Sequence[Member], pool: Pool, recipe: Recipe, together: bool | None
) -> _Strategy:
    """Choose how to train members by trying the first two; raise if the output shape is wrong."""
    first, (inputs, targets) = members[0], pool
    trial = inputs[first.rows[: min(recipe.batch, len(first.rows))]]
    with _seeded(first, pool):
        draws = _draws_after_checks(first.module, trial, targets)
    workers = 1 if inputs.is_cuda or draws else torch.get_num_threads()
    most, always = len(members), inputs.is_cuda if together is None else together
    if not always:
        most = 1 if together is False or draws or SLOW else -(-len(members) // workers)
    with _seeded(first, pool), warnings.catch_warnings():
        if not always:  # by functions that are called for each member all the same
            warnings.filterwarnings("error", "There is a performance drop")
        stacks = most > 1 and (always or sum(_bytes(first, trial, recipe)) <= _SMALL)
        if stacks and _can_be_stacked(members, trial):
            at_once = _at_once(members, pool, recipe, trial) if always else most
            return _Strategy(trial, at_once, workers)
    return _Strategy(trial, 1, workers)


def _draws_after_checks(module: nn.Module, trial: Tensor, targets: Tensor) -> bool:
    """Whether a network draws random numbers in training; raise if its output shape is wrong."""
    probe = copy.deepcopy(module).train()
    if not trainable(probe):
        raise KoriskError("the network must have weights to train, got none; let some require_grad")
    with torch.no_grad():
        # A draw changes the state of the generator.
        before = torch.get_rng_state()
        output = probe(trial)
        draws = not torch.equal(before, torch.get_rng_state())
    shape = (len(trial), *targets.shape[1:])
    if not isinstance(output, Tensor) or tuple(output.shape) != shape:
        tensor = isinstance(output, Tensor)
        got = shape_text(tuple(output.shape)) if tensor else type(output).__name__
        rule = f"turn inputs {shape_text(tuple(trial.shape))} into outputs {shape_text(shape)}"
        count = output.numel() if tensor else 0
        remedy = "add or remove an axis of channels inside it" * (count == math.prod(shape))
        raise invalid("the network", rule, output, remedy, got=got)
    return draws


def _reorder(members: Sequence[Member], trial: Tensor) -> None:
    """Store the weights of convolutions with channels last, which is faster on a CPU."""
    with suppress(RuntimeError):  # from networks that need another order
        first = copy.deepcopy(members[0].module).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        # The backward pass is tried, too: some networks reshape in ways that fail only there.
        weights = list(trainable(first).values())
        torch.autograd.grad(first(trial).square().mean(), weights, allow_unused=True)
        for member in members:
            member.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


@contextmanager
def _seeded(member: Member, pool: Pool) -> Iterator[None]:
    """Seed random numbers and let cuDNN choose the fastest convolutions; restore both at exit."""
    before = torch.backends.cudnn.benchmark
    with torch.random.fork_rng(devices=[pool[0].device] if pool[0].is_cuda else []):
        torch.manual_seed(member.seed)
        torch.backends.cudnn.benchmark = True
        try:
            yield
        finally:
            torch.backends.cudnn.benchmark = before


def _fitted(member: Member, pool: Pool, fit: Fit) -> Tensor:
    """Train a member by the user's function; return its test errors."""
    fit(
        member.module,
        *(tensor[rows] for rows in (member.rows, member.validation) for tensor in pool),
    )
    errors = pair_errors(alone(member.module), pool, member.test[None])[0].cpu()
    if not bool(torch.isfinite(errors).all()):
        raise _not_finite(member.name)
    return errors


def _not_finite(name: str) -> KoriskError:
    lower = f"the loss of {name} must stay finite, and did not; lower "
    return KoriskError(lower, Argument("rate", ...), ", or scale the images to about 1")


def _copies(members: Sequence[Member]) -> list[Member]:
    return [replace(member, module=copy.deepcopy(member.module)) for member in members]


def _can_be_stacked(members: Sequence[Member], trial: Tensor) -> bool:
    """Whether members can be stacked, by trying the first two."""
    pair, inputs = _copies(members[:2]), trial.expand(2, *trial.shape)
    try:
        stack = stacked([member.module for member in pair], trial)
        with evaluating(stack.mode), torch.no_grad():
            together = stack.forward(inputs)
            singly = torch.stack([member.module.eval()(trial) for member in pair])
        stack.mode.train()
        output = stack.forward(inputs)
        torch.autograd.grad(output.square().mean(), stack.weights, allow_unused=True)
    except (RuntimeError, ValueError, TypeError, AttributeError, UserWarning):
        return False
    # vmap may run, yet compute something else, where a module reads its own state.
    return float((together - singly).abs().max()) <= _ALIKE * float(singly.abs().max())


def _at_once(members: Sequence[Member], pool: Pool, recipe: Recipe, trial: Tensor) -> int:
    """How many stacked members fit into the memory of the device, extrapolated from two."""
    device = pool[0].device
    if device.type != "cuda":
        return len(members)
    pair = _copies(members[:2])
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    training = _MemberTraining(pair, pool, recipe, trial)
    # One step and one evaluation: either may be the peak of memory.
    training.step()
    training.evaluate()
    bytes_per_member = (torch.cuda.max_memory_allocated(device) - before) / len(pair)
    del training
    torch.cuda.empty_cache()
    return max(1, min(len(members), int(_SHARE * free_memory(device) / bytes_per_member)))


class _MemberTraining(Training):
    """Members in training, and the best step of each so far; stacked if there is a trial batch."""

    def __init__(
        self, members: Sequence[Member], pool: Pool, recipe: Recipe, trial: Tensor | None = None
    ) -> None:
        batches = []
        for member in members:
            draws = torch.Generator().manual_seed(member.seed)
            drawn = draw_batches(len(member.rows), recipe.batch, recipe.steps, draws)
            # A training set below the batch size is repeated, so that all members' batches stack.
            columns = torch.arange(recipe.batch) % drawn.shape[1]
            batches.append(member.rows.cpu()[drawn][:, columns])
        modules = [member.module for member in members]
        stack = alone(modules[0]) if trial is None else stacked(modules, trial)
        super().__init__(stack, pool, torch.stack(batches, 1), recipe)
        stack.mode.train()
        self.members, self.patience = members, recipe.patience or CHECKS
        self.best = {name: value.clone() for name, value in stack.state.items()}
        # (members, V + T) rows of the pool
        self.evaluated = torch.stack([torch.cat([m.validation, m.test]) for m in members])

    def evaluate(self) -> Tensor:
        """(members, V + T) the error of each validation pair, then of each test pair."""
        return pair_errors(self.stack, self.pool, self.evaluated)

    def timed(self) -> tuple[float, float]:
        """Seconds of a step and of a check, after a warm-up."""

        def clock() -> float:
            if self.iteration.is_cuda:
                torch.cuda.synchronize(self.iteration.device)
            return time.perf_counter()

        self.advance(_EAGER + 1)
        start = clock()
        self.advance(_TIMED)
        after_steps = clock()
        self.evaluate()
        return (after_steps - start) / _TIMED, clock() - after_steps

    def run(self, report: Report, stop: threading.Event) -> list[Tensor]:
        """Train to the end; return each member's test errors at its best validation step."""
        steps, validation_pairs = len(self.batches), len(self.members[0].validation)
        checks = [steps * check // CHECKS for check in range(1, CHECKS + 1)]
        best = torch.full((len(self.members),), math.inf)  # validation errors
        waited = torch.zeros(len(self.members))  # checks since the best one
        test_errors = torch.zeros(())  # (members, T) after the first check
        for done in self.pauses(checks, _REPORTED):
            if stop.is_set():
                raise CancelledError
            report(done / steps)
            if done not in checks:
                continue
            errors = self.evaluate().cpu()
            validation = errors[:, :validation_pairs].mean(1)
            # A member that has waited too long has ended, as it would alone.
            runs = waited < self.patience
            if bool((failed := runs & ~torch.isfinite(validation)).any()):
                raise _not_finite(self.members[int(failed.nonzero()[0])].name)
            better = (validation < best) & runs
            # The first check improves on infinity for all members, so no test error stays at zero.
            test_errors = torch.where(better[:, None], errors[:, validation_pairs:], test_errors)
            best = torch.minimum(best, validation)
            for name, current in self.stack.state.items():
                improved = better.to(current.device).view(-1, *[1] * (current.ndim - 1))
                self.best[name] = torch.where(improved, current, self.best[name])
            waited = torch.where(better, 0, waited + 1)
            if bool((waited >= self.patience).all()):
                report(1.0)
                break
        for index, member in enumerate(self.members):
            state = state_of(member.module)
            for name, best_values in self.best.items():
                # Unchanged buffers are not written: other networks may share an operator's.
                if not torch.equal(state[name], best_values[index]):
                    state[name].copy_(best_values[index])
        return list(test_errors)
