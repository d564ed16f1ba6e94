"""What a release says of itself, in five places, and what its archives may hold.

The archives themselves are built, installed and tried by `make release-check`.
"""

import json
import re
import runpy
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import korisk as kr

ROOT = Path(__file__).parents[1]
CONTENTS = runpy.run_path(str(ROOT / "benchmarks/quality/release_contents.py"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOR_USERS = {
    name: {Requirement(each).name for each in needs}
    for name, needs in PROJECT["project"]["optional-dependencies"].items()
    if name not in ("dev", "docs")
}


def test_every_target_of_make_has_a_rule_and_every_one_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    rules = set(re.findall(r"^([a-z-]+):(?!=)", makefile, re.MULTILINE))
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert set(phony.split()) == rules
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.py")]
    named = {
        name
        for path in texts
        for line in path.read_text().splitlines()
        for name in re.findall(r"(?:^|`)make ([a-z-]+)(?=[ `]|$)", line.strip())
    }
    assert {"run", "test", "docs", "coverage", "release-check"} <= named <= rules


# Stands for Python and for uv: writes down how it is called, and fails while there is a file "off".
IMITATION = """#!/bin/sh
echo "$(basename "$0") $*" >> {folder}/calls
[ "$2" = venv ] && mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
[ "$2" != install ] && [ "$3" != install ] || [ ! -e {folder}/off ]
"""


def test_a_set_up_is_what_is_needed_and_an_interrupted_one_is_done_again(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    tools = tmp_path / "tools"
    tools.mkdir()
    calls, off = tmp_path / "calls", tmp_path / "off"
    for name in ("make", "sh", "basename", "cp", "mkdir", "touch", "expr", "nproc"):
        if tool := shutil.which(name):  # no others, such as uv
            (tools / name).symlink_to(tool)
    if not (tools / "make").exists():
        pytest.skip("no make")

    def imitate(name: str) -> None:
        (tools / name).write_text(IMITATION.format(folder=tmp_path))
        (tools / name).chmod(0o755)

    def installed(stamp: str) -> tuple[int, list[tuple[str, str]]]:
        """How make ends, and who installed which extras."""
        calls.write_text("")
        call = [str(tools / "make"), f".venv/{stamp}", "PYTHON=python"]
        done = subprocess.run(
            call, cwd=tmp_path, env={"PATH": str(tools)}, capture_output=True, check=False
        )
        lines = [line for line in calls.read_text().splitlines() if " install " in line]
        return done.returncode, [(line.split()[0], line.split("[")[1][:-1]) for line in lines]

    imitate("python")
    off.touch()
    assert installed(".study") == (2, [("python", "report,torch")])
    off.unlink()
    assert installed(".study") == (0, [("python", "report,torch")])
    assert installed(".study") == (0, [])
    assert installed(".ready") == (0, [("python", "all,docs,dev")])
    shutil.rmtree(tmp_path / ".venv")
    imitate("uv")
    assert installed(".ready") == (0, [("uv", "report,torch"), ("uv", "all,docs,dev")])
    shutil.rmtree(tmp_path / ".venv")
    off.touch()  # both fail: uv is tried first
    assert installed(".study") == (2, [("uv", "report,torch"), ("python", "report,torch")])


def citation() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    return found


def kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (ROOT / "benchmarks" / "results" / "release.json").read_text()
    )
    return found


# --- Version -------------------------------------------------------------------------------------


def test_the_version_is_the_same_everywhere() -> None:
    version = Version(kr.__version__)  # raises unless it is as PEP 440 has it
    assert str(version) == kr.__version__
    (newest, *_) = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    if version.is_devrelease:  # between releases
        assert newest == "Unreleased"
        return
    told = citation()
    assert newest == f"{version} ({told['date-released']})"
    assert told["version"] == kr.__version__
    assert kept()["version"] == kr.__version__


# --- Citation ------------------------------------------------------------------------------------


def test_the_citation_is_whole() -> None:
    told = citation()
    assert told["cff-version"] == "1.2.0"
    assert told["type"] == "software"
    assert told["license"] == PROJECT["project"]["license"]
    assert told["authors"] == [{"name": each["name"]} for each in PROJECT["project"]["authors"]]
    assert {"message", "title", "abstract", "version", "date-released"} <= set(told)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", told["date-released"])
    assert set(told["keywords"]) <= set(PROJECT["project"]["keywords"])


def test_the_paper_is_cited() -> None:
    paper = citation()["preferred-citation"]
    assert paper["title"] == "A Deep Risk Estimator for Known Operator Learning"
    names = [each["family-names"] for each in paper["authors"]]
    assert names == ["Maier", "Hasan", "Conrad", "Pérez Toro"]
    assert all(each["given-names"] for each in paper["authors"])
    assert (paper["type"], paper["year"]) == ("article", 2026)
    assert paper in citation()["references"]
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"*{paper['title']}* (Maier, Hasan, Conrad, Pérez Toro, {paper['year']})" in readme


# --- Extras --------------------------------------------------------------------------------------


def test_all_is_all_extras_for_users() -> None:
    (whole,) = PROJECT["project"]["optional-dependencies"]["all"]
    assert Requirement(whole).name == "korisk"
    assert Requirement(whole).extras == set(FOR_USERS) - {"all"}


def test_every_extra_is_listed_and_was_tried() -> None:
    lines = (ROOT / "benchmarks" / "results" / "readme.txt").read_text().splitlines()
    rows = [
        found[1] for found in map(re.compile(r"\| `korisk(\[\w+\])?` \|").match, lines) if found
    ]
    assert rows == [None, *(f"[{name}]" for name in FOR_USERS)]
    assert [each["what"] for each in kept()["installs"]] == ["core", *FOR_USERS, "source archive"]


def test_extras_that_messages_and_pages_name_are_there() -> None:
    texts = [*ROOT.glob("src/korisk/**/*.py"), ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    named = {
        extra.strip()
        for path in texts
        for inside in re.findall(r"korisk\[([\w, ]+)\]", path.read_text())
        for extra in inside.split(",")
    }
    assert set(FOR_USERS) - {"all"} <= named <= set(PROJECT["project"]["optional-dependencies"])


def test_importing_loads_no_more_where_more_is_installed() -> None:
    found = kept()["installs"]
    counts = [each["modules"] for each in found]
    assert max(counts) - min(counts) <= 1  # setuptools, which PyTorch brings, adds one of its own
    core, whole = found[0], next(each for each in found if each["what"] == "all")
    assert core["megabytes"] < whole["megabytes"]


def test_what_is_not_installed_was_refused_in_every_environment() -> None:
    extras = set(FOR_USERS) - {"all"}
    for each in kept()["installs"]:
        given = extras if each["what"] == "all" else {each["what"]} & extras
        given |= {"torch"} if "mri" in given else set()  # which it includes
        wanted = {"core", *given, *(f"without {name}" for name in extras - given)}
        assert {line.partition(":")[0] for line in each["tried"]} == wanted


# --- Archives ------------------------------------------------------------------------------------


def data_files() -> list[str]:
    source = ROOT / "src"
    return sorted(
        path.relative_to(source).as_posix()
        for path in (source / "korisk").rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    )


def test_every_data_file_is_one_that_the_wheel_must_hold() -> None:
    assert tuple(data_files()) == CONTENTS["NEEDED"]
    config = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert config == {"packages": ["src/korisk"]}  # nothing in there is left out
    assert [name for name in CONTENTS["SOURCES"] if not (ROOT / name).is_file()] == []


def test_no_data_file_is_ignored_by_git_which_would_keep_it_from_the_wheel() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    asked = ["git", "check-ignore", "--no-index", *(f"src/{name}" for name in data_files())]
    assert subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).stdout == b""


def made_wheel(folder: Path, **files: str) -> tuple[Path, Path]:
    """A tree with the package's data files, and a wheel of it; `files` change what is packed."""
    root, wheel = folder / "tree", folder / "korisk-1-py3-none-any.whl"
    packed = dict.fromkeys(CONTENTS["NEEDED"], "")
    for name in packed:
        path = root / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name in ("METADATA", "RECORD", "entry_points.txt", "licenses/LICENSE"):
        packed[f"korisk-1.dist-info/{name}"] = ""
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in (packed | files).items():
            if content != "left out":
                archive.writestr(name, content)
    return wheel, root


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"korisk/py.typed": "left out"}, "korisk/py.typed"),
        ({"korisk-1.dist-info/licenses/LICENSE": "left out"}, "lacks licenses/LICENSE"),
        ({"tests/test_all.py": ""}, "tests/test_all.py"),
        ({"korisk/report/page/assets/view.js": "/HOME/somebody/"}, "home folder"),
        ({"korisk/report/page/assets/view.js": "ROOT/src"}, "a place of this machine"),
    ],
)
def test_a_wheel_with_too_little_or_too_much_is_refused(
    files: dict[str, str], says: str, tmp_path: Path
) -> None:
    wheel, root = made_wheel(tmp_path)
    assert CONTENTS["check_wheel"](wheel, root) == 0
    for name, text in files.items():
        files = files | {name: text.replace("ROOT", str(root)).replace("HOME", "home")}
    wheel, root = made_wheel(tmp_path, **files)
    with pytest.raises(CONTENTS["WrongContents"], match=re.escape(says)):
        CONTENTS["check_wheel"](wheel, root)


# --- Metadata ------------------------------------------------------------------------------------


def test_the_metadata_agree_with_each_other() -> None:
    project = PROJECT["project"]
    assert project["requires-python"] == f">={PROJECT['tool']['mypy']['python_version']}"
    assert "Typing :: Typed" in project["classifiers"]
    assert "Programming Language :: Python :: 3" in project["classifiers"]
    # With a licence expression, PEP 639 forbids to say it again as a classifier.
    assert not any(each.startswith("License ::") for each in project["classifiers"])
    assert project["license-files"] == ["LICENSE"]
    assert "MIT License" in (ROOT / "LICENSE").read_text()
    assert len(project["description"]) < 120
