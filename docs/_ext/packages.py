"""The packages as a page: what each says about itself in its docstring, and its files.

A page says where, with a block ```` ```{packages} ````; what stands there is made from the source
when the page is read, so that it cannot differ from it.
"""

import ast
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

SOURCE = Path(__file__).parents[2] / "src" / "korisk"
_BLOCK = re.compile(r"^```\{packages\}\n```$", re.MULTILINE)


def packages_text() -> str:
    """Every package with its docstring, and the first line of each of its modules."""
    parts = [_modules(SOURCE)]
    for init in sorted(SOURCE.rglob("*/__init__.py")):
        folder = init.parent
        name = folder.relative_to(SOURCE).as_posix()
        level = "##" + "#" * name.count("/")
        parts += [f"{level} {name}/", _docstring(init), _modules(folder)]
    return "\n\n".join(part for part in parts if part)


def _modules(folder: Path) -> str:
    """A list of the modules of one folder."""
    files = sorted(file for file in folder.glob("*.py") if file.name[:2] != "__")
    lines = [f"- `{file.name}`: {_docstring(file).splitlines()[0].rstrip('.')}" for file in files]
    return "\n".join(lines)


def _docstring(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or file.stem
    for mark in ("*", "<", "|", "$", "^"):
        text = "".join(
            part if at % 2 else part.replace(mark, "\\" + mark)
            for at, part in enumerate(re.split(r"(`[^`]*`)", text))
        )
    return text


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    if _BLOCK.search(source[0]):
        source[0] = _BLOCK.sub(lambda _: packages_text(), source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the block."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
