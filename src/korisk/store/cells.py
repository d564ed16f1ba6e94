"""Tasks and results of a study, and the form in which results are stored.

JSON is stored in Python's dialect: floats round-trip exactly, and NaN, Infinity and -Infinity,
which standard JSON lacks, are allowed, so that an infinite PSNR is read back unchanged.
"""

import hashlib
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from korisk._checks import LARGEST_N, unique_keys
from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError, shown
from korisk.store.usage import Usage

FOUND_AT = "found_at"  # key of a spec that may change, because files can be moved
# SQLite accepts values of at most 10^9 bytes.
MAX_ARRAY_BYTES = 900_000_000
# A few compressed bytes can expand to gigabytes of zeros.
MAX_UNPACKED_BYTES = 8_000_000_000

_LONGEST_NAME = 80  # characters of the name of a model or a metric, as in curves
# Hexadecimal digits as letters: a spreadsheet would read a digest such as 12e4 as a number.
_LETTERS = str.maketrans("0123456789", "qrstuvwxyz")
_PLAIN_NUMBER = re.compile(r"[-+]?[0-9]{1,40}(\.[0-9]*)?([eE][-+]?[0-9]{1,3})?")
_NUMBERS = "biufc"  # dtype kinds that are stored; reading pickled objects could run code

# Columns of the three tables, in the order in which digests hash them.
_TASK = ("key", "point", "seed", "spec", "spec_hash", "status", "error", "attempts", "started")
_USAGE = ("seconds", "cpu_seconds", "peak_memory", "device_memory", "machine", "versions", "detail")
CELL = _TASK + _USAGE
CONTENTS = {
    "rows": ("model", "n", "metrics", "detail"),
    "arrays": ("name", "dtype", "shape", "content"),
}
_MEASURED = ("seconds", "cpu_seconds", "peak_memory", "device_memory", "attempts")  # of `Usage`

StoredRow = tuple[str, int, str, str]  # model, n, metrics, detail
StoredArray = tuple[str, str, str, bytes]  # name, dtype, shape as JSON, compressed content


