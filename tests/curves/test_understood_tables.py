"""Tables as people keep them: read rightly, or asked about with an option that answers.

Each case says what a table shows, which answer its question takes, and what is read then. None of
them may be read wrongly: two data sets averaged, training errors among test errors, statistics as
models, logarithms as errors.
"""
# ruff: noqa: E501 (tables are long)

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from test_binary import excel

from korisk import Curve, KoriskError

FC, KO = "16 0.3, 64 0.16, 256 0.09", "16 0.1, 64 0.07, 256 0.05"
BOTH = {"FC": FC, "KO": KO}
LOGS, RISING = "16 -0.5, 64 -0.8, 256 -1", "16 0.7, 64 0.8, 256 0.9"


class Case(NamedTuple):
    """A table, what is asked, the answer, and what is read then."""

    about: str
    table: str
    curves: Mapping[str, str] = MappingProxyType({"": FC})
    answer: Mapping[str, Any] | None = None  # options that a question names; None: nothing is asked
    unit: str = "error"
    seeds: int = 1
    says: str = ""  # part of `read_as`, or of the question


def one(values: str = FC, model: str = "") -> dict[str, str]:
    return {model: values}


def split(lines: str) -> list[list[str]]:
    return [line.split() for line in lines.split(", ")]


def column(about: str, head: str, values: str = FC, **more: Any) -> Case:
    """A table of N and one other column, which is read as it stands."""
    rows = values.replace(", ", "\n").replace(" ", ",")
    return Case(about, f"{head}\n{rows}\n", one(values), **more)


def split_by(name: str, first: object = "A", second: object = "B") -> str:
    """Two data sets whose rows only a column of this name tells apart."""
    rows = [f"{n},{a},1,{first}\n{n},{b},2,{second}\n" for n, a, b in zip(*VALUES, strict=True)]
    return f"n,mse,seed,{name}\n" + "".join(rows)


VALUES = ((16, 64, 256), (0.3, 0.16, 0.09), (0.1, 0.07, 0.05))
WIDE = "".join(f"{n},{a},{b}\n" for n, a, b in zip(*VALUES, strict=True))
SPLITTING = [
    *("dataset", "data", "set", "site", "experiment", "layers", "group", "user", "tags", "scanner"),
    *("optimizer", "Bemerkung", "phase", "subset", "kind", "category", "type", "protocol", "Name"),
]
BESIDE = ["FC CI95", "FC_unc", "FC hi", "FC/KO", "FC (lower)", "FC SEM"]
BESIDE += ["median", "ratio", "min", "p"]
NUMBERS_THAT_SPLIT = ["width", "depth", "lr", "site", "dose", "batch size", "dataset_id", "x"]

