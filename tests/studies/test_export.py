"""Tables out of a store, as other programs and `korisk plan` read them."""

import contextlib
import csv
import io
import json
import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import typer
from dummy_work import STUDY, cell, raises_on_odd_seeds, tasks

import korisk as kr
from korisk.cli.export import export
from korisk.errors import KoriskError
from korisk.report.contents import read_contents
from korisk.store.cells import Result, Row, Task
from korisk.store.file import DamagedError
from korisk.store.store import STORE_NAME, Store
from korisk.studies.run.engine import run_study
from korisk.studies.run.worker import Report

Captured = pytest.CaptureFixture[str]


def command(*arguments: object) -> None:
    app = typer.Typer()
    app.command()(export)
    app([str(argument) for argument in arguments], standalone_mode=False)


def with_baseline(task: Task, report: Report) -> Result:
    """Every kind of value, and a row from before any training."""
    first = Row(model="KO", n=0, metrics={"mse": 0.5, "psnr": math.inf}, detail={"seconds": 2})
    return Result(rows=(first, *cell(task, report).rows))


def study(folder: Path, points: int, work: Any = with_baseline, **spec: Any) -> Path:
    with Store.create_or_open(folder / STORE_NAME, STUDY) as store:
        run_study(tasks(points, 3, **spec), work, store)
    return folder


def records(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_one_row_for_each_point_seed_model_and_n(tmp_path: Path, capsys: Captured) -> None:
    study(tmp_path, 2, protocol="rigorous", seed="taken", problem={"bins": 7, "a": [1]})
    command(tmp_path)
    rows = records(capsys.readouterr().out)
    assert len(rows) == 2 * 3 * (1 + 2 * 2)
    assert list(rows[0].items()) == [
        *(("point", "point-1"), ("bins", "7"), ("side", "1"), ("protocol", "rigorous")),
        *(("spec.seed", "taken"), ("seed", "0"), ("model", "KO"), ("n", "0"), ("mse", "0.5")),
        *(("psnr", "inf"), ("lambda", ""), ("seconds", "2")),
    ]
    with Store.read(tmp_path / STORE_NAME) as store:
        exact = [found.row.metrics["mse"] for found in store.rows()]
    assert [float(row["mse"]) for row in rows] == exact


def test_a_metric_is_a_pilot(tmp_path: Path) -> None:
    study(tmp_path, 2)
    [task, *_] = [task for task in tasks(2, 3) if task.point == "point-4"]
    for output in (tmp_path / "pilot.csv", tmp_path / "pilot.json"):
        command(tmp_path, "--metric", "mse", "--point", "point-4", "--output", output)
        for curve in kr.Curve.read_all(output):
            assert (curve.metric, curve.n.tolist()) == ("mse", [4, 4, 4, 16, 16, 16])
        curve = kr.Curve.read(output, model="FC")
        assert curve.seed[:3] == ("0", "1", "2")
        assert curve.error[0] == cell(task, print).rows[1].metrics["mse"]
    assert (tmp_path / "pilot.csv").read_text().startswith("n,error,seed,model,metric,digest\n")


def test_rows_that_changed_after_they_were_written_are_refused(tmp_path: Path) -> None:
    study(tmp_path, 1)
    output = tmp_path / "pilot.csv"
    command(tmp_path, "--metric", "mse", "--output", output)
    before = [curve.records() for curve in kr.Curve.read_all(output)]
    header, first, second, *rest = output.read_text().splitlines()
    other = [line.replace(",", ";") for line in (header, first, second, *rest)]
    output.write_text("# from the study\n\n" + "\n\n".join(other).replace("\n4;", "\n4.0;"))
    assert [curve.records() for curve in kr.Curve.read_all(output)] == before
    for lines in (
        [header, first.replace(",", ",1", 1), second, *rest],
        [header, first[:-1], second, *rest],
        [header, second, first, *rest],
        [header, first, *rest],
        [header, first, second, *rest[:-1]],
        [header, first, second, f"#{rest[0]}", *rest[1:]],
        [header.replace("error", "mse"), first, second, *rest],
    ):
        output.write_text("\n".join(lines))
        with pytest.raises(KoriskError, match=r"pilot\.csv: .*remove the column 'digest'") as error:
            kr.Curve.read_all(output)
        assert "\n" not in str(error.value)
        output.write_text("\n".join(line.rpartition(",")[0] for line in lines))
        assert kr.Curve.read_all(output)  # as the message says


def test_a_file_that_is_cut_is_refused(tmp_path: Path) -> None:
    """In its first row too, where no whole row with a digest is left."""
    study(tmp_path, 1)
    output = tmp_path / "pilot.csv"
    command(tmp_path, "--metric", "mse", "--output", output)
    content = output.read_bytes()
    begin = content.index(b"\n") + 1
    end = content.index(b"\n", begin)
    for size in (*range(begin, end + 2), *range(end + 2, len(content) - 1, 37)):
        output.write_bytes(content[:size])
        with pytest.raises(KoriskError, match=r"pilot\.csv"):
            kr.Curve.read_all(output)


def test_a_damaged_cell_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    study(tmp_path, 1)
    with contextlib.closing(sqlite3.connect(tmp_path / STORE_NAME)) as store, store:
        store.execute("UPDATE rows SET metrics = '{\"mse\": 0.4}' WHERE cell = 2")
    for read in (lambda: command(tmp_path), lambda: read_contents(tmp_path / STORE_NAME)):
        with pytest.raises(DamagedError, match="point-1, seed 1; run it again"):
            read()


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KoriskError, match=r"contains no study\.db"):
        command(tmp_path)
    Store.create_or_open(tmp_path / STORE_NAME, STUDY).close()
    with pytest.raises(KoriskError, match="no cell is finished yet"):
        command(tmp_path / STORE_NAME)
    study(tmp_path, 2)
    for arguments, words in {
        ("--metric", "mse"): "there are point-1, point-4; name one with point=",
        ("--metric", "msee", "--point", "point-1"): "no metric 'msee'; did you mean 'mse'?",
        ("--point", "point-5"): "no point 'point-5'; did you mean",
        ("--format", "xml"): "--format must be one of csv, json, got 'xml'",
        ("--output", tmp_path / "no" / "table.csv"): "cannot be written",
    }.items():
        with pytest.raises(KoriskError) as error:
            command(tmp_path, *arguments)
        assert words in str(error.value)
        assert "\n" not in str(error.value)


def test_failed_cells_are_mentioned_beside_the_table(tmp_path: Path, capsys: Captured) -> None:
    study(tmp_path, 1, raises_on_odd_seeds)
    command(tmp_path)
    out, err = capsys.readouterr()
    assert {row["seed"] for row in records(out)} == {"0", "2"}
    assert err == "korisk: 1 failed cell not in the table\n"


def test_json_is_standard_json(tmp_path: Path, capsys: Captured) -> None:
    study(tmp_path, 1)
    command(tmp_path, "--format", "json")
    first, second, *_ = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert first["psnr"] is None  # infinite
    assert second["mse"] == cell(tasks(1, 1)[0], print).rows[0].metrics["mse"]


def test_an_output_is_replaced_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    study(tmp_path, 1, cell)
    output = tmp_path / "table.csv"
    output.write_text("old")
    command(tmp_path, "--output", output)
    assert len(records(output.read_text())) == 12
    assert {file.name for file in tmp_path.iterdir()} == {STORE_NAME, "table.csv"}
