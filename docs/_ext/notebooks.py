"""Notebooks as pages: run from the root of the clone when the site is built, shown with outputs.

They lie in the repository without outputs. A cell that raises fails the build.
"""

from logging import getLogger
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from sphinx.application import Sphinx
from traitlets.config import Config

ROOT = Path(__file__).parents[2]


def executed(text: str) -> NotebookNode:
    """The notebook with its outputs; nbclient's error where a cell raises."""
    notebook = nbformat.reads(text, as_version=4)
    settings = Config({"KernelManager": {"transport": "ipc"}})  # sockets in files: no network
    place = {"metadata": {"path": str(ROOT)}}
    NotebookClient(notebook, timeout=300, resources=place, config=settings).execute()
    return notebook


def markdown(notebook: NotebookNode) -> str:
    """Cells and what they gave, as the text of a page."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            if output.output_type == "stream":
                parts.append(f"```text\n{output.text.rstrip()}\n```")
            elif "text/html" in output.get("data", {}):
                parts.append(f"```{{raw}} html\n{output.data['text/html']}\n```")
            else:
                parts.append(f"```text\n{output.data['text/plain']}\n```")
    return "\n\n".join(parts) + "\n"


def _read(app: Sphinx, docname: str, content: list[str]) -> None:
    if app.env.doc2path(docname).suffix == ".ipynb":
        content[0] = markdown(executed(content[0]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Read .ipynb files as pages."""
    getLogger("traitlets").setLevel("WARNING")  # nbclient tells when it starts
    app.add_source_suffix(".ipynb", "markdown")
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
