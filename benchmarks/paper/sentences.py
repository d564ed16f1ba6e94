"""Every sentence of the paper that bears a number, and the claim that judges it.

    python -m benchmarks.paper.sentences PAPER.tex    # counts them, and compares with the list

data/paper_sentences.csv has a row for each, in the paper's order: its section, the numbers in it,
and the keys of claims (src/korisk/paper/claims.yaml), or why it claims nothing. The sentences
themselves are not in the repository. A sentence bears a number if it has a digit or a word such as
"five", "zero" or "order of magnitude" outside of citations, references, indices and exponents.
Bodies of tables, drawings and displayed equations are no sentences: Tables 1 to 3 and every label
have claims of their own.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

LIST = Path(__file__).parents[1] / "data" / "paper_sentences.csv"
REASONS = {  # why a sentence claims nothing, and how several of these are counted
    "definition": "define a word or symbol",
    "setting": "say what was run, which the protocol `released` repeats",
    "structure": "are about the text: its parts, steps and figures",
    "citation": "report another paper",
    "acknowledgement": "names a grant",
}
WORDS = (
    *("zero", "one full", "greater than one", "below one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "half", "twice", "double", "single", "unity"),
    *("order of magnitude", "orders of magnitude"),
)
_DROPPED = (  # what holds no sentences, or numbers that are names
    r"\\begin\{thebibliography\}.*?\\end\{thebibliography\}",
    r"(?<!\\)%[^\n]*",
    r"\\begin\{(tikzpicture|tabular|equation|align)\}.*?\\end\{\1\}",
    r"\\(?:cite|citet|ref|eqref|label|url|includegraphics)(?:\[[^]]*\])?\{[^}]*\}",
    r"\\begin\{(?:figure|table)\}\[[a-z]\]",
)
_HEADS = r"(\\(?:sub)?section\*?\{[^}]*\}|\\paragraph\{[^}]*\}|\\caption\{)"
_ENDS = r"(?<=[a-zA-Z)$}])\.(?=\s|$|\})|(?<=[a-z]);(?=\s)"
_INDICES = r"\^\{?-?\d+\}?|_\{?\d\}?"


class Sentence(NamedTuple):
    """Where it stands, its numbers, and what judges it."""

    section: str
    numbers: str
    claims: tuple[str, ...] = ()
    reason: str = ""


def listed() -> list[Sentence]:
    """The kept list."""
    with LIST.open(newline="", encoding="utf-8") as file:
        return [
            Sentence(row["section"], row["numbers"], tuple(row["claims"].split()), row["reason"])
            for row in csv.DictReader(file)
        ]


def count_text() -> str:
    """How many there are, and what they are, for the page of claims."""
    sentences = listed()
    claiming = sum(bool(sentence.claims) for sentence in sentences)
    reasons = Counter(sentence.reason for sentence in sentences if not sentence.claims)
    others = ", ".join(f"{reasons[key]} {words}" for key, words in REASONS.items() if reasons[key])
    return (
        f"{len(sentences)} sentences of the paper bear a number. {claiming} of them are judged "
        f"here; the others claim nothing: {others}."
    )


def found_in(tex: str) -> list[Sentence]:
    """The sentences of a paper that bear numbers, in its order."""
    body = tex[tex.index(r"\begin{abstract}") :]
    for pattern in _DROPPED:
        body = re.sub(pattern, " ", body, flags=re.DOTALL)
    body = re.sub(r"\\(?:begin|end)\{[a-z*]+\}(?:\[[^]]*\])?", " . ", body)
    section, sentences = "Abstract", []
    for part in re.split(_HEADS, body):
        head = re.match(r"\\(section\*?|subsection|paragraph)\{(.*)\}", part)
        if head:
            section = head[2].strip(" ~") if "section" in head[1] else section
            continue
        flat = " ".join(part.split())
        flat = re.sub(r"i\.i\.d\.|i\.e\.,|vs\.", lambda match: match[0].replace(".", ""), flat)
        for text in re.split(_ENDS, flat):
            words = re.findall(rf"\b({'|'.join(WORDS)})\b", text)
            plain = re.sub(_INDICES, "", text).replace("{,}", "")
            digits = re.findall(r"(?<![\w_^.])\d+(?:\.\d+)?", plain)
            if words or digits:
                sentences.append(Sentence(section, " ".join([*digits, *words])))
    return sentences


def main() -> int:
    """Count, and compare."""
    found = found_in(Path(sys.argv[1]).read_text(encoding="utf-8"))
    kept = [sentence._replace(claims=(), reason="") for sentence in listed()]
    print(count_text())
    for at, (one, other) in enumerate(zip(found, kept, strict=False)):
        if one != other:
            print(f"row {at + 1} differs: found {one[:2]}, listed {other[:2]}")
            return 1
    if len(found) != len(kept):
        print(f"found {len(found)}, listed {len(kept)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
