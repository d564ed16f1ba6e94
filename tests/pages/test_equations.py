"""Labels of equations and theorems: each is defined once, and the code has what the pages say."""

import importlib
import pkgutil
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from browser import chromium, fresh_page

ROOT = Path(__file__).parents[2]
MADE = {"gallery", "generated"}  # by Sphinx
THEORY = ROOT / "docs" / "explanation" / "theory.md"

KIND = r"(?:eq|thm|lem|cor|ass|prop|tab|fig)"
LABEL = re.compile(rf"\(({KIND}:[\w-]+)\)")
ROLE = re.compile(r"\{eq\}`([^`]+)`")
FORMULA = re.compile(r"^\$\$\n(.*?)\n\$\$(?: \(([\w:-]+)\))?$", re.DOTALL | re.MULTILINE)
TARGET = re.compile(rf"^\(({KIND}:[\w-]+)\)=$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
IN_CODE = re.compile("src/")
NAME = re.compile(r"`((?:theory|planning|operators|networks)(?:\.\w+)+)`")


def pages() -> list[Path]:
    """What somebody wrote: the README and the pages below docs/."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *(page for page in found if not MADE & set(page.parts))]


@cache
def prose(page: Path) -> str:
    """A page without its code blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


@cache
def definitions() -> list[str]:
    """Every label that a page defines, as often as it does."""
    found = []
    for page in pages():
        found += [label for _, label in FORMULA.findall(prose(page)) if label]
        found += TARGET.findall(prose(page))
    return found


@cache
def cited() -> dict[str, set[str]]:
    """Every label that is cited, and where it is."""
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.js")]
    texts = {path: path.read_text(encoding="utf-8") for path in sources}
    texts |= {page: prose(page) for page in pages()}
    found = defaultdict(set)
    for path, text in texts.items():
        for label in (*LABEL.findall(text), *ROLE.findall(text)):
            found[label].add(path.relative_to(ROOT).as_posix())
    return found


def test_every_label_is_defined_once_and_every_cited_one_is_defined() -> None:
    found = definitions()
    assert len(found) > 60
    assert sorted(found) == sorted(set(found))
    assert not {label: places for label, places in cited().items() if label not in found}


def test_the_table_of_labels_names_what_cites_each() -> None:
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    labels = importlib.import_module("labels")
    code = {label for label, places in cited().items() if any(map(IN_CODE.match, places))}
    assert len(code) > 30
    found = labels.citing()
    assert set(found) == code
    assert "theory.amplification.paper_amplification" in found["eq:Al"]
    assert "```{labels}\n```" in THEORY.read_text(encoding="utf-8")


def test_names_in_the_table_of_symbols_exist() -> None:
    names = set(NAME.findall(prose(THEORY)))
    assert len(names) > 15
    for name in names:
        assert pkgutil.resolve_name(f"korisk.{name}"), name


def test_every_formula_becomes_mathml() -> None:
    convert = pytest.importorskip("latex2mathml.converter").convert
    shown = [(page, latex) for page in pages() for latex, _ in FORMULA.findall(prose(page))]
    assert len(shown) > 40
    for page, latex in shown:
        # latex2mathml takes a command that it does not know for letters and goes on.
        left = re.findall(r"\\[A-Za-z]+", convert(latex))
        assert not left, f"{page.name}: {left} in {latex}"


def test_formulas_of_the_theory_are_numbered() -> None:
    assert all(label.startswith("eq:") for _, label in FORMULA.findall(prose(THEORY)))


WIDE = """() => [...document.querySelectorAll("*")]
  .filter((box) => box.scrollWidth > box.clientWidth
    && (box.matches("html, .formula") || getComputedStyle(box).overflowX !== "visible"))
  .map((box) => box.dataset.latex ?? box.className ?? box.tagName)"""


def test_no_formula_needs_a_scrollbar_on_any_screen() -> None:
    """The formulas of all pages in the theme's boxes, beside the longest label, in its columns."""
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    displayed = importlib.import_module("mathml").displayed
    theme = Path(importlib.import_module("furo").__file__ or "").parent
    sheets = [
        *(theme / "theme" / "furo" / "static" / "styles").glob("furo.css"),
        ROOT / "docs" / "_static" / "korisk.css",
    ]
    style = "".join(f"<style>{sheet.read_text()}</style>" for sheet in sheets)
    shown = [latex for page in pages() for latex, _ in FORMULA.findall(prose(page))]
    label = max(definitions(), key=len)
    number = f'(99)<a class="headerlink">¶</a> <span class="label">{label}</span>'
    blocks = [
        f'<div class="math-wrapper"><div class="math equation">{displayed(latex)}'
        f'<span class="eqno">{number}</span></div></div>'
        for latex in shown
    ]
    head = f'<!doctype html><meta name="viewport" content="width=device-width">{style}'
    with chromium(scrollbars=True) as browser, fresh_page(browser) as page:
        for screen, column in ((1440, 736), (800, 736), (390, 343)):  # beside the page's scrollbar
            page.set_viewport_size({"width": screen, "height": 800})
            body = f'<article style="width: {column}px; margin: 0 16px">{"".join(blocks)}'
            page.set_content(head + body)
            assert page.locator(".formula").count() == len(shown) > 40
            assert page.evaluate(WIDE) == [], screen
