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
    learned, paper = (
        " ".join((docs / name).read_text().split())
        for name in ("explanation/learning.md", "paper/index.md")
    )
    largest = float(learning.SIZES[-1])
    untrained, passed = [], []
    for models in learning.kept_errors().values():
        known, (sizes, errors) = models["KO"], models["FC"]
        dense = sizes[1:], errors[1:]
        untrained.append(saved(known, dense, 0, largest).n)
        passed.append(overtaken(known, dense).n)
    assert f"with {min(untrained):.0f} to {max(untrained):.0f} samples" in learned
    finite = [n for n in passed if n < math.inf]
    counts = {5: "five", 6: "six"}
    sentence = f"at {counts[len(finite)]} of {counts[len(passed)]} points, "
    assert f"{sentence}from {min(finite):.0f} to {max(finite):.0f} samples on" in paper
    falls = []
    for models in learning.kept_errors().values():
        known, (sizes, errors) = models["KO + U-Net"], models["FC + U-Net"]
        assert math.isinf(overtaken(known, (sizes[1:], errors[1:])).n)
        falls.append(100 * (1 - known[1][-1].mean() / known[1][0].mean()))
    assert f"by {min(falls):.0f} to {max(falls):.0f}%" in learned
    assert f"by {min(falls):.0f} to {max(falls):.0f}%" in paper


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
    assert said == [True, None, False, True]  # both still fall at the last size


def test_between_sizes_a_power_law_is_met_exactly() -> None:
    assert needed(SIZES, 1 / SIZES, 1 / 48) == pytest.approx(48)
    assert math.isinf(needed(SIZES, 1 / SIZES, 1e-6))
