"""Curves of a store: which metric, which rows, and what a curve cannot hold."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from korisk.curves.curve import Curve
from korisk.curves.formats import is_store
from korisk.curves.stored import (
    Chosen,
    by_point,
    chosen,
    error_of,
    stored_curves,
    stored_fits,
    training_name,
    without_perfect,
)
from korisk.curves.unit import UNITS
from korisk.errors import KoriskError
from korisk.store.cells import Result, Row, Task
from korisk.store.store import FlatRow, Store
from korisk.store.usage import Usage

USAGE = Usage(started="2026-01-01T00:00:00+00:00", seconds=1.0)
Cells = Iterable[tuple[Task, Iterable[Row]]]


def row(n: int, value: float, name: str = "mse", model: str = "KO", **detail: Any) -> Row:
    return Row(model=model, n=n, metrics={name: value}, detail=detail)


def task(point: str = "a", seed: int = 1, **spec: Any) -> Task:
    return Task(point=point, seed=seed, spec=spec)


def fit(n: int, seed: int = 1, model: str = "KO", **spec: Any) -> Task:
    """A cell of a pilot: one training with n samples."""
    return Task(point=f"{model}, {n} {spec}", seed=seed, spec={"part_of": model, "n": n, **spec})


def written(folder: Path, cells: Cells, failed: Iterable[Task] = ()) -> Path:
    path = folder / "store.db"
    with Store.create_or_open(path, {"name": "test"}) as store:
        for cell, rows in cells:
            store.record(cell, Result(rows=tuple(rows)), USAGE)
        for cell in failed:
            store.record_failure(cell, "ValueError: no images", USAGE)
    return path


# --- The metric ----------------------------------------------------------------------------------


def test_a_study_states_its_metric() -> None:
    rows = [row(4, 0.5, "mae"), row(8, 0.4, "mae")]
    choice = chosen({"metric": "psnr"}, rows)
    assert (choice.metric, choice.unit.name) == ("psnr", "psnr")
    # What a pilot's rows say is no choice of a study.
    stated = [row(4, 0.5, "mae", metric="rmse", unit="rmse")]
    assert chosen({"metric": "mae"}, stated).metric == "mae"
    assert chosen({}, stated) == Chosen("mae", UNITS["error"])


def test_the_latest_choice_of_a_pilot_counts() -> None:
    spec = {"part_of": "KO"}
    rows = [
        row(4, 0.5, metric="mse", unit="error"),
        row(8, 0.5, metric="score", unit="accuracy"),
        row(16, 0.5),
    ]
    assert chosen(spec, rows) == Chosen("score", UNITS["accuracy"])
    assert chosen(spec, rows[:1]) == Chosen("mse", UNITS["error"])
    assert chosen(spec, rows[2:]) == Chosen("mse", UNITS["error"])
    assert chosen(spec, [row(4, 20.0, "psnr")]) == Chosen("psnr", UNITS["psnr"])
    assert chosen(spec, []) == Chosen("", UNITS["error"])


def test_a_requested_metric_has_the_unit_of_its_name() -> None:
    spec, rows = {"part_of": "KO"}, [row(4, 0.5, metric="mse", unit="rmse")]
    assert chosen(spec, rows, "mse") == chosen(spec, rows) == Chosen("mse", UNITS["rmse"])
    assert chosen(spec, rows, "dice") == Chosen("dice", UNITS["dice"])
    assert chosen(spec, rows, "mae") == Chosen("mae", UNITS["error"])


def test_a_number_without_a_name_is_the_metric_that_is_read() -> None:
    choice = Chosen("loss", UNITS["error"])
    assert choice.error(row(4, 0.25, "value", bare=True)) == 0.25
    assert math.isnan(choice.error(row(4, 0.25, "value")))
    assert choice.error(row(4, 0.25, "loss")) == 0.25


@pytest.mark.parametrize(
    ("unit", "perfect", "value", "error"),
    [
        ("error", 0.0, 0.25, 0.25),
        ("accuracy", 1.0, 0.75, 0.25),
        ("percent", 100.0, 99.0, 1.0),
        ("rmse", 0.0, 0.5, 0.25),
        ("negated", 0.0, -0.5, 0.5),
    ],
)
def test_a_perfect_value_has_no_error(
    unit: str, perfect: float, value: float, error: float
) -> None:
    assert error_of(UNITS[unit], perfect) == 0.0
    assert error_of(UNITS[unit], value) == error
    assert math.isnan(error_of(UNITS[unit], math.nan))
    assert math.isnan(error_of(UNITS[unit], math.inf if unit in ("error", "rmse") else -math.inf))


def test_a_perfect_psnr_is_infinite_and_is_not_held() -> None:
    assert math.isnan(error_of(UNITS["psnr"], math.inf))
    assert error_of(UNITS["psnr"], 0.0) == 1.0


@pytest.mark.parametrize(("error", "usable"), [(1e-100, True), (1e-101, False), (1e100, True)])
def test_errors_of_a_curve_have_ends(error: float, usable: bool) -> None:
    assert math.isfinite(error_of(UNITS["error"], error)) is usable
    assert math.isnan(error_of(UNITS["error"], 1.1e100))


# --- Perfect fits --------------------------------------------------------------------------------


def test_perfect_fits_lower_the_others_to_the_mean_of_all() -> None:
    values = [(8, 0.5, 1), (4, 0.0, 1), (4, 0.4, 2), (4, 0.8, 3), (4, 0.0, 4)]
    usable, notes = without_perfect(values)
    assert usable == [(4, 0.2, 2), (4, 0.4, 3), (8, 0.5, 1)]
    assert sum(error for n, error, _ in usable if n == 4) / 2 == pytest.approx(0.3)
    assert notes == ["2 of 4 fits at N = 4 were perfect; the others are scaled to the mean of all"]


def test_an_n_of_perfect_fits_alone_is_left_out() -> None:
    usable, notes = without_perfect([(4000, 0.0, 1), (2, 0.5, 1), (2, 0.0, 2)])
    assert usable == [(2, 0.25, 1)]
    assert notes == [
        "1 of 2 fits at N = 2 was perfect; the others are scaled to the mean of all",
        "every fit at N = 4,000 was perfect",
    ]
    assert without_perfect([(2, 0.5, 1)]) == ([(2, 0.5, 1)], [])


def test_scaled_errors_stay_within_the_ends_of_a_curve() -> None:
    assert without_perfect([(2, 1e-100, 1)])[0] == [(2, 1e-100, 1)]
    assert without_perfect([(2, 1e-100, 1), (2, 0.0, 2)])[0] == []


# --- Points --------------------------------------------------------------------------------------


def flat(cell: Task, *rows: Row) -> list[FlatRow]:
    return [FlatRow(task=cell, row=entry) for entry in rows]


def test_fits_of_one_model_are_one_point_and_of_several_a_pilot() -> None:
    alone = [*flat(fit(4), row(4, 0.5)), *flat(fit(8), row(8, 0.4))]
    assert {name: len(rows) for name, rows in by_point(alone).items()} == {"KO": 2}
    second = flat(fit(4, model="FC"), row(4, 0.7, model="FC"))
    assert {name: len(rows) for name, rows in by_point([*alone, *second]).items()} == {"pilot": 3}
    # In two metrics they are two points.
    apart = flat(fit(4, model="FC"), row(4, 0.7, "mae", model="FC"))
    assert list(by_point([*alone, *apart])) == ["KO", "FC"]


def test_points_of_a_study_keep_their_names() -> None:
    rows = [*flat(task("b"), row(4, 0.5)), *flat(task("a", longer=2), row(4, 0.5))]
    assert list(by_point(rows)) == ["b", "a"]
    mixed = [*rows, *flat(fit(4), row(4, 0.5))]
    assert list(by_point(mixed)) == ["b", "a", "KO"]


def test_probes_belong_to_no_point() -> None:
    rows = [*flat(fit(4), row(4, 0.5)), *flat(fit(4, longer=2), row(4, 0.4))]
    assert {name: len(part) for name, part in by_point(rows).items()} == {"KO": 1}


@pytest.mark.parametrize(
    ("metric", "names", "expected"),
    [
        ("loss", ["train_loss", "train"], "train_loss"),
        ("test_loss", ["train", "train_loss", "train_test_loss"], "train_test_loss"),
        ("test_loss", ["train", "train_loss"], "train_loss"),
        ("val_mse", ["train_mse"], "train_mse"),
        ("validation_mse", ["train_mse"], "train_mse"),
        ("mse", ["train"], "train"),
        ("mse", ["train_mae"], ""),
    ],
)
def test_the_training_error_of_a_metric_is_known_by_its_name(
    metric: str, names: list[str], expected: str
) -> None:
    assert training_name(metric, names) == expected


# --- Files ---------------------------------------------------------------------------------------


def test_a_store_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    assert is_store(tmp_path)
    assert not is_store(tmp_path / "missing.db")
    assert not is_store(tmp_path / ("x" * 300))  # longer than a system allows
    for content, expected in (
        (b"SQLite format 3\0", True),
        (b"SQLite format 3\0 and more", True),
        (b"SQLite format 3", False),
        (b"n,error\n4,0.5\n", False),
    ):
        path = tmp_path / "file.db"
        path.write_bytes(content)
        assert is_store(path) is expected


def test_a_study_is_read_by_point_model_and_metric(tmp_path: Path) -> None:
    def rows(scale: float) -> list[Row]:
        return [
            Row(model=model, n=n, metrics={"mse": scale * base / max(n, 1), "psnr": 10.0 + n})
            for model, base in (("KO", 1.0), ("FC", 3.0))
            for n in (0, 1, 2, 16)
        ]

    path = written(
        tmp_path,
        [(task("a", seed, metric="mse"), rows(seed)) for seed in (1, 2)]
        + [(task("b", 1, metric="mse"), rows(9))],
    )
    with pytest.raises(KoriskError, match=r"has 2 points, 'a', 'b'; name one, such as point='a'"):
        stored_curves(path)
    with pytest.raises(KoriskError, match="no point 'c'"):
        stored_curves(path, "c")
    first, second = stored_curves(path, "a")
    assert (first.model, second.model) == ("KO", "FC")
    assert first.chosen == Chosen("mse", UNITS["error"])
    # Before the smallest N of a curve there are only untrained models.
    assert first.values == [(2, 0.5, 1), (2, 1.0, 2), (16, 0.0625, 1), (16, 0.125, 2)]
    assert second.values[0] == (2, 1.5, 1)
    assert first.notes == ["values from 'mse' of the store"]
    assert stored_curves(path, "b")[0].values[0] == (2, 4.5, 1)
    decibels = stored_curves(path, "b", "psnr")[0]
    assert decibels.chosen == Chosen("psnr", UNITS["psnr"])
    assert decibels.values[0][1] == pytest.approx(10**-1.2)
    plain = stored_curves(path, "b", "psnr", UNITS["error"])[0]
    assert plain.chosen == Chosen("psnr", UNITS["error"])
    assert plain.values[0] == (2, 12.0, 1)
    with pytest.raises(KoriskError, match="no metric 'mae'; did you mean 'mse'"):
        stored_curves(path, "b", "mae")
    curve = Curve.read(path, point="a", model="FC")
    assert curve == Curve([2, 16, 2, 16], [1.5, 3 / 16, 3.0, 6 / 16], [1, 1, 2, 2], "FC", "mse")
    assert curve.read_as == "values from 'mse' of the store"
    assert [found.model for found in Curve.read_all(path, point="b")] == ["KO", "FC"]


def test_what_a_curve_cannot_hold_is_counted(tmp_path: Path) -> None:
    values = {1: 0.5, 2: math.nan, 3: math.inf, 4: 0.0}
    cells = [(task(seed=seed), [row(4, value), row(8, 0.0)]) for seed, value in values.items()]
    path = written(tmp_path, cells, failed=[task(seed=9), task(seed=10)])
    (curve,) = stored_curves(path)
    assert curve.values == [(4, 0.25, 1)]
    assert curve.notes == [
        "values from 'mse' of the store",
        "1 of 2 fits at N = 4 was perfect; the others are scaled to the mean of all",
        "every fit at N = 8 was perfect",
        "2 values that no curve can hold left out",
        "2 failed cells left out",
    ]


def test_stores_without_a_curve_are_refused(tmp_path: Path) -> None:
    empty = written(tmp_path, [], failed=[task()])
    with pytest.raises(KoriskError, match="no cell is finished yet"):
        stored_curves(empty)
    empty.unlink()
    small = written(tmp_path, [(task(), [row(0, 0.5), row(1, 0.5)])])
    with pytest.raises(KoriskError, match="no values of N >= 2"):
        stored_curves(small)


def test_a_model_without_values_is_left_out_beside_others(tmp_path: Path) -> None:
    rows = [row(4, 0.0, model="FC"), row(4, 0.5), row(2, 0.5)]
    (curve,) = stored_curves(written(tmp_path, [(task(), rows)]))
    assert (curve.model, curve.values) == ("KO", [(2, 0.5, 1), (4, 0.5, 1)])


def test_a_pilot_is_read_with_its_probes_apart(tmp_path: Path) -> None:
    training = {"train": 0.25, "epochs": 3}
    cells = [
        (fit(4, 7), [row(4, 0.5, "value", bare=True, metric="loss", unit="rmse")]),
        (
            fit(4, 7, longer=2.0),
            [row(4, 0.45, "value", bare=True, metric="loss", training=training)],
        ),
        (fit(8, model="FC"), [row(8, 0.3, "value", model="FC", bare=True, metric="loss")]),
    ]
    path = written(tmp_path, cells)
    fits = stored_fits(path, "KO", "loss")
    assert sorted(map(tuple, fits), key=str) == [(4, 7, 0.45, training, 2.0), (4, 7, 0.5, {}, None)]
    assert [tuple(value)[:3] for value in stored_fits(path, "FC", "loss")] == [(8, 1, 0.3)]
    assert stored_fits(path, "other", "loss") == []
    (curve,) = stored_curves(path, "KO")
    assert curve.values == [(4, 0.25, 7)]  # a root, squared
    # A number without a name takes any, and not only its own.
    assert stored_curves(path, "KO", "mae")[0].values == [(4, 0.5, 7)]
    assert {value.value for value in stored_fits(path, "KO", "mae")} == {0.5, 0.45}


def test_a_named_value_is_no_fit_of_another_metric(tmp_path: Path) -> None:
    path = written(tmp_path, [(fit(4), [row(4, 0.5)]), (fit(8), [row(8, 0.4, "mae")])])
    assert [value.n for value in stored_fits(path, "KO", "mse")] == [4]
    (curve,) = stored_curves(path)
    assert curve.values == [(4, 0.5, 1)]
    assert curve.notes[-1].startswith("1 value")


# --- Options of tables ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rising(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [
        Row(model="KO", n=n, metrics={"mse": 1 / n, "odd": n / 100, "loss": n / 10, "dice": n / 50})
        for n in (4, 8, 16)
    ]
    return written(tmp_path_factory.mktemp("rising"), [(task(metric="mse"), rows)])


@pytest.mark.parametrize(
    "options",
    [
        {"worksheet": "Sheet1"},
        {"columns": {"n": "x"}},
        {"unit": "rmse"},
        {"worksheet": "Sheet1", "columns": {"n": "x"}},
    ],
)
def test_options_of_tables_are_refused_for_a_store(rising: Path, options: dict[str, Any]) -> None:
    for read in (Curve.read, Curve.read_all):
        with pytest.raises(KoriskError, match="is a store, which knows its columns and the unit"):
            read(rising, **options)
    assert Curve.read(rising, metric="mse", unit="rmse").unit.name == "rmse"


def test_a_picked_metric_that_rises_is_asked_about(rising: Path) -> None:
    assert Curve.read(rising).metric == "mse"
    with pytest.raises(KoriskError, match="metric 'odd' does not say whether larger is better"):
        Curve.read(rising, metric="odd")
    # Its name, or its unit, leaves no doubt.
    assert Curve.read(rising, metric="loss").means == pytest.approx([0.4, 0.8, 1.6])
    assert Curve.read(rising, metric="odd", unit="error").means[0] == 0.04
    dice = Curve.read(rising, metric="dice")
    assert (dice.unit.name, dice.means[0]) == ("dice", pytest.approx(0.92))
    falling = Curve.read(rising, metric="odd", unit="complement")
    assert falling.means == pytest.approx([0.96, 0.92, 0.84])
