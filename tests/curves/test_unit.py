"""Units: there and back, and which metrics need one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from korisk.curves.unit import UNITS, Unit, suggested_unit, unit
from korisk.errors import KoriskError

errors = st.floats(1e-6, 0.9)


@pytest.mark.parametrize("name", UNITS)
@given(error=errors)
def test_there_and_back_again(name: str, error: float) -> None:
    value = UNITS[name].from_error(error)
    assert UNITS[name].to_error(value) == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("name", UNITS)
@given(low=errors, high=errors)
def test_larger_is_better_means_that_the_error_falls(name: str, low: float, high: float) -> None:
    if high - low < 1e-9:
        return
    values = UNITS[name].from_error([low, high])
    assert (values[0] > values[1]) == UNITS[name].larger_is_better


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("error", 0.25, 0.25),
        ("accuracy", 0.93, 0.07),
        ("percent", 93.0, 7.0),
        ("psnr", 20.0, 0.01),  # the peak squared is 100 times the mean squared error
        ("db", 0.0, 1.0),
        ("rmse", 3.0, 9.0),
        ("negated", -0.5, 0.5),
    ],
)
def test_closed_forms(name: str, value: float, error: float) -> None:
    assert unit(name).to_error(value) == pytest.approx(error)
    assert unit(name).to_error(np.array([value] * 3)) == pytest.approx(np.full(3, error))


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, 1e308, -1e308, 1e5, -1e5, 0.0, 5e-324]
)
def test_extremes_raise_no_warning(name: str, value: float) -> None:
    UNITS[name].to_error(value)
    UNITS[name].from_error(value)


def test_the_users_word_is_kept() -> None:
    assert unit("SSIM").name == unit("SSIM").noun == "ssim"
    assert unit("ssim").law == "complement"
    assert unit("complement").noun == "score"
    assert unit(unit("auc")) == UNITS["auc"]


def test_names_of_metrics_are_units_too() -> None:
    errors = ("mse", "MAE", "nmse", "mape", "loss", "dice loss", "err")
    assert {unit(name).name for name in errors} == {"error"}
    others = {"nRMSE": "rmse", "neg_mean_squared_error": "negated", "neg_log_loss": "negated"}
    others |= {"acc": "accuracy", "F1-score": "f1", "R²": "r2", "DSC": "dice", "roc_auc": "auc"}
    assert {name: unit(name).name for name in others} == others
    assert unit(" PSNR ") == UNITS["psnr"]
    for known in UNITS.values():
        assert unit(known) is known
    with pytest.raises(KoriskError, match="unit must be one of"):
        unit("1 - ssim")  # neither the score nor surely its complement


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        *(("acuracy", "did you mean 'accuracy'?"), ("zzz", "one of error, complement")),
        *(("", "got ''"), (3, "got '3'"), ("x" * 100, "unit must be one of")),
    ],
)
def test_unknown_units_are_refused(wrong: str, expected: str) -> None:
    with pytest.raises(KoriskError) as caught:
        unit(wrong)
    assert expected in str(caught.value)
    with pytest.raises(KoriskError, match="must be one of error, complement"):
        Unit("x", "zzz")


@pytest.mark.parametrize(
    ("suggested", "names"),
    [
        ("accuracy", ["test_accuracy", "testAccuracy", "Acc", "top-1 accuracy"]),
        *(("psnr", ["PSNR (dB)"]), ("ssim", ["MS-SSIM"]), ("f1", ["F1-score"])),
        *(("r2", ["R²", "R^2"]), ("iou", ["mIoU", "Test Jaccard"]), ("complement", ["recall"])),
        ("negated", ["neg_mean_squared_error"]),
        (None, ["mse", "dice loss", "1 - SSIM", "1 - ssim", "accelerated MRI error", ""]),
        (None, ["neg_log_likelihood", "neg_words"]),
    ],
)
def test_names_of_metrics(suggested: str | None, names: list[str]) -> None:
    assert {suggested_unit(name) for name in names} == {suggested}
    assert suggested is None or UNITS[suggested].larger_is_better
