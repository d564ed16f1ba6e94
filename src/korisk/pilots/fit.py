"""One fit of a pilot as a cell of a study: called with care, and what it gives made plain."""

import math
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from multiprocessing import active_children
from numbers import Real
from pathlib import Path
from typing import Any

from korisk.curves.unit import UNITS, Unit, suggested_unit
from korisk.curves.unit import unit as known_unit
from korisk.errors import KoriskError, shown
from korisk.pilots.output import caught
from korisk.studies.result import Result, Row, Task
from korisk.studies.results import BARE, METRIC, UNIT, error_of
from korisk.studies.run.worker import Report

Fit = Callable[[int, int], Any]

PRINTED = "printed:"  # begins the part of a failure's words that the fit has printed
MOST_METRICS = 100
_LONGEST_NAME = 80


class FitError(KoriskError):
    """A fit gave something that is no error."""


@dataclass(frozen=True)
class Reading:
    """Which of a fit's metrics is looked at, and in which units they all are."""

    metric: str | None = None  # None: the first that the fit gives
    unit: Unit | str | Mapping[str, Unit | str] | None = None  # None: by the metric's name

    @property
    def only_name(self) -> str:
        """What a single number that a fit returns is called."""
        if self.metric is not None:
            return self.metric
        return "error" if self.unit is None or isinstance(self.unit, Mapping) else self._one.name

    @property
    def _one(self) -> Unit:
        assert self.unit is not None
        assert not isinstance(self.unit, Mapping)
        return known_unit(self.unit)

    def chosen(self, metrics: Mapping[str, float]) -> str:
        """The metric that is looked at."""
        return next(iter(metrics)) if self.metric is None else self.metric

    def unit_of(self, metric: str, *, chosen: bool) -> Unit:
        """A metric's unit: the one given (to the chosen metric, if it is one), or by its name."""
        if isinstance(self.unit, Mapping):
            if metric in self.unit:
                return known_unit(self.unit[metric])
        elif self.unit is not None and chosen:
            return known_unit(self.unit)
        return known_unit(suggested_unit(metric) or "error")

    def told(self, metrics: Mapping[str, float]) -> dict[str, str]:
        """The metric and its unit as they are stored, for those who read the store later."""
        metric = self.chosen(metrics)
        if metric not in metrics:
            return {}
        unit = self.unit_of(metric, chosen=True)
        return {METRIC: metric, UNIT: unit.name if UNITS.get(unit.name) == unit else unit.law}

    def check(self, metrics: Mapping[str, float]) -> None:
        """Refuse a fit whose error is none. Another metric can be chosen later; that may wait."""
        if self.chosen(metrics) in metrics and (refused := self.refusal(metrics)):
            raise FitError(refused)

    def refusal(self, metrics: Mapping[str, float]) -> str:
        """Why a fit's numbers give no error, in words; nothing where they do."""
        metric = self.chosen(metrics)
        if metric not in metrics:
            return f"gave no metric {metric!r}, but {', '.join(map(repr, list(metrics)[:8]))}"
        return out_of_range(self.unit_of(metric, chosen=True), metric, metrics[metric])


def out_of_range(unit: Unit, metric: str, value: float) -> str:
    """Why a value is no error in its unit; nothing where it is one, or perfect."""
    if not math.isnan(error_of(unit, value)):
        return ""
    return f"{metric}: {unit.refusal(value)}"


@dataclass(frozen=True)
class FitWork:
    """The work of a pilot's cells. `alone` says that it has a process to itself."""

    fit: Fit
    model: str
    reading: Reading
    alone: bool

    def __call__(self, task: Task, report: Report) -> Result:
        """The metrics of one fit."""
        n, seed = int(task.spec["n"]), task.seed
        before = _running()
        begun = time.perf_counter()
        with caught(whole_process=self.alone) as printed:
            try:
                value = _called_once(self.fit, n, seed)
                seconds = time.perf_counter() - begun
                metrics = metrics_of(value, self.reading.only_name)
                self.reading.check(metrics)
            except BaseException as error:
                if text := printed():
                    with suppress(Exception):  # an exception of the user's own may refuse notes
                        error.add_note(f"{PRINTED}\n{text}")
                raise
        detail = {
            "seconds": seconds,
            "printed": printed(),
            "left_running": _left_running(before),
            BARE: "" if isinstance(value, Mapping) else True,
            **self.reading.told(metrics),
        }
        row = Row(
            model=self.model,
            n=n,
            metrics=metrics,
            detail={name: value for name, value in detail.items() if value != ""},
        )
        return Result(rows=(row,))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"fit": carried(self.fit)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"fit": pickle.loads(state["fit"])})


