"""Samples with and without a known operator."""

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.networks.saved import needed, overtaken, saved
from benchmarks.paper import learning

SIZES = np.array([2.0**power for power in range(1, 11)])


def test_a_network_that_needs_ten_times_as_many_is_found_to() -> None:
    rng = np.random.default_rng(1)
    known, other = (factor / SIZES[:, None] * rng.lognormal(0, 0.02, (10, 4)) for factor in (1, 10))
    found = saved((SIZES, known), (SIZES, other), 8, SIZES[-1])
    assert found.low <= found.n <= found.high
    assert found.n == pytest.approx(80, rel=0.1)
    # Half of the sizes tell the same; a quarter of what is needed does not tell.
    assert saved((SIZES, known), (SIZES, other), 8, 512).n == pytest.approx(found.n)
    assert math.isinf(saved((SIZES, known), (SIZES, other), 8, 32).n)


def test_the_kept_tables_of_the_learning_study_follow_from_its_errors() -> None:
    kept = learning.RESULTS.with_suffix(".txt").read_text()
    assert kept == "\n".join(learning.tables()) + "\n"


def test_pages_say_what_the_learning_study_measured() -> None:
    docs = Path(__file__).parents[2] / "docs"
    pages = [
        " ".join((docs / name).read_text().split())
        for name in ("explanation/learning.md", "paper/index.md")
    ]
    largest = float(learning.SIZES[-1])
    ends: dict[str, dict[str, list[float]]] = {}
    for models in learning.kept_errors().values():
        for first, second in learning.PAIRS:
            known, (sizes, errors) = models[first], models[second]
            dense = sizes[1:], errors[1:]
            pair = ends.setdefault(first, {"untrained": [], "four": [], "passed": [], "gained": []})
            pair["untrained"].append(saved(known, dense, 0, largest).n)
            pair["four"].append(saved(known, dense, 4, largest).n)
            pair["passed"].append(overtaken(known, dense).n)
            pair["gained"].append(1 - known[1][-1].mean() / known[1][0].mean())
    alone, unet = ends["KO"], ends["KO + U-Net"]
    passed = [n for n in alone["passed"] if math.isfinite(n)]
    gained = f"by {min(unet['gained']):.0%}".rstrip("%") + f" to {max(unet['gained']):.0%}"
    assert all(map(math.isinf, unet["passed"]))
    assert len(passed) == 5
    assert f"from {min(passed):.0f} to {max(passed):.0f} samples on" in pages[1]
    assert all(gained in page for page in pages)
    said = f"dense matrix with {min(alone['untrained']):.0f} to {max(alone['untrained']):.0f} samp"
    assert said in pages[0]
    equal = f"{min(unet['untrained']):.0f} to {max(unet['untrained']):.0f}."
    assert f"both together equal {equal}" in pages[0]
    assert f"needs {min(unet['four']):.0f} samples or more" in pages[0]


def test_the_learning_study_takes_each_network_at_the_rate_that_validates_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "SIZES", (1,))
    monkeypatch.setattr(learning, "SEEDS", 1)
    lines = [",".join(learning.COLUMNS)]
    for n, pairs in ((0, ((0.5, 0.4), (0.5, 0.4))), (1, ((0.2, 0.3), (0.3, 0.1)))):
        lines += [
            f"32,here,net,{rate},{n},0,{validation},{test}"
            for rate, (validation, test) in zip((1e-3, 3e-3), pairs, strict=True)
        ]
    path = tmp_path / "errors.csv"
    path.write_text("\n".join(lines))
    sizes, errors = learning.kept_errors(path)["here"]["net"]
    assert sizes.tolist() == [0, 1]
    assert errors[:, 0].tolist() == [0.4, 0.3]  # 0.1 is lower, and not what validation chose


def test_statements_are_judged_from_the_untrained_network_on() -> None:
    sizes = np.array([0.0, 1, 4, 16, 64, 256, 1024])
    flat, falling = np.full((7, 1), 0.1), np.array([[1, 0.9, 0.7, 0.4, 0.2, 0.08, 0.01]]).T
    said = list(learning.statements((sizes, flat), (sizes, falling)).values())
    assert said == [True, True, True, False]  # it learns nothing, and is passed
    said = list(learning.statements((sizes, falling / 2), (sizes, falling)).values())
    assert said == [True, False, False, True]


def test_between_sizes_a_power_law_is_met_exactly() -> None:
    assert needed(SIZES, 1 / SIZES, 1 / 48) == pytest.approx(48)
    assert math.isinf(needed(SIZES, 1 / SIZES, 1e-6))
