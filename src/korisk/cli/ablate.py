"""`korisk ablate`: what a known operator in a network saves, in samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from korisk._checks import require
from korisk._json import JsonDict, json_text
from korisk.cli.common.messages import tell, warnings_as_lines
from korisk.cli.common.options import Json, Metric, Range
from korisk.cli.common.output import exit_if, print_json, show
from korisk.cli.common.training import Recipe, Simulated, Subject, set_options, training
from korisk.errors import KoriskError, did_you_mean, shown
from korisk.files import make_folder, read_yaml, write_text
from korisk.studies.run.compute import chosen_device
from korisk.texts import duration

if TYPE_CHECKING:
    from torch import nn

    from korisk.ablation.ablation import Ablation
    from korisk.studies.spec.study import Study

_BY = "dense|low-rank|convolution|wrong"
_KINDS = {"rank": "low-rank", "kernel": "convolution"}  # of replacements that have these keys
_REPLACEMENT_KEYS = ("start", "rank", "kernel", "wrong")
_KEYS = ("replace", "by", *_REPLACEMENT_KEYS, "target")  # below `ablation:` in a study


@dataclass(frozen=True)
class Change:
    """What is replaced, and at which target both networks are compared."""

    replace: Annotated[str | None, "The known layer to replace. [default: A^T]"] = None
    by: Annotated[str | None, _BY, "The substitute: learned, or wrong. [default: dense]"] = None
    wrong: Annotated[float | None, "SHARE", "How wrong the operator is: 0.05 for 5%."] = None
    target: Annotated[float | None, "E", "Where to compare. [default: what both reach]"] = None
    metric: Metric = "mse"
    data_range: Range = None
    bound: Annotated[bool, "Whether to compare the bounds of both networks."] = True

    def over(self, of_study: JsonDict) -> JsonDict:
        """The options of a study's key `ablation`, unless they are given here."""
        if self.by is not None:  # the file's rank or kernel belongs to another kind of layer
            of_study = {key: of_study[key] for key in of_study if key not in _REPLACEMENT_KEYS}
        options = of_study | set_options(self, "replace", "by", "wrong", "target")
        by = options.get("by", "dense")
        for key, kind in _KINDS.items():
            if key in options and by != kind:
                raise KoriskError(f"{key} goes with by: {kind}, not with {by}; leave it out")
        return options


def ablate(
    subject: Subject,
    simulated: Simulated,
    change: Change,
    recipe: Recipe,
    *,
    out: Annotated[Path | None, "DIR", "Write curves, answer, page and figure there."] = None,
    json: Json = False,
) -> None:
    """Measure what a known operator saves: train a network with it, and with it replaced.

    Both are trained over the same sizes and seeds on the same simulated pairs. The answer is the
    ratio of samples at a target, with its interval, beside the ratio of the bound. The key ablation
    of a study says what is replaced: replace, by, start, rank, kernel, wrong, target.
    """
    device = chosen_device(recipe.device)
    build, data, of_study = _arguments(subject, simulated, recipe, device)
    options = change.over(of_study)
    # Imported here: they load PyTorch, for which no other command should wait.
    from korisk.ablation import ablation
    from korisk.ablation.replacing import Replacement
    from korisk.prediction.rehearsal.rehearsal import far_from

    replacement = Replacement(
        layer=options.pop("replace", "A^T"),
        **{key: options.pop(key) for key in ("by", *_REPLACEMENT_KEYS) if key in options},
    )
    settings = data | recipe.arguments(options, device=device)
    settings |= {"metric": change.metric, "data_range": change.data_range, "bound": change.bound}
    if out is not None:
        # Fails now, not after the training, if matplotlib is missing.
        import korisk.report.figures.forecast  # noqa: F401

        make_folder(out)
    with training(subject, recipe, quiet=json) as callbacks:
        result = ablation.ablate(build, replace=replacement, callbacks=callbacks, **settings)
    if json:
        print_json(result.to_dict())
    else:
        show(result.explain(), *result.tables(), *result.notes, f"{duration(result.seconds)}.")
    if out is not None:
        _write(result, out)
        tell(f"wrote {out}")
    both = result.comparison
    arms = both.first.forecast, both.second.forecast
    if change.target is not None and (doubt := far_from(arms, change.target)):
        raise KoriskError(doubt)
    # Last: an unknown ratio sets the exit code, and the curves are shown all the same.
    exit_if(bool(result.limited) or (both.ratio is None and both.ratio_range is None))


def read_ablation(path: Path) -> tuple[Study, JsonDict]:
    """Read a study file: the study, and the options under its key `ablation`."""
    from korisk.prediction.study import study_to_rehearse

    content = read_yaml(path)
    options = content.pop("ablation", None) or {} if isinstance(content, dict) else {}
    rule = "have keys such as replace and by"
    require(isinstance(options, dict), f"{path}: ablation", rule, options)
    for key in options:
        if key not in _KEYS:
            raise KoriskError(f"{path}: ablation has no key {shown(key)}{did_you_mean(key, _KEYS)}")
    return study_to_rehearse(path, content), options


@warnings_as_lines()
def _arguments(
    subject: Subject, simulated: Simulated, recipe: Recipe, device: str
) -> tuple[Callable[[], nn.Module], JsonDict, JsonDict]:
    """Network, operator and images; and what a study says of the rest, its recipe included."""
    from korisk.prediction import study as rehearsals

    study, options = (None, {}) if subject.path is None else read_ablation(subject.path)
    network, data = subject.own()
    request = simulated.request(study, recipe)
    if study is None:
        assert network is not None
        return network[1], rehearsals.own_arguments(network[0], data, request), options
    name, spec = next(iter(rehearsals.point_specs(study, subject.point).items()))
    problem, _ = rehearsals.point_problem(spec, request)
    options["sizes"] = spec["sizes"]
    options["seeds"] = [task.seed for task in study.tasks if task.point == name]
    data = {"operator": problem}
    if network is not None:
        return network[1], data, options
    # Linear models have no layer to replace.
    trained = {label: entry for label, entry in spec["models"].items() if "kind" in entry}
    models = rehearsals.study_networks({**spec, "models": trained}, problem, device)
    model = next(iter(models), "") if subject.model is None else subject.model
    if model not in models:
        hint = did_you_mean(model, models) if models else "; add one, such as kind: inverse-unet"
        raise KoriskError(f"{subject.path}: models.networks has no {shown(model)}{hint}")
    build, of_network = models[model]
    return build, data, options | of_network


def _write(result: Ablation, folder: Path) -> None:
    """The curves as a table that `korisk plan` and `korisk compare` read, result, figure, page."""
    from korisk.report.figures.forecast import comparison_figure
    from korisk.report.figures.style import save
    from korisk.studies.results import Table, csv_text

    names, metric = ("model", "n", "seed"), result.curves[0].metric
    records = [record for curve in result.curves for record in curve.records()]
    rows = tuple(tuple(record[name] for name in (*names, "error")) for record in records)
    write_text(folder / "curves.csv", csv_text(Table((*names, metric), rows)))
    write_text(folder / "ablation.json", json_text(result.to_dict()) + "\n")
    figure = comparison_figure(result.comparison)
    for kind in ("png", "svg"):
        save(figure, folder / f"ablation.{kind}")
    result.to_html(folder / "ablation.html")
