"""Measured errors against the bounds: laws of linear chains, closed forms, and what is missing."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import theorem_stores as stores
import torch
from theorem_stores import SIDE, SIZES, cell, row, written

from korisk import theory
from korisk.errors import KoriskError
from korisk.networks.amplification import learned_parts
from korisk.paper.theorem import check as checking
from korisk.paper.theorem.check import MEASURED, MeanCurve, Needed, NetworkCheck, read_theorem
from korisk.paper.theorem.explain import answer, order_sentences, remarks, shares
from korisk.paper.theorem.layers import graph_errors
from korisk.paper.theorem.problems import GRAPHS, GraphProblem
from korisk.problems import CtScanner
from korisk.report.contents import read_contents
from korisk.report.figures.study import networks_of
from korisk.store.cells import LEFT_OUT, Result, Row, Task
from korisk.store.store import Cell, Store
from korisk.studies.run.cells import run_cell
from korisk.studies.run.engine import run_study
from korisk.studies.spec.study import Study
from korisk.theory import BOUNDS, Composition, Known, Learned, Network, NormBracket, barron_bound

# Three layers: an error of the first grows by 2 * 3 = 6, or by 5 where the tail is known whole.
LAYERS = (
    *(Learned("W", lipschitz=7.0, parameters=4), Known("K", lipschitz=2.0)),
    Learned("C", lipschitz=3.0, parameters=9),
)
LAYER_ERRORS = {"W": 1.0, "C": 4.0}
NET = Network(LAYERS, compositions=[Composition("K", "C", lipschitz=5.0)])


def read(folder: Path, *cells: Result, **options: Any) -> checking.Theorem:
    return read_theorem(written(folder, {"p": cells}, **options))


def result(*rows: Row, net: Network | None = NET, **detail: Any) -> Result:
    told = {} if net is None else {"networks": {each.model: net.to_dict() for each in rows}}
    return Result(rows=rows, detail={**told, **detail})


def one(told: Any, net: Network | None = NET, **detail: Any) -> NetworkCheck:
    told_row = Row(model="KO", n=4, metrics={"mse": 1.0}, detail={"theorem": told})
    made = result(told_row, net=net, **detail)
    task = Task(point="p", seed=1, spec={})
    cell = Cell(task=task, rows=made.rows, detail=made.detail, usage=stores.USAGE)
    (check,) = checking.checks_of(cell)
    return check


def totals(check: NetworkCheck) -> dict[str, float]:
    return {form: bound.total for form, bound in check.bounds.items()}


def test_the_three_bounds_are_those_of_the_formulas(tmp_path: Path) -> None:
    (point,) = read(tmp_path, result(row("KO", 4, 10.0, LAYER_ERRORS))).points
    (check,), (group,) = point.checks, point.groups
    expected = {"paper": 4 * 36 + 2 * 4, "minkowski": (6 + 2) ** 2, "composed": (5 + 2) ** 2}
    assert totals(check) == pytest.approx(expected)
    assert check.holds is True
    assert check.looseness("composed") == pytest.approx(4.9)
    assert group.contributions("composed") == pytest.approx({"W": 5 * 7, "C": 2 * 7})
    assert group.contributions("paper") == pytest.approx({"W": 144, "C": 8})
    assert group.layer_errors == {"W": 1.0, "C": 4.0}


def test_an_erring_known_layer_enters_with_what_the_row_measured() -> None:
    told = {"error": 1.0, "layers": {"W": 1.0, "C": 4.0, "K": 9.0}}
    stated = NET.replace("K", Known("K", lipschitz=2.0, mismatch=1e6))
    for net in (NET, stated):
        check = one(told, net)
        expected = {"minkowski": (6 + 3 * 3 + 2) ** 2, "composed": (5 + 3 * 3 + 2) ** 2}
        assert {key: totals(check)[key] for key in expected} == pytest.approx(expected)
    lacking = one({"error": 1.0, "layers": LAYER_ERRORS}, stated)
    assert lacking.holds is None
    assert "'K', a known layer with a mismatch" in lacking.reason


@pytest.mark.parametrize("mismatch", [0.0, 0.3])
def test_it_holds_in_every_chain_of_linear_layers(tmp_path: Path, mismatch: float) -> None:
    found = read(tmp_path, *(cell(seed, mismatch=mismatch) for seed in range(5)))
    assert len(found.checks) == 5 * 2 * len(SIZES)
    for check in found.checks:
        bounds = totals(check)
        assert check.error <= bounds["composed"] * (1 + 1e-12)
        assert bounds["composed"] <= bounds["minkowski"] * (1 + 1e-12)
        assert bounds["minkowski"] <= bounds["paper"] * (1 + 1e-12)
        assert ("K" in check.layers) == bool(mismatch and check.model == "KO")
    assert found.holds is True


def test_the_composed_bound_is_attained_along_the_largest_singular_vector() -> None:
    true = stores.chain(np.random.default_rng(3))
    _, _, directions = np.linalg.svd(true["C"] @ true["K"])
    # W^ differs from W by a map onto the direction that the tail stretches most.
    hats = {"W": true["W"] - np.outer(directions[0], np.ones(SIDE)), "C": true["C"]}
    told = stores.measured(true, hats, np.random.default_rng(4).standard_normal((30, SIDE)))
    check = one(told, stores.network(true, stores.LEARNED["KO"]))
    assert check.looseness("composed") == pytest.approx(1.0)
    assert check.holds is True
    assert not check.only_the_last


def test_constants_that_are_too_small_are_found_out() -> None:
    true = stores.chain(np.random.default_rng(3))
    rng = np.random.default_rng(5)
    hats = stores.wrong(rng, true, ["W"], 0.5) | {"C": true["C"]}
    told = stores.measured(true, hats, np.eye(SIDE))
    net = stores.network(true, stores.LEARNED["KO"])
    small = Network([replace(layer, lipschitz=0.1 * layer.bracket.upper) for layer in net])
    for check in (one(told, small), one({"error": math.inf, "layers": LAYER_ERRORS})):
        assert (check.holds, check.exceeded) == (False, BOUNDS)
        assert answer([check]).startswith("VIOLATED: in 1 of 1 network ")
        assert remarks([check])[0].startswith("p, KO, N = 4, seed 1: error ")
        assert "above paper " in remarks([check])[0]


def test_whose_inputs_layers_err_at_is_said_where_several_err() -> None:
    single = dict([next(iter(LAYER_ERRORS.items()))])
    for layers, said in ((LAYER_ERRORS, True), (single, False)):
        words = " ".join(remarks([one({"error": 1e-9, "layers": layers})]))
        assert said is ("fixed evaluation distribution" in words)


def test_rounding_is_forgiven_and_no_more() -> None:
    for beyond, holds in ((0.5, True), (2.0, False)):
        check = one({"error": 49 * (1 + beyond * MEASURED), "layers": LAYER_ERRORS})
        assert check.holds is holds
        assert check.exceeded == (() if holds else ("composed",))


def test_bounds_out_of_order_are_a_violation() -> None:
    check = one({"error": 10.0, "layers": LAYER_ERRORS})
    mixed = replace(check, bounds={**check.bounds, "paper": check.bounds["composed"]})
    assert not mixed.exceeded
    assert mixed.holds is False
    assert "out of order" in remarks([mixed])[0]


def test_an_unknown_constant_leaves_the_bound_open_and_says_so() -> None:
    told = {"error": 10.0, "layers": LAYER_ERRORS}
    sampled = Known("K", lipschitz=NormBracket(1.0, math.inf, how="sampled"))
    layers = [LAYERS[0], sampled, LAYERS[2]]
    alone = one(told, Network(layers))
    assert (alone.holds, set(alone.bounds)) == (None, set())
    assert "'K': lipschitz has no upper end (sampled)" in alone.reason
    assert answer([alone]).startswith("Not known")
    whole = one(told, Network(layers, compositions=NET.compositions))
    assert (whole.holds, set(whole.bounds)) == (True, {"composed"})
    assert "every bound that is known" in answer([whole])
    assert "No paper or minkowski bound for p" in remarks([whole])[0]
    both = answer([whole, alone])
    assert both.startswith("In 1 of 2 networks")
    assert both.endswith("There is no bound for 1 network.")


def test_a_layer_without_error_may_have_an_unknown_tail() -> None:
    net = Network([LAYERS[0], Known("K"), LAYERS[2]])
    check = one({"error": 3.0, "layers": {"W": 0.0, "C": 4.0}}, net)
    assert totals(check)["composed"] == pytest.approx(4.0)
    assert check.only_the_last


def test_networks_without_error() -> None:
    exact = one({"error": 0.0, "layers": {"W": 0.0, "C": 0.0}})
    lucky = one({"error": 0.0, "layers": {"W": 1.0, "C": 0.0}})
    missed = one({"error": 1e-9, "layers": {"W": 0.0, "C": 0.0}})
    assert (exact.holds, lucky.holds, missed.holds) == (True, True, False)
    assert [each.looseness("composed") for each in (exact, lucky, missed)] == [None, math.inf, 0]
    assert checking.Group(model="KO", n=4, checks=(lucky,)).looseness("composed") is None
    assert answer([exact, lucky]) == "In all 2 networks the error stays within all three bounds."
    assert "error of 2 networks is 0" in remarks([exact, lucky])[-1]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (7, "theorem must be a mapping, got 7"),
        ({"layers": LAYER_ERRORS}, "error must be a number >= 0, got None"),
        ({"error": math.nan, "layers": LAYER_ERRORS}, "got nan"),
        ({"error": -1, "layers": LAYER_ERRORS}, "got -1"),
        ({"error": True, "layers": LAYER_ERRORS}, "got True"),
        ({"error": 1.0}, "layers must be a mapping, got None"),
        ({"error": 1.0, "layers": {"W": 1.0}}, "an entry for the learned layer 'C'"),
        ({"error": 1.0, "layers": {**LAYER_ERRORS, "V": 1.0}}, "no layer 'V'"),
        ({"error": 1.0, "layers": {"W": "1", "C": 4.0}}, "error of layer 'W' must be"),
        ({"error": 1.0, "layers": {"W": math.inf, "C": 4.0}}, "error of layer 'W' must be"),
    ],
)
def test_a_row_that_cannot_be_read_is_open_alone(tmp_path: Path, told: Any, said: str) -> None:
    broken = Row(model="KO", n=4, metrics={"mse": 1.0}, detail={"theorem": told})
    found = read(tmp_path, result(broken, row("KO", 16, 1.0, LAYER_ERRORS)))
    assert [check.holds for check in found.checks] == [None, True]
    assert said in found.checks[0].reason
    assert found.holds is True
    assert any(said in sentence for sentence in remarks(found.checks))
    assert [group.judged == group.checks for group in found.points[0].groups] == [False, True]


@pytest.mark.parametrize(
    ("networks", "said"),
    [
        *(({}, "no network of 'KO'"), ([1], "no network of 'KO'")),
        ({"KO": {"layers": []}}, "at least one layer"),
        *(({"KO": {"layer": []}}, "network of 'KO'"), ({"KO": 3}, "network of 'KO'")),
    ],
)
def test_a_cell_without_a_readable_network_is_open(networks: Any, said: str) -> None:
    check = one({"error": 1.0, "layers": LAYER_ERRORS}, None, networks=networks)
    assert (check.holds, check.error) == (None, 1.0)
    assert said in check.reason


def test_groups_tell_means_and_the_worst_of_seeds(tmp_path: Path) -> None:
    cells = [result(row("KO", 4, error, LAYER_ERRORS), pixels=6) for error in (49 / 2, 49 / 4, 98)]
    cells.append(result(row("KO", 4, 1000.0, {"W": 1.0}), pixels=6))  # no bound: not in the means
    (point,) = read(tmp_path, *cells).points
    (group,) = point.groups
    assert (len(group.checks), len(group.judged), group.held) == (4, 3, 2)
    assert group.holds is point.holds is False
    assert group.error == pytest.approx((49 / 2 + 49 / 4 + 98) / 3)
    assert group.bound("composed") == pytest.approx(49)
    loose = group.looseness("composed")
    assert loose is not None
    assert (loose.least, loose.mean, loose.worst) == pytest.approx((0.5, 6.5 / 3, 4))
    assert point.pixels == 6


def test_the_answer_counts_and_tells_the_range_of_real_tests(tmp_path: Path) -> None:
    nets = {"KO": NET.to_dict(), "FC": Network([Learned("D", parameters=36)]).to_dict()}
    rows = [row("KO", n, 4.9 / n, {"W": 1 / n, "C": 4 / n}) for n in (1, 2)]
    rows += [row("KO", 0, 24.5, LAYER_ERRORS), row("FC", 4, 5.0, {"D": 5.0})]
    found = read(tmp_path, Result(rows=tuple(rows), detail={"networks": nets}))
    assert answer(found.checks) == (
        "In all 3 networks in which it could fail (1 of them before training) the error stays "
        "within all three bounds; the tightest is loose by 2 to 10 times."
    )
    dense = [check for check in found.checks if check.model == "FC"]
    assert answer(dense) == "No test: in the 1 network the last layer alone errs."
    said, _ = remarks(found.checks)
    assert said.startswith("In 1 network the last layer alone errs")
    assert "before training" not in answer(found.checks[:2])
    (share,) = shares(found.points[0])
    assert share == "KO at N = 2: parts of the composed bound: W 71.4%, C 28.6%."


def test_what_is_missing_stands_in_the_notes(tmp_path: Path) -> None:
    bare = Row(model="FC", n=4, metrics={"mse": 1.0})
    other = Network([replace(LAYERS[0], lipschitz=8.0), *LAYERS[1:]])
    small, large = (row("KO", n, 1.0, LAYER_ERRORS) for n in (4, 16))
    cells = [
        result(small, large, bare, notes=["K is sampled", 3]),
        result(small, bare, net=other, notes=["K is sampled"]),
    ]
    (point,) = read(tmp_path, *cells, failed=["p"]).points
    failed, missing, differ, unmeasured, own = point.notes
    assert failed == "1 cell failed, not counted here; the first: no <luck>"
    assert missing == "KO: 1 of 4 rows are missing"
    assert differ.startswith("KO: the true network's constants differ between seeds")
    assert (unmeasured, own) == ("FC: 2 of 2 rows have no errors of layers", "K is sampled")
    assert ({group.model for group in point.groups}, point.orders) == ({"KO"}, ())
    assert read(tmp_path / "whole", cell(1), cell(2)).points[0].notes == ()


def test_where_cells_differ_the_first_predicts(tmp_path: Path) -> None:
    rows = row("KO", 4, 1.0, LAYER_ERRORS), row("FC", 4, 9.0, {"D": 9.0})
    cells = []
    for pixels in (6, 7):
        networks = {"KO": NET.to_dict(), "FC": dense(pixels).to_dict()}
        cells.append(Result(rows=rows, detail={"networks": networks, "pixels": pixels}))
    (point,) = read(tmp_path, *cells).points
    assert point.pixels is None
    assert point.orders[0].strengths["paper"][1] == pytest.approx(6)


def test_stores_that_have_nothing_to_check_say_how_to_get_it(tmp_path: Path) -> None:
    bare = Result(rows=(Row(model="KO", n=4, metrics={"mse": 1.0}),))
    mixed = written(tmp_path / "mixed", {"told": [cell(1)], "bare": [bare]})
    found = read_theorem(mixed)
    assert ([point.name for point in found.points], found.unmeasured) == (["told"], ("bare",))
    assert read_theorem(mixed, point="told").unmeasured == ()
    refused: list[tuple[Path, str | None, str]] = [
        (written(tmp_path / "bare", {"p": [bare]}), None, "no row has errors.*`theorem: true`"),
        (written(tmp_path / "none", {}), None, "no cell is finished yet"),
        (written(tmp_path / "failed", {}, failed=["p"]), None, "no cell is finished yet"),
        (mixed, "bare", "no row of 'bare'"),
        (mixed, "tol", "no point 'tol'; did you mean 'told'"),
    ]
    for folder, point, said in refused:
        with pytest.raises(KoriskError, match=said):
            read_theorem(folder, point=point)


def test_a_study_that_is_not_finished_says_what_is_missing(tmp_path: Path) -> None:
    content = {
        **{"name": "heat", "problem": {"kind": "pde", "points": 4}, "points": [{"name": "p"}]},
        **{"sizes": [2, 4], "seeds": [1, 2, 3], "pools": {"validation": 2, "test": 2}},
        "theorem": True,
    }
    study = Study(content)
    with Store.create_or_open(tmp_path / "study.db", study.content, tasks=study.tasks) as store:
        run_study(study.tasks[:1], run_cell, store, workers=0)
    [point] = read_theorem(tmp_path).points
    assert "not yet run: seeds 2, 3" in point.notes


def power(level: float, rate: float, sizes: tuple[int, ...] = (4, 16, 64, 256)) -> MeanCurve:
    return MeanCurve(sizes, tuple(level * n**-rate for n in sizes))


def dense(parameters: int) -> Network:
    return Network([Learned("D", parameters=parameters)])


def pair(first: MeanCurve, second: MeanCurve, *nets: Network) -> tuple[checking.Order, str]:
    one, other = nets or (dense(10), dense(20))
    order = checking.order_of(("a", "b"), {"a": one, "b": other}, {"a": first, "b": second})
    return order, " ".join(order_sentences(order))


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_n_on_a_power_law_is_that_of_the_law(rate: float) -> None:
    curve = power(2.0, rate)
    for n in (4.5, 16, 17, 200, 255.9):
        found = curve.needed(2.0 * n**-rate)
        assert found.lower == found.upper == pytest.approx(n)
        assert found.reached
    assert curve.needed(2.0 * 3**-rate) == Needed(0, 4)
    assert curve.needed(2.0 * 257**-rate) == Needed(256, math.inf)
    assert not curve.needed(2.0 * 257**-rate).reached


def test_a_target_counts_as_reached_where_the_error_stays_below_it() -> None:
    dips = MeanCurve((4, 8, 16, 32), (1.0, 0.1, 0.4, 0.2))
    assert 16 < dips.needed(0.3).lower == dips.needed(0.3).upper < 32
    assert not dips.needed(0.15).reached
    assert dips.needed(1.0) == Needed(0, 4)
    assert MeanCurve((4, 8), (1.0, 0.0)).needed(0.5) == Needed(8, 8)


def test_which_n_is_certainly_the_smaller_one() -> None:
    at_once, beyond = Needed(0, 4), Needed(256, math.inf)
    for first, second, certain in [
        (at_once, Needed(5, 5), True),
        (at_once, Needed(4, 4), False),  # it may be 4 as well
        (at_once, at_once, False),
        (Needed(256, 256), beyond, True),  # which is above 256
        (Needed(300, 300), beyond, False),
        (beyond, at_once, False),
        (Needed(5, 5), Needed(6, 6), True),
        (Needed(6, 6), Needed(5, 5), False),
    ]:
        assert first.before(second) is certain


def test_two_power_laws_cross_where_algebra_says() -> None:
    # 1 / N and 0.2 / sqrt N meet at N = 25, at the error 0.04.
    order, said = pair(power(0.2, 0.5), power(1.0, 1.0))
    (change,) = order.changes
    assert (change.target, change.n) == pytest.approx((0.04, 25))
    assert (change.model, order.predicted("paper"), order.confirmed("paper")) == ("b", "a", False)
    easy, hard = order.targets("a"), order.targets("b")
    assert min(easy) > 0.04 > max(hard)
    assert order.lowest == hard[-1] == pytest.approx(1 / 256)
    assert order.rungs[-1].needed[0] == Needed(256, math.inf)
    assert "a should need fewer samples: its A p is smaller by 2 times" in said
    assert "changes near 0.04: b needs about N = 25 there." in said
    assert f"confirmed at {len(easy)} of {len(easy) + len(hard)} targets" in said
    assert "Neither got below 0.00391." in said


def test_a_model_that_levels_off_is_passed_where_the_other_comes_below_its_level() -> None:
    order, said = pair(MeanCurve((4, 16, 64, 256), (0.2, 0.1, 0.1, 0.1)), power(4.0, 1.0))
    (change,) = order.changes
    assert (change.target, change.n) == pytest.approx((0.1, 40))
    assert "b needed fewer samples (a did not reach" in said


def test_curves_apart_have_one_order_and_no_crossover() -> None:
    order, said = pair(power(1.0, 1.0), power(3.0, 1.0))
    assert order.changes == ()
    assert len(order.targets("a")) == len(order.rungs) == 12
    assert order.confirmed("composed") is True
    assert "confirmed at 12 of 12 targets" in said
    hard = [rung.target for rung in order.rungs if not rung.needed[1].reached]
    assert 0 < len(hard) < 12
    assert f"(b did not reach {hard[0]:.3g})." in said
    reverse, said = pair(power(1.0, 1.0), power(3.0, 1.0), dense(20), dense(10))
    assert (reverse.predicted("composed"), reverse.confirmed("composed")) == ("b", False)
    assert "confirmed at 0 of 12 targets" in said


def test_equal_curves_and_equal_networks_decide_nothing() -> None:
    same, said = pair(power(1.0, 1.0), power(1.0, 1.0), NET, NET)
    assert len(same.targets(None)) == len(same.rungs)
    assert (same.predicted("paper"), same.confirmed("paper")) == (None, None)
    assert "same A p" in said
    assert "it is open" in said
    exact, said = pair(MeanCurve((4, 8), (0.0, 0.0)), MeanCurve((4, 8), (0.0, 0.0)))
    assert exact.rungs == ()
    assert "neither errs at all" in said


def test_models_measured_at_other_n_are_compared_as_far_as_that_goes() -> None:
    # b was begun at 64 only, and is below every target there: a's N may be larger or smaller.
    order, _ = pair(power(1.0, 1.0), power(0.001, 1.0, (64, 256)))
    assert {rung.smaller for rung in order.rungs} == {None, 1}
    for rung in order.rungs:
        assert (rung.smaller is None) == (rung.needed[0].lower <= 64)


def test_the_prediction_in_ct_is_the_structural_factor() -> None:
    side, norms = 32, (0.0384, 35.01)
    relu = Known("ReLU", lipschitz=1.0)
    known = [Known(name, lipschitz=each) for name, each in zip("KA", norms, strict=True)]
    structured = Network([Learned("W", parameters=45 * 30), *known, relu])
    full = Network([Learned("D", parameters=side**2 * 45 * 30), relu])
    order, _ = pair(power(1, 1), power(2, 1), structured, full)
    expected = theory.structural_factor(H=side, filter_norm=norms[0], backprojection_norm=norms[1])
    assert order.ratio("paper") == pytest.approx(expected)


@pytest.mark.parametrize("form", BOUNDS)
def test_the_strength_is_the_bound_over_log_n_by_n(form: Any) -> None:
    n = 1000.0
    bound = barron_bound(NET, n, bound=form).total
    assert checking.strength(NET, form) == pytest.approx(bound / (math.log(n) / n))
    # Constants of someone's calibration and mismatches do not count: they are matched.
    matched = replace(LAYERS[0], kappa=3.0, C=2.0), Known("K", lipschitz=2.0, mismatch=1.0)
    fitted = Network([*matched, LAYERS[2]], compositions=NET.compositions)
    assert checking.strength(fitted, form) == pytest.approx(checking.strength(NET, form))
    # Nor does a last layer that holds what others leave out.
    plain = [Learned("W", parameters=10), Known("K", lipschitz=3.0)]
    with_rest = Network([*plain, Known(LEFT_OUT, lipschitz=1.0)])
    assert checking.strength(with_rest, form) == checking.strength(Network(plain), form)


def test_strengths_that_are_not_known_are_said() -> None:
    nameless = Network([Learned("W"), *LAYERS[1:]])
    endless = Network([LAYERS[0], Known("K"), LAYERS[2]], compositions=NET.compositions)
    counted, said = pair(power(1, 1), power(2, 1), nameless, NET)
    assert (dict(counted.strengths), counted.confirmed("paper")) == ({}, None)
    assert "parameters is missing" in said
    order, said = pair(power(1, 1), power(2, 1), dense(5), endless)
    assert set(order.strengths) == {"composed"}
    assert "By paper, minkowski: nothing is predicted" in said


def test_forms_that_disagree_are_told_apart() -> None:
    # By products of constants the first layer of NET counts 36-fold, by the whole tail 25-fold.
    order, said = pair(power(1, 1), power(2, 1), NET, dense(290))
    strengths = {form: found[0] for form, found in order.strengths.items()}
    expected = {"paper": 4 * 36 * 4 + 2 * 9, "minkowski": (12 + 3) ** 2, "composed": (10 + 3) ** 2}
    assert strengths == pytest.approx(expected)
    assert "By paper: b should need fewer samples" in said
    assert "By minkowski: a should need fewer samples" in said
    assert said.count("confirmed at 12 of 12 targets") == 2
    assert [order.confirmed(form) for form in BOUNDS] == [False, True, True]


def test_one_model_has_no_order_and_three_have_three(tmp_path: Path) -> None:
    assert read(tmp_path / "one", cell(1, models=["KO"])).points[0].orders == ()
    (point,) = read(tmp_path / "three", cell(1, models=["KO", "FC", "KO2"], mismatch=0.1)).points
    assert [order.models for order in point.orders] == [("KO", "FC"), ("KO", "KO2"), ("FC", "KO2")]
    assert point.orders[0].erring == (("KO", "K"),)
    assert point.orders[1].predicted("paper") is None
    assert "errors of known layers ('K' of KO)" in " ".join(order_sentences(point.orders[0]))


def test_a_point_orders_by_its_own_means_of_trained_networks(tmp_path: Path) -> None:
    rows = [("a", 0, 9.0), ("a", 16, 1.0), ("a", 4, 2.0), ("a", 64, math.nan), ("b", 4, math.inf)]
    assert checking.mean_curves(rows) == {"a": MeanCurve((4, 16), (2.0, 1.0))}
    detail = {"networks": {"KO": NET.to_dict(), "FC": dense(10**6).to_dict()}}
    models: Any = (("KO", 1.0, {"W": 1.0, "C": 1.0}), ("FC", 8.0, {"D": 9}))
    cells = []
    for scale in (0.5, 1.5):
        made = [row(m, n, scale * factor / n, by) for m, factor, by in models for n in (4, 16, 64)]
        cells.append(Result(rows=tuple(made), detail=detail))
    (order,) = read(tmp_path, *cells).points[0].orders
    # Means are 1 / N and 8 / N: for every target FC needs eight times as many.
    known_n = [rung for rung in order.rungs if all(n.lower == n.upper for n in rung.needed)]
    both = [rung.needed for rung in known_n]
    assert both
    for known, full in both:
        assert full.lower / known.lower == pytest.approx(8)
    assert order.confirmed("composed") is True


def test_the_docs_say_what_is_done(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "check.md").read_text()
    assert (checking.RUNGS, "For twelve targets" in page) == (12, True)
    assert (MEASURED, "above a bound by a relative 10⁻⁴" in page) == (1e-4, True)
    assert (checking.COMPUTED, "may fail by 10⁻⁹" in page) == (1e-9, True)
    (code,) = re.findall(r"```\n(from .*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {"error": 3.0, "pixels": 6, "error_of_w": 1.0}
    scope["true_network"] = Network([LAYERS[0], LAYERS[1]])
    exec(code, scope)
    (check,) = read(tmp_path, scope["result"]).checks
    assert check.looseness("composed") == pytest.approx(4 / 3)
    assert read_theorem(tmp_path).points[0].notes == ("in words",)


# --- Networks that are no chain ------------------------------------------------------------------

SCANNER = CtScanner(side=4, views=6, bins=6, beam="parallel")


@pytest.mark.parametrize("network", GRAPHS)
def test_a_part_that_is_wrong_errs_at_every_call_and_no_other_one(network: str) -> None:
    problem = GraphProblem(scanner=SCANNER, network=network, width=2)
    truth, wrong = problem.true_network(), problem.start(3)[0]
    wrong.load_state_dict(truth.state_dict())
    test = problem.pools(seed=1, train=0, validation=0, test=5).test
    assert max(graph_errors(truth, wrong, test.inputs).values()) == 0
    path, part = list(learned_parts(wrong).items())[-1]
    taken = []
    part.register_forward_hook(lambda _, inputs, made: taken.append((*inputs, made)))
    with torch.no_grad():
        for weights in part.parameters():
            weights.mul_(1.5)
    found = graph_errors(truth, wrong, test.inputs)
    errors = [error for name, error in found.items() if name.partition(" ")[0] == path]
    true = learned_parts(truth)[path]
    with torch.no_grad():
        missed = [float((true(x) - y).square().sum() / 5) for x, y in taken]
    assert errors == pytest.approx(missed, rel=1e-5)
    assert len(errors) == (3 if network == "unrolled" else 1)
    assert sum(found.values()) == pytest.approx(sum(errors))


def test_it_holds_in_trained_networks_that_are_no_chain(tmp_path: Path) -> None:
    content = {
        "name": "graph",
        "problem": {"kind": "deep", "network": "dense-skips", "channels": 2, "near": 0.1},
        "points": [{"side": 4, "views": 6, "bins": 6}],
        **{"sizes": [4], "seeds": [1], "pools": {"validation": 1, "test": 20}, "theorem": True},
        "models": {"KO": {"iterations": 50, "batch": 4}},
    }
    study = Study(content)
    with Store.create_or_open(tmp_path / "study.db", study.content, tasks=study.tasks) as store:
        run_study(study.tasks, run_cell, store, workers=0)
    found = read_theorem(tmp_path)
    before, after = found.checks
    assert after.error < before.error
    for check in found.checks:
        assert check.network is not None
        assert not check.network.is_chain
        assert len(check.layers) == len(check.network.learned) == 4
        assert check.holds is True
        assert (check.looseness("composed") or 0) > 1
    (drawn,) = networks_of(read_contents(tmp_path))
    assert drawn.network == after.network


def test_a_part_that_the_truth_lacks_is_refused() -> None:
    truth, other = torch.nn.Sequential(torch.nn.ReLU()), torch.nn.Sequential(torch.nn.Linear(2, 2))
    with pytest.raises(KoriskError, match="no learned part '0'"):
        graph_errors(truth, other, torch.ones(1, 2))
