"""`korisk train`: the dense network of a study's point, trained on several ranks."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from korisk.cli.output import cells, console, number, print_json, table
from korisk.cli.places import Device, chosen_device
from korisk.errors import KoriskError, did_you_mean
from korisk.files import read_text, write_text
from korisk.studies.account import versions
from korisk.studies.lock import WriteLock
from korisk.studies.study import Study
from korisk.theory import _checks
from korisk.theory.footprint import format_bytes, sharded_blocks, sharded_bytes, share_bytes

if TYPE_CHECKING:
    from korisk.fitting import Recipe
    from korisk.fitting.sharded import Ranks, ShardedDense, ShardedTraining
    from korisk.problems import CtScanner, Pairs

Hear = Callable[[int, float], None]  # iterations done, mean loss since the last call

RESULT = "train.json"
_CHECKPOINTS = "checkpoints"
_MOST_RANKS = 4096
_PIECE = 64  # test samples that are reconstructed at once
_MAX_RESULT = 10**9  # bytes


@dataclass(frozen=True, kw_only=True)
class _Job:
    """What is trained, how, and where."""

    study: Path
    point: str
    spec: dict[str, Any]
    seed: int
    samples: int
    recipe: Recipe
    every: int
    blocks: int | None
    offload: bool
    device: str
    out: Path
    ranks: int

    @property
    def scanner(self) -> CtScanner:
        from korisk.studies.cells import scanner_of

        return scanner_of(self.spec)

    @property
    def relu(self) -> bool:
        return bool(self.spec["models"].get("FC", {}).get("relu", True))

    @property
    def block_count(self) -> int:
        scanner = self.scanner
        rows, columns = scanner.side**2, scanner.views * scanner.bins
        size = scanner.dtype.itemsize
        return self.blocks or sharded_blocks(rows, columns, itemsize=size)

    @property
    def parameters(self) -> int:
        return self.scanner.side**2 * self.scanner.views * self.scanner.bins

    @property
    def checkpoints(self) -> Path:
        return self.out / _CHECKPOINTS

    def predicted(self, ranks: int) -> int:
        """Bytes on the device of each rank, data apart."""
        return sharded_bytes(
            self.parameters,
            ranks=ranks,
            optimiser=self.recipe.optimiser,
            blocks=self.block_count,
            momentum=bool(self.recipe.momentum),
            offload=self.offload,
            itemsize=self.scanner.dtype.itemsize,
        )

    def command(self) -> list[str]:
        """What each rank is started with."""
        recipe = self.recipe
        options = {
            "point": self.point,
            "seed": self.seed,
            "samples": self.samples,
            "out": self.out,
            "ranks": self.ranks,
            "optimiser": recipe.optimiser,
            "rate": repr(recipe.rate),
            "iterations": recipe.iterations,
            "batch": recipe.batch,
            "momentum": repr(recipe.momentum),
            "every": self.every,
            "device": self.device,
            "blocks": self.block_count,
        }
        given = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        offload = ["--offload"] if self.offload else []
        command = [sys.executable, "-m", "korisk", "train", *given, *offload]
        return [*command, "--", str(self.study)]


def train(
    path: Annotated[
        Path,
        typer.Argument(metavar="STUDY.yaml", help="Whose point is trained; see docs/study.md."),
    ],
    point: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which point, where there are several.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Of samples, batches and weights.")] = 1,
    samples: Annotated[
        int | None,
        typer.Option(metavar="N", help="Training samples. [default: the point's largest size]"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where results go. [default: named as the file]"),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            metavar="R", help="Processes to share the weights. [default: one a GPU, or 1]"
        ),
    ] = None,
    optimiser: Annotated[str, typer.Option(metavar="NAME", help="adam, adagrad or sgd.")] = "adam",
    rate: Annotated[float, typer.Option(metavar="X", help="The optimiser's rate.")] = 1e-4,
    iterations: Annotated[int, typer.Option(metavar="K", help="Mini-batches.")] = 1000,
    batch: Annotated[int, typer.Option(metavar="N", help="Samples of each, on all ranks.")] = 4,
    momentum: Annotated[float, typer.Option(metavar="X", help="Of sgd.")] = 0.0,
    every: Annotated[
        int, typer.Option(metavar="K", help="Iterations from one checkpoint to the next.")
    ] = 100,
    offload: Annotated[
        bool, typer.Option("--offload", help="Keep weights in the host's memory; slow.")
    ] = False,
    device: Device = "auto",
    blocks: Annotated[
        int | None, typer.Option(metavar="B", help="Blocks of rows. [default: by size]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Train the dense network of a point by gradients, its weights in parts on several ranks.

    Stop it at any moment: the next run goes on from the last checkpoint, on any number of ranks.
    Under torchrun it joins the ranks that are there, on several machines if need be.
    """
    place = chosen_device(device)
    from korisk.fitting import Recipe
    from korisk.fitting.sharded import among_ranks, launched

    study = Study.read(path)
    name, spec = _chosen(study, point)
    job = _Job(
        study=path,
        point=name,
        spec=spec,
        seed=_checks.count("--seed", seed, at_least=0, at_most=2**31, remedy="give one such as 1"),
        samples=_sample_count(spec, samples),
        recipe=Recipe(
            optimiser=optimiser,  # type: ignore[arg-type]
            rate=rate,
            iterations=iterations,
            batch=batch,
            momentum=momentum,
        ),
        every=_checks.count("--every", every, at_least=1, remedy="try 100"),
        blocks=blocks,
        offload=offload,
        device=place,
        out=out if out is not None else Path(f"{path.stem}-train"),
        ranks=_rank_count(ranks, place),
    )
    _checks.count(
        "--blocks", job.block_count, at_least=1, at_most=job.scanner.side**2, remedy="leave it out"
    )
    if launched():
        _work(job, _tell)
        return
    first = os.environ.get("RANK", "0") == "0"
    with _locked(job) if first else nullcontext():
        _refuse_what_does_not_fit(job)
        if first:
            _say_where_it_stands(job)
        with _display(job, quiet=as_json or not first) as hear:
            if job.ranks == 1 or among_ranks():
                _work(job, hear)
            else:
                _launch(job, hear)
    if first:
        _print(job, as_json)


