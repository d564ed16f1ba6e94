"""What a page answers: groups of curves that may be compared, a first target, and the answers.

A group is an operating point of a study or a file of pilots: curves of one metric. `groups_data`
gives what the scripts of a page work on, as plain JSON values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from korisk.curves.curve import Curve
from korisk.curves.noise import ROUNDING
from korisk.errors import KoriskError
from korisk.planning import explain as words
from korisk.planning.compare import Comparison
from korisk.planning.fit import fitted_line
from korisk.planning.forecast import Forecast, forecast
from korisk.planning.plan import Plan, plan_from, table_sizes
from korisk.report.figures.panels import Array, track
from korisk.report.page.planner import planner_data, sentence
from korisk.studies.results import LEAST_SIZES, Crossing, crossing

Watch = Callable[[str], None]

ROOM = 3_300_000  # bytes that curves may take in a page
_DIGITS = 6  # of what is drawn alone
_LINES = ("line", "paper")  # calibrations of the form floor + slope log N / N
_FEW_VALUES = 200  # of a curve: with more, single seeds are not drawn
_INSIDE = 60  # N inside the pilot at which a forecast is kept, at most
_EVERY = 3  # and so many times fewer than the planner's beyond it
_ALL_PAIRS = 4  # models up to which every two are compared; beyond, the first with
_MOST_PAIRS = 12  # so many others, since each takes half a second
_NEARLY = 1.05  # of the lowest error of the first model: the first target where there are others
_STRETCH = 0.8  # of the lowest error: the first target of a model that stands alone


@dataclass(frozen=True)
class Group:
    """Curves of one metric, with a name, in the order of their models."""

    name: str
    curves: tuple[Curve, ...]
    asked: float | None = None  # the target that a user gave
    crossing: Crossing | None = None  # of two curves, where it is known already
    whole: bool = True  # whether nothing of it is missing

    @cached_property
    def forecasts(self) -> tuple[Forecast, ...]:
        """The forecasts of the curves that have enough sizes."""
        return tuple(forecast(each) for each in self.curves if len(each.sizes) >= LEAST_SIZES)

    @property
    def short(self) -> tuple[Curve, ...]:
        """The curves that have too few sizes for that."""
        return tuple(curve for curve in self.curves if len(curve.sizes) < LEAST_SIZES)

    @cached_property
    def target(self) -> float:
        """What is asked at first, in the user's unit.

        The user's own target; else nearly the best of the first model, which shows what the others
        lack, or some way beyond that where it stands alone. It has three digits of an error.
        """
        if self.asked is not None:
            return self.asked
        first = self.forecasts[0].curve
        lowest = float(first.means[first.means > ROUNDING * first.means.max()].min())
        error = (_NEARLY if len(self.forecasts) > 1 else _STRETCH) * lowest
        step = 10.0 ** (math.floor(math.log10(error)) - 2)
        rounded = math.ceil(round(error / step, 6)) * step
        return float(f"{float(first.unit.from_error(rounded)):.8g}")

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The answers to the first target."""
        return tuple(plan_from(each, self.target) for each in self.forecasts)

    @property
    def comparison(self) -> Comparison | None:
        """The first two models at the first target."""
        return Comparison(self.plans[0], self.plans[1]) if len(self.plans) > 1 else None

    @property
    def sentence(self) -> str:
        """The answer to the first target, or that there are too few sizes for one."""
        if not self.forecasts:
            most = max(len(curve.sizes) for curve in self.curves)
            sizes = f"training set size{'s' if most > 1 else ''}"
            return f"{most} {sizes}; {LEAST_SIZES} are needed to plan."
        both, curve = self.comparison, self.forecasts[0].curve
        said = sentence(self.plans[0]) if both is None else words.comparison_headline(both)
        metric, why = curve.metric or curve.unit.noun, "as asked"
        if self.asked is None:
            more = "5% more" if both else "a fifth less"
            why = f"with {more} error than the lowest of {curve.name}"
        return f"{said} ({metric} {words.value(self.target)}, {why})"

    def pairs(self) -> list[dict[str, Any]]:
        """Some pairs of models at the first target, with a sentence on where their curves cross."""
        count = len(self.forecasts)
        places = list(combinations(range(count), 2))
        if count > _ALL_PAIRS:
            places = [(0, other) for other in range(1, min(count, _MOST_PAIRS + 1))]
        known = self.crossing if count == len(self.curves) == 2 else None
        made = []
        for first, second in places:
            both = Comparison(self.plans[first], self.plans[second])
            found = known or crossing(both.first.curve, both.second.curve)
            if found is None:  # no N in common
                said = words.crossing(both.crossover)
            else:
                said = words.crossing(found.found, found.means, found.better, found.last)
            about = {"ratio_range": both.ratio_range, "crossover": said}
            made.append({"first": first, "second": second, **about})
        return made


def main_group(groups: Sequence[Group]) -> Group | None:
    """The one whose answer leads the page: the last that compares and is whole, if there is one."""
    chosen = [group for group in groups if group.forecasts]
    chosen = [group for group in chosen if len(group.forecasts) > 1] or chosen
    chosen = [group for group in chosen if group.whole] or chosen
    return chosen[-1] if chosen else None


# --- For the scripts -----------------------------------------------------------------------------


def groups_data(
    groups: Sequence[Group], *, watch: Watch = lambda _: None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Every group's data, and notes; where all would be too large, the last curves give way.

    The group whose answer leads the page comes first.
    """
    main = main_group(groups)
    made: dict[str, dict[str, Any]] = {}
    room, dropped = ROOM, 0
    for group in sorted(groups, key=lambda each: each is not main):
        watch(group.name)
        models = [_model(each, group.target) for each in group.forecasts]
        data: dict[str, Any] = {
            "name": group.name,
            "target": group.target if group.forecasts else None,
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


def _model(made: Forecast, target: float) -> dict[str, Any]:
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
        "planner": planner_data(made, target),
        "track": {each: _rounded(getattr(drawn, each)) for each in drawn.__dataclass_fields__},
        "measured": _measured(made.curve),
        "lines": lines,
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
    return [float(f"{v:.{_DIGITS}g}") if math.isfinite(v) else None for v in values.tolist()]


def script_json(content: Mapping[str, Any] | Sequence[Any]) -> str:
    """JSON that can stand in a page: nothing in it ends the script or begins a tag."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
