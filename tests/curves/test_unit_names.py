"""Units by their names, and cells as numbers."""

import math

import numpy as np
import pytest
from scipy.special import polygamma

from korisk import Curve
from korisk.curves import UNITS
from korisk.curves.cells import (
    CellError,
    begins_as_number,
    decimal_mark,
    folded,
    is_empty,
    is_unclear,
    number,
    rough,
)
from korisk.curves.formats import Source
from korisk.curves.noise import (
    ROUNDING,
    collapsed,
    collapsed_sizes,
    relative_variance,
)
from korisk.curves.unit import unit_by_name, words
from korisk.errors import KoriskError


def test_scores_are_better_where_they_are_larger() -> None:
    scores = {"complement", "percent", "psnr", "db", "negated", "accuracy", "auc", "dice", "f1"}
    larger = {name for name, known in UNITS.items() if known.larger_is_better}
    assert larger == scores | {"iou", "r2", "ssim"}


def test_a_root_is_positive() -> None:
    errors = UNITS["rmse"].to_error([2, 0, -0.5, -2])
    assert errors[0] == 4
    assert np.isnan(errors[1:]).all()


def test_errors_and_roots_are_drawn_on_logarithmic_axes() -> None:
    logarithmic = {name for name, known in UNITS.items() if known.logarithmic}
    assert logarithmic == {"error", "error_percent", "squared", "rmse", "rmse_percent"}


@pytest.mark.parametrize(
    ("metric", "head", "name"),
    [
        *((name, "", name) for name in ("psnr", "rmse")),
        *((name, "", "") for name in ("log mse", "ln error", "logmse")),
        *(
            (name, "", "error")
            for name in ("mse", "logistic", "catalog", "abcmse", "rmse_over_max")
        ),
        *(("mse", "MSE (log10)", "log10"), ("mse", "mse [dB]", "error_db")),
        *(("x", "x [decibels]", ""), ("x", "rmse", "error")),
    ],
)
def test_a_unit_follows_from_names(metric: str, head: str, name: str) -> None:
    assert unit_by_name(metric, head) == name


def test_names_are_split_into_words() -> None:
    assert words("test_R²") == words("testR2") == ["test", "r2"]
    assert words("valMSE") == ["val", "mse"]


# --- Cells ---------------------------------------------------------------------------------------


def test_a_thousand_is_guessed_for_counts_alone() -> None:
    def unclear(cell: str, mark: str | None) -> tuple[bool, bool]:
        return is_unclear(cell, mark, is_count=True), is_unclear(cell, mark, is_count=False)

    assert unclear("1,024", None) == unclear("1.024", None) == (False, True)
    assert unclear("1,000", None) == (True, True)  # it may be a decimal with zeros
    assert unclear("1,024", ".") == unclear("1.024", ",") == (False, True)
    assert unclear("1,024", ",") == unclear("1.024", ".") == (True, False)
    assert unclear("0.024", None) == unclear("1024", None) == (False, False)
    assert number("1,024", None) == number("1.024", None) == number("1.024", ",") == 1024
    assert number("1,024", ",") == 1.024


def test_a_remedy_names_the_mark() -> None:
    for cell, mark, name in (("0,5", ".", "point"), ("0.5", ",", "comma")):
        with pytest.raises(CellError) as caught:
            number(cell, mark)
        assert caught.value.args[1] == f"write all with a decimal {name}"
    assert number("1" * 80, None) == pytest.approx(1.1111111111e79)


@pytest.mark.parametrize(
    ("cell", "mark", "value"),
    [
        *(("12%", None, 12.0), ("\u22123", None, -3.0), ("1 024", None, 1024.0)),
        *(("1e-3", None, 1e-3), ("0,5", ",", 0.5), (".5", None, 0.5), (3, None, 3.0)),
        *(("12.345,5", ",", 12345.5), ("1,234,567", ".", 1234567.0), (10**400, None, math.inf)),
    ],
)
def test_numbers_of_many_forms(cell: object, mark: str | None, value: float) -> None:
    assert number(cell, mark) == value


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "x", "0,5", "1" * 81, "½", True, "0.1*"])
def test_what_is_no_number_is_refused(cell: object) -> None:
    with pytest.raises(CellError):
        number(cell, None if cell != "0,5" else ".")


def test_cells_are_compared_without_case_and_zeros() -> None:
    assert [folded(cell) for cell in (64.0, 64, " A ", None, "NaN", 0.5)] == [
        *("64", "64", "a", "", "", "0.5")
    ]
    assert [is_empty(cell) for cell in (None, "N/A", "--", "", 0)] == [True] * 3 + [False] * 2
    assert [rough(cell) for cell in ("0,5", "12%", 3)] == [0.5, 12, 3]
    assert math.isnan(rough("x"))
    assert all(map(begins_as_number, ("0.10*", "1", 2)))
    assert not any(map(begins_as_number, ("a", None)))


def test_one_decimal_mark_holds_for_a_table() -> None:
    def mark(*cells: object, delimiter: str = ";") -> str | None:
        return decimal_mark([(cell, k, "x") for k, cell in enumerate(cells)], delimiter, Source())

    assert [mark("0.5"), mark("0,5"), mark("5", 3), mark("1,024")] == [".", ",", None, None]
    assert mark("1.024", delimiter=",") == mark("1.024", delimiter=" ") == "."
    assert mark("1,024", delimiter=",") is None
    with pytest.raises(KoriskError) as caught:
        mark("1", "0.5", "0,25")
    assert str(caught.value) == (
        "these rows: decimal points (row 1, column 'x': '0.5') and commas (row 2, column 'x': "
        "'0,25') are mixed; write all numbers in one way"
    )


# --- Noise ---------------------------------------------------------------------------------------


def test_errors_at_rounding_have_collapsed() -> None:
    eps = float(np.finfo(float).eps)
    assert 16 * eps == ROUNDING
    curve = Curve([4, 8, 16], [1.0, 15.9 * eps, 16.1 * eps])
    assert collapsed(curve).tolist() == collapsed_sizes(curve).tolist() == [False, True, False]
    mixed = Curve([4, 4, 8, 8], [1.0, 1.0, 0.5, eps], [1, 2, 1, 2])
    assert collapsed(mixed).tolist() == [False, False, False, True]
    assert not collapsed_sizes(mixed).any()


def test_a_size_where_all_seeds_collapsed_is_not_mixed() -> None:
    eps = float(np.finfo(float).eps)
    curve = Curve([4, 4, 8, 8, 16, 16], [1.0, 1.1, eps, 1.1 * eps, 1.0, eps], [1, 2] * 3)
    variance = relative_variance(curve)
    assert variance is not None
    # One of two seeds is uncertain by far more than the spread of those that agree.
    assert variance[1] < variance[2]
    assert variance[2] > polygamma(1, 1.5) - polygamma(1, 3)
