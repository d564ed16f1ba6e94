"""What the page's scripts read: the planner's answers as a table over targets, and the curves.

Nothing is computed in the page. It looks up, or interpolates between neighbouring targets, what
`plan_from` answered for some hundred of them: when the target is met with which probability, and
the numbers that are read off that.
"""

import base64
import math
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from korisk._json import JsonDict
from korisk._text import script_json
from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning.chances import LEAST_REACH, table_sizes
from korisk.planning.compare import LEAST_SIZES
from korisk.planning.explain import EVEN, FAR, SURE, findings, no_floor
from korisk.planning.fit import fitted_line
from korisk.planning.forecast import Forecast
from korisk.planning.plan import Plan
from korisk.planning.recommend import collectable
from korisk.planning.targets import Group, main_group
from korisk.report.figures.panels import Array, error_bars, track
from korisk.report.figures.style import glossary

Watch = Callable[[str], None]
Data = JsonDict  # what a script reads, as JSON

ROOM = 3_300_000  # bytes that curves may take in a page
_DIGITS = 6  # of what is drawn alone
_LINES = ("line", "paper")  # calibrations of the form floor + slope log N / N
_FEW_VALUES = 200  # of a curve: with more, single seeds are not drawn
_INSIDE = 60  # N inside the pilot at which a forecast is kept, at most
_EVERY = 3  # and so many times fewer than the planner's beyond it
_INNER = tuple(round(0.025 * step, 3) for step in range(1, 40))
# Of the way from the probability at the pilot's first N to the largest: where N is in the table.
_SHARES = (0.001, 0.01, *_INNER, 0.985, 0.99, 0.995, 0.998, 0.999, 0.9997, 1.0)
LEVELS = (*(round(0.5 + 0.05 * step, 2) for step in range(10)), 0.975, 0.99)  # of the slider

_ADVICE = ("action", "n", "seeds", "sentence", "reasons")

LEGEND = (
    "Points: means of seeds ± standard error, joined by straight lines. Dashed with a hatched "
    "band: forecast, 90%. Dotted: the paper's line."
)


def unwatched(_: str) -> None:
    """Nobody is told what is being made."""


def groups_data(
    groups: Sequence[Group], *, watch: Watch = unwatched
) -> tuple[list[Data], list[str]]:
    """Every group's data, and notes; where all would be too large, the last curves give way.

    The group with which the page opens has the space first.
    """
    main = main_group(groups)
    made: dict[str, Data] = {}
    room, dropped = ROOM, 0
    for group in sorted(groups, key=lambda each: each is not main):
        watch(group.name)
        tables = zip(group.forecasts, group.tables, strict=True) if group.forecasts else ()
        models = [_model(each, table) for each, table in tables]
        data: Data = {
            "name": group.name,
            "target": group.target if group.forecasts else None,
            "why": group.why,
            "glossary": "".join(
                f"{note}." for note in glossary([*(each.name for each in group.curves), group.name])
            ),
            "model": group.told.index(max(group.told)) if group.forecasts else 0,
            "models": models,
            "pairs": group.pairs(),
            "short": [{"name": curve.name, **_measured(curve)} for curve in group.short],
        }
        size = len(script_json(data))
        while models and size > room:
            size -= len(script_json(models.pop()))
            dropped += 1
        data["pairs"] = [pair for pair in data["pairs"] if pair["second"] < len(models)]
        room -= size
        made[group.name] = data
    notes = []
    if dropped:
        more = f"{dropped} more curve{'s' if dropped > 1 else ''}"
        notes.append(f"The planner of this page has no space for {more}; korisk plan has.")
    for group in groups:
        for curve in group.short:
            where = f"{group.name}: {curve.name}" if len(groups) > 1 else curve.name
            sizes = f"{len(curve.sizes)} size{'s' if len(curve.sizes) > 1 else ''}"
            notes.append(f"{where} has {sizes}; the planner needs {LEAST_SIZES}.")
    return [made[group.name] for group in groups], notes


