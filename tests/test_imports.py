"""The direction of imports, and that the core stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "korisk"

# What each room may use besides itself; see docs/explanation/layout.md.
LEAVES = {"errors", "files", "figure_file", "_version"}
CORE = LEAVES | {"theory", "curves"}
ALLOWED = {
    "errors": set[str](),
    "_version": set[str](),
    "files": {"errors"},
    "figure_file": {"errors", "files"},
    "theory": LEAVES,
    "curves": LEAVES | {"theory"},
    "published": CORE,
    "operators": CORE,
    "networks": CORE | {"operators"},
    "fitting": CORE | {"operators", "networks"},
    "problems": CORE | {"operators", "networks", "fitting"},
    "studies": CORE | {"published", "operators", "networks", "fitting", "problems"},
    "costs": CORE | {"published", "operators", "networks", "fitting", "problems", "studies"},
    "report": CORE
    | {"published", "operators", "networks", "fitting", "problems", "studies", "costs"},
}
THIRD_PARTY_OF_THE_CORE = {"numpy", "scipy"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path, *, only_at_import: bool) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    lazy = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if only_at_import and node in lazy:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports from korisk in full"
            if node.module == "korisk":  # `from korisk import theory` names a room
                yield from (f"korisk.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_each_room_uses_only_rooms_below_it(path: Path) -> None:
    if room(path) in {"cli", "__init__", "__main__"}:  # the top: they may use everything
        return
    used = {
        name.split(".")[1]
        for name in imports(path, only_at_import=False)
        if name.startswith("korisk.")
    }
    assert used <= ALLOWED[room(path)] | {room(path)}


@pytest.mark.parametrize("name", ["theory", "curves"])
def test_core_rooms_need_only_numpy_and_scipy(name: str) -> None:
    # The files at the boundary read YAML; nothing imports them before a file is read.
    boundary = {"network_file.py"}
    for path in SOURCE.glob(f"{name}/*.py"):
        if path.name in boundary:
            continue
        used = {module.split(".")[0] for module in imports(path, only_at_import=True)}
        outside = used - set(sys.stdlib_module_names) - {"korisk"}
        assert outside <= THIRD_PARTY_OF_THE_CORE, path.name


def test_import_korisk_pulls_in_nothing_heavy() -> None:
    heavy = ["torch", "matplotlib", "plotly", "dask", "pydantic", "yaml", "typer", "rich", "pandas"]
    heavy.append("scipy")  # which takes longer to load than NumPy and korisk
    code = f"import korisk, sys; print([m for m in {heavy!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_name_exists_and_is_documented() -> None:
    import korisk

    for name in korisk.__all__:
        value = getattr(korisk, name)
        if isinstance(value, type | FunctionType):
            assert value.__doc__, name
