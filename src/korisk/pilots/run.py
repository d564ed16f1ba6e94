"""`run_pilot`: measure the learning curve of any function that trains with n samples.

It calls `fit(n, seed)` at several n and seeds, as the cells of a study, and stores the results.
With a target it can add the sizes that narrow the answer most, until the answer is narrow enough.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

from korisk import _checks
from korisk._checks import LARGEST_N
from korisk.curves.unit import Unit
from korisk.curves.unit import unit as known_unit
from korisk.errors import KoriskError
from korisk.files import make_folder
from korisk.pilots.fit import Fit, FitWork, Reading, is_reserved, pickled
from korisk.pilots.options import Identity, Limits, PilotModel, checked_longer, checked_sizes
from korisk.pilots.result import Pilot, read_pilot
from korisk.planning.forecast import LEAST_SIZES
from korisk.planning.words import chance
from korisk.seeds import checked_seeds
from korisk.store.cells import Task
from korisk.store.file import DamagedError
from korisk.store.store import STORE_NAME, Store, store_to_write
from korisk.studies.run.engine import Compute, run_study
from korisk.studies.run.events import Event, Watch
from korisk.studies.run.progress import Pace, progress

_LONGER_SEEDS = 3  # of the largest size, at most
_ATTEMPTS = 2  # at a fit whose worker died: memory may have been short for a moment


def run_pilot(
    fit: Fit,
    sizes: Iterable[int],
    seeds: int | Iterable[int] = 5,
    *,
    store: str | PathLike[str] | None = None,
    model: str | PilotModel | None = None,
    metric: str | None = None,
    unit: Unit | str | Mapping[str, Unit | str] | None = None,
    target: float | None = None,
    limits: Limits | None = None,
    longer: float | None = None,
    compute: Compute | None = None,
    watch: Watch | None = None,
    quiet: bool = False,
) -> Pilot:
    """Measure a learning curve: call `fit(n, seed)` for every size and seed.

    Fits that fail are kept as `Pilot.failures` and do not stop the rest; see
    docs/reference/pilot.md.

    Parameters
    ----------
    fit : callable
        `fit(n, seed)` trains with n samples and returns its error on a test set, or a dict of
        metrics; in it "train" or "train_METRIC" is an error on the training samples, and "steps" or
        "epochs" how long it trained.
    sizes : iterable of int
        Numbers of training samples, ascending, from 2 on.
    seeds : int or iterable of int, default 5
        Number of seeds (0, 1, ...), or the seeds.
    store : str or path, optional
        File of the results; the same call continues from there. Default: results are not stored.
    model : str or PilotModel, optional
        Name of the model, or its name with settings that the results depend on. Default: the name
        of `fit`.
    metric : str, optional
        The metric to plan with. Default: the first that `fit` returns.
    unit : str, Unit or mapping, optional
        Unit of the metric, such as "accuracy", or units by metric. Default: by the metric's name.
    target : float, optional
        The value to reach, in the metric's unit.
    limits : Limits, optional
        When the pilot ends, and whether it adds sizes. Default: after the given sizes.
    longer : float, optional
        Factor by which the largest size is trained longer at the end, with up to three seeds, to
        find out what limits the error: `fit(n, seed, longer=3.0)`.
    compute : Compute, optional
        Where and how fits run: workers, a cluster, a timeout. Default: in this process.
    watch : callable, optional
        Called with every `Event` of a fit.
    quiet : bool, default False
        Whether to show no progress.

    Returns
    -------
    Pilot
        The curves, failures and plans.

    Raises
    ------
    KoriskError
        If options are wrong or do not fit together, or the store holds something else.

    Examples
    --------
    >>> import korisk as kr
    >>> def fit(n, seed):
    ...     return 3.2 / n * (1 + 0.01 * seed)
    >>> pilot = kr.run_pilot(fit, sizes=[16, 32, 64], seeds=2, store="pilot.db", quiet=True)
    >>> pilot.curve
    Curve('fit', error, N = 16 ... 64 (3 sizes), 2 seeds)
    """
    sizes, seeds = checked_sizes(sizes), checked_seeds(seeds)
    limits = _checks.options_of("limits", limits, Limits)
    compute = _checks.options_of("compute", compute, Compute)
    _checks.function_or_none("watch", watch)
    limits.check(target, sizes)
    if store is not None:
        _checks.path("store", store, remedy="pass 'pilot.db'")
    if metric is not None:
        _checks.name("metric", metric, remedy="name one that fit returns")
        rule = "be a metric of test samples"
        _checks.require(not is_reserved(metric), "metric", rule, metric, "name another")
    longer = checked_longer(longer, fit)
    identity = Identity.of(fit, PilotModel.of(model))
    for metric_unit in unit.values() if isinstance(unit, Mapping) else [unit]:
        if metric_unit is not None:
            known_unit(metric_unit)  # raises for an unknown unit
    if compute.processes or compute.cluster is not None:
        pickled(fit)  # raises now rather than in a worker
    work = FitWork(fit, identity.model, Reading(metric, unit))
    tasks = [identity.task(n, seed) for n in sizes for seed in seeds]
    if longer is not None and not limits.growing:
        # Only announced here, for the progress display; `train_longer` runs them.
        tasks += [identity.task(sizes[-1], seed, longer) for seed in seeds[:_LONGER_SEEDS]]
    with _opened(store, identity, tasks) as opened:
        todo = opened.missing(tasks, failed=compute.retry_failed)
        pace = Pace(todo, skipped=len(tasks) - len(opened.missing(tasks)), unit="fits")
        with progress(pace, quiet=quiet) as display:
            watches = [listener for listener in (display, watch) if listener is not None]

            def tell(event: Event) -> None:
                for listener in watches:
                    listener(event)

            rounds = _Rounds(opened, work, identity, seeds, target, limits, longer, compute, tell)
            stopped = rounds.run(sizes) + rounds.train_longer()
            return rounds.pilot(stopped, path=None if store is None else opened.path)


@contextmanager
def _opened(
    store: str | PathLike[str] | None, identity: Identity, tasks: list[Task]
) -> Iterator[Store]:
    """Open the store, or a temporary one, which is kept if the call ends early."""
    study = {"name": identity.study}
    if store is not None:
        path = store_to_write(store)
        make_folder(path.parent)
        if path.exists():
            # Read first: a store of another model must stay as it is.
            with suppress(DamagedError), Store.read(path) as existing:
                identity.check(existing)
        # Opening for writing copies what is intact of a damaged store.
        with Store.create_or_open(path, study, tasks=tasks) as opened:
            identity.check(opened)
            yield opened
        return
    path = Path(tempfile.mkdtemp(prefix="korisk-pilot-")) / STORE_NAME
    worth_keeping = False
    try:
        with Store.create_or_open(path, study) as opened:
            try:
                yield opened
            except BaseException as error:
                # Hours of fitting must not be lost to an error or to Ctrl-C.
                worth_keeping = any(True for _ in opened.results())
                if worth_keeping:
                    error.add_note(f"korisk: finished fits are kept; pass store={str(path)!r}")
                raise
    finally:
        if not worth_keeping:
            shutil.rmtree(path.parent, ignore_errors=True)


@dataclass
class _Rounds:
    """The sizes of a pilot, measured in rounds."""

    store: Store
    work: FitWork
    identity: Identity
    seeds: list[int]
    target: float | None
    limits: Limits
    longer: float | None
    compute: Compute
    watch: Watch | None
    tasks: list[Task] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    longer_tasks: list[Task] = field(default_factory=list)

    def run(self, sizes: list[int]) -> str:
        """Measure the given sizes, then more if the limits say so; return why it ended."""
        # A pilot in rounds: given sizes, stored ones, then twice the largest.
        bounded = self.limits.budget is not None or self.limits.most_fits is not None
        # With a limit, one size at a time, so that the limit is checked between them.
        groups = [[n] for n in sizes] if bounded else [sizes]
        if self.limits.growing:
            # Sizes of earlier calls come before new ones, since they cost little or nothing.
            groups += [[n] for n in self._stored_sizes(sizes)]
        for group in groups:
            if reason := self._spent(len(self.seeds)):
                return reason
            self._measure(group)
        if not self.limits.growing:
            return "all requested sizes are measured"
        while True:
            pilot = self.pilot()
            if reason := self._settled(pilot) or self._spent(len(self.seeds)):
                return reason
            larger = pilot.next_n
            if larger is None:
                end = self.limits.largest or max(self.sizes)
                end = end if pilot.too_large is None else min(end, pilot.too_large - 1)
                return f"no size up to N = {end:,} is left to measure"
            self._measure([larger])

    def _stored_sizes(self, sizes: list[int]) -> list[int]:
        """Sizes of this model in the store that are not among these, with some of the seeds."""
        tasks = [cell.task for cell in self.store.results() if cell.task.seed in self.seeds]
        fitted = {
            n
            for n, task in ((int(task.spec.get("n", 0)), task) for task in tasks)
            if task.spec_hash == self.identity.task(n, task.seed).spec_hash
        }
        end = self.limits.largest or LARGEST_N
        return sorted(n for n in fitted - set(sizes) if n <= end)

    def _measure(self, sizes: list[int]) -> None:
        tasks = [self.identity.task(n, seed) for n in sizes for seed in self.seeds]
        self.tasks += tasks
        self.sizes += sizes
        self._fit(tasks)

    def train_longer(self) -> str:
        """Train the largest size longer, if requested; return why a limit forbids it, or ""."""
        pilot = self.pilot()
        if self.longer is None or not pilot.sizes:
            return ""
        n = pilot.sizes[-1]
        # The seeds of the usual fits, so that both trainings are compared in pairs.
        seeds = [fit.seed for fit in pilot.fits if fit.n == n][:_LONGER_SEEDS]
        tasks = [self.identity.task(n, seed, self.longer) for seed in seeds]
        # Stored ones cost nothing.
        if self.store.missing(tasks) and (reason := self._spent(len(tasks), "that")):
            return f", and nothing was trained longer: {reason}"
        # Kept apart from `tasks`: longer fits belong to no curve.
        self.longer_tasks = tasks
        self._fit(tasks)
        return ""

    def _fit(self, tasks: list[Task]) -> None:
        run_study(
            tasks, self.work, self.store, compute=self.compute, attempts=_ATTEMPTS, watch=self.watch
        )

    def pilot(self, stopped: str = "", path: Path | None = None) -> Pilot:
        """The pilot as measured so far."""
        fits, failures, seconds = read_pilot(self.store, self.tasks, self.work.reading)
        longer, failed, more = read_pilot(self.store, self.longer_tasks, self.work.reading)
        words = f"with {self.longer or 1:g} times the training: "
        failures += tuple(replace(failure, reason=words + failure.reason) for failure in failed)
        return Pilot(
            model=self.identity.model,
            fits=fits,
            failures=failures,
            longer_fits=longer,
            factor=self.longer,
            seconds=seconds + more,
            stopped=stopped,
            store=path,
            target=self.target,
            largest=self.limits.largest,
            reading=self.work.reading,
        )

    def _spent(self, fits: int, what: str = "another size") -> str:
        """The limit that so many more fits would exceed, in words; empty if none."""
        # The number of fits is known before a round, the time only after it.
        most, budget = self.limits.most_fits, self.limits.budget
        if most is not None and len(self.tasks) + fits > most:
            return f"{what} would be more than {most:,} fits"
        if budget is not None and (seconds := self.pilot().seconds) >= budget:
            return f"the budget of {budget:g} s of fitting is spent ({seconds:.3g} s)"
        return ""

    def _settled(self, pilot: Pilot) -> str:
        """Why no further size is needed; empty if one is."""
        count = len(pilot.sizes)
        if count < LEAST_SIZES:
            return f"too few sizes gave an error to continue: {count}, and {LEAST_SIZES} are needed"
        try:
            plan = pilot.plan()
        except KoriskError as error:  # the measurements are worth returning
            return f"there is no plan for the target: {error}"
        if plan.upper <= self.limits.narrow_enough * plan.lower < float("inf"):
            return (
                f"the answer is narrow enough: between N = {plan.lower:,.0f} and "
                f"{plan.upper:,.0f} with 90% probability, a factor of {plan.upper / plan.lower:.3g}"
            )
        if plan.met_in_pilot:
            return f"the measured mean at N = {plan.forecast.measured:,} meets the target"
        if plan.recommend().action == "stop":
            return f"the target will not be reached (chance {chance(plan.reach)})"
        return ""
