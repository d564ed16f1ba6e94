"""Nothing is written elsewhere than it was asked for, and what fails leaves nothing behind."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commands import korisk, outputs, refused

from korisk import files
from korisk.errors import KoriskError
from korisk.store.cells import Result, Row, Task
from korisk.store.store import Store
from korisk.store.usage import Usage

STUDY = """\
name: tiny
points: [{side: 8, views: 8, bins: 12}]
sizes: [2, 4]
seeds: [1]
pools: {validation: 4, test: 4}
"""
HOSTILE = ("../../up", "/etc/passwd", "..", ".", "a/b", "-rf", "con\\..\\x", "x" * 80, "a b", "~")


def everything(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, deep enough for `../../` to be seen."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    (folder / "study.yaml").write_text(STUDY)
    return folder


def record(folder: Path, points: tuple[str, ...], model: str = "KO") -> None:
    folder.mkdir()
    usage = Usage(started="2026-01-01T00:00:00+00:00", seconds=1.0)
    with Store.create_or_open(folder / "study.db", {"name": "../../s"}) as store:
        for point in points:
            rows = [Row(model=model, n=n, metrics={"mse": 1 / n}) for n in (4, 8, 16)]
            task = Task(point=point, seed=1, spec={"metric": "mse"})
            store.record(task, Result(rows=tuple(rows)), usage)


def test_hostile_names_stay_in_the_folder(here: Path, tmp_path: Path) -> None:
    record(here / "study", HOSTILE, model="../../model")
    before = everything(tmp_path)
    said = outputs("report", "study", "--only", "tables", "--out", "out")[1]
    assert said.startswith("korisk: Read: 'mse' of ")
    made = everything(tmp_path) - before
    assert made
    assert all(name.startswith("a/b/out") for name in made)


def test_names_of_files_are_safe_and_differ() -> None:
    from korisk.report.figures.study import file_stems

    stems = file_stems([*HOSTILE, "A/B", "\x1b[31m", ""])
    assert len({stem.casefold() for stem in stems}) == len(stems)
    assert all(stem and not set(stem) & set("/\\.\x1b ") for stem in stems)


@pytest.mark.parametrize("name", ["...yaml", "..yaml", ".yaml"])
def test_the_default_folder_is_below_this_one(name: str) -> None:
    from korisk.cli.run import folder_of

    assert folder_of(Path(name)).parts[-1] not in ("", ".", "..")
    assert folder_of(Path("../elsewhere/mine.yaml")) == Path("mine")


# --- Links and devices ---------------------------------------------------------------------------


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed_and_stays_one(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "elsewhere").write_bytes(b"old")
    (tmp_path / "out.png").symlink_to("elsewhere")
    files.write_bytes(tmp_path / "out.png", b"new")
    assert (tmp_path / "elsewhere").read_bytes() == b"new"
    assert (tmp_path / "out.png").is_symlink()


def test_an_export_follows_a_link(here: Path) -> None:
    record(here / "study", ("p",))
    (here / "out.csv").symlink_to("elsewhere.csv")
    assert korisk("export", "study", "--output", "out.csv") == 0
    assert (here / "out.csv").is_symlink()
    assert (here / "elsewhere.csv").read_text().startswith("point,")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_an_export_to_a_full_disk_says_so(here: Path, kind: str) -> None:
    record(here / "study", ("p",))
    said = refused("export", "study", "--output", "/dev/full", "--format", kind)
    assert "/dev/full: cannot be written: no space left on device; free some space" in said


def test_links_in_a_circle_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(KoriskError, match="cannot be written"):
        files.write_bytes(tmp_path / "a", b"new")


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    """So does a device: what --output /dev/null names is no file to put another in place of."""
    path = tmp_path / "out.png"
    os.mkfifo(path)
    with ThreadPoolExecutor(1) as reader:
        found = reader.submit(path.read_bytes)
        files.write_bytes(path, b"new")
        assert found.result(timeout=20) == b"new"
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("name", ["folder", "missing/x", "file/x", "a\0b", "x" * 300])
def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"kept")
    before = everything(tmp_path)
    with pytest.raises(KoriskError, match="cannot be written") as caught:
        files.write_bytes(tmp_path / name, b"new")
    assert "\n" not in str(caught.value)
    assert "name a file in a folder that you may write to" in str(caught.value)
    assert everything(tmp_path) == before


def test_a_write_that_is_interrupted_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "out").write_bytes(b"kept")
    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        files.write_bytes(tmp_path / "out", b"new")
    assert everything(tmp_path) == {"out"}
    assert (tmp_path / "out").read_bytes() == b"kept"


def test_halves_of_characters_can_be_written(tmp_path: Path) -> None:
    files.write_text(tmp_path / "out", "a\ud800b")
    assert (tmp_path / "out").read_text() == "a\\ud800b"


# --- Commands that fail --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "study.yaml", "--scheduler", "nonsense"),
        ("run", "study.yaml", "--out", "results/a", "--scheduler", "nonsense:99999"),
        ("run", "study.yaml", "--out", "study.yaml"),
        ("run", "study.yaml", "--out", "study.yaml/x"),
        ("run", "missing.yaml"),
        ("rehearse", "study.yaml", "--images", "missing", "--examples", "8"),
        ("rehearse", "study.yaml", "--pilot", "missing.csv", "--plot", "missing/x.png"),
        ("export", "done", "--output", "missing/x.csv"),
        ("export", "done", "--output", "study.yaml/x.csv"),
        ("report", "done", "--out", "study.yaml"),
        ("bound", "study.yaml"),
    ],
)
def test_commands_that_fail_leave_nothing(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    record(here / "done", ("p",))
    before = everything(tmp_path)
    assert korisk(*arguments) == 2
    made = everything(tmp_path) - before
    assert made <= {"a/b/results"}  # a folder above the one that was asked for
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_steers_a_terminal_is_written_out(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert korisk("plan", "\x1b]0;title\x07.csv", "--target", "1") == 2
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\\x1b]0;title\\x07.csv: no such file" in said


def test_tables_do_not_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from korisk.cli.common.output import show
    from korisk.texts import Table

    show(Table("\x1b[31mtitle", ["\x1b[2Jcolumn"], [["\x1b]0;x\x07"]]), "line\x1b[31m\nnext")
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "line\\x1b[31m\nnext" in said
