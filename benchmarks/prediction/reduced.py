"""Rehearsals within a limit of time beside the whole ones: what is left out, and what that costs.

The rehearsals of benchmarks/prediction/rehearse.py are asked again with fewer sizes, seeds and
steps, in the order in which `kr.rehearse(..., minutes=M)` leaves them out. Networks of fewer sizes
and seeds are those of data/rehearsal.csv; networks of fewer steps, at three sizes, are in
data/rehearsal_steps.csv.

    python -m benchmarks.prediction.reduced --train --part choose --images DIR [--steps 500,250]
        # train what is not in data/rehearsal_steps.csv yet
    python -m benchmarks.prediction.reduced --part report     # ask, and print the table
    python -m benchmarks.prediction.reduced --minutes 10      # a U-Net, on two cores, now

DIR is that of benchmarks/planner/imaging.py.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from tabulate import tabulate

import korisk as kr
from benchmarks.prediction.rehearse import (
    ASKED,
    DATA,
    OUT,
    Errors,
    Key,
    asked,
    curve_of,
    read_rows,
    rehearsals,
    rehearsed,
    truths,
)
from korisk.prediction.rehearsal.budget import Extent, reduced
from korisk.prediction.rehearsal.rehearse import SIZES

STEPS = DATA / "rehearsal_steps.csv"
COLUMNS = ("problem", "network", "population", "steps", "variant", "n", "seed", "error")
TRAINED = (32, 512, 2048)  # the sizes that are left when steps are left out
STEPS_LEFT = (1500, 1000, 700, 500)  # with three seeds,
HALVES = (750, 350, 250)  # and half of them with one
FULL = 2000  # steps
CLOSE = 0.05  # of the logarithm
Curves = dict[str, Errors]  # by variant


def train(options: argparse.Namespace) -> None:
    """Train with fewer steps what is not in the file yet, and append it."""
    out, start = options.out, time.perf_counter()
    if not out.exists():
        out.write_text(",".join(COLUMNS) + "\n")
    there = {tuple(row.values())[:4] for row in read_rows(out)}
    for setting, network in asked(options.part)[options.turn :: options.turns]:
        if options.networks and network not in options.networks:
            continue
        for steps in options.steps:
            key = (setting.problem, network, setting.population, str(steps))
            if key in there:
                continue
            if time.perf_counter() - start > 60 * options.most:
                return
            settings = argparse.Namespace(**vars(options) | {"steps": steps})
            seeds = 1 if steps in HALVES else 3
            made = rehearsed(setting, network, settings, sizes=TRAINED, seeds=seeds)
            curves = {"plain": made.curve, "halved": made.halved}
            with out.open("a", newline="") as file:
                for variant, curve in curves.items():
                    if curve is None:
                        continue
                    for n, error, seed in zip(curve.n, curve.error, curve.seed, strict=True):
                        row = (*key, variant, n, seed, f"{error:.6g}")
                        csv.writer(file, lineterminator="\n").writerow(row)
            print(*key, f"{made.seconds:.1f} s", flush=True)


def short_trainings() -> dict[tuple[Key, int], Curves]:
    """The errors after fewer steps, by network and steps."""
    found: dict[tuple[Key, int], Curves] = {}
    for row in read_rows(STEPS):
        key = (row["problem"], row["network"], row["population"]), int(row["steps"])
        errors = found.setdefault(key, {}).setdefault(row["variant"], {})
        errors.setdefault(int(row["n"]), []).append(float(row["error"]))
    return found


def part_of(curve: kr.Curve, cells: set[tuple[int, str]]) -> kr.Curve:
    """Some sizes and seeds of a curve."""
    rows = [
        (n, error, seed)
        for n, error, seed in zip(curve.n.tolist(), curve.error, curve.seed, strict=True)
        if (n, seed) in cells
    ]
    n, errors, seeds = zip(*rows, strict=True)
    return kr.Curve(n, errors, seeds, curve.model, "mse")


def within_extent(
    whole: kr.Rehearsal, extent: Extent, short: Curves | None, half: Curves | None
) -> kr.Rehearsal | None:
    """What a rehearsal says when it is reduced; None where it was not trained with so few steps."""
    curve, halved, doubled = whole.curve, whole.halved, 0.0
    if extent.steps < FULL:
        if short is None or half is None:
            return None
        curve, halved = curve_of(short["plain"]), curve_of(short["halved"])
        largest = extent.sizes[-1]
        doubled = math.log(half["plain"][largest][0] / short["plain"][largest][0])
    assert halved is not None
    seeds = [str(seed) for seed in extent.seeds]
    sizes = zip(extent.sizes, extent.counts, strict=True)
    cells = {(n, seed) for n, count in sizes for seed in seeds[:count]}
    twice = {(extent.sizes[-1], seed) for seed in seeds[: extent.halved]}
    return replace(
        whole,
        curve=part_of(curve, cells),
        halved=part_of(halved, twice),
        trained=extent.steps / FULL,
        doubled=doubled,
        undertrained=extent.steps < FULL,
    )


def table(part: str) -> Iterator[list[str]]:
    """For each extent: how far from the whole rehearsal, from the truth, and bands."""
    truth, short = truths(), short_trainings()
    whole = rehearsals(OUT, part)
    for extent in reduced(Extent.whole(SIZES, range(3), FULL), 36):
        differences, off, held, widths = [], [], [], []
        for key, rehearsal in whole.items():
            fewer = (short.get((key, steps)) for steps in (extent.steps, extent.half.steps))
            made = within_extent(rehearsal, extent, *fewer)
            if made is None:
                continue
            for n in ASKED:
                then, true = made.expected(n), float(np.mean(truth[key][n]))
                differences.append(abs(math.log(then.value / rehearsal.expected(n).value)))
                off.append(abs(math.log(then.value / true)))
                held.append(then.lower <= true <= then.upper)
                widths.append(math.log(then.upper / then.lower))
        if not off:
            continue
        networks = sum(extent.counts) + extent.halved
        counts = ", ".join(f"{n:,} ({c})" for n, c in zip(extent.sizes, extent.counts, strict=True))
        yield [
            f"{networks}",
            f"{extent.steps:,}",
            counts,
            f"{extent.halved}",
            f"{len(off) // len(ASKED)}",
            f"{np.median(differences):.3f} ({np.quantile(differences, 0.9):.3f})",
            f"{np.mean(np.array(differences) <= CLOSE):.2f}",
            f"{np.median(off):.3f} ({np.quantile(off, 0.9):.2f})",
            f"{np.mean(held):.2f}",
            f"{math.exp(np.median(widths)):.2f}",
        ]


HEADS = [
    *("networks", "steps", "N (seeds)", "half the images", "curves", "from the whole rehearsal"),
    *(f"within {CLOSE:g}", "from the truth", "bands hold", "upper / lower"),
]


def show(part: str) -> None:
    """Print the table of a part."""
    print(f"part: {part}. |log(said / said by the whole rehearsal)| and |log(said / measured)| at")
    print(
        "N = 512, 1,024 and 2,048: median (90% quantile); 90% bands that hold the measured mean.\n"
    )
    print(tabulate(list(table(part)), HEADS, tablefmt="github", disable_numparse=True))


def now(minutes: float) -> None:
    """A U-Net for CT within a limit of time on two cores, beside the whole rehearsal."""
    torch.set_num_threads(2)
    key = ("ct", "unet", "ellipses")
    setting = next(s for s, net in asked("choose") if (s.problem, net, s.population) == key)
    options = argparse.Namespace(images=None, device="cpu", steps=FULL)
    made = rehearsed(setting, key[1], options, minutes=minutes)
    whole = rehearsals(OUT, "choose")[key]
    print(f"{made.seconds / 60:.1f} minutes: {made.simulated.partition('; ')[2]}")
    print(*(note for note in made.notes if note.startswith("Reduced")), sep="\n")
    for n in ASKED:
        then, full = made.expected(n), whole.expected(n)
        print(
            f"N = {n:,}: log over the whole rehearsal {math.log(then.value / full.value):+.3f}, "
            f"upper / lower end {then.upper / then.lower:.2f} ({full.upper / full.lower:.2f})"
        )


def main() -> int:
    """Read the command line and do what it asks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--train", action="store_true", help="train with fewer steps, instead of asking")
    add("--part", choices=("choose", "report"), default="report")
    add("--images", type=Path, help="folder with the populations as NAME.npz")
    add("--out", type=Path, default=STEPS)
    add("--networks", type=lambda text: text.split(","), help="these alone")
    add(
        "--steps",
        type=lambda text: [int(k) for k in text.split(",")],
        default=[*STEPS_LEFT, *HALVES],
    )
    add("--most", type=float, default=math.inf, help="minutes after which no training starts")
    add("--turn", type=int, default=0, help="of several processes, which one this is")
    add("--turns", type=int, default=1, help="how many processes share the work")
    add("--minutes", type=float, help="rehearse a U-Net within so many, now")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    if options.minutes is not None:
        now(options.minutes)
    elif options.train:
        train(options)
    else:
        show(options.part)
    return 0


if __name__ == "__main__":
    sys.exit(main())
