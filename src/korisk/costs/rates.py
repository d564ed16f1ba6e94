"""How fast a machine is, kind by kind: measured once, kept as JSON, looked up for any work."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from korisk.costs.counts import KINDS, Kind, Operations
from korisk.errors import KoriskError, did_you_mean, shown
from korisk.files import read_text, write_text

FORMAT = 1
_FOLDER = "machines"  # beside this file: the packaged rates
_MAX_BYTES = 200_000
# Of these the rate depends on the size, so that far beyond the largest measured it is a guess.
_BY_SIZE: tuple[Kind, ...] = ("eigh64", "cholesky32", "cholesky64", "rays", "sparse", "on_the_fly")
_FURTHER = 8

Table = tuple[tuple[float, float], ...]  # work of a call, its seconds; ascending


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What one machine takes for a call of each kind, by the work of that call.

    Between measured works, seconds follow a power law; below the smallest they stay what they are
    there, which is what a call costs whatever it does; above the largest they grow with the work.
    """

    name: str
    device: str  # "cpu" or "cuda"
    where: str  # what the machine is, in words
    memory: int  # bytes of the device that were free when it was measured
    baseline: int  # bytes of a process that is ready for its first cell
    overhead: float  # seconds of a fit beside what is counted
    start: float  # seconds by which a process's first cell takes longer than its second
    seconds: Mapping[Kind, Table]
    machine: Mapping[str, Any]
    versions: Mapping[str, str]

    def time(self, operations: Iterable[Operations]) -> float:
        """Seconds of operations, one after the other."""
        return float(sum(each.calls * self._call(each) for each in operations if each.calls))

    def _call(self, operations: Operations) -> float:
        table = self.seconds[operations.kind]
        (first, least), (last, most) = table[0], table[-1]
        if operations.work <= first:
            return least
        if operations.work >= last:
            return most * operations.work / last
        works, seconds = np.log(np.array(table)).T
        return float(np.exp(np.interp(math.log(operations.work), works, seconds)))

    def beyond(self, operations: Iterable[Operations]) -> dict[Kind, float]:
        """Kinds with calls far larger than any that was measured, and how many times larger."""
        found: dict[Kind, float] = {}
        for each in operations:
            times = each.work / self.seconds[each.kind][-1][0]
            if each.kind in _BY_SIZE and times > _FURTHER and each.calls:
                found[each.kind] = max(times, found.get(each.kind, 0.0))
        return found

    def write(self, path: str | PathLike[str]) -> None:
        """Write the rates as JSON."""
        content = {"format": FORMAT, **asdict(self)}
        write_text(path, json.dumps(content, indent=1) + "\n")


def packaged() -> list[str]:
    """The names of the rates that come with korisk."""
    found = [each.name for each in (resources.files(__package__) / _FOLDER).iterdir()]
    return sorted(name.removesuffix(".json") for name in found if name.endswith(".json"))


def rates_for(device: str, chosen: str | None = None) -> Rates:
    """The rates of a name, of a file, or the packaged ones of that kind of device."""
    if chosen is None:
        return _nearest(device)
    if chosen in packaged():
        return _packaged(chosen)
    path = Path(chosen)
    if path.suffix != ".json" and not path.exists():
        raise KoriskError(
            f"--rates must be a packaged name or a file, got {chosen!r}"
            f"{did_you_mean(chosen, packaged())}"
        )
    return read_rates(path)


def _nearest(device: str) -> Rates:
    for name in packaged():
        found = _packaged(name)
        if found.device == device:
            return found
    raise KoriskError(
        f"no packaged rates are of a {device} device; measure some with korisk cost --measure FILE "
        "and pass --rates FILE"
    )


def _packaged(name: str) -> Rates:
    text = (resources.files(__package__) / _FOLDER / f"{name}.json").read_text(encoding="utf-8")
    return _rates(text, f"the rates {name}")


def read_rates(path: str | PathLike[str]) -> Rates:
    """The rates in a file that `Rates.write` wrote."""
    return _rates(read_text(path, max_bytes=_MAX_BYTES), path)


def _rates(text: str, source: object) -> Rates:
    remedy = "measure anew with korisk cost --measure FILE"
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise KoriskError(f"{source}: is not JSON; {remedy}") from None
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise KoriskError(f"{source}: holds no rates of format {FORMAT}; {remedy}")
    try:
        content["seconds"] = {kind: _table(kind, content["seconds"][kind]) for kind in KINDS}
        made = Rates(**content)
        _check(made)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise KoriskError(f"{source}: is damaged: {shown(str(error))}; {remedy}") from None
    return made


def _check(rates: Rates) -> None:
    if rates.device not in ("cpu", "cuda"):
        raise ValueError(f"the device is {shown(rates.device)}")
    for name in ("memory", "baseline", "overhead", "start"):
        value = getattr(rates, name)
        if isinstance(value, bool) or not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {shown(value)}")
    texts: tuple[Any, ...] = (rates.name, rates.where)
    if not all(isinstance(text, str) and text.isprintable() for text in texts):
        raise ValueError("name and where must be printable texts")
    if not all(isinstance(each, Mapping) for each in (rates.machine, rates.versions)):
        raise ValueError("machine and versions must be mappings")


def _table(kind: str, rows: Any) -> Table:
    table = tuple((float(work), float(seconds)) for work, seconds in rows)
    works = [work for work, _ in table]
    sound = all(math.isfinite(value) and value > 0 for row in table for value in row)
    if not table or not sound or works != sorted(set(works)):
        raise ValueError(f"{kind} must list rising works with their seconds")
    return table
