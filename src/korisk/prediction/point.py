"""The predictions of one operating point, as values to show."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk import _checks
from korisk.prediction.explain import explain
from korisk.prediction.pair import PredictedPair, last_shown, track
from korisk.prediction.prediction import FARTHEST_N, PredictedSize, Prediction
from korisk.studies.run.usage import Account

Array = NDArray[np.float64]

_TARGETS = (0.5, 0.1)  # of the way from the error at N = examples down to the floor, what is left
_LEAST_WAY = 0.05  # of an error: how far a first target lies above a floor that is reached already

Line = tuple[float, float, float, float, float]  # n, computed, expected, lower, upper


@dataclass(frozen=True, eq=False)
class PointPrediction:
    """The predictions of the models at one operating point."""

    name: str
    spec: Mapping[str, Any]  # with the noise and the images that were predicted from
    predictions: tuple[Prediction, ...]  # in mean squared errors of an entry
    images: str  # what they were computed from, in words
    entries: int  # of a target
    notes: tuple[str, ...]
    account: Account

    @property
    def examples(self) -> int:
        """How many images were looked at."""
        return self.predictions[0].examples

    @cached_property
    def pair(self) -> PredictedPair | None:
        """KO beside FC, where both were predicted."""
        found = {made.model: made for made in self.predictions}
        return PredictedPair(found["KO"], found["FC"]) if len(found) == 2 else None

    @cached_property
    def targets(self) -> tuple[float, ...]:
        """Targets for those who name none: steps of FC, or of KO alone, towards a floor.

        That is the higher floor of the two, which both can come near, if FC has not passed it.
        """
        made = self.predictions[-1]
        error = float(made.errors([self.examples])[0])
        floors = [each.floor for each in self.predictions]
        floor = max(floors) if max(floors) < error else made.floor
        way = max(error - floor, _LEAST_WAY * error)
        return tuple(float(f"{floor + share * way:.3g}") for share in _TARGETS)

    def samples(self, target: float) -> tuple[PredictedSize, ...]:
        """What a target asks of each model."""
        return tuple(made.samples(target) for made in self.predictions)

    def effective(self, made: Prediction, n: float) -> float:
        """How many weights N samples determine, to stand beside all there are.

        A dense layer has one weight for each entry of a target along each direction of an input,
        and N samples determine some of these directions.
        """
        return made.effective(n) * (self.entries if made.model == "FC" else 1)

    def to_dict(self, targets: Sequence[float], at: Sequence[float] = ()) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        pair, account = self.pair, self.account
        crossover = None if pair is None else pair.crossover
        return {
            "point": self.name,
            "problem": dict(self.spec["problem"]),
            "images": self.images,
            "examples": self.examples,
            "metric": "mse",
            "models": [self._model(made, targets, at) for made in self.predictions],
            "crossover": None if crossover is None else crossover.to_dict(),
            "better_at_last": None if pair is None else pair.ahead,
            "two_factors": [] if pair is None else [pair.factors_or_reason(t) for t in targets],
            "notes": list(self.notes),
            "seconds": account.seconds,
            "peak_memory": account.peak_memory,
            "device_memory": account.device_memory,
        }

    def _model(
        self, made: Prediction, targets: Sequence[float], at: Sequence[float]
    ) -> dict[str, Any]:
        checks = made.rehearsal
        rehearsed = [] if checks is None else zip(checks.n, np.exp(checks.log_error), strict=True)
        lines = zip(*_drawn(made, doublings=False), strict=True)
        return {
            "model": made.model,
            "relu": bool(self.spec["models"][made.model].get("relu")),
            "floor": made.floor,
            "valid_to": None if math.isinf(made.valid_to) else made.valid_to,
            "parameters": made.parameters,
            "effective": {
                "n": self.examples,
                "directions": made.effective(self.examples),
                "parameters": self.effective(made, self.examples),
            },
            "errors": [_row(*line) for line in errors_at(made, at)],
            "samples": [made.samples(target).to_dict() for target in targets],
            "track": [_row(*line) for line in lines],
            "rehearsal": [{"n": float(n), "error": float(e)} for n, e in rehearsed],
            "checks": [
                {"n": c.n, "computed": c.computed, "measured": c.measured, "ratio": c.ratio}
                for c in made.checks
            ],
            "trust": made.trust if made.tested else None,
            "doubted": made.doubted,
            "notes": list(made.notes),
            "explanation": explain(made, targets[0] if targets else None),
        }


def errors_at(made: Prediction, at: Sequence[float] = ()) -> list[Line]:
    """N, the computed error, the expected one and its 90% band; at doublings unless N are given.

    Doublings go from 4 to 16 times the examples.
    """
    if at:
        n = np.array(at, float)
        lower, upper = made.band(n)
        columns = [n, made.computed(n), made.errors(n), lower, upper]
    else:
        columns = _drawn(made, doublings=True)
    return [tuple(map(float, line)) for line in zip(*columns, strict=True)]  # type: ignore[misc]


def _drawn(made: Prediction, *, doublings: bool) -> list[Array]:
    """The columns of a track as far as it is shown, at all of its N or at whole doublings."""
    drawn = track(made)
    kept = drawn.n <= last_shown(made)
    if doublings:
        kept &= drawn.n == np.round(drawn.n)
    columns = (drawn.n, drawn.computed, drawn.middle, drawn.lower, drawn.upper)
    return [column[kept] for column in columns]


def _row(*line: float) -> dict[str, float]:
    names = ("n", "computed", "expected", "lower", "upper")
    return {name: float(value) for name, value in zip(names, line, strict=True)}


def checked_at(at: Sequence[float]) -> list[float]:
    """Numbers of samples that a prediction can speak of."""
    for n in at:
        _checks.count("--at", n, at_least=1, at_most=FARTHEST_N, remedy="count training samples")
    return sorted(set(at))
