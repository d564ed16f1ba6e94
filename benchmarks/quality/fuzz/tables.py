"""Tables of every kind that is read, and what holds curves besides: frames and stores of pilots."""

import io
import json
import random
import re
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from benchmarks.quality.fuzz.mutations import text_changed
from korisk.curves.curve import Curve
from korisk.errors import KoriskError

_KEPT = Path(__file__).parents[3] / "tests" / "data"
_EDGES = ["0", "-1", "1", "1048576", "16384", "65536", "4294967295", "9" * 20, "1e400", "A1", "x"]
_CELLS = ["A0", "XFD1048576", "ZZZZZZZ9", "A99999999999", "B2:C3", "1", "", "$A$1", "AAA20000"]


def kept(*suffixes: str) -> Callable[[], list[bytes]]:
    """Those of `tests/data/tables` that are read as they are, by the ends of their names."""

    @cache
    def found() -> list[bytes]:
        names = yaml.safe_load((_KEPT / "tables.yaml").read_text())
        paths = [_KEPT / "tables" / name for name in names if name.endswith(suffixes)]
        return [path.read_bytes() for path in paths if _is_read(path)]

    return found


def _is_read(path: Path) -> bool:
    try:
        return bool(Curve.read_all(path))
    except KoriskError:
        return False


def sheet_changed(rng: random.Random, content: bytes) -> bytes:
    """A text or a number within a spreadsheet's XML changed, and all packed again."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as sound, zipfile.ZipFile(made, "w") as wrong:
        names = [name for name in sound.namelist() if name.endswith((".xml", ".rels"))]
        sheets = [name for name in names if "sheet" in name.rpartition("/")[2]]
        chosen = rng.choice(rng.choice((names, sheets)))
        for name in sound.namelist():
            inner = sound.read(name)
            if name == chosen:
                inner = rng.choice((text_changed, _numbers_changed))(rng, inner)
            wrong.writestr(name, inner, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return made.getvalue()


def _numbers_changed(rng: random.Random, xml: bytes) -> bytes:
    text = xml.decode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 2, 4))):
        pattern, values = rng.choice(
            ((r'(?<=r=")[A-Z]+\d+(?=")', _CELLS), (r"(?<=[\">])[\d.]+(?=[\"<])", _EDGES))
        )
        places = list(re.finditer(pattern, text))
        if places:
            place = rng.choice(places)
            text = text[: place.start()] + rng.choice(values) + text[place.end() :]
        elif "<table:table-cell" in text:
            repeated = rng.choice(("rows", "columns"))
            element = "<table:table-" + ("row" if repeated == "rows" else "cell")
            wanted = f'{element} table:number-{repeated}-repeated="{rng.choice(_EDGES)}"'
            text = text.replace(element, wanted, rng.choice((1, 2, -1)))
    return text.encode()


def frames() -> list[bytes]:
    """Columns of data frames, as JSON; the index is one of them, or nothing."""
    long = {"n": [64, 64, 128], "error": [0.12, 0.13, 0.09], "seed": [1, 2, 1]}
    wide = {"seed 1": [0.1, 0.05], "seed 2": [0.12, 0.06]}
    made = [
        {"index": None, "columns": long},
        {"index": {"n": [64, 128]}, "columns": wide},
        {"index": None, "columns": {"n": ["64", "128"], "rmse [HU]": [12, None]}},
    ]
    return [json.dumps(each).encode() for each in made]


class _Index:
    def __init__(self, levels: dict[str, Any]) -> None:
        self.names, self._levels = list(levels), list(levels.values())

    def get_level_values(self, at: int) -> Any:
        return self._levels[at]


class _Frame:
    """What pandas and polars have in common, with columns of anything."""

    def __init__(self, columns: dict[str, Any], index: dict[str, Any] | None) -> None:
        self.columns, self._content = list(columns), columns
        self.index = _Index(index) if index else None

    def __getitem__(self, name: str) -> Any:
        return self._content[name]


def read_frame(path: Path) -> None:
    """Make a frame of a file, also with pandas and polars where these are installed, and read it.

    A file that describes no frame counts as refused: what is tried are the frames.
    """
    try:
        content = json.loads(path.read_bytes())
        columns, index = content["columns"], content.get("index")
        every = [*columns.values(), *(index or {}).values()]
        assert all(isinstance(each, list) and len(each) == len(every[0]) for each in every)
        made: list[Any] = [_Frame(columns, index)]
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError):
        raise KoriskError(f"{path.name}: describes no frame") from None
    for library in ("pandas", "polars"):
        if find_spec(library):
            try:
                made.append(__import__(library).DataFrame({**(index or {}), **columns}))
            except Exception:  # it does not take every column
                continue
    problem = None
    for frame in made:
        try:
            Curve.read(frame)
        except KoriskError as error:
            problem = error
    if problem is not None:
        raise KoriskError(f"{path.name}: {problem}") from problem


@cache
def pilots() -> list[bytes]:
    """Stores of pilots: of one model, and of two that one point holds."""
    from korisk.pilots import run_pilot

    def fit(n: int, seed: int) -> dict[str, float]:
        return {"mse": 1 / n, "dice": 1 - 1 / n}

    made = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pilot.db")
        for model in ("U-Net", "KO"):
            run_pilot(fit, (4, 8), [1, 2], store=path, model=model)
            made.append(path.read_bytes())
    return made
