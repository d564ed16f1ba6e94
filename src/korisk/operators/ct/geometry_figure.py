"""A figure of a scanner: image, views, detector and the first view's beam, to scale in millimetres.

Made without pyplot: no display is needed and no global state changes. y runs downwards with the row
index, so the figure shows the image as `imshow` would. `Geometry.plot` imports this module, so it
takes geometries as they are, without importing their classes.
"""

import io
import math
import textwrap
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from korisk.errors import needed_by
from korisk.files import figure_kind, write_bytes

with needed_by("a plot", "matplotlib", "'korisk[report]'"):
    import matplotlib.style
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, Ellipse, Patch, Polygon, Rectangle

FloatArray = NDArray[np.float64]
Scan = Any  # a ParallelBeam or a FanBeam
Cone = Any  # a ConeBeam

DPI = 200
WORTH_SHADING = 0.005  # share of the disc that the detector misses

_SIDE = 4.6  # inches, of a panel
_MAGNIFY_BELOW = 0.22  # a smaller part of the figure than this gets a panel of its own
_ARC_POINTS = 33  # of a curved detector
_SLICES_DRAWN = 8  # lines that stand for the slices, seen from the side
_MOST_VIEWS = 60  # that the missed part is averaged over

# Colours of Okabe and Ito, which colour-blind readers tell apart.
_VIEWS, _FIRST, _DISC, _MISSED = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_PALE, _DARK = "#d0d0d0", "#222222"
_STYLE = {
    "font.family": "DejaVu Sans",  # matplotlib brings it along: the same on every machine
    "font.size": 8.0,
    "axes.linewidth": 0.7,
    "axes.titlesize": 8.0,
    "svg.hashsalt": "korisk",
    "pdf.fonttype": 42,
}
_UNDATED: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def draw_geometry(
    geometry: Scan, path: str | PathLike[str] | None = None, *, cone: Cone | None = None
) -> Axes:
    """Draw a `ParallelBeam` or `FanBeam`; write it to `path` (.png, .svg or .pdf) if given.

    A second panel magnifies the image where the source is far away. With `cone`, the `ConeBeam`
    whose central slice `geometry` is, it shows the first view from the side. Returns the Axes that
    shows the whole scanner; `.figure` of it has both panels.
    """
    kind = None if path is None else figure_kind(path)
    fan = hasattr(geometry, "source_to_center")
    ends = geometry.offsets[[0, -1]] + np.array([-0.5, 0.5]) * geometry.bin_spacing
    half_detector, radius = float(np.abs(ends).max()), math.hypot(*geometry.image_size) / 2
    if fan:
        orbit = geometry.source_to_center  # the radius on which views are marked
        behind = geometry.source_to_detector - orbit  # from centre to detector
    else:  # parallel views get a circle to stand on
        around = max(radius, 0.8 * half_detector)
        orbit, behind = 1.5 * around, 1.15 * around
    # Half of the side of the square that holds everything.
    reach = 1.1 * math.hypot(half_detector, max(orbit, abs(behind)))
    with matplotlib.style.context(["default", _STYLE]):
        # An image that is small beside the scanner gets a panel of its own.
        close_up = cone is not None or max(geometry.image_size) < _MAGNIFY_BELOW * 2 * reach
        size = (2 * _SIDE, _SIDE + 0.9) if close_up else (_SIDE + 0.4, _SIDE + 1.3)
        figure = Figure(figsize=size, dpi=DPI)
        axes = figure.add_subplot(1, 1 + close_up, 1)
        first = geometry.angle_array[0]
        outward = np.array([-math.sin(first), math.cos(first)])  # to the first view's source
        along = np.array([math.cos(first), math.sin(first)])  # its detector
        _draw_views(axes, geometry.angle_array, orbit)

        def arrival(offsets: FloatArray) -> FloatArray:
            """Points of the detector, (..., 2)."""
            if not getattr(geometry, "curved", False):
                return np.asarray(offsets[..., None] * along - behind * outward)
            turned = offsets[..., None] / geometry.source_to_detector
            arc = np.sin(turned) * along - np.cos(turned) * outward
            return np.asarray(orbit * outward + geometry.source_to_detector * arc)

        corners = _ARC_POINTS if getattr(geometry, "curved", False) else 2
        near = arrival(np.linspace(float(ends[0]), float(ends[1]), corners))
        far = near - 0.022 * reach * outward
        axes.add_patch(Polygon([*near, *far[::-1]], facecolor=_DARK, zorder=2.5, gid="detector"))
        # The first view's outer rays and the central one, from the source through the image.
        offsets = np.array([*ends, 0.0])
        # Parallel rays start side by side, a fan's at one point.
        sources = orbit * outward + (0.0 if fan else 1.0) * offsets[:, None] * along
        # Rays end at the detector, or behind the image where that is further.
        drawn = (orbit + max(behind, 1.05 * radius)) / (orbit + behind)
        arrived = sources + drawn * (arrival(offsets) - sources)
        beam = np.stack([sources, arrived], axis=1)
        _draw_inside(axes, geometry, beam)
        above = "the scanner" if cone is None else "from above: a slice, and the detector's columns"
        _frame(axes, reach, above if close_up else "")
        if cone is not None:
            _draw_side(figure.add_subplot(1, 2, 2), cone)
        elif close_up:
            panel = figure.add_subplot(1, 2, 2)
            _draw_inside(panel, geometry, beam)
            _frame(panel, 0.62 * max(geometry.image_size), "its image, magnified")
        _add_words(figure, geometry, fan, cone)
        if path is not None and kind is not None:
            content = io.BytesIO()
            figure.savefig(content, format=kind, dpi=DPI, metadata=_UNDATED.get(kind, {}))
            write_bytes(path, content.getvalue())
    return axes


