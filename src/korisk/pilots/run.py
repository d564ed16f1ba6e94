"""A pilot of one's own: any function that trains with n samples, run as a study.

`run_pilot` calls `fit(n, seed)` at several n and seeds, stores what each call gives, and makes a
learning curve of it. Given a target it can go on by itself, at the sizes that narrow the answer
most, until the answer is narrow enough.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from korisk.curves.curve import LARGEST_N
from korisk.curves.unit import Unit
from korisk.curves.unit import unit as known_unit
from korisk.errors import KoriskError, shown
from korisk.files import make_folder
from korisk.pilots.fit import Fit, FitWork, Reading, carried
from korisk.pilots.mlflow import recorder
from korisk.pilots.progress import progress_bar
from korisk.pilots.read import PilotFailure as PilotFailure
from korisk.pilots.read import PilotFit as PilotFit
from korisk.pilots.read import read_pilot
from korisk.pilots.request import (
    Identity,
    Limits,
    check_options,
    checked_seeds,
    checked_sizes,
)
from korisk.pilots.result import Pilot as Pilot
from korisk.planning.next_size import Cost, next_size
from korisk.planning.plan import TAIL, Plan
from korisk.studies.result import Task
from korisk.studies.results import LEAST_SIZES, PART_OF
from korisk.studies.run.engine import run_study
from korisk.studies.run.events import Watch
from korisk.studies.store.store import STORE_NAME, Store, store_to_write

if TYPE_CHECKING:
    from korisk.studies.run.clusters import Cluster

_ATTEMPTS = 2  # at a fit whose worker died: memory may have been short for a moment


def run_pilot(
    fit: Fit,
    sizes: Iterable[int],
    seeds: int | Iterable[int] = 5,
    *,
    store: str | PathLike[str] | None = None,
    name: str = "pilot",
    model: str | None = None,
    settings: Mapping[str, Any] | None = None,
    metric: str | None = None,
    unit: Unit | str | Mapping[str, Unit | str] | None = None,
    target: float | None = None,
    grow: bool = False,
    largest: int | None = None,
    narrow_enough: float = 2.0,
    budget: float | None = None,
    most_fits: int | None = None,
    cost: Cost | None = None,
    workers: int | None = None,
    threads: int | None = None,
    cluster: "Cluster | None" = None,
    timeout: float | None = None,
    retry_failed: bool = False,
    mlflow: bool | str | None = False,
    watch: Watch | None = None,
    quiet: bool = False,
) -> Pilot:
    """Measure a learning curve: call `fit(n, seed)` for every size and seed.

    `fit` returns its error, or a dict of metrics, of which `metric` names the one to plan with
    (default: the first); `unit` says what it is, as in "accuracy" (default: by its name). Results
    are kept in `store`, a file, from which the same call goes on; `name`, `model`, the function's
    own name and `settings` say whose they are. Fits run in this process, or in `workers` others,
    or on a `cluster`; with a `timeout` each has a process that can be ended. With a `target` and
    `grow` or `largest`, sizes are added until the 90% interval of N spans at most a factor of
    `narrow_enough`, or `budget` seconds or `most_fits` are spent. See docs/reference/pilot.md.

    `sizes` are numbers of training samples, from 2 on; `seeds` is how many, or which. Fits that
    fail are kept as `failures` and do not stop the rest. Options that do not fit together, or a
    store that holds something else, raise `KoriskError`. `quiet` shows no progress.

    >>> import korisk as kr
    >>> def fit(n, seed):
    ...     return 3.2 / n * (1 + 0.01 * seed)
    >>> pilot = kr.run_pilot(fit, sizes=[16, 32, 64], seeds=2, store="pilot.db", quiet=True)
    >>> pilot.curve
    Curve('fit', error, N = 16 ... 64 (3 sizes), 2 seeds)
    """
    asked, often = checked_sizes(sizes), checked_seeds(seeds)
    check_options(store=store, metric=metric, cost=cost, workers=workers, watch=watch)
    _check_cluster(cluster)
    limits = Limits.checked(
        target=target,
        grow=grow,
        largest=largest,
        narrow_enough=narrow_enough,
        budget=budget,
        most_fits=most_fits,
        last=asked[-1],
    )
    identity = Identity.of(fit, name, model, settings)
    reading = _reading(metric, unit)
    processes = _processes(workers, timeout, elsewhere=cluster is not None)
    if processes or cluster is not None:
        carried(fit)  # refused in words before anything starts
    record = recorder(False if mlflow is None else mlflow, identity)
    work = FitWork(fit, identity.model, reading, alone=cluster is None and processes > 0)
    with _opened(store, identity) as opened, progress_bar(quiet=quiet, watch=watch) as shown:
        watchers = [w for w in (shown, record(opened) if record else None) if w is not None]
        run_options = {
            "workers": processes,
            "threads": threads,
            "cluster": cluster,
            "timeout": timeout,
            "with_children": True,
            "attempts": _ATTEMPTS,
            "retry_failed": retry_failed,
            "watch": (lambda event: [watcher(event) for watcher in watchers]) if watchers else None,
        }
        rounds = _Rounds(opened, work, identity, often, limits, cost, run_options)
        stopped = rounds.run(asked)
        return rounds.pilot(stopped, path=None if store is None else opened.path)


def _reading(metric: str | None, unit: Unit | str | Mapping[str, Unit | str] | None) -> Reading:
    for given in unit.values() if isinstance(unit, Mapping) else [unit]:
        if given is not None:
            known_unit(given)  # refused before anything starts
    return Reading(metric, unit)


def _check_cluster(cluster: object) -> None:
    if cluster is None:
        return
    from korisk.studies.run.clusters import Cluster

    if not isinstance(cluster, Cluster):
        raise KoriskError(
            f"cluster must be one that korisk.studies.run.clusters makes, got {shown(cluster)}; "
            "with local_cluster(4) as cluster: is the simplest"
        )


def _processes(workers: int | None, timeout: float | None, *, elsewhere: bool) -> int:
    if workers is None:
        return int(timeout is not None and not elsewhere)
    return workers


@contextmanager
def _opened(store: str | PathLike[str] | None, identity: Identity) -> Iterator[Store]:
    """The store, or one for this call alone; whatever ends that early, results are left."""
    study = {"name": identity.name}
    if store is not None:
        path = store_to_write(store)
        identity.check(path)
        make_folder(path.parent)
        with _written(path, study) as opened:
            yield opened
        return
    path = Path(tempfile.mkdtemp(prefix="korisk-pilot-")) / STORE_NAME
    worth_keeping = False
    try:
        with Store.create_or_open(path, study) as opened:
            try:
                yield opened
            except BaseException as error:
                worth_keeping = any(True for _ in opened.results())
                if worth_keeping:
                    error.add_note(f"korisk: what is finished is kept; pass store={str(path)!r}")
                raise
    finally:
        if not worth_keeping:
            shutil.rmtree(path.parent, ignore_errors=True)


def _written(path: Path, study: dict[str, Any]) -> Store:
    try:
        return Store.create_or_open(path, study)
    except KoriskError as error:  # which speaks to the command line
        raise KoriskError(str(error).replace("--out", "store=")) from None


@dataclass
class _Rounds:
    """The sizes of a pilot, measured one round after the other."""

    store: Store
    work: FitWork
    identity: Identity
    seeds: list[int]
    limits: Limits
    cost: Cost | None
    run_options: dict[str, Any]
    tasks: list[Task] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def run(self, sizes: list[int]) -> str:
        """Measure the given sizes, then more of them if asked to; why that ended, in words."""
        bounded = self.limits.budget is not None or self.limits.most_fits is not None
        for group in [[n] for n in sizes] if bounded else [sizes]:
            if over := self._spent():
                return over
            self._measure(group)
        if not self.limits.grow:
            return "all sizes that were asked for are measured"
        if over := self._take_up():
            return over
        while True:
            if over := self._settled() or self._spent():
                return over
            following = self._next()
            if following is None:
                return f"no size up to N = {self._largest():,} is left to measure"
            self._measure([following])

    def _take_up(self) -> str:
        """Count in other sizes that the store holds of this model, and fill up their seeds.

        The words say why that ended early; none where it did not.
        """
        held: dict[int, set[int]] = {}
        tasks = [cell.task for cell in self.store.results()]
        for task in tasks + [failure.task for failure in self.store.failures()]:
            if task.spec.get(PART_OF) == self.identity.model:
                n = int(task.spec["n"])
                if task.spec_hash == self.identity.task(n, task.seed).spec_hash:
                    held.setdefault(n, set()).add(task.seed)
        end = self.limits.largest or LARGEST_N
        other = [n for n in sorted(held) if n not in self.sizes and n <= end]
        whole = [n for n in other if held[n] >= set(self.seeds)]
        if whole:
            self._measure(whole)
        for n in other:
            if n not in whole and held[n] & set(self.seeds):
                if over := self._spent():
                    return over
                self._measure([n])
        return ""

    def _measure(self, sizes: list[int]) -> None:
        new = [self.identity.task(n, seed) for n in sizes for seed in self.seeds]
        self.tasks += new
        self.sizes += sizes
        run_study(new, self.work, self.store, **self.run_options)

    def pilot(self, stopped: str = "", path: Path | None = None) -> Pilot:
        """What is measured so far."""
        fits, failures, seconds = read_pilot(self.store, self.tasks, self.work.reading)
        return Pilot(
            model=self.identity.model,
            fits=fits,
            failures=failures,
            seconds=seconds,
            stopped=stopped,
            store=path,
            target=self.limits.target,
            largest=self.limits.largest,
            cost=self.cost,
            reading=self.work.reading,
        )

    def _spent(self) -> str:
        limits = self.limits
        most = float("inf") if limits.most_fits is None else limits.most_fits
        if len(self.tasks) + len(self.seeds) > most:
            return f"another size would be more than {most:,} fits"
        if limits.budget is not None:
            seconds = self.pilot().seconds
            if seconds >= limits.budget:
                return f"the budget of {limits.budget:g} s of fitting is spent ({seconds:.3g} s)"
        return ""

    def _settled(self) -> str:
        """Why there is nothing more to find out, or cannot be; nothing where there is."""
        pilot = self.pilot()
        found = len(pilot.sizes)
        if found < LEAST_SIZES:
            return f"too few sizes gave an error to go on: {found}, and {LEAST_SIZES} are needed"
        try:
            made = pilot.plan()
        except KoriskError as error:  # what is measured is not lost for that
            return f"there is no plan for the target: {error}"
        if made.upper <= self.limits.narrow_enough * made.lower < float("inf"):
            return f"the answer is narrow enough: {_interval(made)}"
        if made.reach < TAIL:
            return f"the pilot speaks against the target: a chance of {made.reach:.1%} to meet it"
        return ""

    def _next(self) -> int | None:
        pilot = self.pilot()
        candidates = pilot.open_sizes
        if not candidates:
            return None
        assert self.limits.target is not None
        return next_size(
            pilot.curve,
            self.limits.target,
            candidates=candidates,
            seeds=len(self.seeds),
            cost=self.cost,
        ).n

    def _largest(self) -> int:
        end, too_large = self.limits.largest or max(self.sizes), self.pilot().too_large
        return end if too_large is None else min(end, too_large - 1)


def _interval(made: Plan) -> str:
    return (
        f"between N = {made.lower:,.0f} and {made.upper:,.0f} with 90% probability, "
        f"a factor of {made.upper / made.lower:.3g}"
    )
