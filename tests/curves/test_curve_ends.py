"""A curve at the ends of its rules, and its numbers against plain arithmetic."""

import math
import statistics
from typing import Any

import numpy as np
import pytest

from korisk import Curve, KoriskError
from korisk.curves import curve as module


def refused(*arguments: Any, **options: Any) -> str:
    with pytest.raises(KoriskError) as caught:
        Curve(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize("n", [2, 10**15])
@pytest.mark.parametrize("error", [1e-100, 1e100])
def test_the_ends_are_allowed(n: int, error: float) -> None:
    curve = Curve([n], [error])
    assert (curve.n.tolist(), curve.error.tolist()) == ([n], [error])


@pytest.mark.parametrize("n", [1, 10**15 + 2, 2.5, 0, -2])
def test_beyond_them_n_is_refused(n: float) -> None:
    message = "n, measurement 2: N must be a whole number from 2 to 10^15"
    assert message in refused([4, n, 8], [0.5, 0.5, 0.5])


@pytest.mark.parametrize("error", [9e-101, 1.1e100, 0, -1])
def test_beyond_them_errors_are_refused(error: float) -> None:
    assert "error, measurement 2, N = 8: error must be" in refused([4, 8], [0.5, error])


def test_repetitions_are_named_by_the_later_row() -> None:
    message = refused([8, 4, 4, 8], [0.1, 0.2, 0.3, 0.4], ["a", "b", "b", "c"])
    assert message.startswith("n, measurement 3: N = 4 is given twice with seed 'b'")


def test_sums_over_seeds_are_those_of_plain_arithmetic() -> None:
    values = {4: [0.5, 0.25, 0.125], 16: [0.25], 64: [0.125, 0.0625]}
    rows = [(n, e, k) for n, errors in values.items() for k, e in enumerate(errors)]
    n, errors, seeds = zip(*rows, strict=True)
    curve = Curve(n, errors, seeds)
    assert curve.sizes.tolist() == [4, 16, 64]
    assert curve.counts.tolist() == [3, 1, 2]
    assert curve.means == pytest.approx([statistics.mean(part) for part in values.values()])
    deviations = [statistics.stdev(values[4]), math.nan, statistics.stdev(values[64])]
    assert curve.deviations == pytest.approx(deviations, nan_ok=True)
    expected = [[0.5, 0.25, 0.125], [0.25, math.nan, math.nan], [0.125, 0.0625, math.nan]]
    assert np.array_equal(curve.table, expected, equal_nan=True)
    assert len(curve) == 6
    assert [curve.up_to(16).sizes.tolist(), curve.up_to(63).sizes.tolist()] == [[4, 16]] * 2
    assert curve.up_to(4).sizes.tolist() == [4]
    assert curve.up_to(64) == curve
    with pytest.raises(KoriskError, match="no measurement up to N = 3"):
        curve.up_to(3)


def test_equal_curves_are_one_key() -> None:
    first, second = (Curve([4, 8], [0.5, 0.25], [1, 2]) for _ in range(2))
    assert first == second
    assert len({first, second, Curve([4, 8], [0.5, 0.2], [1, 2])}) == 2
    assert len({first, Curve([4, 16], [0.5, 0.25], [1, 2])}) == 2


def test_renamed_is_the_same_curve_of_another_model() -> None:
    curve = Curve([4, 8], [0.9, 0.95], [1, 2], "KO", "dice", "dice")
    again = curve.renamed("FC")
    assert (again.model, curve.model) == ("FC", "KO")
    assert again.renamed("KO") == curve


@pytest.mark.parametrize(
    ("metric", "unit", "stated"),
    [
        *(("mse", "error", False), ("psnr", "psnr", False), ("rmse", "rmse", False)),
        *(("mse", "log10", True), ("dice", "accuracy", True), ("", "negated", True)),
        ("", "error", False),
    ],
)
def test_records_state_a_unit_that_no_name_implies(metric: str, unit: str, stated: bool) -> None:
    curve = Curve.of_errors([4, 8, 8], [0.5, 0.25, 0.125], [1, 1, 2], "KO", metric, unit)
    records = curve.records()
    assert [("unit" in record) for record in records] == [stated] * 3
    assert [(record["n"], record["seed"]) for record in records] == [(4, "1"), (8, "1"), (8, "2")]
    again = Curve.read(records)
    assert (again.model, again.metric, again.unit) == ("KO", metric, curve.unit)
    assert again.error == pytest.approx(curve.error)


def test_a_thousand_models_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.MAX_MODELS == 1000
    records = [{"n": 4, "error": 0.5, "model": f"m{k}"} for k in range(3)]
    monkeypatch.setattr(module, "MAX_MODELS", 3)
    assert len(Curve.read_all(records)) == 3
    monkeypatch.setattr(module, "MAX_MODELS", 2)
    with pytest.raises(KoriskError, match="names 3 models; is it the right column"):
        Curve.read_all(records)


def test_ten_sizes_are_listed_where_there_are_too_few() -> None:
    sizes = list(range(2, 13))
    with pytest.raises(KoriskError) as caught:
        Curve(sizes, [0.5] * 11).require(12, "a power law")
    listed = ", ".join(map(str, sizes[:10]))
    assert str(caught.value) == (
        f"a power law needs at least 12 distinct N, got 11 ({listed}) in the curve; measure more, "
        "for example N = 24"
    )
    Curve(sizes, [0.5] * 11).require(11, "a power law")


@pytest.mark.parametrize(("count", "rest"), [(10, ""), (11, ", ...")])
def test_ten_names_are_listed_where_there_are_several(count: int, rest: str) -> None:
    records = [{"n": 4, "error": 0.5, "model": f"m{k}"} for k in range(count)]
    names = ", ".join(repr(f"m{k}") for k in range(10))
    with pytest.raises(KoriskError) as caught:
        Curve.read(records)
    assert str(caught.value) == (
        f"these records: holds {count} models, {names}{rest}; pass model='m0' for that one, "
        "model='m1' for that one, model='m2' for that one, or model='m3' for that one"
    )


def test_the_example_is_of_the_test_set() -> None:
    records = [{"n": 4, "error": 0.5, "metric": name} for name in ("val mse", "test mse")]
    with pytest.raises(KoriskError, match="pass metric='test mse'"):
        Curve.read(records)


def test_a_name_for_what_has_none() -> None:
    records = [{"N": 4, "Error": 0.5}]
    assert Curve.read(records, model="KO", metric="mse").name == "KO"
    assert Curve.read(records, metric="mse").metric == "mse"
    assert Curve.read_all(records, metric="mse")[0].metric == "mse"
    named = [{"n": 4, "error": 0.5, "model": "KO"}]
    with pytest.raises(KoriskError, match="no model 'FC'"):
        Curve.read(named, model="FC")
    assert Curve.read(named, model="KO") == Curve.read(named)
