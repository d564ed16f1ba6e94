"""Predictions in a file: what `korisk predict --out` writes and a report reads."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from korisk._version import __version__
from korisk.errors import KoriskError
from korisk.files import Spec, make_folder, parse, read_text, write_text

NAME = "prediction.json"
_LARGEST_BYTES = 5_000_000
_MOST = 10_000  # points and models of a file, and rows of each

Positive = Annotated[float, Field(gt=0, lt=1e300, allow_inf_nan=False)]
Zero = Annotated[float, Field(ge=0, lt=1e300, allow_inf_nan=False)]


class _Record(Spec):
    """A part of the file; a later korisk may write more, and that is left alone."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class TrackRecord(_Record):
    """A curve at one N."""

    n: Positive
    computed: Positive
    expected: Positive
    lower: Positive
    upper: Positive


class RehearsalRecord(_Record):
    """An error on the examples themselves."""

    n: Positive
    error: Positive


class CheckRecord(_Record):
    """An error of the pilot."""

    n: Positive
    measured: Positive


class CrossoverRecord(_Record):
    """Where the curves cross."""

    n: Positive
    lower: Positive
    upper: Positive | None
    better_after: str


class ModelRecord(_Record):
    """The curve of one model."""

    model: str
    relu: bool
    floor: Zero
    track: list[TrackRecord] = Field(min_length=2, max_length=_MOST)
    rehearsal: list[RehearsalRecord] = Field(max_length=_MOST)
    checks: list[CheckRecord] = Field(max_length=_MOST)


class PointRecord(_Record):
    """The curves of one point."""

    point: str
    problem: dict[str, Any]
    images: str
    examples: int = Field(ge=1)
    models: list[ModelRecord] = Field(min_length=1, max_length=_MOST)
    crossover: CrossoverRecord | None = None


class PredictionRecord(_Record):
    """The whole file, as far as it is drawn."""

    study: str
    points: list[PointRecord] = Field(max_length=_MOST)


def prediction_content(study: str, points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a file holds, of points as `PointPrediction.to_dict` gives them."""
    return {"korisk": __version__, "study": study, "points": list(points)}


def write_prediction(folder: str | PathLike[str], content: Mapping[str, Any]) -> Path:
    """Write the file into a folder, which is made."""
    file = make_folder(folder) / NAME
    write_text(file, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return file


def point_record(content: Mapping[str, Any]) -> PointRecord:
    """A point as it is drawn, from `PointPrediction.to_dict`."""
    return parse(PointRecord, dict(content), source="a prediction")


def read_prediction(path: str | PathLike[str]) -> PredictionRecord:
    """A file that was written before, or a folder that holds one."""
    file = Path(path) / NAME if Path(path).is_dir() else Path(path)
    text = read_text(file, max_bytes=_LARGEST_BYTES)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise KoriskError(f"{file}: not valid JSON: {reason}; run korisk predict again") from None
    return parse(PredictionRecord, content, source=file)
