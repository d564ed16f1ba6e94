"""The scripts of the gallery: numbered, named, seeded and alike. The site shows that they run."""

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
SITE = GALLERY.parents[1] / "docs" / "_ext"
SCRIPTS = sorted(GALLERY.glob("[0-9][0-9]_*.py"))
RUNNER = runpy.run_path(str(GALLERY / "run_all.py"))
DRAWS = {"rand", "randn", "randint", "randperm", "normal", "nn"}  # of torch, from its global state


def tree(script: Path) -> ast.Module:
    return ast.parse(script.read_text(encoding="utf-8"))


def calls(script: Path) -> Iterator[tuple[str, ast.Call]]:
    """Every call by its dotted name."""
    for node in ast.walk(tree(script)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_scripts_are_numbered_without_gaps_run_and_listed_once() -> None:
    names = [script.name for script in SCRIPTS]
    assert [int(name[:2]) for name in names] == list(range(1, len(SCRIPTS) + 1))
    assert len(SCRIPTS) >= 11
    others = {path.name for path in GALLERY.iterdir() if path.is_file()} - set(names)
    assert others == {"README.rst", "gallery.mplstyle", "run_all.py"}
    text = (GALLERY / "README.rst").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^- ``(\d\d_\w+\.py)``: \w", text, flags=re.MULTILINE)) == names
    assert RUNNER["scripts"]() == SCRIPTS


def test_the_site_shows_thumbnails_in_place_of_the_list() -> None:
    without_list = runpy.run_path(str(SITE / "scripts.py"))["without_list"]
    shown = without_list((GALLERY / "README.rst").read_text(encoding="utf-8"))
    assert shown.startswith("Gallery\n=======\n")
    assert "run_all.py" in shown
    assert "- ``" not in shown
    assert "---" not in shown
    with pytest.raises(ValueError, match="On the site"):
        without_list("Gallery\n=======\n")


def test_scripts_are_alike() -> None:
    for script in SCRIPTS:
        text = script.read_text(encoding="utf-8")
        title, line, blank, *story = (ast.get_docstring(tree(script)) or "").splitlines()
        assert (line, blank) == ("=" * len(title), ""), script.name
        assert len(" ".join(story).split()) > 20, script.name
        blocks = re.findall(r"^# %%\n# (.+)\n# (-+)\n# [\w`]", text, flags=re.MULTILINE)
        assert len(blocks) == text.count("# %%") >= 2, script.name
        assert all(len(title) == len(line) for title, line in blocks), script.name
        made = [ast.literal_eval(call.args[0]) for name, call in calls(script) if "savefig" in name]
        assert made == [f"{script.stem}.png"]
        assert ast.unparse(tree(script).body[-1]).startswith(
            (f"print(f'wrote {script.stem}.png: ", f'print(f"wrote {script.stem}.png: ')
        )
        # The site collects what pyplot knows, so nothing is shown, closed or drawn beside it.
        names = [name for name, _ in calls(script)]
        assert sum(name in {"plt.subplots", "plt.figure"} for name in names) == 1, script.name
        assert not {"plt.show", "plt.close"} & set(names), script.name


def test_scripts_are_seeded_and_name_no_place_of_one_machine() -> None:
    for script in SCRIPTS:
        made = dict(calls(script))
        assert not [name for name in made if name.startswith(("random.", "np.random."))]
        if any(name.startswith((*(f"torch.{word}" for word in DRAWS), "nn.")) for name in made):
            assert made["torch.manual_seed"].args, script.name
        for node in ast.walk(tree(script)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.match(r"[/~\\]|[A-Za-z]:[\\/]|.*://", node.value), script.name


# --- What runs them ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "out", "err", "words"),
    [
        (0, "hello\nwrote 01_x.png: 3\n", "", None),
        (1, "", "KoriskError: no\n", "ended with code 1"),
        (0, "wrote 01_x.png\n", "UserWarning: tight layout\n", "stderr: UserWarning"),
        (0, "done\n", "", "last line"),
        (0, "", "", "last line"),
    ],
)
def test_a_bad_end_is_found(code: int, out: str, err: str, words: str | None) -> None:
    faults = RUNNER["spoken"](code, out, err, "01_x")
    assert (words in faults[0]) if words else not faults


def test_files_that_do_not_belong_there_are_found(tmp_path: Path) -> None:
    from matplotlib.image import imsave

    assert RUNNER["left_behind"](tmp_path, "01_x.png") == ["left nothing, not 01_x.png alone"]
    picture = np.ones((40, 60, 3))
    imsave(tmp_path / "01_x.png", picture)
    assert RUNNER["left_behind"](tmp_path, "01_x.png") == ["01_x.png is blank"]
    picture[10:30, 10:20] = 0.3
    imsave(tmp_path / "01_x.png", picture)
    assert not RUNNER["left_behind"](tmp_path, "01_x.png")
    (tmp_path / "more.txt").touch()
    assert "more.txt" in RUNNER["left_behind"](tmp_path, "01_x.png")[0]