# --- Options -------------------------------------------------------------------------------------


def _chosen(study: Study, point: str | None) -> tuple[str, dict[str, Any]]:
    points = {task.point: dict(task.spec) for task in study.tasks}
    if point is None:
        if len(points) > 1:
            raise KoriskError(
                f"--point must name one of the study's {len(points)} points"
                f"{did_you_mean('', points)}"
            )
        return next(iter(points.items()))
    if point not in points:
        raise KoriskError(f"--point {point!r} is not in {study.name}{did_you_mean(point, points)}")
    return point, points[point]


def _sample_count(spec: dict[str, Any], asked: int | None) -> int:
    most = 128 if spec["problem"]["population"] == "released-surrogate" else 10**7
    given = spec["sizes"][-1] if asked is None else asked
    return _checks.count("--samples", given, at_least=1, at_most=most, remedy="count phantoms")


def _rank_count(asked: int | None, device: str) -> int:
    import torch

    from korisk.fitting.sharded import among_ranks

    remedy = "count processes, or leave it out"
    if asked is not None:
        _checks.count("--ranks", asked, at_least=1, at_most=_MOST_RANKS, remedy=remedy)
    if among_ranks():
        there = int(os.environ["WORLD_SIZE"])
        if asked not in (None, there):
            raise KoriskError(f"--ranks is {asked}, but {there} were started; leave it out")
        return there
    if device == "cpu":
        return asked or 1
    count = 1 if ":" in device else torch.cuda.device_count()
    if asked is not None and asked > count:
        raise KoriskError(
            f"--ranks must be at most the number of GPUs, {count}, got {asked}; take fewer, or "
            "start more machines with torchrun"
        )
    return asked or count


def _refuse_what_does_not_fit(job: _Job) -> None:
    """Say what a rank takes before the machine finds out, and how many ranks it takes."""
    import torch

    from korisk.operators.engines import free_memory

    here = int(os.environ.get("LOCAL_WORLD_SIZE", job.ranks))  # ranks of this machine
    data = _data_bytes(job)
    host = free_memory(torch.device("cpu")) // here
    free = host if job.device == "cpu" else free_memory(torch.device(job.device))
    needed = job.predicted(job.ranks) + data
    if needed > free:
        fewest = _fewest_ranks(job, free * here if job.device == "cpu" else free, data)
        where = "each on a machine of its own" if job.device == "cpu" else "each on such a GPU"
        enough = f"{fewest:,} ranks, {where}, would do" if fewest else "no number of ranks would do"
        offload = "" if job.offload or job.device == "cpu" else "use --offload, "
        raise KoriskError(
            f"training {job.parameters:,} weights takes {format_bytes(needed)} on each of "
            f"{job.ranks} ranks, of {format_bytes(free)} free for it; {enough}; "
            f"{offload}or fit in dual form with korisk run"
        )
    if job.offload:
        share = _share(job)
        if share > host:
            raise KoriskError(
                f"--offload keeps {format_bytes(share)} of each rank in the host's memory, of "
                f"{format_bytes(host)} free for it; start more ranks on more machines, or fit in "
                "dual form with korisk run"
            )


