"""Plain words: none that a reader has to translate, in code, documents, examples and outputs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = re.compile(
    r"\bfore(?:told|tell|tells|telling)\b|\bto expect\b|\bno end\b|(?<!there )(?-i:\bis none\b)"
    r"|\bsuffice with\b|\bof the futures that\b|\bhowever much data\b|\bwere[ _]there\b"
    r"|\bwhat came of\b|\bwhat a study takes\b|\bso manyth\b|\bmachine finds out\b"
    r"|\bcarr(?:y|ied|ies) on\b|\brooms\b|\b_Hand\b|\b_mind_\w+|\bbury\b|\bstrangers?\b",
    re.IGNORECASE,
)
NEWLINE = "\n"
PLACES = ("src", "docs", "examples", "benchmarks")
KINDS = {".py", ".md", ".js", ".html", ".css", ".yaml"}
MADE = {"gallery", "results", "data", "generated", ".cache"}  # by scripts


def test_no_text_has_a_word_of_the_list() -> None:
    files = [
        file
        for place in PLACES
        for file in (ROOT / place).rglob("*.*")
        if file.suffix in KINDS and not MADE & set(file.relative_to(ROOT).parts[1:-1])
    ]
    assert len(files) > 150
    found = [
        f"{file.relative_to(ROOT)}:{text.count(NEWLINE, 0, match.start()) + 1}: {match[0]}"
        for file in [*files, *ROOT.glob("*.md")]
        if file.name != "CHANGELOG.md"  # which names what is gone
        for text in [file.read_text(encoding="utf-8")]
        for match in WORDS.finditer(text)
    ]
    assert not found, "\n".join(found)
