"""Plots and notebook views of values. The only import upwards: `korisk.report`, loaded on use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def from_report(module: str, name: str) -> Any:
    """Import a name from `korisk.report.<module>`; `MissingExtraError` without matplotlib."""
    return getattr(import_module(f"korisk.report.{module}"), name)


class InNotebooks:
    """A value that a notebook shows as a figure and its main numbers."""

    def _repr_html_(self) -> str:
        return str(from_report("notebook", "html")(self))


class Drawn(InNotebooks):
    """A value that can also be plotted."""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the value. Needs the `report` extra, and no pyplot.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw into. Default: those of a new figure, with notes.

        Returns
        -------
        matplotlib.axes.Axes
            The axes that were drawn into; their `figure` has `savefig`.
        """
        axes: Axes = from_report("notebook", "draw")(self, ax)
        return axes
