"""Networks rehearsed on simulated pairs, then asked about real images.

Nine networks for CT, MRI, deblurring, denoising and inpainting (benchmarks/planner/imaging.py) are
rehearsed with `kr.rehearse` from 64 example images of a population. Truth are the curves of
benchmarks/data/imaging.csv, trained with the same recipe on other images of the population. Some
populations chose the constants of src/korisk/prediction/rehearsal/rehearsal.py; others report.

    python -m benchmarks.prediction.rehearse --train --part choose --images DIR [--minutes 9]
        # rehearse what is not in benchmarks/data/rehearsal.csv yet
    python -m benchmarks.prediction.rehearse --part report        # ask, and print the tables

DIR is that of benchmarks/planner/imaging.py.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import korisk as kr
from benchmarks.markdown import table
from benchmarks.planner import image_networks as base
from benchmarks.planner.imaging import NETWORKS, PROBLEMS, WIDTH, Setting, settings
from benchmarks.rows import append, read
from korisk.operators import Matrix
from korisk.planning.compare import Comparison
from korisk.planning.pilot import Longer
from korisk.planning.plan import Plan
from korisk.prediction.misfit import BELIEF
from korisk.prediction.rehearsal.rehearse import SIZES
from korisk.prediction.rehearsal.simulation import LONGER

DATA = Path(__file__).parents[1] / "data"
OUT = DATA / "rehearsal.csv"
COLUMNS = (
    *("problem", "network", "population", "examples", "variant"),
    *("n", "seed", "error", "unaltered", "level", "kinds", "seconds"),
)
CHOOSE = {"ellipses", "blobs", "mnist", "photos", "histology", "head_ct_a", "brain_mri_a"}
CHOOSE |= {"brain_mri_b"}
EXAMPLES = 64


class Single(nn.Module):
    """One member of an ensemble of benchmarks/planner/imaging.py, as a network of its own."""

    def __init__(self, network: str, problem: str) -> None:
        super().__init__()
        seed = int(torch.randint(2**31, ()))
        make = base.Maker([seed], WIDTH, alone=True)
        self.ensemble = NETWORKS[network][0](make, PROBLEMS[problem])

    def forward(self, measured: Tensor) -> Tensor:
        """(batch, rows, columns) to images (batch, 32, 32)."""
        image: Tensor = self.ensemble(measured[None, None])
        return image[0, 0]


def part_of(setting: Setting) -> str:
    """Whether a setting chooses constants or reports; neither, if its population chooses."""
    if setting.population in CHOOSE:
        return "neither" if setting.problem == "inpaint" else "choose"
    return "report"


def asked(part: str) -> list[tuple[Setting, str]]:
    """The settings and networks of a part that were trained with the long recipe."""
    truth = {tuple(row.values())[:5] for row in read(DATA / "imaging.csv")}
    wanted = []
    for setting in settings():
        if setting.recipe == "long" and part_of(setting) == part:
            for network in setting.networks:
                noise = f"{setting.noise:g}"
                key = (setting.problem, network, setting.population, noise, setting.recipe)
                if key in truth:
                    wanted.append((setting, network))
    return wanted


def rehearsed(setting: Setting, network: str, options: argparse.Namespace) -> kr.Rehearsal:
    """One rehearsal, by the library."""
    problem = PROBLEMS[setting.problem]
    images = torch.from_numpy(base.population(setting.population, options.images)[1])[:EXAMPLES]
    matrix = torch.from_numpy(problem.matrix()).float()
    operator = Matrix(matrix, domain=(base.SIDE, base.SIDE), range=problem.shape).to(options.device)
    clean = images.flatten(1).float() @ matrix.T
    deviation = setting.noise * (float(clean.abs().mean()) if problem.relative else 1.0)
    lost = (matrix.abs().sum(1) > 0).float().view(problem.shape)  # lost pixels have no noise

    def noise(inputs: Tensor, draws: torch.Generator) -> Tensor:
        return inputs + deviation * lost * torch.randn(inputs.shape, generator=draws)

    return kr.rehearse(
        lambda: Single(network, setting.problem),
        operator,
        images,
        noise,
        SIZES,
        seeds=3,
        model=network,
        training=kr.prediction.Training(steps=options.steps, rate=NETWORKS[network][1]),
    )


def train(options: argparse.Namespace) -> None:
    """Rehearse what is not in the file yet, and append it, one curve at a time."""
    out, start = options.out, time.perf_counter()
    there = {tuple(row.values())[:3] for row in read(out)}
    jobs = asked(options.part)
    random.Random(0).shuffle(jobs)  # so that what there is time for stands for all
    for setting, network in jobs:
        if (setting.problem, network, setting.population) in there:
            continue
        if time.perf_counter() - start > 60 * options.minutes:
            print(f"{options.minutes:g} minutes are used up: run again for the rest")
            return
        made = rehearsed(setting, network, options)
        words = made.simulated
        kinds = words[words.find("copies") :].partition("(")[2].partition(")")[0].replace(", ", " ")
        rows: list[tuple[object, ...]] = []
        for variant, curve in (("plain", made.curve), ("distinct", made.distinct)):
            if curve is None:
                continue
            key = (setting.problem, network, setting.population, EXAMPLES, variant)
            how = (made.unaltered, f"{made.level:.4f}", kinds, f"{made.seconds:.1f}")
            for n, error, seed in zip(curve.n, curve.error, curve.seed, strict=True):
                rows.append((*key, n, seed, f"{error:.6g}", *how))
        if made.longer is not None:
            last = made.longer
            rows.append((*key[:-1], "longer", last.n, 0, f"{last.errors[0]:.6g}", *how))
        append(out, COLUMNS, rows)
        print(setting.problem, network, setting.population, f"{made.seconds:.1f} s", flush=True)


# --- Asking --------------------------------------------------------------------------------------

ASKED = (512, 1024, 2048)
PILOT = (8, 16, 32)
WAYS = ("no pilot", "pilot to 32", "planner", "power law")
Key = tuple[str, str, str]  # problem, network, population
Errors = dict[int, list[float]]  # of the seeds, by N


class Answer(NamedTuple):
    """One question: how far off, whether the band held, how wide it was."""

    key: Key
    n: int
    off: float
    held: bool
    width: float


def curve_of(errors: Errors, sizes: Sequence[int] | None = None) -> kr.Curve:
    """Errors as a curve."""
    rows = [
        (n, error, str(seed))
        for n in sorted(errors)
        if sizes is None or n in sizes
        for seed, error in enumerate(errors[n])
    ]
    n, error, seed = zip(*rows, strict=True)
    return kr.Curve(n, error, seed, "network", "mse")


def distinct_of(variants: Mapping[str, Errors], unaltered: int) -> kr.Curve:
    """Errors at the largest N over the number of distinct images."""
    if "distinct" in variants:
        return curve_of(variants["distinct"])
    (half,), largest = variants["halved"].values(), max(variants["plain"])
    return curve_of({(unaltered + 1) // 2: half, unaltered: variants["plain"][largest]})


def truths() -> dict[Key, Errors]:
    """The measured curves of the long recipe."""
    curves: dict[Key, Errors] = {}
    for row in read(DATA / "imaging.csv"):
        if row["recipe"] == "long":
            key = (row["problem"], row["network"], row["population"])
            curves.setdefault(key, {}).setdefault(int(row["n"]), []).append(float(row["error"]))
    return curves


def rehearsals(path: Path, part: str) -> dict[Key, kr.Rehearsal]:
    """The rehearsals of a part, from the file."""
    curves: dict[Key, dict[str, Errors]] = {}
    facts: dict[Key, dict[str, str]] = {}
    for row in read(path):
        key = (row["problem"], row["network"], row["population"])
        errors = curves.setdefault(key, {}).setdefault(row["variant"], {})
        errors.setdefault(int(row["n"]), []).append(float(row["error"]))
        facts[key] = row
    wanted = {(s.problem, network, s.population) for s, network in asked(part)}
    longer: dict[Key, Longer] = {}
    for key, variants in curves.items():
        if "longer" in variants:
            ((n, after),) = variants["longer"].items()
            before = variants["plain"][n][:1]  # the same network, trained as long as the others
            longer[key] = Longer(n=n, factor=LONGER, errors=after, before=before)
    return {
        key: kr.Rehearsal(
            curve=curve_of(variants["plain"]),
            distinct=distinct_of(variants, int(facts[key]["unaltered"])),
            simulated=f"{EXAMPLES} examples of {key[2]}",
            unaltered=int(facts[key]["unaltered"]),
            level=float(facts[key]["level"]),
            parameters=0,
            belief=BELIEF,
            longer=longer.get(key),
        )
        for key, variants in curves.items()
        if key in wanted
    }


def power_law(pilot: kr.Curve, n: int) -> float:
    """The least-squares line through the logarithms of a pilot's errors."""
    slope, start = np.polyfit(np.log(pilot.n), np.log(pilot.error), 1)
    return math.exp(start + slope * math.log(n))


