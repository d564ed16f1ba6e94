"""A pilot's fits as runs of MLflow, one for each, written as they finish."""

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

from korisk.errors import KoriskError, KoriskWarning, MissingExtraError, shown
from korisk.pilots.request import Identity
from korisk.studies.run.events import Event, Watch
from korisk.studies.store.store import Store

_LONGEST_WORDS = 500  # MLflow limits the values of tags


def recorder(experiment: object, identity: Identity) -> Callable[[Store], Watch] | None:
    """What makes a `watch` that records; None where nothing is to be recorded."""
    if experiment is False:
        return None
    if experiment is not True and not (isinstance(experiment, str) and experiment.strip()):
        raise KoriskError(
            f"mlflow must be True or an experiment's name, got {shown(experiment)}; "
            "leave it out to record nothing"
        )
    try:
        mlflow = import_module("mlflow")
    except ModuleNotFoundError:
        raise MissingExtraError(
            "mlflow= needs MLflow, which is not installed; pip install mlflow"
        ) from None
    return lambda store: _Recorder(mlflow, experiment, identity, store)


class _Recorder:
    """Writes runs. Where MLflow fails, that is said once, and the pilot goes on."""

    def __init__(self, mlflow: Any, experiment: object, identity: Identity, store: Store) -> None:
        self._mlflow = mlflow
        self._experiment = experiment if isinstance(experiment, str) else None
        self._identity = identity
        self._store = store
        self._warned = False

    def __call__(self, event: Event) -> None:
        if event.kind not in {"done", "failed"}:
            return
        try:
            self._record(event)
        except Exception as error:  # of a server, a file, a limit of its own
            if not self._warned:
                self._warned = True
                why = f"{type(error).__name__}: {' '.join(str(error).split())}"[:_LONGEST_WORDS]
                warnings.warn(
                    f"MLflow did not take {event.task.key} ({why}); the pilot goes on, and its "
                    "results are in its own store",
                    KoriskWarning,
                    stacklevel=2,
                )

    def _record(self, event: Event) -> None:
        if self._experiment is not None:
            self._mlflow.set_experiment(self._experiment)
            self._experiment = None
        task, about = event.task, self._identity
        nested = self._mlflow.active_run() is not None  # then ours are its children
        self._mlflow.start_run(run_name=task.key, nested=nested)
        try:
            settings = {f"settings.{name}": value for name, value in about.settings.items()}
            plain = {"model": about.model, "n": task.spec["n"], "seed": task.seed}
            self._mlflow.log_params(plain | settings)
            if event.kind == "done":
                [cell] = [c for c in self._store.results() if c.task.key == task.key]
                self._mlflow.log_metrics(dict(cell.rows[0].metrics))
                self._mlflow.log_metric("seconds", cell.account.seconds)
            else:
                self._mlflow.set_tag("korisk.failed", event.words[:_LONGEST_WORDS])
        finally:
            self._mlflow.end_run("FINISHED" if event.kind == "done" else "FAILED")
