"""Links to files that are no pages: a file is handed over as a download, a folder is its name.

So that `[examples](../../examples)` leads somewhere on a git host, and says what it is here.
"""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class Outside(SphinxTransform):
    """Replaces what MyST takes for references to pages that the site does not have."""

    default_priority = 5

    def apply(self, **_: Any) -> None:
        """Look at every reference of the page."""
        for reference in list(self.document.findall(addnodes.pending_xref)):
            path = self._path(reference)
            if path is None:
                continue
            words = [child.deepcopy() for child in reference.children]
            if path.is_dir():
                reference.replace_self(nodes.inline("", reference.astext(), classes=["folder"]))
            elif path.is_file():
                made = addnodes.download_reference(
                    "", "", *words, refdoc=self.env.docname, reftarget=f"/{self._from_root(path)}"
                )
                reference.replace_self(made)

    def _path(self, reference: addnodes.pending_xref) -> Path | None:
        """What a reference names outside of the pages; None where it names none."""
        if reference.get("reftype") != "myst":
            return None
        target = str(reference["reftarget"]).partition("#")[0]
        root = Path(self.env.srcdir)
        if reference.get("refdomain") == "doc":  # a document, from the root and without its ending
            path = (root / f"{target}.md").resolve()
        else:
            path = (root / self.env.docname).parent.joinpath(target).resolve()
        return None if not target or path.is_relative_to(root.resolve()) else path

    def _from_root(self, path: Path) -> str:
        return Path("..", path.relative_to(Path(self.env.srcdir).resolve().parent)).as_posix()


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the rule."""
    app.add_transform(Outside)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
