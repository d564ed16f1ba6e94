"""What a pilot gave: curves, a plan, what failed and why, and where to measure next."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path

import numpy as np

from korisk.curves.curve import Curve
from korisk.curves.forecast import forecast
from korisk.curves.next_size import Cost, NextSize, next_size
from korisk.curves.plan import ROUND, Plan, plan
from korisk.errors import KoriskError
from korisk.files import write_text
from korisk.studies.export import Table, csv_text
from korisk.studies.pilot_fit import PRINTED, FitError, Reading, out_of_range
from korisk.studies.result import Task
from korisk.studies.results import LEAST_SIZES
from korisk.studies.store import Cell, Failure, Store

_SHOWN_FAILURES = 5


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


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """The result of `run_pilot`. Errors and targets are in the user's unit."""

    model: str
    fits: tuple[PilotFit, ...]  # in order of n and seed
    failures: tuple[PilotFailure, ...]
    seconds: float  # of fitting, failed fits included
    stopped: str  # why it ended, in words
    store: Path | None
    target: float | None = None
    largest: int | None = None
    cost: Cost | None = field(default=None, repr=False)
    reading: Reading = field(default_factory=Reading, repr=False)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that the fits gave."""
        return tuple(self.fits[0].metrics) if self.fits else ()

    @property
    def metric(self) -> str:
        """The metric that plans are about."""
        return self.reading.chosen(self._require().metrics)

    def _require(self) -> PilotFit:
        if self.fits:
            return self.fits[0]
        first = f", the first of them because: {self.failures[0].reason}" if self.failures else ""
        raise KoriskError(
            f"pilot {self.model!r}: no fit gave an error, {len(self.failures)} failed{first}; "
            "correct fit, and run again with retry_failed=True"
        )

    @cached_property
    def curve(self) -> Curve:
        """The learning curve of the chosen metric."""
        return self._curve(self.metric)

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """The curves of all metrics whose values are errors in their unit, by name."""
        return {name: self._curve(name) for name in self.metrics if not self._unfit(name)}

    @property
    def left_out(self) -> dict[str, str]:
        """Why a metric has no curve, for those that have none."""
        return {name: why for name in self.metrics if (why := self._unfit(name))}

    def _unfit(self, metric: str) -> str:
        unit = self.reading.unit_of(metric, chosen=metric == self.metric)
        found = (out_of_range(unit, metric, fit.metrics[metric]) for fit in self.fits)
        return next((why for why in found if why), "")

    def _curve(self, metric: str) -> Curve:
        self._require()
        unit = self.reading.unit_of(metric, chosen=metric == self.metric)
        return Curve(
            [fit.n for fit in self.fits],
            unit.to_error([fit.metrics[metric] for fit in self.fits]),
            [fit.seed for fit in self.fits],
            model=self.model,
            metric=metric,
            unit=unit,
        )

    def plan(self, target: float | None = None) -> Plan:
        """How many samples a target asks for (default: the one that the pilot was run for)."""
        asked = self.target if target is None else target
        if asked is None:
            raise KoriskError("plan needs a target, got None; pass the error you want to reach")
        self._require_sizes()
        return plan(self.curve, asked)

    def _require_sizes(self) -> None:
        sizes = sorted({fit.n for fit in self.fits})
        self._require()
        if len(sizes) >= LEAST_SIZES:
            return
        lost = sorted({failure.n for failure in self.failures} - set(sizes))
        why = f"; every fit failed at N = {_listed(lost)}" if lost else ""
        raise KoriskError(
            f"pilot {self.model!r}: a plan needs errors at {LEAST_SIZES} sizes, got "
            f"{len(sizes)} (N = {_listed(sizes)}){why}; measure more sizes"
        )

    @cached_property
    def next_size(self) -> NextSize | None:
        """Where one more size would narrow the answer most; None where that cannot be told.

        Without a target it is about the error that the curve reaches at four times the largest N.
        """
        try:
            self._require_sizes()
            target = self._four_times() if self.target is None else self.target
            return self.suggest(target)
        except KoriskError:
            return None

    def _four_times(self) -> float:
        n = np.array([float(ROUND * self.curve.sizes[-1])])
        return float(self.curve.unit.from_error(forecast(self.curve).middle(n))[0])

    def suggest(self, target: float | None = None, *, seeds: int | None = None) -> NextSize:
        """Where one more size would narrow the answer for a target most; see `next_size`."""
        asked = self.target if target is None else target
        if asked is None:
            raise KoriskError("suggest needs a target, got None; pass the error you want to reach")
        self._require_sizes()
        return next_size(self.curve, asked, largest=self.largest, seeds=seeds, cost=self.cost)

    @property
    def printed(self) -> dict[tuple[int, int], str]:
        """What fits have printed, by n and seed; those that printed nothing are not there."""
        every: list[PilotFit | PilotFailure] = [*self.fits, *self.failures]
        return {(each.n, each.seed): each.printed for each in every if each.printed}

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write all metrics as `Curve.read` and `korisk plan` take them."""
        self._require()
        rows = tuple(
            (fit.n, fit.metrics[name], fit.seed, self.model, name)
            for name in self.metrics
            for fit in self.fits
        )
        write_text(path, csv_text(Table(("n", "error", "seed", "model", "metric"), rows)))

    def __str__(self) -> str:
        return "\n".join(self._sentences())

    def _sentences(self) -> list[str]:
        sizes = sorted({fit.n for fit in self.fits})
        done = f"{_plural(len(self.fits), 'fit')} at N = {_listed(sizes)}"
        ended = f"{self.stopped[:1].upper()}{self.stopped[1:]}."
        words = [
            f"{self.model}: {done if sizes else 'no fit gave an error'}, in "
            f"{self.seconds:.3g} s of fitting. {ended}"
        ]
        words += [_failures_in_words(self.failures)] if self.failures else []
        words += [f"No curve of {name!r}: {why}." for name, why in self.left_out.items() if sizes]
        left = [fit for fit in self.fits if fit.left_running]
        if left:
            first = left[0]
            words.append(
                f"{_plural(len(left), 'fit')} left something running, the first at N = {first.n}, "
                f"seed {first.seed}: {first.left_running}."
            )
        if self.target is not None and sizes:
            words.append(self._answer(self.target))
        return words

    def _answer(self, target: float) -> str:
        try:
            made = self.plan(target)
        except KoriskError as error:
            return f"{error}."
        return made.explain()


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
    usual = Counter(frozenset(cell.rows[0].metrics) for cell in cells).most_common(1)
    for cell in cells:
        metrics = cell.rows[0].metrics
        if frozenset(metrics) != usual[0][0]:
            names = ", ".join(map(repr, metrics))
            why = f"gave the metrics {names}, and most others did not"
        else:  # the metric and its unit may be others than in the call that measured
            why = reading.refusal(metrics)
        if why:
            failures.append(_unusable(cell, why))
        else:
            fits.append(_fit(cell))
    return (
        tuple(sorted(fits, key=lambda fit: (fit.n, fit.seed))),
        tuple(sorted(failures, key=lambda failure: (failure.n, failure.seed))),
        math.fsum(each.account.seconds for each in every),
    )


def _fit(cell: Cell) -> PilotFit:
    row = cell.rows[0]
    return PilotFit(
        n=row.n,
        seed=cell.task.seed,
        metrics=dict(row.metrics),
        seconds=float(row.detail.get("seconds", cell.account.seconds)),
        printed=str(row.detail.get("printed", "")),
        left_running=str(row.detail.get("left_running", "")),
    )


def _failures_in_words(failures: tuple[PilotFailure, ...]) -> str:
    shown = [
        f"N = {failure.n}, seed {failure.seed}: {failure.reason}"
        for failure in failures[:_SHOWN_FAILURES]
    ]
    more = len(failures) - len(shown)
    shown += [f"and {more} more"] if more else []
    return f"{_plural(len(failures), 'fit')} failed: {'; '.join(shown)}."


def _listed(sizes: list[int]) -> str:
    return ", ".join(f"{n:,}" for n in sizes[:20]) + (" ..." if len(sizes) > 20 else "")


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
