"""Labels of theorems, such as (thm:deep-risk): links in running text, shown behind headings.

So that a page reads the same on a git host, which knows no such links, and that what code cites
can be found on the page. A block ```` ```{labels} ```` becomes the table of what cites each.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docstrings import labels
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

SOURCE = Path(__file__).parents[2] / "src" / "korisk"
_BLOCK = "```{labels}\n```"
_CITED = re.compile(r"\(((?:eq|thm|lem|cor|ass|prop|tab|fig):[\w-]+)\)")
_LABEL = re.compile(r"(\((?:thm|lem|cor|ass|prop):[\w-]+\))")


def citing() -> dict[str, list[str]]:
    """The names below korisk that cite each label: the innermost public function or class."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if not _CITED.search(text):
            continue
        places = list(_definitions(ast.parse(text)))
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        for number, line in enumerate(text.splitlines(), start=1):
            around = [name for first, last, name in places if first <= number <= last]
            name = ".".join([module, *around[-1:]])
            for label in _CITED.findall(line):
                if name not in found[label]:
                    found[label].append(name)
    return found


def _definitions(tree: ast.AST, owner: str = "") -> Iterator[tuple[int, int, str]]:
    """First and last line of every public definition, outer ones first, with its dotted name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_":
            yield node.lineno, node.end_lineno or node.lineno, owner + node.name
            yield from _definitions(node, f"{owner}{node.name}.")


def table_of_labels() -> str:
    """Each label that the code cites, and what cites it."""
    lines = ["| label | cited by |", "| --- | --- |"]
    for label, names in sorted(citing().items()):
        number = f" {{eq}}`{label}`" if label.startswith("eq:") else ""
        lines.append(f"| ({label}){number} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join(lines)


class Labels(SphinxTransform):
    """Replaces every label that a page states, wherever it is named."""

    default_priority = 210

    def apply(self, **_: Any) -> None:
        """Look at every text of the page."""
        for text in list(self.document.findall(nodes.Text)):
            parts = _LABEL.split(text.astext())
            if len(parts) > 1 and not _is_taken(text):
                made = [self._part(part) for part in parts if part]
                text.parent.replace(text, made)

    def _part(self, part: str) -> nodes.Node:
        name = part.strip("()")
        if not _LABEL.fullmatch(part) or name not in labels():
            return nodes.Text(part)
        shown = nodes.inline("", part, classes=["std", "std-ref"])
        return addnodes.pending_xref(
            "",
            shown,
            refdomain="std",
            reftype="ref",
            reftarget=name,
            refdoc=self.env.docname,
            refexplicit=True,
            refwarn=True,
        )


def _is_taken(text: nodes.Text) -> bool:
    """Whether the text is code, a title, or a link already."""
    taken = (nodes.literal, nodes.literal_block, nodes.title, nodes.reference)
    place = text.parent
    while place is not None:
        if isinstance(place, (*taken, addnodes.pending_xref, nodes.math, nodes.math_block)):
            return True
        place = place.parent
    return False


def _show(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put its label behind a heading: here alone, lists of contents do without."""
    for section in doctree.findall(nodes.section):
        for name in section["names"]:
            if name in labels():
                section[0] += [nodes.Text(" "), nodes.inline("", name, classes=["label"])]


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    if _BLOCK in source[0]:
        source[0] = source[0].replace(_BLOCK, table_of_labels())


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the rule and the block."""
    app.add_transform(Labels)
    app.connect("source-read", _read)
    app.connect("doctree-resolved", _show)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