def answers(path: Path, part: str) -> dict[str, list[Answer]]:
    """Every question to every way."""
    truth = truths()
    given: dict[str, list[Answer]] = {way: [] for way in WAYS}
    for key, rehearsal in rehearsals(path, part).items():
        pilot = curve_of(truth[key], PILOT)
        planner = kr.forecast(pilot)
        predictions = {"no pilot": rehearsal.forecast(), "pilot to 32": rehearsal.forecast(pilot)}
        for n in ASKED:
            true = float(np.mean(truth[key][n]))
            for way in WAYS:
                if way == "power law":
                    given[way].append(
                        Answer(key, n, math.log(power_law(pilot, n) / true), False, math.nan)
                    )
                    continue
                then = (planner if way == "planner" else predictions[way]).at(n)
                held, width = then.lower <= true <= then.upper, math.log(then.upper / then.lower)
                given[way].append(Answer(key, n, math.log(then.value / true), held, width))
    return given


def needed(errors: Errors, target: float) -> float:
    """N at which measured means meet a target, between sizes on a log-log scale."""
    sizes = np.array(sorted(errors), dtype=float)
    means = np.minimum.accumulate([np.mean(errors[int(n)]) for n in sizes])
    if means[-1] > target:
        return math.inf
    logs = np.interp(-math.log(target), -np.log(means), np.log(sizes))
    return math.exp(float(logs))


