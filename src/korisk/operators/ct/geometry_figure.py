"""A scanner on paper: image, views, detector and the first view's beam, to scale in millimetres.

Made without pyplot: no display is needed and no global state left. y runs downwards with the row
index, so the picture shows the image as `imshow` would.
"""

import io
import math
import textwrap
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from korisk.errors import KoriskError
from korisk.files import figure_kind, write_bytes
from korisk.operators.ct.geometry import FanBeam, FloatArray, Geometry

try:
    import matplotlib.style
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, Ellipse, Patch, Polygon, Rectangle
except ModuleNotFoundError as error:
    raise KoriskError("a plot needs matplotlib; pip install 'korisk[report]'") from error

Entry = tuple[Artist, str]  # of the legend

DPI = 200
WORTH_SHADING = 0.005  # share of the disc that the detector misses

_SIDE = 4.6  # inches, of a panel
_MAGNIFY_BELOW = 0.22  # a smaller part of the picture than this gets a panel of its own
_MOST_GRID_LINES = 16
_MOST_BINS = 512  # that are drawn one by one
_MOST_VIEWS = 60  # that the missed part is averaged over
_OPEN_GAP, _WEDGE = 2.5, 4.0  # times the median gap: the end of the scan, a wedge within it
_SMALL, _LARGE, _ROW = 8.0, 9.5, 13.0  # points

# Colours of Okabe and Ito, which colour-blind readers tell apart.
_VIEWS, _FIRST, _DISC, _MISSED = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_GREY, _PALE, _DARK = "#666666", "#d0d0d0", "#222222"
_STYLE = {
    "font.family": "DejaVu Sans",  # matplotlib brings it along: the same on every machine
    "font.size": _SMALL,
    "axes.linewidth": 0.7,
    "svg.hashsalt": "korisk",
    "pdf.fonttype": 42,
}
_UNDATED: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def draw_geometry(geometry: Geometry, path: str | PathLike[str] | None = None) -> Axes:
    """Draw the scanner; written to `path` (.png, .svg or .pdf) where one is given.

    A second panel magnifies the image where the source is far away. The Axes of the whole scanner
    is returned; its `figure` holds both.
    """
    kind = None if path is None else figure_kind(path)
    with matplotlib.style.context(["default", _STYLE]):
        scene = _Scene(geometry)
        panels = 1 if scene.image_share >= _MAGNIFY_BELOW else 2
        size = (_SIDE + 0.4, _SIDE + 1.3) if panels == 1 else (2 * _SIDE, _SIDE + 0.9)
        figure = Figure(figsize=size, dpi=DPI)
        axes = figure.add_subplot(1, panels, 1)
        entries = _draw_scanner(axes, scene)
        _frame(axes, scene.reach, "the scanner" if panels == 2 else "")
        _draw_image(axes, scene, grid=panels == 1)
        if panels == 2:
            close = figure.add_subplot(1, panels, 2)
            _draw_image(close, scene)
            _draw_beam(close, scene)
            _frame(close, 0.62 * max(geometry.image_size), "its image, magnified")
        _head_and_foot(figure, geometry, entries)
        if path is not None and kind is not None:
            _save(figure, path, kind)
    return axes


