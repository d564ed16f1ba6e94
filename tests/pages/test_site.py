"""The site's own parts: what its pages are made of, held against the program."""

import importlib
import inspect
import io
import re
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import pytest
import typer
from numpy.typing import ArrayLike
from pydantic import BaseModel

import korisk as kr
from korisk.cli.app import app
from korisk.operators import testing
from korisk.prediction.record import PredictionRecord
from korisk.store.store import Store
from korisk.studies.spec.registry import kinds
from korisk.theory.network_file import NetworkEntry

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"

sys.path.insert(0, str(DOCS / "_ext"))


_FIXED = 8.0


def fixed(b: float = _FIXED) -> float:
    """What has a constant for a default."""
    return b


def part(name: str) -> Any:
    """A module of the site, which is no package."""
    return importlib.import_module(name)


# --- Python --------------------------------------------------------------------------------------


def test_every_public_name_is_on_a_page() -> None:
    homes = ["korisk", *(f"korisk.{name}" for name in dir(kr) if name not in kr.__all__)]
    asked = {id(getattr(part(home), name)): name for home in homes for name in part(home).__all__}
    checks = (name for name in dir(testing) if name.startswith("check"))
    asked |= {id(getattr(testing, name)): name for name in checks}
    assert len(asked) > 140
    for page in (REFERENCE / "api").glob("*.md"):
        for name in part("api").names_on(page.read_text()):
            home, _, last = name.rpartition(".")
            asked.pop(id(getattr(part(home), last)), None)
    assert not asked


def test_values_are_told_in_words_and_others_by_their_docstrings() -> None:
    made = part("api").expanded(
        "```{api} korisk.theory\nBOUNDS: The forms.\ndeep_risk\nBound\n```\n"
    )
    assert ".. autodata:: korisk.theory.BOUNDS\n\n   The forms." in made
    assert ".. autofunction:: korisk.theory.deep_risk\n" in made
    assert ".. autoclass:: korisk.theory.Bound\n   :members:" in made


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("A^T K, |x| and a * b", r"A^T K, \|x\| and a \* b"),
        ("`n` samples", "``n`` samples"),
        ("nested `Subset`s", r"nested ``Subset``\ s"),
        ("a `Curve` of", ":py:obj:`Curve <korisk.Curve>` of"),
        ("see `Curve.read`", ":py:obj:`Curve.read <korisk.Curve.read>`"),
        ("*errors* in", "*errors* in"),
        ("see docs/reference/pilot.md.", ":doc:`pilot.md </reference/pilot>`."),
        ("scores neg_ and x_", r"neg\_ and x\_"),
        ("Theorem (thm:deep-risk)", ":ref:`(thm:deep-risk) <thm:deep-risk>`"),
        ("Eq. (eq:Al)", ":eq:`eq:Al`"),
    ],
)
def test_docstrings_are_shown_as_they_are_meant(written: str, meant: str) -> None:
    assert meant in "\n".join(part("docstrings").to_rst([written]))


def test_signatures_have_names_that_readers_know() -> None:
    like = part("sphinx.util.typing").stringify_annotation(ArrayLike | None, "smart")
    shown, back = part("api")._signature(None, "", "f", fixed, None, f"(x: {like}=None)", None)
    assert shown == "(x: ~numpy.typing.ArrayLike | None=None)"
    assert back is None
    shown, _ = part("api")._signature(None, "", "f", fixed, None, "(a=<factory>, b = _FIXED)", "")
    assert shown == "(a=..., b = 8.0)"


def test_examples_lists_and_titles_in_docstrings_stay() -> None:
    lines = ["What.", "", ">>> a * `b`", "1", "", "Notes", "-----", "x", "", "if", "- one", "- two"]
    made = part("docstrings").to_rst(lines)
    assert made[2:4] == [">>> a * `b`", "1"]
    assert ".. rubric:: Notes" in made
    assert [line for line in made if line.startswith("- ")] == ["- one", "- two"]


