"""Several networks of one kind trained at once: Adam with cosine decay, the best step kept.

On a GPU the weights of all members are stacked, and one call computes the loss of every member
(torch.func); gradients of the sum of the losses are the members' own. On a CPU each thread trains a
member by itself, which is faster than all threads at one. Networks that cannot be stacked, or that
draw random numbers on a CPU, are trained one after another.
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
from korisk.fitting.gradient.convolutions import SLOW, FastSlopes
from korisk.fitting.gradient.recipe import Recipe
from korisk.fitting.gradient.train import Optimiser, Pool, captured
from korisk.operators.inputs import shape_text

CHECKS = 10  # times that members are judged on validation pairs, evenly over the steps
_CHUNK = 64  # pairs of a member that are judged at once
_EAGER = 3  # steps before a CUDA graph is captured: libraries set themselves up in them
_SHARE = 0.6  # of the free memory that members may take together
_REPORTED = 10  # steps between reports
_TIMED = 4  # steps that are timed, after as many as it takes to capture one
_SPACE = 5  # times its weights that a member in training takes: slopes, two moments, the best step
_ALIKE = 1e-3  # of the largest output: how far stacked and single outputs may differ by rounding

Fit = Callable[[nn.Module, Tensor, Tensor, Tensor, Tensor], object]
Forward = Callable[[Tensor], Tensor]  # inputs (members, batch, ...) to outputs of that shape


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How each member is trained: Adam, whose rate falls to zero along a cosine.

    Parameters
    ----------
    steps : int, default 2000
        Mini-batches.
    batch : int, default 16
        Pairs of a mini-batch.
    rate : float, default 0.001
        Learning rate at the start.
    patience : int, optional
        Training ends early when so many checks on validation pairs, of which there are 10, have
        passed without a smaller error. Default: it never does.

    Raises
    ------
    KoriskError
        If a value is outside its range.

    Examples
    --------
    >>> from korisk.fitting.gradient.many import Schedule
    >>> Schedule(steps=500).batch
    16
    """

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
    """A network to train, with the rows of the pool that it trains on and is judged by.

    If it has a method `penalty(inputs)`, what that returns is added to the mean squared error of
    every batch. Members of one call have equally many rows to judge them.
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

    Parameters
    ----------
    members : sequence of Member
        Networks on the device of the pool.
    inputs, targets : Tensor, shapes (pairs, ...)
        The pool.
    schedule : Schedule
        How they are trained.
    fit : callable, optional
        Trains a network in place instead, with its training inputs and targets and its validation
        inputs and targets; members are trained one after another.
    together : bool, optional
        Whether to stack the weights of members. Default: on a GPU.
    notes : list of str, optional
        Gets a sentence where members could not be trained at once.
    progress : callable, optional
        Called with the share of all training that is done.

    Yields
    ------
    tuple of int and Tensor of shape (T,)
        The index of a member, and the mean squared error of each of its test pairs at the step that
        was best on its validation pairs.

    Raises
    ------
    KoriskError
        If outputs have another shape than targets, or a loss is not finite.
    """
    if not members:
        return
    pool, said = (inputs, targets), [] if notes is None else notes
    shares = [0.0] * len(members)
    lock = threading.Lock()

    def report(indices: Sequence[int], share: float) -> None:
        with lock:
            for index in indices:
                shares[index] = share
            if progress is not None:
                progress(sum(shares) / len(shares))

    trial, how = _trial(members[0], inputs, schedule), _way(members, pool, schedule, together)
    if fit is not None:
        for index, member in enumerate(members):
            report([index], 0.0)
            yield index, _fitted(member, pool, fit)
            report([index], 1.0)
        return
    said += [f"The networks were trained one after another: {why}." for why in how.reasons]
    if how.stacked:
        for start in range(0, len(members), how.stacked):
            group = range(start, min(start + how.stacked, len(members)))
            chosen = [members[index] for index in group]
            with _seeded(chosen[0], pool):
                training = _Training(chosen, pool, schedule, _stacked(chosen, trial))
                found = training.run(partial(report, group))
            del training  # before the next group needs its memory
            yield from zip(group, found, strict=True)
        return
    workers = how.workers
    if not inputs.is_cuda:
        with _seeded(members[0], pool):
            _reorder(members, trial)
    stop = threading.Event()

    def alone(index: int) -> Tensor:
        if workers > 1:
            torch.set_num_threads(1)  # of this thread, and of those that start later
        training = _alone(members[index], pool, schedule)
        return training.run(partial(report, [index]), stop)[0]

    if workers == 1:
        for index, member in enumerate(members):
            with _seeded(member, pool):
                errors = alone(index)
            yield index, errors
        return
    threads = ThreadPoolExecutor(workers)
    try:
        running = {threads.submit(alone, index): index for index in range(len(members))}
        for done in as_completed(running):
            yield running[done], done.result()
    finally:
        stop.set()  # an error or an interruption ends the others within a step
        threads.shutdown(cancel_futures=True)
        torch.set_num_threads(workers)


