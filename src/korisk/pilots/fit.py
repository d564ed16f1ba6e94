"""One fit of a pilot as a cell of a study: the call and its metrics."""

import math
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from numbers import Real
from typing import Any

from korisk import _checks
from korisk.curves.stored import BARE, LONGER, METRIC, TRAINING, UNIT, error_of
from korisk.curves.unit import UNITS, Unit, suggested_unit
from korisk.curves.unit import unit as known_unit
from korisk.errors import Argument, KoriskError, Message, invalid, shown
from korisk.store.cells import Result, Row, Task
from korisk.studies.run.worker import Report

Fit = Callable[..., object]  # of n and seed, and of longer in a longer run

_MOST_METRICS = 100


@dataclass(frozen=True)
class Reading:
    """The metric of a fit to plan with, and the units of all metrics."""

    metric: str | None = None  # None: the first that the fit returns
    unit: Unit | str | Mapping[str, Unit | str] | None = None  # None: by the metric's name

    @property
    def only_name(self) -> str:
        """The name of a single number that a fit returns."""
        if self.metric is not None:
            return self.metric
        if self.unit is None or isinstance(self.unit, Mapping):
            return "error"
        return known_unit(self.unit).name

    def chosen(self, metrics: Mapping[str, float]) -> str:
        """The metric to plan with."""
        return next(iter(metrics)) if self.metric is None else self.metric

    def unit_of(self, metric: str, *, chosen: bool) -> Unit:
        """A metric's unit: as given (a single unit is for the chosen metric), or by its name."""
        chosen_unit = None if isinstance(self.unit, Mapping) or not chosen else self.unit
        unit = self.unit.get(metric) if isinstance(self.unit, Mapping) else chosen_unit
        return known_unit(unit or suggested_unit(metric) or "error")

    def stored(self, metrics: Mapping[str, float]) -> dict[str, str]:
        """The metric and its unit as a row stores them, for later readers."""
        metric = self.chosen(metrics)
        if metric not in metrics:
            return {}
        unit = self.unit_of(metric, chosen=True)
        return {METRIC: metric, UNIT: unit.name if UNITS.get(unit.name) == unit else unit.law}

    def refusal(self, metrics: Mapping[str, float]) -> str:
        """Why the chosen metric is missing or not an error; empty if it is one."""
        metric = self.chosen(metrics)
        if metric not in metrics:
            return f"gave no metric {metric!r}, but {', '.join(map(repr, list(metrics)[:8]))}"
        return out_of_range(self.unit_of(metric, chosen=True), metric, metrics[metric])


def out_of_range(unit: Unit, metric: str, value: float) -> str:
    """Why a value is not an error in its unit; empty if it is one, or perfect."""
    return f"{metric}: {unit.refusal(value)}" if math.isnan(error_of(unit, value)) else ""


@dataclass(frozen=True)
class FitWork:
    """The work of a pilot's cells."""

    fit: Fit
    model: str
    reading: Reading

    def __call__(self, task: Task, report: Report) -> Result:
        """Call the fit once; return its metrics and time."""
        n, seed = int(task.spec["n"]), task.seed
        longer = {LONGER: task.spec[LONGER]} if LONGER in task.spec else {}
        owner = os.getpid()
        start = time.perf_counter()
        try:
            value = self.fit(n, seed, **longer)
        finally:
            # A child that the fit forked must not continue as a second worker.
            if os.getpid() != owner:
                os._exit(0)
        seconds = time.perf_counter() - start
        metrics, training = divided(metrics_of(value, self.reading.only_name))
        # A missing metric is no failure, since another may be chosen later; a wrong value is.
        if self.reading.chosen(metrics) in metrics and (why := self.reading.refusal(metrics)):
            raise KoriskError(why)
        detail = {
            "seconds": seconds,
            BARE: "" if isinstance(value, Mapping) else True,
            TRAINING: training or "",
            **self.reading.stored(metrics),
        }
        stored = {name: value for name, value in detail.items() if value != ""}
        return Result(rows=(Row(model=self.model, n=n, metrics=metrics, detail=stored),))

    def __getstate__(self) -> dict[str, object]:
        # The fit may need cloudpickle, which the rest of the class does not.
        return self.__dict__ | {"fit": pickled(self.fit)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"fit": pickle.loads(state["fit"])})


def pickled(fit: Fit) -> bytes:
    """The fit, pickled for other processes."""
    try:
        cloudpickle: Any = import_module("cloudpickle")
    except ImportError:
        cloudpickle = None
    # pickle sends the name of a function, which other processes cannot import from a notebook;
    # cloudpickle sends its code.
    in_a_notebook = not hasattr(sys.modules["__main__"], "__file__")
    if cloudpickle is None or not in_a_notebook:
        with suppress(pickle.PicklingError, AttributeError, TypeError):
            return pickle.dumps(fit)
    try:
        return bytes(cloudpickle.dumps(fit))
    except Exception as error:  # of any object inside, or without cloudpickle
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
    define = "define it at the top of a module, pip install cloudpickle, or use "
    remedy, got = Message(define, Argument("workers", 0)), f"{shown(fit)} ({reason})"
    raise invalid("fit", "be a function that other processes can import", fit, remedy, got=got)


# --- Numbers -------------------------------------------------------------------------------------


def metrics_of(value: object, only_name: str) -> dict[str, float]:
    """A fit's metrics as floats; raise if they are not numbers."""
    if not isinstance(value, Mapping):
        return {only_name: number_of("fit", value)}
    if not 0 < len(value) <= _MOST_METRICS:
        raise KoriskError(f"fit returned a dict of {len(value)} metrics; give 1 to {_MOST_METRICS}")
    return {
        _checks.name("name of a metric", name, remedy="rename it"): number_of(name, entry)
        for name, entry in value.items()
    }


def is_reserved(name: str) -> bool:
    """Whether a name is reserved for training errors, steps or epochs."""
    return name in {"train", "steps", "epochs"} or name.startswith("train_")


def divided(numbers: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """A fit's test metrics, and its training errors, steps and epochs."""
    metrics = {name: value for name, value in numbers.items() if not is_reserved(name)}
    training = {name: value for name, value in numbers.items() if is_reserved(name)}
    if not metrics:
        names = ", ".join(map(repr, training))
        raise KoriskError(f"fit must give an error on a test set, got {names} alone; add it")
    return metrics, training


def number_of(name: str, value: object) -> float:
    """A number of the user as a float; raise unless it is finite."""
    scalar: Any = value
    shape = getattr(value, "shape", None)
    if shape == () and hasattr(value, "item"):  # a scalar of NumPy or PyTorch
        scalar = value.item()
    if isinstance(scalar, bool) or not isinstance(scalar, Real | Decimal):
        got = f"an array of shape {tuple(shape)}" if shape else shown(value)
        raise KoriskError(f"{name} must give a number, got {got}; return a float")
    try:
        number = float(scalar)
    except (OverflowError, ValueError):
        number = math.inf
    if not math.isfinite(number):
        raise KoriskError(f"{name} must give a finite number, got {number}; did training diverge?")
    return number
