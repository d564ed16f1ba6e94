"""Rows of Markdown tables, as the pages of the documentation hold them."""

from collections.abc import Iterable, Iterator, Sequence


def header(*heads: str) -> Iterator[str]:
    """A row of headings and the rule below it."""
    yield line(*heads)
    yield line(*("---" for _ in heads))


def line(*cells: object) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def table(rows: Iterable[Sequence[object]], heads: Sequence[str]) -> str:
    """A whole table."""
    return "\n".join([*header(*heads), *(line(*row) for row in rows)])
