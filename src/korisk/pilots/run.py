"""`run_pilot`: measure the learning curve of any function that trains with n samples.

It calls `fit(n, seed)` at several n and seeds, as the cells of a study, and stores the results.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path

from korisk import _checks
from korisk.curves.unit import Unit
from korisk.curves.unit import unit as known_unit
from korisk.files import make_folder
from korisk.pilots.fit import Fit, FitWork, Reading, is_reserved, pickled
from korisk.pilots.options import Identity, PilotModel, checked_longer, checked_sizes
from korisk.pilots.result import Measured, Pilot, read_pilot
from korisk.seeds import checked_seeds
from korisk.store.cells import Task
from korisk.store.file import DamagedError
from korisk.store.store import STORE_NAME, Store, store_to_write
from korisk.studies.run.engine import Compute, run_study
from korisk.studies.run.events import Event, Watch
from korisk.studies.run.progress import progress

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
    longer : float, optional
        Factor by which the largest size is trained longer at the end, with up to three seeds, to
        find out what limits the error: `fit(n, seed, longer=3.0)`.
    compute : Compute, optional
        Where and how fits run: workers, a cluster. Default: in this process.
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
    compute = _checks.options_of("compute", compute, Compute)
    _checks.function_or_none("watch", watch)
    if target is not None:
        _checks.real("target", target, remedy="give such a number, or leave it out")
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
    if compute.workers or compute.cluster is not None:
        pickled(fit)  # raises now rather than in a worker
    work = FitWork(fit, identity.model, Reading(metric, unit))
    usual = [identity.task(n, seed) for n in sizes for seed in seeds]
    # Announced for the progress display; run at the largest size that gave an error.
    again = [] if longer is None else seeds[:_LONGER_SEEDS]
    tasks = [*usual, *(identity.task(sizes[-1], seed, longer) for seed in again)]
    with _opened(store, identity, tasks) as opened:
        todo = len(opened.missing(tasks, failed=compute.retry_failed))
        skipped = len(tasks) - len(opened.missing(tasks))
        with progress(todo, skipped=skipped, unit="fits", quiet=quiet) as display:
            watches = [listener for listener in (display, watch) if listener is not None]

            def tell(event: Event) -> None:
                for listener in watches:
                    listener(event)

            def run(cells: list[Task]) -> Measured:
                run_study(cells, work, opened, compute=compute, attempts=_ATTEMPTS, watch=tell)
                return read_pilot(opened, cells, work.reading)

            fits, failures, seconds = run(usual)
            pilot = Pilot(
                model=identity.model,
                fits=fits,
                failures=failures,
                seconds=seconds,
                store=None if store is None else opened.path,
                target=target,
                reading=work.reading,
            )
            if longer is None or not pilot.sizes:
                return pilot
            n = pilot.sizes[-1]
            # The seeds of the usual fits, so that both trainings are compared in pairs.
            seeds = [fit.seed for fit in fits if fit.n == n][:_LONGER_SEEDS]
            longer_fits, failed, more = run([identity.task(n, seed, longer) for seed in seeds])
            words = f"with {longer:g} times the training: "
            failed = tuple(replace(failure, reason=words + failure.reason) for failure in failed)
            return replace(
                pilot,
                failures=failures + failed,
                seconds=seconds + more,
                longer_fits=longer_fits,
                factor=longer,
            )


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
