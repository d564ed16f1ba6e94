"""Curves as values: what they hold, in which order, and what they refuse."""

import copy
import dataclasses
import math
import pickle
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from korisk.curves.curve import Curve
from korisk.curves.unit import UNITS
from korisk.errors import KoriskError

PILOT = Curve([4, 4, 16, 16, 64], [0.9, 0.7, 0.5, 0.3, 0.1], ["1", "2", "1", "2", "2"], "KO", "mse")

labels = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=5)
pairs = st.tuples(st.integers(2, 10**15), labels | st.integers(0, 200).map(str))
rows = st.dictionaries(pairs, st.floats(1e-100, 1e100), min_size=1, max_size=20).map(
    lambda found: [(n, error, seed) for (n, seed), error in found.items()]
)


def curve_of(found: list[tuple[int, float, str]]) -> Curve:
    n, error, seed = zip(*found, strict=True)
    return Curve(n, error, seed, "KO")


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(KoriskError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@given(rows, st.randoms())
def test_the_order_of_rows_changes_nothing(found: list[tuple[int, float, str]], rng: Any) -> None:
    shuffled = found.copy()
    rng.shuffle(shuffled)
    one, other = curve_of(found), curve_of(shuffled)
    assert one == other
    assert one.means.tolist() == other.means.tolist()
    assert repr(one) == repr(other)


@given(rows)
def test_statistics_agree_with_pythons(found: list[tuple[int, float, str]]) -> None:
    curve = curve_of(found)
    by_n = {n: [e for m, e, _ in found if m == n] for n, _, _ in found}
    assert curve.sizes.tolist() == sorted(by_n)
    for k, n in enumerate(curve.sizes.tolist()):
        values = by_n[n]
        assert curve.counts[k] == len(values)
        assert curve.means[k] == pytest.approx(statistics.fmean(values))
        if len(values) == 1:
            assert math.isnan(curve.deviations[k])
        else:
            expected = statistics.stdev(values)
            assert curve.deviations[k] == pytest.approx(expected, abs=1e-12 * max(values))


@given(rows)
def test_the_table_holds_every_measurement_once(found: list[tuple[int, float, str]]) -> None:
    curve = curve_of(found)
    assert curve.table.shape == (len(curve.sizes), len(curve.seeds))
    assert np.count_nonzero(~np.isnan(curve.table)) == len(curve) == len(found)
    for n, error, seed in found:
        assert curve.table[curve.sizes.tolist().index(n), curve.seeds.index(seed)] == error


@given(rows)
def test_records_come_back(found: list[tuple[int, float, str]]) -> None:
    curve = curve_of(found)
    assert Curve.read(curve.records()) == curve
    assert pickle.loads(pickle.dumps(curve)) == curve


@pytest.mark.parametrize("name", UNITS)
def test_records_are_in_the_users_unit_and_come_back(name: str) -> None:
    curve = Curve.of_errors([4, 16], [0.5, 0.25], unit=name)
    assert [row["error"] for row in curve.records()] == UNITS[name].from_error([0.5, 0.25]).tolist()
    back = Curve.read(curve.records(), unit=name)
    assert back.unit == curve.unit
    assert back.error == pytest.approx(curve.error)


@given(rows, st.integers(2, 10**15))
def test_the_parts_of_a_cut_curve_are_the_whole(
    found: list[tuple[int, float, str]], cut: int
) -> None:
    curve = curve_of(found)
    if not curve.n[0] <= cut < curve.n[-1]:
        return
    lower = curve.up_to(cut)
    upper = curve_of([row for row in found if row[0] > cut])
    assert lower.n[-1] <= cut
    assert [*lower.seed, *upper.seed] == [*curve.seed]
    assert [*lower.error, *upper.error] == [*curve.error]


def test_seeds_stand_in_natural_order() -> None:
    seeds = ["b", "10", "2", "run 10", "run 2", "", "a"]
    curve = Curve([8] * 7, np.full(7, 0.5), seeds)
    assert curve.seeds == curve.seed == ("", "2", "10", "a", "b", "run 2", "run 10")


def test_seeds_may_be_numbers() -> None:
    assert Curve([4, 4], [0.1, 0.2], np.array([1, 2])) == Curve([4, 4], [0.1, 0.2], [1.0, "2"])


def test_curves_are_compared_by_content_and_cannot_be_changed() -> None:
    assert Curve([4], [0.5]) != Curve([4], [0.6])
    assert Curve([4], [0.5]) != Curve([4], [0.5], ["1"])
    assert Curve([4], [0.5]) != Curve([4], [0.5], model="KO")
    assert Curve([4], [0.5]) != Curve([4], [0.5], unit="accuracy")
    assert Curve([4], [0.5]) != 4
    given = np.array([0.5])
    curve = Curve([4], given)
    given[0] = 7.0
    assert curve.error[0] == 0.5
    for array in (curve.n, curve.error, curve.sizes, curve.means, curve.table, curve.deviations):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        curve.model = "other"  # type: ignore[misc]


def test_names_and_repr() -> None:
    assert repr(PILOT) == "Curve('KO', mse, N = 4 ... 64 (3 sizes), 2 seeds)"
    assert repr(Curve([4], [0.5])) == "Curve(N = 4 (1 size))"
    assert repr(Curve([4, 8], [0.5, 0.25], [1, 1])) == "Curve(N = 4 ... 8 (2 sizes), 1 seed)"
    assert PILOT.name == "KO"
    assert Curve([4], [0.5], metric="mse").name == "mse"
    assert Curve([4], [0.5]).name == "the curve"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: Curve([], []), "at least one measurement"),
        (lambda: Curve([4, 8], [0.5]), "same length, got 2 and 1"),
        (lambda: Curve([4], [0.5], ["1", "2"]), "n and seed must have the same length"),
        (lambda: Curve([4], [0.5], "1"), "seed must be a list"),
        (lambda: Curve([4], [0.5], [True]), "seed must be a printable text"),
        (lambda: Curve([4, 8], [0.3, 0.2], [10**5000, 1]), "seed must be a printable text"),
        (lambda: Curve([4], [0.5], [math.nan]), "80 characters, got nan"),
        (lambda: Curve([4], [0.5], ["a\nb"]), "seed must be a printable text"),
        (lambda: Curve([4], [0.5], model="x" * 81), "model must be a printable text of at most"),
        (lambda: Curve([[4]], [0.5]), "n must be a list of numbers"),
        (lambda: Curve([[4], [3, 2]], [0.5]), "n must be a list of numbers"),
        (lambda: Curve(["4"], [0.5]), "n must be a list of numbers"),
        (lambda: Curve([True], [0.5]), "n must be a list of numbers"),
        (lambda: Curve(4, 0.5), "n must be a list of numbers"),
        (lambda: Curve([10**30], [0.5]), "n must be a list of numbers"),
        (lambda: Curve([4, 1], [0.5, 0.5]), "n, measurement 2: N must be a whole number from 2"),
        (lambda: Curve([2.5], [0.5]), "got 2.5"),
        (lambda: Curve([math.nan], [0.5]), "got nan"),
        (lambda: Curve([10**15 + 1], [0.5]), "from 2 to 10^15"),
        (lambda: Curve([4], [0.0]), "N = 4: error must be above 0 (1e-100 to 1e100), got 0.0"),
        (lambda: Curve([4], [math.inf]), "got inf"),
        (lambda: Curve([4], [1e-101]), "got 1e-101"),
        (lambda: Curve([4, 4], [0.5, 0.6]), "N = 4 is given twice with seed ''; add a seed"),
        (lambda: Curve([4, 4], [0.5, 0.6], [3, 3]), "N = 4 is given twice with seed '3'"),
        (lambda: Curve([4], [0.5], unit="mile"), "unit must be one of"),
        (lambda: Curve([4], [0.5], metric="PSNR"), "pass unit='psnr'"),
        (lambda: PILOT.up_to(3), "KO has no measurement up to N = 3; the smallest is N = 4"),
        (lambda: PILOT.up_to(math.nan), "no measurement up to N = nan"),
        (
            lambda: PILOT.require(4, "a power law with a floor"),
            "a power law with a floor needs at least 4 distinct N, got 3 (4, 16, 64) in KO; "
            "measure more, for example N = 128",
        ),
        (lambda: PILOT.require(12, "it"), "at least 12 distinct N"),
    ],
)
def test_wrong_curves_are_refused_in_one_line(call: Callable[[], object], expected: str) -> None:
    assert expected in refused(call)


