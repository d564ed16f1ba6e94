"""What users build on stays as it is: names, signatures, options, JSON keys, exit codes, stores.

`python -m tests.test_interface > tests/interface.txt` keeps it anew. From 0.4 on a line changes
only after a release in which the old way still worked and warned.
"""

import difflib
import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

import korisk as kr
from korisk.cli.app import COMMANDS, app
from korisk.cli.common.compute import FAILED_CELLS
from korisk.errors import KoriskError
from korisk.planning.calibration import Calibration

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests" / "interface.txt"
API = re.compile(r"^```\{api\} ([\w.]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PILOT = ROOT / "examples" / "pilot_h8.csv"


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
    network = kr.Network.read(ROOT / "examples" / "ct_h16_ko.yaml")
    yield from keys("plan", json.loads(json.dumps(kr.plan(dense, 0.003).to_dict())))
    yield from keys("comparison", {**kr.compare(known, dense, 0.003).to_dict(), "first": {}})
    yield from keys("calibration", line.to_dict(0.003))
    yield from keys("network", network.to_dict())


def interface() -> list[str]:
    """All of it."""
    from korisk.store.file import FORMAT

    return [*python(), *commands(), *json_keys(), f"format of stores: {FORMAT}"]


def test_what_users_build_on_is_what_was_kept() -> None:
    kept = KEPT.read_text(encoding="utf-8").splitlines()
    changes = list(difflib.unified_diff(kept, interface(), "kept", "now", "", "", 0))
    assert not changes, "deprecate before you change:\n" + "\n".join(changes)


if __name__ == "__main__":
    print("\n".join(interface()))
