"""Local names say what they hold: a list of the words that do not, by file and line."""

import ast
from pathlib import Path

from benchmarks.quality.house import vague_names

SOURCE = Path(__file__).parents[1] / "src" / "korisk"

# Fields of public answers, which are keys of their JSON too.
PUBLIC = {("planning/answer.py", "at"), ("planning/compare.py", "found")}
# Fields of a layer's gain and of a recorded step.
PUBLIC |= {("networks/amplification.py", "part"), ("networks/describe/recording.py", "part")}
PUBLIC |= {("prediction/answer.py", "at")}  # a field of `Question`, which callers name
PUBLIC |= {("theory/bound.py", "whole")}  # a field of `BarronBound`: the bound with its floor
PUBLIC |= {("problems/problem.py", "wanted")}  # of a problem's draws: the map to the targets
PUBLIC |= {("studies/run/progress.py", "left")}  # the time left of a run
# The factors of a low-rank matrix, which stand to the left and to the right in its product.
PUBLIC |= {("networks/dense.py", "left"), ("networks/describe/layers.py", "left")}


def test_names_say_what_they_hold() -> None:
    vague = []
    for path in sorted(SOURCE.rglob("*.py")):
        inside = path.relative_to(SOURCE)
        vague += [
            f"{inside}:{line}: {name}"
            for line, name in vague_names(ast.parse(path.read_text(encoding="utf-8")))
            if (inside.as_posix(), name) not in PUBLIC
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