def _draw_side(axes: Axes, cone: Cone) -> None:
    """Draw the first view from the side: z upwards, the central ray to the right."""
    depth = cone.image_size[0]
    half = max(cone.image_size[1:]) / 2
    source, screen = cone.source_to_center, cone.source_to_detector
    height = float(cone.source_heights[0])
    box = Rectangle((source - half, -depth / 2), 2 * half, depth, facecolor="white")
    box.set(edgecolor=_DARK, linewidth=0.9, gid="volume")
    axes.add_patch(box)
    for share in np.linspace(-0.5, 0.5, _SLICES_DRAWN + 1)[1:-1] * depth:
        axes.plot([source - half, source + half], [share, share], color=_PALE, linewidth=0.6)
    edges = cone.row_offsets[[0, -1]] + np.array([-0.5, 0.5]) * cone.row_spacing
    low, high = height + edges
    beam = [(0, height), (screen, low), (screen, high)]
    axes.add_patch(Polygon(beam, facecolor=_FIRST, alpha=0.09, edgecolor=_FIRST, linewidth=0.9))
    axes.plot([0, screen], [height] * 2, color=_FIRST, linewidth=0.9, linestyle=(0, (5, 3)))
    axes.plot([screen] * 2, [low, high], color=_DARK, linewidth=3, gid="rows")
    axes.plot([source] * 2, [-0.75 * depth, 0.75 * depth], color=_VIEWS, linewidth=0.9)
    words = partial(axes.annotate, textcoords="offset points", va="center", size=7.5)
    words("axis of\nrotation", (source, 0.75 * depth), xytext=(4, -2), color=_VIEWS)
    words("slices ↑", (source - half, 0.3 * depth), xytext=(-4, 0), ha="right")
    words("rows ↑", (screen, 0.8 * high), xytext=(-5, 0), ha="right")
    if cone.pitch:
        heights = cone.source_heights
        axes.plot(np.zeros(len(heights)), heights, ".", color=_VIEWS, markersize=2, gid="helix")
    axes.plot([0], [height], "o", color=_FIRST, markersize=6.5, markeredgewidth=0)
    axes.set(xlabel="mm from the source along the central ray →", ylabel="z in mm, with slices →")
    axes.set(title="from the side: slices, and the detector's rows", aspect="equal")
    axes.set_adjustable("datalim")
    axes.margins(0.06)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_views(axes: Axes, angles: FloatArray, orbit: float) -> None:
    """Mark each view, and draw an arrow in the direction of rotation."""
    axes.add_patch(Circle((0, 0), orbit, fill=False, edgecolor=_PALE, linewidth=0.6))
    x, y = -orbit * np.sin(angles), orbit * np.cos(angles)
    mark = partial(axes.plot, marker="o", linestyle="none", markeredgewidth=0)
    size = min(4.0, max(1.2, 240 / len(angles)))
    mark(x, y, color=_VIEWS, markersize=size, gid="views", zorder=3)
    mark(x[:1], y[:1], color=_FIRST, markersize=6.5, gid="first-view", zorder=4)
    turns = np.diff(angles)[np.diff(angles) != 0]
    if len(turns):
        sense = math.copysign(1.0, turns[0])
        begin, end = (
            (-1.05 * orbit * math.sin(angle), 1.05 * orbit * math.cos(angle))
            for angle in (angles[0] + 0.09 * sense, angles[0] + 0.42 * sense)
        )
        bent = f"arc3,rad={-0.08 * sense}"
        arrow = {"arrowstyle": "-|>", "color": _FIRST, "connectionstyle": bent}
        axes.annotate("", end, begin, arrowprops=arrow)


def _draw_inside(axes: Axes, geometry: Scan, beam: FloatArray) -> None:
    """Draw the image, the inscribed ellipse, the part that is missed and the first view's beam."""
    height, width = geometry.image_size
    corner = (-width / 2, -height / 2)
    frame = Rectangle(corner, width, height, facecolor="white", edgecolor=_DARK, linewidth=0.9)
    frame.set_gid("image")
    axes.add_patch(frame)
    disc = Ellipse((0, 0), width, height, fill=False, edgecolor=_DISC, linewidth=1.2)
    disc.set(linestyle="--", zorder=2.2)
    axes.add_patch(disc)
    if geometry.truncation > WORTH_SHADING:
        box = (-width / 2, width / 2, height / 2, -height / 2)
        shaded = axes.imshow(_missed(geometry), extent=box, zorder=1.2, gid="missed")
        shaded.set_clip_path(disc)
    lowest, highest, central = beam
    inside = np.array([*lowest, *highest[::-1]])
    axes.add_patch(Polygon(inside, facecolor=_FIRST, alpha=0.09, linewidth=0, zorder=1.1))
    outer = LineCollection([lowest, highest], colors=_FIRST, linewidths=0.9, gid="outer-rays")
    axes.add_collection(outer)
    axes.plot(*central.T, color=_FIRST, linewidth=0.9, linestyle=(0, (5, 3)))


