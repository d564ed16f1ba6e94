"""Data of the page's scripts: the planner's answers as a table over targets, and the curves.

The page fits nothing. It looks up the answers of `plan_from` for about a hundred targets, and
interpolates between them: the probability that the target is met by each N, and the numbers that
follow from it.
"""

import base64
import math
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from korisk._json import JsonDict
from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.chances import LEAST_REACH, table_sizes
from korisk.planning.compare import LEAST_SIZES
from korisk.planning.explain import EVEN, FAR, SURE, findings, no_floor
from korisk.planning.fit import calibrate
from korisk.planning.forecast import Forecast
from korisk.planning.plan import Plan
from korisk.planning.recommend import collectable
from korisk.planning.targets import Group, main_group
from korisk.report.figures.panels import Array, error_bars, track
from korisk.report.figures.style import glossary
from korisk.texts import counted, script_json

Watch = Callable[[str], None]
Data = JsonDict  # read by a script as JSON

ROOM = 3_300_000  # bytes of all curves in a page
_DIGITS = 6  # of values that are only drawn
_LINES = ("line", "paper")  # calibrations of the form floor + slope log N / N
_FEW_VALUES = 200  # of a curve; with more, single seeds are not drawn
_INSIDE = 60  # most sizes of a forecast inside the pilot
_EVERY = 3  # beyond the pilot, every third size of the planner
_INNER = tuple(round(0.025 * step, 3) for step in range(1, 40))
# Levels of the table: shares of the way from the probability at the pilot's first N to the largest.
_SHARES = (0.001, 0.01, *_INNER, 0.985, 0.99, 0.995, 0.998, 0.999, 0.9997, 1.0)
LEVELS = (*(round(0.5 + 0.05 * step, 2) for step in range(10)), 0.975, 0.99)  # of the slider

_ADVICE = ("action", "n", "seeds", "sentence", "reasons")

LEGEND = (
    "Points: means of seeds ± standard error, joined by straight lines. Dashed with a hatched "
    "band: forecast, 90%. Dotted: the paper's line."
)


def unwatched(_: str) -> None:
    """Ignore reports of progress."""


def groups_data(
    groups: Sequence[Group], *, watch: Watch = unwatched
) -> tuple[list[Data], list[str]]:
    """Data of every group, and notes; if all would be too large, the last curves are dropped.

    The group with which the page opens is the last to lose curves.
    """
    main = main_group(groups)
    by_group: dict[str, Data] = {}
    bytes_left, dropped = ROOM, 0
    for group in sorted(groups, key=lambda item: item is not main):
        watch(group.name)
        tables = zip(group.forecasts, group.tables, strict=True) if group.forecasts else ()
        models = [_model(item, table) for item, table in tables]
        data: Data = {
            "name": group.name,
            "target": group.target if group.forecasts else None,
            "why": group.why,
            "glossary": "".join(
                f"{note}." for note in glossary([*(item.name for item in group.curves), group.name])
            ),
            "model": group.told.index(max(group.told)) if group.forecasts else 0,
            "models": models,
            "pairs": group.pairs(),
            "short": [{"name": curve.name, **_measured(curve)} for curve in group.short],
        }
        size = len(script_json(data))
        # The last models are dropped first: the first ones are those a study names first.
        while models and size > bytes_left:
            size -= len(script_json(models.pop()))
            dropped += 1
        data["pairs"] = [pair for pair in data["pairs"] if pair["second"] < len(models)]
        bytes_left -= size
        by_group[group.name] = data
    notes = []
    if dropped:
        count = counted(dropped, "more curve")
        notes.append(f"The planner of this page has no space for {count}; korisk plan has.")
    for group in groups:
        for curve in group.short:
            name = f"{group.name}: {curve.name}" if len(groups) > 1 else curve.name
            sizes = counted(len(curve.sizes), "size")
            notes.append(f"{name} has {sizes}; the planner needs {LEAST_SIZES}.")
    return [by_group[group.name] for group in groups], notes


def _model(fitted: Forecast, table: tuple[list[Plan], list[int]]) -> Data:
    n = table_sizes(fitted)
    # Dense inside the pilot, where the curve is drawn; thinned beyond it.
    inside, beyond = n[n <= fitted.last], n[n > fitted.last]
    inside = inside[:: math.ceil(len(inside) / _INSIDE)]
    curve = track(fitted, np.unique([*inside, fitted.last, *beyond[::_EVERY], n[-1]]))
    lines: dict[str, dict[str, float] | None] = dict.fromkeys(_LINES)
    for name in _LINES:
        with suppress(KoriskError):  # a line that cannot be fitted
            line = calibrate(fitted.curve, name)
            lines[name] = {"floor": line.floor, "slope": line.slope}
    return {
        "name": fitted.curve.name,
        "planner": planner_data(fitted, *table),
        "track": {key: _rounded(getattr(curve, key)) for key in curve.__dataclass_fields__},
        "measured": _measured(fitted.curve),
        "lines": lines,
    }


