"""Training by gradients: networks side by side, their optimiser and steps; `train` for one.

Every tensor has an axis of members in front. The loss is the sum of the members' losses, so each
member evolves as it would alone. On a GPU a step is captured once and replayed.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from korisk import _checks
from korisk.errors import KoriskError, invalid
from korisk.fitting.gradient.convolutions import SLOW, FastGradients
from korisk.fitting.gradient.recipe import History, Recipe, Standing, draw_batches
from korisk.fitting.ridge.choice import require_pairs
from korisk.networks import DenseNet, KnownOperatorNet
from korisk.operators.inputs import shape_text

_ADAM_BETAS = 0.9, 0.999
_ADAM_EPSILON = 1e-8
_ADAGRAD_EPSILON = 1e-10
EAGER = 3  # steps before a CUDA graph is captured, in which libraries initialise themselves
_CHUNK = 64  # pairs of a member whose errors are computed at once
_SAMPLES = 64  # of each member, on which its standing is measured
_PIECE = 16  # samples of a standing that are evaluated at once
_EVERY = 500  # steps of `train` between reports and checks of its losses

Pool = tuple[Tensor, Tensor]  # inputs (samples, ...) and targets (samples, ...)
Forward = Callable[[Tensor], Tensor]  # inputs (members, batch, ...) to outputs of that shape
Report = Callable[[float], None]  # called with the share of the training that is done


def trainable(network: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name."""
    return {name: p for name, p in network.named_parameters() if p.requires_grad}


def state_of(network: nn.Module) -> dict[str, Tensor]:
    """Tensors that training may change: weights and buffers, by name."""
    state = {name: weights.detach() for name, weights in trainable(network).items()}
    return state | {name: buffer.detach() for name, buffer in network.named_buffers()}


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Put a network into evaluation mode; restore the mode of every module at exit."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


class Optimiser:
    """PyTorch's Adam, Adagrad and SGD on lists of tensors, with all their memory in `state`."""

    def __init__(self, parameters: Sequence[Tensor], recipe: Recipe) -> None:
        self.parameters, self.recipe = list(parameters), recipe
        memories = {"adam": 2, "adagrad": 1, "sgd": 1 if recipe.momentum else 0}[recipe.optimiser]
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

    def step(self, gradients: Sequence[Tensor], step: Tensor) -> None:
        """Move the parameters in place by the gradients; `step`, (1,), counts from 0."""
        for weight, gradient, *memory in zip(self.parameters, gradients, *self.state, strict=True):
            if self.recipe.optimiser == "adam":
                mean, square = memory
                mean.lerp_(gradient, 1 - _ADAM_BETAS[0])
                square.mul_(_ADAM_BETAS[1]).addcmul_(gradient, gradient, value=1 - _ADAM_BETAS[1])
                scale = (square.sqrt() / self.roots[step]).add_(_ADAM_EPSILON)
                weight.sub_((mean / scale).mul_(self.rates[step]))
            elif self.recipe.optimiser == "adagrad":
                (total,) = memory
                total.addcmul_(gradient, gradient)
                root = total.sqrt().add_(_ADAGRAD_EPSILON)
                weight.addcdiv_(gradient, root, value=-self.recipe.rate)
            else:
                move = gradient
                if memory:
                    (move,) = memory
                    move.mul_(self.recipe.momentum).add_(gradient)
                weight.add_(move, alpha=-self.recipe.rate)


