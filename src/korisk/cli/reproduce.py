"""`korisk reproduce`: the paper's study, as released and done properly, next to its tables."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from korisk import _checks, published
from korisk.cli.compute import (
    Device,
    Retry,
    Wait,
    Workers,
    chosen_compute,
    chosen_device,
    report_failures,
    run_tasks,
)
from korisk.cli.output import cells, console, fields, number, print_json, refuse_extra, table, whole
from korisk.cli.run import crossing_json, in_words, where_results_are
from korisk.errors import KoriskError
from korisk.store.store import store_path
from korisk.studies.reproduction import (
    NAME,
    ORIGINS,
    CalibrationLine,
    Sweep,
    calibration,
    findings,
    studies,
    sweeps,
    verdicts,
)
from korisk.studies.spec.study import PROTOCOLS
from korisk.theory import two_factors

_TARGETS = (1.5, 2.0)  # of the paper's calibration: multiples of the higher of the two floors


def reproduce(
    context: typer.Context,
    points: Annotated[
        str | None,
        typer.Option(
            metavar="H,H,...",
            help="Image sides: 8, 16, 32, 128, 256, 512. [default: 8,16,32,128; on a GPU also 256]",
        ),
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(metavar="NAME", help="released (as the authors' code), rigorous, or both."),
    ] = "both",
    seeds: Annotated[
        str | None,
        typer.Option(metavar="S,S,...", help="Seeds. [default: the paper's, 5 small, 3 large]"),
    ] = None,
    device: Device = "auto",
    full: Annotated[
        bool,
        typer.Option("--full", help="All five points and the whole grid of N on a CPU too: hours."),
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for results; a later run continues there.")
    ] = Path("reproduction"),
    workers: Workers = None,
    retry_failed: Retry = False,
    wait: Wait = 0.0,
    only_published: Annotated[
        bool,
        typer.Option(
            "--published",
            help="Run nothing: print the sample sizes that the paper's calibration table implies.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Run the paper's study and compare it with its tables.

    Four origins are shown side by side: the paper's table, the authors' released results, our run
    of their protocol, and our own done properly (fine rays, lambda chosen on other images than the
    test's, fits in closed form). It can be stopped at any time: the next run continues.
    """
    if only_published:
        why = "--published runs nothing, and shows all points"
        refuse_extra(context, "only_published", "as_json", why=why)
        _print_published(as_json=as_json)
        return
    where = chosen_device(device)
    _checks.one_of("--protocol", protocol, (*PROTOCOLS, "both"))
    planned = studies(
        points=_numbers("--points", points),
        protocols=[each for each in PROTOCOLS if protocol in (each, "both")],
        seeds=_numbers("--seeds", seeds),
        full=full,
        on_gpu=where != "cpu",
    )
    tasks = [task for study in planned for task in study.tasks]
    done = run_tasks(
        tasks,
        {"name": NAME, "studies": [study.content for study in planned]},
        out,
        compute=chosen_compute(device=where, workers=workers),
        retry=retry_failed,
        wait=wait,
        quiet=as_json,
    )
    found = sweeps(done.rows)
    lines = calibration(found)
    if as_json:
        print_json(
            {
                "store": str(store_path(out)),
                **done.counts,
                "calibration": [
                    {
                        **fields(line, "side", "model", "metric"),
                        "rigorous_is_reduced": line.reduced,
                        "origins": {
                            origin: pair and {"floor": pair.floor, "sigma": pair.slope}
                            for origin, pair in line.by_origin.items()
                        },
                    }
                    for line in lines
                ],
                "outcomes": [asdict(verdict) for verdict in verdicts(found)],
                "findings": [
                    {**asdict(each), "crossing": crossing_json(each.crossing)}
                    for each in findings(found)
                ],
                "curves": [
                    fields(sweep, "side", "protocol", "reduced")
                    | {curve.model: curve.records() for curve in (sweep.known, sweep.dense)}
                    for sweep in found
                ],
            }
        )
    elif found:
        _print(found, lines, out)
    report_failures(done)


def _numbers(option: str, text: str | None) -> list[int] | None:
    """`1,2,3` as whole numbers."""
    try:
        return None if text is None else [int(part) for part in text.split(",")]
    except ValueError:
        raise KoriskError(
            f"{option} must be whole numbers with commas between, got {text!r}; write 1,2,3"
        ) from None


