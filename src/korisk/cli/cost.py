"""`korisk cost`: memory and time of a study before it runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from korisk import _checks
from korisk.cli.output import cells, console, duration, number, print_json, table, whole
from korisk.costs.cost import Cost, Estimate, Estimator, Total, costs, predictable, total
from korisk.costs.devices import CARDS, GIB, NODES, Device, smallest
from korisk.costs.rates import Rates, rates_for, read_rates
from korisk.errors import KoriskError, MissingExtraError
from korisk.studies.result import Task
from korisk.studies.spec.study import Study
from korisk.studies.store.store import Store, store_path
from korisk.theory.footprint import format_bytes

_MOST = 100_000


def cost(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="STUDY.yaml", help="The study; see docs/reference/study.md."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="cpu or cuda. [default: that of the rates, or cpu]"),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="How fast the machine is: packaged or measured."),
    ] = None,
    workers: Annotated[
        int, typer.Option(metavar="W", help="Workers, each on a machine of its own.")
    ] = 1,
    ranks: Annotated[
        int, typer.Option(metavar="R", help="Cards that share the dense network's weights.")
    ] = 1,
    memory: Annotated[
        float | None,
        typer.Option(metavar="GIB", help="Memory of each worker. [default: that of the rates]"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Results of the study to learn from.")
    ] = None,
    measure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Measure this machine for a minute; repeated, it keeps the faster figures.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Estimate the run time and memory of a study, for each cell and way of fitting."""
    _check(device, workers, ranks, memory)
    if measure is not None:
        _measure(measure, device or "cpu")
        if path is None:
            return
        rates = str(measure) if rates is None else rates
    if path is None:
        raise KoriskError("korisk cost needs a STUDY.yaml, or --measure FILE; name one")
    study = Study.read(path)
    known = _rates(device, rates)
    room = None if memory is None else memory * GIB
    estimator = _estimator(study, known, out, room)
    firsts = list({task.point: task for task in study.tasks}.values())
    _refuse_unknown(firsts)
    found = {task.point: costs(task.spec, known, ranks=ranks, memory=room) for task in firsts}
    both = total(study.tasks, estimator, workers=workers)
    if as_json:
        points = [_point_json(task, found[task.point], estimator(task), known) for task in firsts]
        print_json(_json(study, known, workers, points, both))
        return
    for task in firsts:
        _print_point(task, found[task.point], estimator(task), known)
    _print_total(study, both, workers, known, _beyond(found))
    needed = both.memory if both.device_memory is None else both.device_memory
    if room is not None and needed > room:
        console().print(f"A cell does not fit in the {memory:g} GiB of --memory.", highlight=False)


def _check(device: str | None, workers: int, ranks: int, memory: float | None) -> None:
    if device not in (None, "cpu", "cuda"):
        raise KoriskError(f"--device must be cpu or cuda here, got {device!r}")
    _checks.count("--workers", workers, at_least=1, at_most=_MOST, remedy="count workers")
    _checks.count("--ranks", ranks, at_least=1, at_most=_MOST, remedy="count cards")
    if memory is not None:
        _checks.real("--memory", memory, above=0, remedy="give GiB")


def _refuse_unknown(tasks: list[Task]) -> None:
    for task in tasks:
        if not predictable(task.spec):
            raise KoriskError(
                f"{task.point}: korisk cost knows CT with ellipses alone; run one seed, and korisk "
                "run --dry-run tells what the others take"
            )


def _rates(device: str | None, chosen: str | None) -> Rates:
    found = rates_for(device or "cpu", chosen)
    if device is not None and found.device != device:
        raise KoriskError(
            f"--device is {device}, and the rates {found.name} are of a {found.device} device; "
            "leave out one of them"
        )
    return found


def _measure(path: Path, device: str) -> None:
    try:
        import torch
    except ModuleNotFoundError as missing:
        raise MissingExtraError(
            "measuring a machine needs PyTorch, which is not installed; pip install 'korisk[torch]'"
        ) from missing
    from korisk.costs.measuring import measure_rates, where

    if device == "cuda" and not torch.cuda.is_available():
        raise KoriskError("--device cuda is not there: PyTorch finds no GPU; use --device cpu")
    if not path.parent.is_dir():
        raise KoriskError(f"{path.parent}: no such folder; make it first")
    out = typer.get_text_stream("stderr")

    def watch(what: str) -> None:
        print(f"korisk: measuring {what}", file=out)

    known = read_rates(path) if path.exists() else None
    if known is not None and known.where != where(torch.device(device)):
        raise KoriskError(
            f"{path}: has rates of {known.where}, another machine; choose another --measure FILE"
        )
    measure_rates(path.stem, device=device, known=known, watch=watch).write(path)


def _estimator(study: Study, rates: Rates, out: Path | None, memory: float | None) -> Estimator:
    if out is None:
        return Estimator(rates, memory=memory)
    with Store.read(store_path(out)) as store:
        store.check(study.tasks)
        return Estimator(rates, store=store, memory=memory)


