"""Run every script of the gallery, each in a process and a folder of its own, and judge it.

    python examples/gallery/run_all.py [--keep FOLDER]

A script must end well, within a minute and without a warning, and leave one picture with its own
name that shows something. The table says how long each took and how large its picture is; the exit
code is 1 where a script failed. `--keep` copies the pictures to a folder.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from matplotlib.image import imread

HERE = Path(__file__).resolve().parent
LIMIT = 60.0  # seconds
LEAST_DRAWN = 0.005  # share of pixels that are not background


@dataclass(frozen=True)
class Outcome:
    """What a script did: the seconds it took, the bytes of its picture, and what is wrong."""

    name: str
    seconds: float
    processor: float  # seconds
    size: int
    faults: tuple[str, ...]


def scripts() -> list[Path]:
    """The numbered scripts, in order."""
    return sorted(HERE.glob("[0-9][0-9]_*.py"))


def run(script: Path, folder: Path) -> Outcome:
    """Run a script in a folder that is empty."""
    command = [sys.executable, "-W", "error", str(script)]
    # Nothing of the caller's matters: no display, no style, and output as it comes.
    environment = os.environ | {"MPLBACKEND": "Agg", "PYTHONUNBUFFERED": "1"}
    begun, before = time.monotonic(), os.times()
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT
        )
        faults = spoken(done.returncode, done.stdout, done.stderr, script.stem)
    except subprocess.TimeoutExpired:
        faults = [f"took more than {LIMIT:.0f} seconds"]
    seconds, after = time.monotonic() - begun, os.times()
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    picture = folder / f"{script.stem}.png"
    faults += left_behind(folder, picture.name)
    size = picture.stat().st_size if picture.is_file() else 0
    return Outcome(script.stem, seconds, used, size, tuple(faults))


def spoken(code: int, out: str, err: str, stem: str) -> list[str]:
    """What is wrong with how a script ended and with what it said."""
    faults = []
    if code:
        faults.append(f"ended with code {code}")
    if err.strip():
        faults.append(f"wrote to stderr: {err.strip().splitlines()[-1]}")
    if not code and f"wrote {stem}.png" not in (out.strip().splitlines() or [""])[-1]:
        faults.append(f"its last line does not say that it wrote {stem}.png")
    return faults


def left_behind(folder: Path, name: str) -> list[str]:
    """What is wrong with the files that a script left."""
    found = sorted(path.name for path in folder.iterdir())
    if found != [name]:
        return [f"left {', '.join(found) or 'nothing'}, not {name} alone"]
    return [f"{name} is blank"] if is_blank(folder / name) else []


def is_blank(path: Path) -> bool:
    """Whether hardly a pixel differs from that in the corner."""
    pixels = imread(path)
    return bool((pixels != pixels[0, 0]).any(-1).mean() < LEAST_DRAWN)


def main() -> int:
    """Run them all and print the table."""
    parser = argparse.ArgumentParser(description="Run every script of the gallery.")
    parser.add_argument("--keep", type=Path, help="copy the pictures to this folder")
    keep: Path | None = parser.parse_args().keep
    outcomes = []
    print(f"{'script':34}{'seconds':>9}{'CPU':>7}{'bytes':>10}", flush=True)
    for script in scripts():
        with tempfile.TemporaryDirectory() as folder:
            made = run(script, Path(folder))
            if keep is not None and made.size:
                keep.mkdir(parents=True, exist_ok=True)
                shutil.copy(Path(folder) / f"{script.stem}.png", keep)
        outcomes.append(made)
        line = f"{made.name:34}{made.seconds:9.1f}{made.processor:7.1f}{made.size:10,}"
        print("  ".join([line, *made.faults]), flush=True)
    seconds, processor = (sum(getattr(o, of) for o in outcomes) for of in ("seconds", "processor"))
    print(f"{'all':34}{seconds:9.1f}{processor:7.1f}")
    return 1 if not outcomes or any(made.faults for made in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
