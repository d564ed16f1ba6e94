"""Names of the package on a page: blocks ```` ```{api} MODULE ```` with one name a line.

Each block becomes what autodoc takes, by what the name is: a class with its members, a function,
or a value, which has no docstring and is told in the block: `NAME: what it is`. A page ends with
the scripts of the gallery that use one of its names.
"""

import ast
import importlib
import inspect
import os
import re
from itertools import accumulate
from pathlib import Path
from typing import Any

from docutils import nodes
from numpy.typing import ArrayLike
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import stringify_annotation

from korisk._show import Reported

_LOG = logging.getLogger(__name__)
_BLOCK = re.compile(r"^```\{api\} ([\w.]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ARRAY = re.compile(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)\]\]")
# What Python keeps of the name ArrayLike, which NumPy spells out in private names.
_ARRAY_LIKE = stringify_annotation(ArrayLike, "smart")
_CONSTANT = re.compile(r"(?<== )_[A-Z_]+\b")
_PRIVATE = re.compile(r"\b_[A-Z]\w*[a-z]\w*")


def names_on(text: str) -> list[str]:
    """The full names that the blocks of a page ask for."""
    return [
        f"{module}.{line.partition(':')[0]}"
        for module, lines in _BLOCK.findall(text)
        for line in lines.splitlines()
    ]


def expanded(text: str) -> str:
    """The page with its blocks as autodoc takes them."""
    return _BLOCK.sub(_expanded, text)


def _expanded(block: re.Match[str]) -> str:
    lines = [line.partition(":") for line in block[2].splitlines()]
    made = "\n\n".join(_directive(block[1], name, words.strip()) for name, _, words in lines)
    return f"```{{eval-rst}}\n{made}\n```"


def _directive(module: str, name: str, words: str) -> str:
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value):
        options = ["members", "undoc-members"]
        if any(_is_ours(base) for base in value.__bases__):
            options.append("show-inheritance")
        if issubclass(value, Reported):
            options.append("inherited-members")
        return "\n".join([f".. autoclass:: {module}.{name}", *(f"   :{each}:" for each in options)])
    if inspect.isroutine(value):
        return f".. autofunction:: {module}.{name}"
    # The value of a table says less than the words about it.
    hide = "\n   :no-value:" if len(repr(value)) > 200 else ""
    return f".. autodata:: {module}.{name}{hide}\n\n   {words}"


def _is_ours(base: type) -> bool:
    ours = base.__module__.startswith("korisk.") and not base.__module__.startswith("korisk._")
    return ours and not base.__name__.startswith("_")


def names_in(script: str) -> set[str]:
    """The full names of korisk that a script uses, as its imports give them."""
    packages, found = {}, set()
    for node in ast.walk(ast.parse(script)):
        if isinstance(node, ast.Import):
            packages |= {each.asname or each.name: each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{each.name}" for each in node.names}
    for node in ast.walk(ast.parse(script)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add(f"{packages.get(node.value.id, '')}.{node.attr}")
    return {name for name in found if name.startswith("korisk.")}


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    names = set(names_on(source[0]))
    source[0] = expanded(source[0])
    folder = Path(app.config.sphinx_gallery_conf["examples_dirs"])
    scripts = sorted(folder.glob("[0-9]*.py")) if names else []
    shown = [path for path in scripts if names & names_in(path.read_text(encoding="utf-8"))]
    if shown:
        paths = " ".join(os.path.relpath(path, app.srcdir) for path in shown)
        block = f"```{{eval-rst}}\n.. minigallery:: {paths}\n```\n"
        source[0] += f"\n## In the gallery\n\n{block}"


def _signature(
    app: Sphinx,
    what: str,
    name: str,
    value: object,
    options: object,
    given: str | None,
    back: str | None,
) -> tuple[str | None, str | None]:
    """Types and defaults as a reader knows them; private types are warned of."""
    shown, made = _with_values(plain_types(given), value), plain_types(back)
    if private := _PRIVATE.search(f"{shown} {made}"):
        _LOG.warning("%s: its signature has the private type %s", name, private[0], type="api")
    return shown, made


def plain_types(text: str | None) -> str | None:
    """A signature's text with ArrayLike by its name, and "..." for what a dataclass will make."""
    if not text:
        return text
    return text.replace(_ARRAY_LIKE, "~numpy.typing.ArrayLike").replace("<factory>", "...")


def _with_values(given: str | None, value: object) -> str | None:
    """Private constants among the defaults by what they are."""
    known = vars(inspect.getmodule(value) or inspect)
    return given and _CONSTANT.sub(lambda name: repr(known.get(name[0], name[0])), given)


def _arrays(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """NumPy's arrays in signatures as they are written in the code: NDArray[float64]."""
    for signature in doctree.findall(addnodes.desc_signature):
        for part in list(signature.findall(nodes.Element)):
            _shorten(part)


def _shorten(part: nodes.Element) -> None:
    texts = [child.astext() for child in part.children]
    while found := _ARRAY.search("".join(texts)):
        ends = list(accumulate(map(len, texts), initial=0))
        if found.start() not in ends or found.end() not in ends:
            return  # inside of one child, whose turn comes
        first, last = ends.index(found.start()), ends.index(found.end())
        part.children[first:last] = [nodes.Text(f"NDArray[{found[1]}]")]
        texts[first:last] = [f"NDArray[{found[1]}]"]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the block."""
    app.connect("source-read", _read)
    app.connect("autodoc-process-signature", _signature)
    app.connect("doctree-resolved", _arrays)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
