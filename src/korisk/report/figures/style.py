"""What all figures share: matplotlib's classes, colours, style, names as plain text, and files.

Figures are made without pyplot: they need no display and leave no global state. Where matplotlib
is missing, this is the one place that says so.
"""

import io
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

from korisk.errors import KoriskError
from korisk.files import figure_kind, write_bytes
from korisk.report.figures.ticks import MINUS, Ticks

try:
    import matplotlib
    import matplotlib.style
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap, Normalize, to_hex, to_rgb
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch
    from matplotlib.textpath import text_to_path
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
    from matplotlib.transforms import ScaledTranslation
except ModuleNotFoundError as error:
    raise KoriskError("a plot needs matplotlib; pip install 'korisk[report]'") from error

__all__ = [
    "DARK",
    "DPI",
    "ELL",
    "FINE",
    "GREY",
    "LARGE",
    "LEARNED",
    "LOOKS",
    "MEDIUM",
    "MINUS",
    "PAGE",
    "REST",
    "SIGMA",
    "SMALL",
    "TIMES",
    "Artist",
    "Axes",
    "Colormap",
    "ConstrainedLayoutEngine",
    "Entry",
    "FancyArrowPatch",
    "FancyBboxPatch",
    "Figure",
    "HandlerTuple",
    "Line2D",
    "Look",
    "Normalize",
    "Patch",
    "ScalarMappable",
    "ScaledTranslation",
    "axes_in",
    "colour_map",
    "colours",
    "digits",
    "fitted",
    "foot_height",
    "gridded",
    "inch_axes",
    "inches",
    "inches_of",
    "legend_below",
    "looks_of",
    "not_hidden",
    "pale",
    "plain",
    "save",
    "sheet",
    "shortened",
    "style",
    "thinned",
    "tick",
    "words_of",
    "wrapped",
]

Entry = tuple[Artist | tuple[Artist, ...], str]  # of a legend

DPI = 200
MOST_PANELS = 12  # of one figure; a longer one fits no page
PANEL_HEIGHT = 1.95  # inches, of a row of panels
PAGE = 7.0  # inches, across both columns of a page
FINE, SMALL, MEDIUM, LARGE = 6.5, 8.0, 9.0, 10.0  # points, of type
GREY, DARK = "#666666", "#222222"
ELL = "\N{SCRIPT SMALL L}"
SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
TIMES = "\N{MULTIPLICATION SIGN}"
LEARNED = "#009E73"  # layers that are trained; known ones are grey

_ROW = 9.3  # points, of a legend's rows
_LINE = 10.0  # points, of a note
_LETTER = 0.0525  # inches, the mean width of a letter of FINE type
# No dates in files, and the same names for the same shapes: the same figure gives the same file.
_METADATA: dict[str, dict[str, None]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # matplotlib brings it along: the same on every machine
    "font.size": SMALL,
    "axes.labelsize": MEDIUM,
    "axes.labelpad": 5.0,
    "axes.linewidth": 0.7,
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "korisk",
    "pdf.fonttype": 42,
}
_FINE_STYLE: dict[str, Any] = {  # of pages with many panels
    "font.size": FINE,
    "axes.labelsize": FINE,
    "axes.labelpad": 2.0,
    "axes.titlesize": SMALL,
    "axes.linewidth": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.pad": 2.0,
    "ytick.major.pad": 2.0,
}
_NO_GLYPH = r"Glyph \d+ .* missing from font"
_POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Look:
    """Colours of Okabe and Ito, which colour-blind readers tell apart; marks for grey prints."""

    colour: str
    marker: str
    face: str  # of the marker
    dashes: str  # of the extrapolation
    hatch: str
    pale: str  # the hatch's colour

    def mark(self, marker: str = "", size: float = 5.0) -> dict[str, Any]:
        """A marker of this look, for a line without a line."""
        return {
            "marker": marker or self.marker,
            "markersize": size,
            "markerfacecolor": self.face,
            "color": self.colour,
            "linestyle": "none",
        }


def pale(colour: str, share: float = 0.65) -> str:
    """A colour mixed with white, for what must not be transparent."""
    red, green, blue = (share + (1 - share) * part for part in to_rgb(colour))
    return to_hex((red, green, blue))


def _look(colour: str, marker: str, dashes: str, hatch: str, *, filled: bool) -> Look:
    return Look(colour, marker, colour if filled else "white", dashes, hatch, pale(colour))