# --- Where things are ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scene:
    """Points of the scanner in millimetres, (x, y); parallel views get a circle to stand on."""

    geometry: Geometry

    @cached_property
    def image_radius(self) -> float:
        """Half of the image's diagonal."""
        return math.hypot(*self.geometry.image_size) / 2

    @cached_property
    def orbit(self) -> float:
        """The radius on which the views are marked: the sources' for a fan."""
        if isinstance(self.geometry, FanBeam):
            return self.geometry.source_to_center
        return 1.5 * self._room

    @cached_property
    def detector_distance(self) -> float:
        """From the centre to the detector, away from the source."""
        if isinstance(self.geometry, FanBeam):
            return self.geometry.source_to_detector - self.geometry.source_to_center
        return 1.15 * self._room

    @property
    def _room(self) -> float:
        """What parallel views are drawn around: the image, or most of a far wider detector."""
        return max(self.image_radius, 0.8 * self.half_detector)

    @cached_property
    def outward(self) -> FloatArray:
        """From the centre to the first view's source, a unit vector."""
        first = self.geometry.angle_array[0]
        return np.array([-math.sin(first), math.cos(first)])

    @cached_property
    def along(self) -> FloatArray:
        """The direction of the first view's detector."""
        first = self.geometry.angle_array[0]
        return np.array([math.cos(first), math.sin(first)])

    @cached_property
    def bin_edges(self) -> FloatArray:
        """Where the bins begin and end along the detector, (bins + 1,)."""
        step = self.geometry.bin_spacing
        first = float(self.geometry.offsets[0]) - step / 2
        return np.asarray(first + step * np.arange(self.geometry.bins + 1), dtype=np.float64)

    def ray(self, offset: float) -> tuple[FloatArray, FloatArray]:
        """Both ends of the first view's ray that meets the detector there."""
        meets = offset * self.along - self.detector_distance * self.outward
        source = self.orbit * self.outward
        if not isinstance(self.geometry, FanBeam):
            source = source + offset * self.along
        drawn = (self.orbit + self.beam_end) / (self.orbit + self.detector_distance)
        return source, source + drawn * (meets - source)

    @cached_property
    def half_detector(self) -> float:
        """How far the detector reaches from the central ray."""
        return float(np.abs(self.bin_edges[[0, -1]]).max())

    @cached_property
    def beam_end(self) -> float:
        """How far the beam is drawn behind the centre: to the detector, and through the image."""
        return max(self.detector_distance, 1.05 * self.image_radius)

    @cached_property
    def aside(self) -> float:
        """How far from the central ray the distances are written."""
        beside = max(self.half_detector, self.image_radius)
        return max(1.08 * beside, 0.13 * max(self.orbit, abs(self.detector_distance)))

    @cached_property
    def reach(self) -> float:
        """Half of the side of the square that holds everything."""
        sideways = self.aside if isinstance(self.geometry, FanBeam) else self.half_detector
        ends = (self.orbit, abs(self.detector_distance))
        return 1.1 * max(math.hypot(sideways, end) for end in ends)

    @property
    def image_share(self) -> float:
        """The part of the square's side that the image fills."""
        return max(self.geometry.image_size) / (2 * self.reach)