class Pace(NamedTuple):
    """How fast members are trained and how much memory that takes, as a few steps show."""

    step: float  # seconds, of all members that are trained at once
    check: float  # seconds to judge these on their validation and test pairs
    at_once: int
    memory: float  # bytes, with the pool
    device: str  # in words

    def seconds(self, members: int, steps: int) -> float:
        """How long so many members take."""
        rounds = math.ceil(members / self.at_once)
        return rounds * (steps * self.step + CHECKS * self.check)


def pace(members: Sequence[Member], inputs: Tensor, targets: Tensor, schedule: Schedule) -> Pace:
    """Time a few steps of copies of the first members, as `train_many` would train them.

    Parameters
    ----------
    members, inputs, targets, schedule
        As for `train_many`.

    Returns
    -------
    Pace
        Seconds of a step and of a check, and bytes.
    """
    pool, device = (inputs, targets), inputs.device
    trial, how = _trial(members[0], inputs, schedule), _way(members, pool, schedule, None)
    at_once = how.stacked or min(how.workers, len(members))
    short = Schedule(steps=max(CHECKS, _EAGER + 1 + _TIMED), batch=schedule.batch)
    copies = _copies(members[:at_once])
    held = float(sum(each.numel() * each.element_size() for each in pool))
    if inputs.is_cuda:
        with _seeded(copies[0], pool):
            before = torch.cuda.memory_allocated(device)
            torch.cuda.reset_peak_memory_stats(device)
            training = (
                _Training(copies, pool, short, _stacked(copies, trial))
                if how.stacked
                else _alone(copies[0], pool, short)
            )
            step, check = training.timed()
        memory = held + float(torch.cuda.max_memory_allocated(device) - before)
        return Pace(step, check, at_once, memory, "a GPU")
    with _seeded(copies[0], pool):
        _reorder(copies, trial)
        activations = _activations(copies[0].module, trial) * schedule.batch / len(trial)

        def timed(member: Member) -> tuple[float, float]:
            if how.workers > 1:
                torch.set_num_threads(1)
            return _alone(member, pool, short).timed()

        if how.workers == 1:
            times = [timed(copies[0])]
        else:  # all at once, since they share caches and memory
            try:
                with ThreadPoolExecutor(how.workers) as threads:
                    times = list(threads.map(timed, copies))
            finally:
                torch.set_num_threads(how.workers)
    step, check = (sum(each) / len(times) for each in zip(*times, strict=True))
    weights = sum(x.numel() * x.element_size() for x in _state(copies[0].module).values())
    memory = held + len(members) * weights + at_once * (_SPACE * weights + 2 * activations)
    cores = torch.get_num_threads()
    return Pace(step, check, at_once, memory, f"{cores} core{'s' * (cores > 1)}")


def _activations(module: nn.Module, trial: Tensor) -> int:
    """Bytes that a network keeps from its forward pass for the backward one."""
    storages: dict[int, int] = {}

    def pack(kept: Tensor) -> Tensor:
        storage = kept.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return kept

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
        module(trial)
    return sum(storages.values())


class _Way(NamedTuple):
    """How members are trained."""

    stacked: int  # how many at once, their weights stacked; 0 where each is by itself
    workers: int  # threads, each with a member
    reasons: tuple[str, ...]  # why members are trained one after another


def _trial(member: Member, inputs: Tensor, schedule: Schedule) -> Tensor:
    return inputs[member.rows[: min(schedule.batch, len(member.rows))]]


