"""Train several networks of one kind at once, each to its best step on validation pairs.

On a GPU the weights of all members are stacked, and one call computes the loss of every member. On
a CPU each thread trains one member, which is faster than all threads on one member. Networks that
cannot be stacked, or that draw random numbers on a CPU, are trained one after another.
"""

import copy
import math
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from korisk._memory import free_memory
from korisk.errors import Argument, KoriskError, invalid
from korisk.fitting.gradient.recipe import CHECKS, Recipe, draw_batches
from korisk.fitting.gradient.train import (
    EAGER,
    Pool,
    Report,
    Stack,
    Trainer,
    alone,
    evaluating,
    pair_errors,
    stacked,
    state_of,
    trainable,
)
from korisk.operators.inputs import shape_text

_SHARE = 0.6  # of the free memory that members may use together
_REPORTED = 10  # steps between reports
_TIMED = 4  # timed steps, after the warm-up that capturing needs
# Memory of a member in training over that of its weights: these, gradients, Adam's two moments and
# the best step.
_SPACE = 5
_ALIKE = 1e-3  # of the largest output: tolerated difference of stacked and single outputs

# A network, then its training inputs and targets, then its validation inputs and targets.
Fit = Callable[[nn.Module, Tensor, Tensor, Tensor, Tensor], object]