CASES = [
    # --- Columns of other names ---
    *(
        Case(
            f"two data sets by a text column {name}",
            split_by(name),
            curves=BOTH,
            answer={"columns": {"model": name}},
        )
        for name in SPLITTING
    ),
    *(
        Case(
            f"two settings by numbers in {name}",
            split_by(name, 32, 64),
            curves=BOTH,
            answer={"columns": {"model": name}},
        )
        for name in NUMBERS_THAT_SPLIT
    ),
    Case(
        "training and test errors in rows",
        "n,set,mse\n16,train,0.01\n16,test,0.3\n64,train,0.02\n64,test,0.16\n256,train,0.03\n256,test,0.09\n",
        answer={"filter": {"set": "test"}},
    ),
    Case(
        "the same, with the training rows left out",
        "n,split,mse\n16,train,0.01\n16,test,0.3\n64,train,0.02\n64,test,0.16\n256,train,0.03\n256,test,0.09\n",
        answer={"filter": {"split": "!train"}},
        says="3 rows left out by split=!train",
    ),
    Case(
        "a constant text column",
        "n,mse,dataset\n16,0.3,CT\n64,0.16,CT\n256,0.09,CT\n",
        says="not used: 'dataset'",
    ),
    Case(
        "a constant number", "n,mse,lr\n16,0.3,.1\n64,0.16,.1\n256,0.09,.1\n", says="not used: 'lr'"
    ),
    Case(
        "a column that the model tells already",
        "n,mse,model,params\n"
        + "".join(f"{n},{a},FC,9\n{n},{b},KO,3\n" for n, a, b in zip(*VALUES, strict=True)),
        curves=BOTH,
        says="not used: 'params'",
    ),
    Case(
        "names of runs",
        "n,mse,name\n16,0.3,owl\n64,0.16,fox\n256,0.09,elk\n",
        says="not used: 'name'",
    ),
    Case(
        "epochs and no seeds",
        "n,epoch,mse\n"
        + "".join(
            f"{n},{e},{v + 0.1 / e}\n"
            for n, v in ((16, 0.2), (64, 0.06), (256, 0.01))
            for e in range(1, 12)
        ),
        curves=one("16 0.209091, 64 0.0690909, 256 0.0190909"),
        answer={"filter": {"epoch": "11"}},
    ),
    Case(
        "a log of each epoch",
        "n,seed,epoch,val_loss\n16,1,1,0.9\n16,1,2,0.3\n64,1,1,0.8\n64,1,2,0.16\n256,1,1,0.7\n256,1,2,0.09\n",
        answer={"filter": {"epoch": "2"}},
    ),
    Case(
        "one epoch of a log",
        "n,seed,epoch,loss\n16,1,1,0.9\n16,1,2,0.3\n64,1,1,0.8\n64,1,2,0.16\n256,1,1,0.7\n256,1,2,0.09\n",
        answer={"filter": {"epoch": "2"}},
    ),
    Case(
        "steps of a log, as TensorBoard has them",
        "n_train,seed,step,value\n16,1,100,0.9\n16,1,200,0.3\n64,1,100,0.8\n64,1,200,0.16\n256,1,100,0.7\n256,1,200,0.09\n",
        answer={"filter": {"step": "200"}},
    ),
    Case(
        "runs without seeds, each with a name",
        "run_id,n,mse\na1,16,0.29\na2,16,0.31\na3,64,0.16\na4,256,0.09\n",
        answer={"columns": {"seed": "run_id"}},
        seeds=4,
    ),
    Case(
        "Weights & Biases: models in tags, and names of runs",
        "Name,Tags,n_train,test_mse\nr1,fc,16,0.3\nr2,ko,16,0.1\nr3,fc,64,0.16\nr4,ko,64,0.07\nr5,fc,256,0.09\nr6,ko,256,0.05\n",
        curves={"fc": FC, "ko": KO},
        answer={"columns": {"model": "Tags"}},
    ),
    Case(
        "trials that are models",
        "n,trial,mse\n16,fc-1,0.3\n16,ko-1,0.1\n64,fc-1,0.16\n64,ko-1,0.07\n256,fc-1,0.09\n256,ko-1,0.05\n",
        curves={"fc-1": FC, "ko-1": KO},
        answer={"columns": {"model": "trial"}},
    ),
    Case("numbered runs", "n,run,mse\n16,1,0.2\n16,2,0.4\n64,1,0.16\n256,1,0.09\n", seeds=2),
    Case(
        "runs named run-1, run-2",
        "n,run,mse\n16,run-1,0.2\n16,run-2,0.4\n64,run-1,0.16\n256,run-1,0.09\n",
        seeds=2,
    ),
    Case("folds", "n,fold,mse\n16,1,0.2\n16,2,0.4\n64,1,0.16\n256,1,0.09\n", seeds=2),
    Case(
        "seed and fold",
        "n,seed,fold,mse\n16,1,1,0.2\n16,1,2,0.4\n64,1,1,0.16\n256,1,1,0.09\n",
        seeds=2,
    ),
    Case(
        "random_state", "n,random_state,mse\n16,7,0.2\n16,8,0.4\n64,7,0.16\n256,7,0.09\n", seeds=2
    ),
    # --- Rows that stay out ---
    *(
        Case(
            f"excluded rows, by {name} = {mark}",
            f"n,mse,seed,{name}\n16,9,1,{mark}\n16,0.3,2,\n64,0.16,1,\n256,0.09,1,\n",
            says="1 excluded row left out",
            seeds=2,
        )
        for name, mark in split("exclude x, excluded yes, outlier 1, Exclude TRUE, ignore ja")
    ),
    *(
        Case(
            f"rows that are not {name}",
            f"n,mse,seed,{name}\n16,9,1,{no}\n16,0.3,2,{yes}\n64,0.16,1,{yes}\n256,0.09,1,{yes}\n",
            says="1 excluded row left out",
            seeds=2,
        )
        for name, no, yes in split(
            "valid 0 1, include no yes, use False True, keep nein ja, ok FALSCH WAHR"
        )
    ),
    *(
        Case(
            f"a remark in {name}",
            f"n,mse,seed,{name}\n16,9,1,diverged - ignore\n16,0.3,2,\n64,0.16,1,\n256,0.09,1,\n",
            answer={"filter": {name: ""}},
            says="remark",
            seeds=2,
        )
        for name in ("notes", "comment", "Bemerkung", "x")
    ),
    Case(
        "remarks that say nothing",
        "n,mse,notes\n16,0.3,\n64,0.16,GPU 2\n256,0.09,\n",
        answer={"ignore": "notes"},
    ),
    # --- Units, scales and transforms ---
    *(
        column(f"decimal logarithms: {head}", f"n,{head}", LOGS, unit="log10", says="unit log10")
        for head in ("MSE (log10)", "log10 MSE", "log10_mse", "log10(MSE)", "test_mse_log10")
    ),
    *(
        column(
            f"logarithms to some base: {head}",
            f"n,{head}",
            LOGS,
            answer={"unit": "log10"},
            unit="log10",
        )
        for head in ("logMSE", "log MSE", "log(mse)", "mse_log")
    ),
    column("natural logarithms", "n,ln MSE", LOGS, answer={"unit": "ln"}, unit="ln"),
    *(
        column(
            f"errors in decibels: {head}", f"n,{head}", "16 -10, 64 -13, 256 -16", unit="error_db"
        )
        for head in ("MSE [dB]", "nmse_db", "NMSE (dB)")
    ),
    *(
        Case(
            f"decibels of what?: {head}",
            f"n,{head}\n16,20\n64,23\n256,26\n",
            curves=one("16 20, 64 23, 256 26", model),
            answer={"unit": "psnr"},
            unit="psnr",
        )
        for head, model in (("KO [dB]", "KO"), ("quality (dB)", "quality"))
    ),
    column("units of N that are counts", "N (scans),MSE"),
    column("rmse is squared", "n,rmse", unit="rmse", says="unit rmse, by its name"),
    column("RMSE [HU]", "n,RMSE [HU]", unit="rmse"),
    column(
        "rmse that is meant as it is", "n,rmse", unit="error", answer={"unit": "error"}, says="-"
    ),
    *(
        column(f"{name} from 0 to 1", f"n,{name}", RISING, unit=unit)
        for name, unit in split(
            "accuracy accuracy, val_acc accuracy, Dice dice, SSIM ssim, AUROC auc, R² r2, F1 f1, mIoU iou"
        )
    ),
    *(
        column(
            f"{name} that falls with N",
            f"n,{name}",
            answer={"unit": "error"},
            says="falls to less than half",
        )
        for name in ("SSIM", "accuracy", "dice")
    ),
    column("1-accuracy", "n,1-accuracy"),
    column("a score that rises", "n,score", RISING, answer={"unit": "accuracy"}, unit="accuracy"),
    column(
        "negated scores of scikit-learn",
        "n,neg_mean_squared_error",
        "16 -0.3, 64 -0.16, 256 -0.09",
        unit="negated",
    ),
    Case(
        "a column unit",
        "n,error,unit\n16,20,psnr\n64,23,psnr\n256,26,psnr\n",
        curves=one("16 20, 64 23, 256 26"),
        unit="psnr",
    ),
    # --- Wide tables ---
    Case(
        "models with numbers in their names",
        "n,ResNet18,ResNet34\n" + WIDE,
        curves={"ResNet18": FC, "ResNet34": KO},
    ),
    *(
        Case(
            f"seeds, sites or widths: {a}, {b}",
            f"n,{a},{b}\n16,0.2,0.4\n64,0.16,0.16\n256,0.09,0.09\n",
            answer={"wide": "seed"},
            seeds=2,
        )
        for a, b in split("1 2, s1 s2, S1 S2, 32 64, 42 43")
    ),
    *(
        Case(
            f"sites that are no seeds: {a}, {b}",
            f"n,{a},{b}\n{WIDE}",
            curves={a: FC, b: KO},
            answer={"wide": "model"},
        )
        for a, b in (("S1", "S2"), ("32", "64"), ("w 32", "w 64"))
    ),
    *(
        Case(
            f"a column {extra} beside its model",
            f"n,FC,{extra},KO\n"
            + "".join(f"{n},{a},0.01,{b}\n" for n, a, b in zip(*VALUES, strict=True)).replace(
                "64,0.16,0.01", "64,0.16,0.02"
            ),
            curves=BOTH,
            answer={"ignore": extra},
        )
        for extra in BESIDE
    ),
    *(
        Case(
            f"a column {extra} that does not change",
            f"n,FC,{extra},KO\n"
            + "".join(f"{n},{a},7,{b}\n" for n, a, b in zip(*VALUES, strict=True)),
            curves=BOTH,
            says="not used",
        )
        for extra in ("GFLOPs", "Parameters (M)", "epochs", "lr")
    ),
    *(
        Case(
            f"a column {extra} that rises",
            f"n,FC,KO,{extra}\n16,0.3,0.1,5\n64,0.16,0.07,9\n256,0.09,0.05,30\n",
            curves=BOTH,
            answer={"ignore": extra},
        )
        for extra in ("time", "GPU hours", "Dauer", "memory")
    ),
    Case(
        "mean and std, the means alone",
        "n,mean,std\n16,0.3,0.02\n64,0.16,0.01\n256,0.09,0.01\n",
        answer={"ignore": "std"},
    ),
    Case(
        "mse_mean and mse_std",
        "n,mse_mean,mse_std\n16,0.3,0.02\n64,0.16,0.01\n256,0.09,0.01\n",
    ),
    Case(
        "models with their std",
        "n,FC,FC std,KO,KO std\n16,0.3,0.02,0.1,0.01\n64,0.16,0.01,0.07,0.01\n256,0.09,0.01,0.05,0.01\n",
        curves=BOTH,
        says="not used: 'FC std', 'KO std'",
    ),
    Case(
        "0.3 +/- 0.02 for two models",
        "n,FC,KO\n16,0.3 +/- 0.02,0.1 +/- 0.01\n64,0.16 +/- 0.01,0.07 +/- 0.01\n256,0.09 +/- 0.01,0.05 +/- 0.01\n",
        curves=BOTH,
        says="spreads in 'FC' are not used; spreads in 'KO' are not used",
    ),
    Case(
        "a deviation of another name",
        "n,error,spread\n16,0.3,0.02\n64,0.16,0.01\n256,0.09,0.01\n",
        says="not used: 'spread'",
    ),
    Case(
        "seeds of one metric",
        "n,mse seed 1,mse seed 2\n16,0.2,0.4\n64,0.16,0.16\n256,0.09,0.09\n",
        seeds=2,
    ),
    Case(
        "several sizes",
        "n,n_test,train_size,mse\n1,100,16,0.3\n2,100,64,0.16\n3,100,256,0.09\n",
        answer={"columns": {"n": "train_size"}},
    ),
    # --- Copies of tables ---
    Case(
        "Markdown without bars at its edges",
        "n | FC | KO\n---|---|---\n16 | 0.3 | 0.1\n64 | 0.16 | 0.07\n256 | 0.09 | 0.05\n",
        curves=BOTH,
    ),
    Case(
        "R's write.csv2",
        '"";"n";"error"\n"1";16;0,3\n"2";64;0,16\n"3";256;0,09\n',
        says="decimal commas",
    ),
    column("Excel in English", "n,error"),
    Case(
        "pandas' JSON, orient table",
        json.dumps(
            {
                "schema": {"fields": []},
                "data": [
                    {"index": k, "n": n, "error": a}
                    for k, (n, a, _) in enumerate(zip(*VALUES, strict=True))
                ],
            }
        ),
    ),
    Case(
        "TensorBoard's wall time and step",
        "Wall time,Step,Value\n1700000000,16,0.3\n1700000100,64,0.16\n1700000200,256,0.09\n",
        answer={"columns": {"n": "Step"}},
        says="'Step'",
    ),
]


