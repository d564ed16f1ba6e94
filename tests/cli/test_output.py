"""Library messages name Python arguments; the command line shows its options instead."""

import ast
import re
from pathlib import Path

import pytest
from commands import outputs

from korisk.cli.output import options_in_use, with_options

SOURCE = Path(__file__).parents[2] / "src" / "korisk"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("say so with unit=.", "say so with --unit."),
        ("pass unit='percent' if 100 is perfect", "pass --unit percent if 100 is perfect"),
        ("pass columns={'n': 'steps', 'error': ...}", "pass --column n=steps --column error=..."),
        ("choose another store=", "choose another --out"),
        ("with on_error='skip'", "with --on-error skip"),
        ("ask for effective=True", "ask for --effective"),
        ("lower rate=, or seeds=", "lower --training rate, or --training seeds"),
        ("build must return a network", "--network must return a network"),
        ("x=3, other= and unit=dB", "x=3, other= and unit=dB"),
    ],
)
def test_arguments_become_options(said: str, shown: str) -> None:
    known = ("--unit", "--column", "--out", "--on-error", "--effective", "--training", "--network")
    token = options_in_use.set(lambda: known)
    try:
        assert with_options(said) == shown
    finally:
        options_in_use.reset(token)


def test_a_command_shows_its_own_options(tmp_path: Path) -> None:
    pilot = tmp_path / "pilot.csv"
    pilot.write_text("n,error\n4,0.2\n8,0.3\n16,0.4\n")
    said = " ".join("".join(outputs("plan", pilot, "--target", 0.1, code=3)).split())
    assert "--unit" in said
    assert "unit=" not in said


def test_no_message_of_the_library_names_an_option() -> None:
    option = re.compile(r"(?<![\w-])--(?:target|unit|out|column|fit|model|at|point|on-error)\b")
    for path in SOURCE.rglob("*.py"):
        if path.parent.name == "cli" or path.name == "sharded.py":  # which is a command, too
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise):
                assert not option.search(ast.unparse(node)), path
