"""Training by gradients: any network, several runs side by side, interrupted and resumed."""

import hashlib
import io
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
_EAGER = 3  # steps before a capture: libraries set themselves up in them
_FORMAT = "korisk training 3"
_MARK = b"korisk training\n"  # 16 bytes; 32 of SHA-256 and PyTorch's own format follow
REMEDY = "delete it and run again, or name another"
_SAMPLES = 64  # of each run, on which the loss is evaluated before, late and after
_PIECE = 16  # samples that are evaluated at once

Pool = tuple[Tensor, Tensor]  # inputs (samples, ...) and targets (samples, ...)
Progress = Callable[[int, Tensor], None]  # iterations done, mean loss since the last call


def runs_of(network: nn.Module) -> int | None:
    """How many runs are trained side by side in a network; None where it has no axis for them."""
    runs = getattr(network, "runs", None)
    return runs if isinstance(runs, int) else None


def trainable(network: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name."""
    return {name: p for name, p in network.named_parameters() if p.requires_grad}


def gather(pool: Tensor, chosen: Tensor) -> Tensor:
    """The chosen samples of (samples, ...), in the shape (*chosen.shape, ...)."""
    return pool.index_select(0, chosen.flatten()).reshape(*chosen.shape, *pool.shape[1:])


class Optimiser:
    """PyTorch's Adam, Adagrad and SGD on lists of tensors; `state` is all that they remember."""

    def __init__(self, parameters: Sequence[Tensor], recipe: Recipe) -> None:
        self.parameters, self.recipe = list(parameters), recipe
        memories = {"adam": 2, "adagrad": 1, "sgd": 1 if recipe.momentum else 0}[recipe.optimiser]
        self.state = [[torch.zeros_like(p) for p in parameters] for _ in range(memories)]
        step = torch.arange(1, recipe.iterations + 1, dtype=torch.float64)
        first, second = _ADAM_BETAS
        # Adam's rate and root at each iteration, which free its running means of their start.
        self.rates = (recipe.rate / (1 - first**step)).to(self.parameters[0])
        self.roots = (1 - second**step).sqrt().to(self.parameters[0])

    def step(self, slopes: Sequence[Tensor], iteration: Tensor) -> None:
        """Move the parameters in place by the gradients; `iteration`, (1,), counts from 0."""
        for parameter, gradient, *memory in zip(self.parameters, slopes, *self.state, strict=True):
            if self.recipe.optimiser == "adam":
                mean, square = memory
                mean.lerp_(gradient, 1 - _ADAM_BETAS[0])
                square.mul_(_ADAM_BETAS[1]).addcmul_(gradient, gradient, value=1 - _ADAM_BETAS[1])
                size = (square.sqrt() / self.roots[iteration]).add_(_ADAM_EPSILON)
                parameter.sub_((mean / size).mul_(self.rates[iteration]))
            elif self.recipe.optimiser == "adagrad":
                (total,) = memory
                total.addcmul_(gradient, gradient)
                root = total.sqrt().add_(_ADAGRAD_EPSILON)
                parameter.addcdiv_(gradient, root, value=-self.recipe.rate)
            else:
                move = gradient
                if memory:
                    (move,) = memory
                    move.mul_(self.recipe.momentum).add_(gradient)
                parameter.add_(move, alpha=-self.recipe.rate)


def gradient(network: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The losses of a batch, () or (runs,), and the gradients of their sum."""
    lead = 0 if runs_of(network) is None else 1  # where the batch's axis is
    if type(network) is not KnownOperatorNet:
        with torch.enable_grad():
            losses = (network(x) - y).square().flatten(lead).mean(-1)
            gradients = torch.autograd.grad(losses.sum(), list(trainable(network).values()))
        return losses.detach(), list(gradients)
    # ReLU(B W x) is written out: nothing is recorded, and no gradient of x is made on the way.
    with torch.no_grad():
        tail = network.linear_tail
        image = tail(x * network.spread_weights(x))
        residual = (torch.relu(image) if network.relu else image) - y
        losses = residual.square().flatten(lead).mean(-1)
        if network.relu:
            residual = residual * (image > 0)
        entries = residual[0].numel() if lead else residual.numel()
        slope = (x * tail.adjoint(residual)).sum(lead).mul_(2 / entries)
    return losses, [slope]


def captured(step: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
    """A step as a CUDA graph; None where something in it cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            step()
    except RuntimeError:
        return None
    return graph


class Stepper:
    """Training, one iteration at a time; `losses` and `iteration` live on the device."""

    def __init__(self, network: nn.Module, pool: Pool, indices: Tensor, recipe: Recipe) -> None:
        self.network, self.indices, (self.inputs, self.targets) = network, indices, pool
        self.optimiser = Optimiser([p.detach() for p in trainable(network).values()], recipe)
        # Other networks may decide on the host what they do next, which a replay would not repeat.
        fixed = indices.is_cuda and type(network) in (KnownOperatorNet, DenseNet)
        self.until_capture = _EAGER if fixed else -1
        self.graph: torch.cuda.CUDAGraph | None = None
        runs = () if indices.ndim == 2 else (indices.shape[1],)
        self.losses = self.inputs.new_zeros(len(indices), *runs)
        self.iteration = torch.zeros(1, dtype=torch.int64, device=indices.device)

    def advance(self, steps: int) -> None:
        """Take so many steps, on CUDA all but the first by replaying a captured one."""
        with torch.cuda.device_of(self.indices):  # type: ignore[no-untyped-call]
            for _ in range(steps):
                if self.until_capture == 0:
                    self.graph = captured(self.step)
                self.until_capture -= 1
                self.step() if self.graph is None else self.graph.replay()

    @torch.no_grad()
    def step(self) -> None:
        """Take one step."""
        chosen = self.indices.index_select(0, self.iteration)[0]
        x, y = gather(self.inputs, chosen), gather(self.targets, chosen)
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
        and its loss is the sum of the runs' own: each run evolves as it would alone.
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
    lead = (recipe.iterations,) if runs is None else (recipe.iterations, runs)
    if (
        not isinstance(indices, Tensor)
        or indices.dtype != torch.int64
        or indices.shape[:-1] != lead
        or not 1 <= indices.shape[-1] <= recipe.batch
        or not 0 <= int(indices.min()) <= int(indices.max()) < len(inputs)
    ):
        shape, last = shape_text((*lead, recipe.batch)), len(inputs) - 1
        rule = f"be torch.int64 of shape {shape}, or fewer in the last axis, from 0 to {last}"
        raise invalid("indices", rule, indices, "use draw_batches")
    every = _checks.count("every", every, at_least=1, remedy="try 500")
    trainer = _Trainer(network, pool, indices.to(inputs.device), recipe)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        trainer.resume(path)
    else:
        trainer.evaluate()
    late = recipe.iterations - recipe.last_tenth
    pauses = {*range(every, recipe.iterations, every), recipe.iterations}
    for mark in sorted({late, *pauses}):
        if mark <= trainer.done:
            continue
        trainer.advance(mark)
        if mark in (late, recipe.iterations):
            trainer.evaluate()
        if mark not in pauses:
            continue
        if path is not None:
            trainer.save(path)
        if progress is not None:
            progress(mark, trainer.stepper.losses[max(0, mark - every) : mark].mean(0).cpu())
    return trainer.result()


class _Trainer:
    """A training in progress: what is stepped, what is evaluated, and what a checkpoint holds."""

    def __init__(self, network: nn.Module, pool: Pool, indices: Tensor, recipe: Recipe) -> None:
        self.network, self.recipe, self.pool, self.done = network, recipe, pool, 0
        self.stepper = Stepper(network, pool, indices, recipe)
        self.samples, self.shares = fixed_samples(indices, pool[0].dtype)
        self.standings: dict[int, Standing] = {}  # by the iterations done
        operators = [each for each in network.modules() if isinstance(each, LinearOperator)]
        known = {id(buffer) for operator in operators for buffer in operator.buffers()}
        buffers = {name: b for name, b in network.named_buffers() if id(b) not in known}
        self.learned: dict[str, Tensor] = {**trainable(network), **buffers}
        shapes = (f"{name} {shape_text(tuple(v.shape))}" for name, v in self.learned.items())
        seen = torch.unique(self.samples)
        self.identity = {
            "format": _FORMAT,
            **asdict(recipe),
            "weights": ", ".join(shapes),
            "precision": str(pool[0].dtype),
            "network": hashlib.sha256(repr(network).encode()).hexdigest(),
            "number of samples": len(pool[0]),
            "order of samples": fingerprint([indices]),
            "data": fingerprint(gather(each, seen) for each in pool),
        }

    def evaluate(self) -> None:
        """Take the loss of each run and the norm of its gradient on the fixed samples."""
        weights = list(trainable(self.network).values())
        total = self.shares.new_zeros(self.shares.shape[:-1])
        gradients = [torch.zeros_like(weight) for weight in weights]
        pieces = (torch.split(each, _PIECE, -1) for each in (self.samples, self.shares))
        with _evaluating(self.network), torch.enable_grad():
            for samples, shares in zip(*pieces, strict=True):
                inputs, targets = (gather(each, samples) for each in self.pool)
                off = self.network(inputs) - targets
                losses = (off.square().flatten(samples.ndim).mean(-1) * shares).sum(-1)
                total += losses.detach()
                parts = torch.autograd.grad(losses.sum(), weights)
                for total_slope, part in zip(gradients, parts, strict=True):
                    total_slope += part
        squares = [each.square().flatten(total.ndim).sum(-1) for each in gradients]
        norm = torch.stack(squares).sum(0).sqrt()
        self.standings[self.done] = Standing(total.cpu(), norm.cpu())
        if not bool(torch.isfinite(total).all()):
            raise diverged(self.done, self.recipe)

    def advance(self, mark: int) -> None:
        """Train up to an iteration, and check that nothing diverged on the way."""
        before, self.done = self.done, mark
        self.stepper.advance(mark - before)
        recent = self.stepper.losses[before:mark].reshape(mark - before, -1)
        wrong = (~torch.isfinite(recent)).any(1).nonzero()
        if len(wrong):
            raise diverged(before + int(wrong[0]) + 1, self.recipe)
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
            "standings": {at: tuple(standing) for at, standing in self.standings.items()},
        }
        file = io.BytesIO()
        torch.save(content, file)
        written = file.getvalue()
        write_bytes(path, _MARK + hashlib.sha256(written).digest() + written)

    @torch.no_grad()
    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of this training."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                written = path.read_bytes()
                start, written = written[:48], written[48:]
                if start != _MARK + hashlib.sha256(written).digest():
                    raise ValueError("it is not as it was written")
                with zipfile.ZipFile(io.BytesIO(written)) as archive:
                    if any(each.file_size > len(written) for each in archive.infolist()):
                        raise ValueError("it claims more than it holds")
                place = self.stepper.losses.device
                content = torch.load(io.BytesIO(written), map_location=place, weights_only=True)
            require_same(path, content["identity"], self.identity)
            self.done = int(content["iteration"])
            if not 0 < self.done <= self.recipe.iterations:
                raise ValueError("the recipe has no such iteration")
            for name, value in self.learned.items():
                value.copy_(content["learned"][name])
            for kept, found in zip(self.stepper.optimiser.state, content["state"], strict=True):
                for tensor, value in zip(kept, found, strict=True):
                    tensor.copy_(value)
            self.stepper.losses[: self.done].copy_(content["losses"])
            self.stepper.iteration.fill_(self.done)
            standings = content["standings"].items()
            self.standings = {at: Standing(*(t.cpu() for t in pair)) for at, pair in standings}
            if self.done == self.recipe.iterations:
                self.result().explain()  # nothing else would notice that something is missing
        except KoriskError:
            raise
        except Exception as error:  # whatever a damaged or foreign file causes in the reader
            why = f"the checkpoint is damaged or something else: {reason(error)}; {REMEDY}"
            raise KoriskError(f"{path}: {why}") from None

    def result(self) -> Training:
        """The outcome."""
        targets, recipe = self.pool[1], self.recipe
        # The mean squared error of outputs that are right but for rounding.
        error = 8 * torch.finfo(targets.dtype).eps
        size = float(torch.linalg.vector_norm(targets, dtype=torch.float64))
        return Training(
            recipe=recipe,
            losses=self.stepper.losses.cpu(),
            negligible=error**2 * size**2 / targets.numel(),
            start=self.standings[0],
            late=self.standings[recipe.iterations - recipe.last_tenth],
            end=self.standings[recipe.iterations],
        )


# --- Evaluation ----------------------------------------------------------------------------------


@contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    """The network in evaluation mode, and every part of it back in its own afterwards."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def fixed_samples(indices: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Up to 64 samples that each run draws, and their shares in its loss, ([runs,] samples)."""
    alone = indices.ndim == 2
    chosen = [spread(torch.unique(run)) for run in ([indices] if alone else indices.unbind(1))]
    places = torch.arange(max(len(samples) for samples in chosen), device=indices.device)
    # Runs of fewer samples are filled up with samples of weight zero.
    filled = torch.stack([samples[places % len(samples)] for samples in chosen])
    shares = torch.stack([(places < len(samples)) / len(samples) for samples in chosen]).to(dtype)
    return (filled[0], shares[0]) if alone else (filled, shares)


def spread(samples: Tensor) -> Tensor:
    """All samples, or 64 that are evenly spaced among them."""
    if len(samples) <= _SAMPLES:
        return samples
    return samples[torch.arange(_SAMPLES, device=samples.device) * len(samples) // _SAMPLES]


# --- What sharded training shares ----------------------------------------------------------------


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
        found = theirs.get(field) if isinstance(theirs, dict) else None
        if type(found) is not type(value) or found != value:
            why = f"its {field} is {shown(found)} and here it is {shown(value)}; {REMEDY}"
            raise KoriskError(f"{path}: is a checkpoint of another training, {why}")


def reason(error: BaseException) -> str:
    """What went wrong, in one short line; of a failure on several ranks, that of the first."""
    failures = getattr(error, "failures", None)
    if failures:
        error = next(iter(failures.values()))[0]
    text = " ".join(str(getattr(error, "strerror", None) or error).split())
    if text.startswith("Weights only load failed"):  # after which PyTorch says how to allow it
        return "it holds something else than tensors"
    return text if len(text) <= 100 else text[:97] + "..."


def diverged(iteration: int, recipe: Recipe) -> KoriskError:
    """The error of a training whose loss or weights are not finite."""
    where = f"iteration {iteration:,} of {recipe.iterations:,}"
    remedy = f"lower the rate, now {recipe.rate:g}"
    return KoriskError(f"training diverged: the loss is not finite at {where}; {remedy}")


def checked_pool(network: nn.Module, inputs: Tensor, targets: Tensor) -> Pool:
    """Inputs and targets that fit the network."""
    weights = list(trainable(network).values())
    if not weights:
        kind = type(network).__name__
        raise KoriskError(f"{kind} has no weights to train; unfreeze some with requires_grad_()")
    like = weights[0]
    for field, values in (("inputs", inputs), ("targets", targets)):
        if (values.dtype, values.device) != (like.dtype, like.device):
            rule = f"be {like.dtype} on {like.device} as the network is"
            given = f"{values.dtype} on {values.device}"
            raise invalid(field, rule, values, "bring them together with .to(...)", got=given)
    require_pairs(inputs, targets)
    # Broadcasting would compute a loss of targets that are not of the outputs' shape.
    runs = runs_of(network)
    lead = (1,) if runs is None else (runs, 1)
    with _evaluating(network), torch.no_grad():
        image = network(inputs[:1].expand(*lead, *inputs.shape[1:]))
    wanted = shape_text(tuple(image.shape[len(lead) :]), batched=True)
    rule = f"have the shape of the network's outputs, {wanted}"
    fits = image.shape == (*lead, *targets.shape[1:])
    _checks.require(fits, "targets", rule, targets, got=shape_text(tuple(targets.shape)))
    return inputs.detach(), targets.detach()
