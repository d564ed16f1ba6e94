"""Networks rehearsed on simulated pairs, then asked about real images.

Five networks of benchmarks/planner/image_networks.py are written as anyone would write them and
rehearsed with `kr.rehearse` from 64 or 256 example images of a population. Truth are the curves of
benchmarks/data/image_networks.csv, trained with the same recipe on other images of the population:
the error at N = 512, 1024 and 2048 is asked without a pilot, and with one that was measured up to N
= 64. Ellipses, blobs and digits chose how images are altered and how far a rehearsal is believed;
clothing and photographs report.

    python -m benchmarks.prediction.rehearse --train --images DIR --out
        benchmarks/data/rehearsal.csv
        [--networks a,b] [--populations x,y] [--examples 64,256] [--minutes 9]
    python -m benchmarks.prediction.rehearse                      # ask, and print the tables
    python -m benchmarks.prediction.rehearse --cost [--device cpu] [--steps 40]

DIR is that of benchmarks/planner/image_networks.py. What is in the file already is not trained
again.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import korisk as kr
from benchmarks.planner import image_networks as real
from benchmarks.planner.curves import image_curves
from benchmarks.planner.image_networks import BINS, SIDE, VIEWS
from korisk.fitting.gradient.many import Member, Schedule, train_many
from korisk.operators import LinearOperator, ParallelBeam, Projector
from korisk.prediction.rehearse import BELIEF, UNLIKE

POPULATIONS = {"choose": ("ellipses", "blobs", "mnist"), "report": ("fashion", "photos")}
SIZES = tuple(2**k for k in range(4, 12))
SEEDS = 3
DATA = Path(__file__).parents[1] / "data"


# --- The networks, one module each ---------------------------------------------------------------


class Conv(nn.Conv2d):
    """A 3 x 3 convolution that starts as those of the measured networks do."""

    def __init__(self, inputs: int, outputs: int, gain: float = 1.0) -> None:
        super().__init__(inputs, outputs, 3, padding=1)
        nn.init.normal_(self.weight, std=gain * math.sqrt(2 / (9 * inputs)))
        nn.init.zeros_(self.bias)  # type: ignore[arg-type]


def stack(*channels: int) -> nn.Sequential:
    """Convolutions with ReLUs between them; the last one starts small."""
    layers: list[nn.Module] = []
    for i in range(len(channels) - 2):
        layers += [Conv(channels[i], channels[i + 1]), nn.ReLU()]
    return nn.Sequential(*layers, Conv(channels[-2], channels[-1], 0.1))


class Cnn(nn.Module):
    """An image (batch, side, side), plus what five convolutions make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = stack(1, 24, 24, 24, 24, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Images to images."""
        return x + cast(Tensor, self.stack(x[:, None]))[:, 0]


class UNet(nn.Module):
    """An image (batch, side, side), plus what a U-Net that halves it twice makes of it."""

    def __init__(self, c: int = 16) -> None:
        super().__init__()
        self.enter, self.fine = Conv(1, c), Conv(c, c)
        self.down, self.deep = Conv(c, 2 * c), Conv(2 * c, 2 * c)
        self.up = Conv(4 * c, c)
        self.merge, self.leave = Conv(2 * c, c), Conv(c, 1, 0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Images to images."""
        fine = torch.relu(self.fine(torch.relu(self.enter(x[:, None]))))
        middle = torch.relu(self.down(F.avg_pool2d(fine, 2)))
        deep = torch.relu(self.deep(F.avg_pool2d(middle, 2)))
        deep = F.interpolate(deep, scale_factor=2)
        up = torch.relu(self.up(torch.cat([middle, deep], 1)))
        up = F.interpolate(up, scale_factor=2)
        merged = torch.relu(self.merge(torch.cat([fine, up], 1)))
        return x + cast(Tensor, self.leave(merged))[:, 0]


class Known(nn.Module):
    """A known operator as a fixed matrix."""

    matrix: Tensor

    def __init__(self, matrix: real.Array, shape: tuple[int, int]) -> None:
        super().__init__()
        self.register_buffer("matrix", torch.from_numpy(matrix.T.copy()).float())
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        """(batch, ..., rows, columns) to (batch, ..., *shape)."""
        return (x.flatten(-2) @ self.matrix).view(*x.shape[:-2], *self.shape)


def known_fbp() -> Known:
    """Filtered backprojection."""
    return Known(real.ct()[1], (SIDE, SIDE))


class Weights(nn.Module):
    """Learned weights on the sinogram."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(VIEWS, BINS))

    def forward(self, y: Tensor) -> Tensor:
        """Sinograms to sinograms."""
        return y * self.weights


class Dense(nn.Module):
    """A dense learned layer in the place of the reconstruction."""

    def __init__(self) -> None:
        super().__init__()
        rays = VIEWS * BINS
        self.dense = nn.Parameter(torch.randn(rays, SIDE**2) * rays**-0.5)

    def forward(self, y: Tensor) -> Tensor:
        """Sinograms (batch, views, bins) to images."""
        return (y.flatten(1) @ self.dense).view(len(y), SIDE, SIDE)


class PrimalDual(nn.Module):
    """Learned primal-dual: CNNs on the sinogram and the image take turns, joined by A and A^T."""

    def __init__(self, steps: int = 3, memory: int = 4, wide: int = 12) -> None:
        super().__init__()
        self.memory = memory
        self.project = Known(real.ct()[0], (VIEWS, BINS))
        self.backproject = Known(real.ct()[0].T, (SIDE, SIDE))
        self.duals, self.primals = (
            nn.ModuleList(stack(memory + more, wide, wide, memory) for _ in range(steps))
            for more in (2, 1)
        )

    def forward(self, y: Tensor) -> Tensor:
        """Sinograms (batch, views, bins) to images."""
        x = y.new_zeros(len(y), self.memory, SIDE, SIDE)
        h = y.new_zeros(len(y), self.memory, VIEWS, BINS)
        for dual, primal in zip(self.duals, self.primals, strict=True):
            h = h + dual(torch.cat([h, self.project(x[:, :1]), y[:, None]], 1))
            x = x + primal(torch.cat([x, self.backproject(h[:, :1])], 1))
        return x[:, 0]


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "ct-fbp-unet": lambda: nn.Sequential(known_fbp(), UNet()),
    "ct-fbp-cnn": lambda: nn.Sequential(known_fbp(), Cnn()),
    "ct-weights-fbp-unet": lambda: nn.Sequential(Weights(), known_fbp(), UNet()),
    "ct-primal-dual": PrimalDual,
    "ct-dense-unet": lambda: nn.Sequential(Dense(), UNet()),
}
RATES = {"ct-dense-unet": 3e-4}
ASKED, PILOT = (512, 1024, 2048), (16, 64)
COLUMNS = "network,population,examples,n,seed,error,unaltered,level,seconds"


def scan(device: str) -> LinearOperator:
    """The projector of the measured networks, of norm 1."""
    made = Projector(ParallelBeam(SIDE, views=VIEWS, bins=BINS), device=device)
    norm = float(
        np.linalg.norm(real.ct()[0] @ np.ones(SIDE**2))
        / np.linalg.norm(made.to("cpu").as_matrix().double().numpy() @ np.ones(SIDE**2))
    )
    return norm * made.to(device)


def train(options: argparse.Namespace) -> None:
    """Rehearse what is not in the file yet, and append it, one curve at a time."""
    out: Path = options.out
    if not out.exists():
        out.write_text(f"{COLUMNS}\n")
    with out.open(newline="") as file:
        there = {(r["network"], r["population"], int(r["examples"])) for r in csv.DictReader(file)}
    operator, start = scan(options.device), time.perf_counter()
    for count in options.examples:
        for population in options.populations:
            images = torch.from_numpy(real.population(population, options.images)[1])[:count]
            clean = operator(images.to(operator.device, operator.dtype))
            deviation = 0.02 * float(clean.abs().mean())

            def noise(inputs: Tensor, draws: torch.Generator, size: float = deviation) -> Tensor:
                return inputs + size * torch.randn(inputs.shape, generator=draws).to(inputs)

            for network in options.networks:
                if (network, population, count) in there:
                    continue
                if time.perf_counter() - start > 60 * options.minutes:
                    print(f"{options.minutes:g} minutes are used up: run again for the rest")
                    return
                made = kr.rehearse(
                    NETWORKS[network],
                    operator,
                    images,
                    noise,
                    sizes=options.sizes,
                    seeds=SEEDS,
                    training=kr.prediction.Training(
                        steps=options.steps, rate=RATES.get(network, 1e-3)
                    ),
                )
                how = made.unaltered, f"{made.level:.4f}", f"{made.seconds:.1f}"
                with out.open("a", newline="") as file:
                    csv.writer(file).writerows(
                        (network, population, count, n, seed, f"{error:.6g}", *how)
                        for n, error, seed in zip(
                            made.curve.n, made.curve.error, made.curve.seed, strict=True
                        )
                    )
                print(
                    f"{network} {population} {count}: {made.seconds:.1f} s", *made.notes, flush=True
                )


def cost(options: argparse.Namespace) -> None:
    """Time of a rehearsal over that of a plain loop that trains one network after another."""
    device, steps, count = options.device, options.steps, 24 if options.device == "cuda" else 4
    x, y = torch.rand(512, VIEWS, BINS, device=device), torch.rand(512, SIDE, SIDE, device=device)

    def wait() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def plain(network: nn.Module, steps: int) -> None:
        optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
        for _ in range(steps):
            rows = torch.randint(256, (16,), device=device)
            loss = (network(x[rows]) - y[rows]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    for name in options.networks:
        build = NETWORKS[name]
        network = build().to(device)
        plain(network, 10)
        begun = wait()
        plain(network, steps)
        one = (wait() - begun) / steps
        took = []
        for length in (10, steps, 3 * steps):  # what is done once does not count
            rows = torch.arange(512, device=device)
            members = [
                Member(str(k), build().to(device), k, rows[:256], rows[300:308], rows[310:318])
                for k in range(count)
            ]
            begun = wait()
            list(train_many(members, x, y, Schedule(steps=length)))
            took.append(wait() - begun)
        each = (took[2] - took[1]) / (2 * steps * count)
        print(
            f"{name}: {1000 * one:.2f} ms a step, {1000 * each:.2f} in a rehearsal of {count} "
            f"({each / one:.2f})",
            flush=True,
        )


def rehearsals(path: Path) -> dict[tuple[str, str, int], kr.Rehearsal]:
    """The rehearsals of a file, by network, population and number of examples."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = {}
    for key in dict.fromkeys((r["network"], r["population"], r["examples"]) for r in rows):
        own = [r for r in rows if (r["network"], r["population"], r["examples"]) == key]
        curve = kr.Curve(
            [int(r["n"]) for r in own],
            [float(r["error"]) for r in own],
            [r["seed"] for r in own],
            key[0],
            "mse",
        )
        found[key[0], key[1], int(key[2])] = kr.Rehearsal(
            curve=curve,
            simulated=f"{key[2]} examples of {key[1]}",
            unaltered=int(own[0]["unaltered"]),
            level=float(own[0]["level"]),
            parameters=0,
            belief=BELIEF,
        )
    return found


def phantoms() -> dict[tuple[str, str, int], kr.Rehearsal]:
    """Rehearsals without any example: the measured curves on ellipses, asked about other images."""
    truth, found = image_curves(), {}
    for network in NETWORKS:
        curve = truth[network, "ellipses"].up_to(SIZES[-1])
        for population in [each for part in POPULATIONS.values() for each in part][1:]:
            found[network, population, 0] = kr.Rehearsal(
                curve=curve,
                simulated="ellipses",
                unaltered=0,
                level=0.05,
                parameters=0,
                belief=UNLIKE,
            )
    return found


def answers(path: Path) -> list[dict[str, float | str]]:
    """Every question: the log of predicted over true error, and whether the band held it."""
    truth, found = image_curves(), []
    for (network, population, count), made in {**phantoms(), **rehearsals(path)}.items():
        curve = truth[network, population]
        kept = [at for at, n in enumerate(curve.n) if PILOT[0] <= n <= PILOT[1]]
        seeds = [curve.seed[at] for at in kept]
        pilot = kr.Curve(curve.n[kept], curve.error[kept], seeds, network, "mse")
        ways: dict[str, kr.Prediction | kr.Forecast] = {
            "no pilot": made.predict(),
            "pilot": made.forecast(pilot),
            "pilot alone": kr.forecast(pilot),
        }
        for n in ASKED:
            true = float(curve.means[curve.sizes == n][0])
            row: dict[str, float | str] = {"network": network, "population": population}
            row |= {"examples": count, "n": n}
            for way, each in ways.items():
                middle = each.errors([n]) if isinstance(each, kr.Prediction) else each.middle([n])
                low, high = each.band([n])
                row[way] = math.log(float(middle[0]) / true)
                row[f"{way} held"] = float(low[0] <= true <= high[0])
                row[f"{way} width"] = math.log(float(high[0] / low[0]))
            found.append(row)
    return found


def show(found: list[dict[str, float | str]]) -> None:
    """Print the tables."""
    ways = ("no pilot", "pilot", "pilot alone")
    print("|log(predicted / true)| at N = 512, 1024, 2048: median (90% quantile), the share of 90%")
    print("bands that hold the truth, and the bands' median ratio of ends. 64 and 256")
    print("examples of the population; 0: rehearsed on ellipses.")
    print(f"{'':31s}" + "".join(f"{way:^27s}" for way in ways))
    groups = []
    for count in sorted({int(row["examples"]) for row in found}):
        for part, names in POPULATIONS.items():
            groups.append((part, "all", count, names, list(NETWORKS)))
            groups += [(part, name, count, (name,), list(NETWORKS)) for name in names]
            groups += [(part, name, count, names, [name]) for name in NETWORKS]
    for part, label, count, names, networks in groups:
        kept = [
            row
            for row in found
            if row["examples"] == count
            and row["population"] in names
            and row["network"] in networks
        ]
        if not kept:
            continue
        parts = []
        for way in ways:
            off = np.abs([float(row[way]) for row in kept])
            held, width = (
                [float(row[f"{way} {what}"]) for row in kept] for what in ("held", "width")
            )
            parts.append(
                f"{np.median(off):.3f} ({np.quantile(off, 0.9):.3f}) {np.mean(held):.2f} "
                f"{math.exp(np.median(width)):.2f}"
            )
        print(f"{part:7s}{label:20s}{count:4d}" + "".join(f"{part:^27s}" for part in parts))


def main() -> int:
    """Read the command line and do what it asks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    everywhere = [each for part in POPULATIONS.values() for each in part]
    add("--train", action="store_true", help="rehearse, instead of asking")
    add("--cost", action="store_true", help="time rehearsals against a plain loop")
    add("--images", type=Path, help="folder with mnist.npz, fashion.npz and photos.npz")
    add("--out", type=Path, default=DATA / "rehearsal.csv")
    add("--networks", type=lambda text: text.split(","), default=list(NETWORKS))
    add("--populations", type=lambda text: text.split(","), default=everywhere)
    add("--examples", type=lambda text: list(map(int, text.split(","))), default=[64, 256])
    add("--sizes", type=lambda text: list(map(int, text.split(","))), default=list(SIZES))
    add("--steps", type=int, default=2000)
    add("--minutes", type=float, default=math.inf, help="start no curve after so many")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    if options.cost:
        cost(options)
    elif options.train:
        train(options)
    else:
        show(answers(options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
