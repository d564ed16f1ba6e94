"""Colours, type, names and numbers as plain text, and files: what all figures share."""

import io
import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

import matplotlib.style
from matplotlib.colors import Colormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from korisk.files import figure_kind, write_bytes

Options = dict[str, Any]  # of matplotlib's functions

DPI = 200
PAGE, COLUMN = 7.0, 3.4  # inches: across both columns of a page, and across one
FINE, SMALL, MEDIUM, LARGE = 6.5, 8.0, 9.0, 10.0  # points, of type
GREY, DARK = "#666666", "#222222"
ELL = "\N{SCRIPT SMALL L}"
SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"
LEARNED, LEARNED_TEXT = "#009E73", "#006B4E"  # layers that are trained; known ones are grey

# No dates in files, and the same names for the same shapes: the same figure gives the same file.
_METADATA: dict[str, dict[str, None]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
_SETTINGS: Options = {
    "font.family": "DejaVu Sans",  # matplotlib brings it along: the same on every machine
    "font.size": SMALL,
    "axes.labelsize": MEDIUM,
    "axes.labelpad": 5.0,
    "axes.linewidth": 0.7,
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "korisk",
    "text.parse_math": False,  # names come from files
    "pdf.fonttype": 42,
}
_FINE_SETTINGS: Options = {  # of pages with many panels
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
_YELLOW = "#F0E442"


@dataclass(frozen=True)
class Look:
    """Colours of Okabe and Ito, which colour-blind readers tell apart; marks for grey prints."""

    colour: str
    marker: str
    dashes: str  # of the extrapolation
    hatch: str
    filled: bool = True  # the marker

    @property
    def text_colour(self) -> str:
        """The colour for words; yellow letters cannot be read."""
        return DARK if self.colour == _YELLOW else self.colour

    def mark(self, marker: str = "", size: float = 5.0) -> Options:
        """Options of `Axes.plot` for markers without a line."""
        return {
            "marker": marker or self.marker,
            "markersize": size,
            "markerfacecolor": self.colour if self.filled else "white",
            "color": self.colour,
            "linestyle": "none",
        }


LOOKS = (
    Look("#0072B2", "o", "--", "////"),
    Look("#D55E00", "s", "-.", "\\\\\\\\", filled=False),
    Look("#009E73", "^", ":", "||||"),
    Look("#CC79A7", "D", "--", "----", filled=False),
    Look("#E69F00", "v", "-.", "xxxx"),
    Look("#56B4E9", "P", ":", "++++", filled=False),
    Look("#000000", "X", "--", "...."),
    Look(_YELLOW, "p", "-.", "oooo"),
)
REST = Look("#999999", ".", "-", "")  # of models beyond those


def looks_of(models: Iterable[str]) -> dict[str, Look]:
    """A look for each model: KO and FC have their own, the rest take what is left, then grey."""
    names = list(dict.fromkeys(models))
    taken = {name: look for name, look in zip(("KO", "FC"), LOOKS, strict=False) if name in names}
    free = iter([look for look in LOOKS if look not in taken.values()])
    return {name: taken.get(name) or next(free, REST) for name in names}


def pale(colour: str, share: float = 0.65) -> str:
    """A colour mixed with white, for what must not be transparent."""
    red, green, blue = (share + (1 - share) * part for part in to_rgb(colour))
    return to_hex((red, green, blue))


def colour_map(name: str) -> Colormap:
    """One of matplotlib's maps, with yellow for what is not a number."""
    return matplotlib.colormaps[name].with_extremes(bad=_YELLOW)


@contextmanager
def settings(*, fine: bool = False) -> Iterator[None]:
    """Our own settings whatever the user's are; no warning about letters that the font lacks."""
    chosen: list[str | dict[str, Any]] = ["default", _SETTINGS, _FINE_SETTINGS if fine else {}]
    with warnings.catch_warnings(), matplotlib.style.context(chosen):
        warnings.filterwarnings("ignore", message=_NO_GLYPH)
        yield


def save(figure: Figure, path: str | PathLike[str]) -> None:
    """Write a figure as png, svg or pdf, by the file's suffix: whole, or not at all."""
    kind = figure_kind(path)
    content = io.BytesIO()
    with settings():
        figure.savefig(content, format=kind, dpi=DPI, metadata=_METADATA[kind])
    write_bytes(path, content.getvalue())


# --- Names and numbers as plain text -------------------------------------------------------------


def plain(name: str) -> str:
    """A name from a file in one line, without characters that cannot be drawn."""
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())


def inches_of(text: str, size: float = FINE, *, bold: bool = False) -> float:
    """The width of a line of type."""
    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_NO_GLYPH)
        width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def fitted(name: str, inches: float, size: float = FINE, *, bold: bool = False) -> str:
    """A name from a file in one line, shortened with an ellipsis to a width in inches."""
    text = plain(name)[:200]
    if inches_of(text, size, bold=bold) <= inches:
        return text
    fits = [k for k in range(1, len(text)) if inches_of(f"{text[:k]}…", size, bold=bold) <= inches]
    return text[: max(fits, default=0)] + "…"


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


def digits(value: float, figures: int = 3, *, powers: bool = False) -> str:
    """A number with so many significant digits, in letters that need no mathtext.

    It has a power of ten if it is small or large, or if `powers` is set.
    """
    if not math.isfinite(value):
        return "not finite" if math.isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    short = float(f"{value:.{figures}g}")
    if short == 0:
        return "0"
    power = math.floor(math.log10(abs(short)))
    if -4 <= power < 6 and not powers:
        text = f"{short:,.{max(0, figures - 1 - power)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return text.replace("-", MINUS)
    mantissa = f"{short / 10.0**power:.{figures - 1}f}".rstrip("0").rstrip(".")
    factor = "" if mantissa == "1" else f"{mantissa}{TIMES}"
    return f"{factor}10{str(power).translate(_POWERS)}".replace("-", MINUS)
