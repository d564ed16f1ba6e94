"""Data of the page's scripts: answers as a table over targets, and the curves.

The page fits nothing. It looks up the plans for about a hundred targets, and
interpolates between them: the probability that the target is met by each N, and the numbers that
follow from it.
"""

import base64
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict

import numpy as np

from korisk._json import JsonDict
from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.planning import words
from korisk.planning.fit import calibrate
from korisk.planning.forecast import LEAST_SIZES
from korisk.planning.plan import Forecast, Plan
from korisk.planning.recommend import EASY, NEAR, collectable, first_check, otherwise
from korisk.planning.record import RECORD
from korisk.planning.tables import sample_heads
from korisk.planning.targets import Group, main_group
from korisk.report.figures.panels import Array, error_bars, track
from korisk.report.figures.style import glossary
from korisk.texts import counted, script_json

Watch = Callable[[str], None]
Data = JsonDict  # read by a script as JSON

ROOM = 3_300_000  # bytes of all curves in a page
_DIGITS = 6  # of values that are only drawn
_FEW_VALUES = 200  # of a curve; with more, single seeds are not drawn
_EVERY = 2  # beyond the pilot, every second size of the planner
_INSIDE = 60  # most sizes of a forecast inside the pilot
_INNER = tuple(round(0.025 * step, 3) for step in range(1, 40))
# Levels of the table: shares of the way from the probability at the pilot's first N to the largest.
_SHARES = (0.001, 0.01, *_INNER, 0.985, 0.99, 0.995, 0.998, 0.999, 0.9997, 1.0)
LEVELS = (*(round(0.5 + 0.05 * step, 2) for step in range(10)), 0.975, 0.99)  # of the slider

LEGEND = {
    "pilot": "Points: measured means of seeds ± standard error, joined by straight lines.",
    "rehearsal": "Points: means on simulated pairs ± standard error, joined by straight lines.",
    "both": "Points: measured means of seeds ± standard error; crosses: on simulated pairs.",
}
_FORECAST = "Dashed with a hatched band: forecast, 90%. Dotted: the paper's line."
# What table.js fills in, as `words` does.
TEMPLATES = {
    "advice": words.ADVICE,
    "odds": words.ODDS,
    "question": words.QUESTION,
    "far": words.FAR,
    "between": words.BETWEEN,
    "no_number": words.NO_NUMBER,
    "too_far": words.TOO_FAR,
    "then": words.THEN,
    "price": words.PRICE,
    "factors": words.FACTORS,
    "heads": [head.replace("\n", " ") for head in sample_heads(())],
    "near": f"{NEAR:g}",
}


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
            "legend": _legend(group),
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


def _legend(group: Group) -> str:
    curves = [*(view.evidence for view in group.forecasts), *group.short]
    basis = group.forecasts[0].basis if group.forecasts else "pilot"
    notes = glossary([*(curve.name for curve in curves), group.name])
    return " ".join([LEGEND[basis], _FORECAST, *(f"{note}." for note in notes)])


