"""What a table is read as, or what is asked: one small table for each rule, told exactly."""

from pathlib import Path
from typing import Any

import pytest

from korisk import Curve, KoriskError
from korisk.curves.formats import in_short
from korisk.curves.read import DIGEST
from korisk.store.cells import row_digests

Told = list[tuple[str, str, str, str]]  # model, metric, "N value seed" of each row, read as

EPOCHS = "n,error,epoch,seed\n16,0.4,3,1\n16,0.5,1,1\n16,0.3,2,1\n64,0.1,2,1\n64,0.2,1,1\n"
DATASETS = "n,error,dataset\n16,0.5,A\n16,0.4,B\n64,0.3,A\n64,0.2,B\n"


class Table:
    """A file of text that is read again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def told(self, text: str, **options: Any) -> Told:
        self.path.write_text(text, encoding="utf-8")
        return [
            (
                curve.model,
                curve.metric,
                ", ".join(
                    f"{n} {round(float(value), 9):g} {seed}".rstrip()
                    for n, value, seed in zip(
                        curve.n, curve.unit.from_error(curve.error), curve.seed, strict=True
                    )
                ),
                curve.read_as,
            )
            for curve in Curve.read_all(self.path, **options)
        ]

    def asked(self, text: str, **options: Any) -> str:
        with pytest.raises(KoriskError) as caught:
            self.told(text, **options)
        question = str(caught.value)
        assert "\n" not in question
        start = f"{self.path}: "
        return question.removeprefix(start)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return Table(tmp_path_factory.mktemp("tables") / "t.csv")


def rows(*lines: object) -> str:
    return "".join(f"{line}\n" for line in lines)


def crossed(header: str, labels: range) -> str:
    """Rows of two N for every label."""
    lines = [f"{n},{label / 100},{label}" for n in (16, 64) for label in labels]
    return rows(header, *lines)


def answer(
    text: str, curves: str | dict[str, str], read_as: str = "", of: str = "", **options: Any
) -> tuple[str, dict[str, Any], Told]:
    """A table, options, and the only curve that is read then, or those of several models."""
    models = curves if isinstance(curves, dict) else {"": curves}
    return text, options, [(model, of, values, read_as) for model, values in models.items()]


ANSWERS = [
    answer(
        "n,error,seed,run\n16,0.3,1,1\n16,0.2,1,2\n",
        "16 0.3 1/1, 16 0.2 1/2",
        "each of 'seed', 'run' together is a seed",
    ),
    answer("n (images),error\n16,0.3\n", "16 0.3", "N from 'n (images)'"),
    # --- One column for each seed or model ---
    answer("n,a,b\n16,0.3,0.2\n", "16 0.3 a, 16 0.2 b", wide="seed"),
    answer(
        "n,KO s1,KO s2,FC s1,FC s2\n16,0.3,0.2,0.5,0.4\n",
        {"KO": "16 0.3 s1, 16 0.2 s2", "FC": "16 0.5 s1, 16 0.4 s2"},
        wide="seed",
    ),
    answer("n,min,max\n16,0.3,0.2\n", {"min": "16 0.3", "max": "16 0.2"}, wide="model"),
    answer(
        "n,seed 1,seed 2\n16,0.3,0.2\n",
        "16 0.3 seed 1, 16 0.2 seed 2",
        "one column for each seed (seed 1, seed 2)",
    ),
    answer(
        "n,KO seed 1,KO seed 2\n16,0.3,0.2\n64,0.2,0.1\n",
        {"KO": "16 0.3 1, 16 0.2 2, 64 0.2 1, 64 0.1 2"},
        "one column for each model and seed ('KO')",
    ),
    answer(
        "n,KO,FC\n16,0.3,0.2\n64,0.2,0.1\n",
        {"KO": "16 0.3, 64 0.2", "FC": "16 0.2, 64 0.1"},
        "one column for each model ('KO', 'FC')",
    ),
    # --- Metrics ---
    answer(
        "n,train_mse,val_mse,test_mse\n16,0.3,0.2,0.1\n",
        "16 0.1",
        "values from 'test_mse'; not used: 'train_mse', 'val_mse'",
        of="test_mse",
    ),
    answer(
        "n,train_mse,val_mse\n16,0.3,0.2\n",
        "16 0.2",
        "values from 'val_mse'; not used: 'train_mse'",
        of="val_mse",
    ),
    answer(
        "n,mse seed 1,mse seed 2\n16,0.3,0.2\n",
        "16 0.3 1, 16 0.2 2",
        "values from 'mse'; one column for each seed (2)",
        of="mse",
    ),
    answer(
        "n,mse,mae,loss,rmse,nmse,mape\n16,1,2,3,4,5,6\n",
        "16 1",
        "values from 'mse', 'mae', 'loss', 'rmse', 'nmse', ...",
        of="mse",
        metric="mse",
    ),
    answer(
        "n,mse,model\n16,0.3,KO\n16,0.2,FC\n",
        {"KO": "16 0.3", "FC": "16 0.2"},
        "values from 'mse'",
        of="mse",
    ),
    answer(
        "params.n,metrics.mse\n16,0.3\n", "16 0.3", "N from 'params.n'; values from 'mse'", of="mse"
    ),
    answer("n,value\n16,0.3\n", "16 0.3"),
    answer("n,Fehler\n16,0.3\n", "16 0.3"),
    answer("n,mean\n16,0.3\n64,0.2\n", "16 0.3, 64 0.2"),
    # --- Names of N ---
    answer(
        "Anzahl Bilder,mse\n16,0.3\n",
        "16 0.3",
        "N from 'Anzahl Bilder'; values from 'mse'",
        of="mse",
    ),
    # --- Names of models and seeds ---
    answer(
        "n,FC,KO\n16,0.3,0.2\n64,0.2,\n",
        {"FC": "16 0.3, 64 0.2", "KO": "16 0.2"},
        "one column for each model ('FC', 'KO'); 1 empty cell left out",
    ),
    answer(
        "n,FC,KO,GPU\n16,0.3,0.1,2\n64,0.2,0.05,2\n",
        {"FC": "16 0.3, 64 0.2", "KO": "16 0.1, 64 0.05"},
        "one column for each model ('FC', 'KO'); not used: 'GPU'",
    ),
    answer(
        "n,FC,KO\n16,0.3,0.2\n",
        {"FC": "16 0.3", "KO": "16 0.2"},
        "one column for each model ('FC', 'KO')",
    ),
    answer(
        "n,KO (a),KO (b)\n16,0.3,0.2\n",
        {"KO a": "16 0.3", "KO b": "16 0.2"},
        "one column for each model ('KO a', 'KO b')",
    ),
    answer(
        "n,FC 50%,KO\n16,0.3,0.2\n",
        {"FC 50%": "16 0.3", "KO": "16 0.2"},
        "one column for each model ('FC 50%', 'KO')",
    ),
    answer("n,KO 1,FC 2\n16,0.3,0.2\n", "16 0.2 FC 2, 16 0.3 KO 1", wide="seed"),
    answer("n,KO 1,KO 2\n16,0.3,0.2\n", "16 0.3 KO 1, 16 0.2 KO 2", wide="seed"),
    answer("n,KO s1,KO s2\n16,0.3,0.2\n", {"KO": "16 0.3 s1, 16 0.2 s2"}, wide="seed"),
    # --- Names of runs ---
    answer("n,error,run\n16,0.3,run1\n16,0.2,run2\n", "16 0.3 run1, 16 0.2 run2"),
    answer("n,error,run\n16,0.3,1\n16,0.2,2\n", "16 0.3 1, 16 0.2 2"),
    answer("n,error,run\n16,0.3,unet-1\n64,0.2,ko-2\n", "16 0.3, 64 0.2", "not used: 'run'"),
    answer("n,error,run\n16,0.3,a\n64,0.2,a\n", "16 0.3, 64 0.2", "not used: 'run'"),
    answer("n,error,failed\n16,0.3,maybe\n64,0.2,maybe\n", "16 0.3, 64 0.2", "not used: 'failed'"),
    answer("n,error,\n16,0.3,\n64,0.2,5\n", "16 0.3, 64 0.2", "not used: 'column 3'"),
    # --- Deviations ---
    answer("n,mean,std\n16,0.3,0.1\n", "16 0.3", "not used: 'std'"),
    answer(
        "n,KO mean,KO std,FC mean,FC std\n16,0.3,0.1,0.5,0.2\n",
        {"KO": "16 0.3", "FC": "16 0.5"},
        "one column for each model ('KO', 'FC'); not used: 'KO std', 'FC std'",
    ),
    answer(
        "n,mse mean,mse std\n16,0.3,0.1\n",
        "16 0.3",
        "values from 'mse mean'; not used: 'mse std'",
        of="mse mean",
    ),
    answer("n,error\n16,0.5 ± 0.1\n64,0.3\n", "16 0.5, 64 0.3", "spreads in 'error' are not used"),
    answer("n,error\n16,0.5 (0.1)\n", "16 0.5", "spreads in 'error' are not used"),
    # --- Rows ---
    answer(EPOCHS, "16 0.3 1, 64 0.1 1", "3 rows left out by epoch=2", filter={"epoch": "2"}),
    answer(DATASETS, "16 0.5, 64 0.3", "2 rows left out by dataset=a", filter={"dataset": "a"}),
    answer(
        DATASETS + "128,0.1,C\n",
        "16 0.4, 64 0.2",
        "3 rows left out by dataset=!A, !C",
        filter={"dataset": ["!A", "!C"]},
    ),
    answer(
        "n,error,dataset\n16,0.5,A\n64,0.3,B\n",
        "16 0.5",
        "1 row left out by dataset=A",
        filter={"dataset": "A"},
    ),
    answer(
        "n,error,status\n16,0.5,finished\n64,0.3,crashed\n128,0.2,crashed\n256,0.2,running\n",
        "16 0.5",
        "2 crashed runs left out; 1 running run left out",
    ),
    answer("n,error,exclude\n16,0.5,no\n64,0.3,yes\n", "16 0.5", "1 excluded row left out"),
    answer(
        rows("n,error,status", "16,0.5,ok", f"64,0.3,{'a' * 25}"),
        "16 0.5",
        f"1 {'a' * 20} run left out",
    ),
    # A number that follows from N, such as a time, splits nothing.
    answer(
        rows(
            "n,error,seed,t",
            *(f"{n},{k / 10},{k},{n + k // 3}" for n in (16, 64) for k in (1, 2, 3)),
        ),
        "16 0.1 1, 16 0.2 2, 16 0.3 3, 64 0.1 1, 64 0.2 2, 64 0.3 3",
        "not used: 't'",
    ),
    answer("n,error,valid\n16,0.5,no\n64,0.3,yes\n", "64 0.3", "1 excluded row left out"),
    answer("n,error,seed\n16,0.5,mean\n64,0.3,mean\n", "16 0.5 mean, 64 0.3 mean"),
    answer(
        "n,error,day\n16,0.5,2024-01-01\n64,0.3,2024-02-01\n", "16 0.5, 64 0.3", "not used: 'day'"
    ),
    answer("n,error,a,b,c,d,e\n16,0.2,1,2,3,4,5\n", "16 0.2", "not used: 'a', 'b', 'c', 'd', 'e'"),
    answer(
        "n,error,a,b,c,d,e,f\n16,0.2,1,2,3,4,5,6\n",
        "16 0.2",
        "not used: 'a', 'b', 'c', 'd', 'e' and others",
    ),
    answer("n;error\n16;0,5\n64;0,25\n", "16 0.5, 64 0.25", "decimal commas"),
]


@pytest.mark.parametrize(("text", "options", "told"), ANSWERS)
def test_a_clear_table_is_read_and_tells_how(
    table: Table, text: str, options: dict[str, Any], told: Told
) -> None:
    assert table.told(text, **options) == told


@pytest.mark.parametrize(
    ("text", "options", "question"),
    [
        (DATASETS, {"filter": {"dataset": "C"}}, "no row has dataset=C; it has 'A', 'B'"),
        (
            DATASETS,
            {"filter": {"datset": "A"}},
            "no column 'datset'; did you mean 'dataset'?",
        ),
        (
            DATASETS,
            {"columns": {"n": "errors"}},
            "no column 'errors'; did you mean 'error'?",
        ),
        (DATASETS, {"wide": "x"}, "wide must be one of seed, model, got 'x'"),
        (DATASETS, {"columns": {"m": "n"}}, "a key of columns must be one of n, error, seed"),
        (DATASETS, {"columns": {"n": 2}}, "columns['n'] must be a column's name, got 2; write one"),
        (DATASETS, {"columns": "n"}, "columns must map our names to yours, got 'n'; pass a dict"),
    ],
)
def test_a_wrong_option_is_named(
    table: Table, text: str, options: dict[str, Any], question: str
) -> None:
    assert table.asked(text, **options).startswith(question)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("n [k],error\n16,0.3\n", "'n [k]' may count in 'k'; write plain numbers"),
        ("n,error (x 1e3)\n16,0.3\n", "'error (x 1e3)' may count in 'x 1e3'; write plain"),
        ("n,FC,KO (x 1e3)\n16,0.3,9\n64,0.2,8\n", "'KO (x 1e3)' may count in 'x 1e3'; write"),
        ("data (%),mse,n\n16,0.3,16%\n", "'n' is a share of the data, and N counts samples"),
        ("name,16,64\nKO,0.3,0.2\n", "N is in the heads of columns ('16', '64'); write a row for"),
        ("N,16,N = 64\nKO,0.3,0.2\n", "N is in the heads of columns ('16', 'N = 64'); write a"),
        ("seed,n=16,n=64\n1,0.3,0.2\n2,0.4,0.3\n", "N is in the heads of columns ('n=16', 'n="),
    ],
)
def test_what_counts_in_another_way_is_refused(table: Table, text: str, refusal: str) -> None:
    question = table.asked(text)
    assert question.startswith(refusal)
    assert "; write " in question


@pytest.mark.parametrize("option", ["last", "scale", "seeds"])
def test_an_unknown_option_is_refused(table: Table, option: str) -> None:
    assert f"no option '{option}'" in table.asked("n,error\n16,0.3\n", **{option: "n"})


@pytest.mark.parametrize(("wrong", "rest"), [(1, ""), (2, ", and so are 1 more"), (13, "12 more")])
def test_the_first_problem_is_named_and_the_others_of_its_column_are_counted(
    table: Table, wrong: int, rest: str
) -> None:
    text = rows("n,error", *(f"16,x{k}" for k in range(wrong)), *(f"{k},1" for k in range(2, 20)))
    question = table.asked(text)
    assert question.startswith("line 2, column 'error': 'x0' is no number")
    assert question.endswith(f"{rest}; write numbers as 64, 0.001 or 1e-3")


def test_texts_are_cut_after_the_tenth() -> None:
    names = [f"u{k}" for k in range(11)]
    assert in_short([*names[:10], "u0"]) == ", ".join(names[:10])
    assert in_short(names) == ", ".join(names[:10]) + ", ..."
    assert in_short(names, 2) == "u0, u1, ..."


# --- Checksums -----------------------------------------------------------------------------------


def signed(lines: list[list[str]], header: list[str]) -> str:
    digests = row_digests(header, [list(line) for line in lines])
    return rows(
        ",".join([header[0], DIGEST, *header[1:]]),
        *(
            ",".join([line[0], digest, *line[1:]])
            for line, digest in zip(lines, digests, strict=True)
        ),
    )


LINES = [[str(n), f"{1 / n:g}"] for n in range(2, 16)]


def test_a_checked_table_is_read_without_its_checksums(table: Table) -> None:
    text = signed(LINES, ["n", "error"])
    assert table.told(text) == table.told(rows("n,error", *map(",".join, LINES)))
    lines = [line.split(",") for line in text.splitlines()]
    first = rows(*(",".join([digest, n, error]) for n, digest, error in lines))
    assert table.told(first) == table.told(text)
    changed = first.replace(",0.5", ",0.6")
    assert table.asked(changed).startswith("line 2: changed after korisk wrote them")
    # Anyone may call a column digest; theirs is no checksum.
    other = rows("n,error,digest", "16,0.5,d1", "64,0.3,d2")
    assert table.told(other) == [("", "", "16 0.5, 64 0.3", "not used: 'digest'")]


@pytest.mark.parametrize(
    ("changed", "which"),
    [
        ([3], "line 4: changed after korisk wrote them"),
        ([3, 5], "line 4, line 6: changed after"),
        (range(2, 12), ", ".join(f"line {k + 1}" for k in range(2, 12)) + ": changed"),
        (range(2, 13), ", ".join(f"line {k + 1}" for k in range(2, 12)) + ", ...: changed"),
        (range(1, 15), "the header or the number of rows: changed after korisk wrote them"),
    ],
)
def test_a_changed_row_is_named(table: Table, changed: Any, which: str) -> None:
    lines = signed(LINES, ["n", "error"]).splitlines()
    for k in changed:
        lines[k] += "1"
    question = table.asked(rows(*lines))
    assert question.startswith(which)
    assert "remove the column 'digest' if you changed them on purpose" in question


def test_a_removed_row_changes_all(table: Table) -> None:
    lines = signed(LINES, ["n", "error"]).splitlines()
    assert table.asked(rows(*lines[:-1])).startswith("the header or the number of rows: changed")


# --- Units ---------------------------------------------------------------------------------------


def risen(name: str, *values: float) -> str:
    return rows(f"n,{name}", *(f"{16 * 4**k},{value}" for k, value in enumerate(values)))


@pytest.mark.parametrize(
    ("text", "metric", "unit", "values"),
    [
        (risen("psnr", 20, 30), "psnr", "psnr", [20, 30]),
        (risen("rmse", 0.5, 0.25), "rmse", "rmse", [0.5, 0.25]),
        (risen("MSE (log10)", -1, -2), "MSE", "log10", [-1, -2]),
        (risen("mse", 0.25, 0.5), "mse", "error", [0.25, 0.5]),  # its name leaves no doubt
        (risen("1 - ssim", 0.5, 0.25), "1 - ssim", "error", [0.5, 0.25]),
        (rows("n,error,unit", "16,0.5,dice", "64,0.75,dice"), "", "dice", [0.5, 0.75]),
        (rows("n,error,unit", "16,0.5,mm", "64,0.25,mm"), "", "error", [0.5, 0.25]),
    ],
)
def test_a_unit_is_known_by_a_name(
    table: Table, text: str, metric: str, unit: str, values: list[float]
) -> None:
    table.path.write_text(text, encoding="utf-8")
    curve = Curve.read(table.path)
    assert (curve.metric, curve.unit.name) == (metric, unit)
    assert curve.unit.from_error(curve.error) == pytest.approx(values)
    named = f"unit {unit}, by its name" in curve.read_as
    assert named is (unit != "error" and "unit" not in text)


def test_a_requested_unit_overrules_a_column_of_units(table: Table) -> None:
    text = rows("n,error,unit", "16,0.5,dice", "64,0.25,psnr")
    assert table.told(text, unit="error") == [("", "", "16 0.5, 64 0.25", "")]


def test_a_header_that_is_too_long_for_a_model_is_refused(table: Table) -> None:
    text = rows(f"n,{'x' * 81}", "16,0.5", "64,0.25")
    assert table.asked(text).startswith("model must be a printable text of at most 80 characters")
    assert table.told(text.replace("x" * 81, "x" * 80))[0][0] == "x" * 80


def test_a_value_without_n_and_a_metric_in_two_units_are_refused(table: Table) -> None:
    missing = "line 3, column 'n': N is missing; write it"
    assert table.asked("n,error\n16,0.3\n,0.2\n") == missing
    mixed = "has 'mse' in units error, rmse; write all in one"
    assert table.asked("n,mse,unit\n16,0.3,error\n32,0.2,rmse\n") == mixed
