"""`korisk ablate`: what a known operator in a network saves, in samples."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from korisk.cli import pilot
from korisk.cli.compute import Device, chosen_device
from korisk.cli.output import (
    cells,
    console,
    duration,
    json_text,
    number,
    print_json,
    table,
    warnings_as_lines,
    whole,
    with_options,
)
from korisk.cli.rehearsal import read_build, training_options
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, OutOfReachError, did_you_mean, shown
from korisk.files import make_folder, read_yaml, write_text

if TYPE_CHECKING:
    from korisk.ablation.ablation import Ablation
    from korisk.studies.spec.study import Study

_KEYS = ("replace", "by", "start", "rank", "kernel", "wrong", "target")  # of `ablation:`
_OF_BY = ("start", "rank", "kernel", "wrong")
_CHANGES = (("replace", "layer"), ("by", "by"))  # beside these, and their names in `Replacement`
CURVES, RESULT, FIGURE = "curves.csv", "ablation.json", "ablation"


def ablate(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[STUDY.yaml]",
            help="A study with one of models.networks, and ablation: for what is replaced.",
        ),
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:BUILD",
            help="Your own network, which BUILD() returns, for the study's problem; without a "
            "study, the file also defines operator, and images and noise if it has them.",
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which of models.networks. [default: the first]"),
    ] = None,
    point: Annotated[
        str | None, typer.Option(metavar="NAME", help="Point of the study. [default: the first]")
    ] = None,
    replace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The known layer to replace. [default: A^T]"),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT", help="dense, low-rank, convolution or wrong. [default: dense]"
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="WHERE", help="random, or operator: where it starts to learn."),
    ] = None,
    rank: Annotated[
        int | None, typer.Option(metavar="R", help="Inner size of low-rank. [default: 32]")
    ] = None,
    kernel: Annotated[
        int | None,
        typer.Option(metavar="K", help="Edge of the kernel of convolution. [default: 9]"),
    ] = None,
    wrong: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="How wrong the operator is: 0.05 for 5%."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            metavar="E", help="Mean squared error to reach. [default: one that both reach]"
        ),
    ] = None,
    training: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="steps, batch, rate, seeds, or largest (N), not the study's. Repeatable.",
        ),
    ] = None,
    bound: Annotated[
        bool,
        typer.Option(
            "--bound/--no-bound",
            help="Compare the bounds of both networks, whose layers are described for it.",
        ),
    ] = True,
    examples: Annotated[
        int, typer.Option(metavar="N", help="Number of images to take from files.")
    ] = 256,
    seed: Annotated[
        int, typer.Option(metavar="S", help="First random seed, unless a study has seeds.")
    ] = 0,
    device: Device = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help=f"Write {CURVES}, {RESULT} and the figure there (PNG and SVG)."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Measure what a known operator saves: train a network with it, and with it replaced.

    Both are trained over the same sizes and seeds on the same simulated pairs. The answer is the
    ratio of samples at a target, with its interval, and what the bound said. An interruption keeps
    the curves that are finished in --out.
    """
    if path is None and module is None:
        raise KoriskError(
            "give a study STUDY.yaml, or your own network with --module FILE.py:BUILD; see "
            "docs/explanation/worth.md"
        )
    asked: dict[str, Any] = {
        "replace": replace,
        "by": by,
        "start": start,
        "rank": rank,
        "kernel": kernel,
    }
    asked |= {"wrong": wrong, "target": target}
    if network is not None and module is not None:
        raise KoriskError("--network is one of the study's, and --module your own; leave one out")
    if path is None and (network is not None or point is not None):
        raise KoriskError(
            "--network and --point are of a study; give STUDY.yaml, or leave them out"
        )
    place = chosen_device(device)
    if path is not None:
        build, given, options = _of_study(path, module, network, point, place)
    else:
        assert module is not None
        build, given, options = _of_module(module)
    if by is not None:  # what the file says of another one does not count
        options = {key: value for key, value in options.items() if key not in _OF_BY}
    options |= {key: value for key, value in asked.items() if value is not None}
    for key, way in (("rank", "low-rank"), ("kernel", "convolution")):
        if key in options and options.get("by", "dense") != way:
            other = options.get("by", "dense")
            raise KoriskError(f"{key} goes with by: {way}, not with {other}; leave it out")
    options = {"seed": seed} | options | training_options(training or [])
    if out is not None:
        import korisk.report.figures.ablation  # noqa: F401 (says so where matplotlib is missing)

        make_folder(out)
    from korisk.ablation.ablation import Callbacks
    from korisk.ablation.ablation import ablate as measured
    from korisk.ablation.replacing import Replacement
    from korisk.prediction.rehearse import SIZES
    from korisk.prediction.simulation import Training

    kept: list[Curve] = []

    def finished(curve: Curve) -> None:
        kept.append(curve)
        if out is not None:
            write_text(out / CURVES, _as_csv(kept))

    first = options.pop("seed")
    changes = {key: options.pop(key) for key in _OF_BY if key in options}
    changes |= {new: options.pop(old) for old, new in _CHANGES if old in options}
    begun = time.monotonic()
    with warnings_as_lines(), Console(stderr=True, quiet=as_json).status("reading") as status:

        def progress(what: str, share: float) -> None:
            left = (time.monotonic() - begun) * (1 - share) / share if share else 0.0
            said = f"{what} {share:.0%}, about {duration(left)} left" if share else what
            status.update(Text(said))

        try:
            made = measured(
                build,
                **given,
                replace=Replacement(**changes),
                target=options.pop("target", None),
                sizes=options.pop("sizes", SIZES),
                seeds=range(first, first + options.pop("seeds", 3)),
                training=Training(examples=examples, device=place, **options),
                bound=bound,
                callbacks=Callbacks(progress=progress, finished=finished),
            )
        except (MemoryError, OSError):
            raise
        except KoriskError as error:  # of build, which is --network in other commands
            if not str(error).startswith("build "):
                raise
            raise KoriskError(f"--module {str(error).removeprefix('build ')}") from None
        except Exception as error:  # from the user's own code
            if module is None:
                raise
            first = (str(error).splitlines() or [""])[0]
            raise KoriskError(
                f"--module {module} failed: {type(error).__name__}: {first}; try it on a batch of "
                "inputs first"
            ) from error
    content = made.to_dict()
    if as_json:
        print_json(content)
    else:
        _show(made)
    if out is not None:
        from korisk.report.figures.ablation import ablation_figure
        from korisk.report.figures.style import save

        write_text(out / RESULT, json_text(content) + "\n")
        figure = ablation_figure(made)
        for kind in ("png", "svg"):
            save(figure, out / f"{FIGURE}.{kind}")
        typer.echo(f"korisk: wrote {out}", err=True)
    if made.comparison.ratio is None and made.comparison.ratio_range is None:
        raise OutOfReachError(
            f"what {made.layer} saves at {number(made.target)} is not known; ask for another "
            "--target, or train at other sizes"
        )


