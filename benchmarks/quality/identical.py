"""Whether two checkouts answer alike, to the last digit, as after a change that only moves code.

    python -m benchmarks.quality.identical OTHER            # this checkout beside OTHER/src
    python -m benchmarks.quality.identical OTHER --only plans,operators

Each part runs in a process of its own with either source: plans of a dozen pilots, described
modules, predictions, fits, operators with their adjoints and norms, fingerprints of the specs of
every example, and `korisk reproduce` at H = 8 and 16 in both protocols. Times, memory, places and
versions are left out. Exits with 1 if anything differs.
"""

import argparse
import hashlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TAKEN = {"seconds", "started", "finished", "took", "cpu", "peak", "memory", "peak_memory"}
# Versions are left out too, and digests of files that state one.
LEFT_OUT = TAKEN | {"path", "folder", "out", "store", "korisk", "digest"}


def plans() -> object:
    """Plans, forecasts and comparisons of a dozen pilots."""
    from benchmarks.planner.kept_numbers import numbers

    return numbers()


def operators() -> object:
    """Images and adjoints of seeded inputs under every operator that the tests know, and norms."""
    import torch

    known = runpy.run_path(str(ROOT / "tests/operators/test_conformance.py"))["OPERATORS"]
    answers = {}
    for name, make in known:
        operator = make()
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(3, *operator.domain, generator=generator).to(operator.dtype)
        y = torch.randn(3, *operator.range, generator=generator).to(operator.dtype)
        norm = operator.norm()
        with torch.no_grad():
            images = digest(operator(x)), digest(operator.T(y))
        answers[name] = [*images, norm.lower, norm.upper]
    return answers


def described() -> object:
    """Networks of the zoo as the theory takes them, and the bounds of every example."""
    import torch

    import korisk as kr
    from korisk.networks import zoo
    from korisk.operators import ParallelBeam, Projector, fbp

    geometry = ParallelBeam(8, views=6, bins=12)
    known, inverse = Projector(geometry), fbp(geometry)
    answers: dict[str, object] = {}
    for kind in ("inverse-unet", "weights-inverse-unet", "inverse-cnn", "primal-dual"):
        network = zoo.build(kind, known, inverse, width=2, levels=1, passes=2, seed=3)
        example = torch.randn(1, *known.range, generator=torch.Generator().manual_seed(2))
        answers[kind] = kr.describe(network, example).to_dict()
    for path in sorted((ROOT / "examples").glob("ct_h*.yaml")):
        layers = kr.Network.read(path)
        answers[path.stem] = [layers.lipschitz(bound) for bound in ("paper", "composed")]
    return answers


def predictions() -> object:
    """Rehearsed curves of the example's study."""
    few = ("--sizes", "8,16,32,64", "--seeds", "2", "--device", "cpu", "--json")
    return json.loads(korisk("rehearse", str(ROOT / "examples/predict_ct.yaml"), *few))


def fits() -> object:
    """Closed forms at several penalties, and weights after a few steps of each optimiser."""
    import torch

    from korisk.fitting import DenseRidge, DiagonalRidge, Recipe, train
    from korisk.networks import KnownOperatorNet
    from korisk.operators import ParallelBeam, Projector

    projector = Projector(ParallelBeam(8, views=6, bins=12), dtype=torch.float64)
    generator = torch.Generator().manual_seed(5)
    images = torch.rand(24, 8, 8, generator=generator, dtype=torch.float64)
    sinograms = projector(images)
    answers = []
    for n in (8, 24):
        for penalty in (1e-6, 1e-2, 1.0):
            dense = DenseRidge(sinograms, images).training(n).fit(penalty=penalty)
            known = DiagonalRidge(projector.T, sinograms, images).training(n).fit(penalty=penalty)
            answers += [digest(dense.predict(sinograms)), digest(known.weights)]
    in_030 = "iterations" in Recipe.__dataclass_fields__
    steps: dict[str, Any] = {"iterations" if in_030 else "steps": 12}
    for optimiser in ("sgd", "adagrad", "adam"):
        network = KnownOperatorNet(torch.ones(projector.range, dtype=torch.float64), projector.T)
        recipe = Recipe(optimiser=optimiser, rate=1e-4, batch=4, **steps)
        train(network, sinograms, images, recipe, generator=torch.Generator().manual_seed(6))
        answers.append(digest(network.weights.detach()))
    return answers


def specs() -> object:
    """Names and fingerprints of every cell of every study among the examples."""
    from korisk.errors import KoriskError
    from korisk.studies.spec.study import Study

    answers = {}
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        try:
            study = Study.read(path)
        except KoriskError:  # a network's file, or options of a cluster
            continue
        answers[path.stem] = [(task.key, task.spec_hash) for task in study.tasks]
    return answers


def reproduced() -> object:
    """The paper's study at H = 8 and 16, as released and done properly."""
    with tempfile.TemporaryDirectory() as folder:
        text = korisk("reproduce", "--points", "8,16", "--json", "--out", folder)
    return json.loads(text)


PARTS: dict[str, Callable[[], object]] = {
    part.__name__: part
    for part in (plans, operators, described, predictions, fits, specs, reproduced)
}


def digest(values: Any) -> str:
    """A fingerprint of a tensor's bytes, and its shape."""
    content = values.detach().cpu().contiguous().numpy()
    return f"{content.shape} {hashlib.sha256(content.tobytes()).hexdigest()[:16]}"


def korisk(*arguments: str) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "korisk", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def answers(part: str, source: Path) -> object:
    """What a part answers with the package in a folder."""
    search = os.pathsep.join([str(source), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": search, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.quality.identical", "--part", part]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def differences(here: Any, there: Any, place: str = "") -> Iterator[str]:
    """Where two answers differ."""
    if isinstance(here, dict) and isinstance(there, dict):
        for key in sorted({*here, *there} - LEFT_OUT):
            if key not in here or key not in there:
                yield f"{place}/{key}: only {'here' if key in here else 'there'}"
            else:
                yield from differences(here[key], there[key], f"{place}/{key}")
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for index, pair in enumerate(zip(here, there, strict=True)):
            yield from differences(*pair, f"{place}/{index}")
    elif here != there:
        yield f"{place}: {here!r} here, {there!r} there"


def values(content: Any) -> int:
    """How many single values an answer has."""
    if isinstance(content, dict | list):
        return sum(map(values, content.values() if isinstance(content, dict) else content))
    return 1


def main() -> None:
    """Compare, or answer one part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, nargs="?", help="another checkout")
    parser.add_argument("--only", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(PARTS[options.part]()))
        return
    differ = False
    for part in options.only.split(",") if options.only else PARTS:
        here, there = (answers(part, root / "src") for root in (ROOT, options.other.resolve()))
        places = list(differences(here, there))
        print(f"{part:12} {values(here):7,} values, {len(places)} differ", flush=True)
        for place in places[:10]:
            print(f"    {place[:200]}")
        differ |= bool(places)
    sys.exit(int(differ))


if __name__ == "__main__":
    main()
