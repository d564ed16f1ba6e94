"""What all figures share: colours, type, names and numbers as text, and files."""

import hashlib
import io
import math
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from itertools import product
from os import PathLike

import matplotlib.style
import yaml
from matplotlib.colors import Colormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from korisk._json import JsonDict
from korisk.files import figure_kind, write_bytes
from korisk.planning.words import MEANINGS

Options = JsonDict  # of matplotlib's functions

DPI = 200
PAGE, COLUMN = 7.0, 3.4  # inches; width of two columns of print, and of one
FINE, SMALL, LARGE = 6.5, 8.0, 10.0  # sizes of type in points
GREY, DARK = "#666666", "#222222"
_PAPER = "#17191c"  # of a dark page, as in theme.yaml
SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"
LEARNED, LEARNED_TEXT = "#009E73", "#006B4E"  # layers that are trained; known ones are grey

# No dates in files: the same figure gives the same file.
_METADATA: dict[str, dict[str, None]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
_SETTINGS = ("korisk.report.figures.plain", "korisk.report.figures.fine")  # files beside this one
_OPERATOR = re.compile(r"(?<!\w)([A-Z])\^(T|H|\+|-1)(?!\w)")  # A^T, A^+: raised in figures
_NO_GLYPH = r"Glyph \d+ .* missing from font"
_POWERS = str.maketrans("-+0123456789TH", "⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹ᵀᴴ")
_YELLOW = "#F0E442"
PALE_BOX = 0.72  # share of the background in the colour of a box


@dataclass(frozen=True)
class Look:
    """Colour of Okabe and Ito, distinct for colour-blind readers, and a mark for grey prints."""

    colour: str
    marker: str
    hatch: str  # of a forecast's band
    filled: bool = True  # the marker

    @property
    def text_colour(self) -> str:
        """Colour of text; yellow text would be unreadable."""
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
    Look("#0072B2", "o", "////"),
    Look("#D55E00", "s", "\\\\\\\\", filled=False),
    Look("#009E73", "^", "||||"),
    Look("#CC79A7", "D", "----", filled=False),
    Look("#E69F00", "v", "xxxx"),
    Look("#56B4E9", "P", "++++", filled=False),
    Look("#000000", "X", "...."),
    Look(_YELLOW, "p", "oooo"),
)
REST = Look("#999999", ".", "")  # of further models


def looks_of(models: Iterable[str]) -> dict[str, Look]:
    """A look for each model: KO and FC have fixed ones, others the next free one, then grey."""
    names = list(dict.fromkeys(models))
    fixed = {name: look for name, look in zip(("KO", "FC"), LOOKS, strict=False) if name in names}
    free = iter([look for look in LOOKS if look not in fixed.values()])
    return {name: fixed.get(name) or next(free, REST) for name in names}


def pale(colour: str, share: float = 0.65, paper: str = "white") -> str:
    """Mix a colour with that of the background, for marks that must be opaque."""
    channels = zip(to_rgb(colour), to_rgb(paper), strict=True)
    red, green, blue = ((1 - share) * ink + share * background for ink, background in channels)
    return to_hex((red, green, blue))


def colour_map(name: str) -> Colormap:
    """A colour map of Matplotlib, with yellow for NaN."""
    return matplotlib.colormaps[name].with_extremes(bad=_YELLOW)


@contextmanager
def settings(*, fine: bool = False) -> Iterator[None]:
    """Use our settings whatever the user's are, without warnings about missing glyphs."""
    styles = ["default", *_SETTINGS[: 1 + fine]]
    with warnings.catch_warnings(), matplotlib.style.context(styles):
        warnings.filterwarnings("ignore", message=_NO_GLYPH)
        yield


def save(figure: Figure, path: str | PathLike[str]) -> None:
    """Write a figure as png, svg or pdf, by the suffix of the file, completely or not at all."""
    kind = figure_kind(path)
    content = io.BytesIO()
    with settings():
        figure.savefig(content, format=kind, dpi=DPI, metadata=_METADATA[kind])
    write_bytes(path, content.getvalue())


# --- Figures in pages, which follow the theme ----------------------------------------------------


@cache
def _theme() -> dict[str, tuple[str, str]]:
    """Colours of `theme.yaml`, and their mixtures with the background."""
    text = files("korisk.report.figures").joinpath("theme.yaml").read_text(encoding="utf-8")
    theme: dict[str, tuple[str, str]] = yaml.safe_load(text)
    # Bands and boxes are mixtures with the background, which differs in the dark theme.
    for (colour, (name, dark)), share in product(list(theme.items()), (0.65, PALE_BOX)):
        mixed = f"{name}-{share:.0%}".rstrip("%"), pale(dark, share, _PAPER)
        theme.setdefault(pale(colour, share), mixed)
    return theme


def _theme_css() -> str:
    light = "".join(f"--k-{name}:{colour};" for colour, (name, _) in _theme().items())
    dark = "".join(f"--k-{name}:{colour};" for name, colour in _theme().values())
    root = ".k-figure"
    light_pages = '[data-theme="light"]', '[data-jp-theme-light="true"]', ".vscode-light"
    dark_pages = '[data-theme="dark"]', '[data-jp-theme-light="false"]', ".vscode-dark"
    return (
        f"{root}{{display:block;width:100%;height:auto;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{{root}{{{dark}}}}}\n"
        f"{','.join(f'{page} {root}' for page in light_pages)}{{{light}}}\n"
        f"{','.join(f'{page} {root}' for page in dark_pages)}{{{dark}}}\n"
        f"@media print{{html {root},[data-theme] {root}{{{light}}}}}\n"
    )