def _called_once(fit: Fit, n: int, seed: int) -> Any:
    """What the fit returns. A child that it forked and that returns too ends here."""
    owner = os.getpid()
    try:
        return fit(n, seed)
    finally:
        if os.getpid() != owner:
            os._exit(0)


def carried(fit: Fit) -> bytes:
    """The fit as it travels to other processes."""
    cloudpickle = _cloudpickle()
    in_a_notebook = not hasattr(sys.modules["__main__"], "__file__")
    if cloudpickle is None or not in_a_notebook:
        with suppress(pickle.PicklingError, AttributeError, TypeError):
            return pickle.dumps(fit)
    if cloudpickle is not None:
        try:
            return bytes(cloudpickle.dumps(fit))
        except Exception as error:  # whatever it meets inside
            why = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
            raise KoriskError(
                f"fit must be a function that other processes can be given, got {shown(fit)} "
                f"({why}); define it at the top of a module, or use workers=0"
            ) from None
    raise KoriskError(
        f"fit must be a function that other processes can import, got {shown(fit)}; define it at "
        "the top of a module, pip install cloudpickle, or use workers=0"
    )


def _cloudpickle() -> Any:
    try:
        return import_module("cloudpickle")
    except ImportError:
        return None


# --- Numbers -------------------------------------------------------------------------------------


def metrics_of(value: object, only_name: str) -> dict[str, float]:
    """A fit's metrics as plain numbers, or why they are none."""
    if not isinstance(value, Mapping):
        return {only_name: _number("fit", value)}
    if not 0 < len(value) <= MOST_METRICS:
        raise FitError(f"fit returned a dict of {len(value)} metrics; give 1 to {MOST_METRICS}")
    for name in value:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise FitError(f"fit returned a dict with the key {shown(name)}; name each metric")
        if len(name) > _LONGEST_NAME:
            raise FitError(f"fit returned a metric with a name of {len(name)} characters; shorten")
    return {name: _number(name, entry) for name, entry in value.items()}


def _number(name: str, value: object) -> float:
    plain: Any = value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # of NumPy, of PyTorch
        plain = value.item()
    if isinstance(plain, bool) or not isinstance(plain, Real | Decimal):
        raise FitError(f"{name} must give a number, got {_kind(value)}; return a float")
    try:
        number = float(plain)
    except (OverflowError, ValueError):
        number = math.inf
    if not math.isfinite(number):
        raise FitError(f"{name} must give a finite number, got {number}; did training diverge?")
    return number


def _kind(value: object) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None and shape != ():
        return f"an array of shape {tuple(shape)}"
    return "nothing (None)" if value is None else shown(value)


# --- What a fit leaves behind --------------------------------------------------------------------


def _running() -> tuple[set[threading.Thread], set[int]]:
    return set(threading.enumerate()), _child_processes()


def _left_running(before: tuple[set[threading.Thread], set[int]]) -> str:
    """The threads and child processes that are there now and were not, in words."""
    threads, processes = _running()
    names = sorted(thread.name for thread in threads - before[0] if thread.is_alive())
    children = len(processes - before[1])
    parts = [f"{_plural(len(names), 'thread')} ({', '.join(names)[:100]})"] if names else []
    parts += [_plural(children, "child process", "es")] if children else []
    return " and ".join(parts)


def _child_processes() -> set[int]:
    found = {child.pid for child in active_children() if child.pid is not None}
    for listed in Path("/proc/self/task").glob("*/children"):  # of Linux alone
        with suppress(OSError):
            found |= {pid for pid in map(int, listed.read_text().split()) if not _is_over(pid)}
    return found


def _is_over(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def _plural(number: int, noun: str, ending: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else ending}"