LOOKS = (
    Look("#0072B2", "o", "#0072B2", "--", "////", "#A6CDE4"),
    Look("#D55E00", "s", "white", "-.", "\\\\\\\\", "#F0C3A0"),
    _look("#009E73", "^", ":", "||||", filled=True),
    _look("#CC79A7", "D", "--", "----", filled=False),
    _look("#E69F00", "v", "-.", "xxxx", filled=True),
    _look("#56B4E9", "P", ":", "++++", filled=False),
    _look("#000000", "X", "--", "....", filled=True),
    _look("#F0E442", "p", "-.", "oooo", filled=True),
)
REST = _look("#999999", ".", "-", "", filled=True)  # of models beyond those
_RESERVED = {"KO": LOOKS[0], "FC": LOOKS[1]}


def looks_of(models: Iterable[str]) -> dict[str, Look]:
    """A look for each model: KO and FC have their own, the rest take what is left, then grey."""
    names = list(dict.fromkeys(models))
    taken = {name: look for name, look in _RESERVED.items() if name in names}
    free = iter([look for look in LOOKS if look not in taken.values()])
    return {name: taken.get(name) or next(free, REST) for name in names}


@contextmanager
def style(*, fine: bool = False) -> Iterator[None]:
    """Our own style whatever the user's is, and no word about letters that the font lacks."""
    chosen: list[str | dict[str, Any]]
    chosen = ["default", _STYLE, _FINE_STYLE] if fine else ["default", _STYLE]
    with warnings.catch_warnings(), matplotlib.style.context(chosen):
        warnings.filterwarnings("ignore", message=_NO_GLYPH)
        yield


def save(figure: Figure, path: str | PathLike[str]) -> None:
    """Write a figure as png, svg or pdf, by the file's suffix: whole, or not at all."""
    kind = figure_kind(path)
    content = io.BytesIO()
    with style():
        figure.savefig(content, format=kind, dpi=DPI, metadata=_METADATA[kind])
    write_bytes(path, content.getvalue())


# --- Pages of panels -----------------------------------------------------------------------------

# Inches around the axes of a panel: left, right, bottom, top.
Margins = tuple[float, float, float, float]


def sheet(
    panels: int, margins: Margins, *, height: float, foot: float
) -> tuple[Figure, list[Axes]]:
    """Axes three a row, over a strip of `foot` inches; one alone is a column wide."""
    across = min(panels, 3)
    width = 3.4 if panels == 1 else PAGE
    rows = math.ceil(panels / 3)
    tall = rows * height + foot
    figure = Figure(figsize=(width, tall), dpi=DPI)
    cell = width / across
    left, right, bottom, top = margins
    made = []
    for index in range(panels):
        x, y = (index % 3) * cell, tall - (index // 3 + 1) * height
        box = x + left, y + bottom, cell - left - right, height - bottom - top
        made.append(axes_in(figure, box))
    return figure, made


def axes_in(figure: Figure, box: Sequence[float]) -> Axes:
    """Axes in a box of inches: left, bottom, width, height."""
    width, height = figure.get_size_inches()
    left, bottom, across, up = box
    return figure.add_axes((left / width, bottom / height, across / width, up / height))


def inch_axes(figure: Figure) -> Axes:
    """Axes over the whole figure whose unit is the inch, without a frame."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    return axes


def inches(axes: Axes) -> tuple[float, float]:
    """The width and height of axes."""
    box = axes.get_window_extent()
    return box.width / DPI, box.height / DPI


def colour_map(name: str) -> Colormap:
    """One of matplotlib's maps, with yellow for what is not a number."""
    return matplotlib.colormaps[name].with_extremes(bad="#F0E442")


def colours(
    figure: Figure, box: Sequence[float], mappable: ScalarMappable, label: str, **options: Any
) -> None:
    """A colour bar in a box of inches, with few ticks."""
    bar = figure.colorbar(mappable, cax=axes_in(figure, box), **options)
    bar.outline.set_linewidth(0.5)
    bar.set_label(label, fontsize=FINE, parse_math=False)
    bar.ax.tick_params(labelsize=FINE, length=2, width=0.5)
    bar.ax.locator_params(nbins=5)


def gridded(axes: Axes) -> None:
    """A pale grid behind, and no frame above and on the right."""
    axes.grid(color="#e3e3e3", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def tick(axis: Axis, ticks: Ticks) -> None:
    """Exactly these ticks on an axis."""
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FixedFormatter(list(ticks.values())))
    axis.set_minor_locator(NullLocator())


def thinned(ticks: Ticks, inches: float) -> Ticks:
    """Every k-th tick, so that the labels have room on an axis of that length."""
    widest = max((len(_bare(label)) for label in ticks.values()), default=1)
    room = max(2, int(inches / (_LETTER * (widest + 1.5))))
    step = math.ceil(len(ticks) / room)
    return dict(list(ticks.items())[::step])


def _bare(label: str) -> str:
    return label.strip("$").replace(r"\times", TIMES).replace("^", "").strip("{}")


def _columns(entries: Sequence[Entry], width: float) -> int:
    longest = max((inches_of(label) for _, label in entries), default=0.1)
    return max(1, min(int((width - 0.1) / (0.45 + longest)), len(entries)))


def foot_height(entries: Sequence[Entry], notes: Sequence[str], width: float) -> float:
    """The inches that `legend_below` takes."""
    rows = math.ceil(len(entries) / _columns(entries, width)) if entries else 0
    return (rows * _ROW + len(_lines(notes, width)) * _LINE + 8.0) / 72


def _lines(notes: Sequence[str], width: float) -> list[str]:
    return [line for note in notes for line in wrapped(note, width - 0.16)]


def legend_below(figure: Figure, entries: Sequence[Entry], notes: Sequence[str]) -> None:
    """A legend for the whole figure along its lower edge, and under it a few lines of words."""
    width, height = figure.get_size_inches()
    lines = _lines(notes, width)
    for place, line in enumerate(reversed(lines)):
        y = (4 + _LINE * place) / 72 / height
        figure.text(0.08 / width, y, line, color=GREY, fontsize=FINE, parse_math=False)
    if not entries:
        return
    handles, labels = zip(*entries, strict=True)
    made = figure.legend(
        handles,
        [not_hidden(fitted(label, width - 0.55)) for label in labels],
        loc="lower left",
        bbox_to_anchor=(0.08 / width, (4 + _LINE * len(lines)) / 72 / height),
        ncols=_columns(entries, width),
        handler_map={tuple: HandlerTuple(ndivide=1)},
        fontsize=FINE,
        handlelength=2.4,
        handletextpad=0.6,
        columnspacing=1.4,
        labelspacing=0.35,
        borderaxespad=0,
        borderpad=0,
        frameon=False,
    )
    for text in made.get_texts():
        text.set_parse_math(False)


# --- Names and numbers as plain text -------------------------------------------------------------


def plain(name: str) -> str:
    """A name from a file in one line, without characters that cannot be drawn."""
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())


