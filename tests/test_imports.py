"""The direction of imports, and that the core stays light."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FunctionType

import pytest

import korisk as kr
from benchmarks.quality.house import circles, parsed, tree_of

SOURCE = Path(__file__).parents[1] / "src" / "korisk"

# What each package may use besides itself and the files at the root.
ROOT = {
    "errors",
    "_checks",
    "_group",
    "_json",
    "_memory",
    "_show",
    "_text",
    "_version",
    "files",
    "seeds",
    "texts",
}
PLANNING = {"store", "theory", "curves", "planning"}
FITTING = PLANNING | {"operators", "networks", "fitting"}
PROBLEMS = FITTING | {"images", "problems"}
ALLOWED = {
    "theory": set[str](),
    "store": set(),
    "curves": {"store", "theory"},
    "planning": {"theory", "curves"},
    "operators": PLANNING,
    "networks": PLANNING | {"operators"},
    "fitting": PLANNING | {"operators", "networks"},
    "images": PLANNING | {"operators"},
    "problems": FITTING | {"images"},
    "studies": PROBLEMS,
    "pilots": PROBLEMS | {"studies"},
    "prediction": PROBLEMS | {"studies"},
    "ablation": PROBLEMS | {"studies", "prediction"},
    "report": PROBLEMS | {"studies", "pilots", "prediction", "ablation"},
    "paper": PROBLEMS | {"studies", "report", "cli"},  # of cli all but `app`, which alone knows it
}
THIRD_PARTY_OF_THE_CORE = {"numpy", "scipy"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def package(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree_of(path)))


def imports(path: Path, *, only_at_import: bool) -> Iterator[str]:
    functions = [node for node in nodes(path) if isinstance(node, ast.FunctionDef)]
    lazy = {inner for node in functions for inner in ast.walk(node)} if only_at_import else set()
    for node in nodes(path):
        if node in lazy:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports from korisk in full"
            if node.module == "korisk":  # `from korisk import theory` names a package
                yield from (f"korisk.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


def test_each_package_uses_only_packages_below_it() -> None:
    for path in modules():
        if package(path) in {"cli", "__init__", "__main__"}:  # the top: they may use everything
            continue
        used = {
            name.split(".")[1]
            for name in imports(path, only_at_import=False)
            if name.startswith("korisk.")
        }
        below = ALLOWED.get(package(path), set())
        assert used <= ROOT | below | {package(path)}, path


def test_the_command_line_alone_knows_the_paper() -> None:
    by_string = re.compile(r"korisk\.paper(\.\w+)*")
    for path in modules():
        if package(path) == "paper":
            continue
        named = {
            node.value
            for node in nodes(path)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        used = [*imports(path, only_at_import=False), *named]
        knows = any(by_string.fullmatch(name) for name in used)
        assert knows == (path == SOURCE / "cli" / "app.py"), path
    for path in SOURCE.glob("paper/**/*.py"):
        assert "korisk.cli.app" not in imports(path, only_at_import=False), path


def test_no_modules_import_one_another_not_even_for_types() -> None:
    assert circles(parsed(SOURCE)[1]) == []


@pytest.mark.parametrize("name", ["theory", "curves", "planning"])
def test_core_packages_need_only_numpy_and_scipy(name: str) -> None:
    # The files at the boundary read YAML; nothing imports them before a file is read.
    boundary = {"network_file.py"}
    for path in SOURCE.glob(f"{name}/*.py"):
        if path.name in boundary:
            continue
        used = {module.split(".")[0] for module in imports(path, only_at_import=True)}
        outside = used - set(sys.stdlib_module_names) - {"korisk"}
        assert outside <= THIRD_PARTY_OF_THE_CORE, path.name


def test_import_korisk_pulls_in_nothing_heavy() -> None:
    heavy = ["torch", "matplotlib", "dask", "pydantic", "yaml", "typer", "rich", "pandas"]
    heavy.append("scipy")  # which takes longer to load than NumPy and korisk
    code = f"import korisk, sys; print([m for m in {heavy!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_packages_of_operators_load_little_beside_torch() -> None:
    # Modules are counted, not seconds: each process of a study waits for them. What all of these
    # packages load together is more than what one does.
    code = "import sys, torch; before = set(sys.modules); "
    code += "import korisk.operators, korisk.networks, korisk.problems; "
    code += "print(*(set(sys.modules) - before))"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    outside = [module for module in loaded if module.split(".")[0] != "korisk"]
    assert len(outside) <= 40, sorted(outside)
    heavy = {"torch", "sympy", "scipy", "matplotlib", "dask", "pydantic", "yaml", "triton"}
    assert not heavy & {module.split(".")[0] for module in outside}, sorted(outside)


def test_studies_and_pilots_load_no_torch_before_they_run() -> None:
    heavy = ["torch", "scipy", "matplotlib", "dask", "rich", "typer", "pandas"]
    code = "import korisk.studies, korisk.pilots, sys; "
    code += f"print([m for m in {heavy!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_names_that_are_not_there_are_missing_attributes() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        kr.nonsense  # noqa: B018


def test_every_public_name_exists_and_is_documented() -> None:
    import korisk

    public = [name for name in dir(korisk) if not name.startswith("_")]
    assert len(public) <= 40
    # A name that no guide shows is one that nobody finds: it belongs into its package.
    root = SOURCE.parents[1]
    pages = [*root.glob("docs/tutorials/*"), *root.glob("docs/how-to/*.md")]
    pages += [*root.glob("examples/**/*.py"), root / "README.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    used = r"\b(?:kr|korisk)\.{0}\b|from korisk import [^\n]*\b{0}\b"
    assert not [name for name in public if not re.search(used.format(name), text)]
    for name in korisk.__all__:
        value = getattr(korisk, name)
        if isinstance(value, type | FunctionType):
            assert value.__doc__, name
