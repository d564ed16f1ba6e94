"""Pages and plots of values. The only import upwards: `korisk.report`, loaded on use."""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes


def from_report(module: str, name: str) -> Any:
    """Import a name from `korisk.report.<module>`; `MissingExtraError` without matplotlib."""
    return getattr(import_module(f"korisk.report.{module}"), name)


class Reported:
    """A value that has a page of its own."""

    def to_html(
        self, path: str | PathLike[str], *, target: float | None = None, title: str = ""
    ) -> Path:
        """Write one self-contained page with the answer, its figure and its tables.

        Needs the `report` extra. The page loads nothing from elsewhere; on the page of a plan,
        the target can be changed.

        Parameters
        ----------
        path : str or path
            The file to write, FILE.html.
        target : float, optional
            The value to reach, in the user's unit. Default: that of the plan; without one, the page
            chooses targets as examples.
        title : str, default ""
            Title of the page. Default: the names of the models.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        KoriskError
            If the file cannot be written.
        """
        file: Path = from_report("page.answers", "to_html")(self, path, target, title)
        return file


class Shown(Reported):
    """A value that also has a figure, which notebooks show below a sentence."""

    def _repr_html_(self) -> str:
        return str(from_report("notebook", "html")(self))

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
