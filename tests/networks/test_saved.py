"""Samples with and without a known operator."""

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.networks.saved import (
    DATA,
    TUNED,
    TUNED_RECIPE,
    matched,
    needed,
    overtaken,
    rivals,
    saved,
    tables_of_errors,
    tuned_tables,
)
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


def test_few_samples_are_found_that_equal_all_of_another_network() -> None:
    errors = 1 / SIZES[:, None].repeat(3, 1)
    found = matched((SIZES, errors), (SIZES[:5], 4 * errors[:5]))  # 4 / 32 at its largest N
    assert found.low == found.n == found.high == pytest.approx(8)
    before = np.concatenate([[0.0], SIZES]), np.concatenate([[[0.1] * 3], errors])
    assert matched(before, (SIZES[:2], errors[:2])).n == 0  # untrained it is better already
    assert math.isinf(matched((SIZES[:5], errors[:5]), (SIZES, errors)).n)


def test_the_kept_tables_follow_from_the_errors() -> None:
    kept = DATA.parents[1] / "results"
    assert (kept / "learning.txt").read_text() == "\n".join(learning.tables()) + "\n"
    tables = "\n".join(tuned_tables()) + "\n"
    assert tables.lstrip() in (kept / "saved.txt").read_text()


def test_pages_say_what_was_measured_beside_the_best_dense_network() -> None:
    docs = Path(__file__).parents[2] / "docs"
    learned, worth, note = (
        " ".join((docs / name).read_text().split())
        for name in ("explanation/learning.md", "explanation/worth.md", "paper/index.md")
    )
    points = learning.kept_cells().values()
    largest = float(learning.SIZES[-1])
    untrained, passed, few = [], [], []
    for models in points:
        known, (sizes, errors) = (learning.errors_of(models[name]) for name in ("KO", "FC"))
        dense = sizes[1:], errors[1:]
        untrained.append(saved(known, dense, 0, largest).n)
        passed.append(overtaken(known, dense).n)
        known, dense = (
            learning.errors_of(cells)
            for cells in (models["KO + U-Net"], learning.best_dense(models))
        )
        few.append(matched(known, dense).n)
        assert math.isinf(overtaken(known, (dense[0][1:], dense[1][1:])).n)
        alone, refined = (learning.errors_of(models[name]) for name in ("FC", "FC + U-Net"))
        assert (alone[1].mean(1) <= refined[1].mean(1)).all()
    assert f"with {min(untrained):.0f} to {max(untrained):.0f} samples" in learned
    finite = [n for n in passed if n < math.inf]
    assert f"at five of the six points, from {min(finite):.0f} to {max(finite):.0f} samples" in note
    assert (len(finite), len(passed)) == (5, 6)
    sentence = f"{min(few):.0f} to {max(few):.0f} samples"
    assert f"{sentence} the error" in learned
    assert f"{sentence} equal 1,024" in note

    ahead, needs, worse = {}, list(few), []
    for problem, _, known, dense in rivals():
        found = matched(known, dense).n
        if math.isinf(found):
            ahead[problem] = overtaken(known, dense).n
            both = tables_of_errors(TUNED)[problem, "patients", "0.02", TUNED_RECIPE]
            worse.append(both["dense-unet"][1][-1].mean() / dense[1][-1].mean())
            assert math.isinf(overtaken(*(both[name] for name in ("unet", "dense-unet"))).n)
        else:
            assert round(found) <= 2
            needs.append(found)
    assert (len(needs), list(ahead)) == (11, ["cone", "pde"])
    cone, pde = ahead.values()
    assert f"from {cone:,.0f} and {pde:.0f} samples on" in note
    assert f"N = {cone:,.0f} on, and for advection and diffusion from {pde:.0f} on" in worth
    assert f"{worse[0]:.0f} and {worse[1]:.0f} times its error" in note
    assert f"needs {min(largest / n for n in needs):.0f} times fewer" in note


def test_each_network_is_taken_at_the_run_that_validates_best(tmp_path: Path) -> None:
    lines = [",".join(learning.COLUMNS)]
    for n, pairs in ((0, ((0.5, 0.4), (0.5, 0.4))), (1, ((0.2, 0.3), (0.3, 0.1)))):
        lines += [
            f"64,here,{model},{rate},{n},{seed},9,{validation * factor},{test * factor},"
            for seed in ("tuning", *range(learning.SEEDS))
            for rate, (validation, test) in zip((1e-3, 3e-3), pairs, strict=True)
            for model, factor in (("FC", 1), ("FC + U-Net", 2 - 1.5 * n))
        ]
    path = tmp_path / "errors.csv"
    path.write_text("\n".join(lines))
    models = learning.kept_cells(path)["here"]
    sizes, errors = learning.errors_of(models["FC"])
    assert sizes.tolist() == [0, 1]
    assert errors.T.tolist() == [[0.4, 0.3]] * 3  # 0.1 is lower, and not what validation chose
    best = learning.errors_of(learning.best_dense(models))[1]
    assert best.T.tolist() == [[0.4, 0.15]] * 3  # the second network from N = 1 on


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
