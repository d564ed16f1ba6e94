"""Laws over random tables: what is a matter of writing changes no curve."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_understood_tables import row as sheet_row
from test_understood_tables import workbook

from korisk import Curve, KoriskError
from korisk.curves import UNITS

LISTED = {
    "n": ("n", "N", "samples", "train_size", "n_train", "Anzahl", "params.n_train"),
    "seed": ("seed", "run", "fold", "trial", "random_state"),
    "model": ("model", "method", "arch", "Network", "config.model"),
}
# Names that say the unit of their values, as docs/reference/pilot-file.md has it.
NAMES_OF_VALUES = {
    "error": ("error", "Error", "Fehler", "erreur", "test_mse"),
    "rmse": ("rmse", "test RMSE [HU]"),
    "psnr": ("PSNR (dB)", "val_psnr"),
    "accuracy": ("accuracy", "test_acc"),
    "log10": ("log10(mse)", "MSE (log10)"),
    "error_db": ("nmse_db", "MSE [dB]"),
}
Rows = list[list[str]]  # the head first


def separated(delimiter: str, mark: str = ".") -> Callable[[Rows], bytes]:
    def write(rows: Rows) -> bytes:
        head, *body = rows
        lines = [head, *([cell.replace(".", mark) for cell in row] for row in body)]
        return "\n".join(delimiter.join(line) for line in lines).encode()

    return write


def markdown(rows: Rows) -> bytes:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]).encode()


def records(rows: Rows) -> list[dict[str, object]]:
    numbers = [[cell if cell.isalpha() else float(cell) for cell in row] for row in rows[1:]]
    return [dict(zip(rows[0], row, strict=True)) for row in numbers]


KINDS: dict[str, Callable[[Rows], bytes]] = {
    "commas": separated(","),
    "semicolons and decimal commas": separated(";", ","),
    "tabs": separated("\t"),
    "tabs and decimal commas": separated("\t", ","),
    "Windows": lambda rows: separated(";", ",")(rows).replace(b"\n", b"\r\n"),
    "UTF-16": lambda rows: separated(",")(rows).decode().encode("utf-16"),
    "Markdown": markdown,
    "JSON records": lambda rows: json.dumps(records(rows)).encode(),
    "JSON lines": lambda rows: b"\n".join(json.dumps(row).encode() for row in records(rows)),
    "JSON columns": lambda rows: json.dumps(
        {name: [row[name] for row in records(rows)] for name in rows[0]}
    ).encode(),
}


@st.composite
def measured(draw: st.DrawFn) -> dict[tuple[int, int, str], float]:
    """Errors that fall with N, by N, seed and model; at least three sizes."""
    models, seeds = draw(st.sampled_from(["A", "AB"])), draw(st.integers(1, 3))
    sizes = draw(st.sets(st.sampled_from([16, 64, 256, 1024]), min_size=3))
    scatter = st.floats(0.9, 1.1).map(lambda x: round(x, 3))
    return {
        (n, seed, model): 0.5 * draw(scatter) * (16 / n) ** 0.5 * (1 + 0.2 * (model == "B"))
        for n in sizes
        for seed in range(1, seeds + 1)
        for model in models
    }


def table(data: st.DataObject, errors: dict[tuple[int, int, str], float], unit: str) -> Rows:
    """A table of the errors in a unit, in any order of rows and columns, with listed names."""
    names = {role: data.draw(st.sampled_from(listed)) for role, listed in LISTED.items()}
    names["error"] = data.draw(st.sampled_from(NAMES_OF_VALUES[unit]))
    names["unused"] = "GPU"  # the same in every row
    order = data.draw(st.permutations(list(names)))
    rows = [
        {
            "n": str(n),
            "error": f"{UNITS[unit].from_error(error).item():.12f}",
            "seed": str(seed),
            "model": model,
            "unused": "2",
        }
        for (n, seed, model), error in errors.items()
    ]
    body = [[row[role] for role in order] for row in data.draw(st.permutations(rows))]
    return [[names[role] for role in order], *body]


def same(curves: tuple[Curve, ...], errors: dict[tuple[int, int, str], float]) -> bool:
    read = {
        (int(n), int(seed), curve.model): error
        for curve in curves
        for n, seed, error in zip(curve.n, curve.seed, curve.error, strict=True)
    }
    return read.keys() == errors.keys() and all(
        np.isclose(read[key], error, rtol=1e-6, atol=0) for key, error in errors.items()
    )


@pytest.mark.parametrize("unit", NAMES_OF_VALUES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_order_names_locale_kind_of_file_and_unit_change_no_curve(
    tmp_path: Path, data: st.DataObject, unit: str
) -> None:
    errors = data.draw(measured())
    write = KINDS[data.draw(st.sampled_from(list(KINDS)))]
    path = tmp_path / "table"
    path.write_bytes(write(table(data, errors, unit)))
    curves = Curve.read_all(path)
    assert same(curves, errors)
    assert {curve.unit.name for curve in curves} == {unit}
    assert "not used: 'GPU'" in curves[0].read_as


@settings(
    max_examples=settings().max_examples // 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_workbooks_are_read_alike(tmp_path: Path, data: st.DataObject) -> None:
    pytest.importorskip("python_calamine")
    errors = data.draw(measured())
    rows = table(data, errors, "error")
    path = tmp_path / "table"
    path.write_bytes(workbook("".join(sheet_row(k, *row) for k, row in enumerate(rows, start=1))))
    assert same(Curve.read_all(path), errors)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), name=st.sampled_from(["site", "lr", "dataset", "optimizer", "x", "Notes"]))
def test_a_column_that_splits_a_curve_is_asked_about_whatever_its_name(
    tmp_path: Path, data: st.DataObject, name: str
) -> None:
    errors = data.draw(measured())
    head, *body = table(data, errors, "error")
    rows = [[*row, label] for row in body for label in ("7", "9")]
    write = KINDS[data.draw(st.sampled_from(list(KINDS)))]
    path = tmp_path / "table"
    path.write_bytes(write([[*head, name], *data.draw(st.permutations(rows))]))
    with pytest.raises(KoriskError, match=name):
        Curve.read_all(path)
    assert same(Curve.read_all(path, filter={name: "9"}), errors)
