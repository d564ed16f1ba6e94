"""Reports of studies and pilots, from results that are already computed.

`contents` reads a store once; `figures` draws, `tables` lists, `page` writes one HTML file.
Start with `contents.read_contents`. Figures and the page need Matplotlib.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from korisk.report.figures.forecast import comparison_figure, plan_figure
    from korisk.report.page.answers import to_html

__all__ = ["comparison_figure", "plan_figure", "to_html"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, since all of them need Matplotlib."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "page.answers" if name == "to_html" else "figures.forecast"
    return getattr(import_module(f"{__name__}.{module}"), name)