@dataclass(frozen=True, eq=False)
class Member:
    """A network to train, with the rows of the pool for its training, validation and test.

    If it has a method `penalty(inputs)`, its result is added to the mean squared error of every
    batch. All members of a call have equally many validation and equally many test rows.
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
    notes: list[str] | None = None,
    progress: Report | None = None,
) -> Generator[tuple[int, Tensor]]:
    """Train every member; yield the index of each with its test errors when it is done.

    Its module then has the weights of the step that was best on its validation pairs.
    """
    if not members:
        return
    pool, shares = (inputs, targets), [0.0] * len(members)
    # Members report from several threads.
    lock = threading.Lock()

    def report(indices: Sequence[int], share: float) -> None:
        with lock:
            for index in indices:
                shares[index] = share
            if progress is not None:
                progress(sum(shares) / len(shares))

    trial = _trial(members[0], inputs, recipe)
    strategy = _strategy(members, pool, recipe, together)
    if fit is not None:
        for index, member in enumerate(members):
            report([index], 0.0)
            yield index, _fitted(member, pool, fit)
            report([index], 1.0)
        return
    if strategy.reason and notes is not None:
        notes.append(f"The networks were trained one after another: {strategy.reason}.")
    if strategy.stacked:
        for start in range(0, len(members), strategy.stacked):
            group = range(start, min(start + strategy.stacked, len(members)))
            chunk = [members[index] for index in group]
            with _seeded(chunk[0], pool):
                training = _Training(chunk, pool, recipe, _stacked(chunk, trial))
                group_errors = training.run(partial(report, group))
            del training  # before the next group needs its memory
            yield from zip(group, group_errors, strict=True)
        return
    if not inputs.is_cuda:
        with _seeded(members[0], pool):
            _reorder(members, trial)
    stop = threading.Event()

    def trained(index: int) -> Tensor:
        training = _Training([members[index]], pool, recipe)
        return training.run(partial(report, [index]), stop)[0]

    if strategy.workers == 1:
        for index, member in enumerate(members):
            with _seeded(member, pool):
                errors = trained(index)
            yield index, errors
        return
    with _threads(strategy.workers, stop) as threads:
        running = {threads.submit(trained, index): index for index in range(len(members))}
        for future in as_completed(running):
            yield running[future], future.result()


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
    trial, strategy = _trial(members[0], inputs, recipe), _strategy(members, pool, recipe, None)
    at_once = strategy.stacked or min(strategy.workers, len(members))
    short = replace(recipe, steps=EAGER + 1 + _TIMED)
    copies = _copies(members[:at_once])
    pool_bytes = float(sum(tensor.nbytes for tensor in pool))
    with _seeded(copies[0], pool):
        if inputs.is_cuda:
            before = torch.cuda.memory_allocated(device)
            torch.cuda.reset_peak_memory_stats(device)
            group, stack = copies[:1], None
            if strategy.stacked:
                group, stack = copies, _stacked(copies, trial)
            step, check = _Training(group, pool, short, stack).timed()
            memory = pool_bytes + float(torch.cuda.max_memory_allocated(device) - before)
            return Pace(step, check, at_once, memory, "a GPU")
        _reorder(copies, trial)
        activations = _activations(copies[0].module, trial) * recipe.batch / len(trial)
        trainings = [_Training([member], pool, short) for member in copies]
        if strategy.workers == 1:
            times = [trainings[0].timed()]
        else:  # all at once, since they share caches and memory
            with _threads(strategy.workers) as threads:
                times = list(threads.map(_Training.timed, trainings))
    step, check = (sum(seconds) / len(times) for seconds in zip(*times, strict=True))
    weights = sum(tensor.nbytes for tensor in state_of(copies[0].module).values())
    memory = pool_bytes + len(members) * weights + at_once * (_SPACE * weights + 2 * activations)
    cores = torch.get_num_threads()
    return Pace(step, check, at_once, memory, f"{cores} core{'s' * (cores > 1)}")


def _activations(module: nn.Module, trial: Tensor) -> int:
    """Bytes that the forward pass stores for the backward pass."""
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(trial)
    return sum(storages.values())


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

    stacked: int  # how many at once, their weights stacked; 0 where each is by itself
    workers: int  # threads, each with a member
    reason: str  # why members are trained one after another


def _trial(member: Member, inputs: Tensor, recipe: Recipe) -> Tensor:
    """A first batch of inputs, on which networks are tried before training."""
    return inputs[member.rows[: min(recipe.batch, len(member.rows))]]


def _strategy(
    members: Sequence[Member], pool: Pool, recipe: Recipe, together: bool | None
) -> _Strategy:
    """Choose how to train members by trying the first two; raise if the output shape is wrong."""
    first, (inputs, targets) = members[0], pool
    trial, reasons = _trial(first, inputs, recipe), []
    with _seeded(first, pool):
        draws = _draws_after_checks(first.module, trial, targets)
    if (inputs.is_cuda if together is None else together) and len(members) > 1:
        with _seeded(first, pool):
            reason = _why_not_stacked(members, trial)
            at_once = 0 if reason else _at_once(members, pool, recipe, trial)
        if at_once:
            return _Strategy(at_once, 1, "")
        reasons.append(reason)
    if draws and not inputs.is_cuda:
        reasons.append("they draw random numbers, which threads would draw in no fixed order")
    workers = 1 if inputs.is_cuda or draws else torch.get_num_threads()
    return _Strategy(0, workers, "; ".join(reasons))


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
        remedy = "add or remove an axis of channels inside it"
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
    with _seeded(member, pool):
        samples = [tensor[rows] for rows in (member.rows, member.validation) for tensor in pool]
        fit(member.module, *samples)
    rows = member.test[None]
    errors = pair_errors(alone(member.module), pool, rows)[0].cpu()
    if not bool(torch.isfinite(errors).all()):
        raise _not_finite(member.name)
    return errors


def _not_finite(name: str) -> KoriskError:
    lower = f"the loss of {name} must stay finite, and did not; lower "
    return KoriskError(lower, Argument("rate", ...), ", or scale the images to about 1")


def _stacked(members: Sequence[Member], trial: Tensor) -> Stack:
    return stacked([member.module for member in members], trial)


def _copies(members: Sequence[Member]) -> list[Member]:
    return [replace(member, module=copy.deepcopy(member.module)) for member in members]


def _why_not_stacked(members: Sequence[Member], trial: Tensor) -> str:
    """Why members cannot be stacked, by trying the first two; empty if they can."""
    pair, inputs = _copies(members[:2]), trial.expand(2, *trial.shape)
    try:
        stack = _stacked(pair, trial)
        with evaluating(stack.mode), torch.no_grad():
            together = stack.forward(inputs)
            singly = torch.stack([member.module.eval()(trial) for member in pair])
        stack.mode.train()
        output = stack.forward(inputs)
        torch.autograd.grad(output.square().mean(), stack.weights, allow_unused=True)
    except (RuntimeError, ValueError, TypeError, NotImplementedError, AttributeError) as error:
        return f"stacked weights failed ({(str(error).splitlines() or [''])[0][:120]})"
    # vmap may run, yet compute something else, where a module reads its own state.
    if float((together - singly).abs().max()) > _ALIKE * float(singly.abs().max()):
        return "with stacked weights they gave other outputs"
    return ""


def _at_once(members: Sequence[Member], pool: Pool, recipe: Recipe, trial: Tensor) -> int:
    """How many stacked members fit into the memory of the device, extrapolated from two."""
    device = pool[0].device
    if device.type != "cuda":
        return len(members)
    pair = _copies(members[:2])
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    training = _Training(pair, pool, recipe, _stacked(pair, trial))
    # One step and one evaluation: either may be the peak of memory.
    training.step()
    training.evaluate()
    bytes_per_member = (torch.cuda.max_memory_allocated(device) - before) / len(pair)
    del training
    torch.cuda.empty_cache()
    return max(1, min(len(members), int(_SHARE * free_memory(device) / bytes_per_member)))


class _Training(Trainer):
    """Members in training, and the best step of each so far."""

    def __init__(
        self, members: Sequence[Member], pool: Pool, recipe: Recipe, stack: Stack | None = None
    ) -> None:
        batches = []
        for member in members:
            draws = torch.Generator().manual_seed(member.seed)
            drawn = draw_batches(len(member.rows), recipe.batch, recipe.steps, draws)
            # A training set below the batch size is repeated, so that all members' batches stack.
            columns = torch.arange(recipe.batch) % drawn.shape[1]
            batches.append(member.rows.cpu()[drawn][:, columns])
        stack = alone(members[0].module) if stack is None else stack
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

        self.advance(EAGER + 1)
        start = clock()
        self.advance(_TIMED)
        after_steps = clock()
        self.evaluate()
        return (after_steps - start) / _TIMED, clock() - after_steps

    def run(self, report: Report, stop: threading.Event | None = None) -> list[Tensor]:
        """Train to the end; return each member's test errors at its best validation step."""
        steps, validation_pairs = len(self.batches), len(self.members[0].validation)
        best, done = torch.full((len(self.members),), math.inf), 0  # validation error, steps
        test_errors = torch.zeros(())  # (members, T) after the first check
        best_check = torch.zeros(len(self.members))
        for check in range(1, CHECKS + 1):
            until = steps * check // CHECKS
            while done < until:
                if stop is not None and stop.is_set():
                    raise CancelledError
                count = min(_REPORTED, until - done)
                self.advance(count)
                done += count
                report(done / steps)
            errors = self.evaluate().cpu()
            validation = errors[:, :validation_pairs].mean(1)
            for member, value in zip(self.members, validation.tolist(), strict=True):
                if not math.isfinite(value):
                    raise _not_finite(member.name)
            better = (validation < best)[:, None]
            # The first check improves on infinity for all members, so no test error stays at zero.
            test_errors = torch.where(better, errors[:, validation_pairs:], test_errors)
            best = torch.minimum(best, validation)
            best_check[better[:, 0]] = check
            for name, current in self.stack.state.items():
                improved = better[:, 0].to(current.device).view(-1, *[1] * (current.ndim - 1))
                self.best[name] = torch.where(improved, current, self.best[name])
            if bool((check - best_check >= self.patience).all()):
                report(1.0)
                break
        for index, member in enumerate(self.members):
            state = state_of(member.module)
            for name, best_values in self.best.items():
                # Unchanged buffers are not written: other networks may share an operator's.
                if not torch.equal(state[name], best_values[index]):
                    state[name].copy_(best_values[index])
        return list(test_errors)
