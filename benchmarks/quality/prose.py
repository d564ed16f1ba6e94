"""Words of README.md, CONTRIBUTING.md and docs/: of all text as `wc -w` counts, and of prose.

    python -m benchmarks.quality.prose [ROOT]

What a benchmark writes, between `<!-- NAME -->` and `<!-- end of NAME -->`, is left out of both.
Prose is without code, tables, formulas and link targets.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = {"gallery", "generated"}  # by Sphinx
RESULTS = re.compile(r"<!-- ([\w ]+) -->.*?<!-- end of \1 -->", re.DOTALL)
FENCE = re.compile(r"^( *)(`{3,}|:{3,})\{?(\w*)\}?.*?^\1\2 *$", re.DOTALL | re.MULTILINE)
NOT_PROSE = (
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


def words(root: Path = ROOT) -> dict[str, tuple[int, int]]:
    """Words of all text and of prose, for every page by its path from the root."""
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    written = (page for page in pages if not GENERATED & set(page.parts))
    texts = {page: RESULTS.sub("", page.read_text(encoding="utf-8")) for page in written}
    return {
        page.relative_to(root).as_posix(): (len(text.split()), len(WORD.findall(prose(text))))
        for page, text in texts.items()
    }


if __name__ == "__main__":
    counts = words(*map(Path, sys.argv[1:]))
    for name, count in counts.items():
        print("{:7,} {:7,}  {}".format(*count, name))
    whole, of_prose = map(sum, zip(*counts.values(), strict=True))
    print(f"{whole:7,} words, {of_prose:,} of them prose, on {len(counts)} pages")
