"""What a pilot gave: curves, a plan, what failed and why, and where to measure next."""

from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path

import numpy as np

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.files import write_text
from korisk.pilots.fit import Reading, out_of_range
from korisk.pilots.read import PilotFailure, PilotFit
from korisk.planning.forecast import forecast
from korisk.planning.next_size import Cost, NextSize, next_size, open_sizes
from korisk.planning.plan import ROUND, Plan, plan
from korisk.studies.export import Table, csv_text
from korisk.studies.results import LEAST_SIZES, Chosen, curve_from, error_of

_SHOWN_FAILURES = 5


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """The result of `run_pilot`. Errors and targets are in the user's unit.

    `fits` and `failures` are what was measured and what was not, `stopped` why it ended. `print`
    says all of it in sentences.

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
        """The learning curve of the chosen metric, as `perfect` says where fits were perfect."""
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
        """The curves of all metrics whose values are errors in their unit, by name."""
        found = {name: self._curve(name)[0] for name in self.metrics if not self._unfit(name)}
        return {name: curve for name, curve in found.items() if curve is not None}

    @property
    def left_out(self) -> dict[str, str]:
        """Why a metric has no curve, for those that have none."""
        found = {name: self._unfit(name) for name in self.metrics if name not in self.curves}
        return {name: why or "every fit was perfect" for name, why in found.items()}

    @property
    def perfect(self) -> tuple[str, ...]:
        """Where fits had no error at all in the chosen metric, and what the curve makes of it."""
        return tuple(self._curve(self.metric)[1]) if self.fits else ()

    @property
    def sizes(self) -> list[int]:
        """The N at which the chosen metric has an error above 0."""
        return self.curve.sizes.tolist() if self.fits and self._curve(self.metric)[0] else []

    @property
    def too_large(self) -> int | None:
        """The first N above all `sizes` where every fit failed or was perfect: none lies beyond."""
        sizes = self.sizes
        return min((n for n in self._tried - set(sizes) if n > max(sizes, default=0)), default=None)

    @property
    def _tried(self) -> set[int]:
        return {fit.n for fit in self.fits} | {failure.n for failure in self.failures}

    def _unfit(self, metric: str) -> str:
        unit = self.reading.unit_of(metric, chosen=metric == self.metric)
        found = (out_of_range(unit, metric, fit.metrics[metric]) for fit in self.fits)
        return next((why for why in found if why), "")

    def _curve(self, metric: str) -> tuple[Curve | None, list[str]]:
        unit = self.reading.unit_of(metric, chosen=metric == self.metric)
        values = [(fit.n, error_of(unit, fit.metrics[metric]), fit.seed) for fit in self.fits]
        return curve_from(values, self.model, Chosen(metric, unit))

    def plan(self, target: float | None = None) -> Plan:
        """How many samples a target asks for (default: the one that the pilot was run for).

        Fewer than three sizes with an error raise `KoriskError`.

        >>> import korisk as kr
        >>> pilot = kr.run_pilot(lambda n, seed: 3.2 / n, sizes=[16, 32, 64, 128, 256], quiet=True)
        >>> 600 < pilot.plan(target=0.005).samples < 700
        True
        """
        asked = self.target if target is None else target
        if asked is None:
            raise KoriskError("plan needs a target, got None; pass the error you want to reach")
        self._require_sizes()
        return plan(self.curve, asked)

    def _require_sizes(self) -> None:
        self._require()
        sizes = self.curve.sizes.tolist()
        if len(sizes) >= LEAST_SIZES:
            return
        lost = sorted({failure.n for failure in self.failures} - {fit.n for fit in self.fits})
        why = f"; every fit failed at N = {_listed(lost)}" if lost else ""
        flawless = sorted({fit.n for fit in self.fits} - set(sizes))
        why += f"; every fit was perfect at N = {_listed(flawless)}" if flawless else ""
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
        """Where one more size would narrow the answer for a target most; see `next_size`.

        `seeds` is how many the new size would get. Without a target, here or in `run_pilot`, or
        with fewer than three sizes, it raises `KoriskError`.

        >>> import korisk as kr
        >>> pilot = kr.run_pilot(lambda n, seed: 3.2 / n, sizes=[16, 32, 64, 128, 256], quiet=True)
        >>> pilot.suggest(target=0.005).n > 256
        True
        """
        asked = self.target if target is None else target
        if asked is None:
            raise KoriskError("suggest needs a target, got None; pass the error you want to reach")
        self._require_sizes()
        return next_size(self.curve, asked, candidates=self.open_sizes, seeds=seeds, cost=self.cost)

    @property
    def open_sizes(self) -> list[int]:
        """Sizes that could be measured next: none that was tried, none from `too_large` on."""
        tried, end = self._tried, self.too_large
        return [
            n
            for n in open_sizes(self.curve, self.largest)
            if n not in tried and (end is None or n < end)
        ]

    @property
    def printed(self) -> dict[tuple[int, int], str]:
        """What fits have printed, by n and seed; those that printed nothing are not there."""
        every: list[PilotFit | PilotFailure] = [*self.fits, *self.failures]
        return {(each.n, each.seed): each.printed for each in every if each.printed}

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write all metrics as they were measured: n, error (the value), seed, model, metric.

        `Curve.read` and `korisk plan` take it with the metric's name and its unit; neither takes
        perfect values.

        >>> import korisk as kr
        >>> pilot = kr.run_pilot(lambda n, seed: 3 / n, sizes=[16, 32], seeds=1, quiet=True)
        >>> pilot.to_csv("pilot.csv")
        >>> kr.Curve.read("pilot.csv").sizes.tolist()
        [16, 32]
        """
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
        words += [f"{said[:1].upper()}{said[1:]}." for said in self.perfect]
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
