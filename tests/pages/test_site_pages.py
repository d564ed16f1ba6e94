"""Pages as Sphinx builds them: links, labels, formulas, and nothing from elsewhere."""

import importlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"

sys.path.insert(0, str(DOCS / "_ext"))


def part(name: str) -> Any:
    """A module of the site, which is no package."""
    return importlib.import_module(name)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('<script src="https://a.b/c.js">', 1),
        ("<img alt='x' src='//a.b/c.png'>", 1),
        ('<link rel="stylesheet" href="http://a.b/c.css">', 1),
        ("@font-face {src: url(https://a.b/c.woff)}", 1),
        ('@import "https://a.b/c.css";', 1),
        ('<a href="https://a.b">out</a> <img src="_images/a.png"> url(#clip)', 0),
    ],
)
def test_what_is_loaded_from_elsewhere_is_seen(text: str, count: int) -> None:
    assert len(part("resources").loaded_from_elsewhere(text)) == count


def test_our_styles_and_settings_load_nothing_from_elsewhere() -> None:
    for path in (DOCS / "conf.py", *(DOCS / "_static").iterdir()):
        assert "//" not in path.read_text().replace("://", "//"), path.name


@pytest.mark.filterwarnings("ignore:'myst_parser")  # of what the next Sphinx will lack
def test_a_page_is_built_with_its_formulas_links_and_labels(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    (tmp_path / "LICENSE.md").write_text("terms")
    (tmp_path / "examples").mkdir()
    (source / "index.md").write_text(
        "# Page\n\n(thm:deep-risk)=\n## Theorem\n\n$$\na = b\n$$ (eq:one)\n\nBy {eq}`eq:one` and "
        "(thm:deep-risk), [terms](../LICENSE.md), [examples](../examples), $\\nosuch$.\n\n"
        "[more.md](more.md#far), [here](more.md)\n\n```{toctree}\nmore\n```\n"
    )
    (source / "more.md").write_text("# More: and so on\n\n## Far\n")
    page, warnings = built(source, tmp_path / "out")
    assert re.search(r'<span class="eqno">\(1\).* <span class="label">eq:one</span></span>', page)
    assert re.search(r'<h2>Theorem <span class="label">thm:deep-risk</span>', page)
    assert re.search(r'href="more.html#far"><span[^>]*>More</span>', page)
    assert re.search(r'href="more.html"><span[^>]*>here</span>', page)
    assert 'href="#equation-eq-one"' in page
    assert re.search(r'href="#\S+"><span class="std std-ref">\(thm:deep-risk\)', page)
    assert re.search(r'download="" href="_downloads/\w+/LICENSE.md"', page)
    assert '<span class="folder">examples</span>' in page
    assert [line for line in warnings if "is not known" not in line] == []
    assert len(warnings) == 1


def built(source: Path, out: Path) -> tuple[str, list[str]]:
    """A page and what Sphinx warned of."""
    application = importlib.import_module("sphinx.application")
    said = io.StringIO()
    settings = {
        "extensions": ["myst_parser", "mathml", "outside", "labels", "titles"],
        "myst_enable_extensions": ["dollarmath"],
        "myst_heading_anchors": 2,
        "html_math_renderer": "mathml",
        "html_theme": "basic",
        "nitpicky": True,
    }
    site = application.Sphinx(
        source, None, out, out, "html", settings, status=None, warning=said, freshenv=True
    )
    site.build()
    return (out / "index.html").read_text(), [line for line in said.getvalue().splitlines() if line]
