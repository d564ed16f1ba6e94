"""`korisk train`: the dense network of a study's point, trained on several ranks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from korisk import _checks
from korisk.cli.output import cells, console, number, print_json, table
from korisk.cli.places import Device, chosen_device
from korisk.errors import KoriskError, did_you_mean
from korisk.files import make_folder
from korisk.studies.spec.study import Study
from korisk.studies.store.lock import WriteLock
from korisk.theory.footprint import format_bytes

if TYPE_CHECKING:
    from korisk.studies.run.sharded_job import Hear, Job

_MOST_RANKS = 4096


def train(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY.yaml", help="The study with the point; see docs/reference/study.md."
        ),
    ],
    point: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which point, if there are several.")
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="S", help="Random seed for samples, batches and weights.")
    ] = 1,
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
    rate: Annotated[float, typer.Option(metavar="X", help="Learning rate.")] = 1e-4,
    iterations: Annotated[int, typer.Option(metavar="K", help="Number of mini-batches.")] = 1000,
    batch: Annotated[
        int, typer.Option(metavar="N", help="Samples of a mini-batch, over all ranks.")
    ] = 4,
    momentum: Annotated[float, typer.Option(metavar="X", help="Momentum of sgd.")] = 0.0,
    every: Annotated[int, typer.Option(metavar="K", help="Iterations between checkpoints.")] = 100,
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

    It can be stopped at any time: the next run continues from the last checkpoint, on any number of
    ranks. Under torchrun it joins the ranks that are there, on several machines if need be.
    """
    place = chosen_device(device)
    from korisk.fitting import Recipe
    from korisk.fitting.gradient.sharded import among_ranks, launched
    from korisk.studies.run.sharded_job import Job, refuse_what_does_not_fit, work

    study = Study.read(path)
    name, spec = _chosen(study, point)
    job = Job(
        study=path,
        point=name,
        spec=spec,
        seed=_checks.count("--seed", seed, at_least=0, at_most=2**31, remedy="give one such as 1"),
        samples=_sample_count(spec, samples),
        recipe=Recipe(
            optimiser=optimiser,  # type: ignore[arg-type]
            rate=rate,
            iterations=_checks.count(
                "--iterations", iterations, at_least=1, at_most=10**7, remedy="try 1000"
            ),
            batch=_checks.count("--batch", batch, at_least=1, at_most=10**5, remedy="try 4"),
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
        work(job, _tell, _tell_resumed)
        return
    first = os.environ.get("RANK", "0") == "0"
    with _locked(job) if first else nullcontext():
        refuse_what_does_not_fit(job)
        with _display(job, quiet=as_json or not first) as hear:
            if job.ranks == 1 or among_ranks():
                work(job, hear, partial(_say_where_it_stands, job))
            else:
                _launch(job, hear)
    if first:
        _print(job, as_json)


# --- Options -------------------------------------------------------------------------------------


def _chosen(study: Study, point: str | None) -> tuple[str, dict[str, Any]]:
    points = {task.point: dict(task.spec) for task in study.tasks}
    kind = study.tasks[0].spec["problem"]["kind"]
    if kind != "ct":
        raise KoriskError(f"korisk train is for kind ct, got kind {kind}; use korisk run")
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

    from korisk.fitting.gradient.sharded import among_ranks

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


# --- Running -------------------------------------------------------------------------------------


@contextmanager
def _locked(job: Job) -> Iterator[None]:
    make_folder(job.out)
    lock = WriteLock(job.result)
    try:
        yield
    finally:
        lock.release()


def _say_where_it_stands(job: Job, done: int) -> None:
    whole = job.recipe.iterations
    if done == whole:
        typer.echo(f"korisk: all {whole:,} iterations were done before", err=True)
    else:
        typer.echo(f"korisk: resuming at iteration {done:,} of {whole:,}", err=True)


@contextmanager
def _display(job: Job, *, quiet: bool) -> Iterator[Hear]:
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


def _command(job: Job) -> list[str]:
    """What each rank is started with."""
    recipe = job.recipe
    options = {
        "point": job.point,
        "seed": job.seed,
        "samples": job.samples,
        "out": job.out,
        "ranks": job.ranks,
        "optimiser": recipe.optimiser,
        "rate": repr(recipe.rate),
        "iterations": recipe.iterations,
        "batch": recipe.batch,
        "momentum": repr(recipe.momentum),
        "every": job.every,
        "device": job.device,
        "blocks": job.block_count,
    }
    given = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    offload = ["--offload"] if job.offload else []
    command = [sys.executable, "-m", "korisk", "train", *given, *offload]
    return [*command, "--", str(job.study)]


def _tell_resumed(done: int) -> None:
    print(json.dumps({"resumed": done}), flush=True)


def _launch(job: Job, hear: Hear) -> None:
    from korisk.fitting.gradient.sharded import launch

    def listen(line: str) -> None:
        try:
            said = json.loads(line)
            if "resumed" in said:
                _say_where_it_stands(job, int(said["resumed"]))
                return
            hear(int(said["done"]), float(said["loss"]))
        except (ValueError, KeyError, TypeError):
            pass  # a library's words

    launch(_command(job), job.ranks, hear=listen)


def _print(job: Job, as_json: bool) -> None:
    content = job.read_result()
    if content is None:
        raise KoriskError(f"{job.result}: cannot be read; run again to write it anew")
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
    out.print(f"Results lie in {job.result}.", highlight=False)
