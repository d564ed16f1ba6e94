"""`prediction.json`: what was said before a scan was made, as a file that a report reads back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from korisk import _checks
from korisk._version import __version__
from korisk.errors import KoriskError
from korisk.files import Spec, make_folder, parse, read_text, write_text
from korisk.store.cells import digest

NAME = "prediction.json"
_LARGEST_BYTES = 5_000_000
_MOST = 10_000  # points and models of a file, and rows of each

Positive = Annotated[float, Field(gt=0, lt=1e300, allow_inf_nan=False)]
Zero = Annotated[float, Field(ge=0, lt=1e300, allow_inf_nan=False)]


class _Record(Spec):
    """A part of the file; keys that a later korisk may add are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class TrackRecord(_Record):
    """A curve at one N."""

    n: Positive
    computed: Positive
    expected: Positive
    lower: Positive
    upper: Positive


class MeasuredRecord(_Record):
    """An error of a pilot, or of a fit to the examples themselves."""

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
    floor: Zero | None  # None where nothing is said of it
    track: list[TrackRecord] = Field(min_length=2, max_length=_MOST)
    rehearsal: list[MeasuredRecord] = Field(max_length=_MOST)
    checks: list[MeasuredRecord] = Field(max_length=_MOST)


class PointRecord(_Record):
    """The curves of one point."""

    point: str
    problem: dict[str, object]
    images: str
    examples: int = Field(ge=1)
    simulated: bool = False  # whether `examples` are simulated pairs, since nothing was computed
    models: list[ModelRecord] = Field(min_length=1, max_length=_MOST)
    crossover: CrossoverRecord | None = None


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


def point_record(content: Mapping[str, object]) -> PointRecord:
    """A point as it is drawn, from `PointPrediction.to_dict`."""
    return parse(PointRecord, dict(content), source="a prediction")


def read_prediction(path: str | PathLike[str]) -> PredictionRecord:
    """Read a file that was written before, or a folder that contains one."""
    file = Path(path) / NAME if Path(path).is_dir() else Path(path)
    text = read_text(file, max_bytes=_LARGEST_BYTES)
    try:
        content = json.loads(text, object_pairs_hook=_checks.unique_keys)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise KoriskError(f"{file}: not valid JSON: {reason}; run korisk rehearse again") from None
    if isinstance(content, dict):
        stored = content.pop("digest", None)
        unsigned = stored is None and content.get("korisk") == "0.1.0"  # which wrote no digests
        if not unsigned and stored != _digest(content):
            raise KoriskError(f"{file}: is not as it was written; run korisk rehearse again")
    return parse(PredictionRecord, content, source=file)
