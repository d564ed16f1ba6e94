"""The paper's claims: run the tests that no other command makes, and write the page of verdicts.

    python -m benchmarks.paper.claims --only NAME ... [--device cuda]
    python -m benchmarks.paper.claims [--check]

The first measures (claims_measure.py) and keeps the outcome in benchmarks/results/claims.json. The
second makes the figures of all claims (claims.yaml) from what is kept there and in other files of
benchmarks/results, and writes docs/explanation/claims.md; with --check it fails if the page is not
what the kept results say.
"""

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from benchmarks.paper import claims_measure
from benchmarks.paper.theorem import AT_BOUND, SOUGHT, TRAINED
from benchmarks.paper.verdicts import READINGS, VERDICTS, Claim, Figure, Judged, claims, figures_of
from benchmarks.rows import read
from korisk.curves.curve import Curve
from korisk.paper import published
from korisk.paper.reproduction import Sweep
from korisk.planning.calibration import paper_line
from korisk.theory import two_factors

Content = dict[str, Any]
Held = tuple[int, int, float]  # networks, those that fail, and the least ratio of bound to error

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "explanation" / "claims.md"
GIB = 2**30
TEXT_LAMBDA = 100.0  # the largest lambda that the paper's text names
TARGETS = (1.5, 2.0)  # of the printed table: multiples of the higher floor


def main() -> None:
    """Measure and keep, or write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=claims_measure.MEASURES, default=())
    parser.add_argument("--device", default="cpu", help="for what needs a GPU at the paper's sizes")
    parser.add_argument("--check", action="store_true", help="fail if the page is another one")
    options = parser.parse_args()
    for name in options.only:
        device = options.device if name in claims_measure.LARGE else "cpu"
        keep(name, claims_measure.MEASURES[name](device))
    if options.check:
        sys.exit(
            0 if page(judge()) == PAGE.read_text(encoding="utf-8") else f"{PAGE}: write it anew"
        )
    if not options.only:
        PAGE.write_text(page(judge()), encoding="utf-8")


def keep(name: str, found: Content) -> None:
    """Put a measurement beside those that are kept; pictures get a file of their own."""
    arrays = found.pop("arrays", None)
    if arrays:
        halves: Content = {key: np.asarray(each, np.float16) for key, each in arrays.items()}
        np.savez_compressed(RESULTS / "claims_images.npz", **halves)
    path = RESULTS / "claims.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(dict(sorted((kept | {name: found}).items())), indent=1) + "\n")


# --- Figures from results ------------------------------------------------------------------------


def judge() -> list[Judged]:
    """Every claim with its verdict: those that do not hold first, then in the paper's order."""
    figures = all_figures()
    judged = [Judged(claim, tuple(figures.get(claim.key, ()))) for claim in claims()]
    return sorted(judged, key=lambda one: VERDICTS.index(one.verdict))


def all_figures() -> dict[str, list[Figure]]:
    """Every claim's figures, by its key."""
    found = figures_of(kept_sweeps())
    for part in (_measured(), _networks(), _machines(), _printed()):
        for key, figures in part.items():
            found[key] = found.get(key, []) + figures
    return found


def results(name: str) -> Any:
    """A kept file of results."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def kept_sweeps() -> list[Sweep]:
    """The sweeps of the paper's study, as kept."""
    kept = results("reproduction")
    untrained = {each["side"]: each["untrained"] for each in kept["findings"]}
    return [
        Sweep(
            side=each["side"],
            protocol=each["protocol"],
            reduced=each["reduced"],
            known=Curve.read(each["KO"]),
            dense=Curve.read(each["FC"]),
            untrained=untrained[each["side"]] if each["protocol"] == "rigorous" else None,
        )
        for each in kept["curves"]
    ]


def _spread(name: str, found: Content) -> Figure:
    return Figure(name, found["value"], found["low"], found["high"])


