"""Escaping of texts for terminals, single lines, Markdown and scripts.

For HTML use `html.escape`, for cells of CSV `korisk.files.to_cell`.
"""

import json
from collections.abc import Mapping, Sequence
from unicodedata import bidirectional, category

_BREAKS = "\n\r\t\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")  # of writing direction
# Entities for characters that end a cell or begin a tag: all Markdown readers agree on those.
_MARKDOWN = str.maketrans(
    {character: f"&#{ord(character)};" for character in "|\\"}
    | {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
    | {character: f"\\{character}" for character in "`*_[]$~#!"}
)


def _steers(character: str) -> bool:
    """Whether a character is a control, a lone surrogate or a change of writing direction."""
    return category(character) in ("Cc", "Cs") or bidirectional(character) in _TURNS


def plain(text: str) -> str:
    """Escape control characters and changes of writing direction, for a terminal."""
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if c != "\n" and _steers(c) else c for c in text
    )


def one_line(text: str) -> str:
    """Put a text on one line: breaks become spaces, invisible characters a replacement mark."""
    spaced = "".join(" " if character in _BREAKS else character for character in text)
    return "".join("\N{REPLACEMENT CHARACTER}" if _steers(c) else c for c in spaced)


def markdown(text: str) -> str:
    """Escape a text for Markdown, also inside a table."""
    return text.translate(_MARKDOWN)


def script_json(content: Mapping[str, object] | Sequence[object]) -> str:
    """JSON that is safe inside a script element: it cannot close it or open a tag."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
