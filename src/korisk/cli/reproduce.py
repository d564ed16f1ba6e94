"""`korisk reproduce`: the paper's study, as released and done properly, beside its tables."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from korisk import _checks
from korisk.cli.output import cells, console, number, print_json, table
from korisk.cli.places import Device, Workers, chosen_device, chosen_place
from korisk.cli.studying import (
    Retry,
    Wait,
    crossing_json,
    in_words,
    numbers,
    report_failures,
    run_tasks,
    summary_json,
)
from korisk.studies.reproduction import (
    NAME,
    ORIGINS,
    CalibrationLine,
    Finding,
    Sweep,
    Verdict,
    calibration,
    findings,
    studies,
    sweeps,
    verdicts,
)
from korisk.studies.run.engine import Summary
from korisk.studies.spec.study import PROTOCOLS, Protocol
from korisk.studies.store.store import Store, store_path
from korisk.theory import RiskLine


def reproduce(
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
        Path,
        typer.Option(metavar="DIR", help="Folder of the results; a later run continues there."),
    ] = Path("reproduction"),
    workers: Workers = None,
    retry_failed: Retry = False,
    wait: Wait = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Run the paper's study and compare it with its tables.

    Four origins stand side by side: the paper's table, the authors' released results, our run of
    their protocol, and our own done properly (fine rays, lambda chosen on images that are not the
    test's, fits in closed form). It can be stopped at any time: the next run continues.
    """
    where = chosen_device(device)
    planned = studies(
        points=numbers("--points", points),
        protocols=_protocols(protocol),
        seeds=numbers("--seeds", seeds),
        full=full,
        on_gpu=where != "cpu",
    )
    tasks = [task for study in planned for task in study.tasks]
    summary = run_tasks(
        tasks,
        {"name": NAME, "studies": [study.content for study in planned]},
        out,
        place=chosen_place(device=where, workers=workers),
        retry=retry_failed,
        wait=wait,
        quiet=as_json,
    )
    asked = {task.key for task in tasks}
    with Store.read(store_path(out)) as store:
        found = sweeps(row for row in store.rows() if row.task.key in asked)
    if as_json:
        print_json(_as_json(found, summary, out))
    elif found:
        _print(found, out)
    report_failures(out, tasks, summary)


def _protocols(given: str) -> tuple[Protocol, ...]:
    if given == "both":
        return PROTOCOLS
    _checks.one_of("--protocol", given, (*PROTOCOLS, "both"))
    return tuple(each for each in PROTOCOLS if each == given)


# --- What is printed -----------------------------------------------------------------------------


def _print(found: list[Sweep], out: Path) -> None:
    screen = console()
    lines = calibration(found)
    _print_calibration(screen, lines)
    if judged := verdicts(found):
        _print_verdicts(screen, judged)
    if beyond := findings(found):
        screen.print("Beyond the paper's tables", style="bold")
    for finding in beyond:
        screen.print(" " + _in_words(finding), highlight=False)
    screen.print(
        f"\nResults lie in {store_path(out)}; korisk report {out} draws them on a page, korisk "
        f"export {out} writes them as a table.",
        highlight=False,
    )


def _print_calibration(screen: Console, lines: list[CalibrationLine]) -> None:
    shown = table(
        "Calibration as in the paper's Table 2: floor / sigma", "point", "model", *ORIGINS, text=2
    )
    for line in lines:
        texts = [_pair(line.by_origin[origin]) for origin in ORIGINS]
        if line.reduced:
            texts[-1] += " *"
        shown.add_row(*cells(f"H = {line.side}", line.model, *texts))
    screen.print(shown)
    screen.print(
        "Errors are MSE up to H = 32, and the square of the mean RMSE / max beyond. Rigorous "
        "figures are of other images, rays and fits, over the paper's N."
        + (" * from a reduced grid of N; --full has them all." if _any_reduced(lines) else ""),
        highlight=False,
    )
    screen.print()


def _any_reduced(lines: list[CalibrationLine]) -> bool:
    return any(line.reduced for line in lines)


def _pair(line: RiskLine | None) -> str:
    return "-" if line is None else f"{_digits(line.floor)} / {_digits(line.slope)}"


def _digits(value: float) -> str:
    mantissa, power = f"{value:.3e}".split("e")
    return f"{mantissa}e{int(power)}"


def _print_verdicts(screen: Console, judged: list[Verdict]) -> None:
    screen.print("The paper's outcomes (its Table 3)", style="bold")
    claim = ""
    for verdict in judged:
        heading = f" H = {verdict.side}: {verdict.claim}"
        if heading != claim:
            screen.print(heading, highlight=False)
            claim = heading
        says = {True: "it holds", False: "it does not hold", None: "it is open"}[verdict.holds]
        screen.print(f"   {verdict.protocol}: {says}; {verdict.evidence}", highlight=False)
    screen.print()


def _in_words(finding: Finding) -> str:
    said = []
    if finding.untrained is not None and finding.worst_training is not None:
        said.append(
            f"KO starts at {number(finding.untrained)} untrained, and its mean error is at most "
            f"{finding.worst_training:.3f} times that at any N."
        )
    if finding.passed_floor is not None:
        n, error, floor = finding.passed_floor
        said.append(
            f"FC reaches {number(error)} at N = {n:,}, below the floor of {number(floor)} that "
            "the paper's N give."
        )
    if finding.crossing is not None:
        said.append(in_words(finding.crossing))
    return f"H = {finding.side}, rigorous: " + " ".join(said)


def _finding_json(finding: Finding) -> dict[str, Any]:
    crossed = None if finding.crossing is None else crossing_json(finding.crossing)
    return {**asdict(finding), "crossing": crossed}


def _as_json(found: list[Sweep], summary: Summary, out: Path) -> dict[str, Any]:
    return {
        "store": str(store_path(out)),
        **summary_json(summary),
        "calibration": [
            {
                "side": line.side,
                "model": line.model,
                "metric": line.metric,
                "rigorous_is_reduced": line.reduced,
                "origins": {
                    origin: None if pair is None else {"floor": pair.floor, "sigma": pair.slope}
                    for origin, pair in line.by_origin.items()
                },
            }
            for line in calibration(found)
        ],
        "outcomes": [asdict(verdict) for verdict in verdicts(found)],
        "findings": [_finding_json(finding) for finding in findings(found)],
        "curves": [
            {"side": sweep.side, "protocol": sweep.protocol, "reduced": sweep.reduced}
            | {curve.model: curve.records() for curve in (sweep.known, sweep.dense)}
            for sweep in found
        ],
    }
