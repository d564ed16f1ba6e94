"""The figures of a study's report, by the names of their files."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path

from matplotlib.figure import Figure

from korisk._checks import one_of
from korisk.files import FIGURE_KINDS, make_folder
from korisk.report.contents import Contents, Draw
from korisk.report.figures.efficiency import efficiency_figure, panels_of
from korisk.report.figures.reconstructions import reconstruction_figure
from korisk.report.figures.style import save

_LONGEST = 60  # characters of a point's name in the name of a file


def study_figures(contents: Contents) -> Iterator[tuple[str, Figure]]:
    """Iterate over the figures of a study, each drawn when it is requested."""
    for stem, draw in _figures(contents):
        figure = draw(narrow=False)
        if figure is not None:
            yield stem, figure


def page_figures(contents: Contents) -> Iterator[tuple[str, Figure, Figure | None]]:
    """Iterate over the figures of a page, each for wide and for narrow screens.

    Of reconstructions only the last are shown, with few N: images take much space.
    """
    figures = list(_figures(contents))
    images = [figure for figure in figures if figure[0].startswith("reconstructions_")]
    for stem, draw in figures:
        if (stem, draw) not in images:
            wide, narrow = draw(narrow=False), draw(narrow=True)
            if wide is not None:
                yield stem, wide, narrow
    for stem, draw in images[-1:]:
        if (figure := draw(narrow=True)) is not None:
            yield stem, figure, None


def _figures(contents: Contents) -> Iterator[tuple[str, Draw]]:
    """Stems and functions that draw: callers choose the width, and skip what they do not need."""
    yield "sample_efficiency", partial(efficiency_figure, panels_of(contents))
    stems = file_stems([point.name for point in contents.points])
    for point, stem in zip(contents.points, stems, strict=True):
        if point.pictures is not None:
            title = f"{point.name}: reconstructions"
            draw_images = partial(reconstruction_figure, point.pictures, title=title)
            yield f"reconstructions_{stem}", draw_images


def file_stems(names: Sequence[str]) -> list[str]:
    """Unique file stems for names: letters, digits, - and _ only.

    They differ in more than case, because some file systems ignore it.
    """
    stems: list[str] = []
    used: set[str] = set()
    for name in names:
        base = re.sub(r"[^A-Za-z0-9_]+", "-", name)[:_LONGEST].strip("-") or "point"
        stem, number = base, 1
        while stem.casefold() in used:
            number += 1
            stem = f"{base}-{number}"
        used.add(stem.casefold())
        stems.append(stem)
    return stems


def save_figures(
    figures: Iterable[tuple[str, Figure]],
    folder: str | PathLike[str],
    kinds: Sequence[str] = FIGURE_KINDS,
    *,
    watch: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write figures into a folder, which is created if it is missing."""
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
