"""Words of prose in README.md and docs/: without code, tables, formulas, results and link targets.

python -m benchmarks.quality.prose [ROOT]
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = {"gallery", "generated"}  # by Sphinx
FENCE = re.compile(r"^( *)(`{3,}|:{3,})\{?(\w*)\}?.*?^\1\2 *$", re.DOTALL | re.MULTILINE)
NOT_PROSE = (
    re.compile(r"<!-- ([\w ]+) -->.*?<!-- end of \1 -->", re.DOTALL),  # results
    re.compile(r"^\$\$.*?^\$\$.*?$", re.DOTALL | re.MULTILINE),  # displayed formulas
    re.compile(r"^ *\|.*$", re.MULTILINE),  # rows of tables
    re.compile(r"^\([\w:-]+\)=$", re.MULTILINE),  # labels of theorems
    re.compile(r"(?<=\])\([^)\s]*\)"),  # where links lead
)
FORMULA = re.compile(r"\$[^$\n]+(?:\n[^$\n]+)?\$")  # within a sentence: one word
WORD = re.compile(r"[^\s]*\w[^\s]*")


def prose(text: str) -> str:
    """A page's prose; captions of pictures count, other fenced blocks do not."""
    text = FENCE.sub(lambda match: match[0] if match[3] == "picture" else "", text)
    for pattern in NOT_PROSE:
        text = pattern.sub("", text)
    return FORMULA.sub("formula", text)


def words(root: Path = ROOT) -> dict[str, int]:
    """Words of prose of every page, by its path from the root."""
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return {
        page.relative_to(root).as_posix(): len(WORD.findall(prose(page.read_text("utf-8"))))
        for page in pages
        if not GENERATED & set(page.parts)
    }


if __name__ == "__main__":
    counts = words(*map(Path, sys.argv[1:]))
    for name, count in counts.items():
        print(f"{count:7,}  {name}")
    print(f"{sum(counts.values()):7,}  words of prose on {len(counts)} pages")
