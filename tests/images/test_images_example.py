"""The example: a folder is made or given, read, split and told."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from korisk.images import read_images

PATH = Path(__file__).parents[2] / "examples" / "images_folder.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("images_folder", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(example: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["images_folder.py", *words])
    example.main()


def test_the_example_makes_reads_and_splits_a_folder(
    example: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(example, monkeypatch)
    made = capsys.readouterr().out
    assert "pixels from 12 patients (3 to 8 each)" in made
    assert "from Hounsfield units with water at 0.0192 1/mm" in made
    assert "In units of water: 0 to 1." in made
    example.make_folder(tmp_path)
    run(example, monkeypatch, str(tmp_path), "--unit", "HU")
    assert capsys.readouterr().out == made
    images = read_images(tmp_path, side=32, unit="HU")
    assert images.fingerprint in made
    with pytest.raises(SystemExit, match=r"error: .*unit='HU'"):
        run(example, monkeypatch, str(tmp_path))
