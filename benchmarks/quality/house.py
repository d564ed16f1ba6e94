"""The size and shape of the source: lines of code, files, folders, imports, helpers, documentation.

    python -m benchmarks.quality.house                      # this checkout
    python -m benchmarks.quality.house --beside lineax pylops deepinv
        # and installed packages beside it
    python -m benchmarks.quality.house --json build/house.json

Code is counted without docstrings, comments and blank lines; folders named tests are left out. A
private helper is a function or method whose name begins with one underscore; it is called once if
its module uses its name once. A constant after a definition is any name that a module assigns below
its first function or class. A circle is a set of modules that import one another, in functions and
for types too. Vague names are the words of `VAGUE` among all assigned names (fields and loop
variables too, parameters not); comment lines begin with #, as a share of all lines that are not
blank.
"""

import argparse
import ast
import io
import json
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}
# Words that say nothing of what a name holds: determiners, and participles without their noun.
VAGUE = {"each", "found", "made", "said", "own", "kept", "one", "other", "another", "at", "part"}
VAGUE |= {"mine", "whole", "given", "wanted", "following", "told", "asked", "seen", "taken", "put"}
VAGUE |= {"left", "came", "held", "named", "shown", "stated", "meant"}
SHARES = {"called once": "private helpers", "vague local names": "assigned names"}  # of what
Definition = ast.FunctionDef | ast.AsyncFunctionDef
CLASS_OR_FUNCTION = Definition | ast.ClassDef


def docstring_lines(tree: ast.AST) -> set[int]:
    """The lines of all docstrings of a module."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Definition) and node.body:
            first = node.body[0]
            text = first.value if isinstance(first, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    """A module's syntax tree, which several tests share."""
    return ast.parse(path.read_text(encoding="utf-8"))


def code_lines(path: Path) -> int:
    """Lines with code on them, docstrings left out."""
    text = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(tree_of(path)))


def modules(package: Path) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    named = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if "tests" in parts:  # which some libraries install
            continue
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imported(name: str, path: Path, tree: ast.AST, known: dict[str, Path]) -> Iterator[str]:
    """The modules of the package that a module imports, in functions and for types too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                base = ".".join([*here[: len(here) - node.level + 1], *filter(None, [node.module])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                if whole in known or base in known:
                    yield whole if whole in known else base


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Sets of modules that import one another (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in imports.get(name, ()):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for name in list(imports):
        if name not in order:
            visit(name)
    return found


def parsed(package: Path) -> tuple[dict[str, ast.Module], dict[str, set[str]]]:
    """The modules of a package, and which of them each imports."""
    known = modules(package)
    trees = {name: tree_of(path) for name, path in known.items()}
    return trees, {
        name: set(imported(name, path, trees[name], known)) - {name} for name, path in known.items()
    }


def splats(tree: ast.AST) -> int:
    """Literals that are unpacked where their entries could stand: `**{"key": value}`, `*(a, b)`."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            count += sum(k.arg is None and isinstance(k.value, ast.Dict) for k in node.keywords)
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            count += sum(key is None and isinstance(value, ast.Dict) for key, value in pairs)
        elif isinstance(node, ast.Starred):
            count += isinstance(node.value, ast.Tuple | ast.List | ast.Set)
    return count