def _missed(geometry: Scan) -> FloatArray:
    """RGBA picture of the image whose opacity is the share of views that miss each point."""
    height, width = geometry.image_size
    grid = ((np.arange(160) + 0.5) / 80 - 1) / 2
    x, y = np.meshgrid(grid * width, grid * height)
    every = slice(None, None, -(-geometry.views_count // _MOST_VIEWS))
    position = geometry.detector_position(x, y, every)
    beyond = np.abs(position - geometry.detector_offset) > geometry.bins * geometry.bin_spacing / 2
    picture = np.empty((*x.shape, 4))
    picture[..., :3] = to_rgb(_MISSED)
    picture[..., 3] = 0.8 * beyond.mean(axis=0)
    return picture


def _frame(axes: Axes, reach: float, title: str) -> None:
    axes.set(xlim=(-reach, reach), ylim=(reach, -reach), aspect="equal", title=title)
    axes.set(xlabel="x in mm, along the columns →", ylabel="← y in mm, along the rows")
    axes.locator_params(nbins=6)
    axes.spines[["top", "right"]].set_visible(False)


def _add_words(figure: Figure, geometry: Scan, fan: bool, cone: Cone | None) -> None:
    """Add the title, and below the panels a legend with the distances."""
    scan = geometry if cone is None else cone
    angles = np.degrees(scan.angle_array)
    scanned = f"from {angles.min():.4g}° to {angles.max():.4g}°"
    if not scan.angles:
        scanned = f"over {math.degrees(scan.scanned_arc):.4g}°"
    rows, columns = geometry.image_shape
    # An underscore stands for a space at which the title is not broken.
    views = f"{geometry.views_count:,} view{'s' * (len(angles) > 1)} {scanned}"
    bins = f"{geometry.bins:,} bin{'s' * (geometry.bins > 1)} of {geometry.bin_spacing:.4g}_mm"
    pixels = f"{rows}_x_{columns}_pixels of {geometry.pixel_spacing:.4g}_mm"
    title = f"{type(geometry).__name__}: {views}, {bins}, {pixels}"
    if cone is not None:
        high, wide = cone.detector_shape
        bins = f"{high}_rows_x_{wide}_columns of {cone.row_spacing:.4g}_x_{cone.bin_spacing:.4g}_mm"
        sides = "_x_".join(map(str, cone.image_shape))
        voxels = f"{sides}_voxels of {cone.slice_spacing:.4g}_x_{cone.pixel_spacing:.4g}_mm"
        title = f"{type(cone).__name__}: {views}, {bins}, {voxels}"
    notes = ["parallel rays; the detector is drawn just outside the image"]
    if fan:
        notes = [f"{geometry.source_to_center:.6g} mm from source to centre"]
        notes.append(f"{geometry.source_to_detector:.6g} mm from source to detector")
    if cone is not None and cone.pitch:
        notes.append(f"{cone.pitch:.4g} mm along z in a turn")
    if geometry.detector_offset:
        notes.append(f"detector shifted by {geometry.detector_offset:.4g} mm")
    mark = Line2D([], [], color=_VIEWS, marker="o", linestyle="none", markersize=4)
    entries: dict[str, Artist] = {
        "sources" if fan else "views, by where their rays come from": mark,
        "first view: outer rays, dashed: central": Patch(facecolor=(_FIRST, 0.3), edgecolor=_FIRST),
        "detector of the first view": Patch(facecolor=_DARK),
        f"{geometry.inscribed} inscribed in the image": Line2D([], [], color=_DISC, linestyle="--"),
    }
    if geometry.truncation > WORTH_SHADING:
        words = f"missed by the detector: {geometry.truncation:.1%} of the {geometry.inscribed}"
        entries[words] = Patch(facecolor=_MISSED, alpha=0.8)
    width = figure.get_figwidth()
    lines = "\n".join(textwrap.wrap(title, int(width * 11.2))).replace("_", " ")
    figure.suptitle(lines, x=0.12 / width, ha="left", size=9.5, weight="bold")
    head = "\n".join(textwrap.wrap("; ".join(notes), int(width * 15)))
    legend = partial(figure.legend, title=head, alignment="left", frameon=False)
    place, ncols = "outside lower left", 2 if width > 6 else 1
    legend([*entries.values()], [*entries], loc=place, ncols=ncols)
    # Laid out once and then left alone: laid out again with each file, no two would be the same.
    ConstrainedLayoutEngine().execute(figure)