def within_twice(path: Path, part: str, *, dense: bool) -> dict[str, list[bool]]:
    """Whether N for targets that are met between 256 and 2,048 is within a factor of two."""
    truth = truths()
    within: dict[str, list[bool]] = {"no pilot": [], "pilot to 32": [], "planner": []}
    for key, rehearsal in rehearsals(path, part).items():
        if key[1].startswith("dense") != dense:
            continue
        pilot = curve_of(truth[key], PILOT)
        for n in (256, 512, 1024, 2048):
            target = float(np.mean(truth[key][n]))
            true = needed(truth[key], target)
            if not 256 <= true <= 2048:  # a flat curve met it before
                continue
            said = {
                "no pilot": rehearsal.forecast().plan(target).even,
                "pilot to 32": rehearsal.forecast(pilot).plan(target).even,
                "planner": kr.plan(pilot, target).even,
            }
            for way, size in said.items():
                within[way].append(size is not None and 0.5 <= size / true <= 2)
    return within


def ratios(path: Path, part: str) -> list[tuple[bool, float]]:
    """Known over dense: whether the 90% interval holds the measured ratio, and log said / true.

    The target is the error that the dense network had at 256 and 2,048. N below the smallest that
    was rehearsed count as that, on both sides; pairs without any interval are left out.
    """
    truth, made = truths(), rehearsals(path, part)
    told = []
    for learned in (key for key in made if key[1].startswith("dense")):
        for known in (key for key in made if not key[1].startswith("dense")):
            if (known[0], known[2]) != (learned[0], learned[2]):
                continue
            for n in (256, 2048):
                target, least = float(np.mean(truth[learned][n])), float(made[known].curve.sizes[0])
                sizes = [max(needed(truth[key], target), least) for key in (known, learned)]
                if math.isinf(sizes[0]):
                    continue
                # The target may be in the range of one of the two alone, so it is not checked.
                plans = (Plan(made[key].forecast(), target) for key in (known, learned))
                true, said = sizes[1] / sizes[0], Comparison(*plans)
                if said.ratio_range is not None:
                    low, high = said.ratio_range
                    off = math.log(said.ratio / true) if said.ratio else math.nan
                    told.append((low <= true <= high, off))
    return told


