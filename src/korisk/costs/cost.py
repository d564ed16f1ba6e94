"""Memory and time of a study before it runs: what each cell and each way of fitting takes."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from korisk.costs import dense_counts, known_counts
from korisk.costs.counts import Kind, Operations, Plan, Stage, Way, peak
from korisk.costs.known_counts import CLOSED, MEMORIES, RECIPE
from korisk.costs.rates import Rates
from korisk.studies.result import Task
from korisk.studies.store.store import Cell, Store

Origin = Literal["measured", "predicted", "unknown"]

_NAMES = {"adam": "Adam", "adagrad": "Adagrad", "sgd": "SGD"}

_ROW_BYTES = 1024  # of a row's metrics and details as they are stored, and some room
_PICTURES = 2
# Floating point operations of a unit of work, for the one figure of them all: a decomposition
# takes 9 n^3 (Golub and Van Loan), an entry of a sparse product two; the others are not products.
_FLOPS = {
    "matmul32": 1.0,
    "matmul64": 1.0,
    "matvec32": 0.5,
    "eigh64": 9.0,
    "cholesky32": 1.0,
    "cholesky64": 1.0,
    "rays": 2.0,
    "sparse": 2.0,
    "on_the_fly": 2.0,
}


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a cell takes, and how that is known."""

    seconds: float  # with everything in place that all seeds of a point share
    setup: float  # seconds for that, once for each worker and point
    memory: float  # bytes of the process at its peak
    device_memory: float | None  # bytes on the device at their peak, where there is one
    origin: Origin
    cells: int = 0  # how many finished cells a measured estimate comes from


class Estimator:
    """Estimates for the tasks of a study: measured where the store has the point, else predicted.

    `memory` is what is free on the device for a cell, in bytes; without it, what was free where
    the rates were measured. It decides what is stored and what is computed again and again.
    """

    def __init__(
        self, rates: Rates, *, store: Store | None = None, memory: float | None = None
    ) -> None:
        self.rates, self.memory = rates, memory
        self._measured = {} if store is None else _measured(store.results(), rates.device)
        self._known: dict[str, Estimate] = {}

    def __call__(self, task: Task) -> Estimate:
        """The estimate for a task."""
        measured = self._measured.get((task.point, task.spec_hash))
        if measured is not None:
            return measured
        if not predictable(task.spec):
            return _UNKNOWN
        if task.spec_hash not in self._known:
            self._known[task.spec_hash] = predicted(task.spec, self.rates, memory=self.memory)
        return self._known[task.spec_hash]


def predictable(spec: Mapping[str, Any]) -> bool:
    """Whether what a cell takes can be told before one has run: that of CT with ellipses."""
    problem = spec["problem"]
    return bool(problem["kind"] == "ct" and "images" not in problem)


_UNKNOWN = Estimate(
    seconds=math.nan, setup=0.0, memory=math.nan, device_memory=None, origin="unknown"
)


def estimate(
    task: Task, *, rates: Rates, store: Store | None = None, memory: float | None = None
) -> Estimate:
    """What one task takes; for many of them, make an `Estimator`."""
    return Estimator(rates, store=store, memory=memory)(task)


def _measured(cells: Iterable[Cell], device: str) -> dict[tuple[str, str], Estimate]:
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        ran_on = "cpu" if cell.detail.get("device", "cpu") == "cpu" else "cuda"
        if ran_on == device:
            found.setdefault((cell.task.point, cell.task.spec_hash), []).append(cell)
    return {key: _summary(cells, device) for key, cells in found.items()}


def _summary(cells: Sequence[Cell], device: str) -> Estimate:
    seconds = [cell.account.seconds for cell in cells]
    on_device = [cell.account.device_memory or 0 for cell in cells]
    typical = median(seconds)
    return Estimate(
        seconds=typical,
        setup=max(0.0, max(seconds) - typical),
        memory=float(max(cell.account.peak_memory or 0 for cell in cells)),
        device_memory=float(max(on_device)) if device == "cuda" else None,
        origin="measured",
        cells=len(cells),
    )


# --- Prediction ----------------------------------------------------------------------------------


def plan_of(spec: Mapping[str, Any], rates: Rates, memory: float | None = None) -> Plan:
    """A cell on the machine of the rates."""
    free = rates.memory if memory is None else memory
    return Plan(spec=spec, device=rates.device, memory=free)


