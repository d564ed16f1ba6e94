"""Colours, type, names and numbers as plain text, and files: what all figures share."""

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

Options = JsonDict  # of matplotlib's functions

DPI = 200
PAGE, COLUMN = 7.0, 3.4  # inches: across both columns of a page, and across one
FINE, SMALL, MEDIUM, LARGE = 6.5, 8.0, 9.0, 10.0  # points, of type
GREY, DARK = "#666666", "#222222"
_PAPER = "#17191c"  # of a dark page, as in theme.yaml
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
_SETTINGS = ("korisk.report.figures.plain", "korisk.report.figures.fine")  # files beside this one
_OPERATOR = re.compile(r"(?<!\w)([A-Z])\^(T|H|\+|-1)(?!\w)")  # A^T, A^+: raised in figures
_NO_GLYPH = r"Glyph \d+ .* missing from font"
_POWERS = str.maketrans("-+0123456789TH", "⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹ᵀᴴ")
_YELLOW = "#F0E442"
PALE_BOX = 0.72  # of paper in the colour of a box


@dataclass(frozen=True)
class Look:
    """Colours of Okabe and Ito, which colour-blind readers tell apart; marks for grey prints."""

    colour: str
    marker: str
    hatch: str  # of a forecast's band
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
    Look("#0072B2", "o", "////"),
    Look("#D55E00", "s", "\\\\\\\\", filled=False),
    Look("#009E73", "^", "||||"),
    Look("#CC79A7", "D", "----", filled=False),
    Look("#E69F00", "v", "xxxx"),
    Look("#56B4E9", "P", "++++", filled=False),
    Look("#000000", "X", "...."),
    Look(_YELLOW, "p", "oooo"),
)
REST = Look("#999999", ".", "")  # of models beyond those


def looks_of(models: Iterable[str]) -> dict[str, Look]:
    """A look for each model: KO and FC have their own, the rest take what is left, then grey."""
    names = list(dict.fromkeys(models))
    taken = {name: look for name, look in zip(("KO", "FC"), LOOKS, strict=False) if name in names}
    free = iter([look for look in LOOKS if look not in taken.values()])
    return {name: taken.get(name) or next(free, REST) for name in names}


def pale(colour: str, share: float = 0.65, paper: str = "white") -> str:
    """A colour mixed with that of the paper, for what must not be transparent."""
    pairs = zip(to_rgb(colour), to_rgb(paper), strict=True)
    red, green, blue = ((1 - share) * own + share * behind for own, behind in pairs)
    return to_hex((red, green, blue))


def colour_map(name: str) -> Colormap:
    """One of matplotlib's maps, with yellow for what is not a number."""
    return matplotlib.colormaps[name].with_extremes(bad=_YELLOW)


@contextmanager
def settings(*, fine: bool = False) -> Iterator[None]:
    """Our own settings whatever the user's are; no warning about letters that the font lacks."""
    chosen = ["default", *_SETTINGS[: 1 + fine]]
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


# --- Figures in pages, which follow the theme ----------------------------------------------------


@cache
def _theme() -> dict[str, tuple[str, str]]:
    """The colours of `theme.yaml`, and mixtures of each with the paper."""
    text = files("korisk.report.figures").joinpath("theme.yaml").read_text(encoding="utf-8")
    theme: dict[str, tuple[str, str]] = yaml.safe_load(text)
    for (colour, (name, dark)), share in product(list(theme.items()), (0.65, PALE_BOX)):
        mixed = f"{name}-{share:.0%}".rstrip("%"), pale(dark, share, _PAPER)
        theme.setdefault(pale(colour, share), mixed)
    return theme


def _theme_css() -> str:
    light = "".join(f"--k-{name}:{colour};" for colour, (name, _) in _theme().items())
    dark = "".join(f"--k-{name}:{colour};" for name, colour in _theme().values())
    own = ".k-figure"
    lit = '[data-theme="light"]', '[data-jp-theme-light="true"]', ".vscode-light"
    dim = '[data-theme="dark"]', '[data-jp-theme-light="false"]', ".vscode-dark"
    return (
        f"{own}{{display:block;width:100%;height:auto;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{{own}{{{dark}}}}}\n"
        f"{','.join(f'{each} {own}' for each in lit)}{{{light}}}\n"
        f"{','.join(f'{each} {own}' for each in dim)}{{{dark}}}\n"
        f"@media print{{html {own},[data-theme] {own}{{{light}}}}}\n"
    )


