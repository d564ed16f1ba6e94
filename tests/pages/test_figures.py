"""Figures in the prose and tables of the explanations, against what they were taken from."""

import json
import math
import re
from pathlib import Path
from typing import Any

import korisk as kr
from benchmarks.planner import odds
from benchmarks.quality import tables as quality_tables
from korisk.curves.noise import ONE_SEED
from korisk.operators import norms, released_geometry
from korisk.paper import published

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
EXPLANATION = ROOT / "docs" / "explanation"
DASHES = str.maketrans({"\N{EN DASH}": "-", "\N{MINUS SIGN}": "-"})


def page(name: str) -> str:
    """A page on one line, so that a sentence may break anywhere."""
    return " ".join((EXPLANATION / name).read_text(encoding="utf-8").split())


def table(name: str, head: str) -> list[list[str]]:
    """The cells of the rows of the table whose heading begins so, with plain dashes."""
    text = (EXPLANATION / name).read_text(encoding="utf-8")
    lines = text.translate(DASHES).splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith(head)) + 2
    last = next(place for place in range(first, len(lines)) if not lines[place].startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:last]]


def test_made_tables_are_those_of_the_benchmarks() -> None:
    text = quality_tables.TEXT.read_text(encoding="utf-8")
    assert "\n".join(quality_tables.tables()) == text
    figures = json.loads(odds.KEPT.read_text(encoding="utf-8"))
    assert "\n".join(odds.tables(figures)) == odds.TEXT.read_text(encoding="utf-8")
    assert set(odds.VERSIONS) < figures.keys()
    for name in odds.TABLES:
        assert f'results/planner.txt :start-after: "### {name}"' in page("planner.md")


def test_shares_on_other_pages_are_those_of_the_planners_benchmark() -> None:
    """A share such as .177 that is added to these pages needs a line here."""
    rivals = json.loads(odds.KEPT.read_text(encoding="utf-8"))["rivals"]
    line, paper, ours = (
        rivals[name]["databases"]["imaging, long"] for name in ("line", "paper", "posterior")
    )
    assert paper["none"] == 1
    for name, shares in (
        ("limits.md", [line["error"], ours["error"]]),
        ("differences.md", [ours["none"]]),
    ):
        told = re.findall(r"(?<![\d\w])\.\d{3}\b", page(name))
        assert told == [odds.short(share) for share in shares]


def test_the_noise_of_a_single_seed_is_that_of_the_databases() -> None:
    figures = json.loads(odds.KEPT.read_text(encoding="utf-8"))
    assert round(figures["noise"]["geometric mean"], 2) == ONE_SEED


def test_the_norms_of_the_theory_are_the_upper_ends_of_the_examples() -> None:
    rows = table("theory.md", "| H | ‖K‖ ≤ |")
    assert [int(row[0]) for row in rows] == [row.size.H for row in published.FOOTPRINT]
    for H, *cells in rows:
        # tests/test_examples.py makes the files up to H = 128 again.
        net = kr.Network.read(ROOT / "examples" / f"ct_h{H}_ko.yaml")
        bounds = {layer.name: layer.lipschitz for layer in net.layers if layer.name != "W"}
        (both,) = net.compositions
        brackets = (bounds["K"], bounds["A^T"], both.lipschitz)
        ends = [each.upper for each in brackets if isinstance(each, kr.theory.NormBracket)]
        assert cells == [*(f"{end:.4g}" for end in ends), f"{ends[0] * ends[1] / ends[2]:.1f}"]


def test_the_constants_of_lanczos_are_those_of_the_code() -> None:
    (constant,) = re.findall(r"\\le ([\d.]+) \\sqrt\{n\} \\; e\^", page("theory.md"))
    source = Path(norms.__file__).read_text(encoding="utf-8")
    assert re.findall(r"math\.log\(([\d.]+) \* math\.sqrt\(n\)", source) == [constant]
    assert f"P[xi_k < (1 - eps) lambda] <= {constant} sqrt(n)" in source
    (proved,) = re.findall(r"constant is \$2 \\sqrt\{2 / \\pi\} < ([\d.]+)\$", page("theory.md"))
    assert 2 * math.sqrt(2 / math.pi) < float(proved) < float(constant)
    assert norms.CHANCE == 1e-6
    assert "$10^{-6}$ by taking $k$ large enough" in page("theory.md")
    assert "fail with a probability below 10⁻⁶" in page("limits.md")


def test_the_ratios_of_slopes_are_those_of_the_table() -> None:
    ratios = [row.dense.slope / row.known.slope for row in published.CALIBRATION]
    told = rf"\sigma_{{KO}}$ runs from {min(ratios):.3g} to {max(ratios):.3g}."
    assert told in page("differences.md")


def test_the_rays_of_the_released_code_are_as_coarse_as_told() -> None:
    scan = released_geometry(128)
    step = scan.source_to_detector / (2 * 128) / scan.pixel_spacing
    assert f"At H = 128 that is one every {step:.1f} pixels." in page("differences.md")


def test_the_floor_that_seemed_one_is_that_of_the_kept_sweep() -> None:
    kept: dict[str, Any] = json.loads((RESULTS / "reproduction.json").read_text())
    (found,) = (each for each in kept["findings"] if each["side"] == 8)
    size, error, floor = found["passed_floor"]
    assert (
        f"FC seems to have a floor at {floor:.4f}, and at N = {size} its error is {error:.2e} "
        in page("differences.md")
    )