def assigned_names(tree: ast.AST) -> list[ast.Name]:
    """Every assignment to a name: variables, loop variables, fields of classes."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return [node for node in nodes if isinstance(node.ctx, ast.Store)]


def vague_names(tree: ast.AST) -> list[tuple[int, str]]:
    """Assigned names that do not say what they hold, as (line, name)."""
    return sorted((node.lineno, node.id) for node in assigned_names(tree) if node.id in VAGUE)


def functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, Definition]]:
    """Every function and method with its dotted name inside the module."""
    for node in ast.iter_child_nodes(tree):
        name = f"{inside}{node.name}" if isinstance(node, CLASS_OR_FUNCTION) else ""
        if isinstance(node, Definition):
            yield name, node
        yield from functions(node, f"{name}." if name else inside)


def long_functions(tree: ast.AST, lines: int = 80) -> list[str]:
    """Functions of more lines than that, docstrings left out."""
    texts = docstring_lines(tree)
    return [
        name
        for name, node in functions(tree)
        if len(set(range(node.lineno, (node.end_lineno or 0) + 1)) - texts) > lines
    ]


def with_many_parameters(tree: ast.AST, most: int = 8) -> list[str]:
    """Functions of more parameters than that, `self` and `cls` left out."""
    wide = []
    for name, node in functions(tree):
        arguments = node.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        parameters += filter(None, (arguments.vararg, arguments.kwarg))
        bound = sum(parameter.arg in ("self", "cls") for parameter in parameters[:1])
        if len(parameters) - bound > most:
            wide.append(name)
    return wide


def late_constants(tree: ast.Module) -> int:
    """Names of a module that are assigned after its first function or class."""
    first = next((k for k, n in enumerate(tree.body) if isinstance(n, CLASS_OR_FUNCTION)), None)
    late = tree.body[first:] if first is not None else []
    return sum(isinstance(node, ast.Assign | ast.AnnAssign) for node in late)


def by_package(package: Path) -> dict[str, int]:
    """Lines of code of each folder directly inside the package."""
    counts: Counter[str] = Counter()
    for path in modules(package).values():
        inside = path.relative_to(package).parts
        counts[inside[0] if len(inside) > 1 else "."] += code_lines(path)
    return dict(counts.most_common())


def measure(package: Path) -> dict[str, object]:
    """All figures of one package."""
    known = modules(package)
    texts = {name: path.read_text(encoding="utf-8") for name, path in known.items()}
    trees, imports = parsed(package)
    helpers = once = 0
    for tree in trees.values():
        defined, uses = Counter[str](), Counter[str]()
        for node in ast.walk(tree):
            if isinstance(node, Definition) and node.name[0] == "_" and node.name[:2] != "__":
                defined[node.name] += 1
            elif isinstance(node, ast.Attribute):
                uses[node.attr] += 1
            elif isinstance(node, ast.Name):
                uses[node.id] += 1
        helpers += sum(defined.values())
        once += sum(number for name, number in defined.items() if uses[name] == 1)
    folders = Counter(str(path.parent.relative_to(package)) for path in known.values())
    lines = sum(text.count("\n") for text in texts.values())
    written = [line.strip() for text in texts.values() for line in text.splitlines()]
    comments = sum(line.startswith("#") for line in written)
    return {
        "code": sum(map(code_lines, known.values())),
        "files": len(known),
        "lines a file": round(lines / len(known)),
        "files in the largest folder": max(folders.values()),
        "private helpers": helpers,
        "called once": once,
        "comment lines": round(comments / sum(map(bool, written)), 3),
        "assigned names": sum(len(assigned_names(tree)) for tree in trees.values()),
        "vague local names": sum(len(vague_names(tree)) for tree in trees.values()),
        "constants after a definition": sum(map(late_constants, trees.values())),
        "literal splats": sum(map(splats, trees.values())),
        "functions over 80 lines": sum(len(long_functions(tree)) for tree in trees.values()),
        "over eight parameters": sum(len(with_many_parameters(tree)) for tree in trees.values()),
        "circles": circles(imports),
        "by package": by_package(package),
    }


def main() -> None:
    """Print the figures of this checkout, and of installed packages beside it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=ROOT / "src" / "korisk")
    parser.add_argument("--beside", nargs="*", default=[], help="installed packages")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    options = parser.parse_args()
    packages = {options.source.name: options.source}
    for name in options.beside:
        spec = find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            sys.exit(f"{name} is not installed; pip install {name}")
        packages[name] = Path(spec.submodule_search_locations[0])
    figures = {name: measure(path) for name, path in packages.items()}
    for key in next(iter(figures.values())):
        row = [figure[key] for figure in figures.values()]
        if key in SHARES:
            counts = [(int(str(f[key])), int(str(f[SHARES[key]]))) for f in figures.values()]
            row = [f"{count} ({100 * count / max(1, total):.1f}%)" for count, total in counts]
        if key == "circles":
            row = [len(f[key]) for f in figures.values()]  # type: ignore[arg-type]
        if key == "by package":
            for name, figure in figures.items():
                parts = figure[key].items()  # type: ignore[attr-defined]
                print(f"{name}: " + ", ".join(f"{part} {lines:,}" for part, lines in parts))
            continue
        print(f"{key:28}" + "".join(f"{value!s:>22}" for value in row))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