def shortened(name: str, most: int = 36) -> str:
    """A name of at most so many letters, with an ellipsis where it had more."""
    return name if len(name) <= most else name[: most - 1] + "…"


def inches_of(text: str, size: float = FINE, *, bold: bool = False) -> float:
    """The width of a line of type."""
    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_NO_GLYPH)
        width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def fitted(name: str, inches: float, size: float = FINE, *, bold: bool = False) -> str:
    """A name from a file in one line, with an ellipsis where it takes more room than that."""
    text = shortened(plain(name), 400)
    if inches_of(text, size, bold=bold) <= inches:
        return text
    low, high = 0, len(text)  # so many letters fit, so many do not
    while high - low > 1:
        middle = (low + high) // 2
        fits = inches_of(text[:middle] + "…", size, bold=bold) <= inches
        low, high = (middle, high) if fits else (low, middle)
    return text[:low] + "…"


def wrapped(text: str, inches: float, size: float = FINE) -> list[str]:
    """Words in lines of at most that length; a word that is longer loses its end."""
    lines: list[str] = []
    for word in plain(text).split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and inches_of(longer, size) <= inches:
            lines[-1] = longer
        else:
            lines.append(fitted(word, inches, size))
    return lines


def not_hidden(label: str) -> str:
    """A label that a legend shows."""
    return f" {label}" if label.startswith("_") else label  # as matplotlib would such a label


def digits(value: float, figures: int = 3) -> str:
    """A number with so many significant digits, in letters that need no mathtext."""
    if not math.isfinite(value):
        return "not finite" if math.isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    short = float(f"{value:.{figures}g}")
    if short == 0:
        return "0"
    power = math.floor(math.log10(abs(short)))
    if -4 <= power < 6:
        text = f"{short:,.{max(0, figures - 1 - power)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return text.replace("-", MINUS)
    mantissa = f"{short / 10.0**power:.{figures - 1}f}".rstrip("0").rstrip(".")
    factor = "" if mantissa == "1" else f"{mantissa}{TIMES}"
    return f"{factor}10{str(power).translate(_POWERS)}".replace("-", MINUS)


def words_of(counts: Mapping[str, int]) -> str:
    """Several counts in words, those of nothing left out: `2 models and 1 size`."""
    told = [
        f"{count} {noun}{'s' if count > 1 else ''}" for noun, count in counts.items() if count > 0
    ]
    return " and ".join([", ".join(told[:-1]), told[-1]] if len(told) > 1 else told)