def _model(made: Forecast, table: tuple[list[Plan], list[int]]) -> Data:
    n = table_sizes(made)
    inside, beyond = n[n <= made.last], n[n > made.last]
    inside = inside[:: math.ceil(len(inside) / _INSIDE)]
    drawn = track(made, np.unique([*inside, made.last, *beyond[::_EVERY], n[-1]]))
    lines: dict[str, dict[str, float] | None] = dict.fromkeys(_LINES)
    for name in _LINES:
        with suppress(KoriskError):  # a line that cannot be fitted
            fitted = fitted_line(made.curve, name)
            lines[name] = {"floor": fitted.floor, "slope": fitted.slope}
    return {
        "name": made.curve.name,
        "planner": planner_data(made, *table),
        "track": {each: _rounded(getattr(drawn, each)) for each in drawn.__dataclass_fields__},
        "measured": _measured(made.curve),
        "lines": lines,
    }


def _measured(curve: Curve) -> Data:
    """The means over seeds, and single values where they are few; in the user's unit."""
    few = len(curve.error) <= _FEW_VALUES and curve.counts.max() > 1
    low, high = error_bars(curve)
    single = curve.counts == 1  # which has no bar
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


def planner_data(made: Forecast, plans: Sequence[Plan], stops: Sequence[int]) -> Data:
    """The answers for one pilot as plain values for JSON.

    Parameters
    ----------
    made : Forecast
        The pilot's forecast by the default fit.
    plans : sequence of Plan
        From the easiest target to the hardest.
    stops : sequence of int
        Places of those at which the slider stops, as `plans_over_targets` tells.

    Returns
    -------
    dict
        What table.js reads.
    """
    curve = made.curve
    doubts = list(dict.fromkeys(plan.doubt for plan in plans if plan.doubt))
    samples = [[plan.samples(p) for plan in plans] for p in LEVELS]
    collect = [
        "".join(
            str(int(n is not None and collectable(plan, n)))
            for n, plan in zip(row, plans, strict=True)
        )
        for row in samples
    ]
    others: list[Data] = []
    other = []
    for place, plan in enumerate(plans):
        if any(row[place] == "0" for row in collect):
            advice = plan.otherwise()
            others.append({name: getattr(advice, name) for name in _ADVICE})
            other.append(len(others))
        else:
            other.append(0)
    # (T, L) N by which each target is met with each share of the way from the probability at the
    # pilot's first N to the largest: sixteen bits each, in steps of log N.
    rows = []
    for plan in plans:
        start, most = float(plan.chances.p[0]), float(plan.chances.p[-1])
        levels = [min(start + share * (most - start), most) for share in _SHARES]
        rows.append([plan.chances.first(p) for p in levels])
    low, high = math.log(curve.sizes[0]), math.log(made.horizon)
    steps = np.rint((np.log(np.array(rows)) - low) / (high - low) * 65535).astype("<u2")
    return {
        "model": curve.model,
        "metric": curve.metric,
        "unit": {name: getattr(curve.unit, name) for name in ("law", "noun", "logarithmic")},
        "sizes": curve.sizes.tolist(),
        "last": made.last,
        "horizon": made.horizon,
        # Without a floor, decibels grow beyond every number.
        "floor": _digits(plans[0].floor, 6) if math.isfinite(plans[0].floor) else None,
        "doubt": made.doubt,
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
        "others": others,
        "answers": {  # one list over the targets for each quantity
            "middle": [plan.middle for plan in plans],
            "chance": [plan.chance and _digits(plan.chance, 6) for plan in plans],
            "lower": [_finite(plan.lower) for plan in plans],
            "upper": [_finite(plan.upper) for plan in plans],
            "reach": [None if math.isnan(plan.reach) else _digits(plan.reach, 6) for plan in plans],
            "samples": samples,  # by level
            "collect": collect,  # by level: 1 where those samples are the advice,
            "other": other,  # and 1 + the place of what is, where they are not
            "if_reached": [plan.if_reached(0.9) for plan in plans],
            "by": [plan.before_long for plan in plans],
            "by_chance": [_digits(plan.chances.at(plan.before_long), 6) for plan in plans],
            "doubt": [doubts.index(plan.doubt) + 1 if plan.doubt else 0 for plan in plans],
        },
    }


def _finite(n: float) -> int | None:
    return round(n) if math.isfinite(n) else None


def _digits(number: float, most: int) -> float:
    return float(f"{number:.{most}g}")
