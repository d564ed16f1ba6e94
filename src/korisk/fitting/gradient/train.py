"""Training by gradient descent: any network, several runs at once, resumable."""

import hashlib
import io
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, invalid, shown
from korisk.files import write_bytes
from korisk.fitting.gradient.recipe import Recipe, Standing, Training, draw_batches
from korisk.fitting.ridge.choice import require_pairs
from korisk.networks import DenseNet, KnownOperatorNet
from korisk.operators.inputs import shape_text
from korisk.operators.linear import LinearOperator

_ADAM_BETAS = 0.9, 0.999
_ADAM_EPSILON = 1e-8
_ADAGRAD_EPSILON = 1e-10
_EAGER = 3  # steps before a CUDA graph is captured, in which libraries initialise themselves
_FORMAT = "korisk training 3"
_MARK = b"korisk training\n"  # 16 bytes; 32 of SHA-256 and PyTorch's format follow
REMEDY = "delete it and run again, or name another"
_SAMPLES = 64  # of each run, for the loss at the start, before the last tenth and at the end
_PIECE = 16  # samples that are evaluated at once

Pool = tuple[Tensor, Tensor]  # inputs (samples, ...) and targets (samples, ...)
Progress = Callable[[int, Tensor], None]  # iterations done, mean loss since the last call


def runs_of(network: nn.Module) -> int | None:
    """Number of runs that a network trains side by side; None if it has no axis of runs."""
    runs = getattr(network, "runs", None)
    return runs if isinstance(runs, int) else None


