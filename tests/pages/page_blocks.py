"""The fenced blocks of a page: which are run, and what they are said to print."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from itertools import pairwise
from pathlib import Path

FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<language>[^`\s]*)[^`]*")
COMMENT = re.compile(r"  # -> ([^;\n]*)")
RUN = ("sh", "python")


@dataclass(frozen=True)
class Block:
    """One fence: its language ("" for a sketch), its text, and the lines it stands on."""

    language: str
    text: str
    line: int  # of the first line inside, counted from 1
    end: int  # of the closing fence


@dataclass(frozen=True)
class Step:
    """A block that is run, with the `text` block directly after it, if there is one."""

    block: Block
    prints: Block | None

    @property
    def comments(self) -> list[str]:
        """What comments `# -> output; words` say that the lines of the block print."""
        return COMMENT.findall(self.block.text)


def blocks(page: Path) -> Iterator[Block]:
    """All fences of a page, from top to bottom."""
    opened: re.Match[str] | None = None
    inside: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        fence = FENCE.fullmatch(line)
        if opened is None:
            opened, inside = fence, []
        elif fence and not fence["language"] and fence["ticks"].startswith(opened["ticks"]):
            text = "".join(f"{each.removeprefix(opened['indent'])}\n" for each in inside)
            yield Block(opened["language"], text, number - len(inside), number)
            opened = None
        else:
            inside.append(line)
    assert opened is None, f"{page}: a fence is never closed"


def steps(page: Path) -> list[Step]:
    """What is run on a page, in order."""
    lines = page.read_text().splitlines()
    found = list(blocks(page))
    after = {one.line: other for one, other in pairwise(found) if _follows(one, other, lines)}
    return [Step(block, after.get(block.line)) for block in found if block.language in RUN]


def _follows(one: Block, other: Block, lines: list[str]) -> bool:
    between = lines[one.end : other.line - 2]
    return other.language == "text" and not any(line.strip() for line in between)


def prints_as_told(told: str, printed: str) -> bool:
    """Whether lines agree up to white space; `...` alone is any lines, within a line any text."""
    wanted = "".join(_pattern(line) for line in _lines(told))
    return re.fullmatch(wanted, "".join(f"{line}\n" for line in _lines(printed))) is not None


def difference(told: str, printed: str) -> str:
    """The page's lines against what was printed."""
    return "\n".join(
        unified_diff(_lines(told), _lines(printed), "the page", "printed", n=99, lineterm="")
    )


def _lines(text: str) -> list[str]:
    ruled = re.sub("─+", "─", text)  # a table's rule is as wide as its figures are
    return [" ".join(line.split()) for line in ruled.splitlines() if line.strip()]


def _pattern(line: str) -> str:
    if line in ("...", "…"):
        return r"(?:[^\n]*\n)*?"
    return "[^\n]*?".join(re.escape(part) for part in re.split(r"\.\.\.|…", line)) + "\n"
