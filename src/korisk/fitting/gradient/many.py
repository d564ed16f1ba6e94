"""Train several networks of one kind at once: Adam with cosine decay, best validation step.

On a GPU the weights of all members are stacked, and one call computes the loss of every member
(torch.func); the gradient of the sum of the losses is each member's gradient. On a CPU each thread
trains one member, which is faster than all threads on one member. Networks that cannot be stacked,
or that draw random numbers on a CPU, are trained one after another.
"""

import copy
import math
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from korisk import _checks
from korisk._memory import free_memory
from korisk.errors import Argument, KoriskError, invalid
from korisk.fitting.gradient.convolutions import SLOW, FastGradients
from korisk.fitting.gradient.recipe import Recipe
from korisk.fitting.gradient.train import Optimiser, Pool, captured
from korisk.operators.inputs import shape_text

CHECKS = 10  # evaluations on validation pairs, evenly spaced over the steps
_CHUNK = 64  # pairs of a member that are evaluated at once
_EAGER = 3  # steps before a CUDA graph is captured, in which libraries initialise themselves
_SHARE = 0.6  # of the free memory that members may use together
_REPORTED = 10  # steps between reports
_TIMED = 4  # timed steps, after the warm-up that capturing needs
# Memory of a member in training over that of its weights: these, gradients, Adam's two moments and
# the best step.
_SPACE = 5
_ALIKE = 1e-3  # of the largest output: tolerated difference of stacked and single outputs