def _measured() -> dict[str, list[Figure]]:
    """Of what claims_measure.py measured."""
    kept = results("claims")
    proof, same, slope = kept["proof"], kept["independence"], kept["attention"]["slope"]
    differs, over = kept["identities"]["differs"], proof["left over right"]
    norms, shares = kept["norms"]["geometries"], kept["sparsity"]["share"]
    condition = kept["conditioning"]["condition"]
    made = {
        "bound-shrinks": [_spread("", proof["with W known over without"]["risk"])],
        "maximum-bound": [_spread("", proof["with W known over without"]["maximum"])],
        "maximum-held": [_spread("", over["maximum"])],
        "composition": [
            Figure("network", kept["identities"]["composition"]),
            Figure("error", proof["identity"]),
        ],
        "sub-gradient": [
            Figure("transposed", max(kept["gradients"]["adjoint"].values())),
            Figure("differences", kept["gradients"]["differences"]),
        ],
        "relu": [Figure("", kept["identities"]["slope of ReLU"])],
        "iid": [
            _spread("one network", same["same network"]),
            _spread("two training sets", same["other training set"]),
        ],
        "inputs-settle": [_spread("", same["inputs of S, other training set"])],
        "amplification": [
            Figure("recursion", differs["amplification"]),
            Figure("CT", max(differs["CT"], differs["dense"])),
        ],
        "known-zero": [Figure("", differs["known removes a term"])],
        "inversion": [Figure("", min(kept["identities"]["inverted"].values()))],
        "proof-steps": [
            Figure("triangle", kept["identities"]["squared triangle"]),
            _spread("recursion", over["recursion"]),
            _spread("bound", over["pointwise"]),
        ],
        "product": [_product(each) for each in norms],
        "rate-constant": [_amplified(each) for each in norms],
        "two-factors": [Figure("", differs["two factors"])],
        "floor-factor": [Figure("", kept["identities"]["floor factor"])],
        "structural": [Figure("", differs["structural"])],
        "sparse": [_at(side, each) for side, each in shares.items()],
        "compute": [_at(side, 1 / each / int(side) ** 2) for side, each in shares.items()],
        "structural-favours": [
            Figure(
                f"H = {each['side']}, {each['beam']}", mean(each["structural"]), *each["structural"]
            )
            for each in norms
        ],
        "conditioning": [_at(side, each) for side, each in condition.items()],
        "attention": [
            Figure(f"inputs within {radius}", slope[radius] / int(radius) ** 2)
            for radius in ("8", "128")
        ],
        "same-phantoms": [Figure("", kept["protocol"]["ellipses"][1] / 4)],
        "validation": [Figure("", kept["protocol"]["validation"])],
        "lambda-grid": [Figure("", max(kept["protocol"]["grid"]) / TEXT_LAMBDA)],
    }
    for each in kept["rate"]["sides"].values():
        n, means, deviations = (np.array(each[key]) for key in ("n", "mean", "deviation"))
        late = n >= 512
        n, means, deviations = n[late], means[late], deviations[late]
        scaled = means * n / np.log(n)
        bounded = scaled[-1] / scaled[0]
        half = 1.96 * math.hypot(deviations[0], deviations[-1]) * bounded
        fitted, name = claims_measure.laws(n, means, deviations), f"p = {each['p']}"
        made.setdefault("rate-w-bound", []).append(
            Figure(name, bounded, bounded - half, bounded + half)
        )
        made.setdefault("rate-w", []).append(_spread(name, fitted["exponent"]))
        chi = fitted["chi2"]
        made.setdefault("rate-w-log", []).append(Figure(name, chi["log N / N"] / chi["1 / N"]))
    return made | _images(kept)


def _at(side: object, value: float, low: float | None = None, high: float | None = None) -> Figure:
    return Figure(f"H = {side}", value, low, high)


def _product(geometry: Content) -> Figure:
    whole, *parts = (geometry["norms"][each] for each in ("A^T K", "A^T", "K"))
    low, high = (whole[at] / parts[0][1 - at] / parts[1][1 - at] for at in (0, 1))
    return Figure(f"H = {geometry['side']}, {geometry['beam']}", (low + high) / 2, low, high)


def _amplified(geometry: Content) -> Figure:
    low, high = (
        (geometry["norms"]["K"][end] * geometry["norms"]["A^T"][end]) ** 2 for end in (0, 1)
    )
    return Figure(f"H = {geometry['side']}, {geometry['beam']}", (low + high) / 2, low, high)


