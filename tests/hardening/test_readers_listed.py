"""Whatever in the package reads a file is fuzzed, or it is said why no user's file comes there."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import fuzz_readers

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "korisk"
READS = re.compile(
    r"(.*\.)?(read_text|read_bytes|read_yaml)|json\.loads?|torch\.load|(np|numpy)\.load|yaml\.load"
    r"|sqlite3\.connect|csv\.(reader|DictReader)|zipfile\.ZipFile|h5py\.File|[Ii]mage\.open"
    r"|tifffile\.TiffFile|pydicom\.dcmread|_?Unpickler|(.*\.)?(loadtxt|genfromtxt|fromfile)"
)
FUZZED = {  # module: the readers that come there
    "curves/read.py": ("csv", "json"),
    "files.py": ("csv", "json", "network", "study", "jobs", "prediction"),
    "fitting/gradient/sharded.py": ("shards", "metadata"),
    "fitting/gradient/train.py": ("checkpoint",),
    "images/formats/arrays.py": ("npy", "npz"),
    "images/formats/dicom.py": ("dicom",),
    "images/formats/hdf5.py": ("hdf5", "lodopab"),
    "images/patients.py": ("patients",),
    "images/formats/pictures.py": ("png", "tiff"),
    "cli/compute.py": ("jobs",),
    "studies/result.py": ("store",),
    "prediction/study.py": ("geometry", "prediction"),
    "studies/store/file.py": ("store",),
    "studies/spec/study.py": ("study",),
    "theory/network.py": ("network",),
}
NO_FILE = {  # module: why
    "operators/testing.py": "what it saved a line before",
    "report/page/page.py": "a part of the package",
    "report/page/pictures.py": "a picture that it drew",
    "studies/run/usage.py": "the kernel's account of this machine",
    "pilots/fit.py": "the kernel's account of its own children",
    "pilots/request.py": "a copy of what it was given",
    "studies/store/store.py": "a copy of what it was given",
}


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def reads(tree: ast.AST) -> Iterator[str]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return (name for name in (dotted(call.func) for call in calls) if READS.fullmatch(name))


def test_every_module_that_reads_is_listed() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(reads(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found == {*FUZZED, *NO_FILE}
    assert not FUZZED.keys() & NO_FILE.keys()


@pytest.mark.parametrize(
    "code", ["read_text(p)", "json.load(f)", "Path(p).read_bytes()", "h5py.File(p)", "np.load(p)"]
)
def test_the_search_finds_what_reads(code: str) -> None:
    assert list(reads(ast.parse(code)))


def test_every_reader_comes_somewhere() -> None:
    assert {name for names in FUZZED.values() for name in names} == set(fuzz_readers.READERS)


@pytest.mark.parametrize("name", sorted({name for names in FUZZED.values() for name in names}))
def test_a_reader_comes_where_the_list_says(name: str, tmp_path: Path) -> None:
    reader = fuzz_readers.READERS[name]
    entered: set[str] = set()

    def note(frame: FrameType, event: str, value: object) -> None:
        if event == "call":
            entered.add(frame.f_code.co_filename)

    path = tmp_path / reader.file
    path.write_bytes(reader.seeds()[0])
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        fuzz_readers.refusal(reader, path)
    finally:
        sys.setprofile(before)
    asked = {str(SOURCE / place) for place, names in FUZZED.items() if name in names}
    assert asked <= entered
