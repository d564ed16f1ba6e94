"""What users build on stays as it is: names, signatures, options, keys, exit codes, stores.

`python -m tests.test_interface > tests/interface.txt` keeps it anew. From 0.4 on a line changes
only after a release in which the old way still worked and warned.
"""

import difflib
import inspect
import io
import json
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, redirect_stdout
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import typer

import korisk as kr
from korisk.cli.app import COMMANDS, app, run
from korisk.cli.run import FAILED_CELLS
from korisk.curves.unit import NAMES
from korisk.errors import KoriskError
from korisk.planning.calibration import Calibration
from korisk.studies import Store

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests" / "interface.txt"
API = re.compile(r"^```\{api\} ([\w.]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PILOT, NETWORK = ROOT / "examples" / "pilot_h8.csv", ROOT / "examples" / "ct_h16_ko.yaml"
STUDY = """
problem: {beam: parallel, noise: {gaussian: 0.05}}
points: [{side: 8, views: 6, bins: 12}]
models: {networks: [{kind: inverse-cnn, width: 1, steps: 10}]}
"""
# Of each kind of column, the names that a pilot file may give it.
COLUMNS = (
    "of_n",
    "beside_n",
    "seed",
    "run",
    "model",
    "metric",
    "unit",
    "status",
    "exclude",
    "include",
)


def documented() -> list[tuple[str, str]]:
    """Module and name of what the reference lists."""
    pages = sorted((ROOT / "docs" / "reference" / "api").glob("*.md"))
    found = [
        (module, line.partition(":")[0].strip())
        for page in pages
        for module, lines in API.findall(page.read_text(encoding="utf-8"))
        for line in lines.splitlines()
    ]
    return sorted({*found, *(("korisk", name) for name in kr.__all__)})


def parameters(function: Any) -> str:
    """Names, kinds and plain defaults; annotations are checked by mypy, and differ by Python."""
    try:
        signature, empty = inspect.signature(function), inspect.Parameter.empty
    except ValueError:  # of a class in C
        return "(...)"
    shown = [
        one.replace(
            annotation=empty,
            default=one.default
            if one.default is empty or isinstance(one.default, int | float | str | tuple | None)
            else ...,
        )
        for one in signature.parameters.values()
    ]
    return str(signature.replace(parameters=shown, return_annotation=empty))


def members(kind: type) -> Iterator[str]:
    """Public attributes and methods that korisk gives a class."""
    for name in sorted(dir(kind)):
        owner = next((base for base in kind.__mro__ if name in vars(base)), object)
        if name.startswith("_") or not owner.__module__.startswith("korisk"):
            continue
        value = inspect.getattr_static(kind, name)
        value = getattr(value, "__func__", value)
        yield f"  {name}{parameters(value) if inspect.isfunction(value) else ''}"


def python() -> Iterator[str]:
    """Every documented name with its signature, and the members of classes."""
    for module, name in documented():
        value = getattr(import_module(module), name)
        callable_ = inspect.isclass(value) or inspect.isfunction(value)
        yield f"{module}.{name}{parameters(value) if callable_ else ''}"
        if inspect.isclass(value):
            yield from members(value)


def commands() -> Iterator[str]:
    """Every command with its arguments and options."""
    group: Any = typer.main.get_command(app)
    for name in COMMANDS:
        flags = [", ".join(one.opts) for one in group.commands[name].params]
        yield f"korisk {name}: {'; '.join(flags)}"
    codes = FAILED_CELLS, KoriskError.exit_code, kr.errors.UnreachableError.exit_code
    yield f"exit codes beside 0 and 130: {', '.join(map(str, codes))}"


def keys(name: str, content: Any) -> Iterator[str]:
    """The keys of JSON, at every depth."""
    if isinstance(content, dict):
        yield f"{name}: {', '.join(sorted(content))}"
        for key, value in content.items():
            yield from keys(f"{name}.{key}", value)
    elif isinstance(content, list) and content:
        yield from keys(f"{name}[]", content[0])


def json_keys() -> Iterator[str]:
    """Keys of a plan, a comparison, a calibration and a network."""
    known, dense = kr.Curve.read_all(PILOT)
    line: Calibration = kr.calibrate(dense)
    network = kr.Network.read(NETWORK)
    yield from keys("plan", json.loads(json.dumps(kr.plan(dense, 0.003).to_dict())))
    yield from keys("comparison", {**kr.compare(known, dense, 0.003).to_dict(), "first": {}})
    yield from keys("calibration", line.to_dict(0.003))
    yield from keys("network", network.to_dict())


def printed(*arguments: object) -> Any:
    """What a command prints as JSON."""
    with redirect_stdout(io.StringIO()) as out:
        run([*map(str, arguments), "--json"])
    return json.loads(out.getvalue())


def stored(path: Path) -> Iterator[str]:
    """The columns of a store, and the keys of what they hold."""
    with closing(sqlite3.connect(path)) as store:
        for table in ("meta", "cells", "rows", "arrays"):
            cursor = store.execute(f"SELECT * FROM {table} ORDER BY rowid")
            columns = [column[0] for column in cursor.description]
            yield f"{path.name}.{table}: {', '.join(columns)}"
            for name, value in chain(*(zip(columns, row, strict=True) for row in cursor)):
                if str(value).startswith("{"):
                    yield from keys(f"{path.name}.{table}.{name}", json.loads(value))


def of_commands() -> Iterator[str]:
    """Keys of what commands print, and of stores that they and pilots leave, by the smallest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study, few = folder / "study.yaml", ("--sizes", "4,8,16", "--seeds", "1", "--device", "cpu")
        study.write_text(STUDY, "utf-8")
        bound = printed("bound", NETWORK, "--target", 0.004)
        yield from keys("bound", bound | {"network": {}})
        rehearsal = keys("rehearsal", printed("rehearse", study, *few, "--at", 8))
        yield from (line for line in rehearsal if "samples[]." not in line)  # those of a plan
        ablation = printed("ablate", study, *few, "--no-bound")
        yield from keys("ablation", ablation | {"first": {}, "second": {}})
        options = (
            "--points",
            8,
            "--seeds",
            1,
            "--protocol",
            "released",
            "--device",
            "cpu",
            "--out",
            folder,
        )
        yield from keys("reproduction", printed("reproduce", *options))
        yield from keys("published", printed("reproduce", "--published"))
        yield from stored(folder / "study.db")
        store = folder / "pilot.db"
        kr.run_pilot(lambda n, seed: {"mse": (1 + seed) / n}, [8, 16, 32], seeds=1, store=store)
        yield from stored(store)


def of_files() -> Iterator[str]:
    """The keys of study files with their choices, and the columns of pilot files."""
    from korisk.studies.spec.registry import kinds

    own = {"Point", "Problem"}  # parts that differ by kind
    for kind, entries in kinds().items():
        if type(entries).__module__.startswith("korisk."):  # none of another test
            schema = entries.study.model_json_schema()
            for part, entry in sorted({**schema["$defs"], "Study": schema}.items()):
                choices = {
                    key: "|".join(at.get("enum", ())) for key, at in entry["properties"].items()
                }
                shown = ", ".join(f"{key} {choices[key]}".strip() for key in choices)
                yield f"study, {f'{part} of {kind}' if part in own else part}: {shown}"
    for column in COLUMNS:
        yield f"columns of a pilot, {column}: {NAMES[column]}"
    yield from keys("record of a curve", dict(kr.Curve.read_all(PILOT)[0].records()[0]))


def interface() -> list[str]:
    """All of it."""
    from korisk.store.file import FORMAT

    further = dict.fromkeys([*json_keys(), *of_commands(), *of_files()])
    return [*python(), *commands(), *further, f"format of stores: {FORMAT}"]


def test_what_users_build_on_is_what_was_kept() -> None:
    kept = KEPT.read_text(encoding="utf-8").splitlines()
    changes = list(difflib.unified_diff(kept, interface(), "kept", "now", "", "", 0))
    said = "keep what is new (CONTRIBUTING.md), deprecate before you change"
    assert not changes, f"{said}:\n" + "\n".join(changes)


def fit(n: int, seed: int) -> float:
    """None is needed: all are in the store."""
    raise AssertionError


def test_stores_and_pilots_of_0_3_0_open_and_continue(tmp_path: Path) -> None:
    """A study and its export, and a pilot of (4 + seed) / n + 0.01, all written by 0.3.0."""
    shutil.unpack_archive(ROOT / "tests" / "data" / "version_0_3_0.zip", tmp_path)
    again = printed("run", tmp_path / "study.yaml", "--out", tmp_path)
    assert (again["done"], again["skipped"]) == (0, 1)
    with Store.read(tmp_path / "study.db") as store:
        assert store.arrays("rigorous-4, seed 1")["KO/4/weights"].shape == (3, 6)
    for stored, exported in zip(
        *(kr.Curve.read_all(tmp_path / name, metric="mse") for name in ("study.db", "pilot.csv")),
        strict=True,
    ):
        assert stored.records() == exported.records()
    pilot = kr.run_pilot(fit, [8, 16, 32], 2, store=tmp_path / "pilot.db", model="line")
    assert pilot.curve.means.tolist() == pytest.approx([4.5 / n + 0.01 for n in (8, 16, 32)])


if __name__ == "__main__":
    print("\n".join(interface()))
