"""`run_pilot`: any function that trains with n samples, run as a study.

It calls `fit(n, seed)` at several n and seeds, stores the results, and makes a learning curve of
them. With a target it can continue at the sizes that narrow the answer most, until the answer is
narrow enough.
"""

import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from korisk._checks import LARGEST_N, require
from korisk._show import from_report
from korisk.curves.unit import Unit
from korisk.curves.unit import unit as known_unit
from korisk.errors import Argument, KoriskError, KoriskWarning, MissingExtraError, invalid
from korisk.files import make_folder
from korisk.pilots.fit import Fit, FitWork, Reading, pickled
from korisk.pilots.result import Pilot, read_pilot
from korisk.planning.chances import TAIL
from korisk.planning.compare import LEAST_SIZES
from korisk.planning.next_size import Cost
from korisk.store.cells import Task
from korisk.store.file import DamagedError
from korisk.store.store import STORE_NAME, Store, store_to_write
from korisk.studies.run.engine import run_study
from korisk.studies.run.events import Event, Watch
from korisk.studies.run.progress import Pace, progress

if TYPE_CHECKING:
    from korisk.studies.run.clusters import Cluster
import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np

from korisk import _checks
from korisk.curves.stored import PART_OF
from korisk.store.store import difference


@dataclass(frozen=True)
class Identity:
    """Whose results these are: only the same model may continue them."""

    name: str  # of the study, one to a store
    model: str
    fit: str  # the function's own name
    settings: Mapping[str, Any]

    @classmethod
    def of(
        cls, fit: Fit, name: str, model: str | None, settings: Mapping[str, Any] | None
    ) -> "Identity":
        """The identity of a fit, as its user names it."""
        require(callable(fit), "fit", "be a function of n and seed", fit, "pass one")
        own, bound = own_name(fit)
        remedy = "give it a short name"
        return cls(
            name=_checks.name("name", name, remedy=remedy),
            model=_checks.name("model", short_name(own) if model is None else model, remedy=remedy),
            fit=own,
            settings=plain_settings(settings) | bound,
        )

    def task(self, n: int, seed: int) -> Task:
        """The cell of one fit."""
        spec = {PART_OF: self.model, "n": n, "fit": self.fit, "settings": dict(self.settings)}
        return Task(point=f"{self.model}, n = {n}", seed=seed, spec=spec)

    def check(self, store: Store) -> None:
        """Refuse a store with results of this model under other settings."""
        for spec in [cell.task.spec for cell in store.results()]:
            mine = self.task(spec.get("n", 0), 0)
            if (
                spec.get(PART_OF) == self.model
                and mine.spec_hash != Task(point="", seed=0, spec=spec).spec_hash
            ):
                name, old, new = difference(spec, mine.spec)
                raise KoriskError(
                    f"{store.path}: {name} of model {self.model!r} is {old} in the store and {new} "
                    "now, so the results do not belong together; give another ",
                    Argument("model", ...),
                    " to keep both there, or another ",
                    Argument("store", ...),
                )


