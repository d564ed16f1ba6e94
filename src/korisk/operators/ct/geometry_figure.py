"""A figure of a scanner: image, views, detector and the first view's beam, to scale in millimetres.

Made without pyplot: no display is needed and no global state changes. y runs downwards with the row
index, so the figure shows the image as `imshow` would. `Geometry.plot` imports this module, so it
takes geometries as they are, without importing their classes.
"""

import io
import math
import textwrap
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.errors import KoriskError
from korisk.files import figure_kind, write_bytes

try:
    import matplotlib.style
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, Ellipse, Patch, Polygon, Rectangle
except ModuleNotFoundError as error:
    raise KoriskError("a plot needs matplotlib; pip install 'korisk[report]'") from error

FloatArray = NDArray[np.float64]

DPI = 200
WORTH_SHADING = 0.005  # share of the disc that the detector misses

_SIDE = 4.6  # inches, of a panel
_MAGNIFY_BELOW = 0.22  # a smaller part of the figure than this gets a panel of its own
_MOST_GRID_LINES = 16
_MOST_BINS = 512  # that are drawn one by one
_MOST_VIEWS = 60  # that the missed part is averaged over

# Colours of Okabe and Ito, which colour-blind readers tell apart.
_VIEWS, _FIRST, _DISC, _MISSED = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_GREY, _PALE, _DARK = "#666666", "#d0d0d0", "#222222"
_STYLE = {
    "font.family": "DejaVu Sans",  # matplotlib brings it along: the same on every machine
    "font.size": 8.0,
    "axes.linewidth": 0.7,
    "axes.titlesize": 8.0,
    "axes.titlecolor": _GREY,
    "svg.hashsalt": "korisk",
    "pdf.fonttype": 42,
}
_UNDATED: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def draw_geometry(geometry: Any, path: str | PathLike[str] | None = None) -> Axes:
    """Draw a `ParallelBeam` or `FanBeam`; written to `path` (.png, .svg or .pdf) if there is one.

    A second panel magnifies the image where the source is far away. The Axes of the whole scanner
    is returned; its `figure` holds both.
    """
    kind = None if path is None else figure_kind(path)
    with matplotlib.style.context(["default", _STYLE]):
        scene = _Scene(geometry)
        close_up = max(geometry.image_size) < _MAGNIFY_BELOW * 2 * scene.reach
        size = (2 * _SIDE, _SIDE + 0.9) if close_up else (_SIDE + 0.4, _SIDE + 1.3)
        figure = Figure(figsize=size, dpi=DPI)
        axes = figure.add_subplot(1, 1 + close_up, 1)
        _draw_scanner(axes, scene)
        _draw_beam(axes, scene)
        _draw_image(axes, geometry, grid=not close_up)
        _frame(axes, scene.reach, "the scanner" if close_up else "")
        if close_up:
            panel = figure.add_subplot(1, 2, 2)
            _draw_image(panel, geometry)
            _draw_beam(panel, scene)
            _frame(panel, 0.62 * max(geometry.image_size), "its image, magnified")
        _head_and_foot(figure, scene)
        if path is not None and kind is not None:
            content = io.BytesIO()
            figure.savefig(content, format=kind, dpi=DPI, metadata=_UNDATED.get(kind, {}))
            write_bytes(path, content.getvalue())
    return axes