def cell_stages(plan: Plan) -> tuple[tuple[Stage, ...], ...]:
    """What the study's own ways do, one after the other: first what they share, then each model."""
    own = []
    for model, settings in plan.spec["models"].items():
        if model == "FC":
            own.append(dense_counts.dual(plan, settings))
        elif settings["fit"] == "gradient":
            own.append(known_counts.gradient(plan, settings))
        else:
            own.append(known_counts.ridge(plan, settings, stored=plan.gram_fits))
    return plan.shared(), *own


def cell_peak(plan: Plan) -> float:
    """The most bytes that a cell takes at once, beside the process itself.

    What all seeds share stays when a model is done; what a model kept of its own does not.
    """
    shared, *own = cell_stages(plan)
    lasting = sum(stage.keeps for stage in shared)
    largest = peak(shared)
    for stages in own:
        largest = max(largest, lasting + peak(stages))
        lasting += sum(stage.keeps for stage in stages if stage.once)
    return largest


def cell_seconds(
    spec: Mapping[str, Any], rates: Rates, memory: float | None = None
) -> tuple[float, float]:
    """Seconds of what all seeds of a point share, and of the rest."""
    stages = [stage for part in cell_stages(plan_of(spec, rates, memory)) for stage in part]
    setup = sum(rates.time(stage.operations) for stage in stages if stage.once)
    rest = sum(rates.time(stage.operations) for stage in stages if not stage.once)
    fits = len(spec["sizes"]) * len(spec["models"])
    return setup, rest + fits * rates.overhead


def predicted(spec: Mapping[str, Any], rates: Rates, *, memory: float | None = None) -> Estimate:
    """What a cell takes by its counts and the rates."""
    setup, seconds = cell_seconds(spec, rates, memory)
    needed = cell_peak(plan_of(spec, rates, memory))
    on_device = rates.device == "cuda"
    return Estimate(
        seconds=seconds,
        setup=setup,
        memory=rates.baseline + (_host(spec, rates, memory) if on_device else needed),
        device_memory=needed if on_device else None,
        origin="predicted",
    )


def _host(spec: Mapping[str, Any], rates: Rates, memory: float | None) -> float:
    """The host's part where a device computes: matrices of projectors are made there."""
    plan = plan_of(spec, rates, memory)
    engines = [stage for part in cell_stages(plan) for stage in part if stage.name in _ENGINES]
    return max((1.5 * stage.keeps for stage in engines), default=0.0)


_ENGINES = ("projector", "backprojector")


# --- Ways of fitting -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one way of fitting one model takes, alone in its cell."""

    way: Way
    state: float  # bytes of the model and its fit alone, without projector and pools
    memory: float  # bytes in all, beside the process itself
    operations: float  # floating point operations of products, factors and projections
    seconds: float  # setup included
    beyond: Mapping[Kind, float]  # operations so many times larger than any that was measured


def costs(
    spec: Mapping[str, Any], rates: Rates, *, ranks: int = 1, memory: float | None = None
) -> list[Cost]:
    """Every way of fitting the models of a point."""
    plan = plan_of(spec, rates, memory)
    return [_cost(way, plan, rates) for way in ways(plan, ranks=ranks)]


def _cost(way: Way, plan: Plan, rates: Rates) -> Cost:
    shared = plan.shared()
    all_operations = [each for stage in (*shared, *way.stages) for each in stage.operations]
    fits = len(plan.spec["sizes"])
    return Cost(
        way=way,
        state=peak(way.stages),
        memory=peak((*shared, *way.stages)),
        operations=sum(_flops(each) for each in all_operations),
        seconds=rates.time(all_operations) + fits * rates.overhead,
        beyond=rates.beyond(all_operations),
    )


def _flops(operations: Operations) -> float:
    return _FLOPS.get(operations.kind, 0.0) * operations.total


def ways(plan: Plan, *, ranks: int = 1) -> list[Way]:
    """The ways of fitting each model of a cell; those of the study are marked."""
    found: list[Way] = []
    models = plan.spec["models"]
    if "KO" in models:
        found += _known_ways(plan, models["KO"])
    if "FC" in models:
        found += _dense_ways(plan, models["FC"], ranks)
    return found