def _way(members: Sequence[Member], pool: Pool, schedule: Schedule, together: bool | None) -> _Way:
    """How members can be trained, as the first two show; raises if their output is no image."""
    first, (inputs, targets) = members[0], pool
    trial, reasons = _trial(first, inputs, schedule), []
    with _seeded(first, pool):
        draws = _draws_after_checks(first.module, trial, targets)
    if (inputs.is_cuda if together is None else together) and len(members) > 1:
        with _seeded(first, pool):
            why = _unlike(members, trial)
            at_once = 0 if why else _at_once(members, pool, schedule, trial)
        if at_once:
            return _Way(at_once, 1, ())
        reasons.append(why)
    if draws and not inputs.is_cuda:
        reasons.append("they draw random numbers, which threads would draw in no fixed order")
    workers = 1 if inputs.is_cuda or draws else torch.get_num_threads()
    return _Way(0, workers, tuple(reasons))


def _draws_after_checks(module: nn.Module, trial: Tensor, targets: Tensor) -> bool:
    """Whether a network draws random numbers while it trains; raises if its output is no image."""
    tried = copy.deepcopy(module).train()
    if not any(p.requires_grad for p in tried.parameters()):
        raise KoriskError("the network must have weights to train, got none; let some require_grad")
    with torch.no_grad():
        before = torch.get_rng_state()
        out = tried(trial)
        draws = not torch.equal(before, torch.get_rng_state())
    wanted = (len(trial), *targets.shape[1:])
    if not isinstance(out, Tensor) or tuple(out.shape) != wanted:
        got = shape_text(tuple(out.shape)) if isinstance(out, Tensor) else type(out).__name__
        rule = f"turn inputs {shape_text(tuple(trial.shape))} into outputs {shape_text(wanted)}"
        remedy = "add or remove an axis of channels inside it"
        raise invalid("the network", rule, out, remedy, got=got)
    return draws


def _reorder(members: Sequence[Member], trial: Tensor) -> None:
    """Put channels last in the weights of convolutions, which a CPU computes faster that way."""
    with suppress(RuntimeError):  # from networks that need another order
        first = copy.deepcopy(members[0].module).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        weights = [p for p in first.parameters() if p.requires_grad]
        torch.autograd.grad(first(trial).square().mean(), weights, allow_unused=True)
        for member in members:
            member.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


@contextmanager
def _seeded(member: Member, pool: Pool) -> Iterator[None]:
    """Random numbers from the member's seed, and convolutions that are chosen by their speed.

    The caller finds both as they were.
    """
    before = torch.backends.cudnn.benchmark
    with torch.random.fork_rng(devices=[pool[0].device] if pool[0].is_cuda else []):
        torch.manual_seed(member.seed)
        torch.backends.cudnn.benchmark = True
        try:
            yield
        finally:
            torch.backends.cudnn.benchmark = before


def _fitted(member: Member, pool: Pool, fit: Fit) -> Tensor:
    """The test errors of a member that the user's function has trained."""
    with _seeded(member, pool):
        parts = [each[rows] for rows in (member.rows, member.validation) for each in pool]
        fit(member.module, *parts)
    found = _judged(_single(member.module), member.module, pool, member.test[None])[0].cpu()
    if not bool(torch.isfinite(found).all()):
        raise _not_finite(member.name)
    return found


def _not_finite(name: str) -> KoriskError:
    lower = f"the loss of {name} must stay finite, and did not; lower "
    return KoriskError(lower, Argument("rate", ...), ", or scale the images to about 1")


# --- Stacked members -----------------------------------------------------------------------------


def _single(module: nn.Module) -> Forward:
    return lambda x: module(x[0])[None]


def _state(module: nn.Module) -> dict[str, Tensor]:
    """What training may change: weights and buffers, by name."""
    weights = {name: p for name, p in module.named_parameters() if p.requires_grad}
    return {name: each.detach() for name, each in (weights | dict(module.named_buffers())).items()}


class _Stack(NamedTuple):
    """Members as one network: their weights, what computes all of them at once, and its state."""

    weights: list[nn.Parameter]
    mode: nn.Module  # that is trained or judged
    forward: Forward
    state: dict[str, Tensor]  # by name, with an axis of members
    penalty: Forward | None = None  # of (members, batch, ...), one for each member


def _alone(member: Member, pool: Pool, schedule: Schedule) -> "_Training":
    """A member that is trained by itself."""
    weights = [p for p in member.module.parameters() if p.requires_grad]
    state = {name: each[None] for name, each in _state(member.module).items()}
    penalty = _penalty(member.module)
    alone = None if penalty is None else _single(penalty)
    stack = _Stack(weights, member.module, _single(member.module), state, alone)
    return _Training([member], pool, schedule, stack)


