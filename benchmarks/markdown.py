"""Rows of Markdown tables, as the pages of the documentation hold them."""

from collections.abc import Iterator


def header(*heads: str) -> Iterator[str]:
    """A row of headings and the rule below it."""
    yield line(*heads)
    yield line(*("---" for _ in heads))


def line(*cells: object) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"
