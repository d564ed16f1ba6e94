"""What the picture of a scanner must show, read off its artists and its files."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from korisk.operators.ct.geometry import FanBeam, Geometry, ParallelBeam
from korisk.operators.ct.geometry_figure import draw_geometry

pytestmark = pytest.mark.filterwarnings("ignore::korisk.errors.KoriskWarning")

MAGIC = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF-"}
NEAR: dict[str, Any] = {"bins": 128, "source_to_center": 100.0, "source_to_detector": 180.0}
FAR = NEAR | {"pixel_spacing": 85 / 128, "source_to_center": 1e3, "source_to_detector": 1500.0}
VERY_FAR: dict[str, Any] = {"source_to_center": 1e6, "source_to_detector": 1.2e6}
UNEVEN = (0.3, 0.1, 0.5, 1.7, 3.0, 3.1)


CASES: dict[str, tuple[type[Geometry], Any, dict[str, Any]]] = {
    "full": (FanBeam, 64, {"views": 60, **NEAR}),
    "far": (FanBeam, 128, {"views": 60, **FAR}),
    "short": (FanBeam, 64, {"views": 60, "arc": 3.9, "start": 0.6, **NEAR}),
    "limited": (ParallelBeam, 32, {"views": 20, "arc": 2.0, "bins": 64}),
    "uneven": (ParallelBeam, 16, {"angles": UNEVEN, "bins": 24}),
    "shifted": (FanBeam, 64, {"views": 8, "detector_offset": 20.0, **NEAR}),
    "one view": (ParallelBeam, 8, {"views": 1, "bins": 8}),
    "one bin": (ParallelBeam, 1, {"views": 2, "bins": 1}),
    "not square": (ParallelBeam, (20, 50), {"views": 9, "bins": 50}),
    "truncated": (ParallelBeam, 64, {"views": 36, "bins": 40}),
    "virtual": (FanBeam, 64, {"views": 30, **NEAR, "source_to_detector": 100.0}),
    "wide": (ParallelBeam, 16, {"views": 5, "bins": 3000}),
    "twice": (ParallelBeam, 16, {"angles": (0.0, 0.0), "bins": 24}),
    "very far": (FanBeam, 64, {"views": 9, "bins": 128} | VERY_FAR),
}


def made(name: str) -> Geometry:
    kind, shape, options = CASES[name]
    return kind(shape, **options)


@cache
def laid_out(name: str) -> Axes:
    """Drawn once for the tests that look at every scanner, with all words in their places."""
    axes = draw_geometry(made(name))
    whole(axes).draw_without_rendering()
    return axes


def whole(axes: Axes) -> Figure:
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    return figure


def named(axes: Axes, gid: str) -> Any:
    (found,) = axes.findobj(lambda artist: artist.get_gid() == gid)
    return found


def texts(figure: Figure) -> list[str]:
    found: Any = figure.findobj(Text)
    return [text.get_text() for text in found]


def drawn(figure: Figure) -> list[Text]:
    """All words on paper; ticks beyond an axis' ends have labels that are never drawn."""
    legend = figure.legends[0]
    found = [*figure.texts, legend.get_title(), *legend.get_texts()]
    for axes in figure.axes:
        found += [axes.title, *axes.texts]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            found += [axis.label, axis.get_offset_text(), *(tick.label1 for tick in ticks)]
    return [text for text in found if text.get_text()]


