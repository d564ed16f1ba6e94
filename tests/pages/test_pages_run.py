"""Every `sh` and `python` block of the pages is run, and prints what stands below it."""

import ast
import codeop
import io
import json
import os
import runpy
import shutil
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType

import pytest
from forked import commands
from page_blocks import Block, blocks, difference, prints_as_told, steps

from korisk.errors import KoriskWarning

ROOT = Path(__file__).parents[2]
MADE = {"gallery", "generated"}  # by Sphinx, from what is tested elsewhere
LONGEST = 240  # seconds that one block may take on a busy machine
ON_FAILURE = "trap 'echo \"this command failed: $BASH_COMMAND\" >&2' ERR\n"


def pages() -> list[Path]:
    """The README and everything below docs/ that somebody wrote."""
    written = [
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if not any(part.startswith("_") or part in MADE for part in page.relative_to(ROOT).parts)
    ]
    return [ROOT / "README.md", *written]


def name(page: Path) -> str:
    """A page's path from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The folders of `korisk` and of `python`, as a PATH has them."""
    with commands(tmp_path_factory.mktemp("tools")) as folder:
        yield f"{folder}{os.pathsep}{Path(sys.executable).parent}"


@pytest.fixture
def clone(tmp_path: Path, tools: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like the root of a clone after `make run`, and is the current one."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copytree(ROOT / "benchmarks" / "results", tmp_path / "benchmarks" / "results")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").write_text(f"PATH='{tools}':$PATH\n")
    (tmp_path / ".venv" / "bin" / "korisk").symlink_to(Path(tools.split(os.pathsep)[0]) / "korisk")
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def show(value: object) -> None:
    """What an interactive Python does with the value of a line, without keeping it."""
    if value is not None:
        print(repr(value))


def pasted(page: Path) -> bool:
    """Whether a page's Python is meant to be pasted, so that values of lines are shown too."""
    return page.name == "README.md" or page.parent.name in ("tutorials", "how-to")


class Session:
    """What a reader of one page has open: a shell in the clone, and one Python."""

    def __init__(self, page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.page, self.folder = page, folder
        monkeypatch.setattr(sys, "displayhook", show if pasted(page) else lambda _: None)
        self.module = ModuleType(f"page_{page.stem.replace('-', '_')}")
        # A module that can be found by its name, so that what a page defines can be pickled.
        monkeypatch.setitem(sys.modules, self.module.__name__, self.module)

    def run(self, block: Block) -> str:
        """What the block prints; it fails the test where it fails."""
        return self._sh(block) if block.language == "sh" else self._python(block)

    def _sh(self, block: Block) -> str:
        done = subprocess.run(
            ["bash", "-e", "-c", ON_FAILURE + block.text],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        if done.returncode != 0:
            self.fail(block, f"left with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def _python(self, block: Block) -> str:
        printed = io.StringIO()
        padded = "\n" * (block.line - 1) + block.text  # so that errors name the page's lines
        try:
            with redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("ignore", KoriskWarning)  # a page may show what warns
                for statement in ast.parse(padded, str(self.page)).body:
                    code = compile(ast.Interactive([statement]), str(self.page), "single")
                    exec(code, vars(self.module))
        except Exception:
            self.fail(block, f"raised:\n{printed.getvalue()}{traceback.format_exc(limit=-3)}")
        return printed.getvalue()

    def fail(self, block: Block, why: str) -> None:
        """End the test with the place, what was run and what came of it."""
        pytest.fail(f"{name(self.page)}, line {block.line}\n\n{block.text}\n{why}", pytrace=False)


@pytest.mark.parametrize("page", [page for page in pages() if steps(page)], ids=name)
def test_the_blocks_of_a_page_do_what_it_says(
    page: Path, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(page, clone, monkeypatch)
    before = set(clone.rglob("*"))
    for step in steps(page):
        printed = session.run(step.block)
        if step.prints is not None and not prints_as_told(step.prints.text, printed):
            told = f"line {step.prints.line} says otherwise:\n"
            session.fail(step.block, told + difference(step.prints.text, printed))
        if step.prints is None and step.block.language == "python" and pasted(page):
            told = "\n".join(step.comments)
            if not prints_as_told(told, printed):
                why = "shows less than it prints when pasted:\n"
                session.fail(step.block, why + difference(told, printed))
    if page.parent.name == "tutorials":
        assert set(clone.rglob("*")) == before, "a tutorial tidies up what it has made"


def taught(folder: str) -> list[Path]:
    """The pages of a folder that take the reader by the hand."""
    return [page for page in pages() if page.parent.name == folder and page.stem != "index"]


@pytest.mark.parametrize("page", [*taught("tutorials"), *taught("how-to")], ids=name)
def test_tutorials_and_recipes_show_nothing_that_is_not_run(page: Path) -> None:
    elsewhere = {"docs/how-to/run-a-study.md"}  # a sketch of a cluster, which is not at hand
    shown = {block.language for block in blocks(page)}
    assert shown & {"sh", "python"}
    assert shown <= {"sh", "python", "text", "{picture}", "{include}"} | (
        {""} if name(page) in elsewhere else set()
    )
    assert sum(block.language == "text" for block in blocks(page)) == sum(
        step.prints is not None for step in steps(page)
    ), "a text block stands after no block that is run"


@pytest.mark.parametrize("page", taught("tutorials"), ids=name)
def test_the_python_of_tutorials_can_be_pasted_line_by_line(page: Path) -> None:
    """A plain `python` ends a function at an empty line: none may stand inside one."""
    for step in steps(page):
        if step.block.language != "python":
            continue
        waiting: list[str] = []
        for number, line in enumerate([*step.block.text.splitlines(), ""], start=step.block.line):
            waiting.append(line)
            try:
                finished = codeop.compile_command("\n".join(waiting)) is not None
            except SyntaxError as error:
                pytest.fail(f"{name(page)}, line {number}: {error}", pytrace=False)
            waiting = [] if finished else waiting
        assert waiting == [], f"{name(page)}, line {step.block.line}: ends unfinished"


NOTEBOOKS = sorted((ROOT / "docs").glob("[!g]*/*.ipynb"))  # those of the gallery are made


@pytest.mark.parametrize("page", NOTEBOOKS, ids=name)
def test_a_notebook_has_no_outputs_and_asks_within_ten_lines(page: Path) -> None:
    """The site shows the outputs of the build, which runs it, as `make slow` does."""
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    assert len(code[0]["source"]) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("page", NOTEBOOKS, ids=name)
def test_a_notebook_runs_and_shows_its_first_answer(page: Path) -> None:
    pytest.importorskip("nbclient")
    site = runpy.run_path(str(ROOT / "docs" / "_ext" / "notebooks.py"))
    done = site["executed"](page.read_text(encoding="utf-8"))  # raises where a cell does
    first = next(cell for cell in done.cells if cell.cell_type == "code")
    assert "<svg" in first.outputs[-1].data["text/html"]
    assert "<svg" in site["markdown"](done)
    said = [each for cell in done.cells for each in cell.get("outputs", ())]
    assert not [each.text for each in said if each.get("name") == "stderr"]