def _images(kept: Content) -> dict[str, list[Figure]]:
    """Of reconstructions: means and ranges over seeds."""
    rows = kept["images"]["rows"]

    def values(side: int, protocol: str, model: str, n: int, metric: str) -> list[float]:
        wanted = {"side": side, "protocol": protocol, "model": model, "n": n}
        return [each["metrics"][metric] for each in rows if wanted.items() <= each.items()]

    def ratio(side: int, protocol: str, n: int, metric: str) -> Figure:
        both = [values(side, protocol, model, n, metric) for model in ("FC", "KO")]
        each = [one / other for one, other in zip(*both, strict=True)]
        return Figure(f"H = {side}, {protocol}", mean(each), min(each), max(each))

    def shape(model: str) -> Figure:
        sizes = published.RELEASED_SWEEP.sizes
        of = {
            metric: [mean(values(128, "released", model, n, metric)) for n in sizes]
            for metric in ("mse", "rmse_over_max")
        }
        squared = [each**2 for each in of["rmse_over_max"]]
        lines = [paper_line(Curve(sizes, each)) for each in (of["mse"], squared)]
        one, other = (line.slope / line.floor for line in lines)
        return Figure(model, one / other)

    at_end = {
        model: mean(values(128, "released", model, 2048, "relative")) for model in ("KO", "FC")
    }
    errors = {
        model: mean(values(128, "released", model, 2048, "rmse_over_max")) for model in ("KO", "FC")
    }
    both = ("released", "rigorous")
    sweep = published.RELEASED_SWEEP

    def corrected(side: int) -> Figure:
        means = [
            mean(values(side, "released", "KO", n, "rmse_over_max")) for n in (0, *sweep.sizes)
        ]
        return Figure(f"H = {side}, released", (min(means[1:]) / means[0]) ** 2)

    released = {"KO": sweep.known[-1], "FC": sweep.dense[-1]}
    trained = [
        each["error"] / released["KO"]
        for each in kept["optimisers"]["rows"]
        if each["optimiser"] == "sgd" and each["n"] == 2048
    ]
    return {
        "residual-correction": [corrected(side) for side in (128, 256)],
        "noisier": [ratio(side, each, 4, "noise") for side in (128, 256) for each in both],
        "sharp-128": [ratio(128, each, 2048, "sharpness") for each in both],
        "blurred-256": [ratio(256, each, 2048, "sharpness") for each in both],
        "metric": [Figure(model, at_end[model] / released[model]) for model in ("KO", "FC")],
        "metric-shape": [shape(model) for model in ("KO", "FC")],
        "crossing-errors": [
            Figure(model, errors[model] / said) for model, said in (("KO", 0.055), ("FC", 0.047))
        ],
        "sgd": [Figure("", mean(trained), min(trained), max(trained))],
    }


def _networks() -> dict[str, list[Figure]]:
    """Of networks in which the theorem was checked."""
    networks = results("theorem")["networks"]
    # Where the bound is the error by its form nothing is tested.
    able = [each for each in networks if _looseness(each) > AT_BOUND or each["test"] == SOUGHT]

    def shares(*kinds: str) -> list[Figure]:
        """Shares of networks that hold, and how close the closest came to its bound."""
        figures = []
        for what, sought in (("trained or changed", False), ("sought to break it", True)):
            rows = [each for each in able if (each["test"] == SOUGHT) == sought]
            rows = [each for each in rows if each["network"] in kinds or not kinds]
            closest = f"the closest at 1 / {min(map(_looseness, rows)):.4g} of its bound"
            held = sum(each["holds"] for each in rows) / len(rows)
            figures.append(Figure(f"{len(rows)} networks, {what}, {closest}", held))
        return figures

    loose: dict[str, list[float]] = {}
    for each in networks:
        if each["test"] == TRAINED:
            loose.setdefault(each["network"], []).append(each["bounds"]["paper"] / each["error"])
    return {
        "theorem": shares(),
        "pinn": shares("advection and diffusion", "MRI"),
        "recurrent": shares("unrolled"),
        "motion": shares("motion"),
        "tightness": [Figure(kind, median(each)) for kind, each in sorted(loose.items())],
    }


def _looseness(network: Content) -> float:
    """How many times the composed bound is the error."""
    return float(network["bounds"]["composed"] / network["error"])