def _stacked(members: Sequence[Member], trial: Tensor) -> _Stack:
    """What no member learns, changes or has of its own is shared and not stacked.

    Such as the matrix of a known operator.
    """
    template, tried = (copy.deepcopy(members[0].module) for _ in range(2))
    with torch.no_grad():
        tried.train()(trial)
    modules = [tried, *(member.module for member in members)]
    after, *every = ({**dict(m.named_parameters()), **dict(m.named_buffers())} for m in modules)
    learned: dict[str, nn.Parameter] = {}
    own: dict[str, Tensor] = {}
    shared: dict[str, Tensor] = {}
    for name, value in every[0].items():
        if value.requires_grad:
            learned[name] = nn.Parameter(torch.stack([each[name].detach() for each in every]))
        elif all(torch.equal(other, value) for other in (after[name], *(e[name] for e in every))):
            shared[name] = value
        else:
            own[name] = torch.stack([each[name] for each in every])

    def stacked(of: nn.Module, prefix: str = "") -> Forward:
        def one(weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> Tensor:
            values = {**shared, **buffers, **weights}
            out: Tensor = functional_call(of, {prefix + key: values[key] for key in values}, (x,))
            return out

        every_one = vmap(one, randomness="different")
        return lambda x: every_one(learned, own, x)

    penalty = _penalty(template)
    alike = None if penalty is None else stacked(penalty, "of.")
    state = {name: each.detach() for name, each in learned.items()} | own
    return _Stack(list(learned.values()), template, stacked(template), state, alike)


class _Penalty(nn.Module):
    """What a network adds to the loss of a batch, as a module of its own."""

    def __init__(self, of: nn.Module) -> None:
        super().__init__()
        self.of = of

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.of.penalty(x)  # type: ignore[operator]
        return added


def _penalty(module: nn.Module) -> _Penalty | None:
    return _Penalty(module) if hasattr(module, "penalty") else None


def _copies(members: Sequence[Member]) -> list[Member]:
    return [replace(each, module=copy.deepcopy(each.module)) for each in members]


def _unlike(members: Sequence[Member], trial: Tensor) -> str:
    """Why members cannot be stacked, as the first two of them show; empty where they can."""
    pair, both = _copies(members[:2]), trial.expand(2, *trial.shape)
    try:
        weights, template, forward, *_ = _stacked(pair, trial)
        template.eval()
        with torch.no_grad():
            out = forward(both)
            alone = torch.stack([each.module.eval()(trial) for each in pair])
        template.train()
        torch.autograd.grad(forward(both).square().mean(), weights, allow_unused=True)
    except (RuntimeError, ValueError, TypeError, NotImplementedError, AttributeError) as error:
        return f"stacked weights failed ({(str(error).splitlines() or [''])[0][:120]})"
    if float((out - alone).abs().max()) > _ALIKE * float(alone.abs().max()):
        return "with stacked weights they gave other outputs"
    return ""


def _at_once(members: Sequence[Member], pool: Pool, schedule: Schedule, trial: Tensor) -> int:
    """How many stacked members fit into the memory of the device, as two of them show."""
    device = pool[0].device
    if device.type != "cuda":
        return len(members)
    pair = _copies(members[:2])
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    made = _Training(pair, pool, schedule, _stacked(pair, trial))
    made.step()
    made.judge()
    each = (torch.cuda.max_memory_allocated(device) - before) / len(pair)
    del made
    torch.cuda.empty_cache()
    return max(1, min(len(members), int(_SHARE * free_memory(device) / each)))


# --- Training ------------------------------------------------------------------------------------


def _judged(forward: Forward, mode: nn.Module, pool: Pool, rows: Tensor) -> Tensor:
    """(members, rows) the mean squared error of each pair, for rows (members, rows)."""
    inputs, targets = pool
    mode.eval()
    with torch.no_grad():
        errors = [
            (forward(inputs[part]) - targets[part]).square().flatten(2).mean(-1)
            for part in torch.split(rows, _CHUNK, 1)
        ]
    mode.train()
    return torch.cat(errors, 1).double()


class _Training:
    """Members in training."""

    def __init__(
        self, members: Sequence[Member], pool: Pool, schedule: Schedule, stack: _Stack
    ) -> None:
        self.members, self.pool = members, pool
        self.weights, self.mode, self.forward, self.state, self.penalty = stack
        self.mode.train()
        self.best = {name: each.clone() for name, each in self.state.items()}
        device, steps = pool[0].device, schedule.steps
        drawn = []
        for member in members:  # a batch of fewer is repeated to fill it
            draws = torch.Generator().manual_seed(member.seed)
            own = min(schedule.batch, len(member.rows))
            chosen = torch.randint(len(member.rows), (steps, own), generator=draws)
            drawn.append(member.rows.cpu()[chosen][:, torch.arange(schedule.batch) % own])
        self.batches = torch.stack(drawn, 1).to(device)  # (steps, members, batch)
        self.judged = torch.stack([torch.cat([m.validation, m.test]) for m in members])
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        rate, batch = schedule.rate, schedule.batch
        recipe = Recipe(optimiser="adam", rate=rate, iterations=steps, batch=batch)
        self.optimiser = Optimiser([weight.detach() for weight in self.weights], recipe)
        phase = torch.arange(steps) * (math.pi / steps)
        self.optimiser.rates *= (0.5 * (1 + torch.cos(phase))).to(self.optimiser.rates)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.patience = CHECKS if schedule.patience is None else schedule.patience

    def step(self) -> None:
        """Take one step."""
        rows = self.batches.index_select(0, self.at)[0]
        with FastSlopes() if SLOW else nullcontext():
            off = self.forward(self.pool[0][rows]) - self.pool[1][rows]
            loss = off.square().flatten(1).mean(1).sum()
            if self.penalty is not None:
                loss = loss + self.penalty(self.pool[0][rows]).sum()
            slopes = torch.autograd.grad(loss, self.weights, materialize_grads=True)
        with torch.no_grad():
            self.optimiser.step(slopes, self.at)
        self.at.add_(1)

    def judge(self) -> Tensor:
        """(members, V + T) the error of each validation pair, then of each test pair."""
        return _judged(self.forward, self.mode, self.pool, self.judged)

    def _advance(self, steps: int, done: int) -> None:
        """Take steps; on CUDA, all but the first few by replaying a captured one."""
        for at in range(done, done + steps):
            if not self.at.is_cuda or at > _EAGER:
                pass
            elif at == _EAGER:
                self.graph = captured(self.step)
            else:
                side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    self.step()
                torch.cuda.current_stream().wait_stream(side)
                continue
            self.step() if self.graph is None else self.graph.replay()

    def timed(self) -> tuple[float, float]:
        """Seconds of a step and of a check, after some steps to set up libraries."""

        def clock() -> float:
            if self.at.is_cuda:
                torch.cuda.synchronize(self.at.device)
            return time.perf_counter()

        warm = _EAGER + 1
        self._advance(warm, 0)
        start = clock()
        self._advance(_TIMED, warm)
        stepped = clock()
        self.judge()
        return (stepped - start) / _TIMED, clock() - stepped

    def run(
        self, report: Callable[[float], None], stop: threading.Event | None = None
    ) -> list[Tensor]:
        """Train to the end: each member's test errors at its best step on validation pairs."""
        steps, counts = len(self.batches), len(self.members[0].validation)
        best, reported, done = torch.full((len(self.members),), math.inf), torch.zeros(()), 0
        best_check = torch.zeros(len(self.members))
        for check in range(1, CHECKS + 1):
            until = steps * check // CHECKS
            while done < until:
                if stop is not None and stop.is_set():
                    raise CancelledError
                part = min(_REPORTED, until - done)
                self._advance(part, done)
                done += part
                report(done / steps)
            errors = self.judge().cpu()
            validation = errors[:, :counts].mean(1)
            for member, value in zip(self.members, validation.tolist(), strict=True):
                if not math.isfinite(value):
                    raise _not_finite(member.name)
            better = (validation < best)[:, None]
            # The first is better for all.
            reported = torch.where(better, errors[:, counts:], reported)
            best = torch.minimum(best, validation)
            best_check[better[:, 0]] = check
            for name, each in self.state.items():
                chosen = better[:, 0].to(each.device).view(-1, *[1] * (each.ndim - 1))
                self.best[name] = torch.where(chosen, each, self.best[name])
            if bool((check - best_check >= self.patience).all()):
                report(1.0)
                break
        for index, member in enumerate(self.members):
            now = _state(member.module)
            for name, each in self.best.items():
                if not torch.equal(now[name], each[index]):  # others may use an operator's buffers
                    now[name].copy_(each[index])
        return list(reported)
