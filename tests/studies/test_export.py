"""Tables out of a store, as other programs and `korisk plan` read them."""

import csv
import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from dummy_work import STUDY, cell, raises_on_odd_seeds, tasks

import korisk as kr
from korisk.cli.export import export
from korisk.errors import KoriskError, MissingExtraError
from korisk.studies.result import Result, Row, Task
from korisk.studies.run.engine import run_study
from korisk.studies.run.worker import Report
from korisk.studies.store.store import STORE_NAME, Store


def command(*arguments: object) -> None:
    app = typer.Typer()
    app.command()(export)
    app([str(argument) for argument in arguments], standalone_mode=False)


def with_baseline(task: Task, report: Report) -> Result:
    """Every kind of value, and a row from before any training."""
    rows = cell(task, report).rows
    first = Row(model="KO", n=0, metrics={"mse": 0.5, "psnr": math.inf}, detail={"seconds": 2})
    return Result(rows=(first, *rows))


def study(folder: Path, points: int, work: Any = cell, **spec: Any) -> Path:
    with Store.create_or_open(folder / STORE_NAME, STUDY) as store:
        run_study(tasks(points, 3, **spec), work, store, workers=0)
    return folder


def records(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_one_row_for_each_point_seed_model_and_n(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study(
        tmp_path, 2, with_baseline, protocol="rigorous", seed="taken", problem={"bins": 7, "a": [1]}
    )
    command(tmp_path)
    rows = records(capsys.readouterr().out)
    assert list(rows[0]) == [
        *("point", "bins", "side", "protocol", "spec.seed", "seed", "model", "n", "mse", "psnr"),
        *("lambda", "seconds"),
    ]
    assert len(rows) == 2 * 3 * (1 + 2 * 2)
    assert rows[0] == {
        **{"point": "point-1", "bins": "7", "side": "1", "protocol": "rigorous"},
        **{"spec.seed": "taken"},
        **{"seed": "0", "model": "KO", "n": "0", "mse": "0.5", "psnr": "inf"},
        **{"lambda": "", "seconds": "2"},
    }
    with Store.read(tmp_path / STORE_NAME) as store:
        exact = [found.row.metrics["mse"] for found in store.rows()]
    assert [float(row["mse"]) for row in rows] == exact


def test_a_metric_is_a_pilot(tmp_path: Path) -> None:
    study(tmp_path, 2, with_baseline)
    pilot = tmp_path / "pilot.csv"
    for output in (pilot, tmp_path / "pilot.json"):
        command(tmp_path, "--metric", "mse", "--point", "point-4", "--output", output)
        for curve in kr.Curve.read_all(output):
            assert (curve.metric, curve.n.tolist()) == ("mse", [4, 4, 4, 16, 16, 16])
        curve = kr.Curve.read(output, model="FC")
        assert curve.seed[:3] == ("0", "1", "2")
        [task, *_] = [task for task in tasks(2, 3) if task.point == "point-4"]
        assert curve.error[0] == cell(task, print).rows[1].metrics["mse"]
    assert pilot.read_text().splitlines()[0] == "n,error,seed,model,metric"


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    study(tmp_path, 2)
    for arguments, words in {
        ("--metric", "mse"): "there are point-1, point-4; name one with --point",
        ("--metric", "msee", "--point", "point-1"): "no metric 'msee'; did you mean 'mse'?",
        ("--point", "point-5"): "no point 'point-5'; did you mean",
        ("--format", "xml"): "--format must be csv, json or parquet, got 'xml'",
        ("--format", "parquet"): "name it with --output FILE",
    }.items():
        with pytest.raises(KoriskError) as error:
            command(tmp_path, *arguments)
        assert words in str(error.value)
        assert "\n" not in str(error.value)


def test_empty_stores_and_folders_are_told(tmp_path: Path) -> None:
    with pytest.raises(KoriskError, match=r"holds no study\.db"):
        command(tmp_path)
    Store.create_or_open(tmp_path / STORE_NAME, STUDY).close()
    with pytest.raises(KoriskError, match="no cell is finished yet"):
        command(tmp_path / STORE_NAME)


def test_failed_cells_are_mentioned_beside_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study(tmp_path, 1, raises_on_odd_seeds)
    command(tmp_path)
    out, err = capsys.readouterr()
    assert {row["seed"] for row in records(out)} == {"0", "2"}
    assert err == "korisk: 1 cell has failed and is not in the table\n"


def test_json_is_standard_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study(tmp_path, 1, with_baseline)
    command(tmp_path, "--format", "json")
    first, second, *_ = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert first["psnr"] is None  # infinite
    assert second["mse"] == cell(tasks(1, 1)[0], print).rows[0].metrics["mse"]


def test_an_output_is_replaced_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    study(tmp_path, 1)
    output = tmp_path / "table.csv"
    output.write_text("old")
    command(tmp_path, "--output", output)
    assert len(records(output.read_text())) == 12
    assert {file.name for file in tmp_path.iterdir()} == {STORE_NAME, "table.csv"}
    with pytest.raises(KoriskError, match="cannot be written"):
        command(tmp_path, "--output", tmp_path / "no" / "table.csv")


def test_parquet_without_pyarrow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study(tmp_path, 1)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'korisk\[io\]'"):
        command(tmp_path, "--output", tmp_path / "table.parquet")
    assert not (tmp_path / "table.parquet").exists()


def test_parquet_holds_what_the_store_does(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs korisk[io]")
    study(tmp_path, 2, with_baseline)
    output = tmp_path / "table.parquet"
    command(tmp_path, "--output", output)
    rows = parquet.read_table(output).to_pylist()
    with Store.read(tmp_path / STORE_NAME) as store:
        expected = [(found.task.point, found.task.seed, found.row) for found in store.rows()]
    assert [(row["point"], row["seed"], row["n"], row["mse"]) for row in rows] == [
        (point, seed, row.n, row.metrics["mse"]) for point, seed, row in expected
    ]
    assert rows[0]["psnr"] == math.inf