def test_require_lets_a_long_enough_curve_pass() -> None:
    PILOT.require(3, "a power law")


def test_a_table_has_a_limited_number_of_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 4_000
    curve = Curve(range(2, count + 2), np.ones(count), list(range(count)))
    assert "at most 10,000,000 cells" in refused(lambda: curve.table)
    monkeypatch.setattr("korisk.curves.curve.MAX_TABLE", 8)
    for shape, allowed in (((4, 2), True), ((2, 4), True), ((3, 3), False)):
        n = np.repeat(4 + np.arange(shape[0]), shape[1])
        made = Curve(n, 1 / n, list(range(shape[1])) * shape[0])
        if allowed:
            assert made.table.shape == shape
        else:
            assert "got 3 N times 3 seeds" in refused(lambda made=made: made.table)  # type: ignore[misc]


# --- Records -------------------------------------------------------------------------------------

TWO = [
    {"n": 4, "error": 0.5, "model": "KO", "metric": "mse"},
    {"n": 4, "error": 0.9, "model": "U-Net", "metric": "mse"},
    {"n": 4, "error": 0.8, "model": "U-Net", "metric": "mae"},
]


def test_models_and_metrics_are_chosen_by_name() -> None:
    assert Curve.read(TWO, model="KO") == Curve([4], [0.5], None, "KO", "mse")
    assert Curve.read(TWO, model="U-Net", metric="mae").error == [0.8]
    both = Curve.read_all(TWO, metric="mse")
    assert [curve.model for curve in both] == ["KO", "U-Net"]