def _of_module(module: str) -> tuple[Callable[[], Any], dict[str, Any], dict[str, Any]]:
    """A user's function, and what its file defines beside it."""
    build, names = read_build("--module", module)
    if "operator" not in names:
        raise KoriskError(
            f"--module {module}: the file must define operator, a LinearOperator or a Problem that "
            "simulates inputs; add operator = ..., or give a study"
        )
    from korisk.operators.linear import LinearOperator
    from korisk.problems.problem import Problem

    if not isinstance(names["operator"], LinearOperator | Problem):
        raise KoriskError(
            f"--module {module}: operator must be a LinearOperator or a Problem, got "
            f"{shown(names['operator'])}; use korisk.operators"
        )
    known = ("operator", "images", "noise", "patients")
    return build, {key: names[key] for key in known if key in names}, {}


def read_ablation(path: Path) -> tuple[Study, dict[str, Any]]:
    """The study of a file, and what its key `ablation` says."""
    from korisk.studies.spec.study import Study

    content = read_yaml(path)
    if not isinstance(content, dict):
        raise KoriskError(f"{path} must have keys such as problem and points; see examples/")
    options = content.pop("ablation", None) or {}
    if not isinstance(options, dict):
        raise KoriskError(
            f"{path}: ablation must have keys such as replace and by, got {shown(options)}"
        )
    for key in options:
        if key not in _KEYS:
            raise KoriskError(f"{path}: ablation has no key {shown(key)}{did_you_mean(key, _KEYS)}")
    content.setdefault("name", path.stem)
    study = Study(content, source=path, ran=True, folder=path.parent)
    return study, options