def _model(view: Forecast, table: tuple[list[Plan], list[int]]) -> Data:
    n, curve = view.sizes, view.evidence
    inside, beyond = n[n <= view.last], n[n > view.last]
    inside = inside[:: math.ceil(len(inside) / _INSIDE)]
    drawn = track(view, np.unique([*inside, view.last, *beyond[::_EVERY], n[-1]]))
    line = None
    with suppress(KoriskError):  # a single size
        line = asdict(calibrate(curve))
    simulated = view.simulated if view.basis == "both" else None
    return {
        "name": curve.name,
        "planner": planner_data(view, *table),
        "track": {key: _rounded(getattr(drawn, key)) for key in drawn.__dataclass_fields__},
        "measured": _measured(curve),
        "simulated": simulated and _measured(simulated),
        "line": line,
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


def planner_data(view: Forecast, plans: Sequence[Plan], stops: Sequence[int]) -> Data:
    """Convert the answers of one forecast to plain values for JSON."""
    doubts = list(dict.fromkeys(plan.doubt for plan in plans if plan.doubt))
    best = float(view.evidence.means.max())
    check = ""
    if view.basis == "rehearsal" and not view.population:
        check = words.first_check(*vars(first_check(plans[0])).values())
    # By level, then by target: the slider of the page chooses a row.
    samples = [[plan.samples(p) for plan in plans] for p in LEVELS]
    is_advice = [
        "".join(
            str(int(n is not None and collectable(plan, n)))
            for n, plan in zip(row, plans, strict=True)
        )
        for row in samples
    ]
    asked_otherwise = [any(row[index] == "0" for row in is_advice) for index in range(len(plans))]
    alternatives, alternative_index, reached = _other_advice(view, plans, asked_otherwise, check)
    # (targets, levels) the N by which each target is met at each level of `_SHARES`. Sixteen bits
    # in steps of log N are finer than the drawing, and a quarter of the size of doubles.
    rows = []
    for plan in plans:
        start, largest = float(plan.chances.p[0]), float(plan.chances.p[-1])
        levels = [min(start + share * (largest - start), largest) for share in _SHARES]
        rows.append([plan.chances.first(p) for p in levels])
    first = int(view.sizes[0])
    low, high = math.log(first), math.log(view.horizon)
    steps = np.rint((np.log(np.array(rows)) - low) / (high - low) * 65535).astype("<u2")
    return {
        "model": view.model,
        "subject": view.subject,
        "metric": view.metric,
        "unit": {name: getattr(view.unit, name) for name in ("law", "noun", "logarithmic")},
        "sizes": view.evidence.sizes.tolist(),
        "first": first,
        "last": view.last,
        "known": view.measured,
        "horizon": view.horizon,
        "record": [
            [row["times"], words.record(view.basis, [row])]
            for row in (RECORD[view.basis] if not view.population else ())
        ],
        "doubt": view.doubt,
        "doubts": doubts,
        "findings": list(plans[0].findings),
        "check": check,
        # The error from which on a target is so easy that its unit is in doubt, and that sentence.
        "easy": EASY * best,
        "hint": words.too_easy(view.unit.noun, float(view.unit.from_error(best)), view.unit.name),
        # By N, then by level: the value that N does reach.
        "reached": reached,
        "targets": [plan.target for plan in plans],
        "stops": list(stops),
        "shares": list(_SHARES),
        "table": base64.b64encode(steps.tobytes()).decode("ascii"),
        "ends": [_digits(float(end), 4) for plan in plans for end in plan.chances.p[[0, -1]]],
        "levels": list(LEVELS),
        "others": alternatives,
        # One list over the targets for each quantity.
        "answers": {
            "lower": [_finite(plan.lower) for plan in plans],
            "upper": [_finite(plan.upper) for plan in plans],
            "reach": [None if math.isnan(plan.reach) else _digits(plan.reach, 6) for plan in plans],
            # By level: N, and "1" where collecting N is the advice.
            "samples": samples,
            "collect": is_advice,
            # 1 + the index in `others` of the advice that replaces it, or 0.
            "other": alternative_index,
            "between": [plan.between for plan in plans],
            "related": [plan.about_related for plan in plans if plan.about_related],
            "doubt": [doubts.index(plan.doubt) + 1 if plan.doubt else 0 for plan in plans],
        },
    }


def _other_advice(
    view: Forecast, plans: Sequence[Plan], asked: Sequence[bool], check: str
) -> tuple[list[Data], list[int], Data]:
    """Advice other than to collect; 1 + its index by target, or 0; what the next N reach.

    What they reach are texts, by N and then by level.
    """
    alternatives: list[Data] = []
    indices, next_sizes = [], set()
    for plan, is_asked in zip(plans, asked, strict=True):
        if not is_asked:
            indices.append(0)
            continue
        advice = otherwise(plan)
        # Reasons to measure depend on the level: table.js fills them in, and adds the check.
        reasons = [] if advice.action == "measure" else [x for x in advice.reasons if x != check]
        if advice.action == "measure" and not plan.met_in_pilot and advice.n:
            next_sizes.add(advice.n)
        names = {name: getattr(advice, name) for name in ("action", "n", "sentence")}
        alternatives.append(names | {"reasons": reasons})
        indices.append(len(alternatives))
    sizes = sorted(next_sizes)
    by_level = [view.unit.from_error(view.quantile(sizes, p)).tolist() for p in LEVELS if sizes]
    by_size = zip(sizes, zip(*by_level, strict=True), strict=True)
    return alternatives, indices, {str(n): [*map(words.value, row)] for n, row in by_size}


def _finite(n: float) -> int | None:
    return round(n) if math.isfinite(n) else None


def _digits(number: float, most: int) -> float:
    return float(f"{number:.{most}g}")