def trainable(network: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name."""
    return {name: p for name, p in network.named_parameters() if p.requires_grad}


def gather(pool: Tensor, chosen: Tensor) -> Tensor:
    """The chosen samples of (samples, ...), in the shape (*chosen.shape, ...)."""
    return pool.index_select(0, chosen.flatten()).reshape(*chosen.shape, *pool.shape[1:])


class Optimiser:
    """PyTorch's Adam, Adagrad and SGD on lists of tensors, with all their memory in `state`."""

    def __init__(self, parameters: Sequence[Tensor], recipe: Recipe) -> None:
        self.parameters, self.recipe = list(parameters), recipe
        memories = {"adam": 2, "adagrad": 1, "sgd": 1 if recipe.momentum else 0}[recipe.optimiser]
        self.state = [[torch.zeros_like(p) for p in parameters] for _ in range(memories)]
        steps = torch.arange(1, recipe.iterations + 1, dtype=torch.float64)
        first, second = _ADAM_BETAS
        # Adam's bias correction at each iteration, for running means that start at zero.
        self.rates = (recipe.rate / (1 - first**steps)).to(self.parameters[0])
        self.roots = (1 - second**steps).sqrt().to(self.parameters[0])

    def step(self, gradients: Sequence[Tensor], iteration: Tensor) -> None:
        """Move the parameters in place by the gradients; `iteration`, (1,), counts from 0."""
        for weight, gradient, *memory in zip(self.parameters, gradients, *self.state, strict=True):
            if self.recipe.optimiser == "adam":
                mean, square = memory
                mean.lerp_(gradient, 1 - _ADAM_BETAS[0])
                square.mul_(_ADAM_BETAS[1]).addcmul_(gradient, gradient, value=1 - _ADAM_BETAS[1])
                scale = (square.sqrt() / self.roots[iteration]).add_(_ADAM_EPSILON)
                weight.sub_((mean / scale).mul_(self.rates[iteration]))
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


def gradient(network: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The losses of a batch, () or (runs,), and the gradients of their sum."""
    batch_axis = 0 if runs_of(network) is None else 1
    if type(network) is not KnownOperatorNet:
        with torch.enable_grad():
            losses = (network(x) - y).square().flatten(batch_axis).mean(-1)
            gradients = torch.autograd.grad(losses.sum(), list(trainable(network).values()))
        return losses.detach(), list(gradients)
    # ReLU(B W x) is differentiated by hand: no graph is recorded, no gradient of x computed.
    with torch.no_grad():
        tail = network.linear_tail
        image = tail(x * network.spread_weights(x))
        residual = (torch.relu(image) if network.relu else image) - y
        losses = residual.square().flatten(batch_axis).mean(-1)
        if network.relu:
            residual = residual * (image > 0)
        entries = residual[0].numel() if batch_axis else residual.numel()
        weight_gradient = (x * tail.adjoint(residual)).sum(batch_axis).mul_(2 / entries)
    return losses, [weight_gradient]


def captured(step: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
    """A step as a CUDA graph; None if it cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    with suppress(RuntimeError):
        with torch.cuda.graph(graph):
            step()
        return graph
    return None


class Stepper:
    """Training, one iteration at a time; `losses` and `iteration` are on the device."""

    def __init__(self, network: nn.Module, pool: Pool, indices: Tensor, recipe: Recipe) -> None:
        self.network, self.indices, (self.inputs, self.targets) = network, indices, pool
        self.optimiser = Optimiser([p.detach() for p in trainable(network).values()], recipe)
        # Other networks may branch on the host, and a replayed graph would not.
        fixed = indices.is_cuda and type(network) in (KnownOperatorNet, DenseNet)
        self.until_capture = _EAGER if fixed else -1
        self.graph: torch.cuda.CUDAGraph | None = None
        runs = () if indices.ndim == 2 else (indices.shape[1],)
        self.losses = self.inputs.new_zeros(len(indices), *runs)
        self.iteration = torch.zeros(1, dtype=torch.int64, device=indices.device)

    def advance(self, steps: int) -> None:
        """Take so many steps; on CUDA, all but the first few replay a captured one."""
        with torch.cuda.device_of(self.indices):  # type: ignore[no-untyped-call]
            for _ in range(steps):
                if self.until_capture == 0:
                    self.graph = captured(self.step)
                self.until_capture -= 1
                self.step() if self.graph is None else self.graph.replay()

    @torch.no_grad()
    def step(self) -> None:
        """Take one step."""
        samples = self.indices.index_select(0, self.iteration)[0]
        x, y = gather(self.inputs, samples), gather(self.targets, samples)
        losses, gradients = gradient(self.network, x, y)
        self.losses.index_copy_(0, self.iteration, losses.unsqueeze(0))
        self.optimiser.step(gradients, self.iteration)
        self.iteration.add_(1)


def train(
    network: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    recipe: Recipe,
    *,
    indices: Tensor | None = None,
    generator: torch.Generator | None = None,
    checkpoint: str | PathLike[str] | None = None,
    every: int = 500,
    progress: Progress | None = None,
) -> Training:
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
        Optimiser, rate, iterations and batch size.
    indices : Tensor of shape (iterations[, runs], batch), optional
        The samples of each batch; a network with runs takes one column for each of them.
    generator : torch.Generator, optional
        Draws the batches, if there are no `indices`.
    checkpoint : path, optional
        A file that is written every `every` iterations. If it exists, training continues from it,
        to the same bits on the same device. A network that draws random numbers itself draws
        others when resumed.
    every : int, default 500
        Iterations between checks that the losses are finite, checkpoints and calls of `progress`.
    progress : callable, optional
        Called with the iterations done and the mean loss since the last call.

    Returns
    -------
    Training
        Every loss, and whether it had converged.

    Raises
    ------
    KoriskError
        If shapes do not fit together, the checkpoint belongs to another training, or the loss is
        not finite.

    Examples
    --------
    >>> import torch
    >>> from korisk.fitting import Recipe, train
    >>> from korisk.networks import DenseNet
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> net, draws = DenseNet(3, 3, relu=False), torch.Generator().manual_seed(1)
    >>> recipe = Recipe(optimiser="sgd", rate=0.2, iterations=300, batch=8)
    >>> _ = train(net, x, 2 * x, recipe, generator=draws)
    >>> net.matrix().detach().diagonal().round(decimals=2).tolist()
    [2.0, 2.0, 2.0]
    """
    pool = checked_pool(network, inputs, targets)
    if (indices is None) == (generator is None):
        raise KoriskError("pass either indices= or generator=, which batches are drawn from")
    if generator is not None:
        indices = draw_batches(len(inputs), recipe.batch, recipe.iterations, generator)
    runs = runs_of(network)
    leading = (recipe.iterations,) if runs is None else (recipe.iterations, runs)
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
    every = _checks.count("every", every, at_least=1, remedy="try 500")
    trainer = _Trainer(network, pool, indices.to(inputs.device), recipe)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        trainer.resume(path)
    else:
        trainer.evaluate()
    # The loss before the last tenth is what convergence is judged by: a stop of its own, at which
    # neither a checkpoint is written nor progress reported.
    late = recipe.iterations - recipe.last_tenth
    pauses = {*range(every, recipe.iterations, every), recipe.iterations}
    for pause in sorted(pause for pause in {late, *pauses} if pause > trainer.done):
        trainer.advance(pause)
        if pause in (late, recipe.iterations):
            trainer.evaluate()
        if pause not in pauses:
            continue
        if path is not None:
            trainer.save(path)
        if progress is not None:
            progress(pause, trainer.stepper.losses[max(0, pause - every) : pause].mean(0).cpu())
    return trainer.result()


class _Trainer:
    """A training in progress: steps, evaluations and checkpoints."""

    def __init__(self, network: nn.Module, pool: Pool, indices: Tensor, recipe: Recipe) -> None:
        self.network, self.recipe, self.pool, self.done = network, recipe, pool, 0
        self.stepper = Stepper(network, pool, indices, recipe)
        self.samples, self.shares = fixed_samples(indices, pool[0].dtype)
        self.standings: dict[int, Standing] = {}  # by the iterations done
        operators = [module for module in network.modules() if isinstance(module, LinearOperator)]
        # Buffers of known operators never change and can be large: a checkpoint leaves them out.
        known = {id(buffer) for operator in operators for buffer in operator.buffers()}
        buffers = {name: b for name, b in network.named_buffers() if id(b) not in known}
        self.learned: dict[str, Tensor] = {**trainable(network), **buffers}
        shapes = (f"{name} {shape_text(tuple(p.shape))}" for name, p in self.learned.items())
        samples = torch.unique(self.samples)
        self.identity = {
            "format": _FORMAT,
            **asdict(recipe),
            "weights": ", ".join(shapes),
            "precision": str(pool[0].dtype),
            "network": hashlib.sha256(repr(network).encode()).hexdigest(),
            "number of samples": len(pool[0]),
            "order of samples": fingerprint([indices]),
            "data": fingerprint(gather(tensor, samples) for tensor in pool),
        }

    def evaluate(self) -> None:
        """Record the loss of each run and the norm of its gradient on the fixed samples."""
        weights = list(trainable(self.network).values())
        loss = self.shares.new_zeros(self.shares.shape[:-1])
        gradients = [torch.zeros_like(weight) for weight in weights]
        pieces = (torch.split(values, _PIECE, -1) for values in (self.samples, self.shares))
        with _evaluating(self.network), torch.enable_grad():
            for samples, shares in zip(*pieces, strict=True):
                inputs, targets = (gather(values, samples) for values in self.pool)
                residual = self.network(inputs) - targets
                losses = (residual.square().flatten(samples.ndim).mean(-1) * shares).sum(-1)
                loss += losses.detach()
                piece_gradients = torch.autograd.grad(losses.sum(), weights)
                for total, piece_gradient in zip(gradients, piece_gradients, strict=True):
                    total += piece_gradient
        squares = [values.square().flatten(loss.ndim).sum(-1) for values in gradients]
        norm = torch.stack(squares).sum(0).sqrt()
        self.standings[self.done] = Standing(loss.cpu(), norm.cpu())
        if not bool(torch.isfinite(loss).all()):
            raise diverged(self.done, self.recipe)

    def advance(self, mark: int) -> None:
        """Train up to an iteration; raise if the training diverged."""
        before, self.done = self.done, mark
        self.stepper.advance(mark - before)
        recent = self.stepper.losses[before:mark].reshape(mark - before, -1)
        diverged_iterations = (~torch.isfinite(recent)).any(1).nonzero()
        if len(diverged_iterations):
            raise diverged(before + int(diverged_iterations[0]) + 1, self.recipe)
        if not all(bool(torch.isfinite(p).all()) for p in self.stepper.optimiser.parameters):
            raise diverged(mark, self.recipe)

    def save(self, path: Path) -> None:
        """Write the checkpoint whole or not at all, in place of an earlier one."""
        content = {
            "identity": self.identity,
            "iteration": self.done,
            "learned": {name: value.detach() for name, value in self.learned.items()},
            "state": self.stepper.optimiser.state,
            "losses": self.stepper.losses[: self.done].clone(),
            "standings": {mark: tuple(standing) for mark, standing in self.standings.items()},
        }
        file = io.BytesIO()
        torch.save(content, file)
        payload = file.getvalue()
        write_bytes(path, _MARK + hashlib.sha256(payload).digest() + payload)

    @torch.no_grad()
    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of this training."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                payload = path.read_bytes()
                header, payload = payload[:48], payload[48:]
                if header != _MARK + hashlib.sha256(payload).digest():
                    raise ValueError("it is not as it was written")
                # A small archive may unpack to more than the memory.
                with zipfile.ZipFile(io.BytesIO(payload)) as archive:
                    if any(member.file_size > len(payload) for member in archive.infolist()):
                        raise ValueError("it claims more than it holds")
                device = self.stepper.losses.device
                content = torch.load(io.BytesIO(payload), map_location=device, weights_only=True)
            require_same(path, content["identity"], self.identity)
            self.done = int(content["iteration"])
            if not 0 < self.done <= self.recipe.iterations:
                raise ValueError("the recipe has no such iteration")
            for name, value in self.learned.items():
                value.copy_(content["learned"][name])
            for tensors, values in zip(self.stepper.optimiser.state, content["state"], strict=True):
                for tensor, value in zip(tensors, values, strict=True):
                    tensor.copy_(value)
            self.stepper.losses[: self.done].copy_(content["losses"])
            self.stepper.iteration.fill_(self.done)
            for mark, (loss, norm) in content["standings"].items():
                self.standings[mark] = Standing(loss.cpu(), norm.cpu())
            if self.done == self.recipe.iterations:
                self.result()  # fails if an evaluation is missing
        except KoriskError:
            raise
        except Exception as error:  # whatever a damaged or foreign file causes in the reader
            problem = f"the checkpoint is damaged or something else: {reason(error)}; {REMEDY}"
            raise KoriskError(f"{path}: {problem}") from None

    def result(self) -> Training:
        """The outcome."""
        targets, recipe = self.pool[1], self.recipe
        # The mean squared error of outputs that are right but for rounding.
        rounding = 8 * torch.finfo(targets.dtype).eps
        norm = float(torch.linalg.vector_norm(targets, dtype=torch.float64))
        return Training(
            recipe=recipe,
            losses=self.stepper.losses.cpu(),
            negligible=rounding**2 * norm**2 / targets.numel(),
            start=self.standings[0],
            late=self.standings[recipe.iterations - recipe.last_tenth],
            end=self.standings[recipe.iterations],
        )


# --- Evaluation ----------------------------------------------------------------------------------


@contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    """Put the network into evaluation mode; restore the mode of every module at exit."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def fixed_samples(indices: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Up to 64 samples that each run draws, and their shares in its loss, ([runs,] samples)."""
    single = indices.ndim == 2
    runs = [spread(torch.unique(run)) for run in ([indices] if single else indices.unbind(1))]
    positions = torch.arange(max(len(samples) for samples in runs), device=indices.device)
    # Runs of fewer samples are filled up with samples of weight zero.
    filled = torch.stack([samples[positions % len(samples)] for samples in runs])
    shares = torch.stack([(positions < len(samples)) / len(samples) for samples in runs]).to(dtype)
    return (filled[0], shares[0]) if single else (filled, shares)


def spread(samples: Tensor) -> Tensor:
    """All samples, or 64 that are evenly spaced among them."""
    if len(samples) <= _SAMPLES:
        return samples
    return samples[torch.arange(_SAMPLES, device=samples.device) * len(samples) // _SAMPLES]


# --- Checks --------------------------------------------------------------------------------------


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """A digest of the tensors' bytes, the same on every device."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def require_same(path: Path, theirs: object, ours: Mapping[str, object]) -> None:
    """Refuse the checkpoint of another training."""
    for field, value in ours.items():
        stored = theirs.get(field) if isinstance(theirs, dict) else None
        if type(stored) is not type(value) or stored != value:
            difference = f"its {field} is {shown(stored)} and here it is {shown(value)}; {REMEDY}"
            raise KoriskError(f"{path}: is a checkpoint of another training, {difference}")


def reason(error: BaseException) -> str:
    """An error as one short line."""
    text = " ".join(str(getattr(error, "strerror", None) or error).split())
    # PyTorch's text goes on to say how to allow pickled objects, which is bad advice here.
    if text.startswith("Weights only load failed"):
        return "it holds something else than tensors"
    return text if len(text) <= 100 else text[:97] + "..."


def diverged(iteration: int, recipe: Recipe) -> KoriskError:
    """The error to raise if the loss or weights are not finite."""
    where = f"iteration {iteration:,} of {recipe.iterations:,}"
    remedy = f"lower the rate, now {recipe.rate:g}"
    return KoriskError(f"training diverged: the loss is not finite at {where}; {remedy}")


def checked_pool(network: nn.Module, inputs: Tensor, targets: Tensor) -> Pool:
    """Inputs and targets, checked to fit the network."""
    weights = list(trainable(network).values())
    if not weights:
        kind = type(network).__name__
        raise KoriskError(f"{kind} has no weights to train; unfreeze some with requires_grad_()")
    weight = weights[0]
    for field, values in (("inputs", inputs), ("targets", targets)):
        if (values.dtype, values.device) != (weight.dtype, weight.device):
            rule = f"be {weight.dtype} on {weight.device} as the network is"
            got = f"{values.dtype} on {values.device}"
            raise invalid(field, rule, values, "bring them together with .to(...)", got=got)
    require_pairs(inputs, targets)
    # Without this check, broadcasting would accept targets of another shape than the outputs.
    runs = runs_of(network)
    leading = (1,) if runs is None else (runs, 1)
    with _evaluating(network), torch.no_grad():
        image = network(inputs[:1].expand(*leading, *inputs.shape[1:]))
    shape = shape_text(tuple(image.shape[len(leading) :]), batched=True)
    rule = f"have the shape of the network's outputs, {shape}"
    fits = image.shape == (*leading, *targets.shape[1:])
    _checks.require(fits, "targets", rule, targets, got=shape_text(tuple(targets.shape)))
    return inputs.detach(), targets.detach()
