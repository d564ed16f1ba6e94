"""What the scripts of a page work on, as plain JSON values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.curves.curve import Curve
from korisk.report.page.groups import Extrapolated, Group, main_group
from korisk.report.page.planner import planner_data
from korisk.studies.results import LEAST_SIZES
from korisk.theory import RiskLine

Array = NDArray[np.float64]
Watch = Callable[[str], None]

ROOM = 3_300_000  # bytes that curves may take in a page
_DIGITS = 6  # of what is drawn alone
_LINES = ("line", "paper")  # calibrations of the form floor + slope log N / N
_FEW_VALUES = 200  # of a curve: with more, single seeds are not drawn


def groups_data(
    groups: Sequence[Group], *, watch: Watch = lambda _: None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Every group's data; where all would be too large, the last curves give way.

    The group whose answer leads the page comes first.
    """
    main = main_group(groups)
    made: dict[str, dict[str, Any]] = {}
    room, dropped = ROOM, 0
    for group in sorted(groups, key=lambda each: each is not main):
        data = group_data(group, watch=watch)
        size = len(script_json(data))
        while data["models"] and size > room:
            size -= len(script_json(data["models"].pop()))
            dropped += 1
        kept = len(data["models"])
        data["pairs"] = [
            pair for pair in data["pairs"] if max(pair["first"], pair["second"]) < kept
        ]
        room -= size
        made[group.name] = data
    more = f"{dropped} more curve{'s' if dropped > 1 else ''}"
    said = [f"The planner of this page has no room for {more}; korisk plan has."] if dropped else []
    return [made[group.name] for group in groups], [*said, *_short(groups)]


def _short(groups: Sequence[Group]) -> Iterator[str]:
    """Which curves have too few sizes for the planner, where others have enough."""
    for group in groups:
        for curve in group.short:
            where = f"{group.name}: {curve.name}" if len(groups) > 1 else curve.name
            sizes = f"{len(curve.sizes)} size{'s' if len(curve.sizes) > 1 else ''}"
            yield f"{where} has {sizes}; the planner needs {LEAST_SIZES}."


def group_data(group: Group, *, watch: Watch = lambda _: None) -> dict[str, Any]:
    """One group: curves with their answers and drawings, pairs of curves, a first target."""
    models, pairs = [], []
    for each in group.extrapolated:
        watch(f"{group.name}: {each.curve.name}")
        models.append(_model(each, group.target))
    for first, second, both, crossover in group.compared():
        found = {"ratio_range": both.ratio_range, "crossover": crossover}
        pairs.append({"first": first, "second": second, **found})
        watch(f"{group.name}: crossovers")
    return {
        "name": group.name,
        "target": group.target if group.extrapolated else None,
        "models": models,
        "pairs": pairs,
        "short": [{"name": curve.name, **_measured(curve)} for curve in group.short],
    }


def _model(each: Extrapolated, target: float) -> dict[str, Any]:
    track = each.track
    return {
        "name": each.curve.name,
        "planner": planner_data(each.forecast, target),
        "track": {n: _rounded(getattr(track, n)) for n in ("n", "middle", "better", "worse")},
        "measured": _measured(each.curve),
        "lines": {fit: _line(each.line(fit)) for fit in _LINES},
    }


def _measured(curve: Curve) -> dict[str, Any]:
    """The means over seeds, and single values where they are few; in the user's unit."""
    few = len(curve.error) <= _FEW_VALUES and curve.counts.max() > 1
    return {
        "n": curve.sizes.tolist(),
        "mean": _rounded(curve.unit.from_error(curve.means)),
        "all_n": curve.n.tolist() if few else [],
        "all": _rounded(curve.unit.from_error(curve.error)) if few else [],
    }


def _rounded(values: Array) -> list[float | None]:
    return [
        float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None for value in values.tolist()
    ]


def _line(found: RiskLine | None) -> dict[str, float] | None:
    return None if found is None else {"floor": found.floor, "slope": found.slope}


def script_json(content: Mapping[str, Any] | Sequence[Any]) -> str:
    """JSON that can stand in a page: nothing in it ends the script or begins a tag."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