def test_comments_behind_fields_are_their_words() -> None:
    words_of = part("fields").words_of
    assert words_of("korisk.store.usage", "Usage", "started") == "ISO 8601, UTC"
    assert words_of("korisk.store.usage", "Usage", "seconds") == ""


# --- Command line --------------------------------------------------------------------------------


def sections() -> dict[str, str]:
    text = part("command_line").commands_text()
    return {
        each.partition("\n")[0]: each for each in re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    }


def test_the_page_has_every_command_argument_and_option() -> None:
    group: Any = typer.main.get_command(app)
    assert list(sections()) == [f"korisk {name}" for name in group.commands]
    for name, command in group.commands.items():
        section = sections()[f"korisk {name}"]
        assert str(command.help).split("\n")[0].split("`")[0] in section
        for parameter in command.params:
            shown = parameter.metavar if parameter.param_type_name == "argument" else None
            for word in [shown] if shown else parameter.opts:
                assert f"| `{word}" in section, (name, word)


def test_the_page_has_defaults_and_what_is_needed() -> None:
    plan, bound = sections()["korisk plan"], sections()["korisk bound"]
    assert re.search(r"\| `PILOT` \|.*\| needed \|", plan)
    assert re.search(r"\| `-n N` \|.*\| what the target needs, else 1000 \|", bound)


def test_the_page_has_every_exit_code_of_the_program() -> None:
    told = set(re.findall(r"\b\d+\b", str(app.info.epilog)))
    page = (REFERENCE / "cli.md").read_text()
    assert told == set(re.findall(r"^\| (\d+) \|", page, re.MULTILINE))
    assert "```{commands}\n```" in page


# --- Formulas ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("latex", "inside"),
    [
        (r"A_l", "<msub><mi>A</mi><mi>l</mi></msub>"),
        (r"\frac{1}{N}", "<mfrac><mrow><mn>1</mn></mrow><mrow><mi>N</mi></mrow></mfrac>"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "<mtable"),
        (r"\mathrm{d} x", "<mtext>d</mtext>"),
        (r"\bigl\lceil x \bigr\rceil", "⌈</mo>"),
        (r"a \Longrightarrow b", "<mo>⟹</mo>"),
        (r"\left( \sum_l x \right)", "<munder><mo>∑</mo>"),
        (r"f_{l-1}", 'lspace="0" rspace="0">\N{MINUS SIGN}</mo>'),
        (r"\Bigl( \sum_l x_l \Bigr)^2", "<msup><mrow><mo"),
    ],
)
def test_formulas_become_mathml(latex: str, inside: str) -> None:
    made = part("mathml").mathml(latex)
    assert inside in made
    assert f'alttext="{latex}"'.replace("&", "&amp;") in made
    assert made.startswith('<math display="inline"')


@pytest.mark.parametrize(
    "latex",
    [r"\nosuch x", r"{a", r"\frac{1}", r"a & b", r"\left( a", "x_", r"\text{a $x$}", r"\label{a}"],
)
def test_what_is_no_formula_is_refused(latex: str) -> None:
    with pytest.raises(part("mathml").FormulaError):
        part("mathml").mathml(latex)


@pytest.mark.parametrize(
    ("latex", "lines"),
    [
        (r"a = b + c \le d", [["a"], ["=b", "+c"], ["≤d"]]),
        (r"a = (b + c) = \| d - e \|", [["a"], ["=(b+c)"], ["=‖d\N{MINUS SIGN}e‖"]]),
        (r"a = \left( b = c \right)", [["a"], ["=(b=c)"]]),
    ],
)
def test_long_formulas_break_before_relations_and_signs_but_not_in_brackets(
    latex: str, lines: list[list[str]]
) -> None:
    """A browser breaks the spans outside first: those of the relations, then of the signs."""
    found = ElementTree.fromstring(part("mathml").displayed(latex))
    (gap,) = found
    assert [["".join(piece.itertext()) for piece in line] for line in gap] == lines
    assert found.get("data-latex") == latex


