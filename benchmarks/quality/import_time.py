"""What `import korisk` and `import korisk.operators` take, beside the libraries they stand on.

Fresh interpreters, the two imports in turn so that a busy moment hits both, medians of their CPU
time compared.

    python -m benchmarks.quality.import_time
"""

import os
import resource
import statistics
import subprocess
import sys

ROUNDS = 15
PAIRS = (
    ("import numpy, scipy.special", "import korisk"),
    ("import torch", "import korisk.operators"),
)


def seconds(code: str) -> float:
    """CPU time of one fresh interpreter that runs `code`; bytecode is kept, as users have it."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print both medians and their ratio, of each pair."""
    for base, ours in PAIRS:
        for code in (base, ours):  # fill the file cache and write the bytecode
            seconds(code)
        taken = [(seconds(base), seconds(ours)) for _ in range(ROUNDS)]
        first, second = (statistics.median(times) for times in zip(*taken, strict=True))
        print(f"{base}: {first:.3f} s; {ours}: {second:.3f} s, {second / first:.2f} times as long")


if __name__ == "__main__":
    main()