def test_a_mapped_column_names_the_metric() -> None:
    records = [{"n": 4, "psnr": 20.0}]
    curve = Curve.read(records, columns={"error": "psnr"}, unit="psnr")
    assert curve.metric == "psnr"
    assert curve.error == pytest.approx([0.01])
    assert Curve.read(records, columns={"error": "psnr"}) == curve  # its unit by its name


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            lambda: Curve.read(TWO),
            "holds 2 models, 'KO', 'U-Net'; pass model='KO' for that one",
        ),
        (lambda: Curve.read(TWO, model="UNet"), "no model 'UNet'; did you mean 'U-Net'?"),
        (
            lambda: Curve.read(TWO, model="U-Net"),
            "holds 2 metrics, 'mse', 'mae'; pass metric='mse'",
        ),
        (lambda: Curve.read_all(TWO), "holds 2 metrics"),
        (lambda: Curve.read_all(TWO, metric="x"), "no metric 'x'; known: mse, mae"),
        (lambda: Curve.read([]), "holds no measurements"),
        (lambda: Curve.read({}), "source must be a path, a list of mappings"),
        (lambda: Curve.read([4], point="a"), "is no store, so point= does not apply"),
        (lambda: Curve.read([4]), "record 1 must be a mapping"),
        (
            lambda: Curve.read(TWO, columns={"m": "n"}),
            "a key of columns must be one of n, error, seed,",
        ),
        (
            lambda: Curve.read([{"n": 64, "error": 1.0}], unit="accuracy"),
            "record 1, key 'error': 1: accuracy must be below 1, got 1.0; a perfect score",
        ),
        (
            lambda: Curve.read([{"n": 64, "error": 93.0}], unit="accuracy"),
            "pass unit='percent'",
        ),
    ],
)
def test_wrong_records_are_refused_in_one_line(call: Callable[[], object], expected: str) -> None:
    assert expected in refused(call)


# --- Frames --------------------------------------------------------------------------------------


class Frame:
    """What korisk uses of a data frame."""

    def __init__(self, **columns: list[Any]) -> None:
        self._columns = columns

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def __getitem__(self, name: str) -> list[Any]:
        return self._columns[name]


class NAType:
    """Stands for pandas.NA, which is known by the name of its type."""


def test_a_long_frame() -> None:
    frame = Frame(
        N=[np.int64(16), np.float64(4)], error=[0.5, np.float32(0.75)], seed=[1.0, 2], x=["a", "b"]
    )
    assert Curve.read(frame) == Curve([4, 16], [0.75, 0.5], ["2", "1"])


