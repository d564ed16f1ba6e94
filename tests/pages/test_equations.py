"""Labels of equations and theorems: each is defined once, and the code has what the pages say."""

import ast
import importlib
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from browser import chromium, fresh_page

ROOT = Path(__file__).parents[2]
MADE = {"gallery", "generated"}  # by Sphinx
NOTATION = ROOT / "docs" / "explanation" / "notation.md"

KIND = r"(?:eq|thm|lem|cor|ass|prop|tab|fig)"
LABEL = re.compile(rf"\(({KIND}:[\w-]+)\)")
ROLE = re.compile(r"\{eq\}`([^`]+)`")
FORMULA = re.compile(r"^\$\$\n(.*?)\n\$\$(?: \(([\w:-]+)\))?$", re.DOTALL | re.MULTILINE)
TARGET = re.compile(rf"^\(({KIND}:[\w-]+)\)=$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
IN_CODE = re.compile("src/")
PACKAGES = "theory|curves|planning|operators|networks|fitting|prediction|paper|report"
NAME = re.compile(rf"`((?:{PACKAGES})(?:\.\w+)+)`")


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


def rows() -> list[tuple[str, list[str]]]:
    """The table of labels: each with the names beside it."""
    lines = [line for line in prose(NOTATION).splitlines() if re.match(rf"\| \({KIND}:", line)]
    return [(LABEL.findall(line)[0], NAME.findall(line)) for line in lines]


@cache
def parsed(module: Path) -> tuple[list[str], ast.Module]:
    """The lines of a module, and its tree."""
    text = module.read_text(encoding="utf-8")
    return text.splitlines(), ast.parse(text)


def source(name: str) -> str | None:
    """The text of what a dotted name stands for; read, not imported, as PyTorch takes seconds."""
    folder, parts = ROOT / "src" / "korisk", name.split(".")
    while parts and (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    module = folder / (f"{parts.pop(0)}.py" if parts else "__init__.py")
    if not module.exists():
        return None
    lines, whole = parsed(module)
    first, last, body = 0, len(lines), whole.body
    for part in parts:
        kinds = ast.ClassDef | ast.FunctionDef
        found = [node for node in body if isinstance(node, kinds) and node.name == part]
        if not found:
            return None
        first, last, body = found[-1].lineno - 1, found[-1].end_lineno or first, found[-1].body
    return "\n".join(lines[first:last])


def test_every_label_is_defined_once_and_in_the_table_of_the_notation_page() -> None:
    found = definitions()
    assert len(found) > 60
    assert sorted(found) == sorted(set(found)) == sorted(label for label, _ in rows())
    assert not {label: places for label, places in cited().items() if label not in found}


def test_what_the_notation_page_names_exists_and_cites_its_label() -> None:
    names = set(NAME.findall(prose(NOTATION)))
    assert len(names) > 50
    assert not {name for name in names if source(name) is None}
    silent = {
        (label, name)
        for label, names in rows()
        for name in names
        if f"({label})" not in (source(name) or "")
    }
    assert not silent


def test_every_label_that_the_code_cites_leads_back_to_code() -> None:
    nowhere = {label for label, names in rows() if not names}
    code = {label for label, places in cited().items() if any(map(IN_CODE.match, places))}
    assert len(code) > 30
    assert not code & nowhere


def test_every_formula_becomes_mathml() -> None:
    convert = pytest.importorskip("latex2mathml.converter").convert
    shown = [(page, latex) for page in pages() for latex, _ in FORMULA.findall(prose(page))]
    assert len(shown) > 40
    for page, latex in shown:
        # latex2mathml takes a command that it does not know for letters and goes on.
        left = re.findall(r"\\[A-Za-z]+", convert(latex))
        assert not left, f"{page.name}: {left} in {latex}"


def test_formulas_of_the_theory_are_numbered() -> None:
    page = ROOT / "docs" / "explanation" / "theory.md"
    assert all(label.startswith("eq:") for _, label in FORMULA.findall(prose(page)))


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
    label = max((label for label, _ in rows()), key=len)
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
