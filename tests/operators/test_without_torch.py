"""Without PyTorch the core works, and the packages that need it say what to install."""

import subprocess
import sys

CODE = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import korisk as kr
from korisk import *
assert kr.sample_size(kr.Network([kr.Learned("W", parameters=5)]), target=0.1) > 0
for name in ("operators", "problems"):
    try:
        __import__(f"korisk.{name}")
    except ImportError as error:
        assert isinstance(error, kr.KoriskError)
        print(error)
    try:
        getattr(kr, name)
    except kr.KoriskError as error:
        print(error)
"""


def test_the_core_works_and_the_others_name_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    line = "needs PyTorch, which is not installed; pip install 'korisk[torch]'"
    names = ["operators", "operators", "problems", "problems"]
    assert done.stdout.splitlines() == [f"korisk.{name} {line}" for name in names]
