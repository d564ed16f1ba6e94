"""Tables of the documents fit the column of a wide screen, and scroll on a narrow one."""

import importlib
import re
import sys
from html import escape
from pathlib import Path

import pytest
from browser import chromium, fresh_page

ROOT = Path(__file__).parents[2]
GENERATED = {"gallery", "generated"}  # by Sphinx
INCLUDED = re.compile(
    r'```\{include\} (\S+)\n(?::start-after: "(.+)"\n)?(?::end-before: "(.+)"\n)?```'
)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
TABLE = re.compile(r"^\|.*\|\n\|[ :|-]+\|\n(?:\|.*\|\n?)+", re.MULTILINE)
FORMULA = re.compile(r"\$([^$]+)\$")
COLUMN = 816  # pixels of the text at 1440, as korisk.css sets it; the theme's own is narrower
PHONE = 358  # pixels of the text at 390

TOO_WIDE = """() => [...document.querySelectorAll("table")]
  .filter((table) => table.offsetWidth > table.parentElement.clientWidth)
  .map((table) => `${table.dataset.page}: ${table.rows[0].textContent} (${table.offsetWidth})`)"""
CUT_OFF = """() => [...document.querySelectorAll(".table-wrapper"), document.documentElement]
  .filter((box) => box.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX !== "auto")
  .map((box) => `${box.tagName} ${box.scrollWidth}`)"""


def with_results(page: Path) -> str:
    """A page with the stored results that it includes."""

    def result(match: re.Match[str]) -> str:
        text = (page.parent / match[1]).read_text(encoding="utf-8")
        text = text.split(match[2])[1] if match[2] else text
        return text.split(match[3])[0] if match[3] else text

    return FENCE.sub("", INCLUDED.sub(result, page.read_text(encoding="utf-8")))


def html_tables(page: Path) -> list[str]:
    """The tables of a page as Sphinx and the theme nest them."""
    renderer = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    mathml = importlib.import_module("mathml").mathml
    tables = []
    for match in TABLE.finditer(with_results(page)):
        formulas = FORMULA.findall(match[0])
        text = renderer.render(FORMULA.sub("FORMULA", match[0]))
        for latex in formulas:
            text = text.replace("FORMULA", mathml(latex), 1)
        head = f'<table class="docutils align-default" data-page="{escape(page.stem)}">'
        text = re.sub(r"<(t[hd])>(.*?)</t[hd]>", r"<\1><p>\2</p></\1>", text)  # as Sphinx has cells
        text = text.replace("<table>", head)
        tables.append(f'<div class="table-wrapper docutils container">{text}</div>')
    return tables


@pytest.mark.slow  # a browser lays out every table twice
def test_tables_fit_their_column_or_scroll_on_a_phone() -> None:
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    theme = Path(pytest.importorskip("furo").__file__ or "").parent / "theme/furo/static/styles"
    sheets = [theme / "furo.css", ROOT / "docs" / "_static" / "korisk.css"]
    style = "".join(f"<style>{sheet.read_text(encoding='utf-8')}</style>" for sheet in sheets)
    head = f'<!doctype html><meta name="viewport" content="width=device-width">{style}'
    pages = [page for page in (ROOT / "docs").rglob("*.md") if not GENERATED & set(page.parts)]
    # The tables of install.md that list commands wrap within their section alone.
    tables = [
        f"<section id='with-the-core-alone'>{table}</section>" if page.stem == "install" else table
        for page in pages
        for table in html_tables(page)
    ]
    assert len(tables) > 100
    with chromium() as browser, fresh_page(browser) as shown:
        for screen, column in ((1440, COLUMN), (390, PHONE)):
            shown.set_viewport_size({"width": screen, "height": 800})
            article = f'<article role="main" style="width: {column}px; margin: 0 16px">'
            shown.set_content(f"{head}{article}{''.join(tables)}</article>")
            if screen == 1440:
                assert shown.evaluate(TOO_WIDE) == []
            else:
                assert shown.evaluate(CUT_OFF) == []
