"""A page of `korisk report` within a page: ```` ```{live-page} ```` runs a small study once.

The study is docs/pictures/live_page.yaml. Its page is made again when the study, the version of the
package or what pages are made of changes.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from sphinx.util.osutil import relative_uri

from korisk._version import __version__

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "docs" / "pictures" / "live_page.yaml"
PLACE = "_static/live_page.html"


class LivePage(SphinxDirective):
    """The page in a frame, with a link that opens it alone."""

    def run(self) -> list[nodes.Node]:
        """Make the page, or take what was made before."""
        self.env.note_dependency(STUDY)
        builder = self.env.app.builder
        to = Path(builder.outdir) / PLACE
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made(Path(self.env.doctreedir) / "live_page"), to)
        address = relative_uri(builder.get_target_uri(self.env.docname), PLACE)
        frame = (
            f'<iframe class="live" src="{address}" title="A report page" loading="lazy"></iframe>'
            f'<p class="live"><a href="{address}">Open it alone</a></p>'
        )
        return [nodes.raw("", frame, format="html")]


def made(folder: Path) -> Path:
    """The page in a folder, in which the study and its page are kept."""
    digest = hashlib.sha256(STUDY.read_bytes() + __version__.encode())
    study = folder / digest.hexdigest()[:16]
    for path in sorted((ROOT / "src" / "korisk" / "report").rglob("*.*")):
        if path.suffix in (".py", ".js", ".css", ".html"):
            digest.update(path.read_bytes())
    page = study / digest.hexdigest()[:16]
    if not (page / "report.html").exists():
        for old in folder.glob("*/*/report.html"):
            old.unlink()
        run = ["run", str(STUDY), "--workers", "0", "--device", "cpu", "--out", str(study)]
        for command in (run, ["report", str(study), "--only", "page", "--out", str(page)]):
            program = [sys.executable, "-m", "korisk", *command]
            ended = subprocess.run(
                program, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
            if ended.returncode:
                raise ExtensionError(f"korisk {command[0]} {STUDY.name}: {ended.stderr}")
    return page / "report.html"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the block."""
    app.add_directive("live-page", LivePage)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
