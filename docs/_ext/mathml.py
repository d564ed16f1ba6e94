"""Formulas as MathML, made when the pages are built: no script, no font, no network.

latex2mathml takes what it does not know for letters and goes on. So what it makes is looked
through before it is used, and a formula that did not become one is a warning of Sphinx.
"""

import re
import unicodedata
from collections.abc import Callable
from html import escape
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_LOG = logging.getLogger(__name__)
# What latex2mathml knows under another name only.
_SAME = (
    (re.compile(r"\\(begin|end)\{aligned\}"), r"\\\1{split}"),
    (re.compile(r"\\math(rm|sf|bf|cal|bb)\s+([A-Za-z])"), r"\\math\1{\2}"),
    (re.compile(r"\\mathrm\{([A-Za-z ]+)\}"), r"\\text{\1}"),  # one letter would lean otherwise
)
_BIG = re.compile(r"(\\[bB]igg?[lrm]?)\s*\\(\||[lr](?:ceil|floor|angle|Vert|vert))")
_MARKS = {
    **{"lceil": "⌈", "rceil": "⌉", "lfloor": "⌊", "rfloor": "⌋", "langle": "⟨", "rangle": "⟩"},
    **{"|": "‖", "lVert": "‖", "rVert": "‖", "lvert": "|", "rvert": "|"},
}
_PARTS = {
    **dict.fromkeys(("mfrac", "mroot", "msub", "msup", "mover", "munder"), 2),
    **dict.fromkeys(("msubsup", "munderover"), 3),
}
_LIMITS = {"msub": "munder", "msubsup": "munderover"}
_LEAVES = ("mi", "mo", "mn", "mtext")
_RELATIONS, _SIGNS = "=<>≤≥≪≫≈≡→⟹⟺⇒⇔\N{TILDE OPERATOR}", "+-\N{MINUS SIGN}±"
_OPEN, _CLOSE, _BARS = "([{⌈⌊⟨", ")]}⌉⌋⟩", "|‖"


class FormulaError(ValueError):
    """LaTeX that does not become a formula; the message says why."""


def mathml(latex: str) -> str:
    """The `math` element of a formula in running text, which also carries its LaTeX."""
    root = _element(latex, "inline")
    root.set("alttext", latex.strip())
    return ElementTree.tostring(root, encoding="unicode")


def displayed(latex: str) -> str:
    """A formula on lines of its own, as pieces between which a browser may begin a new line.

    Lines end after gaps; before relations, where what stands between two gaps is too long for one;
    and before signs, where that is not enough. Browsers break no `math` element, so that every
    piece is one.
    """
    root = _element(latex, "block")
    parts = list(root[0]) if len(root) == 1 and root[0].tag == "mrow" else list(root)
    lines = _lines(parts, ("", _RELATIONS, _SIGNS))
    return f'<div class="formula" data-latex="{escape(latex.strip())}">{lines}</div>'


def _lines(parts: list[ElementTree.Element], levels: tuple[str, ...]) -> str:
    """Spans within spans, of which a browser breaks the outermost first."""
    if levels:
        runs = _runs(parts, levels[0])
        return "".join(f"<span>{_lines(run, levels[1:])}</span>" for run in runs)
    if parts[0].tag == "mo" and (parts[0].text or "") in _RELATIONS + _SIGNS:
        parts[0].set("form", "infix")
    whole = ElementTree.Element("math", {"displaystyle": "true"})
    whole.extend(parts)
    return ElementTree.tostring(whole, encoding="unicode")


def _runs(parts: list[ElementTree.Element], marks: str) -> list[list[ElementTree.Element]]:
    """Parts cut before each of the marks, or after gaps where none is named; never in brackets."""
    runs: list[list[ElementTree.Element]] = [[]]
    depth, bar = 0, False
    for part in parts:
        before = runs[-1][-1] if runs[-1] else None
        is_mark = part.tag == "mo" and (part.text or "-") in marks
        is_gap = before is not None and before.get("width") in ("1em", "2em") and not marks
        if before is not None and (is_mark or is_gap) and not (depth or bar):
            runs.append([])
        runs[-1].append(part)
        inner = part[0] if part.tag in ("msub", "msup", "msubsup") else part
        text = (inner.text or "-") if inner.tag == "mo" else "-"
        depth += (text in _OPEN) - (text in _CLOSE)
        bar ^= text in _BARS
    return [parts] if depth or bar else runs


