"""Texts from files, made safe to show: on a terminal, in one line, in Markdown, LaTeX and scripts.

HTML has `html.escape`, and cells of CSV have `korisk.files.to_cell`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from unicodedata import bidirectional, category

_BREAKS = "\n\r\t\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")  # of writing direction
# Entities for what ends a cell or begins a tag: no reader of tables disagrees about those.
_MARKDOWN = str.maketrans(
    {character: f"&#{ord(character)};" for character in "|\\"}
    | {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
    | {character: f"\\{character}" for character in "`*_[]$~#!"}
)
_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "{}$&#_%"}
    # In braces: after the end of a row, a bracket or a star would be taken for an argument of it.
    | {character: f"{{{character}}}" for character in "[]*"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "`": r"\textasciigrave{}",
        '"': r"\char34{}",
        "\N{EN DASH}": r"\textendash{}",
        "\N{REPLACEMENT CHARACTER}": "?",  # which most fonts of LaTeX lack
        "\0": "{}",
    }
)
_TWINS = re.compile(r"([-',])(?=\1)")  # two of them in a row would be set as one sign


def _steers(character: str) -> bool:
    """Whether a character is invisible: controls, halves of pairs, writing directions."""
    return category(character) in ("Cc", "Cs") or bidirectional(character) in _TURNS


def plain(text: str) -> str:
    """A text for a terminal: control characters and changes of writing direction as escapes."""
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if c != "\n" and _steers(c) else c for c in text
    )


def one_line(text: str) -> str:
    """A text in one line: breaks are spaces, and what cannot be shown is marked."""
    spaced = "".join(" " if character in _BREAKS else character for character in text)
    return "".join("\N{REPLACEMENT CHARACTER}" if _steers(c) else c for c in spaced)


def markdown(text: str) -> str:
    """A text that Markdown shows as it is, in a cell of a table too."""
    return text.translate(_MARKDOWN)


def latex(text: str) -> str:
    """A text that LaTeX shows as it is."""
    return _TWINS.sub("\\1\0", text).translate(_LATEX)


def script_json(content: Mapping[str, object] | Sequence[object]) -> str:
    """JSON that can stand in a page: nothing in it ends the script or begins a tag."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