# A network, then its training inputs and targets, then its validation inputs and targets.
Fit = Callable[[nn.Module, Tensor, Tensor, Tensor, Tensor], object]
Forward = Callable[[Tensor], Tensor]  # inputs (members, batch, ...) to outputs of that shape
Tensors = Mapping[str, Tensor]  # by the name of the parameter or buffer
Report = Callable[[float], None]  # called with the share of the training that is done


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Training settings of each member: Adam with cosine decay of the rate to zero."""

    steps: int = 2000
    batch: int = 16
    rate: float = 1e-3
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.patience is not None:
            _checks.count("patience", self.patience, at_least=1, at_most=CHECKS, remedy="try 4")
        _checks.count("steps", self.steps, at_least=CHECKS, at_most=10**9, remedy="try 2000")
        _checks.count("batch", self.batch, at_least=1, at_most=10**6, remedy="try 16")
        _checks.real("rate", self.rate, above=0, remedy="try 0.001")


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
    schedule: Schedule,
    *,
    fit: Fit | None = None,
    together: bool | None = None,
    notes: list[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Generator[tuple[int, Tensor]]:
    """Train every member; yield the index of each with its test errors when it is done.

    Its module then has the weights of the step that was best on its validation pairs.
    """
    if not members:
        return
    pool, messages = (inputs, targets), [] if notes is None else notes
    shares = [0.0] * len(members)
    # Members report from several threads.
    lock = threading.Lock()

    def report(indices: Sequence[int], share: float) -> None:
        with lock:
            for index in indices:
                shares[index] = share
            if progress is not None:
                progress(sum(shares) / len(shares))

    trial = _trial(members[0], inputs, schedule)
    strategy = _strategy(members, pool, schedule, together)
    if fit is not None:
        for index, member in enumerate(members):
            report([index], 0.0)
            yield index, _fitted(member, pool, fit)
            report([index], 1.0)
        return
    messages += [f"The networks were trained one after another: {why}." for why in strategy.reasons]
    if strategy.stacked:
        for start in range(0, len(members), strategy.stacked):
            group = range(start, min(start + strategy.stacked, len(members)))
            chunk = [members[index] for index in group]
            with _seeded(chunk[0], pool):
                training = _Training(chunk, pool, schedule, _stacked(chunk, trial))
                group_errors = training.run(partial(report, group))
            del training  # before the next group needs its memory
            yield from zip(group, group_errors, strict=True)
        return
    workers = strategy.workers
    if not inputs.is_cuda:
        with _seeded(members[0], pool):
            _reorder(members, trial)
    stop = threading.Event()

    def alone(index: int) -> Tensor:
        if workers > 1:
            # For this thread, and for threads that start later.
            torch.set_num_threads(1)
        return _alone(members[index], pool, schedule).run(partial(report, [index]), stop)[0]

    if workers == 1:
        for index, member in enumerate(members):
            with _seeded(member, pool):
                errors = alone(index)
            yield index, errors
        return
    threads = ThreadPoolExecutor(workers)
    try:
        running = {threads.submit(alone, index): index for index in range(len(members))}
        for future in as_completed(running):
            yield running[future], future.result()
    finally:
        stop.set()  # an error or an interruption ends the others within a step
        threads.shutdown(cancel_futures=True)
        torch.set_num_threads(workers)


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


def pace(members: Sequence[Member], inputs: Tensor, targets: Tensor, schedule: Schedule) -> Pace:
    """Time a few steps of copies of the first members, as `train_many` would train them."""
    pool, device = (inputs, targets), inputs.device
    trial, strategy = _trial(members[0], inputs, schedule), _strategy(members, pool, schedule, None)
    at_once = strategy.stacked or min(strategy.workers, len(members))
    short = Schedule(steps=max(CHECKS, _EAGER + 1 + _TIMED), batch=schedule.batch)
    copies = _copies(members[:at_once])
    pool_bytes = float(sum(tensor.numel() * tensor.element_size() for tensor in pool))
    if inputs.is_cuda:
        with _seeded(copies[0], pool):
            before = torch.cuda.memory_allocated(device)
            torch.cuda.reset_peak_memory_stats(device)
            training = (
                _Training(copies, pool, short, _stacked(copies, trial))
                if strategy.stacked
                else _alone(copies[0], pool, short)
            )
            step, check = training.timed()
        memory = pool_bytes + float(torch.cuda.max_memory_allocated(device) - before)
        return Pace(step, check, at_once, memory, "a GPU")
    with _seeded(copies[0], pool):
        _reorder(copies, trial)
        activations = _activations(copies[0].module, trial) * schedule.batch / len(trial)

        def timed(member: Member) -> tuple[float, float]:
            if strategy.workers > 1:
                torch.set_num_threads(1)
            return _alone(member, pool, short).timed()

        if strategy.workers == 1:
            times = [timed(copies[0])]
        else:  # all at once, since they share caches and memory
            try:
                with ThreadPoolExecutor(strategy.workers) as threads:
                    times = list(threads.map(timed, copies))
            finally:
                torch.set_num_threads(strategy.workers)
    step, check = (sum(seconds) / len(times) for seconds in zip(*times, strict=True))
    weights = sum(x.numel() * x.element_size() for x in _state(copies[0].module).values())

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


class _Strategy(NamedTuple):
    """The way in which members are trained."""

    stacked: int  # how many at once, their weights stacked; 0 where each is by itself
    workers: int  # threads, each with a member
    reasons: tuple[str, ...]  # why members are trained one after another


def _trial(member: Member, inputs: Tensor, schedule: Schedule) -> Tensor:
    """A first batch of inputs, on which networks are tried before training."""
    return inputs[member.rows[: min(schedule.batch, len(member.rows))]]


def _strategy(
    members: Sequence[Member], pool: Pool, schedule: Schedule, together: bool | None
) -> _Strategy:
    """Choose how to train members by trying the first two; raise if the output shape is wrong."""
    first, (inputs, targets) = members[0], pool
    trial, reasons = _trial(first, inputs, schedule), []
    with _seeded(first, pool):
        draws = _draws_after_checks(first.module, trial, targets)
    if (inputs.is_cuda if together is None else together) and len(members) > 1:
        with _seeded(first, pool):
            reason = _why_not_stacked(members, trial)
            at_once = 0 if reason else _at_once(members, pool, schedule, trial)
        if at_once:
            return _Strategy(at_once, 1, ())
        reasons.append(reason)
    if draws and not inputs.is_cuda:
        reasons.append("they draw random numbers, which threads would draw in no fixed order")
    workers = 1 if inputs.is_cuda or draws else torch.get_num_threads()
    return _Strategy(0, workers, tuple(reasons))


def _draws_after_checks(module: nn.Module, trial: Tensor, targets: Tensor) -> bool:
    """Whether a network draws random numbers in training; raise if its output shape is wrong."""
    probe = copy.deepcopy(module).train()
    if not any(p.requires_grad for p in probe.parameters()):
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
        weights = [p for p in first.parameters() if p.requires_grad]
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
    errors = _pair_errors(_single(member.module), member.module, pool, member.test[None])[0].cpu()
    if not bool(torch.isfinite(errors).all()):
        raise _not_finite(member.name)
    return errors


def _not_finite(name: str) -> KoriskError:
    lower = f"the loss of {name} must stay finite, and did not; lower "
    return KoriskError(lower, Argument("rate", ...), ", or scale the images to about 1")


# --- Stacked members -----------------------------------------------------------------------------


def _single(module: nn.Module) -> Forward:
    """The forward pass of one network, with an axis of one member."""
    return lambda x: module(x[0])[None]


def _state(module: nn.Module) -> dict[str, Tensor]:
    """Tensors that training may change: weights and buffers, by name."""
    state = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}
    return state | {name: buffer.detach() for name, buffer in module.named_buffers()}


class _Stack(NamedTuple):
    """Members as one network: weights, forward pass of all members, and state."""

    weights: list[nn.Parameter]
    mode: nn.Module  # the module to switch between training and evaluation mode
    forward: Forward
    state: dict[str, Tensor]  # by name, with an axis of members
    penalty: Forward | None = None  # of (members, batch, ...), one for each member


def _alone(member: Member, pool: Pool, schedule: Schedule) -> "_Training":
    """A member that is trained by itself."""
    weights = [p for p in member.module.parameters() if p.requires_grad]
    state = {name: value[None] for name, value in _state(member.module).items()}
    penalty = _penalty(member.module)
    single_penalty = None if penalty is None else _single(penalty)
    stack = _Stack(weights, member.module, _single(member.module), state, single_penalty)
    return _Training([member], pool, schedule, stack)


def _stacked(members: Sequence[Member], trial: Tensor) -> _Stack:
    """Stack the members; tensors that are equal and constant, such as operators, are shared."""
    # `probe` is called once in training mode: buffers that change in it cannot be shared.
    template, probe = (copy.deepcopy(members[0].module) for _ in range(2))
    with torch.no_grad():
        probe.train()(trial)
    modules = [probe, *(member.module for member in members)]
    probed, *states = ({**dict(m.named_parameters()), **dict(m.named_buffers())} for m in modules)
    learned: dict[str, nn.Parameter] = {}
    unshared: dict[str, Tensor] = {}
    shared: dict[str, Tensor] = {}
    for name, value in states[0].items():
        if value.requires_grad:
            learned[name] = nn.Parameter(torch.stack([state[name].detach() for state in states]))
        elif all(torch.equal(state[name], value) for state in (probed, *states)):
            shared[name] = value
        else:
            unshared[name] = torch.stack([state[name] for state in states])

    def stacked(of: nn.Module, prefix: str = "") -> Forward:
        def single(weights: Tensors, buffers: Tensors, x: Tensor) -> Tensor:
            values = {**shared, **buffers, **weights}
            output: Tensor = functional_call(of, {prefix + k: v for k, v in values.items()}, (x,))
            return output

        batched = vmap(single, randomness="different")
        return lambda x: batched(learned, unshared, x)

    penalty = _penalty(template)
    stacked_penalty = None if penalty is None else stacked(penalty, "of.")
    changing = {name: weight.detach() for name, weight in learned.items()} | unshared
    return _Stack(list(learned.values()), template, stacked(template), changing, stacked_penalty)


class _Penalty(nn.Module):
    """The penalty of a network as a module, so that it can be stacked as the network is."""

    def __init__(self, of: nn.Module) -> None:
        super().__init__()
        self.of = of

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.of.penalty(x)  # type: ignore[operator]
        return added


def _penalty(module: nn.Module) -> _Penalty | None:
    return _Penalty(module) if hasattr(module, "penalty") else None


def _copies(members: Sequence[Member]) -> list[Member]:
    return [replace(member, module=copy.deepcopy(member.module)) for member in members]


def _why_not_stacked(members: Sequence[Member], trial: Tensor) -> str:
    """Why members cannot be stacked, by trying the first two; empty if they can."""
    pair, inputs = _copies(members[:2]), trial.expand(2, *trial.shape)
    try:
        weights, template, forward, *_ = _stacked(pair, trial)
        template.eval()
        with torch.no_grad():
            together = forward(inputs)
            alone = torch.stack([member.module.eval()(trial) for member in pair])
        template.train()
        torch.autograd.grad(forward(inputs).square().mean(), weights, allow_unused=True)
    except (RuntimeError, ValueError, TypeError, NotImplementedError, AttributeError) as error:
        return f"stacked weights failed ({(str(error).splitlines() or [''])[0][:120]})"
    # vmap may run, yet compute something else, where a module reads its own state.
    if float((together - alone).abs().max()) > _ALIKE * float(alone.abs().max()):
        return "with stacked weights they gave other outputs"
    return ""


def _at_once(members: Sequence[Member], pool: Pool, schedule: Schedule, trial: Tensor) -> int:
    """How many stacked members fit into the memory of the device, extrapolated from two."""
    device = pool[0].device
    if device.type != "cuda":
        return len(members)
    pair = _copies(members[:2])
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    training = _Training(pair, pool, schedule, _stacked(pair, trial))
    # One step and one evaluation: either may be the peak of memory.
    training.step()
    training.evaluate()
    bytes_per_member = (torch.cuda.max_memory_allocated(device) - before) / len(pair)
    del training
    torch.cuda.empty_cache()
    return max(1, min(len(members), int(_SHARE * free_memory(device) / bytes_per_member)))


# --- Training ------------------------------------------------------------------------------------


def _pair_errors(forward: Forward, mode: nn.Module, pool: Pool, rows: Tensor) -> Tensor:
    """(members, R) the mean squared error of each pair, for the pool's `rows` (members, R)."""
    inputs, targets = pool
    mode.eval()
    with torch.no_grad():
        errors = [
            (forward(inputs[piece]) - targets[piece]).square().flatten(2).mean(-1)
            for piece in torch.split(rows, _CHUNK, 1)
        ]
    mode.train()
    return torch.cat(errors, 1).double()


