"""The site's own parts: what its pages are made of, held against the program."""

import ast
import importlib
import inspect
import logging
import re
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from numpy.typing import ArrayLike
from pydantic import BaseModel

import korisk as kr
from korisk.cli.app import app
from korisk.prediction.study import PredictionRecord
from korisk.studies.spec import study as studies_of_files
from korisk.studies.store.store import Store
from korisk.theory.network_file import NetworkEntry

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "korisk"
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
ROOMS = ("operators", "networks", "fitting", "problems", "studies")

sys.path.insert(0, str(DOCS / "_ext"))


_FIXED = 8.0


def fixed(b: float = _FIXED) -> float:
    """What has a constant for a default."""
    return b


def part(name: str) -> Any:
    """A module of the site, which is no package."""
    return importlib.import_module(name)


def names_on_pages() -> set[str]:
    pages = (REFERENCE / "api").glob("*.md")
    return {name for page in pages for name in part("api").names_on(page.read_text())}


# --- Python --------------------------------------------------------------------------------------


def public_names(path: Path) -> list[str]:
    """What a room says is public, read without the libraries that it needs."""
    for line in ast.parse(path.read_text()).body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__all__":
            return list(ast.literal_eval(line.value))
    raise AssertionError(f"{path}: has no __all__")


def test_every_public_name_is_on_a_page() -> None:
    asked = {f"korisk.{name}" for name in (*kr.__all__, *kr._NAMES)}
    for room in ROOMS:
        asked |= {f"korisk.{room}.{name}" for name in public_names(SOURCE / room / "__init__.py")}
    asked |= {
        f"korisk.operators.testing.{line.name}"
        for line in ast.parse((SOURCE / "operators" / "testing.py").read_text()).body
        if isinstance(line, ast.FunctionDef) and line.name.startswith("check")
    }
    assert len(asked) > 100
    assert asked - names_on_pages() == set()


def test_values_are_told_in_words_and_others_by_their_docstrings() -> None:
    text = "```{api} korisk\nBOUNDS: The forms.\nplan\nPlan\n```\n"
    made = part("api").expanded(text)
    assert ".. autodata:: korisk.BOUNDS\n\n   The forms." in made
    assert ".. autofunction:: korisk.plan\n" in made
    assert ".. autoclass:: korisk.Plan\n   :members:" in made


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


def test_private_types_in_signatures_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("sphinx")
    logger.addHandler(caplog.handler)
    try:
        part("api")._signature(None, "", "f", fixed, None, "(x: ~numpy._typing._Nested[str])", None)
    finally:
        logger.removeHandler(caplog.handler)
    assert "_Nested" in caplog.text


def test_examples_lists_and_titles_in_docstrings_stay() -> None:
    lines = ["What.", "", ">>> a * `b`", "1", "", "Notes", "-----", "x", "", "if", "- one", "- two"]
    made = part("docstrings").to_rst(lines)
    assert made[2:4] == [">>> a * `b`", "1"]
    assert ".. rubric:: Notes" in made
    assert [line for line in made if line.startswith("- ")] == ["- one", "- two"]


def test_comments_behind_fields_are_their_words() -> None:
    assert part("fields").words_of("korisk.studies.run.usage", "Usage", "started") == (
        "ISO 8601, UTC"
    )
    assert part("fields").words_of("korisk.studies.run.usage", "Usage", "seconds") == ""


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
    assert re.search(r"\| `--fit FIT` \|.*\| posterior \|", plan)
    assert re.search(r"\| `PILOT.csv` \|.*\| needed \|", plan)
    assert re.search(r"\| `-n N` \|.*\| what `--target` needs, else 1000 \|", bound)


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


def test_large_brackets_nest() -> None:
    made = part("mathml").mathml(r"\Bigl( a \bigl( b \bigr)^2 c \Bigr)^3", block=True)
    assert made.count("<msup><mrow>") == 2
    assert made.index("<mn>2</mn>") < made.index("<mi>c</mi>") < made.index("<mn>3</mn>")
    assert 'display="block"' in made


@pytest.mark.parametrize(
    "latex",
    [r"\nosuch x", r"{a", r"\frac{1}", r"a & b", r"\left( a", "x_", r"\text{a $x$}", r"\label{a}"],
)
def test_what_is_no_formula_is_refused(latex: str) -> None:
    with pytest.raises(part("mathml").FormulaError):
        part("mathml").mathml(latex)


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


def test_every_key_of_a_study_is_on_its_page() -> None:
    page = (REFERENCE / "study.md").read_text()
    start = page.index("## Studies of one's own")
    told = code_words(page[start : page.index("## The store")])
    for entry, *_ in studies_of_files.KINDS.values():
        assert set(keys(entry)) - told == set()


@pytest.mark.parametrize(
    ("model", "page"),
    [
        (NetworkEntry, "network-file.md"),
        (PredictionRecord, "files.md"),
    ],
)
def test_every_key_of_a_file_is_on_its_page(model: type[BaseModel], page: str) -> None:
    assert set(keys(model)) - code_words((REFERENCE / page).read_text()) == set()

