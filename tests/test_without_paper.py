"""The package without `korisk.paper`: every other module is imported, and the commands work."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "korisk"
EXAMPLES = SOURCE.parents[1] / "examples"
PILOT = "n,model,error\n" + "".join(
    f"{n},{model},{floor + 1 / n}\n"
    for model, floor in (("KO", 0.01), ("FC", 0.05))
    for n in (4, 8, 16, 32)
)
STUDY = """\
name: small
points:
  - side: 8
    sizes: [4, 8, 16]
seeds: [1, 2]
"""
SCRIPT = """\
import importlib, pkgutil
import korisk
from korisk.cli.app import run

for module in pkgutil.walk_packages(korisk.__path__, "korisk."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as missing:  # of packages that are not installed
        assert not missing.name.startswith("korisk"), (module.name, missing.name)
for command in (
    "plan pilot.csv --model KO --target 0.05",
    "compare pilot.csv --target 0.1",
    "bound network.yaml --target 0.01",
    "run study.yaml --out done --workers 0 --device cpu --page",
    "report done --out drawn --only tables",  # the page above has the figures
):
    assert run(command.split()) == 0, command
assert run(["reproduce"]) == 2
"""


def test_the_rest_works_without_the_paper(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "korisk", ignore=shutil.ignore_patterns("paper", "__pyc*"))
    assert not (tmp_path / "korisk" / "paper").exists()
    shutil.copy(EXAMPLES / "ct_h8_ko.yaml", tmp_path / "network.yaml")
    (tmp_path / "pilot.csv").write_text(PILOT)
    (tmp_path / "study.yaml").write_text(STUDY)
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    page = (tmp_path / "done" / "report.html").read_text()
    assert "How it was measured" in page
    assert (tmp_path / "drawn" / "tables" / "calibration.csv").exists()