def _element(latex: str, display: str) -> ElementTree.Element:
    source = latex.strip()
    _check_braces(source)
    asked = _BIG.sub(lambda found: found[1] + _MARKS[found[2]], source)
    for pattern, known in _SAME:
        asked = pattern.sub(known, asked)
    try:
        made = convert(asked, display=display)
    except Exception as error:  # latex2mathml's errors have no base of their own
        raise FormulaError(str(error) or type(error).__name__.removesuffix("Error")) from None
    try:
        root = ElementTree.fromstring(made)
    except ElementTree.ParseError:
        raise FormulaError("an & stands outside of a table") from None
    for part in root.iter():
        part.tag = part.tag.rpartition("}")[2]
    for part in root.iter():
        _check(part)
        _mend(part)
    _gather(root)
    _tighten(root)
    _space(root)
    return root


def _check_braces(latex: str) -> None:
    bare = re.sub(r"\\[{}\\]", "", latex)
    if bare.count("{") != bare.count("}"):
        raise FormulaError("its braces do not match")


def _check(part: ElementTree.Element) -> None:
    text = part.text or ""
    if part.tag in _LEAVES and "\\" in text:
        raise FormulaError(f"{text} is not known")
    if part.tag == "mtext" and "$" in text:
        raise FormulaError("$ inside of a \\text is not known")
    if part.tag == "mo" and not text:
        raise FormulaError("an operator has no name")
    wanted = _PARTS.get(part.tag)
    if wanted is not None and len(part) != wanted:
        raise FormulaError(f"{part.tag} needs {wanted} parts, got {len(part)}")


def _mend(part: ElementTree.Element) -> None:
    """Arrows and bars are operators, and limits of sums stand below and above them.

    Where there is no room for that, in a line of text or a fraction, browsers move them aside.
    """
    text = part.text or ""
    if part.tag == "mi" and len(text) == 1 and unicodedata.category(text) == "Sm" and text != "∞":
        part.tag = "mo"
    if part.tag == "mo" and text in "|‖" and part.get("stretchy") != "true":
        part.attrib.update(stretchy="false", lspace="0", rspace="0")
    if part.tag in _LIMITS and part[0].tag == "mo" and (part[0].text or "-") in "∑∏":
        part.tag = _LIMITS[part.tag]


def _space(part: ElementTree.Element) -> None:
    """Set functions such as log apart from what stands beside them, as print does."""
    for child in part:
        _space(child)
    if part.tag not in ("math", "mrow", "mtd"):
        return  # the places of a fraction or a power are counted
    for name in [each for each in part if each.tag == "mi" and len(each.text or "") > 1]:
        beside = list(part)
        at = beside.index(name)
        for place, other in ((at + 1, beside[at + 1 : at + 2]), (at, beside[max(at - 1, 0) : at])):
            if other and other[0].tag not in ("mo", "mspace"):
                part.insert(place, ElementTree.Element("mspace", width="0.167em"))


def _gather(part: ElementTree.Element) -> None:
    """Put an exponent on the whole of what is in large brackets: alone, the last stays small."""
    for child in part:
        _gather(child)
    for place, child in enumerate(list(part)):
        if child.tag in ("msup", "msub", "msubsup") and _large(child[0], ")]}|‖⌉⌋⟩"):
            before = list(part)[:place]
            starts = [at for at, each in enumerate(before) if _large(each, "([{|‖⌈⌊⟨")]
            if starts:
                whole = ElementTree.Element("mrow")
                whole.extend([*before[starts[-1] :], child[0]])
                for each in before[starts[-1] :]:
                    part.remove(each)
                child[0] = whole
                _gather(part)
                return


def _large(part: ElementTree.Element, marks: str) -> bool:
    return part.tag == "mo" and part.get("stretchy") == "true" and (part.text or "") in marks


def _tighten(part: ElementTree.Element, *, script: bool = False) -> None:
    """No room about signs in indices and exponents, as is usual in print."""
    if script and part.tag == "mo" and (part.text or "") in "+-\N{MINUS SIGN}=<>≤≥":
        part.attrib.update(lspace="0", rspace="0")
    scripts = part.tag in ("msub", "msup", "msubsup")
    for place, child in enumerate(part):
        _tighten(child, script=script or (scripts and place > 0))


def _html(node: nodes.math | nodes.math_block, made: Callable[[str], str]) -> str:
    latex = node.astext()
    try:
        return made(latex)
    except FormulaError as error:
        named = f"equation {node['label']}" if node.get("label") else "formula"
        _LOG.warning("%s: %s: %s", named, latex.strip(), error, location=node, type="mathml")
        return f"<code>{escape(latex)}</code>"


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(self.starttag(node, "span", "", CLASS="math notranslate"))
    self.body.append(_html(node, mathml) + "</span>")
    raise nodes.SkipNode


def _block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math equation notranslate"))
    self.body.append(_html(node, displayed))
    if node["number"]:
        self.body.append(f'<span class="eqno">({node["number"]})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append(f' <span class="label">{escape(node["label"])}</span></span>')
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