def _known_ways(plan: Plan, settings: Mapping[str, Any]) -> list[Way]:
    ridge = settings["fit"] == "ridge"
    closed = settings if ridge else CLOSED | {"relu": settings["relu"]}
    trained = RECIPE if ridge else settings
    stored = known_counts.ridge(plan, closed, stored=True)
    operators = known_counts.ridge(plan, closed, stored=False)
    made = {
        "ridge, B^T B stored": (stored, ridge and plan.gram_fits),
        "ridge, B^T B not stored": (operators, ridge and not plan.gram_fits),
        _NAMES[trained["optimiser"]]: (known_counts.gradient(plan, trained), not ridge),
    }
    return [
        Way(model="KO", name=name, weights=plan.scan.rays, stages=stages, used=used)
        for name, (stages, used) in made.items()
    ]


def _dense_ways(plan: Plan, settings: Mapping[str, Any], ranks: int) -> list[Way]:
    made = {
        "ridge, dual": dense_counts.dual(plan, settings),
        "ridge, normal equations": dense_counts.primal(plan),
    }
    for optimiser in reversed(MEMORIES):
        made[_NAMES[optimiser]] = dense_counts.gradient(plan, optimiser)
    if ranks > 1:
        sharded = dense_counts.gradient(plan, "adam", ranks=ranks)
        made[f"Adam, a rank of {ranks}"] = sharded
    weights = plan.scan.rays * plan.scan.pixels
    return [
        Way(model="FC", name=name, weights=weights, stages=stages, used=name == "ridge, dual")
        for name, stages in made.items()
    ]


# --- The whole study -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Total:
    """What a whole study takes on some workers."""

    seconds: float  # from the first cell to the last, longest first
    work: float  # seconds of all cells, were there one worker with everything in place
    longest: float  # seconds of the longest cell, its setup included
    memory: float  # bytes of a worker at its peak
    device_memory: float | None
    stored: float  # bytes of the store at most, uncompressed
    cells: int
    measured: int  # how many of the cells' estimates are measured


def total(tasks: Sequence[Task], estimator: Estimator, *, workers: int) -> Total:
    """The study on so many workers, each with the rates' machine to itself."""
    found = [estimator(task) for task in tasks]
    jobs = [(task.point, each.seconds, each.setup) for task, each in zip(tasks, found, strict=True)]
    measured = sum(each.origin == "measured" for each in found)
    start = estimator.rates.start if measured < len(found) else 0.0
    on_device = [each.device_memory for each in found if each.device_memory is not None]
    return Total(
        seconds=start + makespan(jobs, workers),
        work=sum(each.seconds for each in found),
        longest=max((each.seconds + each.setup for each in found), default=0.0),
        memory=max((each.memory for each in found), default=0.0),
        device_memory=max(on_device) if on_device else None,
        stored=sum(stored_bytes(task.spec) for task in tasks),
        cells=len(found),
        measured=measured,
    )


def makespan(jobs: Iterable[tuple[str, float, float]], workers: int) -> float:
    """When the last of (point, seconds, setup) ends: longest first, each on the first free worker.

    A worker pays a point's setup when it takes a cell of another point than its last one.
    """
    free: list[tuple[float, int, str]] = [(0.0, worker, "") for worker in range(workers)]
    heapq.heapify(free)
    end = 0.0
    for point, seconds, setup in sorted(jobs, key=lambda job: (-job[1] - job[2], job[0])):
        start, worker, last = heapq.heappop(free)
        until = start + seconds + (setup if last != point else 0.0)
        end = max(end, until)
        heapq.heappush(free, (until, worker, point))
    return end


def stored_bytes(spec: Mapping[str, Any]) -> float:
    """What a cell's results take in the store before they are compressed."""
    problem = spec["problem"]
    if not predictable(spec):
        return math.nan
    pixels, rays = problem["side"] ** 2, problem["views"] * problem["bins"]
    pictures = _PICTURES * pixels * 2  # in 16 bits
    size = pictures + _PICTURES * rays * 4
    for model in spec["models"]:
        rows = len(spec["sizes"]) + (model == "KO")  # and one before training
        size += rows * (pictures + _ROW_BYTES + (4 * rays if model == "KO" else 0))
    return float(size)