# --- Pictures ------------------------------------------------------------------------------------


SHOWN = re.compile(
    r"^```\{picture\} \w+$|^```\{include\} .*/results/|^!\[|^\|.*\d.*\|$|_repr_html_|\.plot\(",
    re.MULTILINE,
)


@pytest.mark.parametrize("folder", ["tutorials", "how-to", "explanation"])
def test_every_page_shows_something(folder: str) -> None:
    """A picture, a notebook that draws one, or a table with figures."""
    pages = {path for kind in ("md", "ipynb") for path in (DOCS / folder).glob(f"*.{kind}")}
    pages.remove(DOCS / folder / "index.md")
    assert len(pages) > 3
    assert not [page.name for page in pages if not SHOWN.search(page.read_text())]


def test_every_picture_is_on_a_page() -> None:
    drawn = {path.stem for path in (DOCS / "pictures").glob("[!_]*.py")}
    text = "\n".join(path.read_text() for path in DOCS.rglob("*.md"))
    assert drawn == set(re.findall(r"^```\{picture\} (\w+)$", text, re.MULTILINE))


SCRIPT = """from pathlib import Path
from matplotlib.figure import Figure
figure = Figure(figsize=(2, 1))
figure.text(0, 0, Path("data.txt").read_text(), color="#0072b2")
"""


def test_a_picture_follows_the_theme_and_is_drawn_again_when_its_data_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part("pictures"), "ROOT", tmp_path)
    script = tmp_path / "one.py"
    script.write_text(f'"""A word in blue."""\n{SCRIPT}')
    (tmp_path / "data.txt").write_text("before")
    made, key = part("pictures").drawn(script), part("pictures").key(script)
    assert 'aria-label="A word in blue."' in made
    assert "var(--k-blue, #0072b2)" in made
    assert part("pictures").key(script) == key
    (tmp_path / "data.txt").write_text("after")
    assert part("pictures").key(script) != key


@pytest.mark.parametrize(
    ("script", "reason"), [(SCRIPT, "docstring"), ('"""A."""\n1 / 0', "ZeroDivision")]
)
def test_a_picture_without_words_or_with_an_error_fails_the_build(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part("pictures"), "ROOT", tmp_path)
    (tmp_path / "data.txt").write_text("")
    (tmp_path / "one.py").write_text(script)
    with pytest.raises(part("sphinx.errors").ExtensionError, match=rf"one\.py.*{reason}"):
        part("pictures").drawn(tmp_path / "one.py")


def test_scripts_of_the_gallery_are_found_by_the_names_they_use() -> None:
    script = "import numpy as np\nimport korisk as kr\nfrom korisk.operators import fbp\n"
    found = part("api").names_in(f"{script}kr.plan(np.ones(1)); net.replace('W')")
    assert found == {"korisk.plan", "korisk.operators.fbp"}


# --- Files ---------------------------------------------------------------------------------------


def test_the_page_of_the_store_has_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    Store.create_or_open(path, {"name": "columns"}).close()
    with sqlite3.connect(path) as store:
        tables = [
            name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE sql > ''")
        ]
        there = {
            (table, column, kind)
            for table in tables
            if not table.startswith("sqlite_")
            for _, column, kind, *_ in store.execute(f"PRAGMA table_info({table})")
        }
        (known,) = store.execute("PRAGMA application_id").fetchone()
        (version,) = store.execute("PRAGMA user_version").fetchone()
    store.close()
    page = (REFERENCE / "store.md").read_text()
    told = {
        (section.partition("\n")[0], column, kind)
        for section in page.split("\n### ")[1:]
        for column, kind in re.findall(r"^\| `(\w+)` \| (\w+) \|", section, re.MULTILINE)
    }
    assert told == there
    assert f"`PRAGMA application_id` is {known}," in page
    assert f"`PRAGMA user_version` is {version}," in page


