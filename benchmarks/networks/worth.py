"""What a known operator is worth: networks of today as they are, and with a known layer replaced.

    python -m benchmarks.networks.worth --images DIR --out FILE.csv [--device cuda] [--minutes 8]
    python -m benchmarks.networks.worth --tables     # results/worth.txt
    python -m benchmarks.networks.worth --bounds
        # what bounds say of both networks, before training

Images have 32 x 32 pixels, inputs 2% of Gaussian noise. CT has 20 views of 46 bins, MRI four coils
and every other line of k-space outside the middle eight, the blur a deviation of 1.5 pixels.
Layers that both networks have start with the same weights, a learned one at random, with outputs as
large as the operator's; in MRI one matrix stands for F^T of all coils, in deblurring for H^+, the
regularised inverse. N is 8, 16, ..., 2,048.
DIR has NAME.npz of benchmarks/prediction/real_images.py; of volumes (chest_ct, brain_mri_a),
networks are judged by parts of the volume that they were not trained with. Curves that are in
FILE.csv (problem,network,images,arm,weights,n,seed,error) are not trained again; each is appended
as soon as it is finished. `--tables` makes Markdown of benchmarks/results/worth.csv.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import korisk as kr
from benchmarks.rows import append, curve, read
from korisk.ablation import Replacement, replaced
from korisk.ablation.ablation import default_target
from korisk.networks import zoo
from korisk.operators import (
    Convolution,
    Fourier,
    LinearOperator,
    ParallelBeam,
    Projector,
    Sense,
    Tikhonov,
    birdcage_sensitivities,
    fbp,
    gaussian_kernel,
)
from korisk.planning.words import times

RESULTS = Path(__file__).parents[1] / "results" / "worth.csv"
TABLES = RESULTS.with_suffix(".txt")
BOUNDS = RESULTS.with_name("worth_bounds.json")
COLUMNS = ("problem", "network", "images", "arm", "weights", "n", "seed", "error")
SIDE, VIEWS, BINS, COILS, NOISE = 32, 20, 46, 4, 0.02
SIZES = tuple(2**power for power in range(3, 12))
REAL = 3600  # images: a third judges, a tenth chooses the step, 2,040 train as they are
NETWORKS = {
    "inverse-cnn": "FBP + CNN",
    "inverse-unet": "FBP + U-Net",
    "weights-inverse-unet": "weights + FBP + U-Net",
    "primal-dual": "learned primal-dual",
}
ORDER = ("ct", "mri", "blur")
PROBLEMS = {"ct": "CT", "mri": "MRI", "blur": "deblurring"}
IMAGES = {"ellipses": "ellipses", "chest_ct": "chest CT", "fashion": "clothes"}
IMAGES |= {"photos": "photographs", "brain_mri_a": "brain MRI"}
ARMS: dict[str, dict[str, Any]] = {
    "known": {},
    "dense": {"by": "dense"},
    "dense from it": {"by": "dense", "start": "operator"},
    "low rank 32": {"by": "low-rank", "rank": 32},
    "convolution": {"by": "convolution"},
    "1% wrong": {"by": "wrong", "wrong": 0.01},
    "5% wrong": {"by": "wrong", "wrong": 0.05},
    "20% wrong": {"by": "wrong", "wrong": 0.2},
    "dense from 20% wrong": {"by": "dense", "start": "operator", "wrong": 0.2},
    "known, 8,000 steps": {"steps": 8000},
    "dense, 8,000 steps": {"by": "dense", "steps": 8000},
    "dense, rate 0.003": {"by": "dense", "rate": 3e-3},
    "dense, rate 0.0003": {"by": "dense", "rate": 3e-4},
    "dense, rate 0.01": {"by": "dense", "rate": 1e-2},
    "dense, rate 0.003, 8,000 steps": {"by": "dense", "rate": 3e-3, "steps": 8000},
}
PAIR = ("known", "dense")
CT, MRI, BLUR = ("ellipses", "chest_ct"), ("brain_mri_a", "ellipses"), ("photos", "ellipses")


class CoilUNet(nn.Module):
    """F^T of each coil, the coils' images combined by their known sensitivities, then a U-Net."""

    def __init__(self, sense: Sense, seed: int) -> None:
        super().__init__()
        shape = tuple(sense.fourier.image_shape)
        place: dict[str, Any] = {"device": sense.device, "dtype": sense.dtype}
        self.transform = Fourier(shape, sense.mask.cpu(), **place).T
        self.transform.name = "F^T"
        self.register_buffer("maps", sense.sensitivities)
        draws = torch.Generator().manual_seed(seed)
        self.net = zoo.UNet(1, 2, width=16, generator=draws).to(sense.device)

    def forward(self, y: Tensor) -> Tensor:
        """(batch, coils, rows, columns, 2) to images (batch, rows, columns)."""
        combined = (self.transform(y) * self.maps).sum((1, -1))  # real part of conj(s_c) x_c
        image: Tensor = self.net(combined[:, None])[:, 0]
        return image


