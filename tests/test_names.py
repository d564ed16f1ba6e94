"""Local names say what they hold: a list of the words that do not, by file and line."""

import ast
from pathlib import Path

from benchmarks.quality.house import vague_names

SOURCE = Path(__file__).parents[1] / "src" / "korisk"

# Packages without vague names; add one when it is clean.
CLEAN = ["planning", "curves", "theory", "report", "cli", "store"]
CLEAN += ["fitting", "studies", "images", "pilots", "problems", "ablation"]
CLEAN += ["operators", "networks", "paper", "prediction"]
# Fields of public answers, which are keys of their JSON too.
PUBLIC = {("planning/answer.py", "at"), ("planning/compare.py", "found")}
PUBLIC |= {("paper/claims.py", "own")}
# Fields of a layer's gain and of a recorded step.
PUBLIC |= {("networks/amplification.py", "part"), ("networks/describe/recording.py", "part")}
PUBLIC |= {("prediction/answer.py", "at")}  # a field of `Question`, which callers name


def test_names_say_what_they_hold() -> None:
    files = [path for name in CLEAN for path in sorted((SOURCE / name).rglob("*.py"))]
    assert {path.relative_to(SOURCE).parts[0] for path in files} == {*CLEAN}
    vague = [
        f"{path.relative_to(SOURCE.parents[1])}:{line}: {name}"
        for path in files
        for line, name in vague_names(ast.parse(path.read_text(encoding="utf-8")))
        if (path.relative_to(SOURCE).as_posix(), name) not in PUBLIC
    ]
    assert not vague, "rename to what they hold:\n" + "\n".join(vague)


def test_vague_names_are_found_in_every_kind_of_assignment() -> None:
    code = """
found = [each.name for each in rows]
for at, row in enumerate(rows):
    (part := row.one)
class Answer:
    said: str
def kept(other):
    return made(other)
"""
    assert vague_names(ast.parse(code)) == [
        (2, "each"),
        (2, "found"),
        (3, "at"),
        (4, "part"),
        (6, "said"),
    ]
