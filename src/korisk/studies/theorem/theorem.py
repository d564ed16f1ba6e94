"""Does the theorem hold? Measured errors of networks against the bounds of their layers' errors.

A study with `theorem: true` stores the error of every network it fits and the error of each of its
layers. From these alone the three bounds of (thm:deep-risk) are taken, network by network, and held
against what was measured; docs/explanation/check.md tells what that shows and what not.
Nothing is fitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path

from korisk.errors import KoriskError, did_you_mean
from korisk.studies.result import Task
from korisk.studies.spec.study import asked_for
from korisk.studies.store.store import Cell, Failure, Store, store_path
from korisk.studies.theorem.check import DETAIL, Check, Group, all_hold, checks_of
from korisk.studies.theorem.order import Order, mean_curves, orders
from korisk.theory import Known, Network


@dataclass(frozen=True, kw_only=True)
class PointTheorem:
    """All networks of one point, and what is missing there, in sentences."""

    name: str
    checks: tuple[Check, ...]
    pixels: int | None  # entries of one output, over which errors are summed
    notes: tuple[str, ...]

    @property
    def holds(self) -> bool | None:
        """Whether it holds in all that can be judged; None where none can."""
        return all_hold(self.checks)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """By model, in the order of the store, then by N."""
        found: dict[str, dict[int, list[Check]]] = {}
        for check in self.checks:
            found.setdefault(check.model, {}).setdefault(check.n, []).append(check)
        return tuple(
            Group(model=model, n=n, checks=tuple(by_size[n]))
            for model, by_size in found.items()
            for n in sorted(by_size)
        )

    @cached_property
    def orders(self) -> tuple[Order, ...]:
        """For each pair of models, which should need fewer samples and which did."""
        networks: dict[str, Network] = {}
        for check in self.checks:
            if check.network is not None:
                networks.setdefault(check.model, check.network)
        errors = [(group.model, group.n, group.error) for group in self.groups]
        erring = dict.fromkeys(
            (check.model, name)
            for check in self.checks
            for name, error in check.layers.items()
            if error > 0 and check.network and isinstance(check.network[name], Known)
        )
        return orders(networks, mean_curves(errors), erring)


@dataclass(frozen=True, kw_only=True)
class Theorem:
    """A whole study."""

    name: str
    store: Path
    points: tuple[PointTheorem, ...]
    untold: tuple[str, ...]  # points without such data

    @property
    def checks(self) -> tuple[Check, ...]:
        """The networks of all points."""
        return tuple(check for point in self.points for check in point.checks)

    @property
    def holds(self) -> bool | None:
        """Whether it holds in all that can be judged; None where none can."""
        return all_hold(self.checks)


# --- From a store --------------------------------------------------------------------------------


def read_theorem(path: str | PathLike[str], *, point: str | None = None) -> Theorem:
    """Every point of the study at `path` that tells errors of layers, or the one that is named."""
    with Store.read(store_path(path)) as store:
        cells, failures, study = list(store.results()), store.failures(), store.study
        file = store.path
    asked = asked_for(study) or []
    tasks = [*(cell.task for cell in cells), *(failure.task for failure in failures)]
    names = list(dict.fromkeys(task.point for task in tasks))
    if point is not None:
        if point not in names:
            raise KoriskError(f"{file}: no point {point!r}{did_you_mean(point, names)}")
        names = [point]
    if not any(cell.task.point in names for cell in cells):
        raise KoriskError(f"{file}: no cell is finished yet; run the study first")
    found = {
        each: point_theorem(
            each,
            [cell for cell in cells if cell.task.point == each],
            [failure for failure in failures if failure.task.point == each],
            [task for task in asked if task.point == each],
        )
        for each in names
    }
    points = tuple(made for made in found.values() if made is not None)
    if not points:
        of = f"no row of {point!r}" if point is not None else "no row"
        raise KoriskError(
            f"{file}: {of} tells errors of layers; write `theorem: true` in the study and run it "
            "with another --out, see docs/explanation/check.md"
        )
    untold = tuple(each for each, made in found.items() if made is None)
    return Theorem(name=str(study.get("name") or ""), store=file, points=points, untold=untold)


def point_theorem(
    name: str,
    cells: Sequence[Cell],
    failures: Sequence[Failure] = (),
    asked: Sequence[Task] = (),
) -> PointTheorem | None:
    """One point from its finished cells; None where no row tells errors of layers."""
    checks = tuple(check for cell in cells for check in checks_of(cell))
    if not checks:
        return None
    return PointTheorem(
        name=name, checks=checks, pixels=_pixels(cells), notes=tuple(_notes(cells, failures, asked))
    )


# --- What is missing -----------------------------------------------------------------------------


def _pixels(cells: Iterable[Cell]) -> int | None:
    found = [cell.detail.get("pixels") for cell in cells]
    first = found[0] if found else None
    return first if type(first) is int and first > 0 and found.count(first) == len(found) else None


def _notes(
    cells: Sequence[Cell], failures: Sequence[Failure], asked: Sequence[Task]
) -> Iterator[str]:
    tried = {cell.task.key for cell in cells} | {failure.task.key for failure in failures}
    if waiting := [task.seed for task in asked if task.key not in tried]:
        of = "seed" if len(waiting) == 1 else "seeds"
        yield f"not there yet: {of} {', '.join(map(str, waiting))}"
    if failures:
        count = "1 cell" if len(failures) == 1 else f"{len(failures)} cells"
        yield f"{count} failed, not counted here; the first: {failures[0].reason}"
    rows = [row for cell in cells for row in cell.rows]
    for model in dict.fromkeys(row.model for row in rows):
        own = [row for row in rows if row.model == model]
        told = sum(DETAIL in row.detail for row in own)
        sizes = {n for cell in cells for n in cell.task.spec.get("sizes", ())}
        wanted = len(cells) * len(sizes | {row.n for row in own})
        if told < len(own):
            yield f"{model}: {len(own) - told} of {len(own)} rows tell no errors of layers"
        if len(own) < wanted:
            yield f"{model}: {wanted - len(own)} of {wanted} rows are missing"
        if told and _differ(cells, model):
            yield (
                f"{model}: the true network's constants differ between seeds; samples are "
                "predicted from those of the first"
            )
    said = [cell.detail.get("notes") for cell in cells]
    listed = [each for notes in said if isinstance(notes, list) for each in notes]
    yield from dict.fromkeys(each for each in listed if isinstance(each, str))


def _differ(cells: Iterable[Cell], model: str) -> bool:
    told = [cell.detail.get("networks") for cell in cells]
    found = [each[model] for each in told if isinstance(each, Mapping) and model in each]
    return any(each != found[0] for each in found)
