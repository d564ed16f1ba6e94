"""Every figure that the report of a study has, by the name of its file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path

from matplotlib.figure import Figure

from korisk._checks import one_of
from korisk.files import FIGURE_KINDS, make_folder
from korisk.report.contents import Contents
from korisk.report.figures.efficiency import efficiency_figure, panels_of
from korisk.report.figures.factors import factors_figure, factors_of
from korisk.report.figures.images import reconstruction_figure, weights_figure
from korisk.report.figures.networks import architecture_figure, layers_figure, networks_of
from korisk.report.figures.style import save
from korisk.report.figures.theorem import theorem_figure

STILL = "sample_efficiency"  # in a page it stands in for the interactive curves
THEOREM = "theorem"

_LONGEST = 60  # letters of a file's name that come from a point's


def study_figures(contents: Contents, *, page: bool = False) -> Iterator[tuple[str, Figure]]:
    """The figures of a study one after the other, drawn when they are asked for.

    Parameters
    ----------
    contents : Contents
        What `read_contents` returns.
    page : bool, default False
        Only the figures that a page shows: it has the reconstructions itself, and of the weights
        the last ones.

    Yields
    ------
    tuple of str and matplotlib.figure.Figure
        The stem of the figure's file, and the figure. What has nothing to show is left out.
    """
    for stem, figure in _figures(contents, page):
        if figure is not None:
            yield stem, figure


def _figures(contents: Contents, page: bool) -> Iterator[tuple[str, Figure | None]]:
    yield STILL, efficiency_figure(panels_of(contents))
    yield "two_factors", factors_figure(factors_of(contents))
    networks = networks_of(contents)
    yield "architecture", architecture_figure(networks) if networks else None
    yield "layers", layers_figure(networks)
    yield THEOREM, theorem_figure(contents.theorems)
    stems = file_stems([point.name for point in contents.points])
    shown = [(p.name, stem, p.pictures) for p, stem in zip(contents.points, stems, strict=True)]
    for name, stem, pictures in [each for each in shown if each[2]][-1 if page else 0 :]:
        if pictures is not None:
            if not page:
                title = f"{name}: reconstructions"
                yield f"reconstructions_{stem}", reconstruction_figure(pictures, title=title)
            yield f"weights_{stem}", weights_figure(pictures, title=f"{name}: learned weights")


def file_stems(names: Sequence[str]) -> list[str]:
    """A safe part of a file's name for each name: letters, digits, - and _, no two the same.

    Nor are two the same on systems that take capital letters for small ones.
    """
    stems: list[str] = []
    taken: set[str] = set()
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]+", "-", name)[:_LONGEST].strip("-") or "point"
        stem, number = plain, 1
        while stem.casefold() in taken:
            number += 1
            stem = f"{plain}-{number}"
        taken.add(stem.casefold())
        stems.append(stem)
    return stems


def save_figures(
    figures: Iterable[tuple[str, Figure]],
    folder: str | PathLike[str],
    kinds: Sequence[str] = FIGURE_KINDS,
    *,
    watch: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write figures into a folder, which is created if it is missing.

    Parameters
    ----------
    figures : iterable of (str, matplotlib.figure.Figure)
        Stems of files and figures, such as `study_figures` gives.
    folder : path
        Where the files go.
    kinds : sequence of str, default ("png", "svg", "pdf")
        The formats; each figure is written in each of them.
    watch : callable, optional
        Is called with the name of each file before it is written.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    KoriskError
        If a kind is not one of the three, or a file cannot be written.
    """
    for kind in kinds:
        one_of("kinds", kind, FIGURE_KINDS)
    target = make_folder(folder)
    written = []
    for stem, figure in figures:
        for kind in kinds:
            path = target / f"{stem}.{kind}"
            watch(path.name)
            save(figure, path)
            written.append(path)
    return written
