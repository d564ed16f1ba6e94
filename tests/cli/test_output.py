"""Options come from the library's docstrings, and its messages are told with options."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from commands import outputs

import korisk as kr
from benchmarks.quality.house import tree_of
from korisk.cli.app import app
from korisk.cli.common.messages import Command
from korisk.errors import Argument, Message

SOURCE = Path(__file__).parents[2] / "src" / "korisk"
GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Command] = GROUP.commands


@pytest.mark.parametrize(
    ("command", "argument", "shown"),
    [
        ("plan", Argument("unit", ...), "--unit"),
        ("plan", Argument("unit", "percent"), "--unit percent"),
        ("plan", Argument("unit"), "--unit"),
        ("plan", Argument("columns", {"n": "my size"}), "--column 'n=my size'"),
        ("plan", Argument("columns", {"n": "a", "error": ...}), "--column n=a --column error=..."),
        ("plan", Argument("lipschitz", ...), "lipschitz="),
        ("bound", Argument("bound", "paper"), "--bound paper"),
        ("rehearse", Argument("on_error", "skip"), "--on-error skip"),
        ("rehearse", Argument("build"), "--network"),
        ("rehearse", Argument("steps", 2000), "--steps 2000"),
        ("ablate", Argument("build"), "--network"),
    ],
)
def test_arguments_become_options(command: str, argument: Argument, shown: str) -> None:
    message = Message("pass unit='dB' or ", argument, ".")
    assert COMMANDS[command].rendered(message) == f"pass unit='dB' or {shown}."


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_option_is_described(name: str) -> None:
    command = COMMANDS[name]
    parameter: Any
    for parameter in command.params:
        assert parameter.help, parameter.name
        if not getattr(parameter, "is_flag", False):
            assert parameter.metavar, parameter.name
        assert "`" not in parameter.help


def test_units_are_listed_in_help() -> None:
    said = " ".join(outputs("plan", "--help")[0].replace("-\n", "-").split())
    for word in kr.curves.UNITS:
        assert re.search(rf"\b{word}\b", said), word


def test_help_of_no_command_loads_pytorch() -> None:
    code = (
        "import sys; from korisk.cli.app import run;"
        f"[run([name, '--help']) for name in {list(COMMANDS)}];"
        "print([name for name in ('torch', 'matplotlib', 'scipy.stats') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_command_shows_its_own_options(tmp_path: Path) -> None:
    pilot = tmp_path / "pilot.csv"
    pilot.write_text("n,score\n4,0.2\n8,0.3\n16,0.4\n")
    said = " ".join("".join(outputs("plan", pilot, "--target", 0.1, code=2)).split())
    assert "--unit" in said
    assert "unit=" not in said


def test_no_message_of_the_library_names_an_option() -> None:
    option = re.compile(r"(?<![\w-])--(?:target|unit|out|column|fit|model|at|point|on-error)\b")
    for path in SOURCE.rglob("*.py"):
        if {"cli", "commands"} & set(path.relative_to(SOURCE).parts):
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Raise):
                assert not option.search(ast.unparse(node)), path