# --- Words ---------------------------------------------------------------------------------------


def _print_point(task: Task, found: list[Cost], about: Estimate, rates: Rates) -> None:
    problem = task.spec["problem"]
    size = f"{problem['side']} x {problem['side']} pixels, {problem['views']} views"
    title = f"{task.point}: {size}, {problem['bins']} bins, N up to {task.spec['sizes'][-1]:,}"
    columns = "", "model", "way of fitting", "weights", "of the fit", "in all"
    shown = table(title, *columns, "flops", "time", "card", "node", text=3)
    for each in found:
        shown.add_row(*cells(*_row(each, rates)))
    out = console()
    out.print(shown)
    where = "" if about.device_memory is None else f", {_size(about.device_memory)} on the device"
    once = about.setup + (rates.start if about.origin == "predicted" else 0.0)
    setup = f", and {duration(once)} once for each worker" if once else ""
    out.print(
        f"A cell (*): {duration(about.seconds)}{setup}; {_size(about.memory)} of memory{where} "
        f"({_origin(about, rates)}).\n",
        highlight=False,
    )


def _row(each: Cost, rates: Rates) -> list[str]:
    return [
        "*" if each.way.used else "",
        each.way.model,
        each.way.name,
        whole(each.way.weights),
        _size(each.state),
        _size(each.memory),
        number(each.operations, 3),
        duration(each.seconds),
        _name(smallest(each.memory, CARDS)),
        _name(_node(each, rates)),
    ]


def _node(each: Cost, rates: Rates) -> Device | None:
    """The smallest node for a way, with the process itself where that lies in the same memory."""
    return smallest(each.memory + (0 if rates.device == "cuda" else rates.baseline), NODES)


def _name(device: Device | None) -> str:
    return "none" if device is None else device.name


def _size(size: float) -> str:
    return format_bytes(int(size))


def _origin(about: Estimate, rates: Rates) -> str:
    if about.origin == "measured":
        many = "1 finished cell" if about.cells == 1 else f"{about.cells:,} finished cells"
        return f"measured, from {many}"
    return f"predicted from rates measured on {rates.where}"


def _print_total(
    study: Study, both: Total, workers: int, rates: Rates, beyond: dict[str, float]
) -> None:
    many = "1 worker" if workers == 1 else f"{workers:,} workers"
    memory = _size(both.memory)
    if both.device_memory is not None:
        memory += f" and {_size(both.device_memory)} on the device"
    known = "predicted" if not both.measured else f"{both.measured:,} of them by measured ones"
    lines = [
        f"{study.name}: {both.cells:,} cells, {duration(both.work)} of work; about "
        f"{duration(both.seconds)} on {many} ({known}), {memory} each; the store takes at most "
        f"{_size(both.stored)}.",
        f"* is how the study fits. Times are predicted from the rates {rates.name}, measured on "
        f"{rates.where}; cards and nodes are the smallest that hold a way. "
        "Training FC by gradients is timed by its weights being moved, which is a lower bound.",
    ]
    if beyond:
        far = ", ".join(f"{kind} by {times:,.0f} times" for kind, times in beyond.items())
        lines.append(f"This goes beyond what was measured ({far}): expect it to be less exact.")
    out = console()
    for line in lines:
        out.print(line, highlight=False)


def _beyond(found: dict[str, list[Cost]]) -> dict[str, float]:
    """How far the study's own ways go beyond what was measured."""
    most: dict[str, float] = {}
    for each in (each for point in found.values() for each in point if each.way.used):
        for kind, times in each.beyond.items():
            most[kind] = max(times, most.get(kind, 0.0))
    return most


# --- For machines --------------------------------------------------------------------------------


def _json(
    study: Study, rates: Rates, workers: int, points: list[dict[str, Any]], both: Total
) -> dict[str, Any]:
    about = {"name": rates.name, "device": rates.device, "where": rates.where}
    return {
        "name": study.name,
        "rates": about,
        "workers": workers,
        "points": points,
        "total": asdict(both),
    }


def _point_json(task: Task, found: list[Cost], about: Estimate, rates: Rates) -> dict[str, Any]:
    return {
        "point": task.point,
        "cell": asdict(about),
        "ways": [_way_json(each, rates) for each in found],
    }


def _way_json(each: Cost, rates: Rates) -> dict[str, Any]:
    card, node = smallest(each.memory, CARDS), _node(each, rates)
    return {
        "model": each.way.model,
        "way": each.way.name,
        "used": each.way.used,
        "weights": each.way.weights,
        "state_bytes": each.state,
        "memory_bytes": each.memory,
        "flops": each.operations,
        "seconds": each.seconds,
        "card": None if card is None else card.name,
        "node": None if node is None else node.name,
        "beyond_measured": each.beyond,
    }