def test_a_wide_frame_may_have_gaps() -> None:
    gaps = [0.5, math.nan, None, NAType()]
    frame = Frame(n=[4, 8, 16, 32], s1=[0.9, 0.8, 0.7, 0.6], s2=gaps)
    assert Curve.read(frame, wide="seed").counts.tolist() == [2, 1, 1, 1]


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (Frame(n=[4], error=["x"]), "row 1, column 'error': 'x' is no number; write"),
        (Frame(n=[4], error=[True]), "True is no number"),
        (Frame(examples_seen=[4], error=[1]), "no column 'n', found 'examples_seen', 'error'"),
        (Frame(n=[], error=[]), "holds no measurements"),
        (Frame(), "holds no measurements"),
        ([1, 2], "record 1 must be a mapping"),
    ],
)
def test_wrong_frames_are_refused_in_one_line(frame: Any, expected: str) -> None:
    assert expected in refused(lambda: Curve.read(frame))


def test_frames_of_pandas_and_polars_are_read_as_the_records_are() -> None:
    expected = Curve.read(TWO, model="KO", metric="mse")
    for library in ("pandas", "polars"):
        frames = pytest.importorskip(library)
        assert Curve.read(frames.DataFrame(TWO), model="KO", metric="mse") == expected
    pandas = pytest.importorskip("pandas")
    wide = pandas.DataFrame(
        {"U-Net": [0.5, None], "KO": [0.3, 0.2]}, index=pandas.Index([4, 8], name="n")
    )
    curve = Curve.read(wide, model="U-Net")
    assert curve == Curve([4], [0.5], model="U-Net")
    assert "1 empty cell left out" in curve.read_as


@pytest.mark.parametrize("unit", ["rmse", "psnr", "accuracy", "percent"])
def test_parts_of_a_curve_keep_its_errors_in_every_unit(unit: str) -> None:
    errors = np.array([0.4, 0.2, 0.1, 0.05])
    curve = Curve([4, 8, 16, 32], UNITS[unit].from_error(errors), unit=unit)
    assert curve.error == pytest.approx(errors)
    assert curve.up_to(16).error.tolist() == curve.error[:3].tolist()
    assert curve.up_to(16).unit == curve.unit


def test_masked_records_stay_out_and_masked_arrays_are_refused() -> None:
    masked = np.ma.masked_array([0.3, 9.0, 0.1], mask=[False, True, False])
    records = [{"n": n, "error": error} for n, error in zip((4, 8, 16), masked, strict=True)]
    assert Curve.read(records) == Curve([4, 16], [0.3, 0.1])
    assert Curve.read(records).read_as == "1 empty cell left out"
    assert Curve([4, 8], np.ma.masked_array([0.5, 0.25])) == Curve([4, 8], [0.5, 0.25])
    for wrong in (
        lambda: Curve([4, 8, 16], masked),
        lambda: Curve(masked, [0.3, 0.2, 0.1]),
    ):
        assert "have no masked values" in refused(wrong)


def test_missing_values_of_records_stay_out_and_those_of_arrays_are_refused() -> None:
    values = {4: 0.3, 8: math.nan, 16: None, 32: 0.1}
    curve = Curve.read({"n": n, "error": error} for n, error in values.items())
    assert curve == Curve([4, 32], [0.3, 0.1])
    assert curve.read_as == "2 empty cells left out"
    with pytest.raises(KoriskError, match=r"measurement 2.*got nan"):
        Curve([4, 8], [0.3, math.nan])


def test_tensors_with_gradients_are_taken() -> None:
    torch = pytest.importorskip("torch")
    errors = torch.tensor([0.5, 0.25], requires_grad=True)
    expected = Curve([4, 16], [0.5, 0.25])
    assert Curve(torch.tensor([4, 16]), errors) == expected
    assert Curve([4, 16], list(errors)) == expected
    records = [{"n": n, "error": error} for n, error in zip((4, 16), errors, strict=True)]
    assert Curve.read(records) == expected


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda curve: pickle.loads(pickle.dumps(curve))]
)
def test_copies_are_read_only(copied: Callable[[Curve], Curve]) -> None:
    curve = Curve([4, 4, 16], [0.5, 0.4, 0.25], ["1", "2", "1"], "KO", "mse")
    arrays = ("n", "error", "sizes", "counts", "means", "deviations", "table")
    for name in arrays:  # the cached ones too
        getattr(curve, name)
    again = copied(curve)
    assert again == curve
    for name in arrays:
        assert not getattr(again, name).flags.writeable
    with pytest.raises(dataclasses.FrozenInstanceError):
        again.model = "FC"  # type: ignore[misc]
    with pytest.raises(TypeError):  # a change goes through the constructor, which checks it
        dataclasses.replace(curve, error=np.array([9.0, 9.0, 9.0]))
