"""Pictures that the build draws: ```` ```{picture} NAME ```` runs docs/pictures/NAME.py.

A script leaves a matplotlib figure in `figure`, and may leave one for narrow screens in `narrow`.
Its docstring says what is to be seen, for those who do not see it. It runs in the root of the
repository. What it drew is kept until the script, a file that it names or the version of the
package changes. The lines of the block are the caption.
"""

import ast
import hashlib
import runpy
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from korisk._version import __version__
from korisk.report.figures.style import THEME_CSS, settings, themed_svg

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "docs" / "pictures"
_STYLE = "figures.css"


class Picture(SphinxDirective):
    """The picture with its caption, and the script to unfold below."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Draw it, or take what was drawn before."""
        script = SCRIPTS / f"{self.arguments[0]}.py"
        if not script.is_file():
            raise self.error(f"there is no docs/pictures/{script.name}")
        self.env.note_dependency(script)
        kept = Path(self.env.doctreedir) / "pictures" / f"{script.stem}-{key(script)}.html"
        if not kept.exists():
            kept.parent.mkdir(exist_ok=True)
            for old in kept.parent.glob(f"{script.stem}-????????????????.html"):
                old.unlink()
            kept.write_text(drawn(script), encoding="utf-8")
        figure = nodes.figure("", nodes.raw("", kept.read_text("utf-8"), format="html"))
        figure["classes"] = ["picture"]
        if self.content:
            words, messages = self.parse_inline(" ".join(self.content), lineno=self.lineno)
            figure += [nodes.caption("", "", *words), *messages]
        code = nodes.literal_block("", script.read_text("utf-8"), language="python")
        opened = '<details class="script"><summary>How it is drawn</summary>'
        figure += nodes.legend("", _html(opened), code, _html("</details>"))
        return [figure]


def _html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def key(script: Path) -> str:
    """Another one whenever something changes that the picture is made of."""
    source = script.read_bytes()
    texts = [each.value for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Constant)]
    named = sorted({text for text in texts if isinstance(text, str) and 0 < len(text) < 200})
    files = [path for text in named if (path := ROOT / text).is_file()]
    parts = [source, __version__.encode(), *(path.read_bytes() for path in files)]
    shared = [path.read_bytes() for path in script.parent.glob("_*.py")]
    return hashlib.sha256(b"\0".join([*parts, *shared])).hexdigest()[:16]


def drawn(script: Path) -> str:
    """What a script draws, as one or two SVG elements."""
    try:
        with settings(), chdir(ROOT):
            made = runpy.run_path(str(script))
            words = " ".join((made["__doc__"] or "").split())
            if not words:
                raise ValueError("it has no docstring that says what is to be seen")
            wide = themed_svg(made["figure"], words=words)
            if "narrow" not in made:
                return wide
            narrow = themed_svg(made["narrow"], words=words)
    except Exception as error:
        raise ExtensionError(f"docs/pictures/{script.name}: {error!r}", error) from error
    return f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'


def _write_style(app: Sphinx) -> None:
    if app.builder.format == "html":
        path = Path(app.outdir) / "_static" / _STYLE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(THEME_CSS, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the block."""
    sys.path.insert(0, str(SCRIPTS))
    app.add_directive("picture", Picture)
    app.connect("builder-inited", _write_style)
    app.add_css_file(_STYLE)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
