"""How many files and functions take part in three walks through the package.

    python -m benchmarks.quality.walks            # this checkout
    python -m benchmarks.quality.walks OTHER      # and another beside it

A target through `korisk plan`, an image through a cell of a study, a module through `describe` to a
bound. Counted are the files of the package whose functions, methods or properties ran, and the
names of these; what runs while modules are imported does not count. Comprehensions are functions of
their own up to Python 3.11: the second count is without them. Each walk is taken in a process of
its own.
"""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[2]
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>")


def plan() -> Callable[[], object]:
    """A target through `korisk plan`."""
    from korisk.cli.app import run

    pilot = str(ROOT / "examples/pilot_h8.csv")
    return lambda: run(["plan", pilot, "--model", "FC", "--target", "0.003"])


def cell() -> Callable[[], object]:
    """An image through a cell of a study."""
    from korisk.studies.run.cells import run_cell
    from korisk.studies.spec.study import Study

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.yaml"
        path.write_text(
            "name: walk\nsizes: [4]\nseeds: [1]\npools: {validation: 4, test: 4}\n"
            "points: [{side: 8, views: 10, bins: 8, beam: parallel}]\nmodels: {KO: {}, FC: {}}\n"
        )
        task = Study.read(path).tasks[0]
    return lambda: run_cell(task, lambda share: None)


def described() -> Callable[[], object]:
    """A module through `describe` to a bound."""
    import torch

    import korisk as kr
    from korisk.operators import ParallelBeam, fbp

    inverse = fbp(ParallelBeam(8, views=6, bins=12))
    torch.manual_seed(0)
    refine = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Conv2d(2, 1, 3)
    )
    module = torch.nn.Sequential(inverse, torch.nn.Unflatten(1, (1, 8)), refine)
    example = torch.randn(1, 6, 12)
    return lambda: kr.describe(module, example).lipschitz("composed")


WALKS: dict[str, Callable[[], Callable[[], object]]] = {
    "a target through plan": plan,
    "an image through a cell": cell,
    "a module through describe": described,
}


def count(walk: Callable[[], object]) -> dict[str, list[int]]:
    """The functions that ran, by their files: all of them, and those with a name of their own."""
    import korisk

    home = str(Path(korisk.__file__).parent)
    ran: set[tuple[str, str]] = set()
    imports = 0  # modules that are being imported

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal imports
        code = frame.f_code
        if code.co_name == "<module>":
            imports += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not imports and code.co_filename.startswith(home):
            ran.add((os.path.relpath(code.co_filename, home), code.co_qualname))

    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            walk()
    finally:
        sys.setprofile(None)
    files: dict[str, list[int]] = {}
    for file, name in ran:
        counts = files.setdefault(file, [0, 0])
        counts[0] += 1
        counts[1] += not name.endswith(COMPREHENSIONS)
    return files


def main() -> None:
    """Print the counts of one checkout or two."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, nargs="?", help="another checkout")
    parser.add_argument("--files", action="store_true", help="list the files too")
    parser.add_argument("--walk", choices=WALKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.walk:
        print(json.dumps(count(WALKS[options.walk]())))
        return
    for name in WALKS:
        for root in filter(None, (ROOT, options.other)):
            search = os.pathsep.join([str(root.resolve() / "src"), str(ROOT)])
            command = [sys.executable, "-m", "benchmarks.quality.walks", "--walk", name]
            environment = os.environ | {"PYTHONPATH": search}
            text = subprocess.run(
                command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
            ).stdout
            files: dict[str, list[int]] = json.loads(text.splitlines()[-1])
            where = "here" if root is ROOT else "there"
            every, without = (sum(counts[k] for counts in files.values()) for k in (0, 1))
            print(
                f"{name:26} {where:5} {len(files):3} files, {every:4} functions, {without:4} "
                "without comprehensions"
            )
            if options.files:
                for path, counts in sorted(files.items(), key=lambda pair: -pair[1][0]):
                    print(f"    {counts[0]:4} {counts[1]:4} {path}")


if __name__ == "__main__":
    main()