def described(curve: Curve) -> str:
    values = zip(curve.sizes, curve.unit.from_error(curve.means), strict=True)
    return ", ".join(f"{n} {round(float(value), 7):.6g}" for n, value in values)


def check(curves: tuple[Curve, ...], case: Case) -> None:
    read = {curve.model: described(curve) for curve in curves}
    wanted = case.curves
    if set(read.values()) == set(wanted.values()) and len(read) == len(wanted) > 1:
        wanted = (
            dict(zip(read, wanted.values(), strict=True)) if "model" in str(case.answer) else wanted
        )
    assert read == wanted
    assert {curve.unit.name for curve in curves} == {case.unit}
    linear = case.unit in ("error", "accuracy", "percent")
    assert {len(curve.seeds) for curve in curves} == {case.seeds} or not linear


@pytest.mark.parametrize("case", CASES, ids=[case.about for case in CASES])
def test_a_table_is_read_rightly_or_its_question_has_the_answer(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_text(case.table, encoding="utf-8")
    if case.answer is None:
        curves = Curve.read_all(path)
        assert case.says in curves[0].read_as
        check(curves, case)
        return
    if case.says != "-":
        try:
            curves = Curve.read_all(path)
        except KoriskError as error:
            question = str(error)
        else:  # what a name says needs no question
            check(curves, case)
            check(Curve.read_all(path, **case.answer), case)
            return
        assert "\n" not in question
        assert f"{next(iter(case.answer))}=" in question, question
        if case.says and not case.says[0].isdigit():
            assert case.says in question
    check(Curve.read_all(path, **case.answer), case)


def test_there_are_many_kinds() -> None:
    assert len({case.about for case in CASES}) == len(CASES) >= 133


def workbook(rows: str) -> bytes:
    """A small workbook of Excel's with these rows as XML."""
    return excel({"S": rows})


def row(number: int, *cells: str, hidden: bool = False, formula: str = "") -> str:
    texts = "".join(
        f'<c r="{column}{number}" t="inlineStr"><is><t>{cell}</t></is></c>'
        for column, cell in zip("ABCDE", cells, strict=False)
    )
    formulas = f'<c r="B{number}"><f>{formula}</f></c>' if formula else ""
    mark = ' hidden="1"' if hidden else ""
    return f'<row r="{number}"{mark}>{texts}{formulas}</row>'


def test_hidden_rows_stay_out_and_formulas_without_values_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    path = tmp_path / "book.xlsx"
    rows = row(1, "n", "error") + row(2, "16", "0.3") + row(3, "16", "9", hidden=True)
    path.write_bytes(workbook(rows + row(4, "64", "0.16") + row(5, "256", "0.09")))
    curve = Curve.read(path)
    assert described(curve) == FC
    assert curve.read_as == "1 hidden row left out"
    path.write_bytes(workbook(rows + row(4, "64", formula="B2/2")))
    with pytest.raises(KoriskError, match=r"formulas without values \(B4\)"):
        Curve.read(path)
