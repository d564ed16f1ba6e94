"""Fields of classes: the comment behind each is what there is to say about it."""

import ast
import importlib
import inspect
import textwrap
from functools import cache
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


@cache
def field_comments(owner: type) -> dict[str, str]:
    """What is said behind each field of a class, where it is declared."""
    try:
        source = textwrap.dedent(inspect.getsource(owner))
    except (OSError, TypeError):
        return {}
    lines = source.splitlines()
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for each in body.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            _, mark, words = lines[(each.end_lineno or 1) - 1].partition("  # ")
            if mark and not words.startswith(("type:", "noqa")):
                found[each.target.id] = words
    return found


def words_of(module: str, owner: str, field: str) -> str:
    """The comment of a field, its class's own or one that it inherits; nothing without one."""
    value = getattr(importlib.import_module(module), owner, None)
    for base in getattr(value, "__mro__", ()):
        if field in field_comments(base):
            words = field_comments(base)[field]
            return words[:1].upper() + words[1:]
    return ""


def _describe(app: Sphinx, domain: str, kind: str, content: nodes.Element) -> None:
    """Give an attribute its words where it has no docstring."""
    if (domain, kind) != ("py", "attribute") or content.children:
        return
    signature = content.parent[0]
    owner, _, field = signature["fullname"].rpartition(".")
    words = words_of(signature["module"], owner, field) if owner else ""
    if words:
        parts = words.split("`")
        made = [
            nodes.literal("", part) if at % 2 else nodes.Text(part) for at, part in enumerate(parts)
        ]
        content += nodes.paragraph("", "", *made)


def _process(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Python names the fields of a tuple by their numbers."""
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the rule."""
    app.connect("object-description-transform", _describe)
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