def _machines() -> dict[str, list[Figure]]:
    """Memory."""
    dense = {row.size.H: row.size.dense_parameters for row in published.FOOTPRINT}
    (memory,) = (
        each["device_memory"] / GIB
        for each in results("study_h200")["sweeps"]
        if (each["side"], each["protocol"]) == (512, "rigorous")
    )
    return {
        "memory-512": [
            Figure("ridge in dual form", memory),
            Figure("weights", 4 * dense[512] / GIB),
            Figure("weights and Adam", 16 * dense[512] / GIB),
        ],
        "v100": [Figure("", 4 * dense[256] / GIB)],
        "v100-128": [Figure("", 4 * dense[128] / GIB)],
    }


def _printed() -> dict[str, list[Figure]]:
    """Of the paper's own tables."""
    rows = published.CALIBRATION
    ratios = [(row.H, row.dense.slope / row.known.slope) for row in rows]
    row = next(each for each in rows if each.H == 128)
    higher = max(row.known.floor, row.dense.floor)
    names = [name for name in vars(published.FOOTPRINT[0]) if name != "size"]
    same = [
        getattr(published.computed_footprint(each.size), name) == getattr(each, name)
        for each in published.FOOTPRINT
        for name in names
    ]
    last = published.FOOTPRINT[-1].size
    sizes = published.RELEASED_SWEEP.sizes

    return {
        "two-orders": [
            _at(each.H, published.matched_ratio(each, each.known.predict(sizes[-1])))
            for each in rows
        ],
        "plateau-256": [
            Figure("printed", published.matched_ratio(each, 1.05 * each.known.floor))
            for each in rows
            if each.H == 256
        ],
        "parameter-ratio": [
            _at(
                each.size.H,
                each.size.dense_parameters / each.size.known_parameters / each.size.H**2,
            )
            for each in published.FOOTPRINT
        ],
        "orders-of-parameters": [_at(last.H, last.ratio)],
        "parameters": [
            Figure("KO", last.known_parameters / 92_160),
            Figure("FC", last.dense_parameters / 24_159_191_040),
        ],
        "table-1": [Figure("", mean(same))],
        "slope-ratio-ten": [_at(side, ratio) for side, ratio in ratios],
        "thirty-times": [
            Figure(f"printed, {factor:g} x floor", found.ratio)
            for factor in TARGETS
            for found in [two_factors(row.known, row.dense, factor * higher)]
        ],
        "orders-of-n": [Figure("", math.log10(sizes[-1] / sizes[0]))],
    }


# --- The page ------------------------------------------------------------------------------------

HEAD = """# The paper, claim by claim

<!-- claims -->

{total} claims of the paper with two verdicts each: all that name a number, a comparison or a law,
in our words; inferences of ours are marked.

{counts}

*As the authors ran it* is their released code and their printed tables, *done properly* the same
study with W shrunk towards the analytic weights, the ReLU in the loss, fine rays, a grid of λ that
grows, closed forms at every H, and N up to 1,024 at H ≤ 32
([differences](differences.md)). Done properly, training KO to the largest N
lowers its squared error by {gain}: claims about how KO learns are then *nothing to learn*.

Verdicts are computed: each claim allows a range, which is compared with the interval of a measured
figure; an interval across the range's end is undecided. One clear failure refutes a claim of
"every" or "any". Of other claims more than half of all figures must hold; if a claim holds in one
case and fails in another, that case is its condition. "About x" allows half a power of ten either
way.

Brackets hold intervals: 90% over seeds for sweeps, else ranges over seeds or networks. Each row
ends with the command that measures it again: put `korisk` before `reproduce`, `python -m
benchmarks.` before names with a dot, and `python -m benchmarks.paper.claims --only` before other
names; large images need `--device cuda`.
Files and lines are of the released code at commit 27517f8.

{sentences} `benchmarks/data/paper_sentences.csv` lists them. Claims of tables, of displayed
equations and of sentences without a number come on top.
"""
REASONS = {  # why a sentence claims nothing, and how several of these are counted
    "definition": "define a word or symbol",
    "setting": "say what was run, which the protocol `released` repeats",
    "structure": "are about the text: its parts, steps and figures",
    "citation": "report another paper",
    "acknowledgement": "names a grant",
}
PICTURE = """```{picture} claims
One test image under the released protocol, at H = 128 (above) and 256. Numbers are the sharpness of
edges over all test images: 1 is as sharp as the truth.
```
"""
TITLES = {
    "does not hold": "Does not hold",
    "holds with a condition": "Holds with a condition",
    "holds": "Holds",
    "undecided": "Undecided",
    "nothing to learn": "Nothing to learn",
    "cannot be tested here": "Cannot be tested here",
}
TAIL = """
## What this does not say

- That a claim holds beyond what was measured: mostly ellipses without noise, few seeds.
- That a claim which fails is wrong in the authors' own setting: several hold by their code.
- That our thresholds ("within 10%", "about") are theirs: `benchmarks/paper/claims.yaml` has each.

`python -m benchmarks.paper.claims` writes this page, and `--check` compares it with the kept
results; `benchmarks/paper/claims_measure.py` has the tests.

<!-- end of claims -->
"""