# --- Networks side by side -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Stack:
    """One or several networks as one."""

    members: int
    mode: nn.Module  # the module to switch between training and evaluation mode
    weights: list[nn.Parameter]  # with an axis of members, unless there is one member alone
    forward: Forward
    state: dict[str, Tensor]  # that training may change, by name, with an axis of members
    penalty: Forward | None = None  # of (members, batch, ...), one for each member

    def gradients(self, x: Tensor, y: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
        """The losses of a batch, (members,), and the gradients of their sum."""
        with FastGradients() if SLOW else nullcontext(), torch.enable_grad():
            losses = (self.forward(x) - y).square().flatten(1).mean(1)
            total = losses.sum()
            if self.penalty is not None:
                total = total + self.penalty(x).sum()
            gradients = torch.autograd.grad(total, self.weights, materialize_grads=True)
        return losses.detach(), gradients


class KnownStack(Stack):
    """Known-operator networks, which have an axis of runs of their own.

    ReLU(B W x) is differentiated by hand: no graph is recorded, no gradient of x computed.
    """

    @torch.no_grad()
    def gradients(self, x: Tensor, y: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
        """The losses of a batch, (members,), and the gradients of their sum."""
        network = self.mode
        assert isinstance(network, KnownOperatorNet)
        tail = network.linear_tail
        image = tail(x * network.spread_weights(x))
        residual = (torch.relu(image) if network.relu else image) - y
        losses = residual.square().flatten(1).mean(1)
        if network.relu:
            residual = residual * (image > 0)
        gradient = (x * tail.adjoint(residual)).sum(1).mul_(2 / residual[0].numel())
        return losses, [gradient.reshape(network.weights.shape)]


def alone(network: nn.Module) -> Stack:
    """A network by itself, or one that has an axis of runs of its own."""
    weights = list(trainable(network).values())
    runs = getattr(network, "runs", None)
    kind = KnownStack if type(network) is KnownOperatorNet else Stack
    if isinstance(runs, int):
        return kind(runs, network, weights, network, {})
    state = {name: value[None] for name, value in state_of(network).items()}
    penalty = _penalty(network)
    of_penalty = None if penalty is None else _single(penalty)
    return kind(1, network, weights, _single(network), state, of_penalty)


def stacked(networks: Sequence[nn.Module], trial: Tensor) -> Stack:
    """Networks of one kind, their weights stacked; what is equal and constant is shared."""
    # `probe` is called once in training mode: buffers that change in it cannot be shared.
    template, probe = (copy.deepcopy(networks[0]) for _ in range(2))
    with torch.no_grad():
        probe.train()(trial)
    modules = [probe, *networks]
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

    def batched(of: nn.Module, prefix: str = "") -> Forward:
        def single(
            weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor
        ) -> Tensor:
            values = {**shared, **buffers, **weights}
            output: Tensor = functional_call(of, {prefix + k: v for k, v in values.items()}, (x,))
            return output

        mapped = vmap(single, randomness="different")
        return lambda x: mapped(learned, unshared, x)

    penalty = _penalty(template)
    of_penalty = None if penalty is None else batched(penalty, "of.")
    state = {name: weights.detach() for name, weights in learned.items()} | unshared
    weights = list(learned.values())
    return Stack(len(networks), template, weights, batched(template), state, of_penalty)


class _Penalty(nn.Module):
    """The penalty of a network as a module, so that it can be stacked as the network is."""

    def __init__(self, of: nn.Module) -> None:
        super().__init__()
        self.of = of

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.of.penalty(x)  # type: ignore[operator]
        return added


def _penalty(network: nn.Module) -> _Penalty | None:
    return _Penalty(network) if hasattr(network, "penalty") else None


def _single(network: nn.Module) -> Forward:
    """The forward pass of one network, with an axis of one member."""
    return lambda x: network(x[0])[None]


# --- Training ------------------------------------------------------------------------------------


class Trainer:
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
        self.until_capture = EAGER if pool[0].is_cuda and captures else -1
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

    def standing(self) -> Standing:
        """The loss of each member and the norm of its gradient on samples that it draws."""
        samples, shares = self._fixed_samples()
        weights = self.stack.weights
        loss = shares.new_zeros(len(shares))
        gradients = [torch.zeros_like(weight) for weight in weights]
        pieces = (torch.split(values, _PIECE, 1) for values in (samples, shares))
        with evaluating(self.stack.mode), torch.enable_grad():
            for rows, row_shares in zip(*pieces, strict=True):
                residual = self.stack.forward(self.pool[0][rows]) - self.pool[1][rows]
                losses = (residual.square().flatten(2).mean(-1) * row_shares).sum(-1)
                loss += losses.detach()
                added = torch.autograd.grad(losses.sum(), weights, materialize_grads=True)
                for total, gradient in zip(gradients, added, strict=True):
                    total += gradient
        squares = [values.square().reshape(len(loss), -1).sum(-1) for values in gradients]
        return Standing(loss.cpu(), torch.stack(squares).sum(0).sqrt().cpu())

    def _fixed_samples(self) -> tuple[Tensor, Tensor]:
        """Up to 64 samples that each member draws, and their shares in its loss, (members, S)."""
        drawn = [torch.unique(batches) for batches in self.batches.unbind(1)]
        # Evenly spaced among all.
        spread = [
            samples[torch.arange(count, device=samples.device) * len(samples) // count]
            for samples in drawn
            for count in (min(len(samples), _SAMPLES),)
        ]
        positions = torch.arange(max(map(len, spread)), device=self.batches.device)
        # Members with fewer samples are filled up with samples of weight zero.
        filled = torch.stack([samples[positions % len(samples)] for samples in spread])
        shares = torch.stack([(positions < len(samples)) / len(samples) for samples in spread])
        return filled, shares.to(self.pool[0].dtype)


def pair_errors(stack: Stack, pool: Pool, rows: Tensor) -> Tensor:
    """(members, R) the mean squared error of each pair, for the pool's `rows` (members, R)."""
    inputs, targets = pool
    with evaluating(stack.mode), torch.no_grad():
        errors = [
            (stack.forward(inputs[piece]) - targets[piece]).square().flatten(2).mean(-1)
            for piece in torch.split(rows, _CHUNK, 1)
        ]
    return torch.cat(errors, 1).double()


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
) -> History:
    """Fit a network in place to the mean squared error over mini-batches.

    Parameters
    ----------
    network : nn.Module
        The network. If it has an attribute `runs`, all its parameters have an axis of runs first,
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
    History
        Every loss, and whether it had converged.

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
    runs = getattr(network, "runs", None)
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
    trainer = Trainer(alone(network), pool, batches, recipe, captures=fixed)
    # Convergence is judged by the loss before the last tenth and at the end.
    late = recipe.steps - recipe.last_tenth
    standings = {0: trainer.standing()}
    done = 0
    for pause in sorted({*range(_EVERY, recipe.steps, _EVERY), late, recipe.steps} - {0}):
        trainer.advance(pause - done)
        _require_finite(trainer, done, pause, recipe)
        if pause in (late, recipe.steps):
            standings[pause] = trainer.standing()
        if progress is not None:
            progress(pause / recipe.steps)
        done = pause
    # The mean squared error of outputs that are right but for rounding.
    rounding = 8 * torch.finfo(targets.dtype).eps
    norm = float(torch.linalg.vector_norm(pool[1], dtype=torch.float64))
    measured = [standings[step] for step in (0, late, recipe.steps)]
    losses = trainer.losses.cpu()
    if runs is None:
        losses = losses[:, 0]
        measured = [Standing(loss[0], gradient[0]) for loss, gradient in measured]
    start, before, end = measured
    negligible = rounding**2 * norm**2 / targets.numel()
    return History(losses=losses, start=start, late=before, end=end, negligible=negligible)


def _require_finite(trainer: Trainer, before: int, done: int, recipe: Recipe) -> None:
    """Raise if a loss since an earlier step, or a weight, is not finite."""
    diverged = (~torch.isfinite(trainer.losses[before:done])).any(1).nonzero()
    if len(diverged):
        step = before + int(diverged[0]) + 1
    elif all(bool(torch.isfinite(weights).all()) for weights in trainer.stack.weights):
        return
    else:
        step = done
    where = f"step {step:,} of {recipe.steps:,}"
    remedy = f"lower the rate, now {recipe.rate:g}"
    raise KoriskError(f"training diverged: the loss is not finite at {where}; {remedy}")


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
    leading = (getattr(network, "runs", None) or 1, 1)
    with evaluating(network), torch.no_grad():
        image = alone(network).forward(inputs[:1].expand(*leading, *inputs.shape[1:]))
    shape = shape_text(tuple(image.shape[2:]), batched=True)
    rule = f"have the shape of the network's outputs, {shape}"
    fits = image.shape == (*leading, *targets.shape[1:])
    _checks.require(fits, "targets", rule, targets, got=shape_text(tuple(targets.shape)))
