"""Docstrings as they are meant: plain text with code in backticks, made ready for Sphinx.

A docstring is written to be read in a terminal, so that `A^T K`, |x| and * are formulas and no
markup. What is in backticks is code, and a link where it is a public name; labels of the paper and
paths of pages are links; `>>>` examples, lists and titles of parts stay what they are. Sections of
parameters, returns and errors (numpydoc's) become definition lists.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

from api import names_on
from sphinx.application import Sphinx

_DOCS = Path(__file__).parents[1]
_PAGE = re.compile(r"docs/([\w/-]+)\.md")
_LABEL = re.compile(r"\((eq|thm|lem|cor|ass|prop):([\w-]+)\)")
_TOKEN = re.compile(
    r"(`[^`]+`|(?<![\w*])\*\w[^*\n]*\w\*(?!\w)|docs/[\w/-]+\.md|\((?:eq|thm|lem|cor|ass|prop):[\w-]+\))"
)
_DEFINED = re.compile(r"\$\$ \(([\w:-]+)\)|^\(([\w:-]+)\)=", re.MULTILINE)
_ITEM = re.compile(r"\s*[-*] ")
_TITLE = re.compile(r"(?m)^(?=\w[\w ]*\n-{3,}$)")
_LISTS = ("Parameters", "Other Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns")


@cache
def links() -> dict[str, str]:
    """Public names as docstrings call them: `Network`, `Network.read`, `korisk.mark_learned`."""
    pages = sorted((_DOCS / "reference" / "api").glob("*.md"))
    full = [name for page in pages for name in names_on(page.read_text(encoding="utf-8"))]
    short = {name.rpartition(".")[2]: name for name in reversed(full)}
    return short | {name: name for name in full}


@cache
def labels() -> frozenset[str]:
    """The labels of equations and theorems that the pages define."""
    pages = (_DOCS / "explanation").glob("*.md")
    found = [_DEFINED.findall(page.read_text(encoding="utf-8")) for page in pages]
    return frozenset("".join(pair) for page in found for pair in page)


def to_rst(lines: Iterable[str]) -> list[str]:
    """A docstring in the markup of Sphinx."""
    made: list[str] = []
    for section in _TITLE.split("\n".join(lines).strip("\n")):
        title, _, rest = section.partition("\n")
        if title in _LISTS:
            made += [f".. rubric:: {title}", "", *_definitions(rest.partition("\n")[2]), ""]
            continue
        for block in section.split("\n\n"):
            made += [*_block(block), ""]
    return made


def _definitions(text: str) -> list[str]:
    """Entries `name : type` with indented words below, as a definition list."""
    made: list[str] = []
    for entry in re.split(r"\n(?=\S)", text):
        line, _, words = entry.partition("\n")
        name, mark, kind = line.partition(" : ")
        term = f"``{name}``" if mark or re.fullmatch(r"[\w*, .]+", name) else _prose(name)
        made += ["", term + (f" : {_prose(kind)}" if mark else "")]
        made += [f"    {each}".rstrip() for each in _prose(dedent(words)).splitlines()]
    return made


def _block(block: str) -> list[str]:
    """Lines between two empty ones."""
    lines = block.splitlines()
    if not lines or lines[0].lstrip().startswith(">>>"):
        return lines
    if len(lines) > 1 and set(lines[1].strip()) == {"-"}:  # a title and the line under it
        return [f".. rubric:: {lines[0].strip()}", "", *_block("\n".join(lines[2:]))]
    if not any(_ITEM.match(line) for line in lines):
        return _prose(block).splitlines()
    made: list[str] = []
    for item in re.split(r"\n(?=\s*[-*] )", block):
        mark = _ITEM.match(item)
        start = mark[0] if mark else ""
        made += ["", *(start + _prose(item[len(start) :])).splitlines(), ""]
    return made


def _prose(text: str) -> str:
    parts = _TOKEN.split(text)
    made = []
    for place, part in enumerate(parts):
        if place % 2 == 0:
            made.append(_escaped(part))
            continue
        before, after = parts[place - 1][-1:], parts[place + 1][:1]
        glue = "\\ " if before.isalnum() else ""
        made.append(glue + _marked(part) + ("\\ " if after.isalnum() else ""))
    return "".join(made)


def _escaped(text: str) -> str:
    """Text in which nothing is markup."""
    return re.sub(r"([\\*|`]|_\b|(?<=\w)_(?!\w))", r"\\\1", text)


def _marked(token: str) -> str:
    """Code, a label or a page."""
    if page := _PAGE.fullmatch(token):
        there = (_DOCS / f"{page[1]}.md").exists()
        # By its file's name, for which the page's title is shown.
        name = token.rpartition("/")[2]
        return f":doc:`{name} </{page[1]}>`" if there else f"``{token}``"
    if token.startswith("*"):
        return token  # words that are stressed
    if label := _LABEL.fullmatch(token):
        name = f"{label[1]}:{label[2]}"
        if name not in labels():
            return token
        return f":eq:`{name}`" if label[1] == "eq" else f":ref:`{token} <{name}>`"
    code = " ".join(token.strip("`").split())
    owner = code.partition(".")[0] if not code.startswith("korisk.") else code
    if code in links():
        return f":py:obj:`{code} <{links()[code]}>`"
    if owner in links() and re.fullmatch(r"[A-Z]\w+\.[a-z]\w+", code):
        return f":py:obj:`{code} <{links()[owner]}.{code.partition('.')[2]}>`"
    return f"``{code}``"


def _process(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    # What Python says of a value is about its type.
    lines[:] = [] if what == "data" else to_rst(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the hook."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