# --- Results -------------------------------------------------------------------------------------


def _print(found: list[Sweep], lines: list[CalibrationLine], out: Path) -> None:
    screen = console()
    title = "Calibration as in the paper's Table 2: floor / sigma"
    shown = table(title, "point", "model", *ORIGINS, text=2)
    for line in lines:
        texts = []
        for pair in map(line.by_origin.get, ORIGINS):
            ends = [f"{value:.3e}".split("e") for value in (pair.floor, pair.slope)] if pair else []
            texts.append(" / ".join(f"{digits}e{int(power)}" for digits, power in ends) or "-")
        if line.reduced:
            texts[-1] += " *"
        shown.add_row(*cells(f"H = {line.side}", line.model, *texts))
    screen.print(shown)
    note = " * from a reduced grid of N; --full has them all."
    screen.print(
        "Errors are MSE up to H = 32, and the square of the mean RMSE / max beyond. Rigorous "
        "figures are of other images, rays and fits, over the paper's N."
        f"{note if any(line.reduced for line in lines) else ''}\n",
        highlight=False,
    )
    judged = verdicts(found)
    if judged:
        screen.print("The paper's outcomes (its Table 3)", style="bold")
    before = ""
    for verdict in judged:
        claim = f" H = {verdict.side}: {verdict.claim}"
        if claim != before:
            screen.print(claim, highlight=False)
        before = claim
        says = {True: "it holds", False: "it does not hold", None: "it is open"}[verdict.holds]
        screen.print(f"   {verdict.protocol}: {says}; {verdict.evidence}", highlight=False)
    beyond = findings(found)
    if beyond:
        screen.print("\nBeyond the paper's tables", style="bold")
    for finding in beyond:
        said = [f" H = {finding.side}, rigorous:"]
        if finding.untrained is not None and finding.worst_training is not None:
            said.append(
                f"KO starts at {number(finding.untrained)} untrained, and its mean error is at "
                f"most {finding.worst_training:.3f} times that at any N."
            )
        if finding.passed_floor is not None:
            n, error, floor = finding.passed_floor
            said.append(
                f"FC reaches {number(error)} at N = {n:,}, below the floor of {number(floor)} "
                "that the paper's N give."
            )
        if finding.crossing is not None:
            said.append(in_words(finding.crossing))
        screen.print(" ".join(said), highlight=False)
    screen.print(f"\n{where_results_are(out)}", highlight=False)


# --- The paper's own figures ---------------------------------------------------------------------


def _print_published(*, as_json: bool) -> None:
    """How many samples reach 1.5 and 2 times the higher floor, by the paper's calibration."""
    answers = [
        (row, two_factors(row.known, row.dense, factor * max(row.known.floor, row.dense.floor)))
        for row in published.CALIBRATION
        for factor in _TARGETS
    ]
    if as_json:
        content = [
            {
                **fields(row, "H", "device", "metric"),
                "target": answer.target,
                "samples_ko": answer.samples_known,
                "samples_fc": answer.samples_dense,
                "ratio": answer.ratio,
                "structural_factor": answer.structural,
                "approximation_budget_factor": answer.approximation_budget,
            }
            for row, answer in answers
        ]
        print_json({"calibration": content})
        return
    shown = table(
        "Sample sizes from the paper's calibration (its Table 2)",
        *("operating point", "target", "N of KO", "N of FC"),
        *("N ratio", "sigma\nfactor", "floor\nfactor"),
    )
    for row, answer in answers:
        shown.add_row(
            *cells(
                f"H = {row.H}, {row.device}, {row.metric}",
                number(answer.target),
                *(whole(answer.samples_known), whole(answer.samples_dense)),
                *(number(answer.ratio, 3), number(answer.structural, 3)),
                number(answer.approximation_budget, 3),
            )
        )
    screen = console()
    screen.print(shown)
    screen.print(
        "To reach the target, FC needs 'N ratio' times the samples of KO; the ratio of N / log N "
        "is sigma factor x floor factor (Proposition 2). N = 2 means that the line is below the "
        "target at every N. All of it relies on the paper's calibration, whose floor is the lowest "
        "error seen: it says nothing about targets below that.",
        highlight=False,
    )