def _share(job: _Job) -> int:
    return share_bytes(
        job.parameters,
        ranks=job.ranks,
        optimiser=job.recipe.optimiser,
        momentum=bool(job.recipe.momentum),
        itemsize=job.scanner.dtype.itemsize,
    )


def _data_bytes(job: _Job) -> int:
    scanner = job.scanner
    entries = scanner.side**2 + scanner.views * scanner.bins
    samples = job.samples + int(job.spec["pools"]["test"])
    return samples * entries * scanner.dtype.itemsize


def _fewest_ranks(job: _Job, free: int, data: int) -> int | None:
    """The smallest number of ranks with so much memory each; None where there is none."""
    if job.predicted(job.parameters) + data > free:
        return None
    low, high = 1, job.parameters
    while low < high:
        middle = (low + high) // 2
        if job.predicted(middle) + data <= free:
            high = middle
        else:
            low = middle + 1
    return low


# --- Running -------------------------------------------------------------------------------------


@contextmanager
def _locked(job: _Job) -> Iterator[None]:
    try:
        job.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KoriskError(
            f"{job.out}: cannot be made: {error.strerror}; choose another --out"
        ) from None
    lock = WriteLock(job.out / RESULT)
    try:
        yield
    finally:
        lock.release()


def _say_where_it_stands(job: _Job) -> None:
    from korisk.fitting.sharded import newest_iteration

    done, whole = newest_iteration(job.checkpoints), job.recipe.iterations
    if done == whole:
        typer.echo(f"korisk: all {whole:,} iterations were done before", err=True)
    elif done:
        typer.echo(f"korisk: resuming at iteration {done:,} of {whole:,}", err=True)


