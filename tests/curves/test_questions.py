"""What a table is read as, or what is asked: one small table for each rule, told exactly."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from korisk import Curve, KoriskError
from korisk.curves.columns import in_short, short
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


# --- Columns -------------------------------------------------------------------------------------

EITHER = "wide='model' if each column is a model, wide='seed' if each is a seed"


def beside(column: str, errors: str) -> str:
    """The question about a column that stands beside one of errors."""
    return (
        f"{column!r} may be models, seeds, or no errors at all; pass ignore={column!r} to leave "
        f"that out, {EITHER}, or columns={{'error': {errors!r}}} for one alone"
    )


def either(first: str, second: str) -> str:
    """The question about two columns of which neither is known."""
    return (
        f"{first!r}, {second!r} may be models, seeds, or no errors at all; pass "
        f"columns={{'error': {first!r}}} for one alone, {EITHER}, or ignore={[first, second]} to "
        "leave that out"
    )


def other_units(column: str) -> str:
    return (
        f"{column!r} may count in other units than the other columns; pass scale={{'error': 1}} if "
        f"all are plain numbers, or ignore={column!r} to leave that out"
    )


def thousands(column: str, unit: str) -> str:
    return (
        f"{column!r} may count in {unit!r}; pass scale={{'error': 0.001}} to multiply them, or "
        "scale={'error': 1} if they are plain numbers"
    )


def no_count(unit: str) -> str:
    return (
        f"'n [{unit}]' may count in {unit!r}; pass scale={{'n': 1}} if they are plain numbers, or "
        "scale={'n': ...} to multiply them"
    )


def missing(name: str, *columns: str) -> str:
    """What is said where no column has a role."""
    return (
        f"no column {name!r}, found {', '.join(map(repr, columns))}; needed are n and error, or n "
        f"and one column per seed or model: pass columns={{{name!r}: '...'}}"
    )


def in_percent(column: str, unit: str) -> str:
    return (
        f"column {column!r} is in percent; pass unit={unit!r} to take its numbers as they are, and "
        "give targets in percent too"
    )


FRACTIONS = "unit='accuracy' for fractions of 1"


def rising(column: str, answers: str) -> str:
    return (
        f"column {column!r} does not say whether larger is better, and its values rise with N; "
        f"pass {answers}, or unit='error'"
    )


QUESTIONS = [
    # Half of the cells make a column one of numbers; a third does not.
    (
        "n,FC\n16,0.3\n64,bad\n",
        "line 3, column 'FC': 'bad' is no number; write numbers as 64, 0.001 or 1e-3",
    ),
    ("n,FC\n16,0.3\n64,bad\n128,bad\n", missing("error", "n", "FC")),
    # Two counts of training samples.
    (
        "n_train,n_test,train_n,error\n16,5,7,0.3\n",
        "N may be in 'n_train', 'train_n'; pass columns={'n': 'n_train'} if that is right",
    ),
    # Two columns of models.
    (
        "n,error,model,method\n16,0.3,a,b\n",
        "model may be in 'model', 'method'; pass columns={'model': 'model'} if that is right",
    ),
    # Columns of numbers.
    (
        "n,1,2\n16,0.3,0.2\n",
        "'1', '2' may be models, seeds, or no errors at all; pass wide='seed' if each is a seed, "
        "wide='model' if each column is a model, wide='n' if each is an N, or ignore=['1', '2'] to "
        "leave that out",
    ),
    # A statistic beside a model.
    ("n,FC,min\n16,0.3,0.2\n64,0.2,0.1\n", beside("min", "FC")),
    # Statistics alone.
    ("n,min,max\n16,0.3,0.2\n64,0.2,0.1\n", either("min", "max")),
    # Words that describe other columns.
    ("n,test,size\n16,0.3,0.2\n64,0.2,0.1\n", either("test", "size")),
    # Seeds of models.
    (
        "n,KO 1,KO 2,FC 1,FC 2\n16,0.3,0.2,0.3,0.2\n64,0.2,0.1,0.2,0.1\n",
        "'KO 1', 'KO 2', 'FC 1', 'FC 2' may be models, seeds, or no errors at all; pass "
        "wide='seed' if each is a seed of a model, wide='model' if each column is a model, or "
        "ignore=['KO 1', 'KO 2', 'FC 1', 'FC 2'] to leave that out",
    ),
    # A time rises where errors fall.
    ("n,FC,time\n64,0.2,2\n16,0.3,1\n", beside("time", "FC")),
    # A longer name of a model.
    ("n,FC,FC CI95\n16,0.3,0.2\n64,0.2,0.1\n", beside("FC CI95", "FC")),
    (
        "n [k],error\n16,0.3\n64,0.2\n",
        "'n [k]' may count in 'k'; pass scale={'n': 1000} to multiply them, or scale={'n': 1} if "
        "they are plain numbers",
    ),
    # Another unit of N.
    ("n [epochs],error\n16,0.3\n64,0.2\n", no_count("epochs")),
    # Scaled errors.
    ("n,error (x 1e3)\n16,0.3\n64,0.2\n", thousands("error (x 1e3)", "x 1e3")),
    # Numbers that name the rows of sizes.
    (
        "x,16,64\n1,0.3,0.2\n2,0.4,0.3\n",
        "columns are named after N, and 'x' names the rows; pass columns={'seed': 'x'} if it has "
        "seeds",
    ),
    # Texts that name the rows of sizes, beside others.
    (
        "x,y,16,64\na,c,0.3,0.2\nb,d,0.4,0.3\n",
        "columns are named after N, and 'x' names the rows; pass columns={'model': 'x'} if it has "
        "models",
    ),
    (
        "n,mse mean,mse std\n16,0.3,0.1\n64,0.2,0.1\n",
        "'mse std' has standard deviations; pass seeds= with the number of seeds behind each mean "
        "(2 to 1000), or ignore='mse std' to read the means alone",
    ),
    # Training errors alone.
    (
        "n,train_mse\n16,0.3\n64,0.2\n",
        "'train_mse' is of the training data, not of test data; pass "
        "columns={'error': 'train_mse'} if it is not",
    ),
    # A metric beside that of a model.
    (
        "n,mse,FC mae\n16,0.3,0.1\n64,0.2,0.1\n",
        "values may be in 'mse', 'FC mae'; pass columns={'error': 'mse'} for that one alone, or "
        "ignore='mse' to read the others",
    ),
    # No column of errors at all.
    ("n\n16\n64\n", missing("error", "n")),
    # A misspelt name.
    ("m,errors\n16,0.3\n", missing("n", "m", "errors")),
    # Errors larger than N.
    ("n,FC,time\n16,30,1\n64,20,2\n", beside("time", "FC")),
    # A column that ends where it began, beside one that falls.
    ("n,FC,KO\n16,0.3,0.3\n64,0.2,0.2\n256,0.1,0.3\n", beside("KO", "FC")),
    # Percent of N.
    ("n [%],error\n16,0.3\n", no_count("%")),
    # Two metrics beside that of a model, the test set first.
    (
        "n,mse,test_mae,FC loss\n16,0.3,0.2,0.1\n64,0.2,0.1,0.05\n",
        "values may be in 'test_mae', 'mse', 'FC loss'; pass columns={'error': 'test_mae'} for "
        "that one alone, or ignore=['test_mae', 'mse'] to read the others",
    ),
    # Two training errors.
    (
        "n,train_mse,training_loss\n16,0.3,0.2\n",
        "'train_mse' is of the training data, not of test data; pass "
        "columns={'error': 'train_mse'} if it is not",
    ),
    # One column named by a number.
    ("x,16\n1,0.3\n", missing("n", "x", "16")),
    # A mean beside a model.
    ("n,mean,KO\n16,0.3,0.2\n64,0.2,0.1\n", beside("mean", "KO")),
    # Percent in every header.
    ("n,FC [%],KO [%]\n16,0.3,0.2\n64,0.2,0.1\n", in_percent("FC [%]", "error")),
    # A column of metrics beside columns of metrics.
    (
        "n,metric,mse,mae\n16,a,0.3,0.2\n",
        "values may be in 'mse', 'mae'; pass columns={'error': 'mse'} for that one alone",
    ),
    # A column of seeds beside columns of seeds.
    ("n,seed,mse seed 1,mse seed 2\n16,1,0.3,0.2\n", beside("seed", "mse seed 1")),
    # A column of seeds beside columns of plain seeds.
    ("n,seed,seed 1,seed 2\n16,1,0.3,0.2\n", beside("seed", "seed 1")),
    # A column of models beside columns of models.
    ("n,model,a,b\n16,KO,0.3,0.2\n64,KO,0.2,0.1\n", either("a", "b")),
    # A seed beside a model.
    ("n,KO,seed 1\n16,0.3,0.2\n64,0.2,0.1\n", beside("KO", "seed 1")),
    # A text that changes from N to N.
    (
        "n,error,seed,phase\n16,0.5,1,A\n16,0.4,2,A\n64,0.3,1,B\n64,0.2,2,B\n",
        "'phase' has 'A', 'B' in one curve; pass columns={'model': 'phase'} if it tells models "
        "apart, filter={'phase': 'B'} for one of them, columns={'seed': 'phase'} if it numbers "
        "repetitions, or ignore='phase' if it says nothing",
    ),
    # The first of two models is scaled.
    ("n,KO (x 1e3),FC\n16,300,0.3\n64,200,0.2\n", other_units("KO (x 1e3)")),
    # The second of two models is scaled.
    ("n,FC,KO (x 1e3)\n16,0.3,300\n64,0.2,200\n", other_units("KO (x 1e3)")),
    # Two models are scaled differently.
    ("n,FC (x 1e2),KO (x 1e3)\n16,30,300\n64,20,200\n", other_units("KO (x 1e3)")),
    # Both models are scaled alike.
    ("n,FC (x 1e3),KO (x 1e3)\n16,400,300\n64,300,200\n", thousands("FC (x 1e3)", "x 1e3")),
    # Both models are scaled alike, without brackets.
    ("n,FC x 1e3,KO x1e3\n16,400,300\n64,300,200\n", thousands("FC x 1e3", "FC x 1e3")),
    # Means are scaled and their deviations say nothing.
    ("n,error (x 1e3),std\n16,300,20\n64,200,10\n", thousands("error (x 1e3)", "x 1e3")),
    # Deviations alone are scaled.
    ("n,error,std (x 1e3)\n16,0.3,20\n64,0.2,10\n", other_units("std (x 1e3)")),
    ("n,x\n16,\n64,\n", "holds no measurements; add rows with n and error"),
    ("n,error\n", "holds no measurements; add rows with n and error"),
    # --- Rows ---
    # Several problems.
    (
        "n,error\n16,x\n17,0.1\n,0.2\n",
        "line 2, column 'error': 'x' is no number, line 4, column 'n': is missing; write numbers "
        "as 64, 0.001 or 1e-3, write N",
    ),
    # Shares of a training set.
    (
        "n,error\n2,0.4\n0.5,0.2\n0.25,0.3\n",
        "line 3, column 'n': N must be a whole number from 2 to 10^15, got 0.5; pass "
        "scale={'n': ...} to multiply a share by the size of all",
    ),
    # Epochs of seeds.
    (
        EPOCHS,
        "'epoch' has '3', '1', '2' in one curve; pass last='epoch' for the last of each run, "
        "best='epoch' for the best, filter={'epoch': '1'} for one of them, "
        "columns={'model': 'epoch'} if it tells models apart, columns={'seed': 'epoch'} if it "
        "numbers repetitions, or ignore='epoch' if it says nothing",
    ),
    # Epochs without seeds.
    (
        "n,error,epoch\n16,.5,1\n16,.4,2\n64,.3,1\n64,.2,2\n",
        "'epoch' has '1', '2' in one curve; pass last='epoch' for the last of each run, "
        "best='epoch' for the best, filter={'epoch': '2'} for one of them, "
        "columns={'model': 'epoch'} if it tells models apart, columns={'seed': 'epoch'} if it "
        "numbers repetitions, or ignore='epoch' if it says nothing",
    ),
    # Errors of training beside those of test images.
    (
        "n,error,split\n16,.6,test\n16,.5,train\n64,.4,test\n64,.3,train\n",
        "'split' has 'test', 'train' in one curve; pass filter={'split': 'test'} for one of them, "
        "columns={'model': 'split'} if it tells models apart, or ignore='split' if it says nothing",
    ),
    # Up to ten numbers may be anything.
    (
        crossed("n,error,k", range(1, 11)),
        "'k' has '1', '2', '3', '4', ... in one curve; pass columns={'model': 'k'} if it tells "
        "models apart, columns={'seed': 'k'} if it numbers repetitions, filter={'k': '10'} for one "
        "of them, last='k' for the last of each run, or ignore='k' if it says nothing",
    ),
    # Eleven are epochs.
    (
        crossed("n,error,k", range(1, 12)),
        "'k' has '1', '2', '3', '4', ... in one curve; pass last='k' for the last of each run, "
        "best='k' for the best, filter={'k': '11'} for one of them, columns={'model': 'k'} if it "
        "tells models apart, columns={'seed': 'k'} if it numbers repetitions, or ignore='k' if it "
        "says nothing",
    ),
    # Data sets.
    (
        DATASETS,
        "'dataset' has 'A', 'B' in one curve; pass columns={'model': 'dataset'} if it tells models "
        "apart, filter={'dataset': 'B'} for one of them, columns={'seed': 'dataset'} if it numbers "
        "repetitions, or ignore='dataset' if it says nothing",
    ),
    # Summaries among seeds.
    (
        "n,error,seed\n16,0.5,1\n16,0.3,2\n16,0.4,mean\n",
        "'seed' has rows that sum up others (mean); pass filter={'seed': ['!mean']} to leave such "
        "rows out",
    ),
    # A remark.
    (
        "n,error,day,remark\n16,0.5,2024-01-01,\n64,0.3,1.2.2024,bad scan\n",
        "1 of 2 rows have a remark in 'remark', such as 'bad scan'; pass filter={'remark': ''} to "
        "leave these rows out, or ignore='remark' if it says nothing",
    ),
    # Repetitions without a seed.
    (
        "n,error,key\n64,0.3,c\n16,0.5,a\n16,0.4,b\n16,0.45,d\n",
        "N = 16 is there 3 times, and no column tells the seed; pass columns={'seed': 'key'} if "
        "rows repeat one model",
    ),
    # Repetitions of a table of sizes.
    (
        "seed,16,64,x\n1,0.3,0.2,5\n1,0.4,0.3,6\n",
        "a row is there 2 times, and no column tells the seed; pass columns={'seed': 'x'} if rows "
        "repeat one model",
    ),
    # Eleven summaries among seeds.
    (
        rows("n,error,seed", "16,0.5,1", *(f"16,0.5,mean {k}" for k in range(10, 21))),
        f"'seed' has rows that sum up others ({', '.join(f'mean {k}' for k in range(10, 20))}); "
        f"pass filter={{'seed': {[f'!mean {k}' for k in range(10, 20)]}}} to leave such rows out",
    ),
    # A model in some rows.
    (
        "n,error,model\n16,0.5,KO\n16,0.4,\n",
        "'model' is missing in some rows, as where cells are merged; name the model in every row",
    ),
    # Percent signs in some rows.
    (
        "n,error\n16,50%\n64,0.3\n",
        "column 'error': 1 of 2 values have percent signs; write all with or without",
    ),
    # Percent signs in all rows.
    ("n,error\n16,50%\n64,30%\n", in_percent("error", "error")),
    # A row of totals.
    (
        "n,error\n16,0.5\nTotal,0.5\n",
        "line 3, column 'n': 'Total' is no number; pass filter={'n': '!Total'} to leave such rows "
        "out",
    ),
    # A header again.
    (
        "n,error\n16,0.5\nn,error\n64,0.3\n",
        "line 3, column 'n': another head; save each table in a file of its own",
    ),
    # Nothing but empty cells.
    (
        "n,error\n16,\n64,\n",
        "holds no measurements but 2 empty cells left out; add rows with n and error",
    ),
]


@pytest.mark.parametrize(("text", "question"), QUESTIONS)
def test_a_question_names_what_is_unclear_and_every_answer(
    table: Table, text: str, question: str
) -> None:
    assert table.asked(text) == question


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
    answer("n,error\n16,0.3\n", "32 0.3", "n times 2", scale={"n": 2}),
    answer("n,error\n16,0.3\n", "16 0.6", "error times 2", scale={"error": 2}),
    answer("n,error\n16,0.3\n", "16 0.3", scale={"error": 1}),
    answer("n,error\n0.5,0.2\n", "50 0.2", "n times 100", scale={"n": 100}),
    # --- One column for each N ---
    answer(
        "name,16,64\nKO,0.3,0.2\nFC,0.4,0.3\n",
        {"KO": "16 0.3, 64 0.2", "FC": "16 0.4, 64 0.3"},
        "one column for each N; models from 'name'",
    ),
    answer(
        "name,n=16,N = 64\nseed 1,0.3,0.2\nseed 2,0.4,0.3\n",
        "16 0.3 seed 1, 16 0.4 seed 2, 64 0.2 seed 1, 64 0.3 seed 2",
        "one column for each N; seeds from 'name'",
    ),
    answer(
        "seed,16,64\n1,0.3,0.2\n2,0.4,0.3\n",
        "16 0.3 1, 16 0.4 2, 64 0.2 1, 64 0.3 2",
        "one column for each N",
    ),
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
        "values from 'mse', 'mae', 'loss', 'rmse', 'nmse'",
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
        "samples,train size,error\n5,16,0.3\n", "16 0.3", "N from 'train size'; not used: 'samples'"
    ),
    answer("n,size,error\na,16,0.3\nb,64,0.2\n", "16 0.3, 64 0.2", "N from 'size'; not used: 'n'"),
    answer(
        "Anzahl Bilder,mse\n16,0.3\n",
        "16 0.3",
        "N from 'Anzahl Bilder'; values from 'mse'",
        of="mse",
    ),
    answer("seed,16\n1,0.3\n", "16 0.3 1", "one column for each N", wide="n"),
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
        "n,KO_mse,KO/mse\n16,0.3,0.2\n",
        {"KO_mse": "16 0.3", "KO/mse": "16 0.2"},
        "one column for each model ('KO_mse', 'KO/mse')",
    ),
    answer(
        "n,KO (a),KO (b)\n16,0.3,0.2\n",
        {"KO (a)": "16 0.3", "KO (b)": "16 0.2"},
        "one column for each model ('KO (a)', 'KO (b)')",
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
    answer(
        "n,x,std\n16,0.3,0.1\n",
        "16 0.2 1, 16 0.3 2, 16 0.4 3",
        of="x",
        columns={"error": "x", "deviation": "std"},
        seeds=3,
    ),
    answer("n,mean,std\n16,0.3,0.1\n", "16 0.2 1, 16 0.3 2, 16 0.4 3", seeds=3),
    answer(
        "n,KO mean,KO std,FC mean,FC std\n16,0.3,0.1,0.5,0.2\n",
        {"KO mean": "16 0.2 1, 16 0.3 2, 16 0.4 3", "FC mean": "16 0.3 1, 16 0.5 2, 16 0.7 3"},
        "one column for each model ('KO mean', 'FC mean')",
        seeds=3,
    ),
    answer(
        "n,mse mean,mse std\n16,0.3,0.1\n",
        "16 0.2 1, 16 0.3 2, 16 0.4 3",
        "values from 'mse mean'",
        of="mse mean",
        seeds=3,
    ),
    answer("n,error\n16,0.5 ± 0.1\n64,0.3\n", "16 0.4 1, 16 0.5 2, 16 0.6 3, 64 0.3", seeds=3),
    answer(
        "n,error\n16,0.5 (0.1)\n",
        "16 0.8 1, 16 1 2, 16 1.2 3",
        "error times 2",
        seeds=3,
        scale={"error": 2},
    ),
    # --- Rows ---
    answer(EPOCHS, "16 0.4 1, 64 0.1 1", "the last 'epoch' of each run", last="epoch"),
    answer(EPOCHS, "16 0.3 1, 64 0.1 1", "the best 'epoch' of each run", best="epoch"),
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
            "no column 'datset', found 'n', 'error', 'dataset'; did you mean 'dataset'? name one "
            "of these",
        ),
        (
            DATASETS,
            {"columns": {"n": "errors"}},
            "no column 'errors', found 'n', 'error', 'dataset'; did you mean 'error'? needed are n "
            "and error, or n and one column per seed or model: pass columns={'n': 'error'}",
        ),
        (DATASETS, {"wide": "x"}, "wide must be one of seed, model, n, got 'x'"),
        (DATASETS, {"scale": {"seed": 2}}, "a key of scale must be one of n, error, got 'seed'"),
        (DATASETS, {"scale": {"n": "2"}}, "scale['n'] must be a number, got '2'; write one"),
        (DATASETS, {"columns": {"n": 2}}, "columns['n'] must be a column's name, got 2; write one"),
        (DATASETS, {"columns": "n"}, "columns must map our names to yours, got 'n'; pass a dict"),
        (
            "n [k],error (x 1e3)\n16,0.3\n",
            {"scale": {"n": 1000}},
            "'error (x 1e3)' may count in 'x 1e3'; pass scale={'error': 0.001} to multiply them",
        ),
        (
            "n,FC,KO (x 1e3)\n16,0.3,300\n64,0.2,200\n",
            {"scale": {"error": 0.001}},
            "'KO (x 1e3)' may count in other units than the other columns; pass scale={'error': 1}",
        ),
        ("n,error\n16,0.5 (0.1)\n", {"seeds": 1}, "'error std' has standard deviations"),
        ("n,error\n16,0.5 (0.1)\n", {"seeds": 1001}, "'error std' has standard deviations"),
        ("n,error\n16,0.5 (0.1)\n", {"seeds": 2.0}, "'error std' has standard deviations"),
    ],
)
def test_a_wrong_option_is_named(
    table: Table, text: str, options: dict[str, Any], question: str
) -> None:
    assert table.asked(text, **options).startswith(question)


@pytest.mark.parametrize(("wrong", "rest"), [(10, ""), (11, ", and 1 more"), (13, ", and 3 more")])
def test_ten_problems_are_named(table: Table, wrong: int, rest: str) -> None:
    text = rows("n,error", *(f"16,x{k}" for k in range(wrong)), *(f"{k},1" for k in range(2, 20)))
    question = table.asked(text)
    places = ", ".join(f"line {k + 2}, column 'error': 'x{k}' is no number" for k in range(10))
    assert question == f"{places}{rest}; write numbers as 64, 0.001 or 1e-3"


@pytest.mark.parametrize("seeds", [2, 7, 1000])
def test_seeds_behind_a_mean_have_its_mean_and_deviation(table: Table, seeds: int) -> None:
    table.path.write_text("n,error\n16,5 (0.25)\n", encoding="utf-8")
    curve = Curve.read(table.path, seeds=seeds)
    assert len(curve) == seeds
    assert curve.means == pytest.approx([5])
    assert np.std(curve.error, ddof=1) == pytest.approx(0.25)
    ordered = curve.error[np.argsort([int(seed) for seed in curve.seed])]
    assert np.all(np.diff(ordered) > 0)
    assert curve.seeds[0] == "1"


def test_a_name_that_is_too_long_for_a_message_is_not_told() -> None:
    assert short("x" * 80) == "x" * 80
    assert short("x" * 81) == "..."


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
        (range(2, 13), ", ".join(f"line {k + 1}" for k in range(2, 12)) + " and 1 more: changed"),
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
    ("text", "question"),
    [
        (
            risen("log mse", -1, -2),
            "column 'log mse' has logarithms; pass unit='log10', unit='ln', or unit='error'",
        ),
        (
            risen("decibel", 1, 2),
            "column 'decibel' is in decibels; pass unit='psnr' if larger is better, or "
            "unit='error_db'",
        ),
        (
            risen("accuracy", 0.5, 0.25),
            "of 'accuracy' larger is better, and its values fall with N; pass unit='error' if they "
            "are errors, or unit='accuracy' if that is right",
        ),
        (rows("n,dice", "16,50%", "64,60%"), in_percent("dice", "percent")),
        (
            risen("dice [%]", 0.5, 0.6),
            "column 'dice [%]' is in percent, and its values are at most 1; pass unit='dice' if 1 "
            "is perfect, or unit='percent' if 100 is perfect",
        ),
        (risen("dice [%]", 1, 1.5), in_percent("dice [%]", "percent")),
        (risen("KO", 0.5, 0.6), rising("KO", FRACTIONS)),
        (
            risen("KO", 0.5, 1, 1.5),
            rising("KO", "unit='percent' for scores up to 100, unit='psnr' for decibels"),
        ),
        (risen("KO", 0.5, 1), rising("KO", FRACTIONS)),
        (
            risen("KO", -3, -0.5),
            rising("KO", "unit='negated' for scores such as neg_mean_squared_error"),
        ),
        (risen("KO", -0.5, 0), rising("KO", FRACTIONS)),
        (
            risen("score", 0.5, 0.25),
            "column 'score' does not say whether larger is better; pass unit='accuracy' for "
            "fractions of 1, or unit='error'",
        ),
        (risen("1 - ssim", 0.25, 0.5), rising("1 - ssim", FRACTIONS)),
        (
            rows("n,error,unit", "16,0.5,dice", "64,0.6,psnr"),
            "has '' in units dice, psnr; write all in one",
        ),
        (
            rows("n,error,unit", "16,0.5,dice", "64,0.25,dice"),
            "its column unit says dice, of which larger is better, and values fall with N; pass "
            "unit='error', or unit='dice' if that is right",
        ),
    ],
)
def test_an_unclear_unit_is_asked_for(table: Table, text: str, question: str) -> None:
    assert table.asked(text) == question


def test_a_fraction_above_one_is_named_by_its_row(table: Table) -> None:
    question = table.asked(risen("dice", 0.5, 1, 1.5, 93))
    assert question.removeprefix(str(table.path)) == (
        ", line 4, column 'dice': 'dice' is 1.5, and fractions are at most 1; pass unit='percent' "
        "if 100 is perfect, or leave it out if it marks a missing value"
    )


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


def test_falling_values_of_a_score_may_be_called_errors(table: Table) -> None:
    table.path.write_text(risen("accuracy", 0.5, 0.25), encoding="utf-8")
    curve = Curve.read(table.path, unit="error")
    assert (curve.metric, curve.error.tolist()) == ("accuracy error", [0.5, 0.25])
    # Rising ones are not: the name stays, and is refused.
    table.path.write_text(risen("accuracy", 0.25, 0.5), encoding="utf-8")
    with pytest.raises(KoriskError, match="needs a unit in which larger is better"):
        Curve.read(table.path, unit="error")


@pytest.mark.parametrize(
    ("values", "rises"),
    [
        ([0.5, 0.6], True),
        ([0.5, 0.5], False),
        ([0.5, 0.4, 0.6], False),  # as often up as down
        ([0.5, 0.4, 0.55, 0.6], True),
        ([0.5, 0.7, 0.8, 0.4], False),  # the last is below the first
        ([0.5, 0.8, 0.7, 0.6], False),
    ],
)
def test_values_rise_by_their_ends_and_by_most_steps(
    table: Table, values: list[float], rises: bool
) -> None:
    text = risen("KO", *values)
    if rises:
        assert "its values rise with N" in table.asked(text)
    else:
        assert table.told(text)[0][0] == "KO"


def test_seeds_of_one_n_are_averaged_before_they_are_compared(table: Table) -> None:
    # Single values go up and down; the means of 0.5 and 0.55 rise.
    text = rows("n,KO,seed", "16,0.9,1", "16,0.1,2", "64,0.8,1", "64,0.3,2")
    assert "its values rise with N" in table.asked(text)
    assert math.isclose(0.55, (0.8 + 0.3) / 2)


@pytest.mark.parametrize("word", ["percent", "pct", "in percent", "percentage", "Prozent"])
def test_percent_in_words_is_asked_about_like_its_sign(table: Table, word: str) -> None:
    for sign, spelled in [
        ("error [%]", f"error [{word}]"),
        ("error [%]", f"error {word}"),
        ("test_error [%]", f"test_error_{word.replace(' ', '_')}"),
        ("KO error [%]", f"KO error {word}"),
        ("dice [%]", f"dice {word}"),
    ]:
        values = (60, 70) if "dice" in sign else (30, 20)
        expected = table.asked(risen(sign, *values)).replace(sign, spelled)
        assert table.asked(risen(spelled, *values)) == expected
    # The word is no model's name, whatever the answer.
    (curve,) = table.told(risen(f"KO error {word}", 30, 20), unit="error")
    assert curve[0] == "KO"


@pytest.mark.parametrize(
    ("head", "factor"),
    [("x1000", "0.001"), ("10^-3", "0.001"), ("1e-3", "0.001"), ("x100", "..."), ("1e4", "...")],
)
def test_only_thousands_have_a_factor_in_the_question(table: Table, head: str, factor: str) -> None:
    assert f"scale={{'error': {factor}}} to multiply" in table.asked(f"n,mse ({head})\n16,3\n")


@pytest.mark.parametrize("head", ["log_loss", "test log loss", "logloss"])
def test_the_log_loss_is_likelier_an_error_than_a_logarithm(table: Table, head: str) -> None:
    answers = table.asked(risen(head, 0.6, 0.5)).split("; pass ")[1]
    assert answers.startswith("unit='error' for the log loss")
    assert table.told(risen(head, 0.6, 0.5), unit="error")[0][2] == "16 0.6, 64 0.5"
    assert "has logarithms" in table.asked(risen("log mse", 0.6, 0.5))
