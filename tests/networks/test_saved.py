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
from benchmarks.planner.image_networks import VALIDATION

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


def page(name: str) -> str:
    """The text of a page, its lines joined."""
    return " ".join((Path(__file__).parents[2] / "docs" / name).read_text().split())


def test_pages_say_what_was_measured_beside_the_best_dense_network() -> None:
    learned, note = page("explanation/learning.md"), page("paper/index.md")
    largest = float(learning.POOL)
    untrained, passed, few, usual = (list[float]() for _ in range(4))
    leads, worse, falls, rival_falls = (list[float]() for _ in range(4))
    for models in learning.kept_cells().values():
        known, (sizes, errors) = (learning.errors_of(models[name]) for name in ("KO", "FC"))
        dense = sizes[1:], errors[1:]
        untrained.append(saved(known, dense, 0, largest).n)
        passed.append(overtaken(known, dense).n)
        known, drawn, rival, dense = (
            learning.errors_of(cells)
            for cells in (
                *(models[name] for name in ("KO + U-Net", "FC + U-Net", "left-out FC + U-Net")),
                learning.best_dense(models),
            )
        )
        few.append(matched(known, dense).n)
        usual.append(largest / matched(known, drawn).n)
        assert math.isinf(overtaken(known, dense).n)
        assert rival[1][-1].tolist() == dense[1][-1].tolist()
        leads.append(dense[1][-1].mean() / known[1][-1].mean())
        worse.append(drawn[1][-1].mean() / dense[1][-1].mean())
        for ratios, (sizes, errors) in ((falls, known), (rival_falls, dense)):
            ratios.append(errors[sizes == 64].mean() / errors[-1].mean())
    assert f"with {min(untrained):.0f} to {max(untrained):.0f} samples" in learned
    finite = [n for n in passed if n < math.inf]
    assert f"at five of the six points, from {min(finite):.0f} to {max(finite):.0f} samples" in note
    assert (len(finite), len(passed)) == (5, 6)
    sentence = f"{min(few):.0f} to {max(few):.0f} samples"
    assert f"{sentence} the error" in learned
    assert f"{sentence} equal 1,024" in note
    times = f"{largest / max(few):.0f} to {largest / min(few):.0f} times fewer"
    assert times in learned
    assert f"needs {times} samples" in note
    assert "would say over 100" in note
    assert min(usual) > 100
    judging = VALIDATION
    counted = [(largest + judging) / (n + judging) for n in few]
    assert f"{min(few) + judging:.0f} to {max(few) + judging:.0f} stand beside 1,152" in note
    assert f"{min(counted):.1f} to {max(counted):.1f} times fewer" in note
    assert f"by {min(leads):.1f} to {max(leads):.0f} times in error" in learned
    for text in (learned, note):
        assert f"has {min(worse):.1f} to {max(worse):.0f} times its" in text
        fall = f"by a factor of {min(rival_falls):.0f} to {max(rival_falls):.0f}, the known"
        assert f"{fall} operator's by {min(falls):.1f} to {max(falls):.1f}" in text


def test_pages_say_where_a_dense_layer_ends_ahead() -> None:
    worth, note = page("explanation/worth.md"), page("paper/index.md")
    ahead, worse = {}, []
    for problem, _, known, dense in rivals():
        found = matched(known, dense).n
        if math.isinf(found):
            ahead[problem] = overtaken(known, dense).n
            both = tables_of_errors(TUNED)[problem, "patients", "0.02", TUNED_RECIPE]
            worse.append(both["dense-unet"][1][-1].mean() / dense[1][-1].mean())
            assert math.isinf(overtaken(*(both[name] for name in ("unet", "dense-unet"))).n)
        else:
            assert round(found) <= 2
    assert list(ahead) == ["cone", "pde"]
    cone, pde = ahead.values()
    assert f"from {cone:,.0f} and {pde:.0f} samples on" in note
    assert f"N = {cone:,.0f} on, and for advection and diffusion from {pde:.0f} on" in worth
    assert f"{worse[0]:.0f} and {worse[1]:.0f} times its error" in note


def test_the_best_dense_network_is_the_one_that_validates_best() -> None:
    cells = {(0, 0): (0.5, 0.4), (4, 0): (0.3, 0.1)}
    models = {model: {(4, 0): (0.4, 0.2), (8, 0): (0.2, 0.2)} for model in learning.DENSE}
    models |= {"FC": cells, "ridge FC + U-Net": {(4, 0): (0.2, 0.3)}}
    # 0.1 is lower, and not what validation chose; N = 8 is not in all of them.
    assert learning.best_dense(models) == {(4, 0): (0.2, 0.3)}


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