@contextmanager
def _display(job: _Job, *, quiet: bool) -> Iterator[Hear]:
    """A bar on stderr, where somebody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    stderr = Console(stderr=True)
    if quiet or not stderr.is_terminal:
        yield lambda done, loss: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=stderr, transient=True, redirect_stdout=False) as shown:
        whole = job.recipe.iterations
        bar = shown.add_task("starting", total=whole)

        def hear(done: int, loss: float) -> None:
            words = f"{done:,} of {whole:,} iterations, loss {loss:.4g}"
            shown.update(bar, completed=done, description=words)

        yield hear


def _tell(done: int, loss: float) -> None:
    """From rank 0 to its launcher."""
    print(json.dumps({"done": done, "loss": loss}), flush=True)


def _launch(job: _Job, hear: Hear) -> None:
    from korisk.fitting.sharded import launch

    def listen(line: str) -> None:
        try:
            said = json.loads(line)
            hear(int(said["done"]), float(said["loss"]))
        except (ValueError, KeyError, TypeError):
            pass  # a library's words

    launch(job.command(), job.ranks, hear=listen)


def _work(job: _Job, hear: Hear) -> None:
    """What each rank does."""
    from korisk.fitting import draw_batches
    from korisk.fitting.recipe import released_generator
    from korisk.fitting.sharded import ShardedDense, joined, train_sharded

    with joined(job.device) as ranks:
        pairs, test = _data(job, ranks)
        network = ShardedDense(
            tuple(pairs.inputs.shape[1:]),
            tuple(pairs.targets.shape[1:]),
            ranks=ranks,
            relu=job.relu,
            blocks=job.blocks,
            seed=job.seed,
            offload=job.offload,
            dtype=pairs.inputs.dtype,
        )
        recipe = job.recipe
        indices = draw_batches(
            job.samples, recipe.batch, recipe.iterations, released_generator(job.seed)
        )
        made = train_sharded(
            network,
            *pairs,
            recipe,
            indices=indices,
            folder=job.checkpoints,
            every=job.every,
            progress=hear,
        )
        metrics = _measured(network, test)
        if ranks.first:
            _write(job, network, made, metrics)


def _data(job: _Job, ranks: Ranks) -> tuple[Pairs, Pairs]:
    """Training and test samples: drawn by rank 0, so that all have the same to the bit."""
    import torch
    import torch.distributed as dist

    from korisk.problems import Pairs, draw_pools
    from korisk.studies.cells import noise_of

    scanner, problem, device = job.scanner, job.spec["problem"], ranks.device
    tests = job.spec["pools"]["test"]
    if ranks.first:
        ours = problem["population"] == "ellipses"
        fewest, most = problem["ellipses"] if ours else (1, 4)  # the released ones have their own
        pools = draw_pools(
            scanner,
            seed=job.seed,
            train=job.samples,
            validation=0,
            test=tests,
            population=problem["population"],
            fewest=fewest,
            most=most,
            noise=noise_of(problem["noise"]),
            device=device,
        )
        drawn = pools.train, pools.test
    else:
        shapes = (scanner.views, scanner.bins), (scanner.side, scanner.side)
        drawn = tuple(  # type: ignore[assignment]
            Pairs(*(torch.empty(count, *s, device=device, dtype=scanner.dtype) for s in shapes))
            for count in (job.samples, tests)
        )
    for pairs in drawn:
        for values in pairs:
            dist.broadcast(values, 0)
    return drawn


def _measured(network: ShardedDense, test: Pairs) -> dict[str, float]:
    import torch

    from korisk.problems import measure

    images = [network(piece) for piece in torch.split(test.inputs, _PIECE)]
    return measure(torch.cat(images), test.targets)


# --- Results -------------------------------------------------------------------------------------


def _write(
    job: _Job, network: ShardedDense, made: ShardedTraining, metrics: dict[str, float]
) -> None:
    cost = {
        "ranks": made.ranks,
        "seconds_per_step": made.seconds_per_step,
        "peak_bytes": list(made.peak_bytes),
        "predicted_bytes": job.predicted(made.ranks),
    }
    content = {
        "point": job.point,
        "seed": job.seed,
        "samples": job.samples,
        "recipe": asdict(job.recipe),
        "weights": job.parameters,
        "blocks": len(network.blocks),
        "offload": job.offload,
        "device": job.device,
        "resumed_at": made.resumed_at,
        **cost,
        "metrics": {n: v if math.isfinite(v) else None for n, v in metrics.items()},
        "losses": made.losses.tolist(),
        "versions": dict(versions()),
    }
    if not made.steps:  # what they cost was measured when they were made
        before = _result(job) or {}
        content |= {name: before[name] for name in (*cost, "resumed_at") if name in before}
    write_text(job.out / RESULT, json.dumps(content, indent=1, allow_nan=False) + "\n")


def _result(job: _Job) -> dict[str, Any] | None:
    """The result as it lies there; None where it does not, or is something else."""
    try:
        content = json.loads(read_text(job.out / RESULT, max_bytes=_MAX_RESULT))
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _print(job: _Job, as_json: bool) -> None:
    content = _result(job)
    if content is None:
        raise KoriskError(f"{job.out / RESULT}: cannot be read; run again to write it anew")
    if as_json:
        print_json(content)
        return
    out = console()
    title = f"{job.point}, seed {job.seed}: dense network, {job.samples:,} training samples"
    out.print(title, style="bold", highlight=False)
    shown = table("", "metric on the test set", "mean")
    shown.title = None
    for name, value in content["metrics"].items():
        shown.add_row(*cells(name, "-" if value is None else number(value)))
    out.print(shown)
    losses, tenth = content["losses"], max(1, len(content["losses"]) // 10)
    step = content["seconds_per_step"]
    out.print(
        f"The loss is {number(sum(losses[-tenth:]) / tenth)} over the last {tenth:,} of "
        f"{len(losses):,} iterations"
        + (f", {number(step, 3)} s each" if step is not None else "")
        + f"; on {content['ranks']} rank{'s' if content['ranks'] > 1 else ''}, up to "
        f"{format_bytes(max(content['peak_bytes'], default=0))} of memory each.",
        highlight=False,
    )
    out.print(f"Results lie in {job.out / RESULT}.", highlight=False)