def problem(
    kind: str, network: str, device: str
) -> tuple[LinearOperator, Callable[[], nn.Module], str]:
    """The operator that simulates, a function that makes the network, and its known layer."""
    place: dict[str, Any] = {"device": device, "dtype": torch.float32}

    def seed() -> int:
        return int(torch.randint(2**31, ()))

    if kind == "ct":
        scan = ParallelBeam(SIDE, views=VIEWS, bins=BINS)
        projector, inverse = Projector(scan, **place), fbp(scan, **place)
        return projector, lambda: zoo.build(network, projector, inverse, seed=seed()), "A^T"
    shape = (SIDE, SIDE)
    if kind == "mri":
        lines = np.arange(SIDE) % 2 == 0
        lines[SIDE // 2 - 4 : SIDE // 2 + 4] = True
        maps = birdcage_sensitivities(shape, COILS)
        sense = Sense(shape, maps, lines, real=True, **place)
        return sense, lambda: CoilUNet(sense, seed()), "F^T"
    blur = Convolution(shape, gaussian_kernel(1.5), **place)
    known = Tikhonov(blur, 1e-3)
    return blur, lambda: zoo.build(network, blur, known, seed=seed()), "H^+"


def cases() -> list[tuple[str, str, str, str]]:
    """Problem, network, images and arm of every curve, the most important ones first."""
    wrong = ("1% wrong", "5% wrong", "20% wrong")
    recipes = [arm for arm, options in ARMS.items() if "steps" in options or "rate" in options]
    learned = ("dense from it", "low rank 32", "convolution", "dense from 20% wrong")
    pairs = [("ct", network, (*CT, "fashion"), PAIR) for network in NETWORKS]
    table = [
        ("ct", "inverse-unet", CT[:1], (*PAIR, *wrong)),
        ("mri", "F^T + U-Net", MRI, PAIR),
        ("blur", "inverse-unet", BLUR, PAIR),
        *pairs,
        ("ct", "inverse-unet", CT[1:], (*wrong, *learned, "dense, rate 0.003")),
        ("ct", "inverse-unet", CT[:1], recipes),
        ("mri", "F^T + U-Net", MRI, ("dense, rate 0.003",)),
        ("blur", "inverse-unet", BLUR, ("dense, rate 0.003", "convolution")),
        ("blur", "inverse-unet", BLUR[:1], ("20% wrong",)),
    ]
    return list(
        dict.fromkeys(
            (kind, network, images, arm)
            for kind, network, several, arms in table
            for images in several
            for arm in arms
        )
    )


def real_images(folder: Path, name: str) -> tuple[np.ndarray, list[str] | None]:
    """Images, and the part of the volume that each is of."""
    with np.load(folder / f"{name}.npz") as file:
        whose = file["pool_slab"][:REAL] if "pool_slab" in file else None
        images = file["pool"][:REAL] / 255.0
    return images, None if whose is None else [f"slab {each}" for each in whose]


def measure(a: argparse.Namespace) -> None:
    """Append the curves that are not in the file yet."""
    done = {tuple(row[key] for key in COLUMNS[:4]) for row in read(a.out)}
    begun, longest = time.monotonic(), 0.0
    for kind, network, images, arm in cases():
        if (kind, network, images, arm) in done:
            continue
        start = time.monotonic()
        if start - begun + 1.2 * longest > 60 * a.minutes:
            print(f"left out: {kind} {network} {images} {arm}")
            continue
        operator, build, layer = problem(kind, network, a.device)
        given: dict[str, Any] = {}
        if images != "ellipses":
            given["images"], given["patients"] = real_images(a.images, images)
        options = dict(ARMS[arm])
        training = kr.prediction.Training(
            steps=options.pop("steps", 2000), rate=options.pop("rate", 1e-3)
        )
        made = kr.rehearse(
            replaced(build, Replacement(layer=layer, **options)) if options else build,
            operator,
            noise=NOISE,
            sizes=SIZES,
            seeds=3,
            model=arm,
            training=training,
            **given,
        )
        measured = zip(made.curve.n, made.curve.seed, made.curve.error, strict=True)
        about = kind, network, images, arm, made.parameters
        append(a.out, COLUMNS, [(*about, n, seed, f"{error:.6g}") for n, seed, error in measured])
        spent = time.monotonic() - start
        longest = max(longest, spent)
        print(f"{spent:5.1f} s  {kind} {network} {images} {arm}", *made.notes, flush=True)


def bounds() -> None:
    """Write the ratio of N / log N by the bounds of dense and known, if all have one kappa."""
    found = {}
    pairs = [("ct", network) for network in NETWORKS if network != "primal-dual"]
    for kind, network in [("blur", "inverse-unet"), ("mri", "F^T + U-Net"), *pairs]:
        operator, build, layer = problem(kind, network, "cpu")
        torch.manual_seed(0)
        example = operator(torch.rand(1, *operator.domain))
        totals = []
        for make in (build, replaced(build, layer, example=example)):
            torch.manual_seed(0)
            totals.append(kr.barron_bound(kr.describe(make(), example), 2).total)
        label = f"{PROBLEMS[kind]}, {NETWORKS.get(network, network) if kind == 'ct' else layer}"
        found[label] = totals[1] / totals[0]
        print(label, found[label], flush=True)
        BOUNDS.write_text(json.dumps(found, indent=1) + "\n")


# --- Tables --------------------------------------------------------------------------------------


def curves() -> dict[tuple[str, str, str], dict[str, kr.Curve]]:
    """The curves of RESULTS by problem, network and images, then by arm."""
    found: dict[tuple[str, str, str], dict[str, list[dict[str, str]]]] = {}
    for row in read(RESULTS):
        arms = found.setdefault((row["problem"], row["network"], row["images"]), {})
        arms.setdefault(row["arm"], []).append(row)
    return {
        case: {arm: curve(rows, arm, "error") for arm, rows in arms.items()}
        for case, arms in found.items()
    }


def ratio(saved: kr.Comparison) -> str:
    """How many times fewer samples the first needs, with the plausible range."""
    low, high = saved.ratio_range or (0.0, math.inf)
    ends = f"{times(low)} to {times(high)}"
    if not low or math.isinf(high):  # one end, with 95% probability
        ends = f"{times(high)} or less" if math.isfinite(high) else f"{times(low)} or more"
    if saved.ratio is None:
        return ends if low or math.isfinite(high) else "not known"
    bound = "at least " * saved.first.met_at_smallest + "at most " * saved.second.met_at_smallest
    return f"{bound}{times(saved.ratio)}" + f" ({ends})" * bool(low or math.isfinite(high))


def row(case: tuple[str, str, str], first: kr.Curve, second: kr.Curve) -> str:
    """A row: what was compared, errors in thousandths at both ends, the target, what is saved."""
    kind, network, images = case
    target, _ = default_target(first, second)
    saved = ratio(kr.compare(first, second, target))
    name = {"mri": "F^T + U-Net", "blur": "H^+ + U-Net"}.get(kind, NETWORKS.get(network, network))
    ends = (curve.means[at] for curve in (first, second) for at in (0, -1))
    numbers = " | ".join(f"{1e3 * each:.3g}" for each in (*ends, target))
    arm = second.model if first.model == "known" else f"{second.model}; {first.model}"
    return f"| {PROBLEMS[kind]} | {name} | {IMAGES[images]} | {arm} | {numbers} | {saved} |"


def tables() -> Iterator[str]:
    """The tables of the docs: dense layers, other learned layers, wrong operators, recipes."""
    heads = ["problem", "network", "images", "instead", "known, N = 8", "2,048", "instead, N = 8"]
    heads += ["2,048", "target", "times fewer samples (plausible)"]
    sections: dict[str, Callable[[str], bool]] = {
        "A dense layer in its place": lambda arm: arm == "dense",
        "Other learned layers": lambda arm: "from" in arm or arm in ("low rank 32", "convolution"),
        "An operator that is wrong": lambda arm: arm.endswith("% wrong") and "from" not in arm,
        "Other recipes": lambda arm: arm.startswith("dense, "),
    }
    for title, chosen in sections.items():
        yield f"### {title}\n"
        yield f"| {' | '.join(heads)} |"
        yield "|---|---|---|---|--:|--:|--:|--:|--:|---|"
        for case, arms in sorted(curves().items(), key=lambda each: ORDER.index(each[0][0])):
            for arm in filter(chosen, arms):
                longer = arm.endswith("8,000 steps")
                yield row(case, arms["known, 8,000 steps" if longer else "known"], arms[arm])
        yield ""


def main() -> None:
    """Measure, or make tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=Path, help="folder with NAME.npz")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--minutes", type=float, default=1e6, help="no curve starts after that")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--bounds", action="store_true")
    a = parser.parse_args()
    if a.tables:
        TABLES.write_text("\n".join(tables()))
    elif a.bounds:
        bounds()
    else:
        measure(a)


if __name__ == "__main__":
    main()