def _measured(curve: Curve) -> Data:
    """Means over seeds, and single values if there are few, in the user's unit."""
    few = len(curve.error) <= _FEW_VALUES and curve.counts.max() > 1
    low, high = error_bars(curve)
    # A single seed has no standard error, and so no bar.
    single = curve.counts == 1
    means = curve.unit.from_error(curve.means)
    return {
        "n": curve.sizes.tolist(),
        "mean": _rounded(means),
        "low": _rounded(np.where(single, means, low)),
        "high": _rounded(np.where(single, means, high)),
        "all_n": curve.n.tolist() if few else [],
        "all": _rounded(curve.unit.from_error(curve.error)) if few else [],
    }


def _rounded(values: Array) -> list[float | None]:
    return [float(f"{v:.{_DIGITS}g}") if math.isfinite(v) else None for v in values.tolist()]


def planner_data(forecast: Forecast, plans: Sequence[Plan], stops: Sequence[int]) -> Data:
    """Convert the answers for one pilot to plain values for JSON."""
    curve = forecast.curve
    doubts = list(dict.fromkeys(plan.doubt for plan in plans if plan.doubt))
    # By level, then by target: the slider of the page chooses a row.
    samples = [[plan.samples(p) for plan in plans] for p in LEVELS]
    is_advice = [
        "".join(
            str(int(n is not None and collectable(plan, n)))
            for n, plan in zip(row, plans, strict=True)
        )
        for row in samples
    ]
    # Where collecting is not the advice at some level, the page shows another sentence.
    alternatives: list[Data] = []
    alternative_index = []
    for index, plan in enumerate(plans):
        if any(row[index] == "0" for row in is_advice):
            advice = plan.otherwise()
            alternatives.append({name: getattr(advice, name) for name in _ADVICE})
            alternative_index.append(len(alternatives))
        else:
            alternative_index.append(0)
    # (targets, levels) the N by which each target is met at each level of `_SHARES`. Sixteen bits
    # in steps of log N are finer than the drawing, and a quarter of the size of doubles.
    rows = []
    for plan in plans:
        start, largest = float(plan.chances.p[0]), float(plan.chances.p[-1])
        levels = [min(start + share * (largest - start), largest) for share in _SHARES]
        rows.append([plan.chances.first(p) for p in levels])
    low, high = math.log(curve.sizes[0]), math.log(forecast.horizon)
    steps = np.rint((np.log(np.array(rows)) - low) / (high - low) * 65535).astype("<u2")
    return {
        "model": curve.model,
        "metric": curve.metric,
        "unit": {name: getattr(curve.unit, name) for name in ("law", "noun", "logarithmic")},
        "sizes": curve.sizes.tolist(),
        "last": forecast.last,
        "horizon": forecast.horizon,
        # Without a floor, a PSNR in decibels tends to infinity.
        "floor": _digits(plans[0].floor, 6) if math.isfinite(plans[0].floor) else None,
        "doubt": forecast.doubt,
        "no_floor": no_floor(curve),
        "doubts": doubts,
        "findings": list(findings(curve)),
        "targets": [plan.target for plan in plans],
        "stops": list(stops),
        "shares": list(_SHARES),
        "table": base64.b64encode(steps.tobytes()).decode("ascii"),
        "ends": [_digits(float(end), 4) for plan in plans for end in plan.chances.p[[0, -1]]],
        "least_reach": LEAST_REACH,
        "even": EVEN,
        "sure": SURE,
        "far": FAR,
        "anywhere": plans[0].anywhere,
        "levels": list(LEVELS),
        "others": alternatives,
        # One list over the targets for each quantity.
        "answers": {
            "middle": [plan.middle for plan in plans],
            "chance": [plan.chance and _digits(plan.chance, 6) for plan in plans],
            "lower": [_finite(plan.lower) for plan in plans],
            "upper": [_finite(plan.upper) for plan in plans],
            "reach": [None if math.isnan(plan.reach) else _digits(plan.reach, 6) for plan in plans],
            # By level: N, and "1" where collecting N is the advice.
            "samples": samples,
            "collect": is_advice,
            # 1 + the index in `others` of the advice that replaces it, or 0.
            "other": alternative_index,
            "if_reached": [plan.if_reached(0.9) for plan in plans],
            "by": [plan.near_horizon for plan in plans],
            "by_chance": [_digits(plan.chances.at(plan.near_horizon), 6) for plan in plans],
            "doubt": [doubts.index(plan.doubt) + 1 if plan.doubt else 0 for plan in plans],
        },
    }


def _finite(n: float) -> int | None:
    return round(n) if math.isfinite(n) else None


def _digits(number: float, most: int) -> float:
    return float(f"{number:.{most}g}")