def record(part: str) -> dict[str, list[dict[str, float]]]:
    """How often an N called 90% sure was enough, of rehearsals alone and with a pilot to 32.

    Five targets for each network lie between the simulated errors at the smallest and the largest
    N: the truth does not choose them. Answers up to the largest measured N are asked whether the
    measured error there, interpolated in logarithms, meets the target. The share is the mean over
    networks that have an answer.
    """
    truth, shares = truths(), dict[str, list[float]](rehearsal=[], both=[])
    for key, rehearsal in rehearsals(OUT, part).items():
        sizes = np.array(sorted(truth[key]), dtype=float)
        logs = np.log([np.mean(truth[key][int(n)]) for n in sizes])
        easy, hard = rehearsal.adjusted.means[[0, -1]].tolist()
        for pilot in (None, curve_of(truth[key], PILOT)):
            held = []
            for target in np.geomspace(easy, hard, 7)[1:-1].tolist():
                n = Plan(rehearsal.forecast(pilot), target).samples(0.9)
                if n is not None and sizes[0] <= n <= sizes[-1]:
                    held.append(np.interp(math.log(n), np.log(sizes), logs) <= math.log(target))
            if held:
                shares["rehearsal" if pilot is None else "both"].append(float(np.mean(held)))
    return {
        way: [{"times": 1e99, "asked": len(some), "held": round(float(np.mean(some)), 3)}]
        for way, some in shares.items()
    }


def show(path: Path, part: str) -> None:
    """Print the tables."""
    given = answers(path, part)
    print(f"{EXAMPLES} examples, part: {part}. |log(said / measured)| at N = 512, 1,024 and 2,048:")
    print("median (90% quantile), and the share of 90% bands that hold the measured mean.\n")
    keys = list(dict.fromkeys(answer.key for answer in given["no pilot"]))
    groups: dict[str, list[Key]] = {f"all ({len(keys)} networks)": keys}
    groups["without a known operator"] = [key for key in keys if key[1].startswith("dense")]
    groups["with one"] = [key for key in keys if not key[1].startswith("dense")]
    for place in (2, 0, 1):  # populations, problems, networks
        for name in sorted({key[place] for key in keys}):
            groups[name] = [key for key in keys if key[place] == name]
    rows = []
    for label, chosen in groups.items():
        row = [label]
        for way in WAYS:
            some = [answer for answer in given[way] if answer.key in chosen]
            off = np.abs([answer.off for answer in some])
            text = f"{np.median(off):.3f} ({np.quantile(off, 0.9):.2f})"
            if way != "power law":
                text += f", {np.mean([answer.held for answer in some]):.2f}"
            row.append(text)
        rows.append(row)
    print(table(rows, ["", *WAYS]))
    widths = {way: math.exp(np.median([a.width for a in given[way]])) for way in WAYS[:3]}
    print("\nUpper over lower end of the bands, median:", _listed(widths))
    print("N for a target met between 256 and 2,048, within a factor of two:")
    for name, dense in (("without a known operator", True), ("with one", False)):
        shares = within_twice(path, part, dense=dense)
        print(f"{name}:", _listed({way: sum(some) / len(some) for way, some in shares.items()}))
    told = ratios(path, part)
    print(
        f"Known over dense from rehearsals alone, {len(told)} pairs and targets: the 90% interval "
        f"holds {np.mean([held for held, _ in told]):.2f}; median of said over measured "
        f"{np.exp(np.nanmedian([log for _, log in told])):.2f}"
    )
    print("An N called 90% sure was enough, mean over networks:", record(part))


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def main() -> int:
    """Read the command line and do what it asks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--train", action="store_true", help="rehearse, instead of asking")
    add("--part", choices=("choose", "report"), default="report")
    add("--images", type=Path, help="folder with the populations as NAME.npz")
    add("--out", type=Path, default=OUT)
    add("--steps", type=int, default=2000)
    add("--minutes", type=float, default=math.inf, help="start no curve after so many")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    if options.train:
        train(options)
    else:
        show(options.out, options.part)
    return 0


if __name__ == "__main__":
    sys.exit(main())
