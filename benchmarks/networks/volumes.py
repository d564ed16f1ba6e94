"""Volumes behind a cone beam: does a rehearsal from 24 of them tell the measured learning curve?

    python -m benchmarks.networks.volumes [--device cuda]    # trains what volumes.csv does not have
    python -m benchmarks.networks.volumes --tables   # results/volumes.txt

A cone beam takes 24 views of volumes of 32^3 voxels with 2% of noise. One network is FDK and two
convolutions behind it (1 to 6 to 1 channels, 3^3 voxels) whose output is added to FDK's; the other
learns the weights of all detector bins in front of FDK too. `kr.rehearse` has 24 example volumes,
of which a third judges. What is measured are the same networks, trained with the same steps on
fresh volumes of the same population, judged by 256 others. Nothing was tuned on either side.
There are three draws of the examples, of which the stored result has the first.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import korisk as kr
from benchmarks.markdown import header, line
from benchmarks.rows import append, curve, read
from korisk.fitting.gradient.train import Member, train_many
from korisk.operators import ConeBeam, fbp
from korisk.problems import CtProblem, CtScanner, Gaussian, random_volumes

RESULTS = Path(__file__).parents[1] / "results" / "volumes.csv"
TABLES = RESULTS.with_suffix(".txt")
COLUMNS = ("network", "source", "variant", "n", "seed", "mse", "unaltered", "level", "seconds")
Row = dict[str, str]

SIDE, VIEWS, BINS, NOISE = 32, 24, 40, 0.02
CHANNELS = 6
SIZES, SEEDS = (4, 8, 16, 32, 64, 128, 256), (1, 2, 3)
REHEARSED = (4, 8, 16, 32, 64, 256)  # to save time on the GPU; bands at 128 are interpolated
VALIDATION, TEST = 64, 256
EXAMPLES, DRAWS = 24, (101, 102, 103)  # seeds that no measured network has
TRAINING = kr.prediction.Training(steps=2000, batch=8, rate=3e-3)
SMALL = 0.1  # gain of the last layer: a network starts close to FDK
NAMES = {"convolutions": "FDK, convolutions", "weights": "learned weights, FDK, convolutions"}
MEASURED = "measured"


def problem() -> CtProblem:
    """The scan and its population: up to four ellipsoids in a volume."""
    scanner = CtScanner(side=SIDE, views=VIEWS, bins=BINS, beam="cone")
    return CtProblem(scanner=scanner, noise=Gaussian(NOISE))


class Net(nn.Module):
    """FDK, plus what two convolutions make of it: (batch, views, rows, columns) to volumes."""

    def __init__(self, scan: ConeBeam, *, trainable: bool) -> None:
        super().__init__()
        self.inverse = fbp(scan, trainable=trainable)
        self.first = nn.Conv3d(1, CHANNELS, 3, padding=1)
        self.last = nn.Conv3d(CHANNELS, 1, 3, padding=1)
        with torch.no_grad():
            for weights in self.last.parameters():
                weights.mul_(SMALL)

    def forward(self, pictures: Tensor) -> Tensor:
        """Volumes (batch, slices, rows, columns)."""
        volume = self.inverse(pictures).unsqueeze(1)
        moved: Tensor = self.last(torch.relu(self.first(volume)))
        whole: Tensor = volume + moved
        return whole.squeeze(1)


def network(name: str) -> Net:
    """A new network, on the CPU."""
    scan = problem().scanner.geometry
    assert isinstance(scan, ConeBeam)
    return Net(scan, trainable=name == "weights")


def measure(name: str, device: str) -> list[tuple[object, ...]]:
    """Rows of networks that were trained on fresh volumes."""
    pools = {
        seed: problem().pools(
            seed=seed, train=SIZES[-1], validation=VALIDATION, test=TEST, device=device
        )
        for seed in SEEDS
    }
    parts = [pair for drawn in pools.values() for pair in drawn]
    inputs, targets = (torch.cat(values).float() for values in zip(*parts, strict=True))
    lengths = [len(pair.inputs) for pair in parts]
    rows = torch.split(torch.arange(len(inputs), device=device), lengths)
    members, cells = [], []
    for number, seed in enumerate(SEEDS):
        train, validation, test = rows[3 * number : 3 * number + 3]
        for n in SIZES:
            torch.manual_seed(seed)
            module = network(name).to(device)
            title = f"{name} at N = {n}"
            members.append(Member(title, module, seed, train[:n], validation, test))
            cells.append((n, seed))
    start = time.perf_counter()
    results = list(train_many(members, inputs, targets, TRAINING))
    seconds = f"{time.perf_counter() - start:.0f}"
    return [
        (name, MEASURED, "plain", *cells[index], f"{float(errors.mean()):.6g}", "", "", seconds)
        for index, errors in sorted(results, key=lambda result: result[0])
    ]


def rehearse(name: str, draw: int, device: str) -> list[tuple[object, ...]]:
    """Rows of a rehearsal from one draw of example volumes."""
    volumes = random_volumes(SIDE, EXAMPLES, seed=draw, stream="examples").float()
    operator = problem().operator(device)
    told = kr.rehearse(
        lambda: network(name),
        operator,
        volumes,
        NOISE,
        sizes=REHEARSED,
        seeds=len(SEEDS),
        training=TRAINING,
        model=name,
    )
    print(told.simulated, *told.notes, sep="\n", flush=True)
    rows: list[tuple[object, ...]] = []
    for variant, made in (("plain", told.curve), ("distinct", told.distinct)):
        if made is None:
            continue
        facts = told.unaltered, f"{told.level:.6g}", f"{told.seconds:.0f}"
        for n, error, seed in zip(made.n, made.error, made.seed, strict=True):
            rows.append((name, f"draw {draw}", variant, n, seed, f"{error:.6g}", *facts))
    return rows


def run(device: str) -> None:
    """Train what is missing, and append it."""
    have = {(row["network"], row["source"]) for row in read(RESULTS)}
    for source in (MEASURED, *(f"draw {draw}" for draw in DRAWS)):
        for name in NAMES:
            if (name, source) in have:
                continue
            start = time.perf_counter()
            if source == MEASURED:
                rows = measure(name, device)
            else:
                rows = rehearse(name, int(source.split()[1]), device)
            append(RESULTS, COLUMNS, rows)
            print(name, source, f"{time.perf_counter() - start:.0f} s", flush=True)


def measured(rows: Sequence[Row], name: str, source: str, variant: str = "plain") -> kr.Curve:
    """A curve of the results."""
    key = name, source, variant
    chosen = [row for row in rows if (row["network"], row["source"], row["variant"]) == key]
    return curve(chosen, NAMES[name])


def rehearsal(rows: Sequence[Row], name: str, source: str) -> kr.Rehearsal:
    """A rehearsal of the results."""
    facts = next(row for row in rows if (row["network"], row["source"]) == (name, source))
    plain, half = (measured(rows, name, source, variant) for variant in ("plain", "halved"))
    distinct = int(facts["unaltered"])
    return kr.Rehearsal(
        curve=plain,
        distinct=kr.Curve(
            np.repeat([-(-distinct // 2), distinct], len(half.error)),
            [*half.error, *plain.error[plain.n == half.sizes[-1]]],
            half.seed * 2,
        ),
        simulated=f"{EXAMPLES} example volumes, {source}",
        unaltered=distinct,
        level=float(facts["level"]),
        parameters=sum(weights.numel() for weights in network(name).parameters()),
    )


def tables() -> str:
    """Markdown: the measured errors, and where they lie in the bands of each rehearsal."""
    rows = read(RESULTS)
    sources = dict.fromkeys(row["source"] for row in rows if row["source"] != MEASURED)
    draws = [f"rehearsed, examples {number + 1}" for number in range(len(sources))]
    text = ["### Errors", ""]
    text += header("network", "N", "measured", *draws)
    inside, questions, ratios = 0, 0, []
    for name in NAMES:
        rehearsals = [rehearsal(rows, name, source) for source in sources]
        for n, error in zip(SIZES, measured(rows, name, MEASURED).means, strict=True):
            cells = []
            for then in (made.forecast().at(n) for made in rehearsals):
                held = then.lower <= error <= then.upper
                inside, questions = inside + held, questions + 1
                ratios.append(then.value / error)
                band = f"{then.value:.3g} ({then.lower:.3g} to {then.upper:.3g})"
                cells.append(band if held else f"**{band}**")
            text.append(line(NAMES[name], n, f"{error:.3g}", *cells))
    off = np.abs(np.log(ratios))
    text += [
        "",
        "### Bands",
        "",
        f"The measured mean is inside {inside} of {questions} bands of 90%; expected over measured "
        f"errors are {min(ratios):.2f} to {max(ratios):.2f}, and off by "
        f"{np.expm1(np.median(off)):.1%} in the median.",
    ]
    return "\n".join(text) + "\n"


def main() -> None:
    """Train, or write tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    if options.tables:
        TABLES.write_text(tables())
    else:
        run(options.device)


if __name__ == "__main__":
    main()
