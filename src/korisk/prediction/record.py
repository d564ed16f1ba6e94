"""`prediction.json`: the curves predicted before a scan, as a file that a report reads back.

`outcomes` compares them with the errors that were measured later.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import ConfigDict, Field

from korisk._group import grouped
from korisk._version import __version__
from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.files import Spec, make_folder, parse, read_json, write_text
from korisk.store.cells import digest
from korisk.store.store import Cell

NAME = "prediction.json"
_LARGEST_BYTES = 5_000_000
_MOST = 10_000  # points and models of a file, and rows of each
_METRIC = "mse"  # in which curves are predicted

# Numbers of a file: finite, and far from overflow.
Positive = Annotated[float, Field(gt=0, lt=1e300, allow_inf_nan=False)]


class _Record(Spec):
    """A part of the file; keys that a later korisk may add are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class TrackRecord(_Record):
    """A curve at one N."""

    n: Positive
    value: Positive
    lower: Positive
    upper: Positive


class MeasuredRecord(_Record):
    """An error of a pilot, or on simulated pairs."""

    n: Positive
    measured: Positive


class ModelRecord(_Record):
    """The curve of one model."""

    model: str
    how: Literal["rehearsed"]
    relu: bool
    track: list[TrackRecord] = Field(min_length=2, max_length=_MOST)
    rehearsal: list[MeasuredRecord] = Field(max_length=_MOST)
    checks: list[MeasuredRecord] = Field(max_length=_MOST)


class PointRecord(_Record):
    """The curves of one point."""

    point: str
    problem: dict[str, object]
    images: str
    examples: int = Field(ge=1)  # the largest rehearsed N
    models: list[ModelRecord] = Field(min_length=1, max_length=_MOST)


class PredictionRecord(_Record):
    """The whole file, as far as it is drawn."""

    study: str
    points: list[PointRecord] = Field(max_length=_MOST)


def prediction_content(study: str, points: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """The content of a file, from points as `PointPrediction.to_dict` gives them."""
    content = {"korisk": __version__, "study": study, "points": list(points)}
    return {"digest": _digest(content), **content}


def write_prediction(folder: str | PathLike[str], content: Mapping[str, object]) -> Path:
    """Write the file into a folder, which is created if needed."""
    file = make_folder(folder) / NAME
    write_text(file, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return file


def _digest(content: Mapping[str, object]) -> str:
    return digest(json.dumps(content, sort_keys=True))


def read_prediction(path: str | PathLike[str]) -> PredictionRecord:
    """Read a file that was written before, or a folder that contains one."""
    file = Path(path) / NAME if Path(path).is_dir() else Path(path)
    remedy = "run korisk rehearse again"
    content = read_json(file, max_bytes=_LARGEST_BYTES, remedy=remedy)
    # The digest covers all other keys: an edited file must not pass for a prediction.
    if isinstance(content, dict) and content.pop("digest", None) != _digest(content):
        raise KoriskError(f"{file}: is not as it was written; {remedy}")
    try:
        return parse(PredictionRecord, content, source=file)
    except KoriskError as wrong:
        raise KoriskError(wrong.message, f"; if another version wrote it, {remedy}") from None


# --- Beside what was measured ---------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """A predicted error beside the measured one."""

    point: str
    model: str
    n: int
    predicted: float
    lower: float
    upper: float
    measured: float

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured

    @property
    def inside(self) -> bool:
        """Whether the measured error lies in the band."""
        return self.lower <= self.measured <= self.upper


def measured_curves(cells: Iterable[Cell]) -> list[Curve]:
    """The mean squared errors of a point's models, whatever metric the study looks at."""
    rows = grouped(
        (row.model, (row.n, row.metrics[_METRIC], cell.task.seed))
        for cell in cells
        for row in cell.rows
        if row.n >= 2 and 0 < row.metrics.get(_METRIC, math.nan) < math.inf
    )
    curves = []
    for model, values in rows.items():
        n, errors, seeds = zip(*values, strict=True)
        curves.append(Curve(n, errors, seeds, model=model, metric=_METRIC))
    return curves


def outcomes(point: PointRecord, curves: Sequence[Curve]) -> Iterator[Outcome]:
    """Predictions at the measured N, interpolated in logarithms; without those of a pilot."""
    measured = {curve.model: curve for curve in curves}
    for record in point.models:
        curve = measured.get(record.model)
        if curve is None:
            continue
        in_pilot = {check.n for check in record.checks}
        # (T, 4) logarithms of N, the expected error and its band along the track.
        logs = np.log([(row.n, row.value, row.lower, row.upper) for row in record.track])
        for n, mean in zip(curve.sizes.tolist(), curve.means.tolist(), strict=True):
            if record.track[0].n <= n <= record.track[-1].n and n not in in_pilot:
                expected, lower, upper = (
                    math.exp(np.interp(math.log(n), logs[:, 0], logs[:, k])) for k in (1, 2, 3)
                )
                yield Outcome(point.point, record.model, n, expected, lower, upper, mean)


def outcome_sentences(results: Sequence[Outcome]) -> Iterator[str]:
    """How well the errors of each model were predicted."""
    groups = grouped(((result.point, result.model), result) for result in results)
    for (point, model), group in groups.items():
        logs = np.log([outcome.ratio for outcome in group])
        worst = group[int(np.abs(logs).argmax())]
        inside = sum(outcome.inside for outcome in group)
        yield (
            f"{point}, {model}: predicted over measured is {math.exp(logs.mean()):.2f} "
            f"in the geometric mean over {len(group)} N, and {worst.ratio:.2f} at worst, at "
            f"N = {worst.n:,}; {inside} of {len(group)} measured errors lie in the 90% band."
        )