THEME_CSS = _theme_css()  # once in a page that has figures of `themed_svg`


def themed_svg(figure: Figure, *, words: str) -> str:
    """A figure as an SVG element for a page: its colours follow the page's light or dark theme."""
    content = io.BytesIO()
    with settings(), matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(content, format="svg", transparent=True, metadata=_METADATA["svg"])
    text = content.getvalue().decode()
    inner = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    # Remove what pages do not need: metadata, comments, spaces, digits and ids.
    inner = re.sub(r"\s*<(metadata|defs)>\s*<(rdf|style).*?</\1>", "", inner, flags=re.DOTALL)
    inner = re.sub(r"\s*<!--.*?-->|\s*transform=\"rotate\(-0 [^\"]*\"", "", inner, flags=re.DOTALL)
    inner = re.sub(r"(?<=>)\s+(?=<)", "", re.sub(r"\s+", " ", inner))
    coordinates = r'(?<= )(?:d|x|y|transform)="[^"]*"'  # rounded to 0.01 pt below
    inner = re.sub(coordinates, lambda match: re.sub(r"(\.\d\d)\d+", r"\1", match[0]), inner)
    inner = inner.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    # A page may hold several figures, whose ids must differ.
    prefix = "k" + hashlib.sha256(inner.encode()).hexdigest()[:8]
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', inner))
    inner = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", inner)
    inner = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", inner)

    def variable(match: re.Match[str]) -> str:
        name = _theme().get(match[2], ("", ""))[0]
        return f"{match[1]}var(--k-{name}, {match[2]})" if name else match[0]

    inner = re.sub(r"((?:fill|stroke): )(#[0-9a-f]{6})", variable, inner)
    width, height = (72 * float(inches) for inches in figure.get_size_inches())
    paint = "fill:var(--k-black, #000000);stroke-linejoin:round;stroke-linecap:butt"
    return (
        f'<svg class="k-figure" role="img" aria-label="{escape(words)}" '
        f'viewBox="0 0 {width:g} {height:g}" style="{paint};max-width:{width / 72 * 125:.0f}px" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f"{inner}</svg>"
    )


# --- Names and numbers as plain text -------------------------------------------------------------


def glossary(names: Iterable[str]) -> list[str]:
    """Explain the short names of models and protocols in one note; none if there are none.

    Names of points begin with their protocol, as in `rigorous-8`.
    """
    first_words = dict.fromkeys(re.split(r"[\s-]", name, maxsplit=1)[0] for name in names)
    meanings = [f"{name}: {MEANINGS[name]}" for name in first_words if name in MEANINGS]
    return ["; ".join(meanings)] if meanings else []


def plain(name: str) -> str:
    """A name from a file on one line, without unprintable characters, operators `raised`."""
    return raised(" ".join("".join(c if c.isprintable() else " " for c in name).split()))


def raised(text: str) -> str:
    """Write transposes and inverses, such as A^T and A^+, with superscripts."""
    return _OPERATOR.sub(lambda match: match[1] + match[2].translate(_POWERS), text)


def inches_of(text: str, size: float = FINE, *, bold: bool = False) -> float:
    """Width of a line of text in inches."""
    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_NO_GLYPH)
        width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def fitted(name: str, inches: float, size: float = FINE, *, bold: bool = False) -> str:
    """A name from a file on one line, shortened with an ellipsis to a width in inches."""
    # No line has space for more; measuring a longer text is slow.
    text = plain(name)[:200]
    if inches_of(text, size, bold=bold) <= inches:
        return text
    ends = [k for k in range(1, len(text)) if inches_of(f"{text[:k]}…", size, bold=bold) <= inches]
    return text[: max(ends, default=0)] + "…"


def wrapped(text: str, inches: float, size: float = FINE, *, bold: bool = False) -> list[str]:
    """Break text into lines of at most a width in inches; longer words are shortened."""
    lines: list[str] = []
    for word in plain(text).split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and inches_of(longer, size, bold=bold) <= inches:
            lines[-1] = longer
        else:
            lines.append(fitted(word, inches, size, bold=bold))
    return lines


def digits(value: float, figures: int = 3, *, powers: bool = False) -> str:
    """Format a number with `figures` significant digits, in Unicode rather than mathtext.

    Small and large numbers have a power of ten, and all have if `powers` is set.
    """
    if not math.isfinite(value):
        return "not finite" if math.isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    # Rounded first: 9.996 has the power of 10.0.
    short = float(f"{value:.{figures}g}")
    if short == 0:
        return "0"
    power = math.floor(math.log10(abs(short)))
    if -4 <= power < 6 and not powers:
        text = f"{short:,.{max(0, figures - 1 - power)}f}"
        return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", MINUS)
    mantissa = f"{short / 10.0**power:.{figures - 1}f}".rstrip("0").rstrip(".")
    factor = "" if mantissa == "1" else f"{mantissa}{TIMES}"
    return f"{factor}10{str(power).translate(_POWERS)}".replace("-", MINUS)
