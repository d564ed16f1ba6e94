"""Every figure that the report of a study has, by the name of its file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path

import numpy as np

from korisk._checks import one_of
from korisk.files import FIGURE_KINDS, make_folder
from korisk.report.contents import Contents, Point
from korisk.report.figures.architecture import architecture_figure
from korisk.report.figures.ct_networks import CtNetwork, ct_networks
from korisk.report.figures.efficiency import efficiency_figure, panels_of
from korisk.report.figures.factors import factors_figure, factors_of
from korisk.report.figures.layers import layers_figure
from korisk.report.figures.reconstruction import reconstruction_figure
from korisk.report.figures.style import Figure, save
from korisk.report.figures.theorem import theorem_figure
from korisk.report.figures.weights import weights_figure
from korisk.report.tables.theorem import theorems_of

STILL = "sample_efficiency"  # in a page it stands in for the interactive curves
THEOREM = "theorem"
Draw = Callable[[], Figure | None]

_LONGEST = 60  # letters of a file's name that come from a point's


def study_figures(contents: Contents, *, page: bool = False) -> Iterator[tuple[str, Figure]]:
    """The stem of a file and its figure, one after the other; what has nothing to show is absent.

    Figures are made when they are asked for, because together they take seconds. With `page`, only
    those that a page shows: it has the reconstructions itself, and of the weights the last ones.
    """
    for stem, draw in _figures(contents, page):
        figure = draw()
        if figure is not None:
            yield stem, figure


def _figures(contents: Contents, page: bool) -> Iterator[tuple[str, Draw]]:
    yield STILL, lambda: efficiency_figure(panels_of(contents))
    yield "two_factors", lambda: factors_figure(factors_of(contents))
    networks = ct_networks(contents)
    named = [(made.title, made.network) for made in networks]
    shapes = {made.title: made.shapes for made in networks}
    yield "architecture", lambda: architecture_figure(named, shapes=shapes)
    yield "layers", lambda: _layers(networks)
    yield THEOREM, lambda: theorem_figure(theorems_of(contents))
    stems = file_stems([point.name for point in contents.points])
    shown = [each for each in zip(contents.points, stems, strict=True) if each[0].pictures]
    for point, stem in shown[-1:] if page else shown:
        if not page:
            yield f"reconstructions_{stem}", partial(_reconstructions, point)
        yield f"weights_{stem}", partial(_weights, point)


def _reconstructions(point: Point) -> Figure | None:
    if point.pictures is None:
        return None
    return reconstruction_figure(point.pictures, title=f"{point.name}: reconstructions")


def _weights(point: Point) -> Figure | None:
    if point.pictures is None:
        return None
    return weights_figure(point.pictures, title=f"{point.name}: learned weights")


def _layers(networks: Sequence[CtNetwork]) -> Figure | None:
    """The layers of the networks whose constants are known up to the output."""
    known = [made for made in networks if not np.isinf(made.network.amplification()).any()]
    lasts = [made.last for made in known if made.last is not None]
    if not known or not lasts:
        return None
    fitted = all(made.calibrated for made in known)
    unit = "MSE: C and kappa are such that the composed bound is the calibrated line"
    reference = "squared error with C = 0 and kappa = 1 where a calibration gives no constants"
    return layers_figure(
        [(made.title, made.network) for made in known],
        n=min(lasts),
        unit=unit if fitted else reference,
    )


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
    """Write figures into a folder, which is made, in each of the kinds."""
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
