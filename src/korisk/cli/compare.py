"""`korisk compare`: two pilots at one target, such as with and without known operators."""

import math
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from korisk.cli import pilot
from korisk.cli.output import (
    cells,
    console,
    number,
    print_json,
    table,
    with_options,
    write_page,
)
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, did_you_mean, shown
from korisk.planning.compare import Comparison
from korisk.planning.compare import compare as make_comparison
from korisk.planning.fit import DEFAULT_FIT


def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PILOT [OTHER]",
            help="One file or store with two models, or two of them; as for korisk plan.",
        ),
    ],
    target: pilot.Target = None,
    models: Annotated[
        str | None,
        typer.Option(
            metavar="KO,FC",
            help="Which two, the one with known operators first. [default: the file's order]",
        ),
    ] = None,
    metric: pilot.MetricOption = None,
    unit: pilot.UnitOption = None,
    column: pilot.ColumnOption = None,
    point: pilot.PointOption = None,
    sheet: pilot.SheetOption = None,
    fit: pilot.FitOption = DEFAULT_FIT,
    plot: pilot.PlotOption = None,
    html: pilot.HtmlOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """How many more samples does one model need than another, and where do their curves cross?

    Shows the sample sizes of both with their chances, the ratio, and the two factors of the paper's
    Proposition 1.
    """
    if target is None:
        raise KoriskError("compare needs --target; give the value that both are to reach")
    if len(paths) > 2:
        raise KoriskError(
            f"compare takes one file or two, got {len(paths)}; name the two to compare"
        )
    if plot is not None:
        pilot.check_plot(plot)
    if html is not None:
        pilot.check_page(html, fit)
    reading = pilot.Reading(metric, unit, column, point, sheet)
    found = [curve for path in paths for curve in reading.curves(path)]
    first, second = _two(found, models)
    comparison = make_comparison(first, second, target, fit=fit)
    if as_json:
        print_json(comparison.to_dict())
    else:
        _show(comparison)
    if plot is not None:
        from korisk.report.figures.pilot import comparison_figure

        pilot.save_plot(comparison_figure(comparison), plot)
    if html is not None:
        from korisk.report.page.page import pilot_page

        named = [  # as the answer names them, where two files have one name for both
            Curve(each.n, each.error, each.seed, name, each.metric, each.unit)
            for each, name in zip((first, second), comparison.names, strict=True)
        ]
        title = " and ".join(path.name for path in paths)
        page = pilot_page(named, title=title, target=target, kind="korisk compare of two models")
        write_page(html, page)
    comparison.first.require()
    comparison.second.require()


def _two(found: list[Curve], models: str | None) -> tuple[Curve, Curve]:
    names = [curve.model for curve in found]
    if models is not None:
        wanted = [name.strip() for name in models.split(",")]
        if len(set(wanted)) != 2 or len(wanted) != 2:
            raise KoriskError(f"--models must name two, got {shown(models)}; write --models KO,FC")
        for name in wanted:
            if name not in names:
                raise KoriskError(f"--models: no model {shown(name)}{did_you_mean(name, names)}")
            if names.count(name) > 1:
                raise KoriskError(f"--models: two files have a model {shown(name)}; rename one")
        return found[names.index(wanted[0])], found[names.index(wanted[1])]
    if len(found) != 2:
        listed = ", ".join(name or "one without a name" for name in names)
        raise KoriskError(
            f"compare needs two models, got {len(found)} ({listed}); "
            + ("name two with --models" if len(found) > 2 else "add the other's rows or its file")
        )
    return found[0], found[1]


def _show(comparison: Comparison) -> None:
    out = console()
    samples = table(
        f"Samples for {number(comparison.target)} (fit {comparison.first.fit})",
        "model",
        "N",
        "chance",
        "from",
        "to",
        "safe\nat 90%",
        "chance\nat most",
        "ratio",
    )
    first, second = comparison.first, comparison.second
    low, high = comparison.ratio_range or (0.0, math.inf)
    ratio = "-"
    if comparison.ratio is not None:
        more = " or more" if first.at_once else " or less" if second.at_once else ""
        ratio = number(comparison.ratio, 3) + more
    elif low or math.isfinite(high):  # with 95% probability, as the sentence says
        ratio = f"at least {number(low, 3)}" if low else f"at most {number(high, 3)}"
    rows = (first, "-" if first.samples is None else "1"), (second, ratio)
    for name, (plan, shown_ratio) in zip(comparison.names, rows, strict=True):
        samples.add_row(*cells(name, *pilot.answer(plan, (0.9,)), shown_ratio))
    out.print(samples)
    factors = table(
        "Proposition 1, from lines floor + sigma log N / N",
        "calibration",
        "sigma\nfactor",
        "floor\nfactor",
        "ratio of\nN / log N",
    )
    for fit in ("line", "paper"):
        row = ["-", "-", "-"]
        with suppress(KoriskError):
            found = comparison.factors(fit)
            parts = found.structural, found.approximation_budget, found.product
            row = [number(part, 3) for part in parts]
        factors.add_row(*cells(fit, *row))
    out.print(factors)
    if said := pilot.read_as([comparison.first.curve, comparison.second.curve]):
        out.print(said, highlight=False, markup=False)
    out.print(with_options(comparison.explain()), highlight=False, markup=False)
