"""`korisk reproduce`: the paper's study, as released and done properly, next to its tables."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from korisk import _checks
from korisk.cli.common.options import Full, Json, Running, whole_numbers
from korisk.cli.common.output import print_json, show
from korisk.cli.run import print_end, report_failures, run_tasks
from korisk.errors import KoriskError
from korisk.paper import reproduction as paper
from korisk.paper.commands.published import print_published
from korisk.paper.supplement import verdict_sentences
from korisk.store.store import store_path
from korisk.studies.run.compute import chosen_device
from korisk.studies.spec.study import PROTOCOLS, Study
from korisk.texts import Table, number


@dataclass(frozen=True)
class Selection:
    """What of the paper's study is run."""

    points: Annotated[
        str | None,
        "H,H,...",
        "Image sides: 8, 16, 32, 128, 256, 512. [default: 8,16,32,128; on a GPU also 256]",
    ] = None
    protocol: Annotated[str, "released (as the authors' code), rigorous, or both."] = "both"
    seeds: Annotated[str | None, "S,S,...", "Seeds. [default: the paper's, 5 small, 3 large]"] = (
        None
    )
    whole: Annotated[bool, "All five points and every N on a CPU too: hours."] = False

    def studies(self, device: str) -> list[Study]:
        """The studies that are selected, one for each protocol."""
        _checks.one_of("--protocol", self.protocol, (*PROTOCOLS, "both"))
        points, seeds = (
            None if text is None else whole_numbers(option, text)
            for option, text in (("--points", self.points), ("--seeds", self.seeds))
        )
        return paper.studies(
            points=points,
            protocols=[name for name in PROTOCOLS if self.protocol in (name, "both")],
            seeds=seeds,
            full=self.whole,
            on_gpu=device != "cpu",
        )


def reproduce(
    context: typer.Context,
    *,
    selection: Selection,
    out: Annotated[Path, "DIR", "Folder for results; a later run continues there."] = Path(
        "reproduction"
    ),
    published: Annotated[
        bool, "Run nothing: print the paper's Table 1, and sample sizes from its Table 2."
    ] = False,
    running: Running,
    full: Full = False,
    json: Json = False,
) -> None:
    """Run the paper's study and compare it with its tables.

    Four origins are shown side by side: the paper's table, the authors' released results, our run
    of their protocol, and our own done properly (fine rays, lambda chosen on other images than the
    test's, fits in closed form). It can be stopped at any time: the next run continues.
    """
    if published:
        for parameter in context.command.params:
            source = getattr(context.get_parameter_source(parameter.name or ""), "name", "")
            if source == "COMMANDLINE" and parameter.name not in ("published", "json"):
                extra = parameter.opts[0]
                raise KoriskError(f"--published runs nothing, and shows all; leave {extra} out")
        print_published(as_json=json)
        return
    where = chosen_device(running.device)
    planned = selection.studies(where)
    tasks = [task for study in planned for task in study.tasks]
    content = {"name": paper.NAME, "studies": [study.content for study in planned]}
    done = run_tasks(tasks, content, out, replace(running, device=where), quiet=json)
    sweeps = paper.sweeps(done.rows)
    lines = paper.calibration(sweeps)
    if json:
        print_json(
            {
                "store": str(store_path(out)),
                **done.counts,
                "calibration": [
                    {
                        "side": line.side,
                        "model": line.model,
                        "metric": line.metric,
                        "rigorous_is_reduced": line.reduced,
                        "origins": {
                            origin: pair and {"floor": pair.floor, "sigma": pair.slope}
                            for origin, pair in line.by_origin.items()
                        },
                    }
                    for line in lines
                ],
                "outcomes": [asdict(verdict) for verdict in paper.verdicts(sweeps)],
                "findings": [asdict(finding) for finding in paper.findings(sweeps)],
                "curves": [
                    {"side": sweep.side, "protocol": sweep.protocol, "reduced": sweep.reduced}
                    | {curve.model: curve.records() for curve in (sweep.known, sweep.dense)}
                    for sweep in sweeps
                ],
            }
        )
    elif sweeps:
        if full:
            _print_tables(sweeps, lines)
        show(*verdict_sentences(sweeps, lines))
        print_end(done, out, tables=full)
    report_failures(done)


# --- Results -------------------------------------------------------------------------------------


def _print_tables(sweeps: list[paper.Sweep], lines: list[paper.CalibrationLine]) -> None:
    # Table 2: floor / sigma by origin.
    rows = []
    for line in lines:
        texts = []
        for pair in map(line.by_origin.get, paper.ORIGINS):
            ends = [f"{value:.3e}".split("e") for value in (pair.floor, pair.slope)] if pair else []
            texts.append(" / ".join(f"{digits}e{int(power)}" for digits, power in ends) or "-")
        if line.reduced:
            texts[-1] += " *"
        rows.append([f"H = {line.side}", line.model, *texts])
    title = "Calibration as in the paper's Table 2: floor / sigma"
    note = " * from a reduced grid of N; --whole has them all."
    show(
        Table(title, ["point", "model", *paper.ORIGINS], rows, "llr"),
        "Errors are the MSE up to H = 32, and the squared mean of RMSE / max above. The rigorous "
        "protocol uses other images, rays and fits than the paper, at the paper's N."
        f"{note if any(line.reduced for line in lines) else ''}\n",
    )
    # Table 3: each claim once, with the verdict of each protocol below it.
    judged = paper.verdicts(sweeps)
    if judged:
        show("The paper's outcomes (its Table 3)")
    before = ""
    for verdict in judged:
        claim = f" H = {verdict.side}: {verdict.claim}"
        if claim != before:
            show(claim)
        before = claim
        says = {True: "it holds", False: "it does not hold", None: "it is open"}[verdict.holds]
        show(f"   {verdict.protocol}: {says}; {verdict.evidence}")
    beyond = paper.findings(sweeps)
    if beyond:
        show("\nBeyond the paper's tables")
    for finding in beyond:
        sentences = [f" H = {finding.side}, rigorous:"]
        if finding.untrained is not None and finding.worst_training is not None:
            most = f"its mean error is at most {finding.worst_training:.3f} times that at any N"
            sentences.append(f"KO starts at {number(finding.untrained)} untrained, and {most}.")
        if finding.passed_floor is not None:
            n, error, floor = finding.passed_floor
            below = f"below the floor of {number(floor)} that the paper's N give"
            sentences.append(f"FC reaches {number(error)} at N = {n:,}, {below}.")
        if finding.crossing is not None:
            sentences.append(finding.crossing.explanation)
        show(" ".join(sentences))
    show("")