class _Training:
    """Members in training: their batches, optimiser, and the best step so far."""

    def __init__(
        self, members: Sequence[Member], pool: Pool, schedule: Schedule, stack: _Stack
    ) -> None:
        self.members, self.pool = members, pool
        self.weights, self.mode, self.forward, self.state, self.penalty = stack
        self.mode.train()
        self.best = {name: value.clone() for name, value in self.state.items()}
        device, steps = pool[0].device, schedule.steps
        batches = []
        for member in members:
            # A training set below the batch size is repeated, so that all members' batches stack.
            draws = torch.Generator().manual_seed(member.seed)
            size = min(schedule.batch, len(member.rows))
            picks = torch.randint(len(member.rows), (steps, size), generator=draws)
            batches.append(member.rows.cpu()[picks][:, torch.arange(schedule.batch) % size])
        self.batches = torch.stack(batches, 1).to(device)  # (steps, members, batch)
        # (members, V + T) rows of the pool
        self.evaluated = torch.stack([torch.cat([m.validation, m.test]) for m in members])
        self.iteration = torch.zeros(1, dtype=torch.long, device=device)
        rate, batch_size = schedule.rate, schedule.batch
        recipe = Recipe(optimiser="adam", rate=rate, iterations=steps, batch=batch_size)
        self.optimiser = Optimiser([weight.detach() for weight in self.weights], recipe)
        phase = torch.arange(steps) * (math.pi / steps)
        # Scaling Adam's rates once keeps the step free of host decisions, as a CUDA graph requires.
        self.optimiser.rates *= (0.5 * (1 + torch.cos(phase))).to(self.optimiser.rates)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.patience = CHECKS if schedule.patience is None else schedule.patience

    def step(self) -> None:
        """Take one step."""
        rows = self.batches.index_select(0, self.iteration)[0]  # (members, batch)
        with FastGradients() if SLOW else nullcontext():
            residual = self.forward(self.pool[0][rows]) - self.pool[1][rows]
            # The sum over members: a member's weights enter only its own term.
            loss = residual.square().flatten(1).mean(1).sum()
            if self.penalty is not None:
                loss = loss + self.penalty(self.pool[0][rows]).sum()
            gradients = torch.autograd.grad(loss, self.weights, materialize_grads=True)
        with torch.no_grad():
            self.optimiser.step(gradients, self.iteration)
        self.iteration.add_(1)

    def evaluate(self) -> Tensor:
        """(members, V + T) the error of each validation pair, then of each test pair."""
        return _pair_errors(self.forward, self.mode, self.pool, self.evaluated)

    def _advance(self, steps: int, done: int) -> None:
        """Take steps; on CUDA, all but the first few by replaying a captured one."""
        for iteration in range(done, done + steps):
            if self.iteration.is_cuda and iteration < _EAGER:
                # PyTorch asks for a warm-up on a side stream before a capture.
                stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    self.step()
                torch.cuda.current_stream().wait_stream(stream)
                continue
            if self.iteration.is_cuda and iteration == _EAGER:
                self.graph = captured(self.step)
            self.step() if self.graph is None else self.graph.replay()

    def timed(self) -> tuple[float, float]:
        """Seconds of a step and of a check, after a warm-up."""

        def clock() -> float:
            if self.iteration.is_cuda:
                torch.cuda.synchronize(self.iteration.device)
            return time.perf_counter()

        warm_up = _EAGER + 1
        self._advance(warm_up, 0)
        start = clock()
        self._advance(_TIMED, warm_up)
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
                self._advance(count, done)
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
            for name, current in self.state.items():
                improved = better[:, 0].to(current.device).view(-1, *[1] * (current.ndim - 1))
                self.best[name] = torch.where(improved, current, self.best[name])
            if bool((check - best_check >= self.patience).all()):
                report(1.0)
                break
        for index, member in enumerate(self.members):
            state = _state(member.module)
            for name, best_values in self.best.items():
                # Unchanged buffers are not written: other networks may share an operator's.
                if not torch.equal(state[name], best_values[index]):
                    state[name].copy_(best_values[index])
        return list(test_errors)
