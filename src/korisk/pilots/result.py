"""The result of a pilot: curves, plans, failed fits, and where to measure next."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path

from korisk._checks import LARGEST_N
from korisk._show import Reported
from korisk.curves.curve import Curve
from korisk.curves.stored import TRAINING, Chosen, MeasuredFit, error_of, renamed, training_name
from korisk.curves.unit import Unit
from korisk.errors import Argument, KoriskError
from korisk.files import write_text
from korisk.pilots.fit import Reading, out_of_range
from korisk.planning.forecast import LEAST_SIZES, target_error
from korisk.planning.pilot import Limit, Longer, limit, training_of
from korisk.planning.plan import Forecast, Plan, forecast, plan
from korisk.store.cells import Task
from korisk.store.store import Store
from korisk.studies.results import csv_text, curve_from, signed_table
from korisk.texts import counted

_SHOWN_FAILURES = 5


@dataclass(frozen=True)
class PilotFailure:
    """A fit that failed or returned no valid error."""

    n: int
    seed: int
    reason: str


@dataclass(frozen=True)
class PilotFit:
    """A fit that returned its metrics."""

    n: int
    seed: int
    metrics: Mapping[str, float]
    seconds: float
    training: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Pilot(Reported):
    """The result of `run_pilot`. Errors and targets are in the metric's unit.

    `print(pilot)` summarises it in sentences.

    Parameters
    ----------
    model : str
        Name of the model.
    fits : tuple of PilotFit
        Fits that returned their metrics, in order of n and seed.
    failures : tuple of PilotFailure
        Fits that failed.
    seconds : float
        Seconds of fitting, failed fits included.
    store : Path or None
        The file of the results, if they are kept.
    target : float or None
        The value to reach.
    reading : Reading
        The chosen metric and the units.
    longer_fits : tuple of PilotFit
        Fits of the largest size that were trained longer; they are not part of the curves.
    factor : float or None
        How many times longer `longer_fits` trained.

    Examples
    --------
    >>> import korisk as kr
    >>> def fit(n, seed):
    ...     return {"accuracy": 1 - 1 / n, "loss": 3 / n}
    >>> pilot = kr.run_pilot(fit, sizes=[16, 32, 64], seeds=1, quiet=True)
    >>> pilot.metrics, pilot.metric, pilot.sizes
    (('accuracy', 'loss'), 'accuracy', [16, 32, 64])
    >>> pilot.curves["loss"].error.tolist()
    [0.1875, 0.09375, 0.046875]
    """

    model: str
    fits: tuple[PilotFit, ...]
    failures: tuple[PilotFailure, ...]
    seconds: float
    store: Path | None
    target: float | None = None
    reading: Reading = field(default_factory=Reading, repr=False)
    longer_fits: tuple[PilotFit, ...] = ()
    factor: float | None = None

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics that the fits returned."""
        return tuple(self.fits[0].metrics) if self.fits else ()

    @property
    def metric(self) -> str:
        """The metric of plans."""
        if self.fits:
            return self.reading.chosen(self.fits[0].metrics)
        example = f", the first because: {self.failures[0].reason}" if self.failures else ""
        raise KoriskError(
            f"pilot {self.model!r}: no fit gave an error, {len(self.failures)} failed{example}; "
            "correct fit, and run again with ",
            Argument("retry_failed", True),
        )

    @cached_property
    def curve(self) -> Curve:
        """The learning curve of the chosen metric; `perfect` has notes on errors of 0."""
        metric = self.metric
        curve, _ = self._curve(metric)
        if curve is None:
            raise KoriskError(
                f"pilot {self.model!r}: every fit was perfect in {metric!r}, which leaves no error "
                "to plan with; measure smaller sizes, or test on more samples"
            )
        return curve

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """Curves of all metrics whose values are errors in their unit, by name."""
        candidates = {name: self._curve(name)[0] for name in self.metrics if not self._unfit(name)}
        return {name: curve for name, curve in candidates.items() if curve is not None}

    @property
    def left_out(self) -> dict[str, str]:
        """Metrics without a curve, with the reasons."""
        reasons = {name: self._unfit(name) for name in self.metrics if name not in self.curves}
        return {name: reason or "every fit was perfect" for name, reason in reasons.items()}

    @property
    def training(self) -> Curve | None:
        """Training errors in the chosen metric, at least 1e-6 of the test errors; or None."""
        return self._trained[0]

    @property
    def longer(self) -> Longer | None:
        """The errors of the largest size that was trained longer, beside the usual ones."""
        return self._trained[1]

    @cached_property
    def _trained(self) -> tuple[Curve | None, Longer | None]:
        metric = self.metric
        usual = [(fit, None) for fit in self.fits]
        # A longer fit without the metric says nothing about it.
        longer = [(fit, self.factor) for fit in self.longer_fits if metric in fit.metrics]
        measured = [
            MeasuredFit(fit.n, fit.seed, fit.metrics[metric], fit.training, factor)
            for fit, factor in [*usual, *longer]
        ]
        return training_of(measured, Chosen(metric, self._unit(metric)), self.model)

    @property
    def limit(self) -> Limit:
        """What limits the error at the largest N, or which run would show it."""
        target = None if self.target is None else target_error(self.curve, self.target)
        return limit(self.curve, target, training=self.training, longer=self.longer)

    @property
    def perfect(self) -> tuple[str, ...]:
        """Notes on fits with an error of 0 in the chosen metric, and how the curve treats them."""
        return tuple(self._curve(self.metric)[1]) if self.fits else ()

    @property
    def sizes(self) -> list[int]:
        """The N at which the chosen metric has an error above 0."""
        return self.curve.sizes.tolist() if self.fits and self._curve(self.metric)[0] else []

    @property
    def too_large(self) -> int | None:
        """The first N above all `sizes` where every fit failed or was perfect."""
        sizes = self.sizes
        return min((n for n in self._tried - set(sizes) if n > max(sizes, default=0)), default=None)

    @property
    def _tried(self) -> set[int]:
        return {fit.n for fit in self.fits} | {failure.n for failure in self.failures}

    def _unit(self, metric: str) -> Unit:
        return self.reading.unit_of(metric, chosen=metric == self.metric)

    def _unfit(self, metric: str) -> str:
        """Why a metric has no curve: the first value that is not an error in its unit."""
        unit = self._unit(metric)
        reasons = (out_of_range(unit, metric, fit.metrics[metric]) for fit in self.fits)
        return next(filter(None, reasons), "")

    def _curve(self, metric: str) -> tuple[Curve | None, list[str]]:
        unit = self._unit(metric)
        # Curves are in errors, where smaller is better, whatever the metric is.
        values = [(fit.n, error_of(unit, fit.metrics[metric]), fit.seed) for fit in self.fits]
        return curve_from(values, self.model, Chosen(metric, unit))

    def plan(self, target: float | None = None) -> Plan:
        """Plan the number of samples for a target.

        Parameters
        ----------
        target : float, optional
            The value to reach. Default: that of `run_pilot`.

        Returns
        -------
        Plan
            The result of `korisk.plan`, with the pilot's training errors and longer run.

        Raises
        ------
        KoriskError
            Without a target, or with fewer than three sizes with an error.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.run_pilot(lambda n, seed: 3.2 / n, sizes=[16, 32, 64, 128, 256], quiet=True)
        >>> 600 < pilot.plan(target=0.005).even < 700
        True
        """
        goal = self.target if target is None else target
        if goal is None:
            raise KoriskError("plan needs a target, got None; pass the error you want to reach")
        sizes = self.curve.sizes.tolist()
        if len(sizes) < LEAST_SIZES:
            missing = sorted(self._tried - set(sizes))
            note = f"; every fit failed or was perfect at N = {_listed(missing)}" if missing else ""
            raise KoriskError(
                f"pilot {self.model!r}: a plan needs errors at {LEAST_SIZES} sizes, got "
                f"{len(sizes)} (N = {_listed(sizes)}){note}; measure more sizes"
            )
        return plan(self.curve, goal, training=self.training, longer=self.longer)

    def forecast(self) -> Forecast:
        """The law of the error at every N, from the chosen metric's curve.

        Returns
        -------
        Forecast
            The result of `korisk.forecast`.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.run_pilot(lambda n, seed: 3.2 / n, sizes=[16, 32, 64, 128, 256], quiet=True)
        >>> round(pilot.forecast().at(512).value, 4)
        0.0063
        """
        return forecast(self.curve)

    @property
    def next_n(self) -> int | None:
        """Twice the largest N; None if that was tried, or is `too_large`."""
        n = min(2 * max(self.sizes), LARGEST_N)
        # Larger fits would most likely fail for the same reason.
        return None if n in self._tried or n >= (self.too_large or math.inf) else n

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write all metrics as measured, with the columns n, error, seed, model and metric.

        Training errors, steps and epochs are included as metrics; fits that were trained longer
        are not.

        A column `unit` follows if a metric's name does not imply it. `Curve.read` and `korisk plan`
        read the file with the metric's name; they reject perfect values, and rows that do not match
        their `digest`, the last column.

        Parameters
        ----------
        path : str or path
            The file.

        Raises
        ------
        KoriskError
            If no fit gave an error, or the file cannot be written.

        Examples
        --------
        >>> import korisk as kr
        >>> pilot = kr.run_pilot(lambda n, seed: 3 / n, sizes=[16, 32], seeds=1, quiet=True)
        >>> pilot.to_csv("pilot.csv")
        >>> kr.Curve.read("pilot.csv").sizes.tolist()
        [16, 32]
        """
        main = self.metric  # raises without any fit
        units = {name: self._unit(name).name for name in self.metrics}
        # If there is one training error for all metrics, it is that of the chosen metric.
        training = dict.fromkeys(name for fit in self.fits for name in fit.training)
        units |= {training_name(name, training): units[name] for name in (*self.metrics, main)}
        numbers = [(fit, {**fit.metrics, **fit.training}) for fit in self.fits]
        rows = [
            (fit.n, values[name], fit.seed, self.model, name, units.get(name, "error"))
            for name in [*self.metrics, *training]
            for fit, values in numbers
            if name in values
        ]
        write_text(path, csv_text(signed_table(rows)))

    def __str__(self) -> str:
        sizes = sorted({fit.n for fit in self.fits})
        fits = f"{counted(len(self.fits), 'fit')} at N = {_listed(sizes)}"
        fits = f"{fits if sizes else 'no fit gave an error'}, in {self.seconds:.3g} s of fitting"
        lines = [f"{self.model}: {fits}."]
        if self.failures:
            listed = [f"N = {f.n}, seed {f.seed}: {f.reason}" for f in self.failures]
            rest = "; ..." if len(listed) > _SHOWN_FAILURES else ""
            first = "; ".join(listed[:_SHOWN_FAILURES])
            lines.append(f"{counted(len(listed), 'fit')} failed: {first}{rest}.")
        lines += [_sentence(note) for note in self.perfect]
        lines += [f"No curve of {name!r}: {why}." for name, why in self.left_out.items() if sizes]
        try:
            if self.target is not None and sizes:
                lines.append(self.plan().explain())
            if len(self.sizes) >= LEAST_SIZES:
                limit = self.limit
                # The plan may have stated the limit already.
                lines += [str(limit)] if limit.sentence not in " ".join(lines) else []
        except KoriskError as error:
            lines.append(f"{error}.")
        return "\n".join(lines)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _listed(sizes: list[int]) -> str:
    return ", ".join(f"{n:,}" for n in sizes[:20]) + (" ..." if len(sizes) > 20 else "")


# Fits, failures, and the seconds of both.
Measured = tuple[tuple[PilotFit, ...], tuple[PilotFailure, ...], float]


def read_pilot(store: Store, tasks: Iterable[Task], reading: Reading) -> Measured:
    """The successful fits of these tasks, the failures, and the seconds of fitting."""
    # The store may hold other models and earlier pilots.
    keys = {task.key for task in tasks}
    cells = [cell for cell in store.results() if cell.task.key in keys]
    failed = [failure for failure in store.failures() if failure.task.key in keys]
    fits, failures = [], []
    usages = [cell.usage for cell in cells] + [failure.usage for failure in failed]
    for failure in failed:
        n, reason = int(failure.task.spec["n"]), failure.reason.removeprefix("KoriskError: ")
        failures.append(PilotFailure(n, failure.task.seed, reason))
    metrics_per_cell = [renamed(cell.rows[0], reading.only_name) for cell in cells]
    # A fit whose metrics differ from those of most others points to an error in the user's code.
    most_common = Counter(map(frozenset, metrics_per_cell)).most_common(1)
    for cell, metrics in zip(cells, metrics_per_cell, strict=True):
        row, seed = cell.rows[0], cell.task.seed
        if frozenset(metrics) != most_common[0][0]:
            names = ", ".join(map(repr, metrics))
            problem = f"gave the metrics {names}, and most others did not"
        else:  # metric and unit may differ from those of the call that ran the fit
            problem = reading.refusal(metrics)
        if problem:
            failures.append(PilotFailure(row.n, seed, problem))
        else:
            duration = float(row.detail.get("seconds", cell.usage.seconds))
            training = dict(row.detail.get(TRAINING, {}))
            fits.append(PilotFit(row.n, seed, metrics, duration, training))
    fits.sort(key=lambda fit: (fit.n, fit.seed))
    failures.sort(key=lambda failure: (failure.n, failure.seed))
    return tuple(fits), tuple(failures), math.fsum(usage.seconds for usage in usages)
