"""Curves that were predicted before training against curves that were measured.

    python -m benchmarks.prediction.predict measure FILE.json [--device cuda]
        # the studies in predict/
    python -m benchmarks.prediction.predict judge FILE.json --json RESULT.json
        # predictions beside them
    python -m benchmarks.prediction.predict tables RESULT.json
        # what results/predict.txt keeps for the docs

The beliefs in korisk.prediction.misfit were chosen on the fan beams at 8, 16 and 32 pixels ("chosen
on"); the surrogate, MRI, advection-diffusion and limited angles had no part in it ("judged on").
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from korisk.curves.curve import Curve
from korisk.planning.plan import plan
from korisk.prediction.api import dense_prediction, known_prediction
from korisk.prediction.prediction import Prediction
from korisk.store.usage import machine
from korisk.studies.spec.study import Study, problem_of

STUDIES = Path(__file__).parent / "studies"
EXAMPLE_SEED = 900  # of images that no measured fit has seen
IMAGES = (256, 64)
PILOTS = (32, 64, 128, 256)  # largest N of a pilot, and the images that its owner has
AHEAD = (2, 4, 8, 16)
CLEARLY = 0.97  # of the pilot's last error; targets above it are met already
TELLING = 1.02  # times the target is the error at half the N: where it is not, N is anybody's guess
LEAST_STEEP = 5e-3  # of the floor: with less to learn, a slope is noise
ROUNDING = 1e-10  # errors below that are none


def main() -> None:
    """Measure, judge or print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("measure", "judge", "tables"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", type=Path, help="where to keep the judgement")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("build/predict"))
    options = parser.parse_args()
    if options.what == "measure":
        kept = measure(options.out, options.device)
        options.file.write_text(json.dumps(kept, indent=1) + "\n")
    elif options.what == "judge":
        found = judge(json.loads(options.file.read_text()), options.workers)
        text = json.dumps(found, separators=(",", ":"))
        print(text) if options.json is None else options.json.write_text(text + "\n")
    else:
        print("\n".join(tables(json.loads(options.file.read_text()))))


# --- Measured ------------------------------------------------------------------------------------


def measure(out: Path, device: str) -> dict[str, Any]:
    """Every study's errors: study, point, model, N, and one for each seed."""
    kept: dict[str, Any] = {"machine": dict(machine()), "device": device, "studies": {}}
    for path in sorted(STUDIES.glob("*.yaml")):
        command = [sys.executable, "-m", "korisk", "run", str(path), "--json"]
        command += ["--out", str(out / device / path.stem), "--device", device]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        kept["studies"][path.stem] = by_size(json.loads(ran.stdout))
    return kept


def by_size(ran: dict[str, Any]) -> dict[str, Any]:
    """What `korisk run --json` prints, as point, model and N."""
    found: dict[str, Any] = {}
    for point, content in ran["points"].items():
        for model in ("KO", "FC"):
            sizes: dict[str, list[float]] = defaultdict(list)
            for row in content[model]:
                sizes[str(row["n"])].append(row["error"])
            found.setdefault(point, {})[model] = dict(sizes)
    return found


def measured_curve(sizes: dict[str, list[float]], model: str) -> Curve:
    """A measured curve; N = 0, the untrained weights, is left out."""
    rows = [
        (int(n), error, seed)
        for n, errors in sizes.items()
        for seed, error in enumerate(errors)
        if int(n) > 0
    ]
    n, error, seed = zip(*rows, strict=True)
    return Curve(n, error, seed, model)


# --- Predicted -----------------------------------------------------------------------------------


class Predictor:
    """Predictions for the points of the studies; each is made once for a number of images."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str, str, int], Prediction] = {}
        self._specs = {
            (path.stem, task.point): task.spec
            for path in STUDIES.glob("*.yaml")
            for task in Study.read(path).tasks
        }

    def __call__(self, study: str, point: str, model: str, images: int) -> Prediction:
        """Without a pilot; `with_pilot` adds one."""
        key = study, point, model, images
        if key not in self._made:
            self._made[key] = self._make(*key)
        return self._made[key]

    def _make(self, study: str, point: str, model: str, images: int) -> Prediction:
        spec = self._specs[study, point]
        problem = problem_of(spec)
        examples = problem.examples(seed=EXAMPLE_SEED, count=images)
        settings = spec["models"].get(model, {})
        start = time.perf_counter()
        if model == "FC":
            made = dense_prediction(examples, relu=settings["relu"])
        else:
            made = known_prediction(
                examples,
                problem.reconstruction(),
                relu=settings["relu"],
                toward=settings["toward"],
            )
        print(study, point, model, images, f"{time.perf_counter() - start:.1f} s", file=sys.stderr)
        return made


def judge(kept: dict[str, Any], workers: int) -> dict[str, Any]:
    """Ratios of errors, and sample sizes by every way there is."""
    ratios: list[Any] = []
    sizes: list[Any] = []
    known: list[Any] = []
    with get_context("spawn").Pool(workers) as pool:
        for part in pool.imap(judged_study, kept["studies"].items()):
            for every, some in zip((ratios, sizes, known), part, strict=True):
                every += some
    return {
        "machine": dict(machine()),
        "measured_on": kept["machine"],
        "ratios": ratios,
        "known": known,
        "sizes": sizes,
        "heavy_tails": list(heavy_tails()),
    }


def ratio(made: Prediction, curve: Curve) -> dict[str, Any]:
    """Computed over measured error at every N."""
    return {
        "n": curve.sizes.tolist(),
        "ratio": (made.computed(curve.sizes) / curve.means).tolist(),
        "valid_from": made.valid_from,
        "valid_to": None if math.isinf(made.valid_to) else made.valid_to,
    }


def line_ratio(made: Prediction, curve: Curve) -> dict[str, Any]:
    """Floor and slope of floor + slope / N, fitted the same way to both curves.

    Over N from 64 on for up to 500 weights, and from 256 on for more, where the form holds; each N
    counts by how little its seeds scatter.
    """
    first = 64 if (made.parameters or 0) <= 500 else 256
    kept = curve.sizes >= first
    n, means = curve.sizes[kept].astype(float), curve.means[kept]
    scatter = np.maximum(curve.deviations[kept], 1e-4 * means)
    design = np.stack([np.ones_like(n), 1 / n], axis=1) / scatter[:, None]
    both = np.stack([means, made.computed(n)], axis=1) / scatter[:, None]
    (floor, computed_floor), (slope, computed_slope) = np.linalg.lstsq(design, both, rcond=None)[0]
    return {
        "from": first,
        "floor": float(floor),
        "slope": float(slope),
        "floor_ratio": float(computed_floor / floor),
        "slope_ratio": float(computed_slope / slope) if slope else None,
        "steep": float(slope / first / floor),  # what is learned from there on, over the floor
    }


def judged_study(content: tuple[str, dict[str, Any]]) -> tuple[list[Any], list[Any], list[Any]]:
    """Ratios, sample sizes and lines of the points of a study."""
    (study, points), predictor = content, Predictor()
    ratios, sizes, known = [], [], []
    for point, models in points.items():
        for model, errors in models.items():
            curve = measured_curve(errors, model)
            for images in IMAGES:
                made = predictor(study, point, model, images)
                ratios.append(
                    {"study": study, "point": point, "model": model, "images": images}
                    | ratio(made, curve)
                )
                if model == "KO":
                    known.append(
                        {"study": study, "point": point, "images": images} | line_ratio(made, curve)
                    )
            for last in PILOTS:
                made = predictor(study, point, model, last)
                sizes += list(judged_sizes(made, curve, study, point, model, last))
    return ratios, sizes, known


def judged_sizes(
    made: Prediction, curve: Curve, study: str, point: str, model: str, last: int
) -> Iterator[dict[str, Any]]:
    """The N for what was measured at multiples of the pilot's last N, by each way."""
    pilot = curve.up_to(last)
    combined = made.with_pilot(pilot)
    means = dict(zip(curve.sizes.tolist(), curve.means.tolist(), strict=True))
    for ahead in AHEAD:
        truth = last * ahead
        if truth not in means or not ROUNDING < means[truth] < CLEARLY * means[last]:
            continue
        target = means[truth]
        answers = {"theory": made.plan(target), "combined": combined.plan(target)}
        found = {
            name: {"samples": each.even, "covers": each.lower <= truth <= each.upper}
            for name, each in answers.items()
        }
        planned = plan(pilot, target)
        covers = planned.lower <= truth <= planned.upper
        found["posterior"] = {"samples": planned.even, "covers": covers}
        yield {
            "study": study,
            "point": point,
            "model": model,
            "pilot": last,
            "ahead": ahead,
            "telling": means[truth // 2] > TELLING * target,
            "trust": combined.trust,
            "answers": found,
        }


# --- Where it fails ------------------------------------------------------------------------------


def heavy_tails() -> Iterator[dict[str, Any]]:
    """Images whose brightness is log-normal: the surrogate at 16 pixels, noise 2%, linear."""
    from korisk.fitting import DenseRidge, Scorer
    from korisk.problems import CtProblem, CtScanner, Gaussian
    from korisk.problems.problem import Examples

    scanner = CtScanner(side=16, views=20, bins=16, beam="surrogate")
    problem = CtProblem(scanner=scanner, noise=Gaussian(0.02))
    for spread in (0.0, 0.5, 1.0, 1.5):
        rng = torch.Generator().manual_seed(1)

        def scaled(count: int, seed: int, spread: float = spread, rng: Any = rng) -> Examples:
            found = problem.examples(seed=seed, count=count)
            # By mean square: the energy stays.
            size = (spread * torch.randn(count, generator=rng, dtype=torch.float64)).exp()
            size = (size * math.exp(-(spread**2)))[:, None, None]
            noise = found.noise * float((size**2).mean())
            images = found.latents * size
            inputs = found.inputs * size
            return Examples(images, found.forward, None, inputs, images, noise)

        test, validation = scaled(4096, 71), scaled(128, 72)
        sizes = [4, 16, 64, 256, 1024]
        errors: dict[int, list[float]] = defaultdict(list)
        for seed in (73, 74, 75):
            train = scaled(sizes[-1], seed)
            ridge = DenseRidge(train.inputs, train.targets, relu=False)
            scorer = Scorer(validation.inputs, validation.targets)
            for n in sizes:
                fit = ridge.training(n).fit(scorer=scorer)
                errors[n].append(float((fit.predict(test.inputs) - test.targets).square().mean()))
        made = dense_prediction(scaled(256, EXAMPLE_SEED), relu=False)
        means = [statistics.fmean(errors[n]) for n in sizes]
        found = made.computed(sizes) / np.array(means)
        yield {"spread": spread, "n": sizes, "ratio": found.tolist(), "level": made.level}


# --- Tables --------------------------------------------------------------------------------------


def tables(found: dict[str, Any]) -> Iterator[str]:
    """Dense curves, known-operator curves, sample sizes, and images of uneven brightness."""
    parts = {
        "Dense layer": ratio_table,
        "Known operators": line_table,
        "Sample sizes": size_table,
        "Uneven brightness": tail_table,
    }
    for name, made in parts.items():
        yield f"### {name}"
        yield ""
        yield from made(found)


SHOWN = (4, 16, 64, 256, 1024, 4096)


def ratio_table(found: dict[str, Any]) -> Iterator[str]:
    """Computed over measured error of the dense layer, 256 images; the mean also of 64."""
    rows = [row for row in found["ratios"] if row["model"] == "FC" and not chosen_on(row)]
    few = {where(row): row for row in rows if row["images"] == 64}
    yield entry("study", "point", *(f"N = {n}" for n in SHOWN), "mean off", "worst", "64 images")
    yield entry(*["---"] * (len(SHOWN) + 5))
    for row in rows:
        if row["images"] != 256:
            continue
        ratios = dict(zip(row["n"], row["ratio"], strict=True))
        yield entry(
            title(row["study"]),
            row["point"],
            *(f"{ratios[n]:.2f}" if ratios[n] < 100 else "> 100" for n in SHOWN),
            *off(row),
            off(few[where(row)])[0],
        )


def off(row: dict[str, Any]) -> tuple[str, str]:
    """The mean and the worst factor between computed and measured, where the theory speaks."""
    most = math.inf if row["valid_to"] is None else row["valid_to"]
    logs = [
        abs(math.log(each))
        for n, each in zip(row["n"], row["ratio"], strict=True)
        if row["valid_from"] <= n <= most
    ]
    return percent(math.exp(statistics.fmean(logs)) - 1), percent(math.exp(max(logs)) - 1)


def summary(found: dict[str, Any]) -> str:
    """How far dense curves with noise are off, and how well sample sizes come out, in words."""
    rows = [
        row
        for row in found["ratios"]
        if (row["model"], row["images"]) == ("FC", 256)
        and not chosen_on(row)
        and "noise_0" not in row["study"]
    ]
    means = [float(off(row)[0].rstrip("%")) for row in rows]
    below = sum(mean < 15 for mean in means)
    sizes = [row for row in found["sizes"] if not chosen_on(row)]
    shares = ", ".join(within(sizes, "combined", ahead) for ahead in AHEAD)
    alone = ", ".join(within(sizes, "posterior", ahead) for ahead in AHEAD)
    return (
        f"{below} of {len(means)} dense curves are off by less than 15% in the mean over N = 4 to "
        f"4,096 (the median curve by {statistics.median(means):.1f}%). With a pilot, the N for a "
        f"target at 2, 4, 8 and 16 times its size is within a factor of two for {shares} of the "
        f"targets (the pilot alone: {alone})"
    )


def where(row: dict[str, Any]) -> tuple[str, str]:
    """The curve that a row is of."""
    return row["study"], row["point"]


def size_table(found: dict[str, Any]) -> Iterator[str]:
    """Within a factor of two, by set of curves, way and distance."""
    sets: dict[str, Callable[[dict[str, Any]], bool]] = {
        "judged on, noise": lambda row: not chosen_on(row) and "noise_0" not in row["study"],
        "judged on, no noise": lambda row: not chosen_on(row) and "noise_0" in row["study"],
        "judged on, all": lambda row: not chosen_on(row),
        "judged on, all that tell N": lambda row: not chosen_on(row) and row["telling"],
        "chosen on, all": chosen_on,
    }
    yield entry("curves", "way", *(f"{ahead}x" for ahead in AHEAD), "covered")
    yield entry(*["---"] * (len(AHEAD) + 3))
    for name, belongs in sets.items():
        rows = [row for row in found["sizes"] if belongs(row)]
        for way in ("combined", "theory", "posterior"):
            yield entry(
                name,
                way,
                *(within(rows, way, ahead) for ahead in AHEAD),
                covered(rows, way),
            )
        counts = (str(sum(row["ahead"] == ahead for row in rows)) for ahead in AHEAD)
        yield entry(name, "targets", *counts, "")


def chosen_on(row: dict[str, Any]) -> bool:
    """Whether the beliefs were chosen on it."""
    return str(row["study"]).startswith("fan_")


def close(row: dict[str, Any], way: str) -> bool:
    """Whether the answer is within a factor of two of the truth."""
    samples = row["answers"][way]["samples"]
    return samples is not None and 0.5 <= samples / (row["pilot"] * row["ahead"]) <= 2


def within(rows: list[dict[str, Any]], way: str, ahead: int) -> str:
    """The share of answers within a factor of two."""
    hits = [close(row, way) for row in rows if row["ahead"] == ahead]
    return f"{statistics.fmean(hits):.2f}" if hits else "-"


def covered(rows: list[dict[str, Any]], way: str) -> str:
    """The share of 90% intervals that hold the truth."""
    hits = [row["answers"][way]["covers"] for row in rows]
    return "-" if None in hits else f"{statistics.fmean(hits):.2f}"


def line_table(found: dict[str, Any]) -> Iterator[str]:
    """KO: computed over measured floor and slope, and how far all N are off."""
    rows = [row for row in found["known"] if not chosen_on(row)]
    few = {where(row): row for row in rows if row["images"] == 64}
    curves = {
        where(row): row for row in found["ratios"] if row["model"] == "KO" and row["images"] == 256
    }
    yield entry(
        *("study", "point", "floor", "slope", "floor, 64 images", "slope, 64 images"),
        *("mean off", "worst", "learned after"),
    )
    yield entry(*["---"] * 9)
    for row in rows:
        if row["images"] != 256:
            continue
        yield entry(
            title(row["study"]),
            row["point"],
            *(
                f"{each['floor_ratio']:.2f}" if name == "floor" else slope_text(each)
                for each in (row, few[where(row)])
                for name in ("floor", "slope")
            ),
            *off(curves[where(row)]),
            percent(max(row["steep"], 0.0)),
        )


def slope_text(row: dict[str, Any]) -> str:
    """The ratio of slopes, where there is a slope."""
    return f"{row['slope_ratio']:.2f}" if row["steep"] > LEAST_STEEP else "-"


def tail_table(found: dict[str, Any]) -> Iterator[str]:
    """Images of log-normal brightness."""
    sizes = found["heavy_tails"][0]["n"]
    yield entry("log-normal brightness", *(f"N = {n}" for n in sizes))
    yield entry(*["---"] * (len(sizes) + 1))
    for row in found["heavy_tails"]:
        yield entry(f"spread {row['spread']:g}", *(f"{each:.2f}" for each in row["ratio"]))


def title(study: str) -> str:
    """The study's own name."""
    return Study.read(STUDIES / f"{study}.yaml").name


def percent(value: float) -> str:
    """A share in per cent."""
    return f"{value:.1%}"


def entry(*cells: str) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