def _of_study(
    path: Path, module: str | None, network: str | None, point: str | None, device: str
) -> tuple[Callable[[], Any], dict[str, Any], dict[str, Any]]:
    """The network and the problem of a study's point, and the options of its file."""
    import torch

    from korisk.networks import zoo
    from korisk.studies.spec.study import problem_of

    study, options = read_ablation(path)
    specs = {task.point: task.spec for task in study.tasks}
    name = next(iter(specs)) if point is None else point
    if name not in specs:
        raise KoriskError(f"the study has no point {shown(name)}{did_you_mean(name, specs)}")
    spec = specs[name]
    problem = problem_of(spec)
    options["sizes"] = spec["sizes"]
    seeds = [task.seed for task in study.tasks if task.point == name]
    if seeds != list(range(seeds[0], seeds[0] + len(seeds))):
        raise KoriskError(f"{path}: seeds must follow one another, got {seeds}; write 1 to 3, say")
    options |= {"seeds": len(seeds), "seed": seeds[0]}
    given = {"operator": problem}
    if module is not None:
        return read_build("--module", module)[0], given, options
    models = {key: each for key, each in spec["models"].items() if "kind" in each}
    chosen = next(iter(models), "") if network is None else network
    if chosen not in models:
        hint = did_you_mean(chosen, models) if models else "; add one, such as kind: inverse-unet"
        raise KoriskError(f"{path} has no network {shown(chosen)} in models.networks{hint}")
    settings = dict(models[chosen])
    kind = settings.pop("kind")
    options |= {key: settings.pop(key) for key in ("steps", "batch", "rate")}
    known = problem.known_operators(device)

    def build() -> Any:
        return zoo.build(kind, *known, seed=int(torch.randint(2**31, ())), **settings)

    return build, given, options


def _as_csv(curves: Sequence[Curve]) -> str:
    """Both curves as a table that `korisk plan` and `compare` read."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("model", "n", "seed", "mse"))
    for curve in curves:
        for n, error, seed in zip(curve.n.tolist(), curve.error.tolist(), curve.seed, strict=True):
            writer.writerow((curve.model, n, seed, error))
    return text.getvalue()


def _show(made: Ablation) -> None:
    out, comparison = console(), made.comparison
    shown_table = table(
        "Mean squared errors", "N", *(curve.model for curve in made.curves), "ratio", text=0
    )
    first, second = (
        dict(zip(curve.sizes.tolist(), curve.means.tolist(), strict=True)) for curve in made.curves
    )
    for n in sorted(first.keys() & second.keys()):
        errors = number(first[n], 3), number(second[n], 3)
        shown_table.add_row(*cells(whole(n), *errors, number(second[n] / first[n], 3)))
    out.print(shown_table)
    title = f"Samples for {number(comparison.target)}"
    heads = ("network", "weights", "N", "chance", "from", "to", "safe\nat 90%", "chance\nat most")
    shown_table = table(title, *heads)
    for name, plan, weights in zip(
        comparison.names, (comparison.first, comparison.second), made.parameters, strict=True
    ):
        shown_table.add_row(*cells(name, whole(weights), *pilot.answer(plan, (0.9,))))
    out.print(shown_table)
    for sentence in [with_options(made.explain()), *made.notes, f"{duration(made.seconds)}."]:
        out.print(sentence, highlight=False, markup=False)
