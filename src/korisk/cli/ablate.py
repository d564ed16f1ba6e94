"""`korisk ablate`: what a known operator in a network saves, in samples."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.text import Text
from typer import Argument as Positional
from typer import Option

from korisk._json import JsonDict
from korisk.cli.common import own_code
from korisk.cli.common.command import command
from korisk.cli.common.messages import tell, warnings_as_lines
from korisk.cli.common.options import Device, Json, Recipe, Target, Yes
from korisk.cli.common.output import exit_if, json_text, print_json, show
from korisk.cli.rehearse import agreed, source_of, time_left
from korisk.errors import KoriskError, did_you_mean, shown
from korisk.files import make_folder, read_yaml, write_text
from korisk.studies.run.compute import chosen_device
from korisk.texts import duration

if TYPE_CHECKING:
    from torch import nn

    from korisk.studies.spec.study import Study

_REPLACEMENT_KEYS = ("start", "rank", "kernel", "wrong")
_KEYS = ("replace", "by", *_REPLACEMENT_KEYS, "target")  # below `ablation:` in a study
CURVES, RESULT, FIGURE = "curves.csv", "ablation.json", "ablation"


@command(
    "studies.run.compute.Compute",
    "ablation.ablation.ablate",
    "ablation.replacing.Replacement",
    "prediction.rehearsal.simulation.Training",
    layer="replace",
    build="network",
    data_range="range",
    folder="resume",
)
def ablate(
    path: Annotated[
        Path | None,
        Positional(),
        "STUDY.yaml",
        "A study with models.networks; its key ablation says what is replaced.",
    ] = None,
    network: Annotated[
        str | None,
        "FILE.py:BUILD",
        "Your own network: BUILD() in FILE.py returns it. Without a study, FILE.py also defines "
        "operator, and optionally images and noise.",
    ] = None,
    model: Annotated[str | None, "Which of models.networks. [default: the first]"] = None,
    point: Annotated[str | None, "Point of the study. [default: the first]"] = None,
    replace: Annotated[str | None, "The known layer to replace. [default: A^T]"] = None,
    by: str | None = None,
    start: str | None = None,
    rank: Annotated[int | None, "R"] = None,
    kernel: Annotated[int | None, "K"] = None,
    wrong: Annotated[float | None, "SHARE", "How wrong the operator is: 0.05 for 5%."] = None,
    target: Target = None,
    metric: Annotated[str, "mse|rmse|nmse|psnr", "Of target and answers."] = "mse",
    data_range: Annotated[float | None, Option("--range"), "X"] = None,
    images: Annotated[Path | None, "DIR", "Your own example images, not the study's."] = None,
    patients: Annotated[
        str | None, "RULE", "Whose images: auto, folder, file, image, or a .csv. [default: auto]"
    ] = None,
    *,
    recipe: Recipe,
    bound: bool = True,
    resume: Annotated[Path | None, "DIR"] = None,
    examples: int = 256,
    seed: Annotated[int, "S", "First random seed, unless a study has seeds."] = 0,
    yes: Yes = False,
    device: Device = "auto",
    out: Annotated[
        Path | None, "DIR", f"Write {CURVES}, {RESULT}, a page and the figure there."
    ] = None,
    json: Json = False,
) -> None:
    """Measure what a known operator saves: train a network with it, and with it replaced.

    Both are trained over the same sizes and seeds on the same simulated pairs. The answer is the
    ratio of samples at a target, with its interval, beside the ratio of the bound.
    """
    if path is None and network is None:
        raise KoriskError(
            "give a study STUDY.yaml, or your own network with --network FILE.py:BUILD"
        )
    if network is not None and model is not None:
        raise KoriskError("--model is one of the study's, and --network your own; leave one out")
    if path is None and (model is not None or point is not None):
        raise KoriskError("--model and --point belong to a study; give one, or leave them out")
    device_name = chosen_device(device)
    own_build, data = (None, {}) if network is None else own_code.read_build("--network", network)
    if path is not None:
        build, operator, options = _from_study(path, own_build, model, point, device_name)
        data = {"operator": operator}
    else:
        assert own_build is not None
        build, options = own_build, {}
        if "operator" not in data:
            rule = "the file must define operator, a LinearOperator or a Problem"
            raise KoriskError(f"--network {network}: {rule}; add operator = ..., or give a study")
    if (source := source_of(images, None, {"patients": patients})) is not None:
        from korisk.prediction.study import with_images

        operator, drawn = with_images(data["operator"], source, examples, seed)
        data = {**data, **drawn, "operator": operator}
    from_options: dict[str, object] = {"replace": replace, "by": by, "start": start, "rank": rank}
    from_options |= {"kernel": kernel, "wrong": wrong, "target": target}
    # --by on the command line replaces the file's whole replacement: its rank or kernel would
    # belong to another kind of layer.
    if by is not None:
        options = {key: value for key, value in options.items() if key not in _REPLACEMENT_KEYS}
    options |= {key: value for key, value in from_options.items() if value is not None}
    replaced_by = options.get("by", "dense")
    for key, kind in (("rank", "low-rank"), ("kernel", "convolution")):
        if key in options and replaced_by != kind:
            raise KoriskError(f"{key} goes with by: {kind}, not with {replaced_by}; leave it out")
    # Imported here: they load PyTorch, for which no other command should wait.
    from korisk.ablation import ablation
    from korisk.ablation.replacing import Replacement
    from korisk.prediction.rehearsal.callbacks import Callbacks
    from korisk.prediction.rehearsal.rehearsal import far_from

    replacement = Replacement(
        layer=options.pop("replace", "A^T"),
        **{key: options.pop(key) for key in ("by", *_REPLACEMENT_KEYS) if key in options},
    )
    settings = recipe.arguments(options, seed=seed, examples=examples, device=device_name)
    if out is not None:
        # Fails now, not after the training, if matplotlib is missing.
        import korisk.report.figures.forecast  # noqa: F401

        make_folder(out)
    with (
        warnings_as_lines(),
        Console(stderr=True, quiet=json).status("reading") as status,
        own_code.failures_named("--network", network),
    ):
        progress = time_left(lambda text: status.update(Text(text)))
        try:
            result = ablation.ablate(
                build,
                replace=replacement,
                bound=bound,
                folder=resume,
                callbacks=Callbacks(progress=progress, estimate=agreed(yes, status)),
                metric=metric,
                data_range=data_range,
                **data,
                **settings,
            )
        except KeyboardInterrupt:
            if resume is not None:
                tell(f"{resume} keeps the finished networks; the same command continues from there")
            raise
    if json:
        print_json(result.to_dict())
    else:
        show(result.explain(), *result.tables(), *result.notes, f"{duration(result.seconds)}.")
    if out is not None:
        from korisk.report.figures.forecast import comparison_figure
        from korisk.report.figures.style import save

        rows = [record for curve in result.curves for record in curve.records()]
        write_text(out / CURVES, _as_csv(rows, metric))
        write_text(out / RESULT, json_text(result.to_dict()) + "\n")
        figure = comparison_figure(result.comparison)
        for kind in ("png", "svg"):
            save(figure, out / f"{FIGURE}.{kind}")
        result.to_html(out / f"{FIGURE}.html")
        tell(f"wrote {out}")
    both = result.comparison
    arms = both.first.forecast, both.second.forecast
    if target is not None and (doubt := far_from(arms, target)):
        raise KoriskError(doubt)
    # Last: an unknown ratio sets the exit code, and the curves are shown all the same.
    exit_if(bool(result.limited) or (both.ratio is None and both.ratio_range is None))


def read_ablation(path: Path) -> tuple[Study, JsonDict]:
    """Read a study file: the study, and the options under its key `ablation`."""
    from korisk.studies.spec.study import Study

    content = read_yaml(path)
    if not isinstance(content, dict):
        raise KoriskError(f"{path} must have keys such as problem and points; see examples/")
    options = content.pop("ablation", None) or {}
    if not isinstance(options, dict):
        rule = "must have keys such as replace and by"
        raise KoriskError(f"{path}: ablation {rule}, got {shown(options)}")
    for key in options:
        if key not in _KEYS:
            raise KoriskError(f"{path}: ablation has no key {shown(key)}{did_you_mean(key, _KEYS)}")
    content.setdefault("name", path.stem)
    return Study(content, source=path, ran=True, folder=path.parent), options


def _from_study(
    path: Path,
    build: Callable[[], nn.Module] | None,
    model: str | None,
    point: str | None,
    device: str,
) -> tuple[Callable[[], nn.Module], Any, JsonDict]:
    """Network and problem of one point of a study, and the options in its file."""
    from korisk.prediction.study import study_networks
    from korisk.studies.spec.study import problem_of

    study, options = read_ablation(path)
    specs = {task.point: task.spec for task in study.tasks}
    point_name = next(iter(specs)) if point is None else point
    if point_name not in specs:
        hint = did_you_mean(point_name, specs)
        raise KoriskError(f"the study has no point {shown(point_name)}{hint}")
    spec = specs[point_name]
    problem = problem_of(spec)
    options["sizes"] = spec["sizes"]
    options["seeds"] = [task.seed for task in study.tasks if task.point == point_name]
    if build is not None:
        return build, problem, options
    # Linear models have no layer to replace.
    trained = {name: entry for name, entry in spec["models"].items() if "kind" in entry}
    models = study_networks({**spec, "models": trained}, problem, device)
    name = next(iter(models), "") if model is None else model
    if name not in models:
        hint = did_you_mean(name, models) if models else "; add one, such as kind: inverse-unet"
        raise KoriskError(f"{path} has no network {shown(name)} in models.networks{hint}")
    build_network, recipe = models[name]
    return build_network, problem, {**options, **recipe}


def _as_csv(rows: Sequence[Mapping[str, object]], metric: str) -> str:
    """Measurements as a CSV table that `korisk plan` and `korisk compare` read."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("model", "n", "seed", metric))
    writer.writerows([row[key] for key in ("model", "n", "seed", "error")] for row in rows)
    return stream.getvalue()