class _Scene:
    """Points of the scanner in millimetres, (x, y); parallel views get a circle to stand on."""

    def __init__(self, geometry: Any) -> None:
        self.geometry = geometry
        self.fan = hasattr(geometry, "source_to_center")
        first = geometry.angle_array[0]
        self.outward = np.array([-math.sin(first), math.cos(first)])  # to the first view's source
        self.along = np.array([math.cos(first), math.sin(first)])  # its detector
        step = geometry.bin_spacing
        edges = geometry.offsets[0] - step / 2 + step * np.arange(geometry.bins + 1)
        self.bin_edges: FloatArray = edges
        half_detector = float(np.abs(edges[[0, -1]]).max())
        radius = math.hypot(*geometry.image_size) / 2
        if self.fan:
            self.orbit = geometry.source_to_center  # the radius on which views are marked
            self.behind = geometry.source_to_detector - self.orbit  # from centre to detector
        else:
            around = max(radius, 0.8 * half_detector)
            self.orbit, self.behind = 1.5 * around, 1.15 * around
        self.beam_end = max(self.behind, 1.05 * radius)
        # How far from the central ray distances are written.
        farthest = max(self.orbit, abs(self.behind))
        self.aside = max(1.08 * max(half_detector, radius), 0.13 * farthest)
        # Half of the side of the square that holds everything.
        self.reach = 1.1 * math.hypot(self.aside if self.fan else half_detector, farthest)

    def ray(self, offset: float) -> FloatArray:
        """Both ends of the first view's ray that meets the detector there, (2, 2)."""
        meets = offset * self.along - self.behind * self.outward
        source = self.orbit * self.outward + (0.0 if self.fan else offset) * self.along
        drawn = (self.orbit + self.beam_end) / (self.orbit + self.behind)
        return np.array([source, source + drawn * (meets - source)])

    def on_circle(self, angles: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        """Where sources at these angles are, x and y."""
        return -radius * np.sin(angles), radius * np.cos(angles)


def _draw_scanner(axes: Axes, scene: _Scene) -> None:
    """The views, the sense of rotation, the detector of the first view, and distances of a fan."""
    angles = scene.geometry.angle_array
    axes.add_patch(Circle((0, 0), scene.orbit, fill=False, edgecolor=_PALE, linewidth=0.6))
    size = min(4.0, max(1.2, 240 / len(angles)))
    x, y = scene.on_circle(angles, scene.orbit)
    mark: dict[str, Any] = {"marker": "o", "linestyle": "none", "markeredgewidth": 0}
    axes.plot(x, y, color=_VIEWS, markersize=size, gid="views", zorder=3, **mark)
    axes.plot(x[:1], y[:1], color=_FIRST, markersize=6.5, gid="first-view", zorder=4, **mark)
    turns = np.diff(angles)[np.diff(angles) != 0]
    if len(turns):  # an arrow outside the circle, from the first view the way the next ones go
        path = angles[0] + math.copysign(1.0, turns[0]) * np.linspace(0.09, 0.42, 30)
        x, y = scene.on_circle(path, scene.orbit + 0.05 * scene.reach)
        axes.plot(x[:-1], y[:-1], color=_FIRST, linewidth=1.0)
        arrow = {"arrowstyle": "-|>", "color": _FIRST, "shrinkA": 0, "shrinkB": 0, "lw": 1.0}
        axes.annotate("", (x[-1], y[-1]), (x[-4], y[-4]), arrowprops=arrow)
    # The bins in two shades, so that each can be seen where they are wide enough.
    edges = scene.bin_edges if scene.geometry.bins <= _MOST_BINS else scene.bin_edges[[0, -1]]
    near = edges[:, None] * scene.along - scene.behind * scene.outward
    far = near - 0.022 * scene.reach * scene.outward
    bins = np.stack([near[:-1], near[1:], far[1:], far[:-1]], axis=1)
    colours = [_DARK if at % 2 == 0 else "#9a9a9a" for at in range(len(bins))]
    axes.add_collection(PolyCollection(list(bins), facecolors=colours, linewidths=0, zorder=2.5))
    outline = [near[0], near[-1], far[-1], far[0]]
    axes.add_patch(
        Polygon(outline, fill=False, edgecolor=_DARK, linewidth=0.6, zorder=2.6, gid="detector")
    )
    if not scene.fan:
        return
    for letter, side, depth in (("R", 1, 0.0), ("D", -1, -scene.behind)):
        # A dimension line beside the beam, from the source to a depth along the central ray.
        aside = side * scene.aside * scene.along
        start, end = scene.orbit * scene.outward, depth * scene.outward
        thin = [np.array([point + 0.03 * aside, point + 1.06 * aside]) for point in (start, end)]
        axes.add_collection(LineCollection(thin, colors=_GREY, linewidths=0.4, zorder=1.5))
        arrow = {"arrowstyle": "<|-|>", "color": _GREY, "shrinkA": 0, "shrinkB": 0, "lw": 0.6}
        axes.annotate("", tuple(end + aside), tuple(start + aside), arrowprops=arrow, zorder=1.6)
        x, y = (start + end) / 2 + aside
        word: dict[str, Any] = {"ha": "center", "va": "center", "size": 9.5, "style": "italic"}
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axes.text(x, y, letter, bbox=behind, zorder=5, **word)


def _draw_beam(axes: Axes, scene: _Scene) -> None:
    """The first view's outer rays with what lies between them, and the one through the centre."""
    left, right, central = (scene.ray(at) for at in (*scene.bin_edges[[0, -1]], 0.0))
    inside = np.array([*left, *right[::-1]])
    axes.add_patch(Polygon(inside, facecolor=_FIRST, alpha=0.09, linewidth=0, zorder=1.1))
    outer = LineCollection([left, right], colors=_FIRST, linewidths=0.9, gid="outer-rays")
    axes.add_collection(outer)
    axes.plot(*central.T, color=_FIRST, linewidth=0.9, linestyle=(0, (5, 3)), gid="central-ray")


def _draw_image(axes: Axes, geometry: Any, *, grid: bool = True) -> None:
    """The image's outline, a grid of its pixels, the inscribed disc and what of it is missed."""
    height, width = geometry.image_size
    corner = (-width / 2, -height / 2)
    axes.add_patch(Rectangle(corner, width, height, facecolor="white", zorder=1.0))
    if grid:
        step = _grid_step(geometry) * geometry.pixel_spacing
        x, y = (
            np.arange(1, math.ceil(side / step - 1e-9)) * step - side / 2
            for side in (width, height)
        )
        line: dict[str, Any] = {"colors": _PALE, "linewidths": 0.4, "zorder": 1.05}
        axes.vlines(x, -height / 2, height / 2, **line)
        axes.hlines(y, -width / 2, width / 2, **line)
    axes.add_patch(
        Rectangle(corner, width, height, fill=False, edgecolor=_DARK, linewidth=0.9, gid="image")
    )
    dashed: dict[str, Any] = {"edgecolor": _DISC, "linewidth": 1.2, "linestyle": "--"}
    disc = Ellipse((0, 0), width, height, fill=False, zorder=2.2, **dashed)
    axes.add_patch(disc)
    if geometry.truncation > WORTH_SHADING:
        box = (-width / 2, width / 2, height / 2, -height / 2)
        shaded = axes.imshow(_missed(geometry), extent=box, zorder=1.2, gid="missed")
        shaded.set_clip_path(disc)


def _missed(geometry: Any) -> FloatArray:
    """The image's square in RGBA, as opaque as the share of views that miss each point."""
    height, width = geometry.image_size
    grid = ((np.arange(160) + 0.5) / 80 - 1) / 2
    x, y = np.meshgrid(grid * width, grid * height)
    chosen = np.unique(np.linspace(0, geometry.views_count - 1, _MOST_VIEWS).astype(int))
    picture = np.zeros((*x.shape, 4))
    picture[..., :3] = to_rgb(_MISSED)
    half = geometry.bins * geometry.bin_spacing / 2
    for view in chosen:
        position = geometry.detector_position(x, y, slice(view, view + 1))[0]
        outside = np.abs(position - geometry.detector_offset) > half
        picture[..., 3] += 0.8 * outside / len(chosen)
    return picture


def _grid_step(geometry: Any) -> int:
    """Pixels from one line of the grid to the next: a power of two, for few lines."""
    return int(2 ** max(0, math.ceil(math.log2(max(geometry.image_shape) / _MOST_GRID_LINES))))


def _frame(axes: Axes, reach: float, title: str) -> None:
    axes.set(xlim=(-reach, reach), ylim=(reach, -reach), aspect="equal", title=title)
    axes.set(xlabel="x in mm, along the columns →", ylabel="← y in mm, along the rows")
    axes.locator_params(nbins=6)
    axes.spines[["top", "right"]].set_visible(False)


def _head_and_foot(figure: Figure, scene: _Scene) -> None:
    """The title above, and the legend below with the distances as its head."""
    geometry = scene.geometry
    width = figure.get_figwidth()
    title = textwrap.wrap(_title(geometry), int(width * 11.2))
    figure.suptitle(
        "\n".join(title).replace("_", " "), x=0.12 / width, ha="left", size=9.5, weight="bold"
    )
    notes = []
    if scene.fan:
        notes.append(f"R = {geometry.source_to_center:.6g} mm from source to centre")
        notes.append(f"D = {geometry.source_to_detector:.6g} mm from source to detector")
    if geometry.detector_offset:
        notes.append(f"detector shifted by {geometry.detector_offset:.4g} mm")
    if not notes:
        notes.append("parallel rays; the detector is drawn just outside the image")
    step = _grid_step(geometry)
    spaced = "at every pixel" if step == 1 else f"every {step:,} pixels"
    views = Line2D([], [], color=_VIEWS, marker="o", linestyle="none", markersize=4)
    entries: dict[str, Any] = {
        "sources" if scene.fan else "views, by where their rays come from": views,
        "first view: outer rays, dashed: central": Patch(facecolor=(_FIRST, 0.3), edgecolor=_FIRST),
        "detector of the first view, bin by bin": Patch(facecolor=_DARK),
        f"{geometry.inscribed} inscribed in the image; a grid line {spaced}": Line2D(
            [], [], color=_DISC, linestyle="--"
        ),
    }
    if geometry.truncation > WORTH_SHADING:
        words = f"missed by the detector: {geometry.truncation:.1%} of the {geometry.inscribed}"
        entries[words] = Patch(facecolor=_MISSED, alpha=0.8)
    figure.legend(
        list(entries.values()),
        list(entries),
        title="\n".join(textwrap.wrap("; ".join(notes), int(width * 15))),
        alignment="left",
        loc="outside lower left",
        ncols=2 if width > 6 else 1,
        frameon=False,
    )
    # Laid out once and then left alone: laid out again with each file, no two would be the same.
    ConstrainedLayoutEngine().execute(figure)


def _title(geometry: Any) -> str:
    """One line; an underscore stands for a space at which it is not broken."""
    angles = np.degrees(geometry.angle_array)
    views = f"{geometry.views_count:,} view{'s' * (len(angles) > 1)}"
    if len(angles) == 1:
        views += f" at {angles[0]:.4g}°"
    elif geometry.angles:
        views += f" from {angles.min():.4g}° to {angles.max():.4g}°"
    else:
        views += f" over {math.degrees(geometry.scanned_arc):.4g}°"
    bins = f"{geometry.bins:,} bin{'s' * (geometry.bins > 1)} of {geometry.bin_spacing:.4g}_mm"
    rows, columns = geometry.image_shape
    pixels = f"{rows}_x_{columns}_pixels of {geometry.pixel_spacing:.4g}_mm"
    return f"{type(geometry).__name__}: {views}, {bins}, {pixels}"
