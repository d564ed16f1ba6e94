"""`korisk check` as a user types it."""

import math
from pathlib import Path

import pytest
from commands import content, outputs, refused, text
from theorem_stores import cell, row, written

from korisk.store.cells import Result, Row
from korisk.theory import Known, Learned, Network

NET = Network([Learned("W", parameters=4), Known("K", lipschitz=2.0)])
OPEN = Network([Learned("W", parameters=4), Known("K [b]")])


def small(*errors: float, net: Network = NET) -> Result:
    """KO at rising N whose first layer errs by 1, so that every bound is 4 or more."""
    rows = [row("KO", 4 * 4**k, error, {"W": 1.0}) for k, error in enumerate(errors)]
    return Result(rows=tuple(rows), detail={"networks": {"KO": net.to_dict()}})


def test_words_come_first_and_a_table_for_each_point(tmp_path: Path) -> None:
    folder = written(tmp_path, {"one": [cell(1), cell(2)], "two": [cell(1, mismatch=0.1)]})
    shown = outputs("check", folder)[0]
    first, *_ = shown.splitlines()
    # Half of the 24 are dense ones of one layer, in which the bound is the error itself.
    assert first.startswith("In all 12 networks in which it could fail the error stays within all")
    assert (
        shown.index("\none: squared errors") < shown.index("KO against FC") < shown.index("\ntwo:")
    )
    assert shown.count(" 2 of 2") == 8
    assert "VIOLATED" not in shown
    shown = outputs("check", folder / "study.db", "--point", "two")[0]
    assert shown.startswith("In all 4 networks in which it could fail")
    assert "\none:" not in shown


def test_json_holds_every_number_of_the_table(tmp_path: Path) -> None:
    found = content("check", written(tmp_path, {"p": [small(2.0, 1.0)]}))
    assert (found["holds"], found["networks"], found["held"]) == (True, 2, 2)
    assert (found["violated"], found["unknown"], found["tolerance"]) == (0, 0, 1e-4)
    (point,) = found["points"]
    group = point["groups"][0]
    assert (group["n"], group["error"], group["seeds"], group["held"]) == (4, 2.0, 1, 1)
    assert group["bounds"] == {"paper": 8.0, "minkowski": 4.0, "composed": 4.0}
    assert group["looseness"]["paper"] == {"least": 4.0, "mean": 4.0, "worst": 4.0}
    assert group["contributions"]["composed"] == {"W": 4.0}
    assert [check["looseness"]["composed"] for check in point["checks"]] == [2.0, 4.0]
    assert point["orders"] == []


def test_json_tells_the_order_of_sample_sizes(tmp_path: Path) -> None:
    found = content("check", written(tmp_path, {"p": [cell(1, mismatch=0.1)]}))
    (order,) = found["points"][0]["orders"]
    assert (order["models"], order["predicted"]["composed"]) == (["KO", "FC"], "KO")
    assert order["leaves_out"] == [["KO", "K"]]
    last = order["targets"][-1]
    assert last["fewer"] == "FC"
    assert last["needed"][0] == {"reached": False, "lower": 256.0, "upper": None}
    assert order["changes"][-1]["model"] == "FC"
    assert order["neither_below"] == pytest.approx(last["target"])


def test_a_violation_is_unmistakable(tmp_path: Path) -> None:
    folder = written(tmp_path, {"p": [small(5.0, 1.0), small(5.0, 9.0), small(3.0, 1.0)]})
    shown = outputs("check", folder, code=1)[0]
    assert shown.startswith("VIOLATED: in 3 of 6 networks")
    assert "p, KO, N = 4, seed 1: error 5 above minkowski 4, composed 4." in shown
    assert "p, KO, N = 16, seed 2: error 9 above paper 8, minkowski 4, composed 4." in shown
    assert "1 of 3 VIOLATED" in shown
    found = content("check", folder, code=1)
    assert found["holds"] is False
    assert found["violated"] == 3
    assert [group["holds"] for group in found["points"][0]["groups"]] == [False, False]


def test_no_bound_at_all_is_no_success(tmp_path: Path) -> None:
    some = written(tmp_path / "some", {"p": [small(1.0), small(math.nan)], "q": [small(1.0)]})
    shown = text("check", some)
    assert shown.startswith("In 2 of 3 networks")
    assert all(fact in shown for fact in ("There is no bound for 1 network", "1 of 1, 1 open"))
    none = written(tmp_path / "none", {"p": [small(1.0, net=OPEN)]})
    shown = text("check", none, code=3)
    assert shown.startswith("Not known")
    assert all(fact in shown for fact in ("layer 'K [b]': lipschitz has no upper end", "? ? ?"))
    found = content("check", none, code=3)
    assert (found["holds"], found["unknown"], found["violated"]) == (None, 1, 0)
    assert found["points"][0]["groups"][0]["bounds"]["paper"] is None


def test_what_cannot_be_checked_is_one_line(tmp_path: Path) -> None:
    bare = Result(rows=(Row(model="KO", n=4, metrics={"mse": 1.0}),))
    folder = written(tmp_path / "bare", {"p": [bare]})
    mixed = written(tmp_path / "mixed", {"p": [bare], "q": [small(1.0)]}, failed=["q"])
    for arguments, why in (
        ((folder,), "write `theorem: true` in the study"),
        ((mixed, "--point", "r"), "no point 'r'"),
        ((tmp_path / "nowhere",), "nowhere"),
    ):
        assert why in refused("check", *arguments)
    shown = outputs("check", mixed)[0]
    assert "p: no row has errors of layers." in shown
    assert "1 cell failed, not counted here; the first: no <luck>." in shown
