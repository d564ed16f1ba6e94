"""Whatever a file holds, its reader reads it or refuses it: in one line, soon, in little memory.

Files are valid ones with something changed; benchmarks/quality/fuzz/run.py tries many more of them.
Whatever in the package reads a file is fuzzed, or it is said why no user's file comes there.
"""

import ast
import random
import re
import sys
import time
import tracemalloc
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.quality.fuzz import readers as fuzz
from benchmarks.quality.house import tree_of

SOURCE = Path(__file__).parents[2] / "src" / "korisk"
READS = re.compile(
    r"(.*\.)?(read_text|read_bytes|read_yaml|read_json)|json\.loads?|torch\.load|(np|numpy)\.load|yaml\.load"
    r"|sqlite3\.connect|csv\.(reader|DictReader)|zipfile\.ZipFile|h5py\.File|[Ii]mage\.open"
    r"|tifffile\.TiffFile|pydicom\.dcmread|_?Unpickler|(.*\.)?(loadtxt|genfromtxt|fromfile)"
    r"|(.*\.)?(from_filelike|read_table|read_array_header_1_0|ParserCreate)"
)
FUZZED = {  # module: the readers that come there
    "curves/binary.py": ("xlsx",),
    "curves/formats.py": ("csv", "json", "jsonl", "xlsx", "frame"),
    "files.py": ("csv", "json", "network", "study", "ablation", "prediction", "finished"),
    "images/formats/page.py": ("npy", "npz"),
    "images/formats/dicom.py": ("dicom",),
    "images/formats/hdf5.py": ("hdf5", "lodopab"),
    "images/patients.py": ("patients",),
    "images/formats/pictures.py": ("png", "tiff"),
    "cli/ablate.py": ("ablation",),
    "store/cells.py": ("store", "pilots"),
    "prediction/rehearsal/trainings.py": ("finished",),
    "prediction/record.py": ("prediction",),
    "prediction/study.py": ("geometry",),
    "store/file.py": ("store", "pilots"),
    "studies/spec/study.py": ("study",),
    "theory/network.py": ("network",),
}
NO_FILE = {  # module: why
    "operators/ct/projector.py": "a scanner's numbers inside an exported program",
    "report/serve.py": "what its own processes send each other",
    "report/page/page.py": "a part of the package",
    "report/figures/style.py": "a part of the package",
    "report/tables/table.py": "a part of the package",
    "paper/published.py": "a part of the package",
    "planning/words.py": "a part of the package",
    "curves/unit.py": "a part of the package",
    "cli/app.py": "a part of the package",
    "store/usage.py": "the kernel's account of this machine",
    "pilots/options.py": "a copy of what it was given",
    "store/store.py": "a copy of what it was given",
}
# How many files of a reader are tried (`make slow` has four times as many, `make fuzz` thousands):
# fewer where a file needs PyTorch.
FEWER = {
    **dict.fromkeys(("lodopab", "study", "geometry"), 12),
    **{"store": 20, "ablation": 12},
}
OTHERS, TIMES = 25, max(1, settings().max_examples // 50)
SECONDS, MEMORY = 40.0, 2**28  # tracing memory, and busy cores, take several times as long


def reads(path: Path) -> bool:
    calls = (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call))
    return any(READS.fullmatch(ast.unparse(call.func)) for call in calls)


def test_every_module_that_reads_is_listed() -> None:
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if reads(path)}
    assert found == {*FUZZED, *NO_FILE}
    assert not FUZZED.keys() & NO_FILE.keys()
    assert {name for names in FUZZED.values() for name in names} == set(fuzz.READERS)


@pytest.mark.parametrize("name", fuzz.READERS)
def test_valid_files_are_read_where_the_list_says(name: str, tmp_path: Path) -> None:
    reader, path = fuzz.READERS[name], tmp_path / fuzz.READERS[name].file
    entered: set[str] = set()

    def note(frame: FrameType, event: str, value: object) -> None:
        if event == "call":
            entered.add(frame.f_code.co_filename)

    before = sys.getprofile()
    for content in reader.seeds():
        path.write_bytes(content)
        sys.setprofile(note)
        try:
            assert fuzz.refusal(reader, path) is None
        finally:
            sys.setprofile(before)
    assert {str(SOURCE / place) for place, names in FUZZED.items() if name in names} <= entered


@pytest.mark.parametrize("name", fuzz.READERS)
def test_changed_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    reader = fuzz.READERS[name]
    folder = tmp_path / "a" / "b"  # so that ".." in a file stays inside
    folder.mkdir(parents=True)
    path = folder / reader.file

    @settings(
        max_examples=FEWER.get(name, OTHERS) * TIMES,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**32))
    def law(seed: int) -> None:
        path.write_bytes(reader.make(random.Random(seed)))
        begun = time.process_time()
        tracemalloc.start()
        try:
            fuzz.refusal(reader, path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert time.process_time() - begun < SECONDS
        assert peak < MEMORY

    law()