THEME_CSS = _theme_css()  # once in a page that has figures of `themed_svg`


def themed_svg(figure: Figure, *, words: str) -> str:
    """A figure as an SVG element for a page: its colours follow the page's light or dark theme.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        What any function of this package draws.
    words : str
        What it shows, for those who do not see it.

    Returns
    -------
    str
        The element, of class `k-figure`. It is as wide as its place, at most 125 CSS pixels for an
        inch of the figure. Every colour is a variable that `THEME_CSS` sets, and the light one
        where that is missing. Ids begin with a hash of the content.
    """
    content = io.BytesIO()
    with settings(), matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(content, format="svg", transparent=True, metadata=_METADATA["svg"])
    text = content.getvalue().decode()
    inner = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    inner = re.sub(r"\s*<(metadata|defs)>\s*<(rdf|style).*?</\1>", "", inner, flags=re.DOTALL)
    inner = re.sub(r"\s*<!--.*?-->|\s*transform=\"rotate\(-0 [^\"]*\"", "", inner, flags=re.DOTALL)
    inner = re.sub(r"(?<=>)\s+(?=<)", "", re.sub(r"\s+", " ", inner))
    places = r'(?<= )(?:d|x|y|transform)="[^"]*"'  # in hundredths of a point
    inner = re.sub(places, lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), inner)
    inner = inner.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    own = "k" + hashlib.sha256(inner.encode()).hexdigest()[:8]
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', inner))
    inner = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", inner)
    inner = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{own}-", inner)

    def variable(found: re.Match[str]) -> str:
        name = _theme().get(found[2], ("", ""))[0]
        return f"{found[1]}var(--k-{name}, {found[2]})" if name else found[0]

    inner = re.sub(r"((?:fill|stroke): )(#[0-9a-f]{6})", variable, inner)
    across, up = (72 * float(inches) for inches in figure.get_size_inches())
    root = "fill:var(--k-black, #000000);stroke-linejoin:round;stroke-linecap:butt"
    return (
        f'<svg class="k-figure" role="img" aria-label="{escape(words)}" '
        f'viewBox="0 0 {across:g} {up:g}" style="{root};max-width:{across / 72 * 125:.0f}px" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f"{inner}</svg>"
    )


# --- Names and numbers as plain text -------------------------------------------------------------

_MEANINGS = {
    "KO": "known operator",
    "FC": "fully connected",
    "released": "trained as the paper's code does",
    "rigorous": "trained as the paper's text says",
}


def glossary(names: Iterable[str]) -> list[str]:
    """What the short names of models and protocols mean, as one note; none where no name is short.

    Points are named by their protocol first, as in `rigorous-8`.
    """
    first = dict.fromkeys(re.split(r"[\s-]", name, maxsplit=1)[0] for name in names)
    told = [f"{name}: {_MEANINGS[name]}" for name in first if name in _MEANINGS]
    return ["; ".join(told)] if told else []


def plain(name: str) -> str:
    """A name from a file in one line, without characters that cannot be drawn.

    Operators are `raised`; all else stays as it is.
    """
    return raised(" ".join("".join(c if c.isprintable() else " " for c in name).split()))


def raised(text: str) -> str:
    """Words with the signs of transposes and inverses, such as A^T and A^+, raised."""
    return _OPERATOR.sub(lambda found: found[1] + found[2].translate(_POWERS), text)


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


def wrapped(text: str, inches: float, size: float = FINE, *, bold: bool = False) -> list[str]:
    """Words in lines of at most that length; a word that is longer loses its end."""
    lines: list[str] = []
    for word in plain(text).split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and inches_of(longer, size, bold=bold) <= inches:
            lines[-1] = longer
        else:
            lines.append(fitted(word, inches, size, bold=bold))
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
        return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", MINUS)
    mantissa = f"{short / 10.0**power:.{figures - 1}f}".rstrip("0").rstrip(".")
    factor = "" if mantissa == "1" else f"{mantissa}{TIMES}"
    return f"{factor}10{str(power).translate(_POWERS)}".replace("-", MINUS)
