"""Labels of theorems, such as (thm:deep-risk): links in running text, shown behind headings.

So that a page reads the same on a git host, which knows no such links, and that what code cites
can be found on the page.
"""

import re
from typing import Any

from docstrings import labels
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_LABEL = re.compile(r"(\((?:thm|lem|cor|ass|prop):[\w-]+\))")


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


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the rule."""
    app.add_transform(Labels)
    app.connect("doctree-resolved", _show)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
