"""The table that links every part of the paper to a page."""

import re
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "recipe.md"
# What the paper numbers, in its order, and its last part.
PARTS = {
    "Section": [*(str(n) for n in range(1, 9)), "D.1", "D.2", "D.3", "D.4"],
    "Eq.": [f"({n})" for n in range(1, 34)],
    "Figure": [str(n) for n in range(1, 6)],
    "Table": ["1", "2", "3"],
    "Appendix": ["A", "B", "C", "D"],
    "Assumption": ["1", "2"],
    "Broader": ["Impact"],
    **{kind: ["1"] for kind in ("Theorem", "Corollary", "Proposition", "Lemma")},
}


def rows() -> list[tuple[str, str]]:
    """The table: parts of the paper, and links."""
    lines = PAGE.read_text().split("| in the paper | here |")[1].splitlines()[2:]
    return [tuple(cell.strip() for cell in line.split("|")[1:3]) for line in lines if line]  # type: ignore[misc]


def named(cell: str) -> Iterator[tuple[str, str]]:
    """The parts that a cell names: `Eqs. (4) to (6)` are three."""
    kind = number = ""
    for word in re.split(r", | (?=to )", cell):
        match = re.fullmatch(r"(?:(to|[A-Z][a-z]+\.?) )?(.+)", word)
        assert match is not None
        if match[1] == "to":
            first, last = int(number.strip("()")), int(match[2].strip("()"))
            yield from ((kind, f"({n})") for n in range(first + 1, last + 1))
            continue
        kind, number = re.sub(r"s(?=\.?$)", "", match[1] or kind), match[2]
        yield kind, number


def anchors(page: Path) -> set[str]:
    """What a link can name on a page: its headings, as git hosts and the site write them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}


def test_every_numbered_part_of_the_paper_has_one_row_with_a_link() -> None:
    found = [part for cell, _ in rows() for part in named(cell.removeprefix("Abstract, "))]
    assert sorted(found) == sorted((kind, n) for kind, numbers in PARTS.items() for n in numbers)
    for cell, links in rows():
        targets = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", links)
        assert targets, cell
        for path, anchor in targets:
            page = (PAGE.parent / path).resolve() if path else PAGE
            assert page.is_file(), path
            assert not anchor or anchor in anchors(page), anchor