def own_name(fit: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """A function's own name, and the plain values that `functools.partial` has bound to it."""
    inner: Any = fit
    bound: dict[str, Any] = {}
    while isinstance(inner, partial):
        for key, value in (dict(enumerate(inner.args)) | inner.keywords).items():
            with suppress(TypeError, ValueError, RecursionError):
                bound.setdefault(f"partial {key}", _plain(value))
        inner = inner.func
    known = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return str(known), bound


def _plain(value: Any) -> Any:
    """A value as JSON has it, scalars of NumPy included; raises where JSON has none."""
    return json.loads(json.dumps(value, allow_nan=False, default=np.generic.item))


def short_name(name: str) -> str:
    """The last part of a qualified name; `lambda` for one without a name."""
    return re.sub(r"[<>]", "", name.rpartition(".")[2])[:80] or "fit"


def plain_settings(settings: Any) -> dict[str, Any]:
    """A copy of the user's settings as plain JSON values."""
    if settings is None:
        return {}
    if isinstance(settings, Mapping) and all(isinstance(key, str) for key in settings):
        with suppress(TypeError, ValueError, RecursionError):
            return {key: _plain(value) for key, value in settings.items()}
    remedy = "give numbers, texts, lists and dicts of these"
    raise invalid("settings", "be a dict of plain values by name", settings, remedy)


def check_options(
    *, store: object, metric: object, cost: object, workers: object, watch: object
) -> None:
    """Refuse options of the wrong type before anything starts."""
    if store is not None and (not isinstance(store, str | PathLike) or not str(store)):
        raise invalid("store", "be the name of a file", store, "pass 'pilot.db'")
    if metric is not None:
        _checks.name("metric", metric, remedy="name one that fit returns")
    for name, value in (("cost", cost), ("watch", watch)):
        require(value is None or callable(value), name, "be a function", value, "or leave it out")
    if workers is not None:
        _checks.count("workers", workers, at_least=0, remedy="0 runs fits in this process")


def checked_sizes(sizes: Iterable[int]) -> list[int]:
    """Training set sizes: whole numbers from 2, ascending."""
    remedy = "give a list of ascending N; three or more make a plan"
    require(isinstance(sizes, Iterable), "sizes", "be a list", sizes, remedy)
    found = [_checks.count("sizes", n, at_least=2, at_most=LARGEST_N, remedy=remedy) for n in sizes]
    ascending = bool(found) and found == sorted(set(found))
    require(ascending, "sizes", "be in ascending order", found, remedy)
    return found


def checked_seeds(seeds: int | Iterable[int]) -> list[int]:
    """Seeds: a count, from 0 on, or a list."""
    remedy = "give a count, or a list of whole numbers"
    if not isinstance(seeds, Iterable):
        return list(range(_checks.count("seeds", seeds, at_least=1, at_most=10_000, remedy=remedy)))
    most = 2**63 - 1
    found = [_checks.count("seeds", s, at_least=0, at_most=most, remedy=remedy) for s in seeds]
    distinct = bool(found) and len(set(found)) == len(found)
    require(distinct, "seeds", "be one or more, each once", found, remedy)
    return found


@dataclass(frozen=True)
class Limits:
    """When a pilot ends; `last` is the largest of the given sizes."""

    target: float | None
    grow: bool
    largest: int | None
    narrow_enough: float
    budget: float | None
    most_fits: int | None
    last: int

    def __post_init__(self) -> None:
        remedy = "or leave it out"
        if self.target is not None:
            _checks.real("target", self.target, remedy=remedy)
        if self.largest is not None:
            least, most = self.last, LARGEST_N
            _checks.count("largest", self.largest, at_least=least, at_most=most, remedy=remedy)
        _checks.real("narrow_enough", self.narrow_enough, above=1, remedy="2.0 is a factor of 2")
        if self.budget is not None:
            _checks.real("budget", self.budget, above=0, remedy=remedy)
        if self.most_fits is not None:
            _checks.count("most_fits", self.most_fits, at_least=1, at_most=10**6, remedy=remedy)
        endless = self.largest is self.budget is self.most_fits is None
        if self.growing and (self.target is None or endless):
            raise KoriskError(
                "a pilot that grows must have a target and an end, got none; pass ",
                Argument("target", ...),
                " (the error that you want to reach), and ",
                Argument("largest", ...),
                ", ",
                Argument("budget", ...),
                " or ",
                Argument("most_fits", ...),
            )

    @property
    def growing(self) -> bool:
        """Whether sizes are added to the given ones."""
        return self.grow or self.largest is not None


_ATTEMPTS = 2  # at a fit whose worker died: memory may have been short for a moment
_LONGEST_WORDS = 500  # MLflow limits the values of tags


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
    live: bool | int = False,
    quiet: bool = False,
) -> Pilot:
    """Measure a learning curve: call `fit(n, seed)` for every size and seed.

    Fits that fail are kept as `Pilot.failures` and do not stop the rest; see
    docs/reference/pilot.md.

    Parameters
    ----------
    fit : callable
        `fit(n, seed)` trains with n samples and returns its error on a test set, or a dict of
        metrics.
    sizes : iterable of int
        Numbers of training samples, ascending, from 2 on.
    seeds : int or iterable of int, default 5
        How many seeds (0, 1, ...), or which.
    store : str or path, optional
        File of the results; the same call continues from there. Default: none are kept.
    name : str, default "pilot"
        Name of the study; a store holds studies of one name.
    model : str, optional
        Name of the model. Default: the name of `fit`.
    settings : mapping, optional
        Plain values that the results depend on; a store refuses others for the same model.
    metric : str, optional
        The metric to plan with. Default: the first that `fit` returns.
    unit : str, Unit or mapping, optional
        Unit of the metric, such as "accuracy", or units by metric. Default: by the metric's name.
    target : float, optional
        The value to reach, in the metric's unit.
    grow : bool, default False
        Whether to add sizes until the answer for `target` is narrow enough.
    largest : int, optional
        Largest N to add; implies `grow`.
    narrow_enough : float, default 2.0
        Ratio of the ends of N's 90% interval at which to stop.
    budget : float, optional
        Seconds of fitting, failed fits included, after which no size is added.
    most_fits : int, optional
        Largest number of fits in all.
    cost : callable, optional
        `cost(n)` of one fit; then sizes are chosen by what they narrow per cost.
    workers : int, optional
        Processes that fit; 0, the default, is this process (1 with a `timeout`).
    threads : int, optional
        Threads of each worker. Default: OMP_NUM_THREADS if that is set, else the cores, shared.
    cluster : Cluster, optional
        A Dask cluster of `korisk.studies.run.clusters` that fits instead.
    timeout : float, optional
        Seconds after which a fit is ended and counts as failed.
    retry_failed : bool, default False
        Whether to repeat fits that failed in an earlier call.
    mlflow : bool or str, default False
        Whether to log each fit as a run of MLflow, or the name of the experiment.
    watch : callable, optional
        Called with every `Event`.
    live : bool or int, default False
        Whether to serve a page that grows with the pilot, at http://127.0.0.1 (this machine alone)
        until it ends, or the port. With a `store` the last page is written beside it, as .html.
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
    asked, often = checked_sizes(sizes), checked_seeds(seeds)
    check_options(store=store, metric=metric, cost=cost, workers=workers, watch=watch)
    if cluster is not None:
        from korisk.studies.run.clusters import Cluster

        rule = "be one of korisk.studies.run.clusters"
        remedy = "with local_cluster(4) as cluster: is the simplest"
        require(isinstance(cluster, Cluster), "cluster", rule, cluster, remedy)
    limits = Limits(target, grow, largest, narrow_enough, budget, most_fits, last=asked[-1])
    identity = Identity.of(fit, name, model, settings)
    for given in unit.values() if isinstance(unit, Mapping) else [unit]:
        if given is not None:
            known_unit(given)  # raises for an unknown one
    if workers is None:
        workers = int(timeout is not None and cluster is None)
    if workers or cluster is not None:
        pickled(fit)  # raises before anything starts
    client = _mlflow(mlflow)
    alone = cluster is None and workers > 0
    work = FitWork(fit, identity.model, Reading(metric, unit), alone=alone)
    tasks = [identity.task(n, seed) for n in asked for seed in often]
    with _port(live) as port, _opened(store, identity, tasks) as opened:
        missing = opened.missing(tasks)
        pace = Pace(
            [task for task in missing if retry_failed or not opened.failed(task)],
            skipped=len(tasks) - len(missing),
            unit="fits",
        )
        with (
            _served(port, opened.path, pace, target, keep=store is not None) as told,
            progress(pace, quiet=quiet, watches=(told, watch)) as shown_progress,
        ):
            run_options = {
                "workers": workers,
                "threads": threads,
                "cluster": cluster,
                "timeout": timeout,
                "attempts": _ATTEMPTS,
                "retry_failed": retry_failed,
                "watch": shown_progress,
            }
            if client is not None:
                run_options["watch"] = _MlflowRuns(client, mlflow, identity, opened, shown_progress)
            rounds = _Rounds(opened, work, identity, often, limits, cost, run_options)
            stopped = rounds.run(asked)
            return rounds.pilot(stopped, path=None if store is None else opened.path)


@contextmanager
def _opened(
    store: str | PathLike[str] | None, identity: Identity, tasks: list[Task]
) -> Iterator[Store]:
    """The store, or one for this call alone; if that ends early, finished fits are kept."""
    study = {"name": identity.name}
    if store is not None:
        path = store_to_write(store)
        make_folder(path.parent)
        if path.exists():
            with suppress(DamagedError), Store.read(path) as known:
                identity.check(known)
        with Store.create_or_open(path, study, tasks=tasks) as opened:  # which repairs it
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
                worth_keeping = any(True for _ in opened.results())
                if worth_keeping:
                    error.add_note(f"korisk: finished fits are kept; pass store={str(path)!r}")
                raise
    finally:
        if not worth_keeping:
            shutil.rmtree(path.parent, ignore_errors=True)


def _port(live: bool | int) -> AbstractContextManager[Any]:
    """The port of the live page, opened before anything is written; None without one."""
    if live is False:
        return nullcontext()
    remedy = "choose another, or True for a free one"
    port: AbstractContextManager[Any] = from_report("live", "LivePort")(
        live, field="live", remedy=remedy
    )
    return port


def _served(
    port: Any, path: Path, pace: Pace, target: float | None, *, keep: bool
) -> AbstractContextManager[Watch | None]:
    """Whom to tell of events so that the page is drawn anew; None without one."""
    if port is None:
        return nullcontext()
    page = path.with_name("report.html") if path.name == STORE_NAME else path.with_suffix(".html")
    told: AbstractContextManager[Watch] = from_report("live", "live_page")(
        port, path, pace, page=page if keep else None, target=target
    )
    return told


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
        """Measure the given sizes, then more if asked to; why that ended, in words."""
        bounded = self.limits.budget is not None or self.limits.most_fits is not None
        for group in [[n] for n in sizes] if bounded else [sizes]:
            if over := self._spent():
                return over
            self._measure(group)
        if not self.limits.growing:
            return "all requested sizes are measured"
        for n, fitted in self._stored_sizes().items():
            if not fitted and (over := self._spent()):
                return over
            self._measure([n])
        while True:
            pilot = self.pilot()
            if over := self._settled(pilot) or self._spent():
                return over
            if not pilot.open_sizes:
                end = self.limits.largest or max(self.sizes)
                end = end if pilot.too_large is None else min(end, pilot.too_large - 1)
                return f"no size up to N = {end:,} is left to measure"
            self._measure([pilot.suggest(seeds=len(self.seeds)).n])

    def _stored_sizes(self) -> dict[int, bool]:
        """Other sizes that the store holds of this model; whether all seeds are fitted there.

        Those with all seeds come first: they cost nothing.
        """
        held: dict[int, set[int]] = {}
        tasks = [cell.task for cell in self.store.results()]
        for task in tasks + [failure.task for failure in self.store.failures()]:
            n = int(task.spec.get("n", 0))
            if task.spec_hash == self.identity.task(n, task.seed).spec_hash:
                held.setdefault(n, set()).add(task.seed)
        end, seeds = self.limits.largest or LARGEST_N, set(self.seeds)
        other = [n for n in sorted(held) if n not in self.sizes and n <= end and held[n] & seeds]
        return dict(sorted(((n, held[n] >= seeds) for n in other), key=lambda pair: not pair[1]))

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
        """Which limit is reached; empty if none is."""
        most, budget = self.limits.most_fits, self.limits.budget
        if most is not None and len(self.tasks) + len(self.seeds) > most:
            return f"another size would be more than {most:,} fits"
        if budget is not None and (seconds := self.pilot().seconds) >= budget:
            return f"the budget of {budget:g} s of fitting is spent ({seconds:.3g} s)"
        return ""

    def _settled(self, pilot: Pilot) -> str:
        """Why there is nothing more to find out; empty if there is."""
        found = len(pilot.sizes)
        if found < LEAST_SIZES:
            return f"too few sizes gave an error to continue: {found}, and {LEAST_SIZES} are needed"
        try:
            made = pilot.plan()
        except KoriskError as error:  # the measurements are worth returning
            return f"there is no plan for the target: {error}"
        if made.upper <= self.limits.narrow_enough * made.lower < float("inf"):
            return (
                f"the answer is narrow enough: between N = {made.lower:,.0f} and "
                f"{made.upper:,.0f} with 90% probability, a factor of {made.upper / made.lower:.3g}"
            )
        if made.reach < TAIL:
            return f"the target is hardly reachable: a probability of {made.reach:.1%}"
        return ""


# --- MLflow --------------------------------------------------------------------------------------


def _mlflow(experiment: object) -> Any:
    """The module, or None if nothing is to be logged."""
    if experiment is None or experiment is False:
        return None
    if experiment is not True and not (isinstance(experiment, str) and experiment.strip()):
        rule = "be True or an experiment's name"
        raise invalid("mlflow", rule, experiment, "leave it out to log nothing")
    try:
        return import_module("mlflow")
    except ModuleNotFoundError:
        missing = " needs MLflow, which is not installed; pip install mlflow"
        raise MissingExtraError(Argument("mlflow", ...), missing) from None


@dataclass
class _MlflowRuns:
    """A `watch` that logs one run for each fit, until MLflow fails."""

    mlflow: Any
    experiment: object
    identity: Identity
    store: Store
    watch: Watch | None
    failed: bool = False

    def __call__(self, event: Event) -> None:
        if self.watch is not None:
            self.watch(event)
        if event.kind not in {"done", "failed"} or self.failed:
            return
        mlflow, task, about = self.mlflow, event.task, self.identity
        try:
            if isinstance(self.experiment, str):
                mlflow.set_experiment(self.experiment)
                self.experiment = None
            # Within a run of the user's own, ours are its children.
            mlflow.start_run(run_name=task.key, nested=mlflow.active_run() is not None)
            try:
                settings = {f"settings.{name}": value for name, value in about.settings.items()}
                plain = {"model": about.model, "n": task.spec["n"], "seed": task.seed}
                mlflow.log_params(plain | settings)
                if event.kind == "done":
                    [cell] = [c for c in self.store.results() if c.task.key == task.key]
                    mlflow.log_metrics(dict(cell.rows[0].metrics))
                    mlflow.log_metric("seconds", cell.usage.seconds)
                else:
                    mlflow.set_tag("korisk.failed", event.words[:_LONGEST_WORDS])
            finally:
                mlflow.end_run("FINISHED" if event.kind == "done" else "FAILED")
        except Exception as error:  # of a server, a file, a limit
            self.failed = True
            why = f"{type(error).__name__}: {' '.join(str(error).split())}"[:_LONGEST_WORDS]
            warnings.warn(
                f"MLflow did not take {task.key} ({why}), and gets no further fits; the pilot "
                "continues, and its results are in its own store",
                KoriskWarning,
                stacklevel=2,
            )