@pytest.mark.parametrize("name", CASES)
def test_every_scanner_is_drawn_within_its_frame_and_its_words_apart(name: str) -> None:
    geometry, axes = made(name), laid_out(name)
    figure = whole(axes)
    views = np.stack(named(axes, "views").get_data())
    assert (views.shape, axes.get_aspect()) == ((2, geometry.views_count), 1)
    top, bottom = axes.get_ylim()
    assert top > bottom  # y runs downwards
    assert any(text.startswith(f"{type(geometry).__name__}: ") for text in texts(figure))
    rays = np.concatenate(named(axes, "outer-rays").get_segments())
    for points in (named(axes, "detector").get_xy(), views, rays):
        assert np.abs(points).max() <= axes.get_xlim()[1]
    boxes = [(text.get_text(), text.get_window_extent()) for text in drawn(figure)]
    paper = figure.bbox
    for at, (word, box) in enumerate(boxes):
        assert paper.x0 - 1 <= box.x0 <= box.x1 <= paper.x1 + 1, word
        assert paper.y0 - 1 <= box.y0 <= box.y1 <= paper.y1 + 1, word
        for other, second in boxes[at + 1 :]:
            assert not box.overlaps(second), (word, other)


def test_the_title_counts_and_a_far_source_gets_a_second_panel() -> None:
    said = " ".join(" ".join(texts(whole(laid_out("far")))).split())
    title = "FanBeam: 60 views over 360°, 128 bins of 1 mm, 128 x 128 pixels of 0.6641 mm"
    assert title in said
    assert "1000 mm from source to centre; 1500 mm from source to detector" in said
    panels = whole(laid_out("far")).axes
    assert len(panels) == 2
    assert panels[1].get_xlim()[1] < 60
    assert len(whole(laid_out("limited")).axes) == 1


def test_the_first_view_is_drawn_to_scale() -> None:
    geometry = made("shifted")
    axes = laid_out("shifted")
    x, y = named(axes, "first-view").get_data()
    source, direction = geometry.rays(slice(0, 1))
    np.testing.assert_allclose([x[0], y[0]], source[0, 0], atol=1e-9)
    corners = named(axes, "detector").get_xy()
    width = np.linalg.norm(corners[1] - corners[0])
    assert width == pytest.approx(geometry.bins * geometry.bin_spacing)
    middle = (corners[0] + corners[1]) / 2  # the shift moves it, along (cos b, sin b)
    np.testing.assert_allclose(middle, [20.0, -80.0], atol=1e-9)
    for ray, bin_index in zip(named(axes, "outer-rays").get_segments(), (0, -1), strict=True):
        along = (ray[1] - ray[0]) / np.linalg.norm(ray[1] - ray[0])
        assert along @ direction[0, bin_index] == pytest.approx(1, abs=1e-4)  # half a bin apart


def test_what_the_detector_misses_is_shaded_and_said() -> None:
    axes = laid_out("truncated")
    opacity = np.asarray(named(axes, "missed").get_array())[..., 3]
    assert opacity[80, 80] == 0 < 0.2 < opacity[80, 1]
    geometry = made("truncated")
    assert f"missed by the detector: {geometry.truncation:.1%} of the disc" in texts(whole(axes))
    assert not laid_out("full").findobj(lambda artist: artist.get_gid() == "missed")


@pytest.mark.parametrize("kind", MAGIC)
def test_files_are_written_and_the_same_twice(tmp_path: Path, kind: str) -> None:
    first, second = tmp_path / f"a.{kind}", tmp_path / f"b.{kind.upper()}"
    made("far").plot(first)
    draw_geometry(made("far"), str(second))
    assert first.read_bytes().startswith(MAGIC[kind])
    assert (first.read_bytes(), len(list(tmp_path.iterdir()))) == (second.read_bytes(), 2)


def test_without_matplotlib_it_says_what_to_install_and_drawing_leaves_no_global_state() -> None:
    """Both need a process that has not drawn yet; one is enough."""
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from korisk.operators.ct.geometry import ParallelBeam as P\n"
        "try: P((8, 8), views=3, bins=8).plot()\n"
        "except ValueError as error: print(type(error).__name__, error)\n"
        "del sys.modules['matplotlib']\n"
        "P((8, 8), views=3, bins=8).plot()\n"
        "print('matplotlib.figure' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [
        "MissingExtraError a plot needs matplotlib, which is not installed; "
        "pip install 'korisk[report]'",
        "True False",
    ]
