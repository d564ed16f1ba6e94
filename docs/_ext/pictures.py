"""Pictures that the build draws: ```` ```{picture} NAME ```` runs docs/pictures/NAME.py.

A script leaves a matplotlib figure in `figure`, and may leave one for narrow screens in `narrow`.
Its docstring says what is to be seen, for those who do not see it. It runs in the root of the
repository. What it drew is kept until the script, a file that it names or the version of the
package changes. The lines of the block are the caption.

Maps of folders: ```` ```{map} ```` lists pages, one a line, and shows each as a card: its title,
its opening sentence, and its first picture or the one that the line names behind a colon.
"""

import ast
import hashlib
import posixpath
import re
import runpy
import sys
from contextlib import chdir
from html import escape
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from sphinx.util.osutil import relative_uri

from korisk._version import __version__
from korisk.report.figures.style import THEME_CSS, settings, themed_svg

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "docs" / "pictures"
_STYLE = "figures.css"
RESULT = re.compile("<!--.*?-->")


class Picture(SphinxDirective):
    """The picture with its caption, and the script to unfold below."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Draw it, or take what was drawn before."""
        script = SCRIPTS / f"{self.arguments[0]}.py"
        if not script.is_file():
            raise self.error(f"there is no docs/pictures/{script.name}")
        figure = nodes.figure("", _html(svg(self.env, script)))
        figure["classes"] = ["picture"]
        if self.content:
            words, messages = self.parse_inline(" ".join(self.content), lineno=self.lineno)
            figure += [nodes.caption("", "", *words), *messages]
        code = nodes.literal_block("", script.read_text("utf-8"), language="python")
        opened = '<details class="script"><summary>How it is drawn</summary>'
        figure += nodes.legend("", _html(opened), code, _html("</details>"))
        return [figure]


class Map(SphinxDirective):
    """The pages of a folder as cards."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Make a card for each page that a line names."""
        cards = "".join(self._card(*line.partition(":")[::2]) for line in self.content)
        return [_html(f'<div class="map">{cards}</div>')]

    def _card(self, name: str, picture: str) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(self.env.docname), name))
        path = Path(self.env.doc2path(target))
        self.env.note_dependency(path)
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            text = "".join(nbformat.reads(text, as_version=4).cells[0].source)
        title, _, rest = RESULT.sub("", text).partition("# ")[2].partition("\n")
        opening = re.sub(r"\]\([^)]*\)|[\[*`]", "", rest.strip().partition("\n\n")[0])
        sentence = re.split(r"(?<=[.?:])\s", " ".join(opening.split()))[0].rstrip(":")
        first = re.search(r"^```\{picture\} (\w+)$", text, re.MULTILINE)
        shown = picture.strip() or (first[1] if first else "")
        image = svg(self.env, SCRIPTS / f"{shown}.py") if shown else ""
        builder = self.env.app.builder
        here, there = map(builder.get_target_uri, (self.env.docname, target))
        link = f'<a href="{relative_uri(here, there)}">{escape(title)}</a>'
        return f"<section>{image}<h2>{link}</h2><p>{escape(sentence)}</p></section>"


def svg(env: BuildEnvironment, script: Path) -> str:
    """What a script draws, from the build before where nothing changed."""
    env.note_dependency(script)
    kept = Path(env.doctreedir) / "pictures" / f"{script.stem}-{key(script)}.html"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        for old in kept.parent.glob(f"{script.stem}-????????????????.html"):
            old.unlink()
        kept.write_text(drawn(script), encoding="utf-8")
    return kept.read_text("utf-8")


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
    app.add_directive("map", Map)
    app.connect("builder-inited", _write_style)
    app.add_css_file(_STYLE)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
