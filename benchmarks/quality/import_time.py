"""How much `import korisk` adds to importing the numerical libraries that it stands on.

Fresh interpreters, the two imports in turn so that a busy moment hits both, medians compared.
"""

import statistics
import subprocess
import sys
import time

ROUNDS = 15
BASE = "import numpy, scipy.special"
OURS = "import korisk"


def seconds(code: str) -> float:
    """Wall time of one fresh interpreter that runs `code`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def main() -> None:
    """Print both medians, their difference and their ratio."""
    for code in (BASE, OURS):  # fill the file cache and write the bytecode
        seconds(code)
    pairs = [(seconds(BASE), seconds(OURS)) for _ in range(ROUNDS)]
    base, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"{BASE!r}: {base:.3f} s; {OURS!r}: {ours:.3f} s (medians of {ROUNDS} each)")
    print(f"korisk adds {ours - base:+.3f} s, a ratio of {ours / base:.2f} (wanted: below +0.5 s)")


if __name__ == "__main__":
    main()