def _arcs(angles: FloatArray) -> list[tuple[float, float]]:
    """From which to which angle views follow each other, with wedges that have none left out."""
    turn = 2 * math.pi
    views = np.unique(np.round(np.mod(angles, turn), 9))
    if len(views) == 1:
        return []
    gaps = np.diff(views, append=views[0] + turn)
    usual = np.sort(gaps)[(len(gaps) - 1) // 2]
    breaks = np.flatnonzero(
        (gaps > _WEDGE * usual) | (gaps == gaps.max()) & (gaps > _OPEN_GAP * usual)
    )
    if not len(breaks):
        return [(0.0, turn)]
    ends = views[breaks]
    starts = views[(np.roll(breaks, 1) + 1) % len(views)]
    return [
        (float(start), float(end if end >= start else end + turn))
        for start, end in zip(starts, ends, strict=True)
    ]


# --- What is drawn -------------------------------------------------------------------------------


def _draw_scanner(axes: Axes, scene: _Scene) -> list[Entry]:
    fan = isinstance(scene.geometry, FanBeam)
    axes.add_patch(Circle((0, 0), scene.orbit, fill=False, edgecolor=_PALE, linewidth=0.6))
    for start, end in _arcs(scene.geometry.angle_array):
        axes.plot(
            *_on_circle(scene.orbit, np.linspace(start, end, 181)), color=_VIEWS, linewidth=0.9
        )
    views = _draw_views(axes, scene)
    _draw_rotation(axes, scene)
    _draw_beam(axes, scene)
    _draw_detector(axes, scene)
    if fan:
        _draw_distance(axes, scene, "R", 1, 0.0)
        _draw_distance(axes, scene, "D", -1, -scene.detector_distance)
    entries: list[Entry] = [
        (views, "sources" if fan else "views, by where their rays come from"),
        (
            Patch(facecolor=_FIRST, alpha=0.3, edgecolor=_FIRST),
            "first view: outer rays, dashed: central",
        ),
        (Patch(facecolor=_DARK), "detector of the first view, bin by bin"),
        (Line2D([], [], color=_DISC, linestyle="--"), _image_words(scene.geometry)),
    ]
    if scene.geometry.truncation > WORTH_SHADING:
        missed = Patch(facecolor=_MISSED, alpha=0.8)
        share = f"{scene.geometry.truncation:.1%} of the {scene.geometry.inscribed}"
        entries.append((missed, f"missed by the detector: {share}"))
    return entries


def _draw_views(axes: Axes, scene: _Scene) -> Line2D:
    """A mark for each view; the first one larger and in its own colour."""
    angles = scene.geometry.angle_array
    size = min(4.0, max(1.2, 240 / len(angles)))
    look: dict[str, Any] = {"marker": "o", "linestyle": "none", "markeredgewidth": 0}
    x, y = _on_circle(scene.orbit, angles)
    axes.plot(x, y, color=_VIEWS, markersize=size, gid="views", zorder=3, **look)
    axes.plot(x[:1], y[:1], color=_FIRST, markersize=6.5, gid="first-view", zorder=4, **look)
    return Line2D([], [], color=_VIEWS, markersize=4, **look)


def _draw_rotation(axes: Axes, scene: _Scene) -> None:
    """An arrow outside the circle, from the first view the way the next ones go."""
    angles = scene.geometry.angle_array
    turns = np.diff(angles)
    turns = turns[turns != 0]
    if not len(turns):
        return
    sense = math.copysign(1.0, turns[0])
    path = angles[0] + sense * np.linspace(0.09, 0.42, 30)
    x, y = _on_circle(scene.orbit + 0.05 * scene.reach, path)
    axes.plot(x[:-1], y[:-1], color=_FIRST, linewidth=1.0)
    axes.annotate(
        "",
        (x[-1], y[-1]),
        (x[-4], y[-4]),
        arrowprops={"arrowstyle": "-|>", "color": _FIRST, "shrinkA": 0, "shrinkB": 0, "lw": 1.0},
    )


def _draw_beam(axes: Axes, scene: _Scene) -> None:
    """The first view's outer rays with what lies between them, and the one through the centre."""
    ends = scene.bin_edges[0], scene.bin_edges[-1]
    left, right = (scene.ray(end) for end in ends)
    inside = np.array([left[0], left[1], right[1], right[0]])
    axes.add_patch(Polygon(inside, facecolor=_FIRST, alpha=0.09, linewidth=0, zorder=1.1))
    rays = [np.array(left), np.array(right)]
    axes.add_collection(LineCollection(rays, colors=_FIRST, linewidths=0.9, gid="outer-rays"))
    central = np.array(scene.ray(0.0))
    axes.plot(*central.T, color=_FIRST, linewidth=0.9, linestyle=(0, (5, 3)), gid="central-ray")


def _draw_detector(axes: Axes, scene: _Scene) -> None:
    """The bins in two shades, so that each can be seen where there is room."""
    thickness = 0.022 * scene.reach
    edges = scene.bin_edges if scene.geometry.bins <= _MOST_BINS else scene.bin_edges[[0, -1]]
    near = edges[:, None] * scene.along - scene.detector_distance * scene.outward
    far = near - thickness * scene.outward
    bins = np.stack([near[:-1], near[1:], far[1:], far[:-1]], axis=1)
    for parity, colour in enumerate((_DARK, "#9a9a9a")):
        if len(bins[parity::2]):
            axes.add_collection(
                PolyCollection(list(bins[parity::2]), facecolors=colour, linewidths=0, zorder=2.5)
            )
    outline = [near[0], near[-1], far[-1], far[0]]
    axes.add_patch(
        Polygon(outline, fill=False, edgecolor=_DARK, linewidth=0.6, zorder=2.6, gid="detector")
    )


def _draw_distance(axes: Axes, scene: _Scene, letter: str, side: int, to: float) -> None:
    """A dimension line beside the beam, from the source to a depth along the central ray."""
    aside = side * scene.aside * scene.along
    start, end = scene.orbit * scene.outward, to * scene.outward
    hairlines = [np.array([point + 0.03 * aside, point + 1.06 * aside]) for point in (start, end)]
    axes.add_collection(LineCollection(hairlines, colors=_GREY, linewidths=0.4, zorder=1.5))
    arrow = {"arrowstyle": "<|-|>", "color": _GREY, "shrinkA": 0, "shrinkB": 0, "lw": 0.6}
    axes.annotate("", tuple(end + aside), tuple(start + aside), arrowprops=arrow, zorder=1.6)
    x, y = (start + end) / 2 + aside
    axes.text(
        x,
        y,
        letter,
        ha="center",
        va="center",
        fontsize=_LARGE,
        fontstyle="italic",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
        zorder=5,
    )


def _draw_image(axes: Axes, scene: _Scene, *, grid: bool = True) -> None:
    """The image's outline, a grid of its pixels, the inscribed disc and what of it is missed."""
    geometry = scene.geometry
    height, width = geometry.image_size
    corner = (-width / 2, -height / 2)
    step = _grid_step(geometry) * geometry.pixel_spacing
    x, y = (
        np.arange(1, math.ceil(side / step - 1e-9)) * step - side / 2 for side in (width, height)
    )
    lines = [np.array([(at, -height / 2), (at, height / 2)]) for at in x]
    lines += [np.array([(-width / 2, at), (width / 2, at)]) for at in y]
    axes.add_patch(Rectangle(corner, width, height, facecolor="white", zorder=1.0))
    if grid:
        axes.add_collection(LineCollection(lines, colors=_PALE, linewidths=0.4, zorder=1.05))
    axes.add_patch(
        Rectangle(corner, width, height, fill=False, edgecolor=_DARK, linewidth=0.9, gid="image")
    )
    disc = Ellipse(
        (0, 0),
        width,
        height,
        fill=False,
        edgecolor=_DISC,
        linewidth=1.2,
        linestyle="--",
        zorder=2.2,
    )
    axes.add_patch(disc)
    if geometry.truncation > WORTH_SHADING:
        box = (-width / 2, width / 2, height / 2, -height / 2)
        shaded = axes.imshow(_missed(geometry), extent=box, zorder=1.2, gid="missed")
        shaded.set_clip_path(disc)


def _missed(geometry: Geometry) -> FloatArray:
    """A picture of the image's square, as opaque as the share of views that miss each point."""
    height, width = geometry.image_size
    grid = ((np.arange(160) + 0.5) / 80 - 1) / 2
    x, y = np.meshgrid(grid * width, grid * height)
    chosen = np.unique(np.linspace(0, geometry.views_count - 1, _MOST_VIEWS).astype(int))
    share = np.zeros_like(x)
    for view in chosen:
        position = geometry.detector_position(x, y, slice(view, view + 1))[0]
        outside = (
            np.abs(position - geometry.detector_offset) > geometry.bins * geometry.bin_spacing / 2
        )
        share += outside / len(chosen)
    picture = np.empty((*x.shape, 4))
    picture[..., :3] = to_rgb(_MISSED)
    picture[..., 3] = 0.8 * share
    return picture


def _grid_step(geometry: Geometry) -> int:
    """Pixels from one line of the grid to the next: a power of two, for few lines."""
    return int(2 ** max(0, math.ceil(math.log2(max(geometry.image_shape) / _MOST_GRID_LINES))))


def _on_circle(radius: float, angles: FloatArray) -> tuple[FloatArray, FloatArray]:
    return -radius * np.sin(angles), radius * np.cos(angles)


# --- Words and frame -----------------------------------------------------------------------------


def _frame(axes: Axes, reach: float, title: str) -> None:
    axes.set(xlim=(-reach, reach), ylim=(reach, -reach), aspect="equal", title=title)
    axes.set(xlabel="x in mm, along the columns →", ylabel="← y in mm, along the rows")
    axes.title.set(fontsize=_SMALL, color=_GREY)
    axes.locator_params(nbins=6)
    axes.spines[["top", "right"]].set_visible(False)


def _head_and_foot(figure: Figure, geometry: Geometry, entries: list[Entry]) -> None:
    """The title above and the legend below, in strips of their own."""
    width, height = figure.get_size_inches()
    point = 1 / (72 * height)
    columns = 2 if width > 6 else 1
    foot = (math.ceil(len(entries) / columns) * _ROW + 6) * point
    title = textwrap.wrap(_title(geometry), int(width * 11.2))
    notes = textwrap.wrap(_note(geometry), int(width * 13.5))
    head = (len(title) * 13 + len(notes) * 11 + 8) * point
    # Laid out once and then left alone: laid out again with each file, no two would be the same.
    ConstrainedLayoutEngine(rect=(0, foot, 1, 1 - foot - head)).execute(figure)
    left = 0.12 / width
    top = 1 - 5 * point
    figure.text(
        left, top, "\n".join(title).replace("_", " "), va="top", fontsize=_LARGE, fontweight="bold"
    )
    below = top - len(title) * 13 * point
    figure.text(left, below, "\n".join(notes), va="top", color=_GREY)
    figure.legend(
        [entry[0] for entry in entries],
        [entry[1] for entry in entries],
        loc="lower left",
        bbox_to_anchor=(left, 4 * point),
        ncols=columns,
        handlelength=2.0,
        columnspacing=2.5,
        labelspacing=0.4,
        borderaxespad=0,
        borderpad=0,
        frameon=False,
    )


def _title(geometry: Geometry) -> str:
    """One line; an underscore stands for a space at which it is not broken."""
    rows, columns = geometry.image_shape
    return (
        f"{type(geometry).__name__}: {_views_words(geometry)}, "
        f"{_counted(geometry.bins, 'bin')} of {geometry.bin_spacing:.4g}_mm, "
        f"{rows}_x_{columns}_pixels of {geometry.pixel_spacing:.4g}_mm"
    )


def _views_words(geometry: Geometry) -> str:
    first, last = (math.degrees(end(geometry.angle_array)) for end in (np.min, np.max))
    counted = _counted(geometry.views_count, "view")
    if geometry.views_count == 1:
        return f"{counted} at {first:.4g}°"
    if geometry.angles:
        return f"{counted} from {first:.4g}° to {last:.4g}°"
    arc = geometry._full_arc if geometry.arc is None else geometry.arc
    return f"{counted} over {math.degrees(arc):.4g}°"


def _note(geometry: Geometry) -> str:
    parts = []
    if isinstance(geometry, FanBeam):
        parts.append(f"R = {geometry.source_to_center:.6g} mm from source to centre")
        parts.append(f"D = {geometry.source_to_detector:.6g} mm from source to detector")
    if geometry.detector_offset:
        parts.append(f"detector shifted by {geometry.detector_offset:.4g} mm")
    if not parts:
        parts.append("parallel rays; the detector is drawn just outside the image")
    return "; ".join(parts)


def _image_words(geometry: Geometry) -> str:
    step = _grid_step(geometry)
    spaced = "at every pixel" if step == 1 else f"every {_counted(step, 'pixel')}"
    return f"{geometry.inscribed} inscribed in the image; a grid line {spaced}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# --- The file ------------------------------------------------------------------------------------


def _save(figure: Figure, path: str | PathLike[str], kind: str) -> None:
    content = io.BytesIO()
    figure.savefig(content, format=kind, dpi=DPI, metadata=_UNDATED.get(kind, {}))
    write_bytes(path, content.getvalue())