def page(judged: list[Judged]) -> str:
    """The page of verdicts: sections by the study done properly, or else by the authors'."""
    heads = ["", *READINGS]
    rows = [
        [TITLES[verdict].lower(), *(counted[reading][verdict] for reading in READINGS)]
        for counted in [{r: Counter(each.read(r) for each in judged) for r in READINGS}]
        for verdict in VERDICTS
    ]
    counts = "\n".join(markdown_table(heads, [[str(cell) for cell in row] for row in rows]))
    about = {"total": len(judged), "counts": counts, "gain": gain_text(judged)}
    lines = [HEAD.format(**about, sentences=sentences())]
    for verdict in VERDICTS:
        chosen = [each for each in judged if each.verdict == verdict]
        if not chosen:
            continue
        lines += [f"## {TITLES[verdict]}", ""]
        lines += [
            *markdown_table(["the paper says", *READINGS, "we measured"], map(_row, chosen)),
            "",
        ]
        lines += [PICTURE] if verdict == VERDICTS[0] else []
    return "\n".join(lines).rstrip() + "\n" + TAIL


def sentences() -> str:
    """How many sentences of the paper bear a number, and what they are."""
    reasons = [row["reason"] for row in read(ROOT / "benchmarks/data/paper_sentences.csv")]
    others = ", ".join(f"{reasons.count(key)} {words}" for key, words in REASONS.items())
    return (
        f"{len(reasons)} sentences of the paper bear a number. {reasons.count('')} of them are\n"
        f"judged here; the others claim nothing: {others}."
    )


def gain_text(judged: Iterable[Judged]) -> str:
    """How much training lowers the squared error of KO where the study is done properly."""
    (one,) = (each for each in judged if each.claim.key == "residual-correction")
    properly = (each for each in one.figures if each.of(READINGS[1], authors=False))
    gains = [1 - each.value for each in properly]
    return f"{min(gains):.1%} to {max(gains):.1%}"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table of Markdown, line by line."""
    for cells in (heads, ["---"] * len(heads), *rows):
        yield "|" + "|".join(cell.replace("|", "\\|") for cell in cells) + "|"


def _row(judged: Judged) -> list[str]:
    claim = judged.claim
    figure = f"{claim.figure}: **{judged.text}**" if judged.figures else ""
    source = f"`{claim.source}`" if claim.source else ""
    ours = "; ".join(filter(None, [figure, judged.because, claim.note, source]))
    read = [judged.read(reading) or "\N{EN DASH}" for reading in READINGS]
    says = f"{claim.says} *({_place(claim)})*"
    return [says, *read, " ".join(filter(None, [ours, _test(claim)]))]


def _place(claim: Claim) -> str:
    short = claim.place
    for long, brief in (("Section ", "§"), ("Appendix ", "App. "), ("Introduction", "Intro")):
        short = short.replace(long, brief)
    return short


def _test(claim: Claim) -> str:
    short = claim.command.removeprefix("korisk ").removeprefix("python -m benchmarks.")
    short = short.removeprefix("paper.claims --only ").replace(" --device cuda", "")
    return f"`{short}`" if short else ""


if __name__ == "__main__":
    main()
