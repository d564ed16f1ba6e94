"""`korisk published`: the paper's tables, and the sample sizes that they imply."""

from typing import Annotated, Any

import typer

from korisk import published as paper
from korisk.cli.output import cells, console, number, print_json, table, whole
from korisk.theory import TwoFactors, two_factors

TARGETS = (1.5, 2.0)  # as multiples of the higher of the two floors


def published(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Answer the paper's own question from its calibration table: how many samples for a target?

    Targets are 1.5 and 2 times the higher of the two floors at each operating point.
    """
    answers = [(row, answer) for row in paper.CALIBRATION for answer in _answers(row)]
    if as_json:
        print_json({"calibration": [_as_json(row, answer) for row, answer in answers]})
        return
    shown = table(
        "Sample sizes from the paper's calibration (its Table 2)",
        "operating point",
        "target",
        "N of KO",
        "N of FC",
        "N ratio",
        "sigma\nfactor",
        "floor\nfactor",
    )
    for row, answer in answers:
        shown.add_row(
            *cells(
                f"H = {row.H}, {row.device}, {row.metric}",
                number(answer.target),
                whole(answer.samples_known),
                whole(answer.samples_dense),
                number(answer.ratio, 3),
                number(answer.structural, 3),
                number(answer.approximation_budget, 3),
            )
        )
    out = console()
    out.print(shown)
    out.print(
        "Read: to reach the target, FC needs 'N ratio' times the samples of KO; the ratio of "
        "N / log N is sigma factor x floor factor (Proposition 2). N = 2 says that the line lies "
        "below the target at every N. All of it trusts the paper's calibration, whose floor is "
        "the lowest error seen: it says nothing of targets below that.",
        highlight=False,
    )


def _answers(row: paper.CalibrationRow) -> list[TwoFactors]:
    higher = max(row.known.floor, row.dense.floor)
    return [two_factors(row.known, row.dense, factor * higher) for factor in TARGETS]


def _as_json(row: paper.CalibrationRow, answer: TwoFactors) -> dict[str, Any]:
    return {
        "H": row.H,
        "device": row.device,
        "metric": row.metric,
        "target": answer.target,
        "samples_ko": answer.samples_known,
        "samples_fc": answer.samples_dense,
        "ratio": answer.ratio,
        "structural_factor": answer.structural,
        "approximation_budget_factor": answer.approximation_budget,
    }
