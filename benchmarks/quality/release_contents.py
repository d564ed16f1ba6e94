"""What a wheel and a source archive of korisk must hold, and must not; `quality.release` asks.

Each check raises `WrongContents` with what is wrong. The rule for both is the list of files that
git knows of: a wheel is what lies in src/korisk and nothing else, a source archive holds nothing
that git does not.
"""

import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

NEEDED = (  # what the package reads at run time, and what type checkers look for
    "korisk/curves/names.txt",
    "korisk/paper/published.yaml",
    "korisk/paper/tables.yaml",
    "korisk/planning/record.json",
    "korisk/py.typed",
    "korisk/report/figures/fine.mplstyle",
    "korisk/report/figures/plain.mplstyle",
    "korisk/report/figures/theme.yaml",
    "korisk/report/page/assets/method.html",
    "korisk/report/page/assets/notes.html",
    "korisk/report/page/assets/page.css",
    "korisk/report/page/assets/page.html",
    "korisk/report/page/assets/pilot.html",
    "korisk/report/page/assets/planner.html",
    "korisk/report/page/assets/rehearsal.html",
    "korisk/report/page/assets/serve.html",
    "korisk/report/page/assets/view.js",
    "korisk/report/tables/tables.yaml",
    "korisk/store/schema.sql",
)
SOURCES = (  # what it takes to test, document and cite it
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "constraints.txt",
    "pyproject.toml",
    "benchmarks/quality/release.py",
    "docs/explanation/theory.md",
    "examples/pilot_h8.csv",
    "src/korisk/py.typed",
    "tests/test_release.py",
)
_HOMES = re.compile(rb"/(?:home|Users)/[a-z]\w*/|[A-Z]:\\\\?Users\\")


class WrongContents(Exception):
    """An archive that must not be released."""


def wheel_contents(path: Path) -> dict[str, bytes]:
    """The files of a wheel, by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sdist_contents(path: Path) -> dict[str, bytes]:
    """The files of a source archive, by their names below its one folder."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member)
            if content is not None:
                found[member.name.partition("/")[2]] = content.read()
    return found


def known_files(root: Path) -> set[str]:
    """The files that git tracks or would track, or all but leftovers where there is no git."""
    asked = ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        names = done.stdout.split("\0")[:-1]
        return {name for name in names if (root / name).is_file()}
    return {
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def check_wheel(path: Path, root: Path) -> int:
    """The size in bytes, unpacked, of a wheel that holds what it must and no more."""
    found = wheel_contents(path)
    package = {name for name in found if ".dist-info/" not in name}
    wanted = {
        name.removeprefix("src/") for name in known_files(root) if name.startswith("src/korisk/")
    }
    _same(package, wanted, path.name)
    _all_there(NEEDED, package, path.name)
    rest = {name.partition(".dist-info/")[2] for name in found} - {""}
    _all_there(("METADATA", "RECORD", "entry_points.txt", "licenses/LICENSE"), rest, path.name)
    _no_places(found, root, path.name)
    return sum(map(len, found.values()))


def check_sdist(path: Path, root: Path) -> int:
    """The size in bytes, unpacked, of a source archive that holds what it must and no more."""
    found = sdist_contents(path)
    _all_there(SOURCES, set(found), path.name)
    odd = sorted(set(found) - known_files(root) - {"PKG-INFO"})
    if odd:
        raise WrongContents(f"{path.name} holds {len(odd)} files that git does not, as {odd[:3]}")
    untested = sorted(
        name
        for name in known_files(root)
        if name.startswith(("src/", "tests/", "docs/")) and name not in found
    )
    if untested:
        raise WrongContents(f"{path.name} lacks {len(untested)} files, as {untested[:3]}")
    _no_places(found, root, path.name)
    return sum(map(len, found.values()))


def check_same(one: Path, other: Path) -> None:
    """Two wheels with the same files, byte by byte."""
    first, second = wheel_contents(one), wheel_contents(other)
    _same(set(first), set(second), f"{one.name} of the tree against that of the source archive")
    differing = [name for name in first if first[name] != second[name]]
    if differing:
        raise WrongContents(f"the source archive makes another wheel: {differing[:3]} differ")


def _all_there(needed: tuple[str, ...], found: set[str], what: str) -> None:
    missing = [name for name in needed if name not in found]
    if missing:
        raise WrongContents(f"{what} lacks {', '.join(missing)}")


def _same(found: set[str], wanted: set[str], what: str) -> None:
    more, less = sorted(found - wanted), sorted(wanted - found)
    if more or less:
        raise WrongContents(f"{what}: {more[:3]} too much, {less[:3]} missing")


def _no_places(found: dict[str, bytes], root: Path, what: str) -> None:
    """Nothing may say on which machine it was made."""
    places = [f"{root}/".encode(), f"{Path.home()}/".encode()]
    for name, content in found.items():
        for place in places:
            if place in content:
                raise WrongContents(
                    f"{what}: {name} names {place.decode()!r}, a place of this machine"
                )
        if _HOMES.search(content):
            raise WrongContents(f"{what}: {name} names somebody's home folder")
