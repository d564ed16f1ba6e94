"""The fits of a pilot as they are read from its store, and those that gave no error."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from korisk.pilots.fit import PRINTED, FitError, Reading
from korisk.studies.result import Task
from korisk.studies.results import renamed
from korisk.studies.store.store import Cell, Failure, Store


@dataclass(frozen=True)
class PilotFailure:
    """A fit that gave no error: which one, and why."""

    n: int
    seed: int
    reason: str  # one line
    printed: str = field(default="", repr=False)


@dataclass(frozen=True)
class PilotFit:
    """A fit that gave its metrics."""

    n: int
    seed: int
    metrics: Mapping[str, float]
    seconds: float
    printed: str = field(default="", repr=False)
    left_running: str = ""  # threads and processes that it left behind, in words


def _stored_failure(failure: Failure) -> PilotFailure:
    said, _, printed = failure.error.partition(f"\n{PRINTED}\n")
    reason = (said.splitlines() or [""])[0].removeprefix(f"{FitError.__name__}: ")
    return PilotFailure(int(failure.task.spec["n"]), failure.task.seed, reason, printed)


def _unusable(cell: Cell, reason: str) -> PilotFailure:
    """A finished cell that gives no error as things are read now."""
    row = cell.rows[0]
    return PilotFailure(row.n, cell.task.seed, reason, row.detail.get("printed", ""))


def read_pilot(
    store: Store, tasks: Iterable[Task], reading: Reading
) -> tuple[tuple[PilotFit, ...], tuple[PilotFailure, ...], float]:
    """The fits of these tasks, those that failed, and seconds of fitting."""
    keys = {task.key for task in tasks}
    cells = [cell for cell in store.results() if cell.task.key in keys]
    failed = [failure for failure in store.failures() if failure.task.key in keys]
    every: list[Cell | Failure] = [*cells, *failed]
    fits, failures = [], [_stored_failure(failure) for failure in failed]
    named = [renamed(cell.rows[0], reading.only_name) for cell in cells]
    usual = Counter(map(frozenset, named)).most_common(1)
    for cell, metrics in zip(cells, named, strict=True):
        if frozenset(metrics) != usual[0][0]:
            names = ", ".join(map(repr, metrics))
            why = f"gave the metrics {names}, and most others did not"
        else:  # the metric and its unit may be others than in the call that measured
            why = reading.refusal(metrics)
        if why:
            failures.append(_unusable(cell, why))
        else:
            fits.append(_fit(cell, metrics))
    return (
        tuple(sorted(fits, key=lambda fit: (fit.n, fit.seed))),
        tuple(sorted(failures, key=lambda failure: (failure.n, failure.seed))),
        math.fsum(each.account.seconds for each in every),
    )


def _fit(cell: Cell, metrics: Mapping[str, float]) -> PilotFit:
    row = cell.rows[0]
    return PilotFit(
        n=row.n,
        seed=cell.task.seed,
        metrics=metrics,
        seconds=float(row.detail.get("seconds", cell.account.seconds)),
        printed=str(row.detail.get("printed", "")),
        left_running=str(row.detail.get("left_running", "")),
    )
