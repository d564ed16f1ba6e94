"""Data of the page's script: the answer to every stop of its sliders, in words, and the curves.

The script computes and words nothing: it looks up what Python says of a target at a level, and
draws the probability that the target is met by N.
"""

import base64
import math
from collections.abc import Callable, Sequence

import numpy as np

from korisk._json import JsonDict
from korisk.curves.curve import Curve
from korisk.planning import words
from korisk.planning.forecast import LEAST_SIZES
from korisk.planning.plan import Forecast, Plan, sample_cells
from korisk.planning.recommend import LEVELS
from korisk.planning.targets import Group, main_group, round_targets
from korisk.report.figures.panels import Array, error_bars, track
from korisk.report.figures.style import glossary
from korisk.texts import counted, script_json

Watch = Callable[[str], None]
Data = JsonDict  # read by the script as JSON

ROOM = 3_300_000  # bytes of all curves in a page
_DIGITS = 6  # of values that are only drawn
_FEW_VALUES = 200  # of a curve; with more, single seeds are not drawn
_EVERY = 2  # beyond the pilot, every second size of the planner
_INSIDE = 60  # most sizes of a forecast inside the pilot
_INNER = tuple(round(0.025 * step, 3) for step in range(1, 40))
# Levels of the curve of chances: shares of the way from the first probability to the largest.
_SHARES = (0.001, 0.01, *_INNER, 0.985, 0.99, 0.995, 0.998, 0.999, 0.9997, 1.0)

LEGEND = {
    "pilot": "Points: measured means of seeds ± standard error, joined by straight lines.",
    "rehearsal": "Points: means on simulated pairs ± standard error, corrected for image copies.",
    "both": "Points: measured means ± standard error; crosses: simulated, corrected for copies.",
}
_FORECAST = "Dashed, hatched: forecast, 90%. Target: N (filled) in its range; 50% chance (hollow)."


def unwatched(_: str) -> None:
    """Ignore reports of progress."""


def slider_levels(sure: float) -> list[float]:
    """The levels at which the slider stops: even odds, those of reports, and the one asked for."""
    return sorted({0.5, *LEVELS, 0.99, sure})


def table_levels(sure: float) -> list[float]:
    """The levels of the table of numbers."""
    return sorted({*LEVELS, sure})


def groups_data(
    groups: Sequence[Group], sure: float, *, watch: Watch = unwatched
) -> tuple[list[Data], list[str]]:
    """Data of every group, and notes; if all would be too large, the last curves are dropped.

    The group with which the page opens is the last to lose curves.
    """
    main = main_group(groups)
    by_group: dict[str, Data] = {}
    bytes_left, dropped = ROOM, 0
    for group in sorted(groups, key=lambda item: item is not main):
        watch(group.name)
        data = _group(group, sure)
        models, size = data["models"], len(script_json(data))
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


def _group(group: Group, sure: float) -> Data:
    curves = [*(view.evidence for view in group.forecasts), *group.short]
    quantity = words.quantity(curves[0].metric, curves[0].unit.noun)
    notes = glossary([*(curve.name for curve in curves), group.name, quantity])
    data: Data = {
        "name": group.name,
        "why": group.why,
        "short": [{"name": curve.name, **_measured(curve)} for curve in group.short],
        "models": [],
        "pairs": [],
    }
    if not group.forecasts:
        return data
    view, stops = group.forecasts[0], group.stops
    ends = sorted(float(view.unit.to_error(stop)) for stop in (stops[0], stops[-1]))
    rounded = {group.target, *round_targets(view.unit, ends[0], ends[1])}
    return data | {
        "quantity": quantity,
        "logarithmic": view.unit.logarithmic,
        "legend": " ".join([LEGEND[view.basis], _FORECAST, *(f"{note}." for note in notes)]),
        "targets": stops,
        "texts": [words.value(stop) for stop in stops],
        "start": stops.index(group.target),
        "round": [index for index, stop in enumerate(stops) if stop in rounded],
        "models": [
            _model(*pair, sure) for pair in zip(group.forecasts, group.answers, strict=True)
        ],
        "pairs": group.pairs(),
    }


def _model(view: Forecast, plans: Sequence[Plan], sure: float) -> Data:
    n, curve = view.sizes, view.evidence
    inside, beyond = n[n <= view.last], n[n > view.last]
    inside = inside[:: math.ceil(len(inside) / _INSIDE)]
    drawn = track(view, np.unique([*inside, view.last, *beyond[::_EVERY], n[-1]]))
    simulated = view.simulated if view.basis == "both" else None
    texts: dict[str, int] = {}  # every sentence once, by its index

    def index(text: str) -> int:
        return texts.setdefault(str(text), len(texts))

    answers = []
    for plan in plans:
        known = not plan.doubt
        at_levels = []
        for level in slider_levels(sure):
            advice = plan.recommend(level)
            sentence, step = words.parts(advice.sentence)
            at_levels.append(
                {
                    "n": plan.samples(level),
                    "action": advice.action,
                    "sentence": index(sentence),
                    "told": index(sentence.removeprefix(f"{view.subject}: ")),
                    "next": index(step),
                    "record": index(advice.record),
                    "reasons": [index(text) for text in reasons(plan, level)],
                }
            )
        answers.append(
            {
                "even": plan.even,
                "range": [_finite(plan.lower), _finite(plan.upper)] if known else None,
                "likely": known and plan.reach >= 0.5,
                "odds": index(plan.recommend().odds),
                "cells": sample_cells(plan, table_levels(sure)),
                "at": at_levels,
            }
        )
    return {
        "name": curve.name,
        "question": words.question("model" if view.model else "", model=view.model),
        "first": int(view.sizes[0]),
        "last": view.last,
        "known": view.measured,
        "horizon": view.horizon,
        "doubt": view.doubt,
        "texts": list(texts),
        "answers": answers,
        "track": {key: _rounded(getattr(drawn, key)) for key in drawn.__dataclass_fields__},
        "measured": _measured(curve),
        "simulated": simulated and _measured(simulated),
        **_chances(view, plans),
    }


def reasons(plan: Plan, sure: float) -> list[str]:
    """What a plan rests on and what to check, in sentences."""
    every = [*plan.recommend(sure).reasons, plan.about_related, *plan.forecast.notes]
    return [str(text) for text in dict.fromkeys([*every, *plan.findings]) if text]


def _chances(view: Forecast, plans: Sequence[Plan]) -> Data:
    """(targets, shares) the N by which each target is met with each share of its probability."""
    # Sixteen bits in steps of log N are finer than the drawing, and a quarter of the size of
    # doubles.
    rows = []
    for plan in plans:
        start, largest = float(plan.chances.p[0]), float(plan.chances.p[-1])
        levels = np.minimum(start + np.array(_SHARES) * (largest - start), largest)
        rows.append(plan.chances.each_first(levels))
    low, high = math.log(int(view.sizes[0])), math.log(view.horizon)
    steps = np.rint((np.log(np.array(rows)) - low) / (high - low) * 65535).astype("<u2")
    return {
        "shares": list(_SHARES),
        "chances": base64.b64encode(steps.tobytes()).decode("ascii"),
        "ends": [float(f"{end:.4g}") for plan in plans for end in plan.chances.p[[0, -1]]],
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


def _finite(n: float) -> int | None:
    return round(n) if math.isfinite(n) else None