def keys(model: type[BaseModel]) -> Iterator[str]:
    """The names of all keys of a file, at any depth."""
    for name, field in model.model_fields.items():
        yield name
        for inner in models_in(field.annotation):
            yield from keys(inner)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def code_words(text: str) -> set[str]:
    """The words in the code of a text, in line or in blocks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`([^`\n]+)`", text)
    return {word for code in (*blocks, *inline) for word in re.findall(r"\w+", code)}


def test_every_key_of_a_file_is_on_its_page() -> None:
    pages: dict[type[BaseModel], str] = {
        NetworkEntry: "network-file.md",
        PredictionRecord: "files.md",
    }
    pages |= {kind.study: "study.md" for kind in kinds().values()}
    for model, page in pages.items():
        assert set(keys(model)) - code_words((REFERENCE / page).read_text()) == set()


# --- Pages as Sphinx builds them -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('<script src="https://a.b/c.js">', 1),
        ("<img alt='x' src='//a.b/c.png'>", 1),
        ('<link rel="stylesheet" href="http://a.b/c.css">', 1),
        ("@font-face {src: url(https://a.b/c.woff)}", 1),
        ('@import "https://a.b/c.css";', 1),
        ('<a href="https://a.b">out</a> <img src="_images/a.png"> url(#clip)', 0),
    ],
)
def test_what_is_loaded_from_elsewhere_is_seen(text: str, count: int) -> None:
    assert len(part("resources").loaded_from_elsewhere(text)) == count


def test_our_styles_and_settings_load_nothing_from_elsewhere() -> None:
    for path in (DOCS / "conf.py", *(DOCS / "_static").iterdir()):
        assert "//" not in path.read_text().replace("://", "//"), path.name


@pytest.mark.filterwarnings("ignore:'myst_parser")  # of what the next Sphinx will lack
def test_a_page_is_built_with_its_formulas_links_and_labels(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    (tmp_path / "LICENSE.md").write_text("terms")
    (tmp_path / "examples").mkdir()
    (source / "index.md").write_text(
        "# Page\n\n(thm:deep-risk)=\n## Theorem\n\n$$\na = b\n$$ (eq:one)\n\nBy {eq}`eq:one` and "
        "(thm:deep-risk), [terms](../LICENSE.md), [examples](../examples), $\\nosuch$.\n\n"
        "[more.md](more.md#far), [here](more.md)\n\n```{toctree}\nmore\n```\n"
    )
    (source / "more.md").write_text("# More: and so on\n\n## Far\n")
    page, warnings = built(source, tmp_path / "out")
    assert re.search(r'<span class="eqno">\(1\).* <span class="label">eq:one</span></span>', page)
    assert re.search(r'<h2>Theorem <span class="label">thm:deep-risk</span>', page)
    assert re.search(r'href="more.html#far"><span[^>]*>More</span>', page)
    assert re.search(r'href="more.html"><span[^>]*>here</span>', page)
    assert 'href="#equation-eq-one"' in page
    assert re.search(r'href="#\S+"><span class="std std-ref">\(thm:deep-risk\)', page)
    assert re.search(r'download="" href="_downloads/\w+/LICENSE.md"', page)
    assert '<span class="folder">examples</span>' in page
    assert [line for line in warnings if "is not known" not in line] == []
    assert len(warnings) == 1


def built(source: Path, out: Path) -> tuple[str, list[str]]:
    """A page and what Sphinx warned of."""
    application = importlib.import_module("sphinx.application")
    said = io.StringIO()
    settings = {
        "extensions": ["myst_parser", "mathml", "outside", "labels", "titles"],
        "myst_enable_extensions": ["dollarmath"],
        "myst_heading_anchors": 2,
        "html_math_renderer": "mathml",
        "html_theme": "basic",
        "nitpicky": True,
    }
    site = application.Sphinx(
        source, None, out, out, "html", settings, status=None, warning=said, freshenv=True
    )
    site.build()
    return (out / "index.html").read_text(), [line for line in said.getvalue().splitlines() if line]
