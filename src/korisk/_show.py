"""The one arrow up: values draw themselves with `korisk.report`, loaded when something is shown."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def from_report(module: str, name: str) -> Any:
    """A name of `korisk.report.<module>`; `MissingExtraError` where matplotlib is missing."""
    return getattr(import_module(f"korisk.report.{module}"), name)


class InNotebooks:
    """A value that a notebook shows as its figure and the numbers that matter."""

    def _repr_html_(self) -> str:
        return str(from_report("notebook", "html")(self))


class Drawn(InNotebooks):
    """A value that has a plot as well."""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the value. Needs the `report` extra, and no pyplot.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw, such as an axes of pyplot. Default: a figure of its own, with notes.

        Returns
        -------
        matplotlib.axes.Axes
            What was drawn into; its `figure` has `savefig`.
        """
        axes: Axes = from_report("notebook", "draw")(self, ax)
        return axes
