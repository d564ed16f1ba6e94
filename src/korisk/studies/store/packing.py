"""Results as they are stored: JSON texts and compressed bytes.

JSON is Python's: floats keep every bit, and NaN, Infinity and -Infinity stand as these words,
which standard JSON lacks, so that an infinite PSNR comes back as what it was.
"""

import json
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from korisk.errors import KoriskError, shown
from korisk.studies.result import Result, Row

MAX_ARRAY_BYTES = 900_000_000  # SQLite takes no value of more than 10^9 bytes
MAX_UNPACKED_BYTES = 8_000_000_000  # a few stored bytes could be as many zeros as one likes
_LARGEST_N = 10**15  # as curves take them
_LONGEST_NAME = 80  # characters of a model or a metric, as curves take them
_KINDS = "biufc"  # truth values and numbers; objects would have to be pickled
_PLAIN_TYPE = re.compile(r"[<>|=]?[biufc]\d{1,2}")


class ResultError(KoriskError):
    """A cell gave something that cannot be stored."""


@dataclass(frozen=True)
class PackedArray:
    """One array: its type, its shape as JSON, its bytes compressed."""

    name: str
    dtype: str
    shape: str
    content: bytes


@dataclass(frozen=True)
class Packed:
    """A result in plain texts and bytes, checked and ready to be written."""

    rows: tuple[tuple[str, int, str, str], ...]  # model, n, metrics, detail
    arrays: tuple[PackedArray, ...]
    detail: str


def pack(result: Result) -> Packed:
    """A result as it is stored, or one line that says what in it cannot be."""
    if not isinstance(result, Result):
        raise ResultError(f"a cell must return a Result, got {shown(result)}; see korisk.studies")
    rows = tuple(_packed_row(row) for row in result.rows)
    seen = set()
    for model, n, *_ in rows:
        if (model, n) in seen:
            raise ResultError(f"model {model!r} has two rows of n = {n}; give one")
        seen.add((model, n))
    arrays = tuple(_packed_array(name, array) for name, array in result.arrays.items())
    return Packed(rows, arrays, to_json("detail", result.detail))


def unpack_row(model: str, n: int, metrics: str, detail: str) -> Row:
    """A row out of its stored values."""
    values = from_json(metrics)
    check_types("a row", str, model)
    check_types("a row", int, n)
    if fault := _row_fault(model, n, values):
        raise ValueError(f"a row is wrong: {fault}")
    check_types("a row", int | float, *values.values())
    found = {name: float(value) for name, value in values.items()}
    return Row(model=model, n=n, metrics=found, detail=from_json(detail))


def _row_fault(model: str, n: int, metrics: Mapping[str, float]) -> str | None:
    """What keeps a row from being stored, or one that was stored from being shown."""
    for name in (model, *metrics):
        if len(name) > _LONGEST_NAME:
            return f"the name {shown(name)} has {len(name)} characters, more than {_LONGEST_NAME}"
        if any(category(each) in ("Cc", "Cs") for each in name):
            return f"the name {shown(name)} holds control characters"
    if not 0 <= n <= _LARGEST_N:
        return f"n must be from 0 to 10^15, got {n}"
    return None


def check_types(what: str, kind: Any, *values: object) -> None:
    """SQLite keeps what it was given, of whatever type the column says."""
    for value in values:
        if not isinstance(value, kind):
            raise ValueError(f"{what} has the value {shown(value)}")


def unpack_array(packed: PackedArray) -> NDArray[np.generic]:
    """An array out of its stored bytes; never more of them than its shape asks for."""
    if not _PLAIN_TYPE.fullmatch(packed.dtype):  # NumPy's language of types is a large one
        raise ValueError(f"array {packed.name!r} has the type {shown(packed.dtype)}")
    dtype = np.dtype(packed.dtype)
    shape = tuple(int(length) for length in json.loads(packed.shape))
    if dtype.kind not in _KINDS or min(shape, default=0) < 0:
        raise ValueError(f"array {packed.name!r} has the type {packed.dtype} of {packed.shape}")
    size = math.prod(shape) * dtype.itemsize
    if size > MAX_UNPACKED_BYTES:
        raise ValueError(f"array {packed.name!r} claims {size / 1e9:g} GB")
    content = zlib.decompressobj().decompress(packed.content, size + 1)
    if len(content) != size:
        raise ValueError(f"array {packed.name!r} does not fill its shape {packed.shape}")
    return np.frombuffer(content, dtype).reshape(shape).copy()


def to_json(what: str, content: Mapping[str, Any]) -> str:
    """Plain values, and NumPy's, as JSON."""
    try:
        return json.dumps(content, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ResultError(f"{what} must hold plain JSON values: {error}; convert them") from None


def from_json(text: str) -> dict[str, Any]:
    """A stored mapping."""
    content = json.loads(text)
    if not isinstance(content, dict):
        raise ValueError(f"{shown(text)} is no mapping")
    return content


def _packed_row(row: Row) -> tuple[str, int, str, str]:
    where = f"model {row.model!r}, n = {row.n}"
    try:
        metrics = {_storable(str(name)): float(value) for name, value in row.metrics.items()}
    except (TypeError, ValueError):
        raise ResultError(f"{where}: metrics must be numbers, got {shown(row.metrics)}") from None
    model = _storable(str(row.model))
    if fault := _row_fault(model, int(row.n), metrics):
        raise ResultError(f"{where}: {fault}")
    detail = to_json(f"{where}: detail", row.detail)
    return model, int(row.n), json.dumps(metrics), detail


def _packed_array(name: str, array: NDArray[np.generic]) -> PackedArray:
    values = np.asarray(array)
    if values.dtype.kind not in _KINDS:
        raise ResultError(f"array {name!r} must hold numbers, got the type {values.dtype}")
    if values.nbytes > MAX_UNPACKED_BYTES:
        raise ResultError(
            f"array {name!r} must take at most {MAX_UNPACKED_BYTES / 1e9:g} GB, "
            f"got {values.nbytes / 1e9:g} GB; keep a part of it"
        )
    content = zlib.compress(values.tobytes(), level=1)
    if len(content) > MAX_ARRAY_BYTES:
        raise ResultError(
            f"array {name!r} must take at most {MAX_ARRAY_BYTES / 1e6:g} MB compressed, "
            f"got {len(content) / 1e6:g} MB; keep a part of it"
        )
    return PackedArray(_storable(name), values.dtype.str, json.dumps(values.shape), content)


def _storable(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ResultError(f"names must be proper Unicode, got {shown(name)}; rename it") from None
    return name


def _plain(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{shown(value)} is a {type(value).__name__}")
