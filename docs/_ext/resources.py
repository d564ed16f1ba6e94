"""Built pages ask nobody for anything: what they load must lie beside them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

_LOG = logging.getLogger(__name__)
_AWAY = r"""\s*["']?\s*(?:https?:)?//[^"'\s)>]+"""
_LOADS = re.compile(
    rf"<(?:script|img|iframe|source|video|audio|embed|input)\b[^>]*\ssrc={_AWAY}"
    rf"|<link\b[^>]*\shref={_AWAY}"
    rf"|url\({_AWAY}"
    rf"|@import{_AWAY}",
    re.IGNORECASE,
)


def loaded_from_elsewhere(text: str) -> list[str]:
    """What a page or a style sheet loads from another host."""
    return _LOADS.findall(text)


def _pages(folder: Path) -> Iterator[Path]:
    yield from (path for path in sorted(folder.rglob("*")) if path.suffix in (".html", ".css"))


def _check(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.format != "html":
        return
    for path in _pages(Path(app.outdir)):
        for found in loaded_from_elsewhere(path.read_text(encoding="utf-8")):
            _LOG.warning("%s: loads from elsewhere: %s", path.name, found[:120], type="resources")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the check."""
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
