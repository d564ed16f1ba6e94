"""Without PyTorch the core works, and the operators say what to install."""

import subprocess
import sys

CODE = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import korisk as kr
from korisk import *
assert kr.sample_size(kr.Network([kr.Learned("W", parameters=5)]), target=0.1) > 0
try:
    import korisk.operators
except ImportError as error:
    assert isinstance(error, kr.KoriskError)
    print(error)
try:
    kr.operators
except kr.KoriskError as error:
    print(error)
"""


def test_the_core_works_and_the_operators_name_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    line = "korisk.operators needs PyTorch, which is not installed; pip install 'korisk[torch]'"
    assert done.stdout.splitlines() == [line, line]
