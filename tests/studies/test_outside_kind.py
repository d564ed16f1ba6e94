"""A kind of problem in one file outside the package: the one that the how-to page writes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from korisk.errors import KoriskError
from korisk.store.store import Store
from korisk.studies.spec.study import Study, asked_for

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-kind.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the page."""
    for name, content in re.findall(
        r"cat > (\S+) <<'EOF'\n(.*?)EOF\n", PAGE.read_text(), re.DOTALL
    ):
        (tmp_path / name).write_text(content)
    return tmp_path


def korisk(folder: Path, *arguments: str, kinds: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"KORISK_KINDS": kinds}
    command = [sys.executable, "-m", "korisk", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_a_kind_in_one_file_runs_in_worker_processes(folder: Path) -> None:
    with pytest.raises(KoriskError, match=r"no problem of kind 'accelerometer'.*KORISK_KINDS"):
        Study.read(folder / "drift.yaml")
    run = "run", "drift.yaml", "--out", "drift", "--workers", "1"
    done = korisk(folder, *run, kinds="accelerometer.py")
    assert done.returncode == 0, done.stderr
    with Store.read(folder / "drift" / "study.db") as store:
        errors = {
            (row.task.point, row.row.model, row.row.n): row.row.metrics for row in store.rows()
        }
        assert asked_for(store.study) is None  # a store imports nothing
    assert {key[0] for key in errors} == {"quiet", "noisy"}
    assert errors["quiet", "KO", 64]["mse"] < 0.1 * errors["quiet", "KO", 0]["mse"]
    assert errors["quiet", "KO", 64]["mse"] < errors["noisy", "KO", 64]["mse"]


def test_what_a_kind_raises_for_a_study_is_one_line_with_its_place(folder: Path) -> None:
    study = (folder / "drift.yaml").read_text().replace("noise: 0.02", "steps: -3")
    (folder / "wrong.yaml").write_text(study)
    done = korisk(folder, "run", "wrong.yaml", "--workers", "0", kinds="accelerometer.py")
    assert done.returncode == 2
    said = r"korisk: wrong\.yaml: kind 'accelerometer' failed: \w+Error: .*line \d+\); correct it"
    assert re.match(said, " ".join(done.stderr.split()))


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ("missing.py", r"KORISK_KINDS: .*missing\.py: no such file; check the path"),
        ("json.py", r"another module is called json; rename .*json\.py"),
        ("broken.py", "broken.py cannot be imported: ZeroDivisionError: .*; correct it"),
        ("needs.py", "needs.py cannot be imported: ModuleNotFoundError: .*; correct it"),
    ],
)
def test_files_that_cannot_be_imported_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kinds: str, said: str
) -> None:
    (folder / "json.py").write_text("")
    (folder / "broken.py").write_text("1 / 0")
    (folder / "needs.py").write_text("import no_such_package")
    monkeypatch.setenv("KORISK_KINDS", str(folder / kinds))
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(KoriskError, match=said):
        Study.read(folder / "drift.yaml")


@pytest.mark.parametrize("name", ["no_such_module", "no_such_package.kinds"])
def test_modules_that_python_does_not_find_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("KORISK_KINDS", name)
    said = f"KORISK_KINDS: {name} cannot be imported: .*; name a module that Python finds, or a"
    with pytest.raises(KoriskError, match=said):
        Study.read(folder / "drift.yaml")


@pytest.mark.parametrize("kind", ["[ct]", "{ct: 1}", "3", "null"])
def test_a_kind_that_is_no_text_is_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(f"name: x\nproblem: {{kind: {kind}}}\npoints: [{{side: 8}}]\n")
    with pytest.raises(KoriskError, match=r"there is no problem of kind .*; known: .*ct") as caught:
        Study.read(file)
    assert "\n" not in str(caught.value)
