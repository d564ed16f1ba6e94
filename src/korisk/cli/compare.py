"""`korisk compare`: two pilots at one target, such as with and without known operators."""

from pathlib import Path
from typing import Annotated

from korisk.cli.common import options, output
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, did_you_mean, shown
from korisk.planning.compare import compare as compared
from korisk.planning.compare import comparison_tables


def compare(
    paths: Annotated[list[Path], "PILOT [OTHER]", "A file or store of two models, or two of them."],
    *,
    target: options.Targets = None,
    models: Annotated[str | None, "KO,FC", "Which two, known operators first."] = None,
    reading: options.Reading,
    answer: options.Answer,
    full: options.Full = False,
) -> None:
    """How many more samples does one model need than another, and where do their curves cross?

    Shows how many times fewer samples the better of the two needs, and what to do with each.
    """
    if not target:
        raise KoriskError("compare needs --target; give the value that both are to reach")
    if len(paths) > 2:
        raise KoriskError(f"compare takes one file or two, got {len(paths)}; name two of them")
    answer.check(target)
    curves = _two([curve for path in paths for curve in reading.curves(path)], models)
    comparisons = [compared(*curves, value) for value in options.in_unit(target, curves)]
    if answer.json:
        interpretation = "; ".join(dict.fromkeys(c.read_as for c in curves if c.read_as))
        contents = [result.to_dict() | {"read_as": interpretation} for result in comparisons]
        # For one target, the usual case, the object itself and no list around it.
        output.print_json({"comparisons": contents} if len(contents) > 1 else contents[0])
    else:
        output.show(*options.read_as(curves))
        for comparison in comparisons:
            output.show(comparison.explain(full=full))
            output.show_numbers(comparison_tables(comparison, full=full))
    if answer.plot is not None:
        from korisk.report.figures.forecast import comparison_figure

        output.save_plot(comparison_figure(comparisons[0]), answer.plot)
    if answer.html is not None:
        from korisk.report.page.answers import comparison_page

        title = " and ".join(path.name for path in paths)
        output.write_page(answer.html, lambda: comparison_page(comparisons[0], title))
    # Last: a target out of reach sets the exit code, and the results are shown all the same.
    plans = [plan for both in comparisons for plan in (both.first, both.second)]
    output.exit_if(not all(plan.recommend().helps for plan in plans))


def _two(curves: list[Curve], models: str | None) -> tuple[Curve, Curve]:
    """The two curves to compare: those that --models names, or the only two."""
    names = [curve.model for curve in curves]
    if models is not None:
        choices = [name.strip() for name in models.split(",")]
        if len(set(choices)) != 2 or len(choices) != 2:
            raise KoriskError(f"--models must name two, got {shown(models)}; write --models KO,FC")
        for name in choices:
            if name not in names:
                raise KoriskError(f"--models: no model {shown(name)}{did_you_mean(name, names)}")
            if names.count(name) > 1:
                raise KoriskError(f"--models: two files have a model {shown(name)}; rename one")
        return curves[names.index(choices[0])], curves[names.index(choices[1])]
    if len(curves) != 2:
        listed = ", ".join(name or "one without a name" for name in names)
        remedy = "name two with --models" if len(curves) > 2 else "add the other's rows or its file"
        raise KoriskError(f"compare needs two models, got {len(curves)} ({listed}); {remedy}")
    return curves[0], curves[1]