class ResultError(KoriskError):
    """A cell returned something that cannot be stored."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One cell of a study: a point and a seed, with all its training set sizes inside.

    Parameters
    ----------
    point : str
        Name of the operating point.
    seed : int
        Seed of samples, noise and weights.
    spec : mapping
        Everything else that the cell's numbers depend on, as plain JSON values. The key
        `"found_at"` holds paths of files whose contents the other keys identify; it may change.

    Examples
    --------
    >>> from korisk.studies import Task
    >>> task = Task(point="128 pixels", seed=1, spec={"side": 128, "views": 60})
    >>> other = Task(point="128 pixels", seed=2, spec={"views": 60, "side": 128})
    >>> task.key, task.spec_hash == other.spec_hash
    ('128 pixels, seed 1', True)
    """

    point: str
    seed: int
    spec: JsonMapping

    @property
    def key(self) -> str:
        """The cell's name in stores and messages."""
        return f"{self.point}, seed {self.seed}"

    @cached_property
    def spec_hash(self) -> str:
        """A fingerprint of `spec`, independent of the order of its keys."""
        identifying = {name: value for name, value in self.spec.items() if name != FOUND_AT}
        text = json.dumps(identifying, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Row:
    """The metrics of one model after training with n samples.

    Parameters
    ----------
    model : str
        Name of the model, at most 80 characters.
    n : int
        Training samples; 0 is before any training.
    metrics : mapping of str to float
        Values by the name of the metric.
    detail : mapping, default {}
        Further plain JSON values: lambda, seconds and the like.

    Examples
    --------
    >>> from korisk.studies import Row
    >>> Row(model="KO", n=64, metrics={"mse": 0.1})
    Row(model='KO', n=64, metrics={'mse': 0.1}, detail={})
    """

    model: str
    n: int
    metrics: Mapping[str, float]
    detail: JsonMapping = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a cell returns: rows of metrics, and arrays for later figures.

    Parameters
    ----------
    rows : tuple of Row
        At most one for each model and n.
    arrays : mapping of str to ndarray, default {}
        Arrays of numbers by name; each at most 8 GB, and 900 MB when compressed.
    detail : mapping, default {}
        Plain JSON values about the cell as a whole.

    Examples
    --------
    >>> from korisk.studies import Result, Row
    >>> result = Result(rows=(Row(model="KO", n=64, metrics={"mse": 0.1}),))
    >>> len(result.rows), result.arrays
    (1, {})
    """

    rows: tuple[Row, ...]
    arrays: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    detail: JsonMapping = field(default_factory=dict)


# --- The stored form -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Packed:
    """A result as texts and bytes, checked and ready to be written."""

    rows: tuple[StoredRow, ...]
    arrays: tuple[StoredArray, ...]
    detail: str


def pack(result: Result) -> Packed:
    """Convert a result to its stored form; raise `ResultError` if a value cannot be stored."""
    if not isinstance(result, Result):
        raise ResultError(f"a cell must return a Result, got {shown(result)}; see korisk.studies")
    rows = []
    for row in result.rows:
        where = f"model {row.model!r}, n = {row.n}"
        try:
            metrics = {_storable(str(name)): float(value) for name, value in row.metrics.items()}
        except (TypeError, ValueError):
            problem = f"metrics must be numbers, got {shown(row.metrics)}"
            raise ResultError(f"{where}: {problem}") from None
        model, n = _storable(str(row.model)), int(row.n)
        if fault := _row_fault(model, n, metrics):
            raise ResultError(f"{where}: {fault}")
        rows.append((model, n, json.dumps(metrics), to_json(f"{where}: detail", row.detail)))
    for (model, n), count in Counter(row[:2] for row in rows).items():
        if count > 1:
            raise ResultError(f"model {model!r} has {count} rows of n = {n}; give one")
    arrays = tuple(_packed_array(name, array) for name, array in result.arrays.items())
    return Packed(tuple(rows), arrays, to_json("detail", result.detail))


def unpack_row(model: str, n: int, metrics: str, detail: str) -> Row:
    """Read a row from its stored values; raise `ValueError` if they are damaged."""
    stored_metrics = from_json(metrics)
    check_types("a row", str, model)
    check_types("a row", int, n)
    if fault := _row_fault(model, n, stored_metrics):
        raise ValueError(f"a row is wrong: {fault}")
    check_types("a row", int | float, *stored_metrics.values())
    metric_values = {name: float(value) for name, value in stored_metrics.items()}
    return Row(model=model, n=n, metrics=metric_values, detail=from_json(detail))


def unpack_array(name: str, dtype: str, shape: str, content: bytes) -> NDArray[np.generic]:
    """Read an array from its stored bytes; unpack no more bytes than its shape needs."""
    lengths = tuple(int(length) for length in json.loads(shape))
    # np.dtype accepts many more strings than those that are stored.
    if not re.fullmatch(rf"[<>|=]?[{_NUMBERS}]\d{{1,2}}", dtype) or min(lengths, default=0) < 0:
        raise ValueError(f"array {name!r} has the type {shown(dtype)} and the shape {shown(shape)}")
    size = math.prod(lengths) * np.dtype(dtype).itemsize
    if size > MAX_UNPACKED_BYTES:
        raise ValueError(f"array {name!r} claims {size / 1e9:g} GB")
    # One byte more than expected shows that the content is too long, without unpacking all of it.
    unpacked = zlib.decompressobj().decompress(content, size + 1)
    if len(unpacked) != size:
        raise ValueError(f"array {name!r} does not fill its shape {shape}")
    return np.frombuffer(unpacked, dtype).reshape(lengths).copy()


def unpack_cell(columns: JsonDict) -> tuple[Task, Usage, JsonDict, str | None]:
    """Read a cell from its stored columns: task, usage, detail and error."""
    check_types("a cell", str, columns["point"], columns["started"])
    check_types("a cell", int, columns["seed"])
    check_types("a cell", str | None, columns["error"])
    measured = {name: columns[name] for name in _MEASURED}
    check_types("a cell", int | float | None, *measured.values())
    described: JsonDict = {name: from_json(columns[name]) for name in ("machine", "versions")}
    usage = Usage(started=columns["started"], **measured, **described)
    task = Task(point=columns["point"], seed=columns["seed"], spec=from_json(columns["spec"]))
    return task, usage, from_json(columns["detail"]), columns["error"]


def cell_digest(cell: Iterable[object], rows: Iterable[str], arrays: Iterable[str]) -> str:
    """Digest of a cell: of its columns and of the digests of its rows and arrays."""
    # The separator shows a digest that moved from one list to the other.
    return digest(*cell, *rows, "arrays", *arrays)


def first_of(keys: Sequence[str]) -> str:
    """The first five keys, and how many more there are."""
    return ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if keys[5:] else "")


def digest(*values: object) -> str:
    """Checksum of stored values: strings, numbers, None and bytes."""
    hasher = hashlib.blake2b(digest_size=16)
    for value in values:
        content = value if isinstance(value, bytes) else repr(value).encode(errors="replace")
        # Type and length keep ("ab", "c") apart from ("a", "bc"), and 1 from "1".
        hasher.update(f"{type(value).__name__} {len(content)} ".encode())
        hasher.update(content)
    return hasher.hexdigest()


def row_digests(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Checksums of the rows of a table that other programs may read and write.

    Each covers the header, the number of rows, the row's position and its values, as numbers or
    text, and consists of letters, so that no program reads it as a number.
    """
    header = digest(*columns, len(rows))
    texts = enumerate(map(_as_written, row) for row in rows)
    return [digest(header, index, *row)[:16].translate(_LETTERS) for index, row in texts]


def _as_written(value: Any) -> str:
    """A value as text that is the same after a spreadsheet has read and saved it."""
    if isinstance(value, str):
        value = " ".join(value.split())
        if _PLAIN_NUMBER.fullmatch(value):
            value = int(value) if value.lstrip("+-").isdecimal() else float(value)
    if isinstance(value, float):
        if not math.isfinite(value):  # JSON has no such numbers, so exports leave them empty
            return ""
        value = int(value) if value.is_integer() and abs(value) < 2**53 else value
    return "" if value is None or value in ("nan", "inf", "-inf") else str(value)


def check_types(what: str, kind: Any, *values: object) -> None:
    """Raise `ValueError` for values of another type, since SQLite columns accept any."""
    for value in values:
        if not isinstance(value, kind):
            raise ValueError(f"{what} has the value {shown(value)}")


def to_json(what: str, content: JsonMapping) -> str:
    """Serialise plain values and those of NumPy as JSON."""

    def plain(value: object) -> object:
        if isinstance(value, np.generic | np.ndarray):
            return value.tolist()
        if isinstance(value, Mapping):
            return dict(value)
        raise TypeError(f"{shown(value)} is a {type(value).__name__}")

    try:
        return json.dumps(content, default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ResultError(f"{what} must hold plain JSON values: {error}; convert them") from None


def from_json(text: str) -> JsonDict:
    """Parse a stored mapping."""
    try:
        content = json.loads(text, object_pairs_hook=unique_keys)
    except KoriskError as error:
        # The caller adds the path of the store and its own remedy.
        raise ValueError(str(error).split(";")[0]) from None
    if not isinstance(content, dict):
        raise ValueError(f"{shown(text)} is no mapping")
    return content


def _row_fault(model: str, n: int, metrics: Mapping[str, float]) -> str | None:
    """Reason why a row is invalid, or None; names are printed, so they must be printable."""
    for name in (model, *metrics):
        if len(name) > _LONGEST_NAME:
            return f"the name {shown(name)} has {len(name)} characters, more than {_LONGEST_NAME}"
        if any(category(character) in ("Cc", "Cs") for character in name):
            return f"the name {shown(name)} contains control characters"
    if not 0 <= n <= LARGEST_N:
        return f"n must be from 0 to {LARGEST_N:,}, got {n}"
    return None


def _packed_array(name: str, array: NDArray[np.generic]) -> StoredArray:
    # Compressed once here; readers check type, shape and length.
    values = np.asarray(array)
    if values.dtype.kind not in _NUMBERS:
        raise ResultError(f"array {name!r} must hold numbers, got the type {values.dtype}")
    fits = values.nbytes <= MAX_UNPACKED_BYTES
    content = zlib.compress(values.tobytes(), level=1) if fits else b""
    if not 0 < len(content) <= MAX_ARRAY_BYTES:
        limit = f"{MAX_UNPACKED_BYTES / 1e9:g} GB, and {MAX_ARRAY_BYTES / 1e6:g} MB compressed"
        got = f"{values.nbytes / 1e9:g} GB; store a part of it"
        raise ResultError(f"array {name!r} must take at most {limit}, got {got}")
    return _storable(name), values.dtype.str, json.dumps(values.shape), content


def _storable(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ResultError(f"names must be valid Unicode, got {shown(name)}; rename it") from None
    return name
